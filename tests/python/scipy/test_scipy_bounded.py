"""Linear least squares with bounds."""

import numpy as np
import pytest
from scipy import optimize, sparse
from scipy.sparse.linalg import aslinearoperator
from scipy_cases import check

import cotan as ct

A = np.array([[1.0, 2.0, 0.3], [0.5, -1.0, 2.0], [2.0, 0.4, 1.0], [0.1, 0.7, -0.6]])
B = np.array([1.0, -2.0, 0.5, 3.0])


def test_nnls():
    free = optimize.nnls(A, B)[0] > 0
    assert 0 < np.sum(free) < 3
    check(lambda a, b: optimize.nnls(a, b), A, B, second=True)
    check(lambda b: optimize.nnls(A, b)[0], B)
    # Where all stay at zero nothing moves.
    below = np.array([-5.0, -4.0, -9.0, 0.0])
    x, norm = optimize.nnls(A, below)
    assert np.all(x == 0)
    (slope,) = ct.gradient(lambda b: np.sum(optimize.nnls(A, b)[0]) + optimize.nnls(A, b)[1], below)
    np.testing.assert_allclose(slope, below / norm)


def test_lsq_linear():
    def f(a, b):
        result = optimize.lsq_linear(a, b, (0.2, [0.5, 2.0, 3.0]))
        assert not np.all(result.active_mask == 0)
        return result.x, result.fun, result.cost, result.unbounded_sol[0]

    check(f, A, B, value_rtol=1e-6)
    check(lambda b: optimize.lsq_linear(A, b).x, B, value_rtol=1e-6)
    with pytest.raises(TypeError, match="lsq_linear: active bounds"):
        ct.gradient(lambda v: np.sum(optimize.lsq_linear(A, B, (v, 1.0)).x), 0.1)


@pytest.mark.parametrize("made", [sparse.csr_array, sparse.coo_matrix, aslinearoperator, list])
def test_forms_of_matrices(made):
    matrix = made(A)
    check(lambda b: optimize.lsq_linear(matrix, b, (0.2, [0.5, 2.0, 3.0])).x, B, value_rtol=1e-6)


def test_sparse_matrices_with_active_values():
    places = np.nonzero(A)

    def f(v):
        matrix = sparse.csr_array((v, places), shape=A.shape)
        return optimize.lsq_linear(matrix, B, (0.2, [0.5, 2.0, 3.0])).x

    check(f, A[places], value_rtol=1e-5, rtol=1e-4)


def test_nnls_of_a_column():
    check(lambda b: optimize.nnls(A, b), B[:, None])
