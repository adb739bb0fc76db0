"""Normalization: layers that bring mean and variance of what passes to fixed values."""

from collections.abc import Sequence

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.nn.arguments import expect_broadcast, floating, normalized_axes, rounded
from cotan._src.typing import ArrayLike


def layer_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    axis: int | Sequence[int] = -1,
    eps: float = 1e-5,
) -> Array:
    """Bring each example to mean 0 and variance 1 along axes, then scale and shift it.

    Parameters
    ----------
    x
        Real. Mean and variance are computed in two passes, of float16 in float32.
    weight, bias
        Broadcast to `x`; none for 1 and 0.
    axis
        The axes over which mean and variance are taken.
    eps
        Added to the variance.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        When an argument is complex.
    ValueError
        When `x` has no such axis, or `weight` or `bias` does not broadcast.

    Source: Ba, Kiros and Hinton, Layer normalization (2016).

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.nn.layer_norm(np.array([[1.0, 2.0, 3.0]])).round(4)
    Array([[-1.2247, 0.    , 1.2247]])
    """
    (x,), dtype = floating("layer_norm", x)
    return rounded(
        _affine(
            "layer_norm",
            _standardized(x, normalized_axes("layer_norm", axis, x), eps),
            weight,
            bias,
        ),
        dtype,
    )


def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    axis: int | Sequence[int] = -1,
    eps: float = 1e-6,
) -> Array:
    """Divide by the root of the mean square along axes, then scale.

    Parameters, result and errors are those of `layer_norm`. Source: Zhang and Sennrich, Root mean
    square layer normalization (2019).

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.nn.rms_norm(np.array([3.0, 4.0])).round(4)
    Array([0.8485, 1.1314])
    """
    (x,), dtype = floating("rms_norm", x)
    square = _core.mean(_core.square(x), normalized_axes("rms_norm", axis, x), True)
    return rounded(_affine("rms_norm", x / _core.sqrt(square + eps), weight, None), dtype)


def group_norm(
    x: ArrayLike,
    groups: int,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    axis: int = 1,
    eps: float = 1e-5,
) -> Array:
    """Normalize each example over groups of channels and all axes behind the first.

    Parameters
    ----------
    x
        Real, of shape `(n, ...)` with the channels along `axis`.
    groups
        Into how many groups the channels are cut; one for each channel is instance normalization.
    weight, bias
        One number for each channel; none for 1 and 0.
    axis
        The axis of the channels, not the first one.
    eps
        Added to the variance.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    ValueError
        When `groups` does not divide the channels, or shapes do not fit.

    Source: Wu and He, Group normalization (2018).

    >>> import cotan as ct
    >>> import numpy as np
    >>> x = np.arange(8.0).reshape(1, 4, 2)
    >>> ct.nn.group_norm(x, 2)[0, :, 0].round(4)
    Array([-1.3416, 0.4472, -1.3416, 0.4472])
    """
    name = "group_norm"
    (x,), dtype = floating(name, x)
    (axis,) = normalized_axes(name, axis, x)
    channels = x.shape[axis]
    if axis == 0:
        raise ValueError(f"{name}: the first axis is that of the examples, not of the channels")
    if groups < 1 or channels % groups:
        raise ValueError(f"{name}: groups={groups} does not divide {channels} channels")
    cut = x.reshape((*x.shape[:axis], groups, channels // groups, *x.shape[axis + 1 :]))
    axes = tuple(i for i in range(1, cut.ndim) if i != axis)
    y = _standardized(cut, axes, eps).reshape(x.shape)
    scale, shift = (_per_channel(name, v, channels, axis, x.ndim) for v in (weight, bias))
    return rounded(_affine(name, y, scale, shift), dtype)


def batch_norm(
    x: ArrayLike,
    mean: ArrayLike,
    var: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    training: bool,
    momentum: float = 0.1,
    axis: int = 1,
    eps: float = 1e-5,
) -> tuple[Array, tuple[Array, Array]]:
    """Normalize each channel over all examples, and keep running statistics.

    Parameters
    ----------
    x
        Real, with the channels along `axis`.
    mean, var
        Running statistics, one number for each channel.
    weight, bias
        One number for each channel; none for 1 and 0.
    training
        Whether to use the mean and the variance of `x` and to move the running ones; if not, those
        are used and stay.
    momentum
        By which part the running statistics move.
    axis
        The axis of the channels.
    eps
        Added to the variance.

    Returns
    -------
    y
        Of the shape and dtype of `x`.
    mean, var
        A pair: the new running statistics, constants. The variance that they take in is the
        unbiased one, as in PyTorch.

    Raises
    ------
    ValueError
        When shapes do not fit, or there is only one number for a channel in training.

    Source: Ioffe and Szegedy, Batch normalization (2015).

    >>> import cotan as ct
    >>> import numpy as np
    >>> x = np.array([[0.0, 1.0], [2.0, 5.0]])
    >>> y, (mean, var) = ct.nn.batch_norm(x, np.zeros(2), np.ones(2), training=True)
    >>> y.round(3), mean, var
    (Array([[-1., -1.],
           [ 1.,  1.]]), Array([0.1, 0.3]), Array([1.1, 1.7]))
    """
    name = "batch_norm"
    (x,), dtype = floating(name, x)
    (axis,) = normalized_axes(name, axis, x)
    channels = x.shape[axis]
    old_mean, old_var = (_of_channels(name, v, channels) for v in (mean, var))
    axes = tuple(i for i in range(x.ndim) if i != axis)
    scale, shift = (_per_channel(name, v, channels, axis, x.ndim) for v in (weight, bias))
    if not training:
        along = _along(channels, axis, x.ndim)
        y = (x - old_mean.reshape(along)) / _core.sqrt(old_var.reshape(along) + eps)
        return rounded(_affine(name, y, scale, shift), dtype), (old_mean, old_var)
    count = x.size // channels if channels else 0
    if count < 2:
        raise ValueError(
            f"{name}: x of shape {x.shape} has {count} number for each channel; in training there "
            "must be more than one"
        )
    centre = _core.mean(x, axes, True)
    spread = _core.mean(_core.square(x - centre), axes, True)
    y = (x - centre) / _core.sqrt(spread + eps)
    seen = (centre.reshape((channels,)), spread.reshape((channels,)) * (count / (count - 1)))
    moved = [
        _core.cast((1 - momentum) * old + momentum * _core.dropgrad(new), old.dtype)
        for old, new in zip((old_mean, old_var), seen, strict=True)
    ]
    return rounded(_affine(name, y, scale, shift), dtype), (moved[0], moved[1])


def _standardized(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    """Subtract the mean and divide by the root of the variance."""
    centred = x - _core.mean(x, axes, True)
    return centred / _core.sqrt(_core.mean(_core.square(centred), axes, True) + eps)


def _affine(name: str, y: Array, weight: ArrayLike | None, bias: ArrayLike | None) -> Array:
    for what, value in (("weight", weight), ("bias", bias)):
        if value is not None:
            x = _core.asarray(value)
            expect_broadcast(name, what, x, y.shape)
            x = _core.cast(x, np.result_type(x.dtype, y.dtype))
            y = y * x if what == "weight" else y + x
    return y


def _along(channels: int, axis: int, ndim: int) -> tuple[int, ...]:
    return tuple(channels if i == axis else 1 for i in range(ndim))


def _per_channel(
    name: str, value: ArrayLike | None, channels: int, axis: int, ndim: int
) -> Array | None:
    """Give one number for each channel, so that it broadcasts along the axis of the channels."""
    if value is None:
        return None
    return _of_channels(name, value, channels).reshape(_along(channels, axis, ndim))


def _of_channels(name: str, value: ArrayLike, channels: int) -> Array:
    x = _core.asarray(value)
    if x.shape != (channels,):
        raise ValueError(
            f"{name}: an array of shape {x.shape} must have one number for each of {channels} "
            "channels"
        )
    return x
