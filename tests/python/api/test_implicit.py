"""Implicit differentiation of users' solvers: any order, structures, vmap, prepare, errors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import cotan as ct
from cotan import implicit

dense_by_hand = lambda product, b: np.linalg.solve(
    np.stack([product(e) for e in np.eye(len(b))], axis=1), b
)
METHODS = ["dense", "gmres", dense_by_hand]


def cubic(x, a, steps=60):
    """Solve `x**3 + x = a` by Newton's method, without a branch."""
    for _ in range(steps):
        x = x - (x**3 + x - a) / (3 * x**2 + 1)
    return x


residual = lambda x, a: x**3 + x - a
solve = implicit.root(residual)(cubic)
# The derivatives of the solution at x = 2, where a = 10.
SLOPE = 1 / 13
BEND = -12 * SLOPE**3
THIRD = -6 * SLOPE**4 + 3 * 12**2 * SLOPE**5


def slopes(f, x, step=1e-6):
    """Differentiate a function of an array by central differences."""
    result = np.zeros(x.shape + np.shape(f(x)))
    for index in np.ndindex(*x.shape):
        unit = np.zeros(x.shape)
        unit[index] = step
        result[index] = (f(x + unit) - f(x - unit)) / (2 * step)
    return result


def test_derivatives_of_any_order():
    f = lambda a: solve(1.0, a)
    assert f(10.0) == pytest.approx(2.0, abs=1e-15)
    assert ct.grad(f)(10.0) == pytest.approx(SLOPE)
    assert ct.grad(ct.grad(f))(10.0) == pytest.approx(BEND)
    assert ct.grad(ct.grad(ct.grad(f)))(10.0) == pytest.approx(THIRD)


def test_forward_mode():
    f = lambda a: solve(1.0, a)
    assert ct.jvp(f, (10.0,), (1.0,))[1] == pytest.approx(SLOPE)
    assert ct.jacfwd(ct.grad(f))(10.0) == pytest.approx(BEND)
    assert ct.grad(lambda a: ct.jvp(f, (a,), (1.0,))[1])(10.0) == pytest.approx(BEND)
    for method in METHODS:
        loss = structured(method)
        _, moved = ct.jvp(lambda b, f=loss: f(A, b), (B,), (A[0],))
        (gradient,) = ct.gradient(lambda b, f=loss: f(A, b), B)
        assert moved == pytest.approx(gradient @ A[0])


def test_the_iterations_are_not_recorded():
    _, back = ct.pullback(lambda a: solve(1.0, a), 10.0)
    assert len(back.program) < 20


def test_nothing_but_the_solver_runs_where_nothing_is_differentiated():
    calls = []

    @implicit.root(lambda x, a: calls.append(x) or residual(x, a))
    def watched(x, a):
        return cubic(x, a, 3)

    assert watched(1.0, 10.0) == cubic(1.0, 10.0, 3)
    assert solve(1.0, 10) == 2.0


def test_inside_vmap():
    a = np.array([2.0, 10.0, 30.0])
    f = lambda a: solve(1.0, a)
    np.testing.assert_allclose(ct.vmap(f)(a), [1, 2, 3])
    x = np.array([1.0, 2.0, 3.0])
    slope = 1 / (3 * x**2 + 1)
    np.testing.assert_allclose(ct.vmap(ct.grad(f))(a), slope)
    np.testing.assert_allclose(ct.gradient(lambda a: np.sum(ct.vmap(f)(a)), a)[0], slope)
    np.testing.assert_allclose(ct.vmap(ct.grad(ct.grad(f)))(a), -6 * x * slope**3)


def test_a_solver_that_branches_is_refused_inside_vmap():
    looped = implicit.root(lambda x, a: x * x - a)(square_root)
    with pytest.raises(ValueError, match="looks at a value"):
        ct.vmap(lambda a: looped(1.0, a))(np.array([4.0, 9.0]))


def square_root(x, a):
    while abs(x * x - a) > 1e-12:
        x = (x + a / x) / 2
    return x


def test_a_prepared_function_calls_the_solver_again():
    looped = implicit.root(lambda x, a: x * x - a)(square_root)
    prepared = ct.prepare(lambda a: looped(1.0, a), transform="value_and_gradient")
    for a in (4.0, 9.0, 1e4):
        value, (gradient,) = prepared(a)
        assert value == pytest.approx(np.sqrt(a))
        assert gradient == pytest.approx(0.5 / np.sqrt(a))
    assert prepared.num_recordings == 1
    program = ct.trace(lambda a: looped(1.0, a), 4.0)
    assert program(25.0) == pytest.approx(5.0)


@dataclass
class Unknown:
    u: Any
    w: Any
    count: int = 3


A = np.array([[3.0, 1.0], [1.0, 2.0]])
B = np.array([1.0, 2.0])


def structured(method):
    """Solve for a vector and a number, in an object, with SciPy."""

    def equations(x, a, b):
        return {"first": a @ x.u + x.w * x.u**3 - b["b"], "second": x.w - np.sum(b["b"])}

    @implicit.root(equations, linear_solver=method)
    def solver(init, a, b):
        assert isinstance(a, np.ndarray) and isinstance(b["b"], np.ndarray)
        w = float(np.sum(b["b"]))
        u = scipy.optimize.fsolve(lambda u: a @ u + w * u**3 - b["b"], init.u, xtol=1e-14)
        return Unknown(u, w)

    def loss(a, b):
        x = solver(Unknown(np.ones(2), 1.0), a, {"b": b, "name": "right"})
        assert isinstance(x, Unknown) and x.count == 3
        return np.sum(x.u**2) * x.w

    return loss


@pytest.mark.parametrize("method", METHODS)
def test_structures(method):
    loss = structured(method)
    d_a, d_b = ct.gradient(loss, A, B)
    np.testing.assert_allclose(d_a, slopes(lambda a: loss(a, B), A), rtol=1e-7)
    np.testing.assert_allclose(d_b, slopes(lambda b: loss(A, b), B), rtol=1e-7)
    bend = slopes(lambda b: ct.gradient(lambda b: loss(A, b), b)[0], B)
    np.testing.assert_allclose(ct.hessian(lambda b: loss(A, b), B), bend, rtol=1e-6)


def test_the_transposed_jacobian_is_applied():
    """With a matrix that is far from symmetric, and products only."""
    m = np.array([[2.0, 5.0, 0.0], [0.0, 1.0, -3.0], [0.5, 0.0, 4.0]])
    for method in METHODS:
        f = implicit.root(lambda x, b: m @ x + 0.1 * x**3 - b, linear_solver=method)(
            lambda x, b: scipy.optimize.fsolve(lambda x: m @ x + 0.1 * x**3 - b, x, xtol=1e-14)
        )
        loss = lambda b: f(np.zeros(3), b) @ np.array([1.0, 2.0, 4.0])
        b = np.array([1.0, 2.0, 3.0])
        np.testing.assert_allclose(ct.gradient(loss, b)[0], slopes(loss, b), rtol=1e-7)


def test_what_the_equation_closes_over():
    def root_of(t):
        solver = lambda x: np.sqrt(float(ct.dropgrad(t)))
        return implicit.root(lambda x: x * x - t)(solver)(1.0)

    assert ct.grad(root_of)(4.0) == 0.25
    assert ct.grad(ct.grad(root_of))(4.0) == pytest.approx(-1 / 32)


def test_the_solver_may_use_what_is_differentiated():
    """What it computes with an array that it closes over is not differentiated."""

    def root_of(t):
        return implicit.root(lambda x: x * x - t)(lambda x: square_root(x, t))(1.0)

    assert ct.grad(root_of)(4.0) == pytest.approx(0.25)


def test_fixed_points():
    @implicit.fixed_point(lambda x, a: {"x": np.cos(a * x["x"])})
    def iterate(x, a):
        for _ in range(200):
            x = {"x": np.cos(a * x["x"])}
        return x

    f = lambda a: iterate({"x": 0.5}, a)["x"]
    a = np.array(0.8)
    x = f(a)
    slope = -x * np.sin(a * x) / (1 + a * np.sin(a * x))
    np.testing.assert_allclose(ct.gradient(f, a)[0], slope)
    bend = slopes(lambda a: ct.gradient(f, a)[0], a)
    np.testing.assert_allclose(ct.hessian(f, a), bend, rtol=1e-6)


@pytest.mark.parametrize("method", [*METHODS, "cg"])
def test_minima(method):
    cost = lambda x, a: np.sum((x - a) ** 2 + x**4) + x[0] * x[1]

    @implicit.minimiser(cost, linear_solver=method)
    def minimum(x, a):
        jac = lambda x: 2 * (x - a) + 4 * x**3 + x[::-1]
        return scipy.optimize.root(jac, x, tol=1e-14).x

    f = lambda a: np.sum(minimum(np.zeros(2), a) ** 2)
    a = np.array([3.0, -1.0])
    np.testing.assert_allclose(ct.gradient(f, a)[0], slopes(f, a), rtol=1e-7)
    bend = slopes(lambda a: ct.gradient(f, a)[0], a)
    np.testing.assert_allclose(ct.hessian(f, a), bend, rtol=1e-6)


def test_complex_unknowns():
    @implicit.root(lambda z, a: z * z - a)
    def root_of(z, a):
        return np.sqrt(a)

    f = lambda a: np.abs(root_of(1j, a) - 1) ** 2
    a = np.array(-4.0 + 1j)
    wanted = ct.gradient(lambda a: np.abs(np.sqrt(a) - 1) ** 2, a)
    np.testing.assert_allclose(ct.gradient(f, a), wanted)


def test_further_results():
    f = implicit.root(residual, has_aux=True)(lambda x, a: (cubic(x, a), {"steps": 60}))
    assert f(1.0, 10.0)[1] == {"steps": 60}
    assert ct.grad(lambda a: f(1.0, a)[0])(10.0) == pytest.approx(SLOPE)


def test_single_precision():
    f = lambda a: solve(np.float32(1.0), a)
    (gradient,) = ct.gradient(f, np.float32(10.0))
    assert gradient.dtype == np.float32
    assert gradient == pytest.approx(SLOPE, rel=1e-5)


def test_tolerance():
    f = implicit.root(residual, tol=1e-8)(cubic)
    assert f(1.0, 10.0) == 2.0
    assert ct.grad(lambda a: f(1.0, a))(10.0) == pytest.approx(SLOPE)
    message = "root cubic: the solver did not converge: the residual .* 4.23, above tol=1e-08"
    for call in (
        lambda: f(1.0, 10.0, steps=2),
        lambda: ct.grad(lambda a: f(1.0, a, steps=2))(10.0),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    mapped = ct.vmap(lambda a: f(1.0, a, steps=5))(np.array([2.0, 1e6]))
    np.testing.assert_array_equal(mapped, [1.0, np.nan])
    prepared = ct.prepare(lambda a: f(1.0, a, steps=8))
    assert prepared(10.0)[0] == pytest.approx(SLOPE)
    with pytest.raises(ValueError, match="did not converge"):
        prepared(1e9)


M = np.array([[4.0, 1.0, 0.0], [1.5, 3.0, 0.5], [0.0, 0.5, 2.0]])
R = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize("method", [*METHODS, "cg"])
def test_linear_systems(method):
    m = M if method != "cg" else (M + M.T) / 2
    symmetric = method == "cg"

    def loss(m, b):
        x = implicit.linear_solve(lambda x: m @ x, b, method, symmetric=symmetric)
        return np.sum(x**3)

    reference = lambda m, b: np.sum(np.linalg.solve(m, b) ** 3)
    assert loss(m, R) == pytest.approx(reference(m, R))
    for mine, theirs in zip(ct.gradient(loss, m, R), ct.gradient(reference, m, R), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8)
    for point in (m, R):
        of = (lambda f: lambda m: f(m, R)) if point is m else (lambda f: lambda b: f(m, b))
        np.testing.assert_allclose(
            ct.hessian(of(loss), point), ct.hessian(of(reference), point), rtol=1e-7, atol=1e-9
        )


def test_linear_systems_of_structures():
    matvec = lambda t: {"a": 2 * t["a"] + t["b"], "b": 3 * t["b"]}
    for method in ("dense", "gmres"):
        x = implicit.linear_solve(matvec, {"a": np.ones(2), "b": 1.0}, method)
        np.testing.assert_allclose(x["a"], [1 / 3, 1 / 3])
        assert isinstance(x["a"], np.ndarray) and isinstance(x["b"], float)
    halved = lambda matvec, b: {"a": (b["a"] - b["b"] / 3) / 2, "b": b["b"] / 3}
    turned = lambda vecmat, b: {"a": b["a"] / 2, "b": (b["b"] - np.sum(b["a"]) / 2) / 3}
    solve = lambda b: implicit.linear_solve(matvec, b, halved, transpose_solve=turned)
    (gradient,) = ct.gradient(lambda b: np.sum(solve({"a": np.ones(2), "b": b})["a"]), 1.0)
    assert gradient == pytest.approx(-1 / 3)


def test_complex_linear_systems():
    m, b = M + 1j * np.eye(3), R + 0j
    reference = ct.gradient(lambda b: np.abs(np.sum(np.linalg.solve(m, b))) ** 2, b)[0]
    for method in METHODS:
        f = lambda b, s=method: np.abs(np.sum(implicit.linear_solve(lambda x: m @ x, b, s))) ** 2
        np.testing.assert_allclose(ct.gradient(f, b)[0], reference, rtol=1e-9)


def test_linear_systems_inside_vmap_and_prepare():
    solve = lambda b: implicit.linear_solve(lambda x: M @ x, b)
    np.testing.assert_allclose(ct.vmap(solve)(np.eye(3)), np.linalg.inv(M).T)
    loss = lambda m, b: np.sum(implicit.linear_solve(lambda x: m @ x, b) ** 3)
    prepared = ct.prepare(loss)
    for m in (M, M + np.eye(3)):
        for mine, theirs in zip(prepared(m, R), ct.gradient(loss, m, R), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10)
    assert prepared.num_recordings == 1


twice = lambda x, a: (x - a) ** 2
pair = lambda x, a: np.array([x, x])
turn = lambda x: np.array([[0.0, 1.0], [-1.0, 0.0]]) @ x


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ct.grad(lambda a: implicit.root(twice)(lambda x, a: a)(1.0, a))(2.0),
            ValueError,
            "singular",
        ),
        (
            lambda: ct.grad(lambda a: solve(1.0, a, steps=1))(10.0),
            ValueError,
            "root cubic: the solver stopped before it reached a solution",
        ),
        (
            lambda: ct.grad(lambda a: solve(1.0, 10.0, steps=a))(3.0),
            TypeError,
            "root cubic: an option is being differentiated",
        ),
        (
            lambda: ct.grad(lambda a: implicit.root(pair)(lambda x, a: x)(1.0, a))(1.0),
            ValueError,
            "root: the residual has 2 numbers, and the unknown 1",
        ),
        (
            lambda: ct.grad(lambda a: implicit.root(twice)(lambda x, a: "x")(1.0, a))(1.0),
            TypeError,
            "the unknown must hold floating or complex numbers, not 'x'",
        ),
        (
            lambda: implicit.root(residual)(lambda x, a: (1.0, 1j))(1.0, 1.0),
            TypeError,
            "partly complex",
        ),
        (
            lambda: ct.grad(lambda a: implicit.minimiser(lambda x, a: a)(cubic)(1.0, a))(10.0),
            ValueError,
            "the objective does not depend on the unknown",
        ),
        (
            lambda: implicit.root(residual, has_aux=True)(cubic)(1.0, 10.0),
            TypeError,
            r"must return a pair \(x, aux\), not float",
        ),
        (lambda: implicit.root(residual, linear_solver="lu"), ValueError, "not 'lu'"),
        (lambda: implicit.root(3.0), TypeError, "root: residual must be a function, not float"),
        (lambda: implicit.fixed_point(np.cos)(1.0), TypeError, "the solver must be a function"),
        (
            lambda: ct.vmap(lambda a: implicit.root(residual, linear_solver="cg")(cubic)(1.0, a))(
                R
            ),
            TypeError,
            "linear_solver has to be 'dense' inside vmap",
        ),
        (
            lambda: ct.vmap(lambda b: implicit.linear_solve(turn, b, "gmres"))(np.eye(2)),
            TypeError,
            "'gmres' needs values",
        ),
        (lambda: implicit.linear_solve(lambda x: x + 1, R), ValueError, "matvec is not linear"),
        (lambda: implicit.linear_solve(lambda x: x[:2], R), ValueError, "has 2 numbers"),
        (lambda: implicit.linear_solve(lambda x: 0 * x, R), np.linalg.LinAlgError, "Singular"),
        (
            lambda: implicit.linear_solve(turn, np.ones(2), "cg"),
            ValueError,
            "cg did not converge .*positive definite",
        ),
        (lambda: implicit.linear_solve(turn, R, "lu"), ValueError, "solve must be one of dense"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
