"""Ufuncs made by `np.frompyfunc`, which call a Python function for every element."""

from typing import Any

import numpy as np

from cotan import _core
from cotan._src.typing import Args, ArrayLike, Kwargs, NDArray

# Methods, with the number of arguments whose elements the function gets; None for all of them.
_METHODS = {"__call__": None, "outer": None, "reduce": 1, "accumulate": 1, "reduceat": 1}


def is_of_python(ufunc: np.ufunc) -> bool:
    """Say whether a ufunc calls a Python function: it is named so, and takes objects only."""
    return ufunc.__name__.endswith(" (vectorized)") and set(*ufunc.types) == {"O", "-", ">"}


def of_python(ufunc: np.ufunc, method: str, inputs: Args, kwargs: Kwargs) -> Any:
    """Let NumPy call the function for traced elements.

    What it gives is an array where NumPy has objects. Elements are Python numbers, as those that
    NumPy makes objects of.
    """
    if method not in _METHODS or kwargs.get("out") or not kwargs.get("where", True):
        return NotImplemented
    count = _METHODS[method]
    given = [*map(_objects, inputs[:count]), *inputs[len(inputs) if count is None else count :]]
    results = getattr(ufunc, method)(*given, **kwargs)
    return tuple(map(_whole, results)) if isinstance(results, tuple) else _whole(results)


def _objects(x: ArrayLike) -> NDArray:
    array = _core.asarray(x)
    objects = np.empty(array.shape, object)
    for index in np.ndindex(*array.shape):
        objects[index] = _core.number(array[index], None)
    return objects


def _whole(result: object) -> object:
    """Put results that are traced together."""
    if type(result) is not np.ndarray:
        return result
    items = result.ravel().tolist()
    return (
        _core.array(items).reshape(result.shape) if _core.contains_array((items,), {}) else result
    )
