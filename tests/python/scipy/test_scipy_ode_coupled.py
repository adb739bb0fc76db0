"""Right sides in which every state depends on every other: by products, not by whole matrices."""

import numpy as np
import pytest
from scipy import integrate
from scipy.linalg import expm, expm_frechet

import cotan as ct
from cotan._src.scipy.integrate import (
    collocation_steps,
    explicit_steps,
    moved_states,
    right_side,
    state_products,
)

METHODS = ["RK45", "RK23", "DOP853", "LSODA", "BDF", "Radau", "odeint", "dopri5", "dop853"]
N = 48
random = np.random.default_rng(5)
MATRIX = random.normal(size=(N, N)) / N**0.5 - np.eye(N)
START = np.cos(np.arange(N))


def end_of(side, start, method, tolerance=1e-8, span=1.0):
    options = {"rtol": tolerance, "atol": tolerance}
    if method == "odeint":
        options["mxstep"] = 10_000
        return integrate.odeint(side, start, [0.0, span], tfirst=True, **options)[-1]
    if method in ("dopri5", "dop853"):
        solver = integrate.ode(side).set_integrator(method, **options)
        return solver.set_initial_value(start, 0.0).integrate(span)
    return integrate.solve_ivp(side, (0.0, span), start, method, **options).y[:, -1]


def oscillators(p):
    frequencies = np.linspace(-1.0, 1.0, N) * p[0]

    def side(t, phase):
        pull = np.sin(phase[None, :] - phase[:, None])
        return frequencies + p[1] / N * pull.sum(axis=1) + p[2] * np.sin(t)

    return side


def bodies(masses):
    count = len(masses)

    def side(t, s):
        place, speed = s.reshape(2, count, 3)
        apart = place[None] - place[:, None]
        cubed = (np.sum(apart**2, axis=-1) + 0.1) ** 1.5
        pull = np.sum(masses[None, :, None] * apart / cubed[..., None], axis=1)
        return np.concatenate([speed.ravel(), pull.ravel()])

    return side


def phases(p, method, tolerance=1e-8):
    side = oscillators(p)
    return np.sum(np.cos(end_of(side, START * p[2], method, tolerance)) * np.arange(N))


P = np.array([1.2, 0.9, 0.7])


def central(f, p, h=1e-5):
    unit = np.eye(len(p)) * h
    return np.array([(f(p + e) - f(p - e)) / (2.0 * h) for e in unit])


@pytest.fixture
def by_products(monkeypatch):
    """Note the products that steps were given."""
    taken = []
    for cls in (explicit_steps.ExplicitSteps, collocation_steps.CollocationSteps):

        def begin(self, derivatives, slopes, begin=cls.begin):
            if isinstance(derivatives, state_products.StateProducts):
                taken.append(derivatives)
            return begin(self, derivatives, slopes)

        monkeypatch.setattr(cls, "begin", begin)
    return taken


@pytest.mark.parametrize("method", METHODS)
def test_linear_systems_have_the_derivative_of_the_exponential(by_products, method):
    weights = np.linspace(0.5, 1.5, N)

    def f(matrix, start):
        return weights @ end_of(lambda t, x: matrix @ x, start, method, 1e-9)

    of_matrix, of_start = ct.gradient(f, MATRIX, START)
    direction = random.normal(size=(N, N))
    expected = weights @ expm_frechet(MATRIX, direction, compute_expm=False) @ START
    np.testing.assert_allclose(np.sum(of_matrix * direction), expected, rtol=1e-6)
    np.testing.assert_allclose(of_start, weights @ expm(MATRIX), rtol=1e-6, atol=1e-6)
    assert by_products


@pytest.mark.parametrize("method", METHODS)
def test_gradients_are_those_of_differences(method):
    (found,) = ct.gradient(lambda p: phases(p, method), P)
    expected = central(lambda p: phases(p, "DOP853", 1e-12), P)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_products_give_what_matrices_give(monkeypatch, by_products, method):
    f = lambda p: phases(p, method)
    (few,) = ct.gradient(f, P)
    assert by_products
    for cls in (explicit_steps.ExplicitSteps, collocation_steps.CollocationSteps):
        monkeypatch.setattr(cls, "fewest_products", 10_000)
    by_products.clear()
    (all_rows,) = ct.gradient(f, P)
    assert not by_products
    np.testing.assert_allclose(few, all_rows, rtol=1e-9)


@pytest.mark.parametrize("method", ["RK45", "LSODA", "odeint"])
def test_derivatives_forward_and_of_second_order(method):
    f = lambda p: phases(p, method)
    (gradient,) = ct.gradient(f, P)
    direction = np.array([0.3, -1.0, 0.5])
    _, moved = ct.jvp(f, (P,), (direction,))
    np.testing.assert_allclose(moved, gradient @ direction, rtol=1e-7)
    expected = central(lambda p: ct.gradient(f, p)[0], P)
    np.testing.assert_allclose(ct.hessian(f, P), expected, rtol=1e-4, atol=1e-4)
    rows = ct.jacobian(lambda p: end_of(oscillators(p), START, method)[:4], P)
    of_row = lambda p: end_of(oscillators(p), START, method)[2]
    np.testing.assert_allclose(rows[2], ct.gradient(of_row, P)[0], rtol=1e-9)


@pytest.mark.parametrize("method", ["RK45", "DOP853", "LSODA"])
def test_bodies_attract_each_other(by_products, method):
    place, speed = random.normal(size=(2, 10, 3))
    masses = random.uniform(0.5, 1.5, 10)
    start = np.concatenate([place.ravel(), 0.3 * speed.ravel()])

    def f(masses, method=method, tolerance=1e-8):
        return np.sum(end_of(bodies(masses), start, method, tolerance) ** 2)

    (found,) = ct.gradient(f, masses)
    assert by_products
    expected = central(lambda m: f(m, "DOP853", 1e-12), masses)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_states_between_steps_and_events(by_products, method):
    crossing = lambda t, phase: phase[1] - 0.2

    def f(p):
        found = integrate.solve_ivp(
            oscillators(p), (0.0, 2.0), START, method, rtol=1e-9, atol=1e-9,
            t_eval=np.linspace(0.1, 1.9, 7), dense_output=True, events=crossing,
        )  # fmt: skip
        assert len(found.t_events[0])
        return np.sum(found.y**2) + found.t_events[0][0] + np.sum(np.sin(found.sol(0.77)))

    (found,) = ct.gradient(f, P)
    assert by_products
    np.testing.assert_allclose(found, central(f, P, 1e-4), rtol=1e-4)


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_methods_of_objects_and_large_captured_arrays(by_products, method):
    class Network:
        def __init__(self, inner, outer):
            self.inner, self.outer = inner, outer

        def __call__(self, t, x):
            return self.outer @ np.tanh(self.inner @ x) - x

    inner = random.normal(size=(80, N)) / N**0.5
    outer = random.normal(size=(N, 80)) / 9.0

    def f(inner, outer, method=method, tolerance=1e-8):
        return np.sum(end_of(Network(inner, outer), START, method, tolerance) ** 2)

    of_inner, of_outer = ct.gradient(f, inner, outer)
    assert by_products
    a, b = random.normal(size=inner.shape), random.normal(size=outer.shape)
    along = lambda h: f(inner + h[0] * a, outer + h[0] * b, "DOP853", 1e-12)
    expected = central(along, np.zeros(1))[0]
    np.testing.assert_allclose(np.sum(of_inner * a) + np.sum(of_outer * b), expected, rtol=1e-5)


@pytest.mark.parametrize("method", ["LSODA", "BDF", "odeint"])
def test_long_steps_are_factored(monkeypatch, method):
    # Rates of 0.1 to 1e5, and everything depends on everything.
    basis = np.linalg.qr(random.normal(size=(N, N)))[0]
    rates = np.geomspace(0.1, 1e5, N)
    refused = []

    class Noted(collocation_steps.LongStepsError):
        def __init__(self):
            refused.append(True)

    for module in (collocation_steps, moved_states):
        monkeypatch.setattr(module, "LongStepsError", Noted)

    def side_of(rates):
        matrix = (basis * -rates) @ basis.T
        return lambda t, x: matrix @ (x - np.cos(t))

    def f(rates, method=method, tolerance=1e-8):
        return np.sum(end_of(side_of(rates), START, method, tolerance, 3.0) ** 2)

    (found,) = ct.gradient(f, rates)
    assert refused

    def exact(rates):
        # Of each component x' = -r (x - cos t b) by itself.
        b, x = basis.T @ np.ones(N), basis.T @ START
        forced = b * rates * (rates * np.cos(3.0) + np.sin(3.0)) / (rates**2 + 1.0)
        at_zero = b * rates**2 / (rates**2 + 1.0)
        return np.sum((np.exp(-3.0 * rates) * (x - at_zero) + forced) ** 2)

    expected = central(exact, rates, 1e-5)
    np.testing.assert_allclose(found[:12], expected[:12], rtol=1e-4, atol=1e-7)


def test_what_a_product_raises_is_raised(monkeypatch):
    made = state_products.product_programs

    def failing(*args):
        programs = made(*args)

        def back(*args):
            raise OSError("no product")

        monkeypatch.setattr(programs, "_back", back)
        return programs

    monkeypatch.setattr(right_side, "product_programs", failing)
    monkeypatch.setattr(right_side, "_PRODUCT_PROGRAMS", right_side.Kept())
    with pytest.raises(OSError, match="no product"):
        ct.gradient(lambda p: phases(p, "RK45"), P)


def test_parameters_may_change_after_the_run():
    def f(p):
        return phases(p, "RK45")

    matrix = MATRIX.copy()

    def of_start(start):
        return end_of(lambda t, x: np.tanh(matrix @ x), start, "RK45")

    (expected,) = ct.gradient(lambda x: np.sum(of_start(x)), START)
    _, pull = ct.pullback(of_start, START)
    matrix[:] = 0.0
    np.testing.assert_array_equal(pull(np.ones(N))[0], expected)


@pytest.mark.parametrize("n", [1, 8, 9, 15, 16])
@pytest.mark.parametrize("method", ["RK45", "LSODA", "Radau", "odeint", "dopri5"])
def test_what_is_active_by_itself(n, method):
    start = np.linspace(0.5, 1.0, n)

    def f(rates, start):
        return np.sum(end_of(lambda t, y: -rates * y, start, method) ** 2)

    rates = np.linspace(0.5, 1.0, n)
    of_both = ct.gradient(f, rates, start)
    decayed = np.exp(-2.0 * rates)
    for found, expected in zip(
        of_both, (-2.0 * decayed * start**2, 2.0 * decayed * start), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(ct.gradient(f, rates, ct.const(start))[0], of_both[0], rtol=1e-9)
    np.testing.assert_allclose(ct.gradient(f, ct.const(rates), start)[1], of_both[1], rtol=1e-9)
    _, moved = ct.jvp(lambda start: f(rates, start), (start,), (np.ones(n),))
    np.testing.assert_allclose(moved, np.sum(of_both[1]), rtol=1e-6)


@pytest.mark.parametrize("method", ["RK45", "LSODA", "BDF"])
def test_jacobians_of_all_states(method):
    f = lambda start: end_of(lambda t, x: MATRIX @ x, start, method, 1e-9)
    np.testing.assert_allclose(ct.jacobian(f, START), expm(MATRIX), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_cotangents_that_are_not_finite(method):
    f = lambda start: end_of(lambda t, x: np.tanh(MATRIX @ x), start, method)
    _, pull = ct.pullback(f, START)
    assert np.all(np.isnan(pull(np.full(N, np.nan))[0]))
    assert np.all(np.isfinite(pull(np.ones(N))[0]))
