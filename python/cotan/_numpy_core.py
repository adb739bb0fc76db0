"""The table of NumPy functions, and what their implementations share."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cotan import _core

# NumPy's functions, and what computes them on arrays.
FUNCTIONS: dict[Any, Callable[..., Any]] = {}


def implements(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter an implementation into the table."""

    def enter(implementation: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            FUNCTIONS[function] = implementation
        return implementation

    return enter


def is_array(x: Any) -> bool:
    """Say whether something is one of our arrays (which may say that it is an ndarray)."""
    return isinstance(x, _core.Array)


def plain(x: Any) -> Any:
    """Give the value of an array; anything else as it is. Drops gradients: for whole numbers."""
    if is_array(x):
        return _core.value(x)
    if isinstance(x, (list, tuple)) and any(map(is_array, x)):
        return type(x)(plain(item) for item in x)
    return x


def written(out: Any, result: Any) -> Any:
    """Write a result into `out`, when it was given."""
    if out is None:
        return result
    if is_array(out):
        out._assign(result)
        return out
    if _core.is_active(result):
        raise TypeError(
            "out: writing into a plain ndarray would drop the gradient; let out= be an Array "
            "(np.zeros_like of one), or leave it out; ct.dropgrad drops it on purpose"
        )
    out[...] = _core.value(result)
    return out


def refuse(what: str) -> TypeError:
    """Make the error for what has no derivative rule."""
    return TypeError(
        f"{what} has no derivative rule in cotan; hold its arguments constant with ct.dropgrad, or "
        "write it in terms of functions that have one"
    )


def _any_active(tree: Any) -> bool:
    if is_array(tree):
        return bool(_core.is_active(tree))
    if isinstance(tree, dict):
        return any(map(_any_active, tree.values()))
    return isinstance(tree, (list, tuple)) and any(map(_any_active, tree))


def on_values(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a function without an entry on plain values, while no gradient follows its arguments."""
    if _any_active(args) or _any_active(kwargs):
        module = getattr(func, "__module__", None) or "numpy"
        raise refuse(f"{module}.{getattr(func, '__name__', func)}")
    return func(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()})
