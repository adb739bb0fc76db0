"""Distributions and functions of `scipy.stats` under a gradient."""

import warnings

import numpy as np
import pytest
from scipy import optimize, stats
from scipy_cases import check

import cotan as ct
from cotan import _core

X = np.array([0.21, 0.47, 0.83])
Q = np.array([0.1, 0.55, 0.9])
# Shapes, and whether the cdf can be differentiated with respect to them.
CONTINUOUS = {
    "norm": (),
    "t": (3.5,),
    "gamma": (2.3,),
    "beta": (1.7, 2.4),
    "expon": (),
    "lognorm": (0.8,),
    "uniform": (),
    "chi2": (3.2,),
    "laplace": (),
    "logistic": (),
    "cauchy": (),
    "weibull_min": (1.6,),
    "gumbel_r": (),
    "pareto": (2.1,),
    "halfnorm": (),
    "truncnorm": (-0.7, 1.4),
    "rayleigh": (),
    "genextreme": (0.2,),
    "f": (3.0, 5.0),
}
LOC, SCALE = -0.1, 1.3


def points(name):
    return X + 1.5 if name == "pareto" else X


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name):
    dist, shapes, x = getattr(stats, name), CONTINUOUS[name], points(name)
    loose = {"rtol": 1e-4, "atol": 1e-6}
    for method in ["pdf", "logpdf", "cdf", "sf", "logcdf", "logsf"]:
        check(
            lambda x, loc, scale: getattr(dist, method)(x, *shapes, loc, scale),
            x,
            LOC,
            SCALE,
            second=method in {"logpdf", "cdf"},
            **loose,
        )
        check(lambda x: getattr(dist(*shapes, LOC, scale=SCALE), method)(x), x, **loose)
    for method in ["ppf", "isf"]:
        check(
            lambda q, loc, scale: getattr(dist, method)(q, *shapes, loc, scale),
            Q,
            LOC,
            SCALE,
            **loose,
        )


@pytest.mark.parametrize("name", ["t", "gamma", "beta", "chi2"])
def test_shapes_in_gamma_functions(name):
    test_shapes(name)


@pytest.mark.parametrize("name", ["lognorm", "weibull_min", "pareto", "truncnorm", "genextreme"])
def test_shapes(name):
    dist, shapes, x = getattr(stats, name), CONTINUOUS[name], points(name)
    check(lambda *s: dist.logpdf(x, *s), *shapes, rtol=1e-4)
    check(lambda *s: dist.pdf(x, *s), *shapes, rtol=1e-4)
    check(lambda *s: dist(*s).logpdf(x), *shapes, rtol=1e-4)


def test_outside_of_the_support():
    x = np.array([-1.0, 0.5, 2.0, np.nan])
    for name in ["pdf", "logpdf", "cdf", "sf", "logcdf", "logsf"]:
        for dist, shapes in [(stats.uniform, ()), (stats.beta, (2.0, 3.0)), (stats.expon, ())]:
            expected = getattr(dist, name)(x, *shapes)
            seen = []

            def f(x):
                y = getattr(dist, name)(x, *shapes)
                seen.append(y)
                return np.sum(np.where(np.isfinite(y), y, 0.0))

            (g,) = ct.gradient(f, x)
            np.testing.assert_allclose(_core.value(seen[0]), expected)
            assert g is None or (np.all(np.isfinite(g)) and g[0] == 0)
    (g,) = ct.gradient(lambda s: np.sum(stats.norm.pdf(X, 0, s)), np.array([-1.0, 1.0, 2.0]))
    assert g[0] == 0
    assert np.all(np.isfinite(g))
    assert np.isnan(stats.norm.ppf(np.array([-0.1])))


def test_scalars_and_broadcasting():
    check(lambda m, s: stats.norm.logpdf(0.3, m, s), 0.1, 1.2)
    check(lambda m: stats.norm(m[:, None], 1.0).pdf(X), np.array([0.1, 0.4]))
    check(lambda m: -np.sum(stats.norm.logpdf(X, loc=m, scale=2.0)), 0.3, second=True)


def test_a_skewed_distribution_at_one_number():
    check(lambda x: stats.skewnorm.cdf(x, 1.2), 0.3)
    check(lambda x: stats.skewnorm.sf(x, np.array([1.2, -0.3])), 0.3)
    check(lambda p: stats.skewnorm.ppf(p, 1.0), 0.3)


def test_distributions_of_their_own_code_at_several_points():
    for x in (np.array([0.4, 0.6]), np.array([[0.4], [0.6]])):
        check(lambda x: stats.norminvgauss.sf(x, 1.5, 0.5), x)


def test_discrete():
    k = np.array([0, 2, 5])
    check(lambda mu: stats.poisson.logpmf(k, mu), 2.3, second=True)
    check(lambda mu: stats.poisson.pmf(k, mu), np.array([2.3, 1.1, 4.0]))
    check(lambda p: stats.binom.logpmf(k, 7, p), 0.4)
    check(lambda p: stats.binom.pmf(k, 7, p), 0.4)
    check(lambda p: stats.binom(7, p).pmf(k), 0.4)
    check(lambda p: stats.bernoulli.logpmf(np.array([0, 1, 2]), p)[:2], 0.4)
    check(lambda p: stats.geom.logpmf(np.array([1, 2, 5]), p), 0.4)
    check(lambda p: stats.nbinom.logpmf(k, 3, p), 0.4)


MEAN = np.array([0.1, -0.4])
COV = np.array([[1.3, 0.2], [0.2, 0.7]])
POINTS = np.array([[0.3, 0.2], [-0.8, 1.1], [0.0, 0.0]])


def symmetric(c):
    return (c + c.T) / 2


@pytest.mark.parametrize("name", ["wishart", "invwishart"])
def test_wishart(name):
    dist = getattr(stats, name)
    x = np.array([[1.3, 0.2], [0.2, 0.7]])
    scale = np.array([[1.0, 0.3], [0.3, 2.0]])
    for method in ("logpdf", "pdf"):
        check(lambda x, s: getattr(dist, method)(symmetric(x), 4.5, symmetric(s)), x, scale)
        check(lambda x, s: getattr(dist(4.5, symmetric(s)), method)(symmetric(x)), x, scale)
        check(lambda s: getattr(dist, method)(1.3, 4.5, s), 0.7)
    check(lambda x: dist(4.5, scale).logpdf(symmetric(x)), x)
    check(lambda x: dist.logpdf(np.stack([x, 2.0 * x], -1), 4.5, scale), x)
    check(lambda d: dist.logpdf(x, d, scale) + dist(d, scale).entropy(), 4.5)
    check(lambda s: dist.mean(6.5, s) + dist(6.5, s).var() + dist.mode(6.5, s), scale)
    if name == "wishart":
        check(lambda s: dist.rvs(4.5, symmetric(s), 3, np.random.default_rng(0)), scale)
        check(lambda s: dist(4.5, symmetric(s)).rvs(1, np.random.default_rng(0)), scale)


@pytest.mark.parametrize("size", [1, 3, (2, 2)])
def test_draws_of_the_multivariate_normal(size):
    def drawn(m, c, frozen):
        rng = np.random.default_rng(3)
        if frozen:
            return stats.multivariate_normal(m, c).rvs(size, rng)
        return stats.multivariate_normal.rvs(m, c, size, rng)

    for frozen in False, True:
        check(lambda m: drawn(m, COV, frozen), MEAN)
        check(lambda m: drawn(list(m), COV, frozen), MEAN)
        check(lambda x: drawn(MEAN * x, COV * x, frozen), 1.3)
        check(lambda m: drawn(m, 2.0, frozen), 0.3)


def test_one_triangle_of_the_covariance_is_read():
    uneven = np.array([[2.0, 0.5], [0.8, 1.0]])
    check(lambda c: stats.multivariate_normal.logpdf(POINTS, MEAN, c), uneven, second=True)
    check(lambda c: stats.multivariate_normal(MEAN, c).pdf(POINTS), uneven)
    check(lambda c: stats.multivariate_normal(MEAN, c).entropy(), uneven)
    check(lambda c: stats.multivariate_normal(MEAN, c).cov, uneven)


def test_the_distribution_function_of_the_multivariate_normal_is_refused_by_name():
    frozen, at = stats.multivariate_normal(MEAN, COV), np.zeros(MEAN.size)
    expected = frozen.cdf(at)
    assert ct.gradient(lambda x: x * frozen.cdf(at), 2.0)[0] == pytest.approx(expected, rel=1e-3)
    for f in (
        lambda x: stats.multivariate_normal.cdf(at + x, MEAN, COV),
        lambda x: frozen.logcdf(at * x),
        lambda x: stats.multivariate_normal(MEAN * x, COV).cdf(at),
    ):
        with pytest.raises(TypeError, match="multivariate_normal: .*cdf has no derivative rule"):
            ct.gradient(f, 2.0)


def test_multivariate_normal():
    for name in ["pdf", "logpdf"]:
        method = getattr(stats.multivariate_normal, name)
        check(lambda x, m: method(x, m, COV), POINTS, MEAN, second=True)
        check(lambda x, m, c: method(x, m, symmetric(c)), POINTS, MEAN, COV, second=True)
        check(lambda m, c: method(POINTS[0], m, symmetric(c)), MEAN, COV)
        frozen = stats.multivariate_normal(MEAN, COV)
        check(lambda x: getattr(frozen, name)(x), POINTS)
        check(
            lambda m, c: getattr(stats.multivariate_normal(m, symmetric(c)), name)(POINTS),
            MEAN,
            COV,
        )
    check(lambda v: stats.multivariate_normal.logpdf(POINTS, MEAN, v), np.array([1.2, 0.8]))
    check(lambda v: stats.multivariate_normal.logpdf(POINTS, MEAN, v), 1.2)
    check(lambda m: stats.multivariate_normal.logpdf(X, m), 0.3)
    flat = np.ones((2, 2))
    check(lambda x: stats.multivariate_normal.logpdf(np.stack([x, x]), MEAN * 0, flat,
                                                     allow_singular=True), 0.3)  # fmt: skip
    with pytest.raises(ValueError, match="positive semidefinite"):
        ct.gradient(lambda c: stats.multivariate_normal.logpdf(POINTS[0], MEAN, c), -COV)


def test_samples():
    data = np.array([[0.3, 1.2, 0.8, 2.1], [1.4, 0.2, 0.9, 0.5]])
    check(lambda x: stats.zscore(x, axis=1), data, second=True)
    check(lambda x: stats.gmean(x, axis=1), data)
    check(lambda x: stats.hmean(x, axis=None), data)
    check(lambda x: stats.sem(x, axis=1), data)
    check(lambda x: stats.skew(x, axis=1), data)
    check(lambda x: stats.kurtosis(x, axis=1), data)
    check(lambda x: stats.moment(x, 3, axis=1), data)
    check(lambda x: stats.variation(x, axis=1), data)
    check(lambda x: stats.iqr(x, axis=1), data)
    check(lambda x: stats.tmean(x, (0.25, 2.0)), data)
    check(lambda p: stats.entropy(p), data[0])
    check(lambda p, q: stats.entropy(p, q), data[0], data[1])
    check(lambda u, v: stats.wasserstein_distance(u, v), data[0], data[1])


KDE_DATA = np.sin(np.arange(1.0, 13.0)) + 0.1 * np.arange(12.0)
KDE = stats.gaussian_kde(KDE_DATA)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(stats.gaussian_kde(x * KDE_DATA).resample(5, 3) ** 2),
        lambda x: np.sum(stats.gaussian_kde(KDE_DATA * x + np.sin(KDE_DATA * x))([0.1, 0.7])),
        lambda x: np.sum(KDE(np.array([x, 2 * x]))) + KDE.logpdf(x)[0] + KDE.evaluate([x])[0],
        lambda x: np.sum(stats.gaussian_kde(x * KDE_DATA.reshape(2, 6), 0.4)([[x, 1], [0.2, x]])),
        lambda x: np.sum(stats.gaussian_kde(x * KDE_DATA, weights=KDE_DATA + 1.0).logpdf([0.3, x])),
    ],
)
def test_kernel_densities(f):
    value, (slope,) = ct.value_and_gradient(f, 0.8)
    assert value == pytest.approx(f(0.8), rel=1e-10)
    assert slope == pytest.approx((f(0.8 + 1e-6) - f(0.8 - 1e-6)) / 2e-6, rel=1e-6)


def test_distributions_give_double_precision():
    x, one = np.array([0.2, 0.5], np.float32), np.ones(2, np.float32)
    for name in ("pdf", "logpdf", "cdf", "sf", "logcdf", "ppf", "isf"):
        for args in ((x,), (x[0],), (x, one), (x, one, one * 2), (x[0], one, one)):
            for law in (stats.expon, stats.norm):
                found = ct.pullback(getattr(law, name), *args)[0]
                wanted = getattr(law, name)(*args)
                assert found.dtype == wanted.dtype == np.float64
                np.testing.assert_allclose(found, wanted, 2e-7)
    for name in ("pmf", "logpmf", "cdf"):
        found = ct.pullback(getattr(stats.poisson, name), one, x + one)[0]
        assert found.dtype == np.float64


@pytest.mark.parametrize("statistic", ["mean", "sum", "std", "median", "min", "max", np.ptp])
def test_statistics_of_bins(statistic):
    where = np.linspace(0.0, 1.0, 12)
    values = np.random.default_rng(4).normal(size=12)

    def f(v):
        one = stats.binned_statistic(where, v, statistic, bins=3)[0]
        two = stats.binned_statistic_2d(where, where**2, v, statistic, bins=[2, 1])[0]
        more = stats.binned_statistic_dd(where[:, None], v, statistic, bins=2)[0]
        return np.sum(one * np.arange(3.0)) + np.sum(two) + np.sum(more**2)

    slope = [(f(values + e) - f(values - e)) / 2e-6 for e in np.eye(12) * 1e-6]
    np.testing.assert_allclose(ct.gradient(f, values)[0], slope, rtol=1e-6, atol=1e-8)


def test_densities_with_large_parameters():
    # The logarithms of gamma functions of such numbers have no digits left to subtract.
    for f, *given in (
        (lambda p: stats.binom.pmf([0, 1, 2], 10**15, p), 1e-15),
        (lambda n, p: stats.nbinom.pmf([0, 1, 2, 3], n, p), 5.5e12, 1 - 1e-12),
        (lambda df: stats.t.logpdf([0, 1, 20], df), 1e13),
        (lambda df: stats.t.pdf([0.0, 1.0], df), 1e100),
    ):
        y, _ = ct.pullback(f, *given)
        np.testing.assert_allclose(y, f(*given), 1e-10)
    (slope,) = ct.gradient(lambda p: stats.binom.pmf(1, 10**15, p), 0.5e-15)
    np.testing.assert_allclose(slope, 1e15 * 0.5 * np.exp(-0.5), 1e-9)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_pearsonr_along_axes(axis):
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(4, 5)), rng.normal(size=(4, 5))
    for alternative in ("two-sided", "less", "greater"):
        f = lambda x, y, a=alternative: tuple(stats.pearsonr(x, y, axis=axis, alternative=a))
        check(f, x, y, second=alternative == "less")
    check(lambda x, y: stats.pearsonr(x, y, axis=1).statistic, x, y[:1])
    # As near to -1 as SciPy comes, on which the logarithm of its probability depends.
    x = np.arange(10.0)
    y, _ = ct.pullback(lambda x: tuple(stats.pearsonr(x, -x, alternative="less")), x)
    assert tuple(y) == tuple(stats.pearsonr(x, -x, alternative="less"))
    with pytest.raises(ValueError, match="does not support complex"):
        ct.gradient(lambda x: stats.pearsonr(x * 1j, x)[0], x)


@pytest.mark.parametrize("name", ["zscore", "gmean", "hmean", "skew", "kurtosis", "sem", "moment"])
def test_statistics_of_no_samples(name):
    f = getattr(stats, name)
    for shape in ((2, 0, 3), (0,)):
        x = np.zeros(shape)
        for axis in (None, *range(x.ndim)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = f(x, axis=axis)
                y, _ = ct.pullback(lambda x, axis=axis: f(x, axis=axis), x)
            np.testing.assert_array_equal(y, expected)
            assert np.shape(y) == np.shape(expected)


@pytest.mark.parametrize("name", ["norm", "expon", "uniform", "pareto", "lognorm", "halfcauchy"])
def test_fits_by_formulas_and_roots(name):
    x = np.random.default_rng(1).uniform(1.2, 6.0, size=25)
    fixed = {"floc": 0.5} if name in {"lognorm", "halfcauchy", "pareto"} else {}
    check(lambda x: tuple(getattr(stats, name).fit(x, **fixed)), x)


def test_a_fit_has_the_derivative_of_the_likeliest_parameters():
    x = np.random.default_rng(1).weibull(1.5, size=25)

    def exactly(x):
        def missed(c):
            return 1 / c + np.mean(np.log(x)) - np.sum(x**c * np.log(x)) / np.sum(x**c)

        c = optimize.brentq(missed, 0.1, 20.0, xtol=1e-14)
        return c + np.mean(x**c) ** (1 / c)

    def fitted(x):
        c, _, scale = stats.weibull_min.fit(x, floc=0)
        return c + scale

    np.testing.assert_allclose(ct.gradient(fitted, x)[0], ct.gradient(exactly, x)[0], 2e-3)


def test_infinite_bounds_stay_where_they_are():
    x, inf = np.array([0.5, 1.0]), np.inf
    for name in ("logpdf", "cdf", "ppf"):
        f = lambda m, s, low, high, name=name: getattr(stats.truncnorm, name)(
            x / 2, (low - m) / s, (high - m) / s, m, s
        )
        check(lambda m, s: f(m, s, 0.0, inf), 0.1, 1.2)
        check(lambda m, s: f(m, s, -inf, 2.0), 0.1, 1.2)
    data = np.random.default_rng(3).normal(size=20)
    check(lambda x, b: stats.gaussian_kde(x).integrate_box_1d(-inf, b), data, 0.4, second=True)
    check(lambda x, a: stats.gaussian_kde(x).integrate_box_1d(a, inf), data, 0.4)
    made = stats.gaussian_kde(data)
    check(lambda a, b: made.integrate_box_1d(a, b), -0.3, 0.4)


def test_complex_points_are_refused():
    with pytest.raises(TypeError, match=r"norm: x is complex.*x\.real"):
        ct.gradient(lambda x: stats.norm.logcdf(x + 0.001j).imag, 0.5)


@pytest.mark.parametrize("method", ["cdf", "sf", "logcdf", "logsf", "ppf", "isf"])
def test_shapes_of_compiled_distributions(method):
    at = Q if method in {"ppf", "isf"} else X
    loose = {"rtol": 1e-4, "atol": 1e-6, "step": 1e-5}
    for name, shapes in {"beta": (1.7, 2.4), "skewnorm": (1.3,), "invgauss": (0.8,)}.items():
        function = getattr(getattr(stats, name), method)
        check(lambda *s, f=function: f(at, *s), *shapes, **loose)
        check(lambda x, s, f=function, t=shapes: f(x, *t[:-1], s), at, shapes[-1], **loose)
    check(lambda a: getattr(stats.betaprime, method)(at, a, 2.4), 1.7, **loose)
    check(lambda c: getattr(stats.rdist, method)(at, c), 1.7, **loose)
    check(lambda nc: getattr(stats.ncx2, method)(at, 3.0, nc), 1.7, **loose)


def test_densities_of_compiled_distributions():
    check(lambda x, nc: stats.ncx2.pdf(x, 3.0, nc), X, 2.0, second=True)
    check(lambda x, b: stats.geninvgauss.logpdf(x, 2.3, b), X, 1.5, second=True)
    check(lambda x, a, b: stats.genhyperbolic.pdf(x, 0.5, a, b), X, 1.5, -0.5)
    check(lambda a, b: stats.dpareto_lognorm.sf(X + 1, 0.3, 1.2, a, b), 1.5, 2.0, rtol=1e-4)


SCALES = [np.eye(2), np.array([[1.3, 0.2], [0.2, 0.7]])]


@pytest.mark.parametrize("scale", SCALES, ids=["equal", "other"])
def test_scale_matrices_with_equal_eigenvalues(scale):
    x, points = np.array([0.3, 0.2]), np.array([[0.3, 0.2, 0.7], [-0.8, 1.1, 0.1]])
    wide = np.eye(3)
    check(lambda s: stats.multivariate_t.logpdf(x, None, s, 5), scale)
    check(lambda s: stats.multivariate_t.pdf(x, None, s, 5), scale)
    check(lambda s: stats.multivariate_t(None, s, 5).logpdf(x), scale)
    check(lambda s: stats.multivariate_t.entropy(None, s, 5), scale)
    check(lambda s, t: stats.matrix_normal.logpdf(points, None, s, t), scale, wide)
    check(lambda s: stats.matrix_normal.entropy(s, wide), scale)
    check(lambda s: stats.matrix_normal(None, s, wide).logpdf(points), scale)
    if hasattr(stats, "matrix_t"):
        check(lambda s, t: stats.matrix_t.logpdf(points, None, s, t, 5), scale, wide)
    with pytest.raises(ValueError, match="semidefinite"):
        ct.gradient(lambda s: stats.multivariate_t.logpdf(x, None, s, 5), -scale)
    with pytest.raises(TypeError, match="singular"):
        ct.gradient(
            lambda s: stats.multivariate_t.logpdf(x, None, s, 5, allow_singular=True),
            np.ones((2, 2)),
        )


def test_frozen_distributions_of_vectors_are_prepared():
    x = np.array([0.3, 0.2])
    for f in (
        lambda s: stats.multivariate_normal(np.zeros(2), s).logpdf(x),
        lambda s: stats.multivariate_t(np.zeros(2), s, 5).logpdf(x),
        lambda s: stats.wishart(3, s).logpdf(np.eye(2)),
    ):
        prepared = ct.prepare(f)
        for s in SCALES:
            np.testing.assert_allclose(prepared(s)[0], ct.gradient(f, s)[0])
        with pytest.raises((ValueError, np.linalg.LinAlgError)):
            prepared(-SCALES[0])
