"""The methods of ndarray that `Array` has not got in Rust: NumPy functions by another name."""

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from cotan import _array_api, _core
from cotan._numpy import FUNCTIONS
from cotan._numpy_core import is_followed
from cotan._numpy_own import Flat

# Methods whose NumPy function takes the array first and then the same arguments.
_FUNCTIONS = (
    "all", "any", "argpartition", "argsort", "choose", "cumprod", "diagonal", "nonzero", "ptp",
    "put", "repeat", "round", "searchsorted", "std", "take", "trace", "var",
)  # fmt: skip

_REFUSED = {
    "byteswap": "an Array is always in the byte order of the machine",
    "dump": "convert it first: np.asarray(x).dump(...)",
    "dumps": "convert it first: np.asarray(x).dumps()",
    "getfield": "an Array has no memory to see as another dtype; use astype",
    "resize": "an Array does not change its shape; use np.resize or np.concatenate",
    "setfield": "an Array has no memory to see as another dtype; use astype",
    "setflags": "an Array has no memory of its own to protect",
    "tobytes": "convert it first: np.asarray(x).tobytes()",
    "tofile": "convert it first: np.asarray(x).tofile(...)",
}


def _delegate(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return FUNCTIONS[function](self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"Do what `numpy.{name}` does, with this array first."
    return method


def _refuse(name: str, instead: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{name}: {instead}")

    method.__name__ = name
    method.__doc__ = f"Refuse: {instead}."
    return method


def clip(self: Any, min: Any = None, max: Any = None, out: Any = None, **kwargs: Any) -> Any:
    """Give the array with what lies outside of two bounds replaced by them."""
    return FUNCTIONS[np.clip](self, min, max, out, **kwargs)


def compress(self: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    """Give the slices along an axis where a condition holds."""
    return FUNCTIONS[np.compress](condition, self, axis, out)


def fill(self: Any, value: Any) -> None:
    """Write one value everywhere."""
    self[...] = value


def partition(self: Any, kth: Any, axis: int = -1, kind: Any = None, order: Any = None) -> None:
    """Partition in place along an axis."""
    self[...] = FUNCTIONS[np.partition](self, kth, axis, kind, order)


def sort(
    self: Any, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> None:
    """Sort in place along an axis."""
    self[...] = FUNCTIONS[np.sort](self, axis, kind, order, stable=stable)


def to_device(self: Any, device: str, /, *, stream: Any = None) -> Any:
    """Give the array itself: all arrays are on the CPU."""
    if device != "cpu":
        raise ValueError(f"to_device: arrays are on the device 'cpu', not {device!r}")
    if stream is not None:
        raise ValueError("to_device: the CPU has no streams")
    return self


def view(self: Any, dtype: Any = None, type: Any = None) -> Any:
    """Give a view of the whole array; as another dtype or class there is none."""
    for wanted in (dtype, type):
        if isinstance(wanted, builtins.type) and issubclass(wanted, np.ndarray):
            if wanted is not np.ndarray:
                raise TypeError(
                    f"view: an Array cannot become a {wanted.__module__}.{wanted.__qualname__}; "
                    "use ndarrays, with @ for products of matrices and np.where for masks"
                )
        elif wanted is not None and np.dtype(wanted) != self.dtype:
            raise TypeError(
                f"view: an Array has no memory to see as dtype {np.dtype(wanted)}; use astype"
            )
    return self[...] if self._rank == "array" else self


def _without_gaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Say whether the last axis runs fastest and nothing lies between the elements."""
    step = 1
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and s != step:
            return 0 in shape
        step *= n
    return True


class Flags:
    """What `x.flags` says of an array: that of an ndarray that was made in the same way."""

    def __init__(self, array: Any) -> None:
        self.c_contiguous = self.contiguous = bool(array._contiguous)
        self.f_contiguous = self.fortran = _without_gaps(array.shape[::-1], array._strides[::-1])
        self.fnc = self.f_contiguous and not self.c_contiguous
        self.forc = self.c_contiguous or self.f_contiguous
        self.farray = self.f_contiguous
        self.carray = self.behaved = self.aligned = True
        self.writeable = bool(array._writeable)
        self.owndata = array.base is None
        self.writebackifcopy = False

    def __getitem__(self, name: str) -> bool:
        if name.lower() not in vars(self):
            raise KeyError("Unknown flag")
        return bool(vars(self)[name.lower()])

    def __repr__(self) -> str:
        names = ("c_contiguous", "f_contiguous", "owndata", "writeable", "aligned")
        return "\n".join(f"  {name.upper()} : {self[name]}" for name in names)


def _strides(x: Any) -> tuple[int, ...]:
    return tuple(int(x.itemsize) * s for s in x._strides)


def _set_flat(self: Any, values: Any) -> None:
    Flat(self)[:] = values


def _no_memory(self: Any) -> Any:
    raise AttributeError("an Array has no memory to point to; convert it first: np.asarray(x)")


def _unwritable(name: str, instead: str) -> Callable[[Any, Any], None]:
    def refuse(self: Any, value: Any) -> None:
        raise AttributeError(f"{name}: an Array has no memory to see in another way; {instead}")

    return refuse


# What ndarray lets one set that is about memory, and what to do instead.
_UNWRITABLE = {
    "data": "write its values with x[...] = values",
    "strides": "use x.reshape, x.transpose or x[::step]",
}


_PROPERTIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "device": (lambda _: "cpu", "Where the values are."),
    "flags": (Flags, "What NumPy says of an array's memory."),
    "mT": (FUNCTIONS[np.matrix_transpose], "The last two axes exchanged."),
    "strides": (_strides, "Bytes between neighbours along each axis, as NumPy would have them."),
}


def _of_scalars(name: str, drops: bool) -> property:
    """Give what Python's and NumPy's scalars have, and arrays have not."""

    def get(self: Any) -> Any:
        value = self if self._rank == "array" else _core.value(self).item()
        if self._rank == "array" or not hasattr(value, name):
            raise AttributeError(f"an Array of rank {self._rank!r} has no attribute {name!r}")
        if drops and is_followed(self):
            raise TypeError(
                f"x.{name} would drop the gradient; compute with x itself, or use "
                f"ct.dropgrad(x).{name} to drop it on purpose"
            )
        return getattr(value, name)

    return property(get, doc=f"What `{name}` is of a scalar; an array has none.")


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
    for method in (clip, compress, fill, partition, sort, to_device, view):
        setattr(cls, method.__name__, method)
    for name, (get, doc) in _PROPERTIES.items():
        setattr(cls, name, property(get, doc=doc))
    cls.__array_namespace__ = _array_api.namespace
    cls.flat = property(Flat, _set_flat, doc="All elements along one axis, to read and to write.")
    for name in ("ctypes", "data"):
        setattr(cls, name, property(_no_memory, doc="Refuse: an Array has no memory of its own."))
    for name, instead in _UNWRITABLE.items():
        found = getattr(cls, name)
        refused = _unwritable(name, instead)
        setattr(cls, name, property(found.__get__, refused, doc=found.__doc__))
