"""NumPy's functions on lists: nested lists of traced scalars give what arrays give."""

import numpy as np
import pytest
from numpy_cases import INPUTS, leaves, parameters, quiet
from test_numpy_functions import CASES

import cotan as ct


def nested(x):
    return [nested(item) for item in x] if np.ndim(x) else x


def squared(outputs):
    """Give a number made of everything that has a derivative."""
    total = 0.0
    for out in leaves(outputs):
        if getattr(out, "dtype", np.dtype(int)).kind in "fc":
            total = total + np.nansum(np.abs(out) ** 2)
    return total


def takes_lists(f):
    inputs = [INPUTS[name] for name in parameters(f)]
    try:
        quiet(f, *map(nested, inputs))
    except Exception:  # noqa: BLE001 - whatever NumPy has against lists
        return False
    return any(a.dtype == np.float64 and a.ndim and a.size for a in inputs)


ON_LISTS = {
    f"{name}-{i}": f for name, fs in CASES.items() for i, f in enumerate(fs) if takes_lists(f)
}


@pytest.mark.parametrize("name", ON_LISTS)
def test_lists_of_traced_numbers(name):
    f = ON_LISTS[name]
    inputs = [INPUTS[key] for key in parameters(f)]
    places = [i for i, a in enumerate(inputs) if a.dtype == np.float64 and a.ndim and a.size]
    given = [inputs[i] for i in places]
    found = []

    def on_lists(*xs):
        args = list(map(nested, inputs))
        for i, x in zip(places, xs, strict=True):
            args[i] = nested(x)
        outputs = quiet(f, *args)
        found[:] = leaves(outputs)
        return squared(outputs)

    def on_arrays(*xs):
        args = [np.copy(a) for a in inputs]
        for i, x in zip(places, xs, strict=True):
            args[i] = x
        return squared(quiet(f, *args))

    slopes = ct.gradient(on_lists, *given)
    expected = list(leaves(quiet(f, *map(nested, inputs))))
    assert len(found) == len(expected)
    for ours, numpys in zip(found, expected, strict=True):
        value = np.asarray(ct.dropgrad(ours) if isinstance(ours, ct.Array) else ours)
        assert value.dtype == np.asarray(numpys).dtype and value.shape == np.shape(numpys)
        if value.dtype.kind in "biufc":
            np.testing.assert_allclose(value, numpys, rtol=1e-6, atol=1e-9)
    # Some mean another thing by a list: `x * 2`, a length that is asked for with `len`.
    try:
        means_the_same = np.isclose(on_arrays(*given), squared([np.asarray(e) for e in expected]))
    except Exception:  # noqa: BLE001 - written for lists
        return
    if not means_the_same:
        return
    for ours, arrays in zip(slopes, ct.gradient(on_arrays, *given), strict=True):
        if arrays is not None:
            np.testing.assert_allclose(0.0 if ours is None else ours, arrays, rtol=1e-6, atol=1e-9)


def test_making_arrays_like_lists():
    def f(x):
        with pytest.raises(TypeError, match="Field elements"):
            np.result_type([x, 1.0], np.float32)
        assert np.zeros_like(a=[x, x]).shape == (2,)
        return np.full_like([x, 2.0], x).sum()

    assert ct.gradient(f, 3.0) == (2.0,)


@pytest.mark.parametrize("make", [np.array, np.asarray, np.stack, np.sum, np.max, np.dot])
def test_lists_that_contain_themselves_are_refused(make):
    def f(x):
        items = [x, 1.0]
        items.append(items)
        return np.sum(make(items) if make is not np.dot else make(items, x))

    with pytest.raises((ValueError, TypeError)):
        ct.gradient(f, 2.0)
    deep = [1.0]
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested"):
        ct.array([ct.array(1.0), deep])


@pytest.mark.parametrize(
    "write",
    [
        lambda y, x: np.put(y, [0], [x[0]]),
        lambda y, x: np.place(y, y > 3, [x[0]]),
        lambda y, x: np.putmask(y, y > 3, [x[0], x[0]]),
        lambda y, x: np.copyto(y, [x[0], 1.0]),
    ],
)
def test_a_list_is_not_written_into_a_plain_array_in_silence(write):
    table = np.array([1.0, 2.0])

    def f(x):
        y = table * 2
        write(y, x)
        return np.sum(y)

    with pytest.raises(ct.NotDifferentiableError, match="would drop the gradient"):
        ct.gradient(f, np.array([5.0, 6.0]))


@pytest.mark.parametrize("kind", [list, tuple])
def test_coordinates_in_a_list_at_equal_distances(kind):
    values, at = np.array([0.3, 1.2, 0.7, 2.1]), np.arange(4.0)
    f = lambda p: np.sum(np.gradient(values, p) ** 2)
    found = ct.gradient(lambda p: f(kind(p)), at)[0]
    expected = [(f(at + h) - f(at - h)) / 2e-6 for h in 1e-6 * np.eye(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_copies_of_constant_scalars_are_scalars():
    def f(x):
        t = np.mean([1.0, 2.0]).copy()
        u = t
        u += 1
        return t + x

    assert ct.value_and_gradient(f, 1.0)[0] == f(1.0) == 2.5
