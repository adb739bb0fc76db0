"""What is remembered of classes, and classes that are registered here or with other libraries."""

import dataclasses
import gc
import weakref

import numpy as np
import pytest
from test_structures import Base, Named

import cotan as ct

# --------------------------------------------------------------------------------------------------
# What is remembered of classes


def test_no_class_is_kept_alive():
    references = []
    for i in range(3):
        cls = dataclasses.make_dataclass(f"Short{i}", ["w"], slots=bool(i % 2))
        ct.gradient(lambda o: o.w * 1.0, cls(2.0))
        references.append(weakref.ref(cls))
        del cls
    gc.collect()
    assert [r() for r in references] == [None] * 3


def test_many_classes_of_one_address():
    for i in range(400):
        cls = type("T", (), {"__slots__": ("a",) if i % 2 else ("b", "c")})
        o = cls()
        for name in cls.__slots__:
            setattr(o, name, 2.0)
        (g,) = ct.gradient(lambda o: sum(getattr(o, n) for n in cls.__slots__) * 1.0, o)
        assert {*dir(g)} - {*dir(ct.Tangent)} == set(g) == set(cls.__slots__)


def test_a_declaration_may_change():
    class Layer:
        def __init__(self):
            self.w, self.b = 2.0, 3.0

    def trained():
        (g,) = ct.gradient(lambda m: m.w * m.b, Layer())
        return [n for n in ("w", "b") if getattr(g, n) is not None]

    assert trained() == ["w", "b"]
    Layer.__trainable__ = ("w",)
    assert trained() == ["w"]
    Layer.__trainable__ = "b"
    assert trained() == ["b"]
    del Layer.__trainable__
    assert trained() == ["w", "b"]


def test_declarations_are_inherited_and_checked():
    class Layer:
        __trainable__ = ("w",)

        def __init__(self):
            self.w, self.b = 2.0, 3.0

    class Same(Layer):
        pass

    class All(Layer):
        __trainable__ = None

    class Wrong(Layer):
        __trainable__ = ("w", "bias")

    class Odd(Layer):
        __trainable__ = 3

    def f(m):
        return m["x"].w * m["x"].b

    assert ct.gradient(f, {"x": Same()})[0]["x"].b is None
    assert ct.gradient(f, {"x": All()})[0]["x"].b == 2.0
    with pytest.raises(
        ValueError, match=r"m\.x has no 'bias', which Wrong\.__trainable__ names.*w, b"
    ):
        ct.gradient(lambda m: f(m), {"x": Wrong()})
    with pytest.raises(TypeError, match=r"Odd\.__trainable__ must be a tuple of names"):
        ct.gradient(f, {"x": Odd()})
    assert ct.gradient(f, {"x": Wrong()}, wrt="m.x.b")[0]["x"].b == 2.0


# --------------------------------------------------------------------------------------------------
# Registered classes


class Ring:
    """Holds its parts where nobody looks."""

    def __init__(self, *parts, name="ring"):
        self.get = lambda: parts
        self.name = name


ct.register(Ring, lambda r: (r.get(), r.name), lambda name, parts: Ring(*parts, name=name))


@ct.register
class Box:
    def __init__(self, low, high):
        self.bounds = (("low", low), ("high", high))

    def tree_flatten(self):
        known = dict(self.bounds)
        return (known["low"], known["high"]), None, ("low", "high")

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


def test_registered_classes():
    def f(r):
        assert r.name == "name"
        a, b = r.get()
        return a * b["x"]

    (g,) = ct.gradient(f, Ring(2.0, {"x": 3.0}, name="name"))
    assert type(g) is ct.Tangent
    assert g[0] == 3.0
    assert g[1] == {"x": 2.0}
    assert repr(g) == "Tangent[Ring]([0]=3.0, [1]={'x': 2.0})"
    (g,) = ct.gradient(f, Ring(2.0, {"x": 3.0}, name="name"), wrt="r[1].x")
    assert g[0] is None
    (g,) = ct.gradient(lambda b: dict(b.bounds)["high"] * 2, Box(1.0, 2.0))
    assert (g.low, g.high) == (None, 2.0)
    assert ct.trainable_leaves(Box(1.0, 2.0)) == {"low": 1.0, "high": 2.0}
    new = ct.update(Ring(2.0, 1), {0: 5.0}, lambda p, d: p - d)
    assert new.get() == (-3.0, 1)


def test_registering_wrongly():
    def flatten(o):
        return (), None

    with pytest.raises(ValueError, match="Ring is already registered"):
        ct.register(Ring, flatten, flatten)
    with pytest.raises(TypeError, match="no methods tree_flatten"):
        ct.register(Base)
    with pytest.raises(TypeError, match="both flatten and unflatten"):
        ct.register(Base, flatten)
    for cls in (list, float, np.ndarray, ct.Array):
        with pytest.raises(TypeError, match="leaf or a built-in container"):
            ct.register(cls, flatten, flatten)
    with pytest.raises(TypeError, match="takes a class"):
        ct.register("Base", flatten, flatten)

    class Bad:
        pass

    ct.register(Bad, lambda o: 3, lambda aux, parts: Bad())
    with pytest.raises(TypeError, match=r"flatten of Bad must return \(children, aux\)") as caught:
        ct.gradient(lambda m: 1.0, [Bad()])
    assert "m[0]" in caught.value.__notes__[0]

    class Uneven:
        pass

    ct.register(Uneven, lambda o: ((1.0, 2.0), None), lambda aux, parts: Uneven(), names=["a"])
    with pytest.raises(ValueError, match="2 children and the names"):
        ct.gradient(lambda m: 1.0, Uneven())


def test_registering_after_the_class_was_met():
    class Late:
        def __init__(self, w):
            self.w = w

    (g,) = ct.gradient(lambda o: o.w * 2, Late(1.0))
    assert g.w == 2.0
    ct.register(Late, lambda o: ((o.w,), None), lambda aux, parts: Late(*parts), names=("weight",))
    (g,) = ct.gradient(lambda o: o.w * 2, Late(1.0))
    assert g.weight == 2.0


def test_classes_known_to_optree():
    optree = pytest.importorskip("optree")

    class Pair:
        def __init__(self, a, b):
            self.get = lambda: {"a": a, "b": b}

    optree.register_pytree_node(
        Pair,
        lambda p: (tuple(p.get().values()), None, ("a", "b")),
        lambda aux, parts: Pair(*parts),
        namespace="first",
    )
    (g,) = ct.gradient(lambda p: p.get()["a"] * p.get()["b"], Pair(2.0, 3.0))
    assert (g.a, g.b) == (3.0, 2.0)
    assert ct.gradient(lambda d: d[0] * 2, [3.0, (1.0,), {"x": 1}]) == (
        [2.0, (None,), {"x": None}],
    )

    (g,) = ct.gradient(lambda p: p.left * p.right, Named(2.0, 3.0))
    assert type(g) is Named

    class Two(Pair):
        pass

    for namespace in ("first", "second"):
        optree.register_pytree_node(
            Two, lambda p: ((), None), lambda aux, parts: None, namespace=namespace
        )
    with pytest.raises(TypeError, match="several namespaces of optree \\(first, second\\)"):
        ct.gradient(lambda p: 1.0, Two(1.0, 2.0))


def test_classes_known_to_jax():
    tree_util = pytest.importorskip("jax.tree_util")

    class Pair:
        def __init__(self, a, b):
            self.get = lambda: {"a": a, "b": b}

    key = tree_util.GetAttrKey
    tree_util.register_pytree_with_keys(
        Pair,
        lambda p: (
            ((key("a"), dict(p.parts)["a"]), (key("b"), dict(p.parts)["b"])),
            None,
        ),
        lambda aux, parts: Pair(*parts),
    )
    (g,) = ct.gradient(lambda p: p.get()["a"] * p.get()["b"], Pair(2.0, 3.0))
    assert (g.a, g.b) == (3.0, 2.0)
    (g,) = ct.gradient(lambda o: o.w * 2, Base(1.0))
    assert g.w == 2.0
