"""Numbers beside sequences of the user's own classes, which Python asks, and beside fractions."""

import operator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import cotan as ct


class Vec(NamedTuple):
    x: Any
    y: Any

    def __add__(self, other):
        return Vec(self.x + other.x, self.y + other.y)

    def __radd__(self, k):
        return Vec(k + self.x, k + self.y)

    def __mul__(self, k):
        return Vec(self.x * k, self.y * k)

    __rmul__ = __mul__

    def __rsub__(self, k):
        return Vec(k - self.x, k - self.y)

    def __rtruediv__(self, k):
        return Vec(k / self.x, k / self.y)

    def __rpow__(self, k):
        return Vec(k**self.x, k**self.y)

    def __gt__(self, k):
        return self.x > k


class Poly(list):
    def __radd__(self, other):
        return Poly([other + self[0], *self[1:]])

    def __call__(self, t):
        return sum(c * t**k for k, c in enumerate(self))


CASES = {
    "product": lambda x: (x * Vec(1.0, 2.0)).y,
    "product of a sum": lambda x: (3 * (x * Vec(1.0, x) + Vec(x, x))).y,
    "sum": lambda x: (x + Vec(1.0, 2.0)).x ** 2,
    "difference": lambda x: (x - Vec(1.0, 2.0)).y ** 2,
    "quotient": lambda x: (x / Vec(1.0, 2.0)).y,
    "power": lambda x: (x ** Vec(1.0, 2.0)).y,
    "comparison": lambda x: x**2 if x < Vec(2.0, 0.0) else x**3,
    "polynomial": lambda x: (x + Poly([1.0, 2.0]))(0.5) ** 2,
    "in place": lambda x: plus(x, Vec(1.0, 2.0)).y ** 2,
}


def plus(x, v):
    x += v
    return x


@pytest.mark.parametrize("name", CASES)
def test_the_sequence_is_asked(name):
    f, x, h = CASES[name], 1.5, 1e-6
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == f(x)
    np.testing.assert_allclose(gradient, (f(x + h) - f(x - h)) / (2 * h), rtol=1e-8)
    np.testing.assert_allclose(ct.prepare(f)(x), [gradient])


def test_sequences_without_the_operator_are_refused_as_by_python():
    class Plain(tuple):
        __slots__ = ()

    with pytest.raises(TypeError, match="cannot repeat a Plain by a number"):
        ct.gradient(lambda x: x * Plain((1.0, 2.0)), 1.5)


def test_numbers_of_numpy_make_arrays_of_sequences():
    f = lambda x: np.sum(np.float64(x) * Vec(1.0, 2.0))
    assert ct.gradient(f, 1.5) == (3.0,)


HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    "decide",
    [
        lambda x: x > HALF,
        lambda x: x >= HALF,
        lambda x: x < HALF,
        lambda x: x == HALF,
        lambda x: x != HALF,
        lambda x: x in (HALF, 3),
        lambda x: max(x, HALF) is HALF,
    ],
)
def test_fractions_are_compared_with_traced_numbers(decide):
    def f(x):
        return x * x if decide(x) else 7 * x

    for x in (0.25, 0.5, 0.75, np.inf):
        (gradient,) = ct.gradient(f, x)
        assert gradient == (2 * x if decide(x) else 7.0)
        (gradient,) = ct.gradient(lambda v: f(v[0]), np.array([x]))
        assert gradient[0] == (2 * x if decide(x) else 7.0)


def test_a_fraction_is_not_made_of_a_traced_number():
    for make in (Fraction, Fraction.from_float):
        with pytest.raises(ct.NotDifferentiableError, match="as_integer_ratio"):
            ct.gradient(lambda x: float(make(x)) * x, 0.5)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(x * HALF),
        lambda x: np.sum(HALF / x),
        lambda x: np.sum(np.maximum(x, HALF)),
    ],
)
def test_errors_say_how_to_write_fractions_beside_arrays(f):
    with pytest.raises(TypeError, match=r"write float\(c\) in the place of c"):
        ct.gradient(f, np.array([0.3, 0.7]))


def test_arrays_and_their_elements_are_compared_with_rationals():
    def f(x):
        chosen = np.sum(x[x > HALF] ** 2)
        return chosen * 2 if x[0] < Decimal("0.5") else chosen

    x = np.array([0.3, 0.7])
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == f(x)
    np.testing.assert_allclose(gradient, [0.0, 2.8])


@pytest.mark.parametrize(
    "other",
    [
        Fraction(3, 2),
        Decimal("1.5"),
        {},
        set(),
        slice(1),
        memoryview(np.array([1.5, 2.5])),
    ],
    ids=lambda other: type(other).__name__,
)
def test_objects_with_an_equality_of_their_own_are_compared_with_each_element(other):
    x = np.array([1.5, 2.5])
    for compare in (operator.eq, operator.ne):
        found = ct.pullback(lambda x: compare(x, other), x)[0]
        np.testing.assert_array_equal(found, compare(x, other))


class Price(Decimal):
    pass


@pytest.mark.parametrize(
    "bound", [Decimal("1.5"), Price("1.5"), Fraction(3, 2)], ids=lambda b: type(b).__name__
)
def test_a_number_that_equals_a_rational(bound):
    def f(x):
        return x * x if x == bound else 7 * x

    assert ct.gradient(f, 1.5) == (3.0,)
    g = ct.prepare(f, 1.5)
    for x in (1.5, *np.linspace(2.0, 3.0, 20), 1.5):
        assert g(float(x)) == ct.gradient(f, float(x))
    assert g.num_recordings <= 2


@pytest.mark.parametrize(
    "bound",
    [
        *(Fraction(1, 3), Decimal("0.1"), Fraction(10**400), -Fraction(10**400), Fraction(3, 2)),
        *(Decimal("Infinity"), Decimal("1e-400")),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_rationals_are_compared_by_their_exact_values(name, bound):
    compare = getattr(operator, name)
    near = 1 / 3 if bound == Fraction(1, 3) else 0.1
    numbers = [0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, near, np.nextafter(near, 1), -1e308]
    for number in map(float, numbers):
        if name[0] in "lg" and isinstance(bound, Decimal) and np.isnan(number):
            continue  # `decimal.InvalidOperation` in Python
        seen = []

        def f(x):
            seen.append(bool(compare(x, bound)))
            return x

        ct.gradient(f, number)
        assert seen == [compare(number, bound)], number


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_a_fraction_on_the_left_in_a_prepared_function(name):
    compare = getattr(operator, name)

    def f(x):
        return x * x if compare(Fraction(3, 2), x) else 7 * x

    g = ct.prepare(f, 1.0)
    for x in (1.0, 2.0, 1.5, np.nextafter(1.5, 2), 3.0, 0.5):
        assert g(float(x)) == ct.gradient(f, float(x)) == ((2 * x if f(x) == x * x else 7.0),)
    assert g.num_recordings <= 3


class _Vector:
    """Components that come first in arithmetic, and are an array for whoever asks."""

    __array_priority__ = 1000

    def __init__(self, *components):
        self.components = components

    def __array__(self, dtype=None, copy=None):
        return np.array(self.components, dtype=dtype)

    def __radd__(self, other):
        return _Vector(*(other[i] + c for i, c in enumerate(self.components)))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.sin(np.asarray(_Vector(x[0], x[1])))),
        lambda x: np.sum(np.sin(_Vector(x[0], x[1]))),
        lambda x: np.dot(_Vector(x[0], x[1]), x),
        lambda x: np.sum(np.multiply(x, _Vector(x[1], x[0]))),
        lambda x: (x + _Vector(x[0], x[1])).components[0] ** 2,
    ],
)
def test_what_comes_first_in_arithmetic_is_an_array_for_functions(f):
    x = np.array([1.0, 2.0])
    step = 1e-6
    slopes = [(f(x + d) - f(x - d)) / (2 * step) for d in step * np.eye(2)]
    value, (found,) = ct.value_and_gradient(f, x)
    np.testing.assert_allclose(value, f(x), rtol=1e-14)
    np.testing.assert_allclose(found, slopes, rtol=1e-8)
