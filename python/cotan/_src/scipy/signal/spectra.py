"""Overrides of the spectra of `scipy.signal`: all segments of a signal at once.

SciPy's code goes through the segments one after the other, and so would its derivative.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.rebind.engine import REBOUND, REBOUND_METHOD
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import (
    METHOD,
    REBOUND_CLASS,
    SUBSTITUTE,
    SUBSTITUTE_MEMBER,
    named,
    override,
)
from cotan._src.scipy.signal.filtering import detrend, lengthened
from cotan._src.typing import AnyArray

#: So many slices are joined; more of them are gathered by an index.
_FEW = 32


def segments(x: AnyArray, length: int, step: int, count: int) -> AnyArray:
    """Give parts of the last axis as rows, each a step further on than the one before."""
    if count <= _FEW:
        return np.stack([x[..., k : k + length] for k in range(0, count * step, step)], -2)
    reach = -(-length // step)
    if reach > _FEW:
        return np.take(x, np.arange(count)[:, None] * step + np.arange(length), -1)
    # Cut into steps, segments are rows side by side.
    whole = lengthened(_core.asarray(x), (count - 1 + reach) * step)
    steps = _core.reshape(whole, (*x.shape[:-1], count - 1 + reach, step))
    return np.concatenate([steps[..., k : k + count, :] for k in range(reach)], -1)[..., :length]


@override("scipy.signal._spectral_py._fft_helper", kind=SUBSTITUTE)
def _spectra_of_segments(x: AnyArray, win: AnyArray, detrend_func: Callable[[Any], AnyArray],
                         nperseg: int, noverlap: int, nfft: int, sides: str) -> Array:  # fmt: skip
    step = nperseg - noverlap
    rows = segments(asarray(x), nperseg, step, (x.shape[-1] - nperseg) // step + 1)
    windowed = win * detrend_func(rows)
    if sides == "twosided":
        return np.fft.fft(windowed, n=nfft)  # type: ignore[return-value]
    return np.fft.rfft(windowed.real, n=nfft)  # type: ignore[return-value]


# --------------------------------------------------------------------------------------------------
# Short-time Fourier transforms

_TRANSFORM = "scipy.signal._short_time_fft.ShortTimeFFT"

_PADDINGS: dict[str, dict[str, Any]] = {
    "zeros": {"mode": "constant"},
    "edge": {"mode": "edge"},
    "even": {"mode": "reflect", "reflect_type": "even"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
}


@override(f"{_TRANSFORM}.stft_detrend", kind=SUBSTITUTE_MEMBER)
def _stft_detrend(self: Any, x: AnyArray, detr: Callable[[Any], AnyArray] | str | None,
                  p0: int | None = None, p1: int | None = None, *, k_offset: int = 0,
                  padding: str = "zeros", axis: int = -1) -> AnyArray:  # fmt: skip
    if self.onesided_fft and x.dtype.kind == "c":
        raise ValueError(f"Complex-valued `x` not allowed for {self.fft_mode=}'! "
                         "Set property `fft_mode` to 'twosided' or 'centered'.")  # fmt: skip
    if not (detr is None or isinstance(detr, str) or callable(detr)):
        raise ValueError(f"Parameter {detr=} is not a str, function or None!")
    n, length, hop = x.shape[axis], self.m_num, self.hop
    if n < (least := length - self.m_num_mid):
        given = f"{len(x)=}" if x.ndim == 1 else f"of {axis=} of {x.shape}"
        raise ValueError(f"{given} must be >= ceil(m_num/2) = {least}!")
    x = np.moveaxis(x, axis, -1)  # type: ignore[type-var]
    p0, p1 = self.p_range(n, p0, p1)
    if padding not in _PADDINGS:
        raise ValueError(f"Parameter {padding=} not in {tuple(_PADDINGS)}!")
    count = p1 - p0
    start = p0 * hop - self.m_num_mid + k_offset
    end = start + count * hop + length
    widths = [(0, 0)] * (x.ndim - 1) + [(max(-start, 0), max(end - n, 0))]
    x = np.pad(x[..., max(start, 0) : min(end, n)], widths, **_PADDINGS[padding])
    window = self.win.conj()
    if callable(detr):
        parts = (x[..., k : k + length] for k in range(0, count * hop, hop))
        rows: AnyArray = np.stack([detr(part) * window for part in parts], -2)
    else:
        rows = segments(x, length, hop, count)
        rows = (rows if detr is None else detrend(rows, type=detr)) * window
    # It takes no more than two axes.
    spectra = self._fft_func(np.reshape(rows, (-1, length)))
    shape = (*rows.shape[:-1], self.f_pts)
    result = np.swapaxes(_core.asarray(np.reshape(spectra, shape), np.complex128), -1, -2)
    return np.moveaxis(result, -2, axis if axis >= 0 else axis - 1)


override(_TRANSFORM, kind=REBOUND_CLASS)(None)
override(*named("scipy.signal.ShortTimeFFT", "stft stft_detrend istft spectrogram"), kind=METHOD)(
    REBOUND_METHOD
)
override(
    *named("scipy.signal", "csd coherence istft periodogram spectrogram stft welch"),
)(REBOUND)
