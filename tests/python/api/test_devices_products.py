"""Products of matrices on a GPU: sizes beside those of tiles, layouts, dtypes; and very long loops.

Whole numbers that the dtype holds have no rounding, so results are compared bit by bit.
"""

import numpy as np
import pytest
from gpu_cases import GPU, needs_gpu

import cotan as ct

pytestmark = needs_gpu

# Rows, terms of a sum, columns.
SIZES = [
    (1, 1, 1),
    (1, 5, 9),
    (9, 5, 1),
    (2, 1, 65),
    (7, 8, 17),
    (8, 16, 8),
    (17, 3, 33),
    (31, 40, 63),
    (33, 100, 65),
    (65, 9, 130),
    (3, 300, 70),
    (70, 300, 3),
]


def whole(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def there(function, *args):
    """The result of the GPU, none of it computed on the processor."""
    with ct.profile() as work:
        result = np.asarray(function(*(ct.array(a, device="gpu") for a in args)))
    assert not work.on_processor
    return result


def skip_without(dtype):
    if np.dtype(dtype) not in GPU.dtypes:
        pytest.skip("the GPU has no such dtype")


class TestProducts:
    @pytest.mark.parametrize("size", SIZES, ids=str)
    @pytest.mark.parametrize("layout", ["plain", "turned left", "turned right", "turned", "parts"])
    def test_sizes_and_layouts(self, size, layout):
        m, k, n = size
        a, b = whole(m, k), whole(k, n, seed=1)
        if layout == "parts":
            a, b = whole(2 * m, k + 3), whole(k, 3 * n, seed=1)
            found = there(lambda a, b: a[::2, 1:-2] @ b[::-1, 1::3], a, b)
            assert np.array_equal(found, a[::2, 1:-2] @ b[::-1, 1::3])
            return
        left, right = layout in ("turned left", "turned"), layout in ("turned right", "turned")
        if left:
            a = np.ascontiguousarray(a.T)
        if right:
            b = np.ascontiguousarray(b.T)

        def product(a, b):
            return (a.T if left else a) @ (b.T if right else b)

        assert np.array_equal(there(product, a, b), product(a, b))

    @pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8", "u4", "i1"])
    def test_dtypes(self, dtype):
        skip_without(dtype)
        for m, k, n in [(9, 20, 33), (40, 6, 3), (1, 50, 70)]:
            a, b = whole(m, k, dtype=dtype), whole(k, n, dtype=dtype, seed=1)
            found = there(np.matmul, a, b)
            assert found.dtype == a.dtype
            assert np.array_equal(found, a @ b)

    @pytest.mark.parametrize(
        "shapes",
        [
            ((5, 9, 4), (5, 4, 10)),
            ((9, 4), (3, 2, 4, 10)),
            ((2, 1, 9, 4), (3, 4, 1)),
            ((300, 2, 3), (300, 3, 2)),
            ((4, 33, 70), (70,)),
            ((70,), (2, 70, 9)),
        ],
        ids=str,
    )
    def test_batches(self, shapes):
        a, b = whole(*shapes[0]), whole(*shapes[1], seed=1)
        assert np.array_equal(there(np.matmul, a, b), a @ b)

    @pytest.mark.parametrize("shapes", [((0, 3), (3, 4)), ((3, 0), (0, 4)), ((2, 0, 3), (3, 0))])
    def test_empty(self, shapes):
        a, b = (np.ones(s, np.float32) for s in shapes)
        found = np.asarray(ct.array(a, device="gpu") @ ct.array(b, device="gpu"))
        assert found.shape == (a @ b).shape
        assert np.array_equal(found, a @ b)

    @pytest.mark.parametrize("size", [(1, 5, 9), (33, 100, 65), (70, 3000, 3)], ids=str)
    def test_with_what_reads_the_result(self, size):
        m, k, n = size
        a, b = whole(m, k), whole(k, n, seed=1)
        row, column = whole(n, seed=2), whole(m, 1, seed=3)

        def layer(a, b, row, column):
            return np.maximum(a @ b + row, 0) * column

        found = there(layer, a, b, row, column)
        assert np.array_equal(found, layer(a, b, row, column))

        def loss(a, b):
            return np.sum(np.tanh(a @ b / np.float32(k)) ** 2)

        gradients = ct.gradient(loss, ct.array(a, device="gpu"), ct.array(b, device="gpu"))
        for g, h in zip(
            gradients, ct.gradient(loss, a.astype(float), b.astype(float)), strict=True
        ):
            assert np.allclose(np.asarray(g), h, rtol=1e-4, atol=1e-5)

    def test_the_same_bits_in_each_run(self):
        rng = np.random.default_rng(4)
        a, b = (
            ct.array(rng.normal(size=s).astype("f4"), device="gpu") for s in [(9, 999), (999, 20)]
        )
        first = np.asarray(a @ b)
        for _ in range(3):
            assert np.array_equal(np.asarray(a @ b), first)

    def test_rounding(self):
        rng = np.random.default_rng(5)
        a, b = rng.normal(size=(40, 500)), rng.normal(size=(500, 70))
        for dtype, close in [("f4", 3e-5), ("f8", 1e-12)]:
            if np.dtype(dtype) in GPU.dtypes:
                found = there(np.matmul, a.astype(dtype), b.astype(dtype))
                assert np.allclose(found, a @ b, rtol=0, atol=close * 10)

    @pytest.mark.parametrize("filters", [1, 3, 8, 40])
    def test_convolutions(self, filters):
        x, k = whole(2, 3, 9, 11), whole(filters, 3, 3, 3, seed=1)

        def layer(x, k):
            return np.maximum(ct.conv(x, k, padding="same"), 0)

        assert np.array_equal(there(layer, x, k), np.asarray(layer(x, k)))

        def loss(x, k):
            return np.sum(layer(x, k) ** 2)

        gradients = ct.gradient(loss, ct.array(x, device="gpu"), ct.array(k, device="gpu"))
        for g, h in zip(gradients, ct.gradient(loss, x, k), strict=True):
            assert np.array_equal(np.asarray(g), h)


LONG = 70_000


class TestLongLoops:
    """Some drivers leave a loop after 65,535 rounds without a word."""

    def test_products(self):
        a, b = whole(2, LONG), whole(LONG, 3, seed=1)
        assert np.array_equal(there(np.matmul, a, b), a @ b)
        a, b = whole(300, LONG, seed=2), whole(LONG, 1, seed=3)
        assert np.array_equal(there(np.matmul, a, b), a @ b)

    def test_sums_and_extrema(self):
        x = whole(LONG, 40)
        for axis in [0, 1, None]:
            found = there(lambda x, axis=axis: np.sum(x, axis=axis), x)
            assert np.array_equal(found, np.sum(x, axis=axis))
        x[LONG - 1, 7] = 9
        for axis in [0, None]:
            found = there(lambda x, axis=axis: np.max(x, axis=axis), x)
            assert np.array_equal(found, np.max(x, axis=axis))

    def test_rows(self):
        x = whole(33, LONG)
        x[:, -1] = 9
        found = there(lambda x: x - np.max(x, axis=1, keepdims=True), x)
        assert np.array_equal(found, x - np.max(x, axis=1, keepdims=True))

    def test_places(self):
        skip_without(np.int64)
        x = whole(LONG, 33)
        x[LONG - 2] = 9
        assert np.array_equal(there(lambda x: np.argmax(x, axis=0), x), np.argmax(x, axis=0))

    def test_running_sums_and_products(self):
        x = whole(LONG, 20)
        found = there(lambda x: np.cumsum(x, axis=0), x)
        assert np.array_equal(found, np.cumsum(x, axis=0))
        signs = np.where(whole(70, LONG) > 0, 1, -1).astype(np.float32)
        found = np.asarray(np.cumprod(ct.array(signs, device="gpu"), axis=1))
        assert np.array_equal(found, np.cumprod(signs, axis=1))

    def test_updates_of_one_row(self):
        x, updates = np.zeros(5, np.float32), whole(LONG)
        index = np.full(LONG, 3)

        def taken(x):
            return np.sum(x[index] * updates)

        (g,) = ct.gradient(taken, ct.array(x, device="gpu"))
        assert np.array_equal(np.asarray(g), [0, 0, 0, np.sum(updates), 0])

    def test_windows(self):
        x = whole(1, 1, 270, 270)
        found = np.asarray(ct.max_pool(ct.array(x, device="gpu"), 270))
        assert np.array_equal(found, np.max(x, axis=(2, 3), keepdims=True))
        found = np.asarray(ct.avg_pool(ct.array(x, device="gpu"), 270)) * 270**2
        assert np.allclose(found, np.sum(x, axis=(2, 3)), atol=0.1)

    def test_convolutions(self):
        x, k = whole(1, 1, LONG + 1), whole(2, 1, LONG, seed=1)
        found = np.asarray(ct.conv(ct.array(x, device="gpu"), ct.array(k, device="gpu")))
        assert np.array_equal(found, np.asarray(ct.conv(x, k)))
