"""NumPy's functions of shapes: reshaping, joining, repeating, and making arrays."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from cotan import _core
from cotan._src.rebind.numpy_substitutes import asarray as host_asarray
from cotan._src.runtime.dtypes import DTYPES
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import (
    axes_of,
    check_cast,
    expect_room,
    flat,
    is_array,
    to_numpy,
    write_out,
)

# --------------------------------------------------------------------------------------------------
# What arrays are


@override(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    return tuple(host_asarray(a).shape)


@override(np.ndim)
def ndim(a: Any) -> int:
    return int(host_asarray(a).ndim)


@override(np.size)
def size(a: Any, axis: Any = None) -> int:
    return int(np.size(np.broadcast_to(0, host_asarray(a).shape), axis))


def _stand_in(x: Any) -> Any:
    """Give something plain that promotes like an array of ours."""
    if not is_array(x):
        return to_numpy(x)
    if x._rank == "number":
        return x.dtype.type(0).item()
    return x.dtype


for _function in (np.result_type, np.can_cast):

    @override(_function)
    def _dtypes(*args: Any, _function: Any = _function, **kwargs: Any) -> Any:
        return _function(*map(_stand_in, args), **kwargs)


@override(np.common_type)
def common_type(*arrays: Any) -> Any:
    return np.common_type(*(np.empty(0, a.dtype) for a in arrays))


def _root(x: Any) -> Any:
    while is_array(x) and x.base is not None:
        x = x.base
    return x


@override(np.shares_memory, np.may_share_memory)
def shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    del max_work
    return _root(a) is _root(b)


# --------------------------------------------------------------------------------------------------
# Shapes and orders of axes


@override(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None,
            copy: Any = None) -> Any:  # fmt: skip
    wanted = shape if newshape is None else newshape
    return _core.asarray(a).reshape(wanted, order=order, copy=copy)


@override(np.ravel)
def ravel(a: Any, order: str = "C") -> Any:
    return host_asarray(a).ravel(order)


@override(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    x = flat(_core.asarray(a))
    return rearranged(np.resize(np.arange(x.size), new_shape), x)


def rearranged(positions: Any, x: Any) -> Any:
    """Give the elements of a flat array at positions; zeros when it has none."""
    return x[positions] if x.size else _core.asarray(np.zeros(positions.shape, x.dtype))


@override(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Any:
    return _core.transpose(a, axes)


@override(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    x = _core.asarray(x)
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: needs two axes or more, not {x.ndim}")
    return swapaxes(x, -1, -2)


@override(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    x = _core.asarray(a)
    order = list(range(x.ndim))
    i, j = normalize_axis_index(axis1, x.ndim), normalize_axis_index(axis2, x.ndim)
    order[i], order[j] = order[j], order[i]
    return _core.transpose(x, order)


@override(np.moveaxis)
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


@override(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Any:
    return (a if is_array(a) else host_asarray(a)).squeeze(axis)


@override(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    del subok
    shape = to_numpy(shape)
    shape = tuple(shape) if np.iterable(shape) else (shape,)
    x = host_asarray(array)
    if any(n < 0 for n in shape):
        raise ValueError("all elements of broadcast shape must be non-negative")
    if is_array(x):
        return x._broadcast(shape)
    # Texts and objects among the arguments are no arrays of ours.
    return (_core if x.dtype.name in DTYPES else np).broadcast_to(x, shape)


@override(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    del subok
    arrays = [host_asarray(a) for a in args]
    wanted = np.broadcast_shapes(*(a.shape for a in arrays))
    # An array of ours that has the shape is handed on, to be written into.
    return tuple(
        a if is_array(a) and a.shape == wanted else broadcast_to(a, wanted) for a in arrays
    )


@override(np.flip)
def flip(m: Any, axis: Any = None) -> Any:
    x = _core.asarray(m)
    axes = axes_of(axis, x.ndim)
    # A view, as in NumPy.
    return x[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim))]


@override(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
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


def _parts(name: str, arrays: Any, dtype: Any, casting: str) -> list[Any]:
    parts = list(map(host_asarray, arrays))
    if not parts:
        raise ValueError(f"{name}: need at least one array to {name}")
    if dtype is not None:
        for part in parts:
            check_cast(name, part.dtype, dtype, casting)
        parts = [_core.asarray(p, dtype) for p in parts]
    return parts


def _dtype_of(name: str, dtype: Any, out: Any) -> Any:
    if out is None:
        return dtype
    if dtype is not None:
        raise TypeError(f"{name}: takes dtype= or out=, not both")
    return out.dtype


@override(np.concatenate, np.concat)
def concatenate(arrays: Sequence[Any], /, axis: Any = 0, out: Any = None, *, dtype: Any = None,
                casting: str = "same_kind") -> Any:  # fmt: skip
    if dtype is None and out is None and axis is not None and type(arrays) in {list, tuple}:
        return _core.concatenate(arrays, axis)
    parts = _parts("concatenate", arrays, _dtype_of("concatenate", dtype, out), casting)
    if axis is None:
        parts, axis = [flat(p) for p in parts], 0
    return write_out("concatenate", out, _core.concatenate(parts, axis))


@override(np.stack)
def stack(arrays: Sequence[Any], axis: int = 0, out: Any = None, *, dtype: Any = None,
          casting: str = "same_kind") -> Any:  # fmt: skip
    parts = _parts("stack", arrays, _dtype_of("stack", dtype, out), casting)
    if len({p.shape for p in parts}) > 1:
        shapes = " and ".join(str(p.shape) for p in parts)
        raise ValueError(f"stack: all input arrays must have the same shape, not {shapes}")
    at = normalize_axis_index(axis, parts[0].ndim + 1)
    wide = [_core.reshape(p, (*p.shape[:at], 1, *p.shape[at:])) for p in parts]
    return write_out("stack", out, _core.concatenate(wide, at))


@override(np.tile)
def tile(A: Any, reps: Any) -> Any:
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
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if indexing not in {"xy", "ij"}:
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    places = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        places[:2] = 1, 0
    grids = [
        _core.reshape(host_asarray(x), [-1 if i == place else 1 for i in range(len(xi))])
        for x, place in zip(xi, places, strict=True)
    ]
    # NumPy gives tuples, but a list of views that are not broadcast.
    full = grids if sparse else broadcast_arrays(*grids)
    return tuple(g.copy() for g in full) if copy else full


# --------------------------------------------------------------------------------------------------
# Making


def _like(make: Callable[..., Any]) -> Callable[..., Any]:
    def function(a: Any, dtype: Any = None, order: str = "K", subok: bool = True,
                 shape: Any = None, *, device: Any = None) -> Any:  # fmt: skip
        del order, subok, device
        like = host_asarray(a)
        wanted = like.shape if shape is None else shape
        return _core.array(make(wanted, dtype=like.dtype if dtype is None else dtype))

    return function


override(np.zeros_like)(_like(np.zeros))
override(np.ones_like)(_like(np.ones))
override(np.empty_like)(_like(np.zeros))


@override(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
              shape: Any = None, *, device: Any = None) -> Any:  # fmt: skip
    del order, subok, device
    like = host_asarray(a)
    wanted = like.shape if shape is None else shape
    value = host_asarray(fill_value)
    value = value.astype(like.dtype if dtype is None else dtype)
    return _core.broadcast_to(value, wanted).copy()


def _as_ours(function: Any) -> None:
    """Let `like=` an array of ours make one."""

    @override(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        return _core.array(function(*args, **kwargs))


for _maker in (
    np.zeros, np.ones, np.empty, np.eye, np.identity, np.arange, np.tri, np.fromfunction,
    np.fromiter, np.fromstring, np.frombuffer, np.loadtxt, np.genfromtxt,
):  # fmt: skip
    _as_ours(_maker)


@override(np.array)
def array(object: Any, dtype: Any = None, *, copy: bool = True, order: str = "K",
          subok: bool = False, ndmin: int = 0) -> Any:  # fmt: skip
    del copy, order, subok
    x = _core.array(object, dtype)
    return _core.reshape(x, (1,) * (ndmin - x.ndim) + x.shape) if x.ndim < ndmin else x


@override(np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require)
def asarray(a: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
    return _core.asarray(a, dtype)


@override(np.full)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **_: Any) -> Any:
    del order
    return _core.broadcast_to(_core.asarray(fill_value, dtype), shape).copy()


@override(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    del order, subok
    if not is_array(a):
        return _core.array(a)  # a list, with arrays of ours in it
    # Of a scalar, too, an array.
    return a.copy() if a._rank == "array" else a[...]


@override(np.astype)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    del device
    return x.astype(dtype, copy=copy)
