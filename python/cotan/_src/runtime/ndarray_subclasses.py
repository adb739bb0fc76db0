"""Decides which subclasses of ndarray may be used as plain arrays, and refuses the others."""

from functools import lru_cache
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.typing import Args, Function, Kwargs

# What decides the meaning of arithmetic on an array, besides its memory.
_OPERATORS = tuple(
    f"__{side}{name}__"
    for side in ("", "r")
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
)
_PROTOCOLS = ("__array_ufunc__", "__array_function__", *_OPERATORS)


# Subclasses of ndarray with a class twin, and the function that makes twins of their instances.
TWINS: dict[type, Function] = {}


def is_plain(cls: type) -> bool:
    """Say whether a class is one of ndarrays that mean what their memory says, as `np.memmap` is.

    Raises TypeError for masked arrays and `np.matrix`, whose numbers could be read, but would mean
    something else. While something is recorded, they have class twins.
    """
    return False if _core.is_lifting() and issubclass(cls, tuple(TWINS)) else _is_plain(cls)


def refusal(cls: type) -> TypeError:
    """Make the error for an object of a class that is not plain."""
    try:
        _is_plain(cls)
    except TypeError as error:
        return error
    return TypeError(
        f"{cls} is a subclass of ndarray with its own arithmetic, which cotan does not know; use "
        "np.asarray(x) for its numbers"
    )


def to_twin(x: object) -> Any:
    """Give the twin of an object of such a class, also in lists, and anything else as it is."""
    if isinstance(x, (list, tuple)):
        items = [to_twin(item) for item in x]
        changed = any(a is not b for a, b in zip(items, x, strict=True))
        return type(x)(items) if changed and not hasattr(x, "_fields") else x
    if issubclass(type(x), np.ndarray) and type(x) is not np.ndarray:
        for cls, make in TWINS.items():
            if issubclass(type(x), cls):
                return make(x)
    return x


def function_of_others(func: Function, args: Args, kwargs: Kwargs) -> object:
    """Compute a function of NumPy's for `Array`s and such objects, if any are there."""
    given, options = to_twin(args), {key: to_twin(x) for key, x in kwargs.items()}
    if given is args and all(options[key] is x for key, x in kwargs.items()):
        return NotImplemented
    return func(*given, **options)


def ufunc_of_others(ufunc: np.ufunc, method: str, inputs: Args, kwargs: Kwargs) -> object:
    """Compute a ufunc for `Array`s and objects of such classes, if any are there."""
    return function_of_others(getattr(ufunc, method), inputs, kwargs)


@lru_cache(maxsize=256)
def _is_plain(cls: type) -> bool:
    if not issubclass(cls, np.ndarray):
        return False
    if issubclass(cls, np.ma.MaskedArray):
        # Also where NumPy itself silently drops the mask, as in a key.
        raise TypeError(
            "a masked array would lose its mask; use x.filled(value), or x.data and np.where with "
            "x.mask; as an argument of f, pass x.data and mask it in f"
        )
    if issubclass(cls, np.matrix):
        raise TypeError(
            "an np.matrix multiplies differently from an array; use np.asarray(m), and @ for "
            "products"
        )
    return all(getattr(cls, name) is getattr(np.ndarray, name) for name in _PROTOCOLS)


def expect_unmasked(x: object) -> None:
    """Refuse a masked array where only its values would be used."""
    if isinstance(x, np.ma.MaskedArray):
        is_plain(type(x))
