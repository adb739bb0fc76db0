"""Lets exceptions of signal handlers through where a second attempt follows a first one.

Problem: where a quick way through a function raises an exception, another way is taken, which
raises it again if it is the function's own. What a signal handler raises, such as that of a
timeout, is raised once. The second attempt would not know of it, and the timeout would be lost.
"""

import inspect
from types import FrameType


def raise_interrupt(error: BaseException) -> None:
    """Raise `error`, if it is what a signal handler has raised, or what code has made of that.

    Examples
    --------
    >>> import sys
    >>> def handler(signum, frame):
    ...     raise TimeoutError("too late")
    >>> def interrupted():
    ...     handler(14, sys._getframe())
    >>> try:
    ...     interrupted()
    ... except Exception as error:
    ...     raise_interrupt(error)
    Traceback (most recent call last):
        ...
    TimeoutError: too late
    """
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        if _is_of_handler(found):
            raise error
        found = found.__context__ if found.__cause__ is None else found.__cause__


def _is_of_handler(error: BaseException) -> bool:
    traceback = error.__traceback__
    while traceback is not None:
        if _is_handler(traceback.tb_frame):
            return True
        traceback = traceback.tb_next
    return False


def _is_handler(frame: FrameType) -> bool:
    """Say whether a function was given the frame that it interrupted, as signal handlers are."""
    given = inspect.getargvalues(frame)
    values = [given.locals.get(name) for name in given.args]
    more = given.locals.get(given.varargs or "")
    if isinstance(more, tuple):
        values.extend(more)
    # The frame of a function that has just been entered is left out of `f_back`.
    return any(
        isinstance(value, FrameType) and frame.f_back in {value, value.f_back} for value in values
    )
