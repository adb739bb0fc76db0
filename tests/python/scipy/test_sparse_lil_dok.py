"""Sparse matrices into which traced values are written one by one."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import linalg
from scipy_cases import check

import cotan as ct

X = np.array([1.5, -0.4, 0.7])
B = np.array([0.3, -1.0, 2.0, 0.5])
MAKERS = [sparse.lil_matrix, sparse.lil_array, sparse.dok_matrix, sparse.dok_array]


def assembled(make, x):
    """Give a matrix as programs that follow a textbook assemble it, element by element."""
    k = make((4, 4))
    for i in range(3):
        k[i, i] += x[i] + 4
        k[i + 1, i + 1] += 2.0
        k[i, i + 1] -= x[i]
        k[i + 1, i] -= x[i] * x[0]
    k[3, 3] = x[2] ** 2 + 5
    return k


@pytest.mark.parametrize("make", MAKERS)
def test_element_by_element(make):
    k = lambda x: assembled(make, x)
    check(lambda x: k(x).toarray(), X, second=True)
    check(lambda x: linalg.spsolve(k(x).tocsc(), B), X)
    check(lambda x: k(x) @ B, X)
    check(lambda x: k(x).dot(np.outer(B, B)), X)
    check(lambda x: (k(x).tocsr()[1:3] @ B, k(x)[1, 0], k(x)[-1, -1], k(x)[0, 3]), X)
    check(lambda x: (k(x).T @ B, k(x).diagonal(), k(x).tocoo().sum(), (2 * k(x)).toarray()), X)
    check(lambda x: k(x).copy().tocsc().toarray(), X)
    # A constant one is SciPy's own.
    assert ct.gradient(lambda y: y * assembled(make, X).sum(), 1.0)[0] == assembled(make, X).sum()


@pytest.mark.parametrize("make", MAKERS)
def test_parts_at_once(make):
    def f(x):
        k = make((4, 4))
        places = np.ix_([0, 2], [1, 3])
        k[places] = np.outer(x[:2], x[1:])
        k[3, 0:3] = x
        k[[0, 1], [0, 1]] = x[:2] * 2
        k[1] = 1.0
        k[2, 2] = sparse.csr_array(np.outer(x, x))[0, 1]
        return k.toarray()

    check(f, X)


def test_constants_are_written_over_active_values():
    def f(x):
        k = sparse.lil_matrix(assembled(sparse.dok_matrix, x).tocoo())
        # As boundary conditions are put in.
        k[1, :] = 0
        k[:, 2] = 0.0
        k[1, 1] = 1
        corners = k[np.ix_([0, 3], [0, 3])]
        return linalg.spsolve(sparse.csc_matrix(k) + sparse.eye(4), B), corners.toarray()

    check(f, X)


def test_what_does_not_fit_is_refused():
    def f(x):
        k = sparse.lil_matrix((2, 2), dtype=int)
        k[0, 0] = x
        return k.sum()

    with pytest.raises(TypeError, match="dtype=float64"):
        ct.gradient(f, 1.0)


@pytest.mark.parametrize("make", [sparse.lil_matrix, sparse.dok_matrix])
def test_places_count_from_the_end_and_are_inside(make):
    def f(x):
        k = make((4, 3))
        k[-1, -3] = x[0] * x[1]
        k[np.int64(0), 2] = x[1]
        return k.toarray()

    check(f, X)
    for place in [(4, 0), (0, -4)]:
        with pytest.raises(IndexError):
            ct.gradient(lambda t, place=place: make((4, 3)).__setitem__(place, t), 1.0)


@pytest.mark.parametrize("make", [sparse.lil_matrix, sparse.dok_array])
def test_a_row_of_values_goes_into_a_column(make):
    def f(x):
        k = make((3, 3))
        k[0:3, 0] = np.array([x[0], x[1], 1.0])
        k[0:2, 1:2] = np.array([x[0] * x[1], x[1]])
        k[:2, :] = k[:2, :].toarray() + x[:3]
        return k.toarray()

    check(f, X)


@pytest.mark.parametrize("make", [sparse.lil_matrix, sparse.dok_array])
def test_products_element_by_element(make):
    def f(x):
        k = make((3, 3))
        k[0, 0], k[1, 2], k[2, 2] = x[0], x[1] * x[0], 3.0
        other = make((3, 3))
        other[1, 2], other[0, 1] = x[1], x[0]
        products = [k.multiply(2.0), k.multiply(k), k.multiply(other), k.multiply(x[0])]
        return sum(p.sum() for p in products) + k.multiply(np.ones((3, 3)) * x[1]).sum() + k.mean()

    check(f, X)
