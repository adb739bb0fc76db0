"""Prepared functions notice whatever is written to the large arrays that they capture."""

import contextlib
import ctypes
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import cotan as ct

SIZE = 1 << 18

LAYOUTS = {
    "rows": lambda x: x.reshape(512, -1),
    "columns": lambda x: np.asfortranarray(x.reshape(512, -1)),
    "columns of a view": lambda x: x.reshape(-1, 512).T,
    "three axes": lambda x: np.asfortranarray(x.reshape(64, 2, -1)),
    "one axis": lambda x: x,
    "every second": lambda x: np.repeat(x, 2)[::2].reshape(512, -1),
    "backwards": lambda x: x[::-1].reshape(512, -1),
    "other bytes": lambda x: x.astype(x.dtype.newbyteorder()).reshape(512, -1),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(512, -1),
}


def by_ctypes(x, at):
    """Write past NumPy, to the memory."""
    address = x.ctypes.data + sum(i * s for i, s in zip(at, x.strides, strict=True))
    element = (ctypes.c_char * x.itemsize).from_address(address)
    element.raw = (x[at] * 2 + 1).astype(x.dtype).tobytes()


def by_item(x, at):
    x[at] = x[at] * 2 + 1


def by_view(x, at):
    view = x.view()[at[0] :]
    view[(0, *at[1:])] *= 2
    view[(0, *at[1:])] += 1


def by_ufunc(x, at):
    np.add(x[at], x[at] + 1, out=x[at[0] :][(slice(1), *at[1:])], casting="unsafe")


WAYS = {
    "an item": by_item,
    "a view": by_view,
    "out=": by_ufunc,
    "memory": by_ctypes,
}


def made(dtype, layout):
    x = np.arange(SIZE) % 97 + 1
    return LAYOUTS[layout](x.astype(dtype))


def of_elements(table):
    """Use a table in a product, so that the program reads it."""
    return lambda x: np.sum(table * x) / SIZE


def of_plain_numbers(table):
    """Use what NumPy computes of a table, so that only a guard knows of it."""
    return lambda x: x * float(np.abs(table).sum() / SIZE)


@pytest.mark.parametrize("made_of", [of_elements, of_plain_numbers])
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_what_is_written_between_calls_is_noticed(made_of, layout, data):
    dtype = data.draw(st.sampled_from(["f4", "f8", "i4", "i8", "c16"]))
    table = made(dtype, layout)
    f = made_of(table)
    prepared = ct.prepare(lambda x: abs(f(x)) if dtype == "c16" else f(x))

    def expect_right():
        wanted = ct.gradient(lambda x: abs(f(x)) if dtype == "c16" else f(x), 1.5)
        np.testing.assert_allclose(prepared(1.5), wanted, rtol=1e-6)

    expect_right()
    for _ in range(2):
        recorded = prepared.num_recordings
        expect_right()
        assert prepared.num_recordings == recorded, "nothing was written"
        at = tuple(data.draw(st.integers(0, n - 1)) for n in table.shape)
        way = "memory" if layout == "read-only" else data.draw(st.sampled_from(sorted(WAYS)))
        if way == "memory" and layout == "other bytes":
            way = "an item"
        WAYS[way](table, at)
        expect_right()
        assert prepared.num_recordings == recorded + 1


def test_truth_of_any_byte():
    table = np.ones(1 << 21, bool)
    prepared = ct.prepare(lambda x: x * table.sum())
    assert prepared(1.0) == (1 << 21,)
    table.view("u1")[5] = 3  # still true
    assert prepared(1.0) == (1 << 21,)
    assert prepared.num_recordings == 1
    table[7] = False
    assert prepared(1.0) == ((1 << 21) - 1,)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_another_shape_of_the_same_memory_is_noticed():
    table = np.arange(float(SIZE))
    prepared = ct.prepare(lambda x: np.sum(table[-1] * x))
    assert prepared(1.0) == (SIZE - 1,)
    table.shape = (2, -1)
    assert prepared(1.0) == (np.sum(table[-1]),)


def test_writes_of_another_thread():
    table = np.ones((512, 512))
    prepared = ct.prepare(lambda x: np.sum(table * x))
    prepared(1.0)
    with ThreadPoolExecutor(1) as pool:
        for at in range(30):
            written = pool.submit(by_item, table, (at, at))
            with contextlib.suppress(TypeError):  # where it is written while this is recorded
                prepared(1.0)
            written.result()
            assert prepared(1.0) == (table.sum(),)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_copy_is_kept_of_what_the_program_does_not_read():
    script = """
import numpy as np, cotan as ct
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
table = np.ones((1 << 25,))
prepared = ct.prepare(lambda x: x * float(table.sum()))
small = ct.prepare(lambda x: x * 2.0)
small(1.0)
before = resident()
prepared(1.0), prepared(1.0)
print(resident() - before)
"""
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(told.stdout) < 64 << 20  # of 256 MiB


@pytest.mark.parametrize("transform", ["value", "gradient", "value_and_gradient"])
def test_results_are_no_views_of_what_was_captured(transform):
    table = np.arange(float(SIZE))
    if transform == "value":
        prepared = ct.prepare(lambda x: (table * 1.0, table[::-1] + 0 * x, x), transform=transform)
    else:
        prepared = ct.prepare(lambda x: np.sum(table * x), transform=transform)
    x = np.ones(SIZE)
    for _ in range(2):
        results = [r for r in prepared(x) if isinstance(r, np.ndarray)]
    copies = [r.copy() for r in results]
    table[:] = -1
    for result, copy in zip(results, copies, strict=True):
        np.testing.assert_array_equal(result, copy)


def test_a_pullback_keeps_what_was_captured():
    table = np.arange(float(SIZE))
    prepared = ct.prepare(lambda x: table * x, transform="pullback")
    for _ in range(2):
        _, back = prepared(np.ones(SIZE))
    table[:] = -1
    np.testing.assert_array_equal(back(np.ones(SIZE))[0], np.arange(float(SIZE)))


def test_results_are_written_to_what_was_captured():
    table = np.arange(float(SIZE))
    expected = 2 * table + 1
    prepared = ct.prepare(lambda x: 2 * table + x, transform="value", out=table)
    np.testing.assert_array_equal(prepared(np.ones(SIZE)), expected)
    np.testing.assert_array_equal(prepared(np.ones(SIZE)), 2 * expected + 1)
