"""Numbers on the left of sequences of the user's own classes: Python asks the sequence."""

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
