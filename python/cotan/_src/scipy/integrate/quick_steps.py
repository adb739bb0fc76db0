"""Steps of SciPy's explicit Runge-Kutta methods, with less around them.

Problem: of a small system SciPy's Python code takes seven times as long as the right side that it
calls. Here are the same operations on the same numbers in the same order, in fewer calls: values
and steps are SciPy's, bit for bit. That is tried once for each method; where another version of
SciPy computes something else, its own code runs.
"""

import functools
import math
from typing import Any

import numpy as np

from cotan._src.typing import Function, NDArray

# Factors of step sizes, as SciPy has them.
_SAFETY, _LEAST, _MOST = 0.9, 0.2, 10


def quick(cls: type) -> type:
    """Give a method of SciPy's with quick steps, or the method itself if they are not the same."""
    return _quick(cls) if _is_same(cls) else cls


@functools.cache
def _quick(cls: Any) -> type:
    stages = cls.n_stages
    weights = [cls.A[s][:s] for s in range(1, stages)]
    places = list(cls.C[1:stages])
    final, estimate = cls.B, cls.E if hasattr(cls, "E") else None
    add, multiply = np.add, np.multiply
    # Of the method of order 8 two estimates are combined.
    is_plain = cls._estimate_error_norm is cls.__mro__[1]._estimate_error_norm

    class Quick(cls):  # type: ignore[misc]
        #: The right side without what SciPy has put around it; it may give a list.
        direct: Function | None = None
        _of: NDArray | None = None

        def _step_impl(self) -> tuple[bool, str | None]:
            t, y, direction, k = self.t, self.y, self.direction, self.K
            if self.direct is None or y.dtype != np.float64:
                found: tuple[bool, str | None] = super()._step_impl()
                return found
            if self._of is not k:
                self._of = k
                slopes = [k[:s].T for s in range(1, stages)]
                self._stages = list(zip(range(1, stages), places, slopes, weights, strict=True))
                self._last, self._all = k[:-1].T, k.T
                self._root = self.y.size**0.5
                self._tolerances = np.asarray(self.rtol), np.asarray(self.atol)
            call = self.direct
            min_step = 10 * abs(math.nextafter(t, direction * math.inf) - t)
            h_abs = self.h_abs
            if h_abs > self.max_step:
                h_abs = self.max_step
            elif h_abs < min_step:
                h_abs = min_step
            size, is_rejected = np.abs(y), False
            rtol, atol = self._tolerances
            while True:
                if h_abs < min_step:
                    return False, self.TOO_SMALL_STEP
                h = h_abs * direction
                t_new = t + h
                if direction * (t_new - self.t_bound) > 0:
                    t_new = self.t_bound
                h = t_new - t
                h_abs = abs(h)
                k[0] = self.f
                length = np.array(h)
                for s, c, slopes, a in self._stages:
                    state = slopes.dot(a)
                    multiply(state, length, state)
                    add(y, state, state)
                    k[s] = call(t + c * h, state)
                y_new = self._last.dot(final)
                multiply(length, y_new, y_new)
                add(y, y_new, y_new)
                f_new = call(t + h, y_new)
                if type(f_new) is not np.ndarray or f_new.dtype != np.float64:
                    f_new = np.asarray(f_new, np.float64)
                k[-1] = f_new
                self.nfev += stages
                new_size = np.abs(y_new)
                scale = np.maximum(size, new_size)
                scale *= rtol
                scale += atol
                if is_plain:
                    error = self._all.dot(estimate)
                    multiply(error, length, error)
                    error /= scale
                    norm = np.sqrt(error.dot(error)) / self._root
                else:
                    norm = self._estimate_error_norm(k, h, scale)
                if norm < 1:
                    factor = _MOST if norm == 0 else min(_MOST, _SAFETY * norm**self.error_exponent)
                    h_abs *= min(1, factor) if is_rejected else factor
                    break
                h_abs *= max(_LEAST, _SAFETY * norm**self.error_exponent)
                is_rejected = True
            self.h_previous, self.y_old = h, y
            self.t, self.y, self.h_abs, self.f = t_new, y_new, h_abs, f_new
            return True, None

        def _dense_output_impl(self) -> Any:
            found = super()._dense_output_impl()
            if is_plain:
                found.__class__ = _quick_output(type(found))
            return found

    Quick.__name__ = Quick.__qualname__ = cls.__name__
    return Quick


@functools.cache
def _quick_output(cls: Any) -> type:
    """Give the interpolant of a step with less around its evaluation at several times."""

    class Output(cls):  # type: ignore[misc]
        def _call_impl(self, t: NDArray) -> NDArray:
            if t.ndim == 0:
                at: NDArray = super()._call_impl(t)
                return at
            powers = np.empty((self.order + 1, len(t)))
            powers[:] = (t - self.t_old) / self.h
            np.multiply.accumulate(powers, 0, out=powers)
            y: NDArray = np.dot(self.Q, powers)
            y *= self.h
            y += self.y_old[:, None]
            return y

    Output.__name__ = Output.__qualname__ = cls.__name__
    return Output


@functools.cache
def _is_same(cls: Any) -> bool:
    """Say whether quick steps give the numbers of SciPy's own, with steps that are rejected."""

    def slope(t: float, y: NDArray) -> NDArray:
        bump = 30.0 / (1.0 + 400.0 * (t - 0.7) ** 2)
        return np.array([y[1] - y[0] * y[2], 0.3 - bump * y[0], y[0] * y[1] - 2.0 * y[2]])

    def walked(solver: Any) -> list[Any]:
        found = [solver.h_abs]
        while solver.status == "running" and len(found) < 400:
            solver.step()
            found += [solver.t, solver.h_abs, solver.nfev, *solver.y, *solver.f]
            at = np.linspace(solver.t_old, solver.t, 3)
            found += solver.dense_output()(at).ravel().tolist()
        return [*found, solver.status]

    start, options = np.array([1.0, 0.5, -0.2]), {"rtol": 1e-4, "atol": np.full(3, 1e-7)}
    try:
        for end in (1.5, -1.0):
            solver = _quick(cls)(slope, 0.0, start, end, **options)
            solver.direct = slope
            if walked(solver) != walked(cls(slope, 0.0, start, end, **options)):
                return False
    except (AttributeError, TypeError, ValueError):
        return False
    return True
