"""The derivative of a run of an ODE solver, from all its steps at once.

SciPy's solver runs on a plain copy of the right side, outside of the recording. Then the right side
is recorded once, for all points that matter: its slopes as a function of what it captures, and
its derivatives with respect to the state. With the steps held constant, the states are linear in
changes of slopes and of the initial state (`moved_states`).

What this does not cover (a right side that keeps a state, an active `t_span`, complex states) is
left to the caller, which repeats the steps one by one.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cotan._src.kit.implicit_diff import solution
from cotan._src.rebind.engine import locate, locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.values import attach_derivative, contains_active, is_array, to_numpy
from cotan._src.scipy.integrate.collocation_steps import CollocationSteps
from cotan._src.scipy.integrate.explicit_steps import ExplicitSteps
from cotan._src.scipy.integrate.moved_states import (
    Interpolant,
    MovedStates,
    Steps,
    with_derivative,
)
from cotan._src.scipy.integrate.plain_run import PlainEvent, PlainRun, noting, plain_slopes
from cotan._src.scipy.integrate.quick_steps import Walk
from cotan._src.scipy.integrate.right_side import RightSide
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.state.plain_copy import NotPlainError, is_gradient
from cotan._src.typing import AnyArray, Args, ArrayLike, Function, Kwargs

EXPLICIT = ("RK45", "RK23", "DOP853")
COLLOCATED = ("Radau", "BDF", "LSODA")
# Stages of the collocation along runs of Radau, whose own they are, and of BDF.
_STAGES_OF_BDF = 3


def solve_at_once(
    fun: Function,
    t_span: Sequence[Any],
    y0: ArrayLike,
    method: str,
    t_eval: ArrayLike | None,
    dense_output: bool,
    events: Function | Sequence[Function] | None,
    args: Iterable[object] | None,
    options: Kwargs,
) -> Any:
    """Give the result of `solve_ivp` with its derivatives, None where another way is needed."""
    if not is_gradient() or contains_active((t_span, options)):
        return None
    is_explicit = method in EXPLICIT
    if any(callable(v) and (is_explicit or k != "jac") for k, v in options.items()):
        return None
    args = None if args is None else tuple(args)
    watched: tuple[Any, ...] = (
        () if events is None else (events,) if callable(events) else tuple(events)
    )
    if not all(map(callable, watched)):
        return None
    side = RightSide(fun, args or (), options.get("jac"), events=watched)
    if not side.captures and not contains_active((y0, args, t_eval)):
        return None

    def solve() -> Any:
        run = PlainRun(side.direct, None if is_explicit else 0, side.key is not None)
        chosen = {k: to_numpy_items(v) for k, v in options.items()}
        if callable(side.jac):
            chosen["jac"] = plain_slopes(side.jac)
        walk = None if dense_output or watched else _walk_of(method, t_eval)
        result = locate_original("scipy.integrate.solve_ivp")(
            run.function, to_numpy_items(t_span), to_numpy_items(y0),
            noting(locate(f"scipy.integrate.{method}")), to_numpy_items(t_eval), dense_output,
            [PlainEvent(e) for e in side.events] if watched else None,
            args=None if args is None else side.values, run=run,
            more=side.values, walk=walk, **chosen,
        )  # fmt: skip
        if walk is not None:
            _put_steps(result, run, walk)
        return run, result

    def derived(found: Any) -> Any:
        run, result = found
        if np.size(y0) == 0 and not watched and not contains_active(t_eval):
            return result
        if not _has_steps(run, result) or _is_complex(y0):
            raise NotPlainError
        moved = MovedStates("solve_ivp", side, run, _steps_of(method, run, options), y0)
        if not moved.is_active and not contains_active(t_eval) and not watched:
            return result
        return _Filling(moved, result, t_eval).filled(watched, args or ())

    return side.run(solve, derived)


def _steps_of(method: str, run: PlainRun, options: Kwargs) -> Steps:
    """Give the steps of a run as they move."""
    if method in EXPLICIT:
        return ExplicitSteps(run, locate(f"scipy.integrate.{method}"))
    tolerances = to_numpy(options.get("rtol", 1e-3)), to_numpy(options.get("atol", 1e-6))
    if method == "LSODA":
        return CollocationSteps.along_lsoda(run.steps, run.calls.states.shape[1], tolerances)
    return CollocationSteps(run.steps, _STAGES_OF_BDF, tolerances)


def _put_steps(result: Any, run: PlainRun, walk: Walk) -> None:
    """Put the ends of steps into a result of SciPy's, which has seen the whole run as one step."""
    if walk.times is None and walk.states:
        result.t = np.array([result.t[0], *(step.end for step in run.steps)])
        result.y = np.vstack([result.y[:, 0], *walk.states]).T


def _walk_of(method: str, t_eval: ArrayLike | None) -> Walk | None:
    """Give what is asked of a run without events; None where SciPy has to see each step.

    The interpolant of order 8 calls the right side once more.
    """
    if method not in EXPLICIT:
        return None
    if t_eval is None:
        return Walk(None, [])
    times = np.asarray(to_numpy_items(t_eval))
    is_known = times.dtype == np.float64 or times.dtype.kind in "iu"
    if method == "DOP853" or not is_known or times.ndim != 1:
        return None
    return Walk(times.astype(np.float64), [])


def _has_steps(run: PlainRun, result: Any) -> bool:
    """Say whether a run has steps that take time, and real states.

    Where no time is asked for, SciPy gives empty lists.
    """
    has_some = bool(run.steps) and run.steps[0].begin != run.steps[0].end
    return has_some and np.asarray(result.y).dtype == np.float64


def _is_complex(y0: ArrayLike) -> bool:
    return bool(np.iscomplexobj(to_numpy_items(y0)))


class _Filling:
    """A result of SciPy's, in which derivatives are to be put."""

    def __init__(self, moved: MovedStates, result: Any, t_eval: ArrayLike | None) -> None:
        self._moved, self._result, self._t_eval = moved, result, t_eval

    def filled(self, events: Args, args: Args) -> Any:
        """Give the result with its derivatives."""
        result, moved = self._result, self._moved
        times = np.asarray(result.t)
        is_end = np.full(times.shape, self._t_eval is None)
        has_stopped = result.status == 1
        if has_stopped and len(times):
            is_end[-1] = False
        if contains_active(self._t_eval):
            result.t = asarray(self._t_eval)[: len(times)]
            result.y = attach_derivative(result.y, moved.interpolant(result.t).T)
        elif moved.is_active and len(times):
            y = moved.at(moved.steps.outputs(times, is_end))
            result.y = attach_derivative(result.y, y.T)
        if result.sol is not None:
            result.sol = with_derivative(result.sol, moved.interpolant)
        if events:
            pairs = [
                self._at_events(event, args, *found)
                for event, *found in zip(events, result.t_events, result.y_events, strict=True)
            ]
            result.t_events = [t for t, _ in pairs]
            result.y_events = [y for _, y in pairs]
            if has_stopped and self._t_eval is None:
                self._stop(times[-1])
        return result

    def _at_events(
        self, event: Function, args: Args, times: AnyArray, states: AnyArray
    ) -> tuple[AnyArray, AnyArray]:
        """Give when an event happens as a function of everything, and the states then."""
        interpolant = self._moved.interpolant
        if not len(times):
            return times, states
        of = functools.partial(_sign, event, args, interpolant)
        found = [solution("solve_ivp, the time of an event", of, np.array([t]))[0] for t in times]
        moved = np.stack(found)
        if not contains_active(moved):
            return times, states
        return moved, attach_derivative(states, interpolant(moved))

    def _stop(self, t: float) -> None:
        """Let the end of a run move with the event that has stopped it."""
        result = self._result
        for times, states in zip(result.t_events, result.y_events, strict=True):
            if is_array(times) and times.shape[0] and to_numpy(times)[-1] == t:
                result.t = np.concatenate([result.t[:-1], times[-1:]])
                result.y = np.concatenate([result.y[:, :-1], states[-1:].T], axis=1)
                return


def _sign(event: Function, args: Args, states: Interpolant, t: AnyArray) -> AnyArray:
    return asarray(event(t[0], states(t)[0], *args)).reshape(1)
