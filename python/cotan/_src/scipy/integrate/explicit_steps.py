"""The states of an explicit Runge-Kutta run as a linear function of changes of its slopes.

With the lengths of the steps held constant, the states are linear in changes of the slopes and of
the initial state. The transpose of this linear map is the discrete adjoint (Hairer, Norsett,
Wanner, Solving Ordinary Differential Equations I, II.6).
"""

from typing import Any

import numpy as np

from cotan import _core
from cotan._src.scipy.integrate.plain_run import Outputs, PlainRun, Span
from cotan._src.scipy.integrate.state_jacobians import Jacobians
from cotan._src.scipy.integrate.state_products import StateProducts
from cotan._src.typing import NDArray


class ExplicitSteps:
    """States at `Outputs` of a run, as they change with slopes K and the initial state."""

    #: One product after the other is quicker than the derivatives, where these take so many.
    fewest_products = 12
    #: At so many points products are asked for at once.
    at_once = 1

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
        # The points of each step's stages, and of each point the first stage that lies there.
        points, self._stage_of, places = np.unique(calls, return_index=True, return_inverse=True)
        self._places = places.reshape(len(calls), size)
        #: Where the right side is to be called.
        self.times, self.states = run.calls.times[points], run.calls.states[points]
        self._begins, self._lasts = steps.begins, steps.ends
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

    def end(self) -> Outputs:
        """Give what is known of the state at the end."""
        return Outputs(np.array([len(self._h) - 1]), self._b[None, :])

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

    def begin(self, derivatives: Jacobians | StateProducts, slopes: NDArray) -> bool:
        """Take derivatives and slopes at the points."""
        self._slopes = slopes
        places = np.ascontiguousarray(self._places)
        self._linear = _core.RungeKutta(self._h, self._a, self._stages, places, derivatives)
        return True

    def adjoint(self, outputs: Outputs, cts: NDArray) -> NDArray:
        """Give cotangents of slopes and initial state, for rows of cotangents of states."""
        return self._linear.adjoint(*map(np.ascontiguousarray, (*outputs, cts)))

    def columns(self, outputs: Outputs, slopes: NDArray, start: NDArray) -> NDArray:
        """Give changes of states, for columns of changes of slopes and of the initial state.

        These are of shapes (points, n, columns) and (n, columns).
        """
        return self._linear.columns(*map(np.ascontiguousarray, (*outputs, slopes, start)))
