"""What guards have to know of objects of particular kinds: tables, caches, what stands for others.

Collected by `state.guards`, which says what is guarded at all.
"""

import builtins
import ctypes
import functools
import gc
import io
import logging
import os
import sys
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MappingView
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._src.runtime.libraries import Trait, libraries_with
from cotan._src.state.object_graph import GUARDED_VALUES, cell_edges
from cotan._src.state.reached_names import Names, is_installed, is_library
from cotan._src.typing import NDArray

#: Functions, methods and partial functions.
CALLABLES = (functools.partial, MethodType, FunctionType)
_ATOMS = (float, int, str, bool, complex, bytes, type(None), np.generic)
_KEEPERS = libraries_with(Trait.KEEPS_OBJECTS)
#: Classes of attributes that user code sets on a library's module.
VALUES = (float, int, str, bool, complex, np.generic, np.ndarray, list, dict, tuple,
           FunctionType)  # fmt: skip
#: Collections whose items are compared.
CONTAINERS = (set, frozenset, deque, array, bytearray)
#: Methods of C.
BUILTIN = (BuiltinFunctionType, MethodWrapperType)
#: The code of functions that read the environment.
READ_ENVIRONMENT = {f.__code__ for f in (os.getenv, os.path.expanduser, os.path.expandvars)}
# The base classes of `c_double` and the like, and of pointers.
_SIMPLE_C_DATA = ctypes.c_double.__mro__[1:2]
_POINTER: Any = ctypes.POINTER(ctypes.c_double).__mro__[1]
#: The class of what `functools.cache` and `lru_cache` make.
CACHE: Any = type(functools.cache(lambda: None))


def is_atom(cls: type) -> bool:
    """Say whether instances of a class are numbers or texts, and nothing of the program's."""
    return issubclass(cls, _ATOMS) and (
        cls.__module__ in {"builtins", "numpy"} or is_installed(cls.__module__)
    )


def stands_for(value: object) -> list[object] | None:
    """Give what an object stands for, if it does for something else."""
    if isinstance(value, weakref.ref):
        return [value()]
    if isinstance(value, (staticmethod, classmethod)):
        return [value.__func__]
    if isinstance(value, np.vectorize):
        return [value.pyfunc]
    if isinstance(value, np.ufunc):
        # Only the garbage collector is told of the function that `frompyfunc` made it of.
        return [f for f in gc.get_referents(value) if callable(f)]
    if isinstance(value, MappingView):
        # Of a dictionary, or as `collections.abc` writes them for other mappings.
        return [getattr(value, "mapping" if hasattr(value, "mapping") else "_mapping", None)]
    return None


def is_keeper(cls: type) -> bool:
    """Say whether a class is a library's whose objects hold those of a program."""
    return str(cls.__module__).partition(".")[0] in _KEEPERS


def module_name(value: object) -> object:
    """Give the name of the module of a function, None for others."""
    return getattr(value, "__module__", None) if isinstance(value, FunctionType) else None


_TABLES = {
    ("pandas", "DataFrame"),
    ("pandas", "Series"),
    ("xarray", "DataArray"),
    ("xarray", "Dataset"),
}


def is_table(value: object) -> bool:
    """Say whether an object is a table of pandas or xarray, and of no class derived from it."""
    cls = type(value)
    library, name = cls.__module__.partition(".")[0], cls.__name__
    return (library, name) in _TABLES or (library == "pandas" and name.endswith("Index"))


def content(table: Any) -> tuple[object, ...]:
    """Give what a table holds, as objects that are compared by value."""
    if type(table).__name__ == "DataFrame":
        columns = [table.iloc[:, i].to_numpy() for i in range(table.shape[1])]
        return tuple(map(_elements, (table.columns.to_numpy(), table.index.to_numpy(), *columns)))
    if type(table).__name__.endswith("Index"):
        return tuple(table.names), _elements(table.to_numpy())
    if type(table).__name__ == "Series":
        return table.name, _elements(table.index.to_numpy()), _elements(table.to_numpy())
    is_array = type(table).__name__ == "DataArray"
    parts = [("", table), *table.coords.items()] if is_array else table.variables.items()
    return tuple((name, x.dims, x.shape, _elements(x.to_numpy())) for name, x in parts)


def _elements(array: NDArray) -> tuple[object, ...]:
    is_of_objects = array.dtype == object
    return tuple(array.ravel().tolist()) if is_of_objects else (str(array.dtype), array.tobytes())


class LiveValue:
    """Replaces an owner whose guarded value is computed: every attribute of it is that value."""

    def __init__(self, read: Callable[[], object]) -> None:
        self._read = read

    def __getattr__(self, name: str) -> object:
        return self._read()


def unseen_containers(roots: Iterable[object]) -> Iterator[object]:
    """Give the sets and buffers in arguments: they are no leaves, and may change."""
    return (x for x in objects_in(roots) if isinstance(x, (set, array, bytearray)))


def objects_in(roots: Iterable[object]) -> Iterator[object]:
    """Give the objects in arguments, and in what they hold, but for numbers and arrays."""
    waiting, seen = list(roots), set[int]()
    while waiting and len(seen) < GUARDED_VALUES:
        value = waiting.pop()
        if (
            is_atom(type(value))
            or isinstance(value, (np.ndarray, _core.Array))
            or id(value) in seen
        ):
            continue
        seen.add(id(value))
        if isinstance(value, _core.Const):
            waiting.append(value.value)
            continue
        yield value
        if isinstance(value, (list, tuple, deque)):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
        elif not isinstance(value, (type, ModuleType, set, array, bytearray, *CALLABLES)):
            waiting += getattr(value, "__dict__", {}).values()


def name_of(value: object) -> str:
    """Give a name for an object, as messages call it."""
    if isinstance(value, ModuleType):
        # Its own `__getattr__` is not asked.
        return f"module {vars(value).get('__name__')}"
    return str(getattr(value, "__qualname__", None) or f"{type(value).__qualname__} object")


def numbered(value: Any, items: Iterable[object]) -> Iterable[tuple[object, object]]:
    """Give the items of a collection with their keys."""
    is_mapping = isinstance(value, (dict, MappingProxyType))
    return zip(list(value), items, strict=False) if is_mapping else enumerate(items)


class FillingIn:
    """Says whether what was missing has come to be, apart from what the recording itself fills in.

    A recording may import a module, or compute what a `cached_property` keeps. Its guards were
    collected before. So it counts as missing as long as the collector lives, and the next call
    records anew, with guards on what is there.
    """

    def __init__(self, collector: object, is_there: Callable[[], bool]) -> None:
        self._collector = weakref.ref(collector)
        self._is_there = is_there

    def __getattr__(self, name: str) -> bool:
        return self._collector() is None and self._is_there()


class Keys:
    """The keys of a dictionary; those that a recording itself adds come with the next call."""

    def __init__(self, collector: object, members: dict[str, object]) -> None:
        self._collector = weakref.ref(collector)
        self._before, self._now = list(members), members

    def __len__(self) -> int:
        return len(self._now if self._collector() is None else self._before)

    def __iter__(self) -> Iterator[str]:
        return iter(self._now if self._collector() is None else self._before)


class CacheClears:
    """Counts how often an `lru_cache` was seen to be cleared: every attribute is that number.

    Entries that are added do not count, nor do those that are dropped because it is full.
    """

    def __init__(self, cache: Any) -> None:
        found = [d for d in gc.get_referents(cache) if type(d) is dict and d is not vars(cache)]
        self._entries: dict[object, object] = found[0] if found else {}
        self._longest = vars(cache)["cache_parameters"]()["maxsize"]
        self._count = 0
        self._first: object = None
        self._clears = 0

    def __getattr__(self, name: str) -> int:
        first, count = next(iter(self._entries.values()), None), len(self._entries)
        if count < self._count or (
            first is not self._first and self._count and count != self._longest
        ):
            self._clears += 1
        self._first, self._count = first, count
        return self._clears


def is_bound(cell: CellType) -> bool:
    """Say whether a variable of an enclosing function has a value."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def is_defined(name: str, variables: dict[str, Any]) -> bool:
    """Say whether code with these globals finds a variable."""
    return name in variables or name in vars(builtins)


def may_be_own(module: str) -> bool:
    """Say whether a module that is not loaded may be the program's."""
    top = module.partition(".")[0]
    return not is_library(top) and not (top in sys.modules and is_installed(top))


def is_loaded(module: str) -> bool:
    """Say whether a module of the program's has been imported."""
    return module in sys.modules and not is_installed(module)


def functions_in(functions: Iterable[object]) -> list[int]:
    """Give the identities of functions, and of those that a library's wrappers call."""
    found: dict[int, FunctionType] = {}
    waiting = list(functions)
    while waiting:
        function = waiting.pop()
        if isinstance(function, functools.partial):
            waiting.append(function.func)
        elif isinstance(function, MethodType):
            waiting.append(function.__func__)
        elif isinstance(function, FunctionType) and id(function) not in found:
            found[id(function)] = function
            if is_library(function.__globals__.get("__name__")):
                waiting += [edge.value for edge in cell_edges(function)]
    return list(found)


#: What the state of an object is, and what reads it.
State: TypeAlias = tuple[str, Callable[[], object]]


def state_of(value: object, source: str) -> State | None:
    """Give the state of an object that has nothing else to be guarded."""
    # The methods of a table lead to most of pandas, and writes may give it other memory.
    return (f"the table {source}", lambda: content(value)) if is_table(value) else None


def state_besides(value: Any, names: Names, source: str) -> State | None:
    """Give the state that an object has besides its attributes."""
    description = f"a {type(value).__name__}"
    if isinstance(value, (memoryview, ctypes.Array, ctypes.Structure, *_SIMPLE_C_DATA)):
        buffer: Any = value
        return description, lambda: bytes(memoryview(buffer))
    if isinstance(value, _POINTER):
        return description, lambda: bytes(memoryview(value.contents)) if value else None
    if type(value).__module__ == "decimal" and type(value).__name__ == "Context":
        return f"the settings of {source}", functools.partial(_settings_of, value)
    if isinstance(value, logging.Logger) and names & {"getEffectiveLevel", "isEnabledFor"}:
        return f"the level of {source}", functools.partial(_level_of, value)
    return None


def _level_of(logger: logging.Logger) -> int:
    return max(logger.getEffectiveLevel(), logger.manager.disable + 1)


def _settings_of(context: Any) -> tuple[object, ...]:
    settings = context.prec, context.rounding, context.Emin, context.Emax, context.clamp
    return *settings, *context.traps.values()


def place_in(file: io.IOBase) -> int | bool:
    """Give the place where a file is read, True for one that is closed."""
    return file.closed or file.tell()
