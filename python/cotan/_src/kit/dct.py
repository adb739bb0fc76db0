"""Cosine and sine transforms, written as Fourier transforms of the same length.

Types II and III: the even elements, followed by the odd ones in reverse order, are transformed and
rotated (Makhoul 1980). Type IV: pairs of elements make one complex number, when the length is even.
Type I: an even or odd continuation. A sine transform is a cosine transform of the elements with
changed signs or in reverse order.
"""

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.kit.fourier import factor, is_complex, resized
from cotan._src.typing import AnyArray, NDArray

_SINGLE = {np.dtype(np.float32), np.dtype(np.complex64)}


def cosines(
    x: Array, type: int, lengths: Sequence[int], axes: Sequence[int], norm: str | None,
    ortho: bool | None, *, sine: bool, inverse: bool,
) -> AnyArray:  # fmt: skip
    """Give the cosine or sine transform of a type along axes, in SciPy's normalisation."""
    type = operator.index(type)
    if type not in {1, 2, 3, 4}:
        raise ValueError(f"{'dst' if sine else 'dct'}: type must be 1, 2, 3 or 4, not {type}")
    delta = 0 if type != 1 else 1 if sine else -1
    if any(n + delta < 1 for n in lengths):
        raise ValueError("dct: type 1 needs at least two elements along each axis")
    scale = factor(norm, inverse, [2 * (n + delta) for n in lengths])
    if inverse:
        type = {2: 3, 3: 2}.get(type, type)
    x = resized(x, lengths, axes)
    # SciPy does not hand on `orthogonalize` with complex numbers.
    ortho = norm == "ortho" if ortho is None or is_complex(x) else bool(ortho)
    if is_complex(x):
        parts = (_along_axes(part, type, axes, ortho, sine) for part in (x.real, x.imag))
        y = _core.apply("complex", *parts)
    else:
        y = _along_axes(x, type, axes, ortho, sine)
    return y if scale == 1 else y * scale


def _along_axes(x: Any, type: int, axes: Sequence[int], ortho: bool, sine: bool) -> Any:
    for axis in axes:
        y = np.moveaxis(x, axis, -1)
        y = (_SINES if sine else _COSINES)[type](y, ortho)
        x = np.moveaxis(y, -1, axis)  # type: ignore[type-var]
    return x


def _constant(values: NDArray, x: Array) -> NDArray:
    """Give constant factors in the precision of an array."""
    if values.dtype.kind == "c":
        return values.astype(np.complex64 if x.dtype in _SINGLE else np.complex128)
    return values.astype(x.dtype)


def _turn(x: Array, angles: NDArray) -> NDArray:
    """Give `exp(1j * angles)` in the precision of an array."""
    return _constant(np.exp(1j * angles), x)


def _weighted(x: Array, at: int, weight: float) -> Array:
    """Multiply one element along the last axis."""
    weights = np.ones(x.shape[-1])
    weights[at] = weight
    return x * _constant(weights, x)


def _half(x: Array) -> Array:
    return _core.real_fourier(x, x.ndim - 1, 1.0)


def _signs(x: Array) -> NDArray:
    return _constant(1.0 - 2.0 * (np.arange(x.shape[-1]) % 2), x)


def _two(x: Array, ortho: bool, at: int = 0) -> Array:
    n = x.shape[-1]
    v = _core.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], axis=-1)
    z = _half(v) * _turn(x, -np.pi * np.arange(n // 2 + 1) / (2 * n))
    first, second = z.real, z.imag[..., 1 : (n + 1) // 2]
    y = 2 * _core.concatenate([first, -second[..., ::-1]], axis=-1)
    return _weighted(y, at, math.sqrt(0.5)) if ortho else y


def _three(x: Array, ortho: bool, at: int = 0) -> Array:
    n = x.shape[-1]
    if ortho:
        x = _weighted(x, at, math.sqrt(2))
    half = n // 2 + 1
    zero = np.zeros((*x.shape[:-1], 1), x.dtype)
    other = _core.concatenate([zero, x[..., : n - half : -1] if half > 1 else x[..., :0]], axis=-1)
    z = _core.apply("complex", x[..., :half], -other)
    z = z * _turn(x, np.pi * np.arange(half) / (2 * n))
    v = _core.fourier_real(z, z.ndim - 1, n, 1.0)
    even = (n + 1) // 2
    lead = list(x.shape[:-1])
    start, step = [0] * len(lead), [1] * len(lead)
    y = _core.pad(v[..., :even], [*lead, n], [*start, 0], [*step, 2])
    if n == 1:
        return y
    return y + _core.pad(v[..., even:][..., ::-1], [*lead, n], [*start, 1], [*step, 2])


def _four(x: Array, ortho: bool) -> Array:
    del ortho
    n = x.shape[-1]
    if n % 2:
        return _four_of_odd(x)
    k = np.arange(n // 2)
    z = _core.apply("complex", x[..., ::2], x[..., ::-1][..., ::2])
    z = z * _turn(x, -np.pi * (4 * k + 1) / (4 * n))
    z = _core.fourier(z, [z.ndim - 1], False, 2.0) * _turn(x, -np.pi * k / n)
    pair = [z.real, -z.imag[..., ::-1]]
    return _core.reshape(np.stack(pair, axis=-1), x.shape)


def _four_of_odd(x: Array) -> Array:
    n = x.shape[-1]
    k = np.arange(n)
    z = resized(x * _turn(x, -np.pi * k / (2 * n)), [2 * n], [x.ndim - 1])
    z = _core.fourier(z, [z.ndim - 1], False, 2.0)[..., :n]
    return (z * _turn(x, -np.pi * (2 * k + 1) / (4 * n))).real


def _one(x: Array, ortho: bool) -> Array:
    n = x.shape[-1]
    if ortho:
        x = _weighted(_weighted(x, 0, math.sqrt(2)), n - 1, math.sqrt(2))
    y = _half(_core.concatenate([x, x[..., n - 2 : 0 : -1]], axis=-1)).real
    if ortho:
        y = _weighted(_weighted(y, 0, math.sqrt(0.5)), n - 1, math.sqrt(0.5))
    return y


def _sine_one(x: Array, ortho: bool) -> Array:
    del ortho
    zero = np.zeros((*x.shape[:-1], 1), x.dtype)
    z = _half(_core.concatenate([zero, x, zero, -x[..., ::-1]], axis=-1))
    return -z.imag[..., 1:-1]


def _sine_two(x: Array, ortho: bool) -> Array:
    return _two(x * _signs(x), ortho)[..., ::-1]


def _sine_three(x: Array, ortho: bool) -> Array:
    return _three(x[..., ::-1], ortho) * _signs(x)


def _sine_four(x: Array, ortho: bool) -> Array:
    return _four(x[..., ::-1], ortho) * _signs(x)


_COSINES = {1: _one, 2: _two, 3: _three, 4: _four}
_SINES = {1: _sine_one, 2: _sine_two, 3: _sine_three, 4: _sine_four}
