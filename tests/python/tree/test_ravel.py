"""`ravel`, `tree_flatten` and their inverses, over generated structures."""

import pickle
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import cotan as ct
from cotan._src.tree.structure import integers_as_floats


class Pair(NamedTuple):
    left: object
    right: object


@dataclass(frozen=True)
class Layer:
    w: object
    b: object
    name: str = "layer"
    sizes: tuple = (1, 2)
    extra: dict = field(default_factory=dict)


class Plain:
    def __init__(self, a, b):
        self.a, self.b = a, b


FLOATS = st.floats(-100, 100, width=16)
DTYPES = st.sampled_from([np.float32, np.float64, np.complex64, np.complex128])


@st.composite
def arrays(draw):
    dtype = draw(DTYPES)
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    size = int(np.prod(shape))
    values = np.array(draw(st.lists(FLOATS, min_size=size, max_size=size)))
    return values.reshape(shape).astype(dtype)


LEAVES = st.one_of(arrays(), FLOATS.map(float), FLOATS.map(np.float32), FLOATS.map(complex))
OTHERS = st.one_of(
    st.none(), st.integers(), st.text(max_size=3), st.booleans(), st.just(np.arange(3))
)
TREES = st.recursive(
    LEAVES | OTHERS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        st.builds(Pair, inner, inner),
        st.builds(Layer, inner, inner),
        st.builds(Plain, inner, inner),
        inner.map(ct.const),
    ),
    max_leaves=8,
)


def same(a, b):
    la, sa = ct.tree_flatten(a)
    lb, sb = ct.tree_flatten(b)
    assert sa == sb
    for x, y in zip(la, lb, strict=True):
        assert type(x) is type(y)
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_array_equal(x, y)


@given(TREES)
def test_flatten_and_back(tree):
    leaves, structure = ct.tree_flatten(tree)
    assert structure.num_leaves == len(leaves) == len(structure.paths)
    same(ct.tree_unflatten(structure, leaves), tree)
    assert structure == ct.tree_structure(tree)
    assert hash(structure) == hash(ct.tree_structure(tree))


@given(TREES)
def test_ravel_and_back(tree):
    vector, unravel = ct.ravel(tree)
    wanted = {p: float(v) if type(v) is int else v for p, v in ct.trainable_leaves(tree).items()}
    assert vector.shape == (sum(np.size(leaf) for leaf in wanted.values()),)
    assert vector.dtype == np.result_type(*(np.asarray(x).dtype for x in wanted.values()), vector)
    same(unravel(vector), integers_as_floats(tree))
    same(unravel(unravel.vector(tree)), integers_as_floats(tree))
    assert [path for path, _ in unravel.paths] == list(wanted)
    for path, where in unravel.paths:
        np.testing.assert_array_equal(vector[where], np.ravel(wanted[path]))


@given(TREES)
def test_pickle(tree):
    vector, unravel = ct.ravel(tree)
    if "const" not in repr(unravel):
        same(pickle.loads(pickle.dumps(unravel))(vector), integers_as_floats(tree))


def test_the_vector_is_a_copy():
    x = np.zeros(3)
    vector, unravel = ct.ravel(x)
    vector[0] = 1.0
    assert x[0] == 0.0
    unravel(vector)


def test_gradients_in_both_directions():
    tree = {"a": 2.0, "b": Layer(np.array([1.0, 2.0]), None), "n": 3}
    weights = np.array([10.0, 20.0, 30.0])
    (g,) = ct.gradient(lambda t: weights @ ct.ravel(t)[0], tree)
    assert g["a"] == 10.0 and g["n"] is None
    np.testing.assert_array_equal(g["b"].w, [20.0, 30.0])

    vector, unravel = ct.ravel(tree)

    def f(v):
        t = unravel(v)
        assert t["n"] == 3 and t["b"].name == "layer"
        return t["a"] ** 2 * np.sum(t["b"].w ** 3)

    (g,) = ct.gradient(f, vector)
    np.testing.assert_allclose(g, [2 * 2.0 * 9.0, 4 * 3 * 1.0, 4 * 3 * 4.0])
    h = ct.hessian(f, vector)
    np.testing.assert_allclose(h[0], [2 * 9.0, 4 * 3.0, 4 * 12.0])


def test_complex_and_real_leaves_together():
    vector, unravel = ct.ravel({"z": 1 + 2j, "x": 3.0})
    assert vector.dtype == complex
    (g,) = ct.gradient(lambda v: abs(unravel(v)["z"]) ** 2 + unravel(v)["x"] ** 2, vector)
    np.testing.assert_allclose(g, [2 + 4j, 6])


def test_inside_prepared_functions_and_vmap():
    tree = {"a": 2.0, "b": np.array([1.0, 2.0], np.float32)}
    _, unravel = ct.ravel(tree)
    there = ct.prepare(lambda t: ct.ravel(t)[0] * 2, transform="value")
    back = ct.prepare(lambda v: unravel(v)["a"] * unravel(v)["b"], transform="value")
    for scale in (1.0, 3.0):
        t = {"a": 2.0 * scale, "b": tree["b"] * np.float32(scale)}
        np.testing.assert_array_equal(there(t), np.array([4.0, 2.0, 4.0]) * scale)
        np.testing.assert_array_equal(back(ct.ravel(t)[0]), t["a"] * t["b"])
    rows = np.arange(6.0).reshape(2, 3)
    found = ct.vmap(lambda v: unravel(v)["a"] * unravel(v)["b"])(rows)
    np.testing.assert_array_equal(found, rows[:, :1] * rows[:, 1:])


def test_declared_and_constant_leaves_stay():
    class Model:
        __trainable__ = ("w",)

        def __init__(self):
            self.w, self.rate = np.ones(2), 0.5

    vector, unravel = ct.ravel([Model(), ct.const(7.0)])
    assert vector.tolist() == [1.0, 1.0]
    model, constant = unravel(vector + 1)
    assert model.rate == 0.5 and constant.value == 7.0


def test_wrong_vectors_are_refused():
    _, unravel = ct.ravel([1.0, 2.0])
    with pytest.raises(ValueError, match=r"has 2 numbers.*not \(3,\)"):
        unravel(np.ones(3))
    with pytest.raises(ValueError, match=r"has 2 leaves \(\[0\], \[1\]\), not 1"):
        ct.tree_unflatten(ct.tree_structure([1.0, 2.0]), [1.0])
    with pytest.raises(TypeError, match="first argument is a structure"):
        ct.tree_unflatten([1.0], ct.tree_structure([1.0]))


@pytest.mark.parametrize(
    "other",
    [
        [1.0, 2.0, "b"],
        [1.0, 2, "a"],
        (1.0, 2.0, "a"),
        [1.0, [2.0], "a"],
        [1.0, 2.0],
        {"0": 1.0},
    ],
    ids=str,
)
def test_structures_that_differ(other):
    assert ct.tree_structure([1.0, 2.0, "a"]) != ct.tree_structure(other)
    assert ct.tree_structure([1.0, 2.0, "a"]) != [1.0, 2.0, "a"]


def test_classes_and_data_tell_structures_apart():
    assert ct.tree_structure(Layer(1.0, 2.0)) == ct.tree_structure(Layer(3.0, 4.0))
    assert ct.tree_structure(Layer(1.0, 2.0)) != ct.tree_structure(Layer(3.0, 4.0, "other"))
    assert ct.tree_structure(Plain(1.0, 2)) != ct.tree_structure(Plain(1.0, 3))
    assert ct.tree_structure({"a": 1.0}) != ct.tree_structure(OrderedDict(a=1.0))


@dataclass
class Rate:
    value: float
    steps: int


@pytest.mark.parametrize(
    ("tree", "numbers", "back"),
    [
        ([1.0, 2], [1.0, 2.0], [1.0, 2.0]),
        ((1, [2.0, 3]), [1.0, 2.0, 3.0], (1.0, [2.0, 3.0])),
        (3, [3.0], 3.0),
        ({"a": 1, "b": [2]}, [1.0, 2.0], {"a": 1.0, "b": [2.0]}),
        (Rate(1, 2), [1.0], Rate(1.0, 2)),
        ({"w": 1.5, "steps": 7}, [1.5], {"w": 1.5, "steps": 7}),
        ([np.ones(2), 7], [1.0, 1.0], [np.ones(2), 7]),
        ([1.0, ct.const(2)], [1.0], [1.0, ct.const(2)]),
        ([1.0, True], [1.0], [1.0, True]),
    ],
)
def test_integers_count_as_for_gradients(tree, numbers, back):
    vector, unravel = ct.ravel(tree)
    assert vector.tolist() == numbers
    same(unravel(vector), back)
    assert list(ct.trainable_leaves(tree)) == [path for path, _ in unravel.paths]
    assert unravel.vector(tree).tolist() == numbers
    (gradient,) = ct.gradient(lambda t: np.sum(ct.ravel(t)[0] ** 2), tree)
    count = len(ct.trainable_leaves({"tree": gradient})) if gradient is not None else 0
    assert count == len(unravel.paths)


def test_integers_of_trees_without_gradients():
    assert ct.tree_leaves([1.0, 2]) == [1.0]
    assert ct.tree_structure([1.0, 2]) != ct.tree_structure([1.0, 3])
    assert ct.tree_map(lambda x: 2 * x, [1.0, 2]) == [2.0, 2]


def test_numbers_are_numbers_in_a_gradient():
    vector, unravel = ct.ravel({"f": 1.0, "s": np.float64(2.0), "a": np.array(3.0)})

    def kinds(vector):
        tree = unravel(vector)
        return {k: (isinstance(x, float), isinstance(x, np.float64)) for k, x in tree.items()}

    plain = kinds(vector)
    seen = []

    def f(vector):
        seen.append(kinds(vector))
        tree = unravel(vector)
        return tree["f"] * tree["s"] * tree["a"]

    (slope,) = ct.gradient(f, vector)
    assert seen == [plain]
    np.testing.assert_allclose(slope, [6.0, 3.0, 2.0])
