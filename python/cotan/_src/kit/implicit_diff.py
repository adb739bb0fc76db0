"""Implicit differentiation: derivatives of what an equation defines, such as roots and minima.

A solver finds the value. A step of Newton's method from there, with the matrix held constant, does
not move the value but has the first derivative of the solution; two steps have the second as well.
"""

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.host_call import host_call
from cotan._src.runtime.values import attach_derivative
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.typing import AnyArray, ArrayLike, NDArray

# A step that is longer than this part of a solution says that it is none.
_FAR = 0.01


def stacked(y: ArrayLike) -> Array:
    """Give what a function returned, perhaps as a list, as an `Array`."""
    return _core.asarray(y) if not isinstance(y, (list, tuple)) else _core.array(y)


def jacobian(function: Callable[[AnyArray], ArrayLike], x: AnyArray) -> NDArray:
    """Give the matrix of derivatives of a function of a vector, on values."""
    y, back = _core.pullback(lambda x: stacked(function(x)).reshape(-1), _core.value(x))
    rows = []
    for i in range(y.shape[0]):
        unit = np.zeros(y.shape, y.dtype)
        unit[i] = 1
        (row,) = back(unit)
        rows.append(np.zeros(np.shape(x)) if row is None else _core.value(row))
    return np.array(rows).reshape(y.shape[0], -1)


def solution(
    name: str,
    equation: Callable[[AnyArray], ArrayLike],
    x: AnyArray,
    matrix: NDArray | None = None,
    check: bool = True,
    nearest: bool = False,
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

    Raises `ValueError` where the derivative is singular: the solution has no derivative then; and
    where the solver stopped far from a solution.
    """
    at = np.array(_core.value(x), ndmin=1)
    if matrix is None and at.dtype.kind == "c":
        return _in_parts(name, equation, at, check)
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
    if check:
        _expect_solution(name, at, inverse @ np.reshape(to_numpy_items(stacked(equation(at))), -1))
    moved = _core.asarray(at)
    for _ in range(max(1, _core.nestlevel())):
        residual = stacked(equation(moved)).reshape(-1)
        moved = moved - _core.matmul(inverse, residual).reshape(at.shape)
    return attach_derivative(at, moved)


def _inverse(matrix: NDArray, near: float = 10 * np.finfo(float).eps) -> NDArray | None:
    """Give the inverse, `None` of a matrix that is singular, or nearer to that than rounding is.

    Units count for nothing: rows and columns are scaled before.
    """
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
    name: str, equation: Callable[[AnyArray], ArrayLike], at: NDArray, check: bool
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
    return joined(solution(name, parts, np.concatenate([flat.real, flat.imag]), check=check))


def newton_moved(
    root: AnyArray, function: Callable[[AnyArray], AnyArray], slope: ArrayLike
) -> AnyArray:
    """Give roots the derivatives that a function implies, by a step of length zero per order."""
    for _ in range(2):
        rest = function(root)
        root = root - (rest - _core.dropgrad(rest)) / slope
    return root


def without_rule(
    what: str, value: ArrayLike, on: ArrayLike, instead: str = "compute it from the solution"
) -> Array:
    """Give a value that moves in a way nobody knows; it is an error where its derivative counts."""

    def back(*_: object) -> NoReturn:
        raise NotDifferentiableError(
            f"{what} has no derivative rule in cotan; {instead}, or hold it constant with "
            "ct.dropgrad"
        )

    return host_call(what, lambda _: value, back, on)


def _expect_solution(name: str, at: NDArray, step: NDArray) -> None:
    """Refuse what a step of Newton's method would move far away from where it is."""
    if not np.max(np.abs(step), initial=0.0) <= _FAR * np.max(np.abs(at), initial=0.1):
        raise ValueError(
            f"{name}: the solver stopped before it reached a solution (a step of Newton's method "
            f"would move it by {np.max(np.abs(step)):.2g}, from {np.max(np.abs(at)):.2g}), so the "
            "derivative of its result is undefined; ask for more accuracy with tol= or options, "
            "start closer, or hold the result constant with ct.dropgrad (at a kink, where the "
            "slope jumps, more accuracy does not help)"
        )
