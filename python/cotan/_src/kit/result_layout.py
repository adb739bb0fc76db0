"""Takes the result of a library function apart into arrays and what surrounds them.

Problem: `solve_ivp` gives an object with arrays, counts and messages. A replay computes arrays and
numbers; the object is made of them and of a `Layout`, which says where they belong and contains
what has to be the same in each replay.
"""

import enum
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from cotan._core import Array
from cotan._src.runtime.dtypes import DTYPES
from cotan._src.runtime.values import is_array
from cotan._src.typing import AnyArray

_CONSTANTS = (str, bytes, type(None), type(...), np.dtype, type, enum.Enum, slice, range)
# What an object may derive from, to be made from its attributes alone.
_BASES = {object, dict, list, tuple}
# A class that was created by a class statement has this bit in `__flags__`.
_HEAP_TYPE = 1 << 9


class NotRepeatableError(Exception):
    """A call does what a replay cannot repeat."""


class Layout(NamedTuple):
    """The structure of a result, without its numbers; equal to that of another result like it."""

    #: Nested tuples, see `_Parts`.
    parts: Any
    #: For each number or array: "array", or the "scalar" of NumPy or the "number" of Python.
    ranks: tuple[str, ...]

    def places(self) -> Any:
        """Give where arrays and numbers are: equal for results of other classes or constants."""
        return _places(self.parts)


def _places(parts: Any) -> Any:
    if parts[0] == "constant":
        return "constant"
    if parts[0] != "object":
        return parts
    _, cls, items, names, inner = parts
    if issubclass(cls, dict):
        items = tuple((key, _places(item)) for key, item in items)
    else:
        items = tuple(map(_places, items))
    return items, names, tuple(map(_places, inner))


def take_apart(result: object, known: Sequence[Array] = ()) -> tuple[list[AnyArray], Layout]:
    """Give the arrays and numbers in a result, and where they are in it.

    Those in `known` are given themselves, others perhaps as copies. Raises `NotRepeatableError` for
    a result with a state: functions, iterators, files.
    """
    taken = _Parts(known)
    parts = taken.of(result)
    return taken.leaves, Layout(parts, tuple(taken.ranks))


def put_together(layout: Layout, leaves: Sequence[Array]) -> Any:
    """Make a result of its arrays and numbers."""
    return _made(layout.parts, iter(leaves), [])


class _Parts:
    """Collects the leaves of a result.

    Its structure is `("leaf",)`, `("constant", class, value)`, `("again", n)` for the object that
    was taken apart as the nth, or `("object", class, items, names, attributes)`.
    """

    def __init__(self, known: Sequence[Array]) -> None:
        self._known = {id(x) for x in known}
        self.leaves: list[AnyArray] = []
        self.ranks: list[str] = []
        # The number of each object by its identity, None while its parts are visited.
        self._numbers: dict[int, int | None] = {}
        self._alive: list[object] = []

    def of(self, value: Any) -> Any:
        """Give the structure of a value."""
        kind = type(value)
        if kind is np.ndarray and _is_known(value.dtype):
            return self._leaf(value, "array")
        if kind is str or value is None:
            return "constant", kind, value
        if is_array(value):
            # The copy reads it, where the call is watched.
            copy = value if id(value) in self._known else value.copy()
            return self._leaf(copy, value._rank)
        if isinstance(value, np.generic) and _is_known(value.dtype):
            return self._leaf(np.asarray(value), "scalar")
        if kind in {bool, int, float, complex}:
            array = np.asarray(value)
            if not _is_known(array.dtype):
                raise NotRepeatableError
            return self._leaf(array, "number")
        if isinstance(value, _CONSTANTS):
            return "constant", kind, value
        return self._object(value)

    def _leaf(self, value: AnyArray, rank: str) -> Any:
        self.leaves.append(value)
        self.ranks.append(rank)
        return ("leaf",)

    def _object(self, value: Any) -> Any:
        if id(value) in self._numbers:
            number = self._numbers[id(value)]
            if number is None:
                raise NotRepeatableError  # It contains itself.
            return "again", number
        self._numbers[id(value)] = None
        self._alive.append(value)
        cls = type(value)
        if any(base not in _BASES and not _is_plain(base) for base in cls.__mro__):
            raise NotRepeatableError
        items: Any = ()
        if isinstance(value, dict):
            items = tuple((key, self.of(item)) for key, item in dict.items(value))
        elif isinstance(value, (list, tuple)):
            items = tuple(map(self.of, value))
        attributes = getattr(value, "__dict__", {})
        inner = tuple(map(self.of, attributes.values()))
        if cls not in _BASES and not inner and not isinstance(value, (dict, list, tuple)):
            raise NotRepeatableError  # Nothing is known of it.
        self._numbers[id(value)] = sum(n is not None for n in self._numbers.values())
        return "object", cls, items, tuple(attributes), inner


@functools.lru_cache(64)
def _is_known(dtype: np.dtype[Any]) -> bool:
    # The name takes as long to make as all else that is asked of an array.
    return dtype.name in DTYPES


def _is_plain(cls: type) -> bool:
    """Say whether instances of a class contain nothing but attributes."""
    return (
        bool(cls.__flags__ & _HEAP_TYPE)
        and not cls.__dict__.get("__slots__")
        and not hasattr(cls, "__next__")
        and cls.__module__ not in {"builtins", "types", "io", "_io", "threading"}
    )


def _made(parts: Any, leaves: Iterator[Array], objects: list[Any]) -> Any:
    sort = parts[0]
    if sort == "leaf":
        return next(leaves)
    if sort == "constant":
        return parts[2]
    if sort == "again":
        return objects[parts[1]]
    _, cls, items, names, inner = parts
    if issubclass(cls, dict):
        made = cls.__new__(cls)
        for key, item in items:
            dict.__setitem__(made, key, _made(item, leaves, objects))
    elif issubclass(cls, tuple):
        made = tuple.__new__(cls, [_made(item, leaves, objects) for item in items])
    else:
        made = cls.__new__(cls)
        if issubclass(cls, list):
            list.extend(made, [_made(item, leaves, objects) for item in items])
    for name, item in zip(names, inner, strict=True):
        vars(made)[name] = _made(item, leaves, objects)
    objects.append(made)
    return made
