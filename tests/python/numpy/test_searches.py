"""Places in sorted arrays: bisected in programs, NaN last as in NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cotan as ct

NUMBERS = st.one_of(
    st.integers(-3, 3).map(float), st.floats(width=32), st.sampled_from([np.nan, np.inf, -np.inf])
)


def places(row, x, side):
    """Search in a program, whose array and elements are arguments."""
    program = ct.trace(lambda row, x: np.searchsorted(row, x, side), row, x)
    assert [e.primitive for e in program.equations].count("searchsorted") == 1
    return np.asarray(program(row, x))


@pytest.mark.parametrize("side", ["left", "right"])
@given(row=st.lists(NUMBERS, max_size=40), x=st.lists(NUMBERS, max_size=9))
def test_floats(side, row, x):
    for dtype in (np.float64, np.float32, np.float16):
        with np.errstate(over="ignore"):
            table, keys = np.sort(np.array(row, dtype)), np.array(x, dtype)
        expected = np.searchsorted(table, keys, side)
        np.testing.assert_array_equal(places(table, keys, side), expected)


@pytest.mark.parametrize("side", ["left", "right"])
@given(row=st.lists(st.integers(0, 200), max_size=40), x=st.lists(st.integers(0, 255), max_size=9))
def test_integers(side, row, x):
    for dtype in (np.int64, np.int32, np.uint8, bool):
        table, keys = np.sort(np.array(row).astype(dtype)), np.array(x).astype(dtype)
        expected = np.searchsorted(table, keys, side)
        np.testing.assert_array_equal(places(table, keys, side), expected)


def test_dtypes_meet_as_in_numpy():
    row, x = np.array([1, 2, 3]), np.array([[0.5, 2.0], [2.5, 9.0]])
    np.testing.assert_array_equal(places(row, x, "right"), np.searchsorted(row, x, "right"))
    z = np.array([1 + 1j, 1 + 2j, 2 - 1j])
    np.testing.assert_array_equal(places(z, z, "right"), [1, 2, 3])
    assert ct.searchsorted([1, 2, 3], 2.0).shape == ()


def test_many_elements_on_all_threads(rng):
    row, x = np.sort(rng.normal(size=100_000)), rng.normal(size=(300, 1_000))
    np.testing.assert_array_equal(places(row, x, "left"), np.searchsorted(row, x))


def test_each_example_has_an_array_of_its_own(rng):
    rows, x = np.sort(rng.normal(size=(4, 20)), 1), rng.normal(size=(4, 3, 2))
    found = ct.vmap(lambda row, x: np.searchsorted(row, x))(rows, x)
    expected = [np.searchsorted(row, x) for row, x in zip(rows, x, strict=True)]
    np.testing.assert_array_equal(found, expected)
    shared = ct.vmap(lambda x: np.searchsorted(rows[0], x))(x)
    np.testing.assert_array_equal(shared, np.searchsorted(rows[0], x))


def test_interpolation_in_a_prepared_function(rng):
    knots, values = np.linspace(0, 1, 50) ** 2, rng.normal(size=50)

    def f(knots, values, x):
        at = np.searchsorted(knots, x) - 1
        t = (x - knots[at]) / (knots[at + 1] - knots[at])
        return np.sum((values[at] * (1 - t) + values[at + 1] * t) ** 2)

    g = ct.prepare(f, knots, values, np.full(7, 0.5))
    x = rng.uniform(0.01, 0.99, 7)
    for prepared, by_hand in zip(
        g(knots, values, x), ct.gradient(f, knots, values, x), strict=True
    ):
        np.testing.assert_allclose(prepared, by_hand, rtol=1e-12)


def test_what_cannot_be_searched():
    with pytest.raises(ValueError, match=r"searchsorted: the sorted array has one axis.*\(2, 2\)"):
        ct.searchsorted(np.ones((2, 2)), 1.0)
