"""Restores the mutable state that a callback reaches: variables, attributes, lists, arrays.

Problem: a solver calls the user's function on plain values first, and a derivative rule calls it
again with active arrays. Whatever the first calls wrote (the largest force so far, the state of a
controller, a table of known values) must not be seen by the second ones. A `StateSnapshot` finds
the slots that may be written to from the function (`state.object_graph`), saves them, tells which
were changed by a call, and restores them.
"""

import array
import contextlib
import functools
import io
import itertools
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import (
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.libraries import UNRESTORED_LIBRARIES
from cotan._src.runtime.values import TwinInstance
from cotan._src.state.buffers import (
    ArraySlot,
    LargeBuffer,
    SmallBuffer,
    StateSlot,
    is_writeable,
)
from cotan._src.state.object_graph import (
    ATOMS,
    SNAPSHOT_OBJECTS,
    CodeNames,
    Edge,
    EdgeKind,
    Policy,
    Traits,
    Walk,
    is_heap_type,
    is_iterator,
    members_of,
    named_edges,
    stateful_classes,
)
from cotan._src.state.slots import (
    ABSENT,
    CellSlot,
    ClassSlot,
    ContextSlot,
    DescriptorSlot,
    DictSlot,
    GlobalSlot,
    IteratorSlot,
    ObjectSlot,
    Part,
    Saved,
    SequenceSlot,
    SetSlot,
    Slot,
)
from cotan._src.state.unchanged_check import UnchangedSet

# At most so many bytes of arrays are copied; of larger ones some elements are compared.
_MAX_BYTES = 1 << 26
# After so many calls, slots that were written to have to prove again that they are.
_CALLS_BETWEEN_RESETS = 64
# Types of C whose instances lead to no object of user code.
_OPAQUE = frozenset({*(type(getattr(object, n)) for n in ("__init__", "__dir__")), np.ufunc,
                     GetSetDescriptorType, MemberDescriptorType, type(dict.__dict__["fromkeys"]),
                     type(np.sum)})  # fmt: skip
_COLLECTION_SLOTS: dict[type, Callable[[Any, Any], Slot]] = {
    dict: DictSlot,
    set: SetSlot,
    list: SequenceSlot,
    deque: SequenceSlot,
}
_TEXT_FILES: tuple[type, ...] = (io.StringIO, io.BytesIO)

# What each slot held at some moment.
SavedState = dict[Slot, Saved]


@functools.lru_cache(4096)
def _is_library(home: object) -> bool:
    return str(home).partition(".")[0] in UNRESTORED_LIBRARIES


class _SnapshotPolicy(Policy):
    """Enters what user code may write to; of libraries only what holds objects of user code."""

    bound = SNAPSHOT_OBJECTS
    longest = SNAPSHOT_OBJECTS

    def is_library(self, home: object) -> bool:
        return _is_library(home)

    def enters(self, value: Any) -> bool:
        kind = type(value)
        if issubclass(kind, type):
            return is_heap_type(value) and not _is_library(value.__module__)
        return kind not in _OPAQUE

    def is_library_class(self, cls: type) -> bool:
        # A twin instance replaces an array of a user's subclass.
        return _is_library(cls.__module__) and not issubclass(cls, TwinInstance)

    def is_closed(self, cls: type, is_library: bool) -> bool:
        # Objects of SciPy may hold functions of the user.
        return is_library and not str(cls.__module__).startswith("scipy.")

    def global_edges(self, function: FunctionType) -> Iterator[Edge]:
        for edge in super().global_edges(function):
            if issubclass(type(edge.value), ModuleType):
                yield from self._module_edges(edge, CodeNames.of(function.__code__))
            else:
                yield edge

    def _module_edges(self, edge: Edge, code: CodeNames) -> Iterator[Edge]:
        """Give what code that names a module may reach in it: attributes that it names as well."""
        module = edge.value
        if not _is_library(module.__name__):
            inside = list(named_edges(vars(module), EdgeKind.GLOBAL, code.names))
            if code.sets_attributes or any(is_iterator(inner.value) for inner in inside):
                yield edge
            yield from inside
        elif module in (random, sys.modules.get("numpy.random")) or (
            module is np and "random" in code.names
        ):
            yield Edge(random, EdgeKind.GLOBAL, "_inst", random._inst)
            # NumPy loads it when it is used first.
            mtrand = sys.modules.get("numpy.random.mtrand")
            if mtrand is not None:
                yield Edge(mtrand, EdgeKind.GLOBAL, "_rand", mtrand._rand)


_POLICY = _SnapshotPolicy()


class StateSnapshot:
    """The state of all slots that some functions reach, as it was when the snapshot was made.

    A call writes to few of these slots. Those that calls have written to are saved before each
    call, and all others are compared at once (`UnchangedSet`).

    Objects in `apart` are not entered: a solver that an object of user code holds next to the
    callback must not be reset with it.

    Invariant: after `restore()` every slot matches what it held when it was found. Slots that
    cannot be restored raise `TypeError` when they would have to be.
    """

    def __init__(self, *functions: object, apart: tuple[object, ...] = ()) -> None:
        self._walk = Walk(_POLICY, apart)
        self._bytes = 0
        # What each slot held when it was found, and as much of that as is saved before each call.
        self._first: SavedState = {}
        self._brief: SavedState = {}
        # Slots that calls have written to, in order.
        self._written: dict[Slot, None] = {}
        self._unchanged: UnchangedSet | None = None
        self._calls = 1
        self.extend(functions)
        self._start = self._first.copy()

    def extend(self, values: Iterable[object]) -> list[tuple[Slot, Saved]]:
        """Cover what these objects reach as well; gives the new slots with what they hold."""
        made = [(slot, slot.read(True)) for slot in self._found(values)]
        if not made:
            return made
        brief = {p: p.read(False) if p.is_long() else saved for p, saved in made}
        self._first |= made
        self._brief |= brief
        # Saving an `Array` costs nothing, comparing it a copy.
        self._written |= {slot: None for slot in brief if _is_large_array(slot)}
        self._unchanged = None
        return made

    def state(self) -> SavedState:
        """Give what all slots hold now. Slots found later are not part of it."""
        saved = self._first.copy()
        return saved | {slot: slot.read(True) for slot, _ in self._mismatches(saved)}

    def before_call(self) -> SavedState:
        """Give what slots hold before a call: long collections and large arrays not in full."""
        self._note_written(between_calls=True)
        if self._calls % _CALLS_BETWEEN_RESETS == 0:
            self._reset_written()
        self._calls += 1
        return self._brief | {slot: slot.read(False) for slot in list(self._written)}

    def changes_since(self, saved: SavedState) -> list[tuple[Slot, Part, int | None]]:
        """Give each part that a call has changed: the slot, the part, and where it begins."""
        self._note_written(between_calls=False)
        known = [slot for slot in list(self._written) if slot in saved]
        return [(slot, *part) for slot in known for part in slot.changes(saved[slot])]

    def _note_written(self, between_calls: bool) -> None:
        """Note slots that have been written to for the first time."""
        if self._unchanged is not None and self._unchanged.is_same(between_calls):
            return
        known = self._brief.copy()
        for slot in list(self._written):
            known.pop(slot, None)
        changed = [slot for slot, was in known.items() if not slot.matches(was)]
        self._written |= dict.fromkeys(changed)
        for slot in changed:
            del known[slot]
        self._unchanged = UnchangedSet(known)

    def _reset_written(self) -> None:
        """Forget which slots were written to: many are by the first call only."""
        old = [slot for slot in list(self._written) if not _is_large_array(slot)]
        self._brief |= {slot: slot.read(False) for slot in old}
        for slot in old:
            self._written.pop(slot, None)
        self._unchanged = None

    def _mismatches(self, saved: SavedState) -> list[tuple[Slot, Saved]]:
        """Give the slots that do not match what was saved of them."""
        self._note_written(between_calls=True)
        known = self._unchanged.saved if self._unchanged is not None else {}
        return [(slot, was) for slot, was in saved.items()
                if known.get(slot, self) is not was and not slot.matches(was)]  # fmt: skip

    def has_changed(self) -> bool:
        """Say whether any slot differs from when it was found."""
        return bool(self._mismatches(self._start))

    def restore(self) -> bool:
        """Restore all slots to what they held when found; says whether any had changed.

        Raises `TypeError` for a changed slot that cannot be restored.
        """
        return self.restore_to(self._start)

    def restore_to(self, saved: SavedState) -> bool:
        """Restore a saved state; says whether anything had changed.

        Raises `TypeError` for a changed slot that cannot be restored.
        """
        has_changed = False
        # The holders of iterators come first: restoring an iterator may replace it there.
        for are_iterators in (False, True):
            known = {
                p: was for p, was in saved.items() if isinstance(p, IteratorSlot) is are_iterators
            }
            changed = self._mismatches(known)
            for slot, was in changed:
                slot.restore(was)
            has_changed = has_changed or bool(changed)
        return has_changed

    def pending_arrays(self) -> set[Slot]:
        """Give the slots of arrays that have not been computed, without computing them."""
        arrays = (slot for slot in self._first if isinstance(slot, ArraySlot))
        return {slot for slot in arrays if not slot.array.is_forced}

    def restore_all(self) -> None:
        """Restore all slots without a look at what they hold now, which may have no value."""
        for are_iterators in (False, True):
            for slot, was in self._start.items():
                if isinstance(slot, IteratorSlot) is are_iterators:
                    slot.restore(was)

    def _found(self, roots: Iterable[object]) -> Iterator[Slot]:
        """Give the slots of all objects that can be reached and have not been before."""
        for value, traits in self._walk.objects(roots):
            is_array = traits.sort is np.ndarray
            slots = self._buffer(value) if is_array else _slots_of(value, traits)
            for slot in itertools.chain(slots, _added_attributes(value, traits)):
                yield slot
                for part, iterator in _iterators_in(slot):
                    self._walk.seen[id(iterator)] = iterator
                    yield IteratorSlot(iterator, slot, part)

    def _buffer(self, values: np.ndarray) -> Iterator[Slot]:
        if not is_writeable(values) or _is_borrowed(values):
            return
        if type(values) is not np.ndarray:
            values = values.view(np.ndarray)
        if self._bytes + values.nbytes <= _MAX_BYTES:
            self._bytes += values.nbytes
            yield SmallBuffer(values)
        else:
            yield LargeBuffer(values)


def _is_large_array(slot: Slot) -> bool:
    return isinstance(slot, ArraySlot) and not slot.is_small()


def _is_borrowed(values: np.ndarray) -> bool:
    """Say whether memory belongs to a compiled solver, which may free it at any time."""
    base: Any = values
    # `isinstance` says that an `Array` is an ndarray.
    while issubclass(type(base.base), np.ndarray):
        base = base.base
    return base.base is None and not base.flags.owndata


def _iterators_in(slot: Slot) -> list[tuple[Part, object]]:
    """Give the parts of a slot that hold iterators, each with its iterator."""
    if isinstance(slot, DictSlot):
        pairs: Iterable[tuple[Part, object]] = slot.read(True).items()
    elif isinstance(slot, SequenceSlot):
        pairs = enumerate(slot.read(True))
    elif isinstance(slot, (CellSlot, GlobalSlot, DescriptorSlot)):
        pairs = [(None, slot.read(True))]
    else:
        return []
    return [pair for pair in pairs if type(pair[1]) not in ATOMS and is_iterator(pair[1])]


def _slots_of(value: Any, traits: Traits) -> Iterator[Slot]:
    """Give the slots that an object has itself, besides those of attributes added to it."""
    sort = traits.sort
    if sort is type:
        yield ClassSlot(value)
    elif sort is ModuleType:
        if not _is_library(value.__name__):
            yield DictSlot(vars(value))
    elif sort is FunctionType:
        yield from _slots_of_function(value)
    elif sort is Array:
        # Under `vmap` an array is a batch of them, which have no value here.
        if value._writeable and not _core.is_traced(value):
            yield ArraySlot(value)
    elif sort in stateful_classes():
        slot = _state_slot(value, sort)
        # Closed files and the system's random numbers have no state to save.
        with contextlib.suppress(NotImplementedError):
            if slot.read(True) is not ABSENT:
                yield slot
    elif is_iterator(value):
        yield IteratorSlot(value)
    elif not traits.is_library:
        yield from (_COLLECTION_SLOTS[base](value, c) for base, c in traits.collections)
        members = members_of(value)
        if members is not None:
            yield DictSlot(members)
        yield from (DescriptorSlot(descriptor, value) for descriptor in traits.descriptors)


def _slots_of_function(function: FunctionType) -> Iterator[Slot]:
    yield from map(CellSlot, function.__closure__ or ())
    names = function.__globals__
    if _is_library(names.get("__name__")):
        return
    code = CodeNames.of(function.__code__)
    iterators = {name for name in code.names if is_iterator(names.get(name))}
    yield from (GlobalSlot(names, name) for name in sorted(code.assigned | iterators))
    if "globals" in code.names:
        yield DictSlot(names)
    if code.sets_attributes or function.__dict__:
        yield DictSlot(function.__dict__)


def _added_attributes(value: object, traits: Traits) -> Iterator[Slot]:
    """Give the attributes of arrays and of user classes that derive from a stateful class."""
    # The mask of a masked array may come to be.
    if traits.sort is np.ndarray or (traits.sort in stateful_classes() and not traits.is_library):
        members = members_of(value)
        if members is not None:
            yield DictSlot(members)


def _state_slot(value: Any, sort: Any) -> ObjectSlot | StateSlot:
    if sort is np.random.Generator or sort is np.random.BitGenerator:
        bits: Any = getattr(value, "bit_generator", value)
        return StateSlot(lambda: bits.state, functools.partial(setattr, bits, "state"))
    if sort is np.random.RandomState:
        return StateSlot(functools.partial(value.get_state, legacy=False), value.set_state)
    if sort is random.Random:
        return StateSlot(value.getstate, value.setstate)
    if sort is ContextVar:
        return ContextSlot(value)
    if sort in _TEXT_FILES:
        # The text and the position, without the attributes of the class, which come last.
        return StateSlot(lambda: sort.__getstate__(value)[:-1],
                         lambda saved: sort.__setstate__(value, (*saved, None)))  # fmt: skip
    return StateSlot(functools.partial(bytes, value), functools.partial(_set_bytes, value))


def _set_bytes(value: Any, saved: bytes) -> None:
    is_bytes = issubclass(type(value), bytearray)
    value[:] = bytearray(saved) if is_bytes else array.array(value.typecode, saved)
