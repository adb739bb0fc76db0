"""The states of an explicit Runge-Kutta run as a linear function of changes of its slopes.

With the lengths of the steps held constant, the states are linear in changes of the slopes and of
the initial state. This linear map is the discrete adjoint (Hairer, Norsett, Wanner, Solving
Ordinary Differential Equations I, II.6), for all steps together.
"""

import functools
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.scipy.integrate.plain_run import Outputs, PlainRun, Span
from cotan._src.typing import NDArray

# Up to so many numbers the response of stages to changes of their slopes is formed as matrices.
_RESPONSE = 100_000


class ExplicitSteps:
    """States at `Outputs` of a run, as they change with slopes K and the initial state."""

    def __init__(self, run: PlainRun, method: Any, steps: Span | None = None) -> None:
        """Take a run; `steps` are its steps where it has noted none."""
        self._method = method
        self._stages = stages = method.n_stages
        extra = len(method.A_EXTRA) if hasattr(method, "A_EXTRA") else 0
        size = stages + 1 + extra
        self._a = np.zeros((size, size))
        self._a[:stages, : method.A.shape[1]] = method.A[:stages]
        self._a[stages, :stages] = method.B
        self._b = self._a[stages]
        steps = run.spans() if steps is None else steps
        # A step begins at the last stage before it.
        first = np.concatenate([[0], steps.after[:-1] - 1])
        own = steps.after[:, None] - np.arange(stages, 0, -1)
        ends = np.concatenate([steps.before[1:], [len(run.calls.times)]])
        # The interpolant of order 8 calls the right side, where it is asked for.
        is_asked = (ends - steps.after == extra)[:, None]
        more = np.where(is_asked, steps.after[:, None] + np.arange(extra), first[:, None])
        calls = np.column_stack([first, own, more])
        # Of each point also the first stage that lies there.
        points, self._stage_of, places = np.unique(calls, return_index=True, return_inverse=True)
        self._places = places.reshape(len(calls), size)
        #: Where the right side is to be called.
        self.times, self.states = run.calls.times[points], run.calls.states[points]
        self._begins, self._lasts = steps.begins, steps.ends
        self._h = self._lasts - self._begins
        # What is asked for again for each tangent and cotangent.
        self._last_inside: tuple[Outputs, NDArray] | None = None
        if extra:
            self._a[stages + 1 :, : method.A_EXTRA.shape[1]] = method.A_EXTRA

    def outputs(self, times: NDArray, is_end: NDArray | bool = False) -> Outputs:
        """Give what is known of states at times; where they are ends of steps, not interpolated."""
        sign = np.sign(self._h[0])
        found = np.searchsorted(sign * self._lasts, sign * times)
        steps = np.minimum(found, len(self._lasts) - 1)
        x = (times - self._begins[steps]) / self._h[steps]
        weights = self._interpolating(x)
        exact = np.broadcast_to(is_end, times.shape)
        weights[exact] = np.where(times[exact, None] == self._begins[0], 0.0, self._b)
        return Outputs(steps, weights)

    def limits(self) -> tuple[NDArray, NDArray]:
        """Give where steps begin and end."""
        return self._begins, self._lasts

    def points(self) -> Outputs:
        """Give the same for where the right side is called."""
        steps, stages = np.divmod(self._stage_of, self._places.shape[1])
        return Outputs(steps, self._a[stages])

    def nodes(self) -> tuple[NDArray, Outputs]:
        """Give parts of a step whose states determine the interpolant, and what to know of them."""
        degree = self._method.P.shape[1] if len(self._b) == self._stages + 1 else 7
        parts = np.linspace(0.0, 1.0, degree + 1)
        count = len(self._h)
        weights = np.tile(self._interpolating(parts), (count, 1))
        return parts, Outputs(np.repeat(np.arange(count), degree + 1), weights)

    def values(self, outputs: Outputs) -> NDArray:
        """Give the states themselves."""
        places = self._places[outputs.steps]
        change = np.einsum("js,jsa->ja", outputs.weights, self._slopes[places])
        found: NDArray = self.states[places[:, 0]] + self._h[outputs.steps, None] * change
        return found

    def _interpolating(self, x: NDArray) -> NDArray:
        """Give how much slopes count for states within steps, in units of their lengths."""
        size, stages, method = len(self._b), self._stages, self._method
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

    def begin(self, derivatives: NDArray, slopes: NDArray) -> bool:
        """Take the derivatives of the right side at the points, and those of whole steps."""
        self._slopes = slopes
        self._n = derivatives.shape[-1]
        self._derivatives = derivatives
        return True

    @functools.cached_property
    def _j(self) -> NDArray:
        """Derivatives of the right side at the stages of each step."""
        found: NDArray = self._derivatives[self._places]
        return found

    def _moved_stages(self, changes: NDArray) -> NDArray:
        """Give changes of the slopes of stages, of shape (steps, stages, n, n + columns).

        They are those that come with a change of the state at the beginning of a step, and those
        that come with `changes` of the right side itself.
        """
        count, size, n = self._j.shape[:3]
        h = self._h[:, None, None]
        stages = np.empty((count, size, n, n + changes.shape[-1]))
        unit = np.eye(n, stages.shape[-1])
        for i in range(size):
            inner = h * _weighted(self._a[i, :i], stages[:, :i]) + unit if i else unit
            np.matmul(self._j[:, i], inner, out=stages[:, i])
            stages[:, i, :, n:] += changes[:, i]
        return stages

    @functools.cached_property
    def _solved(self) -> tuple[NDArray, NDArray | None]:
        """What comes with changes of the state at the beginning, and of all slopes, if few."""
        count, size, n = self._j.shape[:3]
        is_small = count * (size * n) ** 2 <= _RESPONSE
        each = np.eye(size * n).reshape(1, size, n, size * n)
        columns = each if is_small else np.zeros((1, size, n, 0))
        stages = self._moved_stages(np.broadcast_to(columns, (count, *columns.shape[1:])))
        response = stages.reshape(count, size * n, -1)[..., n:]
        return stages[..., :n], np.ascontiguousarray(response) if is_small else None

    @property
    def _of_stages(self) -> NDArray:
        return self._solved[0]

    @property
    def _response(self) -> NDArray | None:
        return self._solved[1]

    @functools.cached_property
    def _whole(self) -> NDArray:
        """What comes at the end of each step with a change of the state at its beginning."""
        moved = self._h[:, None, None] * _weighted(self._b, self._of_stages)
        whole: NDArray = np.eye(self._n) + moved
        return whole

    def _inside(self, outputs: Outputs) -> NDArray:
        """Give derivatives of states with respect to those at the beginning of their steps."""
        if self._last_inside is None or self._last_inside[0] is not outputs:
            self._last_inside = outputs, self._inside_of(outputs)
        return self._last_inside[1]

    def _inside_of(self, outputs: Outputs) -> NDArray:
        steps = outputs.steps
        inside = np.einsum("js,jsab->jab", outputs.weights, self._of_stages[steps])
        found: NDArray = np.eye(self._n) + self._h[steps, None, None] * inside
        return found

    def adjoint(self, outputs: Outputs, cts: NDArray) -> NDArray:
        """Give cotangents of slopes and initial state, for rows of cotangents of states."""
        rows, n = len(cts), self._n
        cts = cts.reshape(rows, -1, n).swapaxes(0, 1)
        direct = np.zeros((len(self._h), rows, n))
        np.add.at(direct, outputs.steps, cts @ self._inside(outputs))
        after = np.empty_like(direct)
        state = np.zeros((rows, n))
        for i in range(len(self._h) - 1, -1, -1):
            after[i] = state
            state = state @ self._whole[i] + direct[i]
        if self._response is not None:
            every_step = np.arange(len(self._h))
            stages = after @ self._combined(self._response, every_step, self._b[None, :])
            own = cts @ self._combined(self._response, outputs.steps, outputs.weights)
            np.add.at(stages, outputs.steps, own)
        else:
            stages = self._unfolded(outputs, cts, after)
        every = stages.swapaxes(0, 1).reshape(rows, -1, n)
        found = every[:, self._stage_of]
        size = self._places.shape[1]
        found[:, self._places[1:, 0]] += every[:, size::size]
        return np.concatenate([found.reshape(rows, -1), state], 1)

    def _combined(self, responses: NDArray, steps: NDArray, weights: NDArray) -> NDArray:
        """Give how much changes of all slopes of steps count for states in them."""
        count, size, n = self._j.shape[:3]
        response = responses.reshape(count, size, n * size * n)[steps]
        every: NDArray = weights[:, None] @ response * self._h[steps, None, None]
        found: NDArray = every.reshape(len(steps), n, size * n)
        return found

    def _unfolded(self, outputs: Outputs, cts: NDArray, after: NDArray) -> NDArray:
        """Give cotangents of slopes, stage by stage, for those of outputs and of ends of steps."""
        stages: NDArray = self._b[:, None] * after[:, :, None]
        np.add.at(stages, outputs.steps, outputs.weights[:, None, :, None] * cts[:, :, None])
        stages *= self._h[:, None, None, None]
        for i in range(stages.shape[2] - 1, -1, -1):
            back = self._h[:, None, None] * (stages[:, :, i] @ self._j[:, i])
            for m in np.flatnonzero(self._a[i]):
                stages[:, :, m] += self._a[i, m] * back
        return stages

    def forward(self, outputs: Outputs, changes: NDArray) -> NDArray:
        """Give changes of states, for those of slopes and of the initial state."""
        n = self._n
        slopes, state = changes[:-n].reshape(-1, n), changes[-n:]
        stages = slopes[self._places]
        h = self._h[:, None]
        if self._response is not None:
            stages = (self._response @ stages.reshape(len(h), -1, 1)).reshape(stages.shape)
        for i in range(1, stages.shape[1] if self._response is None else 0):
            inner = h * _weighted(self._a[i, :i], stages[:, :i])
            stages[:, i] += (self._j[:, i] @ inner[..., None])[..., 0]
        added = h * _weighted(self._b, stages)
        before = np.empty((len(h), n))
        for i, step in enumerate(self._whole):
            before[i] = state
            state = step @ state + added[i]
        steps = outputs.steps
        inside = np.einsum("js,jsa->ja", outputs.weights, stages[steps])
        moved = np.einsum("jab,jb->ja", self._inside(outputs), before[steps])
        found: NDArray = (moved + h[steps] * inside).reshape(-1)
        return found

    def columns(self, outputs: Outputs, slopes: NDArray, start: NDArray) -> NDArray:
        """Give the same for columns of changes, of shapes (points, n, columns) and (n, columns)."""
        return _core.runge_kutta_columns(
            self._h, self._a, self._stages, self._places,
            *map(np.ascontiguousarray, (self._derivatives, *outputs, slopes, start)),
        )  # fmt: skip


def _weighted(weights: NDArray, stages: NDArray) -> NDArray:
    """Give sums over the stages of each step: of an array with axes for steps and stages first."""
    count, size = stages.shape[:2]
    found: NDArray = weights @ stages.reshape(count, size, -1)
    return found.reshape(count, *stages.shape[2:])
