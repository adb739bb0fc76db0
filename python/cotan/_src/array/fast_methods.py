"""Methods of `Array` that are called so often that they go straight to primitives."""

import gc
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import Any, SupportsIndex

import numpy as np
from numpy.exceptions import ComplexWarning

from cotan import _core
from cotan._core import Array
from cotan._src.array.docstrings import DOCSTRINGS
from cotan._src.runtime.call_site import warn
from cotan._src.runtime.dtypes import DTYPES
from cotan._src.runtime.ndarray_subclasses import to_twin
from cotan._src.runtime.values import OverArray, is_array, laid_out
from cotan._src.typing import AnyArray, Args, ArrayLike, Axes, Axis, Casting, DTypeLike, Function


def _reduction(name: str) -> Function:
    reduce: Callable[..., Array] = getattr(_core, name)
    function: Callable[..., Array] = getattr(np, name)

    def method(
        self: Array,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        **options: object,
    ) -> Array:
        if dtype is None and out is None and not options:
            return reduce(self, axis, bool(keepdims))
        return function(self, axis=axis, dtype=dtype, out=out, keepdims=keepdims, **options)

    method.__name__ = name
    method.__doc__ = DOCSTRINGS[name]
    return method


def _extremum(name: str) -> Function:
    reduce: Callable[..., Array] = getattr(_core, name)
    function: Callable[..., Array] = getattr(np, name)

    def method(
        self: Array,
        axis: Axes = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        **options: object,
    ) -> Array:
        if out is None and not options:
            return reduce(self, axis, bool(keepdims))
        return function(self, axis=axis, out=out, keepdims=keepdims, **options)

    method.__name__ = name
    method.__doc__ = DOCSTRINGS[name]
    return method


def cumsum(
    self: Array, axis: Axis = None, dtype: DTypeLike | None = None, out: AnyArray | None = None
) -> Array:
    """Give the sums of all elements up to each one.

    Of the shape of the array, flattened where `axis` is None; of its dtype or `dtype`, bools and
    integers as int64 or uint64. `out` is written to and given back.

    >>> import cotan as ct
    >>> ct.array([1.0, 2.0, 3.0]).cumsum()
    Array([1., 3., 6.])
    """
    if dtype is None and out is None:
        return _core.cumsum(self, axis)
    function: Function = np.cumsum
    sums: Array = function(self, axis, dtype, out)
    return sums


def _sequence(arguments: Args) -> Any:
    return arguments[0] if len(arguments) == 1 else arguments


def reshape(
    self: Array,
    *shape: SupportsIndex | Sequence[SupportsIndex],
    order: str = "C",
    copy: bool | None = None,
) -> Array:
    """Give the same elements in another shape: a view where NumPy gives one.

    The lengths are one argument or several; one may be -1. Raises `ValueError` for a shape of
    another size, for an unknown order, and with `copy=False` where there is no view.

    >>> import cotan as ct
    >>> ct.array([1.0, 2.0, 3.0, 4.0]).reshape(2, -1)
    Array([[1., 2.],
           [3., 4.]])
    """
    if order not in {"C", "F", "A", "c", "f", "a"}:
        raise ValueError(f"reshape: order must be 'C', 'F' or 'A', not {order!r}")
    order = _order("reshape", self, order)
    wanted = _sequence(shape)
    if order == "F":
        wanted = (wanted,) if isinstance(wanted, (int, np.integer)) else tuple(wanted)
        result = _core.reshape(_core.transpose(self), wanted[::-1])
    else:
        result = _core.reshape(self, wanted)
    if copy is False and self._rank == "array" and result.base is None:
        raise ValueError("reshape: unable to avoid creating a copy while reshaping; leave out copy")
    if copy:
        result = result.copy()
    return _core.transpose(result) if order == "F" else result


def _order(name: str, x: Array, order: object) -> str:
    """Give the order of elements that is meant by one: 'C' or 'F'."""
    given = order.upper() if isinstance(order, str) else ""
    if given not in {"C", "F", "A", "K"}:
        raise ValueError(f"{name}: order must be one of 'C', 'F', 'A' or 'K', not {order!r}")
    if given in {"C", "F"}:
        return given
    if not x._contiguous:
        raise TypeError(
            f"{name}: order={order!r} means the order in memory, which an Array does not have; use "
            "order='C' or 'F'"
        )
    return "C"


def transpose(self: Array, *axes: SupportsIndex | Sequence[SupportsIndex] | None) -> Array:
    """Give a view with the axes in another order, reversed by default.

    Raises `ValueError` for what is no order of the axes.

    >>> import cotan as ct
    >>> ct.array([[1.0, 2.0]]).transpose().shape
    (2, 1)
    """
    return _core.transpose(self, _sequence(axes) if axes else None)


def swapaxes(self: Array, axis1: int, axis2: int) -> Array:
    """Give a view with two axes exchanged.

    Raises `AxisError` for an axis that is not there.

    >>> import cotan as ct
    >>> ct.array([[[1.0, 2.0]]]).swapaxes(0, 2).shape
    (2, 1, 1)
    """
    order = list(range(self.ndim))
    axis1, axis2 = (np.lib.array_utils.normalize_axis_index(a, self.ndim) for a in (axis1, axis2))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return _core.transpose(self, order)


def ravel(self: Array, order: str = "C") -> Array:
    """Give all elements along one axis: a view of an array without gaps, a copy of others.

    Raises `ValueError` for an unknown order, `TypeError` for the order in memory ("A", "K") of an
    array with gaps.

    >>> import cotan as ct
    >>> ct.array([[1.0, 2.0], [3.0, 4.0]]).ravel("F")
    Array([1., 3., 2., 4.])
    """
    order = _order("ravel", self, order)
    # A reshape could be a view of some arrays with gaps, too; this never is.
    direct = self._contiguous if order == "C" else _core.transpose(self)._contiguous
    result = reshape(self, -1, order=order)
    return result if direct else result.copy()


def flatten(self: Array, order: str = "C") -> Array:
    """Give all elements along one axis, as a new array.

    Raises `ValueError` for an unknown order, `TypeError` for the order in memory ("A", "K") of an
    array with gaps.

    >>> import cotan as ct
    >>> ct.array([[1.0, 2.0], [3.0, 4.0]]).flatten()
    Array([1., 2., 3., 4.])
    """
    return reshape(self, -1, order=_order("flatten", self, order)).copy()


def squeeze(self: Array, axis: int | tuple[int, ...] | None = None) -> Array:
    """Give a view without axes of length 1; the array itself when there are none.

    Raises `ValueError` for an axis of another length.

    >>> import cotan as ct
    >>> ct.array([[[1.0, 2.0]]]).squeeze(0).shape
    (1, 2)
    """
    if axis is None:
        drop = {i for i, n in enumerate(self.shape) if n == 1}
    else:
        axes = axis if isinstance(axis, tuple) else (axis,)
        drop = set(np.lib.array_utils.normalize_axis_tuple(axes, self.ndim))
        for i in drop:
            if self.shape[i] != 1:
                raise ValueError(
                    "squeeze: cannot select an axis to squeeze out which has size not equal to "
                    f"one: axis {i} of shape {self.shape}"
                )
    if not drop:
        return self
    return _core.reshape(self, [n for i, n in enumerate(self.shape) if i not in drop])


def astype(
    self: Array,
    dtype: DTypeLike,
    order: str = "K",
    casting: Casting = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> Array:
    """Give the same numbers in another dtype.

    Integers and bools carry no gradient. For a dtype that an `Array` does not have (text, objects,
    constants in another byte order) the result is an ndarray. Raises `TypeError` for a cast that
    `casting` does not allow, and `ValueError` where `"same_value"` (NumPy 2.4) finds values that
    change. Warns as NumPy does where imaginary parts are discarded.

    >>> import cotan as ct
    >>> ct.array([1.7, -1.7]).astype("int64")
    Array([ 1, -1])
    """
    del subok
    target = np.dtype(dtype)
    if casting == "same_value":
        _core.value(self).astype(target, casting=casting)
    elif not np.can_cast(self.dtype, target, casting):
        raise TypeError(
            f"astype: cannot cast from {self.dtype} to {target} according to the rule {casting!r}"
        )
    if target == self.dtype:
        return self.copy() if copy else laid_out(self, order)
    if self.dtype.kind == "c" and target.kind in "fiu":
        warn("Casting complex values to real discards the imaginary part", ComplexWarning)
    is_ours = target.name in DTYPES and target.isnative
    if not is_ours and (target.kind in "biuSU" or not _core.is_active(self)):
        # No `Array` has such a dtype, and values of it carry no gradient.
        values: Any = _core.value(self).astype(target)
        return values  # type: ignore[no-any-return]
    if target.kind not in "fc" and self.dtype.kind in "fc":
        # Integers have no derivative.
        if _core.is_mapped(self):  # what is dropped is not known to differ between examples
            return _core.ne(self, 0) if target.kind == "b" else _core.cast(_whole(self), target)
        return _core.cast(_core.dropgrad(self), target)
    return _core.cast(self, target)


def _whole(x: Array) -> Array:
    """Give the integers that a cast to them makes, in the dtype of the real parts."""
    return _core.trunc(x.real if x.dtype.kind == "c" else x)


def conjugate(self: Array, out: AnyArray | None = None) -> Array:
    """Give the complex conjugate; of real numbers the array itself.

    >>> import cotan as ct
    >>> ct.array([1.0 + 2.0j]).conjugate()
    Array([1.-2.j])
    """
    if out is not None:
        function: Function = np.conjugate
        conjugates: Array = function(self, out)
        return conjugates
    if self.dtype.kind != "c":
        return self
    conjugate = _core.apply("conj", self)
    return _core.number(conjugate, None) if self._rank == "number" else conjugate


def dot(self: Array, b: ArrayLike, out: AnyArray | None = None) -> Array:
    """Give the product of this array with another, as `numpy.dot`.

    Raises `ValueError` for shapes that do not fit.

    >>> import cotan as ct
    >>> ct.array([1.0, 2.0]).dot([3.0, 4.0])
    Array(11.)
    """
    function: Function = np.dot
    product: Array = function(self, b, out)
    return product


def elements(self: Array) -> Iterator[Array]:
    """Give the elements along the first axis, one after the other."""
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d array")
    return map(self.__getitem__, range(len(self)))


class _NoArrayError(AttributeError, TypeError):
    """What `len` raises for a scalar, and what `hasattr` looks for."""


class _OfArrays:
    """A method that arrays have and scalars have not: `hasattr(x, "__len__")`."""

    def __init__(self, method: Callable[..., object], message: str) -> None:
        self._method, self._message = method, message

    def __get__(self, array: Array | None, owner: type | None = None) -> Function:
        if array is None:
            return self._method
        if array._rank != "array":
            raise _NoArrayError(self._message.format(array.__class__.__name__))
        return MethodType(self._method, array)


def _contains(self: Array, item: object, /) -> bool:
    return bool(np.any(self == item))


_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip


def _beneath(x: ArrayLike) -> ArrayLike:
    """Give the array beneath a mask, or of a subclass: what it is written into has neither."""
    x = to_twin(x) if _core.is_lifting() and isinstance(x, np.ndarray) else x
    return x.__held_array__ if isinstance(x, OverArray) else x


def _in_place(name: str, operator: Callable[[Array, Any], Array]) -> Callable[[Array, Any], Array]:
    sign = _SYMBOLS[name]

    def method(self: Array, other: Any) -> Array:
        if self._rank == "array" and not is_array(other):
            other = _beneath(other)
        result = operator(self, other)
        if self._rank == "array" and isinstance(other, np.matrix):
            # Its products are its own in `x * m`, and those of an array in `x *= m`.
            result = operator(self, other.A)
        if self._rank != "array" or result is NotImplemented:
            # What NumPy hands out as a scalar is immutable, so the name is bound anew.
            return result
        if result.shape != self.shape:
            raise ValueError(
                f"{name}: an array of shape {self.shape} cannot take a result of shape "
                f"{result.shape} in place; write x = x {sign} y"
            )
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise TypeError(
                f"{name}: an array of dtype {self.dtype} cannot take a result of dtype "
                f"{result.dtype} in place; write x = x {sign} y"
            )
        self._assign(result, True)
        return self

    method.__name__ = f"__i{name}__"
    return method


def attach(cls: type) -> None:
    """Give the class its methods."""
    for name in ("sum", "prod", "mean"):
        setattr(cls, name, _reduction(name))
    for name in ("max", "min", "argmax", "argmin"):
        setattr(cls, name, _extremum(name))
    for method in (cumsum, reshape, transpose, swapaxes, ravel, flatten, squeeze, astype, dot):
        setattr(cls, method.__name__, method)
    setattr(cls, "conj", conjugate)  # noqa: B010
    setattr(cls, "conjugate", conjugate)  # noqa: B010
    # What iterates goes by the class's slot, which would take the error that is meant for `hasattr`
    # as the lack of the method; so only the name is changed. What is set next lets Python know.
    (names,) = (d for d in gc.get_referents(vars(cls)) if isinstance(d, dict))
    names["__iter__"] = _OfArrays(names["__iter__"], "{!r} object has no attribute '__iter__'")
    length = _OfArrays(names["__len__"], "object of type {!r} has no len()")
    setattr(cls, "__len__", length)  # noqa: B010
    contains = _OfArrays(_contains, "argument of type {!r} is not iterable")
    setattr(cls, "__contains__", contains)  # noqa: B010
    for name in _SYMBOLS:
        operator = getattr(cls, f"__{name}__")
        setattr(cls, f"__i{name}__", _in_place(name, operator))
