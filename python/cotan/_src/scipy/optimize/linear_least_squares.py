"""Linear least squares with bounds: `scipy.optimize.nnls` and `lsq_linear`.

SciPy says which variables are free. The solution is that of plain least squares in these, and the
others stay at their bounds.
"""

from typing import Any

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.rebind.engine import locate
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import ALWAYS, override
from cotan._src.runtime.values import attach_derivative, contains_active, to_numpy
from cotan._src.state.callback_probe import to_numpy_items

_HERE = "scipy.optimize"


def _of_free(a: Any, b: Any, x: Any, free: Any) -> Any:
    """Give a solution with the derivatives that it has while the same variables are free."""
    held = np.where(free, 0.0, x)
    if not np.any(free):
        return _core.asarray(held)
    columns = np.flatnonzero(free)
    moved = np.linalg.lstsq(a[:, columns], b - a @ held, rcond=None)[0]
    return attach_derivative(x, _core.index_update(_core.asarray(held), columns, moved))


def _dense(a: Any) -> Any:
    """Give what SciPy takes for a matrix, a sparse one or an operator, too, as an array."""
    if hasattr(a, "toarray"):
        return asarray(a.toarray())
    return asarray(a.matmat(np.eye(a.shape[1]))) if hasattr(a, "matmat") else asarray(a)


@override(f"{_HERE}.nnls")
def nnls(A: Any, b: Any, *args: Any, **options: Any) -> Any:  # noqa: N803
    x, _ = locate(f"{_HERE}.nnls")(to_numpy_items(A), to_numpy_items(b), *args, **options)
    a, b = asarray(A), asarray(b).reshape(-1)
    x = _of_free(a, b, x, x > 0)
    return x, np.linalg.norm(a @ x - b)


@override(f"{_HERE}.lsq_linear", when=ALWAYS)
def lsq_linear(A: Any, b: Any, bounds: Any = (-np.inf, np.inf), *args: Any,  # noqa: N803
               **options: Any) -> Any:  # fmt: skip
    if contains_active(bounds):
        raise NotDifferentiableError(
            "lsq_linear: bounds that are differentiated have no derivative rule in "
            "cotan; hold them constant with ct.dropgrad"
        )
    solve = locate(f"{_HERE}.lsq_linear")
    moves = contains_active((A, getattr(A, "data", None)))
    if not moves and not contains_active((b,)):
        return solve(to_numpy_items(A), to_numpy_items(b), to_numpy_items(bounds), *args, **options)
    a, b = _dense(A), np.atleast_1d(asarray(b))
    result = solve(to_numpy(a) if moves else to_numpy_items(A), to_numpy(b),
    to_numpy_items(bounds), *args,
                   **options)  # fmt: skip
    result.x = _of_free(a, b, result.x, result.active_mask == 0)
    result.fun = a @ result.x - b
    if isinstance(result.unbounded_sol, tuple):
        x, *rest = result.unbounded_sol
        result.unbounded_sol = (attach_derivative(x, np.linalg.lstsq(a, b, rcond=None)[0]), *rest)
    result.cost = 0.5 * _core.sum(_core.square(result.fun))
    return result
