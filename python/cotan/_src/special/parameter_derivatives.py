"""Derivatives of incomplete gamma and beta functions with respect to their parameters.

`P(a, x)` is the integral of a density over `(0, x)`. Its derivative by `a` is that of the density
times the logarithm of the variable less the mean of that, so it has one sign on either side of the
mean, and 0 over both. Integrated is the side that has no mean in it: nothing cancels. With the
logarithm as the variable (of the odds, for the beta function) the integrand is smooth and falls off
in one direction, over a length that a few of Newton's steps find. A tanh-sinh rule has it to 12
digits, for parameters from 0.1 on. Being made of primitives, it has derivatives of its own.
"""

import functools
import math
from collections.abc import Callable

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.special.ufuncs import Derivative, Functions
from cotan._src.typing import AnyArray

f = Functions()
where = _core.where


_DOUBLE = (np.float64, np.complex128)


def in_double(function: Derivative) -> Derivative:
    """Compute in float64 what is made of large numbers that nearly cancel, and cast it back."""

    @functools.wraps(function)
    def computed(*args: Array) -> AnyArray:
        dtype = np.result_type(*(x.dtype for x in args))
        result = function(*(_core.cast(x, _DOUBLE[x.dtype.kind == "c"]) for x in args))
        return _core.cast(result, dtype) if dtype.kind in "fc" else result

    return computed


# What lies beyond `exp(-_FALL)` of the largest value is left out.
_FALL = 42.0
# How many nodes there are, from which argument of the hyperbolic sine to its negative.
_NODES = 96
_REACH = 3.0


def _nodes() -> tuple[AnyArray, AnyArray]:
    """Give nodes and weights on the interval from 0 to 1, as primitives: rules take no arrays."""
    step = 2 * _REACH / (_NODES - 1)
    t = _core.cast(_core.apply("iota", size=_NODES), np.float64) * step - _REACH
    odds = np.exp(-math.pi * np.sinh(t))
    return 1 / (1 + odds), step * math.pi * np.cosh(t) * odds / (1 + odds) ** 2


def _columns(*arrays: AnyArray) -> list[Array]:
    """Give arrays in their common shape, with an axis for the nodes behind."""
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    wide = [_core.broadcast_to(x, shape) for x in arrays]
    return [_core.reshape(x, (*shape, 1)) for x in wide]


def _length(
    fall: Callable[[Array], AnyArray], steepness: Callable[[Array], AnyArray], begin: Array
) -> AnyArray:
    """Give how far a convex function goes until it has risen by `_FALL`, from beyond."""
    for _ in range(16):
        begin = begin - (fall(begin) - _FALL) / steepness(begin)
    return begin


def _of_inside(inside: Array, is_known: Array, factor: Array, total: AnyArray | float) -> AnyArray:
    """Give a product; 0 at the ends, and NaN where there is no density."""
    inside, is_known, factor = inside[..., 0], is_known[..., 0], factor[..., 0]
    return where(inside, factor * total, where(is_known, 0.0, math.nan))


def _gamma_rate(a: Array, x: Array) -> AnyArray:
    """Give the derivative of `gammainc(a, x)` by `a`, over `x**a * exp(-x) / gamma(a)`."""
    a, x = _columns(a, x)
    is_known = a > 0
    inside = is_known & (x > 0) & (x < np.inf)
    a, x = where(inside, a, 1.0), where(inside, x, 1.0)
    log, mean = np.log(x), f.psi(a)
    side = where(log <= mean, -1.0, 1.0)

    def fall(w: Array, a: Array = a, x: Array = x) -> AnyArray:
        return x * np.expm1(w) - a * w

    c, t = _core.dropgrad(a), _core.dropgrad(x)
    far = where(side < 0, (_FALL + t) / c, np.log1p((_FALL + 4 * np.maximum(c, 1.0)) / t) + 1)
    length = _length(
        lambda v: fall(side * v, c, t), lambda v: side * (t * np.exp(side * v) - c), far
    )
    nodes, weights = _nodes()
    w = side * length * nodes
    total = np.sum(weights * np.exp(-fall(w)) * (log + w - mean), axis=-1)
    return _of_inside(inside, is_known, -side * length, total)


def _beta_rate(a: AnyArray, b: AnyArray, log: AnyArray, other: AnyArray) -> AnyArray:
    """Give the derivative of `betainc(a, b, x)` by `a`, over `x**a * (1 - x)**b / beta(a, b)`.

    Arguments are the logarithms of `x` and of `1 - x`.
    """
    a, b, log, other = _columns(a, b, log, other)
    is_known = (a > 0) & (b > 0)
    inside = is_known & (log > -np.inf) & (other > -np.inf)
    a, b = where(inside, a, 1.0), where(inside, b, 1.0)
    log, other = where(inside, log, -1.0), where(inside, other, -1.0)
    mean = f.psi(a) - f.psi(a + b)
    side = where(log <= mean, -1.0, 1.0)

    def logs(w: Array, log: Array = log, other: Array = other) -> tuple[AnyArray, AnyArray]:
        odds = log - other + w
        return -np.logaddexp(0.0, -odds), -np.logaddexp(0.0, odds)

    def fall(w: Array) -> AnyArray:
        at, rest = logs(w)
        return a * (log - at) + b * (other - rest)

    c, d, l0, l1 = map(_core.dropgrad, (a, b, log, other))

    def fall_now(v: Array) -> AnyArray:
        at, rest = logs(side * v, l0, l1)
        return c * (l0 - at) + d * (l1 - rest)

    def steepness(v: Array) -> AnyArray:
        at, rest = logs(side * v, l0, l1)
        return side * (d * np.exp(at) - c * np.exp(rest))

    far = where(side < 0, (_FALL - d * l1) / c, (_FALL - c * l0) / d) + 1
    length = _length(fall_now, steepness, far)
    # At even odds the slopes change, over a length of 1.
    middle = np.clip(-side * (l0 - l1), 0.0, length)
    total: AnyArray | float = 0.0
    nodes, weights = _nodes()
    for begin, span in ((0.0, middle), (middle, length - middle)):
        w = side * (begin + span * nodes)
        values = np.exp(-fall(w)) * (logs(w)[0] - mean)
        total = total + span[..., 0] * np.sum(weights * values, axis=-1)
    return _of_inside(inside, is_known, -side, total)


def _gamma_scale(a: Array, x: Array) -> AnyArray:
    """Give `x**a * exp(-x) / gamma(a)`."""
    end = np.isinf(x)
    x = where(end, 1.0, x)
    return where(end, 0.0, np.exp(f.xlogy(a, x) - x - f.gammaln(a)))


def _beta_scale(a: AnyArray, b: AnyArray, log: AnyArray, other: AnyArray) -> AnyArray:
    """Give `x**a * (1 - x)**b / beta(a, b)` of the logarithms."""
    return np.exp(a * log + b * other - f.betaln(a, b))


def _beta_logs(x: Array) -> tuple[AnyArray, AnyArray]:
    return np.log(x), np.log1p(-x)


# --------------------------------------------------------------------------------------------------
# What the table has


@in_double
def gamma_a(a: Array, x: Array) -> AnyArray:
    """Give the derivative of `gammainc(a, x)` by `a`."""
    return _gamma_scale(a, x) * _gamma_rate(a, x)


@in_double
def gamma_x_a(a: Array, x: Array) -> AnyArray:
    """Give that of the `x` at which `gammainc(a, x)` has a value."""
    return -x * _gamma_rate(a, x)


@in_double
def beta_a(a: Array, b: Array, x: Array) -> AnyArray:
    """Give the derivative of `betainc(a, b, x)` by `a`."""
    logs = _beta_logs(x)
    return _beta_scale(a, b, *logs) * _beta_rate(a, b, *logs)


@in_double
def beta_b(a: Array, b: Array, x: Array) -> AnyArray:
    """Give that by `b`: the function is 1 less itself, the other way round."""
    log, other = _beta_logs(x)
    return -_beta_scale(a, b, log, other) * _beta_rate(b, a, other, log)


@in_double
def beta_x_a(a: Array, b: Array, x: Array) -> AnyArray:
    """Give the derivative by `a` of the `x` at which `betainc(a, b, x)` has a value."""
    return -x * (1 - x) * _beta_rate(a, b, *_beta_logs(x))


@in_double
def beta_x_b(a: Array, b: Array, x: Array) -> AnyArray:
    """Give that by `b`."""
    log, other = _beta_logs(x)
    return x * (1 - x) * _beta_rate(b, a, other, log)


def _fisher(m: Array, n: Array, x: Array) -> tuple[AnyArray, AnyArray]:
    """Give the logarithms of `m * x / (m * x + n)` and of what is missing to 1."""
    ratio = m * x / n
    return -np.log1p(1 / ratio), -np.log1p(ratio)


def _fisher_rates(m: Array, n: Array, x: Array) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Give the derivatives of `fdtr(m, n, x)` by `m` and `n` over a scale, and that."""
    log, other = _fisher(m, n, x)
    by_m = _beta_rate(m / 2, n / 2, log, other) / 2 + 1 / m
    by_n = -_beta_rate(n / 2, m / 2, other, log) / 2 - 1 / n
    return by_m, by_n, _beta_scale(m / 2, n / 2, log, other)


@in_double
def fisher_m(m: Array, n: Array, x: Array) -> AnyArray:
    """Give the derivative of `fdtr(m, n, x)` with respect to `m`."""
    by_m, _, scale = _fisher_rates(m, n, x)
    return scale * by_m


@in_double
def fisher_n(m: Array, n: Array, x: Array) -> AnyArray:
    """Give the derivative of `fdtr(m, n, x)` with respect to `n`."""
    _, by_n, scale = _fisher_rates(m, n, x)
    return scale * by_n


@in_double
def fisher_x_m(m: Array, n: Array, x: Array) -> AnyArray:
    """Give the derivative of a quantile `x` with respect to `m`, `fdtr(m, n, x)` held constant."""
    return -x * _fisher_rates(m, n, x)[0]


@in_double
def fisher_x_n(m: Array, n: Array, x: Array) -> AnyArray:
    """Give the derivative of a quantile `x` with respect to `n`, `fdtr(m, n, x)` held constant."""
    return -x * _fisher_rates(m, n, x)[1]


def _student_rates(df: Array, t: Array) -> tuple[AnyArray, AnyArray]:
    """Give the derivative of `stdtr(df, t)` by `df` over a scale, and that, `t` not being 0."""
    log, other = -np.log1p(t * t / df), -np.log1p(df / (t * t))
    rate = _beta_rate(df / 2, 0.5 + 0 * df, log, other) / 2 + 1 / df
    return -rate / 2, _beta_scale(df / 2, 0.5 + 0 * df, log, other)


def _is_still(df: Array, t: Array) -> AnyArray:
    """Say where nothing depends on `df`: in the middle, and where the distribution is normal."""
    return (t == 0) | ((df == np.inf) & (t == t))


@in_double
def student_df(df: Array, t: Array) -> AnyArray:
    """Give the derivative of `stdtr(df, t)` with respect to `df`."""
    still = _is_still(df, t)
    rate, scale = _student_rates(where(still, 1.0, df), where(still, 1.0, t))
    return where(still, 0.0, np.sign(t) * scale * rate)


@in_double
def student_t_df(df: Array, t: Array) -> AnyArray:
    """Give the derivative by `df` of the `t` at which `stdtr(df, t)` has a value."""
    still = _is_still(df, t)
    rate, _ = _student_rates(where(still, 1.0, df), where(still, 1.0, t))
    return where(still, 0.0, -t * rate)


# --------------------------------------------------------------------------------------------------
# Zeta functions, by Euler and Maclaurin's formula

# How many terms are summed, and Bernoulli numbers over factorials for what is left.
_SUMMED = 12
_REST = (
    *(1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000),
    *(1 / 74724249600, -3617 / 10670622842880000),
)


@in_double
def zeta_s(s: Array, q: Array) -> AnyArray:
    """Give the derivative of Hurwitz's `zeta(s, q)` with respect to `s`, for positive `q`."""
    known = q > 0
    q = where(known, q, 1.0)
    total: AnyArray = 0.0 * s
    for k in range(_SUMMED):
        log = np.log(q + k)
        total = total - log * np.exp(-s * log)
    log = np.log(q + _SUMMED)
    size = np.exp(-s * log)
    last = q + _SUMMED
    total = total - size * (last * (log + 1 / (s - 1)) / (s - 1) + log / 2)
    factor, slope, power = s, 1.0 + 0.0 * s, size / last
    for j, rest in enumerate(_REST):
        total = total + rest * (slope - factor * log) * power
        first, second = s + (2 * j + 1), s + (2 * j + 2)
        slope = slope * first * second + factor * (first + second)
        factor, power = factor * first * second, power / (last * last)
    return where(known, total, math.nan)


@in_double
def riemann_zeta(s: Array) -> AnyArray:
    """Give the derivative of Riemann's function; left of 0 by its functional equation."""
    left = s < 0
    one = 1.0 + 0.0 * s
    right = zeta_s(where(left, 2.0, s), one)
    t = where(left, s, -1.0)
    turn = math.pi / 2 * (t - 4 * np.round(t / 4))
    sine, cosine = np.sin(turn), np.cos(turn)
    value, slope = f._riemann_zeta(1 - t), zeta_s(1 - t, one)
    rate = (math.log(2 * math.pi) - f.psi(1 - t)) * value - slope
    size = 2 * np.exp((t - 1) * math.log(2 * math.pi)) * f.gamma(1 - t)
    return where(left, size * (sine * rate + math.pi / 2 * cosine * value), right)
