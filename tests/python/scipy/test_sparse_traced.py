"""Sparse matrices whose elements are differentiated: formats, parts, sums, products."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import linalg
from scipy_cases import check

import cotan as ct

V = np.array([1.5, -0.4, 0.7, 2.0, 0.3])
# The last element comes to the place of the first.
ROWS, COLUMNS = np.array([0, 1, 2, 3, 0]), np.array([0, 2, 1, 3, 0])
B = np.array([0.3, -1.0, 2.0, 0.5])
OTHER = sparse.csr_array(np.array([[0, 1.0, 0, 2], [3, 0, 0, 0], [0, 4, 5, 0], [1, 0, 0, 2]]))


def made(v, kind="array", form="coo"):
    make = {"array": sparse.coo_array, "matrix": sparse.coo_matrix}[kind]
    return make((v, (ROWS, COLUMNS)), shape=(4, 4)).asformat(form)


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
def test_parts_and_formats(form, kind):
    a = lambda v: made(v, kind, form)
    for target in ("coo", "csr", "csc"):
        check(lambda v, target=target: a(v).asformat(target) @ B, V, second=True)
    check(lambda v: a(v).T.tocsr() @ B, V)
    check(lambda v: a(v).diagonal(), V)
    check(lambda v: a(v).diagonal(1), V)
    check(lambda v: a(v).trace(), V)
    check(lambda v: a(v).sum(), V)
    flat = lambda m: m.A1 if isinstance(m, np.matrix) else m.reshape(-1)
    check(lambda v: flat(a(v).todense()), V)
    check(lambda v: flat(a(v).sum(axis=0)), V)
    check(lambda v: flat(a(v).sum(axis=1)), V)
    check(lambda v: a(v).tocsr()[1:3] @ B, V)
    check(lambda v: a(v).tocsr()[[0, 2]][:, [0, 1, 3]].toarray(), V)
    check(lambda v: a(v).tocsr()[np.ix_([0, 1], [0, 2])].toarray(), V)
    check(lambda v: a(v).tocsc()[:, :2].toarray(), V)
    check(lambda v: a(v).tocsr()[1, 2] * a(v).tocsr()[0, 0] + a(v).tocsr()[3, 0], V)


def test_duplicates_and_zeros_in_place():
    def f(v):
        coo, csr = made(v), made(v).tocsr()
        coo.sum_duplicates()
        csr.eliminate_zeros()
        csr.sum_duplicates()
        assert coo.nnz == csr.nnz == 4
        return coo @ B + csr @ B

    check(f, V)


@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_sums_and_products(kind):
    other = OTHER if kind == "array" else sparse.csr_matrix(OTHER)
    a = lambda v: made(v, kind, "csr")
    check(lambda v: (a(v) + other).toarray(), V)
    check(lambda v: (other - a(v)) @ B, V)
    check(lambda v: (a(v) - 2 * a(v).T.tocsr()) @ B, V)
    check(lambda v: (a(v) @ other).toarray(), V, second=True)
    check(lambda v: (other @ a(v)) @ B, V)
    check(lambda v: (a(v).T @ other @ a(v)) @ B, V)
    with pytest.raises(ValueError, match="do not fit"):
        ct.gradient(lambda v: (a(v) @ other[:3])[0, 0], V)


def test_diagonals():
    check(lambda v: sparse.diags([v, v[:-1], -v[1:]], [0, 1, -1]).tocsr() @ V, V)
    check(lambda v: sparse.diags(v) @ V, V)
    check(lambda v: sparse.diags_array([v], offsets=[2]) @ np.ones(7), V)
    check(lambda v: sparse.diags([v[0], v[1]], [0, 1], shape=(5, 6)) @ np.arange(6.0), V)
    check(lambda v: sparse.spdiags([v, 2 * v], [0, 1], 5, 5) @ V, V)
    check(lambda v: sparse.diags([v], [0], format="csc") @ V, V)
    with pytest.raises(ValueError, match="does not agree"):
        ct.gradient(lambda v: sparse.diags([v, v[:3]], [0, 1]).sum(), V)


def test_diagonals_that_are_too_long():
    check(lambda v: sparse.diags([v, v, -v], [0, 1, -2]).toarray(), V)
    check(lambda v: sparse.diags_array([v, 2 * v], offsets=[1, -1], shape=(4, 3)).toarray(), V)
    with pytest.raises(ValueError, match=r"shape \(2, 2\) has no diagonal 4"):
        ct.gradient(lambda v: sparse.diags([v], [4], shape=(2, 2)).sum(), V)
    with pytest.raises(ValueError, match=r"one axis, not the shape \(2, 2\)"):
        ct.gradient(lambda v: sparse.diags([v[:4].reshape(2, 2)], [0]).sum(), V)


def test_products_of_kronecker():
    small = np.array([[1.0, 2.0], [0.0, 3.0]])
    for a in (
        lambda v: sparse.kron(made(v), small),
        lambda v: sparse.kron(small, made(v, form="csr")),
    ):
        check(lambda v, a=a: a(v) @ np.arange(8.0), V)
    check(lambda v: sparse.kron(sparse.eye_array(2), v.reshape(1, 5)) @ np.arange(10.0), V)


def test_decompositions():
    check(lambda v: linalg.spsolve(made(v).tocsr(), B), V, second=True)
    check(lambda v: linalg.splu(made(v).tocsc()).solve(B), V)
    check(lambda v: linalg.splu(made(v).tocsc()).solve(B, "T"), V)
    constant = (OTHER + 3 * sparse.eye_array(4)).tocsc()
    for trans in "NTH":
        check(lambda b, trans=trans: linalg.splu(constant).solve(b, trans), B)
    check(lambda b: linalg.splu(constant * (1 + 0.5j)).solve(b, "T"), B + 1j * B[::-1])
    assert linalg.splu(constant).shape == (4, 4)


@pytest.mark.filterwarnings("ignore:Changing the sparsity")
def test_writes_name_a_remedy():
    def f(x):
        a = sparse.csr_array((2, 2))
        a[0, 0] = x
        return a.sum()

    with pytest.raises(TypeError, match=r"lil_matrix.*coo_matrix"):
        ct.gradient(f, 1.0)

    def g(x):
        a = sparse.csr_array((2, 2))
        a[0, 0] = np.ones(1)[0]
        return x * a.sum()

    assert ct.gradient(g, 2.0) == (1.0,)


@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_stacked(kind):
    other = OTHER if kind == "array" else sparse.csr_matrix(OTHER)
    a = lambda v: made(v, kind, "csr")
    for f in (
        lambda v: sparse.hstack([a(v), other, a(2 * v)]),
        lambda v: sparse.vstack([sparse.hstack([a(v), other]), other[:, [0] * 8]], "csr"),
        lambda v: sparse.bmat([[a(v), None], [other.T, 3 * a(v)]], format="csc"),
        lambda v: sparse.block_diag((a(v), other, [[1.0, v[0]]])),
        lambda v: sparse.block_diag([np.diag(v), other]),
    ):
        check(lambda v, f=f: f(v).toarray(), V, second=True)
    system = lambda v: sparse.bmat([[a(v) + other, other.T], [other, -a(v)]], format="csc")
    check(lambda v: linalg.spsolve(system(v), np.arange(8.0)), V)


def test_stacked_blocks_that_are_all_dense():
    outer = lambda v: np.outer(v, v)
    for f in (
        lambda v: sparse.block_diag([v[None], 2 * v[None]]),
        lambda v: sparse.block_diag((v[0], v[1])),
        lambda v: sparse.block_diag([outer(v), [[v[0]]], v[None]]),
        lambda v: sparse.block_diag(mats=[v[None], outer(v)], format="csr"),
        lambda v: sparse.block_array([[outer(v), v[:, None]], [v[None], None]]),
        lambda v: sparse.bmat(blocks=[[outer(v), v[:, None]], [v[None], None]]),
    ):
        check(lambda v, f=f: f(v).toarray(), V)


@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
def test_products_element_by_element(form):
    check(lambda v: made(v, form=form).multiply(OTHER).toarray(), V)
    check(lambda v: OTHER.multiply(made(v, form=form)).toarray(), V)
    check(lambda v: made(v, form=form).multiply(made(v * v)).toarray(), V, second=True)
    check(lambda v: made(v, form=form).mean(), V)


DOMINANT = sparse.csr_array(
    np.array([[5.0, 1, 0, 0.5], [1, 6, -1, 0], [0, -1, 4, 1], [0.5, 0, 1, 7]])
)
ITERATIONS = ["bicg", "bicgstab", "cg", "cgs", "gmres", "lgmres", "minres", "qmr", "tfqmr"]


def iterated(name, a, b, **more):
    return getattr(linalg, name)(a, b, rtol=1e-14 if name == "minres" else 1e-12, **more)[0]


@pytest.mark.parametrize("name", ITERATIONS)
def test_iterations_with_active_elements(name):
    dense = DOMINANT.toarray()
    for make in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array, np.asarray):
        check(lambda p, b, make=make: iterated(name, make(dense * p + np.eye(4)), b), 1.2, B)
    check(lambda p, b: iterated(name, DOMINANT * p, b, x0=p * b), 1.2, B, second=True)
    if name not in {"cg", "minres"}:  # those see symmetric matrices only
        check(lambda d: iterated(name, sparse.csr_array(d), B), dense)
        check(lambda p: iterated(name, DOMINANT * (1 + 1j * p), B + 1j * p), 0.3)


@pytest.mark.parametrize("name", ["bicgstab", "cg", "cgs", "gmres", "lgmres", "minres"])
def test_iterations_are_not_moved_by_what_makes_them_short(name):
    def f(p):
        a = DOMINANT * p
        return iterated(name, a, B * p**2, M=sparse.diags_array(1 / a.diagonal()))

    check(f, 1.2)
    short = lambda p: linalg.LinearOperator((4, 4), lambda r: r / (p * DOMINANT.diagonal()))
    check(lambda p: iterated(name, DOMINANT * p, B * p**2, M=short(p)), 1.2)


@pytest.mark.parametrize("name", ITERATIONS)
def test_iterations_with_operators(name):
    def operator(p, both=True):
        multiply = lambda v: p * (DOMINANT @ v) + p**2 * v
        return linalg.LinearOperator((4, 4), multiply, multiply if both else None)

    check(lambda p: iterated(name, operator(p), B * p), 1.2, second=True)
    check(lambda b: iterated(name, operator(1.2), b), B, second=True)
    if name not in {"bicg", "qmr"}:
        check(lambda p: iterated(name, operator(p, False), B * p), 1.2)
        check(lambda b: iterated(name, operator(1.2, False), b), B)


def test_matrices_that_are_made_in_the_function_and_constant():
    def a():
        return sparse.csr_array((np.array([4.0, 1, 1, 3]), ([0, 0, 1, 1], [0, 1, 0, 1])))

    b = np.array([1.0, -2.0])
    check(lambda b: iterated("cg", a(), b), b)
    check(lambda b: linalg.lsqr(a(), b, atol=1e-13, btol=1e-13)[0], b)
    check(lambda b: linalg.expm_multiply(a(), b), b, value_rtol=1e-8)


def test_solutions_have_the_shape_of_the_right_hand_side():
    for v in (lambda v: v, lambda _: V):
        for solver in (lambda a: linalg.splu(a).solve, lambda a: linalg.factorized(a)):
            solve = lambda w, b, v=v, solver=solver: solver(made(v(w)).tocsc())(b)
            check(lambda w, b: solve(w, b[:, None]), V, B)
            check(lambda w, b: solve(w, np.stack([b, b**2], 1)), V, B)
            check(solve, V, B)


def test_incomplete_decompositions_shorten_iterations():
    def f(p):
        a = (DOMINANT * p).tocsc()
        return iterated(
            "gmres", a, B * p**2, M=linalg.LinearOperator((4, 4), linalg.spilu(a).solve)
        )

    check(f, 1.2)
    with pytest.raises(TypeError, match="spilu.*pass it to an iterative solver as M="):
        ct.gradient(lambda p: np.sum(linalg.spilu((DOMINANT * p).tocsc()).solve(B)), 1.2)
    assert linalg.spilu(DOMINANT.tocsc()).shape == (4, 4)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("lower", [True, False])
def test_triangles(lower, unit):
    half = (np.tril if lower else np.triu)(DOMINANT.toarray())
    solve = lambda a, b: linalg.spsolve_triangular(a, b, lower=lower, unit_diagonal=unit)
    check(lambda p, b: solve(sparse.csr_array(half * p), b), 1.2, B)
    check(lambda p, b: solve(sparse.csr_matrix(half * p), np.stack([b, b**2], 1)), 1.2, B)
    check(lambda b: solve(sparse.csr_array(half), b[:, None]), B)
    with pytest.raises(ValueError, match="other side of the diagonal"):
        ct.gradient(lambda p: np.sum(solve(DOMINANT * p, B)), 1.2)


def test_inverses():
    check(lambda p: linalg.inv((DOMINANT * p).tocsc()).toarray(), 1.2)
    assert linalg.inv(DOMINANT.tocsc()).format == "csc"
