"""Overrides of the functions that NumPy dispatches by `__array_function__`.

There are three kinds: rules written in terms of primitives (here and in `numpy.shape`,
`numpy.indexing`, `numpy.reductions` and `numpy.products`); NumPy's Python code, rebound to
functions that take `Array`s (`rebind.numpy_substitutes`); and functions whose results are constant.
"""

import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.windows import apply_windows, common_dtype, narrowed, window_counts
from cotan._src.numpy import fft as _fft  # noqa: F401
from cotan._src.numpy import indexing as _index  # noqa: F401
from cotan._src.numpy import products as _linalg  # noqa: F401
from cotan._src.numpy import quantiles as _quantiles  # noqa: F401
from cotan._src.numpy import reductions as _reduce  # noqa: F401
from cotan._src.numpy import sampling_shortcuts as _sampled  # noqa: F401
from cotan._src.numpy import shape as _shape  # noqa: F401
from cotan._src.rebind.engine import rebound
from cotan._src.rebind.numpy_substitutes import array as host_array
from cotan._src.rebind.numpy_substitutes import asarray as host_asarray
from cotan._src.runtime.registry import DISPATCHED, FUNCTIONS, Kind, named, override
from cotan._src.runtime.values import (
    call_on_values,
    contains_active,
    flat,
    in_numpy,
    peek,
    to_numpy,
    write_out,
)
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Decorator,
    DTypeLike,
    Function,
    Kwargs,
    NDArray,
    Scalar,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_Side: TypeAlias = Literal["left", "right"]

__all__ = ["FUNCTIONS", "array_function"]


def array_function(func: Function, types: object, args: Args, kwargs: Kwargs) -> Any:
    """Compute `func(*args, **kwargs)` where an `Array` takes part."""
    del types
    implementation = FUNCTIONS.get(func)
    if implementation is not None:
        return implementation(*args, **kwargs)
    return call_on_values(func, args, kwargs)


# --------------------------------------------------------------------------------------------------
# Elementwise


@override(np.round, np.around)
def round(a: ArrayLike, decimals: int = 0, out: AnyArray | None = None) -> AnyArray:
    x = _core.asarray(a)
    if x.dtype == np.bool_:
        if decimals != 0:
            raise TypeError(f"round: cannot round booleans to {decimals} decimals")
        result = _core.cast(x, np.float16)
    elif x.dtype.kind == "c":
        parts = round(x.real, decimals), round(x.imag, decimals)
        result = _core.apply("complex", *parts)
    elif x.dtype.kind in "iu" and decimals < 0:
        result = _core.asarray(np.round(to_numpy(x), decimals))
    elif x.dtype.kind != "f":
        result = x.copy()
    elif decimals == 0:
        result = _core.round(x)
    else:
        # What is beyond the largest number is infinite, and the result none, as in NumPy.
        unit = 10.0 ** abs(decimals) if abs(decimals) <= 308 else math.inf
        up = decimals > 0
        result = _core.round(x * unit) / unit if up else _core.round(x / unit) * unit
    return write_out("round", out, result)


@override(np.angle)
def angle(z: ArrayLike, deg: bool = False) -> AnyArray:
    x = host_asarray(z)
    # Of real numbers it is 0 or pi, with no slope at 0 either.
    turn: Callable[..., AnyArray] = rebound(np.angle)
    return turn(x if x.dtype.kind == "c" else _core.dropgrad(x), deg)


@override(np.fix)
def fix(x: ArrayLike, out: AnyArray | None = None) -> AnyArray:
    return write_out("fix", out, _core.trunc(x))


@override(np.i0)
def i0(x: ArrayLike) -> AnyArray:
    x = _core.asarray(x)
    if x.dtype.kind != "f":
        if x.dtype.kind == "c":
            raise TypeError("i0 not supported for complex values")
        x = _core.asarray(x, np.float64)
    # NumPy takes the absolute value, which hides how even functions bend at 0.
    near = _core.lt(_core.abs(x), 0.01)
    t = _core.square(_core.where(near, x, 0)) / 4
    series = 1 + t * (1 + t / 4 * (1 + t / 9 * (1 + t / 16)))
    value: AnyArray = _core.where(near, series, rebound(np.i0)(_core.where(near, 1, x)))
    return value[...]  # an array, even of a number


@override(np.sinc)
def sinc(x: ArrayLike) -> AnyArray:
    x = _core.asarray(x)
    # Near 0 the derivatives of the quotient cancel.
    near = _core.lt(_core.abs(x), 0.1)
    y = math.pi * _core.where(near, 1, x)
    square = _core.square(math.pi * _core.where(near, x, 0))
    series: AnyArray | int = 1
    for k in range(16, 0, -2):
        series = 1 - square / (k * (k + 1)) * series
    return _core.where(near, series, _core.sin(y) / y)


@override(np.roots)
def roots(p: ArrayLike) -> AnyArray:
    """Give the roots as NumPy does, which leaves out trailing zeros: they move roots, too."""
    found: AnyArray = rebound(np.roots)(p)
    p = np.atleast_1d(p)
    places = np.nonzero(p)[0]
    zeros = p.size - int(places[-1]) - 1 if places.size else 0
    if not zeros or not contains_active((p,)):
        return found
    p = p[int(places[0]) :]
    slope = _core.cast(np.polyder(p), p.dtype)
    simple: AnyArray = _core.dropgrad(found)
    if zeros > 1:
        simple = simple[: p.size - 1 - zeros]
    # Steps of Newton's method that move nothing: one for each order of derivatives.
    for _ in range(2):
        rest = np.polyval(p, simple)
        simple = simple - (rest - _core.dropgrad(rest)) / np.polyval(slope, simple)
    if zeros == 1:
        return simple
    # Several roots at 0 part as a root of the last coefficient does, infinitely fast.
    return np.concatenate([simple, np.repeat(p[-1:] ** (1 / zeros), zeros)])


# --------------------------------------------------------------------------------------------------
# Interpolation and convolution


@override(np.interp)
def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: Scalar | None = None,
    right: Scalar | None = None,
    period: float | None = None,
) -> AnyArray:
    queries, places, heights = (host_asarray(v) for v in (x, xp, fp))
    if places.ndim != 1 or heights.ndim != 1:
        raise ValueError("Data points must be 1-D sequences")
    if places.size != heights.size:
        raise ValueError("fp and xp are not of the same length.")
    if places.size == 0:
        raise ValueError("array of sample points is empty")
    for name, points in (("x", queries), ("xp", places)):
        if points.dtype.kind == "c":
            raise TypeError(
                f"interp: {name} must be real, not of dtype {points.dtype}; use {name}.real"
            )
    x, xp = _core.asarray(queries, np.float64), _core.asarray(places, np.float64)
    fp = _core.asarray(heights, np.complex128 if heights.dtype.kind == "c" else np.float64)
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, abs(period))
        left = right = None
    last = xp.size - 1
    at = searchsorted(xp, x, side="right") - 1
    low = np.clip(at, 0, max(last - 1, 0))
    high = np.minimum(low + 1, last)
    if fp.dtype.kind == "c":
        parts = (_between(x, xp, part, low, high) for part in (fp.real, fp.imag))
        y = _core.apply("complex", *parts)
    else:
        y = _between(x, xp, fp, low, high)
    y = _core.where(_core.eq(x, xp[last]), fp[last], y)
    y = _core.where(_core.lt(x, xp[0]), fp[0] if left is None else left, y)
    y = _core.where(_core.gt(x, xp[last]), fp[last] if right is None else right, y)
    y = _core.where(_core.isnan(x), x, y)
    if not _core.is_tracing() and np.any(xp[1:] < xp[:-1]):
        _expect_same(y, x, xp, fp, left, right)
    return y


def _between(x: Array, xp: Array, fp: Array, low: AnyArray, high: AnyArray) -> Array:
    """Give the line through two points; where that is NaN, what NumPy finds at infinite heights."""
    x0, x1, y0, y1 = xp[low], xp[high], fp[low], fp[high]
    width = x1 - x0
    slope = (y1 - y0) / _core.where(_core.eq(width, 0), 1, width)
    y = y0 + (x - x0) * slope
    from_above = y1 + (x - x1) * slope
    level = _core.where(_core.eq(y0, y1), y0, from_above)
    other = _core.where(_core.isnan(from_above), level, from_above)
    return _core.where(_core.isnan(y), _core.where(_core.eq(x, x0), y0, other), y)


def _expect_same(y: AnyArray, *args: ArrayLike | None) -> None:
    """Refuse points out of order where NumPy's result depends on how it looks for them."""
    if _core.is_preparing() or not np.allclose(
        to_numpy(y), np.interp(*map(to_numpy, args)), equal_nan=True
    ):
        raise ValueError(
            "interp: xp must be increasing, otherwise NumPy's result is meaningless; sort the "
            "points, as in order = np.argsort(xp); np.interp(x, xp[order], fp[order])"
        )


def _periodic(x: Array, xp: Array, fp: Array, period: float) -> tuple[Array, Array, Array]:
    if period == 0:
        raise ValueError("period must be a non-zero value")
    x, xp = _core.remainder(x, period), _core.remainder(xp, period)
    order: AnyArray = _core.argsort(xp)
    order = order if _core.is_traced(order) else to_numpy(order)
    xp, fp = xp[order], fp[order]
    xp = _core.concatenate([xp[-1:] - period, xp, xp[:1] + period])
    return x, xp, _core.concatenate([fp[-1:], fp, fp[:1]])


@override(np.convolve)
def convolve(a: ArrayLike, v: ArrayLike, mode: str | int = "full") -> AnyArray:
    x, kernel = host_array(a, ndmin=1), host_array(v, ndmin=1)
    if kernel.size > x.size:
        x, kernel = kernel, x
    if not x.size or not kernel.size:
        which = "a" if not x.size else "v"
        raise ValueError(f"{which} cannot be empty")
    return _correlated(x, _core.flip(kernel), mode)


@override(np.correlate)
def correlate(a: ArrayLike, v: ArrayLike, mode: str | int = "valid") -> AnyArray:
    x, kernel = host_array(a, ndmin=1), host_array(v, ndmin=1)
    if not x.size or not kernel.size:
        raise ValueError("correlate: arrays cannot be empty")
    kernel = kernel.conj()
    if kernel.size > x.size:
        return _core.flip(_correlated(kernel, x, mode))
    return _correlated(x, kernel, mode)


_MODES: dict[int, str] = {0: "valid", 1: "same", 2: "full"}


def _correlated(x: AnyArray, kernel: AnyArray, mode: str | int | None) -> AnyArray:
    """Multiply all windows of the longer array with the shorter one."""
    if x.ndim != 1 or kernel.ndim != 1:
        raise ValueError("object too deep for desired array")
    mode = _MODES.get(mode, mode) if isinstance(mode, int) else mode
    n, k = x.shape[0], kernel.shape[0]
    if mode == "valid":
        before = after = 0
    elif mode == "same":
        before, after = k // 2, (k - 1) - k // 2
    elif mode == "full":
        before = after = k - 1
    else:
        error = ValueError if isinstance(mode, (str, int)) else TypeError
        raise error(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    if np.result_type(x.dtype, kernel.dtype).kind in "fc":
        images, kernels = x.reshape(1, 1, 1, n), kernel.reshape(1, 1, 1, k)
        (images, kernels), dtype = common_dtype("convolve", images, kernels)
        count = window_counts("convolve", [n], [(before, after)], [k], [1])
        y = apply_windows("conv", images, kernels, size=count, len=[k], pad=[before])
        return narrowed(_core.reshape(y, -1), dtype)
    padded = _core.pad(x, [n + before + after], [before], [1])
    rows = np.arange(n + before + after - k + 1)
    return _core.matmul(padded[rows[:, None] + np.arange(k)], kernel)


@override(np.polymul)
def polymul(a1: ArrayLike, a2: ArrayLike) -> AnyArray:
    factors = [np.trim_zeros(host_array(a, ndmin=1), "f") for a in (a1, a2)]
    first, second = (f if f.size else np.zeros(1, f.dtype) for f in factors)
    return convolve(first, second)


# --------------------------------------------------------------------------------------------------
# Functions of values


@override(np.bincount)
def bincount(x: ArrayLike, /, weights: ArrayLike | None = None, minlength: int = 0) -> AnyArray:
    index = np.asarray(to_numpy(x))
    counts = np.bincount(index, minlength=to_numpy(minlength))
    if weights is None:
        return counts
    values = host_asarray(weights)
    if values.shape != index.shape:
        raise ValueError("The weights and list don't have the same length.")
    if values.dtype.kind == "c":
        raise TypeError(
            f"bincount: weights have dtype {values.dtype}, and are added as float64; count their "
            "real and imaginary parts apart"
        )
    zeros = np.zeros(counts.size)
    return _core.scatter_add(zeros, index.astype(np.int64), _core.cast(values, np.float64))


def _unique(name: str, **chosen: bool) -> None:
    function = in_numpy(name)

    @override(function)
    def unique(ar: ArrayLike, *args: Any, **kwargs: Any) -> AnyArray | tuple[AnyArray, ...]:
        """NumPy finds where the values are; taking them from there is differentiable."""
        x = host_asarray(ar)
        given = dict(zip(_UNIQUE, args, strict=False)) | kwargs | chosen
        axis = given.get("axis")
        found = np.unique(to_numpy(x), **{**given, "return_index": True})
        values = flat(x)[found[1]] if axis is None else _taken(x, found[1], axis)
        rest = found[1:] if given.get("return_index") else found[2:]
        if not chosen:
            return (values, *rest) if rest else values
        return type(function(np.zeros(0)))(values, *rest) if rest else values


_UNIQUE = ("return_index", "return_inverse", "return_counts", "axis")


def _taken(x: AnyArray, index: NDArray, axis: int) -> AnyArray:
    return x[(slice(None),) * (axis % x.ndim) + (index,)]


_unique("unique")
_EACH = {"equal_nan": False}
_unique("unique_all", return_index=True, return_inverse=True, return_counts=True, **_EACH)
_unique("unique_counts", return_counts=True, **_EACH)
_unique("unique_inverse", return_inverse=True, **_EACH)
_unique("unique_values", **_EACH)


@override(np.einsum_path)
def einsum_path(*operands: ArrayLike, **kwargs: Any) -> tuple[list[Any], str]:
    arrays = (_core.asarray(o) if _core.contains_array((o,), {}) else o for o in operands)
    shapes = (
        np.broadcast_to(np.float64(0), o.shape) if isinstance(o, Array) else o for o in arrays
    )
    given: list[Any] = list(shapes)
    return np.einsum_path(*given, **kwargs)


def _of_values(value: Function, names: str, versions: str = "", kind: Kind = DISPATCHED) -> None:
    """Let functions whose results are integers, booleans or text run on plain values."""
    for target in named("numpy", names):

        @override(target, kind=kind, versions=versions)
        def constant(*args: object, _name: str = target, **kwargs: object) -> Any:
            original = in_numpy(_name.removeprefix("numpy."))
            return original(*map(value, args), **{k: value(v) for k, v in kwargs.items()})


_of_values(to_numpy, "nonzero isin lexsort ravel_multi_index unravel_index")
_of_values(to_numpy, "packbits unpackbits linalg.matrix_rank")
_of_values(to_numpy, "in1d", versions="numpy<2.4")
# One boolean or a text: control flow of the caller.
_of_values(peek, "array_repr array_str array2string min_scalar_type")
_of_values(peek, "format_float_positional format_float_scientific", kind=Kind.FUNCTION)


def _for_file(x: object) -> object:
    """Give the values of an array for a file, which no gradient reaches."""
    for part in x if isinstance(x, (list, tuple)) else (x,):
        if isinstance(part, Array) and _core.is_active(part):
            raise NotDifferentiableError(
                "writing x to a file would drop the gradient; write it after the gradient call, or "
                "ct.dropgrad(x) to drop it on purpose"
            )
    return to_numpy(x)


_of_values(_for_file, "save savez savez_compressed savetxt")


# The functions below are recorded while a function is traced or prepared, else computed at once.


def _is_recorded(*args: object) -> bool:
    """Say whether values are to be found by the program that is being recorded."""
    return any(_core.is_traced(x) or (_core.is_preparing() and contains_active(x)) for x in args)


def _decided(original: Function, *names: str) -> Decorator:
    """Let a prepared function watch the answer of a comparison, which else is one of values.

    `names` are those of the arrays that are compared.
    """

    def enter(compare: Function) -> Function:
        @override(original)
        def decide(*args: Any, **kwargs: Any) -> bool:
            if not kwargs.keys() >= set(names[len(args) :]):
                return bool(original(*args, **kwargs))
            a, b, *more = *args, *(kwargs.pop(n) for n in names[len(args) :])
            if _core.is_preparing() and contains_active((a, b)):
                return bool(np.all(compare(host_asarray(a), host_asarray(b), *more, **kwargs)))
            options = {k: peek(v) for k, v in kwargs.items()}
            return bool(original(peek(a), peek(b), *map(peek, more), **options))

        return decide

    return enter


@_decided(np.allclose, "a", "b")
def allclose(a: ArrayLike, b: ArrayLike, *args: Any, **kwargs: Any) -> AnyArray:
    return isclose(a, b, *args, **kwargs)


@_decided(np.array_equal, "a1", "a2")
def array_equal(a: AnyArray, b: AnyArray, equal_nan: bool = False) -> AnyArray | bool:
    if a.shape != b.shape:
        return False
    same: AnyArray = np.equal(a, b)
    return same | (np.isnan(a) & np.isnan(b)) if equal_nan else same


@_decided(np.array_equiv, "a1", "a2")
def array_equiv(a: AnyArray, b: AnyArray) -> AnyArray | bool:
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return np.equal(a, b)


@override(np.isclose)
def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> AnyArray:
    if not _is_recorded(a, b, rtol, atol):
        known: NDArray = np.isclose(
            to_numpy(a), to_numpy(b), to_numpy(rtol), to_numpy(atol), equal_nan
        )
        return known
    x = host_asarray(a)
    y: Any = host_asarray(b)
    near = np.less_equal(np.abs(x - y), atol + rtol * np.abs(y))
    close: AnyArray = np.logical_or(np.logical_and(near, np.isfinite(y)), np.equal(x, y))
    if equal_nan:
        close = np.logical_or(close, np.logical_and(np.isnan(x), np.isnan(y)))
    return close


@override(np.searchsorted)
def searchsorted(
    a: ArrayLike, v: ArrayLike, side: _Side = "left", sorter: ArrayLike | None = None
) -> AnyArray:
    if not _is_recorded(a, v, sorter):
        return np.searchsorted(to_numpy(a), to_numpy(v), side, to_numpy(sorter))
    row: Any = host_asarray(a)
    x = host_asarray(v)
    if row.ndim != 1:
        raise ValueError("object too deep for desired array")
    if side not in {"left", "right"}:
        raise ValueError(f"search side must be 'left' or 'right' (got '{side}')")
    row = row if sorter is None else row[sorter]
    return _core.searchsorted(row, x, side == "right")


@override(np.digitize)
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> AnyArray:
    if not _is_recorded(x, bins):
        return np.digitize(to_numpy(x), to_numpy(bins), right)
    edges = host_asarray(bins)
    np.digitize(0.0, peek(edges))  # says what is wrong with the edges
    side: _Side = "left" if right else "right"
    if edges.size > 1 and bool(edges[0] > edges[-1]):
        return edges.size - searchsorted(edges[::-1], x, side)
    return searchsorted(edges, x, side)


@override(np.logspace)
def logspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True,
             base: ArrayLike = 10.0, dtype: DTypeLike | None = None,
             axis: int = 0) -> AnyArray:  # fmt: skip
    if np.ndim(base) == 0:
        y: AnyArray = rebound(np.logspace)(start, stop, num, endpoint, base, dtype, axis)
        return y
    # As NumPy does it, which looks at the elements of active arrays for their shape.
    parts = [host_asarray(x) for x in (start, stop, base)]
    most = max(x.ndim for x in parts)
    start, stop, base = (x.reshape((1,) * (most - x.ndim) + x.shape) for x in parts)
    y = np.expand_dims(base, axis) ** np.linspace(start, stop, num, endpoint, axis=axis)
    return y if dtype is None else y.astype(dtype)


@override(np.insert)
def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> AnyArray:
    arr = host_asarray(arr)
    values = host_asarray(values, arr.dtype)  # which NumPy writes into memory of this dtype
    result: AnyArray = rebound(np.insert)(arr, obj, values, axis)
    return result
