"""Matrix decompositions and linear solves that `numpy.linalg` and `scipy.linalg` share.

A decomposition is a primitive that packs its factors and has no derivative. The factors are
functions of the matrix and of the packed decomposition, and are differentiated with respect to the
matrix. What may fail on values (a singular matrix, one that is not positive definite) is computed
at once, so that the error is raised where NumPy raises it. A traced program raises it when it runs.

The rules of the factors, and where they come from, are in `rust/core/src/ops/decomposition`.

Arguments and results are arrays of shape `(..., m, n)` with any batch axes in front, of dtype
float32, float64, complex64 or complex128 (`matrix` and `common` see to it); vectors of singular
values and eigenvalues are of shape `(..., k)`.
"""

import contextlib
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.host_call import host_call
from cotan._src.rebind.numpy_substitutes import asarray as host_asarray
from cotan._src.runtime.values import is_active, is_array, to_numpy
from cotan._src.typing import AnyArray, ArrayLike, Dtype, NDArray


def matrix(name: str, a: ArrayLike, square: bool = False) -> Array:
    """Give an argument as an array of matrices of floats."""
    x = host_asarray(a)
    if x.dtype.kind in "biu":
        x = _core.asarray(x, np.float64)
    if x.dtype.char not in "fdFD":
        raise TypeError(f"array type {x.dtype} is unsupported in linalg")
    if x.ndim < 2:
        raise LinAlgError(
            f"{x.ndim}-dimensional array given. Array must be at least two-dimensional"
        )
    if square and x.shape[-1] != x.shape[-2]:
        raise LinAlgError(
            f"{name}: Last 2 dimensions of the array must be square, not those of {x.shape}"
        )
    # A matrix without elements has no derivative, whatever its decomposition is like.
    return _core.asarray(x) if x.size else constant(x)


def common(*arrays: ArrayLike) -> list[Array]:
    """Give arrays in their common dtype, floats at least."""
    items: list[AnyArray] = list(map(host_asarray, arrays))
    for x in items:
        if x.dtype.char in "eG" or x.dtype.kind not in "biufc":
            raise TypeError(f"array type {x.dtype} is unsupported in linalg")
    kinds = [np.float64 if x.dtype.kind in "biu" else x.dtype for x in items]
    dtype = np.result_type(*kinds)
    return [_core.asarray(x, dtype) for x in items]


def known(x: Array) -> Array:
    """Compute a result now, so that what is wrong with it is said here.

    While a program is traced nothing is computed: what is wrong is said when it runs.
    """
    if _core.is_tracing():
        return x
    # While a derivative rule is traced there are no values yet.
    with contextlib.suppress(_core.UnknownValueError):
        x.force()
    return x


def constant(x: ArrayLike) -> Array:
    """Give an array without its gradient."""
    return _core.dropgrad(_core.asarray(x))


def packed(decomposition: str, a: AnyArray) -> Array:
    """Give a decomposition, computed."""
    return known(_core.apply(decomposition, constant(a)))


def part(name: str, a: AnyArray, decomposition: AnyArray) -> Array:
    """Give a part of a decomposition."""
    return _core.apply(name, a, decomposition)


def over_batch(*pairs: tuple[AnyArray, int]) -> list[Array]:
    """Repeat arrays, each with so many axes of its own, over a common batch."""
    batch = np.broadcast_shapes(*(x.shape[: x.ndim - own] for x, own in pairs))
    return [_core.broadcast_to(x, (*batch, *x.shape[x.ndim - own :])) for x, own in pairs]


def swap(x: AnyArray) -> Array:
    """Transpose the last two axes."""
    return _core.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def adjoint(x: AnyArray) -> Array:
    """Transpose and conjugate the last two axes."""
    return swap(x).conj() if x.dtype.kind == "c" else swap(x)


def eye(n: int, like: AnyArray) -> NDArray:
    """Give the identity in the dtype of an array."""
    return np.eye(n, dtype=like.dtype)


def hermitian(a: AnyArray, lower: bool) -> AnyArray:
    """Give a matrix whose lower triangle holds what the chosen one does."""
    return a if lower else adjoint(a)


def cholesky(a: AnyArray, lower: bool = True) -> Array:
    """Give the lower factor `(..., n, n)` from one of the triangles; `LinAlgError` without one."""
    return known(_core.apply("cholesky", hermitian(a, lower)))


class Lu:
    """An LU decomposition, to solve with."""

    def __init__(self, a: AnyArray, nonsingular: bool = True) -> None:
        self.a = a
        self.packed = packed("nonsingular_lu" if nonsingular else "lu", a)

    def solve(self, b: AnyArray, transposed: bool = False) -> Array:
        """Solve for a matrix of right-hand sides; what belongs to a batch is repeated."""
        a, lu, b = over_batch((self.a, 2), (self.packed, 1), (b, 2))
        flags = {"lower": False, "transposed": transposed, "unit": False}
        return _core.apply("lu_solve", a, lu, b, **flags)


def solve(a: AnyArray, b: AnyArray, transposed: bool = False) -> Array:
    """Solve `a x = b`, or with the transposed matrix, for right-hand sides `(..., n, k)`."""
    return Lu(a).solve(b, transposed)


def solve_triangular(
    a: AnyArray, b: AnyArray, lower: bool, transposed: bool = False, unit: bool = False
) -> Array:
    """Solve with a triangle; zeros on the diagonal give infinities."""
    a, b = over_batch((a, 2), (b, 2))
    return _core.apply("triangular_solve", a, b, lower=lower, transposed=transposed, unit=unit)


def solve_adjoint_triangular(a: AnyArray, b: AnyArray, lower: bool, unit: bool = False) -> Array:
    """Solve with the conjugate transpose of a triangle."""
    if a.dtype.kind != "c":
        return solve_triangular(a, b, lower, True, unit)
    return solve_triangular(a, b.conj(), lower, True, unit).conj()


def qr(a: AnyArray) -> tuple[Array, Array]:
    """Give Q `(..., m, k)` and R `(..., k, n)`, where k is the shorter side of the matrix."""
    m, n = a.shape[-2:]
    square = a if m >= n else a[..., :m]
    both = packed("qr", square)
    q, r = part("qr_q", square, both), part("qr_r", square, both)
    if m < n:
        # The other columns are what Q makes of them.
        r = _core.concatenate([r, _core.matmul(adjoint(q), a[..., m:])], -1)
    return q, r


def complete_qr(a: AnyArray) -> tuple[Array, Array]:
    """Give Q `(..., m, m)`, whose further columns have no derivative, and R `(..., m, n)`."""
    m, n = a.shape[-2:]
    if m <= n:
        return qr(a)
    q, r = qr(a)
    zeros = np.zeros((*a.shape[:-2], m - n, n), a.dtype)
    r = _core.concatenate([r, zeros], -2)

    def further(a: AnyArray) -> Array:
        return _columns(known(_core.apply("full_qr", _core.asarray(a))), 0, m, m)[..., n:]

    if _core.is_tracing() or not is_active(a):
        return _core.concatenate([q, further(a)], -1), r
    rest = host_call("qr", lambda a: to_numpy(further(a)), _refuse_further, a)
    return _core.concatenate([q, rest], -1), r


def _refuse_further(ct: Array, a: AnyArray, wanted: tuple[bool, ...]) -> tuple[NDArray]:
    del wanted
    if not np.any(_core.peek(ct)):
        return (np.zeros(a.shape, a.dtype),)  # who used other columns only
    raise NotDifferentiableError(
        "qr: the last m - n columns of a complete Q are an arbitrary basis of the orthogonal "
        "complement and have no derivative; use Q[:, :n], which mode='reduced' (mode='economic' in "
        "scipy.linalg) returns, lstsq for least squares, or ct.dropgrad(Q)"
    )


def _columns(packed: Array, start: int, m: int, n: int) -> Array:
    """Read a matrix that is stored by columns."""
    taken = packed[..., start : start + m * n]
    return swap(_core.reshape(taken, (*packed.shape[:-1], n, m)))


def share_of_gelsd(share: AnyArray | float, dtype: Dtype) -> AnyArray | float:
    """Give what LAPACK's least squares leave out: the precision where it is not between 0 and 1."""
    precision = np.finfo(dtype).eps / 2
    if is_array(share):
        return _core.where((share > 0) & (share < 1), share, precision)
    return share if 0 < share < 1 else precision


def svd(a: AnyArray) -> tuple[Array, Array, Array]:
    """Give U `(..., m, k)`, s `(..., k)`, real and descending, and Vᴴ `(..., k, n)`."""
    parts = packed("svd", a)
    return (
        part("svd_left", a, parts),
        part("svd_values", a, parts),
        part("svd_right", a, parts),
    )


def full_svd(a: AnyArray) -> tuple[Array, Array, Array]:
    """Give square U `(..., m, m)` and Vᴴ `(..., n, n)`, and singular values `(..., min(m, n))`.

    The vectors beyond the singular values span what is orthogonal to the others; which ones they
    are is a choice, and they are taken to move no further than they have to.
    """
    m, n = a.shape[-2:]
    if m == n:
        return svd(a)
    k = min(m, n)
    parts = known(_core.apply("full_svd", constant(a)))
    u = _columns(parts, k, m, m)
    vh = _core.reshape(parts[..., k + m * m :], (*a.shape[:-2], n, n))
    if not is_active(a):
        return u, _real(parts[..., :k]), vh
    left, s, right = svd(a)
    if m > n:
        columns = _completed(swap(left), swap(u)[..., k:, :])
        return swap(_core.concatenate([swap(left), columns], -2)), s, right
    return left, s, _core.concatenate([right, _completed(right, vh[..., k:, :])], -2)


def _completed(rows: Array, others: Array) -> Array:
    """Keep constant orthonormal rows orthogonal to some that move, and of length 1."""
    moved = others - (others @ adjoint(rows)) @ rows
    # One step of Newton and Schulz towards what is orthonormal, which is exact to second order (N.
    # Higham, Functions of Matrices, 2008, chapter 8).
    return 1.5 * moved - 0.5 * (moved @ adjoint(moved)) @ moved


def svdvals(a: AnyArray) -> Array:
    """Give the singular values `(..., min(m, n))`, real and descending."""
    if is_active(a):
        return part("svd_values", a, packed("svd", a))
    return _real(packed("svdvals", a))


def _real(x: Array) -> Array:
    return x.real if x.dtype.kind == "c" else x


def eigh(a: AnyArray, lower: bool = True) -> tuple[Array, Array]:
    """Give eigenvalues `(..., n)`, real and ascending, and eigenvectors of Hermitian matrices."""
    a = hermitian(a, lower)
    parts = packed("eigh", a)
    return part("eigh_values", a, parts), part("eigh_vectors", a, parts)


def eigvalsh(a: AnyArray, lower: bool = True) -> Array:
    """Give the eigenvalues `(..., n)` of Hermitian matrices, real and ascending."""
    if is_active(a):
        return eigh(a, lower)[0]
    return _real(packed("eigvalsh", hermitian(a, lower)))


def eig(a: AnyArray) -> tuple[Array, Array]:
    """Give eigenvalues `(..., n)` and eigenvectors `(..., n, n)`, both complex."""
    parts = packed("eig", a)
    return part("eig_values", a, parts), part("eig_vectors", a, parts)


def eigvals(a: AnyArray) -> Array:
    """Give eigenvalues `(..., n)`, complex."""
    if is_active(a):
        return eig(a)[0]
    return packed("eigvals", a)


def are_real(w: AnyArray) -> bool:
    """Say whether all eigenvalues are real, which decides on a dtype in NumPy."""
    return not bool(np.any(np.imag(constant(w)) != 0))


def real_part(x: AnyArray, w: AnyArray) -> AnyArray:
    """Give the real part of what is real, as these eigenvalues are.

    A traced program keeps the dtype, and gives NaN for a matrix whose values are complex.
    """
    if not _core.is_tracing():
        return x.real
    return _core.where(np.any(np.imag(constant(w)) != 0), np.nan, x.real)


def pinv(a: AnyArray, cutoff: AnyArray, share: AnyArray | float | None = None) -> Array:
    """Give the pseudoinverse `(..., n, m)`; singular values up to a cutoff count as zero.

    There is one cutoff for each matrix, `(...,)`. `share` says what it is of the largest singular
    value, where that is a plain number.
    """
    u, s, vh = (constant(x) for x in svd(constant(a)))
    small = _core.le(s, constant(cutoff)[..., None])
    inverse = _core.where(small, 0.0, 1.0 / _core.where(small, 1.0, s))
    inverse = _core.asarray(inverse[..., None], a.dtype)
    value = known(_core.matmul(adjoint(vh), inverse * adjoint(u)))
    if is_active(a) and _cuts(s, small, share):
        tall = a.shape[-2] >= a.shape[-1]
        kept = _truncated(a if tall else adjoint(a), s, small, adjoint(vh) if tall else u)
        a = kept if tall else adjoint(kept)
    return _core.apply("pseudoinverse", a, value)


def _cuts(s: AnyArray, small: AnyArray, share: AnyArray | float | None) -> bool:
    """Say whether more is cut off than rounding leaves of singular values that are zero."""
    rounding = 64 * float(np.finfo(s.dtype).eps)
    if _core.is_tracing():
        return not isinstance(share, (int, float)) or share > rounding
    noise = rounding * _core.max(s, -1, keepdims=True)
    return bool(np.any(_core.logical_and(small, _core.gt(s, noise))))


def _truncated(a: AnyArray, s: AnyArray, small: AnyArray, v: AnyArray) -> Array:
    """Give a tall matrix `(..., m, n)` without the part that belongs to small singular values.

    The rows that are left span what the first columns of `v` do, and turn with the matrix: `turn`
    says how far, and solves an equation of Riccati's by steps of Newton's method that move nothing,
    one for each order of derivatives. The only gaps that divide are those between what is kept and
    what is not.
    """
    squares, n = _core.square(s), s.shape[-1]
    among = _core.logical_and(small[..., :, None], ~small[..., None, :])
    gap = squares[..., None, :] - squares[..., :, None]
    step = _core.cast(_core.where(among, 1.0 / _core.where(among, gap, 1.0), 0.0), a.dtype)
    keeps = _core.cast(_core.where(small[..., None, :], 0.0, np.eye(n)), a.dtype)
    turned = _core.matmul(a, v)
    form = _core.matmul(adjoint(turned), turned)
    turn: Any = form * step
    for _ in range(2):
        moved = _core.matmul(turn, form + _core.matmul(form, turn))
        turn = turn + (form + _core.matmul(form, turn) - moved) * step
    basis = keeps + turn
    lengths = _core.matmul(adjoint(basis), basis) + (eye(n, a) - keeps)
    onto = _core.matmul(basis, solve(lengths, adjoint(basis)))
    return _core.matmul(_core.matmul(turned, onto), adjoint(v))


def scalar(x: AnyArray) -> AnyArray:
    """Give a zero-dimensional result as the scalar that NumPy hands out."""
    return x[()] if is_array(x) and x.ndim == 0 else x
