"""Overrides of `scipy.fft` and `scipy.fftpack`."""

import importlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.kit.dct import cosines
from cotan._src.kit.fourier import (
    axis_of,
    complex_transform,
    factor,
    half_transform,
    is_complex,
    numbers,
    real_transform,
    resized,
)
from cotan._src.rebind.engine import locate
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import call_on_values, contains_active, refuse
from cotan._src.typing import AnyArray, ArrayLike, Axes, Function


def _expect_plain(plan: object) -> None:
    if plan is not None:  # SciPy has none either, and says so in these words
        raise NotImplementedError(
            "Passing a precomputed plan is not yet supported by scipy.fft functions"
        )


def _expect_real(x: AnyArray) -> None:
    if is_complex(x):
        raise TypeError("x must be a real sequence")


def _lengths(
    x: AnyArray, s: int | Sequence[int] | None, axes: Axes, to_real: bool = False
) -> tuple[list[int], list[int]]:
    """Give lengths and axes as SciPy reads them."""
    if axes is not None:
        axes = [operator.index(a) for a in (axes if np.iterable(axes) else (axes,))]
        axes = [a + x.ndim if a < 0 else a for a in axes]
        if any(a < 0 or a >= x.ndim for a in axes):
            raise ValueError("axes exceeds dimensionality of input")
        if len(set(axes)) != len(axes):
            raise ValueError("all axes must be unique")
    if s is None:
        axes = list(range(x.ndim)) if axes is None else axes
        lengths = [x.shape[a] for a in axes]
        if to_real and lengths:
            lengths[-1] = 2 * (lengths[-1] - 1)
    else:
        lengths = [operator.index(n) for n in (s if np.iterable(s) else (s,))]
        if axes is None:
            if len(lengths) > x.ndim:
                raise ValueError("shape requires more axes than are present")
            axes = list(range(x.ndim - len(lengths), x.ndim))
        if len(axes) != len(lengths):
            raise ValueError("when given, axes and shape arguments have to be of the same length")
        lengths = [x.shape[a] if n == -1 else n for n, a in zip(lengths, axes, strict=True)]
    if any(n < 1 for n in lengths):
        raise ValueError(f"invalid number of data points ({lengths}) specified")
    return lengths, axes


def _length(x: AnyArray, n: int | None, axis: int) -> int:
    n = x.shape[axis] if n is None else operator.index(n)
    if n < 1:
        raise ValueError(f"invalid number of data points ({n}) specified")
    return int(n)


# --------------------------------------------------------------------------------------------------
# Fourier transforms. `overwrite_x` is a permission, and the number of workers that of all of cotan.


def _fft(inverse: bool) -> Callable[..., AnyArray]:
    def transform(x: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None,
                  overwrite_x: bool = False, workers: int | None = None, *,
                  plan: object = None) -> AnyArray:  # fmt: skip
        _expect_plain(plan)
        x = numbers(x)
        axis = axis_of(x, axis)
        n = _length(x, n, axis)
        return complex_transform(x, [n], [axis], inverse, factor(norm, inverse, [n]))

    return transform


def _fftn(inverse: bool, default: tuple[int, int] | None = None) -> Callable[..., AnyArray]:
    def transform(x: ArrayLike, s: int | Sequence[int] | None = None, axes: Axes = default,
                  norm: str | None = None, overwrite_x: bool = False, workers: int | None = None, *,
                  plan: object = None) -> AnyArray:  # fmt: skip
        _expect_plain(plan)
        x = numbers(x)
        lengths, found = _lengths(x, s, axes)
        if not found:
            return x
        return complex_transform(x, lengths, found, inverse, factor(norm, inverse, lengths))

    return transform


def _rfft(inverse: bool) -> Callable[..., AnyArray]:
    def transform(x: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None,
                  overwrite_x: bool = False, workers: int | None = None, *,
                  plan: object = None) -> AnyArray:  # fmt: skip
        _expect_plain(plan)
        x = numbers(x)
        _expect_real(x)
        axis = axis_of(x, axis)
        n = _length(x, n, axis)
        return half_transform(x, [n], [axis], inverse, factor(norm, inverse, [n]))

    return transform


def _rfftn(inverse: bool, default: tuple[int, int] | None = None) -> Callable[..., AnyArray]:
    def transform(x: ArrayLike, s: int | Sequence[int] | None = None, axes: Axes = default,
                  norm: str | None = None, overwrite_x: bool = False, workers: int | None = None, *,
                  plan: object = None) -> AnyArray:  # fmt: skip
        _expect_plain(plan)
        x = numbers(x)
        _expect_real(x)
        lengths, found = _lengths(x, s, axes)
        if not found:
            raise ValueError("at least 1 axis must be transformed")
        return half_transform(x, lengths, found, inverse, factor(norm, inverse, lengths))

    return transform


def _irfft(inverse: bool) -> Callable[..., AnyArray]:
    def transform(x: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None,
                  overwrite_x: bool = False, workers: int | None = None, *,
                  plan: object = None) -> AnyArray:  # fmt: skip
        _expect_plain(plan)
        x = numbers(x)
        axis = axis_of(x, axis)
        n = _length(x, 2 * (x.shape[axis] - 1) if n is None else n, axis)
        return real_transform(x, [n], [axis], inverse, factor(norm, inverse, [n]))

    return transform


def _irfftn(inverse: bool, default: tuple[int, int] | None = None) -> Callable[..., AnyArray]:
    def transform(x: ArrayLike, s: int | Sequence[int] | None = None, axes: Axes = default,
                  norm: str | None = None, overwrite_x: bool = False, workers: int | None = None, *,
                  plan: object = None) -> AnyArray:  # fmt: skip
        _expect_plain(plan)
        x = numbers(x)
        lengths, found = _lengths(x, s, axes, True)
        if not found:
            raise ValueError("at least 1 axis must be transformed")
        return real_transform(x, lengths, found, inverse, factor(norm, inverse, lengths))

    return transform


# --------------------------------------------------------------------------------------------------
# Cosine and sine transforms


def _cosine(sine: bool, inverse: bool) -> Callable[..., AnyArray]:
    def transform(
        x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
        overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
    ) -> AnyArray:  # fmt: skip
        x = numbers(x)
        axis = axis_of(x, axis)
        n = _length(x, n, axis)
        return cosines(x, type, [n], [axis], norm, orthogonalize, sine=sine, inverse=inverse)

    return transform


def _cosine_n(sine: bool, inverse: bool) -> Callable[..., AnyArray]:
    def transform(
        x: ArrayLike, type: int = 2, s: int | Sequence[int] | None = None, axes: Axes = None,
        norm: str | None = None, overwrite_x: bool = False, workers: int | None = None,
        orthogonalize: bool | None = None,
    ) -> AnyArray:  # fmt: skip
        x = numbers(x)
        lengths, found = _lengths(x, s, axes)
        if not found:
            return x
        return cosines(x, type, lengths, found, norm, orthogonalize, sine=sine, inverse=inverse)

    return transform


def _shifted(name: str) -> Callable[..., AnyArray]:
    def shift(x: ArrayLike, axes: Axes = None) -> AnyArray:
        shifted: AnyArray = getattr(np.fft, name)(x, axes)
        return shifted

    return shift


def _on_values(module: str, name: str) -> Function:
    """Run what has no rule on values, as long as these are not active."""

    def function(*args: Any, **kwargs: Any) -> Any:
        if contains_active(args) or contains_active(kwargs):
            raise refuse(f"{module}.{name}")
        return call_on_values(getattr(importlib.import_module(module), name), args, kwargs)

    return function


_LAST_TWO = (-2, -1)
_FFT = {
    "fft": _fft(False),
    "ifft": _fft(True),
    "fft2": _fftn(False, _LAST_TWO),
    "ifft2": _fftn(True, _LAST_TWO),
    "fftn": _fftn(False),
    "ifftn": _fftn(True),
    "rfft": _rfft(False),
    "irfft": _irfft(True),
    "rfft2": _rfftn(False, _LAST_TWO),
    "irfft2": _irfftn(True, _LAST_TWO),
    "rfftn": _rfftn(False),
    "irfftn": _irfftn(True),
    "hfft": _irfft(False),
    "ihfft": _rfft(True),
    "hfft2": _irfftn(False, _LAST_TWO),
    "ihfft2": _rfftn(True, _LAST_TWO),
    "hfftn": _irfftn(False),
    "ihfftn": _rfftn(True),
    "dct": _cosine(False, False),
    "idct": _cosine(False, True),
    "dst": _cosine(True, False),
    "idst": _cosine(True, True),
    "dctn": _cosine_n(False, False),
    "idctn": _cosine_n(False, True),
    "dstn": _cosine_n(True, False),
    "idstn": _cosine_n(True, True),
}


# --------------------------------------------------------------------------------------------------
# scipy.fftpack: other signatures, and real transforms in another order


def _packed(name: str) -> Callable[..., AnyArray]:
    def transform(
        x: ArrayLike, n: int | None = None, axis: int = -1, overwrite_x: bool = False
    ) -> AnyArray:
        return _FFT[name](x, n, axis)

    return transform


def _packed_n(name: str, default: tuple[int, int] | None = None) -> Callable[..., AnyArray]:
    def transform(
        x: ArrayLike,
        shape: int | Sequence[int] | None = None,
        axes: Axes = default,
        overwrite_x: bool = False,
    ) -> AnyArray:
        return _FFT[name](x, shape, axes)

    return transform


# What is inverse here is the transposed matrix, times nothing.
_TRANSPOSED = {2: 3, 3: 2}


def _packed_cosine(name: str) -> Callable[..., AnyArray]:
    def transform(
        x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
        overwrite_x: bool = False,
    ) -> AnyArray:  # fmt: skip
        type = _TRANSPOSED.get(type, type) if name[0] == "i" else type
        return _FFT[name.removeprefix("i")](x, type, n, axis, norm)

    return transform


def _packed_cosine_n(name: str) -> Callable[..., AnyArray]:
    def transform(x: ArrayLike, type: int = 2, shape: int | Sequence[int] | None = None,
                  axes: Axes = None, norm: str | None = None,
                  overwrite_x: bool = False) -> AnyArray:  # fmt: skip
        type = _TRANSPOSED.get(type, type) if name[0] == "i" else type
        return _FFT[name.removeprefix("i")](x, type, shape, axes, norm)

    return transform


def _packed_rfft(
    x: ArrayLike, n: int | None = None, axis: int = -1, overwrite_x: bool = False
) -> AnyArray:
    """Give the half spectrum as real numbers: y0, Re y1, Im y1, Re y2, ..."""
    x = numbers(x)
    _expect_real(x)
    axis = axis_of(x, axis)
    n = _length(x, n, axis)
    y = np.moveaxis(half_transform(x, [n], [axis], False, 1.0), axis, -1)  # type: ignore[type-var]
    pairs = _core.reshape(np.stack([y.real, y.imag], axis=-1), (*y.shape[:-1], -1))
    kept = [pairs[..., :1], pairs[..., 2 : n + 1]]
    return np.moveaxis(_core.concatenate(kept, axis=-1), -1, axis)  # type: ignore[type-var]


def _packed_irfft(
    x: ArrayLike, n: int | None = None, axis: int = -1, overwrite_x: bool = False
) -> AnyArray:
    """Invert `_packed_rfft`."""
    x = numbers(x)
    _expect_real(x)
    axis = axis_of(x, axis)
    n = _length(x, n, axis)
    x = np.moveaxis(resized(x, [n], [axis]), axis, -1)  # type: ignore[type-var]
    zero = np.zeros((*x.shape[:-1], 1), x.dtype)
    parts: list[AnyArray] = [x[..., :1], zero, x[..., 1:], *([zero] if n % 2 == 0 else [])]
    pairs = _core.reshape(_core.concatenate(parts, axis=-1), (*x.shape[:-1], -1, 2))
    y = _core.apply("complex", pairs[..., 0], pairs[..., 1])
    y = real_transform(y, [n], [y.ndim - 1], True, 1 / n)
    return np.moveaxis(y, -1, axis)  # type: ignore[type-var]


def _circulant(name: str) -> Callable[..., AnyArray]:
    """Multiply the spectrum by what SciPy multiplies it by, which its answer to an impulse says."""

    def transform(x: ArrayLike, *args: Any, **kwargs: Any) -> AnyArray:
        if contains_active(args) or contains_active(kwargs):
            raise refuse(f"scipy.fftpack.{name} with respect to another argument than x")
        x = numbers(x)
        if x.ndim != 1:
            raise ValueError(f"{name}: takes an array with one axis, got shape {x.shape}")
        impulse = np.zeros(x.shape)
        impulse[:1] = 1.0
        factors = np.fft.fft(locate(f"scipy.fftpack.{name}")(impulse, *args, **kwargs))
        complex_ = x.dtype.kind == "c"
        y = np.fft.ifft(np.fft.fft(x.astype(complex if complex_ else float)) * factors)
        return y if complex_ else y.real

    return transform


if hasattr(_core, "fourier"):
    for _name, _implementation in _FFT.items():
        override(f"scipy.fft.{_name}")(_implementation)
    for _name in ("fht", "ifht"):
        override(f"scipy.fft.{_name}")(_on_values("scipy.fft", _name))
    for _name in ("fft", "ifft"):
        override(f"scipy.fftpack.{_name}")(_packed(_name))
    for _name in ("fftn", "ifftn"):
        override(f"scipy.fftpack.{_name}")(_packed_n(_name))
    for _name in ("fft2", "ifft2"):
        override(f"scipy.fftpack.{_name}")(_packed_n(_name, _LAST_TWO))
    for _name in ("dct", "idct", "dst", "idst"):
        override(f"scipy.fftpack.{_name}")(_packed_cosine(_name))
        override(f"scipy.fftpack.{_name}n")(_packed_cosine_n(f"{_name}n"))
    override("scipy.fftpack.rfft")(_packed_rfft)
    override("scipy.fftpack.irfft")(_packed_irfft)
    for _name in ("diff", "hilbert", "ihilbert", "tilbert", "itilbert", "shift"):
        override(f"scipy.fftpack.{_name}")(_circulant(_name))
    for _name in ("sc_diff", "cs_diff", "cc_diff", "ss_diff"):
        override(f"scipy.fftpack.{_name}")(_circulant(_name))
for _name in ("fftshift", "ifftshift"):
    override(f"scipy.fft.{_name}", f"scipy.fftpack.{_name}")(_shifted(_name))
