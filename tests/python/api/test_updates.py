"""What gradients of objects are, what becomes of them, and what is done with them."""

import dataclasses
import pickle

import numpy as np
import pytest

import cotan as ct

W = np.array([1.0, 2.0])


@dataclasses.dataclass
class Base:
    w: object
    note: str = "base"


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: object
    v: object


# --------------------------------------------------------------------------------------------------
# Tangents


def tangent():
    (g,) = ct.gradient(lambda m: m.w * m.v["x"] + m.v["x"] * 2, Frozen(2.0, {"x": 3.0, "y": 4.0}))
    return g


def test_a_tangent_prints_what_is_there():
    assert repr(tangent()) == "Tangent[Frozen](w=3.0, v={'x': 4.0, 'y': None})"
    assert repr(tangent().replace(v=[None, {"a": None}])) == "Tangent[Frozen](w=3.0)"


def test_a_tangent_is_a_value():
    g = tangent()
    assert g == tangent()
    assert g != g.replace(w=None)
    assert g != ct.Tangent(Base, g._fields)
    assert (g == 3) is False
    assert pickle.loads(pickle.dumps(g)) == g
    assert {"w", "v", "replace"} <= set(dir(g))
    assert g["w"] == 3.0
    with pytest.raises(KeyError, match="Frozen has no field 'u'"):
        g["u"]
    with pytest.raises(AttributeError, match="Frozen has no field 'u'"):
        g.replace(u=1.0)
    with pytest.raises(AttributeError, match="immutable"):
        del g.w
    with pytest.raises(TypeError, match="unhashable"):
        hash(g)
    arrays = ct.Tangent(Base, {"w": W, "v": [W, None]})
    assert arrays == ct.Tangent(Base, {"w": W.copy(), "v": [W + 0, None]})
    assert arrays != ct.Tangent(Base, {"w": W, "v": [W, W]})


def test_arithmetic_of_tangents():
    g = ct.Tangent(Frozen, {"w": W, "v": {"x": 1.0, "y": None}})
    h = ct.Tangent(Frozen, {"w": None, "v": {"x": 2.0, "y": 5.0}})
    total = g + h
    assert total == ct.Tangent(Frozen, {"w": W, "v": {"x": 3.0, "y": 5.0}})
    assert sum([g, h]) == total
    assert 2.0 * g == g * 2 == ct.Tangent(Frozen, {"w": 2 * W, "v": {"x": 2.0, "y": None}})
    assert np.float64(2.0) * g == 2 * g
    assert g / 2 == 0.5 * g
    assert -g == -1 * g
    assert h - g == h + -1.0 * g
    with pytest.raises(ValueError, match="the same structure"):
        g + ct.Tangent(Base, {"w": W})
    for wrong in (lambda: g * "a", lambda: g + 3.0, lambda: g * W, lambda: W * g):
        with pytest.raises(TypeError):
            wrong()


def test_a_tangent_as_an_argument():
    (g,) = ct.gradient(lambda t: t.w * t.v["x"], tangent())
    assert g.w == 4.0
    assert g._type is ct.Tangent


# --------------------------------------------------------------------------------------------------
# Projections


def test_projections():
    class Plain:
        def __init__(self, w, b):
            self.w, self.b = w, b

    class Kind(Plain):
        pass

    seen = []

    @ct.project_to(Plain)
    def _(primal, tangent):
        seen.append((primal, tangent))
        return tangent.replace(b=None)

    inner, outer = Plain(2.0, 3.0), Kind(4.0, None)
    outer.b = inner
    (g,) = ct.gradient(lambda o: o.w * o.b.w * o.b.b, outer)
    assert [p for p, _ in seen] == [inner, outer]
    assert seen[0][1].b == 8.0
    assert (g.w, g.b) == (6.0, None)
    _, back = ct.pullback(lambda o: o.w * o.b.w * o.b.b, outer)
    assert back(1.0)[0].b is None

    @ct.project_to(Kind)
    def _(primal, tangent):
        return primal

    assert ct.gradient(lambda o: o.w, outer) == (outer,)
    assert ct.gradient(lambda o, x: x * x, outer, 3.0) == (None, 6.0)
    with pytest.raises(TypeError, match="takes a class"):
        ct.project_to(outer)
    with pytest.raises(TypeError, match="leaf or a built-in container"):
        ct.project_to(dict)
    with pytest.raises(TypeError, match="must be a function"):
        ct.project_to(Kind)(3)


# --------------------------------------------------------------------------------------------------
# Updates, maps


def test_update_keeps_kinds_and_what_is_not_named():
    model = {
        "plain": W,
        "single": np.ones(2, np.float32),
        "lazy": ct.array([1.0, 2.0]),
        "number": 1.0,
        "scalar": np.float32(2),
        "complex": 1j,
        "kept": W,
        "held": ct.const(W),
        "n": 3,
    }
    ones = dict.fromkeys(("number", "scalar", "complex"), 1.0)
    ones |= {k: np.ones(2) for k in ("plain", "single", "lazy")}
    new = ct.update(model, ones, lambda p, d: p - 0.5 * d)
    assert {k: type(v) for k, v in new.items()} == {k: type(v) for k, v in model.items()}
    assert new["single"].dtype == np.float32
    assert new["kept"] is W
    assert new["held"].value is W
    assert not new["lazy"].is_forced
    np.testing.assert_array_equal(new["plain"], [0.5, 1.5])
    np.testing.assert_array_equal(W, [1.0, 2.0])
    assert (new["number"], new["complex"]) == (0.5, -0.5 + 1j)
    assert ct.update(W, W, lambda p, d: p - d).tolist() == [0.0, 0.0]
    assert ct.update(2.0, None, lambda p, d: 0.0) == 2.0


def test_update_with_moments():
    model = Frozen(2.0, [3.0])
    g = ct.Tangent(Frozen, {"w": 1.0, "v": [10.0]})
    moment = {"w": 100.0, "v": [None]}
    seen = []
    new = ct.update(model, g, lambda p, d, m: seen.append((p, d, m)) or p, moment)
    assert seen == [(2.0, 1.0, 100.0), (3.0, 10.0, None)]
    assert new == model


def test_update_inside_a_gradient():
    def after_a_step(rate):
        model = {"w": np.array([1.0, 2.0])}
        (g,) = ct.gradient(lambda m: np.sum(m["w"] ** 2), model)
        new = ct.update(model, g, lambda p, d: p - rate * d)
        return np.sum(new["w"] ** 2)

    (slope,) = ct.gradient(after_a_step, 0.25)
    assert slope == pytest.approx(2 * 0.5 * -2.0 * 5.0)


@pytest.mark.parametrize(
    ("gradients", "function", "error", "message"),
    [
        ({"a": [W]}, lambda p, d: p, ValueError, r"model\.a has 2 entries, 1 given"),
        ({"a": 3.0}, lambda p, d: p, ValueError, r"model\.a has 2 entries.*float"),
        ({"c": W}, lambda p, d: p, ValueError, r"model has no 'c'; it has: a, n"),
        ({"n": 1.0}, lambda p, d: p, ValueError, r"model\.n is no array or float"),
        (W, lambda p, d: p, ValueError, "parts with names.*dict.*ndarray"),
        (
            {"a": [W, None]},
            lambda p, d: W[:1],
            ValueError,
            r"model\.a\[0\] has shape \(2,\).*\(1,\)",
        ),
        ({"a": [W, None]}, lambda p, d: None, TypeError, r"\.a\[0\] is NoneType"),
        ({"a": [W, None]}, lambda p, d: 1j * p, TypeError, r"\.a\[0\].*float64.*complex128"),
    ],
)
def test_updates_that_do_not_fit(gradients, function, error, message):
    with pytest.raises(error, match=f"update: .*{message}"):
        ct.update({"a": [W, 2.0], "n": 3}, gradients, function)


def test_tree_map():
    model = [
        Base(W, "text"),
        {"n": 3, "x": 2.0, "i": np.array([1, 2])},
        ct.const(Frozen(1.0, None)),
    ]
    doubled = ct.tree_map(lambda x: 2 * x, model)
    np.testing.assert_array_equal(doubled[0].w, 2 * W)
    assert doubled[0].note == "text"
    assert doubled[1]["n"] == 3
    assert doubled[1]["x"] == 4.0
    assert doubled[1]["i"].tolist() == [2, 4]
    assert doubled[2].value.w == 2.0
    assert ct.tree_map(lambda x, y: (x, y), [1.0, 2.0], [3.0, None]) == [(1.0, 3.0), (2.0, None)]
    with pytest.raises(ValueError, match=r"tree_map: tree\[1\] has 2 entries"):
        ct.tree_map(lambda x, y: x, [1.0, [2.0, 3.0]], [1.0, [2.0]])


def test_trainable_leaves():
    class Layer:
        __trainable__ = ("w",)

        def __init__(self):
            self.w, self.b, self.n = W, 2.0, np.array([1])

    model = {"layers": [Layer()], "scale": 1.0, "held": ct.const(2.0), "ids": np.array([1])}
    found = ct.trainable_leaves(model)
    assert list(found) == ["layers[0].w", "scale"]
    assert found["layers[0].w"] is model["layers"][0].w
    assert ct.trainable_leaves(3.0) == {"": 3.0}


def test_gradients_by_identity_belong_to_their_arrays_anywhere_in_the_model():
    a, b = ct.array([1.0, 2.0]), ct.array(3.0)
    model = {"layers": [{"w": a}, {"w": a, "b": b}], "rate": 0.5}
    g = ct.gradient(lambda: np.sum(a * a) * b, wrt=[a])
    new = ct.update(model, g, lambda p, d: p - d)
    assert np.asarray(new["layers"][0]["w"]).tolist() == [-5.0, -10.0]
    assert np.asarray(new["layers"][1]["w"]).tolist() == [-5.0, -10.0]
    assert new["layers"][1]["b"] is b
    assert new["rate"] == 0.5
    with pytest.raises(ValueError, match="1 of the 1 arrays .* not part of the model"):
        ct.update({"b": b}, g, lambda p, d: p - d)


def test_unknown_fields_are_named_with_their_path():
    class Part:
        def __init__(self, value, parts=()):
            self.value, self.parts = value, parts

    model = Part(1.0, [None, Part(2.0, {"head": (Part(3.0),)})])

    def f(m):
        inner = m.parts[1]
        return m.value * inner.value * inner.parts["head"][0].value

    (g,) = ct.gradient(f, model)
    with pytest.raises(KeyError, match=r"a Part has no field 'x'; it has \['value', 'parts'\]"):
        g["x"]
    there = r"a Part has no field 'x'; it has \['value', 'parts'\], and is "
    with pytest.raises(KeyError, match=there + r"parts\[1\] in that of a Part"):
        g.parts[1]["x"]
    inner = g["parts"][1].parts["head"][0]
    path = there + r"parts\[1\]\.parts\['head'\]\[0\] in that of a Part"
    with pytest.raises(AttributeError, match=path):
        _ = inner.x
    with pytest.raises(AttributeError, match=path):
        inner.replace(x=1.0)
    inner = g.parts[1]
    del g
    with pytest.raises(KeyError, match=r"has no field 'x'; it has \['value', 'parts'\]\W*$"):
        inner["x"]
    around = ct.Tangent(Part, {"value": 1.0, "parts": []})
    around.parts.extend([around, around.parts])
    with pytest.raises(KeyError, match="has no field 'x'"):
        around.parts[0]["x"]
