"""Overrides of ufuncs of NumPy and `scipy.special` by primitives and compositions of them.

Where the textbook formula divides by zero or overflows on one side, `where` chooses another one,
and the branch that is not used gets a harmless argument.
"""

import math
from collections.abc import Callable

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.registry import FUNCTIONS, UFUNC, override
from cotan._src.runtime.values import to_numpy
from cotan._src.special.ufuncs import PARTIALS, call
from cotan._src.typing import AnyArray, ArrayLike, Function


def _float(x: ArrayLike) -> Array:
    """Give integers as floats, as most ufuncs take them."""
    x = _core.asarray(x) if isinstance(x, (list, tuple)) else x
    return _core.div(x, 1)


def _scaled(factor: float) -> Callable[[ArrayLike], Array]:
    return lambda x: _core.mul(_float(x), factor)


# --------------------------------------------------------------------------------------------------
# NumPy's


def _modf(x: ArrayLike) -> tuple[Array, Array]:
    x = _float(x)
    whole = _core.trunc(x)
    # An infinite number has no fraction; NumPy gives zero.
    fraction = _core.where(_core.isinf(x), 0, _core.sub(x, whole))
    return _core.copysign(fraction, x), whole


def _frexp(x: ArrayLike) -> tuple[Array, Array]:
    exponent = np.asarray(np.frexp(to_numpy(x))[1])
    x = _float(x)
    return _ldexp(x, -exponent), _core.asarray(exponent)[()]


def _ldexp(x: ArrayLike, n: ArrayLike) -> Array:
    x = _float(x)
    n = _core.cast(n, x.dtype)
    # In three steps, since 2 to the power of a large exponent is infinite. Beyond the largest
    # exponent less the smallest one, every number is 0 or infinite.
    info = np.finfo(x.dtype)
    most = float(info.maxexp - info.minexp + info.nmant + 2)
    n = _core.minimum(_core.maximum(n, -most), most)
    third = _core.floor(_core.div(n, 3.0))
    step, rest = _core.exp2(third), _core.exp2(_core.sub(n, _core.mul(third, 2.0)))
    return _core.mul(_core.mul(_core.mul(x, step), step), rest)


def _heaviside(x: ArrayLike, at_zero: ArrayLike) -> Array:
    x, at_zero = _float(x), _float(at_zero)
    step = _core.where(_core.lt(x, 0), 0.0, _core.where(_core.eq(x, 0), at_zero, 1.0))
    return _core.where(_core.isnan(x), x, step)


def _logaddexp2(x: ArrayLike, y: ArrayLike) -> Array:
    return _core.div(
        _core.logaddexp(_core.mul(x, math.log(2)), _core.mul(y, math.log(2))), math.log(2)
    )


def _float_power(x: ArrayLike, y: ArrayLike) -> Array:
    dtype = np.complex128 if "c" in {np.result_type(v).kind for v in (x, y)} else np.float64
    return _core.pow(_core.cast(x, dtype), _core.cast(y, dtype))


def _conjugate(x: ArrayLike) -> Array:
    x = _core.asarray(x)
    return x.conj() if x.dtype.kind == "c" else _core.pow(x, 1)


def _positive(x: ArrayLike) -> Array:
    x = _core.asarray(x)
    if x.dtype == np.bool_:
        raise TypeError("positive: not defined for dtype bool")
    return +x


def _fabs(x: ArrayLike) -> Array:
    x = _float(x)
    if x.dtype.kind == "c":
        raise TypeError("fabs: not defined for complex numbers; use abs")
    return _core.abs(x)


def _rint(x: ArrayLike) -> Array:
    x = _core.asarray(x)
    if x.dtype.kind == "c":
        return _core.apply("complex", _core.round(x.real), _core.round(x.imag))
    return _core.round(x)


def _exp2(x: ArrayLike) -> Array:
    x = _core.asarray(x)
    if x.dtype.kind != "c":
        return _core.exp2(x)
    # A product of complex numbers would lose infinities and the signs of zeros.
    return _core.exp(_core.apply("complex", x.real * math.log(2), x.imag * math.log(2)))


def sign_of_complex(x: AnyArray) -> Array:
    """Give `z / |z|` by steps that have derivatives; the primitive has no single factor for one."""
    size = _core.abs(x)
    usual = _core.logical_and(_core.gt(size, 0), _core.lt(size, math.inf))
    far = [_core.isinf(part) for part in (x.real, x.imag)]
    axis = [
        _core.where(f, _core.sign(part), 0.0) for f, part in zip(far, (x.real, x.imag), strict=True)
    ]
    none = _core.logical_or(_core.isnan(size), _core.logical_and(*far))
    edge = _core.where(none, math.nan, _core.apply("complex", *axis))
    return _core.where(usual, _core.div(x, _core.where(usual, size, 1)), edge)


def _nextafter(x: ArrayLike, y: ArrayLike) -> Array:
    """Give the next number as the number itself and a constant step; the sum is exact."""
    start, end = np.asarray(to_numpy(x)), np.asarray(to_numpy(y))
    value = np.asarray(np.nextafter(start, end))
    finite = np.isfinite(value) & np.isfinite(start)
    step = np.where(finite, value, 0) - np.where(finite, start, 0)
    # A sum is no negative zero.
    summed = finite & ~((value == 0) & np.signbit(value))
    return _core.where(summed, _core.add(x, step.astype(value.dtype)), value)


def _spacing(x: ArrayLike) -> Array:
    return _core.asarray(np.asarray(np.spacing(to_numpy(x))))[()]


def _row(x: ArrayLike) -> Array:
    x = _core.asarray(x)
    return _core.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


def _column(x: ArrayLike) -> Array:
    x = _core.asarray(x)
    return _core.reshape(x, (*x.shape, 1))


def _vecdot(x: ArrayLike, y: ArrayLike) -> Array:
    x, y = _core.asarray(x), _core.asarray(y)
    for v in (x, y):
        if v.ndim == 0:
            raise ValueError(f"vecdot: shapes {x.shape} and {y.shape} do not fit: no vectors")
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"vecdot: shapes {x.shape} and {y.shape} do not fit in the last axis")
    return _core.sum(_core.mul(x.conj(), y), -1)


def _matvec(x: ArrayLike, y: ArrayLike) -> Array:
    return _core.matmul(x, _column(y))[..., 0]


def _vecmat(x: ArrayLike, y: ArrayLike) -> Array:
    return _core.matmul(_row(_core.asarray(x).conj()), y)[..., 0, :]


def _enter(module: str, rules: dict[str, Function]) -> None:
    for name, rule in rules.items():
        override(f"{module}.{name}", kind=UFUNC)(rule)


_enter("numpy", {
    "fabs": _fabs,
    "positive": _positive,
    "rint": _rint,
    "exp2": _exp2,
    "conjugate": _conjugate,
    "deg2rad": _scaled(math.pi / 180),
    "radians": _scaled(math.pi / 180),
    "rad2deg": _scaled(180 / math.pi),
    "degrees": _scaled(180 / math.pi),
    "heaviside": _heaviside,
    "float_power": _float_power,
    "divmod": lambda x, y: (_core.floor_divide(x, y), _core.remainder(x, y)),
    "modf": _modf,
    "frexp": _frexp,
    "ldexp": _ldexp,
    "logaddexp2": _logaddexp2,
    "nextafter": _nextafter,
    "spacing": _spacing,
    "signbit": lambda x: _core.lt(_core.copysign(1.0, x), 0),
    "matmul": _core.matmul,
    "vecdot": _vecdot,
})  # fmt: skip
override("numpy.matvec", kind=UFUNC, versions="numpy>=2.2")(_matvec)
override("numpy.vecmat", kind=UFUNC, versions="numpy>=2.2")(_vecmat)


@override("numpy._core.umath.clip", kind=UFUNC)
def _clip(x: ArrayLike, low: ArrayLike | None, high: ArrayLike | None) -> Array:
    """Compute the ufunc that the method of a plain array calls."""
    clipped: Array = FUNCTIONS[np.clip](x, low, high)
    return clipped


# The primitives that name a ufunc in their entries, but for those that are computed as above.
_enter("numpy", {
    ufunc: getattr(_core, name)
    for ufunc, name in _core.ufuncs("np").items()
    if hasattr(_core, name)
    and isinstance(vars(np).get(ufunc), np.ufunc)
    and ufunc not in {"exp2", "rint"}
})  # fmt: skip

# --------------------------------------------------------------------------------------------------
# Those of scipy.special


def _has_log(y: ArrayLike, least: float) -> Array:
    """Say where the logarithm of what is more than `least` is finite."""
    if _core.asarray(y).dtype.kind == "c":
        return _core.logical_and(_core.ne(y, least), _core.isfinite(y))
    return _core.logical_and(_core.gt(y, least), _core.lt(y, math.inf))


def _edge(x: ArrayLike, y: ArrayLike, least: float) -> Array:
    """Say where 0 times a logarithm is 0 though the logarithm is not finite."""
    edge = _core.logical_and(_core.eq(x, 0), _core.eq(y, y))
    return _core.logical_and(edge, _core.logical_not(_has_log(y, least)))


def _xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    return _core.mul(x, _core.log(_core.where(_edge(x, y, 0.0), 1, y)))


def _xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    return _core.mul(x, _core.log1p(_core.where(_edge(x, y, -1.0), 0, y)))


def _entr(x: ArrayLike) -> Array:
    inside = _core.where(_core.lt(x, 0), -math.inf, _core.neg(_xlogy(x, _core.maximum(x, 0))))
    return _core.where(_core.isnan(x), x, inside)


def _both(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array, Array]:
    """Give where the first is positive and the second not negative, and them there, 1 elsewhere."""
    inside = _core.logical_and(_core.gt(x, 0), _core.ge(y, 0))
    return inside, _core.where(inside, x, 1), _core.where(inside, y, 1)


def _log_ratio(x: ArrayLike, y: ArrayLike) -> Array:
    """Give `log(x / y)` of positive numbers, accurate where they are nearly equal."""
    ratio = _core.div(x, y)
    near = _core.logical_and(_core.gt(ratio, 0.5), _core.lt(ratio, 2))
    extreme = _core.logical_or(_core.eq(ratio, 0), _core.isinf(ratio))
    apart = _core.sub(_core.log(x), _core.log(y))
    close = _core.log1p(_core.div(_core.sub(_core.where(near, x, 1), _core.where(near, y, 1)), y))
    log = _core.log(_core.where(_core.logical_or(near, extreme), 1, ratio))
    return _core.where(near, close, _core.where(extreme, apart, log))


def _entropy_edge(x: ArrayLike, y: ArrayLike, value: ArrayLike) -> Array:
    edge = _core.where(_core.logical_and(_core.eq(x, 0), _core.ge(y, 0)), value, math.inf)
    unknown = _core.logical_or(_core.isnan(x), _core.isnan(y))
    return _core.where(unknown, math.nan, edge)


def _rel_entr(x: ArrayLike, y: ArrayLike) -> Array:
    inside, a, b = _both(x, y)
    return _core.where(inside, _core.mul(a, _log_ratio(a, b)), _entropy_edge(x, y, 0.0))


def _kl_div(x: ArrayLike, y: ArrayLike) -> Array:
    inside, a, b = _both(x, y)
    value = _core.add(_core.sub(_core.mul(a, _log_ratio(a, b)), a), b)
    return _core.where(inside, value, _entropy_edge(x, y, y))


def _logit(x: ArrayLike) -> Array:
    # Around a half, where both logarithms are nearly equal, by what differs.
    near = _core.logical_and(_core.gt(x, 0.3), _core.lt(x, 0.65))
    s = _core.sub(_core.mul(2, _core.where(near, x, 0.5)), 1)
    middle = _core.sub(_core.log1p(s), _core.log1p(_core.neg(s)))
    x = _core.where(near, 0.25, x)
    return _core.where(near, middle, _core.sub(_core.log(x), _core.log1p(_core.neg(x))))


def _log_ndtr(x: ArrayLike) -> Array:
    """Give the log of the normal distribution; far left by its continued fraction."""
    far = _core.lt(x, -20)
    t = _core.where(far, x, -20)
    square = _core.mul(t, t)
    fraction = _core.div(1, square)
    series = 1 - fraction * (1 - 3 * fraction * (1 - 5 * fraction * (1 - 7 * fraction)))
    tail = _core.log(series) - _core.log(_core.neg(t)) - square / 2 - 0.5 * math.log(2 * math.pi)
    # On the right the small difference from 1 counts.
    right = _core.gt(x, 0)
    small = _ndtr(_core.where(right, _core.neg(x), 0))
    middle = _core.log(_ndtr(_core.where(_core.logical_or(far, right), 0, x)))
    near = _core.where(right, _core.log1p(_core.neg(small)), middle)
    return _core.where(far, tail, near)


def _ndtr(x: ArrayLike) -> Array:
    return _core.mul(0.5, _core.erfc(_core.mul(x, -math.sqrt(0.5))))


def _huber(delta: ArrayLike, r: ArrayLike) -> Array:
    size = _core.abs(r)
    near = _core.le(size, delta)
    loss = _core.where(near, 0.5 * _core.square(r), _core.mul(delta, size - 0.5 * _float(delta)))
    return _core.where(_core.lt(delta, 0), math.inf, loss)


def _pseudo_huber(delta: ArrayLike, r: ArrayLike) -> Array:
    zero = _core.eq(delta, 0)
    d = _core.where(zero, 1, delta)
    u = _core.square(_core.div(r, d))
    # sqrt(1 + u) - 1 without cancellation
    huge = _core.isinf(u)
    u = _core.where(huge, 1, u)
    loss = _core.where(huge, math.inf, _core.square(d) * u / (1 + _core.sqrt(1 + u)))
    return _core.where(_core.lt(delta, 0), math.inf, _core.where(zero, 0.0, loss))


def _cosm1(x: ArrayLike) -> Array:
    return _core.mul(-2, _core.square(_core.sin(_core.div(x, 2))))


def _of_real(name: str, compute: Callable[[ArrayLike], Array]) -> Callable[[ArrayLike], Array]:
    """Give a function that is computed here for real numbers, and by SciPy for complex ones."""

    def function(x: ArrayLike) -> Array:
        by_scipy = name in PARTIALS and np.result_type(x).kind == "c"
        return call(name, x) if by_scipy else compute(x)

    return function


_enter("scipy.special", {
    # The primitives that say so in their entries.
    **{
        name: _of_real(name, getattr(_core, primitive))
        for name, primitive in _core.ufuncs("scipy.special").items()
    },
    "expit": _core.sigmoid,
    "log_expit": lambda x: _core.neg(_core.softplus(_core.neg(x))),
    "logit": _logit,
    "ndtr": _of_real("ndtr", _ndtr),
    "log_ndtr": _of_real("log_ndtr", _log_ndtr),
    "exp10": lambda x: _core.pow(10.0, x),
    "round": _core.round,
    "cosm1": _cosm1,
    "xlogy": _xlogy,
    "xlog1py": _xlog1py,
    "entr": _entr,
    "rel_entr": _rel_entr,
    "kl_div": _kl_div,
    "huber": _huber,
    "pseudo_huber": _pseudo_huber,
})  # fmt: skip
