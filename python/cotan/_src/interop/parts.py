"""Takes arguments and results apart for other libraries: structures with places in them.

Problem: PyTorch and JAX call a function with a flat list of arrays. What belongs to the structure
around them (keys, strings, integers) says which recording is meant, so it becomes a key by which
recordings are found.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.tree.prefix import step_to
from cotan._src.tree.structure import children_of, layout_of, with_children

_PLAIN = (list, tuple)


class Place:
    """Stands in a structure for the leaf with this number."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"<{self.index}>"


class Parts:
    """A structure whose leaves have been taken out.

    Parameters
    ----------
    skeleton
        The structure, with a `Place` for each leaf.
    leaves
        The leaves in their order.
    paths
        Where they were, as text.
    key
        Equal for structures of the same classes, keys and data; None where it contains something
        that cannot be compared.
    """

    __slots__ = ("key", "leaves", "paths", "skeleton")

    def __init__(
        self, skeleton: Any, leaves: list[Any], paths: list[str], key: Hashable | None
    ) -> None:
        self.skeleton, self.leaves, self.paths, self.key = skeleton, leaves, paths, key

    def build(self, leaves: Sequence[Any]) -> Any:
        """Make the structure with other leaves."""
        return put_in(self.skeleton, leaves)


def take_apart(tree: Any, root: str, is_leaf: Callable[[Any], bool]) -> Parts:
    """Take the leaves out of a structure.

    Parameters
    ----------
    tree
        Lists, tuples, dictionaries, dataclasses and other objects, as `ct.gradient` takes them.
    root
        What paths begin with.
    is_leaf
        Says of an object whether it is one.

    Raises
    ------
    ValueError
        When the structure contains itself.
    """
    walk = _Walk(is_leaf)
    skeleton, key = walk.part(tree, root)
    return Parts(skeleton, walk.leaves, walk.paths, key if walk.is_hashable else None)


def put_in(skeleton: Any, leaves: Sequence[Any]) -> Any:
    """Put leaves into the places of a skeleton."""
    kind = type(skeleton)
    if kind is Place:
        return leaves[skeleton.index]
    if kind is tuple:
        return tuple([put_in(part, leaves) for part in skeleton])
    if kind is list:
        return [put_in(part, leaves) for part in skeleton]
    if kind is dict:
        return {key: put_in(part, leaves) for key, part in skeleton.items()}
    how = layout_of(skeleton)
    if how is None or how.is_whole:
        return skeleton
    children = [(key, put_in(part, leaves)) for key, part in children_of(skeleton, how)]
    return with_children(skeleton, how, children)


def is_number_or_array(x: Any) -> bool:
    """Say whether a part of a result is a leaf: an array, a number of NumPy, or a float."""
    return isinstance(x, (np.ndarray, np.generic, _core.Array, float, complex))


def is_inexact(leaf: Any) -> bool:
    """Say whether a leaf has a cotangent: whether it is real or complex."""
    # The kind of bfloat16 is that of no number.
    return isinstance(leaf, (float, complex)) or leaf.dtype.kind in "fcV"


def inexact(leaves: Sequence[Any]) -> list[int]:
    """Give the numbers of those leaves that have cotangents."""
    return [i for i, leaf in enumerate(leaves) if is_inexact(leaf)]


class _Walk:
    """One walk through a structure."""

    def __init__(self, is_leaf: Callable[[Any], bool]) -> None:
        self._is_leaf = is_leaf
        self._above: set[int] = set()
        self.leaves: list[Any] = []
        self.paths: list[str] = []
        self.is_hashable = True

    def part(self, tree: Any, path: str) -> tuple[Any, Hashable]:
        """Give the skeleton of a part, and its key."""
        if self._is_leaf(tree):
            place = Place(len(self.leaves))
            self.leaves.append(tree)
            self.paths.append(path)
            return place, Place
        if isinstance(tree, _core.Const):
            raise TypeError(
                f"{path} is ct.const(...), which wrapped functions do not take; detach() of "
                "PyTorch and jax.lax.stop_gradient hold a value constant"
            )
        how = layout_of(tree)
        if how is None or how.is_whole:
            return tree, self._data(tree)
        if id(tree) in self._above:
            raise ValueError(f"{path} contains itself; pass a structure without circles")
        self._above.add(id(tree))
        children = list(children_of(tree, how))
        found = [self.part(child, path + step_to(key)) for key, child in children]
        self._above.discard(id(tree))
        keys = tuple(self._data(key) for key, _ in children)
        of_children = tuple(key for _, key in found)
        return (
            _skeleton(tree, how, [(k, s) for (k, _), (s, _) in zip(children, found, strict=True)]),
            (type(tree), keys, of_children),
        )

    def _data(self, value: Any) -> Hashable:
        """Give what tells a value from others: 1, 1.0 and True are three."""
        if isinstance(value, float):
            return float, value.hex()
        try:
            hash(value)
        except TypeError:
            self.is_hashable = False
            return None
        return type(value), value


def _skeleton(tree: Any, how: Any, children: list[tuple[Any, Any]]) -> Any:
    if type(tree) in _PLAIN:
        return type(tree)(value for _, value in children)
    return dict(children) if type(tree) is dict else with_children(tree, how, children)
