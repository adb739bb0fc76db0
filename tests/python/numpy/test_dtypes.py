"""Expressions have the dtype, shape and kind that NumPy gives, of constants and of active values.

Random operands of all dtypes, as arrays, arrays without axes, scalars of NumPy and numbers of
Python, in operators and functions of NumPy. What an expression gives outside of a recording is what
it has to give inside.
"""

import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

import cotan as ct

DTYPES = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
NUMBERS = [True, 2, 300, -1, 2.0, 0.5, 1j]
# They keep the array's dtype when the exponent is a scalar such as 2.0.
OLDER_POWERS = np.lib.NumpyVersion(np.__version__) < "2.3.0"


def in_place(a, b):
    """Add in place, to a copy."""
    a = np.copy(a) if np.ndim(a) else a + 0
    a += b
    return a


def written(a, b):
    """Write one element."""
    made = np.ones(3, np.asarray(a).dtype)
    made[0] = b
    return made


UNARY = {
    "a ** 2": lambda a: a**2,
    "a ** -1": lambda a: a**-1,
    "a ** 0.5": lambda a: a**0.5,
    "a ** np.int8(2)": lambda a: a ** np.int8(2),
    "2 ** a": lambda a: 2**a,
    "np.int32(2) ** a": lambda a: np.int32(2) ** a,
    "a + 1": lambda a: a + 1,
    "0.5 * a": lambda a: 0.5 * a,
    "np.float32(2) * a": lambda a: np.float32(2) * a,
    "np.float64(2) * a": lambda a: np.float64(2) * a,
    "np.array(2, 'f4') * a": lambda a: np.array(2, "f4") * a,
    "np.array(2.0) * a": lambda a: np.array(2.0) * a,
    "np.zeros(2, 'f4') + a[..., None]": lambda a: np.zeros(2, "f4") + np.asarray(a)[..., None],
    "np.arange(3) * a": lambda a: np.arange(3) * a,
    "a > 1": lambda a: a > 1,
    "-a": lambda a: -a,
    "abs(a)": abs,
    "a.sum()": lambda a: a.sum(),
    "a.real": lambda a: a.real,
    "a[...]": lambda a: a[...],
    "np.asarray(a)[...]": lambda a: np.asarray(a)[...],
    "np.array([a, a * 1])": lambda a: np.array([a, a * 1]),
    "np.full(2, a)": lambda a: np.full((2, *np.shape(a)), a),
    "np.clip(a, 0, 1.5)": lambda a: np.clip(a, 0, 1.5),
    "np.linspace(0, a, 3)": lambda a: np.linspace(0, a, 3),
    "np.sum(a, dtype='f4')": lambda a: np.sum(a, dtype="f4"),
    **{
        f"np.{name}": getattr(np, name)
        for name in (
            *("sum", "mean", "prod", "std", "var", "cumsum", "median", "sqrt", "sin", "exp"),
            *("sign", "floor", "rint", "square", "reciprocal", "conj", "isnan", "max", "ptp"),
            *("argmax", "cbrt", "average", "zeros_like", "ones_like", "sort", "any", "nansum"),
            *("nanmean", "deg2rad", "nan_to_num", "sinc", "logical_not", "atleast_1d", "angle"),
        )
    },
}
BINARY = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "a / b": lambda a, b: a / b,
    "a // b": lambda a, b: a // b,
    "a % b": lambda a, b: a % b,
    "a ** b": lambda a, b: a**b,
    "a & b": lambda a, b: a & b,
    "a < b": lambda a, b: a < b,
    "a == b": lambda a, b: a == b,
    "a += b": in_place,
    "made[0] = b": written,
    "np.where(True, a, b)": lambda a, b: np.where(True, a, b),
    "np.result_type(a, b)": lambda a, b: np.zeros(1, np.result_type(a, b)),
    "np.clip(a, None, b)": lambda a, b: np.clip(a, None, b),
    "np.concatenate([a, b])": lambda a, b: np.concatenate([np.atleast_1d(a), np.atleast_1d(b)]),
    "np.hstack([a, b])": lambda a, b: np.hstack([a, b]),
    "np.full_like(a, b)": lambda a, b: np.full_like(a, b),
    "np.linspace(a, b, 3)": lambda a, b: np.linspace(a, b, 3),
    "np.sum(a, initial=b)": lambda a, b: np.sum(a, initial=b),
    **{
        f"np.{name}": getattr(np, name)
        for name in (
            *("add", "power", "true_divide", "float_power", "maximum", "hypot", "arctan2"),
            *("copysign", "fmod", "floor_divide", "outer", "dot", "inner", "append", "isclose"),
            *("heaviside", "logaddexp", "kron", "vdot", "arange"),
        )
    },
}

ARRAYS = {
    "array": lambda dtype: np.ones(3, dtype),
    "array without axes": lambda dtype: np.ones((), dtype),
    "scalar": lambda dtype: np.dtype(dtype).type(1),
}


def operand(text):
    """Make an operand, in a function that a recording runs or outside."""
    kind, what = text
    return ARRAYS[kind](what) if kind in ARRAYS else what


def outcome(expression, *operands):
    """Say what an expression gives: dtype, shape and what it is, or that it raises."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            value = expression(*operands)
    except (AttributeError, TypeError, ValueError, ArithmeticError, IndexError):
        return "raises"
    if not hasattr(value, "dtype"):
        return type(value).__name__
    if not isinstance(value, (np.ndarray, np.generic)):
        # An active number of Python says its dtype, too.
        return {"b": "bool", "i": "int", "f": "float", "c": "complex"}[value.dtype.kind]
    return str(value.dtype), np.shape(value), isinstance(value, np.ndarray)


OPERANDS = st.one_of(
    st.tuples(st.sampled_from(sorted(ARRAYS)), st.sampled_from(DTYPES)),
    st.tuples(st.just("number"), st.sampled_from(NUMBERS)),
)
FLOATS = st.one_of(
    st.tuples(
        st.sampled_from(sorted(ARRAYS)), st.sampled_from([d for d in DTYPES if d[0] in "fc"])
    ),
    st.tuples(st.just("number"), st.sampled_from([2.0, 0.5])),
)
# What differs, and stands in the table of `docs/reference/numerics.md`.
REFUSED = {
    # A complex number does not become a real one, whose imaginary part NumPy drops.
    "made[0] = b",
    "a += b",
}


def is_complex(text):
    kind, what = text
    return np.dtype(what).kind == "c" if kind in ARRAYS else isinstance(what, complex)


@pytest.mark.parametrize("name", sorted(UNARY))
@settings(max_examples=25)
@given(a=OPERANDS)
def test_functions_of_constants(name, a):
    f, found = UNARY[name], []
    expected = outcome(f, operand(a))

    def loss(x):
        found.append(outcome(f, operand(a)))
        return x

    ct.gradient(loss, 1.0)
    assert found == [expected]


@pytest.mark.parametrize("name", sorted(BINARY))
@settings(max_examples=40)
@given(a=OPERANDS, b=OPERANDS)
def test_expressions_of_constants(name, a, b):
    f, found = BINARY[name], []
    if name in REFUSED and is_complex(b) and not is_complex(a):
        return
    expected = outcome(f, operand(a), operand(b))

    def loss(x):
        found.append(outcome(f, operand(a), operand(b)))
        return x

    ct.gradient(loss, 1.0)
    assert found == [expected]


@pytest.mark.parametrize("name", sorted(BINARY))
@settings(max_examples=40)
@given(a=FLOATS, b=OPERANDS, is_first=st.booleans())
@example(a=("number", 2.0), b=("array", "float32"), is_first=True)
@example(a=("array without axes", "float32"), b=("number", 0.5), is_first=True)
@example(a=("scalar", "float32"), b=("array without axes", "float64"), is_first=False)
def test_expressions_of_an_active_value(name, a, b, is_first):
    f, found = BINARY[name], []
    left, right = (a, b) if is_first else (b, a)
    if name in REFUSED and is_complex(right) and not is_complex(left):
        return
    if (left, right) == (("number", 1j), ("scalar", "float64")):
        return  # Python computes this one, and gives a complex of its own
    if name == "a < b" and ("number", 1j) in (left, right) and "number" == left[0] == right[0]:
        return  # complex numbers have the order of NumPy's
    if OLDER_POWERS and name == "a ** b" and right[0] != "array":
        return
    expected = outcome(f, operand(left), operand(right))

    def loss(x):
        pair = (x, operand(b)) if is_first else (operand(b), x)
        found.append(outcome(f, *pair))
        return np.sum(np.abs(x))

    ct.gradient(loss, operand(a))
    assert found == [expected]
