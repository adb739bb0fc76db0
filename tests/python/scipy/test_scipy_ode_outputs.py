"""What `solve_ivp` gives besides states at steps, differentiated with all steps at once.

Events, `dense_output`, active times, arguments, second derivatives, and right sides that branch.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import cotan as ct
from cotan._src.scipy.integrate import ivp, right_side, step_adjoint

METHODS = ["RK45", "RK23", "DOP853", "Radau", "BDF", "LSODA"]
TIGHT = {"rtol": 1e-10, "atol": 1e-12}
BALL = {"gravity": 9.81, "drag": 0.2, "height": 10.0, "floor": 0.5}


@pytest.fixture
def taken(monkeypatch):
    """Note for each run whether its steps were differentiated together."""
    notes = []

    def noting(*args):
        found = step_adjoint.solve_at_once(*args)
        notes.append(found is not None)
        return found

    monkeypatch.setattr(ivp, "solve_at_once", noting)
    return notes


def tolerances(method):
    return {"rtol": 1e-6, "atol": 1e-8} if method == "RK23" else TIGHT


def expect_slopes(f, p, rel, step=1e-4):
    value, (found,) = ct.value_and_gradient(f, p)
    assert value == pytest.approx(f(p), rel=1e-13)
    for name in p:
        high, low = (f(p | {name: p[name] + s}) for s in (step, -step))
        assert found[name] == pytest.approx((high - low) / (2 * step), rel=rel, abs=1e-7), name


def falling(p, method="RK45", terminal=True, **options):
    def slope(t, y, drag):
        return [y[1], -p["gravity"] - drag * y[1]]

    def lands(t, y, drag):
        return y[0] - p["floor"]

    def is_fast(t, y, drag):
        return y[1] + 0.6 * p["gravity"] ** 0.5

    lands.terminal, lands.direction = terminal, -1
    chosen = tolerances(method) | options
    start = [p["height"], 1.0]
    return solve_ivp(
        slope, (0.0, 4.0), start, method, events=[lands, is_fast], args=(p["drag"],), **chosen
    )


@pytest.mark.parametrize("method", METHODS)
def test_events(taken, method):
    rel = 1e-5 if method in {"DOP853", "RK45", "Radau"} else 3e-3

    def f(p):
        run = falling(p, method)
        assert run.status == 1
        times, states = run.t_events[0], run.y_events[0]
        return times[0] + 0.1 * states[0, 1] + 0.3 * run.t_events[1][0]

    def end(p):
        run = falling(p, method)
        return run.t[-1] * run.y[1, -1] + run.y[0, 3]

    expect_slopes(f, BALL, rel, 1e-3)
    value, (found,) = ct.value_and_gradient(end, BALL)
    assert value == pytest.approx(end(BALL), rel=1e-13)
    # Of the states at steps of its own a run has other derivatives than differences of two runs.
    assert all(map(np.isfinite, found.values()))
    assert all(taken)


def test_events_of_a_known_fall(taken):
    def f(p):
        run = falling(p | {"drag": 0.0 * p["drag"]}, "DOP853")
        return run.t_events[0][0]

    (found,) = ct.gradient(f, BALL)
    # h + t - g t^2 / 2 = floor
    g, way = BALL["gravity"], BALL["height"] - BALL["floor"]
    t = (1 + (1 + 2 * g * way) ** 0.5) / g
    speed = 1 - g * t
    assert found["height"] == pytest.approx(-1 / speed, rel=1e-7)
    assert found["floor"] == pytest.approx(1 / speed, rel=1e-7)
    assert found["gravity"] == pytest.approx(t**2 / 2 / speed, rel=1e-7)
    assert taken == [True]


def test_values_of_events_are_those_of_scipy(taken):
    seen = []

    def f(p):
        seen.append(falling(p, t_eval=np.linspace(0, 1.5, 7), dense_output=True))
        return seen[-1].t_events[0][0]

    ct.gradient(f, BALL)
    found, expected = seen[0], falling(BALL, t_eval=np.linspace(0, 1.5, 7), dense_output=True)
    assert taken == [True]
    for name in ("t", "y"):
        assert np.array_equal(ct.dropgrad(found[name]), expected[name])
    for a, b in zip(
        found.t_events + found.y_events, expected.t_events + expected.y_events, strict=True
    ):
        assert np.array_equal(ct.dropgrad(a), b)
    times = np.linspace(0.0, 1.3, 11)
    assert np.array_equal(ct.dropgrad(found.sol(times)), expected.sol(times))
    assert np.array_equal(ct.dropgrad(found.sol(0.7)), expected.sol(0.7))
    assert found.sol.t_max == expected.sol.t_max


def test_an_event_alone_is_active(taken):
    def f(level):
        event = lambda t, y: y[0] - level
        event.terminal = 2
        run = solve_ivp(lambda t, y: [np.cos(t)], (0.0, 9.0), [0.0], events=event, **TIGHT)
        assert run.t_events[0].shape == (2,)
        return run.t_events[0] @ [1.0, 10.0]

    (found,) = ct.gradient(f, 0.5)
    # It happens at the arc sine of the level, and as long before pi.
    assert found == pytest.approx(-9 / (1 - 0.25) ** 0.5, rel=1e-7)
    assert taken == [True]


def test_no_event_happens(taken):
    def f(k):
        event = lambda t, y: y[0] - 7.0 * k
        run = solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], events=event, **TIGHT)
        assert run.t_events[0].size == 0
        return run.y[0, -1]

    assert ct.gradient(f, 0.5)[0] == pytest.approx(-np.exp(-0.5), rel=1e-8)
    assert taken == [True]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_exceptions_of_events(error):
    def f(k):
        def event(t, y):
            if t > 0.5:
                raise error("here")
            return y[0] - 7.0 * k

        return solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], events=event).y[0, -1]

    with pytest.raises(error, match="here"):
        ct.gradient(f, 0.5)


def test_events_that_keep_something(taken):
    def f(k, log):
        def event(t, y):
            log.append(float(t))
            return y[0] - k

        run = solve_ivp(lambda t, y: -y, (0.0, 2.0), [1.0], events=event, **TIGHT)
        return run.t_events[0][0]

    logs = [], []
    (found,) = ct.gradient(lambda k: f(k, logs[0]), 0.5)
    f(0.5, logs[1])
    assert found == pytest.approx(-1 / 0.5, rel=1e-7)
    assert logs[0] == logs[1]
    assert taken == [False]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("end", [2.0, -2.0])
def test_dense_output(taken, method, end):
    times = np.linspace(0.0, end, 9)
    p = {"spring": 2.0, "friction": 0.3, "start": 1.2}
    rel = 1e-5 if method in {"DOP853", "RK45", "Radau"} else 1e-3

    def f(p):
        def slope(t, y):
            return np.array([y[1], -p["spring"] * np.sin(y[0]) - p["friction"] * y[1]])

        start = np.array([p["start"], 0.0])
        run = solve_ivp(slope, (0.0, end), start, method, dense_output=True, **tolerances(method))
        at = run.sol(times)
        return np.sum(at[0] * np.cos(times)) + run.sol(0.3 * end)[1]

    expect_slopes(f, p, rel)
    assert taken == [True]


def test_the_solution_at_active_times(taken):
    def f(p, method="DOP853"):
        slope = lambda t, y: -p["k"] * y + np.sin(t)
        run = solve_ivp(slope, (0.0, 2.0), [1.0, 2.0], method, dense_output=True, **TIGHT)
        return run.sol(p["t"])[1] + np.sum(run.sol(np.array([0.1, 1.5]) * p["t"]))

    def evaluated(p, method="DOP853"):
        slope = lambda t, y: -p["k"] * y + np.sin(t)
        times = np.array([0.1, 0.7, 1.5]) * p["t"]
        return np.sum(solve_ivp(slope, (0.0, 2.0), [1.0], method, times, **TIGHT).y ** 2)

    for g in (f, evaluated):
        expect_slopes(g, {"k": 0.8, "t": 1.1}, 1e-6)
    assert all(taken)
    p = {"k": 0.8, "t": 1.1}
    (found,), (wanted,) = (
        ct.gradient(lambda p, m=m: evaluated(p, m), p) for m in ("LSODA", "RK45")
    )
    assert found["t"] == pytest.approx(wanted["t"], rel=1e-5)


def test_a_solver_of_the_solution(taken):
    """Find when the solution passes a level, by a root of `sol`."""

    def f(k):
        run = solve_ivp(lambda t, y: -k * y, (0.0, 3.0), [1.0], dense_output=True, **TIGHT)
        return brentq(lambda t: run.sol(t)[0] - 0.5, 0.0, 3.0)

    assert ct.gradient(f, 0.7)[0] == pytest.approx(-np.log(2) / 0.49, rel=1e-6)
    assert taken == [True]


@pytest.mark.parametrize("method", METHODS)
def test_second_derivatives(taken, method):
    def f(v):
        slope = lambda t, y: np.array([v[0] * y[0] * (1 - y[0] / v[1]), y[0] - v[0] * y[1] ** 2])
        run = solve_ivp(slope, (0.0, 2.0), [0.3, v[2]], method, **tolerances(method))
        return run.y[0, -1] + run.y[1, -1] ** 2

    v = np.array([1.3, 2.0, 0.4])
    found = ct.hessian(f, v)
    assert np.allclose(found, found.T, rtol=1e-5, atol=1e-5)
    slope = lambda v: ct.gradient(f, v)[0]
    for i, e in enumerate(1e-4 * np.eye(3)):
        column = (slope(v + e) - slope(v - e)) / 2e-4
        rel = 1e-5 if method in {"DOP853", "RK45", "Radau"} else 1e-2
        np.testing.assert_allclose(found[i], column, rtol=rel, atol=rel)
    assert all(taken)


def test_second_derivatives_of_events_and_of_the_solution(taken):
    def passed(k):
        event = lambda t, y: y[0] - 0.5
        run = solve_ivp(lambda t, y: -k * y, (0.0, 3.0), [1.0], "DOP853", events=event, **TIGHT)
        return run.t_events[0][0]

    # The half-life.
    assert ct.hessian(passed, 0.7) == pytest.approx(2 * np.log(2) / 0.7**3, rel=1e-6)

    def inside(v):
        run = solve_ivp(lambda t, y: -v[0] * y, (0.0, 3.0), [1.0], "DOP853", dense_output=True,
                        **TIGHT)  # fmt: skip
        return run.sol(v[1])[0]

    found = ct.hessian(inside, np.array([0.7, 1.2]))
    y = np.exp(-0.7 * 1.2)
    mixed = (0.7 * 1.2 - 1) * y
    np.testing.assert_allclose(found, [[1.44 * y, mixed], [mixed, 0.49 * y]], rtol=1e-6)
    assert all(taken)


def test_third_derivatives(taken):
    def f(k):
        return solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], "DOP853", **TIGHT).y[0, -1]

    third = lambda k: ct.gradient(lambda k: ct.hessian(f, k), k)[0]
    assert third(0.7) == pytest.approx(-np.exp(-0.7), rel=1e-7)
    assert taken and all(taken)


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA"])
def test_derivatives_for_the_solver(taken, method):
    calls = []

    def f(k, has_jac):
        slope = lambda t, y: [-k * y[0] + y[1], -50.0 * y[1]]

        def jac(t, y):
            return [[-k, 1.0], [0.0, -50.0]]

        jac = jac if has_jac else None
        calls.append(method)
        run = solve_ivp(slope, (0.0, 1.0), [1.0, 1.0], method, jac=jac, rtol=1e-8, atol=1e-10)
        return run.y[0, -1]

    slopes = [ct.gradient(lambda k, b=b: f(k, b), 0.9)[0] for b in (True, False)]
    exact = lambda k: np.exp(-k) + (np.exp(-50.0) - np.exp(-k)) / (k - 50.0)
    expected = (exact(0.9001) - exact(0.8999)) / 2e-4
    assert slopes == pytest.approx([expected] * 2, rel=1e-5)
    assert taken == [True, True]


def test_arguments_in_dictionaries(taken):
    def slope(t, y, p):
        return -p["rates"][0] * y + p["feed"]

    def f(p):
        run = solve_ivp(slope, (0.0, 1.0), [1.0], args=({"rates": [p[0]], "feed": p[1]},), **TIGHT)
        return run.y[0, -1]

    exact = lambda k, s: np.exp(-k) * (1 - s / k) + s / k
    found = ct.gradient(f, np.array([0.8, 0.3]))[0]
    step = 1e-6
    expected = [
        (exact(0.8 + step, 0.3) - exact(0.8 - step, 0.3)) / (2 * step),
        (exact(0.8, 0.3 + step) - exact(0.8, 0.3 - step)) / (2 * step),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert taken == [True]


def heated(t, y, p):
    # Above the threshold it goes on to rise, more slowly.
    heat = p["heat"] if y[0] < p["low"] else 0.8 * p["heat"]
    if t > 1.0 and y[0] < 3 * y[1]:
        heat = heat + 0.5 * p["heat"]
    return [heat - p["loss"] * y[0], p["loss"] * (y[0] - y[1])]


@pytest.mark.parametrize("method", METHODS)
def test_ways_through_a_right_side(monkeypatch, taken, method):
    p = {"heat": 1.0, "loss": 0.8, "low": ct.const(0.5)}
    times = np.linspace(0.0, 2.0, 5)

    def f(p):
        run = solve_ivp(lambda t, y: heated(t, y, p), (0.0, 2.0), [0.2, 0.1], method, times,
                        max_step=0.1, rtol=1e-4)  # fmt: skip
        return np.sum(run.y**2)

    notes = []
    ways_of = right_side.RightSide._ways_of

    def noting(*args):
        notes.append(ways_of(*args))
        return notes[-1]

    monkeypatch.setattr(right_side.RightSide, "_ways_of", noting)
    value, (found,) = ct.value_and_gradient(f, p)
    assert value == pytest.approx(f(p | {"low": 0.5}), rel=1e-14)
    assert 1 < len(notes[-1]) < 8
    (second,) = ct.gradient(f, p)
    assert found == second
    # The same, point by point.
    monkeypatch.setattr(right_side.RightSide, "_ways_of", lambda *_: None)
    (expected,) = ct.gradient(f, p)
    for name in ("heat", "loss"):
        assert found[name] == pytest.approx(expected[name], rel=1e-10)
    assert taken == [True] * 3


def test_a_branch_agrees_with_differences(taken):
    def f(p):
        def slope(t, y):
            k = p["k"] if t < 1.0 else 3.0 * p["k"]
            return -k * y if y[0] > 0.5 else -k * y * (1.0 - 0.2 * (0.5 - y[0]))

        return solve_ivp(slope, (0.0, 2.0), [p["start"]], max_step=0.01, **TIGHT).y[0, -1]

    expect_slopes(f, {"k": 0.6, "start": 1.4}, 1e-4)
    assert taken == [True]


def test_more_ways_than_are_recorded(monkeypatch, taken):
    def f(k):
        table = [k * (1.0 + 0.01 * i) for i in range(50)]
        slope = lambda t, y: -table[int(10 * t)] * y
        return solve_ivp(slope, (0.0, 4.9), [1.0], max_step=0.05).y[0, -1]

    (found,) = ct.gradient(f, 0.3)
    step = 1e-5
    assert found == pytest.approx((f(0.3 + step) - f(0.3 - step)) / (2 * step), rel=1e-4)
    assert taken == [True]


class Counted:
    """A parameter that counts how often it was asked for."""

    def __init__(self, rate):
        self.rate, self.count = rate, 0


def test_objects_among_arguments_keep_what_is_written_to_them(taken):
    def slope(t, y, counted):
        counted.count += 1
        return -counted.rate * y

    def f(k):
        counted = Counted(k)
        y = solve_ivp(slope, (0.0, 1.0), [k], args=(counted,), **TIGHT).y[0, -1]
        counts.append(counted.count)
        return y

    counts = []
    (found,) = ct.gradient(f, 0.7)
    f(0.7)
    assert found == pytest.approx(0.3 * np.exp(-0.7), rel=1e-7)
    assert counts[0] == counts[1] > 0
    assert not any(taken)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_first_and_the_last_time(taken, method, sign):
    tight = tolerances(method)

    def f(p, options=tight):
        slope = lambda t, y: np.array([y[1], -p[2] * y[0] * (1.0 + np.sin(t))])
        run = solve_ivp(slope, (p[0], sign * p[1]), [1.0, p[3]], method, **options)
        return np.sum(run.y[:, -1] ** 2) + 2.0 * run.t[-1] + 3.0 * run.t[0] + run.y[1, 0]

    def inside(p, options=tight):
        slope = lambda t, y: np.array([y[1], -p[2] * y[0] * (1.0 + np.sin(t))])
        times = sign * np.array([0.7, 1.4])
        run = solve_ivp(
            slope, (p[0], sign * p[1]), [1.0, p[3]], method, times, dense_output=True, **options
        )
        return np.sum(run.y**2) + np.sum(run.sol(sign * 1.1))

    p = np.array([0.3, 2.0, 1.2, 0.5])
    rel = 1e-5 if method in {"DOP853", "RK45", "Radau"} else 1e-3
    for function in (f, inside):
        (found,) = ct.gradient(function, p)
        exact = lambda p, function=function: function(p, TIGHT)
        expected = [(exact(p + e) - exact(p - e)) / 2e-4 for e in 1e-4 * np.eye(4)]
        np.testing.assert_allclose(found, expected, rtol=rel, atol=rel)
    assert taken == [True, True]


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_runs_that_begin_at_events(taken, method):
    """Let a ball bounce: each run begins where and when the last one ended."""

    def f(p):
        def touches(t, y):
            return y[0]

        touches.terminal, touches.direction = True, -1
        t, y = p[0], [p[1], 0.0]
        for _ in range(3):
            run = solve_ivp(
                lambda t, y: [y[1], -9.81 - p[2] * y[1]], (t, t + 10.0), y, method,
                events=touches, **TIGHT,
            )  # fmt: skip
            t, y = run.t[-1], [1e-9, -0.8 * run.y[1, -1]]
        return t + y[1]

    p = np.array([0.3, 2.0, 0.2])
    (found,) = ct.gradient(f, p)
    assert taken == [True] * 3
    expected = [(f(p + e) - f(p - e)) / 2e-4 for e in 1e-4 * np.eye(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_second_derivatives_of_ends():
    def f(p):
        run = solve_ivp(lambda t, y: -p[1] * t * y, (p[0], 1.5), [1.0], "DOP853", **TIGHT)
        return run.y[0, -1]

    # exp(-b (1.5² - a²) / 2)
    a, b = 0.4, 0.9
    y = np.exp(-b * (1.5**2 - a**2) / 2)
    half = (1.5**2 - a**2) / 2
    mixed = a * y - b * a * half * y
    expected = [[b * y + (a * b) ** 2 * y, mixed], [mixed, half**2 * y]]
    np.testing.assert_allclose(ct.hessian(f, np.array([a, b])), expected, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_states_at_events_of_constant_times(method):
    def f(k):
        event = lambda t, y: t - 0.7
        run = solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], method, events=event, **TIGHT)
        return run.y_events[0][0, 0]

    assert ct.gradient(f, 1.2)[0] == pytest.approx(-0.7 * np.exp(-0.84), rel=1e-4)


def test_spans_are_any_iterable():
    def f(k):
        ends = (float(end) for end in (0, 1))
        return solve_ivp(lambda t, y: -k * y, ends, [1.0], **TIGHT).y[0, -1]

    assert ct.gradient(f, 1.2)[0] == pytest.approx(-np.exp(-1.2), rel=1e-6)


def test_no_equations_and_active_ends():
    f = lambda p: solve_ivp(lambda t, y: y * p[0], (0.0, p[1]), np.zeros(0)).t[-1]
    assert ct.gradient(f, np.array([1.2, 0.3]))[0].tolist() == [0.0, 1.0]
