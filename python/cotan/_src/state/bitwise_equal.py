"""Compares arrays bit by bit, and their objects by identity: NaN equals itself, 0.0 not -0.0."""

from typing import Any

import numpy as np

# Up to so many bytes are copied to be compared at once; longer arrays are compared in chunks.
_SHORT = 1 << 12
_CHUNK = 1 << 20


def same_objects(a: np.ndarray, b: np.ndarray) -> bool:
    """Say whether two arrays of one shape and a dtype with objects hold the same objects."""
    if a.dtype.names is not None:
        return all(same_bits(a[name], b[name]) for name in a.dtype.names)
    if a.dtype.kind != "O":
        return bool(a.tolist() == b.tolist())  # strings, which are elsewhere in memory
    x: Any = np.ascontiguousarray(a)
    y: Any = np.ascontiguousarray(b)
    return b"".join([x]) == b"".join([y])


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Say whether two arrays of any shapes and dtypes are equal bit by bit, objects by identity."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.hasobject:
        return same_objects(a, b)
    if a.nbytes <= _SHORT:
        return bool(a.tobytes() == b.tobytes())
    a, b = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return all(_same_bytes(a[i : i + _CHUNK], b[i : i + _CHUNK]) for i in range(0, a.size, _CHUNK))


def _same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    kind = np.uint8 if a.size % 8 else np.uint64
    return bool(np.array_equal(a.view(kind), b.view(kind)))
