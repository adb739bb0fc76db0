"""Functions that a program keeps: in tables, default arguments, closures, attributes, partials."""

import cmath
import concurrent.futures
import contextvars
import copy
import dataclasses
import datetime as dt
import decimal
import fractions
import functools
import gc
import inspect
import itertools
import math
import operator
import os
import pickle
import statistics
import sys
import threading

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize

import cotan as ct
from cotan._src.runtime.registry import rule_of

X = np.array([0.7, 1.3, 0.4])

OPS = {"sin": math.sin, "pow": math.pow, "log": math.log, "fsum": math.fsum, "exp": cmath.exp}
NUMPY = {name: getattr(np, name) for name in ("asarray", "array", "mean", "stack", "where", "dot")}
NORM = np.linalg.norm
SOLVERS = {"lu": scipy.linalg.solve, "quad": scipy.integrate.quad}
MAKE = {"zeros": np.zeros, "full": np.full, "fromiter": np.fromiter}
SQUARED = functools.partial(math.pow, 2.0)
SINES = np.frompyfunc(math.sin, 1, 1)
HORNER = np.frompyfunc(lambda a, b: a * b + 1.0, 2, 1)
TWO = np.frompyfunc(lambda a, b: (a * b, math.exp(a) if a > 0.5 else b), 2, 2)


class Acts:
    act = math.tanh
    acts = (math.cos, math.erf)

    def __init__(self, reduce=np.sum, f=math.sqrt):
        self.reduce, self.f = reduce, f

    def __call__(self, xs):
        return self.reduce([self.f(x) for x in xs])


@dataclasses.dataclass
class Kept:
    f: object = math.exp


def filled(x):
    y = MAKE["zeros"](3)
    y[1] = x[0]
    return y.sum() + MAKE["full"](2, x[1]).sum() + MAKE["fromiter"]((v for v in x), float).sum()


def defaults(x, f=math.atan, *, g=math.expm1):
    return f(x) * g(x)


def closed(f):
    return lambda x: f(x) * x


CLOSED = closed(math.log1p)

PROGRAMS = {
    "table": lambda x: OPS["sin"](x[0]) + OPS["pow"](x[1], 2) + OPS["log"](x[2], 3),
    "keywords are none": lambda x: OPS["log"](x[2]),
    "complex": lambda x: abs(OPS["exp"](1j * x[0]) + x[1]),
    "default": lambda x: defaults(x[0]) + defaults(x[1], math.sin, g=math.cos),
    "closure": lambda x: CLOSED(x[0]) + closed(math.acosh)(x[1]),
    "class": lambda x: Acts.act(x[0]) + Acts.acts[0](x[1]) * Acts.acts[1](x[2]),
    "object": lambda x: Acts()(x) + Acts(math.fsum, math.sin)(x) + Kept().f(x[0]),
    "partial": lambda x: SQUARED(x[0]) + functools.partial(math.atan2, 1.0)(x[1]),
    "map": lambda x: sum(map(OPS["sin"], x)) + sum(itertools.starmap(math.hypot, [x])),
    "reduce": lambda x: functools.reduce(math.hypot, x),
    "generators": lambda x: OPS["fsum"](v * v for v in x) + math.prod((v for v in x), start=2.0),
    "dist": lambda x: math.dist((v for v in x), iter([3.0, 3.0, 3.0])),
    "mean of a list": lambda x: NUMPY["mean"]([x[0], x[1] ** 2]) + NORM([x[0], x[2]]),
    "lists": lambda x: NUMPY["where"]([True, False], [x[0], 1.0], list(x[1:])).sum(),
    "array": lambda x: NUMPY["asarray"]([x[0], 2.0])[0] * NUMPY["array"](x, float)[1],
    "array of a gradient's": lambda x: NUMPY["stack"]([x, NUMPY["asarray"](x)]).sum(),
    "product": lambda x: NUMPY["dot"]([x[0], 2.0], [x[1], x[2]]),
    "tables of SciPy's": lambda x: SOLVERS["lu"](np.diag(x), [x[1], 1.0, x[0]]).sum(),
    "quadrature": lambda x: SOLVERS["quad"](lambda t: t * x[0], 0.0, 1.0)[0],
    "tables of makers": filled,
    "ufunc of Python": lambda x: SINES(x).sum() + SINES(x[0]),
    "its methods": lambda x: (
        HORNER.reduce(x)
        + sum(HORNER.accumulate(np.outer(x, x), axis=1).ravel())
        + HORNER.outer(x, [1.0, 2.0]).sum()
        + HORNER.reduceat(x, [0, 2])[0]
    ),
    "two results": lambda x: sum(TWO(x, 2.0)[1]) + TWO(3.0, x[1])[0],
    "fractions": lambda x: x[0] * fractions.Fraction(1, 3) + fractions.Fraction(1, 2) * x[1],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_that_are_kept(name):
    f = PROGRAMS[name]
    value, (slope,) = ct.value_and_gradient(f, X)
    assert value == pytest.approx(float(f(X)), rel=1e-14)
    steps = 1e-6 * np.eye(3)
    expected = [(f(X + step) - f(X - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(slope, np.array(expected, float), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["table", "object", "generators", "mean of a list", "array"])
def test_prepared(name):
    f = PROGRAMS[name]
    g = ct.prepare(f, X)
    for factor in (1.0, 1.1):
        np.testing.assert_allclose(g(factor * X)[0], ct.gradient(f, factor * X)[0])


@pytest.mark.parametrize(
    "name",
    [
        *("mean", "geometric_mean", "harmonic_mean", "variance", "stdev", "pvariance", "pstdev"),
        *("median", "median_low"),
    ],
)
def test_statistics(name):
    f = lambda data: getattr(statistics, name)(data)
    value, (slope,) = ct.value_and_gradient(lambda x: f(v for v in x), X)
    assert value == pytest.approx(f(list(X)), rel=1e-14)
    expected = [(f(list(X + s)) - f(list(X - s))) / 2e-6 for s in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(slope, expected, rtol=1e-7, atol=1e-9)
    kept = []
    assert ct.gradient(lambda x: (kept.append(f([1, 2, 4])), x)[1], 1.0) == (1.0,)
    assert kept == [f([1, 2, 4])] and type(kept[0]) is type(f([1, 2, 4]))


def test_statistics_refuses_what_it_refuses():
    with pytest.raises(statistics.StatisticsError, match="two data points"):
        ct.gradient(lambda x: statistics.stdev([x]), 1.0)
    with pytest.raises(statistics.StatisticsError, match="does not match data size"):
        ct.gradient(lambda x: statistics.harmonic_mean([x, x], weights=[1.0]), 1.0)


def test_a_function_stays_what_it_is():
    before = {
        f: (hash(f), f.__name__, f.__doc__, repr(f)) for f in (math.sin, math.log, np.asarray)
    }
    names = {math.sin: "sin", math.log: "log", np.mean: "mean"}

    def f(x):
        assert all((hash(f), f.__name__, f.__doc__, repr(f)) == was for f, was in before.items())
        assert names[math.sin] == names[OPS["sin"]] == "sin" and math.sin is OPS["sin"]
        assert names[math.log] == "log" and math.sin == OPS["sin"] != math.cos
        assert inspect.signature(math.sin) == inspect.signature(math.cos)
        assert math.sin.__module__ == "math" and math.sin.__self__ is math
        with pytest.raises(TypeError, match="exactly one argument"):
            math.sin()
        with pytest.raises(TypeError, match="no keyword arguments"):
            math.sin(x=1.0)
        with pytest.raises(TypeError):
            math.log()
        return math.sin(x) + math.log(x)

    assert ct.gradient(f, 1.0)[0] == pytest.approx(math.cos(1.0) + 1.0)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: scipy.integrate.solve_ivp,
        lambda: scipy.integrate.odeint,
        lambda: scipy.optimize.brentq,
        lambda: scipy.linalg.solve,
    ],
)
def test_functions_of_scipy_are_equal_to_themselves(ask):
    """A program chooses by them: `def run(method=solve_ivp): if method == solve_ivp: ...`."""
    kept = ask()

    def f(x):
        asked = ask()
        assert asked == kept and kept == asked and not (asked != kept or kept != asked)
        assert asked in {kept: 1} and kept in {asked: 1} and kept in (scipy.linalg.inv, asked)
        assert asked != scipy.integrate.quad and scipy.linalg.inv != asked
        assert inspect.signature(asked) == inspect.signature(kept)
        assert (asked.__doc__, asked.__module__) == (kept.__doc__, kept.__module__)
        assert pickle.loads(pickle.dumps(asked)) == kept and copy.deepcopy(asked) == kept
        return x * x

    assert ct.gradient(f, 3.0) == (6.0,)


def test_plain_numbers_are_computed_as_ever():
    def f(x):
        for _ in range(100):  # so often that the interpreter takes its shorter ways
            assert math.sin(0.5) == 0.479425538604203 and math.log(9.0, 3) == 2.0
            assert math.hypot(3.0, 4.0) == 5.0 and math.isclose(1.0, 1.0 + 1e-12, rel_tol=1e-9)
            assert math.prod([2, 3], start=4) == 24 and type(math.prod([2, 3])) is int
            assert math.fsum([0.1] * 10) == 1.0 and math.fsum(v for v in (0.1,) * 10) == 1.0
            assert math.gcd(12, 18) == 6 and math.floor(2.5) == 2
        return x

    assert ct.gradient(f, 1.0) == (1.0,)


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda x: math.sin([x]), "real number, not list"),
        (lambda x: math.log(x, "a"), "real number, not str"),
        (lambda x: math.sin(x, x), r"sin.* takes exactly one argument \(2 given\)"),
        (lambda x: math.sin(x * np.ones(2)), r"must be a number, not an array of shape \(2,\)"),
        (lambda x: math.fsum([x], [x]), "fsum.* argument"),
        (lambda x: math.fsum(x), "iter"),
    ],
)
def test_what_is_no_call_of_theirs(f, said):
    with pytest.raises(TypeError, match=said):
        ct.gradient(f, 1.0)


def loop(sin, x):
    total = 0.0
    for _ in range(300):
        total = sin(x) + 0.0 * total
    return total


def test_code_that_ran_often_before_sees_traced_values_and_back():
    for _ in range(3):
        assert loop(math.sin, 0.5) == math.sin(0.5)
        assert ct.gradient(lambda x: loop(OPS["sin"], x), 0.5)[0] == pytest.approx(math.cos(0.5))


def test_tables_are_as_before_afterwards():
    before = {**SOLVERS}, {**MAKE}
    inside = []

    def f(x):
        inside.append({**MAKE})
        import colorsys  # noqa: F401 - what was loaded meanwhile is looked at again

        ct.gradient(lambda y: y * x, 1.0)
        return x

    sys.modules.pop("colorsys", None)
    ct.gradient(f, 1.0)
    assert before == ({**SOLVERS}, {**MAKE}) and SOLVERS["lu"] is scipy.linalg.solve
    assert MAKE["zeros"] is np.zeros and inside[0]["zeros"] == np.zeros
    assert type(MAKE["zeros"](2)) is np.ndarray


def test_outside_of_recordings_they_are_the_originals():
    kept = []
    ct.gradient(lambda x: (kept.append(x), x)[1], 1.0)
    with pytest.raises(TypeError, match="float"), ct.lifting(False):
        ct.gradient(lambda x: OPS["sin"](x), 1.0)
    assert OPS["sin"](np.float64(0.5)) == np.sin(0.5)
    assert NUMPY["mean"]([1.0, 2.0]) == 1.5


def test_other_threads_compute_meanwhile():
    stop, errors = threading.Event(), []

    def compute():
        while not stop.is_set():
            if OPS["sin"](0.5) != 0.479425538604203 or NUMPY["mean"]([1.0, 3.0]) != 2.0:
                errors.append("wrong")

    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            assert ct.gradient(lambda x: OPS["sin"](x), 0.0) == (1.0,)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors


def test_threads_that_help():
    def f(x):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return sum(pool.map(math.sin, x)) + pool.submit(math.log, x[0]).result()

    np.testing.assert_allclose(ct.gradient(f, X)[0], np.cos(X) + np.array([1 / X[0], 0.0, 0.0]))
    with pytest.raises(TypeError, match="drop the gradient"), ct.lifting(False):
        ct.gradient(lambda x: math.sin(x), 1.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_has_the_originals():
    def f(x):
        child = os.fork()
        if child == 0:
            ok = abs(ct.gradient(OPS["sin"], 0.5)[0] - math.cos(0.5)) < 1e-15
            os._exit(0 if ok and OPS["sin"](0.5) == 0.479425538604203 else 1)
        assert os.waitpid(child, 0)[1] == 0
        return OPS["sin"](x)

    assert ct.gradient(f, 0.0) == (1.0,)


def test_nothing_is_leaked():
    def f(x):
        return OPS["sin"](x) + OPS["log"](x + 2.0) + NUMPY["mean"]([x, x]) + OPS["fsum"]([x, x])

    ct.gradient(f, 0.5)
    gc.collect()
    before = [sys.getrefcount(o) for o in (math.sin, math.log, np.mean, math)]
    for _ in range(200):
        ct.gradient(f, 0.5)
    gc.collect()
    after = [sys.getrefcount(o) for o in (math.sin, math.log, np.mean, math)]
    assert all(abs(a - b) < 10 for a, b in zip(after, before, strict=True))


def test_classes_of_numbers_that_are_kept_stay_active():
    dtype = np.float64
    np.testing.assert_array_equal(ct.gradient(lambda x: dtype(x[0]), X)[0], [1.0, 0.0, 0.0])
    assert isinstance(operator.mul(dtype(2.0), 3.0), np.float64)


NUMBER = np.float32


@pytest.mark.parametrize(
    "f",
    [
        lambda x, dtype=np.float64: dtype(x),
        lambda x: NUMBER(x),
        lambda x: x.dtype.type(x),
        lambda x: np.dtype(complex).type(x).real,
    ],
)
def test_classes_of_numbers_under_other_names(f):
    for x in (np.float64(2.0), X):
        np.testing.assert_array_equal(ct.gradient(lambda x: np.sum(f(x)), x)[0], np.ones_like(x))
        with (
            ct.strict(),
            pytest.raises(TypeError, match=r"outside of ct\.strict\(\), \w+\(x\) stays"),
        ):
            ct.gradient(lambda x: np.sum(f(x)), x)
    assert ct.gradient(lambda x, dtype=np.float64: np.asarray(x, dtype)[()] ** 2, 3.0) == (6.0,)


@pytest.mark.parametrize("f", [lambda x: decimal.Decimal(x), lambda x: dt.timedelta(seconds=x)])
def test_what_takes_plain_numbers_says_what_to_write(f):
    with pytest.raises(TypeError, match=r"ct\.dropgrad\(x\)"):
        ct.gradient(f, 1.0)


def test_classes_that_are_derived_meanwhile():
    made = []

    def f(x):
        made.append(type("Own", (np.float64,), {}))
        return x

    ct.gradient(f, 1.0)
    assert made[0](1.5) + 1 == 2.5 and type(made[0](1.5)) is made[0]
    assert ct.gradient(lambda x: x * made[0](2.0), 1.0) == (2.0,)


def test_lists_in_lists_of_kept_functions_do_not_come_back():
    keep = {"equal": np.array_equal, "nonzero": np.nonzero, "fsum": math.fsum}
    ct.gradient(lambda x: x * keep["equal"]([(x, x)], [(x, x)]), 1.0)
    ct.gradient(lambda x: x * len(keep["nonzero"]([(x, x)])), 1.0)
    with pytest.raises(TypeError, match="must be real number, not list"):
        ct.gradient(lambda x: keep["fsum"]([[x]]), 1.0)


def test_other_threads_go_their_own_way():
    """One that does not record gets numbers from the functions that another one records."""
    found = []

    def f(x):
        def other():
            found.append(math.sin(ct.array(1.0)))
            items = iter([1.0, 2.0])
            found.append(math.fsum(items))

        thread = threading.Thread(target=contextvars.Context().run, args=(other,))
        thread.start()
        thread.join()
        return x * math.sin(x)

    ct.gradient(f, 1.0)
    assert found == [math.sin(1.0), 3.0] and type(found[0]) is float


def test_another_rule_in_the_place_of_an_earlier_one():
    keep = math.lgamma
    ct.gradient(lambda x: x * keep(x), 2.5)
    before = rule_of("math.lgamma")
    try:
        ct.lift(math, "lgamma", lambda x: 3.0 * x)
        assert ct.gradient(keep, 2.5) == (3.0,)
    finally:
        ct.lift(math, "lgamma", before)
    assert ct.gradient(keep, 2.5)[0] == pytest.approx(0.7031566406452432)
