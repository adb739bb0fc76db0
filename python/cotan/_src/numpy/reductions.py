"""Overrides of NumPy's reductions, cumulative sums and sorting."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from cotan import _core
from cotan._core import Array
from cotan._src.numpy.mapped_samples import is_mapped, nan_extreme, nan_mean
from cotan._src.numpy.ufunc_reduce import reduced, scanned
from cotan._src.rebind.engine import rebound
from cotan._src.runtime.registry import FUNCTIONS, override
from cotan._src.runtime.ufunc_dtypes import as_dtype, fold_dtypes
from cotan._src.runtime.values import (
    axes_of,
    flat,
    flat_if_none,
    in_numpy,
    or_default,
    to_numpy,
    write_out,
)
from cotan._src.typing import AnyArray, ArrayLike, Axis, DTypeLike, Function, NDArray, Scalar, Shape

if TYPE_CHECKING:
    from numpy._globals import _NoValueType

_Mask: TypeAlias = ArrayLike | bool
_Axes: TypeAlias = int | Shape | None
# What may be left out.
_Flag: TypeAlias = "bool | _NoValueType"
_Correction: TypeAlias = "float | _NoValueType"
_Where: TypeAlias = "ArrayLike | bool | _NoValueType"
_Operand: TypeAlias = "ArrayLike | int | bool | _NoValueType | None"
_SortKind: TypeAlias = Literal["quicksort", "mergesort", "heapsort", "stable"]
_Selection: TypeAlias = Literal["introselect"]


# --------------------------------------------------------------------------------------------------
# Sums, products, extrema


@override(np.sum)
def sum(
    a: ArrayLike,
    axis: _Axes = None,
    dtype: DTypeLike | None = None,
    out: AnyArray | None = None,
    keepdims: _Flag = False,
    initial: _Operand = 0,
    where: _Where = True,
) -> AnyArray:
    plain_call = dtype is None and out is None and where is True
    if plain_call and type(keepdims) is bool and type(initial) is int and initial == 0:
        # The common case, without looking at what was not given.
        return _core.sum(a, axis, keepdims)
    return _folded("sum", np.add, a, axis, dtype, out, keepdims, initial, where)


def _folded(
    name: str,
    ufunc: np.ufunc,
    a: ArrayLike,
    axis: _Axes,
    dtype: DTypeLike | None,
    out: AnyArray | None,
    keepdims: _Flag,
    initial: _Operand,
    where: _Where,
) -> AnyArray:
    """Reduce in the dtype that holds the elements and those of `out=`; that takes what it can."""
    keep = or_default(keepdims, False)
    mask: _Mask = or_default(where, True)
    out = or_default(out, None)
    result = reduced(ufunc, a, axis, dtype, keep, initial, mask, out)
    return write_out(name, out, result, "unsafe")


@override(np.prod)
def prod(
    a: ArrayLike,
    axis: _Axes = None,
    dtype: DTypeLike | None = None,
    out: AnyArray | None = None,
    keepdims: _Flag = False,
    initial: _Operand = 1,
    where: _Where = True,
) -> AnyArray:
    return _folded("prod", np.multiply, a, axis, dtype, out, keepdims, initial, where)


def _fold(name: str, ufunc: np.ufunc) -> Callable[..., AnyArray]:
    fold: Callable[..., Array] = getattr(_core, name)

    def function(
        a: ArrayLike,
        axis: _Axes = None,
        out: AnyArray | None = None,
        keepdims: _Flag = np._NoValue,
        initial: _Operand = np._NoValue,
        where: _Where = np._NoValue,
    ) -> AnyArray:
        given = initial is not np._NoValue or where is not np._NoValue or out is not None
        if not given and isinstance(a, _core.Array) and a.dtype.kind == "f" and a.size:
            return fold(a, axis, bool(or_default(keepdims, False)))
        return _folded(name, ufunc, a, axis, None, out, keepdims, initial, where)

    return function


override(np.max, np.amax)(_fold("max", np.maximum))
override(np.min, np.amin)(_fold("min", np.minimum))


def _of_numbers(name: str, least: float) -> None:
    """Enter an extreme of what is a number, where NumPy's code takes an ndarray for granted."""
    function: Function = getattr(np, name)
    extreme: Callable[..., AnyArray] = FUNCTIONS[np.max if least < 0 else np.min]

    @override(function)
    def of_numbers(
        a: ArrayLike,
        axis: _Axes = None,
        out: AnyArray | None = None,
        keepdims: _Flag = np._NoValue,
        initial: _Operand = np._NoValue,
        where: _Where = np._NoValue,
    ) -> AnyArray:
        x = _core.asarray(a)
        is_plain = initial is np._NoValue and where is np._NoValue
        if is_plain and out is None and x.dtype.kind == "f" and x.size and is_mapped(a):
            return nan_extreme(x, axis, keepdims, least)
        if is_plain or x.dtype.kind not in "fc":
            compute: Callable[..., AnyArray] = rebound(function)
            return compute(a, axis, out, keepdims, initial, where)
        known = _core.where(_core.isnan(x), np.asarray(least, x.dtype), x)
        return extreme(known, axis, out, keepdims, initial=initial, where=where)


_of_numbers("nanmax", -np.inf)
_of_numbers("nanmin", np.inf)


def _logical(name: str, ufunc: np.ufunc) -> Callable[..., AnyArray]:
    def function(
        a: ArrayLike,
        axis: _Axes = None,
        out: AnyArray | None = None,
        keepdims: _Flag = False,
        *,
        where: _Where = True,
    ) -> AnyArray:
        keep = or_default(keepdims, False)
        mask: _Mask = or_default(where, True)
        result = reduced(ufunc, a, axis, None, keep, np._NoValue, mask)
        return write_out(name, out, result)

    return function


override(np.all)(_logical("all", np.logical_and))
override(np.any)(_logical("any", np.logical_or))


@override(np.ptp)
def ptp(
    a: ArrayLike, axis: _Axes = None, out: AnyArray | None = None, keepdims: _Flag = False
) -> AnyArray:
    keep = bool(or_default(keepdims, False))
    return write_out("ptp", out, _core.max(a, axis, keep) - _core.min(a, axis, keep))


@override(np.count_nonzero)
def count_nonzero(a: ArrayLike, axis: _Axes = None, *, keepdims: bool = False) -> AnyArray:
    if _core.is_traced(a):
        return _core.sum(_core.cast(_core.ne(a, 0), np.int64), axis, bool(keepdims))
    counts: NDArray = np.count_nonzero(
        to_numpy(a), axis=to_numpy(axis), keepdims=to_numpy(keepdims)
    )
    return counts


def _arg(name: str) -> Callable[..., AnyArray]:
    find = getattr(_core, name)

    def function(
        a: ArrayLike, axis: Axis = None, out: AnyArray | None = None, *, keepdims: _Flag = False
    ) -> AnyArray:
        return write_out(name, out, find(a, axis, bool(or_default(keepdims, False))))

    return function


override(np.argmax)(_arg("argmax"))
override(np.argmin)(_arg("argmin"))


def _nan_arg(name: str) -> Callable[..., AnyArray]:
    find = getattr(np, name)

    def function(
        a: ArrayLike, axis: Axis = None, out: AnyArray | None = None, *, keepdims: _Flag = False
    ) -> AnyArray:
        return write_out(name, out, find(to_numpy(a), axis, keepdims=or_default(keepdims, False)))

    return function


override(np.nanargmax)(_nan_arg("nanargmax"))
override(np.nanargmin)(_nan_arg("nanargmin"))


# --------------------------------------------------------------------------------------------------
# Moments


def _count(x: AnyArray, axis: _Axes, where: _Mask, keepdims: bool) -> NDArray | int:
    """Give how many elements each entry of a reduction combines."""
    axes = axes_of(axis, x.ndim)
    if where is True:
        return math.prod(x.shape[a] for a in axes)
    mask = np.broadcast_to(to_numpy(where), x.shape)
    counts: NDArray = mask.sum(axis=axes, keepdims=keepdims)
    return counts


@override(np.mean)
def mean(
    a: ArrayLike,
    axis: _Axes = None,
    dtype: DTypeLike | None = None,
    out: AnyArray | None = None,
    keepdims: _Flag = False,
    *,
    where: _Where = True,
) -> AnyArray:
    if dtype is None and out is None and type(keepdims) is bool and where is True:
        return _core.mean(a, axis, keepdims)
    keepdims = bool(or_default(keepdims, False))
    mask: _Mask = or_default(where, True)
    x = _core.asarray(a, dtype)
    result: AnyArray
    if mask is True:
        result = _core.mean(x, axis, keepdims)
    else:
        total = reduced(np.add, x, axis, None, keepdims, np._NoValue, mask)
        result = _per(total, _count(x, axis, mask, keepdims))
    return write_out("mean", out, _of_dtype(result, dtype))


def _of_dtype(result: AnyArray, wanted: DTypeLike | None) -> AnyArray:
    """Give a sum in the dtype that was asked for; small integers are summed up in wider ones."""
    if wanted is None or result.dtype == wanted:
        return result
    return _core.asarray(result).astype(wanted)


def _per(total: AnyArray, count: NDArray | float) -> AnyArray:
    """Divide by a number of elements without changing the dtype of floats."""
    if isinstance(count, (int, float)) or total.dtype.kind not in "fc":
        return _core.div(total, count)
    return _core.div(total, np.asarray(count, total.dtype))


@override(np.var)
def var(
    a: ArrayLike,
    axis: _Axes = None,
    dtype: DTypeLike | None = None,
    out: AnyArray | None = None,
    ddof: float = 0,
    keepdims: _Flag = False,
    *,
    where: _Where = True,
    mean: _Operand = np._NoValue,
    correction: _Correction = np._NoValue,
) -> AnyArray:
    if correction is not np._NoValue and ddof != 0:
        raise ValueError("var: ddof and correction can't be provided simultaneously")
    x = _core.asarray(a)
    if dtype is not None and np.dtype(dtype).kind in "biu":
        options = {"where": where, "mean": mean, "correction": correction}
        whole = {k: to_numpy(v) for k, v in options.items() if v is not np._NoValue}
        var: Function = np.var
        counted = var(to_numpy(x), axis, dtype, None, to_numpy(ddof), keepdims, **whole)
        return write_out("var", out, counted)
    if dtype is not None and x.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        raise TypeError(
            f"var: dtype={np.dtype(dtype)} would drop the imaginary parts of {x.dtype}; use a "
            "complex dtype, or x.real"
        )
    x = _core.asarray(x, dtype)
    keep = or_default(keepdims, False)
    mask: _Mask = or_default(where, True)
    ddof = or_default(correction, ddof)
    center: AnyArray = FUNCTIONS[np.mean](x, axis, None, None, True, where=mask)
    deviation = x - (center if mean is np._NoValue else mean)
    if deviation.dtype.kind == "c":
        square = _core.square(deviation.real) + _core.square(deviation.imag)
    else:
        square = _core.square(deviation)
    total = reduced(np.add, square, axis, None, keep, np._NoValue, mask)
    count = np.maximum(np.subtract(_count(x, axis, mask, keep), ddof), 0)
    result = _per(total, count if np.ndim(count) else float(count))
    # NumPy sums up in the dtype that was asked for, also where the squares are real.
    if dtype is not None and np.dtype(dtype).kind == "c":
        result = _core.cast(result, dtype)
    return write_out("var", out, result)


@override(np.std)
def std(
    a: ArrayLike,
    axis: _Axes = None,
    dtype: DTypeLike | None = None,
    out: AnyArray | None = None,
    *args: Any,
    **kwargs: Any,
) -> AnyArray:
    square: Any = var(a, axis, dtype, None, *args, **kwargs)
    if square.dtype.kind not in "biu":
        return write_out("std", out, safe_sqrt(square))
    # Of integers: NumPy cuts a scalar off, and refuses to write roots into an array of them.
    root = np.sqrt(square, out=square) if square.ndim else square.dtype.type(np.sqrt(square))
    return write_out("std", out, root)


def safe_sqrt(x: AnyArray) -> AnyArray:
    """Give the square root, with the derivative 0 at 0 (a kink: the documented choice)."""
    zero = _core.eq(x, 0)
    return _core.where(zero, x, _core.sqrt(_core.where(zero, 1, x)))


@override(np.nanstd)
def nanstd(
    a: ArrayLike,
    axis: _Axes = None,
    dtype: DTypeLike | None = None,
    out: AnyArray | None = None,
    *args: Any,
    **kwargs: Any,
) -> AnyArray:
    return write_out(
        "nanstd", out, safe_sqrt(FUNCTIONS[np.nanvar](a, axis, dtype, None, *args, **kwargs))
    )


@override(np.nanmean)
def nanmean(
    a: ArrayLike,
    axis: _Axes = None,
    dtype: DTypeLike | None = None,
    out: AnyArray | None = None,
    keepdims: _Flag = np._NoValue,
    **kwargs: Any,
) -> AnyArray:
    x = _core.asarray(a)
    if is_mapped(a) and x.dtype.kind == "f" and dtype is None and out is None and not kwargs:
        return nan_mean(x, axis, keepdims)
    result: AnyArray = rebound(np.nanmean)(a, axis, dtype, out, keepdims, **kwargs)
    # NumPy makes a scalar by calling the dtype, which gives an `Array`.
    return result[()] if out is None and np.ndim(result) == 0 else result


def _binned(function: Callable[..., Any]) -> None:
    @override(function)
    def run(
        a: ArrayLike,
        bins: ArrayLike = 10,
        range: Sequence[Scalar] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        # Integers carry no gradient, and NumPy subtracts them as unsigned ones.
        whole = isinstance(a, Array) and a.dtype.kind in "biu"
        if range is not None:
            range = tuple(1.0 * edge for edge in range)
        return rebound(function)(to_numpy(a) if whole else a, bins, range, *args, **kwargs)


_binned(np.histogram)
_binned(np.histogram_bin_edges)


# --------------------------------------------------------------------------------------------------
# Running sums and products


@override(np.cumsum)
def cumsum(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: AnyArray | None = None
) -> AnyArray:
    x = _core.asarray(a)
    if dtype is None and out is None:
        return _core.cumsum(x, axis)
    wanted = fold_dtypes(np.add, x, dtype, out)[1]
    total = _core.cumsum(as_dtype(x, wanted), axis)
    return write_out("cumsum", out, _of_dtype(total, wanted), "unsafe")


@override(np.cumprod)
def cumprod(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: AnyArray | None = None
) -> AnyArray:
    x, at = flat_if_none(a, axis)
    return write_out("cumprod", out, scanned(np.multiply, x, at, dtype, out), "unsafe")


def _cumulative(name: str, ufunc: np.ufunc) -> None:
    function = in_numpy(name)

    @override(function)
    def cumulative(
        x: ArrayLike,
        /,
        *,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        include_initial: bool = False,
    ) -> AnyArray:
        x = _core.asarray(x)
        x = _core.reshape(x, 1) if x.ndim == 0 else x
        if axis is None and x.ndim != 1:
            raise ValueError(f"For arrays which have more than one dimension ``axis`` of {name} "
                             "argument is required.")  # fmt: skip
        (at,) = axes_of(0 if axis is None else axis, x.ndim)
        result = scanned(ufunc, x, at, dtype)
        if include_initial:
            shape = [1 if i == at else n for i, n in enumerate(x.shape)]
            first = np.full(shape, ufunc.identity, result.dtype)
            result = _core.concatenate([first, result], at)
        return write_out(name, out, result)


_cumulative("cumulative_sum", np.add)
_cumulative("cumulative_prod", np.multiply)

# --------------------------------------------------------------------------------------------------
# Sorting: positions are constant, values are taken from there


def _checked(name: str, kth: ArrayLike, x: AnyArray, at: int) -> None:
    """Refuse positions outside an axis; like NumPy, accept any if there are no elements."""
    n = x.shape[at]
    for k in np.ravel(to_numpy(kth)):
        if x.size and not -n <= k < n:
            raise ValueError(f"{name}: kth(={k}) out of bounds ({n})")


def _sortable(a: ArrayLike, axis: Axis) -> tuple[Array, int]:
    """Give what is sorted, along which axis; a single number has none."""
    if axis is not None:
        normalize_axis_index(operator.index(axis), np.ndim(a))
    return flat_if_none(a, axis)


def _expect_kind(kind: _SortKind | None, stable: bool | None) -> None:
    """Refuse a `kind` that NumPy refuses; sorting here is always stable."""
    if kind is not None or stable is not None:
        np.sort(np.empty(0), kind=kind, stable=stable)


def _expect_selection(kind: _Selection | None) -> None:
    if kind not in {None, "introselect"}:
        np.partition(np.empty(1), 0, kind=kind)


@override(np.argsort)
def argsort(
    a: ArrayLike,
    axis: Axis = -1,
    kind: _SortKind | None = None,
    order: object = None,
    *,
    stable: bool | None = None,
) -> AnyArray:
    del order
    _expect_kind(kind, stable)
    return _core.argsort(*flat_if_none(a, axis))


@override(np.sort)
def sort(
    a: ArrayLike,
    axis: Axis = -1,
    kind: _SortKind | None = None,
    order: object = None,
    *,
    stable: bool | None = None,
) -> AnyArray:
    del order
    _expect_kind(kind, stable)
    x, at = _sortable(a, axis)
    perm = [i for i in range(x.ndim) if i != at] + [at]
    moved = _core.transpose(x, perm)
    n = x.shape[at]
    if x.size == 0:
        return x.copy()
    rows = _core.reshape(moved, (-1, n))
    index = _core.add(_core.argsort(rows, 1), np.arange(rows.shape[0])[:, None] * n)
    ranked = _core.reshape(_core.gather(flat(rows), index), moved.shape)
    return _core.transpose(ranked, list(np.argsort(perm))).copy()


# What is sorted is partitioned around every element.


@override(np.partition)
def partition(
    a: ArrayLike,
    kth: ArrayLike,
    axis: Axis = -1,
    kind: _Selection | None = None,
    order: object = None,
) -> AnyArray:
    del order
    _expect_selection(kind)
    x, at = _sortable(a, axis)
    _checked("partition", kth, x, at)
    return sort(x, at)


@override(np.argpartition)
def argpartition(
    a: ArrayLike,
    kth: ArrayLike,
    axis: Axis = -1,
    kind: _Selection | None = None,
    order: object = None,
) -> AnyArray:
    del order
    _expect_selection(kind)
    x, at = flat_if_none(a, axis)
    _checked("argpartition", kth, x, at)
    return argsort(x, at)
