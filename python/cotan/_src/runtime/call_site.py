"""Looks at the caller: whose code is running, at which instruction, and what it calls."""

import ast
import builtins
import contextlib
import dis
import functools
import inspect
import linecache
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cotan import _core
from cotan._src.runtime import libraries

NATIVE_LIBRARIES = libraries.NATIVE_LIBRARIES


_STORE_GLOBAL = dis.opmap["STORE_GLOBAL"]
_STORE_ATTR = dis.opmap["STORE_ATTR"]
_EXTENDED, _IS, _LOAD = dis.opmap["EXTENDED_ARG"], dis.opmap["IS_OP"], dis.opmap["LOAD_CONST"]
_COMPARE, _CACHE = dis.opmap["COMPARE_OP"], dis.opmap["CACHE"]
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


def package_of(frame: Any) -> str:
    """Give the package that a frame's code belongs to.

    Its module says it by name, except for what lies in the folder of a library and is run by
    another name: test suites are imported like that.
    """
    name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    if name in NATIVE_LIBRARIES or name in libraries.STANDARD_LIBRARY:
        return name
    return _library_around(frame.f_code.co_filename) or name


@functools.lru_cache(maxsize=4096)
def _library_around(path: str) -> str:
    """Name the library whose folder a file lies in, if there is one."""
    parts = path.split(os.sep)
    for i, part in enumerate(parts[:-1]):
        if part in NATIVE_LIBRARIES:
            spec = getattr(sys.modules.get(part), "__spec__", None)
            folders = getattr(spec, "submodule_search_locations", None) or ()
            if os.sep.join(parts[: i + 1]) in folders:
                return part
    return ""


def user_frame() -> Any:
    """Give the innermost frame whose code is not cotan's, if there is one."""
    frame: Any = sys._getframe()
    while frame is not None and package_of(frame) == "cotan":
        frame = frame.f_back
    return frame


#: An instruction as `instructions` gives it, with its name, argument and offset.
Instruction: TypeAlias = dis.Instruction


@functools.lru_cache(maxsize=256)
def instructions(code: CodeType) -> list[Instruction]:
    """Give the instructions of some code."""
    return list(dis.get_instructions(code))


def handles(code: CodeType, offsets: frozenset[int]) -> bool:
    """Say whether errors that are raised at some offsets are handled in the same code."""
    entries = getattr(dis.Bytecode(code), "exception_entries", ())
    return any(e.start <= at < e.end for e in entries for at in offsets)


def current_instruction(frame: Any, at: int | None = None) -> Instruction:
    """Give the instruction that a frame is at; some interpreters point to what follows it."""
    return _instruction_at(frame.f_code, frame.f_lasti if at is None else at)


@functools.lru_cache(maxsize=1024)
def _instruction_at(code: CodeType, last: int) -> Instruction:
    steps = instructions(code)
    here = max(i for i, s in enumerate(steps) if s.offset <= last)
    # Code that ran before calls some functions one instruction earlier.
    return steps[here + (steps[here].opname == "PRECALL")]


def callee_name(frame: Any, names: Iterable[str], at: int | None = None) -> str | None:
    """Say which of some names the running instruction of a frame calls."""
    return _callee_at(frame.f_code, frame.f_lasti if at is None else at, frozenset(names))


@functools.lru_cache(maxsize=1024)
def _callee_at(code: CodeType, last: int, names: frozenset[str]) -> str | None:
    here = _instruction_at(code, last)
    # Code that has run often calls classes and functions of C in what prepares a call (3.11).
    if not here.opname.startswith(("CALL", "PRECALL")):
        return None
    steps = instructions(code)
    name = None
    for step in _callee_steps(steps, steps.index(here)):
        if step.argval in names:
            name = str(step.argval)
        elif step.opname.startswith("CALL"):
            name = None  # What is called now is what that call gave: `name(x)(y)`.
    return name


def _callee_steps(steps: list[Instruction], call: int) -> list[Instruction]:
    """Give the instructions that look up what a call calls: they begin where it does."""
    place = steps[call].positions
    if place is None or place[2] is None:
        return _beneath_arguments(steps, call)
    start = place[0], place[2]
    places = ((step, step.positions) for step in steps[:call])
    return [step for step, at in places if at is not None and (at[0], at[2]) == start]


def _beneath_arguments(steps: list[Instruction], call: int) -> list[Instruction]:
    """Give what looks a callee up by what lies on the stack, for code that knows no columns.

    Python is told to keep none by `-X no_debug_ranges`. Nothing is given where code in between
    branches.
    """
    count = steps[call].arg or 0
    spread = 4 if sys.version_info >= (3, 14) else 3 + (count & 1)
    counts = {"CALL": count + 2, "CALL_KW": count + 3, "CALL_FUNCTION_EX": spread}
    taken = counts.get(steps[call].opname, 0)
    call -= steps[call - 1].opname == "PRECALL"
    depth, begin = 0, call
    while depth < taken:
        if not begin or steps[begin - 1].opcode in _JUMPS or steps[begin].is_jump_target:
            return []
        begin -= 1
        depth += dis.stack_effect(steps[begin].opcode, steps[begin].arg, jump=False)
    if depth != taken:
        return []
    depth, end = 0, begin
    for i in range(begin, call):
        depth += dis.stack_effect(steps[i].opcode, steps[i].arg, jump=False)
        end = i + 1 if depth == 2 else end
    return steps[begin:end]


def subscript(frame: Any) -> ast.Subscript | None:
    """Give the subscript that a frame is at, as its source has it, if it is at one."""
    linecache.lazycache(frame.f_code.co_filename, frame.f_globals)
    written = expression(frame)
    return written if isinstance(written, ast.Subscript) else None


def expression(frame: Any) -> ast.expr | None:
    """Give the expression that a frame is at, as its source has it, if there is a source."""
    return _expression_at(frame.f_code, frame.f_lasti)


@functools.lru_cache(maxsize=1024)
def _expression_at(code: CodeType, at: int) -> ast.expr | None:
    # Loops ask again and again.
    line, last, begin, end = list(code.co_positions())[at // 2]
    if line is None or last is None or begin is None or end is None:
        return None
    lines = linecache.getlines(code.co_filename)[line - 1 : last]
    if not lines:
        return None
    encoded = [text.encode() for text in lines]
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][begin:]
    try:
        return ast.parse(b"".join(encoded), mode="eval").body
    except (SyntaxError, ValueError):  # a statement, or source that has changed meanwhile
        return None


def position(frame: Any) -> int:
    """Give where in its code a frame is: a generator that has not advanced is where it was."""
    at: int = frame.f_lasti
    return at


def operation(frame: Any) -> str:
    """Name the instruction that a frame is at: `STORE_SUBSCR`, `BINARY_OP`.

    Slices have instructions of their own from Python 3.12 on, and reading an item is an operator
    from 3.14 on; they are named as before.
    """
    name: str = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    if name == "BINARY_OP" and current_instruction(frame).argrepr == "[]":
        return "BINARY_SUBSCR"
    return _SLICES.get(name, name)


_SLICES = {"BINARY_SLICE": "BINARY_SUBSCR", "STORE_SLICE": "STORE_SUBSCR"}


class Assignments(NamedTuple):
    """What some code, without the functions defined inside of it, assigns to."""

    #: The names of globals.
    globals: frozenset[str]
    #: Whether it assigns to attributes.
    to_attributes: bool


def assignments(code: CodeType) -> Assignments:
    """Give what some code assigns to besides variables and items."""
    steps = code.co_code[::2]
    names: frozenset[str] = frozenset()
    # Searching the bytes is a thousand times faster than decoding the instructions.
    if _STORE_GLOBAL in steps:
        stored = (s for s in dis.get_instructions(code) if s.opcode == _STORE_GLOBAL)
        names = frozenset(str(step.argval) for step in stored)
    return Assignments(names, _STORE_ATTR in steps)


@functools.lru_cache(maxsize=1024)
def assigns_captured(code: CodeType) -> bool:
    """Say whether some code, or a function inside of it, assigns to variables around it."""
    return any(
        step.opname in {"STORE_DEREF", "DELETE_DEREF"} and step.argval in code.co_freevars
        for step in dis.get_instructions(code)
    ) or any(isinstance(c, CodeType) and assigns_captured(c) for c in code.co_consts)


def compares_identity_of_bools(code: CodeType) -> bool:
    """Say whether code asks `flag is True`, `case True:` or `(x > 0) is (y > 0)`, itself."""
    constants = code.co_consts
    bools = {i for i, value in enumerate(constants) if value is True or value is False}
    before, constant, high, text = -1, -1, 0, code.co_code
    for operation, low in zip(text[::2], text[1::2], strict=True):
        if operation == _IS and (constant in bools or before == _COMPARE):
            return True
        if operation != _CACHE:
            before, constant = operation, high | low if operation == _LOAD else -1
            high = (high | low) << 8 if operation == _EXTENDED else 0
    return False


def imports_modules(code: CodeType) -> bool:
    """Say whether some code, or a function inside of it, imports modules when it runs."""
    return any(step.opname == "IMPORT_NAME" for step in dis.get_instructions(code)) or any(
        isinstance(c, CodeType) and imports_modules(c) for c in code.co_consts
    )


UNRESOLVED = (AttributeError, LookupError, TypeError, ValueError)


def resolve_expression(node: ast.expr, frame: Any) -> Any:
    """Give what an expression means that only looks things up: `self.state["gen"]`.

    No user code runs: it has run already, and is not to be run twice. Raises one of
    `UNRESOLVED` where it does more than that.
    """
    if isinstance(node, ast.Attribute):
        return attribute_of(resolve_expression(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        owner = resolve_expression(node.value, frame)
        if type(owner) not in {dict, list, tuple, np.ndarray}:
            raise LookupError
        key = resolve_expression(node.slice, frame)
        if isinstance(key, _core.Array):
            key = _core.value(key).item()  # without asking where that is going on
        return owner[key]
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "getattr":
        owner, name = (resolve_expression(argument, frame) for argument in node.args)
        return attribute_of(owner, name)
    if isinstance(node, (ast.UnaryOp, ast.List, ast.Tuple)):
        return ast.literal_eval(node)  # -1
    if not isinstance(node, ast.Name):
        raise LookupError
    names = frame.f_locals if node.id in frame.f_locals else frame.f_globals
    return names[node.id]


def attribute_of(owner: Any, name: str) -> Any:
    """Give an attribute of an object without running code; `LookupError` for a property."""
    if type(owner) is np.ndarray:
        return getattr(owner, name)
    kept = inspect.getattr_static(owner, name)
    if isinstance(kept, MemberDescriptorType):
        return kept.__get__(owner)
    if isinstance(kept, (staticmethod, classmethod)):
        return kept.__func__
    if isinstance(kept, FunctionType):
        return kept
    if hasattr(type(kept), "__get__") and not callable(kept):
        raise LookupError(name)
    return kept


def result_is_dropped(frame: Any) -> bool:
    """Say whether a frame's code makes nothing of what the call gives that it is at: `f(x)` alone.

    `dis` skips what the interpreter keeps behind an instruction.
    """
    at = current_instruction(frame).offset
    later = (s for s in dis.get_instructions(frame.f_code) if s.offset > at)
    return next((s.opname for s in later), "") == "POP_TOP"


def is_user_code(frame: Any) -> bool:
    """Say whether a frame runs user code, and not that of a library that hands memory to C."""
    return type(frame.f_globals) is dict and package_of(frame) not in NATIVE_LIBRARIES


def called_from_user_code() -> bool:
    """Say whether what runs was called by user code, and not by a library."""
    frame = user_frame()
    if frame is None or not is_user_code(frame):
        return False
    package = package_of(frame)
    return package == "__main__" or package not in libraries.STANDARD_LIBRARY


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something at the line of the innermost code that is not cotan's."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and package_of(frame) == "cotan":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def user_code_calls(frame: Any, name: str) -> bool:
    """Say whether a frame runs user code that is calling a method of this name."""
    return is_user_code(frame) and callee_name(frame, {name}) is not None


def borrows_operand(frame: Any) -> bool:
    """Say whether the operator that a frame is at may borrow its left operand from a variable.

    Python 3.14 counts no reference for that. Without positions it is taken to do so.
    """
    here = current_instruction(frame)
    start = None if here.positions is None else (here.positions[0], here.positions[2])
    if start is None or None in start:
        return True
    # What stands on the right begins later, so the last one that begins here loads the left one.
    name = "LOAD_FAST_BORROW"
    for step in instructions(frame.f_code):
        if step.offset >= here.offset:
            break
        place = step.positions
        if place is not None and (place[0], place[2]) == start:
            name = step.opname
    return name.startswith("LOAD_FAST_BORROW")


def is_variable_around(frame: Any, value: object) -> bool:
    """Say whether a function that waits for what a frame runs has an object in a variable.

    An argument may be borrowed from that; from a variable of several functions nothing is.
    """
    while (frame := frame.f_back) is not None:
        code = frame.f_code
        if not code.co_flags & inspect.CO_OPTIMIZED:
            continue  # names of a module or a class
        held = frame.f_locals
        if any(held.get(n) is value for n in code.co_varnames if n not in code.co_cellvars):
            return True
    return False


def is_shuffling(frame: Any) -> bool:
    """Say whether the running code calls the `shuffle` of something compiled."""
    return callee_name(frame, {"shuffle"}) is not None


def is_formatting(frame: Any = None) -> bool:
    """Say whether the running code, or a frame, makes a text of a number: `"%.2f" % x`."""
    frame = sys._getframe() if frame is None else frame
    while frame.f_globals is globals():
        frame = frame.f_back
    here = current_instruction(frame)
    return here.opname == "BINARY_OP" and here.argrepr in {"%", "%="}


_NAMES = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF"}
_UNSEEN = {"PUSH_NULL", "PRECALL", "CACHE", "EXTENDED_ARG", "KW_NAMES", "NOP", "RESUME"}


class Callee(NamedTuple):
    """What the running instruction of a frame calls, as its code has it."""

    #: The object, where looking names up gives one: no code of the program runs.
    object: Any
    #: Whether the same place calls the same object for ever, as far as names go.
    is_global: bool


@functools.lru_cache(maxsize=1024)
def _callee_path(code: CodeType, at: int) -> tuple[str, ...] | None:
    """Give the names by which a call looks its callee up: a variable, and attributes."""
    steps = list(dis.get_instructions(code))
    here = max(i for i, s in enumerate(steps) if s.offset <= at)
    here += steps[here].opname == "PRECALL"
    if not steps[here].opname.startswith(("CALL", "PRECALL")):
        return None
    found = _callee_steps(steps, here)
    if steps[here].opname == "CALL_KW" and steps[here - 1] in found:
        found.remove(steps[here - 1])  # the names of keywords stand before it
    path: list[str] = []
    for step in found:
        if step.opname in _UNSEEN:
            continue
        if step.opname in _NAMES or step.opname.startswith("LOAD_FAST"):
            path = [str(step.argval)]
        elif path and step.opname in {"LOAD_ATTR", "LOAD_METHOD"}:
            path.append(str(step.argval))
        else:
            return None  # a subscript, another call
    return tuple(path) or None


def callee(frame: Any) -> Callee:
    """Give what the running instruction of a frame calls.

    Raises one of `UNRESOLVED` where it is no call, or what it calls was computed.
    """
    path = _callee_path(frame.f_code, frame.f_lasti)
    if path is None:
        written = expression(frame)
        if not isinstance(written, ast.Call):
            raise LookupError("no call")
        return Callee(resolve_expression(written.func, frame), False)
    root, *attributes = path
    found, is_local = _look_up(frame, root)
    is_global = not is_local and names_are_global(frame)
    for name in attributes:
        is_global = is_global and isinstance(found, ModuleType)
        found = attribute_of(found, name)
    return Callee(found, is_global)


def _look_up(frame: Any, name: str) -> tuple[Any, bool]:
    """Give what a name means in a frame, and whether it is a variable of a function."""
    code = frame.f_code
    is_local = name in code.co_varnames or name in code.co_cellvars + code.co_freevars
    if not is_local and name not in frame.f_globals and name not in frame.f_locals:
        return vars(builtins)[name], False
    names = frame.f_locals if is_local or name in frame.f_locals else frame.f_globals
    return names[name], is_local


def called_attribute(frame: Any, at: int) -> tuple[Any, str]:
    """Give what a call at some offset of a frame's code looks up: an object, and the name in it.

    The name is empty for a variable that is called. Names mean what they mean now. Raises one of
    `UNRESOLVED` where what is called was computed.
    """
    path = _callee_path(frame.f_code, at)
    if path is None:
        raise LookupError("no call by name")
    root, *attributes = path
    found, _ = _look_up(frame, root)
    for name in attributes[:-1]:
        found = attribute_of(found, name)
    return found, attributes[-1] if attributes else ""


def names_are_global(frame: Any) -> bool:
    """Say whether a frame's names are those of its module, and not those of `exec` or a class."""
    return bool(frame.f_code.co_flags & inspect.CO_OPTIMIZED) or frame.f_locals is frame.f_globals


def functions_handed_on(frame: Any) -> Iterator[Any]:
    """Give what the running expression hands on without calling it: the `f` of `list(map(f, x))`.

    What was computed is left out.
    """
    for node in _names_handed_on(frame.f_code, frame.f_lasti):
        with contextlib.suppress(*UNRESOLVED):
            yield resolve_expression(node, frame)


@functools.lru_cache(maxsize=1024)
def _names_handed_on(code: CodeType, at: int) -> tuple[ast.expr, ...]:
    # Solvers call back a thousand times from one place.
    written = _expression_at(code, at)
    if written is None:
        return ()
    nodes = list(ast.walk(written))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    names = (node for node in nodes if isinstance(node, (ast.Name, ast.Attribute)))
    return tuple(node for node in names if id(node) not in called | inner)
