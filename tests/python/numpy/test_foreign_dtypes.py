"""Constants beside text, objects and byte orders that no `Array` has: NumPy computes with them."""

import numpy as np
import pytest

import cotan as ct

WORDS = np.array(["up", None], object)

CALLS = {
    "where text": lambda x: np.where(x > 1.5, "up", "down"),
    "where bytes": lambda x: np.where(x > 1.5, b"up", b"down"),
    "where text or number": lambda x: np.where(x > 1.5, x, "down"),
    "where None": lambda x: np.where(x > 1.5, x, None),
    "where objects": lambda x: np.where([True, False], x, WORDS),
    "where of lists": lambda x: np.where(x > 1.5, ["up", "down"], "none"),
    "select": lambda x: np.select([x > 1.5, x > 0.5], ["high", "low"], "none"),
    "concatenate text": lambda x: np.concatenate([x, ["a"]]),
    "concatenate objects": lambda x: np.concatenate([x, WORDS]),
    "concatenate dtype": lambda x: np.concatenate([x, x], dtype=object),
    "hstack": lambda x: np.hstack([x, ["a"]]),
    "column_stack": lambda x: np.column_stack([x, ["a", "b"]]),
    "append": lambda x: np.append(x, "a"),
    "full_like": lambda x: np.full_like(x, "a", dtype=object),
    "zeros_like objects": lambda x: np.zeros_like(x, dtype=object),
    "spans of time": lambda x: np.timedelta64(1, "s") * x,
    "spans divided": lambda x: np.divide(np.array([1, 2], "m8[s]"), x),
    "add": lambda x: np.add(x, 1, dtype=object),
    "sum": lambda x: np.add.reduce(x, dtype=object, keepdims=True),
    "zeros_like text": lambda x: np.zeros_like(x, dtype="U3"),
}


def inside(f, *args):
    """Call a function of constants while a gradient is recorded."""
    results = []

    def recorded(x):
        results.append(f(*args))
        return x

    ct.gradient(recorded, 1.0)
    return results[0]


@pytest.mark.parametrize("name", CALLS)
def test_constants_beside_what_no_array_holds(name):
    def f():
        return CALLS[name](np.ones(2) * [1.0, 2.0])

    wanted, found = f(), inside(f)
    assert type(found) is np.ndarray
    assert found.dtype == wanted.dtype
    assert found.tolist() == wanted.tolist()


def test_text_that_values_choose():
    def f(x):
        label = np.where(x > 1.5, "high", "low")
        return np.sum(x * np.where(label == "high", 3.0, 2.0))

    np.testing.assert_array_equal(ct.gradient(f, np.array([1.0, 2.0]))[0], [2.0, 3.0])
    prepared = ct.prepare(f)
    for x in ([1.0, 2.0], [2.0, 1.0]):
        wanted = [3.0 if v > 1.5 else 2.0 for v in x]
        np.testing.assert_array_equal(prepared(np.array(x))[0], wanted)


def test_active_values_are_not_made_text():
    for f in (
        lambda x: np.where(x > 1.5, x, None),
        lambda x: np.concatenate([x, ["a"]]),
        lambda x: np.concatenate([x, x], dtype=object),
    ):
        with pytest.raises(TypeError):
            ct.gradient(lambda x, f=f: np.sum(f(x)), np.ones(2))


def test_names_of_orders_are_no_text():
    x = ct.array([[1.0, 2.0], [3.0, 4.0]]).T
    for f in (lambda: np.ravel(x, order="K"), lambda: np.ravel(x, "K")):
        with pytest.raises(TypeError, match="order='K'"):
            f()


def test_errors_are_those_of_numbers():
    # NumPy refuses these, too, so what cotan says first stays.
    x = ct.array([1.0, 2.0])
    with pytest.raises(TypeError, match="same_kind"):
        np.concatenate([x, x], dtype="M8[D]")
    with pytest.raises(TypeError, match="same_kind"):
        np.mean(x, out=ct.array(0), axis=None)


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">c16", ">i2"])
@pytest.mark.parametrize(
    "cast",
    [
        lambda x, dtype: x.astype(dtype),
        lambda x, dtype: np.asarray(x, dtype),
        lambda x, dtype: np.array(x, dtype=dtype),
    ],
    ids=["astype", "asarray", "array"],
)
def test_bytes_of_constants_in_another_order(cast, dtype):
    def f():
        return cast(np.ones(2) * [1.0, 2.0], dtype).tobytes()

    assert inside(f) == f()


def test_active_values_stay_active_in_another_order():
    gradient = ct.gradient(lambda x: np.sum(x.astype(">f4") ** 2), np.array([1.0, 2.0]))[0]
    np.testing.assert_array_equal(gradient, [2.0, 4.0])
