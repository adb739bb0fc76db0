"""What tests of automatic replays ask: were calls replayed, are changes followed."""

import types

import numpy as np

import cotan as ct
from cotan import _core

STEPS = 40
OFTEN = 12


def replays(run, often=OFTEN):
    """Give the results of calls, and how many of them were replayed."""
    before = _core.num_automatic_replays()
    results = [run() for _ in range(often)]
    return results, _core.num_automatic_replays() - before


def is_run(f, *args):
    """Say whether no call of a gradient is replayed; the gradients are those of the first call."""
    results, count = replays(lambda: ct.gradient(f, *args))
    for result in results:
        for a, b in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(a, b)
    return count == 0


def expected(f, *args):
    """Give the gradient of a function that has never run."""
    again = types.FunctionType(f.__code__.replace(), f.__globals__, f.__name__, f.__defaults__,
                               f.__closure__)  # fmt: skip
    return ct.gradient(again, *args)


def follows(f, change, x=0.3):
    """Check that a change is followed, before and after the function has been recorded."""
    replays(lambda: ct.gradient(f, x))
    for i in range(3):
        change(i)
        for _ in range(OFTEN):
            assert ct.gradient(f, x) == expected(f, x)


def many(count):
    """Give functions that are alike, each with a code of its own."""
    for i in range(count):

        def f(x, scale=float(i)):
            for _ in range(STEPS):
                x = 0.5 * x + 0.25 * x * x
            return x * scale

        f.__code__ = f.__code__.replace(co_name=f"f{i}")
        yield f
