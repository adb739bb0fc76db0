"""Lets a replay call a solver again that gives its derivatives, too: `SlopeCall`.

Problem: a replay of a function with a solver in it calls the solver again. A pullback of that call
records the solution, and differentiates the record; that takes longer than a root does, and what is
recorded is the same each time. The rule of a solver computes derivatives as numbers (`moved`). So a
replay lets it give these numbers, and what is made of them is a part of the recorded program: the
same operations in the same order as in a run, so the same bits.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.result_layout import Layout, NotRepeatableError, take_apart
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.runtime.values import attach_derivative, is_array, python_number
from cotan._src.typing import AnyArray, Args, Function, Kwargs, NDArray

#: Finds the result of a solver, and the slopes of the solution in it; `take` takes a result apart.
Quick: TypeAlias = Callable[[Function], tuple[list[Any], Sequence[Any]] | None]
Combine: TypeAlias = Callable[[Any, Any], AnyArray]
_F = TypeVar("_F", bound=Function)


class Move(NamedTuple):
    """How a solution moves with what it depends on."""

    #: The arrays.
    leaves: Sequence[Any]
    #: Numbers or matrices: `combine(leaves, slopes)` is an array with these derivatives.
    slopes: Any
    combine: Combine


def gives_slopes(rule: _F) -> _F:
    """Mark the rule of a solver whose results are made by `moved`."""
    rule.gives_slopes = True  # type: ignore[attr-defined]
    return rule


def moved(value: Any, move: Move, is_number: bool = False, again: Function | None = None) -> Any:
    """Give a solution with its derivatives.

    `is_number` says that the solver has found a number of Python's. `again()` finds the solution
    once more, for the same arguments but for what functions among them capture.
    """
    leaves, slopes, combine = move
    noted = _core.note_slopes(value, leaves, (value, combine, slopes, again), is_number)
    if noted is not None:
        return noted
    found = attach_derivative(value, combine(leaves, slopes))
    return python_number(found) if is_number else found


def without_slopes(value: Any, on: Any, what: str, back: Function | None = None) -> Array | None:
    """Give a part of a result that has no slopes, where those of `on` are collected, else None.

    `back` raises the error when the derivative is asked for. Without `back` there is a derivative,
    but it takes long to compute: functions that use it are not replayed unasked, and prepared ones
    repeat the whole call for it.
    """
    return _core.note_slopes(value, (on,), (value, (what, back), None, None), False)


def _refused(*_: Array) -> NoReturn:
    raise NotDifferentiableError("a replay leaves out a derivative that is asked for")


#: A part of a result, the numbers of the arrays that it depends on, and what `moved` told of it.
_Noted: TypeAlias = tuple[Array, list[int], Any]


class _Part(NamedTuple):
    """A part of a result whose derivatives are collected."""

    #: Its numbers among the leaves of the result: it may be there several times.
    leaves: tuple[int, ...]
    #: The numbers of the recorded arrays that it depends on.
    nodes: list[int]
    #: What makes an array of its slopes, and how many these are; None where it has none.
    combine: Combine | None
    num_slopes: int


# What a rule may read before it calls a solver, and need not read again.
_FIXED = {bool, int, float, str, type(None), np.float64, np.ndarray, FunctionType}


class SlopeCall:
    """A call of a solver, which gives its results, and behind them their derivatives."""

    def __init__(
        self,
        function: Function,
        given: tuple[Args, Kwargs],
        read: tuple[Sequence[Array], tuple[int, int]],
        layout: Layout,
    ) -> None:
        self._function, (self._args, self._kwargs) = function, given
        self._nodes, self._tags = read
        self._chosen = [_core.is_differentiated(node) for node in self._nodes]
        self._layout = layout
        # Of what is collected, in its order.
        self._parts: list[_Part] = []
        # What finds the result by less than the rule, None where nothing does; and the number of
        # the leaf that has slopes then.
        self._quick: Quick | None = None
        self._solution = 0
        # Parts without slopes, by their number among the leaves: names, and what refuses them.
        self._refusals: dict[int, tuple[str, Function | None]] = {}
        # Dtypes and shapes of the results and the slopes.
        self._outputs: list[tuple[np.dtype[Any], tuple[int, ...]]] = []

    def first(self, inputs: Sequence[Array]) -> list[NDArray] | None:
        """Call it for the first time; None where its derivatives cannot be collected."""
        try:
            result, noted = self._collected(self._function, self._args, self._kwargs, inputs)
            parts, values = self._taken(result, noted)
        except (
            _core.ReplayMismatch, NotRepeatableError, ArithmeticError, TypeError, ValueError,
        ) as error:  # fmt: skip
            raise_interrupt(error)
            return None
        for part, (_, _, (_, how, slopes, again)) in zip(parts, noted, strict=True):
            if slopes is None:
                self._refusals |= dict.fromkeys(part.leaves, how)
            elif again is not None:
                if _are_fixed((*self._args, *self._kwargs.values())):
                    self._function, self._args, self._kwargs = again, (), {}
                # What else the rule was given it reads again where it calls the solver.
                self._quick = getattr(again, "quickly", None)
        self._parts, self._outputs = parts, [(x.dtype, x.shape) for x in values]
        with_slopes = [part.leaves for part in parts if part.combine is not None]
        if len(with_slopes) != 1 or not with_slopes[0]:
            self._quick = None
        if self._quick is not None:
            self._solution = with_slopes[0][0]
            found = self._quick_values(self._quick, inputs)
            if found is None or any(
                np.asarray(a).tobytes() != b.tobytes() for a, b in zip(found, values, strict=True)
            ):
                self._quick = None
        return values

    def values(self, *inputs: Array) -> list[Any]:
        """Give the results for other values of the recorded arrays, and their slopes.

        Raises `ReplayMismatch` where they are not like those of the first call.
        """
        if self._quick is not None:
            found = self._quick_values(self._quick, inputs)
            if found is not None:
                return found
        result, noted = self._collected(self._function, self._args, self._kwargs, inputs)
        parts, values = self._taken(result, noted)
        if parts != self._parts or [(x.dtype, x.shape) for x in values] != self._outputs:
            raise _core.ReplayMismatch("a solver gives a result of another structure")
        return values

    def _quick_values(self, quick: Quick, inputs: Sequence[Array]) -> list[Any] | None:
        """Give the same by less; None where only the rule of the solver can tell."""
        found, _ = self._collected(quick, (self._leaves,), {}, inputs, is_rule=False)
        if found is None:
            return None
        leaves, slopes = found
        values = [*leaves, *slopes]
        return values if _core.are_outputs(values, self._outputs, self._refusals) else None

    def _leaves(self, result: Any) -> tuple[list[Any], Any] | None:
        """Give arrays and numbers of a plain result, and the one that has slopes."""
        leaves = _core.leaves_like(result, *self._layout, ())
        return None if leaves is None else (leaves, leaves[self._solution])

    def _collected(
        self,
        function: Function,
        args: Args,
        kwargs: Kwargs,
        inputs: Sequence[Array],
        is_rule: bool = True,
    ) -> tuple[Any, list[_Noted]]:
        # A rule knows derivatives where one gradient is recorded, and nothing else.
        result, noted, is_same = _core.collect_slopes(
            function, args, kwargs, self._tags, self._nodes, inputs, self._chosen, is_rule
        )
        if not is_same:
            raise _core.ReplayMismatch("a solver reads arrays that it has not read before")
        return result, noted

    def _taken(self, result: Any, noted: list[_Noted]) -> tuple[list[_Part], list[NDArray]]:
        """Give what is collected of a result, and the values and slopes in it."""
        known = [x for x, _, _ in noted]
        leaves = _core.leaves_like(result, *self._layout, known)
        if leaves is None:
            leaves, layout = take_apart(result, known)
            if layout != self._layout:
                raise _core.ReplayMismatch("a solver gives a result of another structure")
        parts: list[_Part] = []
        rows: list[NDArray] = []
        values = list(leaves)
        for x, nodes, (value, combine, slopes, _) in noted:
            given = [np.asarray(x) for x in slopes or ()]
            at = tuple(i for i, leaf in enumerate(leaves) if leaf is x)
            parts.append(_Part(at, nodes, None if slopes is None else combine, len(given)))
            rows += given
            for i in at:
                values[i] = value
        for i, leaf in enumerate(values):
            if is_array(leaf):
                if _core.was_recorded(leaf):
                    raise _core.ReplayMismatch("a solver records derivatives")
                values[i] = _core.peek(leaf)
        return parts, [*map(np.asarray, values), *rows]

    def put(
        self, made: list[Array], pull: Callable[[int, Sequence[Array]], Any] | None
    ) -> list[Array]:
        """Give the results that are recorded, of the outputs of the equation of this call.

        Of parts without slopes `pull(leaf, given)` gives the cotangents of the recorded arrays, for
        their values and behind them the cotangent of the part; without it they are refused.
        """
        count = len(self._layout.ranks)
        results: list[Array] = [_core.dropgrad(x) for x in made[:count]]
        slopes = map(_core.dropgrad, made[count:])
        on: Array | None = None
        for leaves, numbers, combine, num_slopes in self._parts:
            if combine is None:
                continue
            nodes = [self._nodes[i] for i in numbers]
            found = combine(nodes, list(itertools.islice(slopes, num_slopes)))
            if not leaves:
                continue
            on = _core.asarray(attach_derivative(results[leaves[0]], found))
            if self._layout.ranks[leaves[0]] == "number":
                on = python_number(on)
            # One array wherever it is: what flows back to it is added before it goes further.
            for leaf in leaves:
                results[leaf] = on
        for leaf, (what, back) in self._refusals.items():
            if on is None:
                continue
            if back is None and pull is not None:
                results[leaf] = _core.call_back(
                    _first,
                    lambda value, *given, leaf=leaf: (np.zeros(value.shape), *pull(leaf, given)),
                    what,
                    [results[leaf], *self._nodes],
                )
            else:
                given = [results[leaf], on]
                results[leaf] = _core.call_back(_first, back or _refused, what, given)
        return results


def _are_fixed(values: Iterable[object]) -> bool:
    """Say whether arguments are the same in each replay, but for what functions capture."""
    return all(
        _are_fixed(x) if type(x) in {list, tuple} else type(x) in _FIXED  # type: ignore[arg-type]
        for x in values
    )


def _first(value: Array, *_: Array) -> tuple[NDArray]:
    return (_core.value(value),)
