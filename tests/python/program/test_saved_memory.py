"""What saving and loading does with memory: what is copied, shared, aligned and mapped."""

import copy
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from test_saved import CASES, expect_same, rows

import cotan as ct


def large(shape=(600, 300)):
    return ct.pullback(lambda a, b: a @ b, rows(*shape), rows(*shape[::-1]))


def address(buffer):
    return np.frombuffer(buffer, np.uint8).ctypes.data


def out_of_band(saved):
    buffers = []
    return pickle.dumps(saved, 5, buffer_callback=buffers.append), buffers


def test_out_of_band_nothing_is_copied():
    _, back = large()
    assert back.nbytes > 2 << 20
    tracemalloc.start()
    data, buffers = out_of_band(back)
    tracemalloc.stop()
    assert len(data) < 10_000
    assert sum(b.raw().nbytes for b in buffers) == back.nbytes
    assert all(b.raw().readonly for b in buffers)
    # The buffers are the memory of the pullback itself: they are where they were.
    assert [address(b) for b in out_of_band(back)[1]] == [address(b) for b in buffers]
    # And what is made of them uses it, too.
    again = pickle.loads(data, buffers=buffers)
    assert [address(b) for b in out_of_band(again)[1]] == [address(b) for b in buffers]
    dy = rows(600, 600)
    expected = back(dy)
    del back
    expect_same(again(dy), expected)


def test_pickling_allocates_little():
    _, back = large()
    out_of_band(back)
    tracemalloc.start()
    out_of_band(back)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 18


def test_memory_that_may_change_is_copied():
    _, back = large()
    restore, (head, buffers, outline) = back.__reduce_ex__(5)
    mutable = [bytearray(b) for b in buffers]
    again = restore(head, mutable, outline)
    for buffer in mutable:
        buffer[:] = bytes(len(buffer))
    dy = rows(600, 600)
    expect_same(again(dy), back(dy))


def test_what_is_shared_is_stored_once(tmp_path):
    x = rows(200, 200)
    _, back = ct.pullback(lambda x: [np.exp(x), np.exp(x) * 2.0, x @ x], x)
    back.save(tmp_path / "back")
    assert (tmp_path / "back").stat().st_size < back.nbytes + 5000
    # A hundred equal rows are one.
    _, back = ct.pullback(
        lambda a, b: np.broadcast_to(b, (1000, 100)) * a, rows(1000, 100), rows(100)
    )
    back.save(tmp_path / "back")
    assert (tmp_path / "back").stat().st_size < rows(1000, 100).nbytes + 10_000


def test_arrays_of_a_file_are_aligned(tmp_path):
    _, back = large((300, 200))
    back.save(tmp_path / "back")
    contents = (tmp_path / "back").read_bytes()
    assert contents.index(rows(300, 200).tobytes()) % 64 == 0


def test_a_mapped_file_is_used_where_it_is(tmp_path):
    _, back = large()
    back.save(tmp_path / "back")
    again = ct.load(tmp_path / "back", mmap=True)
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert str(tmp_path / "back") in maps.read_text()
    # It outlives its name, and a newer file in its place.
    CASES["product"]()[1].save(tmp_path / "back")
    dy = rows(600, 600)
    expect_same(again(dy), back(dy))


@pytest.mark.parametrize(
    "dtype",
    [*"?bBhHiIqQ", "float16", "float32", "float64", "complex64"],
)
@pytest.mark.parametrize("shape", [(), (0, 2), (3,), (70, 80)])
def test_arrays(dtype, shape):
    plain = (rows(*shape) * 2).astype(dtype)
    array = ct.array(plain)
    for protocol in (2, 5):
        again = pickle.loads(pickle.dumps(array, protocol))
        assert isinstance(again, ct.Array)
        assert again._rank == array._rank
        np.testing.assert_array_equal(np.asarray(again), plain)
        assert again.dtype == plain.dtype


def test_lazy_arrays_are_computed():
    lazy = np.exp(ct.array(rows(3)))
    assert not lazy.is_forced
    again = pickle.loads(pickle.dumps(lazy))
    np.testing.assert_array_equal(again, np.asarray(lazy))
    # A written one is a copy, not an alias.
    again[0] = 5.0
    assert float(lazy[0]) != 5.0
    assert pickle.loads(pickle.dumps(ct.array(rows(3))[1]))._rank == "scalar"


def test_arrays_out_of_band():
    array = ct.array(rows(300, 300))
    data, (buffer,) = out_of_band(array)
    assert len(data) < 1000
    assert address(out_of_band(pickle.loads(data, buffers=[buffer]))[1][0]) == address(buffer)
    turned = pickle.loads(pickle.dumps(array.T))
    np.testing.assert_array_equal(turned, rows(300, 300).T)


def test_bfloat16():
    ml = pytest.importorskip("ml_dtypes")
    plain = rows(4).astype(ml.bfloat16)
    _, back = ct.pullback(lambda x: np.exp(x) * x, plain)
    expect_same(pickle.loads(pickle.dumps(back))(plain), back(plain))


def test_constants_among_arguments():
    held = pickle.loads(pickle.dumps(ct.const(np.arange(3.0))))
    again = copy.deepcopy(held)
    for c in (held, again):
        assert ct.gradient(lambda x, c: np.sum(x * c), 2.0, c) == (3.0, None)


def test_an_active_array_is_refused():
    def f(x):
        return pickle.loads(pickle.dumps(x)) * x

    with pytest.raises(TypeError, match="dropgrad"):
        ct.gradient(f, 2.0)
