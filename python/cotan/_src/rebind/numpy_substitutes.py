"""Substitutes for the names that NumPy's Python code uses, so that it runs on `Array`s.

Padding, statistics, differences, polynomials and set operations are Python code over a few
functions that convert to ndarray (`asarray`, `empty`, ...); these are substituted here.
"""

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeAlias, overload

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.rebind.engine import (
    SUBSTITUTES,
    contains_unmasked_array,
    rebind_function,
    rebound,
)
from cotan._src.runtime.registry import (
    DISPATCHED,
    FUNCTIONS,
    SUBSTITUTE,
    Rule,
    RuleMaker,
    Way,
    named,
    override,
)
from cotan._src.runtime.values import (
    OverArray,
    copy_if_array,
    in_numpy,
    is_array,
    laid_out,
    of_elements,
    to_numpy,
    unwidened,
)
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Dtype,
    DTypeLike,
    Function,
    Kwargs,
    NDArray,
    Order,
    Shape,
)


class Flat:
    """All elements of an array along one axis, in row-major order: reads and writes go through."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: Array) -> None:
        self.base = array
        # Of the element that comes next, when it is used as an iterator.
        self.index = 0

    @property
    def coords(self) -> tuple[int, ...]:
        """The place in the array of the element that comes next; behind the last one, too."""
        place, left = [], self.index
        for n in self.base.shape[:0:-1]:
            left, at = divmod(left, n)
            place.append(at)
        return (left, *place[::-1]) if self.base.shape else ()

    def _positions(self, key: Any) -> NDArray:
        return np.arange(self.base.size)[_core.value(key) if is_array(key) else key]

    def __getitem__(self, key: Any) -> Array:
        return copy_if_array(self.base.reshape(-1)[key])

    def __setitem__(self, key: object, value: ArrayLike) -> None:
        values = _core.asarray(value)
        if values.size == 0:
            return  # as in NumPy, before the key is looked at
        positions = self._positions(key)
        count = np.size(positions)
        if count == 0:
            return
        if values.size != count:
            # Values that are too few are repeated, those that are too many left over.
            values = _core.reshape(values, -1)[np.arange(count) % values.size]
        if self.base.ndim == 0:
            # One element, written as often as it is named: the last value stays.
            self.base[()] = _core.reshape(values, -1)[-1]
            return
        where = np.unravel_index(positions, self.base.shape)
        self.base[where] = _core.reshape(values, np.shape(positions))

    def __len__(self) -> int:
        return int(self.base.size)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Array:
        if self.index >= self.base.size:
            raise StopIteration
        self.index += 1
        return self[self.index - 1]

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **options: object
    ) -> Any:
        """Let elements be computed with, as an array of their own."""
        return getattr(ufunc, method)(*map(_not_flat, inputs), **options)

    def __array_function__(self, func: Function, types: object, args: Args, kwargs: Kwargs) -> Any:
        """Let elements be computed with, as an array of their own."""
        del types
        return func(*map(_not_flat, args), **kwargs)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray:
        return np.asarray(self.copy(), dtype)

    def copy(self) -> Array:
        """Give the elements as an array of their own."""
        return self.base.flatten()


def _not_flat(x: object) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(map(_not_flat, x))
    return x.copy() if isinstance(x, Flat) else x


# What may be made an array, besides what NumPy takes.
_Given: TypeAlias = ArrayLike | Sequence[object] | Flat | OverArray | None


def _operator(name: str) -> None:
    """Let an operator, with all elements on either side, work on an array of them."""
    compute = getattr(operator, name)

    def on_the_left(self: Flat, other: object) -> object:
        return compute(self.copy(), _not_flat(other))

    def on_the_right(self: Flat, other: object) -> object:
        return compute(other, self.copy())

    setattr(Flat, f"__{name}__", on_the_left)
    if name not in {"eq", "ne", "lt", "le", "gt", "ge"}:
        setattr(Flat, f"__r{name}__", on_the_right)


for _name in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "pow", "matmul"):
    _operator(_name)


@overload
def asarray(
    a: Array, dtype: DTypeLike | None = None, order: Order | None = None, **options: Any
) -> Array: ...
@overload
def asarray(
    a: _Given, dtype: DTypeLike | None = None, order: Order | None = None, **options: Any
) -> AnyArray: ...
def asarray(
    a: _Given,
    dtype: DTypeLike | None = None,
    order: Order | None = None,
    **options: Any,
) -> AnyArray:
    """Give an array as it is, a scalar as an array, and anything else as NumPy does."""
    if dtype is order is None and not options and type(a) is Array and a._rank == "array":
        return a
    if isinstance(a, Flat):
        a = a.copy()
    if isinstance(a, OverArray):
        a = a.__held_array__
    if is_array(a):
        if dtype is not None and np.dtype(dtype) == object and _core.is_active(a):
            return of_elements(a)
        a = a if a._rank == "array" else a[...]
        copy = options.get("copy")
        result = a if dtype is None else a.astype(dtype, copy=False)
        if order is not None:
            result = laid_out(result, order)
        if copy is False and result is not a:
            raise ValueError("asarray: unable to avoid a copy; leave out copy=")
        return result.copy() if copy and result is a else result
    if isinstance(a, (list, tuple)) and contains_unmasked_array(a):
        return _stacked(a, dtype) if dtype is None or np.dtype(dtype) != object else _objects(a)
    try:
        return np.asarray(a, dtype, order, **options)
    except ValueError as error:
        inside = _given_out(a, error)
        if inside is None:
            raise
        return asarray(inside, dtype, order, **options)


def gathered(x: Any) -> Any:
    """Give an `Array` for lists that hold some, as `[[1, c], [c, 1]]`, others as they are."""
    is_list = isinstance(x, (list, tuple))
    return asarray(x) if is_list and _core.contains_array((x,), {}) else x


def _stacked(items: Any, dtype: DTypeLike | None = None) -> Array:
    """Give an array of nested lists; those without items are arrays without elements."""

    def filled(x: Any) -> Any:
        is_list = isinstance(x, (list, tuple))
        return [filled(item) for item in x] if is_list and x else np.zeros(0) if is_list else x

    try:
        return _core.array(items, dtype)
    except ValueError as error:
        if "at least one array" not in str(error):
            raise
        return _core.array(filled(items), dtype)


def _given_out(a: object, error: ValueError) -> Array | None:
    """Give the `Array` that an object gives itself out as, which NumPy takes for no array."""
    method = getattr(type(a), "__array__", None)
    if method is None or "__array__ method not producing an array" not in str(error):
        return None
    inside = method(a)
    return inside if is_array(inside) else None


def asanyarray(
    a: _Given,
    dtype: DTypeLike | None = None,
    order: Order | None = None,
    **options: Any,
) -> Any:
    """Give an array, or an object of a subclass, as it is, and anything else as an array."""
    options.setdefault("copy", None)
    return array(a, dtype, order="K" if order is None else order, subok=True, **options)


def _objects(items: Any) -> NDArray:
    """Give an ndarray of objects, in which `Array`s are numbers like others.

    How deep NumPy looks into it goes by the shapes: of arrays that do not fit together it keeps
    each as one element.
    """

    def known(x: Any) -> Any:
        if is_array(x):
            return np.zeros(x.shape)  # its elements come later
        return type(x)(map(known, x)) if type(x) in {list, tuple} else x

    result = np.array(known(items), object)
    for index in np.ndindex(result.shape):
        x = items
        for i in index:
            x = x[i]
        if contains_unmasked_array((x,)):
            result[index] = x
    return result


def array(
    object: _Given,
    dtype: DTypeLike | None = None,
    *,
    copy: bool | np._CopyMode | None = True,
    order: Order | None = "K",
    subok: bool = False,
    ndmin: int = 0,
    like: ArrayLike | None = None,
) -> Any:
    """Give an array of its own, as `numpy.array`."""
    del like
    is_usual = dtype is None and copy is True and order == "K" and ndmin == 0
    if is_usual and type(object) is list and contains_unmasked_array(object):
        return _stacked(object)  # `np.array([y[1], -k * y[0]])`
    if subok and isinstance(object, OverArray):
        inside = object.__held_array__
        made = array(inside, dtype, copy=copy, order=order, ndmin=ndmin)
        return object if made is inside else object._again(made)
    if subok and type(object) is not np.ndarray and issubclass(type(object), np.ndarray):
        return np.array(object, dtype, copy=copy, order=order, subok=True, ndmin=ndmin)
    result = asarray(object, dtype, None if order == "K" else order)
    if copy in {False, np._CopyMode.NEVER} and result is not object:
        raise ValueError("array: unable to avoid a copy; leave out copy=")
    if copy in {True, np._CopyMode.ALWAYS} and result is object:
        result = result.copy(order or "K")
    if result.ndim < ndmin:
        result = result.reshape((1,) * (ndmin - result.ndim) + result.shape)
    return result


def _makes_array(make: Function) -> Callable[..., AnyArray]:
    """Let a function that creates arrays give `Array`s, for traced values; except for indices."""

    def made(*args: object, like: object = None, **kwargs: object) -> AnyArray:
        result: NDArray = make(*args, **kwargs)
        return _core.array(result) if result.dtype.kind in "bfc" else result

    return made


def full(
    shape: int | Iterable[int],
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str = "C",
    **options: object,
) -> AnyArray:
    """Give an array with one value everywhere, or with one that broadcasts."""
    del options
    if not is_array(fill_value):
        return _makes_array(np.full)(shape, fill_value, dtype, order)
    shape = tuple(shape) if np.iterable(shape) else (shape,)
    value = fill_value if dtype is None else fill_value.astype(dtype)
    return _core.broadcast_to(value, shape).copy()


class Converter:
    """What NumPy's code uses to turn arguments into arrays and to find their common dtype."""

    def __init__(self, *arguments: ArrayLike) -> None:
        self._given = arguments
        self._arrays: tuple[AnyArray, ...] = tuple(asanyarray(a) for a in arguments)
        self.scalar_input = tuple(
            np.ndim(a) == 0 and not isinstance(a, np.ndarray) for a in arguments
        )

    def __getitem__(self, at: int) -> AnyArray:
        return self._arrays[at]

    def as_arrays(
        self, /, subok: bool = True, pyscalars: str = "convert_if_no_array"
    ) -> tuple[ArrayLike, ...]:
        del subok
        keep = pyscalars == "preserve" or (
            pyscalars == "convert_if_no_array" and not all(map(self._is_number, self._given))
        )
        pairs = zip(self._given, self._arrays, strict=True)
        return tuple(g if keep and self._is_number(g) else a for g, a in pairs)

    @staticmethod
    def _is_number(x: object) -> bool:
        return type(x) in {int, float, complex} or (is_array(x) and x._rank == "number")

    def result_type(
        self, extra_dtype: DTypeLike | None = None, ensure_inexact: bool = False
    ) -> Dtype:
        parts: list[Any] = [
            g if self._is_number(g) else a for g, a in zip(self._given, self._arrays, strict=True)
        ]
        if extra_dtype is not None:
            parts.append(extra_dtype)
        if ensure_inexact:
            parts.append(0.0)
        return np.result_type(*parts)

    def wrap(self, value: AnyArray, /, to_scalar: bool | None = None) -> AnyArray | np.generic:
        scalar = all(self.scalar_input) if to_scalar is None else to_scalar
        return value[()] if scalar else value


def _scalar_type(known: type[np.generic]) -> type:
    """Give a scalar type of NumPy's that returns an `Array` as it is when called with one."""

    class Same(type):
        def __instancecheck__(cls, x: object) -> bool:
            return isinstance(x, known)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, known)

    def new(cls: type, *args: Any) -> AnyArray | np.generic:
        return asarray(args[0], known)[()] if args and is_array(args[0]) else known(*args)

    return Same(known.__name__, (known,), {"__new__": new})


def _names(text: str) -> list[Function]:
    return list(map(in_numpy, text.split()))


def _sign(x: ArrayLike) -> AnyArray:
    """Give the sign, of complex numbers as a quotient, which has a derivative."""
    x = asarray(x)
    if x.dtype.kind != "c":
        return _core.sign(x)
    return x / _core.where(_core.eq(x, 0), 1, _core.abs(x))


def _windows(
    x: AnyArray, window_shape: int | Shape, axis: int | Shape | None = None, **options: object
) -> AnyArray:
    """Give windows that can be written to: copies, since overlapping views of an `Array` cannot."""
    del options
    return np.lib.stride_tricks.sliding_window_view(x, window_shape, axis).copy()


SUBSTITUTES |= {
    id(np.lib.stride_tricks.sliding_window_view): _windows,
    **{id(f): asarray for f in _names("asarray ascontiguousarray asfortranarray")},
    id(np.asanyarray): asanyarray,
    **{id(f): _makes_array(f) for f in _names("zeros ones empty arange")},
    id(np.array): array,
    id(np.full): full,
    id(np.sign): _sign,
    **{id(t): _scalar_type(t) for t in (np.float64, np.complex128)},
    # NumPy calls some of its functions past the protocol.
    **{
        id(f.__wrapped__): f
        for f in vars(np).values()
        if inspect.isbuiltin(getattr(f, "__wrapped__", None))
    },
}


def _lerp(a: AnyArray, b: AnyArray, t: AnyArray, out: AnyArray | None = None) -> AnyArray:
    """Interpolate from the nearer end, so that both ends are met exactly."""
    width = b - a
    result = _core.where(_core.ge(t, 0.5), b - width * (1 - t), a + width * t)
    if out is None:
        return result
    out[...] = result
    return out


def _divide_by_count(a: AnyArray, b: AnyArray, out: AnyArray | None = None) -> AnyArray:
    """Give means, also of a number, as an `Array` or a scalar."""
    result = _core.cast(_core.div(a, b if is_array(b) else to_numpy(b)), a.dtype)
    if out is None and (not is_array(a) or a._rank != "array"):
        return result
    # NumPy divides in place, also what was handed to it as `out=`.
    target = a if out is None else out
    target[...] = result
    return target


def _unsigned_subtract(a: AnyArray, b: AnyArray) -> AnyArray | np.float64:
    """Give the width of a range; integers, which may be far apart, as a float."""
    if is_array(a) or is_array(b):
        return a - b
    width = inspect.unwrap(np.histogram).__globals__["_unsigned_subtract"](a, b)
    return np.float64(width) if np.ndim(width) == 0 and width.dtype.kind == "u" else width


def _median_nancheck(data: AnyArray, result: AnyArray, axis: int) -> AnyArray:
    """Give NaN as the median of what holds NaN, which sorting has put last."""
    if data.size == 0:
        return result
    last = np.take(data, -1, axis=axis)
    missing = np.isnan(last)
    if not _core.is_tracing() and not missing.any():
        return result
    found = _core.where(missing, last, result)
    if not is_array(result) or result._rank != "array":
        return found
    result[...] = found  # it may be what was handed over as `out=`
    return result


def _get_indexes(
    arr: object, virtual_indexes: ArrayLike, valid_values_count: int
) -> tuple[AnyArray, AnyArray]:
    """Give the neighbours of places between elements, or of one place; the ends beyond them."""
    places = asarray(virtual_indexes)
    low = np.floor(places)
    last = (places >= valid_values_count - 1) | np.isnan(places)
    below = places < 0

    def chosen(index: ArrayLike) -> AnyArray:
        found = _core.where(last, -1.0, _core.where(below, 0.0, index))
        return asarray(found).astype(np.intp)

    del arr
    return chosen(low), chosen(low + 1)


def _unique_hash(*args: object, **options: object) -> Any:
    """Leave it to sorting."""
    del args, options
    return NotImplemented


def _unless_over(original: Function, module: str) -> Function:
    """Let instances of class twins take NumPy's code of a function."""

    @functools.wraps(original)
    def call(*args: object, **kwargs: object) -> object:
        if any(isinstance(x, OverArray) for x in args):
            return rebind_function(in_numpy(f"{module}.{original.__name__}"))(*args, **kwargs)
        return original(*args, **kwargs)

    return call


# What is written in C, asks for values that a traced program does not have, or takes for granted
# that a result is an ndarray.
override("numpy._core._multiarray_umath._array_converter", kind=SUBSTITUTE)(Converter)
override("numpy._core._multiarray_umath._unique_hash", kind=SUBSTITUTE, versions="numpy>=2.3")(
    _unique_hash
)
override("numpy.lib._nanfunctions_impl._divide_by_count", kind=SUBSTITUTE)(
    _unless_over(_divide_by_count, "lib._nanfunctions_impl")
)
override("numpy.lib._function_base_impl._get_indexes", kind=SUBSTITUTE)(_get_indexes)
override("numpy.lib._function_base_impl._lerp", kind=SUBSTITUTE)(
    _unless_over(_lerp, "lib._function_base_impl")
)
override("numpy.lib._utils_impl._median_nancheck", kind=SUBSTITUTE)(
    _unless_over(_median_nancheck, "lib._utils_impl")
)
override("numpy.lib._histograms_impl._unsigned_subtract", kind=SUBSTITUTE)(_unsigned_subtract)


# The functions that are rebound. Where a rule written by hand gives fewer equations, or is right at
# a kink, it is in another file.
_FUNCTIONS = """
    append apply_along_axis apply_over_axes argwhere array_split atleast_1d atleast_2d
    atleast_3d block column_stack corrcoef diag_indices_from diagflat diff dsplit
    dstack ediff1d expand_dims extract fft.fftshift fft.ifftshift fill_diagonal flatnonzero
    fliplr flipud geomspace histogram2d histogramdd hsplit hstack imag
    intersect1d iscomplex iscomplexobj isneginf isposinf isreal isrealobj ix_ kron
    lib.scimath.arccos lib.scimath.arcsin lib.scimath.arctanh lib.scimath.log lib.scimath.log10
    lib.scimath.log2 lib.scimath.logn lib.scimath.power lib.scimath.sqrt linalg.multi_dot
    median nan_to_num nancumprod nancumsum nanprod nansum piecewise
    poly polyadd polyder polydiv polyfit polyint polysub polyval real real_if_close rollaxis rot90
    setdiff1d setxor1d sort_complex split take_along_axis trapezoid tril_indices_from
    trim_zeros triu_indices_from union1d unstack unwrap vander vsplit vstack
"""


# How many of the first arguments these make arrays of, to write what the others say into.
_WRITTEN = {"numpy.ediff1d": 1, "numpy.polydiv": 1, "numpy.polyfit": 2, "numpy.unwrap": 1}


def _of_numpy(target: str) -> Rule:
    function, count = in_numpy(target.removeprefix("numpy.")), _WRITTEN.get(target, 0)

    def first(*args: object, **kwargs: object) -> object:
        run = rebound(function)

        def on_ours(*args: ArrayLike, **kwargs: object) -> object:
            return run(*(_core.asarray(asarray(a)) for a in args[:count]), *args[count:], **kwargs)

        FUNCTIONS[function] = on_ours if count else run
        return FUNCTIONS[function](*args, **kwargs)

    return first


_REBOUND = RuleMaker(_of_numpy, Way.REBOUND)
override(*named("numpy", _FUNCTIONS), kind=DISPATCHED)(_REBOUND)
override("numpy.trapz", kind=DISPATCHED, versions="numpy<2.4")(_REBOUND)


@override(np.select)
def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> AnyArray:
    result: AnyArray = rebound(np.select)(condlist, choicelist, default)
    return unwidened(result, [*choicelist, default])
