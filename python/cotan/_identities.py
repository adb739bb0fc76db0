"""Whether collections hold the same objects, in the time that it takes to copy them.

No code of a program's runs for that (`==` calls what its objects have for it), and an `is` for each
item takes twelve times as long as a copy. So the addresses that two lists hold are compared as
bytes. NumPy shows those of its arrays of objects; where a list has them is told by its layout,
which is looked at before it is relied on.
"""

import ctypes
import sys
from operator import is_
from typing import Any

import numpy as np

_WORD = ctypes.sizeof(ctypes.c_void_p)
# Memory of so many bytes is compared as a whole, and more of it so many bytes at a time.
_SHORT = 1 << 12
_PART = 1 << 20


def _address(items: list[Any], at: int) -> Any:
    return ctypes.c_void_p.from_address(id(items) + at).value


def _place_of_items() -> int:
    """Give where a list has the address of its items, 0 where that is not known.

    It has the number of places behind that, and the number of items before it.
    """
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return 0
    at = list.__basicsize__ - 2 * _WORD
    items: list[Any] = [object() for _ in range(5)]
    items += [None, True]
    is_known = at >= _WORD and _address(items, at - _WORD) == len(items)
    places = (_address(items, at + _WORD) or 0) if is_known else 0
    if not len(items) <= places <= 100 or not _address(items, at):
        return 0
    held = ctypes.string_at(_address(items, at), _WORD * len(items))
    wanted = b"".join(id(item).to_bytes(_WORD, sys.byteorder) for item in items)
    return at if held == wanted else 0


_PLACE = _place_of_items()


def same_items(a: list[Any], b: list[Any]) -> bool:
    """Say whether two lists hold the same objects; nobody else may be writing to them."""
    count = len(a)
    if count != len(b):
        return False
    if count < 32 or not _PLACE:
        return all(map(is_, a, b))
    size = _WORD * count
    at, there = _address(a, _PLACE), _address(b, _PLACE)
    return ctypes.string_at(at, size) == ctypes.string_at(there, size)


def same_objects(a: Any, b: Any) -> bool:
    """Say whether two arrays of one shape hold the same objects, and other fields as they were."""
    if a.dtype.names is not None:
        return all(same_bits(a[name], b[name]) for name in a.dtype.names)
    if a.dtype.kind != "O":
        return bool(a.tolist() == b.tolist())  # strings, whose memory is somewhere else
    x: Any = np.ascontiguousarray(a)
    y: Any = np.ascontiguousarray(b)
    return b"".join([x]) == b"".join([y])


def same_bits(a: Any, b: Any) -> bool:
    """Say whether two arrays hold the same, bit by bit; objects are compared as such."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.hasobject:
        return same_objects(a, b)
    if a.nbytes <= _SHORT:
        return bool(a.tobytes() == b.tobytes())
    a, b = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return all(_same_bytes(a[i : i + _PART], b[i : i + _PART]) for i in range(0, a.size, _PART))


def _same_bytes(a: Any, b: Any) -> bool:
    kind = np.uint8 if a.size % 8 else np.uint64
    return bool(np.array_equal(a.view(kind), b.view(kind)))
