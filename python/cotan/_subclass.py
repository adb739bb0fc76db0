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


def expect_unmasked(x: Any) -> None:
    """Refuse a masked array where only its values would be used."""
    if isinstance(x, np.ma.MaskedArray):
        cls: Any = type(x)
        is_plain(cls)
