"""Makes the classes of scalars, which compare equal to the classes of the numbers they stand for.

`type(x) == float` and `type(x) in (int, float)` hold for an active number as they do for the number
itself. `type(x) is float` cannot. Abstract classes that ask a class for its methods, such as
`collections.abc.Iterable`, get the answer of the class of the number.
"""

import gc
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array, asarray
from cotan._src.array.scalar_comparisons import comparisons, refused_orders

# The class that NumPy or Python would have handed out an instance of.
_NUMBER: dict[type, type] = {}

_NUMPY = (
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


class ScalarClass(type):
    """The class of the classes of scalars."""

    def __eq__(cls, other: object) -> bool:
        return cls is other or _NUMBER.get(cls) is other

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a number: `type(x)(y)` gives an active one of an active `y`."""
        number = _NUMBER.get(cls)
        if number is None:
            return super().__call__(*args, **kwargs)
        if len(args) == 1 and not kwargs and issubclass(type(args[0]), Array):
            return _made(number, args[0])
        return number(*args, **kwargs)

    # Code that looks for `visit_float` finds it.
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        return _NUMBER.get(cls, Array).__name__

    @property
    def __mro__(cls) -> tuple[type, ...]:
        """The classes that abstract ones look for methods in: `Iterable` for `__iter__`, say."""
        number = _NUMBER.get(cls)
        return tuple(type.mro(cls)) if number is None else number.__mro__

    # Classes are keys of tables that others fill, `copy`'s say: an active number is not to be found
    # where plain ones are handled.
    __hash__ = type.__hash__


# What code asks for to tell sequences and integers from other numbers.
_OF_OTHERS = ("__getitem__", "__setitem__", "__delitem__", "__index__")


class _Missing:
    """A name that arrays have, and a number has not."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, x: Array | None, owner: type) -> Any:
        if x is None:
            return getattr(Array, self._name)
        kind = x.__class__.__name__
        raise AttributeError(f"{kind!r} object has no attribute {self._name!r}")


def _made(number: type, x: Array) -> Any:
    if number is float or number is complex:
        return _core.number(x, number)
    return number(x) if number in (bool, int) else asarray(x, number)[()]


def scalar_classes(
    array: type[Array],
) -> tuple[dict["np.dtype[Any]", type], dict["np.dtype[Any]", type]]:
    """Give the classes of Python's scalars and of NumPy's, by dtype."""

    def made(number: type, **operators: Any) -> type:
        names = {"__slots__": (), "__module__": array.__module__, **operators}
        scalar = ScalarClass(array.__name__, (array,), names)
        _NUMBER[scalar] = number
        # Only the names go. Slots stay, with what they say of a scalar that is used as a sequence.
        (members,) = (d for d in gc.get_referents(vars(scalar)) if isinstance(d, dict))
        members |= {n: _Missing(n) for n in _OF_OTHERS if not hasattr(number, n)}
        scalar.__doc__ = array.__doc__  # lets Python know
        return scalar

    operators = {"__hash__": array.__hash__, **comparisons(array)}
    of = dict.fromkeys((bool, int, float), operators) | {complex: operators | refused_orders(array)}
    python = {np.dtype(t): made(t, **names) for t, names in of.items()}
    numpy = {d: made(d.type) for d in map(np.dtype, _NUMPY)}
    return python, numpy
