"""Overrides of NumPy's functions that take, put, pad and choose elements."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from cotan import _core
from cotan._core import Array
from cotan._src.numpy.shape import rearranged
from cotan._src.rebind.engine import rebound
from cotan._src.rebind.numpy_substitutes import asarray as host_asarray
from cotan._src.runtime.registry import FUNCTIONS, override
from cotan._src.runtime.values import (
    assign,
    check_cast,
    contains_active,
    copy_if_array,
    expect_room,
    flat,
    flat_if_none,
    is_active,
    is_array,
    is_given,
    is_number,
    of_column,
    or_default,
    to_numpy,
    write_out,
)
from cotan._src.typing import (
    AnyArray,
    ArrayLike,
    Axis,
    Casting,
    DTypeLike,
    Function,
    NDArray,
    Shape,
)

if TYPE_CHECKING:
    from numpy._globals import _NoValueType
    from typing_extensions import TypeIs

_Bound: TypeAlias = "ArrayLike | _NoValueType | None"
_Mode: TypeAlias = Literal["raise", "wrap", "clip"]
_Pads: TypeAlias = "ArrayLike | dict[int, int | tuple[int, int]]"


# --------------------------------------------------------------------------------------------------
# Taking and putting


@override(np.take)
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: Axis = None,
    out: AnyArray | None = None,
    mode: _Mode = "raise",
) -> AnyArray:
    x, at = flat_if_none(a, axis)
    # Indices that a program computes are variables of it.
    index: Any = indices if _core.is_traced(indices) else np.asarray(to_numpy(indices))
    if isinstance(indices, np.ndarray) and index.dtype.kind not in "biu":
        raise TypeError(f"take: indices must be integers, not {index.dtype}")
    n = x.shape[at]
    if index.size and not n:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    if mode == "wrap" and n:
        index = index % n
    elif mode == "clip" and n:
        index = np.clip(index, 0, n - 1)
    elif mode not in {"raise", "wrap", "clip"}:
        raise ValueError(f"take: mode must be one of 'raise', 'wrap' or 'clip', not {mode!r}")
    taken = x[(*(slice(None),) * at, index.astype(np.intp))]
    # A single index gives a view; what is taken is a copy.
    return _taken_out("take", out, copy_if_array(taken))


def _taken_out(name: str, out: AnyArray | None, result: AnyArray) -> AnyArray:
    """Write what was taken into `out`: constants also where only the way back would be safe.

    NumPy asks for that way alone: it copies `out` to the dtype of the result, and back.
    """
    back = out is not None and not is_active(result) and np.can_cast(out.dtype, result.dtype)
    return write_out(name, out, result, "unsafe" if back else "same_kind")


@override(np.compress)
def compress(
    condition: ArrayLike, a: ArrayLike, axis: Axis = None, out: AnyArray | None = None
) -> AnyArray:
    condition = np.asarray(to_numpy(condition))
    if condition.ndim != 1:
        raise ValueError("compress: condition must be a 1-d array")
    if (
        isinstance(a, Array)
        and a.ndim == 1
        and condition.dtype == bool
        and condition.size == a.size
    ):
        return _taken_out("compress", out, a[condition])
    return take(a, np.flatnonzero(condition), axis, out)


@override(np.diagonal)
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> AnyArray:
    x = _core.asarray(a)
    return view_at(x, np.diagonal(positions_in(x), offset, axis1, axis2))


def positions_in(x: AnyArray) -> NDArray:
    """Give the numbers of the elements of an array, for NumPy to say where those of a view are."""
    return np.arange(x.size).reshape(x.shape)


def view_at(
    x: Array, positions: NDArray, writeable: bool = False, strides: Sequence[int] | None = None
) -> Array:
    """Give a view of the elements at positions."""
    if strides is None:
        strides = [s // positions.itemsize for s in positions.strides]
    flat_positions = np.ascontiguousarray(positions, np.int64).reshape(-1)
    return x._gathered(flat_positions, positions.shape, strides, bool(writeable))


def written_last(positions: NDArray, strides: Sequence[int]) -> list[int]:
    """Say which elements of a view stay where it is written as a whole, some places of it twice.

    NumPy is asked, with a view of the same strides: the order of its writes goes by these.
    """
    places = _places(positions.shape, strides)
    first = places.min(initial=0)
    memory = np.full(places.max(initial=0) - first + 1, -1)
    start = places.flat[0] - first if places.size else 0
    steps = [s * memory.itemsize for s in strides]
    numbers = np.arange(places.size).reshape(places.shape)
    np.lib.stride_tricks.as_strided(memory[start:], places.shape, steps)[...] = numbers
    return np.flatnonzero(memory[places - first] == numbers).tolist()


@override(np.linalg.diagonal)
def matrix_diagonal(x: ArrayLike, /, *, offset: int = 0) -> AnyArray:
    return diagonal(x, offset, -2, -1)


@override(np.trace)
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: AnyArray | None = None,
) -> AnyArray:
    on_diagonal = _core.asarray(diagonal(a, offset, axis1, axis2), dtype)
    result = _core.sum(on_diagonal, -1)
    if dtype is not None and result.dtype != dtype:
        result = result.astype(dtype)
    return write_out("trace", out, result)


@override(np.linalg.trace)
def matrix_trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> AnyArray:
    return trace(x, offset, -2, -1, dtype)


@override(np.diag)
def diag(v: ArrayLike, k: int = 0) -> AnyArray:
    x = _core.asarray(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = x.shape[0] + abs(k)
    rows = np.arange(x.shape[0])
    return _core.index_update(np.zeros((n, n), x.dtype), (rows - min(k, 0), rows + max(k, 0)), x)


@override(np.repeat)
def repeat(a: ArrayLike, repeats: ArrayLike, axis: Axis = None) -> AnyArray:
    x, at = flat_if_none(a, axis)
    counts = to_numpy(repeats)
    if np.size(counts) == 1:
        # Each element next to itself, without a list of positions: the cotangents are a sum.
        count = np.ravel(counts)[0]
        # Of numbers and lists NumPy cuts off fractions, arrays have to be whole.
        count = operator.index(count) if isinstance(counts, np.ndarray) else int(count)
        if count >= 0:
            shape = list(x.shape)
            expect_room("repeat", [*shape, count], x.dtype)
            apart = _core.reshape(x, [*shape[: at + 1], 1, *shape[at + 1 :]])
            apart = _core.broadcast_to(apart, [*shape[: at + 1], count, *shape[at + 1 :]])
            shape[at] *= count
            return _core.reshape(apart, shape)
    return take(x, np.repeat(np.arange(x.shape[at]), counts), at)


@override(np.delete)
def delete(arr: AnyArray, obj: int | slice | ArrayLike, axis: Axis = None) -> AnyArray:
    x, at = flat_if_none(arr, axis)
    return take(x, np.delete(np.arange(x.shape[at]), to_numpy(obj)), at)


def _triangle(lower: bool) -> Callable[..., Array]:
    def function(m: ArrayLike, k: int = 0) -> Array:
        x = _core.asarray(m)
        mask = np.tri(
            x.shape[-2] if x.ndim > 1 else x.shape[-1], x.shape[-1], k if lower else k - 1, bool
        )
        return _core.where(mask if lower else ~mask, x, x.dtype.type(0))

    return function


override(np.tril)(_triangle(True))
override(np.triu)(_triangle(False))


# --------------------------------------------------------------------------------------------------
# Windows and padding


@override(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: ArrayLike,
    window_shape: int | Sequence[int],
    axis: int | Shape | None = None,
    *,
    subok: bool = False,
    writeable: bool = False,
) -> AnyArray:
    del subok
    x = _core.asarray(x)
    places = positions_in(x)
    # NumPy says where they are, without a copy of what they repeat.
    windows = np.lib.stride_tricks.sliding_window_view(places, window_shape, axis)
    along = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim, None, True)
    steps = [s // x.itemsize for s in x.strides]
    apart = [s // places.itemsize for s in windows.strides]
    steps += [steps[a] for a in along]
    return x._gathered(places.reshape(-1), windows.shape, steps, bool(writeable), apart)


@override("numpy.lib.stride_tricks.as_strided")
def as_strided(
    x: ArrayLike,
    shape: int | Sequence[int] | None = None,
    strides: int | Sequence[int] | None = None,
    subok: bool = False,
    writeable: bool = True,
    **options: object,
) -> Array:
    """Show the elements at places in memory, as NumPy would have laid them out."""
    a: Any = host_asarray(x)
    lengths: Shape = a.shape if shape is None else tuple(np.atleast_1d(to_numpy(shape)).tolist())
    steps: Sequence[int]
    if strides is not None:
        steps = tuple(np.atleast_1d(to_numpy(strides)).tolist())
    elif a.flags.c_contiguous:
        # One after the other in any shape.
        steps = tuple(a.itemsize * math.prod(lengths[i + 1 :]) for i in range(len(lengths)))
    else:
        steps = a.strides
    # An axis of one element goes nowhere.
    moved = [s for n, s in zip(lengths, steps, strict=False) if n > 1]
    if len(lengths) != len(steps) or any(s % a.itemsize for s in moved):
        raise ValueError(
            f"as_strided: strides {steps} do not fit the shape {lengths} and elements of "
            f"{a.itemsize} bytes"
        )
    steps = [s // a.itemsize for s in steps]
    # Memory beside a view is that of the array which it is a view of.
    memory, own = a._beneath()
    places = _places(lengths, steps) + (own.flat[0] if own.size else 0)
    if places.size and not (places.min() >= 0 and places.max() < memory.size):
        raise ValueError(
            f"as_strided: shape {lengths} with strides {tuple(s * a.itemsize for s in steps)} goes "
            f"beyond the elements of an array of shape {a.shape} with strides {a.strides}"
        )
    return view_at(memory, places, writeable, steps)


def _places(shape: Sequence[int], steps: Sequence[int]) -> NDArray:
    """Give where the elements of an array are in memory, in elements from its first."""
    places = np.zeros(shape, np.int64)
    for axis, (n, step) in enumerate(zip(shape, steps, strict=True)):
        along = np.arange(n) * step
        places += along.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return places


_INDEX_MODES = {"edge", "reflect", "symmetric", "wrap"}


@override(np.pad)
def pad(
    array: ArrayLike, pad_width: _Pads, mode: str | Function = "constant", **kwargs: Any
) -> AnyArray:
    x = host_asarray(array)
    if kwargs.get("reflect_type") == "even":
        del kwargs["reflect_type"]
    if mode == "empty":
        mode = "constant"
    pad_plain: Callable[..., NDArray] = np.pad  # its stub knows of some widths only
    simple = mode in _INDEX_MODES and not kwargs and x.size
    if not simple and (
        mode != "constant" or contains_active(kwargs) or set(kwargs) - {"constant_values"}
    ):
        padded_by: Callable[..., AnyArray] = rebound(np.pad)
        return padded_by(x, pad_width, mode, **kwargs)
    if mode != "constant":
        # NumPy pads the positions, and the elements are taken from there.
        return rearranged(pad_plain(np.arange(x.size).reshape(x.shape), pad_width, mode), flat(x))
    widths = _pad_widths(pad_width, x.ndim)
    lengths = [n + low + high for n, (low, high) in zip(x.shape, widths, strict=True)]
    padded = _core.pad(x, lengths, [low for low, _ in widths], [1] * x.ndim)
    values = to_numpy(kwargs.get("constant_values", 0))
    if not np.any(values):
        return padded
    inside = np.pad(np.ones(x.shape, bool), widths)
    outside = pad_plain(np.zeros(x.shape, x.dtype), pad_width, constant_values=values)
    return _core.where(inside, padded, outside)


def _pad_widths(pad_width: _Pads, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        by_axis = {normalize_axis_index(k, ndim): v for k, v in pad_width.items()}
        pad_width = [np.broadcast_to(by_axis.get(i, 0), 2) for i in range(ndim)]
    pairs = np.broadcast_to(np.asarray(to_numpy(pad_width)), (ndim, 2)).tolist()
    for low, high in pairs:
        if low < 0 or high < 0:
            raise ValueError("index can't contain negative values")
    return [(operator.index(low), operator.index(high)) for low, high in pairs]


# --------------------------------------------------------------------------------------------------
# Writing in place


def _writable(target: AnyArray, name: str, *values: ArrayLike) -> "TypeIs[Array]":
    """Say whether a target is an `Array`; a plain one takes constants only."""
    if isinstance(target, Array):
        return True
    for value in values:
        if contains_active(value):
            assign(name, target, host_asarray(value))
    return False


@override(np.copyto)
def copyto(
    dst: AnyArray, src: ArrayLike, casting: Casting = "same_kind", where: ArrayLike | bool = True
) -> None:
    if not _writable(dst, "copyto", src):
        np.copyto(dst, to_numpy(src), casting, to_numpy(where))
        return
    if type(src) in {int, float, complex}:
        # Python's numbers yield to the dtype of the array, but not to its kind.
        try:
            np.copyto(np.empty((), dst.dtype), src, casting)
        except TypeError as error:
            raise TypeError(f"copyto: {error}") from None
    else:
        check_cast("copyto", host_asarray(src).dtype, dst.dtype, casting)
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
    dst._assign(_core.where(where, value, dst))


@override(np.put)
def put(a: AnyArray, ind: ArrayLike, v: ArrayLike, mode: _Mode = "raise") -> None:
    if not _writable(a, "put", v):
        np.put(a, to_numpy(ind), to_numpy(v), mode)
        return
    index = np.ravel(to_numpy(ind))
    n = a.size
    if mode == "wrap" and n:
        index = index % n
    elif mode == "clip":
        index = np.clip(index, 0, n - 1)
    values = host_asarray(v)
    if index.size and values.size:
        a.flat[index] = values


@override(np.place)
def place(arr: AnyArray, mask: ArrayLike, vals: ArrayLike) -> None:
    if not _writable(arr, "place", vals):
        np.place(arr, to_numpy(mask), to_numpy(vals))
        return
    index = np.flatnonzero(to_numpy(mask))
    if index.size and not np.size(vals):
        raise ValueError("Cannot insert from an empty array!")
    arr.flat[index] = vals


@override(np.put_along_axis)
def put_along_axis(arr: AnyArray, indices: ArrayLike, values: ArrayLike, axis: Axis) -> None:
    if not _writable(arr, "put_along_axis", values):
        np.put_along_axis(arr, to_numpy(indices), to_numpy(values), axis)
    elif axis is not None:
        rebound(np.put_along_axis)(arr, to_numpy(indices), values, axis)
    elif np.ndim(indices) != 1:
        raise ValueError("when axis=None, `indices` must have a single dimension.")
    else:
        arr.flat[to_numpy(indices)] = values


@override(np.putmask)
def putmask(a: AnyArray, /, mask: ArrayLike, values: ArrayLike) -> None:
    if not _writable(a, "putmask", values):
        np.putmask(a, to_numpy(mask), to_numpy(values))
        return
    if np.size(mask) != a.size:
        raise ValueError("putmask: mask and data must be the same size")
    if np.size(values) == 1 and np.shape(mask) == a.shape:
        a[host_asarray(mask).astype(bool)] = host_asarray(values).reshape(())
        return
    index = np.flatnonzero(to_numpy(mask))
    source = flat(host_asarray(values))
    if index.size and source.size:
        a.flat[index] = source[index % source.size]


# --------------------------------------------------------------------------------------------------
# Choosing


def _is_no_number(branch: object) -> bool:
    return type(branch) is not Array and (branch is None or isinstance(branch, (str, bytes)))


@override(np.where)
def where(condition: ArrayLike, /, *branches: ArrayLike | None) -> AnyArray | tuple[NDArray, ...]:
    if not branches:
        return np.nonzero(to_numpy(condition))
    condition, branches = of_column(condition), tuple(map(of_column, branches))
    if len(branches) != 2:
        raise ValueError("either both or neither of x and y should be given")
    if any(map(_is_no_number, branches)):
        objects = (np.asarray(branch) if _is_no_number(branch) else branch for branch in branches)
        of_objects: AnyArray = FUNCTIONS[np.where](condition, *objects)
        return of_objects
    if not is_array(condition) and isinstance(condition, np.ndarray):
        # Of any dtype, including those that no `Array` has.
        condition = np.asarray(condition, bool)
    given: tuple[Any, ...] = branches
    chosen = _core.where(condition, *given)
    # An array in any case, as NumPy's, where an elementwise function would give a scalar.
    return chosen if chosen.ndim else chosen[...]


@override(np.clip)
def clip(
    a: ArrayLike,
    a_min: _Bound = np._NoValue,
    a_max: _Bound = np._NoValue,
    out: AnyArray | None = None,
    *,
    min: _Bound = np._NoValue,
    max: _Bound = np._NoValue,
    **kwargs: Any,
) -> AnyArray:
    if is_given(min) or is_given(max):
        if is_given(a_min) or is_given(a_max):
            raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are "
                             "provided is forbidden.")  # fmt: skip
        a_min, a_max = min, max
    low: ArrayLike | int | None = or_default(a_min, None)
    high: ArrayLike | int | None = or_default(a_max, None)
    x = _core.asarray(a, kwargs.pop("dtype", None))
    if x._rank == "number":
        # NumPy makes an array of it, whose dtype counts beside that of the bounds.
        x = x[...]
    low, high = _bound(x, low, -1), _bound(x, high, 1)
    unknown = set(kwargs) - {"casting", "order", "subok", "where"}
    if unknown:
        raise TypeError(f"clip: got an unexpected keyword argument {next(iter(unknown))!r}")
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
    if out is not None and np.broadcast_shapes(result.shape, out.shape) == out.shape:
        result = _core.broadcast_to(result, out.shape)
    return write_out("clip", out, result, kwargs.get("casting", "same_kind"))


def _bound(x: AnyArray, bound: ArrayLike | int | None, side: int) -> ArrayLike | None:
    """Drop a bound of Python's that no integer of the dtype can reach."""
    if type(bound) is not int or x.dtype.kind not in "iu":
        return bound
    reach = np.iinfo(x.dtype)
    return None if (bound < reach.min if side < 0 else bound > reach.max) else bound


def _beyond(compare: Callable[..., Array], x: AnyArray, bound: ArrayLike | float) -> Array:
    try:
        beyond = compare(x, bound)
    except ValueError as error:
        operation, _, message = str(error).partition(": ")
        if operation not in {"lt", "gt"}:
            raise
        raise ValueError(f"clip: {message}") from None
    if type(bound) in {int, float} and bound == bound:
        return beyond
    # A bound that is not a number is no bound; the result is none either.
    return _core.logical_or(beyond, _core.ne(bound, bound))


@override(np.choose)
def choose(
    a: ArrayLike, choices: Sequence[ArrayLike], out: AnyArray | None = None, mode: _Mode = "raise"
) -> AnyArray:
    index = np.asarray(to_numpy(a))
    if not np.can_cast(index.dtype, np.intp):
        raise TypeError(
            f"choose: the first argument is made of indices, which cannot be of dtype {index.dtype}"
        )
    items = [host_asarray(c) for c in choices]
    n = len(items)
    if mode == "wrap":
        index = index % n
    elif mode == "clip":
        index = np.clip(index, 0, n - 1)
    elif np.any((index < 0) | (index >= n)):
        raise ValueError("invalid entry in choice array")
    shape = np.broadcast_shapes(index.shape, *(c.shape for c in items))
    # Python's numbers yield to arrays, as elsewhere.
    dtype = np.result_type(*(c if is_number(c) else x for c, x in zip(choices, items, strict=True)))
    result = _core.broadcast_to(_core.asarray(items[0], dtype), shape)
    for i, choice in enumerate(items[1:], 1):
        result = _core.where(index == i, _core.asarray(choice, dtype), result)
    return _taken_out("choose", out, result)
