"""The derivative of a run of an ODE solver, from all its steps at once.

SciPy's solver runs on a plain copy of the right side, outside of the recording. Then the right side
is recorded once, for all points that matter: its slopes as a function of what it captures, and
its derivatives with respect to the state. With the steps held constant, the states are linear in
changes of slopes and of the initial state (`moved_states`).

What this does not cover (a right side that keeps a state, `vectorized`, complex states, second
derivatives with respect to `t_span`) is left to the caller, which repeats the steps one by one.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.kit.implicit_diff import plain_number, solution
from cotan._src.rebind.engine import locate, locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.values import (
    attach_derivative,
    contains_active,
    is_active,
    is_array,
    to_numpy,
)
from cotan._src.scipy.integrate.collocation_steps import CollocationSteps
from cotan._src.scipy.integrate.explicit_steps import ExplicitSteps
from cotan._src.scipy.integrate.interpolant import with_derivative
from cotan._src.scipy.integrate.moved_states import MovedStates, Steps
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
    is_explicit = method in EXPLICIT
    if not is_gradient() or not _are_plain(options, is_explicit):
        return None
    if contains_active(t_span) and _core.nestlevel() > 1:
        return None
    args = None if args is None else tuple(args)
    watched: tuple[Any, ...] = (
        () if events is None else (events,) if callable(events) else tuple(events)
    )
    if not all(map(callable, watched)):
        return None
    side = RightSide(fun, args or (), options.get("jac"), events=watched)
    if not side.captures and not contains_active((t_span, y0, args, t_eval)):
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

    asked = _Asked(method, t_span, y0, t_eval, watched, args or (), options)
    return side.run(solve, lambda found: _with_derivatives(side, found[0], found[1], asked))


class _Asked(NamedTuple):
    """What a call of `solve_ivp` asks for."""

    method: str
    t_span: Sequence[Any]
    y0: ArrayLike
    t_eval: ArrayLike | None
    events: Args
    args: Args
    options: Kwargs


def _with_derivatives(side: RightSide, run: PlainRun, result: Any, asked: _Asked) -> Any:
    """Put derivatives into a result of SciPy's."""
    has_active_times = contains_active((asked.t_span, asked.t_eval))
    is_empty = np.size(asked.y0) == 0
    if is_empty and not asked.events and not has_active_times:
        return result
    if is_empty or not _has_steps(run, result) or _is_complex(asked.y0):
        raise NotPlainError
    start = _start_of(side, asked.t_span[0], asked.y0)
    steps = _steps_of(asked.method, run, asked.options)
    moved = MovedStates("solve_ivp", side, run, steps, start)
    if not moved.is_active and not has_active_times and not asked.events:
        return result
    filling = _Filling(side, moved, result, asked.t_eval)
    found = filling.filled(asked.events, asked.args)
    if contains_active(asked.t_span) and asked.t_eval is None:
        filling.move_ends(asked.t_span, asked.y0)
    return found


def _are_plain(options: Kwargs, is_explicit: bool) -> bool:
    """Say whether options are values, and no functions but that of derivatives."""
    functions = (name for name, value in options.items() if callable(value))
    allowed = () if is_explicit else ("jac",)
    return not contains_active(options) and all(name in allowed for name in functions)


def _start_of(side: RightSide, begin: ArrayLike, y0: ArrayLike) -> ArrayLike:
    """Give the initial state as it moves where the first time is held constant.

    A solution that has some state a little later had another one before, by the slope.
    """
    if not is_active(begin):
        return y0
    at, start = float(to_numpy(begin)), asarray(y0)
    slope = side.plain_slope(at, np.array(to_numpy(start), np.float64).reshape(-1))
    return start - slope.reshape(start.shape) * (asarray(begin) - at)


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

    def __init__(
        self, side: RightSide, moved: MovedStates, result: Any, t_eval: ArrayLike | None
    ) -> None:
        self._side, self._moved, self._result, self._t_eval = side, moved, result, t_eval

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
                self._at_events(event, plain, args, *found)
                for event, plain, *found in zip(
                    events, self._side.events, result.t_events, result.y_events, strict=True
                )
            ]
            result.t_events = [t for t, _ in pairs]
            result.y_events = [y for _, y in pairs]
            if has_stopped and self._t_eval is None:
                self._stop(times[-1])
        return result

    def _at_events(
        self, event: Function, plain: Function, args: Args, times: AnyArray, states: AnyArray
    ) -> tuple[AnyArray, AnyArray]:
        """Give when an event happens as a function of everything, and the states then."""
        interpolant = self._moved.interpolant
        if not len(times):
            return times, states
        moved: AnyArray = np.stack([self._moved_time(event, plain, args, t) for t in times])
        if not contains_active(moved):
            moved = times
        found = interpolant(moved)
        return moved, attach_derivative(states, found) if is_active(found) else states

    def _moved_time(self, event: Function, plain: Function, args: Args, t: float) -> AnyArray:
        """Give the time of an event as a root of it along the solution."""
        name, states = "solve_ivp, the time of an event", self._moved.interpolant
        at = np.array([t])
        if _core.nestlevel() > 1:
            return solution(name, lambda t: _sign(event, args, t[0], states(t)[0]), at)[0]
        state, slope = states.values(t)
        found = plain_number(
            name,
            lambda _: _sign(event, args, t, states(at)[0]),
            lambda s: _sign(plain, self._side.values, s, state + slope * (s - t)),
            t,
        )
        return at[0] if found is None else found[0]

    def move_ends(self, t_span: Sequence[Any], y0: ArrayLike) -> None:
        """Let the first and the last time move; those of the steps between them are constant."""
        result = self._result
        begin, end = asarray(t_span[0]), asarray(t_span[1])
        last, state = result.t[-1:], result.y[:, -1:]
        if result.status == 0:
            at = float(to_numpy(end))
            slope = self._side.plain_slope(at, np.ascontiguousarray(to_numpy(state)[:, 0]))
            last, state = end.reshape(1), state + slope[:, None] * (end - at)
        result.t = np.concatenate([begin.reshape(1), result.t[1:-1], last])
        result.y = np.concatenate([asarray(y0).reshape(-1, 1), result.y[:, 1:-1], state], axis=1)

    def _stop(self, t: float) -> None:
        """Let the end of a run move with the event that has stopped it."""
        result = self._result
        for times, states in zip(result.t_events, result.y_events, strict=True):
            if is_array(times) and times.shape[0] and to_numpy(times)[-1] == t:
                result.t = np.concatenate([result.t[:-1], times[-1:]])
                result.y = np.concatenate([result.y[:, :-1], states[-1:].T], axis=1)
                return


def _sign(event: Function, args: Args, t: Any, y: AnyArray) -> AnyArray:
    return asarray(event(t, y, *args)).reshape(1)
