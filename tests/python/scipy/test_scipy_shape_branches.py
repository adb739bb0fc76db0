"""Derivatives with respect to shape parameters at values where SciPy takes another branch."""

import math

import numpy as np
import pytest
import scipy
import scipy.special
import scipy.stats
from packaging.version import Version

import cotan as ct

POINTS = ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf")

# Distributions, shape parameters at which SciPy branches, and methods.
CASES = [
    ("skewnorm", (0.0,), ("pdf", "logpdf")),
    ("genpareto", (0.0,), (*POINTS, "ppf", "isf")),
    ("genpareto", (-1.0,), (*POINTS, "ppf", "isf")),
    ("genextreme", (0.0,), (*POINTS, "ppf", "isf")),
    ("genextreme", (0.4,), (*POINTS, "ppf", "isf")),
    # SciPy's quantiles beside it are NaN.
    ("kappa4", (0.0, 0.0), POINTS),
    ("kappa4", (0.0, 0.5), (*POINTS, "ppf")),
    ("kappa4", (1.0, 0.0), (*POINTS, "ppf")),
    ("kappa4", (-0.5, 0.25), (*POINTS, "ppf")),
    ("kappa3", (1.0,), POINTS),
    ("truncpareto", (2.0, 3.0), (*POINTS, "ppf", "isf")),
    ("truncpareto", (-0.5, 3.0), (*POINTS, "ppf", "isf")),
    ("gennorm", (2.0,), (*POINTS, "ppf", "isf")),
]


@pytest.mark.parametrize(("name", "shapes", "methods"), CASES)
def test_special_values_are_like_those_beside_them(name, shapes, methods):
    share = 0.63
    dist = getattr(scipy.stats, name)
    at = float(dist.ppf(share, *shapes))
    for method in methods:
        function = getattr(dist, method)
        first = share if method in ("ppf", "isf") else at
        given = (first, *shapes)
        value, found = ct.value_and_gradient(function, *given)
        assert value == pytest.approx(float(function(*given)), rel=1e-9, abs=1e-12)
        for i, derivative in enumerate(found):
            step = 1e-4
            with np.errstate(all="ignore"):
                sides = [
                    float(function(*(v + s * (i == j) for j, v in enumerate(given))))
                    for s in (step, -step)
                ]
            assert derivative == pytest.approx(
                (sides[0] - sides[1]) / (2 * step), rel=1e-5, abs=1e-5
            ), (method, i)


def test_elements_at_special_values_among_others():
    c = np.array([0.0, 0.3, 0.0, -0.2])
    x = np.array([0.5, 0.7, 1.1, 0.1])
    for name in ("genextreme", "genpareto", "skewnorm"):
        logpdf = getattr(scipy.stats, name).logpdf
        (together,) = ct.gradient(lambda c, f=logpdf: np.sum(f(x, c)), c)
        alone = [ct.gradient(lambda c, x=x, f=logpdf: f(x, c), ci)[0]
                 for ci, x in zip(c.tolist(), x.tolist(), strict=True)]  # fmt: skip
        np.testing.assert_allclose(together, alone, rtol=1e-12)
        assert np.all(together != 0)


def test_kinks_that_cancel():
    x = 0.7
    for dist in (scipy.stats.vonmises, scipy.stats.vonmises_line):
        (derivative,) = ct.gradient(lambda kappa, d=dist: d.logpdf(x, kappa), 0.0)
        assert derivative == pytest.approx(math.cos(x))
        assert ct.gradient(dist.entropy, 0.0)[0] == pytest.approx(0.0)
    assert ct.gradient(lambda b: scipy.stats.rice.pdf(1.3, b), 0.0)[0] == pytest.approx(0.0)
    q, beta = ct.gradient(lambda q, beta: scipy.stats.gennorm.ppf(q, beta), 0.5, 3.0)
    assert q == pytest.approx(1 / scipy.stats.gennorm.pdf(0.0, 3.0))
    assert beta == 0


@pytest.mark.parametrize(
    ("name", "method", "given", "parameter"),
    [
        ("ncx2", "logpdf", (1.0, 2.0, 0.0), "nc"),
        ("pearson3", "logpdf", (0.3, 0.0), "skew"),
        ("pearson3", "cdf", (0.3, 1e-3), "skew"),
        ("triang", "cdf", (0.3, 1.0), "c"),
        ("genextreme", "var", (0.0,), "c"),
        ("genhyperbolic", "cdf", (0.3, 0.5, 1.0, 0.0), "p"),
        ("geninvgauss", "cdf", (0.3, 2.3, 1.5), "p"),
        pytest.param(
            *("norminvgauss", "sf", (0.3, 1.25, 0.5), "a"),
            # Its code can be followed from then on.
            marks=pytest.mark.skipif(Version(scipy.__version__) >= Version("1.18"), reason="SciPy"),
        ),
        ("vonmises_line", "cdf", (0.3, 2.0), "kappa"),
    ],
)
def test_what_has_no_derivative_is_refused_by_name(name, method, given, parameter):
    function = getattr(getattr(scipy.stats, name), method)
    with pytest.raises(ct.NotDifferentiableError, match=rf"{name}\.(\w+):.*\b{parameter}\b"):
        ct.gradient(function, *given, wrt=tuple(range(method != "var", len(given))))
    if method != "var":
        assert np.isfinite(ct.gradient(function, *given, wrt=0)[0])


@pytest.mark.parametrize("power", [0.0, 1e-9, 1e-4, 0.5])
def test_boxcox_llf(power):
    x = np.array([1.0, 2.0, 4.5, 0.5])
    (derivative,) = ct.gradient(lambda p: scipy.stats.boxcox_llf(p, x), power)

    def likelihood(p):
        y = scipy.special.boxcox(x, p)
        return (p - 1) * np.log(x).sum() - len(x) / 2 * np.log(np.var(y))

    h = 1e-5
    expected = (likelihood(power + h) - likelihood(power - h)) / (2 * h)
    assert derivative == pytest.approx(expected, rel=1e-7, abs=1e-8)
