"""A few eigenvalues and singular values of sparse matrices, and sparse matrices of dense arrays."""

import numpy as np
import pytest
import scipy.linalg
from scipy import sparse
from scipy.sparse import linalg
from scipy_cases import check

import cotan as ct

X = np.random.default_rng(0).random(8)
Y = np.random.default_rng(1).random((5, 7))
WEIGHTS = np.arange(16.0).reshape(8, 2)
START = np.ones(8)


def hamiltonian(x):
    return sparse.diags([x, -np.ones(7), -np.ones(7)], [0, 1, -1]).tocsc()


def eigsh(a, k=2, **options):
    return linalg.eigsh(a, k, v0=START, **options)


PROGRAMS = {
    "values": lambda x: np.sum(eigsh(hamiltonian(x), 3, which="SA")[0] * [1, 2, 3]),
    "vectors": lambda x: np.sum(eigsh(hamiltonian(x))[1] * WEIGHTS),
    "near": lambda x: np.sum(eigsh(hamiltonian(x), sigma=0.3, return_eigenvectors=False) ** 2),
    "of a dense matrix": lambda x: eigsh(np.outer(x, x) + np.diag(x), 1)[0][0],
    "of two": lambda x: np.sum(
        eigsh(hamiltonian(x), M=sparse.diags(1 + x**2).tocsc(), sigma=0.1)[1] ** 2 * WEIGHTS
    ),
    "buckling": lambda x: np.sum(
        eigsh(
            (hamiltonian(x) + 4 * sparse.eye(8)).tocsc(),
            M=hamiltonian(0.3 * x),
            sigma=1.0,
            mode="buckling",
        )[1]
        ** 2
        * WEIGHTS
    ),
    "buckling of one": lambda x: np.sum(
        buckling_of_one(x)[1] ** 2 * WEIGHTS + buckling_of_one(x)[0]
    ),
}


def buckling_of_one(x):
    return eigsh((hamiltonian(x) + 4 * sparse.eye(8)).tocsc(), sigma=1.0, mode="buckling")


@pytest.mark.parametrize("name", PROGRAMS)
def test_eigenvalues(name):
    check(PROGRAMS[name], X)


def test_singular_values():
    def f(y):
        u, s, vh = linalg.svds(sparse.csr_matrix(y), 2, v0=np.ones(5))
        only = linalg.svds(y, 2, return_singular_vectors=False)
        return np.sum(u * WEIGHTS[:5]) + np.sum(vh.T * WEIGHTS[:7]) + np.sum(s * only)

    check(f, Y)


def test_constants_and_what_is_refused():
    h = hamiltonian(X)
    # What SciPy draws itself, it hands to compiled code.
    assert ct.gradient(lambda x: x * linalg.eigsh(h, 1)[0][0], 2.0) == (
        pytest.approx(linalg.eigsh(h, 1)[0][0]),
    )
    large = linalg.LinearOperator((1200, 1200), matvec=lambda y: X[0] * y)
    with pytest.raises(TypeError, match="LinearOperator of 1200 columns.*pass its matrix"):
        ct.gradient(lambda x: linalg.eigsh(x[0] * large, 1)[0][0], X)
    with pytest.raises(TypeError, match="cannot be recorded"):
        ct.prepare(lambda x: linalg.eigsh(hamiltonian(x), 1)[0][0], X)


class Chain(linalg.LinearOperator):
    """A matrix that is known by its products only."""

    def __init__(self, x):
        super().__init__(np.dtype(float), (8, 8))
        self.x = x

    def _matvec(self, y):
        y = np.ravel(y)
        moved = self.x * y
        moved[1:] += y[:-1]
        moved[:-1] += y[1:] * self.x[0]
        return moved

    def _adjoint(self):
        return linalg.aslinearoperator(dense_chain(self.x).T)


def dense_chain(x):
    return np.diag(x) + np.diag(np.ones(7), -1) + np.diag(np.ones(7), 1) * x[0]


def test_operators():
    def hermitian(x):
        return linalg.aslinearoperator(hamiltonian(X)) + np.sum(x) * linalg.LinearOperator(
            (8, 8), matvec=lambda y: x * np.ravel(y) ** 1
        )

    def lowest(x):
        values, vectors = linalg.eigsh(hermitian(x), 2, which="SA", v0=START)
        return np.sum(values) + np.sum(vectors * WEIGHTS)

    check(lowest, X)
    check(lambda x: np.real(linalg.eigs(Chain(x), 1, v0=START, return_eigenvectors=False)), X)
    check(lambda x: linalg.svds(Chain(x), 2, return_singular_vectors=False, v0=START), X)
    h = linalg.aslinearoperator(hamiltonian(X))
    check(lambda x: linalg.eigsh(h, 1, M=np.diag(x), v0=START)[0], X)


def test_exponentials_of_what_moves():
    check(lambda x: linalg.expm_multiply(Chain(x), START, traceA=1.0), X, value_rtol=1e-8)
    check(lambda x: linalg.expm_multiply(-0.3j * hamiltonian(x), START + 0j), X, value_rtol=1e-8)
    check(
        lambda x: linalg.expm_multiply(hamiltonian(x), WEIGHTS * x[0], 0.0, x[1], 3),
        X,
        value_rtol=1e-8,
    )
    check(lambda x: linalg.expm_multiply(hamiltonian(X), x, 0.0, 1.0, 3, False), X, value_rtol=1e-8)
    check(lambda x: linalg.expm_multiply(hamiltonian(X), x, traceA=2.0), X, value_rtol=1e-8)
    check(lambda x: linalg.expm_multiply(Chain(X), x, traceA=np.sum(X)), X, value_rtol=1e-8)
    np.testing.assert_allclose(
        linalg.expm_multiply(Chain(X), START, traceA=1.0), scipy.linalg.expm(dense_chain(X)) @ START
    )


@pytest.mark.filterwarnings("ignore:`kron` is switching:DeprecationWarning")
def test_products_of_rows():
    check(lambda x: sparse.kron(x, np.array([1.0, 2.0])).toarray(), X)


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix])
def test_sparse_of_dense(make):
    dense = Y[:4, :4].copy()
    dense[1, 2] = dense[0, 0] = 0.0

    def f(x):
        return np.sum((make(x) @ np.arange(4.0)) ** 2) + make(x).toarray()[1, 2] * 3.0

    check(f, dense)
    with pytest.raises(ValueError, match="inconsistent shapes"):
        ct.gradient(lambda x: make(x, shape=(9, 9)).sum(), dense)


def one_way(x):
    return sparse.diags([x, -np.ones(7), -x[:7]], [0, 1, -1]).tocsc()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: linalg.eigs(one_way(x), 3, which="LM", v0=START)[0],
        lambda x: linalg.eigs(one_way(x), k=2, sigma=0.2, v0=START, return_eigenvectors=False),
        lambda x: np.abs(linalg.eigs(one_way(x), 2, v0=START)[1]) ** 2,
        lambda x: linalg.eigs(
            A=one_way(x), k=2, M=hamiltonian(4 + x), sigma=0.2, return_eigenvectors=False
        ),
        lambda x: (
            np.abs(linalg.eigs(one_way(x), 2, M=hamiltonian(4 + x), sigma=0.2, v0=START)[1]) ** 2
        ),
        lambda x: linalg.eigs(np.outer(x, x) + np.diag(x), 1, v0=START)[0],
    ],
)
def test_eigenvalues_of_matrices_that_are_not_symmetric(f):
    check(lambda x: np.sum(np.abs(f(x)) ** 2), X, value_rtol=1e-7)


def test_exponentials_of_active_matrices():
    check(lambda x: linalg.expm(hamiltonian(x)).toarray(), X[:8], value_rtol=1e-8)
    check(lambda x: linalg.expm(hamiltonian(X)) @ x, X)
    check(lambda x: linalg.expm(np.diag(x))[0], X)
    assert linalg.expm(hamiltonian(X)).format == "csc"


@pytest.mark.parametrize("factor", [linalg.splu, linalg.spilu])
def test_factors_from_outside(factor):
    factors = factor(hamiltonian(X + 3))
    check(lambda s: s * factors.solve(np.ones(8)), 1.5)
    for trans in "NTH":
        check(lambda b, t=trans: factors.solve(b, t), WEIGHTS, second=True)
        check(lambda b, t=trans: factors.solve(rhs=b, trans=t), START)
    f = lambda b: np.sum(factors.solve(b) ** 2)
    np.testing.assert_allclose(ct.prepare(f)(START)[0], ct.gradient(f, START)[0])
    check(lambda s: s * factor(hamiltonian(X + 3)).solve(np.ones(8)), 1.5)
    turned = factor(hamiltonian(X + 3) * (1 + 0.5j))
    for trans in "NTH":
        check(lambda b, t=trans: turned.solve(b, t), START + 1j * X)


def test_dense_constants_made_inside():
    def found():
        a = np.array(np.arange(64.0).reshape(8, 8) % 7)
        every = linalg.eigs(np.eye(8), 3, v0=START)[0], *linalg.eigs(a, 2, v0=START)
        return *every, *eigsh(a + a.T), *linalg.svds(a, 2, v0=START)

    seen = []
    ct.gradient(lambda z: [seen.append(found()), z][1], 1.0)
    for inside, plain in zip(seen[0], found(), strict=True):
        np.testing.assert_allclose(np.asarray(inside), plain)
