"""Whether arrays hold the same, bit by bit; of objects, whether they are the same ones."""

from typing import Any

import numpy as np

# Memory of so many bytes is compared as a whole, and more of it so many bytes at a time.
_SHORT = 1 << 12
_PART = 1 << 20


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
