"""Overrides of LAPACK's solvers: `scipy.linalg.lapack.dgtsv(dl, d, du, b)` and its relatives.

The solution is differentiable. The factors that come with it are LAPACK's and read by LAPACK alone;
a derivative with respect to them is refused where it is asked for.
"""

# ruff: noqa: ARG001 - the signatures are LAPACK's

from typing import Any

import numpy as np

from cotan import _core
from cotan._src.kit.implicit_diff import without_rule
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.values import assign, is_array, to_numpy
from cotan._src.scipy.linalg.banded import solve_banded
from cotan._src.scipy.linalg.solve import solve, solve_triangular
from cotan._src.typing import AnyArray, ArrayLike, Function, NDArray, Scalar

# What a routine does to an `Array`, by its name without the letter of its dtype.
ROUTINES: dict[str, Function] = {}


def _solver(rule: Function) -> Function:
    """Enter a rule that gives the solution, and say where in the results and arguments it is."""
    name = rule.__name__

    def routine(original: Function, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        results = list(original(*map(_copied, args), **{k: _copied(v) for k, v in kwargs.items()}))
        if results[-1] == 0:
            x, b = rule(*args, **kwargs)
            x = _core.cast(asarray(x), results[-2].dtype)
            if b is not None and is_array(b) and b.dtype == x.dtype:
                assign(name, b, x)
            results[:-2] = [_factor(f, x, name) for f in results[:-2]]
            results[-2] = x
            return tuple(results)
        # A matrix that is singular: what has been solved nevertheless is of no use.
        after = sum(np.sum(asarray(x)) for x in args)
        return (*(_factor(r, after, name) for r in results[:-1]), results[-1])

    ROUTINES[name] = routine
    return rule


def _copied(x: Any) -> Any:
    return np.array(to_numpy(x)) if is_array(x) or isinstance(x, np.ndarray) else to_numpy(x)


def _factor(value: NDArray, on: ArrayLike, name: str) -> AnyArray:
    """Give what a routine makes besides its solution, which has no rule."""
    if value.dtype.kind not in "fc":
        return value
    instead = "use the factors of scipy.linalg (lu_factor, cho_factor, cholesky_banded)"
    return without_rule(f"what scipy.linalg.lapack {name} makes of matrices", value, on, instead)


def _given(overwrite: int, b: ArrayLike) -> ArrayLike | None:
    return b if overwrite else None


@_solver
def gtsv(dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, overwrite_dl: int = 0,
         overwrite_d: int = 0, overwrite_du: int = 0,
         overwrite_b: int = 0) -> tuple[AnyArray, ArrayLike | None]:  # fmt: skip
    dl, d, du = asarray(dl), asarray(d), asarray(du)
    zero = np.zeros(1)
    rows = [np.concatenate([zero, du]), d, np.concatenate([dl, zero])]
    return solve_banded((1, 1), np.stack(rows), asarray(b)), _given(overwrite_b, b)


@_solver
def ptsv(d: ArrayLike, e: ArrayLike, b: ArrayLike, overwrite_d: int = 0, overwrite_e: int = 0,
         overwrite_b: int = 0) -> tuple[AnyArray, ArrayLike | None]:  # fmt: skip
    below = asarray(e)
    return gtsv(below, d, below.conj(), b)[0], _given(overwrite_b, b)


@_solver
def gbsv(
    kl: int, ku: int, ab: ArrayLike, b: ArrayLike, overwrite_ab: int = 0, overwrite_b: int = 0
) -> tuple[AnyArray, ArrayLike | None]:
    # The first rows are for what LAPACK fills in.
    rows = asarray(ab)[kl : 2 * kl + ku + 1]
    return solve_banded((kl, ku), rows, asarray(b)), _given(overwrite_b, b)


@_solver
def gesv(
    a: ArrayLike, b: ArrayLike, overwrite_a: int = 0, overwrite_b: int = 0
) -> tuple[AnyArray, ArrayLike | None]:
    return solve(asarray(a), asarray(b)), _given(overwrite_b, b)


@_solver
def posv(
    a: ArrayLike, b: ArrayLike, lower: int = 0, overwrite_a: int = 0, overwrite_b: int = 0
) -> tuple[AnyArray, ArrayLike | None]:
    x = solve(asarray(a), asarray(b), lower=bool(lower), assume_a="pos")
    return x, _given(overwrite_b, b)


_KINDS = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}


def trsm(
    original: Function, alpha: Scalar, a: ArrayLike, b: AnyArray, side: int = 0, lower: int = 0,
    trans_a: int = 0, diag: int = 0, overwrite_b: int = 0,
) -> AnyArray:  # fmt: skip
    """Solve with a triangular matrix on either side, as BLAS does."""
    kind = _KINDS[original.__name__.removeprefix("function ")[0]]
    matrix = asarray(a, kind)
    scaled: AnyArray = alpha * asarray(b, kind)
    if side == 0:
        x = solve_triangular(matrix, scaled, trans_a, bool(lower), bool(diag))
    else:
        # Of the transposed equation; the adjoint transposed is the conjugate.
        matrix, trans = (matrix.conj(), 0) if trans_a == 2 else (matrix, 1 - trans_a)
        x = solve_triangular(matrix, scaled.T, trans, bool(lower), bool(diag)).T
    if overwrite_b and is_array(b) and b.dtype == x.dtype:
        assign("trsm", b, x)
    return x


ROUTINES["trsm"] = trsm
