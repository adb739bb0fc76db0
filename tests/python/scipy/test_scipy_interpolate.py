"""Functions and classes of `scipy.interpolate` under a gradient."""

import numpy as np
import pytest
from scipy import interpolate
from scipy_cases import check

import cotan as ct

RNG = np.random.default_rng(1)
X = np.array([0.0, 0.7, 1.1, 2.0, 2.9, 3.3, 4.2])
Y = np.array([0.3, -0.8, 0.4, 1.7, 1.2, -0.5, 0.1])
AT = np.array([0.2, 1.0, 3.15, 2.95, 0.8, 4.1])
BEYOND = np.array([-0.5, 1.0, 4.9])
ROWS = RNG.normal(size=(2, 7, 3))


@pytest.mark.parametrize(
    "kind",
    [
        "linear",
        "nearest",
        "nearest-up",
        "previous",
        "next",
        "zero",
        "slinear",
        "quadratic",
        "cubic",
        5,
    ],
)
def test_interp1d(kind):
    check(lambda y, at: interpolate.interp1d(X, y, kind=kind)(at), Y, AT, second=kind == "cubic")
    check(lambda y: interpolate.interp1d(X, y, kind=kind, axis=1)(AT), ROWS)
    made = interpolate.interp1d(X, Y, kind=kind)
    check(lambda at: made(at), AT)
    check(lambda at: made(at), 1.3)
    with pytest.raises(ValueError, match="below"):
        ct.gradient(lambda y: np.sum(interpolate.interp1d(X, y, kind=kind)(BEYOND)), Y)


def test_interp1d_that_is_filled_with_active_values():
    at = np.array([-3.0, 0.4, 99.0])
    fill = lambda low, high, y=Y: interpolate.interp1d(
        X, y, bounds_error=False, fill_value=(low, high)
    )
    check(lambda low, high: fill(low, high)(at), np.array(0.3), np.array(1.7))
    check(lambda low, y: fill(low, 2 * low, y)(at), np.array(0.3), Y)
    check(lambda v: interpolate.interp1d(X, [1, 2, 4, 3, 5, 6, 2, 1, 0, 3, 4, 5][: len(X)],
          bounds_error=False, fill_value=v)(at), np.array(0.3))  # fmt: skip


def test_interp1d_beyond_its_ends():
    check(
        lambda y, at: interpolate.interp1d(X, y, fill_value="extrapolate")(at),
        Y,
        BEYOND,
        second=True,
    )
    check(
        lambda y, at: interpolate.interp1d(X, y, bounds_error=False, fill_value=(1.0, 2.0))(at),
        Y,
        BEYOND,
    )
    check(lambda x, y: interpolate.interp1d(x, y, fill_value="extrapolate")(AT), X + 0.01, Y)


@pytest.mark.parametrize("bc_type", ["not-a-knot", "natural", "clamped", ((1, 0.3), (2, -0.1))])
def test_cubic_spline(bc_type):
    check(lambda y, at: interpolate.CubicSpline(X, y, bc_type=bc_type)(at), Y, AT, second=True)
    check(lambda x, y: interpolate.CubicSpline(x, y, bc_type=bc_type)(AT), X, Y)
    check(lambda y: interpolate.CubicSpline(X, y, axis=1)(AT), ROWS)
    check(lambda y, at: interpolate.CubicSpline(X, y, bc_type=bc_type)(at, 1), Y, AT)
    made = interpolate.CubicSpline(X, Y, bc_type=bc_type)
    check(lambda at: made(at, 2), BEYOND)


def test_more_of_cubic_splines():
    closed = np.append(Y[:-1], Y[0])
    spline = interpolate.CubicSpline(X, closed, bc_type="periodic")
    check(lambda at: spline(at), BEYOND)
    check(
        lambda y: interpolate.CubicSpline(X, np.append(y, y[0]), bc_type="periodic")(BEYOND), Y[:-1]
    )
    check(lambda y: interpolate.CubicSpline(X[:3], y)(AT[:2]), Y[:3])
    check(lambda y: interpolate.CubicSpline(X[:2], y)(AT[:1]), Y[:2])
    check(lambda y, a, b: interpolate.CubicSpline(X, y).integrate(a, b), Y, 0.4, 3.7)
    check(lambda y: interpolate.CubicSpline(X, y).antiderivative()(AT), Y)
    check(lambda y: interpolate.CubicSpline(X, y).derivative()(AT), Y)
    check(lambda at: interpolate.CubicSpline(X, Y, extrapolate=False)(at), AT)
    check(lambda y, d: interpolate.CubicHermiteSpline(X, y, d)(AT), Y, Y[::-1].copy())
    seen = []

    def f(y):
        spline = interpolate.CubicSpline(X, y)
        seen.append(
            isinstance(spline, interpolate.CubicSpline) and isinstance(spline, interpolate.PPoly)
        )
        return spline(1.0)

    ct.gradient(f, Y)
    assert seen == [True]


def test_monotone_splines():
    check(lambda y, at: interpolate.PchipInterpolator(X, y)(at), Y, AT)
    check(lambda x, y: interpolate.PchipInterpolator(x, y)(AT), X, Y)
    check(lambda y, at: interpolate.Akima1DInterpolator(X, y)(at), Y, AT)
    check(lambda at: interpolate.Akima1DInterpolator(X, Y)(at), AT)
    check(lambda y: interpolate.pchip_interpolate(X, y, AT), Y)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 5])
def test_b_splines(k):
    spline = interpolate.make_interp_spline(X, Y, k=k)
    check(lambda at: spline(at), AT, second=k > 1)
    check(lambda y, at: interpolate.make_interp_spline(X, y, k=k)(at), Y, AT)
    check(lambda y: interpolate.make_interp_spline(X, y, k=k, axis=1)(AT), ROWS)
    tck = spline.t, spline.c, spline.k
    check(lambda c: interpolate.BSpline(spline.t, c, k)(AT), spline.c)
    for ext in (0, 1, 3):
        check(lambda at: interpolate.splev(at, tck, ext=ext), BEYOND)
        if k > 0:
            check(lambda at: interpolate.splev(at, tck, der=1, ext=ext), BEYOND, second=k > 2)
    check(lambda c, at: interpolate.splev(at, (spline.t, c, k)), spline.c, AT)
    if k > 1:
        check(lambda at: interpolate.splev(at, tck, der=2), AT)
        check(lambda at: spline(at, 1), AT)


def test_more_of_b_splines():
    for bc_type in ["natural", "clamped", ([(1, 0.3)], [(2, -0.1)])]:
        check(lambda y: interpolate.make_interp_spline(X, y, bc_type=bc_type)(AT), Y)
    closed = np.append(Y[:-1], Y[0])
    spline = interpolate.make_interp_spline(X, closed, bc_type="periodic")
    check(lambda at: spline(at), BEYOND)
    made = interpolate.make_interp_spline(X, Y)
    check(lambda c: interpolate.BSpline(made.t, c, 3).derivative()(AT), made.c)
    smooth = interpolate.UnivariateSpline(X, Y)
    check(lambda at: smooth(at), AT)
    with pytest.raises(TypeError, match="make_interp_spline"):
        ct.gradient(lambda y: np.sum(interpolate.splev(AT, interpolate.splrep(X, y, s=1.0))), Y)
    with pytest.raises(TypeError, match="only y"):
        ct.gradient(
            lambda x: np.sum(interpolate.make_interp_spline(x, Y, bc_type="natural")(AT)), X
        )


def test_monotone_curves_with_flat_parts():
    flat = np.array([0.0, 0.0, 1.0, 1.7, 1.7, 1.2, 0.4])
    made = lambda y: interpolate.PchipInterpolator(X, y)
    (g,) = ct.gradient(lambda y: np.sum(made(y)(AT) ** 2), flat)
    assert np.all(np.isfinite(g))
    # Between the points whose slopes are not at a kink.
    check(lambda y: made(np.append(flat[:4], y))(3.6), flat[4:])
    check(lambda y: interpolate.PchipInterpolator(X[:2], y)(0.4), flat[3:5])


@pytest.mark.parametrize("k", [1, 3, 4])
def test_what_splines_of_fitpack_offer(k):
    make = lambda y, **options: interpolate.InterpolatedUnivariateSpline(X, y, k=k, **options)
    for ext in (0, 1, 3, "const", "zeros"):
        check(lambda y, ext=ext: make(y, ext=ext)(BEYOND), Y)
        check(lambda y, at, ext=ext: make(y)(at, ext=ext), Y, BEYOND)
        check(lambda y, ext=ext: make(y, ext=ext).derivative()(BEYOND), Y)
    with pytest.raises(ValueError, match="not between"):
        ct.gradient(lambda y: np.sum(make(y, ext=2)(BEYOND)), Y)
    check(lambda y: make(y).derivative(n=1)(AT), Y)
    check(lambda y: make(y).derivatives(1.3), Y)
    check(lambda y, a: make(y).integral(a, 3.3) + make(y).integral(9.0, a), Y, 0.4)
    check(lambda y: make(y).antiderivative()(AT), Y)
    check(lambda y: make(y).get_coeffs() + make(y).get_residual(), Y)
    check(lambda y: make(y).get_knots() * make(y)(0.3), Y)
    if k == 3:
        check(lambda y: make(y).roots(), Y)


@pytest.mark.parametrize("method", ["linear", "nearest", "slinear", "cubic", "pchip"])
def test_grids(method):
    grid = (np.linspace(0, 1, 5), np.array([0.0, 0.4, 1.0, 1.3, 2.0]))
    values = RNG.normal(size=(5, 5))
    points = np.array([[0.3, 0.72], [0.9, 1.4], [0.12, 0.05]])

    def f(values, points):
        return interpolate.RegularGridInterpolator(grid, values, method=method)(points)

    check(f, values, points)
    made = interpolate.RegularGridInterpolator(grid, values, method=method)
    check(lambda p: made(p), points)
    check(lambda v, p: interpolate.interpn(grid, v, p, method=method), values, points)


def test_more_of_grids():
    grid = (np.linspace(0, 1, 3), np.linspace(0, 1, 4), np.linspace(0, 1, 2))
    values = RNG.normal(size=(3, 4, 2, 2))
    points = np.array([[0.3, 0.7, 0.2], [0.9, 0.4, 0.1]])
    check(lambda v, p: interpolate.interpn(grid, v, p), values, points)
    outside = np.array([[0.3, 0.7, 1.2], [0.9, 0.4, 0.1]])
    check(
        lambda v, p: interpolate.interpn(grid, v, p, bounds_error=False, fill_value=None),
        values,
        outside,
    )
    check(
        lambda v, p: interpolate.interpn(grid, v, p, bounds_error=False, fill_value=0.5),
        values,
        outside,
    )
    with pytest.raises(TypeError, match="RegularGridInterpolator"):
        ct.gradient(
            lambda v: np.sum(interpolate.griddata(points[:, :2], v, points[:, :2])), np.ones(2)
        )


def test_splines_through_places_that_are_differentiated():
    x = np.array([0.0, 1.1, 1.9, 3.2, 4.0, 5.5])
    at = np.array([0.2, 1.55, 3.3, 5.0])
    for k in (1, 2, 3, 5):
        check(lambda x, k=k: interpolate.make_interp_spline(x, np.sin(V), k=k)(at), x)
        check(lambda y, k=k: interpolate.make_interp_spline(x, y, k=k)(at), V)
        check(lambda x, k=k: interpolate.make_interp_spline(x, np.sin(x), k=k)(at, nu=1), x)
    table = np.stack([V, V**2])
    check(lambda x: interpolate.make_interp_spline(x, table, k=3, axis=1)(at), x)
    for kind in ("quadratic", "cubic"):
        # The ends move with the first and last place.
        check(
            lambda x, kind=kind: interpolate.interp1d(np.r_[-1, x, 9], np.arange(8.0), kind=kind)(
                at
            ),
            x,
        )
    with pytest.raises(TypeError, match="CubicSpline"):
        ct.gradient(lambda x: interpolate.make_interp_spline(x, V, bc_type="natural")(1.0), x)


V = np.array([1.0, 0.5, -0.3, 2.0, 1.2, 0.1])


def test_one_polynomial():
    at = np.array([0.3, 1.4, 3.9])
    for name in ("BarycentricInterpolator", "KroghInterpolator"):
        check(lambda y: getattr(interpolate, name)(X, y)(at), Y)
        check(lambda at: getattr(interpolate, name)(X, Y)(at), at)
        check(lambda y: getattr(interpolate, name)(X, y).derivative(1.3), Y)
    check(lambda x: interpolate.KroghInterpolator(x, Y)(at), X, rtol=1e-4)
    check(lambda at: interpolate.barycentric_interpolate(X, Y, at), at)
    check(lambda y, at: interpolate.krogh_interpolate(X, y, at), Y, at)


@pytest.mark.parametrize("ext", [0, 1, 3, "const"])
def test_splines_of_fitpack_beyond_their_ends(ext):
    check(lambda y, at: interpolate.InterpolatedUnivariateSpline(X, y, ext=ext)(at), Y, BEYOND)
    check(lambda y: interpolate.InterpolatedUnivariateSpline(X, y)(BEYOND, ext=ext), Y)
    check(lambda y: interpolate.InterpolatedUnivariateSpline(X, y, ext=ext).derivative()(BEYOND), Y)


def test_methods_of_splines_of_fitpack():
    check(lambda y: interpolate.InterpolatedUnivariateSpline(X, y)(AT, 1), Y)
    check(lambda y: interpolate.InterpolatedUnivariateSpline(X, y).integral(0.3, 9.0), Y)
    check(lambda y: interpolate.InterpolatedUnivariateSpline(X, y).derivatives(1.2), Y)
    check(lambda y: interpolate.InterpolatedUnivariateSpline(X, y).antiderivative()(AT), Y)
    check(lambda y: interpolate.InterpolatedUnivariateSpline(X, y).get_coeffs(), Y)
    check(lambda y: interpolate.make_interp_spline(X, y).integrate(0.3, 3.7), Y)
    with pytest.raises(ValueError, match="ext=2"):
        ct.gradient(
            lambda y: np.sum(interpolate.InterpolatedUnivariateSpline(X, y, ext=2)(BEYOND)), Y
        )


@pytest.mark.parametrize("degree", range(6))
def test_splines_through_many_points(degree):
    # Each coefficient belongs to few samples: there is no table of all pairs.
    x = np.linspace(0, 1, 20_001)

    def f(a):
        return interpolate.make_interp_spline(x, np.sin(a * x), degree)(0.3) + 0.0

    value, (slope,) = ct.value_and_gradient(f, 2.0)
    assert value == pytest.approx(np.sin(0.6), abs=1e-4)
    assert slope == pytest.approx(0.3 * np.cos(0.6), abs=1e-4)


def test_splines_with_knots_that_are_given():
    knots = np.r_[[X[0]] * 4, X[2:-2], [X[-1]] * 4]
    check(lambda y: interpolate.make_interp_spline(X, y, 3, t=knots)(AT), Y)
    check(lambda y: interpolate.make_interp_spline(X, y, 3, t=knots, axis=1)(AT), ROWS)


def test_b_splines_whose_last_knots_coincide():
    """SciPy looks for the last knot, behind which there is nothing then."""
    knots = np.array([-1.0, -1, 0, 1, 1, 3, 4, 6, 6, 6, 7, 7])
    at = np.array([-1.5, -1.0, 0.5, 2.5, 5.5, 6.0, 6.5, 7.5])
    c = np.array([0.1, -0.2, 0.2, 0.6, 0.4, 0.8, 0.7, 0.5, -0.3])
    check(lambda c: interpolate.BSpline(knots, c, 2)(at), c)
    check(lambda c: interpolate.BSpline(knots, c, 2)(at, 1), c)


def test_barycentric_interpolation_at_its_nodes():
    at = np.array([X[2], 1.0, X[0], X[-1]])
    check(lambda x, y, at: interpolate.BarycentricInterpolator(x, y)(at), X, Y, at, second=True)
    check(lambda y, at: interpolate.BarycentricInterpolator(X, y).derivatives(at, 2), Y, at)
    check(lambda y, at: interpolate.barycentric_interpolate(X, y, at), Y, X[3])
    made = interpolate.BarycentricInterpolator(X, Y)
    check(lambda at: made(at), at, second=True)
    check(lambda at: made.derivative(at), at)
    check(lambda at: interpolate.KroghInterpolator(X, Y).derivative(at), at)


@pytest.mark.parametrize("ends", [(0.3, 3.0), (3.0, 0.3), (-1.0, 5.0), (0.8, 1.0)])
def test_integrals_over_pieces_in_descending_order(ends):
    c = RNG.normal(size=(3, 6))
    check(lambda c, x, a, b: interpolate.PPoly(c, x).integrate(a, b), c, X[::-1].copy(), *ends)


def test_ends_that_move_with_the_data():
    made = RNG.normal(size=(7, 7))
    beyond = np.array([-1.0, 0.3, 1.4, 5.0])

    def surface(x, y, at):
        return interpolate.RectBivariateSpline(x, y, made).ev(at, at[::-1])

    check(surface, X, X + 0.1, beyond)
    check(lambda x, y: interpolate.UnivariateSpline(x, y, s=0, ext=3)(beyond), X, Y)
    check(lambda x, y: interpolate.UnivariateSpline(x, y, s=0).integral(-1.0, 7.0), X, Y)


@pytest.mark.parametrize("name", ["CubicSpline", "PchipInterpolator", "Akima1DInterpolator"])
def test_roots_of_splines(name):
    made = getattr(interpolate, name)
    check(lambda x, y: made(x, y).roots(extrapolate=False), X, Y, second=True)
    check(lambda y, level: made(X, y).solve(level), Y, 0.2, second=True)
    check(lambda level: made(X, Y).solve(level), 0.2)
    if name == "CubicSpline":
        check(lambda x, y: made(x, y).derivative().roots(), X, Y)
        check(lambda y: interpolate.UnivariateSpline(X, y, s=0).roots(), Y, second=True)


def test_a_jump_over_a_value_stays_at_its_break():
    c = np.array([[1.0, -2.0, 1.0], [-2.0, -3.0, 1.0]])
    check(lambda c, x: interpolate.PPoly(c, x).roots(), c, np.array([0.0, 1.0, 2.0, 3.0]))


def test_splines_of_complex_numbers():
    z, at = Y + 1j * Y[::-1], np.array([0.2, 1.0, 3.15])

    def parts(f):
        return lambda a, b, at: np.stack([f(a + 1j * b, at).real, f(a + 1j * b, at).imag])

    for f in (
        lambda z, at: interpolate.interp1d(X, z, kind="cubic")(at),
        lambda z, at: interpolate.make_interp_spline(X, z, k=3)(at),
        lambda z, at: interpolate.RegularGridInterpolator((X,), z, method="cubic")(at),
    ):
        check(parts(f), z.real, z.imag, at)


@pytest.mark.parametrize("extrapolate", [False, True, "periodic"])
def test_matrices_of_a_basis(extrapolate):
    t = np.array([0.0, 0, 0, 0, 1, 2, 3, 4, 4, 4, 4])
    x = np.array([0.5, 1.5, 2.7]) if extrapolate is False else np.array([0.5, 2.7, 4.3])

    def f(x, stretch):
        # Knots that coincide move together.
        made = interpolate.BSpline.design_matrix(x, t * stretch, 3, extrapolate)
        assert made.format == "csr"
        assert made.shape == (3, 7)
        return made @ np.arange(7.0) ** 2

    check(f, x, np.array(1.1))


def test_a_design_matrix_of_a_spline_with_active_coefficients():
    t, at = np.array([0, 0, 0, 0, 0.3, 0.6, 1, 1, 1, 1.0]), np.array([0.1, 0.5])
    check(lambda c: interpolate.BSpline(t, c, 3).design_matrix(at, t, 3) @ c, Y[:6])
    check(lambda p: interpolate.BSpline(t, p[0] * Y[:6], 3).design_matrix(p, t, 3) @ Y[:6], at)


def test_double_roots_keep_their_values():
    def f(z):
        # (x - 1)² behind 1, and x² - 1 before.
        return interpolate.PPoly(np.array([[1, 1], [-4, 0], [3, 0]]) + z, [-2, 1, 2]).solve()

    value, slope = ct.value_and_gradient(lambda z: f(z)[0], 0.0)
    assert value == f(0.0)[0]
    assert slope[0] == pytest.approx((f(1e-6)[0] - f(-1e-6)[0]) / 2e-6)
    assert ct.value_and_gradient(lambda z: f(z)[1], 0.0)[0] == 1.0


def test_class_methods_that_make_splines_of_active_knots_and_coefficients():
    BSpline, PPoly = interpolate.BSpline, interpolate.PPoly
    knots = np.array([0.0, 0.0, 0.4, 1.0, 1.0])
    check(lambda t: BSpline.basis_element([t[0], 1.0, 3.0, t[1]])(AT), np.array([0.5, 4.0]))
    check(lambda t: BSpline.basis_element(t)(1.3), np.array([0.5, 1.0, 3.0, 4.0]), second=True)
    check(lambda c: BSpline.construct_fast(knots, c, 1)(0.3), np.array([1.0, 2.0, 4.0]))
    check(lambda t: BSpline.construct_fast(t, np.array([1.0, 2.0, 4.0]), 1)(0.3), knots)
    check(
        lambda c: PPoly.construct_fast(c, np.array([0.0, 1.0, 2.0]))(0.3),
        np.array([[1.0, 2], [3, 4]]),
    )
    assert type(BSpline.basis_element([0.0, 1.0, 2.0])) is BSpline
