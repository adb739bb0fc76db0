"""Ufuncs and operators: dtypes, methods of the binary ones, errors, against NumPy."""

import functools
import itertools
import math
import operator

import numpy as np
import pytest
import scipy.special
from numpy_cases import (
    DTYPES,
    INPUTS,
    arguments,
    check,
    compare,
    quiet,
    sample,
    wrote,
)

import cotan as ct
from cotan._src.numpy import ufunc_protocol
from cotan._src.runtime.registry import UFUNC, rules_of

SCIPY = rules_of("scipy.special", UFUNC)
UFUNCS = {
    f.__name__: f
    for f in [*vars(np).values(), *(getattr(scipy.special, name, None) for name in SCIPY)]
    if isinstance(f, np.ufunc) and ufunc_protocol.rule(f) is not None
}
BINARY = {n: f for n, f in UFUNCS.items() if (f.nin, f.nout, f.signature) == (2, 1, None)}
# Those of SciPy have a neutral element of 0 whatever they compute, and with where= they write past
# the end of arrays of float32 (xlogy of SciPy 1.17): their methods are nobody's reference.
FOLDING = {n: f for n, f in BINARY.items() if n not in SCIPY}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("name", UFUNCS)
def test_dtypes_of_a_ufunc(name, dtype):
    ufunc = UFUNCS[name]
    shape = (3, 3) if ufunc.signature else (3, 4)
    compare(ufunc, *(sample(dtype, shape, seed) for seed in range(ufunc.nin)))


@pytest.mark.parametrize(
    "pair",
    list(itertools.combinations(DTYPES, 2)),
    ids=lambda p: "-".join(np.dtype(d).name for d in p),
)
def test_dtypes_of_binary_ufuncs_with_two_of_them(pair):
    for ufunc in BINARY.values():
        compare(ufunc, sample(pair[0]), sample(pair[1], seed=1))
        compare(ufunc, sample(pair[1]), sample(pair[0], seed=1))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_dtypes_of_binary_ufuncs_with_numbers(dtype):
    for ufunc in BINARY.values():
        for number in (2, 1.5, True, np.float32(2), np.int64(3)):
            compare(ufunc, sample(dtype), number)
            compare(ufunc, number, sample(dtype))


# What is called with a binary ufunc and an array of shape (3, 4).
METHODS = {
    "reduce": lambda u, x: u.reduce(x),
    "reduce all": lambda u, x: u.reduce(x, axis=None),
    "reduce axis": lambda u, x: u.reduce(x, axis=-1, keepdims=True),
    "reduce axes": lambda u, x: u.reduce(x, axis=(0, 1)),
    "reduce no axes": lambda u, x: u.reduce(x, axis=()),
    "reduce initial": lambda u, x: u.reduce(x, axis=1, initial=x[0, 0]),
    "reduce where": lambda u, x: u.reduce(x, axis=1, where=INPUTS["b"]),
    "reduce where initial": lambda u, x: u.reduce(x, axis=1, where=INPUTS["b"], initial=x[1, 1]),
    "reduce dtype": lambda u, x: u.reduce(x, dtype=np.float64),
    "reduce out": lambda u, x: u.reduce(x, axis=1, out=np.zeros_like(x[:, 0])),
    "reduce nothing": lambda u, x: u.reduce(x[:0]),
    "reduce one": lambda u, x: u.reduce(x[:1]),
    "accumulate": lambda u, x: u.accumulate(x),
    "accumulate axis": lambda u, x: u.accumulate(x, axis=1),
    "accumulate dtype": lambda u, x: u.accumulate(x, dtype=np.float64),
    "accumulate out": lambda u, x: u.accumulate(x, out=np.zeros_like(x)),
    "accumulate nothing": lambda u, x: u.accumulate(x[:0]),
    "outer": lambda u, x: u.outer(x[0], x[1]),
    "outer more axes": lambda u, x: u.outer(x[:2, :2], x[1]),
    "outer scalar": lambda u, x: u.outer(x[0, 0], x[1]),
    "reduceat": lambda u, x: u.reduceat(x, [0, 2, 1]),
    "reduceat axis": lambda u, x: u.reduceat(x, [1, 3, 3, 0], axis=1),
    "reduceat dtype": lambda u, x: u.reduceat(x, [0, 1], dtype=np.float64),
    "at": lambda u, x: wrote(x, lambda y: u.at(y, ([0, 0, 2], [1, 1, 3]), x[0, :3])),
    "at slice": lambda u, x: wrote(x, lambda y: u.at(y, (slice(None), [1, 1]), x[0, 0])),
    "at mask": lambda u, x: wrote(x, lambda y: u.at(y, INPUTS["b"], x[1, 2])),
    "out": lambda u, x: u(x, x[::-1], out=np.zeros_like(x)),
    "where out": lambda u, x: u(x, x[0], where=INPUTS["b"], out=x.copy()),
    "dtype": lambda u, x: u(x, x[0], dtype=np.float64),
    "casting": lambda u, x: u(x, x[0], dtype=np.float32, casting="unsafe"),
}


# The vector loops of these forget the running value along a contiguous axis in NumPy 2.4:
# np.arctan2.reduce([1, 2, 3]) is arctan2(1, 3).
FORGETFUL = {"arctan2", "power", "float_power"}


def forgotten(name, method):
    return name in FORGETFUL and method.startswith("reduce")


@pytest.mark.parametrize(
    ("name", "method"), [p for p in itertools.product(FOLDING, METHODS) if not forgotten(*p)]
)
def test_methods_of_a_ufunc(name, method):
    for dtype in (bool, np.int64, np.float32, np.float64, np.complex128):
        compare(lambda x: METHODS[method](BINARY[name], x), sample(dtype))


@pytest.mark.parametrize("name", sorted(FORGETFUL))
def test_folds_are_one_step_after_the_other(name):
    ufunc, x = BINARY[name], sample(np.float64)
    expected = [functools.reduce(ufunc, row.tolist()) for row in x]
    np.testing.assert_allclose(np.asarray(ufunc.reduce(ct.array(x), axis=1)), expected)
    started = [functools.reduce(ufunc, row.tolist(), 1.5) for row in x]
    ours = ufunc.reduce(ct.array(x), axis=1, initial=1.5)
    np.testing.assert_allclose(np.asarray(ours), started)


def test_folds_of_integers_stay_in_the_dtype_that_is_asked_for():
    x = ct.array(np.full(3, 200, np.uint8))
    assert int(np.add.reduce(x)) == 600
    assert int(np.add.reduce(x, dtype=np.uint8)) == 600 % 256
    assert np.add.reduce(x, dtype=np.uint8).dtype == np.uint8


SMOOTH = [
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "fmax", "fmin", "hypot",
    "logaddexp", "logaddexp2", "arctan2", "power", "float_power", "copysign", "heaviside",
    "remainder", "fmod", "floor_divide",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "method"),
    [
        p
        for p in itertools.product(SMOOTH, METHODS)
        if p[1] not in {"casting", "reduce nothing"} and not forgotten(*p)
    ],
)
def test_gradients_of_methods_of_a_ufunc(name, method):
    ufunc = BINARY[name]
    # Positive, different from one another, and small enough for powers of powers.
    case = lambda t: METHODS[method](ufunc, 1 + np.exp(t[0] / 4) / 4)
    try:
        quiet(case, *arguments(case))
    except (TypeError, ValueError):
        return  # not in NumPy either
    check(case)


# --------------------------------------------------------------------------------------------------
# Operators, in place too

OPERATORS = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift",
    "rshift", "matmul",
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name, dtype):
    shape = (3, 3)
    plain, in_place = getattr(operator, name), getattr(operator, "i" + name.rstrip("_"))
    others = [sample(d, shape, 1) for d in (dtype, np.int64, np.float64)]
    # A scalar is no matrix: which of two errors in place comes first is of no interest.
    numbers = [] if name == "matmul" else [2, 1.5, others[0][0, 0]]
    if name == "pow" and dtype is bool:
        numbers.remove(2)  # int8 as an operator in NumPy, int64 as np.power and here
    for other in [*others, others[0][0], *numbers]:
        compare(plain, sample(dtype, shape), other)
        compare(plain, other, sample(dtype, shape))
        compare(lambda x, y: wrote(x, lambda a: in_place(a, y)), sample(dtype, shape), other)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(
    "name", ["neg", "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge", "divmod"]
)
def test_other_operators(name, dtype):
    function = getattr(operator, name, None) or divmod
    count = 1 if name in {"neg", "pos", "abs", "invert"} else 2
    compare(function, *(sample(dtype, seed=seed) for seed in range(count)))
    if count == 2:
        compare(function, sample(dtype), 2)
        compare(function, 2, sample(dtype))


# --------------------------------------------------------------------------------------------------
# Integer powers, and integers beyond a dtype


@pytest.mark.parametrize(
    "power",
    [
        lambda x: x**-1,
        lambda x: 2**x,
        lambda x: x ** np.array([1, 0, -2]),
        lambda x: x ** ct.array([1, 0, -2]),
        lambda x: np.power(x, -1),
        lambda x: np.power(3, x),
        lambda x: ct.pow(x, -1),
        lambda x: ct.pow(2, x),
        lambda x: np.power.outer(x, ct.array([-1])),
        lambda x: np.int64(2) ** x,
    ],
)
def test_integers_have_no_negative_integer_powers(power):
    x = ct.array([3, -1, 2])
    with pytest.raises(ValueError, match="negative integer powers.*float"):
        power(x)


def test_powers_of_integers_that_there_are():
    x = np.array([3, -1, 2])
    compare(lambda x: x**2, x)
    compare(lambda x: x**0, x)
    compare(lambda x: x**-1.0, x)
    compare(lambda x: x[:0] ** -1, x)
    compare(lambda x: x ** x[:0], x[:1])
    compare(lambda x: x ** np.uint8(2), x)
    compare(lambda x: x.astype(np.float32) ** -1, x)


def test_integers_beyond_a_dtype():
    for dtype in (np.uint8, np.int32):
        x = sample(dtype)
        for number in (2**40, -(2**40), 300, -1):
            for compared in (operator.lt, operator.eq, np.greater_equal, np.not_equal):
                compare(lambda x, f=compared, n=number: f(x, n), x)
            compare(lambda x, n=number: x + n, x)
            compare(lambda x, n=number: np.multiply(x, n), x)


def test_primitives_refuse_a_wrong_number_of_arguments():
    x = ct.array([1.0, 2.0])
    for name, args in [("sin", (x, x)), ("add", (x,)), ("add", (x, x, x)), ("sum", (x, x))]:
        with pytest.raises((TypeError, ValueError), match=f"{name}.*argument"):
            ct._core.apply(name, *args)


def test_integer_powers_that_are_not_computed_cannot_fail():
    x, y = np.array([2, 3]), np.array([1, -1])
    compare(lambda x, y: np.power(x, y, where=y > 0, out=np.full_like(x, 7)), x, y)
    with pytest.raises(ValueError, match="negative integer powers"):
        np.power(ct.array(x), y, where=[True, True], out=ct.array(x))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_exponents_beyond_those_of_the_dtype(dtype):
    info = np.finfo(dtype)
    x = np.array([0, -0.0, 1.5, info.max, info.tiny, info.smallest_subnormal, np.inf], dtype)
    n = np.array([0, 9, -9, 24, -25, 140, -149, 270, 1020, -1074, 2090, -2100, 2**31 - 1, -(2**31)])
    with np.errstate(over="ignore"):
        expected = np.ldexp(x[:, None], n)
    got = np.asarray(np.ldexp(ct.array(x)[:, None], n))
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))
    slope = ct.gradient(lambda x: np.ldexp(x * 1e-300, 1020) + math.ldexp(x * 1e-300, 1020), 1.0)[0]
    assert slope == pytest.approx(2 * math.ldexp(1e-300, 1020))
