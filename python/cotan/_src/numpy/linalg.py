"""Overrides of `numpy.linalg`: solvers and decompositions."""

import functools
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.linalg import LinAlgError

from cotan import _core
from cotan._core import Array
from cotan._src.kit import decompositions as dec
from cotan._src.kit import lapack_conventions as lapack
from cotan._src.numpy.shape import moveaxis
from cotan._src.rebind.numpy_substitutes import asarray as host_asarray
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import call_on_values, is_given, or_default
from cotan._src.typing import AnyArray, ArrayLike, Function, NDArray, Scalar, Shape

if TYPE_CHECKING:
    from numpy._globals import _NoValueType

# What singular values are cut off by.
_Share: TypeAlias = AnyArray | float
_GivenShare: TypeAlias = "_Share | _NoValueType | None"

# --------------------------------------------------------------------------------------------------
# Systems of equations, determinants


@override(np.linalg.solve)
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    a, b = dec.common(a, b)
    a = dec.matrix("solve", a, square=True)
    vector = b.ndim == 1
    if b.ndim == 0 or b.shape[0 if vector else -2] != a.shape[-1]:
        raise ValueError(
            f"solve: a matrix of shape {a.shape} and right-hand sides of shape {b.shape} do not "
            "fit: the last axis of the first must be as long as the last but one of the second"
        )
    x = dec.solve(a, b[:, None] if vector else b)
    return x[..., 0] if vector else x


@override(np.linalg.tensorsolve)
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    x, y = host_asarray(a), host_asarray(b)
    if axes is not None:
        rest = [k for k in range(x.ndim) if k not in axes]
        x = x.transpose(rest + list(axes))
    shape = x.shape[-(x.ndim - y.ndim) :]
    if x.size != math.prod(shape) ** 2:
        raise LinAlgError(
            "Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == "
            f"prod(a.shape[:b.ndim]), but they are {x.shape} and {y.shape}"
        )
    n = math.prod(shape)
    return solve(_core.reshape(x, (n, n)), _core.reshape(y, -1)).reshape(shape)


@override(np.linalg.inv)
def inv(a: ArrayLike) -> Array:
    a = dec.matrix("inv", a, square=True)
    return dec.solve(a, dec.eye(a.shape[-1], a))


@override(np.linalg.tensorinv)
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    x = host_asarray(a)
    shape = x.shape[ind:] + x.shape[:ind]
    return inv(_core.reshape(x, (math.prod(x.shape[ind:]), -1))).reshape(shape)


@override(np.linalg.det)
def det(a: ArrayLike) -> Array:
    a = dec.matrix("det", a, square=True)
    return dec.part("det", a, dec.packed("lu", a))


@override(np.linalg.slogdet)
def slogdet(a: ArrayLike) -> tuple[AnyArray, ...]:
    a = dec.matrix("slogdet", a, square=True)
    lu = dec.packed("lu", a)
    return _named(np.linalg.slogdet, dec.part("signdet", a, lu), dec.part("logabsdet", a, lu))


@functools.cache
def _class_of(function: Function) -> type[tuple[AnyArray, ...]]:
    return type(function(np.eye(1)))


def _any(text: str) -> Any:
    """Give a text where stubs know of some only."""
    return text


def _named(function: Function, *parts: AnyArray) -> tuple[AnyArray, ...]:
    """Give several results as the function of NumPy does: a named tuple."""
    return _class_of(function)(*parts)


# --------------------------------------------------------------------------------------------------
# Decompositions


@override(np.linalg.cholesky)
def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Array:
    a = dec.matrix("cholesky", a, square=True)
    factor = dec.cholesky(a, lower=not upper)
    return dec.adjoint(factor) if upper else factor


@override(np.linalg.qr)
def qr(a: ArrayLike, mode: str = "reduced") -> AnyArray | tuple[AnyArray, ...]:
    mode = {"f": "reduced", "full": "reduced", "e": "economic"}.get(mode, mode)
    if mode not in {"reduced", "complete", "r", "raw", "economic"}:
        raise ValueError(f"Unrecognized mode '{mode}'")
    if mode in {"raw", "economic"}:
        plain: NDArray | tuple[NDArray, ...] = call_on_values(np.linalg.qr, (a, mode), {})
        return plain
    a = dec.matrix("qr", a)
    if mode == "r":
        return lapack.qr(a, *dec.qr(a), np.linalg.qr)[1]
    q, r = dec.complete_qr(a) if mode == "complete" else dec.qr(a)
    return _named(np.linalg.qr, *lapack.qr(a, q, r, lambda x: np.linalg.qr(x, _any(mode))))


@override(np.linalg.svd)
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> AnyArray | tuple[AnyArray, ...]:
    a = dec.matrix("svd", a)
    if hermitian:
        return _hermitian_svd(a, compute_uv)
    if not compute_uv:
        return dec.svdvals(a)
    chosen = lapack.asked(lambda x: np.linalg.svd(x, full_matrices)[::2], a)
    parts = dec.full_svd(a) if full_matrices else dec.svd(a)
    return _named(np.linalg.svd, *lapack.singular_vectors(*parts, chosen))


def _hermitian_svd(a: Array, compute_uv: bool) -> AnyArray | tuple[AnyArray, ...]:
    """Give a decomposition by eigenvalues, which are singular values but for their signs."""
    w, u = eigh(a)
    size: AnyArray = _core.abs(w)
    order = np.flip(np.argsort(dec.constant(size), axis=-1), -1)
    size = np.take_along_axis(size, order, -1)
    if not compute_uv:
        return size
    # A value that is zero has a vector, too.
    signs = np.copysign(1.0, dec.constant(np.take_along_axis(w, order, -1)))
    u = np.take_along_axis(u, order[..., None, :], -1)
    v = u * _core.asarray(signs[..., None, :], u.dtype)
    return _named(np.linalg.svd, u, size, dec.adjoint(v))


@override(np.linalg.svdvals)
def svdvals(x: ArrayLike, /) -> Array:
    return dec.svdvals(dec.matrix("svdvals", x))


def _is_lower(UPLO: str) -> bool:
    uplo = UPLO.upper()
    if uplo not in {"L", "U"}:
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return uplo == "L"


@override(np.linalg.eigh)
def eigh(a: ArrayLike, UPLO: str = "L") -> tuple[AnyArray, ...]:
    lower = _is_lower(UPLO)
    a = dec.matrix("eigh", a, square=True)
    w, v = dec.eigh(a, lower)
    chosen = lapack.asked(lambda x: np.linalg.eigh(x, _any(UPLO))[1], a)
    row = 0 if lower else a.shape[-1] - 1
    return _named(np.linalg.eigh, w, lapack.eigenvectors(w, v, chosen, row))


@override(np.linalg.eigvalsh)
def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Array:
    lower = _is_lower(UPLO)
    return dec.eigvalsh(dec.matrix("eigvalsh", a, square=True), lower)


@override(np.linalg.eig)
def eig(a: ArrayLike) -> tuple[AnyArray, ...]:
    a = dec.matrix("eig", a, square=True)
    return _named(np.linalg.eig, *lapack.eig(a, *dec.eig(a), np.linalg.eig))


@override(np.linalg.eigvals)
def eigvals(a: ArrayLike) -> AnyArray:
    a = dec.matrix("eigvals", a, square=True)
    return lapack.eigvals(a, dec.eigvals(a), np.linalg.eigvals)


# --------------------------------------------------------------------------------------------------
# Least squares


def _eps(x: AnyArray) -> float:
    return float(np.finfo(x.dtype).eps)


def _largest(s: Array) -> AnyArray:
    """Give the largest singular value of each matrix; zero when there is none."""
    return _core.max(dec.constant(s), -1) if s.shape[-1] else np.zeros(s.shape[:-1], s.dtype)


@override(np.linalg.pinv)
def pinv(
    a: ArrayLike,
    rcond: _Share | None = None,
    hermitian: bool = False,
    *,
    rtol: _GivenShare = np._NoValue,
) -> AnyArray:
    a = dec.matrix("pinv", a)
    if rcond is not None and is_given(rtol):
        raise ValueError("`rtol` and `rcond` can't be both set.")
    share: _Share | None = or_default(rtol, 1e-15) if rcond is None else rcond
    if share is None:
        share = max(a.shape[-2:]) * _eps(a)
    if hermitian:
        # What is computed is that of the Hermitian matrix in the lower triangle.
        low = _core.where(np.tri(a.shape[-1], k=-1, dtype=bool), a, 0.0)
        a = low + dec.adjoint(low) + _core.where(np.eye(a.shape[-1], dtype=bool), _real(a), 0.0)
    if a.size == 0:
        return np.empty((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    s = dec.svdvals(dec.constant(a))
    return dec.pinv(a, dec.constant(share) * _largest(s), share)


def _real(x: Array) -> Array:
    return _core.cast(x.real, x.dtype) if x.dtype.kind == "c" else x


@override(np.linalg.lstsq)
def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: _Share | None = None
) -> tuple[AnyArray, AnyArray, Scalar, AnyArray]:
    a, b = dec.common(a, b)
    if a.ndim != 2:
        raise LinAlgError(f"{a.ndim}-dimensional array given. Array must be two-dimensional")
    vector = b.ndim == 1
    b = b[:, None] if vector else b
    if b.ndim != 2:
        raise LinAlgError(f"{b.ndim}-dimensional array given. Array must be two-dimensional")
    m, n = a.shape
    if b.shape[0] != m:
        raise LinAlgError("Incompatible dimensions")
    if rcond is None:
        rcond = _eps(a) * max(n, m)
    rcond = dec.share_of_gelsd(rcond, a.dtype)
    s = dec.svdvals(a)
    cutoff = dec.constant(rcond) * _largest(s)
    rank = np.count_nonzero(dec.constant(s) > cutoff)
    x = (
        _core.matmul(dec.pinv(a, cutoff, rcond), b)
        if a.size
        else np.zeros((n, b.shape[1]), a.dtype)
    )
    rest: AnyArray = np.empty(0, s.dtype)
    if m > n and rank == n:
        left = b - _core.matmul(a, x)
        squares = _core.square(_core.abs(left)) if left.dtype.kind == "c" else _core.square(left)
        rest = _core.sum(squares, 0)
    known = _core.cast(rank, np.int32) if _core.is_tracing() else np.int32(int(rank))
    return (x[:, 0] if vector else x), rest, known, s


# --------------------------------------------------------------------------------------------------
# Norms and condition numbers by singular values


def spectral_norm(x: AnyArray, ord: float | str, axes: Shape, keepdims: bool) -> Array:
    """Give the largest, the smallest, or the sum of all singular values."""
    s = dec.svdvals(dec.matrix("norm", moveaxis(x, axes, (-2, -1))))
    if isinstance(ord, str):
        # The derivative of the absolute value at zero is zero, as for other norms.
        result = _core.sum(_core.abs(s), -1)
    elif ord > 0 and not s.shape[-1]:
        result = _core.sum(s, -1)
    else:
        result = (_core.max if ord > 0 else _core.min)(s, -1)
    if not keepdims:
        return result
    shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
    return _core.reshape(result, shape)


@override(np.linalg.cond)
def cond(x: ArrayLike, p: float | str | None = None) -> Array:
    x = dec.matrix("cond", x)
    if x.size == 0:
        raise LinAlgError("cond is not defined on empty arrays")
    if p is None or p in {2, -2}:
        s = dec.svdvals(x)
        result = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        x = dec.matrix("cond", x, square=True)
        lu = dec.Lu(x, nonsingular=False)
        inverse = lu.solve(dec.eye(x.shape[-1], x))
        norm: Function = functools.partial(np.linalg.norm, ord=p, axis=(-2, -1))
        result = norm(x) * norm(inverse)
    # The condition of a singular matrix is infinite, unless the matrix says nothing.
    known = _core.logical_not(_core.isnan(x).any(axis=(-2, -1)))
    return _core.where(_core.logical_and(_core.isnan(result), known), np.inf, result)


@override(np.linalg.matrix_power)
def matrix_power(a: ArrayLike, n: SupportsIndex) -> AnyArray:
    x = host_asarray(a)
    if x.dtype.kind not in "biu" and x.dtype != np.float16:
        x = dec.matrix("matrix_power", x, square=True)
    elif x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    try:
        power = operator.index(n)
    except TypeError as error:
        raise TypeError("exponent must be an integer") from error
    if power == 0:
        return _core.broadcast_to(dec.eye(x.shape[-1], x), x.shape).copy()
    if power < 0:
        x, power = inv(x), -power
    square = x
    result: Any = None
    while power:
        power, odd = divmod(power, 2)
        if odd:
            result = square if result is None else _core.matmul(result, square)
        if power:
            square = _core.matmul(square, square)
    product: AnyArray = result
    return product
