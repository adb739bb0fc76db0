"""Collects the guards of functions that are replayed unasked, and undoes recordings of them.

Problem: nobody has asked for a replay, so whether a function can be replayed must be found at a low
cost, and without a trace where it cannot. Entry point: `Attempt.of`, a recording that may come to
nothing.
"""

import functools
import sys
from collections import defaultdict
from contextvars import ContextVar
from types import FunctionType, ModuleType
from typing import Any, Self

import numpy as np

from cotan import _core
from cotan._src.state.code_facts import globals_used, modules_imported
from cotan._src.state.computing_code import (
    ATOMS,
    OPTIONS,
    home_of,
    is_array,
    is_harmless,
    is_harmless_builtin_function,
    is_harmless_variable,
    makes_generator,
    makes_texts,
    may_write,
    tells_names,
)
from cotan._src.state.guards import GuardCollector, collected
from cotan._src.state.own_functions import SUBMODULES, computes
from cotan._src.state.reached_names import Names, is_installed, is_library, mentioned
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import Args, Function

# A function with more guards, or with more items in the collections that it reaches, is run.
_MAX_GUARDS = 1_000
# Captured arrays of more bytes together are not kept for a function.
_MAX_BYTES = 1 << 20
# More leaves of arguments than that are not looked at in each call.
_MAX_LEAVES = 1_000
_IS_ATTEMPTED = ContextVar("cotan.recording_is_attempted", default=False)


def is_attempted() -> bool:
    """Say whether a recording that may come to nothing goes on: it must not warn."""
    return _IS_ATTEMPTED.get()


class ComputingGuards(GuardCollector):
    """The guards of a function that only computes, and of the functions of libraries it calls.

    Raises `TypeError` where a function may do more than compute, and where it reaches so much that
    looking at all of it would take longer than the function.
    """

    bound = _MAX_GUARDS

    def __init__(self, function: object) -> None:
        #: Whether the function may write to what it captures.
        self.may_write = True
        self._num_items = 0
        self._num_bytes = 0
        super().__init__(function)

    def _visit(self, value: Any, names: Names) -> None:
        if isinstance(value, (list, tuple, dict, set, frozenset)):
            self._num_items += len(value)
            self._expect_few(self._num_items)
            if isinstance(value, defaultdict):
                self._guard_computed(value, "default_factory", lambda: value.default_factory)
        elif isinstance(value, np.ndarray):
            self._num_bytes += value.nbytes
            if self._num_bytes > _MAX_BYTES:
                raise TypeError("prepare: the function captures large arrays")
        if not is_harmless(value):
            raise TypeError("prepare: the function may do more than compute")
        super()._visit(value, names)

    def finish(self) -> None:
        """Guard what code uses besides: functions of libraries, and how NumPy prints."""
        is_free = not self.generators and all(map(is_harmless_builtin_function, self.builtins))
        if not is_free:
            raise TypeError("prepare: the function may do more than compute")
        functions = [x for x in self.visited if isinstance(x, FunctionType)]
        own = [x for x in functions if not is_installed(home_of(x))]
        names = frozenset[str]().union(*(mentioned(x.__code__) for x in own))
        modules = [x for x in self.visited if isinstance(x, ModuleType)]
        for function in own:
            members = function.__globals__
            modules += (members[n] for n in globals_used(function.__code__) & members.keys())
            imported = modules_imported(function.__code__)
            modules += (sys.modules[n] for n in imported & sys.modules.keys())
        # The global `math` is no part of cotan.
        parts = (mentioned(x.__code__) - globals_used(x.__code__) for x in own)
        if any(map(computes, modules)) and SUBMODULES & frozenset[str]().union(*parts):
            raise TypeError("prepare: the function may do more than compute")
        self._guard_library_members(modules, names)
        self.may_write = any(may_write(x.__code__) for x in own)
        if any(map(tells_names, own)):
            for named in (x for x in self.visited if isinstance(x, (FunctionType, type))):
                if not is_installed(home_of(named)):
                    self._guard_computed(named, "names", functools.partial(_names_of, named))
        if any(map(makes_texts, functions)):
            self._reader = 0
            self._guard_computed(_print_options, "how NumPy prints", _print_options)

    def _guard_library_members(self, modules: list[Any], names: Names) -> None:
        """Guard what code names of libraries: a program may replace a function."""
        self._reader = 0
        waiting, done = list(modules), set[int]()
        while waiting:
            module = waiting.pop()
            is_met = type(module) is ModuleType and is_library(module.__name__)
            if not is_met or id(module) in done:
                continue
            done.add(id(module))
            own = vars(module)
            for name in sorted(names & own.keys()):
                value = own[name]
                kind = value if isinstance(value, type) else type(value)
                is_known = is_harmless_variable(value) and is_installed(kind.__module__)
                if value is not np.random and not is_known and not makes_generator(value):
                    raise TypeError("prepare: the function may do more than compute")
                self._guard(own, name, value, f"{module.__name__}.{name}")
                waiting.append(value)


def _names_of(value: Any) -> object:
    return value.__name__, value.__qualname__, value.__doc__


def _print_options() -> object:
    return str(np.get_printoptions())


class Attempt:
    """A recording that may come to nothing, in a `with` block: then all is as it was before.

    NumPy would warn of errors in computations with captured arrays in each run. `has_warned` says
    that there were any, of which it has not warned yet.
    """

    def __init__(self, guards: ComputingGuards, function: Function, args: Args) -> None:
        self.guards = guards
        self.has_warned = False
        # What the function cannot write to, others may have written to meanwhile.
        self._snapshot = StateSnapshot(function, *args) if guards.may_write else None

    @classmethod
    def of(cls, function: Function, args: Args) -> "Attempt | None":
        """Begin one for a function that only computes; None for any other function.

        `args` have to be numbers, arrays, and plain collections of them.
        """
        if not _are_plain(args):
            return None
        try:
            guards = collected(ComputingGuards, function, args)
            guards.finish()
        except TypeError:
            return None
        return cls(guards, function, args)

    def __enter__(self) -> Self:
        # Errors that are ignored now may be raised in another call; but underflows are common.
        modes = dict.fromkeys(np.geterr(), "call")
        if np.geterr()["under"] == "ignore":
            modes["under"] = "ignore"
        self._errors: Any = np.errstate(call=self._note, **modes)  # type: ignore[arg-type]
        self._errors.__enter__()
        self._before = _IS_ATTEMPTED.set(True)
        return self

    def __exit__(self, *error: object) -> None:
        _IS_ATTEMPTED.reset(self._before)
        self._errors.__exit__(*error)
        del self._errors  # It refers to this.

    def _note(self, *_: object) -> None:
        self.has_warned = True

    def restore(self) -> None:
        """Let the function run once more from the state before."""
        if self._snapshot is not None:
            self._snapshot.restore()


def _are_plain(args: Args) -> bool:
    """Say whether arguments are numbers, arrays and plain collections of them, and not many."""
    waiting: list[Any] = list(args)
    for _ in range(_MAX_LEAVES):
        if not waiting:
            return True
        value = waiting.pop()
        kind = type(value)
        if kind is _core.Const:
            waiting.append(value.value)
        elif kind is list or kind is tuple or kind is dict:
            if len(value) > _MAX_LEAVES or (kind is dict and not OPTIONS.isdisjoint(value)):
                return False
            waiting += value if kind is not dict else (*value, *value.values())
        elif kind not in ATOMS and not is_array(value):
            return False
    return False
