"""What the tests of lifting share: names that are lifted, as they were before, and differences."""

import cmath
import math
import types

import numpy as np

X = np.array([0.5, 1.0, 1.5])
NAMES = [(np, "zeros"), (np, "array"), (np, "r_"), (np, "vectorize"), (math, "sin"), (cmath, "exp")]
BEFORE = [getattr(module, name) for module, name in NAMES]


def is_as_before():
    same = all(getattr(m, n) is f for (m, n), f in zip(NAMES, BEFORE, strict=True))
    return same and type(np) is types.ModuleType and type(np.zeros(2)) is np.ndarray


def differences(f, x, step=1e-6):
    x = np.asarray(x, float)
    flat = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(x.size)]
    return np.array(flat)
