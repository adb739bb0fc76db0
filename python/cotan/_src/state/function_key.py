"""Tells whether a function computes the same as one that was recorded before: `key_of`.

Problem: a fit calls a solver a hundred times, each time with a new function of the same code, and
each time its derivatives are recorded anew. A formula of numbers and arrays that it captures needs
that once. Its key has all that such a function depends on: the code, and what it captures, but for
the values of active arrays, which are inputs of the program. Functions that may do anything else
(keep state, read objects of user code, draw numbers, print) have no key.
"""

import builtins
import functools
import gc
import math
from collections.abc import Hashable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from cotan._core import Array
from cotan._src.runtime.call_site import assigns_captured, imports_modules
from cotan._src.runtime.values import is_active, to_numpy
from cotan._src.state.object_graph import CodeNames
from cotan._src.state.quick_state import LEADS_FAR

# Arrays of more bytes together are not compared.
_MAX_BYTES = 1 << 16
# Collections of more items are not compared.
_MAX_ITEMS = 64
# Functions with more objects behind them have no key.
_MAX_PARTS = 1_000
_NUMBERS = frozenset({float, np.float64})
_ATOMS = frozenset({int, bool, str, bytes, type(None), np.int64, np.bool_})
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


class FunctionKey(NamedTuple):
    """What functions depend on, but for the values of `leaves`."""

    key: Hashable
    #: The active arrays that they reach, each once.
    leaves: list[Array]
    #: The identity of the code of the first function.
    code: int
    #: What `key` names by identity; it holds as long as these are kept alive.
    kept: list[object]


def key_of(*values: object) -> FunctionKey | None:
    """Give the key of functions and their arguments; None where they may depend on more."""
    made = _Keys()
    try:
        key = tuple(map(made.of, values))
    except _NoKeyError:
        return None
    return FunctionKey(key, made.leaves, made.code, made.kept)


class _NoKeyError(Exception):
    """Something has no key."""


class _Keys:
    def __init__(self) -> None:
        self.leaves: list[Array] = []
        self.kept: list[object] = []
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
        if not is_active(value):
            return "constant", value._rank, self._array(np.asarray(to_numpy(value)))
        self.leaves.append(value)
        return "active", value._rank, value.shape

    def _collection(self, kind: type, value: Any) -> Hashable:
        if kind not in {tuple, list, dict} or len(value) > _MAX_ITEMS:
            raise _NoKeyError
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
        names = _names_of(function.__code__)
        if names is None or function.__dict__:
            raise _NoKeyError
        found = function.__globals__
        try:
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
        except ValueError:
            raise _NoKeyError from None  # a variable without a value yet
        self.kept.append(function.__code__)
        self.code = self.code or id(function.__code__)
        given = function.__defaults__, function.__kwdefaults__
        read = [name for name in names if name in found]
        for name in (names & _BUILTINS.keys()) - found.keys():
            if name not in _PURE_BUILTINS or vars(builtins).get(name) is not _BUILTINS[name]:
                raise _NoKeyError
        return (
            id(function.__code__),
            *map(self.of, given),
            *map(self.of, cells),
            *read,
            *(self._global(found[name], names) for name in read),
        )

    def _global(self, value: Any, names: frozenset[str]) -> Hashable:
        kind = type(value)
        if kind is ModuleType:
            home: object = value.__name__
        elif kind is type:
            home = value.__module__
        elif kind is FunctionType:
            # Where it is from, not whose name a decorator has given it.
            home = value.__globals__.get("__name__")
        elif kind is BuiltinFunctionType or kind is type(np.sum):
            home = getattr(value, "__module__", None)
            if kind is BuiltinFunctionType and type(value.__self__) is not ModuleType:
                raise _NoKeyError
        else:
            return self._constant(value)
        is_builtin = home == "builtins" and kind is type and value.__name__ in _PURE_BUILTINS
        if is_builtin or _is_pure(home):
            self.kept.append(value)
            return (id(value), *self._put_on(value, names)) if kind is ModuleType else id(value)
        if kind is FunctionType:
            return self._constant(value)
        raise _NoKeyError

    def _constant(self, value: Any) -> Hashable:
        """Give the key of what copies of the function share, and so cannot have leaves."""
        count, before = len(self.leaves), self._is_shared
        self._is_shared = True
        key = self.of(value)
        self._is_shared = before
        if len(self.leaves) > count:
            raise _NoKeyError
        return key

    def _put_on(self, module: ModuleType, names: frozenset[str]) -> list[Hashable]:
        """Give what a library's module has under some names that is no function of a library.

        A program may have put it there.
        """
        members = vars(module)
        return [
            (name, self.of(value))
            for name in sorted(names & members.keys())
            if isinstance(value := members[name], _PUT)
            and not (
                isinstance(value, FunctionType) and _is_pure(value.__globals__.get("__name__"))
            )
        ]


@functools.lru_cache(4096)
def _is_pure(home: object) -> bool:
    name = str(home)
    return name.partition(".")[0] in _LIBRARIES and "random" not in name


@functools.lru_cache(4096)
def _names_of(code: CodeType) -> frozenset[str] | None:
    """Give the names that code refers to, None if it may do something besides computing."""
    found = CodeNames.of(code)
    if found.assigned or found.sets_attributes or assigns_captured(code):
        return None
    if not _IMPURE.isdisjoint(found.mentioned) or imports_modules(code):
        return None
    return frozenset(found.names)
