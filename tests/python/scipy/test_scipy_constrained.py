"""Minima of `scipy.optimize` under constraints and bounds."""

import numpy as np
import pytest
from scipy import optimize
from scipy_cases import differences

import cotan as ct
from cotan._src.state.plain_copy import PlainCallback

M = np.random.default_rng(0).random((4, 4))
COVARIANCE = M @ M.T + np.eye(4)
RETURNS = np.random.default_rng(1).random(4)
WEIGHTS = np.arange(1.0, 5.0)
TOTAL = {"type": "eq", "fun": lambda x: np.sum(x) - 1}


def slsqp(f, **options):
    tight = {"ftol": 1e-15, "maxiter": 500}
    return optimize.minimize(f, np.ones(4) / 4, method="SLSQP", options=tight, **options)


def distance(a):
    return lambda x: np.sum((x - a) ** 2)


PROGRAMS = {
    "a portfolio": (
        lambda c: slsqp(lambda x: x @ c @ x, bounds=[(0, 1)] * 4, constraints=[TOTAL]).x,
        COVARIANCE * np.array([1, 1, 1, 3]) * np.array([1, 1, 1, 3])[:, None],
    ),
    "its risk": (
        lambda c: slsqp(lambda x: np.sqrt(x @ c @ x), constraints=TOTAL).fun * np.ones(4),
        COVARIANCE,
    ),
    "a constraint that depends": (
        lambda r: slsqp(
            lambda x: x @ COVARIANCE @ x,
            constraints=(TOTAL, {"type": "eq", "fun": lambda x, r: x @ r - 0.5, "args": (r,)}),
        ).x,
        RETURNS,
    ),
    "one that holds with equality": (
        lambda a: slsqp(
            distance(2 * a), constraints={"type": "ineq", "fun": lambda x: 1 - np.sum(x**2)}
        ).x,
        RETURNS,
    ),
    "one that does not matter": (
        lambda a: slsqp(
            distance(a), constraints={"type": "ineq", "fun": lambda x: [9 - x[0], x[1] + 9]}
        ).x,
        RETURNS,
    ),
    "linear": (
        lambda a: slsqp(
            distance(3 * a), constraints=optimize.LinearConstraint(np.ones((1, 4)), 0, 1)
        ).x,
        RETURNS,
    ),
    "nonlinear": (
        lambda a: slsqp(
            distance(3 * a),
            constraints=[optimize.NonlinearConstraint(lambda x: np.sum(x**2) * a[0], -np.inf, 1)],
        ).x,
        RETURNS + 0.5,
    ),
    "linear, with ends that depend": (
        lambda a: slsqp(
            distance(3 * RETURNS),
            constraints=[optimize.LinearConstraint(WEIGHTS, -np.inf, a[0]),
                         optimize.LinearConstraint(np.eye(4)[:2], a[1], [9, 9])],
        ).x,
        RETURNS + 1,
    ),
    "linear, with coefficients that depend": (
        lambda a: slsqp(distance(RETURNS), constraints=optimize.LinearConstraint(a, 1, 1)).x,
        WEIGHTS,
    ),
    "nonlinear, with an end that depends": (
        lambda a: slsqp(
            distance(3 * RETURNS),
            constraints=optimize.NonlinearConstraint(lambda x: x**2, -np.inf, a),
        ).x,
        RETURNS + 0.5,
    ),
    "a search": (
        lambda a: optimize.shgo(
            distance(3 * RETURNS), [(0, 4)] * 4,
            constraints={"type": "ineq", "fun": lambda x: a[0] - np.sum(x)},
        ).x,
        RETURNS,
    ),
    "fmin_slsqp": (
        lambda a: optimize.fmin_slsqp(
            lambda x, a: np.sum((x - a) ** 2), np.zeros(4), args=(a,), iprint=0, acc=1e-15,
            eqcons=[lambda x, a: np.sum(x) - a[0]], f_ieqcons=lambda x, a: x[:2] - 0.1,
        ),
        RETURNS,
    ),
    "fmin_l_bfgs_b": (
        lambda a: optimize.fmin_l_bfgs_b(
            lambda x: (np.sum((x - a) ** 2), 2 * (x - a)), np.zeros(4), bounds=[(0, 0.7)] * 4,
            factr=10, pgtol=1e-12,
        )[0],
        RETURNS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_solutions(name):
    f, x = PROGRAMS[name]

    def scalar(x):
        return np.sum(WEIGHTS * f(x))

    value, (slope,) = ct.value_and_gradient(scalar, x)
    assert value == pytest.approx(scalar(x), abs=1e-6)
    np.testing.assert_allclose(slope, differences(scalar, (x,), 0, 1e-3), atol=2e-3, rtol=1e-3)


def test_what_has_no_derivative():
    twice = [TOTAL, {"type": "eq", "fun": lambda x: 2 * np.sum(x) - 2}]
    with pytest.raises(ValueError, match="singular"):
        ct.gradient(lambda a: slsqp(distance(a), constraints=twice).x[0], RETURNS)
    with pytest.raises(TypeError, match="active bounds"):
        ct.gradient(lambda a: slsqp(distance(a), bounds=[(0, b) for b in a]).x[0], RETURNS)
    inner = lambda a: {"constraints": {"type": "eq", "fun": lambda x: np.sum(x) - a}}
    with pytest.raises(TypeError, match="dual_annealing: constraints of its local searches"):
        ct.gradient(
            lambda a: optimize.dual_annealing(
                distance(0), [(0, 1)] * 4, maxiter=2, minimizer_kwargs=inner(a), rng=1
            ).x[0],
            2.0,
        )


# --------------------------------------------------------------------------------------------------
# Searches on plain values


@pytest.fixture
def taken(monkeypatch):
    """Note for each search whether it ran on a plain copy."""
    notes = []
    run = PlainCallback.run

    def noting(self, *args):
        found = run(self, *args)
        notes.append(found is not None)
        return found

    monkeypatch.setattr(PlainCallback, "run", noting)
    return notes


TIGHT = {
    "SLSQP": {"options": {"ftol": 1e-16, "maxiter": 500}},
    "COBYLA": {"tol": 1e-9, "options": {"rhobeg": 0.5, "maxiter": 20000}},
    "COBYQA": {"tol": 1e-10},
    # It stops before its barrier is low.
    "trust-constr": {"options": {"gtol": 1e-10, "initial_barrier_parameter": 1e-3}},
}


def as_dictionaries(p):
    return [
        {"type": "ineq", "fun": lambda x: 1.0 - p[2] * (x[0] ** 2 + x[1] ** 2)},
        {"type": "eq", "fun": lambda x, share: x[0] - share * x[1] - 0.2 * p[0], "args": (p[3],)},
        {"type": "ineq", "fun": lambda x: 9.0 + x[:2] * [1.0, -1.0]},
    ]


def as_objects(p):
    far = np.full(3, -9.0)
    first, second = np.eye(1, 3), np.eye(1, 3, 1)
    return (
        optimize.NonlinearConstraint(lambda x: p[2] * (x[0] ** 2 + x[1] ** 2), -np.inf, 1.0),
        optimize.LinearConstraint(first - p[3] * second, 0.2 * p[0], 0.2 * p[0]),
        optimize.NonlinearConstraint(lambda x: x * x[::-1], far, -far * p[0]),
    )


def nearest_point(p, method, constraints):
    def height(x, p):
        return (x[0] - p[0]) ** 2 + (x[1] - p[1]) ** 4 + x[0] * x[1] + x[2] ** 2 * p[0] - x[2]

    start = np.array([0.5, 0.5, 0.3])
    found = optimize.minimize(
        height, start, (p,), method, constraints=constraints(p), **TIGHT[method]
    )
    return np.sum(found.x * np.array([1.0, 2.0, 3.0])) + found.fun


def nearest_point_by_hand(p):
    # On the ball and the line, and where the third variable is best.
    s, c = p[3], 0.2 * p[0]
    square, linear, rest = s**2 + 1, 2 * s * c, c**2 - 1 / p[2]
    y = (-linear + np.sqrt(linear**2 - 4 * square * rest)) / (2 * square)
    x, z = s * y + c, 1 / (2 * p[0])
    height = (x - p[0]) ** 2 + (y - p[1]) ** 4 + x * y + z**2 * p[0] - z
    return x + 2 * y + 3 * z + height


POINT = np.array([2.0, 1.5, 1.2, 0.3])


@pytest.mark.filterwarnings("ignore:delta_grad == 0.0")
@pytest.mark.parametrize("method", TIGHT)
@pytest.mark.parametrize("constraints", [as_dictionaries, as_objects])
def test_searches_run_on_plain_values(taken, method, constraints):
    f = lambda p: nearest_point(p, method, constraints)
    value, (slope,) = ct.value_and_gradient(f, POINT)
    assert taken == [True]
    assert value == f(POINT)
    # How far SciPy's search ends from the solution.
    tolerance = {"trust-constr": 2e-3, "COBYLA": 2e-4}.get(method, 2e-5)
    assert value == pytest.approx(nearest_point_by_hand(POINT), rel=tolerance)
    g = nearest_point_by_hand
    expected = [
        (8 * (g(POINT + h) - g(POINT - h)) - (g(POINT + 2 * h) - g(POINT - 2 * h))) / 12e-4
        for h in 1e-4 * np.eye(4)
    ]
    np.testing.assert_allclose(slope, expected, rtol=tolerance, atol=tolerance)


def test_a_barrier_that_is_not_low_yet():
    def reached(p):
        ball = optimize.NonlinearConstraint(lambda x: p * np.sum(x**2), -np.inf, 1.0)
        flat = optimize.LinearConstraint(np.array([[1.0, -0.3]]), 0.4, 0.4)
        found = optimize.minimize(
            lambda x: (x[0] - 2.0) ** 2 + (x[1] - 1.5) ** 4 + x[0] * x[1], np.array([0.5, 0.5]),
            method="trust-constr", constraints=[ball, flat],
        )  # fmt: skip
        return found.x[1]

    # The solver stops 1e-4 before the ball, and pushes against it all the same.
    x = ct.value_and_gradient(reached, 1.2)[0]
    assert 1e-5 < 1.0 - 1.2 * ((0.4 + 0.3 * x) ** 2 + x**2) < 1e-3
    y = (-0.24 + np.sqrt(0.24**2 - 4 * 1.09 * (0.16 - 1 / 1.2))) / 2.18
    slope = -1 / 1.2**2 / (2 * 1.09 * y + 0.24)
    assert ct.gradient(reached, 1.2)[0] == pytest.approx(slope, rel=1e-3)


@pytest.mark.filterwarnings("ignore:delta_grad == 0.0")
def test_what_trust_constr_reports():
    def found(a):
        ball = optimize.NonlinearConstraint(lambda x: x @ x, -np.inf, a)
        line = optimize.LinearConstraint(np.array([[1.0, -1.0], [1.0, 1.0]]), -9.0, 9.0)
        return optimize.minimize(
            lambda x: (x[0] - 2.0) ** 2 + 2.0 * (x[1] - 3.0) ** 2, np.ones(2),
            method="trust-constr", constraints=[ball, line], options={"gtol": 1e-9},
        )  # fmt: skip

    def slope(a):
        return found(a).grad[1]

    h = 1e-3
    expected = (slope(1.5 + h) - slope(1.5 - h)) / (2 * h)
    assert ct.gradient(slope, 1.5)[0] == pytest.approx(expected, rel=1e-4)
    for part in ("v", "constr", "jac"):
        with pytest.raises(TypeError, match=f"{part} of minimize has no derivative rule"):
            ct.gradient(lambda a, part=part: np.sum(found(a)[part][0]), 1.5)


def test_a_search_with_bounds_and_slopes(taken):
    def weights(c):
        total = TOTAL | {"jac": lambda x: np.ones((1, 4))}
        return optimize.minimize(
            lambda x: (x @ c @ x, 2 * c @ x), np.ones(4) / 4, jac=True, method="SLSQP",
            bounds=[(0, 1)] * 4, constraints=[total], options={"ftol": 1e-16},
        )  # fmt: skip

    c = COVARIANCE * np.array([1, 1, 1, 3]) * np.array([1, 1, 1, 3])[:, None]
    f = lambda c: np.sum(WEIGHTS * weights(c).x)
    (slope,) = ct.gradient(f, c)
    assert taken == [True]
    both = slope + slope.T
    for i, j in [(0, 0), (0, 1), (2, 1), (3, 3)]:
        unit = np.zeros((4, 4))
        unit[i, j] += 1e-4
        unit = unit + unit.T
        expected = (f(c + unit) - f(c - unit)) / 2e-4
        assert both[i, j] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_constraints_that_keep_a_state_go_another_way(taken):
    calls = []

    def shortest(a):
        def line(x):
            calls.append(float(ct.dropgrad(x[0])))
            return np.sum(x) - a

        return slsqp(distance(0.0), constraints={"type": "eq", "fun": line}).x[1]

    assert shortest(2.0) == pytest.approx(0.5)
    count = len(calls)
    assert ct.gradient(shortest, 2.0)[0] == pytest.approx(0.25)
    assert taken == [False]
    assert len(calls) == 2 * count


def test_what_is_not_regular():
    def at(a, x):
        constraints = [{"type": "eq", "fun": lambda x: x[0] - a}, *x]
        return slsqp(lambda x: np.sum((x - 0.5) ** 2) + 0.0 * a, constraints=constraints).x[1]

    # It is smallest at 0.5, and the last constraint says that it is so.
    touching = {"type": "ineq", "fun": lambda x: x[1] - 0.5}
    with pytest.raises(ValueError, match="constraint 1 holds with equality, but is not needed"):
        ct.gradient(at, 1.0, [touching], wrt=0)
    again = {"type": "ineq", "fun": lambda x: 3.0 * (x[0] - 1.0)}
    with pytest.raises(ValueError, match="slopes of the 2 constraints .* depend on each other"):
        ct.gradient(at, 1.0, [again], wrt=0)
    inside = {"type": "ineq", "fun": lambda x: x[1] + 0.5}
    assert ct.gradient(at, 1.0, [inside], wrt=0)[0] == pytest.approx(0.0, abs=1e-12)


def test_an_error_of_a_constraint_is_raised():
    def broken(x):
        raise LookupError("no table for this")

    def f(a):
        return slsqp(distance(a), constraints={"type": "eq", "fun": broken}).x[0]

    with pytest.raises(LookupError, match="no table for this"):
        ct.gradient(f, RETURNS)
