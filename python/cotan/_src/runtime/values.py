"""What overrides share: questions about values, refusals, axes, `out=` and casts.

Problem: an override gets `Array`s, class twins, ndarrays, lists of all of these and Python numbers.
Here it asks what they are (`is_active`, `contains_active`, `is_number`), reads them where no
gradient is dropped (`to_numpy`, `call_on_values`), refuses them by name where one would be
(`refuse`), and writes results as NumPy does (`write_out`, `assign`).
"""

import functools
import math
import operator
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.runtime.by_example import ByExampleError
from cotan._src.runtime.ndarray_subclasses import expect_unmasked
from cotan._src.runtime.plotting_context import is_read_for_display
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Axes,
    Axis,
    Casting,
    DTypeLike,
    Function,
    Kwargs,
    NDArray,
    T,
)

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# What a function is that NumPy dispatches.
DISPATCHER = type(np.sum)


def in_numpy(name: str) -> Any:
    """Give a function of NumPy by its dotted name, None when this version lacks it."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def name_of(function: object) -> str:
    """Give the name by which a function is known to who calls it."""
    module = getattr(function, "__module__", None) or "numpy"
    return f"{module}.{getattr(function, '__name__', function)}"


class TwinInstance:
    """An instance of a class twin, which passes `isinstance` for the class that it replaces."""


class OverArray(TwinInstance):
    """An instance of the twin of a subclass of ndarray: it wraps an `Array`, under this name.

    `_again` gives another array as an object of the same class, and `_as_number` what a number is
    made of.
    """

    __held_array__: Array
    _again: Callable[[AnyArray], object]
    _as_number: Callable[[], AnyArray | float]


def as_number(x: T) -> T | AnyArray | float:
    """Give the array that an object of a subclass is, to make a number of it."""
    return x._as_number() if isinstance(x, OverArray) else x


def is_array(x: object) -> "TypeIs[Array]":
    """Say whether something is an `Array` (`isinstance` may say that it is an ndarray)."""
    return isinstance(x, Array)


def python_number(x: T, found: object = 0.0) -> T:
    """Give what is computed as a number of Python's, where what SciPy has found is one."""
    if not is_array(x) or type(found) not in {float, complex}:
        return x
    return cast("T", _core.number(x, np.result_type(x.dtype, np.float64)))


def are_objects(*items: object) -> bool:
    """Say whether one of them is an array of Python objects."""
    return any(
        type(x) is not Array and isinstance(x, np.ndarray) and x.dtype == object for x in items
    )


def call_on_objects(name: str, compute: Function, *items: object, **options: object) -> Any:
    """Call a function of NumPy's on arrays of objects, where each element answers for itself."""
    out = options.get("out")
    if any(map(is_array, out if isinstance(out, tuple) else (out,))):
        raise TypeError(
            f"{name}: the result for arrays of dtype object has dtype object and cannot be written "
            "to out=; convert them with astype(float), or leave out out="
        )
    try:
        return compute(*map(_objects, items), **options)
    except TypeError as error:
        if type(error) is not TypeError:
            raise
        raise TypeError(
            f"{name}: an element of an array of dtype object cannot be combined with an Array: "
            f"{error}; if the elements are numbers, convert the array with astype(float)"
        ) from error


def _objects(x: object) -> object:
    """Give an `Array`, or a list with one, as an ndarray of its elements."""
    if isinstance(x, (list, tuple)) and _core.contains_array((x,), {}):
        x = _core.array(x)
    if not is_array(x):
        return x
    # NumPy makes Python's numbers of constants.
    return of_elements(x) if is_active(x) or _core.is_traced(x) else to_numpy(x)


def of_elements(x: Array) -> NDArray:
    """Give an `Array` as an ndarray of objects: its elements, each of them traced."""
    objects = np.empty(x.shape, object)
    for index in np.ndindex(*x.shape):
        objects[index] = x[index]
    return objects


def of_table(x: Any) -> Any:
    """Give a table or a column of pandas that holds traced values as an array of them."""
    if type(x).__module__.partition(".")[0] == "pandas" and hasattr(x, "to_numpy"):
        values = x.to_numpy()
        return values if is_array(values) else x
    return x


def of_column(x: Any) -> Any:
    """Give numbers of pandas as an array, as functions of NumPy that it does not know take them."""
    kind = type(x)
    is_other = kind is Array or kind is float or kind.__module__.partition(".")[0] != "pandas"
    if is_other or not hasattr(x, "to_numpy"):
        return x
    values = x.to_numpy()
    return values if is_array(values) or values.dtype.kind in "biufc" else x


@overload
def to_numpy(x: Array | NDArray) -> NDArray: ...
@overload
def to_numpy(x: object) -> Any: ...
def to_numpy(x: object) -> object:
    """Give the value of an array, anything else as it is. For what has no derivative anyway."""
    if is_array(x):
        if _core.is_mapped(x):
            raise ByExampleError(
                f"vmap: a library function takes the value of an array ({x.dtype}{list(x.shape)}) "
                "that differs between examples"
            )
        value = _core.value(x)
        return value if x._rank == "array" else value.item() if x._rank == "number" else value[()]
    expect_unmasked(x)
    if isinstance(x, (list, tuple)) and any(
        is_array(item) or type(item) in (list, tuple) for item in x
    ):
        return type(x)(map(to_numpy, x))
    return x


def is_number(x: object) -> bool:
    """Say whether this is a Python number, or an `Array` made from one."""
    return x._rank == "number" if is_array(x) else type(x) in {int, float, complex}


def unwidened(result: AnyArray, parts: Sequence[object]) -> AnyArray:
    """Let Python's numbers among what was put together not widen the dtype, as NumPy does."""
    if not any(is_array(x) and is_number(x) for x in parts):
        return result
    arrays: list[Any] = [np.asarray(x) if isinstance(x, (list, tuple)) else x for x in parts]
    if not all(is_number(x) or hasattr(x, "dtype") for x in arrays):
        return result
    weak = {"c": 0j, "f": 0.0}
    numbers = (weak.get(x.dtype.kind, 0) if is_array(x) else x for x in arrays if is_number(x))
    kinds = (x.dtype for x in arrays if not is_number(x))
    return result.astype(np.result_type(*numbers, *kinds), copy=False)


def peek(x: object) -> Any:
    """Give the value of an array for a decision or a message, not for further computation."""
    if is_array(x) and _core.is_traced(x) and not _core.is_preparing():
        value = _core.peek(x)
        return value if x._rank == "array" else value[()]
    return to_numpy(x)


def laid_out(x: Array, order: str | None) -> Array:
    """Give an array as it is where its elements lie in this order, else a copy, as NumPy does.

    Writes to the copy leave the array as it is.
    """
    if order in {"C", "c"}:
        return x if x.flags.c_contiguous else x.copy()
    if order in {"F", "f"}:
        return x if x.flags.f_contiguous else x.T.copy().T
    return x


def copy_if_array(taken: T) -> T | Array:
    """Give what was taken from an array as a separate array; a scalar is one already."""
    # An element that is constant is a scalar of NumPy's.
    return taken.copy() if is_array(taken) and taken._rank == "array" else taken


def is_given(value: object) -> bool:
    """Say whether an argument was given, where None means something of its own."""
    return value is not np._NoValue


def or_default(value: Any, default: T) -> T:
    """Give an argument, or its default, which has what types the argument may have."""
    return default if value is np._NoValue else value


def axes_of(axis: Axes, ndim: int) -> tuple[int, ...]:
    """Give the axes that are meant: none for all of them."""
    return tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim)


def is_only_axis(axis: Axes) -> bool:
    """Say whether an axis is the one that NumPy lets a zero-dimensional array have."""
    return not isinstance(axis, tuple) and axis is not None and operator.index(axis) in {0, -1}  # type: ignore[arg-type]


def flat(x: ArrayLike) -> Array:
    """Give all elements along one axis."""
    return _core.reshape(x, -1)


def flat_if_none(x: ArrayLike, axis: Axis) -> tuple[Array, int]:
    """Give what a function without an axis works on: everything along one."""
    x = _core.asarray(x)
    if axis is None or (x.ndim == 0 and is_only_axis(axis)):
        return flat(x), 0
    return x, normalize_axis_index(operator.index(axis), x.ndim)


def write_out(
    name: str, out: AnyArray | None, result: T, casting: Casting = "same_kind"
) -> T | AnyArray:
    """Write a result into `out` when it was given; of the same shape, and a dtype that holds it."""
    if out is None or not is_given(out):
        return result
    value = _core.asarray(result)
    if out.shape != value.shape:
        raise ValueError(f"{name}: out= has shape {out.shape}, the result has {value.shape}")
    check_cast(name, value.dtype, out.dtype, casting)
    return assign(name, out, value)


def check_cast(
    name: str, source: DTypeLike, target: DTypeLike, casting: Casting = "same_kind"
) -> None:
    """Refuse to write numbers where they do not fit."""
    if not np.can_cast(source, target, casting):
        raise TypeError(
            f"{name}: cannot cast the result from {source} to {target}, the dtype of out=, by the "
            f"rule {casting!r}"
        )


def assign(name: str, target: AnyArray, value: ArrayLike) -> AnyArray:
    """Write a value into an array in place, and give that back."""
    if not is_array(target):
        if is_active(value) and not is_read_for_display():
            raise noted(
                f"{name}: writing into a plain ndarray would drop the gradient, and there are "
                "other references to this one; create it in the function with np.array(c), "
                "np.copy(c) (not c.copy()), np.zeros or similar, or use the returned result; "
                "ct.dropgrad drops the gradient on purpose"
            )
        target[...] = _core.value(value)
    elif target._rank != "array":
        raise TypeError(f"{name}: out= must be an array; a scalar cannot be written to")
    else:
        target._assign(value)
    return target


def refuse(what: str) -> NotDifferentiableError:
    """Make the error for what has no derivative rule."""
    return noted(
        f"{what} has no derivative rule in cotan yet; hold its arguments constant with "
        "ct.dropgrad, or write it in terms of functions that have one"
    )


def noted(message: str) -> NotDifferentiableError:
    """Make an error; if user code catches it, a warning says so."""
    _core.refused(message)
    return NotDifferentiableError(message)


def is_active(x: object) -> bool:
    """Say whether something is active; integers and booleans carry none."""
    return is_array(x) and x.dtype.kind in "fc" and bool(_core.is_active(x))


def is_known(x: object) -> bool:
    """Say whether something has its value now, rather than when a program runs.

    A program that is traced, mapped or prepared will run with other values.
    """
    if not is_array(x):
        return True
    return not (_core.is_mapped(x) or _core.is_tracing() or _core.is_preparing())


#: Says whether something in nested arguments is active.
contains_active = _core.contains_active


def call_on_values(func: Callable[..., T], args: Args, kwargs: Kwargs) -> T:
    """Run a function on plain values; refuse active arguments."""
    if contains_active(args) or contains_active(kwargs):
        raise refuse(name_of(func))
    return func(*map(to_numpy, args), **{k: to_numpy(v) for k, v in kwargs.items()})


@functools.cache
def _memory() -> int:
    """Give how many bytes of memory the machine has, where it says so."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize


def expect_room(name: str, shape: Sequence[int], dtype: DTypeLike) -> None:
    """Refuse a result that no memory holds, as NumPy does.

    What repeats its argument needs no memory here, and would be computed with for hours.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size > _memory():
        raise MemoryError(
            f"{name}: an array of shape {tuple(shape)} and dtype {dtype} needs {size / 2**30:.3g} "
            "GiB, and this machine has less"
        )


@overload
def attach_derivative(value: AnyArray | complex, computed: Array) -> Array: ...
@overload
def attach_derivative(value: AnyArray | complex, computed: AnyArray | complex) -> AnyArray: ...
def attach_derivative(
    value: AnyArray | complex, computed: AnyArray | complex
) -> AnyArray | complex:
    """Give a value, with the derivatives of what was computed in another way."""
    return value + (computed - _core.dropgrad(computed))
