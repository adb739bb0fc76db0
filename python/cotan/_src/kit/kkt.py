"""Derivatives of constrained minima, by the Karush-Kuhn-Tucker conditions.

Where the solver stopped, the gradient of the objective is a combination of the gradients of the
active constraints. The point and the factors of that combination, the multipliers, solve a system
of equations, which gives their derivatives (`kit.implicit_diff`).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.kit.implicit_diff import FAR, jacobian, plain_solution, solution, stacked
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.values import to_numpy
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.typing import AnyArray, ArrayLike, NDArray

# Nearer to its bound than this, a constraint holds with equality.
_NEAR = 1e-6
# A constraint that holds with equality and pushes less than this part of the slope is in between.
_WEAK = 1e-7
# Slopes of constraints, scaled to length 1, depend on each other from here on.
_DEPENDENT = 1e-10

_Function = Callable[[AnyArray], ArrayLike]


class _Rows:
    """What a constraint says: which elements of a function are zero, or are positive or zero."""

    def __init__(
        self, function: _Function, equal: NDArray | bool, sign: float = 1.0, number: int = 0
    ) -> None:
        self.function, self.equal, self.sign = function, equal, sign
        # Which constraint of the user's it belongs to.
        self.number = number

    def near(self, x: NDArray, multipliers: Any = None) -> NDArray:
        """Say which elements hold with equality.

        Those that push more than they are away from it count, too: interior point methods stop
        before.
        """
        values = self.at(x)
        found: NDArray = np.broadcast_to(self.equal, values.shape) | (np.abs(values) <= _NEAR)
        if multipliers is not None and self.number < len(multipliers):
            pushes = -self.sign * np.reshape(multipliers[self.number], -1)
            if pushes.shape == values.shape:
                found = found | (pushes > np.abs(values))
        return found

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
    for number, one in enumerate(several):
        if isinstance(one, dict):
            args = one.get("args", ())
            args = args if isinstance(args, tuple) else (args,)
            function = lambda x, f=one["fun"], args=args: f(x, *args)  # noqa: E731
            yield _Rows(function, one["type"].lower() == "eq", number=number)
            continue
        if hasattr(one, "fun"):
            inner = one.fun
        else:
            matrix = one.A.toarray() if hasattr(one.A, "toarray") else asarray(one.A)
            inner = lambda x, a=matrix: np.atleast_2d(a) @ x  # noqa: E731
        equal = np.asarray(to_numpy(one.lb)) == to_numpy(one.ub)
        below = lambda x, f=inner, b=one.lb: stacked(f(x)) - b  # noqa: E731
        above = lambda x, f=inner, b=one.ub: stacked(f(x)) - b  # noqa: E731
        yield _Rows(below, equal, number=number)
        if not np.all(equal | np.isinf(to_numpy(one.ub))):
            yield _Rows(above, False, -1.0, number)


class Problem(NamedTuple):
    """What is smallest, and under which constraints."""

    function: _Function
    constraints: Any


class _System:
    """The conditions for a minimum in the variables that are free, and multipliers."""

    def __init__(self, problem: Problem, x: NDArray, index: NDArray) -> None:
        self._function, self._x, self._index = problem.function, x, index
        self.rows = list(_rows(problem.constraints))
        # Of each row the elements that hold with equality.
        self.chosen: list[NDArray] = []

    def put(self, v: AnyArray) -> AnyArray:
        """Give the whole point."""
        index = self._index
        return v if index.size == self._x.size else _core.index_update(self._x, index, v)

    def active(self, v: AnyArray) -> AnyArray:
        """Give the constraints that hold with equality."""
        at = self.put(v)
        pairs = zip(self.rows, self.chosen, strict=True)
        # What holds nowhere with equality is not asked.
        parts = [stacked(r.function(at)).reshape(-1)[i] for r, i in pairs if i.size]
        return np.concatenate([asarray(p) for p in parts]) if parts else np.zeros(0)

    def slope(self, v: AnyArray, factors: AnyArray) -> AnyArray:
        """Give the slope of the objective, less what the constraints make up for."""

        def lagrangian(v: AnyArray) -> AnyArray:
            y = asarray(self._function(self.put(v))).reshape(())
            return y - np.sum(factors * self.active(v)) if factors.shape[0] else y

        (g,) = _core.gradient(lagrangian, v)
        return np.zeros(v.shape) if g is None else g

    def equation(self, z: AnyArray) -> AnyArray:
        size = self._index.size
        v, factors = z[:size], z[size:]
        return np.concatenate([asarray(self.slope(v, factors)), asarray(self.active(v))])

    def choose(self, name: str, multipliers: Any) -> NDArray:
        """Find which constraints hold with equality; gives their multipliers."""
        rows, x, start = self.rows, self._x, self._x[self._index]
        self.chosen = [np.flatnonzero(r.near(x, multipliers)) for r in rows]
        gradient = to_numpy_items(self.slope(start, np.zeros(0)))
        scale = max(float(np.linalg.norm(gradient)), float(np.finfo(float).tiny))
        while True:
            count = sum(i.size for i in self.chosen)
            matrix = jacobian(self.active, start) if count else np.zeros((0, start.size))
            factors: NDArray = np.linalg.lstsq(matrix.T, gradient, rcond=None)[0]
            pairs = list(zip(rows, self.chosen, strict=True))
            signs = np.concatenate([np.zeros(0), *(np.full(i.size, r.sign) for r, i in pairs)])
            fixed = [np.broadcast_to(r.equal, r.at(x).shape)[i] for r, i in pairs]
            lengths = np.linalg.norm(matrix, axis=1)
            pushes = np.where(np.concatenate([np.zeros(0, bool), *fixed]), np.inf, factors * signs)
            pulls = pushes * lengths <= -_WEAK * scale
            if not np.any(pulls):
                break
            # What pulls is not in the way.
            worst = int(np.argmin(pushes * np.where(lengths > 0, lengths, 1.0)))
            for place, i in enumerate(self.chosen):
                if worst < i.size:
                    self.chosen[place] = np.delete(i, worst)
                    break
                worst -= i.size
        self._expect_regular(name, matrix, pushes * lengths, scale)
        return factors

    def _expect_regular(self, name: str, matrix: NDArray, pushes: NDArray, scale: float) -> None:
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        where = f"scipy.optimize.{name}: at the minimum"
        if len(matrix):
            sizes = np.linalg.svd(matrix / np.where(lengths > 0, lengths, 1.0), compute_uv=False)
            if len(matrix) > matrix.shape[1] or sizes[-1] <= _DEPENDENT:
                raise ValueError(
                    f"{where} the slopes of the {len(matrix)} constraints that hold with equality "
                    "depend on each other, so the conditions for a minimum are singular and it "
                    "has no derivative; leave out constraints that follow from others, or hold "
                    "the result constant with ct.dropgrad"
                )
        weak = np.flatnonzero(pushes <= _WEAK * scale)
        if weak.size:
            numbers = [r.number for r, i in zip(self.rows, self.chosen, strict=True) for _ in i]
            raise ValueError(
                f"{where} constraint {numbers[weak[0]]} holds with equality, but is not needed for "
                "that (its multiplier is zero): to one side it would begin to matter, so the "
                "minimum has a kink here and no derivative; leave the constraint out, look a "
                "little to the side, or hold the result constant with ct.dropgrad"
            )


def constrained(
    name: str,
    problem: Problem,
    x: ArrayLike,
    free: NDArray,
    plain: Problem | None = None,
    is_constant: bool = False,
    multipliers: Any = None,
) -> AnyArray | None:
    """Give where a function is smallest under constraints, as a function of what these depend on.

    Variables that are not `free` stay at their bounds. With `plain`, the problem with values in the
    place of what is active, the derivative is the first one only, and the user's functions are
    recorded once; None if nothing depends on anything active, and `is_constant` then. `multipliers`
    are those that the solver has found, for each constraint with SciPy's signs.

    Raises `ValueError` where the minimum has no derivative.
    """
    x = np.asarray(x, np.float64)
    index = np.flatnonzero(free)
    known = _System(plain or problem, x, index)
    for row in known.rows:
        row.expect_held(name, x)
    if not index.size:
        return _core.asarray(x)
    factors = known.choose(name, multipliers)
    z = np.concatenate([x[index], factors])
    told = f"scipy.optimize.{name}"
    if plain is None:
        found: AnyArray | None = solution(told, known.equation, z)
    else:
        system = _System(problem, x, index)
        system.chosen = known.chosen
        found = plain_solution(told, system.equation, known.equation, z, is_constant=is_constant)
    return None if found is None else known.put(found[: index.size])
