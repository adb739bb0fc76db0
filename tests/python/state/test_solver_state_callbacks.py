"""What callbacks, constraints, events and integrands keep that solvers of SciPy call."""

import numpy as np
import pytest
from scipy import integrate, ndimage, optimize, spatial
from scipy.optimize import elementwise
from scipy_cases import check
from test_solver_state import TIGHT, values

import cotan as ct


def test_what_constraints_and_callbacks_keep():
    def run(p):
        calls = {"constraint": 0, "callback": 0, "both": []}

        def above(x):
            calls["constraint"] += 1
            return x[0] - p

        def loss(x):
            calls["both"].append(np.sum((x - 0.5 * p) ** 2))
            return calls["both"][-1]

        def noted(x):
            calls["callback"] += 1
            calls["both"].append("step")

        found = optimize.minimize(
            loss,
            [2.0, 1.0],
            method="SLSQP",
            callback=noted,
            constraints={"type": "ineq", "fun": above},
        )
        return found.fun, [calls["constraint"], calls["callback"], len(calls["both"])]

    seen = []

    def solved(p):
        value, counts = run(p)
        seen.append(counts)
        return value

    ct.gradient(solved, 1.3)
    assert seen == [run(1.3)[1]]


def solved_with_slopes(method, f, slopes, event):
    if method == "odeint":
        return integrate.odeint(f, [1.0], [0.0, 1.0], Dfun=slopes, tfirst=True)[-1, 0]
    if method in {"vode", "lsoda"}:
        solver = integrate.ode(f, slopes).set_integrator(method, method="bdf", rtol=1e-6)
        return solver.set_initial_value([1.0]).integrate(1.0)[0]
    more = {"jac": slopes} if method in {"Radau", "BDF", "LSODA"} else {}
    events = [event, lambda t, y: y[0] - 0.1] if method in {"RK45", "DOP853", "Radau"} else None
    return integrate.solve_ivp(f, (0, 1), [1.0], method, events=events, **TIGHT, **more).y[0, -1]


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF", "LSODA", "odeint", "vode"])
def test_what_events_and_slopes_keep(method):
    def run(k):
        forces, order = [], []

        def keep(name, y):
            forces.append(k * y[0])
            order.append(name)

        def cooled(t, y):
            keep(1, y)
            return [-k * y[0]]

        def slopes(t, y):
            keep(2, y)
            return [[-k]]

        def event(t, y):
            keep(3, y)
            return y[0] - 0.5

        return solved_with_slopes(method, cooled, slopes, event), forces, order

    k = 1.3
    end, forces, order = run(k)
    assert len(set(order)) > 1 or method in {"LSODA", "odeint"}  # not stiff
    seen = []

    def solved(k):
        end, forces, order = run(k)
        seen.extend([values(forces), order])
        return end + np.sum(forces)

    value, (slope,) = ct.value_and_gradient(solved, k)
    assert value == pytest.approx(end + np.sum(forces), rel=1e-8)
    assert seen[1] == order
    np.testing.assert_allclose(seen[0], forces, 1e-8)
    # Each one is k exp(-k t), at a time that is constant.
    wanted = -end + np.sum(np.array(forces) / k * (1 + np.log(np.array(forces) / k)))
    assert slope == pytest.approx(wanted, rel=1e-2)


def test_integrands_with_arguments_and_ends():
    def seen(p, end, integral, weight=1.0):
        log, calls = [], np.zeros(1, int)

        def decay(x, p):
            log.append(np.exp(-p * x))
            calls[0] += 1
            return log[-1]

        result = integral(decay, 0, end, p)
        return result + weight * np.sum(np.square(log)) + len(log) + calls[0]

    for integral in (
        lambda f, a, b, p: integrate.quad(f, a, b, (p,))[0],
        lambda f, a, b, p: integrate.quad(f, b, a, (p,))[0],
        lambda f, a, b, p: integrate.quad(f, b, np.inf, (p,))[0],
        lambda f, a, b, p: integrate.quad_vec(f, a, b, args=(p,))[0],
        lambda f, a, b, p: (
            integrate.quad(lambda x, q: (1 + 2j) * f(x, q), a, b, (p,), complex_func=True)[0].imag
        ),
        lambda f, a, b, p: integrate.dblquad(lambda y, x, q: f(x * y, q), a, b, 0, 1, (p,))[0],
        lambda f, a, b, p: integrate.nquad(lambda x, y, q: f(x + y, q), [(a, b), (0, 1)], (p,))[0],
    ):
        check(lambda p, b, i=integral: seen(p, b, i), 0.7, 1.5, rtol=1e-4)


def test_differences_and_equations_for_each_element():
    def counted(f):
        calls = np.zeros(1, int)

        def call(*args):
            calls[0] += 1
            return f(*args)

        return call, calls

    points = np.random.default_rng(0).normal(size=(4, 3))

    def differences(f, p):
        return optimize.approx_fprime(np.array([1.0, 0.5]), lambda x: f(x[0] ** 2 * x[1], p))[0]

    def root(f, p):
        return elementwise.find_root(lambda x: f(x, p) - 2.0, (0.5, 3.0)).x[()]

    def minimum(f, p):
        found = elementwise.find_minimum(lambda x: f(x, p) ** 2, (-2.0, 0.1, 3.0))
        return found.x[()] + p

    def distances(f, p):
        return np.sum(spatial.distance.cdist(points, points, lambda u, v: f(u @ v, p)))

    def filtered(f, p):
        return np.sum(ndimage.generic_filter(points, lambda v: f(v[1], p), 3))

    for solve in (differences, root, minimum, distances, filtered):

        def run(p, solve=solve):
            f, calls = counted(lambda x, p: p * x + 0.3)
            return solve(f, p), calls[0]

        seen = []

        def solved(p, run=run, seen=seen):
            value, calls = run(p)
            seen.append(calls)
            return value

        value, (slope,) = ct.value_and_gradient(solved, 1.3)
        assert seen == [run(1.3)[1]]
        assert value == pytest.approx(run(1.3)[0])
        assert slope == pytest.approx((run(1.3001)[0] - run(1.2999)[0]) / 2e-4, rel=1e-3)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "SLSQP", "trust-constr", "Nelder-Mead"])
@pytest.mark.parametrize("kind", ["x", "report"])
def test_what_a_callback_keeps_last_follows_the_solution(method, kind):
    def run(p):
        path, calls = [], np.zeros(1, int)

        def loss(x, p):
            calls[0] += 1
            return np.sum((x - p) ** 2) + x[0] ** 4

        def noted(x, *state):
            path.append(x.copy())

        def reported(intermediate_result):
            path.append(intermediate_result.x * intermediate_result.fun)

        optimize.minimize(
            loss,
            np.array([1.0, 2.0]),
            (p,),
            method,
            callback=noted if kind == "x" else reported,
            tol=1e-8,
        )
        return np.sum(path[-1] * [1.0, 3.0]) + 0.0 * path[0][0], len(path), calls[0]

    seen = []

    def last(p):
        value, *counts = run(p)
        seen.append(counts)
        return value

    value, (slope,) = ct.value_and_gradient(last, 1.3)
    assert value == pytest.approx(run(1.3)[0], rel=1e-9)
    assert tuple(seen[0]) == run(1.3)[1:]
    h = 1e-2
    assert slope == pytest.approx((run(1.3 + h)[0] - run(1.3 - h)[0]) / (2 * h), rel=1e-2)
