"""Keys: what random numbers are a function of, and how further keys are made from one."""

import operator
from collections.abc import Iterator

import numpy as np

from cotan import _core
from cotan._src.random import philox
from cotan._src.runtime.values import is_known
from cotan._src.typing import AnyArray, NDArray

# The purposes for which words are drawn.
DRAW, FOLD, SPLIT = range(3)


class Key:
    """A key, or an array of keys: two 64-bit words each.

    A key is a structure without anything trainable, so it may be an argument of a function that is
    differentiated, mapped or prepared. `len(keys)`, `keys[i]` and iteration give the keys of an
    array of them.

    Parameters
    ----------
    words
        An array of dtype uint64 and shape `(..., 2)`.

    >>> import cotan as ct
    >>> first, second = ct.random.split(ct.random.key(0))
    >>> first == second, ct.random.split(first, 3).shape
    (False, (3,))
    """

    __slots__ = ("words",)
    __trainable__ = ()
    # NumPy makes no array of objects of a key.
    __array_ufunc__ = None

    words: AnyArray

    def __init__(self, words: AnyArray) -> None:
        if words.shape[-1:] != (2,) or words.dtype != np.uint64:
            raise TypeError(
                "Key: words must have dtype uint64 and shape (..., 2), not "
                f"{words.dtype}{tuple(words.shape)}; ct.random.key(seed) makes one from an integer"
            )
        self.words = words

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an array of keys; `()` of a single one."""
        return tuple(self.words.shape[:-1])

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a single key has no len()")
        return self.shape[0]

    def __getitem__(self, index: object) -> "Key":
        if not self.shape:
            raise TypeError("a single key cannot be indexed; ct.random.split(key, n) makes n keys")
        parts = index if isinstance(index, tuple) else (index,)
        if Ellipsis not in parts:
            parts = (*parts, Ellipsis)
        return Key(self.words[(*parts, slice(None))])

    def __iter__(self) -> Iterator["Key"]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Key):
            return NotImplemented
        return bool(np.array_equal(_core.value(self.words), _core.value(other.words)))

    def __hash__(self) -> int:
        return hash((self.shape, _core.value(self.words).tobytes()))

    def __reduce__(self) -> tuple[type["Key"], tuple[NDArray]]:
        return Key, (_core.value(self.words),)

    def __repr__(self) -> str:
        if self.shape:
            return f"Key(shape={self.shape})"
        if not is_known(self.words):
            return "Key(...)"
        first, second = _core.value(self.words).tolist()
        return f"Key({first:#018x}, {second:#018x})"


def single(name: str, key: object) -> AnyArray:
    """Give the words of a single key; refuse anything else."""
    if not isinstance(key, Key):
        raise TypeError(
            f"{name}: the first argument must be a key, not {type(key).__name__}; make one with "
            "ct.random.key(seed)"
        )
    if key.shape:
        raise ValueError(
            f"{name}: one key is needed, not an array of keys of shape {key.shape}; index it, or "
            f"map over it with ct.vmap(lambda key: ct.random.{name}(key, ...))(keys)"
        )
    return key.words


def key(seed: int) -> Key:
    """Make a key from a seed.

    Parameters
    ----------
    seed
        A non-negative integer below 2**128.

    Returns
    -------
    Key
        The same for the same seed, on every machine.

    Raises
    ------
    TypeError
        When the seed is no integer.
    ValueError
        When it is out of range.

    >>> import cotan as ct
    >>> ct.random.key(42)
    Key(0x000000000000002a, 0x0000000000000000)
    """
    seed = operator.index(seed)
    if not 0 <= seed < 1 << 128:
        raise ValueError(f"key: the seed must be a non-negative integer below 2**128, not {seed}")
    return _made(np.array([seed & (1 << 64) - 1, seed >> 64], np.uint64))


def split(key: Key, num: int = 2) -> Key:
    """Make keys that have nothing in common, neither with each other nor with this one.

    Use each key once: for one draw, or for one call of a function that draws.

    Parameters
    ----------
    key
        A single key.
    num
        How many keys.

    Returns
    -------
    Key
        Of shape `(num,)`; it can be unpacked.

    Raises
    ------
    ValueError
        When `key` is an array of keys, or `num` is negative.

    >>> import cotan as ct
    >>> key = ct.random.key(0)
    >>> key, dropout_key = ct.random.split(key)
    >>> len(ct.random.split(key, 5))
    5
    """
    words = single("split", key)
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"split: num must not be negative, not {num}")
    blocks = philox.words(words, 4 * num, SPLIT).reshape(num, 4)
    return _made(blocks[:, :2])


def fold_in(key: Key, data: int | AnyArray) -> Key:
    """Make the key that belongs to a key and an integer, such as the number of a step.

    Parameters
    ----------
    key
        A single key.
    data
        A non-negative integer below 2**63; a scalar array of integers where a program is recorded.

    Returns
    -------
    Key
        A single key.

    Raises
    ------
    TypeError
        When `data` is no integer.
    ValueError
        When `key` is an array of keys, or `data` is out of range.

    >>> import cotan as ct
    >>> key = ct.random.key(0)
    >>> ct.random.fold_in(key, 1) == ct.random.fold_in(key, 2)
    False
    """
    words = single("fold_in", key)
    if isinstance(data, _core.Array):
        if data.shape or data.dtype.kind not in "iu":
            raise TypeError(
                f"fold_in: data must be an integer, not {data.dtype}{data.shape}; a Python int "
                "that is an argument of a gradient or of a prepared function counts as a float "
                "there: pass np.asarray(n)"
            )
        if is_known(data):
            data = int(_core.value(data))
    else:
        data = operator.index(data)
    if isinstance(data, int):
        if not 0 <= data < 1 << 63:
            raise ValueError(
                f"fold_in: data must be a non-negative integer below 2**63, not {data}"
            )
    else:
        # Whatever the program runs with, the counter does not overflow.
        data = _core.cast(data, np.uint64) & np.uint64((1 << 63) - 1)
    return _made(philox.words(words, 4, FOLD, data)[:2])


def _made(words: AnyArray) -> Key:
    if isinstance(words, np.ndarray):
        # What is read-only is never copied.
        words.flags.writeable = False
    return Key(words)
