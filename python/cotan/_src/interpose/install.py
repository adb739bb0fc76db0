"""Lifting: names that NumPy does not dispatch know our arrays while something is recorded.

`runtime.registry` has the table, `numpy.creation`, `stdlib.math` and `_scipy_*` its entries. Here
the functions are made that stand in for the originals, and the classes that modules have meanwhile;
`rust/py/src/interpose/install.rs` puts these in place when the first recording begins and takes
them back when the last one ends.
"""

import dis
import functools
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, TracebackType
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.interpose.deprecated_modules import enter_moved
from cotan._src.interpose.import_hook import watch
from cotan._src.interpose.imported_names import adopt, follow, is_initializing
from cotan._src.interpose.number_classes import (
    OF_PYTHON,
    is_called,
    keep_traced,
    makes_traced_scalar,
)
from cotan._src.runtime.call_site import (
    NATIVE_LIBRARIES,
    callee_name,
    current_instruction,
    is_user_code,
    package_of,
)
from cotan._src.runtime.method_patching import patch_method
from cotan._src.runtime.plotting_context import is_read_for_display
from cotan._src.runtime.registry import PROVIDERS, Kind, Override, When, enter, owners, rows_of
from cotan._src.runtime.values import DISPATCHER

_prepared: dict[str, type[ModuleType]] = {}
# What stands in for a function, by the function's identity; with the function, to keep it alive.
_overrides_by_id: dict[int, tuple[Any, Any]] = {}
# Functions, by identity, that lead to what stands in for them wherever a program keeps them.
_everywhere: set[int] = set()


# Names that a program had replaced when their module was made ready.
_replaced: dict[str, set[str]] = {}

# The lock that is held while modules are made ready. It is not waited for by who imports a module,
# which whoever holds it may be waiting for in turn; and the child of a fork has a new one.
_preparing = [threading.RLock()]
# The threads that hold it while they fork.
_forking: set[int] = set()


def before_fork() -> None:
    """Wait for who makes modules ready, or the child would wait for ever for imports half done.

    Not for ever: whoever does it may be waiting for a module that this thread imports.
    """
    if _preparing[0].acquire(timeout=5.0):
        _forking.add(threading.get_ident())


def after_fork_in_parent() -> None:
    """Let others make modules ready again."""
    me = threading.get_ident()
    if me in _forking:
        _forking.remove(me)
        _preparing[0].release()


def after_fork_in_child() -> None:
    """Begin with a lock that nobody holds."""
    _forking.clear()
    _preparing[0] = threading.RLock()


def prepare(loaded: str | None = None) -> bool:
    """Make ready every module that has been imported and has functions in the table.

    `loaded` names one that has just been loaded, by the thread that calls this. Says whether all
    are ready. It may be interrupted anywhere, and goes on when it is called again.
    """
    lock = _preparing[0]
    if not lock.acquire(loaded is None):
        return False
    try:
        watch(_modules, prepare)
        while waiting := [n for n in _modules() if n not in _prepared and _is_whole(n, loaded)]:
            for name in waiting:
                _prepare(name, sys.modules[name])
        for name in [n for n in _replaced if n in sys.modules]:
            _enter_restored(name, sys.modules[name])
        active = follow(NATIVE_LIBRARIES, _known) and not _replaced
        return active and all(n in _prepared or sys.modules.get(n) is None for n in _modules())
    finally:
        lock.release()


def reach(function: Any) -> bool:
    """Let names take part in namespaces that a function reaches and that no module has.

    Says whether there are such. It is called while something is recorded.
    """
    with _preparing[0]:
        return adopt(function, NATIVE_LIBRARIES, _known)


def _is_whole(name: str, loaded: str | None) -> bool:
    """Say whether a module is there, with all that is in it: another thread may be importing it."""
    module = sys.modules.get(name)
    if module is None or name == loaded:
        return module is not None
    return not is_initializing(module)


def _known(value: Any) -> Any:
    """Give what stands in for a value, if something does."""
    found = _overrides_by_id.get(id(value))
    return found[1] if found is not None and found[0] is value else None


def _modules() -> list[str]:
    """Give the modules that are in the tables; those that provide entries may enter more."""
    classes = [owner.rpartition(".")[0] for owner in owners(Kind.METHOD)]
    return list(dict.fromkeys([*PROVIDERS, *owners(Kind.FUNCTION, Kind.CREATOR), *classes]))


def _prepare(name: str, module: Any) -> None:
    for provider in PROVIDERS.get(name, ()):
        importlib.import_module(f"cotan._src.{provider}")
    _enter_aliases(module)
    plain: Any = type(module)
    replaced = {own for own in _names(module) if _is_replaced(module, own)}
    members = _members(module, [own for own in _names(module) if own not in replaced])
    # What pickles modules by their names knows the plain class only.
    more: dict[str, Any] = {"__reduce__": _by_its_name}
    if sys.version_info >= (3, 12):
        # Newer interpreters read modules past the class where it has no way of its own.
        more["__getattr__"] = _missing
    lifted = type(plain)(plain.__name__, (plain,), {**members, **more})
    if members:
        lifted = _core.add_lifted(module, lifted)
    _core.add_ufuncs([value for value in list(vars(module).values()) if type(value) is np.ufunc])
    for owner in [o for o in owners(Kind.METHOD) if o.rpartition(".")[0] == name]:
        cls = getattr(module, owner.rpartition(".")[2], None)
        if cls is not None:  # private classes, and their methods, are not in every version
            _replace_methods(cls, rows_of(owner, Kind.METHOD))
    if replaced:
        _replaced[name] = replaced
    if name.startswith("scipy."):
        enter_moved(name, _known)
    _prepared[name] = lifted


def _enter_aliases(module: Any) -> None:
    """Enter names that a program has given to what a module has: `np.mat = np.asmatrix`.

    Programs for other versions of a library get along with such.
    """
    names, own = vars(module), module.__name__
    for kind in _NAMED:
        rows = rows_of(own, kind)
        known = {id(names[n]): row for n, row in rows.items() if n in names}
        if kind is Kind.NUMBER_CLASS and module is np:
            # `np.float = float`
            known |= {n: Override("numpy", rule, kind) for n, rule in OF_PYTHON.items()}
        more = {n: known[id(v)] for n, v in names.items() if n not in rows and id(v) in known}
        for name, row in more.items():
            enter(replace(row, target=f"{own}.{name}"))


def _members(module: Any, names: list[str]) -> dict[str, Any]:
    """Make what names of a module find, but for those that are served by their functions' entry."""
    rows = rows_of(module.__name__)
    members = {}
    for own in names:
        if own in rows and _is_served(module, own, rows[own]):
            continue
        members[own] = _lifted_name(module, own)
        original = vars(module)[own]
        if _is_dispatched(original) and _core.add_dispatcher(original, _known(original)):
            _everywhere.add(id(original))
    return members


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
    is_library = package in NATIVE_LIBRARIES or package in sys.stdlib_module_names - {"unittest"}
    return not is_library and package != module.__name__.partition(".")[0]


def _enter_restored(name: str, module: Any) -> None:
    """Let names of a module take part that a program has given back meanwhile."""
    awaited = _replaced[name]
    restored = [n for n in awaited if n not in vars(module) or not _is_replaced(module, n)]
    for own, member in _members(module, [n for n in restored if n in vars(module)]).items():
        setattr(_prepared[name], own, member)
    if restored:
        _core.add_lifted(module, _prepared[name])
        awaited.difference_update(restored)
    if not awaited:
        del _replaced[name]


# Functions of NumPy's that convert; they are served where a gradient follows the argument.
_CONVERTING = {"arange", "array", "asanyarray", "asarray"}


def _is_served(module: Any, name: str, row: Override) -> bool:
    """Let a compiled function lead to its rule, wherever a program keeps it.

    Says whether it needs no name on its module: those that make arrays give out other ones to a
    program that asks there.
    """
    original = vars(module).get(name)
    if not isinstance(original, BuiltinFunctionType):
        return False
    rule: Any = row.rule
    converts = module.__name__ == "numpy" and name in _CONVERTING
    if converts and _core.add_method(original, _unless_drawn(rule), "followed"):
        _everywhere.add(id(original))
    if module.__name__ not in {"math", "cmath"}:
        return False
    if row.when is When.ALWAYS:
        return _core.add_method(original, getattr(rule, "declining", rule), "always")
    return _core.add_method(original, rule, "numbers")


# The flag of classes whose methods cannot be set.
_IMMUTABLE = 1 << 8


def _replace_methods(owner: type, methods: Mapping[str, Override]) -> None:
    if owner.__flags__ & _IMMUTABLE:
        return  # compiled in this version
    for name, row in methods.items():
        original = inspect.getattr_static(owner, name, None)
        if original is not None and row.rule is not None:
            patch_method(owner, name, original, row.rule, row.when is When.ALWAYS)


def _by_its_name(module: Any) -> Any:
    return importlib.import_module, (module.__name__,)


def _missing(module: Any, name: str) -> Any:
    raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")


# Classes of NumPy's that make an array where they are called; everywhere else they are themselves.
_MAKING = {"ndarray"}


# What kinds of rows names of a module have.
_NAMED = (Kind.FUNCTION, Kind.CREATOR, Kind.REPLACEMENT, Kind.NUMBER_CLASS)


def _creates(module: Any, name: str) -> bool:
    """Say whether a function makes new arrays."""
    return name in rows_of(module.__name__, Kind.CREATOR)


def _names(module: Any) -> list[str]:
    """Name what has a stand-in: what is in the tables, and what NumPy dispatches by itself.

    The latter sees our arrays where they are arguments, not where they are in a list.
    """
    names = {name for kind in _NAMED for name in rows_of(module.__name__, kind)}
    if module.__name__.partition(".")[0] == "numpy":
        # Another thread may be importing it.
        members = list(vars(module).items())
        names |= {name for name, value in members if _is_dispatched(value)}
    if module is np:
        names |= _MAKING
    return sorted(names & set(vars(module)))


def _is_dispatched(value: Any) -> bool:
    return isinstance(value, DISPATCHER)


def _lifted_name(module: Any, name: str) -> Any:
    original = vars(module)[name]
    number = rows_of(module.__name__, Kind.NUMBER_CLASS).get(name)
    if number is not None:
        stand_in = OverrideFunction(original, number.rule, False, False, "lifted")
        return _core.ModuleAttribute(name, original, stand_in, original)
    if original is np.ndarray:
        make = OverrideFunction(original, None, False, True, "lifted")
        stand_in = _class(original, make, _core.is_lifting, True)
        return _core.ModuleAttribute(name, original, stand_in, original)
    known = _overrides_by_id.get(id(original))
    if known is None:
        # One for all modules that have the function.
        known = original, _stand_in(module, name, "lifted")
        _overrides_by_id[id(original)] = known
    foreign = None
    if _creates(module, name) or isinstance(original, type):
        # What C code writes to, or takes for a class.
        row = rows_of(module.__name__).get(name)
        rule = None if row is None else row.rule
        is_rule = rule is not None and not isinstance(original, type)
        foreign = original
        if is_rule:
            drawn = _unless_drawn(rule, original)
            foreign = OverrideFunction(original, drawn, False, False, "followed")
    return _core.ModuleAttribute(name, original, known[1], foreign)


def _unless_drawn(rule: Any, original: Any = None) -> Any:
    @functools.wraps(rule)
    def convert(*args: Any, **kwargs: Any) -> Any:
        if not is_read_for_display():
            return rule(*args, **kwargs)
        return NotImplemented if original is None else original(*args, **kwargs)

    return convert


class OverrideFunction(_core.OverrideFunction):
    """A function that stands in for another one."""

    __slots__ = ()
    __doc__ = property(lambda self: self.__wrapped__.__doc__)
    __module__ = property(lambda self: self.__wrapped__.__module__)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__wrapped__, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__wrapped__, name)


def _stand_in(module: Any, name: str, when: str) -> Any:
    """Make what stands in for a function: while names are lifted, or in a namespace of ours."""
    original = vars(module)[name]
    replacement = rows_of(module.__name__, Kind.REPLACEMENT).get(name)
    if replacement is not None and replacement.rule is not None:
        return replacement.rule(
            original, _core.is_lifting if when == "lifted" else _core.isderiving
        )
    row = rows_of(module.__name__).get(name)
    rule: Any = None if row is None else row.rule
    always = row is not None and row.when is When.ALWAYS
    if rule is not None and isinstance(original, type) and _is_open(original):
        meets = _core.is_lifting if when == "lifted" else lambda: True
        return _class(original, rule, meets, always)
    if always:
        return _always(original, rule, when)
    return OverrideFunction(original, rule, _is_dispatched(original), _creates(module, name), when)


class _Asked(OverrideFunction):
    # It calls its rule whatever the arguments are: an array may hide in a function among them.
    __slots__ = ("_meets", "_rule")
    __doc__ = vars(OverrideFunction)["__doc__"]
    __module__ = vars(OverrideFunction)["__module__"]
    _meets: Callable[[], bool]
    _rule: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self._rule if self._meets() else self.__wrapped__)(*args, **kwargs)


def _always(original: Any, rule: Any, when: str) -> Any:
    stand_in = _Asked(original, rule, False, False, when)
    # Its own attributes: others are set on the function that it stands for.
    object.__setattr__(stand_in, "_rule", rule)
    object.__setattr__(stand_in, "_meets", _core.is_lifting if when == "lifted" else lambda: True)
    return stand_in


def who_asks(frame: Any) -> str:
    """Say who asks for a name: a frame's code, or compiled code that it calls."""
    own = is_user_code(frame)
    if own and callee_name(frame, {"getattr"}) is not None:
        # What is pickled as a name of a module is compared with what is found there.
        return "library" if package_of(frame) == "pickle" else "by name"
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] not in _ASKING and (code[at], code[at + 1]) != _ALL_NAMES:
        return "compiled"
    if not own:
        return "library"
    name = current_instruction(frame).argval
    if name in _MAKING:
        return "own" if is_called(frame) else "library"
    return (
        "own"
        if name not in rows_of("numpy", Kind.NUMBER_CLASS) or makes_traced_scalar(frame)
        else "library"
    )


# The instructions of Python code that look a name up on a module.
_ASKING = {
    dis.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM") if name in dis.opmap
}
# The instruction that looks all of them up, which is one of many uses of an instruction in some
# interpreters.
_ALL_NAMES = next(
    (step.opcode, step.arg or 0)
    for step in dis.get_instructions(compile("from m import *", "", "exec"))
    if "IMPORT_STAR" in step.opname + step.argrepr
)


def standing_in(function: Any) -> Any:
    """Give what stands in for a function that is differentiated itself."""
    prepare()
    found = _known(function)
    return function if found is None else found


def found(module: str, name: str) -> Any:
    """Give a name of a module: what stands in for it is pickled like this."""
    return getattr(importlib.import_module(module), name)


def namespace(names: dict[str, Any], name: str) -> None:
    """Fill a module with another one's names, and our stand-ins for some: no need of lifting."""
    module = importlib.import_module(name)
    prepare()
    for own in set(_names(module)) - set(rows_of(name, Kind.NUMBER_CLASS)) - _MAKING:
        names[own] = _stand_in(module, own, "imported")
    names["__getattr__"] = functools.partial(getattr, module)
    names["__dir__"] = functools.partial(dir, module)
    names["__all__"] = getattr(module, "__all__", [n for n in dir(module) if n[0] != "_"])


def _is_open(original: type) -> bool:
    """Say whether a class can be derived from."""
    return bool(original.__flags__ & 1 << 10)


def _class(original: Any, rule: Any, meets: Callable[[], bool], always: bool) -> Any:
    """Let a class make what a rule makes of our arrays; it stays a class, for `isinstance`."""

    class Meta(type(original)):  # type: ignore[misc]
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if meets() and (always or _core.contains_array(args, kwargs)):
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


class lifting:  # noqa: N801
    """Switch lifting on or off, in this thread, for a block of code.

    While a gradient is recorded, `np.zeros`, `np.array`, `math.sin`, `scipy.linalg.solve` and other
    names that NumPy does not dispatch know our arrays; other threads see the originals, and so does
    everybody when the last recording has ended. `ct.lifting(False)` leaves them as they are.

    >>> import math
    >>> import cotan as ct
    >>> ct.gradient(lambda x: math.exp(x), 0.0)
    (1.0,)
    >>> with ct.lifting(False):
    ...     ct.gradient(lambda x: math.exp(x), 0.0)
    Traceback (most recent call last):
        ...
    cotan.NotDifferentiableError: float(x) would drop the gradient; ...
    """

    def __init__(self, on: bool = True) -> None:
        self._on = on

    def __enter__(self) -> None:
        self._before = _core.switch_lifting(self._on)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _core.switch_lifting(self._before)


def lift(module: ModuleType, name: str, rule: Callable[..., Any]) -> None:
    """Let `module.name` be computed by `rule` whenever an `Array` is among its arguments.

    `rule` has the function's own signature and computes with what cotan knows; without an `Array`
    among the arguments the original is called. It holds while something is recorded, see
    `ct.lifting`.

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
    enter(Override(f"{module.__name__}.{name}", rule))
    _overrides_by_id.pop(id(original), None)
    if module.__name__ not in _prepared:
        _prepare(module.__name__, module)
    # It was asked for by name, so it may be a program's own function.
    _replaced.get(module.__name__, set()).discard(name)
    lifted = _prepared[module.__name__]
    setattr(lifted, name, _lifted_name(module, name))
    _core.add_lifted(module, lifted)


def lift_module(*modules: ModuleType) -> None:
    r"""Let the names that modules imported before (`from numpy import zeros`) take part in lifting.

    They stand for the same functions as before; while something is recorded they know our arrays.
    Numbers that these modules make of traced scalars (`float(x)`, `np.float64(x)`) stay traced. In
    programs that do not know of cotan both happens unasked, wherever the function that is
    differentiated leads to them; this is for those that are out of its reach, and for modules that
    import cotan.

    Raises `TypeError` for what is no module.

    >>> import types
    >>> import cotan as ct
    >>> code = types.ModuleType("code")
    >>> exec("from math import sin\ndef f(x): return sin(x)", vars(code))
    >>> ct.lift_module(code)
    >>> ct.gradient(code.f, 0.0)
    (1.0,)
    >>> exec("def g(x): return float(x) ** 2", vars(code))
    >>> ct.lift_module(code)
    >>> ct.gradient(code.g, 3.0)
    (6.0,)
    """
    prepare()
    for module in modules:
        if not isinstance(module, ModuleType):
            raise TypeError(f"lift_module: takes modules, not {type(module).__name__}")
        for name, value in list(vars(module).items()):
            stand_in = _known(value)
            if stand_in is not None:
                setattr(module, name, stand_in)
        keep_traced(module)
    # Before, some places in their code may have got what the modules have.
    _core.forget_places()


def home(function: Any) -> tuple[str, str]:
    """Give the module and the name that a lifted function is known by."""
    for module, lifted in _prepared.items():
        for name in vars(lifted):
            if vars(sys.modules[module]).get(name) is function:
                return module, name
    return str(getattr(function, "__module__", "")), str(getattr(function, "__name__", function))


def is_original(value: Any) -> bool:
    """Say whether something stands in for a value where a module is asked, and only there."""
    return _known(value) is not None and id(value) not in _everywhere
