"""Compiled solvers that do not tell their stages: where these are found among the calls."""

import numpy as np
import pytest
from scipy import integrate, optimize

import cotan as ct
from cotan._src.scipy.integrate import collocation_steps, ode_at_once


def central(f, at, step=1e-5):
    return (f(at + step) - f(at - step)) / (2 * step)


def bump(t, y, p):
    """Give slopes that a solver rejects steps for."""
    return [y[1] * np.cos(t), -p * y[0] - 0.3 * y[1] + 30 / (1 + 400 * (t - 0.7) ** 2)]


def reached(p, name, end, **options):
    solver = integrate.ode(lambda t, y: bump(t, y, p)).set_integrator(name, nsteps=5000, **options)
    return np.sum(solver.set_initial_value([1.0, 0.0], 0.0).integrate(end) ** 2)


@pytest.mark.parametrize("name", ["dopri5", "dop853"])
@pytest.mark.parametrize("end", [5.0, -2.0])
@pytest.mark.parametrize("options", [{}, {"first_step": 0.01}, {"max_step": 0.05}])
def test_stages_are_found_among_the_calls(monkeypatch, name, end, options):
    found = []
    original = ode_at_once._found_steps
    monkeypatch.setattr(
        ode_at_once, "_found_steps", lambda *args: found.append(original(*args)) or found[-1]
    )
    forward = {k: v if end > 0 or k != "first_step" else 0.0 for k, v in options.items()}
    options = {"rtol": 1e-9, "atol": 1e-11, **forward}
    value, (slope,) = ct.value_and_gradient(lambda p: reached(p, name, end, **options), 2.0)
    assert len(found) == 1
    assert found[0] is not None
    assert value == reached(2.0, name, end, **options)
    assert slope == pytest.approx(
        central(lambda p: reached(p, name, end, **options), 2.0), rel=1e-5
    )
    # Computed once more they give the same.
    monkeypatch.setattr(ode_at_once, "_found_steps", lambda *args: None)
    _, (again,) = ct.value_and_gradient(lambda p: reached(p, name, end, **options), 2.0)
    assert slope == pytest.approx(again, rel=1e-11)


@pytest.mark.parametrize("name", ["dopri5", "dop853"])
def test_a_first_step_away_from_the_end(name):
    # SciPy takes the first step forward, and then goes back to the end.
    def f(p):
        return reached(p, name, -2.0, rtol=1e-8, first_step=0.5)

    _, (slope,) = ct.value_and_gradient(f, 2.0)
    assert slope == pytest.approx(central(f, 2.0), rel=1e-4)


def cells(p, n, times, **options):
    rate = np.linspace(1.0, 2.0, n)

    def slope(u, t):
        left, right = np.concatenate([u[:1], u[:-1]]), np.concatenate([u[1:], u[-1:]])
        return p * rate * (left - 2.0 * u + right) - 0.1 * u**2 + np.sin(t)

    return np.sum(integrate.odeint(slope, np.linspace(1.0, 2.0, n), times, **options)[1:] ** 2)


@pytest.mark.parametrize("n", [1, 4, 5, 20])
@pytest.mark.parametrize("times", [[0.0, 2.0], [0.0, -0.05, -0.1], np.linspace(0.0, 2.0, 15)])
def test_odeint_with_few_and_many_equations(n, times):
    f = lambda p: cells(p, n, times)
    value, (slope,) = ct.value_and_gradient(f, 3.0)
    assert value == f(3.0)
    tight = lambda p: cells(p, n, times, rtol=1e-11, atol=1e-11)
    assert slope == pytest.approx(central(tight, 3.0, 1e-4), rel=1e-6, abs=1e-6)


def test_steps_that_were_too_long_together_are_halved(monkeypatch):
    made = []
    original = collocation_steps.CollocationSteps._halved

    def noting(self, slopes):
        made.append(original(self, slopes))
        return made[-1]

    monkeypatch.setattr(collocation_steps.CollocationSteps, "_halved", noting)

    def f(p, **options):
        def slope(t, u):
            return -p * u + 20.0 / (1.0 + 4000.0 * (t - 0.7) ** 2)

        options = {"rtol": 1e-10, "atol": 1e-10} | options
        y = integrate.odeint(slope, np.linspace(0, 1, 6), [0.0, 1.5], tfirst=True, **options)
        return np.sum(y[1:] ** 2)

    _, (slope,) = ct.value_and_gradient(f, 3.0)
    assert made[0]
    assert not made[-1]
    tight = lambda p: f(p, rtol=1e-12, atol=1e-12)
    assert slope == pytest.approx(central(tight, 3.0), rel=1e-6)


def test_an_odeint_that_gives_up_is_differentiated_as_before():
    def f(p):
        with pytest.warns(integrate.ODEintWarning):
            y = integrate.odeint(lambda y, t: -p * y, [1.0], [0.0, 1.0], mxstep=3)
        return y[0, 0] * p

    assert ct.gradient(f, 2.0)[0] == pytest.approx(1.0)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_root_of_what_a_solver_gives(is_compiled):
    """Shoot: the equations are solved for each guess of the root."""

    def ends(v, p):
        if is_compiled:
            y = integrate.odeint(
                lambda y, t: [y[1], -p * np.sin(y[0])], [v[0], v[1]], [0.0, 1.0], rtol=1e-10
            )
            return y[-1, 0]
        span, options = (0.0, 1.0), {"rtol": 1e-10, "atol": 1e-11}
        return integrate.solve_ivp(
            lambda t, y: [y[1], -p * np.sin(y[0])], span, [v[0], v[1]], **options
        ).y[0, -1]

    def total(p):
        return np.sum(
            optimize.fsolve(
                lambda v: [ends(v, p) - 1.0, v[1] - 0.5 - 0.1 * v[0]], [1.0, 0.5], xtol=1e-11
            )
        )

    _, (slope,) = ct.value_and_gradient(total, 2.0)
    assert slope == pytest.approx(central(total, 2.0, 1e-4), rel=1e-6)


def test_late_and_backward_times():
    """The second run may be refused where the first was not: nodes lie closer to the start."""

    def late(p):
        times = [1e8, 1e8 + 1.0]
        return np.sum(
            integrate.odeint(lambda y, t: -p * y, [1.0, 2.0], times, rtol=1e-11, atol=1e-11)[-1]
        )

    assert ct.gradient(late, 1.2)[0] == pytest.approx(-3 * np.exp(-1.2), rel=1e-6)

    def slopes(y, t, p):
        return 2 * y - np.tanh(30 * (p * np.roll(y, 1) - 0.2))

    def back(p, tolerance=1e-5):
        start, times = np.linspace(-1.0, 1.0, 5), [1e3, 1e3 - 1.0, 1e3 - 3.0]
        options = {"rtol": tolerance, "atol": tolerance}
        return np.sum(integrate.odeint(slopes, start, times, args=(p,), **options))

    found = {ct.gradient(back, 1.2)[0] for _ in range(3)}
    assert len(found) == 1
    assert found.pop() == pytest.approx(central(lambda p: back(p, 1e-12), 1.2), rel=1e-3)


@pytest.mark.parametrize("n", [6, 12])
@pytest.mark.parametrize("tolerance", [None, 1e-10])
def test_steps_are_halved_a_few_times_only(monkeypatch, n, tolerance):
    """The states of the solver jump where its steps meet, however short these are made."""
    halved = []
    original = collocation_steps.CollocationSteps._halved
    monkeypatch.setattr(
        collocation_steps.CollocationSteps, "_halved",
        lambda *args: halved.append(original(*args)) or halved[-1],
    )  # fmt: skip
    start = np.sin(np.pi * np.arange(1, n + 1) / (n + 1))

    def heat(y, t, p):
        return p * n * n * (np.append(y[1:], 0.0) - 2 * y + np.append(0.0, y[:-1]))

    def total(p, tolerance=tolerance):
        options = {"rtol": tolerance, "atol": tolerance}
        return np.sum(integrate.odeint(heat, start, [0.0, 0.1, 0.5], args=(p,), **options))

    _, (slope,) = ct.value_and_gradient(total, 1.2)
    assert sum(halved) < 8
    exact = central(lambda p: total(p, 1e-13), 1.2, 1e-3)
    assert slope == pytest.approx(exact, rel=1e-4 if tolerance is None else 1e-6)


@pytest.mark.parametrize("name", ["dopri5", "dop853"])
def test_a_right_side_that_is_refused_in_compiled_code(name):
    def run(p):
        calls = 0

        def f(t, y):
            nonlocal calls
            calls += 1
            return np.array([-p * y[0], y[0]])

        solver = integrate.ode(f).set_integrator(name, rtol=1e-9, atol=1e-11)
        solver.set_initial_value([1.0, 0.5], 0.0)
        solver.integrate(0.5)
        return solver.integrate(1.5)[0]

    assert ct.gradient(run, 1.2)[0] == pytest.approx(-1.5 * np.exp(-1.8), rel=1e-6)
