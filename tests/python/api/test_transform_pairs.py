"""Every transform of every transform, next to formulas."""

import numpy as np
import pytest

import cotan as ct

X = np.array([0.3, -0.7, 1.1])
V = np.array([1.0, -2.0, 0.5])
A = np.array([[1.0, 2.0, 0.0], [0.5, -1.0, 1.5], [0.0, 0.3, 2.0]])


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found, float), wanted, rtol=1e-10, atol=1e-12)


# --------------------------------------------------------------------------------------------------
# Functions of one array, all of whose derivatives are known: polynomials, mixed by a matrix.
#
# f(x) = A (x³ + x²) is a vector; s(x) = sum(f(x) * w) a scalar.

W = np.array([1.0, -0.5, 2.0])


def vector(x):
    return A @ (x**3 + x**2)


def scalar(x):
    return np.sum(vector(x) * W)


C = A.T @ W  # s(x) = C · (x³ + x²)


def d1(x):
    """Give the gradient of `scalar`."""
    return C * (3 * x**2 + 2 * x)


def d2(x):
    """Give the diagonal of its Hessian."""
    return C * (6 * x + 2)


def d3(x):
    """Give the diagonal of its third derivative."""
    return C * 6 + 0 * x


# Each entry makes, of a function of one array, a function of one array that gives a derivative.


def of_gradient(f):
    return lambda x: ct.gradient(f, x)[0]


def of_value_and_gradient(f):
    return lambda x: ct.value_and_gradient(f, x)[1][0]


def of_value_and_grad(f):
    return lambda x: ct.value_and_grad(f)(x)[1]


def of_pullback(f):
    return lambda x: ct.pullback(f, x)[1](1.0)[0]


def of_vjp(f):
    return lambda x: ct.vjp(f, x, has_aux=False)[1](1.0)[0]


def of_jacobian(f):
    return lambda x: ct.jacobian(f, x)


def of_basis(make):
    """Give the gradient, made of derivatives along unit vectors."""

    def derivative(f):
        return lambda x: np.stack([make(f, x, e) for e in np.eye(3)])

    return derivative


def of_prepared(f):
    prepared = ct.prepare(f)
    return lambda x: prepared(x)[0]


def of_prepared_grad(f):
    return ct.prepare(ct.grad(f), transform="value")


def of_checkpoint(f):
    return ct.grad(ct.checkpoint(f))


#: Gives the gradient of a function that gives a scalar.
FIRST = {
    "gradient": of_gradient,
    "grad": ct.grad,
    "value_and_gradient": of_value_and_gradient,
    "value_and_grad": of_value_and_grad,
    "pullback": of_pullback,
    "vjp": of_vjp,
    "jacobian": of_jacobian,
    "jacfwd": ct.jacfwd,
    "jacrev": ct.jacrev,
    "jvp": of_basis(lambda f, x, e: ct.jvp(f, (x,), (e,))[1]),
    "linearize": of_basis(lambda f, x, e: ct.linearize(f, x)[1](e)),
    "vmap of jvp": lambda f: lambda x: ct.vmap(lambda e: ct.jvp(f, (x,), (e,))[1])(np.eye(3)),
    "vmap of linearize": lambda f: lambda x: ct.vmap(ct.linearize(f, x)[1])(np.eye(3)),
    "prepare": of_prepared,
    "prepare of grad": of_prepared_grad,
    "checkpoint": of_checkpoint,
}


@pytest.mark.parametrize("inner", FIRST)
@pytest.mark.parametrize("outer", FIRST)
def test_gradient_of_an_entry_of_a_gradient(outer, inner):
    if inner.startswith("prepare") and not outer.startswith("prepare"):
        inner_function = FIRST[inner](scalar)
    else:
        inner_function = FIRST[inner](scalar)
    close(inner_function(X), d1(X))
    second = FIRST[outer](lambda x: np.sum(inner_function(x) * V))
    close(second(X), d2(X) * V)


@pytest.mark.parametrize("inner", FIRST)
@pytest.mark.parametrize("outer", ["jacobian", "jacfwd", "jacrev", "hessian"])
def test_matrix_of_a_gradient(outer, inner):
    inner_function = FIRST[inner](scalar)
    if outer == "hessian":
        found = ct.hessian(lambda x: np.sum(inner_function(x) * V), X)
        close(found, np.diag(d3(X) * V))
        return
    make = {"jacobian": of_jacobian, "jacfwd": ct.jacfwd, "jacrev": ct.jacrev}[outer]
    close(make(inner_function)(X), np.diag(d2(X)))


# Products of the second derivative with a vector.
SECOND = {
    "hvp": lambda f: lambda x: ct.hvp(f, x, V),
    "vhp": lambda f: lambda x: ct.vhp(f, x, V),
    "hessian": lambda f: lambda x: ct.hessian(f, x) @ V,
    "jvp of grad": lambda f: lambda x: ct.jvp(ct.grad(f), (x,), (V,))[1],
    "ggnvp": lambda f: lambda x: ct.ggnvp(lambda y: y, x, V, loss=f),
}


@pytest.mark.parametrize("inner", SECOND)
@pytest.mark.parametrize("outer", FIRST)
def test_gradient_of_a_product_with_the_hessian(outer, inner):
    inner_function = SECOND[inner](scalar)
    close(inner_function(X), d2(X) * V)
    third = FIRST[outer](lambda x: np.sum(inner_function(x)))
    close(third(X), d3(X) * V)


@pytest.mark.parametrize("inner", FIRST)
@pytest.mark.parametrize("outer", SECOND)
def test_product_with_the_hessian_of_a_gradient(outer, inner):
    inner_function = FIRST[inner](scalar)
    found = SECOND[outer](lambda x: np.sum(inner_function(x) * V))(X)
    close(found, d3(X) * V * V)


# --------------------------------------------------------------------------------------------------
# Many points at once

POINTS = np.stack([X, X + 0.1, 2 * X])


@pytest.mark.parametrize("inner", [name for name in FIRST if not name.startswith("prepare")])
def test_vmap_of_a_gradient(inner):
    close(ct.vmap(FIRST[inner](scalar))(POINTS), np.stack([d1(x) for x in POINTS]))


@pytest.mark.parametrize("inner", SECOND)
def test_vmap_of_a_second_derivative(inner):
    close(ct.vmap(SECOND[inner](scalar))(POINTS), np.stack([d2(x) * V for x in POINTS]))


@pytest.mark.parametrize("outer", FIRST)
def test_gradient_of_a_vmapped_function(outer):
    found = FIRST[outer](lambda x: np.sum(ct.vmap(scalar)(x * np.ones((2, 1))) * [1.0, 2.0]))(X)
    close(found, 3 * d1(X))


# --------------------------------------------------------------------------------------------------
# Jacobians of a vector


def jac(x):
    return A * (3 * x**2 + 2 * x)


MATRICES = {
    "jacobian": of_jacobian,
    "jacfwd": ct.jacfwd,
    "jacrev": ct.jacrev,
    "vmap of jvp": lambda f: (
        lambda x: ct.vmap(lambda e: ct.jvp(f, (x,), (e,))[1], out_axes=1)(np.eye(3))
    ),
    "vmap of pullback": lambda f: (
        lambda x: ct.vmap(lambda u: ct.pullback(f, x)[1](u)[0])(np.eye(3))
    ),
    "linear_transpose of linearize": lambda f: (
        lambda x: ct.vmap(lambda u: ct.linear_transpose(ct.linearize(f, x)[1], x)(u)[0])(np.eye(3))
    ),
    "prepare of jacobian": lambda f: ct.prepare(lambda x: ct.jacobian(f, x), transform="value"),
}


@pytest.mark.parametrize("name", MATRICES)
def test_jacobians_agree(name):
    close(MATRICES[name](vector)(X), jac(X))


@pytest.mark.parametrize("inner", MATRICES)
@pytest.mark.parametrize("outer", MATRICES)
def test_jacobian_of_an_entry_of_a_jacobian(outer, inner):
    inner_function = MATRICES[inner](vector)
    found = MATRICES[outer](lambda x: inner_function(x) @ V)(X)
    close(found, A * (6 * X + 2) * V)


# --------------------------------------------------------------------------------------------------
# Structures


def structured(p):
    return np.sum(p["a"] ** 2 * p["b"][0]) + p["b"][0] ** 3


P = {"a": np.array([1.0, 2.0]), "b": [3.0]}

STRUCTURED = {
    "grad": ct.grad,
    "gradient": of_gradient,
    "jacobian": of_jacobian,
    "jacfwd": ct.jacfwd,
    "jacrev": ct.jacrev,
    "hvp": lambda f: (
        lambda p: ct.grad(lambda q: ct.hvp(f, q, {"a": np.array([1.0, 0.0]), "b": [1.0]})["b"][0])(
            p
        )
    ),
}


@pytest.mark.parametrize("inner", ["grad", "gradient", "jacobian", "jacfwd", "jacrev"])
@pytest.mark.parametrize("outer", ["grad", "gradient", "jacobian", "jacfwd", "jacrev"])
def test_structures(outer, inner):
    inner_function = STRUCTURED[inner](structured)
    first = inner_function(P)
    close(first["a"], [6.0, 12.0])
    close(first["b"][0], 5.0 + 27.0)
    second = STRUCTURED[outer](lambda p: np.sum(inner_function(p)["a"]) + inner_function(p)["b"][0])
    found = second(P)
    # d/da of (2 a b + a² ...) and of Σ a² + 3 b²
    close(found["a"], 2 * 3.0 + 2 * P["a"])
    close(found["b"][0], np.sum(2 * P["a"]) + 6 * 3.0)


def test_structures_of_structures():
    h = ct.hessian(structured, P)
    close(h["a"]["a"], np.diag([6.0, 6.0]))
    close(h["a"]["b"][0], 2 * P["a"])
    close(h["b"][0]["a"], 2 * P["a"])
    close(h["b"][0]["b"][0], 18.0)
    along = {"a": np.array([1.0, 0.0]), "b": [2.0]}
    for product in (ct.hvp, ct.vhp):
        found = product(structured, P, along)
        close(found["a"], [6.0 + 4.0, 8.0])
        close(found["b"][0], 2.0 + 36.0)


def test_inside_detect():
    with ct.detect():
        close(ct.jacobian(vector, X), jac(X))
        close(ct.hvp(scalar, X, V), d2(X) * V)
        for mode in (ct.jacfwd, ct.jacrev):
            with pytest.raises(ct.NonFiniteError):
                mode(lambda x: np.log(x * 0.0))(X)
        with pytest.raises(ct.NonFiniteError):
            ct.jvp(lambda x: np.log(x - x), (X,), (V,))
