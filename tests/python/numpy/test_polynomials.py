"""`numpy.polynomial` under a gradient: functions of the modules, and the classes."""

import numpy as np
import pytest
from numpy.polynomial import (
    Chebyshev,
    Hermite,
    HermiteE,
    Laguerre,
    Legendre,
    Polynomial,
    chebyshev,
    hermite,
    hermite_e,
    laguerre,
    legendre,
    polynomial,
)
from scipy_cases import check

import cotan as ct

C = np.array([0.3, -0.8, 1.2, 0.5])
D = np.array([1.1, 0.4, -0.6])
X = np.array([0.2, -0.5, 0.9])
GRID = np.random.default_rng(0).normal(size=(3, 4))
MODULES = {"poly": polynomial, "cheb": chebyshev, "leg": legendre, "herm": hermite,
           "herme": hermite_e, "lag": laguerre}  # fmt: skip


@pytest.mark.parametrize("prefix", MODULES)
def test_functions(prefix):
    module = MODULES[prefix]

    def function(name):
        return getattr(module, prefix + name)

    check(lambda x, c: function("val")(x, c), X, C, second=True)
    for name in ["add", "sub", "mul"]:
        check(lambda c, d: function(name)(c, d), C, D)
    check(lambda c, d: list(function("div")(c, d)), C, D)
    check(lambda c: function("pow")(c, 2), C)
    check(lambda c: function("mulx")(c), C)
    check(lambda c: function("der")(c), C)
    check(lambda c: function("int")(c, 1, [0.5]), C)
    check(lambda x: function("vander")(x, 3), X)
    check(lambda r: function("fromroots")(r), X)
    check(lambda x, y, c: function("val2d")(x, y, c), X, X[::-1].copy(), GRID)
    check(lambda x, y, c: function("grid2d")(x, y, c), X, X[::-1].copy(), GRID)


@pytest.mark.parametrize("cls", [Polynomial, Chebyshev, Legendre, Hermite, HermiteE, Laguerre])
def test_classes(cls):
    check(lambda c, x: cls(c)(x), C, X)
    check(lambda x: cls([1.0, 2.0, 3.0])(x), X)
    check(lambda c, x: cls(c, domain=[0, 2])(x), C, X)
    check(lambda c, d: ((cls(c) * cls(d) + cls(c) - 2) ** 2).coef, C, D)
    check(lambda c, x: cls(c).deriv()(x) + cls(c).integ()(x), C, X)
    constant = cls([0.5, -1.0])
    check(lambda c: (constant * cls(c) + cls(c) * constant - constant).coef, C)
    check(lambda c: 2.0 * cls(c)(0.3), C)
    seen = []
    ct.gradient(lambda c: seen.append(isinstance(cls(c), cls)) or cls(c)(1.0), C)
    assert seen == [True]


@pytest.mark.parametrize("p", [[1.0, -1, 0], [2.0, -6, 4, 0], [1.0, 0, 1, 0], [2.0, 0]])
def test_trailing_zeros_move_roots(p):
    p = np.array(p)
    n = p.size - 1

    def power_sums(p):
        """Give the sums of powers of the roots, by Newton's identities."""
        e = [(-1) ** k * p[k] / p[0] for k in range(n + 1)]
        sums = []
        for k in range(1, n + 1):
            last = (-1) ** (k - 1) * k * e[k]
            sums.append(last + sum((-1) ** (i - 1) * e[i] * sums[k - i - 1] for i in range(1, k)))
        return sum(s * (k + 2) for k, s in enumerate(sums))

    def f(p):
        r = np.roots(p)
        return np.real(sum(np.sum(r**k) * (k + 1) for k in range(1, n + 1)))

    assert ct.value_and_grad(f)(p)[0] == f(p)
    np.testing.assert_allclose(ct.grad(f)(p), ct.grad(power_sums)(p), 1e-12, 1e-12)
    np.testing.assert_allclose(ct.hessian(f, p), ct.hessian(power_sums, p), 1e-11, 1e-11)
    y, _ = ct.pullback(lambda p: np.roots(p), p.astype(np.float32))
    assert y.dtype == np.roots(p.astype(np.float32)).dtype


def test_several_roots_at_zero():
    # What moves nothing there has a slope, and what parts them an infinite one.
    def f(a, c):
        return np.sum(np.roots([1.0, -a, c, c]))

    da, dc = ct.gradient(f, 2.0, 0.0)
    assert da == 1.0
    assert not np.isfinite(dc)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.poly1d([x, 2.0, 1.0])(x) + np.poly1d([2.0, x]).deriv()(1.0),
        lambda x: (np.poly1d([x, 2.0, 1.0]) * np.poly1d([1.0, x]))(0.5),
        lambda x: (np.poly1d([x, 1.0]) + 2 * np.poly1d([1.0, 0.0, 3.0]) ** 2).integ()(x),
        lambda x: np.sum(np.real(np.poly1d([1.0, -3 * x, 2.0]).roots * [1.0, 2.0])),
        lambda x: np.polyval(np.poly1d([x, 1.0, 2.0]), np.array([1.0, x])).sum(),
        lambda x: np.poly1d([x, 2.0], r=True)(0.5),
        lambda x: (np.poly1d([x, 2.0, 3.0]) / np.poly1d([2.0, 1.0]))[0](x),
        lambda x: (np.poly1d([x, 2.0]) / 4.0)(x) + (np.poly1d([1.0, 2.0, x]) / x)(2.0),
        lambda x: np.poly1d([x, 2.0, 1.0])(np.poly1d([1.0, x]))(0.5),
        lambda x: np.polyval([1.0, 2.0, 3.0], np.poly1d([1.0, x]))(0.5),
        lambda x: np.polyval(np.poly1d([x, 2.0]), np.poly1d([1.0, 3.0])).order + x,
    ],
)
def test_poly1d_of_a_list_with_traced_numbers(f):
    x, h = 1.5, 1e-6
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(f(x))
    assert gradient == pytest.approx((f(x + h) - f(x - h)) / (2 * h), rel=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.polyder(np.poly1d([x[0], 2.0, x[1], 1.0]))(x[2]),
        lambda x: np.polyint(np.poly1d([x[0], 2.0, x[1]]), k=x[2])(x[0]),
        lambda x: np.polyadd(np.poly1d([x[0], 2.0]), np.poly1d([3.0, 1.0]))(x[1]),
        lambda x: np.polysub(np.poly1d([1.0, 2.0]), [x[0], x[1]])(x[2]),
        lambda x: np.polymul(np.poly1d([x[0], 2.0]), np.poly1d([x[1], 1.0]))(x[2]),
        lambda x: np.polydiv(np.poly1d([x[0], 2.0, 3.0]), np.poly1d([x[1], 1.0]))[0](x[2]),
        lambda x: np.sum(np.polyder([x[0], 2.0, x[1], 1.0]) * x[2]),
    ],
)
def test_functions_of_polynomials_give_polynomials(f):
    x = np.array([0.3, 0.5, 0.7])
    y, g = ct.value_and_grad(f)(x)
    np.testing.assert_allclose(y, f(x), 1e-14)
    step = 1e-6
    moves = step * np.eye(3)
    np.testing.assert_allclose(g, [(f(x + e) - f(x - e)) / (2 * step) for e in moves], 1e-7)


@pytest.mark.parametrize("cls", [Polynomial, Chebyshev, Legendre, Hermite, HermiteE, Laguerre])
@pytest.mark.parametrize(
    "f",
    [
        lambda cls, x: cls.fit(X * x, X**2, 1)(0.3),
        lambda cls, x: cls.fit(list(X * x), list(X), 1, domain=[0, x]).coef[1],
        lambda cls, x: cls.fit(X, X**2 * x, 2, w=X + x, full=True)[0].convert().coef[0],
        lambda cls, x: cls.fit(X, X**3 * x, 2).convert(kind=Polynomial).coef[0],
        lambda cls, x: cls.fromroots(X * x)(0.3),
        lambda cls, x: cls.fromroots([x, 0.5], domain=[0, 2]).coef[0],
        lambda cls, x: (cls([1.0, 2.0]) + x)(0.5) * (x - cls([1.0, 2.0]))(0.2),
        lambda cls, x: cls([x, 2.0])(cls([1.0, 0.5]))(0.3),
        lambda cls, x: (cls([1.0, 2.0, 3.0]) // cls([x, 1.0]))(0.5),
        lambda cls, x: (cls([1.0, 2.0, 3.0]) % cls([x, 1.0]))(0.5),
        lambda cls, x: sum(cls.basis(i) * c for i, c in enumerate([x, 1.0, x * x]))(0.7),
        lambda cls, x: cls([1.0, 2.0]).integ(1, k=[x])(0.5) + cls([1.0, 2.0]).integ(lbnd=x)(0.5),
    ],
)
def test_polynomials_of_constants_take_traced_numbers(cls, f):
    x, h = 1.5, 1e-6
    value, (gradient,) = ct.value_and_gradient(lambda x: f(cls, x), x)
    assert value == pytest.approx(f(cls, x), rel=1e-10)
    assert gradient == pytest.approx((f(cls, x + h) - f(cls, x - h)) / (2 * h), rel=1e-6, abs=1e-8)


def test_series_are_added_to_constants():
    check(lambda c: polynomial.polyadd([1.0, 2.0, 3.0, 4.0, 5.0], c), C)
    check(lambda c: polynomial.polysub(c, [1.0, 2.0, 3.0, 4.0, 5.0]), C)
