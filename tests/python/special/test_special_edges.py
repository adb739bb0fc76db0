"""Slopes of `scipy.special` against mpmath, at edges, and where formulas meet or cancel."""

import mpmath
import numpy as np
import pytest
import scipy.special as sp
from scipy import stats
from special_cases import ARGUMENTS, NAMES, SCIPY, ufunc

import cotan as ct
import cotan._src.special.functions  # enters its functions


@pytest.mark.parametrize(
    ("name", "reference", "points"),
    [
        ("gammaln", lambda x: mpmath.log(mpmath.gamma(x)), [1e-3, 0.5, 1.4616, 30.0, 1e5]),
        ("psi", lambda x: mpmath.psi(0, x), [1e-3, 0.5, 1.4616, 30.0, -2.5]),
        ("erfcx", lambda x: mpmath.exp(x * x) * mpmath.erfc(x), [-2.0, 0.0, 1.0, 10.0]),
        ("j1", lambda x: mpmath.besselj(1, x), [0.0, 1e-4, 3.8, 30.0]),
        ("i0e", lambda x: mpmath.exp(-x) * mpmath.besseli(0, x), [1e-4, 1.0, 40.0]),
        ("ellipk", mpmath.ellipk, [-1e6, -1e3, -5.0, 0.0, 1e-9, 0.5, 0.99]),
        ("ellipe", mpmath.ellipe, [-5.0, 0.0, 1e-9, 0.5, 0.99]),
        ("exprel", lambda x: mpmath.expm1(x) / x if x else mpmath.mpf(1), [-9.0, -1e-7, 1e-7, 3.0]),
        ("rgamma", mpmath.rgamma, [-3.0, -2.0, 0.0, 0.5, 3.0]),
        ("spence", lambda x: mpmath.polylog(2, 1 - x), [0.2, 1.0, 1.0001, 1.9, 7.0]),
        ("log_ndtr", lambda x: mpmath.log(mpmath.ncdf(x)), [-30.0, -5.0, 0.0, 6.0, 9.0]),
        ("sici", mpmath.si, [-2.0, 1e-5, 1.0, 20.0]),
    ],
)
def test_derivatives_against_mpmath(name, reference, points):
    def function(x):
        y = ufunc(name)(x)
        return y[0] if isinstance(y, tuple) else y

    with mpmath.workdps(40):
        for x in points:
            for order, f in enumerate([function, ct.grad(function), ct.grad(ct.grad(function))]):
                expected = float(mpmath.diff(reference, mpmath.mpf(x), order).real)
                actual = float(np.asarray(f(ct.array(x)) if order == 0 else f(x)))
                np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(
    ("name", "reference", "at"),
    [
        *[("beta", mpmath.beta, at) for at in [(-2.5, 1.5), (-0.5, -0.5), (1.5, -2.5)]],
        *[("beta", mpmath.beta, at) for at in [(-200.5, 190.5), (150.5, -200.5)]],
        *[("binom", mpmath.binomial, at) for at in [(3.0, 5.0), (3.5, -2.0), (3.0, -1.0)]],
        *[("binom", mpmath.binomial, at) for at in [(-2.5, 2.5), (200.0, 201.0), (0.0, 1.0)]],
        *[("poch", mpmath.rf, at) for at in [(-2.0, 1.5), (-2.0, 3.0), (0.0, 0.5)]],
        *[("poch", mpmath.rf, at) for at in [(-180.0, 1.5), (-171.0, 0.5)]],
    ],
)
def test_quotients_of_gamma_functions_where_the_lower_one_has_a_pole(name, reference, at):
    """The quotient is 0 there, and has derivatives of any order."""
    h = mpmath.mpf(10) ** -10

    def along(i, g):
        def step(z, by):
            return g(*[v + by * (k == i) for k, v in enumerate(z)])

        return lambda *z: (step(z, h) - step(z, -h)) / (2 * h)

    with mpmath.workdps(50):
        exact = [mpmath.mpf(x) for x in at]
        slopes = [along(i, reference) for i in range(2)]
        first = [float(s(*exact).real) for s in slopes]
        second = [[float(along(j, s)(*exact).real) for j in range(2)] for s in slopes]
    np.testing.assert_allclose(ct.gradient(ufunc(name), *at), first, rtol=1e-11)
    for i in range(2):
        found = ct.gradient(lambda *z, i=i: ct.gradient(ufunc(name), *z)[i], *at)
        np.testing.assert_allclose(found, second[i], rtol=1e-9, atol=1e-60)


def test_a_beta_function_where_two_poles_cancel():
    for (a, b), slope in {(-2.0, 1.0): -1 / 4, (-3.0, 2.0): 5 / 36}.items():
        assert ct.grad(lambda a, b=b: sp.beta(a, b))(a) == pytest.approx(slope, rel=1e-13)
        assert ct.grad(lambda a, b=b: sp.beta(b, a))(a) == pytest.approx(slope, rel=1e-13)


@pytest.mark.parametrize(
    ("z", "m", "slope"), [(-2.0, 1.0, 1.0), (-2.0, 2.0, -3.0), (-4.0, 3.0, 26)]
)
def test_rising_factorials_of_whole_numbers_left_of_zero_are_polynomials(z, m, slope):
    assert ct.grad(lambda z: sp.poch(z, m))(z) == pytest.approx(slope, rel=1e-13)


SHAPES = [0.1, 0.5, 1.0, 2.5, 20.0, 200.0]


def slope_by_shape(reference, at):
    """The derivative of a function of mpmath's, exact to the digits of a float."""
    with mpmath.workdps(60):
        return float(mpmath.diff(reference, mpmath.mpf(at), h=mpmath.mpf(10) ** -25))


@pytest.mark.parametrize("a", SHAPES)
@pytest.mark.parametrize("share", [1e-3, 0.1, 0.7, 0.97, 1.0, 1.03, 1.5, 4.0])
def test_gamma_functions_by_their_shape(a, share):
    """Below the mean of the logarithm, about it and above it, where the slope is tiny."""
    x = a * share
    sign, ends = (1, (0, x)) if share < 1 else (-1, (x, mpmath.inf))
    expected = sign * slope_by_shape(lambda a: mpmath.gammainc(a, *ends, regularized=True), a)
    for name, sign in (("gammainc", 1), ("gammaincc", -1)):
        (slope,) = ct.gradient(lambda a, name=name: ufunc(name)(a, x), a)
        assert sign * slope == pytest.approx(expected, rel=1e-11, abs=0)


@pytest.mark.parametrize("a", SHAPES)
@pytest.mark.parametrize("b", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("x", [1e-3, 0.3, 0.5, 0.9, 0.999])
def test_beta_functions_by_their_shapes(a, b, x):
    def reference(a, b):
        with mpmath.workdps(120):
            return mpmath.betainc(a, b, 0, x, regularized=True)

    by_a, by_b, _ = ct.gradient(lambda a, b, x: ufunc("betainc")(a, b, x), a, b, x)
    with mpmath.workdps(120):
        expected = slope_by_shape(lambda a: reference(a, b), a)
        assert by_a == pytest.approx(expected, rel=1e-11, abs=1e-60)
        expected = slope_by_shape(lambda b: reference(a, b), b)
        assert by_b == pytest.approx(expected, rel=1e-11, abs=1e-60)


@pytest.mark.parametrize("df", [0.2, 1.0, 2.5, 30.0, 200.0])
@pytest.mark.parametrize("t", [-30.0, -2.0, -1e-3, 0.5, 8.0])
def test_students_distribution_by_its_degrees_of_freedom(df, t):
    def reference(df):
        tail = mpmath.betainc(df / 2, 0.5, 0, df / (df + t * t), regularized=True) / 2
        return tail if t < 0 else 1 - tail

    (slope,) = ct.gradient(lambda df: ufunc("stdtr")(df, t), df)
    assert slope == pytest.approx(slope_by_shape(reference, df), rel=1e-9, abs=0)


def test_slopes_by_shapes_at_the_ends():
    for t in (0.0, np.inf, 1e-300, 1e300):
        assert ct.gradient(lambda a, t=t: ufunc("gammainc")(a, t), 2.0)[0] == 0.0
    ends = [ct.gradient(lambda a, t=t: ufunc("betainc")(a, 2.0, t), 1.5)[0] for t in (0.0, 1.0)]
    assert ends == [0.0, 0.0]
    assert ct.gradient(lambda df: ufunc("stdtr")(df, 0.0), 3.0) == (0.0,)
    for a in (0.0, -1.0, np.nan):
        assert np.isnan(ct.gradient(lambda a: ufunc("gammainc")(a, 1.0), a)[0])
    narrow = np.array([0.5, 2.0], np.float32)
    slope = ct.gradient(lambda a: ct.sum(ufunc("gammainc")(a, np.float32(1.2))), narrow)[0]
    assert slope.dtype == np.float32
    wide = ct.gradient(lambda a: ct.sum(ufunc("gammainc")(a, 1.2)), narrow.astype(float))[0]
    np.testing.assert_allclose(slope, wide, rtol=1e-5)


def test_slopes_far_out():
    slope, bend = ct.grad(sp.spence), ct.grad(ct.grad(sp.spence))
    for z in (1e-30, 1e16, 1e100):
        assert slope(z) == pytest.approx(np.log(z) / (1 - z))
        expected = 1 / (z * (1 - z)) + np.log(z) / (1 - z) ** 2
        assert bend(z) == pytest.approx(expected, rel=1e-9, abs=0)
    # K(m) is log(16 * |m|) / (2 * sqrt(|m|)) far to the left.
    for m in (-1e14, -1e30):
        expected = (np.log(-16 * m) / 2 - 1) / 2 * (-m) ** -1.5
        assert ct.grad(sp.ellipk)(m) == pytest.approx(expected, rel=1e-9, abs=0)
    for function in (sp.i0e, sp.i1e, sp.k0e, sp.k1e):
        assert abs(ct.grad(ct.grad(function))(1e12)) < 1e-20


EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 30.0, -30.0, 1e300, 1e-300, np.inf, -np.inf, np.nan])


# 0 in SciPy where delta is not finite and r is 0; an overflow in SciPy.
ELSEWHERE = {"pseudo_huber", "kl_div"}


@pytest.mark.parametrize("name", [n for n in NAMES if n in SCIPY or len(ARGUMENTS[n]) == 1])
def test_edges_have_the_values_of_scipy(name):
    function = ufunc(name)
    if name in ELSEWHERE or name == "wofz":
        return
    grid = np.meshgrid(*[EDGES] * function.nin)
    with np.errstate(all="ignore"):
        expected = function(*grid)
    actual = function(*map(ct.array, grid))
    if not isinstance(expected, tuple):
        expected, actual = (expected,), (actual,)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), e, rtol=1e-12)


def test_kinks_and_poles():
    def slope(name, *args):
        x = np.array(args[-1])
        return float(ct.gradient(lambda x: ct.sum(ufunc(name)(*args[:-1], x)), x)[0])

    assert slope("i0e", 0.0) == 0.0
    assert slope("rgamma", -2.0) == pytest.approx(2.0)
    assert slope("expn", 0, 1.0) == pytest.approx(-2 * np.exp(-1))
    assert slope("eval_legendre", 3, 1.0) == pytest.approx(6.0)
    assert slope("eval_chebyt", 0, 0.3) == 0.0
    assert slope("gammainc", 1.0, 0.0) == 1.0
    assert slope("boxcox", 0.0, 2.0) == pytest.approx(0.25)
    assert np.isinf(slope("erfinv", 1.0))
    assert np.isnan(slope("gamma", -1.0))


def test_slopes_where_formulas_meet():
    # Zero times a logarithm is 0; its slope is the logarithm.
    y = np.array([0.2, 1.0, 5.0])
    (slope,) = ct.gradient(lambda x: np.sum(sp.xlogy(x, y)), np.zeros(3))
    np.testing.assert_allclose(slope, np.log(y))
    (slope,) = ct.gradient(lambda x: np.sum(sp.xlog1py(x - 1, y)), np.ones(3))
    np.testing.assert_allclose(slope, np.log1p(y))
    for edge in (0.0, np.inf):
        value, slopes = ct.value_and_gradient(lambda x, y: sp.xlogy(x, y), 0.0, edge)
        assert (value, *slopes) == (0.0, 0.0, 0.0)
    assert np.isnan(sp.xlogy(ct.array(0.0), np.nan))
    (slope,) = ct.gradient(lambda a: stats.dirichlet.logpdf([0.2, 0.8], a), np.ones(2))
    np.testing.assert_allclose(slope, np.log([0.2, 0.8]) + 1)
    # R_C where its arguments are equal, and near to that.
    for x in (1.0, 1.001, 1.06):
        dx, dy = ct.gradient(lambda x, y: sp.elliprc(x, y), x, 1.0)
        step = 1e-5
        near = (sp.elliprc(x + step, 1.0) - sp.elliprc(x - step, 1.0)) / (2 * step)
        assert abs(dx - near) < 1e-9
        near = (sp.elliprc(x, 1.0 + step) - sp.elliprc(x, 1.0 - step)) / (2 * step)
        assert abs(dy - near) < 1e-9
    bend = ct.grad(ct.grad(lambda x: sp.elliprc(x, 1.0)))(1.0)
    assert abs(bend - 0.15) < 1e-12
    assert abs(ct.gradient(lambda y: sp.elliprc(0.0, y), 1.0)[0] + np.pi / 4) < 1e-12


@pytest.mark.parametrize(
    "point", [(1, 1, 2), (1, 1, 1), (1, 2, 1), (2, 1, 1.05), (1, 30, 1.001), (3, 0.1, 3.5)]
)
def test_integrals_of_carlson_at_arguments_that_coincide(point):
    with mpmath.workdps(40):
        exact = {
            "elliprd": lambda x, y, z: mpmath.elliprj(x, y, z, z),
            "elliprf": mpmath.elliprf,
            "elliprg": mpmath.elliprg,
        }
        for name, of in exact.items():
            g = ct.gradient(getattr(sp, name), *map(float, point))
            for i in range(3):

                def along(t, i=i, of=of):
                    return of(*(t if k == i else mpmath.mpf(p) for k, p in enumerate(point)))

                slope = float(mpmath.diff(along, point[i]))
                np.testing.assert_allclose(g[i], slope, 1e-13, err_msg=f"{name}, {i}")
            # The second derivative, along all three.
            first = ct.gradient(lambda s, name=name: sum(
                ct.gradient(getattr(sp, name), *(p + s for p in point))[::2]), 0.0)[0]  # fmt: skip

            def moved(s, of=of):
                return sum(
                    mpmath.diff(
                        lambda t, i=i: of(
                            *(p + s + (t if k == i else 0) for k, p in enumerate(point))
                        ),
                        0,
                    )
                    for i in (0, 2)
                )

            np.testing.assert_allclose(first, float(mpmath.diff(moved, 0)), 1e-9)


def test_integrals_of_carlson_where_one_argument_is_zero():
    x, y, z = ct.gradient(sp.elliprd, 0.0, 1.0, 2.0)
    assert x == -np.inf
    step = 1e-5
    np.testing.assert_allclose(
        [y, z],
        [
            (sp.elliprd(0, 1 + step, 2) - sp.elliprd(0, 1 - step, 2)) / (2 * step),
            (sp.elliprd(0, 1, 2 + step) - sp.elliprd(0, 1, 2 - step)) / (2 * step),
        ],
        1e-8,
    )
    np.testing.assert_allclose(
        ct.gradient(sp.elliprg, 0.0, 1.0, 1.0), np.pi / np.array([8, 16, 16])
    )


def test_the_derivative_of_psi_far_to_the_left():
    x = np.array([-1e15 + 0.5, -3e7 - 0.25, -1000.3, -20.7, -19.7, 1e300])
    (g,) = ct.gradient(lambda x: np.sum(sp.psi(x)), x)
    with mpmath.workdps(40):
        exact = [float(mpmath.psi(1, mpmath.mpf(v))) for v in x[2:5]]
    np.testing.assert_allclose(g[2:5], exact, 1e-13)
    np.testing.assert_allclose(g[[0, 1, 5]], [np.pi**2, 2 * np.pi**2, 1e-300], 1e-6)
    assert ct.gradient(sp.psi, -30.0) == (np.inf,)


def test_nothing_to_choose_has_no_slope():
    n, k = np.array([-1.0, 2.0, 5.0, 5.0]), np.array([0.0, 3.0, -1.0, 2.0])
    for g in (
        *ct.gradient(lambda n, k: np.sum(sp.comb(n, k)), n, k),
        ct.gradient(lambda n: np.sum(sp.perm(n, k)), n)[0],
    ):
        assert np.all(g[:3] == 0)
        assert g[3] != 0


@pytest.mark.parametrize(
    ("name", "args"),
    [
        *(("binom", p) for p in [(0.0, 2.0), (1.0, 2.0), (5.0, -1.0), (5.0, 10.0), (2.5, 3.5)]),
        *(("binom", p) for p in [(4.0, 2.0), (-0.5, -2.0), (3.0, 0.0)]),
        *(("poch", p) for p in [(0.0, 2.15), (-1.0, 2.15), (-3.0, 0.5), (2.0, 1.5)]),
        *((name, (0.0,)) for name in ("berp", "beip", "it2struve0")),
    ],
)
def test_slopes_where_a_factor_vanishes(name, args):
    function, step = getattr(sp, name), 1e-4
    g = ct.gradient(function, *args)
    for i, slope in enumerate(g):
        moves = [tuple(a + (d * step if j == i else 0) for j, a in enumerate(args))
                 for d in (-2, -1, 1, 2)]  # fmt: skip
        a, b, c, d = (function(*m) for m in moves)
        np.testing.assert_allclose(slope, (8 * (c - b) - (d - a)) / (12 * step), 1e-7, 1e-10)


def test_first_of_two_integrals_at_zero():
    for function in (sp.it2j0y0, sp.it2i0k0):
        assert ct.gradient(lambda x, function=function: function(x)[0], 0.0) == (0.0,)


def test_the_mean_of_gauss_near_zero():
    assert ct.gradient(lambda a: sp.agm(a, 2.5), 0.0) == (np.inf,)
    with mpmath.workdps(60):
        exact = mpmath.diff(lambda a: mpmath.agm(a, 2.5), mpmath.mpf(10) ** -20, h=1e-26)
    np.testing.assert_allclose(ct.gradient(lambda a: sp.agm(a, 2.5), 1e-20)[0], float(exact), 1e-9)
    np.testing.assert_allclose(ct.gradient(sp.agm, 1.5, 1.5), 0.5)


def test_legendre_functions_at_the_ends():
    x = np.array([1.0, -1.0])
    for m, v in [(0, 0), (0, 3), (0, 4), (2, 1), (2, 2), (2, 5), (3, 4), (4, 4), (-2, 3)]:
        g = ct.gradient(lambda x, m=m, v=v: np.sum(sp.lpmv(m, v, x)), x)[0]
        step = 1e-7
        inside = x - np.sign(x) * step
        slope = (sp.lpmv(m, v, x) - sp.lpmv(m, v, inside)) / (x - inside)
        np.testing.assert_allclose(g, slope, 1e-3, 0.1, err_msg=f"{m}, {v}")
    for m in (1, -1):
        for v in (1, 2, 3):
            g = ct.gradient(lambda x, m=m, v=v: np.sum(sp.lpmv(m, v, x)), x)[0]
            slope = sp.lpmv(m, v, x) - sp.lpmv(m, v, x * (1 - 1e-9))
            np.testing.assert_array_equal(g, np.sign(slope) * np.sign(x) * np.inf)


# At infinity, at 0 and at 1: the limit, or infinity with its sign.
SLOPES_AT_EDGES = [
    (lambda x: sp.gammainc(2.0, x), np.inf, 0.0), (lambda x: sp.chdtr(2.0, x), np.inf, 0.0),
    (lambda y: sp.gammaincinv(2.0, y), 1.0, np.inf),
    (lambda y: sp.gammainccinv(2.0, y), 0.0, -np.inf),
    (lambda x: sp.fdtr(2.0, 3.0, x), np.inf, 0.0), (lambda p: sp.fdtri(2.0, 3.0, p), 1.0, np.inf),
    (lambda p: sp.chdtri(2.0, p), 0.0, -np.inf), (lambda m: sp.pdtr(2, m), np.inf, 0.0),
    (lambda p: sp.pdtri(2, p), 0.0, -np.inf), (lambda df: sp.stdtr(df, 0.7), np.inf, 0.0),
    (lambda t: sp.stdtr(np.inf, t), 0.7, stats.norm.pdf(0.7)),
    (lambda p: sp.stdtrit(np.inf, p), 0.7, 1 / stats.norm.pdf(stats.norm.ppf(0.7))),
    (sp.exprel, np.inf, np.inf), (sp.exprel, -np.inf, 0.0), (sp.dawsn, np.inf, 0.0),
    (sp.erfcx, np.inf, 0.0), (sp.rgamma, np.inf, 0.0), (sp.ndtri_exp, -np.inf, 0.0),
    (sp.ndtri, 0.0, np.inf), (sp.ndtri, 1.0, np.inf), (sp.k0e, 0.0, -np.inf),
    (sp.k1e, 0.0, -np.inf), (lambda x: sp.kve(1.5, x), 0.0, -np.inf), (sp.y1, 0.0, np.inf),
    (lambda x: sp.yn(3, x), 0.0, np.inf), (lambda x: sp.yv(0.5, x), 0.0, np.inf),
    (lambda y: sp.rel_entr(0.5, y), 0.0, -np.inf), (lambda y: sp.kl_div(0.5, y), 0.0, -np.inf),
    (lambda x: sp.rel_entr(x, 0.0), 0.5, np.inf), (lambda x: sp.betainc(2.0, 1.0, x), 1.0, 2.0),
    (lambda x: sp.betainc(0.5, 1.0, x), 0.0, np.inf), (lambda p: sp.boxcox(2.5, p), np.inf, np.inf),
]  # fmt: skip


@pytest.mark.parametrize("i", range(len(SLOPES_AT_EDGES)))
def test_slopes_at_edges(i):
    function, x, slope = SLOPES_AT_EDGES[i]
    np.testing.assert_allclose(ct.gradient(function, x)[0], slope, rtol=1e-12)


@pytest.mark.parametrize("x", [55.0, 1e3, 1e6])
def test_slopes_do_not_cancel_far_out(x):
    with mpmath.workdps(60):
        z, root = mpmath.mpf(x), mpmath.sqrt(mpmath.pi)
        dawsn = 1 - z * root * mpmath.exp(-z * z) * mpmath.erfi(z)
        erfcx = 2 * z * mpmath.exp(z * z) * mpmath.erfc(z) - 2 / root
    for at, function, slope in ((x, sp.dawsn, dawsn), (-x, sp.dawsn, dawsn), (x, sp.erfcx, erfcx)):
        np.testing.assert_allclose(ct.gradient(function, at)[0], float(slope), rtol=1e-11)


@pytest.mark.parametrize("a", [3.0, 1e3, 1e5])
def test_single_precision_of_large_parameters(a):
    """What nearly cancels is computed in double precision: slopes are good to what is given."""
    x = np.float32(a + np.sqrt(a) / 2)
    a = np.float32(a)
    for function in (
        sp.gammainc, sp.gammaincc, lambda a, x: sp.chdtr(2 * a, 2 * x), sp.pdtr,
        lambda a, x: sp.betainc(a, a, 0.5 + (x - a) / a / 8), lambda a, x: sp.fdtr(a, a, x / a),
        lambda a, x: sp.stdtr(a, (x - a) / np.sqrt(a)), lambda a, x: sp.betaln(a, x * 0 + 2.5),
        lambda a, x: sp.gammaincinv(a, x * 0 + np.float32(0.3)),
    ):  # fmt: skip
        narrow = ct.gradient(function, ct.array(a), ct.array(x))
        wide = ct.gradient(function, float(a), float(x))
        for found, expected in zip(narrow, wide, strict=True):
            if expected is not None:
                assert found.dtype == np.float32
                np.testing.assert_allclose(found, expected, rtol=5e-4)


@pytest.mark.parametrize("name", ["erfinv", "gammaln", "k0", "ndtri", "psi", "spence", "y0"])
def test_a_branch_that_is_not_taken_adds_nothing(name):
    function, x = ufunc(name), np.array([0.4, 0.7])

    def chosen(x):
        beyond = np.append(x - 3.0, -np.ones(2))  # outside of the domain, or at a pole
        return np.sum(np.where(beyond < 0, 2 * np.append(x, x), function(beyond)))

    np.testing.assert_array_equal(ct.gradient(chosen, x)[0], [4.0, 4.0])
    np.testing.assert_array_equal(ct.hessian(chosen, x), np.zeros((2, 2)))
    table = ct.gradient(
        lambda x: np.sum(np.select([x > 1e9, x < 1e9], [function(x - 1.7), x])), np.array([0.7])
    )
    np.testing.assert_array_equal(table[0], [1.0])


def test_slopes_count_at_second_order_where_the_first_is_zero():
    root = 2.404825557695773  # of j0
    expected = 2 * sp.j1(root) ** 2
    np.testing.assert_allclose(ct.hessian(lambda x: sp.j0(x) ** 2, np.array(root)), expected)


@pytest.mark.parametrize(("x", "nc"), [(1.5, 0.0), (1.5, 1e-9), (40.0, 30.0), (0.0, 1.0)])
def test_slopes_of_noncentral_chi_square(x, nc):
    """Sums of central densities, by Poisson's weights."""

    def density(df):
        terms = [
            mpmath.exp(-mpmath.mpf(nc) / 2) * (mpmath.mpf(nc) / 2) ** j / mpmath.factorial(j)
            * mpmath.mpf(x) ** (df / 2 + j - 1) * mpmath.exp(-mpmath.mpf(x) / 2)
            / (2 ** (df / 2 + j) * mpmath.gamma(df / 2 + j))
            for j in range(200)
        ]  # fmt: skip
        return float(mpmath.fsum(terms))

    slopes = ct.gradient(lambda x, nc: sp.chndtr(x, 3.0, nc), x, nc)
    np.testing.assert_allclose(slopes, [density(3), -density(5)], rtol=1e-12)


def test_zeta_functions_by_their_exponent():
    for s in (2.0, 1.5, 7.3, 30.0, 0.5, 0.0, -0.5, -1.0, -2.0, -3.7, -8.0):
        found = ct.gradient(lambda s: sp.zeta(s), s)[0]
        np.testing.assert_allclose(found, float(mpmath.zeta(s, derivative=1)), 1e-12)
    for s, q in ((2.0, 1.0), (1.1, 0.3), (3.5, 7.0), (40.0, 0.2), (1.001, 1.0), (2.0, 1e-3)):
        found = ct.gradient(lambda s, q=q: sp.zeta(s, q), s)[0]
        np.testing.assert_allclose(found, float(mpmath.zeta(s, q, 1)), 1e-12)
    second = ct.hessian(lambda s: sp.zeta(s, 1.3), 2.2)
    np.testing.assert_allclose(second, float(mpmath.zeta(2.2, 1.3, 2)), 1e-10)
    with pytest.raises(TypeError, match=r"scipy\.special\.zeta of complex numbers"):
        ct.gradient(lambda s: sp.zeta(s + 1j).real, 2.0)
