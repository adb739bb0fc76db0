"""Fourier transforms along axes that `numpy.fft` and `scipy.fft` share, composed of primitives."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from cotan import _core
from cotan._core import Array
from cotan._src.typing import AnyArray, ArrayLike

_TYPES = "fdFD"
_NORMS = {None: 0, "backward": 0, "ortho": 1, "forward": 2}


def numbers(x: ArrayLike) -> Array:
    """Give an array in a dtype that can be transformed: single or double precision."""
    x = _core.asarray(x)
    if x.dtype.char in _TYPES:
        return x
    return _core.cast(x, np.float32 if x.dtype == np.float16 else np.float64)


def is_complex(x: AnyArray) -> bool:
    """Say whether an array holds complex numbers."""
    return bool(x.dtype.kind == "c")


def factor(norm: str | None, inverse: bool, lengths: Iterable[int]) -> float:
    """Give what a transform is multiplied by."""
    if norm is None and not inverse:
        return 1.0
    try:
        way = _NORMS[norm]
    except (KeyError, TypeError):
        raise ValueError(
            f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".'
        ) from None
    if way == 1:
        return 1 / math.sqrt(math.prod(lengths))
    return 1 / math.prod(lengths) if (way == 2) != inverse else 1.0


def length_of(x: AnyArray, n: int | None, axis: int) -> int:
    """Give the length along an axis: what was asked for, or what there is."""
    length: int = x.shape[axis] if n is None else int(n)
    if length < 1:
        raise ValueError(f"Invalid number of FFT data points ({length}) specified.")
    return length


def axis_of(x: AnyArray, axis: int) -> int:
    """Give an axis as an index from the front."""
    index: int = normalize_axis_index(axis, x.ndim)
    return index


def resized(x: Array, lengths: Sequence[int], axes: Sequence[int]) -> Array:
    """Cut off or fill up with zeros, along axes."""
    # Short transforms take no longer than a loop over their axes would.
    if len(axes) == 1 and x.shape[axes[0]] == lengths[0]:
        return x
    shape = list(x.shape)
    if [shape[axis] for axis in axes] == list(lengths):
        return x
    for n, axis in zip(lengths, axes, strict=True):
        shape[axis] = n
    if any(n < m for n, m in zip(shape, x.shape, strict=True)):
        x = x[tuple(slice(min(n, m)) for n, m in zip(shape, x.shape, strict=True))]
    if tuple(shape) != tuple(x.shape):
        x = _core.pad(x, shape, [0] * x.ndim, [1] * x.ndim)
    return x


def conjugated(x: Array) -> Array:
    """Give the complex conjugate."""
    return x.conj()


def complex_transform(
    x: Array, lengths: Sequence[int], axes: Sequence[int], inverse: bool, scale: float
) -> Array:
    """Transform along axes, all of them different."""
    return _core.fourier(resized(x, lengths, axes), axes, inverse, scale)


def half_transform(
    x: Array, lengths: Sequence[int], axes: Sequence[int], inverse: bool, scale: float
) -> Array:
    """Transform real numbers, along the last of the axes to the first half of the spectrum."""
    last = axes[-1]
    result = _core.real_fourier(resized(x, lengths, axes), last, scale)
    if inverse:
        result = conjugated(result)
    if len(axes) > 1:
        result = _core.fourier(result, list(axes[:-1]), inverse, 1.0)
    return result


def real_transform(
    x: Array, lengths: Sequence[int], axes: Sequence[int], inverse: bool, scale: float
) -> Array:
    """Transform to real numbers; along the last of the axes is the first half of a spectrum."""
    if not is_complex(x):
        x = _core.cast(x, np.complex64 if x.dtype == np.float32 else np.complex128)
    last, n = axes[-1], lengths[-1]
    x = resized(x, [*lengths[:-1], n // 2 + 1], axes)
    if len(axes) > 1:
        x = _core.fourier(x, list(axes[:-1]), inverse, 1.0)
    if not inverse:
        x = conjugated(x)
    return _core.fourier_real(x, last, n, scale)
