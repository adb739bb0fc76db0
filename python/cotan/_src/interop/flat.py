"""Functions of lists of arrays, with what other libraries ask of them: pullback, pushforward, map.

Problem: PyTorch and JAX differentiate a derivative by calling the rule that they were given, on
values of their own. So the pullback of a function has to be a function of the same kind, with a
pullback in its turn, and so has its pushforward, and what maps it over examples. All four are a
`Flat`: from ndarrays to ndarrays, prepared for each shape and dtype.
"""

import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.api.prepare import prepare
from cotan._src.api.vmap import vmap
from cotan._src.interop.parts import (
    Parts,
    inexact,
    is_inexact,
    is_number_or_array,
    put_in,
    take_apart,
)
from cotan._src.interop.slope import Again, Found, Slope, slope_of
from cotan._src.typing import Function, NDArray

Mask = tuple[bool, ...]
Back = Callable[[Sequence[NDArray]], list[NDArray]]

#: So many derived functions, and recordings for constants, are kept for each function.
MOST_KEPT = 64

_FIRST = operator.itemgetter(0)


class NotAlone(Exception):  # noqa: N818
    """The result is no longer one array."""


class Cache(dict[Any, Any]):
    """A dictionary of what can be made again, which forgets the oldest entries."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def made(self, key: Any, make: Callable[[], Any]) -> Any:
        """Give the entry of a key; make it if there is none."""
        found = self.get(key)
        if found is None:
            with self._lock:
                found = self.get(key)
                if found is None:
                    while len(self) >= MOST_KEPT:
                        del self[next(iter(self))]
                    found = self[key] = make()
        return found


class Flat:
    """A function of arrays whose result is an array or a structure of arrays.

    Parameters
    ----------
    function
        Takes arrays by position.
    name
        What errors and reports call it.
    is_prepared
        Whether it is recorded once for each shape, dtype and branch.
    """

    def __init__(self, function: Function, name: str, is_prepared: bool) -> None:
        self.function, self.name = function, name
        self.is_prepared = is_prepared
        #: Whether the last result was one real or complex array.
        self.is_alone = False
        self._derived = Cache()
        #: What gives value and derivative of the arrays in a mask, where that is little work.
        self.slopes: dict[Mask, Slope | Again | None] = {}

    # ----------------------------------------------------------------------------------------------
    # What it computes

    def value(self, arrays: Sequence[NDArray]) -> Parts:
        """Give the result for these arrays, taken apart."""
        return self._noted(_taken(self._run("value", None, arrays)))

    def alone(self, arrays: Sequence[NDArray], mask: Mask) -> Found:
        """Give the result, which was one array in the last call, and its derivative.

        The derivative is the gradient of the arrays in the mask, for a number that takes little
        work, or a pullback. The caller has asked what `slopes` has for this mask, if anything.
        Raises `NotAlone` when the result is something else this time.
        """
        if self.slopes.get(mask) is not None:
            # It was asked, and had no answer.
            self.slopes[mask] = None
        value, pull = self._run("pullback", mask, arrays)
        if not _is_alone(value):
            self.is_alone = False
            raise NotAlone
        if mask not in self.slopes and (prepared := self._derived.get(mask)) is not None:
            self.slopes[mask] = slope_of(prepared, _positions(mask), value, arrays)
        return value, None, pull

    def value_and_pullback(self, arrays: Sequence[NDArray], mask: Mask) -> tuple[Parts, Back]:
        """Give the result, taken apart, and the pullback of the arrays in the mask.

        The pullback takes an array for each inexact leaf of the result, and gives one for each
        array in the mask.
        """
        value, pull = self._run("pullback", mask, arrays)
        parts = self._noted(_taken(value))
        cotangent = _cotangents(parts)
        is_several = sum(mask) > 1

        def back(cts: Sequence[NDArray]) -> list[NDArray]:
            found = pull(cotangent(cts))
            if is_several:
                _core.force_all([ct for ct in found if ct is not None])
            triples = zip(found, arrays, mask, strict=True)
            return [
                np.zeros(x.shape, x.dtype) if ct is None else _core.value(ct)
                for ct, x, wanted in triples
                if wanted
            ]

        return parts, back

    def _noted(self, parts: Parts) -> Parts:
        self.is_alone = parts.skeleton is _ALONE
        return parts

    def _run(self, transform: str, mask: Mask | None, arrays: Sequence[NDArray]) -> Any:
        """Call the prepared function; the function itself, where it cannot be prepared."""
        if not self.is_prepared:
            return self._unprepared(mask, arrays)
        prepared = self._derived.get(mask)
        if prepared is None:
            prepared = self._derived.made(
                mask, lambda: prepare(self.function, transform=transform, wrt=_positions(mask))
            )
        try:
            return prepared(*arrays)
        except TypeError as error:
            if not str(error).startswith("prepare: "):
                raise
            self.is_prepared = False
            return self._unprepared(mask, arrays)

    def _unprepared(self, mask: Mask | None, arrays: Sequence[NDArray]) -> Any:
        if mask is None:
            return self.function(*arrays)
        return _core.pullback(self.function, *arrays, wrt=_positions(mask))

    # ----------------------------------------------------------------------------------------------
    # What is derived from it

    def pull(self, mask: Mask) -> "Flat":
        """Give the pullback as a function.

        It takes the arrays, then a cotangent for each inexact leaf of the result. It gives a tuple
        of cotangents, one for each array in the mask.
        """
        return self._derive(("pull", mask), lambda: _pull(self.function, mask))

    def push(self, mask: Mask) -> "Flat":
        """Give the pushforward as a function.

        It takes the arrays, then a tangent for each array in the mask. It gives a tuple of
        tangents, one for each inexact leaf of the result.
        """
        return self._derive(("push", mask), lambda: _push(self.function, mask))

    def mapped(self, in_axes: tuple[int | None, ...], size: int) -> "Flat":
        """Give the function of many examples, which lie along the first axis of each result."""
        return self._derive(
            ("mapped", in_axes, size),
            lambda: vmap(self.function, in_axes=in_axes, axis_size=size),
        )

    def _derive(self, key: Any, make: Callable[[], Function]) -> "Flat":
        found: Flat = self._derived.made(key, lambda: Flat(make(), self.name, self.is_prepared))
        return found


def _pull(function: Function, mask: Mask) -> Function:
    positions = _positions(mask)
    count = len(mask)

    def pulled(*given: Any) -> tuple[Any, ...]:
        x, cts = given[:count], given[count:]
        value, pull = _core.pullback(function, *x, wrt=positions)
        found = pull(_cotangents(_taken(value))(cts))
        triples = zip(found, x, mask, strict=True)
        return tuple(
            np.zeros(a.shape, a.dtype) if ct is None else ct for ct, a, wanted in triples if wanted
        )

    return pulled


def _push(function: Function, mask: Mask) -> Function:
    count = len(mask)

    def pushed(*given: Any) -> tuple[Any, ...]:
        x, rest = given[:count], iter(given[count:])
        tangents = tuple(next(rest) if wanted else None for wanted in mask)
        value, tangent = _core.jvp(function, x, tangents)
        parts = _core.structure(value)
        pairs = zip(parts.align(tangent, "jvp"), parts.leaves, strict=True)
        return tuple(
            np.zeros(np.shape(y), np.asarray(y).dtype) if t is None else t
            for t, y in pairs
            if is_inexact(y)
        )

    return pushed


def _taken(value: Any) -> Parts:
    if _is_alone(value):
        return Parts(_ALONE, [value], ["result"], None)
    return take_apart(value, "result", is_number_or_array)


def _is_alone(value: Any) -> bool:
    return type(value) in _ALONE_IF_INEXACT and value.dtype.kind in "fc"


_ALONE_IF_INEXACT = (np.ndarray, np.float64, np.float32)
_ALONE = take_apart(0.0, "result", is_number_or_array).skeleton


def _cotangents(parts: Parts) -> Callable[[Sequence[Any]], Any]:
    """Give the function from cotangents of inexact leaves to that of the result.

    It does not keep these leaves. Integers have no cotangent, and stay in their places.
    """
    skeleton = parts.skeleton
    if skeleton is _ALONE:
        return _FIRST
    places = inexact(parts.leaves)
    filled = [None if i in places else leaf for i, leaf in enumerate(parts.leaves)]

    def cotangent(cts: Sequence[Any]) -> Any:
        whole = list(filled)
        for i, ct in zip(places, cts, strict=True):
            whole[i] = ct
        return put_in(skeleton, whole)

    return cotangent


def _positions(mask: Mask | None) -> tuple[int, ...] | None:
    return None if mask is None else tuple(i for i, wanted in enumerate(mask) if wanted)
