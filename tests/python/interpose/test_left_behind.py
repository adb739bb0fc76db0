"""What a recording leaves behind without a derivative serves wherever an ndarray would."""

import ctypes
import functools
import io
import os
import pickle
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import cotan as ct


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_a_cache_keeps_serves_wherever_memory_is_wanted():
    @functools.lru_cache
    def nodes(n):
        return np.linspace(0.0, 1.0, n)

    assert ct.gradient(lambda x: np.sum(nodes(3) * x), 2.0) == (1.5,)
    kept, plain = nodes(3), np.linspace(0.0, 1.0, 3)
    assert bytes(kept) == bytes(plain) and memoryview(kept).tolist() == plain.tolist()
    assert kept.__array_interface__["shape"] == (3,)
    assert np.frombuffer(memoryview(kept)).tolist() == plain.tolist()
    assert np.from_dlpack(kept).tolist() == plain.tolist()
    loaded = pickle.loads(pickle.dumps(kept))
    assert type(loaded) is np.ndarray and loaded.tolist() == plain.tolist()


def test_pickles_of_what_a_cache_keeps_need_no_cotan(tmp_path):
    path = tmp_path / "cache.pickle"
    run(
        f"""
        import functools, math, pickle, numpy as np, cotan as ct
        from collections import defaultdict

        CACHE = {{}}

        @functools.lru_cache
        def nodes(n):
            return np.linspace(0.0, 1.0, n)

        def f(x):
            CACHE["zeros"] = np.zeros((2, 3))
            CACHE["filled"] = np.array([1.0, 2.0])
            CACHE["filled"][0] = 5.0
            CACHE["nodes"] = nodes(4)
            CACHE["functions"] = [np.zeros, math.sin, np.mean, float]
            CACHE["counts"] = defaultdict(float)
            CACHE["counts"]["a"] += 1.0
            CACHE["type"] = np.float64
            return x * CACHE["filled"].sum()

        assert ct.gradient(f, 1.0) == (7.0,)
        with open({str(path)!r}, "wb") as file:
            pickle.dump(CACHE, file)
        """
    )
    run(
        f"""
        import math, pickle, sys
        sys.modules["cotan"] = None
        with open({str(path)!r}, "rb") as file:
            cache = pickle.load(file)
        import numpy as np
        assert type(cache["zeros"]) is np.ndarray and cache["zeros"].shape == (2, 3)
        assert cache["filled"].tolist() == [5.0, 2.0]
        assert np.array_equal(cache["nodes"], np.linspace(0.0, 1.0, 4))
        assert cache["functions"] == [np.zeros, math.sin, np.mean, float]
        assert cache["counts"]["b"] == 0.0 and cache["type"] is np.float64
        """
    )


def left_by(make, x=2.0):
    """Give what a function makes while a gradient is recorded; it may compute with constants."""
    kept = []

    def f(x):
        kept.append(make())
        return x * x

    assert ct.gradient(f, x) == (2.0 * x,)
    return kept[0]


COMPUTED = {
    "scaled": lambda: np.linspace(0.0, 1.0, 6) * 2,
    "shape": lambda: np.linspace(0.0, 1.0, 6).reshape(2, 3) + 1.0,
    "view": lambda: (np.linspace(0.0, 1.0, 6) * 2)[1:5:2],
    "transposed": lambda: (np.ones((2, 3)) * np.arange(3.0)).T,
    "function": lambda: np.sin(np.linspace(0.0, 1.0, 4)),
    "single": lambda: (np.ones(3) * 0.1).astype(np.float32),
    "half": lambda: (np.ones(3) * 0.1).astype(np.float16),
    "complex": lambda: np.exp(1j * np.linspace(0.0, 1.0, 4)),
    "mask": lambda: np.linspace(0.0, 1.0, 4) > 0.5,
    "indices": lambda: np.argsort(-np.linspace(0.0, 1.0, 4)),
    "empty": lambda: np.linspace(0.0, 1.0, 4)[:0] * 2,
    "scalar": lambda: np.sum(np.linspace(0.0, 1.0, 4)),
    "constant argument": lambda: None,
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_was_computed_serves_wherever_memory_is_wanted(name):
    if name == "constant argument":
        kept = []
        ct.gradient(lambda x, c: (kept.append(c * 2 + 1), x)[1], 1.0, ct.const(np.arange(3.0)))
        left, plain = kept[0], np.arange(3.0) * 2 + 1
    else:
        left, plain = left_by(COMPUTED[name]), COMPUTED[name]()
    expected = np.asarray(plain)
    if name != "scalar":
        assert type(left) in {ct.Array, np.ndarray}
    view = memoryview(left)
    assert np.asarray(view).tolist() == expected.tolist() and view.shape == expected.shape
    assert view.format == memoryview(plain).format
    assert bytes(left) == bytes(plain)
    assert left.__array_interface__["typestr"] == expected.dtype.str
    read = np.asarray(left)
    assert read.dtype == expected.dtype and np.array_equal(read, expected)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        loaded = pickle.loads(pickle.dumps(left, protocol))
        assert type(loaded) is type(plain) and loaded.dtype == plain.dtype
        assert np.array_equal(loaded, plain)
    if name != "scalar":
        assert np.array_equal(np.from_dlpack(left), expected)
        assert left.ctypes.shape[:] == list(expected.shape)


def test_views_that_are_made_later_serve_like_the_array():
    left = left_by(lambda: np.linspace(0.0, 1.0, 5) * 2)
    part = left[1::2]
    assert bytes(part) == np.array([0.5, 1.5]).tobytes()
    assert type(pickle.loads(pickle.dumps(part))) is np.ndarray
    assert np.lib.stride_tricks.as_strided(left, (4, 2), (8, 8)).tolist()[3] == [1.5, 2.0]


def test_compiled_code_reads_the_memory_of_what_was_computed():
    left = left_by(lambda: np.linspace(0.0, 1.0, 5) * 2)
    described = left.ctypes
    pointer = described.data_as(ctypes.POINTER(ctypes.c_double))
    assert [pointer[k] for k in range(5)] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert struct.unpack("5d", left) == (0.0, 0.5, 1.0, 1.5, 2.0)
    file = io.BytesIO()
    file.write(left)
    assert np.frombuffer(file.getvalue()).tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]


def test_what_was_computed_in_bfloat16_has_no_buffer_and_keeps_its_dtype():
    dtypes = pytest.importorskip("ml_dtypes")
    left = left_by(lambda: np.ones(3).astype(dtypes.bfloat16) * 2)
    assert isinstance(left, ct.Array)
    with pytest.raises(TypeError, match="use numpy.asarray"):
        memoryview(left)
    assert np.asarray(left).dtype == dtypes.bfloat16 and np.asarray(left).tolist() == [2.0] * 3


def test_active_arrays_and_those_of_a_prepared_function_show_no_memory():
    def f(x):
        with pytest.raises(ct.NotDifferentiableError, match="drop the gradient"):
            memoryview(x * 2)
        assert not hasattr(x, "__array_interface__")
        return np.sum(x)

    assert ct.gradient(f, np.ones(2))[0].tolist() == [1.0, 1.0]

    def looks(x):
        return np.sum(x) * len(bytes(ct.dropgrad(x) * 2))

    with pytest.raises(TypeError, match="memory|replay"):
        ct.prepare(looks)(np.ones(2))


def test_an_array_that_was_made_outside_of_a_recording_is_pickled_as_one():
    x = ct.array([1.0, 2.0]) * 2
    loaded = pickle.loads(pickle.dumps(x))
    assert type(loaded) is ct.Array and loaded.tolist() == [2.0, 4.0]
    assert memoryview(x).tobytes() == np.array([2.0, 4.0]).tobytes()


def test_pickles_of_what_was_computed_need_no_cotan(tmp_path):
    path = tmp_path / "cache.pickle"
    run(
        f"""
        import pickle, numpy as np, cotan as ct

        CACHE = {{}}

        def f(x):
            CACHE["scaled"] = np.linspace(0, 1, 5) * 2
            CACHE["sum"] = CACHE["scaled"].sum()
            CACHE["number"] = ct.dropgrad(x) * 3
            CACHE["mask"] = CACHE["scaled"] > 1
            return x * 2

        assert ct.gradient(f, 2.0) == (2.0,)
        with open({str(path)!r}, "wb") as file:
            pickle.dump(CACHE, file)
        """
    )
    run(
        f"""
        import pickle, sys
        sys.modules["cotan"] = None
        with open({str(path)!r}, "rb") as file:
            cache = pickle.load(file)
        import numpy as np
        assert type(cache["scaled"]) is np.ndarray and cache["scaled"][-1] == 2.0
        assert type(cache["sum"]) is np.float64 and cache["sum"] == 5.0
        assert type(cache["number"]) is float and cache["number"] == 6.0
        assert cache["mask"].tolist() == [False, False, False, True, True]
        """
    )
