"""What `update` makes of tuples and masks, and what mappings `Tangent`s are."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from ids import same_everywhere

import cotan as ct


@dataclass
class Weights:
    w: np.ndarray
    b: float
    name: str = "x"


def step(p, d):
    return p - d


def test_a_tuple_of_gradients_is_taken_apart():
    model = {"w": 2.0, "b": 1.0}
    g = ct.gradient(lambda m, x: m["w"] ** 2 + m["b"] * x, model, ct.const(3.0))
    assert g[1] is None
    assert ct.update(model, g, step) == {"w": -2.0, "b": -2.0}
    assert ct.update(model, (None,), step) == model
    assert ct.update(5.0, ct.gradient(lambda x: x * x, 5.0), step) == -5.0


def test_of_a_tuple_the_gradient_is_read_entry_by_entry():
    model = (2.0, 1.0)
    (g,) = ct.gradient(lambda m: m[0] ** 2 + m[1], model)
    assert ct.update(model, g, step) == (-2.0, 0.0)
    with pytest.raises(ValueError, match="has 2 entries, 1 given"):
        ct.update(model, (g,), step)


def test_several_gradients_are_refused():
    with pytest.raises(ValueError, match="2 entries that are not None, and the model is one dict"):
        ct.update({"w": 2.0}, ({"w": 1.0}, 3.0), step)


@pytest.mark.parametrize(
    "mask",
    [
        {"w": True},
        {"w": True, "b": False},
        "w",
        ["w"],
        lambda path, leaf: path == "w",
        Weights(True, None, None),
    ],
    ids=same_everywhere,
)
def test_masks(mask):
    new = ct.update(Weights(np.ones(2), 1.0), {"w": np.ones(2), "b": 1.0}, step, mask=mask)
    assert new.w.tolist() == [0.0, 0.0] and new.b == 1.0


def test_a_bool_stands_for_everything_below():
    model = {"a": [1.0, 2.0], "ab": 3.0, "c d": 4.0}
    new = ct.update(model, model, step, mask={"a": True, "c d": np.True_})
    assert new == {"a": [0.0, 0.0], "ab": 3.0, "c d": 0.0}
    assert ct.update(model, model, step, mask=True) == {"a": [0.0, 0.0], "ab": 0.0, "c d": 0.0}
    assert ct.update(model, model, step, mask=False) == model
    assert ct.update(model, model, step, mask="a[*]")["a"] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (
            {"x": True},
            ValueError,
            "mask says True for 'x', which matches no array or float; there are: w, b",
        ),
        ("x", ValueError, "the mask 'x' matches no array or float"),
        ({"w": 1.0}, TypeError, "True, False or None for w, not 1.0"),
    ],
    ids=str,
)
def test_masks_that_are_wrong(mask, error, message):
    with pytest.raises(error, match=message):
        ct.update({"w": 1.0, "b": 2.0}, {"w": 1.0, "b": 2.0}, step, mask=mask)


def test_tangents_are_mappings():
    (g,) = ct.gradient(lambda m: np.sum(m.w) * m.b, Weights(np.ones(2), 3.0))
    assert isinstance(g, Mapping)
    assert ct.Cotangent is ct.Tangent
    assert list(g) == ["w", "b", "name"] and len(g) == 3
    assert dict(g)["b"] == 2.0 and g.get("name") is None and g.get("nothing", 1) == 1
    assert "w" in g and "nothing" not in g
    assert {**g}.keys() == g.keys()
    assert [value for _, value in g.items()][1] == 2.0
