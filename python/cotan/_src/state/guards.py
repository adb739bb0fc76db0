"""Collects the guards of a prepared function: captured state that a replay takes as constant.

Problem: `prepare` records a function once and replays the program without running Python. A replay
is right as long as everything that the code reads besides its arguments is as it was: variables of
enclosing functions, globals, attributes, list items, files, random number generators.
`GuardCollector` finds these from the names in the code (there is no data flow: a name counts
wherever it stands), and the compiled module checks them before each replay. A *guard* is what must
hold; its *source* is where the value comes from: a global, a closure variable, an attribute of one
(terms of TorchDynamo). Entry points: `collect_guards`, `functions_in` and `RECORDING_CHECKS`.
"""

import builtins
import ctypes
import functools
import gc
import io
import random
import sys
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MappingView
from contextvars import ContextVar
from types import (
    BuiltinFunctionType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.runtime.dtypes import DTYPES
from cotan._src.runtime.libraries import Trait, libraries_with
from cotan._src.state.object_graph import (
    GUARDED_VALUES,
    Edge,
    EdgeKind,
    cell_edges,
    named_edges,
    reference_edges,
)
from cotan._src.state.random_states import (
    Generator,
    GlobalStates,
    random_numbers_error,
    random_state,
)
from cotan._src.state.reached_names import (
    CONSTRUCTORS,
    Names,
    function_of,
    is_installed,
    is_library,
    mentioned,
    names_for,
    names_of_module,
    with_methods,
)
from cotan._src.typing import NDArray

_CALLABLES = (functools.partial, MethodType, FunctionType)
_BUILTIN = (BuiltinFunctionType, MethodWrapperType)

_KEEPERS = libraries_with(Trait.KEEPS_OBJECTS)
_ATOMS = (float, int, str, bool, complex, bytes, type(None), np.generic)
# The base class of `c_double` and the like.
_SIMPLE_C_DATA = ctypes.c_double.__mro__[1:2]
# Classes of attributes that user code sets on a library's module.
_VALUES = (float, int, str, bool, complex, np.generic, np.ndarray, list, dict, tuple,
           FunctionType)  # fmt: skip
_CONTAINERS = (set, frozenset, deque, array, bytearray)
# With these, code reaches attributes that it does not name.
_ANY_ATTRIBUTE = {
    *("__dict__", "__slots__", "asdict", "astuple", "attrgetter", "copy", "deepcopy", "fields"),
    *("getattr", "getmembers", "replace", "vars"),
}
# With these, code can tell whether an attribute or a global exists.
_EXISTENCE_TESTS = {"except", "getattr", "globals", "hasattr", "setattr", "vars"}
_ENVIRONMENT = {"environ", "expandvars", "expanduser", "getenv"}


def _behind(value: object) -> list[object] | None:
    """Give what an object stands for, if it does for something else."""
    if isinstance(value, weakref.ref):
        return [value()]
    if isinstance(value, (staticmethod, classmethod)):
        return [value.__func__]
    if isinstance(value, np.vectorize):
        return [value.pyfunc]
    if isinstance(value, np.ufunc):
        # Only the garbage collector is told of the function that `frompyfunc` made it of.
        return [f for f in gc.get_referents(value) if callable(f)]
    if isinstance(value, MappingView):
        # Of a dictionary, or as `collections.abc` writes them for other mappings.
        return [getattr(value, "mapping" if hasattr(value, "mapping") else "_mapping", None)]
    return None


def _is_keeper(cls: type) -> bool:
    """Say whether a class is a library's whose objects hold those of a program."""
    return str(cls.__module__).partition(".")[0] in _KEEPERS


def _module_name(value: object) -> object:
    return getattr(value, "__module__", None) if isinstance(value, FunctionType) else None


_TABLES = {("pandas", "DataFrame"), ("xarray", "DataArray"), ("xarray", "Dataset")}


def _is_table(value: object) -> bool:
    """Say whether an object is a table of pandas or xarray, and of no class derived from it."""
    cls = type(value)
    return (cls.__module__.partition(".")[0], cls.__name__) in _TABLES


def _content(table: Any) -> tuple[object, ...]:
    """Give what a table holds, as objects that are compared by value."""
    if type(table).__name__ == "DataFrame":
        columns = [table.iloc[:, i].to_numpy() for i in range(table.shape[1])]
        return tuple(map(_elements, (table.columns.to_numpy(), table.index.to_numpy(), *columns)))
    is_array = type(table).__name__ == "DataArray"
    parts = [("", table), *table.coords.items()] if is_array else table.variables.items()
    return tuple((name, x.dims, x.shape, _elements(x.to_numpy())) for name, x in parts)


def _elements(array: NDArray) -> tuple[object, ...]:
    is_of_objects = array.dtype == object
    return tuple(array.ravel().tolist()) if is_of_objects else (str(array.dtype), array.tobytes())


class _LiveValue:
    """Replaces an owner whose guarded value is computed: every attribute of it is that value."""

    def __init__(self, read: Callable[[], object]) -> None:
        self._read = read

    def __getattr__(self, name: str) -> object:
        return self._read()


class GuardCollector:
    """Collects what a function, and the functions it calls, read besides their arguments.

    An object is visited with the names of the code that reaches it: code reads no other attributes
    of it. An object that is reached again with more names is visited again.

    Raises `TypeError` for iterators (a replay would not advance them), the system's random numbers,
    and more than `GUARDED_VALUES` values.
    """

    def __init__(self, function: object) -> None:
        #: For each guard the owner, the key in it (empty for a collection), the value now, the
        #: identity of the function whose code reads it, and the source.
        self.found: list[tuple[object, str, object, int, str]] = []
        self.call: tuple[Any, tuple[object, ...]] = function, ()
        self._generators: list[Generator] = []
        # The names that each object was visited with, by identity.
        self._names_at: dict[int, Names] = {}
        self._guarded: set[tuple[int, str]] = set()
        # The classes of the program, and their objects.
        self._objects: list[object] = []
        # Keeps objects alive, so that an identity is not reused.
        self._alive: list[object] = []
        # Functions come first: an object is then visited once, with the names of all of them.
        self._functions: list[tuple[object, Names, int]] = []
        self._others: dict[int, tuple[object, Names, int]] = {}
        self._class_names: dict[type, Names] = {}
        # The names in all code, for objects that functions hand on to each other.
        self._all_names: Names = frozenset()
        # The identity of the function whose code is visited.
        self._reader = 0
        # The source of each object by its identity, and of the one that is visited.
        self._sources: dict[int, str] = {}
        self._source = "argument" if isinstance(function, tuple) else _name_of(function)
        self._add(function, frozenset(), self._source)
        self._visit_all()
        is_arguments = isinstance(function, tuple)
        generators = [*([] if is_arguments else [np.random, random]), *self._generators]
        self._random_states = [(g, random_state(g)) for g in generators]

    def _visit_all(self) -> None:
        """Visit what is reached, and objects again with the names in all code.

        A function may give an object to another one, whose names are used then.
        """
        while True:
            self._visit_waiting()
            objects = [x for x in self._objects if not self._all_names <= self._names_at[id(x)]]
            if not objects:
                return
            for x in objects:
                is_named = self._names_at[id(x)] >= CONSTRUCTORS
                self._add(x, self._all_names, self._sources.get(id(x)), is_named)

    def _visit_waiting(self) -> None:
        while self._functions or self._others:
            if self._functions:
                value, names, self._reader = self._functions.pop()
            else:
                value, names, self._reader = self._others.pop(next(iter(self._others)))
            self._source = self._sources.get(id(value)) or _name_of(value)
            self._visit(value, names)
            if len(self.found) > GUARDED_VALUES:
                raise TypeError(
                    f"prepare: the code of the function can reach more than {GUARDED_VALUES:,} "
                    "objects that may change between calls; pass what it needs of them as arguments"
                )

    def visit_arguments(self, arguments: Iterable[object]) -> None:
        """Visit the code that comes with arguments: functions, classes, and methods of objects.

        What objects hold are arguments, too.
        """
        classes = dict[type, None]()
        for value in _objects_in(arguments):
            if isinstance(value, (type, ModuleType, *_BUILTIN, *_CALLABLES)):
                self._add(value, self._all_names, f"argument {_name_of(value)}")
            else:
                classes[type(value)] = None
        for cls in classes:
            if not is_installed(cls.__module__):
                source = f"class {cls.__qualname__} of an argument"
                self._add(cls, self._all_names, source, is_named=False)
        self._visit_all()

    # ----------------------------------------------------------------------------------------------
    # Guards, and the objects still to be visited

    def _guard(self, owner: object, key: str, value: object, source: str | None = None) -> None:
        # Owners are in `found`, so that their identities are theirs alone.
        if (id(owner), key) not in self._guarded:
            self._guarded.add((id(owner), key))
            self.found.append((owner, key, value, self._reader, source or self._source))

    def _guard_computed(self, owner: object, description: str, read: Callable[[], object]) -> None:
        if (id(owner), description) not in self._guarded:
            self._guarded.add((id(owner), description))
            self._alive.append(owner)
            self.found.append((_LiveValue(read), description, read(), self._reader, description))

    def _guard_argument(self, container: Any) -> None:
        """Guard what a set or a buffer among the arguments holds."""
        source = f"a {type(container).__qualname__} among the arguments"
        self._reader = 0
        if isinstance(container, set):
            self._guard(container, "", list(container), source)
        else:
            self._guard_computed(container, source, lambda: bytes(memoryview(container)))

    def _follow(self, edges: Iterable[Edge], names: Names) -> None:
        """Guard values where they are stored, and visit them later with some names."""
        for edge in edges:
            source = self._source_of(edge)
            self._guard(edge.owner, edge.key, edge.value, source)
            self._add(edge.value, names, source)

    def _source_of(self, edge: Edge) -> str:
        if edge.kind is EdgeKind.CELL:
            return f"closure variable {edge.key}"
        if edge.kind is EdgeKind.GLOBAL:
            return f"global {edge.key}"
        return f"{self._source}.{edge.key}"

    def _add(
        self, value: object, names: Names, source: str | None = None, is_named: bool = True
    ) -> None:
        """Let an object be visited. A class makes objects where code names it."""
        if isinstance(value, _BUILTIN):
            # `get = table.get` reads the table.
            value = value.__self__
            if isinstance(value, (ModuleType, type)):
                return
        if isinstance(value, _ATOMS):
            return
        self._sources.setdefault(id(value), source or self._source)
        if is_named and isinstance(value, type):
            names |= CONSTRUCTORS
        if isinstance(value, _CALLABLES):
            self._functions.append((value, names, self._reader))
            return
        waiting = self._others.get(id(value))
        if waiting is not None:
            names |= waiting[1]
        self._others[id(value)] = value, names, self._reader

    def _add_all(self, values: Iterable[object], names: Names) -> None:
        for value in values:
            self._add(value, names)

    # ----------------------------------------------------------------------------------------------
    # Objects by their class

    def _visit(self, value: object, names: Names) -> None:
        known = self._names_at.get(id(value))
        if known is not None:
            if names <= known:
                return
            names |= known
        elif not is_installed((value if isinstance(value, type) else type(value)).__module__):
            self._objects.append(value)
        self._names_at[id(value)] = names
        self._alive.append(value)
        if isinstance(value, FunctionType):
            if known is None:
                self._visit_function(value)
            self._visit_function_attributes(value, names)
        elif isinstance(value, MethodType):
            self._add(value.__func__, names)
            self._add(value.__self__, names | mentioned(getattr(value.__func__, "__code__", None)))
        elif isinstance(value, functools.partial):
            self._add_all((e.value for e in reference_edges(value, functools.partial)), names)
        else:
            self._visit_object(value, names)

    def _visit_object(self, value: object, names: Names) -> None:
        if issubclass(type(value), _core.Array):
            self._guard(value, "", None)
        elif isinstance(value, np.ndarray):
            self._visit_array(value, names)
        elif isinstance(value, (list, tuple, dict, MappingProxyType)):
            self._visit_items(value, names)
        elif isinstance(value, _CONTAINERS):
            self._guard(value, "", list(value))
            self._add_all(value, names)
        elif isinstance(value, type):
            if not is_installed(value.__module__):
                # What methods of its class read, `len(cls)` among them, is read of it.
                of_class = with_methods(type(value), names)
                self._visit_members(value, with_methods(value, of_class))
                self._visit_metaclass(value, names)
        elif not self._visit_reference(value, names):
            self._visit_instance(value, names)

    def _visit_reference(self, value: object, names: Names) -> bool:
        """Visit what has a state of its own, or refers to something else; False for others."""
        if isinstance(value, ModuleType):
            self._visit_module(value, names)
        elif isinstance(value, ContextVar):
            self._guard_computed(value, f"the ContextVar {value.name}", lambda: value.get(None))
            self._add(value.get(None), names)
        elif (behind := _behind(value)) is not None:
            self._add_all(behind, names)
        elif _is_table(value):
            # Its methods lead to most of pandas, and writes may give it other memory.
            self._guard_computed(value, f"the table {self._source}", lambda: _content(value))
        elif isinstance(value, random.SystemRandom):
            raise random_numbers_error("random.SystemRandom")
        elif isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
            if all(g is not value for g in self._generators):
                self._generators.append(value)
        elif isinstance(value, io.IOBase):
            # A file may be read further; one that is written to, such as `sys.stdout`, may move.
            if not value.closed and value.readable() and value.seekable():
                self._guard_computed(
                    value, "the place in a file", lambda: value.closed or value.tell()
                )
        elif isinstance(value, Iterator) and not isinstance(value, weakref.ProxyTypes):
            raise TypeError(
                "prepare: the function uses an iterator from outside, which a replay would not "
                "advance; advance it outside and pass its items as arguments"
            )
        else:
            return False
        return True

    def _visit_module(self, module: ModuleType, names: Names) -> None:
        members = vars(module)
        if not is_library(module.__name__):
            self._visit_attributes(members, names - _ANY_ATTRIBUTE)
            # It provides names that the module does not have.
            self._add(members.get("__getattr__"), names)
            return
        # What user code has put there counts; what the library has itself is constant.
        for edge in named_edges(members, EdgeKind.GLOBAL, sorted(names & members.keys())):
            if isinstance(edge.value, ModuleType):
                self._add(edge.value, names)
            elif isinstance(edge.value, _VALUES) and not is_library(_module_name(edge.value)):
                self._follow((edge,), names)
        if names & _EXISTENCE_TESTS:
            for name in sorted(names - names_of_module(module)):
                self._guard(members, name, None, f"{module.__name__}.{name}")

    def _visit_metaclass(self, cls: type, names: Names) -> None:
        """Visit what code finds on the class of a class, and the methods of that."""
        metaclass: type = type(cls)
        if not is_installed(metaclass.__module__):
            self._visit_members(metaclass, with_methods(metaclass, names))

    def _visit_array(self, value: np.ndarray, names: Names) -> None:
        if value.dtype == object:
            self._guard_computed(
                value, "an array of objects", lambda: tuple(value.ravel().tolist())
            )
            self._add_all(value.ravel().tolist(), names)
        elif value.dtype.name in DTYPES:
            # The guard is on the memory, whatever the class makes of it.
            self._guard(value if type(value) is np.ndarray else value.view(np.ndarray), "", None)
        else:
            self._guard_computed(value, f"an array of dtype {value.dtype}", value.tobytes)
        if "flags" in names:
            self._guard_computed(value, "the flags of an array", lambda: value.flags.num)
        if type(value) is not np.ndarray:
            self._visit_instance(value, names)

    def _visit_instance(self, value: object, names: Names) -> None:
        """Visit the attributes that code names, and those that methods of these names use."""
        cls = type(value)
        names = with_methods(cls, names)
        members = getattr(value, "__dict__", None)
        self._visit_attributes(members, names, self._possible_attributes(cls, names))
        is_compared_whole = isinstance(value, (dict, np.ndarray))
        if type(members) is dict and not is_compared_whole and not is_installed(cls.__module__):
            self._guard(value, "__class__", value.__class__, f"class of {self._source}")
        self._visit_members(value, names)
        wrapped = members.get("__wrapped__") if type(members) is dict else None
        if wrapped is None and is_installed(cls.__module__):
            # A prepared function, say. Classes of the program's may answer with anything.
            wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, _CALLABLES):
            self._add(wrapped, names)
        if isinstance(value, (memoryview, ctypes.Array, ctypes.Structure, *_SIMPLE_C_DATA)):
            buffer: Any = value
            self._guard_computed(value, f"a {cls.__name__}", lambda: bytes(memoryview(buffer)))
        elif type(members) is dict and any(_is_keeper(c) for c in cls.__mro__):
            # The names in a library's methods do not count.
            kept = (np.ndarray, list, tuple, dict, set, deque, bool)
            own = frozenset(k for k in members if isinstance(members[k], kept))
            self._guard(members.keys(), "", list(members))
            self._visit_attributes(members, own)
            # The code may ask for attributes of their items.
            self._add_all((members[name] for name in sorted(own)), names | own)

    def _possible_attributes(self, cls: type, names: Names) -> Names:
        """Give the names that an instance may come to have itself.

        Code that asks for others fails, unless it expects that.
        """
        if cls not in self._class_names:
            self._class_names[cls] = frozenset(name for c in cls.__mro__ for name in vars(c))
        own = self._class_names[cls]
        return names if names & _EXISTENCE_TESTS or "__getattr__" in own else names & own

    def _visit_function_attributes(self, function: FunctionType, names: Names) -> None:
        """Visit the attributes of a function, which code finds by the function's name."""
        members = function.__dict__
        self._visit_attributes(
            members, names if names & _EXISTENCE_TESTS else names & members.keys()
        )

    def _visit_items(self, value: Iterable[object], names: Names) -> None:
        if isinstance(value, list):
            self._guard(value, "", list(value))
        items: Iterable[object] = value
        if isinstance(value, (dict, MappingProxyType)):
            self._guard(value.keys(), "", list(value))
            self._guard(value.values(), "", list(value.values()))
            items = value.values()
        for key, item in _numbered(value, items):
            self._add(item, names, f"{self._source}[{key!r}]")
        if not is_library(type(value).__module__) and type(value).__module__ != "builtins":
            self._visit_instance(value, names)

    def _visit_attributes(
        self, members: object, names: Names, possible: Names | None = None
    ) -> None:
        """Guard named attributes in a `__dict__`, and that those that are possible are missing."""
        if type(members) is dict:
            known = names & members.keys()
            if names & _ANY_ATTRIBUTE:
                known = frozenset(k for k in members if isinstance(k, str))
                self._guard(members.keys(), "", list(members))
            self._follow(named_edges(members, EdgeKind.ATTRIBUTE, sorted(known)), names)
            for name in sorted((names if possible is None else possible) - members.keys()):
                self._guard(members, name, None, f"{self._source}.{name}")

    def _visit_members(self, value: object, names: Names) -> None:
        """Visit what code finds on a class and its bases, or on the class of an object."""
        cls = value if isinstance(value, type) else type(value)
        if names & _ANY_ATTRIBUTE:
            own = (vars(c) for c in cls.__mro__ if not is_installed(c.__module__))
            names |= {name for members in own for name in members if name[:2] != "__"}
        for name in sorted(names):
            found = [c for c in cls.__mro__ if name in vars(c)]
            # Only `super()` leads to the others.
            for owner in found if "super" in names else found[:1]:
                if not is_library(vars(owner).get("__module__")):
                    at = cls if owner is found[0] else owner
                    self._visit_member(value, at, name, vars(owner)[name], names)

    def _visit_member(self, value: object, cls: type, name: str, member: Any, names: Names) -> None:
        if isinstance(member, MemberDescriptorType):
            if cls is not value and hasattr(value, name):
                stored = getattr(value, name)
                self._follow((Edge(value, EdgeKind.SLOT, name, stored),), names)
            return
        source = f"{cls.__qualname__}.{name}"
        self._guard(cls, name, member, source)
        self._add(function_of(member), names, source)
        if hasattr(type(member), "__get__") and not is_installed(type(member).__module__):
            # A descriptor of the program's may keep something itself.
            self._add(member, names, source)

    # ----------------------------------------------------------------------------------------------
    # The code of a function

    def _visit_function(self, function: FunctionType) -> None:
        self._reader = id(function)
        members = function.__globals__
        if is_library(members.get("__name__")):
            self._visit_wrapped(function)
            return
        cells = list(cell_edges(function))
        names = names_for(function, [edge.value for edge in cells])
        self._all_names |= names
        self._follow(cells, names)
        for edge in named_edges(members, EdgeKind.GLOBAL, sorted(names & members.keys())):
            if isinstance(edge.value, ModuleType) and is_library(edge.value.__name__):
                self._add(edge.value, names)
            else:
                self._follow((edge,), names)
        if "globals" in names:
            for name in sorted(names - members.keys() - vars(builtins).keys()):
                self._guard(members, name, None, f"global {name}")
        if not is_installed(str(members.get("__name__"))):
            self._visit_imports(function, names)
            self._guard_builtins(function, names)
        self._add_all(function.__defaults__ or (), names)
        self._guard(function, "__defaults__", function.__defaults__, f"defaults of {self._source}")
        self._guard(
            function,
            "__kwdefaults__",
            function.__kwdefaults__,
            f"defaults of keywords of {self._source}",
        )
        self._add(function.__kwdefaults__, names)
        # Reloading a module may put other code into the function.
        self._guard(function, "__code__", function.__code__, f"code of {self._source}")
        self._visit_function_attributes(function, names)

    def _visit_wrapped(self, function: FunctionType) -> None:
        """Visit the user's functions that a library's function wraps."""
        wrapped = (edge.value for edge in cell_edges(function))
        self._add_all((value for value in wrapped if callable(value)), frozenset())
        registry = getattr(function, "registry", None)
        if isinstance(registry, MappingProxyType):
            self._add(registry, frozenset())

    def _guard_builtins(self, function: FunctionType, names: Names) -> None:
        """Guard builtin functions that code calls: a global may hide one of them later."""
        known, members = vars(builtins), function.__globals__
        for name in sorted((names & known.keys()) - members.keys()):
            self._guard(members, name, None, f"global {name}")
            self._guard(known, name, known[name], f"builtin {name}")

    def _visit_imports(self, function: FunctionType, names: Names) -> None:
        """Visit the modules that code imports when it runs, and guard the environment."""
        package = function.__globals__.get("__package__")
        for name in sorted(names):
            for full in (name, f"{package}.{name}") if package else (name,):
                module = sys.modules.get(full)
                if isinstance(module, ModuleType) and not is_installed(full):
                    self._guard(sys.modules, full, module, f"module {full}")
                    self._add(module, names, full)
        if names & _ENVIRONMENT and (os := sys.modules.get("os")):
            self._guard_computed(os.environ, "os.environ", lambda: tuple(os.environ.values()))

    # ----------------------------------------------------------------------------------------------
    # After the recording

    def expect_same_random(self, imports: list[tuple[GlobalStates, GlobalStates]]) -> None:
        """Raise `TypeError` if the recording drew random numbers, or a recording check fails.

        What a module drew while it was imported (its states before and after in `imports`) does
        not count: it is imported once.
        """
        for generator, state in self._random_states:
            expected = state
            for before, after in imports:
                if before.get(id(generator)) == expected:
                    expected = after[id(generator)]
            if random_state(generator) != expected:
                raise random_numbers_error(getattr(generator, "__name__", type(generator).__name__))
        for check in RECORDING_CHECKS:
            check(*self.call)


#: What else a recording must not have done: called with the function and its arguments after it was
#: recorded, and raises where a replay would be wrong. Entered by packages above this one.
RECORDING_CHECKS: list[Callable[[Callable[..., object], tuple[object, ...]], None]] = []


def collect_guards(function: Callable[..., object], args: tuple[object, ...]) -> GuardCollector:
    """Collect the guards of a function; its generators and those in its arguments must not draw.

    Raises `TypeError` as `GuardCollector` does.
    """
    guards = GuardCollector(function)
    bare = [arg.value if isinstance(arg, _core.Const) else arg for arg in args]
    guards.visit_arguments(bare)
    guards._random_states += GuardCollector(bare)._random_states
    guards.call = function, args
    for container in _unseen_containers(bare):
        guards._guard_argument(container)
    return guards


def _unseen_containers(roots: Iterable[object]) -> Iterator[object]:
    """Give the sets and buffers in arguments: they are no leaves, and may change."""
    return (x for x in _objects_in(roots) if isinstance(x, (set, array, bytearray)))


def _objects_in(roots: Iterable[object]) -> Iterator[object]:
    """Give the objects in arguments, and in what they hold, but for numbers and arrays."""
    waiting, seen = list(roots), set[int]()
    while waiting and len(seen) < GUARDED_VALUES:
        value = waiting.pop()
        if isinstance(value, (*_ATOMS, np.ndarray, _core.Array)) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, _core.Const):
            waiting.append(value.value)
            continue
        yield value
        if isinstance(value, (list, tuple, deque)):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
        elif not isinstance(value, (type, ModuleType, set, array, bytearray, *_CALLABLES)):
            waiting += getattr(value, "__dict__", {}).values()


def functions_in(functions: Iterable[object]) -> list[int]:
    """Give the identities of functions, and of those that a library's wrappers call."""
    found: dict[int, FunctionType] = {}
    waiting = list(functions)
    while waiting:
        function = waiting.pop()
        if isinstance(function, functools.partial):
            waiting.append(function.func)
        elif isinstance(function, MethodType):
            waiting.append(function.__func__)
        elif isinstance(function, FunctionType) and id(function) not in found:
            found[id(function)] = function
            if is_library(function.__globals__.get("__name__")):
                waiting += [edge.value for edge in cell_edges(function)]
    return list(found)


def _name_of(value: object) -> str:
    if isinstance(value, ModuleType):
        # Its own `__getattr__` is not asked.
        return f"module {vars(value).get('__name__')}"
    return str(getattr(value, "__qualname__", None) or f"{type(value).__qualname__} object")


def _numbered(value: Any, items: Iterable[object]) -> Iterable[tuple[object, object]]:
    """Give the items of a collection with their keys."""
    is_mapping = isinstance(value, (dict, MappingProxyType))
    return zip(list(value), items, strict=False) if is_mapping else enumerate(items)
