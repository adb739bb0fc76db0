"""Runs a callback on plain values while a gradient is recorded: `plain_copy`, `call_outside`.

Problem: a solver calls the user's function a thousand times to find its way, and only what comes
after needs the derivative. As long as the function captures active arrays, each of these calls
records its equations. A copy of the function, with plain values in the place of the arrays that it
captures, runs as fast as without cotan, in a context that records nothing.
"""

import contextvars
import functools
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any, TypeVar

from cotan._src.runtime.call_site import assigns_captured
from cotan._src.runtime.values import is_array, to_numpy
from cotan._src.typing import Function

_R = TypeVar("_R")


def plain_copy(function: Function) -> tuple[Function, bool]:
    """Give a function that has plain values where a function captures an `Array`; say if it does.

    Entered are closures, defaults, partials, lists, tuples and dictionaries. An array elsewhere
    stays, so the results of the copy may still be active.
    """
    plain = _Plain()
    copied: Function = plain.of(function)
    return copied, plain.has_arrays


def call_outside(call: Callable[[], _R]) -> _R:
    """Call something in a copy of the context that records nothing."""
    context = contextvars.copy_context()
    scope = next((variable for variable in context if variable.name == "cotan"), None)

    def run() -> _R:
        if scope is not None:
            scope.set(None)
        return call()

    return context.run(run)


class _Plain:
    """Copies, each object once."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[object, Any]] = {}
        self.has_arrays = False

    def of(self, value: Any) -> Any:
        if id(value) not in self._made:
            # The object itself is kept, so that its identity is not reused.
            self._made[id(value)] = value, value
            self._made[id(value)] = value, self._copy(value)
        return self._made[id(value)][1]

    def _copy(self, value: Any) -> Any:
        kind = type(value)
        if is_array(value):
            self.has_arrays = True
            return to_numpy(value)
        if kind in {list, tuple}:
            items = [self.of(item) for item in value]
            is_same = all(a is b for a, b in zip(items, value, strict=True))
            return value if is_same else kind(items)
        if kind is dict:
            pairs = {key: self.of(item) for key, item in value.items()}
            return value if all(pairs[k] is v for k, v in value.items()) else pairs
        if kind is functools.partial:
            return functools.partial(
                self.of(value.func), *self.of(value.args), **self.of(value.keywords)
            )
        return self._function(value) if kind is FunctionType else value

    def _function(self, function: FunctionType) -> FunctionType:
        cells = function.__closure__ or ()
        if cells and assigns_captured(function.__code__):
            return function
        copy = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            self.of(function.__defaults__),
            tuple(CellType() for _ in cells),
        )
        copy.__kwdefaults__ = self.of(function.__kwdefaults__)
        copy.__dict__.update(function.__dict__)
        copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
        # A function that calls itself finds the copy.
        self._made[id(function)] = function, copy
        for cell, old in zip(copy.__closure__ or (), cells, strict=True):
            try:
                cell.cell_contents = self.of(old.cell_contents)
            except ValueError:
                continue  # a variable without a value yet
        return copy
