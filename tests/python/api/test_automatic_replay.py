"""Gradients that are asked for again and again are replayed, if nobody can see a difference."""

import functools
import io
import math
import os
import subprocess
import sys
import threading
import weakref
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import pytest
from automatic_replays import OFTEN, STEPS, expected, follows, is_run, many, replays

import cotan as ct
from cotan import _core

rate = 3.7
table = [0.5, 0.25]
weights = np.linspace(0.5, 1.0, 5)
settings = {"gain": 2.0}
calls = 0


def logistic(x):
    for _ in range(STEPS):
        x = rate * x * (1 - x)
    return x


def of_table(x):
    for _ in range(STEPS):
        x = table[0] * x + table[1] * x * x
    return x


def of_weights(x):
    for _ in range(STEPS):
        x = x * 0.5 + np.sum(weights * x)
    return x


def of_settings(x):
    for _ in range(STEPS):
        x = x * settings["gain"] * 0.4
    return x


def step(x):
    return 0.9 * x * x + 0.1


def with_helper(x):
    for _ in range(STEPS):
        x = step(x)
    return x


# --------------------------------------------------------------------------------------------------
# What is replayed


@pytest.mark.parametrize("f", [logistic, of_table, of_weights, of_settings, with_helper])
def test_functions_that_only_compute(f):
    results, count = replays(lambda: ct.value_and_gradient(f, 0.3))
    assert count > 0
    assert set(results) == {results[0]}
    assert results[0][0] == f(0.3)
    for x in (0.1, 0.7, -0.2):
        assert ct.value_and_gradient(f, x) == (f(x), expected(f, x))


def test_each_way_to_ask():
    def f(x, y, z):
        for _ in range(STEPS):
            x = np.sin(x) * y
        return np.sum(x)

    x, y, z = np.linspace(0, 1, 3), 0.7, np.ones(2)
    for run in (
        lambda: ct.gradient(f, x, y, z),
        lambda: ct.gradient(f, x, ct.const(y), z),
        lambda: ct.gradient(f, x, y, z, wrt="x"),
        lambda: ct.gradient(f, x, y, z, wrt=(0, 1)),
        lambda: ct.value_and_gradient(f, x, y, z),
        lambda: ct.grad(f)(x, y, z),
        lambda: ct.grad(f, argnums=(0, 1))(x, y, z),
        lambda: ct.value_and_grad(f, argnums=1)(x, y, z),
    ):
        results, count = replays(run)
        assert count > 0
        for result in results:
            np.testing.assert_equal(result, results[0])
            assert str(result) == str(results[0])
    # Gradients that are full have zeros where nothing has an influence.
    results, count = replays(lambda: ct.grad(f, argnums=2)(x, y, z))
    for result in results:
        np.testing.assert_array_equal(result, [0.0, 0.0])


def test_structures_and_dtypes():
    def f(p):
        x = p["x"]
        for w in p["layers"]:
            for _ in range(STEPS):
                x = np.tanh(w * x)
        return np.sum(x)

    p = {"x": np.ones(3, np.float32), "layers": [np.float32(0.5), np.full(3, 0.25, np.float32)]}
    results, count = replays(lambda: ct.gradient(f, p))
    assert count > 0
    for (result,) in results:
        np.testing.assert_array_equal(result["x"], results[0][0]["x"])
        assert [type(a) for a in result["layers"]] == [type(a) for a in results[0][0]["layers"]]
        assert result["x"].dtype == np.float32


def test_arguments_that_are_filled_in():
    def f(x, scale, shift=0.0):
        for _ in range(STEPS):
            x = 0.5 * x * scale + shift
        return x

    half = functools.partial(f, scale=0.5)
    for run, wanted in (
        (lambda: ct.gradient(half, 2.0), 0.25**STEPS),
        (lambda: ct.gradient(functools.partial(f, scale=0.5), 2.0), 0.25**STEPS),
        (lambda: ct.gradient(f, 2.0, scale=1.0, shift=0.3), 0.5**STEPS),
        (lambda: ct.gradient(f, 2.0, scale=1.5, shift=0.3), 0.75**STEPS),
    ):
        results, count = replays(run)
        assert count > 0
        assert len(set(results)) == 1
        np.testing.assert_allclose(results[0][0], wanted)


def test_a_lambda_that_is_made_anew_in_each_turn():
    def fit(data, often):
        for _ in range(often):
            yield ct.gradient(lambda x: sum(logistic(x) * d for d in data), 0.3)

    before = _core.num_automatic_replays()
    first = list(fit([1.0, 2.0], OFTEN))
    assert _core.num_automatic_replays() > before
    # Other variables have other values.
    second = list(fit([1.0, 3.0], OFTEN))
    assert len(set(first)) == len(set(second)) == 1
    np.testing.assert_allclose(second[0][0], first[0][0] * 4 / 3)


def test_classes_of_the_program():
    class Body:
        def __init__(self, x, v):
            self.x, self.v = x, v

        def moved(self, by):
            self.x = self.x + by * self.v
            self.v = self.v - by * self.x
            return self

    @dataclass(frozen=True)
    class Step:
        size: float = 0.1

    class Kind(Enum):
        SLOW = 0.5

    class Point(NamedTuple):
        x: float
        v: float

    size = Step()

    def f(x):
        body = Body(x, 1.0)
        for _ in range(STEPS):
            body = body.moved(size.size * Kind.SLOW.value)
        point = Point(body.x, body.v)
        return point.x * point.v

    results, count = replays(lambda: ct.gradient(f, 0.3))
    assert count > 0
    assert set(results) == {results[0]}


def test_random_numbers_of_a_seed():
    def f(x):
        rng = np.random.default_rng(3)
        for _ in range(STEPS):
            x = x * 0.9 + rng.random() + np.sum(rng.normal(size=3))
        return x * x

    results, count = replays(lambda: ct.gradient(f, 0.3))
    assert count > 0
    assert set(results) == {results[0]}


# --------------------------------------------------------------------------------------------------
# What changes between the calls


def test_what_is_captured(monkeypatch):
    here = globals()
    monkeypatch.setitem(here, "table", [0.5, 0.25])
    monkeypatch.setitem(here, "weights", weights.copy())
    monkeypatch.setitem(here, "settings", dict(settings))
    monkeypatch.setitem(here, "step", step)
    monkeypatch.setitem(here, "rate", rate)
    follows(logistic, lambda i: here.__setitem__("rate", 3.0 + 0.1 * i))
    follows(of_table, lambda i: here["table"].__setitem__(1, 0.1 * i))
    follows(of_weights, lambda i: here["weights"].__setitem__(2, 0.01 * i), 0.003)
    follows(of_settings, lambda i: here["settings"].__setitem__("gain", 2.0 + i))
    follows(with_helper, lambda i: here.__setitem__("step", lambda x, i=i: 0.5 * x * x + 0.1 * i))


def test_functions_of_libraries_that_are_replaced(monkeypatch):
    def f(x):
        for _ in range(STEPS):
            x = math.sin(x) + np.cos(x)
        return x

    before = ct.gradient(f, 0.3)
    _, count = replays(lambda: ct.gradient(f, 0.3))
    assert count > 0
    monkeypatch.setattr(math, "sin", lambda x: 2.0 * x)
    found, _ = replays(lambda: ct.gradient(f, 0.3))
    assert set(found) == {expected(f, 0.3)}
    assert found[0] != before


def test_libraries_that_are_reached_in_other_ways(monkeypatch):
    library = math

    def of_cell(x):
        return logistic(x) * library.sin(1.0)

    def of_default(x, m=math):
        return logistic(x) * m.sin(1.0)

    def of_import(x):
        import math as m

        return logistic(x) * m.sin(1.0)

    functions = (of_cell, of_default, of_import)
    for f in functions:
        assert not is_run(f, 0.3)
    before = [ct.gradient(f, 0.3)[0] for f in functions]
    monkeypatch.setattr(math, "sin", lambda x: 2.0)
    for f, was in zip(functions, before, strict=True):
        for _ in range(OFTEN):
            np.testing.assert_allclose(ct.gradient(f, 0.3)[0], was * 2.0 / np.sin(1.0))


def test_the_way_that_the_code_takes():
    def f(x):
        count = 0
        while x < 100.0:
            x, count = 1.1 * x + 0.1, count + 1
        return x * count

    replays(lambda: ct.gradient(f, 0.3))
    for x in (0.3, 0.31, 5.0, 0.01, 99.0, 0.3):
        for _ in range(OFTEN):
            assert ct.gradient(f, x) == expected(f, x)


def test_arguments_of_other_shapes_and_kinds():
    def f(x):
        for _ in range(STEPS):
            x = x * 0.9 + np.sum(x) * 0.01
        return np.sum(x)

    x = np.ones(4)
    replays(lambda: ct.gradient(f, x))
    for other in (np.ones(5), np.ones((2, 2)), np.ones(4, np.float32), 1.0, np.float64(1.0), x[::2],
                  ct.array([1.0, 2.0])):  # fmt: skip
        for _ in range(OFTEN):
            (found,), (wanted,) = ct.gradient(f, other), expected(f, other)
            assert type(found) is type(wanted)
            assert np.asarray(found).dtype == np.asarray(wanted).dtype
            np.testing.assert_array_equal(found, wanted)


def test_a_function_whose_ways_never_come_again_runs():
    rng = np.random.default_rng(0)

    def f(x):
        for _ in range(STEPS):
            x = x * 1.5 if x < 1.0 else 0.3 * x
        return x

    before = _core.num_automatic_replays()
    for _ in range(100):
        x = float(rng.uniform(0.01, 0.9))
        assert ct.gradient(f, x) == expected(f, x)
    assert _core.num_automatic_replays() - before < 100


# --------------------------------------------------------------------------------------------------
# Where it is called


def test_inside_of_other_transforms():
    replays(lambda: ct.grad(of_table)(0.3))
    second = ct.grad(ct.grad(of_table))(0.3)
    np.testing.assert_allclose(ct.hessian(of_table, 0.3), second, rtol=1e-12)
    h = 1e-5
    slope = (ct.grad(of_table)(0.3 + h) - ct.grad(of_table)(0.3 - h)) / (2 * h)
    np.testing.assert_allclose(second, slope, rtol=1e-6)
    program = ct.trace(ct.grad(of_table), 0.3)
    assert float(program(0.3)) == ct.grad(of_table)(0.3)


def test_where_a_device_has_been_used():
    replays(lambda: ct.gradient(of_weights, 0.3))
    prepared = ct.prepare(of_weights, 0.3)
    expected = prepared(0.3)
    with ct.use("cpu"):
        before = _core.num_automatic_replays()
        assert ct.gradient(of_weights, 0.3) == expected
        assert prepared(0.3) == expected
        assert _core.num_automatic_replays() == before
    replays(lambda: ct.gradient(of_weights, 0.3))
    assert prepared(0.3) == expected


def test_lines_that_somebody_watches():
    replays(lambda: ct.gradient(logistic, 0.3))
    seen = []

    def trace(frame, event, arg):
        if frame.f_code is logistic.__code__:
            seen.append(event)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        ct.gradient(logistic, 0.3)
    finally:
        sys.settrace(before)
    assert seen


def test_profiles_and_searches_for_nan():
    if sys.gettrace() is not None:
        pytest.skip("somebody watches the lines")
    _, count = replays(lambda: ct.gradient(logistic, 0.3))
    assert count > 0
    before = _core.num_automatic_replays()
    with ct.profile():
        ct.gradient(logistic, 0.3)
    with ct.detect():
        ct.gradient(logistic, 0.3)
    with ct.strict():
        ct.gradient(logistic, 0.3)
    assert _core.num_automatic_replays() == before


def test_errors_are_those_of_a_run():
    class TooLargeError(Exception):
        pass

    def f(x):
        for _ in range(STEPS):
            x = math.sqrt(x) + 0.1
        if x > 1e3:
            raise TooLargeError(x)
        return x

    def g(x):
        for _ in range(STEPS):
            x = 2.0 * x
        if x > 1e20:
            raise TooLargeError
        return x

    replays(lambda: ct.gradient(f, 0.3))
    for _ in range(OFTEN):
        with pytest.raises(ValueError, match="math domain error"):
            ct.gradient(f, -0.3)
    replays(lambda: ct.gradient(g, 0.3))
    for _ in range(OFTEN):
        with pytest.raises(TooLargeError):
            ct.gradient(g, 1e15)
    with pytest.raises(TypeError, match="argument"):
        ct.gradient(f, 0.3, 0.4)
    with pytest.raises(ct.NotDifferentiableError):
        ct.gradient(f, "0.3")


def test_arguments_stay_as_they_are():
    def f(x):
        for i in range(1, STEPS):
            x[i] = x[i - 1] * 0.9 + x[i]
        return x[-1]

    x = np.ones(STEPS)
    results, _ = replays(lambda: ct.gradient(f, x))
    assert np.all(x == 1.0)
    wanted = results[0][0].copy()
    for (result,) in results:
        np.testing.assert_array_equal(result, wanted)
        result[:] = 0.0  # a caller's own array


def test_threads():
    def f(x):
        for _ in range(STEPS):
            x = 0.9 * np.sin(x) + 0.1
        return np.sum(x)

    x = np.linspace(0.0, 1.0, 3)
    (wanted,), wrong = ct.gradient(f, x), []

    def work():
        for _ in range(50):
            (found,) = ct.gradient(f, x)
            if not np.array_equal(found, wanted):
                wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is POSIX")
def test_children_of_a_fork():
    (wanted,) = ct.gradient(logistic, 0.3)
    replays(lambda: ct.gradient(logistic, 0.3))
    child = os.fork()
    if child == 0:
        os._exit(int(any(ct.gradient(logistic, 0.3)[0] != wanted for _ in range(OFTEN))))
    assert os.waitpid(child, 0)[1] == 0


# --------------------------------------------------------------------------------------------------
# What is kept


def test_few_functions_are_kept():
    kept = []
    for f in many(100):
        kept.append(weakref.ref(f))
        replays(lambda f=f: ct.gradient(f, 0.3), 8)
    del f
    assert sum(ref() is not None for ref in kept) <= 40
    _core.forget_repeated_functions()
    assert sum(ref() is not None for ref in kept) <= 1


def test_large_arrays_are_not_kept():
    data = np.ones(1 << 18)

    def f(x):
        for _ in range(STEPS):
            x = x * 0.9 + np.sum(data[:3]) * 0.1  # noqa: F821
        return x

    assert is_run(f, 0.3)
    seen = weakref.ref(data)
    del data, f
    assert seen() is None


def test_what_takes_long_to_look_at_is_run():
    table = {i: (i, float(i)) for i in range(5_000)}
    numbers = [float(i) for i in range(5_000)]

    def of_table(x):
        return logistic(x) * table[3][1]

    def of_numbers(x):
        return logistic(x) * numbers[3]

    def of_leaves(p):
        return logistic(p[3]) * p[4]

    assert is_run(of_table, 0.3)
    assert is_run(of_numbers, 0.3)
    before = _core.num_automatic_replays()
    for _ in range(OFTEN):
        ct.gradient(of_leaves, numbers)
    assert _core.num_automatic_replays() == before


def test_switched_off(tmp_path):
    code = """
import cotan as ct
from cotan import _core
def f(x):
    for _ in range(100):
        x = 0.9 * x + 0.1
    return x
for _ in range(20):
    ct.gradient(f, 0.3)
print(_core.num_automatic_replays())
"""
    told = {}
    for value in ("0", "1", "always"):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env={**os.environ, "COTAN_REPLAY": value}, check=True)  # fmt: skip
        told[value] = int(done.stdout)
    assert told["0"] == 0 < told["1"] < told["always"] == 19


def test_nothing_is_written_to_streams():
    stream = io.StringIO()

    def f(x):
        stream.write("x")
        return logistic(x)

    assert is_run(f, 0.3)
    assert stream.getvalue() == "x" * OFTEN


def test_rules_of_libraries_come_and_go():
    def f(x):
        for _ in range(STEPS):
            x = 0.99 * x
        return np.linalg.norm(x)

    def sevenfold(x):
        return np.linalg.norm(x), lambda ct: (7.0 * ct * np.ones(x.shape),)

    x = np.array([3.0, 4.0])
    (results, count) = replays(lambda: ct.gradient(f, x))
    assert count > 0
    with ct.adjoint(np.linalg.norm, sevenfold):
        ruled, _ = replays(lambda: ct.gradient(f, x))
        for (found,) in ruled:
            np.testing.assert_allclose(found, np.full(2, 7.0 * 0.99**STEPS))
    for (found,) in replays(lambda: ct.gradient(f, x))[0]:
        np.testing.assert_array_equal(found, results[0][0])
