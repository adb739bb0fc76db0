"""Whether a user's function that a solver calls on values computes with anything active."""

from collections.abc import Callable
from operator import is_
from typing import Any

from cotan._src.runtime.values import contains_active, to_numpy


class CallbackProbe:
    """A function that is called with plain values, gives plain ones, and knows if that lost any."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.captures_active = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        y = self._function(*args, **kwargs)
        if contains_active(y):
            self.captures_active = True
        return to_numpy_items(y)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


def probed(function: Any) -> Any:
    """Give a function that is watched; what is no function as it is."""
    return CallbackProbe(function) if callable(function) else function


def any_captures_active(*functions: Any) -> bool:
    """Say whether a gradient follows what one of the functions gave."""
    return any(isinstance(f, CallbackProbe) and f.captures_active for f in functions)


def to_numpy_items(y: Any) -> Any:
    """Give values of arrays in lists and tuples too, whatever else is there.

    A list of which nothing is ours stays itself: somebody may write to it.
    """
    if isinstance(y, list) or type(y) is tuple:
        items = [to_numpy_items(item) for item in y]
        if all(map(is_, items, y)):
            return y
        return items if isinstance(y, list) else tuple(items)
    return to_numpy(y)
