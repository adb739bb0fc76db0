"""Code of Python functions that asks a hook before it runs: their entry in Python 3.11.

From Python 3.12 on, a Python function has an entry of its own. Python 3.11 calls it past that, so
its code is exchanged for one that begins with a call of the hook, with all arguments; where the
hook answers, that is the result, and where it gives `NotImplemented`, the code goes on as it was,
in the same frame. Names, defaults, signature, line numbers and exception handlers are those of the
original, and debuggers and coverage tools see nothing of the prologue: it stands before the
instruction that completes a frame, so that the hook runs in the caller's frame.

It is asked first whether the running context may want an answer. The hook gets by position what
the call may have named; `as_called` gives that to rules that want it so.
"""

import dis
import functools
import inspect
import sys
from collections.abc import Iterator
from operator import is_
from types import CodeType, FunctionType
from typing import Any

from cotan._src.runtime.originals import keep_original
from cotan._src.typing import Function

# The code of a location that is none, and how many instructions one entry of the table covers.
_NO_LOCATION = 0x80 | 15 << 3
_COVERED = 8
_ARGUMENTS, _KEYWORDS = 0x04, 0x08


def add_prologue(function: FunctionType, flag: Function | None, hook: Function | None) -> None:
    """Keep a copy of a function, and let its code begin with a call of `hook`, if there is one.

    That is called where `flag()` is true.
    """
    keep_original(function)
    if hook is not None:
        function.__code__ = _with_prologue(function.__code__, flag, hook)


def as_called(function: FunctionType, rule: Function, is_bound: bool = False) -> Function:
    """Give a rule of a function that gets what the call gave, and no defaults.

    The frame no longer says which arguments a call left out, and which it named: those that are the
    function's defaults count as left out, and those behind them go by name. `is_bound` says that
    the rule gets no `self`.
    """
    if sys.version_info >= (3, 12):
        return rule
    code = function.__code__
    names = code.co_varnames[is_bound : code.co_argcount]
    unnamed = max(code.co_posonlyargcount - is_bound, 0)
    takes_all = _takes_all(rule)
    required = len(names) - len(function.__defaults__ or ())

    @functools.wraps(rule)
    def call(*args: Any, **kwargs: Any) -> Any:
        defaults, named = function.__defaults__ or (), function.__kwdefaults__ or {}
        given = {k: x for k, x in kwargs.items() if k not in named or x is not named[k]}
        if len(args) > len(names):
            return rule(*args, **given)
        is_fit = unnamed <= required and (takes_all or required <= _room(rule))
        if is_fit and not given and all(map(is_, args[required:], defaults)):
            # Most calls leave out all that can be left out.
            return rule(*args[:required])
        is_given = [i < required or x is not defaults[i - required] for i, x in enumerate(args)]
        count = is_given.index(False) if False in is_given else len(args)
        count = max(required if takes_all else min(count, _room(rule)), unnamed)
        rest = zip(names[count:], args[count:], is_given[count:], strict=False)
        given |= {name: x for name, x, is_one in rest if is_one}
        return rule(*args[:count], **given)

    return call


def _takes_all(rule: Function) -> bool:
    """Say whether a rule takes any arguments, by position and by name."""
    kinds = {parameter.kind for parameter in inspect.signature(rule).parameters.values()}
    return {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} <= kinds


@functools.cache
def _room(rule: Function) -> int:
    """Give how many arguments a rule takes by position."""
    kinds = [parameter.kind for parameter in inspect.signature(rule).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return sys.maxsize
    return sum(kind is not inspect.Parameter.KEYWORD_ONLY for kind in kinds) - (
        inspect.Parameter.VAR_KEYWORD in kinds
    )


def _with_prologue(code: CodeType, flag: Function | None, hook: Function) -> CodeType:
    constants = [*code.co_consts, flag, hook, NotImplemented]
    may, asked, declined = range(len(code.co_consts), len(constants))
    call, needed = _call(code, constants)
    skip = (*_steps(("POP_TOP", 0)),)
    end = _steps(
        ("COPY", 1),
        ("LOAD_CONST", declined),
        ("IS_OP", 0),
        ("POP_JUMP_FORWARD_IF_TRUE", 1),
        ("RETURN_VALUE", 0),
    )
    ask = [*_steps(("PUSH_NULL", 0), ("LOAD_CONST", asked)), *call, *end, *skip]
    prologue = bytes(
        [
            *_steps(("PUSH_NULL", 0), ("LOAD_CONST", may), ("PRECALL", 0), ("CALL", 0)),
            *_steps(("POP_JUMP_FORWARD_IF_FALSE", len(ask) // 2)),
            *ask,
        ]
    )
    count = len(prologue) // 2
    return code.replace(
        co_code=prologue + code.co_code,
        co_consts=tuple(constants),
        co_stacksize=max(code.co_stacksize, needed + 4),
        co_linetable=bytes(_no_locations(count)) + code.co_linetable,
        co_exceptiontable=_shifted(code.co_exceptiontable, count),
    )


def _call(code: CodeType, constants: list[object]) -> tuple[list[int], int]:
    """Give the instructions of a call with all arguments, and the room that they need."""
    positional, named = code.co_argcount, code.co_kwonlyargcount
    last = positional + named
    takes_more = bool(code.co_flags & _ARGUMENTS)
    takes_names = bool(code.co_flags & _KEYWORDS)
    names = code.co_varnames[positional:last]
    load = [("LOAD_FAST", i) for i in range(last)]
    if not takes_more and not takes_names:
        steps = load
        if named:
            constants.append(names)
            steps = [*load, ("KW_NAMES", len(constants) - 1)]
        return _steps(*steps, ("PRECALL", last), ("CALL", last)), last + 2
    steps = [*load[:positional], ("BUILD_LIST", positional)]
    if takes_more:
        steps += [("LOAD_FAST", last), ("LIST_EXTEND", 1)]
    steps += [("LIST_TO_TUPLE", 0)]
    constants.append(names)
    steps += [*load[positional:], ("LOAD_CONST", len(constants) - 1)]
    steps += [("BUILD_CONST_KEY_MAP", named)]
    if takes_names:
        steps += [("LOAD_FAST", last + takes_more), ("DICT_MERGE", 1)]
    return _steps(*steps, ("CALL_FUNCTION_EX", 1)), last + 4


def _steps(*steps: tuple[str, int]) -> list[int]:
    """Give instructions as bytes, with the room that the interpreter keeps behind some of them."""
    found: list[int] = []
    for name, argument in steps:
        opcode = dis.opmap[name]
        for shift in (24, 16, 8):
            if argument >> shift:
                found += [dis.opmap["EXTENDED_ARG"], argument >> shift & 0xFF]
        found += [opcode, argument & 0xFF]
        found += [dis.opmap["CACHE"], 0] * dis._inline_cache_entries[opcode]  # type: ignore[attr-defined]
    return found


def _no_locations(count: int) -> Iterator[int]:
    while count:
        covered = min(count, _COVERED)
        yield _NO_LOCATION | covered - 1
        count -= covered


def _shifted(table: bytes, count: int) -> bytes:
    """Move the handlers of exceptions by some instructions."""
    entries, rest = bytearray(), iter(table)
    for first in rest:
        start, length, target, depth = _number(first, rest), *(_next(rest) for _ in range(3))
        numbers = (start + count, length, target + count, depth)
        for i, number in enumerate(numbers):
            entries += bytes(_encoded(number, is_first=i == 0))
    return bytes(entries)


def _next(rest: Iterator[int]) -> int:
    return _number(next(rest), rest)


def _number(byte: int, rest: Iterator[int]) -> int:
    value = byte & 0x3F
    while byte & 0x40:
        byte = next(rest)
        value = value << 6 | byte & 0x3F
    return value


def _encoded(number: int, is_first: bool) -> list[int]:
    groups = [number & 0x3F]
    while number := number >> 6:
        groups.append(number & 0x3F)
    groups.reverse()
    more = [group | 0x40 for group in groups[:-1]]
    encoded = [*more, groups[-1]]
    encoded[0] |= 0x80 if is_first else 0
    return encoded
