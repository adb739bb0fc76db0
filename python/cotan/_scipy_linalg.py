"""The functions of `scipy.linalg` that solve and decompose, on `Array`s.

Each stands for the function of SciPy of its name, with that function's signature; `overwrite_...`
and the names of LAPACK's drivers are taken and change nothing. Where SciPy works over batches, so
do these. Functions of matrices are in `_scipy_matfuncs`.
"""

# ruff: noqa: ARG001 - the signatures are SciPy's

import importlib
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from cotan import _core
from cotan import _decompositions as dec
from cotan._lifted import lifts
from cotan._numpy_core import any_active, plain, refuse
from cotan._numpy_own import asarray as host_asarray


def scipy_linalg() -> Any:
    """Give SciPy's module, where it is needed for a value."""
    return importlib.import_module("scipy.linalg")


def checked(x: Any, check_finite: bool = True) -> Any:
    """Give an argument as an array of floats; infinities and NaN are refused as SciPy does."""
    x = host_asarray(x)
    if x.dtype == np.float16:
        x = _core.asarray(x, np.float32)
    if check_finite and not np.all(np.isfinite(plain(dec.constant(x)))):
        raise ValueError("array must not contain infs or NaNs")
    return x


def _matrix(name: str, a: Any, check_finite: bool = True, square: bool = True) -> Any:
    a = checked(a, check_finite)
    if a.ndim < 2:
        raise ValueError(f"{name}: The input array must be at least two-dimensional.")
    if square and a.shape[-1] != a.shape[-2]:
        raise ValueError(f"{name}: Expected square matrix, got shape {a.shape}")
    return dec.matrix(name, a)


def _system(name: str, a: Any, b: Any, check_finite: bool = True) -> tuple[Any, Any, bool]:
    """Give a square matrix, right-hand sides as a matrix, and whether they were a vector."""
    a, b = dec.common(checked(a, check_finite), checked(b, check_finite))
    a = _matrix(name, np.atleast_2d(a), False)
    b = np.atleast_1d(b)
    vector = b.ndim == 1
    b = b[:, None] if vector else b
    if b.shape[-2] != a.shape[-1]:
        raise ValueError(f"{name}: incompatible shapes {a.shape} and {b.shape}")
    return a, b, vector


def _result(x: Any, vector: bool) -> Any:
    return x[..., 0] if vector else x


def triangle(a: Any, lower: bool, strict: bool = False) -> Any:
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


@lifts("scipy.linalg.solve")
def solve(a: Any, b: Any, lower: bool = False, overwrite_a: bool = False,
          overwrite_b: bool = False, check_finite: bool = True, assume_a: Any = None,
          transposed: bool = False) -> Any:  # fmt: skip
    a, b, vector = _system("solve", a, b, check_finite)
    if transposed and a.dtype.kind == "c":
        raise NotImplementedError(
            "scipy.linalg.solve can currently not solve a^T x = b or a^H x = b for complex "
            "matrices."
        )
    if assume_a in _TRIANGLES:
        _expect_nonsingular(a)
        x = dec.solve_triangular(a, b, _TRIANGLES[assume_a], transposed)
    elif assume_a in {"pos", "positive definite"}:
        x = _solve_cholesky(dec.cholesky(a, lower), b)
    else:
        x = dec.solve(_as_assumed(a, assume_a, lower), b, transposed)
    return _result(x, vector)


def _expect_nonsingular(a: Any) -> None:
    pivots = np.diagonal(plain(dec.constant(a)), axis1=-2, axis2=-1)
    if np.any(pivots == 0):
        raise LinAlgError("A singular matrix detected: an element of the diagonal is zero.")


def _as_assumed(a: Any, assume_a: Any, lower: bool) -> Any:
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
        other = dec.adjoint(half) if assume_a.startswith("her") else dec.swap(half)
        return half + other + _core.where(np.eye(a.shape[-1], dtype=bool), a, 0.0)
    raise ValueError(f"{assume_a} is not a recognized matrix structure")


@lifts("scipy.linalg.inv")
def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: Any = None,
        lower: bool = False) -> Any:  # fmt: skip
    a = _matrix("inv", a, check_finite)
    return solve(a, dec.eye(a.shape[-1], a), lower, assume_a=assume_a, check_finite=False)


@lifts("scipy.linalg.det")
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    a = _matrix("det", a, check_finite)
    return dec.part("det", a, dec.packed("lu", a))


_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


@lifts("scipy.linalg.solve_triangular")
def solve_triangular(a: Any, b: Any, trans: Any = 0, lower: bool = False,
                     unit_diagonal: bool = False, overwrite_b: bool = False,
                     check_finite: bool = True) -> Any:  # fmt: skip
    a, b, vector = _system("solve_triangular", a, b, check_finite)
    if not unit_diagonal:
        pivots = np.diagonal(plain(dec.constant(a)), axis1=-2, axis2=-1)
        zeros = np.flatnonzero(np.any(pivots == 0, axis=tuple(range(pivots.ndim - 1))))
        if zeros.size:
            raise LinAlgError(f"singular matrix: resolution failed at diagonal {int(zeros[0]) + 1}")
    how = _TRANS[trans]
    if how == 2:
        x = dec.solve_adjoint_triangular(a, b, lower, unit_diagonal)
    else:
        x = dec.solve_triangular(a, b, lower, how == 1, unit_diagonal)
    return _result(x, vector)


# --------------------------------------------------------------------------------------------------
# LU


def _lu(a: Any) -> tuple[Any, Any, Any]:
    """Give the order of rows, and the factors, of which the smaller one is in a square."""
    m, n = a.shape[-2:]
    k = min(m, n)
    square = a[..., :m] if m < n else a
    lu = dec.packed("lu", square)
    values = plain(dec.constant(lu))
    perm = np.real(values[..., m * k : m * k + m]).astype(np.int64)
    compact = values[..., : m * k].reshape(*a.shape[:-2], k, m).swapaxes(-1, -2)
    rows = np.take_along_axis(a, perm[..., None], -2)
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


@lifts("scipy.linalg.lu")
def lu(a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True,
       p_indices: bool = False) -> Any:  # fmt: skip
    a = _matrix("lu", a, check_finite, square=False)
    perm, lower, upper = _lu(a)
    back = np.argsort(perm, axis=-1)
    if permute_l:
        return np.take_along_axis(lower, back[..., None], -2), upper
    if p_indices:
        return back.astype(np.int32), lower, upper
    real = np.float32 if a.dtype.char in "fF" else np.float64
    return np.eye(a.shape[-2], dtype=real)[back], lower, upper


def _interchanges(perm: Any) -> Any:
    """Give a permutation as LAPACK does: row i is exchanged with row piv[i], in turn."""
    piv = np.zeros(perm.shape, np.int32)
    for at in np.ndindex(perm.shape[:-1]):
        order = list(range(perm.shape[-1]))
        for i, row in enumerate(perm[at]):
            j = order.index(row, i)
            order[i], order[j] = order[j], order[i]
            piv[(*at, i)] = j
    return piv


def _order(piv: Any, n: int) -> Any:
    """Give the order of rows that interchanges lead to."""
    perm = np.zeros((*piv.shape[:-1], n), np.int64)
    for at in np.ndindex(piv.shape[:-1]):
        order = list(range(n))
        for i, j in enumerate(piv[at]):
            order[i], order[j] = order[j], order[i]
        perm[at] = order
    return perm


@lifts("scipy.linalg.lu_factor")
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    a = _matrix("lu_factor", a, check_finite, square=False)
    perm, lower, upper = _lu(a)
    m, n = a.shape[-2:]
    low = triangle(lower, True, True)
    if m < n:
        low = _core.concatenate([low, np.zeros((*a.shape[:-2], m, n - m), a.dtype)], -1)
    elif m > n:
        upper = _core.concatenate([upper, np.zeros((*a.shape[:-2], m - n, n), a.dtype)], -2)
    return low + upper, _interchanges(perm)[..., : min(m, n)]


@lifts("scipy.linalg.lu_solve")
def lu_solve(lu_and_piv: Any, b: Any, trans: Any = 0, overwrite_b: bool = False,
             check_finite: bool = True) -> Any:  # fmt: skip
    factors, piv = lu_and_piv
    a, b, vector = _system("lu_solve", factors, b, check_finite)
    a, b = dec.over_batch((a, 2), (b, 2))
    perm = _order(np.asarray(plain(piv)), a.shape[-1])
    perm = np.broadcast_to(perm, a.shape[:-1])[..., None]
    if trans == 0:
        x = dec.solve_triangular(a, np.take_along_axis(b, perm, -2), True, False, True)
        return _result(dec.solve_triangular(a, x, False), vector)
    if trans not in {1, 2}:
        raise ValueError("trans must be 0, 1 or 2")
    b = b.conj() if trans == 2 and b.dtype.kind == "c" else b
    x = dec.solve_triangular(a, dec.solve_triangular(a, b, False, True), True, True, True)
    x = x.conj() if trans == 2 and x.dtype.kind == "c" else x
    return _result(np.take_along_axis(x, np.argsort(perm, -2), -2), vector)


# --------------------------------------------------------------------------------------------------
# Cholesky


@lifts("scipy.linalg.cholesky")
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False,
             check_finite: bool = True) -> Any:  # fmt: skip
    factor = dec.cholesky(_matrix("cholesky", a, check_finite), lower)
    return factor if lower else dec.adjoint(factor)


@lifts("scipy.linalg.cho_factor")
def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False,
               check_finite: bool = True) -> tuple[Any, bool]:  # fmt: skip
    return cholesky(a, lower, check_finite=check_finite), lower


def _solve_cholesky(factor: Any, b: Any) -> Any:
    """Solve with a lower Cholesky factor."""
    factor, b = dec.over_batch((factor, 2), (b, 2))
    return dec.solve_adjoint_triangular(factor, dec.solve_triangular(factor, b, True), True)


@lifts("scipy.linalg.cho_solve")
def cho_solve(
    c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    c, lower = c_and_lower
    a, b, vector = _system("cho_solve", c, b, check_finite)
    return _result(_solve_cholesky(a if lower else dec.adjoint(a), b), vector)


# --------------------------------------------------------------------------------------------------
# Band matrices: of each diagonal a row, each element in its own column


def _bands(ab: Any, below: int, above: int) -> Any:
    """Give as many diagonals below the main one as above it."""
    width = max(below, above)
    missing = np.zeros((*ab.shape[:-2], 0, ab.shape[-1]), ab.dtype)
    before, after = (
        np.broadcast_to(missing.sum(-2, keepdims=True), (*ab.shape[:-2], k, ab.shape[-1]))
        for k in (width - above, width - below)
    )
    return _core.concatenate([before, ab, after], -2)


def _solve_bands(bands: Any, b: Any, transposed: bool = False) -> Any:
    bands, b = dec.over_batch((bands, 2), (b, 2))
    flags = {"lower": False, "transposed": transposed, "unit": False}
    return dec.known(_core.apply("banded_solve", bands, b, **flags))


def _band_system(name: str, ab: Any, b: Any, check_finite: bool) -> tuple[Any, Any, bool]:
    ab, b = dec.common(checked(ab, check_finite), checked(b, check_finite))
    vector = b.ndim == 1
    b = b[:, None] if vector else b
    if ab.ndim < 2 or ab.shape[-1] != b.shape[-2]:
        raise ValueError(f"{name}: shapes of ab {ab.shape} and b {b.shape} are not compatible.")
    return ab, b, vector


@lifts("scipy.linalg.solve_banded")
def solve_banded(l_and_u: Any, ab: Any, b: Any, overwrite_ab: bool = False,
                 overwrite_b: bool = False, check_finite: bool = True) -> Any:  # fmt: skip
    below, above = l_and_u
    ab, b, vector = _band_system("solve_banded", ab, b, check_finite)
    if below + above + 1 != ab.shape[-2]:
        raise ValueError(
            "invalid values for the number of lower and upper diagonals: l+u+1 "
            f"({below + above + 1}) does not equal ab.shape[0] ({ab.shape[-2]})"
        )
    return _result(_solve_bands(_bands(ab, below, above), b), vector)


def _other_side(ab: Any, lower: bool) -> Any:
    """Give all diagonals of a Hermitian matrix, of which those on one side are known."""
    rows, n = ab.shape[-2:]
    width = rows - 1
    known = ab if lower else _core.flip(ab, -2)
    parts = []
    for k in range(1, rows):
        # Element (j - k, j) is the conjugate of (j, j - k), and the other way round.
        row = known[..., k, :]
        row = row.conj() if row.dtype.kind == "c" else row
        zeros = np.zeros((*ab.shape[:-2], min(k, n)), ab.dtype)
        kept = row[..., : max(n - k, 0)] if lower else row[..., k:]
        parts.append(_core.concatenate([zeros, kept] if lower else [kept, zeros], -1))
    rest = [part[..., None, :] for part in parts]
    if lower:
        return _core.concatenate([*rest[::-1], known], -2) if width else known
    return _core.concatenate([ab, *rest], -2)


@lifts("scipy.linalg.solveh_banded")
def solveh_banded(ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False,
                  lower: bool = False, check_finite: bool = True) -> Any:  # fmt: skip
    ab, b, vector = _band_system("solveh_banded", ab, b, check_finite)
    scipy = scipy_linalg()

    # It says when the matrix is not positive definite.
    scipy.cholesky_banded(plain(dec.constant(ab)), lower=lower)
    return _result(_solve_bands(_other_side(ab, lower), b), vector)


def _dense(ab: Any, lower: bool) -> Any:
    """Give the triangle of a matrix whose diagonals these are."""
    rows, n = ab.shape[-2:]
    i, j = np.indices((n, n))
    r = (i - j) if lower else (rows - 1 + i - j)
    inside = (i >= j) & (i - j < rows) if lower else (j >= i) & (j - i < rows)
    return _core.where(inside, ab[..., np.where(inside, r, 0), j], 0.0)


@lifts("scipy.linalg.cholesky_banded")
def cholesky_banded(ab: Any, overwrite_ab: bool = False, lower: bool = False,
                    check_finite: bool = True) -> Any:  # fmt: skip
    (ab,) = dec.common(checked(ab, check_finite))
    factor = dec.cholesky(_dense(ab, lower), lower)
    rows, n = ab.shape[-2:]
    r, j = np.indices((rows, n))
    i = j + r if lower else j + r - (rows - 1)
    inside = (i >= 0) & (i < n)
    factor = factor if lower else dec.adjoint(factor)
    return _core.where(inside, factor[..., np.where(inside, i, 0), j], 0.0)


@lifts("scipy.linalg.cho_solve_banded")
def cho_solve_banded(cb_and_lower: Any, b: Any, overwrite_b: bool = False,
                     check_finite: bool = True) -> Any:  # fmt: skip
    cb, lower = cb_and_lower
    cb, b, vector = _band_system("cho_solve_banded", cb, b, check_finite)
    width = cb.shape[-2] - 1
    bands = _bands(cb, width, 0) if lower else _bands(cb, 0, width)

    def solved(b: Any, adjoint: bool) -> Any:
        if adjoint and b.dtype.kind == "c":
            return _solve_bands(bands, b.conj(), True).conj()
        return _solve_bands(bands, b, adjoint)

    return _result(solved(solved(b, not lower), lower), vector)


# --------------------------------------------------------------------------------------------------
# QR, singular values


@lifts("scipy.linalg.qr")
def qr(a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full",
       pivoting: bool = False, check_finite: bool = True) -> Any:  # fmt: skip
    if mode not in {"full", "qr", "r", "economic", "raw"}:
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic', 'raw']")
    if mode == "raw":
        raise refuse("scipy.linalg.qr with mode='raw'")
    a = _matrix("qr", a, check_finite, square=False)
    order: tuple[Any, ...] = ()
    if pivoting:
        scipy = scipy_linalg()

        # Which column comes when is piecewise constant.
        perm = scipy.qr(plain(dec.constant(a)), mode="r", pivoting=True)[1]
        order = (perm,)
        a = np.take_along_axis(a, np.broadcast_to(perm[..., None, :], a.shape), -1)
    if mode == "economic":
        return (*dec.qr(a), *order)
    if mode == "r":
        return (_full_r(a), *order)
    q, r = dec.complete_qr(a)
    return (q, r, *order)


def _full_r(a: Any) -> Any:
    m, n = a.shape[-2:]
    r = dec.qr(a)[1]
    if m <= n:
        return r
    return _core.concatenate([r, np.zeros((*a.shape[:-2], m - n, n), a.dtype)], -2)


@lifts("scipy.linalg.svd")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False,
        check_finite: bool = True, lapack_driver: str = "gesdd") -> Any:  # fmt: skip
    a = _matrix("svd", a, check_finite, square=False)
    if not compute_uv:
        return dec.svdvals(a)
    return dec.full_svd(a) if full_matrices else dec.svd(a)


@lifts("scipy.linalg.svdvals")
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    return dec.svdvals(_matrix("svdvals", a, check_finite, square=False))


def _cutoff(s: Any, shape: Any, rtol: Any, atol: Any) -> Any:
    """Give below what singular values count as zero."""
    s = plain(dec.constant(s))
    largest = s.max(-1) if s.shape[-1] else np.zeros(s.shape[:-1], s.dtype)
    atol = 0.0 if atol is None else atol
    rtol = max(shape) * np.finfo(s.dtype).eps if rtol is None else rtol
    if atol < 0 or rtol < 0:
        raise ValueError("atol and rtol values must be positive.")
    return atol + largest * rtol


@lifts("scipy.linalg.pinv")
def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False,
         check_finite: bool = True) -> Any:  # fmt: skip
    a = _matrix("pinv", a, check_finite, square=False)
    s = dec.svdvals(dec.constant(a))
    cutoff = _cutoff(s, a.shape[-2:], rtol, atol)
    inverse = dec.pinv(a, cutoff) if a.size else np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]))
    rank = np.sum(plain(s) > cutoff[..., None], -1)
    return (inverse, rank) if return_rank else inverse


@lifts("scipy.linalg.pinvh")
def pinvh(a: Any, atol: Any = None, rtol: Any = None, lower: bool = True,
          return_rank: bool = False, check_finite: bool = True) -> Any:  # fmt: skip
    a = _as_assumed(_matrix("pinvh", a, check_finite), "her", lower)
    return pinv(a, atol=atol, rtol=rtol, return_rank=return_rank, check_finite=False)


@lifts("scipy.linalg.lstsq")
def lstsq(a: Any, b: Any, cond: Any = None, overwrite_a: bool = False, overwrite_b: bool = False,
          check_finite: bool = True, lapack_driver: Any = None) -> Any:  # fmt: skip
    a, b = dec.common(checked(a, check_finite), checked(b, check_finite))
    if a.ndim != 2:
        raise ValueError("Input array a should be 2D")
    m, n = a.shape
    if m != b.shape[0]:
        raise ValueError(
            f"Shape mismatch: a and b should have the same number of rows ({m} != {b.shape[0]})."
        )
    if not a.size:
        empty = np.zeros((n, *b.shape[1:]), a.dtype)
        return empty, np.linalg.norm(b, axis=0) ** 2 if n == 0 else np.empty(0), 0, np.empty(0)
    s = dec.svdvals(a)
    cutoff = _cutoff(s, a.shape, np.finfo(a.dtype).eps if cond is None else cond, None)
    rank = int(np.sum(plain(dec.constant(s)) > cutoff))
    x = _core.matmul(dec.pinv(a, cutoff), b)
    rest: Any = np.asarray([], dtype=x.dtype)
    if rank == n and m > n:
        left = b - _core.matmul(a, x)
        rest = np.sum(np.abs(left) ** 2, axis=0)
    return x, rest, rank, None if lapack_driver == "gelsy" else s


@lifts("scipy.linalg.norm")
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False,
         check_finite: bool = True) -> Any:  # fmt: skip
    return np.linalg.norm(checked(a, check_finite), ord, axis, keepdims)


# --------------------------------------------------------------------------------------------------
# Eigenvalues


def _subset(w: Any, by_index: Any, by_value: Any) -> Any:
    """Give which eigenvalues are asked for."""
    if by_index is not None and by_value is not None:
        raise ValueError("Either index or value subset can be requested.")
    if by_index is not None:
        low, high = map(int, by_index)
        return slice(low, high + 1)
    if by_value is not None:
        values = plain(dec.constant(w))
        return np.flatnonzero((values > by_value[0]) & (values <= by_value[1]))
    return slice(None)


@lifts("scipy.linalg.eigh")
def eigh(a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False,
         overwrite_a: bool = False, overwrite_b: bool = False, type: int = 1,
         check_finite: bool = True, subset_by_index: Any = None, subset_by_value: Any = None,
         driver: Any = None) -> Any:  # fmt: skip
    a = _matrix("eigh", a, check_finite)
    if b is None:
        if eigvals_only and subset_by_index is None and subset_by_value is None:
            return dec.eigvalsh(a, lower)
        w, v = dec.eigh(a, lower)
    else:
        w, v = _generalized(a, _matrix("eigh", b, check_finite), lower, type)
    chosen = _subset(w, subset_by_index, subset_by_value)
    return w[..., chosen] if eigvals_only else (w[..., chosen], v[..., chosen])


def _generalized(a: Any, b: Any, lower: bool, type: int) -> tuple[Any, Any]:
    """Reduce to an ordinary problem by the Cholesky factor of the second matrix."""
    a, b = dec.common(_as_assumed(a, "her", lower), b)
    factor = dec.cholesky(b, lower)
    a, factor = dec.over_batch((a, 2), (factor, 2))
    if type == 1:
        half = dec.solve_triangular(factor, a, True)
        middle = dec.solve_triangular(factor, dec.adjoint(half), True)
    elif type in {2, 3}:
        middle = _core.matmul(dec.adjoint(factor), _core.matmul(a, factor))
    else:
        raise ValueError("'type' keyword only accepts 1, 2, and 3.")
    w, v = dec.eigh((middle + dec.adjoint(middle)) / 2)
    if type == 3:
        return w, _core.matmul(factor, v)
    return w, dec.solve_adjoint_triangular(factor, v, True)


@lifts("scipy.linalg.eigvalsh")
def eigvalsh(a: Any, b: Any = None, *, lower: bool = True, overwrite_a: bool = False,
             overwrite_b: bool = False, type: int = 1, check_finite: bool = True,
             subset_by_index: Any = None, subset_by_value: Any = None,
             driver: Any = None) -> Any:  # fmt: skip
    return eigh(a, b, lower=lower, eigvals_only=True, type=type, check_finite=check_finite,
                subset_by_index=subset_by_index, subset_by_value=subset_by_value)  # fmt: skip


@lifts("scipy.linalg.eig")
def eig(a: Any, b: Any = None, left: bool = False, right: bool = True, overwrite_a: bool = False,
        overwrite_b: bool = False, check_finite: bool = True,
        homogeneous_eigvals: bool = False) -> Any:  # fmt: skip
    if homogeneous_eigvals:
        raise refuse("scipy.linalg.eig with homogeneous_eigvals=True")
    a = _matrix("eig", a, check_finite)
    if b is not None:
        a, b = dec.common(a, _matrix("eig", b, check_finite))
        if left:
            raise refuse("scipy.linalg.eig of two matrices with left=True")
        a = dec.solve(b, a)
    if not (left or right):
        return dec.eigvals(a)
    w, v = dec.eig(a)
    results = [w]
    if left:
        other = dec.adjoint(dec.solve(v, dec.eye(v.shape[-1], v)))
        length = np.sqrt(np.sum(_core.square(other.real) + _core.square(other.imag), -2))
        results.append(other / _core.asarray(length[..., None, :], other.dtype))
    if right:
        results.append(v)
    if a.dtype.kind != "c" and dec.are_real(w):
        results[1:] = [x.real for x in results[1:]]
    return tuple(results)


@lifts("scipy.linalg.eigvals")
def eigvals(a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True,
            homogeneous_eigvals: bool = False) -> Any:  # fmt: skip
    return eig(a, b, False, False, check_finite=check_finite,
               homogeneous_eigvals=homogeneous_eigvals)  # fmt: skip


# --------------------------------------------------------------------------------------------------
# Sylvester's equation and its kin


@lifts("scipy.linalg.solve_sylvester")
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    a, b, q = dec.common(*(_matrix("solve_sylvester", x, False, False) for x in (a, b, q)))
    return _core.apply("sylvester", *dec.over_batch((a, 2), (b, 2), (q, 2)))


@lifts("scipy.linalg.solve_continuous_lyapunov", "scipy.linalg.solve_lyapunov")
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    a, q = dec.common(_matrix("solve_continuous_lyapunov", a), _matrix("q", q))
    return solve_sylvester(a, dec.adjoint(a), q)


@lifts("scipy.linalg.solve_discrete_lyapunov")
def solve_discrete_lyapunov(a: Any, q: Any, method: Any = None) -> Any:
    a, q = dec.common(_matrix("solve_discrete_lyapunov", a), _matrix("q", q))
    method = method if method is not None else ("direct" if a.shape[-1] < 10 else "bilinear")
    if method not in {"direct", "bilinear"}:
        raise ValueError(f"Unknown solver {method}")
    one = dec.eye(a.shape[-1], a)
    if method == "direct" and a.ndim == 2 and q.ndim == 2:
        n = a.shape[-1]
        other = a.conj() if a.dtype.kind == "c" else a
        both = a[:, None, :, None] * other[None, :, None, :]
        system = np.eye(n * n, dtype=a.dtype) - _core.reshape(both, (n * n, n * n))
        return dec.solve(system, _core.reshape(q, (n * n, 1))).reshape(n, n)
    # The bilinear transformation makes a continuous equation of it.
    inverse = dec.solve(dec.adjoint(a) + one, one)
    left = _core.matmul(dec.adjoint(a) - one, inverse)
    right = 2 * _core.matmul(dec.solve(a + one, q), inverse)
    return solve_continuous_lyapunov(dec.adjoint(left), -right)


# --------------------------------------------------------------------------------------------------
# Matrices of a given form


def _vector(x: Any) -> Any:
    x = host_asarray(x)
    return _core.reshape(_core.asarray(x), -1)


def _both(c: Any, r: Any) -> tuple[Any, Any]:
    x, y = _vector(c), _vector(r)
    dtype = np.result_type(x.dtype, y.dtype)
    return _core.asarray(x, dtype), _core.asarray(y, dtype)


@lifts("scipy.linalg.toeplitz")
def toeplitz(c: Any, r: Any = None) -> Any:
    c = _vector(c)
    first = (c.conj() if c.dtype.kind == "c" else c) if r is None else r
    c, r = _both(c, first)
    values = _core.concatenate([_core.flip(c), r[1:]])
    m, n = c.shape[0], r.shape[0]
    return values[(m - 1) - np.arange(m)[:, None] + np.arange(n)]


@lifts("scipy.linalg.hankel")
def hankel(c: Any, r: Any = None) -> Any:
    c = _vector(c)
    c, r = _both(c, np.zeros(c.shape, c.dtype) if r is None else r)
    values = _core.concatenate([c, r[1:]])
    return values[np.arange(c.shape[0])[:, None] + np.arange(r.shape[0])]


@lifts("scipy.linalg.circulant")
def circulant(c: Any) -> Any:
    c = host_asarray(c)
    n = c.shape[-1]
    return _core.asarray(c)[..., (np.arange(n)[:, None] - np.arange(n)) % n]


@lifts("scipy.linalg.block_diag")
def block_diag(*arrs: Any) -> Any:
    blocks = [np.atleast_2d(host_asarray(a)) for a in (arrs or ([],))]
    if any(b.ndim > 2 for b in blocks):
        raise refuse("scipy.linalg.block_diag of batches")
    dtype = np.result_type(*(b.dtype for b in blocks))
    width, start, rows = sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        m, n = block.shape
        before, after = np.zeros((m, start), dtype), np.zeros((m, width - start - n), dtype)
        rows.append(_core.concatenate([before, _core.asarray(block, dtype), after], 1))
        start += n
    return _core.concatenate(rows, 0)


def _of_values(name: str) -> None:
    """Let a function run on values; a derivative does not exist."""

    @lifts(f"scipy.linalg.{name}")
    def basis(*args: Any, **kwargs: Any) -> Any:
        if any_active(args):
            raise refuse(f"scipy.linalg.{name}, any rotation of whose result is one as well,")
        scipy = scipy_linalg()

        return getattr(scipy, name)(*map(plain, args), **kwargs)


_of_values("orth")
_of_values("null_space")

from . import _scipy_matfuncs as _matfuncs  # noqa: E402, F401 - enters its functions, too
