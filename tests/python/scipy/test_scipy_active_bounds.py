"""Minima of `scipy.optimize` at bounds, just inside of them, and where they begin to matter."""

import numpy as np
import pytest
from scipy import optimize

import cotan as ct


def slope_and_difference(f, a):
    h = 1e-4 * max(1.0, abs(a))
    value, (slope,) = ct.value_and_gradient(f, a)
    assert value == f(a)
    return 0.0 if slope is None else slope, (f(a + h) - f(a - h)) / (2 * h)


def interior(a):
    return optimize.minimize(
        lambda x: (x[0] - a) ** 2 + (x[1] - x[0] * a) ** 2, np.array([2.0, 2.0]),
        method="trust-constr", bounds=[(1, None), (None, None)],
    ).x[0]  # fmt: skip


def test_an_interior_point_method_stops_before_the_bound():
    assert interior(0.995) > 1.0
    assert ct.gradient(interior, 0.995)[0] == 0.0
    slope, difference = slope_and_difference(interior, 1.5)
    assert slope == pytest.approx(1.0, rel=1e-6)
    assert difference == pytest.approx(1.0, rel=1e-4)


def projected(a):
    return optimize.minimize(
        lambda x: np.sum((x - a) ** 2), np.array([0.5]), bounds=[(0, 1)]
    ).x[0]  # fmt: skip


def on_a_line(a):
    return optimize.minimize(
        lambda x: (x[0] - a) ** 2 + (x[1] - 2 * a) ** 2, np.array([0.5, 0.5]), method="SLSQP",
        bounds=[(0, 1)] * 2, constraints={"type": "eq", "fun": lambda x: x[0] + x[1] - 1},
    ).x[0]  # fmt: skip


@pytest.mark.parametrize(("f", "a"), [(projected, 0.0), (projected, 1.0), (on_a_line, 1.0)])
def test_a_bound_that_begins_to_matter_is_refused(f, a):
    # On the line both variables lie at a bound, and rounding says which one is named.
    with pytest.raises(ValueError, match=r"variable [01] lies at its bound, but is not held there"):
        ct.gradient(f, a)


@pytest.mark.parametrize("f", [projected, on_a_line])
@pytest.mark.parametrize("a", [-0.5, 0.5, 1.5])
def test_beside_a_kink(f, a):
    slope, difference = slope_and_difference(f, a)
    assert slope == pytest.approx(difference, abs=2e-3)


@pytest.mark.parametrize(("a", "expected"), [(5.0, 1.0), (-5.0, 0.0)])
def test_small_units(a, expected):
    def f(a):
        return 1e9 * optimize.minimize(
            lambda x: (1e9 * x[0] - a) ** 2, [3e-9], bounds=[(0, None)], method="L-BFGS-B",
            jac=lambda x: np.array([2e9 * (1e9 * x[0] - a)]),
        ).x[0]  # fmt: skip

    slope, difference = slope_and_difference(f, a)
    assert slope == pytest.approx(expected)
    assert difference == pytest.approx(expected)


def test_all_at_bounds_of_which_one_follows():
    # The sum and one bound say where the other is.
    slope, difference = slope_and_difference(on_a_line, 3.0)
    assert abs(slope) < 1e-12
    assert abs(difference) < 1e-9


@pytest.mark.filterwarnings("ignore:Equality and inequality constraints")
@pytest.mark.parametrize("kind", ["linear", "nonlinear"])
def test_rows_of_both_kinds(kind):
    def f(a):
        ends = [a, -np.inf], [a, 5.0]
        if kind == "linear":
            constraint = optimize.LinearConstraint([[1.0, 1.0], [1.0, 0.0]], *ends)
        else:
            constraint = optimize.NonlinearConstraint(lambda x: [x[0] + x[1], x[0]], *ends)
        return optimize.minimize(
            lambda x: np.sum((x - np.array([2.0, 3.0])) ** 2), np.ones(2), method="SLSQP",
            constraints=constraint, options={"ftol": 1e-14},
        ).x[0]  # fmt: skip

    slope, difference = slope_and_difference(f, 1.0)
    assert slope == pytest.approx(0.5)
    assert difference == pytest.approx(0.5, rel=1e-3)
    assert slope_and_difference(f, 13.0)[0] == pytest.approx(0.0, abs=1e-12)
