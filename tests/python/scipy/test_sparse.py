"""Sparse matrices of SciPy under a gradient."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import linalg
from scipy_cases import check

import cotan as ct

RNG = np.random.default_rng(1)
DENSE = RNG.normal(size=(4, 3)) * (RNG.uniform(size=(4, 3)) < 0.6)
DENSE[0, 0] = 0.7
X, Z = RNG.normal(size=3), RNG.normal(size=4)
COLUMNS = RNG.normal(size=(3, 2))
FORMATS = ["csr", "csc", "coo", "dia", "bsr", "lil", "dok"]


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", FORMATS)
def test_products(form, kind):
    a = getattr(sparse, f"{form}_{kind}")(DENSE)
    check(lambda x: a @ x, X, second=True)
    check(lambda x: a @ x, COLUMNS)
    check(lambda x: a @ x, COLUMNS[:, :1])
    check(lambda z: a.T @ z, Z)
    check(lambda z: z @ a, Z)
    check(lambda z: z @ a, RNG.normal(size=(2, 4)))
    check(lambda x: a.dot(x), X)
    check(lambda x: a @ x, X * 1j + 1)
    check(lambda x: (a * 1j) @ x, X)
    check(lambda x: a @ x, X.astype(np.float64))
    if kind == "matrix":
        check(lambda x: a * x, X)
    with pytest.raises(ValueError, match="do not fit|mismatch"):
        ct.gradient(lambda z: np.sum(a @ z), Z)


def test_sums():
    a = sparse.csr_array(DENSE)
    b = RNG.normal(size=(4, 3))
    check(lambda b: a + b, b)
    check(lambda b: b - a, b)
    check(lambda b: a - b, b)
    with pytest.raises(TypeError, match=r"A\.toarray\(\)"):
        ct.gradient(lambda b: np.sum(sparse.csr_matrix(a) + b), b)


ROWS, COLS = np.array([0, 0, 1, 2, 2, 2, 0]), np.array([0, 1, 1, 0, 2, 2, 0])
VALUES = np.array([2.0, 0.3, 1.5, -0.4, 1.0, 0.8, 1.1])


@pytest.mark.parametrize("form", ["csr_array", "csc_matrix", "coo_array", "csr_matrix"])
def test_elements(form):
    make = getattr(sparse, form)
    check(lambda v, x: make((v, (ROWS, COLS)), shape=(3, 3)) @ x, VALUES, X, second=True)
    check(lambda v: make((v, (ROWS, COLS)), shape=(3, 3)).toarray(), VALUES)
    check(lambda v: make((v, (ROWS, COLS)), shape=(3, 3)).T @ X, VALUES)
    check(lambda s, x: (sparse.csr_matrix(DENSE) * s) @ x, 1.3, X)
    check(lambda d: make(d) @ X, DENSE)


def test_equations():
    a = sparse.csc_array((VALUES, (ROWS, COLS)), shape=(3, 3))
    check(lambda b: linalg.spsolve(a, b), X, second=True)
    check(lambda b: linalg.spsolve(a.tocsr(), b), COLUMNS)
    check(lambda b: linalg.spsolve(a, b[:, None]), X)
    check(
        lambda v, b: linalg.spsolve(sparse.csc_array((v, (ROWS, COLS)), shape=(3, 3)), b),
        VALUES,
        X,
        second=True,
    )
    check(lambda b: linalg.factorized(a)(b), X)
    check(lambda b: linalg.gmres(a, b, rtol=1e-12)[0], X)
    check(lambda b: linalg.bicgstab(a, b, rtol=1e-12)[0], X)
    s = a @ a.T + sparse.eye_array(3)
    check(lambda b: linalg.cg(s, b, rtol=1e-12)[0], X)
    check(lambda b: linalg.expm_multiply(a, b), X)


def test_constants_stay_sparse():
    a, ones, seen = sparse.csr_array(DENSE), np.ones(3), []

    def f(x):
        seen.append(a @ a.T)
        seen.append(a @ ones)
        return np.sum(a @ x)

    ct.gradient(f, X)
    assert sparse.issparse(seen[0])
    assert type(seen[1]) is np.ndarray


def test_values_in_a_list_are_active():
    def f(x):
        values, rows, columns = [x, 2.0 * x, x + 1.0], [0, 1, 0], [0, 1, 1]
        made = [
            sparse.coo_matrix((values, (rows, columns)), shape=(2, 2)),
            sparse.csr_array((values, (rows, columns)), shape=(2, 2)),
            sparse.csc_matrix((values, [0, 1, 0], [0, 1, 3])),
        ]
        return sum(np.sum(matrix @ np.array([1.0, 2.0])) for matrix in made)

    step = 1e-6
    expected = (f(3.0 + step) - f(3.0 - step)) / (2 * step)
    assert ct.gradient(f, 3.0) == (pytest.approx(expected),)
    of_lists = lambda x: np.sum(sparse.coo_matrix([[x, 2.0], [0.0, x]]) @ np.ones(2))
    assert ct.gradient(of_lists, 3.0) == (2.0,)


@pytest.mark.parametrize("name", ["lsqr", "lsmr"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
@pytest.mark.parametrize("options", [{}, {"damp": 0.7}, {"damp": 0.5, "x0": 1.0}])
def test_least_squares(name, shape, options):
    rng = np.random.default_rng(3)
    a, b = sparse.csr_array(rng.normal(size=shape)), rng.normal(size=shape[0])
    solve = lambda *args, **options: getattr(linalg, name)(*args, **options)
    more = {"atol": 1e-14, "btol": 1e-14, **options}
    if "x0" in more:
        more["x0"] = np.ones(shape[1])
    check(lambda b: np.sin(solve(a, b, **more)[0]), b, second=True)
    with pytest.raises(TypeError, match=f"{name} reports has no derivative rule"):
        ct.gradient(lambda b: solve(a, b, **more)[3], b)
    with pytest.raises(TypeError, match=f"{name}: only b is differentiable"):
        ct.gradient(lambda d: np.sum(solve(a, b, damp=d)[0]), 0.5)


@pytest.mark.parametrize("name", ["bicg", "bicgstab", "cg", "cgs", "gmres", "lsqr", "lsmr"])
def test_iterations_that_stop_early_are_refused(name):
    rng = np.random.default_rng(3)
    a = rng.normal(size=(20, 20))
    a, b = sparse.csr_array(a @ a.T + np.eye(20)), rng.normal(size=20)
    stop = {"lsqr": {"iter_lim": 2}, "gmres": {"maxiter": 1, "restart": 2}}.get(
        name, {"maxiter": 2}
    )
    solve = lambda *args, **options: getattr(linalg, name)(*args, **options)
    with pytest.raises(ValueError, match=f"{name}: the iteration stopped before it reached a sol"):
        ct.gradient(lambda b: np.sum(solve(a, b, **stop)[0]), b)
    if name not in {"lsqr", "lsmr"}:
        with pytest.raises(ValueError, match=f"{name}: the iteration stopped before it reached"):
            ct.gradient(lambda x: np.sum(solve(a, b, x, **stop)[0]), b)
    (g,) = ct.gradient(lambda s: s * np.sum(solve(a, b, **stop)[0]), 1.0)
    assert g == pytest.approx(np.sum(solve(a, b, **stop)[0]))
