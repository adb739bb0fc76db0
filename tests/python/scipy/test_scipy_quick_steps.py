"""Quick steps of explicit Runge-Kutta methods: numbers of SciPy's, bit for bit, in less time."""

import numpy as np
import pytest
from scipy import integrate

import cotan as ct
from cotan._core import value as plain
from cotan._src.scipy.integrate import moved_states, quick_steps

METHODS = ["RK45", "RK23", "DOP853"]


def wave(t, y):
    return np.array([y[1], -np.sin(y[0]) - 0.1 * y[1] + np.cos(3.0 * t)])


def growth(t, y):
    return 0.3 * y * (1.0 - y / 5.0)


def chain(t, y):
    return np.convolve(y, [1.0, -2.0, 1.0], "same") / (1.0 + t * t)


def listed(t, y):
    return [y[1], y[2], -y[0] * y[1] - 2.0 * y[2]]


def rejecting(t, y):
    return np.array([-50.0 * (y[0] - np.sign(np.sin(7.0 * t))), y[0]])


CASES = [
    (wave, [1.0, 0.0]),
    (growth, [0.1]),
    (chain, list(np.sin(np.arange(20.0)))),
    (listed, [0.5, 0.2, -1.0]),
    (rejecting, [0.3, 0.0]),
]


def within_a_gradient(solve):
    """Give a solution that cotan has found in a gradient, in plain numbers."""
    found = []

    def f(scale):
        found.append(solve(scale))
        return np.sum(found[0].y)

    ct.gradient(f, 1.0)
    return found[0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("slope", "start"), CASES)
@pytest.mark.parametrize("end", [4.0, -1.5])
@pytest.mark.parametrize("is_sampled", [False, True])
def test_numbers_are_those_of_scipy(method, slope, start, end, is_sampled):
    options = {"method": method, "rtol": 1e-6, "atol": np.full(len(start), 1e-8), "max_step": 0.7}
    if is_sampled:
        options["t_eval"] = np.linspace(0.0, end, 9)

    def solve(scale):
        def scaled(t, y):
            value = slope(t, y)
            if isinstance(value, list):
                return [scale * v for v in value]
            return scale * value

        return integrate.solve_ivp(scaled, (0.0, end), start, **options)

    expected, found = solve(1.0), within_a_gradient(solve)
    assert plain(found.y).tobytes() == expected.y.tobytes()
    assert np.asarray(found.t).tobytes() == expected.t.tobytes()
    assert (found.nfev, found.status) == (expected.nfev, expected.status)


@pytest.mark.parametrize("method", METHODS)
def test_all_methods_have_quick_steps(method):
    cls = getattr(integrate, method)
    assert quick_steps.quick(cls) is not cls


def test_other_numbers_are_noticed():
    class Other(integrate.RK45):
        B = integrate.RK45.B * (1.0 + 1e-15)

        def _step_impl(self):
            self.rtol = self.rtol * (1.0 - 1e-9)
            return super()._step_impl()

    assert quick_steps.quick(Other) is Other


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("t_eval", [None, np.linspace(0.0, 2.0, 21)])
@pytest.mark.parametrize("is_nan", [False, True])
def test_steps_that_become_too_small(method, t_eval, is_nan):
    def solve(scale):
        def slope(t, y):
            return scale * y**2 * (np.nan if is_nan and t > 0.5 else 1.0)

        return integrate.solve_ivp(slope, (0.0, 2.0), [1.0], method, t_eval=t_eval)

    expected, found = solve(1.0), within_a_gradient(solve)
    message = "Required step size is less than spacing between numbers."
    assert (expected.status, expected.message) == (-1, message)
    assert (found.status, found.message, found.nfev) == (-1, message, expected.nfev)
    assert plain(found.y).tobytes() == expected.y.tobytes()
    assert np.asarray(found.t).tobytes() == expected.t.tobytes()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("times", [[0, 1, 2], np.arange(3), np.float32([0.0, 1.5]), []])
def test_times_of_other_dtypes(method, times):
    solve = lambda s: integrate.solve_ivp(lambda t, y: -s * y, (0, 2), [1, 2], method, t_eval=times)
    expected, found = solve(1.0), within_a_gradient(solve)
    assert np.asarray(plain(found.y)).tobytes() == np.asarray(expected.y).tobytes()
    assert np.asarray(found.t).tobytes() == np.asarray(expected.t).tobytes()


@pytest.mark.parametrize("method", METHODS)
def test_no_time_passes(method):
    def f(p):
        return integrate.solve_ivp(lambda t, y: -p * y, (1.0, 1.0), [2.0 * p], method).y[0, -1]

    assert ct.gradient(f, 3.0)[0] == 2.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("is_at_points", [False, True])
def test_both_ways_to_the_derivative_agree(monkeypatch, method, is_at_points):
    times = np.linspace(0.0, 3.0, 5) if is_at_points else None

    def states(p):
        def slope(t, y):
            return [y[1], -p[0] * np.sin(y[0]) - p[1] * y[1] * y[0] + np.cos(p[2] * t)]

        return integrate.solve_ivp(slope, (0.0, 3.0), [p[3], 0.0], method, t_eval=times).y

    p = np.array([1.3, 0.2, 3.0, 0.7])
    monkeypatch.setattr(moved_states, "_MATRIX", 10**6)
    first = ct.jacrev(states)(p)
    monkeypatch.setattr(moved_states, "_MATRIX", 0)
    for other in (ct.jacrev(states)(p), ct.jacfwd(states)(p)):
        np.testing.assert_allclose(other, first, rtol=1e-11, atol=1e-12)
