"""Takes structures apart in public: `tree_flatten` and what belongs to it.

Problem: code that works on lists of arrays (optimisers of other libraries, files, statistics of
weights) needs the leaves of a structure in a fixed order, and the structure back. Which classes are
taken apart, and what is a leaf, is decided by `class_registry` and the compiled module; a
`Structure` keeps what they found, without the leaves.
"""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.tree.class_registry import Layout, layout

# What is met most, of these classes exactly.
_BUILT_IN: dict[type, Layout | None] = {kind: layout(kind, kind()) for kind in (dict, list, tuple)}
_LEAVES = (np.ndarray, np.generic, _core.Array, str, int, float, complex, type)


class _Star:
    """Stands for a leaf in the text of a structure."""

    def __repr__(self) -> str:
        return "*"


class Structure:
    """A structure without its leaves: what `ct.tree_structure` and `ct.tree_flatten` give.

    Two are equal if they have the same classes, keys and data (integers, strings, None) in the same
    places. They can be pickled if their classes can.

    >>> import cotan as ct
    >>> structure = ct.tree_structure({"w": [1.0, 2.0], "n": 3})
    >>> structure
    Structure({'w': [*, *], 'n': 3})
    >>> structure.paths
    ['w[0]', 'w[1]']
    """

    __slots__ = ("_parts", "_skeleton")

    def __init__(self, tree: object) -> None:
        whole = _core.structure(tree)
        # Floats are leaves everywhere, so zeros in their places keep the places and no memory.
        self._skeleton = whole.build([0.0] * len(whole.leaves)) if whole.leaves else tree
        self._parts = _core.structure(self._skeleton)

    @property
    def paths(self) -> list[str]:
        """Paths of the leaves, in their order."""
        return [path.removeprefix(".") for path in self._parts.paths]

    @property
    def num_leaves(self) -> int:
        """How many leaves there are."""
        return len(self._parts.leaves)

    def unflatten(self, leaves: Iterable[object]) -> Any:
        """Make a structure with the given leaves; `ct.tree_unflatten` says more."""
        entries = list(leaves)
        if len(entries) != self.num_leaves:
            raise ValueError(
                f"tree_unflatten: the structure has {self.num_leaves} leaves "
                f"({', '.join(self.paths)}), not {len(entries)}"
            )
        return self._parts.build(entries) if entries else self._skeleton

    def without_constants(self) -> "Structure":
        """Give the same structure without the `ct.const` in it, which has the same leaves."""
        return Structure(without_constants(self._skeleton))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure):
            return NotImplemented
        return self.paths == other.paths and _same(self._skeleton, other._skeleton, set())

    def __hash__(self) -> int:
        return hash(tuple(self.paths))

    def __repr__(self) -> str:
        return f"Structure({self.unflatten([_Star()] * self.num_leaves)!r})"

    def __reduce__(self) -> tuple[type["Structure"], tuple[object]]:
        return Structure, (self._skeleton,)


def tree_leaves(tree: object) -> list[Any]:
    """Give the leaves of a structure in order: its arrays of any dtype and its floats.

    Integers, strings, None and other objects are part of the structure and no leaves, as for
    `ct.tree_map`. Dictionaries keep the order of their keys. What gradient calls give gradients of,
    `ct.trainable_leaves` collects: there an integer beside floats counts as one of them.

    >>> import cotan as ct
    >>> ct.tree_leaves({"w": [1.0, 2.0], "n": 3, "b": None})
    [1.0, 2.0]
    >>> ct.tree_leaves([1.0, 2]), ct.trainable_leaves([1.0, 2])
    ([1.0], {'[0]': 1.0, '[1]': 2})
    """
    return list(_core.structure(tree).leaves)


def tree_structure(tree: object) -> Structure:
    """Give a structure without its leaves, for comparison and for `ct.tree_unflatten`.

    >>> import cotan as ct
    >>> ct.tree_structure((1.0, [2.0])) == ct.tree_structure((3.0, [4.0]))
    True
    """
    return Structure(tree)


def tree_flatten(tree: object) -> tuple[list[Any], Structure]:
    """Take a structure apart into its leaves and the `Structure` that holds them.

    Parameters
    ----------
    tree
        Any structure. Leaves are its arrays of any dtype and its floats.

    Returns
    -------
    The leaves, as `ct.tree_leaves` gives them, and the structure.

    >>> import cotan as ct
    >>> leaves, structure = ct.tree_flatten({"w": 1.5, "b": (2.5, "name")})
    >>> leaves
    [1.5, 2.5]
    >>> ct.tree_unflatten(structure, [10 * leaf for leaf in leaves])
    {'w': 15.0, 'b': (25.0, 'name')}
    """
    return tree_leaves(tree), Structure(tree)


def tree_unflatten(structure: Structure, leaves: Iterable[object]) -> Any:
    """Make a structure from its leaves, which may be anything.

    Parameters
    ----------
    structure
        What `ct.tree_flatten` or `ct.tree_structure` gave.
    leaves
        As many leaves as it has, in the order of `ct.tree_leaves`.

    Raises
    ------
    ValueError
        When the number of leaves is wrong.
    TypeError
        When `structure` is no `Structure`.

    >>> import cotan as ct
    >>> ct.tree_unflatten(ct.tree_structure([1.0, {"a": 2.0}]), ["x", "y"])
    ['x', {'a': 'y'}]
    """
    if not isinstance(structure, Structure):
        raise TypeError(
            "tree_unflatten: the first argument is a structure, as tree_structure gives it, and "
            f"the second the leaves; not {type(structure).__name__}"
        )
    if not isinstance(leaves, Iterable):
        raise TypeError(f"tree_unflatten: leaves must be a list, not {type(leaves).__name__}")
    return structure.unflatten(leaves)


# --------------------------------------------------------------------------------------------------
# Walks over structures in Python


def without_constants(tree: Any) -> Any:
    """Give a structure without the `ct.const` in it, as a differentiated function receives it."""
    return _bare(tree, set())


def integers_as_floats(tree: Any) -> Any:
    """Give a structure in which the integers that `gradient` counts as floats are floats."""
    parts = _core.structure(tree, declared=True, integers=True)
    pairs = list(zip(parts.leaves, parts.trainable, strict=True))
    if not any(type(leaf) is int for leaf, _ in pairs):
        return tree
    return parts.build([float(x) if able and type(x) is int else x for x, able in pairs])


def _bare(tree: Any, above: set[int]) -> Any:
    while isinstance(tree, _core.Const):
        tree = tree.value
    how = layout_of(tree)
    if how is None or id(tree) in above:
        return tree
    children = list(children_of(tree, how))
    above.add(id(tree))
    bare = [(key, _bare(child, above)) for key, child in children]
    above.discard(id(tree))
    if all(new is old for (_, new), (_, old) in zip(bare, children, strict=True)):
        return tree
    return with_children(tree, how, bare)


def with_children(tree: Any, how: Layout, children: list[tuple[Any, Any]]) -> Any:
    """Give a structure with other parts, which come with their keys, indices or names."""
    values = [value for _, value in children]
    if how.flatten is not None and how.unflatten is not None:
        return how.unflatten(how.flatten(tree)[2], tuple(values))
    if how.kind == "tuple":
        return tuple.__new__(type(tree), values)
    new = copy.copy(tree)
    if how.kind == "list":
        new[:] = values
    elif how.kind == "dict":
        new.update(children)
    else:
        for name, value in children:
            object.__setattr__(new, name, value)
    return new


def _same(a: Any, b: Any, above: set[tuple[int, int]]) -> bool:
    if a is b or (id(a), id(b)) in above:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, _core.Const):
        return _same(a.value, b.value, above)
    how = layout_of(a)
    if how is None:
        return isinstance(a, np.ndarray) or bool(a == b)
    here, there = list(children_of(a, how)), list(children_of(b, how))
    if len(here) != len(there):
        return False
    above = above | {(id(a), id(b))}
    return all(k == m and _same(x, y, above) for (k, x), (m, y) in zip(here, there, strict=True))


def layout_of(tree: object) -> Layout | None:
    """Say how an object is taken apart; None for what is not."""
    if tree is None or isinstance(tree, _LEAVES):
        return None
    kind = type(tree)
    return _BUILT_IN[kind] if kind in _BUILT_IN else layout(kind, tree)


def children_of(tree: Any, how: Layout) -> Iterator[tuple[Any, Any]]:
    """Give the parts of an object with their keys, indices or names."""
    if how.flatten is not None:
        children, keys, _ = how.flatten(tree)
        yield from zip(keys, children, strict=True)
    elif how.kind == "dict":
        yield from dict.items(tree)
    elif how.kind in {"list", "tuple"}:
        yield from enumerate(tree)
    else:
        yield from ((n, getattr(tree, n)) for n in how.slots if hasattr(tree, n))
        if how.has_dict:
            skipped = how.skipped or ()
            yield from ((n, value) for n, value in vars(tree).items() if n not in skipped)
