"""Gradients that are asked for again and again are replayed, if nobody can see a difference."""

import builtins
import functools
import io
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
import types
import weakref
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import pytest

import cotan as ct
from cotan import _core

STEPS = 40
OFTEN = 12
rate = 3.7
table = [0.5, 0.25]
weights = np.linspace(0.5, 1.0, 5)
settings = {"gain": 2.0}
calls = 0


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


def expected(f, *args):
    """Give the gradient of a function that has never run."""
    again = types.FunctionType(f.__code__.replace(), f.__globals__, f.__name__, f.__defaults__,
                               f.__closure__)  # fmt: skip
    return ct.gradient(again, *args)


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


def follows(f, change, x=0.3):
    """Check that a change is followed, before and after the function has been recorded."""
    replays(lambda: ct.gradient(f, x))
    for i in range(3):
        change(i)
        for _ in range(OFTEN):
            assert ct.gradient(f, x) == expected(f, x)


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
# What is run


def test_texts_and_files(capsys, tmp_path):
    def prints(x):
        x = logistic(x)
        print("called")
        return x

    def writes(x):
        with open(tmp_path / "log", "a") as file:
            file.write("called\n")
        return logistic(x)

    assert is_run(prints, 0.3)
    assert capsys.readouterr().out.count("called") == OFTEN
    assert is_run(writes, 0.3)
    assert (tmp_path / "log").read_text().count("called") == OFTEN


def test_counters_and_lists():
    seen, count = [], 0
    box = types.SimpleNamespace(count=0)
    buffer = np.zeros(3)

    def appends(x):
        seen.append(1)
        return logistic(x)

    def counts(x):
        nonlocal count
        count += 1
        return logistic(x)

    def counts_globally(x):
        global calls  # noqa: PLW0603
        calls += 1
        return logistic(x)

    def counts_in_a_box(x):
        box.count += 1
        return logistic(x)

    def fills(x):
        buffer[:] += 1
        return logistic(x)

    def counts_in_its_attribute(x):
        counts_in_its_attribute.count += 1
        return logistic(x)

    counts_in_its_attribute.count = 0
    before = calls
    for f in (appends, counts, counts_globally, counts_in_a_box, fills, counts_in_its_attribute):
        assert is_run(f, 0.3)
    assert len(seen) == count == calls - before == box.count == OFTEN
    assert buffer[0] == counts_in_its_attribute.count == OFTEN


def test_a_table_that_the_program_fills():
    known = {}

    def power(n):
        if n not in known:
            known[n] = 0.5**n
        return known[n]

    def f(x):
        for n in range(STEPS):
            x = x * 0.9 + power(n) * x * x
        return x

    replays(lambda: ct.gradient(f, 0.3))
    known.clear()
    assert ct.gradient(f, 0.3) == expected(f, 0.3)
    known.clear()
    ct.gradient(f, 0.3)
    assert len(known) == STEPS


def test_random_numbers_and_clocks():
    rng, old = np.random.default_rng(0), random.Random(0)

    def draws(x):
        return logistic(x) + np.random.rand()  # noqa: NPY002

    def draws_from_python(x):
        return logistic(x) + random.random()

    def draws_from_a_generator(x):
        return logistic(x) + rng.random()

    def draws_from_an_old_one(x):
        return logistic(x) + old.random()

    def reads_the_clock(x):
        return logistic(x) * time.perf_counter()

    def draws_by_another_name(x, m=np):
        return logistic(x) + m.random.rand()

    for f in (draws, draws_from_python, draws_from_a_generator, draws_from_an_old_one,
              reads_the_clock, draws_by_another_name):  # fmt: skip
        before = _core.num_automatic_replays()
        values = {ct.value_and_gradient(f, 0.3)[0] for _ in range(OFTEN)}
        assert len(values) == OFTEN
        assert _core.num_automatic_replays() == before
    np.random.seed(7)  # noqa: NPY002
    wanted = [np.random.rand() for _ in range(OFTEN)]  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    found = [float(ct.value_and_gradient(draws, 0.3)[0]) - logistic(0.3) for _ in range(OFTEN)]
    np.testing.assert_allclose(found, wanted)


def test_what_is_reached_by_computed_names():
    def f(x, name):
        return logistic(x) * getattr(math, name)(2.0)

    def g(x):
        return logistic(x) * eval("rate")

    before = _core.num_automatic_replays()
    for _ in range(OFTEN):
        assert ct.gradient(f, 0.3, wrt="x", name="sqrt") == expected(f, 0.3, ct.const("sqrt"))[:1]
        assert ct.gradient(f, 0.3, ct.const("sqrt")) == expected(f, 0.3, ct.const("sqrt"))
    assert is_run(g, 0.3)
    assert _core.num_automatic_replays() == before


def test_objects_and_functions_of_other_kinds():
    class Model:
        scale = 2.0

        def loss(self, x):
            return self.scale * logistic(x)

    model = Model()

    def captures(x):
        return model.loss(x)

    lock = threading.Lock()

    def waits(x):
        with lock:
            return logistic(x)

    assert is_run(captures, 0.3)
    assert is_run(waits, 0.3)
    assert is_run(model.loss, 0.3)


def test_callables_that_something_holds():
    class Log:
        out = print
        now = staticmethod(time.perf_counter)

    table, partial, space = [print], functools.partial(print, "x"), types.SimpleNamespace(log=print)
    clock, vector = functools.partial(time.perf_counter), np.vectorize(print)

    def of_list(x):
        table[0]("x")
        return logistic(x)

    def of_partial(x):
        partial()
        return logistic(x)

    def of_class(x):
        Log.out("x")
        return logistic(x)

    def of_static_method(x):
        return logistic(x) * Log.now()

    def of_namespace(x):
        space.log("x")
        return logistic(x)

    def of_keyword(x, *, log=print):
        log("x")
        return logistic(x)

    def of_clock(x):
        return logistic(x) * clock()

    def of_vector(x):
        vector(1)
        return logistic(x)

    before = _core.num_automatic_replays()
    for f in (of_list, of_partial, of_class, of_static_method, of_namespace, of_keyword, of_clock,
              of_vector):  # fmt: skip
        for _ in range(OFTEN):
            ct.gradient(f, 0.3)
        assert _core.num_automatic_replays() == before, f.__name__


def test_files_and_settings_of_numpy(tmp_path):
    from scipy.io import savemat

    save, data, path = np.save, np.array([1.0, 1 / 3]), tmp_path / "x"

    def saves(x):
        save(path, data)
        return logistic(x)

    def saves_matrix(x):
        savemat(path, {"x": data})
        return logistic(x)

    def dumps(x):
        data.dump(path)
        return logistic(x)

    def reads_the_clock(x):
        return logistic(x) * np.datetime64("now").astype(float)

    def draws(x):
        return logistic(x) * np.random.Generator(np.random.PCG64()).random()

    before = _core.num_automatic_replays()
    for f in (saves, saves_matrix, dumps, reads_the_clock, draws):
        for _ in range(OFTEN):
            ct.gradient(f, 0.3)
        assert _core.num_automatic_replays() == before, f.__name__

    def of_text(x):
        return logistic(x) * len(str(data))

    follows(of_text, lambda i: np.set_printoptions(precision=2 + i))
    np.set_printoptions(precision=8)


def test_methods_that_run_without_being_named():
    said = []

    class Loud:
        def __repr__(self):
            said.append("repr")
            return "loud"

    class Base:
        def __init_subclass__(cls):
            said.append("subclass")

    class Kind(Enum):
        A = 1

        @classmethod
        def _missing_(cls, value):
            said.append("missing")
            return cls.A

    def missing():
        said.append("default")
        return 0.0

    table = defaultdict(missing)

    def of_text(x):
        return logistic(x) + len(f"{Loud()!r}")

    def of_class(x):
        class Derived(Base):
            pass

        return logistic(x) + len(Derived.__mro__)

    def of_enum(x):
        return logistic(x) + Kind(7).value

    def of_table(x):
        value = table["a"]
        del table["a"]
        return logistic(x) + value

    for f in (of_text, of_class, of_enum, of_table):
        said.clear()
        assert is_run(f, 0.3)
        assert len(said) == OFTEN, f.__name__


def test_options_of_solvers(capfd):
    from scipy.optimize import fmin, least_squares, minimize

    options, more = {"disp": True}, {"verbose": 1}

    def square(v):
        return v[0] ** 2

    def minimizes(x):
        return logistic(x) + minimize(square, [0.5], options=options).fun

    def fits(x):
        return logistic(x) + least_squares(square, [0.5], **more).cost

    def finds(x):
        return logistic(x) + fmin(square, [0.5])[0]

    for f in (minimizes, fits, finds):
        assert is_run(f, 0.3)
        assert len(capfd.readouterr().out.splitlines()) % OFTEN == 0


def test_what_a_program_puts_in_the_place_of_others(monkeypatch):
    library = math

    def f(x):
        return logistic(x) + library.cos(0.0) + abs(-2.0)

    def again():
        return [ct.value_and_gradient(f, 0.3)[0] for _ in range(OFTEN)]

    first = again()
    assert len(set(first)) == 1
    library = types.SimpleNamespace(cos=lambda x: 3.0)
    np.testing.assert_allclose(again(), first[0] + 2.0, rtol=1e-12)
    library = np
    np.testing.assert_allclose(again(), first[0], rtol=1e-12)
    monkeypatch.setattr(builtins, "abs", lambda x: 7.0)
    np.testing.assert_allclose(again(), first[0] + 5.0, rtol=1e-12)


def test_values_that_are_no_computed_numbers():
    whole = np.array(2.0)

    def constant(x):
        logistic(x)
        return whole

    def itself(x):
        logistic(x)
        return x

    for f, x in (
        (constant, 0.3),
        (itself, np.array(0.3)),
        (itself, 0.3),
        (itself, np.float64(0.3)),
    ):
        results, _ = replays(lambda f=f, x=x: ct.value_and_gradient(f, x))
        assert {type(value) for value, _ in results} == {type(results[0][0])}


def test_warnings_and_errors_of_numpy():
    zeros = np.zeros(2)

    def warns(x):
        return logistic(x) + np.sum(np.exp(np.log(zeros)))

    for _ in range(OFTEN):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            ct.gradient(warns, 0.3)

    def ignores(x):
        return logistic(x) + np.sum(np.exp(np.log(zeros)))

    with np.errstate(divide="ignore"):
        assert is_run(ignores, 0.3)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        ct.gradient(ignores, 0.3)

    ones = np.ones(2)

    def divides(x):
        return logistic(x) + np.sum(1 / ones)

    replays(lambda: ct.gradient(divides, 0.3))
    ones[0] = 0.0
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        ct.gradient(divides, 0.3)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        ct.gradient(divides, 0.3)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers are POSIX")
def test_what_others_write_meanwhile_stays():
    written, count = [], 0

    def handler(*_):
        nonlocal count
        written.append(1)
        count += 1

    def f(x):
        for _ in range(STEPS):
            x = x * 0.9 + len(written) * 0.0
        return x + np.sum(np.unique(np.array([x, x + 1.0])))  # no replay gives this

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
    try:
        for i in range(20):
            f.__code__ = f.__code__.replace(co_name=f"f{i}")
            for _ in range(6):
                ct.gradient(f, 0.3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert len(written) == count


def test_objects_of_libraries_that_hold_arrays():
    from scipy.interpolate import CubicSpline
    from scipy.stats import norm

    spline = CubicSpline(np.arange(4.0), np.arange(4.0) ** 2)

    def of_spline(x):
        return logistic(x) * spline(0.5)

    def of_distribution(x):
        return logistic(x) * norm.cdf(0.3)

    assert is_run(of_spline, 0.3)
    assert not is_run(of_distribution, 0.3)


def test_many_functions_that_take_turns():
    functions = []
    for i in range(50):

        def f(x, scale=float(i)):
            return of_table(x) * scale

        f.__code__ = f.__code__.replace(co_name=f"f{i}")
        functions.append(f)
    first = [ct.gradient(f, 0.3) for f in functions]
    for _ in range(20):
        assert [ct.gradient(f, 0.3) for f in functions] == first


def test_short_functions_run():
    assert is_run(lambda x: x * x, 3.0)


def test_hooks_run_in_each_call():
    seen = []

    def f(x):
        return logistic(ct.hook(lambda ct_: seen.append(ct_), x))

    assert is_run(f, 0.3)
    assert len(seen) == OFTEN


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
    for i in range(100):

        def f(x, scale=float(i)):
            return logistic(x) * scale

        f.__code__ = f.__code__.replace(co_name=f"f{i}")
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
