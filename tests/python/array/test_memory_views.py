"""Views that NumPy describes by memory: `as_strided`, `sliding_window_view`, `einsum` diagonals."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from scipy import linalg
from scipy_cases import differences

import cotan as ct

X = np.array([0.3, -0.7, 1.1, 0.4, -0.2, 0.9])


def windows_see_later_writes(x):
    signal = np.zeros(6)
    windows = np.lib.stride_tricks.as_strided(signal, (4, 3), (8, 8))
    slid = np.lib.stride_tricks.sliding_window_view(signal, 2)
    signal[:] = x**2
    signal[2] *= x[0]
    return np.sum(windows[1] * windows[2]) + np.sum(slid[0] * slid[1])


def windows_of_a_part(x):
    signal = np.zeros((3, 6))
    slid = np.lib.stride_tricks.sliding_window_view(signal[:, ::2], 2, axis=1)
    signal[1] = x
    return np.sum(slid[1, 0] * slid[1, 1])


def diagonal_by_strides(x):
    matrix = np.zeros((6, 6))
    matrix[:] = np.outer(x, x)
    step = sum(matrix.strides)
    diagonal = np.lib.stride_tricks.as_strided(matrix, (6,), (step,))
    diagonal[:] = x
    diagonal *= 3.0
    return np.sum(matrix**2)


def diagonals_by_einsum(x):
    matrices = np.zeros((2, 3, 3))
    matrices[0] = x[0]
    np.einsum("ijj->ij", matrices)[...] = x.reshape(2, 3)
    np.einsum("ijj->ij", matrices)[1] += x[1]
    np.einsum("ijk->ikj", matrices)[0, 0, 1] = x[2]
    return np.sum(matrices[0] @ matrices[1] * np.arange(3.0))


def strided_writes_of_every_other(x):
    y = np.zeros(6)
    y[:] = x
    np.lib.stride_tricks.as_strided(y, (3,), (16,))[1:] = x[:2] ** 2
    return np.sum(y * np.arange(6.0))


def windows_of_what_runs_backwards(x):
    signal = np.ascontiguousarray(np.flip(x))[::-1]
    windows = as_strided(signal, (4, 3), signal.strides * 2)
    rows = np.outer(x, x).T[::2]
    return np.sum(windows[1] * windows[2]) + as_strided(rows, (3,), (sum(rows.strides),))[1]


@pytest.mark.parametrize(
    "f",
    [
        windows_of_what_runs_backwards,
        windows_see_later_writes,
        windows_of_a_part,
        diagonal_by_strides,
        diagonals_by_einsum,
        strided_writes_of_every_other,
    ],
)
def test_views_follow_their_memory(f):
    value, (gradient,) = ct.value_and_gradient(f, X)
    assert value == pytest.approx(f(X), rel=1e-12)
    h = 1e-6
    slopes = [(f(X + step) - f(X - step)) / (2 * h) for step in h * np.eye(6)]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-8)


SAME_OR_COPY = {
    "ascontiguousarray": lambda v: np.ascontiguousarray(v),
    "asfortranarray": lambda v: np.asfortranarray(v),
    "asarray": lambda v: np.asarray(v),
    "asarray C": lambda v: np.asarray(v, order="C"),
    "asarray F": lambda v: np.asarray(v, order="F"),
    "asarray copy": lambda v: np.asarray(v, copy=True),
    "array F": lambda v: np.array(v, copy=None, order="F"),
    "astype F": lambda v: v.astype(float, order="F", copy=False),
    "require C": lambda v: np.require(v, requirements="C"),
    "require F": lambda v: np.require(v, None, ["F", "W"]),
    "require O": lambda v: np.require(v, requirements=["OWNDATA"]),
    "meshgrid": lambda v: np.meshgrid(v, v)[0],
    "meshgrid of rows": lambda v: np.meshgrid(v[0], v[-1], indexing="ij")[1],
    "sparse meshgrid": lambda v: np.meshgrid(v[0], v[-1], sparse=True)[1],
    "sum over no axes": lambda v: np.add.reduce(v, axis=()),
    "flat": lambda v: v.flat[:],
    "take": lambda v: np.take(v, [-1, 0, -1], axis=0),
}
PARTS = {
    "all": lambda v: v,
    "transposed": lambda v: v.T,
    "reversed": lambda v: v[::-1],
    "columns": lambda v: v[:, 1:],
    "row": lambda v: v[1:2],
}


@pytest.mark.parametrize("make", SAME_OR_COPY.values(), ids=SAME_OR_COPY)
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("constant", [False, True], ids=["traced", "constant"])
def test_what_is_a_copy_in_numpy(make, part, constant):
    """Writes on either side are seen on the other where NumPy shares memory, and nowhere else."""

    def f(x):
        base = np.array(np.arange(12.0) if constant else x).reshape(3, 4).copy()
        made = make(part(base))
        base[1] *= 2.0
        seen = made.sum() - made[0].sum()
        made[...] = made * 3.0 + x[0]
        return seen + np.sum(base * np.arange(12.0).reshape(3, 4)) * x[1]

    x = np.linspace(0.5, 2.0, 12)
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(f(x), rel=1e-12)
    h = 1e-6
    slopes = [(f(x + step) - f(x - step)) / (2 * h) for step in h * np.eye(12)]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["ascontiguousarray", "asfortranarray"])
def test_numbers_in_an_order_are_arrays_of_one(name):
    def f(x):
        made = getattr(np, name)(x[0])
        assert made.shape == getattr(np, name)(X[0]).shape == (1,)
        return made[0] * 2

    assert ct.gradient(f, X)[0][0] == 2.0


def test_what_cannot_be_written_to():
    x = ct.array(X)
    for view in (sliding_window_view(x, 3), np.diagonal(ct.array(np.eye(3)))):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1.0
    assert sliding_window_view(x, 6, writeable=True).flags.writeable


def windows_one_by_one(windows, x):
    for i in range(3):
        for j in range(3):
            windows[i, j] += x[i, j]
            windows[i][j, ::-1, 0] *= x[j, i]


def windows_at_once(windows, x):
    windows += x[:3, :3, None, None]
    windows[:, 1] = x[None, :2, :2] * [[[1.0]], [[2.0]], [[3.0]]]


def windows_in_other_orders(windows, x):
    windows.transpose(2, 0, 3, 1)[...] = x[:3, :3, None, None].transpose(2, 0, 3, 1) * np.arange(
        6.0
    ).reshape(1, 3, 2, 1)
    windows[::-1, 0] -= x[:3, :2, None]


def windows_by_indices(windows, x):
    windows[[0, 2], [1, 0]] = x[:2, :2]
    windows[windows[:, :, 0, 0] > 1e3] = 5.0
    windows[1, 1][x[:2, :2] > 0.95] = 7.0


def windows_add_up(windows, x):
    np.add.at(windows, (slice(None), slice(1, None)), x[:3, 1:3, None, None])
    np.multiply.at(windows, ([0, 0], [1, 1]), x[:2, :2])
    np.subtract.at(windows, 2, x[0, 0])


def windows_of_numbers(windows, x):
    windows[1:] = 3.0
    windows.fill(2.0)
    windows[0, 0] = x[:2, :2]


@pytest.mark.parametrize(
    "write",
    [
        windows_one_by_one,
        windows_at_once,
        windows_in_other_orders,
        windows_by_indices,
        windows_add_up,
        windows_of_numbers,
    ],
)
@pytest.mark.parametrize("dtype", [float, complex])
def test_writes_to_windows_that_overlap(write, dtype):
    """What stays where several windows are written at once goes by the order of NumPy's writes."""

    def f(x):
        y = np.zeros((4, 4), dtype) + 1.0
        write(sliding_window_view(y, (2, 2), writeable=True), x)
        z = np.array(y)
        write(as_strided(z, (3, 3, 2, 2), z.strides * 2), x * 0.5)
        return np.sum(np.real(z) * np.arange(16.0).reshape(4, 4))

    x = np.linspace(0.5, 2.0, 16).reshape(4, 4)
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(f(x), rel=1e-12)
    h = 1e-6
    steps = h * np.eye(16).reshape(16, 4, 4)
    slopes = np.reshape([(f(x + step) - f(x - step)) / (2 * h) for step in steps], (4, 4))
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)
    prepared = ct.prepare(f, x)
    for values in (x, x[::-1] * 0.9):
        np.testing.assert_allclose(prepared(values)[0], ct.gradient(f, values)[0], rtol=1e-12)


def test_writes_to_windows_that_overlap_whose_order_is_not_known():
    def windows(x):
        return sliding_window_view(x * 1.0, 2, writeable=True)

    def sorted_in_place(x):
        seen = windows(x)
        seen.sort(axis=0)
        return seen.sum()

    def by_indices(x):
        seen = windows(x)
        seen[[0, 1]] = seen[[1, 0]]
        return seen.sum()

    with pytest.raises(ValueError, match="has elements twice.* write one window after the other"):
        ct.gradient(sorted_in_place, X)
    with pytest.raises(
        ValueError, match="since the windows overlap.* write to one window after the other"
    ):
        ct.gradient(by_indices, X)


def test_names_of_numpy_are_asked_for_arrays_of_ours():
    np.testing.assert_array_equal(sliding_window_view(ct.array(X), 2), sliding_window_view(X, 2))
    assert isinstance(as_strided(X, (2,), (8,)), np.ndarray)


def test_an_array_of_one_number_is_no_index():
    """NumPy would take it for one, and give a scalar where an array belongs."""
    order = np.argsort(ct.array(X))[-1:]
    assert X[np.asarray(order)].shape == X[order].shape == (1,)
    assert np.arange(6)[order].shape == (1,)
    with pytest.raises(TypeError, match="only integer scalar arrays"):
        [1, 2, 3][order]
    assert [1, 2, 3, 4][order[0]] == 3


def test_memory_beside_a_view_is_not_given_out():
    x = ct.array([1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match="as_strided: reads memory beside a view"):
        linalg.circulant(x)
    np.testing.assert_array_equal(as_strided(x, (2, 2), (8, 8)), [[1, 2], [2, 3]])
    value, _ = ct.value_and_gradient(lambda x: np.sum(linalg.circulant(x)), np.ones(3))
    assert value == 9.0


def test_windows_of_what_is_not_in_order_have_its_strides():
    def through(base):
        def f(x):
            memory = x * 1.0
            view = base(memory)
            windows = sliding_window_view(view, 2, axis=0, writeable=True)
            strides = windows.strides
            windows[...] = np.arange(1.0, windows.size + 1).reshape(windows.shape) * (
                1 + 0 * x[0, 0]
            )
            return np.sum(memory * np.arange(24).reshape(6, 4)) + sum(strides)

        return f

    x = np.arange(24.0).reshape(6, 4)
    for base in (lambda b: b[::-1], lambda b: b[::2, 1:], lambda b: b.T, lambda b: b[:, 2]):
        f = through(base)
        value, (gradient,) = ct.value_and_gradient(f, x)
        assert value == f(x)
        np.testing.assert_allclose(gradient, differences(f, (x,), 0, 1e-5), atol=1e-6)


def test_parts_of_complex_windows_are_refused():
    def f(x):
        part = sliding_window_view(x * (1 + 1j), 3, writeable=True).real
        part[...] = 1.0
        return np.sum(part)

    with pytest.raises(TypeError, match="real or imaginary part of windows"):
        ct.gradient(f, np.arange(6.0))
