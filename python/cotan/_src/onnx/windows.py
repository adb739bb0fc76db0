"""ONNX operators for windows along the last axes: convolutions, sums and maxima."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from cotan._src.onnx.array_ops import placed
from cotan._src.onnx.graph import Equation, Graph, Recipe
from cotan._src.onnx.symbolic_sizes import Length

FLOATS = {"float32", "float64"}


def _widths(p: dict[str, Any]) -> list[Length]:
    """Give how far the windows reach along each axis, all of them together."""
    parts = zip(p["size"], p["stride"], p["len"], p["dilation"], strict=True)
    return [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in parts]


def _spread(g: Graph, e: Equation) -> str:
    """Give the first argument with zeros around it and between its elements."""
    p, shape = e.params, e.types[0][1]
    lead = len(shape) - len(p["size"])
    wide = [*shape[:lead], *_widths(p)]
    start = [0] * lead + p["pad"]
    return placed(g, e.x[0], wide, start, shape, [1] * lead + p["expansion"], e.source)


def _around(p: dict[str, Any], shape: list[Any]) -> tuple[list[Length], list[Length]]:
    """Give how many elements windows reach beyond each end of an array; negative inside of it."""
    lead = len(shape) - len(p["size"])
    ends = zip(_widths(p), p["pad"], shape[lead:], strict=True)
    return [0] * lead + p["pad"], [0] * lead + [w - a - n for w, a, n in ends]


def _surrounded(g: Graph, p: dict[str, Any], x: str, shape: list[Any], value: str) -> str:
    """Give all that windows reach of an array, with a value where they reach beyond it."""
    low, high = _around(p, shape)
    return str(g.op("Pad", x, g.lengths(low + high), value))


def _tap(g: Graph, x: str, axis: int, start: int, size: Length, stride: int) -> str:
    """Give the elements that one tap of all windows reads along an axis."""
    end = start + (size - 1) * stride + 1
    parts = [g.lengths([start]), g.lengths([end])]
    ints = [g.const(np.asarray([v], np.int64)) for v in (axis, stride)]
    return str(g.op("Slice", x, *parts, *ints))


def _folded(g: Graph, e: Equation, x: str, operator: str) -> str:
    """Combine the taps, one axis after the other."""
    p = e.params
    lead = len(e.shape) - len(p["size"])
    for k, (n, taps) in enumerate(zip(p["size"], p["len"], strict=True)):
        parts = [_tap(g, x, lead + k, t * p["dilation"][k], n, p["stride"][k]) for t in range(taps)]
        x = parts[0]
        for part in parts[1:]:
            x = g.op(operator, x, part)
    return x


def _window_sum(g: Graph, e: Equation) -> str:
    return _folded(g, e, _spread(g, e), "Add")


def _window_max(g: Graph, e: Equation) -> str:
    lowest = -np.inf if e.source in FLOATS else np.iinfo(e.source).min
    shape: Any = e.types[0][1]
    x = _surrounded(g, e.params, e.x[0], shape, g.const(lowest, e.source))
    return _folded(g, e, x, "Max")


def _taps(g: Graph, p: dict[str, Any], lead: int, x: str) -> Iterator[tuple[list[int], str]]:
    """Give for each tap where it begins, and what it reads of all windows."""
    for at in product(*map(range, p["len"])):
        start, part = [t * d for t, d in zip(at, p["dilation"], strict=True)], x
        for k, (first, n, step) in enumerate(zip(start, p["size"], p["stride"], strict=True)):
            part = _tap(g, part, lead + k, first, n, step)
        yield start, part


def _greatest(g: Graph, e: Equation) -> Iterator[tuple[list[int], str]]:
    """Give for each tap where it begins, and for which windows it reads the greatest element.

    It is the first of equal ones, and the first NaN if there is one.
    """
    p = e.params
    shape: Any = e.types[0][1]
    lead = len(shape) - len(p["size"])
    x = _surrounded(g, p, e.x[0], shape, g.const(-np.inf, e.source))
    highest = _folded(g, e, x, "Max")
    # What lies around an array is no element of it, and may equal minus infinity in it.
    ones = g.expand(g.const(1.0, e.source), shape)
    inside = _surrounded(g, p, ones, shape, g.const(0.0, e.source))
    free = ""
    taps = zip(_taps(g, p, lead, x), _taps(g, p, lead, inside), strict=True)
    for (start, part), (_, element) in taps:
        # onnxruntime has no kernel for IsNaN of every dtype.
        is_nan = g.op("Not", g.op("Equal", part, part))
        hit = g.op("Or", g.op("Equal", part, highest), is_nan)
        hit = g.op("And", hit, g.op("Greater", element, g.const(0.0, e.source)))
        if free:
            hit = g.op("And", hit, free)
        missed = g.op("Not", hit)
        free = g.op("And", free, missed) if free else missed
        yield start, hit


def _window_pick(g: Graph, e: Equation) -> str:
    p = e.params
    shape: Any = e.types[0][1]
    zero, total = g.const(0.0, e.source), ""
    y = _surrounded(g, p, e.x[1], shape, zero)
    picked = _taps(g, p, len(shape) - len(p["size"]), y)
    for (_, hit), (_, part) in zip(_greatest(g, e), picked, strict=True):
        taken = g.op("Where", hit, part, zero)
        total = g.op("Add", total, taken) if total else taken
    return total


def _window_unpick(g: Graph, e: Equation) -> str:
    p = e.params
    shape: Any = e.types[0][1]
    places: Any = e.types[1][1]
    lead = len(shape) - len(p["size"])
    wide = [*shape[:lead], *_widths(p)]
    zero, total = g.const(0.0, e.source), ""
    for start, hit in _greatest(g, e):
        part = g.op("Where", hit, e.x[1], zero)
        step = [1] * lead + p["stride"]
        part = placed(g, part, wide, [0] * lead + start, places, step, e.source)
        total = g.op("Add", total, part) if total else part
    low, high = _around(p, shape)
    return str(g.op("Pad", total, g.lengths([0 - n for n in [*low, *high]]), zero))


def _conv(g: Graph, e: Equation) -> str:
    p = e.params
    images = e.types[0][1][0]
    kernels: Any = e.types[1][1]
    groups, outs, channels, *taps = kernels
    x, size = _spread(g, e), p["size"]
    if e.source == "float32" and len(size) <= 3:
        x = g.reshape(x, [images, groups * channels, *_widths(p)])
        y = g.reshape(e.x[1], [groups * outs, channels, *taps])
        whole = {"strides": p["stride"], "dilations": p["dilation"], "group": groups}
        return g.reshape(g.op("Conv", x, y, **whole), e.shape)
    # Of other dtypes runtimes have no such kernel: a product for each tap.
    total = ""
    pixels: Length = 1
    for n in size:
        pixels = n * pixels
    for tap in product(*map(range, taps)):
        part, y = x, e.x[1]
        for k, t in enumerate(tap):
            part = _tap(g, part, 3 + k, t * p["dilation"][k], size[k], p["stride"][k])
            y = _tap(g, y, 3 + k, t, 1, 1)
        part = g.reshape(part, [images, groups, channels, pixels])
        step = g.op("MatMul", g.reshape(y, [groups, outs, channels]), part)
        total = g.op("Add", total, step) if total else step
    return g.reshape(total, e.shape)


#: Primitives that the table names no form of, since ONNX tells no tap of a window: they are written
#: tap by tap.
TAPWISE: dict[str, Recipe] = {
    "window_pick": _window_pick,
    "window_unpick": _window_unpick,
}

WINDOWS: dict[str, Recipe] = {
    "conv": _conv,
    "window_sum": _window_sum,
    "window_max": _window_max,
}
