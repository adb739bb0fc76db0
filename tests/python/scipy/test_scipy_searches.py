"""Searches of `scipy.optimize` that compare values, and methods for large systems of equations."""

import numpy as np
import pytest
from scipy import optimize
from scipy_cases import check

import cotan as ct


def valley(x, p):
    """A function of one number that is smallest at `p`."""
    return np.exp(x - p) - x


@pytest.mark.parametrize(
    "search",
    [
        lambda f, p: optimize.brent(f, (p,)),
        lambda f, p: optimize.brent(f, (p,), (0.0, 1.0), full_output=True)[0],
        lambda f, p: optimize.golden(f, (p,)),
        lambda f, p: optimize.fminbound(f, 0.0, 5.0, (p,)),
    ],
)
def test_minima_of_one_number(search):
    (g,) = ct.gradient(lambda p: search(valley, p), 1.2)
    assert g == pytest.approx(1.0, abs=1e-4)
    (g,) = ct.gradient(lambda p: search(lambda x, _: valley(x, p), 1.2), 1.2)
    assert g == pytest.approx(1.0, abs=1e-4)
    value, _ = ct.value_and_grad(lambda p: search(valley, p))(1.2)
    assert value == search(valley, 1.2)


def test_values_at_minima():
    for search in (optimize.brent, optimize.golden):
        (g,) = ct.gradient(lambda p, s=search: s(valley, (p,), full_output=True)[1], 1.2)
        assert g == pytest.approx(-1.0)
    (g,) = ct.gradient(lambda p: optimize.fminbound(valley, 0, 5, (p,), full_output=True)[1], 1.2)
    assert g == pytest.approx(-1.0, abs=1e-4)


def test_a_minimum_at_a_bound_moves_with_it():
    def valley(x):
        return (x - 3) ** 2

    (g,) = ct.gradient(lambda b: optimize.fminbound(valley, 0.0, b) ** 2, 1.0)
    assert g == pytest.approx(2.0, abs=1e-4)
    (g,) = ct.gradient(lambda b: optimize.fminbound(valley, b, 9.0), 4.0)
    assert g == pytest.approx(1.0)
    for what, slope in (("x", 1.0), ("fun", -4.0)):
        (g,) = ct.gradient(
            lambda b, what=what: optimize.minimize_scalar(valley, bounds=(0.0, b))[what], 1.0
        )
        assert g == pytest.approx(slope, abs=1e-4)
    (g,) = ct.gradient(lambda b: optimize.fminbound(valley, 0.0, b) * b, 5.0)
    assert g == pytest.approx(3.0)


def bowl(x, p):
    return np.sum((x - p) ** 2) + 0.1 * np.sum(x**4) + 0.3 * np.prod(x - p)


@pytest.mark.parametrize(
    "search",
    [
        lambda f, p, bounds: optimize.differential_evolution(f, bounds, (p,), rng=1),
        lambda f, p, bounds: optimize.differential_evolution(
            f, bounds, (p,), "best1bin", 500, rng=1
        ),
        lambda f, p, bounds: optimize.dual_annealing(f, bounds, (p,), maxiter=20, rng=1),
        lambda f, p, bounds: optimize.shgo(f, bounds, (p,)),
        lambda f, p, bounds: optimize.direct(f, bounds, args=(p,), eps=1e-6, vol_tol=1e-20),
    ],
)
def test_global_minima(search):
    p, bounds = np.array([0.7, -0.4]), [(-2.0, 2.0), (-1.5, 2.0)]

    def f(p):
        r = search(bowl, p, bounds)
        return np.sum(r.x * [1.0, 2.0]) + r.fun

    def wanted(p):
        r = optimize.minimize(bowl, np.zeros(2), (p,), tol=1e-10)
        return np.sum(r.x * [1.0, 2.0]) + r.fun

    y, g = ct.value_and_grad(f)(p)
    assert y == pytest.approx(f(p), abs=1e-12)
    np.testing.assert_allclose(g, ct.grad(wanted)(p), atol=2e-2)
    with pytest.raises(TypeError, match="active bounds"):
        ct.gradient(lambda b: search(bowl, p, [(-2.0, b), (-1.5, 2.0)]).x[0], 2.0)


def test_all_minima_of_shgo():
    def f(p):
        r = optimize.shgo(lambda x: (x[0] ** 2 - p) ** 2 + 0.1 * x[0], [(-3, 3)], n=32, iters=2)
        assert len(r.xl) > 1
        return r.xl, r.funl

    check(f, 1.5, rtol=1e-3, atol=1e-4, step=1e-3)


def test_brute():
    (g,) = ct.gradient(lambda p: optimize.brute(lambda x: valley(x[0], p), ((0, 5),))[0], 1.2)
    assert g == pytest.approx(1.0, abs=1e-4)
    (g,) = ct.gradient(
        lambda p: p * optimize.brute(valley, (slice(0, 5, 0.5),), (p,), finish=None), 1.2
    )
    assert g == 1.0
    with pytest.raises(TypeError, match="brute: full_output"):
        ct.gradient(lambda p: optimize.brute(valley, ((0, 5),), (p,), full_output=True)[1], 1.2)


@pytest.mark.filterwarnings("ignore:An ill-conditioned matrix")
@pytest.mark.parametrize(
    "name", ["anderson", "broyden1", "broyden2", "diagbroyden", "newton_krylov"]
)
def test_systems_of_equations(name):
    def f(p):
        solve = getattr(optimize, name)
        return solve(lambda x: x + 0.1 * x @ x - p, np.zeros((2, 2)), f_tol=1e-12)

    p = np.array([[0.5, -0.3], [0.2, 1.0]])
    check(f, p, value_rtol=1e-9, rtol=1e-4, step=1e-4)


def test_isotonic_regression():
    y, w = np.array([1.0, 3.0, 2.0, 2.7, 6.0, 5.0]), np.array([1.0, 0.5, 2.0, 1.5, 1.0, 0.7])

    def f(y, w, increasing=True):
        r = optimize.isotonic_regression(y, weights=w, increasing=increasing)
        return r.x, r.weights

    check(f, y, w)
    check(lambda y, w: f(y, w, False), y, w)
    check(lambda y: optimize.isotonic_regression(y).x, y)


def test_complex_roots():
    def f(x, a, b):
        return a * x**2 + b * x + 4.0

    def slope(x, a, b):
        return 2 * a * x + b

    def root(a, b, start):
        return optimize.newton(f, start, slope, (a, b), tol=1e-12)

    for start in (1 + 2j, np.array([1 + 2j, 1 - 2j, 2j])):
        check(lambda a, b, s=start: root(a, b, s), 2.0, 3.0, rtol=1e-5)
    # It need not be holomorphic.
    check(
        lambda p: optimize.broyden1(
            lambda z: z + 0.2 * np.conj(z) * z - p, np.array([0.5 + 0.1j]), f_tol=1e-12
        ),
        np.array([0.7 - 0.2j]),
        rtol=1e-4,
    )


def test_several_arguments_in_a_list():
    def f(p):
        return optimize.newton(lambda x, a, b: x * x - a * b, [4.0, 5.0], args=[p, 1.5])

    check(f, np.array([17.0, 25.0]), value_rtol=1e-7)
    check(
        lambda p: optimize.fixed_point(
            lambda x, a, b: np.cos(a * x) * b, 0.5, [p, 0.9], xtol=1e-12
        ),
        0.8,
    )


@pytest.mark.parametrize(("search", "name"), [("fmin", "func"), ("fmin_bfgs", "f")])
def test_the_function_may_be_given_by_its_name(search, name):
    def f(p):
        loss = {name: lambda x, c: np.sum((x - c) ** 2) + x[0] ** 4}
        return getattr(optimize, search)(x0=[0.5], disp=0, args=(p,), **loss)[0]

    x, (slope,) = ct.value_and_gradient(f, 1.3)
    assert x == pytest.approx(f(1.3))
    assert slope == pytest.approx(1 / (1 + 6 * x**2))


@pytest.mark.parametrize(
    ("f", "named"),
    [
        (lambda p: optimize.brute(lambda x: (x[0] - 1) ** 2, ((-p, p),), finish=None)[0], "brute"),
        (
            lambda p: np.sum(optimize.fsolve(lambda x: x**3 - p, 1.0, full_output=True)[1]["qtf"]),
            "qtf",
        ),
        (
            lambda p: np.sum(
                optimize.leastsq(lambda x: x**2 - p * np.ones(3), [1.0], full_output=True)[2][
                    "fjac"
                ]
            ),
            "fjac",
        ),
    ],
)
def test_what_a_search_leaves_besides_has_no_derivative(f, named):
    with pytest.raises(TypeError, match=named):
        ct.gradient(f, 2.0)


def test_quotients_of_differences():
    def cost(x, p):
        return p[0] * x[0] ** 2 + np.sin(p[1] * x[1]) * x[0]

    x, p = np.array([0.7, -1.2]), np.array([1.3, 0.4])
    weights = np.array([1.0, -2.0])
    for f in (
        lambda x, p: weights @ optimize.approx_fprime(x, cost, 1e-6, p),
        lambda x, p: weights @ optimize.approx_fprime(x, lambda x: cost(x, p), [1e-6, 1e-5]),
        lambda x, p: weights @ optimize.approx_fprime(x, lambda x: p * x, 1e-6) @ weights,
    ):
        value, slopes = ct.value_and_gradient(f, x, p)
        assert value == pytest.approx(f(x, p), abs=1e-9)
        for at, (given, slope) in enumerate(zip((x, p), slopes, strict=True)):
            moved = lambda d, at=at, f=f: f(x + d, p) if at == 0 else f(x, p + d)
            wanted = [(moved(d) - moved(-d)) / 2e-3 for d in 1e-3 * np.eye(given.size)]
            np.testing.assert_allclose(0 if slope is None else slope, wanted, atol=1e-5)
        (alone,) = ct.gradient(lambda p, f=f: f(x, p), p)
        np.testing.assert_allclose(alone, slopes[1], atol=1e-7)


@pytest.mark.parametrize("method", ["L-BFGS-B", "SLSQP", "BFGS"])
def test_hops_of_constants_take_slopes_that_the_program_makes(method):
    def found():
        def f(x):
            slope = np.zeros(2)
            slope[0] = 2 * (x[0] - 1) + 3 * np.cos(3 * x[0])
            slope[1] = 2 * x[1]
            return (x[0] - 1) ** 2 + np.sin(3 * x[0]) + x[1] ** 2, slope

        local = {"method": method, "jac": True}
        return optimize.basinhopping(f, [1.0, 1.0], 5, minimizer_kwargs=local, rng=1).x

    seen = []
    ct.gradient(lambda z: [seen.append(found()), z][1], 1.0)
    np.testing.assert_allclose(np.asarray(seen[0]), found())


def test_brute_refuses_active_ranges_in_slices_by_name():
    with pytest.raises(ct.NotDifferentiableError, match="brute: active bounds"):
        ct.gradient(lambda z: optimize.brute(lambda x: x[0] ** 2, (slice(-1, 1, z),))[0], 0.25)


def test_rosenbrocks_function_and_its_derivatives():
    x, p = np.array([1.2, 0.7, 1.9]), np.array([1.0, 2.0, -1.0])
    for f in (optimize.rosen, optimize.rosen_der, optimize.rosen_hess):
        check(f, x)
    check(optimize.rosen_hess_prod, x, p)
