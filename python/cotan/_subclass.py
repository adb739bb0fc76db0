"""Which subclasses of ndarray are arrays like others."""

from functools import lru_cache
from typing import Any

import numpy as np

from cotan import _core

# What decides the meaning of arithmetic on an array, besides its memory.
_OPERATORS = tuple(
    f"__{side}{name}__"
    for side in ("", "r")
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
)
_PROTOCOLS = ("__array_ufunc__", "__array_function__", *_OPERATORS)


def is_plain(cls: Any) -> bool:
    """Say whether a class is one of ndarrays that mean what their memory says, as `np.memmap` is.

    Raises TypeError for masked arrays and `np.matrix`, whose numbers could be read, but would mean
    something else. While names are lifted, an `np.matrix` answers itself.
    """
    return False if issubclass(cls, np.matrix) and _core.is_lifting() else _is_plain(cls)


@lru_cache(maxsize=256)
def _is_plain(cls: Any) -> bool:
    if not issubclass(cls, np.ndarray):
        return False
    if issubclass(cls, np.ma.MaskedArray):
        # Also where NumPy itself drops the mask without a word, as in a key.
        raise TypeError(
            "a masked array would lose its mask; use x.filled(value), or x.data and np.where with "
            "x.mask"
        )
    if issubclass(cls, np.matrix):
        raise TypeError(
            "an np.matrix multiplies by rules of its own; use np.asarray(m), and @ for products"
        )
    return all(getattr(cls, name) is getattr(np.ndarray, name) for name in _PROTOCOLS)


def is_unmasked(x: Any) -> bool:
    """Say whether something is a masked array that hides nothing: it means what its memory says."""
    hides = not isinstance(x, np.ma.MaskedArray) or x is np.ma.masked
    return not hides and not np.any(np.ma.getmask(x))


def _unmasked(x: Any, error: Exception) -> Any:
    """Give the values of masked arrays that hide nothing, also in lists and dictionaries."""
    if isinstance(x, np.ma.MaskedArray):
        if not is_unmasked(x):
            raise error
        return np.asarray(x)
    if type(x) in (list, tuple):
        return type(x)(_unmasked(item, error) for item in x)
    if type(x) is dict:
        return {key: _unmasked(item, error) for key, item in x.items()}
    if isinstance(x, np.matrix):
        raise error
    return x


def function_of_unmasked(func: Any, args: Any, kwargs: Any, error: Exception) -> Any:
    """Compute a function of NumPy with masked arrays among the arguments, if they hide nothing."""
    return func(*_unmasked(args, error), **_unmasked(kwargs, error))


def expect_unmasked(x: Any) -> None:
    """Refuse a masked array where only its values would be used, and not its mask."""
    if isinstance(x, np.ma.MaskedArray) and not is_unmasked(x):
        cls: Any = type(x)
        is_plain(cls)
