"""`optimize.Derivatives`: each solver of SciPy takes them, as the table of the page says."""

import contextlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize as so
import scipy.sparse

import cotan as ct
from cotan.optimize import Derivatives

PAGE = Path(__file__).parents[3] / "docs/how_to/optimise.md"


def valley(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def bumps(x):
    return np.sum(x**4 - 3.0 * x**2 + x)


T = np.linspace(0.0, 2.0, 30)
Y = 3.0 * np.exp(-2.0 * T) + 1.0


def decay(t, a, rate, offset):
    return a * np.exp(-rate * t) + offset


def residuals(p):
    return decay(T, *p) - Y


def system(x):
    return np.stack([x[0] ** 2 + x[1] ** 2 - 2.0, x[0] - x[1] ** 3])


def lowest():
    return so.minimize_scalar(bumps, bounds=(-3.0, 0.0), method="bounded").x


def test_minimize():
    for method in ("BFGS", "L-BFGS-B", "SLSQP", "CG", "TNC", "trust-constr"):
        d = Derivatives(valley)
        found = so.minimize(d.fun, np.zeros(4), jac=d.jac, method=method)
        np.testing.assert_allclose(found.x, 1.0, atol=1e-3)
        np.testing.assert_allclose(
            d.jac(np.zeros(4)), so.approx_fprime(np.zeros(4), valley), atol=1e-5
        )
    for method in ("Newton-CG", "trust-ncg", "trust-krylov", "trust-constr"):
        d = Derivatives(valley)
        found = so.minimize(d.fun, np.zeros(4), jac=d.jac, hessp=d.hessp, method=method)
        np.testing.assert_allclose(found.x, 1.0, atol=1e-3)
    for method in ("Newton-CG", "dogleg", "trust-exact", "trust-constr"):
        d = Derivatives(valley)
        start = np.array([1.02, 1.02, 1.02, 1.02]) ** np.array([1, 2, 4, 8])  # of a convex place
        found = so.minimize(d.fun, start, jac=d.jac, hess=d.hess, method=method)
        np.testing.assert_allclose(found.x, 1.0, atol=1e-3)


@pytest.mark.parametrize("sparse", [False, True])
def test_nonlinear_constraint(sparse):
    objective = Derivatives(valley, sparse=sparse)
    circles = Derivatives(lambda x: x[1:] ** 2 + x[:-1] ** 2, sparse=sparse)
    limit = so.NonlinearConstraint(
        circles.fun, -np.inf, 1.0, jac=circles.jac, hess=circles.weighted_hess
    )
    found = so.minimize(
        objective.fun,
        np.zeros(4),
        jac=objective.jac,
        hess=objective.hess,
        constraints=limit,
        method="trust-constr",
    )
    by_differences = so.minimize(
        valley,
        np.zeros(4),
        constraints={"type": "ineq", "fun": lambda x: 1.0 - x[1:] ** 2 - x[:-1] ** 2},
        method="SLSQP",
    )
    np.testing.assert_allclose(found.x, by_differences.x, atol=1e-3)
    x, v = np.arange(4.0), np.array([1.0, 2.0, 3.0])
    matrix = circles.weighted_hess(x, v)
    assert scipy.sparse.issparse(matrix) == sparse
    expected = np.diag([2.0, 6.0, 10.0, 6.0])
    np.testing.assert_allclose(matrix.toarray() if sparse else matrix, expected)


def test_constraints_as_dictionaries():
    d, inside = Derivatives(valley), Derivatives(lambda x: 1.0 - np.sum(x**2))
    found = so.minimize(
        d.fun,
        np.zeros(2),
        jac=d.jac,
        constraints={"type": "ineq", "fun": inside.fun, "jac": inside.jac},
        method="SLSQP",
    )
    by_differences = so.minimize(
        valley,
        np.zeros(2),
        constraints={"type": "ineq", "fun": lambda x: 1.0 - np.sum(x**2)},
        method="SLSQP",
    )
    np.testing.assert_allclose(found.x, by_differences.x, atol=1e-5)


def test_basinhopping_and_dual_annealing():
    d = Derivatives(bumps)
    found = so.basinhopping(d.fun, np.ones(2), stepsize=2.0, minimizer_kwargs={"jac": d.jac}, rng=1)
    np.testing.assert_allclose(found.x, lowest(), atol=1e-4)
    found = so.dual_annealing(
        d.fun, [(-2.0, 2.0)] * 2, minimizer_kwargs={"jac": d.jac}, maxiter=50, rng=1
    )
    np.testing.assert_allclose(found.x, lowest(), atol=1e-4)


def test_shgo():
    for given in (
        {"minimizer_kwargs": {"method": "L-BFGS-B", "jac": Derivatives(bumps).jac}},
        {"options": {"jac": Derivatives(bumps).jac}},
    ):
        found = so.shgo(Derivatives(bumps).fun, [(-2.0, 2.0)] * 2, **given)
        np.testing.assert_allclose(found.x, lowest(), atol=1e-4)


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_least_squares(method):
    d = Derivatives(residuals)
    found = so.least_squares(d.fun, np.array([1.0, 1.0, 0.0]), jac=d.jac, method=method)
    np.testing.assert_allclose(found.x, [3.0, 2.0, 1.0], atol=1e-6)
    if method != "lm":
        found = so.least_squares(d.fun, np.array([1.0, 1.0, 0.0]), jac=d.operator, method=method)
        np.testing.assert_allclose(found.x, [3.0, 2.0, 1.0], atol=1e-5)


def test_sparse_least_squares():
    def chain(x):
        return np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])

    d = Derivatives(chain, sparse=True)
    found = so.least_squares(d.fun, np.full(50, 0.5), jac=d.jac)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-5)
    assert scipy.sparse.issparse(found.jac)
    x = np.linspace(0.0, 1.0, 50)
    np.testing.assert_allclose(d.jac(x).toarray(), ct.jacobian(chain, x), atol=1e-14)


def test_curve_fit():
    d = Derivatives(decay, wrt=slice(1, None))
    found, _ = so.curve_fit(decay, T, Y, [1.0, 1.0, 0.0], jac=d.jac)
    np.testing.assert_allclose(found, [3.0, 2.0, 1.0], atol=1e-6)
    found, _ = so.curve_fit(d.fun, T, Y, [1.0, 1.0, 0.0], jac=d.jac, method="trf")
    np.testing.assert_allclose(found, [3.0, 2.0, 1.0], atol=1e-6)
    assert d.jac(T, 3, 2, 1).shape == (30, 3)


@pytest.mark.parametrize("method", ["hybr", "lm"])
def test_root(method):
    d = Derivatives(system)
    found = so.root(d.fun, np.array([2.0, 0.5]), jac=d.jac, method=method)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-8)


def test_fsolve_and_leastsq():
    d = Derivatives(system)
    np.testing.assert_allclose(so.fsolve(d.fun, [2, 1], fprime=d.jac), 1.0, atol=1e-8)
    d = Derivatives(residuals)
    found, _ = so.leastsq(d.fun, [1, 1, 0], Dfun=d.jac)
    np.testing.assert_allclose(found, [3.0, 2.0, 1.0], atol=1e-6)


def kepler(t, eccentricity=0.5):
    return t - eccentricity * np.sin(t) - 1.0


def bowl(x):
    return np.sum((x - 1.0) ** 4 + x**2)


LOWEST = so.brentq(lambda t: 4.0 * (t - 1.0) ** 3 + 2.0 * t, 0.0, 1.0)


def test_fmin():
    d = Derivatives(bowl)
    for fmin in (so.fmin_bfgs, so.fmin_cg, so.fmin_l_bfgs_b, so.fmin_tnc, so.fmin_slsqp):
        options = {so.fmin_slsqp: {"iprint": 0, "acc": 1e-12}, so.fmin_tnc: {"messages": 0}}
        if fmin in (so.fmin_bfgs, so.fmin_cg):
            options[fmin] = {"disp": 0}
        found = fmin(d.fun, np.zeros(3), fprime=d.jac, **options.get(fmin, {}))
        x = found[0] if fmin in (so.fmin_l_bfgs_b, so.fmin_tnc) else found
        np.testing.assert_allclose(x, LOWEST, atol=1e-3)
    assert so.check_grad(d.fun, d.jac, np.zeros(3)) < 1e-4


def test_fmin_ncg():
    d = Derivatives(valley)
    for hessian in ({"fhess_p": d.hessp}, {"fhess": d.hess}):
        x = so.fmin_ncg(d.fun, np.zeros(3), d.jac, disp=0, **hessian)
        np.testing.assert_allclose(x, 1.0, atol=1e-3)


def test_root_scalar():
    d = Derivatives(kepler)
    for method in ("newton", "halley"):
        found = so.root_scalar(d.fun, x0=1, fprime=d.jac, fprime2=d.hess, method=method)
        assert found.converged and abs(kepler(found.root)) < 1e-12
    assert d.jac(1.0) == pytest.approx(1.0 - 0.5 * np.cos(1.0))
    assert d.hess(1.0) == pytest.approx(0.5 * np.sin(1.0))


def test_newton():
    d = Derivatives(kepler)
    found = so.newton(d.fun, 1, fprime=d.jac, fprime2=d.hess, args=(0.3,))
    assert abs(kepler(found, 0.3)) < 1e-12
    d = Derivatives(kepler, columns=True)
    many = np.array([0.1, 0.2, 0.3])
    found = so.newton(d.fun, np.ones(3), fprime=d.jac, fprime2=d.hess, args=(many,))
    np.testing.assert_allclose(kepler(found, many), 0.0, atol=1e-12)
    np.testing.assert_allclose(d.jac(found, many), 1.0 - many * np.cos(found))
    np.testing.assert_allclose(d.hess(found, many), many * np.sin(found))


def robertson(t, y):
    a, b = 0.04 * y[0], 1e4 * y[1] * y[2]
    c = 3e7 * y[1] ** 2
    return [b - a, a - b - c, c]


@pytest.mark.parametrize("method", ["BDF", "Radau", "LSODA"])
@pytest.mark.parametrize("sparse", [False, True])
def test_solve_ivp(method, sparse):
    if sparse and method == "LSODA":
        pytest.skip("LSODA takes dense Jacobians")
    d = Derivatives(robertson, wrt=1, sparse=sparse)
    options = {"method": method, "rtol": 1e-6, "atol": 1e-8}
    y0 = [1.0, 0.0, 0.0]
    found = scipy.integrate.solve_ivp(robertson, (0.0, 40.0), y0, jac=d.jac, **options)
    other = scipy.integrate.solve_ivp(robertson, (0.0, 40.0), y0, **options)
    np.testing.assert_allclose(found.y[:, -1], other.y[:, -1], rtol=1e-4)
    exact = [[-0.04, 2e4, 1e2], [0.04, -6.2e5, -1e2], [0.0, 6e5, 0.0]]
    matrix = d.jac(0.0, np.array([1.0, 0.01, 2.0]))
    np.testing.assert_allclose(matrix.toarray() if sparse else matrix, exact)


def test_solve_ivp_of_complex_numbers():
    d = Derivatives(lambda t, z: 1j * z**2, wrt=1)
    z = np.array([0.5 + 0.1j, 0.2j])
    np.testing.assert_allclose(d.jac(0.0, z), np.diag(2j * z))
    found = scipy.integrate.solve_ivp(d.fun, (0.0, 1.0), z, method="BDF", jac=d.jac, rtol=1e-6)
    np.testing.assert_allclose(found.y[:, -1], z / (1.0 - 1j * z), rtol=1e-3)


def oscillator(t, y):
    return np.stack([y[1], 30.0 * (1.0 - y[0] ** 2) * y[1] - y[0]])


def counted(d):
    """Give the Jacobian of `Derivatives`, with the list of the times it was asked for."""
    times = []

    def jac(t, y):
        times.append(t)
        return d.jac(t, y)

    return jac, times


def reference():
    found = scipy.integrate.solve_ivp(
        oscillator, (0.0, 1.0), [1.0, 0.0], method="DOP853", rtol=1e-10, atol=1e-12
    )
    return found.y[:, -1]


@pytest.mark.parametrize("name", ["BDF", "Radau", "LSODA"])
def test_solver_classes(name):
    d = Derivatives(oscillator, wrt=1)
    jac, times = counted(d)
    make = getattr(scipy.integrate, name)
    solver = make(d.fun, 0.0, np.array([1.0, 0.0]), 1.0, jac=jac, rtol=1e-6, atol=1e-9)
    while solver.status == "running":
        solver.step()
    np.testing.assert_allclose(solver.y, reference(), rtol=1e-4)
    assert times


@pytest.mark.parametrize("name", ["vode", "zvode", "lsoda"])
def test_ode(name):
    d = Derivatives(oscillator, wrt=1)
    jac, times = counted(d)
    solver = scipy.integrate.ode(d.fun, jac)
    options = {} if name == "lsoda" else {"method": "bdf"}
    solver.set_integrator(name, with_jacobian=True, rtol=1e-6, atol=1e-9, **options)
    start = np.array([1.0, 0.0], complex if name == "zvode" else float)
    end = solver.set_initial_value(start).integrate(1.0)
    np.testing.assert_allclose(end, reference(), rtol=1e-4)
    assert times


def test_odeint():
    def first(y, t):
        return np.stack([y[1], 100.0 * (1.0 - y[0] ** 2) * y[1] - y[0] + 0.0 * t])

    times = np.linspace(0.0, 5.0, 7)
    expected = scipy.integrate.odeint(first, [2.0, 0.0], times)
    found = scipy.integrate.odeint(first, [2.0, 0.0], times, Dfun=Derivatives(first).jac)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)

    def second(t, y):
        return first(y, t)

    d = Derivatives(second, wrt=1)
    found = scipy.integrate.odeint(second, [2.0, 0.0], times, Dfun=d.jac, tfirst=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_solve_bvp():
    def bratu(x, y):
        return np.stack([y[1], -np.exp(y[0])])

    def ends(ya, yb):
        return np.array([ya[0], yb[0]])

    x = np.linspace(0.0, 1.0, 5)
    d, e = Derivatives(bratu, wrt=1, columns=True), Derivatives(ends, wrt=(0, 1))
    found = scipy.integrate.solve_bvp(bratu, ends, x, np.zeros((2, 5)), fun_jac=d.jac, bc_jac=e.jac)
    other = scipy.integrate.solve_bvp(bratu, ends, x, np.zeros((2, 5)))
    np.testing.assert_allclose(found.sol(0.5), other.sol(0.5), atol=1e-6)


def test_solve_bvp_with_parameters():
    def waves(x, y, p):
        return np.stack([y[1], -(p[0] ** 2) * y[0]])

    def ends(ya, yb, p):
        return np.stack([ya[0], yb[0], ya[1] - p[0]])

    x = np.linspace(0.0, 1.0, 5)
    y = np.zeros((2, 5))
    y[0, 1], y[0, 3] = 1.0, -1.0
    d = Derivatives(waves, wrt=(1, 2), columns=True)
    e = Derivatives(ends, wrt=(0, 1, 2))
    found = scipy.integrate.solve_bvp(waves, ends, x, y, p=[6.0], fun_jac=d.jac, bc_jac=e.jac)
    assert found.success and found.p[0] == pytest.approx(2.0 * np.pi, abs=1e-3)
    by_y, by_p = d.jac(x, y, np.array([6.0]))
    assert by_y.shape == (2, 2, 5) and by_p.shape == (2, 1, 5)
    np.testing.assert_allclose(by_y[1, 0], -36.0)
    np.testing.assert_allclose(by_p[1, 0], -12.0 * y[0])


ROWS = {
    "minimize": test_minimize,
    "NonlinearConstraint": test_nonlinear_constraint,
    "constraints as dictionaries": test_constraints_as_dictionaries,
    "basinhopping, dual_annealing": test_basinhopping_and_dual_annealing,
    "shgo": test_shgo,
    "least_squares": test_least_squares,
    "curve_fit": test_curve_fit,
    "root": test_root,
    "fmin_bfgs, fmin_cg, fmin_l_bfgs_b, fmin_tnc, fmin_slsqp": test_fmin,
    "fmin_ncg": test_fmin_ncg,
    "fsolve, leastsq": test_fsolve_and_leastsq,
    "root_scalar": test_root_scalar,
    "newton": test_newton,
    "solve_ivp": test_solve_ivp,
    "BDF, Radau, LSODA": test_solver_classes,
    "ode, complex_ode": test_ode,
    "odeint": test_odeint,
    "solve_bvp": test_solve_bvp,
}


def test_each_row_of_the_page_has_a_test():
    table = PAGE.read_text().partition("| solver | what to pass |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)[1:]
    assert [row.replace("`", "") for row in rows] == list(ROWS)


# What SciPy calls the keywords for derivatives.
KEYWORDS = {
    *("jac", "hess", "hessp", "fprime", "fprime2", "fhess", "fhess_p"),
    *("Dfun", "fun_jac", "bc_jac", "grad"),
}


def test_each_solver_that_takes_derivatives_is_on_the_page():
    page, found = PAGE.read_text(), set()
    for module in (so, scipy.integrate):
        for name in module.__all__:
            with contextlib.suppress(TypeError, ValueError):  # no function, or none with keywords
                parameters = inspect.signature(getattr(module, name)).parameters
                found |= {name} if KEYWORDS & parameters.keys() else set()
    assert len(found) > 20
    assert {name for name in found if not re.search(rf"`{name}\b", page)} == set()


# --------------------------------------------------------------------------------------------------
# What is shared between calls


def test_each_is_recorded_once():
    d = Derivatives(valley)
    found = so.minimize(d.fun, np.zeros(10), jac=d.jac, method="L-BFGS-B")
    assert d.how == (
        "fun: prepared: 1 calls, of which 1 were recorded; "
        f"fun with jac: prepared: {found.nfev - 1} calls, of which 1 were recorded; "
        "jac: prepared: 1 calls, of which 1 were recorded"
    )


def test_gradients_that_nobody_wants_are_not_computed():
    d = Derivatives(valley)
    so.minimize(d.fun, np.zeros(2), method="Nelder-Mead")
    assert "fun with jac: prepared: 1 calls" in d.how


def test_a_gradient_comes_with_the_value():
    d = Derivatives(valley)
    x = np.linspace(0.0, 1.0, 5)
    assert d.fun(x) == pytest.approx(valley(x))
    assert d.fun(x) == pytest.approx(valley(x))
    expected = ct.grad(valley)(x)
    np.testing.assert_allclose(d.jac(x), expected)
    x[0] += 1.0
    np.testing.assert_allclose(d.jac(x), ct.grad(valley)(x))


def test_what_is_closed_over_may_change_between_searches():
    target = np.ones(3)
    d = Derivatives(lambda x: np.sum((x - target) ** 2))
    x = np.zeros(3)
    for _ in range(3):
        assert (d.fun(x), d.jac(x)[0]) == (3.0, -2.0)
    target = 2.0 * target
    assert (d.fun(x), d.jac(x)[0]) == (12.0, -4.0)
    target *= 2.0
    assert (d.fun(x), d.jac(x)[0]) == (48.0, -8.0)


def test_other_arguments_are_another_point():
    d = Derivatives(lambda x, a: np.sum(a * x**2))
    x = np.ones(2)
    for a in (1.0, 2.0, 3.0):
        d.fun(x, 0.5)
        np.testing.assert_allclose(d.jac(x, a), 2.0 * a * x)


def test_a_gradient_that_is_zero():
    d = Derivatives(lambda x: 3.0)
    for _ in range(3):
        assert d.fun(np.ones(2)) == 3.0
        np.testing.assert_array_equal(d.jac(np.ones(2)), np.zeros(2))


def test_a_pattern_changes_with_the_branch():
    def f(x):
        return x[1:] * x[:-1] if float(ct.dropgrad(x[0])) > 0.0 else x[:-1] ** 2

    d = Derivatives(f, sparse=True)
    for x in (np.arange(1.0, 5.0), -np.arange(1.0, 5.0), np.arange(2.0, 6.0)):
        np.testing.assert_allclose(d.jac(x).toarray(), ct.jacobian(f, x))


def test_constant_indices_are_a_part_of_the_pattern():
    index = np.array([0, 1])
    d = Derivatives(lambda x: x[index] ** 2, sparse=True)
    x = np.arange(1.0, 5.0)
    np.testing.assert_allclose(d.jac(x).toarray(), np.diag(2 * x)[index])
    index = np.array([3, 1])
    np.testing.assert_allclose(d.jac(x).toarray(), np.diag(2 * x)[index])


def test_a_given_pattern():
    x = np.arange(1.0, 5.0)
    pattern = ct.jacobian_sparsity(np.diff, x)
    d = Derivatives(np.diff, sparse=pattern)
    np.testing.assert_allclose(d.jac(x).toarray(), ct.jacobian(np.diff, x))
    with pytest.raises(ValueError, match=r"pattern has shape \(3, 4\), the derivative \(4, 5\)"):
        d.jac(np.ones(5))


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda: Derivatives(3), TypeError, "fun must be callable, not int"),
        (lambda: Derivatives(np.sum, wrt="x"), TypeError, "wrt must be a position"),
        (lambda: Derivatives(np.sum, sparse=True, columns=True), ValueError, "do not go together"),
        (lambda: Derivatives(np.dot, wrt=1).jac(np.ones(2)), TypeError, "there are 1 arguments"),
        (lambda: Derivatives(np.dot, wrt=(0, 1)).hess(1.0, 2.0), ValueError, "several arguments"),
        (lambda: Derivatives(np.dot, wrt=1).hessp(1.0, 2.0), ValueError, "ct.hvp"),
    ],
)
def test_refusals(act, error, message):
    with pytest.raises(error, match=message):
        act()
