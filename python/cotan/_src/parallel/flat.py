"""Puts a value and its gradient into one flat buffer for each dtype, and adds such buffers up.

Problem: a gradient travels and is added. As a structure of hundreds of arrays it would be pickled,
copied and added array by array.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.typing import NDArray, Shape

#: The value, beside the leaves of the parameters, which are counted from 0.
VALUE = -1


class Part(NamedTuple):
    """One array in the buffers."""

    leaf: int
    """Which leaf of the parameters it belongs to; `VALUE` for the value."""
    shape: Shape
    dtype: str


#: What lies in the buffers, in this order: those of one dtype in one buffer.
Layout = tuple[Part, ...]
#: One buffer for each dtype, in the order in which dtypes occur in the layout.
Buffers = list[NDArray]


def empty(layout: Layout) -> tuple[Buffers, list[NDArray]]:
    """Give buffers, and for each part the array that shares its place in one of them."""
    sizes: dict[str, int] = {}
    for part in layout:
        sizes[part.dtype] = sizes.get(part.dtype, 0) + math.prod(part.shape)
    buffers = {dtype: np.empty(size, dtype) for dtype, size in sizes.items()}
    return list(buffers.values()), views(layout, list(buffers.values()))


def views(layout: Layout, buffers: Buffers) -> list[NDArray]:
    """Give the array of each part; it shares the memory of its buffer."""
    places = dict(zip(dict.fromkeys(part.dtype for part in layout), buffers, strict=True))
    starts = dict.fromkeys(places, 0)
    found = []
    for part in layout:
        start = starts[part.dtype]
        starts[part.dtype] = stop = start + math.prod(part.shape)
        found.append(places[part.dtype][start:stop].reshape(part.shape))
    return found


def packed(leaves: Sequence[int], arrays: Sequence[Any]) -> "Flat":
    """Put arrays into buffers."""
    plain = [_core.value(x) for x in arrays]
    layout = tuple(Part(leaf, x.shape, x.dtype.str) for leaf, x in zip(leaves, plain, strict=True))
    buffers, places = empty(layout)
    for place, x in zip(places, plain, strict=True):
        np.copyto(place, x)
    return Flat(layout, buffers)


def joined(leaves: Sequence[Any]) -> "Flat":
    """Put the leaves of a structure into buffers that are only read; one array needs no copy."""
    if len(leaves) == 1:
        array = np.ascontiguousarray(_core.value(leaves[0]))
        shape = np.shape(leaves[0])
        return Flat((Part(0, shape, array.dtype.str),), [array.reshape(-1)])
    return packed(range(len(leaves)), leaves)


class Flat(NamedTuple):
    """A value and its gradient in flat buffers, or a sum of such."""

    layout: Layout
    buffers: Buffers

    @property
    def nbytes(self) -> int:
        """The bytes in all buffers."""
        return sum(buffer.nbytes for buffer in self.buffers)

    def scaled(self, factor: float) -> "Flat":
        """Give the same times a number, in place where that is possible."""
        wide = self.wide()
        if factor != 1.0:
            for buffer in wide.buffers:
                np.multiply(buffer, buffer.dtype.type(factor), out=buffer)
        return wide

    def divided(self, by: float) -> "Flat":
        """Divide in place."""
        if by != 1.0:
            for buffer in self.buffers:
                np.divide(buffer, buffer.dtype.type(by), out=buffer)
        return self

    def wide(self, only_reads: bool = False) -> "Flat":
        """Give the same in buffers that can be added to: half precision is added up in single."""

        def fits(x: NDArray) -> bool:
            return only_reads or x.flags.writeable

        buffers = [
            x.astype(np.float32) if x.dtype == np.float16 else x if fits(x) else x.copy()
            for x in self.buffers
        ]
        return Flat(self.layout, buffers)

    def plus(self, other: "Flat") -> "Flat":
        """Add another one to this one, in place where both have the same parts."""
        if self.layout == other.layout:
            for mine, its in zip(self.buffers, other.buffers, strict=True):
                np.add(mine, its, out=mine)
            return self
        # A batch took another way through the function: parts that only one has stay as they are.
        found = self.by_leaf()
        for leaf, array in other.by_leaf().items():
            found[leaf] = found[leaf] + array if leaf in found else array
        dtypes = {p.leaf: p.dtype for p in (*other.layout, *self.layout)}
        layout = tuple(Part(i, found[i].shape, dtypes[i]) for i in sorted(found))
        by_dtype: dict[str, list[NDArray]] = {}
        for part in layout:
            by_dtype.setdefault(part.dtype, []).append(found[part.leaf].reshape(-1))
        return Flat(layout, [np.concatenate(arrays) for arrays in by_dtype.values()])

    def by_leaf(self) -> dict[int, NDArray]:
        """Give the arrays by the leaf that they belong to."""
        arrays = views(self.layout, self.buffers)
        return {part.leaf: x for part, x in zip(self.layout, arrays, strict=True)}

    def results(self) -> dict[int, NDArray]:
        """Give the arrays by leaf, each in its own dtype again."""
        return {
            part.leaf: x.astype(part.dtype, copy=False)
            for part, x in zip(self.layout, views(self.layout, self.buffers), strict=True)
        }


class TreeSum:
    """Adds results up in an order that depends on their numbers alone, whenever they come.

    Neighbours are added in pairs, pairs in pairs of pairs, and so on: at each level the left one
    first. What is left over at the end is added from the right.

    >>> import numpy as np
    >>> from cotan._src.parallel.flat import TreeSum, packed
    >>> total = TreeSum()
    >>> for i in (2, 0, 1):
    ...     total.add(i, packed([0], [np.array([10.0**i])]))
    >>> total.result().by_leaf()
    {0: array([111.])}
    """

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, int], Flat] = {}
        #: How many results there are.
        self.count = 0

    def add(self, number: int, flat: Flat) -> None:
        """Add the result with this number, counted from 0; each one once."""
        level = 0
        self.count += 1
        while (other := self._nodes.pop((level, number ^ 1), None)) is not None:
            flat = flat.plus(other) if number % 2 == 0 else other.plus(flat)
            level, number = level + 1, number // 2
        self._nodes[level, number] = flat

    def result(self) -> Flat:
        """Give the sum, once there are all results from 0 on."""
        # The last, incomplete pairs are the lowest ones.
        nodes = [self._nodes[key] for key in sorted(self._nodes)]
        total = nodes[0]
        for node in nodes[1:]:
            total = node.plus(total)
        return total
