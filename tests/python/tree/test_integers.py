"""Integers of Python: numbers beside floats and where an argument has no others, else data."""

import enum
import uuid
from collections import namedtuple
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Annotated, NamedTuple, Optional

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cotan as ct
from cotan._src.tree.annotations import annotated_numbers


@dataclass
class Circle:
    radius: float = 1
    scale: float = 2.0


@dataclass
class Polygon:
    side: float = 1.5
    corners: int = 3


@dataclass
class Texts:
    width: "float | None" = 2
    center: "tuple[float, float]" = (1, 2)
    missing: "no.such.module.Name" = 3  # noqa: F821
    grid: "tuple[int, int]" = (4, 5)
    rate: float = 0.5


class Plain:
    def __init__(self, x, y):
        self.x, self.y = x, y


class Pair(NamedTuple):
    x: float
    n: int


Untyped = namedtuple("Untyped", "x y")  # noqa: PYI024


class Mode(enum.IntEnum):
    FAST = 1


def numbers(tree):
    """Collect all numbers in nested sequences."""
    if isinstance(tree, (list, tuple)):
        return [x for part in tree for x in numbers(part)]
    return [tree]


def sum_of_squares(tree):
    return sum(x * x for x in numbers(tree))


sequences = st.recursive(
    st.integers(-9, 9) | st.floats(-9, 9),
    lambda parts: st.lists(parts, min_size=1, max_size=3) | st.tuples(parts, parts),
    max_leaves=8,
)


@given(sequences)
def test_numbers_in_sequences_all_have_gradients(tree):
    (g,) = ct.gradient(sum_of_squares, tree)
    assert numbers(g) == [2.0 * x for x in numbers(tree)]
    assert all(type(x) is float for x in numbers(g))


@given(sequences)
def test_integers_give_the_gradient_of_the_floats_that_they_equal(tree):
    def floats(part):
        return type(part)(map(floats, part)) if isinstance(part, (list, tuple)) else float(part)

    assert ct.gradient(sum_of_squares, tree) == ct.gradient(sum_of_squares, floats(tree))


@given(st.dictionaries(st.text("ab", min_size=1), st.integers(-9, 9), min_size=1))
def test_the_only_numbers_of_a_dictionary_are_floats(tree):
    (g,) = ct.gradient(lambda d: sum(x * x for x in d.values()), tree)
    assert g == {key: 2.0 * x for key, x in tree.items()}


@pytest.mark.parametrize("make", [Plain, Untyped, lambda x, y: SimpleNamespace(x=x, y=y)])
def test_the_only_numbers_of_an_object_are_floats(make):
    (g,) = ct.gradient(lambda p: p.x * p.x + p.y * p.x, make(1, 2))
    assert (g.x, g.y) == (4.0, 1.0)
    (g,) = ct.gradient(lambda p: p.x * p.x + p.y * p.x, make(1.0, 2))
    assert (g.x, g.y) == (4.0, None)


def test_fields_are_what_their_annotations_say():
    (g,) = ct.gradient(lambda c: c.radius**2 * c.scale, Circle())
    assert (g.radius, g.scale) == (4.0, 1.0)
    (g,) = ct.gradient(lambda p: p.side * p.corners, Polygon())
    assert (g.side, g.corners) == (3.0, None)
    (g,) = ct.gradient(lambda p: p.x * p.n, Pair(2, 3))
    assert (g.x, g.n) == (3.0, None)
    (g,) = ct.gradient(
        lambda t: t.width * t.center[1] * t.rate * len(range(*t.grid)) + t.missing, Texts()
    )
    assert g.width == 1.0
    assert g.center[1] == 1.0
    assert g.grid in (None, (None, None))
    assert g.missing is None


def test_annotations_are_read_as_text():
    class Annotations:
        a: Optional[float]  # noqa: UP045
        b: Annotated[int, float]
        c: "list[np.float64]"
        d: "Callable[[int], float]"  # noqa: F821
        e: dict[int, complex]
        f: "not python !"  # noqa: F722
        g: str

    assert annotated_numbers(Annotations) == {"a": True, "b": False, "c": True, "e": True}


def test_a_subclass_may_say_otherwise():
    @dataclass
    class Counted(Circle):
        radius: int = 3

    (g,) = ct.gradient(lambda c: c.radius * c.scale, Counted())
    assert (g.radius, g.scale) == (None, 3.0)


def test_a_declared_integer_is_a_number():
    class Declared:
        __trainable__ = ("steps",)

        def __init__(self):
            self.steps, self.rate = 3, 0.5

    (g,) = ct.gradient(lambda d: d.steps * d.rate, Declared())
    assert (g.steps, g.rate) == (0.5, None)


def test_integers_beside_arrays_and_in_dictionaries_beside_floats_are_data():
    x = np.array([1.0, 2.0])
    assert ct.gradient(lambda p: np.sum(p[0]) * p[1], (x, 3))[0][1] is None
    (g,) = ct.gradient(lambda d: d["x"] * len(range(d["n"])), {"x": 2.0, "n": 3})
    assert g == {"x": 3.0, "n": None}


def test_what_is_no_plain_integer_stays_what_it_is():
    def f(p):
        assert p[1] is Mode.FAST and p[2] is True and p[3] == "a"
        return p[0] * p[1]

    assert ct.gradient(f, [2.0, Mode.FAST, True, "a"]) == ([1.0, None, None, None],)
    token = uuid.UUID(int=5)
    with pytest.raises(TypeError, match="token"):
        ct.gradient(lambda x, token: x * token.int, 2.0, token)


def test_a_fraction_is_refused_and_not_taken_apart():
    with pytest.raises(ct.NotDifferentiableError, match=r"float\(x\)"):
        ct.gradient(lambda x: x * x, Fraction(1, 2))
    with pytest.raises(ct.NotDifferentiableError, match=r"x\[1\] is a fractions.Fraction"):
        ct.gradient(lambda x: x[0] * x[1], [1.0, Fraction(1, 2)])


def test_nested_gradients_see_the_same_numbers():
    def inner(p):
        (g,) = ct.gradient(lambda p: p[0] ** 2 * p[1] ** 3, p)
        return g[0] * g[1]

    want = ct.gradient(inner, [1.0, 2.0])
    assert ct.gradient(inner, [1, 2]) == want
    assert ct.gradient(inner, [1.0, 2]) == want


def test_prepared_functions_take_the_same_numbers():
    prepared = ct.prepare(lambda p: p[0] ** 2 * p[1], [1.0, 2])
    assert prepared([1.0, 2]) == ([4.0, 1.0],)
    assert prepared([3, 5]) == ([30.0, 9.0],)
    assert prepared.num_recordings == 1
    point = ct.prepare(lambda p: p.x * p.y, Plain(1, 2))
    assert point(Plain(3, 4))[0].x == 4.0
    # Nothing is differentiated: integers stay integers.
    total = ct.prepare(lambda p: (sum(p), p), transform="value")
    assert total([1, 2]) == (3, [1, 2])
    assert type(total([1, 2])[0]) is int


def test_updates_reach_the_numbers_that_have_gradients():
    point = Plain(1, 2)
    (g,) = ct.gradient(lambda p: p.x * p.y, point)
    new = ct.update(point, g, lambda p, d: p - 0.5 * d)
    assert (new.x, new.y) == (0.0, 1.5)
    assert ct.update([1.5, 2], [1.0, 1.0], lambda p, d: p + d) == [2.5, 3.0]
    assert ct.trainable_leaves([1.5, 2]) == {"[0]": 1.5, "[1]": 2}
    assert ct.trainable_leaves(Polygon()) == {"side": 1.5}


def test_masks_reach_them():
    assert ct.gradient(lambda p: p[0] * p[1], [2.0, 3], wrt="p[1]") == ([None, 2.0],)
    assert ct.gradient(lambda p: p[0] * p[1], [2.0, 3], wrt=([False, True],)) == ([None, 2.0],)


def test_constants_keep_their_class():
    def f(x, n, shape):
        assert type(n) is int and all(type(k) is int for k in shape)
        return np.sum(np.ones(shape) * x) * n

    x = np.ones((2, 3))
    g, none, _ = ct.gradient(f, x, ct.const(2), ct.const((2, 3)))
    np.testing.assert_array_equal(g, 2 * x)
    assert none is None
