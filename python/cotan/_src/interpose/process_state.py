"""Compares a process with what it was: a recording changes nothing that other code can see.

`process_state` takes down what every imported module and class holds, and how every function is
made; `verify_process` lists the differences since then. Nothing is called for that, and no
attribute is looked up that could run code: dictionaries are read as they are.
"""

import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, cast

import numpy as np

from cotan import _core
from cotan._src.interpose.install import verify_entries
from cotan._src.runtime.originals import originals

_OURS = "cotan"
# Python 3.11 has no entry for Python functions: their code leads to cotan.
_HAS_ENTRIES = sys.version_info >= (3, 12)


class ProcessState(NamedTuple):
    """What modules, classes and functions were like, by the identity of what they held."""

    #: Of each module and class, by its name: its class, and its names with what they meant.
    names: dict[str, tuple[type, dict[str, object]]]
    #: Of each function, by its identity: the function, and how it was made.
    functions: dict[int, tuple[FunctionType, tuple[object, ...]]]
    #: Finders of modules, and hooks of paths.
    finders: tuple[object, ...]


def process_state() -> ProcessState:
    """Take down what modules, classes and functions are like now, cotan's own left out.

    >>> import cotan as ct
    >>> before = ct.debug.process_state()
    >>> ct.gradient(lambda x: x * x, 3.0)
    (6.0,)
    >>> ct.debug.verify_process(before)
    []
    """
    names: dict[str, tuple[type, dict[str, object]]] = {}
    functions: dict[int, tuple[FunctionType, tuple[object, ...]]] = {}
    for name, owner in _owners():
        held = dict(_names_of(owner))
        names[name] = type(owner), held
        for value in held.values():
            is_wrapped = type(value) in (classmethod, staticmethod)
            function = cast("Any", value).__func__ if is_wrapped else value
            if type(function) is FunctionType:
                functions[id(function)] = function, _made(function)
    return ProcessState(names, functions, (*sys.meta_path, *sys.path_hooks))


def _owners() -> Iterator[tuple[str, Any]]:
    """Give the modules of the process, and the classes that they hold, with their names."""
    for name, module in list(sys.modules.items()):
        # The class itself is asked: `isinstance` may run code of a proxy.
        if not issubclass(type(module), ModuleType) or name.partition(".")[0] == _OURS:
            continue
        yield name, module
        for own, value in list(_names_of(module).items()):
            if issubclass(type(value), type) and _module_of(cast("type", value)) == name:
                yield f"{name}.{own}", value


def _module_of(cls: type) -> str:
    # A metaclass may have a property of this name.
    name = type.__getattribute__(cls, "__module__")
    return name if isinstance(name, str) else ""


def _names_of(owner: Any) -> dict[str, object]:
    found: dict[str, object] = (
        ModuleType.__getattribute__(owner, "__dict__")
        if isinstance(owner, ModuleType)
        else type.__getattribute__(owner, "__dict__")
    )
    return found


def _made(function: FunctionType) -> tuple[object, ...]:
    """Say how a function is made; its code only where the interpreter has entries for functions."""
    code = function.__code__ if _HAS_ENTRIES else None
    signature = function.__code__.co_varnames, function.__code__.co_flags
    parts = function.__defaults__, function.__closure__, dict(function.__dict__)
    return (code, *signature, *parts, function.__name__, function.__qualname__)


def verify_process(before: ProcessState | None = None) -> list[str]:
    """List what is not as it was before, a line for each difference.

    Without a state to compare with, list what cotan can have left behind: its objects in modules
    and classes of others, functions that are not what their copies say, and overrides without an
    entry. New modules, and new names, are not listed: a program may have made them.

    >>> import cotan as ct
    >>> ct.debug.verify_process()
    []
    """
    found = list(_ours_elsewhere())
    found += [f"{name} is overridden but has no entry" for name in verify_entries()]
    for function, copy in originals():
        if not _is_equal(_without_code(function), _without_code(copy)):
            found.append(f"{_shown(function)} has other names, defaults or attributes")
    if before is not None:
        found += _differences(before, process_state())
    return found


def _without_code(function: FunctionType) -> tuple[object, ...]:
    return _made(function)[1:]


def _shown(function: FunctionType) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _ours_elsewhere() -> Iterator[str]:
    """Find stand-ins of cotan's in modules, classes and functions of others."""
    for name, owner in _owners():
        if _module_of(type(owner)).partition(".")[0] == _OURS:
            yield f"{name} has the class {type(owner).__name__}"
        for own, value in list(_names_of(owner).items()):
            kind = type(value)
            is_bypass = _module_of(kind) == "cotan._core" and kind.__name__ == "Bypass"
            if issubclass(kind, _core.OverrideFunction) or is_bypass:
                yield f"{name}.{own} is {kind.__name__} of cotan's"


def _differences(before: ProcessState, now: ProcessState) -> Iterator[str]:
    for name, (kind, held) in before.names.items():
        if name not in now.names:
            continue
        kind_now, held_now = now.names[name]
        if kind is not kind_now:
            yield f"{name} is of class {kind_now.__name__}, which was {kind.__name__}"
        for own, value in held.items():
            if _is_bookkeeping(name, own):
                continue
            if own not in held_now:
                yield f"{name}.{own} is gone"
            elif held_now[own] is not value and not _are_data(value, held_now[own]):
                yield f"{name}.{own} is another object"
    for identity, (function, made) in before.functions.items():
        after = now.functions.get(identity)
        if after is not None and not _is_equal(after[1], made):
            yield f"{_shown(function)} is made otherwise"
    if before.finders != now.finders:
        yield "sys.meta_path or sys.path_hooks has changed"


# What a module counts, remembers and measures is its own business.
_DATA = (bool, bytes, float, int, str, tuple, type(None))


def _are_data(before: object, now: object) -> bool:
    return type(before) in _DATA and type(now) in _DATA


def _is_bookkeeping(owner: str, name: str) -> bool:
    """Say whether a name is the interpreter's own bookkeeping: the last error, the locks."""
    if owner == "sys":
        return name.startswith("last_")
    if owner == "threading":
        # A child process after a fork begins with new locks.
        return name.startswith(("_active", "_shutdown_lock"))
    return name in {
        "_",
        "__warningregistry__",
        "__annotations__",
        "__abstractmethods__",
        "_abc_impl",
    }


def _is_equal(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Compare without asking arrays among defaults whether they are equal."""
    return all(a is b or _same(a, b) for a, b in zip(one, other, strict=True))


def _same(a: object, b: object) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(a[key] is b[key] for key in a)
    plain = (int, str, tuple)
    if isinstance(a, plain) and isinstance(b, plain) and not isinstance(a, np.generic):
        return a == b
    return False
