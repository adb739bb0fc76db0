"""Bounds and constraints on structures, in SciPy's form.

Problem: SciPy's bounds are pairs, one for each number of a vector, and its constraints are
functions of that vector, whose derivatives it estimates by differences. Here bounds are a structure
of pairs, constraints are functions of the structure, and their derivatives are exact.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from cotan._src.api.second_order import hvp
from cotan._src.optimize.functions import Equations
from cotan._src.optimize.solvers import scipy_module
from cotan._src.optimize.unknowns import Unknowns, result_vector
from cotan._src.runtime.values import is_array
from cotan._src.typing import Args, Function, NDArray

# What None says as a lower and as an upper bound.
_NONE = (-np.inf, np.inf)


def pairs_as_bounds(operation: str, bounds: Any, unknowns: Unknowns) -> Any:
    """Give `scipy.optimize.Bounds` for bounds as `minimize` takes them.

    Those are SciPy's own (an object, or pairs where `x0` is a vector), or a structure like `x0`
    with a pair (low, high) for each leaf. None is no bound, in place of a pair or of an end.
    """
    if bounds is None:
        return None
    Bounds = scipy_module("scipy.optimize").Bounds  # noqa: N806
    if isinstance(bounds, Bounds):
        return _spread(operation, bounds, unknowns)
    entries = unknowns.entries(operation, bounds)
    if len(entries) == 1 and len(entries[0][1]) == 1 and _is_pairs(bounds, unknowns.size):
        pairs = [(None, None) if pair is None else pair for pair in bounds]
        low, high = ([_end(p[i], side) for p in pairs] for i, side in enumerate((-np.inf, np.inf)))
        return Bounds(low, high)
    lows, highs = [], []
    for path, shape, entry in entries:
        low, high = _pair(operation, path, entry)
        lows.append(_filled(operation, path, low, shape, -np.inf))
        highs.append(_filled(operation, path, high, shape, np.inf))
    return Bounds(np.concatenate(lows), np.concatenate(highs))


def _is_pairs(bounds: Any, size: int) -> bool:
    """Say whether bounds are a pair for each element, as SciPy takes them for a vector."""
    if not isinstance(bounds, (list, tuple, np.ndarray)) or len(bounds) != size:
        return False
    return all(b is None or (isinstance(b, (list, tuple, np.ndarray)) and len(b) == 2)
               for b in bounds)  # fmt: skip


def _end(value: Any, default: float) -> Any:
    return default if value is None else value


def _pair(operation: str, path: str, entry: Any) -> tuple[Any, Any]:
    Bounds = scipy_module("scipy.optimize").Bounds  # noqa: N806
    if entry is None:
        return None, None
    if isinstance(entry, Bounds):
        return entry.lb, entry.ub
    if isinstance(entry, (list, tuple)) and len(entry) == 2:
        return entry[0], entry[1]
    raise ValueError(
        f"{operation}: the bounds of {path} must be a pair (low, high) or None, not {entry!r}"
    )


def _filled(
    operation: str, path: str, value: Any, shape: tuple[int, ...], default: float
) -> NDArray:
    value = default if value is None else value
    try:
        return np.broadcast_to(np.asarray(value, float), shape).reshape(-1)
    except (TypeError, ValueError):
        raise ValueError(
            f"{operation}: {path} has shape {shape}, so each of its bounds must be a number, None, "
            f"or an array of that shape, not {value!r}"
        ) from None


def _spread(operation: str, bounds: Any, unknowns: Unknowns) -> Any:
    """Give an object of bounds with an entry for each unknown."""
    new = copy.copy(bounds)
    try:
        new.lb = np.broadcast_to(np.asarray(bounds.lb, float), (unknowns.size,)).copy()
        new.ub = np.broadcast_to(np.asarray(bounds.ub, float), (unknowns.size,)).copy()
    except ValueError:
        raise ValueError(
            f"{operation}: Bounds of shape {np.shape(bounds.lb)} do not fit "
            f"{unknowns.name}, which has {unknowns.size} numbers"
        ) from None
    return new


def ends_as_bounds(operation: str, bounds: Any, unknowns: Unknowns) -> tuple[NDArray, NDArray]:
    """Give two vectors for bounds as `least_squares` takes them.

    Those are `scipy.optimize.Bounds`, or two entries, lower and upper bounds; each a number, or a
    structure like `x0` of numbers and arrays, in which None is no bound.
    """
    Bounds = scipy_module("scipy.optimize").Bounds  # noqa: N806
    if isinstance(bounds, Bounds):
        spread = _spread(operation, bounds, unknowns)
        _expect_between(operation, spread.lb, spread.ub, unknowns)
        return spread.lb, spread.ub
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise ValueError(
            f"{operation}: bounds must be (lower, upper), each a number or a structure like "
            f"{unknowns.name}, not {bounds!r}"
        )
    low, high = (unknowns.spread(operation, b, e) for b, e in zip(bounds, _NONE, strict=True))
    _expect_between(operation, low, high, unknowns)
    return low, high


def _expect_between(operation: str, low: NDArray, high: NDArray, unknowns: Unknowns) -> None:
    """Raise `ValueError` where the starting point is not between its bounds."""
    wrong = np.flatnonzero(~(low < high))
    if wrong.size:
        i = int(wrong[0])
        raise ValueError(
            f"{operation}: {unknowns.name_of(i)} has the bounds {low[i]} and {high[i]}, and the "
            "lower one must be less; wrap what is to be held constant in ct.const"
        )
    start = unknowns.start
    if is_array(start):
        return
    outside = np.flatnonzero((start < low) | (start > high))
    if outside.size:
        i = int(outside[0])
        raise ValueError(
            f"{operation}: {unknowns.name_of(i)} is {start[i]}, outside of its bounds {low[i]} and "
            f"{high[i]}; start from a place between them"
        )


# --------------------------------------------------------------------------------------------------
# Constraints


def exact_constraints(
    operation: str, constraints: Any, unknowns: Unknowns, curved: bool
) -> list[Any]:
    """Give constraints for SciPy whose functions take vectors, with their derivatives.

    `curved` says whether the method wants their second derivatives.
    """
    several = constraints if isinstance(constraints, (list, tuple)) else [constraints]
    return [_exact(operation, c, unknowns, curved) for c in several]


def _exact(operation: str, constraint: Any, unknowns: Unknowns, curved: bool) -> Any:
    solvers = scipy_module("scipy.optimize")
    if isinstance(constraint, solvers.LinearConstraint):
        return constraint
    if isinstance(constraint, solvers.NonlinearConstraint):
        _expect_no_derivatives(operation, constraint.jac, ("2-point", "3-point", "cs"))
        equations = Equations(operation, constraint.fun, unknowns)
        return solvers.NonlinearConstraint(
            equations.values,
            *(_wide(operation, end) for end in (constraint.lb, constraint.ub)),
            jac=equations.jacobian,
            keep_feasible=constraint.keep_feasible,
            **({"hess": _curvature(equations)} if curved else {}),
        )
    if isinstance(constraint, dict) and callable(constraint.get("fun")):
        _expect_no_derivatives(operation, constraint.get("jac"), (None,))
        equations = Equations(operation, constraint["fun"], unknowns)
        return constraint | {"fun": equations.values, "jac": equations.jacobian}
    raise TypeError(
        f"{operation}: a constraint must be a LinearConstraint, a NonlinearConstraint or a "
        f"dictionary with 'type' and 'fun', not {constraint!r}"
    )


def _expect_no_derivatives(operation: str, jac: object, usual: Sequence[object]) -> None:
    if jac is not None and jac not in usual:
        raise ValueError(
            f"{operation}: derivatives of constraints are computed; leave out jac={jac!r}"
        )


def _wide(operation: str, end: Any) -> Any:
    """Give the limit of a constraint: a number, or a structure like what the function returns."""
    if isinstance(end, (int, float, np.ndarray, np.number)):
        return end
    numbers, _ = result_vector(operation, end)
    return numbers


def _curvature(equations: Equations) -> Function:
    """Give the function that gives the Hessian of a weighted sum of results, as an operator."""
    operators = scipy_module("scipy.sparse.linalg")

    def hessian(x: NDArray, weights: NDArray, *args: Args) -> Any:
        def total(x: Any) -> Any:
            return equations.values(x, *args) @ weights

        return operators.LinearOperator(
            (x.size, x.size), matvec=lambda v: hvp(total, x, np.reshape(v, -1)), dtype=float
        )

    return hessian
