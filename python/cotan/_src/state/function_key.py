"""Tells whether a function computes the same as one that was recorded before: `key_of`.

Problem: a fit calls a solver a hundred times, each time with a new function of the same code, and
each time its derivatives are recorded anew. A formula of numbers and arrays that it captures needs
that once. Its key has all that such a function depends on: the code, and what it captures, but for
the values of active arrays, which are inputs of the program. Functions that may do anything else
(keep state, read objects of user code, draw numbers, print) have no key.
"""

import gc
import math
from collections.abc import Hashable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from cotan._core import Array
from cotan._src.runtime.values import is_active, to_numpy
from cotan._src.state.library_names import NamesRead, is_of_library, names_read, put_on

# Arrays of more bytes together are not compared.
_MAX_BYTES = 1 << 16
# Collections of more items are not compared.
_MAX_ITEMS = 64
# Functions with more objects behind them have no key.
_MAX_PARTS = 1_000
_NUMBERS = frozenset({float, np.float64})
_ATOMS = frozenset({int, bool, str, bytes, type(None), np.int64, np.bool_})


class FunctionKey(NamedTuple):
    """What functions depend on, but for the values of `leaves`."""

    key: Hashable
    #: The active arrays that they reach, each once.
    leaves: list[Array]
    #: The identity of the code of the first function.
    code: int
    #: What `key` names by identity; it holds as long as these are kept alive.
    kept: list[object]
    #: Arrays, lists and dictionaries that they reach and could write to.
    written: list[Any]


def key_of(*values: object) -> FunctionKey | None:
    """Give the key of functions and their arguments; None where they may depend on more."""
    made = _Keys()
    try:
        key = tuple(map(made.of, values))
    except _NoKeyError:
        return None
    return FunctionKey(key, made.leaves, made.code, made.kept, made.written)


class _NoKeyError(Exception):
    """Something has no key."""


class _Keys:
    def __init__(self) -> None:
        self.leaves: list[Array] = []
        self.kept: list[object] = []
        self.written: list[Any] = []
        self.code = 0
        # The number of each object, and whether copies of the function share it.
        self._seen: dict[int, tuple[int, bool]] = {}
        self._is_shared = False
        self._bytes = self._count = 0

    def of(self, value: Any) -> Hashable:
        kind = type(value)
        self._count += 1
        if self._count > _MAX_PARTS:
            raise _NoKeyError
        if kind in _NUMBERS:
            # Zeros with different signs are equal, and not the same.
            return (kind, value) if value else (kind, value, math.copysign(1.0, value))
        if kind in _ATOMS:
            return kind, value
        if id(value) in self._seen:
            number, is_shared = self._seen[id(value)]
            if self._is_shared and not is_shared:
                # A copy would have two of it.
                raise _NoKeyError
            return "again", number
        self._seen[id(value)] = len(self._seen), self._is_shared
        if kind is FunctionType:
            return self._function(value)
        # Proxies are not asked for their class.
        if issubclass(kind, Array):
            return self._leaf(value)
        if kind is np.ndarray:
            if value.flags.writeable:
                self.written.append(value)
            return self._array(value)
        if kind is np.ufunc:
            # What `frompyfunc` made of a function may do anything.
            if any(map(callable, gc.get_referents(value))):
                raise _NoKeyError
            self.kept.append(value)
            return "ufunc", id(value)
        return self._collection(kind, value)

    def _leaf(self, value: Array) -> Hashable:
        if value.dtype != np.float64:
            raise _NoKeyError
        if value._writeable:
            self.written.append(value)
        if not is_active(value):
            return "constant", value._rank, self._array(np.asarray(to_numpy(value)))
        self.leaves.append(value)
        return "active", value._rank, value.shape

    def _collection(self, kind: type, value: Any) -> Hashable:
        if kind not in {tuple, list, dict} or len(value) > _MAX_ITEMS:
            raise _NoKeyError
        if kind is not tuple:
            self.written.append(value)
        if kind is not dict:
            return kind, *map(self.of, value)
        if not _ATOMS.issuperset(map(type, value)):
            raise _NoKeyError
        # 1 and True are one key of a dictionary, and not the same.
        return kind, *map(self.of, value), *map(self.of, value.values())

    def _array(self, array: Any) -> Hashable:
        self._bytes += array.nbytes
        if array.dtype.kind not in "biufc" or self._bytes > _MAX_BYTES:
            raise _NoKeyError
        return array.dtype.str, array.shape, array.strides, array.tobytes()

    def _function(self, function: FunctionType) -> Hashable:
        if function.__dict__:
            raise _NoKeyError
        try:
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
        except ValueError:
            raise _NoKeyError from None  # a variable without a value yet
        code = function.__code__
        self.code = self.code or id(code)
        given = function.__defaults__, function.__kwdefaults__
        of = id(code), *map(self.of, given), *map(self.of, cells)
        read = names_read(function)
        if read is None or not read.is_computing:
            raise _NoKeyError
        self.kept.append(read)
        found = function.__globals__
        others = (self._global(found[name], read) for name in read.others)
        return *of, read.key, *read.others, *others

    def _global(self, value: Any, read: NamesRead) -> Hashable:
        if type(value) is ModuleType and is_of_library(value):
            self.kept.append(value)
            found = put_on(value, frozenset(read.names + read.others))
            return id(value), *((name, self.of(put)) for name, put in found)
        if type(value) is not np.ufunc and is_of_library(value):
            self.kept.append(value)
            return id(value)
        if issubclass(type(value), (ModuleType, type, BuiltinFunctionType, type(np.sum))):
            raise _NoKeyError
        return self._constant(value)

    def _constant(self, value: Any) -> Hashable:
        """Give the key of what copies of the function share, and so cannot have leaves."""
        count, before = len(self.leaves), self._is_shared
        self._is_shared = True
        key = self.of(value)
        self._is_shared = before
        if len(self.leaves) > count:
            raise _NoKeyError
        return key
