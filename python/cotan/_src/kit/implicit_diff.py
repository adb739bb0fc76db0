"""Implicit differentiation: derivatives of what an equation defines, such as roots and minima.

A solver finds the value. A step of Newton's method from there, with the matrix held constant, does
not move the value but has the first derivative of the solution; two steps have the second as well.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.host_call import conj, linear
from cotan._src.kit.linear_systems import LinearSolver, products
from cotan._src.kit.slope_call import Move, without_slopes
from cotan._src.runtime.by_example import expect_values
from cotan._src.runtime.values import attach_derivative, is_active, of_table
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.typing import AnyArray, ArrayLike, NDArray

# A Newton step longer than this part of a point says that it is no solution.
FAR = 0.01
# Nearer to singular than that, relative to the largest, is rounding.
_NEAR = 10 * float(np.finfo(np.float64).eps)


def stacked(y: ArrayLike) -> Array:
    """Give what a function returned, perhaps as a list or a column, as an `Array`."""
    y = of_table(y)
    return _core.asarray(y) if not isinstance(y, (list, tuple)) else _core.array(y)


def jacobian(function: Callable[[AnyArray], ArrayLike], x: AnyArray) -> NDArray:
    """Give the matrix of derivatives of a function of a vector, on values."""
    at: AnyArray = _core.value(x)
    (matrix,), _ = _core.jacobian_of(
        "jacobian", lambda x: stacked(function(x)).reshape(-1), (at,), None, None, "reverse",
        False, False,
    )  # fmt: skip
    found: NDArray = _core.value(matrix)
    return found.reshape(len(found), -1)


def solution(
    name: str,
    equation: Callable[[AnyArray], ArrayLike],
    x: AnyArray,
    matrix: NDArray | None = None,
    check: bool = True,
    nearest: bool = False,
    solver: LinearSolver | None = None,
) -> Array:
    """Give the solution of an equation as a function of all that the equation depends on.

    Parameters
    ----------
    equation
        From a vector to a vector of the same length, zero at the solution.
    x
        The value of the solution.
    matrix
        The derivative of `equation` there; computed if None.
    check
        Whether to look if it is a solution, which calls `equation` once more.
    nearest
        Whether of solutions that lie in a line it is the one nearest to a constant place.
    solver
        Solves linear systems with the derivative, which is not formed then.

    Raises `ValueError` where the derivative is singular: the solution has no derivative then; and
    where the solver stopped far from a solution.
    """
    at = np.array(_core.value(x), ndmin=1)
    if matrix is None and at.dtype.kind == "c":
        return _in_parts(name, equation, at, check, solver)
    newton = (
        _dense(name, equation, at, matrix, nearest)
        if solver is None
        else _iterative(name, equation, at, solver)
    )
    if check:
        step = newton(_core.asarray(to_numpy_items(stacked(equation(at)).reshape(-1))))
        expect_solution(name, at, _core.value(step))
    moved = _core.asarray(at)
    for _ in range(max(1, _core.nestlevel())):
        residual = stacked(equation(moved)).reshape(-1)
        moved = moved - newton(residual).reshape(at.shape)
    return attach_derivative(at, moved)


def plain_solution(
    name: str,
    equation: Callable[[AnyArray], ArrayLike],
    plain: Callable[[AnyArray], ArrayLike],
    x: NDArray,
    nearest: bool = False,
    is_constant: bool = False,
) -> Array | None:
    """Give the same with first derivatives only, where the equation is called once.

    `plain` is the equation with values in the place of what is active; its derivative is taken.
    None where the equation depends on nothing active, if it `is_constant` then: an active place to
    start from counts where the solver has stopped early, which is an error.
    """
    at = np.array(x, np.float64, ndmin=1)
    residual = stacked(equation(at)).reshape(-1)
    if is_constant and not is_active(residual):
        return None
    newton = _dense(name, plain, at, None, nearest)
    step = newton(residual)
    expect_solution(name, at, _core.value(step))
    found: Array = attach_derivative(at, _core.asarray(at) - step.reshape(at.shape))
    return found


def plain_number(
    name: str,
    equation: Callable[[AnyArray], ArrayLike],
    plain: Callable[[AnyArray], ArrayLike],
    x: float,
    is_constant: bool = False,
) -> Array | None:
    """Give the same for one equation in one variable, as an `Array` of one element.

    The equation and its derivative are a number each, so all but the record is done with floats.
    """
    at: Any = np.float64(x)
    residual = stacked(equation(at)).reshape(1)
    if is_constant and not is_active(residual):
        return None
    slope = _slope(plain, at)
    is_regular = slope != 0.0 and np.isfinite([slope, 1.0 / slope]).all()
    if residual.dtype != np.float64 or not is_regular:
        first, second = (lambda v, f=f: stacked(f(v[0])).reshape(1) for f in (equation, plain))
        return plain_solution(name, first, second, np.array([at]), is_constant=is_constant)
    step = residual * (1.0 / slope)
    length = float(_core.value(step)[0])
    if not abs(length) <= FAR * max(abs(x), 0.1):
        expect_solution(name, np.array([at]), np.array([length]))
    return attach_derivative(np.array([at]), -step)


def move_of(
    x: NDArray, rest: NDArray, of_x: NDArray, of_leaves: list[NDArray], leaves: Sequence[AnyArray],
    is_number: bool = False,
) -> Move | None:  # fmt: skip
    """Give how a solution moves whose equations and their derivatives are known at it.

    `rest` is what the equations leave there, `of_x` and `of_leaves` are their derivatives with
    respect to the solution and to `leaves`. `is_number` says that the solution is a number, of one
    equation. None where `of_x` is singular, a derivative infinite, or `x` far from a solution.
    """
    inverse = _inverse(of_x.reshape(x.size, -1))
    if inverse is None:
        return None
    rows = _core.slopes_of_solution(x, rest, inverse, of_leaves, FAR)
    if rows is None:
        return None
    if not is_number:
        return Move(leaves, [rows], _vector_in)
    numbers, parts, start = rows[0], [], 0
    for leaf in of_leaves:
        parts.append(numbers[start : start + leaf.size])
        start += leaf.size
    return Move(leaves, parts, number_in)


def _vector_in(leaves: list[AnyArray], slopes: Sequence[AnyArray]) -> Array:
    return linear_in(leaves, slopes[0])


def linear_in(leaves: list[AnyArray], rows: AnyArray) -> Array:
    """Give a vector whose derivatives with respect to the numbers in `leaves` are `rows`."""
    flat = [leaf if leaf.ndim == 1 else _core.reshape(leaf, (leaf.size,)) for leaf in leaves]
    return _core.matmul(rows, flat[0] if len(flat) == 1 else _core.concatenate(flat))


def number_in(leaves: list[AnyArray], slopes: Sequence[AnyArray]) -> AnyArray:
    """Give a number whose derivatives with respect to the numbers in each leaf are `slopes`."""
    parts = [
        _core.matmul(numbers, _core.reshape(leaf, (leaf.size,))) if leaf.ndim else leaf * numbers[0]
        for leaf, numbers in zip(leaves, slopes, strict=True)
    ]
    return functools.reduce(operator.add, parts)


def _slope(function: Callable[[AnyArray], ArrayLike], at: float) -> float:
    """Give the derivative of a function of one number, 0 where it is constant."""
    _, (slope,) = _core.call_outside(
        lambda: _core.value_and_gradient(lambda x: stacked(function(x)).reshape(()), at)
    )
    return 0.0 if slope is None else float(slope)


def recorded_solution(name: str, equation: Callable[[AnyArray], ArrayLike], x: Array) -> Array:
    """Give the same for a solution that is not known yet, because a program is recorded.

    The derivative is a part of the program, which may be differentiated twice.
    """
    at = _core.dropgrad(x)
    if at.dtype.kind == "c":
        raise TypeError(
            f"{name}: complex unknowns are not supported where a program is recorded (vmap, "
            "prepare, trace); write real and imaginary parts as two arrays"
        )

    def function(v: AnyArray) -> Array:
        return stacked(equation(v)).reshape(-1)

    matrix = _core.dropgrad(recorded_jacobian(function, at))
    moved = at
    for _ in range(max(2, _core.nestlevel())):
        step: Any = np.linalg.solve(matrix, function(moved))
        moved = moved - step
    return attach_derivative(at, moved)


def recorded_jacobian(function: Callable[[AnyArray], AnyArray], x: AnyArray) -> AnyArray:
    """Give the matrix of derivatives of a function of a vector as it depends on everything."""
    y, back = _core.pullback(function, x)
    rows: AnyArray | None
    rows = _core.call_vmap(
        lambda u: back(u)[0], (np.eye(y.shape[0], dtype=y.dtype),), [True], ["u"]
    )
    # A pullback applies the conjugate transpose.
    return np.zeros((y.shape[0], x.shape[0]), y.dtype) if rows is None else conj(rows)


def recorded_columns(function: Callable[[AnyArray], AnyArray], x: AnyArray) -> AnyArray:
    """Give the same by tangents, for a function with more results than variables."""
    _, push = _core.linearize(function, x)
    columns: AnyArray
    columns = _core.call_vmap(push, (np.eye(x.shape[0], dtype=x.dtype),), [True], ["tangent"])
    return _core.transpose(_core.asarray(columns), (1, 0))


def _dense(
    name: str,
    equation: Callable[[AnyArray], ArrayLike],
    at: NDArray,
    matrix: NDArray | None,
    nearest: bool,
) -> Callable[[ArrayLike], Array]:
    """Give the product with the inverse of the derivative."""
    if matrix is None:
        matrix = jacobian(equation, at)
        inverse = _inverse(matrix)
        if inverse is None and nearest:
            inverse = _across_lines(matrix, equation, at)
    else:
        inverse = _inverse(matrix, near=0.0)
    if inverse is None:
        raise ValueError(
            f"{name}: the derivative of the equation is singular at the solution, so the solution "
            "has no derivative; hold it constant with ct.dropgrad"
        )
    known = inverse
    return lambda residual: _core.matmul(known, residual)


def _iterative(
    name: str, equation: Callable[[AnyArray], ArrayLike], at: NDArray, solver: LinearSolver
) -> Callable[[ArrayLike], Array]:
    """Give what solves systems with the derivative, by products with it and with its transpose."""
    forth, back = products(lambda x: stacked(equation(x)).reshape(-1), at)
    return linear(name, lambda r: solver(forth, r), lambda ct: solver(back, ct))


def _inverse(matrix: NDArray, near: float | None = None) -> NDArray | None:
    """Give the inverse, `None` of a matrix that is singular, or nearer to that than rounding is.

    Units count for nothing: rows and columns are scaled before.
    """
    if matrix.shape == (1, 1):
        number = float(matrix[0, 0]) if matrix.dtype.kind == "f" else 0.0
        if number and np.isfinite(1.0 / number):
            return np.array([[1.0 / number]], matrix.dtype)
    if near is None:
        near = 10 * float(np.finfo(matrix.dtype).eps) if matrix.dtype != np.float64 else _NEAR
        if matrix.dtype == np.float64:
            # Far from singular, it needs no scaling to be told from a singular one.
            found = _core.regular_inverse(np.ascontiguousarray(matrix), near**-0.5)
            if found is not None:
                return found
    rows, columns = np.ones((len(matrix), 1)), np.ones(len(matrix))
    for _ in range(2 * (near > 0)):
        sizes = np.abs(matrix * rows * columns)
        rows /= _root(sizes.max(axis=1, keepdims=True))
        columns /= _root(sizes.max(axis=0))
    scaled = matrix * rows * columns
    try:
        inverse = np.linalg.inv(scaled)
    except np.linalg.LinAlgError:
        return None
    if not np.all(np.isfinite(inverse)):
        return None
    if near and np.linalg.norm(scaled, 1) * np.linalg.norm(inverse, 1) * near * len(matrix) > 1:
        return None
    return rows.T * inverse * columns[:, None]


def _root(sizes: NDArray) -> NDArray:
    """Give about the square root, as a power of two: scaling by that loses no digits."""
    known = np.where(np.isfinite(sizes) & (sizes > 0), sizes, 1.0)
    return np.exp2(np.round(np.log2(known) / 2))


def _across_lines(
    matrix: NDArray, equation: Callable[[AnyArray], ArrayLike], at: NDArray
) -> NDArray | None:
    """Invert the derivative of a slope, but along lines on which nothing changes: they stay out.

    Potentials count up to a constant, say. `None` if it is singular for another reason.
    """
    if not np.all(np.isfinite(matrix)) or not np.allclose(matrix, matrix.T, rtol=1e-8, atol=0.0):
        return None
    values, vectors = np.linalg.eigh(matrix)
    largest = np.max(np.abs(values))
    flat = np.abs(values) <= 1e-13 * len(values) * largest
    before = to_numpy_items(stacked(equation(at)))
    for line in vectors.T[flat]:
        step = 0.01 * max(1.0, np.max(np.abs(at)))
        moved = to_numpy_items(stacked(equation(at + (step * line).reshape(at.shape))))
        if not np.max(np.abs(moved - before)) <= 1e-10 * step * largest:
            return None
    if not np.any(flat) or np.all(flat):
        return None
    inverse: NDArray = (vectors[:, ~flat] / values[~flat]) @ vectors[:, ~flat].T
    return inverse


def _in_parts(
    name: str,
    equation: Callable[[AnyArray], ArrayLike],
    at: NDArray,
    check: bool,
    solver: LinearSolver | None,
) -> Array:
    """Give a complex solution by equations of real numbers: it need not be holomorphic."""
    n = at.size

    def joined(v: AnyArray) -> Array:
        z: Array = _core.apply("complex", v[:n], v[n:]).reshape(at.shape)
        return z

    def parts(v: AnyArray) -> AnyArray:
        residual = stacked(equation(joined(v))).reshape(-1)
        return np.concatenate([residual.real, residual.imag])

    flat = at.reshape(-1)
    at_parts = np.concatenate([flat.real, flat.imag])
    return joined(solution(name, parts, at_parts, check=check, solver=solver))


def newton_moved(
    root: AnyArray, function: Callable[[AnyArray], AnyArray], slope: ArrayLike
) -> AnyArray:
    """Give roots the derivatives that a function implies, by a step of length zero per order.

    A double root, where the slope is zero, moves infinitely fast; it stays where it is.
    """
    double = np.equal(slope, 0)
    for _ in range(2):
        rest = function(root)
        step = rest - _core.dropgrad(rest)
        root = root - np.where(double, np.sqrt(step), step / np.where(double, 1, slope))
    return root


def without_rule(
    what: str, value: ArrayLike, on: ArrayLike, instead: str = "compute it from the solution"
) -> Array:
    """Give a value that moves in a way nobody knows; it is an error where its derivative counts."""
    expect_values(what, (on,))
    if not is_active(on):
        return _core.asarray(value)

    def back(*_: object) -> NoReturn:
        raise NotDifferentiableError(
            f"{what} has no derivative rule in cotan; {instead}, or hold it constant with "
            "ct.dropgrad"
        )

    active = _core.asarray(on)
    noted = without_slopes(value, active, what, back)
    if noted is not None:
        return _core.asarray(noted)
    return _core.call_back(lambda _: (np.asarray(value),), back, what, [active])


def expect_solution(name: str, at: NDArray, step: NDArray) -> None:
    """Refuse what a step of Newton's method would move far away from where it is."""
    if not np.abs(step).max(initial=0.0) <= FAR * np.abs(at).max(initial=0.1):
        raise ValueError(
            f"{name}: the solver stopped before it reached a solution (a step of Newton's method "
            f"would move it by {np.max(np.abs(step)):.2g}, from {np.max(np.abs(at)):.2g}), so the "
            "derivative of its result is undefined; ask for more accuracy with tol= or options, "
            "start closer, or hold the result constant with ct.dropgrad (at a kink, where the "
            "slope jumps, more accuracy does not help)"
        )
