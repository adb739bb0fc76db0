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
import random
import sys
import threading
import weakref
from collections import deque
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
from typing import Any

import numpy as np
from numpy.random import mtrand

from cotan._core import Array
from cotan._frames import FOREIGN
from cotan._kept_places import (
    ClassNames,
    Context,
    Global,
    Group,
    Mapping,
    Memory,
    Place,
    Sequence,
    Slot,
    State,
    Table,
    Turn,
    Variable,
    is_iterator,
)

# So many objects are looked at, the nearest first; what a function keeps is not far from it.
_FAR = 3_000
# So many bytes of arrays are copied.
_BYTES = 1 << 26
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
    *("_thread", "builtins", "collections", "functools", "queue", "types")
}
# What gives all that it holds at once.
_BY_STATE = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random,
             ContextVar, io.StringIO, bytearray, array.array)  # fmt: skip
# The flag of classes that were made while the program runs.
_MADE = 1 << 9


class Kept:
    """What some functions, and what they reach, have kept by now."""

    def __init__(self, *functions: Any) -> None:
        self._seen: dict[int, Any] = {}
        self._bytes = 0
        self.places: list[Place] = []
        self.reach(functions)
        self._start = self.held()

    def reach(self, values: Any) -> list[tuple[Place, Any]]:
        """Hold what these lead to, as well; gives the places that are new, and what they hold."""
        made = list(self._found(values))
        self.places += made
        return [(place, place.held(True)) for place in made]

    def held(self, whole: bool = True) -> list[Any]:
        """Give what is there by now; long collections are not looked at as a `whole` in each call.

        There may be more places later on.
        """
        return [place.held(whole) for place in self.places]

    def has_changed(self) -> bool:
        """Say whether anything is not what it was."""
        pairs = zip(self.places, self._start, strict=False)
        return any(place.differ(held, place.held(True)) for place, held in pairs)

    def restore(self) -> bool:
        """Put everything back. Says whether anything had changed."""
        return self.put_back(self._start)

    def put_back(self, held: list[Any]) -> bool:
        """Put back what was held. Says whether anything had changed."""
        known = list(zip(self.places, held, strict=False))
        # Where iterators are held goes first, as they may be replaced there.
        turns = [pair for pair in known if isinstance(pair[0], Turn)]
        others = [pair for pair in known if not isinstance(pair[0], Turn)]
        has_changed = False
        for pairs in (others, turns):
            changed = []
            for place, was in pairs:
                now = place.held(True)
                if place.differ(was, now):
                    changed.append((place, was, now))
            for place, was, now in changed:
                place.put_back(was, now)
            has_changed = has_changed or bool(changed)
        return has_changed

    def _found(self, values: Any) -> Iterator[Place]:
        waiting: deque[Any] = deque(values)
        while waiting and len(self._seen) < _FAR:
            value = waiting.popleft()
            if type(value) in _PLAIN or id(value) in self._seen or _is_bare(value):
                continue
            # What is looked at stays, so that its number is nobody else's.
            self._seen[id(value)] = value
            for place in self._memory(value) if isinstance(value, np.ndarray) else _places(value):
                yield place
                for part, item in _turning(place):
                    self._seen[id(item)] = item
                    yield Turn(item, place, part)
            waiting += _parts(value)

    def _memory(self, array: Any) -> Iterator[Place]:
        if not array.flags.writeable or _is_lent(array):
            return
        array = array.view(np.ndarray)
        if self._bytes + array.nbytes <= _BYTES:
            self._bytes += array.nbytes
            yield Memory(array)
        else:
            yield Table(array)


def _is_lent(array: Any) -> bool:
    """Say whether memory is a compiled solver's own, which may be gone by the time it is read."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.base is None and not array.flags.owndata


def _turning(place: Place) -> list[tuple[Any, Any]]:
    """Give the parts of a place that hold iterators, and these."""
    if isinstance(place, Mapping):
        pairs: Any = place.held(True).items()
    elif isinstance(place, Sequence):
        pairs = enumerate(place.held(True))
    elif isinstance(place, (Variable, Global, Slot)):
        pairs = [(None, place.held(True))]
    else:
        return []
    return [pair for pair in pairs if type(pair[1]) not in _PLAIN and is_iterator(pair[1])]


@functools.lru_cache(4096)
def _is_others(home: Any) -> bool:
    return str(home).partition(".")[0] in _OTHERS


def _is_bare(value: Any) -> bool:
    """Say whether nothing of a program's is behind a value: a library's class, a method of C."""
    if isinstance(value, type):
        return not value.__flags__ & _MADE or _is_others(value.__module__)
    return type(value) in _BARE


def _places(value: Any) -> Iterator[Place]:
    """Give where a value itself keeps something."""
    if isinstance(value, (type, ModuleType)):
        yield from _of_a_class_or_module(value)
    elif isinstance(value, FunctionType):
        yield from map(Variable, value.__closure__ or ())
        if _is_others(value.__globals__.get("__name__")):
            return
        code = _Code.of(value.__code__)
        names = value.__globals__
        turning = {name for name in code.names if is_iterator(names.get(name))}
        yield from (Global(names, name) for name in code.assigned | turning)
        if "globals" in code.names:
            yield Mapping(names)
        if code.gives_attributes or value.__dict__:
            yield Mapping(value.__dict__)
    elif isinstance(value, Array):
        if value._writeable:
            yield Memory(value)
    elif isinstance(value, _BY_STATE):
        place = _by_state(value)
        # Closed files and what the system draws have nothing to be held.
        with contextlib.suppress(ValueError, NotImplementedError):
            place.held(True)
            yield place
    elif is_iterator(value):
        yield Turn(value)
    elif not _is_others(type(value).__module__):
        yield from _of_an_object(value)


def _by_state(value: Any) -> Place:
    if isinstance(value, (np.random.Generator, np.random.BitGenerator)):
        bits: Any = getattr(value, "bit_generator", value)
        return State(lambda: bits.state, functools.partial(setattr, bits, "state"))
    if isinstance(value, np.random.RandomState):
        return State(functools.partial(value.get_state, legacy=False), value.set_state)
    if isinstance(value, random.Random):
        return State(value.getstate, value.setstate)
    if isinstance(value, ContextVar):
        return Context(value)
    if isinstance(value, io.StringIO):
        return State(value.getvalue, functools.partial(_set_text, value))
    return State(functools.partial(bytes, value), functools.partial(_set_bytes, value))


def _set_text(value: io.StringIO, held: str) -> None:
    value.seek(0)
    value.truncate()
    value.write(held)


def _set_bytes(value: Any, held: bytes) -> None:
    kind = type(value)
    value[:] = bytearray(held) if isinstance(value, bytearray) else kind(value.typecode, held)


def _of_a_class_or_module(value: Any) -> Iterator[Place]:
    if isinstance(value, ModuleType):
        if not _is_others(value.__name__):
            yield Mapping(vars(value))
    else:
        yield ClassNames(value)


def _of_an_object(value: Any) -> Iterator[Place]:
    kinds = type(value).__mro__
    for base, place in ((dict, Mapping), (set, Group), (list, Sequence), (deque, Sequence)):
        if isinstance(value, base):
            # A program's own class may have other methods under these names.
            known = (c for c in kinds if c.__module__ in {"builtins", "collections"})
            yield place(value, next(known))
    members = _members(value)
    if members is not None:
        yield Mapping(members)
    for kind in kinds:
        names = vars(kind)
        if "__slots__" in names:
            made = (d for d in names.values() if type(d) is MemberDescriptorType)
            yield from (Slot(descriptor, value) for descriptor in made)


def _members(value: Any) -> dict[str, Any] | None:
    if type(value) is threading.local:
        return vars(value)
    try:
        # No code of the object's is run.
        members = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return members if type(members) is dict else None


def _parts(value: Any) -> Iterator[Any]:
    """Give what a value leads to."""
    if isinstance(value, FunctionType):
        yield from _parts_of_a_function(value)
    elif isinstance(value, (MethodType, BuiltinFunctionType, MethodWrapperType)):
        yield from (getattr(value, "__func__", None), value.__self__)
    elif isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, weakref.ref):
        yield value()
    elif isinstance(value, (classmethod, staticmethod, property)):
        yield from (getattr(value, name, None) for name in ("__func__", "fget", "fset"))
    elif isinstance(value, type):
        yield from (*vars(value).values(), *value.__bases__)
    elif isinstance(value, np.ndarray):
        yield from (value.base, *(_members(value) or {}).values())  # a mask, too
        yield from _some(value.reshape(-1).tolist() if value.dtype.hasobject else ())
    elif not isinstance(value, (ModuleType, Array)) and not _is_closed(type(value)):
        yield type(value)
        yield from _parts_of_an_object(value)


def _parts_of_an_object(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from _some(dict.values(value))
    kind: Any
    for kind in (list, tuple, set, frozenset, deque):
        # No code of the object's is run.
        if isinstance(value, kind) and kind.__len__(value) <= _FAR:
            yield from _some(list(kind.__iter__(value)))
    yield from (_members(value) or {}).values()
    yield from (s.held(True) for s in _of_an_object(value) if isinstance(s, Slot))


def _is_closed(kind: type) -> bool:
    """Say whether objects are a library's; what SciPy hands on may hold a program's."""
    return _is_others(kind.__module__) and not kind.__module__.startswith("scipy.")


def _some(items: Any) -> Any:
    """Give the items of a collection, none of numbers."""
    return items if len(items) <= _FAR and not _PLAIN.issuperset(map(type, items)) else ()


def _parts_of_a_function(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        yield Variable(cell).held(True)
    yield function.__defaults__
    yield function.__kwdefaults__
    yield getattr(function, "__wrapped__", None)
    yield from function.__dict__.values()
    names = function.__globals__
    if _is_others(names.get("__name__")):
        return
    code = _Code.of(function.__code__)
    for name in code.names:
        value = names.get(name)
        if not isinstance(value, ModuleType):
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
