"""Implicit differentiation of the user's solvers: roots, fixed points, minima, linear systems.

Problem: a solver iterates until an equation holds. What it returns depends on the parameters by
that equation, not by the way that the iterations took. So the solver runs on values, and the
derivative is that of the implicit function theorem (`kit.implicit_diff`).
"""

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.kit.host_call import linear
from cotan._src.kit.implicit_diff import (
    recorded_jacobian,
    recorded_solution,
    solution,
    stacked,
)
from cotan._src.kit.linear_systems import LinearSolver, Product, krylov, products
from cotan._src.runtime.values import is_active, is_known, to_numpy
from cotan._src.tree.argument_refusal import expect_function
from cotan._src.tree.ravel import Unravel, ravel
from cotan._src.tree.tangent import leaves_of, map_leaves
from cotan._src.typing import AnyArray, Args, Function, Kwargs, NDArray, P, R

_METHODS = ("gmres", "cg")
#: How linear systems with the derivative of the equation are solved.
_Linear: TypeAlias = str | LinearSolver
#: The equation as a function of how to unravel, of the parameters and of the unknown, a vector.
_Equation: TypeAlias = Callable[[Unravel, Args, AnyArray], AnyArray]
_Decorator: TypeAlias = Callable[[Callable[P, R]], Callable[P, R]]


def root(
    residual: Function,
    *,
    has_aux: bool = False,
    tol: float | None = None,
    linear_solver: _Linear = "dense",
) -> _Decorator[P, R]:
    """Give a solver of an equation the derivative that the equation implies.

    Parameters
    ----------
    residual
        `residual(x, *params)` is zero at the solution; of the structure of `x`, or another one with
        as many numbers.
    has_aux
        Whether the solver returns a pair, of which the second entry has no derivative.
    tol
        The largest absolute value of the residual at what the solver returns; else it is an error.
        By default a solution is refused that a step of Newton's method would move by more than one
        percent. Infinity checks nothing.
    linear_solver
        How linear systems with the Jacobian of `residual` with respect to `x` are solved:
        `"dense"`, which forms the Jacobian; `"gmres"` or `"cg"` of SciPy, which use products only
        (`"cg"` for a positive definite Jacobian); or a function `linear_solver(product, b)` of
        vectors.

    Returns
    -------
    callable
        A decorator of solvers `solver(init, *params, **options)`, which return `x`: any structure
        of arrays and numbers. The solver gets plain values, so it may be written with any library.
        Derivatives are with respect to `params` and to what `residual` closes over, of any order;
        the result does not depend on `init`.

    Raises
    ------
    ValueError
        From the call, when the Jacobian is singular, the solver did not converge, or the residual
        has another number of elements than `x`.
    TypeError
        From the call, when an option is being differentiated, or unknowns are partly complex.

    Notes
    -----
    Nothing is checked, and nothing but the solver runs, where nothing is differentiated. Inside
    `vmap`, where values are not known, the solver is recorded, so it cannot branch on them; `tol`
    makes examples NaN that have not converged. A prepared function calls the solver in every
    replay. There `linear_solver` has to be `"dense"`.

    Source: Blondel and others, Efficient and modular implicit differentiation (2022); Krantz and
    Parks, The implicit function theorem (2002).

    >>> import cotan as ct
    >>> @ct.implicit.root(lambda x, a: x**3 + x - a)
    ... def solve(x, a):
    ...     for _ in range(50):
    ...         x = x - (x**3 + x - a) / (3 * x**2 + 1)
    ...     return x
    >>> ct.grad(lambda a: solve(1.0, a))(10.0)
    0.07692307692307693
    """
    expect_function("root", "residual", residual)

    def equation(unravel: Unravel, params: Args, v: AnyArray) -> AnyArray:
        r: AnyArray = ravel(residual(unravel(v), *params))[0]
        return _of_size("root", "the residual", r, unravel)

    return _decorator("root", equation, has_aux, tol, linear_solver)


def fixed_point(
    function: Function,
    *,
    has_aux: bool = False,
    tol: float | None = None,
    linear_solver: _Linear = "dense",
) -> _Decorator[P, R]:
    """Give a solver of `x = function(x, *params)` the derivative that the equation implies.

    Parameters
    ----------
    function
        From `x` and the parameters to the structure of `x`.
    has_aux, tol, linear_solver
        As for `root`; `tol` bounds `function(x, *params) - x`.

    Returns
    -------
    callable
        As for `root`.

    Raises
    ------
    ValueError, TypeError
        As for `root`.

    >>> import cotan as ct
    >>> import numpy as np
    >>> @ct.implicit.fixed_point(lambda x, a: np.cos(a * x))
    ... def solve(x, a):
    ...     for _ in range(200):
    ...         x = np.cos(a * x)
    ...     return x
    >>> round(ct.grad(lambda a: solve(0.5, a))(1.0), 8)
    -0.29747434
    """
    expect_function("fixed_point", "function", function)

    def equation(unravel: Unravel, params: Args, v: AnyArray) -> AnyArray:
        image: AnyArray = ravel(function(unravel(v), *params))[0]
        return _of_size("fixed_point", "the result of the function", image, unravel) - v

    return _decorator("fixed_point", equation, has_aux, tol, linear_solver)


def minimiser(
    objective: Function,
    *,
    has_aux: bool = False,
    tol: float | None = None,
    linear_solver: _Linear = "dense",
) -> _Decorator[P, R]:
    """Give a solver that minimises a function the derivative of the minimum's place.

    It follows from the gradient of the objective, which is zero there: so the minimum must not lie
    at a bound.

    Parameters
    ----------
    objective
        `objective(x, *params)` gives a real scalar.
    has_aux, tol, linear_solver
        As for `root`; `tol` bounds the gradient. The matrix is the Hessian, so `"cg"` fits.

    Returns
    -------
    callable
        As for `root`.

    Raises
    ------
    ValueError, TypeError
        As for `root`.

    >>> import cotan as ct
    >>> import numpy as np
    >>> @ct.implicit.minimiser(lambda x, a: np.sum((x - a) ** 2 + x**4))
    ... def solve(x, a):
    ...     for _ in range(30):
    ...         x = x - (2 * (x - a) + 4 * x**3) / (2 + 12 * x**2)
    ...     return x
    >>> a = np.array([3.0, 18.0])
    >>> solve(np.zeros(2), a)
    array([1., 2.])
    >>> ct.gradient(lambda a: np.sum(solve(np.zeros(2), a)), a)
    (array([0.14285714, 0.04      ]),)
    """
    expect_function("minimiser", "objective", objective)

    def equation(unravel: Unravel, params: Args, v: AnyArray) -> AnyArray:
        (slope,) = _core.gradient(lambda v: objective(unravel(v), *params), v)
        if slope is None:
            raise ValueError("minimiser: the objective does not depend on the unknown")
        gradient: AnyArray = slope
        return gradient

    return _decorator("minimiser", equation, has_aux, tol, linear_solver)


def linear_solve(
    matvec: Callable[[R], R],
    b: R,
    solve: str | Callable[[Callable[[R], R], R], R] = "dense",
    *,
    transpose_solve: Callable[[Callable[[R], R], R], R] | None = None,
    symmetric: bool = False,
) -> R:
    """Solve a linear system whose matrix is known by its product with a vector.

    Parameters
    ----------
    matvec
        A linear function from the structure of `b` to one like it. It may depend on what is being
        differentiated.
    b
        The right-hand side: any structure of arrays and numbers.
    solve
        `"dense"`, which forms the matrix; `"gmres"` or `"cg"` of SciPy; or a function
        `solve(matvec, b)`, which gets and gives values.
    transpose_solve
        Solves systems with the transposed matrix: `transpose_solve(vecmat, b)`; `solve` by
        default.
    symmetric
        Whether the matrix is symmetric, so that no transposed product is needed.

    Returns
    -------
    The solution, of the structure of `b`. It has derivatives of any order with respect to `b` and
    to what `matvec` depends on, by further systems, not through iterations.

    Raises
    ------
    LinAlgError
        With `"dense"`, when the matrix is singular.
    ValueError
        When `matvec` is not linear, gives another number of elements than `b` has, or an iterative
        method does not converge.
    TypeError
        When `b` is partly complex; and for all but `"dense"` inside `vmap` and in prepared
        functions, where values are not known.

    Notes
    -----
    As `lax.custom_linear_solve` of JAX.

    >>> import cotan as ct
    >>> import numpy as np
    >>> def solution(k, b):
    ...     return ct.implicit.linear_solve(lambda x: k * x + np.roll(x, 1), b, "gmres")
    >>> b = np.array([3.0, 3.0, 6.0])
    >>> solution(2.0, b)
    array([0.33333333, 1.33333333, 2.33333333])
    >>> ct.gradient(lambda k: np.sum(solution(k, b)), 2.0)
    (-1.33333333...,)
    """
    name = "linear_solve"
    expect_function(name, "matvec", matvec)
    if isinstance(solve, str) and solve not in ("dense", *_METHODS):
        raise ValueError(
            f"{name}: solve must be one of dense, {', '.join(_METHODS)}, or a function"
        )
    right, unravel = _raveled(name, b)

    def product(v: AnyArray) -> AnyArray:
        image: AnyArray = ravel(matvec(unravel(v)))[0]
        return _of_size(name, "the result of matvec", image, unravel)

    zeros = np.zeros(right.shape, right.dtype)
    origin = product(zeros)
    if all(map(is_known, (right, origin))):
        if np.any(to_numpy(origin)):
            raise ValueError(f"{name}: matvec is not linear: it does not map zeros to zeros")
    elif solve != "dense":
        raise TypeError(
            f"{name}: solve={solve!r} needs values, which are not known inside vmap and in "
            "prepared functions; use 'dense' there"
        )
    if solve == "dense":
        matrix = recorded_jacobian(lambda v: stacked(product(v)), zeros)
        solved: R = _like(b, unravel, np.linalg.solve(matrix, right))
        return solved
    if isinstance(solve, str):
        forward = backward = krylov(name, solve)
    else:
        forward = _of_vectors(solve, unravel)
        backward = forward if transpose_solve is None else _of_vectors(transpose_solve, unravel)
    forth, back = products(lambda v: stacked(product(v)), zeros)
    if symmetric:
        back, backward = forth, forward
    values = np.asarray(to_numpy(right))
    x = forward(forth, values)
    residual = product(_core.asarray(x)) - right
    if not is_active(residual):
        constant: R = _like(b, unravel, x)
        return constant
    step = linear(name, lambda r: forward(forth, r), lambda ct: backward(back, ct))
    moved = _core.asarray(x)
    for _ in range(max(1, _core.nestlevel())):
        moved = moved - step(product(moved) - right)
    result: R = unravel(_core.asarray(x) + (moved - _core.dropgrad(moved)))
    return result


def _of_vectors(solve: Function, unravel: Unravel) -> LinearSolver:
    """Give a solver of structures as one of vectors."""

    def of_vectors(product: Product, b: NDArray) -> NDArray:
        matvec = lambda tree: unravel(product(np.asarray(to_numpy(ravel(tree)[0]))))  # noqa: E731
        x: NDArray = np.asarray(to_numpy(ravel(_plain(solve(matvec, unravel(b))))[0]))
        return x

    return of_vectors


def _like(tree: Any, unravel: Unravel, vector: AnyArray) -> Any:
    """Give a vector as the structure: of plain arrays where nothing is recorded."""
    if isinstance(vector, Array) and not _records(tree, vector):
        return unravel(_core.value(vector))
    return unravel(vector)


def _records(*trees: object) -> bool:
    leaves = [leaf for tree in trees for leaf in leaves_of(tree)]
    return any(is_active(leaf) or not is_known(leaf) for leaf in leaves)


# --------------------------------------------------------------------------------------------------
# Solvers with an equation


def _decorator(
    name: str, equation: _Equation, has_aux: bool, tol: float | None, linear_solver: _Linear
) -> _Decorator[P, R]:
    if isinstance(linear_solver, str):
        if linear_solver not in ("dense", *_METHODS):
            raise ValueError(
                f"{name}: linear_solver must be one of dense, {', '.join(_METHODS)}, or a function "
                f"(product, b) -> x, not {linear_solver!r}"
            )
        method = None if linear_solver == "dense" else krylov(name, linear_solver)
    else:
        expect_function(name, "linear_solver", linear_solver)
        method = linear_solver

    def decorate(solver: Callable[P, R]) -> Callable[P, R]:
        expect_function(name, "the solver", solver)
        implicit = _Implicit(name, solver, equation, has_aux, tol, method)

        @functools.wraps(solver)
        def solved(*args: P.args, **kwargs: P.kwargs) -> R:
            result: R = implicit.solve(args, kwargs)
            return result

        return solved

    return decorate


class _Implicit:
    """A solver, and the equation that holds for what it returns."""

    def __init__(
        self,
        name: str,
        solver: Function,
        equation: _Equation,
        has_aux: bool,
        tol: float | None,
        method: LinearSolver | None,
    ) -> None:
        self._called = getattr(solver, "__name__", type(solver).__name__)
        self._name = f"{name} {self._called}"
        self._solver = solver
        self._equation = equation
        self._has_aux = has_aux
        self._tol = tol
        self._method = method

    def solve(self, args: Args, kwargs: Kwargs) -> Any:
        """Run the solver on values, and give what it returns its derivative."""
        leaves = leaves_of((args, kwargs))
        if any(map(is_active, leaves_of(kwargs))):
            raise TypeError(
                f"{self._name}: an option is being differentiated, but options do not enter the "
                "equation; pass it by position, or hold it constant with ct.dropgrad"
            )
        unknown = [leaf for leaf in leaves if not is_known(leaf)]
        if any(map(_core.is_mapped, unknown)):
            return self._recorded(args, self._run(args, kwargs, _constant))
        if unknown:
            return self._called_back(args, kwargs)
        result, aux = self._run(args, kwargs, _value)
        if not all(map(is_known, leaves_of(result))):
            return self._recorded(args, (result, aux))
        if isinstance(result, int):
            result = float(result)
        x, unravel = _raveled(self._name, result)
        equation = functools.partial(self._equation, unravel, args[1:])
        residual = equation(_core.asarray(x))
        self._check(residual)
        if is_active(residual):
            check = self._tol is None
            result = unravel(solution(self._name, equation, x, check=check, solver=self._method))
        return (result, aux) if self._has_aux else result

    def _run(self, args: Args, kwargs: Kwargs, constant: Function) -> tuple[Any, Any]:
        """Run the solver on arguments that are held constant; gives the solution and the rest."""
        result = self._solver(*map_leaves(constant, args), **map_leaves(constant, kwargs))
        if not self._has_aux:
            return map_leaves(constant, result), None
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"{self._name}: with has_aux the solver must return a pair (x, aux), not "
                f"{type(result).__name__}"
            )
        return map_leaves(constant, result[0]), map_leaves(constant, result[1])

    def _check(self, residual: AnyArray) -> None:
        if self._tol is None:
            return
        size = np.max(np.abs(to_numpy(residual)), initial=0.0)
        if not size <= self._tol:
            raise ValueError(
                f"{self._name}: the solver did not converge: the residual at its result is "
                f"{size:.3g}, above tol={self._tol:.3g}"
            )

    def _recorded(self, args: Args, found: tuple[Any, Any]) -> Any:
        """Give a solution its derivative where it is recorded, and so has no value yet."""
        self._expect_dense()
        result, aux = found
        x, unravel = _raveled(self._name, result)
        equation = functools.partial(self._equation, unravel, args[1:])
        y = recorded_solution(self._name, equation, _core.asarray(x))
        if self._tol is not None:
            size = _core.max(_core.abs(_core.dropgrad(equation(y))))
            y = _core.where(_core.le(size, self._tol), y, np.nan)
        return (unravel(y), aux) if self._has_aux else unravel(y)

    def _called_back(self, args: Args, kwargs: Kwargs) -> Any:
        """Let the program call the solver: each run of it has other values."""
        self._expect_dense()
        if self._has_aux:
            raise TypeError(
                f"{self._name}: has_aux is not supported in prepared and traced functions"
            )
        structure = _core.structure((args, kwargs))
        leaves = structure.leaves
        known_later = [i for i, leaf in enumerate(leaves) if not is_known(leaf)]
        found: list[Unravel] = []

        def function(*values: Array) -> tuple[NDArray]:
            filled = list(leaves)
            for i, value in zip(known_later, values, strict=True):
                filled[i] = to_numpy(value)
            positional, named = structure.build(filled)
            result, _ = self._run(positional, named, _value)
            x, unravel = _raveled(self._name, result)
            self._check(self._equation(unravel, positional[1:], x))
            found.append(unravel)
            return (np.asarray(to_numpy(x)),)

        x = _core.call_back(function, _unused, self._name, [leaves[i] for i in known_later])
        unravel = found[0]
        equation = functools.partial(self._equation, unravel, args[1:])
        return unravel(recorded_solution(self._name, equation, x))

    def _expect_dense(self) -> None:
        if self._method is not None:
            raise TypeError(
                f"{self._name}: linear_solver has to be 'dense' inside vmap and in prepared "
                "functions"
            )


def _unused(*_: object) -> object:
    raise AssertionError("what the solver gives is held constant")


def _constant(leaf: object) -> object:
    return _core.dropgrad(leaf) if isinstance(leaf, Array) else leaf


def _value(leaf: object) -> object:
    return to_numpy(leaf) if isinstance(leaf, Array) and is_known(leaf) else _constant(leaf)


def _plain(tree: Any) -> Any:
    return map_leaves(_value, tree)


def _raveled(name: str, tree: object) -> tuple[AnyArray, Unravel]:
    """Give unknowns as a vector; refuse those that cannot be differentiated together."""
    vector, unravel = ravel(tree)
    if not unravel.size:
        raise TypeError(
            f"{name}: the unknown must hold floating or complex numbers, not {tree!r:.60}"
        )
    kinds = {np.asarray(leaf).dtype.kind for leaf in leaves_of(_shapes(tree))} & {"f", "c"}
    if len(kinds) > 1:
        raise TypeError(
            f"{name}: the unknown is partly complex; make all of its arrays complex, or write real "
            "and imaginary parts as two arrays"
        )
    x: AnyArray = vector
    return x, unravel


def _shapes(tree: object) -> Any:
    """Give a structure with an element of its dtype for each array."""
    return map_leaves(lambda leaf: np.zeros((), getattr(leaf, "dtype", type(leaf))), tree)


def _of_size(name: str, what: str, vector: AnyArray, unravel: Unravel) -> AnyArray:
    if vector.shape != (unravel.size,):
        raise ValueError(
            f"{name}: {what} has {vector.size} numbers, and the unknown {unravel.size}; they must "
            "agree"
        )
    return vector
