"""Abstract classes: `isinstance(x, Iterable)` and the like answer as for NumPy's own results."""

import collections.abc as abc
import numbers

import numpy as np
import pytest

import cotan as ct

X = np.array([1.0, 2.0, 3.0])

CLASSES = [
    *(abc.Iterable, abc.Sized, abc.Container, abc.Collection, abc.Reversible, abc.Sequence),
    *(abc.MutableSequence, abc.Iterator, abc.Callable, abc.Mapping, abc.Set),
    *(numbers.Number, numbers.Complex, numbers.Real, numbers.Rational, numbers.Integral),
]

RESULTS = {
    "array": lambda x: x * 2,
    "sum": np.sum,
    "element": lambda x: x[0],
    "product of numbers": lambda x: 2.0 * x[1],
    "0-d array": lambda x: np.asarray(x[0]),
    "reshaped": lambda x: x[:1].reshape(()),
    "position": np.argmax,
    "comparison": lambda x: x[0] > 0,
    "comparisons": lambda x: x > 0,
    "complex": lambda x: x[0] * 1j,
    "single": lambda x: x.astype(np.float32)[0],
}


@pytest.mark.parametrize("name", RESULTS)
def test_results(name):
    found, expected = [], RESULTS[name](X)

    def f(x):
        found.append(RESULTS[name](x))
        return np.sum(x)

    ct.gradient(f, X)
    for kind in CLASSES:
        assert isinstance(found[0], kind) == isinstance(expected, kind), kind


@pytest.mark.parametrize("value", [1.0, np.float64(1.0), np.float32(1.0), 1j, X, np.array(1.0)])
def test_arguments(value):
    found = []

    def f(x):
        found.append([isinstance(x, kind) for kind in CLASSES])
        return np.sum(x).real * 1.0

    ct.gradient(f, value)
    assert found == [[isinstance(value, kind) for kind in CLASSES]]


def test_code_that_asks():
    def total(x):
        return sum(map(total, x)) if isinstance(x, abc.Iterable) else x**2

    np.testing.assert_array_equal(ct.grad(total)(X), 2 * X)
    assert ct.grad(total)(3.0) == 6.0
    assert ct.prepare(total)(3.0) == (6.0,)


def test_scalars_have_no_elements():
    def refused(call):
        def f(x):
            call(np.sum(x))
            return np.sum(x)

        return f

    for call, message in (
        (len, r"object of type 'float64' has no len\(\)"),
        # Python 3.14 says it in its own words.
        (lambda s: 1.0 in s, r"argument of type '\S*' is not (a container or )?iterable"),
    ):
        with pytest.raises(TypeError, match=message):
            ct.gradient(refused(call), X)
