"""Sample calls for the page on coverage and its tests, and what is not about arrays at all.

What there is comes from NumPy's own names and from the tables of this library. Here is only what a
table cannot say: arguments, and which names have nothing to do with the numbers in arrays.
"""

import cmath
import math

import numpy as np
from numpy_cases import INPUTS, wrote
from test_array_methods import METHOD_CASES
from test_numpy_functions import CASES

# --------------------------------------------------------------------------------------------------
# What is not about the numbers in arrays: files, texts, settings, dtypes, dates, shapes


def _names(text):
    return text.split()


NOT_ABOUT_ARRAYS = {
    "numpy": _names("""
        array2string array_repr array_str base_repr binary_repr broadcast_shapes busday_count
        busday_offset can_cast common_type datetime_as_string datetime_data diag_indices einsum_path
        format_float_positional format_float_scientific frombuffer fromfile fromregex fromstring
        genfromtxt get_include get_printoptions getbufsize geterr geterrcall indices info is_busday
        isdtype isfortran isscalar issubdtype iterable load loadtxt mask_indices may_share_memory
        min_scalar_type mintypecode ndim nested_iters printoptions promote_types result_type
        row_stack save savetxt savez savez_compressed set_printoptions setbufsize seterr seterrcall
        shape shares_memory show_config show_runtime size test tril_indices triu_indices typename
        asmatrix bmat from_dlpack packbits unpackbits frompyfunc bartlett blackman hamming hanning
        kaiser
    """),
    "numpy.linalg": ["test"],
    "numpy.fft": ["fftfreq", "rfftfreq", "test"],
    "math": _names("comb factorial gcd isqrt lcm perm"),
    "cmath": [],
}
# Methods and attributes of ndarray that are about memory, files, texts or dtypes. What an Array has
# not got is refused by name.
MEMORY = _names("""
    base byteswap ctypes data device dtype dump dumps flags getfield itemsize nbytes ndim resize
    setfield setflags shape size strides tobytes tofile to_device
""")
# What NumPy 2 has no more, and is still asked for.
GONE = {"itemset", "newbyteorder", "ptp"}


# --------------------------------------------------------------------------------------------------
# Names that NumPy does not dispatch: they know traced values while something is recorded


def _filled(make):
    """Write traced values into what a function makes."""

    def case(v):
        y = make(v)
        y[0] = v[0] * 2
        return y * 1.5

    return case


MAKERS = {
    "zeros": [_filled(lambda v: np.zeros(3))],
    "ones": [_filled(lambda v: np.ones(3))],
    "empty": [lambda v: wrote(np.empty(2), lambda y: y.__setitem__(slice(None), v[:2]))],
    "full": [_filled(lambda v: np.full(3, 0.5)), lambda x: np.full((2, 3), x)],
    "eye": [_filled(lambda v: np.eye(2, 6)), _filled(lambda v: np.eye(6)[:, 1])],
    "identity": [_filled(lambda v: np.identity(3)[1])],
    "tri": [_filled(lambda v: np.tri(3)[1])],
    "arange": [_filled(lambda v: np.arange(4.0)), lambda x: np.arange(0.0, 1.0, x / 4)],
    "array": [lambda v: np.array([v[0], 2.0, v[1] * v[2]]), lambda x, v: np.array([[x, v[0]]])],
    "asarray": [lambda v: np.asarray([v[0], 1.0]), lambda v: np.asarray(v, dtype=float)],
    "asanyarray": [lambda v: np.asanyarray([v[0], v[1]])],
    "asarray_chkfinite": [lambda v: np.asarray_chkfinite(v)],
    "ascontiguousarray": [lambda m: np.ascontiguousarray(m.T)],
    "asfortranarray": [lambda m: np.asfortranarray(m)],
    "require": [lambda m: np.require(m, float)],
    "fromiter": [lambda v: np.fromiter((e * 2 for e in v), float)],
    "fromfunction": [lambda v: np.fromfunction(lambda i: v * i, (6,))],
}
CLASSES = {
    "r_": [lambda v, w: np.r_[v, w[0], 1.0]],
    "c_": [lambda v, w: np.c_[v, w]],
    "vectorize": [lambda v: np.vectorize(lambda e: e * 2 if e > 0 else e * e)(v)],
    "ndenumerate": [lambda m: sum(i * v for (i, _), v in np.ndenumerate(m))],
    "poly1d": [lambda a, x: np.poly1d(a)(x), lambda a, b: np.poly1d(a).deriv()(0.5)],
}
MAKERS |= {
    "zeros_like": [_filled(lambda v: np.zeros_like(v))],
    "ones_like": [_filled(lambda v: np.ones_like(v))],
    "empty_like": [
        lambda v: wrote(np.empty_like(v), lambda y: y.__setitem__(slice(None), v * 2)),
    ],
}
FUNCTIONS = {**CASES, **{name: [*CASES.get(name, []), *MAKERS[name]] for name in MAKERS}}

OPERATORS = {
    "__abs__": [abs],
    "__add__": [lambda v, w: v + w],
    "__radd__": [lambda v: 2.0 + v],
    "__iadd__": [lambda v, w: wrote(v, lambda y: y.__iadd__(w))],
    "__sub__": [lambda v, w: v - w],
    "__rsub__": [lambda v: 2.0 - v],
    "__isub__": [lambda v, w: wrote(v, lambda y: y.__isub__(w))],
    "__mul__": [lambda v, w: v * w],
    "__rmul__": [lambda v: 2.0 * v],
    "__imul__": [lambda v, w: wrote(v, lambda y: y.__imul__(w))],
    "__truediv__": [lambda v, s: v / s],
    "__rtruediv__": [lambda s: 2.0 / s],
    "__itruediv__": [lambda v, s: wrote(v, lambda y: y.__itruediv__(s))],
    "__floordiv__": [lambda v, s: v // s],
    "__rfloordiv__": [lambda s: 7.3 // s],
    "__ifloordiv__": [lambda v, s: wrote(v, lambda y: y.__ifloordiv__(s))],
    "__mod__": [lambda v, s: v % s],
    "__rmod__": [lambda s: 7.3 % s],
    "__imod__": [lambda v, s: wrote(v, lambda y: y.__imod__(s))],
    "__divmod__": [lambda v, s: divmod(v, s)],
    "__rdivmod__": [lambda s: divmod(7.3, s)],
    "__pow__": [lambda s, v: s**v, lambda v: v**3],
    "__rpow__": [lambda v: 2.0**v],
    "__ipow__": [lambda s, v: wrote(s, lambda y: y.__ipow__(v))],
    "__matmul__": [lambda m, r: m @ r, lambda v, w: v @ w],
    "__rmatmul__": [lambda v: INPUTS["w"] @ v],
    "__imatmul__": [lambda q: wrote(q, lambda y: y.__imatmul__(q))],
    "__neg__": [lambda v: -v],
    "__pos__": [lambda v: +v],
    "__invert__": [lambda i: ~i],
    "__and__": [lambda i, j: i & j],
    "__rand__": [lambda i: 3 & i],
    "__iand__": [lambda i, j: wrote(i, lambda y: y.__iand__(j))],
    "__or__": [lambda i, j: i | j],
    "__ror__": [lambda i: 3 | i],
    "__ior__": [lambda i, j: wrote(i, lambda y: y.__ior__(j))],
    "__xor__": [lambda i, j: i ^ j],
    "__rxor__": [lambda i: 3 ^ i],
    "__ixor__": [lambda i, j: wrote(i, lambda y: y.__ixor__(j))],
    "__lshift__": [lambda i: i << 2],
    "__rlshift__": [lambda i: 2 << i],
    "__ilshift__": [lambda i: wrote(i, lambda y: y.__ilshift__(2))],
    "__rshift__": [lambda i: i >> 1],
    "__rrshift__": [lambda i: 64 >> i],
    "__irshift__": [lambda i: wrote(i, lambda y: y.__irshift__(1))],
    "__eq__": [lambda v, w: v == w],
    "__ne__": [lambda v, w: v != w],
    "__lt__": [lambda v, w: v < w],
    "__le__": [lambda v, w: v <= w],
    "__gt__": [lambda v, w: v > w],
    "__ge__": [lambda v, w: v >= w],
    "__bool__": [lambda x: bool(x)],
    "__int__": [lambda x: int(x * 5)],
    "__index__": [lambda i: [10, 20, 30, 40][i[0]]],
    "__str__": [lambda v: str(v)],
    "__format__": [lambda x: f"{x:.3f}"],
    "__getitem__": [
        lambda m: m[1],
        lambda m: m[:, ::-1],
        lambda m: m[..., None],
        lambda v, i: v[i],
        lambda m, b: m[b],
        lambda t: t[:, [0, 2], 1:],
    ],
    "__setitem__": [
        lambda m, a: wrote(m, lambda y: y.__setitem__((slice(None), 1), a)),
        lambda v, i, w: wrote(v, lambda y: y.__setitem__([0, 2], w[:2])),
        lambda m, b: wrote(m, lambda y: y.__setitem__(b, 0.5)),
    ],
}
METHODS = {**OPERATORS, **METHOD_CASES}

# --------------------------------------------------------------------------------------------------
# Ufuncs: arguments inside of the domain, away from kinks; (3, 4) arrays where there is a choice

_rng = np.random.default_rng(11)


def _spread(low, high, shape=(3, 4)):
    """Numbers of an interval, no two of which are close."""
    size = int(np.prod(shape))
    steps = (_rng.permutation(size) + _rng.uniform(0.2, 0.8, size)) / size
    return (low + (high - low) * steps).reshape(shape)


SAMPLES = {
    "inside": (_spread(-0.9, 0.9),),
    "above one": (_spread(1.1, 3.0),),
    "any": (_spread(-2.0, 2.0), _spread(-1.5, 1.7)),
    "positive": (_spread(0.3, 2.0), _spread(0.4, 1.9)),
    "whole": (np.arange(12).reshape(3, 4) * 5 % 7 + 1, np.arange(12).reshape(3, 4) * 7 % 5 + 1),
    "square": (_spread(-1.0, 1.0, (3, 3)), _spread(-1.0, 1.0, (3, 3))),
    "scaled": (_spread(0.3, 2.0), np.arange(12).reshape(3, 4) % 4),
}
DOMAINS = {
    **dict.fromkeys(_names("arcsin arccos arctanh asin acos atanh tan"), "inside"),
    **dict.fromkeys(["arccosh", "acosh"], "above one"),
    **dict.fromkeys(["matmul", "matvec", "vecmat", "vecdot"], "square"),
    **dict.fromkeys(
        _names("""
            bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_invert bitwise_count invert gcd
            lcm left_shift right_shift bitwise_left_shift bitwise_right_shift
        """),
        "whole",
    ),
    "ldexp": "scaled",
    **dict.fromkeys(
        _names("log log2 log10 log1p sqrt power pow float_power fmod remainder mod"), "positive"
    ),
}


def samples(name, count):
    """Give arguments of a ufunc of NumPy's."""
    return SAMPLES[DOMAINS.get(name, "any" if count == 1 else "positive")][:count]


# The vector loops of these forget the running value along a contiguous axis in NumPy 2.4.
FORGETFUL = {"arctan2", "atan2", "power", "pow", "float_power"}

UFUNC_METHODS = {
    "call": lambda u, *xs: u(*xs),
    "reduce": lambda u, x, *_: u.reduce(x, axis=1),
    "accumulate": lambda u, x, *_: u.accumulate(x, axis=1),
    "reduceat": lambda u, x, *_: u.reduceat(x, [0, 2, 1]),
    "outer": lambda u, x, y: u.outer(x[0], y[1]),
    "at": lambda u, x, *ys: wrote(
        x, lambda a: u.at(a, ([0, 0, 2], [1, 1, 3]), *(y[0, :3] for y in ys))
    ),
}

# --------------------------------------------------------------------------------------------------
# math, cmath: numbers for each parameter, by its name

NUMBERS = {"p": 0.7, "q": 1.3, "r": 2.6, "z": 0.4 + 0.9j, "w": 1.2 - 0.3j}


def _numbers(module, special):
    """Cases of all functions of one number, and of those that need more."""
    plain = {
        name: [lambda p, f=function: f(p)]
        for name, function in vars(module).items()
        if callable(function) and not name.startswith("_")
    }
    return {**plain, **{name: cases for name, cases in special.items() if hasattr(module, name)}}


MATH = _numbers(
    math,
    {
        "acosh": [lambda q: math.acosh(q)],
        "atan2": [lambda p, q: math.atan2(p, q)],
        "copysign": [lambda p, q: math.copysign(p, -q)],
        "dist": [lambda p, q, r: math.dist([p, q], [r, p])],
        "fma": [lambda p, q, r: math.fma(p, q, r)],
        "fmod": [lambda p, r: math.fmod(r, p)],
        "fsum": [lambda p, q: math.fsum([p, q, p])],
        "hypot": [lambda p, q: math.hypot(p, q), lambda p, q, r: math.hypot(p, q, r)],
        "isclose": [lambda p, q: math.isclose(p, q)],
        "ldexp": [lambda p: math.ldexp(p, 3)],
        "log": [lambda p: math.log(p), lambda q, r: math.log(q, r)],
        "nextafter": [lambda p, q: math.nextafter(p, q)],
        "pow": [lambda p, q: math.pow(p, q)],
        "prod": [lambda p, q: math.prod([p, q, p])],
        "remainder": [lambda q, r: math.remainder(r, q)],
        "sumprod": [lambda p, q, r: math.sumprod([p, q], [r, p])],
    },
)
CMATH = _numbers(
    cmath,
    {
        **{
            name: [lambda z, f=function: f(z)]
            for name, function in vars(cmath).items()
            if callable(function) and not name.startswith("_")
        },
        "isclose": [lambda z, w: cmath.isclose(z, w)],
        "log": [lambda z: cmath.log(z), lambda z, w: cmath.log(z, w)],
        "rect": [lambda p, q: cmath.rect(p, q)],
    },
)
