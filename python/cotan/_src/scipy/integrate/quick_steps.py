"""Steps of SciPy's explicit Runge-Kutta methods, taken by the compiled part.

Problem: of a small system SciPy's Python code takes four times as long as the right side that it
calls. `RungeKuttaSteps` does the same operations on the same numbers in the same order: values
and steps are SciPy's, bit for bit. Going from step to step costs as much again, so a run whose
caller does not look at single steps is one step for SciPy (`Walk`). All of that is tried once for
each method; where another version of SciPy computes something else, its own code runs.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.typing import Args, NDArray

# More steps than there can be.
_ALL = 2**62


def quick(cls: type) -> type:
    """Give a method of SciPy's with quick steps, or the method itself if they are not the same."""
    known: Any = cls
    return _quick(known) if _is_same(known) else cls


class Walk(NamedTuple):
    """What is asked of a run whose caller does not look at single steps.

    A step of the solver is then the whole run, up to a step that fails.
    """

    #: Times whose states are wanted, in the order of the steps; None: the ends of all steps.
    times: NDArray | None
    #: These states, once the run is over: of shape (n, times) each, or of shape (n,).
    states: list[NDArray]


class _QuickSteps:
    """What goes before a method of SciPy's among the bases of a class."""

    n_stages: int
    A: NDArray
    B: NDArray
    C: NDArray
    E: NDArray
    P: NDArray
    TOO_SMALL_STEP: str
    max_step: float
    t_bound: float
    direction: Any
    error_exponent: float
    K: NDArray
    rtol: Any
    atol: Any
    t: Any
    y: Any
    f: Any
    h_abs: Any
    nfev: int

    #: The right side without what SciPy has put around it, and what it takes behind time and state.
    calls: _core.NotedCalls | None = None
    more: Args = ()
    walk: Walk | None = None
    #: Where the steps of the last call begin and end, and how many calls are noted before and after
    #: each; None where SciPy's own code has taken one.
    taken: list[tuple[float, float, int, int]] | None = None
    #: Whether one estimate of the error is all; the method of order 8 combines two.
    has_one_estimate: bool
    #: Whether a step has become too small behind those that were taken.
    _has_failed = False
    _of: NDArray | None = None
    _steps: _core.RungeKuttaSteps | None = None

    def _step_impl(self) -> tuple[bool, str | None]:
        y = self.y
        if self._of is not self.K:
            self._prepare()
        if self._steps is None or y.dtype != np.float64:
            self.taken = None
            taken: tuple[bool, str | None] = super()._step_impl()  # type: ignore[misc]
            return taken
        if self._has_failed:
            return False, self.TOO_SMALL_STEP
        times, most = (None, 1) if self.walk is None else (self.walk.times, _ALL)
        tried, self.taken, states, found, self._has_failed = self._steps.walk(
            self.t, self.h_abs, self.direction, self.t_bound, self.max_step, y, self.f, most, times
        )
        self.nfev += tried * self.n_stages
        if found is None:
            return False, self.TOO_SMALL_STEP
        if self.walk is not None:
            self.walk.states.extend(states)
        self.y_old = y
        self.t, self.y, self.f, self.h_previous, self.h_abs = found
        return True, None

    def _prepare(self) -> None:
        """Make the views of the memory of slopes that a step needs, if it is taken here.

        Each tolerance is a number, or one for each state; SciPy's own code broadcasts others.
        """
        k = self._of = self.K
        usual = ((), (1,), self.y.shape)
        if self.calls is None or any(np.shape(x) not in usual for x in (self.rtol, self.atol)):
            self._steps = None
            return
        sums = [(self.C[s], k[:s].T, self.A[s][:s]) for s in range(1, self.n_stages)]
        by_scipy = self._estimate_error_norm  # type: ignore[attr-defined]
        error = (1.0, k.T, self.E) if self.has_one_estimate else by_scipy
        self._steps = _core.RungeKuttaSteps(
            self.calls, self.more, k, sums, (1.0, k[:-1].T, self.B), error,
            (k.T, self.P, self.P.shape[1]) if self.has_one_estimate else None, self.error_exponent,
            *(np.ravel(tolerance).tolist() for tolerance in (self.rtol, self.atol)),
        )  # fmt: skip

    def _dense_output_impl(self) -> Any:
        if self.walk is not None and self.taken is not None:
            return functools.partial(_states_at, self.walk)
        found = super()._dense_output_impl()  # type: ignore[misc]
        if self.has_one_estimate:
            kind: Any = type(found)
            found.__class__ = _quick_output(kind)
        return found


def _states_at(walk: Walk, times: NDArray) -> NDArray:
    """Give what a run has computed at the times that it was asked for."""
    states: NDArray = np.hstack(walk.states)
    if states.shape[1] != len(times):
        raise ValueError(f"a run has {states.shape[1]} states for {len(times)} times")
    return states


@functools.cache
def _quick(cls: Any) -> type:
    class Quick(_QuickSteps, cls):  # type: ignore[misc]
        has_one_estimate = cls._estimate_error_norm is cls.__mro__[1]._estimate_error_norm

    Quick.__name__ = Quick.__qualname__ = cls.__name__
    return Quick


@functools.cache
def _quick_output(cls: Any) -> type:
    """Give the interpolant of a step with less around its evaluation at several times."""

    class Output(cls):  # type: ignore[misc]
        def _call_impl(self, t: NDArray) -> NDArray:
            if t.ndim == 0:
                at: NDArray = super()._call_impl(t)
                return at
            powers = np.empty((self.order + 1, len(t)))
            powers[:] = (t - self.t_old) / self.h
            np.multiply.accumulate(powers, 0, out=powers)
            y: NDArray = np.dot(self.Q, powers)
            y *= self.h
            y += self.y_old[:, None]
            return y

    Output.__name__ = Output.__qualname__ = cls.__name__
    return Output


@functools.cache
def _is_same(cls: Any) -> bool:
    """Say whether quick steps give the numbers of SciPy's own, with steps that are rejected."""

    def slope(t: float, y: NDArray) -> NDArray:
        bump = 30.0 / (1.0 + 400.0 * (t - 0.7) ** 2)
        return np.array([y[1] - y[0] * y[2], 0.3 - bump * y[0], y[0] * y[1] - 2.0 * y[2]])

    start, options = np.array([1.0, 0.5, -0.2]), {"rtol": 1e-4, "atol": np.full(3, 1e-7)}

    def made(end: float, walk: Walk | None = None) -> Any:
        solver: Any = _quick(cls)(slope, 0.0, start, end, **options)
        solver.calls = _core.NotedCalls(slope, ValueError, None, False, 0, True)
        solver.walk = walk
        return solver

    try:
        for end in (1.5, -1.0):
            expected = _stepped(cls(slope, 0.0, start, end, **options))
            solver = made(end)
            if _stepped(solver) != expected:
                return False
            # The same as one step.
            _, ends, times, inside = expected
            walks = [(Walk(None, []), ends)]
            if solver.has_one_estimate:
                walks.append((Walk(np.array(times), []), inside))
            for walk, states in walks:
                made(end, walk).step()
                if [x for part in walk.states for x in np.atleast_2d(part.T).tolist()] != states:
                    return False
    except (AttributeError, TypeError, ValueError) as error:
        raise_interrupt(error)
        return False
    return True


def _stepped(solver: Any) -> tuple[list[Any], ...]:
    """Take all steps; give what is known of each, states at their ends, times, and states then."""
    steps: list[Any] = []
    ends: list[Any] = []
    times: list[float] = []
    inside: list[Any] = []
    while solver.status == "running" and len(steps) < 200:
        solver.step()
        at = np.linspace(solver.t_old, solver.t, 4)[1:]
        inside += solver.dense_output()(at).T.tolist()
        steps.append((solver.t, solver.h_abs, solver.nfev, *solver.f, solver.status))
        ends.append(solver.y.tolist())
        times += at.tolist()
    return steps, ends, times, inside
