"""Overrides of the sparse eigenvalue solvers `eigsh`, `eigs` and `svds`, and of exponentials.

SciPy decides on the values at hand which eigenvalues are meant, their order and the signs of the
vectors. Values and derivatives come from the dense decomposition, whose rule needs all the others.
"""

# ruff: noqa: N803 - SciPy's names

from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.kit import decompositions as dec
from cotan._src.kit import lapack_conventions as lapack
from cotan._src.kit.host_call import linear
from cotan._src.rebind.engine import locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import ALWAYS, override
from cotan._src.runtime.values import attach_derivative, contains_active, is_array, to_numpy
from cotan._src.scipy.linalg.decompositions import eigh
from cotan._src.scipy.linalg.matrix_functions import expm
from cotan._src.scipy.sparse.products import (
    MatrixLike,
    Operator,
    has_active_entries,
    settled,
    toarray,
)
from cotan._src.typing import AnyArray, ArrayLike, NDArray, Scalar

_HERE = "scipy.sparse.linalg"
# An operator with more columns has no matrix here.
_LARGE = 1000


def _dense(name: str, matrix: Any) -> AnyArray:
    dense: AnyArray
    if hasattr(matrix, "tocoo"):
        dense = asarray(toarray(matrix))
        return dense
    if _is_operator(matrix):
        n = matrix.shape[1]
        if n > _LARGE:
            raise NotDifferentiableError(
                f"{name}: a LinearOperator of {n} columns is not differentiable; pass its matrix, "
                "or hold its inputs constant with ct.dropgrad"
            )
        return np.stack([matrix.matvec(unit) for unit in np.eye(n)], axis=1)
    dense = asarray(getattr(matrix, "A", matrix))
    return dense


def _is_operator(matrix: object) -> TypeGuard[Operator]:
    return not hasattr(matrix, "tocoo") and callable(getattr(matrix, "matvec", None))


def _is_active(matrix: MatrixLike | None) -> bool:
    if _is_operator(matrix):
        return contains_active(matrix.matvec(np.ones(matrix.shape[1])))
    dense = getattr(matrix, "A", matrix)
    moves = is_array(dense) and (_core.is_traced(dense) or contains_active((dense,)))
    return moves or has_active_entries(matrix)


def _plainly(name: str, *args: Any, **options: Any) -> Any:
    """Compute with constants what SciPy computes."""

    def plain(x: Any) -> Any:
        dense = getattr(x, "A", x)
        return to_numpy(dense if is_array(dense) else x)

    given = {n: plain(x) for n, x in options.items()}
    return locate_original(f"{_HERE}.{name}")(*map(plain, args), **given)


def _values(x: AnyArray | None) -> Any:
    return None if x is None else np.asarray(to_numpy(dec.constant(x)))


def _places(wanted: Iterable[complex], own: NDArray) -> NDArray:
    """Say which of all values the wanted ones are; each is taken once."""
    left = list(range(own.size))
    return np.array([left.pop(int(np.argmin(np.abs(own[left] - w)))) for w in wanted], np.int64)


@override(f"{_HERE}.eigsh", when=ALWAYS)
def eigsh(
    A: MatrixLike, k: int = 6, M: MatrixLike | None = None, *args: object, **options: Any
) -> AnyArray | tuple[AnyArray, AnyArray]:
    original = locate_original(f"{_HERE}.eigsh")
    if not (_is_active(A) or _is_active(M)):
        known: NDArray | tuple[NDArray, NDArray] = _plainly("eigsh", A, k, M, *args, **options)
        return known
    if args or any(options.get(name) is not None for name in ("Minv", "OPinv")):
        raise NotDifferentiableError(
            "eigsh: only A and M are differentiable; pass the other arguments by keyword"
        )
    if _core.is_preparing():
        raise TypeError("eigsh: the choice of eigenvalues cannot be recorded; use numpy.linalg")
    a = _dense("eigsh", A)
    m: Any = None if M is None else _dense("eigsh", M)
    with_vectors = options.pop("return_eigenvectors", True)
    options = {name: to_numpy(value) for name, value in options.items()}
    chosen = original(_values(a), int(k), _values(m), **options)
    if options.get("mode") == "buckling":
        # Here A is the positive one: with it for M the eigenvalues are the inverse ones, and the
        # vectors are of length 1 by it, as here.
        inverse, v = eigh(np.eye(a.shape[0], dtype=a.dtype) if m is None else m, a)
        at = _places(1 / chosen[0], _values(inverse))
        w, v = 1 / inverse[at], v[:, at]
    else:
        all_values, v = eigh(a, m)
        at = _places(chosen[0], _values(all_values))
        w, v = all_values[at], v[:, at]
    return (w, lapack.columns(v, chosen[1])) if with_vectors else w


@override(f"{_HERE}.eigs", when=ALWAYS)
def eigs(
    A: MatrixLike, k: int = 6, M: MatrixLike | None = None, *args: object, **options: Any
) -> AnyArray | tuple[AnyArray, AnyArray]:
    original = locate_original(f"{_HERE}.eigs")
    if not (_is_active(A) or _is_active(M)):
        known: NDArray | tuple[NDArray, NDArray] = _plainly("eigs", A, k, M, *args, **options)
        return known
    if args or any(options.get(name) is not None for name in ("Minv", "OPinv")):
        raise NotDifferentiableError(
            "eigs: only A and M are differentiable; pass the other arguments by keyword"
        )
    if _core.is_preparing():
        raise TypeError("eigs: the choice of eigenvalues cannot be recorded; use numpy.linalg")
    a, m = _dense("eigs", A), None if M is None else _dense("eigs", M)
    with_vectors = options.pop("return_eigenvectors", True)
    options = {name: to_numpy(value) for name, value in options.items()}
    w, v = original(_values(a), int(k), _values(m), **options)
    all_values, own = np.linalg.eig((a if m is None else np.linalg.solve(m, a)) + 0j)
    at = _places(w, _values(all_values))
    if not with_vectors:
        return all_values[at]
    own = own[:, at]
    if m is not None:
        own = own / np.sqrt(np.real(np.sum(own.conj() * (m @ own), 0)))
    # Those of length 1, times what SciPy's are multiplied by.
    values = _values(own)
    factors = np.sum(values.conj() * v, 0) / np.sum(np.abs(values) ** 2, 0)
    if not np.allclose(np.abs(factors), 1):
        raise NotDifferentiableError(
            "eigs: the vectors have no derivative rule here, since their length is not 1; request "
            "the values alone with return_eigenvectors=False"
        )
    return all_values[at], own * factors


@override(f"{_HERE}.svds", when=ALWAYS)
def svds(
    A: MatrixLike, k: int = 6, *args: object, **options: Any
) -> AnyArray | tuple[AnyArray | None, AnyArray, AnyArray | None]:
    original = locate_original(f"{_HERE}.svds")
    if not _is_active(A):
        known: NDArray | tuple[NDArray | None, NDArray, NDArray | None]
        known = _plainly("svds", A, k, *args, **options)
        return known
    if args:
        raise TypeError("svds: pass the arguments after k by keyword")
    if _core.is_preparing():
        raise TypeError("svds: the choice of singular values cannot be recorded; use numpy.linalg")
    a = _dense("svds", A)
    wanted = options.pop("return_singular_vectors", True)
    chosen = original(_values(a), int(k), **{n: to_numpy(x) for n, x in options.items()})
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    at = _places(chosen[1], _values(s))
    u, s, vh = u[:, at], s[at], vh[at]
    if wanted is False:
        return s
    signs = np.sum(_values(u).conj() * chosen[0], 0)
    signs = np.where(signs != 0, signs / np.where(signs != 0, np.abs(signs), 1), 1)
    u, vh = u * signs, vh * signs.conj()[:, None]
    return u if wanted != "vh" else None, s, vh if wanted != "u" else None


@override(f"{_HERE}.expm_multiply", when=ALWAYS)
def expm_multiply(A: MatrixLike, B: ArrayLike, start: Scalar | None = None,
                  stop: Scalar | None = None, num: int | None = None,
                  endpoint: bool | None = None,
                  traceA: Scalar | None = None) -> AnyArray:  # fmt: skip
    """Apply exponentials; those of an active matrix are dense."""
    original = locate_original(f"{_HERE}.expm_multiply")
    matrix = settled(A)
    times: dict[str, Any] = {"start": start, "stop": stop, "num": num, "endpoint": endpoint}
    moves = _is_active(matrix)
    if not moves and not contains_active((B, start, stop)):
        known: NDArray = original(
            matrix,
            to_numpy(B),
            **{n: to_numpy(t) for n, t in times.items()},
            traceA=to_numpy(traceA),
        )
        return known
    if not moves and not contains_active((start, stop)) and all(t is None for t in times.values()):
        turned = matrix.adjoint() if _is_operator(matrix) else matrix.conj().T
        trace = to_numpy(traceA)
        back = None if trace is None else np.conj(trace)
        return linear(f"{_HERE}.expm_multiply", lambda x: original(matrix, x, traceA=trace),
                      lambda ct: original(turned, ct, traceA=back))(B)  # fmt: skip
    a, b = _dense("expm_multiply", matrix), asarray(B)
    value = original(_values(a), _values(b), **{n: to_numpy(t) for n, t in times.items()})
    result: AnyArray
    if all(t is None for t in times.values()):
        result = attach_derivative(value, expm(a) @ b)
        return result
    given = {n: t for n, t in times.items() if t is not None}
    at = np.linspace(**given)
    result = attach_derivative(value, np.stack([expm(a * t) @ b for t in at]))
    return result
