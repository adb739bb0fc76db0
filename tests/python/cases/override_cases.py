"""What the tests of overrides share: names as they were before, slopes, modules of code."""

import cmath
import math
import types

import numpy as np
import pytest

import cotan as ct

X = np.array([0.5, 1.0, 1.5])
PLAIN = np.array([1.0, 2.0])
MATRIX = np.array([[1.0, 2.0], [3.0, 5.0]])
NAMES = [(np, "zeros"), (np, "array"), (np, "r_"), (np, "vectorize"), (math, "sin"), (cmath, "exp")]
BEFORE = [getattr(module, name) for module, name in NAMES]


def names_are_as_before():
    same = all(getattr(m, n) is f for (m, n), f in zip(NAMES, BEFORE, strict=True))
    return same and type(np) is types.ModuleType


def is_as_before():
    return names_are_as_before() and type(np.zeros(2)) is np.ndarray


def differences(f, x, step=1e-6):
    x = np.asarray(x, float)
    flat = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(x.size)]
    return np.array(flat)


def slope_is_right(f, x=0.7, step=1e-6, tolerance=1e-6):
    value, (slope,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(f(x), rel=1e-12)
    assert slope == pytest.approx((f(x + step) - f(x - step)) / (2 * step), rel=tolerance)


def module_of(code):
    module = types.ModuleType("simulation")
    exec(code, vars(module))
    return module
