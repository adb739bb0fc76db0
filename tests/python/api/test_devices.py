"""Devices: names, arrays on them, and what they compute.

A machine without a driver for a GPU tests the processor only.
"""

import asyncio
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from gpu_cases import GPU, needs_gpu

import cotan as ct

X = np.linspace(-2.0, 2.0, 60, dtype=np.float32).reshape(5, 12)
W = np.linspace(0.5, -0.5, 36, dtype=np.float32).reshape(12, 3)


def loss(w, x):
    h = np.tanh(x @ w)
    return np.sum((h - np.mean(h, axis=0)) ** 2)


class TestNames:
    def test_the_processor_is_there(self):
        cpu = ct.device("cpu")
        assert cpu in ct.devices()
        assert (str(cpu), cpu.kind, repr(cpu)) == ("cpu", "cpu", "Device('cpu')")
        assert cpu == "cpu"
        assert {cpu: 1}["cpu"] == 1
        assert type(ct.array([1.0]).device) is ct.Device
        assert np.dtype(complex) in cpu.dtypes
        assert pickle.loads(pickle.dumps(cpu)) == cpu
        assert ct.array([1.0]).device == cpu

    @pytest.mark.parametrize("name", ["tpu", "cuda:0", "cpu:x", "gpu:x", ""])
    def test_what_is_no_name_says_why(self, name):
        with pytest.raises(ValueError, match=f'device "{name}": '):
            ct.device(name)

    @pytest.mark.parametrize("name", ["cpu:1", "gpu:99"])
    def test_what_is_not_there_says_why(self, name):
        with pytest.raises(RuntimeError, match=f'device "{name}": '):
            ct.device(name)

    def test_a_device_is_a_name(self):
        with pytest.raises(TypeError, match="a device is its name"):
            ct.device(3)

    def test_placing_on_the_processor_is_a_copy(self):
        x = ct.array([1.0, 2.0])
        y = x.to_device("cpu")
        assert y.tolist() == [1.0, 2.0]
        assert y.device == "cpu"

    def test_use_of_the_processor_changes_nothing(self):
        with ct.use("cpu"):
            (g,) = ct.gradient(lambda x: np.sum(x**2), X)
        assert isinstance(g, np.ndarray)
        assert np.array_equal(g, 2 * X)


@needs_gpu
class TestArrays:
    def test_there_and_back(self):
        for dtype in [np.float32, np.int32, bool, np.int8, np.uint16, np.uint8]:
            x = (np.arange(24).reshape(2, 3, 4) - 3).astype(dtype)
            y = ct.array(x, device="gpu")
            assert y.device == GPU
            assert y.dtype == x.dtype
            assert np.array_equal(np.asarray(y), x)
            assert np.array_equal(np.asarray(y.to_device("cpu")), x)
            assert np.array_equal(np.asarray(y.T[:, ::-1]), x.T[:, ::-1])

    def test_a_pending_array_knows_where_it_will_lie(self):
        y = ct.array(X, device="gpu") * 2 + 1
        assert not y.is_forced
        assert y.device == GPU
        assert np.allclose(np.asarray(y), X * 2 + 1)

    def test_structures(self):
        tree = ct.to_device({"w": W, "rate": 0.5, "name": "a"}, "gpu")
        assert tree["w"].device == GPU
        assert (tree["rate"], tree["name"]) == (0.5, "a")
        assert ct.to_device(tree, "gpu")["w"] is tree["w"]

    def test_a_dtype_that_it_does_not_have(self):
        with pytest.raises(RuntimeError, match="the device has no c128"):
            ct.array([1j], device="gpu")

    def test_two_devices_meet(self):
        a, b = ct.array(X, device="cpu"), ct.array(X, device="gpu")
        with pytest.raises(RuntimeError, match=r"add: .*cpu and gpu:0|add: .*gpu:0 and cpu"):
            np.asarray(a.to_device("cpu") + b)

    def test_pickles_come_back_on_the_processor(self):
        x = pickle.loads(pickle.dumps(ct.array(X, device="gpu")))
        assert np.array_equal(np.asarray(x), X)

    def test_branches_printing_and_items(self):
        x = ct.array([1.0, -2.0], dtype=np.float32, device="gpu")
        assert x[0] > 0
        assert float(x[1]) == -2.0
        assert "-2." in repr(x)


@needs_gpu
class TestGradients:
    def test_arrays_stay_where_they_are(self):
        w, x = ct.to_device((W, X), "gpu")
        value, grads = ct.value_and_gradient(loss, w, x)
        here = ct.gradient(loss, W, X)
        assert grads[0].device == GPU
        assert np.allclose(value, loss(W, X), rtol=1e-5)
        for g, h in zip(grads, here, strict=True):
            assert np.allclose(np.asarray(g), h, rtol=1e-4, atol=1e-5)

    def test_plain_code_in_a_block(self):
        with ct.profile() as work, ct.use("gpu"):
            grads = ct.gradient(loss, W, X)
        assert all(isinstance(g, np.ndarray) for g in grads)
        for g, h in zip(grads, ct.gradient(loss, W, X), strict=True):
            assert np.allclose(g, h, rtol=1e-4, atol=1e-5)
        assert not work.on_processor

    def test_pullbacks(self):
        y, back = ct.pullback(lambda w: np.tanh(ct.array(X) @ w), ct.array(W, device="gpu"))
        (g,) = back(np.ones((5, 3), np.float32))
        assert (y.device, g.device) == (GPU, GPU)
        _, back = ct.pullback(lambda w: np.tanh(X @ w), W)
        assert np.allclose(np.asarray(g), back(np.ones((5, 3), np.float32))[0], atol=1e-5)

    def test_prepared_functions(self):
        f = ct.prepare(ct.grad(loss), transform="value")
        w, x = ct.to_device((W, X), "gpu")
        here = f(W, X)
        for _ in range(3):
            there = f(w, x)
            assert there.device == GPU
            assert np.allclose(np.asarray(there), here, rtol=1e-4, atol=1e-5)
        with ct.use("gpu"):
            assert np.allclose(f(W, X), here, rtol=1e-4, atol=1e-5)

    def test_what_has_no_kernel_is_counted(self):
        x = ct.array(X, device="gpu")
        with ct.profile() as work:
            y = np.asarray(np.argsort(x, axis=1))
        assert np.array_equal(y, np.argsort(X, axis=1))
        assert work.on_processor["argsort"] == 1

    def test_scatter_has_the_same_bits(self):
        index = np.random.default_rng(0).integers(0, 7, 4000)
        x = np.random.default_rng(1).normal(size=(7, 5)).astype(np.float32)
        w = np.random.default_rng(2).normal(size=(4000, 5)).astype(np.float32)

        def f(x):
            return np.sum(x[index] * w)

        there = [np.asarray(ct.gradient(f, ct.array(x, device="gpu"))[0]) for _ in range(3)]
        assert all(np.array_equal(there[0], t) for t in there)
        assert np.allclose(there[0], ct.gradient(f, x)[0], rtol=1e-4, atol=1e-3)

    def test_no_index_out_of_range(self):
        with pytest.raises(IndexError):
            ct.array(X, device="gpu")[np.array([0, 9])].force()

    @pytest.mark.parametrize("shape", [(1000, 300), (3, 70_000), (200_000,), (70, 3, 50)])
    def test_reductions(self, shape):
        x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
        y = ct.array(x, device="gpu")
        for axis in [None, *range(len(shape))]:
            for name in ["sum", "max", "min"]:
                here = getattr(np, name)(x.astype(float), axis=axis)
                there = np.asarray(getattr(np, name)(y, axis=axis))
                assert np.allclose(there, here, rtol=1e-4, atol=2e-2), (name, axis)

    def test_products(self):
        rng = np.random.default_rng(4)
        for a, b in [
            ((70, 65), (65, 130)),
            ((3, 5, 7), (7, 2)),
            ((2, 1, 9, 4), (5, 4, 9)),
            ((1, 200), (200, 1)),
        ]:
            x, y = rng.normal(size=a).astype(np.float32), rng.normal(size=b).astype(np.float32)
            there = np.asarray(ct.array(x, device="gpu") @ ct.array(y, device="gpu"))
            assert np.allclose(there, x @ y, atol=1e-4)
        x = rng.normal(size=(30, 40)).astype(np.float32)
        assert np.allclose(np.asarray(ct.array(x, device="gpu").T @ x), x.T @ x, atol=1e-4)


def on_both(function, *args):
    """The results on the GPU, none of it computed on the processor, and those of NumPy."""
    with ct.profile() as work:
        there = np.asarray(function(*(ct.array(a, device="gpu") for a in args)))
    assert not work.on_processor
    return there, function(*args)


@needs_gpu
class TestKernels:
    @pytest.mark.parametrize("shape", [(7,), (5000, 3), (9, 2, 40), (2, 300_000)])
    @pytest.mark.parametrize("dtype", [np.float32, np.int32])
    def test_running_sums(self, shape, dtype):
        x = np.random.default_rng(5).integers(-9, 9, shape).astype(dtype)
        for axis in range(len(shape)):
            # Sums of whole numbers that float32 holds have no rounding.
            there, here = on_both(lambda x, axis=axis: np.cumsum(x, axis=axis, dtype=dtype), x)
            assert np.array_equal(there, here)
            there, here = on_both(lambda x, axis=axis: np.maximum.accumulate(x, axis=axis), x)
            assert np.array_equal(there, here)
        x = x.astype(np.float32)
        (g,) = ct.gradient(lambda x: np.sum(np.cumsum(x, axis=-1) * x), ct.array(x, device="gpu"))
        (h,) = ct.gradient(lambda x: np.sum(np.cumsum(x, axis=-1) * x), x)
        assert np.allclose(np.asarray(g), h, rtol=1e-5)

    @pytest.mark.parametrize("function", [np.sin, np.cos])
    def test_angles_of_any_size(self, function):
        x = np.random.default_rng(20).normal(size=4000) * np.logspace(-3, 38, 4000)
        x = x.astype(np.float32)
        x = np.concatenate([x, np.float32([8192, 8192.001, 1e5, 3.4e38, -3.4e38, np.inf, np.nan])])
        with np.errstate(invalid="ignore"):
            there, _ = on_both(function, x)
            assert np.allclose(there, function(x.astype(float)), atol=1e-6, equal_nan=True)

    @pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8, bool])
    def test_four_neighbours_at_a_time(self, dtype):
        if np.dtype(dtype) not in GPU.dtypes:
            pytest.skip("the GPU has no such dtype")
        whole = np.random.default_rng(21).integers(0, 3, (70, 64)).astype(dtype)
        row, column, one = whole[0], whole[:, :1], whole[3, 5]
        views = {
            "all": lambda x: x,
            "later": lambda x: x[1:],
            "not aligned": lambda x: x.reshape(-1)[1:-1],
            "two left over": lambda x: x.reshape(-1)[:-2],
            "every second": lambda x: x[:, ::2],
            "backwards": lambda x: x[::-1],
            "narrow": lambda x: x[:, 4:60],
            "narrow, not aligned": lambda x: x[:, 3:59],
            "turned": lambda x: x.T,
        }
        for name, view in views.items():
            there, here = on_both(lambda x, v=view: np.where(v(x) > one, v(x) * v(x), one), whole)
            assert there.dtype == here.dtype
            assert np.array_equal(there, here), name
        for other in [row, column, one]:
            there, here = on_both(lambda x, y: np.maximum(x * y, y) == x, whole, other)
            assert np.array_equal(there, here)
        there, here = on_both(lambda x: np.maximum(x, x[0, 1]) == x[:, 7:8], whole)
        assert np.array_equal(there, here)

    @pytest.mark.parametrize("shape", [(100_000,), (8, 2048), (3, 2050), (2, 40_000)])
    def test_elements_that_are_written_while_they_are_added(self, shape):
        x, c = np.random.default_rng(22).normal(size=(2, *shape)).astype(np.float32)

        def f(x):
            return np.sum(np.sin(x) * np.cos(c), axis=-1)

        def squares(x):
            return np.sum(f(x) ** 2)

        for function, close in [(lambda x: np.sum(f(x)), 1e-5), (squares, 1e-3)]:
            y = ct.array(x, device="gpu")
            value, (g,) = ct.value_and_gradient(function, y)
            wanted, (h,) = ct.value_and_gradient(function, x.astype(float))
            assert float(value) == pytest.approx(float(wanted), rel=1e-3, abs=1e-2)
            assert np.allclose(np.asarray(g), h, rtol=close, atol=close)
            again, _ = ct.value_and_gradient(function, y)
            assert float(again) == float(value)

    def test_running_extrema_keep_nan(self):
        x = np.ones((4, 3000), np.float32)
        x[1, 1500], x[2, :2] = np.nan, [np.inf, -np.inf]
        there, here = on_both(lambda x: np.maximum.accumulate(x, axis=1), x)
        assert np.array_equal(there, here, equal_nan=True)

    def test_running_products(self):
        x = np.random.default_rng(6).uniform(0.9, 1.1, (40, 70)).astype(np.float32)
        x[3, 20] = 0
        there, here = on_both(lambda x: np.cumprod(x, axis=1), x)
        assert np.allclose(there, here, rtol=1e-4)

    @pytest.mark.parametrize("shape", [(5,), (3000,), (6, 700), (700, 6), (4, 5, 50)])
    def test_places(self, shape):
        x = np.random.default_rng(7).integers(0, 40, shape).astype(np.float32)
        x.flat[len(x) // 2] = np.nan
        for axis in range(len(shape)):
            for function in [np.argmax, np.argmin]:
                there, here = on_both(lambda x, f=function, a=axis: f(x, axis=a), x)
                assert np.array_equal(there, here)

    @pytest.mark.parametrize(
        ("a", "b"),
        [
            ((300, 200), (200, 260)),
            ((2100, 130), (130, 1500)),
            ((40, 5000), (5000, 24)),
            ((300, 70), (70, 3)),
            ((3, 70), (70, 300)),
            ((8, 33, 65), (8, 65, 31)),
        ],
    )
    def test_tiles(self, a, b):
        rng = np.random.default_rng(8)
        x, y = (rng.integers(-3, 4, s).astype(np.float32) for s in (a, b))
        there, here = on_both(lambda x, y: x @ y, x, y)
        assert np.array_equal(there, here)
        there, here = on_both(lambda x, y: np.maximum(x @ y - 2, 0), x, y)
        assert np.array_equal(there, here)

    def test_a_product_and_what_reads_it(self):
        rng = np.random.default_rng(9)
        x, w, b = (rng.normal(size=s).astype(np.float32) for s in [(70, 900), (900, 33), (33,)])
        there, here = on_both(lambda x, w, b: np.tanh(x @ w / 30 + b), x, w, b)
        assert np.allclose(there, here, atol=1e-5)

        def read_twice(x, w):
            h = x @ w
            return h * h + np.sum(h)

        there, here = on_both(read_twice, x, w)
        assert np.allclose(there, here, rtol=1e-3)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_a_factor_of_one_element_in_each_run(self, dtype):
        if np.dtype(dtype) not in GPU.dtypes:
            pytest.skip("the GPU has no such dtype")
        rng = np.random.default_rng(23)
        x, y, w = (rng.normal(size=s).astype(dtype) for s in [(1, 4), (4, 1), (1, 1)])
        for _ in range(3):
            with ct.use("gpu"):
                grads = ct.gradient(lambda x, y: ct.sum(ct.mul(x @ y, w)), x, y)
            for g, h in zip(grads, (w * y.T, w * x.T), strict=True):
                assert np.allclose(g, h, rtol=1e-6)

    def test_float16_products(self):
        if np.dtype(np.float16) not in GPU.dtypes:
            pytest.skip("the GPU has no float16")
        x, y = np.random.default_rng(10).normal(size=(2, 65, 65)).astype(np.float16)
        there, here = on_both(lambda x, y: x @ y, x, y)
        assert there.dtype == np.float16
        assert np.allclose(there, here, atol=5e-2)

    @pytest.mark.parametrize("channels", [1, 3, 20])
    @pytest.mark.parametrize("stride", [1, 2])
    def test_convolutions(self, channels, stride):
        rng = np.random.default_rng(11)
        x = rng.normal(size=(4, 3, 14, 15)).astype(np.float32)
        k = rng.normal(size=(channels, 3, 3, 4)).astype(np.float32)

        def f(x, k):
            y = ct.conv(x, k, strides=stride, padding="same")
            return np.sum(np.tanh(ct.max_pool(y, 2)) + ct.avg_pool(y, 2) ** 2)

        with ct.profile() as work:
            there = ct.gradient(f, ct.array(x, device="gpu"), ct.array(k, device="gpu"))
            there = [np.asarray(g) for g in there]
        assert not work.on_processor
        for g, h in zip(there, ct.gradient(f, x, k), strict=True):
            assert np.allclose(g, h, rtol=1e-4, atol=1e-4)


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def layer_norm(x):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + np.float32(1e-5))


@needs_gpu
class TestRows:
    """Groups that reduce rows and compute with the result, which one kernel takes."""

    @pytest.mark.parametrize("shape", [(40, 7), (33, 64), (40, 1000), (3, 5, 300), (200,), (2, 9)])
    @pytest.mark.parametrize("function", [softmax, layer_norm])
    def test_results_and_gradients(self, function, shape):
        rng = np.random.default_rng(12)
        x, w = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
        there, here = on_both(function, x)
        assert np.allclose(there, here, rtol=1e-4, atol=1e-5)

        def loss(x):
            return np.sum(function(x) * w)

        (g,) = ct.gradient(loss, ct.array(x, device="gpu"))
        (h,) = ct.gradient(loss, x.astype(float))
        assert np.allclose(np.asarray(g), h, rtol=1e-3, atol=1e-4)

    def test_the_same_bits_in_each_run(self):
        x = np.random.default_rng(13).normal(size=(50, 777)).astype(np.float32)
        first = np.asarray(softmax(ct.array(x, device="gpu")))
        for _ in range(3):
            assert np.array_equal(np.asarray(softmax(ct.array(x, device="gpu"))), first)

    def test_what_another_row_has(self):
        rng = np.random.default_rng(14)
        x = rng.integers(-5, 6, (48, 48)).astype(np.float32)

        def turned(x):
            y = x - np.max(x, axis=1, keepdims=True)
            total = np.sum(y, axis=1)
            return y.T * 2 + y, total[::-1], y - total, np.sum(y * total[:, None], axis=1)

        for there, here in zip(
            [np.asarray(r) for r in turned(ct.array(x, device="gpu"))], turned(x), strict=True
        ):
            assert np.array_equal(there, here)

        def together(x):
            return sum(np.sum(r) for r in turned(x))

        (g,) = ct.gradient(together, ct.array(x, device="gpu"))
        assert np.allclose(np.asarray(g), ct.gradient(together, x)[0], rtol=1e-4)

    def test_layouts_of_rows(self):
        x = np.random.default_rng(15).normal(size=(70, 90)).astype(np.float32)
        for view in [lambda x: x.T, lambda x: x[::-1, ::2], lambda x: x[:1], lambda x: x[:, :1]]:
            there, here = on_both(lambda x, v=view: softmax(v(x)), x)
            assert np.allclose(there, here, rtol=1e-4, atol=1e-6)

    def test_rows_of_other_dtypes(self):
        x = np.random.default_rng(16).integers(-90, 90, (40, 100))
        for dtype in [np.int32, np.int8, np.uint16, np.float16]:
            if np.dtype(dtype) not in GPU.dtypes:
                continue
            y = x.astype(dtype)
            there, here = on_both(lambda x: x - np.max(x, axis=1, keepdims=True), y)
            assert np.array_equal(there, here)
            there, here = on_both(lambda x: np.any(x > np.min(x, axis=1)[:, None], axis=1), y)
            assert np.array_equal(there, here)

    def test_all_kinds_at_once(self):
        x = np.random.default_rng(17).normal(size=(64, 200)).astype(np.float32)
        x[3, 5], x[4] = np.nan, -np.inf

        def f(x):
            low, high = np.min(x, axis=1, keepdims=True), np.max(x, axis=1, keepdims=True)
            y = (x - low) / (high - low)
            return np.concatenate([y, low, high, np.prod(y + 0.5, axis=1, keepdims=True)], axis=1)

        with np.errstate(all="ignore"):
            there, here = on_both(f, x)
        assert np.allclose(there, here, rtol=1e-3, atol=1e-6, equal_nan=True)


@needs_gpu
class TestLoops:
    """Loops are one equation, which the processor computes."""

    def test_a_scan(self):
        def loss(w, u, xs):
            def step(carry, x):
                h = np.tanh(w @ carry + x)
                return h, np.sum(h**2)

            last, ys = ct.scan(step, u, xs, rolled=True)
            return np.sum(last) + np.mean(np.exp(ys) * 2)

        rng = np.random.default_rng(18)
        args = [rng.normal(size=s).astype(np.float32) / 3 for s in [(4, 4), (4,), (40, 4)]]
        with ct.profile() as work:
            value, grads = ct.value_and_gradient(loss, *ct.to_device(args, "gpu"))
            grads = [np.asarray(g) for g in grads]
        assert work.on_processor["loop"] >= 1
        wanted, here = ct.value_and_gradient(loss, *args)
        assert float(value) == pytest.approx(float(wanted), rel=1e-5)
        for g, h in zip(grads, here, strict=True):
            assert np.allclose(g, h, rtol=1e-4, atol=1e-5)

    def test_a_loop_between_kernels(self):
        def f(x):
            y = np.exp(x) @ x
            z = ct.fori_loop(0, 50, lambda i, y: y * np.float32(0.9) + 1, y, rolled=True)
            return np.tanh(z) @ x, z[0]

        x = np.random.default_rng(19).normal(size=(6, 6)).astype(np.float32)
        there = f(ct.array(x, device="gpu"))
        assert all(t.device == GPU for t in there)
        for t, h in zip(there, f(x), strict=True):
            assert np.allclose(np.asarray(t), h, rtol=1e-4, atol=1e-5)

    def test_machine_code(self):
        code = """
            import numpy as np, cotan as ct

            def f(x):
                a, b = x[0], x[1]
                for _ in range(60):
                    a, b = a + 0.1 * np.sin(b), b * np.float32(0.9) - 0.1 * a
                return a * b + np.sum(x**2)

            g = ct.prepare(ct.value_and_grad(f), transform="value")
            x = np.array([0.3, -0.2, 1.0], np.float32)
            y = ct.array(x, device="gpu")
            for _ in range(4):
                here, there = g(x), g(y)
                assert there[1].device == "gpu:0"
                assert np.allclose(float(there[0]), float(here[0]), rtol=1e-4)
                assert np.allclose(np.asarray(there[1]), np.asarray(here[1]), rtol=1e-4, atol=1e-5)
        """
        for setting in ["always", "0"]:
            _runs(code, COTAN_MACHINE_CODE=setting)


@needs_gpu
class TestBlocks:
    def test_a_block_is_of_its_context(self):
        async def inside():
            with ct.use("gpu"):
                await asyncio.sleep(0.01)
                return ct.array(X).device

        async def outside():
            await asyncio.sleep(0.005)
            return ct.array(X).device

        async def both():
            return await asyncio.gather(inside(), outside())

        assert asyncio.run(both()) == [GPU, "cpu"]

    def test_a_function_that_is_called_back_uses_the_device(self):
        @ct.adjoint(opaque=True)
        def f(x):
            y = ct.array(np.asarray(x), device="gpu") * 2
            return np.asarray(y), lambda d: 2 * d

        (g,) = ct.gradient(lambda x: np.sum(f(x * 3)), ct.array(X, device="gpu"))
        assert np.allclose(np.asarray(g), 6)


def _runs(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
