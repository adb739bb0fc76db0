"""The smallest example: the gradient of plain NumPy code, and a cotangent that is not computed."""

import numpy as np

import cotan as ct


def f(x, c):
    return np.sum(np.sin(x) * np.cos(c))


x, c = np.array([0.5, 1.0, 1.5]), np.ones(3)
print(ct.gradient(f, x, ct.const(c)))

y, back = ct.pullback(f, x, c)
dx, dc = back(1.0)
print(np.asarray(dx), dx.is_forced, dc.is_forced)
