"""What nobody has written to so far: one look tells that it is as it was."""

from itertools import chain
from operator import call
from typing import Any

from cotan import _core
from cotan._src.state.buffers import ArraySlot, SmallBuffer
from cotan._src.state.slots import ABSENT, MAX_PARTS, ObjectSlot, Slot


class UnchangedSet:
    """Slots and what they hold, compared together: a look at each would take ten times as long.

    Everything is compared; an object as such, numbers bit by bit.
    """

    def __init__(self, saved: dict[Slot, Any]) -> None:
        self.saved = saved
        self._short: list[Any] = []
        self._long: list[Any] = []
        self._gets: list[Any] = []
        self._memory: list[Any] = []
        self._ours: list[Any] = []
        self._others: list[Slot] = []
        for slot, was in saved.items():
            self._add(slot, was)
        self._lengths = list(map(len, self._short))
        self._items = list(chain.from_iterable(self._short))
        self._singles = list(map(call, self._gets))
        self._lists = list(map(list, self._long))
        self._bytes = b"".join(self._memory)
        self._values = _joined(self._ours)

    def _add(self, slot: Slot, saved: Any) -> None:
        looks = slot.live_items()
        if looks is not None:
            (self._long if len(looks[-1]) > MAX_PARTS else self._short).extend(looks)
        elif isinstance(slot, ObjectSlot) and saved is not ABSENT:
            self._gets.append(slot.get)
        elif isinstance(slot, ArraySlot) and slot.is_small():
            self._ours.append(slot.array)
        elif isinstance(slot, SmallBuffer) and slot.is_small():
            self._memory.append(slot.array)
        else:
            self._others.append(slot)

    def is_same(self, between_calls: bool = True) -> bool:
        """Say whether all is as it was; after a call of that which has parts."""
        try:
            return (
                self._are_objects_same()
                and not (self._ours and _joined(self._ours) != self._values)
                and not (between_calls and self._memory and b"".join(self._memory) != self._bytes)
                and all(slot.matches(self.saved[slot]) for slot in self._others
                        if between_calls or slot.has_parts)
            )  # fmt: skip
        except (ValueError, AttributeError, LookupError, RuntimeError, BufferError):
            return False  # What is empty now, or is being written to by another thread.

    def _are_objects_same(self) -> bool:
        short, gets = self._short, self._gets
        return (
            not (short and list(map(len, short)) != self._lengths)
            and not (short and not _core.same_items(list(chain.from_iterable(short)), self._items))
            and not (gets and not _core.same_items(list(map(call, gets)), self._singles))
            and all(map(_core.same_items, map(list, self._long), self._lists))
        )


def _joined(arrays: list[Any]) -> bytes:
    values: list[Any] = list(map(_core.value, arrays))
    return b"".join(values)
