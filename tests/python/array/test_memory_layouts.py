"""Unusual input works as in NumPy: memory layouts, byte orders, sizes, special numbers, dtypes."""

import warnings

import numpy as np
import pytest
from test_errors import X, gradient

import cotan as ct

# --------------------------------------------------------------------------------------------------
# Memory layouts


def layouts():
    base = np.linspace(-2.0, 2.0, 24).reshape(4, 6)
    read_only = base.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + base.tobytes(), np.uint8)[1:].view(np.float64).reshape(4, 6)
    record = np.zeros((4, 6), dtype=[("flag", "i1"), ("value", "f8")])
    record["value"] = base
    return {
        "contiguous": base,
        "fortran": np.asfortranarray(base),
        "transposed": base.T,
        "strided": base[::2, 1::3],
        "reversed": base[::-1, ::-1],
        "one negative stride": base[:, ::-1],
        "broadcast": np.broadcast_to(base[0], (4, 6)),
        "all strides zero": np.broadcast_to(np.float64(0.5), (4, 6)),
        "read-only": read_only,
        "unaligned": unaligned,
        "field of a record": record["value"],
        "sliding window": np.lib.stride_tricks.sliding_window_view(base, (2, 2)),
        "zero-dimensional": np.array(0.5),
        "one element": base[1:2, 1:2],
        "size-1 axes": base.reshape(1, 4, 1, 6, 1),
        "empty": base[:0],
        "empty inside": np.ones((3, 0, 2)),
        "float32": base.astype(np.float32),
        "float32 reversed": base.astype(np.float32)[::-1, ::-3],
        "subclass": base.view(type("Sub", (np.ndarray,), {})),
    }


@pytest.mark.parametrize("name", layouts())
def test_layouts_of_arguments_and_of_plain_operands(name):
    x = layouts()[name]
    rtol = 1e-5 if x.dtype == np.float32 else 1e-13
    before = x.copy()
    value, (g,) = ct.value_and_gradient(lambda x: np.sum(np.sin(x) * x), x)
    assert value == pytest.approx(np.sum(np.sin(x) * x), rel=rtol, abs=rtol)
    assert g.shape == x.shape
    assert g.dtype == x.dtype
    np.testing.assert_allclose(g, np.cos(x) * x + np.sin(x), rtol=rtol, atol=rtol)
    np.testing.assert_array_equal(x, before)

    (g,) = gradient(lambda y: np.exp(y) * x, np.zeros(x.shape, x.dtype))
    np.testing.assert_allclose(g, x, rtol=rtol)


@pytest.mark.parametrize("name", layouts())
def test_layouts_of_cotangents_and_arrays(name):
    dy = layouts()[name]
    rtol = 1e-5 if dy.dtype == np.float32 else 1e-13
    _, back = ct.pullback(np.exp, np.zeros(dy.shape, dy.dtype))
    np.testing.assert_allclose(np.asarray(back(dy)[0]), dy, rtol=rtol)
    held = ct.array(dy)
    assert held.shape == dy.shape
    np.testing.assert_array_equal(np.asarray(held), dy)
    np.testing.assert_array_equal(np.asarray(held.T), dy.T)


@pytest.mark.parametrize("dtype", [">f8", ">f4", "<f8"])
def test_byte_orders(dtype):
    x = X.astype(dtype)
    if x.dtype.isnative:
        np.testing.assert_allclose(gradient(np.sin, x)[0], np.cos(x))
        return
    for call in (
        lambda: gradient(np.sin, x)[0],
        lambda: gradient(lambda y: np.sin(y) + x - x, X)[0],
    ):
        try:
            g = call()
        except TypeError as error:
            assert "byte" in str(error)
        else:
            np.testing.assert_allclose(g, np.cos(X), rtol=1e-6)


def test_arguments_that_overlap():
    base = np.arange(6.0)
    x, y = base[:4], base[2:]
    dx, dy = gradient(lambda x, y: np.sin(x) * y, x, y)
    np.testing.assert_allclose(dx, np.cos(base[:4]) * base[2:])
    np.testing.assert_allclose(dy, np.sin(base[:4]))
    dx, dy = gradient(lambda x, y: x * y, base, base[::-1])
    np.testing.assert_array_equal(dx, base[::-1])
    np.testing.assert_array_equal(dy, base)


def test_sizes_around_the_tiles():
    """Every tail of a vector loop, and the lengths next to the usual tile sizes."""
    for n in [*range(70), 127, 255, 257, 511, 513, 1023, 1025, 4095, 4097, 65_537]:
        for dtype in (np.float32, np.float64):
            x = np.linspace(-1.0, 1.0, n).astype(dtype)
            value, (g,) = ct.value_and_gradient(lambda x: np.sum(np.exp(x) * x), x)
            rtol = 2e-6 if dtype == np.float32 else 1e-14
            np.testing.assert_allclose(g, np.exp(x) * (x + 1), rtol=rtol, atol=rtol)
            exact = np.sum(np.exp(x.astype(float)) * x)
            assert value == pytest.approx(exact, rel=10 * rtol, abs=10 * rtol * (1 + n**0.5))


# --------------------------------------------------------------------------------------------------
# Numbers


@pytest.mark.parametrize(
    "f",
    [
        np.exp,
        np.log,
        np.sqrt,
        np.sin,
        np.tanh,
        np.arctan,
        np.square,
        np.reciprocal,
        np.expm1,
        np.log1p,
    ],
    ids=lambda f: f.__name__,
)
def test_nan_and_infinity_flow_as_ieee_says(f):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, -1.0, 1.0])
    with np.errstate(all="ignore"):
        expected = f(x)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        y, back = ct.pullback(f, x)
        (dx,) = back(np.ones_like(x))
        slope = np.asarray(dx)
    np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-15)
    assert np.array_equal(np.signbit(np.asarray(y)[3:5]), np.signbit(expected[3:5]))
    assert np.isnan(slope[0])
    assert np.isfinite(slope[-1])


def test_nan_in_comparisons_and_extremes():
    x = np.array([1.0, np.nan, 3.0])
    assert np.isnan(ct.value_and_gradient(np.max, x)[0])
    value, (g,) = ct.value_and_gradient(lambda x: np.sum(np.where(x > 2, x, 0.0)), x)
    assert value == 3.0
    np.testing.assert_array_equal(g, [0.0, 0.0, 1.0])


def test_float16_is_storage():
    x = np.array([0.5, 1.0, 1.5], np.float16)
    value, (g,) = ct.value_and_gradient(lambda x: np.sum(np.sin(x) * x), x)
    assert g.dtype == np.float16
    exact = x.astype(float)
    np.testing.assert_allclose(g, np.cos(exact) * exact + np.sin(exact), rtol=4e-3)
    assert float(value) == pytest.approx(np.sum(np.sin(exact) * exact), rel=4e-3)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex(dtype):
    z = np.array([1 + 2j, -0.5j, 3.0], dtype)
    rtol = 1e-5 if dtype == np.complex64 else 1e-13
    (g,) = gradient(lambda z: np.abs(z) ** 2, z)
    assert g.dtype == dtype
    np.testing.assert_allclose(g, 2 * z, rtol=rtol)
    (g,) = gradient(lambda z: np.real(np.exp(z) * z), z)
    np.testing.assert_allclose(g, np.conj(np.exp(z) * z + np.exp(z)), rtol=rtol)
    with pytest.raises((TypeError, ValueError), match="complex|real"):
        ct.gradient(lambda z: np.sum(z), z)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32, np.int64])
def test_integer_arrays_have_no_gradient(dtype):
    n = np.array([1, 0, 1], dtype)
    dx, dn = ct.gradient(lambda x, n: np.sum(x * n), X, n, allow_int=True)
    np.testing.assert_array_equal(dx, n)
    assert dn is None


@pytest.mark.parametrize("value", [3, 2.5, np.float64(2.5), np.float32(2.5), np.int64(3), True])
def test_python_and_numpy_scalars(value):
    def f(x):
        return x * x * 1.5

    if isinstance(value, (bool, np.integer)):
        slope, _ = ct.gradient(lambda x, n: f(x) * n, 2.0, value, allow_int=True)
        assert slope == 6.0 * value
        return
    (g,) = ct.gradient(f, value)
    assert g == 3.0 * value


PAIRS = [
    (np.float32, 2.0),
    (np.float32, np.float64(2.0)),
    (np.float32, np.ones(3)),
    (np.float32, np.ones(3, np.int32)),
    (np.float32, np.ones(3, np.int64)),
    (np.float32, True),
    (np.float32, 2j),
    (np.float64, np.float32(2.0)),
    (np.float16, 2),
    (np.float16, np.ones(3, np.float32)),
    (np.float64, np.ones(3, np.complex64)),
]


@pytest.mark.parametrize(("dtype", "other"), PAIRS)
def test_promotion_is_numpys(dtype, other):
    x = np.ones(3, dtype)
    dtypes = []

    def f(x):
        y = x * other + x
        dtypes.append(y.dtype)
        return np.real(np.sum(y))

    (g,) = ct.gradient(f, x)
    assert dtypes == [(x * other + x).dtype]
    assert g.dtype == dtype


def test_integers_beyond_what_a_dtype_holds():
    with pytest.raises(OverflowError, match="300"):
        ct.array(np.array([1, 2, 3], np.uint8)) + 300


def test_empty_arrays():
    (g,) = gradient(lambda x: np.sin(x) * 2.0, np.ones((0, 4)))
    assert g.shape == (0, 4)
    value, (g, h) = ct.value_and_gradient(
        lambda a, b: np.sum(a @ b), np.ones((2, 0)), np.ones((0, 3))
    )
    assert value == 0.0
    assert (g.shape, h.shape) == ((2, 0), (0, 3))
    (g,) = gradient(lambda x: np.concatenate([x, np.ones(0)]) * 3.0, X)
    np.testing.assert_array_equal(g, [3.0, 3.0, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(ct.value_and_gradient(np.mean, np.ones(0))[0])
