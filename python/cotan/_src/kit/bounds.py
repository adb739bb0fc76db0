"""Which variables of a minimum stay at their bounds.

Some solvers stop exactly at a bound, interior point methods a little before it. A variable that has
stopped at a bound stays there if the slope leads out of the bounds; one that has stopped before it
does if the minimum without that bound lies beyond it. Where neither is clear the minimum has a
kink.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from cotan._src.kit.implicit_diff import jacobian
from cotan._src.runtime.values import to_numpy
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.typing import AnyArray, NDArray

# Farther from its bound than this part of its size, or of 1, no solver stops short of it.
_CLOSE = 1e-2
# A slope that is less than this part of all slopes does not hold a variable at its bound.
WEAK = 1e-7
# The minimum without a bound that lies beyond it as far as the result lies before it: a kink.
_CLEAR = 2.0


def limits_of(bounds: Any, x: NDArray) -> tuple[NDArray, NDArray]:
    """Give the lower and upper ends between which variables lie."""
    if bounds is None:
        return np.full(x.shape, -np.inf), np.full(x.shape, np.inf)
    if hasattr(bounds, "lb"):
        ends = to_numpy(bounds.lb), to_numpy(bounds.ub)
    else:
        ends = (
            np.array([-np.inf if b[0] is None else to_numpy(b[0]) for b in bounds], np.float64),
            np.array([np.inf if b[1] is None else to_numpy(b[1]) for b in bounds], np.float64),
        )
    low, high = (np.broadcast_to(np.asarray(e, np.float64).reshape(-1), x.shape) for e in ends)
    return low, high


def distances(limits: tuple[NDArray, NDArray], x: NDArray) -> tuple[NDArray, NDArray]:
    """Give how far variables lie from the nearer of their bounds, and the way into it: -1 or 1."""
    low, high = limits
    is_low = x - low <= high - x
    return np.maximum(np.where(is_low, x - low, high - x), 0.0), np.where(is_low, -1.0, 1.0)


def may_be_held(bounds: Any, x: Any) -> NDArray:
    """Say which variables lie at a bound or so close to it that a solver may have stopped short."""
    far, _ = distances(limits_of(bounds, x), x)
    found: NDArray = far <= _CLOSE * np.maximum(1, np.abs(x))
    return found


def free_of(name: str, bounds: Any, x: Any, slope: Callable[[AnyArray], AnyArray]) -> NDArray:
    """Say which variables do not stay at a bound; `slope` gives the gradient at a point.

    Raises `ValueError` where that cannot be told.
    """
    x = np.asarray(x, np.float64)
    low, high = limits_of(bounds, x)
    close = may_be_held(bounds, x)
    free: NDArray = low != high
    if not np.any(close & free):
        return free
    far, way = distances((low, high), x)
    gradient = np.asarray(to_numpy_items(slope(x)), np.float64)
    pushes = -way * gradient
    scale = np.max(np.abs(gradient[free]))
    at_bound = free & (far == 0)
    weak = at_bound & (np.abs(pushes) <= WEAK * scale)
    if np.any(weak):
        refuse_kink(name, int(np.flatnonzero(weak)[0]))
    free &= ~(at_bound & (pushes > 0))
    if np.any(free & close & (pushes > 0) & (far > 0)):
        _hold(name, free, close & (far > 0), far, way, gradient, jacobian(slope, x))
    return free


def _hold(
    name: str,
    free: NDArray,
    close: NDArray,
    far: NDArray,
    way: NDArray,
    gradient: NDArray,
    curvature: NDArray,
) -> None:
    """Hold variables whose minimum lies beyond their bound, that which is farthest first."""
    while np.any(close & free):
        index = np.flatnonzero(free)
        values, vectors = np.linalg.eigh(curvature[np.ix_(index, index)])
        # Along what is flat or bends down the way is long.
        least = max(np.max(np.abs(values)) * 1e-14, float(np.finfo(float).tiny))
        step = -vectors @ ((vectors.T @ gradient[index]) / np.maximum(values, least))
        beyond = np.where(close[index], way[index] * step / np.where(close, far, 1.0)[index], 0.0)
        worst = int(np.argmax(beyond))
        if 1 / _CLEAR < beyond[worst] < _CLEAR:
            refuse_kink(name, int(index[worst]))
        if beyond[worst] < 1:
            return
        free[index[worst]] = False


def refuse_kink(name: str, variable: int) -> NoReturn:
    """Raise the `ValueError` for a bound that a variable reaches and is not held at."""
    raise ValueError(
        f"scipy.optimize.{name}: at the minimum variable {variable} lies at its bound, but is not "
        "held there (the slope is zero): to one side it would begin to move, so the minimum has a "
        "kink here and no derivative; leave the bound out, look a little to the side, or hold the "
        "result constant with ct.dropgrad"
    )
