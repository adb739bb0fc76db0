"""Large captured arrays count with what they hold when they are used, call after call."""

import ctypes
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import cotan as ct

SIZE = 1 << 18


@pytest.fixture(autouse=True)
def forgotten():
    ct.clear_caches()
    yield
    ct.clear_caches()


def by_memory(x, at, value):
    ctypes.c_double.from_address(x.ctypes.data + 8 * at).value = value


WAYS = {
    "an item": lambda x, at, value: x.__setitem__(at, value),
    "a view": lambda x, at, value: x[::-1][-at - 1 :].__setitem__(0, value),
    "out=": lambda x, at, value: np.multiply(value, 1.0, out=x[at : at + 1]),
    "all": lambda x, at, value: x.fill(value),
    "memory": by_memory,
    "nothing": lambda x, at, value: None,
}


@settings(max_examples=30, deadline=None)
@given(
    writes=st.lists(
        st.tuples(st.sampled_from(sorted(WAYS)), st.integers(0, SIZE - 1), st.floats(-9, 9)),
        max_size=12,
    )
)
def test_gradients_are_those_of_what_the_array_holds(writes):
    table = np.arange(float(SIZE)) % 89
    x = np.ones(SIZE)

    def loss(x):
        return np.sum(table * x)

    for way, at, value in [("nothing", 0, 0.0), *writes]:
        WAYS[way](table, at, value)
        (gradient,) = ct.gradient(loss, x)
        np.testing.assert_array_equal(gradient, table)


@settings(max_examples=20, deadline=None)
@given(places=st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=6))
def test_a_buffer_that_is_written_within_a_function(places):
    table = np.zeros(SIZE)

    def loss(x):
        total = 0.0
        for at in places:
            table[at] += 1.0
            total = total + table * x
        return np.sum(total)

    for _ in range(4):
        before = table.copy()
        expected = np.zeros(SIZE)
        for at in places:
            before[at] += 1.0
            expected += before
        (gradient,) = ct.gradient(loss, np.ones(SIZE))
        np.testing.assert_array_equal(gradient, expected)


def test_a_pullback_keeps_what_the_array_held():
    table = np.ones(SIZE)
    backs = []
    for value in range(5):
        table[3] = value
        backs.append(ct.pullback(lambda x: table * x, np.ones(SIZE))[1])
    for value, back in enumerate(backs):
        assert back(np.ones(SIZE))[0][3] == value


def test_it_is_copied_twice_and_not_again():
    table = np.ones(SIZE)
    copied = []
    for _ in range(4):
        with ct.profile() as work:
            ct.gradient(lambda x: np.sum(table * x), 2.0)
        copied.append(work.bytes_copied >= table.nbytes)
    assert copied == [True, True, False, False]


def test_a_buffer_that_is_refilled_is_not_watched_for_ever():
    table = np.ones(SIZE)
    for value in range(8):
        table.fill(value)
        assert ct.gradient(lambda x: np.sum(table * x), 2.0) == (value * SIZE,)


def test_the_array_is_not_kept_alive():
    def used():
        table = np.ones(SIZE)
        for _ in range(3):
            ct.gradient(lambda x: np.sum(table * x), 2.0)
        return weakref.ref(table)

    seen = used()
    gc.collect()
    assert seen() is None
    # Another one at its address is another one.
    for value in range(4):
        other = np.full(SIZE, float(value))
        assert ct.gradient(lambda x, t=other: np.sum(t * x), 2.0) == (value * SIZE,)
        del other


def test_threads_capture_one_array():
    table = np.ones(SIZE)
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: ct.gradient(lambda x: np.sum(table * x), 2.0), range(80))
    assert set(found) == {(SIZE,)}
