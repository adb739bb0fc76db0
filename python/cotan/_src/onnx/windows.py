"""ONNX operators for windows along the last axes: convolutions, sums and maxima."""

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
    p, shape = e.params, e.types[0][1]
    lead = len(shape) - len(p["size"])
    low = [0] * lead + p["pad"]
    ends = zip(_widths(p), p["pad"], shape[lead:], strict=True)
    high = [0] * lead + [w - a - n for w, a, n in ends]
    lowest = -np.inf if e.source in FLOATS else np.iinfo(e.source).min
    x = g.op("Pad", e.x[0], g.lengths(low + high), g.const(lowest, e.source))
    return _folded(g, e, x, "Max")


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


WINDOWS: dict[str, Recipe] = {
    "conv": _conv,
    "window_sum": _window_sum,
    "window_max": _window_max,
}
