"""Minima of functions of structures: `minimize`.

SciPy's methods do the work. They get a vector in place of the structure, and gradients, products
with the Hessian and derivatives of constraints that are exact.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from cotan._src.optimize.functions import Objective
from cotan._src.optimize.limits import exact_constraints, pairs_as_bounds
from cotan._src.optimize.progress import Watch, Watcher
from cotan._src.optimize.solvers import scipy_module
from cotan._src.optimize.unknowns import Unknowns
from cotan._src.typing import Function

# The methods of SciPy, by what they want to know.
_WITHOUT_GRADIENT = {"nelder-mead", "powell", "cobyla", "cobyqa"}
_WITH_PRODUCTS = {"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"}
_WITH_HESSIAN = {"dogleg", "trust-exact"}
# They call back with the vector alone.
_PLAIN_CALLBACK = {"tnc", "cobyla", "cobyqa"}

#: What solvers of SciPy return: attributes and items.
OptimizeResult: TypeAlias = Any


def minimize(
    fun: Function,
    x0: object,
    args: object = (),
    method: str | Function | None = None,
    *,
    bounds: object = None,
    constraints: object = (),
    tol: float | None = None,
    callback: Function | None = None,
    options: Mapping[str, object] | None = None,
    progress: Watcher = False,
    explain: bool = False,
) -> OptimizeResult:
    """Minimise a function of any structure with a method of `scipy.optimize.minimize`.

    Gradients, Hessians and derivatives of constraints are computed, exactly, where the method wants
    them. What gives them is prepared once (`ct.prepare`), or run as it is if that is not possible.

    Parameters
    ----------
    fun
        `fun(x, *args)` gives the real number that is to be minimised; `x` has the structure of
        `x0`.
    x0
        The place to start from: any structure of arrays and numbers. What is varied are the leaves
        that `ct.gradient` would give gradients of; `ct.const` holds a part constant. A list is a
        structure: SciPy's `[1.0, 2.0]` is `np.array([1.0, 2.0])` here. Integers count
        as floats where `x0` is one, an array of them, or a list or tuple; inside other structures
        they are data. Complex numbers are varied in both parts.
    args
        Further arguments: a tuple, or one argument that is none.
    method
        As for SciPy, which chooses if it is None: BFGS, L-BFGS-B under bounds, SLSQP under
        constraints.
    bounds
        A structure like `x0` with a pair `(low, high)` for each leaf, in which each end is a
        number, an array of the leaf's shape, or None for no bound; None for a leaf without. SciPy's
        forms count too: `Bounds`, or, where `x0` is a vector, a pair for each element.
    constraints
        One, or a list: `NonlinearConstraint` or dictionaries, whose functions take the structure
        and return any; or `LinearConstraint`, whose matrix multiplies the vector `ct.ravel(x0)[0]`.
        Their derivatives need not be given.
    tol, options
        As for SciPy.
    callback
        Called after each iteration as `callback(x)` with the structure, or with SciPy's report if
        its only parameter is called `intermediate_result`. `StopIteration` ends the search.
    progress
        True prints a line to the standard error after each iteration; a function is called with a
        `Progress`.
    explain
        Whether the result says in `explanation` how the derivatives were computed: prepared, or why
        not.

    Returns
    -------
    scipy.optimize.OptimizeResult
        `x` has the structure of `x0`, dtypes too, and `jac` that of its gradient. Matrices, such as
        `hess_inv`, belong to the vector of `ct.ravel`.

    Raises
    ------
    TypeError
        When `x0` has nothing that can be varied, or a constraint is not one.
    ValueError
        When the function returns no number, or bounds do not fit `x0`; the message has the path.
    ImportError
        Without SciPy.

    Notes
    -----
    Inside a function that is being differentiated, the minimum has the derivative that the implicit
    function theorem gives it, as with `scipy.optimize.minimize` itself.

    >>> import cotan as ct
    >>> import numpy as np
    >>> def f(p):
    ...     return np.sum((p["w"] - 1.0) ** 2) + (p["b"] - p["w"][0]) ** 2
    >>> found = ct.optimize.minimize(f, {"w": np.zeros(2), "b": 5.0}, bounds={"w": (0.0, 0.5)})
    >>> found.success, found.x
    (True, {'w': array([0.5, 0.5]), 'b': 0.5})
    """
    solvers = scipy_module("scipy.optimize")

    name = "optimize.minimize"
    unknowns = Unknowns(name, x0)
    objective = Objective(name, fun, unknowns)
    kind = method.lower() if isinstance(method, str) else ""
    watch = Watch(unknowns, callback, progress, objective.recall)
    given: dict[str, Any] = {}
    if kind in _WITHOUT_GRADIENT:
        function = objective.value
    else:
        function = objective.value_and_gradient
        given["jac"] = True
    if kind in _WITH_PRODUCTS or callable(method):
        given["hessp"] = objective.product
    elif kind in _WITH_HESSIAN:
        given["hess"] = objective.hessian
    if watch.is_needed:
        plain = kind in _PLAIN_CALLBACK
        given["callback"] = watch.after_step if plain else watch.after_iteration
    if not _is_empty(constraints):
        given["constraints"] = exact_constraints(name, constraints, unknowns, "hessp" in given)
    result = solvers.minimize(
        function,
        unknowns.start,
        args if isinstance(args, tuple) else (args,),
        method,
        bounds=pairs_as_bounds(name, bounds, unknowns),
        tol=tol,
        options=options,
        **given,
    )
    if explain:
        result.explanation = objective.how
    return with_structure(result, unknowns)


def _is_empty(constraints: object) -> bool:
    return constraints is None or (isinstance(constraints, (list, tuple)) and not constraints)


def with_structure(result: OptimizeResult, unknowns: Unknowns) -> OptimizeResult:
    """Put structures into a result: the solution, and the gradient there."""
    for key in ("jac", "grad"):
        # Some methods have the gradient under one of the names, and a matrix under the other.
        if np.shape(result.get(key)) == (unknowns.size,):
            result[key] = unknowns.cotangent(result[key])
    result.x = unknowns.structure(result.x)
    return result
