"""Derivatives as linear operators of SciPy: products with a Jacobian or a Hessian, not the matrix.

Problem: iterative solvers (`scipy.sparse.linalg`, `lsmr` inside of `least_squares`) want an object
that multiplies with vectors from both sides. Models are structures, operators act on vectors.
"""

import functools
import importlib
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.api.selected import Argnums, selected
from cotan._src.tree.ravel import Unravel, ravel_floats
from cotan._src.tree.structure import integers_as_floats, without_constants
from cotan._src.typing import AnyArray, Args, Function, NDArray


def jacobian_operator(
    function: Function,
    /,
    *args: object,
    wrt: str | int | tuple[str | int, ...] | None = None,
    argnums: Argnums | None = None,
    **kwargs: object,
) -> Any:
    """Give the Jacobian of a function at a point as a `scipy.sparse.linalg.LinearOperator`.

    `A @ v` is the derivative along a vector, `A.T @ u` the cotangent of the arguments for a
    cotangent of the result. The matrix is not formed. The function is recorded once, and products
    do not compute its value again.

    Parameters
    ----------
    function
        Gives an array or a number, or a structure of them.
    args
        Arrays, numbers, structures of them. What is `ct.const` is held constant.
    wrt, argnums
        With respect to which arguments: names and positions. All of them by default.
    kwargs
        Keyword arguments of the function, held constant.

    Returns
    -------
    scipy.sparse.linalg.LinearOperator, shape (m, n)
        A row for each number of the result, a column for each number of the arguments, in the order
        of `ct.ravel`: arrays one after the other, each in row-major order.

    Raises
    ------
    TypeError
        When arguments or results are complex, or there is nothing to differentiate.
    NotDifferentiableError
        When something on the way has no derivative; from a product, when it has none in that
        direction.
    ImportError
        Without SciPy.

    >>> import cotan as ct
    >>> import numpy as np
    >>> A = ct.jacobian_operator(lambda x: np.diff(x**2), np.array([1.0, 2.0, 3.0]))
    >>> A.shape
    (2, 3)
    >>> A @ np.array([0.0, 1.0, 0.0])
    array([ 4., -4.])
    >>> A.T @ np.array([1.0, 0.0])
    array([-2.,  4.,  0.])
    """
    name = "jacobian_operator"
    call = selected(name, function, args, kwargs, wrt=_positions(name, wrt), argnums=argnums)
    flat = _Flat(name, call.function, call.arguments)
    return _operator(name, flat.vector, flat.point)


def hessian_operator(
    function: Function,
    /,
    *args: object,
    wrt: str | int | tuple[str | int, ...] | None = None,
    argnums: Argnums | None = None,
    **kwargs: object,
) -> Any:
    """Give the Hessian of a function at a point as a `scipy.sparse.linalg.LinearOperator`.

    The gradient is recorded once; a product is its derivative along a vector.

    Parameters are those of `jacobian_operator`; the function returns a real scalar.

    Returns
    -------
    scipy.sparse.linalg.LinearOperator, shape (n, n)
        Symmetric, of as many rows as the arguments have numbers, in the order of `ct.ravel`.

    Raises
    ------
    ValueError
        When the function does not return a real scalar.
    TypeError, NotDifferentiableError, ImportError
        As `jacobian_operator`.

    >>> import cotan as ct
    >>> import numpy as np
    >>> from scipy.sparse.linalg import cg
    >>> def energy(x):
    ...     return np.sum(np.diff(x) ** 2) + np.sum((x - 1.0) ** 2)
    >>> H = ct.hessian_operator(energy, np.zeros(4))
    >>> step, _ = cg(H, -ct.grad(energy)(np.zeros(4)))  # Newton's method, one step
    >>> np.round(step, 6)
    array([1., 1., 1., 1.])
    """
    name = "hessian_operator"
    call = selected(name, function, args, kwargs, wrt=_positions(name, wrt), argnums=argnums)
    flat = _Flat(name, call.function, call.arguments)
    return _operator(name, flat.gradient, flat.point, symmetric=True)


def _positions(name: str, wrt: Any) -> Any:
    """Refuse what selects parts of arguments: these are held constant by `ct.const`."""
    parts = wrt if isinstance(wrt, tuple) else (wrt,)
    if wrt is not None and not all(isinstance(part, (str, int)) for part in parts):
        raise TypeError(
            f"{name}: wrt takes names and positions of arguments, not {wrt!r}; hold parts of them "
            "constant with ct.const"
        )
    return wrt


class _Flat:
    """A function as one from a vector to a vector, at a point."""

    def __init__(self, name: str, function: Function, args: Args) -> None:
        self._name, self._function = name, function
        self.point, self.columns = ravel_floats(tuple(map(integers_as_floats, args)))
        if not self.columns.paths:
            raise TypeError(
                f"{name}: no argument has a float array or number to differentiate with respect to"
            )
        self._expect_real("arguments", self.columns)

    def value(self, vector: AnyArray) -> Any:
        """Give what the function gives."""
        return self._function(*without_constants(self.columns(vector)))

    def vector(self, vector: AnyArray) -> AnyArray:
        """Give it as a vector."""
        numbers: AnyArray
        numbers, rows = ravel_floats(self.value(vector))
        if not rows.paths:
            raise TypeError(
                f"{self._name}: there is no float array or number in what the function gives"
            )
        self._expect_real("results", rows)
        return numbers

    def gradient(self, vector: AnyArray) -> AnyArray:
        """Give the gradient of what it gives."""
        numbers: AnyArray | None
        _, (numbers,) = _core.value_and_full_gradient(
            self._name, self.value, (vector,), None, False, False
        )
        return np.zeros(self.columns.size) if numbers is None else numbers

    def _expect_real(self, kind: str, vector: Unravel) -> None:
        if vector.dtype.kind == "c":
            raise TypeError(
                f"{self._name}: there are complex numbers among the {kind}; operators are of real "
                "arrays: split them into real and imaginary parts"
            )


def _operator(name: str, function: Function, point: AnyArray, symmetric: bool = False) -> Any:
    """Give the Jacobian of a function from a vector to a vector."""
    operators = _scipy_operators(name)
    program = _core.trace(function, point)
    products = _Products(program, point, symmetric)
    size = program.outputs[0].shape[0]
    return operators.LinearOperator(
        (size, len(point)),
        matvec=products.right,
        rmatvec=products.left,
        matmat=products.right,
        rmatmat=products.left,
        dtype=point.dtype,
    )


def _scipy_operators(name: str) -> Any:
    try:
        return importlib.import_module("scipy.sparse.linalg")
    except ImportError as error:
        raise ImportError(f"{name}: the operators are those of SciPy, which is not here") from error


class _Products:
    """The products with a Jacobian from both sides."""

    def __init__(self, function: Function, point: AnyArray, symmetric: bool) -> None:
        self._function, self._point, self._symmetric = function, point, symmetric

    @functools.cached_property
    def _push(self) -> Function:
        return _core.linearize(self._function, self._point)[1]

    @functools.cached_property
    def _pull(self) -> Function:
        _, back = _core.pullback(self._function, self._point)
        return lambda cotangent: back(cotangent)[0]

    def right(self, vectors: NDArray) -> NDArray:
        """Give `A @ v`, of a vector or of columns."""
        try:
            linear = self._push
        except _core.NotDifferentiableError:
            if not self._symmetric:
                raise
            # Something has a reverse direction only, which does as well for a Hessian.
            linear = self._pull
        return self._products(linear, vectors)

    def left(self, vectors: NDArray) -> NDArray:
        """Give `A.T @ u`, of a vector or of columns."""
        return self.right(vectors) if self._symmetric else self._products(self._pull, vectors)

    def _products(self, linear: Function, vectors: NDArray) -> NDArray:
        columns = [
            self._whole(linear(np.ascontiguousarray(column)))
            for column in np.reshape(vectors, (len(vectors), -1)).T
        ]
        return columns[0] if np.ndim(vectors) == 1 else np.stack(columns, axis=1)

    def _whole(self, product: Any) -> NDArray:
        """Give a product as an array; it is None where nothing has influence."""
        if product is None:
            return np.zeros(self._point.shape, self._point.dtype)
        return np.asarray(product)
