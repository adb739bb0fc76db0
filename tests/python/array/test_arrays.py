"""The class `Array`: laziness, operators, conversions, memory of others."""

import copy
import math
import numbers
import operator
import pickle

import numpy as np
import pytest

import cotan as ct

X = np.array([0.5, 1.0, 1.5])


def product(x, y):
    return ct.sum(ct.mul(x, y))


# --------------------------------------------------------------------------------------------------
# Arrays


def test_arrays_are_lazy_until_they_are_read():
    x = ct.array(X)
    for read in (repr, str, np.asarray, lambda y: y.tolist(), lambda y: bool(y[0]), ct.Array.force):
        y = x * x + 1
        assert not y.is_forced
        read(y)
        assert y.is_forced or read is not ct.Array.force
    assert (x * x).force().is_forced


def test_attributes():
    x = ct.array(np.arange(6.0).reshape(2, 3))
    assert x.shape == (2, 3)
    assert x.ndim == 2
    assert x.size == 6
    assert x.itemsize == 8
    assert x.nbytes == 48
    assert x.dtype == np.float64
    assert x.T.shape == (3, 2)
    assert x.base is None
    assert x[0].base is x
    assert len(x) == 2
    np.testing.assert_array_equal(np.asarray(x.real), np.asarray(x))
    np.testing.assert_array_equal(np.asarray(x.imag), np.zeros((2, 3)))
    z = ct.array([1 + 2j])
    assert z.real.item() == 1
    assert z.imag.item() == 2
    assert z.conj().item() == 1 - 2j


def test_methods_are_numpys():
    plain = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    x = ct.array(plain)
    for name in ("sum", "prod", "mean", "max", "min", "argmax", "argmin", "cumsum"):
        for axis in (None, 0, 1, -1):
            expected = getattr(plain, name)(axis)
            actual = np.asarray(getattr(x, name)(axis))
            np.testing.assert_allclose(actual, expected)
            assert actual.dtype == expected.dtype
    assert x.sum(axis=1, keepdims=True).shape == (2, 1)
    assert x.reshape(3, 2).shape == x.reshape((3, -1)).shape == (3, 2)
    np.testing.assert_array_equal(
        np.asarray(x.reshape(3, 2, order="F")), plain.reshape(3, 2, order="F")
    )
    assert x.transpose(1, 0).shape == x.swapaxes(0, 1).shape == (3, 2)
    assert x.ravel().shape == x.flatten().shape == (6,)
    assert x.reshape(1, 2, 3, 1).squeeze().shape == (2, 3)
    assert x.astype(np.float32).dtype == np.float32


OPERATORS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "divmod 0": lambda a, b: divmod(a, b)[0],
    "divmod 1": lambda a, b: divmod(a, b)[1],
    "pow": operator.pow,
    "matmul": operator.matmul,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name, dtype):
    f = OPERATORS[name]
    a, b = np.array([5, 6, 7], dtype), np.array([2, 6, 1], dtype)
    try:
        expected = f(a, b)
    except TypeError:
        with pytest.raises(TypeError):
            f(ct.array(a), ct.array(b))
        return
    for actual in (f(ct.array(a), ct.array(b)), f(ct.array(a), b), f(a, ct.array(b))):
        assert isinstance(actual, ct.Array)
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-6)


def test_operators_with_numbers_on_both_sides():
    for f in OPERATORS.values():
        if f is operator.matmul:
            continue
        for other in (2, 2.5):
            np.testing.assert_allclose(np.asarray(f(ct.array(X), other)), f(X, other))
            np.testing.assert_allclose(np.asarray(f(other, ct.array(X))), f(other, X))


def test_bits_and_unary_operators():
    a, b = np.array([5, 6, 7]), np.array([1, 2, 3])
    x, y = ct.array(a), ct.array(b)
    for f in (
        lambda a, b: a & b,
        lambda a, b: a | b,
        lambda a, b: a ^ b,
        lambda a, b: a << b,
        lambda a, b: a >> b,
        lambda a, b: ~a,
        lambda a, b: -a,
        lambda a, b: +a,
        lambda a, b: abs(-a),
        lambda a, b: 3 & a,
        lambda a, b: 3 | a,
        lambda a, b: 3 ^ a,
        lambda a, b: 3 << b,
        lambda a, b: 300 >> b,
        lambda a, b: ~(a > b) & (a < b) | (b == 2) ^ (b == 3),
    ):
        np.testing.assert_array_equal(np.asarray(f(x, y)), f(a, b))
    with pytest.raises(TypeError, match="pow"):
        pow(x, 2, 3)


def test_conversions_of_scalars():
    s = ct.sum(ct.array([1.25, 1.5]))
    assert float(s) == 2.75
    assert int(s) == math.trunc(s) == math.floor(s) == 2
    assert math.ceil(s) == round(s) == 3
    assert round(s, 1) == 2.8
    assert complex(s) == 2.75 + 0j
    assert s.item() == 2.75
    assert f"{s:.1f}" == "2.8"
    assert f"{s}" == str(s) == "2.75"
    assert [10, 20, 30][ct.array([0, 1])[1]] == 20
    assert bool(s)
    with pytest.raises(TypeError, match="integer scalar"):
        _ = [1, 2][s]
    with pytest.raises(TypeError, match="len"):
        len(s)


def test_conversions_of_arrays():
    x = ct.array(X)
    assert x.tolist() == X.tolist()
    assert repr(x) == "Array([0.5, 1. , 1.5])"
    assert str(x) == f"{x}" == "[0.5 1.  1.5]"
    assert [float(v) for v in x] == X.tolist()
    assert 1.0 in x
    assert 7.0 not in x
    assert np.asarray(x, np.float32).dtype == np.float32
    with pytest.raises(TypeError, match="format"):
        f"{x:.2f}"
    with pytest.raises(ValueError, match="size 1"):
        x.item()
    with pytest.raises(ValueError, match="with more than one element is ambiguous. Use a.any"):
        bool(x)
    with pytest.raises(ValueError, match="copied"):
        np.asarray(x, copy=False)
    (slope,) = ct.gradient(lambda x: np.asarray(x, copy=False)[0], X)
    assert slope.tolist() == [1.0, 0.0, 0.0]  # the array itself
    with ct.lifting(False), pytest.raises(TypeError, match="would drop the gradient"):
        ct.gradient(lambda x: np.asarray(x, copy=False)[0], X)
    with pytest.raises(TypeError, match="0-d"):
        iter(ct.sum(x))
    with pytest.raises(ValueError, match="delete"):
        del x[0]


def test_hashing_is_by_identity():
    x, y = ct.array(X), ct.array(X)
    assert {x: 1, y: 2}[x] == 1
    assert hash(x) == hash(x)
    assert hash(x) != hash(y)


def test_copying_and_pickling():
    x = ct.array(X)
    for y in (copy.copy(x), copy.deepcopy(x), x.copy(), pickle.loads(pickle.dumps(x))):
        assert type(y) is ct.Array
        assert y is not x
        y[0] = 9.0
        np.testing.assert_array_equal(np.asarray(x), X)
    for dtype in (np.bool_, np.uint8, np.int32, np.float16, np.complex64):
        y = pickle.loads(pickle.dumps(ct.array(X.astype(dtype))))
        assert y.dtype == dtype
    with pytest.raises(TypeError, match="pickl"):
        ct.gradient(lambda x: pickle.dumps(x), 1.0)


def test_copies_stay_differentiable():
    for how in (copy.copy, copy.deepcopy, ct.Array.copy, ct.array, ct.asarray):
        (g,) = ct.gradient(lambda x, how=how: product(how(x), x), X)
        np.testing.assert_array_equal(g, 2 * X)


def test_what_an_array_says_it_is():
    x = ct.array(X)
    assert isinstance(x, ct.Array)
    assert isinstance(x, np.ndarray)
    assert isinstance(ct.sum(x), np.float64)
    ct.gradient(lambda x: [isinstance(x, float) or pytest.fail("no float")] and x, 1.0)
    assert isinstance(ct.sum(x), numbers.Real)


def test_making_arrays():
    x = ct.array(X)
    assert ct.asarray(x) is x
    assert ct.asarray(x, np.float64) is x
    assert ct.asarray(x, np.float32).dtype == np.float32
    assert ct.array(X, dtype="float32").dtype == np.float32
    assert ct.array([[1, 2], [3, 4]]).dtype == np.int64
    assert ct.array(3).shape == ()
    assert ct.array([x[0], 2.0, x[1] * 2]).tolist() == [0.5, 2.0, 2.0]
    assert ct.array([x, x]).shape == (2, 3)
    (g,) = ct.gradient(lambda x: ct.sum(ct.array([[x[0], 2.0], [x[1], x[1]]])), X)
    np.testing.assert_array_equal(g, [1.0, 2.0, 0.0])
    source = X.copy()
    y = ct.array(source)
    source[:] = 0
    np.testing.assert_array_equal(np.asarray(y), X)
    with pytest.raises(ValueError, match="shape"):
        ct.array([x, x[:2]])


@pytest.mark.parametrize("dtype", ["longdouble", "clongdouble"])
def test_other_dtypes_are_refused_by_name(dtype):
    if np.dtype(dtype).itemsize <= 16 - 8 * (dtype == "longdouble"):
        pytest.skip("it is the shorter one here")
    with pytest.raises(TypeError, match=rf"{np.dtype(dtype).name}.*not supported.*float64"):
        ct.array(np.ones(2, dtype))
    with pytest.raises(TypeError, match="not supported"):
        ct.array([1, 2], dtype=dtype)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
     "float32", "float64", "complex64", "complex128"],
)  # fmt: skip
def test_dtypes_there_and_back(dtype):
    plain = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    x = ct.array(plain)
    assert x.dtype == plain.dtype
    assert np.asarray(x).dtype == plain.dtype
    np.testing.assert_array_equal(np.asarray(x), plain)
    np.testing.assert_array_equal(np.asarray(x[::-1, ::-1]), plain[::-1, ::-1])


def test_bfloat16_comes_and_goes():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = np.array([1.0, 2.5, -3.0], dtype=bfloat16)
    assert ct.array(x).dtype == bfloat16
    assert ct.array([1.5], dtype=bfloat16).dtype == bfloat16
    (g,) = ct.gradient(lambda x: np.sum(x.astype(np.float32) ** 2), x)
    assert g.dtype == bfloat16
    np.testing.assert_array_equal(g.astype(np.float32), [2.0, 5.0, -6.0])
    y, back = ct.pullback(lambda x: x * x, x)
    assert y.dtype == bfloat16
    assert back.nbytes == x.nbytes


# --------------------------------------------------------------------------------------------------
# DLPack


def test_dlpack_out():
    x = ct.array(X)
    assert x.__dlpack_device__() == (1, 0)
    y = np.from_dlpack(x)
    np.testing.assert_array_equal(y, X)
    np.testing.assert_array_equal(np.from_dlpack(x * 2), 2 * X)
    with pytest.raises(TypeError, match="drop"):
        ct.gradient(lambda x: np.from_dlpack(x).sum(), X)


def test_dlpack_in():
    source = X.copy()
    x = ct.from_dlpack(source)
    assert type(x) is ct.Array
    source[:] = 0
    np.testing.assert_array_equal(np.asarray(x), X)
    assert ct.from_dlpack(x) is x
    with pytest.raises((TypeError, AttributeError)):
        ct.from_dlpack([1, 2])


INTEGERS = [np.dtype(code) for code in "bBhHiIqQ"]
# Programs in which samples, pixels, masks and places are integers: of `x`, three floats, and `a`.
COUNTED = {
    "samples": lambda x, a: np.sum(x * (a / 32768.0)),
    "largest": lambda x, a: np.sum(a / np.iinfo(a.dtype).max * x),
    "product": lambda x, a: (a @ x) * a[1] + a.dot(x),
    "places": lambda x, a: np.sum(x[a - 1] ** 2) + np.sum(np.take(x, a - 1)),
    "mask": lambda x, a: np.sum(x[a > 1]) + np.sum(np.where(a > 1, x, a)),
    "made": lambda x, a: np.sum(np.arange(3, dtype=a.dtype) * x + np.zeros(3, a.dtype)),
    "listed": lambda x, a: np.sum(np.array([x[0], a[0], 2.0])),
    "scalar": lambda x, a: a.dtype.type(3) * x[0] + x[1] / a[2],
    "written": lambda x, a: np.sum(_filled(x, a.dtype) * x),
    "wraps": lambda x, a: np.sum((a * a * a * a + (a << 3)) * x),
    "divided": lambda x, a: np.sum((a // 2 + a % 2 - a) * x),
    "sums": lambda x, a: (np.sum(a) + np.max(a) - a.mean() + np.cumsum(a)[1]) * x[0],
    "roots": lambda x, a: np.sum(np.sqrt(a.astype(np.float32)) * x) + np.sum(np.maximum(x, a)),
    "counts": lambda x, a: np.sum(np.bincount(a.astype(np.intp), weights=x) ** 2),
    "joined": lambda x, a: np.sum(np.concatenate([x, a]) ** 2 * np.stack([a, a]).reshape(6)),
    "cut off": lambda x, a: np.sum(np.round(4 * x).astype(a.dtype) * x),
    "powers": lambda x, a: np.sum(x**a) + np.sum(np.convolve(x, a)),
}


def _filled(x, dtype):
    made = np.zeros(3, dtype)
    made[0] = 3 * x[1]
    made[1:] = 7
    return made


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", COUNTED)
def test_integers_of_any_length_in_programs(name, dtype):
    f, x, a = COUNTED[name], np.array([1.2, 2.3, 3.4]), np.array([1, 3, 2], dtype)
    g = [(f(x + step, a) - f(x - step, a)) / 2e-6 for step in 1e-6 * np.eye(3)]
    # Of arguments, parts of them, and what the function has without being given it.
    for run, args in (
        (f, (x, a)),
        (f, (x, ct.const(a))),
        (lambda x: f(x, a), (x,)),
        (lambda x, d: f(x, d["a"]), (x, {"a": a})),
    ):
        value, (slope, *rest) = ct.value_and_gradient(run, *args, allow_int=True)
        assert value == pytest.approx(f(x, a), rel=1e-6)
        np.testing.assert_allclose(slope, g, rtol=1e-6, atol=1e-6)
        assert rest in ([], [None], [{"a": None}])
    again = ct.prepare(f, x, ct.const(a))
    np.testing.assert_allclose(again(x, a)[0], g, rtol=1e-6, atol=1e-6)


def test_integers_that_only_uint64_holds():
    seed = np.array([2**63 + 5, 7], np.uint64)

    def mixed(a):
        for _ in range(3):
            a = (a ^ (a >> np.uint64(30))) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        return a

    np.testing.assert_array_equal(np.asarray(mixed(ct.array(seed))), mixed(seed))
    for f in (lambda a: a > -1, lambda a: a < 2**63, lambda a: a + 2**63, lambda a: a / 2):
        np.testing.assert_array_equal(np.asarray(f(ct.array(seed))), f(seed))
    assert ct.array([1, 2]).dtype == np.int64
    np.testing.assert_array_equal(np.asarray(ct.array([1, 2]) < 2**63), True)
    with pytest.raises(OverflowError, match="out of bounds for int64"):
        ct.array([1, 2]) + 2**63
    weights = lambda x: np.sum(x * (mixed(np.array(seed)) / 2.0**64))
    np.testing.assert_allclose(ct.gradient(weights, np.ones(2))[0], mixed(seed) / 2.0**64)
