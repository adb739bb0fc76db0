"""Runs a solver of SciPy on a plain copy of a right side, and notes what it has done.

Problem: the derivative of a solution needs the accepted steps, and the solver needs to run as fast
as without cotan. So the right side has plain values in the place of the arrays that it captures
(`state.plain_copy`), and the solver notes its steps.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.scipy.integrate.quick_steps import Walk, quick
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.state.plain_copy import NotPlainError, is_plain
from cotan._src.typing import Args, Function, NDArray


class Step(NamedTuple):
    """A step that was accepted."""

    begin: float
    end: float
    #: How many calls there were before it, and after it.
    before: int
    after: int
    #: The solution within it; of Radau's method the three stages, of explicit ones nothing.
    inside: Any = None


class Span(NamedTuple):
    """Where steps begin and end, and how many calls there were before and after each."""

    begins: NDArray
    ends: NDArray
    before: NDArray
    after: NDArray


class Calls(NamedTuple):
    """Calls of a right side: states and slopes are rows."""

    times: NDArray
    states: NDArray
    slopes: NDArray


class Outputs(NamedTuple):
    """Where states are wanted."""

    #: The numbers of the steps that the times lie in.
    steps: NDArray
    #: How much stages count for them.
    weights: NDArray


class PlainRun:
    """A right side of a plain run, with the calls and the steps that were accepted.

    All calls are noted until these are `most` numbers, None where stages are needed. `is_formula`
    says that it has a key and so computes from plain values, and nothing else. Where code is
    compiled that does not stop at exceptions, without `raises` all slopes are zero after one, and
    `raise_refusal` raises it.
    """

    def __init__(
        self,
        function: Function,
        most: int | None,
        is_formula: bool = False,
        state_first: bool = False,
        raises: bool = True,
    ) -> None:
        self.steps: list[Step] = []
        #: What the solver calls.
        self.function = _core.NotedCalls(
            function,
            NotPlainError,
            None if is_formula else is_plain,
            state_first,
            most,
            raises,
        )

    def raise_refusal(self) -> None:
        """Raise the exception that compiled code did not stop at."""
        refused = self.function.refused
        if refused is not None:
            # Another one: its traceback would hold what holds the refusal.
            raise NotPlainError from refused.__cause__

    def spans(self) -> Span:
        """Give what is known of the steps without what is inside of them."""
        steps = self.steps
        times = np.array([(step.begin, step.end) for step in steps], np.float64)
        calls = np.array([(step.before, step.after) for step in steps])
        return Span(times[:, 0], times[:, 1], calls[:, 0], calls[:, 1])

    @functools.cached_property
    def calls(self) -> Calls:
        """The calls that are noted, once the run is over."""
        return Calls(*self.function.noted())

    def mesh(self, begin: float, end: float) -> NDArray:
        """Give where steps begin and end that a compiled solver has taken, of a run without stages.

        Solvers of many steps call the right side at the end of each step; after a step that they
        reject they go back.
        """
        sign = 1.0 if end > begin else -1.0
        called = sign * self.function.called()
        accepted = sign * np.unique(np.minimum.accumulate(called[::-1]))
        near = 1e-10 * abs(end - begin)
        is_inside = (sign * (accepted - begin) > near) & (sign * (end - accepted) > near)
        return np.concatenate([[begin], accepted[is_inside], [end]])


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
    """The polynomial of a step of LSODA, as the solver has it in its memory."""

    #: Where it ends.
    t: float
    #: Its length and that of the next step, eight other numbers, and scaled derivatives at the end,
    #: one after the other, of all components; behind those of its order is something else.
    memory: NDArray
    #: Its order, and that of the next step.
    orders: NDArray


#: Derivatives that LSODA has memory for.
NORDSIECK = 13


def _nordsieck(solver: Any, _: NDArray) -> Nordsieck:
    """Give what `LSODA.dense_output` reads, and count what goes around SciPy's counter."""
    solver.nfev = solver.calls.calls
    integrator = solver._lsoda_solver._integrator
    memory = integrator.rwork[10 : 20 + NORDSIECK * solver.n].copy()
    return Nordsieck(solver.t, memory, integrator.iwork[13:15].copy())


def _stages(solver: Any, y_old: NDArray) -> NDArray:
    return np.vstack([y_old, y_old + solver.Z])


def _interpolant(solver: Any, _: NDArray) -> Any:
    return solver.dense_output()


@functools.cache
def noting(cls: type) -> type:
    """Give a solver that notes its steps in `run`."""
    is_explicit = hasattr(cls, "n_stages")

    class Noting(quick(cls) if is_explicit else cls):  # type: ignore[misc]
        def __init__(
            self,
            *args: object,
            run: PlainRun,
            more: Args = (),
            walk: Walk | None = None,
            **kwargs: object,
        ) -> None:
            super().__init__(*args, **kwargs)
            self._run, self.calls, self.more, self.walk = run, run.function, more, walk
            compiled = getattr(self, "_lsoda_solver", None)
            if compiled is not None:
                # Without what SciPy has put around it; it may give a list.
                call = run.function
                compiled.f = (lambda t, y: call(t, y, *more)) if more else call
                self._inside: Function = _nordsieck
            else:
                self._inside = _stages if hasattr(self, "Z") else _interpolant

        def step(self) -> str | None:
            calls, y_old = self.calls, self.y
            before = calls.count
            message: str | None = super().step()
            if self.status == "failed":
                return message
            taken = [(self.t_old, self.t, before, calls.count)]
            if is_explicit:
                self._run.steps += [Step(*step) for step in self.taken or taken]
            else:
                self._run.steps.append(Step(*taken[0], self._inside(self, y_old)))
            return message

    Noting.__name__ = cls.__name__
    return Noting


def points_of(run: PlainRun, count: int) -> tuple[NDArray, NDArray, NDArray]:
    """Give times, states and slopes of some calls, spread over the run."""
    calls = run.calls
    last = len(calls.times) - 1
    chosen = np.arange(last + 1) if last < count else np.arange(count) * last // (count - 1)
    return calls.times[chosen], calls.states[chosen], calls.slopes[chosen]


def is_near(found: NDArray, expected: NDArray, rtol: float, atol: float) -> bool:
    """Say whether numbers are near to others, or the same that are none."""
    with np.errstate(invalid="ignore"):
        is_so = np.abs(found - expected) <= atol + rtol * np.abs(expected)
    return bool(is_so.all()) or np.allclose(found, expected, rtol, atol, equal_nan=True)
