"""Runs the Python source of NumPy and SciPy on `Array`s, with substituted globals.

Problem: half of their functions are Python code over the other half: padding, statistics,
quadrature, steps of solvers. That code would run on `Array`s unchanged, if it did not call a few
functions that convert to ndarray (`asarray`, `empty`) or compiled code that needs memory. So a
function is run with a copy of its module's globals in which these names are substituted
(`rebind_function`). Signatures, corner cases and messages are those of the installed version; what
would drop a gradient on the way is refused by `Array` itself.

`substitute_for` says what replaces an object. Substitutes for NumPy's functions are found by
identity, wherever they were imported (`SUBSTITUTES`). Functions of SciPy have a rule in the
registry (`runtime.registry`); any other Python function of the libraries is rebound in its turn.
`REBOUND`, `REBOUND_METHOD` and `refused` make rules for rows of the registry.
"""

import builtins
import functools
import importlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.runtime.libraries import Trait, libraries_with
from cotan._src.runtime.ndarray_subclasses import expect_unmasked
from cotan._src.runtime.originals import note_rebound, original_of
from cotan._src.runtime.registry import (
    FUNCTIONS,
    METHOD,
    REBOUND_CLASS,
    Kind,
    Override,
    Rule,
    RuleMaker,
    Way,
    When,
    override,
    owners,
    rows_of,
)
from cotan._src.runtime.values import DISPATCHER, OverArray, assign, contains_active, to_numpy
from cotan._src.typing import Args, Function, Kwargs

# Objects of NumPy's by identity, and their substitutes. These are no rows of the registry: some
# have no dotted name (`np.concatenate.__wrapped__`), and others are not callable (`np.r_`).
SUBSTITUTES: dict[int, object] = {}
# Packages, and single modules of others.
_LIBRARIES = libraries_with(Trait.REBOUND)


def contains_unmasked_array(
    items: Iterable[object], kinds: type | tuple[type, ...] = (Array, OverArray)
) -> bool:
    """Say whether an `Array` is among items, or in lists or tuples among them.

    Raises `TypeError` for a masked array of NumPy's that comes before it and has no class twin:
    code that runs on the items would use its values alone. `_core.contains_array`, which is
    asked where NumPy still decides, passes it over.
    """
    for x in items:
        if isinstance(x, kinds):
            return True
        if isinstance(x, (list, tuple)) and contains_unmasked_array(x, kinds):
            return True
        expect_unmasked(x)
    return False


# --------------------------------------------------------------------------------------------------
# Which object has which substitute


# The kinds of rows that give a substitute for an attribute of a module.
_IN_MODULES = (Kind.FUNCTION, Kind.SUBSTITUTE, Kind.REBOUND_CLASS)


class _Table:
    """Substitutes for objects of SciPy's, by identity: renewed when modules have been imported."""

    def __init__(self) -> None:
        self._known: tuple[int, ...] = ()
        self._found: dict[int, tuple[object, Any]] = {}

    def get(self, value: object) -> Any:
        loaded = {name for name in owners(*_IN_MODULES) if name in sys.modules}
        known = (len(loaded), *(len(rows_of(n, kind)) for kind in _IN_MODULES for n in loaded))
        if known != self._known:
            self._renew(loaded)
            self._known = known
        found = self._found.get(id(value))
        return None if found is None else found[1]

    def _renew(self, loaded: set[str]) -> None:
        found: dict[int, tuple[Any, Any]] = {}
        for name in sorted(loaded):
            module = vars(sys.modules[name])
            for attribute, row in rows_of(name).items():
                value = module.get(attribute)
                # A class is also asked what its instances are.
                if value is not None and not isinstance(value, type):
                    found[id(value)] = value, _dispatched(value, row)
            for kind in (Kind.REBOUND_CLASS, Kind.SUBSTITUTE):
                for attribute, row in rows_of(name, kind).items():
                    if attribute in module:
                        value = module[attribute]
                        found[id(value)] = value, row.rule
        for value, rule in list(found.values()):
            if rule is None:
                found[id(value)] = value, rebound_class(value)
        self._found = found


_TABLE = _Table()


def _dispatched(function: Function, row: Override) -> Rule:
    """Choose between a function and its rule, as dispatchers do while recording."""
    rule: Any = row.rule
    if row.when is When.ALWAYS:
        return rule  # type: ignore[no-any-return]

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        if contains_unmasked_array(args) or contains_unmasked_array(kwargs.values()):
            return rule(*args, **kwargs)
        return function(*args, **kwargs)

    return call


def substitute_for(value: object) -> Any:
    """Give the substitute for an object in rebound code, and any other object as it is."""
    found = SUBSTITUTES.get(id(value))
    if found is not None:
        return found
    if isinstance(value, DISPATCHER):
        return ask_inside_lists(value)
    if isinstance(value, ModuleType):
        return namespace(value) if _is_library(value.__name__) else value
    if isinstance(value, (type, FunctionType)) or callable(value):
        found = _TABLE.get(value)
        if found is not None:
            return found
    if isinstance(value, FunctionType) and _is_library(value.__module__ or ""):
        return _of_constants(value) if _designs(value) else rebind_function(value)
    return value


# What SciPy computes of constants on the way to active values: windows, filters, nodes.
_DESIGNS = (
    "scipy.signal._filter_design", "scipy.signal._fir_filter_design", "scipy.signal._czt",
    "scipy.signal._savitzky_golay", "scipy.signal.windows",
)  # fmt: skip


def _designs(function: FunctionType) -> bool:
    return (function.__module__ or "").startswith(_DESIGNS) and function.__name__[0] != "_"


def _of_constants(function: FunctionType) -> Function:
    """Let a function of constants alone be the library's: it may know functions by identity."""
    ours_of = rebind_function(function)

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        active = contains_unmasked_array(args) or contains_unmasked_array(kwargs.values())
        return (ours_of if active else function)(*args, **kwargs)

    return call


def _is_library(name: str) -> bool:
    return name.partition(".")[0] in _LIBRARIES or name in _LIBRARIES


def ask_inside_lists(function: Function) -> Function:
    """Ask arrays inside of lists too what to do; NumPy asks only those that it gets themselves."""

    def call(*args: object, **kwargs: object) -> object:
        lists = [a for a in args if isinstance(a, (list, tuple))]
        # What stands over an array is asked by NumPy itself, in lists, too.
        if contains_unmasked_array(lists, Array) and not contains_unmasked_array(lists, OverArray):
            return FUNCTIONS.get(function, function)(*args, **kwargs)
        return function(*args, **kwargs)

    return call


def _attribute(module: ModuleType, name: str) -> Any:
    names = vars(module)  # the originals, whatever is lifted
    return names[name] if name in names else getattr(module, name)


class Namespace:
    """A module of a library's, as that code sees it."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = substitute_for(_attribute(self._module, name))
        setattr(self, name, value)
        return value


_NAMESPACES: dict[str, Namespace] = {}


def namespace(module: ModuleType) -> Namespace:
    """Give a module as that code sees it."""
    return _NAMESPACES.setdefault(module.__name__, Namespace(module))


# Rows that are asked by the name in a module, the first one first.
_BY_NAME = (Kind.LOCAL_SUBSTITUTE, Kind.SUBSTITUTE)


class _Globals(dict[str, object]):
    """The names of a library's module, as that code sees them; filled as they are used."""

    def __init__(self, names: dict[str, object]) -> None:
        super().__init__(__builtins__=BUILTINS, __name__=names.get("__name__", ""))
        self._names = names

    def __missing__(self, name: str) -> object:
        module: Any = self["__name__"]
        found = (rows_of(module, kind).get(name) for kind in _BY_NAME)
        row = next((row for row in found if row is not None and row.rule is not None), None)
        value: object
        if row is not None:
            value = row.rule
        elif name in self._names or name not in BUILTINS:
            value = substitute_for(self._names[name])
        else:
            # Else each use of a builtin would come here.
            value = BUILTINS[name]
        self[name] = value
        return value


def _import(name: str, globals: dict[str, object] | None = None,
            locals: dict[str, object] | None = None, fromlist: Sequence[str] = (),
            level: int = 0) -> Namespace | ModuleType:  # fmt: skip
    """Import for a function that does so when it runs."""
    names = getattr(globals, "_names", globals)
    module = builtins.__import__(name, names, locals, fromlist, level)
    return namespace(module) if _is_library(module.__name__) else module


BUILTINS = {**vars(builtins), "__import__": _import}

# --------------------------------------------------------------------------------------------------
# Functions and classes with substituted globals

_GLOBALS: dict[int, _Globals] = {}
_REBOUND: dict[int, tuple[object, Any]] = {}
_REBOUND_CLASSES: set[type] = set()


def rebind_function(function: FunctionType) -> Function:
    """Give a function of a library with substituted globals."""
    function = original_of(function)
    if id(function) not in _REBOUND:
        names = function.__globals__
        cells = [CellType() for _ in function.__closure__ or ()]
        copy = FunctionType(
            function.__code__,
            _GLOBALS.setdefault(id(names), _Globals(names)),
            function.__name__,
            function.__defaults__,
            tuple(cells) if function.__closure__ else None,
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__qualname__ = function.__qualname__
        copy.__module__ = function.__module__
        copy.__doc__ = function.__doc__  # libraries add to it
        vars(copy).update({k: v for k, v in vars(function).items() if k != "__wrapped__"})
        _REBOUND[id(function)] = function, copy
        note_rebound(copy, function)
        names_of = function.__code__.co_freevars
        for name, cell, known in zip(names_of, cells, function.__closure__ or (), strict=True):
            try:
                value = known.cell_contents
            except ValueError:
                continue  # a name that was never bound
            # `super()` goes on after the class that the method was written in.
            cell.cell_contents = value if name == "__class__" else substitute_for(value)
    result: Function = _REBOUND[id(function)][1]
    return result


def rebound(function: Function) -> Function:
    """Give a public function of NumPy's, rebound."""
    return rebind_function(inspect.unwrap(function))


def rebound_class(cls: type) -> type:
    """Give a subclass of a class of SciPy's, with our names in all of its methods.

    It comes before the class, and inherits from such subclasses of the class's bases, so that
    `super()` in its methods finds them.
    """
    if cls in _REBOUND_CLASSES:
        return cls
    if id(cls) in _REBOUND:
        return _REBOUND[id(cls)][1]  # type: ignore[no-any-return]
    bases = [rebound_class(b) for b in cls.__bases__ if _is_python_class(b)]
    members: dict[str, object] = {"__slots__": (), "__module__": cls.__module__}
    for name, value in vars(cls).items():
        instead = _member_of(cls, name)
        member = instead or _member(original_of(value))
        if isinstance(member, FunctionType) and (name == "__call__" or name[0] != "_"):
            member = _replayed(member)
            note_rebound(member, original_of(value))
        if member is not None:
            members[name] = member
    copy: type = type(cls)(cls.__name__, (cls, *bases), members)
    copy.__qualname__ = cls.__qualname__
    copy.__doc__ = cls.__doc__
    _REBOUND_CLASSES.add(copy)
    note_rebound(copy, cls)
    _REBOUND[id(cls)] = cls, copy
    return copy


def _replayed(member: FunctionType) -> Function:
    """Let a prepared function repeat calls of a method that reads the values of its arguments.

    Users call it past the entries of the class that it is derived from.
    """
    call = _core.OverrideFunction(member, member, member, False, False, "lifted")

    def method(self: object, *args: object, **kwargs: object) -> object:
        if not _core.is_preparing():
            return member(self, *args, **kwargs)
        return call(self, *args, **kwargs)

    functools.update_wrapper(method, member)
    return method


def class_twin(cls: type, name: str, bases: tuple[type, ...], left_out: set[str]) -> type:
    """Give a copy of a class of NumPy's over other bases, with substituted globals.

    It does not derive from the class, whose objects are memory. `super()` in its methods goes on to
    the other bases.
    """
    members = {n: x for n, x in vars(cls).items() if n not in left_out}
    members |= {n: copy for n, x in members.items() if (copy := _member(x)) is not None}
    for attribute in ("__dict__", "__weakref__"):
        members.pop(attribute, None)
    copy = type(bases[0])(name, bases, members)
    for function in _functions(members.values()):
        for variable, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            if variable == "__class__":
                cell.cell_contents = copy
    return copy


def _functions(members: Iterable[object]) -> Iterator[FunctionType]:
    for x in members:
        if isinstance(x, FunctionType):
            yield x
        elif isinstance(x, property):
            yield from _functions((x.fget, x.fset, x.fdel))
        elif isinstance(x, (staticmethod, classmethod)):
            yield from _functions((x.__func__,))


def _is_python_class(cls: type) -> bool:
    return cls is not object and _is_library(cls.__module__) and not issubclass(cls, BaseException)


def _member(value: object) -> Any:
    """Give a member of a class with our names; None for one that can be inherited."""
    if isinstance(value, FunctionType):
        return rebind_function(value)
    if isinstance(value, (staticmethod, classmethod)):
        inner = _member(value.__func__)
        return None if inner is None else type(value)(inner)
    if isinstance(value, property):
        accessors: list[Function | None] = [value.fget, value.fset, value.fdel]
        get, put, delete = (f and (_member(f) or f) for f in accessors)
        return property(get, put, delete, value.__doc__)
    return None


# --------------------------------------------------------------------------------------------------
# Finding things


def locate(name: str) -> Any:
    """Give the object of a dotted name, importing its module; the original while it is lifted."""
    owner, _, attribute = name.rpartition(".")
    module = sys.modules.get(owner)
    # The import system costs 0.2 ms in a recording, where importing has an override.
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        module = importlib.import_module(owner)
    return _attribute(module, attribute)


def locate_original(name: str) -> Any:
    """Give a function for its own rule to call: as the library has it, without the entry.

    The entry leads cotan's own calls to the library while its rule runs. A replay calls the rule
    without passing the entry, which would then lead to the rule again.
    """
    return original_of(locate(name))


def rebound_by_name(name: str) -> Function:
    """Give a function of a library, by its dotted name, rebound."""
    return rebind_function(locate(name))


class ReboundInstance:
    """An instance of a library's class whose methods run with our names, those it calls too.

    `instead` has methods, with the instance first, that take the place of its own.
    """

    def __init__(self, instance: object, **instead: Function) -> None:
        self.__dict__["_instance"] = instance
        self.__dict__["_instead"] = instead

    def __getattr__(self, name: str) -> Any:
        instance = self._instance
        if name in self._instead:
            return MethodType(self._instead[name], self)
        for cls in type(instance).__mro__:
            if name in vars(cls):
                member = _member_of(cls, name)
                if isinstance(member, FunctionType):
                    return MethodType(member, self)
                method = original_of(vars(cls)[name])
                if isinstance(method, FunctionType) and _is_library(method.__module__ or ""):
                    return MethodType(rebind_function(method), self)
                break
        value = getattr(instance, name)
        if isinstance(value, FunctionType) and _is_library(value.__module__ or ""):
            return rebind_function(original_of(value))
        # Some keep the namespace of their arrays.
        return substitute_for(value) if isinstance(value, ModuleType) else value

    def __setattr__(self, name: str, value: object) -> None:
        if not contains_unmasked_array((value,)):
            # What it remembers of constants.
            setattr(self._instance, name, value)
            return
        raise TypeError(
            f"{type(self._instance).__name__}: {name} is set by code that is being recorded"
        )


def _member_of(cls: type, name: str) -> Function | None:
    """Give the substitute for a member of a class, None without one."""
    row = rows_of(f"{cls.__module__}.{cls.__qualname__}", Kind.SUBSTITUTE_MEMBER).get(name)
    return None if row is None else row.rule


def rebinds_instances(*classes: str) -> None:
    """Make constructors of these classes give rebound instances when an argument is an `Array`."""
    for name in classes:
        override(f"{name}.__init__", kind=METHOD)(init_rebound)
        override(name, kind=REBOUND_CLASS)(None)


def init_rebound(self: object, *args: object, **kwargs: object) -> None:
    """Make of a new instance a rebound one, and initialize it as the library does."""
    self.__class__ = rebound_class(type(self))
    owner = next(c for c in type(self).__mro__ if "__init__" in vars(c))
    rebind_function(original_of(vars(owner)["__init__"]))(self, *args, **kwargs)


# --------------------------------------------------------------------------------------------------
# Rules that are made from a target's name


def _library_code(undecorated: bool, target: str) -> Rule:
    @functools.cache
    def rebind() -> Rule:
        function = locate(target)
        if isinstance(function, functools.partial):
            inner: Any = function.func
            return functools.partial(rebind_function(inner), *function.args, **function.keywords)
        return rebind_function(inspect.unwrap(function) if undecorated else function)

    def run(*args: object, **kwargs: object) -> object:
        return rebind()(*args, **kwargs)

    return run


#: The library's Python code, rebound.
REBOUND = RuleMaker(functools.partial(_library_code, False), Way.REBOUND)
#: The same without the function's decorators, which look at NaN and axes by means of ndarrays.
REBOUND_UNDECORATED = RuleMaker(functools.partial(_library_code, True), Way.REBOUND)


def _library_method(target: str) -> Rule:
    cls, _, name = target.rpartition(".")

    def method(self: object, *args: object, **kwargs: object) -> object:
        if isinstance(self, ReboundInstance):
            # A method of a derived class goes on to that of its base.
            original = original_of(vars(locate(cls))[name])
            return rebind_function(original)(self, *args, **kwargs)
        return getattr(ReboundInstance(self), name)(*args, **kwargs)

    return method


#: The library's Python code of a method, rebound, for instances that hold no `Array`.
REBOUND_METHOD = RuleMaker(_library_method, Way.REBOUND)


def refused(instead: str) -> RuleMaker:
    """Refuse functions by name when their arguments are active, and say what to write."""

    def refusal(target: str) -> Rule:
        def refuse(*args: object, **kwargs: object) -> object:
            if contains_active(args) or contains_active(kwargs):
                raise NotDifferentiableError(
                    f"{target} has no derivative rule in cotan; {instead}, or hold its arguments "
                    "constant with ct.dropgrad"
                )
            return call_original(target, args, kwargs)

        return refuse

    return RuleMaker(refusal, Way.REFUSED)


def _on_values(target: str) -> Rule:
    def constant(*args: object, **kwargs: object) -> object:
        return call_original(target, args, kwargs)

    return constant


#: A function whose result is piecewise constant: the original, on values.
ON_VALUES = RuleMaker(_on_values, Way.VALUES)


# What SciPy's functions call the arrays that they write to.
_TARGETS = ("output", "out", "distances", "indices")


def call_original(name: str, args: Args, kwargs: Kwargs) -> Any:
    """Run a function on values, and write back what it has written to an `Array`."""
    function = locate(name)
    given = inspect.signature(function).bind(*args, **kwargs)
    names = given.arguments
    targets = {n: names[n] for n in _TARGETS if isinstance(names.get(n), Array)}
    written = {n: _core.value(x).copy() for n, x in targets.items()}
    given.arguments.update(written)
    values = {key: detached(v) for key, v in given.kwargs.items()}
    result = function(*map(detached, given.args), **values)
    for n, x in targets.items():
        assign(name, x, written[n])

    def handed(x: object) -> object:
        return next((targets[n] for n in targets if x is written[n]), x)

    return tuple(map(handed, result)) if type(result) is tuple else handed(result)


def detached(x: object) -> Any:
    """Give the values of an `Array`, or of those in a list, even of active ones."""
    if isinstance(x, (list, tuple)) and contains_unmasked_array(x):
        return type(x)(map(detached, x))
    return to_numpy(_core.dropgrad(x)) if isinstance(x, Array) else x
