"""Overrides of the decompositions of `scipy.linalg`: QR, singular values, eigenvalues."""

# ruff: noqa: ARG001 - the signatures are SciPy's

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit import decompositions as dec
from cotan._src.kit import lapack_conventions as lapack
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import python_number, refuse, to_numpy
from cotan._src.scipy.linalg.solve import as_assumed, checked, matrix, scipy_linalg
from cotan._src.typing import AnyArray, ArrayLike, NDArray, Scalar, Shape


@override("scipy.linalg.qr")
def qr(a: ArrayLike, overwrite_a: bool = False, lwork: int | None = None, mode: str = "full",
       pivoting: bool = False, check_finite: bool = True) -> tuple[AnyArray, ...]:  # fmt: skip
    if mode not in {"full", "qr", "r", "economic", "raw"}:
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic', 'raw']")
    if mode == "raw":
        raise refuse("scipy.linalg.qr with mode='raw'")
    a = matrix("qr", a, check_finite, square=False)
    order: tuple[NDArray, ...] = ()
    if pivoting:
        scipy = scipy_linalg()

        # Which column comes when is piecewise constant.
        perm = scipy.qr(to_numpy(dec.constant(a)), mode="r", pivoting=True)[1]
        order = (perm,)
        a = np.take_along_axis(a, np.broadcast_to(perm[..., None, :], a.shape), -1)

    def factors(x: NDArray) -> tuple[NDArray, ...]:
        kind = "full" if mode == "full" else "economic"
        parts: tuple[NDArray, ...] = scipy_linalg().qr(x, mode=kind, check_finite=False)
        return parts

    if mode == "r":
        return (_full_r(lapack.qr(a, *dec.qr(a), factors)[1], a), *order)
    q, r = dec.qr(a) if mode == "economic" else dec.complete_qr(a)
    return (*lapack.qr(a, q, r, factors), *order)


def _full_r(r: AnyArray, a: AnyArray) -> AnyArray:
    m, n = a.shape[-2:]
    if m <= n:
        return r
    return _core.concatenate([r, np.zeros((*a.shape[:-2], m - n, n), a.dtype)], -2)


@override("scipy.linalg.svd")
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False,
    check_finite: bool = True, lapack_driver: str = "gesdd",
) -> AnyArray | tuple[AnyArray, AnyArray, AnyArray]:  # fmt: skip
    a = matrix("svd", a, check_finite, square=False)
    if not compute_uv:
        return dec.svdvals(a)

    def vectors(x: NDArray) -> tuple[NDArray, NDArray]:
        options = {"check_finite": False, "lapack_driver": lapack_driver}
        u, _, vh = scipy_linalg().svd(x, full_matrices, **options)
        return u, vh

    parts = dec.full_svd(a) if full_matrices else dec.svd(a)
    return lapack.singular_vectors(*parts, lapack.asked(vectors, a))


@override("scipy.linalg.svdvals")
def svdvals(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> AnyArray:
    return dec.svdvals(matrix("svdvals", a, check_finite, square=False))


def _cutoff(
    s: AnyArray, shape: Shape, rtol: AnyArray | float | None, atol: AnyArray | float | None
) -> AnyArray:
    """Give below what singular values count as zero."""
    s = dec.constant(s)
    largest = _core.max(s, -1) if s.shape[-1] else np.zeros(s.shape[:-1], s.dtype)
    atol = 0.0 if atol is None else atol
    rtol = max(shape) * np.finfo(s.dtype).eps if rtol is None else rtol
    if atol < 0 or rtol < 0:
        raise ValueError("atol and rtol values must be positive.")
    return atol + largest * rtol


@override("scipy.linalg.pinv")
def pinv(a: ArrayLike, *, atol: AnyArray | float | None = None,
         rtol: AnyArray | float | None = None, return_rank: bool = False,
         check_finite: bool = True) -> AnyArray | tuple[AnyArray, AnyArray | int]:  # fmt: skip
    a = matrix("pinv", a, check_finite, square=False)
    s = dec.svdvals(dec.constant(a))
    cutoff = _cutoff(s, a.shape[-2:], rtol, atol)
    empty = (*a.shape[:-2], a.shape[-1], a.shape[-2])
    share = 0.0 if atol is None and rtol is None else None
    inverse = dec.pinv(a, cutoff, share) if a.size else np.zeros(empty, a.dtype)
    if not return_rank:
        return inverse
    rank = np.sum(s > dec.constant(cutoff)[..., None], -1)
    return inverse, rank if _core.is_tracing() else to_numpy(rank)


@override("scipy.linalg.pinvh")
def pinvh(a: ArrayLike, atol: AnyArray | float | None = None, rtol: AnyArray | float | None = None,
          lower: bool = True, return_rank: bool = False,
          check_finite: bool = True) -> AnyArray | tuple[AnyArray, AnyArray | int]:  # fmt: skip
    a = as_assumed(matrix("pinvh", a, check_finite), "her", lower)
    return pinv(a, atol=atol, rtol=rtol, return_rank=return_rank, check_finite=False)


@override("scipy.linalg.lstsq")
def lstsq(
    a: ArrayLike, b: ArrayLike, cond: AnyArray | float | None = None, overwrite_a: bool = False,
    overwrite_b: bool = False, check_finite: bool = True, lapack_driver: str | None = None,
) -> tuple[AnyArray, AnyArray, AnyArray | int, AnyArray | None]:  # fmt: skip
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
    share = np.finfo(a.dtype).eps if cond is None else cond
    if lapack_driver in {None, "gelsd"}:
        share = dec.share_of_gelsd(share, a.dtype)
    elif to_numpy(dec.constant(share)) < 0:
        share = np.finfo(a.dtype).eps / 2
    cutoff = _cutoff(s, a.shape, share, None)
    rank = np.sum(dec.constant(s) > cutoff)
    x = _core.matmul(dec.pinv(a, cutoff, 0.0 if cond is None else share), b)
    if lapack_driver == "gelsy" and not _core.is_tracing():
        _expect_same(a, b, cond, x, int(to_numpy(rank)))
    rest: AnyArray = np.asarray([], dtype=x.dtype)
    if m > n and rank == n and lapack_driver != "gelsy":
        left = b - _core.matmul(a, x)
        one = np.ones((2, 1), a.dtype)
        # Complex in newer versions if the matrix is.
        kind = scipy_linalg().lstsq(one, one, lapack_driver=lapack_driver)[1].dtype
        rest = _core.asarray(np.sum(np.abs(left) ** 2, axis=0), kind)
    elif m > n and lapack_driver != "gelsy":
        none = scipy_linalg().lstsq(np.zeros((2, 1)), np.ones(2), lapack_driver=lapack_driver)[1]
        # SciPy 1.18 gives NaN for each right side.
        rest = np.full(b.shape[1:], np.nan, x.dtype)[()] if none.size else rest
    rank = rank if _core.is_tracing() else int(rank)
    return x, rest, rank, None if lapack_driver == "gelsy" else s


def _expect_same(
    a: AnyArray, b: AnyArray, cond: AnyArray | float | None, x: AnyArray, rank: int
) -> None:
    """Refuse what a factorisation with pivots leaves out where singular values say otherwise."""
    values = [to_numpy(dec.constant(v)) for v in (a, b, x)]
    found, _, known, _ = scipy_linalg().lstsq(*values[:2], cond, lapack_driver="gelsy")
    if known == rank == min(a.shape) or (known == rank and np.allclose(found, values[2])):
        return
    raise NotDifferentiableError(
        "lstsq: lapack_driver='gelsy' determines the rank by pivoting here, which has no "
        "derivative rule in cotan; use 'gelsd', which determines it by singular values"
    )


@override("scipy.linalg.norm")
def norm(a: ArrayLike, ord: float | Literal["fro", "nuc"] | None = None,
         axis: int | tuple[int, int] | None = None, keepdims: bool = False,
         check_finite: bool = True) -> AnyArray | Scalar:  # fmt: skip
    a = checked(a, check_finite)
    length: AnyArray | Scalar = np.linalg.norm(a, ord, axis, keepdims)
    # BLAS gives that of a vector as a number of Python's.
    is_plain = ord in (None, 2) and axis is None and not keepdims and a.ndim == 1 and a.size > 0
    return python_number(length) if is_plain else length


# --------------------------------------------------------------------------------------------------
# Eigenvalues


def _subset(
    w: AnyArray, by_index: Sequence[int] | None, by_value: Sequence[float] | None
) -> slice | NDArray:
    """Give which eigenvalues are asked for."""
    if by_index is not None and by_value is not None:
        raise ValueError("Either index or value subset can be requested.")
    if by_index is not None:
        low, high = map(int, by_index)
        return slice(low, high + 1)
    if by_value is not None:
        values = to_numpy(dec.constant(w))
        return np.flatnonzero((values > by_value[0]) & (values <= by_value[1]))
    return slice(None)


@override("scipy.linalg.eigh")
def eigh(a: ArrayLike, b: ArrayLike | None = None, *, lower: bool = True,
         eigvals_only: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
         type: int = 1, check_finite: bool = True, subset_by_index: Sequence[int] | None = None,
         subset_by_value: Sequence[float] | None = None,
         driver: str | None = None) -> AnyArray | tuple[AnyArray, AnyArray]:  # fmt: skip
    a = matrix("eigh", a, check_finite)
    if b is None:
        if eigvals_only and subset_by_index is None and subset_by_value is None:
            return dec.eigvalsh(a, lower)
        w, v = dec.eigh(a, lower)
    else:
        b = matrix("eigh", b, check_finite)
        w, v = _generalized(a, b, lower, type)
    some = _subset(w, subset_by_index, subset_by_value)
    w = w[..., some]
    if eigvals_only:
        return w
    v = v[..., some]

    def vectors(x: NDArray) -> NDArray:
        options = {"lower": lower, "driver": driver, "type": type, "check_finite": False}
        subset = {"subset_by_index": subset_by_index, "subset_by_value": subset_by_value}
        other = None if b is None else to_numpy(dec.constant(b))
        v: NDArray = scipy_linalg().eigh(x, other, **options, **subset)[1]
        return v

    chosen = lapack.asked(vectors, a)
    if b is None:
        return w, lapack.eigenvectors(w, v, chosen, _real_row(a, lower))
    return w, v if chosen is None else lapack.columns(v, chosen)


def _real_row(a: AnyArray, lower: bool) -> int:
    """Say which component of complex eigenvectors LAPACK makes real."""
    return 0 if lower else int(a.shape[-1]) - 1


def _generalized(a: AnyArray, b: AnyArray, lower: bool, type: int) -> tuple[Array, Array]:
    """Reduce to an ordinary problem by the Cholesky factor of the second matrix."""
    a, b = dec.common(as_assumed(a, "her", lower), b)
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
    turned = lapack.with_real_component(v, _real_row(a, lower))
    if type == 3:
        return w, _core.matmul(factor, turned)
    return w, dec.solve_adjoint_triangular(factor, turned, True)


@override("scipy.linalg.eigvalsh")
def eigvalsh(a: ArrayLike, b: ArrayLike | None = None, *, lower: bool = True,
             overwrite_a: bool = False, overwrite_b: bool = False, type: int = 1,
             check_finite: bool = True, subset_by_index: Sequence[int] | None = None,
             subset_by_value: Sequence[float] | None = None,
             driver: str | None = None) -> AnyArray | tuple[AnyArray, AnyArray]:  # fmt: skip
    return eigh(a, b, lower=lower, eigvals_only=True, type=type, check_finite=check_finite,
                subset_by_index=subset_by_index, subset_by_value=subset_by_value)  # fmt: skip


@override("scipy.linalg.eig")
def eig(a: ArrayLike, b: ArrayLike | None = None, left: bool = False, right: bool = True,
        overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True,
        homogeneous_eigvals: bool = False) -> AnyArray | tuple[AnyArray, ...]:  # fmt: skip
    if homogeneous_eigvals:
        raise refuse("scipy.linalg.eig with homogeneous_eigvals=True")
    a = matrix("eig", a, check_finite)
    pair: tuple[Array, ...] = (a,)
    if b is not None:
        pair = a, b = tuple(dec.common(a, matrix("eig", b, check_finite)))
        if left:
            raise refuse("scipy.linalg.eig of two matrices with left=True")
        a = dec.solve(b, a)

    def original(_: NDArray) -> Any:
        return scipy_linalg().eig(*(to_numpy(dec.constant(x)) for x in pair), check_finite=False)

    if not (left or right):
        library = scipy_linalg().eigvals
        return lapack.eigvals(a, dec.eigvals(a), lambda x: original(x)[0], library)
    w, v = lapack.eig(a, *dec.eig(a), original, scipy_linalg().eig)
    results = [w]
    if left:
        other = dec.adjoint(dec.solve(v, dec.eye(v.shape[-1], v)))
        length = np.sqrt(np.sum(_core.square(other.real) + _core.square(other.imag), -2))
        other = other / _core.asarray(length[..., None, :], other.dtype)
        results.append(
            lapack.left_vectors(other, lambda x: scipy_linalg().eig(x, None, True)[1], a)
        )
    if right:
        results.append(v)
    if a.dtype.kind != "c" and dec.are_real(w):
        results[1:] = [dec.real_part(x, w) for x in results[1:]]
    return tuple(results)


@override("scipy.linalg.eigvals")
def eigvals(a: ArrayLike, b: ArrayLike | None = None, overwrite_a: bool = False,
            check_finite: bool = True,
            homogeneous_eigvals: bool = False) -> AnyArray | tuple[AnyArray, ...]:  # fmt: skip
    return eig(a, b, False, False, check_finite=check_finite,
               homogeneous_eigvals=homogeneous_eigvals)  # fmt: skip
