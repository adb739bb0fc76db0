"""Overrides are installed at the functions themselves, when their library has been imported.

`runtime.registry` has the rows; here each row is given to the entry of its target
(`rust/py/src/interpose/entry.rs`), by which the interpreter calls that function wherever it is
kept. No name, attribute or dictionary of a library is touched. A module is looked at once, before
the first recording that finds it imported.
"""

import contextlib
import functools
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Self, cast

import numpy as np

from cotan import _core
from cotan._src.interpose.number_classes import NUMBERS
from cotan._src.interpose.prologue import as_called
from cotan._src.interpose.providers import PROVIDERS
from cotan._src.interpose.users_rules import (
    has_users_rules,
    over,
)
from cotan._src.runtime.libraries import (
    NATIVE_LIBRARIES,
    STANDARD_LIBRARY,
    Trait,
    libraries_with,
)
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.plotting_context import is_read_for_display
from cotan._src.runtime.registry import Kind, Override, When, enter, owners, rows_of
from cotan._src.runtime.values import DISPATCHER
from cotan._src.typing import Function

_installed: set[str] = set()
# Names that a program had replaced when their module was installed: mocks of a test, say.
_replaced: dict[str, set[str]] = {}

# The lock that is held meanwhile; the child of a fork has a new one.
_lock = [threading.RLock()]
# The threads that hold it while they fork.
_forking: set[int] = set()


def lock() -> threading.RLock:
    """Give the lock that is held while overrides are installed."""
    return _lock[0]


def before_fork() -> None:
    """Wait for a thread that installs, or the child would wait for ever for imports half done.

    Not for ever: it may be waiting for a module that this thread imports.
    """
    if _lock[0].acquire(timeout=5.0):
        _forking.add(threading.get_ident())


def after_fork_in_parent() -> None:
    """Let others install again."""
    me = threading.get_ident()
    if me in _forking:
        _forking.remove(me)
        _lock[0].release()


def after_fork_in_child() -> None:
    """Begin with a lock that nobody holds."""
    _forking.clear()
    _lock[0] = threading.RLock()


def install() -> bool:
    """Install the overrides of every module that has been imported and has rows.

    Says whether all of them were there: a module that another thread still imports, or whose
    functions a test has replaced, waits for the next time. It may be interrupted anywhere, and
    goes on when it is called again.
    """
    with lock():
        if "builtins" not in _installed:
            # Every way to import a module that has not been imported goes through this one.
            _core.suspend_recordings_in(importlib._bootstrap._find_and_load)  # type: ignore[attr-defined]
            for number, rule in NUMBERS.items():
                _core.add_rule(number, rule, "user numbers")
            _installed.add("builtins")
        while waiting := [name for name in _modules() if _is_waiting(name)]:
            for name in waiting:
                _install_module(name, sys.modules[name])
        for name in [n for n in _replaced if n in sys.modules]:
            _install_restored(name, sys.modules[name])
        missing = (n for n in _modules() if n in sys.modules and n not in _installed)
        return not _replaced and not any(missing)


def _modules() -> list[str]:
    """Give the modules that have rows; those that provide rows may enter more."""
    classes = [owner.rpartition(".")[0] for owner in owners(Kind.METHOD)]
    functions = owners(Kind.FUNCTION, Kind.CREATOR, Kind.NUMBER_CLASS, Kind.INDEXED)
    return list(dict.fromkeys([*PROVIDERS, *functions, *classes]))


def _is_waiting(name: str) -> bool:
    module = sys.modules.get(name)
    return name not in _installed and module is not None and not _is_initializing(module)


def _is_initializing(module: Any) -> bool:
    """Say whether a module is still being imported, by another thread or around this call.

    A module's own `__getattr__` is not asked, which may raise anything.
    """
    if not issubclass(type(module), ModuleType):
        return True
    spec = ModuleType.__getattribute__(module, "__dict__").get("__spec__")
    return bool(getattr(spec, "_initializing", False))


def _install_module(name: str, module: Any) -> None:
    for provider in PROVIDERS.get(name, ()):
        importlib.import_module(f"cotan._src.{provider}")
    names = vars(module)
    for own in _names(module):
        if _is_replaced(module, own):
            _replaced.setdefault(name, set()).add(own)
            continue
        # A version of the library in which it is another kind of object keeps its function as it
        # is; `verify_process` names it.
        with contextlib.suppress(TypeError):
            _install(module, own, names[own])
    _core.add_ufuncs([value for value in list(names.values()) if type(value) is np.ufunc])
    for owner in [o for o in owners(Kind.METHOD) if o.rpartition(".")[0] == name]:
        cls = names.get(owner.rpartition(".")[2])
        if cls is not None:  # private classes, and their methods, are not in every version
            _install_methods(cls, rows_of(owner, Kind.METHOD))
    _installed.add(name)


_NAMED = (Kind.FUNCTION, Kind.CREATOR, Kind.INDEXED, Kind.NUMBER_CLASS)


def _names(module: Any) -> list[str]:
    """Name what is overridden: what has a row, and what NumPy dispatches by itself.

    The latter sees an `Array` where it is an argument, not where it is in a list.
    """
    names = {name for kind in _NAMED for name in rows_of(module.__name__, kind)}
    if module.__name__.partition(".")[0] == "numpy":
        # Another thread may be importing it.
        members = list(vars(module).items())
        names |= {name for name, value in members if isinstance(value, DISPATCHER)}
    if module is np:
        names.add("ndarray")
    return sorted(names & set(vars(module)))


def _is_replaced(module: Any, name: str) -> bool:
    """Say whether a name of a library has a program's function, a test's mock, say."""
    value = vars(module)[name]
    if not isinstance(value, (FunctionType, MethodType, type)):
        value = inspect.getattr_static(type(value), "__call__", value)  # of an object
    value = value.__func__ if isinstance(value, MethodType) else value
    if isinstance(value, FunctionType):
        # Decorators copy the name of the module; not where the code is.
        owner = "unittest" if hasattr(value, "mock") else value.__globals__.get("__name__")
    else:
        owner = value.__module__ if isinstance(value, type) else None
    package = str(owner or "numpy").partition(".")[0]
    is_library = package in NATIVE_LIBRARIES or package in STANDARD_LIBRARY - {"unittest"}
    return not is_library and package != module.__name__.partition(".")[0]


def _install_restored(name: str, module: Any) -> None:
    """Install the overrides of functions that a program has put back meanwhile."""
    names = vars(module)
    for own in [n for n in _replaced[name] if n in names and not _is_replaced(module, n)]:
        _install(module, own, names[own])
        _replaced[name].discard(own)
    _replaced[name].intersection_update(names)
    if not _replaced[name]:
        del _replaced[name]


def installed_libraries() -> list[str]:
    """Name the libraries of which functions have been overridden."""
    with lock():
        return sorted({name.partition(".")[0] for name in _installed} - {"builtins"})


def replaced() -> list[str]:
    """Name the functions of libraries that a program had replaced: they are not overridden."""
    with lock():
        return sorted(f"{module}.{name}" for module, names in _replaced.items() for name in names)


# --------------------------------------------------------------------------------------------------
# One function


# Functions that lay elements out in memory, for code that goes through that.
_FOR_MEMORY = {"ascontiguousarray", "asfortranarray", "require"}
# Compiled functions of numbers, which need no look at the caller.
_OF_NUMBERS = {"math", "cmath"}
# Modules that are rebound, for the rest of their library, too.
_REBOUND_ALONE = {name for name in libraries_with(Trait.REBOUND) if "." in name}


def _install(module: Any, name: str, target: Any) -> None:
    """Give one function, class or object of a module what the rows say of it."""
    owner = module.__name__
    row = rows_of(owner).get(name)
    number = rows_of(owner, Kind.NUMBER_CLASS).get(name)
    indexed = rows_of(owner, Kind.INDEXED).get(name)
    if number is not None and number.rule is not None:
        _core.add_rule(target, number.rule, "user numbers")
    elif indexed is not None and indexed.rule is not None:
        getitem, rule = type(target).__getitem__, indexed.rule(target)
        # Libraries hand what it makes to compiled code: they get the rule for active items alone.
        _core.add_override(getitem, rule, rule, "numpy", receiver=target)
    elif row is not None and row.rule is not None and owner in _OF_NUMBERS:
        always = row.when is When.ALWAYS
        rule = getattr(row.rule, "declining", row.rule) if always else row.rule
        _core.add_rule(target, _with_users(target, rule), "always" if always else "numbers")
    else:
        _install_override(owner, name, target, row)


def _with_users(target: Any, otherwise: Any) -> Any:
    """Let rules that user code has given a function compute it first."""
    return over(*entry_of(target), otherwise)


def _install_override(owner: str, name: str, target: Any, row: Override | None) -> None:
    callee, receiver = entry_of(target)
    override = _with_users(target, overriding(owner, name, target, bypass(target)))
    creates = _creates(owner, name) or target is np.ndarray
    options: dict[str, Any] = {"receiver": receiver, "is_creator": creates}
    library: Any = "same"
    is_dispatched = isinstance(target, DISPATCHER)
    if is_dispatched and row is None and not creates and not has_users_rules(callee, receiver):
        library = None
    elif isinstance(target, type):
        library = "original"
        _core.keep_entries(target)
    elif creates:
        rule = _rule_of(row, target)
        if rule is not None:
            library = _unless_drawn(rule, bypass(target))
        elif is_dispatched:
            library = OverrideFunction(target, bypass(target), None, True, False, "lifted")
        else:
            library = "original"
        options["for_memory"] = name in _FOR_MEMORY
    package = owner if owner in _REBOUND_ALONE else owner.partition(".")[0]
    _core.add_override(callee, override, library, package, **options)


def entry_of(target: Any) -> tuple[Any, Any]:
    """Give the callable that has the entry of an object, and whose call is meant, if not all."""
    if isinstance(target, MethodType):
        return target.__func__, target.__self__
    if isinstance(target, (BuiltinFunctionType, FunctionType, type, DISPATCHER)):
        return target, None
    called = inspect.getattr_static(type(target), "__call__", None)
    return (called, target) if isinstance(called, FunctionType) else (target, None)


def bypass(target: Any) -> Function:
    """Give what calls a function past its entry."""
    callee, receiver = entry_of(target)
    if isinstance(callee, FunctionType):
        _core.bypass(callee)  # it has an entry from now on, and a copy without one
        plain: Any = original_of(callee)
    else:
        plain = _core.bypass(callee)
    return plain if receiver is None else functools.partial(plain, receiver)


def overriding(owner: str, name: str, target: Any, plain: Function, when: str = "lifted") -> Any:
    """Give what computes a function: by its rule, by NumPy's dispatch, or as the library does.

    `when` is `"lifted"` in contexts that record, `"imported"` always.
    """
    row = rows_of(owner).get(name)
    rule = _rule_of(row, target) if when == "lifted" or row is None else row.rule
    if row is not None and row.when is When.ALWAYS:
        if when == "lifted":
            return rule
        return _Always(target, plain, rule, False, False, when)
    dispatched = isinstance(target, DISPATCHER)
    creates = _creates(owner, name) or target is np.ndarray
    return OverrideFunction(target, plain, rule, dispatched, creates, when)


def _rule_of(row: Override | None, target: Any) -> Any:
    """Give the rule of a function, called as the function was."""
    if row is None or row.rule is None:
        return None
    callee, receiver = entry_of(target)
    if not isinstance(callee, FunctionType):
        return row.rule
    return as_called(callee, row.rule, is_bound=receiver is not None)


def _creates(owner: str, name: str) -> bool:
    """Say whether a function makes new arrays."""
    return name in rows_of(owner, Kind.CREATOR)


def _unless_drawn(rule: Any, plain: Function) -> Function:
    @functools.wraps(rule)
    def convert(*args: Any, **kwargs: Any) -> Any:
        return (plain if is_read_for_display() else rule)(*args, **kwargs)

    return convert


class OverrideFunction(_core.OverrideFunction):
    """A function that computes another one where it meets an `Array`."""

    __slots__ = ()
    __doc__ = property(lambda self: self.__wrapped__.__doc__)
    __module__ = property(lambda self: self.__wrapped__.__module__)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__wrapped__, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__wrapped__, name)


class _Always(OverrideFunction):
    # It calls its rule whatever the arguments are: an array may hide in a function among them.
    __slots__ = ("_rule",)
    __doc__ = vars(OverrideFunction)["__doc__"]
    __module__ = vars(OverrideFunction)["__module__"]
    _rule: Any

    def __new__(cls, target: Any, plain: Any, rule: Any, *rest: Any) -> Self:
        made = super().__new__(cls, target, plain, rule, *rest)
        # Its own attribute: others are set on the function itself.
        object.__setattr__(made, "_rule", rule)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._rule(*args, **kwargs)


# --------------------------------------------------------------------------------------------------
# Methods


# The flag of classes whose methods cannot be set.
_IMMUTABLE = 1 << 8


def _install_methods(owner: type, methods: Mapping[str, Override]) -> None:
    if owner.__flags__ & _IMMUTABLE:
        return  # compiled in this version
    for name, row in methods.items():
        found = inspect.getattr_static(owner, name, None)
        function = getattr(found, "__func__", found)
        when = "always" if row.when is When.ALWAYS else "contained"
        if row.rule is not None and name == "__call__" and isinstance(found, WrapperDescriptorType):
            _core.add_call_rule(owner, row.rule, when)
            continue
        if row.rule is None or not isinstance(function, FunctionType):
            continue  # not in this version, or compiled there
        receiver = None if name in vars(owner) else owner
        rule = over(function, None, as_called(function, row.rule))
        _core.add_rule(function, rule, when, receiver)
        if name == "__init__":
            _core.keep_entries(owner)


# --------------------------------------------------------------------------------------------------
# What users call


def found(module: str, name: str) -> Any:
    """Give a name of a module: functions of a namespace of ours are pickled like this."""
    return getattr(importlib.import_module(module), name)


def namespace(names: dict[str, Any], name: str) -> None:
    """Fill a module with another one's names, in which functions with rows take an `Array`."""
    module = importlib.import_module(name)
    for provider in PROVIDERS.get(name, ()):
        importlib.import_module(f"cotan._src.{provider}")
    for own in _names(module):
        target = vars(module)[own]
        indexed = rows_of(name, Kind.INDEXED).get(own)
        if indexed is not None and indexed.rule is not None:
            names[own] = _Brackets(target, indexed.rule(target))
        elif own not in rows_of(name, Kind.NUMBER_CLASS) and target is not np.ndarray:
            names[own] = _imported(name, own, target)
    names["__getattr__"] = functools.partial(getattr, module)
    names["__dir__"] = functools.partial(dir, module)
    names["__all__"] = getattr(module, "__all__", [n for n in dir(module) if n[0] != "_"])


class _Brackets:
    """An object that is indexed, such as `np.r_`, in a namespace of ours."""

    def __init__(self, original: Any, rule: Function) -> None:
        self._original, self._rule = original, rule

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        return self._rule(key) if _core.contains_array(items, {}) else self._original[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def _imported(owner: str, name: str, target: Any) -> Any:
    row = rows_of(owner).get(name)
    rule: Any = None if row is None else row.rule
    if row is not None and rule is not None and isinstance(target, type) and _is_open(target):
        return _class(target, rule, row.when is When.ALWAYS)
    return overriding(owner, name, target, target, "imported")


def _is_open(original: type) -> bool:
    """Say whether a class can be derived from."""
    return bool(original.__flags__ & 1 << 10)


def _class(original: Any, rule: Any, always: bool) -> Any:
    """Let a class make what a rule makes of an `Array`; it stays a class, for `isinstance`."""

    class Meta(type(original)):  # type: ignore[misc]
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if always or _core.contains_array(args, kwargs):
                return rule(*args, **kwargs)
            return original(*args, **kwargs)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original)

        def __eq__(cls, other: object) -> bool:
            return other is original or other is cls

        def __hash__(cls) -> int:
            return hash(original)

    names = {n: getattr(original, n) for n in ("__module__", "__qualname__", "__doc__")}
    return Meta(original.__name__, (original,), {**names, "__wrapped__": original})


def lift(module: ModuleType, name: str, rule: Callable[..., Any]) -> None:
    """Let `module.name` be computed by `rule` whenever an `Array` is among its arguments.

    `rule` has the function's own signature and computes with what cotan knows; without an `Array`
    among the arguments the original is called. It holds while something is recorded, wherever the
    function is kept: imported by name, in a table, as a default argument. See `ct.lifting`.

    Raises `AttributeError` when the module has no such name, `TypeError` when either is no
    function, or the module none.

    >>> import statistics
    >>> import cotan as ct
    >>> ct.lift(statistics, "fmean", lambda data: sum(data) / len(data))
    >>> ct.gradient(lambda x: statistics.fmean([x, x * x, 1.0]), 3.0)
    (2.333333333333333,)
    """
    if not isinstance(module, ModuleType):
        raise TypeError(f"lift: needs a module, such as statistics, not {type(module)}")
    original = vars(module)[name] if name in vars(module) else getattr(module, name)
    if not callable(original) or not callable(rule):
        raise TypeError(f"lift: {module.__name__}.{name} and its rule must be functions")
    with lock():
        install()
        enter(Override(f"{module.__name__}.{name}", rule))
        _replaced.get(module.__name__, set()).discard(name)
        # It was asked for by name, so it may be a program's own function.
        _install(module, name, original)


def install_again(target: Any) -> bool:
    """Give a function or method of an installed module its overrides anew, if it has any."""
    found = False
    there = _installed & set(sys.modules)
    modules = {name: sys.modules[name] for name in _modules() if name in there}
    for module in modules.values():
        for name in [n for n in _names(module) if vars(module)[n] is target]:
            _install(module, name, target)
            found = True
    for owner in owners(Kind.METHOD):
        home, _, own = owner.rpartition(".")
        cls: Any = vars(modules[home]).get(own) if home in modules else None
        if not isinstance(cls, type):
            continue
        for name, row in rows_of(owner, Kind.METHOD).items():
            member = inspect.getattr_static(cls, name, None)
            if getattr(member, "__func__", member) is target:
                _install_methods(cls, {name: row})
                found = True
    return found


def verify_entries() -> Iterable[str]:
    """Describe rows of installed modules whose target has no entry."""
    for name in sorted(_installed - {"builtins"}):
        module = sys.modules.get(name)
        if module is None:
            continue
        for own in _names(module):
            target = vars(module)[own]
            callee, _ = entry_of(target)
            if hasattr(type(target), "__getitem__") and not callable(target):
                callee = cast("Any", type(target).__getitem__)
            if not _core.has_entry(callee):
                yield f"{name}.{own}"
