"""Tells whether anybody reads the text that code makes of a value: `logging.debug(f"{x:.3f}")`.

Problem: a replay of a prepared function runs no Python, so a text with the value of an argument in
it would be that of the recording forever. Most such texts are never read: log messages below the
level of the logger, and messages of errors that are not raised. `check_of_text` follows a text from
the instruction that makes it to those that use it. Only what is certain counts: a text that is
passed on, compared, returned or stored elsewhere than in a local variable may be read.
"""

import functools
import logging
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

from cotan import _core
from cotan._src.runtime.call_site import (
    UNRESOLVED,
    Instruction,
    attribute_of,
    called_attribute,
    current_instruction,
    handles,
    instructions,
    is_user_code,
    position,
    user_frame,
)

_Logger: TypeAlias = "logging.Logger | logging.LoggerAdapter[Any]"

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "exception": 40, "critical": 50}

# How many values instructions take from the stack that make a text of them, by their argument.
_JOINS: dict[str, Callable[[int], int]] = {
    "BUILD_STRING": lambda n: n,
    "BUILD_TUPLE": lambda n: n,
    "FORMAT_VALUE": lambda flags: 1 + (flags & 4 == 4),
    "FORMAT_SIMPLE": lambda _: 1,
    "FORMAT_WITH_SPEC": lambda _: 2,
    "CONVERT_VALUE": lambda _: 1,
    "BINARY_OP": lambda _: 2,
}
# Instructions that put so many values on the stack and take none.
_PUSHES = {
    "LOAD_CONST": 1, "LOAD_SMALL_INT": 1, "LOAD_NAME": 1, "LOAD_DEREF": 1, "LOAD_FAST": 1,
    "LOAD_FAST_CHECK": 1, "LOAD_FAST_BORROW": 1, "LOAD_FAST_LOAD_FAST": 2,
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": 2, "PUSH_NULL": 1,
}  # fmt: skip
_NO_EFFECT = {"CACHE", "PRECALL", "KW_NAMES", "NOP", "EXTENDED_ARG", "RESUME", "NOT_TAKEN"}
# Whether the argument of LOAD_ATTR says that it loads a method.
_HAS_METHOD_BIT = sys.version_info >= (3, 12)


class DisabledLogger:
    """A logger that passes over messages of some level; as a guard its attribute is the source."""

    def __init__(self, logger: "_Logger", level: int) -> None:
        self._logger, self._level = logger, level
        self.source = f"level {logging.getLevelName(level)} of {logger!r}"

    def is_enabled(self) -> bool:
        """Say whether a message of the level would be logged."""
        return self._logger.isEnabledFor(self._level)

    def __getattr__(self, _name: str) -> bool:
        return self.is_enabled()


class _Uses(NamedTuple):
    """Where a text ends up."""

    #: Those that get it as a message.
    loggers: list[DisabledLogger]
    #: The offsets of statements that raise an error with it.
    raises: frozenset[int]
    #: Whether it was put into a variable on its way.
    is_stored: bool


def check_of_text() -> Callable[[], None] | None:
    """Say whether nobody will read the text that is being made of a value.

    Gives None if somebody may; else a function to call once the recorded function has returned,
    which raises `TypeError` if an error with the text was raised and caught.
    """
    frame = user_frame()
    if frame is None or not is_user_code(frame):
        return None
    uses = _uses_in(frame, current_instruction(frame).offset)
    if uses is None or (uses.is_stored and handles(frame.f_code, uses.raises)):
        return None
    for logger in uses.loggers:
        _core.guard_computed(logger, logger.source)
    return functools.partial(_expect_not_raised, frame, uses)


def _expect_not_raised(frame: FrameType, uses: _Uses) -> None:
    # The text of an error that is raised at once was made for that; a message that was prepared
    # before is read only if its function ended at the statement that raises the error.
    is_raised = position(frame) in uses.raises if uses.is_stored else bool(uses.raises)
    line = f"{frame.f_code.co_filename}:{frame.f_code.co_firstlineno}"
    try:
        frame.clear()
    except RuntimeError:
        is_raised = is_raised or bool(uses.raises)  # It still runs.
    if is_raised:
        raise TypeError(
            f"prepare: {line}: an error whose message contains the value of an argument was raised "
            "and caught, and a replay could not repeat the message; leave the value out of it, or "
            "leave the function unprepared"
        )


# --------------------------------------------------------------------------------------------------
# From the instruction that makes a text to those that use it


def _uses_in(frame: FrameType, offset: int) -> _Uses | None:
    """Give the uses of a text that an instruction makes, None for any that is not known."""
    steps = instructions(frame.f_code)
    loggers: list[DisabledLogger] = []
    raises, variables = set[int](), set[str]()
    begins = [1 + next(i for i, step in enumerate(steps) if step.offset == offset)]
    while begins:
        use = _next_use(frame, steps, begins.pop())
        if use is None:
            return None
        if isinstance(use, DisabledLogger):
            loggers.append(use)
        elif use.opname == "RAISE_VARARGS":
            raises.add(use.offset)
        elif use.opname == "STORE_FAST" and use.argval not in variables:
            variables.add(use.argval)
            loads = _loads(steps, use.argval)
            if loads is None:
                return None
            begins += loads
    return _Uses(loggers, frozenset(raises), bool(variables))


def _loads(steps: list[Instruction], name: str) -> list[int] | None:
    """Give the places behind what loads a local variable, None if not all are known."""
    begins = []
    for i, step in enumerate(steps):
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if "FAST" not in step.opname or name not in names:
            continue
        if step.opname in {"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"}:
            begins.append(i + 1)
        elif step.opname not in {"STORE_FAST", "DELETE_FAST"}:
            return None
    return begins


def _next_use(
    frame: FrameType, steps: list[Instruction], begin: int
) -> Instruction | DisabledLogger | None:
    """Give what takes the text that is on top of the stack: an instruction, or a logger.

    The instruction raises an error with it, stores it in a local variable or drops it. `None`
    stands for any other use.
    """
    above = 0  # how many values are on the text
    is_error = False
    for i in range(begin, len(steps)):
        step = steps[i]
        if step.is_jump_target:
            return None
        after = _values_above(step, above, is_error)
        if after is not None:
            above = after
        elif step.opname == "CALL" and not is_error:
            is_argument = (step.arg or 0) > above
            if is_argument and not _is_error_class(frame, step.offset):
                return _disabled_logger(frame, step.offset)
            if not is_argument and not _raises_assertion(steps, i):
                return None
            above, is_error = 0, True
        else:
            takes = {"RAISE_VARARGS"} if is_error else {"STORE_FAST", "POP_TOP"}
            return step if step.opname in takes and (is_error or not above) else None
    return None


def _values_above(step: Instruction, above: int, is_error: bool) -> int | None:
    """Give how many values are on the text behind an instruction that leaves it on the stack.

    `None` stands for others, and for those that are not known.
    """
    name, arg = step.opname, step.arg or 0
    if name in _NO_EFFECT:
        return above
    if name in _PUSHES:
        return above + _PUSHES[name]
    if name == "LOAD_GLOBAL":
        return above + 1 + (arg & 1)
    if name in {"LOAD_ATTR", "LOAD_METHOD"} and above:
        return above + (name == "LOAD_METHOD" or (_HAS_METHOD_BIT and arg & 1))
    if name in _JOINS and not is_error:
        if name == "BINARY_OP" and step.argrepr not in {"+", "%", "+=", "%="}:
            return None
        taken = _JOINS[name](arg)
        return 0 if taken > above else above - taken + 1
    if name == "CALL" and arg <= above - 2:
        return above - arg - 1  # another call: its callee, and the place of a receiver
    return None


def _raises_assertion(steps: list[Instruction], call: int) -> bool:
    """Say whether a call makes the error of an `assert` statement."""
    for step in reversed(steps[:call]):
        if step.opname in {"LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT"}:
            return True
        if step.opname in {"CALL", "RAISE_VARARGS", "POP_TOP", "STORE_FAST"}:
            return False
    return False


def _is_error_class(frame: FrameType, call: int) -> bool:
    try:
        owner, name = called_attribute(frame, call)
        found = attribute_of(owner, name) if name else owner
    except UNRESOLVED:
        return False
    return isinstance(found, type) and issubclass(found, BaseException)


def _disabled_logger(frame: FrameType, call: int) -> "DisabledLogger | None":
    """Give the logger that a call sends a message to, if its level is above that of the message."""
    try:
        owner, name = called_attribute(frame, call)
    except UNRESOLVED:
        return None
    if owner is logging:
        owner = logging.getLogger()
    if not isinstance(owner, (logging.Logger, logging.LoggerAdapter)) or name not in _LEVELS:
        return None
    # A class of the user's may do more than that.
    own = type(owner.logger if isinstance(owner, logging.LoggerAdapter) else owner)
    if own.__module__ != "logging" or type(owner).__module__ != "logging":
        return None
    logger = DisabledLogger(owner, _LEVELS[name])
    return None if logger.is_enabled() else logger
