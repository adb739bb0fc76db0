"""Standard distributions: formulas over the words of the generator, and arguments of all draws.

A number takes one word. What is drawn has as many random bits as its dtype has digits.
"""

import math
from collections.abc import Sequence

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.random import philox
from cotan._src.random.keys import DRAW, Key
from cotan._src.typing import AnyArray, ArrayLike, Dtype, DTypeLike, Shape

#: One length, or one for each axis.
ShapeLike = int | Sequence[int]


def draw_words(key: AnyArray, shape: Shape) -> AnyArray:
    """Draw words of 64 random bits."""
    words: AnyArray = philox.words(key, math.prod(shape), DRAW).reshape(shape)
    return words


def unit(key: AnyArray, shape: Shape, dtype: Dtype) -> Array:
    """Draw from the numbers `k / 2**n` in [0, 1), with as many bits as the dtype has."""
    bits = np.finfo(dtype).nmant + 1
    leading = draw_words(key, shape) >> np.uint64(64 - bits)
    return _core.cast(leading, np.float64) * 0.5**bits


def open_unit(key: AnyArray, shape: Shape, dtype: Dtype) -> Array:
    """Draw from (0, 1): from the centres of cells of equal length."""
    bits = np.finfo(dtype).nmant
    leading = draw_words(key, shape) >> np.uint64(64 - bits)
    return _core.cast((leading << np.uint64(1)) | np.uint64(1), np.float64) * 0.5 ** (bits + 1)


def signed_unit(key: AnyArray, shape: Shape, dtype: Dtype) -> Array:
    """Draw from (-1, 1) without 0: from the centres of cells, as many on each side."""
    bits = np.finfo(dtype).nmant + 1
    leading = _core.cast(draw_words(key, shape) >> np.uint64(64 - bits), np.int64)
    odd = leading * 2 + (1 - (1 << bits))
    return _core.cast(odd, np.float64) * 0.5**bits


def standard_normal(key: AnyArray, shape: Shape, dtype: Dtype) -> Array:
    """Draw with mean 0 and variance 1, by the inverse of the distribution function."""
    wide = wide_dtype(dtype)
    signed = signed_unit(key, shape, wide)
    return math.sqrt(2) * _core.erfinv(_core.cast(signed, wide))


def standard_gumbel(key: AnyArray, shape: Shape, dtype: Dtype) -> Array:
    """Draw from the distribution function `exp(-exp(-x))`, by its inverse."""
    return -_core.log(-_core.log(open_unit(key, shape, wide_dtype(dtype))))


def named(**parameters: ArrayLike) -> list[tuple[str, ArrayLike]]:
    """Give parameters with their names."""
    return list(parameters.items())


def normalized_shape(shape: ShapeLike) -> Shape:
    """Give a shape as a tuple."""
    lengths = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    return tuple(int(n) for n in lengths)


def real_dtype(name: str, dtype: DTypeLike) -> Dtype:
    """Give a dtype; refuse what is not real."""
    kind = np.dtype(dtype)
    if kind.kind != "f":
        raise TypeError(f"{name}: dtype must be float16, float32 or float64, not {kind}")
    return kind


def wide_dtype(dtype: Dtype) -> Dtype:
    """Give the dtype in which numbers of a dtype are computed."""
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def parameter(name: str, what: str, value: ArrayLike, shape: Shape) -> Array:
    """Give a parameter as an array that broadcasts to a shape."""
    x = _core.asarray(value)
    try:
        fits = np.broadcast_shapes(x.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{name}: {what} of shape {x.shape} does not broadcast to shape={shape}")
    return x


def presented(drawn: Array, key: Key, *arguments: object) -> AnyArray:
    """Give an ndarray where everything has a value, an `Array` where something is recorded."""
    if _core.contains_array((key.words, *arguments), {}) or _core.is_lifting():
        return drawn
    return _core.value(drawn)[()]
