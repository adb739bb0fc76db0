"""Convolutions and pooling: shapes and windows are worked out here, the primitives do the rest."""

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cotan import _core

_TYPES = frozenset(np.dtype(t) for t in ("f4", "f8", "c8", "c16"))
Pairs = list[tuple[int, int]]


def _common(name: str, *arrays: Any) -> tuple[list[Any], np.dtype[Any]]:
    """Give arrays in a dtype that is computed in, and the dtype of the result."""
    xs = [_core.asarray(x) for x in arrays]
    dtype = np.result_type(*(x.dtype for x in xs))
    if dtype.kind not in "fc":
        dtype = np.dtype(np.float64)
    wide = dtype if dtype in _TYPES else np.dtype(np.float32)
    for x in xs:
        if x.ndim < 3:
            raise ValueError(
                f"{name}: takes arrays of 3 to 5 axes, the first two for images and channels, "
                f"not one of shape {x.shape}"
            )
        if x.ndim > 5:
            raise ValueError(
                f"{name}: has windows along one, two or three axes; shape {x.shape} has "
                f"{x.ndim - 2} after the first two"
            )
    return [x if x.dtype == wide else _core.cast(x, wide) for x in xs], dtype


def _narrow(x: Any, dtype: np.dtype[Any]) -> Any:
    return x if x.dtype == dtype else _core.cast(x, dtype)


def _numbers(name: str, what: str, value: Any, axes: int, least: int) -> list[int]:
    """Give one whole number for each axis."""
    values = list(value) if isinstance(value, Iterable) else [value] * axes
    if len(values) != axes:
        raise ValueError(f"{name}: {what}={value!r} has {len(values)} numbers for {axes} axes")
    numbers = [operator.index(v) for v in values]
    if any(n < least for n in numbers):
        raise ValueError(f"{name}: {what}={value!r} has to be {least} or more")
    return numbers


def _spans(kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    return [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]


def _pads(
    name: str,
    padding: Any,
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


def _places(
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


def _apply(name: str, *args: Any, **windows: Sequence[int]) -> Any:
    axes = len(windows["size"])
    for what, default in (("stride", 1), ("dilation", 1), ("expansion", 1)):
        windows.setdefault(what, [default] * axes)
    return _core.apply(name, *args, **{k: tuple(v) for k, v in windows.items()})


def _groups(name: str, groups: Any, x: Any, w: Any, channels: tuple[int, int]) -> int:
    """Check the number of groups against the channels of images and kernels."""
    count: int = operator.index(groups)
    inputs, results = channels
    if count < 1 or inputs % count or results % count:
        raise ValueError(
            f"{name}: groups={count} does not divide {inputs} channels and {results} results "
            f"(images of shape {x.shape}, kernels of shape {w.shape})"
        )
    return count


def _same_axes(name: str, x: Any, w: Any) -> None:
    if x.ndim != w.ndim:
        raise ValueError(
            f"{name}: images of shape {x.shape} and kernels of shape {w.shape} have to have the "
            "same number of axes"
        )


def conv(
    x: Any,
    w: Any,
    *,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
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
    (x, w), dtype = _common("conv", x, w)
    _same_axes("conv", x, w)
    n, channels, *lengths = x.shape
    results, own, *kernel = w.shape
    groups = _groups("conv", groups, x, w, (channels, results))
    if own * groups != channels:
        raise ValueError(
            f"conv: kernels of shape {w.shape} are for {own * groups} channels (groups={groups}), "
            f"but images of shape {x.shape} have {channels}; kernels are (results, channels // "
            "groups, ...)"
        )
    axes = len(lengths)
    strides = _numbers("conv", "strides", strides, axes, 1)
    dilation = _numbers("conv", "dilation", dilation, axes, 1)
    spans = _spans(kernel, dilation)
    pads = _pads("conv", padding, lengths, spans, strides)
    places = _places("conv", lengths, pads, spans, strides)
    y = _apply(
        "conv",
        x.reshape(n, groups, own, *lengths),
        w.reshape(groups, results // groups, own, *kernel),
        size=places,
        len=kernel,
        pad=[before for before, _ in pads],
        stride=strides,
        dilation=dilation,
    )
    return _narrow(y.reshape(n, results, *places), dtype)


def conv_transpose(
    x: Any,
    w: Any,
    *,
    strides: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
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
    (x, w), dtype = _common(name, x, w)
    _same_axes(name, x, w)
    n, results, *lengths = x.shape
    given, own, *kernel = w.shape
    if given != results:
        raise ValueError(
            f"{name}: kernels of shape {w.shape} are for {given} channels, but x of shape "
            f"{x.shape} has {results}; kernels are (channels of x, channels of the result // "
            "groups, ...)"
        )
    groups = _groups(name, groups, x, w, (results, own * operator.index(groups)))
    axes = len(lengths)
    strides = _numbers(name, "strides", strides, axes, 1)
    dilation = _numbers(name, "dilation", dilation, axes, 1)
    extra = _numbers(name, "output_padding", output_padding, axes, 0)
    if any(e >= s for e, s in zip(extra, strides, strict=True)):
        raise ValueError(f"{name}: output_padding={output_padding!r} has to be below the stride")
    spans = _spans(kernel, dilation)
    if isinstance(padding, str):
        raise ValueError(f"{name}: padding={padding!r} has to be numbers or pairs")
    pads = _pads(name, padding, lengths, spans, strides)
    places = [
        (m - 1) * stride - before - behind + span + more
        for m, stride, (before, behind), span, more in zip(
            lengths, strides, pads, spans, extra, strict=True
        )
    ]
    if any(p < 0 for p in places):
        raise ValueError(f"{name}: padding={padding!r} leaves nothing of shape {tuple(places)}")
    last = tuple(range(3, 3 + axes))
    turned = w.reshape(groups, results // groups, own, *kernel).transpose(0, 2, 1, *last)
    y = _apply(
        "conv",
        x.reshape(n, groups, results // groups, *lengths),
        _core.flip(turned, last),
        size=places,
        len=kernel,
        pad=[span - 1 - before for span, (before, _) in zip(spans, pads, strict=True)],
        dilation=dilation,
        expansion=strides,
    )
    return _narrow(y.reshape(n, groups * own, *places), dtype)


def _pool(
    name: str, x: Any, size: Any, strides: Any, padding: Any, dilation: Any
) -> tuple[Any, np.dtype[Any], dict[str, Any], Pairs]:
    """Give the array to pool, the dtype of the result, the windows and the padding."""
    (x,), dtype = _common(name, x)
    lengths = x.shape[2:]
    axes = len(lengths)
    size = _numbers(name, "size", size, axes, 1)
    strides = size if strides is None else _numbers(name, "strides", strides, axes, 1)
    dilation = _numbers(name, "dilation", dilation, axes, 1)
    spans = _spans(size, dilation)
    pads = _pads(name, padding, lengths, spans, strides)
    places = _places(name, lengths, pads, spans, strides)
    windows = {
        "size": places,
        "len": size,
        "pad": [before for before, _ in pads],
        "stride": strides,
        "dilation": dilation,
    }
    return x, dtype, windows, pads


def _seen(length: int, size: int, pad: int, stride: int, places: int, dilation: int) -> Any:
    """Count the elements that the window sees at each place of an axis."""
    at = np.arange(places)[:, None] * stride + np.arange(size) * dilation - pad
    return np.sum((at >= 0) & (at < length), axis=1)


def _counts(x: Any, windows: dict[str, Any]) -> list[Any]:
    keys = ("len", "pad", "stride", "size", "dilation")
    return [
        _seen(length, *(windows[key][axis] for key in keys))
        for axis, length in enumerate(x.shape[2:])
    ]


def max_pool(x: Any, size: Any, *, strides: Any = None, padding: Any = 0, dilation: Any = 1) -> Any:
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
            f"windows of images of shape {x.shape} have nothing but padding"
        )
    return _narrow(_apply("window_max", x, **windows), dtype)


def avg_pool(
    x: Any, size: Any, *, strides: Any = None, padding: Any = 0, count_include_pad: bool = True
) -> Any:
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
    total = _apply("window_sum", x, **windows)
    if count_include_pad or not any(p > 0 for pair in pads for p in pair):
        return _narrow(total * (1.0 / math.prod(windows["len"])), dtype)
    counts: Any = np.ones(())
    for seen in _counts(x, windows):
        counts = counts[..., None] * seen
    return _narrow(total / counts.astype(x.dtype), dtype)
