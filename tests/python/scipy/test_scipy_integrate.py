"""Functions of `scipy.integrate` under a gradient."""

import numpy as np
import pytest
from scipy import integrate
from scipy_cases import check

import cotan as ct

RNG = np.random.default_rng(1)
Y = RNG.normal(size=7)
GRID = np.array([0.0, 0.3, 0.5, 1.1, 1.2, 1.9, 2.4])
ROWS = RNG.normal(size=(3, 6))


@pytest.mark.parametrize("name", ["trapezoid", "simpson"])
def test_samples(name):
    function = getattr(integrate, name)
    del function
    check(lambda y: getattr(integrate, name)(y), Y, second=True)
    check(lambda y, x: getattr(integrate, name)(y, x), Y, GRID, second=True) if (
        name == "trapezoid"
    ) else check(lambda y, x: integrate.simpson(y, x=x), Y, GRID, second=True)
    check(lambda y: getattr(integrate, name)(y, dx=0.3, axis=0), ROWS)
    check(lambda y, x: getattr(integrate, name)(y, x=x), ROWS, GRID[:6])
    check(lambda y, dx: getattr(integrate, name)(y, dx=dx), Y, 0.4)


def test_running_integrals():
    check(lambda y, x: integrate.cumulative_trapezoid(y, x, initial=0), Y, GRID)
    check(lambda y: integrate.cumulative_trapezoid(y, axis=0), ROWS)
    check(lambda y, x: integrate.cumulative_simpson(y, x=x, initial=0), Y, GRID)
    check(lambda y: integrate.cumulative_simpson(y, dx=0.3), ROWS)
    check(lambda y: integrate.romb(y, dx=0.3), RNG.normal(size=9))


def test_quad():
    check(lambda p: integrate.quad(lambda x: np.exp(-p * x**2), 0, 2)[0], 1.3, second=True)
    check(lambda p: integrate.quad(lambda x, p: np.cos(p * x), 0, 2, (p,))[0], 1.3)
    check(
        lambda p, a, b: integrate.quad(lambda x: np.cos(p * x), a, b)[0], 1.3, 0.2, 2.1, second=True
    )
    check(lambda p, a, b: integrate.quad(lambda x: np.cos(p * x), a, b)[0], 1.3, 2.1, 0.2)
    check(lambda v: integrate.quad(lambda x: v[0] * x + v[1] * x**2, 0, 1)[0], np.array([1.0, 2.0]))
    check(lambda p: integrate.quad(lambda x: np.abs(x - 0.3) ** p, 0, 1, points=[0.3])[0], 1.3)
    check(lambda a, b: integrate.quad(np.cos, a, b)[0], 0.2, 2.1)


@pytest.mark.parametrize(
    "limits", [(0.3, np.inf), (-np.inf, 0.3), (-np.inf, np.inf), (np.inf, 0.3), (0.3, -np.inf)]
)
def test_quad_without_end(limits):
    check(lambda p: integrate.quad(lambda x: np.exp(-p * x**2), *limits)[0], 1.3, second=True)
    check(lambda p: integrate.quad_vec(lambda x: np.exp(-p * x**2), *limits)[0], 1.3)


def test_quad_at_an_active_end():
    check(lambda a: integrate.quad(lambda x: np.exp(-(x**2)), a, np.inf)[0], 0.4)
    check(lambda b: integrate.quad(lambda x: np.exp(-(x**2)), -np.inf, b)[0], 0.4)


def test_what_quad_gives():
    seen = []

    def f(p):
        seen.append(integrate.quad(lambda x: p * x, 0, 1))
        seen.append(integrate.quad(lambda x: x, 0, 1))
        seen.append(integrate.quad(lambda x: p * x, 0, 1, full_output=1))
        return seen[0][0]

    ct.gradient(f, 2.0)
    assert seen[0][1] == integrate.quad(lambda x: 2 * x, 0, 1)[1]
    assert seen[1] == integrate.quad(lambda x: x, 0, 1)
    assert type(seen[1][0]) is float
    assert "neval" in seen[2][2]
    with pytest.raises(TypeError, match="weight"):
        ct.gradient(lambda p: integrate.quad(lambda x: p * x, 0, 1, weight="cos", wvar=2)[0], 2.0)
    with pytest.raises(ValueError, match="singular"):
        ct.gradient(lambda p: integrate.quad(lambda x: p / np.sqrt(x), 0, 1)[0], 2.0)
    check(lambda p: integrate.quad(lambda x: np.exp(1j * p * x), 0, 1, complex_func=True)[0], 2.0)


def test_integrals_of_more_variables():
    check(lambda p: integrate.dblquad(lambda y, x: np.exp(p * x * y), 0, 1, 0, 2)[0], 0.7)
    check(lambda p: integrate.dblquad(lambda y, x: p * x * y, 0, 1, 0, lambda x: p * x)[0], 0.7)
    check(lambda p: integrate.nquad(lambda x, y: np.cos(p * x * y), [(0, 1), (0, 2)])[0], 0.7)
    check(lambda p: integrate.fixed_quad(lambda x: np.exp(-p * x), 0, 1, n=5)[0], 0.7)
    check(lambda a, b: integrate.fixed_quad(lambda x: np.exp(-x), a, b)[0], 0.7, 2.0)
    check(
        lambda p, b: integrate.quad_vec(lambda x: np.exp(-p * x), 0, b)[0],
        np.array([0.7, 1.2]),
        2.0,
    )


def test_weights_of_quadrature_that_move_are_refused():
    for weight, at in (("sin", lambda v: v), ("alg", lambda v: (v, 0.1)), ("cauchy", lambda v: -v)):
        f = lambda v, weight=weight, at=at: integrate.quad(
            lambda x: x * x, 0, 1, weight=weight, wvar=at(v)
        )[0]
        with pytest.raises(TypeError, match="put the weight into the integrand"):
            ct.gradient(f, 0.5)
        assert ct.gradient(lambda x, f=f: x * f(0.5), 1.0) == (f(0.5),)


def test_what_an_integrand_keeps():
    def seen(p, integral):
        log = []

        def decay(x):
            log.append(np.exp(-p * x))
            return log[-1]

        return integral(decay, 0, 1)[0] + np.sum(np.square(log)) + len(log)

    check(lambda p: seen(p, integrate.quad), 0.7)
    check(lambda p: seen(p, integrate.quad_vec), 0.7)


JUMPS = {
    "jump": lambda u, a: u * a if u < a else 2.0,
    "step": lambda u, a: 1.0 if u < a else 0.0,
    "kink": lambda u, a: abs(u - a) * u,
}


@pytest.mark.parametrize("name", JUMPS)
@pytest.mark.parametrize("ends", [(0.0, 1.0), (1.0, 0.0)])
def test_active_points_move_the_pieces(name, ends):
    def total(a):
        return integrate.quad(lambda u: JUMPS[name](u, a), *ends, points=[0.8, a])[0]

    a, h = 0.37, 1e-6
    slope = lambda a: ct.gradient(total, a)[0]
    assert ct.value_and_gradient(total, a)[0] == total(a)
    assert slope(a) == pytest.approx((total(a + h) - total(a - h)) / (2 * h), rel=1e-6)
    second = (slope(a + h) - slope(a - h)) / (2 * h)
    assert ct.hessian(total, a) == pytest.approx(second, rel=1e-6, abs=1e-7)


def test_active_points_of_vectors():
    def total(a):
        def f(u):
            return np.array([u * a, 1.0]) if u < a else np.array([2.0, 0.0])

        return np.sum(integrate.quad_vec(f, 0.0, 1.0, points=[a])[0])

    a, h = 0.37, 1e-6
    assert ct.gradient(total, a)[0] == pytest.approx((total(a + h) - total(a - h)) / (2 * h))


def test_active_points_on_a_half_line_are_refused():
    def total(a):
        f = lambda u: np.exp(-u) if u < a else 0.0
        return integrate.quad_vec(f, 0.0, np.inf, points=[a])[0]

    with pytest.raises(ct.NotDifferentiableError, match="up to each point"):
        ct.gradient(total, 0.5)
