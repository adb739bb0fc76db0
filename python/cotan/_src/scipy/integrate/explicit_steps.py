"""The states of an explicit Runge-Kutta run as a linear function of changes of its slopes.

With the lengths of the steps held constant, the states are linear in changes of the slopes and of
the initial state. This linear map is the discrete adjoint (Hairer, Norsett, Wanner, Solving
Ordinary Differential Equations I, II.6), for all steps together.
"""

from typing import Any

import numpy as np

from cotan._src.scipy.integrate.plain_run import Outputs, PlainRun
from cotan._src.typing import NDArray


class ExplicitSteps:
    """States at `Outputs` of a run, as they change with slopes K and the initial state."""

    def __init__(self, run: PlainRun, method: Any) -> None:
        self._method = method
        self._stages = stages = method.n_stages
        extra = len(method.A_EXTRA) if hasattr(method, "A_EXTRA") else 0
        size = stages + 1 + extra
        self._a = np.zeros((size, size))
        self._a[:stages, : method.A.shape[1]] = method.A[:stages]
        self._a[stages, :stages] = method.B
        self._b = self._a[stages]
        calls = []
        ends = [*(step.before for step in run.steps[1:]), len(run.times)]
        first = 0
        for step, end in zip(run.steps, ends, strict=True):
            after = step.after
            own = range(after - stages, after)
            # The interpolant of order 8 calls the right side, where it is asked for.
            more = range(after, end) if extra and end - after == extra else [first] * extra
            calls.append([first, *own, *more])
            first = after - 1
        points, places = np.unique(np.array(calls), return_inverse=True)
        self._places = places.reshape(len(calls), size)
        #: Where the right side is to be called.
        self.times = np.array([run.times[i] for i in points])
        self.states = np.array([run.states[i] for i in points])
        self._begins = np.array([step.begin for step in run.steps])
        self._lasts = np.array([step.end for step in run.steps])
        self._h = self._lasts - self._begins
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
        _, first = np.unique(self._places, return_index=True)
        steps, stages = np.divmod(first, self._places.shape[1])
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
        self._j = derivatives[self._places]
        of_stages = np.zeros_like(self._j)
        unit = np.eye(self._n)
        h = self._h[:, None, None]
        for i in range(self._j.shape[1]):
            inner = np.tensordot(of_stages[:, :i], self._a[i, :i], (1, 0)) if i else 0.0
            of_stages[:, i] = self._j[:, i] @ (unit + h * inner)
        self._of_stages = of_stages
        self._whole = unit + h * np.tensordot(of_stages, self._b, (1, 0))
        return True

    def _inside(self, outputs: Outputs) -> NDArray:
        """Give derivatives of states with respect to those at the beginning of their steps."""
        steps = outputs.steps
        inside = np.einsum("js,jsab->jab", outputs.weights, self._of_stages[steps])
        found: NDArray = np.eye(self._n) + self._h[steps, None, None] * inside
        return found

    def adjoint(self, outputs: Outputs, cts: NDArray) -> NDArray:
        """Give cotangents of slopes and initial state, for rows of cotangents of states."""
        rows, n = len(cts), self._n
        cts = cts.reshape(rows, -1, n)
        direct = np.zeros((len(self._h), rows, n))
        np.add.at(direct, outputs.steps, np.einsum("rja,jab->jrb", cts, self._inside(outputs)))
        after = np.empty_like(direct)
        state = np.zeros((rows, n))
        for i in range(len(self._h) - 1, -1, -1):
            after[i] = state
            state = state @ self._whole[i] + direct[i]
        h = self._h[:, None, None]
        stages = self._b[:, None, None, None] * after
        for i, column in enumerate(outputs.weights.T):
            if np.any(column):
                np.add.at(stages[i], outputs.steps, (cts * column[:, None]).swapaxes(0, 1))
        stages *= h
        found = np.zeros((len(self.times), rows, n))
        for i in range(len(stages) - 1, -1, -1):
            back = stages[i] @ self._j[:, i]
            for m in np.flatnonzero(self._a[i]):
                stages[m] += self._a[i, m] * h * back
            found[self._places[:, i]] += stages[i]
        return np.concatenate([found.swapaxes(0, 1).reshape(rows, -1), state], 1)

    def forward(self, outputs: Outputs, changes: NDArray) -> NDArray:
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
        steps = outputs.steps
        inside = np.einsum("js,jsa->ja", outputs.weights, stages[steps])
        moved = np.einsum("jab,jb->ja", self._inside(outputs), before[steps])
        found: NDArray = (moved + h[steps] * inside).reshape(-1)
        return found
