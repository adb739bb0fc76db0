"""The solution of a run within its steps, as it moves with the time and with its nodes.

Problem: `sol` of `solve_ivp`, times of events and states there are asked for at times that carry
derivatives of their own, between points where the derivatives of the states are known.
"""

import functools
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.rebind.engine import locate
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.values import attach_derivative, is_active, to_numpy
from cotan._src.typing import AnyArray, ArrayLike, NDArray

# Of more times what depends on them is recorded: it would be products of all pairs of nodes.
_FEW = 1_000


class Interpolant:
    """Polynomials through nodes in steps, as functions of the time and of what the nodes are."""

    def __init__(self, begins: NDArray, ends: NDArray, parts: NDArray, nodes: AnyArray) -> None:
        """Take where steps begin and end, and nodes of shape (steps, parts, n) at parts of them."""
        self._begins, self._ends, self._parts, self._nodes = begins, ends, parts, nodes
        self._lengths = ends - begins

    def __call__(self, t: ArrayLike) -> AnyArray:
        """Give states at times, of shape (count, n)."""
        times = asarray(t).reshape(-1)
        at, is_moved = to_numpy(times), is_active(times)
        steps = self._steps(at)
        weights: Any
        if is_moved and (_core.nestlevel() > 1 or len(at) > _FEW):
            weights = self._recorded((times - self._begins[steps]) / self._lengths[steps])
        else:
            weights = self._weights(at, steps)
            if is_moved:
                moved = self._slopes_of_weights(at, steps) * times[:, None]
                weights = attach_derivative(weights, moved)
        found: AnyArray = np.sum(weights[:, :, None] * self._nodes[steps], axis=1)
        return found

    def values(self, t: float) -> tuple[NDArray, NDArray]:
        """Give the state at a time, and its derivative with respect to the time, as numbers."""
        at = np.array([t])
        steps = self._steps(at)
        nodes = to_numpy(self._nodes[steps[0]])
        return self._weights(at, steps)[0] @ nodes, self._slopes_of_weights(at, steps)[0] @ nodes

    def _steps(self, at: NDArray) -> NDArray:
        """Give the numbers of the steps that times lie in."""
        sign = 1.0 if self._ends[0] > self._begins[0] else -1.0
        found: NDArray = np.searchsorted(sign * self._ends, sign * at)
        return np.minimum(found, len(self._ends) - 1)

    def _recorded(self, x: AnyArray) -> AnyArray:
        """Give how much nodes count at parts of steps, for derivatives of any order."""
        weights = []
        for j, part in enumerate(self._parts):
            weight: Any = 1.0
            for other in np.delete(self._parts, j):
                weight = weight * (x - other) / (part - other)
            weights.append(weight)
        found: AnyArray = np.stack(weights, axis=1)
        return found

    def _weights(self, at: NDArray, steps: NDArray) -> NDArray:
        """Give how much nodes count at times in steps: Lagrange's polynomials."""
        is_own = np.eye(len(self._parts), dtype=bool)
        return self._products(at, steps, is_own) / self._scales(is_own)

    def _slopes_of_weights(self, at: NDArray, steps: NDArray) -> NDArray:
        """Give their derivatives with respect to the time."""
        is_own = np.eye(len(self._parts), dtype=bool)
        # The derivative of a product has a product for each factor, without that.
        products = self._products(at, steps, is_own[:, None] | is_own)
        products[:, is_own] = 0.0
        found: NDArray = (
            np.sum(products, axis=2) / self._scales(is_own) / self._lengths[steps, None]
        )
        return found

    def _products(self, at: NDArray, steps: NDArray, is_left_out: NDArray) -> NDArray:
        """Give products of how far times are from nodes, without those that are left out."""
        x = (at - self._begins[steps]) / self._lengths[steps]
        far = (x[:, None] - self._parts).reshape(len(at), *(1,) * (is_left_out.ndim - 1), -1)
        found: NDArray = np.prod(np.where(is_left_out, 1.0, far), axis=-1)
        return found

    def _scales(self, is_own: NDArray) -> NDArray:
        far = np.where(is_own, 1.0, self._parts[:, None] - self._parts)
        found: NDArray = np.prod(far, axis=1)
        return found


@functools.cache
def _with_derivative(cls: type) -> type:
    class Moved(cls):  # type: ignore[misc]
        _moved: Interpolant

        def __call__(self, t: ArrayLike) -> AnyArray:
            states = self._moved(t)
            moved = states.T if np.ndim(t) else states[0]
            values: NDArray = super().__call__(to_numpy(t))
            return attach_derivative(values, moved)

    Moved.__name__ = Moved.__qualname__ = cls.__name__
    return Moved


def with_derivative(sol: Any, interpolant: Interpolant) -> Any:
    """Give an `OdeSolution` that has the derivatives of an interpolant."""
    sol.__class__ = _with_derivative(locate("scipy.integrate.OdeSolution"))
    sol._moved = interpolant
    return sol
