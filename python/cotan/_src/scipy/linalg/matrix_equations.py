"""Overrides of the solvers of `scipy.linalg` for Sylvester, Lyapunov and Riccati equations."""

# ruff: noqa: ARG001 - the signatures are SciPy's

from collections.abc import Callable

import numpy as np

from cotan import _core
from cotan._src.kit import decompositions as dec
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import is_active, to_numpy
from cotan._src.scipy.linalg.solve import matrix, scipy_linalg
from cotan._src.typing import AnyArray, ArrayLike, NDArray


@override("scipy.linalg.solve_sylvester")
def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> AnyArray:
    a, b, q = dec.common(*(matrix("solve_sylvester", x, False, False) for x in (a, b, q)))
    return _core.apply("sylvester", *dec.over_batch((a, 2), (b, 2), (q, 2)))


@override("scipy.linalg.solve_continuous_lyapunov", "scipy.linalg.solve_lyapunov")
def solve_continuous_lyapunov(a: ArrayLike, q: ArrayLike) -> AnyArray:
    a, q = dec.common(matrix("solve_continuous_lyapunov", a), matrix("q", q))
    return solve_sylvester(a, dec.adjoint(a), q)


@override("scipy.linalg.solve_discrete_lyapunov")
def solve_discrete_lyapunov(a: ArrayLike, q: ArrayLike, method: str | None = None) -> AnyArray:
    a, q = dec.common(matrix("solve_discrete_lyapunov", a), matrix("q", q))
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


def _known(x: AnyArray) -> NDArray:
    return to_numpy(dec.constant(x))


def _two_axes(x: ArrayLike) -> AnyArray:
    """Give a matrix of one row for a number or a vector, as SciPy does for these equations."""
    return np.atleast_2d(asarray(x))


def _stabilizing(name: str, a: AnyArray, b: AnyArray, q: AnyArray, r: AnyArray) -> NDArray:
    """Give SciPy's solution of a Riccati equation, as a value."""
    x: NDArray = getattr(scipy_linalg(), name)(*map(_known, (a, b, q, r)))
    return x


def _are(
    name: str,
    a: ArrayLike,
    b: ArrayLike,
    q: ArrayLike,
    r: ArrayLike,
    gain: Callable[[AnyArray, AnyArray, AnyArray, AnyArray], AnyArray],
    solve: Callable[[AnyArray, AnyArray], AnyArray],
) -> AnyArray:
    """Solve a Riccati equation by SciPy, and take two steps of Newton's method from there.

    A step solves Lyapunov's equation of the closed loop. It is stationary in the gain, so the first
    one is right to first order, and the second one, from the gain that the first gives, to third.
    The steps are those of D. Kleinman, On an iterative technique for Riccati equation computations,
    IEEE Trans. Autom. Control 13, 1968, and for discrete time of G. Hewer, ibid. 16, 1971.
    """
    a, b, q, r = (matrix(name, _two_axes(x), True, False) for x in (a, b, q, r))
    a, b, q, r = dec.common(a, b, q, r)
    x: AnyArray = _stabilizing(name, a, b, q, r)
    a, b, q, r = (_core.asarray(m, x.dtype) for m in (a, b, q, r))
    for _ in range(2):
        k = gain(a, b, r, x)
        closed = a - b @ k
        cost = q + dec.adjoint(k) @ r @ k
        x = solve(dec.adjoint(closed), cost)
        x = (x + dec.adjoint(x)) / 2
    return x


def _without(
    a: ArrayLike, b: ArrayLike, q: ArrayLike, r: ArrayLike, e: ArrayLike | None, s: ArrayLike | None
) -> tuple[AnyArray, AnyArray]:
    """Give `a` and `q` of the equation without `e` and `s` that has the same solution."""
    items = {"a": a, "b": b, "q": q, "r": r, "e": e, "s": s}
    given = {
        name: matrix(name, _two_axes(x), True, False) for name, x in items.items() if x is not None
    }
    given = dict(zip(given, dec.common(*given.values()), strict=True))
    a, b, q, r = (given[name] for name in ("a", "b", "q", "r"))
    e, s = given.get("e"), given.get("s")
    if e is not None:
        # What stands on both sides of the solution is divided out.
        e = dec.adjoint(e)
        a = dec.adjoint(dec.solve(e, dec.adjoint(a)))
        q = dec.solve(e, dec.adjoint(dec.solve(e, q)))
        s = None if s is None else dec.solve(e, s)
    # A product of states and controls is part of a square, whose weight may be 0 without it.
    if s is not None and (is_active(s) or np.any(_known(s))):
        shift = dec.solve(r, dec.adjoint(s))
        a, q = a - b @ shift, q - s @ shift
    return a, q


@override("scipy.linalg.solve_continuous_are")
def solve_continuous_are(a: ArrayLike, b: ArrayLike, q: ArrayLike, r: ArrayLike,
                         e: ArrayLike | None = None, s: ArrayLike | None = None,
                         balanced: bool = True) -> AnyArray:  # fmt: skip
    if e is not None or s is not None:
        a, q = _without(a, b, q, r, e, s)

    def gain(a: AnyArray, b: AnyArray, r: AnyArray, x: AnyArray) -> AnyArray:
        return dec.solve(r, dec.adjoint(b) @ x)

    return _are("solve_continuous_are", a, b, q, r, gain,
                lambda c, cost: solve_continuous_lyapunov(c, -cost))  # fmt: skip


@override("scipy.linalg.solve_discrete_are")
def solve_discrete_are(a: ArrayLike, b: ArrayLike, q: ArrayLike, r: ArrayLike,
                       e: ArrayLike | None = None, s: ArrayLike | None = None,
                       balanced: bool = True) -> AnyArray:  # fmt: skip
    if e is not None or s is not None:
        a, q = _without(a, b, q, r, e, s)

    def gain(a: AnyArray, b: AnyArray, r: AnyArray, x: AnyArray) -> AnyArray:
        xb = x @ b
        return dec.solve(r + dec.adjoint(b) @ xb, dec.adjoint(xb) @ a)

    return _are("solve_discrete_are", a, b, q, r, gain, solve_discrete_lyapunov)
