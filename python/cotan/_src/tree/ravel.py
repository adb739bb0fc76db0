"""Puts the numbers of a structure into one vector and back: `ravel`.

Problem: minimisers, samplers and linear algebra work on vectors, models are structures.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.tree.structure import Structure, integers_as_floats, tree_leaves
from cotan._src.typing import AnyArray, ArrayLike, Dtype, Shape


class _Place(NamedTuple):
    """Where a leaf lies in the vector, and what it is."""

    number: int
    """Which it is among the leaves of the structure."""
    start: int
    stop: int
    shape: Shape
    dtype: Dtype
    kind: type
    """`np.ndarray`, `Array`, `np.generic`, `float` or `complex`."""


class Unravel:
    """Makes a structure from a vector: the second result of `ct.ravel`.

    Called with a vector of `size` numbers. Leaves have their shapes and dtypes; of a complex number
    a real leaf takes the real part. A vector that is an `Array` gives `Array`s, so the call can be
    differentiated; any other gives leaves of the kinds that were taken apart. Can be pickled.

    Raises `ValueError` for a vector of another shape.

    >>> import cotan as ct
    >>> vector, unravel = ct.ravel({"a": 1.0, "b": [2.0, None]})
    >>> unravel(10 * vector)
    {'a': 10.0, 'b': [20.0, None]}
    """

    __slots__ = ("_kept", "_places", "_structure", "dtype", "size")

    def __init__(
        self, structure: Structure, kept: dict[int, object], places: list[_Place], dtype: Dtype
    ) -> None:
        self._structure = structure
        self._kept = kept
        self._places = places
        #: The number of elements of the vector.
        self.size = places[-1].stop if places else 0
        #: The dtype of the vector that `ravel` gave.
        self.dtype = dtype

    @property
    def paths(self) -> list[tuple[str, slice]]:
        """The path of each leaf, and where its numbers lie in the vector."""
        names = self._structure.paths
        return [(names[p.number], slice(p.start, p.stop)) for p in self._places]

    def __call__(self, vector: ArrayLike) -> Any:
        values: Any
        values = vector if isinstance(vector, _core.Array) else np.asarray(vector)
        if values.shape != (self.size,):
            raise ValueError(
                f"unravel: the structure has {self.size} numbers, so a vector of shape "
                f"({self.size},) is needed, not {values.shape}"
            )
        leaves = [self._kept.get(i) for i in range(self._structure.num_leaves)]
        for place in self._places:
            leaves[place.number] = _leaf(values[place.start : place.stop], place)
        return self._structure.unflatten(leaves)

    def vector(self, tree: object) -> Any:
        """Give the vector of a structure like the one that was taken apart, as `ravel` does.

        What is held constant in that one stays out, even if it is not in this one.
        """
        leaves = tree_leaves(integers_as_floats(tree))
        if len(leaves) != self._structure.num_leaves:
            raise ValueError(
                f"unravel.vector: the structure must have {self._structure.num_leaves} leaves, as "
                f"the one that was taken apart, not {len(leaves)}"
            )
        return _joined([leaves[place.number] for place in self._places], self.dtype)

    def without_constants(self) -> "Unravel":
        """Give the same without the `ct.const` in the structure: as a function would receive it."""
        structure = self._structure.without_constants()
        return Unravel(structure, self._kept, self._places, self.dtype)

    def __reduce__(self) -> tuple[type["Unravel"], tuple[object, ...]]:
        return Unravel, (self._structure, self._kept, self._places, self.dtype)

    def __repr__(self) -> str:
        return f"Unravel({self.size} numbers -> {self._structure!r})"


def _leaf(part: Any, place: _Place) -> object:
    if part.dtype.kind == "c" and place.dtype.kind != "c":
        part = np.real(part)
    values: Any = part.reshape(place.shape).astype(place.dtype)
    if issubclass(place.kind, _core.Array):
        return values if isinstance(values, _core.Array) else _core.array(values)
    # In a recording a number is one, too: code may ask what it was given.
    if place.kind is np.ndarray:
        return values
    return values[()] if place.kind is np.generic else values.item()


def ravel(tree: object) -> tuple[Any, Unravel]:
    """Put the numbers of a structure into one vector, and give the function that takes them back.

    The vector holds every leaf that gradient calls give gradients of: arrays and numbers of a
    floating or complex dtype, but for what a class leaves out of its `__trainable__` and what
    `ct.const` holds constant. Integers of Python that count as floats there (beside floats in a
    list or tuple, in a field annotated `float`, where there are no other numbers) are in it, too,
    and come back as floats. The rest is part of the structure: other integers, arrays of integers,
    strings, None. The order is that of `ct.trainable_leaves`, elements of an array in C order.

    Parameters
    ----------
    tree
        Any structure: containers, dataclasses, objects, an array, a number.

    Returns
    -------
    vector : ndarray, shape (n,)
        Of the dtype that all leaves fit (Python floats count as float64); a copy. An `Array` when
        one of the leaves is: inside a recording it depends on the leaves.
    unravel : callable
        Makes the structure from a vector. Both directions can be differentiated. It has `size`,
        and `paths`: where each leaf lies.

    Notes
    -----
    As `jax.flatten_util.ravel_pytree`, which also takes integers into the vector.

    >>> import cotan as ct
    >>> import numpy as np
    >>> vector, unravel = ct.ravel({"w": np.array([[1.0, 2.0]]), "b": 3.0, "steps": 7})
    >>> vector
    array([1., 2., 3.])
    >>> unravel(vector + 1)
    {'w': array([[2., 3.]]), 'b': 4.0, 'steps': 7}
    >>> unravel.paths
    [('w', slice(0, 2, None)), ('b', slice(2, 3, None))]
    >>> ct.ravel([1.0, 2])[0]
    array([1., 2.])
    """
    return ravel_floats(integers_as_floats(tree))


def ravel_floats(tree: object) -> tuple[Any, Unravel]:
    """Do what `ravel` does, but that all integers are part of the structure."""
    parts = _core.structure(tree, declared=True)
    kept: dict[int, object] = {}
    places: list[_Place] = []
    columns: list[Any] = []
    for i, (leaf, wanted) in enumerate(zip(parts.leaves, parts.trainable, strict=True)):
        if not wanted:
            kept[i] = leaf
            continue
        array: AnyArray
        array = leaf if isinstance(leaf, (_core.Array, np.ndarray)) else np.asarray(leaf)
        start = places[-1].stop if places else 0
        stop = start + math.prod(array.shape)
        places.append(_Place(i, start, stop, array.shape, array.dtype, _kind_of(leaf)))
        columns.append(array)
    dtype = np.result_type(*(p.dtype for p in places)) if places else np.dtype(float)
    return _joined(columns, dtype), Unravel(Structure(tree), kept, places, dtype)


def _joined(leaves: list[Any], dtype: Dtype) -> Any:
    if not leaves:
        return np.zeros(0, dtype)
    arrays = [x if isinstance(x, (_core.Array, np.ndarray)) else np.asarray(x) for x in leaves]
    return np.concatenate([array.reshape(-1).astype(dtype) for array in arrays])


def _kind_of(leaf: object) -> type:
    for kind in (_core.Array, np.ndarray, np.generic, complex):
        if isinstance(leaf, kind) and type(leaf) is not float:
            return kind
    return float
