"""Namespaces that no module of `sys.modules` has, and that a function reaches.

A program may be a file that somebody ran (`runpy.run_path`, `exec`), or a module that was made by
hand (`importlib.util.module_from_spec`). What tells of it is the function that is differentiated:
its own globals, or those of what it closes over and of what its code names.
"""

import functools
import sys
from collections.abc import Collection, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from cotan._core import Array
from cotan._src.state.object_graph import CodeNames

# So many objects are looked at; a program is not far from who differentiates it.
_FAR = 100
# Of long collections the first items.
_MANY = 16

PLAIN = (int, float, complex, str, bytes, type(None), CodeType, np.ndarray, np.generic, Array)


class Namespace:
    """Names that are asked as those of a module are: `vars(namespace)` is the dictionary itself."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.__dict__ = names


def apart(
    function: Any, libraries: Collection[str], known: Collection[int] = ()
) -> list[dict[str, Any]]:
    """Give the namespaces that a function reaches and no module has; not those of libraries.

    Those that are `known`, by identity, are such.
    """
    found: dict[int, dict[str, Any]] = {}
    seen: set[int] = set()
    waiting: list[Any] = [function]
    while waiting and len(seen) < _FAR:
        value = waiting.pop()
        # A proxy is not asked what it stands for, here and below.
        if issubclass(type(value), PLAIN) or id(value) in seen:
            continue
        seen.add(id(value))
        names = _names_of(value)
        home = names.get("__name__") if names is not None else _home(value)
        if str(home).partition(".")[0] in libraries:
            continue
        if names is not None and (id(names) in known or not _is_of_a_module(names)):
            found[id(names)] = names
        waiting += parts(value)
    return list(found.values())


def _names_of(value: Any) -> dict[str, Any] | None:
    names: dict[str, Any] | None = None
    if issubclass(type(value), FunctionType):
        names = value.__globals__
    elif issubclass(type(value), ModuleType):
        names = vars(value)
    elif type(value) is dict and "__builtins__" in value:
        names = value
    return names


# The flag of classes that were made while the program runs.
_MADE = 1 << 9


def _home(value: Any) -> Any:
    """Give where a class is from; what holds others may be of any."""
    if not issubclass(type(value), type):
        return None
    # So are called those of code that has no name for itself.
    is_named = value.__module__ != "builtins" or not value.__flags__ & _MADE
    return value.__module__ if is_named else None


def _is_of_a_module(names: dict[str, Any]) -> bool:
    module = sys.modules.get(str(names.get("__name__")))
    if module is not None and getattr(module, "__dict__", None) is names:
        return True
    return any(getattr(m, "__dict__", None) is names for m in list(sys.modules.values()))


def parts(value: Any) -> Iterator[Any]:
    """Give what a value leads to."""
    if issubclass(type(value), FunctionType):
        yield from _parts_of_a_function(value)
    elif issubclass(type(value), MethodType):
        yield value.__func__
        yield value.__self__
    elif issubclass(type(value), functools.partial):
        yield value.func
        yield from value.args
    elif type(value) is dict:
        # What `runpy` gives is a copy of what its functions have.
        yield from list(value.values())[:_MANY]
    elif issubclass(type(value), (list, tuple)):
        yield from value[:_MANY]
    elif issubclass(type(value), type):
        yield from (m for m in vars(value).values() if isinstance(m, FunctionType))
    elif not issubclass(type(value), ModuleType):
        yield type(value)
        try:
            # No code of the object's is run.
            members = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        if type(members) is dict:
            yield from list(members.values())[:_MANY]


def _parts_of_a_function(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue
    yield function.__defaults__
    yield function.__kwdefaults__
    names = function.__globals__
    yield from (names[name] for name in CodeNames.of(function.__code__).names if name in names)
    yield getattr(function, "__wrapped__", None)
