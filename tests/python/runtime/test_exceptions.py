"""Exceptions in `f`, of operations and at the end of the stack: as they are, where they are."""

import contextlib
import gc
import math
import traceback
import weakref

import numpy as np
import pytest
from test_faults import run

import cotan as ct


class Own(BaseException):
    """Not even an Exception."""


def raises(error):
    def f(x):
        np.sin(x)
        raise error  # the user's line

    return f


@pytest.mark.parametrize(
    "kind", [ValueError, KeyError, Own, SystemExit, KeyboardInterrupt, StopIteration, MemoryError]
)
@pytest.mark.parametrize(
    "call",
    [
        lambda f: ct.gradient(f, 1.0),
        lambda f: ct.value_and_gradient(f, np.ones(3)),
        lambda f: ct.pullback(f, np.ones(3)),
        lambda f: ct.grad(f)(1.0),
        lambda f: ct.value_and_grad(f)(1.0),
        lambda f: ct.trace(f, np.ones(3)),
        lambda f: ct.gradient(lambda x: ct.gradient(f, x)[0] * x, 1.0),
    ],
    ids=["gradient", "value_and_gradient", "pullback", "grad", "value_and_grad", "trace", "nested"],
)
def test_an_exception_in_f_arrives_as_it_is(call, kind):
    error = kind("mine")
    with pytest.raises(kind) as caught:
        call(raises(error))
    assert caught.value is error
    assert caught.value.__cause__ is None
    assert "raise error  # the user's line" in traceback.format_tb(caught.tb)[-1]
    assert ct.isderiving() is False
    assert ct.gradient(lambda x: x * x, 3.0) == (6.0,)


def test_an_inner_exception_that_is_handled_leaves_the_outer_recording():
    def f(x):
        y = np.sin(x)
        with contextlib.suppress(ValueError):
            ct.gradient(raises(ValueError("inner")), x)
        assert ct.isderiving()
        return y * x

    assert ct.gradient(f, 0.5) == (pytest.approx(0.5 * math.cos(0.5) + math.sin(0.5), rel=1e-15),)


def test_an_error_of_an_operation_points_at_the_users_line():
    def f(x):
        y = x * 2.0
        z = y + np.ones(4)  # does not fit
        return np.sum(z)

    with pytest.raises(ValueError, match=r"\(3,\).*\(4,\)") as caught:
        ct.gradient(f, np.ones(3))
    lines = "".join(traceback.format_tb(caught.tb))
    assert "# does not fit" in lines
    assert ct.isderiving() is False


def test_an_exception_keeps_no_memory():
    watches = []

    class Big(np.ndarray):
        pass

    plain = np.ones(1000)

    def f(x):
        big = plain.view(Big)
        watches.append(weakref.ref(big))
        y = x * np.asarray(big)
        raise ValueError(y.shape)

    for _ in range(5):
        with pytest.raises(ValueError, match="1000"):
            ct.gradient(f, np.ones(1000))
    gc.collect()
    assert [watch() for watch in watches] == [None] * 5


def test_a_failed_pullback_can_be_asked_again():
    _, back = ct.pullback(np.sin, np.zeros(3))
    with pytest.raises(ValueError, match=r"\(4,\)"):
        np.asarray(back(np.ones(4))[0])
    np.testing.assert_array_equal(np.asarray(back(np.ones(3))[0]), np.ones(3))


def test_endless_recursion_in_f_is_a_recursion_error():
    def f(x):
        return f(np.sin(x))

    with pytest.raises(RecursionError):
        ct.gradient(f, 1.0)
    assert ct.isderiving() is False
    assert ct.gradient(lambda x: x * x, 3.0) == (6.0,)


def test_at_the_end_of_the_stack_there_is_a_value_or_a_recursion_error():
    run("""
    def h(x):
        table = np.outer(x, x).reshape(-1) + np.quantile(x, 0.3)
        return np.sum(np.linalg.solve(np.eye(3) + table.reshape(3, 3), np.array([x[0], 1.0, 2.0])))

    found = set()

    def down():
        try:
            found.add(tuple(ct.gradient(h, np.arange(1.0, 4.0))[0]))
        except RecursionError:
            pass
        down()

    for limit in range(200, 250, 7):
        sys.setrecursionlimit(limit)
        try:
            down()
        except RecursionError:
            pass
        sys.setrecursionlimit(1000)
    assert found == {tuple(ct.gradient(h, np.arange(1.0, 4.0))[0])}, found
    check()
    """)


def test_generators_that_record_may_be_dropped_half_way():
    def values(x):
        while True:
            x = x * 2.0
            yield x

    def f(x):
        source = values(x)
        return next(source) + next(source)

    assert ct.gradient(f, 1.0) == (6.0,)


def test_a_traced_array_that_escapes_is_still_its_value():
    escaped = []

    def f(x):
        escaped.append(np.sin(x))
        return np.sum(x)

    x = np.ones(3)
    ct.gradient(f, x)
    assert ct.isderiving() is False
    np.testing.assert_allclose(np.asarray(ct.dropgrad(escaped[0])), np.sin(x), rtol=1e-15)
