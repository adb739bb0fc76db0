"""Booleans of other bytes than 0 and 1, as views of integers have: every byte but 0 is true."""

import numpy as np
import pytest

import cotan as ct

P = np.array([0, 1, 2, 255], np.uint8).view(bool)
Q = np.array([3, 2, 1, 4], np.uint8).view(bool)
X = np.arange(1.0, 5)

FUNCTIONS = {
    "not": lambda x, p, q: np.where(~p, x, 2 * x),
    "and": lambda x, p, q: np.where(p & q, x, 2 * x),
    "or": lambda x, p, q: np.where(p | q, x, 2 * x),
    "xor": lambda x, p, q: np.where(p ^ q, x, 2 * x),
    "equal": lambda x, p, q: np.where(p == q, x, 2 * x),
    "unequal": lambda x, p, q: np.where(p != q, x, 2 * x),
    "less": lambda x, p, q: np.where(p < q, x, 2 * x),
    "product": lambda x, p, q: x * (p * q),
    "matrix product": lambda x, p, q: x * (p @ q),
    "sum": lambda x, p, q: x * np.sum(p),
    "selection": lambda x, p, q: x[p] ** 2,
    "cast": lambda x, p, q: x * p.astype(np.int8),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("step", [1, -1])
def test_every_byte_but_zero_is_true(name, step):
    def f(x, p, q):
        return np.sum(FUNCTIONS[name](x, p, q))

    p, q = P[::step], Q[::step]
    expected = f(X, p.copy() != 0, q.copy() != 0)
    assert f(X, p, q) == expected
    value, _ = ct.value_and_gradient(f, X, ct.const(p), ct.const(q))
    assert value == expected
    assert ct.value_and_gradient(lambda x: f(x, p, q), X)[0] == expected
    if name != "selection":
        prepared = ct.prepare(f, X, ct.const(p != 0), ct.const(q != 0), transform="value")
        for _ in range(2):
            assert prepared(X, p, q) == expected


def test_the_truth_of_a_captured_mask_is_what_counts():
    mask = np.array([0, 1, 1, 1], np.uint8)
    prepared = ct.prepare(lambda x: np.sum(x[mask.view(bool)]), X, transform="value")
    assert prepared(X) == 9.0
    mask[:] = 0, 255, 2, 1
    assert prepared(X) == 9.0
    mask[:] = 1, 0, 0, 0
    assert prepared(X) == 1.0


@pytest.mark.parametrize("order", ["C", "F"])
def test_masks_that_do_not_lie_in_one_piece(order):
    mask = np.array([[0, 2, 1], [1, 0, 3]], np.uint8, order=order).view(bool)
    x = np.arange(6.0).reshape(2, 3)
    for of in (mask, mask[:, ::2], mask.T, np.broadcast_to(mask[0], (4, 3)), mask[:0]):
        truth = of.copy() != 0
        y = np.ones(of.shape)
        value = ct.value_and_gradient(lambda y, m: np.sum(np.where(~m, y, 0.0)), y, ct.const(of))[0]
        assert value == np.sum(~truth)
    assert ct.value_and_gradient(lambda x, m: np.sum(x[~m]), x, ct.const(mask))[0] == 4.0
