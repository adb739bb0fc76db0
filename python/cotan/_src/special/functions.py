"""Overrides of the functions of `scipy.special` that are not ufuncs.

Those that SciPy writes in terms of its ufuncs (`jvp`, `softplus`, ...) need none.
"""

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.rebind.numpy_substitutes import gathered
from cotan._src.runtime.registry import Way, override
from cotan._src.runtime.ufunc_dtypes import finished
from cotan._src.runtime.values import (
    axes_of,
    call_on_values,
    contains_active,
    refuse,
    to_numpy,
)
from cotan._src.special.ufuncs import FUNCTIONS, PARTIALS, UNKNOWN, Functions, apply
from cotan._src.typing import AnyArray, ArrayLike, Axes, Dtype, Function, NDArray

f = Functions()
where = _core.where


def _original(name: str) -> Function:
    result: Function = getattr(importlib.import_module("scipy.special"), name)
    return result


def _number(x: ArrayLike) -> Array:
    """Give an array with a fraction: integers as float64."""
    x = _core.asarray(x)
    return x if x.dtype.kind in "fc" else _core.cast(x, np.float64)


def _common(*values: ArrayLike) -> Dtype:
    """Give the dtype of values together; Python numbers take over that of arrays."""
    kinds = [v.dtype if hasattr(v, "dtype") else v for v in values]
    kinds = [_core.asarray(k).dtype if isinstance(k, (list, tuple)) else k for k in kinds]
    dtype = np.result_type(*kinds)
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


# --------------------------------------------------------------------------------------------------
# What SciPy hands to a ufunc as it is, lists too


@override("scipy.special.lambertw")
def lambertw(z: ArrayLike, k: ArrayLike = 0, tol: ArrayLike = 1e-8) -> AnyArray:
    result: AnyArray = _original("lambertw")(gathered(z), k, tol)
    return result


@override("scipy.special.zeta")
def zeta(x: ArrayLike, q: ArrayLike | None = None, out: AnyArray | None = None) -> AnyArray:
    result: AnyArray = _original("zeta")(gathered(x), gathered(q), out)
    return result


# --------------------------------------------------------------------------------------------------
# Sums of exponentials


def _largest(x: Array, axes: tuple[int, ...]) -> Array:
    """Give the largest real part, 0 where it is not finite; it cancels, so it is held constant."""
    largest = _core.max(_core.dropgrad(x.real if x.dtype.kind == "c" else x), axes, True)
    return where(_core.isfinite(largest), largest, 0)


def _axes(axis: Axes, ndim: int) -> tuple[int, ...]:
    """Give the axes that are meant; as in NumPy a number has one."""
    return () if ndim == 0 and axis in (0, -1, (0,), (-1,)) else axes_of(axis, ndim)


@override("scipy.special.logsumexp")
def logsumexp(
    a: ArrayLike,
    axis: Axes = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> AnyArray | tuple[AnyArray, ...]:
    # Not the primitive: its slope is made from the rounded result, which is that of the largest
    # element where elements are large.
    if b is None:
        a = _number(a)
    else:
        dtype = _common(a, b)
        a, b = _core.cast(_number(a), dtype), _core.cast(_number(b), dtype)
        shape = np.broadcast_shapes(a.shape, b.shape)
        a, b = _core.broadcast_to(a, shape), _core.broadcast_to(b, shape)
        # What does not count need not be finite.
        a = where(_core.eq(b, 0), -math.inf, a)
    axes = axes_of(axis, a.ndim)
    if math.prod(a.shape[i] for i in axes) == 0:
        shape = tuple(1 if i in axes else n for i, n in enumerate(a.shape))
        total = _core.array(np.zeros(shape, a.dtype))
        largest: Array | int = 0
    else:
        largest = _largest(a, axes)
        terms = _core.exp(a - largest)
        total = _core.sum(terms if b is None else where(_core.eq(b, 0), 0, b * terms), axes, True)
    sign = None
    if return_sign:
        size = _core.abs(total)
        zero = _core.eq(size, 0)
        if a.dtype.kind == "c":
            sign = where(zero, 0, total / where(zero, 1, size))
        else:
            sign = _core.sign(total)
        total = size
    result = _core.log(total) + largest
    results = [result] if sign is None else [result, sign]
    if not keepdims:
        kept = tuple(n for i, n in enumerate(a.shape) if i not in axes)
        results = [_core.reshape(r, kept) for r in results]
    found = tuple(finished(r) for r in results)
    return found if return_sign else found[0]


@override("scipy.special.softmax")
def softmax(x: ArrayLike, axis: Axes = None) -> Array:
    x = _number(x)
    axes = _axes(axis, x.ndim)
    terms = _core.exp(x - _core.max(_core.dropgrad(x), axes, True))
    return terms / _core.sum(terms, axes, True)


@override("scipy.special.log_softmax")
def log_softmax(x: ArrayLike, axis: Axes = None) -> Array:
    x = _number(x)
    axes = _axes(axis, x.ndim)
    if x.dtype.kind == "c":
        # The largest as NumPy orders them: it says on which branch the logarithm is.
        largest = np.max(to_numpy(_core.dropgrad(x)), axes, keepdims=True)
        largest = np.where(np.isfinite(largest), largest, 0)
    else:
        largest = _largest(x, axes)
    shifted = x - largest
    result: Array = shifted - _core.log(_core.sum(_core.exp(shifted), axes, True))
    return result


# --------------------------------------------------------------------------------------------------
# Gamma functions and factorials


@override("scipy.special.polygamma")
def polygamma(n: ArrayLike, x: ArrayLike) -> AnyArray:
    n, x = np.asarray(to_numpy(n)), _number(x)
    order = np.where(n == 0, 1, n)
    factor = (-1.0) ** (order + 1) * f.gamma(order + 1.0)
    value: Any = factor * f._zeta(order + 1.0, x)
    if np.any(n == 0):
        value = where(n == 0, f.psi(x), value)
    return finished(value)


@override("scipy.special.multigammaln")
def multigammaln(a: ArrayLike, d: ArrayLike) -> AnyArray:
    a, d = _number(a), np.asarray(to_numpy(d))[()]
    if np.ndim(d) or np.floor(d) != d:
        raise ValueError("d should be a positive integer (dimension)")
    if np.any(to_numpy(a) <= 0.5 * (d - 1)):
        raise ValueError(f"condition a ({a}) > 0.5 * (d-1) ({0.5 * (d - 1)}) not met")
    total = d * (d - 1) / 4 * math.log(math.pi)
    for j in range(int(d)):
        total = total + f.gammaln(a - j / 2)
    return finished(total)


def _counted(count: Callable[[Array, Array], Array], n: Array, k: Array) -> AnyArray:
    """Give zero where there is nothing to choose."""
    some = _core.logical_and(_core.le(k, n), _core.logical_and(_core.ge(n, 0), _core.ge(k, 0)))
    return finished(where(some, count(where(some, n, 1), where(some, k, 0)), 0.0))


@override("scipy.special.comb")
def comb(
    N: ArrayLike, k: ArrayLike, *, exact: bool = False, repetition: bool = False
) -> AnyArray | int:
    if exact:
        options = {"exact": True, "repetition": repetition}
        counted: AnyArray | int = call_on_values(_original("comb"), (N, k), options)
        return counted
    n, k = _number(N), _number(k)
    if repetition:
        # Nothing in one way only, even out of nothing.
        none = _core.logical_and(_core.eq(k, 0), _core.ge(n, 0))
        k, n = where(none, 1, k), where(none, 1, n)
        return finished(where(none, 1.0, f.binom(n + k - 1, k)))
    return _counted(f.binom, n, k)


@override("scipy.special.perm")
def perm(N: ArrayLike, k: ArrayLike, exact: bool = False) -> AnyArray | int:
    if exact:
        result: AnyArray | int = call_on_values(_original("perm"), (N, k), {"exact": True})
        return result
    n, k = _number(N), _number(k)
    return _counted(lambda n, k: f.poch(n - k + 1, k), n, k)


@override("scipy.special.factorial")
def factorial(n: ArrayLike, exact: bool = False, extend: str = "zero") -> AnyArray | int:
    if exact or extend != "zero" or _core.asarray(n).dtype.kind == "c":
        options = {"exact": exact, "extend": extend}
        counted: AnyArray | int = call_on_values(_original("factorial"), (n,), options)
        return counted
    scalar = not isinstance(n, Array) or n._rank != "array"
    n = _number(n)
    below = _core.lt(n, 0)
    value = where(below, 0.0, f.gamma(where(below, 0.0, n) + 1))
    # SciPy computes in the dtype at hand, and puts all but scalars into an array of float64.
    return finished(value if scalar else _core.cast(value, np.float64))


@override("scipy.special.diric")
def diric(x: ArrayLike, n: ArrayLike) -> AnyArray:
    n = np.asarray(to_numpy(n))
    x = _core.asarray(x)
    x = _number(x.astype(np.result_type(x.dtype, n.dtype)))
    half = x / 2
    turns = np.round(to_numpy(half) / math.pi)
    rest = half - turns * math.pi
    bare = to_numpy(rest)
    near = np.abs(np.sin(bare)) < (1e-3 if x.dtype == np.float32 else 1e-7)
    series = 1 - (n * n - 1) / 6 * where(near, rest, 0) ** 2
    apart = where(near, 1.0, rest)
    ratio = where(near, series, _core.sin(n * apart) / (n * _core.sin(apart)))
    sign = np.where(np.asarray(turns * (n - 1)) % 2 == 0, 1.0, -1.0)
    whole = (n > 0) & (n == np.floor(n))
    return finished(where(whole, ratio * sign, math.nan), x.dtype)


# --------------------------------------------------------------------------------------------------
# Spherical Bessel functions, harmonics, Legendre functions


def _spherical(kind: str, even: int) -> Function:
    """Give one of the kinds; `even` is the sign at `-z` for even `n`, 0 where there is none."""

    def function(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> AnyArray:
        n, z = np.asarray(to_numpy(n), np.int64), _number(z)
        g = getattr(f, f"_spherical_{kind}_d" if derivative else f"_spherical_{kind}")
        if z.dtype.kind == "c":
            return finished(g(n, z))
        left = _core.lt(z, 0)
        if not even:
            right = g(n, where(left, 1, z))
            return finished(where(left, g(n, where(left, z, -1.0) + 0j).real, right))
        # SciPy leaves single precision here.
        sign = np.where(n % 2 == 0, even, -even) * (-1.0 if derivative else 1.0)
        value = g(n, where(left, -z, z))
        return finished(where(left, value * sign, value), np.float64)

    return function


for _kind, _even in {"jn": 1, "yn": -1, "in": 1, "kn": 0}.items():
    override(f"scipy.special.spherical_{_kind}")(_spherical(_kind, _even))


def _raised(n: Array, m: Array) -> Array:
    return _core.sqrt(_core.maximum(_core.cast((n - m) * (n + m + 1), np.float64), 0))


def _sph_theta(n: Array, m: Array, theta: Array, phi: Array) -> Array:
    """By the operators that raise and lower `m`: smooth at the poles, too.

    SciPy takes the size of the sine, so that beyond the poles the way goes back.
    """
    turn = _core.exp(1j * phi)
    raised = _raised(n, m) * _sph_harm_y(n, m + 1, theta, phi) / turn
    lowered = _raised(n, -m) * _sph_harm_y(n, m - 1, theta, phi) * turn
    return _core.where(_core.sin(theta) < 0, -0.5, 0.5) * (raised - lowered)


def _sph_harm_y(n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike) -> Array:
    theta, phi = _number(theta), _number(phi)
    if "c" in {theta.dtype.kind, phi.dtype.kind}:
        raise TypeError("sph_harm_y: the angles must be real")
    n, m = _core.cast(n, np.int64), _core.cast(m, np.int64)
    # Before SciPy 1.18 the degree, an int64, made everything double precision.
    kind = _original("sph_harm_y")(0, 0, *(np.zeros((), x.dtype) for x in (theta, phi))).dtype
    angles = (_core.cast(x, np.zeros((), kind).real.dtype) for x in (theta, phi))
    result: Array = apply("sph_harm_y", (n, m, *angles), (kind,))
    return result


def _sph_values(n: NDArray, m: NDArray, theta: NDArray, phi: NDArray) -> NDArray:
    # SciPy gives more than harmonics where `m` is beyond the degree.
    y = _original("sph_harm_y")(n, m, theta, phi)
    return np.where(np.abs(m) > np.abs(n), 0, y)


FUNCTIONS["sph_harm_y"] = _sph_values
PARTIALS["sph_harm_y"] = (
    UNKNOWN,
    UNKNOWN,
    _sph_theta,
    lambda n, m, theta, phi: 1j * m * _sph_harm_y(n, m, theta, phi),
)


@override("scipy.special.sph_harm_y")
def sph_harm_y(
    n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, *, diff_n: int = 0
) -> AnyArray | tuple[AnyArray, ...]:
    if diff_n:
        original = _original("sph_harm_y")
        several: tuple[AnyArray, ...] = call_on_values(
            original, (n, m, theta, phi), {"diff_n": diff_n}
        )
        return several
    return finished(_sph_harm_y(to_numpy(n), to_numpy(m), theta, phi))


# --------------------------------------------------------------------------------------------------
# What has no rule: on values, or refused by name


def _on_values(name: str) -> Function:
    def function(*args: object, **kwargs: object) -> object:
        if contains_active(args) or contains_active(kwargs):
            raise refuse(f"scipy.special.{name}")
        return call_on_values(_original(name), args, kwargs)

    return function


_WITHOUT = """
    legendre_p legendre_p_all assoc_legendre_p assoc_legendre_p_all sph_legendre_p
    sph_legendre_p_all sph_harm_y_all factorial2 factorialk stirling2 ellip_harm ellip_harm_2
    ellip_normal lmbda lqmn lqn riccati_jn riccati_yn pbdv_seq pbvv_seq pbdn_seq pro_cv_seq
    obl_cv_seq mathieu_even_coef mathieu_odd_coef bernoulli euler roots_jacobi roots_sh_jacobi
    roots_genlaguerre roots_gegenbauer
"""
for _name in _WITHOUT.split():
    override(f"scipy.special.{_name}", way=Way.REFUSED)(_on_values(_name))
