"""Where a derivative rule is missing, the error says so by its class."""

import numpy as np
import pytest

import cotan as ct

interpolate = pytest.importorskip("scipy.interpolate")
sparse = pytest.importorskip("scipy.sparse")
linalg = pytest.importorskip("scipy.sparse.linalg")

X = np.linspace(0.0, 1.0, 8)


def traced_matrix(x):
    return sparse.csr_array((x, (np.arange(x.size), np.arange(x.size))))


def written_into_csr(x):
    matrix = sparse.csr_array(np.eye(8))
    matrix[0, 0] = x[0]
    return matrix.sum()


CONSTANT = np.ma.array(np.ones(8), mask=False)


def written_into_masked(x):
    CONSTANT[0] = x[0]
    return CONSTANT.sum()


REFUSED = {
    "splrep: only": lambda x: interpolate.splrep(X, x, t=[0.5])[1],
    "splrep: only x and y": lambda x: interpolate.splrep(X, np.sin(X), xb=x[0])[1],
    "make_interp_spline: only y": lambda x: interpolate.make_interp_spline(
        X, X, bc_type=([(1, x[0])], [(1, 0.0)])
    )(0.5),
    "lsqr: only b": lambda x: linalg.lsqr(traced_matrix(x + 1), np.ones(8))[0],
    "eigsh: only A and M": lambda x: linalg.eigsh(
        traced_matrix(x + 1), k=2, Minv=sparse.eye_array(8)
    )[0],
    "eigs: only A and M": lambda x: linalg.eigs(
        traced_matrix(x + 1), k=2, Minv=sparse.eye_array(8)
    )[0],
    "csr_array: a traced value cannot be written": written_into_csr,
    "numpy.ma: __setitem__ would write": written_into_masked,
    "vectorize: a masked array": lambda x: np.vectorize(lambda v: v)(
        np.ma.array(x, mask=[False] * 8)
    ),
    "multivariate_normal: with a traced covariance": lambda x: np.random.default_rng(
        0
    ).multivariate_normal(np.zeros(8), np.diag(x + 1), method="cholesky"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_missing_rule_is_not_a_plain_type_error(message):
    with pytest.raises(ct.NotDifferentiableError, match=message):
        ct.gradient(lambda x: np.sum(np.abs(REFUSED[message](x))), X)
