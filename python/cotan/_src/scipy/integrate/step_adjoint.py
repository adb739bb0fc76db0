"""The derivative of a run of an ODE solver, from all its steps at once.

SciPy's solver runs on a plain copy of the right side, outside of the recording. Then the right side
is recorded once, for all points that matter: the slopes K as a function of what it captures, and
its derivatives J with respect to the state. With the steps held constant, the states are linear in
changes of K and of the initial state: `explicit_steps` has this linear map for Runge-Kutta runs,
where the points are those at which the solver has called, `collocation_steps` for stiff ones.

What this does not cover (a right side that branches on what it is given, or keeps a state; events;
derivatives of derivatives) is left to the caller, which repeats the steps one by one.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.kit.host_call import linear
from cotan._src.kit.implicit_diff import stacked
from cotan._src.rebind.engine import locate, locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.values import attach_derivative, contains_active, to_numpy
from cotan._src.scipy.integrate.collocation_steps import CollocationSteps
from cotan._src.scipy.integrate.explicit_steps import ExplicitSteps
from cotan._src.scipy.integrate.plain_run import (
    PlainRun,
    noting,
    plain_slopes,
    points_of,
)
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.state.plain_copy import (
    NotPlainError,
    PlainCallback,
    call_outside,
    is_one_gradient,
)
from cotan._src.typing import AnyArray, Args, ArrayLike, Function, Kwargs, NDArray

EXPLICIT = ("RK45", "RK23", "DOP853")
#: Stages of the collocation along a run.
COLLOCATED = {"Radau": 3, "BDF": 3, "LSODA": 5}
# Up to so many numbers the linear map is formed as a matrix.
_MATRIX = 4_000
# Of more numbers in the derivatives of all stages the steps are repeated one by one.
_DERIVATIVES = 4_000_000
# Of a right side with more ways through it than this most points would be recorded.
_WAYS = 8
# At so many calls of the solver the recorded right side has to give the same.
_COMPARED = 16


def solve_at_once(
    fun: Function,
    t_span: Sequence[Any],
    y0: ArrayLike,
    method: str,
    t_eval: ArrayLike | None,
    args: Iterable[object] | None,
    options: Kwargs,
) -> Any:
    """Give the result of `solve_ivp` with its derivatives, None where another way is needed."""
    if not is_one_gradient() or contains_active((t_span, t_eval, options)):
        return None
    is_explicit = method in EXPLICIT
    if any(callable(v) and (is_explicit or k != "jac") for k, v in options.items()):
        return None
    args = None if args is None else tuple(args)
    side = RightSide(fun, args or (), options.get("jac"))
    if not side.captures and not contains_active((y0, args)):
        return None

    def solve() -> Any:
        run = PlainRun(side.plain, is_explicit)
        chosen = {k: to_numpy_items(v) for k, v in options.items()}
        if callable(side.jac):
            chosen["jac"] = plain_slopes(side.jac)
        result = locate_original("scipy.integrate.solve_ivp")(
            run, to_numpy_items(t_span), to_numpy_items(y0),
            noting(locate(f"scipy.integrate.{method}")), to_numpy_items(t_eval),
            args=None if args is None else side.values, run=run, **chosen,
        )  # fmt: skip
        return run, result

    def derived(found: Any) -> Any:
        run, result = found
        count = result.y.shape[1]
        if not run.steps or not count or result.y.dtype != np.float64:
            raise NotPlainError
        steps: Steps
        if is_explicit:
            cls = locate(f"scipy.integrate.{method}")
            steps = ExplicitSteps(run, cls, result.t, t_eval is not None)
        else:
            tolerances = to_numpy(options.get("rtol", 1e-3)), to_numpy(options.get("atol", 1e-6))
            steps = CollocationSteps(run, result.t, COLLOCATED[method], tolerances)
        moved = side.derived("solve_ivp", run, steps, y0, count)
        if moved is not None:
            result.y = attach_derivative(result.y, moved.T)
        return result

    return side.run(solve, derived)


#: The states of a run as a linear function of changes.
Steps = ExplicitSteps | CollocationSteps


class RightSide(PlainCallback):
    """A right side of a differential equation, with its plain copy."""

    def __init__(
        self, function: Function, args: Args, jac: Any = None, state_first: bool = False
    ) -> None:
        super().__init__(function, args, jac)
        (self.jac,) = self.others
        # Whether it can be called for many points at once, as far as is known.
        self._is_batched = True
        if state_first:
            self.function, self.plain, self.jac = map(_swapped, (function, self.plain, self.jac))

    def derived(self, name: str, run: PlainRun, steps: Steps, y0: ArrayLike,
                count: int) -> AnyArray | None:  # fmt: skip
        """Give states, of shape (count, n), that move as the solution does; None if they do not.

        Raises `NotPlainError` where the right side cannot be recorded for all points at once, or
        gives something else then.
        """
        n = steps.states.shape[1]
        while True:
            if steps.times.size * n * n > _DERIVATIVES:
                raise NotPlainError
            slopes, derivatives = self._derivatives(steps.times, steps.states)
            if steps.begin(derivatives, slopes):
                break
        compared = points_of(run, _COMPARED)
        times = np.concatenate([steps.times, compared[0]])
        states = np.concatenate([steps.states, compared[1]])
        k = self._slopes(times, states)
        m = len(steps.times)
        if not np.allclose(to_numpy(k[m:]), compared[2], 1e-9, 1e-300, equal_nan=True):
            raise NotPlainError
        start = _core.cast(asarray(y0), np.float64).reshape(-1)
        if not contains_active((k, start)):
            return None
        change = _core.concatenate([_core.reshape(k[:m], (-1,)), start])
        if steps.times.size * n * n * count <= _MATRIX:
            moved: AnyArray = _core.matmul(steps.adjoint(np.eye(count * n)), change)
        else:
            moved = linear(
                name, _unless_zero(steps.forward, count * n),
                _unless_zero(lambda ct: steps.adjoint(ct[None, :])[0], change.shape[0]),
            )(change - _core.dropgrad(change))  # fmt: skip
        return _core.reshape(moved, (count, n))

    @staticmethod
    def _slope(function: Function, more: Args, t: Any, y: AnyArray) -> AnyArray:
        return _core.cast(stacked(function(t, y, *more)).reshape(-1), np.float64)

    def _slopes(self, times: NDArray, states: NDArray) -> Any:
        """Give the slopes at points as they depend on everything."""
        slope = functools.partial(self._slope, self.function, self.args)
        if self._is_batched:
            try:
                return _batched(slope, times, states)
            except NotPlainError:
                self._is_batched = False
        return np.stack([slope(t, y) for t, y in _points(times, states)])

    def _derivatives(self, times: NDArray, states: NDArray) -> tuple[NDArray, NDArray]:
        """Give slopes at points, and their derivatives with respect to the state."""
        n = states.shape[1]

        def both(t: Any, y: AnyArray) -> tuple[AnyArray, AnyArray]:
            slope = functools.partial(self._slope, self.plain, self.values, t)
            k, back = _core.pullback(slope, y)
            rows: AnyArray | None
            rows = _core.call_vmap(lambda u: back(u)[0], (np.eye(n),), [True], ["u"])
            return k, np.zeros((n, n)) if rows is None else rows

        if self._is_batched:
            try:
                k, rows = _batched(both, times, states)
                return to_numpy(k), np.broadcast_to(to_numpy(rows), (len(times), n, n))
            except NotPlainError:
                # It looks at the time or the state: each way through it is recorded.
                self._is_batched = False
        pairs = call_outside(lambda: _each(both, times, states))
        return np.stack([k for k, _ in pairs]), np.stack([rows for _, rows in pairs])


def _points(times: NDArray, states: NDArray) -> list[tuple[float, NDArray]]:
    return [(float(t), y.copy()) for t, y in zip(times, states, strict=True)]


def _each(function: Function, times: NDArray, states: NDArray) -> list[tuple[NDArray, NDArray]]:
    """Call a function for one point after the other, prepared where that helps."""
    prepared: _core.Prepared[Any, Any] | None = _core.Prepared(
        function, "value", None, [], None, False
    )
    found = []
    for i, (t, y) in enumerate(_points(times, states)):
        pair = None
        if prepared is not None:
            try:
                pair = prepared(t, y)
            except TypeError:
                # It reads values that a replay would not see.
                prepared = None
            else:
                if prepared.num_recordings > _WAYS + i // 4:
                    prepared = None
        k, rows = function(t, y) if pair is None else pair
        found.append((to_numpy(k), to_numpy(rows)))
    return found


def _unless_zero(function: Callable[[NDArray], NDArray], size: int) -> Function:
    """Give a linear function of vectors that is not called for zeros: transposing it asks there."""

    def call(vector: AnyArray) -> NDArray:
        values = to_numpy(vector)
        return function(values) if values.any() else np.zeros(size)

    return call


def _swapped(function: Any) -> Any:
    """Give a function of time and state for one of state and time."""
    return (lambda t, y, *more: function(y, t, *more)) if callable(function) else function


def _batched(function: Function, times: NDArray, states: NDArray) -> Any:
    """Call a function of time and state for many points at once."""
    try:
        return _core.call_vmap(function, (times, states), [True, True], ["t", "y"])
    except Exception as error:
        # It works for one point at a time, as the solver has shown, but looks at values.
        raise NotPlainError from error
