"""Minima of `scipy.optimize` under constraints and bounds."""

import numpy as np
import pytest
from scipy import optimize
from scipy_cases import differences

import cotan as ct

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
