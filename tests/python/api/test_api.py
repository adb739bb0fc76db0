"""The public functions: what they return for each kind of argument."""

import dataclasses
import functools
import gc
import math
import pickle
import weakref
from typing import NamedTuple

import numpy as np
import pytest

import cotan as ct
from cotan import _core

X = np.array([0.5, 1.0, 1.5])


class Point(NamedTuple):
    x: float
    y: float


@dataclasses.dataclass
class Layer:
    w: np.ndarray
    b: float
    name: str = "layer"
    size: int = 3


@dataclasses.dataclass
class Model:
    layers: list
    scale: float = 2.0


class Trainable:
    __trainable__ = ("w",)

    def __init__(self, w, frozen):
        self.w, self.frozen = w, frozen


class Slotted:
    __slots__ = ("w",)

    def __init__(self, w):
        self.w = w


def product(x, y):
    return ct.sum(ct.mul(x, y))


# --------------------------------------------------------------------------------------------------
# What `gradient` returns


def test_an_ndarray_for_an_ndarray():
    for dtype in (np.float32, np.float64, np.complex64, np.complex128, np.float16):
        x = np.ones((2, 3), dtype)
        (g,) = ct.gradient(lambda x: ct.sum(ct.mul(x, x).real), x)
        assert type(g) is np.ndarray
        assert g.dtype == dtype
        assert g.shape == x.shape
        np.testing.assert_array_equal(g, 2 * x)


def test_a_zero_dimensional_array_for_its_like():
    (g,) = ct.gradient(lambda x: x * x, np.array(3.0))
    assert type(g) is np.ndarray
    assert g.shape == ()
    assert g == 6


@pytest.mark.parametrize("number", [3, 3.0, np.float64(3)])
def test_a_float_for_a_number(number):
    (g,) = ct.gradient(lambda x: x * x, number)
    assert isinstance(g, float)
    assert g == 6.0


def test_a_numpy_scalar_for_a_numpy_scalar():
    (g,) = ct.gradient(lambda x: x * x, np.float32(3))
    assert type(g) is np.float32
    assert g == 6


def test_a_complex_number_for_a_complex_number():
    (g,) = ct.gradient(lambda z: abs(z) ** 2, 1 + 2j)
    assert type(g) is complex
    assert g == 2 + 4j


def test_a_lazy_array_for_an_array():
    (g,) = ct.gradient(lambda x: product(x, x), ct.array(X))
    assert isinstance(g, ct.Array)
    np.testing.assert_array_equal(np.asarray(g), 2 * X)


def test_containers_for_containers():
    def f(a, b, c, d):
        return a[0] * b[1] + c["u"] * c["v"] + d.x * d.y

    gradients = ct.gradient(f, (2.0, 9.0), [9.0, 3.0], {"u": 4.0, "v": 5.0}, Point(6.0, 7.0))
    assert gradients == ((3.0, None), [None, 2.0], {"u": 5.0, "v": 4.0}, (7.0, 6.0))
    assert type(gradients[3]) is Point


def test_a_tangent_for_an_object():
    model = Model([Layer(X, 1.0), Layer(2 * X, 3.0)])

    def f(m):
        return m.scale * (product(m.layers[0].w, m.layers[1].w) + m.layers[0].b)

    (g,) = ct.gradient(f, model)
    assert isinstance(g, ct.Tangent)
    np.testing.assert_allclose(g.layers[0].w, 4 * X)
    np.testing.assert_allclose(g.layers[1].w, 2 * X)
    assert g.layers[0].b == 2.0
    assert g.layers[1].b is None
    assert g.layers[0].name is None
    assert g.layers[0].size is None
    assert g.scale == pytest.approx(2 * np.sum(X * X) + 1)
    with pytest.raises(AttributeError, match="Layer has no field 'v'"):
        _ = g.layers[0].v
    with pytest.raises(AttributeError, match="replace"):
        g.scale = 1.0
    assert g.replace(scale=1.0).scale == 1.0
    assert g == pickle.loads(pickle.dumps(g))
    assert "Tangent[Model]" in repr(g)


def test_slotted_and_plain_objects():
    (g,) = ct.gradient(lambda s: s.w * s.w, Slotted(3.0))
    assert g.w == 6.0
    (g,) = ct.gradient(lambda t: t.w * t.frozen, Trainable(3.0, 4.0))
    assert g.w == 4.0
    assert g.frozen is None


@pytest.mark.parametrize(
    "other", ["text", None, True, np.array([1, 2]), np.array([True]), np.int64(3), object()]
)
def test_none_for_what_is_held_constant(other):
    assert ct.gradient(lambda x, o: x * 2, 1.0, ct.const(other)) == (2.0, None)


def test_none_for_what_has_no_influence():
    assert ct.gradient(lambda x, y: x * 2, 1.0, 5.0) == (2.0, None)
    assert ct.gradient(lambda x: 1.0, 5.0) == (None,)
    assert ct.gradient(lambda x: x > 1, 5.0) == (None,)
    assert ct.gradient(lambda x: ct.sum(x.astype(int)), X) == (None,)
    assert ct.gradient(lambda: 1.0) == ()


def test_integers_are_data_inside_structures():
    assert ct.gradient(lambda d: d["x"] ** d["n"], {"x": 3.0, "n": 2}) == ({"x": 6.0, "n": None},)


def test_one_cotangent_for_each_slot_of_a_shared_array():
    (g,) = ct.gradient(lambda p: product(p[0], p[1]), [X, X])
    np.testing.assert_array_equal(g[0], X)
    np.testing.assert_array_equal(g[1], X)


def test_the_function_gets_what_it_was_given():
    layer = Layer(X, 1.0)

    def f(layer, text, n, c):
        assert type(layer) is Layer
        assert layer.name == "layer"
        assert layer.size == 3
        assert isinstance(layer.w, ct.Array)
        assert text == "text"
        assert n == 3
        assert type(c) is float
        return ct.sum(layer.w)

    (g, *others) = ct.gradient(f, layer, ct.const("text"), 3, ct.const(2.0))
    np.testing.assert_array_equal(g.w, np.ones(3))
    assert others == [None] * 3
    assert layer.w is X


# --------------------------------------------------------------------------------------------------
# Values, pullbacks


def test_value_and_gradient():
    assert ct.value_and_gradient(lambda x, y: x * y, 2.0, 3.0) == (6.0, (3.0, 2.0))
    value, (g,) = ct.value_and_gradient(lambda x: ct.sum(x), np.ones(3, np.float32))
    assert type(value) is np.float32
    assert g.dtype == np.float32
    value, _ = ct.value_and_gradient(lambda x: ct.sum(x), ct.array(X))
    assert isinstance(value, ct.Array)


def test_pullback_of_an_array():
    y, back = ct.pullback(lambda x, c: ct.sin(x) * c, X, 2.0)
    assert type(y) is np.ndarray
    np.testing.assert_allclose(y, 2 * np.sin(X), rtol=1e-15)
    dx, dc = back(np.ones(3))
    assert isinstance(dx, ct.Array)
    assert not dx.is_forced
    np.testing.assert_allclose(np.asarray(dx), 2 * np.cos(X), rtol=1e-15)
    assert dx.is_forced
    assert not dc.is_forced
    assert float(dc) == pytest.approx(np.sum(np.sin(X)))
    assert back.nbytes > 0
    assert "Pullback" in repr(back)
    assert isinstance(back.program, ct.Program)


def test_pullback_of_a_structure():
    y, back = ct.pullback(lambda x: {"a": 2 * x, "b": (x * x, "text")}, 3.0)
    assert y == {"a": 6.0, "b": (9.0, "text")}
    assert float(back({"a": 1.0, "b": (1.0, None)})[0]) == 8.0
    assert float(back({"a": 1.0})[0]) == 2.0
    assert back(None)[0] is None or float(back(None)[0]) == 0.0


def test_a_pullback_of_fewer_arguments():
    _, back = ct.pullback(lambda x, y, z: product(x, y) * z, X, 2 * X, 3.0)
    assert len(back(1.0)) == 3
    only = back.wrt(1)(1.0)
    np.testing.assert_allclose(np.asarray(only), 3 * X)
    first, second = back.wrt((0, 2))(1.0)[0::2]
    np.testing.assert_allclose(np.asarray(first), 6 * X)
    assert float(second) == pytest.approx(2 * np.sum(X * X))
    assert back.wrt(0).nbytes <= back.nbytes
    with pytest.raises(ValueError, match=r"no argument 3.*has 3"):
        back.wrt(3)


def test_a_pullback_is_let_go():
    _, back = ct.pullback(ct.exp, ct.array(X))
    _, other = ct.pullback(lambda x: x * 2.0, X)
    assert back.nbytes >= 24
    assert other.nbytes == 0
    (dx,) = back(np.ones(3))
    reference = weakref.ref(dx)
    del dx
    gc.collect()
    assert reference() is None


# --------------------------------------------------------------------------------------------------
# Constants, `wrt`


def test_const_and_dropgrad_and_nograd():
    assert ct.gradient(lambda x, c: x * c, 2.0, ct.const(3.0)) == (3.0, None)
    assert ct.gradient(lambda x, c: x * ct.dropgrad(c), 2.0, 3.0) == (3.0, None)
    assert ct.gradient(lambda x: x * ct.nograd(math.exp)(0), 2.0) == (1.0,)
    frozen = ct.nograd(lambda x: {"square": x * x})
    assert ct.gradient(lambda x: frozen(x)["square"] * x, 3.0) == (9.0,)
    assert repr(ct.const(3.0)) == "const(3.0)"
    plain = object()
    assert ct.dropgrad(plain) is plain


def test_const_inside_a_structure():
    (g,) = ct.gradient(lambda p: p["a"] * p["b"], {"a": ct.const(2.0), "b": 3.0})
    assert g == {"a": None, "b": 2.0}


MODEL = Model([Layer(X, 1.0), Layer(2 * X, 3.0)])


def whole(m, s):
    a, b = m.layers
    return (product(a.w, b.w) + a.b * b.b) * m.scale * s


@pytest.mark.parametrize(
    ("wrt", "active"),
    [
        (None, "w0 b0 w1 b1 scale s"),
        (1, "s"),
        (-1, "s"),
        ((0, 1), "w0 b0 w1 b1 scale s"),
        ("m", "w0 b0 w1 b1 scale"),
        ("s", "s"),
        (["s", "m.scale"], "scale s"),
        ("m.layers[0]", "w0 b0"),
        ("m.layers[0].w", "w0"),
        ("m.layers[*].b", "b0 b1"),
        ("**.w", "w0 w1"),
        (lambda path, leaf: np.ndim(leaf) == 1, "w0 w1"),
        (lambda path, leaf: path.endswith("[1].b"), "b1"),
        ((True, False), "w0 b0 w1 b1 scale"),
        ((Model([True, False], False), True), "w0 b0 s"),
    ],
)
def test_wrt(wrt, active):
    g, s = ct.gradient(whole, MODEL, 4.0, wrt=wrt)
    layers = g.layers if g is not None else [None, None]
    found = {
        "w0": layers[0] and layers[0].w,
        "b0": layers[0] and layers[0].b,
        "w1": layers[1] and layers[1].w,
        "b1": layers[1] and layers[1].b,
        "scale": g and g.scale,
        "s": s,
    }
    assert {k for k, v in found.items() if v is not None} == set(active.split())
    full, _ = ct.gradient(whole, MODEL, 4.0)
    if found["w0"] is not None:
        np.testing.assert_array_equal(found["w0"], full.layers[0].w)


@pytest.mark.parametrize(
    ("wrt", "message"),
    [
        (2, "no argument 2.*has 2"),
        ("q", "'q' matches nothing.*m.layers"),
        ("m.layers[0].v", "matches nothing"),
        ((True, True, True), "3 entries for 2"),
    ],
)
def test_wrt_that_means_nothing(wrt, message):
    with pytest.raises(ValueError, match=message):
        ct.gradient(whole, MODEL, 4.0, wrt=wrt)


def test_wrt_overrides_what_a_class_declares():
    thing = Trainable(3.0, 4.0)
    (g,) = ct.gradient(lambda t: t.w * t.frozen, thing, wrt="t.frozen")
    assert g.frozen == 3.0
    assert g.w is None


def test_constants_are_never_computed():
    with ct.profile() as work:
        ct.gradient(lambda x, c: ct.sum(ct.sin(x) * ct.cos(c)), X, ct.const(X))
    assert work.equations["sin"] == 0
    assert work.equations["cos"] == 2
    with ct.profile() as work:
        ct.gradient(lambda x, c: ct.sum(ct.sin(x) * ct.cos(c)), X, X)
    assert work.equations["sin"] == 2


# --------------------------------------------------------------------------------------------------
# Gradients as functions, second order


def test_grad_and_value_and_grad():
    assert ct.grad(lambda x: x**3)(2.0) == 12.0
    assert ct.grad(lambda x, y: x * y**2, argnums=1)(2.0, 3.0) == 12.0
    assert ct.grad(lambda x, y: x * y**2, argnums=-1)(2.0, 3.0) == 12.0
    assert ct.grad(lambda x, *, n: x**n)(2.0, n=3) == 12.0
    assert ct.value_and_grad(lambda x: x**3)(2.0) == (8.0, 12.0)
    np.testing.assert_array_equal(ct.grad(lambda x: 1.0)(X), np.zeros(3))
    assert ct.grad(lambda x: 1.0)(X).dtype == X.dtype
    assert ct.grad(lambda x: 1.0)(3) == 0.0

    @ct.grad
    def cube(x):
        """A cube."""
        return x**3

    assert cube.__doc__ == "A cube."
    with pytest.raises(ValueError, match=r"argnums=1.*1 argument"):
        ct.grad(lambda x: x, argnums=1)(2.0)


def test_third_derivative():
    d3 = functools.reduce(lambda f, _: ct.grad(f), range(3), lambda x: ct.sin(x))
    assert d3(0.7) == pytest.approx(-math.cos(0.7), rel=1e-14)


def test_nested_gradients_do_not_confuse_perturbations():
    def f(x):
        inner = ct.grad(lambda y: x * y)(1.0)
        return x * inner

    assert ct.grad(f)(3.0) == 6.0


@pytest.mark.parametrize(
    "y",
    [1.0, np.float64(1), np.array(1.0), ct.array(1.0)],
    ids=["float", "scalar", "ndarray", "Array"],
)
@pytest.mark.parametrize(
    "inner",
    [
        lambda f, y: ct.gradient(f, y)[0],
        lambda f, y: ct.value_and_gradient(f, y)[1][0],
        lambda f, y: ct.value_and_gradient(f, y)[0],
        lambda f, y: ct.pullback(f, y)[0],
        lambda f, y: ct.pullback(f, y)[1](1.0)[0],
    ],
    ids=["gradient", "value_and_gradient", "value", "value of a pullback", "pullback"],
)
def test_an_inner_derivative_depends_on_what_it_closes_over(inner, y):
    assert ct.gradient(lambda x: inner(lambda y: x * y, y), 3.0) == (1.0,)
    assert ct.gradient(lambda x: inner(lambda y: x * x * y, y), 3.0) == (6.0,)


def test_hvp_and_hessian():
    def f(x):
        return x[0] ** 2 * x[1] + ct.sin(x[2])

    x = np.array([1.0, 3.0, 0.5])
    h = np.array([[6, 2, 0], [2, 0, 0], [0, 0, -math.sin(0.5)]])
    np.testing.assert_allclose(ct.hessian(f, x), h, rtol=1e-14)
    v = np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(ct.hvp(f, x, v), h @ v, rtol=1e-14)
    np.testing.assert_array_equal(ct.hessian(ct.sum, x), np.zeros((3, 3)))
    np.testing.assert_array_equal(ct.hvp(ct.sum, x, v), np.zeros(3))
    single = ct.hessian(lambda x: ct.sum(ct.square(x)), x.astype(np.float32))
    assert single.dtype == np.float32


def test_hvp_computes_no_gradient():
    rng = np.random.default_rng(0)
    a, x, v = rng.normal(size=(5, 3)), rng.normal(size=3), rng.normal(size=3)

    def f(x):
        return np.sum(np.exp(a @ x))

    with ct.profile() as work:
        product = ct.hvp(f, x, v)
    assert work.equations["matmul"] == 3
    with ct.profile() as work:
        _, dy = ct.jvp(lambda x: ct.gradient(f, x)[0], (x,), (v,))
    assert work.equations["matmul"] == 4
    np.testing.assert_array_equal(product, dy)
    # In a recording around it, and of structures with parts that have no influence.
    np.testing.assert_allclose(
        ct.gradient(lambda x: np.sum(ct.hvp(f, x, v)), x)[0],
        np.einsum("i,ij,ik,il,l->j", np.exp(a @ x), a, a, a, v),
        rtol=1e-13,
    )
    found = ct.hvp(lambda p: f(p["x"]), {"x": x, "y": v}, {"x": v, "y": None})
    np.testing.assert_array_equal(found["x"], product)
    np.testing.assert_array_equal(found["y"], np.zeros(3))


def test_hvp_tells_of_nan_in_the_gradient():
    def f(x):
        return np.sum(np.sqrt(ct.dropgrad(x) - 5.0) * x)

    x, v = np.array([1.0, 9.0]), np.array([1.0, -1.0])
    np.testing.assert_array_equal(ct.hvp(f, x, v), np.zeros(2))
    with ct.detect(), pytest.raises(ct.NonFiniteError):
        ct.hvp(f, x, v)


def test_isderiving_and_nestlevel():
    seen = []

    def f(x):
        seen.append((ct.isderiving(), ct.nestlevel()))
        return x * 2

    f(1.0)
    ct.gradient(f, 1.0)
    ct.gradient(lambda x: ct.gradient(f, x)[0] * x, 1.0)
    ct.pullback(f, 1.0)
    assert seen == [(False, 0), (True, 1), (True, 2), (True, 1)]
    assert not ct.isderiving()


# --------------------------------------------------------------------------------------------------
# The module


def test_the_machine():
    assert ct.simd_level() in {"avx512", "avx2", "baseline", "neon"}
    threads = ct.num_threads()
    assert threads >= 1
    try:
        ct.set_num_threads(1)
        assert ct.num_threads() == 1
        ct.set_num_threads(10**12)
        assert ct.num_threads() == 1024
    finally:
        ct.set_num_threads(threads)
    ct.clear_caches()
    assert ct.gradient(lambda x: x * x, 3.0) == (6.0,)


def test_every_public_name_is_documented():
    assert len(set(ct.__all__)) == len(ct.__all__)
    for name in ct.__all__:
        assert hasattr(ct, name)
        if not name.startswith("__"):
            assert getattr(ct, name).__doc__, name
    for name in dir(ct.Array):
        if not name.startswith("_"):
            assert getattr(ct.Array, name).__doc__, name


def test_the_compiled_module_says_so():
    assert _core.is_active(1.0) is False
    assert ct.gradient(lambda x: x if _core.is_active(x) else x * 0, 2.0) == (1.0,)
    paths = _core.structure({"a": [1.0, 2.0], "b": X}).paths
    assert paths == [".a[0]", ".a[1]", ".b"]


def test_a_value_that_escapes_from_an_inner_recording_is_active_in_the_outer_one():
    x = np.array([1.0, 2.0, 3.0])

    def nested(x):
        kept = []
        ct.gradient(lambda z: np.sum(kept.append(z * z) or z), x)
        return np.sum(kept[0])

    def saved(x):
        kept = []
        y = ct.checkpoint(lambda z: kept.append(z * 2) or z * z, x)
        return np.sum(y) + np.sum(kept[0])

    def ruled(x):
        kept = []
        rule = ct.adjoint(lambda z: (kept.append(z * 10.0) or z, lambda dz: dz))
        rule(x)
        return np.sum(kept[0]) * 2.0

    np.testing.assert_array_equal(ct.gradient(nested, x)[0], 2 * x)
    np.testing.assert_array_equal(ct.gradient(saved, x)[0], 2 + 2 * x)
    np.testing.assert_array_equal(ct.gradient(ruled, x)[0], np.full(3, 20.0))
    _, back = ct.pullback(nested, x)
    np.testing.assert_array_equal(np.asarray(back(5.0)[0]), 10 * x)
