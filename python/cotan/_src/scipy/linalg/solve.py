"""Overrides of the linear solvers of `scipy.linalg`.

Each has the signature of SciPy's function; `overwrite_...` and the names of LAPACK drivers are
accepted and ignored. Where SciPy works over batches, so do these. What this module shares with
`scipy.linalg.banded`, `scipy.linalg.decompositions`, `scipy.linalg.matrix_equations`,
`scipy.linalg.structured_matrices` and `scipy.linalg.matrix_functions` is here as well.
"""

# ruff: noqa: ARG001 - the signatures are SciPy's

import importlib
from types import ModuleType

import numpy as np
from numpy.linalg import LinAlgError

from cotan import _core
from cotan._core import Array
from cotan._src.kit import decompositions as dec
from cotan._src.rebind.numpy_substitutes import asarray as host_asarray
from cotan._src.runtime.call_site import warn
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import to_numpy
from cotan._src.typing import AnyArray, ArrayLike, NDArray


def scipy_linalg() -> ModuleType:
    """Give SciPy's module, where it is needed for a value."""
    return importlib.import_module("scipy.linalg")


def checked(x: ArrayLike, check_finite: bool = True) -> AnyArray:
    """Give an argument as an array of floats; infinities and NaN are refused as SciPy does."""
    array = host_asarray(x)
    if array.dtype == np.float16:
        array = _core.asarray(array, np.float32)
    # A traced program has no values of which to warn.
    looks = check_finite and not _core.is_tracing()
    if looks and not is_finite(array):
        raise ValueError("array must not contain infs or NaNs")
    return array


def is_finite(x: AnyArray) -> bool:
    """Say whether all elements are finite; a prepared function asks again when it is called."""
    if _core.is_preparing():
        return bool(np.all(np.isfinite(x)))
    return bool(np.all(np.isfinite(to_numpy(dec.constant(x)))))


def matrix(name: str, a: ArrayLike, check_finite: bool = True, square: bool = True) -> Array:
    """Give an argument as an `Array` of matrices `(..., m, n)`, of float or complex dtype.

    Raises `ValueError` for fewer than two axes, for a matrix that is not square where one is asked
    for, and with `check_finite` for infinity and NaN.
    """
    a = checked(a, check_finite)
    if a.ndim < 2:
        raise ValueError(f"{name}: The input array must be at least two-dimensional.")
    if square and a.shape[-1] != a.shape[-2]:
        raise ValueError(f"{name}: Expected square matrix, got shape {a.shape}")
    return dec.matrix(name, a)


def system(
    name: str, a: ArrayLike, b: ArrayLike, check_finite: bool = True
) -> tuple[Array, AnyArray, bool]:
    """Give a square matrix, right-hand sides as a matrix, and whether they were a vector."""
    a, b = dec.common(checked(a, check_finite), checked(b, check_finite))
    a = matrix(name, np.atleast_2d(a), False)
    b = np.atleast_1d(b)
    vector = b.ndim == 1
    b = b[:, None] if vector else b
    if b.shape[-2] != a.shape[-1]:
        raise ValueError(f"{name}: incompatible shapes {a.shape} and {b.shape}")
    return a, b, vector


def result(x: AnyArray, vector: bool) -> AnyArray:
    """Give a solution `(..., n, 1)` as the vectors `(..., n)` that the right-hand sides were."""
    return x[..., 0] if vector else x


def triangle(a: AnyArray, lower: bool, strict: bool = False) -> Array:
    """Give the elements of a triangle, zeros elsewhere."""
    m, n = a.shape[-2:]
    mask = np.tri(m, n, -int(strict), dtype=bool)
    if not lower:
        mask = ~np.tri(m, n, -1 + int(strict), dtype=bool)
    return _core.where(mask, a, 0.0)


# --------------------------------------------------------------------------------------------------
# Systems of equations

_TRIANGLES = {"upper triangular": False, "lower triangular": True}
_GENERAL = {None, "general", "gen", "banded"}


@override("scipy.linalg.solve")
def solve(a: ArrayLike, b: ArrayLike, lower: bool = False, overwrite_a: bool = False,
          overwrite_b: bool = False, check_finite: bool = True, assume_a: str | None = None,
          transposed: bool = False) -> AnyArray:  # fmt: skip
    a, b, vector = system("solve", a, b, check_finite)
    if transposed and a.dtype.kind == "c":  # as SciPy refuses it
        raise NotImplementedError(
            "scipy.linalg.solve can currently not solve a^T x = b or a^H x = b for complex "
            "matrices."
        )
    if assume_a in _TRIANGLES:
        _expect_nonsingular(a)
        x = dec.solve_triangular(a, b, _TRIANGLES[assume_a], transposed)
    elif assume_a in {"pos", "positive definite"}:
        x = solve_cholesky(dec.cholesky(a, lower), b)
    else:
        decomposed = dec.Lu(as_assumed(a, assume_a, lower))
        _warn_of_condition(decomposed)
        x = decomposed.solve(b, transposed)
    return result(x, vector)


def _warn_of_condition(decomposed: dec.Lu) -> None:
    """Warn of ill-conditioned matrices as SciPy does: user code may react to the warning."""
    if _core.is_tracing() or _core.is_preparing() or not decomposed.a.size:
        return
    n, a = decomposed.a.shape[-1], to_numpy(dec.constant(decomposed.a))
    # The factors are packed column by column.
    factors = np.swapaxes(to_numpy(decomposed.packed)[..., : n * n].reshape(-1, n, n), -1, -2)
    (gecon,) = scipy_linalg().get_lapack_funcs(("gecon",), (a,))
    bad = []
    for i, (matrix_, factor) in enumerate(zip(a.reshape(-1, n, n), factors, strict=True)):
        rcond, _ = gecon(factor, np.max(np.sum(np.abs(matrix_), axis=0), initial=0.0))
        if not rcond >= np.finfo(a.dtype).eps:
            bad.append(f"slice {i} has rcond = {rcond}")
    if bad:
        kind = scipy_linalg().LinAlgWarning
        warn(f"An ill-conditioned matrix detected: {','.join(bad)}.", kind)


def _expect_nonsingular(a: AnyArray) -> None:
    if _core.is_tracing():
        return
    pivots = np.diagonal(to_numpy(dec.constant(a)), axis1=-2, axis2=-1)
    if np.any(pivots == 0):
        raise LinAlgError("A singular matrix detected: an element of the diagonal is zero.")


def as_assumed(a: AnyArray, assume_a: str | None, lower: bool) -> AnyArray:
    """Give the matrix that is meant, of which some elements may not be read."""
    if assume_a in _GENERAL:
        return a
    if assume_a == "diagonal":
        return _core.where(np.eye(a.shape[-1], dtype=bool), a, 0.0)
    if assume_a == "tridiagonal":
        n = a.shape[-1]
        return _core.where(np.tri(n, k=1, dtype=bool) & np.tri(n, k=1, dtype=bool).T, a, 0.0)
    if assume_a in {"sym", "symmetric", "her", "hermitian"}:
        half = triangle(a, lower, True)
        hermitian = assume_a.startswith("her")
        other = dec.adjoint(half) if hermitian else dec.swap(half)
        # What is imaginary in the diagonal of a Hermitian matrix is not read.
        middle = _core.asarray(a.real, a.dtype) if hermitian and a.dtype.kind == "c" else a
        return half + other + _core.where(np.eye(a.shape[-1], dtype=bool), middle, 0.0)
    raise ValueError(f"{assume_a} is not a recognized matrix structure")


@override("scipy.linalg.inv")
def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True, *,
        assume_a: str | None = None, lower: bool = False) -> AnyArray:  # fmt: skip
    a = matrix("inv", a, check_finite)
    return solve(a, dec.eye(a.shape[-1], a), lower, assume_a=assume_a, check_finite=False)


@override("scipy.linalg.det")
def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    a = matrix("det", a, check_finite)
    # SciPy goes on in double precision.
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    return _core.asarray(dec.part("det", a, dec.packed("lu", a)), wide)


_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


@override("scipy.linalg.solve_triangular")
def solve_triangular(a: ArrayLike, b: ArrayLike, trans: int | str = 0, lower: bool = False,
                     unit_diagonal: bool = False, overwrite_b: bool = False,
                     check_finite: bool = True) -> AnyArray:  # fmt: skip
    a, b, vector = system("solve_triangular", a, b, check_finite)
    if not unit_diagonal and not _core.is_tracing():
        pivots = np.diagonal(a, axis1=-2, axis2=-1)
        # A prepared function asks that again when it is called.
        well = _core.is_preparing() and np.all(pivots != 0)
        pivots = np.ones(1) if well else to_numpy(dec.constant(pivots))
        zeros = np.flatnonzero(np.any(pivots == 0, axis=tuple(range(pivots.ndim - 1))))
        if zeros.size:
            raise LinAlgError(f"singular matrix: resolution failed at diagonal {int(zeros[0])}")
    how = _TRANS[trans]
    if how == 2:
        x = dec.solve_adjoint_triangular(a, b, lower, unit_diagonal)
    else:
        x = dec.solve_triangular(a, b, lower, how == 1, unit_diagonal)
    return result(x, vector)


# --------------------------------------------------------------------------------------------------
# LU


def _lu(a: Array) -> tuple[NDArray, AnyArray, AnyArray]:
    """Give the order of rows, and the factors, of which the smaller one is in a square."""
    m, n = a.shape[-2:]
    k = min(m, n)
    square = a[..., :m] if m < n else a
    lu = dec.packed("lu", square)
    values = to_numpy(dec.constant(lu))
    perm = np.real(values[..., m * k : m * k + m]).astype(np.int64)
    compact = values[..., : m * k].reshape(*a.shape[:-2], k, m).swapaxes(-1, -2)
    rows: AnyArray = np.take_along_axis(a, perm[..., None], -2)
    top = _core.apply("lu_factors", rows[..., :k, :k], np.ascontiguousarray(compact[..., :k, :]))
    lower = _core.where(np.eye(k, dtype=bool), 1.0, triangle(top, True, True))
    lower, upper = _core.asarray(lower, a.dtype), triangle(top, False)
    if m < n:
        rest = dec.solve_triangular(top, rows[..., k:], True, False, True)
        upper = _core.concatenate([upper, rest], -1)
    elif m > n:
        rest = dec.solve_triangular(top, dec.swap(rows[..., k:, :]), False, True)
        lower = _core.concatenate([lower, dec.swap(rest)], -2)
    return perm, lower, upper


@override("scipy.linalg.lu")
def lu(a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True,
       p_indices: bool = False) -> tuple[AnyArray, ...]:  # fmt: skip
    a = matrix("lu", a, check_finite, square=False)
    perm, lower, upper = _lu(a)
    back = np.argsort(perm, axis=-1)
    if permute_l:
        return np.take_along_axis(lower, back[..., None], -2), upper
    if p_indices:
        return back.astype(np.int32), lower, upper
    real = np.float32 if a.dtype.char in "fF" else np.float64
    return np.eye(a.shape[-2], dtype=real)[back], lower, upper


def _interchanges(perm: NDArray) -> NDArray:
    """Give a permutation as LAPACK does: row i is exchanged with row piv[i], in turn."""
    piv = np.zeros(perm.shape, np.int32)
    for at in np.ndindex(perm.shape[:-1]):
        order = list(range(perm.shape[-1]))
        for i, row in enumerate(perm[at]):
            j = order.index(row, i)
            order[i], order[j] = order[j], order[i]
            piv[(*at, i)] = j
    return piv


def _order(piv: NDArray, n: int) -> NDArray:
    """Give the order of rows that interchanges lead to."""
    perm = np.zeros((*piv.shape[:-1], n), np.int64)
    for at in np.ndindex(piv.shape[:-1]):
        order = list(range(n))
        for i, j in enumerate(piv[at]):
            order[i], order[j] = order[j], order[i]
        perm[at] = order
    return perm


@override("scipy.linalg.lu_factor")
def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[AnyArray, NDArray]:
    a = matrix("lu_factor", a, check_finite, square=False)
    perm, lower, upper = _lu(a)
    m, n = a.shape[-2:]
    low = triangle(lower, True, True)
    if m < n:
        low = _core.concatenate([low, np.zeros((*a.shape[:-2], m, n - m), a.dtype)], -1)
    elif m > n:
        upper = _core.concatenate([upper, np.zeros((*a.shape[:-2], m - n, n), a.dtype)], -2)
    return low + upper, _interchanges(perm)[..., : min(m, n)]


@override("scipy.linalg.lu_solve")
def lu_solve(lu_and_piv: tuple[ArrayLike, ArrayLike], b: ArrayLike, trans: int = 0,
             overwrite_b: bool = False, check_finite: bool = True) -> AnyArray:  # fmt: skip
    factors, piv = lu_and_piv
    a, b, vector = system("lu_solve", factors, b, check_finite)
    a, b = dec.over_batch((a, 2), (b, 2))
    perm = _order(np.asarray(to_numpy(piv)), a.shape[-1])
    perm = np.broadcast_to(perm, a.shape[:-1])[..., None]
    if trans == 0:
        x = dec.solve_triangular(a, np.take_along_axis(b, perm, -2), True, False, True)
        return result(dec.solve_triangular(a, x, False), vector)
    if trans not in {1, 2}:
        raise ValueError("trans must be 0, 1 or 2")
    b = b.conj() if trans == 2 and b.dtype.kind == "c" else b
    x = dec.solve_triangular(a, dec.solve_triangular(a, b, False, True), True, True, True)
    x = x.conj() if trans == 2 and x.dtype.kind == "c" else x
    return result(np.take_along_axis(x, np.argsort(perm, -2), -2), vector)


# --------------------------------------------------------------------------------------------------
# Cholesky


@override("scipy.linalg.cholesky")
def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False,
             check_finite: bool = True) -> AnyArray:  # fmt: skip
    factor = dec.cholesky(matrix("cholesky", a, check_finite), lower)
    return factor if lower else dec.adjoint(factor)


@override("scipy.linalg.cho_factor")
def cho_factor(a: ArrayLike, lower: bool = False, overwrite_a: bool = False,
               check_finite: bool = True) -> tuple[AnyArray, bool]:  # fmt: skip
    return cholesky(a, lower, check_finite=check_finite), lower


def solve_cholesky(factor: AnyArray, b: AnyArray) -> Array:
    """Solve with a lower Cholesky factor."""
    factor, b = dec.over_batch((factor, 2), (b, 2))
    return dec.solve_adjoint_triangular(factor, dec.solve_triangular(factor, b, True), True)


@override("scipy.linalg.cho_solve")
def cho_solve(
    c_and_lower: tuple[ArrayLike, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> AnyArray:
    c, lower = c_and_lower
    a, b, vector = system("cho_solve", c, b, check_finite)
    return result(solve_cholesky(a if lower else dec.adjoint(a), b), vector)
