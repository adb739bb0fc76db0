"""Calls of other libraries inside of recordings of cotan: arrays in, arrays out, their pullback.

Problem: a function of PyTorch or JAX reads values, and cotan records. The call becomes one equation
of the program, and its pullback another, which is a call of that library in its turn: so there are
derivatives of as many orders as the library has.
"""

import weakref
from collections.abc import Sequence
from typing import Any, Protocol

from cotan import _core
from cotan._src.runtime.values import is_active
from cotan._src.typing import NDArray

Mask = tuple[bool, ...]


class Hidden:
    """Base of lifted functions, whose state is not that of an object.

    A prepared function compares what it reaches before each replay. A lifted function is called by
    each replay, so there is nothing to compare, in what may be the whole of a library.
    """

    def __init__(self, function: Any, state: Any) -> None:
        name = getattr(function, "__name__", None) or type(function).__name__
        self.__name__, self.__doc__ = name, getattr(function, "__doc__", None)
        _STATES[self] = state

    @property
    def _state(self) -> Any:
        return _STATES[self]


_STATES: "weakref.WeakKeyDictionary[Hidden, Any]" = weakref.WeakKeyDictionary()


class Foreign(Protocol):
    """A function of another library, from ndarrays to ndarrays."""

    name: str

    def values(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        """Compute the results."""

    def values_to_differentiate(
        self, arrays: Sequence[NDArray], mask: Mask
    ) -> tuple[list[NDArray], Any]:
        """Compute the results; give them with what `pullback_of` needs."""

    def cotangents(
        self, kept: Any, arrays: Sequence[NDArray], cts: Sequence[NDArray]
    ) -> list[NDArray] | None:
        """Give the cotangents from what was kept; None if that was for other arrays."""

    def pull(self, mask: Mask) -> "Foreign":
        """Give the function from arguments and cotangents of inexact results to cotangents."""


def call(function: Foreign, args: Sequence[Any]) -> list[Any]:
    """Call a function of another library with arrays, some of which may be recorded."""
    name = function.name
    if any(isinstance(x, _core.Array) and _core.is_mapped(x) for x in args):
        raise ValueError(
            f"vmap: {name} is a lifted function, which is called with the values of one example; "
            "give it the batch, or map it with the library's own vmap before it is lifted"
        )
    mask = tuple(isinstance(x, _core.Array) and is_active(x) for x in args)
    plain = [x if wanted else _value(x) for x, wanted in zip(args, mask, strict=True)]
    if True not in mask:
        return [y[()] for y in function.values(plain)]
    kept: list[Any] = [None]

    def filled(values: Sequence[Any]) -> list[Any]:
        rest = iter(values)
        return [next(rest) if wanted else x for x, wanted in zip(plain, mask, strict=True)]

    def forward(*values: Any) -> tuple[NDArray, ...]:
        results, kept[0] = function.values_to_differentiate(
            [_value(x) for x in filled(values)], mask
        )
        return tuple(results)

    active = [x for x, wanted in zip(args, mask, strict=True) if wanted]

    def back(*given: Any) -> tuple[Any, ...]:
        values, cts = filled(given[: len(active)]), given[len(active) :]
        if not any(is_active(x) for x in given):
            arrays = [_value(x) for x in values]
            found = function.cotangents(kept[0], arrays, [_value(ct) for ct in cts])
            if found is not None:
                return tuple(found)
        return tuple(call(function.pull(mask), [*values, *cts]))

    known = [_core.asarray(y) for y in forward(*map(_core.peek, active))]
    outputs = [(y, "array" if y.ndim else "scalar") for y in known]
    return _core.call_back_again(forward, back, name, active, outputs)


def _value(x: Any) -> NDArray:
    return _core.value(x) if isinstance(x, _core.Array) else x
