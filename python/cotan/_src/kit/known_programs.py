"""Programs of functions that are met again: `KnownPrograms`.

Problem: a solver is called in a loop, a hundred times, with the same formula and other numbers. A
program of it that gives values and derivatives takes a tenth of the time of recording them. It is
made when a formula is met for the first time, and found by the key of the function
(`FunctionKey`). Where it is met often, the program is prepared.
"""

import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array, FunctionKey
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.typing import AnyArray, Args, Function, NDArray

# So many programs are kept.
_MOST = 64
# A program that was run so often is prepared: a replay takes a fifth of the time of a run, and
# preparing that of fifty runs.
_OFTEN = 16
# After so many programs of some code that nobody asked for again, no more are made.
_IN_VAIN = 8


class KnownProgram:
    """A program of arguments and leaves."""

    def __init__(self, program: _core.Program, used: list[int], kept: list[object]) -> None:
        self._program, self._count = program, 0
        #: Gives values and derivatives, as arrays.
        self.run: Callable[..., tuple[NDArray, ...]] = program
        #: The leaves that the result depends on.
        self.used = used
        # What its key names by identity.
        self._kept = kept

    def value(self, *at: AnyArray) -> AnyArray:
        """Give the value alone, as it depends on active arrays."""
        program, read = self._value
        found: AnyArray = program(*(at[i] for i in read))
        return found

    @functools.cached_property
    def _value(self) -> tuple[_core.Program, list[int]]:
        program = self._program.prune(0)
        # What a program was recorded with has no name.
        left = {v.name for v in program.inputs} - {""}
        read = [i for i, v in enumerate(self._program.inputs) if v.name in left]
        return program, read

    def prepare(self, at: Args) -> None:
        """Note that it is run once more; let replays run it where that was often."""
        self._count += 1
        # Threads may count together.
        if self._count >= _OFTEN and self.run is self._program:
            prepared = replayed(self._program)
            _core.call_outside(lambda: prepared(*at))
            self.run = prepared


def replayed(function: Function) -> "_core.Prepared[Any, Any]":
    """Give a function or a program that is replayed, for its value."""
    prepared: _core.Prepared[Any, Any]
    prepared = _core.Prepared(function, "value", None, [], None, False)
    return prepared


def like(leaves: Sequence[Array], values: Sequence[AnyArray]) -> list[AnyArray]:
    """Give values that are numbers where the leaves are: code may ask what it was given."""
    return [
        v if x._rank == "array" else v.item() if x._rank == "number" else v[()]
        for x, v in zip(leaves, values, strict=True)
    ]


def with_rows(function: Function, used: list[int], x: AnyArray, *leaves: AnyArray) -> Any:
    """Give a vector, and its derivatives with respect to `x` and to the leaves that matter.

    Their numbers are put into `used`.
    """
    y, back = _core.pullback(function, x, *leaves)

    def row(u: AnyArray) -> Any:
        of_x, *rest = back(u)
        used[:] = [i for i, ct in enumerate(rest) if ct is not None]
        given = (ct for ct in rest if ct is not None)
        return np.zeros(x.shape) if of_x is None else of_x, *given

    return y, *_core.call_vmap(row, (np.eye(y.shape[0]),), [True], ["u"])


def without_branches(function: Function, *values: AnyArray) -> Any:
    """Call a function so that it is refused to look at values: along an axis of length one."""
    if not values:
        return function()
    found = _core.call_vmap(
        function, tuple(v[None] for v in values), [True] * len(values), ["leaf"] * len(values)
    )
    return tuple(part[0] for part in found)


class KnownPrograms:
    """The programs that were made of one kind, by keys."""

    def __init__(self) -> None:
        self._found: dict[Hashable, KnownProgram | None] = {}
        # By code, how often programs were made in vain.
        self._unused: dict[int, int] = {}
        # What was made last, by a recording that asks again when it is given up.
        self._last_made: Hashable = None
        self._lock = threading.Lock()

    def of(
        self,
        key: FunctionKey,
        shape: Hashable,
        at: Args,
        make: Callable[[list[int]], Function],
    ) -> KnownProgram | None:
        """Give a program; None where there can be none, or each call would need another one.

        `make(used)` gives a function of arrays like `at`, to be recorded, which puts the numbers of
        the leaves that matter into the list.
        """
        whole = key.key, shape
        with self._lock:
            if whole in self._found:
                # What was asked for last is kept longest.
                found = self._found[whole] = self._found.pop(whole)
                if not (_core.is_collecting() or self._last_made == whole):
                    self._unused[key.code] = 0
                self._last_made = None
                if found is not None:
                    found.prepare(at)
                return found
            unused = self._unused.get(key.code, 0)
            if unused >= _IN_VAIN:
                return None
            self._unused[key.code] = unused + 1
        used: list[int] = []
        try:
            made = KnownProgram(
                _core.call_outside(lambda: _recorded(make(used), at)), used, key.kept
            )
        except Exception as error:  # noqa: BLE001
            raise_interrupt(error)
            # Whatever is wrong with it is said by the other way.
            made = None
        with self._lock:
            self._found[whole] = made
            self._last_made = whole if _core.is_collecting() else None
            _forget(self._found)
            _forget(self._unused)
        return made


def _recorded(function: Function, at: Args) -> _core.Program:
    program: _core.Program = _core.record(function, at, {})[0]
    return program.optimize()


def _forget(items: dict[Any, Any]) -> None:
    while len(items) > _MOST:
        del items[next(iter(items))]
