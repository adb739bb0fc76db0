"""Objects of any kind are taken apart and put together; gradients have the shape of the object."""

import abc
import collections
import dataclasses
import enum
import functools
import gc
import io
import sys
import threading
import types
import typing
import weakref
from typing import NamedTuple

import numpy as np
import pytest

import cotan as ct

W = np.array([1.0, 2.0])


def square(parts):
    return sum(np.sum(part * part) for part in parts)


@dataclasses.dataclass
class Base:
    w: object
    note: str = "base"


@dataclasses.dataclass
class Derived(Base):
    v: object = None
    done: list = dataclasses.field(init=False, default_factory=list)

    def __post_init__(self):
        if not isinstance(self.w, np.ndarray) or type(self.w) is ct.Array:
            raise AssertionError("the initialiser must not run again")
        self.done.append("checked")


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: object
    v: object


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    w: object
    v: object


class OldSlots:
    __slots__ = ("__hidden", "w")

    def __init__(self, w, hidden):
        self.w = w
        self.__hidden = hidden

    @property
    def v(self):
        return self.__hidden


class MoreSlots(OldSlots):
    __slots__ = ("__dict__", "__weakref__", "u", "unset")

    def __init__(self, w, hidden, u):
        super().__init__(w, hidden)
        self.u = u
        self.x = 1.5


class Trap:
    """Every access that is not needed fails."""

    def __init__(self, w):
        self.__dict__["w"] = w
        self.__dict__["n"] = 3

    @property
    def loaded(self):
        raise AssertionError("property")

    def __getattr__(self, name):
        raise AssertionError(f"__getattr__({name!r})")

    def __setattr__(self, name, value):
        raise AssertionError("__setattr__")

    def __new__(cls, *args):
        if not args:
            raise AssertionError("__new__")
        return object.__new__(cls)

    def __eq__(self, other):
        raise AssertionError("__eq__")

    def __hash__(self):
        raise AssertionError("__hash__")

    def __len__(self):
        raise AssertionError("__len__")

    def __iter__(self):
        raise AssertionError("__iter__")

    def __reduce__(self):
        raise AssertionError("__reduce__")


class Generic(typing.Generic[typing.TypeVar("T")]):
    def __init__(self, w):
        self.w = w


class Abstract(abc.ABC):
    w = None

    @abc.abstractmethod
    def f(self): ...


class Concrete(Abstract):
    def __init__(self, w):
        self.w = w

    def f(self):
        return 1


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (lambda: Base(W), lambda o: [o.w]),
        (lambda: Derived(W, v=2 * W), lambda o: [o.w, o.v]),
        (lambda: Frozen(W, 2.0), lambda o: [o.w, o.v]),
        (lambda: FrozenSlots(W, 2.0), lambda o: [o.w, o.v]),
        (lambda: OldSlots(W, 3.0), lambda o: [o.w, o._OldSlots__hidden]),
        (lambda: MoreSlots(W, 3.0, [W]), lambda o: [o.w, o._OldSlots__hidden, o.u[0], o.x]),
        (lambda: Trap(W), lambda o: [o.w]),
        (lambda: Generic(W), lambda o: [o.w]),
        (lambda: Concrete(W), lambda o: [o.w]),
        (lambda: types.SimpleNamespace(w=W, v=1.0), lambda o: [o.w, o.v]),
    ],
    ids=lambda make: "",
)
def test_objects(make, read):
    seen = []

    def f(o):
        seen.append(o)
        return square(read(o))

    original = make()
    (g,) = ct.gradient(f, original)
    assert type(seen[0]) is type(original)
    assert seen[0] is not original
    assert type(g) is ct.Tangent
    for got, part in zip(read(g), read(original), strict=True):
        assert type(got) is type(part)
        np.testing.assert_array_equal(got, 2 * part)
    assert all(type(part) is not ct.Array for part in read(original))


def test_what_an_initialiser_made_is_kept():
    (g,) = ct.gradient(lambda o: np.sum(o.w) if o.done == ["checked"] else 0.0, Derived(W))
    assert g.note is None
    assert g.done == [None]
    np.testing.assert_array_equal(g.w, [1.0, 1.0])


def test_an_unset_slot_stays_unset():
    ct.gradient(lambda o: 0.0 if hasattr(o, "unset") else square([o.w]), MoreSlots(W, 3.0, W))


def test_slots_with_one_name_in_two_classes():
    class Top:
        __slots__ = ("w",)

    class Bottom(Top):
        __slots__ = ("w",)

    o = Bottom()
    o.w = W
    Top.w.__set__(o, "above")

    def f(o):
        assert Top.w.__get__(o) == "above"
        return square([o.w])

    (g,) = ct.gradient(f, o)
    np.testing.assert_array_equal(g.w, 2 * W)


def test_attrs_classes():
    attr = pytest.importorskip("attr")

    @attr.s(frozen=True, slots=True)
    class Point:
        x = attr.ib(validator=attr.validators.instance_of(float))
        y = attr.ib(converter=float)

    (g,) = ct.gradient(lambda p: p.x * p.y, Point(2.0, 3))
    assert (g.x, g.y) == (3.0, 2.0)


def test_a_cached_property_is_computed_from_what_f_receives():
    class Layer:
        def __init__(self, w):
            self.w = w

        @functools.cached_property
        def twice(self):
            return 2 * self.w

    layer = Layer(W)
    assert layer.twice[0] == 2.0
    (g,) = ct.gradient(lambda o: np.sum(o.twice * o.twice), layer)
    np.testing.assert_array_equal(g.w, 8 * W)
    assert "twice" not in dir(g)
    new = ct.update(layer, g, lambda p, d: p - d)
    np.testing.assert_array_equal(new.twice, 2 * new.w)


# --------------------------------------------------------------------------------------------------
# Containers


class Params(dict):
    def __init__(self):
        raise AssertionError("the initialiser must not run again")

    def __setitem__(self, key, value):
        raise AssertionError("__setitem__")


class Rows(list):
    def __init__(self, *rows):
        super().__init__(rows)
        self.name = "rows"


class Version(tuple):
    __slots__ = ()


class Named(NamedTuple):
    left: object
    right: object

    def __repr__(self):
        return "named"


class Checked(Named):
    def __new__(cls, *args):
        raise AssertionError("__new__")


def default_dict():
    d = collections.defaultdict(lambda: 7.0)
    d["w"], d[3] = W, 2.0
    return d


def ordered_dict():
    d = collections.OrderedDict(w=W, v=2.0)
    d.move_to_end("w")
    return d


def params():
    d = Params.__new__(Params)
    dict.__setitem__(d, "w", W)
    d.__dict__["extra"] = "extra"
    return d


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (lambda: {"w": W, 3: 2.0, (1, "a"): W}, lambda d: [d["w"], d[3], d[1, "a"]]),
        (ordered_dict, lambda d: [d["w"], d["v"]]),
        (default_dict, lambda d: [d["w"], d[3]]),
        (params, lambda d: [d["w"]]),
        (lambda: [W, [2.0]], lambda x: [x[0], x[1][0]]),
        (lambda: Rows(W, 2.0), lambda x: list(x)),
        (lambda: (W, 2.0), lambda x: list(x)),
        (lambda: Version((W, 2.0)), lambda x: list(x)),
        (lambda: Named(W, 2.0), lambda x: [x.left, x.right]),
        (lambda: tuple.__new__(Checked, (W, 2.0)), lambda x: [x.left, x.right]),
    ],
    ids=lambda make: "",
)
def test_containers_keep_their_class(make, read):
    original = make()

    def f(o):
        assert type(o) is type(original)
        if isinstance(o, dict):
            assert list(o) == list(original)
        assert getattr(o, "__dict__", None) == getattr(original, "__dict__", None)
        return square(read(o))

    (g,) = ct.gradient(f, original)
    assert type(g) is type(original)
    for got, part in zip(read(g), read(original), strict=True):
        np.testing.assert_array_equal(got, 2 * part)
    if isinstance(original, collections.defaultdict):
        assert g["missing"] == 7.0


class Colour(enum.Enum):
    RED = 1.5


def test_what_is_not_taken_apart():
    generator = np.random.default_rng(0)
    lock = threading.Lock()
    values = [
        Colour.RED,
        "text",
        b"bytes",
        None,
        True,
        5,
        np.dtype(float),
        generator,
        lock,
        io.StringIO("file"),
        open,
        square,
        np,
        Base,
        functools.partial(square, [2.0]),
        Exception(1.0),
        frozenset([1, "text"]),
        collections.deque([1, "text"]),
        range(3),
        np.array(["a"]),
        sys.version_info,
        weakref.ref(Base),
        slice(1.0, 2.0),
        iter([1.0]),
        memoryview(b"abc"),
    ]
    holder = Base(W, values)

    def f(o):
        assert len(o.note) == len(values)
        assert all(a is b for a, b in zip(o.note, values, strict=True))
        return square([o.w])

    (g,) = ct.gradient(f, holder)
    assert g.note == [None] * len(values)
    for value in values:
        assert ct.gradient(lambda x, v: x * x, 3.0, ct.const(value)) == (6.0, None)


def test_an_object_without_leaves_stays_itself():
    inner = Base("text")
    ct.gradient(lambda o: np.sum(o.w) if o.note is inner else None, Base(W, inner))


def test_deques_are_taken_apart_as_lists():
    def f(d):
        assert type(d["q"]) is collections.deque
        assert d["q"].maxlen == 4
        return d["q"][0] * d["q"][1][0] * d["x"]

    tree = {"x": 2.0, "q": collections.deque([1.0, np.array([3.0]), 7, "text"], 4)}
    (g,) = ct.gradient(f, tree)
    assert type(g["q"]) is collections.deque
    assert g["q"].maxlen == 4
    assert list(g["q"]) == [6.0, np.array([2.0]), None, None]
    assert g["x"] == 3.0
    assert list(ct.trainable_leaves(tree)) == ["x", "q[0]", "q[1]"]
    (masked,) = ct.gradient(f, tree, wrt="d.q[1]")
    assert list(masked["q"]) == [None, np.array([2.0]), None, None]
    moved = ct.update(tree, g, lambda p, d: p - d)
    assert list(moved["q"]) == [-5.0, np.array([1.0]), 7, "text"]
    assert moved["q"].maxlen == 4
    vector, unravel = ct.ravel(tree)
    assert vector.tolist() == [2.0, 1.0, 3.0]
    assert unravel(vector)["q"] == tree["q"]
    _, dy = ct.jvp(f, (tree,), ({"x": 0.0, "q": collections.deque([1.0, None, None, None])},))
    assert dy == 6.0
    _, back = ct.pullback(lambda x: collections.deque([x, 2 * x]), 1.0)
    assert float(back(collections.deque([1.0, 10.0]))[0]) == 21.0
    assert ct.gradient(lambda q: q[0] ** 2, collections.deque([3.0])) == (collections.deque([6.0]),)
    constant = ct.const(collections.deque([3.0]))
    assert ct.gradient(lambda x, q: x * q[0], 2.0, constant) == (3.0, None)


# --------------------------------------------------------------------------------------------------
# Cycles, sharing, depth


class Node:
    def __init__(self, w, parent=None):
        self.w = w
        self.parent = parent
        self.children = []


def test_a_cycle_is_rebuilt():
    root = Node(2.0)
    child = Node(3.0, root)
    leafless = Node("no leaf", root)
    root.children += [child, leafless]

    def f(o):
        assert o is not root
        assert o.children[0].parent is o
        assert o.children[1].parent is o
        assert o.children[1] is not leafless
        return o.children[0].parent.w * o.children[0].w + o.children[1].parent.w

    (g,) = ct.gradient(f, root)
    assert (g.w, g.children[0].w) == (4.0, 2.0)
    assert g.children[0].parent is None
    assert g.children[1] is None
    new = ct.update(root, g, lambda p, d: p - d)
    assert new.children[0].parent is new
    assert new.w == -2.0


def test_cycles_through_containers():
    loop = [2.0]
    loop.append({"again": loop})

    def f(x):
        assert x[1]["again"] is x
        return x[1]["again"][0] ** 2

    assert ct.gradient(f, loop) == ([4.0, {"again": None}],)
    own = types.SimpleNamespace(x=1.0)
    own.me = (own,)
    (g,) = ct.gradient(lambda o: o.me[0].me[0].x * 3, own)
    assert g.x == 3.0
    rows = Rows(2.0)
    rows.append(rows)
    (g,) = ct.gradient(lambda r: r[1][1][0] ** 2, rows)
    assert g[0] == 4.0


def test_a_cycle_through_a_tuple_is_refused():
    pair = ([],)
    pair[0].append(pair)
    with pytest.raises(ValueError, match=r"pair\[0\]\[0\] leads back to the tuple"):
        ct.gradient(lambda pair: 1.0, pair)


def test_a_cycle_of_objects_without_leaves_is_left_alone():
    a, b = Node("a"), Node("b")
    a.parent, b.parent = b, a
    ct.gradient(lambda o, x: x if o is a else None, a, 1.0, wrt=1)


def test_shared_parts_have_a_cotangent_for_each_place():
    part = Base(W)
    (g,) = ct.gradient(lambda p: np.sum(p[0].w) + 2 * np.sum(p[1].w), [part, part])
    np.testing.assert_array_equal(g[0].w, [1.0, 1.0])
    np.testing.assert_array_equal(g[1].w, [2.0, 2.0])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: [x],
        lambda x: (x,),
        lambda x: {"k": x},
        lambda x: Base(x),
        lambda x: Named(x, None),
        lambda x: Rows(x),
    ],
    ids=["list", "tuple", "dict", "object", "named", "sublist"],
)
def test_too_deep(wrap):
    tree = 1.0
    for _ in range(10_000):
        tree = wrap(tree)
    for call in (
        lambda: ct.gradient(lambda t: 1.0, tree),
        lambda: ct.pullback(lambda x: tree, 1.0),
        lambda: ct.tree_map(abs, tree),
    ):
        with pytest.raises(RecursionError, match="nested more than 1000 levels"):
            call()
    thin = 1.0
    for _ in range(990):
        thin = wrap(thin)
    results = []
    worker = threading.Thread(target=lambda: results.append(ct.tree_map(lambda x: x + 1, thin)))
    worker.start()
    worker.join()
    for _ in range(990):
        (result,) = results
        results = [
            result["k"] if isinstance(result, dict) else getattr(result, "w", None) or result[0]
        ]
    assert results == [2.0]
    while not isinstance(tree, float):  # taken down step by step: not every class can do it in C
        tree = tree["k"] if isinstance(tree, dict) else getattr(tree, "w", None) or tree[0]


def test_a_pullback_does_not_keep_the_model():
    model = Base(np.ones(3), {"note": [np.ones(2), "text"]})
    reference, kept = weakref.ref(model), weakref.ref(model.w)
    y, back = ct.pullback(lambda m: Base(np.sum(m.w) * np.sum(m.note["note"][0])), model)
    narrowed = back.wrt("m.w")
    del model
    gc.collect()
    assert reference() is None
    assert kept() is None
    for b in (back, narrowed):
        (g,) = b(Base(1.0))
        assert g._type is Base
        np.testing.assert_array_equal(np.asarray(g.w), np.full(3, 2.0))
    assert y.w == 6.0
