"""Roots, minima, fits and integrals that SciPy finds on a plain copy of the user's function."""

import threading

import numpy as np
import pytest
from scipy import integrate, optimize

import cotan as ct
from cotan import _core
from cotan._src.state.plain_copy import PlainCallback

X = np.linspace(0.0, 4.0, 30)
Y = 2.5 * np.exp(-1.3 * X) + 0.5 + 0.05 * np.sin(40 * X)


@pytest.fixture
def taken(monkeypatch):
    """Note for each run whether the copy did."""
    notes = []
    run = PlainCallback.run

    def noting(self, *args):
        found = run(self, *args)
        notes.append(found is not None)
        return found

    monkeypatch.setattr(PlainCallback, "run", noting)
    return notes


def equation(x, p):
    return x * np.exp(x) - p


def system(v, p):
    return [v[0] * np.cos(v[1]) - p, v[0] * v[1] - v[1] - 0.4 * p]


def slopes(v, p):
    return np.array([[np.cos(v[1]), -v[0] * np.sin(v[1])], [v[1], v[0] - 1.0]])


def valley(v, p):
    return np.sum(10.0 * (v[1:] - v[:-1] ** 2) ** 2 + (p - v[:-1]) ** 2) + np.sum(v**4)


def decay(x, a, b, c):
    return a * np.exp(-b * x) + c


SOLVERS = {
    "bisect": lambda p: optimize.bisect(equation, 0.0, 3.0, args=p),
    "brentq": lambda p: optimize.brentq(lambda x: equation(x, p), 0.0, 3.0),
    "brentq, a report": lambda p: (
        optimize.brentq(lambda x: equation(x, p), 0.0, 3.0, full_output=True)[1].root
    ),
    "newton": lambda p: optimize.newton(lambda x: equation(x, p), 1.0),
    "newton with a slope": lambda p: optimize.newton(
        equation, 1.0, lambda x, p: (1 + x) * np.exp(x), args=(p,)
    ),
    "newton for arrays": lambda p: np.sum(
        optimize.newton(lambda x: equation(x, p * np.array([1.0, 2.0])), np.ones(2))
    ),
    "root_scalar": lambda p: (
        optimize.root_scalar(lambda x: equation(x, p), bracket=[0.0, 3.0]).root
    ),
    "root_scalar with a slope": lambda p: (
        optimize.root_scalar(
            lambda x: (equation(x, p), (1 + x) * np.exp(x)), x0=1.0, fprime=True
        ).root
    ),
    "minimize_scalar": lambda p: (
        optimize.minimize_scalar(lambda x: (x * x - p) ** 2 + x, bracket=(0.5, 2.0)).x
    ),
    "minimize_scalar, the value": lambda p: (
        optimize.minimize_scalar(
            lambda x, p: (x * x - p) ** 2 + x, bounds=(0, 3), method="bounded", args=(p,)
        ).fun
    ),
    "leastsq": lambda p: np.sum(
        optimize.leastsq(lambda v: decay(X, *v) - p * Y, [2.0, 1.0, 0.0], xtol=1e-13)[0]
    ),
    "leastsq, the covariance": lambda p: np.sum(
        optimize.leastsq(
            lambda v: decay(X, *v) - p * Y, [2.0, 1.0, 0.0], full_output=True, xtol=1e-13
        )[1]
    ),
    "fsolve": lambda p: np.sum(optimize.fsolve(lambda v: system(v, p), [1.0, 1.0])),
    "fsolve with slopes": lambda p: (
        optimize.fsolve(system, [1.0, 1.0], args=(p,), fprime=slopes, full_output=True)[0][1]
    ),
    "root": lambda p: np.sum(optimize.root(lambda v: system(v, p), [1.0, 1.0], tol=1e-12).x),
    "root with slopes": lambda p: (
        optimize.root(lambda v: (system(v, p), slopes(v, p)), [1.0, 1.0], jac=True).x[0]
    ),
    "minimize": lambda p: np.sum(optimize.minimize(lambda v: valley(v, p), np.zeros(3)).x),
    "minimize, the value": lambda p: optimize.minimize(valley, np.zeros(3), args=(p,)).fun,
    "minimize with bounds": lambda p: np.sum(
        optimize.minimize(lambda v: valley(v, p), np.zeros(3), bounds=[(None, 0.3)] * 3).x
    ),
    "minimize at all bounds": lambda p: np.sum(
        optimize.minimize(lambda v: np.sum((v - p - 5.0) ** 2), [0.0], bounds=[(0, 1)]).x * p
    ),
    "least_squares": lambda p: np.sum(
        optimize.least_squares(
            lambda v, p: decay(X, *v) - p * Y, [2.0, 1.0, 0.0], args=(p,), xtol=1e-12
        ).x
    ),
    "least_squares, the cost": lambda p: (
        optimize.least_squares(
            lambda v: decay(X, v[0], v[1], v[2]) - p * Y,
            [2.0, 1.0, 0.0], loss="soft_l1", f_scale=0.1, bounds=([0, 0, -1], [9, 9, 9]),
        ).cost
    ),
    "curve_fit": lambda p: np.sum(optimize.curve_fit(decay, X, p * Y, [2.0, 1.0, 0.0])[0]),
    "curve_fit, the covariance": lambda p: (
        100 * optimize.curve_fit(decay, X, p * Y, [2.0, 1.0, 0.0])[1][0, 0]
    ),
    "curve_fit of less": lambda p: (
        optimize.curve_fit(lambda x, a, b: p * a * np.exp(-b * x), X, Y, sigma=1 + p * X)[0][1]
    ),
    "quad": lambda p: integrate.quad(lambda x: np.exp(-p * x) * np.sin(x), 0.0, 3.0)[0],
    "quad to infinity": lambda p: integrate.quad(lambda x: np.exp(-p * x**2), 0.0, np.inf)[0],
    "quad over the line": lambda p: (
        integrate.quad(lambda x, q: np.exp(-q * (x - 1) ** 2), -np.inf, np.inf, args=p)[0]
    ),
    "quad to a moving end": lambda p: integrate.quad(np.cos, 0.0, p)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", SOLVERS)
def test_agrees_with_differences(taken, name):
    f, p, step = SOLVERS[name], 1.3, 1e-4
    value, (found,) = ct.value_and_gradient(f, p)
    assert taken == [True]
    assert value == pytest.approx(f(p), rel=1e-14)
    high, low, higher, lower = (f(p + s * step) for s in (1, -1, 2, -2))
    expected = (8 * (high - low) - (higher - lower)) / (12 * step)
    # Solvers stop at a tolerance, so differences are no better.
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("name", ["brentq", "newton", "fsolve", "least_squares", "quad"])
def test_forward_mode_and_second_derivatives(name):
    f, p, step = SOLVERS[name], 1.3, 1e-3
    high, low = (ct.gradient(f, p + s)[0] for s in (step, -step))
    assert ct.jvp(f, (p,), (1.0,))[1] == pytest.approx(ct.gradient(f, p)[0], rel=1e-8)
    assert ct.hessian(f, p) == pytest.approx((high - low) / (2 * step), rel=1e-3, abs=1e-5)


def test_state_takes_the_other_way(taken):
    def solved(p, calls):
        def function(x):
            calls.append(float(ct.dropgrad(x)))
            return equation(x, p)

        return optimize.brentq(function, 0.0, 3.0)

    plain, under = [], []
    value = solved(1.3, plain)
    found = ct.value_and_gradient(lambda p: solved(p, under), 1.3)
    assert taken == [False]
    assert found[0] == value
    assert under == plain
    assert found[1][0] == pytest.approx(1 / ((1 + value) * np.exp(value)))


class Spring:
    def __init__(self, stiffness):
        self.stiffness, self.calls = stiffness, 0

    def force(self, x):
        return self.stiffness * x + x**3 - 1.0

    def counted(self, x):
        self.calls += 1
        return self.force(x)


@pytest.mark.parametrize("name", ["force", "counted"])
def test_attributes_of_objects(taken, name):
    calls = []

    def f(p):
        spring = Spring(p)
        x = optimize.brentq(getattr(spring, name), 0.0, 2.0)
        calls.append(spring.calls)
        return x

    x, (g,) = ct.value_and_gradient(f, 2.0)
    assert taken == [name == "force"]
    assert g == pytest.approx(-x / (2.0 + 3 * x**2), rel=1e-9)
    f(2.0)
    assert calls[0] == calls[1]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_exceptions_of_the_function(error):
    def f(p):
        def function(x):
            if x > 1.0:
                raise error("here")
            return x - p

        return optimize.brentq(function, 0.0, 3.0)

    with pytest.raises(error, match="here"):
        ct.gradient(f, 0.5)
    assert ct.gradient(lambda x: np.sum(np.array([x, x])), 1.0) == (2.0,)


def test_errors_of_the_solver_are_those_of_scipy():
    with pytest.raises(ValueError, match="different signs"):
        ct.gradient(lambda p: optimize.brentq(lambda x: x * x + p, 0.0, 3.0), 1.0)
    with pytest.raises(RuntimeError, match="Failed to converge"):
        ct.gradient(lambda p: optimize.newton(lambda x: x * x + p, 1.0, maxiter=9), 1.0)


def test_a_solver_that_stopped_early_is_refused():
    f = lambda p: optimize.brentq(lambda x: equation(x, p), 0.0, 3.0, xtol=1.0)
    with pytest.raises(ValueError, match="stopped before it reached a solution"):
        ct.gradient(f, 1.3)


def test_a_singular_root_is_refused():
    f = lambda p: optimize.fsolve(lambda v: [v[0] - p, 2 * v[0] - 2 * p], [1.3, 0.0])[0]
    with pytest.raises(ValueError, match="singular"):
        ct.gradient(f, 1.3)


def test_branches_on_the_unknown(taken):
    def f(p):
        def function(x):
            return x - p if x < 1.0 else 2.0 * (x - 1.0) + 1.0 - p

        return optimize.brentq(function, 0.0, 3.0)

    assert ct.gradient(f, 1.5)[0] == pytest.approx(0.5)
    assert ct.gradient(f, 0.5)[0] == pytest.approx(1.0)
    assert taken == [True, True]
    kinked = lambda p: integrate.quad(lambda x: p * x if x < 1 else p, 0, 2, points=[1.0])[0]
    assert ct.gradient(kinked, 0.7)[0] == pytest.approx(1.5)


def test_double_integrals():
    def f(p):
        area = lambda x: 1 + p * x
        return integrate.dblquad(lambda y, x: np.exp(-p * x * y), 0, 1, 0, area)[0]

    step = 1e-4
    expected = (f(0.7 + step) - f(0.7 - step)) / (2 * step)
    assert ct.gradient(f, 0.7)[0] == pytest.approx(expected, rel=1e-6)


def test_solvers_inside_of_solvers(taken):
    def f(p):
        inner = lambda x: optimize.brentq(lambda z: z**3 + z - x * p, 0.0, 9.0)
        return optimize.brentq(lambda x: inner(x) + x - 2.0, 0.0, 5.0)

    step = 1e-5
    (found,) = ct.gradient(f, 1.3)
    assert found == pytest.approx((f(1.3 + step) - f(1.3 - step)) / (2 * step), rel=1e-6)


def test_variables_are_read_anew(taken):
    scale = np.array([1.0])
    f = lambda p: optimize.brentq(lambda x: scale[0] * x - p, 0.0, 9.0)
    for factor in (1.0, 2.0):
        scale[0] = factor
        assert ct.gradient(f, 1.3)[0] == pytest.approx(1 / factor)
    assert taken == [True, True]


def test_prepared_and_in_threads():
    f = SOLVERS["brentq"]
    prepared = ct.prepare(f, 1.0)
    expected = {p: ct.gradient(f, p)[0] for p in (0.5, 1.0, 1.5, 2.0)}
    for p, g in expected.items():
        assert prepared(p)[0] == pytest.approx(g)
    found = {}

    def work(p):
        found[p] = ct.gradient(f, p)[0]

    threads = [threading.Thread(target=work, args=(p,)) for p in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_an_error_of_an_integrand_is_raised(taken):
    def area(rate):
        def height(x):
            if _core.is_tracing():
                raise LookupError("no table for this")
            return np.exp(-rate * x)

        return integrate.quad(height, 0.0, 3.0)[0]

    with pytest.raises(LookupError, match="no table for this"):
        ct.gradient(area, 0.7)
