"""Lets exceptions of signal handlers through where a second attempt follows a first one.

Problem: where a quick way through a function raises an exception, another way is taken, which
raises it again if it is the function's own. What a signal handler raises, such as that of a
timeout, is raised once. The second attempt would not know of it, and the timeout would be lost.
"""

import functools
import importlib
import inspect
import itertools
import signal
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType, MethodType

# What `signal.getsignal` calls, which takes a `ValueError` of a handler for one of its own.
_installed: Callable[[int], object] = importlib.import_module("_signal").getsignal


def raise_interrupt(error: BaseException) -> None:
    """Raise `error`, if it is what a signal handler has raised, or what code has made of that.

    To be called where `error` was caught. What was handled before the attempt began does not count.

    Examples
    --------
    >>> import signal
    >>> def handler(signum, frame):
    ...     raise TimeoutError("too late")
    >>> old = signal.signal(signal.SIGINT, handler)
    >>> try:
    ...     signal.raise_signal(signal.SIGINT)
    ... except Exception as error:
    ...     raise_interrupt(error)
    ... finally:
    ...     _ = signal.signal(signal.SIGINT, old)
    Traceback (most recent call last):
        ...
    TimeoutError: too late
    """
    caller, handlers = sys._getframe(1), _handlers()
    if _is_of_handler(error, caller, handlers):
        raise error
    running: set[FrameType] = set()
    seen = {id(error)}
    found = error
    while True:
        before = found.__context__ if found.__cause__ is None else found.__cause__
        if before is None or id(before) in seen:
            return
        seen.add(id(before))
        running = running or _stack(caller)
        # Where it was caught; that frame is still running if the attempt was begun there.
        traceback = before.__traceback__
        if traceback is not None and traceback.tb_frame in running:
            return
        if _is_of_handler(before, caller, handlers):
            raise error
        found = before


def _stack(frame: FrameType | None) -> set[FrameType]:
    found = set()
    while frame is not None:
        found.add(frame)
        frame = frame.f_back
    return found


def _is_of_handler(error: BaseException, caller: FrameType, handlers: set[CodeType]) -> bool:
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        # The locals of a frame that holds the error would keep it alive.
        if frame is not caller and (frame.f_code in handlers or _is_handler(frame)):
            return True
        traceback = traceback.tb_next
    return False


def _is_handler(frame: FrameType) -> bool:
    """Say whether a function was given a number and the frame that it interrupts, as handlers are.

    The handler that was installed then may be none any more.
    """
    code = frame.f_code
    count, has_more = code.co_argcount, bool(code.co_flags & inspect.CO_VARARGS)
    if count < 2 and not has_more:
        return False
    names, variables = code.co_varnames, frame.f_locals
    given = [variables.get(name) for name in names[:count]]
    more = variables.get(names[count + code.co_kwonlyargcount]) if has_more else None
    if isinstance(more, tuple):
        given.extend(more)
    return any(
        type(number) in {int, signal.Signals} and _is_interrupted(value, frame.f_back)
        for number, value in itertools.pairwise(given)
    )


def _is_interrupted(value: object, outer: FrameType | None) -> bool:
    if outer is None or not isinstance(value, FrameType):
        return False
    # The frame of a function that has just been entered is left out of `f_back`.
    return value is outer or value.f_back is outer


def _handlers() -> set[CodeType]:
    """Give the code of the handlers that are installed."""
    found = {_code_of(_installed(number)) for number in _signals()}
    return {code for code in found if code is not None}


@functools.cache
def _signals() -> frozenset[int]:
    return frozenset(signal.valid_signals())


def _code_of(handler: object) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    if isinstance(handler, MethodType):
        handler = handler.__func__
    if not isinstance(handler, FunctionType):
        handler = inspect.getattr_static(type(handler), "__call__", None)
    return handler.__code__ if isinstance(handler, FunctionType) else None
