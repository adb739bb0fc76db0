"""Gradients around `vmap` of checkpointed functions that index or branch by what differs."""

import numpy as np
import pytest

import cotan as ct

X = np.random.default_rng(0).normal(size=(4, 3))
I = np.array([0, 2, 1, 0])  # noqa: E741
W = np.linspace(1.0, 2.0, 3)


def nested(x, i, w):
    return ct.checkpoint(lambda x, i, w: np.sum(np.sin(x)) * w[i], x, i, w) + np.sum(w * x)


FUNCTIONS = {
    "no choice": lambda x, i, w: np.sum(np.sin(x) * w),
    "index": lambda x, i, w: np.sum(np.sin(x)) * w[i],
    "take": lambda x, i, w: np.sum(np.sin(x)) * np.take(w, i),
    "computed index": lambda x, i, w: np.sum(np.sin(x)) * w[np.argmax(x)],
    "index of what differs": lambda x, i, w: (x * w)[i],
    "where": lambda x, i, w: np.where(x[0] > 0, np.sum(np.sin(x) * w), np.sum(np.cos(x) * w)),
    "cond": lambda x, i, w: ct.cond(
        x[0] > 0, lambda x: np.sum(np.sin(x) * w), lambda x: np.sum(np.cos(x) * w), x
    ),
    "sort": lambda x, i, w: np.sum(np.sort(x * w) * w),
    "quantiles": lambda x, i, w: np.median(x * w) + np.quantile(x * w, 0.3),
    "missing values": lambda x, i, w: np.nanmean(np.where(x > -1, x, np.nan) * w),
    "constants": lambda x, i, w: np.sum(np.split(x, np.array([1, 2]))[1]) * w[i],
    "nested": nested,
}


def expected(f):
    """Give the gradient of the sum over examples, each of them called by itself."""
    return sum(ct.grad(lambda w, x=x, i=i: f(x, int(i), w))(W) for x, i in zip(X, I, strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    f = FUNCTIONS[name]

    def loss(w):
        return np.sum(ct.vmap(lambda x, i: ct.checkpoint(f, x, i, w))(X, I))

    def plain(w):
        return np.sum(ct.vmap(lambda x, i: f(x, i, w))(X, I))

    wanted = expected(f)
    np.testing.assert_allclose(ct.grad(plain)(W), wanted, rtol=1e-10)
    np.testing.assert_allclose(ct.grad(loss)(W), wanted, rtol=1e-10)
    np.testing.assert_allclose(ct.jacfwd(loss)(W), wanted, rtol=1e-10)
    np.testing.assert_allclose(ct.prepare(loss)(W)[0], wanted, rtol=1e-10)
    np.testing.assert_allclose(ct.hessian(loss, W), ct.hessian(plain, W), rtol=1e-9, atol=1e-12)
    assert loss(W) == pytest.approx(sum(f(x, i, W) for x, i in zip(X, I, strict=True)))
    h = 1e-6 * np.cos(np.arange(3.0))
    slope = loss(W + h) - loss(W - h)
    assert wanted @ h * 2 == pytest.approx(slope, rel=1e-6)


def test_structures_and_keywords():
    def f(p, *, w):
        return {"y": np.sum(np.sin(p["x"])) * w[p["i"]], "n": 3}

    def loss(w):
        return np.sum(ct.vmap(lambda x, i: ct.checkpoint(f, {"x": x, "i": i}, w=w))(X, I)["y"])

    np.testing.assert_allclose(ct.grad(loss)(W), expected(FUNCTIONS["index"]), rtol=1e-12)


def test_what_is_closed_over():
    def loss(w):
        return np.sum(ct.vmap(ct.checkpoint(lambda x, i: np.sum(np.sin(x)) * w[i]))(X, I))

    np.testing.assert_allclose(ct.grad(loss)(W), expected(FUNCTIONS["index"]), rtol=1e-12)


def test_names_and_indices_are_refused_by_name():
    def loss(w, index=True):
        def f(x, i, w):
            return np.sum(ct.name(np.sin(x), "sine") * w) * (w[i] if index else 1.0)

        run = ct.checkpoint(f, policy=["sine"])
        return np.sum(ct.vmap(lambda x, i: run(x, i, w))(X, I))

    np.testing.assert_allclose(ct.grad(loss)(W, index=False), np.sum(np.sin(X), axis=0))
    with pytest.raises(ValueError, match="checkpoint f: inside of vmap.*put the checkpoint around"):
        ct.grad(loss)(W)
