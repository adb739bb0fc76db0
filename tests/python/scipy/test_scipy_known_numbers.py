"""Roots and integrals by programs that are kept: nothing of them shows in a result."""

import sys

import numpy as np
import pytest
from scipy import integrate, interpolate, optimize

import cotan as ct
from cotan._src.kit.known_programs import KnownPrograms
from cotan._src.scipy.integrate import quadrature
from cotan._src.scipy.optimize import plain_solve

FACTOR = 1.5
HERE = sys.modules[__name__]


def by_fsolve(f):
    return optimize.fsolve(lambda v: [f(v[0])], [1.0])[0]


ROOTS = {
    "brentq": lambda f: optimize.brentq(f, 0.0, 3.0),
    "toms748": lambda f: optimize.toms748(f, 0.0, 3.0),
    "newton": lambda f: optimize.newton(f, 1.0),
    "root_scalar": lambda f: optimize.root_scalar(f, bracket=(0.0, 3.0)).root,
    "fsolve": by_fsolve,
    "root": lambda f: optimize.root(lambda v: np.array([f(v[0])]), [1.0]).x[0],
}
INTEGRALS = {
    "finite": (0.0, 3.0),
    "backwards": (2.0, -1.0),
    "to infinity": (0.5, np.inf),
    "from infinity": (np.inf, 0.5),
    "from minus infinity": (-np.inf, -0.5),
    "the whole line": (-np.inf, np.inf),
    "the whole line backwards": (np.inf, -np.inf),
}


def slope_of(f, at, h=1e-5):
    return (f(at + h) - f(at - h)) / (2 * h)


@pytest.fixture
def made(monkeypatch):
    """Count the programs that are made."""
    count = []

    def empty():
        found = KnownPrograms()
        known = found.of

        def of(key, shape, at, make):
            return known(key, shape, at, lambda used: count.append(shape) or make(used))

        monkeypatch.setattr(found, "of", of)
        return found

    monkeypatch.setattr(plain_solve, "_KNOWN", empty())
    monkeypatch.setattr(quadrature, "_KNOWN", empty())
    return count


@pytest.mark.parametrize("name", ROOTS)
def test_one_program_for_all_roots_of_an_equation(name, made):
    def f(p):
        return ROOTS[name](lambda x: x * np.exp(x) - p)

    for p in (2.0, 3.0, 2.0):
        value, (slope,) = ct.value_and_gradient(f, p)
        assert value == f(p)
        assert type(value) is type(f(p)) or isinstance(value, float)
        x = float(value)
        np.testing.assert_allclose(slope, np.exp(-x) / (1 + x), rtol=1e-12)
    assert len(made) == 1


def test_all_calls_have_the_same_bits(made):
    def f(p):
        root = optimize.brentq(lambda x: x * np.exp(x) - p, 0.0, 3.0)
        return root + integrate.quad(lambda x: np.exp(-p * x) * np.sin(x), 0.0, 3.0)[0]

    # A program that is met often is prepared.
    assert len({ct.gradient(f, 2.1) for _ in range(40)}) == 1
    assert len(made) == 2


@pytest.mark.parametrize("ends", INTEGRALS.values(), ids=INTEGRALS)
def test_one_program_for_all_integrals_of_a_function(ends, made):
    def f(p, q):
        return integrate.quad(lambda x: np.exp(-p * x * x) * np.cos(q * x), *ends)[0]

    for p, q in ((0.7, 0.2), (1.1, 0.4), (0.7, 0.2)):
        value, (of_p, of_q) = ct.value_and_gradient(f, p, q)
        assert value == f(p, q)
        np.testing.assert_allclose(of_p, slope_of(lambda p, q=q: f(p, q), p), rtol=1e-6)
        np.testing.assert_allclose(of_q, slope_of(lambda q, p=p: f(p, q), q), rtol=1e-5, atol=1e-9)
    assert 1 <= len(made) <= 2  # the number of pieces may differ


def test_integrals_with_arguments_arrays_and_points(made):
    weights = np.array([1.0, 0.5])

    def f(p):
        def inside(x, scale):
            return scale * p[0] * np.sin(x) + weights[1] * p[1] ** 2 * x

        one = integrate.quad(inside, 0.0, 1.0, args=(p[1],))[0]
        two = integrate.quad(inside, 0.0, 1.0, args=(2.0,), points=[0.3], full_output=1)[0]
        return one + two

    at = np.array([0.7, 1.3])
    (found,) = ct.gradient(f, at)
    expected = [
        slope_of(lambda v, i=i: f(np.where(np.arange(2) == i, v, at)), at[i]) for i in range(2)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    weights[1] = 2.0
    np.testing.assert_allclose(ct.gradient(f, at)[0][1], slope_of(
        lambda v: f(np.array([0.7, v])), 1.3
    ), rtol=1e-8)  # fmt: skip


@pytest.mark.parametrize("name", ROOTS)
def test_what_an_equation_reads_may_change(name, monkeypatch):
    shift, table = 0.0, [1.0]

    def f(p):
        return ROOTS[name](lambda x: x * np.exp(x) * FACTOR * table[0] - p - shift)

    def expect_right():
        np.testing.assert_allclose(ct.gradient(f, 2.0)[0], slope_of(f, 2.0), rtol=1e-5)

    expect_right()
    shift = 0.25
    expect_right()
    table[0] = 1.25
    expect_right()
    monkeypatch.setattr(HERE, "FACTOR", 2.0)
    expect_right()
    other = type(np)("numpy")
    vars(other).update(vars(np), exp=lambda x: 1.0 + x)
    monkeypatch.setitem(globals(), "np", other)
    slope = ct.gradient(f, 2.0)[0]
    expected = slope_of(f, 2.0)
    monkeypatch.undo()
    np.testing.assert_allclose(slope, expected, rtol=1e-5)
    expect_right()


def test_a_function_that_is_put_on_a_library_counts(monkeypatch):
    def f(p):
        return optimize.brentq(lambda x: np.cotan_test(x) - p, 0.0, 3.0)

    monkeypatch.setattr(np, "cotan_test", lambda x: x * 2.0, raising=False)
    assert ct.gradient(f, 2.0) == (0.5,)
    monkeypatch.setattr(np, "cotan_test", lambda x: x * 4.0)
    assert ct.gradient(f, 2.0) == (0.25,)


def test_a_name_that_hides_a_builtin_or_appears_late_counts(monkeypatch):
    def f(p):
        return optimize.brentq(lambda x: abs(x) + max(x, 0.0) - p, 0.0, 3.0)

    assert ct.gradient(f, 2.0) == (0.5,)
    monkeypatch.setitem(globals(), "max", lambda x, y: 3.0 * x)
    assert ct.gradient(f, 2.0) == (0.25,)
    monkeypatch.undo()
    assert ct.gradient(f, 2.0) == (0.5,)


@pytest.mark.parametrize("name", ROOTS)
def test_branches_on_the_unknown_and_on_what_is_active(name):
    def f(p):
        def equation(x):
            return x * np.exp(x) - p if x < 5.0 and p > 0 else x - p

        return ROOTS[name](equation)

    for p in (2.0, 2.5):
        np.testing.assert_allclose(ct.gradient(f, p)[0], slope_of(f, p), rtol=1e-5)


class OwnError(Exception):
    pass


@pytest.mark.parametrize("name", [*ROOTS, "quad"])
def test_errors_are_those_of_the_user(name):
    solve = ROOTS.get(name, lambda f: integrate.quad(f, 0.0, 3.0)[0])

    def f(p):
        return solve(lambda x: p * [1.0][2 if x > 0.5 else 0] * (x - 0.1))

    for _ in range(2):
        with pytest.raises(IndexError, match="list index out of range"):
            ct.gradient(f, 2.0)

    def g(p):
        def equation(x):
            raise OwnError("mine")

        return solve(equation) * p

    with pytest.raises(OwnError, match="mine"):
        ct.gradient(g, 2.0)


def test_errors_of_the_solver_are_raised():
    def f(p):
        return optimize.brentq(lambda x: x * x + p, 0.0, 3.0)

    for _ in range(2):
        with pytest.raises(ValueError, match="must have different signs"):
            ct.gradient(f, 2.0)


def test_equations_that_write_are_called_in_the_old_way():
    log, memory = [], np.zeros(1)

    def logged(p):
        def equation(x):
            log.append(1)
            memory[0] += 1.0
            return x * np.exp(x) - p

        return optimize.brentq(equation, 0.0, 3.0)

    logged(2.0)
    plain, counted = len(log), memory[0]
    log.clear()
    memory[:] = 0.0
    ct.gradient(logged, 2.0)
    assert len(log) == plain
    assert memory[0] == counted


def test_equations_that_write_to_their_argument():
    def f(p):
        def equations(v):
            v = v.copy()
            v[0] += 1.0
            return [v[0] * v[1] - p, v[1] - 2.0]

        return np.sum(optimize.fsolve(equations, [1.0, 1.0]))

    for _ in range(2):
        np.testing.assert_allclose(ct.gradient(f, 3.0)[0], 0.5, rtol=1e-9)


def test_second_derivatives_take_another_way():
    def f(p):
        root = optimize.brentq(lambda x: x**3 - p, 0.0, 3.0)
        return root + integrate.quad(lambda x: np.sin(p * x), 0.0, 1.0)[0]

    h = 1e-4
    expected = (ct.gradient(f, 2.0 + h)[0] - ct.gradient(f, 2.0 - h)[0]) / (2 * h)
    found = ct.gradient(lambda p: ct.gradient(f, p)[0], 2.0)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_nothing_depends_on():
    def f(p):
        q = ct.dropgrad(p)
        return optimize.brentq(lambda x: x - q, 0.0, 3.0) * p

    assert ct.value_and_gradient(f, 2.0) == (4.0, (2.0,))


@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_splines_of_active_values_in_a_right_side(kind):
    def f(p):
        table = interpolate.interp1d(np.linspace(0.0, 5.0, 11), p * np.cos(np.arange(11.0)), kind)

        def slope(t, y):
            return [y[1], -y[0] + table(t)]

        return np.sum(integrate.solve_ivp(slope, (0.0, 4.0), [1.0, 0.0], rtol=1e-7).y[:, -1])

    value, (found,) = ct.value_and_gradient(f, 0.8)
    np.testing.assert_allclose(value, f(0.8), rtol=1e-8)
    # The solution is linear in p.
    np.testing.assert_allclose(found, (f(0.8) - f(0.0)) / 0.8, rtol=1e-3)


def test_splines_of_other_classes_in_a_right_side():
    x = np.linspace(0.0, 5.0, 11)
    for spline in (interpolate.CubicSpline, interpolate.PchipInterpolator,
                   interpolate.make_interp_spline):  # fmt: skip

        def f(p, spline=spline):
            table = spline(x, p * np.cos(x) + 1.0)
            times = np.linspace(0.0, 4.0, 5)
            slope = lambda y, t: -y * table(t)
            return np.sum(integrate.odeint(slope, [1.0], times, rtol=1e-10, atol=1e-12))

        value, (found,) = ct.value_and_gradient(f, 0.8)
        np.testing.assert_allclose(value, f(0.8), rtol=1e-9)
        np.testing.assert_allclose(found, slope_of(f, 0.8, 1e-3), rtol=1e-5)
