"""What objects lead to: edges of each kind, names in code, and how far a walk goes."""

import functools
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from contextvars import ContextVar

import numpy as np
import pytest

from cotan._src.state.object_graph import (
    CodeNames,
    EdgeKind,
    Policy,
    Walk,
    cell_edges,
    is_iterator,
    members_of,
    named_edges,
)

TABLE = [object()]


class Everything(Policy):
    """Enters all but classes and modules."""

    def is_library(self, home):
        return home == "a_library"

    def enters(self, value):
        return not issubclass(type(value), (type, types.ModuleType))


class Leaf:
    pass


class Slotted:
    __slots__ = ("leaf", "unset")


class Hostile:
    """Runs code when it is looked at, which a walk must not do."""

    def __init__(self, leaf):
        object.__setattr__(self, "leaf", leaf)

    def __getattribute__(self, name):
        raise AssertionError(name)

    __len__ = __iter__ = __eq__ = __getattribute__
    __hash__ = None


class HostileList(list):
    def __iter__(self):
        raise AssertionError

    __len__ = __iter__


def reached(*roots, policy=None):
    return [value for value, _ in Walk(policy or Everything()).objects(roots)]


def edges(value):
    policy = Everything()
    return list(policy.edges(value, policy.traits_of(type(value))))


def make_function(leaf):
    def inner(a=TABLE, *, b=leaf):
        return leaf, TABLE, a, b

    return inner


def slotted(leaf):
    made = Slotted()
    made.leaf = leaf
    return made


def with_attribute(leaf):
    made = Leaf()
    made.leaf = leaf
    return made


def context_variable(leaf):
    variable = ContextVar("variable")
    variable.set(leaf)
    return variable


def objects(leaf):
    made = np.empty((2, 2), object)
    made[1, 0] = leaf
    return made[:, :1]


@pytest.mark.parametrize(
    "hold",
    [
        make_function,
        slotted,
        with_attribute,
        objects,
        Hostile,
        lambda leaf: HostileList([leaf]),
        lambda leaf: (1, [2, {"a": {3: (leaf,)}}]),
        lambda leaf: deque([{leaf}, frozenset([1])]),
        lambda leaf: OrderedDict(a=defaultdict(lambda: leaf)),
        lambda leaf: functools.partial(print, leaf),
        lambda leaf: functools.partial(print, end=leaf),
        lambda leaf: types.MethodType(print, leaf),
        context_variable,
        lambda leaf: types.SimpleNamespace(a=property(lambda _: leaf)),
        lambda leaf: [staticmethod(lambda: leaf), classmethod(lambda _: None)],
    ],
)
def test_what_is_held_is_reached_and_no_code_of_the_holder_runs(hold):
    leaf = Leaf()
    assert any(value is leaf for value in reached(hold(leaf)))


def test_weak_references_lead_to_what_lives():
    leaf = Leaf()
    ref = weakref.ref(leaf)
    assert any(value is leaf for value in reached(ref))
    del leaf
    assert reached(ref) == [ref]


def test_edges_name_the_container_that_holds_the_value():
    leaf = Leaf()
    function = make_function(leaf)
    found = {(e.kind, e.key): e for e in edges(function)}
    (name,) = function.__code__.co_freevars
    cell = found[EdgeKind.CELL, name]
    assert cell.owner is function.__closure__[0]
    assert cell.value is leaf
    table = found[EdgeKind.GLOBAL, "TABLE"]
    assert table.owner is globals()
    assert table.value is TABLE
    assert found[EdgeKind.DEFAULT, "__defaults__"].value == (TABLE,)
    assert found[EdgeKind.DEFAULT, "__kwdefaults__"].value == {"b": leaf}
    owner, _, key, value = next(e for e in edges({"a": leaf}) if e.kind is EdgeKind.ITEM)
    assert owner[key] is value
    owner, _, key, value = next(e for e in edges(slotted(leaf)) if e.kind is EdgeKind.SLOT)
    assert key.__get__(owner) is value


def test_unbound_variables_and_atoms_are_left_out():
    def make():
        def inner():
            return later

        if TABLE is None:
            later = 1
        return inner

    assert list(cell_edges(make())) == []
    assert [e.kind for e in edges([1, 2.0, "three"])] == [EdgeKind.CLASS]
    assert list(named_edges({"a": 1}, EdgeKind.GLOBAL, ["b", "a"])) == [
        ({"a": 1}, EdgeKind.GLOBAL, "a", 1)
    ]


def test_globals_of_libraries_are_not_followed():
    function = types.FunctionType(
        make_function(1).__code__, {"__name__": "a_library", "TABLE": TABLE}, closure=(
            types.CellType(1),)
    )  # fmt: skip
    assert not any(e.kind is EdgeKind.GLOBAL for e in edges(function))


def test_walks_are_bounded_nearest_first_and_see_each_object_once():
    class Few(Everything):
        bound = 3
        longest = 4

    root = [[["far"], Leaf()], [Leaf()]]
    root.append(root)
    assert reached(root, policy=Few()) == [root, root[0], root[1]]
    assert reached([Leaf()] * 5, policy=Few())[1:] == []
    assert len(reached([Leaf()] * 5)) == 2


def test_objects_apart_are_not_entered_and_walks_go_on():
    apart, later = with_attribute(Leaf()), Leaf()
    walk = Walk(Everything(), apart=(apart,))
    assert [v for v, _ in walk.objects([apart])] == []
    assert [v for v, _ in walk.objects([apart, later])] == [later]
    assert [v for v, _ in walk.objects([later])] == []


def test_objects_stay_alive_with_the_walk():
    walk, made = Walk(Everything()), Leaf()
    ref = weakref.ref(made)
    list(walk.objects([made]))
    del made
    assert ref() is not None


def test_names_in_code():
    def outer(x):
        def inner():
            global ASSIGNED  # noqa: PLW0603
            ASSIGNED = getattr(x, "attribute", None)
            x.other = "no name"

        try:
            return inner
        except AttributeError:
            return None

    names = CodeNames.of(outer.__code__)
    assert {"ASSIGNED", "getattr", "other", "AttributeError"} <= names.names.keys()
    assert list(names.names) == sorted(names.names)
    assert names.assigned == {"ASSIGNED"}
    assert names.sets_attributes
    assert {"attribute", "except"} <= names.mentioned
    assert "no name" not in names.mentioned
    assert not CodeNames.of((lambda x: x.y).__code__).sets_attributes


def test_members_and_iterators():
    leaf = with_attribute(1)
    assert members_of(leaf) is vars(leaf)
    assert members_of(3) is members_of(np.ones(2)) is members_of(Slotted()) is None
    assert is_iterator(iter([]))
    assert is_iterator(i for i in ())
    assert not is_iterator([])
