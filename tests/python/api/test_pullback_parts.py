"""A pullback that is applied again and again, and read in another way each time."""

import itertools

import numpy as np
import pytest

import cotan as ct

ARGUMENTS = (np.array([0.3, 0.7]), np.array([1.5, -0.2]), np.array([2.0, 0.4]))


def f(a, b, c):
    return np.sin(a) * np.exp(b) + np.cos(a * c) * np.exp(b)


def right(dy):
    return ct.gradient(lambda a, b, c: np.sum(f(a, b, c) * dy), *ARGUMENTS)


@pytest.mark.parametrize("kept", list(itertools.product([True, False], repeat=3)), ids=str)
def test_cotangents_in_any_order(kept):
    _, back = ct.pullback(f, *ARGUMENTS)
    for k, order in enumerate([*itertools.permutations(range(3)), (0, 0, 1), (2,), ()] * 2):
        dy = np.array([1.0 + k, -0.5])
        cotangents = [g if keep else None for g, keep in zip(back(dy), kept, strict=True)]
        for i in order:
            if cotangents[i] is not None:
                assert np.allclose(np.asarray(cotangents[i]), right(dy)[i], rtol=1e-14)
        rest = [i for i in range(3) if cotangents[i] is not None]
        together = ct.force([cotangents[i] for i in rest])
        for i, g in zip(rest, together, strict=True):
            assert np.allclose(np.asarray(g), right(dy)[i], rtol=1e-14)


def test_cotangents_that_wait_themselves():
    _, back = ct.pullback(f, *ARGUMENTS)
    _, outer = ct.pullback(lambda x: x * x, np.array([3.0, 4.0]))
    for factor in (1.0, 2.0):
        (pending,) = outer(np.full(2, factor))
        dy = np.array([6.0, 8.0]) * factor
        assert np.allclose(np.asarray(back(pending)[1]), right(dy)[1], rtol=1e-14)
        assert np.allclose(np.asarray(back(2.0 * dy)[0]), right(2.0 * dy)[0], rtol=1e-14)


def test_work_that_cotangents_share_is_done_once(rng):
    w = rng.standard_normal((30, 30))

    def layers(a, b, c):
        return np.tanh(w @ (np.tanh(w @ (np.tanh(w @ a) * b)) * c))

    _, back = ct.pullback(layers, *[np.ones(30)] * 3)
    for _ in range(2):
        cotangents = back(np.ones(30))
        with ct.profile() as apart:
            for g in reversed(cotangents):
                np.asarray(g)
        with ct.profile() as together:
            ct.force(back(np.ones(30)))
        for name in ("matmul", "mul", "square", "sub"):
            assert apart.equations[name] == together.equations[name] > 0, name
