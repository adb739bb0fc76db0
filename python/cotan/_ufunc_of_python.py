"""Ufuncs that `np.frompyfunc` makes of Python functions: these are called for every element."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cotan import _core


def is_of_python(ufunc: Any) -> bool:
    """Say whether a ufunc calls a Python function: it is named so, and takes objects only."""
    return ufunc.__name__.endswith(" (vectorized)") and set(*ufunc.types) == {"O", "-", ">"}


def called(ufunc: Any, inputs: Sequence[Any]) -> Any:
    """Call the function for every element; what it gives is an array where NumPy has objects.

    Elements are Python numbers, as those that NumPy makes objects of.
    """
    arrays = [_core.asarray(x) for x in inputs]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    objects = []
    for array in arrays:
        wide, held = np.broadcast_to(array, shape), np.empty(shape, object)
        for index in np.ndindex(*shape):
            held[index] = _core.number(wide[index], None)
        objects.append(held)
    results = ufunc(*objects)
    if ufunc.nout == 1:
        return _whole(results, shape)
    return tuple(_whole(result, shape) for result in results)


def _whole(result: Any, shape: tuple[int, ...]) -> Any:
    items = result.ravel().tolist() if shape else [result]
    if not _core.involves((items,), {}):
        return result
    return _core.array(items).reshape(shape) if shape else result
