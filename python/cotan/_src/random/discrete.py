"""Draws of bools, integers and elements of arrays, as functions of a key.

Probabilities are constants to every gradient. The elements that are picked are not: their gradient
goes to where they were.
"""

import math

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.random import philox
from cotan._src.random.keys import Key, single
from cotan._src.random.standard import (
    ShapeLike,
    draw_words,
    normalized_shape,
    parameter,
    presented,
    standard_gumbel,
    unit,
)
from cotan._src.typing import AnyArray, ArrayLike, DTypeLike


def bernoulli(key: Key, p: ArrayLike = 0.5, shape: ShapeLike | None = None) -> AnyArray:
    """Draw bools that are true with the probability `p`.

    Parameters
    ----------
    key
        A single key.
    p
        Probabilities, an array that broadcasts to `shape`. Nothing is differentiated with respect
        to them: the result is piecewise constant.
    shape
        Shape of the result; by default that of `p`.

    Returns
    -------
    ndarray
        Of dtype bool; as for `uniform`.

    Raises
    ------
    ValueError
        As for `uniform`.

    >>> import cotan as ct
    >>> ct.random.bernoulli(ct.random.key(0), 0.3, (4,))
    array([ True,  True,  True, False])
    """
    shape = tuple(_core.asarray(p).shape) if shape is None else normalized_shape(shape)
    probability = _core.dropgrad(parameter("bernoulli", "p", p, shape))
    share = unit(single("bernoulli", key), shape, np.dtype(np.float64))
    return presented(_core.lt(share, probability), key, p)


def randint(
    key: Key, shape: ShapeLike, minval: int, maxval: int, dtype: DTypeLike = np.int64
) -> AnyArray:
    """Draw integers that are at least `minval` and less than `maxval`.

    Parameters
    ----------
    key
        A single key.
    shape
        Shape of the result.
    minval, maxval
        Python integers.
    dtype
        A dtype of integers that holds them.

    Returns
    -------
    ndarray
        As for `uniform`. A number is drawn as the upper half of a product of 128 bits, so none is
        more probable than another by more than one part in `2**64 / (maxval - minval)`.

    Raises
    ------
    TypeError
        When the dtype has no integers.
    ValueError
        When there is no integer to draw, or `dtype` does not hold all of them.

    >>> import cotan as ct
    >>> ct.random.randint(ct.random.key(0), (5,), 1, 7)
    array([1, 2, 1, 4, 4])
    """
    kind = np.dtype(dtype)
    if kind.kind not in "iu":
        raise TypeError(f"randint: dtype must be one of integers, not {kind}")
    low, high = int(minval), int(maxval)
    if not low < high:
        raise ValueError(f"randint: there is no integer from {low} to less than {high}")
    if low < np.iinfo(kind).min or high - 1 > np.iinfo(kind).max:
        raise ValueError(f"randint: {kind} does not hold all integers from {low} to {high - 1}")
    words = draw_words(single("randint", key), normalized_shape(shape))
    span = high - low
    offset = words if span == 1 << 64 else philox.high_product(words, span)
    # Both wrap around, and so does their sum.
    drawn = offset + np.uint64(low & (1 << 64) - 1)
    return presented(_core.cast(_core.cast(drawn, np.int64 if low < 0 else np.uint64), kind), key)


def permutation(key: Key, x: int | ArrayLike, axis: int = 0) -> AnyArray:
    """Bring what lies along an axis into random order.

    Parameters
    ----------
    key
        A single key.
    x
        An array, differentiable; an integer `n` stands for `np.arange(n)`.
    axis
        The axis.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`; as for `uniform`.

    Raises
    ------
    ValueError
        When `key` is an array of keys, or `x` has no such axis.

    >>> import cotan as ct
    >>> ct.random.permutation(ct.random.key(0), 5)
    array([0, 2, 1, 4, 3])
    """
    count, axis = _population("permutation", x, axis)
    order = _order(single("permutation", key), count)
    return presented(_taken(x, order, axis), key, x)


def choice(
    key: Key,
    a: int | ArrayLike,
    shape: ShapeLike = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
) -> AnyArray:
    """Draw elements of an array.

    Parameters
    ----------
    key
        A single key.
    a
        An array, differentiable; an integer `n` stands for `np.arange(n)`.
    shape
        How many: one, or an array of them.
    replace
        Whether an element may be drawn more than once.
    p
        Probabilities of the elements along the axis, which need not add up to 1; equal by default.
        Nothing is differentiated with respect to them.
    axis
        The axis along which elements lie.

    Returns
    -------
    ndarray
        `a` with `shape` in place of the axis; as for `uniform`. Without replacement and with `p`,
        as if one was drawn after the other from those that are left (by Gumbel's trick).

    Raises
    ------
    ValueError
        When there are too few elements, or `p` has another length.

    >>> import cotan as ct
    >>> ct.random.choice(ct.random.key(0), 10, (3,), replace=False)
    array([0, 2, 9])
    """
    count, axis = _population("choice", a, axis)
    shape = normalized_shape(shape)
    size = math.prod(shape)
    if (size and not count) or (not replace and size > count):
        raise ValueError(
            f"choice: {size} elements cannot be drawn from {count}"
            + ("" if replace else " without replacement")
        )
    if p is not None and _core.asarray(p).shape != (count,):
        raise ValueError(f"choice: p must have shape {(count,)}, not {_core.asarray(p).shape}")
    words = single("choice", key)
    if not replace:
        order = _order(words, count) if p is None else _order_by_chance(words, p)
        picked = order[:size].reshape(shape)
    elif p is None:
        picked = _core.cast(philox.high_product(draw_words(words, shape), count), np.int64)
    else:
        ends = _core.cumsum(_core.cast(_core.dropgrad(_core.asarray(p)), np.float64))
        share = unit(words, (*shape, 1), np.dtype(np.float64)) * ends[-1]
        picked = _core.sum(_core.cast(_core.ge(share, ends), np.int64), -1)
        # Rounding may lead behind the last.
        picked = _core.minimum(picked, count - 1)
    return presented(_taken(a, picked, axis), key, a, p)


def categorical(
    key: Key, logits: ArrayLike, axis: int = -1, shape: ShapeLike | None = None
) -> AnyArray:
    """Draw indices along an axis, from the logarithms of their probabilities.

    By Gumbel's trick: the index of the largest logit after noise was added.

    Parameters
    ----------
    key
        A single key.
    logits
        Logarithms of probabilities, which need not add up to 1. Nothing is differentiated with
        respect to them.
    axis
        The axis of `logits` along which the categories lie.
    shape
        Shape of the result, to which that of `logits` without the axis broadcasts, and which it is
        when it is not given.

    Returns
    -------
    ndarray
        Indices of dtype int64; as for `uniform`.

    Raises
    ------
    ValueError
        When shapes do not fit.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.random.categorical(ct.random.key(0), np.log([0.1, 0.1, 0.8]), shape=(6,))
    array([2, 2, 1, 2, 2, 2])
    """
    x = np.moveaxis(_core.dropgrad(_core.asarray(logits)), axis, -1)  # type: ignore[type-var]
    batch = tuple(x.shape[:-1])
    shape = batch if shape is None else normalized_shape(shape)
    if np.broadcast_shapes(batch, shape) != shape:
        raise ValueError(
            f"categorical: logits of shape {_core.asarray(logits).shape} without axis {axis} do "
            f"not broadcast to shape={shape}"
        )
    noise = standard_gumbel(single("categorical", key), (*shape, x.shape[-1]), np.dtype(np.float64))
    return presented(_core.argmax(x + noise, -1), key, logits)


def _order(key: AnyArray, count: int) -> Array:
    """Give a permutation: the order of words that are drawn."""
    return _core.argsort(draw_words(key, (count,)))


def _order_by_chance(key: AnyArray, p: ArrayLike) -> Array:
    chances = _core.cast(_core.dropgrad(_core.asarray(p)), np.float64)
    noise = standard_gumbel(key, chances.shape, np.dtype(np.float64))
    return _core.argsort(-(_core.log(chances) + noise))


def _population(name: str, x: int | ArrayLike, axis: int) -> tuple[int, int]:
    """Give how many elements lie along an axis, and the axis."""
    if isinstance(x, (int, np.integer)):
        if x < 0:
            raise ValueError(f"{name}: an integer in place of an array must not be negative: {x}")
        return int(x), 0
    array = _core.asarray(x)
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(f"{name}: an array of shape {array.shape} has no axis {axis}")
    return array.shape[axis], axis % array.ndim


def _taken(x: int | ArrayLike, index: Array, axis: int) -> Array:
    if isinstance(x, (int, np.integer)):
        return index
    rows = np.moveaxis(_core.asarray(x), axis, 0)  # type: ignore[type-var]
    taken = _core.gather(rows, index)
    ahead = tuple(range(index.ndim))
    return np.moveaxis(taken, ahead, tuple(axis + i for i in ahead))  # type: ignore[type-var]
