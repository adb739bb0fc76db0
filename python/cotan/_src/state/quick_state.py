"""The state that simple functions can change, found without a walk: `QuickState`.

Problem: most functions that a solver calls are a formula of numbers and arrays that they capture.
The walk that finds every object that may be written to (`state.snapshot`) takes longer than SciPy
takes for the root of such a function. Here a function is looked through that assigns to none of its
captured or global variables and to no attribute, and reaches nothing but numbers, arrays, plain
collections of them, libraries, and functions of the same kind. Then only elements of arrays and
items of collections can change.
"""

import functools
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.call_site import assigns_captured
from cotan._src.runtime.libraries import UNRESTORED_LIBRARIES
from cotan._src.state.buffers import ArraySlot, SmallBuffer, is_writeable
from cotan._src.state.library_names import LEADS_FAR
from cotan._src.state.object_graph import ATOMS, CodeNames

# Arrays of more bytes together are left to snapshots.
_MAX_BYTES = 1 << 20
# Collections of more items are left to snapshots.
_MAX_ITEMS = 64
_CALLABLES = (np.ufunc, BuiltinFunctionType, type(np.sum))


class QuickState:
    """What arrays and plain collections held when it was made."""

    def __init__(self) -> None:
        self._seen: dict[int, object] = {}
        self._bytes = 0
        self._arrays: list[tuple[SmallBuffer, Any]] = []
        self._lists: list[tuple[list[Any], list[Any]]] = []
        self._dicts: list[tuple[dict[Any, Any], list[Any], list[Any]]] = []

    @classmethod
    def of(cls, *values: object) -> "QuickState | None":
        """Give the state that functions, arguments and collections reach; None for another way."""
        made = cls()
        return made if all(map(made._add, values)) else None

    def has_changed(self) -> bool:
        """Say whether anything differs from when it was found."""
        return any(True for _ in self._changes())

    def restore(self) -> bool:
        """Put back what has changed, and touch nothing else; says whether anything had."""
        changes = list(self._changes())
        for put_back in changes:
            put_back()
        return bool(changes)

    def _changes(self) -> Iterator[Callable[[], object]]:
        """Give, for each object that differs from when it was found, what puts it back."""
        for items, was in self._lists:
            if not _core.same_items(items, was):
                yield functools.partial(items.__setitem__, slice(None), was)
        for into, keys, values in self._dicts:
            is_same = _core.same_items(list(into), keys)
            if not is_same or not _core.same_items(list(into.values()), values):
                yield functools.partial(_fill, into, keys, values)
        for slot, saved in self._arrays:
            if not slot.matches(saved):
                yield functools.partial(slot.restore, saved)

    def _add(self, value: Any) -> bool:
        kind = type(value)
        if kind in ATOMS or id(value) in self._seen:
            return True
        self._seen[id(value)] = value
        if kind is FunctionType:
            return self._add_function(value)
        # Proxies are not asked for their class.
        if kind is np.ndarray or issubclass(kind, Array):
            return self._add_written(value)
        if kind is tuple:
            return len(value) <= _MAX_ITEMS and all(map(self._add, value))
        if kind is list or kind is dict:
            self._add_written(value)
            items = value if kind is list else (*value, *value.values())
            return len(value) <= _MAX_ITEMS and all(map(self._add, items))
        if _is_bare(kind):  # type: ignore[arg-type]
            # Its attributes are SciPy's affair, but not what these are.
            return all(map(self._add, object.__getattribute__(value, "__dict__").values()))
        return issubclass(kind, _CALLABLES) and getattr(value, "__self__", None) is None

    def _add_function(self, function: FunctionType) -> bool:
        # Such as those that make an event of it.
        if function.__dict__ and not self._add(function.__dict__):
            return False
        if not self._add(function.__defaults__) or not self._add(function.__kwdefaults__):
            return False
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:
                return False  # a variable without a value yet
            if not self._add(content):
                return False
        read = _core.names_read(function)
        names = _names_of(function.__code__) if read is None else read.others
        found = function.__globals__
        return names is not None and all(
            self._is_fine(found[name]) for name in names if name in found
        )

    def _is_fine(self, value: Any) -> bool:
        """Say whether a global variable leads to nothing else."""
        kind = type(value)
        if kind is ModuleType:
            return _is_library(value.__name__) and "random" not in value.__name__
        if kind is type:
            return _is_library(value.__module__) or value.__module__ == "builtins"
        # Where it is from, not whose name a decorator has given it.
        if kind is FunctionType and _is_library(value.__globals__.get("__name__")):
            return True
        owner = getattr(value, "__self__", None) if kind is BuiltinFunctionType else None
        return type(owner) is ModuleType or self._add(value)

    def _add_written(self, value: Any) -> bool:
        kind = type(value)
        if kind is list:
            self._lists.append((value, value[:]))
        elif kind is dict:
            self._dicts.append((value, list(value), list(value.values())))
        elif kind is np.ndarray:
            return self._add_memory(value)
        else:
            return self._add_array(value)
        return True

    def _add_memory(self, array: np.ndarray) -> bool:
        self._bytes += array.nbytes
        if array.dtype.hasobject or self._bytes > _MAX_BYTES:
            return False
        if is_writeable(array):
            # Memory of a compiled solver may be gone when it is compared.
            if array.base is not None and type(array.base) is not np.ndarray:
                return False
            slot = SmallBuffer(array)
            self._arrays.append((slot, slot.read(True)))
        return True

    def _add_array(self, array: Array) -> bool:
        if array._writeable:
            self._bytes += array.nbytes
            if self._bytes > _MAX_BYTES or _core.is_traced(array):
                return False
            slot = ArraySlot(array)
            self._arrays.append((slot, slot.read(True)))
        return True


def _fill(into: dict[Any, Any], keys: list[Any], values: list[Any]) -> None:
    into.clear()
    into.update(zip(keys, values, strict=True))


class _WithAttributes:
    """What an instance looks like that has attributes in a dictionary and nothing else."""


@functools.lru_cache(1024)
def _is_bare(kind: type) -> bool:
    """Say whether objects of a class are attributes that SciPy has set, and nothing else."""
    is_of_scipy = str(kind.__module__).startswith("scipy.")
    return (
        is_of_scipy
        and kind.__basicsize__ == _WithAttributes.__basicsize__
        and (kind.__dictoffset__ == _WithAttributes.__dictoffset__)
    )


@functools.lru_cache(4096)
def _is_library(home: object) -> bool:
    return str(home).partition(".")[0] in UNRESTORED_LIBRARIES


@functools.lru_cache(4096)
def _names_of(code: CodeType) -> tuple[str, ...] | None:
    """Give the names that code refers to, None if it may change what is not looked at here."""
    found = CodeNames.of(code)
    if found.assigned or found.sets_attributes or assigns_captured(code):
        return None
    return None if not LEADS_FAR.isdisjoint(found.mentioned) else tuple(found.names)
