"""Tells whether a callback that a solver calls on plain values computes with active arrays.

A function that captures an active array gives active results. The solver needs plain ones, and the
derivative rule has to know that something was lost.
"""

from collections.abc import Callable
from operator import is_
from typing import Any

from cotan._src.runtime.values import contains_active, of_table, to_numpy


class CallbackProbe:
    """A function with plain results, which notes in `captures_active` if one of them was active."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.captures_active = False

    def __call__(self, *args: object, **kwargs: object) -> Any:
        y = of_table(self._function(*args, **kwargs))
        if contains_active(y):
            self.captures_active = True
        return to_numpy_items(y)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


def probed(function: object) -> object:
    """Wrap a function in a probe; give back what is not callable."""
    return CallbackProbe(function) if callable(function) else function


def any_captures_active(*functions: object) -> bool:
    """Say whether one of the functions is a probe that has had an active result."""
    return any(isinstance(f, CallbackProbe) and f.captures_active for f in functions)


def to_numpy_items(y: object) -> Any:
    """Give a value with ndarrays for active arrays, also inside lists and tuples.

    A list without active items is given back itself, since the caller may write to it.
    """
    if isinstance(y, list) or type(y) is tuple:
        items = [to_numpy_items(item) for item in y]
        if all(map(is_, items, y)):
            return y
        return items if isinstance(y, list) else tuple(items)
    return to_numpy(y)
