"""Discrete distributions under a gradient: at the ends of probabilities, and their sums."""

import numpy as np
import pytest
from scipy import stats
from scipy_cases import check

import cotan as ct

K = np.array([0, 1, 2, 5])


def one_sided(f, p, step=1e-7):
    with np.errstate(all="ignore"):
        return (f(p + step) - f(p)) / step


@pytest.mark.parametrize(
    ("name", "shapes", "counts"),
    [
        ("binom", (8,), range(9)),
        ("bernoulli", (), range(2)),
        ("geom", (), range(1, 5)),
        ("nbinom", (3,), range(4)),
        ("nbinom", (2.5,), range(4)),
        ("poisson", (), range(4)),
    ],
)
@pytest.mark.parametrize("method", ["pmf", "cdf", "sf"])
def test_ends(name, shapes, counts, method):
    function = getattr(getattr(stats, name), method)
    ends = {"binom": (0.0, 1.0), "bernoulli": (0.0, 1.0), "poisson": (0.0,)}.get(name, (1.0,))
    for p in ends:
        for k in counts:
            found = ct.gradient(lambda p, k=k: function(k, *shapes, p) + 0 * p, p)[0]
            step = -1e-7 if p == 1 else 1e-7
            wanted = one_sided(lambda p, k=k: function(k, *shapes, p), p, step)
            np.testing.assert_allclose(found, wanted, 1e-4, 1e-4)


def test_second_derivatives_at_ends():
    cases = ((0, 0.0, 56.0), (1, 0.0, -112.0), (2, 0.0, 56.0), (3, 0.0, 0.0), (6, 1.0, 56.0))
    for k, p, wanted in cases:
        found = ct.hessian(lambda p, k=k: stats.binom.pmf(k, 8, p), p)
        np.testing.assert_allclose(found, wanted, 1e-10, 1e-10)


def test_a_transition_matrix_with_absorbing_states():
    n = 8
    i = np.arange(n + 1)

    def f(s):
        p = i / n * (1 + s) / (1 + s * i / n)
        return stats.binom.pmf(i[None], n, p[:, None])[:, 3]

    check(f, 0.01)
    np.testing.assert_allclose(
        ct.prepare(lambda s: np.sum(f(s)))(0.01)[0], ct.gradient(lambda s: np.sum(f(s)), 0.01)[0]
    )


@pytest.mark.parametrize("method", ["cdf", "sf", "logcdf", "logsf", "pmf", "logpmf"])
def test_sums_of_binomials(method):
    k = K[:3]
    check(lambda p: getattr(stats.binom, method)(k, 7, p), np.array([0.4, 0.1, 0.9]), second=True)
    check(lambda p: getattr(stats.binom(7, p), method)(k), 0.4)
    check(lambda p: getattr(stats.bernoulli, method)(0, p), 0.4)
    check(lambda n, p: getattr(stats.nbinom, method)(k, n, p), 3.5, 0.4, second=True)


def test_sums_of_hypergeometric_counts():
    # Sizes are counts, so the slope of the continued formula has no difference to compare with.
    assert stats.hypergeom.cdf(2, 20, 7, 12) == pytest.approx(
        ct.pullback(lambda m: stats.hypergeom.cdf(2, m, 7, 12), 20.0)[0]
    )
    k = np.array([1, 2, 5])
    for method in ("pmf", "cdf", "sf", "logcdf", "logsf"):
        value, back = ct.pullback(lambda m: getattr(stats.hypergeom, method)(k, m, 7, 12), 20.0)
        np.testing.assert_allclose(value, getattr(stats.hypergeom, method)(k, 20, 7, 12), 1e-9)
        slope = sum(float(back(e)[0]) for e in np.eye(3))
        if method in {"cdf", "sf"}:
            terms = np.arange(8)
            inside = terms[:, None] <= k if method == "cdf" else terms[:, None] > k
            masses = ct.jacobian(lambda m: stats.hypergeom.pmf(terms, m, 7, 12), 20.0)
            np.testing.assert_allclose(slope, np.sum(masses[:, None] * inside), 1e-9)


@pytest.mark.parametrize("method", ["ppf", "isf"])
def test_quantiles_are_piecewise_constant(method):
    for name, shapes in (("binom", (7, 0.4)), ("poisson", (2.0,)), ("geom", (0.3,))):
        function = getattr(getattr(stats, name), method)
        check(lambda loc, f=function, s=shapes: f(0.3, *s, loc), 1.5)
        assert ct.gradient(lambda p, f=function, s=shapes: f(0.3, *s[:-1], p), shapes[-1]) == (
            None,
        )
    assert ct.prepare(lambda p: stats.binom.ppf(0.3, 8, p) * p)(0.3) == (2.0,)


def test_powers_and_differences_of_counts():
    k = np.array([1, 2, 5])
    for method in ("pmf", "logpmf", "cdf", "sf", "logcdf", "logsf"):
        check(lambda a, m=method: getattr(stats.zipf, m)(k, a), 2.2, value_atol=1e-9)
        check(lambda a, m=method: getattr(stats.zipfian, m)(k, a, 9), 1.2)
        if "cdf" not in method and "sf" not in method:
            around = np.array([-3, 0, 2])
            check(lambda a, b, m=method: getattr(stats.skellam, m)(around, a, b), 2.2, 3.1)


def test_moments():
    check(lambda n, p: stats.nbinom.stats(n, p, moments="mvsk"), 3.5, 0.4)
    value, _ = ct.pullback(lambda m: stats.hypergeom.stats(m, 7, 12, moments="mvsk"), 20.0)
    np.testing.assert_allclose(value, stats.hypergeom.stats(20, 7, 12, moments="mvsk"), 1e-10)


def test_refusals_name_the_public_function():
    with pytest.raises(TypeError, match=r"scipy\.stats\.nchypergeom_fisher\.pmf: .* \(odds\)"):
        ct.gradient(lambda w: stats.nchypergeom_fisher.pmf(30, 140, 80, 60, w), 0.5)
    with pytest.raises(TypeError, match=r"scipy\.stats\.landau\.pdf: .* the points"):
        ct.gradient(lambda x: stats.landau.pdf(x), 0.5)
    with pytest.raises(TypeError, match=r"scipy\.stats\.ncx2\.sf with respect to its argument"):
        ct.gradient(lambda df: stats.ncx2.sf(2.0, df, 1.0), 3.0)


@pytest.mark.parametrize("name", ["pmf", "logpmf", "cdf", "sf"])
def test_compiled_code_of_scipy_computes_constants(name):
    method = getattr(stats.poisson_binom, name)
    chances, seen = [0.1, 0.6, 0.7, 0.8], []

    def recorded(x):
        seen.append(np.array(method(np.linspace(0.0, 3.0, 4), chances)))
        return x

    ct.gradient(recorded, 1.0)
    np.testing.assert_allclose(seen[0], method(np.arange(4), chances))
    with pytest.raises(TypeError, match="poisson_binom"):
        ct.gradient(lambda p: np.sum(method(np.arange(4), [p, 0.6, 0.7, 0.8])), 0.1)
