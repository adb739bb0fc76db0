"""Jacobians and Hessians: values next to formulas and differences, forms, dtypes, errors."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cotan as ct

X = np.array([0.3, 0.7, 1.1])
ALL = {
    "jacobian": lambda f: lambda x: ct.jacobian(f, x),
    "jacfwd": ct.jacfwd,
    "jacrev": ct.jacrev,
}


def by_differences(f, x, step=1e-6):
    y = np.asarray(f(x))
    columns = [
        (np.asarray(f(x + step * e)) - np.asarray(f(x - step * e))) / (2 * step)
        for e in np.eye(x.size).reshape(x.size, *x.shape)
    ]
    return np.moveaxis(np.array(columns), 0, -1).reshape(y.shape + x.shape)


FUNCTIONS = {
    "wide": lambda x: np.sum(np.sin(x) * x),
    "square": lambda x: np.outer(x, x)[0] + np.cumsum(x**2),
    "tall": lambda x: np.exp(np.outer(np.arange(5.0), x)),
    "rows": lambda x: np.stack([x.ravel()[::-1] ** 2, np.sort(x.ravel())]),
    "solve": lambda x: np.linalg.solve(np.eye(x.size) + np.outer(x, x), x.ravel()),
}


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name, make):
    f = FUNCTIONS[name]
    np.testing.assert_allclose(ALL[make](f)(X), by_differences(f, X), rtol=1e-6, atol=1e-8)


@given(
    inside=st.lists(st.integers(0, 3), max_size=3),
    outside=st.lists(st.integers(0, 3), max_size=2),
    dtype=st.sampled_from([np.float32, np.float64]),
)
@settings(max_examples=25, deadline=None)
def test_shapes_and_dtypes(inside, outside, dtype):
    rng = np.random.default_rng(1)
    x = rng.normal(size=inside).astype(dtype)
    weights = rng.normal(size=(*outside, *inside)).astype(dtype)
    for make in ALL.values():
        j = make(lambda x: np.sum(weights * x**2, axis=tuple(range(len(outside), weights.ndim))))(x)
        assert np.shape(j) == (*outside, *inside)
        assert np.asarray(j).dtype == dtype
        np.testing.assert_allclose(j, 2 * weights * x, rtol=1e-5)


@pytest.mark.parametrize("make", ALL)
def test_forms(make):
    make = ALL[make]
    assert make(lambda x: x**2)(3.0) == 6.0
    assert type(make(lambda x: x**2)(3.0)) is float
    assert type(make(lambda x: x**2)(3)) is float
    assert type(make(np.sum)(X)) is np.ndarray
    assert type(make(lambda x: x * 2)(ct.array(X))) is ct.Array
    np.testing.assert_array_equal(make(lambda x: x * X)(2.0), X)
    j = make(lambda x: x * 2)(X)
    j[0, 0] = 7.0  # It belongs to the caller.
    np.testing.assert_array_equal(make(lambda x: np.ones(2))(X), np.zeros((2, 3)))
    zeros = make(lambda x: np.ones(2))(X)
    zeros[0, 0] = 1.0
    assert zeros.sum() == 1.0


@dataclass
class Model:
    w: np.ndarray
    b: float
    name: str = "m"


@pytest.mark.parametrize("make", ALL)
def test_structures(make):
    def f(model):
        y = model.w * model.b
        return {"y": y, "s": (np.sum(y), 3)}

    j = ALL[make](f)(Model(X, 2.0))
    np.testing.assert_array_equal(j["y"].w, 2 * np.eye(3))
    np.testing.assert_array_equal(j["y"].b, X)
    np.testing.assert_array_equal(j["s"][0].w, np.full(3, 2.0))
    assert j["s"][0].b == pytest.approx(X.sum())
    assert j["s"][1] is None

    h = ct.hessian(lambda m: np.sum(m.w**2) * m.b, Model(X, 2.0))
    np.testing.assert_array_equal(h.w.w, 4 * np.eye(3))
    np.testing.assert_array_equal(h.w.b, 2 * X)
    np.testing.assert_array_equal(h.b.w, 2 * X)
    assert h.b.b == 0.0


@pytest.mark.parametrize("make", ALL)
def test_arrays_that_have_no_influence(make):
    j = ALL[make](lambda p: p["a"] * 2)({"a": X, "b": np.ones(2), "n": 3})
    np.testing.assert_array_equal(j["a"], 2 * np.eye(3))
    np.testing.assert_array_equal(j["b"], np.zeros((3, 2)))
    assert j["n"] is None


def test_the_form_of_a_pair_of_arguments():
    j = ct.jacobian(lambda x, y: (x * y, x), X, 2 * X)
    assert isinstance(j, tuple)
    np.testing.assert_array_equal(j[0][1], np.diag(X))
    np.testing.assert_array_equal(j[1][1], np.zeros((3, 3)))
    rows = ct.jacfwd(lambda x, y: (x * y, x), (1,))(X, 2 * X)
    np.testing.assert_array_equal(rows[0][0], np.diag(X))


@pytest.mark.parametrize("make", ALL)
def test_steep_places_do_not_spread(make):
    j = ALL[make](np.sqrt)(np.array([0.0, 1.0, 4.0]))
    np.testing.assert_array_equal(j, np.diag([np.inf, 0.5, 0.25]))


@pytest.mark.parametrize("make", ALL)
def test_hooks_and_opaque_rules(make):
    seen = []
    f = ALL[make](lambda x: ct.hook(lambda d: seen.append(np.asarray(d)), x) ** 2)
    np.testing.assert_array_equal(f(X), np.diag(2 * X))
    # Once for each row in reverse mode, never in forward mode.
    assert len(seen) == (3 if make == "jacrev" else 0)


def test_the_direction_follows_the_shapes():
    calls = []
    f = lambda x: ct.hook(lambda d: calls.append(1), x)
    ct.jacobian(lambda x: np.outer(f(x), X), X)
    assert not calls
    ct.jacobian(lambda x: np.sum(f(x)), X)
    assert len(calls) == 1


def test_integers():
    assert ct.hessian(lambda x: x**3, 2) == 12.0
    assert ct.jacobian(lambda x: x**3, 2) == 12.0
    for call in (
        lambda f, x: ct.jacobian(f, x),
        lambda f, x: ct.jacfwd(f)(x),
        lambda f, x: ct.hessian(lambda x: np.sum(f(x)), x),
    ):
        with pytest.raises(TypeError, match=r"int64.*astype\(float\)"):
            call(lambda x: x * 2.0, np.array([1, 2]))
    j, k = ct.jacobian(lambda x, i: x[i], X, ct.const(np.array([2, 0])))
    np.testing.assert_array_equal(j, np.eye(3)[[2, 0]])
    assert k is None


def test_complex_numbers():
    z = np.array([1.0 + 2.0j, 0.5j])
    for make in (ct.jacfwd, ct.jacrev):
        j = make(lambda z: z**3, holomorphic=True)(z)
        np.testing.assert_allclose(j, np.diag(3 * z**2))
        with pytest.raises(TypeError, match="holomorphic=True"):
            make(lambda z: z**3)(z)
        with pytest.raises(TypeError, match="is for complex arguments"):
            make(lambda x: x**3, holomorphic=True)(X)
        with pytest.raises(TypeError, match="complex results"):
            make(lambda z: np.abs(z), holomorphic=True)(z)
    np.testing.assert_allclose(ct.jacobian(lambda z: z**3, z, holomorphic=True), np.diag(3 * z**2))
    j = ct.jacobian(lambda x: np.sum(np.exp(1j * x)), X)
    np.testing.assert_allclose(j, 1j * np.exp(1j * X))
    with pytest.raises(TypeError, match="forward mode; use ct.jacfwd"):
        ct.jacrev(lambda x: np.exp(1j * x))(X)
    with pytest.raises(TypeError, match="complex"):
        ct.hessian(lambda z: np.sum(np.abs(z) ** 2), z)


def test_many_columns_are_computed_in_parts():
    # More elements than are computed at a time.
    x = np.linspace(0.5, 1.5, 3000)
    j = ct.jacfwd(lambda x: np.cumsum(x**2))(x)
    np.testing.assert_allclose(j, np.tril(np.ones((3000, 3000))) * 2 * x, rtol=1e-12)
    j = ct.jacrev(lambda x: x**2)(x)
    np.testing.assert_allclose(np.diag(j), 2 * x)
    assert np.count_nonzero(j) == 3000


def test_empty_arrays():
    assert ct.jacobian(lambda x: x * 2, np.zeros(0)).shape == (0, 0)
    assert ct.jacobian(lambda x: x[:0], X).shape == (0, 3)
    assert ct.jacobian(lambda x: np.ones(2) * np.sum(x), np.zeros((0, 2))).shape == (2, 0, 2)
    assert ct.hessian(np.sum, np.zeros(0)).shape == (0, 0)


# --------------------------------------------------------------------------------------------------
# Second order


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def test_hessian_and_products():
    h = ct.hessian(rosenbrock, X)
    np.testing.assert_allclose(h, by_differences(ct.grad(rosenbrock), X), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(h, h.T)
    v = np.array([1.0, -2.0, 0.5])
    for product in (ct.hvp, ct.vhp):
        np.testing.assert_allclose(product(rosenbrock, X, v), h @ v)
        assert type(product(rosenbrock, X, v)) is np.ndarray
        assert product(lambda x: x**3, 2.0, 1.0) == 12.0
        assert type(product(lambda x: x**3, 2, 1)) is float
        assert product(lambda x, y: x**2 * y, (2.0, 3.0), (1.0, 0.0)) == (6.0, 4.0)
        np.testing.assert_array_equal(product(np.sum, X, v), np.zeros(3))
    for f in (rosenbrock, np.sum):
        with pytest.raises(ValueError, match=r"\(3,\).*\(2, 2\)"):
            ct.hvp(f, X, np.ones((2, 2)))
        with pytest.raises(ValueError, match=r"\(3,\).*\(\)"):
            ct.vhp(f, X, 1.0)
    with pytest.raises(ValueError, match="tuple of 2 arguments"):
        ct.hvp(lambda x, y: x * y, (1.0, 2.0), 1.0)
    with pytest.raises(ValueError, match="real scalar"):
        ct.hvp(lambda x: x, X, v)


def test_constants_inside_structures():
    p = {"a": X, "c": ct.const(2 * X), "n": 3, "i": np.arange(3)}

    def f(p):
        return np.sum(p["a"] ** 2 * p["c"]) * p["n"]

    h = ct.hessian(f, p)
    np.testing.assert_allclose(h["a"]["a"], np.diag(12 * X))
    assert h["c"] is None
    assert h["a"]["c"] is None
    for product in (ct.hvp, ct.vhp):
        found = product(f, p, {"a": np.ones(3)})
        np.testing.assert_allclose(found["a"], 12 * X)
        assert found["c"] is None
        assert found["i"] is None


def test_products_with_reverse_rules_only():
    @ct.adjoint
    def limited(x):
        return x * x, lambda d: (np.minimum(d, 1.0) * x,)

    h = ct.hessian(lambda x: limited(x) * 3, 2.0)
    assert h == ct.vhp(lambda x: limited(x) * 3, 2.0, 1.0)
    assert h == ct.hvp(lambda x: limited(x) * 3, 2.0, 1.0)


def test_gauss_newton():
    t = np.linspace(0.0, 1.0, 7)

    def model(p, rate=1.0):
        return p["a"] * np.exp(-p["b"] * t * rate)

    p, v = {"a": 1.5, "b": 0.7}, {"a": 1.0, "b": -2.0}
    j = ct.jacobian(model, p)
    j = np.stack([j["a"], j["b"]], axis=1)
    found = ct.ggnvp(model, p, v)
    np.testing.assert_allclose([found["a"], found["b"]], j.T @ (j @ [1.0, -2.0]))

    def loss(y):
        return np.sum(np.cosh(y))

    found = ct.ggnvp(model, p, v, loss)
    curvature = np.diag(np.cosh(model(p)))
    np.testing.assert_allclose([found["a"], found["b"]], j.T @ curvature @ j @ [1.0, -2.0])
    found = ct.ggnvp(model, p, v, rate=0.0)
    assert found == {"a": 7.0, "b": 0.0}
    found = ct.ggnvp(lambda a, b: {"y": a * t, "z": b}, (2.0, 3.0), (1.0, 1.0))
    np.testing.assert_allclose(found, (np.sum(t**2), 1.0))
    with pytest.raises(ValueError, match="shape"):
        ct.ggnvp(lambda x: x, X, np.ones(2))


def test_integers_that_are_asked_for():
    def f(x, n):
        return np.sum(x**2) * n

    x, n = np.array([1.0, 2.0]), np.array(3)
    for call in (ct.jacobian, ct.hessian, ct.jacrev(f, (0, 1)), ct.jacfwd(f, (0, 1))):
        args = (f, x, n) if call in (ct.jacobian, ct.hessian) else (x, n)
        with pytest.raises(
            TypeError, match=r"n is an array of dtype int64 .*allow_int=True for None"
        ):
            call(*args)
    dx, dn = ct.jacobian(f, x, n, allow_int=True)
    assert dx.tolist() == [6.0, 12.0]
    assert dn is None
    assert ct.jacobian(f, x, n, wrt="n", allow_int=True) is None
    assert ct.jacobian(f, x, True, allow_int=True)[1] is None
    assert ct.jacobian(f, x, 3, allow_int=True)[1] == 5.0
    assert ct.jacobian(lambda x, d: x * d["n"], 2.0, {"n": n}, allow_int=True) == (3.0, None)
    for maker in (ct.jacrev, ct.jacfwd):
        dx, dn = maker(f, (0, 1), allow_int=True)(x, n)
        assert dx.tolist() == [6.0, 12.0]
        assert dn is None
    (xx, xn), nn = ct.hessian(f, x, n, allow_int=True)
    assert xx.tolist() == [[6.0, 0.0], [0.0, 6.0]]
    assert xn is nn is None
    dx, dn = ct.jacobian(f, x, n, sparse=True, allow_int=True)
    assert dx.toarray().tolist() == [[6.0, 12.0]]
    assert dn is None
    (xx, xn), nn = ct.hessian(f, x, n, sparse=True, allow_int=True)
    assert xx.toarray().tolist() == [[6.0, 0.0], [0.0, 6.0]]
    assert xn is nn is None
    with pytest.raises(TypeError, match="jacobian: n is a str"):
        ct.jacobian(f, x, "n", allow_int=True)


def test_refusals_do_not_recommend_keywords_that_do_not_exist():
    def f(x, n):
        return np.sum(x**2) * n

    x, n = np.array([1.0, 2.0]), np.array(3)
    with pytest.raises(TypeError, match=r": n is an array of dtype int64") as error:
        ct.hvp(f, (x, n), (x, None))
    assert "allow_int" not in str(error.value)
