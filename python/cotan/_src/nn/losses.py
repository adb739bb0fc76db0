"""Losses: how far predictions are from what was wanted, for each example or reduced to a number."""

import operator

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.nn.activations import log_softmax
from cotan._src.nn.arguments import expect_broadcast, floating, normalized_axes, reduced, rounded
from cotan._src.runtime.values import is_known
from cotan._src.typing import ArrayLike, DTypeLike


def one_hot(
    labels: ArrayLike, num_classes: int, dtype: DTypeLike = np.float64, axis: int = -1
) -> Array:
    """Give 1 at the place of each label along a new axis, 0 elsewhere.

    Parameters
    ----------
    labels
        Integers from 0 to less than `num_classes`, of any shape.
    num_classes
        Length of the new axis.
    dtype
        That of the result.
    axis
        Where the new axis is in the result.

    Returns
    -------
    Array
        With an axis more than `labels`.

    Raises
    ------
    TypeError
        When labels are no integers.
    ValueError
        When a label is out of range. Where that is not known yet, because a program is recorded
        that will run with other labels, its row is 0 everywhere.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.nn.one_hot(np.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]])
    """
    indices, _ = _labels("one_hot", labels, operator.index(num_classes), None)
    hot = _core.eq(indices.reshape((*indices.shape, 1)), np.arange(num_classes))
    return np.moveaxis(_core.cast(hot, dtype), -1, axis)  # type: ignore[type-var]


def cross_entropy(
    logits: ArrayLike,
    labels: ArrayLike,
    axis: int = -1,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Array:
    """Give the negative logarithm of the probability of the labels, from logits.

    Parameters
    ----------
    logits
        Real, with the classes along `axis`.
    labels
        Integers, of the shape of `logits` without `axis`; or probabilities, of the shape of
        `logits`.
    axis
        The axis of the classes.
    label_smoothing
        Which part of each label is spread evenly over all classes, from 0 to 1.
    ignore_index
        A label whose examples count for nothing: their loss is 0, and the mean is over the others.
    reduction
        `"mean"`, `"sum"`, or `"none"` for one loss for each example.

    Returns
    -------
    Array
        A scalar, or of the shape of `logits` without `axis`; of the dtype of `logits`.

    Raises
    ------
    ValueError
        When shapes do not fit, a label is out of range, `label_smoothing` is not from 0 to 1, or
        there is no such reduction. Where labels are not known yet, because a program is recorded
        that will run with others, the loss of a label out of range is NaN.

    >>> import cotan as ct
    >>> import numpy as np
    >>> logits, labels = np.array([[2.0, 0.0], [0.0, 3.0]]), np.array([0, 1])
    >>> ct.nn.cross_entropy(logits, labels).round(4)
    Array(0.0878)
    >>> ct.gradient(lambda z: ct.nn.cross_entropy(z, labels), logits)[0].round(4)
    array([[-0.0596,  0.0596],
           [ 0.0237, -0.0237]])
    """
    name = "cross_entropy"
    (x,), dtype = floating(name, logits)
    (axis,) = normalized_axes(name, axis, x)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"{name}: label_smoothing must be from 0 to 1, not {label_smoothing}")
    logarithms = np.moveaxis(log_softmax(x, axis), axis, -1)  # type: ignore[type-var]
    classes = logarithms.shape[-1]
    wanted = _core.asarray(labels)
    counted: Array | None = None
    if wanted.dtype.kind == "f":
        if wanted.shape != x.shape:
            raise ValueError(
                f"{name}: probabilities of shape {wanted.shape} must have the shape of the logits, "
                f"{x.shape}"
            )
        last = np.moveaxis(wanted, axis, -1)  # type: ignore[type-var]
        weights = _core.cast(last, logarithms.dtype)
        if ignore_index is not None:
            raise ValueError(f"{name}: ignore_index is for integer labels, not for probabilities")
        # What has no probability counts for nothing, however unlikely it is.
        losses = _core.sum(_core.where(_core.eq(weights, 0), 0.0, -weights * logarithms), -1)
    else:
        if wanted.shape != logarithms.shape[:-1]:
            raise ValueError(
                f"{name}: labels of shape {wanted.shape} must have the shape of the logits without "
                f"axis {axis}, {logarithms.shape[:-1]}; probabilities must be floats"
            )
        indices, valid = _labels(name, wanted, classes, ignore_index)
        hot = _core.eq(indices.reshape((*indices.shape, 1)), np.arange(classes))
        losses = _core.sum(_core.where(hot, -logarithms, 0.0), -1)
        losses = _core.where(valid, losses, np.nan)
        if ignore_index is not None:
            counted = _core.ne(indices, ignore_index)
    if label_smoothing:
        spread = -_core.mean(logarithms, -1)
        losses = (1 - label_smoothing) * losses + label_smoothing * spread
    if counted is None:
        return rounded(reduced(name, losses, reduction), dtype)
    losses = _core.where(counted, losses, 0.0)
    if reduction != "mean":
        return rounded(reduced(name, losses, reduction), dtype)
    count = _core.sum(_core.cast(counted, losses.dtype))
    return rounded(_core.sum(losses) / count, dtype)


def _labels(name: str, labels: ArrayLike, classes: int, ignored: int | None) -> tuple[Array, Array]:
    """Give labels as int64, and which are in range; those that are known all have to be."""
    indices = _core.asarray(labels)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"{name}: labels must be integers, not {indices.dtype}")
    indices = _core.cast(indices, np.int64)
    valid = _core.logical_and(_core.ge(indices, 0), _core.lt(indices, classes))
    if ignored is not None:
        valid = _core.logical_or(valid, _core.eq(indices, ignored))
    if is_known(indices) and not np.all(_core.value(valid)):
        wrong = _core.value(indices)[~_core.value(valid)]
        raise ValueError(f"{name}: label {wrong.flat[0]} is out of range for {classes} classes")
    return indices, valid


def binary_cross_entropy_with_logits(
    logits: ArrayLike,
    targets: ArrayLike,
    *,
    pos_weight: ArrayLike = 1.0,
    reduction: str = "mean",
) -> Array:
    """Give the negative logarithm of the probability of a yes or no, from logits.

    Parameters
    ----------
    logits
        Real, of any shape.
    targets
        Probabilities from 0 to 1, bools or integers 0 and 1, of the shape of `logits`.
    pos_weight
        How much positive examples count, compared with negative ones; broadcasts to `logits`.
    reduction
        As for `cross_entropy`.

    Returns
    -------
    Array
        A scalar, or of the shape of `logits`; of the dtype of `logits`.

    Raises
    ------
    ValueError
        When shapes do not fit, or there is no such reduction.

    >>> import cotan as ct
    >>> import numpy as np
    >>> loss = ct.nn.binary_cross_entropy_with_logits
    >>> loss(np.array([0.0, -8.0]), np.array([1.0, 1.0]), reduction="none").round(4)
    Array([0.6931, 8.0003])
    """
    name = "binary_cross_entropy_with_logits"
    (x,), dtype = floating(name, logits)
    (t, weight), _ = floating(name, targets, pos_weight)
    if t.shape != x.shape:
        raise ValueError(f"{name}: targets of shape {t.shape} must have that of logits, {x.shape}")
    expect_broadcast(name, "pos_weight", weight, x.shape)
    # Both terms are positive, so that nothing cancels.
    losses = weight * t * _core.softplus(-x) + (1 - t) * _core.softplus(x)
    return rounded(reduced(name, losses, reduction), dtype)


def mse(predictions: ArrayLike, targets: ArrayLike, *, reduction: str = "mean") -> Array:
    """Give the square of the difference.

    Parameters
    ----------
    predictions, targets
        Real, of one shape.
    reduction
        As for `cross_entropy`.

    Returns
    -------
    Array
        A scalar, or of the shape of the arguments; of their common dtype.

    Raises
    ------
    ValueError
        When shapes differ, or there is no such reduction.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.nn.mse(np.array([1.0, 2.0]), np.array([0.0, 4.0]))
    Array(2.5)
    """
    (x, t), dtype = _of_one_shape("mse", predictions, targets)
    return rounded(reduced("mse", _core.square(x - t), reduction), dtype)


def huber(
    predictions: ArrayLike, targets: ArrayLike, delta: float = 1.0, *, reduction: str = "mean"
) -> Array:
    """Give half the square of differences up to `delta`, and go on with a straight line.

    Parameters, result and errors are those of `mse`. Source: Huber, Robust estimation of a location
    parameter (1964).

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.nn.huber(np.array([0.5, 10.0]), np.zeros(2), reduction="none")
    Array([0.125, 9.5  ])
    """
    if not delta > 0:
        raise ValueError(f"huber: delta must be positive, not {delta}")
    (x, t), dtype = _of_one_shape("huber", predictions, targets)
    distance = _core.abs(x - t)
    near = _core.minimum(distance, delta)
    return rounded(reduced("huber", near * (distance - 0.5 * near), reduction), dtype)


def _of_one_shape(
    name: str, predictions: ArrayLike, targets: ArrayLike
) -> tuple[list[Array], "np.dtype[np.generic]"]:
    arrays, dtype = floating(name, predictions, targets)
    if arrays[0].shape != arrays[1].shape:
        raise ValueError(
            f"{name}: predictions of shape {arrays[0].shape} and targets of shape "
            f"{arrays[1].shape} must have one shape"
        )
    return arrays, dtype
