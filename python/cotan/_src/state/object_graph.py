"""Finds the objects that a function can reach: captured variables, globals, attributes, items.

Snapshots restore the mutable ones between calls of a solver (`state.snapshot`), guards of a
prepared function watch them (`state.guards`). What an object leads to is decided here: snapshots
walk all of it, as far as their `Policy` enters it; guards follow the edges that code names.

An `Edge` names the container that holds a value, so that the container can be read and written: the
cell, not the function; the dictionary of a module, not the module. No method of the objects is
called, except those of the interpreter's own classes: walking runs no user code.
"""

import array
import functools
import io
import random
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator
from contextvars import ContextVar
from enum import Enum, auto
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.runtime.call_site import assignments
from cotan._src.state.code_facts import catches_absence, inspected, makes_texts, names_in_patterns

#: A snapshot covers at most so many objects, the nearest first.
SNAPSHOT_OBJECTS = 3_000
#: Guards are on at most so many values; more would take longer to check than the function takes.
GUARDED_VALUES = 100_000
#: For walks whose roots bound them.
UNBOUNDED = 1 << 62

#: Types whose instances lead nowhere.
ATOMS: frozenset[type] = frozenset(
    {int, float, complex, bool, str, bytes, type(None), CodeType, np.float64, np.int64, np.bool_}
)
# Classes created by a class statement have this bit in `__flags__` (`Py_TPFLAGS_HEAPTYPE`).
_HEAP_TYPE = 1 << 9


@functools.cache
def stateful_classes() -> tuple[type, ...]:
    """Give the classes whose state is read and written as a whole; this loads `numpy.random`."""
    return (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random,
            ContextVar, io.StringIO, io.BytesIO, bytearray, array.array)  # fmt: skip


@functools.cache
def _sorts() -> tuple[type, ...]:
    """Give the base classes that decide what an instance leads to; the first one counts."""
    return (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType, MethodWrapperType,
            functools.partial, weakref.ref, classmethod, staticmethod, property, np.ndarray,
            _core.Array, tuple, frozenset, *stateful_classes())  # fmt: skip


class EdgeKind(Enum):
    """How a container holds a value."""

    CELL = auto()  # a variable of an enclosing function; the owner is the cell
    GLOBAL = auto()  # a name that code refers to; the owner is the dictionary of the module
    DEFAULT = auto()  # the defaults of a function
    ATTRIBUTE = auto()  # the owner is `__dict__`
    SLOT = auto()  # a value in `__slots__`; the key is the descriptor
    ITEM = auto()  # an item of a collection or of an array of objects
    MEMBER = auto()  # a name of a class body
    CLASS = auto()  # the class of an object, or a base of a class
    REFERENCE = auto()  # what a method, partial, weak reference, context variable or view refers to


class Edge(NamedTuple):
    """A value, and where it is stored: `key` of `owner` (in sets and arrays the position)."""

    owner: object
    kind: EdgeKind
    key: Any
    value: Any


class CodeNames:
    """The names that code refers to, together with those of functions defined inside of it.

    `names` are globals and attributes, in order; `assigned` the globals that it assigns to.
    `mentioned` adds strings that may be names (`getattr(x, "w")`), "except" if code goes on where
    something is missing, and "f-string" if it makes texts of objects. `sets_attributes` says that
    it may assign to attributes.
    """

    def __init__(self, code: CodeType) -> None:
        names, mentioned = set(code.co_names), set[str]()
        self.assigned, sets_attributes = assignments(code)
        self.sets_attributes = sets_attributes or not names.isdisjoint(
            ("setattr", "vars", "__dict__")
        )
        if patterns := names_in_patterns(code):
            mentioned |= patterns
        if patterns or catches_absence(code):
            mentioned.add("except")
        if makes_texts(code):
            mentioned.add("f-string")
        if "hasattr" in names and inspected(code).by_hasattr:
            mentioned.add("getattr")
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                inner = CodeNames.of(constant)
                names |= inner.names.keys()
                mentioned |= inner.mentioned
                self.assigned |= inner.assigned
                self.sets_attributes = self.sets_attributes or inner.sets_attributes
            elif isinstance(constant, str) and constant.isidentifier():
                mentioned.add(constant)
        # A dictionary is a set with an order, which bounded walks depend on.
        self.names: dict[str, None] = dict.fromkeys(sorted(names))
        self.mentioned: frozenset[str] = frozenset(names | mentioned)

    @staticmethod
    @functools.lru_cache(4096)
    def of(code: CodeType) -> "CodeNames":
        """Give the names in some code; they are looked up once."""
        return CodeNames(code)


class Traits(NamedTuple):
    """What a walk has to know of a class; proxies are not asked for the class of their referent."""

    #: The first of the known base classes that it derives from, or `object`.
    sort: type
    #: Each of dict, set, list and deque that it derives from, with the class whose methods to use:
    #: a user's class may define others under these names.
    collections: tuple[tuple[type, Any], ...]
    #: The descriptors of its `__slots__`.
    descriptors: tuple[MemberDescriptorType, ...]
    #: Whether the class is a library's, whose attributes are the library's affair.
    is_library: bool
    #: Whether no instance leads to objects of user code.
    is_closed: bool


class Policy:
    """Which objects a walk enters, and how far it goes. Consumers derive from it."""

    #: At most so many objects are entered.
    bound = UNBOUNDED
    #: Collections of more items are not looked into.
    longest = UNBOUNDED

    def __init__(self) -> None:
        # Classes of C live as long as the process.
        self._known: dict[type, Traits] = {}

    def is_library(self, home: object) -> bool:
        """Say whether a module, by its name, is a library's."""
        raise NotImplementedError

    def enters(self, value: object) -> bool:
        """Say whether an object is entered; the others do not count for the bound."""
        raise NotImplementedError

    def is_library_class(self, cls: type) -> bool:
        """Say whether instances of a class keep what is the library's affair."""
        return self.is_library(cls.__module__)

    def is_closed(self, _cls: type, is_library: bool) -> bool:
        """Say whether no instance of a class leads to objects of user code."""
        return is_library

    def traits_of(self, cls: type) -> Traits:
        """Give what a walk has to know of a class."""
        if cls in self._known:
            return self._known[cls]
        sort = next((s for s in _sorts() if issubclass(cls, s)), object)
        collections: list[tuple[type, type]] = []
        for base in (dict, set, list, deque):
            if issubclass(cls, base):
                builtin = (c for c in cls.__mro__ if c.__module__ in {"builtins", "collections"})
                collections.append((base, next(builtin)))
        own = (vars(base) for base in cls.__mro__ if "__slots__" in vars(base))
        slots = (d for names in own for d in names.values() if type(d) is MemberDescriptorType)
        is_library = self.is_library_class(cls)
        is_closed = self.is_closed(cls, is_library)
        traits = Traits(sort, tuple(collections), tuple(slots), is_library, is_closed)
        if not is_heap_type(cls):
            self._known[cls] = traits
        return traits

    def edges(self, value: Any, traits: Traits) -> Iterable[Edge]:
        """Give what an object leads to; atoms may be left out."""
        sort = traits.sort
        if sort is FunctionType:
            return [
                *cell_edges(value),
                *default_edges(value),
                *attribute_edges(value),
                *self.global_edges(value),
            ]
        if sort is type:
            return class_edges(value)
        if sort is np.ndarray:
            items = value.reshape(-1).tolist() if value.dtype.hasobject else ()
            return [
                *array_edges(value),
                *attribute_edges(value),
                *self._item_edges(value, items),
            ]
        if sort in _REFERENCES:
            return reference_edges(value, sort)
        if traits.is_closed or sort is ModuleType or sort is _core.Array:
            return ()
        return self._instance_edges(value, traits)

    def global_edges(self, function: FunctionType) -> Iterable[Edge]:
        """Give the globals that a function names; those of libraries are their own affair."""
        names = function.__globals__
        if self.is_library(names.get("__name__")):
            return ()
        return named_edges(names, EdgeKind.GLOBAL, CodeNames.of(function.__code__).names)

    def _instance_edges(self, value: Any, traits: Traits) -> list[Edge]:
        edges = [Edge(value, EdgeKind.CLASS, "__class__", type(value))]
        if traits.sort is tuple or traits.sort is frozenset:
            edges += self._collection_edges(value, traits.sort)
        for base, methods in traits.collections:
            if base is dict:
                edges += self._item_edges(value, methods.values(value), methods.keys(value))
                if issubclass(methods, defaultdict):
                    factory = _DEFAULT_FACTORY.__get__(value)
                    edges.append(Edge(value, EdgeKind.REFERENCE, "default_factory", factory))
            else:
                edges += self._collection_edges(value, methods)
        edges += attribute_edges(value)
        for descriptor in traits.descriptors:
            try:
                stored = descriptor.__get__(value)
            except AttributeError:
                continue
            edges.append(Edge(value, EdgeKind.SLOT, descriptor, stored))
        return edges

    def _collection_edges(self, value: Any, methods: Any) -> Iterable[Edge]:
        if methods.__len__(value) > self.longest:
            return ()
        return self._item_edges(value, list(methods.__iter__(value)))

    def _item_edges(
        self, owner: object, items: Collection[object], keys: Iterable[object] | None = None
    ) -> Iterable[Edge]:
        # Long lists of numbers are common, and quickly told.
        if len(items) > self.longest or ATOMS.issuperset(map(type, items)):
            return ()
        pairs = enumerate(items) if keys is None else zip(keys, items, strict=True)
        return [Edge(owner, EdgeKind.ITEM, k, v) for k, v in pairs if type(v) not in ATOMS]


_DEFAULT_FACTORY: MemberDescriptorType = vars(defaultdict)["default_factory"]


class Walk:
    """The objects that can be reached from some roots, nearest first, each of them once.

    Objects that were entered stay alive with the walk, so that an identity is never reused. Those
    in `apart` count as entered, and so does what a consumer adds to `seen`.
    """

    def __init__(self, policy: Policy, apart: Iterable[object] = ()) -> None:
        self.seen: dict[int, object] = {id(value): value for value in apart}
        self._policy = policy
        self._traits: dict[type, Traits] = {}

    def objects(self, roots: Iterable[object]) -> Iterator[tuple[Any, Traits]]:
        """Give each object that can be reached and has not been, and the traits of its class.

        It may change while it is looked at by the consumer: edges are followed afterwards.
        """
        policy, seen = self._policy, self.seen
        waiting: deque[object] = deque(roots)
        while waiting and len(seen) < policy.bound:
            value = waiting.popleft()
            kind = type(value)
            if kind in ATOMS or id(value) in seen or not policy.enters(value):
                continue
            seen[id(value)] = value
            traits = self._traits.get(kind)
            if traits is None:
                traits = self._traits[kind] = policy.traits_of(kind)
            yield value, traits
            waiting.extend([edge[3] for edge in policy.edges(value, traits)])


# --------------------------------------------------------------------------------------------------
# What one object leads to


def cell_edges(function: FunctionType) -> Iterator[Edge]:
    """Give the variables of enclosing functions that a function captures and that are bound."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            content = cell.cell_contents
        except ValueError:
            continue
        yield Edge(cell, EdgeKind.CELL, name, content)


def default_edges(function: FunctionType) -> Iterator[Edge]:
    """Give the tuple and the dictionary of a function's defaults."""
    yield Edge(function, EdgeKind.DEFAULT, "__defaults__", function.__defaults__)
    yield Edge(function, EdgeKind.DEFAULT, "__kwdefaults__", function.__kwdefaults__)


def named_edges(members: dict[str, object], kind: EdgeKind, names: Iterable[str]) -> Iterator[Edge]:
    """Give the members of a dictionary that have one of the names, in the order of the names."""
    return (Edge(members, kind, name, members[name]) for name in names if name in members)


def attribute_edges(value: object) -> Iterable[Edge]:
    """Give the attributes in the `__dict__` of an object, but for atoms."""
    members = members_of(value)
    if not members:
        return ()
    items = members.items()
    return [Edge(members, EdgeKind.ATTRIBUTE, k, v) for k, v in items if type(v) not in ATOMS]


def class_edges(cls: type) -> Iterator[Edge]:
    """Give the names of a class body, and the bases of the class."""
    for name, member in list(vars(cls).items()):
        yield Edge(cls, EdgeKind.MEMBER, name, member)
    for base in cls.__bases__:
        yield Edge(cls, EdgeKind.CLASS, "__bases__", base)


def array_edges(value: np.ndarray) -> Iterator[Edge]:
    """Give the array that a view looks at."""
    if value.base is not None:
        yield Edge(value, EdgeKind.REFERENCE, "base", value.base)


# The attribute by which classes of proxies refer to another object.
_REFERENCES: dict[type, tuple[str, ...]] = {
    MethodType: ("__func__", "__self__"),
    BuiltinFunctionType: ("__self__",),
    MethodWrapperType: ("__self__",),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
    property: ("fget", "fset"),
    functools.partial: ("func",),
    weakref.ref: (),
    ContextVar: (),
}


def reference_edges(value: Any, sort: type) -> Iterator[Edge]:
    """Give the referent of an object of one of the classes in `_REFERENCES`."""
    for name in _REFERENCES[sort]:
        yield Edge(value, EdgeKind.REFERENCE, name, getattr(value, name, None))
    if sort is functools.partial:
        for i, argument in enumerate(value.args):
            yield Edge(value, EdgeKind.REFERENCE, i, argument)
        yield Edge(value, EdgeKind.REFERENCE, "keywords", value.keywords)
    elif sort is weakref.ref:
        yield Edge(value, EdgeKind.REFERENCE, "", value())
    elif sort is ContextVar:
        yield Edge(value, EdgeKind.REFERENCE, "", value.get(None))


def members_of(value: object) -> dict[str, object] | None:
    """Give the `__dict__` of an object, None without one; no code of its class runs."""
    if type(value) is threading.local:
        return vars(value)  # of this thread
    if not type(value).__dictoffset__:
        return None
    try:
        members = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return members if type(members) is dict else None


def is_heap_type(cls: type) -> bool:
    """Say whether a class was created at run time, and not by C code."""
    return bool(cls.__flags__ & _HEAP_TYPE)


def is_iterator(value: object) -> bool:
    """Say whether something is one of the interpreter's own iterators, or a generator."""
    kind = type(value)
    return kind.__module__ in {"builtins", "itertools"} and hasattr(kind, "__next__")
