"""Tells whether a function only computes, so that nobody can see whether it runs.

Problem: a gradient that is asked for again and again is replayed unasked
(`prepare/automatic.rs`). A replay runs no Python, so it is right only for functions that do nothing
besides computing: they print nothing, read no clock and no file, draw no random numbers, and call
nothing that might. Guards say which functions, classes and objects the code can reach. Each of them
has to be known to be harmless here; what is not known is not. `state/computing_guards.py` asks.
"""

import builtins
import enum
import functools
import inspect
from abc import ABCMeta
from collections import defaultdict
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.runtime.call_site import Instruction, assignments, instructions
from cotan._src.runtime.dtypes import DTYPES
from cotan._src.state.code_facts import globals_used, inspected, modules_imported, with_inner
from cotan._src.state.guarded_kinds import CACHE
from cotan._src.state.library_names import (
    BUILTINS,
    IMPURE,
    PURE_BUILTINS,
    is_of_library,
    is_pure,
)
from cotan._src.state.object_graph import CodeNames, cell_edges
from cotan._src.state.own_functions import computes
from cotan._src.state.reached_names import function_of, is_installed

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
    "array2string", "array_repr", "array_str", "datasets", "datetime64", "dump", "dumps",
    "frompyfunc", "fromregex", "geterr", "geterrcall", "get_printoptions", "getbufsize", "io",
    "load_npz", "loadmat", "nditer", "register", "save_npz", "savemat", "savez_compressed",
    "set_backend", "set_default_printstyle", "set_global_backend", "set_string_function",
    "set_workers", "show", "show_options", "show_runtime", "skip_backend", "testing", "wavfile",
})  # fmt: skip
# Functions that draw from the generators that all share.
_DRAWS = frozenset({
    "basinhopping", "bootstrap", "differential_evolution", "dual_annealing", "eigs", "eigsh",
    "expm_multiply", "kmeans", "kmeans2", "lobpcg", "monte_carlo_test", "onenormest",
    "permutation_test", "resample", "svds",
})  # fmt: skip
# Names of what no guard is on.
_UNGUARDED = frozenset({
    "__annotations__", "__array_interface__", "__setstate__", "__subclasses__", "_value_",
    "cache_info", "strides",
})  # fmt: skip
#: Solvers that print, and options of others.
OPTIONS = frozenset({
    "disp", "fmin", "fmin_bfgs", "fmin_cg", "fmin_ncg", "fmin_powell", "fmin_slsqp", "iprint",
    "verbose",
})  # fmt: skip
# Methods that run without being named, and that guards do not visit.
_RUN_UNNAMED = frozenset({
    "__del__", "__format__", "__getstate__", "__init_subclass__", "__reduce__", "__reduce_ex__",
    "__repr__", "__set_name__", "__setstate__", "__str__", "_generate_next_value_", "_missing_",
})  # fmt: skip
# Guards see what is written to objects from outside, in whatever way.
_SETS = frozenset({"setattr", "delattr", "__setattr__", "__delattr__"})
_HARMFUL = (IMPURE - _ENDS_INSIDE - _SETS) | _OUTWARD | _UNGUARDED | OPTIONS
# What `np.random` has that makes a generator, and is refused without a seed.
_GENERATORS = frozenset({"RandomState", "default_rng"})
# Texts of arrays depend on how NumPy is set to print them.
_TEXTS = frozenset({"__format__", "__repr__", "__str__", "f-string", "format", "repr", "str",
                    "safe_substitute", "substitute"})  # fmt: skip
# Attributes of functions and classes that are in no dictionary.
_NAMES = frozenset({"__doc__", "__name__", "__qualname__"})
# Methods and functions that write to what they are given.
_WRITERS = frozenset({
    "add", "append", "appendleft", "clear", "copyto", "difference_update", "discard", "extend",
    "extendleft", "fill", "fill_diagonal", "insert", "intersection_update", "itemset", "out",
    "partition", "place", "pop", "popitem", "popleft", "put", "put_along_axis", "putmask", "remove",
    "resize", "reverse", "rotate", "setattr", "setdefault", "setfield", "shuffle", "sort",
    "symmetric_difference_update", "update",
})  # fmt: skip
_STORES = frozenset({"DELETE_ATTR", "DELETE_SUBSCR", "STORE_ATTR", "STORE_SLICE", "STORE_SUBSCR"})
# Modules of libraries that read and write files.
_FILES = ("numpy.lib._npyio", "numpy.lib.npyio", "numpy.lib._format", "scipy.io", "scipy.datasets")
# Modules of libraries whose objects do not change: `np.c_`, distributions.
_CONSTANTS = ("numpy.lib._index_tricks", "numpy.lib.index_tricks", "scipy.stats._continuous_distns",
              "scipy.stats._discrete_distns", "scipy.stats._multivariate")  # fmt: skip
ATOMS = (int, float, complex, bool, str, bytes, type(None), type(...), range, slice)
_COLLECTIONS = (list, tuple, dict, set, frozenset)
_METACLASSES = (type, ABCMeta, enum.EnumMeta)
_WRAPPERS = (functools.partial, functools.partialmethod, functools.cached_property, property,
             staticmethod, classmethod, np.vectorize, CACHE)  # fmt: skip


def is_harmless(value: Any) -> bool:
    """Say whether something that code reaches does nothing besides computing."""
    kind = type(value)
    if kind is FunctionType:
        return _is_harmless_function(value)
    if issubclass(kind, type):
        return _is_harmless_class(value)
    if kind is ModuleType:
        return is_harmless_variable(value) or value is np.random
    if issubclass(kind, dict) and not OPTIONS.isdisjoint(value):
        return False  # Options of a solver.
    if kind is defaultdict:
        factory = value.default_factory
        return factory is None or is_of_library(factory) or _keeps_nothing(factory)
    if kind in ATOMS or kind in _COLLECTIONS or kind in _WRAPPERS:
        return True  # What they hold is visited.
    if kind is MethodType:
        return isinstance(value.__self__, type)
    if is_array(value) or makes_generator(value):
        return True
    if _is_record(kind):
        return is_installed(kind.__module__) or _is_harmless_class(kind)
    home = kind.__module__
    if home == "functools":
        return kind in _WRAPPERS  # Others hide what they call.
    if not is_installed(home) or getattr(value, "__name__", "") in _HARMFUL:
        return False
    # Other objects of libraries, as splines, hold arrays that nobody watches.
    is_constant = home.startswith(_CONSTANTS) or isinstance(value, (np.dtype, np.finfo, np.iinfo))
    return is_of_library(value) or is_constant or _is_computing(home)


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
        is_known = is_pure(cls.__module__) or _is_computing(cls.__module__)
        return (is_known and cls.__name__ not in _HARMFUL) or makes_generator(cls)
    if type(cls) not in _METACLASSES or hasattr(cls, "__del__"):
        return False
    own = [vars(c) for c in cls.__mro__ if not is_installed(c.__module__)]
    unnamed = [members[name] for members in own for name in _RUN_UNNAMED & members.keys()]
    return all(_keeps_nothing(x) for x in map(function_of, unnamed) if callable(x))


def _keeps_nothing(function: Any) -> bool:
    """Say whether what guards do not visit is harmless, and reaches nothing that changes."""
    if not _is_harmless_function(function):
        return False
    if type(function) is not FunctionType or is_installed(home_of(function)):
        return True
    members = function.__globals__
    used = [members[n] for n in globals_used(function.__code__) if n in members]
    constant = (*ATOMS, FunctionType, BuiltinFunctionType, ModuleType, type)
    return not function.__code__.co_freevars and all(isinstance(x, constant) for x in used)


def _is_harmless_builtin(name: str) -> bool:
    known = PURE_BUILTINS | _MAKING_BUILTINS | _SETS
    return name in known or name.endswith(("Error", "Exception"))


def _is_original_builtin(name: str) -> bool:
    """Say whether a builtin computes, and is Python's own."""
    return _is_harmless_builtin(name) and vars(builtins)[name] is BUILTINS.get(name)


def _is_harmless_function(function: Any) -> bool:
    if type(function) is not FunctionType:
        return is_of_library(function)
    if computes(function):
        return True
    home = home_of(function)
    if is_installed(home):
        is_harmful = home.startswith(_FILES) or function.__name__ in _HARMFUL | _DRAWS
        return not is_harmful and (is_pure(home) or _is_computing(home))
    if not _is_harmless_code(function.__code__):
        return False
    captured = [edge.value for edge in cell_edges(function)]
    modules = [x for x in (*captured, *(function.__defaults__ or ())) if type(x) is ModuleType]
    if not all(map(is_harmless_variable, modules)):
        return False
    members, known = function.__globals__, vars(builtins)
    drawn = [members.get(n) for n in _DRAWS & CodeNames.of(function.__code__).mentioned]
    if not all(type(x) is FunctionType and not is_installed(home_of(x)) for x in drawn):
        return False  # The program may have functions of these names.
    own: Any = getattr(function, "__builtins__", known)
    if own and own is not known:
        return False
    return all(
        is_harmless_variable(members[name]) if name in members else _is_original_builtin(name)
        for name in globals_used(function.__code__)
        if name in members or name in known
    )


def is_harmless_variable(value: Any) -> bool:
    """Say whether a global variable is harmless; guards visit what is of the program's."""
    kind = type(value)
    if kind is ModuleType:
        name = value.__name__
        if not is_installed(name) or computes(value):
            return True
        return not name.startswith(_FILES) and (is_pure(name) or _is_computing(name))
    if kind is BuiltinFunctionType:
        return is_harmless_builtin_function(value)
    if kind is FunctionType or issubclass(kind, type):
        return not is_installed(home_of(value)) or is_harmless(value)
    if not is_installed(kind.__module__) or kind.__module__ == "builtins":
        return True
    return is_harmless(value)


def is_harmless_builtin_function(value: Any) -> bool:
    """Say whether a function of C, or a method of an object of C, is harmless."""
    owner, name = value.__self__, value.__name__
    if isinstance(owner, type):
        return _is_harmless_class(owner)
    if not isinstance(owner, ModuleType):
        return True  # Its object is visited.
    if owner is builtins:
        return _is_harmless_builtin(name)
    if owner is _core:
        return computes(value)
    return name not in _HARMFUL and is_harmless_variable(owner)


def makes_generator(value: object) -> bool:
    """Say whether something makes generators of random numbers, and is refused without a seed."""
    return any(value is getattr(np.random, name) for name in _GENERATORS)


def home_of(value: Any) -> str:
    """Give the module that a function or a class is from, whatever a decorator says."""
    return str(value.__module__ if isinstance(value, type) else value.__globals__.get("__name__"))


def _is_computing(module: str) -> bool:
    return module.partition(".")[0].removeprefix("_") in _COMPUTING_MODULES


# --------------------------------------------------------------------------------------------------
# Code


@functools.lru_cache(4096)
def _is_harmless_code(code: CodeType) -> bool:
    """Say whether code names nothing that might do more than compute, itself and code inside."""
    if not _HARMFUL.isdisjoint(CodeNames.of(code).mentioned | _keywords(code)):
        return False
    if inspected(code).variables:
        return False  # Attributes whose names are computed.
    if not all(is_pure(name) or _is_computing(name) for name in modules_imported(code)):
        return False
    return all(_is_harmless_part(c, code.co_freevars) for c in with_inner(code))


def _keywords(code: CodeType) -> frozenset[str]:
    """Give the names of arguments that code gives by keyword."""
    tuples = [c for inner in with_inner(code) for c in inner.co_consts if type(c) is tuple]
    return frozenset(name for names in tuples for name in names if isinstance(name, str))


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


def is_array(value: Any) -> bool:
    """Say whether something is an array or a NumPy scalar of a dtype that has derivatives."""
    kind = type(value)
    if kind is np.ndarray or issubclass(kind, np.generic):
        return value.dtype.name in DTYPES
    return kind is _core.Array


def tells_names(function: FunctionType) -> bool:
    """Say whether code may ask functions and classes for their names and texts."""
    return not _NAMES.isdisjoint(CodeNames.of(function.__code__).mentioned)


def makes_texts(function: FunctionType) -> bool:
    """Say whether code may make texts of arrays, which depend on how NumPy is set to print them."""
    return not _TEXTS.isdisjoint(CodeNames.of(function.__code__).mentioned)


@functools.lru_cache(4096)
def may_write(code: CodeType) -> bool:
    """Say whether code may write to objects that it is given or captures, itself or code inside."""
    if not _WRITERS.isdisjoint(CodeNames.of(code).mentioned | _keywords(code)):
        return True
    return any(
        step.opname in _STORES or (step.opname == "BINARY_OP" and step.argrepr.endswith("="))
        for inner in with_inner(code)
        for step in instructions(inner)
    )
