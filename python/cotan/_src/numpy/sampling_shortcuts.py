"""Overrides of NumPy functions of samples that branch on values where a gradient may not."""

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from cotan import _core
from cotan._core import Array
from cotan._src.rebind.engine import rebound
from cotan._src.rebind.numpy_substitutes import asarray as host_asarray
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import contains_active, is_active
from cotan._src.typing import AnyArray, ArrayLike, Axes


@override(np.gradient)
def gradient(
    f: ArrayLike, *varargs: Any, axis: Axes = None, edge_order: int = 1
) -> AnyArray | tuple[AnyArray, ...]:
    f = _core.asarray(f)
    varargs = tuple(host_asarray(v) if contains_active(v) else v for v in varargs)
    if not any(is_active(v) and v.ndim == 1 for v in varargs):
        compute = rebound(np.gradient)
        result: AnyArray | tuple[AnyArray, ...]
        result = compute(f, *varargs, axis=axis, edge_order=edge_order)
        return result
    # NumPy looks whether the distances are equal and reads only the first one then.
    axes = tuple(range(f.ndim)) if axis is None else normalize_axis_tuple(axis, f.ndim)
    if len(varargs) != len(axes):
        raise TypeError("invalid number of arguments")
    slopes = [
        _slope(f, x, at, edge_order)
        if is_active(x) and x.ndim == 1
        else rebound(np.gradient)(f, x, axis=at, edge_order=edge_order)
        for x, at in zip(varargs, axes, strict=True)
    ]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _slope(f: Array, x: Array, axis: int, edge_order: int) -> AnyArray:
    """Differentiate the parabolas through neighbours, at any distances, along one axis."""
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    n = f.shape[axis]
    if len(x) != n:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least "
            "(edge_order + 1) elements are required."
        )
    f = _core.asarray(f, np.float64) if f.dtype.kind in "biu" else f
    rows = np.moveaxis(f, axis, -1)  # type: ignore[type-var]
    width = np.diff(x)
    steps = np.diff(rows) / width
    left, right = width[:-1], width[1:]
    bend = (steps[..., 1:] - steps[..., :-1]) / (left + right)
    inner = steps[..., :-1] + left * bend
    first, last = steps[..., :1], steps[..., -1:]
    if edge_order == 2:
        first = first - width[:1] * bend[..., :1]
        last = last + width[-1:] * bend[..., -1:]
    slope = np.concatenate([first, inner, last], -1)
    return np.moveaxis(slope, -1, axis).astype(f.dtype)


@override(np.cov)
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    *args: object,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    **kwargs: object,
) -> AnyArray:
    # What NumPy changes in place has to be an `Array` to begin with.
    samples, fweights, aweights = _copied(m), _copied(fweights), _copied(aweights)
    result: AnyArray = rebound(np.cov)(
        samples, y, *args, fweights=fweights, aweights=aweights, **kwargs
    )
    return result


def _copied(x: ArrayLike | None) -> Array | None:
    return None if x is None else _core.array(host_asarray(x))
