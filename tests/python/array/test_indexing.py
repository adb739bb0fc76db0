"""Reading and writing `x[key]`, against NumPy: values, views, gradients, errors."""

import operator
import warnings

import numpy as np
import pytest
from ids import same_everywhere
from numpy_cases import INPUTS, assert_same, assert_same_error, check, raised, wrote

import cotan as ct

# The keys are for an array of shape (2, 3, 4).


class Whole:
    """A number by `__index__` alone."""

    def __index__(self):
        return 1


BASIC_KEYS = [
    (), 0, -1, ..., None, slice(None), slice(1, None), slice(None, None, -1), slice(-1, None, -2),
    slice(5, 9), slice(-100, 100), slice(1, 0), (1, 2), (0, -1, 3), (..., 2), (1, ...), (..., 0, 1),
    (0, ..., -2), (0, ..., 1, 2), (0, 1, 2, ...), (..., None), (None, ...), (None, 0, None),
    (slice(None), None, slice(1, 3)), (slice(None, None, -1),) * 3,
    (slice(None), slice(2, 0, -1), slice(3, None, -2)), (slice(None), slice(None), slice(1, 4, 2)),
    (1, slice(None), slice(None, None, -1)), (0, None, slice(2), ..., None, 3), (None,) * 3,
    np.int64(1), (np.int32(0), np.uint8(2)), Whole(), (Whole(), slice(Whole(), None)),
    slice(np.int64(0), np.int64(1)), (slice(None), slice(0, 0)), (slice(None), -3, slice(-4, -1)),
]  # fmt: skip
ADVANCED_KEYS = [
    (np.array([0, 1]), np.array([2, -1])), (np.array([[0], [-1]]), np.array([0, 2])),
    (np.array([1, 0]), np.array([1]), np.array([[3], [0]])), (np.array([[1]]), np.array([0, 2, 2])),
    np.array([True, False]), np.array([[True, False, True], [False, True, False]]),
    (np.array([True, False]), np.array([1, 2])), (np.array([1, 0]), np.array([True, True, False])),
    (np.array([True, True]), np.array([False, True, True]), np.array([3, 3])),
    np.zeros((2, 3, 4), bool), (np.array([1]), np.zeros((3, 4), bool)),
    [0], [1, 0, 1], [], np.array([1, 0]), np.array([[0, 1], [1, 1]]), np.array([-1, -2]),
    np.array([0, 1], np.int32), np.array([0, 1], np.uint8), np.array(1), (np.array(1), 2),
    np.zeros((0,), int), np.zeros((2, 0), int), ([0, 1],), ([0, 1], [2, 0]), ([0, 1], 2),
    ([[0], [1]], [0, 2]), ([0, 1], [1, 2], [3, 0]), (slice(None), [2, 0, 2]),
    (slice(None), [2, 0, 2], slice(1, None)), (slice(None), slice(None), [3, 1]),
    (slice(None, None, -1), [2, 0], slice(None, None, 2)), ([1, 0], slice(None), [0, 3]),
    ([1, 0], slice(None), 2), (0, slice(None), [2, 1]), (1, [0, 2]), ([1], [0, 2]),
    (..., [0, 3]), ([1, 0], ...), ([1, 0], ..., [0, 3]), (..., [0, 1], [1, 2]),
    (slice(None), [0, 1], [1, 2]), (None, [0, 1]), ([0, 1], None), ([0, 1], None, [1, 2]),
    (slice(None), None, [1, 2]), (slice(None), [1, 2], None), (slice(None), [1, 2], None, [0, 3]),
    (slice(1), [[0, 2], [1, 1]], slice(None)), (slice(1, 0), [0, 1]), (np.array([1, 1]), slice(2)),
    np.ix_([0, 1], [2, 0]), np.ix_([1], [0, 2], [3, 1]), np.ix_([True, False], [0, 2]),
    True, False, np.True_, (True, 0), (0, False), (True, slice(None), [0, 2]), (None, True),
    [True, False], np.array([False, True]), np.array([False, False]),
    (np.array([True, False]), 1), (slice(None), [True, False, True]),
    (slice(None), np.array([True, False, True]), slice(None, None, -1)),
    (..., [True, False, False, True]), np.arange(6).reshape(2, 3) % 2 == 0,
    (np.arange(6).reshape(2, 3) > 2, 1), (np.arange(6).reshape(2, 3) > 2, [0, 1, 3]),
    (slice(None), np.arange(12).reshape(3, 4) % 5 == 0), np.arange(24).reshape(2, 3, 4) % 3 == 0,
    np.zeros((2, 3, 4), bool), np.ones((2, 3), bool), ([True, False], [0, 2]),
    ([True, True], [0, 2], slice(1, None)), (None, np.arange(6).reshape(2, 3) > 1, None),
    ([0, 1], np.array([True, False, True])),
    (np.array([[1, 0]]), slice(None), np.array([[2], [0]])),
    (slice(None), [0, 1], ..., [0, 3]), (None, [0, 1], ..., [1, 2], [3, 0]),
    (None, [0, 1], [1, 2], [3, 0], ...),
]  # fmt: skip
KEYS = [*BASIC_KEYS, *ADVANCED_KEYS]


def name_key(key):
    def text(item):
        if isinstance(item, slice):
            parts = ["" if p is None else text(p) for p in (item.start, item.stop)]
            return ":".join(parts + ([] if item.step is None else [str(item.step)]))
        if isinstance(item, np.ndarray):
            return f"{item.dtype}{item.tolist() if item.size < 7 else list(item.shape)}"
        if isinstance(item, Whole):
            return "Whole"
        return same_everywhere(item).replace("Ellipsis", "...")

    return ", ".join(map(text, key)) if isinstance(key, tuple) and key else text(key)


def keyed(keys):
    return pytest.mark.parametrize("key", keys, ids=[f"[{name_key(k)}]" for k in keys])


def like_result(x, key, values):
    """Give values of the shape that a key selects."""
    return np.resize(values, INPUTS["t"][key].shape)


def assign(x, key, value):
    x[key] = value


def add(x, key, value):
    x[key] += value


@keyed(KEYS)
def test_reading_by_a_key(key):
    check(lambda t: t[key])


@keyed(KEYS)
def test_reading_by_a_key_of_other_dtypes(key):
    for dtype in (bool, np.int32, np.float32, np.complex128):
        x = (INPUTS["t"] * 3).astype(dtype)
        assert_same(ct.array(x)[key], x[key])


@keyed(KEYS)
def test_writing_a_scalar_by_a_key(key):
    check(lambda t, x: wrote(t, lambda y: assign(y, key, x)))


@keyed(KEYS)
def test_writing_values_by_a_key(key):
    check(lambda t, v: wrote(t, lambda y: assign(y, key, like_result(y, key, v))))


@keyed([k for k in KEYS if INPUTS["t"][k].ndim > 1])
def test_writing_values_that_broadcast_by_a_key(key):
    check(lambda t, v: wrote(t, lambda y: assign(y, key, like_result(y, key, v)[:1])))
    check(lambda t, v: wrote(t, lambda y: assign(y, key, like_result(y, key, v)[None])))


@keyed(KEYS)
def test_adding_by_a_key(key):
    check(lambda t, x: wrote(t, lambda y: add(y, key, x)))
    check(lambda t, v: wrote(t, lambda y: add(y, key, like_result(y, key, v))))


@keyed(KEYS)
def test_adding_at_a_key(key):
    check(lambda t, v: wrote(t, lambda y: np.add.at(y, key, like_result(y, key, v))))


@keyed(KEYS)
def test_writing_a_part_of_the_same_array(key):
    check(lambda t: wrote(t, lambda y: assign(y, key, y[key] * 2)))
    check(lambda t: wrote(t[::-1], lambda y: assign(y, key, like_result(y, key, y[..., 1]))))


@keyed([k for k in KEYS if INPUTS["t"][k].ndim])
def test_what_a_key_gives_is_a_view_where_it_is_one_in_numpy(key):
    def program(t):
        y = t.copy()
        part = y[key]
        part[...] = 7.0
        part *= t.sum()
        return y, part

    check(program)


@keyed(KEYS)
def test_an_array_of_ours_in_a_key(key):
    def ours(item):
        return ct.array(item) if isinstance(item, (np.ndarray, list)) and np.size(item) else item

    mapped = tuple(map(ours, key)) if isinstance(key, tuple) else ours(key)
    assert_same(ct.array(INPUTS["t"])[mapped], INPUTS["t"][key])
    y, expected = ct.array(INPUTS["t"]), INPUTS["t"].copy()
    y[mapped] = 5.0
    expected[key] = 5.0
    assert_same(y, expected)
    y[mapped] += 1
    expected[key] += 1
    assert_same(y, expected)


def test_keys_of_an_array_without_axes():
    for key in ((), ..., None, (None, ...), (..., None), True, (None, None), np.array(True)):
        x = np.array(1.5)
        assert_same(ct.array(x)[key], x[key])
        y = ct.array(x)
        y[key] = 2.5
        x[key] = 2.5
        assert_same(y, x)


def test_keys_of_an_empty_array():
    x = np.zeros((0, 3))
    keys = [
        (), slice(None), [], (slice(None), 1), (slice(None), [0, 2]), np.zeros((0, 3), bool),
        np.zeros(0, bool), (..., None), slice(None, None, -1),
    ]  # fmt: skip
    for key in keys:
        assert_same(ct.array(x)[key], x[key])
        y = ct.array(x)
        y[key] = 2.5
        assert_same(y, x)


WRONG_KEYS = [
    2, -3, (0, 3), (0, 0, 4), (0, 0, 0, 0), (..., ...), 1.0, "a", (0, 1.5), [0.5], [2], [0, -3],
    (slice(None), [3]), (..., [-5]), ([0, 1], [0, 1, 2]), [True, False, True], {}, object(),
    np.ones((2, 2), bool), np.ones((2, 3, 4, 1), bool), np.array([0.0]), np.array(["a"]),
    (None, 0, 0, 0, 0), slice(1.5), slice("a", None), (0, slice(None, None, 0)), 10**30, [10**12],
    (slice(None), np.array([True, False])), ([0], [0], [0], [0]), 1j, b"x", ([0, 1], [[0], [5]]),
]  # fmt: skip


@keyed(WRONG_KEYS)
def test_what_is_no_key(key):
    x = INPUTS["t"]
    ours = ct.array(x)
    assert_same_error(raised(operator.getitem, ours, key), raised(operator.getitem, x, key))
    for write in (assign, add):
        error = raised(write, x.copy(), key, 1.0)
        assert_same_error(raised(write, ours, key, 1.0), error)
    assert_same(ours, x)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (0, np.ones((2, 4))),
        (slice(None), np.ones((3, 3))),
        ([0, 1], np.ones(3)),
        ((slice(None), [0, 2]), np.ones((3, 4))),
        (np.ones((2, 3), bool), np.ones((5, 4))),
        ((0, 0, 0), np.ones(2)),
        (slice(None), object()),
        (0, 1j),
        ([0], 1j * np.ones(4)),
    ],
)
def test_what_does_not_fit_where_it_is_written(key, value):
    x = INPUTS["t"].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a complex number written to a real one
        with pytest.raises(Exception) as caught:  # noqa: PT011
            x[key] = value
        ours = ct.array(INPUTS["t"])
        with pytest.raises(Exception) as error:  # noqa: PT011 - the class is what is compared
            ours[key] = value
    assert_same_error(error.value, caught.value)
    assert_same(ours, INPUTS["t"])


@pytest.mark.parametrize(
    ("shape", "mask"),
    [((3,), (0,)), ((3, 2), (0,)), ((3, 2), (3, 0)), ((0, 1), (0, 0)), ((2, 0), (3, 0))],
)
def test_masks_of_nothing(shape, mask):
    def taken(make):
        return make(np.ones(shape))[make(np.zeros(mask, bool))]

    try:
        expected = taken(np.array)
    except IndexError:
        with pytest.raises(IndexError, match="boolean index did not match"):
            taken(ct.array)
    else:
        assert taken(ct.array).shape == expected.shape


LEFT_OUT = {
    "where it is known": lambda x: np.sqrt(x)[x > 0].sum(),
    "what is finite": lambda x: np.sum((y := 1 / np.sqrt(x))[np.isfinite(y)]),
    "further on": lambda x: (3 * np.log(x) + x)[x > 0].prod(),
    "compressed": lambda x: np.compress(x > 0, np.log(x)).sum(),
    "rows": lambda x: np.log(np.stack([x, 2 * x], axis=1))[x > 0].sum(),
    "all axes": lambda x: np.log(np.outer(x, [1.0, 2.0]))[np.outer(x, [1.0, 2.0]) > 0].sum(),
    "a constant": lambda x: np.sqrt(x)[np.array([True, False, True, False])].sum(),
    "several": lambda x: (y := x**0.5)[~np.isnan(y)].max() + y[x > 5].sum(),
}


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_a_mask_leaves_out_has_no_derivative(name, prepared):
    f, x, h = LEFT_OUT[name], np.array([4.0, -1.0, 9.0, 0.0]), 1e-6
    with np.errstate(all="ignore"):
        (gradient,) = ct.prepare(f, x)(x) if prepared else ct.gradient(f, x)
        for i in (0, 2):
            step = h * np.eye(4)[i]
            slope = (f(x + step) - f(x - step)) / (2 * h)
            assert gradient[i] == pytest.approx(slope, rel=1e-6)
        np.testing.assert_array_equal(gradient[[1, 3]], 0)
        (second,) = ct.gradient(lambda x: ct.gradient(f, x)[0][0], x)
        assert np.isfinite(second[0])


BESIDE = {
    "slice": lambda x: np.log(x)[1:].sum(),
    "steps": lambda x: np.log(x)[1::2].prod(),
    "backwards": lambda x: np.sum(np.log(x)[:0:-1] * [1.0, 2.0, 3.0]),
    "element": lambda x: np.log(x)[2] * 3.0,
    "list": lambda x: np.sum(np.log(x)[[1, 3, 1]] * [1.0, 2.0, 3.0]),
    "take": lambda x: np.take(np.log(x), [1, 3]).sum(),
    "split": lambda x: np.split(np.log(x), [1])[1].sum(),
    "further on": lambda x: np.sum((1 - 2 * np.log(x) * x)[1:] ** 2),
    "twice the same": lambda x: (y := np.log(x))[1:].sum() * (y[1:] ** 2).sum(),
    "by two ways": lambda x: (2 * (y := np.log(x)))[1:].sum() * (y**2)[1:].sum(),
    "roots": lambda x: np.log(np.sqrt(x))[1:].sum(),
    "powers": lambda x: np.sum((x**-0.5)[1:]),
    "quotient": lambda x: np.sum((np.sin(x) / x)[1:]),
    "both factors": lambda x: np.sum((x[1] * np.log(x))[1:]),
    "angle": lambda x: np.arccos(1 - x / 9)[1:].sum(),
    "choice": lambda x: np.maximum(np.log(x), 0.8)[1:].sum(),
    "row": lambda x: np.log(x.reshape(2, 2))[1].prod(),
    "column": lambda x: np.log(x.reshape(2, 2))[:, 1].prod(),
    "transposed": lambda x: np.log(x.reshape(2, 2)).T[1].prod(),
    "flat": lambda x: np.log(x.reshape(2, 2)).ravel()[1:].prod(),
    "rows and columns": lambda x: np.log(x.reshape(2, 2))[[0, 1], [1, 0]].prod(),
    "repeated": lambda x: np.sum((np.log(x) * np.ones((3, 1)))[:, 1:]),
    "repeated both ways": lambda x: np.sum((np.log(x)[None] * x[1:, None])[:, 1:]),
    "written": lambda x: written_first(np.log(x)).sum(),
    "written power": lambda x: written_first(x**-0.5).sum(),
}


def written_first(y):
    y[0] = 7.0
    return y


@pytest.mark.parametrize("name", BESIDE)
def test_what_a_slice_leaves_out_has_no_derivative(name):
    """Where it is infinite, too."""
    f, x, h = BESIDE[name], np.array([0.0, 1.5, 2.5, 3.0]), 1e-6
    with np.errstate(all="ignore"):
        value, (gradient,) = ct.value_and_gradient(f, x)
        assert value == pytest.approx(f(x), rel=1e-12)
        steps = h * np.eye(4)
        slopes = [0.0, *((f(x + s) - f(x - s)) / (2 * h) for s in steps[1:])]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(ct.prepare(f, x)(x)[0], gradient)
        along = np.array([0.0, 0.3, -0.2, 0.5])
        second = ct.hvp(f, x, along)
        ends = [ct.gradient(f, x + sign * h * along)[0] for sign in (1, -1)]
        expected = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose(np.asarray(second)[1:], expected[1:], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("key", [..., 0, slice(1, None), [2, 0], np.array([True, False, True])])
@pytest.mark.parametrize("buffer", [lambda n: np.zeros(n), lambda n: 0 * np.sin(np.ones(n))])
def test_writing_complex_values_into_real_ones_warns(key, buffer):
    """NumPy keeps the real part, and says so: `y[:] = np.fft.ifft(...)`."""

    def f(x):
        y = buffer(3)
        z = np.fft.ifft(np.fft.fft(x) * np.array([1.0, 2j, 3.0]))
        y[key] = z[0] if isinstance(key, int) else z[: len(y[key])]
        return np.sum(y**2)

    x = np.array([0.3, -1.2, 2.0])
    with pytest.warns(np.exceptions.ComplexWarning):
        expected = f(x)
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        value, (gradient,) = ct.value_and_gradient(f, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps = 1e-6 * np.eye(3)
        slopes = [(f(x + step) - f(x - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(gradient, slopes, atol=1e-8)


def test_a_complex_number_of_python_is_not_written_into_real_values():
    def f(x):
        y = np.zeros(2) * x
        y[0] = 1j
        return y

    with pytest.raises(TypeError):
        f(1.0)
    with pytest.raises(TypeError, match=r"assignment: complex .* float64; write their real part"):
        ct.gradient(lambda x: np.sum(f(x)), 1.0)
