"""Runs a solver of SciPy on a plain copy of a right side, and notes what it has done.

Problem: the derivative of a solution needs the accepted steps, and the solver needs to run as fast
as without cotan. So the right side has plain values in the place of the arrays that it captures
(`state.plain_copy`), and the solver notes its steps.
"""

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from cotan._src.scipy.integrate.quick_steps import quick
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.state.plain_copy import NotPlainError, is_plain
from cotan._src.typing import Args, Function, NDArray

# Of a run whose stages are not needed so many calls are noted, and then ever fewer.
_SAMPLES = 8


class Step(NamedTuple):
    """A step that was accepted."""

    begin: float
    end: float
    #: How many calls there were before it, and after it.
    before: int
    after: int
    #: The solution within it; of Radau's method the three stages.
    inside: Any


class Outputs(NamedTuple):
    """Where states are wanted."""

    #: The numbers of the steps that the times lie in.
    steps: NDArray
    #: How much stages count for them.
    weights: NDArray


class PlainRun:
    """A right side of a plain run, with the calls and the steps that were accepted.

    `keeps_all` says whether stages are needed, `is_formula` that it has a key and so computes from
    plain values, and nothing else. Where code is compiled that does not stop at exceptions, without
    `raises` all slopes are zero after one, and `is_refused` is true.
    """

    def __init__(
        self,
        function: Function,
        keeps_all: bool,
        is_formula: bool = False,
        state_first: bool = False,
        raises: bool = True,
    ) -> None:
        #: The times of all calls of a run whose stages are not needed.
        self.called: list[float] = []
        self.times: list[float] = []
        # As bytes.
        self.states: list[bytes] = []
        self.slopes: list[Any] = []
        self.steps: list[Step] = []
        self.is_refused = False
        called, times, states, slopes = self.called, self.times, self.states, self.slopes

        def noted(t: Any, y: Any, *args: object) -> Any:
            state = t if state_first else y
            before = state.tobytes()
            try:
                k = function(t, y, *args)
            except Exception as error:
                # What is the user's is raised by the other way.
                raise NotPlainError from error
            if state.tobytes() != before:
                raise NotPlainError
            if type(k) is tuple:
                # Compiled solvers may take its items for several results.
                k = list(k)
            if not is_formula and not (type(k) is np.ndarray or is_plain(k)):
                raise NotPlainError
            if not keeps_all:
                called.append(y if state_first else t)
                n = len(called)
                if n > _SAMPLES and n & (n - 1):
                    return k
            times.append(y if state_first else t)
            states.append(before)
            slopes.append(k)
            return k

        def without_errors(t: Any, y: Any, *args: object) -> Any:
            if not self.is_refused:
                try:
                    return noted(t, y, *args)
                except NotPlainError:
                    self.is_refused = True
            return np.zeros(np.shape(t if state_first else y))

        #: What the solver calls.
        self.function: Function = noted if raises else without_errors

    def mesh(self, begin: float, end: float) -> NDArray:
        """Give where steps begin and end that a compiled solver has taken, of a run without stages.

        Solvers of many steps call the right side at the end of each step; after a step that they
        reject they go back.
        """
        sign = 1.0 if end > begin else -1.0
        called = sign * np.array(self.called, np.float64)
        accepted = sign * np.unique(np.minimum.accumulate(called[::-1]))
        near = 1e-10 * abs(end - begin)
        is_inside = (sign * (accepted - begin) > near) & (sign * (end - accepted) > near)
        return np.concatenate([[begin], accepted[is_inside], [end]])

    def states_at(self, calls: Iterable[int]) -> NDArray:
        """Give the states of some calls, as rows."""
        found = [self.states[i] for i in calls]
        return np.frombuffer(b"".join(found), np.float64).reshape(len(found), -1)

    def slopes_at(self, calls: Iterable[int], states: NDArray) -> NDArray:
        """Give the slopes of some calls, as rows; a right side may give a number for all states."""
        found = np.array([self.slopes[i] for i in calls], np.float64)
        return np.broadcast_to(found.reshape(len(states), -1), states.shape)


class PlainEvent:
    """An event of a plain run; `terminal` and `direction` are those of the user's."""

    def __init__(self, event: Function) -> None:
        self._event = event

    def __call__(self, t: float, y: NDArray, *args: object) -> Any:
        before = np.asarray(y).tobytes()
        try:
            found = self._event(t, y, *args)
        except Exception as error:
            raise NotPlainError from error
        if np.asarray(y).tobytes() != before or not is_plain(found):
            raise NotPlainError
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._event, name)


def plain_slopes(function: Function) -> Function:
    """Give the user's derivatives of the right side, for the solver only."""

    def call(*args: object) -> Any:
        try:
            found = function(*args)
        except Exception as error:
            raise NotPlainError from error
        return to_numpy_items(found)

    return call


class Nordsieck(NamedTuple):
    """The polynomial of a step of LSODA, by its scaled derivatives at the end."""

    t: float
    h: float
    order: int
    #: One after the other, of all components.
    derivatives: NDArray
    #: By what the last of them is to be multiplied.
    factor: float


def _nordsieck(solver: Any, n: int) -> Nordsieck:
    """Give what `LSODA.dense_output` gives."""
    integrator = solver._integrator
    rwork, (order, after) = integrator.rwork, integrator.iwork[13:15].tolist()
    before, h = rwork[10:12].tolist()
    factor = (h / before) ** order if after < order else 1.0
    return Nordsieck(solver.t, h, order, rwork[20 : 20 + (order + 1) * n].copy(), factor)


@functools.cache
def noting(cls: type) -> type:
    """Give a solver that notes its steps in `run`."""
    has_stages = hasattr(cls, "n_stages")

    class Noting(quick(cls) if has_stages else cls):  # type: ignore[misc]
        def __init__(self, *args: object, run: PlainRun, more: Args = (), **kwargs: object) -> None:
            super().__init__(*args, **kwargs)
            self._run = run
            call = run.function
            self.direct = (lambda t, y: call(t, y, *more)) if more else call
            self._compiled = getattr(self, "_lsoda_solver", None)
            if self._compiled is not None:
                # Without what SciPy has put around it; it may give a list.
                self._compiled.f = self.direct

        def step(self) -> str | None:
            before = len(self._run.times)
            y_old = self.y
            message: str | None = super().step()
            if self.status != "failed":
                inside: Any = None
                if hasattr(self, "Z"):
                    inside = np.vstack([y_old, y_old + self.Z])
                elif self._compiled is not None:
                    self.nfev = len(self._run.called)
                    inside = _nordsieck(self._compiled, self.n)
                elif not has_stages:
                    inside = self.dense_output()
                after = len(self._run.times)
                self._run.steps.append(Step(self.t_old, self.t, before, after, inside))
            return message

    Noting.__name__ = cls.__name__
    return Noting


def points_of(run: PlainRun, count: int) -> tuple[NDArray, NDArray, NDArray]:
    """Give times, states and slopes of some calls, spread over the run."""
    chosen = np.unique(np.linspace(0, len(run.times) - 1, count).astype(int))
    states = run.states_at(chosen)
    return np.array([run.times[i] for i in chosen]), states, run.slopes_at(chosen, states)
