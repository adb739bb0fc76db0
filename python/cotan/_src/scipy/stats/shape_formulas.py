"""Formulas of distributions that hold where SciPy branches at special shape parameters.

At `c == 0` SciPy computes `genextreme` as a Gumbel distribution: the value is right, and does not
depend on `c` any more. The formulas here go through such values smoothly. Where there is none, the
derivative with respect to the parameter is refused there (`BRANCHES`).

The formulas are those of `scipy.stats`, with `log1p(c * x) / c` and `expm1(c * x) / c` written as
`x` times a function that is analytic at 0: `log1p(u) / u` is the hypergeometric function
`2F1(1, 1; 2; -u)` (DLMF 15.4.1), `expm1(u) / u` is `scipy.special.exprel`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cotan import _core
from cotan._src.rebind.engine import locate
from cotan._src.typing import AnyArray, Function, NDArray


def _log1p_by(c: AnyArray, x: AnyArray) -> AnyArray:
    """Give `log1p(c * x) / c`, which is `x` at `c == 0`."""
    u = c * x
    is_small = np.abs(u) < 0.5
    small: AnyArray = locate("scipy.special.hyp2f1")(1.0, 1.0, 2.0, -_core.where(is_small, u, 0.0))
    large = _core.where(is_small, 1.0, u)
    return x * _core.where(is_small, small, np.log1p(large) / large)


def _expm1_by(c: AnyArray, x: AnyArray) -> AnyArray:
    """Give `expm1(c * x) / c`, which is `x` at `c == 0`."""
    ratio: AnyArray = locate("scipy.special.exprel")(c * x)
    return x * ratio


def exp_of(name: str) -> Function:
    """Make a method that is the exponential of another one."""

    def method(self: object, x: AnyArray, *shapes: AnyArray) -> AnyArray:
        logarithm: AnyArray = getattr(self, name)(x, *shapes)
        return np.exp(logarithm)

    return method


def _complement_of(name: str) -> Function:
    """Make a method that is 1 minus the exponential of another one."""

    def method(self: object, x: AnyArray, *shapes: AnyArray) -> AnyArray:
        logarithm: AnyArray = getattr(self, name)(x, *shapes)
        return -np.expm1(logarithm)

    return method


def _skewnorm_logpdf(self: object, x: AnyArray, a: AnyArray) -> AnyArray:
    del self
    log_ndtr: AnyArray = locate("scipy.special.log_ndtr")(a * x)
    return 0.5 * math.log(2 / math.pi) - x * x / 2 + log_ndtr


def _genpareto_logpdf(self: object, x: AnyArray, c: AnyArray) -> AnyArray:
    del self
    return -(c + 1) * _log1p_by(c, x)


def _genpareto_logsf(self: object, x: AnyArray, c: AnyArray) -> AnyArray:
    del self
    return -_log1p_by(c, x)


def _genextreme_logpdf(self: object, x: AnyArray, c: AnyArray) -> AnyArray:
    del self
    t = _log1p_by(-c, x)
    return -np.exp(-t) - (1 - c) * t


def _genextreme_logcdf(self: object, x: AnyArray, c: AnyArray) -> AnyArray:
    del self
    return -np.exp(-_log1p_by(-c, x))


def _genextreme_ppf(self: object, q: AnyArray, c: AnyArray) -> AnyArray:
    del self
    return _expm1_by(-c, -np.log(-np.log(q)))


def _genextreme_isf(self: object, q: AnyArray, c: AnyArray) -> AnyArray:
    del self
    return _expm1_by(-c, -np.log(-np.log1p(-q)))


def _kappa4_parts(x: AnyArray, h: AnyArray, k: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Give `log((1 - k x)**(1/k))` and the logarithm of the distribution function."""
    w = -_log1p_by(-k, x)
    return w, -_log1p_by(-h, np.exp(w))


def _kappa4_logpdf(self: object, x: AnyArray, h: AnyArray, k: AnyArray) -> AnyArray:
    del self
    w, logcdf = _kappa4_parts(x, h, k)
    return (1 - k) * w + (1 - h) * logcdf


def _kappa4_logcdf(self: object, x: AnyArray, h: AnyArray, k: AnyArray) -> AnyArray:
    del self
    return _kappa4_parts(x, h, k)[1]


def _kappa4_ppf(self: object, q: AnyArray, h: AnyArray, k: AnyArray) -> AnyArray:
    del self
    y = -_expm1_by(h, np.log(q))
    return -_expm1_by(k, np.log(y))


def _truncpareto_logs(x: AnyArray, b: AnyArray, c: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Give the logarithms of `|1 - x**-b|` and `|1 - c**-b|`."""
    first, all_of_it = (np.log(np.abs(np.expm1(-b * np.log(end)))) for end in (x, c))
    return first, all_of_it


def _truncpareto_logpdf(self: object, x: AnyArray, b: AnyArray, c: AnyArray) -> AnyArray:
    del self
    return np.log(np.abs(b)) - _truncpareto_logs(x, b, c)[1] - (b + 1) * np.log(x)


def _truncpareto_logcdf(self: object, x: AnyArray, b: AnyArray, c: AnyArray) -> AnyArray:
    del self
    below, all_of_it = _truncpareto_logs(x, b, c)
    return below - all_of_it


def _truncpareto_logsf(self: object, x: AnyArray, b: AnyArray, c: AnyArray) -> AnyArray:
    del self
    # x**-b - c**-b, without x**-b taken out.
    above = np.log(np.abs(np.expm1(b * (np.log(x) - np.log(c)))))
    return -b * np.log(x) + above - _truncpareto_logs(x, b, c)[1]


def _kappa3_sf(self: object, x: AnyArray, a: AnyArray) -> AnyArray:
    del self
    # The first would overflow for small x, the second cancel for large ones.
    is_large = x > 1
    large, small = _core.where(is_large, x, 2.0), _core.where(is_large, 1.0, x)
    above: AnyArray = -np.expm1(-np.log1p(a * large**-a) / a)
    below: AnyArray = 1 - small * (a + small**a) ** (-1 / a)
    share: AnyArray = _core.where(is_large, above, below)
    return share


def _vonmises_logpdf(self: object, x: AnyArray, kappa: AnyArray) -> AnyArray:
    del self
    # exp(-|kappa|) I0(kappa) has a kink at 0, which |kappa| takes away again.
    scaled: AnyArray = locate("scipy.special.i0e")(kappa)
    cosm1: AnyArray = locate("scipy.special.cosm1")(x)
    return kappa * cosm1 + (kappa - np.abs(kappa)) - np.log(2 * math.pi * scaled)


def _vonmises_entropy(self: object, kappa: AnyArray) -> AnyArray:
    del self
    i0e, i1e = locate("scipy.special.i0e"), locate("scipy.special.i1e")
    scaled: AnyArray = i0e(kappa)
    mean: AnyArray = i1e(kappa) / scaled
    return -kappa * mean + np.log(2 * math.pi * scaled) + np.abs(kappa)


def _rice_logpdf(self: object, x: AnyArray, b: AnyArray) -> AnyArray:
    del self
    scaled: AnyArray = locate("scipy.special.i0e")(x * b)
    return np.log(x) - (x * x + b * b) / 2 + np.abs(x * b) + np.log(scaled)


def _gennorm_ppf(self: object, q: AnyArray, beta: AnyArray) -> AnyArray:
    del self
    special = "scipy.special."
    is_middle = q == 0.5
    sign = _core.dropgrad(np.sign(q - 0.5))
    tail = _core.where(is_middle, 0.5, (1 + sign) - 2 * sign * q)
    inverse: AnyArray = locate(special + "gammainccinv")(1 / beta, tail)
    gamma: AnyArray = locate(special + "gamma")(1 + 1 / beta)
    # In the middle the density is beta / (2 gamma(1 / beta)).
    return _core.where(is_middle, (q - 0.5) * 2 * gamma, sign * inverse ** (1 / beta))


def _gennorm_isf(self: object, q: AnyArray, beta: AnyArray) -> AnyArray:
    return -_gennorm_ppf(self, q, beta)


def _log_kv(order: AnyArray, x: AnyArray) -> AnyArray:
    scaled: AnyArray = locate("scipy.special.kve")(order, x)
    return np.log(scaled) - x


def _geninvgauss_logpdf(self: object, x: AnyArray, p: AnyArray, b: AnyArray) -> AnyArray:
    del self
    return (p - 1) * np.log(x) - b * (x + 1 / x) / 2 - math.log(2) - _log_kv(p, b)


def _genhyperbolic_logpdf(
    self: object, x: AnyArray, p: AnyArray, a: AnyArray, b: AnyArray
) -> AnyArray:
    del self
    width, length = np.sqrt((a - b) * (a + b)), np.hypot(1.0, x)
    constant = p * np.log(width) - 0.5 * math.log(2 * math.pi) - _log_kv(p, width)
    rest = (p - 0.5) * (np.log(length) - np.log(a)) + b * x
    return constant + rest + _log_kv(p - 0.5, a * length)


# Methods by the name of the class.
FORMULAS: dict[str, dict[str, Function]] = {
    "skewnorm_gen": {"_logpdf": _skewnorm_logpdf, "_pdf": exp_of("_logpdf")},
    "genpareto_gen": {
        "_logpdf": _genpareto_logpdf,
        "_pdf": exp_of("_logpdf"),
        "_logsf": _genpareto_logsf,
    },
    "genextreme_gen": {
        "_logpdf": _genextreme_logpdf,
        "_pdf": exp_of("_logpdf"),
        "_logcdf": _genextreme_logcdf,
        "_cdf": exp_of("_logcdf"),
        "_sf": _complement_of("_logcdf"),
        "_ppf": _genextreme_ppf,
        "_isf": _genextreme_isf,
    },
    "kappa4_gen": {
        "_logpdf": _kappa4_logpdf,
        "_pdf": exp_of("_logpdf"),
        "_logcdf": _kappa4_logcdf,
        "_cdf": exp_of("_logcdf"),
        "_sf": _complement_of("_logcdf"),
        "_ppf": _kappa4_ppf,
    },
    "truncpareto_gen": {
        "_logpdf": _truncpareto_logpdf,
        "_logcdf": _truncpareto_logcdf,
        "_logsf": _truncpareto_logsf,
    },
    "geninvgauss_gen": {"_logpdf": _geninvgauss_logpdf, "_pdf": exp_of("_logpdf")},
    "genhyperbolic_gen": {"_logpdf": _genhyperbolic_logpdf, "_pdf": exp_of("_logpdf")},
    "kappa3_gen": {"_sf": _kappa3_sf},
    "vonmises_gen": {
        "_logpdf": _vonmises_logpdf,
        "_pdf": exp_of("_logpdf"),
        "_entropy": _vonmises_entropy,
    },
    "rice_gen": {"_logpdf": _rice_logpdf, "_pdf": exp_of("_logpdf")},
    "gennorm_gen": {"_ppf": _gennorm_ppf, "_isf": _gennorm_isf},
}


class Branch(NamedTuple):
    """Where there is no derivative with respect to a shape parameter."""

    parameter: str
    methods: frozenset[str]
    holds: Callable[[NDArray], NDArray]
    where: str


_POINTS = frozenset(["pdf", "logpdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"])

BRANCHES: dict[str, list[Branch]] = {
    "ncx2_gen": [Branch("nc", _POINTS, lambda nc: nc == 0, "nc = 0")],
    # The quantities that are compared grow like 1 / skew**2, and cancel.
    "pearson3_gen": [
        Branch("skew", _POINTS - {"pdf", "logpdf"}, lambda s: np.abs(s) < 0.02, "|skew| < 0.02"),
        Branch("skew", _POINTS, lambda s: np.abs(s) < 1e-4, "|skew| < 0.0001"),
    ],
    "triang_gen": [Branch("c", _POINTS, lambda c: (c == 0) | (c == 1), "c is 0 or 1")],
    # The derivative of the integrand is singular at both ends.
    "tukeylambda_gen": [
        Branch("lam", frozenset(["entropy"]), lambda lam: lam < 2, "lam < 2"),
    ],
    "genextreme_gen": [
        Branch("c", frozenset(["stats"]), lambda c: np.abs(c) < 1e-4, "|c| < 0.0001")
    ],
}
