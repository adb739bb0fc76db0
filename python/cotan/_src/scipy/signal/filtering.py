"""Overrides of the filters and convolutions of `scipy.signal`.

They are linear in the signal and in their coefficients, and are each other's derivatives, so
compiled code computes all of them. The rest is SciPy's Python code, rebound.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.host_call import conj, host_call, linear, unbroadcast
from cotan._src.rebind.engine import (
    REBOUND,
    REBOUND_METHOD,
    locate,
    rebinds_instances,
    rebound_by_name,
)
from cotan._src.rebind.numpy_substitutes import array, asarray
from cotan._src.runtime.registry import METHOD, SUBSTITUTE, named, override
from cotan._src.runtime.values import is_active, is_array, to_numpy
from cotan._src.scipy.linalg.banded import cholesky_banded, solveh_banded
from cotan._src.typing import AnyArray, ArrayLike, Axes, NDArray, Scalar, Shape

#: Cotangents of the arguments, None for those that are not wanted.
_Cotangents: TypeAlias = tuple[AnyArray | None, ...]

# --------------------------------------------------------------------------------------------------
# Convolution


def _reversed(x: NDArray, axes: Shape) -> NDArray:
    """Give a kernel back to front and conjugated: convolution with it is correlation."""
    return np.flip(np.conj(x), axes)


def _convolved(a: AnyArray, v: AnyArray, mode: str, method: str, axes: Shape) -> Array:
    """Convolve along axes; other axes broadcast."""

    def forward(a: NDArray, v: NDArray) -> NDArray:
        result: NDArray
        if method == "oa":
            result = locate("scipy.signal.oaconvolve")(a, v, mode, axes=axes)
        elif len(axes) < a.ndim or method == "fft":
            result = locate("scipy.signal.fftconvolve")(a, v, mode, axes=axes)
        else:
            result = locate("scipy.signal.convolve")(a, v, mode, method)
        return result

    def pullback(ct: AnyArray, a: AnyArray, v: AnyArray, wanted: Sequence[bool]) -> _Cotangents:
        whole = _widened(ct, a.shape, v.shape, mode, axes)
        pairs = ((a, v), (v, a))
        return tuple(
            unbroadcast(overlaps(whole, other, method, axes), x.shape) if w else None
            for (x, other), w in zip(pairs, wanted, strict=True)
        )

    return host_call("scipy.signal.convolve", forward, pullback, a, v)


def overlaps(c: AnyArray, v: AnyArray, method: str, axes: Shape) -> Array:
    """Correlate where all of `v` lies inside of `c`."""

    def forward(c: NDArray, v: NDArray) -> NDArray:
        result: NDArray
        if len(axes) < c.ndim or method in {"fft", "oa"}:
            result = locate("scipy.signal.fftconvolve")(c, _reversed(v, axes), "valid", axes=axes)
        else:
            result = locate("scipy.signal.correlate")(c, v, "valid", method)
        return result

    def pullback(ct: AnyArray, c: AnyArray, v: AnyArray, wanted: Sequence[bool]) -> _Cotangents:
        return (
            unbroadcast(_convolved(ct, v, "full", method, axes), c.shape) if wanted[0] else None,
            unbroadcast(overlaps(c, ct, method, axes), v.shape) if wanted[1] else None,
        )

    return host_call("scipy.signal.correlate", forward, pullback, c, v)


def _widened(ct: AnyArray, a: Shape, v: Shape, mode: str, axes: Shape) -> AnyArray:
    """Put the cotangent of a part of the convolution into that of all of it."""
    if mode == "full":
        return ct
    shape, start = list(ct.shape), [0] * ct.ndim
    for i in axes:
        shape[i] = a[i] + v[i] - 1
        start[i] = (shape[i] - ct.shape[i]) // 2
        if mode == "valid":
            start[i] = min(a[i], v[i]) - 1
    return _core.pad(_core.asarray(ct), shape, start, [1] * ct.ndim)


def _operands(name: str, in1: ArrayLike, in2: ArrayLike) -> tuple[Array, Array]:
    a, v = asarray(in1), asarray(in2)
    if a.ndim != v.ndim:
        raise ValueError(f"{name}: in1 and in2 should have the same dimensionality, "
                         f"not shapes {a.shape} and {v.shape}")  # fmt: skip
    kind = np.result_type(a.dtype, v.dtype)
    kind = kind if kind.kind in "fc" else np.dtype(np.float64)
    return _core.asarray(a, kind), _core.asarray(v, kind)


@override("scipy.signal.convolve")
def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Array:
    a, v = _operands("convolve", in1, in2)
    _expect("convolve", "mode", mode, ("full", "same", "valid"))
    _expect("convolve", "method", method, ("auto", "direct", "fft"))
    if a.ndim == 0:
        return a * v
    return _convolved(a, v, mode, method, tuple(range(a.ndim)))


def _expect(name: str, what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}: {what} must be one of {', '.join(known)}, not {value!r}")


@override("scipy.signal.correlate")
def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> AnyArray:
    a, v = _operands("correlate", in1, in2)
    if a.ndim == 0:
        return a * conj(v)
    axes = tuple(range(a.ndim))
    _expect("correlate", "mode", mode, ("full", "same", "valid"))
    smaller = any(n < m for n, m in zip(a.shape, v.shape, strict=True))
    if mode == "valid" and smaller:
        # The larger one slides, and the result is turned back.
        return conj(_core.flip(convolve(v, _core.flip(conj(a), axes), mode, method), axes))
    return convolve(a, _core.flip(conj(v), axes), mode, method)


@override("scipy.signal.convolve2d")
def convolve2d(in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill",
               fillvalue: Scalar = 0) -> Array:  # fmt: skip
    a, v = _operands("convolve2d", in1, in2)
    if a.ndim != 2:
        raise ValueError(f"convolve2d: inputs must both be 2-D arrays, not of shape {a.shape}")
    _expect("convolve2d", "mode", mode, ("full", "same", "valid"))
    _expect("convolve2d", "boundary", boundary, ("fill", "pad", "wrap", "circular", "symm",
                                                 "symmetric"))  # fmt: skip
    inside = all(n >= m for n, m in zip(a.shape, v.shape, strict=True))
    if mode == "valid":
        if not inside and any(n > m for n, m in zip(a.shape, v.shape, strict=True)):
            raise ValueError("For 'valid' mode, one must be at least as large as the other in "
                             "every dimension")  # fmt: skip
        return convolve(a, v, mode, "direct")
    if boundary in {"fill", "pad"} and not (is_array(fillvalue) or fillvalue != 0):
        return convolve(a, v, mode, "direct")
    # The input goes on outside, so that the whole result lies inside.
    before = [m - 1 for m in v.shape]
    widths = [(b, b) for b in before]
    if boundary in {"fill", "pad"}:
        wide = np.pad(a, widths, constant_values=fillvalue)
    else:
        wide = np.pad(a, widths, mode="wrap" if boundary in {"wrap", "circular"} else "symmetric")
    full = convolve(wide, v, "valid", "direct")
    if mode == "full":
        return full
    starts = [(m - 1) // 2 for m in v.shape]
    return full[tuple(slice(s, s + n) for s, n in zip(starts, a.shape, strict=True))]


@override("scipy.signal.correlate2d")
def correlate2d(in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill",
                fillvalue: Scalar = 0) -> Array:  # fmt: skip
    a, v = _operands("correlate2d", in1, in2)
    if mode == "valid" and any(n < m for n, m in zip(a.shape, v.shape, strict=True)):
        # SciPy exchanges the two and turns the result; it does not conjugate it.
        return _core.flip(convolve2d(v, _core.flip(conj(a)), mode, boundary, fillvalue))
    if mode == "same":
        # Here the middle of the kernel lies one further on.
        full = convolve2d(a, _core.flip(conj(v)), "full", boundary, fillvalue)
        starts = [m // 2 for m in v.shape]
        return full[tuple(slice(s, s + n) for s, n in zip(starts, a.shape, strict=True))]
    return convolve2d(a, _core.flip(conj(v)), mode, boundary, fillvalue)


def _by_fft(name: str, method: str) -> None:
    @override(f"scipy.signal.{name}")
    def convolved(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Axes = None) -> Array:
        a, v = _operands(name, in1, in2)
        _expect(name, "mode", mode, ("full", "same", "valid"))
        if a.ndim == 0:
            return a * v
        along = range(a.ndim) if axes is None else normalize_axis_tuple(axes, a.ndim)
        return _convolved(a, v, mode, method, tuple(sorted(along)))


_by_fft("fftconvolve", "fft")
_by_fft("oaconvolve", "oa")


@override("scipy.signal.upfirdn")
def upfirdn(h: ArrayLike, x: ArrayLike, up: int = 1, down: int = 1, axis: int = -1,
            mode: str = "constant", cval: Scalar = 0) -> Array:  # fmt: skip
    if mode != "constant" or is_array(cval) or cval != 0:
        raise NotDifferentiableError(
            f"upfirdn: mode {mode!r} with cval {cval} has no derivative rule in cotan; "
            "extend the signal with np.pad and leave out mode"
        )
    taps, signal = asarray(h), asarray(x)
    if taps.ndim != 1:
        raise ValueError(f"upfirdn: h should be 1-D, not of shape {taps.shape}")
    kind = np.result_type(taps.dtype, signal.dtype, np.float32)
    axis = normalize_axis_index(axis, signal.ndim)
    return _resampled(_core.asarray(taps, kind), _core.asarray(signal, kind), up, down, axis)


def _resampled(h: AnyArray, x: AnyArray, up: int, down: int, axis: int) -> Array:
    """Spread a signal, filter it, and take every `down`th element."""

    def forward(h: NDArray, x: NDArray) -> NDArray:
        y: NDArray = locate("scipy.signal.upfirdn")(h, x, up, down, axis)
        return y

    def pullback(ct: AnyArray, h: AnyArray, x: AnyArray, wanted: Sequence[bool]) -> _Cotangents:
        count, n = h.shape[0], x.shape[axis]
        return (
            _taps_of_resampled(ct, x, up, down, axis, count) if wanted[0] else None,
            # Backwards, the two factors change places.
            _resampled_back(ct, conj(_core.asarray(h)), up, down, axis, n) if wanted[1] else None,
        )

    return host_call("scipy.signal.upfirdn", forward, pullback, h, x)


def _resampled_back(ct: AnyArray, h: AnyArray, up: int, down: int, axis: int, n: int) -> AnyArray:
    # Filled up, so that it starts with an element of the signal.
    before = -(-(h.shape[0] - 1) // up)
    turned = _core.flip(lengthened(h, before * up + 1), 0)
    found = np.moveaxis(_resampled(turned, ct, down, up, axis), axis, -1)  # type: ignore[type-var]
    return np.moveaxis(lengthened(found, before + n)[..., before:], -1, axis)  # type: ignore[type-var]


def _taps_of_resampled(
    ct: AnyArray, x: AnyArray, up: int, down: int, axis: int, count: int
) -> AnyArray:
    rows = [np.moveaxis(_core.asarray(v), axis, -1) for v in (ct, x)]  # type: ignore[type-var]
    whole = (x.shape[axis] - 1) * up + count
    spread, signal = (
        _core.pad(v, (*v.shape[:-1], length), [0] * v.ndim, [*[1] * (v.ndim - 1), step])
        for v, length, step in zip(rows, (whole, whole - count + 1), (down, up), strict=True)
    )
    each = overlaps(spread, signal, "fft", (signal.ndim - 1,))
    return _core.sum(each, tuple(range(signal.ndim - 1)))


# --------------------------------------------------------------------------------------------------
# Recursive filters, along the last axis: sum_k a[k] y[t - k] = sum_k b[k] x[t - k]


def _filtered(b: AnyArray, a: AnyArray, x: AnyArray) -> Array:
    def forward(b: NDArray, a: NDArray, x: NDArray) -> NDArray:
        y: NDArray = locate("scipy.signal.lfilter")(b, a, x)
        return y

    def pullback(
        ct: AnyArray, b: AnyArray, a: AnyArray, x: AnyArray, wanted: Sequence[bool]
    ) -> _Cotangents:
        b, a, x = (_core.asarray(v) for v in (b, a, x))
        source: Any = None
        if wanted[0] or wanted[1]:
            source = _backwards(np.ones(1, a.dtype), conj(a), ct)
        return (
            _taps(conj(x), source, b.shape[0]) if wanted[0] else None,
            -_taps(conj(_filtered(b, a, x)), source, a.shape[0]) if wanted[1] else None,
            _backwards(conj(b), conj(a), ct) if wanted[2] else None,
        )

    return host_call("scipy.signal.lfilter", forward, pullback, b, a, x)


def _backwards(b: AnyArray, a: AnyArray, x: AnyArray) -> Array:
    return _core.flip(_filtered(b, a, _core.flip(x, -1)), -1)


def _taps(x: AnyArray, w: AnyArray, count: int) -> Array:
    """Give, for each delay, the sum of products of a delayed signal with another one."""

    def forward(x: NDArray, w: NDArray) -> NDArray:
        n = x.shape[-1]
        sums = [np.sum(x[..., : max(n - k, 0)] * w[..., k:]) for k in range(count)]
        return np.array(sums, np.result_type(x, w))

    def pullback(ct: AnyArray, x: AnyArray, w: AnyArray, wanted: Sequence[bool]) -> _Cotangents:
        one = np.ones(1, ct.dtype)
        return (
            _backwards(ct, one, conj(_core.asarray(w))) if wanted[0] else None,
            _filtered(ct, one, conj(_core.asarray(x))) if wanted[1] else None,
        )

    return host_call("scipy.signal.lfilter", forward, pullback, x, w)


@override("scipy.signal.lfilter")
def lfilter(
    b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None
) -> AnyArray | tuple[AnyArray, AnyArray]:
    given: list[Any] = [array(v, ndmin=1, copy=None) for v in (b, a, x)]
    top, bottom, signal = given
    is_fixed = not (is_array(top) or is_array(bottom))
    kind = np.result_type(*(v.dtype for v in (given if zi is None else (*given, asarray(zi)))))
    kind = kind if kind.kind in "fc" else np.dtype(np.float64)
    if top.ndim != 1 or bottom.ndim != 1:
        raise ValueError(
            f"lfilter: b and a must be 1-D, not of shapes {top.shape} and {bottom.shape}"
        )
    if not to_numpy(bottom)[0]:
        raise ValueError("lfilter: the first coefficient of a is zero")
    given = [_core.asarray(v, kind) for v in given]
    top, bottom, signal = given
    axis = normalize_axis_index(axis, signal.ndim)
    moved = np.moveaxis(signal, axis, -1)
    if zi is None:
        filtered: AnyArray = np.moveaxis(_filtered(top, bottom, moved), -1, axis)  # type: ignore[type-var]
        return filtered
    order = max(bottom.shape[0], top.shape[0]) - 1
    start = np.moveaxis(asarray(zi, kind), axis, -1)  # type: ignore[type-var]
    if start.shape[-1] != order or start.ndim != signal.ndim:
        raise ValueError(f"lfilter: zi has shape {asarray(start).shape}; for a signal of shape "
                         f"{signal.shape} it needs {order} along axis {axis}")  # fmt: skip
    start = _core.broadcast_to(start, (*moved.shape[:-1], order))
    if is_fixed:
        plain_top, plain_bottom = to_numpy(top), to_numpy(bottom)
        filters = [(plain_top, plain_bottom)]

        def run(x: NDArray, states: NDArray) -> tuple[NDArray, NDArray]:
            zi = states[0]
            found: tuple[NDArray, NDArray]
            found = locate("scipy.signal.lfilter")(plain_top, plain_bottom, x, zi=zi)
            return found[0], found[1][None]

        y, states = _with_states(run, filters, moved, start[None])
        return np.moveaxis(y, -1, axis), np.moveaxis(states[0], -1, axis)  # type: ignore[type-var]
    # An initial state is what the filter would have got before it divides.
    n = moved.shape[-1]
    whole = lengthened(start, n)
    y = _filtered(top, bottom, moved) + _filtered(np.ones(1, kind), bottom / bottom[0], whole)
    state = start[..., n:] if n < order else start[..., :0]
    last: Any = _delayed(moved, top / bottom[0], order) - _delayed(y, bottom / bottom[0], order)
    state = last + lengthened(state, order)
    return np.moveaxis(y, -1, axis), np.moveaxis(state, -1, axis)  # type: ignore[type-var]


def _with_states(
    run: Callable[[NDArray, NDArray], tuple[NDArray, NDArray]],
    filters: list[tuple[NDArray, NDArray]],
    x: AnyArray,
    states: AnyArray,
) -> tuple[Array, Array]:
    """Run constant filters, one after the other, from states and to states: a linear map.

    `states` have the filters along the first axis, and one filter's along the last one.
    """
    n, count, order = x.shape[-1], len(filters), states.shape[-1]

    def taken_apart(v: NDArray) -> tuple[NDArray, NDArray]:
        rows = v[..., n:].reshape((*v.shape[:-1], count, order))
        return v[..., :n], np.moveaxis(rows, -2, 0)

    def together(x: NDArray, states: NDArray) -> NDArray:
        rows = np.moveaxis(states, 0, -2).reshape((*x.shape[:-1], count * order))
        return np.concatenate([x, rows], -1)

    def forward(v: NDArray) -> NDArray:
        return together(*run(*taken_apart(v)))

    def adjoint(ct: NDArray) -> NDArray:
        signal, last = taken_apart(ct)
        first = np.empty(last.shape, ct.dtype)
        for k in reversed(range(count)):
            b, a = map(np.conj, filters[k])
            signal, first[k] = _run_back(b, a, signal, last[k])
        return together(signal, first)

    rows = np.moveaxis(states, 0, -2).reshape((*x.shape[:-1], count * order))  # type: ignore[type-var]
    v = linear("scipy.signal.lfilter", forward, adjoint)(np.concatenate([x, rows], -1))
    last = v[..., n:].reshape((*x.shape[:-1], count, order))
    return v[..., :n], np.moveaxis(last, -2, 0)  # type: ignore[type-var]


def _run_back(b: NDArray, a: NDArray, ct: NDArray, last: NDArray) -> tuple[NDArray, NDArray]:
    """Run the adjoint of a filter with states: from those at the end to those at the start."""
    filtered, order = locate("scipy.signal.lfilter"), last.shape[-1]
    b, a, one = b / a[0], a / a[0], np.ones(1, a.dtype)
    back = np.flip(ct, -1)
    signal = filtered(b, a, back)
    # What the states are asked for is a signal, the filter's before its numerator.
    inner = filtered(one, a, back)
    if np.any(last):
        known = np.flip(last, -1)
        # Its values from the end on, in the order of time, are followed by what they lead to.
        inputs = np.concatenate([filtered(a, one, known), np.zeros_like(ct)], -1)
        free = filtered(one, a, inputs)
        signal = signal + filtered(b, one, free)[..., order:]
        inner = inner + free[..., order:]
    whole = np.flip(np.concatenate([np.flip(last, -1), inner], -1), -1)
    return np.flip(signal, -1), whole[..., :order]


def lengthened(x: AnyArray, n: int) -> Array:
    """Cut the last axis, or fill it with zeros."""
    x = x[..., :n]
    return _core.pad(x, [*x.shape[:-1], n], [0] * x.ndim, [1] * x.ndim)


def _delayed(x: AnyArray, taps: AnyArray, order: int) -> Array:
    """Give what the last inputs will still add to the outputs that follow."""
    recent = lengthened(_core.flip(x, -1), order)
    later = np.arange(order)[:, None] + np.arange(order) + 1
    return _core.matmul(recent, lengthened(taps, 2 * order + 1)[later])


@override("scipy.signal.sosfilt")
def sosfilt(
    sos: ArrayLike, x: ArrayLike, axis: int = -1, zi: AnyArray | None = None
) -> AnyArray | tuple[AnyArray, AnyArray]:
    rows, signal = asarray(sos), asarray(x)
    if rows.ndim != 2 or rows.shape[1] != 6:
        raise ValueError(f"sosfilt: sos must have shape (n_sections, 6), not {rows.shape}")
    if not np.all(to_numpy(rows)[:, 3] == 1):
        raise ValueError("sosfilt: sos[:, 3] should be all ones")
    axis = normalize_axis_index(axis, signal.ndim)
    if zi is None and not is_active(rows):
        return _sections(to_numpy(rows), signal, axis)
    if not (zi is None or is_array(rows)):
        zi = asarray(zi)
        kind = np.result_type(rows.dtype, signal.dtype, zi.dtype)
        kind = kind if kind.kind in "fc" else np.dtype(np.float64)
        shape = list(signal.shape)
        shape[axis] = 2
        if zi.shape != (rows.shape[0], *shape):
            raise ValueError(
                f"sosfilt: zi has shape {zi.shape}; it needs {(rows.shape[0], *shape)}"
            )
        plain = rows.astype(kind)

        def run(x: NDArray, states: NDArray) -> tuple[NDArray, NDArray]:
            found: tuple[NDArray, NDArray]
            found = locate("scipy.signal.sosfilt")(plain, x, zi=states)
            return found

        start, moved = (
            np.moveaxis(_core.asarray(v, kind), at, -1)  # type: ignore[type-var]
            for v, at in ((zi, axis + 1), (signal, axis))
        )
        filters = [(row[:3], row[3:]) for row in plain]
        y, last = _with_states(run, filters, moved, start)
        return np.moveaxis(y, -1, axis), np.moveaxis(last, -1, axis + 1)  # type: ignore[type-var]
    states = []
    for s in range(rows.shape[0]):
        state = None if zi is None else zi[s]
        filtered: Any = lfilter(rows[s, :3], rows[s, 3:], signal, axis, state)
        if state is not None:
            filtered, state = filtered
            states.append(state)
        signal = filtered
    return signal if zi is None else (signal, np.stack(states))


def _sections(sos: NDArray, x: AnyArray, axis: int) -> Array:
    def forward(x: NDArray) -> NDArray:
        y: NDArray = locate("scipy.signal.sosfilt")(sos, x, axis)
        return y

    def adjoint(ct: NDArray) -> NDArray:
        filtered = locate("scipy.signal.sosfilt")(np.conj(sos), np.flip(ct, axis), axis)
        return np.flip(filtered, axis)

    return linear("scipy.signal.sosfilt", forward, adjoint)(x)


@override("scipy.signal.detrend")
def detrend(data: ArrayLike, axis: int = -1, type: str = "linear", bp: ArrayLike = 0,
            overwrite_data: bool = False) -> Array:  # fmt: skip
    del overwrite_data
    signal = asarray(data)
    kind = signal.dtype if signal.dtype.char in "dfDF" else np.dtype(np.float64)

    def forward(x: NDArray) -> NDArray:
        # It takes away what lies in a subspace, so it is its own adjoint.
        rest: NDArray = locate("scipy.signal.detrend")(x, axis, type, to_numpy(bp))
        return rest

    return linear("scipy.signal.detrend", forward, forward)(_core.asarray(signal, kind))


@override("scipy.signal.savgol_filter")
def savgol_filter(x: ArrayLike, window_length: int, polyorder: int, deriv: int = 0,
                  delta: Scalar = 1.0, axis: int = -1, mode: str = "interp",
                  cval: Scalar = 0.0) -> AnyArray:  # fmt: skip
    if is_active(delta):
        unit = savgol_filter(x, window_length, polyorder, deriv, 1.0, axis, mode, cval)
        return unit / delta**deriv
    given = asarray(x)
    options = (window_length, polyorder, deriv, delta)
    if mode != "interp" or window_length % 2 == 0:
        compute = rebound_by_name("scipy.signal.savgol_filter")
        smooth: AnyArray = compute(given, *options, axis, mode, cval)
        return smooth
    is_float = given.dtype in {np.dtype(np.float32), np.dtype(np.float64)}
    kind = given.dtype if is_float else np.float64
    signal = np.moveaxis(asarray(given, kind), axis, -1)  # type: ignore[type-var]
    if window_length > signal.shape[-1]:
        raise ValueError("If mode is 'interp', window_length must be less than or equal to "
                         f"the size of x: {window_length} > {signal.shape[-1]}")  # fmt: skip
    # What the filter makes of one window: the fit at either end, and the weights in between.
    matrix = locate("scipy.signal.savgol_filter")(
        np.eye(window_length, dtype=kind), *options, axis=0
    )
    half = window_length // 2
    ends = (
        signal[..., :window_length] @ matrix[:half].T,
        signal[..., -window_length:] @ matrix[half + 1 :].T,
    )
    kernel = matrix[half].reshape((1,) * (signal.ndim - 1) + (-1,))
    middle = overlaps(signal, kernel, "direct", (signal.ndim - 1,))
    return np.moveaxis(np.concatenate([ends[0], middle, ends[1]], -1), -1, axis)


rebinds_instances("scipy.signal.CZT", "scipy.signal.ZoomFFT")
override("scipy.signal.CZT.__call__", kind=METHOD)(REBOUND_METHOD)
override(
    *named(
        "scipy.signal",
        """
        bilinear decimate envelope filtfilt freqs freqz freqz_sos
        group_delay hilbert hilbert2 resample resample_poly sosfilt_zi
        sosfiltfilt unit_impulse vectorstrength
        zoom_fft czt chirp deconvolve gausspulse medfilt
        order_filter sawtooth square sweep_poly minimum_phase cspline1d qspline1d firls
        firwin firwin2 gammatone iircomb sos2zpk lp2bp lp2bs lp2hp lp2lp
    """,
    )
)(REBOUND)


@override("scipy.signal.lfiltic")
def lfiltic(b: ArrayLike, a: ArrayLike, y: ArrayLike, x: ArrayLike | None = None) -> AnyArray:
    """Give the state after given outputs, whatever `a[0]` is: SciPy looks whether it is 1."""
    top, bottom = (np.atleast_1d(asarray(c)) for c in (b, a))
    if top.ndim == 1 and bottom.ndim == 1 and bottom.size and to_numpy(bottom[0]):
        top, bottom = top / bottom[0], bottom / bottom[0]
    state: AnyArray = rebound_by_name("scipy.signal.lfiltic")(top, bottom, y, x)
    return state


@override("scipy.signal.lfilter_zi")
def lfilter_zi(b: ArrayLike, a: ArrayLike) -> AnyArray:
    """Solve for the state of the steady response to a step."""
    top, bottom = (np.atleast_1d(asarray(c)) for c in (b, a))
    if top.ndim != 1 or bottom.ndim != 1:
        raise ValueError("Numerator b and denominator a must be 1-D.")
    leading = np.flatnonzero(to_numpy(bottom))
    if not leading.size:
        raise ValueError("There must be at least one nonzero `a` coefficient.")
    bottom = bottom[leading[0] :]
    top, bottom = top / bottom[0], bottom / bottom[0]
    n = max(len(bottom), len(top))
    top, bottom = (np.concatenate([c, np.zeros(n - len(c), c.dtype)]) for c in (top, bottom))
    one = np.eye(n - 1, dtype=np.result_type(bottom.dtype, top.dtype))
    shift, first = np.eye(n - 1, k=1, dtype=one.dtype), one[0]
    return np.linalg.solve(one + bottom[1:, None] * first - shift, top[1:] - bottom[1:] * top[0])


@override("scipy.signal.medfilt2d")
def medfilt2d(input: ArrayLike, kernel_size: int | Sequence[int] = 3) -> AnyArray:
    smooth: AnyArray = rebound_by_name("scipy.signal.medfilt")(input, kernel_size)
    return smooth


# Conversion of an active frequency to a Python number.
@override("scipy.signal._waveforms.float", kind=SUBSTITUTE)
def _float(x: Array | float) -> Array | float:
    return x if is_array(x) else float(x)


override("scipy.signal.whittaker_henderson", versions="scipy>=1.18")(REBOUND)


@override("scipy.signal._whittaker._solveh_banded", kind=SUBSTITUTE, versions="scipy>=1.18")
def _solve_penalised(
    ab: AnyArray, b: AnyArray, calc_logdet: bool = False
) -> tuple[AnyArray, Scalar, int]:
    """Solve as `whittaker_henderson` does, which asks for the determinant, too."""
    try:
        x = solveh_banded(ab, b, lower=True)
    except np.linalg.LinAlgError:
        return b, 0.0, 1
    if not calc_logdet:
        return x, 0.0, 0
    return x, 2 * np.sum(np.log(cholesky_banded(ab, lower=True)[0])), 0
