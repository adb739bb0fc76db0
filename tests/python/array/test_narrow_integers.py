"""Samples of int16, pictures of uint16, counts of uint32: they meet floats as they do in NumPy."""

import numpy as np
import pytest

import cotan as ct

DTYPES = ["int8", "int16", "uint16", "uint32", "uint64"]
X = np.array([0.5, -1.5, 2.0])


def slope(f, x, step=1e-6):
    """The derivative of `f(x * p)` by `p` at 1, by plain NumPy."""
    return (f(x * (1 + step)) - f(x * (1 - step))) / (2 * step)


USES = {
    "times": lambda x, n: np.sum(x * n),
    "operator of a plain array": lambda x, n: np.sum(n * x + n / (x**2 + 1)),
    "ufunc": lambda x, n: np.sum(np.hypot(x, n)),
    "power": lambda x, n: np.sum(x**n),
    "comparison": lambda x, n: np.sum(np.where(x > n, x, x**2)),
    "where": lambda x, n: np.sum(np.where(n > 1, x, n) * x),
    "condition": lambda x, n: np.sum(np.where(n, x, 0.0) ** 2),
    "joined": lambda x, n: np.sum(np.concatenate([x, n]) ** 2),
    "appended": lambda x, n: np.sum(np.append(x, n) ** 2),
    "rows": lambda x, n: np.sum(np.vstack([x, n]) * np.stack([n, x])),
    "of rows": lambda x, n: np.sum(np.array([x, n]) ** 2),
    "product": lambda x, n: np.dot(n, x) + x @ n,
    "element": lambda x, n: x[0] * n[1] + n[2] * x[2],
    "between": lambda x, n: np.interp(x[2] / 1.3, n, x**2) + np.interp(1.5, n, n * x),
    "sums": lambda x, n: np.convolve(x, n)[2] + np.trapezoid(x**2, n) + np.correlate(n, x)[0],
    "products": lambda x, n: (
        np.inner(x, n) + np.outer(n, x)[1, 2] + np.einsum("i,i", x, n) + np.vdot(n, x)
    ),
    "tables": lambda x, n: np.tensordot(n, x, 1) + np.kron(x, n)[4] + np.polyval(n, x)[1],
    "flattened": lambda x, n: np.sum(np.concatenate([x, n], axis=None) ** 2),
    "in a list": lambda x, n: np.sum(np.array([x[0], n[1], x[2]]) ** 2),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("use", USES)
def test_they_meet_floats(use, dtype):
    n, f = np.array([1, 2, 3], dtype), USES[use]
    value, (g,) = ct.value_and_gradient(lambda x: f(x, n), X)
    np.testing.assert_allclose(value, f(X, n), rtol=1e-14)
    np.testing.assert_allclose(g @ X, slope(lambda x: f(x, n), X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("other", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_numpys(dtype, other):
    n, x = np.array([1, 2, 3], dtype), np.ones(3, other)
    for f in (
        lambda x: x * n,
        lambda x: n - x,
        lambda x: np.concatenate([n, x]),
        lambda x: x * n[0],
    ):
        y, _ = ct.pullback(f, x)
        assert y.dtype == f(x).dtype
    np.testing.assert_array_equal(np.asarray(ct.array(1.5) * n), 1.5 * n)
    assert (ct.array(x) * n).dtype == (x * n).dtype


def test_large_numbers_keep_their_value():
    n = np.array([2**64 - 1, 2**63, 3], np.uint64)
    np.testing.assert_array_equal(np.asarray(ct.array(X) * n), X * n)
    k = np.array([2**32 - 1, 2**31, 3], np.uint32)
    np.testing.assert_array_equal(np.asarray(ct.array(X) + k), X + k)


def test_they_are_written_into_floats():
    def f(x, n):
        y = np.zeros(6)
        y[:3] = x
        y[3:] = n
        y[0] = n[2]
        return np.sum(y**3)

    for dtype in DTYPES:
        n = np.array([1, 2, 3], dtype)
        value, (g,) = ct.value_and_gradient(lambda x, n=n: f(x, n), X)
        assert value == f(X, n)
        np.testing.assert_allclose(g, [0.0, *(3 * X[1:] ** 2)])


def test_a_prepared_function_sees_when_they_change():
    n = np.array([1, 2, 3], np.int16)
    g = ct.prepare(lambda x: np.sum(x * n), X)
    np.testing.assert_array_equal(g(X)[0], [1, 2, 3])
    n[0] = 5
    np.testing.assert_array_equal(g(X)[0], [5, 2, 3])


def test_they_are_indices():
    places = np.array([2, 0, 2], np.uint16)
    (g,) = ct.gradient(lambda x: np.sum(x[places] * [1.0, 2.0, 3.0]), X)
    np.testing.assert_array_equal(g, [2, 0, 4])
