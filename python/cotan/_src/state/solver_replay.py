"""What solvers of equations leave in what the function keeps: as SciPy, and with derivatives.

The solver calls the function on values. What the last call left behind is the solution's (a curve
that agrees with a price now), and so is the best one of those that were seen. So the calls whose
traces are still there are done again, each from what it found, with what they depend on followed.
"""

import copy
import functools
from collections.abc import Callable
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from cotan._src.runtime.values import attach_derivative, is_array, to_numpy
from cotan._src.state.buffers import is_large
from cotan._src.state.callback_probe import CallbackProbe
from cotan._src.state.slots import Slot
from cotan._src.state.snapshot import StateSnapshot

# Of what is kept, that which was written last by so many calls has the derivatives of these, as
# long as it is in so many parts.
_MANY = 16
_MANY_PARTS = 1024


class _Call(NamedTuple):
    """A call of the function, or of a callback of the solver's."""

    number: int
    args: tuple[Any, ...]
    found: dict[Slot, Any]
    callback: Callable[..., Any] | None = None
    named: Any = None


class _Write(NamedTuple):
    """What a call has written to a part of a slot, which begins somewhere if that has grown."""

    call: _Call
    begin: Any
    value: Any
    # What is in it that was made by the call, a list for one.
    made: list[tuple[Slot, Any]]

    def is_there(self, slot: Slot, part: Any) -> bool:
        """Say whether nobody has written there since."""
        return _same_value(self.value, slot.read_part(part, self.begin)) and all(
            inner.matches(saved) for inner, saved in self.made
        )


class ReplayedCallback(CallbackProbe):
    """A function some of whose calls are done again with what is followed, for what it keeps.

    Others that the rule calls, as those of constraints, keep what they had at the end.
    """

    def __init__(self, function: Callable[..., Any], *others: Any) -> None:
        super().__init__(function)
        self._snapshot = StateSnapshot(function, *others)
        self._count = 0
        self._last: _Call | None = None
        self._writers: dict[tuple[Slot, Any], _Write] = {}
        self._end: dict[Slot, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self._last = self._begun(args)
        y = super().__call__(*args, **kwargs)
        self._note(call)
        return y

    def _begun(self, args: tuple[Any, ...], *callback: Any) -> _Call:
        self._count += 1
        return _Call(
            self._count, tuple(map(_copy_argument, args)), self._snapshot.before_call(), *callback
        )

    def wrap_callback(self, callback: Any) -> Any:
        """Give a callback whose last calls are done again, too."""
        if not callable(callback):
            return callback

        @functools.wraps(callback)
        def call(*args: Any, **kwargs: Any) -> Any:
            begun = self._begun(args, callback, {k: _copy_argument(v) for k, v in kwargs.items()})
            try:
                return callback(*args, **kwargs)
            finally:
                self._note(begun)

        return call

    def _note(self, call: _Call) -> None:
        """Remember what a call has written, and look at what has come to be."""
        for slot, part, begin in self._snapshot.changes_since(call.found):
            value = slot.read_part(part, begin)
            self._writers.pop((slot, part), None)
            # Large arrays that each call makes anew are not kept for that.
            inside = [v for v in slot.values_in(part, value) if not is_large(v)]
            made = self._snapshot.extend(inside)
            self._writers[slot, part] = _Write(call, begin, value, made)
        if len(self._writers) > _MANY:
            self._forget()

    def _forget(self) -> None:
        """Let go of what was written long ago."""
        known = list(self._writers.items())
        calls = sorted({written.call.number for _, written in known})
        first = calls[-_MANY] if len(calls) > _MANY else 0
        for i, (part, written) in enumerate(reversed(known)):
            if written.call.number < first or i >= _MANY_PARTS:
                self._writers.pop(part, None)

    def wrap_solver(self, solver: Callable[..., Any]) -> Callable[..., Any]:
        """Give a solver after which it is remembered what it has left."""

        def solve(*args: Any, **kwargs: Any) -> Any:
            result = solver(*args, **kwargs)
            self._end = self._snapshot.state()
            return result

        return solve

    def from_initial_state(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Give a function for what is computed of it behind the solver.

        Each call begins where the solver did, and leaves what that has left: a function that knows
        its last slot, and the value there, would give what is not followed.
        """

        def call(*args: Any, **kwargs: Any) -> Any:
            self._snapshot.restore()
            try:
                return function(*args, **kwargs)
            finally:
                self._snapshot.restore_to(self._end)

        return call

    def write_back(self, found: Any, more: tuple[Any, ...] = (), **kwargs: Any) -> None:
        """Do calls again, where the solver did so, with what they depend on followed.

        A search may have looked somewhere else, which is constant.
        """
        self.write_back_by(
            found, lambda args: (with_solution_derivative(args[0], found), *more), **kwargs
        )

    def write_back_by(self, found: Any, active: Callable[[tuple[Any, ...]], Any], **kwargs: Any
                 ) -> None:  # fmt: skip
        """Leave, with a function that gives followed arguments for plain ones."""
        last = self._last
        values = []
        try:
            if last is not None and (not last.args or _is_point_or_columns(last.args[0], found)):
                writers = list(self._writers.items())
                calls = {last.number: last} | {w.call.number: w.call for _, w in writers}
                for number in sorted(calls):
                    # Of what is long only what comes later can be taken back.
                    self._snapshot.restore_to(self._end)
                    self._snapshot.restore_to(calls[number].found)
                    self._do_again(calls[number], found, active, kwargs)
                    values += [(slot, part, written, slot.read_part(part, written.begin))
                               for (slot, part), written in writers
                               if written.call.number == number]  # fmt: skip
        finally:
            self._snapshot.restore_to(self._end)
        for slot, part, written, value in values:
            if written.is_there(slot, part):
                slot.write_part(part, written.begin, value)

    def _do_again(self, call: _Call, found: Any, active: Any, kwargs: Any) -> None:
        if call.callback is None:
            self._function(*active(call.args), **kwargs)
            return

        def told(value: Any) -> Any:
            if not _is_step_report(value):
                return (
                    with_solution_derivative(value, found)
                    if isinstance(value, np.ndarray)
                    else value
                )
            report = copy.copy(value)
            report["x"] = with_solution_derivative(value["x"], found)
            if np.ndim(value["fun"]) == 0:
                y = self._function(*active((value["x"],)), **kwargs)
                report["fun"] = attach_derivative(value["fun"], y[0] if isinstance(y, tuple) else y)
            return report

        args, named = [told(a) for a in call.args], {k: told(v) for k, v in call.named.items()}
        self._snapshot.restore_to(self._end)
        self._snapshot.restore_to(call.found)
        call.callback(*args, **named)


def _copy_argument(value: Any) -> Any:
    """Give what a vector or a report is by now: solvers change them in slot."""
    if _is_step_report(value):
        value = copy.copy(value)
        value["x"] = _copy_argument(value["x"])
    return value.copy() if type(value) is np.ndarray else value


def _is_step_report(value: Any) -> bool:
    """Say whether something is what SciPy tells of a step."""
    return isinstance(value, dict) and "x" in value and "fun" in value


def _same_value(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_, a, b))
    return a is b or (_is_array(a) and _is_array(b) and np.array_equal(to_numpy(a), to_numpy(b)))


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) or is_array(value)


def with_solution_derivative(at: Any, found: Any) -> Any:
    """Give a slot with the derivatives of a solution that is near to it, or such columns."""
    if not _is_point_or_columns(at, found):
        return at
    near = np.isclose(at, to_numpy(found) if np.ndim(at) == np.ndim(found) else to_numpy(found)[:,
    None],
                      0.01, 0.01)  # fmt: skip
    if np.ndim(at) == np.ndim(found):
        return attach_derivative(at, found) if near.all() else at
    columns = near.all(axis=0)
    return attach_derivative(at, found[:, None] * columns) if columns.any() else at


def _is_point_or_columns(at: Any, found: Any) -> bool:
    """Say whether a slot is one as the solution, or columns of such."""
    shape, wanted = np.shape(at), np.shape(found)
    return shape == wanted or (len(wanted) == 1 and len(shape) == 2 and shape[:1] == wanted)
