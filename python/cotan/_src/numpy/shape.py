"""Overrides of NumPy's functions of shapes: reshaping, joining, repeating, and creation."""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from cotan import _core
from cotan._core import Array
from cotan._src.rebind.numpy_substitutes import asarray as host_asarray
from cotan._src.runtime.dtypes import DTYPES
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import (
    axes_of,
    check_cast,
    expect_room,
    flat,
    is_array,
    of_column,
    to_numpy,
    write_out,
)
from cotan._src.typing import (
    AnyArray,
    ArrayLike,
    Axes,
    Axis,
    Casting,
    Dtype,
    DTypeLike,
    Function,
    NDArray,
    Order,
    Shape,
)

_Lengths: TypeAlias = int | Sequence[int] | None


# --------------------------------------------------------------------------------------------------
# What arrays are


@override(np.shape)
def shape(a: ArrayLike) -> Shape:
    return tuple(host_asarray(a).shape)


@override(np.ndim)
def ndim(a: ArrayLike) -> int:
    return int(host_asarray(a).ndim)


@override(np.size)
def size(a: ArrayLike, axis: Axis = None) -> int:
    return int(np.size(np.broadcast_to(0, host_asarray(a).shape), axis))


def _stand_in(x: object) -> object:
    """Give something plain that promotes like an `Array`."""
    if not isinstance(x, Array):
        plain: object = to_numpy(x)
        return plain
    if x._rank == "number":
        zero: object = x.dtype.type(0).item()
        return zero
    return x.dtype


for _function in (np.result_type, np.can_cast):

    @override(_function)
    def _dtypes(*args: object, _function: Function = _function, **kwargs: object) -> Dtype | bool:
        answer: Dtype | bool = _function(*map(_stand_in, args), **kwargs)
        return answer


@override(np.common_type)
def common_type(*arrays: AnyArray) -> type[np.inexact[Any]]:
    common: type[np.inexact[Any]] = np.common_type(*(np.empty(0, a.dtype) for a in arrays))
    return common


def _root(x: object) -> object:
    while isinstance(x, Array) and x.base is not None:
        x = x.base
    return x


@override(np.shares_memory, np.may_share_memory)
def shares_memory(a: ArrayLike, b: ArrayLike, /, max_work: int | None = None) -> bool:
    if max_work is not None:
        by_numpy: Function = np.shares_memory
        by_numpy(0, 0, max_work)  # refuses what is no limit
    return _root(a) is _root(b)


# --------------------------------------------------------------------------------------------------
# Shapes and orders of axes


def _as_array(a: ArrayLike) -> Array:
    """Give an array; of a Python number one without axes, as these functions of NumPy make it."""
    x = _core.asarray(a)
    return x[...] if x._rank == "number" else x


@override(np.reshape)
def reshape(
    a: ArrayLike,
    /,
    shape: _Lengths = None,
    order: str = "C",
    *,
    newshape: _Lengths = None,
    copy: bool | None = None,
) -> AnyArray:
    wanted: Any = shape if newshape is None else newshape
    return _as_array(a).reshape(wanted, order=order, copy=copy)


@override(np.ravel)
def ravel(a: ArrayLike, order: Order = "C") -> AnyArray:
    return host_asarray(a).ravel(order)


@override(np.resize)
def resize(a: ArrayLike, new_shape: int | Sequence[int]) -> AnyArray:
    x = flat(_core.asarray(a))
    return rearranged(np.resize(np.arange(x.size), new_shape), x)


def rearranged(positions: NDArray, x: AnyArray) -> AnyArray:
    """Give the elements of a flat array at positions; zeros when it has none."""
    return x[positions] if x.size else _core.asarray(np.zeros(positions.shape, x.dtype))


@override(np.transpose, np.permute_dims)
def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> AnyArray:
    return _core.transpose(_as_array(a), axes)


@override(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: AnyArray, /) -> AnyArray:
    x = _core.asarray(x)
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: needs two axes or more, not {x.ndim}")
    return swapaxes(x, -1, -2)


@override(np.swapaxes)
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> AnyArray:
    x = _core.asarray(a)
    order = list(range(x.ndim))
    i, j = normalize_axis_index(axis1, x.ndim), normalize_axis_index(axis2, x.ndim)
    order[i], order[j] = order[j], order[i]
    return _core.transpose(x, order)


@override(np.moveaxis)
def moveaxis(
    a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]
) -> AnyArray:
    x = _as_array(a)
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


@override(np.squeeze)
def squeeze(a: ArrayLike, axis: int | Shape | None = None) -> AnyArray:
    x: AnyArray = _as_array(a) if isinstance(a, Array) else host_asarray(a)
    return x.squeeze(axis)


@override(np.broadcast_to)
def broadcast_to(array: ArrayLike, shape: int | Sequence[int], subok: bool = False) -> AnyArray:
    del subok
    lengths = to_numpy(shape)
    wanted: Shape = tuple(lengths) if np.iterable(lengths) else (lengths,)
    x = host_asarray(array)
    if any(n < 0 for n in wanted):
        raise ValueError("all elements of broadcast shape must be non-negative")
    if isinstance(x, Array):
        return x._broadcast(wanted)
    # Texts and objects among the arguments cannot become an `Array`.
    wide: AnyArray = (_core if x.dtype.name in DTYPES else np).broadcast_to(x, wanted)
    return wide


@override(np.broadcast_arrays)
def broadcast_arrays(*args: ArrayLike, subok: bool = False) -> tuple[AnyArray, ...]:
    del subok
    arrays = [host_asarray(a) for a in args]
    wanted = np.broadcast_shapes(*(a.shape for a in arrays))
    # An `Array` that has the shape is handed on, to be written into.
    return tuple(
        a if is_array(a) and a.shape == wanted else broadcast_to(a, wanted) for a in arrays
    )


@override(np.flip)
def flip(m: ArrayLike, axis: Axes = None) -> AnyArray:
    x = _core.asarray(m)
    axes = axes_of(axis, x.ndim)
    # A view, as in NumPy.
    return x[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim))]


@override(np.roll)
def roll(a: ArrayLike, shift: int | Sequence[int], axis: Axes = None) -> AnyArray:
    x = _core.asarray(a)
    if axis is None:
        return _core.reshape(roll(flat(x), shift, 0), x.shape)
    axes = normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    shifts, places = np.broadcast_arrays(to_numpy(shift), axes)
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


def _parts(
    name: str, arrays: Iterable[ArrayLike], dtype: DTypeLike | None, casting: Casting
) -> list[AnyArray]:
    parts = list(map(host_asarray, arrays))
    if not parts:
        raise ValueError(f"{name}: need at least one array to {name}")
    if dtype is not None:
        for part in parts:
            check_cast(name, part.dtype, dtype, casting)
        parts = [_core.asarray(p, dtype) for p in parts]
    return parts


def _dtype_of(name: str, dtype: DTypeLike | None, out: AnyArray | None) -> DTypeLike | None:
    if out is None:
        return dtype
    if dtype is not None:
        raise TypeError(f"{name}: give dtype= or out=, not both")
    return out.dtype


@override(np.concatenate, np.concat)
def concatenate(
    arrays: Sequence[ArrayLike],
    /,
    axis: Axis = 0,
    out: AnyArray | None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: Casting = "same_kind",
) -> AnyArray:
    if dtype is None and out is None and axis is not None and type(arrays) in {list, tuple}:
        try:
            return _core.concatenate(arrays, axis)
        except TypeError:
            columns = [of_column(a) for a in arrays]
            if all(new is a for new, a in zip(columns, arrays, strict=True)):
                raise
            return _core.concatenate(columns, axis)
    parts = _parts("concatenate", arrays, _dtype_of("concatenate", dtype, out), casting)
    if axis is None:
        parts, axis = [flat(p) for p in parts], 0
    return write_out("concatenate", out, _core.concatenate(parts, axis))


@override(np.stack)
def stack(
    arrays: Sequence[ArrayLike],
    axis: int = 0,
    out: AnyArray | None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: Casting = "same_kind",
) -> AnyArray:
    parts = _parts("stack", arrays, _dtype_of("stack", dtype, out), casting)
    if len({p.shape for p in parts}) > 1:
        shapes = " and ".join(str(p.shape) for p in parts)
        raise ValueError(f"stack: all input arrays must have the same shape, not {shapes}")
    at = normalize_axis_index(axis, parts[0].ndim + 1)
    wide = [_core.reshape(p, (*p.shape[:at], 1, *p.shape[at:])) for p in parts]
    return write_out("stack", out, _core.concatenate(wide, at))


@override(np.tile)
def tile(A: ArrayLike, reps: int | ArrayLike) -> AnyArray:
    x = _core.asarray(A)
    counts = [operator.index(c) for c in np.ravel(to_numpy(reps))]
    width = max(x.ndim, len(counts))
    counts = [1] * (width - len(counts)) + counts
    lengths = (1,) * (width - x.ndim) + tuple(x.shape)
    wide = _core.reshape(x, [n for length in lengths for n in (1, length)])
    pairs = list(zip(counts, lengths, strict=True))
    expect_room("tile", [c * n for c, n in pairs], x.dtype)
    full = _core.broadcast_to(wide, [n for pair in pairs for n in pair])
    return _core.reshape(full, [c * n for c, n in pairs])


@override(np.meshgrid)
def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> Sequence[AnyArray]:
    if indexing not in {"xy", "ij"}:
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    places = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        places[:2] = 1, 0
    grids = [
        _core.reshape(host_asarray(x), [-1 if i == place else 1 for i in range(len(xi))])
        for x, place in zip(xi, places, strict=True)
    ]
    full = _OF_VIEWS(grids) if sparse else broadcast_arrays(*grids)
    return tuple(g.copy() for g in full) if copy else full


# NumPy gives tuples, but before 2.5 a list of views that are not broadcast.
_OF_VIEWS: type[list[Any] | tuple[Any, ...]] = type(np.meshgrid(0, copy=False, sparse=True))


# --------------------------------------------------------------------------------------------------
# Making


def _like(make: Callable[..., NDArray]) -> Callable[..., AnyArray]:
    def function(
        a: ArrayLike,
        dtype: DTypeLike | None = None,
        order: str = "K",
        subok: bool = True,
        shape: _Lengths = None,
        *,
        device: object = None,
    ) -> AnyArray:
        del order, subok, device
        like = host_asarray(a)
        wanted = like.shape if shape is None else shape
        made = make(wanted, dtype=like.dtype if dtype is None else dtype)
        # Numbers in another byte order are NumPy's.
        return _core.array(made) if made.dtype.isnative else made

    return function


override(np.zeros_like)(_like(np.zeros))
override(np.ones_like)(_like(np.ones))
override(np.empty_like)(_like(np.zeros))


@override(np.full_like)
def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str = "K",
    subok: bool = True,
    shape: _Lengths = None,
    *,
    device: object = None,
) -> AnyArray:
    del order, subok, device
    like = host_asarray(a)
    wanted = like.shape if shape is None else shape
    value = host_asarray(fill_value)
    value = value.astype(like.dtype if dtype is None else dtype)
    if not value.dtype.isnative:
        return np.full(wanted, value)
    return _core.broadcast_to(value, wanted).copy()


def _as_ours(function: Function) -> None:
    """Let `like=` an `Array` make one."""

    @override(function)
    def made(*args: object, **kwargs: object) -> Array:
        return _core.array(function(*args, **kwargs))


for _maker in (
    np.zeros, np.ones, np.empty, np.eye, np.identity, np.arange, np.tri, np.fromfunction,
    np.fromiter, np.fromstring, np.frombuffer, np.loadtxt, np.genfromtxt,
):  # fmt: skip
    _as_ours(_maker)


@override(np.array)
def array(
    object: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    copy: bool = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
) -> Array:
    del copy, order, subok
    x = _core.array(object, dtype)
    return _core.reshape(x, (1,) * (ndmin - x.ndim) + x.shape) if x.ndim < ndmin else x


@override(np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require)
def asarray(a: ArrayLike, dtype: DTypeLike | None = None, *_: object, **__: object) -> Array:
    return _core.asarray(a, dtype)


@override(np.full)
def full(
    shape: int | Sequence[int],
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str = "C",
    **_: object,
) -> Array:
    del order
    return _core.broadcast_to(_core.asarray(fill_value, dtype), shape).copy()


@override(np.copy)
def copy(a: ArrayLike, order: str = "K", subok: bool = False) -> Array:
    del subok
    if not isinstance(a, Array):
        return _core.array(a)  # a list, with `Array`s in it
    # Of a scalar, too, an array.
    return a.copy(order) if a._rank == "array" else a[...]


@override(np.astype)
def astype(
    x: AnyArray, dtype: DTypeLike, /, *, copy: bool = True, device: object = None
) -> AnyArray:
    del device
    return x.astype(dtype, copy=copy)
