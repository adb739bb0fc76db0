"""Forward mode: `jvp`, `linearize`, next to reverse mode and differences."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, signal, special

import cotan as ct

X = np.array([0.3, 0.7, 1.1])
V = np.array([1.0, -2.0, 0.5])
M = np.array([[2.0, 0.3, 0.1], [0.2, 1.5, 0.4], [0.1, -0.2, 3.0]])


def differences(f, x, v, step=1e-6):
    return (np.asarray(f(x + step * v)) - np.asarray(f(x - step * v))) / (2 * step)


def numpy_code(x):
    out = np.zeros((2, 3))
    out[0] = np.cumsum(x)
    for i in range(3):
        out[1, i] = x[i] ** 2 if x[i] > 0.5 else np.sin(x[i])
    out[0, 1:] *= x[:2]
    return out


FUNCTIONS = {
    "elementwise": lambda x: np.sin(x) * np.exp(-x) + np.arctan2(x, 2.0) + np.sqrt(x),
    "numpy code": numpy_code,
    "reductions": lambda x: np.stack([np.max(x), np.prod(x), np.std(x), np.linalg.norm(x)]),
    "sorted": lambda x: np.sort(x * [1.0, -2.0, 0.5]),
    "solve": lambda x: np.linalg.solve(M + np.diag(x), x),
    "inv": lambda x: np.linalg.inv(M * x),
    "eigh": lambda x: np.linalg.eigvalsh(np.outer(x, x) + M + M.T),
    "svd": lambda x: np.linalg.svd(M * x, compute_uv=False),
    "cholesky": lambda x: np.linalg.cholesky(np.eye(3) * 5 + np.outer(x, x)),
    "qr": lambda x: np.linalg.qr(M * x)[1],
    "expm": lambda x: linalg.expm(M * x),
    "fft": lambda x: np.abs(np.fft.rfft(x)),
    "special": lambda x: special.gammaln(x) + special.erf(x) + special.jv(1.5, x),
    "filter": lambda x: signal.convolve(x, np.array([1.0, 2.0, 1.0])),
    "indices": lambda x: x[[0, 2, 0]] * np.take(x, [1, 1, 2]),
    "interp": lambda x: np.interp(x, [0.0, 1.0, 2.0], [1.0, 3.0, 2.0]),
    "where": lambda x: np.where(x > 0.5, np.log(x), 0.0),
    "einsum": lambda x: np.einsum("i,ij,j->ij", x, M, x),
    "checkpoint": ct.checkpoint(lambda x: np.sin(np.exp(x))),
    "vmap": lambda x: ct.vmap(lambda a: np.sin(a) * x)(x),
    "gradient": lambda x: ct.grad(lambda y: np.sum(y**3 * x))(x),
    "hooked": lambda x: ct.showgrad(x) ** 2,
    "clipped": lambda x: ct.clip_gradient(x) ** 2,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jvp_next_to_differences_and_to_the_pullback(name, capsys):
    f = FUNCTIONS[name]
    y, dy = ct.jvp(f, (X,), (V,))
    assert capsys.readouterr().out == ""
    np.testing.assert_allclose(y, f(X), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(dy, differences(f, X, V), rtol=1e-6, atol=1e-8)
    assert np.shape(dy) == np.shape(y)
    value, linear = ct.linearize(f, X)
    np.testing.assert_allclose(value, y, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(linear(V), dy, rtol=1e-12, atol=1e-14)
    # <u, J v> = <J' u, v>
    if name != "clipped":
        u = np.cos(np.arange(float(np.size(y)))).reshape(np.shape(y))
        (pulled,) = ct.pullback(f, X)[1](u)
        np.testing.assert_allclose(np.sum(u * dy), np.sum(np.asarray(pulled) * V), rtol=1e-9)


@given(
    shape=st.lists(st.integers(0, 3), max_size=3),
    dtype=st.sampled_from([np.float32, np.float64, np.complex128, np.float16]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=30, deadline=None)
def test_shapes_and_dtypes(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 1.5, shape).astype(dtype)
    v = rng.uniform(-1, 1, shape).astype(dtype)
    y, dy = ct.jvp(lambda x: x * x + 2 * x, (x,), (v,))
    assert (y.dtype, dy.dtype) == (dtype, dtype)
    assert type(dy) is type(y)
    np.testing.assert_allclose(dy, (2 * x + 2) * v, rtol=1e-2 if dtype == np.float16 else 1e-5)


def test_numbers_and_arrays_keep_their_kinds():
    assert ct.jvp(lambda x: x * x, (3.0,), (1.0,)) == (9.0, 6.0)
    assert type(ct.jvp(lambda x: x * x, (3.0,), (1.0,))[1]) is float
    assert type(ct.jvp(lambda x: x * x, (3,), (1,))[1]) is float
    y, dy = ct.jvp(np.sum, (X,), (V,))
    assert type(y) is type(dy) is np.float64
    _, dy = ct.jvp(lambda x: x * x, (ct.array(X),), (V,))
    assert isinstance(dy, ct.Array)
    _, dy = ct.jvp(lambda x: x * x, (X,), (ct.array(V),))
    assert isinstance(dy, ct.Array)
    np.testing.assert_array_equal(np.asarray(dy), 2 * X * V)


@dataclass
class Layer:
    w: np.ndarray
    size: int
    bias: float = 0.5


def test_structures():
    def f(layer, c):
        y = layer.w * c["scale"] + layer.bias
        return {"y": y, "n": layer.size, "parts": (y[0], [y[1:]])}

    layer, c = Layer(X, 3), {"scale": 2.0}
    y, dy = ct.jvp(f, (layer, c), (Layer(V, None, 1.0), {"scale": 3.0}))
    wanted = V * 2.0 + X * 3.0 + 1.0
    np.testing.assert_allclose(dy["y"], wanted)
    assert dy["n"] is None
    assert dy["parts"][0] == pytest.approx(wanted[0])
    np.testing.assert_allclose(dy["parts"][1][0], wanted[1:])
    _, dy = ct.jvp(f, (layer, c), (None, {"scale": 1.0}))
    np.testing.assert_allclose(dy["y"], X)
    (g, _) = ct.gradient(lambda layer, c: np.sum(f(layer, c)["y"]), layer, c)
    _, dy = ct.jvp(f, (layer, c), (g, None))
    np.testing.assert_allclose(dy["y"], 2.0 * g.w + g.bias)
    y, dy = ct.jvp(
        lambda layer: Layer(2 * layer.w, 1, layer.bias), (layer,), ({"w": V, "bias": 1.0},)
    )
    assert isinstance(y, Layer)
    assert isinstance(dy, ct.Tangent)
    np.testing.assert_array_equal(dy.w, 2 * V)
    assert dy.bias == 1.0


def test_zero_tangents():
    _, dy = ct.jvp(lambda x, y: x * 2, (X, X), (None, V))
    np.testing.assert_array_equal(dy, np.zeros(3))
    assert ct.jvp(lambda x: 1.0, (2.0,), (1.0,)) == (1.0, 0.0)
    _, dy = ct.jvp(lambda x: (np.argmax(x), x), (X,), (V,))
    assert dy[0] is None
    # A root is infinitely steep at 0, and does not move with a tangent of 0.
    _, dy = ct.jvp(np.sqrt, (np.array([0.0, 1.0]),), (np.array([0.0, 1.0]),))
    np.testing.assert_array_equal(dy, [0.0, 0.5])
    assert ct.grad(lambda t: ct.jvp(np.sqrt, (4.0,), (t,))[1])(0.0) == 0.25


def test_tangents_that_do_not_fit():
    with pytest.raises(ValueError, match=r"x has shape \(3,\).*not \(2, 2\)"):
        ct.jvp(lambda x: x, (X,), (np.ones((2, 2)),))
    with pytest.raises(ValueError, match=r"x has shape \(3,\).*not \(\)"):
        ct.jvp(lambda x: x, (X,), (1.0,))
    with pytest.raises(ValueError, match="1 tangents for 2 arguments"):
        ct.jvp(lambda x, y: x, (X, X), (V,))
    with pytest.raises(TypeError, match=r"primals must be a tuple.*ct.jvp\(f, \(x,\), \(v,\)\)"):
        ct.jvp(lambda x: x, X, V)
    with pytest.raises(TypeError, match="x is of dtype float64, so its tangent is real"):
        ct.jvp(lambda x: x, (X,), (1j * V,))
    with pytest.raises(TypeError, match=r"x\['i'\]|x.i.*int64.*None"):
        ct.jvp(lambda x: x["a"], ({"a": X, "i": np.arange(3)},), ({"a": V, "i": np.arange(3)},))
    with pytest.raises(TypeError, match="y is held constant and has no tangent"):
        ct.jvp(lambda x, y: x, (X, ct.const(X)), (V, V))
    linear = ct.linearize(lambda x, y: x * y, X, X)[1]
    with pytest.raises(ValueError, match="1 tangents for 2 arguments"):
        linear(V)
    with pytest.raises(ValueError, match=r"y has shape \(3,\)"):
        linear(V, np.ones(2))


def test_complex_numbers():
    z, w = np.array([1.0 + 2.0j, -0.5j]), np.array([0.5 - 1.0j, 2.0 + 0j])
    _, dy = ct.jvp(lambda z: z**2 * np.conj(z), (z,), (w,))
    np.testing.assert_allclose(dy, 2 * z * w * np.conj(z) + z**2 * np.conj(w))
    _, dy = ct.jvp(lambda t: np.exp(1j * t), (0.5,), (2.0,))
    assert dy == pytest.approx(2j * np.exp(0.5j))
    _, dy = ct.jvp(lambda z: np.sum(np.abs(z) ** 2), (z,), (w,))
    assert dy == pytest.approx(2 * np.sum((np.conj(z) * w).real))


# --------------------------------------------------------------------------------------------------
# Rules


def test_forward_rules_are_used():
    calls = []

    @ct.custom_jvp
    def cube(x):
        return x**3

    @cube.defjvp
    def rule(primals, tangents):
        calls.append(1)
        (x,), (t,) = primals, tangents
        return x**3, 3 * x**2 * t

    assert ct.jvp(cube, (2.0,), (1.0,)) == (8.0, 12.0)
    assert calls


def test_adjoints_are_transposed():
    @ct.adjoint
    def scaled(x, y):
        return x * y, lambda d: (d * y, 10 * d * x)

    # The second cotangent is not the true one: the tangent is that of the rule.
    _, dy = ct.jvp(scaled, (2.0, 3.0), (1.0, 1.0))
    assert dy == 3.0 + 20.0
    assert ct.jacfwd(scaled, (0, 1))(2.0, 3.0) == (3.0, 20.0)


def test_opaque_rules_are_refused_by_name():
    @ct.adjoint(opaque=True)
    def twice(x):
        return 2 * np.asarray(x), lambda d: (2 * d,)

    with pytest.raises(ct.NotDifferentiableError, match="twice.*reverse rule only.*opaque"):
        ct.jvp(twice, (X,), (V,))
    with pytest.raises(ct.NotDifferentiableError, match="twice"):
        ct.jacfwd(twice)(X)
    np.testing.assert_array_equal(ct.jacobian(twice, X), 2 * np.eye(3))
    np.testing.assert_array_equal(ct.jacrev(twice)(X), 2 * np.eye(3))


def test_pullbacks_that_are_not_linear_are_refused_by_name():
    @ct.adjoint
    def squared_cotangent(x):
        return 2 * x, lambda d: (d * d,)

    with pytest.raises(ct.NotDifferentiableError, match="squared_cotangent.*not linear"):
        ct.jvp(squared_cotangent, (2.0,), (1.0,))


def test_hooks_see_no_tangents():
    seen = []

    def f(x):
        return np.sum(ct.hook(seen.append, x) ** 3)

    assert ct.jvp(f, (X,), (V,))[1] == pytest.approx(np.sum(3 * X**2 * V))
    assert seen == []
    # The gradient has cotangents, and is differentiated.
    np.testing.assert_allclose(ct.hvp(f, X, V), 6 * X * V)
    assert seen
    np.testing.assert_allclose(ct.hessian(f, X), np.diag(6 * X))
    np.testing.assert_allclose(ct.jacrev(ct.grad(f))(X), np.diag(6 * X))


def test_checkpoints_run_once():
    calls = []

    def step(x):
        calls.append(1)
        return np.sin(x)

    ct.jvp(lambda x: ct.checkpoint(step, x), (X,), (V,))
    assert len(calls) == 1


def test_code_that_is_called_back():
    def f(x):
        return linalg.sqrtm(M * x)

    _, dy = ct.jvp(f, (X,), (V,))
    np.testing.assert_allclose(dy, differences(f, X, V), rtol=1e-5, atol=1e-7)


# --------------------------------------------------------------------------------------------------
# Nesting


def test_perturbations_are_not_confused():
    def f(x):
        return x * ct.jvp(lambda y: x * y, (1.0,), (1.0,))[1]

    assert ct.jvp(f, (3.0,), (1.0,)) == (9.0, 6.0)
    assert ct.grad(f)(3.0) == 6.0


def test_derivatives_of_tangents_with_respect_to_primals_and_tangents():
    def tangent(x, v):
        return np.sum(ct.jvp(np.sin, (x,), (v,))[1])

    dx, dv = ct.gradient(tangent, X, V)
    np.testing.assert_allclose(dx, -np.sin(X) * V)
    np.testing.assert_allclose(dv, np.cos(X))
    _, dy = ct.jvp(
        lambda x: ct.jvp(lambda x: ct.jvp(np.sin, (x,), (1.0,))[1], (x,), (1.0,))[1], (0.5,), (1.0,)
    )
    assert dy == pytest.approx(-np.cos(0.5))


def test_values_that_were_looked_at():
    def f(x):
        y = x * x
        return y * 3 if np.sum(y) > 0 else y

    _, dy = ct.jvp(f, (X,), (V,))
    np.testing.assert_allclose(dy, 6 * X * V)
    np.testing.assert_allclose(ct.grad(lambda x: np.sum(ct.jvp(f, (x,), (V,))[1]))(X), 6 * V)
    np.testing.assert_allclose(ct.linearize(f, X)[1](V), 6 * X * V)


INNER = {
    "gradient": lambda f, u, w: ct.gradient(lambda u, w: np.sum(f(u, w)), u, w),
    "pullback": lambda f, u, w: ct.pullback(f, u, w)[1](np.ones(3)),
    "jvp": lambda f, u, w: [ct.jvp(f, (u, w), (u, w))[1]] * 2,
    "pushforward": lambda f, u, w: [ct.linearize(f, u, w)[1](u, w)] * 2,
    "checkpoint": lambda f, u, w: ct.checkpoint(lambda u, w: (f(u, w), u * w), u, w),
}


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("looks", list(itertools.product([False, True], repeat=3)), ids=str)
def test_values_that_were_looked_at_before_an_inner_transform(looks, inner, which):
    # Of what the inner transform computes and is given, the result may need a part.
    def f(x):
        u, w, s = x**3, np.exp(2 * x), np.sin(x)
        for values, is_looked_at in zip((u, w, s), looks, strict=True):
            assert not is_looked_at or values[0] < 10
        return s * INNER[inner](lambda u, w: 3 * u + w**2, u, w)[which]

    y, dy = ct.jvp(f, (X,), (V,))
    np.testing.assert_allclose(y, f(X), rtol=1e-12)
    np.testing.assert_allclose(dy, differences(f, X, V), rtol=1e-6)
    y, linear = ct.linearize(f, X)
    np.testing.assert_allclose(y, f(X), rtol=1e-12)
    np.testing.assert_allclose(linear(V), differences(f, X, V), rtol=1e-6)


@pytest.mark.parametrize("looks", list(itertools.product([False, True], repeat=3)), ids=str)
def test_a_pushforward_is_its_own_derivative(looks):
    def f(x):
        u, w, s = x**3, np.exp(2 * x), np.linalg.eigvalsh(np.outer(x, x) + M + M.T)
        for values, is_looked_at in zip((u, w, s), looks, strict=True):
            assert not is_looked_at or values[0] < 100
        return u + w + s

    def push(t):
        return ct.jvp(f, (X,), (t,))[1]

    y, dy = ct.jvp(push, (np.ones(3),), (V,))
    np.testing.assert_allclose(y, push(np.ones(3)), rtol=1e-12)
    np.testing.assert_allclose(dy, push(V), rtol=1e-12)


def test_linearize_runs_the_function_once_and_does_not_notice_writes():
    calls = []

    def f(x):
        calls.append(1)
        return x * x

    x = X.copy()
    _, linear = ct.linearize(f, x)
    x[:] = 0
    for v in (V, 2 * V):
        np.testing.assert_allclose(linear(v), 2 * X * v)
    assert len(calls) == 1
    assert linear.nbytes == 24
    assert repr(linear).startswith("<Pushforward: ")
    assert str(linear) == str(linear.program)
    assert "dx" in str(linear)
    np.testing.assert_allclose(ct.vmap(linear)(np.eye(3)), np.diag(2 * X))
    assert ct.grad(lambda v: np.sum(linear(v)))(V) == pytest.approx(2 * X)


def test_a_pullback_prints_its_equations():
    _, back = ct.pullback(lambda x: 3 * x, 2.0)
    assert str(back) == str(back.program)
    assert "mul(%dy" in str(back)
    assert repr(back).startswith("<Pullback: ")


def test_indices_that_differ_between_examples():
    table = np.array([1.0, 2.0, 4.0])

    def f(i, x):
        return ct.jvp(lambda x: x * ct.array(table)[i], (x,), (1.0,))[1]

    at = np.array([2, 0])
    np.testing.assert_array_equal(ct.vmap(f, in_axes=(0, None))(at, 3.0), [4.0, 1.0])

    # Nothing but the index differs between examples.
    def g(i):
        return ct.jvp(lambda x: x[i] ** 2, (table,), (table,))[1]

    np.testing.assert_array_equal(ct.vmap(g)(at), 2 * table[at] ** 2)
    np.testing.assert_array_equal(
        ct.vmap(lambda i: ct.gradient(lambda x: x[i] ** 2, table)[0])(at),
        2 * table[at][:, None] * np.eye(3)[at],
    )
    np.testing.assert_array_equal(
        ct.vmap(lambda i: ct.jacobian(lambda x: x[i] * x, table))(at)[0],
        np.outer(table, np.eye(3)[2]) + 4.0 * np.eye(3),
    )


# --------------------------------------------------------------------------------------------------
# Transposes of linear functions


def test_linear_transpose():
    back = ct.linear_transpose(lambda x: M @ x, np.zeros(3))
    np.testing.assert_allclose(back(V)[0], M.T @ V)
    back = ct.linear_transpose(lambda x, y: {"s": x + 2 * y, "d": x[::-1]}, X, X)
    dx, dy = back({"s": V, "d": None})
    np.testing.assert_allclose(dx, V)
    np.testing.assert_allclose(dy, 2 * V)
    back = ct.linear_transpose(lambda x, y: x * np.exp(y), X, X, wrt=0)
    dx, dy = back(V)
    np.testing.assert_allclose(dx, np.exp(X) * V)
    assert dy is None
    z = np.array([1.0 + 2.0j])
    np.testing.assert_allclose(ct.linear_transpose(lambda x: 2j * x, z)(z)[0], -2j * z)


def test_linear_transpose_of_what_is_not_linear():
    for f in (
        lambda x: x * x,
        lambda x: x + 1.0,
        np.sin,
        lambda x: np.sum(x) * x,
        lambda x: np.ones(3),
    ):
        with pytest.raises(ValueError, match="linear_transpose: the function must be linear"):
            ct.linear_transpose(f, X)


def test_tracing_is_no_derivative():
    seen = []

    def f(x):
        seen.append((ct.isderiving(), ct.nestlevel()))
        return x * 2

    ct.trace(f, 1.0)
    ct.jvp(f, (1.0,), (1.0,))
    ct.trace(ct.grad(f), 1.0)
    assert seen == [(False, 0), (True, 1), (True, 1)]
