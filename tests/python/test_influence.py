"""What has no influence on the result has none on the gradient, infinite derivatives or not."""

import numpy as np
import pytest

import cotan as ct

X = np.array([-1.0, 0.0, 2.0])
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def test_elements_that_are_not_read():
    for f, expected in (
        (lambda x: np.sum((x * np.array([np.inf, 1.0, 1.0]))[1:]), [0.0, 1.0, 1.0]),
        (lambda x: np.sum((1 / x)[[0, 2]]), [-1.0, 0.0, -0.25]),
        (lambda x: np.sum((1 / x)[np.array([True, False, True])]), [-1.0, 0.0, -0.25]),
        (
            lambda x: np.sum(np.exp(1j * x * np.array([0.0, np.inf, 1.0]))[::2]).real,
            [0.0, 0.0, -np.sin(2.0)],
        ),
    ):
        value, (g,) = ct.value_and_gradient(f, X)
        assert np.isfinite(value)
        np.testing.assert_allclose(g, expected, atol=1e-15)
        np.testing.assert_array_equal(ct.gradient(f, X)[0], g)


def test_elements_that_are_written_over():
    def f(x):
        y = np.log(x)
        y[x <= 0] = 0.0
        return np.sum(y)

    assert ct.gradient(f, X)[0].tolist() == [0.0, 0.0, 0.5]


def test_a_logistic_function_that_overflows():
    f = lambda x: np.sum(1 / (1 + np.exp(-1000 * x)))
    assert ct.gradient(f, X)[0].tolist() == [0.0, 250.0, 0.0]


def test_what_has_influence_is_not_hidden():
    value, (g,) = ct.value_and_gradient(lambda x: np.sum(np.sqrt(x) * 0 + np.sqrt(x)), X[1:])
    assert g[0] == np.inf
    assert np.isfinite(value)
    # The value itself is NaN, and so is the gradient.
    value, (g,) = ct.value_and_gradient(lambda x: np.sum(x * np.nan), X)
    assert np.isnan(value)
    assert np.isnan(g).all()


def test_a_nested_gradient_stays_what_it_was():
    f = lambda x: np.sum((x**3 * np.array([1.0, np.inf, 1.0]))[::2])
    g = ct.gradient(lambda x: np.sum(ct.gradient(f, x)[0][::2]), X)[0]
    np.testing.assert_allclose(g[::2], 6 * X[::2])
