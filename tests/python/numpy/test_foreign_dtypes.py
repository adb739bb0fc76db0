"""Constants beside text, objects and byte orders that no `Array` has: NumPy computes with them."""

import copy
import decimal
import operator

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


# --------------------------------------------------------------------------------------------------
# Each of these in a recording is what it is outside of one


def written(x, key, value):
    x[key] = value
    return x


class Given:
    """An object that gives itself out as an array, made where it is asked for."""

    def __array__(self, dtype=None, copy=None):
        return np.full(2, 3.0)


class Divided:
    """An object that NumPy's arrays leave to its own operators."""

    __array_ufunc__ = None

    def __rdivmod__(self, other):
        return "divided"


SAME = {
    "array in another order": lambda: np.array([1.0, 2.0], dtype=">f8"),
    "array times a number": lambda: np.array([1.0, 2.0], dtype=">f8") * 2,
    "complex in another order": lambda: np.array([1j], dtype=">c16"),
    "zeros in another order": lambda: np.zeros(2, ">f4"),
    "full in another order": lambda: np.full(2, 3.0, ">f8"),
    "arange in another order": lambda: np.arange(3, dtype=">f8"),
    "eye in another order": lambda: np.eye(2, dtype=">f8"),
    "linspace in another order": lambda: np.linspace(0.0, 1.0, 3, dtype=">f8"),
    "zeros_like in another order": lambda: np.zeros_like(np.ones(2), dtype=">f8"),
    "full_like in another order": lambda: np.full_like(np.ones(2), 3.0, dtype=">f8"),
    "both orders": lambda: np.zeros(2, ">f8") + np.ones(2),
    "both orders, swapped": lambda: np.ones(2) + np.zeros(2, ">f8"),
    "sine in another order": lambda: np.sin(np.ones(2, ">f8")),
    "swapped bytes": lambda: np.ones(2).byteswap(),
    "span": lambda: np.ones(2) * np.timedelta64(1, "s"),
    "spans": lambda: np.arange(3.0) * np.array([1, 2, 3], "m8[s]"),
    "span of one": lambda: np.ones(2)[0] * np.timedelta64(1, "s"),
    "equals spans": lambda: np.ones(2) == np.array([1, 2], "m8[s]"),
    "differs from spans": lambda: np.ones(2) != np.array([1, 2], "m8[s]"),
    "objects": lambda: np.ones(2) / np.array([2, 4], object),
    "longdouble": lambda: (np.arange(3.0) + np.longdouble(1)).astype(str),
    "longdoubles": lambda: (np.arange(3.0) * np.arange(3, dtype=np.longdouble)).astype(str),
    "power of longdouble": lambda: (np.ones(2) ** np.longdouble(2)).astype(str),
    "less than longdouble": lambda: np.ones(2) < np.longdouble(2),
    "divmod by longdouble": lambda: [x.astype(str) for x in divmod(np.ones(2), np.longdouble(2))],
    "longdouble in place": lambda: operator.imul(np.ones(2), np.longdouble(3)),
    "divmod by an object": lambda: divmod(np.ones(2), Divided()),
    "write objects": lambda: written(np.zeros(3), slice(None), np.array([1, 2, 3], object)),
    "write None": lambda: written(np.zeros(3), slice(None), np.array([1, None, 3], object)),
    "write a list with None": lambda: written(np.zeros(3), slice(None), [1, None, 3]),
    "write decimals": lambda: written(np.zeros(2), slice(None), [decimal.Decimal("1.5"), 2]),
    "write by a mask": lambda: written(np.ones(2), np.ones(2) > 0, np.array([1, 2], object)),
    "write text": lambda: written(np.zeros(3), slice(None), ["1", "2", "3"]),
    "write text at indices": lambda: written(np.zeros(3), [0, 1], np.array(["1", "2"])),
    "write longdouble": lambda: written(np.zeros(3), 0, np.longdouble(3)),
    "write longdoubles": lambda: written(np.zeros(3), slice(None), np.ones(3, np.longdouble)),
    "write a span": lambda: written(np.zeros(3), 0, np.timedelta64(3, "s")),
    "write spans": lambda: written(np.zeros(3), slice(None), np.arange(3).astype("m8[s]")),
    "ufunc of an object": lambda: np.sin(Given()),
    "ufunc of array and object": lambda: np.add(np.ones(2), Given()),
    "ufunc of object and array": lambda: np.add(Given(), np.ones(2)),
    "number": lambda: float(np.array(2.0)),
}
ERRORS = {
    "text that is no number": lambda: written(np.zeros(3), slice(None), ["1", "x", "3"]),
    "objects that are no numbers": lambda: written(
        np.zeros(2), slice(None), np.array([1, "x"], object)
    ),
    "too many": lambda: written(np.zeros(3), slice(None), np.array([1, 2], object)),
}
# An error since NumPy 2.4, a warning before.
ONE = {
    "float": lambda: float(np.array([2.0])),
    "int": lambda: int(np.array([2.0])),
    "complex": lambda: complex(np.array([[2.0]])),
    "element": lambda: written(np.zeros(3), 0, np.array([5.0])),
}


def told(x):
    """Give all that can be seen of a result."""
    if isinstance(x, (tuple, list)):
        return [told(item) for item in x]
    if isinstance(x, np.ndarray):
        elements = [(type(item), item) for item in np.asarray(x).ravel().tolist()]
        return (
            x.dtype.str,
            x.shape,
            repr(elements),
            np.asarray(x).tobytes() if x.dtype != object else None,
        )
    return type(x), repr(x)


if np.lib.NumpyVersion(np.__version__) < "2.3.0":
    del SAME["power of longdouble"]  # its square is float64 there


@pytest.mark.parametrize("name", SAME)
def test_what_is_given(name):
    assert told(inside(SAME[name])) == told(SAME[name]())


@pytest.mark.parametrize("name", ERRORS)
def test_what_is_refused(name):
    with pytest.raises(Exception) as wanted:  # noqa: PT011
        ERRORS[name]()
    with pytest.raises(wanted.type):
        inside(ERRORS[name])


@pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")
@pytest.mark.parametrize("name", ONE)
def test_arrays_of_one_element_as_numbers(name):
    try:
        wanted = told(ONE[name]())
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            inside(ONE[name])
    else:
        assert told(inside(ONE[name])) == wanted


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.copy("F"),
        lambda x: x.copy("K"),
        lambda x: x.T.copy(),
        lambda x: np.asfortranarray(x).copy(),
        lambda x: np.asfortranarray(x).copy("K"),
        lambda x: copy.copy(np.asfortranarray(x)),
        lambda x: copy.deepcopy(np.asfortranarray(x)),
        lambda x: np.copy(np.asfortranarray(x)),
        lambda x: np.copy(x, "F"),
        lambda x: np.array(np.asfortranarray(x)),
    ],
)
def test_copies_in_an_order_of_memory(make):
    def f():
        x = make(np.ones((2, 3)) * [1.0, 2.0, 3.0])
        before = x.flags.c_contiguous, x.flags.f_contiguous, x.strides, str(x.tolist())
        x[0, 1] = 7.0
        return before, x.tolist()

    assert inside(f) == f()


def test_what_flags_say():
    def f():
        x = np.ones((2, 3))
        return [(y.flags.num & ~0x4, str(y.flags)) for y in (x, np.ones(2))]

    assert inside(f) == f()


def test_active_values_beside_other_dtypes_are_refused():
    for f in (
        lambda x: x * np.timedelta64(1, "s"),
        lambda x: x + np.longdouble(1),
        lambda x: written(np.zeros(2), slice(None), np.array([x[0], "1"], object)),
        lambda x: written(np.zeros(2), slice(None), [x[0], "1"]),
    ):
        with pytest.raises(TypeError):
            ct.gradient(lambda x, f=f: np.sum(f(x)), np.ones(2))


def test_writing_to_active_arrays():
    def f(x):
        y = x * 2.0
        y[0] = np.longdouble(3)
        y[1:2] = ["4"]
        return np.sum(y * y)

    value, gradient = ct.value_and_gradient(f, np.ones(3))
    assert value == 29.0
    np.testing.assert_array_equal(gradient[0], [0.0, 0.0, 8.0])


def test_nan_is_no_integer():
    x = ct.array([1, 2])
    with pytest.raises(ValueError, match="NaN"):
        x[0] = np.float64("nan")
    with pytest.raises(OverflowError, match="infinity"):
        x[0] = np.float64("inf")


OBJECTS = np.array([1, 2], object)


def test_a_prepared_function_does_not_keep_objects_that_may_change():
    def f(x):
        y = np.zeros(2)
        y[:] = OBJECTS
        return np.sum(x * y)

    with pytest.raises(TypeError):
        ct.prepare(f)(np.ones(2))
