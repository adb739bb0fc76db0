"""Slots of many bytes that a callback may write to: arrays, text, states of random generators.

Small ones are copied before each call of the callback, larger ones once, and of the largest some
elements are compared.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.state.bitwise_equal import same_bits
from cotan._src.state.slots import (
    ABSENT,
    MAX_PARTS,
    NotRestorableError,
    Part,
    Parts,
    Saved,
    Slot,
)
from cotan._src.typing import AnyArray, NDArray

# ndarrays of more bytes are not saved before each call; the second bound is for `Array`s.
_LARGE = 1 << 14
_LARGE_ARRAY = 1 << 20
# The bit of NumPy's flags.
_WRITEABLE = 0x0400


class SmallBuffer(Slot):
    """The elements of an ndarray, which is copied whole.

    Numbers carry no derivative. More than 16 KB of them are not saved before each call: a replayed
    call finds them as the solver left them. Of arrays of objects the elements are parts, by index.
    """

    name = "an array whose shape it changes"

    def __init__(self, array: AnyArray) -> None:
        self.array: Any = array
        self.has_parts = array.dtype.hasobject

    def is_long(self) -> bool:
        return not self.has_parts and self.array.nbytes > _LARGE

    def is_small(self) -> bool:
        """Say whether it is contiguous and short enough to be compared together with others."""
        is_in_order = self.array.flags.c_contiguous
        return not self.has_parts and is_in_order and self.array.nbytes <= _LARGE

    def read(self, whole: bool) -> Saved:
        return ABSENT if self.is_long() and not whole else self.array.copy()

    def matches(self, saved: Saved) -> bool:
        return saved is ABSENT or same_bits(saved, self.array)

    def restore(self, saved: Saved) -> None:
        if saved.shape != self.array.shape:
            raise NotRestorableError(self.name)
        self.array[...] = saved

    def changes(self, saved: Saved) -> Parts:
        if not self.has_parts or self.matches(saved):
            return []
        now = self._values(self.array)
        if now.size > MAX_PARTS or now.dtype.names is not None or now.shape != saved.shape:
            return [(None, None)]
        was = self._values(saved)
        return [(i, None) for i in np.ndindex(now.shape)
                if not same_bits(was[(*i, ...)], now[(*i, ...)])]  # fmt: skip

    def _values(self, array: Any) -> NDArray:
        values: NDArray = array
        return values

    def read_part(self, part: Part, _begin: int | None) -> object:
        return self.read(True) if part is None else self.array[part]

    def write_part(self, part: Part, _begin: int | None, value: object) -> None:
        self.array[... if part is None else part] = value

    def values_in(self, part: Part, value: Any) -> Iterable[object]:
        if part is not None:
            return [value]
        return value.reshape(-1).tolist() if self.array.dtype.hasobject else []


class ArraySlot(SmallBuffer):
    """The elements of an `Array`, with the derivatives that they carry."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.has_parts = True

    def is_long(self) -> bool:
        return bool(self.array.nbytes > _LARGE_ARRAY)

    def is_small(self) -> bool:
        return bool(self.array.nbytes <= _LARGE)

    def matches(self, saved: Saved) -> bool:
        if saved is ABSENT:
            return True
        is_less = _core.is_active(saved) and not _core.is_active(self.array)
        return not is_less and same_bits(_core.peek(saved), _core.peek(self.array))

    def _values(self, array: AnyArray) -> NDArray:
        return _core.value(array)

    def values_in(self, _part: Part, _value: object) -> Iterable[object]:
        return []


class LargeBuffer(SmallBuffer):
    """The elements of an ndarray that is too large to be copied, so that it is not restored.

    About 4,000 elements tell whether it has changed.
    """

    name = "an array of more than 64 MB"

    def is_long(self) -> bool:
        return False

    def read(self, _whole: bool) -> Saved:
        # `reshape` would copy one that is not contiguous.
        is_in_order = self.array.flags.c_contiguous
        flat: Any = self.array.reshape(-1) if is_in_order else self.array.flat
        step = max(1, self.array.size // 4096)
        return np.concatenate([flat[::step], flat[:64], flat[-64:]])

    def matches(self, saved: Saved) -> bool:
        return same_bits(saved, self.read(True))

    def restore(self, saved: Saved) -> None:
        if not self.matches(saved):
            raise NotRestorableError(self.name)

    def changes(self, saved: Saved) -> Parts:
        return [] if self.matches(saved) else [(None, None)]


def is_writeable(array: np.ndarray) -> bool:
    """Say whether an array may be written to; asking `broadcast_arrays`' own by name would warn."""
    return bool(array.flags.num & _WRITEABLE)


def is_large(value: Any) -> bool:
    """Say whether something is an array that is not copied before each call."""
    return issubclass(type(value), (np.ndarray, _core.Array)) and value.nbytes > _LARGE


class StateSlot(Slot):
    """State behind a getter and a setter: of a random generator, a text file, a `bytearray`.

    Text and bytes of more than 16 KB are not saved before each call: a replayed call finds them as
    the solver left them.
    """

    has_parts = False  # None has a derivative.

    def __init__(self, get: Callable[[], Saved], put: Callable[[Saved], object]) -> None:
        self._get, self._put = get, put
        self._length = 0

    def is_long(self) -> bool:
        return self._length > _LARGE

    def read(self, whole: bool) -> Saved:
        if self.is_long() and not whole:
            return ABSENT
        try:
            saved = self._get()
        except ValueError as error:
            raise_interrupt(error)
            return ABSENT  # a file that is closed by now
        text = saved[0] if type(saved) is tuple and saved else saved
        self._length = len(text) if type(text) in (str, bytes) else 0
        return saved

    def matches(self, saved: Saved) -> bool:
        if saved is ABSENT:
            return True
        now = self.read(True)
        return now is ABSENT or _same_states(saved, now)

    def restore(self, saved: Saved) -> None:
        self._put(saved)

    def changes(self, _saved: Saved) -> Parts:
        return []


def _same_states(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return all(_same_states(a[key], b[key]) for key in a)
    return same_bits(a, b) if isinstance(a, np.ndarray) else bool(a == b)
