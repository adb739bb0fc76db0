"""`vmap` of functions that call what takes the values of one example: opaque rules, and SciPy."""

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
from numpy.testing import assert_allclose

import cotan as ct

X = np.random.default_rng(0).uniform(0.5, 2.0, (4, 5))


@ct.adjoint(opaque=True)
def cube(x):
    assert not isinstance(x, ct.Array)
    return x**3, lambda dy: 3 * dy * x**2


@ct.adjoint(opaque=True)
def of_structure(p):
    assert type(p["a"]) is np.ndarray
    return {"y": p["a"] * p["b"]}, lambda d: ({"a": d["y"] * p["b"], "b": np.sum(d["y"] * p["a"])},)


def expm(x):
    return scipy.linalg.expm(np.outer(x, x) / 8)[0]


def flow(x):
    def slope(t, y):
        return -x * y if np.sum(y) > 0 else x * y

    return scipy.integrate.solve_ivp(slope, (0.0, 1.0), np.ones(5), rtol=1e-9, atol=1e-9).y[:, -1]


def spline(x):
    return scipy.interpolate.CubicSpline(np.arange(5.0), x)(np.linspace(0.2, 3.5, 5))


FUNCTIONS = {
    "opaque rule": cube,
    "opaque rule between": lambda x: np.sin(cube(np.exp(-x)) * x),
    "opaque rule of structures": lambda x: of_structure({"a": x, "b": x[0]})["y"],
    "expm": expm,
    "gaussian_filter": lambda x: scipy.ndimage.gaussian_filter(x**2, 1.0),
    "lfilter": lambda x: scipy.signal.lfilter([1.0, 0.5], [1.0, 0.2], x),
    "spline": spline,
    "root": lambda x: scipy.optimize.root(lambda y: y**3 + y - x, np.zeros(5), tol=1e-12).x,
    "brentq": lambda x: x * scipy.optimize.brentq(lambda y: y**3 + y - x[0], -10, 10, xtol=1e-14),
    "solve_ivp": flow,
}


def looped(f, x):
    return np.stack([f(row) for row in x])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_a_loop(name):
    f = FUNCTIONS[name]
    found = ct.vmap(f)(X)
    assert type(found) is np.ndarray
    assert_allclose(found, looped(f, X), rtol=1e-12)
    assert_allclose(ct.vmap(f, in_axes=1, out_axes=1)(X.T), looped(f, X).T, rtol=1e-12)
    assert_allclose(ct.vmap(f, chunk_size=3)(X), looped(f, X), rtol=1e-12)
    assert isinstance(ct.vmap(f)(ct.array(X)), ct.Array)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_inside_and_around(name):
    f = FUNCTIONS[name]
    weights = np.arange(20.0).reshape(4, 5) / 10

    def loss(x):
        return np.sum(f(x) * weights[1])

    assert_allclose(ct.vmap(ct.grad(loss))(X), looped(ct.grad(loss), X), rtol=1e-10)
    around = ct.grad(lambda x: np.sum(ct.vmap(f)(x) * weights))
    expected = ct.grad(lambda x: sum(np.sum(f(x[i]) * weights[i]) for i in range(4)))
    assert_allclose(around(X), expected(X), rtol=1e-10)
    v = np.cos(np.arange(20.0)).reshape(4, 5)
    h = 1e-6
    slope = (np.sum(looped(f, X + h * v) * weights) - np.sum(looped(f, X - h * v) * weights)) / (
        2 * h
    )
    assert_allclose(np.sum(around(X) * v), slope, rtol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nested_and_prepared(name):
    f = FUNCTIONS[name]
    both = np.stack([X, X[::-1] + 0.1])
    assert_allclose(ct.vmap(ct.vmap(f))(both), [looped(f, x) for x in both], rtol=1e-12)
    prepared = ct.prepare(ct.vmap(f), transform="value")
    if name == "spline":
        # SciPy's own code looks at values, which ends the attempt to map it at once.
        with pytest.raises(TypeError, match="leave the function unprepared"):
            prepared(X)
        return
    for x in (X, X + 0.1, X):
        assert_allclose(prepared(x), looped(f, x), rtol=1e-8, atol=1e-10)


def test_what_a_library_function_was_given():
    def rule(x):
        return x ** (1 / 3), lambda dy: dy * x ** (-2 / 3) / 3

    with ct.adjoint(np.cbrt, rule, opaque=True):
        found = ct.vmap(ct.grad(lambda x: np.sum(np.cbrt(x) * x)))(X)
    assert_allclose(found, 4 / 3 * np.cbrt(X), rtol=1e-12)


def test_calls():
    seen = []

    @ct.adjoint(opaque=True)
    def noted(x):
        seen.append(np.array(x))
        return 2 * x, lambda dy: (2 * dy,)

    ct.vmap(noted)(X)
    np.testing.assert_array_equal(seen, X)


def test_structures_and_shared_arguments():
    def f(w, x):
        return {"y": cube(w * x), "n": 3, "s": [2.0, np.sum(x)]}

    w = np.linspace(1.0, 2.0, 5)
    found = ct.vmap(f, in_axes=(None, 0))(w, X)
    assert_allclose(found["y"], (w * X) ** 3)
    assert found["n"] == 3
    np.testing.assert_array_equal(found["s"][0], np.full(4, 2.0))
    assert_allclose(found["s"][1], X.sum(axis=1))
    total = ct.grad(lambda w: np.sum(ct.vmap(f, in_axes=(None, 0))(w, X)["y"]))
    assert_allclose(total(w), np.sum(3 * w**2 * X**3, axis=0))


def test_results_that_do_not_differ():
    def f(x, w):
        return cube(x), w * 2

    y, twice = ct.vmap(f, in_axes=(0, None), out_axes=(1, None))(X, np.arange(3.0))
    assert_allclose(y, X.T**3)
    np.testing.assert_array_equal(twice, [0.0, 2.0, 4.0])
    assert type(twice) is np.ndarray
    with pytest.raises(ValueError, match="out_axes has None for result, which differs"):
        ct.vmap(cube, out_axes=None)(X)


def test_what_cannot_be_put_together():
    @ct.adjoint(opaque=True)
    def longer(x):
        return np.ones(int(x)), lambda dy: (0.0,)

    with pytest.raises(ValueError, match=r"result has shape \(1,\) for example 0, \(2,\) for exam"):
        ct.vmap(longer)(np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="different structures, or other objects"):
        ct.vmap(lambda x: (cube(x), "large" if np.asarray(cube(x)) > 1 else "small"))(X[:, 0])
    with pytest.raises(ValueError, match="cube, an opaque rule, is called with the values of one"):
        ct.vmap(cube)(np.zeros((0, 3)))


def test_that_the_function_itself_looks_at_a_value_is_told():
    with pytest.raises(ValueError, match="vmap: the function looks at a value"):
        ct.vmap(lambda x: expm(x) if x[0] > 1 else -x)(X)


def test_errors_of_an_example_arrive():
    @ct.adjoint(opaque=True)
    def failing(x):
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        ct.vmap(failing)(X)
