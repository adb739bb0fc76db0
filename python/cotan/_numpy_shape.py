"""NumPy's functions that move elements: shapes, joining, splitting, indexing, padding, making."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from cotan import _core
from cotan._numpy_core import FUNCTIONS, implements, is_array, plain, refuse, written

# Functions whose own NumPy code, written in terms of others, runs on our arrays.
for _function in (
    np.hstack, np.vstack, np.dstack, np.column_stack, np.atleast_1d, np.atleast_2d, np.atleast_3d,
    np.flipud, np.fliplr, np.rot90, np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit,
    np.rollaxis, np.apply_over_axes, np.iscomplexobj, np.isrealobj, np.polyval,
):  # fmt: skip
    FUNCTIONS[_function] = _function._implementation  # type: ignore[attr-defined]


@implements(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    return tuple(a.shape)


@implements(np.ndim)
def ndim(a: Any) -> int:
    return int(a.ndim)


@implements(np.size)
def size(a: Any, axis: Any = None) -> int:
    if axis is None:
        return int(a.size)
    return int(np.prod([a.shape[i] for i in normalize_axis_tuple(axis, a.ndim)]))


@implements(np.result_type)
def result_type(*args: Any) -> Any:
    return np.result_type(*(a.dtype if is_array(a) else a for a in args))


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(from_.dtype if is_array(from_) else from_, to, casting)


@implements(np.min_scalar_type)
def min_scalar_type(a: Any) -> Any:
    return a.dtype


@implements(np.common_type)
def common_type(*arrays: Any) -> Any:
    return np.common_type(*(np.empty(0, a.dtype) for a in arrays))


@implements(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Any:
    return _core.asarray(a).reshape(shape if newshape is None else newshape, order=order, copy=copy)


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Any:
    return a.ravel(order)


@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Any:
    return _core.transpose(a, axes)


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    return x.swapaxes(-1, -2)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    order = list(range(a.ndim))
    i, j = normalize_axis_index(axis1, a.ndim), normalize_axis_index(axis2, a.ndim)
    order[i], order[j] = order[j], order[i]
    return _core.transpose(a, order)


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    sources = normalize_axis_tuple(source, a.ndim, "source")
    targets = normalize_axis_tuple(destination, a.ndim, "destination")
    if len(sources) != len(targets):
        raise ValueError("moveaxis: source and destination must have the same number of elements")
    order = [i for i in range(a.ndim) if i not in sources]
    for target, source_axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, source_axis)
    return _core.transpose(a, order)


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Any:
    return a.squeeze(axis)


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    ndim = a.ndim + len(axes)
    places = normalize_axis_tuple(axes, ndim)
    lengths = iter(a.shape)
    return _core.reshape(a, [1 if i in places else next(lengths) for i in range(ndim)])


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    return _core.broadcast_to(array, shape)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    wanted = np.broadcast_shapes(*(np.shape(a) for a in args))
    return tuple(_core.broadcast_to(a, wanted) for a in args)


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Any:
    axes = None if axis is None else normalize_axis_tuple(axis, m.ndim)
    return _core.flip(m, axes)


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    x = _core.asarray(a)
    if axis is None:
        return _core.reshape(roll(_core.reshape(x, -1), shift, 0), x.shape)
    axes = normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    for at, by in zip(axes, np.broadcast_to(plain(shift), len(axes)), strict=True):
        n = x.shape[at]
        if n:
            cut = -int(by) % n
            before = (slice(None),) * at
            x = _core.concatenate([x[(*before, slice(cut, None))], x[(*before, slice(cut))]], at)
    return x


@implements(np.concatenate, np.concat)
def concatenate(arrays: Sequence[Any], /, axis: Any = 0, out: Any = None, *, dtype: Any = None,
                casting: str = "same_kind") -> Any:  # fmt: skip
    parts = [_core.asarray(a, dtype) for a in arrays]
    if axis is None:
        parts, axis = [_core.reshape(p, -1) for p in parts], 0
    return written(out, _core.concatenate(parts, axis))


@implements(np.stack)
def stack(arrays: Sequence[Any], axis: int = 0, out: Any = None, *, dtype: Any = None,
          casting: str = "same_kind") -> Any:  # fmt: skip
    parts = [_core.asarray(a, dtype) for a in arrays]
    if len({p.shape for p in parts}) > 1:
        shapes = " and ".join(str(p.shape) for p in parts)
        raise ValueError(f"stack: all input arrays must have the same shape, not {shapes}")
    at = normalize_axis_index(axis, parts[0].ndim + 1)
    wide = [_core.reshape(p, p.shape[:at] + (1,) + p.shape[at:]) for p in parts]
    return written(out, _core.concatenate(wide, at))


@implements(np.block)
def block(arrays: Any) -> Any:
    def depth(item: Any) -> int:
        return 1 + depth(item[0]) if isinstance(item, list) else 0

    levels = depth(arrays)

    def ndims(item: Any) -> int:
        return max(map(ndims, item)) if isinstance(item, list) else np.ndim(item)

    ndim = max(ndims(arrays), levels)

    def join(item: Any, level: int) -> Any:
        if not isinstance(item, list):
            x = _core.asarray(item)
            return _core.reshape(x, (1,) * (ndim - x.ndim) + tuple(x.shape))
        return _core.concatenate([join(i, level + 1) for i in item], ndim - levels + level)

    return join(arrays, 0)


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    return concatenate([_core.asarray(arr), _core.asarray(values)], axis)


@implements(np.tile)
def tile(A: Any, reps: Any) -> Any:
    x = _core.asarray(A)
    counts = [reps] if np.ndim(plain(reps)) == 0 else list(reps)
    ndim = max(x.ndim, len(counts))
    counts = [1] * (ndim - len(counts)) + [operator.index(c) for c in counts]
    lengths = (1,) * (ndim - x.ndim) + tuple(x.shape)
    wide = _core.reshape(x, [n for length in lengths for n in (1, length)])
    full = _core.broadcast_to(wide, [n for pair in zip(counts, lengths, strict=True) for n in pair])
    return _core.reshape(full, [c * n for c, n in zip(counts, lengths, strict=True)])


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    x = _core.asarray(a)
    if axis is None:
        x, axis = _core.reshape(x, -1), 0
    index = np.repeat(np.arange(x.shape[axis]), plain(repeats))
    return take(x, index, axis)


@implements(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    x = _core.asarray(a)
    if axis is None:
        x, axis = _core.reshape(x, -1), 0
    at = normalize_axis_index(axis, x.ndim)
    index = np.asarray(plain(indices))
    if mode == "wrap":
        index = index % x.shape[at]
    elif mode == "clip":
        index = np.clip(index, 0, x.shape[at] - 1)
    return written(out, x[(slice(None),) * at + (index,)])


def _along(x: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    """Give the key that `take_along_axis` stands for."""
    at = normalize_axis_index(axis, x.ndim)
    index = np.asarray(plain(indices))
    grids: list[Any] = list(np.ogrid[tuple(slice(n) for n in x.shape)])
    grids[at] = index
    return tuple(grids)


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    x = _core.asarray(arr)
    if axis is None:
        x, axis = _core.reshape(x, -1), 0
    return x[_along(x, indices, axis)]


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int) -> None:
    arr[_along(arr, indices, axis)] = values


@implements(np.compress)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    return take(a, np.flatnonzero(plain(condition)), axis, out)


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    return take(arr, np.flatnonzero(plain(condition)))


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    x = _core.asarray(arr)
    if axis is None:
        x, axis = _core.reshape(x, -1), 0
    return take(x, np.delete(np.arange(x.shape[axis]), plain(obj)), axis)


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    x = _core.asarray(arr)
    if axis is None:
        x, axis = _core.reshape(x, -1), 0
    at = normalize_axis_index(axis, x.ndim)
    n = x.shape[at]
    marked = np.insert(np.arange(n), plain(obj), -1)
    new = np.flatnonzero(marked < 0)
    old = _core.asarray(np.zeros([len(marked) if i == at else m for i, m in enumerate(x.shape)], x.dtype))
    before = (slice(None),) * at
    result = _core.index_update(old, (*before, np.flatnonzero(marked >= 0)), x)
    values = _core.asarray(values)
    if np.ndim(plain(obj)) == 0 and values.ndim > 0 and not isinstance(obj, slice):
        values = moveaxis(_core.reshape(values, (1,) * (x.ndim - values.ndim) + values.shape), 0, at)
    return _core.index_update(result, (*before, new), values)


@implements(np.diagonal, np.linalg.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    x = moveaxis(_core.asarray(a), (axis1, axis2), (-2, -1))
    rows = np.arange(max(min(x.shape[-2] + min(offset, 0), x.shape[-1] - max(offset, 0)), 0))
    return x[..., rows - min(offset, 0), rows + max(offset, 0)]


@implements(np.trace, np.linalg.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None,
          out: Any = None) -> Any:  # fmt: skip
    return written(out, _core.sum(_core.asarray(diagonal(a, offset, axis1, axis2), dtype), -1))


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    x = _core.asarray(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError("diag: input must be 1- or 2-d")
    n = x.shape[0] + abs(k)
    rows = np.arange(x.shape[0])
    key = (rows - min(k, 0), rows + max(k, 0))
    return _core.index_update(np.zeros((n, n), x.dtype), key, x)


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    return diag(_core.reshape(_core.asarray(v), -1), k)


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    rows = np.arange(min(a.shape))
    a[(rows,) * a.ndim] = val


def _triangle(lower: bool) -> Callable[..., Any]:
    def function(m: Any, k: int = 0) -> Any:
        x = _core.asarray(m)
        mask = np.tri(*x.shape[-2:], k if lower else k - 1, dtype=bool)
        return _core.where(mask if lower else ~mask, x, x.dtype.type(0))

    return function


implements(np.tril)(_triangle(True))
implements(np.triu)(_triangle(False))


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    ndim = len(xi)
    grids = [_core.reshape(_core.asarray(x), (1,) * i + (-1,) + (1,) * (ndim - i - 1)) for i, x in enumerate(xi)]
    if indexing == "xy" and ndim > 1:
        grids[0] = _core.reshape(grids[0], (1, -1) + (1,) * (ndim - 2))
        grids[1] = _core.reshape(grids[1], (-1, 1) + (1,) * (ndim - 2))
    return tuple(grids) if sparse else broadcast_arrays(*grids)


_PAD_INDEX = {"edge", "reflect", "symmetric", "wrap"}


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    x = _core.asarray(array)
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(i, pad_width.get(i - x.ndim, 0)) for i in range(x.ndim)]
        pad_width = [(w, w) if np.ndim(w) == 0 else w for w in pad_width]
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    if mode == "constant":
        lengths = [n + low + high for n, (low, high) in zip(x.shape, widths, strict=True)]
        padded = _core.pad(x, lengths, [low for low, _ in widths], [1] * x.ndim)
        values = np.broadcast_to(kwargs.get("constant_values", 0), (x.ndim, 2))
        if np.any(values):
            inside = np.pad(np.ones(x.shape, bool), widths)
            filled = np.pad(np.zeros(x.shape, x.dtype), widths, constant_values=values)
            padded = _core.where(inside, padded, filled)
        return padded
    if mode not in _PAD_INDEX or kwargs.get("reflect_type", "even") != "even":
        raise refuse(f"numpy.pad with mode={mode!r}")
    for at, (low, high) in enumerate(widths):
        x = take(x, np.pad(np.arange(x.shape[at]), (low, high), mode=mode), at)
    return x


def _like(function: Any) -> Callable[..., Any]:
    def make(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
             device: Any = None) -> Any:  # fmt: skip
        wanted = a.shape if shape is None else shape
        return _core.array(function(wanted, dtype=a.dtype if dtype is None else dtype))

    return make


implements(np.zeros_like)(_like(np.zeros))
implements(np.ones_like)(_like(np.ones))
implements(np.empty_like)(_like(np.zeros))


@implements(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
              shape: Any = None, *, device: Any = None) -> Any:  # fmt: skip
    wanted = a.shape if shape is None else shape
    value = _core.asarray(fill_value, a.dtype if dtype is None else dtype)
    return _core.broadcast_to(value, wanted).copy()


@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    return a.copy()


@implements(np.astype)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return x.astype(dtype, copy=copy)


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    if not is_array(dst):
        raise TypeError(
            "copyto: writing into a plain ndarray would drop the gradient; let the target be an Array "
            "(np.zeros_like of one)"
        )
    dst[...] = src if where is True else _core.where(where, src, dst)


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    index = np.ravel(plain(ind))
    values = np.resize(v, index.shape) if not is_array(v) else v
    if is_array(v) and v.size != index.size:
        values = take(_core.reshape(v, -1), np.arange(index.size) % v.size)
    a.flat[index] = _core.reshape(values, index.shape)


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    index = np.flatnonzero(plain(mask))
    if index.size:
        values = _core.reshape(_core.asarray(vals), -1)
        arr.flat[index] = take(values, np.arange(index.size) % values.size)


@implements(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    index = np.flatnonzero(plain(mask))
    source = _core.reshape(_core.asarray(values), -1)
    a.flat[index] = take(source, index % source.size)


@implements(np.linspace)
def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
             dtype: Any = None, axis: int = 0, *, device: Any = None) -> Any:  # fmt: skip
    start, stop = _core.mul(start, 1.0), _core.mul(stop, 1.0)
    steps = num - 1 if endpoint else num
    fraction = np.arange(num) / max(steps, 1)
    ndim = max(start.ndim, stop.ndim)
    fraction = fraction.reshape((-1,) + (1,) * ndim)
    points = start * (1 - fraction) + stop * fraction
    points = moveaxis(points, 0, axis) if ndim else points
    points = points if dtype is None else points.astype(dtype)
    return (points, (stop - start) / max(steps, 1)) if retstep else points


@implements(np.apply_along_axis)
def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    x = moveaxis(_core.asarray(arr), axis, -1)
    rows = [func1d(x[index], *args, **kwargs) for index in np.ndindex(*x.shape[:-1])]
    first = _core.asarray(rows[0])
    joined = _core.reshape(stack(rows), (*x.shape[:-1], *first.shape))
    ends = tuple(range(joined.ndim - first.ndim, joined.ndim))
    at = normalize_axis_index(axis, x.ndim)
    return moveaxis(joined, ends, tuple(range(at, at + first.ndim)))
