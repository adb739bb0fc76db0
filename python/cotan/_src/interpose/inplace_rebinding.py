"""`x += y` where `x` is a plain ndarray and a gradient follows `y`.

The memory of an ndarray cannot hold what is traced. But an operator in place binds its result to
the name (`x`, `self.x`, `xs[i]`) that it was read from, so where nobody else refers to the array,
nobody can tell whether its memory was written to: the name gets an array of ours instead.
"""

import functools
import sys
import threading
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.runtime.call_site import current_instruction, user_frame
from cotan._src.runtime.values import is_active

# Counts that are being measured in a thread.
_measuring = threading.local()


def takes_name(target: Any, inputs: Any, value: Any) -> bool:
    """Say whether a followed value takes the name of an ndarray, in place of being written to it.

    So it does for an operator in place, on an array that nobody else has. References are counted,
    so this has to be called where `_usual_count` expects it.
    """
    counts = getattr(_measuring, "counts", None)
    if counts is not None:
        counts.append(sys.getrefcount(target))
        return False
    return (
        is_active(value)
        and type(target) is np.ndarray
        and inputs[0] is target
        and target.base is None
        and target.flags.owndata
        and target.flags.writeable
        and _is_operator()
        # A function that is being prepared keeps the arrays that it met.
        and sys.getrefcount(target) - _core.num_met(target) <= _usual_count()
    )


def _is_operator() -> bool:
    """Say whether the code that is no cotan's is at an operator in place."""
    frame = user_frame()
    here = None if frame is None else current_instruction(frame)
    return here is not None and here.opname == "BINARY_OP" and here.argrepr.endswith("=")


class _Holder:
    x: Any


@functools.cache
def _usual_count() -> int:
    """Count the references to an array that only a name refers to, seen from `takes_name`."""
    counts: list[int] = []
    _measuring.counts = counts
    try:
        value = _core.array([1.0])
        x, holder = np.zeros(1), _Holder()
        x += value
        holder.x = np.zeros(1)
        holder.x += value
        return min(counts)
    finally:
        _measuring.counts = None
