"""`vmap` with axes in structures, sizes and chunks: the same as a loop over examples."""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cotan as ct


@dataclasses.dataclass
class Layer:
    w: object
    b: object
    name: str = "layer"

    def __call__(self, x):
        return np.tanh(self.w * x) + self.b

    def scaled(self, x, *, by=1.0):
        return self(x) * by


class Pair(NamedTuple):
    first: object
    second: object


# --------------------------------------------------------------------------------------------------
# A loop


AXES = st.one_of(st.none(), st.integers(-2, 1))


@st.composite
def trees(draw, depth=2):
    """Give a structure of (shape without the axis, axis or None), some of it below one axis."""
    kind = draw(st.sampled_from(["leaf", "leaf", "list", "tuple", "dict", "object", "pair"]))
    if depth == 0 or kind == "leaf":
        return draw(AXES)
    count = 2 if kind in {"object", "pair"} else draw(st.integers(1, 3))
    parts = [draw(trees(depth - 1)) for _ in range(count)]
    if kind == "dict":
        return dict(zip("abc", parts, strict=False))
    if kind == "object":
        return Layer(*parts)
    if kind == "pair":
        return Pair(*parts)
    return list(parts) if kind == "list" else tuple(parts)


def mapped_tree(tree, function):
    """Apply a function to the axes in a tree, which are leaves."""
    if tree is None or isinstance(tree, int):
        return function(tree)
    if isinstance(tree, dict):
        return {key: mapped_tree(part, function) for key, part in tree.items()}
    if isinstance(tree, Layer):
        return Layer(mapped_tree(tree.w, function), mapped_tree(tree.b, function), tree.name)
    if isinstance(tree, Pair):
        return Pair(*(mapped_tree(part, function) for part in tree))
    return type(tree)(mapped_tree(part, function) for part in tree)


def leaves(tree):
    found = []
    mapped_tree(tree, found.append)
    return found


def arrays_for(axes, size, rng):
    def array(axis):
        shape = [2, 3] if axis is None else [3]
        if axis is not None:
            shape.insert(axis % 2, size)
        return rng.normal(size=shape)

    return mapped_tree(axes, array)


def example(axes, arrays, k):
    """Give the arguments of one example."""
    columns = iter(zip(leaves(axes), ct.tree_leaves(arrays), strict=True))

    def one(_):
        axis, array = next(columns)
        return array if axis is None else np.take(array, k, axis)

    return mapped_tree(axes, one)


def product(*args):
    total = np.ones(3)
    for i, leaf in enumerate(ct.tree_leaves(args)):
        total = total * np.cos(leaf[-1] if np.ndim(leaf) == 2 else leaf) + i
    return total


@settings(max_examples=150)
@given(
    axes=st.lists(trees(), min_size=1, max_size=3),
    size=st.integers(0, 4),
    chunk=st.one_of(st.none(), st.integers(1, 5)),
    out=st.integers(-2, 1),
    says_size=st.booleans(),
)
def test_axes_in_structures_are_a_loop(axes, size, chunk, out, says_size):
    axes = tuple(axes)
    rng = np.random.default_rng(0)
    args = tuple(arrays_for(part, size, rng) for part in axes)
    is_mapped = any(axis is not None for axis in leaves(axes))
    function = ct.vmap(
        lambda *args: {"y": product(*args), "z": (product(*args)[:2] ** 2,)},
        in_axes=axes,
        out_axes={"y": 0, "z": out},
        axis_size=size if says_size or not is_mapped else None,
        chunk_size=chunk,
    )
    found = function(*args)
    rows = [product(*example(axes, args, k)) for k in range(size)]
    want = np.reshape(rows, (size, 3))
    np.testing.assert_allclose(found["y"], want, rtol=1e-12)
    np.testing.assert_allclose(found["z"][0], np.moveaxis(want[:, :2] ** 2, 0, out), rtol=1e-12)


@settings(max_examples=60)
@given(axes=trees(), size=st.integers(1, 3), chunk=st.one_of(st.none(), st.integers(1, 3)))
def test_gradients_of_axes_in_structures_are_those_of_a_loop(axes, size, chunk):
    arrays = arrays_for(axes, size, np.random.default_rng(1))
    mapped = ct.vmap(product, in_axes=(axes,), axis_size=size, chunk_size=chunk)
    found = ct.grad(lambda arrays: np.sum(mapped(arrays) ** 2))(arrays)

    def looped(arrays):
        return sum(np.sum(product(example(axes, arrays, k)) ** 2) for k in range(size))

    want = ct.grad(looped)(arrays)
    for a, b in zip(ct.tree_leaves(found), ct.tree_leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


# --------------------------------------------------------------------------------------------------
# Axes of arguments


def test_axes_name_fields_or_stand_in_an_object_like_the_argument(rng):
    layer = Layer(rng.normal(size=3), rng.normal(size=(3, 4)))
    x = rng.normal(size=(4, 3))
    want = np.stack([Layer(layer.w, layer.b[:, k])(x[k]) for k in range(4)])
    for axes in ({"w": None, "b": 1}, {"b": -1, "w": None}, Layer(None, 1)):
        found = ct.vmap(lambda layer, x: layer(x), in_axes=(axes, 0))(layer, x)
        np.testing.assert_allclose(found, want)
    found = ct.vmap(lambda layers, x: layers[0](x), in_axes=([{"w": None, "b": 1}], 0))
    np.testing.assert_allclose(found([layer], x), want)


def test_axes_that_do_not_fit_are_refused_with_their_path(rng):
    layer, x = Layer(rng.normal(size=3), rng.normal(size=(4, 3))), rng.normal(size=(4, 3))

    def run(axes, *args):
        return ct.vmap(lambda first, *rest: product(first, *rest), in_axes=axes)(*args)

    for axes, error, message in [
        (({"w": None}, 0), ValueError, r"in_axes says nothing of first\.b"),
        (({"w": None, "c": 0}, 0), ValueError,
         r"in_axes has a dict with w, c for first, which is a Layer with w, b, name"),
        (({"w": {"v": 0}, "b": 0}, 0), ValueError,
         r"in_axes has a dict with v for first\.w, which is an array of shape \(3,\)"),
        (((0, 0), 0), ValueError, r"in_axes has a tuple of 2 for first, which is a Layer with"),
        (({"w": 1, "b": 0}, 0), np.exceptions.AxisError,
         r"in_axes has axis 1 for first\.w, which has shape \(3,\); its axes are 0 \(or -1\)"),
        (({"w": None, "b": -3}, 0), np.exceptions.AxisError,
         r"in_axes has axis -3 for first\.b, which has shape \(4, 3\); its axes are 0, 1"),
        (({"w": "rows", "b": 0}, 0), TypeError, r"in_axes is an axis.*'rows'"),
        (({"w": object, "b": 0}, 0), TypeError, r"in_axes has .*object.* for first\.w; an entry"),
        (({"w": True, "b": 0}, 0), TypeError, r"in_axes is an axis.*True"),
        ((0, 0), ValueError, r"first\.w has 3 examples, first\.b has 4: axis 0 of shape \(3,\)"),
    ]:  # fmt: skip
        with pytest.raises(error, match=f"vmap: {message}"):
            run(axes, layer, x)
    with pytest.raises(ValueError, match=r"has a tuple of 3 for first, which is a tuple of 2"):
        run(((0, None, 0),), (x, x))
    with pytest.raises(TypeError, match=r"in_axes is a dictionary.*in_axes=\(\{'a': 0\},\)"):
        ct.vmap(product, in_axes={"a": 0})


def test_what_cannot_be_mapped_is_refused_and_may_be_shared(rng):
    x = rng.normal(size=(2, 3))
    names = np.array(["a", "b"])
    with pytest.raises(TypeError, match=r"vmap: data\.names is an array of dtype <U1.*None in in_"):
        ct.vmap(lambda data: data["x"])({"x": x, "names": names})
    axes = ({"x": 0, "names": None},)
    found = ct.vmap(lambda data: data["x"] * len(data["names"]), axes)({"x": x, "names": names})
    np.testing.assert_array_equal(found, 2 * x)

    class Foreign:
        def __array__(self, dtype=None, copy=None):
            return x

    with pytest.raises(TypeError, match=r"a is of .*Foreign, which is not mapped; pass np.asarray"):
        ct.vmap(lambda a, b: b)(Foreign(), x)


def test_constants_are_handed_on_as_arrays(rng):
    w, x = rng.normal(size=3), rng.normal(size=(2, 3))
    found = ct.vmap(lambda w, x: w["w"] * x, in_axes=(None, 0))({"w": ct.const(w)}, ct.const(x))
    np.testing.assert_array_equal(found, w * x)


def test_callables_of_all_kinds(rng):
    layer, x, by = Layer(2.0, 0.5), rng.normal(size=(4, 3)), rng.normal(size=4)
    for function in (layer, layer.scaled, functools.partial(Layer.__call__, layer)):
        np.testing.assert_allclose(ct.vmap(function)(x), layer(x))
    np.testing.assert_allclose(ct.vmap(np.add)(x, x), x + x)
    np.testing.assert_allclose(ct.vmap(functools.partial(layer.scaled, by=3.0))(x), 3 * layer(x))
    # Keyword arguments are mapped over their first axis, whatever in_axes says.
    found = ct.vmap(layer.scaled, in_axes=1, out_axes=1)(x.T, by=by)
    np.testing.assert_allclose(found, (layer(x) * by[:, None]).T)
    with pytest.raises(ValueError, match="vmap: x has 4 examples, by has 3"):
        ct.vmap(layer.scaled)(x, by=by[:3])
    with pytest.raises(ValueError, match="vmap: by is a number .* share it with functools.partial"):
        ct.vmap(layer.scaled)(x, by=3.0)


# --------------------------------------------------------------------------------------------------
# Axes of results


def test_results_that_do_not_differ_are_given_once(rng):
    w, x = rng.normal(size=3), rng.normal(size=(4, 3))

    def f(x):
        return {"y": x * w, "w": w**2, "n": 7, "half": 0.5}

    found = ct.vmap(f, out_axes={"y": 1, "w": None, "n": None, "half": None})(x)
    np.testing.assert_array_equal(found["y"], (x * w).T)
    np.testing.assert_array_equal(found["w"], w**2)
    assert found["n"] == 7
    assert found["half"] == 0.5
    assert isinstance(found["w"], np.ndarray)

    def loss(w):
        y, square = ct.vmap(lambda x: (x * w, np.sum(w**2)), out_axes=(0, None))(x)
        return np.sum(y) + 10 * square

    np.testing.assert_allclose(ct.grad(loss)(w), x.sum(0) + 20 * w)


@pytest.mark.parametrize(
    "differs", [lambda x: x, lambda x: x.astype(int), np.argsort, lambda x: x > 0, lambda x: x + 0j]
)
def test_results_that_differ_are_not_given_once(differs, rng):
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(2, 3))
    message = r"vmap: out_axes has None for result\[1\]\.d, which differs between examples"
    with pytest.raises(ValueError, match=message):
        ct.vmap(lambda x: (x, {"d": differs(x)}), out_axes=(0, {"d": None}))(x)

    # The same inside of another vmap, where all of it differs between the examples of that.
    def inner(out):
        return ct.vmap(
            lambda y: ct.vmap(lambda x: (x * y, differs(out(x, y))), out_axes=(0, None))(x)
        )

    with pytest.raises(ValueError, match=r"out_axes has None for result\[1\]"):
        inner(lambda x, y: x * y)(y)
    found = inner(lambda x, y: y)(y)
    np.testing.assert_array_equal(found[1], differs(y))
    np.testing.assert_allclose(found[0], y[:, None] * x)


def test_shared_results_in_other_transforms(rng):
    w, x = rng.normal(size=3), rng.normal(size=(4, 3))

    def f(w):
        return ct.vmap(lambda x: (x * w, np.sin(w)), out_axes=(1, None))(x)

    np.testing.assert_allclose(ct.jacobian(f, w)[1], np.diag(np.cos(w)))
    np.testing.assert_allclose(ct.checkpoint(f)(w)[1], np.sin(w))
    prepared = ct.prepare(f, w, transform="value")
    for v in (w, 2 * w):
        np.testing.assert_allclose(prepared(v)[1], np.sin(v))
        np.testing.assert_allclose(prepared(v)[0], (x * v).T)


def test_axes_of_results_that_do_not_fit_are_refused(rng):
    x = rng.normal(size=(4, 3))
    for axes, error, message in [
        (2, np.exceptions.AxisError, r"axis 2 for result\[0\], .* has shape \(4, 3\)"),
        ((-3, 0), np.exceptions.AxisError, r"axis -3 for result\[0\]"),
        ((0, 1), np.exceptions.AxisError, r"axis 1 for result\[1\], .* has shape \(4,\)"),
        ((0, 0, 0), ValueError, r"a tuple of 3 for result, which is a tuple of 2"),
        ({"a": 0}, ValueError, r"a dict with a for result, which is a tuple of 2"),
        ((0, {"a": 0}), ValueError, r"a dict with a for result\[1\], which is an array of shape"),
    ]:
        with pytest.raises(error, match=f"vmap: out_axes has {message}"):
            ct.vmap(lambda x: (x, np.sum(x)), out_axes=axes)(x)
    with pytest.raises(
        TypeError, match="out_axes is an axis, None, .* part of the result, not 1.5"
    ):
        ct.vmap(lambda x: x, out_axes=(0, 1.5))


# --------------------------------------------------------------------------------------------------
# Sizes


def test_axis_size_repeats_what_has_no_examples(rng):
    w = rng.normal(size=3)
    for function in (
        ct.vmap(lambda w: 2 * w, in_axes=None, axis_size=4),
        ct.vmap(lambda w: 2 * w, in_axes=(None,), axis_size=4, chunk_size=3),
    ):
        np.testing.assert_array_equal(function(w), np.tile(2 * w, (4, 1)))
    np.testing.assert_array_equal(ct.vmap(lambda: w, axis_size=2)(), np.stack([w, w]))
    slope = ct.grad(lambda w: np.sum(ct.vmap(np.sin, in_axes=None, axis_size=5)(w)))(w)
    np.testing.assert_allclose(slope, 5 * np.cos(w))
    with pytest.raises(ValueError, match=r"vmap: axis_size is 2, and x has 3 examples: axis 0 of"):
        ct.vmap(lambda x: x, axis_size=2)(w)


@pytest.mark.parametrize("name", ["axis_size", "chunk_size"])
def test_sizes_that_are_none_are_refused(name):
    for value, error, message in [
        (-1, ValueError, "must be at least"),
        (1.5, TypeError, "is a number of examples, not 1.5"),
        (True, TypeError, "is a number of examples, not True"),
        ("8", TypeError, "is a number of examples, not '8'"),
    ]:
        with pytest.raises(error, match=f"vmap: {name} {message}"):
            ct.vmap(np.sin, **{name: value})
    with pytest.raises(ValueError, match="vmap: chunk_size must be at least 1, not 0"):
        ct.vmap(np.sin, chunk_size=0)


def test_chunks_are_called_one_after_the_other(rng):
    x, sizes = rng.normal(size=(7, 3)), []

    def f(x):
        sizes.append(x.shape)
        return {"y": np.tanh(x), "s": np.sum(x)}, 3.0, "text"

    for chunk, calls in [(1, 7), (2, 4), (3, 3), (6, 2), (7, 1), (100, 1)]:
        sizes.clear()
        found, number, text = ct.vmap(f, chunk_size=chunk, out_axes=0)(x)
        np.testing.assert_allclose(found["y"], np.tanh(x))
        np.testing.assert_allclose(found["s"], x.sum(1))
        np.testing.assert_array_equal(number, np.full(7, 3.0))
        assert text == "text"
        assert sizes == [(3,)] * calls


def test_chunks_inside_of_transforms(rng):
    x, w = rng.normal(size=(5, 3)), rng.normal(size=3)

    def loss(w, x):
        return np.tanh(w @ x) ** 2

    def total(w, x, **options):
        return np.sum(ct.vmap(loss, in_axes=(None, 1), **options)(w, x))

    for found, want in zip(
        ct.gradient(functools.partial(total, chunk_size=2), w, x.T),
        ct.gradient(total, w, x.T),
        strict=True,
    ):
        np.testing.assert_allclose(found, want, rtol=1e-12)
    each = ct.vmap(ct.grad(loss), in_axes=(None, 0), chunk_size=2)(w, x)
    np.testing.assert_allclose(each, [ct.grad(loss)(w, row) for row in x], rtol=1e-12)
    twice = ct.vmap(lambda w: ct.vmap(loss, (None, 0), chunk_size=3)(w, x), chunk_size=2)
    np.testing.assert_allclose(twice(np.stack([w, 2 * w, 3 * w]))[1], np.tanh(x @ (2 * w)) ** 2)
    lazy = ct.vmap(loss, in_axes=(None, 0), chunk_size=2)(w, ct.array(x))
    assert isinstance(lazy, ct.Array)
    np.testing.assert_allclose(lazy, np.tanh(x @ w) ** 2)
    prepared = ct.prepare(functools.partial(total, chunk_size=2), w, x.T)
    for v in (w, -2 * w):
        np.testing.assert_allclose(prepared(v, x.T)[0], ct.gradient(total, v, x.T)[0])


def test_no_examples():
    x = np.empty((0, 3))
    for options in ({}, {"chunk_size": 2}, {"axis_size": 0}):
        found = ct.vmap(lambda x: {"y": x, "s": np.sum(x), "m": np.outer(x, x)}, **options)(x)
        assert {name: leaf.shape for name, leaf in found.items()} == {
            "y": (0, 3),
            "s": (0,),
            "m": (0, 3, 3),
        }
    assert ct.vmap(np.outer, out_axes=-1)(x, x).shape == (3, 3, 0)
    assert ct.vmap(ct.grad(lambda x: np.max(x) ** 2))(x).shape == (0, 3)
    assert ct.vmap(lambda x: (x, 2.0), out_axes=(0, None))(x)[1] == 2.0
    assert ct.vmap(lambda w: w, in_axes=None, axis_size=0)(np.ones(2)).shape == (0, 2)


# --------------------------------------------------------------------------------------------------
# Derivatives of one example, and of all


def energy(x):
    return np.sum(np.sin(x) * x[::-1] ** 2)


INSIDE = {
    "grad": lambda x: ct.grad(energy)(x),
    "value_and_gradient": lambda x: ct.value_and_gradient(energy, x)[1][0],
    "jacobian": lambda x: ct.jacobian(lambda x: np.outer(x, np.cos(x)), x),
    "jacfwd": lambda x: ct.jacfwd(np.tanh)(x),
    "hessian": lambda x: ct.hessian(energy, x),
    "hvp": lambda x: ct.hvp(energy, x, np.cos(x)),
    "jvp": lambda x: ct.jvp(np.sin, (x,), (x**2,))[1],
    "linearize": lambda x: ct.linearize(np.sin, x)[1](x),
    "pullback": lambda x: ct.pullback(np.sin, x)[1](x)[0],
    "checkpoint": lambda x: ct.grad(ct.checkpoint(energy))(x),
    "clip_gradient": lambda x: ct.grad(lambda x: energy(ct.clip_gradient(x, norm=0.5)))(x),
    "vmap": lambda x: ct.vmap(lambda a: a * x)(x),
}


@pytest.mark.parametrize("name", INSIDE)
def test_derivatives_of_one_example(name, rng):
    x = rng.normal(size=(3, 4))
    want = np.stack([INSIDE[name](row) for row in x])
    np.testing.assert_allclose(ct.vmap(INSIDE[name])(x), want, rtol=1e-12, atol=1e-14)
    found = ct.vmap(INSIDE[name], in_axes=-1, out_axes=-1, chunk_size=2)(x.T)
    np.testing.assert_allclose(found, np.moveaxis(want, 0, -1), rtol=1e-12, atol=1e-14)
    slope = ct.grad(lambda x: np.sum(ct.vmap(INSIDE[name])(x)))(x)
    looped = ct.grad(lambda x: sum(np.sum(INSIDE[name](row)) for row in x))(x)
    np.testing.assert_allclose(slope, looped, rtol=1e-10, atol=1e-12)
    if name != "clip_gradient":  # which clips this gradient, too
        step, direction = 1e-6, rng.normal(size=x.shape)
        ends = [np.sum(ct.vmap(INSIDE[name])(x + s * direction)) for s in (step, -step)]
        expected = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(np.sum(slope * direction), expected, rtol=1e-6, atol=1e-7)


def test_a_hook_around_the_batch_gets_all_cotangents(rng):
    x, seen = rng.normal(size=(4, 3)), []

    def keep(ct):
        seen.append(np.array(ct))

    ct.grad(lambda x: np.sum(ct.vmap(energy)(ct.hook(keep, x))))(x)
    np.testing.assert_allclose(seen, [ct.vmap(ct.grad(energy))(x)])
    seen.clear()
    # The reverse pass begins with the last chunk.
    ct.grad(lambda x: np.sum(ct.vmap(lambda a: energy(ct.hook(keep, a)), chunk_size=3)(x)))(x)
    np.testing.assert_allclose([*seen[1:], seen[0]], ct.vmap(ct.grad(energy))(x))
