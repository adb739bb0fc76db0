"""Which results are views, which are copies, and what a write to them changes: as in NumPy."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cotan as ct

# Of an array of shape (4, 6).
RESULTS = {
    "x.squeeze()": lambda x: x.squeeze(),
    "x[:1].squeeze()": lambda x: x[:1].squeeze(),
    "np.squeeze": lambda x: np.squeeze(x),
    "x.reshape": lambda x: x.reshape(6, 4),
    "x.reshape of a column": lambda x: x[:, 1].reshape(2, 2),
    "x.reshape copy": lambda x: x.reshape(6, 4, copy=True),
    "x.reshape F": lambda x: x.reshape((8, 3), order="F"),
    "x.T.reshape F": lambda x: x.T.reshape(-1, order="F"),
    "x.T.reshape F copy": lambda x: x.T.reshape(-1, order="F", copy=True),
    "x.ravel": lambda x: x.ravel(),
    "x.ravel of a column": lambda x: x[:, 1].ravel(),
    "x.ravel of every other row": lambda x: x[::2].ravel(),
    "x.ravel of a row": lambda x: x[1].ravel(),
    "x.ravel F": lambda x: x.ravel("F"),
    "x.T.ravel": lambda x: x.T.ravel(),
    "x.T.ravel F": lambda x: x.T.ravel("F"),
    "x.ravel K": lambda x: x.ravel("K"),
    "x.flatten": lambda x: x.flatten(),
    "x.flatten K": lambda x: x.flatten("K"),
    "x.flat": lambda x: x.flat[:],
    "x.flat of some": lambda x: x.flat[2:9:3],
    "x[...]": lambda x: x[...],
    "x[()]": lambda x: x[()],
    "x.view": lambda x: x.view(),
    "x.real": lambda x: x.real,
    "x.conj": lambda x: x.conj(),
    "+x": lambda x: +x,
    "x.sum of no axis": lambda x: x.sum(axis=()),
    "x.astype": lambda x: x.astype(float),
    "x.astype without a copy": lambda x: x.astype(float, copy=False),
    "np.array": lambda x: x.copy(),
    "np.copy": lambda x: np.copy(x),
    "np.atleast_1d": lambda x: np.atleast_1d(x),
    "np.expand_dims": lambda x: np.expand_dims(x, 1),
    "np.moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "np.flip": lambda x: np.flip(x, 0),
    "np.rot90": lambda x: np.rot90(x),
    "np.split": lambda x: np.split(x, 2)[1],
    "np.meshgrid": lambda x: np.meshgrid(x[0], x[1], sparse=True)[0],
    "np.meshgrid without a copy": lambda x: np.meshgrid(x[0], x[1], sparse=True, copy=False)[0],
    "np.einsum": lambda x: np.einsum("ij->ji", x),
    "np.take": lambda x: np.take(x, 0, axis=0),
    "an index array": lambda x: x[[0, 1]],
    "an index array without axes": lambda x: x[np.array(1)],
    "iteration": lambda x: next(iter(x)),
}


def kind(make, result):
    """Say how a result is bound to the array that it is made of: which elements a write changes."""
    x = make(np.arange(24.0).reshape(4, 6))
    part = result(x)
    if part is x:
        return "the array itself"
    part[...] = -5.0
    return np.asarray(x).tolist(), np.asarray(part).tolist()


@pytest.mark.parametrize("name", RESULTS)
def test_what_is_a_view_and_what_is_a_copy(name):
    assert kind(ct.array, RESULTS[name]) == kind(np.array, RESULTS[name])


def test_a_reshape_that_must_not_copy():
    x = ct.array(np.ones((4, 6)))
    assert x.reshape(-1, copy=False).base is x
    for wrong in (x.T, x[:, ::2].T):
        with pytest.raises(ValueError, match="reshape: .*copy"):
            wrong.reshape(-1, copy=False)
    with pytest.raises(ValueError, match="reshape: .*copy"):
        np.reshape(x, (8, 3), order="F", copy=False)


def test_elements_named_twice_of_an_array_without_axes():
    for make in (ct.array, np.array):
        x = make(np.array(1.0))
        x.flat[[0, 0]] = [2.0, 3.0]
        assert x == 3.0
        x.put(0, 4.0)
        assert x == 4.0


# --------------------------------------------------------------------------------------------------
# Random programs of views and writes


def random_key(rng, shape):
    key = []
    for n in shape[: rng.randint(0, len(shape))]:
        choice = rng.random()
        if choice < 0.3 and n:
            key.append(rng.randrange(-n, n))
        elif choice < 0.8:
            bounds = rng.choice([None, 0, 1, -1, -2]), rng.choice([None, 2, 3, -1, 5])
            key.append(slice(*bounds, rng.choice([None, 1, 2, -1, -2])))
        elif choice < 0.9 and n:
            key.append(np.array([rng.randrange(-n, n) for _ in range(rng.randint(0, 3))], int))
        elif choice < 0.95 and n:
            key.append(np.array(rng.randrange(-n, n)))
        elif 0 not in shape:
            # Of an array without elements NumPy takes masks that do not fit.
            key.append(np.array([rng.random() < 0.5 for _ in range(n)], bool))
        if rng.random() < 0.1:
            key.append(None)
    if rng.random() < 0.15:
        key.insert(rng.randint(0, len(key)), Ellipsis)
    return tuple(key)


def random_shape(rng, size):
    if size == 0:
        return rng.choice([(0,), (0, 3), (2, 0)])
    shape = []
    while size > 1:
        factor = rng.choice([d for d in range(2, size + 1) if size % d == 0])
        shape.append(factor)
        size //= factor
    if rng.random() < 0.2:
        shape.insert(rng.randint(0, len(shape)), 1)
    return tuple(shape)


def taken(x, key):
    # What NumPy selects by index arrays lies in memory in an order of its own.
    copied = any(isinstance(item, np.ndarray) for item in key)
    return x[key].copy() if copied else x[key]


def write_twice_of_itself(x, key):
    x[key] = np.asarray(x[key]) * 2 + 1


def add_in_place(x, number):
    x += number


def multiply_in_place(x, number):
    x *= number


def add_by_out(x):
    np.add(x, 1, out=x)


def random_step(rng, x):
    """Give a step: a function of an array, whose result, if any, is an array to go on with."""
    key, shape, number = random_key(rng, x.shape), random_shape(rng, x.size), rng.randint(1, 9)
    perm = rng.sample(range(x.ndim), x.ndim)
    steps = {
        f"x[{key}]": lambda x: taken(x, key),
        "x.T": lambda x: x.T,
        f"x.transpose({perm})": lambda x: x.transpose(perm),
        f"x.reshape({shape})": lambda x: x.reshape(shape),
        "x.ravel()": lambda x: x.ravel(),
        "x.squeeze()": lambda x: x.squeeze(),
        "x.copy()": lambda x: x.copy(),
        "x.real": lambda x: x.real,
        "x.imag": lambda x: x.imag if x.dtype.kind == "c" else None,
        f"x[{key}] = {number}": lambda x: x.__setitem__(key, number),
        f"x[{key}] = 2 * x[{key}] + 1": lambda x: write_twice_of_itself(x, key),
        f"x += {number}": lambda x: add_in_place(x, number),
        f"x *= {number}": lambda x: multiply_in_place(x, number),
        f"x.shape = {shape}": lambda x: setattr(x, "shape", shape),
        f"x.real = {number}": lambda x: setattr(x, "real", number),
        f"x.imag = {number}": lambda x: setattr(x, "imag", number),
        f"x.flat[::2] = {number}": lambda x: x.flat.__setitem__(slice(None, None, 2), number),
        "np.add(x, 1, out=x)": lambda x: add_by_out(x),
        "x.sort(axis=0)": lambda x: x.sort(axis=0) if x.dtype.kind != "c" else None,
    }
    name = rng.choice(sorted(steps))
    return name, steps[name]


def outcome(step, x):
    try:
        return step(x)
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        return error


SHAPES = [(24,), (4, 6), (2, 3, 4), (0, 3), (2, 1, 3), (1,), (5, 5), (2, 2, 2, 3)]


@pytest.mark.parametrize("seed", range(300))
def test_random_views_and_writes(seed):
    rng = random.Random(seed)
    start = np.arange(24.0 * 5)[: np.prod(shape := rng.choice(SHAPES))].reshape(shape)
    start = start.astype(rng.choice([float, np.int64, complex, np.float32]))
    ours, theirs, log = [ct.array(start)], [start.copy()], [str(shape)]
    for _ in range(rng.randint(4, 16)):
        k = rng.randrange(len(ours))
        name, step = random_step(rng, theirs[k])
        log.append(f"{k}: {name}")
        a, b = outcome(step, ours[k]), outcome(step, theirs[k])
        assert isinstance(a, Exception) == isinstance(b, Exception), (log, a, b)
        if isinstance(b, np.ndarray):
            ours.append(a)
            theirs.append(b)
        for x, y in zip(ours, theirs, strict=True):
            assert x._rank == "array", log
            assert x.dtype == y.dtype, log
            np.testing.assert_array_equal(np.asarray(x), y, err_msg="; ".join(log), strict=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((3, 3), (8, 4)), "strides .* do not fit"),
        (((3,), (8, 8)), "strides .* do not fit"),
        (((4, 3), (8, 16)), "shape .* goes beyond the elements of"),
        (((2,), (-8,)), "shape .* goes beyond the elements of"),
    ],
)
def test_strides_that_do_not_fit(arguments, message):
    with pytest.raises(ValueError, match=f"as_strided: {message}"):
        ct.gradient(
            lambda x: np.sum(np.lib.stride_tricks.as_strided(x, *arguments)), np.arange(5.0)
        )


def test_strides_between_and_beside_the_elements_of_a_view():
    def between(x):
        return np.sum(np.lib.stride_tricks.as_strided(x[::2], (2,), (8,)) * [2.0, 3.0])

    def toeplitz(x):
        c = np.concatenate([x[::-1], x[1:]])
        return np.sum(np.lib.stride_tricks.as_strided(c[4:], (5, 5), (-8, 8)) @ np.arange(5.0))

    x = np.arange(5.0)
    assert ct.gradient(between, x)[0].tolist() == [2.0, 3.0, 0.0, 0.0, 0.0]
    value, (slope,) = ct.value_and_gradient(toeplitz, x)
    assert value == toeplitz(x)
    assert slope.tolist() == [toeplitz(row) for row in np.eye(5)]
    with pytest.raises(ValueError, match="as_strided: .* goes beyond the elements"):
        ct.gradient(
            lambda x: np.sum(np.lib.stride_tricks.as_strided(x[3:], (2,), (16,))), np.arange(5.0)
        )


@pytest.mark.parametrize(
    ("shape", "arguments"),
    [((5,), ((3, 3), (8, 8))), ((3, 4), ((2, 2, 3), (32, 8, 16))), ((4,), (None, None))],
)
def test_strides(shape, arguments):
    x = np.arange(float(np.prod(shape))).reshape(shape)
    expected = np.lib.stride_tricks.as_strided(x, *arguments)
    seen = []

    def f(x):
        seen.append(np.lib.stride_tricks.as_strided(x, *arguments))
        return np.sum(seen[0] ** 2)

    (g,) = ct.gradient(f, x)
    np.testing.assert_array_equal(np.asarray(ct.dropgrad(seen[0])), expected)
    count = np.bincount(expected.astype(int).ravel(), minlength=x.size)
    np.testing.assert_array_equal(g, 2 * x * count.reshape(shape))


@pytest.mark.parametrize(
    ("make", "ndim"),
    [
        (np.diagonal, 2),
        (lambda x: np.diag(x, 1), 2),
        (lambda x: np.diagonal(x, -1, 2, 0), 3),
        (lambda x: np.linalg.diagonal(x), 3),
        (lambda x: np.diagonal(x.T)[::-1], 2),
        (lambda x: np.broadcast_to(x, (2, *x.shape)), 2),
        (lambda x: np.broadcast_arrays(x, np.zeros((2, *x.shape)))[0], 1),
        (lambda x: np.broadcast_to(x[:, :1], x.shape), 2),
    ],
)
def test_views_that_are_read_only(make, ndim):
    """They see later writes to what they are views of, and take none themselves."""

    def f(x):
        y = x * 1.0
        kept = make(y)
        y[0] = y[-1] * 2.0
        y[..., -1] += 1.0
        return np.sum(kept**3)

    x = np.random.default_rng(0).normal(size=(3, 3, 3)[:ndim])
    value, (g,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(f(x), rel=1e-13)
    step = np.random.default_rng(1).normal(size=x.shape)
    slope = (f(x + 1e-6 * step) - f(x - 1e-6 * step)) / 2e-6
    assert np.sum(g * step) == pytest.approx(slope, rel=1e-6)
    view = make(ct.array(x))
    assert view.base is not None
    with pytest.raises(ValueError, match="read-only"):
        view[...] = 0.0


def test_flags_of_views_that_are_read_only():
    x = ct.array(np.eye(3))
    assert x.flags.writeable
    assert not np.diagonal(x).flags.writeable
    assert not np.broadcast_to(x, (2, 3, 3)).flags.writeable


@pytest.mark.parametrize(
    ("value", "error"), [(np.nan, ValueError), (np.inf, OverflowError), (300, OverflowError)]
)
def test_numbers_that_do_not_fit(value, error):
    for plain in (np.zeros(2, np.uint8), np.zeros(2, np.uint8)[::-1]):
        with pytest.raises(error):
            plain[0] = value
        with pytest.raises(error):
            ct.array(plain)[0] = value


STEPS = [
    lambda v: v[::-1],
    lambda v: v[..., ::-1],
    lambda v: v.T,
    lambda v: v.swapaxes(0, -1),
    lambda v: v[1:-1] if len(v) > 3 else v,
    lambda v: v[::2] if len(v) > 6 else v,
    lambda v: v[None, ..., None] if v.ndim < 4 else v,
    lambda v: v.reshape(-1) if v.flags.c_contiguous else v,
    lambda v: v.reshape(v.shape[::-1]) if v.flags.c_contiguous else v,
    lambda v: v[0] if v.ndim > 1 and len(v) == 1 else v,
    lambda v: v.squeeze() if v.size > 1 else v,
    lambda v: np.diagonal(v)[None] if v.ndim == 2 and min(v.shape) > 6 else v,
]


def walked(x, steps, order):
    """Give a view of a view of a view of an array, and views on the way to it."""
    views, v = [], x
    for step in steps:
        v = STEPS[step](v)
        views.append(v)
    return [views[i] for i in order]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_long_chains_of_views_are_written_through(seed):
    rng = np.random.default_rng(seed)
    steps, order = rng.integers(0, len(STEPS), 200), rng.permutation(200)[:6]
    x = rng.normal(size=tuple(rng.integers(7, 12, 2)))
    scales = rng.normal(size=len(order))

    def program(x):
        x = x.copy()
        for view, scale in zip(walked(x, steps, order), scales, strict=True):
            if view.flags.writeable:
                view[...] *= scale
                view[..., 0] += 1.0
        shown = walked(x, steps, [199])[0]
        return np.sum(np.sin(x)) + np.sum(shown * shown), shown.shape, shown.flags.writeable

    def f(x):
        result, *seen = program(x)
        assert tuple(seen) == expected[1:]
        return result

    expected = program(x)
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(expected[0], rel=1e-12)
    step = rng.normal(size=x.shape)
    slope = (program(x + 1e-6 * step)[0] - program(x - 1e-6 * step)[0]) / 2e-6
    assert np.sum(gradient * step) == pytest.approx(slope, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("step", [lambda v: v[:-1], lambda v: v.T, lambda v: v[::-1].T])
def test_chains_of_views_may_be_as_long_as_they_want(step):
    def f(x):
        v = x * 1.0
        for _ in range(20_000):
            v = step(v)
        v *= 2.0
        return np.sum(v)

    x = np.ones(20_003)
    (gradient,) = ct.gradient(f, x)
    assert np.sum(gradient) == f(x)
