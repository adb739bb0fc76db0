"""Structures of arrays: cotangents of objects, masks, putting objects together again."""

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cotan import _core


class Tangent:
    """The cotangent of an object: its fields, by the names they have in the object.

    A field without a cotangent is None. Fields are read as attributes; `replace` gives a tangent
    with other values in some of them.
    """

    __slots__ = ("_fields", "_type")

    def __init__(self, type: type, fields: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_type", type)
        object.__setattr__(self, "_fields", dict(fields))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._fields[name]
        except KeyError:
            owner = self._type.__name__
            message = f"the tangent of a {owner} has no field {name!r}; it has {list(self._fields)}"
            raise AttributeError(message) from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Tangent is immutable; use replace({name}=...)")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def __getstate__(self) -> tuple[type, dict[str, Any]]:
        return self._type, self._fields

    def __reduce__(self) -> Any:
        return Tangent, (self._type, self._fields)

    def replace(self, **fields: Any) -> "Tangent":
        """Give a tangent with other values in some fields."""
        for name in fields:
            getattr(self, name)
        return Tangent(self._type, {**self._fields, **fields})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tangent):
            return NotImplemented
        same = self._type is other._type and self._fields.keys() == other._fields.keys()
        return same and all(_equal(v, other._fields[k]) for k, v in self._fields.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        there = ", ".join(f"{k}={v!r}" for k, v in self._fields.items() if v is not None)
        return f"Tangent[{self._type.__name__}]({there})"


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, (np.ndarray, _core.Array)) or isinstance(b, (np.ndarray, _core.Array)):
        return a is not None and b is not None and np.array_equal(np.asarray(a), np.asarray(b))
    return bool(a == b)


@functools.cache
def slot_names(cls: type) -> tuple[str, ...] | None:
    """Give the names of a class's slots; None when it has none of its own making."""
    names: list[str] = []
    found = False
    for base in reversed(cls.__mro__):
        slots = base.__dict__.get("__slots__")
        if slots is None:
            continue
        found = found or base.__module__ not in {"builtins", "typing", "abc", "collections.abc"}
        names += [slots] if isinstance(slots, str) else slots
    private = {"__dict__", "__weakref__"}
    return tuple(n for n in names if n not in private) if found else None


def rebuilt(original: Any, fields: Mapping[str, Any]) -> Any:
    """Give a shallow copy of an object with other values in its fields.

    No initialiser runs: it may check or convert what it is given.
    """
    cls: Any = type(original)
    new = cls.__new__(cls)
    attributes = getattr(new, "__dict__", None)
    for name, value in fields.items():
        if attributes is not None and name in original.__dict__:
            attributes[name] = value
        else:
            object.__setattr__(new, name, value)
    return new


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to every `Array` in nested containers."""
    if isinstance(tree, _core.Array):
        return function(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_leaves(function, item) for item in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_leaves(function, item) for item in tree)
    if isinstance(tree, dict):
        return {key: map_leaves(function, item) for key, item in tree.items()}
    return tree


def stacked(items: Sequence[Any]) -> Any:
    """Make one array of nested lists that hold `Array`s."""
    parts = [stacked(i) if isinstance(i, (list, tuple)) else _core.asarray(i) for i in items]
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        listed = ", ".join(map(str, sorted(shapes)))
        raise ValueError(f"array: the entries have different shapes: {listed}")
    return _core.concatenate([_core.reshape(part, (1, *part.shape)) for part in parts])


def argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """Give names to positional arguments: those of the signature where there is one."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}:
            names.append(parameter.name)
        elif parameter.kind == parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
    names += [f"arg{i}" for i in range(len(names), count)]
    return names[:count]


def select(
    wrt: Any, names: list[str], starts: list[int], paths: list[str], values: list[Any]
) -> list[bool]:
    """Say for every leaf whether `wrt` asks for it.

    Leaves of argument `i` are those from `starts[i]` to `starts[i + 1]`.
    """
    if callable(wrt):
        return [bool(wrt(path, leaf)) for path, leaf in zip(paths, _leaves(values), strict=True)]
    if isinstance(wrt, (str, int)):
        wrt = [wrt]
    mask = [False] * len(paths)
    if all(isinstance(w, (str, int)) and not isinstance(w, bool) for w in wrt):
        for item in wrt:
            for i in _matching(item, names, starts, paths):
                mask[i] = True
        return mask
    if len(wrt) != len(values):
        raise ValueError(f"wrt: a mask of {len(wrt)} entries for {len(values)} arguments")
    for i, (tree, value) in enumerate(zip(wrt, values, strict=True)):
        mask[starts[i] : starts[i + 1]] = list(_masked(tree, value, names[i]))
    return mask


def _matching(item: str | int, names: list[str], starts: list[int], paths: list[str]) -> list[int]:
    """Give the leaves that a position, a name or a pattern stands for."""
    if isinstance(item, int):
        if not -len(names) <= item < len(names):
            message = f"wrt: there is no argument {item}; the function has {len(names)}"
            raise ValueError(message)
        at = item % len(names)
        return list(range(starts[at], starts[at + 1]))
    if item in names:
        at = names.index(item)
        return list(range(starts[at], starts[at + 1]))
    pattern = _pattern(item)
    found = [i for i, path in enumerate(paths) if pattern.fullmatch(path)]
    if not found and item != "**":
        raise ValueError(f"wrt: {item!r} matches nothing; there are: {', '.join(paths)}")
    return found


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    """Compile a path pattern: `*` matches one component, `**` any number.

    A pattern also matches everything below what it names.
    """
    out = ""
    for part in re.split(r"(\*\*|\[\*\]|\*)", text):
        if part == "**":
            out += r".*"
        elif part == "[*]":
            out += r"\[[^\]]*\]"
        elif part == "*":
            out += r"[^.\[\]]+"
        else:
            out += re.escape(part)
    # `**.bias` also means `bias` at the top.
    return re.compile(out + r"(?:[.\[].*)?")


def _leaves(values: Sequence[Any]) -> Iterator[Any]:
    """Give the leaves of arguments in the order in which they are taken apart."""
    for value in values:
        yield from (leaf for _, leaf in _core.leaves(value))


def _masked(mask: Any, value: Any, path: str) -> Iterator[bool]:
    """Spread a structure of bools, which may end early, over the leaves of a value."""
    if isinstance(value, _core.Const):
        value = value.value
    if mask is None or isinstance(mask, (bool, np.bool_)):
        yield from (bool(mask) for _ in _core.leaves(value))
        return
    children = dict(_children(value))
    asked = dict(_children(mask))
    unknown = asked.keys() - children.keys()
    if unknown:
        listed = ", ".join(map(str, children))
        raise ValueError(f"wrt: {path} has no {sorted(map(str, unknown))}; it has: {listed}")
    for key, child in children.items():
        yield from _masked(asked.get(key, False), child, f"{path}.{key}")


def _children(value: Any) -> Iterator[tuple[Any, Any]]:
    """Give the parts of a structure with their names."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=True)
    elif isinstance(value, (list, tuple)):
        yield from enumerate(value)
    elif isinstance(value, Tangent):
        yield from value._fields.items()
    else:
        cls: type = type(value)
        for name in slot_names(cls) or ():
            if hasattr(value, name):
                yield name, getattr(value, name)
        yield from getattr(value, "__dict__", {}).items()
