"""Solvers of ordinary differential equations under a gradient."""

import os
from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np
import pytest
from scipy import integrate
from scipy_cases import check, differences

import cotan as ct

Y0 = np.array([1.0, 0.2])
P = np.array([0.4, 1.3])
T = np.linspace(0, 2, 5)
TIGHT = {"rtol": 1e-9, "atol": 1e-10}


def pendulum(t, y, p):
    return [y[1], -p[0] * y[1] - p[1] * np.sin(y[0]) + 0.1 * t]


def solved(y0, p, method="RK45", **options):
    return integrate.solve_ivp(pendulum, (0, 2), y0, method, args=(p,), **options)


@pytest.mark.parametrize("method", ["RK45", "RK23", "DOP853"])
def test_the_steps_that_were_taken(method):
    options = TIGHT if method != "RK23" else {"rtol": 1e-6, "atol": 1e-8}
    # Finite differences see that steps change their lengths, by as much as the tolerance.
    loose = {"rtol": 1e-4, "atol": 1e-5}
    check(lambda y0, p: solved(y0, p, method, **options).y[:, -1], Y0, P, **loose)
    check(lambda y0, p: solved(y0, p, method, t_eval=T, **options).y, Y0, P, **loose)
    check(
        lambda y0, p: solved(y0, p, method, dense_output=True, **options).sol(np.array([0.3, 1.7])),
        Y0,
        P,
        **loose,
    )


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA"])
def test_stiff_methods(method):
    options = {"rtol": 1e-8, "atol": 1e-9}
    loose = {"rtol": 1e-3, "atol": 1e-4, "value_rtol": 1e-6, "value_atol": 1e-8}
    check(lambda y0, p: solved(y0, p, method, t_eval=T, **options).y, Y0, P, **loose)
    check(lambda y0, p: solved(y0, p, method, **options).y[:, -1], Y0, P, **loose)


@pytest.mark.parametrize("method", ["RK45", "Radau", "BDF", "LSODA"])
def test_a_right_side_of_columns(method):
    def f(y0, p):
        def columns(t, y):
            return np.stack([y[1, :], -p[0] * y[1, :] - p[1] * np.sin(y[0, :])])

        options = {"rtol": 1e-8, "atol": 1e-9, "vectorized": True}
        return integrate.solve_ivp(columns, (0, 2), y0, method, **options).y[:, -1]

    check(f, Y0, P, rtol=1e-3, atol=1e-4, value_rtol=1e-6, value_atol=1e-8)


def test_second_order():
    def f(p):
        return integrate.solve_ivp(lambda t, y: -p * y, (0, 1), [1.0], **TIGHT).y[0, -1]

    assert ct.grad(ct.grad(f))(0.7) == pytest.approx(np.exp(-0.7), rel=1e-6)

    def stiff(p):
        return integrate.solve_ivp(lambda t, y: -p * y**2, (0, 1), [1.0], "Radau", **TIGHT).y[0, -1]

    assert ct.grad(stiff)(0.7) == pytest.approx(-1 / 1.7**2, rel=1e-6)
    assert ct.grad(ct.grad(stiff))(0.7) == pytest.approx(2 / 1.7**3, rel=1e-6)


def test_closures_and_times():
    def f(p, t0, t1):
        return integrate.solve_ivp(lambda t, y: -p * y * t, (t0, t1), [1.0], **TIGHT).y[0, -1]

    exact = lambda p, a, b: np.exp(-p * (b**2 - a**2) / 2)
    value, gradients = ct.value_and_gradient(f, 0.7, 0.5, 1.5)
    assert value == pytest.approx(exact(0.7, 0.5, 1.5))
    for i, g in enumerate(gradients):
        wanted = differences(exact, (0.7, 0.5, 1.5), i)
        assert g == pytest.approx(float(wanted), rel=1e-5)

    def g(times):
        return np.sum(
            integrate.solve_ivp(lambda t, y: -y, (0, 2), [1.0], t_eval=times, **TIGHT).y[0]
        )

    times = np.array([0.3, 1.1])
    np.testing.assert_allclose(ct.gradient(g, times)[0], -np.exp(-times), rtol=1e-5)


def test_events():
    def fall(height, gravity):
        def ground(t, y):
            return y[0]

        ground.terminal = True
        result = integrate.solve_ivp(
            lambda t, y: [y[1], -gravity], (0, 10), [height, 0.0], events=ground, **TIGHT
        )
        assert result.status == 1
        return result.t[-1], result.t_events[0][0], result.y[1, -1]

    exact = [np.sqrt(2 * 3.0 / 9.81), np.sqrt(2 * 3.0 / 9.81), -np.sqrt(2 * 3.0 * 9.81)]
    for i in range(3):
        value, (dh, dg) = ct.value_and_gradient(lambda h, g, i=i: fall(h, g)[i], 3.0, 9.81)
        sign = -1 if i < 2 else 1
        assert value == pytest.approx(exact[i])
        assert dh == pytest.approx(exact[i] / 6)
        assert dg == pytest.approx(sign * exact[i] / (2 * 9.81))


def test_events_that_depend_while_nothing_else_does():
    def fallen(h, **options):
        return integrate.solve_ivp(
            lambda t, y: [y[1], -9.81],
            (0, 9),
            [4.0, 1.0],
            events=lambda t, y: y[0] - h[0],
            **options,
        )

    check(lambda h: fallen(h).t_events[0], np.array([1.5]))
    check(lambda h: fallen(h, dense_output=True).y_events[0], np.array([1.5]))


def test_constants_are_solved_as_ever():
    seen = []

    def f(x):
        seen.append(integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0]))
        seen.append(integrate.odeint(lambda y, t: -y, [1.0], T))
        return x * seen[0].y[0, -1]

    (slope,) = ct.gradient(f, 2.0)
    plain = integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0])
    assert slope == plain.y[0, -1]
    assert seen[0].nfev == plain.nfev
    assert type(seen[0].y) is np.ndarray
    assert type(seen[1]) is np.ndarray


def test_odeint():
    loose = {"rtol": 1e-4, "atol": 1e-5}
    check(
        lambda y0, p: integrate.odeint(lambda y, t, p: pendulum(t, y, p), y0, T, (p,)),
        Y0,
        P,
        **loose,
    )
    check(lambda y0, p: integrate.odeint(pendulum, y0, T, (p,), tfirst=True), Y0, P, **loose)

    def stiff(k):
        return integrate.odeint(lambda y, t: -k * (y - np.cos(t)), [0.0], [0.0, 0.5, 1.0])[-1, 0]

    (slope,) = ct.gradient(stiff, 1000.0)
    wanted = (stiff(1010.0) - stiff(990.0)) / 20
    assert slope == pytest.approx(wanted, rel=1e-2)


def test_many_times_within_few_steps():
    # Those within one step are computed together: 20,000 take a moment.
    times = np.linspace(0, 5, 20_001)

    def f(k):
        y = integrate.odeint(lambda y, t: [-k * y[0], 1.0], [2.0, 0.0], times, **TIGHT)
        return np.sum(y[:, 0]) / 4000 + y[-1, 0] * y[3, 1]

    def g(k):
        result = integrate.solve_ivp(
            lambda t, y: -k * y, (5, 0), [2.0], t_eval=times[::-1], **TIGHT
        )
        return np.sum(result.y) / 4000

    for h in (f, g):
        value, (slope,) = ct.value_and_gradient(h, 0.7)
        assert value == pytest.approx(h(0.7), rel=1e-14)
        assert slope == pytest.approx((h(0.7 + 1e-5) - h(0.7 - 1e-5)) / 2e-5, rel=1e-4)


class Sampled:
    """A controller that holds what it decides for a tenth of a second, and writes it down."""

    def __init__(self, gain):
        self.gain, self.decided, self.force, self.log = gain, -1.0, 0.0, []

    def __call__(self, t, y):
        if t - self.decided >= 0.1:
            self.force, self.decided = -self.gain * y[0] - 0.3 * y[1], t
            self.log.append(self.force)
        return [y[1], self.force]


@pytest.mark.parametrize("method", ["RK45", "RK23", "DOP853"])
def test_what_a_right_side_keeps(method):
    # Steps of one length, or differences would see that they change.
    steps = {"first_step": 0.05, "max_step": 0.05, "rtol": 1e9}

    def run(gain):
        motor = Sampled(gain)
        result = integrate.solve_ivp(motor, (0, 1), [1.0, 0.0], method, **steps)
        return np.sum(result.y[:, -1]) + np.sum(np.square(motor.log)) + len(motor.log)

    check(run, np.array(0.8))


def test_steps_that_a_solver_thought_better_of():
    def run(k, t_eval=None, method="RK45"):
        log = []

        def cooled(t, y):
            log.append(k * y[0] * np.tanh(30 * (t - 0.5)))
            return [-log[-1]]

        result = integrate.solve_ivp(cooled, (0, 1), [1.0], method, t_eval, rtol=1e-5)
        return np.sum(np.square(log)) + result.y[0, -1] + len(log)

    for options in [(), ([0.3, 1.0],), (None, "LSODA"), (None, "Radau"), ([1.0], "DOP853")]:
        value, _ = ct.value_and_gradient(lambda k, options=options: run(k, *options), 1.3)
        assert value == pytest.approx(run(1.3, *options), rel=1e-9)


def test_what_a_right_side_has_seen():
    def largest(k, method):
        force = 0.0

        def spring(t, y):
            nonlocal force
            force = max(force, abs(k * y[0]))
            return [y[1], -k * y[0]]

        integrate.solve_ivp(spring, (0, 2), [1.0, 0.5], method, rtol=1e-8, atol=1e-8)
        return force

    k, h = 1.3, 1e-5
    highest = np.sqrt(k**2 + 0.25 * k)
    for method, near in [("RK45", 1e-3), ("BDF", 1e-3), ("LSODA", 1e-3)]:
        value, (slope,) = ct.value_and_gradient(lambda k, m=method: largest(k, m), k)
        assert value == pytest.approx(largest(k, method), rel=1e-14)
        assert value == pytest.approx(highest, rel=near)
        assert slope == pytest.approx((2 * k + 0.25) / (2 * highest), rel=0.03)

    def last(k):
        seen = {}

        def spring(y, t):
            seen["force"] = -k * y[0]
            return [y[1], seen["force"]]

        places = integrate.odeint(spring, [1.0, 0.5], T, tcrit=[2.0])[:, 0]
        return seen["force"] + np.sum(places) * 0.0

    value, (slope,) = ct.value_and_gradient(last, k)
    assert value == last(k)
    assert slope == pytest.approx((last(k + h) - last(k - h)) / (2 * h), rel=0.05)


class Log(list):
    """A list that counts what comes to it."""

    count = 0

    def add(self, value):
        self.append(value)
        self.count += 1


def test_collections_that_a_right_side_fills():
    def run(k):
        log, table, recent, names = Log(), {}, deque([0.0], 3), set()
        seen, calls, order = defaultdict(list), Counter(), OrderedDict()

        def cooled(t, y):
            log.add(k * y[0])
            table[log.count] = k * t
            recent.append(k * y[0] ** 2)
            names.add(str(log.count))
            seen["forces"].append(k * y[0])
            calls["all"] += 1
            order[str(calls["all"])] = k * y[0]
            cooled.last = k * y[0]
            return [-cooled.last]

        cooled.last = 0.0
        result = integrate.solve_ivp(
            cooled, (0, 1), [1.0], first_step=0.25, max_step=0.25, rtol=1e9
        )
        lengths = [len(log), log.count, len(table), len(recent), len(names), len(seen["forces"])]
        lengths += [calls["all"], len(order)]
        total = (
            order.popitem(last=False)[1]
            + sum(log)
            + table[3]
            + sum(recent)
            + sum(seen["forces"])
            + cooled.last
        )
        return total + result.y[0, -1] + sum(lengths)

    check(run, np.array(0.7))


@pytest.mark.parametrize("holder", [list, np.array, lambda mode: np.array(mode, int)])
@pytest.mark.parametrize("method", ["RK45", "DOP853"])
def test_a_mode_that_is_kept_is_followed(method, holder):
    run = _thermostat(method, holder)
    value, (slope,) = ct.value_and_gradient(run, 1.3)
    assert value == pytest.approx(run(1.3), rel=1e-12)
    assert slope == pytest.approx((run(1.3001) - run(1.2999)) / 2e-4, rel=1e-3)


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA", "odeint"])
def test_a_mode_that_is_kept_is_refused_where_it_cannot_be_followed(method):
    with pytest.raises(TypeError, match="returns different values when it is called again.*RK45"):
        ct.gradient(_thermostat(method), 1.3)


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau"])
def test_a_mode_that_nobody_knows_of_is_refused(method, monkeypatch):
    log = []

    def cooled(k):
        monkeypatch.setenv("COTAN_TEST_CALLS", "0")

        def slope(t, y):
            log.append(t)
            calls = int(os.environ["COTAN_TEST_CALLS"])
            monkeypatch.setenv("COTAN_TEST_CALLS", str(calls + 1))
            return [-k * y[0] * (1 + 0.1 * (calls % 7))]

        return integrate.solve_ivp(slope, (0, 1), [1.0], method).y[0, -1]

    with pytest.raises(
        TypeError, match="returns different values when it is called again.*outside"
    ):
        ct.gradient(cooled, 1.3)


def _thermostat(method, holder=list):
    def run(power):
        mode = holder([1.0])

        def heat(t, y):
            if y[0] > 2:
                mode[0] = 0.0
            if y[0] < 1:
                mode[0] = 1.0
            return np.array([3 * power * mode[0] - y[0]])

        if method == "odeint":
            return integrate.odeint(heat, [1.5], [0.0, 0.6], tfirst=True, hmax=0.02)[-1, 0]
        solved = integrate.solve_ivp(heat, (0, 0.6), [1.5], max_step=0.02, method=method)
        return solved.y[0, -1]

    return run
