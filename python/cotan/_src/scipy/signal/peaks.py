"""Overrides of `scipy.signal.find_peaks` and relatives: positions are constant, heights active."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.rebind.engine import locate
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import to_numpy
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.typing import AnyArray, ArrayLike, NDArray, Scalar

_HERE = "scipy.signal"

#: What a property has to be at least, or at least and at most; None where it may be anything.
_Bounds: TypeAlias = ArrayLike | Sequence[ArrayLike | None] | None


def _prominences(x: AnyArray, peaks: NDArray, left: NDArray, right: NDArray) -> AnyArray:
    heights: AnyArray = x[peaks]
    return heights - np.maximum(x[left], x[right])


def _crossings(x: AnyArray, height: AnyArray, known: NDArray, step: int) -> Array:
    """Give where a line between elements crosses a height, next to where it is known to."""
    values, level = to_numpy(x), to_numpy(height)
    inner = np.floor(known).astype(np.int64) if step > 0 else np.ceil(known).astype(np.int64)
    # Those that end at the bounds of a peak do not cross.
    crossed = values[inner] < level
    at = inner[crossed]
    part = (height[crossed] - x[at]) / (x[at + step] - x[at])
    return _core.index_update(inner.astype(np.float64), np.flatnonzero(crossed), at + step * part)


def _widths(
    x: AnyArray,
    peaks: NDArray,
    prominences: AnyArray,
    rel_height: Scalar,
    known: Mapping[str, NDArray],
) -> dict[str, AnyArray]:
    heights = x[peaks] - prominences * rel_height
    left = _crossings(x, heights, known["left_ips"], 1)
    right = _crossings(x, heights, known["right_ips"], -1)
    names: dict[str, AnyArray] = {"widths": right - left, "width_heights": heights}
    return names | {"left_ips": left, "right_ips": right}


@override(f"{_HERE}.find_peaks")
def find_peaks(
    x: ArrayLike,
    height: _Bounds = None,
    threshold: _Bounds = None,
    distance: Scalar | None = None,
    prominence: _Bounds = None,
    width: _Bounds = None,
    wlen: Scalar | None = None,
    rel_height: Scalar = 0.5,
    plateau_size: _Bounds = None,
) -> tuple[NDArray, dict[str, AnyArray]]:
    signal = asarray(x, np.float64)
    given = to_numpy_items((height, threshold, distance, prominence, width, wlen))
    peaks, known = locate(f"{_HERE}.find_peaks")(
        to_numpy(signal), *given, to_numpy(rel_height), plateau_size
    )
    names: dict[str, AnyArray] = {
        "peak_heights": signal[peaks],
        "left_thresholds": signal[peaks] - signal[peaks - 1],
        "right_thresholds": signal[peaks] - signal[peaks + 1],
    }
    if "prominences" in known:
        bases = known["left_bases"], known["right_bases"]
        names["prominences"] = _prominences(signal, peaks, *bases)
        if "widths" in known:
            names |= _widths(signal, peaks, names["prominences"], rel_height, known)
    return peaks, {name: names.get(name, value) for name, value in known.items()}


@override(f"{_HERE}.peak_prominences")
def peak_prominences(
    x: ArrayLike, peaks: ArrayLike, wlen: Scalar | None = None
) -> tuple[AnyArray, NDArray, NDArray]:
    signal, at = asarray(x, np.float64), np.asarray(to_numpy(peaks))
    _, left, right = locate(f"{_HERE}.peak_prominences")(to_numpy(signal), at, to_numpy(wlen))
    return _prominences(signal, at, left, right), left, right


@override(f"{_HERE}.peak_widths")
def peak_widths(
    x: ArrayLike,
    peaks: ArrayLike,
    rel_height: Scalar = 0.5,
    prominence_data: Sequence[ArrayLike] | None = None,
    wlen: Scalar | None = None,
) -> tuple[AnyArray, ...]:
    signal, at = asarray(x, np.float64), np.asarray(to_numpy(peaks))
    data = prominence_data if prominence_data is not None else peak_prominences(signal, at, wlen)
    values = locate(f"{_HERE}.peak_widths")(
        to_numpy(signal), at, to_numpy(rel_height), to_numpy_items(tuple(data)), to_numpy(wlen)
    )
    known = dict(zip(("widths", "width_heights", "left_ips", "right_ips"), values, strict=True))
    names = _widths(signal, at, asarray(data[0]), rel_height, known)
    return tuple(names[name] for name in known)


def _places(name: str) -> None:
    """Where something is in a signal is constant where it does not jump."""

    @override(f"{_HERE}.{name}")
    def find(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = to_numpy_items(args), {k: to_numpy_items(v) for k, v in kwargs.items()}
        return locate(f"{_HERE}.{name}")(*args, **kwargs)


for _name in ("argrelextrema", "argrelmax", "argrelmin", "find_peaks_cwt"):
    _places(_name)
