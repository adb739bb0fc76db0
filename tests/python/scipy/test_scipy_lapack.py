"""Solvers of LAPACK under a gradient."""

import numpy as np
import pytest
from scipy.linalg import blas, get_lapack_funcs, lapack
from scipy_cases import check

import cotan as ct

RNG = np.random.default_rng(2)
A = RNG.normal(size=(4, 4)) + 4 * np.eye(4)
S = A @ A.T
B = RNG.normal(size=(4, 2))
V = B[:, 0]
D, E = np.array([4.0, 5.0, -4.5, 6.0]), np.array([0.5, -1.0, 0.75])
BANDS = np.zeros((7, 4))
BANDS[2:] = RNG.normal(size=(5, 4))
BANDS[4] += 6.0


def test_solutions():
    check(lambda d, e, b: lapack.dgtsv(e, d, 2 * e, b)[3], D, E, B)
    check(lambda d, e, b: get_lapack_funcs(("gtsv",), (d, b))[0](e, d, e, b)[3], D, E, V)
    check(lambda d, e, b: lapack.dptsv(d + 9, e, b)[2], D, E, V)
    check(lambda a, b: lapack.dgesv(a, b)[2], A, B)
    check(lambda a, b: lapack.dgbsv(2, 2, a, b)[2], BANDS, V)
    for lower in (0, 1):
        check(lambda a, b, lower=lower: lapack.dposv(a + a.T, b, lower=lower)[1], S, V)


def test_a_solution_that_is_written_over_the_right_side():
    def f(a, b):
        x = np.array(b)
        lapack.dgesv(a, x, overwrite_b=1)
        return x

    check(f, A, V)


def test_factors_are_refused_where_they_count():
    def f(d):
        _, factor, _, x, info = lapack.dgtsv(E, d, E, V)
        return np.sum(x) * (1 + info), factor

    assert np.all(np.isfinite(ct.gradient(lambda d: f(d)[0], D)[0]))
    with pytest.raises(TypeError, match="gtsv makes of matrices has no derivative.*lu_factor"):
        ct.gradient(lambda d: np.sum(f(d)[1]), D)


def test_a_singular_matrix_says_so():
    assert ct.gradient(lambda x: x * lapack.dgesv(np.zeros((2, 2)) * x, V[:2])[3], 3.0) == (1.0,)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("diag", [0, 1])
@pytest.mark.parametrize("name", ["dtrsm", "ztrsm"])
def test_triangular_systems_of_blas(side, lower, trans, diag, name):
    rng = np.random.default_rng(3)
    a, b = np.eye(3) * 2 + rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
    if name == "ztrsm":
        a, b = a + 1j * rng.normal(size=(3, 3)), b + 1j * rng.normal(size=(3, 3))
    options = {"side": side, "lower": lower, "trans_a": trans, "diag": diag}

    def f(a, b):
        return getattr(blas, name)(1.5, a, b, **options)

    check(f, a, b)

    def written(b):
        target = np.array(b, order="F")
        getattr(blas, name)(1.5, a, target, overwrite_b=1, **options)
        return target

    check(written, b)


def test_scalars_that_are_exchanged():
    def f():
        x = np.array([1.0, 2.0, 3.0])
        a, b = blas.dswap(x[1], x[0])
        x[1], x[0] = a, b
        return [float(v) for v in (a, b, *x)]

    seen = []
    ct.gradient(lambda z: [seen.append(f()), z][1], 1.0)
    assert seen[0] == f()
