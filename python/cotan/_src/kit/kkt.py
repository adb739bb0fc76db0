"""Derivatives of constrained minima, by the Karush-Kuhn-Tucker conditions.

Where the solver stopped, the gradient of the objective is a combination of the gradients of the
active constraints. The point and the factors of that combination, the multipliers, solve a system
of equations, which gives their derivatives (`kit.implicit_diff`).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.kit.bounds import WEAK, distances, limits_of, refuse_kink
from cotan._src.kit.implicit_diff import FAR, jacobian, plain_solution, solution, stacked
from cotan._src.rebind.engine import locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.values import to_numpy
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.typing import AnyArray, ArrayLike, NDArray

# Nearer to its bound than this, a constraint holds with equality.
_NEAR = 1e-6
# Nearer to its bound than this part of its size, or of 1, a variable may be held there.
_AT_BOUND = 1e-8
# Slopes of constraints, scaled to length 1, depend on each other from here on.
_DEPENDENT = 1e-10
# Nearer to its bound than this part of all variables, a variable lies at it.
_ROUNDING = 1e-14

_Function = Callable[[AnyArray], ArrayLike]


class _Rows:
    """What a constraint says: which elements of a function are zero, or are positive or zero."""

    def __init__(
        self,
        function: _Function,
        equal: NDArray | bool,
        sign: float = 1.0,
        number: int = 0,
        skipped: NDArray | bool = False,
    ) -> None:
        self.function, self.equal, self.sign = function, equal, sign
        # Elements that another one says already.
        self.skipped = skipped
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
                found |= pushes > np.abs(values)
        found &= ~np.broadcast_to(self.skipped, values.shape)
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
            yield _Rows(above, False, -1.0, number, skipped=equal)


class Problem(NamedTuple):
    """What is smallest, and under which constraints."""

    function: _Function
    constraints: Any


class _System:
    """The conditions for a minimum in the variables that are free, and multipliers."""

    def __init__(self, problem: Problem, x: NDArray, index: NDArray) -> None:
        self._function, self._x, self.index = problem.function, x, index
        self.rows = list(_rows(problem.constraints))
        # Of each row the elements that hold with equality.
        self.chosen: list[NDArray] = []

    def put(self, v: AnyArray) -> AnyArray:
        """Give the whole point."""
        index = self.index
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
        size = self.index.size
        v, factors = z[:size], z[size:]
        return np.concatenate([asarray(self.slope(v, factors)), asarray(self.active(v))])

    def choose(self, name: str, limits: tuple[NDArray, NDArray], multipliers: Any) -> NDArray:
        """Find which constraints hold with equality, and which variables stay at their bounds.

        Gives the multipliers of the constraints.
        """
        rows, x, index = self.rows, self._x, self.index
        start = x[index]
        self.chosen = [np.flatnonzero(r.near(x, multipliers)) for r in rows]
        far, way = (part[index] for part in distances(limits, x))
        held = np.flatnonzero(self._near_bounds(far, way, multipliers))
        gradient = to_numpy_items(self.slope(start, np.zeros(0)))
        scale = max(float(np.linalg.norm(gradient)), float(np.finfo(float).tiny))
        rounding, is_first = _ROUNDING * np.max(np.abs(x), initial=0.0), True
        while True:
            count = sum(i.size for i in self.chosen)
            matrix = jacobian(self.active, start) if count else np.zeros((0, start.size))
            pairs = list(zip(rows, self.chosen, strict=True))
            signs = np.concatenate([np.zeros(0), *(np.full(i.size, r.sign) for r, i in pairs)])
            parts = [np.broadcast_to(r.equal, r.at(x).shape)[i] for r, i in pairs]
            fixed = np.concatenate([np.zeros(0, bool), *parts])
            if is_first and held.size:
                held = _independent(matrix * signs[:, None], fixed, held, way, gradient)
            is_first = False
            walls = np.zeros((held.size, start.size))
            walls[np.arange(held.size), held] = -way[held]
            whole = np.vstack([matrix, walls])
            factors: NDArray = np.linalg.lstsq(whole.T, gradient, rcond=None)[0]
            lengths = np.linalg.norm(whole, axis=1)
            pushes = factors * np.append(signs, np.ones(held.size))
            pushes[:count][fixed] = np.inf
            pulls = pushes * lengths <= -WEAK * scale
            # A variable that is not pushed into its bound, and has not stopped there, is free.
            pulls[count:] |= (pushes[count:] <= WEAK * scale) & (far[held] > rounding)
            if not np.any(pulls):
                break
            # What pulls is not in the way.
            sizes = pushes * np.where(lengths > 0, lengths, 1.0)
            worst = int(np.argmin(np.where(pulls, sizes, np.inf)))
            if worst >= count:
                held = np.delete(held, worst - count)
                continue
            for place, i in enumerate(self.chosen):
                if worst < i.size:
                    self.chosen[place] = np.delete(i, worst)
                    break
                worst -= i.size
        self._expect_regular(name, whole, pushes * lengths, scale, index[held])
        self.index = np.delete(index, held)
        return factors[:count]

    def _near_bounds(self, far: NDArray, way: NDArray, multipliers: Any) -> NDArray:
        """Say which variables may stay at their bounds; interior point methods stop before."""
        found: NDArray = far <= _AT_BOUND * np.maximum(1, np.abs(self._x[self.index]))
        count = 1 + max((r.number for r in self.rows), default=-1)
        if multipliers is not None and len(multipliers) == count + 1:
            # Those of bounds come last.
            pushes = np.reshape(multipliers[count], -1)
            if pushes.shape == self._x.shape:
                found = found | (way * pushes[self.index] > far)
        return found

    def _expect_regular(
        self, name: str, matrix: NDArray, pushes: NDArray, scale: float, held: NDArray
    ) -> None:
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
        weak = np.flatnonzero(pushes <= WEAK * scale)
        if weak.size:
            count = len(matrix) - held.size
            if weak[0] >= count:
                refuse_kink(name, int(held[weak[0] - count]))
            numbers = [r.number for r, i in zip(self.rows, self.chosen, strict=True) for _ in i]
            raise ValueError(
                f"{where} constraint {numbers[weak[0]]} holds with equality, but is not needed for "
                "that (its multiplier is zero): to one side it would begin to matter, so the "
                "minimum has a kink here and no derivative; leave the constraint out, look a "
                "little to the side, or hold the result constant with ct.dropgrad"
            )


def _independent(
    matrix: NDArray, fixed: NDArray, held: NDArray, way: NDArray, gradient: NDArray
) -> NDArray:
    """Leave out bounds that follow from constraints and other bounds.

    Where weights of sum 1 between 0 and 1 are all 0 but one, the bound of that one follows.
    """
    walls = np.zeros((held.size, gradient.size))
    walls[np.arange(held.size), held] = -way[held]
    whole = np.vstack([matrix, walls])
    if np.linalg.matrix_rank(whole, _DEPENDENT) == len(whole):
        return held
    columns = np.vstack([whole, -matrix[fixed]]).T
    factors = locate_original("scipy.optimize.nnls")(columns, gradient)[0]
    pushes = factors[len(matrix) : len(whole)]
    kept = [matrix, walls[pushes > 0]]
    chosen = list(np.flatnonzero(pushes > 0))
    for i in np.flatnonzero(pushes <= 0):
        more = np.vstack([*kept, walls[i : i + 1]])
        if np.linalg.matrix_rank(more, _DEPENDENT) > np.linalg.matrix_rank(more[:-1], _DEPENDENT):
            kept.append(walls[i : i + 1])
            chosen.append(i)
    return held[np.sort(np.array(chosen, np.intp))]


def constrained(
    name: str,
    problem: Problem,
    x: ArrayLike,
    bounds: Any,
    plain: Problem | None = None,
    is_constant: bool = False,
    multipliers: Any = None,
) -> AnyArray | None:
    """Give where a function is smallest under constraints, as a function of what these depend on.

    Variables that are pushed into one of `bounds`, of any form of SciPy's, stay there. With
    `plain`, the problem with values in the place of what is active, the derivative is the first one
    only, and the user's functions are recorded once; None if nothing depends on anything active,
    and `is_constant` then. `multipliers` are those that the solver has found, for each constraint
    with SciPy's signs, and last those of bounds.

    Raises `ValueError` where the minimum has no derivative.
    """
    x = np.asarray(x, np.float64)
    limits = limits_of(bounds, x)
    index = np.flatnonzero(limits[0] != limits[1])
    known = _System(plain or problem, x, index)
    for row in known.rows:
        row.expect_held(name, x)
    if not index.size:
        return _core.asarray(x)
    factors = known.choose(name, limits, multipliers)
    index = known.index
    if not index.size:
        return _core.asarray(x)
    z = np.concatenate([x[index], factors])
    told = f"scipy.optimize.{name}"
    if plain is None:
        found: AnyArray | None = solution(told, known.equation, z)
    else:
        system = _System(problem, x, index)
        system.chosen = known.chosen
        found = plain_solution(told, system.equation, known.equation, z, is_constant=is_constant)
    return None if found is None else known.put(found[: index.size])
