"""NumPy's functions that move elements: shapes, joining, indexing, padding, making."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from cotan import _core
from cotan._numpy_core import (
    any_active,
    assigned,
    axes_of,
    check_cast,
    either,
    flat,
    flat_if_none,
    given,
    implements,
    in_numpy,
    is_array,
    plain,
    written,
)
from cotan._numpy_own import asarray as host_asarray
from cotan._numpy_own import own

# --------------------------------------------------------------------------------------------------
# What arrays are


@implements(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    return tuple(a.shape)


@implements(np.ndim)
def ndim(a: Any) -> int:
    return int(a.ndim)


@implements(np.size)
def size(a: Any, axis: Any = None) -> int:
    return int(np.size(np.broadcast_to(0, a.shape), axis))


def _stand_in(x: Any) -> Any:
    """Give something plain that promotes like an array of ours."""
    if not is_array(x):
        return x
    if x._rank == "number":
        return x.dtype.type(0).item()
    return x.dtype


for _function in (np.result_type, np.can_cast):

    @implements(_function)
    def _dtypes(*args: Any, _function: Any = _function, **kwargs: Any) -> Any:
        return _function(*map(_stand_in, args), **kwargs)


@implements(np.common_type)
def common_type(*arrays: Any) -> Any:
    return np.common_type(*(np.empty(0, a.dtype) for a in arrays))


def _root(x: Any) -> Any:
    while is_array(x) and x.base is not None:
        x = x.base
    return x


@implements(np.shares_memory, np.may_share_memory)
def shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    del max_work
    return _root(a) is _root(b)


# --------------------------------------------------------------------------------------------------
# Shapes and orders of axes


@implements(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None,
            copy: Any = None) -> Any:  # fmt: skip
    wanted = shape if newshape is None else newshape
    return _core.asarray(a).reshape(wanted, order=order, copy=copy)


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Any:
    return a.ravel(order)


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    x = flat(_core.asarray(a))
    return _rearranged(np.resize(np.arange(x.size), new_shape), x)


def _rearranged(positions: Any, x: Any) -> Any:
    """Give the elements of a flat array at positions; zeros when it has none."""
    return x[positions] if x.size else _core.asarray(np.zeros(positions.shape, x.dtype))


@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Any:
    return _core.transpose(a, axes)


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: needs two axes or more, not {x.ndim}")
    return swapaxes(x, -1, -2)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    order = list(range(a.ndim))
    i, j = normalize_axis_index(axis1, a.ndim), normalize_axis_index(axis2, a.ndim)
    order[i], order[j] = order[j], order[i]
    return _core.transpose(a, order)


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    x = _core.asarray(a)
    sources = normalize_axis_tuple(source, x.ndim, "source")
    targets = normalize_axis_tuple(destination, x.ndim, "destination")
    if len(sources) != len(targets):
        raise ValueError(
            "`source` and `destination` arguments must have the same number of elements"
        )
    order = [i for i in range(x.ndim) if i not in sources]
    for target, source_axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, source_axis)
    return _core.transpose(x, order)


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Any:
    return a.squeeze(axis)


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    del subok
    return _core.broadcast_to(array, plain(shape))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    del subok
    arrays = [host_asarray(a) for a in args]
    wanted = np.broadcast_shapes(*(a.shape for a in arrays))
    return tuple(_core.broadcast_to(a, wanted) for a in arrays)


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Any:
    x = _core.asarray(m)
    axes = axes_of(axis, x.ndim)
    # A view, as in NumPy.
    return x[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim))]


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    x = _core.asarray(a)
    if axis is None:
        return _core.reshape(roll(flat(x), shift, 0), x.shape)
    axes = normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    shifts, places = np.broadcast_arrays(plain(shift), axes)
    if shifts.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    for at, by in zip(places.flat, shifts.flat, strict=True):
        n = x.shape[at]
        if n:
            cut = -int(by) % n
            before = (slice(None),) * int(at)
            x = _core.concatenate([x[(*before, slice(cut, None))], x[(*before, slice(cut))]], at)
    return x


# --------------------------------------------------------------------------------------------------
# Joining and repeating


def _parts(name: str, arrays: Any, dtype: Any, casting: str) -> list[Any]:
    parts = list(map(host_asarray, arrays))
    if not parts:
        raise ValueError(f"{name}: need at least one array to {name}")
    if dtype is not None:
        for part in parts:
            check_cast(name, part.dtype, dtype, casting)
        parts = [_core.asarray(p, dtype) for p in parts]
    return parts


@implements(np.concatenate, in_numpy("concat"))
def concatenate(arrays: Sequence[Any], /, axis: Any = 0, out: Any = None, *, dtype: Any = None,
                casting: str = "same_kind") -> Any:  # fmt: skip
    if dtype is None and out is None and axis is not None and type(arrays) in {list, tuple}:
        return _core.concatenate(arrays, axis)
    parts = _parts("concatenate", arrays, dtype, casting)
    if axis is None:
        parts, axis = [flat(p) for p in parts], 0
    return written("concatenate", out, _core.concatenate(parts, axis))


@implements(np.stack)
def stack(arrays: Sequence[Any], axis: int = 0, out: Any = None, *, dtype: Any = None,
          casting: str = "same_kind") -> Any:  # fmt: skip
    parts = _parts("stack", arrays, dtype, casting)
    if len({p.shape for p in parts}) > 1:
        shapes = " and ".join(str(p.shape) for p in parts)
        raise ValueError(f"stack: all input arrays must have the same shape, not {shapes}")
    at = normalize_axis_index(axis, parts[0].ndim + 1)
    wide = [_core.reshape(p, (*p.shape[:at], 1, *p.shape[at:])) for p in parts]
    return written("stack", out, _core.concatenate(wide, at))


@implements(np.hstack)
def hstack(tup: Sequence[Any], *, dtype: Any = None, casting: str = "same_kind") -> Any:
    return own(np.hstack)(tuple(tup), dtype=dtype, casting=casting)


@implements(np.tile)
def tile(A: Any, reps: Any) -> Any:
    x = _core.asarray(A)
    counts = [operator.index(c) for c in np.ravel(plain(reps))]
    width = max(x.ndim, len(counts))
    counts = [1] * (width - len(counts)) + counts
    lengths = (1,) * (width - x.ndim) + tuple(x.shape)
    wide = _core.reshape(x, [n for length in lengths for n in (1, length)])
    pairs = list(zip(counts, lengths, strict=True))
    full = _core.broadcast_to(wide, [n for pair in pairs for n in pair])
    return _core.reshape(full, [c * n for c, n in pairs])


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    x, at = flat_if_none(a, axis)
    return take(x, np.repeat(np.arange(x.shape[at]), plain(repeats)), at)


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    x, at = flat_if_none(arr, axis)
    return take(x, np.delete(np.arange(x.shape[at]), plain(obj)), at)


# --------------------------------------------------------------------------------------------------
# Taking and putting


@implements(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    x, at = flat_if_none(a, axis)
    index = np.asarray(plain(indices))
    if index.dtype.kind not in "biu" and index.size:
        raise TypeError(f"take: indices must be integers, not {index.dtype}")
    n = x.shape[at]
    if index.size and not n:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    if mode == "wrap" and n:
        index = index % n
    elif mode == "clip" and n:
        index = np.clip(index, 0, n - 1)
    taken = x[(slice(None),) * at + (index.astype(np.intp),)]
    # A single index gives a view; what is taken is a copy.
    return written("take", out, taken.copy() if taken._rank == "array" else taken)


@implements(np.compress)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    condition = np.asarray(plain(condition))
    if condition.ndim != 1:
        raise ValueError("compress: condition must be a 1-d array")
    return take(a, np.flatnonzero(condition), axis, out)


@implements(np.diagonal)
def diagonal(a: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    x = moveaxis(a, (axis1, axis2), (-2, -1))
    index = np.arange(max(min(x.shape[-2] + min(offset, 0), x.shape[-1] - max(offset, 0)), 0))
    return x[..., index - min(offset, 0), index + max(offset, 0)]


@implements(in_numpy("linalg.diagonal"))
def matrix_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return diagonal(x, offset, -2, -1)


@implements(np.trace)
def trace(a: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None,
          out: Any = None) -> Any:  # fmt: skip
    on_diagonal = _core.asarray(diagonal(a, offset, axis1, axis2), dtype)
    return written("trace", out, _core.sum(on_diagonal, -1))


@implements(in_numpy("linalg.trace"))
def matrix_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return trace(x, offset, -2, -1, dtype)


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    x = _core.asarray(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = x.shape[0] + abs(k)
    rows = np.arange(x.shape[0])
    return _core.index_update(np.zeros((n, n), x.dtype), (rows - min(k, 0), rows + max(k, 0)), x)


def _triangle(lower: bool) -> Callable[..., Any]:
    def function(m: Any, k: int = 0) -> Any:
        x = _core.asarray(m)
        mask = np.tri(
            x.shape[-2] if x.ndim > 1 else x.shape[-1], x.shape[-1], k if lower else k - 1, bool
        )
        return _core.where(mask if lower else ~mask, x, x.dtype.type(0))

    return function


implements(np.tril)(_triangle(True))
implements(np.triu)(_triangle(False))


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False,
                        writeable: bool = False) -> Any:  # fmt: skip
    del subok
    if writeable:
        raise TypeError("sliding_window_view: windows of an Array are copies; leave out writeable=")
    positions = np.arange(x.size).reshape(x.shape)
    windows = np.lib.stride_tricks.sliding_window_view(positions, window_shape, axis)
    return flat(x)[windows]


_INDEX_MODES = {"edge", "reflect", "symmetric", "wrap"}


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    x = host_asarray(array)
    if kwargs.get("reflect_type") == "even":
        del kwargs["reflect_type"]
    if mode == "empty":
        mode = "constant"
    simple = mode in _INDEX_MODES and not kwargs and x.size
    if not simple and (
        mode != "constant" or any_active(kwargs) or set(kwargs) - {"constant_values"}
    ):
        return own(np.pad)(x, pad_width, mode, **kwargs)
    if mode != "constant":
        # NumPy pads the positions, and the elements follow them.
        return _rearranged(np.pad(np.arange(x.size).reshape(x.shape), pad_width, mode), flat(x))
    widths = _pad_widths(pad_width, x.ndim)
    lengths = [n + low + high for n, (low, high) in zip(x.shape, widths, strict=True)]
    padded = _core.pad(x, lengths, [low for low, _ in widths], [1] * x.ndim)
    values = plain(kwargs.get("constant_values", 0))
    if not np.any(values):
        return padded
    inside = np.pad(np.ones(x.shape, bool), widths)
    outside = np.pad(np.zeros(x.shape, x.dtype), pad_width, constant_values=values)
    return _core.where(inside, padded, outside)


def _pad_widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        by_axis = {normalize_axis_index(k, ndim): v for k, v in pad_width.items()}
        pad_width = [np.broadcast_to(by_axis.get(i, 0), 2) for i in range(ndim)]
    pairs = np.broadcast_to(np.asarray(plain(pad_width)), (ndim, 2)).tolist()
    for low, high in pairs:
        if low < 0 or high < 0:
            raise ValueError("index can't contain negative values")
    return [(operator.index(low), operator.index(high)) for low, high in pairs]


# --------------------------------------------------------------------------------------------------
# Making


def _like(make: Callable[..., Any]) -> Callable[..., Any]:
    def function(a: Any, /, dtype: Any = None, order: str = "K", subok: bool = True,
                 shape: Any = None, *, device: Any = None) -> Any:  # fmt: skip
        del order, subok, device
        wanted = a.shape if shape is None else shape
        return _core.array(make(wanted, dtype=a.dtype if dtype is None else dtype))

    return function


implements(np.zeros_like)(_like(np.zeros))
implements(np.ones_like)(_like(np.ones))
implements(np.empty_like)(_like(np.zeros))


@implements(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
              shape: Any = None, *, device: Any = None) -> Any:  # fmt: skip
    del order, subok, device
    wanted = np.shape(a) if shape is None else shape
    value = host_asarray(fill_value)
    value = value.astype(np.result_type(a) if dtype is None else dtype)
    return _core.broadcast_to(value, wanted).copy()


def _as_ours(function: Any) -> None:
    """Let `like=` an array of ours make one."""

    @implements(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        return _core.array(function(*args, **kwargs))


for _maker in (
    np.zeros, np.ones, np.empty, np.eye, np.identity, np.arange, np.tri, np.fromfunction,
    np.fromiter, np.fromstring, np.frombuffer, np.loadtxt, np.genfromtxt,
):  # fmt: skip
    _as_ours(_maker)


@implements(np.array)
def array(object: Any, dtype: Any = None, *, copy: bool = True, order: str = "K",
          subok: bool = False, ndmin: int = 0) -> Any:  # fmt: skip
    del copy, order, subok
    x = _core.array(object, dtype)
    return _core.reshape(x, (1,) * (ndmin - x.ndim) + x.shape) if x.ndim < ndmin else x


@implements(np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require)
def asarray(a: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
    return _core.asarray(a, dtype)


@implements(np.full)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **_: Any) -> Any:
    del order
    return _core.broadcast_to(_core.asarray(fill_value, dtype), shape).copy()


@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    del order, subok
    return a.copy()


@implements(in_numpy("astype"))
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    del device
    return x.astype(dtype, copy=copy)


# --------------------------------------------------------------------------------------------------
# Writing in place


def _writable(name: str, target: Any, *values: Any) -> bool:
    """Say whether a target is ours to write to; a plain one takes constants only."""
    if is_array(target):
        return True
    for value in values:
        if _core.is_active(value):
            assigned(name, target, value)
    return False


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    if not _writable("copyto", dst, src):
        np.copyto(dst, plain(src), casting, plain(where))
        return
    if type(src) not in {int, float, complex}:
        check_cast("copyto", np.result_type(host_asarray(src)), dst.dtype, casting)
    if where is True:
        dst[...] = src
        return
    value = _core.cast(src, dst.dtype)
    shape = np.broadcast_shapes(value.shape, np.shape(where), dst.shape)
    if shape != dst.shape:
        raise ValueError(
            f"copyto: could not broadcast input array from shape {value.shape} into shape "
            f"{dst.shape}"
        )
    dst[...] = _core.where(where, value, dst)


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: Any = "raise") -> None:
    if not _writable("put", a, v):
        np.put(a, plain(ind), plain(v), mode)
        return
    index = np.ravel(plain(ind))
    n = a.size
    if mode == "wrap" and n:
        index = index % n
    elif mode == "clip":
        index = np.clip(index, 0, n - 1)
    if index.size and np.size(v):
        a.flat[index] = v


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    if not _writable("place", arr, vals):
        np.place(arr, plain(mask), plain(vals))
        return
    index = np.flatnonzero(plain(mask))
    if index.size and not np.size(vals):
        raise ValueError("Cannot insert from an empty array!")
    arr.flat[index] = vals


@implements(np.putmask)
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    if not _writable("putmask", a, values):
        np.putmask(a, plain(mask), plain(values))
        return
    index = np.flatnonzero(plain(mask))
    source = flat(host_asarray(values))
    if index.size and source.size:
        a.flat[index] = source[index % source.size]


# --------------------------------------------------------------------------------------------------
# Choosing


@implements(np.where)
def where(condition: Any, /, *branches: Any) -> Any:
    if not branches:
        return np.nonzero(plain(condition))
    if len(branches) != 2:
        raise ValueError("either both or neither of x and y should be given")
    return _core.where(condition, *branches)


@implements(np.clip)
def clip(a: Any, a_min: Any = np._NoValue, a_max: Any = np._NoValue, out: Any = None, *,
         min: Any = np._NoValue, max: Any = np._NoValue, **kwargs: Any) -> Any:  # fmt: skip
    if given(min) or given(max):
        if given(a_min) or given(a_max):
            raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are "
                             "provided is forbidden.")  # fmt: skip
        a_min, a_max = min, max
    low, high = either(a_min, None), either(a_max, None)
    x = _core.asarray(a, kwargs.pop("dtype", None))
    unknown = set(kwargs) - {"casting", "order", "subok", "where"}
    if unknown:
        raise TypeError(f"clip: got an unexpected keyword argument {min(unknown)!r}")
    result = x
    # At a bound the value is still inside: its derivative is 1, as elsewhere inside.
    if low is not None:
        result = _core.where(_beyond(_core.lt, result, low), low, result)
    if high is not None:
        result = _core.where(_beyond(_core.gt, result, high), high, result)
    if result is x:
        result = x.copy()
    mask = kwargs.get("where", True)
    if mask is not True:
        result = _core.where(mask, result, np.zeros((), x.dtype) if out is None else out)
    return written("clip", out, result)


def _beyond(compare: Callable[..., Any], x: Any, bound: Any) -> Any:
    beyond = compare(x, bound)
    if type(bound) in {int, float} and bound == bound:
        return beyond
    # A bound that is not a number is no bound; the result is none either.
    return _core.logical_or(beyond, _core.ne(bound, bound))


@implements(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    index = np.asarray(plain(a))
    items = [host_asarray(c) for c in choices]
    n = len(items)
    if mode == "wrap":
        index = index % n
    elif mode == "clip":
        index = np.clip(index, 0, n - 1)
    elif np.any((index < 0) | (index >= n)):
        raise ValueError("invalid entry in choice array")
    shape = np.broadcast_shapes(index.shape, *(c.shape for c in items))
    dtype = np.result_type(*items)
    result = _core.broadcast_to(_core.asarray(items[0], dtype), shape)
    for i, choice in enumerate(items[1:], 1):
        result = _core.where(index == i, _core.asarray(choice, dtype), result)
    return written("choose", out, result)
