"""Convolutions and pooling: normalize shapes, padding and strides, then apply window primitives."""

import math
import operator
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.kit.windows import (
    Pairs,
    apply_windows,
    common_dtype,
    expect_same_axes,
    group_count,
    integers_per_axis,
    narrowed,
    paddings,
    window_counts,
    window_spans,
)
from cotan._src.typing import ArrayLike, Dtype, NDArray

#: A number, or one for each axis.
Lengths: TypeAlias = int | Iterable[int]
#: What `padding` says: a number, numbers or pairs of them, or `"valid"` and `"same"`.
Padding: TypeAlias = str | int | Iterable[int | Iterable[int]]


def conv(
    x: ArrayLike,
    w: ArrayLike,
    *,
    strides: Lengths = 1,
    padding: Padding = 0,
    dilation: Lengths = 1,
    groups: int = 1,
) -> Array:
    """Convolve images with kernels, along one, two or three axes.

    As everywhere in networks, the kernel is not turned round: the result is what signal processing
    calls a correlation.

    Parameters
    ----------
    x
        Images of shape `(n, channels, ...)`.
    w
        Kernels of shape `(results, channels // groups, ...)`, with as many axes as `x`.
    strides, dilation
        Distance between the places of the kernel, and between its elements: a number, or one for
        each axis.
    padding
        Zeros around the images: a number, one number for each axis, one pair `(before, behind)` for
        each axis, `"valid"` for none, or `"same"` for so many that the result is as long as the
        images (divided by the stride, rounded up); the odd one comes behind.
    groups
        Channels and results are cut into so many groups that know nothing of each other.

    Returns
    -------
    Array
        Of shape `(n, results, ...)`; of the dtype of the arguments, float64 for integers. float16
        is computed in float32.

    Raises
    ------
    ValueError
        When shapes, strides, padding or groups do not fit.

    >>> import cotan as ct
    >>> import numpy as np
    >>> x = np.arange(16.0).reshape(1, 1, 4, 4)
    >>> edges = np.array([[[[-1.0, 1.0]]]])
    >>> ct.conv(x, edges).shape, ct.conv(x, edges, padding="same", strides=2).shape
    ((1, 1, 4, 3), (1, 1, 2, 2))
    >>> ct.gradient(lambda w: np.sum(ct.conv(x, w) ** 2), edges)
    (array([[[[168., 192.]]]]),)
    """
    (x, w), dtype = common_dtype("conv", x, w)
    expect_same_axes("conv", x, w)
    n, channels, *lengths = x.shape
    results, own, *kernel = w.shape
    groups = group_count("conv", groups, x, w, (channels, results))
    if own * groups != channels:
        raise ValueError(
            f"conv: kernels of shape {w.shape} are for {own * groups} channels (groups={groups}), "
            f"but images of shape {x.shape} have {channels}; kernels are (results, channels // "
            "groups, ...)"
        )
    axes = len(lengths)
    strides = integers_per_axis("conv", "strides", strides, axes, 1)
    dilation = integers_per_axis("conv", "dilation", dilation, axes, 1)
    spans = window_spans(kernel, dilation)
    pads = paddings("conv", padding, lengths, spans, strides)
    places = window_counts("conv", lengths, pads, spans, strides)
    y = apply_windows(
        "conv",
        x.reshape(n, groups, own, *lengths),
        w.reshape(groups, results // groups, own, *kernel),
        size=places,
        len=kernel,
        pad=[before for before, _ in pads],
        stride=strides,
        dilation=dilation,
    )
    return narrowed(y.reshape(n, results, *places), dtype)


def conv_transpose(
    x: ArrayLike,
    w: ArrayLike,
    *,
    strides: Lengths = 1,
    padding: Padding = 0,
    output_padding: Lengths = 0,
    dilation: Lengths = 1,
    groups: int = 1,
) -> Array:
    """Apply the transposed map of a convolution: from its results back to its images.

    `conv_transpose(y, w, ...)` is the cotangent that `conv(x, w, ...)` with the same arguments
    gives `x` for the cotangent `y`: what stride took away comes back.

    Parameters
    ----------
    x
        Arrays of shape `(n, results, ...)`.
    w
        Kernels of shape `(results, channels // groups, ...)`, as `conv` takes them.
    strides, dilation, groups
        Those of the convolution.
    padding
        A number, or one number or pair for each axis: so much is cut off.
    output_padding
        How much longer than the shortest the axes of the result are; below the stride. Several
        lengths lead to one when a stride is more than one.

    Returns
    -------
    Array
        Of shape `(n, channels, ...)`, with lengths
        `(m - 1) * stride - cut + (k - 1) * dilation + 1 + output_padding`, where `cut` is the
        padding on both sides.

    Raises
    ------
    ValueError
        When shapes, strides, padding or groups do not fit.

    >>> import cotan as ct
    >>> import numpy as np
    >>> x, w = np.ones((1, 2, 4)), np.ones((2, 3, 2))
    >>> ct.conv_transpose(x, w, strides=2).shape
    (1, 3, 8)
    """
    name = "conv_transpose"
    (x, w), dtype = common_dtype(name, x, w)
    expect_same_axes(name, x, w)
    n, results, *lengths = x.shape
    given, own, *kernel = w.shape
    if given != results:
        raise ValueError(
            f"{name}: kernels of shape {w.shape} are for {given} channels, but x of shape "
            f"{x.shape} has {results}; kernels are (channels of x, channels of the result // "
            "groups, ...)"
        )
    groups = group_count(name, groups, x, w, (results, own * operator.index(groups)))
    axes = len(lengths)
    strides = integers_per_axis(name, "strides", strides, axes, 1)
    dilation = integers_per_axis(name, "dilation", dilation, axes, 1)
    extra = integers_per_axis(name, "output_padding", output_padding, axes, 0)
    if any(e >= s for e, s in zip(extra, strides, strict=True)):
        raise ValueError(f"{name}: output_padding={output_padding!r} must be less than the stride")
    spans = window_spans(kernel, dilation)
    if isinstance(padding, str):
        raise ValueError(f"{name}: padding={padding!r} must be numbers or pairs")
    pads = paddings(name, padding, lengths, spans, strides)
    places = [
        (m - 1) * stride - before - behind + span + more
        for m, stride, (before, behind), span, more in zip(
            lengths, strides, pads, spans, extra, strict=True
        )
    ]
    if any(p < 0 for p in places):
        raise ValueError(
            f"{name}: padding={padding!r} would give a result of negative size {tuple(places)}"
        )
    last = tuple(range(3, 3 + axes))
    turned = w.reshape(groups, results // groups, own, *kernel).transpose(0, 2, 1, *last)
    y = apply_windows(
        "conv",
        x.reshape(n, groups, results // groups, *lengths),
        _core.flip(turned, last),
        size=places,
        len=kernel,
        pad=[span - 1 - before for span, (before, _) in zip(spans, pads, strict=True)],
        dilation=dilation,
        expansion=strides,
    )
    return narrowed(y.reshape(n, groups * own, *places), dtype)


def _pool(
    name: str,
    x: ArrayLike,
    size: Lengths,
    strides: Lengths | None,
    padding: Padding,
    dilation: Lengths,
) -> tuple[Array, Dtype, dict[str, list[int]], Pairs]:
    """Give the array to pool, the dtype of the result, the windows and the padding."""
    (x,), dtype = common_dtype(name, x)
    lengths = x.shape[2:]
    axes = len(lengths)
    size = integers_per_axis(name, "size", size, axes, 1)
    strides = size if strides is None else integers_per_axis(name, "strides", strides, axes, 1)
    dilation = integers_per_axis(name, "dilation", dilation, axes, 1)
    spans = window_spans(size, dilation)
    pads = paddings(name, padding, lengths, spans, strides)
    places = window_counts(name, lengths, pads, spans, strides)
    windows = {
        "size": places,
        "len": size,
        "pad": [before for before, _ in pads],
        "stride": strides,
        "dilation": dilation,
    }
    return x, dtype, windows, pads


def _seen(length: int, size: int, pad: int, stride: int, places: int, dilation: int) -> NDArray:
    """Count the elements that the window sees at each place of an axis."""
    at = np.arange(places)[:, None] * stride + np.arange(size) * dilation - pad
    seen: NDArray = np.sum((at >= 0) & (at < length), axis=1)
    return seen


def _counts(x: Array, windows: dict[str, list[int]]) -> list[NDArray]:
    keys = ("len", "pad", "stride", "size", "dilation")
    return [
        _seen(length, *(windows[key][axis] for key in keys))
        for axis, length in enumerate(x.shape[2:])
    ]


def max_pool(
    x: ArrayLike,
    size: Lengths,
    *,
    strides: Lengths | None = None,
    padding: Padding = 0,
    dilation: Lengths = 1,
) -> Array:
    """Give the greatest element of each window.

    Parameters
    ----------
    x
        Images of shape `(n, channels, ...)` with one, two or three axes after these; float32 or
        float64 (float16 is computed in float32, integers become float64).
    size
        Length of the window: a number, or one for each axis.
    strides
        Distance between windows, as long as they are when it is not given.
    padding, dilation
        As in `conv`. Padding is no element: a window that has nothing else is an error.

    Returns
    -------
    Array
        Of shape `(n, channels, ...)`. The derivative of a window goes to its first greatest element
        where several are equal, as in PyTorch. NaN counts as the greatest.

    Raises
    ------
    ValueError
        When shapes do not fit, or a window has no element.

    >>> import cotan as ct
    >>> import numpy as np
    >>> x = np.array([[[1.0, 4.0, 2.0, 2.0]]])
    >>> ct.max_pool(x, 2)
    Array([[[4., 2.]]])
    >>> ct.gradient(lambda x: np.sum(ct.max_pool(x, 2)), x)
    (array([[[0., 1., 1., 0.]]]),)
    """
    x, dtype, windows, pads = _pool("max_pool", x, size, strides, padding, dilation)
    if dtype.kind == "c":
        raise TypeError("max_pool: complex numbers have no order")
    if any(p > 0 for pair in pads for p in pair) and not all(
        np.all(seen) for seen in _counts(x, windows)
    ):
        raise ValueError(
            f"max_pool: with size={size!r}, padding={padding!r} and dilation={dilation!r} some "
            f"windows of images of shape {x.shape} contain padding only"
        )
    return narrowed(apply_windows("window_max", x, **windows), dtype)


def avg_pool(
    x: ArrayLike,
    size: Lengths,
    *,
    strides: Lengths | None = None,
    padding: Padding = 0,
    count_include_pad: bool = True,
) -> Array:
    """Give the mean of each window.

    Parameters
    ----------
    x
        Images of shape `(n, channels, ...)` with one, two or three axes after these.
    size, strides, padding
        As in `max_pool`.
    count_include_pad
        Whether padding counts as zeros. If not, a window is the mean of the elements that it has,
        and NaN when it has none.

    Returns
    -------
    Array
        Of shape `(n, channels, ...)`; of the dtype of `x`, float64 for integers.

    Raises
    ------
    ValueError
        When shapes do not fit.

    >>> import cotan as ct
    >>> import numpy as np
    >>> x = np.array([[[1.0, 4.0, 2.0, 2.0]]])
    >>> ct.avg_pool(x, 2)
    Array([[[2.5, 2. ]]])
    """
    x, dtype, windows, pads = _pool("avg_pool", x, size, strides, padding, 1)
    total = apply_windows("window_sum", x, **windows)
    if count_include_pad or not any(p > 0 for pair in pads for p in pair):
        return narrowed(total * (1.0 / math.prod(windows["len"])), dtype)
    counts: NDArray = np.ones(())
    for seen in _counts(x, windows):
        counts = counts[..., None] * seen
    return narrowed(total / counts.astype(x.dtype), dtype)
