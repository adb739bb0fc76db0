"""Partials of Bessel functions, orthogonal polynomials and others (continues `special.partials`).

Hypergeometric and elliptic functions are at the end.
"""

import math
from collections.abc import Callable

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.special.parameter_derivatives import in_double
from cotan._src.special.ufuncs import (
    PARTIALS,
    UNKNOWN,
    Derivative,
    Functions,
    Partial,
    Slopes,
    real_only,
)
from cotan._src.typing import AnyArray

f = Functions()
where = _core.where
SQRT_PI = math.sqrt(math.pi)


# --------------------------------------------------------------------------------------------------
# Bessel functions


def _cylinder(name: str, below: float, above: float, own: complex = 0) -> Derivative:
    """Give the derivative as a sum of the orders next to it, and the function itself."""

    def partial(v: Array, z: Array) -> AnyArray:
        g: Derivative = getattr(f, name)
        slope = below * g(v - 1, z) + above * g(v + 1, z)
        return slope + own * g(v, z) if own else slope

    return partial


def _of_whole_orders(partial: Derivative) -> Derivative:
    """Cut orders off as the ufunc does, which goes on with an integer."""
    return lambda n, x: partial(np.trunc(n), x)


def _scaled(name: str, above: float, decay: float) -> Derivative:
    """Give the same for one that is scaled by the size of a real argument."""

    def partial(v: Array, z: Array) -> AnyArray:
        real_only(name, z)
        g: Derivative = getattr(f, name)
        if not decay:
            return 0.5 * g(v - 1, z) + above * g(v + 1, z)
        far, series = _far_scaled(v, z, -1.0)
        z = where(far, 0.0, z)
        slope = 0.5 * g(v - 1, z) + above * g(v + 1, z) - decay * np.sign(z) * g(v, z)
        return where(far, series / (math.sqrt(2) * SQRT_PI), slope)

    return in_double(partial) if decay else partial


def _far_scaled(v: Array | float, z: Array, sign: float) -> tuple[AnyArray, AnyArray]:
    """Give the slopes of scaled functions where their terms cancel, by powers of `1 / z`.

    Those of `kve` (`sign` is 1) and `ive` (-1), but for a factor; and where these are exact.
    """
    far = z > 1000 * np.maximum(v * v, 1.0)
    x, v = where(far, z, 1e6), where(far, v, 0.0)
    below: Array | float = 1.0
    own: Array | float = 1.0
    above: Array | float = 1.0
    total: Array | float = 0.0
    for k in range(1, 7):
        below, own, above = (
            t * sign * (4 * w * w - (2 * k - 1) ** 2) / (8 * k * x)
            for t, w in ((below, v - 1), (own, v), (above, v + 1))
        )
        total = total - sign * ((below + above) / 2 - own)
    return far, total / np.sqrt(x)


def _kve(v: Array | float, z: Array) -> AnyArray:
    if z.dtype.kind == "c":
        return f.kve(v, z) - (f.kve(v - 1, z) + f.kve(v + 1, z)) / 2
    far, series = _far_scaled(v, z, 1.0)
    z = where(far, 1.0, z)
    slope = f.kve(v, z) - (f.kve(v - 1, z) + f.kve(v + 1, z)) / 2
    return where(far, math.sqrt(0.5) * SQRT_PI * series, slope)


def _spherical(name: str, below: float, above: float) -> Derivative:
    def partial(n: Array, z: Array) -> AnyArray:
        g: Derivative = getattr(f, name)
        lower = g(np.maximum(n - 1, 0), z)
        return (below * n * lower + above * (n + 1) * g(n + 1, z)) / (2 * n + 1)

    return partial


def _struve(name: str, above: float) -> Derivative:
    def partial(v: Array, x: Array) -> AnyArray:
        g: Derivative = getattr(f, name)
        power = (x / 2) ** v / (2 * SQRT_PI) * f.rgamma(v + 1.5)
        return (g(v - 1, x) + above * g(v + 1, x)) / 2 + power

    return partial


def _airy(z: Array) -> Slopes:
    ai, aip, bi, bip = f.airy(z)
    return aip, z * ai, bip, z * bi


def _itairy(x: Array) -> Slopes:
    ai, _, bi, _ = f.airy(x)
    ai_left, _, bi_left, _ = f.airy(-x)
    return ai, bi, ai_left, bi_left


def _kelvin(x: Array) -> Slopes:
    be, ke, bep, kep = f.kelvin(x)
    return bep, kep, 1j * be - bep / x, 1j * ke - kep / x


def _parabolic(name: str) -> Partial:
    def partial(v: Array, x: Array) -> Slopes:
        y, slope = getattr(f, name)(v, x)
        return slope, (x * x / 4 - v - 0.5) * y

    return partial


def _pbwa(a: Array, x: Array) -> Slopes:
    y, slope = f.pbwa(a, x)
    return slope, (a - x * x / 4) * y


def _over(function: Callable[[Array], AnyArray], x: Array, limit: float) -> AnyArray:
    """Divide a function by its argument, where that is 0 by a limit."""
    zero = x == 0
    x = where(zero, 1, x)
    return where(zero, limit, function(x) / x)


def _with_pole(name: str, partial: Derivative) -> Derivative:
    """Let the derivative at 0 have the sign of that next to it, where the function is infinite."""

    def whole(*args: Array) -> AnyArray:
        x = args[-1]
        if x.dtype.kind == "c":
            return partial(*args)
        zero = x == 0
        slope = partial(*args[:-1], where(zero, 1.0, x))
        return where(zero, -getattr(f, name)(*args), slope)

    return whole


@in_double
def _i0e(x: Array) -> AnyArray:
    far, series = _far_scaled(0.0, abs(x), -1.0)
    series = np.sign(x) * series / (math.sqrt(2) * SQRT_PI)
    x = where(far, 0.0, x)
    return where(far, series, f.i1e(x) - np.sign(x) * f.i0e(x))


@in_double
def _i1e(x: Array) -> AnyArray:
    far, series = _far_scaled(1.0, abs(x), -1.0)
    x = where(far, 0.0, x)
    slope = (f.i0e(x) + f.ive(2.0, x)) / 2 - np.sign(x) * f.i1e(x)
    return where(far, series / (math.sqrt(2) * SQRT_PI), slope)


for _name in ("jv", "hankel1", "hankel2"):
    PARTIALS[_name] = (UNKNOWN, _cylinder(_name, 0.5, -0.5))
for _name in ("jn", "yn", "in", "kn"):
    _lower, _upper = {"in": (1, 1), "kn": (-1, -1)}.get(_name, (1, -1))
    for _kind in (f"_spherical_{_name}", f"_spherical_{_name}_d"):
        PARTIALS[_kind] = (UNKNOWN, _spherical(_kind, _lower, _upper))

PARTIALS.update({
    "yv": (UNKNOWN, _with_pole("yv", _cylinder("yv", 0.5, -0.5))),
    "yn": (UNKNOWN, _with_pole("yn", _of_whole_orders(_cylinder("yv", 0.5, -0.5)))),
    "iv": (UNKNOWN, _cylinder("iv", 0.5, 0.5)),
    "kv": (UNKNOWN, _cylinder("kv", -0.5, -0.5)),
    "kn": (UNKNOWN, _of_whole_orders(_cylinder("kv", -0.5, -0.5))),
    "kve": (UNKNOWN, in_double(_with_pole("kve", _kve))),
    "hankel1e": (UNKNOWN, _cylinder("hankel1e", 0.5, -0.5, -1j)),
    "hankel2e": (UNKNOWN, _cylinder("hankel2e", 0.5, -0.5, 1j)),
    "jve": (UNKNOWN, _scaled("jve", -0.5, 0)),
    "yve": (UNKNOWN, _scaled("yve", -0.5, 0)),
    "ive": (UNKNOWN, _scaled("ive", 0.5, 1)),
    "j0": (lambda x: -f.j1(x),),
    "j1": (lambda x: (f.j0(x) - f.jv(2.0, x)) / 2,),
    "y0": (lambda x: -f.y1(x),),
    "y1": (_with_pole("y1", lambda x: (f.y0(x) - f.yv(2.0, x)) / 2),),
    "i0": (lambda x: f.i1(x),),
    "i1": (lambda x: (f.i0(x) + f.iv(2.0, x)) / 2,),
    "i0e": (_i0e,),
    "i1e": (_i1e,),
    "k0": (lambda x: -f.k1(x),),
    "k1": (lambda x: -(f.k0(x) + f.kv(2.0, x)) / 2,),
    "k0e": (in_double(_with_pole("k0e", lambda x: _kve(0.0, x))),),
    "k1e": (in_double(_with_pole("k1e", lambda x: _kve(1.0, x))),),
    "struve": (UNKNOWN, _struve("struve", -1)),
    "modstruve": (UNKNOWN, _struve("modstruve", 1)),
    "airy": (_airy,),
    "itairy": (_itairy,),
    "kelvin": (_kelvin,),
    "ber": (lambda x: f.berp(x),),
    "bei": (lambda x: f.beip(x),),
    "ker": (lambda x: f.kerp(x),),
    "kei": (lambda x: f.keip(x),),
    "berp": (lambda x: -f.bei(x) - _over(f.berp, x, 0.0),),
    "beip": (lambda x: f.ber(x) - _over(f.beip, x, 0.5),),
    "kerp": (lambda x: -f.kei(x) - f.kerp(x) / x,),
    "keip": (lambda x: f.ker(x) - f.keip(x) / x,),
    "itj0y0": (lambda x: (f.j0(x), f.y0(x)),),
    "iti0k0": (lambda x: (f.i0(x), f.k0(x)),),
    "it2j0y0": (lambda x: (_over(lambda x: 1 - f.j0(x), x, 0.0), -f.y0(x) / x),),
    "it2i0k0": (lambda x: (_over(lambda x: f.i0(x) - 1, x, 0.0), -f.k0(x) / x),),
    "itstruve0": (lambda x: f.struve(0.0, x),),
    "it2struve0": (lambda x: -_over(lambda x: f.struve(0.0, x), x, 2 / math.pi),),
    "itmodstruve0": (lambda x: f.modstruve(0.0, x),),
    "pbdv": (UNKNOWN, _parabolic("pbdv")),
    "pbvv": (UNKNOWN, _parabolic("pbvv")),
    "pbwa": (UNKNOWN, _pbwa),
})  # fmt: skip

# --------------------------------------------------------------------------------------------------
# Orthogonal polynomials


def _below(n: Array, slope: Callable[[Array], AnyArray]) -> AnyArray:
    """Give a derivative in terms of the degree below; there is none below 0."""
    zero = n == 0
    return where(zero, 0.0, slope(where(zero, 1, n) - 1))


def _legendre(slope: Callable[[Array, Array], AnyArray]) -> Derivative:
    """Give a derivative of polynomials that are the same for the degrees `n` and `-n - 1`."""
    return lambda n, x: _below(where(n < 0, -n - 1, n), lambda k: slope(k, x))


def _second_kind_of_chebyshev(slope: Callable[[Array, Array], AnyArray]) -> Derivative:
    """Give one of those that are the negative of each other for `n` and `-n - 2`."""

    def partial(n: Array, x: Array) -> AnyArray:
        left = n < -1
        degree = where(left, -n - 2, where(n == -1, 0, n))
        return where(left, -1.0, 1.0) * _below(degree, lambda k: slope(k, x))

    return partial


def _lpmv(m: Array, v: Array, x: Array) -> AnyArray:
    end = abs(x) == 1
    y = where(end, 0.5, x)
    inside = (v * y * f.lpmv(m, v, y) - (v + m) * f.lpmv(m, v - 1, y)) / (y * y - 1)
    return where(end, _lpmv_at_ends(m, v, x), inside)


def _lpmv_at_ends(m: Array, v: Array, x: Array) -> AnyArray:
    """Give the derivative at 1 and -1, where only those of low orders do not vanish."""
    sign = where((x > 0) | (v % 2 == 1), 1.0, -1.0)
    slope = where(m == 0, v * (v + 1) / 2, 0.0)
    # As (1 - x**2) to the power of m / 2 begins.
    slope = where(m == 2, -(v - 1) * v * (v + 1) * (v + 2) / 4, slope)
    slope = where((m == -2) & (v >= 2), -0.25, slope)
    return sign * where((abs(m) == 1) & (v >= 1), math.inf * m * where(x > 0, 1, -1), slope)


def _sh_jacobi(n: Array, p: Array, q: Array, x: Array) -> AnyArray:
    def slope(k: Array) -> AnyArray:
        return (n + p) * f.eval_jacobi(k, p - q + 1, q, 2 * x - 1) / f.binom(2 * n + p - 1, n)

    return _below(n, slope)


PARTIALS.update({
    "eval_legendre": (UNKNOWN, _legendre(lambda k, x: f.eval_gegenbauer(k, 1.5, x))),
    "eval_chebyt": (UNKNOWN, lambda n, x: _below(n, lambda k: n * f.eval_chebyu(k, x))),
    "eval_chebyu": (
        UNKNOWN, _second_kind_of_chebyshev(lambda k, x: 2 * f.eval_gegenbauer(k, 2.0, x)),
    ),
    "eval_chebyc": (UNKNOWN, lambda n, x: _below(n, lambda k: n * f.eval_chebyu(k, x / 2))),
    "eval_chebys": (
        UNKNOWN, _second_kind_of_chebyshev(lambda k, x: f.eval_gegenbauer(k, 2.0, x / 2)),
    ),
    "eval_sh_legendre": (
        UNKNOWN, _legendre(lambda k, x: 2 * f.eval_gegenbauer(k, 1.5, 2 * x - 1)),
    ),
    "eval_sh_chebyt": (
        UNKNOWN, lambda n, x: _below(n, lambda k: 2 * n * f.eval_chebyu(k, 2 * x - 1)),
    ),
    "eval_sh_chebyu": (
        UNKNOWN,
        _second_kind_of_chebyshev(lambda k, x: 4 * f.eval_gegenbauer(k, 2.0, 2 * x - 1)),
    ),
    "eval_hermite": (UNKNOWN, lambda n, x: _below(n, lambda k: 2 * n * f.eval_hermite(k, x))),
    "eval_hermitenorm": (
        UNKNOWN, lambda n, x: _below(n, lambda k: n * f.eval_hermitenorm(k, x)),
    ),
    "eval_laguerre": (
        UNKNOWN, lambda n, x: _below(n, lambda k: -f.eval_genlaguerre(k, 1.0, x)),
    ),
    "eval_genlaguerre": (
        UNKNOWN, UNKNOWN, lambda n, a, x: _below(n, lambda k: -f.eval_genlaguerre(k, a + 1, x)),
    ),
    "eval_gegenbauer": (
        UNKNOWN,
        UNKNOWN,
        lambda n, a, x: _below(n, lambda k: 2 * a * f.eval_gegenbauer(k, a + 1, x)),
    ),
    "eval_jacobi": (
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
        lambda n, a, b, x: _below(
            n, lambda k: (n + a + b + 1) / 2 * f.eval_jacobi(k, a + 1, b + 1, x)
        ),
    ),
    "eval_sh_jacobi": (UNKNOWN, UNKNOWN, UNKNOWN, _sh_jacobi),
    "lpmv": (UNKNOWN, UNKNOWN, _lpmv),
})  # fmt: skip

# --------------------------------------------------------------------------------------------------
# Hypergeometric and elliptic functions


def _ellipk(m: Array) -> AnyArray:
    near = m > -2
    far = where(near, -3.0, m)
    return where(
        near,
        math.pi / 8 * f.hyp2f1(1.5, 1.5, 2.0, where(near, m, 0.0)),
        (f.ellipe(far) / (1 - far) - f.ellipk(far)) / (2 * far),
    )


def _ellipe(m: Array) -> AnyArray:
    return -math.pi / 8 * f.hyp2f1(0.5, 1.5, 2.0, m)


def _ellipkm1(p: Array) -> AnyArray:
    near = p < 0.5
    q = where(near, p, 0.25)
    return where(
        near,
        (f.ellipkm1(q) - f.ellipe(1 - q) / q) / (2 * (1 - q)),
        -_ellipk(1 - where(near, 0.75, p)),
    )


def _reduced(phi: Array) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Give the nearest multiple of pi, and sine and cosine of what is left."""
    turns = np.round(_core.dropgrad(phi) / math.pi)
    rest = phi - turns * math.pi
    return turns, np.sin(rest), np.cos(rest)


def _first_kind(phi: Array, m: Array) -> AnyArray:
    """Give the derivative of `ellipkinc` with respect to `m`."""
    turns, s, c = _reduced(phi)
    whole = where(turns == 0, 0.0, 2 * turns * _ellipk(where(turns == 0, 0.0, m)))
    return whole + s**3 / 6 * f.elliprd(c * c, 1 + 0 * s, 1 - m * s * s)


def _second_kind(phi: Array, m: Array) -> AnyArray:
    turns, s, c = _reduced(phi)
    whole = where(turns == 0, 0.0, 2 * turns * _ellipe(where(turns == 0, 0.0, m)))
    return whole - s**3 / 6 * f.elliprd(c * c, 1 - m * s * s, 1 + 0 * s)


def _delta(phi: Array, m: Array) -> AnyArray:
    return np.sqrt(1 - m * np.sin(phi) ** 2)


def _ellipj_u(u: Array, m: Array) -> Slopes:
    sn, cn, dn, _ = f.ellipj(u, m)
    return cn * dn, -sn * dn, -m * sn * cn, dn


def _ellipj_m(u: Array, m: Array) -> Slopes:
    sn, cn, dn, phi = f.ellipj(u, m)
    # From u = ellipkinc(phi, m)
    slope = -dn * _first_kind(phi, m)
    return cn * slope, -sn * slope, -(sn * sn / 2 + m * sn * cn * slope) / dn, slope


# What stands before the squares of `(z - x) / (z + x)` in the series of `_rd_x`.
_RD_SERIES = [math.prod((1.5 + i) / (1 + i) for i in range(k)) for k in range(7)]


def _rd_x(x: Array, y: Array, z: Array) -> AnyArray:
    near = abs(z - x) < 0.1 * abs(z + x)
    # The integral of (t + x) ** -1.5 * (t + z) ** -1.5 / (t + y) ** 0.5, by powers of z - x.
    m, d = where(near, (x + z) / 2, 1), where(near, (z - x) / 2, 0)
    w, square = 1 - where(near, y, 1) / m, (d / m) ** 2
    series: Array | float = 0.0
    for k in range(len(_RD_SERIES) - 1, -1, -1):
        n = 2 * k + 2.5
        series = series * square + _RD_SERIES[k] / n * f.hyp2f1(0.5, n, n + 1, w)
    a, b, c = where(near, 1, x), where(near, 1, y), where(near, 2, z)
    apart = (f.elliprd(a, b, c) - f.elliprd(b, c, a)) / (2 * (c - a))
    return where(near, -0.75 * series * m**-2.5, apart)


def _rd_z(x: Array, y: Array, z: Array) -> AnyArray:
    rest = sum(
        where(a == 0, 0.0, a * _rd_x(where(a == 0, 1, a), b, z)) for a, b in ((x, y), (y, x))
    )
    return -(1.5 * f.elliprd(x, y, z) + rest) / z


def _rg(x: Array, y: Array, z: Array) -> AnyArray:
    zero = x == 0
    rest = where(zero, 0.0, x * f.elliprd(y, z, where(zero, 1, x)))
    alone = (y == 0) & (z == 0)
    y = where(alone, 1, y)
    return where(alone, 0.25 / np.sqrt(x), (3 * f.elliprf(x, y, z) - rest) / 12)


# What stands before the powers of `x / y - 1` in the series of `sqrt(y) * elliprc(x, y)`.
_RC_SERIES = [math.comb(2 * k, k) / (-4) ** k / (2 * k + 1) for k in range(14)]


def _rc_x(x: Array, y: Array) -> AnyArray:
    near = abs(x - y) < 0.05 * abs(y)
    s = where(near, x, 1) / where(near, y, 1) - 1
    series: Array | float = 0.0
    for k in range(len(_RC_SERIES) - 1, 0, -1):
        series = series * s + k * _RC_SERIES[k]
    a, b = where(near, 1, x), where(near, 2, y)
    apart = (f.elliprc(a, b) - 1 / np.sqrt(a)) / (2 * (b - a))
    return where(near, series * where(near, y, 1) ** -1.5, apart)


def _rc_y(x: Array, y: Array) -> AnyArray:
    zero = x == 0
    rest = where(zero, 0.0, x * _rc_x(where(zero, 1, x), y))
    return -(f.elliprc(x, y) / 2 + rest) / y


def _agm(a: Array, b: Array) -> AnyArray:
    whole = a + b
    p = 4 * a * b / whole**2
    k = f.ellipkm1(p)
    slope = 1 / k - 4 * b * (b - a) * _ellipkm1(p) / (whole * k) ** 2
    return where(a == 0, math.inf, where(b == 0, 0.0, math.pi / 4 * slope))


PARTIALS.update({
    "hyp0f1": (UNKNOWN, lambda b, z: f.hyp0f1(b + 1, z) / b),
    "hyp1f1": (UNKNOWN, UNKNOWN, lambda a, b, z: a / b * f.hyp1f1(a + 1, b + 1, z)),
    "hyp2f1": (
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
        lambda a, b, c, z: a * b / c * f.hyp2f1(a + 1, b + 1, c + 1, z),
    ),
    "hyperu": (UNKNOWN, UNKNOWN, lambda a, b, x: -a * f.hyperu(a + 1, b + 1, x)),
    "ellipk": (_ellipk,),
    "ellipkm1": (_ellipkm1,),
    "ellipe": (_ellipe,),
    "ellipkinc": (lambda phi, m: 1 / _delta(phi, m), _first_kind),
    "ellipeinc": (_delta, _second_kind),
    "ellipj": (_ellipj_u, _ellipj_m),
    "elliprf": (
        lambda x, y, z: -f.elliprd(y, z, x) / 6,
        lambda x, y, z: -f.elliprd(x, z, y) / 6,
        lambda x, y, z: -f.elliprd(x, y, z) / 6,
    ),
    "elliprc": (_rc_x, _rc_y),
    "elliprg": (_rg, lambda x, y, z: _rg(y, x, z), lambda x, y, z: _rg(z, x, y)),
    "elliprd": (_rd_x, lambda x, y, z: _rd_x(y, x, z), _rd_z),
    "agm": (_agm, lambda a, b: _agm(b, a)),
})  # fmt: skip
