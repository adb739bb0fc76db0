"""Roots and minima of a function, one for each element."""

import numpy as np
import pytest
from scipy.optimize import elementwise
from scipy_cases import check

import cotan as ct

A = np.array([1.5, 0.4, 2.0])


def test_roots():
    # SciPy leaves elements out that are done: those of parameters are given by args.
    def f(a, b):
        cubic = lambda x, a: x**3 + b * x - a
        result = elementwise.find_root(cubic, (np.zeros(3), np.full(3, 9.0)), args=(a,))
        return result.x, result.f_x

    check(f, A, np.array(0.7), second=True, value_atol=1e-9)
    powers = lambda x, a, b: x**b - a
    check(lambda a, b: elementwise.find_root(powers, (0.1, 9.0), args=(a, b)).x, A, A + 1)
    check(lambda a: elementwise.find_root(powers, (0.1, 9.0), args=(a[0], 2.0)).x, A)


def test_minima():
    def f(a, b):
        square = lambda x, a: (x - a) ** 2 + 0.1 * b * x**4 * a
        bracket = elementwise.bracket_minimum(square, np.full(3, 0.3), args=(a,)).bracket
        result = elementwise.find_minimum(square, bracket, args=(a,))
        return result.x, result.f_x

    check(f, A, np.array(0.8), value_rtol=1e-6, step=1e-3, rtol=1e-4)


def test_what_has_no_derivative():
    outside = lambda a: elementwise.find_root(lambda x: x - a, (4.0, 9.0)).x
    with pytest.raises(ValueError, match="find_root: the equation of an element has no solution"):
        ct.gradient(outside, 1.0)
    constant = elementwise.find_root(lambda x: x**2 - 2, (0.0, 9.0)).x
    f = lambda a: a * elementwise.find_root(lambda x: x**2 - 2, (0.0, 9.0)).x
    assert ct.gradient(f, 3.0) == (constant,)
