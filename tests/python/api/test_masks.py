"""Masks: what `wrt` takes, that it changes no number, and that what it leaves out costs nothing."""

import dataclasses
import functools
import inspect
import math
import re
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from ids import same_everywhere

import cotan as ct


@dataclasses.dataclass
class Layer:
    w: object
    bias: object
    name: str = "layer"

    def __call__(self, x):
        return self.w * x + self.bias


@dataclasses.dataclass
class Model:
    layers: list
    scale: float
    more: dict


class Pair(NamedTuple):
    left: object
    right: object


def model():
    layers = [Layer(np.array([1.0, 2.0]), 0.5), Layer(np.array([3.0, 4.0]), 0.25)]
    return Model(layers, 2.0, {"a.b": 3.0, "x": Pair(4.0, 5.0), 7: 6.0, (1, "z]"): 7.0})


PATHS = (
    "m.layers[0].w m.layers[0].bias m.layers[1].w m.layers[1].bias m.scale m.more['a.b'] "
    "m.more.x.left m.more.x.right m.more[7] m.more[(1,_'z]')] bias"
).replace("_", " ")
PATHS = re.split(r" (?=m|bias)", PATHS)


def loss(m, bias):
    x = bias * 1.0
    for layer in m.layers:
        x = np.sum(layer(x))
    a, (left, right), b, c = m.more.values()
    return m.scale * x * a * left * right * b * c


def found(g, bias):
    """Give the paths of the cotangents that are there."""
    tree = {"m": g, "bias": bias}
    return [p.removeprefix(".") for p in ct._core.structure(tree).paths]


FULL = ct.gradient(loss, model(), 1.5)


def test_all_paths():
    assert found(*FULL) == PATHS


@pytest.mark.parametrize(
    ("wrt", "wanted"),
    [
        ("**", ".*"),
        ("m.**", "m.*"),
        ("*", ".*"),
        ("**.bias", r"(.*\.)?bias"),
        ("**.w", r".*\.w"),
        ("m.*.*.w", r".*\.w"),
        ("m.layers[*].w", r".*\.w"),
        ("m.layers.*.w", r".*\.w"),
        ("m.layers[*]", r"m\.layers.*"),
        ("m.l*[0]", r"m\.layers\[0\].*"),
        ("m.layers[1].w", r"m\.layers\[1\]\.w"),
        ("m.more['a.b']", r"m\.more\['a\.b'\]"),
        ('m.more["a.b"]', r"m\.more\['a\.b'\]"),
        ("m.more['x'].left", r"m\.more\.x\.left"),
        ("m.more[7]", r"m\.more\[7\]"),
        ("m.more[(1, 'z]')]", r"m\.more\[\(1.*"),
        ("m.more.*", r"m\.more.*"),
        ("m.more.x", r"m\.more\.x.*"),
        (["m.scale", 1], r"m\.scale|bias"),
        ({"m.scale", "bias"}, r"m\.scale|bias"),
        ((0,), "m.*"),
        (np.int64(-1), "bias"),
        (range(1, 2), "bias"),
        ([], "nothing"),
        ([True, False], "m.*"),
        ([None, np.True_], "bias"),
        ({"bias": True}, "bias"),
        ({"m": {"scale": True}}, r"m\.scale"),
        ([{"layers": [True, {"w": True}]}, None], r"m\.layers\[0\].*|m\.layers\[1\]\.w"),
        ([Model(False, True, {"x": Pair(True, False)}), False], r"m\.scale|m\.more\.x\.left"),
        ([{"more": {"x": (False, True)}}, False], r"m\.more\.x\.right"),
        ([{"more": {"x": {"right": True}}}, False], r"m\.more\.x\.right"),
        ([ct.Tangent(Model, {"scale": True, "layers": None}), True], r"m\.scale|bias"),
        ([{"layers": [Layer(True, False), None]}, None], r"m\.layers\[0\]\.w"),
        (lambda path, leaf: "bias" in path, r".*bias"),
        (lambda path, leaf: np.shape(leaf) == (2,), r".*\.w"),
        (lambda path, leaf: isinstance(leaf, np.ndarray), r".*\.w"),
        (lambda path, leaf: False, "nothing"),
    ],
    ids=same_everywhere,
)
def test_what_wrt_takes(wrt, wanted):
    expected = [p for p in PATHS if re.fullmatch(wanted, p)]
    gradients = ct.gradient(loss, model(), 1.5, wrt=wrt)
    assert found(*gradients) == expected
    same(gradients, FULL)
    value, gradients = ct.value_and_gradient(loss, model(), 1.5, wrt=wrt)
    assert value == loss(model(), 1.5)
    assert found(*gradients) == expected
    _, back = ct.pullback(loss, model(), 1.5, wrt=wrt)
    assert found(*back(1.0)) == expected
    if wrt == -1:  # a position narrows to a bare cotangent
        assert float(ct.pullback(loss, model(), 1.5)[1].wrt(wrt)(1.0)) == FULL[1]
        return
    if "isinstance" in str(getattr(wrt, "__code__", "") and wrt.__code__.co_names):
        return  # a pullback has no leaves any more, only their shapes
    _, back = ct.pullback(loss, model(), 1.5)
    narrowed = back.wrt(wrt)
    assert found(*narrowed(1.0)) == expected
    same(narrowed(1.0), FULL)
    assert narrowed.nbytes <= back.nbytes
    assert len(narrowed.program) <= len(back.program)


def same(part, full):
    """Check that what is there is what it is in the full gradient."""
    structure = ct._core.structure(full)
    for a, b in zip(structure.align(part, "test"), structure.leaves, strict=True):
        if a is not None:
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-13)


@pytest.mark.parametrize(
    ("wrt", "error", "message"),
    [
        (
            "m.layer",
            ValueError,
            r"'m.layer' matches nothing; did you mean 'm.layers'.*there are: m\.",
        ),
        ("q", ValueError, r"'q' matches nothing; there are: m\.layers\[0\]\.w, "),
        ("m.layers[2].w", ValueError, r"matches nothing"),
        ("m.layers[0].name", ValueError, "matches nothing"),
        (["bias", "m.typo"], ValueError, "'m.typo' matches nothing"),
        ("m..w", ValueError, r"'m\.\.w' is not a path"),
        (".m", ValueError, r"'\.m' is not a path"),
        ("m[", ValueError, "is not a path"),
        ("", ValueError, "is not a path"),
        ("**w", ValueError, r"\*\* must be a step of its own"),
        (2, ValueError, r"no argument 2; the function has 2 \(m, bias\)"),
        (-3, ValueError, "no argument -3"),
        (True, TypeError, "neither a position nor a mask"),
        (1.0, TypeError, "takes positions or names"),
        ([1.0], TypeError, "1.0 is not a position"),
        ([0, True], TypeError, "cannot be mixed"),
        ([True], ValueError, r"1 entries for 2 arguments \(m, bias\)"),
        ([{"scal": True}, False], ValueError, r"m has no 'scal'; it has: layers, scale, more"),
        ([{"layers": [True]}, False], ValueError, r"m\.layers has 2 entries, 1 given"),
        ([{"layers": {"w": True}}, False], ValueError, r"m\.layers has 2 entries, so a list"),
        ([[True], False], ValueError, "m has parts with names.*not <class 'list'>"),
        ([{"scale": 1}, False], TypeError, "m.scale is a leaf.*True, False or None.*not 1"),
        ([{"scale": "yes"}, False], TypeError, "m.scale is a leaf"),
        ({"n": True}, ValueError, "there is no 'n', there are: m, bias"),
        (Model(True, True, True), TypeError, r"not Model.*wrt=\[\.\.\.\]"),
        (np.array([0, 1]), TypeError, "functions without arguments"),
        (object(), TypeError, "not object"),
        (lambda path: True, ValueError, "named after; 'path' is none of m, bias"),
    ],
    ids=same_everywhere,
)
def test_what_wrt_does_not_take(wrt, error, message):
    _, back = ct.pullback(loss, model(), 1.5)
    for call in (lambda: ct.gradient(loss, model(), 1.5, wrt=wrt), lambda: back.wrt(wrt)):
        with pytest.raises(error, match=message):
            call()


def test_an_error_does_not_list_hundreds_of_paths():
    many = {f"w{i}": 1.0 for i in range(500)}
    with pytest.raises(ValueError, match=r"did you mean .*; there are: .*480 more") as caught:
        ct.gradient(lambda many: 1.0, many, wrt="many.w5OO")
    assert len(str(caught.value)) < 1000


def test_only_what_can_have_a_gradient_matches():
    tree = {"ids": np.array([1, 2]), "held": ct.const(np.ones(2)), "w": 2.0}
    tree["number"] = ct.const(3.0)
    with pytest.raises(ValueError, match=r"'t.ids' matches nothing .*only t.ids, .*no.* floating"):
        ct.gradient(lambda t: t["w"] * 1.0, tree, wrt="t.ids")
    for wrt in ("t.held", "t.number"):
        with pytest.raises(ValueError, match=f"selects only {wrt}, held constant by ct.const"):
            ct.gradient(lambda t: t["w"] * 1.0, tree, wrt=wrt)
    (g,) = ct.gradient(lambda t: t["w"] * np.sum(t["held"]), tree, wrt=["t.w", 0])
    assert g == {"ids": None, "held": None, "w": 2.0, "number": None}
    with pytest.raises(TypeError, match="n is an array of dtype int64"):
        ct.gradient(lambda n, x: x * x, np.array([1]), 3.0, wrt=0)


def test_a_predicate_answers_true_or_false():
    tree = {"a": np.ones(2), "b": 2.0}
    for answer in (
        lambda path, leaf: leaf,
        lambda path, leaf: 1.0,
        lambda path, leaf: np.float64(1),
    ):
        with pytest.raises(TypeError, match=r"predicate .* True or False; for t.a it returned"):
            ct.gradient(lambda t: np.sum(t["a"]) * t["b"], tree, wrt=answer)
    (g,) = ct.gradient(
        lambda t: np.sum(t["a"]) * t["b"], tree, wrt=lambda path, _: re.search("b", path)
    )
    assert g == {"a": None, "b": 2.0}
    _, back = ct.pullback(lambda t: np.sum(t["a"]) * t["b"], tree)
    with pytest.raises(TypeError, match="True or False; for t.a it returned LeafInfo"):
        back.wrt(lambda path, leaf: leaf)


def test_a_star_in_a_key_is_escaped():
    tree = {"a*b": 2.0, "a-b": 3.0, "**": 5.0, "back\\slash": 7.0}

    def asked(pattern):
        (g,) = ct.gradient(lambda t: math.prod(t.values()), tree, wrt=pattern)
        return [key for key in g if g[key] is not None]

    assert asked("t['a*b']") == ["a*b", "a-b"]
    assert asked(r"t['a\*b']") == ["a*b"]
    assert asked(r"t['\*\*']") == ["**"]
    key = "back\\slash"
    assert asked(f"t[{key!r}]") == [key]
    with pytest.raises(ValueError, match=r"a star in a key is written"):
        asked("t['**']")


def test_names_come_from_the_function():
    def f(first, *rest):
        return first * rest[0] * rest[1]

    assert ct.gradient(f, 2.0, 3.0, 5.0, wrt="rest[1]") == (None, None, 6.0)
    assert ct.gradient(f, 2.0, 3.0, 5.0, wrt="rest[*]") == (None, 10.0, 6.0)
    _, back = ct.pullback(f, 2.0, 3.0, 5.0)
    assert float(back.wrt("rest[1]")(1.0)) == 6.0
    layer = Layer(2.0, 1.0)
    for call in (layer, layer.__call__, functools.partial(Layer.__call__, layer)):
        assert ct.gradient(call, 3.0, wrt="x") == (2.0,)
        assert float(ct.pullback(call, 3.0)[1].wrt("x")(1.0)) == 2.0
    assert ct.gradient(ct.sin, 0.0, wrt="**") == (1.0,)
    try:
        name = next(iter(inspect.signature(np.sin).parameters))
    except ValueError:  # older versions of NumPy do not tell
        name = "arg0"
    assert [float(c) for c in ct.pullback(np.sin, 0.0)[1].wrt([name])(1.0)] == [1.0]


def test_a_predicate_sees_the_leaves_of_the_caller():
    seen = []
    w = np.array([1.0])
    ct.gradient(lambda m, n: np.sum(m[0]), [w, 2.0, "s"], 3, wrt=lambda *a: seen.append(a))
    assert [p for p, _ in seen] == ["m[0]", "m[1]", "n"]
    assert seen[0][1] is w
    assert [leaf for _, leaf in seen[1:]] == [2.0, 3]
    _, back = ct.pullback(lambda m: np.sum(m), w)
    back.wrt(lambda path, leaf: seen.append(leaf))
    assert (seen[-1].shape, seen[-1].dtype, seen[-1].ndim, seen[-1].size) == ((1,), "f8", 1, 1)


def test_what_is_left_out_reaches_the_function_as_it_is():
    def f(x, n, d):
        assert type(n) is int
        assert type(d["rate"]) is float
        assert type(d["single"]) is np.float32
        return x**n * d["rate"]

    tree = {"rate": 0.5, "single": np.float32(1)}
    assert ct.gradient(f, 3.0, 2, tree, wrt=0) == (3.0, None, None)


def test_a_pullback_is_narrowed_again():
    _, back = ct.pullback(loss, model(), 1.5)
    once = back.wrt("**.w")
    twice = once.wrt("m.layers[0]")
    assert found(*twice(1.0)) == ["m.layers[0].w"]
    with pytest.raises(ValueError, match="selects only m.scale, which the pullback leaves out"):
        once.wrt("m.scale")


# --------------------------------------------------------------------------------------------------
# A mask changes no number

leaves = st.one_of(
    st.floats(0.5, 2.0),
    st.lists(st.floats(0.5, 2.0), min_size=1, max_size=3).map(np.array),
    st.just("text"),
    st.integers(0, 3),
)
keys = st.sampled_from(["a", "b", "c", "d"])
structures = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.lists(parts, max_size=3).map(tuple),
        st.dictionaries(keys, parts, max_size=3),
        st.builds(Layer, parts, parts),
        st.builds(Pair, parts, parts),
    ),
    max_leaves=10,
)


def numbers_in(part):
    """Give the numbers in a structure, integers too, whether they are recorded or not."""
    if isinstance(part, (list, tuple)):
        return [n for item in part for n in numbers_in(item)]
    if isinstance(part, dict):
        return numbers_in(list(part.values()))
    if isinstance(part, (int, float, np.ndarray)):
        return [part]
    return numbers_in(list(vars(part).values())) if hasattr(part, "__dict__") else []


def mixed(tree, x):
    """Use every leaf, so that each gradient depends on all the others."""
    total = x
    for i, leaf in enumerate(numbers_in(tree)):
        total = np.tanh(total * np.sum(np.sin(leaf) * leaf)) + (i + 1) * leaf
        total = np.sum(total)
    return total


@given(structures, st.data())
def test_masks_of_random_structures(tree, data):
    tree = [tree]
    structure = ct._core.structure([tree], integers=True)
    able = [p for p, can in zip(structure.paths, structure.trainable, strict=True) if can]
    assume(able)
    full = ct.gradient(mixed, tree, 0.5)
    chosen = set(data.draw(st.lists(st.sampled_from(able), unique=True)))
    paths = [f"tree{p.removeprefix('[0]')}" for p in chosen]
    mask = structure.build([p in chosen for p in structure.paths])[0]
    forms = [
        paths,
        [mask, False],
        {"tree": mask},
        lambda path, leaf: path in paths,
    ]
    _, back = ct.pullback(mixed, tree, 0.5)
    for wrt in forms:
        for gradients in (ct.gradient(mixed, tree, 0.5, wrt=wrt), back.wrt(wrt)(1.0)):
            part, x = gradients
            assert x is None
            columns = [structure.align([t], "test") for t in (part, full[0])]
            for path, got, expected in zip(structure.paths, *columns, strict=True):
                if path in chosen:
                    np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-12)
                else:
                    assert got is None
    kept = [p for p in able if p not in chosen]
    new = ct.update([tree], [ct.gradient(mixed, tree, 0.5, wrt=paths)[0]], lambda p, d: p - d)
    same_objects = zip(
        structure.paths, structure.leaves, ct._core.structure(new).leaves, strict=True
    )
    assert all(a is b or (type(a) is int and a == b) for p, a, b in same_objects if p in kept)


# --------------------------------------------------------------------------------------------------
# What is left out costs nothing


def deep(ws, x):
    for w in ws:
        x = np.tanh(w @ x)
    return np.sum(x)


@pytest.fixture
def layers(rng):
    return [rng.random((8, 8)) for _ in range(5)]


@pytest.mark.parametrize("first", range(5))
def test_only_what_leads_to_the_asked_leaf_is_computed(first, layers):
    x = np.ones((8, 3))
    wrt = [f"ws[{i}]" for i in range(first, 5)]
    with ct.profile() as work:
        ct.gradient(deep, layers, x, wrt=wrt)
    assert work.equations["matmul"] == 5 + (5 - first) + (4 - first)
    with ct.profile() as other:
        ct.gradient(
            lambda ws, x: deep(ws, x),
            [*map(ct.const, layers[:first]), *layers[first:]],
            ct.const(x),
        )
    assert other.equations == work.equations


def test_a_masked_pullback_holds_nothing_for_the_others(layers):
    x = np.ones((8, 3))
    _, back = ct.pullback(deep, layers, x)
    sizes = []
    for i in range(5):
        wrt = f"ws[{i}]"
        _, masked = ct.pullback(deep, layers, x, wrt=wrt)
        narrowed = back.wrt(wrt)
        assert narrowed.nbytes == masked.nbytes
        assert len(narrowed.program) == len(masked.program)
        sizes.append(masked.nbytes)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] <= back.nbytes
    assert sizes[-1] == 8 * 3 * 8 * 2
    assert ct.pullback(deep, layers, x, wrt=[])[1].nbytes == 0
    assert len(back.wrt([]).program) == 0
