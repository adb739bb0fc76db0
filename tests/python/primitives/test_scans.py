"""Running maxima and minima: ties, NaN, integers and empty arrays, what NumPy code calls."""

import numpy as np
import pytest

import cotan as ct
from cotan import _core

NAN = np.nan
DTYPES = ["bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex128"]


def slopes(f, x):
    """The derivative of the sum of each place, weighted by 1, 10, 100, ..."""
    weights = 10.0 ** np.arange(x.size)
    return ct.gradient(lambda x: np.sum(f(x) * weights), x)[0].tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ufunc", [np.maximum, np.minimum])
def test_values_are_numpys(ufunc, dtype):
    x = np.random.default_rng(0).integers(0, 9, (3, 5, 4)).astype(dtype)
    for axis in (0, 1, -1):
        expected = ufunc.accumulate(x, axis)
        y = ufunc.accumulate(ct.array(x), axis)
        assert y.dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(ct.dropgrad(y)), expected)


def test_of_several_equal_elements_the_last_has_the_derivative():
    x = np.array([1.0, 3.0, 2.0, 3.0, 3.0])
    assert slopes(ct.cummax, x) == [1.0, 110.0, 0.0, 1000.0, 10000.0]
    assert slopes(lambda x: ct.cummin(-x), x) == [-1.0, -110.0, 0.0, -1000.0, -10000.0]
    assert slopes(lambda x: ct.cummax(x, reverse=True), x) == [0.0, 11.0, 0.0, 1100.0, 10000.0]


def test_nan_stays():
    x = np.array([1.0, NAN, 2.0, NAN, 0.0])
    np.testing.assert_array_equal(np.asarray(ct.cummax(x)), [1.0, NAN, NAN, NAN, NAN])
    np.testing.assert_array_equal(np.asarray(ct.cummin(x, reverse=True)), [NAN] * 4 + [0.0])
    assert slopes(ct.cummax, x) == [1.0, 110.0, 0.0, 11000.0, 0.0]


def test_without_an_axis_the_array_is_flattened():
    x = np.array([[2.0, 1.0], [3.0, 0.0]])
    assert ct.cummax(x).tolist() == [2.0, 2.0, 3.0, 3.0]
    assert ct.cummax(x, axis=0).tolist() == [[2.0, 1.0], [3.0, 1.0]]
    assert ct.cummin(5.0).tolist() == [5.0]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_nothing_to_fold(shape):
    y, (g,) = ct.value_and_gradient(lambda x: ct.sum(ct.cummax(x, axis=-1)), np.ones(shape))
    assert float(y) == 0.0
    assert g is None or g.shape == shape


def test_examples_of_a_batch():
    x = np.random.default_rng(1).normal(size=(3, 2, 5))
    y = ct.vmap(lambda x: ct.cummax(x, axis=1))(x)
    np.testing.assert_array_equal(np.asarray(y), np.maximum.accumulate(x, 2))
    each = ct.vmap(lambda x: ct.gradient(lambda x: ct.sum(ct.cummin(x, axis=0) ** 2), x)[0])(x)
    for one, g in zip(x, np.asarray(each), strict=True):
        (expected,) = ct.gradient(lambda x: ct.sum(ct.cummin(x, axis=0) ** 2), one)
        np.testing.assert_allclose(g, expected)


def test_code_of_numpy_is_one_equation():
    text = _core.trace(lambda x: np.maximum.accumulate(x, axis=1), np.ones((2, 300))).text()
    assert text.count("cummax") == 1
    assert "maximum" not in text
