"""The derivative of an explicit Runge-Kutta run, from all stages of all its steps at once.

SciPy's solver runs on a plain copy of the right side, outside of the recording. Then the right side
is recorded once, for all points that the solver has called it at: the slopes K as a function of
what it captures, and its derivatives J with respect to the state. With the lengths of the steps
held constant, the states are linear in changes of K and of the initial state. This linear map is
the discrete adjoint (Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, II.6).

What this does not cover (a right side that branches on what it is given, or keeps a state; events;
derivatives of derivatives) is left to the caller, which repeats the steps one by one.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.kit.host_call import linear
from cotan._src.kit.implicit_diff import stacked
from cotan._src.rebind.engine import locate, locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.values import attach_derivative, contains_active, to_numpy
from cotan._src.state.bitwise_equal import same_bits
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.state.plain_copy import call_outside, plain_copy
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import AnyArray, Args, ArrayLike, Function, Kwargs, NDArray

EXPLICIT = ("RK45", "RK23", "DOP853")
# Up to so many numbers the linear map is formed as a matrix.
_MATRIX = 100_000
# Of more numbers in the derivatives of all stages the steps are repeated one by one.
_DERIVATIVES = 4_000_000


class _IsActive(Exception):  # noqa: N818
    """The copy of the right side still gives active results."""


class _Writes(Exception):  # noqa: N818
    """The right side writes to the state, which the solver goes on with."""


class _Run:
    """The calls of a right side, and the steps that were accepted."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.times: list[float] = []
        self.states: list[NDArray] = []
        self.slopes: list[Any] = []
        # Begin and end of a step, and the numbers of calls before and after it.
        self.steps: list[tuple[float, float, int, int]] = []

    def __call__(self, t: float, y: NDArray, *args: object) -> Any:
        self.times.append(t)
        state = y.copy()
        self.states.append(state)
        k = self._function(t, y, *args)
        if not same_bits(y, state):
            raise _Writes
        if contains_active(k):
            raise _IsActive
        self.slopes.append(k)
        return k


@functools.cache
def _noting(cls: type) -> type:
    """Give a solver that notes its steps."""

    class Noting(cls):  # type: ignore[misc]
        def __init__(self, *args: object, run: _Run, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)
            self._run = run

        def step(self) -> str | None:
            begun = len(self._run.times)
            message: str | None = super().step()
            if self.status != "failed":
                self._run.steps.append((self.t_old, self.t, begun, len(self._run.times)))
            return message

    Noting.__name__ = cls.__name__
    return Noting


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
    is_recorded = _core.isderiving() and not _core.is_tracing() and _core.nestlevel() == 1
    if not is_recorded or contains_active((t_span, t_eval, options)):
        return None
    if any(callable(v) for v in options.values()):
        return None
    args = None if args is None else tuple(args)
    plain, captures = plain_copy(fun)
    if not captures and not contains_active((y0, args)):
        return None
    snapshot = StateSnapshot(fun, plain, args)
    run = _Run(plain)
    values = to_numpy_items(args)

    def solve() -> Any:
        cls = _noting(locate(f"scipy.integrate.{method}"))
        result = locate_original("scipy.integrate.solve_ivp")(
            run, to_numpy_items(t_span), to_numpy_items(y0), cls, to_numpy_items(t_eval),
            args=values, run=run, **{k: to_numpy_items(v) for k, v in options.items()},
        )  # fmt: skip
        return None if snapshot.has_changed() else result

    try:
        result = call_outside(solve)
        found = None
        if result is not None:
            more = args or (), values or ()
            found = _derived(run, result, fun, plain, y0, method, t_eval is not None, *more)
    except Exception:  # noqa: BLE001
        # The other way raises what is the user's.
        found = None
    if snapshot.has_changed():
        snapshot.restore()
        return None
    return found


def _derived(run: _Run, result: Any, fun: Function, plain: Function, y0: ArrayLike, method: str,
             is_dense: bool, args: Args, values: Args) -> Any:  # fmt: skip
    n, count = result.y.shape
    if not run.steps or not count or result.y.dtype != np.float64:
        return None
    steps = _LinearSteps(run, locate(f"scipy.integrate.{method}"), result.t, is_dense)
    if steps.points.size * n * n > _DERIVATIVES:
        return None
    times = np.array([run.times[i] for i in steps.points])
    states = np.array([run.states[i] for i in steps.points])
    given = np.array([run.slopes[i] for i in steps.points], np.float64).reshape(states.shape)

    def slope(function: Function, more: Args, t: AnyArray, y: AnyArray) -> AnyArray:
        return _core.cast(stacked(function(t, y, *more)).reshape(-1), np.float64)

    both = [True, True]
    k = _core.call_vmap(functools.partial(slope, fun, args), (times, states), both, ["t", "y"])
    if not np.allclose(to_numpy(k), given, 1e-9, 1e-300, equal_nan=True):
        return None
    start = _core.cast(asarray(y0), np.float64).reshape(-1)
    if not contains_active((k, start)):
        return result

    def derivatives(t: AnyArray, y: AnyArray) -> AnyArray:
        _, back = _core.pullback(functools.partial(slope, plain, values, t), y)
        rows: AnyArray | None
        rows = _core.call_vmap(lambda u: back(u)[0], (np.eye(n),), [True], ["u"])
        return np.zeros((n, n)) if rows is None else rows

    steps.begin(to_numpy(_core.call_vmap(derivatives, (times, states), both, ["t", "y"])))
    change = _core.concatenate([_core.reshape(k, (-1,)), start])
    if steps.points.size * n * n * count <= _MATRIX:
        moved = _core.matmul(steps.adjoint(np.eye(count * n)), change)
    else:
        moved = linear(
            "solve_ivp", lambda v: steps.forward(to_numpy(v)),
            lambda ct: steps.adjoint(to_numpy(ct)[None, :])[0],
        )(change)  # fmt: skip
    result.y = attach_derivative(result.y, _core.reshape(moved, (count, n)).T)
    return result


class _LinearSteps:
    """States at the times of a result, as they change with slopes K and the initial state."""

    def __init__(self, run: _Run, method: Any, times: NDArray, is_dense: bool) -> None:
        stages = method.n_stages
        extra = len(method.A_EXTRA) if hasattr(method, "A_EXTRA") else 0
        size = stages + 1 + extra
        self._a = np.zeros((size, size))
        self._a[:stages, : method.A.shape[1]] = method.A[:stages]
        self._a[stages, :stages] = method.B
        self._b = self._a[stages]
        calls = []
        ends = [*(step[2] for step in run.steps[1:]), len(run.times)]
        first = 0
        for (_, _, _, after), end in zip(run.steps, ends, strict=True):
            own = range(after - stages, after)
            # The interpolant of order 8 calls the right side, where it is asked for.
            more = range(after, end) if extra and end - after == extra else [first] * extra
            calls.append([first, *own, *more])
            first = after - 1
        self.points, places = np.unique(np.array(calls), return_inverse=True)
        self._places = places.reshape(len(calls), size)
        begins, lasts = (np.array([step[i] for step in run.steps]) for i in (0, 1))
        self._h = lasts - begins
        if extra:
            self._a[stages + 1 :, : method.A_EXTRA.shape[1]] = method.A_EXTRA
        if is_dense:
            sign = np.sign(self._h[0])
            found = np.searchsorted(sign * lasts, sign * times)
            self._steps = np.minimum(found, len(lasts) - 1)
            x = (times - begins[self._steps]) / self._h[self._steps]
            self._weights = self._interpolating(method, stages, x)
        else:
            self._steps = np.maximum(np.arange(len(times)) - 1, 0)
            self._weights = np.tile(self._b, (len(times), 1))
            self._weights[0] = 0.0

    def _interpolating(self, method: Any, stages: int, x: NDArray) -> NDArray:
        """Give how much slopes count for states within steps, in units of their lengths."""
        size = len(self._b)
        total = np.zeros((len(x), size))
        if size == stages + 1:
            for column in method.P.T[::-1]:
                total = (total + column) * x[:, None]
            return total
        first, last = np.eye(size)[0], np.eye(size)[stages]
        factors = [self._b, first - self._b, 2 * self._b - last - first]
        factors += [np.pad(d, (0, size - len(d))) for d in method.D]
        for i, factor in enumerate(reversed(factors)):
            total = (total + factor) * (x if i % 2 == 0 else 1 - x)[:, None]
        return total

    def begin(self, derivatives: NDArray) -> None:
        """Take the derivatives of the right side at the points, and those of whole steps."""
        self._n = derivatives.shape[-1]
        self._j = derivatives[self._places]
        of_stages = np.zeros_like(self._j)
        unit = np.eye(self._n)
        h = self._h[:, None, None]
        for i in range(self._j.shape[1]):
            inner = np.tensordot(of_stages[:, :i], self._a[i, :i], (1, 0)) if i else 0.0
            of_stages[:, i] = self._j[:, i] @ (unit + h * inner)
        self._of_stages = of_stages
        self._whole = unit + h * np.tensordot(of_stages, self._b, (1, 0))
        inside = np.einsum("js,jsab->jab", self._weights, of_stages[self._steps])
        self._inside = unit + h[self._steps] * inside

    def adjoint(self, cts: NDArray) -> NDArray:
        """Give cotangents of slopes and initial state, for rows of cotangents of states."""
        rows, n = len(cts), self._n
        cts = cts.reshape(rows, -1, n)
        direct = np.zeros((len(self._h), rows, n))
        np.add.at(direct, self._steps, np.einsum("rja,jab->jrb", cts, self._inside))
        after = np.empty_like(direct)
        state = np.zeros((rows, n))
        for i in range(len(self._h) - 1, -1, -1):
            after[i] = state
            state = state @ self._whole[i] + direct[i]
        h = self._h[:, None, None]
        stages = self._b[:, None, None, None] * after
        for i, column in enumerate(self._weights.T):
            if np.any(column):
                np.add.at(stages[i], self._steps, (cts * column[:, None]).swapaxes(0, 1))
        stages *= h
        found = np.zeros((len(self.points), rows, n))
        for i in range(len(stages) - 1, -1, -1):
            back = stages[i] @ self._j[:, i]
            for m in np.flatnonzero(self._a[i]):
                stages[m] += self._a[i, m] * h * back
            found[self._places[:, i]] += stages[i]
        return np.concatenate([found.swapaxes(0, 1).reshape(rows, -1), state], 1)

    def forward(self, changes: NDArray) -> NDArray:
        """Give changes of states, for those of slopes and of the initial state."""
        n = self._n
        slopes, state = changes[:-n].reshape(-1, n), changes[-n:]
        stages = slopes[self._places]
        h = self._h[:, None]
        for i in range(1, stages.shape[1]):
            inner = h * np.tensordot(stages[:, :i], self._a[i, :i], (1, 0))
            stages[:, i] += (self._j[:, i] @ inner[..., None])[..., 0]
        added = h * np.tensordot(stages, self._b, (1, 0))
        before = np.empty((len(h), n))
        for i, step in enumerate(self._whole):
            before[i] = state
            state = step @ state + added[i]
        inside = np.einsum("js,jsa->ja", self._weights, stages[self._steps])
        moved = np.einsum("jab,jb->ja", self._inside, before[self._steps])
        found: NDArray = (moved + h[self._steps] * inside).reshape(-1)
        return found
