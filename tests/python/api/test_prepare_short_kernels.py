"""Prepared loops of slices, gathers, scatters and joins of short arrays, in laid out memory."""

import numpy as np
import pytest

import cotan as ct

TURNS = 40


def slices(x, at):
    for t in range(TURNS):
        y = 0.5 * x
        y[1:] += 0.1 * x[:-1]
        y[::-2] -= x[::2] * 0.01
        y[2:5] = x[4:1:-1] * (t + 1)
        x = y
    return np.sum(x * x)


def indices(x, at):
    total = 0.0
    for row in at:
        total = total + np.sum(x[row] * x[row[::-1]])
        y = x * 1.0
        y[row] = x[row] * 0.5
        x = y
    return total


def rows(x, at):
    table = np.reshape(x[:8], (4, 2))
    total = 0.0
    for row in at % 4:
        total = total + np.sum(table[row] ** 2)
        table = np.stack([table[0], table[2], table[1], table[3] * 0.9])
        table = np.concatenate([table[1:], table[:1]])
    return total


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("function", [slices, indices, rows])
def test_replays_have_the_bits_of_calls(function, dtype):
    rng = np.random.default_rng(3)

    def f(x, at):
        found = function(x, at)
        return found.real if dtype is np.complex128 else found

    def data(n=9):
        x = rng.normal(size=n).astype(dtype)
        x[2], x[5] = -0.0, 0.0
        return x, rng.integers(0, n, (TURNS, 5))

    prepared = ct.prepare(f, data()[0], ct.const(data()[1]), transform="value_and_gradient")
    for turn in range(8):
        x, at = data()
        if turn == 4:
            x[1] = np.nan
        if turn == 6:
            x[3] = np.inf
        value, (dx, none) = prepared(x, at)
        wanted, (wanted_dx, _) = ct.value_and_gradient(f, x, ct.const(at))
        assert none is None
        np.testing.assert_array_equal(value, wanted)
        np.testing.assert_array_equal(dx, wanted_dx)
        np.testing.assert_array_equal(np.signbit(dx.real), np.signbit(wanted_dx.real))
    assert prepared.num_recordings == 1


def test_an_index_out_of_bounds_is_an_error_in_replays():
    x, at = np.arange(9.0), np.arange(TURNS * 5).reshape(TURNS, 5) % 9
    prepared = ct.prepare(indices, x, ct.const(at), transform="value_and_gradient")
    for _ in range(4):
        wanted = prepared(x, at)
    at[7, 3] = 9
    for _ in range(2):
        with pytest.raises(IndexError, match="9"):
            prepared(x, at)
    at[7, 3] = (7 * 5 + 3) % 9
    for _ in range(3):
        found = prepared(x, at)
        np.testing.assert_array_equal(found[1][0], wanted[1][0])
