"""Derivatives of constrained minima, by the Karush-Kuhn-Tucker conditions.

Where the solver stopped, the gradient of the objective is a combination of the gradients of the
active constraints. The point and the factors of that combination, the multipliers, solve a system
of equations, which gives their derivatives (`kit.implicit_diff`).
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.kit.implicit_diff import FAR, jacobian, solution, stacked
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.values import to_numpy
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.typing import AnyArray, ArrayLike, NDArray

# Nearer to its bound than this, a constraint holds with equality.
_NEAR = 1e-6

_Function = Callable[[AnyArray], ArrayLike]


class _Rows:
    """What a constraint says: which elements of a function are zero, or are positive or zero."""

    def __init__(self, function: _Function, equal: NDArray | bool, sign: float = 1.0) -> None:
        self.function, self.equal, self.sign = function, equal, sign

    def near(self, x: NDArray) -> NDArray:
        """Say which elements hold with equality."""
        values = self.at(x)
        return np.broadcast_to(self.equal, values.shape) | (np.abs(values) <= _NEAR)

    def at(self, x: NDArray) -> NDArray:
        return np.reshape(to_numpy_items(stacked(self.function(x))), -1)

    def expect_held(self, name: str, x: NDArray) -> None:
        """Refuse a point that lies far outside: the solver stopped before it found one inside."""
        values = self.at(x) * self.sign
        outside = np.where(self.equal, np.abs(values), np.maximum(-values, 0.0))
        if np.all(outside <= _NEAR):
            return
        slopes = jacobian(lambda v: stacked(self.function(v)).reshape(-1), x)
        reach = FAR * np.max(np.abs(x), initial=0.1) * np.linalg.norm(slopes, axis=1)
        if not np.all(outside <= np.maximum(_NEAR, reach)):
            raise ValueError(
                f"scipy.optimize.{name}: the solver stopped where a constraint does not hold (it "
                f"is off by {np.max(outside):.2g}), so the derivative of its result is undefined; "
                "look at success and message of the result, allow more iterations with options, "
                "or hold the result constant with ct.dropgrad"
            )


def _rows(constraints: Any) -> Iterator[_Rows]:
    """Read the forms that SciPy takes."""
    several = constraints if isinstance(constraints, (list, tuple)) else [constraints]
    for one in several:
        if isinstance(one, dict):
            args = one.get("args", ())
            args = args if isinstance(args, tuple) else (args,)
            function = lambda x, f=one["fun"], args=args: f(x, *args)  # noqa: E731
            yield _Rows(function, one["type"].lower() == "eq")
            continue
        if hasattr(one, "fun"):
            inner = one.fun
        else:
            matrix = one.A.toarray() if hasattr(one.A, "toarray") else asarray(one.A)
            inner = lambda x, a=matrix: np.atleast_2d(a) @ x  # noqa: E731
        equal = np.asarray(to_numpy(one.lb)) == to_numpy(one.ub)
        below = lambda x, f=inner, b=one.lb: stacked(f(x)) - b  # noqa: E731
        above = lambda x, f=inner, b=one.ub: stacked(f(x)) - b  # noqa: E731
        yield _Rows(below, equal)
        if not np.all(equal | np.isinf(to_numpy(one.ub))):
            yield _Rows(above, False, -1.0)


def constrained(
    name: str, function: _Function, x: ArrayLike, free: NDArray, constraints: Any
) -> AnyArray:
    """Give where a function is smallest under constraints, as a function of what these depend on.

    Variables that are not `free` stay at their bounds.
    """
    x = np.asarray(x, np.float64)
    index = np.flatnonzero(free)
    rows = list(_rows(constraints))
    for row in rows:
        row.expect_held(name, x)
    if not index.size:
        return _core.asarray(x)
    chosen = [np.flatnonzero(r.near(x)) for r in rows]

    def put(v: AnyArray) -> AnyArray:
        return v if index.size == x.size else _core.index_update(x, index, v)

    def active_constraints(v: AnyArray) -> AnyArray:
        """Give the constraints that hold with equality."""
        at = put(v)
        parts = [stacked(r.function(at)).reshape(-1)[i] for r, i in zip(rows, chosen, strict=True)]
        return np.concatenate([asarray(p) for p in parts])

    def slope(v: AnyArray, factors: AnyArray) -> AnyArray:
        def lagrangian(v: AnyArray) -> AnyArray:
            y = asarray(function(put(v))).reshape(())
            return y - np.sum(factors * active_constraints(v)) if factors.shape[0] else y

        (g,) = _core.gradient(lagrangian, v)
        return np.zeros(v.shape) if g is None else g

    while True:
        count = sum(i.size for i in chosen)
        gradient = to_numpy_items(slope(x[index], np.zeros(0)))
        matrix = jacobian(active_constraints, x[index]) if count else np.zeros((0, index.size))
        factors = np.linalg.lstsq(matrix.T, gradient, rcond=None)[0]
        signs = np.concatenate([np.full(i.size, r.sign) for r, i in zip(rows, chosen, strict=True)])
        fixed = np.concatenate([
            np.broadcast_to(r.equal, r.at(x).shape)[i] for r, i in zip(rows, chosen, strict=True)
        ])  # fmt: skip
        idle = ~fixed & (factors * signs <= 1e-9 * np.max(np.abs(factors), initial=1e-9))
        if not np.any(idle):
            break
        # What does not push is not in the way.
        worst = int(np.flatnonzero(idle)[np.argmin((factors * signs)[idle])])
        for place, i in enumerate(chosen):
            if worst < i.size:
                chosen[place] = np.delete(i, worst)
                break
            worst -= i.size
    size = index.size

    def equation(z: AnyArray) -> AnyArray:
        v, factors = z[:size], z[size:]
        return np.concatenate([asarray(slope(v, factors)), asarray(active_constraints(v))])

    z = solution(f"scipy.optimize.{name}", equation, np.concatenate([x[index], factors]))
    return put(z[:size])
