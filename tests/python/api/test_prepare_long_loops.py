"""Prepared loops that read a row of a long array in each turn, and matrices that they capture."""

import warnings

import numpy as np
import pytest

import cotan as ct

RNG = np.random.default_rng(11)
ROWS = 700
MEASURED = RNG.normal(size=(ROWS, 2))
MOTION = np.eye(3) + 0.01 * RNG.normal(size=(3, 3))


def filtered(seen, noise):
    """Run a Kalman filter; `seen` and `noise` are captured."""

    def loss(motion, measured):
        mean, spread, total = np.zeros(3), np.eye(3), 0.0
        for row in measured:
            mean = motion @ mean
            spread = motion @ spread @ motion.T + 0.01 * np.eye(3)
            inner = seen @ spread @ seen.T + noise
            gain = np.linalg.solve(inner, seen @ spread).T
            off = row - seen @ mean
            mean, spread = mean + gain @ off, spread - gain @ seen @ spread
            total = total + off @ off
        return total

    return loss


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_filter_over_many_rows():
    loss = filtered(RNG.normal(size=(2, 3)), 0.1 * np.eye(2))
    prepared = ct.prepare(loss, MOTION, MEASURED)
    for scale in (1.0, 0.5, 1.5, 0.5):
        wanted = ct.gradient(loss, MOTION, scale * MEASURED)
        same(prepared(MOTION, scale * MEASURED), wanted)
    assert len(prepared.programs) == 1
    rows = np.eye(ROWS)[3][:, None] * np.array([1.0, 0.0])
    slope = (loss(MOTION, MEASURED + 1e-6 * rows) - loss(MOTION, MEASURED - 1e-6 * rows)) / 2e-6
    assert prepared(MOTION, MEASURED)[1][3, 0] == pytest.approx(slope, rel=1e-5)


def test_a_captured_matrix_that_is_transposed_in_each_turn_is_watched():
    seen, noise = RNG.normal(size=(2, 3)), 0.1 * np.eye(2)
    loss = filtered(seen, noise)
    prepared = ct.prepare(loss, MOTION, MEASURED)
    before = prepared(MOTION, MEASURED)
    seen[0, 1] += 0.25
    after = prepared(MOTION, MEASURED)
    same(after, ct.gradient(loss, MOTION, MEASURED))
    assert not np.allclose(before[0], after[0])
    seen[0, 1] -= 0.25
    same(prepared(MOTION, MEASURED), before)


def test_a_view_that_the_program_holds_is_watched_itself():
    matrix = RNG.normal(size=(3, 3))
    views = {"turned": matrix.T}

    def loss(x):
        for _ in range(4):
            x = np.tanh(views["turned"] @ x)
        return np.sum(x)

    x = np.ones(3)
    prepared = ct.prepare(loss, x)
    same([prepared(x)], [ct.gradient(loss, x)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        views["turned"].strides = views["turned"].strides[::-1]
    same([prepared(x)], [ct.gradient(loss, x)])


def test_a_matrix_that_is_singular_in_one_turn_raises():
    factors = np.ones(600)

    def loss(x, factors):
        total = 0.0
        for factor in factors:
            total = total + np.sum(np.linalg.solve(np.diag(x) * factor, np.ones(2)))
        return total

    x = np.array([1.0, 2.0])
    prepared = ct.prepare(loss, x, ct.const(factors))
    for _ in range(3):
        np.testing.assert_allclose(prepared(x, ct.const(factors))[0], [-600.0, -150.0])
    broken = factors.copy()
    broken[417] = 0.0
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        prepared(x, ct.const(broken))
    np.testing.assert_allclose(prepared(x, ct.const(2 * factors))[0], [-300.0, -75.0])


def test_equal_captured_arrays_are_one_input():
    weights = np.arange(3.0)

    def f(x):
        for _ in range(20):
            x = np.sin(x) * weights + np.eye(3)[0]
        return x

    program = ct.trace(f, np.ones(3))
    assert len(program.inputs) == 3  # x, the weights, a row of the unit matrix
    weights[1] = 7.0
    np.testing.assert_array_equal(program.inputs[1].value, np.arange(3.0))
    assert "loop[" in str(program.rolled())
