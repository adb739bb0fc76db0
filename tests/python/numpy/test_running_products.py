"""Running products, linear recurrences, and numbers taken out of arrays."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.lib.stride_tricks import as_strided

import cotan as ct


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex128, np.int64])
def test_running_products_are_those_of_numpy(dtype):
    big = {np.float16: 300, np.float32: 1e30, np.int64: 10**6}.get(dtype, 1e200)
    with np.errstate(all="ignore"):
        for numbers in (
            [0, big, big, big],
            [1, big, 1, 0],
            [2, 3, -4, 0, -1],
            [big, 2, 0],
            [7],
            [],
        ):
            x = np.array(numbers, dtype)
            np.testing.assert_array_equal(np.asarray(np.cumprod(ct.array(x))), np.cumprod(x))
    x = np.array([1e-3, 300.0, 300.0, 0.5, 3.0, 1e-3], np.float16)
    np.testing.assert_array_equal(np.asarray(np.cumprod(ct.array(x))), np.cumprod(x))
    signs = np.asarray(np.cumprod(ct.array(np.array([-1.0, 0.0, -2.0]))))
    np.testing.assert_array_equal(np.signbit(signs), [True, True, False])


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_recurrences(data):
    shape = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    axis, reverse = data.draw(st.integers(-2, 1)), data.draw(st.booleans())
    numbers = st.sampled_from([0.0, -1.5, 0.5, 2.0, 1.25])
    draw = lambda: np.array(data.draw(st.lists(numbers, min_size=16, max_size=16)))
    a, b = (draw()[: shape[0] * shape[1]].reshape(shape) for _ in range(2))

    def by_steps(a, b):
        a, b = (np.moveaxis(v, axis, 0)[:: -1 if reverse else 1] for v in (a, b))
        y = [b[0]]
        for i in range(1, len(b)):
            y.append(a[i] * y[-1] + b[i])
        return np.moveaxis(np.stack(y)[:: -1 if reverse else 1], 0, axis)

    def scanned(a, b):
        return ct.linear_recurrence(a, b, axis, reverse)

    np.testing.assert_allclose(np.asarray(scanned(a, b)), by_steps(a, b), rtol=1e-12)
    weights = np.arange(1.0, 1 + a.size).reshape(shape)
    # The last term sees to it that both have influence, whatever the length.
    losses = [
        lambda a, b, f=f: np.sum(f(a, b) ** 2 * weights) + 0.0 * np.sum(a * b)
        for f in (scanned, by_steps)
    ]
    for found, expected in zip(*(ct.gradient(f, a, b) for f in losses), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    second = [
        ct.gradient(lambda a, b, f=f: sum(np.sum(g * weights) for g in ct.gradient(f, a, b)), a, b)
        for f in losses
    ]
    for found, expected in zip(*second, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_recurrences_of_batches_and_their_errors():
    a, b = np.linspace(0.0, 1.0, 6).reshape(2, 3), np.ones((2, 3))
    rows = ct.vmap(lambda a, b: ct.linear_recurrence(a, b))(a, b)
    np.testing.assert_allclose(rows, np.asarray(ct.linear_recurrence(a, b)))
    np.testing.assert_allclose(np.asarray(ct.linear_recurrence(0.5, np.ones(3))), [1, 1.5, 1.75])
    with pytest.raises(ValueError, match="do not broadcast"):
        ct.linear_recurrence(np.ones(2), np.ones(3))
    with pytest.raises(np.exceptions.AxisError):
        ct.linear_recurrence(np.ones(2), np.ones(2), 1)


def test_derivatives_of_running_products():
    x = np.array([2.0, 0.0, 3.0, 0.0, 5.0])
    (found,) = ct.gradient(lambda x: np.sum(np.cumprod(x) * np.arange(1.0, 6.0)), x)
    np.testing.assert_allclose(found, [1.0, 22.0, 0.0, 0.0, 0.0])
    with np.errstate(all="ignore"):
        (found,) = ct.gradient(lambda x: np.cumprod(x)[1], np.array([3.0, 0.0, 1e200, 1e200]))
    np.testing.assert_array_equal(found, [0.0, 3.0, 0.0, 0.0])


def test_complex_numbers_divided_by_nan():
    z = np.array([1 + 2j, 3 - 1j, 0j])
    with np.errstate(all="ignore"):
        for divisor in (np.nan, complex(np.nan, 0), complex(0, np.nan), np.array([np.nan, 2, 0])):
            np.testing.assert_array_equal(np.asarray(ct.array(z) / divisor), z / divisor)


def test_numbers_that_are_taken_out_are_python_numbers():
    x, y = np.array([1.1], np.float32), np.float32(1.3)
    value, (dx, _) = ct.value_and_gradient(lambda x, y: x.item() * y.item(), x, y)
    assert value == x.item() * y.item()
    assert dx.dtype == np.float32
    value, _ = ct.value_and_gradient(lambda x: x.tolist()[0] * 3.3, x)
    assert value == x.tolist()[0] * 3.3

    def weak(x):
        product = x * x.item()
        assert product.dtype == np.float32
        return product[0]

    ct.gradient(weak, x)


@pytest.mark.parametrize(
    ("shape", "options"),
    [((1,), {"strides": (3,)}), ((1, 3), {"strides": (1, 8)}), ((1, 1, 1), {}), ((2, 2), {}),
     ((3,), {"strides": (0,)}), ((1,), {"strides": (100,)})],
)  # fmt: skip
def test_strides_of_one_element(shape, options):
    x = np.array([2.0, 3.0, 4.0, 5.0])

    def f(x):
        return np.sum(as_strided(x, shape, **options) ** 2)

    value, (found,) = ct.value_and_gradient(f, x)
    assert value == f(x)
    numbers = as_strided(np.arange(4), shape, **options)
    expected = np.zeros(4)
    np.add.at(expected, numbers, 2 * x[numbers])
    np.testing.assert_array_equal(found, expected)
