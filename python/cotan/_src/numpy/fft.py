"""`numpy.fft` on `Array`s."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cotan import _core
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


def _expect_real(name: str, x: Any) -> None:
    if is_complex(x):
        raise TypeError(f"{name}: takes real numbers, not {x.dtype}; use x.real, or fft")


def _fft(name: str, inverse: bool) -> Callable[..., Any]:
    def transform(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        if n is norm is out is None and not inverse:
            found = _core.usual_fourier(a, axis, False)
            if found is not None:
                return found
        a = numbers(a)
        axis = axis_of(a, axis)
        n = length_of(a, n, axis)
        scale = factor(norm, inverse, [n])
        return write_out(name, out, complex_transform(a, [n], [axis], inverse, scale))

    return transform


def _half(name: str, inverse: bool) -> Callable[..., Any]:
    def transform(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        if n is norm is out is None and not inverse:
            found = _core.usual_fourier(a, axis, True)
            if found is not None:
                return found
        a = numbers(a)
        _expect_real(name, a)
        axis = axis_of(a, axis)
        n = length_of(a, n, axis)
        scale = factor(norm, inverse, [n])
        return write_out(name, out, half_transform(a, [n], [axis], inverse, scale))

    return transform


def _real(name: str, inverse: bool) -> Callable[..., Any]:
    def transform(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        a = numbers(a)
        axis = axis_of(a, axis)
        n = length_of(a, 2 * (a.shape[axis] - 1) if n is None else n, axis)
        scale = factor(norm, inverse, [n])
        return write_out(name, out, real_transform(a, [n], [axis], inverse, scale))

    return transform


def _lengths(a: Any, s: Any, axes: Any, to_real: bool) -> tuple[list[int], list[int]]:
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


def _along(a: Any, lengths: list[int], axes: list[int], norm: Any, inverse: bool) -> Any:
    """Transform along axes from the last one on; along one as often as it is named."""
    if len(set(axes)) == len(axes):
        return complex_transform(a, lengths, axes, inverse, factor(norm, inverse, lengths))
    for n, axis in zip(reversed(lengths), reversed(axes), strict=True):
        a = complex_transform(a, [n], [axis], inverse, factor(norm, inverse, [n]))
    return a


def _several(name: str, inverse: bool, default: Any) -> Callable[..., Any]:
    def transform(
        a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None
    ) -> Any:
        a = numbers(a)
        if a.ndim == 0 or (axes is not None and not len(axes)):
            return write_out(name, out, a)
        lengths, found = _lengths(a, s, axes, False)
        return write_out(name, out, _along(a, lengths, found, norm, inverse))

    return transform


def _several_half(name: str, default: Any) -> Callable[..., Any]:
    def transform(
        a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None
    ) -> Any:
        a = numbers(a)
        _expect_real(name, a)
        lengths, found = _lengths(a, s, axes, False)
        n, axis = lengths[-1], found[-1]
        result = half_transform(a, [n], [axis], False, factor(norm, False, [n]))
        if found[:-1]:
            result = _along(result, lengths[:-1], found[:-1], norm, False)
        return write_out(name, out, result)

    return transform


def _several_real(name: str, default: Any) -> Callable[..., Any]:
    def transform(
        a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None
    ) -> Any:
        a = numbers(a)
        lengths, found = _lengths(a, s, axes, True)
        if found[:-1]:
            a = _along(a, lengths[:-1], found[:-1], norm, True)
        n, axis = lengths[-1], found[-1]
        result = real_transform(a, [n], [axis], True, factor(norm, True, [n]))
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
