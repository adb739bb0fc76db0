"""Buffers, indices and masks that are written after they were read: what was read counts."""

import numpy as np
import pytest
from test_order import SIZES, X

import cotan as ct


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    "read",
    [
        lambda x, b: x * b,
        lambda x, b: b * x,
        lambda x, b: x - b,
        lambda x, b: np.multiply(b, x),
        lambda x, b: np.where(b > 1.5, x, -x),
        lambda x, b: np.maximum(x, b),
        lambda x, b: x + (x * 0 + 1) * b,
    ],
    ids=["x*b", "b*x", "x-b", "multiply", "where", "maximum", "x+x*b"],
)
def test_a_refilled_buffer(n, read):
    def f(x):
        buf, total = np.empty(n), 0.0
        for step in (1.0, 2.0, 3.0):
            buf[:] = step
            total = total + np.sum(read(x, buf))
        buf[:] = np.nan
        return total

    x = np.linspace(0.5, 3.5, n)
    value, (gradient,) = ct.value_and_gradient(f, x)
    h = 1e-7
    np.testing.assert_allclose(value, f(x), rtol=1e-12, atol=1e-14 * n)
    slope = sum(
        (read(x + h, np.full(n, s)) - read(x - h, np.full(n, s))) / (2 * h) for s in (1.0, 2.0, 3.0)
    )
    away = (
        np.min([np.abs(x - s) for s in (1.0, 2.0, 3.0)], axis=0) > 1e-6
    )  # from the kinks of maximum
    np.testing.assert_allclose(gradient[away], slope[away], rtol=1e-6, atol=1e-6)


WRITES = {
    "itself": lambda base: base.__setitem__(slice(None), -1.0),
    "view": lambda base: base[: len(base) // 2].fill(-1.0),
    "strided view": lambda base: base[::2].__setitem__(slice(None), -1.0),
    "reversed view": lambda base: np.negative(base[::-1], out=base[::-1]),
    "reshaped": lambda base: base.reshape(-1, 3)[:, 1].fill(-1.0),
    "ufunc out": lambda base: np.add(base, 1.0, out=base),
    "in place": lambda base: base.__imul__(-3.0),
    "sort": lambda base: base[::-1].sort(),
    "memoryview": lambda base: memoryview(base).__setitem__(1, -9.0),
    "raw memory": lambda base: np.asarray(base.data).fill(-9.0),
    "put": lambda base: np.put(base, [0, 1], [-7.0, -8.0]),
}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize(
    "view",
    [
        lambda base: base,
        lambda base: base[::-1],
        lambda base: base.reshape(3, -1).T.reshape(-1, order="F"),
    ],
    ids=["base", "reversed", "transposed twice"],
)
def test_a_write_after_the_read(n, write, view):
    base = np.arange(float(n))
    seen = view(base)
    before = seen.copy()
    after = None

    def f(x):
        nonlocal after
        y = np.sum(x * seen)
        write(base)
        after = seen.copy()
        return y + 2 * np.sum(np.sin(x) * seen)

    x = np.linspace(0.0, 1.0, n)
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert not np.array_equal(before, after)  # the write was seen by who reads later
    np.testing.assert_allclose(
        value, np.sum(x * before) + 2 * np.sum(np.sin(x) * after), rtol=1e-10
    )
    np.testing.assert_allclose(gradient, before + 2 * np.cos(x) * after, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("n", SIZES)
def test_a_view_read_and_the_base_dropped(n):
    def f(x):
        def view():
            return np.arange(float(n + 2))[1:-1]

        y = np.sum(x * view())
        np.full(n + 2, np.nan)  # takes the memory that the view would have left
        return y

    np.testing.assert_array_equal(ct.gradient(f, np.ones(n))[0], np.arange(1.0, n + 1))


@pytest.mark.parametrize("n", SIZES)
def test_a_temporary_of_which_a_view_is_kept(n):
    """The temporary has one reference when it is read, and still its memory is shared."""
    kept = []

    def make():
        base = np.ones(n)
        kept.append(base[:2])
        return base

    def f(x):
        y = np.sum(x * make())
        kept[-1][:] = 100.0
        return y

    np.testing.assert_array_equal(ct.gradient(f, np.ones(n))[0], np.ones(n))


@pytest.mark.parametrize("n", SIZES)
def test_a_read_only_view_of_memory_that_is_written(n):
    """A flag on the view does not make the memory constant."""
    base = np.ones(n)
    view = base.view()
    view.flags.writeable = False

    def f(x):
        y = np.sum(x * view)
        base[:] = 5.0
        return y

    np.testing.assert_array_equal(ct.gradient(f, np.ones(n))[0], np.ones(n))


@pytest.mark.parametrize("n", SIZES)
def test_broadcast_and_zero_stride_views(n):
    row = np.ones(1)
    wide = np.broadcast_to(row, (n,))

    def f(x):
        y = np.sum(x * wide)
        row[0] = 3.0
        return y + np.sum(x * x * wide)

    np.testing.assert_array_equal(ct.gradient(f, np.ones(n))[0], np.full(n, 7.0))


@pytest.mark.parametrize("n", [3, 500])
def test_matrices_and_their_transposes(n, rng):
    m = rng.random((n, n))
    transposed = m.T
    first = m.copy()

    def f(x):
        y = np.sum(transposed @ x)
        m[0, :] = 0.0
        y = y + np.sum(np.sin(x @ m))
        transposed[:, 0] = 7.0
        return y + np.sum(m @ x)

    x = rng.random(n)
    (g,) = ct.gradient(f, x)
    second, third = first.copy(), first.copy()
    second[0, :], third[0, :] = 0.0, 7.0
    expected = first.sum(axis=1) + second @ np.cos(x @ second) + third.sum(axis=0)
    np.testing.assert_allclose(g, expected, rtol=1e-9)


def test_rows_met_while_iterating(rng):
    table = rng.random((4, 3))
    rows = table.copy()

    def f(x):
        total = 0.0
        for row in table:
            total = total + np.sum(np.sin(x) * row)
            row[:] = np.nan
        return total

    np.testing.assert_allclose(ct.gradient(f, X)[0], np.cos(X) * rows.sum(axis=0), rtol=1e-14)


def test_numpy_scalars_and_zero_dimensional_arrays():
    s, buf = np.array(2.0), np.array([3.0])

    def f(x):
        y = np.sum(x * s) + np.sum(x * buf[0])
        s[()], buf[0] = 5.0, 7.0
        return y + np.sum(x * x * s) * buf[0]

    np.testing.assert_allclose(ct.gradient(f, X)[0], 5.0 + 2 * X * 35.0)


@pytest.mark.parametrize("n", SIZES)
def test_an_index_array_that_is_rewritten(n):
    index = np.arange(n)
    seen = np.zeros(n)

    def f(x):
        total = 0.0
        for step in (1, 2):
            index[:] = (np.arange(n) * step) % n
            total = total + step * np.sum(x[index])
        index[:] = n + 10  # out of range, if anybody looked at it now
        return total

    for step in (1, 2):
        np.add.at(seen, (np.arange(n) * step) % n, step)
    np.testing.assert_array_equal(ct.gradient(f, np.ones(n))[0], seen)


@pytest.mark.parametrize("n", SIZES)
def test_a_mask_that_is_rewritten(n):
    mask = np.zeros(n, bool)

    def f(x):
        mask[::2] = True
        y = np.sum(x[mask]) + np.sum(np.where(mask, 10 * x, 0.0))
        np.logical_not(mask, out=mask)
        y = y + 100 * np.sum(x[mask])
        mask[:] = False
        return y

    even = np.arange(n) % 2 == 0
    np.testing.assert_array_equal(ct.gradient(f, np.ones(n))[0], np.where(even, 11.0, 100.0))


@pytest.mark.parametrize("n", SIZES)
def test_indices_of_a_write_that_are_rewritten(n):
    index, mask, fill = np.array([0, 2]), np.zeros(n, bool), np.array([5.0, 7.0])
    mask[1] = True

    def f(x):
        y = x * 2.0
        y[index] = fill
        y[mask] *= 10.0
        index[:], mask[:], fill[:] = 1, True, np.nan
        return np.sum(y) + np.sum(x)

    expected = np.full(n, 3.0)
    expected[:3] = [1.0, 21.0, 1.0]
    value, (gradient,) = ct.value_and_gradient(f, np.ones(n))
    assert value == 2.0 * (n - 3) + 5.0 + 20.0 + 7.0 + n
    np.testing.assert_array_equal(gradient, expected)


def test_the_last_of_several_writes_to_one_place_wins():
    def f(x):
        y = x * 1.0
        y[np.array([0, 0])] = np.array([10.0, 20.0]) * x[1]
        return np.sum(y)

    value, (gradient,) = ct.value_and_gradient(f, X)
    assert value == pytest.approx(20.0 * X[1] + X[1] + X[2], rel=1e-15)
    np.testing.assert_array_equal(gradient, [0.0, 21.0, 1.0])
