"""Derivatives of boundary value problems: states, parameters, splines, and what is refused."""

import numpy as np
import pytest
from scipy.integrate import solve_bvp

import cotan as ct

MESH = np.linspace(0.0, 1.0, 5)
BRATU = {"k": 1.0, "left": 0.2, "right": -0.1}


def bratu(p, tol=1e-9, **options):
    def slope(x, y):
        return np.vstack((y[1], -p["k"] * np.exp(y[0]) * (1.0 + 0.2 * x)))

    def ends(left, right):
        return np.array([left[0] - p["left"], right[0] + 0.5 * right[1] - p["right"]])

    return solve_bvp(slope, ends, MESH, np.zeros((2, 5)), tol=tol, **options)


def waves(p, guess=6.0, tol=1e-9):
    """Find the second frequency of a string whose density varies."""

    def slope(x, y, w):
        return [y[1], -(w[0] ** 2) * (1.0 + p["bump"] * x) * y[0]]

    def ends(left, right, w):
        return np.array([left[0], right[0] - p["end"], left[1] - p["pull"] * w[0]])

    y = np.zeros((2, 5))
    y[0, 1], y[0, 3] = 1.0, -1.0
    return solve_bvp(slope, ends, MESH, y, p=[guess], tol=tol)


def emden(p, tol=1e-9):
    """Solve an equation with a singular term at the left end."""

    def slope(x, y):
        return np.vstack((y[1], -p["c"] * y[0] ** 5))

    def ends(left, right):
        return np.array([left[1], right[0] - p["rim"]])

    y = np.vstack((np.full(5, 0.9), np.full(5, 0.1)))
    singular = np.array([[0.0, 0.0], [0.0, -2.0]])
    return solve_bvp(slope, ends, MESH, y, S=singular, tol=tol, max_nodes=20_000)


def expect_slopes(f, p, rel=1e-6, step=1e-4):
    value, (found,) = ct.value_and_gradient(f, p)
    assert value == pytest.approx(f(p), rel=1e-13)
    for name in p:
        high, low = (f(p | {name: p[name] + s}) for s in (step, -step))
        assert found[name] == pytest.approx((high - low) / (2 * step), rel=rel, abs=1e-8), name


def test_states_slopes_and_spline():
    expect_slopes(lambda p: np.sum(bratu(p).sol(MESH) ** 2), BRATU)
    expect_slopes(lambda p: bratu(p).sol(0.37)[1] * bratu(p).sol(0.61, 1)[0], BRATU)
    expect_slopes(lambda p: bratu(p).y[0, 0] + np.sum(bratu(p).yp[:, -1]), BRATU)


def test_unknown_parameters():
    p = {"bump": 0.3, "end": 0.05, "pull": 1.2}
    expect_slopes(lambda p: waves(p).p[0], p)
    expect_slopes(lambda p: waves(p).sol(0.2)[0] * waves(p).p[0], p)


def test_a_singular_term():
    p = {"c": 1.0, "rim": (3 / 4) ** 0.5}
    expect_slopes(lambda p: emden(p, 1e-7).sol(0.3)[0], p, rel=1e-5)
    # The center of the sphere: y(0) = 1 for the known solution (1 + x**2 / 3)**-0.5.
    (slope,) = ct.gradient(lambda p: emden(p, 1e-7).y[0, 0], p)
    assert emden(p).y[0, 0] == pytest.approx(1.0, abs=1e-6)
    assert slope["rim"] > 0


@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_values_are_those_of_scipy(tol):
    seen = []

    def f(p):
        seen.append(bratu(p, tol))
        return np.sum(seen[-1].y)

    ct.gradient(f, BRATU)
    found, expected = seen[0], bratu(BRATU, tol)
    for name in ("x", "y", "yp"):
        assert np.array_equal(ct.dropgrad(found[name]), expected[name])
    assert np.array_equal(ct.dropgrad(found.sol.c), expected.sol.c)
    np.testing.assert_allclose(ct.dropgrad(found.sol(0.3)), expected.sol(0.3), rtol=1e-13)
    assert (found.niter, found.status, found.success) == (expected.niter, 0, True)
    assert expected.p is None and found.p is None


def test_both_directions_and_second_derivatives():
    def states(p):
        return bratu(p).sol(np.array([0.2, 0.7]))

    forward, reverse = ct.jacfwd(states)(BRATU), ct.jacrev(states)(BRATU)
    for name in BRATU:
        np.testing.assert_allclose(forward[name], reverse[name], rtol=1e-10, atol=1e-12)

    def f(k):
        return bratu(BRATU | {"k": k}, 1e-11).sol(0.4)[0]

    step = 1e-3
    expected = (f(1.0 + step) - 2 * f(1.0) + f(1.0 - step)) / step**2
    assert ct.hessian(f, 1.0) == pytest.approx(expected, rel=1e-5)


def test_derivatives_for_the_solver():
    def solved(k, exact):
        def slope(x, y):
            return np.vstack((y[1], -k * np.exp(y[0])))

        def slopes(x, y):
            found = np.zeros((2, 2, x.size))
            found[0, 1] = 1.0
            found[1, 0] = -ct.dropgrad(k) * np.exp(y[0])
            return found

        def ends(left, right):
            return np.array([left[0], right[0]])

        def of_ends(left, right):
            return np.array([[1.0, 0], [0, 0]]), np.array([[0.0, 0], [1, 0]])

        jacs = {"fun_jac": slopes, "bc_jac": of_ends} if exact else {}
        return solve_bvp(slope, ends, MESH, np.zeros((2, 5)), tol=1e-9, **jacs).sol(0.5)[0]

    slopes = [ct.gradient(lambda k, e=e: solved(k, e), 1.0)[0] for e in (True, False)]
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-9)
    assert slopes[0] == pytest.approx((solved(1.001, 1) - solved(0.999, 1)) / 2e-3, rel=1e-5)


def test_what_is_captured_elsewhere():
    """The ends alone are differentiated, and so is what only a global variable reaches."""

    def f(high):
        found = solve_bvp(
            lambda x, y: np.vstack([y[1], -2.0 * y[0]]),
            lambda a, b: np.array([a[0], b[0] - high]),
            MESH,
            np.zeros((2, 5)),
            tol=1e-9,
        )
        return found.y[0, 2]

    (slope,) = ct.gradient(f, 0.7)
    assert slope == pytest.approx(f(1.0), rel=1e-9)  # it is linear
    assert ct.gradient(lambda p: p * f(1.0), 2.0) == (f(1.0),)


def test_what_functions_keep():
    calls, plain_calls = [], []

    def solved(k, log):
        def slope(x, y):
            log.append(x.size)
            return np.vstack((y[1], -k * np.exp(y[0])))

        def ends(left, right):
            return np.array([left[0], right[0]])

        return solve_bvp(slope, ends, MESH, np.zeros((2, 5))).y[0, 2]

    value, (slope,) = ct.value_and_gradient(lambda k: solved(k, calls), 1.0)
    assert value == solved(1.0, plain_calls)
    assert calls == plain_calls
    (expected,) = ct.gradient(lambda k: bratu({"k": k, "left": 0.0, "right": 0.0}).y[0, 2], 1.0)
    assert np.isfinite(expected)
    step = 1e-4
    numbers = [solved(1.0 + s, []) for s in (step, -step)]
    assert slope == pytest.approx((numbers[0] - numbers[1]) / (2 * step), rel=1e-3)


def test_what_is_kept_and_differentiated_is_refused():
    def f(k):
        kept = []

        def slope(x, y):
            kept.append(k * y[0, 0])
            return np.vstack((y[1], -k * np.exp(y[0])))

        ends = lambda a, b: np.array([a[0], b[0]])
        return solve_bvp(slope, ends, MESH, np.zeros((2, 5))).y[0, 2] + kept[-1]

    with pytest.raises(ct.NotDifferentiableError, match="keep values that are differentiated"):
        ct.gradient(f, 1.0)


def test_a_solution_without_a_derivative():
    def f(k):
        # Any multiple of a sine is a solution.
        return solve_bvp(
            lambda x, y: np.vstack((y[1], -k * np.pi**2 * y[0])),
            lambda a, b: np.array([a[0], a[0]]),
            MESH,
            np.vstack((np.sin(np.pi * MESH), np.pi * np.cos(np.pi * MESH))),
        ).y[0, 2]

    with pytest.raises(ValueError, match="solve_bvp: the derivative of the equations is singular"):
        ct.gradient(f, 1.0)


def test_a_run_that_failed():
    def f(k):
        # No solution above 3.51.
        found = solve_bvp(
            lambda x, y: np.vstack((y[1], -k * np.exp(y[0]))),
            lambda a, b: np.array([a[0], b[0]]),
            MESH,
            np.zeros((2, 5)),
            max_nodes=50,
        )
        assert not found.success
        return found.y[0, 2]

    with pytest.raises(ValueError, match="solve_bvp: the"):
        ct.gradient(f, 6.0)


def test_what_is_refused():
    def on(end):
        return solve_bvp(
            lambda x, y: -y, lambda a, b: a - 1.0, end * MESH, np.ones((1, 5))
        ).y[0, -1]  # fmt: skip

    with pytest.raises(ct.NotDifferentiableError, match="solve_bvp: an active mesh"):
        ct.gradient(on, 2.0)

    def spun(k):
        y = np.ones((1, 5), complex)
        return solve_bvp(lambda x, y: 1j * k * y, lambda a, b: a - 1.0, MESH, y).y[0, -1].real

    with pytest.raises(ct.NotDifferentiableError, match="solve_bvp: complex unknowns"):
        ct.gradient(spun, 2.0)
    residuals = lambda p: np.sum(bratu(p, 1e-3).rms_residuals)
    with pytest.raises(ct.NotDifferentiableError, match="rms_residuals of solve_bvp"):
        ct.gradient(residuals, BRATU)


def test_prepared_functions_are_refused():
    with pytest.raises(TypeError, match="prepare: "):
        ct.prepare(lambda k: bratu(BRATU | {"k": k}).y[0, 2], 1.0)


def test_the_first_guess_does_not_count():
    def f(p):
        found = waves({"bump": 0.3, "end": 0.05, "pull": p["pull"]}, p["guess"])
        return found.p[0]

    (found,) = ct.gradient(f, {"pull": 1.2, "guess": 6.0})
    assert found["guess"] in {0.0, None}
    assert found["pull"] != 0.0


def test_errors_are_those_of_the_user():
    class OwnError(Exception):
        pass

    def f(k):
        def slope(x, y):
            if x.size > 3:
                raise OwnError
            return k * y

        return solve_bvp(slope, lambda a, b: a - 1.0, MESH, np.ones((1, 5))).y[0, -1]

    with pytest.raises(OwnError):
        ct.gradient(f, 1.0)
