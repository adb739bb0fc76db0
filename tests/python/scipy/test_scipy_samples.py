"""Statistics of samples of `scipy.stats`: axes, NaN, and moments of distributions."""

import numpy as np
import pytest
from scipy import stats
from scipy_cases import check

import cotan as ct

X = np.array([[0.3, 1.2, 0.8, 2.1], [1.4, 0.2, 0.9, 0.5], [0.7, 1.1, 0.4, 1.9]])
HOLES = np.where(np.eye(3, 4, dtype=bool), np.nan, X)
NAMES = ["iqr", "gmean", "hmean", "sem", "skew", "kurtosis", "moment", "variation", "tmean",
         "tstd", "tvar", "entropy"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_axes(name):
    function = getattr(stats, name)
    check(lambda x: getattr(stats, name)(x), X)
    for axis in (None, 0, -1, (0, 1)):
        check(lambda x: getattr(stats, name)(x, axis=axis), X)
        check(lambda x: getattr(stats, name)(x, axis=axis, keepdims=True), X)
    if name not in {"moment", "tmean", "sem"}:
        assert function(X, axis=1).shape == (3,)
    with pytest.raises(np.exceptions.AxisError):
        ct.gradient(lambda x: np.sum(getattr(stats, name)(x, axis=2)), X)


@pytest.mark.parametrize("name", NAMES)
def test_nan(name):
    def f(x, policy):
        return getattr(stats, name)(np.where(np.isnan(HOLES), np.nan, x), axis=0, nan_policy=policy)

    check(lambda x: f(x, "omit"), X)
    value = ct.pullback(lambda x: f(x, "propagate"), X)[0]
    np.testing.assert_array_equal(np.isnan(value), [True, True, True, False])
    with pytest.raises(ValueError, match="contains nan"):
        ct.gradient(lambda x: np.sum(f(x, "raise")), X)
    with pytest.raises(ValueError, match="nan_policy must be"):
        ct.gradient(lambda x: np.sum(f(x, "skip")), X)


def test_weights():
    check(lambda x, w: stats.gmean(x, axis=1, weights=w), X, X[::-1])
    check(lambda x, w: stats.hmean(x, axis=None, weights=w), X, X[::-1])
    check(lambda x: stats.pmean(x, 2.5, axis=1), X)
    check(lambda p, q: stats.entropy(p, q, axis=1), X, X[::-1])
    check(lambda x: stats.tstd(x, (0.25, 1.95), axis=1), X)


MOMENTS = [(stats.norm, ()), (stats.gamma, (2.5,)), (stats.beta, (2.0, 3.5)), (stats.t, (5.5,)),
           (stats.expon, ()), (stats.lognorm, (0.6,)), (stats.invgamma, (6.5,))]  # fmt: skip


@pytest.mark.parametrize(("dist", "shapes"), MOMENTS, ids=lambda d: getattr(d, "name", ""))
def test_moments(dist, shapes):
    for name in ("mean", "var", "std", "entropy"):
        check(lambda m, s, *a: getattr(dist, name)(*a, loc=m, scale=s), 0.4, 1.7, *shapes)
        check(lambda m, s, *a: getattr(dist(*a, loc=m, scale=s), name)(), 0.4, 1.7, *shapes)
    check(lambda m, s, *a: dist.stats(*a, m, s, moments="mvsk"), 0.4, 1.7, *shapes)


def test_moments_of_other_distributions():
    check(lambda p: stats.binom.mean(10, p), 0.4)
    check(lambda p: stats.binom(10, p).var(), np.array([0.4, 0.6]))
    check(lambda mu: stats.poisson.std(mu), 2.5)
    with pytest.raises(TypeError, match="no formula for the entropy"):
        ct.gradient(lambda p: stats.binom.entropy(10, p), 0.4)
    with pytest.raises(TypeError, match="no formula for this moment"):
        ct.gradient(lambda c: stats.exponpow.mean(c), 2.5)
    # Of constants SciPy's own, though they are arrays of ours.
    value = ct.pullback(lambda x: x * stats.exponpow.mean(np.full(1, 2.5)), 2.0)[0]
    np.testing.assert_allclose(value, 2 * stats.exponpow.mean(np.full(1, 2.5)))


OPEN = [(stats.invgamma, (4.0,)), (stats.levy, ()), (stats.wald, ()), (stats.invweibull, (3.0,))]


@pytest.mark.parametrize(("dist", "shapes"), OPEN, ids=lambda d: getattr(d, "name", ""))
def test_ends_that_are_not_in_the_support(dist, shapes):
    x = np.array([0.0, 0.5, 2.0])
    for name in ("pdf", "logpdf"):
        value, back = ct.pullback(lambda x: getattr(dist, name)(x, *shapes), x)
        np.testing.assert_allclose(value, getattr(dist, name)(x, *shapes))
        assert np.all(np.isfinite(back(np.ones(3))[0]))


def test_tests_that_mark_what_is_constant():
    check(lambda x: stats.f_oneway(x[0], x[1]).statistic, X)
    check(lambda x: stats.f_oneway(x[:2], x[1:], axis=1).statistic, X)
    check(lambda x: stats.pointbiserialr(np.array([1, 0, 1, 0]), x)[0], X[0])
