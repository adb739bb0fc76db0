"""Statistics of samples that differ between the examples of a vmap.

Problem: NumPy looks at values before it warns of an empty sample or refuses weights that add up to
zero. Inside `vmap` nobody knows them, so results are computed for all cases at once: NaN where
NumPy warns, NaN or infinity where it raises.
"""

import math
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.rebind.engine import rebound
from cotan._src.runtime.registry import FUNCTIONS, override
from cotan._src.runtime.ufunc_dtypes import finished
from cotan._src.runtime.values import is_array, or_default
from cotan._src.typing import AnyArray, ArrayLike, Shape

_Axes: TypeAlias = int | Shape | None


def is_mapped(*values: object) -> bool:
    """Say whether any of some arrays differs between the examples of a vmap."""
    return any(is_array(value) and bool(_core.is_mapped(value)) for value in values)


def nan_extreme(x: Array, axis: _Axes, keepdims: Any, least: float) -> AnyArray:
    """Give the largest number of each sample, for `least` of -inf; NaN where there is none."""
    keep = bool(or_default(keepdims, False))
    missing = np.isnan(x)
    known = _core.where(missing, np.asarray(least, x.dtype), x)
    found = (_core.max if least < 0 else _core.min)(known, axis, keep)
    return finished(_core.where(np.all(missing, axis=axis, keepdims=keep), math.nan, found))


def nan_mean(x: Array, axis: _Axes, keepdims: Any) -> AnyArray:
    """Give the mean of what is a number; NaN where there is none."""
    keep = bool(or_default(keepdims, False))
    total, count = _sum_of_numbers(x, np.isnan(x), axis, keep)
    return finished(total / count)


def nan_var(x: Array, axis: _Axes, ddof: Any, keepdims: Any) -> AnyArray:
    """Give the variance of what is a number; NaN where there are too few of them."""
    keep = bool(or_default(keepdims, False))
    missing = np.isnan(x)
    total, count = _sum_of_numbers(x, missing, axis, keep=True)
    deviation = _core.where(missing, 0, x - total / np.maximum(count, 1))
    square, count = _sum_of_numbers(deviation**2, missing, axis, keep)
    free = count - ddof
    too_few = free <= 0
    return finished(_core.where(too_few, math.nan, square / _core.where(too_few, 1, free)))


def _sum_of_numbers(x: Array, missing: Any, axis: _Axes, keep: bool) -> tuple[Any, Any]:
    total = _core.sum(_core.where(missing, 0, x), axis, keep)
    return total, np.sum(~missing, axis=axis, keepdims=keep).astype(x.dtype)


@override(np.nanvar)
def nanvar(
    a: ArrayLike,
    axis: _Axes = None,
    dtype: Any = None,
    out: AnyArray | None = None,
    ddof: Any = 0,
    keepdims: Any = np._NoValue,
    **others: Any,
) -> AnyArray:
    if is_mapped(a) and _core.asarray(a).dtype.kind == "f":
        correction = or_default(others.get("correction", np._NoValue), ddof)
        rest = [value for name, value in others.items() if name != "correction"]
        if dtype is None and out is None and all(value is np._NoValue for value in rest):
            return nan_var(_core.asarray(a), axis, correction, keepdims)
    result: AnyArray = rebound(np.nanvar)(a, axis, dtype, out, ddof, keepdims, **others)
    return result


@override(np.average)
def average(
    a: ArrayLike,
    axis: _Axes = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: Any = np._NoValue,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    if weights is not None and is_mapped(a, weights):
        x, w = _core.asarray(a), _core.asarray(weights)
        dtype = np.result_type(x.dtype, w.dtype, *(["f8"] if x.dtype.kind in "biu" else []))
        if (
            w.shape != x.shape
            and w.ndim == 1
            and isinstance(axis, int)
            and (w.shape[0] == x.shape[axis])
        ):
            w = _core.reshape(w, [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
            w = _core.broadcast_to(w, x.shape)
        if w.shape == x.shape:
            keep = bool(or_default(keepdims, False))
            scale = _core.sum(w.astype(dtype), axis, keep)
            mean = finished(_core.sum(x * w.astype(dtype), axis, keep) / scale)
            return (mean, scale) if returned else mean
    result: AnyArray | tuple[AnyArray, AnyArray]
    result = rebound(np.average)(a, axis, weights, returned, keepdims=keepdims)
    return result


@override(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    **options: Any,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    result: AnyArray | tuple[AnyArray, AnyArray]
    if not is_mapped(start, stop) or dtype is not None or num < 0:
        compute = rebound(np.linspace)
        result = compute(start, stop, num, endpoint, retstep, dtype, axis, **options)
        return result
    parts = num - 1 if endpoint else num
    length: Any = np.subtract(stop, start) * 1.0
    step: Any = length / parts if parts > 0 else math.nan
    places = np.arange(num, dtype=length.dtype).reshape(-1, *[1] * length.ndim)
    found: Any = places * (step if parts > 0 else length) + start
    if endpoint and num > 1:
        found = FUNCTIONS[np.where](places == num - 1, stop, found)
    found = np.moveaxis(found, 0, axis) if axis else found
    result = (found, step) if retstep else found
    return result
