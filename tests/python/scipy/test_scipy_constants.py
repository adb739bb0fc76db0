"""SciPy's functions of constants among active values, and corners that its own tests know."""

import numpy as np
import pytest

import cotan as ct

integrate = pytest.importorskip("scipy.integrate")
interpolate = pytest.importorskip("scipy.interpolate")
linalg = pytest.importorskip("scipy.linalg")
ndimage = pytest.importorskip("scipy.ndimage")
signal = pytest.importorskip("scipy.signal")
stats = pytest.importorskip("scipy.stats")


def recorded(f):
    """Give what f gives while something is recorded."""
    out = []
    ct.gradient(lambda x: (out.append(f()), x)[1], 1.0)
    return out[0]


TIMES = np.arange(8.0)
VALUES = np.array([0.0, 1.0, 0.5, 2.0, 1.0, 3.0, 2.0, 4.0])


def test_a_smoothing_spline_of_constants():
    def f(x, values):
        return interpolate.UnivariateSpline(TIMES, values, s=1.0)(x)

    spline = interpolate.UnivariateSpline(TIMES, VALUES, s=1.0)
    g, none = ct.gradient(f, 2.5, ct.const(VALUES))
    assert none is None
    np.testing.assert_allclose(g, spline(2.5, nu=1))
    with pytest.raises(TypeError, match="smoothing spline"):
        ct.gradient(f, 2.5, VALUES)


def test_what_a_rule_refuses_is_computed_of_constants():
    a = np.diag([2.0, 3.0]) + 0.5
    value = recorded(lambda: linalg.eigvals(ct.array(a), homogeneous_eigvals=True))
    np.testing.assert_allclose(np.asarray(value), linalg.eigvals(a, homogeneous_eigvals=True))
    with pytest.raises(TypeError, match="no derivative rule"):
        ct.gradient(lambda a: np.sum(abs(linalg.eigvals(a, homogeneous_eigvals=True))), a)


def test_what_is_computed_of_constants_can_be_written_to():
    def f(x, values):
        smooth = interpolate.splev(TIMES, interpolate.splrep(TIMES, values, s=1.0))
        smooth[0] = x
        return np.sum(smooth**2)

    assert ct.gradient(f, 2.5, ct.const(VALUES)) == (5.0, None)


def test_exceptions_are_those_of_scipy():
    with pytest.raises(ValueError, match="Singular matrix|at least 5"):
        recorded(lambda: interpolate.make_smoothing_spline(ct.array(TIMES[:4]), VALUES[:4]))


@pytest.mark.parametrize(
    "f",
    [
        lambda w: signal.convolve(w, [1, 2]),
        lambda w: signal.correlate(w, [1, 2], method="fft"),
        lambda w: signal.convolve2d(w.reshape(2, 3), [[1, 1]]),
        lambda w: ndimage.uniform_filter1d(w, 4),
        lambda w: ndimage.black_tophat(w > 4, structure=np.ones(3, bool)),
        lambda w: ndimage.gaussian_gradient_magnitude(w, 1.0),
    ],
)
def test_whole_numbers_are_computed_as_scipy_does(f):
    whole = np.array([3, 2, 5, 1, 7, 6])
    expected = f(whole)
    mine = np.asarray(recorded(lambda: f(ct.array(whole))))
    np.testing.assert_array_equal(mine, expected)
    assert mine.dtype == expected.dtype


def test_whole_numbers_are_written_to_what_is_given():
    whole = np.array([3, 2, 5, 1, 7, 6])
    out = ct.array(np.zeros(6))
    assert recorded(lambda: ndimage.uniform_filter(ct.array(whole), 3, output=out)) is out
    expected = ndimage.uniform_filter(whole, 3, output=np.zeros(6))
    np.testing.assert_array_equal(np.asarray(out), expected)


# --------------------------------------------------------------------------------------------------
# Corners


def test_odeint_where_no_time_passes():
    def f(y0, t):
        return np.sum(integrate.odeint(lambda y, t: t - y, y0, t))

    g, h = ct.gradient(f, np.array([1.0]), np.zeros(3))
    np.testing.assert_allclose(g, [3.0])
    np.testing.assert_allclose(h, [2.0, -1.0, -1.0])
    assert ct.pullback(f, np.array([1.0]), np.zeros(3))[0] == 3.0


@pytest.mark.parametrize("scale", [1e-180, 1.0, 1e200])
def test_pearsonr_of_tiny_and_of_huge_numbers(scale):
    x, y = np.array([2.3, 4.5, 6.7, 8.0]), np.array([0.12, 5.5, 33.0, 1.0])
    r, back = ct.pullback(lambda y: stats.pearsonr(x, y)[0], y * scale)
    np.testing.assert_allclose(r, stats.pearsonr(x, y)[0])
    (usual,) = ct.gradient(lambda y: stats.pearsonr(x, y)[0], y)
    np.testing.assert_allclose(np.asarray(back(1.0)[0]) * scale, usual)


def test_dtypes_of_float32():
    x, y = np.array([0.0, 1.0, 2.0], "f4"), np.array([1.0, 0.0, 2.0], "f4")
    out = []
    ct.gradient(lambda x: out.append(stats.pearsonr(x, y)[0]) or np.sum(x), x)
    ct.gradient(lambda a: out.append(signal.lfilter_zi(y[2:], a)) or np.sum(a), y + 1)
    assert [o.dtype for o in out] == [np.float32, np.float32]


def test_the_leading_coefficient_counts_where_it_is_one():
    b, a = np.array([0.5, 1.0, 0.2]), np.array([1.0, 0.5, 1.5])
    y, x = np.array([4.3, 3.1]), np.array([5.0, 4.0])

    def f(a0):
        return np.sum(signal.lfiltic(b, np.concatenate([[a0], a[1:]]), y, x))

    slope = (f(1.0 + 1e-6) - f(1.0 - 1e-6)) / 2e-6
    np.testing.assert_allclose(ct.gradient(f, 1.0)[0], slope, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:`pade` is deprecated:DeprecationWarning")
def test_pade_of_a_series():
    series = np.array([1.0, 1.0, 0.5, 1 / 6, 1 / 24])

    def f(series):
        p, q = interpolate.pade(series, 2)
        return p(0.5) / q(0.5)

    slope = [(f(series + e) - f(series - e)) / 2e-6 for e in np.eye(5) * 1e-6]
    np.testing.assert_allclose(ct.gradient(f, series)[0], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.skipif(not hasattr(stats, "power"), reason="newer")
def test_what_scipy_looks_at_in_a_generators_methods():
    def f():
        rng = np.random.default_rng(2549598345528)
        drawn = rng.normal, lambda size: rng.normal(loc=1, size=size)
        return stats.power(stats.ttest_ind, drawn, (10, 12), significance=0.05, n_resamples=50)

    np.testing.assert_allclose(np.asarray(recorded(f).pvalues), f().pvalues)


def test_knots_that_are_inserted():
    def f():
        knots = np.array([0.0, 0, 0, 0, 5, 10, 10, 10, 10])
        spline = interpolate.BSpline(knots, np.array([1.0, 2, 3, 4, 5]), 3)
        return spline.insert_knot(8, m=2)

    np.testing.assert_allclose(np.asarray(recorded(f).c), f().c)
    np.testing.assert_allclose(np.asarray(recorded(f).t), f().t)


def test_an_active_level_of_an_interval_is_refused():
    found = stats.binomtest(3, 15, 0.1)
    with pytest.raises(ct.NotDifferentiableError, match="proportion_ci"):
        ct.gradient(lambda level: found.proportion_ci(level).low, 0.95)
    assert (
        recorded(lambda: found.proportion_ci(np.float64(0.9)).low) == found.proportion_ci(0.9).low
    )


@pytest.mark.filterwarnings("ignore:`scipy.odr` is deprecated")
def test_orthogonal_distances_are_for_constants():
    odr = pytest.importorskip("scipy.odr")

    def f(a=0.0):
        x = np.linspace(0, 5, 20)
        data = odr.RealData(x, 2 * x + 3 + np.sin(x) / 9 + a, sx=0.1)
        return odr.ODR(data, odr.Model(lambda b, x: b[0] * x + b[1]), [1.0, 1.0]).run().beta

    def moved(a):
        model = odr.Model(lambda b, x: b[0] * x + a)
        return odr.ODR(odr.Data(TIMES, VALUES), model, [1.0]).run().beta[0]

    np.testing.assert_allclose(recorded(f), f())
    for active in (lambda a: f(a)[0], moved):
        with pytest.raises(ct.NotDifferentiableError, match=r"scipy\.odr\.ODR\.run"):
            ct.gradient(active, 0.5)
        with pytest.raises(ct.NotDifferentiableError, match=r"scipy\.odr\.ODR\.run"):
            ct.prepare(active, 0.5)(0.5)
    np.testing.assert_allclose(recorded(f), f())


def test_quantiles_of_a_distribution_whose_shape_is_a_list():
    if not hasattr(stats, "poisson_binom"):
        pytest.skip("newer")
    p = [0.1, 0.6, 0.7, 0.8]
    found = recorded(lambda: stats.poisson_binom.ppf(np.array([0.3, 0.5]), p))
    np.testing.assert_array_equal(np.asarray(found), stats.poisson_binom.ppf([0.3, 0.5], p))
    with pytest.raises(ct.NotDifferentiableError, match=r"poisson_binom\.ppf"):
        ct.gradient(lambda q: stats.poisson_binom.ppf(q, p), 0.5)
