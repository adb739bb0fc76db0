"""Calls of right sides are noted: whatever they give, the values stay SciPy's."""

import numpy as np
import pytest
from scipy import integrate

import cotan as ct
from cotan import _core

METHODS = ["RK45", "DOP853", "LSODA", "BDF", "Radau"]


class Refusal(Exception):
    """Another way is needed."""


def noted(function, is_plain=None, state_first=False, most=None, raises=True):
    return _core.NotedCalls(function, Refusal, is_plain, state_first, most, raises)


def solved(side, method="RK45", start=(1.0, 2.0)):
    found = integrate.solve_ivp(side, (0.0, 1.0), start, method, rtol=1e-7, atol=1e-9)
    return found.y[:, -1]


SLOPES = {
    "a list": lambda t, y, s: [-s * y[0], s * y[1] * t],
    "with an integer": lambda t, y, s: [s * y[1], 1],
    "a tuple": lambda t, y, s: (-s * y[0], y[0]),
    "a number": lambda t, y, s: s * 0.5,
    "one element": lambda t, y, s: [s * y[0]],
    "a column": lambda t, y, s: (-s * y)[:, None][:, 0],
    "elements with axes": lambda t, y, s: [np.array(s * y[0]), y[1]],
    "every other element": lambda t, y, s: np.repeat(-s * y, 2)[::2],
    "the state": lambda t, y, s: y if s < 0.0 else y * s,
    "by the type of the time": lambda t, y, s: -s * y * (1.0 if type(t) is float else 1.5),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", SLOPES)
def test_values_are_those_of_scipy(kind, method):
    if kind in {"a number", "one element"} and method not in {"RK45", "DOP853"}:
        pytest.skip("SciPy refuses it")
    side = SLOPES[kind]

    def f(s):
        return np.sum(solved(lambda t, y: side(t, y, s), method))

    value, (slope,) = ct.value_and_gradient(f, 0.7)
    # What a recording sees of the type of the time is something else, so the steps are repeated.
    is_same = kind != "by the type of the time"
    assert value == (f(0.7) if is_same else pytest.approx(f(0.7), rel=1e-13))
    if is_same:
        assert slope == pytest.approx((f(0.7 + 1e-5) - f(0.7 - 1e-5)) / 2e-5, rel=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_right_side_that_writes_to_the_state(method):
    def side(t, y, s):
        y *= -s
        return y

    def f(s):
        return np.sum(solved(lambda t, y: side(t, np.array(y), s), method))

    value, (slope,) = ct.value_and_gradient(f, 0.7)
    assert value == f(0.7)
    assert slope == pytest.approx((f(0.7 + 1e-5) - f(0.7 - 1e-5)) / 2e-5, rel=1e-5)
    calls = noted(lambda t, y: side(t, y, 0.7))
    with pytest.raises(Refusal):
        calls(0.0, np.ones(2))


@pytest.mark.parametrize("method", METHODS)
def test_errors_are_those_of_the_right_side(method):
    def f(s):
        def side(t, y):
            if t > 0.2:
                raise ZeroDivisionError("beyond")
            return -s * y

        return np.sum(solved(side, method))

    with pytest.raises(ZeroDivisionError, match="beyond"):
        ct.value_and_gradient(f, 0.7)


def test_what_is_noted():
    calls = noted(lambda t, y: [y[1], t])
    states = np.arange(6.0).reshape(3, 2)
    assert [calls(0.5 * i, y) for i, y in enumerate(states)] == [[1.0, 0.0], [3.0, 0.5], [5.0, 1.0]]
    times, noted_states, slopes = calls.noted()
    assert calls.calls == calls.count == 3
    np.testing.assert_array_equal(times, [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(noted_states, states)
    np.testing.assert_array_equal(slopes, [[1.0, 0.0], [3.0, 0.5], [5.0, 1.0]])


def test_few_calls_are_noted_where_stages_are_not_needed():
    calls = noted(lambda y, t: -y, state_first=True, most=0)
    for i in range(100):
        calls(np.full(2, float(i)), float(i))
    assert calls.calls == 100
    np.testing.assert_array_equal(calls.called(), np.arange(100.0))
    np.testing.assert_array_equal(calls.noted()[0], [*range(8), 15, 31, 63])


@pytest.mark.parametrize("given", [[1.0 + 1.0j, 2.0], "text", [1.0, 2.0, 3.0], None])
def test_slopes_that_are_no_vector_of_numbers(given):
    calls = noted(lambda t, y: given)
    assert calls(0.0, np.ones(2)) is given
    with pytest.raises(Refusal):
        calls.noted()


def test_compiled_code_goes_on_without_slopes():
    def side(t, y):
        if t > 1.0:
            raise ValueError
        return -y

    calls = noted(side, raises=False)
    y = np.ones(3)
    assert calls(0.0, y).tolist() == [-1.0] * 3
    assert calls(2.0, y).tolist() == [0.0] * 3
    assert calls(0.0, y).tolist() == [0.0] * 3
    assert isinstance(calls.refused, Refusal)
    assert isinstance(calls.refused.__cause__, ValueError)


def test_interrupts_are_not_refused():
    def side(t, y):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        noted(side, raises=False)(0.0, np.ones(1))


def test_results_that_are_not_plain():
    calls = noted(lambda t, y: [object()], is_plain=lambda k: False)
    with pytest.raises(Refusal):
        calls(0.0, np.ones(1))
    with pytest.raises(Refusal) as refused:
        noted(lambda t, y: 1 / 0)(0.0, np.ones(1))
    assert isinstance(refused.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("method", ["RK45", "RK23", "DOP853"])
@pytest.mark.parametrize("size", [2, 4])
def test_tolerances_of_another_length_are_refused_as_by_scipy(method, size):
    def f(k):
        return integrate.solve_ivp(
            lambda t, y: -k * y, (0.0, 1.0), np.ones(3), method=method,
            rtol=np.full(size, 1e-4), first_step=0.1,
        ).y[0, -1]  # fmt: skip

    with pytest.raises(ValueError, match="broadcast"):
        f(1.0)
    with pytest.raises(ValueError, match="broadcast"):
        ct.gradient(f, 1.0)


@pytest.mark.parametrize("state_first", [False, True])
def test_a_second_run_makes_no_calls(state_first):
    made = []

    def side(*args):
        t, y = reversed(args) if state_first else args
        made.append(t)
        return [y[1], -np.sin(y[0]) * t]

    calls = noted(side, state_first=state_first)
    times, options = np.linspace(0.0, 3.0, 7), {"tfirst": not state_first, "h0": 1e-3}
    first = integrate.odeint(calls, [1.0, 0.0], times, **options)
    count = len(made)
    second = integrate.odeint(calls.again(), [1.0, 0.0], times, **options)
    assert second.tobytes() == first.tobytes()
    assert len(made) == count == calls.calls


def test_calls_of_another_run_are_made():
    made = []

    def side(t, y):
        made.append(t)
        return -y * t

    calls = noted(side)
    for t in (0.5, 1.0, 1.5):
        calls(t, np.array([t]))
    del made[:]
    again = calls.again()
    assert again(0.5, np.array([0.5])) == [-0.25]
    # Another state; from here on all calls are made.
    assert again(1.0, np.array([1.25])) == [-1.25]
    assert again(1.5, np.array([1.5])) == [-2.25]
    assert made == [1.0, 1.5]
    # A run that begins somewhere else.
    assert calls.again()(1.0, np.array([1.0])) == [-1.0]
    assert made == [1.0, 1.5, 1.0]


def test_calls_that_are_not_noted_are_made():
    made = []

    def side(t, y):
        made.append(t)
        return -y

    calls = noted(side, most=8)
    for t in range(20):
        calls(float(t), np.ones(2))
    del made[:]
    again = calls.again()
    for t in range(20):
        np.testing.assert_array_equal(again(float(t), np.ones(2)), [-1.0, -1.0])
    # The first ones are noted, whatever was asked for.
    assert made == [float(t) for t in range(8, 20)]


@pytest.mark.parametrize("begin", [0.0, -3.0, 100.0])
@pytest.mark.parametrize("direction", [1.0, -1.0])
def test_states_between_steps_wherever_times_are(begin, direction):
    def f(p):
        times = begin + direction * np.linspace(0.0, 1.0, 4)
        return np.sum(
            integrate.odeint(lambda u, t: [u[1], -p * np.sin(t) * u[0]], [1.0, 0.3], times)[-1]
        )

    (found,) = ct.gradient(f, 1.5)
    assert found == pytest.approx((f(1.5 + 1e-4) - f(1.5 - 1e-4)) / 2e-4, rel=1e-3)
