"""Linear systems whose matrix is known by its products with vectors only."""

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._src.rebind.engine import locate
from cotan._src.typing import AnyArray, NDArray

#: The product with a matrix, of values.
Product: TypeAlias = Callable[[NDArray], NDArray]
#: From the product with a matrix and the right-hand side to the solution, of values.
LinearSolver: TypeAlias = Callable[[Product, NDArray], NDArray]


def products(function: Callable[[AnyArray], AnyArray], x: NDArray) -> tuple[Product, Product]:
    """Give the products with the derivative of a function of a vector and with its transpose."""
    y, back = _core.pullback(function, x)
    _, forth = _core.pullback(lambda u: _or_zeros(back(u)[0], x), np.zeros(y.shape, y.dtype))
    return (
        lambda v: _core.value(_or_zeros(forth(np.asarray(v, x.dtype))[0], y)),
        lambda u: _core.value(_or_zeros(back(np.asarray(u, y.dtype))[0], x)),
    )


def _or_zeros(x: AnyArray | None, like: AnyArray) -> AnyArray:
    return np.zeros(like.shape, like.dtype) if x is None else x


def krylov(name: str, method: str) -> LinearSolver:
    """Give a method of SciPy's: `"gmres"`, or `"cg"` for positive definite matrices.

    The solver raises `ValueError` when it does not converge.
    """
    return functools.partial(_krylov, name, method)


def _krylov(name: str, method: str, product: Product, b: NDArray) -> NDArray:
    operator = locate("scipy.sparse.linalg.LinearOperator")
    single = b.dtype.itemsize // (2 if b.dtype.kind == "c" else 1) < 8
    options: dict[str, Any] = {"rtol": 1e-5 if single else 1e-11}
    if method == "gmres":
        # As many vectors as there are unknowns need no restart.
        options["restart"] = min(b.size, 100)
    x: NDArray
    with np.errstate(all="ignore"):
        x, info = locate(f"scipy.sparse.linalg.{method}")(
            operator((b.size, b.size), matvec=product, dtype=b.dtype), b, **options
        )
    if info or not np.all(np.isfinite(x)):
        hint = " (cg needs a symmetric positive definite matrix)" if method == "cg" else ""
        raise ValueError(
            f"{name}: the linear system with the derivative of the equation was not solved: "
            f"{method} did not converge{hint}; use 'dense', or a function (product, b) -> x"
        )
    return x
