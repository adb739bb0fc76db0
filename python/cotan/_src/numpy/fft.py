"""Overrides of `numpy.fft`."""

from collections.abc import Callable, Sequence

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.kit.fourier import (
    axis_of,
    complex_transform,
    factor,
    half_transform,
    is_complex,
    length_of,
    numbers,
    real_transform,
)
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import write_out
from cotan._src.typing import AnyArray, ArrayLike


def _expect_real(name: str, x: AnyArray) -> None:
    if is_complex(x):
        raise TypeError(f"{name}: takes real numbers, not {x.dtype}; use x.real, or fft")


def _fft(name: str, inverse: bool) -> Callable[..., AnyArray]:
    def transform(
        a: ArrayLike,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        out: AnyArray | None = None,
    ) -> AnyArray:
        if n is None and norm is None and out is None and not inverse:
            found = _core.usual_fourier(a, axis, False)
            if found is not None:
                return found
        x = numbers(a)
        axis = axis_of(x, axis)
        n = length_of(x, n, axis)
        scale = factor(norm, inverse, [n])
        return write_out(name, out, complex_transform(x, [n], [axis], inverse, scale))

    return transform


def _half(name: str, inverse: bool) -> Callable[..., AnyArray]:
    def transform(
        a: ArrayLike,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        out: AnyArray | None = None,
    ) -> AnyArray:
        if n is None and norm is None and out is None and not inverse:
            found = _core.usual_fourier(a, axis, True)
            if found is not None:
                return found
        x = numbers(a)
        _expect_real(name, x)
        axis = axis_of(x, axis)
        n = length_of(x, n, axis)
        scale = factor(norm, inverse, [n])
        return write_out(name, out, half_transform(x, [n], [axis], inverse, scale))

    return transform


def _real(name: str, inverse: bool) -> Callable[..., AnyArray]:
    def transform(
        a: ArrayLike,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        out: AnyArray | None = None,
    ) -> AnyArray:
        x = numbers(a)
        axis = axis_of(x, axis)
        n = length_of(x, 2 * (x.shape[axis] - 1) if n is None else n, axis)
        scale = factor(norm, inverse, [n])
        return write_out(name, out, real_transform(x, [n], [axis], inverse, scale))

    return transform


def _lengths(
    a: AnyArray, s: Sequence[int | None] | None, axes: Sequence[int] | None, to_real: bool
) -> tuple[list[int], list[int]]:
    """Give lengths and axes of a transform along several, as NumPy reads them."""
    if axes is None:
        axes = range(a.ndim) if s is None else range(-len(s), 0)
    axes = [axis_of(a, axis) for axis in axes]
    if not axes:
        raise ValueError("fft: no axes to transform along")
    if s is None:
        lengths = [a.shape[axis] for axis in axes]
        if to_real:
            lengths[-1] = 2 * (lengths[-1] - 1)
    else:
        if len(s) != len(axes):
            raise ValueError("Shape and axes have different lengths.")
        pairs = zip(s, axes, strict=True)
        lengths = [a.shape[axis] if n in {-1, None} else n for n, axis in pairs]
    return [length_of(a, n, axis) for n, axis in zip(lengths, axes, strict=True)], axes


def _along(a: Array, lengths: list[int], axes: list[int], norm: str | None, inverse: bool) -> Array:
    """Transform along axes from the last one on; along one as often as it is named."""
    if len(set(axes)) == len(axes):
        return complex_transform(a, lengths, axes, inverse, factor(norm, inverse, lengths))
    for n, axis in zip(reversed(lengths), reversed(axes), strict=True):
        a = complex_transform(a, [n], [axis], inverse, factor(norm, inverse, [n]))
    return a


def _several(name: str, inverse: bool, default: Sequence[int] | None) -> Callable[..., AnyArray]:
    def transform(
        a: ArrayLike,
        s: Sequence[int | None] | None = None,
        axes: Sequence[int] | None = default,
        norm: str | None = None,
        out: AnyArray | None = None,
    ) -> AnyArray:
        x = numbers(a)
        if x.ndim == 0 or (axes is not None and not len(axes)):
            return write_out(name, out, x)
        lengths, found = _lengths(x, s, axes, False)
        return write_out(name, out, _along(x, lengths, found, norm, inverse))

    return transform


def _several_half(name: str, default: Sequence[int] | None) -> Callable[..., AnyArray]:
    def transform(
        a: ArrayLike,
        s: Sequence[int | None] | None = None,
        axes: Sequence[int] | None = default,
        norm: str | None = None,
        out: AnyArray | None = None,
    ) -> AnyArray:
        x = numbers(a)
        _expect_real(name, x)
        lengths, found = _lengths(x, s, axes, False)
        n, axis = lengths[-1], found[-1]
        result = half_transform(x, [n], [axis], False, factor(norm, False, [n]))
        if found[:-1]:
            result = _along(result, lengths[:-1], found[:-1], norm, False)
        return write_out(name, out, result)

    return transform


def _several_real(name: str, default: Sequence[int] | None) -> Callable[..., AnyArray]:
    def transform(
        a: ArrayLike,
        s: Sequence[int | None] | None = None,
        axes: Sequence[int] | None = default,
        norm: str | None = None,
        out: AnyArray | None = None,
    ) -> AnyArray:
        x = numbers(a)
        lengths, found = _lengths(x, s, axes, True)
        if found[:-1]:
            x = _along(x, lengths[:-1], found[:-1], norm, True)
        n, axis = lengths[-1], found[-1]
        result = real_transform(x, [n], [axis], True, factor(norm, True, [n]))
        return write_out(name, out, result)

    return transform


# A build without Fourier transforms refuses these functions by name.
if hasattr(_core, "fourier"):
    _LAST_TWO = (-2, -1)
    for _function, _implementation in {
        np.fft.fft: _fft("fft", False),
        np.fft.ifft: _fft("ifft", True),
        np.fft.rfft: _half("rfft", False),
        np.fft.irfft: _real("irfft", True),
        np.fft.hfft: _real("hfft", False),
        np.fft.ihfft: _half("ihfft", True),
        np.fft.fft2: _several("fft2", False, _LAST_TWO),
        np.fft.ifft2: _several("ifft2", True, _LAST_TWO),
        np.fft.fftn: _several("fftn", False, None),
        np.fft.ifftn: _several("ifftn", True, None),
        np.fft.rfft2: _several_half("rfft2", _LAST_TWO),
        np.fft.rfftn: _several_half("rfftn", None),
        np.fft.irfft2: _several_real("irfft2", _LAST_TWO),
        np.fft.irfftn: _several_real("irfftn", None),
    }.items():
        override(_function)(_implementation)
