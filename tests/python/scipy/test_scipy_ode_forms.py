"""What right sides and arguments of `solve_ivp` may look like, under a gradient."""

import numpy as np
import pytest
from scipy import integrate

import cotan as ct

TIGHT = {"rtol": 1e-8, "atol": 1e-10}


def check_slope(f, s=0.6, rtol=1e-6):
    value, (slope,) = ct.value_and_gradient(f, s)
    assert value == pytest.approx(f(s), rel=1e-12)
    assert slope == pytest.approx((f(s + 1e-5) - f(s - 1e-5)) / 2e-5, rel=rtol)


def ends(side, s, method="RK45", **options):
    found = integrate.solve_ivp(side, (0, 1), [1.0, 2.0], method, **TIGHT, **options)
    return np.sum(found.y[:, -1])


@pytest.mark.parametrize("method", ["RK45", "DOP853"])
def test_columns_in_other_shapes(method):
    # SciPy reads one row, and a list of numbers, as a column.
    check_slope(lambda s: ends(lambda t, y: -s * y.T, s, method, vectorized=True))
    check_slope(
        lambda s: ends(lambda t, y: [-s * y[0, 0], -s * y[1, 0]], s, method, vectorized=True)
    )


@pytest.mark.parametrize("method", ["RK45", "DOP853"])
def test_a_number_for_all_states(method):
    check_slope(lambda s: ends(lambda t, y: s * 0.5, s, method))


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau"])
def test_one_element_for_all_states(method):
    check_slope(lambda s: ends(lambda t, y: [s * 0.5 * y[0]], s, method))


@pytest.mark.parametrize("method", ["RK45", "Radau"])
def test_no_times(method):
    def f(s):
        found = integrate.solve_ivp(
            lambda t, y: -s * y, (0, 1), [1.0, 2.0], method, t_eval=[], dense_output=True, **TIGHT
        )
        assert len(found.t) == len(found.y) == 0
        return np.sum(found.sol(1.0))

    check_slope(f)


def test_no_times_with_steps_that_are_repeated():
    def f(s):
        def side(t, y):
            calls.append(t)
            return -s * y

        calls = []
        found = integrate.solve_ivp(
            side, (0, 1), [1.0, 2.0], t_eval=[], dense_output=True, **TIGHT
        )  # fmt: skip
        return np.sum(found.sol(1.0))

    check_slope(f)


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF", "LSODA"])
def test_no_states(method):
    def f(s):
        found = integrate.solve_ivp(lambda t, y: -s * y, (0, 1), [], method)
        assert found.y.shape == (0, len(found.t))
        return s * len(found.t)

    plain = integrate.solve_ivp(lambda t, y: -y, (0, 1), [], method)
    assert ct.gradient(f, 0.6)[0] == len(plain.t)
