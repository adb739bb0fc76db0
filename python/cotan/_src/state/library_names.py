"""Tells what code reads by name, and what of that is of libraries: `names_read`.

Problem: a formula that a solver calls reads `np`, and little else. Whether that is a library still,
and nobody has put something into it, is asked in each call of a solver, and looking at each name
takes longer than the solver. Here what is of libraries is compared with what it was the last time,
by identity, in one look.
"""

import builtins
import functools
import gc
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.call_site import assigns_captured, imports_modules
from cotan._src.state.object_graph import CodeNames

#: Names of what leads to objects in other ways, or has a state.
LEADS_FAR = frozenset({"random", "base", "globals", "locals", "vars", "setattr", "delattr", "exec",
                  "eval", "gc", "setflags", "cell_contents", "__dict__", "__closure__",
                  "__globals__", "__defaults__", "__kwdefaults__", "__code__", "__setattr__",
                  "__delattr__", "__import__"})  # fmt: skip
# Libraries whose functions give the same for the same arguments.
_LIBRARIES = frozenset({"numpy", "math", "cmath", "scipy"})
# Names in them that do not, or do something besides.
_IMPURE = LEADS_FAR | {
    "empty", "empty_like", "errstate", "fromfile", "genfromtxt", "info", "rvs", "load", "loadtxt",
    "lib", "memmap", "printoptions", "save", "savetxt", "savez", "set_printoptions", "setbufsize",
    "seterr", "seterrcall", "tofile", "show_config", "ctypes",
}  # fmt: skip
_PURE_BUILTINS = frozenset({
    "abs", "all", "any", "bool", "complex", "divmod", "enumerate", "filter", "float", "int",
    "isinstance", "len", "list", "map", "max", "min", "pow", "range", "reversed", "round", "slice",
    "sorted", "sum", "tuple", "zip", "ArithmeticError", "AssertionError", "Exception", "IndexError",
    "KeyError", "OverflowError", "RuntimeError", "TypeError", "ValueError", "ZeroDivisionError",
})  # fmt: skip
_BUILTINS = dict(vars(builtins))
# What a program puts on a module of a library.
_PUT: tuple[type, ...] = (float, np.float64, int, bool, str, bytes, type(None),
    np.generic, complex, list, tuple, dict, np.ndarray, Array, FunctionType)  # fmt: skip
# What does not change, so that its identity says what it is: `np.pi`, for one.
_ATOMS = frozenset({float, np.float64, int, bool, str, bytes, type(None)})
_ABSENT = object()
# The names in so many codes are kept.
_MOST = 1024


class NamesRead(NamedTuple):
    """What code reads by name; values of libraries, and of nothing else, are kept alive."""

    code: CodeType
    #: Global variables that are of libraries, or are none, and what they were.
    names: tuple[str, ...]
    values: list[object]
    #: What is looked up in builtins and in modules, and what that was.
    members: list[tuple[dict[str, object], str]]
    found: list[object]
    #: Other global variables.
    others: tuple[str, ...]
    #: Whether all that is of builtins computes, and does nothing else.
    is_computing: bool
    #: The identities of what was found.
    key: tuple[object, ...]

    def is_same_for(self, function: FunctionType) -> bool:
        """Say whether a function with this code reads the same."""
        variables = function.__globals__
        get = variables.get
        return (
            _core.same_items([get(name, _ABSENT) for name in self.names], self.values)
            and _core.same_items([of.get(name, _ABSENT) for of, name in self.members], self.found)
            and all(name in variables for name in self.others)
        )


# By the identity of code.
_known: dict[int, NamesRead] = {}


def names_read(function: FunctionType) -> NamesRead | None:
    """Give what the code of a function reads by name; None where it may do more than compute."""
    code = function.__code__
    known = _known.get(id(code))
    if known is not None and known.code is code and known.is_same_for(function):
        return known
    names = _computing_names(code)
    if names is None:
        return None
    if len(_known) >= _MOST:
        _known.clear()
    made = _known[id(code)] = _looked_up(function, names)
    return made


def _looked_up(function: FunctionType, names: frozenset[str]) -> NamesRead:
    variables, ordered = function.__globals__, sorted(names)
    near: list[tuple[str, Any]] = []
    members: list[tuple[dict[str, object], str]] = []
    is_computing = True
    for name in ordered:
        value = variables.get(name, _ABSENT)
        if value is _ABSENT:
            if name in _BUILTINS:
                same = vars(builtins).get(name) is _BUILTINS[name]
                is_computing = is_computing and name in _PURE_BUILTINS and same
                members.append((vars(builtins), name))
        elif not is_of_library(value):
            continue
        elif type(value) is ModuleType:
            if any(type(put) not in _ATOMS for _, put in put_on(value, names)):
                continue
            members += ((vars(value), inner) for inner in ordered)
        near.append((name, value))
    chosen = tuple(name for name, _ in near)
    values = [value for _, value in near]
    found = [of.get(name, _ABSENT) for of, name in members]
    others = tuple(name for name in ordered if name not in chosen)
    key = *chosen, *map(id, values), *map(id, found)
    code = function.__code__
    return NamesRead(code, chosen, values, members, found, others, is_computing, key)


def is_of_library(value: Any) -> bool:
    """Say whether something is a part of a library whose functions give the same each time."""
    kind = type(value)
    if kind is ModuleType:
        return _is_pure(value.__name__)
    if kind is type:
        name = value.__name__
        return _is_pure(value.__module__) or (
            value.__module__ == "builtins" and name in _PURE_BUILTINS
        )
    if kind is FunctionType:
        # Where it is from, not whose name a decorator has given it.
        return _is_pure(value.__globals__.get("__name__"))
    if kind is np.ufunc:
        # What `frompyfunc` made of a function may do anything.
        return not any(map(callable, gc.get_referents(value)))
    if kind is BuiltinFunctionType and type(value.__self__) is not ModuleType:
        return False
    return kind in {BuiltinFunctionType, type(np.sum)} and _is_pure(value.__module__)


def put_on(module: ModuleType, names: frozenset[str]) -> list[tuple[str, object]]:
    """Give what a library's module has under some names that is no function of a library.

    A program may have put it there.
    """
    members = vars(module)
    return [
        (name, value)
        for name in sorted(names & members.keys())
        if isinstance(value := members[name], _PUT)
        and not (isinstance(value, FunctionType) and _is_pure(value.__globals__.get("__name__")))
    ]


@functools.lru_cache(4096)
def _is_pure(home: object) -> bool:
    name = str(home)
    return name.partition(".")[0] in _LIBRARIES and "random" not in name


@functools.lru_cache(4096)
def _computing_names(code: CodeType) -> frozenset[str] | None:
    """Give the names that code refers to, None if it may do something besides computing."""
    found = CodeNames.of(code)
    if found.assigned or found.sets_attributes or assigns_captured(code):
        return None
    if not _IMPURE.isdisjoint(found.mentioned) or imports_modules(code):
        return None
    return frozenset(found.names)
