"""Arguments of pieces of networks: the dtype to compute in, axes, and reductions of losses."""

from collections.abc import Sequence

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from cotan import _core
from cotan._core import Array
from cotan._src.typing import ArrayLike, Dtype


def floating(name: str, *arrays: ArrayLike | None) -> tuple[list[Array], Dtype]:
    """Give arrays in the dtype that is computed in, and the dtype of the result.

    Those are the common dtype of the arrays, but for integers, which become float64, and float16,
    which is computed in float32. None is left out.
    """
    xs = [_core.asarray(x) for x in arrays if x is not None]
    dtype = np.result_type(*(x.dtype for x in xs))
    if dtype.kind == "c":
        raise TypeError(f"{name}: complex numbers are not supported; pass real and imaginary parts")
    if dtype.kind != "f":
        dtype = np.dtype(np.float64)
    wide = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    return [_core.cast(x, wide) for x in xs], dtype


def rounded(x: Array, dtype: Dtype) -> Array:
    """Give a result in its dtype, after it was computed in a wider one."""
    return _core.cast(x, dtype)


def normalized_axes(name: str, axis: int | Sequence[int], x: Array) -> tuple[int, ...]:
    """Give axes as non-negative numbers."""
    try:
        axes: tuple[int, ...] = normalize_axis_tuple(axis, x.ndim)
    except ValueError as error:
        raise ValueError(f"{name}: x of shape {x.shape} has no axis {axis}: {error}") from None
    return axes


def reduced(name: str, losses: Array, reduction: str) -> Array:
    """Reduce the losses of all examples to one, if that is asked for."""
    if reduction == "none":
        return losses
    if reduction == "sum":
        return _core.sum(losses)
    if reduction == "mean":
        return _core.mean(losses)
    raise ValueError(f"{name}: reduction must be 'mean', 'sum' or 'none', not {reduction!r}")


def expect_broadcast(name: str, what: str, x: Array, shape: tuple[int, ...]) -> None:
    """Refuse an array that does not broadcast to a shape."""
    try:
        fits = np.broadcast_shapes(x.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{name}: {what} of shape {x.shape} does not broadcast to {shape}")
