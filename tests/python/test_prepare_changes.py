"""Prepared functions: changes around them are noticed, and rows are where they were."""

from collections import deque

import numpy as np
import pytest

import cotan as ct


class Settings:
    factor = 1.0
    __slots__ = ("__dict__", "slot")

    @classmethod
    def scaled(cls, x):
        return cls.factor * x

    @staticmethod
    def act(x):
        return x


def attributed(x):
    return x * attributed.factor


def with_default(x, factor=1.0):
    return x * factor


def changes():
    """Functions of x, and changes after which they give 5 x."""
    thing, cls = Settings(), type("Mine", (Settings,), {"__slots__": ()})
    mine = cls()
    thing.slot = 1.0
    thing.plain = 1.0
    attributed.factor = 1.0
    with_default.__defaults__ = (1.0,)
    words, numbers, group, queue = {"a": 1.0}, {1: 1.0}, {1}, deque([1.0])
    return {
        "attribute of a class": (lambda x: x * mine.factor, lambda: setattr(cls, "factor", 5.0)),
        "class method": (lambda x: mine.scaled(x), lambda: setattr(cls, "factor", 5.0)),
        "static method": (
            lambda x: mine.act(x),
            lambda: setattr(cls, "act", staticmethod(lambda x: 5 * x)),
        ),
        "slot": (lambda x: x * thing.slot, lambda: setattr(thing, "slot", 5.0)),
        "literal name": (
            lambda x: x * vars(thing)["plain"],
            lambda: setattr(thing, "plain", 5.0),
        ),
        "attribute that appears": (
            lambda x: 5 * x if hasattr(thing, "late") else x,
            lambda: setattr(thing, "late", 1),
        ),
        "attribute of a function": (attributed, lambda: setattr(attributed, "factor", 5.0)),
        "default": (
            lambda x: with_default(x),
            lambda: setattr(with_default, "__defaults__", (5.0,)),
        ),
        "new key": (lambda x: sum(x * v for v in words.values()), lambda: words.update(b=4.0)),
        "number as key": (lambda x: x * numbers[1], lambda: numbers.update({1: 5.0})),
        "set": (lambda x: x * len(group), lambda: group.update((2, 3, 4, 5))),
        "deque": (lambda x: x * queue[0], lambda: queue.__setitem__(0, 5.0)),
    }


@pytest.mark.parametrize("name", changes())
def test_changes_are_noticed(name):
    f, change = changes()[name]
    g = ct.prepare(f, 1.0)
    assert g(2.0) == (1.0,)
    change()
    assert g(2.0) == (5.0,)
    assert ct.gradient(f, 2.0) == (5.0,)


def test_iterators_from_outside_are_refused():
    numbers = iter([1.0, 2.0])
    with pytest.raises(TypeError, match="iterator from outside"):
        ct.prepare(lambda x: x * next(numbers), 1.0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_rows_with_an_element_for_each_row(dtype):
    column = np.array([[1.0], [10.0], [100.0]]).astype(dtype)
    x = np.array([[0.0, 1.0], [2.0, 3.0], [5.0, 4.0]]).astype(dtype)

    def f(x):
        return np.sum((column * np.log(np.sum(np.exp(x), axis=-1, keepdims=True))).real)

    g = ct.prepare(f)
    for factor in (1, 2, 3):
        got, want = g(factor * x)[0], ct.gradient(f, factor * x)[0]
        np.testing.assert_allclose(got, want, rtol=1e-5)
