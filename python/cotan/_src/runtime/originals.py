"""Functions and classes of libraries as they were before cotan changed or copied them.

A function that is overridden remains the object that it is. Rules that need the library's own
computation call a copy of it, which has the original's code, names, defaults and closure, and no
entry of cotan's. Rebound functions and classes are copies with our names in them.
"""

import functools
from types import FunctionType
from typing import Any, TypeVar

_F = TypeVar("_F")

# Copies by the function's identity; with the function, to keep it alive.
_ORIGINALS: dict[int, tuple[FunctionType, FunctionType]] = {}


# What rebound functions and classes were made from, by their identity; these live for ever.
_SOURCES: dict[int, Any] = {}


def note_rebound(copy: object, source: Any) -> None:
    """Note what a rebound function or class was made from."""
    _SOURCES[id(copy)] = source


def rebound_from(copy: object) -> Any:
    """Give what a rebound function or class was made from, None for anything else."""
    return _SOURCES.get(id(copy))


def keep_original(function: FunctionType) -> FunctionType:
    """Keep a copy of a function as it is now, unless there is one."""
    known = _ORIGINALS.get(id(function))
    if known is not None:
        return known[1]
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    attributes = (*functools.WRAPPER_ASSIGNMENTS,)
    functools.update_wrapper(copy, function, attributes)
    vars(copy).pop("__wrapped__", None)
    vars(copy).update(vars(function))
    return _ORIGINALS.setdefault(id(function), (function, copy))[1]


def original_of(function: _F) -> _F:
    """Give a function as the library has it: itself, unless its entry leads to cotan."""
    kept: Any = _ORIGINALS.get(id(function))
    return function if kept is None else kept[1]


def originals() -> list[tuple[FunctionType, FunctionType]]:
    """Give the functions whose entry leads to cotan, with their copies."""
    return list(_ORIGINALS.values())
