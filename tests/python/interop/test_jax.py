"""`ct.jax`: functions of NumPy in programs of JAX, and the other way round."""

import importlib.util

import numpy as np
import pytest

import cotan as ct

if importlib.util.find_spec("jax") is None:
    pytest.skip("JAX is not installed", allow_module_level=True)

import jax
import jax.numpy as jnp
from jax.test_util import check_grads

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def double_precision():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def f(x, y):
    return np.sum(np.sin(x) * y * y, axis=0)


def f_of_jax(x, y):
    return jnp.sum(jnp.sin(x) * y * y, axis=0)


def normal(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape))


def assert_same(ours, theirs):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12, strict=True), ours, theirs
    )


either_way = pytest.mark.parametrize("compiled", [lambda g: g, jax.jit], ids=["eager", "jit"])


@either_way
@pytest.mark.parametrize("prepare", [True, False])
def test_derivatives_of_both_modes_and_second_order(compiled, prepare):
    check_grads(
        compiled(ct.jax.wrap(f, prepare=prepare)), (normal(2, 3), normal(3, seed=1)), order=2
    )


@either_way
@pytest.mark.parametrize("transform", [jax.jacrev, jax.jacfwd, jax.hessian])
def test_jacobians(compiled, transform):
    argnums = (0, 1)
    args = normal(2, 3), normal(3, seed=1)
    ours = compiled(transform(ct.jax.wrap(f), argnums=argnums))(*args)
    assert_same(ours, transform(f_of_jax, argnums=argnums)(*args))


def test_third_order():
    g = ct.jax.wrap(np.sin)
    for expected in (jnp.cos, lambda x: -jnp.sin(x), lambda x: -jnp.cos(x)):
        g = jax.grad(g)
        assert_same(g(0.7), expected(jnp.asarray(0.7)))


@pytest.mark.parametrize(
    ("in_axes", "compiled"),
    [((None, 0), lambda g: g), ((0, None), jax.jit), ((1, 1), jax.jit), ((0, 1), jax.jit)],
    ids=["None-0", "0-None-jit", "1-1-jit", "0-1-jit"],
)
def test_vmap_alone_inside_and_around_gradients(in_axes, compiled):
    def examples(shape, axis, seed):
        return normal(*(shape if axis is None else (*shape[:axis], 4, *shape[axis:])), seed=seed)

    args = examples((2, 3), in_axes[0], 0), examples((3,), in_axes[1], 1)

    def results(g):
        mapped = jax.vmap(g, in_axes=in_axes)
        one = jax.grad(lambda x, y: g(x, y).sum() ** 2, argnums=(0, 1))
        of_mapped = jax.grad(lambda x, y: mapped(x, y).sum() ** 2, argnums=(0, 1))
        second = jax.hessian(lambda x: mapped(x, args[1]).sum() ** 2)
        return (
            mapped(*args), jax.vmap(one, in_axes=in_axes)(*args), of_mapped(*args), second(args[0])
        )  # fmt: skip

    assert_same(compiled(lambda: results(ct.jax.wrap(f)))(), results(f_of_jax))


def test_nested_vmap_and_its_gradient():
    x, y = normal(2, 3), normal(5, 4, 3, seed=1)

    def twice(g):
        inner = jax.vmap(g, in_axes=(None, 0))
        return jax.grad(lambda x, y: jnp.sum(jax.vmap(inner, in_axes=(None, 0))(x, y) ** 2), (0, 1))

    assert_same(twice(ct.jax.wrap(f))(x, y), twice(f_of_jax)(x, y))


def test_complex_arguments_have_the_gradient_of_jax():
    z = jnp.array([1.0 + 2.0j, 0.5 - 1.0j])
    ours, theirs = (
        jax.grad(lambda z, m=m, g=g: m.sum(m.abs(z**3) * m.real(z)) if g is None else g(z))
        for m, g in ((jnp, None), (jnp, ct.jax.wrap(lambda z: np.sum(np.abs(z**3) * np.real(z)))))
    )
    assert_same(ours(z), theirs(z))
    g = ct.jax.wrap(lambda z: z**3 * 1j)
    assert_same(jax.grad(g, holomorphic=True)(z[0]), 3j * z[0] ** 2)
    check_grads(g, (z,), order=2)

    def along(v):
        return jax.jvp(g, (z,), (v,))[1]

    assert_same(jax.linear_transpose(along, z)(z)[0], 3j * z**2 * z)


@either_way
def test_structures_and_constants(compiled):
    @ct.jax.wrap
    def g(model, scale, *, power):
        y = model["a"] ** power * scale
        return {"y": y, "parts": [np.sum(y), np.argmax(y)], "b": (np.exp(y),)}

    a = jnp.array([1.0, 2.0])
    for power in (3, 2):
        result = compiled(
            lambda a, power=power: g({"a": a, "t": "x"}, np.array([1.0, 10.0]), power=power)
        )(a)
        assert_same(result["y"], jnp.array([1.0, 10.0 * 2.0**power]))
        assert (result["parts"][1].dtype, int(result["parts"][1])) == (np.int64, 1)
        (da,) = jax.vjp(
            lambda a, power=power: g({"a": a, "t": "x"}, 2.0, power=power)["parts"][0], a
        )[1](1.0)
        assert_same(da, 2.0 * power * a ** (power - 1))


def test_single_precision():
    jax.config.update("jax_enable_x64", False)
    g = ct.jax.wrap(lambda x: x * np.array([1.0, 2.0]))
    for made in (g, jax.jit(g)):
        y = made(jnp.ones(2))
        assert (y.dtype, list(y)) == (np.float32, [1.0, 2.0])
        assert jax.grad(lambda x, made=made: made(x).sum())(jnp.ones(2)).dtype == np.float32


def test_shapes_are_said_where_tracing_does_not_find_them():
    def first_root(x):
        if not x[0] > 0:
            raise ValueError("no positive number")
        return np.sqrt(x)

    x = jnp.array([4.0, 9.0])
    with pytest.raises(ValueError, match="no positive number") as info:
        jax.jit(ct.jax.wrap(first_root))(x)
    assert "result_shape= says them" in info.value.__notes__[0]
    told = ct.jax.wrap(first_root, result_shape=jax.ShapeDtypeStruct((2,), float))
    assert_same(jax.jit(told)(x), jnp.array([2.0, 3.0]))
    assert_same(jax.grad(lambda x: told(x).sum())(x), 0.5 / jnp.sqrt(x))
    wrong = ct.jax.wrap(first_root, result_shape=jax.ShapeDtypeStruct((3,), float))
    with pytest.raises(Exception, match=r"first_root: the results have the shapes \[\(2,\)\]"):
        jax.block_until_ready(jax.jit(wrong)(x))


def test_refused_arguments():
    g = ct.jax.wrap(lambda x, other: x)
    with pytest.raises(TypeError, match="cannot be compared"):
        g(jnp.ones(2), {1, 2})
    with pytest.raises(TypeError, match=r"ct\.const.*stop_gradient"):
        g(ct.const(jnp.ones(2)), None)
    with pytest.raises(TypeError, match="takes a function, not int"):
        ct.jax.wrap(3)
    with pytest.raises(TypeError, match="takes a function, not int"):
        ct.jax.lift(3)


def test_the_function_reads_memory_of_jax():
    seen = []

    def of_numpy(x):
        seen.append(x.ctypes.data)
        return 2.0 * x

    x = jnp.ones(1000)
    ct.jax.wrap(of_numpy, prepare=False, result_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    assert seen[-1] == x.unsafe_buffer_pointer()


def test_sets_are_told_from_one_another():
    g = ct.jax.wrap(lambda x, powers: sum(x**p for p in powers))
    x = jnp.full(2, 2.0)
    for powers in (frozenset((1, 2)), frozenset((3,))):
        assert_same(g(x, powers), sum(x**p for p in powers))


def test_inside_of_loops_of_jax():
    g = ct.jax.wrap(np.sin)

    def total(g):
        return lambda x: jax.lax.scan(lambda c, _: (g(c) + x, c), x, None, length=3)[0]

    assert_same(jax.jit(jax.grad(total(g)))(0.5), jax.grad(total(jnp.sin))(0.5))


# --------------------------------------------------------------------------------------------------
# The other way round


def test_lifted_functions():
    g = ct.jax.lift(
        lambda x, y: {"b": [jnp.exp(x)], "a": f_of_jax(x, y), "i": jnp.argmax(x), "s": jnp.sum(x)}
    )
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 3)), rng.standard_normal(3)
    plain = g(x, y)
    np.testing.assert_allclose(plain["a"], f(x, y))
    assert (type(plain["a"]), int(plain["i"]), type(plain["s"])) == (
        np.ndarray, np.argmax(x), np.float64
    )  # fmt: skip

    def loss(x, y):
        result = g(np.tanh(x), y)
        return np.sum(result["a"] ** 2) + np.sum(result["b"][0]) * result["s"]

    def plain_loss(x, y):
        x = np.tanh(x)
        return np.sum(f(x, y) ** 2) + np.sum(np.exp(x)) * np.sum(x)

    ct.check_grads(loss, (x, y), order=2)
    for ours, theirs in zip(ct.gradient(loss, x, y), ct.gradient(plain_loss, x, y), strict=True):
        np.testing.assert_allclose(ours, theirs)
    prepared = ct.prepare(loss, transform="value_and_gradient")
    for scale in (1.0, 2.0):
        value, (dx, _) = prepared(scale * x, y)
        np.testing.assert_allclose(value, plain_loss(scale * x, y))
        np.testing.assert_allclose(dx, ct.gradient(plain_loss, scale * x, y)[0])


def test_lifted_functions_of_complex_arrays_numbers_and_constants():
    z = np.array([1.0 + 2.0j, 0.5 - 1.0j])
    ct.check_grads(lambda z: np.sum(ct.jax.lift(lambda z: jnp.abs(z**2))(z)), (z,), order=2)
    ct.check_grads(ct.jax.lift(lambda z: z**3 * 1j), (z,), order=2)
    assert ct.gradient(ct.jax.lift(jnp.sin), 0.0) == (1.0,)
    power = ct.jax.lift(lambda x, n: x**n)
    for n in (2, 3):
        assert ct.gradient(lambda x, n=n: power(x, n), 2.0) == (n * 2.0 ** (n - 1),)


def test_lifted_functions_are_compiled_once():
    traced = []

    @ct.jax.lift
    def g(x):
        traced.append(x.shape)
        return jnp.sin(x)

    for n in (2, 2, 3, 2):
        ct.gradient(lambda x: np.sum(g(x)), np.ones(n))
    assert sorted(traced) == [(2,), (2,), (3,), (3,)]  # the function and its pullback


def test_lifted_functions_are_refused_by_name():
    with pytest.raises(ValueError, match="vmap: sin is a lifted function"):
        ct.vmap(ct.jax.lift(jnp.sin))(np.ones(3))
    with pytest.raises(TypeError, match="no array in it"):
        ct.jax.lift(lambda x: None)(np.ones(2))


def test_there_and_back():
    g = ct.jax.wrap(ct.jax.lift(jnp.sin), result_shape=jax.ShapeDtypeStruct((3,), float))
    x = normal(3)
    assert_same(jax.grad(lambda x: g(x).sum())(x), jnp.cos(x))
