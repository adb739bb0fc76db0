"""What functions leave behind: variables that they assign to, lists that they append to.

A solver calls a program's function on values first, and it is called again with what is followed.
What the first calls left behind (the largest force so far, the control that a sampler holds, how
many entries a table has) is taken back in between, so that the second ones begin where these did.
What may keep something is looked for from the functions.
"""

import array
import contextlib
import dis
import functools
import io
import itertools
import random
import sys
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Iterator
from contextvars import ContextVar
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np
from numpy.random import mtrand

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.call_site import FOREIGN
from cotan._src.runtime.values import TwinInstance
from cotan._src.state.buffers import ArraySlot, LargeBuffer, SmallBuffer, StateSlot
from cotan._src.state.slots import (
    ABSENT,
    CellSlot,
    ClassSlot,
    ContextSlot,
    DescriptorSlot,
    DictSlot,
    GlobalSlot,
    IteratorSlot,
    SequenceSlot,
    SetSlot,
    Slot,
    is_iterator,
)
from cotan._src.state.unchanged_check import UnchangedSet

# So many objects are looked at, the nearest first; what a function keeps is not far from it.
_FAR = 3_000
# So many bytes of arrays are copied.
_BYTES = 1 << 26
# After so many calls it is looked anew at what has been written to.
_ANEW = 64
_PLAIN: frozenset[type] = frozenset(
    {int, float, complex, bool, str, bytes, type(None), CodeType, np.float64, np.int64, np.bool_}
)
_BARE = frozenset({*(type(getattr(object, n)) for n in ("__init__", "__dir__")), np.ufunc,
                   GetSetDescriptorType, MemberDescriptorType, type(dict.__dict__["fromkeys"]),
                   type(np.sum)})  # fmt: skip
_STORING = dis.opmap["STORE_GLOBAL"]
_STORING_ATTRIBUTES = dis.opmap["STORE_ATTR"]
# Libraries whose objects are left alone; these hold what is a program's.
_OTHERS = (FOREIGN | sys.stdlib_module_names) - {
    *("_thread", "argparse", "builtins", "collections", "functools", "queue", "types", "weakref")
}
# What gives all that it holds at once.
_BY_STATE = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random,
             ContextVar, io.StringIO, io.BytesIO, bytearray, array.array)  # fmt: skip
# What is looked at in a way of its own.
_SORTS = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType, MethodWrapperType,
          functools.partial, weakref.ref, classmethod, staticmethod, property, np.ndarray, Array,
          tuple, frozenset, *_BY_STATE)  # fmt: skip
_FILES: Any = (io.StringIO, io.BytesIO)
# The flag of classes that were made while the program runs.
_MADE = 1 << 9


class StateSnapshot:
    """What some functions, and what they reach, have kept by now.

    A call writes to few of the slots there are. Those that calls have written to are saved for each
    call, and one look says that all others are as they were.

    What is `apart` is not looked into: a solver that a program's object holds beside the function
    that it calls goes on from where it is.
    """

    def __init__(self, *functions: Any, apart: tuple[Any, ...] = ()) -> None:
        self._seen: dict[int, Any] = {id(value): value for value in apart}
        self._bytes = 0
        # What each slot had when it was found, and as much of that as is saved for each call.
        self._first: dict[Slot, Any] = {}
        self._brief: dict[Slot, Any] = {}
        self._written: dict[Slot, None] = {}
        self._quiet: UnchangedSet | None = None
        self._calls = 1
        self._kinds: dict[type, _Kind] = {}
        self.extend(functions)
        self._start = self._first.copy()

    def extend(self, values: Any) -> list[tuple[Slot, Any]]:
        """Hold what these lead to, as well; gives the slots that are new, and what they hold."""
        made = [(slot, slot.read(True)) for slot in self._found(values)]
        if not made:
            return made
        brief = {p: p.read(False) if p.is_long() else saved for p, saved in made}
        self._first |= made
        self._brief |= brief
        # To hold one more of these costs nothing, and to look at what they hold a copy.
        self._written |= {slot: None for slot in brief if _is_large_array(slot)}
        self._quiet = None
        return made

    def state(self) -> dict[Slot, Any]:
        """Give what is there by now; there may be more slots later on."""
        saved = self._first.copy()
        return saved | {slot: slot.read(True) for slot, _ in self._unlike(saved)}

    def before_call(self) -> dict[Slot, Any]:
        """Give what is there, but for the inner parts of long collections and of large arrays."""
        self._look(between_calls=True)
        if self._calls % _ANEW == 0:
            self._look_anew()
        self._calls += 1
        return self._brief | {slot: slot.read(False) for slot in list(self._written)}

    def changes_since(self, saved: dict[Slot, Any]) -> list[tuple[Slot, Any, Any]]:
        """Give the parts that a call has changed, and where they begin."""
        self._look(between_calls=False)
        known = [slot for slot in list(self._written) if slot in saved]
        return [(slot, *part) for slot in known for part in slot.changes(saved[slot])]

    def _look(self, between_calls: bool) -> None:
        """Find out which slots have been written to for the first time."""
        if self._quiet is not None and self._quiet.is_same(between_calls):
            return
        known = self._brief.copy()
        for slot in list(self._written):
            known.pop(slot, None)
        changed = [slot for slot, was in known.items() if not slot.matches(was)]
        self._written |= dict.fromkeys(changed)
        for slot in changed:
            del known[slot]
        self._quiet = UnchangedSet(known)

    def _look_anew(self) -> None:
        """Begin again with what was written to some time ago: much is so by the first call only."""
        old = [slot for slot in list(self._written) if not _is_large_array(slot)]
        self._brief |= {slot: slot.read(False) for slot in old}
        for slot in old:
            self._written.pop(slot, None)
        self._quiet = None

    def _unlike(self, saved: dict[Slot, Any]) -> list[tuple[Slot, Any]]:
        """Give the slots that are not as they were saved."""
        self._look(between_calls=True)
        known = self._quiet.saved if self._quiet is not None else {}
        return [(slot, was) for slot, was in saved.items()
                if known.get(slot, self) is not was and not slot.matches(was)]  # fmt: skip

    def has_changed(self) -> bool:
        """Say whether anything is not what it was."""
        return bool(self._unlike(self._start))

    def restore(self) -> bool:
        """Put everything back. Says whether anything had changed."""
        return self.restore_to(self._start)

    def restore_to(self, saved: dict[Slot, Any]) -> bool:
        """Put back what was saved. Says whether anything had changed."""
        has_changed = False
        # Where iterators are saved goes first, as they may be replaced there.
        for goes in (False, True):
            known = {p: was for p, was in saved.items() if isinstance(p, IteratorSlot) is goes}
            changed = self._unlike(known)
            for slot, was in changed:
                slot.restore(was)
            has_changed = has_changed or bool(changed)
        return has_changed

    def _found(self, values: Any) -> Iterator[Slot]:
        waiting: deque[Any] = deque(values)
        while waiting and len(self._seen) < _FAR:
            value = waiting.popleft()
            if type(value) in _PLAIN or id(value) in self._seen or _is_bare(value):
                continue
            # What is looked at stays, so that its number is nobody else's.
            self._seen[id(value)] = value
            kind = self._kinds.get(type(value))
            if kind is None:
                kind = self._kinds[type(value)] = _kind_of(type(value))
            slots = self._memory(value) if kind.sort is np.ndarray else _places(value, kind)
            for slot in itertools.chain(slots, _attributes(value, kind)):
                yield slot
                for part, item in _iterators_in(slot):
                    self._seen[id(item)] = item
                    yield IteratorSlot(item, slot, part)
            waiting += _parts(value, kind)

    def _memory(self, array: Any) -> Iterator[Slot]:
        if not array.flags.writeable or _is_lent(array):
            return
        if type(array) is not np.ndarray:
            array = array.view(np.ndarray)
        if self._bytes + array.nbytes <= _BYTES:
            self._bytes += array.nbytes
            yield SmallBuffer(array)
        else:
            yield LargeBuffer(array)


def _is_large_array(slot: Slot) -> bool:
    return isinstance(slot, ArraySlot) and not slot.is_small()


def _is_lent(array: Any) -> bool:
    """Say whether memory is a compiled solver's own, which may be gone by the time it is read."""
    while issubclass(type(array.base), np.ndarray):
        array = array.base
    return array.base is None and not array.flags.owndata


def _iterators_in(slot: Slot) -> list[tuple[Any, Any]]:
    """Give the parts of a slot that hold iterators, and these."""
    if isinstance(slot, DictSlot):
        pairs: Any = slot.read(True).items()
    elif isinstance(slot, SequenceSlot):
        pairs = enumerate(slot.read(True))
    elif isinstance(slot, (CellSlot, GlobalSlot, DescriptorSlot)):
        pairs = [(None, slot.read(True))]
    else:
        return []
    return [pair for pair in pairs if type(pair[1]) not in _PLAIN and is_iterator(pair[1])]


@functools.lru_cache(4096)
def _is_others(home: Any) -> bool:
    return str(home).partition(".")[0] in _OTHERS


class _Kind(NamedTuple):
    """What there is to know of a class; a proxy is not asked what it stands for."""

    # The first of `_SORTS` that it derives from, or `object`.
    sort: type
    # Collections of the interpreter's that it is, with the class that has the methods.
    collections: list[tuple[Any, Any]]
    slots: list[Any]
    is_others: bool
    # Whether its objects lead to nothing of a program's; what SciPy hands on may do.
    is_closed: bool


def _kind_of(kind: type) -> _Kind:
    sort = next((s for s in _SORTS if issubclass(kind, s)), object)
    collections: list[tuple[Any, Any]] = []
    slots: list[Any] = []
    known_ones: Any = (
        (dict, DictSlot),
        (set, SetSlot),
        (list, SequenceSlot),
        (deque, SequenceSlot),
    )
    for base, slot in known_ones:
        if issubclass(kind, base):
            # A program's own class may have other methods under these names.
            known = (c for c in kind.__mro__ if c.__module__ in {"builtins", "collections"})
            collections.append((slot, next(known)))
    for base in kind.__mro__:
        if "__slots__" in vars(base):
            slots += [d for d in vars(base).values() if type(d) is MemberDescriptorType]
    # What stands in for arrays of a subclass holds those of a program.
    stands_in = issubclass(kind, TwinInstance)
    is_others = _is_others(kind.__module__) and not stands_in
    is_closed = is_others and not str(kind.__module__).startswith("scipy.")
    return _Kind(sort, collections, slots, is_others, is_closed)


def _is_bare(value: Any) -> bool:
    """Say whether nothing of a program's is behind a value: a library's class, a method of C."""
    if issubclass(type(value), type):
        return not value.__flags__ & _MADE or _is_others(value.__module__)
    return type(value) in _BARE


def _places(value: Any, kind: _Kind) -> Iterator[Slot]:
    """Give where a value itself keeps something."""
    if kind.sort is type or kind.sort is ModuleType:
        yield from _of_a_class_or_module(value)
    elif kind.sort is FunctionType:
        yield from map(CellSlot, value.__closure__ or ())
        if _is_others(value.__globals__.get("__name__")):
            return
        code = _Code.of(value.__code__)
        names = value.__globals__
        turning = {name for name in code.names if is_iterator(names.get(name))}
        yield from (GlobalSlot(names, name) for name in code.assigned | turning)
        if "globals" in code.names:
            yield DictSlot(names)
        if code.gives_attributes or value.__dict__:
            yield DictSlot(value.__dict__)
    elif kind.sort is Array:
        # What stands for many values has none to be looked at.
        if value._writeable and not _core.is_traced(value):
            yield ArraySlot(value)
    elif kind.sort in _BY_STATE:
        slot = _by_state(value, kind.sort)
        # Closed files and what the system draws have nothing to be saved.
        with contextlib.suppress(NotImplementedError):
            if slot.read(True) is not ABSENT:
                yield slot
    elif is_iterator(value):
        yield IteratorSlot(value)
    elif not kind.is_others:
        yield from _of_an_object(value, kind)


def _attributes(value: Any, kind: _Kind) -> Iterator[Slot]:
    """Give the attributes that a program's class has added to what is looked at in its own way."""
    # A mask may come to be.
    if kind.sort is np.ndarray or (kind.sort in _BY_STATE and not kind.is_others):
        members = _members(value)
        if members is not None:
            yield DictSlot(members)


def _by_state(value: Any, sort: Any) -> Slot:
    if sort is np.random.Generator or sort is np.random.BitGenerator:
        bits: Any = getattr(value, "bit_generator", value)
        return StateSlot(lambda: bits.state, functools.partial(setattr, bits, "state"))
    if sort is np.random.RandomState:
        return StateSlot(functools.partial(value.get_state, legacy=False), value.set_state)
    if sort is random.Random:
        return StateSlot(value.getstate, value.setstate)
    if sort is ContextVar:
        return ContextSlot(value)
    if sort in _FILES:
        # With the slot in it, and without what its class has beside that.
        return StateSlot(lambda: sort.__getstate__(value)[:-1],
                     lambda saved: sort.__setstate__(value, (*saved, None)))  # fmt: skip
    return StateSlot(functools.partial(bytes, value), functools.partial(_set_bytes, value))


def _set_bytes(value: Any, saved: bytes) -> None:
    is_bytes = issubclass(type(value), bytearray)
    value[:] = bytearray(saved) if is_bytes else array.array(value.typecode, saved)


def _of_a_class_or_module(value: Any) -> Iterator[Slot]:
    if issubclass(type(value), ModuleType):
        if not _is_others(value.__name__):
            yield DictSlot(vars(value))
    else:
        yield ClassSlot(value)


def _of_an_object(value: Any, kind: _Kind) -> Iterator[Slot]:
    yield from (slot(value, base) for slot, base in kind.collections)
    members = _members(value)
    if members is not None:
        yield DictSlot(members)
    yield from (DescriptorSlot(descriptor, value) for descriptor in kind.slots)


def _members(value: Any) -> dict[str, Any] | None:
    if type(value) is threading.local:
        return vars(value)
    try:
        # No code of the object's is run.
        members = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return members if type(members) is dict else None


def _parts(value: Any, kind: _Kind) -> Iterator[Any]:
    """Give what a value leads to."""
    sort = kind.sort
    if sort is FunctionType:
        yield from _parts_of_a_function(value)
    elif sort in {MethodType, BuiltinFunctionType, MethodWrapperType}:
        yield from (getattr(value, "__func__", None), value.__self__)
    elif sort is functools.partial:
        yield from (value.func, *value.args, *value.keywords.values())
    elif sort is weakref.ref:
        yield value()
    elif sort is ContextVar:
        yield value.get(None)
    elif sort in {classmethod, staticmethod, property}:
        yield from (getattr(value, name, None) for name in ("__func__", "fget", "fset"))
    elif sort is type:
        yield from (*vars(value).values(), *value.__bases__)
    elif sort is np.ndarray:
        yield from (value.base, *(_members(value) or {}).values())  # a mask, too
        yield from _some(value.reshape(-1).tolist() if value.dtype.hasobject else ())
    elif sort not in {ModuleType, Array} and not kind.is_closed:
        yield type(value)
        yield from _parts_of_an_object(value, kind)


def _parts_of_an_object(value: Any, kind: _Kind) -> Iterator[Any]:
    if kind.sort in {tuple, frozenset}:
        yield from _listed(value, kind.sort)
    for _, base in kind.collections:
        yield from _some(base.values(value)) if issubclass(base, dict) else _listed(value, base)
    if any(issubclass(base, defaultdict) for _, base in kind.collections):
        yield vars(defaultdict)["default_factory"].__get__(value)
    yield from (_members(value) or {}).values()
    yield from (DescriptorSlot(descriptor, value).read(True) for descriptor in kind.slots)


def _listed(value: Any, base: Any) -> Any:
    # No code of the object's is run.
    return _some(list(base.__iter__(value))) if base.__len__(value) <= _FAR else ()


def _some(items: Any) -> Any:
    """Give the items of a collection, none of numbers."""
    return items if len(items) <= _FAR and not _PLAIN.issuperset(map(type, items)) else ()


def _parts_of_a_function(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        yield CellSlot(cell).read(True)
    yield function.__defaults__
    yield function.__kwdefaults__
    yield getattr(function, "__wrapped__", None)
    yield from function.__dict__.values()
    names = function.__globals__
    if _is_others(names.get("__name__")):
        return
    code = _Code.of(function.__code__)
    for name in code.names:
        value: Any = names.get(name)
        if not issubclass(type(value), ModuleType):
            yield value
        elif not _is_others(value.__name__):
            # What it keeps has one of the other names.
            inside = [vars(value).get(part) for part in code.names]
            if code.gives_attributes or any(map(is_iterator, inside)):
                yield value
            yield from inside
        elif value in (random, np.random) or (value is np and "random" in code.names):
            yield from (random._inst, mtrand._rand)


class _Code:
    """What some code names, with that of the functions inside of it."""

    def __init__(self, code: CodeType) -> None:
        self.names = set(code.co_names)
        self.assigned: set[str] = set()
        steps = code.co_code[::2]
        self.gives_attributes = _STORING_ATTRIBUTES in steps or not self.names.isdisjoint(
            ("setattr", "vars", "__dict__")
        )
        # A look at the bytes is a thousand times faster than at the instructions.
        if _STORING in steps:
            stored = (s for s in dis.get_instructions(code) if s.opcode == _STORING)
            self.assigned = {str(step.argval) for step in stored}
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                known = _Code.of(inner)
                self.names |= known.names
                self.assigned |= known.assigned
                self.gives_attributes = self.gives_attributes or known.gives_attributes

    @staticmethod
    @functools.lru_cache(4096)
    def of(code: CodeType) -> "_Code":
        return _Code(code)
