"""Overrides of SciPy's solvers of ordinary differential equations.

SciPy's solver finds the steps, on values. Their derivative is formed from all steps at once
(`step_adjoint`), or the accepted steps are repeated on active values, with their lengths held
constant: the derivative is that of the numbers which the solver returns. For solvers that vary
their order, the value is SciPy's, and the derivative that of a method with the same tolerances.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.kit.implicit_diff import solution, stacked
from cotan._src.rebind.engine import locate, locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import ALWAYS, override
from cotan._src.runtime.values import attach_derivative, contains_active, is_array, to_numpy
from cotan._src.scipy.integrate.repeated_steps import (
    Called,
    Log,
    Notice,
    RepeatedStep,
    Slope,
    Time,
    call_again,
    log_of,
    logging_of,
    plain_args,
    repeated_steps,
    slope_of,
    states_at,
    within,
)
from cotan._src.scipy.integrate.step_adjoint import COLLOCATED, EXPLICIT, solve_at_once
from cotan._src.state.callback_probe import any_captures_active, to_numpy_items
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Function,
)


class Solution(Protocol):
    """What `solve_ivp` gives."""

    t: AnyArray
    y: AnyArray
    sol: Function | None
    # None without events.
    t_events: list[AnyArray]
    y_events: list[AnyArray]
    status: int


_STIFF = ("Radau", "BDF", "LSODA")


@override("scipy.integrate.solve_ivp", when=ALWAYS)
def solve_ivp(fun: Function, t_span: Sequence[Time], y0: ArrayLike, method: str | type = "RK45",
              t_eval: ArrayLike | None = None, dense_output: bool = False,
              events: Function | Sequence[Function] | None = None, vectorized: bool = False,
              args: Iterable[object] | None = None, **options: Any) -> Solution:  # fmt: skip
    solve = locate_original("scipy.integrate.solve_ivp")
    args = None if args is None else _as_tuple(args)
    t_span = _read_once(t_span)
    can_be_at_once = method in EXPLICIT or method in COLLOCATED
    if can_be_at_once and not vectorized:
        found: Solution | None
        found = solve_at_once(
            fun, t_span, y0, str(method), t_eval, dense_output, events, args, options
        )
        if found is not None:
            return found
    function = Called(fun)
    some = [events] if callable(events) else events
    snapshot = StateSnapshot(fun, args, some, options)
    history = function.history
    watching = None if some is None else [Called(e, history=history) for e in some]
    options = {
        k: Called(v, history=history) if callable(v) else to_numpy_items(v)
        for k, v in options.items()
    }
    kind = method if isinstance(method, str) else getattr(method, "__name__", None)
    known = isinstance(method, str) and method in (*EXPLICIT, "Radau")
    log = history.steps = Log(function.calls)
    solver = logging_of(locate(f"scipy.integrate.{method}")) if known else method
    result: Solution = solve(
        function, to_numpy_items(t_span), to_numpy_items(y0), solver, to_numpy_items(t_eval),
        dense_output,
        watching, vectorized, plain_args(args), **({"log": log} if known else {}), **options,
    )  # fmt: skip
    given = (t_span, y0, t_eval, args)
    if not any_captures_active(function, *(watching or ())) and not contains_active(given):
        return result
    if kind not in (*EXPLICIT, *_STIFF):
        raise NotDifferentiableError(
            f"solve_ivp: the method {kind} has no derivative rule in cotan; use one of "
            f"{', '.join((*EXPLICIT, *_STIFF))}"
        )
    # The interpolant of order 8 calls the right side, too.
    asks_more = dense_output or t_eval is not None or events is not None
    is_same = kind in EXPLICIT and not (kind == "DOP853" and asks_more)
    if not (is_same and snapshot.has_changed()):
        function.expect_again("solve_ivp")
    has_changed = snapshot.restore()
    if vectorized:
        scalar = fun

        def fun(t: Time, y: AnyArray, *more: object) -> AnyArray:
            # As SciPy does, whatever the shape.
            return stacked(scalar(t, y[:, None], *more)).reshape(-1)

    # Where no time is asked for, SciPy gives empty lists.
    dtype = np.result_type(np.asarray(result.y), to_numpy(asarray(y0)), np.float64)
    slope = slope_of(fun, args, dtype)
    if not known:
        if events is not None:
            raise NotDifferentiableError(
                f"solve_ivp: events of the method {kind} have no derivative rule in "
                f"cotan; use one of {', '.join(EXPLICIT)} or Radau"
            )
        log = log_of("Radau", fun, t_span, y0, args, options)
        kind = "Radau"
    start = _core.cast(asarray(y0), dtype)
    events_of = None if some is None else [_event(e, args) for e in some]
    more = () if args is None else tuple(args)
    ends = t_span[0], t_span[1]
    notice = _noticing(function, more) if has_changed and is_same else None
    steps = repeated_steps(str(kind), slope, log, ends, start, notice)
    if has_changed and not is_same:
        call_again(snapshot, history, more, steps)
    end = snapshot.state()
    if has_changed and is_same:
        _expect_end(function, log, steps)
    filled = _filled(result, steps, t_span, t_eval, start, events_of, exact=known)
    snapshot.restore_to(end)
    return filled


def _noticing(function: Called, more: Args) -> Notice:
    """Give what calls events as a solver did after each step."""
    calls = defaultdict(list)
    for which, t, _, accepted in function.history:
        if which is not function:
            calls[accepted].append((which, t))

    def notice(count: int, state: Callable[[Time], AnyArray]) -> None:
        for which, t in calls[count]:
            which.again(t, state(t), more)

    return notice


def _expect_end(function: Called, log: Log, steps: list[RepeatedStep]) -> None:
    """Look if steps lead where they led; if not, it is chaos, or something else is kept."""
    if steps and not np.allclose(to_numpy(steps[-1].y), log.end, 1e-6, 1e-9):
        function.expect_again("solve_ivp")


def _read_once(ends: Any) -> Any:
    """Give what can be read but once as a tuple, since it is read twice."""
    return tuple(ends) if isinstance(ends, Iterator) else ends


def _as_tuple(args: Any) -> Any:
    """Give an iterable as a tuple, since it is read twice; SciPy complains about the rest."""
    return tuple(args) if isinstance(args, Iterable) else args


def _event(event: Function, args: Iterable[object] | None) -> Slope:
    more = () if args is None else tuple(args)
    return lambda t, y: asarray(event(t, y, *more)).reshape(())


def _filled(result: Solution, steps: list[RepeatedStep], t_span: Sequence[Time],
            t_eval: ArrayLike | None, y0: AnyArray, events: list[Slope] | None,
            exact: bool) -> Solution:  # fmt: skip
    """Put what is differentiated into a result of SciPy's."""
    if not steps:
        if len(result.t):
            result.y = np.stack([y0] * len(result.t), axis=1)
        return result
    end, state = steps[-1].t, steps[-1].y
    if events is not None:
        result.t_events, result.y_events = _times_of_events(result, steps, events)
        if result.status == 1:
            # The end is where the last event is.
            pairs = zip(result.t_events, result.y_events, strict=True)
            all_of = [(t, y) for ts, ys in pairs for t, y in zip(ts, ys, strict=True)]
            sign = 1 if to_numpy(steps[0].t) >= to_numpy(steps[0].t_old) else -1
            end, state = max(all_of, key=lambda pair: sign * float(to_numpy(pair[0])))
    # Steps that are not the solver's own have other times between the ends.
    inner_times = [s.t for s in steps[:-1]] if exact else list(result.t[1:-1])
    if t_eval is None and contains_active(ends := [t_span[0], *inner_times, end]):
        result.t = _core.array(ends)
    if t_eval is None and exact:
        y: AnyArray | None = np.stack([y0, *(s.y for s in steps[:-1]), state], axis=1)
    else:
        times = asarray(result.t if t_eval is None else t_eval)[: len(result.t)]
        y = states_at(steps, times) if len(times) else None
        result.t = times if is_array(times) else result.t
    if y is not None:
        result.y = y if exact else attach_derivative(result.y, y)
    if result.sol is not None:
        inner = [to_numpy(s.t) for s in steps[:-1]]
        ts = [to_numpy(t_span[0]), *inner, to_numpy(end)]
        result.sol = locate("scipy.integrate.OdeSolution")(ts, steps)
    return result


def _sign(event: Slope, step: RepeatedStep, t: AnyArray) -> AnyArray:
    return event(t[0], step(t[0])).reshape(1)


def _times_of_events(
    result: Solution, steps: list[RepeatedStep], events: list[Slope]
) -> tuple[list[AnyArray], list[AnyArray]]:
    """Give when events happen as a function of everything, and the states at these times."""
    all_times: list[AnyArray] = []
    all_states: list[AnyArray] = []
    for event, found_times in zip(events, result.t_events, strict=True):
        times, states = [], []
        for t in found_times:
            step = within(steps, t)
            at = solution(
                "solve_ivp, the time of an event",
                functools.partial(_sign, event, step),
                np.array([t]),
            )[0]
            times.append(at)
            states.append(step(at))
        all_times.append(np.stack(times) if times else np.array([]))
        all_states.append(np.stack(states) if states else np.array([]))
    return all_times, all_states
