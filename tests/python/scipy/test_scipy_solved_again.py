"""Replays that go straight to SciPy and to the program of an equation give what the rule gives."""

import dataclasses
import enum
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from scipy import integrate, optimize

import cotan as ct
from cotan import _core
from cotan._src.kit.result_layout import take_apart
from cotan._src.scipy.integrate import quadrature
from cotan._src.scipy.optimize.plain_solve import PlainSolve

TIMES = np.linspace(0.0, 4.0, 12)


def decaying(t, a, b):
    return a * np.exp(-b * t)


def samples(p):
    return p[0] * np.exp(-p[1] * TIMES) + 0.05 * np.cos(7.0 * TIMES)


def system(p):
    return lambda v: [v[0] ** 2 + p[0] * v[1] - 2.0, v[0] * v[1] - p[1] * v[0]]


# All are functions of two numbers, which may be anywhere.
CALLS = {
    "brentq": lambda p: optimize.brentq(lambda x: x**3 + p[0] * x - p[1], -5.0, 5.0),
    "bisect, full": lambda p: (
        optimize.bisect(lambda x: x**3 + p[0] * x - p[1], -5.0, 5.0, full_output=True)[1].root
    ),
    "toms748, ends": lambda p: optimize.toms748(
        lambda x: x**3 + p[0] * x - p[1], -5.0 - p[0], 5.0 + p[1]
    ),
    "brentq, args": lambda p: optimize.brentq(
        lambda x, a, b: x**3 + a * x - b, -5.0, 5.0, args=(p[0], p[1])
    ),
    "newton": lambda p: optimize.newton(lambda x: x**3 + p[0] * x - p[1], 1.0),
    "newton, start": lambda p: optimize.newton(lambda x: x**3 + p[0] * x - p[1], p[1]),
    "newton, array": lambda p: np.sum(
        optimize.newton(lambda x: x**3 + p[0] * x - p[1], np.array([1.0, 2.0]))
    ),
    "root_scalar": lambda p: (
        optimize.root_scalar(lambda x: x**3 + p[0] * x - p[1], bracket=[-5.0, 5.0]).root
    ),
    "fsolve": lambda p: np.sum(optimize.fsolve(system(p), [1.0, 1.0]) ** 2),
    "fsolve, start": lambda p: np.sum(optimize.fsolve(system(p), p) ** 2),
    "fsolve, full": lambda p: optimize.fsolve(system(p), [1.0, 1.0], full_output=True)[0][0],
    "root": lambda p: np.sum(optimize.root(system(p), [1.0, 1.0]).x ** 2),
    "root, lm": lambda p: np.sum(optimize.root(system(p), [1.0, 1.0], method="lm").x ** 2),
    "curve_fit": lambda p: np.sum(optimize.curve_fit(decaying, TIMES, samples(p), [1.0, 1.0])[0]),
    "curve_fit, sigma": lambda p: np.sum(
        optimize.curve_fit(decaying, TIMES, samples(p), [1.0, 1.0], sigma=1.0 + p[0] * TIMES)[0]
    ),
    "curve_fit, places": lambda p: np.sum(
        optimize.curve_fit(decaying, TIMES * p[1], samples(p), p, ftol=1e-14, xtol=1e-14)[0]
    ),
    "curve_fit, bounds": lambda p: np.sum(
        optimize.curve_fit(decaying, TIMES, samples(p), [1.0, 1.0], bounds=([0, 0], [1.5, 9]))[0]
    ),
    "curve_fit, captured": lambda p: np.sum(
        optimize.curve_fit(lambda t, a, b: a * np.exp(-b * t) * p[1], TIMES, np.exp(-TIMES))[0]
    ),
    "quad": lambda p: integrate.quad(lambda x: np.exp(-p[0] * x) * np.sin(p[1] * x), 0.0, 3.0)[0],
    "quad, args": lambda p: integrate.quad(
        lambda x, a, b: np.exp(-a * x) * np.sin(b * x), 0.0, 3.0, args=(p[0], p[1])
    )[0],
    "quad, line": lambda p: integrate.quad(lambda x: np.exp(-p[0] * x**2) * p[1], 0.0, np.inf)[0],
    "quad, pieces": lambda p: integrate.quad(
        lambda x: 1.0 / (p[0] * x**2 + 1e-3 * p[1]), -1.0, 1.0, full_output=1
    )[0],
    "quad, ends": lambda p: integrate.quad(lambda x: np.exp(-p[0] * x), 0.0, p[1])[0],
}

POINTS = [np.array(v) for v in ([1.2, 0.8], [1.3, 0.8], [0.7, 1.1], [2.0, 1.4], [1.2, 0.8])]


@pytest.mark.parametrize("name", CALLS)
def test_replays_give_the_bits_of_a_run(name):
    f = CALLS[name]
    g = ct.prepare(f, POINTS[0], transform="value_and_gradient")
    for p in POINTS:
        expected = ct.value_and_gradient(f, p)
        found = g(p)
        assert np.float64(found[0]).tobytes() == np.float64(expected[0]).tobytes()
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("name", CALLS)
def test_slopes_are_those_of_differences(name):
    f = CALLS[name]
    g = ct.prepare(f, POINTS[0], transform="gradient")
    p, h = POINTS[2], 1e-4
    differences = [(f(p + h * e) - f(p - h * e)) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(g(p)[0], differences, rtol=2e-4, atol=1e-6)


STRAIGHT = [name for name in CALLS if name not in {"curve_fit, bounds", "quad, ends"}]


# What other tests have done to libraries decides whether anything is replayed unasked.
@pytest.mark.alone
@pytest.mark.parametrize("name", STRAIGHT)
def test_a_replay_does_not_go_through_the_rule(name, monkeypatch):
    f = CALLS[name]
    expected = [ct.gradient(f, p)[0] for p in POINTS]
    g = ct.prepare(f, POINTS[0])
    for _ in range(12):
        for p in POINTS:
            ct.gradient(f, p)

    def missed(*args, **kwargs):
        raise AssertionError("the rule runs")

    monkeypatch.setattr(PlainSolve, "attempt", missed)
    monkeypatch.setattr(quadrature, "_integrated_plainly", missed)
    for p, slopes in zip(POINTS, expected, strict=True):
        np.testing.assert_array_equal(ct.gradient(f, p)[0], slopes)
        np.testing.assert_array_equal(g(p)[0], slopes)


SCALE = 1.0


def test_a_global_that_changes():
    def f(p):
        return optimize.brentq(lambda x: SCALE * x**3 - p, 0.0, 9.0)

    g = ct.prepare(lambda p: optimize.brentq(lambda x: SCALE * x**3 - p, 0.0, 9.0), 2.0)
    for scale in (1.0, 3.0, 1.0):
        globals()["SCALE"] = scale
        try:
            np.testing.assert_allclose(g(2.5), ct.gradient(f, 2.5), rtol=1e-12)
        finally:
            globals()["SCALE"] = 1.0


def test_an_array_that_is_written_to_between_calls():
    weights = np.array([1.0, 2.0])

    def f(p):
        return optimize.brentq(lambda x: (weights * x**3).sum() - p, 0.0, 9.0)

    for _ in range(30):
        ct.gradient(f, 2.0)
    weights[0] = 5.0
    np.testing.assert_allclose(ct.gradient(f, 2.0), (2.0 / 7.0) ** (1 / 3) / 6.0, rtol=1e-9)


def test_what_a_function_writes_is_written_once():
    seen = []

    def f(p):
        def equation(x):
            seen.append(float(x))
            return x**3 - p

        return optimize.brentq(equation, 0.0, 9.0)

    def plain(p):
        return f(p)

    expected = []
    for p in (2.0, 2.5, 2.0):
        seen.clear()
        plain(p)
        expected.append(list(seen))
    for _ in range(10):
        for p, calls in zip((2.0, 2.5, 2.0), expected, strict=True):
            seen.clear()
            ct.gradient(f, p)
            assert seen[: len(calls)] == calls


def test_errors_are_those_of_a_run():
    def f(p):
        return optimize.brentq(lambda x: x**3 - p, 0.0, 2.0)

    g = ct.prepare(f, 2.0)
    g(3.0)
    for call in (g, lambda p: ct.gradient(f, p)):
        with pytest.raises(ValueError, match="must have different signs"):
            call(100.0)
    np.testing.assert_allclose(g(3.0), 3.0 ** (-2 / 3) / 3, rtol=1e-9)

    def divides(p):
        return optimize.brentq(lambda x: x**3 - 1.0 / p, 0.0, 2.0)

    g = ct.prepare(divides, 2.0)
    for call in (g, lambda p: ct.gradient(divides, p)):
        with pytest.raises((ZeroDivisionError, ValueError)):
            call(0.0)


def test_a_solver_that_stops_early_is_refused_in_replays():
    def f(p):
        with np.errstate(all="ignore"):
            return optimize.brentq(lambda x: x**3 - p, 0.0, 9.0, xtol=2.0, rtol=0.5)

    g = ct.prepare(f, 2.0, transform="value_and_gradient")
    for call in (lambda p: ct.gradient(f, p), g):
        with pytest.raises(ValueError, match="stopped before it reached a solution"):
            call(400.0)


def restricted(p):
    return integrate.quad(lambda x: np.sin(p * x**2), 0.0, 3.0, limit=4)[0]


def warnings_of(call, at):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call(at)
    return [(w.category, str(w.message), w.filename, w.lineno) for w in found]


@pytest.mark.alone
def test_an_integral_warns_as_scipy_does():
    expected = warnings_of(restricted, 30.0)
    assert [category for category, *_ in expected] == [integrate.IntegrationWarning]
    assert warnings_of(lambda p: ct.gradient(restricted, p), 30.0) == expected
    g = ct.prepare(restricted, 1.2)
    for _ in range(60):
        ct.gradient(restricted, 1.2)
    assert not warnings_of(g, 1.2)
    assert warnings_of(lambda p: ct.gradient(restricted, p), 30.0) == expected
    # It is recorded anew, and then repeated: that has no line of the function.
    assert {category for category, *_ in warnings_of(g, 30.0)} == {integrate.IntegrationWarning}


@pytest.mark.alone
def test_an_error_behind_a_warning_comes_without_it():
    def f(p):
        return integrate.quad(lambda x: np.exp(-p * x) * p, 0.0, 2.0)[0]

    g = ct.prepare(f, 1.2)
    for call in (g, lambda p: ct.gradient(f, p)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            with pytest.raises(ValueError, match="differs from the integral"):
                call(np.nan)
        assert not [w for w in found if w.category is integrate.IntegrationWarning]


def test_bounds_of_scipy_do_not_warn():
    def f(p):
        box = optimize.Bounds([0.0, 0.0], 9.0)
        return np.sum(optimize.curve_fit(decaying, TIMES, samples(p), [1.0, 1.0], bounds=box)[0])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        g = ct.prepare(f, POINTS[0])
        np.testing.assert_allclose(g(POINTS[1])[0], ct.gradient(f, POINTS[1])[0], rtol=1e-9)


def test_a_derivative_that_becomes_singular():
    def f(p):
        return optimize.bisect(lambda x: (x - 1.0) ** 3 * p + (p - 2.0) * (x - 1.0), 0.0, 2.0) * p

    g = ct.prepare(f, 4.0)
    np.testing.assert_allclose(g(3.0), ct.gradient(f, 3.0), atol=1e-12)
    for call in (g, lambda p: ct.gradient(f, p)):
        with pytest.raises(ValueError, match="singular"):
            call(2.0)


def test_the_covariance_is_differentiated_by_the_rule():
    def f(y):
        return np.sum(optimize.curve_fit(decaying, TIMES, y, [1.0, 1.0])[1])

    def with_errors(y, t):
        best, covariance = optimize.curve_fit(decaying, t, y, [1.0, 1.0])
        return np.sum(best * np.sqrt(np.diag(covariance)))

    y = samples(POINTS[0])
    g, both = ct.prepare(f, y), ct.prepare(with_errors, y, TIMES)
    for factor in (1.0, 1.1):
        np.testing.assert_allclose(g(factor * y), ct.gradient(f, factor * y), rtol=1e-9)
        at = factor * y, factor * TIMES
        for found, expected in zip(both(*at), ct.gradient(with_errors, *at), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_parameters_in_very_different_units():
    def f(p):
        best, _ = optimize.curve_fit(
            lambda t, a, b: 1e-9 * a * np.exp(-1e7 * b * t), TIMES, samples(p), [1e9, 1e-7]
        )
        return best[0] * 1e-9 + best[1] * 1e7

    same = CALLS["curve_fit"]
    g = ct.prepare(f, POINTS[0])
    for p in POINTS:
        np.testing.assert_allclose(g(p), ct.gradient(same, p), rtol=1e-4)


# --------------------------------------------------------------------------------------------------
# Results along a layout


class Pair(NamedTuple):
    left: object
    right: object


class Mode(enum.Enum):
    ONE = 1
    TWO = 2


@dataclasses.dataclass
class Record:
    x: object
    more: object = None


def results():
    vector = np.arange(3.0)
    return [
        1.0,
        True,
        3,
        2j,
        np.float64(1.0),
        np.float32(1.0),
        np.int64(3),
        vector,
        np.arange(3),
        (1.0, vector),
        [1.0, vector],
        (1.0, 2.0),
        (1.0, 2),
        (),
        [],
        {},
        {"a": 1.0, "b": vector},
        {"b": 1.0, "a": vector},
        {"a": 1.0},
        Pair(1.0, vector),
        (None, 1.0),
        ("text", 1.0),
        ("other", 1.0),
        (Mode.ONE, 1.0),
        (Mode.TWO, 1.0),
        Record(1.0),
        Record(1.0, "why"),
        Record(1.0, vector),
        optimize.OptimizeResult(x=vector, success=True, message="done"),
        optimize.OptimizeResult(x=vector, success=True, message="failed"),
        optimize.OptimizeResult(x=vector, success=1, message="done"),
        optimize.root_scalar(lambda x: x - 1.0, bracket=[0.0, 3.0]),
        optimize.root(lambda x: x - 1.0, 0.5),
    ]


@pytest.mark.parametrize("i", range(len(results())))
def test_leaves_of_results_that_are_built_alike(i):
    known, layout = take_apart(results()[i])
    assert _core.leaves_like(results()[i], *layout, ()) is not None
    for other in results():
        leaves, found = take_apart(other)
        like = _core.leaves_like(other, *layout, ())
        assert (like is not None) == (found == layout), (other, layout)
        if like is not None:
            assert len(like) == len(known)
            for a, b in zip(like, leaves, strict=True):
                np.testing.assert_array_equal(a, b)


def test_objects_that_are_there_twice_and_arrays_of_ours_are_taken_apart_by_python():
    item = [1.0]
    _, layout = take_apart((item, item))
    assert _core.leaves_like((item, item), *layout, ()) is None
    array = _core.asarray(np.ones(2))
    _, layout = take_apart((array, 1.0))
    assert _core.leaves_like((array, 1.0), *layout, ()) is None
    assert _core.leaves_like((array, 1.0), *layout, [array])[0] is array


@pytest.mark.parametrize(
    ("value", "shape", "dtype", "fits"),
    [
        (1.0, (), float, True),
        (1, (), float, False),
        (True, (), bool, True),
        (np.float32(1), (), np.float32, True),
        (np.float32(1), (), float, False),
        (np.ones(2), (2,), float, True),
        (np.ones((2, 1)), (2,), float, False),
        (np.ones(2, np.float32), (2,), float, False),
        (1.0, (1,), float, False),
        ("text", (), float, False),
    ],
)
def test_outputs_have_the_dtypes_and_shapes_of_the_first(value, shape, dtype, fits):
    assert _core.are_outputs([value], [(np.dtype(dtype), shape)], []) is fits
    assert not _core.are_outputs([value], [], [])


def test_outputs_that_have_to_be_finite():
    dtype = np.dtype(float)
    for value in (np.nan, np.inf, np.array([1.0, np.nan])):
        output = [(dtype, np.shape(value))]
        assert _core.are_outputs([value], output, [])
        assert not _core.are_outputs([value], output, [0])
    assert not _core.are_outputs([1.0], [(dtype, ())], [3])


def test_slopes_of_solutions_are_checked():
    one, square = np.ones(2), np.eye(2)
    found = _core.slopes_of_solution(one, 0 * one, 2 * square, [np.ones((2, 3)).T.copy().T], 0.01)
    np.testing.assert_array_equal(found, np.full((2, 3), -2.0))
    for x, rest, inverse, leaves in (
        (one, np.ones(3), square, [one]),
        (one, one, np.eye(3), [one]),
        (one, one, square, [np.ones(3)]),
        (np.ones(0), np.ones(0), np.ones((0, 0)), [np.ones(3)]),
        (np.ones(0), np.ones(0), np.ones((0, 0)), []),
    ):
        with pytest.raises(ValueError, match="shapes do not match"):
            _core.slopes_of_solution(x, rest, inverse, leaves, 0.01)
    with pytest.raises(ValueError, match="shapes do not match"):
        _core.regular_inverse(np.ones((2, 3)), 1e8)


class Growing(str):
    """A key that changes its dictionary when it is compared."""

    __slots__ = ()
    into: dict[object, object]

    def __eq__(self, other):
        self.into[len(self.into)] = 1.0
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_keys_that_change_their_dictionary():
    _, layout = take_apart({"a": 1.0, "b": 2.0})
    grown = {Growing("a"): 1.0, Growing("b"): 2.0}
    Growing.into = grown
    assert len(_core.leaves_like(grown, *layout, ())) == 2
