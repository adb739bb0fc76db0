"""Fancy indexing: `x[key]` and `x[key] = value` with index arrays and masks, where NumPy copies.

Every such key comes down to one gather, or one scatter, of rows: the indexed axes are moved to the
front and merged into one, and the index arrays are combined into one array of positions along it.
Keys are values, not variables: they count with the value that they have when they are used. Index
arrays are variables of a program only when it is traced or prepared.
"""

import operator
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.ndarray_subclasses import expect_unmasked
from cotan._src.typing import AnyArray, ArrayLike, Shape

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# Items of a key that index by themselves; these, or an index array; and whole keys, as given.
_Basic: TypeAlias = slice | EllipsisType | None
_Item: TypeAlias = _Basic | AnyArray
_Key: TypeAlias = _Basic | ArrayLike | tuple[_Basic | ArrayLike, ...]

# By which function something is recorded that outlives a mask, which would become a constant of it.
refuses_masks: ContextVar[str] = ContextVar("refuses_masks", default="")


@dataclass
class _Plan:
    """What a key means for an array of one shape."""

    basic: tuple[slice | None, ...]  # slices and new axes, applied first; a view
    axes: list[int]  # where index arrays stand after that
    # One position for each selected row, in the shape of the indices; while tracing lazy.
    rows: AnyArray
    position: int  # where the axes of the indices go in the result


def _as_index(item: ArrayLike) -> AnyArray:
    """Give an index as a plain integer or an ndarray of integers or bools."""
    if isinstance(item, _core.Array):
        if item.dtype.kind not in "biu":
            raise IndexError(
                f"arrays used as indices must be of integer (or boolean) type, not {item.dtype}"
            )
        is_variable = _core.is_replayed(item) and item.ndim
        is_variable = is_variable or (
            _core.is_traced(item) and (item.ndim or _core.is_mapped(item))
        )
        if item.dtype.kind in "iu" and is_variable:
            return item
        if item.ndim and refuses_masks.get() and _core.is_traced(item):
            raise ValueError(
                f"{refuses_masks.get()}: the result of indexing with a mask has a shape that "
                "depends on values; write np.where(mask, x, y), which has the same shape for "
                "every mask"
            )
        item = _core.value(item)
    expect_unmasked(item)
    array = np.asarray(item)
    if array.dtype == object and not isinstance(item, np.ndarray) and hasattr(item, "__index__"):
        number: Any = item
        array = np.asarray(operator.index(number))
    if array.size == 0 and not isinstance(item, (np.ndarray, np.generic)):
        array = array.astype(np.intp)
    if array.dtype.kind not in "biu":
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
            f"boolean arrays are valid indices, not {type(item).__name__} of dtype {array.dtype}"
        )
    return array


def _is_basic(item: object) -> "TypeIs[_Basic]":
    return item is None or item is Ellipsis or isinstance(item, slice)


def _expand(key: _Key, ndim: int) -> list[tuple[int, slice | AnyArray | None]]:
    """Write a key out: one item for each axis and each new axis, with its place in the key.

    An ellipsis counts as a place, also where it stands for no axis: it comes between index arrays.
    """
    given = list(key) if isinstance(key, tuple) else [key]
    if _core.is_preparing():
        for item in given:
            _core.meet(item)
    items: list[_Item] = [item if _is_basic(item) else _as_index(item) for item in given]

    def consumed(item: _Item) -> int:
        if item is None or item is Ellipsis:
            return 0
        return item.ndim if isinstance(item, np.ndarray) and item.dtype == bool else 1

    used = sum(map(consumed, items))
    if used > ndim:
        raise IndexError(
            f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed"
        )
    ellipses = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = ellipses[0] if ellipses else len(items)
    places = [(i, item) for i, item in enumerate(items) if item is not Ellipsis]
    return places[:at] + [(at, slice(None))] * (ndim - used) + places[at:]


def _plan(shape: Shape, key: _Key) -> _Plan:
    basic: list[slice | None] = []
    arrays: list[AnyArray] = []
    axes: list[int] = []
    places: list[int] = []  # in the key, of the item that each index array came from
    axis = 0  # of the array
    out = 0  # of what the basic part gives
    for place, item in _expand(key, len(shape)):
        if item is None:
            basic.append(None)
            out += 1
        elif isinstance(item, slice):
            basic.append(item)
            axis += 1
            out += 1
        elif item.dtype == bool:
            _check_mask(item, shape[axis : axis + item.ndim], axis)
            if item.ndim == 0:
                # A bool selects all or nothing along a new axis.
                basic.append(None)
                axes.append(out)
                arrays.append(np.zeros(int(item), dtype=np.intp))
                places.append(place)
                out += 1
                continue
            for positions in item.nonzero():
                basic.append(slice(None))
                axes.append(out)
                arrays.append(positions)
                places.append(place)
                axis += 1
                out += 1
        else:
            basic.append(slice(None))
            axes.append(out)
            arrays.append(_normalized(item, shape[axis], axis))
            places.append(place)
            axis += 1
            out += 1
    rows = _positions(arrays, _basic_shape(shape, basic), axes)
    adjacent = all(b - a <= 1 for a, b in pairwise(places))
    return _Plan(tuple(basic), axes, rows, axes[0] if adjacent else 0)


def _check_mask(mask: AnyArray, shape: Shape, axis: int) -> None:
    for i, (have, want) in enumerate(zip(mask.shape, shape, strict=True)):
        # As in NumPy, a mask of nothing selects nothing from an axis of any length.
        if have not in {0, want}:
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis + i}; size of axis is "
                f"{want} but size of corresponding boolean axis is {have}"
            )


def _normalized(index: AnyArray, size: int, axis: int) -> AnyArray:
    """Count negative indices from the end and refuse those that are out of bounds."""
    if isinstance(index, _core.Array):
        # Others are checked when the program runs.
        is_known = index.is_forced or _core.is_replayed(index)
        if is_known and not _core.is_mapped(index):
            _normalized(np.asarray(_core.peek(index)), size, axis)
        index = _core.cast(index, np.int64)
        return _core.where(index < 0, index + size, index)
    index = index.astype(np.intp)
    wrong = (index < -size) | (index >= size)
    if wrong.any():
        first = index[wrong].flat[0]
        raise IndexError(f"index {first} is out of bounds for axis {axis} with size {size}")
    return np.where(index < 0, index + size, index)


def _basic_shape(shape: Shape, basic: list[slice | None]) -> list[int]:
    """Give the shape behind the basic part of a key; axes under index arrays are whole."""
    lengths = iter(shape)
    return [1 if item is None else len(range(*item.indices(next(lengths)))) for item in basic]


def _positions(arrays: list[AnyArray], shape: list[int], axes: list[int]) -> AnyArray:
    """Combine index arrays into one of positions along their axes taken as one."""
    try:
        common = np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        shapes = " ".join(str(a.shape) for a in arrays)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
        ) from None
    lengths = [shape[a] for a in axes]
    if any(isinstance(a, _core.Array) for a in arrays):
        return _traced_positions(arrays, lengths, common)
    rows = np.zeros(common, dtype=np.int64)
    for array, length in zip(arrays, lengths, strict=True):
        rows = rows * length + array
    return rows


def _traced_positions(arrays: list[AnyArray], lengths: list[int], shape: Shape) -> Array:
    """Write positions as operations: other indices will come, and an error when they are wrong."""
    rows: AnyArray = arrays[0]
    valid: AnyArray = (rows >= 0) & (rows < lengths[0])
    for array, length in zip(arrays[1:], lengths[1:], strict=True):
        valid = valid & (array >= 0) & (array < length)
        rows = rows * length + array
    if len(arrays) > 1:
        # An index that is too large along one axis would be another one along the next.
        rows = _core.where(valid, rows, -1)
    return _core.broadcast_to(rows, shape)


def _to_front(x: Array, plan: _Plan) -> tuple[Array, list[int], Shape]:
    """Bring the indexed axes of an array to the front, as one axis."""
    others = [i for i in range(x.ndim) if i not in plan.axes]
    order = plan.axes + others
    rest = tuple(x.shape[i] for i in others)
    count = int(np.prod([x.shape[i] for i in plan.axes], dtype=np.int64))
    moved = _core.transpose(x, order)
    return _core.reshape(moved, (count, *rest)), order, rest


def _to_position(plan: _Plan, rest: Shape) -> list[int]:
    """Give the order that moves the axes of the indices from the front to their place."""
    k = plan.rows.ndim
    order = list(range(k, k + len(rest)))
    order[plan.position : plan.position] = range(k)
    return order


def _basic_part(x: Array, plan: _Plan) -> Array:
    return x[plan.basic] if plan.basic else x


def getitem(x: Array, key: _Key) -> Array:
    """Read `x[key]` for a key with index arrays or masks in it."""
    plan = _plan(x.shape, key)
    if _core.is_elementwise(x) and _is_mask(key, x):
        # What is left out has no derivative whatever it is: `y = log(x); y[x > 0]`.
        x = _core.where(_over(key, x), x, 0)
    front, _, rest = _to_front(_basic_part(x, plan), plan)
    taken = _core.gather(front, plan.rows)
    return _core.transpose(taken, _to_position(plan, rest)).copy()


def setitem(x: Array, key: _Key, value: ArrayLike) -> None:
    """Write `x[key] = value` for a key with index arrays or masks in it."""
    if x._overlaps:
        # Windows that overlap are written where they are, and not as a whole.
        memory, positions = x._beneath()
        where = _core.asarray(positions)[key]
        if np.ndim(value) and np.unique(_core.value(where)).size < where.size:
            raise ValueError(
                "assignment: the index selects some elements more than once, since the windows "
                f"overlap; write to one window after the other, or to the array of {memory.size} "
                "elements below them"
            )
        memory[where] = value
        return
    chosen = _chosen(x, key, value) if _core.is_active(x) else None
    x._assign(updated(x, key, value, False) if chosen is None else chosen)


def _chosen(x: Array, mask: _Key, value: ArrayLike) -> Array | None:
    """Give what a write where a mask holds makes of an array; None for any other key.

    It is a choice, so that what is overwritten has no derivative whatever it was:
    `y = sin(x) / x; y[x == 0] = 1`.
    """
    if not _is_mask(mask, x):
        return None
    if np.ndim(value) == 0:
        new = _core.fit(value, x, ())
    else:
        new = updated(np.zeros(x.shape, x.dtype), mask, value, False)
    if _core.is_preparing():
        _core.meet(mask)
    return _core.where(_over(mask, x), new, x)


def _is_mask(key: _Key, x: Array) -> TypeGuard[AnyArray]:
    """Say whether a key is one mask of the first axes of an array."""
    if not isinstance(key, (_core.Array, np.ndarray)) or key.dtype.kind != "b":
        return False
    shape = key.shape
    fits = 0 < len(shape) <= x.ndim and shape == x.shape[: len(shape)]
    return fits and not refuses_masks.get()


def _over(mask: AnyArray, x: Array) -> AnyArray:
    """Give a mask of the first axes of an array, for all of its elements."""
    if mask.ndim == x.ndim:
        return mask
    mask = _core.reshape(mask, (*mask.shape, *[1] * (x.ndim - mask.ndim)))
    return _core.broadcast_to(mask, x.shape)


def updated(x: AnyArray, key: _Key, value: ArrayLike, add: bool) -> Array:
    """Give `x` with `x[key]` replaced, or added to, as a new array."""
    x = _core.asarray(x)
    plan = _plan(x.shape, key)
    part = _basic_part(x, plan)
    front, order, rest = _to_front(part, plan)
    place = _to_position(plan, rest)
    shape = [0] * len(place)
    for i, p in enumerate(place):
        shape[i] = (*plan.rows.shape, *rest)[p]
    back = list(np.argsort(place))
    rows = _core.transpose(_core.fit(value, x, shape), back)
    write = _core.scatter_add if add else _core.scatter
    written = write(front, plan.rows, rows)
    wide = _core.reshape(written, [part.shape[i] for i in order])
    new = _core.transpose(wide, list(np.argsort(order)))
    if all(item == slice(None) for item in plan.basic):
        return _core.reshape(new, x.shape)
    return _core.index_update(x, plan.basic, new)
