"""What is left out contributes exactly 0, whatever its derivative and however it was moved."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings

import cotan as ct

# Functions, with an argument at which the derivative is infinite or NaN, and an ordinary one.
SINGULAR = {
    "log": (np.log, 0.0, 1.3),
    "log2": (np.log2, 0.0, 1.3),
    "log10": (np.log10, 0.0, 1.3),
    "log1p": (np.log1p, -1.0, 1.3),
    "sqrt": (np.sqrt, 0.0, 1.3),
    "cbrt": (np.cbrt, 0.0, 1.3),
    "power": (lambda x: x**0.3, 0.0, 1.3),
    "negative power": (lambda x: x**-2.0, 0.0, 1.3),
    "reciprocal": (np.reciprocal, 0.0, 1.3),
    "divide": (lambda x: 2.0 / x, 0.0, 1.3),
    "ratio": (lambda x: x / (x - 1.0), 1.0, 1.3),
    "arcsin": (np.arcsin, 1.0, 0.3),
    "arccos": (np.arccos, -1.0, 0.3),
    "arccosh": (np.arccosh, 1.0, 1.3),
    "arctanh": (np.arctanh, 1.0, 0.3),
    "arctan2": (lambda x: np.arctan2(x, x), 0.0, 1.3),
    "remainder": (lambda x: np.remainder(1.0, x), 0.0, 1.3),
    "xlogy": (lambda x: scipy.special.xlogy(1.0, x), 0.0, 1.3),
    "logit": (scipy.special.logit, 0.0, 0.3),
    "gammaln": (scipy.special.gammaln, 0.0, 1.3),
    "digamma": (scipy.special.digamma, 0.0, 1.3),
    "ndtri": (scipy.special.ndtri, 0.0, 0.3),
    "erfinv": (scipy.special.erfinv, 1.0, 0.3),
    "infinite factor": (lambda x: x * np.where(ct.dropgrad(x) == 0.0, np.inf, 2.0), 0.0, 1.3),
    "sine of infinity": (np.sin, np.inf, 1.3),
    "chain": (lambda x: np.exp(-(np.log(x) ** 2)) / x, 0.0, 1.3),
}

# Moves of the elements of a 3 x 4 array and what it makes of its mask.
MOVES = {
    "nothing": lambda y: y,
    "transpose": np.transpose,
    "reshape": lambda y: y.reshape(2, 6),
    "ravel": np.ravel,
    "new axis": lambda y: y[:, None, :],
    "broadcast": lambda y: np.broadcast_to(y, (2, *y.shape)),
    "repeat": lambda y: np.repeat(y, 2, axis=0),
    "tile": lambda y: np.tile(y, (2, 1)),
    "flip": lambda y: np.flip(y, 1),
    "roll": lambda y: np.roll(y, 1, axis=1),
    "slice": lambda y: y[:, ::2],
    "take": lambda y: np.take(y, [2, 0, 0], axis=0),
    "rows": lambda y: y[[2, 0]],
    "stack": lambda y: np.stack([y, y]),
    "concatenate": lambda y: np.concatenate([y, y[:1]], 0),
    "pad": lambda y: np.pad(y, 1),
    "cast": lambda y: y.astype(np.float64) + 0.0,
    "complex": lambda y: np.real(y + 0j),
}


def masked(y, keep, kind):
    if kind == "where":
        return np.where(keep, y, 0.0)
    if kind == "index":
        return y[keep]
    if kind == "write":
        z = y + 0.0
        z[~keep] = 0.0
        return z
    if kind == "sum":
        return np.sum(y, where=keep)
    return np.multiply(y, 1.0, out=np.zeros(y.shape), where=keep)


def gradient_and_expected(name, moves, kind, bad):
    """Give the gradient with singular elements left out, and what it should be."""
    function, singular, ordinary = SINGULAR[name]
    x = np.full((3, 4), ordinary) + np.linspace(0.0, 0.1, 12).reshape(3, 4)
    keep = ~bad
    for move in moves:
        keep = MOVES[move](keep)
    if keep.dtype != bool:
        keep = keep == 1

    def loss(x):
        with np.errstate(all="ignore"):
            y = function(x)
            for move in moves:
                y = MOVES[move](y)
            return np.sum(masked(y, keep, kind))

    with np.errstate(all="ignore"):
        (found,) = ct.gradient(loss, np.where(bad, singular, x))
        (expected,) = ct.gradient(loss, x)
    return found, np.where(bad, 0.0, expected)


BAD = np.zeros((3, 4), bool)
BAD[0, 1] = BAD[2] = True


@pytest.mark.parametrize("kind", ["where", "index", "write", "sum", "out"])
@pytest.mark.parametrize("name", SINGULAR)
def test_functions_and_masks(name, kind):
    for moves in ([], ["transpose"], ["new axis", "broadcast"], ["slice"]):
        found, expected = gradient_and_expected(name, moves, kind, BAD)
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=str(moves))


@pytest.mark.parametrize("move", MOVES)
def test_moves(move):
    for name, kind in itertools.product(("log", "divide", "arctan2", "xlogy"), ("where", "index")):
        found, expected = gradient_and_expected(name, [move], kind, BAD)
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=f"{name} {kind}")


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(SINGULAR)),
    moves=st.lists(st.sampled_from(sorted(MOVES)), max_size=3),
    kind=st.sampled_from(["where", "index", "write", "sum", "out"]),
    bad=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_any_of_them(name, moves, kind, bad):
    bad = np.reshape(bad, (3, 4))
    try:
        keep = ~bad
        for move in moves:
            keep = MOVES[move](keep)
    except (IndexError, ValueError):
        return  # No array for this move.
    if kind == "out" and not keep.size:
        return
    found, expected = gradient_and_expected(name, moves, kind, bad)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_masks_of_rows():
    x = np.array([[0.0, 0.0], [1.0, 2.0], [0.0, 3.0]])
    keep = np.array([False, True, False])
    with np.errstate(all="ignore"):
        for reduce in (
            lambda y: np.sum(y, 1), lambda y: np.mean(y, 1), lambda y: np.prod(y, 1),
            lambda y: np.max(y, 1), lambda y: y @ np.array([1.0, 2.0]), lambda y: y[:, 0] * y[:, 1],
            lambda y: np.cumsum(y, 1)[:, 1], lambda y: np.linalg.norm(y, axis=1),
        ):  # fmt: skip
            loss = lambda x, r=reduce: np.sum(np.where(keep, r(np.log(x)), 0.0))
            (found,) = ct.gradient(loss, x)
            (row,) = ct.gradient(lambda x, r=reduce: r(np.log(x))[0], x[1:2])
            np.testing.assert_allclose(found, [[0.0, 0.0], *row, [0.0, 0.0]], rtol=1e-12)
        product = lambda x: np.log(x) @ np.ones((2, 3))
        (found,) = ct.gradient(lambda x: np.sum(np.where(keep[:, None], product(x), 0.0)), x)
        np.testing.assert_allclose(found, [[0.0, 0.0], [3.0, 1.5], [0.0, 0.0]])


def test_several_slices_of_one_array():
    x = np.array([0.0, 2.0, 0.0, 4.0, 5.0, 0.0])
    with np.errstate(all="ignore"):
        (found,) = ct.gradient(lambda x: np.log(x)[1] + np.log(x)[3:5].sum(), x)
        np.testing.assert_allclose(found, [0.0, 0.5, 0.0, 0.25, 0.2, 0.0])

        def loss(x):
            y = np.log(x)
            return y[1] + 2.0 * y[3] + y[[4, 1]].sum()

        np.testing.assert_allclose(ct.gradient(loss, x)[0], [0.0, 1.0, 0.0, 0.5, 0.2, 0.0])
        large = np.full(5000, 2.0)
        large[7] = 0.0
        rows = np.delete(np.arange(5000), 7)
        (found,) = ct.gradient(lambda x: np.sum(np.log(x)[rows]), large)
        assert found[7] == 0
        assert np.all(found[rows] == 0.5)


def test_divisions_where_it_is_allowed():
    x, n = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 2.0]]), np.array([0.0, 2.0, 0.0])
    with np.errstate(all="ignore"):
        divide = lambda x, n: np.divide(x, n, out=np.zeros((2, 3)), where=n > 0)
        found = ct.gradient(lambda x, n: np.sum(divide(x, n)), x, n)
    np.testing.assert_allclose(found[0], [[0.0, 0.5, 0.0], [0.0, 0.5, 0.0]])
    np.testing.assert_allclose(found[1], [0.0, -0.75, 0.0])


def test_a_zero_that_was_computed_is_no_mask():
    with np.errstate(all="ignore"):
        # exp(log(x)) has the derivative 1 at 0: an exact 0 would be wrong.
        assert np.isnan(ct.gradient(lambda x: np.exp(np.log(x))[0], np.array([0.0, 1.0]))[0][0])
        assert np.isnan(
            ct.gradient(lambda x: np.sum(np.where(x < 1, np.exp(np.log(x)), 0.0)),
                        np.array([0.0, 1.0]))[0][0])  # fmt: skip


def test_second_order():
    x = np.array([0.0, 2.0])
    keep = np.array([False, True])
    with np.errstate(all="ignore"):
        loss = lambda x: np.sum(np.where(keep[:, None], np.log(x[:, None]) ** 2, 0.0))
        (found,) = ct.gradient(lambda x: np.sum(ct.gradient(loss, x)[0]), x)
    np.testing.assert_allclose(found, [0.0, (1 - np.log(2.0)) / 2])
