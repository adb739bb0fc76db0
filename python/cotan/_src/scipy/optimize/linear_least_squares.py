"""Overrides of linear least squares with bounds: `scipy.optimize.nnls` and `lsq_linear`.

SciPy finds which variables are free. The solution is that of plain least squares in these; the
others stay at their bounds.
"""

from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.rebind.engine import locate, locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import ALWAYS, override
from cotan._src.runtime.values import attach_derivative, contains_active, python_number, to_numpy
from cotan._src.scipy.optimize.solver_arguments import (
    Bounds,
    FitResult,
)
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.typing import AnyArray, ArrayLike, NDArray, Scalar

_HERE = "scipy.optimize"


def _of_free(a: AnyArray, b: AnyArray, x: AnyArray, free: NDArray) -> Array:
    """Give a solution with the derivatives that it has while the same variables are free."""
    fixed = np.where(free, 0.0, x)
    if not np.any(free):
        return _core.asarray(fixed)
    columns = np.flatnonzero(free)
    moved = np.linalg.lstsq(a[:, columns], b - a @ fixed, rcond=None)[0]
    solution = _core.index_update(_core.asarray(fixed), columns, moved)
    return attach_derivative(x, solution)


def _dense(a: Any) -> AnyArray:
    """Give what SciPy takes for a matrix, a sparse one or an operator, too, as an array."""
    dense: AnyArray
    if hasattr(a, "toarray"):
        dense = asarray(a.toarray())
    else:
        dense = asarray(a.matmat(np.eye(a.shape[1]))) if hasattr(a, "matmat") else asarray(a)
    return dense


@override(f"{_HERE}.nnls")
def nnls(A: ArrayLike, b: ArrayLike, *args: object,  # noqa: N803
         **options: object) -> tuple[Array, Scalar]:  # fmt: skip
    x, _ = locate(f"{_HERE}.nnls")(to_numpy_items(A), to_numpy_items(b), *args, **options)
    a = asarray(A)
    right = asarray(b).reshape(-1)
    x = _of_free(a, right, x, x > 0)
    return x, python_number(np.linalg.norm(a @ x - right))


@override(f"{_HERE}.lsq_linear", when=ALWAYS)
def lsq_linear(A: ArrayLike, b: ArrayLike,  # noqa: N803
               bounds: Bounds | tuple[ArrayLike, ArrayLike] = (-np.inf, np.inf), *args: object,
               **options: object) -> FitResult:  # fmt: skip
    if contains_active(bounds):
        raise NotDifferentiableError(
            "lsq_linear: active bounds have no derivative rule in cotan; hold them constant with "
            "ct.dropgrad"
        )
    result: FitResult
    solve = locate_original(f"{_HERE}.lsq_linear")
    moves = contains_active((A, getattr(A, "data", None)))
    if not moves and not contains_active((b,)):
        result = solve(
            to_numpy_items(A), to_numpy_items(b), to_numpy_items(bounds), *args, **options
        )
        return result
    a, right = _dense(A), np.atleast_1d(asarray(b))
    result = solve(to_numpy(a) if moves else to_numpy_items(A), to_numpy(right),
    to_numpy_items(bounds), *args,
                   **options)  # fmt: skip
    result.x = _of_free(a, right, result.x, result.active_mask == 0)
    result.fun = a @ result.x - right
    if isinstance(result.unbounded_sol, tuple):
        x, *rest = result.unbounded_sol
        free = np.linalg.lstsq(a, right, rcond=None)[0]
        result.unbounded_sol = (attach_derivative(x, free), *rest)
    result.cost = 0.5 * _core.sum(_core.square(result.fun))
    return result
