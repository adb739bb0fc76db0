"""Functions of `scipy.linalg` composed of others: `cosm`, `polar`, `solve_toeplitz`, ..."""

# ruff: noqa: N803 - the names and signatures are SciPy's

from collections.abc import Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.kit import decompositions as dec
from cotan._src.kit import lapack_conventions as lapack
from cotan._src.rebind.engine import REBOUND, REBOUND_UNDECORATED, refused
from cotan._src.runtime.registry import named, override
from cotan._src.runtime.values import contains_active, to_numpy
from cotan._src.scipy.linalg.matrix_functions import expm, logm
from cotan._src.scipy.linalg.solve import checked, matrix, result, scipy_linalg, system
from cotan._src.scipy.linalg.structured_matrices import toeplitz
from cotan._src.state.random_states import kept_random_state
from cotan._src.typing import AnyArray, ArrayLike, NDArray

# --------------------------------------------------------------------------------------------------
# Functions of a matrix


def _waves(A: ArrayLike) -> tuple[AnyArray, AnyArray]:
    """Give the cosine and the sine of a matrix."""
    a = matrix("cosm", A)
    if a.dtype.kind != "c":
        both = expm(1j * a)
        return both.real, both.imag
    forward, back = expm(1j * a), expm(-1j * a)
    return 0.5 * (forward + back), -0.5j * (forward - back)


def _hyperbolic(A: ArrayLike) -> tuple[AnyArray, AnyArray]:
    a = matrix("coshm", A)
    forward, back = expm(a), expm(-a)
    return 0.5 * (forward + back), 0.5 * (forward - back)


@override("scipy.linalg.cosm")
def cosm(A: ArrayLike) -> AnyArray:
    return _waves(A)[0]


@override("scipy.linalg.sinm")
def sinm(A: ArrayLike) -> AnyArray:
    return _waves(A)[1]


@override("scipy.linalg.tanm")
def tanm(A: ArrayLike) -> AnyArray:
    return dec.solve(*_waves(A))


@override("scipy.linalg.coshm")
def coshm(A: ArrayLike) -> AnyArray:
    return _hyperbolic(A)[0]


@override("scipy.linalg.sinhm")
def sinhm(A: ArrayLike) -> AnyArray:
    return _hyperbolic(A)[1]


@override("scipy.linalg.tanhm")
def tanhm(A: ArrayLike) -> AnyArray:
    return dec.solve(*_hyperbolic(A))


@override("scipy.linalg.fractional_matrix_power")
def fractional_matrix_power(A: ArrayLike, t: ArrayLike) -> AnyArray:
    a = matrix("fractional_matrix_power", A)
    if not contains_active(t) and float(to_numpy(t)).is_integer():
        return np.linalg.matrix_power(a, int(to_numpy(t)))
    value = _value(a)
    with kept_random_state():  # SciPy estimates norms with random vectors
        dtype = scipy_linalg().fractional_matrix_power(value, to_numpy(t)).dtype
    if dtype.char in "dD" and a.dtype.char in "fF":
        a = _core.asarray(a, np.float64 if a.dtype.kind == "f" else np.complex128)
    power = expm(t * logm(a))
    is_real = dtype.kind != "c" and power.dtype.kind == "c"
    return _core.asarray(power.real if is_real else power, dtype)


def _value(x: AnyArray) -> NDArray:
    return to_numpy(dec.constant(x))


@override("scipy.linalg.solve_toeplitz")
def solve_toeplitz(
    c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike], b: ArrayLike, check_finite: bool = True
) -> AnyArray:
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    a, b, vector = system("solve_toeplitz", toeplitz(c, r), b, check_finite)
    # SciPy computes in double precision only.
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    return result(np.linalg.solve(_core.asarray(a, wide), _core.asarray(b, wide)), vector)


override(
    "scipy.linalg.companion", "scipy.linalg.fiedler_companion", "scipy.linalg.convolution_matrix"
)(REBOUND)
override("scipy.linalg.solve_circulant", "scipy.spatial.procrustes")(REBOUND)
override("scipy.linalg.leslie")(REBOUND_UNDECORATED)

# --------------------------------------------------------------------------------------------------
# Polar forms, whose derivatives have no need of gaps between singular values


def _unitary(a: AnyArray) -> AnyArray:
    """Give the unitary factor of a matrix `(..., m, n)` with no more columns than rows.

    It is a (aᴴ a)^(-1/2) (N. Higham, Functions of Matrices, 2008, chapter 8), and differentiated as
    that, by Sylvester's equation.
    """
    if 0 in a.shape[-2:]:
        return a
    _, s, vh = (_value(part) for part in dec.svd(dec.constant(a)))
    if np.any(s[..., -1] <= 1e-10 * s[..., 0]):
        # It is not the only one: the one that SciPy's vectors give.
        u, _, vh = np.linalg.svd(a, full_matrices=False)
        return _core.matmul(u, vh)
    # Exact to rounding, though differentiated as the root of what is squared.
    root = np.swapaxes(vh, -1, -2).conj() @ (s[..., None] * vh)
    square = _core.matmul(dec.adjoint(a), a)
    return dec.adjoint(
        dec.solve(_core.apply("matrix_sqrt", square, _core.asarray(root)), dec.adjoint(a))
    )


@override("scipy.linalg.polar")
def polar(a: ArrayLike, side: str = "right") -> tuple[AnyArray, AnyArray]:
    if side not in {"right", "left"}:
        raise ValueError("`side` must be either 'right' or 'left'")
    a = matrix("polar", a, square=False)
    wide = a.shape[-2] < a.shape[-1]
    u = dec.adjoint(_unitary(dec.adjoint(a))) if wide else _unitary(a)
    p = _core.matmul(dec.adjoint(u), a) if side == "right" else _core.matmul(a, dec.adjoint(u))
    return u, (p + dec.adjoint(p)) / 2


@override("scipy.linalg.orthogonal_procrustes")
def orthogonal_procrustes(
    A: ArrayLike, B: ArrayLike, check_finite: bool = True
) -> tuple[AnyArray, AnyArray]:
    a, b = dec.common(checked(A, check_finite), checked(B, check_finite))
    if a.ndim != 2:
        raise ValueError(f"expected ndim to be 2, but observed {a.ndim}")
    if a.shape != b.shape:
        raise ValueError(f"the shapes of A and B differ ({a.shape} vs {b.shape})")
    product = _core.matmul(dec.adjoint(a), b)
    return _unitary(product), _core.sum(dec.svdvals(product))


# --------------------------------------------------------------------------------------------------
# Tridiagonal matrices


@override("scipy.linalg.eigh_tridiagonal")
def eigh_tridiagonal(
    d: ArrayLike, e: ArrayLike, eigvals_only: bool = False, select: str = "a",
    select_range: Sequence[float] | None = None, check_finite: bool = True, tol: float = 0.0,
    lapack_driver: str = "auto",
) -> AnyArray | tuple[AnyArray, AnyArray]:  # fmt: skip
    d, e = (checked(x, check_finite) for x in (d, e))
    w, v = dec.eigh(np.diag(d) + np.diag(e, -1))
    options = {"select": select, "select_range": to_numpy(select_range), "check_finite": False}
    options |= {"tol": tol, "lapack_driver": lapack_driver}
    original = scipy_linalg().eigh_tridiagonal
    some = _chosen(w, select, select_range)
    if eigvals_only:
        return w[some]
    found = lapack.asked(lambda _: original(_value(d), _value(e), **options), d[None])
    return w[some], lapack.eigenvectors(w[some], v[:, some], None if found is None else found[1])


def _chosen(w: AnyArray, select: str | int, limits: Any) -> slice:
    """Give which eigenvalues are asked for."""
    if select in {"a", "all", 0}:
        return slice(None)
    if select in {"i", "index", 2}:
        return slice(int(to_numpy(limits[0])), int(to_numpy(limits[1])) + 1)
    own = _value(w)
    low, high = (float(to_numpy(x)) for x in limits)
    first = int(np.sum(own <= low))
    return slice(first, first + int(np.sum((own > low) & (own <= high))))


@override("scipy.linalg.eigvalsh_tridiagonal")
def eigvalsh_tridiagonal(
    d: ArrayLike, e: ArrayLike, select: str = "a", select_range: Sequence[float] | None = None,
    check_finite: bool = True, tol: float = 0.0, lapack_driver: str = "auto",
) -> AnyArray | tuple[AnyArray, AnyArray]:  # fmt: skip
    return eigh_tridiagonal(d, e, True, select, select_range, check_finite, tol, lapack_driver)


override(*named("scipy.linalg", "schur rsf2csf hessenberg funm signm qz ordqz"))(
    refused("use np.linalg.eig or eigh, or functions of matrices such as expm")
)
override("scipy.linalg.ldl")(refused("use np.linalg.cholesky or scipy.linalg.lu"))
override("scipy.linalg.eig_banded", "scipy.linalg.eigvals_banded")(
    refused("make the full matrix, and use np.linalg.eigh")
)
