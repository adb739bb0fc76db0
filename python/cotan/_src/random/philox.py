"""Philox 4x64-10: pseudo-random 64-bit words as a function of a key and a counter.

Where the key has a value NumPy's generator computes the words. Where it has none, because a
program is recorded that will run with other keys, the same function is written in primitives.
Both give the same bits.

Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (2011).
"""

from typing import TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.values import is_known
from cotan._src.typing import AnyArray, NDArray

_Words: TypeAlias = tuple[Array, Array, Array, Array]

_ROUNDS = 10
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def words(key: AnyArray, count: int, purpose: int, start: AnyArray | int = 0) -> AnyArray:
    """Give `count` words for a key, of shape `(count,)` and dtype uint64.

    Parameters
    ----------
    key
        Two words, of shape `(2,)` and dtype uint64.
    count
        How many words.
    purpose
        The highest word of the counter: what draws words for one purpose has nothing in common with
        what draws for another.
    start
        The lowest word of the counter before the first block of four words; less than 2**63.
    """
    blocks = -(-count // 4)
    if is_known(key) and is_known(start):
        return _by_numpy(_core.value(key), blocks, purpose, int(_core.value(start)))[:count]
    first = _core.cast(_core.asarray(start), np.uint64) + np.uint64(1)
    counter = _core.cast(_core.apply("iota", size=blocks), np.uint64) + first
    return _core.reshape(_stacked(_blocks(key, counter, purpose)), (4 * blocks,))[:count]


def _blocks(key: AnyArray, counter: AnyArray, purpose: int) -> _Words:
    """Give the four words for each value of the lowest word of the counter, in primitives."""
    k0, k1 = (_core.asarray(key)[i] for i in range(2))
    zero = _core.mul(counter, np.uint64(0))
    x0, x1, x2, x3 = _core.asarray(counter), zero, zero, _core.add(zero, np.uint64(purpose))
    for _ in range(_ROUNDS):
        high0, low0 = _product(x0, _MULTIPLIERS[0])
        high1, low1 = _product(x2, _MULTIPLIERS[1])
        x0, x1, x2, x3 = high1 ^ x1 ^ k0, low1, high0 ^ x3 ^ k1, low0
        k0, k1 = k0 + np.uint64(_WEYL[0]), k1 + np.uint64(_WEYL[1])
    return x0, x1, x2, x3


def _by_numpy(key: NDArray, blocks: int, purpose: int, start: int) -> NDArray:
    # NumPy counts up before each block.
    generator = np.random.Philox(key=key, counter=np.array([start, 0, 0, purpose], np.uint64))
    raw: NDArray = generator.random_raw(4 * blocks)
    return raw


def _stacked(x: _Words) -> Array:
    return _core.transpose(_core.stack(x))


def _product(x: Array, factor: int) -> tuple[Array, Array]:
    return high_product(x, factor), x * np.uint64(factor)


def high_product(x: AnyArray, factor: int) -> Array:
    """Give the upper 64 bits of the product of 64-bit words with a number below 2**64."""
    x = _core.asarray(x)
    low, high = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    x_low, x_high = x & _LOW, x >> _HALF
    cross = x_high * low + (x_low * low >> _HALF)
    other = x_low * high + (cross & _LOW)
    return x_high * high + (cross >> _HALF) + (other >> _HALF)
