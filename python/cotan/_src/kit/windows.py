"""Arguments of sliding windows over images: padding, strides, dilation and groups."""

import math
import operator
from collections.abc import Iterable, Sequence

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.typing import ArrayLike, Dtype

_TYPES = frozenset(np.dtype(t) for t in ("f4", "f8", "c8", "c16"))
Pairs = list[tuple[int, int]]


def common_dtype(name: str, *arrays: ArrayLike) -> tuple[list[Array], Dtype]:
    """Give arrays in a dtype that is computed in, and the dtype of the result."""
    xs = [_core.asarray(x) for x in arrays]
    dtype = np.result_type(*(x.dtype for x in xs))
    if dtype.kind not in "fc":
        dtype = np.dtype(np.float64)
    wide = dtype if dtype in _TYPES else np.dtype(np.float32)
    for x in xs:
        if x.ndim < 3:
            raise ValueError(
                f"{name}: arrays must have 3 to 5 axes, the first two for images and channels, not "
                f"the shape {x.shape}"
            )
        if x.ndim > 5:
            raise ValueError(
                f"{name}: windows have one, two or three axes; shape {x.shape} has {x.ndim - 2} "
                "after the first two"
            )
    return [x if x.dtype == wide else _core.cast(x, wide) for x in xs], dtype


def narrowed(x: Array, dtype: Dtype) -> Array:
    """Give an array in the dtype that it was asked for in, after it was computed in a wider one."""
    return x if x.dtype == dtype else _core.cast(x, dtype)


def integers_per_axis(
    name: str, what: str, value: int | Iterable[int], axes: int, least: int
) -> list[int]:
    """Give one integer for each axis."""
    values = list(value) if isinstance(value, Iterable) else [value] * axes
    if len(values) != axes:
        raise ValueError(f"{name}: {what}={value!r} has {len(values)} numbers for {axes} axes")
    numbers = [operator.index(v) for v in values]
    if any(n < least for n in numbers):
        raise ValueError(f"{name}: {what}={value!r} must be {least} or more")
    return numbers


def window_spans(kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Give how many elements windows of these lengths reach over, with gaps between theirs."""
    return [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]


def paddings(
    name: str,
    padding: str | int | Iterable[int | Iterable[int]],
    lengths: Sequence[int],
    spans: Sequence[int],
    strides: Sequence[int],
) -> Pairs:
    """Give what is added before and behind each axis."""
    axes = len(lengths)
    if padding == "valid":
        return [(0, 0)] * axes
    if padding == "same":
        pairs = []
        for n, span, stride in zip(lengths, spans, strides, strict=True):
            total = max((math.ceil(n / stride) - 1) * stride + span - n, 0)
            pairs.append((total // 2, total - total // 2))
        return pairs
    if isinstance(padding, str):
        raise ValueError(
            f'{name}: padding={padding!r} has to be "same", "valid", a number, or one number or '
            "pair for each axis"
        )
    each = list(padding) if isinstance(padding, Iterable) else [padding] * axes
    if len(each) != axes:
        raise ValueError(
            f"{name}: padding={padding!r} has {len(each)} entries for {axes} axes; write a number, "
            "or a number or a pair (before, behind) for each axis"
        )
    found = []
    for entry in each:
        pair = tuple(entry) if isinstance(entry, Iterable) else (entry, entry)
        if len(pair) != 2:
            raise ValueError(f"{name}: padding={padding!r} has an entry that is not a pair")
        found.append((operator.index(pair[0]), operator.index(pair[1])))
    return found


def window_counts(
    name: str,
    lengths: Sequence[int],
    pads: Pairs,
    spans: Sequence[int],
    strides: Sequence[int],
) -> list[int]:
    """Give the length of each axis of the result."""
    places = []
    for n, (before, behind), span, stride in zip(lengths, pads, spans, strides, strict=True):
        room = n + before + behind
        if room < span:
            raise ValueError(
                f"{name}: a window that spans {tuple(spans)} does not fit into images of "
                f"{tuple(lengths)} with padding {pads}"
            )
        places.append((room - span) // stride + 1)
    return places


def apply_windows(name: str, *args: Array, **windows: Sequence[int]) -> Array:
    """Apply a primitive over windows, `windows` being lists of one integer for each axis."""
    axes = len(windows["size"])
    for what, default in (("stride", 1), ("dilation", 1), ("expansion", 1)):
        windows.setdefault(what, [default] * axes)
    return _core.apply(name, *args, **{k: tuple(v) for k, v in windows.items()})


def group_count(name: str, groups: int, x: Array, w: Array, channels: tuple[int, int]) -> int:
    """Check the number of groups against the channels of images and kernels."""
    count: int = operator.index(groups)
    inputs, results = channels
    if count < 1 or inputs % count or results % count:
        raise ValueError(
            f"{name}: groups={count} does not divide {inputs} channels and {results} results "
            f"(images of shape {x.shape}, kernels of shape {w.shape})"
        )
    return count


def expect_same_axes(name: str, x: Array, w: Array) -> None:
    """Raise `ValueError` for images and kernels that differ in the number of axes."""
    if x.ndim != w.ndim:
        raise ValueError(
            f"{name}: images of shape {x.shape} and kernels of shape {w.shape} must have the same "
            "number of axes"
        )
