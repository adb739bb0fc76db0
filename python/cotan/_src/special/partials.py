"""Partials of the ufuncs of `scipy.special`: the rows of the table in `special.ufuncs`.

Formulas that cancel or divide by zero inside the domain are avoided where another one is known:
recurrences in both directions, hypergeometric functions, Carlson's integrals.
"""

import math

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.special import parameter_derivatives as by
from cotan._src.special.ufuncs import PARTIALS, UNKNOWN, ZERO, Derivative, Functions, real_only
from cotan._src.typing import AnyArray

f = Functions()
where = _core.where

SQRT_PI = math.sqrt(math.pi)
SQRT_2PI = math.sqrt(2 * math.pi)


def _times(value: float, partial: Derivative) -> Derivative:
    return lambda *args: value * partial(*args)


def _inverse(partial: Derivative) -> Derivative:
    return lambda *args: 1 / partial(*args)


# --------------------------------------------------------------------------------------------------
# The error function and its relatives


def _far_wofz(z: Array) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """Say where series by powers of `1 / z` are exact to all digits; give these powers, and `z`."""
    far = abs(z) > 50
    y = where(far, z, 100.0)
    return far, 1 / y, 1 / y**2, where(far, 0.0, z)


def _wofz(z: Array) -> AnyArray:
    # Far away both terms of 2j / sqrt(pi) - 2 * z * wofz(z) cancel.
    far, _, q, near = _far_wofz(z)
    series = -1j / SQRT_PI * q * (1 + q * (1.5 + q * (3.75 + q * (13.125 + q * 59.0625))))
    # Below the axis there is 2 * exp(-z**2), too.
    below = far & (z.imag < 0)
    y = where(below, z, 0.0)
    series = series - where(below, 4 * y * np.exp(-y * y), 0.0)
    return where(far, series, 2j / SQRT_PI - 2 * near * f.wofz(near))


def _z_wofz(z: Array) -> AnyArray:
    """Give the derivative of `z * wofz(z)`."""
    far, inverse, q, near = _far_wofz(z)
    series = 1 + q * (3 + q * (11.25 + q * (52.5 + q * 295.3125)))
    series = -1j / SQRT_PI * q * inverse * series
    below = far & (z.imag < 0)
    y = where(below, z, 0.0)
    series = series + where(below, (2 - 4 * y * y) * np.exp(-y * y), 0.0)
    return where(far, series, (1 - 2 * near * near) * f.wofz(near) + 2j / SQRT_PI * near)


def _voigt(which: str) -> Derivative:
    @by.in_double
    def partial(x: Array, sigma: Array, gamma: Array) -> AnyArray:
        # Of the width that is so small only the square counts.
        size = np.hypot(x, gamma)
        zero = abs(sigma) <= 1e-8 * size
        s = where(zero, 1, sigma)
        inverse = where(zero, 1, 0) / _core.apply("complex", where(zero, x, 1), gamma)
        z = _core.apply("complex", where(zero, 0, x) / (s * math.sqrt(2)),
                        gamma / (s * math.sqrt(2)))  # fmt: skip
        if which == "sigma":
            narrow = -2 / math.pi * sigma * (inverse**3).imag
            return where(zero, narrow, -_z_wofz(z).real / (SQRT_2PI * s * s))
        slope = _wofz(z) / (2 * SQRT_PI * s * s)
        lorentz = inverse**2 / math.pi
        return where(zero, lorentz.imag, slope.real) if which == "x" else where(
            zero, lorentz.real, -slope.imag)  # fmt: skip

    return partial


def _owens_t_h(h: Array, a: Array) -> AnyArray:
    return -np.exp(-h * h / 2) * _core.erf(a * h * math.sqrt(0.5)) / (2 * SQRT_2PI)


def _owens_t_a(h: Array, a: Array) -> AnyArray:
    square = 1 + a * a
    return np.exp(-h * h * square / 2) / (2 * math.pi * square)


def _far(x: Array) -> tuple[Array, Array]:
    """Say where a series in powers of `1 / x**2` is exact to all digits, and give that."""
    far = abs(x) > 50
    return far, 1 / where(far, x, 1.0) ** 2


@by.in_double
def _erfcx(x: Array) -> AnyArray:
    if x.dtype.kind == "c":
        return 1j * _wofz(1j * x)
    # Far to the right both terms cancel.
    far, q = _far(where(x > 0, x, 0.0))
    series = -q * (1 - q * (1.5 - q * (3.75 - q * 13.125))) / SQRT_PI
    x = where(far, 0.0, x)
    return where(far, series, 2 * x * f.erfcx(x) - 2 / SQRT_PI)


@by.in_double
def _dawsn(x: Array) -> AnyArray:
    if x.dtype.kind == "c":
        far = abs(x) > 50
        up = where(far, where(x.imag < 0, -x, x), 100j)
        near = where(far, 0.0, x)
        away = -0.5j * SQRT_PI * (2 * up * np.exp(-up * up) + _wofz(up))
        return where(far, away, 1 - 2 * near * f.dawsn(near))
    far, q = _far(x)
    series = -q / 2 * (1 + q * (1.5 + q * (3.75 + q * 13.125)))
    x = where(far, 0.0, x)
    return where(far, series, 1 - 2 * x * f.dawsn(x))


def _ndtri_exp(y: Array) -> AnyArray:
    end = y == -np.inf
    y = where(end, -1.0, y)
    return where(end, 0.0, SQRT_2PI / 2 * f.erfcx(-math.sqrt(0.5) * f.ndtri_exp(y)))


@by.in_double
def _log_ndtr(x: Array) -> AnyArray:
    left = (x.real if x.dtype.kind == "c" else x) < 0
    a, b = where(left, x, 0), where(left, 0, x)
    right = np.exp(-b * b / 2 - f.log_ndtr(b)) / SQRT_2PI
    return where(left, 2 / SQRT_2PI / f.erfcx(-math.sqrt(0.5) * a), right)


PARTIALS.update({
    "erf": (lambda x: 2 / SQRT_PI * np.exp(-x * x),),
    "erfc": (lambda x: -2 / SQRT_PI * np.exp(-x * x),),
    "erfcx": (_erfcx,),
    "erfi": (lambda x: 2 / SQRT_PI * np.exp(x * x),),
    "erfcinv": (lambda y: -SQRT_PI / 2 * np.exp(f.erfcinv(y) ** 2),),
    "dawsn": (_dawsn,),
    "wofz": (by.in_double(_wofz),),
    "ndtr": (lambda x: np.exp(-x * x / 2) / SQRT_2PI,),
    "log_ndtr": (_log_ndtr,),
    "ndtri": (lambda y: SQRT_2PI * np.exp(f.ndtri(y) ** 2 / 2),),
    "ndtri_exp": (_ndtri_exp,),
    "voigt_profile": (_voigt("x"), _voigt("sigma"), _voigt("gamma")),
    "owens_t": (_owens_t_h, _owens_t_a),
    "fresnel": (lambda z: (np.sin(math.pi / 2 * z * z), np.cos(math.pi / 2 * z * z)),),
})  # fmt: skip

# --------------------------------------------------------------------------------------------------
# The gamma function and its relatives


def _psi(x: Array) -> AnyArray:
    real_only("psi", x)
    # Far to the left SciPy counts its way up to positive numbers, one by one: there by reflection.
    far = x < -20
    value = f._zeta(2.0, where(far, 1 - x, x))
    turn = where(far, x - np.round(x), 0.25)
    return where(far, (math.pi / np.sin(math.pi * turn)) ** 2 - value, value)


def _rgamma(x: Array) -> AnyArray:
    # Left of the middle by reflection: the reciprocal is smooth at the poles of gamma.
    left = (x.real if x.dtype.kind == "c" else x) < 0.5
    y = 1 - where(left, x, 0)
    turn = math.pi * where(left, x, 0)
    reflected = f.gamma(y) * (np.cos(turn) - np.sin(turn) * f.psi(y) / math.pi)
    right = where(left, 1, x)
    if x.dtype.kind != "c":
        left, reflected = left | (x == np.inf), where(left, reflected, 0.0)
    return where(left, reflected, -f.psi(right) * f.rgamma(right))


def _is_pole(x: Array) -> AnyArray:
    """Say where gamma has a pole: there its reciprocal is 0, and has a slope."""
    pole: AnyArray = (x <= 0) & (np.floor(x) == x)
    return pole


def _turns(n: AnyArray) -> AnyArray:
    """Give -1 to a whole power."""
    return where(n % 2 == 0, 1.0, -1.0)


@by.in_double
def _less(a: Array, b: Array) -> AnyArray:
    """Give `psi(a) - psi(a + b)`."""
    return f.psi(a) - f.psi(a + b)


def _sine(x: Array) -> tuple[AnyArray, AnyArray]:
    """Give `sin(pi x) / pi` and `cos(pi x)`, exact at integers."""
    whole = np.round(x)
    turn = math.pi * (x - whole)
    sign = _turns(whole)
    return sign * np.sin(turn) / math.pi, sign * np.cos(turn)


def _reflected(x: Array, rest: Array, rate: Array) -> AnyArray:
    """Differentiate `rest / gamma(x) / gamma(1 - x)`; `rate` is the one of the logarithm of `rest`.

    Where gamma has a pole the reciprocal is `sin(pi x) / pi` times what stays finite.
    """
    sine, cosine = _sine(x)
    return rest * (cosine + sine * rate)


def _beta_a(a: Array, b: Array) -> AnyArray:
    pole = _is_pole(a + b) & ~_is_pole(b)
    # Of two poles a quotient is left, that of the numbers on the other side.
    both = pole & _is_pole(a)
    none = pole & ~both
    p, q = where(none, a, 0.5), where(none, b, -0.5)
    rest = f.beta(q, 1 - p - q) / _sine(p)[0]
    slope = _reflected(p + q, rest, f.psi(p) - f.psi(1 - p - q))
    a, b = where(none, 1, a), where(none, 1, b)
    rate = where(both, -_less(where(both, 1 - a - b, 1), b), _less(where(both, 1, a), b))
    return where(none, slope, f.beta(a, b) * rate)


def _binom_n(n: Array, k: Array) -> AnyArray:
    none = _is_pole(n - k + 1) & ~_is_pole(n + 1)
    a, b = where(none, n, 0), where(none, k, 1)
    slope = _reflected(a - b + 1, f.beta(a + 1, b - a), f.psi(a + 1) - f.psi(b - a))
    n, k = where(none, 1, n), where(none, 0, k)
    return where(none, slope, f.binom(n, k) * -_less(n - k + 1, k))


def _binom_k(n: Array, k: Array) -> AnyArray:
    known = ~_is_pole(n + 1)
    low, high = _is_pole(k + 1) & known, _is_pole(n - k + 1) & known
    # Left of 0, and right of n, the same but for the sign.
    none = low | high
    a, b = where(none, n, 0), where(low, n - k, where(high, k, 1))
    rate = f.psi(b + 1) - f.psi(b - a)
    slope = where(low, 1.0, -1.0) * _reflected(a - b + 1, f.beta(a + 1, b - a), rate)
    n, k = where(none, 1, n), where(none, 0, k)
    return where(none, slope, f.binom(n, k) * (f.psi(n - k + 1) - f.psi(k + 1)))


def _poch_z(z: Array, m: Array) -> AnyArray:
    pole = _is_pole(z)
    # Of two poles a polynomial is left, that of the numbers on the other side.
    both = pole & _is_pole(z + m)
    none = pole & ~both
    p, q = where(none, z, 0), where(none, m, 1)
    # Two gamma functions are too large long before their quotient is.
    whole = np.floor(q) == q
    k, r = where(whole, p + q, 1), where(whole, 0.5, q)
    quotient = f.poch(1 - p - r, r) / _sine(p + r)[0]
    rest = where(whole, f.gamma(k) * f.gamma(1 - p), quotient)
    slope = _reflected(p, rest, f.psi(p + q) - f.psi(1 - p))
    z, m = where(none, 1, z), where(none, 0, m)
    a, b = where(both, 1 - z, z), where(both, -m, m)
    return where(none, slope, f.poch(z, m) * -_less(a, b))


@by.in_double
def gamma_density(a: Array, x: Array) -> AnyArray:
    """Give `x ** (a - 1) * exp(-x) / gamma(a)`."""
    end = np.isinf(x)
    x = where(end, 1.0, x)
    return where(end, 0.0, np.exp(f.xlogy(a - 1, x) - x - f.gammaln(a)))


@by.in_double
def beta_density(a: Array, b: Array, x: Array) -> AnyArray:
    """Give `x ** (a - 1) * (1 - x) ** (b - 1) / beta(a, b)`."""
    return np.exp(f.xlogy(a - 1, x) + f.xlog1py(b - 1, -x) - f.betaln(a, b))


def _riemann_zeta(s: Array) -> AnyArray:
    real_only("zeta", s)
    return by.riemann_zeta(s)


PARTIALS.update({
    "gamma": (lambda x: f.gamma(x) * f.psi(x),),
    "loggamma": (lambda x: f.psi(x),),
    "gammaln": (lambda x: f.psi(x),),
    "rgamma": (_rgamma,),
    "gammasgn": (ZERO,),
    "psi": (_psi,),
    "_riemann_zeta": (_riemann_zeta,),
    "_zeta": (by.zeta_s, lambda s, q: -s * f._zeta(s + 1, q)),
    "beta": (_beta_a, lambda a, b: _beta_a(b, a)),
    "betaln": (_less, lambda a, b: _less(b, a)),
    "binom": (_binom_n, _binom_k),
    "poch": (_poch_z, lambda z, m: f.poch(z, m) * f.psi(z + m)),
    "gammainc": (by.gamma_a, gamma_density),
    "gammaincc": (_times(-1, by.gamma_a), _times(-1, gamma_density)),
    "gammaincinv": (
        lambda a, y: by.gamma_x_a(a, f.gammaincinv(a, y)),
        lambda a, y: 1 / gamma_density(a, f.gammaincinv(a, y)),
    ),
    "gammainccinv": (
        lambda a, y: by.gamma_x_a(a, f.gammainccinv(a, y)),
        lambda a, y: -1 / gamma_density(a, f.gammainccinv(a, y)),
    ),
    "betainc": (by.beta_a, by.beta_b, beta_density),
    "betaincc": (_times(-1, by.beta_a), _times(-1, by.beta_b), _times(-1, beta_density)),
    "betaincinv": (
        lambda a, b, y: by.beta_x_a(a, b, f.betaincinv(a, b, y)),
        lambda a, b, y: by.beta_x_b(a, b, f.betaincinv(a, b, y)),
        lambda a, b, y: 1 / beta_density(a, b, f.betaincinv(a, b, y)),
    ),
    "betainccinv": (
        lambda a, b, y: by.beta_x_a(a, b, f.betainccinv(a, b, y)),
        lambda a, b, y: by.beta_x_b(a, b, f.betainccinv(a, b, y)),
        lambda a, b, y: -1 / beta_density(a, b, f.betainccinv(a, b, y)),
    ),
})  # fmt: skip

# --------------------------------------------------------------------------------------------------
# Distributions


@by.in_double
def _poisson(k: Array, m: Array) -> AnyArray:
    return gamma_density(np.floor(k) + 1.0, m)


@by.in_double
def _binomial(k: AnyArray, n: AnyArray, p: Array) -> AnyArray:
    k, n = np.floor(k), np.trunc(n)  # as SciPy rounds them
    return beta_density(n - k, k + 1.0, 1 - p)


@by.in_double
def _negative_binomial(k: AnyArray, n: AnyArray, p: Array) -> AnyArray:
    k, n = np.trunc(k), np.trunc(n)
    return beta_density(n, k + 1.0, p)


@by.in_double
def fisher_density(m: Array, n: Array, x: Array) -> AnyArray:
    """Give the density of the F distribution, the derivative of `fdtr` with respect to `x`."""
    end = np.isinf(x)
    x = where(end, 1.0, x)
    whole = m * x + n
    return where(end, 0.0, beta_density(m / 2, n / 2, m * x / whole) * m * n / whole**2)


@by.in_double
def student_density(df: Array, t: Array) -> AnyArray:
    """Give the density of Student's t distribution, the derivative of `stdtr` by `t`."""
    # With infinitely many degrees of freedom it is normal.
    end = np.isinf(df)
    df = where(end, 1.0, df)
    half = (df + 1) / 2
    log = f.gammaln(half) - f.gammaln(df / 2) - np.log(df * math.pi) / 2
    return where(end, np.exp(-t * t / 2) / SQRT_2PI, np.exp(log - half * np.log1p(t * t / df)))


def _gdtr_x(a: Array, b: Array, x: Array) -> AnyArray:
    none = a == 0
    return where(none, 0.0, a * gamma_density(b, where(none, 1.0, a) * x))


@by.in_double
def _chi(v: Array, x: Array) -> AnyArray:
    return gamma_density(v / 2, x / 2) / 2


@by.in_double
def noncentral_chi_density(x: Array, df: Array, nc: Array) -> AnyArray:
    """Give the slope of `chndtr` by `x`; that by `nc` is minus this of two more degrees."""
    inside = x > 0
    x = where(inside, x, 1.0)
    central = nc == 0
    shift = where(central, 1.0, nc)
    order, size = df / 2 - 1, np.sqrt(x * shift)
    near = np.exp(-((np.sqrt(x) - np.sqrt(shift)) ** 2) / 2)
    density = near * (x / shift) ** (order / 2) * f.ive(order, size) / 2
    return where(inside, where(central, _chi(df, x), density), 0.0)


def _more(x: Array, df: Array, nc: Array) -> AnyArray:
    return noncentral_chi_density(x, df + 2.0, nc)


PARTIALS.update({
    "chndtr": (noncentral_chi_density, UNKNOWN, _times(-1, _more)),
    "chndtrix": (
        lambda p, df, nc: 1 / noncentral_chi_density(f.chndtrix(p, df, nc), df, nc),
        UNKNOWN,
        lambda p, df, nc: (
            _more(x := f.chndtrix(p, df, nc), df, nc) / noncentral_chi_density(x, df, nc)
        ),
    ),
    "chndtrinc": (
        lambda x, df, p: (
            noncentral_chi_density(x, df, nc := f.chndtrinc(x, df, p)) / _more(x, df, nc)
        ),
        UNKNOWN,
        lambda x, df, p: -1 / _more(x, df, f.chndtrinc(x, df, p)),
    ),
    "gdtr": (
        lambda a, b, x: x * gamma_density(b, a * x),
        lambda a, b, x: by.gamma_a(b, a * x),
        _gdtr_x,
    ),
    "gdtrc": (
        lambda a, b, x: -x * gamma_density(b, a * x),
        lambda a, b, x: -by.gamma_a(b, a * x),
        _times(-1, _gdtr_x),
    ),
    "gdtrix": (
        lambda a, b, p: -f.gdtrix(a, b, p) / a,
        lambda a, b, p: by.gamma_x_a(b, a * f.gdtrix(a, b, p)) / a,
        lambda a, b, p: 1 / (a * gamma_density(b, a * f.gdtrix(a, b, p))),
    ),
    "gdtria": (
        lambda p, b, x: 1 / (x * gamma_density(b, x * f.gdtria(p, b, x))),
        lambda p, b, x: by.gamma_x_a(b, x * f.gdtria(p, b, x)) / x,
        lambda p, b, x: -f.gdtria(p, b, x) / x,
    ),
    "chdtr": (lambda v, x: by.gamma_a(v / 2, x / 2) / 2, _chi),
    "chdtrc": (lambda v, x: -by.gamma_a(v / 2, x / 2) / 2, _times(-1, _chi)),
    "chdtri": (
        lambda v, p: by.gamma_x_a(v / 2, f.chdtri(v, p) / 2),
        lambda v, p: -1 / _chi(v, f.chdtri(v, p)),
    ),
    "pdtr": (ZERO, _times(-1, _poisson)),
    "pdtrc": (ZERO, _poisson),
    "pdtri": (ZERO, lambda k, y: -1 / _poisson(k, f.pdtri(k, y))),
    "bdtr": (ZERO, UNKNOWN, _times(-1, _binomial)),
    "bdtrc": (ZERO, UNKNOWN, _binomial),
    "bdtri": (ZERO, UNKNOWN, lambda k, n, y: -1 / _binomial(k, n, f.bdtri(k, n, y))),
    "nbdtr": (UNKNOWN, UNKNOWN, _negative_binomial),
    "nbdtrc": (UNKNOWN, UNKNOWN, _times(-1, _negative_binomial)),
    "nbdtri": (
        UNKNOWN, UNKNOWN, lambda k, n, y: 1 / _negative_binomial(k, n, f.nbdtri(k, n, y)),
    ),
    "fdtr": (by.fisher_m, by.fisher_n, fisher_density),
    "fdtrc": (_times(-1, by.fisher_m), _times(-1, by.fisher_n), _times(-1, fisher_density)),
    "fdtri": (
        lambda m, n, p: by.fisher_x_m(m, n, f.fdtri(m, n, p)),
        lambda m, n, p: by.fisher_x_n(m, n, f.fdtri(m, n, p)),
        lambda m, n, p: 1 / fisher_density(m, n, f.fdtri(m, n, p)),
    ),
    "stdtr": (by.student_df, student_density),
    "stdtrit": (
        lambda df, p: by.student_t_df(df, f.stdtrit(df, p)),
        lambda df, p: 1 / student_density(df, f.stdtrit(df, p)),
    ),
    "nrdtrimn": (
        lambda p, sd, x: -sd * SQRT_2PI * np.exp(f.ndtri(p) ** 2 / 2),
        lambda p, sd, x: -f.ndtri(p) + 0 * sd,
        lambda p, sd, x: 1 + 0 * x,
    ),
})  # fmt: skip

# --------------------------------------------------------------------------------------------------
# Integrals of elementary functions, and what is inverse to them


def _expn(n: AnyArray, x: Array) -> AnyArray:
    n = np.trunc(n)
    first = n == 0
    exp = -np.exp(-x) / x
    return where(first, exp * (1 + 1 / x), -f.expn(where(first, 1, n) - 1, x))


def _right(z: Array) -> AnyArray:
    """Give `z` or `-z`, whichever has no negative real part: for even functions."""
    return where((z.real if z.dtype.kind == "c" else z) < 0, -z, z)


def _lambertw(z: Array, k: Array, tol: Array) -> AnyArray:
    w = f._lambertw(z, k, tol)
    return np.exp(-w) / (1 + w)


def _spence(z: Array) -> AnyArray:
    near = abs(1 - z) < 0.5
    far = where(near, 3.0, z)
    return where(near, -f.hyp2f1(1.0, 1.0, 2.0, 1 - where(near, z, 1.0)), np.log(far) / (1 - far))


def _wrightomega(z: Array) -> AnyArray:
    w = f.wrightomega(z)
    return w / (1 + w)


PARTIALS.update({
    "xlogy": (lambda x, y: np.log(y) + 0 * x, lambda x, y: x / y),
    "xlog1py": (lambda x, y: np.log1p(y) + 0 * x, lambda x, y: x / (1 + y)),
    "expi": (lambda x: np.exp(x) / x,),
    "exp1": (lambda x: -np.exp(-x) / x,),
    "expn": (UNKNOWN, _expn),
    "exprel": (lambda x: _exprel_1(x),),
    "sici": (lambda z: (f._spherical_jn(0, _right(z)), np.cos(z) / z),),
    "shichi": (lambda z: (f._spherical_in(0, _right(z)), np.cosh(z) / z),),
    "spence": (_spence,),
    "_lambertw": (_lambertw, ZERO, ZERO),
    "wrightomega": (_wrightomega,),
    "wright_bessel": (UNKNOWN, UNKNOWN, lambda a, b, x: f.wright_bessel(a, a + b, x)),
    "log_wright_bessel": (
        UNKNOWN, UNKNOWN,
        lambda a, b, x: np.exp(f.log_wright_bessel(a, a + b, x) - f.log_wright_bessel(a, b, x)),
    ),
})  # fmt: skip

# --------------------------------------------------------------------------------------------------
# Powers, and angles in degrees


def _exprel_1(x: Array) -> AnyArray:
    """Give the derivative of `expm1(x) / x`."""
    # SciPy's hypergeometric function goes on for ever where the argument is infinite.
    far = abs(x) > 30
    y, x = where(far, np.minimum(x, 1e4), 1.0), where(far, 0.0, x)
    return where(far, (np.exp(y) * (1 - 1 / y) + 1 / y) / y, f.hyp1f1(2.0, 3.0, x) / 2)


def _boxcox(log: Array, power: Array) -> AnyArray:
    """Give the derivative of `expm1(power * log) / power` with respect to the power."""
    infinite = _core.isinf(log)
    finite = where(infinite, 0, log)
    inside = finite * finite * _exprel_1(power * finite)
    return where(infinite, where(power > 0, 1 / (power * power), -log * log), inside)


def _inv_boxcox(x: Array, power: Array, value: Array) -> AnyArray:
    """Give that of `exp(log1p(power * x) / power)`, which is the value."""
    # log1p(t) / t is hyp2f1(1, 1, 2, -t), smooth at 0.
    return -value * x * x * f.hyp2f1(2.0, 2.0, 3.0, -power * x) / 2


DEGREE = math.pi / 180

PARTIALS.update({
    "boxcox": (
        lambda x, p: x ** (p - 1),
        lambda x, p: _boxcox(np.log(x), p),
    ),
    "boxcox1p": (
        lambda x, p: (1 + x) ** (p - 1),
        lambda x, p: _boxcox(np.log1p(x), p),
    ),
    "inv_boxcox": (
        lambda x, p: f.inv_boxcox(x, p) / (1 + p * x),
        lambda x, p: _inv_boxcox(x, p, f.inv_boxcox(x, p)),
    ),
    "inv_boxcox1p": (
        lambda x, p: f.inv_boxcox(x, p) / (1 + p * x),
        lambda x, p: _inv_boxcox(x, p, f.inv_boxcox(x, p)),
    ),
    "powm1": (
        lambda x, y: y * x ** (y - 1),
        lambda x, y: f.xlogy(x**y, x),
    ),
    "sindg": (lambda x: f.cosdg(x) * DEGREE,),
    "cosdg": (lambda x: -f.sindg(x) * DEGREE,),
    "tandg": (lambda x: (1 + f.tandg(x) ** 2) * DEGREE,),
    "cotdg": (lambda x: -(1 + f.cotdg(x) ** 2) * DEGREE,),
    "radian": tuple(
        lambda *x, i=i, unit=unit: unit * DEGREE + 0 * x[i]
        for i, unit in enumerate((1.0, 1 / 60, 1 / 3600))
    ),
})  # fmt: skip
