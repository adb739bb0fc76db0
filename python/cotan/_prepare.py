"""Prepared functions: recorded once, replayed without Python."""

import functools
import inspect
import pickle
import random
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from cotan import _core
from cotan._api import hvp

_TRANSFORMS = ("gradient", "value_and_gradient", "value", "pullback", "hvp")


def prepare(
    f: Callable[..., Any],
    /,
    *example: Any,
    transform: str = "gradient",
    wrt: Any = None,
    out: Any = None,
) -> _core.Prepared:
    """Record a function once, and replay it without touching Python.

    Parameters
    ----------
    f
        The function. For the transforms that differentiate it returns a real scalar, except for
        `"pullback"`.
    example
        Arguments to record with, if any are given; else the first call records. What is `ct.const`
        among them stays constant in every call.
    transform
        What the prepared function gives: `"gradient"`, `"value_and_gradient"`, `"pullback"` (as
        the functions of these names), `"value"` (what `f` returns), or `"hvp"` (as
        `ct.hvp(f, x, v)`, called with `x, v`).
    wrt
        As for `gradient`.
    out
        Buffers that every call writes its results to: a structure like that of the result, with
        None for what is to be a fresh array.

    Returns a function of the same arguments, with the same results: numbers among the arguments
    count as floats, also for `"value"`, divisions by zero give infinities, and the caller does not
    see what the function writes to its arguments. Another shape, dtype, structure or way that the
    code takes is recorded anew.

    Raises `TypeError` where the function does what a replay could not repeat: it takes a value out
    of what is recorded (`float(ct.dropgrad(x))`, `print(x)`), writes to what it closes over, draws
    random numbers.

    >>> import cotan as ct
    >>> import numpy as np
    >>> x, c = np.array([0.0, 1.0]), np.array([2.0, 3.0])
    >>> g = ct.prepare(lambda x, c: np.sum(x * x * c), x, ct.const(c))
    >>> g(x, c)
    (array([0., 6.]), None)
    """
    if transform not in _TRANSFORMS:
        raise ValueError(
            f"prepare: transform must be one of {', '.join(_TRANSFORMS)}, not {transform!r}"
        )
    if not callable(f):
        raise TypeError(f"prepare: the first argument must be callable, not {type(f)}")
    if transform == "hvp":
        if wrt is not None:
            raise TypeError("prepare: wrt does not go with transform='hvp'")
        f, transform = functools.partial(hvp, f), "value"
    held = [isinstance(x, _core.Const) for x in example]
    prepared = _core.Prepared(f, transform, wrt, held, out)
    if example:
        prepared.record(*example)
    return prepared


def prepared(
    f: Callable[..., Any] | None = None,
    /,
    *,
    transform: str = "gradient",
    wrt: Any = None,
) -> Any:
    """Prepare a function where it is defined; it is recorded at its first call.

    >>> import cotan as ct
    >>> @ct.prepared(transform="value_and_gradient")
    ... def cube(x):
    ...     return x**3
    >>> cube(2.0)
    (8.0, (12.0,))
    """
    if f is None:
        return functools.partial(prepared, transform=transform, wrt=wrt)
    return prepare(f, transform=transform, wrt=wrt)


# --------------------------------------------------------------------------------------------------
# What the code of a function depends on besides its arguments

_LIBRARIES = {"cotan", "numpy", "scipy", *sys.stdlib_module_names} - {"__main__"}
_WITHOUT_PARTS = (
    *(float, int, str, bool, complex, bytes, type(None), np.generic),
    *(type, BuiltinFunctionType),
)
_CONTAINERS = (set, frozenset, deque, array, bytearray)
# So many items of containers are watched.
_MANY = 1000
_UNBOUND = object()


def _is_library(name: Any) -> bool:
    return str(name or "").partition(".")[0] in _LIBRARIES


class _Search:
    """Names, variables, attributes and lists that code refers to, and what they hold."""

    def __init__(self, function: Any) -> None:
        # What holds it, its name there, the value, and the function whose code refers to it.
        self.found: list[tuple[Any, Any, Any, int]] = []
        self.generators: list[Any] = []
        self._seen: set[int] = set()
        self._keep: list[Any] = []
        self._work: list[tuple[Any, frozenset[str], int]] = [(function, frozenset(), 0)]
        while self._work and len(self.found) < _MANY:
            value, names, self._of = self._work.pop()
            self._visit(value, names)
        arguments = [] if isinstance(function, tuple) else [np.random, random]
        self._states = [(g, _state(g)) for g in (*arguments, *self.generators)]

    def _note(self, owner: Any, name: str, value: Any) -> None:
        self.found.append((owner, name, value, self._of))

    def _add(self, value: Any, names: frozenset[str]) -> None:
        self._work.append((value, names, self._of))

    def _new(self, value: Any) -> bool:
        if id(value) in self._seen:
            return False
        self._seen.add(id(value))
        self._keep.append(value)
        return True

    def _visit(self, value: Any, names: frozenset[str]) -> None:
        if isinstance(value, _WITHOUT_PARTS) or not self._new(value):
            return
        if type(value) in (np.ndarray, _core.Array):
            self._note(value, "", None)
        elif isinstance(value, (functools.partial, MethodType, FunctionType)):
            self._called(value, names)
        elif isinstance(value, (list, tuple, dict)):
            self._items(value, names)
        elif isinstance(value, _CONTAINERS):
            self._note(value, "", list(value))
        elif isinstance(value, Iterator):
            raise TypeError(
                "prepare: the function uses an iterator from outside, which a replay would not "
                "move on; take from it outside and pass what it gives as an argument"
            )
        elif isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
            self.generators.append(value)
        elif not isinstance(value, ModuleType):
            call = inspect.getattr_static(type(value), "__call__", None)
            if isinstance(call, FunctionType):
                self._add(call, names)
                names |= _names(call.__code__)
            names = _with_methods(type(value), names)
            self._attributes(getattr(value, "__dict__", None), names)
            self._class(value, names)
        elif not _is_library(value.__name__):
            self._attributes(vars(value), names)

    def _called(self, value: Any, names: frozenset[str]) -> None:
        if isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._add(part, names)
        elif isinstance(value, MethodType):
            self._add(value.__func__, names)
            self._add(value.__self__, names | _names(getattr(value.__func__, "__code__", None)))
        else:
            self._function(value)

    def _items(self, value: Any, names: frozenset[str]) -> None:
        if isinstance(value, list):
            self._note(value, "", list(value))
        if isinstance(value, dict):
            self._note(value.keys(), "", list(value))
            self._note(value.values(), "", list(value.values()))
        items = list(value.values()) if isinstance(value, dict) else value
        for item in items[:_MANY]:
            self._add(item, names)

    def _attributes(self, members: Any, names: frozenset[str]) -> None:
        if type(members) is dict:
            for name in sorted(names & members.keys()):
                self._note(members, name, members[name])
                self._add(members[name], names)
            for name in sorted(names - members.keys()):
                self._note(members, name, None)

    def _class(self, value: Any, names: frozenset[str]) -> None:
        """Note what code finds on the classes of an object."""
        cls = type(value)
        for name in sorted(names):
            found = (vars(c) for c in cls.__mro__ if name in vars(c))
            members = next(found, None)
            if members is None or _is_library(members.get("__module__")):
                continue
            member = members[name]
            if isinstance(member, MemberDescriptorType):
                if hasattr(value, name):
                    self._note(value, name, getattr(value, name))
                    self._add(getattr(value, name), names)
                continue
            self._note(cls, name, member)
            self._add(_function_of(member), names)

    def _function(self, function: Any) -> None:
        self._of = id(function)
        if _is_library(function.__globals__.get("__name__")):
            # A wrapper: what it wraps is the user's.
            for cell in function.__closure__ or ():
                if callable(value := _content(cell)):
                    self._add(value, frozenset())
            return
        names = _names(function.__code__)
        for cell in function.__closure__ or ():
            value = _content(cell)
            if value is not _UNBOUND:
                self._note(cell, "", value)
                self._add(value, names)
        members = function.__globals__
        for name in sorted(names & members.keys()):
            value = members[name]
            if not (isinstance(value, ModuleType) and _is_library(value.__name__)):
                self._note(members, name, value)
            self._add(value, names)
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._add(value, names)
        self._note(function, "__defaults__", function.__defaults__)
        # Attributes of the function itself, which it finds by its name.
        self._attributes(function.__dict__, names & function.__dict__.keys())

    def expect_same_random(self) -> None:
        """Refuse a function that has drawn random numbers."""
        for generator, before in self._states:
            if _state(generator) != before:
                name = getattr(generator, "__name__", type(generator).__name__)
                raise TypeError(
                    f"prepare: the function draws random numbers ({name}), which a replay would "
                    "repeat; draw them outside and pass them as an argument"
                )


def _function_of(member: Any) -> Any:
    """Give the function behind a member of a class, if it is a method or a property."""
    if isinstance(member, property):
        return member.fget
    return getattr(member, "__func__", member)


def _with_methods(owner: type, names: frozenset[str]) -> frozenset[str]:
    """Add the names in the methods with these names, and in the methods that those name."""
    classes = [vars(c) for c in owner.__mro__ if not _is_library(c.__module__)]
    work, done = set(names), set[str]()
    while work:
        name = work.pop()
        done.add(name)
        for members in classes:
            code = getattr(_function_of(members.get(name)), "__code__", None)
            work |= _names(code) - done
    return frozenset(done)


def _content(cell: Any) -> Any:
    """Give what a variable of an enclosing function holds."""
    try:
        return cell.cell_contents
    except ValueError:
        return _UNBOUND


def functions_in(functions: list[Any]) -> list[int]:
    """Give the identities of functions, and of those that they wrap."""
    found: dict[int, Any] = {}
    work = list(functions)
    while work:
        function = work.pop()
        if isinstance(function, functools.partial):
            work.append(function.func)
        elif isinstance(function, MethodType):
            work.append(function.__func__)
        elif isinstance(function, FunctionType) and id(function) not in found:
            found[id(function)] = function
            if _is_library(function.__globals__.get("__name__")):
                work += [_content(cell) for cell in function.__closure__ or ()]
    return list(found)


def _names(code: Any) -> frozenset[str]:
    """Give the names of globals and attributes in a piece of code and those inside it."""
    if not isinstance(code, CodeType):
        return frozenset()
    names = set(code.co_names)
    for constant in code.co_consts:
        names |= _names(constant)
        # `getattr(x, "w")`, `vars(x)["w"]`.
        if isinstance(constant, str) and constant.isidentifier():
            names.add(constant)
    return frozenset(names)


def surroundings(function: Any, args: tuple[Any, ...]) -> _Search:
    """Find what to watch around a function, and the random numbers that it may draw."""
    search = _Search(function)
    search._states += _Search(args)._states
    return search


def _state(generator: Any) -> bytes:
    if generator is random or isinstance(generator, random.Random):
        return pickle.dumps(generator.getstate())
    if isinstance(generator, np.random.Generator):
        return pickle.dumps(generator.bit_generator.state)
    return pickle.dumps(generator.get_state())


def place() -> str:
    """Give the line of the user's code that is running, as the beginning of a message."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if str(name).partition(".")[0] not in ("cotan", "numpy", "scipy"):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}: "
        frame = frame.f_back
    return ""


# --------------------------------------------------------------------------------------------------
# Buffers for results


class Result:
    """Stands for a result in a structure."""

    def __init__(self, index: int) -> None:
        self.index = index


def pairs(template: Any, out: Any, path: str = "out") -> list[tuple[int, Any, str]]:
    """Give for each buffer in `out` the number of its result, which `template` has in its place."""
    if out is None:
        return []
    if isinstance(template, Result):
        return [(template.index, out, path)]
    if template is None or isinstance(template, _WITHOUT_PARTS):
        raise ValueError(f"prepared: {path} has no array to hold ({template!r}); put None there")
    if isinstance(template, dict):
        if not isinstance(out, dict) or out.keys() != template.keys():
            raise ValueError(f"prepared: {path} must be a dictionary with keys {list(template)}")
        parts = [(f"{path}[{key!r}]", template[key], out[key]) for key in template]
    elif isinstance(template, (tuple, list)):
        if not isinstance(out, (tuple, list)) or len(out) != len(template):
            raise ValueError(
                f"prepared: {path} must be a tuple of {len(template)}, like the result"
            )
        parts = [(f"{path}[{i}]", t, out[i]) for i, t in enumerate(template)]
    else:
        names = vars(template)
        parts = [(f"{path}.{name}", names[name], getattr(out, name, None)) for name in names]
    return [pair for where, t, o in parts for pair in pairs(t, o, where)]


def copied(result: Any, out: Any) -> Any:
    """Copy a result that was computed elsewhere into buffers; give the result with these in it."""
    if out is None:
        return result
    if isinstance(result, tuple):
        return tuple(map(copied, result, out))
    if isinstance(result, list):
        return list(map(copied, result, out))
    if isinstance(result, dict):
        return {key: copied(value, out[key]) for key, value in result.items()}
    value = np.asarray(result)
    if not isinstance(out, np.ndarray) or (out.shape, out.dtype) != (value.shape, value.dtype):
        raise ValueError(
            f"prepared: a buffer of out must be an ndarray of shape {value.shape} and dtype "
            f"{value.dtype}, like the result"
        )
    np.copyto(out, value)
    return out
