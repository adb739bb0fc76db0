"""NumPy's functions on `Array`s, by the `__array_function__` protocol.

What is here is said in terms of primitives and of other NumPy functions, which come back here. Functions
without an entry run on plain values while nothing that a gradient follows takes part, and refuse by name
otherwise.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._numpy_core import FUNCTIONS, implements, is_array, on_values, plain, refuse, written

from . import _numpy_linalg as _linalg  # noqa: F401
from . import _numpy_shape as _shape  # noqa: F401


def array_function(
    func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Compute `func(*args, **kwargs)` where an `Array` takes part."""
    del types
    implementation = FUNCTIONS.get(func)
    if implementation is not None:
        return implementation(*args, **kwargs)
    return on_values(func, args, kwargs)


# --------------------------------------------------------------------------------------------------
# Reductions


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return np.lib.array_utils.normalize_axis_tuple(axis, ndim)


def _count(x: Any, axis: Any, where: Any, keepdims: bool) -> Any:
    """Give how many elements each entry of a reduction combines."""
    if where is True:
        return math.prod(x.shape[a] for a in _axes(axis, x.ndim))
    mask = np.broadcast_to(plain(where), x.shape)
    return mask.sum(axis=axis if axis is None else _axes(axis, x.ndim), keepdims=keepdims)


def _masked(x: Any, where: Any, neutral: Any) -> Any:
    return x if where is True else _core.where(where, x, neutral)


def _given(value: Any) -> bool:
    return value is not np._NoValue


@implements(np.sum)
def sum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
        initial: Any = 0, where: Any = True) -> Any:  # fmt: skip
    plain_call = dtype is None and out is None and keepdims is False and where is True
    if plain_call and type(initial) is int and initial == 0:
        return _core.sum(a, axis)  # the common case, without looking at what was not given
    x = _core.asarray(a, dtype)
    result = _core.sum(_masked(x, _or(where, True), 0), axis, _or(keepdims, False))
    initial = _or(initial, 0)
    return written(out, result if isinstance(initial, int) and initial == 0 else result + initial)


@implements(np.prod)
def prod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
         initial: Any = 1, where: Any = True) -> Any:  # fmt: skip
    x = _core.asarray(a, dtype)
    result = _core.prod(_masked(x, _or(where, True), 1), axis, _or(keepdims, False))
    initial = _or(initial, 1)
    return written(out, result if isinstance(initial, int) and initial == 1 else result * initial)


def _or(value: Any, default: Any) -> Any:
    return value if _given(value) else default


def _extremum(ufunc: Any) -> Callable[..., Any]:
    def function(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False,
                 initial: Any = np._NoValue, where: Any = True) -> Any:  # fmt: skip
        options = {"initial": initial} if _given(initial) else {}
        if _or(where, True) is not True:
            options["where"] = where
        x = _core.asarray(a)
        return written(out, ufunc.reduce(x, axis=axis, keepdims=_or(keepdims, False), **options))

    return function


implements(np.max, np.amax)(_extremum(np.maximum))
implements(np.min, np.amin)(_extremum(np.minimum))


@implements(np.mean)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
         *, where: Any = True) -> Any:  # fmt: skip
    if dtype is None and out is None and keepdims is False and where is True:
        return _core.mean(a, axis)
    x = _core.asarray(a, dtype)
    keepdims, where = _or(keepdims, False), _or(where, True)
    if where is True:
        return written(out, _core.mean(x, axis, keepdims))
    return written(out, sum(x, axis, None, None, keepdims, 0, where) / _count(x, axis, where, keepdims))


@implements(np.var)
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
        keepdims: Any = False, *, where: Any = True, mean: Any = np._NoValue,
        correction: Any = np._NoValue) -> Any:  # fmt: skip
    x = _core.asarray(a, dtype)
    keepdims, where, ddof = _or(keepdims, False), _or(where, True), _or(correction, ddof)
    count = _count(x, axis, where, keepdims)
    center = _mean_of(x, axis, where) if not _given(mean) else mean
    deviation = x - center
    if deviation.dtype.kind == "c":
        square = deviation.real**2 + deviation.imag**2
    else:
        square = deviation * deviation
    total = sum(square, axis, None, None, keepdims, 0, where)
    return written(out, total / np.maximum(np.subtract(count, ddof), 0))


def _mean_of(x: Any, axis: Any, where: Any) -> Any:
    return FUNCTIONS[np.mean](x, axis, None, None, True, where=where)


@implements(np.std)
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
        keepdims: Any = False, *, where: Any = True, mean: Any = np._NoValue,
        correction: Any = np._NoValue) -> Any:  # fmt: skip
    variance = var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    return written(out, safe_sqrt(variance))


def safe_sqrt(x: Any) -> Any:
    """Give the square root, with the derivative 0 at 0 (a kink: the documented choice)."""
    zero = _core.eq(x, 0)
    return _core.where(zero, 0.0, _core.sqrt(_core.where(zero, 1.0, x)))


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    keepdims = _or(keepdims, False)
    return written(out, _core.max(a, axis, keepdims) - _core.min(a, axis, keepdims))


@implements(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *,
            keepdims: Any = False) -> Any:  # fmt: skip
    x, keepdims = _core.asarray(a), _or(keepdims, False)
    if weights is None:
        result = _core.mean(x, axis, keepdims)
        scale = _core.asarray(np.full(result.shape, float(_count(x, axis, True, False))))
    else:
        w = _core.asarray(weights)
        if w.shape != x.shape:
            (at,) = _axes(axis, x.ndim)
            w = np.broadcast_to(np.expand_dims(w, [i for i in range(x.ndim) if i != at]), x.shape)
        scale = _core.sum(w, axis, keepdims)
        result = _core.sum(x * w, axis, keepdims) / scale
    return (result, scale) if returned else result


def _logical(ufunc: Any) -> Callable[..., Any]:
    def function(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *,
                 where: Any = True) -> Any:  # fmt: skip
        options = {} if _or(where, True) is True else {"where": where}
        x = _core.asarray(a)
        return written(out, ufunc.reduce(x, axis=axis, keepdims=_or(keepdims, False), **options))

    return function


implements(np.all)(_logical(np.logical_and))
implements(np.any)(_logical(np.logical_or))


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return np.count_nonzero(plain(a), axis=axis, keepdims=keepdims)


def _without_nan(function: Any, neutral: Any) -> Callable[..., Any]:
    def nan_function(a: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        x = _core.asarray(a)
        return function(_core.where(_core.isnan(x), neutral, x), axis, *args, **kwargs)

    return nan_function


implements(np.nansum)(_without_nan(np.sum, 0.0))
implements(np.nanprod)(_without_nan(np.prod, 1.0))
implements(np.nanmax)(_without_nan(np.max, -math.inf))
implements(np.nanmin)(_without_nan(np.min, math.inf))
implements(np.nancumsum)(_without_nan(np.cumsum, 0.0))


def _where_number(function: Any) -> Callable[..., Any]:
    def nan_function(a: Any, axis: Any = None, **kwargs: Any) -> Any:
        x = _core.asarray(a)
        return function(x, axis=axis, where=_core.logical_not(_core.isnan(x)), **kwargs)

    return nan_function


implements(np.nanmean)(_where_number(np.mean))


@implements(np.argmax)
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return written(out, _core.argmax(a, axis, _or(keepdims, False)))


@implements(np.argmin)
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return written(out, _core.argmin(a, axis, _or(keepdims, False)))


@implements(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return written(out, _core.cumsum(_core.asarray(a, dtype), axis))


@implements(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    x = _core.asarray(a, dtype)
    if axis is None:
        x, axis = _core.reshape(x, -1), 0
    return written(out, np.multiply.accumulate(x, axis))


# --------------------------------------------------------------------------------------------------
# Elementwise


@implements(np.where)
def where(condition: Any, *branches: Any) -> Any:
    if not branches:
        return np.nonzero(plain(condition))
    if len(branches) != 2:
        raise ValueError("where: either both or neither of x and y should be given")
    mask = condition if is_array(condition) else np.asarray(condition)
    mask = mask if mask.dtype == np.bool_ else _core.ne(mask, 0)
    return _core.where(mask, *branches)


@implements(np.clip)
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None,
         max: Any = None, **kwargs: Any) -> Any:  # fmt: skip
    low = a_min if _given(a_min) and a_min is not None else _or(min, None)
    high = a_max if _given(a_max) and a_max is not None else _or(max, None)
    result = _core.asarray(a)
    # At a bound the value is still inside: its derivative is 1, as elsewhere inside.
    if low is not None:
        result = _core.where(_core.lt(result, low), low, result)
    if high is not None:
        result = _core.where(_core.gt(result, high), high, result)
    return written(out, result)


@implements(np.round, np.around)
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    x = _core.asarray(a)
    if decimals == 0:
        return written(out, _core.round(x) if x.dtype.kind == "f" else x)
    scale = 10.0**decimals
    return written(out, _core.round(x * scale) / scale)


@implements(np.fix)
def fix(x: Any, out: Any = None) -> Any:
    return written(out, _core.trunc(x))


@implements(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None,
               neginf: Any = None) -> Any:  # fmt: skip
    x = _core.asarray(x)
    if x.dtype.kind != "f":
        return x
    info = np.finfo(x.dtype)
    big = float(info.max) if posinf is None else posinf
    small = float(info.min) if neginf is None else neginf
    x = _core.where(_core.isnan(x), nan, x)
    x = _core.where(_core.eq(x, math.inf), big, x)
    return _core.where(_core.eq(x, -math.inf), small, x)


@implements(np.real)
def real(val: Any) -> Any:
    return val.real


@implements(np.imag)
def imag(val: Any) -> Any:
    return val.imag


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    result = _core.atan2(z.imag, z.real)
    return result * (180 / math.pi) if deg else result


@implements(np.sinc)
def sinc(x: Any) -> Any:
    zero = _core.eq(x, 0)
    y = math.pi * _core.where(zero, 1.0, x)
    # Two terms of the series carry the derivatives at 0 up to the second.
    return _core.where(zero, 1 - (math.pi * x) ** 2 / 6, _core.sin(y) / y)


@implements(np.select)
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = _core.where(condition, choice, result)
    return result


@implements(np.choose)
def choose(a: Any, choices: Sequence[Any], out: Any = None, mode: str = "raise") -> Any:
    index = np.asarray(plain(a))
    result: Any = choices[0]
    for i, choice in enumerate(choices[1:], 1):
        result = _core.where(index == i, choice, result)
    return written(out, result)


@implements(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    if period is not None:
        raise refuse("numpy.interp with period=")
    x, xp, fp = _core.asarray(x), _core.asarray(xp), _core.asarray(fp)
    at = np.clip(np.searchsorted(plain(xp), plain(x), side="right") - 1, 0, xp.shape[0] - 2)
    x0, x1, y0, y1 = xp[at], xp[at + 1], fp[at], fp[at + 1]
    y = y0 + (x - x0) * ((y1 - y0) / (x1 - x0))
    y = _core.where(_core.lt(x, xp[0]), fp[0] if left is None else left, y)
    return _core.where(_core.gt(x, xp[-1]), fp[-1] if right is None else right, y)


# --------------------------------------------------------------------------------------------------
# Differences and integrals


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue) -> Any:
    x = _core.asarray(a)
    (at,) = _axes(axis, x.ndim)
    ends = [e if not _given(e) else np.broadcast_to(_core.asarray(e), x.shape[:at] + (1,) + x.shape[at + 1:])
            if np.ndim(e) == 0 else e for e in (prepend, append)]  # fmt: skip
    parts = [p for p in (ends[0], x, ends[1]) if _given(p)]
    if len(parts) > 1:
        x = _core.concatenate(parts, at)
    before = (slice(None),) * at
    for _ in range(n):
        upper, lower = x[(*before, slice(1, None))], x[(*before, slice(None, -1))]
        x = _core.ne(upper, lower) if x.dtype == np.bool_ else upper - lower
    return x


@implements(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    y = np.moveaxis(_core.asarray(y), axis, -1)
    if x is None:
        width: Any = dx
    else:
        x = _core.asarray(x)
        width = np.diff(x if x.ndim == 1 else np.moveaxis(x, axis, -1))
    return _core.sum(width * (y[..., 1:] + y[..., :-1]) / 2.0, -1)


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    x = _core.asarray(f)
    axes = _axes(axis, x.ndim)
    steps = varargs or (1.0,)
    if len(steps) == 1:
        steps = steps * len(axes)
    if edge_order != 1 or any(np.ndim(s) for s in steps):
        raise refuse("numpy.gradient with coordinates or edge_order=2")
    results = []
    for at, step in zip(axes, steps, strict=True):
        y = np.moveaxis(x, at, 0)
        inner = (y[2:] - y[:-2]) / (2 * step)
        slopes = _core.concatenate([(y[1:2] - y[:1]) / step, inner, (y[-1:] - y[-2:-1]) / step])
        results.append(np.moveaxis(slopes, 0, at))
    return results[0] if len(results) == 1 else tuple(results)


# --------------------------------------------------------------------------------------------------
# Sorting and counting: positions are constants, values follow them


@implements(np.argsort)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    x = _core.asarray(a)
    return _core.argsort(_core.reshape(x, -1) if axis is None else x, -1 if axis is None else axis)


@implements(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    x = _core.asarray(a)
    if axis is None:
        x, axis = _core.reshape(x, -1), 0
    return np.take_along_axis(x, _core.argsort(x, axis), axis)


@implements(np.partition)
def partition(a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
    return sort(a, axis)


@implements(np.quantile)
def quantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: bool = False, *, weights: Any = None) -> Any:  # fmt: skip
    if method != "linear" or weights is not None:
        raise refuse(f"numpy.quantile with method={method!r} or weights")
    x = _core.asarray(a)
    axes = _axes(axis, x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = _core.reshape(_core.transpose(x, [*kept, *axes]), (*(x.shape[i] for i in kept), -1))
    ranked = sort(rows, -1)
    n = ranked.shape[-1]
    q = _core.asarray(q)
    at = _core.mul(q, n - 1)
    low = np.clip(np.floor(plain(at)).astype(int), 0, max(n - 2, 0))
    high = np.minimum(low + 1, n - 1)
    weight = at - low
    below, above = ranked[..., low], ranked[..., high]
    result = below + (above - below) * weight
    if q.ndim:
        result = np.moveaxis(result, -1, 0)
    if keepdims:
        result = np.expand_dims(result, [i + q.ndim for i in axes])
    return written(out, result)


@implements(np.percentile)
def percentile(a: Any, q: Any, *args: Any, **kwargs: Any) -> Any:
    return quantile(a, _core.div(q, 100), *args, **kwargs)


@implements(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
           keepdims: bool = False) -> Any:  # fmt: skip
    return quantile(a, 0.5, axis, out, keepdims=keepdims)


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    index = np.asarray(plain(x))
    if weights is None:
        return np.bincount(index, minlength=minlength)
    size = max(int(index.max(initial=-1)) + 1, minlength)
    return _core.scatter_add(np.zeros(size), index.astype(np.int64), _core.cast(weights, np.float64))


def _of_values(*functions: Any) -> None:
    """Let functions whose results are whole numbers or truth values run on plain values."""
    for function in functions:
        FUNCTIONS[function] = _on_plain(function)


def _on_plain(function: Any) -> Callable[..., Any]:
    def constant(*args: Any, **kwargs: Any) -> Any:
        return function(*(plain(a) for a in args), **{k: plain(v) for k, v in kwargs.items()})

    return constant


_of_values(
    np.nonzero, np.flatnonzero, np.argwhere, np.searchsorted, np.digitize, np.isclose, np.allclose,
    np.array_equal, np.array_equiv, np.isin, np.histogram, np.lexsort, np.iscomplex, np.isreal,
    np.isneginf, np.isposinf, np.nanargmax, np.nanargmin, np.argpartition, np.array_repr,
    np.array_str, np.array2string, np.histogram_bin_edges,
)  # fmt: skip


@implements(np.unique)
def unique(ar: Any, **kwargs: Any) -> Any:
    if kwargs.get("axis") is not None:
        raise refuse("numpy.unique with axis=")
    flat = _core.reshape(_core.asarray(ar), -1)
    wanted = {k: bool(kwargs.get(k)) for k in ("return_index", "return_inverse", "return_counts")}
    _, first, *rest = np.unique(
        plain(ar), **{**kwargs, "return_index": True}
    )
    extra = ([first] if wanted["return_index"] else []) + rest
    values = flat[first]
    return (values, *extra) if extra else values
