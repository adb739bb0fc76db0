"""Solvers for band matrices in SciPy's diagonal ordered form: `solve_banded` and relatives.

In that form `ab[u + i - j, j] == a[i, j]`: each row holds a diagonal.
"""

# ruff: noqa: ARG001 - the signatures are SciPy's

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.kit import decompositions as dec
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import to_numpy
from cotan._src.scipy.linalg.solve import checked, result, scipy_linalg
from cotan._src.typing import AnyArray, ArrayLike


def _bands(ab: AnyArray, below: int, above: int) -> Array:
    """Give as many diagonals below the main one as above it."""
    width = max(below, above)
    missing = np.zeros((*ab.shape[:-2], 0, ab.shape[-1]), ab.dtype)
    before, after = (
        np.broadcast_to(missing.sum(-2, keepdims=True), (*ab.shape[:-2], k, ab.shape[-1]))
        for k in (width - above, width - below)
    )
    return _core.concatenate([before, ab, after], -2)


def _solve_bands(bands: AnyArray, b: AnyArray, transposed: bool = False) -> Array:
    bands, b = dec.over_batch((bands, 2), (b, 2))
    flags = {"lower": False, "transposed": transposed, "unit": False}
    return dec.known(_core.apply("banded_solve", bands, b, **flags))


def _band_system(
    name: str, ab: ArrayLike, b: ArrayLike, check_finite: bool
) -> tuple[AnyArray, AnyArray, bool]:
    ab, b = dec.common(checked(ab, check_finite), checked(b, check_finite))
    vector = b.ndim == 1
    b = b[:, None] if vector else b
    if ab.ndim < 2 or ab.shape[-1] != b.shape[-2]:
        raise ValueError(f"{name}: shapes of ab {ab.shape} and b {b.shape} are not compatible.")
    return ab, b, vector


@override("scipy.linalg.solve_banded")
def solve_banded(l_and_u: tuple[int, int], ab: ArrayLike, b: ArrayLike, overwrite_ab: bool = False,
                 overwrite_b: bool = False, check_finite: bool = True) -> AnyArray:  # fmt: skip
    below, above = l_and_u
    ab, b, vector = _band_system("solve_banded", ab, b, check_finite)
    if below + above + 1 != ab.shape[-2]:
        raise ValueError(
            "invalid values for the number of lower and upper diagonals: l+u+1 "
            f"({below + above + 1}) does not equal ab.shape[0] ({ab.shape[-2]})"
        )
    return result(_solve_bands(_bands(ab, below, above), b), vector)


def _other_side(ab: AnyArray, lower: bool) -> AnyArray:
    """Give all diagonals of a Hermitian matrix, of which those on one side are known."""
    rows, n = ab.shape[-2:]
    width = rows - 1
    if ab.dtype.kind == "c":
        # What is imaginary in the diagonal is not read.
        diagonal = (np.arange(rows) == (0 if lower else width))[:, None]
        ab = _core.where(diagonal, _core.asarray(ab.real, ab.dtype), ab)
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


@override("scipy.linalg.solveh_banded")
def solveh_banded(ab: ArrayLike, b: ArrayLike, overwrite_ab: bool = False,
                  overwrite_b: bool = False, lower: bool = False,
                  check_finite: bool = True) -> AnyArray:  # fmt: skip
    ab, b, vector = _band_system("solveh_banded", ab, b, check_finite)
    scipy = scipy_linalg()

    if not _core.is_tracing():
        # It says when the matrix is not positive definite.
        scipy.cholesky_banded(to_numpy(dec.constant(ab)), lower=lower)
    return result(_solve_bands(_other_side(ab, lower), b), vector)


def _dense(ab: AnyArray, lower: bool) -> Array:
    """Give the triangle of a matrix whose diagonals these are."""
    rows, n = ab.shape[-2:]
    i, j = np.indices((n, n))
    r = (i - j) if lower else (rows - 1 + i - j)
    inside = (i >= j) & (i - j < rows) if lower else (j >= i) & (j - i < rows)
    return _core.where(inside, ab[..., np.where(inside, r, 0), j], 0.0)


@override("scipy.linalg.cholesky_banded")
def cholesky_banded(ab: ArrayLike, overwrite_ab: bool = False, lower: bool = False,
                    check_finite: bool = True) -> Array:  # fmt: skip
    (ab,) = dec.common(checked(ab, check_finite))
    factor = dec.cholesky(_dense(ab, lower), lower)
    rows, n = ab.shape[-2:]
    r, j = np.indices((rows, n))
    i = j + r if lower else j + r - (rows - 1)
    inside = (i >= 0) & (i < n)
    factor = factor if lower else dec.adjoint(factor)
    return _core.where(inside, factor[..., np.where(inside, i, 0), j], 0.0)


@override("scipy.linalg.cho_solve_banded")
def cho_solve_banded(cb_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False,
                     check_finite: bool = True) -> AnyArray:  # fmt: skip
    cb, lower = cb_and_lower
    cb, b, vector = _band_system("cho_solve_banded", cb, b, check_finite)
    width = cb.shape[-2] - 1
    bands = _bands(cb, width, 0) if lower else _bands(cb, 0, width)

    def solved(b: AnyArray, adjoint: bool) -> AnyArray:
        if adjoint and b.dtype.kind == "c":
            return _solve_bands(bands, b.conj(), True).conj()
        return _solve_bands(bands, b, adjoint)

    return result(solved(solved(b, not lower), lower), vector)
