"""The public functions: what they return for each kind of argument, and what they refuse."""

import collections
import copy
import dataclasses
import functools
import gc
import math
import numbers
import operator
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
    assert type(g) is ct.Array
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
def test_none_for_what_has_no_derivative(other):
    assert ct.gradient(lambda x, o: x * 2, 1.0, other) == (2.0, None)


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

    (g, *others) = ct.gradient(f, layer, "text", 3, ct.const(2.0))
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
    assert type(value) is ct.Array


def test_pullback_of_an_array():
    y, back = ct.pullback(lambda x, c: ct.sin(x) * c, X, 2.0)
    assert type(y) is np.ndarray
    np.testing.assert_allclose(y, 2 * np.sin(X), rtol=1e-15)
    dx, dc = back(np.ones(3))
    assert type(dx) is ct.Array
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
    assert ct.grad(lambda x, y: x * y**2, argnum=1)(2.0, 3.0) == 12.0
    assert ct.grad(lambda x, y: x * y**2, argnum=-1)(2.0, 3.0) == 12.0
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
    with pytest.raises(ValueError, match=r"argnum 1.*1 argument"):
        ct.grad(lambda x: x, argnum=1)(2.0)


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
# Programs, profiles


def test_trace():
    c = np.array([1.0, 2.0, 3.0])
    program = ct.trace(lambda x, y: (ct.sum(ct.exp(x) * c), y + 1), X, 2.0)
    assert program.inputs[:2] == ["x", "y"]
    value, more = program(X, 2.0)
    assert value == pytest.approx(np.sum(np.exp(X) * c))
    assert more == 3.0
    names = [e.primitive for e in program.equations]
    assert names.count("exp") == 1
    assert len(program) == len(names)
    sum_ = next(e for e in program.equations if e.primitive == "sum")
    assert sum_.params == {"axes": "(0,)"}
    assert sum_.shape == []
    assert sum_.dtype == "float64"
    assert repr(sum_).startswith(f"%{sum_.output} = sum(%")
    with pytest.raises(TypeError, match="takes 2 arrays, 1 given"):
        program(X)
    with pytest.raises(ValueError, match=r"input 0 must be f64\[3\], not f64\[2\]"):
        program(X[:2], 2.0)


def test_a_trace_computes_nothing():
    with ct.profile() as work:
        ct.trace(lambda x: ct.sum(ct.exp(x)), X)
    assert work.runs == 0


def test_a_trace_takes_the_branch_of_its_arguments():
    def f(x):
        return x * 2 if x > 1 else x * 3

    assert ct.trace(f, 2.0)(5.0) == 10.0
    assert ct.trace(f, 0.0)(5.0) == 15.0


def test_programs_are_values():
    def f(x):
        return ct.sum(ct.exp(x) * ct.exp(x))

    p, q = ct.trace(f, X), ct.trace(f, 2 * X)
    assert p == q
    assert hash(p) == hash(q)
    assert p != ct.trace(ct.sum, X)
    assert ct.Program.parse(str(p)) == p
    smaller = p.optimize()
    assert len(smaller) < len(p)
    assert smaller(X) == pytest.approx(p(X))
    assert type(p(ct.array(X))) is ct.Array


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1"),
        ("programme", "line 1, column"),
        (
            'program(%0 "x": f64[3]) {\n  %1: f64[3] = tangens(%0)\n  return %1\n}',
            "line 2.*tangens",
        ),
        ('program(%0 "x": f64[3]) {\n  %1: f64[2] = sin(%0)\n  return %1\n}', r"f64\[2\]|\(2,\)"),
        ('program(%0 "x": f64[3]) {\n  %1: f64[3] = sin(%7)\n  return %1\n}', "%7"),
        ('program(%0 "x": q64[3]) {\n  return %0\n}', "q64"),
    ],
)
def test_programs_that_do_not_parse(text, message):
    with pytest.raises(ValueError, match=message):
        ct.Program.parse(text)


def test_profile():
    with ct.profile() as outer:
        with ct.profile() as inner:
            ct.exp(ct.array(X)).force()
        ct.exp(ct.array(X)).force()
        assert inner.equations == {"exp": 1}
    assert outer.equations == {"exp": 2}
    assert isinstance(outer.equations, collections.Counter)
    assert outer.equations["sin"] == 0
    assert outer.runs == 2
    ct.exp(ct.array(X)).force()
    assert outer.equations == {"exp": 2}
    with ct.profile() as work:
        _, back = ct.pullback(lambda x, c: ct.sin(x) * ct.cos(c), X, ct.const(X))
        back(np.ones(3))[0].force()
    assert sum(work.skipped.values()) > 0


# --------------------------------------------------------------------------------------------------
# Arrays


def test_arrays_are_lazy_until_they_are_read():
    x = ct.array(X)
    for read in (repr, str, np.asarray, lambda y: y.tolist(), lambda y: bool(y[0]), ct.Array.force):
        y = x * x + 1
        assert not y.is_forced
        read(y)
        assert y.is_forced or read is not ct.Array.force
    assert (x * x).force().is_forced


def test_attributes():
    x = ct.array(np.arange(6.0).reshape(2, 3))
    assert x.shape == (2, 3)
    assert x.ndim == 2
    assert x.size == 6
    assert x.itemsize == 8
    assert x.nbytes == 48
    assert x.dtype == np.float64
    assert x.T.shape == (3, 2)
    assert x.base is None
    assert x[0].base is x
    assert len(x) == 2
    np.testing.assert_array_equal(np.asarray(x.real), np.asarray(x))
    np.testing.assert_array_equal(np.asarray(x.imag), np.zeros((2, 3)))
    z = ct.array([1 + 2j])
    assert z.real.item() == 1
    assert z.imag.item() == 2
    assert z.conj().item() == 1 - 2j


def test_methods_are_numpys():
    plain = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    x = ct.array(plain)
    for name in ("sum", "prod", "mean", "max", "min", "argmax", "argmin", "cumsum"):
        for axis in (None, 0, 1, -1):
            expected = getattr(plain, name)(axis)
            actual = np.asarray(getattr(x, name)(axis))
            np.testing.assert_allclose(actual, expected)
            assert actual.dtype == expected.dtype
    assert x.sum(axis=1, keepdims=True).shape == (2, 1)
    assert x.reshape(3, 2).shape == x.reshape((3, -1)).shape == (3, 2)
    np.testing.assert_array_equal(
        np.asarray(x.reshape(3, 2, order="F")), plain.reshape(3, 2, order="F")
    )
    assert x.transpose(1, 0).shape == x.swapaxes(0, 1).shape == (3, 2)
    assert x.ravel().shape == x.flatten().shape == (6,)
    assert x.reshape(1, 2, 3, 1).squeeze().shape == (2, 3)
    assert x.astype(np.float32).dtype == np.float32


OPERATORS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "divmod 0": lambda a, b: divmod(a, b)[0],
    "divmod 1": lambda a, b: divmod(a, b)[1],
    "pow": operator.pow,
    "matmul": operator.matmul,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name, dtype):
    f = OPERATORS[name]
    a, b = np.array([5, 6, 7], dtype), np.array([2, 6, 1], dtype)
    try:
        expected = f(a, b)
    except TypeError:
        with pytest.raises(TypeError):
            f(ct.array(a), ct.array(b))
        return
    for actual in (f(ct.array(a), ct.array(b)), f(ct.array(a), b), f(a, ct.array(b))):
        assert type(actual) is ct.Array
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-6)


def test_operators_with_numbers_on_both_sides():
    for f in OPERATORS.values():
        if f is operator.matmul:
            continue
        for other in (2, 2.5):
            np.testing.assert_allclose(np.asarray(f(ct.array(X), other)), f(X, other))
            np.testing.assert_allclose(np.asarray(f(other, ct.array(X))), f(other, X))


def test_bits_and_unary_operators():
    a, b = np.array([5, 6, 7]), np.array([1, 2, 3])
    x, y = ct.array(a), ct.array(b)
    for f in (
        lambda a, b: a & b,
        lambda a, b: a | b,
        lambda a, b: a ^ b,
        lambda a, b: a << b,
        lambda a, b: a >> b,
        lambda a, b: ~a,
        lambda a, b: -a,
        lambda a, b: +a,
        lambda a, b: abs(-a),
        lambda a, b: 3 & a,
        lambda a, b: 3 | a,
        lambda a, b: 3 ^ a,
        lambda a, b: 3 << b,
        lambda a, b: 300 >> b,
        lambda a, b: ~(a > b) & (a < b) | (b == 2) ^ (b == 3),
    ):
        np.testing.assert_array_equal(np.asarray(f(x, y)), f(a, b))
    with pytest.raises(TypeError, match="pow"):
        pow(x, 2, 3)


def test_conversions_of_scalars():
    s = ct.sum(ct.array([1.25, 1.5]))
    assert float(s) == 2.75
    assert int(s) == math.trunc(s) == math.floor(s) == 2
    assert math.ceil(s) == round(s) == 3
    assert round(s, 1) == 2.8
    assert complex(s) == 2.75 + 0j
    assert s.item() == 2.75
    assert f"{s:.1f}" == "2.8"
    assert f"{s}" == str(s) == "2.75"
    assert [10, 20, 30][ct.array([0, 1])[1]] == 20
    assert bool(s)
    with pytest.raises(TypeError, match="integer scalar"):
        _ = [1, 2][s]
    with pytest.raises(TypeError, match="unsized"):
        len(s)


def test_conversions_of_arrays():
    x = ct.array(X)
    assert x.tolist() == X.tolist()
    assert repr(x) == "Array([0.5, 1. , 1.5])"
    assert str(x) == f"{x}" == "[0.5 1.  1.5]"
    assert [float(v) for v in x] == X.tolist()
    assert 1.0 in x
    assert 7.0 not in x
    assert np.asarray(x, np.float32).dtype == np.float32
    with pytest.raises(TypeError, match="format"):
        f"{x:.2f}"
    with pytest.raises(ValueError, match="size 1"):
        x.item()
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)
    with pytest.raises(ValueError, match="copied"):
        np.asarray(x, copy=False)
    with pytest.raises(TypeError, match="0-d"):
        iter(ct.sum(x))
    with pytest.raises(ValueError, match="delete"):
        del x[0]


def test_hashing_is_by_identity():
    x, y = ct.array(X), ct.array(X)
    assert {x: 1, y: 2}[x] == 1
    assert hash(x) == hash(x)
    assert hash(x) != hash(y)


def test_copying_and_pickling():
    x = ct.array(X)
    for y in (copy.copy(x), copy.deepcopy(x), x.copy(), pickle.loads(pickle.dumps(x))):
        assert type(y) is ct.Array
        assert y is not x
        y[0] = 9.0
        np.testing.assert_array_equal(np.asarray(x), X)
    for dtype in (np.bool_, np.uint8, np.int32, np.float16, np.complex64):
        y = pickle.loads(pickle.dumps(ct.array(X.astype(dtype))))
        assert y.dtype == dtype
    with pytest.raises(TypeError, match="pickl"):
        ct.gradient(lambda x: pickle.dumps(x), 1.0)


def test_copies_stay_differentiable():
    for how in (copy.copy, copy.deepcopy, ct.Array.copy, ct.array, ct.asarray):
        (g,) = ct.gradient(lambda x, how=how: product(how(x), x), X)
        np.testing.assert_array_equal(g, 2 * X)


def test_what_an_array_says_it_is():
    x = ct.array(X)
    assert isinstance(x, ct.Array)
    assert isinstance(x, np.ndarray)
    assert isinstance(ct.sum(x), np.float64)
    ct.gradient(lambda x: [isinstance(x, float) or pytest.fail("no float")] and x, 1.0)
    assert isinstance(ct.sum(x), numbers.Real)


def test_making_arrays():
    x = ct.array(X)
    assert ct.asarray(x) is x
    assert ct.asarray(x, np.float64) is x
    assert ct.asarray(x, np.float32).dtype == np.float32
    assert ct.array(X, dtype="float32").dtype == np.float32
    assert ct.array([[1, 2], [3, 4]]).dtype == np.int64
    assert ct.array(3).shape == ()
    assert ct.array([x[0], 2.0, x[1] * 2]).tolist() == [0.5, 2.0, 2.0]
    assert ct.array([x, x]).shape == (2, 3)
    (g,) = ct.gradient(lambda x: ct.sum(ct.array([[x[0], 2.0], [x[1], x[1]]])), X)
    np.testing.assert_array_equal(g, [1.0, 2.0, 0.0])
    source = X.copy()
    y = ct.array(source)
    source[:] = 0
    np.testing.assert_array_equal(np.asarray(y), X)
    with pytest.raises(ValueError, match="shape"):
        ct.array([x, x[:2]])


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16", "uint32", "uint64", "longdouble"])
def test_other_dtypes_are_refused_by_name(dtype):
    with pytest.raises(TypeError, match=rf"{np.dtype(dtype).name}.*not supported.*float64"):
        ct.array(np.ones(2, dtype))
    with pytest.raises(TypeError, match="not supported"):
        ct.array([1, 2], dtype=dtype)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"],
)
def test_dtypes_there_and_back(dtype):
    plain = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    x = ct.array(plain)
    assert x.dtype == plain.dtype
    assert np.asarray(x).dtype == plain.dtype
    np.testing.assert_array_equal(np.asarray(x), plain)
    np.testing.assert_array_equal(np.asarray(x[::-1, ::-1]), plain[::-1, ::-1])


# --------------------------------------------------------------------------------------------------
# DLPack


def test_dlpack_out():
    x = ct.array(X)
    assert x.__dlpack_device__() == (1, 0)
    y = np.from_dlpack(x)
    np.testing.assert_array_equal(y, X)
    np.testing.assert_array_equal(np.from_dlpack(x * 2), 2 * X)
    with pytest.raises(TypeError, match="drop"):
        ct.gradient(lambda x: np.from_dlpack(x).sum(), X)


def test_dlpack_in():
    source = X.copy()
    x = ct.from_dlpack(source)
    assert type(x) is ct.Array
    source[:] = 0
    np.testing.assert_array_equal(np.asarray(x), X)
    assert ct.from_dlpack(x) is x
    with pytest.raises((TypeError, AttributeError)):
        ct.from_dlpack([1, 2])


# --------------------------------------------------------------------------------------------------
# Conventions


def test_complex_convention():
    """The gradient of `abs(z)**2` is `2 * z`, and `back` applies the adjoint."""
    z = np.array([1 + 2j, -3 + 1j])
    (g,) = ct.gradient(lambda z: ct.sum(ct.abs(z) ** 2), z)
    np.testing.assert_allclose(g, 2 * z)
    (g,) = ct.gradient(lambda z: ct.sum((z * z.conj()).real), z)
    np.testing.assert_allclose(g, 2 * z)
    m = np.array([[1 + 1j, 2], [0, 3j]])
    _, back = ct.pullback(lambda z: ct.matmul(m, z), z)
    dy = np.array([1.0, 1j])
    np.testing.assert_allclose(np.asarray(back(dy)[0]), m.conj().T @ dy)
    (g,) = ct.gradient(lambda x: ct.sum(ct.abs(x * 1j + 1) ** 2), X)
    assert g.dtype == np.float64
    np.testing.assert_allclose(g, 2 * X)


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (ct.abs, 0.0, 0.0),
        (lambda x: ct.abs(x) ** 2, 0j, 0j),
        (lambda x: ct.maximum(x, 0), 0.0, 0.0),
        (lambda x: ct.maximum(x, 0.0), 0.0, 0.0),
        (lambda x: ct.hypot(x, 0.0), 0.0, 0.0),
        (lambda x: x**2, 0.0, 0.0),
        (lambda x: x**1, 0.0, 1.0),
        (lambda x: ct.maximum(x, x), 1.0, 1.0),
        (lambda x: ct.where(x > 0, ct.log(x), 0.0), 0.0, 0.0),
        (lambda x: ct.where(x > 0, ct.sqrt(x), x), 0.0, 1.0),
        (lambda x: ct.sigmoid(x), 1000.0, 0.0),
        (lambda x: ct.softplus(x), -1000.0, 0.0),
        (lambda x: ct.logaddexp(x, -np.inf), 1.0, 1.0),
        (lambda x: ct.prod(x), np.array([0.0, 2.0, 3.0]), [6.0, 0.0, 0.0]),
        (lambda x: ct.prod(x), np.array([0.0, 0.0, 3.0]), [0.0, 0.0, 0.0]),
        (lambda x: ct.max(x), np.array([2.0, 2.0, 1.0]), [0.5, 0.5, 0.0]),
        (lambda x: ct.min(x), np.array([2.0, 2.0, 1.0]), [0.0, 0.0, 1.0]),
        (lambda x: ct.sum(ct.where(x > 0, ct.log(x), 0.0)), np.array([0.0, 2.0]), [0.0, 0.5]),
    ],
)
def test_kinks(f, x, expected):
    (g,) = ct.gradient(f, x)
    np.testing.assert_array_equal(np.zeros_like(x) if g is None else g, expected)


def test_ties_are_shared():
    assert ct.gradient(ct.maximum, 1.0, 1.0) == (0.5, 0.5)
    assert ct.gradient(ct.minimum, 1.0, 1.0) == (0.5, 0.5)


def test_powers_of_zero():
    assert ct.gradient(lambda x, y: x**y, 0.0, 2.0) == (0.0, 0.0)
    assert ct.gradient(lambda x, y: x**y, 0.0, 1.0) == (1.0, 0.0)
    assert ct.gradient(lambda x, y: x**y, 0.0, 0.0)[0] == 0.0


# --------------------------------------------------------------------------------------------------
# Errors


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda x: ct.add(x, np.ones(2)), ValueError, r"add.*\(3,\).*\(2,\)"),
        (lambda x: ct.matmul(x, np.ones((2, 2))), ValueError, r"matmul.*\(3,\).*\(2, 2\)"),
        (lambda x: ct.matmul(x, 2.0), ValueError, r"matmul.*\(3,\).*\(\)"),
        (lambda x: ct.reshape(x, (2, 2)), ValueError, r"reshape.*\(3,\).*\(2, 2\)"),
        (lambda x: ct.reshape(x, (-1, -1)), ValueError, "reshape.*unknown"),
        (lambda x: ct.broadcast_to(x, (2,)), ValueError, r"broadcast.*\(3,\).*\(2,\)"),
        (lambda x: ct.transpose(x, (0, 1)), ValueError, r"transpose.*\(3,\)"),
        (lambda x: ct.sum(x, axis=1), ValueError, "sum.*axis 1"),
        (lambda x: ct.sum(x, axis=1.0), TypeError, "sum.*axis.*integer"),
        (lambda x: ct.concatenate([x, np.ones((2, 2))]), ValueError, r"concat.*\(3,\).*\(2, 2\)"),
        (lambda x: ct.concatenate([]), ValueError, "concatenate"),
        (lambda x: ct.gather(x, np.array([0.0])), TypeError, "gather.*int64.*f"),
        (lambda x: ct.sin("a"), TypeError, "sin.*str"),
        (lambda x: ct.sin(None), TypeError, "sin.*NoneType"),
        (lambda x: ct.add(x, object()), TypeError, "add.*object"),
        (lambda x: ct.bitwise_and(x, 1), TypeError, "bitwise_and.*float64"),
        (lambda x: ct.floor(x * 1j), TypeError, "floor.*complex128"),
        (lambda x: ct.max(x[:0]), ValueError, r"max.*no element.*\(0,\)"),
        (lambda x: ct.pad(x, (5,), (0, 0), (1,)), ValueError, "pad"),
        (
            lambda x: ct.scatter(x, np.array([0]), np.ones(2)),
            ValueError,
            r"scatter.*\(2,\).*\(1,\)",
        ),
    ],
)
def test_errors_name_the_operation_and_the_operands(f, error, message):
    with pytest.raises(error, match=message):
        f(ct.array(X))
    with pytest.raises(error, match=message):
        ct.gradient(lambda x: ct.sum(f(x)), X)
    assert not ct.isderiving()


def test_results_that_are_no_real_scalars():
    with pytest.raises(ValueError, match=r"gradient.*\(3,\).*np.sum"):
        ct.gradient(lambda x: x, X)
    with pytest.raises(ValueError, match="complex128"):
        ct.gradient(lambda x: x * 1j, 1.0)
    with pytest.raises(TypeError, match="NoneType"):
        ct.gradient(lambda x: None, 1.0)
    with pytest.raises(TypeError, match="callable"):
        ct.gradient(3, 1.0)


def test_the_machine():
    assert ct.simd_level() in {"avx512", "avx2", "baseline", "neon"}
    threads = ct.num_threads()
    assert threads >= 1
    try:
        ct.set_num_threads(1)
        assert ct.num_threads() == 1
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


def test_bfloat16_comes_and_goes():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = np.array([1.0, 2.5, -3.0], dtype=bfloat16)
    assert ct.array(x).dtype == bfloat16
    assert ct.array([1.5], dtype=bfloat16).dtype == bfloat16
    (g,) = ct.gradient(lambda x: np.sum(x.astype(np.float32) ** 2), x)
    assert g.dtype == bfloat16
    np.testing.assert_array_equal(g.astype(np.float32), [2.0, 5.0, -6.0])
    y, back = ct.pullback(lambda x: x * x, x)
    assert y.dtype == bfloat16
    assert back.nbytes == x.nbytes


def test_a_value_that_escapes_from_an_inner_recording_is_followed_by_the_outer_one():
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
