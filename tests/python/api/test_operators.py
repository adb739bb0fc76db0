"""`jacobian_operator` and `hessian_operator`: products with matrices that are not formed."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, cg, lsmr

import cotan as ct


def outcomes(model, scale=2.0):
    return {"a": np.sin(model["w"]) * scale, "b": [np.sum(model["w"] ** 2) * model["b"]]}


MODEL = {"w": np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]), "b": 1.5, "steps": 3}


def flat(vector, unravel):
    return ct.ravel(outcomes(unravel(vector)))[0]


def by_differences(function, x, step=1e-6):
    columns = [(function(x + e) - function(x - e)) / (2.0 * step) for e in step * np.eye(len(x))]
    return np.stack(columns, axis=1)


def test_products_with_a_jacobian_of_structures():
    vector, unravel = ct.ravel(MODEL)
    matrix = by_differences(lambda v: flat(v, unravel), vector)
    A = ct.jacobian_operator(outcomes, MODEL)
    assert isinstance(A, LinearOperator) and A.shape == (7, 7) and A.dtype == np.float64
    np.testing.assert_allclose(A @ np.eye(7), matrix, atol=1e-8)
    np.testing.assert_allclose(A.T @ np.eye(7), matrix.T, atol=1e-8)
    for x in (np.arange(7.0), np.ones((7, 1))):
        assert (A @ x).shape == (A.T @ x).shape == x.shape
        np.testing.assert_allclose(A @ x, matrix @ x, atol=1e-7)
        np.testing.assert_allclose(A.H @ x, matrix.T @ x, atol=1e-7)
    # What is not contiguous, and integers.
    np.testing.assert_allclose(A @ np.arange(14)[::2], matrix @ np.arange(0, 14, 2), atol=1e-6)


def test_selected_and_constant_arguments():
    A = ct.jacobian_operator(lambda x, c: x * c, np.ones(3), np.arange(3.0), wrt="x")
    np.testing.assert_array_equal(A @ np.ones(3), np.arange(3.0))
    A = ct.jacobian_operator(lambda x, c: x * c, np.ones(3), ct.const(np.arange(3.0)))
    assert A.shape == (3, 3)
    A = ct.jacobian_operator(lambda x, c: x * c, np.ones(3), np.arange(3.0))
    assert A.shape == (3, 6)
    A = ct.jacobian_operator(lambda x, *, c: x * c, np.ones(3), c=2.0)
    np.testing.assert_array_equal(A @ np.ones(3), 2.0 * np.ones(3))


def test_the_function_runs_once():
    calls = []

    def f(x):
        calls.append(1)
        return np.sin(x)

    A = ct.jacobian_operator(f, np.ones(3))
    for _ in range(3):
        np.testing.assert_allclose(A @ np.ones(3), np.cos(1.0))
        np.testing.assert_allclose(A.T @ np.ones(3), np.cos(1.0))
    assert len(calls) == 1


def test_dtypes():
    A = ct.jacobian_operator(lambda x: x[:2] * x[1:], np.ones(3, np.float32))
    assert A.dtype == np.float32 and (A @ np.ones(3)).dtype == np.float32
    np.testing.assert_array_equal(A.T @ np.ones(2), [1.0, 2.0, 1.0])


def test_no_influence():
    A = ct.jacobian_operator(lambda x: np.arange(2.0), np.ones(3))
    np.testing.assert_array_equal(A @ np.eye(3), np.zeros((2, 3)))
    np.testing.assert_array_equal(A.T @ np.ones(2), np.zeros(3))
    H = ct.hessian_operator(lambda x: 3.0, np.ones(3))
    np.testing.assert_array_equal(H @ np.ones(3), np.zeros(3))


def test_products_with_a_hessian():
    def energy(p):
        return np.sum(p["w"] ** 4) * p["b"]

    model = {"w": np.arange(1.0, 4.0), "b": 2.0}
    vector, unravel = ct.ravel(model)
    gradient = ct.grad(lambda v: energy(unravel(v)))
    H = ct.hessian_operator(energy, model)
    matrix = by_differences(gradient, vector)
    np.testing.assert_allclose(H @ np.eye(4), matrix, rtol=1e-6)
    np.testing.assert_allclose(H.T @ np.arange(4.0), matrix @ np.arange(4.0), rtol=1e-6)


def test_iterative_solvers():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    expected = np.linalg.lstsq(X, y, rcond=None)[0]
    A = ct.jacobian_operator(lambda w: X @ w, np.zeros(5))
    np.testing.assert_allclose(lsmr(A, y, atol=1e-12, btol=1e-12)[0], expected, rtol=1e-6)

    def loss(w):
        return 0.5 * np.sum((X @ w - y) ** 2)

    H = ct.hessian_operator(loss, np.zeros(5))
    step, _ = cg(H, -ct.grad(loss)(np.zeros(5)), rtol=1e-12)
    np.testing.assert_allclose(step, expected, rtol=1e-6)


def test_rules_with_a_reverse_direction_only():
    @ct.adjoint
    def cube(x):
        return x**3, lambda dy: dy * 3.0 * x**2

    A = ct.jacobian_operator(cube, np.array([1.0, 2.0]))
    np.testing.assert_allclose(A.T @ np.ones(2), [3.0, 12.0])
    H = ct.hessian_operator(lambda x: np.sum(cube(x)), np.array([1.0, 2.0]))
    np.testing.assert_allclose(H @ np.ones(2), [6.0, 12.0])


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (
            lambda: ct.hessian_operator(lambda x: x, np.ones(3)),
            ValueError,
            "hessian_operator: .* real scalar",
        ),
        (lambda: ct.jacobian_operator(lambda x: x * 1j, np.ones(3)), TypeError, "complex"),
        (lambda: ct.jacobian_operator(np.sin, 1j), TypeError, "complex numbers among the arg"),
        (lambda: ct.jacobian_operator(np.sin, np.arange(3)), TypeError, "float array"),
        (lambda: ct.jacobian_operator(lambda x: None, 3.0), TypeError, "function gives"),
        (lambda: ct.jacobian_operator(np.sin, 3.0, wrt=lambda p, x: True), TypeError, "ct.const"),
    ],
)
def test_refusals(act, error, message):
    with pytest.raises(error, match=message):
        act()
