"""Runs of BDF, Radau, LSODA and `odeint` whose derivative is formed for all steps together."""

import threading

import numpy as np
import pytest
from scipy.integrate import odeint, solve_ivp
from scipy.interpolate import interp1d

import cotan as ct
from cotan._src.scipy.integrate import collocation_steps, ivp, moved_states, step_adjoint
from cotan._src.scipy.integrate import odeint as odeint_rule
from cotan._src.scipy.integrate.collocation_steps import nodes_of

RATES = {"birth": 1.0, "hunt": 0.3, "feed": 0.15, "death": 0.5, "lynxes": 4.0}
STIFF = ["BDF", "Radau", "LSODA"]


@pytest.fixture
def taken(monkeypatch):
    """Note for each run whether its steps were differentiated together."""
    notes = []

    def noting(function):
        def call(*args):
            found = function(*args)
            notes.append(found is not None)
            return found

        return call

    monkeypatch.setattr(ivp, "solve_at_once", noting(step_adjoint.solve_at_once))
    monkeypatch.setattr(odeint_rule, "_at_once", noting(odeint_rule._at_once))
    return notes


def simulated(p, method, t_eval=None, rtol=1e-6, end=3.0):
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
    solution = solve_ivp(
        slope, (0.0, end), begin, method, t_eval=t_eval, rtol=rtol, atol=1e-3 * rtol
    )
    return solution.y


def differences(f, p, step=1e-5):
    return {
        name: (f(p | {name: rate + step}) - f(p | {name: rate - step})) / (2 * step)
        for name, rate in p.items()
    }


def total(y):
    return np.sum(y**2) + np.sum(np.sin(y[:, -1]))


@pytest.mark.parametrize("method", STIFF)
@pytest.mark.parametrize("end", [3.0, -1.0])
@pytest.mark.parametrize("limit", [0, 10**7])
def test_agrees_with_differences_of_an_exact_solution(monkeypatch, taken, method, end, limit):
    monkeypatch.setattr(moved_states, "_MATRIX", limit)
    times = np.linspace(0.0, end, 7)[1:]
    f = lambda p: total(simulated(p, method, times, 1e-7, end))
    exact = lambda p: total(simulated(p, "DOP853", times, 1e-12, end))
    value, (found,) = ct.value_and_gradient(f, RATES)
    assert taken == [True]
    assert value == pytest.approx(f(RATES), rel=1e-13)
    for name, expected in differences(exact, RATES).items():
        assert found[name] == pytest.approx(expected, rel=1e-4, abs=1e-4), name


@pytest.mark.parametrize("method", STIFF)
def test_tighter_tolerances_give_better_derivatives(taken, method):
    exact = differences(lambda p: total(simulated(p, "DOP853", [1.0, 2.5], 1e-13)), RATES)
    errors = []
    for rtol in (1e-3, 1e-5, 1e-8):
        f = lambda p, rtol=rtol: total(simulated(p, method, [1.0, 2.5], rtol))
        (found,) = ct.gradient(f, RATES)
        errors.append(max(abs(found[name] - exact[name]) for name in RATES))
    assert all(taken)
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    assert errors[2] < 1e-4


@pytest.mark.parametrize("t_eval", [None, [0.0, 0.7, 3.0]])
def test_radau_agrees_with_repeated_steps(monkeypatch, taken, t_eval):
    last = lambda p: simulated(p, "Radau", t_eval, 1e-5)[:, -2:]
    forward, reverse = ct.jacfwd(last)(RATES), ct.jacrev(last)(RATES)
    assert taken == [True, True]
    monkeypatch.setattr(ivp, "solve_at_once", lambda *_: None)
    rows = ct.jacobian(last, RATES)
    # Newton's method of the solver stops at a thousandth of the tolerance.
    for name in RATES:
        np.testing.assert_allclose(forward[name], reverse[name], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(forward[name], rows[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", STIFF)
@pytest.mark.parametrize("has_slopes", [False, True])
def test_stiff_equation(taken, method, has_slopes):
    rates = {"slow": 0.04, "fast": 1e4, "squared": 3e7}

    def f(p, method=method, rtol=1e-7):
        def slope(t, y):
            a, b, c = y
            back, forth, lost = p["fast"] * b * c, p["slow"] * a, p["squared"] * b * b
            return np.array([back - forth, forth - back - lost, lost])

        def slopes(t, y):
            _, b, c = y
            first = np.array([-p["slow"], p["fast"] * c, p["fast"] * b])
            last = np.array([0.0, 2 * p["squared"] * b, 0.0])
            return np.stack([first, -first - last, last])

        jac = slopes if has_slopes else None
        start, span = [1.0, 0.0, 0.0], (0.0, 40.0)
        return solve_ivp(slope, span, start, method, rtol=rtol, atol=1e-10, jac=jac).y[0, -1]

    value, (found,) = ct.value_and_gradient(f, rates)
    assert taken == [True]
    assert value == f(rates)
    for name, rate in rates.items():
        high, low = (f(rates | {name: rate * s}, "Radau", 1e-11) for s in (1.001, 0.999))
        assert found[name] * rate == pytest.approx((high - low) / 0.002, rel=1e-4)


def swung(p, t_first, has_slopes, rtol=None):
    def slope(t, y):
        return [y[1], -p["damping"] * y[1] - p["pull"] * np.sin(y[0]) + 0.1 * np.sin(t)]

    def slopes(t, y):
        return np.array([[0.0, 1.0], [-p["pull"] * np.cos(y[0]), -p["damping"]]])

    turned = lambda f: f if t_first else lambda y, t: f(t, y)
    options = {"Dfun": turned(slopes)} if has_slopes else {}
    start = np.stack([p["angle"], 0.0])
    times = np.linspace(0.0, 5.0, 11)
    return odeint(turned(slope), start, times, tfirst=t_first, rtol=rtol, atol=rtol, **options)


@pytest.mark.parametrize("t_first", [False, True])
@pytest.mark.parametrize("has_slopes", [False, True])
def test_odeint(taken, t_first, has_slopes):
    p = {"damping": 0.25, "pull": 5.0, "angle": 2.0}
    seen = []

    def f(p):
        y = swung(p, t_first, has_slopes)
        seen.append(np.array(ct.dropgrad(y)))
        return np.sum(y**2)

    (found,) = ct.gradient(f, p)
    assert taken == [True]
    assert np.array_equal(seen[0], swung(p, t_first, has_slopes))
    exact = lambda p: np.sum(swung(p, True, False, 1e-12) ** 2)
    for name, expected in differences(exact, p).items():
        assert found[name] == pytest.approx(expected, rel=1e-5)


def test_odeint_with_arguments_and_reports(taken):
    times = [0.0, 0.5, 0.5, 1.0]

    def f(k, y0):
        y, info = odeint(lambda y, t, a: -a * y, y0, times, args=(k,), full_output=1, hmax=0.1)
        assert info["message"] == "Integration successful."
        return y[-1, 0] + 2 * y[2, 0]

    dk, dy = ct.gradient(f, 0.7, 3.0)
    assert taken == [True]
    last, middle = np.exp(-0.7), np.exp(-0.35)
    assert dk == pytest.approx(-3.0 * (last + middle), rel=1e-6)
    assert dy == pytest.approx(last + 2 * middle, rel=1e-6)


class Cooling:
    def __init__(self, rate):
        self.rate = rate

    def slope(self, t, y):
        return -self.rate * y


@pytest.mark.parametrize("method", [*STIFF, "RK45"])
def test_methods_of_objects(taken, method):
    def f(k):
        model = Cooling(k)
        solution = solve_ivp(model.slope, (0.0, 1.0), [1.0], method, rtol=1e-8, atol=1e-10)
        assert model.rate is k
        return solution.y[0, -1]

    assert ct.gradient(f, 0.6)[0] == pytest.approx(-np.exp(-0.6), rel=1e-5)
    assert taken == [True]


def test_what_keeps_state_takes_the_other_way(taken):
    calls = []

    def counted(k, method):
        def slope(t, y):
            calls.append(t)
            return -k * y

        return solve_ivp(slope, (0.0, 1.0), [1.0], method, rtol=1e-7, atol=1e-9).y[0, -1]

    for method in STIFF:
        calls.clear()
        plain = counted(0.7, method)
        number = len(calls)
        calls.clear()
        value, (found, _) = ct.value_and_gradient(counted, 0.7, ct.const(method))
        assert value == pytest.approx(plain, rel=1e-13)
        assert found == pytest.approx(-np.exp(-0.7), rel=1e-4)
        assert len(calls) >= number
    assert not any(taken)

    smooth = lambda k: odeint(lambda y, t: -k * y, 1.0, [0.0, 1.0])[-1, 0]
    assert ct.hessian(smooth, 0.7) == pytest.approx(np.exp(-0.7), rel=1e-4)
    assert taken[-1]


def test_branches_are_recorded_for_each_way(taken):
    def f(k):
        slope = lambda y, t: -k * y if t < 0.5 else -2.0 * k * y
        return odeint(slope, 1.0, [0.0, 0.5, 1.0])[-1, 0]

    assert ct.gradient(f, 0.7)[0] == pytest.approx(-1.5 * np.exp(-1.05), rel=1e-5)
    assert taken == [True]


def test_a_table_is_read_with_interp1d(taken):
    places = np.linspace(0.0, 1.0, 5)

    def f(heights):
        forcing = interp1d(places, heights)
        return odeint(lambda y, t: forcing(min(t, 1.0)) - y, 0.0, [0.0, 1.0])[-1, 0]

    heights = np.array([0.0, 1.0, 0.5, 2.0, 1.0])
    (found,) = ct.gradient(f, heights)
    assert taken == [True]
    # The solution is linear in the heights.
    expected = [f(heights + row) - f(heights) for row in np.eye(5)]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("method", STIFF)
def test_exceptions_of_the_right_side(error, method):
    def f(k):
        def slope(t, y):
            if t > 0.5:
                raise error("here")
            return -k * y

        return np.sum(solve_ivp(slope, (0.0, 1.0), [1.0], method).y)

    with pytest.raises(error, match="here"):
        ct.gradient(f, 0.5)
    assert ct.gradient(lambda x: np.sum(np.array([x, x])), 1.0) == (2.0,)


def test_errors_of_the_solver_are_those_of_scipy():
    def f(k):
        return np.sum(solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], "BDF", max_step=-1.0).y)

    with pytest.raises(ValueError, match="`max_step` must be positive"):
        ct.gradient(f, 0.5)


@pytest.mark.parametrize("method", STIFF)
def test_prepared_and_in_threads(method):
    def f(k):
        slope = lambda t, y: -k * y
        return solve_ivp(slope, (0.0, 1.0), [1.0], method, rtol=1e-8, atol=1e-10).y[0, -1]

    prepared = ct.prepare(f, 0.5)
    for k in (0.5, 0.8):
        assert prepared(k)[0] == pytest.approx(-np.exp(-k), rel=1e-5)
    found = {}

    def work(k):
        found[k] = ct.gradient(f, k)[0]

    threads = [threading.Thread(target=work, args=(0.1 * i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for k, g in found.items():
        assert g == pytest.approx(-np.exp(-k), rel=1e-5)


@pytest.mark.parametrize("stages", [2, 3, 4, 5, 7])
def test_nodes_are_those_of_radau(stages):
    c, a = nodes_of(stages)
    # Conditions of order: the weights are exact up to the degree 2s - 2, the stages up to s - 1.
    for degree in range(2 * stages - 1):
        assert a[-1] @ c**degree == pytest.approx(1 / (degree + 1), rel=1e-10)
    for degree in range(stages):
        np.testing.assert_allclose(a @ c**degree, c ** (degree + 1) / (degree + 1), atol=1e-14)


def test_steps_that_are_too_long_are_halved(monkeypatch, taken):
    monkeypatch.setattr(collocation_steps, "_STAGES", 2)
    halved = []
    cls = step_adjoint.CollocationSteps
    begin = cls.begin

    def noting(self, *args):
        halved.append(not begin(self, *args))
        return not halved[-1]

    monkeypatch.setattr(cls, "begin", noting)
    f = lambda p: total(simulated(p, "LSODA", [1.0, 2.5], 1e-7))
    (found,) = ct.gradient(f, RATES)
    assert taken == [True]
    assert halved[0] and not halved[-1]
    exact = differences(lambda p: total(simulated(p, "DOP853", [1.0, 2.5], 1e-13)), RATES)
    for name in RATES:
        assert found[name] == pytest.approx(exact[name], rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("method", STIFF)
def test_values_are_those_of_scipy(taken, method):
    seen = []

    def f(p):
        y = simulated(p, method)
        seen.append(np.array(ct.dropgrad(y)))
        return np.sum(y)

    ct.gradient(f, RATES)
    assert taken == [True]
    assert np.array_equal(seen[0], simulated(RATES, method))
