"""Formulas of discrete distributions whose code is compiled, or has no derivative at the ends.

A probability of 0 or 1 is an end where the logarithms of SciPy's formulas are infinite, and the
mass has a finite derivative: `p**k * (1 - p)**(n - k)` is a polynomial. Distribution functions are
incomplete beta functions, or sums.
"""

from typing import Any

import numpy as np

from cotan import _core
from cotan._src.rebind.engine import locate
from cotan._src.runtime.values import to_numpy
from cotan._src.scipy.stats.conditions import may_hold
from cotan._src.scipy.stats.shape_formulas import exp_of
from cotan._src.special import parameter_derivatives as by
from cotan._src.special.ufuncs import PARTIALS, ZERO, Functions
from cotan._src.typing import AnyArray, Function

f = Functions()

# Closer to an end than this, a power of a probability is that at the end.
_END = 1e-290
# The largest logarithm of a coefficient that counts at an end, where most powers are 0.
_LARGEST = 700.0


def _powers(
    log_count: AnyArray, n: AnyArray, p: AnyArray, m: AnyArray, is_rule: bool = False
) -> AnyArray:
    """Give `exp(log_count) * p**n * (1 - p)**m`, with derivatives at the ends, too.

    In a rule that is traced nobody knows whether there are any.
    """
    xlogy, xlog1py = locate("scipy.special.xlogy"), locate("scipy.special.xlog1py")
    end = _core.dropgrad((p < _END) | (p == 1))
    if not is_rule and not may_hold(end):
        logarithm: AnyArray = log_count + xlogy(n, p) + xlog1py(m, -p)
        return np.exp(logarithm)
    inner, outer = _core.where(end, 0.5, p), _core.where(end, p, 0.5)
    inside = np.exp(log_count + xlogy(n, inner) + xlog1py(m, -inner))
    count = np.exp(np.minimum(log_count, _LARGEST))
    return _core.where(end, count * outer**n * (1 - outer) ** m, inside)


def _binom_pmf(self: object, k: AnyArray, n: AnyArray, p: AnyArray) -> AnyArray:
    del self
    k = np.floor(k)
    betaln = locate("scipy.special.betaln")
    return _powers(-betaln(n - k + 1, k + 1) - np.log1p(n), k, p, n - k)


def _nbinom_pmf(self: object, k: AnyArray, n: AnyArray, p: AnyArray) -> AnyArray:
    del self
    k = np.floor(k)
    betaln = locate("scipy.special.betaln")
    return _powers(-betaln(n, k + 1) - np.log(n + k), n, p, k)


def _poisson_pmf(self: Any, k: AnyArray, mu: AnyArray) -> AnyArray:
    gammaln, end = locate("scipy.special.gammaln"), _core.dropgrad(mu < _END)
    if not may_hold(end):
        logarithm: AnyArray = self._logpmf(k, mu)
        return np.exp(logarithm)
    inner, outer = _core.where(end, 1.0, mu), _core.where(end, mu, 1.0)
    at_end = outer**k * np.exp(-outer - gammaln(k + 1))
    return _core.where(end, at_end, np.exp(self._logpmf(k, inner)))


def _geom_cdf(self: object, k: AnyArray, p: AnyArray) -> AnyArray:
    del self
    k, end = np.floor(k), _core.dropgrad(p == 1)
    inner = _core.where(end, 0.5, p)
    inside = -np.expm1(np.log1p(-inner) * k)
    return _core.where(end, 1 - (1 - _core.where(end, p, 0.5)) ** k, inside)


def _geom_sf(self: object, k: AnyArray, p: AnyArray) -> AnyArray:
    del self
    k, end = np.floor(k), _core.dropgrad(p == 1)
    inside = np.exp(np.log1p(-_core.where(end, 0.5, p)) * k)
    return _core.where(end, (1 - _core.where(end, p, 0.5)) ** k, inside)


def _bernoulli_pmf(self: object, k: AnyArray, p: AnyArray) -> AnyArray:
    return _binom_pmf(self, k, np.ones(()), p)


# --------------------------------------------------------------------------------------------------
# Distribution functions of binomial distributions: the ufuncs of their names


@by.in_double
def _binom_by_p(k: AnyArray, n: AnyArray, p: AnyArray) -> AnyArray:
    """Give the slope of `betainc(n - k, k + 1, 1 - p)`: a mass of one trial less."""
    log_count = -f.betaln(n - k, k + 1.0)
    return -_powers(log_count, k, p, n - k - 1.0, is_rule=True)


@by.in_double
def _binom_by_n(k: AnyArray, n: AnyArray, p: AnyArray) -> AnyArray:
    return by.beta_a(n - k, k + 1.0, 1 - p)


@by.in_double
def _nbinom_by_p(k: AnyArray, n: AnyArray, p: AnyArray) -> AnyArray:
    """Give the slope of `betainc(n, k + 1, p)`."""
    return _powers(-f.betaln(n, k + 1.0), n - 1.0, p, k, is_rule=True)


@by.in_double
def _nbinom_by_n(k: AnyArray, n: AnyArray, p: AnyArray) -> AnyArray:
    return by.beta_a(n, k + 1.0, p)


def _less(function: Function) -> Function:
    return lambda *args: -function(*args)


PARTIALS.update({
    "_binom_cdf": (ZERO, _binom_by_n, _binom_by_p),
    "_binom_sf": (ZERO, _less(_binom_by_n), _less(_binom_by_p)),
    "_nbinom_cdf": (ZERO, _nbinom_by_n, _nbinom_by_p),
    "_nbinom_sf": (ZERO, _less(_nbinom_by_n), _less(_nbinom_by_p)),
})  # fmt: skip


def _nbinom_logcdf(self: object, k: AnyArray, n: AnyArray, p: AnyArray) -> AnyArray:
    del self
    # Of what is nearly 1 the logarithm is that of what is missing to it.
    below, above = f._nbinom_cdf(k, n, p), f._nbinom_sf(k, n, p)
    is_most = _core.dropgrad(below > 0.5)
    near = np.log1p(-_core.where(is_most, above, 0.0))
    return _core.where(is_most, near, np.log(_core.where(is_most, 1.0, below)))


def _nbinom_stats(
    self: object, n: AnyArray, p: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    del self
    missed = 1 - p
    mean = n * missed / p
    return mean, mean / p, (2 - p) / np.sqrt(n * missed), 6 / n + p * p / (n * missed)


# --------------------------------------------------------------------------------------------------
# The hypergeometric distribution: sums


def _hypergeom_stats(
    self: object, total: AnyArray, good: AnyArray, drawn: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    del self
    bad, left = total - good, total - drawn
    mean = good * drawn / total
    variance = mean * bad * left / (total * (total - 1))
    root = np.sqrt((total - 1) / (good * drawn * bad * left))
    skewness = (total - 2 * good) * (total - 2 * drawn) / (total - 2) * root
    excess = total * (total + 1) - 6 * drawn * left - 6 * good * bad
    excess = excess * (total - 1) * total * total
    excess = excess + 6 * good * drawn * left * bad * (5 * total - 6)
    whole = good * drawn * left * bad * (total - 2) * (total - 3)
    return mean, variance, skewness, excess / whole


def _summed(above: bool, log: bool) -> Function:
    """Make the sum of a mass over what is at most, or more than, a number of successes."""

    def method(self: Any, k: AnyArray, *shapes: AnyArray) -> AnyArray:
        low, high = (to_numpy(_core.dropgrad(end)) for end in self._get_support(*shapes))
        at = np.floor(to_numpy(_core.dropgrad(k)))
        first, last = (np.floor(at) + 1, high) if above else (low, at)
        shape = np.broadcast_shapes(*map(np.shape, (first, last, *shapes)))
        first, last = (np.broadcast_to(end, shape)[..., None] for end in (first, last))
        count = int(max(np.max(last - first, initial=0), 0)) + 1
        terms = first + np.arange(count)
        counts = terms <= last
        wide = [_core.broadcast_to(_core.asarray(s, np.float64), shape)[..., None] for s in shapes]
        logs = self._logpmf(np.where(counts, terms, np.minimum(first, last)), *wide)
        logs = _core.where(counts, logs, -np.inf)
        if log:
            total: AnyArray = locate("scipy.special.logsumexp")(logs, axis=-1)
            return total
        return _core.sum(np.exp(logs), -1)

    return method


_SUMS = {
    "_cdf": _summed(above=False, log=False),
    "_sf": _summed(above=True, log=False),
    "_logcdf": _summed(above=False, log=True),
    "_logsf": _summed(above=True, log=True),
}


def _zipfian_logpmf(self: object, k: AnyArray, a: AnyArray, n: AnyArray) -> AnyArray:
    """Give the logarithm of a power, over a sum of up to `n` of them."""
    del self
    sizes = to_numpy(_core.dropgrad(n))[..., None]
    logs = np.log(np.arange(1.0, np.max(sizes, initial=1) + 1))
    terms = _core.where(np.arange(logs.size) < sizes, np.exp(-a[..., None] * logs), 0.0)
    return -a * np.log(k) - np.log(_core.sum(terms, -1))


def _skellam_logpmf(self: object, k: AnyArray, first: AnyArray, second: AnyArray) -> AnyArray:
    """Give the logarithm for a difference of two counts, with a scaled Bessel function."""
    del self
    roots = np.sqrt(first), np.sqrt(second)
    scaled: AnyArray = locate("scipy.special.ive")(np.abs(k), 2 * roots[0] * roots[1])
    return k * (np.log(roots[0]) - np.log(roots[1])) - (roots[0] - roots[1]) ** 2 + np.log(scaled)


#: Methods by the name of the class.
COUNT_FORMULAS: dict[str, dict[str, Function]] = {
    "bernoulli_gen": {"_pmf": _bernoulli_pmf},
    "geom_gen": {"_cdf": _geom_cdf, "_sf": _geom_sf},
    "poisson_gen": {"_pmf": _poisson_pmf},
    "binom_gen": {"_pmf": _binom_pmf},
    "nbinom_gen": {"_pmf": _nbinom_pmf, "_logcdf": _nbinom_logcdf, "_stats": _nbinom_stats},
    "hypergeom_gen": {"_pmf": exp_of("_logpmf"), "_stats": _hypergeom_stats, **_SUMS},
    "skellam_gen": {"_logpmf": _skellam_logpmf, "_pmf": exp_of("_logpmf")},
    "zipfian_gen": {"_logpmf": _zipfian_logpmf, "_pmf": exp_of("_logpmf"), **_SUMS},
}
