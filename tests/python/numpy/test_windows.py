"""Sliding windows: views that repeat elements, of which only what is wanted is gathered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import cotan as ct

STEPS = st.sampled_from([-3, -1, 1, 2, 5])
ENDS = st.one_of(st.none(), st.integers(-8, 8))
SLICES = st.builds(slice, ENDS, ENDS, STEPS)


@given(
    shape=st.sampled_from([((9,), 4, None), ((4, 7), 3, 1), ((5, 6), (2, 3), None)]),
    index=st.lists(SLICES, min_size=1, max_size=3),
    more=SLICES,
)
def test_slices_of_windows(shape, index, more):
    shape, window, axis = shape
    x = np.arange(np.prod(shape), dtype=float).reshape(shape)
    index = tuple(index[: len(sliding_window_view(x, window, axis).shape)])

    def f(x):
        return sliding_window_view(x, window, axis)[index][more]

    expected = f(x)
    np.testing.assert_array_equal(ct.trace(f, x)(x), expected)
    # How often each element is there.
    counts = np.zeros(x.size)
    np.add.at(counts, expected.astype(int).reshape(-1), 1.0)
    np.testing.assert_array_equal(ct.gradient(lambda x: np.sum(f(x)), x)[0].reshape(-1), counts)


def test_what_is_left_out_is_not_gathered(rng):
    x = rng.normal(size=10_000)

    def f(x):
        return sliding_window_view(x, 256)[::128] ** 2

    gathered = [e.shape for e in ct.trace(f, x).equations if e.primitive == "gather"]
    assert gathered == [(77, 256)]
    y, pullback = ct.vjp(f, x)
    assert pullback.nbytes <= 2 * y.nbytes  # the elements and their positions
    (g,) = pullback(np.ones(y.shape))
    expected = np.zeros(10_000)
    for i in range(0, 10_000 - 255, 128):
        expected[i : i + 256] += 2 * x[i : i + 256]
    np.testing.assert_allclose(g, expected)


def test_rows_of_a_batch_are_gathered_once(rng):
    x, batch = rng.normal(size=(50, 3)), rng.integers(0, 50, 20)

    def f(x):
        rows = x[batch]
        return sum(np.sum(rows[i] ** 2) for i in range(20))

    names = [e.primitive for e in ct.trace(f, x).equations]
    assert names.count("gather") == 1


def test_windows_are_views(rng):
    x = rng.normal(size=6)

    def f(x):
        y = x * 1.0
        windows = sliding_window_view(y, 3, writeable=True)
        y[2] = 10.0
        windows[1, 0] = 20.0
        return windows

    expected = x.copy()
    expected[1:3] = 20.0, 10.0
    np.testing.assert_array_equal(ct.trace(f, x)(x), sliding_window_view(expected, 3))

    def apart(x):
        y = x * 1.0
        sliding_window_view(y, 6, writeable=True)[0, 1::2] = 0.0
        return y

    np.testing.assert_array_equal(ct.gradient(lambda x: np.sum(apart(x)), x)[0], [1, 0, 1, 0, 1, 0])


def test_windows_of_any_size_are_one_program(tmp_path, rng):
    runtime = pytest.importorskip("onnxruntime")

    def f(x):
        return np.sum(sliding_window_view(x, 4)[::2] ** 2, axis=1)

    path = tmp_path / "f.onnx"
    ct.to_onnx(f, rng.normal(size=20), path=path, dynamic={"x": {0: "n"}})
    session = runtime.InferenceSession(path)
    for n in (9, 20, 41):
        x = rng.normal(size=n)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], f(x))
