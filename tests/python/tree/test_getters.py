"""`wrt=` as a getter, and the kinds of what `Pullback.wrt` gives."""

from dataclasses import dataclass

import numpy as np
import pytest

import cotan as ct


@dataclass
class Layer:
    w: np.ndarray
    b: float


@dataclass
class Model:
    layers: list
    name: str = "model"


def model():
    return Model([Layer(np.array([1.0, 2.0]), 3.0), Layer(np.array([4.0, 5.0]), 3.0)])


def loss(model, x):
    for layer in model.layers:
        x = layer.w * x + layer.b
    return np.sum(x)


X = np.array([0.5, -0.5])


@pytest.mark.parametrize(
    ("getter", "path"),
    [
        (lambda model: model.layers[0].w, "model.layers[0].w"),
        (lambda model: model.layers[1], "model.layers[1]"),
        (lambda model: [layer.b for layer in model.layers], "model.layers[*].b"),
        (lambda model: {"first": model.layers[0].b}, "model.layers[0].b"),
        (lambda x: x, "x"),
        (lambda model: model, "model"),
    ],
)
def test_a_getter_selects_what_a_path_does(getter, path):
    want = ct.gradient(loss, model(), X, wrt=path)
    assert repr(ct.gradient(loss, model(), X, wrt=getter)) == repr(want)
    _, back = ct.pullback(loss, model(), X)
    got = back.wrt(getter)(1.0)
    assert repr(got) == repr(back.wrt((path,))(1.0))


def test_the_only_argument_needs_no_name():
    f = lambda model: loss(model, X)
    (g,) = ct.gradient(f, model(), wrt=lambda m: m.layers[0].b)
    assert g.layers[0].w is None and g.layers[0].b == 9.0


def test_getters_that_cannot_be_meant():
    with pytest.raises(ValueError, match="named after; 'm' is none of model, x"):
        ct.gradient(loss, model(), X, wrt=lambda m: m.layers[0])
    with pytest.raises(TypeError, match="parts of model"):
        ct.gradient(loss, model(), X, wrt=lambda model: model.layers[0].w + 1)
    with pytest.raises(ValueError, match=r"no leaves .*model\.layers\[0\]\.w"):
        ct.gradient(loss, model(), X, wrt=lambda model: model.name)
    with pytest.raises(AttributeError, match="weights"):
        ct.gradient(loss, model(), X, wrt=lambda model: model.weights)


def test_predicates_have_two_parameters():
    g, dx = ct.gradient(loss, model(), X, wrt=lambda path, leaf: path.endswith(".b"))
    assert dx is None and g.layers[0].w is None and g.layers[0].b == 9.0


def test_a_single_name_is_bare_like_a_single_position():
    _, back = ct.pullback(lambda x, y: x * y, 2.0, 3.0)
    assert float(back.wrt(0)(1.0)) == float(back.wrt("x")(1.0)) == 3.0
    assert float(back.wrt(-1)(1.0)) == float(back.wrt("y")(1.0)) == 2.0
    assert len(back.wrt((0,))(1.0)) == len(back.wrt(("x",))(1.0)) == 2
    _, back = ct.pullback(loss, model(), X)
    assert len(back.wrt("model.layers[0]")(1.0)) == 2


# --------------------------------------------------------------------------------------------------
# What a callable keeps


class Affine:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def __call__(self, x):
        return self.a * x + self.b

    def squared(self, x):
        return self(x) ** 2


def test_the_fields_of_a_callable():
    state, dx = ct.gradient(Affine(3.0, 1.0), 2.0, wrt_self=True)
    assert (state.a, state.b, dx) == (2.0, 1.0, 3.0)
    state, dx = ct.gradient(Affine(3.0, 1.0).squared, 2.0, wrt_self=True)
    assert (state.a, state.b, dx) == (28.0, 14.0, 42.0)


def test_the_variables_of_a_closure():
    a, words = 3.0, "text"
    f = lambda x: x * a if words else x
    assert ct.gradient(f, 2.0, wrt_self=True) == ({"a": 2.0, "words": None}, 3.0)
    y, back = ct.pullback(f, 2.0, wrt_self=True)
    state, dx = back(1.0)
    assert (y, float(state["a"]), float(dx)) == (6.0, 2.0, 3.0)
    value, (state, _) = ct.value_and_gradient(f, 2.0, wrt_self=True)
    assert (value, state["a"]) == (6.0, 2.0)


def test_bound_arguments():
    import functools

    f = functools.partial(lambda a, x, *, c: a * x * c, 3.0, c=5.0)
    state, dx = ct.gradient(f, 2.0, wrt_self=True)
    assert state == {"args": (10.0,), "keywords": {"c": 6.0}}
    assert dx == 15.0


def test_masks_name_it_self():
    state, dx = ct.gradient(Affine(3.0, 1.0), 2.0, wrt_self=True, wrt="self.a")
    assert (state.a, state.b, dx) == (2.0, None, None)


def test_a_function_that_keeps_nothing():
    with pytest.raises(TypeError, match="wrt_self"):
        ct.gradient(lambda x: x, 1.0, wrt_self=True)
