"""Tells whether a function only computes, so that nobody can see whether it runs.

Problem: a gradient that is asked for again and again is replayed unasked
(`prepare/automatic.rs`). A replay runs no Python, so it is right only for functions that do nothing
besides computing: they print nothing, read no clock and no file, draw no random numbers, and call
nothing that might. Guards say which functions, classes and objects the code can reach. Each of them
has to be known to be harmless here; what is not known is not. Entry point: `computing_guards`.
"""

import builtins
import enum
import functools
import inspect
import random
from abc import ABCMeta
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Self

import numpy as np

from cotan import _core
from cotan._src.runtime.call_site import Instruction, assignments, instructions
from cotan._src.runtime.dtypes import DTYPES
from cotan._src.state.code_facts import globals_used, inspected, modules_imported
from cotan._src.state.guarded_kinds import CACHE
from cotan._src.state.guards import GuardCollector, collect_guards
from cotan._src.state.library_names import IMPURE, PURE_BUILTINS, is_of_library, is_pure
from cotan._src.state.object_graph import CodeNames, cell_edges
from cotan._src.state.random_states import random_state
from cotan._src.state.reached_names import is_installed
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import Args, Function

# More guards than that are not looked at in each call unasked,
_MAX_GUARDS = 1_000
# and captured arrays of more bytes together are not kept for a function.
_MAX_BYTES = 1 << 20
# Modules of the standard library, and libraries of pure functions, that do nothing but compute.
_COMPUTING_MODULES = frozenset({
    "autograd", "jax",
    "abc", "bisect", "cmath", "collections", "copy", "dataclasses", "enum", "fractions",
    "functools", "heapq", "itertools", "math", "numbers", "operator", "statistics", "string",
    "types", "typing", "__future__",
})  # fmt: skip
# Builtins that make objects, texts and iterators of what they are given, beside those that compute.
_MAKING_BUILTINS = frozenset({
    "bytes", "callable", "chr", "classmethod", "dict", "format", "frozenset", "getattr", "hasattr",
    "hash", "issubclass", "iter", "next", "object", "ord", "property", "repr", "set",
    "staticmethod", "str", "super", "type", "Ellipsis", "NotImplemented", "StopIteration",
    "__build_class__", "__debug__",
})  # fmt: skip
# Harmless in code that is replayed as a whole: what they make or set ends with it.
_ENDS_INSIDE = frozenset({"empty", "empty_like", "errstate", "random"})
# Names that lead to files, or read or set something of the whole process.
_OUTWARD = frozenset({
    "__subclasses__", "array2string", "array_repr", "array_str", "datasets", "datetime64", "dump",
    "dumps", "frompyfunc", "fromregex", "geterr", "geterrcall", "get_printoptions", "getbufsize",
    "io", "loadmat", "nditer", "register", "savemat", "savez_compressed", "set_backend",
    "set_global_backend", "set_string_function", "set_workers", "skip_backend", "testing",
    "wavfile",
})  # fmt: skip
# Options of solvers that print.
_PRINTS = frozenset({"disp", "iprint", "verbose"})
# Guards see what is written to objects from outside, in whatever way.
_SETS = frozenset({"setattr", "delattr", "__setattr__", "__delattr__"})
_HARMFUL = (IMPURE - _ENDS_INSIDE - _SETS) | _OUTWARD
# What `np.random` has that makes a generator, and is refused without a seed.
_GENERATORS = frozenset({"RandomState", "default_rng"})
# Texts of arrays depend on how NumPy is set to print them.
_TEXTS = frozenset({"f-string", "format", "repr", "str"})
# Modules of libraries that read and write files.
_FILES = ("numpy.lib._npyio", "numpy.lib.npyio", "numpy.lib._format", "scipy.io", "scipy.datasets")
_ATOMS = (int, float, complex, bool, str, bytes, type(None), type(...), range, slice)
_COLLECTIONS = (list, tuple, dict, set, frozenset)
_METACLASSES = (type, ABCMeta, enum.EnumMeta)
_WRAPPERS = (functools.partial, property, staticmethod, classmethod, np.vectorize, CACHE)


def computing_guards(function: Function, args: Args) -> GuardCollector | None:
    """Give the guards of a function that only computes; None for any other function.

    `args` are its arguments, which have to be numbers, arrays, and plain collections of them. The
    guards are those of a prepared function, and that the functions of libraries that it calls are
    the same.
    """
    if not all(map(_is_plain, args)):
        return None
    try:
        guards = collect_guards(function, args)
    except TypeError:
        return None
    arrays = {id(x): x.nbytes for x in guards.visited if isinstance(x, np.ndarray)}
    if len(guards.found) > _MAX_GUARDS or sum(arrays.values()) > _MAX_BYTES:
        return None
    if guards.has_generators() or not all(map(_is_harmless, guards.visited)):
        return None
    if not all(map(_is_harmless_builtin_function, guards.builtins)):
        return None
    functions = [x for x in guards.visited if isinstance(x, FunctionType)]
    for own in (x for x in functions if not is_installed(_home(x))):
        guards.guard_library_members(own)
    if any(not _TEXTS.isdisjoint(CodeNames.of(x.__code__).mentioned) for x in functions):
        guards.guard_reading("how NumPy prints", _print_options)
    return guards


def _print_options() -> object:
    return str(np.get_printoptions())


class Attempt:
    """A recording that may come to nothing, in a `with` block: then all is as it was before.

    NumPy would warn of errors in computations with captured arrays in each run. `has_warned` says
    that there were any, of which it has not warned yet.
    """

    def __init__(self, function: Function, args: Args) -> None:
        self.has_warned = False
        self._snapshot = StateSnapshot(function, *args)
        self._generators = [(g, random_state(g)) for g in (np.random, random)]
        self._numbers = random.getstate(), np.random.get_state()  # noqa: NPY002

    def __enter__(self) -> Self:
        modes = {k: "ignore" if v == "ignore" else "call" for k, v in np.geterr().items()}
        self._errors: Any = np.errstate(call=self._note, **modes)  # type: ignore[arg-type]
        self._errors.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._errors.__exit__(*error)
        del self._errors  # It refers to this.

    def _note(self, *_: object) -> None:
        self.has_warned = True

    def restore(self) -> None:
        """Let the function run once more from the state before."""
        self._snapshot.restore()
        if any(random_state(g) != state for g, state in self._generators):
            random.setstate(self._numbers[0])
            np.random.set_state(self._numbers[1])  # noqa: NPY002


def _is_plain(value: Any) -> bool:
    """Say whether an argument is a number, an array or a plain collection of them."""
    kind = type(value)
    if kind is _core.Const:
        return _is_plain(value.value)
    if kind is dict:
        return all(map(_is_plain, (*value, *value.values())))
    if kind is list or kind is tuple:
        return all(map(_is_plain, value))
    return kind in _ATOMS or _is_array(value)


def _is_array(value: Any) -> bool:
    kind = type(value)
    if kind is np.ndarray or issubclass(kind, np.generic):
        return value.dtype.name in DTYPES
    return kind is _core.Array


# --------------------------------------------------------------------------------------------------
# What guards have visited


def _is_harmless(value: Any) -> bool:
    """Say whether something that code reaches does nothing besides computing."""
    kind = type(value)
    if kind is FunctionType:
        return _is_harmless_function(value)
    if issubclass(kind, type):
        return _is_harmless_class(value)
    if kind is ModuleType:
        return _is_harmless_global(value) or value is np.random
    if kind in _ATOMS or kind in _COLLECTIONS or kind in _WRAPPERS:
        return True  # What they hold is visited.
    if kind is MethodType:
        return isinstance(value.__self__, type)
    if _is_array(value) or _is_record(kind) or _makes_generator(value):
        return True
    home = kind.__module__
    if not is_installed(home) or getattr(value, "__name__", "") in _HARMFUL:
        return False
    return is_of_library(value) or is_pure(home) or _is_computing(home)


def _is_record(kind: type) -> bool:
    """Say whether instances are constants: of enumerations, named tuples, frozen dataclasses."""
    if issubclass(kind, enum.Enum) or (kind.__bases__ == (tuple,) and hasattr(kind, "_fields")):
        return True
    told = vars(kind).get("__dataclass_params__")
    return told is not None and bool(told.frozen)


def _is_harmless_class(cls: type) -> bool:
    if cls.__module__ == "builtins":
        return _is_harmless_builtin(cls.__name__)
    if is_installed(cls.__module__):
        return is_of_library(cls) or _is_computing(cls.__module__)
    return type(cls) in _METACLASSES and not hasattr(cls, "__del__")


def _is_harmless_builtin(name: str) -> bool:
    known = PURE_BUILTINS | _MAKING_BUILTINS | _SETS
    return name in known or name.endswith(("Error", "Exception"))


def _is_harmless_function(function: FunctionType) -> bool:
    home = _home(function)
    if is_installed(home):
        is_file = home.startswith(_FILES) or function.__name__ in _HARMFUL
        return not is_file and (is_pure(home) or _is_computing(home))
    if not _is_harmless_code(function.__code__):
        return False
    captured = [edge.value for edge in cell_edges(function)]
    modules = [x for x in (*captured, *(function.__defaults__ or ())) if type(x) is ModuleType]
    if not all(map(_is_harmless_global, modules)):
        return False
    members, known = function.__globals__, vars(builtins)
    return all(
        _is_harmless_global(members[name]) if name in members else _is_harmless_builtin(name)
        for name in globals_used(function.__code__)
        if name in members or name in known
    )


def _is_harmless_global(value: Any) -> bool:
    """Say whether a global variable is harmless; guards visit what is of the program's."""
    kind = type(value)
    if kind is ModuleType:
        name = value.__name__
        if not is_installed(name):
            return True
        return not name.startswith(_FILES) and (is_pure(name) or _is_computing(name))
    if kind is BuiltinFunctionType:
        return _is_harmless_builtin_function(value)
    if kind is FunctionType or issubclass(kind, type):
        return not is_installed(_home(value)) or _is_harmless(value)
    if not is_installed(kind.__module__) or kind.__module__ == "builtins":
        return True
    return _is_harmless(value)


def _is_harmless_builtin_function(value: Any) -> bool:
    """Say whether a function of C, or a method of an object of C, is harmless."""
    owner, name = value.__self__, value.__name__
    if isinstance(owner, type):
        return _is_harmless_class(owner)
    if not isinstance(owner, ModuleType):
        return True  # Its object is visited.
    if owner is builtins:
        return _is_harmless_builtin(name)
    return name not in _HARMFUL and _is_harmless_global(owner)


def _makes_generator(value: object) -> bool:
    return any(value is getattr(np.random, name) for name in _GENERATORS)


def _home(value: Any) -> str:
    """Give the module that a function or a class is from, whatever a decorator says."""
    return str(value.__module__ if isinstance(value, type) else value.__globals__.get("__name__"))


def _is_computing(module: str) -> bool:
    return module.partition(".")[0].removeprefix("_") in _COMPUTING_MODULES


# --------------------------------------------------------------------------------------------------
# Code


@functools.lru_cache(4096)
def _is_harmless_code(code: CodeType) -> bool:
    """Say whether code names nothing that might do more than compute, itself and code inside."""
    if not (_HARMFUL | _PRINTS).isdisjoint(CodeNames.of(code).mentioned | _keywords(code)):
        return False
    if inspected(code).variables:
        return False  # Attributes whose names are computed.
    if not all(is_pure(name) or _is_computing(name) for name in modules_imported(code)):
        return False
    return all(_is_harmless_part(c, code.co_freevars) for c in _with_inner(code))


def _keywords(code: CodeType) -> frozenset[str]:
    """Give the names of arguments that code gives by keyword."""
    tuples = [c for inner in _with_inner(code) for c in inner.co_consts if type(c) is tuple]
    return frozenset(name for names in tuples for name in names if isinstance(name, str))


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)


def _is_harmless_part(code: CodeType, captured: tuple[str, ...]) -> bool:
    waits = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
    if code.co_flags & waits or assignments(code).globals:
        return False
    draws = "random" in code.co_names
    if not (captured or draws):
        return True
    steps = [s for s in instructions(code) if s.opname not in {"PUSH_NULL", "EXTENDED_ARG"}]
    stores = {"STORE_DEREF", "DELETE_DEREF"}
    if any(step.opname in stores and step.argval in captured for step in steps):
        return False
    return not draws or all(
        _draws_by_seed(step, after)
        for step, after in zip(steps, [*steps[1:], None], strict=True)
        if step.argval == "random" and "FAST" not in step.opname
    )


def _draws_by_seed(step: Instruction, after: Instruction | None) -> bool:
    """Say whether `random` is a method of a generator, or the module whose generators are made.

    A generator is made by the code itself then: guards find those that it captures.
    """
    if after is not None and after.opname in {"LOAD_ATTR", "LOAD_METHOD"}:
        return after.argval in _GENERATORS
    return step.opname == "LOAD_METHOD" or "NULL|self" in step.argrepr
