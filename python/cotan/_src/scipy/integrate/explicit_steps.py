"""The states of an explicit Runge-Kutta run as a linear function of changes of its slopes.

With the lengths of the steps held constant, the states are linear in changes of the slopes and of
the initial state. This linear map is the discrete adjoint (Hairer, Norsett, Wanner, Solving
Ordinary Differential Equations I, II.6), for all steps together.
"""

from typing import Any

import numpy as np

from cotan._src.scipy.integrate.plain_run import PlainRun
from cotan._src.typing import NDArray


class ExplicitSteps:
    """States at the times of a result, as they change with slopes K and the initial state."""

    def __init__(self, run: PlainRun, method: Any, times: NDArray, is_dense: bool) -> None:
        stages = method.n_stages
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
        begins = np.array([step.begin for step in run.steps])
        lasts = np.array([step.end for step in run.steps])
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

    def begin(self, derivatives: NDArray, slopes: NDArray) -> bool:
        """Take the derivatives of the right side at the points, and those of whole steps."""
        del slopes
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
        return True

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
        found = np.zeros((len(self.times), rows, n))
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
