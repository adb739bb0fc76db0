"""Tells quickly that no slot has been written to, which is so after most calls of a callback.

Most slots that a callback reaches are never written to. Comparing each on its own would take ten
times as long as the comparisons here, which join the slots of a kind.
"""

from itertools import chain
from operator import call
from typing import TYPE_CHECKING, Any

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.state.buffers import ArraySlot, SmallBuffer
from cotan._src.state.slots import ABSENT, MAX_PARTS, ObjectSlot, Saved, Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class UnchangedSet:
    """Slots that nobody has written to, with what they hold, compared all at once.

    Everything is compared: objects by identity, numbers bit by bit.
    """

    def __init__(self, saved: dict[Slot, Saved]) -> None:
        self.saved = saved
        self._short: list[Collection[object]] = []
        self._long: list[Collection[object]] = []
        self._gets: list[Callable[[], object]] = []
        self._memory: list[Any] = []
        self._arrays: list[Array] = []
        self._others: list[Slot] = []
        for slot, was in saved.items():
            self._add(slot, was)
        self._lengths = list(map(len, self._short))
        self._items = list(chain.from_iterable(self._short))
        self._singles = list(map(call, self._gets))
        self._lists = list(map(list, self._long))
        self._bytes = b"".join(self._memory)
        self._values = _joined(self._arrays)

    def _add(self, slot: Slot, saved: Saved) -> None:
        live = slot.live_items()
        if live is not None:
            (self._long if len(live[-1]) > MAX_PARTS else self._short).extend(live)
        elif isinstance(slot, ObjectSlot) and saved is not ABSENT:
            self._gets.append(slot.get)
        elif isinstance(slot, ArraySlot) and slot.is_small():
            self._arrays.append(slot.array)
        elif isinstance(slot, SmallBuffer) and slot.is_small():
            self._memory.append(slot.array)
        else:
            self._others.append(slot)

    def is_same(self, between_calls: bool = True) -> bool:
        """Say whether all slots match: all `between_calls`, and after a call those with parts."""
        try:
            return (
                self._are_objects_same()
                and not (self._arrays and _joined(self._arrays) != self._values)
                and not (between_calls and self._memory and b"".join(self._memory) != self._bytes)
                and all(slot.matches(self.saved[slot]) for slot in self._others
                        if between_calls or slot.has_parts)
            )  # fmt: skip
        except (ValueError, AttributeError, LookupError, RuntimeError, BufferError) as error:
            raise_interrupt(error)
            return False  # Unbound now, or being written to by another thread.

    def _are_objects_same(self) -> bool:
        short, gets = self._short, self._gets
        return (
            not (short and list(map(len, short)) != self._lengths)
            and not (short and not _core.same_items(list(chain.from_iterable(short)), self._items))
            and not (gets and not _core.same_items(list(map(call, gets)), self._singles))
            and all(map(_core.same_items, map(list, self._long), self._lists))
        )


def _joined(arrays: list[Array]) -> bytes:
    values: list[Any] = list(map(_core.peek, arrays))
    return b"".join(values)
