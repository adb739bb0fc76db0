"""Derivatives of a few operations, without a pullback that is kept.

Problem: to keep a pullback and call it later costs some ten microseconds, which is more than the
whole reverse pass of a few numbers. One replay that gives a number and its gradient costs one, and
so do two: one for an array, and one for its cotangents, from the arguments. They are taken only
where the work is so little that nothing is lost by doing it in vain, or twice.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.api.prepare import prepare
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.typing import Function, NDArray

#: So many operations, and elements of all their results together, are little work.
MOST_OPERATIONS = 64
MOST_ELEMENTS = 4096
#: So many ways through a function, and shapes of its arguments, are kept.
MOST_WAYS = 32

Pull = Callable[[NDArray], Sequence[Any]]
Found = tuple[Any, Sequence[NDArray | None] | None, Pull | None]

# What calls Python, whose work nobody knows.
_CALLS = frozenset(("custom", "host"))
# The gradient for the cotangent 1 would be too small for these, where a larger one follows.
_NARROW = frozenset(("float16", "bfloat16"))


class Slope:
    """A function that is called for its value and gradient, as long as that is little work."""

    def __init__(self, prepared: "_core.Prepared[..., Any]") -> None:
        self._prepared = prepared
        self._num_recordings = prepared.num_recordings

    def __call__(self, arrays: Sequence[NDArray]) -> Found | None:
        """Give value and gradient; None where the function has become another one."""
        prepared = self._prepared
        try:
            value, slopes = prepared(*arrays)
        except Exception as error:  # noqa: BLE001 - whatever it is, the function itself says it better
            raise_interrupt(error)
            return None
        if prepared.num_recordings != self._num_recordings:
            if not is_little(prepared.programs):
                return None
            self._num_recordings = prepared.num_recordings
        return (value, slopes, None) if isinstance(value, (np.ndarray, np.floating)) else None


class Again:
    """A function that is called for its value; its cotangents are computed from its arguments.

    What the function closes over counts when it is called, so the program of the cotangents has it
    as it was then: each recording of the function has one of its own.
    """

    def __init__(self, function: Function, positions: tuple[int, ...] | None) -> None:
        numbers = itertools.count(1)

        def numbered(*arrays: Any) -> tuple[Any, float]:
            return function(*arrays), float(next(numbers))

        self._function, self._positions = function, positions
        # As long as there is one recording, it is the one that was replayed. Of several, each says
        # its number, which is one result more.
        self._value: _core.Prepared[..., Any] = prepare(function, transform="value")
        self._pull: Callable[..., Any]
        self._num_recordings = 0
        self._numbered: _core.Prepared[..., Any] = prepare(numbered, transform="value")
        self._is_numbered = False
        self._pulls: dict[float, Callable[..., Any]] = {}

    def begin(self, arrays: Sequence[NDArray]) -> bool:
        """Record the function; say whether it is one of little work."""
        try:
            value = self._value(*arrays)
        except Exception as error:  # noqa: BLE001 - whatever it is, the function itself says it better
            raise_interrupt(error)
            return False
        pull = self._made(self._value, value, arrays)
        if pull is None:
            return False
        self._pull, self._num_recordings = pull, self._value.num_recordings
        return True

    def __call__(self, arrays: Sequence[NDArray]) -> Found | None:
        """Give the value and a pullback; None where the function has become another one."""
        if self._is_numbered:
            return self._by_number(arrays)
        prepared = self._value
        try:
            value = prepared(*arrays)
        except Exception as error:  # noqa: BLE001 - as above
            raise_interrupt(error)
            return None
        if prepared.num_recordings != self._num_recordings:
            self._is_numbered = True
            return self._by_number(arrays)
        return value, None, functools.partial(self._pull, *arrays)

    def _by_number(self, arrays: Sequence[NDArray]) -> Found | None:
        try:
            value, number = self._numbered(*arrays)
        except Exception as error:  # noqa: BLE001 - as above
            raise_interrupt(error)
            return None
        pull = self._pulls.get(number)
        if pull is None:
            if len(self._pulls) < MOST_WAYS:
                pull = self._made(self._numbered, value, arrays)
            if pull is None:
                return None
            self._pulls[number] = pull
        return value, None, functools.partial(pull, *arrays)

    def _made(
        self, prepared: "_core.Prepared[..., Any]", value: Any, arrays: Sequence[NDArray]
    ) -> Callable[..., Any] | None:
        """Give the cotangents as a function of the arguments and the cotangent of the result."""
        if type(value) is not np.ndarray or value.dtype.kind not in "fc":
            return None
        if not is_little(prepared.programs):
            return None
        function, positions = self._function, self._positions
        is_given: list[bool] = []

        def cotangents(*given: Any) -> list[Any]:
            found = _core.pullback(function, *given[:-1], wrt=positions)[1](given[-1])
            is_given[:] = [ct is not None for ct in found]
            return [ct for ct in found if ct is not None]

        given = (*arrays, np.ones_like(value))
        try:
            program = _core.record(cotangents, given, {})[0]
            made: _core.Prepared[..., Any] = prepare(program, transform="value")
            made.record(*given)
        except Exception as error:  # noqa: BLE001 - a pullback is refused only where it is called
            raise_interrupt(error)
            return None
        wanted = [positions is None or i in positions for i in range(len(arrays))]
        is_whole = sum(variable.value is None for variable in program.inputs) == len(given)
        if is_given != wanted or not is_whole or len(program.outputs) != sum(wanted):
            return None
        return made if is_little([program]) else None


def slope_of(
    pullback: "_core.Prepared[..., Any]",
    positions: tuple[int, ...] | None,
    value: Any,
    arrays: Sequence[NDArray],
) -> Slope | Again | None:
    """Make the derivative of a function whose pullback is prepared, if that is little work."""
    if not is_little(pullback.programs):
        return None
    if value.shape != () or value.dtype.kind != "f":
        again = Again(pullback.__wrapped__, positions)
        return again if again.begin(arrays) else None
    prepared = prepare(pullback.__wrapped__, transform="value_and_gradient", wrt=positions)
    try:
        prepared.record(*arrays)
    except Exception as error:  # noqa: BLE001 - a pullback is refused only where it is called
        raise_interrupt(error)
        return None
    return Slope(prepared) if is_little(prepared.programs) else None


def is_little(programs: Sequence["_core.Program"]) -> bool:
    """Say whether programs are so small that to run them is cheaper than to think about it."""
    for program in programs:
        equations = program.equations
        if len(equations) > MOST_OPERATIONS:
            return False
        if any(e.primitive in _CALLS or str(e.dtype) in _NARROW for e in equations):
            return False
        if sum(math.prod(e.shape) for e in equations) > MOST_ELEMENTS:
            return False
    return bool(programs)
