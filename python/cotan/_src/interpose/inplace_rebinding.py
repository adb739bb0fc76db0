"""`x += y` where `x` is a plain ndarray and a gradient follows `y`.

The memory of an ndarray cannot hold what is traced. But an operator in place binds its result to
the name (`x`, `self.x`, `xs[i]`) that it was read from, so where nobody else refers to the array,
nobody can tell whether its memory was written to: the name gets an array of ours instead.

Python 3.14 does not count all references: what a function loads from a variable of its own may be
borrowed from that, and an argument from a variable of the caller's. So there are two counts to
compare with, and the variables of the functions that wait are looked at, too.
"""

import functools
import inspect
import sys
import threading
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.runtime.call_site import (
    borrows_operand,
    current_instruction,
    is_variable_around,
    user_frame,
)
from cotan._src.runtime.values import is_active, is_known

# Whether references of variables may be borrowed.
_BORROWS = sys.version_info >= (3, 14)
# Counts that are being measured in a thread.
_measuring = threading.local()


def takes_name(target: Any, inputs: Any, value: Any) -> bool:
    """Say whether a followed value takes the name of an ndarray, in place of being written to it.

    So it does for an operator in place, on an array that nobody else has. References are counted,
    so this has to be called where `_usual_counts` expects it.
    """
    counts = getattr(_measuring, "counts", None)
    # A function that is being prepared keeps the arrays that it met.
    if counts is not None:
        counts.append(sys.getrefcount(target) - _core.num_met(target))
        return True  # Nothing is written, which such a function would be refused for.
    return (
        # Integers, too, where a program will run with other ones.
        (is_active(value) or not is_known(value))
        and type(target) is np.ndarray
        and inputs[0] is target
        and target.base is None
        and target.flags.owndata
        and target.flags.writeable
        and (allowed := _allowed_count(target)) is not None
        and sys.getrefcount(target) - _core.num_met(target) <= allowed
    )


def _allowed_count(target: Any) -> int | None:
    """Count the references to an array that nobody but the running code has, seen from above.

    `None` where that code is not at an operator in place, or a function that waits has the array.
    """
    frame = user_frame()
    here = None if frame is None else current_instruction(frame)
    if here is None or here.opname != "BINARY_OP" or not here.argrepr.endswith("="):
        return None
    if not _BORROWS:
        return _usual_counts()[0] + _copies(frame, target)
    if is_variable_around(frame, target):
        return None
    return _usual_counts()[not borrows_operand(frame)]


def _copies(frame: Any, target: Any) -> int:
    """Count the variables with an array in the dictionary that asking a function for them makes.

    Python 3.13 makes none. Looking a callee up by its name asks for them, for instance.
    """
    if sys.version_info >= (3, 13) or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return 0
    return sum(value is target for value in frame.f_locals.values())


class _Holder:
    x: Any


@functools.cache
def _usual_counts() -> tuple[int, int]:
    """Count the references to an array that only a name refers to, seen from `takes_name`.

    The first count is that of a variable, the second that of an attribute.
    """
    counts: list[int] = []
    _measuring.counts = counts
    try:
        value = _core.array([1.0])
        x, holder = np.zeros(1), _Holder()
        x += value
        holder.x = np.zeros(1)
        holder.x += value
        of_variable, of_attribute = counts
        return of_variable, of_attribute
    finally:
        _measuring.counts = None
