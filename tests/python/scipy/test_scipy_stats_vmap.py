"""Distributions of `scipy.stats` of examples that are mapped: as one by one."""

import numpy as np
import pytest
from scipy import special, stats

import cotan as ct

POINTS = np.array([-1.0, 0.0, 0.2, 0.55, 1.0, 3.0, np.nan, np.inf, -np.inf])
CONTINUOUS = {
    "norm": (),
    "gamma": (2.0,),
    "beta": (2.0, 3.0),
    "expon": (),
    "t": (4.0,),
    "uniform": (),
    "lognorm": (0.5,),
    "weibull_min": (1.5,),
    "cauchy": (),
    "chi2": (3.0,),
}


def one_by_one(f, *args):
    with np.errstate(all="ignore"):
        return np.array([f(*each) for each in zip(*args, strict=True)])


@pytest.mark.parametrize("method", ["pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name, method):
    function, shapes = getattr(getattr(stats, name), method), CONTINUOUS[name]
    locs, scales = np.linspace(-0.3, 0.3, 9), np.linspace(0.5, 2.0, 9)

    def f(x, loc, scale):
        return function(x, *shapes, loc, scale)

    wanted = one_by_one(f, POINTS, locs, scales)
    np.testing.assert_allclose(ct.vmap(f)(POINTS, locs, scales), wanted, 1e-9, 1e-12)
    inside = np.array([0.11, 0.4, 0.61, 0.87])
    given = (inside, locs[:4] / 4, scales[:4])
    slopes = ct.vmap(lambda *each: ct.gradient(f, *each))(*given)
    for i, slope in enumerate(slopes):
        alone = [ct.gradient(f, *each)[i] for each in zip(*given, strict=True)]
        if slope is None:  # of what does not depend on it
            assert set(alone) <= {None, 0.0}
            continue
        np.testing.assert_allclose(slope, alone, 1e-7, 1e-9)


@pytest.mark.parametrize("method", ["pmf", "logpmf", "cdf", "sf"])
def test_discrete_distributions(method):
    counts = np.array([-1.0, 0.0, 1.0, 2.5, 4.0, 30.0])
    for name, shapes in (("poisson", (2.0,)), ("binom", (6, 0.3)), ("geom", (0.4,))):
        function = getattr(getattr(stats, name), method)
        wanted = one_by_one(lambda k, f=function, s=shapes: f(k, *s), counts)
        found = ct.vmap(lambda k, f=function, s=shapes: f(k, *s))(counts)
        np.testing.assert_allclose(found, wanted, 1e-9, 1e-12)


def test_vectors_and_scales_that_are_none():
    rows = np.random.default_rng(0).normal(size=(4, 5))
    scales = np.array([1.0, 0.0, -2.0, 0.5])

    def f(row, scale):
        return stats.norm.logpdf(row, 0.1, scale)

    np.testing.assert_allclose(ct.vmap(f)(rows, scales), one_by_one(f, rows, scales), 1e-12)
    found = ct.vmap(lambda row: np.sum(stats.t.logpdf(row, 3.0, scale=2.0)))(rows)
    np.testing.assert_allclose(found, stats.t.logpdf(rows, 3.0, scale=2.0).sum(axis=1), 1e-12)


def test_a_shape_that_is_mapped():
    shapes = np.array([1.0, 2.0])
    mapped = ct.vmap(lambda a: stats.gamma.logpdf(1.0, a))
    np.testing.assert_allclose(mapped(shapes), stats.gamma.logpdf(1.0, shapes), 1e-12)
    (slopes,) = ct.gradient(lambda a: np.sum(mapped(a)), shapes)
    np.testing.assert_allclose(slopes, -special.digamma(shapes), 1e-12)
