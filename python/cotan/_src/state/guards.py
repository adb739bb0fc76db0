"""What the code of a function depends on besides its arguments: what a replay has to watch."""

import builtins
import ctypes
import functools
import io
import operator
import pickle
import pkgutil
import random
import sys
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.runtime.dtypes import DTYPES

_LIBRARIES = {"cotan", "matplotlib", "numpy", "scipy", *sys.stdlib_module_names} - {"__main__"}
# Libraries whose objects keep arrays, lists and dictionaries for their callers.
_KEEPERS = {"_weakrefset", "collections", "numpy", "queue", "scipy", "threading", "weakref"}
_WITHOUT_PARTS = (
    *(float, int, str, bool, complex, bytes, type(None), np.generic),
    BuiltinFunctionType,
)
# What `c_double` and the like are made of.
_NUMBERS_OF_C = ctypes.c_double.__mro__[1:2]
# Of such kinds are the attributes that a program sets on a library's module.
_VALUES = (float, int, str, bool, complex, np.generic, np.ndarray, list, dict, tuple)
# Builtin names that get a meaning of ours in modules, while something is recorded.
_FOLLOWING = {"complex", "float", "type"}
_CONTAINERS = (set, frozenset, deque, array, bytearray)
# By these, code reaches attributes whose names it does not say.
_BY_ANY_NAME = {
    *("__dict__", "__slots__", "asdict", "astuple", "attrgetter", "copy", "deepcopy", "fields"),
    *("getattr", "getmembers", "replace", "vars"),
}
# By these, code asks for attributes and global names that may not be there.
_IF_THERE = {"except", "getattr", "globals", "hasattr", "setattr", "vars"}
# By these, code reads the environment.
# More than this is not watched: it would take longer than to call the function.
_MANY = 100_000
_UNBOUND = object()
# What runs when an object is made.
_OF_MAKING = frozenset(["__init__", "__new__", "__post_init__"])
# Members of every class, and methods that code does not call while it computes.
_OF_NO_CALL = {
    *("__annotations__", "__dict__", "__doc__", "__module__", "__qualname__", "__slots__"),
    *("__weakref__", "__repr__", "__str__", "__del__", "__getstate__", "__setstate__"),
    *("__reduce__", "__reduce_ex__", "__init_subclass__", "__class_getitem__"),
    *("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__firstlineno__"),
    *("__static_attributes__", "__abstractmethods__", "__parameters__", "__orig_bases__"),
}


def _is_library(name: Any) -> bool:
    return str(name or "").partition(".")[0] in _LIBRARIES


@functools.cache
def _is_installed(name: str) -> bool:
    """Say whether a module is of an installed package, whose own state is its own affair."""
    top = getattr(sys.modules.get(name.partition(".")[0]), "__dict__", {})
    places = [top.get("__file__") or "", *map(str, top.get("__path__", ()))]
    return _is_library(name) or any(
        f"{kind}-packages" in p for p in places for kind in ("site", "dist")
    )


def _home(value: Any) -> Any:
    return getattr(value, "__module__", None) if isinstance(value, FunctionType) else None


class _Seen:
    """Something whose present value is read by a function: all attributes are that value."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    def __getattr__(self, name: str) -> Any:
        return self._read()


class GuardCollector:
    """Names, variables, attributes and lists that code refers to, and what they hold."""

    def __init__(self, function: Any) -> None:
        # What holds it, its name there, the value, and the function whose code refers to it.
        self.found: list[tuple[Any, Any, Any, int]] = []
        self.generators: list[Any] = []
        self.call: tuple[Any, tuple[Any, ...]] = function, ()
        # The names that each is asked for, by identity: each function may ask for other ones.
        self._seen: dict[int, frozenset[str]] = {}
        self._noted: set[tuple[int, str]] = set()
        self._keep: list[Any] = []
        # Functions come first, so that most of what they share is looked at once.
        self._functions: list[tuple[Any, frozenset[str], int]] = []
        self._others: dict[int, tuple[Any, frozenset[str], int]] = {}
        self._names_on: dict[type, frozenset[str]] = {}
        self._of = 0
        self._add(function, frozenset())
        while self._functions or self._others:
            if self._functions:
                value, names, self._of = self._functions.pop()
            else:
                value, names, self._of = self._others.pop(next(iter(self._others)))
            self._visit(value, names)
            if len(self.found) > _MANY:
                raise TypeError(
                    f"prepare: the code of the function can reach more than {_MANY:,} objects that "
                    "may change between calls; pass what it needs of them as arguments"
                )
        arguments = [] if isinstance(function, tuple) else [np.random, random]
        self._states = [(g, _state(g)) for g in (*arguments, *self.generators)]

    def _note(self, owner: Any, name: str, value: Any) -> None:
        # Owners are kept, so that their addresses are theirs alone.
        if (id(owner), name) not in self._noted:
            self._noted.add((id(owner), name))
            self.found.append((owner, name, value, self._of))

    def _note_value(self, owner: Any, name: str, read: Callable[[], Any]) -> None:
        if (id(owner), name) not in self._noted:
            self._noted.add((id(owner), name))
            self._keep.append(owner)
            self.found.append((_Seen(read), name, read(), self._of))

    def _add(self, value: Any, names: frozenset[str]) -> None:
        if isinstance(value, _WITHOUT_PARTS):
            return
        if isinstance(value, (functools.partial, MethodType, FunctionType)):
            self._functions.append((value, names, self._of))
            return
        waiting = self._others.get(id(value))
        if waiting is not None:
            names |= waiting[1]
        self._others[id(value)] = value, names, self._of

    def _visit(self, value: Any, names: frozenset[str]) -> None:
        if isinstance(value, _WITHOUT_PARTS):
            return
        asked = self._seen.get(id(value), frozenset())
        is_new = id(value) not in self._seen
        if not is_new and names <= asked:
            return
        names |= asked
        self._seen[id(value)] = names
        self._keep.append(value)
        if isinstance(value, (functools.partial, MethodType, FunctionType)):
            self._called(value, names, is_new)
        else:
            self._held(value, names)

    def _held(self, value: Any, names: frozenset[str]) -> None:
        if type(value) is _core.Array:
            self._note(value, "", None)
        elif isinstance(value, np.ndarray):
            self._array(value, names)
        elif isinstance(value, (list, tuple, dict, MappingProxyType)):
            self._items(value, names)
        elif isinstance(value, _CONTAINERS):
            self._note(value, "", list(value))
            for item in value:
                self._add(item, names)
        elif isinstance(value, type):
            if not _is_installed(value.__module__):
                self._members(value, _with_methods(value, names | _OF_MAKING))
                self._metaclass(value, names)
        elif not self._reference(value, names):
            self._object(value, names)

    def _reference(self, value: Any, names: frozenset[str]) -> bool:
        """Note what has a state of its own, or stands for something else."""
        if isinstance(value, ModuleType):
            self._module(value, names)
        elif isinstance(value, ContextVar):
            self._note_value(value, f"the ContextVar {value.name}", lambda: value.get(None))
            self._add(value.get(None), names)
        elif isinstance(value, weakref.ref):
            self._add(value(), names)
        elif isinstance(value, random.SystemRandom):
            raise drawn("random.SystemRandom")
        elif isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
            if all(g is not value for g in self.generators):
                self.generators.append(value)
        elif isinstance(value, io.IOBase):
            # A file may be read on; what is written to, such as `sys.stdout`, may move.
            if not value.closed and value.readable() and value.seekable():
                self._note_value(value, "the place in a file", lambda: value.closed or value.tell())
        elif isinstance(value, Iterator) and not isinstance(value, weakref.ProxyTypes):
            raise TypeError(
                "prepare: the function uses an iterator from outside, which a replay would not "
                "move on; take from it outside and pass what it gives as an argument"
            )
        else:
            return False
        return True

    def _module(self, module: ModuleType, names: frozenset[str]) -> None:
        members = vars(module)
        if not _is_library(module.__name__):
            self._attributes(members, names - _BY_ANY_NAME)
            # It gives what the module has not got.
            self._add(members.get("__getattr__"), names)
            return
        # What a program has put there; what a library has itself is taken for constant.
        for name in sorted(names & members.keys()):
            value = members[name]
            if isinstance(value, ModuleType):
                self._add(value, names)
            elif isinstance(value, (*_VALUES, FunctionType)) and not _is_library(_home(value)):
                self._note(members, name, value)
                self._add(value, names)
        if names & _IF_THERE:
            for name in sorted(names - _will_have(module)):
                self._note(members, name, None)

    def _metaclass(self, cls: type, names: frozenset[str]) -> None:
        """Note what code finds on the class of a class, and what that does when it is asked."""
        kind: type = type(cls)
        if not _is_installed(kind.__module__):
            self._members(kind, _with_methods(kind, names))

    def _array(self, value: Any, names: frozenset[str]) -> None:
        if value.dtype == object:
            self._note_value(value, "an array of objects", lambda: tuple(value.ravel().tolist()))
            self._add(value.tolist(), names)
        elif value.dtype.name in DTYPES:
            # The watch is on the memory, whatever the class says of it.
            self._note(value if type(value) is np.ndarray else value.view(np.ndarray), "", None)
        else:
            self._note_value(value, f"an array of dtype {value.dtype}", value.tobytes)
        if "flags" in names:
            self._note_value(value, "the flags of an array", lambda: value.flags.num)
        if type(value) is not np.ndarray:
            self._object(value, names)

    def _object(self, value: Any, names: frozenset[str]) -> None:
        """Note the attributes that code asks an object for, and what its methods ask for."""
        cls = type(value)
        names = _with_methods(cls, names)
        members = getattr(value, "__dict__", None)
        self._attributes(members, names, self._may_appear(cls, names))
        is_probed_whole = isinstance(value, (dict, np.ndarray))
        if type(members) is dict and not is_probed_whole and not _is_installed(cls.__module__):
            self._note(value, "__class__", value.__class__)
        self._members(value, names)
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, FunctionType):
            self._add(wrapped, names)
        if isinstance(value, (memoryview, ctypes.Array, ctypes.Structure, *_NUMBERS_OF_C)):
            buffer: Any = value
            self._note_value(value, f"a {cls.__name__}", lambda: bytes(memoryview(buffer)))
        elif str(cls.__module__).partition(".")[0] in _KEEPERS and type(members) is dict:
            # Its methods are the library's, and so their names are not looked at.
            kept = (np.ndarray, list, dict, set, deque, bool)
            own = frozenset(k for k in members if isinstance(members[k], kept))
            self._attributes(members, own)
            for name in sorted(own):
                self._add(members[name], names | own)  # what the code asks of their elements

    def _may_appear(self, cls: type, names: frozenset[str]) -> frozenset[str]:
        """Give the names that an object may not have itself.

        Who asks for others in vain fails, unless he expects that.
        """
        if cls not in self._names_on:
            self._names_on[cls] = frozenset(name for c in cls.__mro__ for name in vars(c))
        own = self._names_on[cls]
        return names if names & _IF_THERE or "__getattr__" in own else names & own

    def _called(self, value: Any, names: frozenset[str], is_new: bool) -> None:
        if isinstance(value, functools.partial):
            for part in (value.func, *value.args, value.keywords):
                self._add(part, names)
        elif isinstance(value, MethodType):
            self._add(value.__func__, names)
            self._add(value.__self__, names | _names(getattr(value.__func__, "__code__", None)))
        else:
            if is_new:
                self._function(value)
            self._attributes_of(value, names)

    def _attributes_of(self, function: FunctionType, names: frozenset[str]) -> None:
        """Note attributes of a function itself, which it finds by its name, and others, too."""
        members = function.__dict__
        self._attributes(members, names if names & _IF_THERE else names & members.keys())

    def _items(self, value: Any, names: frozenset[str]) -> None:
        if isinstance(value, list):
            self._note(value, "", list(value))
        if isinstance(value, (dict, MappingProxyType)):
            self._note(value.keys(), "", list(value))
            self._note(value.values(), "", list(value.values()))
            value_of: Iterable[Any] = value.values()
        else:
            value_of = value
        for item in value_of:
            self._add(item, names)
        if not _is_library(type(value).__module__) and type(value).__module__ != "builtins":
            self._object(value, names)

    def _attributes(
        self, members: Any, names: frozenset[str], may_appear: frozenset[str] | None = None
    ) -> None:
        if type(members) is dict:
            known = names & members.keys()
            if names & _BY_ANY_NAME:
                known = frozenset(k for k in members if isinstance(k, str))
                self._note(members.keys(), "", list(members))
            for name in sorted(known):
                self._note(members, name, members[name])
                self._add(members[name], names)
            for name in sorted((names if may_appear is None else may_appear) - members.keys()):
                self._note(members, name, None)

    def _members(self, value: Any, names: frozenset[str]) -> None:
        """Note what code finds on a class and its bases, or on those of an object."""
        cls = value if isinstance(value, type) else type(value)
        if names & _BY_ANY_NAME:
            own = (vars(c) for c in cls.__mro__ if not _is_installed(c.__module__))
            names |= {name for members in own for name in members if name[:2] != "__"}
        for name in sorted(names):
            found = (vars(c) for c in cls.__mro__ if name in vars(c))
            members = next(found, None)
            if members is None or _is_library(members.get("__module__")):
                continue
            member = members[name]
            if isinstance(member, MemberDescriptorType):
                if cls is not value and hasattr(value, name):
                    self._note(value, name, getattr(value, name))
                    self._add(getattr(value, name), names)
                continue
            self._note(cls, name, member)
            self._add(_function_of(member), names)

    def _function(self, function: Any) -> None:
        self._of = id(function)
        if _is_library(function.__globals__.get("__name__")):
            self._wrapper(function)
            return
        members = function.__globals__
        cells = [(c, _content(c)) for c in function.__closure__ or ()]
        names = _names_of(function, [value for _, value in cells])
        for cell, value in cells:
            if value is not _UNBOUND:
                self._note(cell, "", value)
                self._add(value, names)
        for name in sorted(names & members.keys()):
            value = members[name]
            if not (isinstance(value, ModuleType) and _is_library(value.__name__)):
                self._note(members, name, value)
            self._add(value, names)
        if "globals" in names:
            for name in sorted(names - members.keys() - vars(builtins).keys()):
                self._note(members, name, None)
        if not _is_installed(str(members.get("__name__"))):
            self._imports(function, names)
            self._builtins(function, names)
        for value in function.__defaults__ or ():
            self._add(value, names)
        self._note(function, "__defaults__", function.__defaults__)
        self._add(function.__kwdefaults__, names)
        # Reloaded code is put into the functions that are there.
        self._note(function, "__code__", function.__code__)
        self._attributes_of(function, names)

    def _wrapper(self, function: Any) -> None:
        """Look at what a library's function wraps, which is the user's."""
        for cell in function.__closure__ or ():
            if callable(value := _content(cell)):
                self._add(value, frozenset())
        registry = getattr(function, "registry", None)
        if isinstance(registry, MappingProxyType):
            self._add(registry, frozenset())

    def _builtins(self, function: FunctionType, names: frozenset[str]) -> None:
        """Note the builtin functions that code calls, which a name of its module may hide later."""
        known, members = vars(builtins), function.__globals__
        for name in sorted((names & known.keys()) - members.keys() - _FOLLOWING):
            self._note(members, name, None)
            self._note(known, name, known[name])

    def _imports(self, function: Any, names: frozenset[str]) -> None:
        """Note the modules that code imports when it runs, and the environment."""
        package = function.__globals__.get("__package__")
        for name in sorted(names):
            for full in (name, f"{package}.{name}") if package else (name,):
                module = sys.modules.get(full)
                if isinstance(module, ModuleType) and not _is_installed(full):
                    self._note(sys.modules, full, module)
                    self._add(module, names)
        if names & {"environ", "expandvars", "expanduser", "getenv"} and (
            os := sys.modules.get("os")
        ):
            self._note_value(os.environ, "os.environ", lambda: tuple(os.environ.values()))

    def expect_same_random(self) -> None:
        """Refuse a function that has drawn random numbers."""
        for generator, before in self._states:
            if _state(generator) != before:
                raise drawn(getattr(generator, "__name__", type(generator).__name__))
        for check in RECORDING_CHECKS:
            check(*self.call)


#: What else a recording must not have done: called with the function and its arguments after it was
#: recorded, and raises where a replay would be wrong. Entered by packages above this one.
RECORDING_CHECKS: list[Callable[[Callable[..., Any], tuple[Any, ...]], None]] = []


def drawn(name: str) -> TypeError:
    return TypeError(
        f"prepare: the function draws random numbers ({name}), which a replay would "
        "repeat; draw them outside and pass them as an argument"
    )


def _will_have(module: ModuleType) -> frozenset[str]:
    """Give the names that a library's module has, or gets by itself: modules that are below it."""
    below = (m.name for m in pkgutil.iter_modules(getattr(module, "__path__", ())))
    return frozenset((*vars(module), *dir(module), *below))


def _function_of(member: Any) -> Any:
    """Give the function behind a member of a class, if it is a method or a property."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, functools.cached_property):
        return member.func
    get = getattr(type(member), "__get__", None)
    if isinstance(get, FunctionType):
        return get
    return getattr(member, "__func__", member)


def _names_of(function: FunctionType, variables: list[Any]) -> frozenset[str]:
    """Give the names in the code of a function, and in what gets attributes for it."""
    members = function.__globals__
    # Others are those of tools that rewrite code.
    names = frozenset(n for n in _names(function.__code__) if n[:1] != "@")
    for value in (*variables, *(members[n] for n in names & members.keys())):
        if isinstance(value, (operator.attrgetter, operator.methodcaller)):
            names |= frozenset(_parts_of(value.__reduce__()))
    return names


def _parts_of(reduced: Any) -> list[str]:
    """Give the names in what an `attrgetter` or a `methodcaller` is made of."""
    if isinstance(reduced, str):
        return reduced.split(".")
    return [n for item in reduced for n in _parts_of(item)] if type(reduced) is tuple else []


def _with_methods(owner: type, names: frozenset[str]) -> frozenset[str]:
    """Add the names in the methods with these names, and in the methods that those name.

    Methods between double underscores are called by operators, loops and the like.
    """
    classes = [vars(c) for c in owner.__mro__ if not _is_library(c.__module__)]
    own = [vars(c) for c in owner.__mro__ if not _is_installed(c.__module__)]
    unnamed = {name for members in own for name in members if name[:2] == name[-2:] == "__"}
    work, done = set(names) | (unnamed - _OF_NO_CALL - _OF_MAKING), set[str]()
    while work:
        name = work.pop()
        done.add(name)
        for members in classes:
            code = getattr(_function_of(members.get(name)), "__code__", None)
            work |= _names(code) - done
    return frozenset(done)


def _content(cell: Any) -> Any:
    """Give what a variable of an enclosing function holds."""
    try:
        return cell.cell_contents
    except ValueError:
        return _UNBOUND


def functions_in(functions: list[Any]) -> list[int]:
    """Give the identities of functions, and of those that they wrap."""
    found: dict[int, Any] = {}
    work = list(functions)
    while work:
        function = work.pop()
        if isinstance(function, functools.partial):
            work.append(function.func)
        elif isinstance(function, MethodType):
            work.append(function.__func__)
        elif isinstance(function, FunctionType) and id(function) not in found:
            found[id(function)] = function
            if _is_library(function.__globals__.get("__name__")):
                work += [_content(cell) for cell in function.__closure__ or ()]
    return list(found)


def _names(code: Any) -> frozenset[str]:
    """Give the names of globals and attributes in a piece of code and those inside it."""
    if not isinstance(code, CodeType):
        return frozenset()
    names = set(code.co_names)
    if code.co_exceptiontable:
        names.add("except")
    for constant in code.co_consts:
        names |= _names(constant)
        # `getattr(x, "w")`, `vars(x)["w"]`.
        if isinstance(constant, str) and constant.isidentifier():
            names.add(constant)
    return frozenset(names)


def collect_guards(function: Any, args: tuple[Any, ...]) -> GuardCollector:
    """Find what to watch around a function, and the random numbers that it may draw."""
    search = GuardCollector(function)
    search._states += GuardCollector(args)._states
    search.call = function, args
    return search


def _state(generator: Any) -> bytes:
    if generator is random or isinstance(generator, random.Random):
        return pickle.dumps(generator.getstate())
    if isinstance(generator, np.random.Generator):
        return pickle.dumps(generator.bit_generator.state)
    return pickle.dumps(generator.get_state())
