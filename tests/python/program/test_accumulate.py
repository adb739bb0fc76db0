"""Cotangents that are added to arrays of the caller: `Pullback.accumulate`."""

from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest

import cotan as ct


@dataclass
class Layer:
    w: np.ndarray
    b: float
    name: str = "layer"


def model():
    return {"layers": [Layer(np.array([1.0, 2.0]), 3.0), Layer(np.array([4.0, 5.0]), 6.0)], "n": 2}


def loss(m, x):
    first, second = m["layers"]
    return np.sum((first.w * x + first.b) * second.w) * m["n"] + second.b**2


X = np.array([0.5, -1.0])


def zeros():
    return {"w": np.zeros(2), "b": np.zeros(())}


def test_sums_of_gradients():
    m, batches = model(), [X, 2 * X, X + 1]
    layers = [zeros(), zeros()]
    buffers = ({"layers": layers, "n": None}, None)
    for x in batches:
        _, back = ct.pullback(loss, m, x)
        assert back.accumulate(1.0, buffers) is buffers
    for i, total in enumerate(layers):
        gradients = [ct.gradient(loss, m, x)[0]["layers"][i] for x in batches]
        np.testing.assert_allclose(total["w"], sum(g.w for g in gradients))
        np.testing.assert_allclose(total["b"], sum(g.b for g in gradients))


@pytest.mark.parametrize(
    "like",
    [
        lambda w, b: {"w": w, "b": b},
        lambda w, b: Layer(w, b),
        lambda w, b: ct.Tangent(Layer, {"w": w, "b": b, "name": None}),
    ],
)
def test_forms_of_buffers(like):
    w, b = np.ones(2), np.ones(())
    _, back = ct.pullback(lambda m: np.sum(m.w**2) * m.b, Layer(np.array([1.0, 2.0]), 3.0))
    back.accumulate(2.0, (like(w, b),))
    assert w.tolist() == [13.0, 25.0]
    assert b == 11.0


def test_sequences_views_and_dtypes():
    rows = np.ones((2, 3), np.float32)
    x = np.array([1.0, 2.0, 3.0], np.float32)
    _, back = ct.pullback(
        lambda q, z: np.sum(q[0] ** 2 * q[1]) + abs(z) ** 2, deque([x, x]), 1 + 2j
    )
    z = np.zeros((), complex)
    back.accumulate(1.0, [list(rows), z])
    assert rows.tolist() == [[3.0, 9.0, 19.0], [2.0, 5.0, 10.0]]
    assert z == 2 + 4j
    _, back = ct.pullback(lambda x: 2.0 * x, x)
    strided = np.zeros((3, 2), np.float32)
    back.wrt(0).accumulate(x, strided[:, 1])
    assert strided[:, 1].tolist() == [2.0, 4.0, 6.0]
    assert strided[:, 0].tolist() == [0.0, 0.0, 0.0]


def test_what_has_no_buffer_is_not_computed():
    seen = []

    def f(x, y):
        return ct.hook(lambda d: seen.append("x"), x) * ct.hook(lambda d: seen.append("y"), y)

    _, back = ct.pullback(f, 2.0, 3.0)
    total = np.zeros(())
    back.accumulate(1.0, (None, total))
    assert total == 2.0
    assert seen == ["y"]


def test_what_has_no_cotangent_stays():
    buffer = np.ones(2)
    _, back = ct.pullback(lambda x, c, unused: np.sum(x * c), X, ct.const(X), X)
    back.accumulate(1.0, (None, buffer, buffer))
    assert buffer.tolist() == [1.0, 1.0]


def test_arrays_by_identity():
    a, b = ct.array([1.0, 2.0]), ct.array([3.0, 4.0])
    _, back = ct.pullback(lambda: (a * a * b).sum(), wrt=[a, b])
    buffers = [np.zeros(2), np.zeros(2)]
    back.accumulate(1.0, buffers)
    assert [x.tolist() for x in buffers] == [[6.0, 16.0], [1.0, 4.0]]


@pytest.mark.parametrize(
    ("buffers", "error", "message"),
    [
        (
            (np.zeros(3), None),
            ValueError,
            r"buffers\[0\] has shape \(3,\), and its cotangent \(2,\)",
        ),
        ((np.zeros(2, "f4"), None), TypeError, r"buffers\[0\] is of dtype float32, .* of float64"),
        ((np.zeros(2, int), None), TypeError, r"buffers\[0\] is of dtype int64"),
        (([0.0, 0.0], None), TypeError, r"buffers\[0\] must be an ndarray, not <class 'list'>"),
        ((ct.array([0.0, 0.0]), None), TypeError, r"buffers\[0\] must be an ndarray"),
        (
            (None, 0.0),
            TypeError,
            r"buffers\[1\] must be an ndarray, .* np\.zeros\(\(\), np\.float64\)",
        ),
        (
            (np.zeros(2),),
            ValueError,
            r"buffers has to be a tuple or list of 2 entries, .* tuple of 1",
        ),
        (np.zeros(2), ValueError, r"buffers has to be a tuple .* not an array of shape \(2,\)"),
        ((np.broadcast_to(0.0, 2), None), TypeError, r"buffers\[0\] is read-only"),
    ],
)
def test_buffers_that_do_not_fit(buffers, error, message):
    _, back = ct.pullback(lambda x, y: np.sum(x) * y, X, 2.0)
    with pytest.raises(error, match="accumulate: " + message):
        back.accumulate(1.0, buffers)
    first_fits = (np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match=r"buffers\[1\] has shape \(3,\)"):
        back.accumulate(1.0, first_fits)
    assert first_fits[0].tolist() == [0.0, 0.0]


def test_fields_that_are_missing():
    _, back = ct.pullback(lambda m: np.sum(m["p"].w) * m["p"].b, {"p": Layer(X, 2.0)})
    with pytest.raises(
        ValueError, match=r"buffers\[0\]\['p'\] has nothing for 'b', .* with \['w'\]"
    ):
        back.accumulate(1.0, ({"p": {"w": np.zeros(2)}},))
    with pytest.raises(ValueError, match=r"buffers\[0\] has nothing for 'p'"):
        back.accumulate(1.0, ({},))
    with pytest.raises(ValueError, match=r"buffers\[0\]\['p'\]\.w has shape \(3,\)"):
        back.accumulate(1.0, ({"p": Layer(np.zeros(3), None)},))


def test_recorded_cotangents_are_refused():
    buffer = np.zeros(())

    def outer(x):
        _, back = ct.pullback(lambda y: y * y, x)
        back.accumulate(1.0, (buffer,))
        return x

    with pytest.raises(TypeError, match=r"accumulate: the cotangent for buffers\[0\] is recorded"):
        ct.gradient(outer, 2.0)
    assert buffer == 0.0
