"""Solvers of `scipy.optimize` under a gradient: derivatives of solutions."""

import numpy as np
import pytest
from scipy import optimize
from scipy_cases import check

import cotan as ct

CLOSE = {"value_rtol": 1e-9, "rtol": 1e-4, "atol": 1e-6}


@pytest.mark.parametrize("name", ["brentq", "brenth", "bisect", "ridder", "toms748"])
def test_roots_in_brackets(name):
    solve = getattr(optimize, name)
    del solve
    check(
        lambda p: getattr(optimize, name)(lambda x: x**3 - p * x - 1, 0, 3, xtol=1e-13),
        1.3,
        second=True,
        **CLOSE,
    )
    check(
        lambda p, q: getattr(optimize, name)(lambda x, p, q: np.exp(x) - p - q * x, 0, 3, (p, q)),
        2.3,
        0.4,
        **CLOSE,
    )


def test_other_roots_in_one_variable():
    f = lambda x, p: x**3 - p * x - 1
    check(lambda p: optimize.newton(f, 1.5, args=(p,), tol=1e-13), 1.3, second=True, **CLOSE)
    check(
        lambda p: optimize.newton(f, 1.5, lambda x, p: 3 * x**2 - p, (p,), tol=1e-12), 1.3, **CLOSE
    )
    check(
        lambda p: optimize.newton(lambda x: x**2 - p, np.ones(2), tol=1e-13),
        np.array([2.0, 3.0]),
        **CLOSE,
    )
    check(lambda p: optimize.root_scalar(f, (p,), bracket=(0, 3), xtol=1e-13).root, 1.3, **CLOSE)
    check(
        lambda p: optimize.fixed_point(lambda x: np.cos(p * x), 0.5, xtol=1e-12), 0.8, second=True,
        **CLOSE,
    )  # fmt: skip
    with pytest.raises(ValueError, match="singular"):
        ct.gradient(lambda p: optimize.brentq(lambda x: x**3 - p, -1, 1), 0.0)


def system(x, p):
    return [x[0] ** 2 + x[1] - p[0], x[0] - p[1] * np.sin(x[1])]


P = np.array([1.7, 0.6])


def test_systems():
    tight = {"tol": 1e-13}
    check(lambda p: optimize.root(system, [1.0, 1.0], (p,), **tight).x, P, second=True, **CLOSE)
    check(
        lambda p: optimize.root(lambda x: np.stack(system(x, p)), [1.0, 1.0], **tight).x, P, **CLOSE
    )
    check(lambda p: optimize.fsolve(system, [1.0, 1.0], (p,), xtol=1e-13), P, **CLOSE)
    check(
        lambda p: optimize.fsolve(system, [1.0, 1.0], (p,), full_output=True, xtol=1e-13)[0],
        P,
        **CLOSE,
    )


def bowl(x, p):
    return (x[0] - p[0]) ** 2 + p[1] * (x[1] - x[0] ** 2) ** 2 + 0.1 * x[1] ** 4


def test_minima():
    tight = {"options": {"gtol": 1e-10}}
    loose = {"value_rtol": 1e-6, "value_atol": 1e-7, "rtol": 1e-3, "atol": 1e-4, "step": 1e-3}
    check(lambda p: optimize.minimize(bowl, [1.0, 1.0], (p,), **tight).x, P, **loose)
    check(lambda p: optimize.minimize(bowl, [1.0, 1.0], (p,), **tight).fun, P, **loose)

    def with_slope(x, p):
        return ct.value_and_grad(lambda x: bowl(x, p))(x)

    def f(p):
        return np.sum(optimize.minimize(with_slope, np.ones(2), (p,), jac=True, **tight).x)

    (g,) = ct.gradient(f, P)
    (wanted,) = ct.gradient(
        lambda p: np.sum(optimize.minimize(bowl, np.ones(2), (p,), **tight).x), P
    )
    np.testing.assert_allclose(g, wanted, rtol=1e-5)
    check(
        lambda p: (
            optimize.minimize(bowl, [1.0, 0.2], (p,), bounds=[(None, None), (0, 0.3)], tol=1e-13).x
        ),
        P,
        **loose,
    )
    check(
        lambda p: optimize.minimize_scalar(lambda x: (x - p) ** 4 + x**2, tol=1e-12).x, 1.3, **loose
    )
    one = lambda p: lambda x: np.array([(x - p) ** 4 + x**2 + p * x])
    for method in ("bounded", None):
        options = {"bounds": (-2.0, 2.0)} if method else {"bracket": (-2.0, 2.0)}
        check(
            lambda p, m=method, o=options: optimize.minimize_scalar(one(p), method=m, **o).fun,
            1.3,
            **loose,
        )
    check(
        lambda p: (
            optimize.minimize_scalar(lambda x: (x - p) ** 2, bounds=(0, 1), method="bounded").x
        ),
        1.7,
        **loose,
    )
    check(
        lambda p: optimize.fmin_bfgs(bowl, [1.0, 1.0], args=(p,), gtol=1e-10, disp=False),
        P,
        **loose,
    )


def slope(x, p):
    return ct.value_and_grad(lambda x: bowl(x, p))(x)[1]


@pytest.mark.parametrize(
    "search",
    [
        lambda p: optimize.fmin_ncg(bowl, [1.0, 1.0], slope, args=(p,), avextol=1e-12, disp=0),
        lambda p: optimize.fmin_ncg(bowl, [1.0, 1.0], slope, None, None, (p,), 1e-12, disp=0),
        lambda p: optimize.fmin_powell(bowl, [1.0, 1.0], (p,), 1e-12, 1e-12, disp=0),
        lambda p: optimize.fmin_tnc(bowl, [1.0, 1.0], slope, (p,), disp=0, pgtol=1e-12)[0],
        lambda p: optimize.fmin_tnc(
            bowl, [1.0, 0.1], None, (p,), 1, [(0, 3), (-1, 0.3)], disp=0, pgtol=1e-12
        )[0],
    ],
)
def test_older_names(search):
    def f(p):
        return np.sum(search(p) * [1.0, 2.0])

    step = 1e-3
    near = [(f(P + e) - f(P - e)) / (2 * step) for e in step * np.eye(2)]
    np.testing.assert_allclose(ct.grad(f)(P), near, rtol=5e-3, atol=1e-3)


def test_the_shape_of_powells_result():
    def f(p):
        return optimize.fmin_powell(lambda x: (x[0] - p) ** 4 + x[0] ** 2, [1.0], disp=0)

    y, _ = ct.pullback(f, 1.3)
    assert np.shape(y) == np.shape(f(1.3))


LOOSE = {"value_rtol": 1e-6, "value_atol": 1e-7, "rtol": 2e-3, "atol": 1e-4, "step": 1e-3}


@pytest.mark.parametrize("name", ["fmin", "fmin_bfgs", "fmin_cg", "fmin_powell"])
def test_values_at_minima_of_older_names(name):
    tight = {"xtol": 1e-9, "ftol": 1e-12} if name in {"fmin", "fmin_powell"} else {}

    def f(p):
        search = getattr(optimize, name)
        return search(bowl, [1.0, 1.0], args=(p,), full_output=True, disp=0, **tight)[1]

    check(f, P, **LOOSE)


def test_slopes_at_bounds_and_constraints():
    bounds = [(None, None), (0, 0.3)]
    check(lambda p: optimize.minimize(bowl, [1.0, 0.2], (p,), bounds=bounds).jac, P, **LOOSE)
    check(
        lambda p: optimize.fmin_l_bfgs_b(
            bowl, [1.0, 0.2], None, (p,), True, [(-9, 9), (0, 0.3)], pgtol=1e-9, factr=10
        )[2]["grad"],
        P,
        **LOOSE,
    )
    line = {"type": "ineq", "fun": lambda x: 1 - x[0] - x[1]}
    check(
        lambda p: optimize.minimize(bowl, [1.0, 0.2], (p,), constraints=line, tol=1e-12).jac,
        P,
        **LOOSE,
    )


def test_what_a_solver_says_besides():
    # Estimates of second derivatives are used by who wants to print them, and not differentiated.
    def f(p, wanted):
        r = optimize.minimize(bowl, [1.0, 1.0], (p,))
        assert r.hess_inv.shape == (2, 2)
        assert float(f"{r.hess_inv[0, 0]:.4f}") > 0
        return np.sum(r.hess_inv if wanted else r.x)

    assert np.isfinite(ct.grad(f)(P, False)).all()
    with pytest.raises(TypeError, match="hess_inv of minimize has no derivative rule"):
        ct.gradient(lambda p: f(p, True), P)
    with pytest.raises(TypeError, match="the inverse Hessian of fmin_bfgs has no derivative rule"):
        ct.gradient(
            lambda p: np.sum(
                optimize.fmin_bfgs(bowl, [1.0, 1.0], args=(p,), full_output=True, disp=0)[3]
            ),
            P,
        )
    for part in ("fjac", "r"):
        with pytest.raises(TypeError, match=f"{part} of root has no derivative rule"):
            ct.gradient(lambda p, n=part: np.sum(optimize.root(system, [1.0, 1.0], (p,))[n]), P)
        with pytest.raises(TypeError, match=f"{part} of fsolve has no derivative rule"):
            ct.gradient(
                lambda p, n=part: np.sum(
                    optimize.fsolve(system, [1.0, 1.0], (p,), full_output=True)[1][n]
                ),
                P,
            )
    check(lambda p: optimize.newton(lambda x: x**3 - p, 1.0, full_output=True)[1].root, 1.3)


T = np.linspace(0, 2, 8)
DATA = 1.3 * np.exp(-0.7 * T) + 0.03 * np.cos(7 * T)


def test_fits():
    loose = {"value_rtol": 1e-6, "value_atol": 1e-7, "rtol": 2e-3, "atol": 1e-4, "step": 1e-4}
    tight = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}

    def decay(t, a, k):
        return a * np.exp(-k * t)

    def residuals(x, y):
        return decay(T, x[0], x[1]) - y

    check(
        lambda y: optimize.least_squares(residuals, [1.0, 1.0], args=(y,), **tight).x, DATA, **loose
    )
    check(
        lambda y: optimize.least_squares(residuals, [1.0, 1.0], args=(y,), **tight).cost,
        DATA,
        **loose,
    )
    check(
        lambda y: optimize.leastsq(residuals, [1.0, 1.0], (y,), xtol=1e-14, ftol=1e-14)[0],
        DATA,
        **loose,
    )
    check(lambda y, t: optimize.curve_fit(decay, t, y, **_fit)[0], DATA, T, **loose)
    check(lambda y: optimize.curve_fit(decay, T, y, **_fit)[1] * 1e3, DATA, **loose)
    check(lambda y, s: optimize.curve_fit(decay, T, y, sigma=s, **_fit)[0], DATA, 1 + T, **loose)


_fit = {"xtol": 1e-14, "ftol": 1e-14}


def test_constants_are_solved_as_ever():
    seen = []

    def f(x):
        start, target = np.ones(2), np.array([1.0, 2.0])
        seen.append(optimize.minimize(lambda v: np.sum((v - target) ** 2), start))
        seen.append(optimize.brentq(lambda v: v**2 - 2, 0, 2))
        seen.append(optimize.root(lambda v: v - target, start))
        seen.append(optimize.least_squares(lambda v: v - target, start))
        seen.append(optimize.curve_fit(lambda t, a: a * t, T, T, [1.5]))
        return x * seen[0].x[0]

    (g,) = ct.gradient(f, 3.0)
    assert g == pytest.approx(1.0)
    assert type(seen[0].x) is np.ndarray
    assert type(seen[1]) is float
    assert type(seen[2].x) is np.ndarray


def test_assignment():
    cost = np.array([[3.0, 1.0], [2.0, 4.0]])

    def f(c):
        rows, columns = optimize.linear_sum_assignment(c)
        return np.sum(c[rows, columns])

    np.testing.assert_array_equal(ct.gradient(f, cost)[0], [[0, 1], [1, 0]])
    with pytest.raises(TypeError, match="minimize"):
        ct.gradient(lambda c: optimize.linprog(c, [[-1.0, -1]], [-1]).fun, np.ones(2))


def test_what_is_no_solution_is_refused():
    def early(x):
        loss = lambda p: np.sum((p - x) ** 2) * 1e-6
        return np.sum(optimize.minimize(loss, np.zeros(2)).x)

    with pytest.raises(ValueError, match=r"stopped before it reached a solution.*tol="):
        ct.gradient(early, np.array([1.0, 2.0]))

    def late(x):
        loss = lambda p: np.sum((p - x) ** 2) * 1e-6
        return np.sum(optimize.minimize(loss, np.zeros(2), tol=1e-12).x)

    np.testing.assert_allclose(ct.gradient(late, np.array([1.0, 2.0]))[0], [1.0, 1.0])


@pytest.mark.parametrize(
    "solve",
    [
        lambda f: optimize.brentq(f, 0.3, 4.0, args=(1.5,)),
        lambda f: optimize.newton(f, 1.3, args=(1.5,)),
        lambda f: optimize.root_scalar(f, args=(1.5,), x0=1.3),
        lambda f: optimize.fsolve(f, [1.3], args=(1.5,)),
        lambda f: optimize.root(f, [1.3], args=(1.5,)),
        lambda f: optimize.fixed_point(lambda q: q - 0.2 * f(q, 1.5), 1.3),
        lambda f: optimize.leastsq(lambda q: f(q, 1.5), [1.3]),
    ],
)
def test_what_an_equation_keeps_follows_the_solution(solve):
    class Curve:
        def __init__(self):
            self.factors = np.ones(3)

    def f(price):
        curve = Curve()

        def residual(q, spread):
            # The solver's result is not used: the curve has it.
            curve.factors[1] = curve.last = q if np.ndim(q) == 0 else q[0]
            return q**2 - price * spread

        solve(residual)
        return np.sum(curve.factors * np.array([1.0, 2.0, 3.0])) + curve.last

    check(f, 2.0, value_rtol=0, **{k: v for k, v in CLOSE.items() if k != "value_rtol"})


def test_the_inverse_hessian_of_l_bfgs_b_has_no_derivative():
    def f(p, use):
        h = optimize.minimize(bowl, [1.0, 1.0], (p,), method="L-BFGS-B").hess_inv
        assert isinstance(h, optimize.LbfgsInvHessProduct)
        assert h.shape == (2, 2)
        return np.sum(use(h))

    for use in (lambda h: h.todense(), lambda h: h @ np.ones(2), lambda h: h.matvec(np.ones(2))):
        with pytest.raises(TypeError, match="hess_inv of minimize has no derivative rule"):
            ct.gradient(f, P, ct.const(use))
        (g,) = ct.gradient(lambda p, use=use: p[0] * f(ct.dropgrad(p), use), P)
        np.testing.assert_allclose(g, [f(P, use), 0.0])


STARTED = {
    "minimize": lambda x: (
        optimize.minimize(
            lambda v: np.sum((v - 2) ** 2 + (v - 2) ** 4), x, method="BFGS", options={"maxiter": 1}
        ).x
    ),
    "fmin_cg": lambda x: optimize.fmin_cg(lambda v: np.sum(np.cosh(v - 2)), x, maxiter=1, disp=0),
    "fmin_l_bfgs_b": lambda x: optimize.fmin_l_bfgs_b(
        lambda v: np.sum(np.cosh(v - 2)), x, approx_grad=True, maxiter=1
    )[0],
    "fmin_slsqp": lambda x: optimize.fmin_slsqp(
        lambda v: np.sum(np.cosh(v - 2)), x, iter=1, disp=0
    ),
    "root": lambda x: optimize.root(lambda v: v**3 - 2, x, options={"maxfev": 4}).x,
    "fsolve": lambda x: optimize.fsolve(lambda v: v**3 - 2, x, maxfev=4),
    "newton": lambda x: optimize.newton(lambda v: v**3 - 2, x[0], maxiter=2, disp=False),
    "fixed_point": lambda x: optimize.fixed_point(np.cos, x, xtol=0.3, method="iteration"),
    "minimize_scalar": lambda x: (
        optimize.minimize_scalar(lambda v: np.cosh(v - 2), (x[0], x[1]), options={"maxiter": 1}).x
    ),
    "least_squares": lambda x: optimize.least_squares(lambda v: v**3 - 2, x, max_nfev=2).x,
    "leastsq": lambda x: optimize.leastsq(lambda v: v**3 - 2, x, maxfev=4)[0],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STARTED)
def test_where_one_begins_counts_where_the_solver_stops_early(name):
    with pytest.raises(ValueError, match="stopped before it reached a solution"):
        ct.gradient(lambda x: np.sum(STARTED[name](x)), np.array([0.5, 0.8]))


def test_a_minimum_at_a_kink_is_no_matter_of_the_tolerance():
    kinked = lambda c, a: (c - a) ** 2 + 3 * np.abs(np.interp(c, [0.0, 1.0, 4.0], [-1.0, 0.0, 6.0]))
    least = lambda a: optimize.minimize_scalar(kinked, bounds=(0, 3), args=(a,), method="bounded")
    with pytest.raises(ValueError, match=r"ct\.dropgrad \(at a kink"):
        ct.gradient(lambda a: least(a).x, 1.2)


def test_where_one_begins_has_no_influence_on_a_solution():
    quartic = lambda v: np.sum((v - 2) ** 2 + (v - 2) ** 4)
    begun = lambda x: np.sum(optimize.minimize(quartic, x, tol=1e-10).x)
    assert ct.gradient(begun, np.array([0.5, 0.8])) == (None,)
    assert ct.gradient(lambda x: optimize.newton(lambda v: v**3 - 2, x), 1.0) == (None,)
    # One of many minima, and which of them depends on where one begins.
    with pytest.raises(ValueError, match="singular"):
        ct.gradient(
            lambda x: np.sum(optimize.minimize(lambda v: np.cosh(np.sum(v) - 1), x).x),
            np.array([0.5, 0.8]),
        )


def classes(p, **options):
    """Weights of a softmax regression, which count up to a vector that all classes have."""
    points = np.random.default_rng(3).normal(size=(20, 2)) * p[0]
    chosen = np.arange(20) * 7 % 3

    def cost(w):
        scores = points @ w.reshape(2, 3) + p[1:]
        return np.sum(np.log(np.sum(np.exp(scores), axis=1))) - np.sum(
            scores[np.arange(20), chosen]
        )

    return points, optimize.minimize(cost, np.zeros(6), **options).x.reshape(2, 3)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "CG", None])
def test_minima_that_lie_in_a_line(method):
    options = {"gtol": 1e-9, "ftol": 1e-16} if method == "L-BFGS-B" else {"gtol": 1e-9}

    def f(p, weight=0.0):
        points, w = classes(p, method=method, options=options)
        return np.sum((points @ w) @ np.array([1.0, -3.0, 2.0])) + weight * np.sum(w**2 * [1, 2, 3])

    p = np.array([1.3, 0.2, -0.1, 0.3])
    for weight in (0.0, 1.0):
        value, (slope,) = ct.value_and_gradient(lambda p, w=weight: f(p, w), p)
        assert value == pytest.approx(f(p, weight), abs=1e-5)
        wanted = [(f(p + d, weight) - f(p - d, weight)) / 4e-3 for d in 2e-3 * np.eye(4)]
        np.testing.assert_allclose(slope, wanted, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("scale", [1.0, 0.3, 1.7, 1e6])
def test_derivatives_that_are_singular_up_to_rounding(scale):
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
    matrix = scale * turn @ np.diag([1.0, 2.0, 0.0]) @ turn.T
    begin, wanted = np.zeros(3), turn[:, 0] + turn[:, 1]

    def equation(x, p):
        return matrix @ (x - p * wanted)

    with pytest.raises(ValueError, match="singular"):
        ct.gradient(lambda p: optimize.root(equation, begin + p, (p,)).x[0], 1.2)
    with pytest.raises(ValueError, match="singular"):
        ct.gradient(
            lambda p: optimize.minimize(
                lambda x: (x - p * wanted) @ equation(x, p), begin, method="Powell"
            ).x[0],
            1.2,
        )
    units = np.array([1e-9, 1.0, 1e9])
    (slope,) = ct.gradient(
        lambda p: optimize.root(lambda x: (x / units) ** 3 + x / units - p, units).x @ (1 / units),
        2.0,
    )
    assert slope == pytest.approx(3 / 4)


KEEPING = {
    "brentq": lambda f, p: optimize.brentq(lambda x: f(x) - 2, 1, 3),
    "newton": lambda f, p: optimize.newton(lambda x: f(x) - 2, 3.0),
    "fsolve": lambda f, p: optimize.fsolve(lambda x: f(x[0]) - 2, 3.0)[0],
    "minimize": lambda f, p: optimize.minimize(lambda x: f(x[0]), [3.0]).x[0],
    "Nelder-Mead": lambda f, p: optimize.minimize(lambda x: f(x[0]), [3.0], method="Nelder-Mead").x[
        0
    ],
    "fmin_bfgs": lambda f, p: optimize.fmin_bfgs(lambda x: f(x[0]), [3.0], disp=False)[0],
    "fmin_tnc": lambda f, p: optimize.fmin_tnc(lambda x: f(x[0]), [3.0], approx_grad=True, disp=0)[
        0
    ][0],
    "fmin_l_bfgs_b": lambda f, p: optimize.fmin_l_bfgs_b(
        lambda x: f(x[0]), [3.0], approx_grad=True
    )[0][0],
    "fmin_slsqp": lambda f, p: optimize.fmin_slsqp(lambda x: f(x[0]), [3.0], iprint=0)[0],
    "brute": lambda f, p: optimize.brute(lambda x: f(x[0]), [(-1.0, 3.0)], Ns=7)[0],
    "differential_evolution": lambda f, p: optimize.differential_evolution(
        lambda x: f(x[0]), [(-1.0, 3.0)], maxiter=5, rng=0
    ).x[0],
    "minimize_scalar": lambda f, p: optimize.minimize_scalar(f).x,
    "least_squares": lambda f, p: optimize.least_squares(lambda x: [x[0] - p, f(x[0])], [3.0]).x[0],
    "leastsq": lambda f, p: optimize.leastsq(lambda x: [x[0] - p, f(x[0])], [3.0])[0][0],
    "curve_fit": lambda f, p: optimize.curve_fit(
        lambda t, x: f(x) * t, np.arange(3.0), p * np.arange(3.0), 3.0
    )[0][0],
}


@pytest.mark.parametrize("name", KEEPING)
def test_what_a_function_keeps_is_as_the_solver_leaves_it(name):
    def run(p):
        log = []

        def bowl(x):
            log.append((x - p) ** 2 + 0.5 * x)
            return log[-1]

        place = KEEPING[name](bowl, p)
        return place, log

    (place, log), p = run(1.3), 1.3
    seen = []

    def total(p):
        place, log = run(p)
        seen.append((len(log), [float(ct.dropgrad(v)) for v in log]))
        return place + log[-1]

    _, (slope,) = ct.value_and_gradient(total, p)
    assert seen[0][0] == len(log)
    np.testing.assert_allclose(seen[0][1], log, 1e-12, 1e-15)
    # What came last has the derivative of the solution.
    h = 1e-2
    (high, _), (low, _) = run(p + h), run(p - h)
    moved = (high - low) / (2 * h)
    wanted = moved + 2 * (place - p) * (moved - 1) + 0.5 * moved
    assert slope == pytest.approx(wanted, rel=1e-2, abs=1e-2)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "trust-constr"])
def test_what_a_callback_keeps_stays(method):
    counts = []

    def closest(p):
        seen = {"x": [], "f": []}

        def loss(x):
            value = np.sum((x - p) ** 2) + x[0] ** 4
            seen["f"].append(value)
            return value

        def note(x, *state):
            seen["x"].append(x.copy())

        result = optimize.minimize(loss, np.array([1.0, 2.0]), callback=note, method=method)
        counts.append(len(seen["x"]))
        return result.fun

    closest(1.3)
    ct.gradient(closest, 1.3)
    assert counts[0] == counts[1] > 1


@pytest.mark.parametrize(
    "constraint",
    [
        {"type": "eq", "fun": lambda w: np.sum(w) - 5.0},
        {"type": "ineq", "fun": lambda w: np.sum(w) - 5.0},
        optimize.LinearConstraint(np.ones((1, 3)), 5.0, 6.0),
    ],
)
def test_where_constraints_cannot_hold_there_is_no_derivative(constraint):
    def f(p):
        found = optimize.minimize(
            lambda w: np.sum((w - p) ** 2), np.ones(3) / 3, bounds=[(0, 1)] * 3,
            constraints=[constraint], method="SLSQP",
        )  # fmt: skip
        assert not found.success
        return np.sum(found.x)

    with pytest.raises(ValueError, match=r"constraint does not hold \(it is off by 2\)"):
        ct.gradient(f, np.array([0.1, 0.2, 0.3]))


OF_TOLERANCE = {
    "SLSQP": lambda f, t: optimize.minimize(f, [0.0], method="SLSQP", tol=t).x[0],
    "L-BFGS-B": lambda f, t: optimize.minimize(f, [0.0], method="L-BFGS-B", tol=t).x[0],
    "ftol": lambda f, t: optimize.minimize(f, [0.0], method="SLSQP", options={"ftol": t}).x[0],
    "fmin_slsqp": lambda f, t: optimize.fmin_slsqp(f, [0.0], acc=t, disp=0)[0],
    "fmin_l_bfgs_b": lambda f, t: optimize.fmin_l_bfgs_b(f, [0.0], None, (), 1, pgtol=t)[0][0],
    "fmin_tnc": lambda f, t: optimize.fmin_tnc(f, [0.0], None, (), 1, ftol=t, disp=0)[0][0],
}


@pytest.mark.parametrize("name", OF_TOLERANCE)
def test_a_tolerance_that_is_differentiated_has_no_influence(name):
    solve = OF_TOLERANCE[name]
    f = lambda p, t: solve(lambda v: (v[0] - p) ** 2, t)
    slope, none = ct.gradient(f, 0.6, 1e-10)
    assert slope == pytest.approx(1.0)
    assert none is None
    assert ct.gradient(f, ct.const(0.6), 1e-10) == (None, None)
