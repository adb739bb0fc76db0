"""Sets among arguments: what they hold is constant, and refused where it could have a gradient."""

import array
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

import cotan as ct

X = np.array([1.0, 2.0, 3.0])
KINDS = [set, frozenset]


@pytest.mark.parametrize("kind", KINDS)
def test_sets_of_what_has_no_derivative_are_constant(kind):
    def chosen(x, names):
        return np.sum(x) if "sum" in names else x[0]

    for call in (ct.gradient, lambda f, *args: ct.prepare(f)(*args)):
        dx, none = call(chosen, X, kind({"sum"}))
        np.testing.assert_array_equal(dx, np.ones(3))
        assert none is None
    for members in ({"a"}, {1, 2}, {(1, "a")}, {frozenset({1})}, {np.int64(2)}, set()):
        found, none = ct.gradient(lambda x, s: np.sum(x) * len(s), X, kind(members))
        np.testing.assert_array_equal(found, np.full(3, len(members)))
        assert none is None
        nested = {"x": X, "s": [kind(members)]}
        (found,) = ct.gradient(lambda p: np.sum(p["x"]) * len(p["s"][0]), nested)
        np.testing.assert_array_equal(found["x"], np.full(3, len(members)))


@dataclass
class Model:
    x: np.ndarray
    rates: set = field(default_factory=set)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "member",
    [0.5, 1j, np.float32(0.5), (1, 0.5), Fraction(1, 2), frozenset({0.5})],
    ids=lambda m: repr(m),
)
def test_sets_of_numbers_are_refused_by_name(kind, member):
    members = kind({member, "a"})
    name = kind.__name__
    with pytest.raises(ct.NotDifferentiableError, match=rf"s is a {name}.*list\(s\)"):
        ct.gradient(lambda x, s: np.sum(x), X, members)
    with pytest.raises(ct.NotDifferentiableError, match=rf"p.rates is a {name}"):
        ct.grad(lambda p: np.sum(p["x"]))({"x": X, "rates": members})
    with pytest.raises(ct.NotDifferentiableError, match=rf"p.rates is a {name}"):
        ct.prepare(lambda p: np.sum(p.x))(Model(X, members))


@pytest.mark.parametrize("kind", KINDS)
def test_they_can_be_held_constant(kind):
    rates = kind({0.5, 2.0})
    scaled = lambda x, s: np.sum(x) * sum(s)
    for found in (
        ct.gradient(scaled, X, ct.const(rates)),
        ct.gradient(scaled, X, rates, wrt="x"),
        ct.gradient(scaled, X, s=rates),
        (ct.grad(scaled)(X, rates),),
        (ct.grad(lambda p: scaled(p.x, p.rates), wrt="p.x")(Model(X, rates))[0].x,),
    ):
        np.testing.assert_array_equal(found[0], np.full(3, 2.5))


@pytest.mark.parametrize(
    ("made", "change"),
    [
        (lambda: {"a"}, lambda s: s.add("b")),
        (lambda: bytearray(b"a"), lambda s: s.append(98)),
        (lambda: array.array("i", [1]), lambda s: s.append(2)),
    ],
    ids=["set", "bytearray", "array"],
)
def test_what_changes_is_recorded_anew(made, change):
    forms = {
        "constant": (lambda s: ct.const(s), len),
        "list": (lambda s: ct.const([s]), lambda p: len(p[0])),
        "dictionary": (lambda s: {"x": X, "kept": [s]}, lambda p: len(p["kept"][0])),
        "object": (lambda s: Model(X, s), lambda p: len(p.rates)),
    }
    for form, size in forms.values():
        content = made()
        prepared = ct.prepare(lambda x, p, size=size: np.sum(x) * size(p))
        for count in (1, 2):
            for _ in range(2):
                found = prepared(X, form(content))[0]
                np.testing.assert_array_equal(found, np.full(3, count))
            change(content)
        assert prepared.num_recordings == 2
    content = made()
    prepared = ct.prepare(lambda x, *, p: np.sum(x) * len(p))
    np.testing.assert_array_equal(prepared(X, p=content)[0], np.ones(3))
    change(content)
    np.testing.assert_array_equal(prepared(X, p=content)[0], np.full(3, 2.0))


def test_a_function_that_changes_a_set_is_not_prepared():
    def noting(x, seen):
        seen.add("called")
        return np.sum(x)

    with pytest.raises(TypeError, match="changes a set among the arguments while it runs"):
        ct.prepare(noting)(X, set())
