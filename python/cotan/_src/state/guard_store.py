"""Holds the guards of a prepared function while they are collected: `GuardStore`.

Problem: one object is reached in many ways, and is to be guarded once; what the compiled module
cannot read itself (an environment, a place in a file) is guarded by way of an object that reads it.
"""

import builtins
import functools
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from cotan._src.state.class_members import members_of_class
from cotan._src.state.code_facts import globals_used
from cotan._src.state.guarded_kinds import (
    BUILTIN,
    CALLABLES,
    FillingIn,
    Keys,
    LiveValue,
    is_atom,
    is_bound,
    is_defined,
)
from cotan._src.state.object_graph import Edge, EdgeKind
from cotan._src.state.reached_names import CONSTRUCTORS, Names


class GuardStore:
    """The guards, each once, and the objects that are still to be visited for more."""

    def __init__(self, source: str) -> None:
        #: For each guard the owner, the key in it (empty for a collection), the value now, the
        #: identity of the function whose code reads it, and the source.
        self.found: list[tuple[object, str, object, int, str]] = []
        self._guarded: set[tuple[int, str]] = set()
        # Keeps objects alive, so that an identity is not reused.
        self._alive: list[object] = []
        # What is guarded by way of another object.
        self._stand_ins: dict[tuple[int, str], object] = {}
        # The identity of the function whose code is visited, and the source of what is visited.
        self._reader, self._source = 0, source
        # Members that classes lack: who reads them, and the source.
        self._absent: dict[tuple[type, str], tuple[int, str]] = {}
        # What is still to be visited: the object, names, the reader. Functions come first: an
        # object is then visited once, with the names of all of them.
        self._functions: list[tuple[object, Names, int]] = []
        self._others: OrderedDict[int, tuple[object, Names, int]] = OrderedDict()
        # The source of each object by its identity.
        self._sources: dict[int, str] = {}
        #: Functions of C that were reached, and methods of objects.
        self.builtins: list[object] = []
        # The attributes that visited code assigns to.
        self._assigned: Names = frozenset()

    def _guard(self, owner: object, key: str, value: object, source: str | None = None) -> None:
        # Owners are in `found`, so that their identities are theirs alone.
        if (id(owner), key) not in self._guarded:
            self._guarded.add((id(owner), key))
            self.found.append((owner, key, value, self._reader, source or self._source))

    def _guard_computed(self, owner: object, description: str, read: Callable[[], object]) -> None:
        self._guard_live(owner, description, LiveValue(read), description)

    def _guard_filling(self, owner: object, key: str, is_there: Callable[[], bool]) -> None:
        """Guard that something is missing, which the function itself may fill in."""
        source = key if " " in key else f"{self._source}.{key}"
        self._guard_live(owner, source, FillingIn(self, is_there), source)

    def _guard_live(self, owner: object, key: str, live: object, source: str) -> None:
        """Guard what is read anew as an attribute of `live`."""
        if (id(owner), key) not in self._guarded:
            self._guarded.add((id(owner), key))
            self._alive.append(owner)
            self.found.append((live, key, getattr(live, key), self._reader, source))

    def _guard_argument(self, container: Any) -> None:
        """Guard what a set or a buffer among the arguments holds."""
        source = f"a {type(container).__qualname__} among the arguments"
        self._reader = 0
        if isinstance(container, set):
            self._guard(container, "", list(container), source)
        else:
            self._guard_computed(container, source, lambda: bytes(memoryview(container)))

    def _guard_absent_member(self, owner: type, name: str, source: str) -> None:
        self._absent.setdefault((owner, name), (self._reader, source))

    def _guard_absent_members(self) -> None:
        """Guard that classes lack members, once it is known which of them the code assigns to."""
        for (owner, name), (reader, source) in self._absent.items():
            members = members_of_class(owner)
            self._reader = reader
            if name in self._assigned:
                is_there = functools.partial(members.__contains__, name)
                self._guard_live(members, source, FillingIn(self, is_there), source)
            else:
                self._guard(members, name, None, source)
        self._absent.clear()

    def _guard_keys(self, members: dict[str, object], source: str) -> None:
        """Guard which members there are, and not what they are."""
        if (id(members), "") not in self._guarded:
            self._guarded.add((id(members), ""))
            self.found.append((Keys(self, members), "", list(members), self._reader, source))

    def _guard_attribute(self, owner: Any, name: str, value: object, source: str) -> None:
        """Guard what asking an object gives, even where a guard on it is on what it holds."""
        if not isinstance(owner, (type, dict, np.ndarray)):
            self._guard(owner, name, value, source)
        elif (id(owner), name) not in self._stand_ins and type(owner).__weakrefoffset__:
            # Objects of classes with `__slots__` may have no room for weak references.
            self._stand_ins[id(owner), name] = proxy = weakref.proxy(owner)
            self._guard(proxy, name, value, source)

    def _guard_missing(self, function: FunctionType, names: Names) -> None:
        """Guard that variables that code reads, and that have no value yet, get none."""
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            if not is_bound(cell):
                read = functools.partial(is_bound, cell)
                self._guard_filling(cell, f"closure variable {name}", read)
        members, builtin = function.__globals__, vars(builtins)
        for name in sorted(globals_used(function.__code__) - members.keys() - builtin.keys()):
            is_there = functools.partial(is_defined, name, members)
            self._guard_filling(members, f"global {name}", is_there)
        if "globals" in names:
            for name in sorted(names - members.keys() - builtin.keys()):
                self._guard(members, name, None, f"global {name}")

    def _guard_builtins(self, function: FunctionType, names: Names) -> None:
        """Guard builtin functions that code calls: a global may hide one of them later."""
        known, members = vars(builtins), function.__globals__
        for name in sorted((names & known.keys()) - members.keys()):
            self._guard(members, name, None, f"global {name}")
            self._guard(known, name, known[name], f"builtin {name}")

    def _guard_environment(self) -> None:
        # Its own methods decode all of it.
        stored: dict[object, object] = vars(os.environ)["_data"]
        self._guard(stored, "", list(stored), "os.environ")
        if (id(stored), "") not in self._stand_ins:
            self._stand_ins[id(stored), ""] = stored
            self._guard(stored.values(), "", list(stored.values()), "os.environ")

    # ----------------------------------------------------------------------------------------------
    # The objects still to be visited

    def _follow(self, edges: Iterable[Edge], names: Names) -> None:
        """Guard values where they are stored, and visit them later with some names."""
        for edge in edges:
            source = self._source_of(edge)
            self._guard(edge.owner, edge.key, edge.value, source)
            self._add(edge.value, names, source)

    def _add(
        self, value: object, names: Names, source: str | None = None, is_named: bool = True
    ) -> None:
        """Let an object be visited. A class makes objects where code names it."""
        if isinstance(value, BUILTIN):
            # `get = table.get` reads the table.
            self.builtins.append(value)
            value = value.__self__
            if isinstance(value, (ModuleType, type)):
                return
        if is_atom(type(value)):
            return
        self._sources.setdefault(id(value), source or self._source)
        if is_named and isinstance(value, type):
            names |= CONSTRUCTORS
        if isinstance(value, CALLABLES):
            self._functions.append((value, names, self._reader))
            return
        waiting = self._others.get(id(value))
        if waiting is not None:
            names |= waiting[1]
        self._others[id(value)] = value, names, self._reader

    def _add_all(self, values: Iterable[object], names: Names) -> None:
        for value in values:
            self._add(value, names)

    def _source_of(self, edge: Edge) -> str:
        if edge.kind is EdgeKind.CELL:
            return f"closure variable {edge.key}"
        if edge.kind is EdgeKind.GLOBAL:
            return f"global {edge.key}"
        return f"{self._source}.{edge.key}"
