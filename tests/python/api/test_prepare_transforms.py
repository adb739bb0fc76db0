"""Prepared functions with hooks, rules, checkpoints and transforms in them and around them."""

import math

import numpy as np
import pytest
from test_prepare import C, X, expect_same

import cotan as ct


def test_hooks_run_each_time(capsys):
    seen = []

    def look(ct_):
        seen.append(np.array(ct_))
        return 2 * ct_

    def f(x):
        return np.sum(ct.hook(look, x) ** 2)

    g = ct.prepare(f, X)
    assert seen == []
    for i in range(3):
        expect_same(g(X + i), (4 * (X + i),))
    assert len(seen) == 3
    assert g.num_recordings == 1
    g = ct.prepare(lambda x: np.sum(ct.showgrad(x, "x")), X[:2])
    g(X[:2])
    g(X[:2])
    assert capsys.readouterr().out.count("x") == 2
    g = ct.prepare(lambda x: np.sum(ct.clip_gradient(x * x, -1, 1)), X)
    expect_same(g(X), ct.gradient(lambda x: np.sum(ct.clip_gradient(x * x, -1, 1)), X))


def test_rules_and_checkpoints():
    @ct.adjoint
    def double(x):
        return 2 * x, lambda dy: (3 * dy,)

    calls = []

    @ct.adjoint(opaque=True)
    def plain(x):
        assert type(x) is np.ndarray
        calls.append(1)
        return np.sin(x), lambda dy: (dy * np.cos(x),)

    def f(x):
        return np.sum(double(plain(x)) * ct.checkpoint(lambda x: np.exp(np.sin(x)), x))

    g = ct.prepare(f, X)
    for i in range(3):
        expect_same(g(X + i), ct.gradient(f, X + i))
    assert g.num_recordings == 1


def test_dropped_gradients_follow_their_values():
    def f(x):
        return np.sum(ct.dropgrad(x) * x) + np.sum(ct.nograd(np.exp)(x) * x)

    @ct.adjoint
    def rule(x):
        scale = ct.dropgrad(np.max(x))
        return x * scale, lambda dy: (dy * ct.dropgrad(dy) * scale,)

    for h in (f, lambda x: np.sum(rule(x) ** 2)):
        g = ct.prepare(h, X)
        for i in range(3):
            expect_same(g(X + i), ct.gradient(h, X + i))


def test_functions_of_math():
    def f(x):
        return math.sin(x) * math.sqrt(x) + (math.exp(x) if math.isfinite(x) else 0.0)

    g = ct.prepare(f, 2.0)
    for x in (2.0, 3.0):
        assert g(x) == ct.gradient(f, x)
    with pytest.raises(ValueError, match="domain|nonnegative"):
        g(-1.0)
    assert g(3.0) == ct.gradient(f, 3.0)


def test_nested_gradients():
    def f(x):
        (g,) = ct.gradient(lambda x: np.sum(x**3), x)
        return np.sum(g * g)

    g = ct.prepare(f, X)
    expect_same(g(X), ct.gradient(f, X))
    # A prepared function inside another gradient is the function itself.
    h = ct.prepare(lambda x: np.sum(x**3), transform="gradient")
    (got,) = ct.gradient(lambda x: np.sum(h(x)[0]), X)
    np.testing.assert_allclose(got, 6 * X)
    again = ct.prepare(lambda x: np.sum(h(x)[0]), X)
    np.testing.assert_allclose(again(X)[0], 6 * X)


def test_other_transforms():
    f = lambda x: np.sum(np.sin(x) * x)
    v = np.ones(12)
    expect_same(ct.prepare(f, X, v, transform="hvp")(X, v), ct.hvp(f, X, v))
    value = ct.prepare(lambda x, y: {"a": x * y, "b": [np.sum(x), "text"]}, X, C, transform="value")
    got = value(X, C)
    expect_same(got["a"], X * C)
    assert got["b"][1] == "text"
    assert type(got["b"][0]) is np.float64
    with pytest.raises(ValueError, match="transform must be one of"):
        ct.prepare(f, X, transform="jacobi")
    y, back = ct.prepare(np.sin, X, transform="pullback")(X)
    wanted_y, wanted = ct.pullback(np.sin, X)
    expect_same(y, wanted_y)
    expect_same(np.asarray(back(C)[0]), np.asarray(wanted(C)[0]))


def test_levels():
    def look(x):
        assert ct.isderiving()
        assert ct.nestlevel() == 1
        return np.sum(x)

    def plain(x):
        assert not ct.isderiving()
        return np.sum(x)

    ct.prepare(look, X)
    ct.prepare(plain, X, transform="value")
    assert not ct.isderiving()


def test_arrays_in_place_of_arguments():
    w = ct.array(C)
    g = ct.prepare(lambda: ct.sum(w * w * w), wrt=[w])
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(g()[w]), 3 * np.asarray(w) ** 2)
        w[0] = 4.0
    assert g.num_recordings == 1
