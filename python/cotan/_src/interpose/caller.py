"""Who calls an overridden function: user code, a library, or compiled code that user code calls.

Creators such as `np.zeros` give an `Array`, into which traced values can be written, to user code.
Libraries write to memory, and so does compiled code, which has no frame of its own: there the
running frame is the user's, at a call of something else.
"""

import functools
from types import FrameType
from typing import Any

from cotan._src.runtime.call_site import (
    UNRESOLVED,
    callee,
    callee_name,
    functions_handed_on,
    is_user_code,
    package_of,
)


def calling_package(frame: FrameType) -> str:
    """Give the package of a frame's code: empty for user code and the standard library.

    Examples in docstrings are user code, though they run with the names of their module.
    """
    if is_user_code(frame) or frame.f_code.co_filename.startswith("<doctest "):
        return ""
    return package_of(frame) or "?"


def is_call_of(frame: FrameType, function: Any, receiver: Any = None) -> tuple[bool, bool]:
    """Say whether user code calls a function itself, and whether it always does at this place.

    It has to be seen that it does: by what is called, by its name alone where a program's own code
    gives it (`__getattr__` of a backend), or because the function is handed on
    (`list(map(np.zeros, sizes))`). Otherwise compiled code may be the caller, which would take an
    `Array` for memory. A function may be the `__call__` of an object, the receiver, which is what
    user code calls.
    """
    is_settled = False
    try:
        called, is_settled = callee(frame)
    except UNRESOLVED:
        called = None
        if callee_name(frame, {function.__name__}) is not None:
            return True, False
    if _is(called, function, receiver):
        return True, is_settled
    return any(_is(x, function, receiver) for x in functions_handed_on(frame)), False


def _is(x: Any, function: Any, receiver: Any) -> bool:
    x = x.func if isinstance(x, functools.partial) else x
    if x is None:
        return False
    return x is function or x is receiver or getattr(x, "__func__", None) is function
