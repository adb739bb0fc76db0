"""The remaining ndarray methods of `Array`: each calls the NumPy function of the same name."""

import builtins
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, SupportsIndex, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.array import array_api
from cotan._src.array.docstrings import DOCSTRINGS
from cotan._src.numpy import functions as _functions  # noqa: F401 - enters the rules
from cotan._src.numpy.user_subclasses import view_as
from cotan._src.rebind.numpy_substitutes import Flat
from cotan._src.runtime.registry import FUNCTIONS
from cotan._src.runtime.values import OverArray, is_active
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Axis,
    Dtype,
    DTypeLike,
    Function,
    NDArray,
    Shape,
)

# An array, or lists of lists of them.
_Nested: TypeAlias = "Array | list[_Nested]"

# Methods whose NumPy function takes the array first and then the same arguments.
_FUNCTIONS = (
    "all", "any", "argpartition", "argsort", "cumprod", "diagonal", "nonzero", "ptp",
    "put", "repeat", "round", "searchsorted", "std", "take", "trace", "var",
)  # fmt: skip

_REFUSED = {
    "getfield": "an Array has no memory that could be viewed as another dtype; use astype",
    "setfield": "an Array has no memory that could be viewed as another dtype; use astype",
}


def _delegate(name: str) -> Function:
    function = getattr(np, name)

    def method(self: Array, *args: object, **kwargs: object) -> object:
        # Bools have no derivative, so a prepared function may go by them.
        x = self != 0 if name == "nonzero" else self
        return FUNCTIONS[function](x, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = DOCSTRINGS[name]
    return method


def _refuse(name: str, instead: str) -> Function:
    def method(self: Array, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(f"{name}: {instead}")

    method.__name__ = name
    method.__doc__ = f"Refuse: {instead}."
    return method


def _as_python(x: AnyArray) -> Array:
    """Give an element as a Python number, which has double precision whatever the array has."""
    doubles = {"f": np.float64, "c": np.complex128}
    return _core.number(x, doubles.get(x.dtype.kind))


def item(self: Array, index: Args) -> Array:
    """Give an element; a traced one as an `Array` that acts as a Python number."""
    if len(index) == 1 and isinstance(index[0], tuple):
        index = index[0]
    if not index and self.size != 1:
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    if not index:
        return _as_python(self)
    if len(index) == 1:
        return _as_python(_core.reshape(self, -1)[index[0]])
    if len(index) != self.ndim:
        raise ValueError(f"item: {len(index)} indices for an array of {self.ndim} axes")
    return _as_python(self[index])


def tolist(self: Array) -> _Nested:
    """Give nested lists of numbers; traced ones are `Array`s that act as Python numbers."""
    if self.ndim == 0:
        return _as_python(self)
    return [tolist(row) for row in self]


def as_objects(self: Array) -> NDArray:
    """Give a NumPy array of objects, one for each element."""
    objects = np.empty(self.shape, object)
    for place in np.ndindex(self.shape):
        objects[place] = self[place]
    return objects


def _memory(name: str) -> Function:
    """Let a method read the values, unless they are active: no gradient reaches memory."""

    def method(self: Array, *args: object, **kwargs: object) -> object:
        if is_active(self):
            raise NotDifferentiableError(
                f"x.{name} would drop the gradient; compute with x itself, or use "
                f"ct.dropgrad(x).{name} to drop it on purpose"
            )
        return getattr(_core.value(self), name)(*args, **kwargs)

    method.__name__ = name
    method.__doc__ = DOCSTRINGS[name]
    return method


def byteswap(self: Array, inplace: bool = False) -> NDArray:
    """Give the numbers of a constant array whose bytes are those of this one in the other order.

    Raises `TypeError` for an active array, and where it is to be done in place.

    >>> import cotan as ct
    >>> ct.array([1, 256], dtype="int16").byteswap()
    array([256,   1], dtype=int16)
    """
    if inplace or is_active(self):
        raise TypeError("byteswap: an Array is always in the byte order of the machine")
    return _core.value(self).byteswap()


def choose(
    self: Array, *choices: ArrayLike, out: AnyArray | None = None, mode: str = "raise"
) -> Array:
    """Give elements of several arrays, which are one argument or several.

    The array holds which of them each element is taken from. Raises `ValueError` for a number that
    is none of theirs, unless `mode` is "wrap" or "clip", and `TypeError` for an array that does not
    hold integers.

    >>> import cotan as ct
    >>> ct.array([0, 1]).choose([10.0, 20.0], [30.0, 40.0])
    Array([10., 40.])
    """
    given = choices[0] if len(choices) == 1 else choices
    chosen: Array = FUNCTIONS[np.choose](self, given, out, mode)
    return chosen


def clip(
    self: Array,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    out: AnyArray | None = None,
    **kwargs: Any,
) -> Array:
    """Give the array with what lies outside of two bounds replaced by them.

    Of the shape that array and bounds broadcast to, and of their common dtype. Derivatives go to
    the element or to the bound that is taken. `out` is written to and given back.

    >>> import cotan as ct
    >>> ct.array([-1.0, 0.5, 2.0]).clip(0.0, 1.0)
    Array([0. , 0.5, 1. ])
    """
    clipped: Array = FUNCTIONS[np.clip](self, min, max, out, **kwargs)
    return clipped


def compress(
    self: Array, condition: ArrayLike, axis: Axis = None, out: AnyArray | None = None
) -> Array:
    """Give the slices along an axis where a condition holds.

    Without an axis those are elements of the flattened array.

    Raises `ValueError` for a condition of more than one axis, `IndexError` for a longer one.

    >>> import cotan as ct
    >>> ct.array([1.0, 2.0, 3.0]).compress([True, False, True])
    Array([1., 3.])
    """
    slices: Array = FUNCTIONS[np.compress](condition, self, axis, out)
    return slices


def fill(self: Array, value: ArrayLike) -> None:
    """Write one value everywhere.

    Raises `ValueError` for what does not fit into an element.

    >>> import cotan as ct
    >>> x = ct.array([1.0, 2.0])
    >>> x.fill(0.5)
    >>> x
    Array([0.5, 0.5])
    """
    self[...] = value


def partition(
    self: Array, kth: ArrayLike, axis: int = -1, kind: str | None = None, order: None = None
) -> None:
    """Partition in place along an axis: what is smaller than element `kth` before it.

    Raises `ValueError` for a `kth` out of range.

    >>> import cotan as ct
    >>> x = ct.array([3.0, 1.0, 2.0])
    >>> x.partition(0)
    >>> x[0]
    Array(1.)
    """
    self._assign(FUNCTIONS[np.partition](self, kth, axis, kind, order))


def resize(
    self: Array, *new_shape: SupportsIndex | Sequence[SupportsIndex] | None, refcheck: bool = True
) -> None:
    """Give the array another shape in place, of as many elements; others are refused.

    Raises `TypeError` for another number of elements, `ValueError` for negative lengths.

    >>> import cotan as ct
    >>> x = ct.array([1.0, 2.0, 3.0, 4.0])
    >>> x.resize(2, 2)
    >>> x.shape
    (2, 2)
    """
    del refcheck
    if not new_shape or new_shape == (None,):
        return
    wanted: Any = new_shape[0] if len(new_shape) == 1 else new_shape
    wanted = (wanted,) if isinstance(wanted, (int, np.integer)) else tuple(wanted)
    if any(n < 0 for n in wanted):
        raise ValueError("negative dimensions not allowed")
    if np.prod(wanted) != self.size:
        raise TypeError(
            f"resize: cannot change the size of an Array in place, from {self.shape} to {wanted}; "
            "use np.resize or np.concatenate"
        )
    self.shape = wanted


def setflags(
    self: Array, write: bool | None = None, align: bool | None = None, uic: bool | None = None
) -> None:
    """Leave the array as it is: what does not write to it need not be kept from it.

    Raises `ValueError` for flags that it cannot have.

    >>> import cotan as ct
    >>> ct.array([1.0]).setflags(write=False)
    """
    del align
    if uic:
        raise ValueError("cannot set WRITEBACKIFCOPY flag to True")
    if write and not self._writeable:
        raise ValueError("cannot set WRITEABLE flag to True of this array")


def sort(
    self: Array,
    axis: int = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
) -> None:
    """Sort in place along an axis: NaN last, elements that are equal in their order.

    Derivatives go to where an element was. Raises `AxisError` for an axis that is not there.

    >>> import cotan as ct
    >>> x = ct.array([3.0, 1.0, 2.0])
    >>> x.sort()
    >>> x
    Array([1., 2., 3.])
    """
    self._assign(FUNCTIONS[np.sort](self, axis, kind, order, stable=stable))


def view(self: Array, dtype: DTypeLike | None = None, type: DTypeLike | None = None) -> Any:
    """Give a view of the whole array; as another dtype or class there is none.

    What is not active can be read as another dtype: an ndarray that cannot be written to; and seen
    as a subclass of ndarray. Of an active array the first goes for complex numbers and their parts
    alone, the second for subclasses that override nothing NumPy asks. Raises `TypeError` for other
    dtypes and for classes of arrays that cotan does not know, `ValueError` where sizes do not fit.

    >>> import cotan as ct
    >>> x = ct.array([1.0, 2.0])
    >>> x.view()[0] = 5.0
    >>> x
    Array([5., 2.])
    >>> ct.array([1.0 + 2.0j]).view(float)
    array([1., 2.])
    """
    for wanted in (dtype, type):
        if isinstance(wanted, builtins.type) and issubclass(wanted, (np.ndarray, OverArray)):
            if wanted is not np.ndarray and self._rank == "array":
                twin = view_as(self, wanted)
                if twin is not None:
                    return twin
                is_known = issubclass(wanted, (np.matrix, np.ma.MaskedArray))
                is_constant = not is_active(self) and not _core.is_traced(self)
                if is_constant and not is_known and self.dtype.isbuiltin == 1:
                    # Writes to one of both are seen in the other; active values are refused there.
                    memory: Any = self
                    return np.asarray(memoryview(memory)).view(wanted)
                raise TypeError(
                    f"view: an Array cannot become a {wanted.__module__}.{wanted.__qualname__}; "
                    "use ndarrays, with @ for products of matrices and np.where for masks"
                )
        elif wanted is not None and np.dtype(wanted) != self.dtype:
            return _memory_as(self, np.dtype(wanted))
    return self[...] if self._rank == "array" else self


def _memory_as(self: Array, dtype: Dtype) -> AnyArray:
    """Give the memory of an array as another dtype, to read only.

    An active one can be seen as the parts of its complex numbers, or as complex numbers of parts.
    """
    if is_active(self):
        parts = {self.dtype.char, dtype.char}
        if parts in ({"D", "d"}, {"F", "f"}):
            return _parts_as(self, dtype)
        raise TypeError(
            f"view: an active Array has no memory that could be viewed as dtype {dtype}; use "
            "astype, or x.real and x.imag for the parts of complex numbers"
        )
    seen = _core.value(self).view(dtype)
    seen.flags.writeable = False
    return seen


def _parts_as(self: Array, dtype: Dtype) -> AnyArray:
    if self.ndim == 0:
        raise ValueError("Changing the dtype of a 0d array is only supported if the itemsize is "
                         "unchanged")  # fmt: skip
    if self.shape[-1] > 1 and self._strides[-1] != 1:
        raise ValueError("To change to a dtype of a different size, the last axis must be "
                         "contiguous")  # fmt: skip
    if dtype.kind == "f":
        pairs: AnyArray = np.stack([self.real, self.imag], axis=-1)
        seen = _core.reshape(pairs, (*self.shape[:-1], 2 * self.shape[-1]))
    else:
        if self.shape[-1] % 2:
            raise ValueError("When changing to a larger dtype, its size must be a divisor of the "
                             "total size in bytes of the last axis of the array.")  # fmt: skip
        pairs = _core.reshape(self, (*self.shape[:-1], self.shape[-1] // 2, 2))
        seen = _core.apply("complex", pairs[..., 0], pairs[..., 1])
    return np.broadcast_to(seen, seen.shape)


def _without_gaps(shape: Shape, strides: Shape) -> bool:
    """Say whether the last axis runs fastest and nothing lies between the elements."""
    step = 1
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and s != step:
            return 0 in shape
        step *= n
    return True


_SHORT = {
    "C": "c_contiguous", "F": "f_contiguous", "W": "writeable", "A": "aligned", "O": "owndata",
    "X": "writebackifcopy", "B": "behaved", "CA": "carray", "FA": "farray",
}  # fmt: skip


# As NumPy's C interface numbers them.
_BITS = {
    "c_contiguous": 0x1, "f_contiguous": 0x2, "owndata": 0x4, "aligned": 0x100, "writeable": 0x400,
}  # fmt: skip


class Flags:
    """What `x.flags` says of an array: that of an ndarray that was made in the same way."""

    def __init__(self, array: Array) -> None:
        self.c_contiguous = self.contiguous = bool(array._contiguous)
        self.f_contiguous = self.fortran = _without_gaps(array.shape[::-1], array._strides[::-1])
        self.fnc = self.f_contiguous and not self.c_contiguous
        self.forc = self.c_contiguous or self.f_contiguous
        self.farray = self.f_contiguous
        self.carray = self.behaved = self.aligned = True
        self.writeable = bool(array._writeable)
        self.owndata = array.base is None
        self.writebackifcopy = False
        self.num = sum(bit for name, bit in _BITS.items() if vars(self)[name])

    def __getitem__(self, name: str) -> bool:
        name = _SHORT.get(name, name.lower())
        if name not in vars(self):
            raise KeyError("Unknown flag")
        return bool(vars(self)[name])

    def __setitem__(self, name: str, value: bool) -> None:
        self[name]
        setattr(self, _SHORT.get(name, name.lower()), value)

    def __eq__(self, other: object) -> bool:
        try:
            return all(value == getattr(other, name) for name, value in vars(self).items())
        except AttributeError:
            return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        names = ("c_contiguous", "f_contiguous", "owndata", "writeable", "aligned")
        all_names = *names, "writebackifcopy"
        return "".join(f"  {name.upper()} : {self[name]}\n" for name in all_names)


def _strides(x: Array) -> tuple[int, ...]:
    return tuple(int(x.itemsize) * s for s in x._strides)


def _set_flat(self: Array, values: ArrayLike) -> None:
    Flat(self)[:] = values


def _of_memory(name: str) -> Callable[[Array], object]:
    """Give an attribute of the memory of a constant, which other code may write to."""

    def get(self: Array) -> object:
        if is_active(self):
            raise AttributeError(
                f"{name}: an active Array has no memory; use ct.dropgrad(x).{name}"
            )
        return getattr(_core.lend(self, name == "ctypes"), name)

    return get


def _unwritable(name: str, instead: str) -> Callable[[Array, object], NoReturn]:
    def refuse(self: Array, value: object) -> NoReturn:
        raise AttributeError(
            f"{name}: an Array has no memory that could be viewed differently; {instead}"
        )

    return refuse


# What ndarray lets one set that is about memory, and what to do instead.
_UNWRITABLE = {
    "data": "write its values with x[...] = values",
    "strides": "use x.reshape, x.transpose or x[::step]",
}


_PROPERTIES: dict[str, Callable[[Array], object]] = {
    "flags": Flags,
    "mT": FUNCTIONS[np.matrix_transpose],
    "strides": _strides,
}


def _of_scalars(name: str, drops: bool) -> property:
    """Give what Python's and NumPy's scalars have, and arrays have not."""

    def get(self: Array) -> Any:
        if name == "is_integer" and self.dtype.kind == "f" and _core.is_replayed(self):
            # A decision, which replays look at.
            return lambda: bool(_core.isfinite(self)) and bool(_core.floor(self) == self)
        kind = int if self.dtype.kind in "iub" else self.__class__
        if self._rank == "array" or not hasattr(kind, name):
            raise AttributeError(f"an Array of rank {self._rank!r} has no attribute {name!r}")
        if name in {"numerator", "denominator"}:
            return getattr(_core.value(self).item(), name)
        return functools.partial(call, self)

    # To ask whether there is the method reads no value, and is no reason to refuse.
    def call(self: Array, *args: object, **kwargs: object) -> Any:
        compared = _compared_fraction(sys._getframe(1)) if drops else None
        if compared is not None and _core.is_replayed(self):
            # Decisions, which replays look at; they tell the answers of all six operators.
            _ = bool(self < compared), bool(self == compared)
            return getattr(_core.peek(self).item(), name)(*args, **kwargs)
        if drops and is_active(self) and compared is None:
            raise NotDifferentiableError(
                f"x.{name} would drop the gradient; compute with x itself, or use "
                f"ct.dropgrad(x).{name} to drop it on purpose"
            )
        return getattr(_core.value(self).item(), name)(*args, **kwargs)

    return property(get, doc=f"What `{name}` is of a scalar; for an array, `AttributeError`.")


def _compared_fraction(frame: Any) -> Any:
    """Give what a number is compared with, if a frame is `Fraction.from_float` in a comparison.

    That is piecewise constant.
    """
    around = frame.f_back
    is_comparison = (
        around is not None
        and frame.f_globals.get("__name__") == around.f_globals.get("__name__") == "fractions"
        and around.f_code.co_name in {"__eq__", "_richcmp"}
    )
    return around.f_locals[around.f_code.co_varnames[0]] if is_comparison else None


# Most are piecewise constant, or texts. A ratio would give the number itself to other code.
_SCALARS = {
    "is_integer": False, "hex": False, "bit_count": False, "fromhex": False, "from_bytes": False,
    "as_integer_ratio": True, "numerator": False, "denominator": False, "to_bytes": False,
}  # fmt: skip


def attach(cls: Any) -> None:
    """Give the class its methods."""
    for name, drops in _SCALARS.items():
        setattr(cls, name, _of_scalars(name, drops))
    for name in _FUNCTIONS:
        setattr(cls, name, _delegate(name))
    for name, instead in _REFUSED.items():
        setattr(cls, name, _refuse(name, instead))
    for name in ("dump", "dumps", "tobytes", "tofile"):
        setattr(cls, name, _memory(name))
    own = byteswap, choose, clip, compress, fill, partition, resize, setflags, sort, view
    for method in own:
        setattr(cls, method.__name__, method)
    for name, get in _PROPERTIES.items():
        setattr(cls, name, property(get, doc=DOCSTRINGS[name]))
    cls.__array_namespace__ = array_api.namespace
    cls.flat = property(Flat, _set_flat, doc=DOCSTRINGS["flat"])
    for name in ("ctypes", "data"):
        setattr(
            cls,
            name,
            property(
                _of_memory(name),
                doc=f"What `ndarray.{name}` says, of a constant.",
            ),
        )
    for name, instead in _UNWRITABLE.items():
        found = getattr(cls, name)
        refused = _unwritable(name, instead)
        setattr(cls, name, property(found.__get__, refused, doc=found.__doc__))
