"""`scipy.integrate.ode` under a gradient."""

import numpy as np
import pytest
from scipy.integrate import complex_ode, ode

import cotan as ct
from cotan._src.scipy.integrate import ode_class

METHODS = {
    "dopri5": {},
    "dop853": {},
    "vode": {"rtol": 1e-9, "atol": 1e-11},
    "lsoda": {"rtol": 1e-9, "atol": 1e-11},
}


def pendulum(t, y, k):
    return [y[1], -k * np.sin(y[0]) - 0.1 * y[1] + 0.1 * t]


def expect_slopes(f, *at, rtol=1e-5):
    """Compare value and gradient with SciPy and central differences."""
    value, found = ct.value_and_gradient(f, *at)
    assert value == f(*at)
    for i, slope in enumerate(found):
        step = [1e-4 * (i == j) for j in range(len(at))]
        ends = [f(*(x + sign * s for x, s in zip(at, step, strict=True))) for sign in (1, -1)]
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=rtol)


@pytest.mark.parametrize("how", ["params", "closure"])
@pytest.mark.parametrize("name", METHODS)
def test_one_time_after_the_other(name, how):
    def f(k, y0, dt):
        if how == "params":
            solver = ode(pendulum).set_f_params(k)
        else:
            solver = ode(lambda t, y: pendulum(t, y, k))
        solver.set_integrator(name, **METHODS[name]).set_initial_value([y0, 0.0], 0.0)
        total = 0.0
        while solver.successful() and solver.t < 3.5 * dt:
            y = solver.integrate(solver.t + dt)
            total = total + y[0] * y[1] + solver.y[0] * solver.t
        return total

    expect_slopes(f, 2.0, 0.5, 0.2)


def test_a_state_that_is_plain_at_first_is_not_changed_by_the_solver():
    def f(k):
        solver = ode(lambda t, y: -k * y).set_integrator("lsoda", rtol=1e-10, atol=1e-12)
        return solver.set_initial_value([1.0]).integrate(1.0)[0]

    expect_slopes(f, 1.5)


def test_stiff_systems_with_a_jacobian():
    def f(k):
        def slope(t, y):
            return [-k * (y[0] - np.cos(t)), y[0] - y[1]]

        def jacobian(t, y):
            return [[-k, 0.0], [1.0, -1.0]]

        solver = ode(slope, jacobian).set_integrator("vode", method="bdf", rtol=1e-9, atol=1e-11)
        solver.set_initial_value([0.0, 1.0], 0.0)
        return k * np.sum(solver.integrate(1.0) * [1.0, 0.1])

    expect_slopes(f, 50.0, rtol=1e-4)


@pytest.mark.parametrize("stop", [None, 0.5])
@pytest.mark.parametrize("name", ["dopri5", "dop853"])
def test_solout_is_called_with_active_steps(name, stop):
    def heard(k):
        steps = []

        def solout(t, y):
            steps.append([t, y[0]])
            return -1 if stop is not None and y[0] < stop else 0

        solver = ode(lambda t, y: -k * y).set_integrator(name, max_step=0.125)
        solver.set_solout(solout)
        solver.set_initial_value([1.0], 0.0).integrate(1.0)
        steps.append([solver.t, solver.y[0]])
        return np.array(steps)

    plain = heard(1.2)
    value, back = ct.pullback(heard, 1.2)
    np.testing.assert_allclose(value, plain, rtol=1e-12)
    assert (value[-1, 1] < 0.5) == (plain[-1, 0] > 0.5) and value[-2, 1] == value[-1, 1]
    # The times are constant.
    for i, (t, y) in enumerate(plain):
        cotangent = np.zeros(plain.shape)
        cotangent[i, 1] = 1.0
        assert back(cotangent)[0] == pytest.approx(-t * y, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("name", ["dopri5", "vode"])
def test_complex_numbers(name):
    options = {"rtol": 1e-9, "atol": 1e-11}

    def parts(w, y0):
        solver = complex_ode(lambda t, y: 1j * w * y + t).set_integrator(name, **options)
        solver.set_initial_value([y0 + 0.5j * w], 0.0)
        solver.integrate(0.5)
        return solver.integrate(1.0)[0].real + np.imag(solver.y[0])

    expect_slopes(parts, 1.3, 0.7)

    def zvode(w):
        solver = ode(lambda t, y, w: [1j * w * y[0]]).set_integrator("zvode", **options)
        return solver.set_initial_value([1.0 + 0j]).set_f_params(w).integrate(1.0)[0].real

    expect_slopes(zvode, 1.3)


def test_constants_are_scipys_own():
    def solved():
        solver = ode(pendulum).set_integrator("dopri5").set_f_params(2.0)
        return solver.set_initial_value([0.5, 0.0]).integrate(1.0)

    def f(x):
        y = solved()
        assert type(y) is np.ndarray
        return x * y[0]

    assert ct.gradient(f, 1.0) == (solved()[0],)


def test_a_subclass_of_the_program():
    class Solver(ode):
        def go(self, t):
            return super().integrate(t)

    def f(k):
        solver = Solver(lambda t, y: -k * y).set_integrator("dop853")
        return solver.set_initial_value(2.0).go(1.0)[0]

    expect_slopes(f, 1.5)
    (second,) = ct.gradient(lambda k: ct.grad(f)(k), 1.5)
    assert second == pytest.approx(2 * np.exp(-1.5), rel=1e-6)


@pytest.mark.parametrize("method", ["dopri5", "dop853", "vode", "lsoda"])
def test_what_a_right_side_keeps(method):
    def run(k):
        log = []

        def spring(t, y):
            log.append(abs(k * y[0]))
            return [y[1], -k * y[0]]

        solver = ode(spring).set_integrator(method, rtol=1e-9, atol=1e-9)
        if method == "dop853":
            # Without a `solout`, the one of SciPy 1.17 asks an uninitialised variable whether a
            # step was altered, and may call the right side once more in each.
            solver.set_solout(lambda t, y: 0)
        solver.set_initial_value([1.0, 0.5], 0.0)
        places = [solver.integrate(t)[0] for t in (0.5, 1.0, 2.0)]
        return sum(places), log

    (_, log), k, seen = run(1.3), 1.3, []

    def largest(k):
        places, log = run(k)
        seen.append(len(log))
        return places + max(log)

    value, (slope,) = ct.value_and_gradient(largest, k)
    assert seen == [len(log)]
    assert value == pytest.approx(largest(k), rel=1e-9)
    highest, h = np.sqrt(k**2 + 0.25 * k), 1e-4
    moved = (run(k + h)[0] - run(k - h)[0]) / (2 * h)
    assert slope == pytest.approx(moved + (2 * k + 0.25) / (2 * highest), rel=0.02)


class Orbit:
    """An object that holds the solver of its own right side, and what that has given."""

    def __init__(self, k, start, name):
        self.k, self.places, self.calls = k, np.zeros(8), 0
        self.solver = ode(self.slope)
        self.solver.set_integrator(name, rtol=1e-6).set_initial_value(start, 0.0)
        self.places[0] = start[0]

    def slope(self, t, y):
        self.calls += 1
        return [y[1], -self.k * y[0] * (1.0 + y[0] ** 2)]

    def run(self):
        for i in range(1, len(self.places)):
            self.solver.integrate(self.solver.t + 0.7)
            self.places[i] = self.solver.y[0]
        return self.places[3] + 2.0 * self.places[7]


@pytest.mark.parametrize("name", METHODS)
def test_a_solver_that_its_right_side_leads_to_goes_on_from_where_it_is(name):
    expect_slopes(lambda k, y0: Orbit(k, [y0, 0.2], name).run(), 2.0, 0.5, rtol=1e-3)


@pytest.mark.parametrize("name", ["dopri5", "dop853"])
@pytest.mark.parametrize("end", [4.0, -2.0])
def test_all_steps_are_differentiated_at_once(monkeypatch, name, end):
    calls = []
    given = ode_class.integrated_at_once

    def noting(*args):
        found = given(*args)
        calls.append(found is not None)
        return found

    monkeypatch.setattr(ode_class, "integrated_at_once", noting)
    start = np.array([1.0, 0.2])

    def swing(p):
        def slope(t, y, pull):
            damping = p[0] if t < 1.6 else 2.0 * p[0]
            return [y[1], -damping * y[1] - pull * np.sin(y[0]) + 0.1 * t]

        solver = ode(slope).set_integrator(name, rtol=1e-11, atol=1e-12, nsteps=5000)
        solver.set_initial_value(start * p[2], 0.0).set_f_params(p[1])
        first = solver.integrate(0.4 * end)
        return np.sum(first) + solver.integrate(end) @ np.array([1.0, 2.0]) + 0.0 * solver.t

    p = np.array([0.3, 4.0, 1.1])
    value, (found,) = ct.value_and_gradient(swing, p)
    assert calls == [True, True]
    assert value == swing(p)
    assert np.array_equal(start, [1.0, 0.2])
    expected = [(swing(p + h) - swing(p - h)) / 2e-4 for h in 1e-4 * np.eye(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_a_right_side_that_counts_is_called_as_before():
    count = []

    def last(rate):
        def slope(t, y):
            count.append(t)
            return -rate * y

        return ode(slope).set_integrator("dopri5").set_initial_value(1.0).integrate(1.0)[0]

    last(0.7)
    times, count[:] = list(count), []
    assert ct.gradient(last, 0.7)[0] == pytest.approx(-np.exp(-0.7), rel=1e-5)
    assert count == times


@pytest.mark.parametrize("method", ["adams", "bdf"])
def test_complex_states_of_zvode(method):
    def f(a):
        solver = ode(lambda t, y, k: [1j * k * y[0] + y[1], -k * y[1] ** 2])
        solver.set_integrator("zvode", method=method, rtol=1e-10, atol=1e-12)
        solver.set_initial_value([1j + a, 2.0], 0).set_f_params(2.0)
        return np.sum(np.abs(solver.integrate(1.0)))

    expect_slopes(f, 0.2)
