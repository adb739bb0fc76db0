"""Right sides whose states are the cells of a mesh: their derivatives are sparse, and exact."""

import numpy as np
import pytest
from scipy import integrate

import cotan as ct
from cotan._core import FunctionKey
from cotan._src.scipy.integrate import ivp, moved_states, odeint, state_jacobians
from cotan._src.scipy.integrate.repeated_steps import slope_of

METHODS = ["RK45", "DOP853", "LSODA", "BDF", "Radau", "odeint"]
N = 30


def diffusion(t, u, p):
    left, right = np.concatenate([u[:1], u[:-1]]), np.concatenate([u[1:], u[-1:]])
    return p[0] * (left - 2.0 * u + right) - p[1] * u**2 + np.sin(t)


def ring(t, u, p):
    return p[0] * (np.roll(u, 1) - u) + p[1] * np.roll(u, -2) * np.cos(u)


def two_species(t, u, p):
    a, b = u[: N // 2], u[N // 2 :]
    spread = lambda x: p[0] * (np.roll(x, 1) - 2.0 * x + np.roll(x, -1))
    return np.concatenate([spread(a) + 1.0 - a * b**2, 0.5 * spread(b) + a * b**2 - p[1] * b])


def all_coupled(t, u, p):
    return p[0] * np.mean(u) - p[1] * u**3


def uncoupled(t, u, p):
    return -p[0] * u * (1.0 + np.sin(t) * p[1])


def independent_of_the_state(t, u, p):
    return p[0] * np.cos(t * np.arange(N)) + p[1]


def chosen_by_the_time(t, u, p):
    """Give neighbours of another cell for each time, by an index that is computed of it."""
    at = (np.arange(N) + np.floor(4.0 * t).astype(int)) % N
    return -p[0] * u + p[1] * u[at] ** 2


def chosen_by_the_state(t, u, p):
    return p[1] * np.roll(u, 1) - np.where(u > 0.7, 0.7 * p[0] * u, p[0] * u**2)


def branching_on_the_time(t, u, p):
    if t < 0.4:
        return p[0] * (np.roll(u, 1) - u)
    return p[1] * u * np.roll(u, 5) - u**2


SIDES = [diffusion, ring, two_species, all_coupled, uncoupled, independent_of_the_state]
START = np.sin(np.linspace(0.0, 3.0, N)) + 0.3


def total(side, method, p, tolerance=1e-9, times=(0.0, 0.4, 1.0)):
    start = START * p[2]
    options = {"rtol": tolerance, "atol": tolerance}
    if method == "odeint":
        y = integrate.odeint(side, start, times, args=(p,), tfirst=True, **options).T
    else:
        span = times[0], times[-1]
        y = integrate.solve_ivp(side, span, start, method, t_eval=times, args=(p,), **options).y
    return np.sum(y[:, 1:] ** 2 * np.linspace(0.5, 1.0, N)[:, None])


P = np.array([1.3, 0.4, 1.1])


def central(f, p, h=1e-5):
    unit = np.eye(len(p)) * h
    return np.array([(f(p + e) - f(p - e)) / (2.0 * h) for e in unit])


@pytest.fixture
def at_once(monkeypatch):
    """Say for each solver whether its derivative was formed of all steps at once."""
    taken = []

    def noting(function):
        def call(*args, **kwargs):
            found = function(*args, **kwargs)
            taken.append(found is not None)
            return found

        return call

    monkeypatch.setattr(ivp, "solve_at_once", noting(ivp.solve_at_once))
    monkeypatch.setattr(odeint, "_at_once", noting(odeint._at_once))
    return taken


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("side", SIDES)
def test_gradients_are_those_of_differences(at_once, method, side):
    (found,) = ct.gradient(lambda p: total(side, method, p), P)
    assert at_once == [True]
    expected = central(lambda p: total(side, "DOP853", p, 1e-12), P)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("side", [chosen_by_the_time, chosen_by_the_state, branching_on_the_time])
def test_what_is_chosen_by_values(method, side):
    # The slopes jump, so differences of other steps say less.
    (found,) = ct.gradient(lambda p: total(side, method, p, 1e-8), P)
    expected = central(lambda p: total(side, "DOP853", p, 1e-11), P, 1e-4)
    np.testing.assert_allclose(found, expected, rtol=2e-3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("side", [diffusion, two_species])
def test_few_products_give_the_same_as_all(monkeypatch, method, side):
    f = lambda p: total(side, method, p)
    (few,) = ct.gradient(f, P)
    monkeypatch.setattr(state_jacobians, "_LEAST", 1000)
    (all_rows,) = ct.gradient(f, P)
    np.testing.assert_allclose(few, all_rows, rtol=1e-11)


@pytest.mark.parametrize("method", ["RK45", "LSODA", "odeint"])
def test_second_derivatives(method):
    f = lambda p: total(diffusion, method, p)
    found = ct.hessian(f, P)
    expected = central(lambda p: ct.gradient(f, p)[0], P)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", ["RK45", "LSODA", "BDF", "odeint"])
def test_times_may_run_backwards(method):
    f = lambda p, method=method, tolerance=1e-9: total(ring, method, p, tolerance, (1.0, 0.5, 0.0))
    (found,) = ct.gradient(f, P)
    expected = central(lambda p: f(p, "DOP853", 1e-12), P)
    np.testing.assert_allclose(found, expected, rtol=2e-6)


@pytest.mark.parametrize(
    ("side", "count"),
    [(diffusion, 3), (ring, 6), (two_species, 6), (uncoupled, 1), (all_coupled, N)],
)
def test_products_are_as_few_as_the_pattern_allows(side, count):
    slope = slope_of(side, (P,), np.dtype(np.float64))
    products = state_jacobians.KnownPatterns().products(None, slope, 0.0, START)
    assert len(products.rows) <= count
    assert (products.pattern is None) == (side is all_coupled)


def test_entries_are_those_of_the_whole_matrix():
    slope = slope_of(two_species, (P,), np.dtype(np.float64))
    products = state_jacobians.KnownPatterns().products(None, slope, 0.0, START)
    found = [
        np.asarray(state_jacobians.products_of(slope, products.rows, 0.0, y)[1])
        for y in (START, 2.0 * START)
    ]
    jacobians = products.entries(np.stack(found))
    whole = np.stack([ct.jacobian(lambda y: slope(0.0, y), y) for y in (START, 2.0 * START)])
    np.testing.assert_allclose(jacobians.whole(), whole, rtol=1e-13, atol=1e-15)
    assert jacobians.values.size < whole.size / 4


def test_patterns_are_kept_for_functions_that_are_made_again():
    known = state_jacobians.KnownPatterns()

    def made():
        side = lambda t, u: diffusion(t, u, P)
        return side, FunctionKey.of(side, ())

    first, second = made(), made()
    assert first[1] is not None
    assert known.products(first[1], first[0], 0.0, START) is known.products(
        second[1], second[0], 0.0, START
    )
    assert known.products(first[1], first[0], 0.0, START[:20]).rows.shape[1] == 20


def test_right_sides_that_cannot_be_traced_have_whole_matrices():
    def side(t, u):
        raise ValueError

    products = state_jacobians.KnownPatterns().products(None, side, 0.0, START)
    assert products.pattern is None
    assert products.rows.shape == (N, N)


def test_many_cells_are_not_repeated_step_by_step(at_once):
    """Whole matrices of 300 cells at all stages would be more than a gigabyte."""
    n = 300

    def f(p):
        def side(t, u):
            return p * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1)) - u**3

        start = np.sin(np.linspace(0.0, 6.0, n))
        return np.sum(
            integrate.solve_ivp(side, (0.0, 1.0), start, "LSODA", rtol=1e-7).y[:, -1] ** 2
        )

    (found,) = ct.gradient(f, 0.8)
    assert at_once == [True]
    assert n * n * 100 > moved_states._DERIVATIVES
    assert found == pytest.approx((f(0.8 + 1e-4) - f(0.8 - 1e-4)) / 2e-4, rel=1e-3)
