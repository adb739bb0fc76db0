"""The derivative of a call of `ode.integrate`, from all its steps at once.

SciPy's solver runs on a plain copy of the right side, outside of the recording. `dopri5` and
`dop853` tell which steps they have accepted; the stages of these are among the calls of the right
side, and are computed once more where they are not found there. Then the right side is recorded
once for all points that matter (`moved_states`).
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from cotan._src.rebind.engine import locate
from cotan._src.runtime.values import attach_derivative, contains_active, to_numpy
from cotan._src.scipy.integrate.explicit_steps import ExplicitSteps
from cotan._src.scipy.integrate.moved_states import MovedStates
from cotan._src.scipy.integrate.plain_run import PlainRun, Span, Step, is_near
from cotan._src.scipy.integrate.right_side import RightSide
from cotan._src.state.plain_copy import NotPlainError, is_gradient
from cotan._src.typing import AnyArray, Args, Function, NDArray

#: From a right side to the state at the end, the time then, and the times between steps.
Run = Callable[[Function, Args], tuple[NDArray, float, list[float]]]


def integrated_at_once(
    function: Function,
    params: Args,
    method: str,
    start: AnyArray,
    begin: float,
    run: Run,
) -> Any:
    """Give the state at the end with its derivatives, and the time; None for another way.

    Parameters
    ----------
    method
        What takes the same steps as the solver, of `solve_ivp`.
    run
        Lets the user's solver run, with the plain copy.
    """
    if not is_gradient():
        return None
    side = RightSide(function, params)
    if not side.captures and not contains_active((start, params)):
        return None
    y0 = np.array(to_numpy(start), np.float64).reshape(-1)

    def solve() -> Any:
        is_formula = side.key is not None
        run_of = PlainRun(side.direct, None, is_formula, raises=False)
        y, end, times = run(run_of.function, side.values)
        run_of.raise_refusal()
        if end == begin or len(times) < 2 or not np.all(np.isfinite(y)):
            raise NotPlainError
        cls = locate(f"scipy.integrate.{method}")
        if np.any(np.diff(times) * (end - begin) <= 0):
            # The first step, of the user's length, leads away from the end.
            raise NotPlainError
        steps = _found_steps(run_of, cls, np.array(times), y)
        if steps is not None:
            return y, end, run_of, ExplicitSteps(run_of, cls, steps)
        again = PlainRun(lambda t, y: side.direct(t, y, *side.values), None, is_formula)
        if not np.allclose(_repeated(again, cls, times, y0), y, 1e-9, 1e-12):
            raise NotPlainError
        return y, end, run_of, ExplicitSteps(again, cls)

    def derived(found: Any) -> Any:
        y, end, noted, steps = found
        moved = MovedStates("ode.integrate", side, noted, steps, start)
        if not moved.is_active:
            return y, end
        return attach_derivative(y, moved.at(steps.end())[0]), end

    return side.run(solve, derived)


def _found_steps(run: PlainRun, cls: Any, times: NDArray, y: NDArray) -> Span | None:
    """Find the stages of steps among the calls of a run; None if they are not all there.

    The last call of a step is that at its end, and the others are the stages just before.
    """
    calls, stages = run.calls, cls.n_stages
    begins, ends, lengths = times[:-1], times[1:], np.diff(times)
    # Where no step was rejected, the steps are the last calls.
    last = len(calls.times) - 1 - stages * np.arange(len(ends))[::-1]
    if last[0] < stages or not np.array_equal(calls.times[last], ends):
        last = _ends_among(calls.times, begins, ends, cls)
    if len(last) < len(ends) or np.any(np.diff(last) < stages):
        return None
    of_ends = np.concatenate([[0], last])
    of_stages = np.column_stack([of_ends[:-1], last[:, None] - np.arange(stages - 1, 0, -1)])
    states = calls.states[of_ends]
    expected = states[:-1] + lengths[:, None] * (cls.B @ calls.slopes[of_stages])
    scale = np.max(np.abs(states), initial=0.0)
    is_same = is_near(expected, states[1:], 1e-9, 1e-9 * scale)
    if not is_same or not np.array_equal(states[-1], y.reshape(-1)):
        return None
    return Span(begins, ends, last + 1 - stages, last + 1)


def _ends_among(called: NDArray, begins: NDArray, ends: NDArray, cls: Any) -> NDArray:
    """Give the last calls of accepted steps among the times of all calls."""
    stages, lengths = cls.n_stages, ends - begins
    last = np.arange(stages, len(called))
    sign = np.sign(lengths[0])
    step = np.minimum(np.searchsorted(sign * ends, sign * called[last]), len(ends) - 1)
    second = begins[step] + float(cls.C[1]) * lengths[step]
    is_second = np.abs(called[last - stages + 1] - second) <= 1e-9 * np.abs(lengths[step])
    is_last = is_second & (called[last] == ends[step])
    _, first = np.unique(step[is_last], return_index=True)
    found: NDArray = last[is_last][first]
    return found


def _repeated(run: PlainRun, cls: Any, times: list[float], y: NDArray) -> NDArray:
    """Take steps of a Runge-Kutta method of known lengths, on values; gives the last state."""
    stages = cls.n_stages
    k = np.empty((stages + 1, y.size))
    call = run.function
    k[stages] = call(times[0], y)
    for begin, end in itertools.pairwise(times):
        before, h = call.count, end - begin
        k[0] = k[stages]
        for s in range(1, stages):
            k[s] = call(begin + cls.C[s] * h, y + h * (cls.A[s, :s] @ k[:s]))
        y = y + h * (cls.B @ k[:stages])
        k[stages] = call(end, y)
        run.steps.append(Step(begin, end, before, call.count, None))
    return y
