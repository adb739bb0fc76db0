"""Reads from bytecode what code asks for that may not be there: globals, modules, attributes.

Problem: `getattr(o, "k", 1.0)`, or `o.k` where an `AttributeError` is caught, depends on whether
`k` is there. Guards on absence are many, one for each name and class, so they are left out where
code could only fail: where it catches no error that something missing raises.
"""

import dis
import functools
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

from cotan._src.runtime.call_site import Instruction, instructions

_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
_IMPORT_NAME = dis.opmap["IMPORT_NAME"]
# The instructions that use globals, by how many bits the number of the name is shifted.
_GLOBALS = {
    dis.opmap[name]: int(name == "LOAD_GLOBAL")
    for name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_GLOBAL",
                 "DELETE_GLOBAL")
    if name in dis.opmap
}  # fmt: skip
_STORE_ATTR = dis.opmap["STORE_ATTR"]
_MATCH_CLASS = dis.opmap["MATCH_CLASS"]
_FORMATS = {
    dis.opmap[name]
    for name in ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC")
    if name in dis.opmap
}
# Functions that give attributes by names that need not be in the code.
_INSPECTORS = frozenset({"dir", "getattr", "hasattr", "vars"})
# Classes of errors, by name, that the absence of an attribute, a global or a module does not raise.
_OTHER_ERRORS = frozenset({
    "ArithmeticError", "AssertionError", "ConvergenceError", "FileNotFoundError",
    "FloatingPointError", "GeneratorExit", "IOError", "IndexError", "KeyError", "KeyboardInterrupt",
    "LinAlgError", "LookupError", "MemoryError", "NotImplementedError", "OSError", "OverflowError",
    "RecursionError", "RuntimeError", "StopIteration", "TimeoutError", "TypeError", "ValueError",
    "ZeroDivisionError",
})  # fmt: skip
_NONE = ("LOAD_CONST", None)


def _arguments(code: CodeType, opcode: int) -> Iterator[int]:
    """Give the arguments of the instructions with an opcode, without decoding the others."""
    raw, steps = code.co_code, code.co_code[::2]
    at = steps.find(opcode)
    while at >= 0:
        argument, shift, before = raw[2 * at + 1], 8, at - 1
        while before >= 0 and steps[before] == _EXTENDED_ARG:
            argument |= raw[2 * before + 1] << shift
            before, shift = before - 1, shift + 8
        yield argument
        at = steps.find(opcode, at + 1)


def with_inner(code: CodeType) -> Iterator[CodeType]:
    """Give code, and code inside of it."""
    waiting = [code]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += (c for c in code.co_consts if isinstance(c, CodeType))


@functools.lru_cache(4096)
def globals_used(code: CodeType) -> frozenset[str]:
    """Give the names that code, and code inside of it, uses as globals, builtins among them."""
    return frozenset(
        c.co_names[i >> by]
        for c in with_inner(code)
        for opcode, by in _GLOBALS.items()
        for i in _arguments(c, opcode)
    )


@functools.lru_cache(4096)
def modules_imported(code: CodeType) -> frozenset[str]:
    """Give the names of modules in the `import` statements of code and of code inside of it."""
    return frozenset(c.co_names[i] for c in with_inner(code) for i in _arguments(c, _IMPORT_NAME))


@functools.lru_cache(4096)
def attributes_assigned(code: CodeType) -> frozenset[str]:
    """Give the names of attributes that code, and code inside of it, assigns to."""
    return frozenset(c.co_names[i] for c in with_inner(code) for i in _arguments(c, _STORE_ATTR))


def names_in_patterns(code: CodeType) -> frozenset[str]:
    """Give the attributes that class patterns (`case Point(x=0)`) name, empty without any."""
    if _MATCH_CLASS not in code.co_code[::2]:
        return frozenset()
    tuples = [c for c in code.co_consts if isinstance(c, tuple)]
    return frozenset(["__match_args__", *(n for c in tuples for n in c if isinstance(n, str))])


def makes_texts(code: CodeType) -> bool:
    """Say whether code may make texts of objects without naming a function: f-strings, `%`."""
    return not _FORMATS.isdisjoint(code.co_code[::2]) or any(
        isinstance(c, str) and "%" in c for c in code.co_consts
    )


class Inspected(NamedTuple):
    """What code asks for attributes by names that it computes."""

    #: The names of variables that it asks, of any scope.
    variables: frozenset[str]
    #: Whether it asks only whether there are such attributes.
    by_hasattr: bool


@functools.lru_cache(4096)
def inspected(code: CodeType) -> Inspected:
    """Find `getattr(x, name)`, `hasattr(x, name)`, `vars(x)` and `dir(x)` in code and inside."""
    variables, by_hasattr = set[str](), False
    for c in with_inner(code):
        if _INSPECTORS.isdisjoint(c.co_names):
            continue
        steps = [s for s in instructions(c) if s.opname not in {"PUSH_NULL", "EXTENDED_ARG"}]
        for i, function in enumerate(steps[:-3]):
            if function.argval not in _INSPECTORS or not function.opname.startswith("LOAD_"):
                continue
            asked, *given = steps[i + 1 : i + 5]
            if function.argval in {"getattr", "hasattr"} and _is_literal(given):
                continue
            by_hasattr = by_hasattr or function.argval == "hasattr"
            if asked.opname.startswith("LOAD_"):
                variables.add(str(asked.argval))
    return Inspected(frozenset(variables), by_hasattr)


def _is_literal(steps: list[Instruction]) -> bool:
    """Say whether a call is given a literal, and at most one default."""
    if steps[0].opname != "LOAD_CONST":
        return False
    calls = [s.opname in {"CALL", "PRECALL"} and s.argval == 2 + i for i, s in enumerate(steps[1:])]
    return calls[0] or (calls[1:2] == [True] and steps[1].opname.startswith("LOAD_"))


def catches_absence(code: CodeType) -> bool:
    """Say whether code may go on after an error of an attribute, global or module that is missing.

    Handlers of errors that have other causes do not count, nor does `with`, which only
    `contextlib.suppress` and classes of the program's make a handler (`hides_errors`).
    """
    if not code.co_exceptiontable:
        return False
    if "suppress" in code.co_names:
        return True
    steps = instructions(code)
    return any(_catches(steps, at) for at in range(len(steps)))


def _catches(steps: list[Instruction], at: int) -> bool:
    name = steps[at].opname
    if name == "PUSH_EXC_INFO":
        # `except:`, and a `finally` with a `return`.
        return steps[at + 1].opname == "POP_TOP" or _returns(steps, at + 1)
    if name not in {"CHECK_EG_MATCH", "CHECK_EXC_MATCH"}:
        return False
    caught, after = set[str](), ""
    for step in reversed(steps[:at]):
        if step.opname in {"BUILD_TUPLE", "EXTENDED_ARG"}:
            continue
        if not step.opname.startswith("LOAD_"):
            break
        if after != "LOAD_ATTR":
            caught.add(str(step.argval))
        after = step.opname
    return not caught or not caught <= _OTHER_ERRORS


def _returns(steps: list[Instruction], at: int) -> bool:
    """Say whether a handler returns before it raises the error again."""
    for step in steps[at:]:
        if step.opname in {"CHECK_EXC_MATCH", "WITH_EXCEPT_START", "RERAISE"}:
            return False
        if step.opname.startswith("RETURN_"):
            return True
    return False


def hides_errors(code: CodeType) -> bool:
    """Say whether a method `__exit__` may give anything but None, which hides the error."""
    before: tuple[str, object] = "", None
    for step in instructions(code):
        is_none = before == _NONE if step.opname == "RETURN_VALUE" else step.argval is None
        if step.opname in {"RETURN_VALUE", "RETURN_CONST"} and not is_none:
            return True
        before = step.opname, step.argval
    return False
