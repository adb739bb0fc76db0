"""Data and weights of `optimize.curve_fit`: structures, shapes, and what their errors name."""

import re

import numpy as np
import pytest
import scipy.optimize

import cotan as ct
from cotan.optimize import curve_fit, least_squares

T = np.linspace(0.0, 1.0, 20)
Y = 3.0 * np.exp(-2.0 * T) + 0.1 * np.sin(20 * T)
P = {"a": 1.0, "b": 1.0}
NAN = np.where(T > 0.5, np.nan, T)


def decay(t, p):
    return p["a"] * np.exp(-p["b"] * t)


def decay_of_two(t, a, b):
    return a * np.exp(-b * t)


def two_curves(t, p):
    return {"line": p["a"] * t, "square": p["b"] * t**2}


Y2 = {"square": 5.0 * T**2, "line": 2.0 * T}


def test_dictionaries_fit_by_name():
    popt, _ = curve_fit(two_curves, T, Y2, P)
    assert popt == pytest.approx({"a": 2.0, "b": 5.0})
    sigma = {"square": 0.2, "line": np.full(20, 0.1)}
    _, pcov = curve_fit(two_curves, T, Y2, P, sigma, absolute_sigma=True)
    expected = [0.1**2 / np.sum(T**2), 0.2**2 / np.sum(T**4)]
    np.testing.assert_allclose(np.diag(pcov), expected)


@pytest.mark.parametrize("make", [np.asarray, list, tuple], ids=["array", "list", "tuple"])
def test_lists_of_numbers_are_arrays(make):
    expected, _ = scipy.optimize.curve_fit(decay_of_two, T, Y, [1, 1], np.full(20, 0.1))
    popt, _ = curve_fit(decay_of_two, T, make(Y), [1.0, 1.0], make(np.full(20, 0.1)))
    np.testing.assert_allclose(popt, expected, rtol=1e-6)
    by_lists, _ = curve_fit(lambda t, p: [decay(u, p) for u in t], T, make(Y), P)
    np.testing.assert_allclose(list(by_lists.values()), expected, rtol=1e-6)


def test_columns_of_tables_are_arrays():
    pandas = pytest.importorskip("pandas")
    popt, _ = curve_fit(decay, T, pandas.Series(Y), P, pandas.Series(np.full(20, 0.1)))
    assert popt == pytest.approx(curve_fit(decay, T, Y, P)[0])
    whole = pandas.Series(np.arange(20))
    assert curve_fit(lambda t, p: p * np.arange(20.0), T, whole, 3.0)[0] == pytest.approx(1.0)


def test_one_number_is_the_deviation_of_all():
    _, pcov = curve_fit(decay, T, Y, P, 0.1, absolute_sigma=True)
    _, expected = curve_fit(decay, T, Y, P, np.full(20, 0.1), absolute_sigma=True)
    np.testing.assert_allclose(pcov, expected)


def test_covariances():
    matrix = 0.01 * (np.eye(20) + 0.5)
    _, pcov = curve_fit(decay, T, Y, P, matrix, absolute_sigma=True)
    _, expected = scipy.optimize.curve_fit(
        decay_of_two, T, Y, [1, 1], sigma=matrix, absolute_sigma=True
    )
    np.testing.assert_allclose(pcov, expected, rtol=1e-5)


def test_complex_data():
    popt, pcov = curve_fit(lambda t, p: 1j * decay(t, p), T, 1j * Y, P, np.full(20, 0.1))
    real, expected = curve_fit(decay, T, Y, P, np.full(20, 0.1), absolute_sigma=True)
    assert popt == pytest.approx(real)
    _, pcov = curve_fit(decay, T, Y.astype(complex), P, 0.1, absolute_sigma=True)
    np.testing.assert_allclose(pcov, expected, rtol=1e-6)


@pytest.mark.parametrize(("x", "y"), [(T, np.where(T > 0.5, np.nan, Y)), (NAN, Y)], ids=["y", "x"])
def test_nan_is_left_out(x, y):
    expected, covariance = curve_fit(decay, T[T <= 0.5], Y[T <= 0.5], P, T[T <= 0.5] + 1)
    popt, pcov = curve_fit(decay, x, y, P, T + 1, nan_policy="omit")
    assert popt == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(pcov, covariance, rtol=1e-5)


def test_robust_loss():
    bad = Y + 3.0 * (np.arange(20) == 4)
    options = {"loss": "soft_l1", "f_scale": 0.1}
    popt, pcov = curve_fit(decay, T, bad, P, **options)
    found = least_squares(lambda p: decay(T, p) - bad, P, **options)
    assert popt == pytest.approx(found.x, rel=1e-4)
    expected, covariance = scipy.optimize.curve_fit(
        decay_of_two, T, bad, [1, 1], method="trf", **options
    )
    assert list(popt.values()) == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(pcov, covariance, rtol=1e-3)


def test_derivatives_by_data_and_weights():
    def fitted(y, sigma):
        return curve_fit(decay, T, y, P, sigma, ftol=1e-14, xtol=1e-14)[0]["a"]

    sigma = 0.1 + T
    for position in (0, 1):
        found = ct.gradient(fitted, Y, sigma)[position]
        for i in (0, 7):
            step = 1e-3 * (np.arange(20) == i)
            low, high = ([Y, sigma], [Y, sigma])
            low[position], high[position] = low[position] - step, high[position] + step
            assert found[i] == pytest.approx((fitted(*high) - fitted(*low)) / 2e-3, rel=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: curve_fit(decay_of_two, T, Y, P), TypeError,
            "p0 is of the class dict, so f is called as f(xdata, p); it is decay_of_two(t, a, b)",
        ),
        (
            lambda: curve_fit(decay, T, Y, [1.0, 1.0]), TypeError,
            "p0 is of the class list, so f is called as f(xdata, *p), with 2 parameters",
        ),
        (
            lambda: curve_fit(decay_of_two, T, Y, np.ones(3)), TypeError,
            "p0 is of the class ndarray, so f is called as f(xdata, *p), with 3 parameters",
        ),
        (lambda: curve_fit(decay, T, Y, {"a": "x"}), TypeError, "p0 has no float"),
        (
            lambda: curve_fit(decay, T, Y[:10], P), ValueError,
            "ydata has shape (10,), and f returned shape (20,) there; f is called once",
        ),
        (
            lambda: curve_fit(decay, T, Y[:, None], P), ValueError,
            "ydata has shape (20, 1), and f returned shape (20,) there; use ydata.reshape(20,)",
        ),
        (
            lambda: curve_fit(lambda t, p: p["a"], T, Y, P), ValueError,
            "ydata has shape (20,), and f returned one number there",
        ),
        (
            lambda: curve_fit(two_curves, T, Y2 | {"line": T[:3]}, P), ValueError,
            "ydata.line has shape (3,), and f returned shape (20,) there",
        ),
        (
            lambda: curve_fit(two_curves, T, {"line": T}, P), ValueError,
            "f does not fit ydata: ydata has no 'square'; it has: line",
        ),
        (lambda: curve_fit(decay, T, None, P), ValueError, "ydata has no numbers"),
        (lambda: curve_fit(decay, T, NAN, P), ValueError, "ydata[10] is nan; leave it out"),
        (lambda: curve_fit(decay, NAN, Y, P), ValueError, "xdata[10] is nan; leave it out"),
        (
            lambda: curve_fit(decay, T, Y, P, np.ones(10)), ValueError,
            "ydata has shape (20,), and sigma shape (10,) there; sigma is a number, or",
        ),
        (
            lambda: curve_fit(two_curves, T, Y2, P, {"line": 0.1}), ValueError,
            "ydata.square has shape (20,), and sigma nothing there",
        ),
        (
            lambda: curve_fit(decay, T, Y, P, T), ValueError,
            "sigma[0] is 0.0; standard deviations must be positive",
        ),
        (
            lambda: curve_fit(lambda t, p: 1j * decay(t, p), T, Y, P), ValueError,
            "f returned complex numbers and ydata is real; use ydata.astype(complex)",
        ),
        (
            lambda: curve_fit(decay, T[:1], Y[:1], P), ValueError,
            "p0 has 2 numbers and ydata 1; method='lm'",
        ),
        (
            lambda: curve_fit(decay, T, Y, {"a": 1.0, "b": -3000.0}), ValueError,
            "15 of 20 numbers that the function returned at p0 are not finite",
        ),
        (
            lambda: curve_fit(decay, T, Y, P, bounds=({"a": 2.0}, np.inf)), ValueError,
            "p0.a is 1.0, outside of its bounds 2.0 and inf",
        ),
        (
            lambda: curve_fit(decay, T, Y, P, bounds=({"a": 1.0}, {"a": 1.0})), ValueError,
            "p0.a has the bounds 1.0 and 1.0, and the lower one must be less",
        ),
        (
            lambda: least_squares(lambda w: w, np.ones((2, 2)), bounds=([[0, 0], [0, 2]], 9.0)),
            ValueError, "x0[1, 1] is 1.0, outside of its bounds 2.0 and 9.0",
        ),
        (
            lambda: least_squares(lambda p: np.sum((decay(T, p) - Y) ** 2), P), ValueError,
            "the function returned one number, not residuals",
        ),
        (lambda: least_squares(lambda x: 2.0 * x, 1.0), ValueError, "a single residual r as [r]"),
        (
            lambda: least_squares(lambda x: x * NAN, 1.0), ValueError,
            "10 of 20 numbers that the function returned at x0 are not finite",
        ),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with np.errstate(all="ignore"), pytest.raises(error, match=re.escape(message)):
        call()


def test_a_single_residual():
    assert least_squares(lambda x: [x - 3.0], 1.0).x == pytest.approx(3.0)
