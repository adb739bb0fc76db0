"""Adds the cotangents of a pullback to arrays of the caller: `Pullback.accumulate`.

Problem: gradients over several batches are sums. Adding structures makes a new one for each batch.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.tree.forcing import force
from cotan._src.tree.tangent import Gradients, Tangent
from cotan._src.typing import NDArray


class _Pair(NamedTuple):
    """A cotangent, and the buffer that it is added to."""

    cotangent: Any
    buffer: NDArray


def accumulate(self: _core.Pullback, dy: object, buffers: Any, /) -> Any:
    """Add the cotangents of the arguments to arrays, in place.

    Parameters
    ----------
    dy
        The cotangent of the value, as for a call of the pullback.
    buffers
        ndarrays in a structure like what the call gives: a tuple with an entry for each argument, a
        dictionary of fields, a `Tangent` or another object of the class for an object, and arrays
        of shape `()` for numbers. What stands beside a cotangent that is None stays as it is; for
        None in `buffers` no cotangent is computed.

    Returns
    -------
    The buffers.

    Raises
    ------
    ValueError
        When the structures differ, or a buffer has another shape; it names the path. Nothing has
        been added then.
    TypeError
        When a buffer is no ndarray, is of another dtype, or cannot be written to, or when the
        cotangent itself is being differentiated.

    >>> import cotan as ct
    >>> import numpy as np
    >>> total = (np.zeros(2), None)
    >>> for x in (np.array([1.0, 2.0]), np.array([3.0, 4.0])):
    ...     _, back = ct.pullback(lambda x, a: a * np.sum(x * x), x, 10.0)
    ...     _ = back.accumulate(1.0, total)
    >>> total
    (array([ 80., 120.]), None)
    """
    pairs = list(_pairs(self(dy), buffers, "buffers"))
    force([pair.cotangent for pair in pairs])
    for cotangent, buffer in pairs:
        np.add(buffer, _core.value(cotangent), out=buffer)
    return buffers


def _pairs(cotangents: Any, buffers: Any, path: str) -> Iterator[_Pair]:
    """Give the cotangents that have a buffer, checked against it."""
    if cotangents is None or buffers is None:
        return
    if isinstance(cotangents, _core.Array):
        _expect_fitting(cotangents, buffers, path)
        yield _Pair(cotangents, buffers)
        return
    for step, cotangent, buffer in _parts(cotangents, buffers, path):
        yield from _pairs(cotangent, buffer, path + step)


def _parts(cotangents: Any, buffers: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Give the parts of a cotangent with what stands for each of them in the buffers."""
    if isinstance(cotangents, Gradients):
        # Those of the arrays in `wrt=[...]` have their order.
        cotangents = list(cotangents.values())
    if isinstance(cotangents, (tuple, list, deque)):
        if not isinstance(buffers, (tuple, list, deque)) or len(buffers) != len(cotangents):
            raise ValueError(
                f"accumulate: {path} has to be a tuple or list of {len(cotangents)} entries, as "
                f"the cotangent is, not {_described(buffers)}; put None where nothing is wanted"
            )
        for i, (cotangent, buffer) in enumerate(zip(cotangents, buffers, strict=True)):
            yield f"[{i}]", cotangent, buffer
        return
    fields: Mapping[Any, Any]
    if isinstance(cotangents, (dict, Tangent)):
        fields = cotangents
    else:  # an object of its own class, as a natural cotangent is
        parts = _core.structure(cotangents)
        yield from zip(
            (p.removeprefix(".") and p for p in parts.paths),
            parts.leaves,
            parts.align(buffers, "accumulate"),
            strict=True,
        )
        return
    for name, cotangent in fields.items():
        is_field = isinstance(cotangents, Tangent) and isinstance(name, str)
        step = f".{name}" if is_field else f"[{name!r}]"
        if isinstance(buffers, Mapping) and name in buffers:
            yield step, cotangent, buffers[name]
        elif is_field and not isinstance(buffers, Mapping) and hasattr(buffers, name):
            yield step, cotangent, getattr(buffers, name)
        elif cotangent is not None:
            raise ValueError(
                f"accumulate: {path} has nothing for {name!r}, which has a cotangent; it is "
                f"{_described(buffers)}; put None where nothing is wanted"
            )


def _described(buffers: object) -> str:
    if isinstance(buffers, np.ndarray):
        return f"an array of shape {buffers.shape}"
    if isinstance(buffers, (tuple, list, deque)):
        return f"a {type(buffers).__name__} of {len(buffers)}"
    if isinstance(buffers, Mapping):
        return f"a {type(buffers).__name__} with {list(buffers)}"
    return f"of {type(buffers)}"


def _expect_fitting(cotangent: _core.Array, buffer: Any, path: str) -> None:
    if isinstance(buffer, _core.Array) or not isinstance(buffer, np.ndarray):
        raise TypeError(
            f"accumulate: {path} must be an ndarray, not {type(buffer)}; for a number, an array of "
            f"shape (): np.zeros({cotangent.shape}, np.{cotangent.dtype.name})"
        )
    if buffer.shape != cotangent.shape:
        raise ValueError(
            f"accumulate: {path} has shape {buffer.shape}, and its cotangent {cotangent.shape}"
        )
    if buffer.dtype != cotangent.dtype:
        raise TypeError(
            f"accumulate: {path} is of dtype {buffer.dtype}, and its cotangent of "
            f"{cotangent.dtype}; make it with np.zeros({cotangent.shape}, "
            f"np.{cotangent.dtype.name})"
        )
    if not buffer.flags.writeable:
        raise TypeError(f"accumulate: {path} is read-only; give an array that can be written to")
    if _core.is_active(cotangent) or _core.is_traced(cotangent):
        raise TypeError(
            f"accumulate: the cotangent for {path} is recorded, and an ndarray holds values only; "
            "add what the pullback gives, total + back(dy)[0]"
        )


def attach(cls: Any) -> None:
    """Give the class its method."""
    cls.accumulate = accumulate
