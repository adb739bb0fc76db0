"""Other code that writes to the memory of a constant array, and the array, see each other."""

import array
import ctypes
import io
import struct
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cotan as ct


@pytest.fixture(params=["recorded", "plain"])
def made(request):
    """Make arrays in a recording, or NumPy's: both have to behave alike."""
    kept = []

    def f(x):
        kept.extend(np.zeros(4) for _ in range(3))
        kept.append(np.arange(12.0).reshape(3, 4) * 2)
        return x

    if request.param == "recorded":
        ct.gradient(f, 1.0)
        assert all(type(a) is ct.Array for a in kept)
    else:
        f(1.0)
    return kept


FILLS = {
    "memoryview": lambda a: memoryview(a).__setitem__(1, 5.0),
    "data": lambda a: a.data.__setitem__(1, 5.0),
    "readinto": lambda a: io.BytesIO(struct.pack("2d", 0.0, 5.0)).readinto(a),
    "pack_into": lambda a: struct.pack_into("d", a, 8, 5.0),
    "frombuffer": lambda a: np.frombuffer(a).__setitem__(1, 5.0),
    "ndarray": lambda a: np.ndarray((4,), buffer=a).__setitem__(1, 5.0),
    "from_buffer": lambda a: (ctypes.c_double * 4).from_buffer(a).__setitem__(1, 5.0),
    "pointer": lambda a: a.ctypes.data_as(ctypes.POINTER(ctypes.c_double)).__setitem__(1, 5.0),
    "address": lambda a: ctypes.memmove(a.ctypes.data + 8, struct.pack("d", 5.0), 8),
    "interface": lambda a: ctypes.memmove(
        a.__array_interface__["data"][0] + 8, struct.pack("d", 5.0), 8
    ),
    "as_ctypes": lambda a: np.ctypeslib.as_ctypes(a).__setitem__(1, 5.0),
}


@pytest.mark.parametrize("name", FILLS)
def test_what_other_code_writes_is_read(made, name):
    a = made[0]
    FILLS[name](a)
    assert a.tolist() == [0.0, 5.0, 0.0, 0.0]
    assert a[1] == 5.0 and np.sum(a) == 5.0
    a[2] = 1.0
    FILLS[name](a)
    assert a.tolist() == [0.0, 5.0, 1.0, 0.0]


@pytest.mark.parametrize("name", FILLS)
def test_what_is_filled_in_a_recording_counts_in_the_gradient(name):
    def f(x):
        a = np.zeros(4)
        a[3] = 2.0
        FILLS[name](a)
        a[0] = x
        return np.sum(a * a * x)

    assert ct.value_and_gradient(f, 3.0) == (3.0 * (9 + 25 + 4), (27.0 + 25 + 4,))


def test_a_view_of_the_memory_sees_what_is_written_to_the_array(made):
    a = made[0]
    view = memoryview(a)
    a[1] = 3.0
    a += 1.0
    a[2:] = [7.0, 8.0]
    assert view.tolist() == [1.0, 4.0, 7.0, 8.0]
    view[0] = -1.0
    b = a * 2
    view[0] = -2.0
    assert b.tolist() == [-2.0, 8.0, 14.0, 16.0] and a[0] == -2.0
    a.sort()
    assert view.tolist() == [-2.0, 4.0, 7.0, 8.0]


def test_views_of_an_array_share_its_memory(made):
    a = made[3]
    part = a[1:, ::2]
    view = memoryview(part)
    assert view.shape == (2, 2) and view.tolist() == part.tolist() == [[8.0, 12.0], [16.0, 20.0]]
    view[1, 0] = -1.0
    assert a[2, 0] == -1.0 and part[1, 0] == -1.0
    a[1, 2] = -2.0
    assert view[0, 1] == -2.0
    turned = memoryview(a.T)
    assert turned.shape == (4, 3) and turned[0, 2] == -1.0
    reverse = memoryview(a[::-1, 1])
    reverse[0] = 50.0
    assert a[2, 1] == 50.0


def test_an_active_value_is_refused_while_other_code_sees_the_memory():
    def f(x):
        a = np.zeros(3)
        view = memoryview(a)
        with pytest.raises(ct.NotDifferentiableError, match="other code sees"):
            a[0] = x
        with pytest.raises(ct.NotDifferentiableError, match=r"x\.copy\(\)"):
            a[1:] += x
        assert view.tolist() == a.tolist() == [0.0, 0.0, 0.0]
        view[1] = 2.0
        copied = a.copy()
        copied[0] = x
        view.release()
        a[2] = x
        return np.sum(a) + np.sum(copied)

    assert ct.value_and_gradient(f, 3.0) == (10.0, (2.0,))


def test_readers_get_copies_and_do_not_hold_the_array():
    def f(x):
        a = np.ones(3)
        kept = bytes(a), array.array("d", a).tobytes(), a.tobytes(), a.__array__().tobytes()
        a[0] = x
        assert set(kept) == {np.ones(3).tobytes()}
        return np.sum(a)

    assert ct.gradient(f, 3.0) == (1.0,)


def test_memory_without_places_is_not_written_to(made):
    def f(x):
        z = np.zeros(3, complex)
        with pytest.raises((BufferError, TypeError, ValueError)):
            io.BytesIO(b"12345678" * 3).readinto(z.real)
        locked = np.broadcast_to(np.ones(2), (3, 2))
        with pytest.raises((BufferError, TypeError, ValueError)):
            io.BytesIO(b"12345678" * 6).readinto(locked)
        return x

    assert ct.gradient(f, 1.0) == (1.0,)


def test_the_memory_outlives_what_was_made_of_it():
    kept = []

    def f(x):
        a = np.zeros(1000)
        kept.append(np.ndarray((1000,), buffer=a))
        kept.append(memoryview(np.ones(1000) * 2))
        return x

    ct.gradient(f, 1.0)
    junk = [np.full(1000, 7.0) for _ in range(50)]
    assert np.all(kept[0] == 0.0) and np.all(np.asarray(kept[1]) == 2.0)
    assert len(junk) == 50


def test_an_array_that_nobody_sees_any_more_goes_on_alone():
    def f(x):
        total = 0.0
        for k in range(20):
            a = np.zeros(3)
            a.data[0] = float(k)
            a.ctypes.data_as(ctypes.POINTER(ctypes.c_double))[1] = 1.0
            a[2] = x
            a[1] += x
            total += np.sum(a)
            with pytest.raises(AttributeError, match="active Array has no memory"):
                a.data  # noqa: B018
        return total

    assert ct.value_and_gradient(f, 2.0) == (190.0 + 20.0 + 80.0, (40.0,))


def test_a_prepared_function_takes_what_is_in_the_memory_of_a_captured_array():
    left = []
    ct.gradient(lambda x: (left.append(np.ones(2) * 3), x)[1], 1.0)
    (a,) = left
    view = memoryview(a)
    f = ct.prepare(lambda x: np.sum(x * a))
    assert f(np.ones(2))[0].tolist() == [3.0, 3.0]
    view[1] = 5.0
    assert f(np.ones(2))[0].tolist() == [3.0, 5.0]


def test_other_threads_write_while_this_one_reads():
    left = []
    ct.gradient(lambda x: (left.append(np.zeros(1000) + 0), x)[1], 1.0)
    (a,) = left
    view = memoryview(a)

    def write():
        for k in range(300):
            view[k] = 1.0

    thread = threading.Thread(target=write)
    thread.start()
    sums = [float(np.sum(a)) for _ in range(200)]
    thread.join()
    assert sums == sorted(sums) and float(np.sum(a)) == 300.0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["set", "poke"]), st.integers(0, 5), st.integers(-4, 4)),
        st.tuples(
            st.sampled_from(["add", "part", "view", "release"]), st.just(0), st.integers(1, 3)
        ),
    ),
    max_size=12,
)


@given(STEPS)
def test_any_order_of_writes_gives_what_numpy_gives(steps):
    def run():
        a = np.zeros((2, 3)) + 1.0
        views, seen = [], []
        for name, at, value in steps:
            if name == "set":
                a[at // 3, at % 3] = value
            elif name == "poke" and views:
                views[-1][at] = float(value)
            elif name == "add":
                a += value
            elif name == "part":
                a.T[1] = value
            elif name == "view":
                views.append(memoryview(a.reshape(-1)))
            elif name == "release" and views:
                views.pop().release()
            seen.append((a.tolist(), [view.tolist() for view in views]))
        return seen

    found = []
    ct.gradient(lambda x: (found.append(run()), x)[1], 1.0)
    assert found[0] == run()
