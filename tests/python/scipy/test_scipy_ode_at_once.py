"""Explicit runs of `solve_ivp` whose stages are differentiated together, and what is not."""

import threading

import numpy as np
import pytest
from scipy.integrate import odeint, solve_ivp

import cotan as ct
from cotan import _core
from cotan._src.scipy.integrate import ivp, moved_states, step_adjoint

RATES = {"birth": 1.0, "hunt": 0.3, "feed": 0.15, "death": 0.5, "lynxes": 4.0}
TIMES = np.linspace(0.0, 6.0, 13)


@pytest.fixture
def taken(monkeypatch):
    """Note for each run whether its stages were differentiated together."""
    notes = []

    def noting(*args):
        found = step_adjoint.solve_at_once(*args)
        notes.append(found is not None)
        return found

    monkeypatch.setattr(ivp, "solve_at_once", noting)
    return notes


def simulated(p, method="RK45", t_eval=TIMES, rtol=1e-5, end=6.0):
    def slope(t, state):
        hares, lynxes = state
        season = 1.0 + 0.1 * np.sin(t)
        return np.array(
            [
                p["birth"] * hares - p["hunt"] * hares * lynxes,
                p["feed"] * hares * lynxes * season - p["death"] * lynxes,
            ]
        )

    begin = np.array([10.0, p["lynxes"]])
    return solve_ivp(slope, (0.0, end), begin, method, t_eval=t_eval, rtol=rtol).y


def total(p, *args):
    y = simulated(p, *args)
    return np.sum(y**2) + np.sum(np.sin(y[:, -1]))


@pytest.mark.parametrize("method", ["RK45", "RK23", "DOP853"])
@pytest.mark.parametrize("end", [6.0, -1.0])
@pytest.mark.parametrize("limit", [0, 10**6])
@pytest.mark.parametrize("is_dense", [False, True])
def test_agrees_with_repeated_steps(monkeypatch, taken, method, end, limit, is_dense):
    monkeypatch.setattr(moved_states, "_MATRIX", limit)
    t_eval = np.linspace(0.0, end, 7)[1:] if is_dense else None

    def last(p):
        return simulated(p, method, t_eval, 1e-5, end)[:, -2:]

    f = lambda p: total(p, method, t_eval, 1e-5, end)
    value, (found,) = ct.value_and_gradient(f, RATES)
    forward, reverse = ct.jacfwd(last)(RATES), ct.jacrev(last)(RATES)
    assert taken == [True, True, True]
    monkeypatch.setattr(ivp, "solve_at_once", lambda *_: None)
    expected, (wanted,) = ct.value_and_gradient(f, RATES)
    rows = ct.jacobian(last, RATES)
    assert value == pytest.approx(expected, rel=1e-13)
    for name in RATES:
        assert found[name] == pytest.approx(wanted[name], rel=1e-10)
        np.testing.assert_allclose(forward[name], rows[name], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(reverse[name], rows[name], rtol=1e-9, atol=1e-9)


def test_agrees_with_differences(taken):
    f = lambda p: total(p, "DOP853", TIMES, 1e-11)
    (found,) = ct.gradient(f, RATES)
    assert taken == [True]
    for name, rate in RATES.items():
        step = 1e-5
        high, low = (f(RATES | {name: rate + s}) for s in (step, -step))
        assert found[name] == pytest.approx((high - low) / (2 * step), rel=1e-6)


def test_values_are_those_of_scipy(taken):
    seen = []

    def f(p):
        y = simulated(p)
        seen.append(np.array(ct.dropgrad(y)))
        return np.sum(y)

    ct.gradient(f, RATES)
    assert taken == [True]
    assert np.array_equal(seen[0], simulated(RATES))


@pytest.mark.parametrize("method", ["RK45", "DOP853", "BDF", "LSODA"])
def test_branches_are_recorded_for_each_way(monkeypatch, taken, method):
    def f(p):
        def slope(t, y):
            if t < p["switch"]:
                return -p["k"] * y
            return -p["k"] * y * (2.0 if y[0] > y[1] else 0.5 + y[0])

        span, start = (0.0, 3.0), [2.0, 1.0]
        return solve_ivp(slope, span, start, method, max_step=0.25, rtol=1e-6).y[:, -1] @ [1.0, 3]

    p = {"k": 0.7, "switch": ct.const(1.0)}
    value, (found,) = ct.value_and_gradient(f, p)
    assert taken == [True]
    assert value == f(p | {"switch": 1.0})
    monkeypatch.setattr(ivp, "solve_at_once", lambda *_: None)
    (expected,) = ct.gradient(f, p)
    rel = 1e-9 if method in step_adjoint.EXPLICIT else 1e-3
    assert found["k"] == pytest.approx(expected["k"], rel=rel)


def test_states_take_the_other_way(taken):
    calls = []

    def counted(k):
        def slope(t, y):
            calls.append(t)
            return -k * y

        return solve_ivp(slope, (0.0, 1.0), [1.0], rtol=1e-8).y[0, -1]

    plain = counted(0.7)
    number = len(calls)
    assert ct.value_and_gradient(counted, 0.7)[0] == pytest.approx(plain, rel=1e-14)
    assert len(calls) == 2 * number
    assert taken == [False]


def test_reads_variables_anew(taken):
    scale = np.array([1.0])

    def f(k):
        y = solve_ivp(lambda t, y: -k * scale * y, (0.0, 1.0), [1.0], rtol=1e-9, atol=1e-12).y
        return y[0, -1]

    for factor in (1.0, 2.0):
        scale[0] = factor
        assert ct.gradient(f, 0.5)[0] == pytest.approx(-factor * np.exp(-factor / 2), rel=1e-6)
    assert taken == [True, True]


def test_rejects_random_right_sides():
    rng = np.random.default_rng(0)

    def f(k):
        slope = lambda t, y: -k * y * (1.0 + 0.1 * rng.standard_normal())
        return solve_ivp(slope, (0.0, 0.1), [1.0], max_step=0.05, rtol=1.0).y[0, -1]

    before = rng.bit_generator.state
    value, _ = ct.value_and_gradient(f, 0.5)
    rng.bit_generator.state = before
    assert value == pytest.approx(f(0.5), rel=1e-14)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_exceptions_of_the_right_side(error):
    def f(k):
        def slope(t, y):
            if t > 0.5:
                raise error("here")
            return -k * y

        return np.sum(solve_ivp(slope, (0.0, 1.0), [1.0]).y)

    with pytest.raises(error, match="here"):
        ct.gradient(f, 0.5)
    assert ct.gradient(lambda x: np.sum(np.array([x, x])), 1.0) == (2.0,)


def test_arguments_lists_and_partials(taken):
    def slope(t, y, k, pair):
        return [-k * y[0], pair[0] * y[0] - pair[1] * y[1]]

    def f(k, a):
        pair = [a, ct.dropgrad(a)]
        y = solve_ivp(slope, (0.0, 1.0), [1.0, 0.0], args=[k, pair], rtol=1e-8, atol=1e-10).y
        return y[1, -1]

    found = ct.gradient(f, 0.5, 0.8)
    assert taken == [True]

    def exact(k, a, b=0.8):
        return a * (np.exp(-k) - np.exp(-b)) / (b - k)

    for i, g in enumerate(found):
        step = np.eye(2)[i] * 1e-6
        high, low = (exact(*(np.array([0.5, 0.8]) + s)) for s in (step, -step))
        assert g == pytest.approx((high - low) / 2e-6, rel=1e-5)


def test_gradients_inside_the_right_side(taken):
    def f(m):
        def energy(q, p):
            return p * p / (2.0 * m) + 0.5 * np.sum(np.array([q, q]) ** 2)

        def slope(t, y):
            dq, dp = ct.gradient(energy, y[0], y[1])
            return np.array([dp, -dq])

        return solve_ivp(slope, (0.0, 1.0), [1.0, 0.0], rtol=1e-9, atol=1e-11).y[0, -1]

    (found,) = ct.gradient(f, 1.5)
    wave = np.sqrt(2.0 / 1.5)
    assert found == pytest.approx(np.sin(wave) * wave / 3.0, rel=1e-5)


def test_prepared_and_in_threads():
    def f(k):
        return solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], rtol=1e-9, atol=1e-12).y[0, -1]

    prepared = ct.prepare(f, 0.5)
    for k in (0.5, 0.8):
        assert prepared(k)[0] == pytest.approx(-np.exp(-k), rel=1e-6)
    found = {}

    def work(k):
        found[k] = ct.gradient(f, k)[0]

    threads = [threading.Thread(target=work, args=(0.1 * i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, g in found.items():
        assert g == pytest.approx(-np.exp(-k), rel=1e-6)
    assert len(found) == 4


def clipped(t, y, p):
    y[y < 0] = 0.0
    return -p * np.ones(2)


def normalised(t, y, p):
    y /= np.sqrt(y @ y)
    return p[0] * np.array([-y[1], y[0]])


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853"])
@pytest.mark.parametrize(
    ("slope", "start"), [(clipped, [0.13, 0.07]), (normalised, [1.0, 0.2])], ids=["clip", "norm"]
)
def test_right_sides_that_write_to_the_state_take_the_other_way(taken, method, slope, start):
    def f(p):
        run = solve_ivp(slope, (0, 1), np.array(start), method, args=(p,), max_step=0.1)
        return run.y[:, -1] @ np.array([1.0, 2.0])

    p = np.array([1.3, 0.7])
    value, (dp,) = ct.value_and_gradient(f, p)
    assert value == pytest.approx(f(p))
    assert taken == [False]
    step = 1e-6 * np.eye(2)
    differences = [(f(p + e) - f(p - e)) / 2e-6 for e in step]
    assert np.allclose(dp, differences, rtol=1e-3, atol=1e-5)


def test_tolerances_of_each_component():
    def f(p, method):
        rtol = np.array([1e-6, 1e-7])
        return solve_ivp(lambda t, y: -p * y, (0, 1), [1.0, 2.0], method, rtol=rtol).y[:, -1].sum()

    for method in ("RK45", "LSODA", "DOP853"):
        (dp,) = ct.gradient(f, 1.3, ct.const(method))[:1]
        assert dp == pytest.approx(-3 * np.exp(-1.3), rel=1e-4)


def test_an_error_of_the_right_side_is_raised(taken):
    # The run itself passes on values; the call for all steps together meets what does not.
    def last(rate):
        def slope(t, y):
            if _core.is_tracing():
                raise LookupError("no table for this")
            return -rate * y

        return np.sum(solve_ivp(slope, (0.0, 1.0), [1.0, 2.0]).y[:, -1])

    with pytest.raises(LookupError, match="no table for this"):
        ct.gradient(last, 0.7)


# --------------------------------------------------------------------------------------------------
# Networks: many numbers that a right side captures

WIDTH = 40


def network(weights, method):
    inner, bias, outer, _ = weights
    slope = lambda t, y: outer @ np.tanh(inner @ y + bias) - 0.1 * y
    if method == "odeint":
        return np.sum(odeint(slope, [1.0, 0.5], [0.0, 2.0], tfirst=True)[-1] ** 2)
    options = {"rtol": 1e-8, "atol": 1e-8, "method": method}
    return np.sum(solve_ivp(slope, (0.0, 2.0), [1.0, 0.5], **options).y[:, -1] ** 2)


def weights_of(seed):
    rng = np.random.default_rng(seed)
    return (
        0.5 * rng.normal(size=(WIDTH, 2)), 0.1 * rng.normal(size=WIDTH),
        0.3 * rng.normal(size=(2, WIDTH)), np.ones(3),
    )  # fmt: skip


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF", "LSODA", "odeint"])
def test_networks(method):
    for seed in range(3):
        weights = weights_of(seed)
        found = ct.gradient(network, weights, method, argnums=0)[0]
        assert found[3] is None
        for i, at in ((0, (3, 1)), (1, (7,)), (2, (1, 11))):
            step = np.zeros(weights[i].shape)
            step[at] = 1e-5
            with_ = lambda d, i=i: (*weights[:i], weights[i] + d, *weights[i + 1 :])
            difference = network(with_(step), method) - network(with_(-step), method)
            np.testing.assert_allclose(found[i][at], difference / 2e-5, rtol=2e-3, atol=1e-5)
