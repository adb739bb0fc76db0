"""Right sides whose states are the cells of a mesh: their derivatives are sparse, and exact."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import integrate

import cotan as ct
from cotan._core import FunctionKey
from cotan._src.scipy.integrate import collocation_steps, ivp, odeint, right_side, state_jacobians
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
    monkeypatch.setattr(right_side, "FEWEST_EQUATIONS", 1000)
    (all_rows,) = ct.gradient(f, P)
    # Large terms cancel in small entries.
    rounding = 1e-14 * np.max(np.abs(all_rows))
    np.testing.assert_allclose(few, all_rows, rtol=1e-11, atol=rounding)


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


def products_for(side, at=START):
    slope = slope_of(side, (P,), np.dtype(np.float64))
    return state_jacobians.products_for(slope, (0.0, at))


@pytest.mark.parametrize(
    ("side", "count"),
    [(diffusion, 3), (ring, 6), (two_species, 6), (uncoupled, 1), (all_coupled, N)],
)
def test_products_are_few_where_states_depend_on_few(side, count):
    products = products_for(side)
    assert len(products.rows) <= count
    assert (products.pattern is None) == (side is all_coupled)


def test_entries_are_those_of_the_whole_matrix():
    slope = slope_of(two_species, (P,), np.dtype(np.float64))
    products = products_for(two_species)
    found = [
        np.asarray(state_jacobians.products_of(slope, products.rows, 0.0, y)[1])
        for y in (START, 2.0 * START)
    ]
    jacobians = products.entries(np.stack(found))
    whole = np.stack([ct.jacobian(lambda y: slope(0.0, y), y) for y in (START, 2.0 * START)])
    np.testing.assert_allclose(jacobians.whole(), whole, rtol=1e-13, atol=1e-15)
    assert jacobians.values.size < whole.size / 4


def test_patterns_are_kept_for_functions_that_are_made_again():
    known = state_jacobians.Kept()

    def of(made, at):
        side = lambda t, u: diffusion(t, u, made)
        key = FunctionKey.of(side, ())
        find = lambda: state_jacobians.products_for(side, (0.0, at))
        return known.of((key.key, len(at)), key.kept, find)

    assert of(P, START) is of(P.copy(), START)
    assert of(P, START[:20]).rows.shape[1] == 20


@pytest.mark.parametrize(
    "side",
    [
        branching_on_the_time,
        lambda t, u, p: u if float(u[0]) > 0.0 else 2.0 * u,
        lambda t, u, p: np.roll(u, int(10.0 * t)),
    ],
)
def test_right_sides_that_read_values_have_no_pattern(side):
    assert products_for(side) is None


def left(t, u, p):
    return p[0] * (np.roll(u, 1) - u)


def right(t, u, p):
    return p[1] * (np.roll(u, -4) - u)


@pytest.mark.parametrize("method", ["RK45", "LSODA", "odeint"])
@pytest.mark.parametrize(
    "side",
    [
        lambda t, u, p: ct.cond(t < 0.45, lambda u: left(t, u, p), lambda u: right(t, u, p), u),
        lambda t, u, p: np.stack([left(t, u, p), right(t, u, p)])[np.floor(t + 0.55).astype(int)],
        lambda t, u, p: np.stack([left(t, u, p), right(t, u, p)])[(u[3] > 0.8).astype(int)],
    ],
)
def test_both_sides_of_a_choice_count(monkeypatch, method, side):
    f = lambda p: total(side, method, p, 1e-7)
    (few,) = ct.gradient(f, P)
    monkeypatch.setattr(right_side, "FEWEST_EQUATIONS", 1000)
    (whole,) = ct.gradient(f, P)
    np.testing.assert_allclose(few, whole, rtol=1e-10)


@pytest.mark.parametrize("method", ["RK45", "LSODA", "BDF", "odeint"])
@pytest.mark.parametrize(
    ("side", "values"),
    [
        (lambda u, c: c * (np.roll(u, 1) - u if c > 0.0 else u - np.roll(u, -1)), (1.3, -1.3)),
        (lambda u, c: c * np.roll(u, int(c)) - u, (0.5, 3.5)),
        (lambda u, c: np.roll(u, 1) - u**c, (0.0, 2.0)),
    ],
)
def test_the_same_code_with_another_parameter_goes_another_way(monkeypatch, method, side, values):
    def f(c):
        slope = lambda t, u: side(u, c)
        if method == "odeint":
            return np.sum(integrate.odeint(slope, START, [0.0, 1.0], tfirst=True)[-1] ** 2)
        return np.sum(
            integrate.solve_ivp(slope, (0.0, 1.0), START, method, rtol=1e-7).y[:, -1] ** 2
        )

    few = [ct.gradient(f, c)[0] for c in values]
    monkeypatch.setattr(right_side, "FEWEST_EQUATIONS", 1000)
    whole = [ct.gradient(f, c)[0] for c in values]
    np.testing.assert_allclose(few, whole, rtol=1e-9)


def test_the_order_of_time_and_state_matters():
    def f(p, is_first):
        side = lambda a, b: p * (0.1 * np.cumsum(a) * np.ones(N) + b)
        if is_first:
            found = integrate.solve_ivp(side, (0.0, 1.0), START, rtol=1e-8).y[:, -1]
        else:
            found = integrate.odeint(side, START, [0.0, 1.0])[-1]
        return np.sum(found**2)

    for is_first in (True, False):
        (found,) = ct.gradient(lambda p, i=is_first: f(p, i), 0.7)
        expected = (f(0.7 + 1e-5, is_first) - f(0.7 - 1e-5, is_first)) / 2e-5
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("n", [12, 20])
def test_infinite_derivatives_that_nothing_asks_for(n):
    def f(p):
        side = lambda t, u: -p * np.sqrt(u)
        y = integrate.solve_ivp(side, (0.0, 0.5), np.linspace(0.0, 1.0, n)).y
        return np.sum(y[n // 2 :, -1] ** 2)

    assert ct.gradient(f, 0.3)[0] == pytest.approx((f(0.3 + 1e-5) - f(0.3 - 1e-5)) / 2e-5, rel=1e-5)


@pytest.mark.parametrize("method", ["RK45", "LSODA", "odeint"])
def test_halved_steps_are_those_of_a_fine_mesh(monkeypatch, method):
    rounds = []
    original = collocation_steps.CollocationSteps._halved

    def noting(self, off):
        rounds.append(original(self, off))
        return rounds[-1]

    monkeypatch.setattr(collocation_steps.CollocationSteps, "_halved", noting)
    monkeypatch.setattr(collocation_steps, "_TOGETHER", 16)
    monkeypatch.setattr(collocation_steps, "_STRICT", 4)
    f = lambda p, method=method, tolerance=1e-11: total(diffusion, method, p, tolerance)
    (found,) = ct.gradient(f, P)
    second = ct.hessian(f, P)
    assert method == "RK45" or rounds.count(True) >= 3
    np.testing.assert_allclose(found, central(lambda p: f(p, "DOP853", 1e-12), P), rtol=1e-6)
    np.testing.assert_allclose(second, central(lambda p: ct.gradient(f, p)[0], P), rtol=1e-5)


def test_systems_that_are_too_large_are_repeated_step_by_step(monkeypatch, at_once):
    refusing = SimpleNamespace(Collocation=SimpleNamespace(of=lambda *_: None))
    monkeypatch.setattr(collocation_steps, "_core", refusing)
    found = ct.gradient(lambda p: total(ring, "BDF", p, 1e-6), P)[0]
    assert at_once == [False]
    np.testing.assert_allclose(found, central(lambda p: total(ring, "DOP853", p), P), rtol=1e-3)


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
    assert n * n * 100 > state_jacobians._DERIVATIVES
    assert found == pytest.approx((f(0.8 + 1e-4) - f(0.8 - 1e-4)) / 2e-4, rel=1e-3)
