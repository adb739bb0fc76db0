"""Places of many bytes: arrays, text, the states of generators of random numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.state.bitwise_equal import same_bits
from cotan._src.state.slots import MANY, NOTHING, Parts, Slot

# Memory of more bytes is not copied for each call, and arrays of ours that have more are not held.
_LARGE = 1 << 14
_LARGE_OF_OURS = 1 << 20


class SmallBuffer(Slot):
    """The elements of an array of NumPy's.

    Memory of numbers holds nothing that is followed. Where it is large it is not held in each call:
    it is as at the end while one is done again.
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        self.has_parts = array.dtype.hasobject

    def is_long(self) -> bool:
        return not self.has_parts and self.array.nbytes > _LARGE

    def is_short(self) -> bool:
        """Say whether it is memory in one piece that may be joined with others."""
        is_in_order = self.array.flags.c_contiguous
        return not self.has_parts and is_in_order and self.array.nbytes <= _LARGE

    def held(self, whole: bool) -> Any:
        return NOTHING if self.is_long() and not whole else self.array.copy()

    def is_as(self, held: Any) -> bool:
        return held is NOTHING or same_bits(held, self.array)

    def put_back(self, held: Any) -> None:
        if held.shape != self.array.shape:
            raise self.lost()
        self.array[...] = held

    name = "an array whose shape it changes"

    def changed(self, held: Any) -> Parts:
        if not self.has_parts or self.is_as(held):
            return []
        now = self._values(self.array)
        if now.size > MANY or now.dtype.names is not None or now.shape != held.shape:
            return [(None, None)]
        was = self._values(held)
        return [(i, None) for i in np.ndindex(now.shape)
                if not same_bits(was[(*i, ...)], now[(*i, ...)])]  # fmt: skip

    def _values(self, array: Any) -> Any:
        return array

    def take(self, part: Any, _begin: Any) -> Any:
        return self.held(True) if part is None else self.array[part]

    def give(self, part: Any, _begin: Any, value: Any) -> None:
        self.array[... if part is None else part] = value

    def inside(self, part: Any, value: Any) -> Any:
        if part is not None:
            return [value]
        return value.reshape(-1).tolist() if self.array.dtype.hasobject else []


class ArraySlot(SmallBuffer):
    """The elements of an array of ours, with what is followed in it."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.has_parts = True

    def is_long(self) -> bool:
        return bool(self.array.nbytes > _LARGE_OF_OURS)

    def is_short(self) -> bool:
        return bool(self.array.nbytes <= _LARGE)

    def is_as(self, held: Any) -> bool:
        if held is NOTHING:
            return True
        is_less = _core.is_active(held) and not _core.is_active(self.array)
        return not is_less and same_bits(_core.value(held), _core.value(self.array))

    def _values(self, array: Any) -> Any:
        return _core.value(array)

    def inside(self, _part: Any, _value: Any) -> Any:
        return []


class LargeBuffer(SmallBuffer):
    """An array that is too large to be held: some of its elements tell whether it has changed."""

    name = "an array of more than 64 MB"

    def is_long(self) -> bool:
        return False

    def held(self, _whole: bool) -> Any:
        # Whatever its layout, it is not copied.
        is_in_order = self.array.flags.c_contiguous
        flat: Any = self.array.reshape(-1) if is_in_order else self.array.flat
        step = max(1, self.array.size // 4096)
        return np.concatenate([flat[::step], flat[:64], flat[-64:]])

    def is_as(self, held: Any) -> bool:
        return same_bits(held, self.held(True))

    def put_back(self, held: Any) -> None:
        if not self.is_as(held):
            raise self.lost()

    def changed(self, held: Any) -> Parts:
        return [] if self.is_as(held) else [(None, None)]


def is_large(value: Any) -> bool:
    """Say whether something is an array that is not copied for each call."""
    return issubclass(type(value), (np.ndarray, _core.Array)) and value.nbytes > _LARGE


class StateSlot(Slot):
    """What functions give and take: the state of a generator of random numbers, bytes, text.

    Where that is long it is as at the end while a call is done again.
    """

    has_parts = False  # None has a derivative.

    def __init__(self, get: Callable[[], Any], put: Callable[[Any], Any]) -> None:
        self._get, self._put = get, put
        self._length = 0

    def is_long(self) -> bool:
        return self._length > _LARGE

    def held(self, whole: bool) -> Any:
        if self.is_long() and not whole:
            return NOTHING
        try:
            held = self._get()
        except ValueError:
            return NOTHING  # a file that is closed by now
        text = held[0] if type(held) is tuple and held else held
        self._length = len(text) if type(text) in (str, bytes) else 0
        return held

    def is_as(self, held: Any) -> bool:
        if held is NOTHING:
            return True
        now = self.held(True)
        return now is NOTHING or _same_states(held, now)

    def put_back(self, held: Any) -> None:
        self._put(held)

    def changed(self, _held: Any) -> Parts:
        return []


def _same_states(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return all(_same_states(a[key], b[key]) for key in a)
    return same_bits(a, b) if isinstance(a, np.ndarray) else bool(a == b)
