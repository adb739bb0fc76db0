"""Arrays that no cache holds: their results are written past the caches, tile by tile."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import cotan as ct

# More than 32 MiB of float64, and no integral number of tiles.
N = 4_300_001


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=N), rng.normal(size=N)


def f(x, c):
    y = x * c
    return np.sum(y * y + x)


def slope(x, c):
    return 2 * x * c * c + 1


def test_a_gradient(data):
    x, c = data
    value, (g, _) = ct.value_and_gradient(f, x, ct.const(c))
    np.testing.assert_allclose(value, f(x, c), rtol=1e-12)
    np.testing.assert_allclose(g, slope(x, c), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("shift", [0, 1, 5])
def test_buffers_that_begin_anywhere(data, shift):
    x, c = data
    memory = np.full(N + 8, 7.0)
    g = memory[shift : shift + N]
    prepared = ct.prepare(f, x, ct.const(c), out=(g, None))
    for scale in (1.0, 2.0):
        prepared(scale * x, c)
        np.testing.assert_allclose(g, slope(scale * x, c), rtol=1e-14, atol=1e-14)
    assert (memory[:shift] == 7.0).all()
    assert (memory[shift + N :] == 7.0).all()


def test_several_results_some_of_which_are_read_again(data):
    x, c = data

    def both(x, c):
        y = np.sin(x) * c
        z = y + x
        return y, z, np.sum(z, axis=-1), np.max(y)

    (y, z, s, m), back = ct.pullback(both, x, ct.const(c))
    want = np.sin(x) * c
    np.testing.assert_allclose(y, want, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(z, want + x, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose([s, m], [np.sum(want + x), np.max(want)], rtol=1e-9)
    g = back((np.ones(N), np.zeros(N), 1.0, 0.0))[0]
    np.testing.assert_allclose(g, 2 * np.cos(x) * c + 1, rtol=1e-13, atol=1e-14)


def test_columns_and_rows():
    x = np.random.default_rng(1).normal(size=(2100, 2200))

    def softmax(x):
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        return e / np.sum(e, axis=1, keepdims=True)

    p = softmax(x)
    got = ct.gradient(lambda x: np.sum(softmax(x) ** 2) + np.sum(np.sum(x, axis=0) ** 2), x)[0]
    inner = np.sum(2 * p * p, axis=1, keepdims=True)
    want = p * (2 * p - inner) + 2 * np.sum(x, axis=0)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_what_is_handed_out_is_a_copy(data):
    x = np.stack(data)
    a = ct.array(x)
    for ours, theirs in ((a, x), (a.T, x.T), (a[:, ::-3], x[:, ::-3])):
        copy = np.asarray(ours)
        np.testing.assert_array_equal(copy, theirs)
        copy[...] = 7.0
        np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_copies_in_threads_and_in_a_forked_child(data):
    a, b = map(ct.array, data)
    with ThreadPoolExecutor(4) as pool:
        copies = list(pool.map(np.asarray, [a, b] * 4))
    for copy, x in zip(copies, data * 4, strict=True):
        np.testing.assert_array_equal(copy, x)
    if not hasattr(os, "fork"):
        return
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(np.asarray(a), data[0]) else 1)
    assert os.waitpid(child, 0)[1] == 0
