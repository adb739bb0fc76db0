"""Overrides of NumPy's quantiles and of `nanmedian`.

Problem: NumPy looks whether there are NaN in a sample before it says that their quantile is NaN.
Inside `vmap` nobody knows.
"""

import math
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.rebind.engine import rebound
from cotan._src.runtime.registry import FUNCTIONS, override
from cotan._src.runtime.ufunc_dtypes import finished
from cotan._src.runtime.values import (
    axes_of,
    in_numpy,
    is_active,
    is_array,
    or_default,
    to_numpy,
    write_out,
)
from cotan._src.typing import AnyArray, ArrayLike, Axes, Function, Shape


def _of_samples(name: str) -> None:
    function = in_numpy(name)

    @override(function)
    def quantile(
        a: ArrayLike,
        q: ArrayLike,
        axis: Axes = None,
        out: AnyArray | None = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = False,
        **others: Any,
    ) -> AnyArray:
        if out is None and not any(value is not None for value in others.values()):
            mapped = _of_mapped(function, a, q, axis, method, keepdims)
            if mapped is not None:
                return mapped
        result: AnyArray
        result = rebound(function)(a, q, axis, out, overwrite_input, method, keepdims, **others)
        # A quantile that is a plain number does not widen, which NumPy knows by its type.
        a = _core.asarray(a)
        narrow = is_array(q) and q._rank == "number" and a.dtype.kind == "f" and out is None
        return result.astype(a.dtype) if narrow else result


for _name in ("quantile", "percentile", "nanquantile", "nanpercentile"):
    _of_samples(_name)


def _of_mapped(
    function: Function, a: ArrayLike, q: ArrayLike, axis: Axes, method: str, keepdims: Any
) -> AnyArray | None:
    """Give quantiles of samples that differ between the examples of a vmap; None for others."""
    if not (is_array(a) and _core.is_mapped(a)) or a.dtype.kind not in "iuf" or is_active(q):
        return None
    skips = function in {np.nanquantile, np.nanpercentile}
    if a.size == 0 or (skips and method != "linear"):
        return None
    rows, axes, kept = _rows(a, axis)
    count: Any = rows.shape[-1]
    # The quantile of 0, 1, 2, ... is the position at which it lies; NumPy checks `q` here.
    place: Any = function(np.arange(count), to_numpy(q), method=method)
    order = np.asarray(to_numpy(q))
    weak = type(q) in {int, float} or (is_array(q) and q._rank == "number")
    is_percent = function in {np.percentile, np.nanpercentile}
    fraction = np.asarray(order / 100 if is_percent else order)[..., *[None] * len(kept)]
    ranked = FUNCTIONS[np.sort](rows, -1)
    if skips:
        count = np.sum(~np.isnan(rows), axis=-1)
    if method == "linear":
        place = fraction * np.maximum(count - 1, 0)
    else:
        place = np.asarray(place).reshape(fraction.shape)
    low = np.floor(place)
    result = _at(ranked, low.astype(int))
    if np.asarray(function(np.arange(1), 0.5, method=method)).dtype.kind == "f":
        part = place - low
        if weak and a.dtype.kind == "f":
            part = part.astype(a.dtype)
        high = _at(ranked, np.ceil(place).astype(int))
        # The nearer one is what the step starts from.
        step = high - result
        result = _core.where(part < 0.5, result + step * part, high - step * (1 - part))
    if a.dtype.kind == "f" and not skips:
        result = _core.where(np.isnan(ranked[..., -1]), math.nan, result)
    if or_default(keepdims, False):
        kept = tuple(1 if i in axes else n for i, n in enumerate(a.shape))
    return finished(_core.reshape(result, [*order.shape, *kept]))


def _rows(x: AnyArray, axis: Axes) -> tuple[AnyArray, Shape, Shape]:
    """Put axes together as the last one; gives these, and the lengths of the others, too."""
    axes = axes_of(axis, x.ndim)
    others = [i for i in range(x.ndim) if i not in axes]
    kept = tuple(x.shape[i] for i in others)
    rows: AnyArray = np.reshape(np.transpose(x, [*others, *axes]), [*kept, -1])
    return rows, axes, kept


def _at(rows: AnyArray, index: AnyArray) -> AnyArray:
    """Give elements of each row. The axes of `index` are those of the result."""
    shape = (*index.shape[: index.ndim - rows.ndim + 1], *rows.shape[:-1])
    first = math.prod(shape[: len(shape) - rows.ndim + 1])
    columns: Any = np.reshape(np.broadcast_to(index, shape), (first, *rows.shape[:-1]))
    found = FUNCTIONS[np.take_along_axis](rows, np.moveaxis(columns, 0, -1), -1)
    return np.reshape(np.moveaxis(found, -1, 0), shape)


@override(np.nanmedian)
def nanmedian(
    a: ArrayLike,
    axis: Axes = None,
    out: AnyArray | None = None,
    overwrite_input: bool = False,
    keepdims: Any = False,
) -> AnyArray:
    del overwrite_input
    x = _core.asarray(a)
    keep = or_default(keepdims, False)
    if x.dtype.kind in "biu":
        x = x.astype(np.float64)
    return write_out("nanmedian", out, _middle(x, axes_of(axis, x.ndim), keep))


def _middle(x: Array, axes: Shape, keepdims: bool) -> AnyArray:
    """Give the middle one of what is a number, or the mean of the two that are in the middle."""
    if x.size == 0:
        mean_of_nothing: AnyArray = FUNCTIONS[np.nanmean](x, axes, keepdims=keepdims)
        return mean_of_nothing
    is_mapped = _core.is_mapped(x)
    # What is not a number comes last, and has no influence, however it came about.
    missing = np.isnan(x if is_mapped or _core.is_traced(x) else to_numpy(x))
    x = _core.where(missing, math.nan, x)
    rows, _, kept = _rows(x, axes)
    count = np.sum(~_rows(missing, axes)[0], axis=-1, keepdims=True)
    ranked = FUNCTIONS[np.sort](rows, -1)
    take = FUNCTIONS[np.take_along_axis]
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, rows.shape[-1] - 1)
    middle = take(ranked, low, -1)
    if is_mapped or np.any(low != high):
        middle = _core.where(low == high, middle, (middle + take(ranked, high, -1)) / 2)
    if keepdims:
        return _core.reshape(middle, [1 if i in axes else n for i, n in enumerate(x.shape)])
    return finished(_core.reshape(middle, kept))
