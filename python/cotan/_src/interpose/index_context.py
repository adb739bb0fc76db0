"""What a program does with a value that it asks for: if a gradient is lost, or if it is a mask."""

import ast
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.runtime.call_site import (
    UNRESOLVED,
    is_user_code,
    operation,
    resolve_expression,
    subscript,
    user_frame,
)
from cotan._src.runtime.plotting_context import is_read_for_display

# Newer interpreters have one instruction for all operators.
_SUBSCRIPTS = {"BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR"}
_LITERALS = (ast.Constant, ast.Dict, ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple)


def value_is_discarded() -> bool:
    """Say whether values are drawn, or are written into integers, which cuts them off."""
    return is_read_for_display() or _is_cut_off()


def _is_cut_off() -> bool:
    if _core.is_preparing() or _core.is_tracing():
        return False  # The values would be those of this call forever.
    frame = user_frame()
    if frame is None or not is_user_code(frame):
        return False
    if operation(frame) != "STORE_SUBSCR":
        return False
    node = subscript(frame)
    try:
        target = None if node is None else resolve_expression(node.value, frame)
    except UNRESOLVED:
        return False
    return type(target) is np.ndarray and target.dtype.kind in "biu"


def may_index_ndarray() -> bool:
    """Say whether a plain ndarray, or what cannot be seen, is indexed by a boolean of Python's.

    That is a mask there, and a number in lists, texts and as the end of a slice.
    """
    frame = user_frame()
    if frame is None:
        return False
    node = subscript(frame)
    if node is None:
        return operation(frame) in _SUBSCRIPTS
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if any(_may_end(item, frame) for item in items):
        return False
    if isinstance(node.value, _LITERALS):
        return False
    try:
        return isinstance(resolve_expression(node.value, frame), np.ndarray)
    except UNRESOLVED:
        return True


def _may_end(item: ast.expr, frame: Any) -> bool:
    """Say whether a part of a key is a slice that may end at what was computed."""
    if not isinstance(item, ast.Slice):
        return False
    for end in (item.lower, item.upper, item.step):
        if end is None:
            continue
        try:
            if isinstance(resolve_expression(end, frame), _core.Array):
                return True
        except UNRESOLVED:
            return True
    return False
