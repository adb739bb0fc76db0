"""Tells what code reads by name, and what of that is of libraries: `look_up`.

Problem: a formula that a solver calls reads `np`, and little else. Whether that is a library still,
and nobody has put something into it, is asked in each call of a solver, and looking at each name
takes longer than the solver. So `_core.names_read` keeps what is found here, and compares it with
what it was the last time, by identity.
"""

import builtins
import functools
import gc
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from cotan._core import Array, NamesRead
from cotan._src.runtime.call_site import assigns_captured, imports_modules
from cotan._src.runtime.originals import rebound_from
from cotan._src.state.object_graph import CodeNames

#: Names of what leads to objects in other ways, or has a state.
LEADS_FAR = frozenset({"random", "base", "globals", "locals", "vars", "setattr", "delattr", "exec",
                  "eval", "gc", "setflags", "cell_contents", "__dict__", "__closure__",
                  "__globals__", "__defaults__", "__kwdefaults__", "__code__", "__setattr__",
                  "__delattr__", "__import__"})  # fmt: skip
# Libraries whose functions give the same for the same arguments.
_LIBRARIES = frozenset({"numpy", "math", "cmath", "scipy"})
#: Names in them that do not, or do something besides.
IMPURE = LEADS_FAR | {
    "empty", "empty_like", "errstate", "fromfile", "genfromtxt", "info", "rvs", "load", "loadtxt",
    "lib", "memmap", "printoptions", "save", "savetxt", "savez", "set_printoptions", "setbufsize",
    "seterr", "seterrcall", "tofile", "show_config", "ctypes",
}  # fmt: skip
#: Builtins that compute, and do nothing else.
PURE_BUILTINS = frozenset({
    "abs", "all", "any", "bool", "complex", "divmod", "enumerate", "filter", "float", "int",
    "isinstance", "len", "list", "map", "max", "min", "pow", "range", "reversed", "round", "slice",
    "sorted", "sum", "tuple", "zip", "ArithmeticError", "AssertionError", "Exception", "IndexError",
    "KeyError", "OverflowError", "RuntimeError", "TypeError", "ValueError", "ZeroDivisionError",
})  # fmt: skip
#: The builtins as they were when cotan was imported.
BUILTINS = dict(vars(builtins))
# What a program puts on a module of a library.
_PUT: tuple[type, ...] = (float, np.float64, int, bool, str, bytes, type(None),
    np.generic, complex, list, tuple, dict, np.ndarray, Array, FunctionType)  # fmt: skip
# What does not change, so that its identity says what it is: `np.pi`, for one.
_ATOMS = frozenset({float, np.float64, int, bool, str, bytes, type(None)})
_ABSENT = object()


def look_up(function: FunctionType) -> NamesRead | None:
    """Give what the code of a function reads by name; None where it may do more than compute."""
    names = _computing_names(function.__code__)
    # A copy of a library's function is told by where it is from, not by its code.
    if names is None or rebound_from(function) is not None:
        return None
    variables, ordered = function.__globals__, sorted(names)
    near: list[tuple[str, object]] = []
    members: list[tuple[dict[str, object], str, object]] = []
    is_computing = True
    for name in ordered:
        value: Any = variables.get(name, _ABSENT)
        if value is _ABSENT:
            if name in BUILTINS:
                same = vars(builtins).get(name) is BUILTINS[name]
                is_computing = is_computing and name in PURE_BUILTINS and same
                members.append(_member(builtins, name))
        elif not is_of_library(value):
            continue
        elif type(value) is ModuleType:
            if any(type(put) not in _ATOMS for _, put in put_on(value, names)):
                continue
            members += (_member(value, inner) for inner in ordered)
        near.append((name, value))
    chosen = {name for name, _ in near}
    others = tuple(name for name in ordered if name not in chosen)
    return NamesRead(function.__code__, near, members, others, is_computing, _ABSENT)


def _member(module: ModuleType, name: str) -> tuple[dict[str, object], str, object]:
    return vars(module), name, vars(module).get(name, _ABSENT)


def library_part(value: Any, names: tuple[str, ...]) -> list[tuple[str, object]] | bool | None:
    """Give what a program has put on a part of a library, under some names.

    None for what is no such part, False where it may do anything.
    """
    if is_of_library(value):
        return put_on(value, frozenset(names)) if type(value) is ModuleType else []
    kinds = (ModuleType, type, BuiltinFunctionType, type(np.sum), np.ufunc)
    return False if issubclass(type(value), kinds) else None


def is_of_library(value: Any) -> bool:
    """Say whether something is a part of a library whose functions give the same each time."""
    kind = type(value)
    if kind is ModuleType:
        return is_pure(value.__name__)
    if kind is type:
        name = value.__name__
        return is_pure(value.__module__) or (
            value.__module__ == "builtins" and name in PURE_BUILTINS
        )
    if kind is FunctionType:
        # Where it is from, not whose name a decorator has given it.
        return is_pure(value.__globals__.get("__name__"))
    if kind is np.ufunc:
        # What `frompyfunc` made of a function may do anything.
        return not any(map(callable, gc.get_referents(value)))
    if kind is BuiltinFunctionType and type(value.__self__) is not ModuleType:
        return False
    return kind in {BuiltinFunctionType, type(np.sum)} and is_pure(value.__module__)


def put_on(module: ModuleType, names: frozenset[str]) -> list[tuple[str, object]]:
    """Give what a library's module has under some names that is no function of a library.

    A program may have put it there.
    """
    members = vars(module)
    return [
        (name, value)
        for name in sorted(names & members.keys())
        if isinstance(value := members[name], _PUT)
        and not (isinstance(value, FunctionType) and is_pure(value.__globals__.get("__name__")))
    ]


@functools.lru_cache(4096)
def is_pure(home: object) -> bool:
    """Say whether a module is of a library whose functions give the same each time."""
    name = str(home)
    return name.partition(".")[0] in _LIBRARIES and "random" not in name


@functools.lru_cache(4096)
def _computing_names(code: CodeType) -> frozenset[str] | None:
    """Give the names that code refers to, None if it may do something besides computing."""
    found = CodeNames.of(code)
    if found.assigned or found.sets_attributes or assigns_captured(code):
        return None
    if not IMPURE.isdisjoint(found.mentioned) or imports_modules(code):
        return None
    return frozenset(found.names)
