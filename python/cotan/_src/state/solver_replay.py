"""Gives derivatives to what a callback has written while a solver called it on plain values.

Problem: user code reads what its objective left behind, for instance the curve that it fitted in
its last call, or the best point so far. The solver has called the objective on plain values, so
these have no derivatives, although the solution has. A `ReplayedCallback` notes which call wrote
what is still there at the end, and `write_back` replays these calls: each from the state in which
it began, with active arguments in the place of the solution's values. Values stay as SciPy left
them; what the replayed calls wrote replaces them where nobody has written since.
"""

import copy
import functools
from collections.abc import Callable
from operator import is_
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cotan._src.runtime.values import attach_derivative, is_array, to_numpy
from cotan._src.state.buffers import is_large
from cotan._src.state.callback_probe import CallbackProbe
from cotan._src.state.slots import Part, Saved, Slot
from cotan._src.state.snapshot import SavedState, StateSnapshot
from cotan._src.typing import AnyArray, Args, Function, Kwargs

# What was written by the last so many calls that wrote, in at most so many parts, gets derivatives.
_MAX_CALLS = 16
_MAX_PARTS = 1024

Arguments: TypeAlias = Args


class _Call(NamedTuple):
    """A call of the objective, or of a callback that the solver calls between steps."""

    number: int
    args: Arguments
    #: The state in which it began.
    found: SavedState
    callback: Callable[..., object] | None = None
    named: Kwargs | None = None


class _Write(NamedTuple):
    """What a call has written to a part of a slot; `begin` as in `Slot.changes`."""

    call: _Call
    begin: int | None
    value: object
    #: Slots of objects that the call has created in it, with what they hold.
    made: list[tuple[Slot, Saved]]

    def is_there(self, slot: Slot, part: Part) -> bool:
        """Say whether nobody has written to the part since."""
        return _same_value(self.value, slot.read_part(part, self.begin)) and all(
            inner.matches(saved) for inner, saved in self.made
        )


class ReplayedCallback(CallbackProbe):
    """The objective of a solver, which is called on plain values and replayed on active ones.

    Its use in a rule: `wrap_solver(solver)(function, ...)`, then the derivative with
    `from_initial_state(f)`, then `write_back(solution)`. Functions in `others` (constraints) belong
    to the snapshot, but are not replayed.
    """

    def __init__(self, function: Callable[..., object], *others: object) -> None:
        super().__init__(function)
        self._snapshot = StateSnapshot(function, *others)
        self._count = 0
        self._last: _Call | None = None
        # The last write to each part, in the order of the writes.
        self._writers: dict[tuple[Slot, Part], _Write] = {}
        # What the solver has left.
        self._end: SavedState = {}

    def __call__(self, *args: Any, **kwargs: object) -> Any:
        call = self._last = self._begun(args)
        y = super().__call__(*args, **kwargs)
        self._note_writes(call)
        return y

    def _begun(
        self, args: Arguments, callback: Function | None = None, named: Kwargs | None = None
    ) -> _Call:
        self._count += 1
        args = tuple(map(_copy_argument, args))
        return _Call(self._count, args, self._snapshot.before_call(), callback, named)

    def wrap_callback(self, callback: object) -> object:
        """Wrap a callback of the solver, so that its last calls are replayed as well.

        What is not callable is given back.
        """
        if not callable(callback):
            return callback

        @functools.wraps(callback)
        def call(*args: object, **kwargs: object) -> object:
            begun = self._begun(args, callback, {k: _copy_argument(v) for k, v in kwargs.items()})
            try:
                return callback(*args, **kwargs)
            finally:
                self._note_writes(begun)

        return call

    def wrap_solver(self, solver: Function) -> Function:
        """Wrap a solver, so that the state in which it ends is saved."""

        def solve(*args: object, **kwargs: object) -> object:
            result = solver(*args, **kwargs)
            self._end = self._snapshot.state()
            return result

        return solve

    def from_initial_state(self, function: Function) -> Function:
        """Wrap the user's function for calls that compute a derivative at the solution.

        Each begins in the state in which the solver began, and ends in the one that the solver has
        left. Otherwise a function that caches its last point would answer with a plain value.
        """

        def call(*args: object, **kwargs: object) -> object:
            self._snapshot.restore()
            try:
                return function(*args, **kwargs)
            finally:
                self._snapshot.restore_to(self._end)

        return call

    def write_back(self, found: AnyArray, more: Arguments = (), **kwargs: object) -> None:
        """Replay the calls near a solution `found`, and write what they write with derivatives.

        `found` has the shape of the first argument, which gets its derivatives; `more` takes the
        place of the other ones. A point that is far from the solution is constant.

        Raises `TypeError` for a slot that cannot be restored.
        """
        self.write_back_by(
            found, lambda args: (with_solution_derivative(args[0], found), *more), **kwargs
        )

    def write_back_by(
        self, found: AnyArray, activate: Callable[[Arguments], Arguments], **kwargs: object
    ) -> None:
        """Write back as `write_back` does, with arguments that a function makes of plain ones."""
        last = self._last
        values = []
        try:
            if last is not None and (not last.args or _is_point_or_columns(last.args[0], found)):
                writers = list(self._writers.items())
                calls = {last.number: last} | {w.call.number: w.call for _, w in writers}
                for number in sorted(calls):
                    # Long collections can only be cut back to what they were, from their end.
                    self._snapshot.restore_to(self._end)
                    self._snapshot.restore_to(calls[number].found)
                    self._replay(calls[number], found, activate, kwargs)
                    values += [(slot, part, write, slot.read_part(part, write.begin))
                               for (slot, part), write in writers
                               if write.call.number == number]  # fmt: skip
        finally:
            self._snapshot.restore_to(self._end)
        for slot, part, write, value in values:
            if write.is_there(slot, part):
                slot.write_part(part, write.begin, value)

    def _note_writes(self, call: _Call) -> None:
        """Note what a call has written, and cover the objects that it has created."""
        for slot, part, begin in self._snapshot.changes_since(call.found):
            value = slot.read_part(part, begin)
            self._writers.pop((slot, part), None)
            # Large arrays that each call creates anew must not be kept alive.
            inside = [v for v in slot.values_in(part, value) if not is_large(v)]
            made = self._snapshot.extend(inside)
            self._writers[slot, part] = _Write(call, begin, value, made)
        if len(self._writers) > _MAX_CALLS:
            self._forget_old_writes()

    def _forget_old_writes(self) -> None:
        known = list(self._writers.items())
        calls = sorted({write.call.number for _, write in known})
        first = calls[-_MAX_CALLS] if len(calls) > _MAX_CALLS else 0
        for i, (part, write) in enumerate(reversed(known)):
            if write.call.number < first or i >= _MAX_PARTS:
                self._writers.pop(part, None)

    def _replay(
        self,
        call: _Call,
        found: AnyArray,
        activate: Callable[[Arguments], Arguments],
        kwargs: dict[str, object],
    ) -> None:
        if call.callback is None:
            self._function(*activate(call.args), **kwargs)
            return

        def active(value: Any) -> object:
            """Give an argument of a callback with derivatives: a point, or a report of a step."""
            if not _is_step_report(value):
                is_point = isinstance(value, np.ndarray)
                return with_solution_derivative(value, found) if is_point else value
            report = copy.copy(value)
            report["x"] = with_solution_derivative(value["x"], found)
            if np.ndim(value["fun"]) == 0:
                y: Any = self._function(*activate((value["x"],)), **kwargs)
                report["fun"] = attach_derivative(value["fun"], y[0] if isinstance(y, tuple) else y)
            return report

        args = [active(a) for a in call.args]
        named = {k: active(v) for k, v in (call.named or {}).items()}
        # To make the report, the objective was called.
        self._snapshot.restore_to(self._end)
        self._snapshot.restore_to(call.found)
        call.callback(*args, **named)


def _copy_argument(value: Any) -> object:
    """Copy a vector or a report of a step, which solvers write to in place."""
    if _is_step_report(value):
        value = copy.copy(value)
        value["x"] = _copy_argument(value["x"])
    return value.copy() if type(value) is np.ndarray else value


def _is_step_report(value: object) -> bool:
    """Say whether something is an `OptimizeResult` of a step, as SciPy gives it to callbacks."""
    return isinstance(value, dict) and "x" in value and "fun" in value


def _same_value(a: object, b: object) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_, a, b))
    return a is b or (_is_array(a) and _is_array(b) and np.array_equal(to_numpy(a), to_numpy(b)))


def _is_array(value: object) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) or is_array(value)


def with_solution_derivative(at: Any, found: AnyArray) -> Any:
    """Give a point with the derivatives of a solution that is within one percent of it.

    `found` is a solution of shape (n,) or any other; `at` is a plain point of the same shape, or of
    shape (n, m) with a point in each column, each of which gets the derivatives if it is near.
    A point of another shape, or far away, is given back as it is.
    """
    if not _is_point_or_columns(at, found):
        return at
    are_columns = np.ndim(at) != np.ndim(found)
    solution = to_numpy(found)[:, None] if are_columns else to_numpy(found)
    near = np.isclose(at, solution, 0.01, 0.01)
    if not are_columns:
        return attach_derivative(at, found) if near.all() else at
    columns = near.all(axis=0)
    return attach_derivative(at, found[:, None] * columns) if columns.any() else at


def _is_point_or_columns(at: Any, found: AnyArray) -> bool:
    """Say whether an argument has the shape of the solution, or is a matrix of such columns."""
    shape, wanted = np.shape(at), np.shape(found)
    return shape == wanted or (len(wanted) == 1 and len(shape) == 2 and shape[:1] == wanted)
