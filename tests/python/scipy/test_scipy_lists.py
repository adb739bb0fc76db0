"""SciPy's functions on nested lists of traced scalars give what they give on arrays."""

import numpy as np
import pytest
from scipy import interpolate, sparse, spatial, special, stats
from scipy.sparse import linalg
from scipy_cases import total

import cotan as ct

RNG = np.random.default_rng(5)
POINTS = RNG.standard_normal((6, 2))
MATRIX = sparse.csc_array(np.eye(3) * 4 + RNG.standard_normal((3, 3)))
LOWER = sparse.csr_array(np.tril(MATRIX.toarray()))
OPERATOR = linalg.LinearOperator((3, 3), MATRIX.dot, MATRIX.T.dot)
TREE = spatial.KDTree(POINTS)
ALONG = interpolate.RBFInterpolator(POINTS, POINTS[:, 0])
NORMAL = stats.multivariate_normal([0.1, 0.2], [[2.0, 0.3], [0.3, 1.0]])
COV, VECTOR, QUERIES = np.array([[2.0, 0.3], [0.3, 1.0]]), RNG.standard_normal(3), POINTS[:3] + 0.1

CASES = {
    "a covariance": (lambda c: stats.multivariate_normal(None, c).logpdf([1.0, 1.0]), COV),
    "its density": (lambda c: stats.multivariate_normal.pdf([1.0, 1.0], None, c), COV),
    "a point": (NORMAL.logpdf, POINTS[0]),
    "points near a tree": (lambda x: TREE.query(x)[0], QUERIES),
    "points of a tree": (lambda x: spatial.KDTree(x).query([0.0, 0.1])[0], POINTS),
    "places of an interpolator": (lambda x: interpolate.RBFInterpolator(x, POINTS[:, 0])(QUERIES),
                                  POINTS),
    "values of an interpolator": (lambda d: interpolate.RBFInterpolator(POINTS, d)(QUERIES),
                                  POINTS[:, 1]),
    "points of an interpolator": (ALONG, QUERIES),
    "lambertw": (lambda z: special.lambertw(z).real, VECTOR + 3),
    "zeta": (lambda q: special.zeta([2.0, 3.0, 4.0], q) + special.zeta(q), VECTOR + 3),
    "a sparse product": (lambda x: MATRIX @ x, VECTOR),
    "dot": (MATRIX.dot, VECTOR),
    "spsolve": (lambda b: linalg.spsolve(MATRIX, b), VECTOR),
    "spsolve_triangular": (lambda b: linalg.spsolve_triangular(LOWER, b), VECTOR),
    "gmres": (lambda b: linalg.gmres(MATRIX, b, rtol=1e-12)[0], VECTOR),
    "gmres with an operator": (lambda b: linalg.gmres(OPERATOR, b, rtol=1e-12)[0], VECTOR),
}  # fmt: skip


def nested(x):
    return [nested(item) for item in x] if np.ndim(x) else x


@pytest.mark.parametrize("name", CASES)
def test_lists_of_traced_numbers(name):
    f, x = CASES[name]
    value, (slope,) = ct.value_and_gradient(lambda x: total(f(nested(x))), x)
    wanted, (wanted_slope,) = ct.value_and_gradient(lambda x: total(f(x)), x)
    np.testing.assert_allclose(value, wanted, rtol=1e-9)
    np.testing.assert_allclose(slope, wanted_slope, rtol=1e-7, atol=1e-9)
    assert np.any(slope)
