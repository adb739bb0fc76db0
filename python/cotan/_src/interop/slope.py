"""Gradients of a few operations, computed along with the value.

Problem: to keep a pullback and call it later costs some microseconds, which is more than the whole
reverse pass of a loss of a few numbers. One replay that gives value and gradient costs one. It is
taken only where the work is so little that nothing is lost if no backward follows.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cotan._src.api.prepare import prepare
from cotan._src.typing import NDArray

if TYPE_CHECKING:
    from cotan import _core

#: So many operations, and elements of all their results together, are little work.
MOST_OPERATIONS = 64
MOST_ELEMENTS = 4096

# What calls Python, whose work nobody knows.
_CALLS = frozenset(("custom", "host"))
# The gradient for the cotangent 1 would be too small for these, where a larger one follows.
_NARROW = frozenset(("float16", "bfloat16"))


class Slope:
    """A function that is called for its value and gradient, as long as that is little work."""

    def __init__(self, prepared: "_core.Prepared[..., Any]") -> None:
        self._prepared = prepared
        self._num_recordings = prepared.num_recordings

    def __call__(
        self, arrays: Sequence[NDArray]
    ) -> tuple[NDArray | np.floating[Any], Sequence[NDArray | None]] | None:
        """Give value and gradient; None where the function has become another one."""
        prepared = self._prepared
        try:
            value, slopes = prepared(*arrays)
        except Exception:  # noqa: BLE001 - whatever it is, the function itself says it better
            return None
        if prepared.num_recordings != self._num_recordings:
            if not is_little(prepared.programs):
                return None
            self._num_recordings = prepared.num_recordings
        return (value, slopes) if isinstance(value, (np.ndarray, np.floating)) else None


def slope_of(
    pullback: "_core.Prepared[..., Any]",
    positions: tuple[int, ...] | None,
    value: Any,
    arrays: Sequence[NDArray],
) -> Slope | None:
    """Make the `Slope` of a function whose pullback is prepared, if its gradient is little work."""
    if value.shape != () or value.dtype.kind != "f" or not is_little(pullback.programs):
        return None
    prepared = prepare(pullback.__wrapped__, transform="value_and_gradient", wrt=positions)
    try:
        prepared.record(*arrays)
    except Exception:  # noqa: BLE001 - a pullback is refused only where it is called
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
