"""`Tangent` and `Gradients`: cotangents of objects, and of arrays that a function captures."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from weakref import ref

import numpy as np

from cotan import _core
from cotan._src.tree.class_registry import register
from cotan._src.typing import Function, Scalar


class Tangent(Mapping[Any, Any]):
    """The cotangent of an object: its fields, by the names they have in the object.

    A field without a cotangent is None. Fields are read as attributes, or as items: `g["w"]`, also
    for a field that is called like a method (`g["replace"]`), and `g[0]` for the children of a
    registered class that have no names. It is a mapping: `dict(g)`, `len(g)`, `g.items()`.
    `replace` gives a tangent with other values in some of the fields. Tangents of one structure can
    be added and subtracted, and multiplied and divided by numbers; None counts as zero.

    `ct.Cotangent` is another name of the class: a gradient is a cotangent, though tangents of
    objects (directions in which they change) have this form too.

    >>> import cotan as ct
    >>> g = ct.Tangent(complex, {"real": 1.0, "imag": None})
    >>> g
    Tangent[complex](real=1.0)
    >>> 2.0 * g + g.replace(imag=5.0)
    Tangent[complex](real=3.0, imag=5.0)
    >>> dict(g)
    {'real': 1.0, 'imag': None}
    """

    __slots__ = ("__weakref__", "_above", "_fields", "_type")

    _fields: dict[object, Any]
    _type: type
    # For messages: the tangent that this one was read from, and its place there. Not set before.
    _above: "tuple[ref[Tangent], _Place]"

    # NumPy leaves arithmetic with its arrays and scalars to the methods below.
    __array_ufunc__ = None

    def __init__(self, type: type, fields: Mapping[Any, object]) -> None:
        object.__setattr__(self, "_type", type)
        object.__setattr__(self, "_fields", dict(fields))

    def __getattr__(self, name: str) -> Any:
        try:
            value = self._fields[name]
        except KeyError:
            raise AttributeError(self._unknown(name)) from None
        if isinstance(value, _CONTAINERS):
            _place(ref(self), (None, name), value)
        return value

    def __getitem__(self, name: str | int) -> Any:
        try:
            value = self._fields[name]
        except (KeyError, TypeError):
            raise KeyError(self._unknown(name)) from None
        if isinstance(value, _CONTAINERS):
            _place(ref(self), (None, name), value)
        return value

    def __iter__(self) -> Iterator[Any]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def _unknown(self, name: object) -> str:
        owner = self._type.__name__
        path, root = _path_of(self)
        where = f", and is {path} in that of a {root}" if path else ""
        return f"the tangent of a {owner} has no field {name!r}; it has {list(self._fields)}{where}"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Tangent is immutable; use replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Tangent is immutable; use replace({name}=None)")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self._fields if isinstance(name, str))]

    def __reduce__(self) -> tuple[type["Tangent"], tuple[object, ...]]:
        return Tangent, (self._type, self._fields)

    def __copy__(self) -> "Tangent":
        return self

    def replace(self, **fields: object) -> "Tangent":
        """Give a tangent with other values in some fields.

        Raises `AttributeError` for a field that it does not have.

        >>> import cotan as ct
        >>> ct.Tangent(complex, {"real": 1.0, "imag": None}).replace(imag=5.0)
        Tangent[complex](real=1.0, imag=5.0)
        """
        for name in fields:
            if name not in self._fields:
                raise AttributeError(self._unknown(name))
        return Tangent(self._type, {**self._fields, **fields})

    # What `copy.replace` calls.
    __replace__ = replace

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tangent):
            return NotImplemented
        return self._type is other._type and _equal(self._fields, other._fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        there = ", ".join(
            f"{k if isinstance(k, str) else [k]}={v!r}"
            for k, v in self._fields.items()
            if _holds_something(v)
        )
        return f"Tangent[{self._type.__name__}]({there})"

    def __add__(self, other: object) -> "Tangent":
        # `sum(tangents)` starts with 0.
        if other is None or (isinstance(other, int) and other == 0):
            return self
        return _sum(self, other) if isinstance(other, Tangent) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: object) -> "Tangent":
        return self + -other if isinstance(other, Tangent) else NotImplemented

    def __neg__(self) -> "Tangent":
        tangent: Tangent = map_leaves(lambda x: -x, self)
        return tangent

    def __mul__(self, factor: Scalar) -> "Tangent":
        return map_leaves(lambda x: x * factor, self) if _is_number(factor) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, divisor: Scalar) -> "Tangent":
        return map_leaves(lambda x: x / divisor, self) if _is_number(divisor) else NotImplemented


# Keys that lead from a tangent to a part of it: those before the last one, and that.
_Place: TypeAlias = "tuple[_Place | None, object]"

_CONTAINERS = (Tangent, list, tuple, dict, deque)
# Reading the attribute itself would ask `__getattr__` where it is not set.
_ABOVE: Any = vars(Tangent)["_above"]


# Containers inside of containers: as far as tangents in them are told where they are.
_MAX_DEPTH = 4


def _place(above: "ref[Tangent]", place: _Place, value: Any, depth: int = 0) -> None:
    """Tell the tangents in a field of one where they are."""
    if isinstance(value, Tangent):
        _ABOVE.__set__(value, (above, place))
        return
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(entry, _CONTAINERS):
            if depth < _MAX_DEPTH:
                _place(above, (place, key), entry, depth + 1)
        elif entry is not None:
            return  # numbers or arrays, and nothing else


def _path_of(tangent: Tangent) -> tuple[str, str]:
    """Give the path to a tangent from the outermost one that it was read from, and its class."""
    path, seen = "", {id(tangent)}
    while True:
        try:
            above, place = _ABOVE.__get__(tangent)
        except AttributeError:
            break
        outer = above()
        if outer is None or id(outer) in seen:
            break
        seen.add(id(outer))
        at: _Place | None = place
        while at is not None:
            at, key = at
            is_field = at is None and isinstance(key, str)
            path = (f".{key}" if is_field else f"[{key!r}]") + path
        tangent = outer
    return path.removeprefix("."), tangent._type.__name__


#: What a gradient is: the name says that it is a cotangent.
Cotangent = Tangent

register(
    Tangent,
    lambda t: (tuple(t._fields.values()), (t._type, tuple(t._fields)), tuple(t._fields)),
    lambda made_of, values: Tangent(made_of[0], dict(zip(made_of[1], values, strict=True))),
)


def _equal(a: object, b: object) -> bool:
    if isinstance(a, (np.ndarray, _core.Array)) or isinstance(b, (np.ndarray, _core.Array)):
        if a is None or b is None or isinstance(a, (list, tuple, dict, Tangent)):
            return False
        return np.array_equal(np.asarray(a), np.asarray(b))
    if isinstance(a, (list, tuple)) and type(a) is type(b):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(v, b[k]) for k, v in a.items())
    return bool(a == b)


def _holds_something(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_something, value))
    if isinstance(value, dict):
        return any(map(_holds_something, value.values()))
    return value is not None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, complex, np.number)) or (
        isinstance(value, (np.ndarray, _core.Array)) and value.ndim == 0
    )


def _sum(a: Any, b: Any) -> Any:
    """Add cotangents of one structure; None is zero."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, Tangent) and isinstance(b, Tangent):
        _alike(a._type is b._type and a._fields.keys() == b._fields.keys(), a, b)
        return Tangent(a._type, {k: _sum(v, b._fields[k]) for k, v in a._fields.items()})
    if isinstance(a, tuple) and isinstance(b, tuple):
        _alike(len(a) == len(b), a, b)
        return tuple.__new__(type(a), map(_sum, a, b))
    if isinstance(a, list) and isinstance(b, list):
        _alike(len(a) == len(b), a, b)
        return list(map(_sum, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        _alike(a.keys() == b.keys(), a, b)
        return {key: _sum(value, b[key]) for key, value in a.items()}
    return a + b


def _alike(same: bool, a: object, b: object) -> None:
    if not same:
        raise ValueError(f"only tangents of the same structure can be added, not {a!r} and {b!r}")


class Gradients(Mapping[_core.Array, Any]):
    """Gradients with respect to arrays that a function uses, by the identity of the arrays.

    >>> import cotan as ct
    >>> a, b = ct.array([1.0, 2.0]), ct.array([3.0, 4.0])
    >>> g = ct.gradient(lambda: (a * b).sum(), wrt=[a])
    >>> g[a]
    Array([3., 4.])
    >>> len(g), b in g
    (1, False)
    """

    __slots__ = ("_entries",)

    def __init__(self, arrays: Sequence[_core.Array], entries: Sequence[object]) -> None:
        self._entries = {id(a): (a, e) for a, e in zip(arrays, entries, strict=True)}

    def __getitem__(self, array: _core.Array) -> Any:
        entry = self._entries.get(id(array))
        if entry is None:
            what = f"this {type(array).__name__}, which is"
            raise KeyError(
                f"no gradient with respect to {what} not among the {len(self)} arrays in wrt=[...] "
                "(they are compared by identity, not by value)"
            )
        return entry[1]

    def __iter__(self) -> Iterator[_core.Array]:
        return (array for array, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        listed = ", ".join(f"<Array {array.shape}>: {g!r}" for array, g in self._entries.values())
        return f"Gradients({{{listed}}})"

    def __reduce__(self) -> tuple[type["Gradients"], tuple[object, ...]]:
        return Gradients, (list(self), list(self.values()))


def leaves_of(tree: object) -> list[Any]:
    """Give the leaves of a structure: its arrays, `Array`s and floats."""
    if isinstance(tree, (_core.Array, np.ndarray)):
        return [tree]
    return list(_core.structure(tree).leaves)


def map_leaves(function: Function, tree: object) -> Any:
    """Apply a function to the leaves of a structure; one without leaves stays what it is."""
    if isinstance(tree, (_core.Array, np.ndarray)):
        return function(tree)
    structure = _core.structure(tree)
    leaves = structure.leaves
    return structure.build([function(leaf) for leaf in leaves]) if leaves else tree
