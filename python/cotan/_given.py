"""What a program does with a value that it asks for: if a gradient is lost, or if it is a mask."""

import ast
import dis
import functools
import inspect
import linecache
from types import CodeType
from typing import Any

import numpy as np

from cotan import _core
from cotan._drawn import is_drawing
from cotan._frames import is_of_program, outside

_STORE = dis.opmap["STORE_SUBSCR"]


def is_lost_anyway() -> bool:
    """Say whether values are drawn, or are written into whole numbers, which cuts them off."""
    return is_drawing() or _is_cut_off()


def _is_cut_off() -> bool:
    if _core.is_preparing() or _core.is_tracing():
        return False  # The values would be those of this call forever.
    frame = outside()
    if frame is None or not is_of_program(frame):
        return False
    if frame.f_code.co_code[frame.f_lasti] != _STORE:
        return False
    target = _target(frame)
    return type(target) is np.ndarray and target.dtype.kind in "biu"


def is_mask() -> bool:
    """Say whether a plain ndarray is indexed now; a truth value of Python's is a mask there."""
    frame = outside()
    return frame is not None and isinstance(_target(frame), np.ndarray)


def _target(frame: Any) -> Any:
    """Give what the running instruction indexes, where a name or an attribute says that."""
    linecache.lazycache(frame.f_code.co_filename, frame.f_globals)
    node = _indexed(frame.f_code, frame.f_lasti)
    try:
        return None if node is None else _found(node, frame)
    except (AttributeError, LookupError, TypeError):
        return None


@functools.lru_cache(maxsize=1024)
def _indexed(code: CodeType, at: int) -> ast.expr | None:
    """Give the expression that an instruction indexes, as the source has it; loops ask again."""
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
        written = ast.parse(b"".join(encoded), mode="eval").body
    except SyntaxError:
        return None
    return written.value if isinstance(written, ast.Subscript) else None


def _found(node: ast.expr, frame: Any) -> Any:
    """Give what an expression means that only looks things up: `self.state["gen"]`.

    No code of the program runs: it has run already, and is not to be run twice.
    """
    if isinstance(node, ast.Attribute):
        owner = _found(node.value, frame)
        look = getattr if type(owner) is np.ndarray else inspect.getattr_static
        return look(owner, node.attr)
    if isinstance(node, ast.Subscript):
        owner = _found(node.value, frame)
        if type(owner) not in {dict, list, tuple, np.ndarray}:
            raise LookupError
        return owner[_found(node.slice, frame)]
    if isinstance(node, ast.Constant):
        return node.value
    if not isinstance(node, ast.Name):
        raise LookupError
    names = frame.f_locals if node.id in frame.f_locals else frame.f_globals
    return names[node.id]
