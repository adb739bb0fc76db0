"""Overrides of the matrix functions of `scipy.linalg`: exponential, square root, logarithm.

The exponential and the logarithm are differentiated as the products and linear systems that their
algorithms consist of, to any order. The number of steps depends on values and is held constant.
"""

# ruff: noqa: N803 - the signatures are SciPy's

import importlib
import math
import warnings
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from cotan import _core
from cotan._core import Array
from cotan._src.kit import decompositions as dec
from cotan._src.rebind.engine import locate
from cotan._src.rebind.numpy_substitutes import asarray as host_asarray
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import to_numpy
from cotan._src.typing import AnyArray, ArrayLike, NDArray

# The norms up to which a Padé approximant of this degree is exact to rounding in float64 (A.
# Al-Mohy and N. Higham, A new scaling and squaring algorithm for the matrix exponential, SIAM J.
# Matrix Anal. Appl. 31, 2009, table 3.1).
_THETA = {
    3: 1.495585217958292e-2,
    5: 2.539398330063230e-1,
    7: 9.504178996162932e-1,
    9: 2.097847961257068e0,
    13: 4.25,
}


def _square(name: str, A: ArrayLike) -> Array:
    a = host_asarray(A)
    if a.ndim < 2:
        raise LinAlgError(f"{name}: The input array must be at least two-dimensional")
    if a.dtype == np.float16:
        a = _core.asarray(a, np.float32)
    return dec.matrix(name, a, square=True)


def _norm(x: NDArray) -> float:
    """Give the largest 1-norm in a batch."""
    return float(np.max(np.sum(np.abs(x), -2), initial=0.0))


def _coefficients(m: int) -> list[float]:
    """Give the numerator of the diagonal Padé approximant of exp, with the last coefficient 1."""
    f = math.factorial
    return [float(f(2 * m - k) // (f(k) * f(m - k))) for k in range(m + 1)]


def _extra(value: NDArray, m: int) -> int:
    """Give how many halvings more an approximant of degree m asks for (section 5 there)."""
    size = np.abs(value)
    total = np.ones((*size.shape[:-1], 1))
    for _ in range(2 * m + 1):
        total = np.swapaxes(size, -1, -2) @ total
    norm = _norm(value)
    if norm == 0:
        return 0
    c = math.factorial(m) ** 2 / (math.factorial(2 * m) * math.factorial(2 * m + 1))
    alpha = c * float(np.max(total, initial=0.0)) / norm
    return max(math.ceil(math.log2(alpha / 2**-53) / (2 * m)), 0) if alpha > 0 else 0


def _degree(value: NDArray) -> tuple[int, int]:
    """Give the degree of the approximant and the number of squarings."""
    if not np.all(np.isfinite(value)):
        return 13, 0
    value = value.astype(np.result_type(value.dtype, np.float64))
    second = value @ value
    fourth, sixth = second @ second, second @ second @ second
    d4, d6 = _norm(fourth) ** 0.25, _norm(sixth) ** (1 / 6)
    d8, d10 = _norm(fourth @ fourth) ** 0.125, _norm(fourth @ sixth) ** 0.1
    small = max(d4, d6)
    for m in (3, 5):
        if small <= _THETA[m] and _extra(value, m) == 0:
            return m, 0
    middle = max(d6, d8)
    for m in (7, 9):
        if middle <= _THETA[m] and _extra(value, m) == 0:
            return m, 0
    eta = min(middle, max(d8, d10))
    s = max(math.ceil(math.log2(eta / _THETA[13])), 0) if eta > 0 else 0
    return 13, s + _extra(value / 2.0**s, 13)


@override("scipy.linalg.expm")
def expm(A: ArrayLike) -> AnyArray:
    a = host_asarray(A)
    if a.ndim < 2 and a.size == 1:
        return _core.exp(_core.reshape(a, (1, 1)))
    a = _square("expm", a)
    if a.size == 0:
        return _core.asarray(a)
    m, s = _degree(np.asarray(to_numpy(dec.constant(a))))
    a = a * 0.5**s if s else a
    b, one = _coefficients(m), dec.eye(a.shape[-1], a)
    powers: list[Any] = [one, _core.matmul(a, a)]
    while 2 * len(powers) <= (m if m < 13 else 7):
        powers.append(_core.matmul(powers[-1], powers[1]))
    if m < 13:
        odd = sum(b[2 * i + 1] * p for i, p in enumerate(powers[: (m + 1) // 2]))
        even = sum(b[2 * i] * p for i, p in enumerate(powers[: (m + 1) // 2]))
    else:
        sixth = powers[3]
        odd = _core.matmul(sixth, b[13] * powers[3] + b[11] * powers[2] + b[9] * powers[1])
        odd = odd + sum(b[2 * i + 1] * powers[i] for i in range(4))
        even = _core.matmul(sixth, b[12] * powers[3] + b[10] * powers[2] + b[8] * powers[1])
        even = even + sum(b[2 * i] * powers[i] for i in range(4))
    odd = _core.matmul(a, odd)
    result = dec.solve(even - odd, even + odd)
    for _ in range(s):
        result = _core.matmul(result, result)
    return result


@override("scipy.linalg.sqrtm")
def sqrtm(A: ArrayLike, disp: bool = True, blocksize: int | None = None) -> Any:
    del blocksize  # with which SciPy does not compute any more
    return _with_error("sqrtm", _root(_square("sqrtm", A)), A, disp)


def _with_error(name: str, result: AnyArray, a: ArrayLike, disp: bool) -> Any:
    """Give an estimate of the error, too, where `disp=False` asks for it: a constant."""
    if disp is not False:
        return result
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        error = locate(f"scipy.linalg.{name}")(to_numpy(dec.constant(a)), disp=False)[1]
    return result, error


def _root(a: AnyArray) -> Array:
    """Give SciPy's principal square root, with the derivative by Sylvester's equation.

    Of shape `(..., n, n)` like the matrix; complex where the root of a real matrix is.
    """
    scipy = importlib.import_module("scipy.linalg")
    value = scipy.sqrtm(np.asarray(to_numpy(dec.constant(a))))
    if value.dtype.kind == "c":
        a = _core.asarray(a, value.dtype)
    return _core.apply("matrix_sqrt", a, np.asarray(value, a.dtype))


# How near to the identity a matrix is brought, and at how many points the integral of
# x (1 + t x)⁻¹ is taken: exact to rounding there (N. Higham, Functions of Matrices, 2008, section
# 11.4).
_NEAR = 0.25
_POINTS = 8


@override("scipy.linalg.logm")
def logm(A: ArrayLike, disp: bool = True) -> Any:
    return _with_error("logm", _logarithm(_square("logm", A)), A, disp)


def _logarithm(a: AnyArray) -> AnyArray:
    """Give the principal logarithm by inverse scaling and squaring, of shape `(..., n, n)`.

    Square roots bring the matrix near the identity, where the integral of x (1 + t x)⁻¹ over t from
    0 to 1 is taken by Gauss and Legendre's rule, which is a Padé approximant (Higham 2008, section
    11.4). Raises `LinAlgError` for a matrix that is singular or not finite.
    """
    one = dec.eye(a.shape[-1], a)
    roots = 0
    while _norm(np.asarray(to_numpy(dec.constant(a))) - one) > _NEAR:
        if roots == 100:
            raise LinAlgError(
                "logm: the square roots of the matrix do not come near the identity; it is "
                "singular or not finite"
            )
        a, roots = _root(a), roots + 1
    one = dec.eye(a.shape[-1], a)
    x = a - one
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    total: Any = 0.0
    for t, weight in zip(((points + 1) / 2).tolist(), (weights / 2).tolist(), strict=True):
        total = total + weight * dec.solve(one + t * x, x)
    logarithm: AnyArray = 2.0**roots * total
    return logarithm
