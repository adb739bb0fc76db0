"""Structures that loops carry: what stands where, and whether a step changed it.

A step of a loop has to give back what it got: the same containers, and arrays of the same shapes
and dtypes. `outline` says what stands at each path, `expect_same` compares two outlines.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.typing import Shape


class Leaf(NamedTuple):
    """An array or a number."""

    shape: Shape
    dtype: "np.dtype[Any]"
    weak: bool
    """Whether it is a Python number, which takes the dtype of what it meets."""

    def __str__(self) -> str:
        if self.weak:
            return {"f": "a float", "c": "a complex", "i": "an int", "b": "a bool"}[self.dtype.kind]
        return f"{self.dtype}{self.shape}"


class Node(NamedTuple):
    """A container, an object, or None: anything that is no array."""

    cls: type
    length: int = 0
    constants: tuple[tuple[str, object], ...] = ()
    """Of an object, its attributes that are no arrays but numbers or strings."""

    def __str__(self) -> str:
        if self.cls is type(None):
            return "None"
        shown = ", ".join(f"{name}={value!r}" for name, value in self.constants)
        if issubclass(self.cls, (tuple, list, dict)):
            shown = f"length {self.length}"
        return f"{self.cls.__name__}({shown})"


Outline = dict[str, Leaf | Node]


def outline(tree: object, path: str) -> Outline:
    """Say what stands at each path of a structure."""
    return dict(_walk(tree, path, set()))


def _walk(tree: object, path: str, above: set[int]) -> Iterator[tuple[str, Leaf | Node]]:
    if id(tree) in above:
        return
    above = {*above, id(tree)}
    if isinstance(tree, (_core.Array, np.ndarray, np.generic)):
        weak = isinstance(tree, _core.Array) and tree._rank == "number"
        yield path, Leaf(tuple(tree.shape), tree.dtype, weak)
    elif isinstance(tree, (bool, int, float, complex)):
        yield path, Leaf((), np.asarray(tree).dtype, True)
    elif isinstance(tree, dict):
        yield path, Node(type(tree), len(tree))
        for key, value in tree.items():
            name = f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
            yield from _walk(value, path + name, above)
    elif isinstance(tree, (tuple, list)):
        yield path, Node(type(tree), len(tree))
        names = getattr(tree, "_fields", None)
        for i, value in enumerate(tree):
            yield from _walk(value, f"{path}.{names[i]}" if names else f"{path}[{i}]", above)
    else:
        yield path, Node(type(tree), 0, _constants(tree))
        if tree is not None and not isinstance(tree, (str, bytes, type)):
            structure = _core.structure(tree, root=path)
            for name, leaf in zip(structure.paths, structure.leaves, strict=True):
                yield from _walk(leaf, name, above)


def _constants(tree: object) -> tuple[tuple[str, object], ...]:
    if isinstance(tree, str):
        return (("value", tree),)
    kinds = (bool, int, str)
    attributes = getattr(tree, "__dict__", {})
    return tuple((name, v) for name, v in attributes.items() if type(v) in kinds)


def settled(before: Outline, after: Outline) -> Outline:
    """Give the outline that holds from the second step on: Python numbers take their dtype."""
    return {
        path: after[path]
        if isinstance(kind, Leaf) and kind.weak and path in after and _widens(kind, after[path])
        else kind
        for path, kind in before.items()
    }


def _widens(before: Leaf, after: Leaf | Node) -> bool:
    """Say whether a Python number may become this: an array of its kind of any precision."""
    return isinstance(after, Leaf) and not after.shape and before.dtype.kind == after.dtype.kind


def expect_same(
    name: str, what: str, before: Outline, after: Outline, constants: bool = False
) -> None:
    """Refuse what a step changed, with its path and both kinds.

    With `constants`, integers and strings in objects must be equal, too.
    """
    for path in {**before, **after}:
        old, new = before.get(path), after.get(path)
        same = old is not None and new is not None and _same(old, new, constants)
        if not same:
            raise TypeError(
                f"{name}: {what} must not change its structure, shapes and dtypes, but {path} is "
                f"{old or 'not there'} at first and {new or 'not there'} after a step"
                + _remedy(old, new)
            )


def _same(old: Leaf | Node, new: Leaf | Node, constants: bool) -> bool:
    if isinstance(old, Leaf) and isinstance(new, Leaf):
        return (old.shape, old.dtype) == (new.shape, new.dtype)
    return old[:2] == new[:2] and (not constants or old == new)


def _remedy(old: Leaf | Node | None, new: Leaf | Node | None) -> str:
    if not isinstance(old, Leaf) or not isinstance(new, Leaf):
        return ""
    if old.weak and old.dtype.kind in "bi" and new.dtype.kind in "fc":
        return "; begin with a float"
    if old.shape != new.shape:
        return "; begin with an array of the shape that it has later (np.zeros, np.broadcast_to)"
    return "; convert one of them with astype"


def with_arrays(tree: Any) -> Any:
    """Give a structure with arrays for the ints and bools in its tuples, lists and dictionaries."""
    if isinstance(tree, (bool, int)):
        return np.asarray(tree)
    if isinstance(tree, np.generic):
        return np.asarray(tree)
    if type(tree) is dict:
        return {key: with_arrays(value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*map(with_arrays, tree))
    if type(tree) in (tuple, list):
        return type(tree)(map(with_arrays, tree))
    return tree
