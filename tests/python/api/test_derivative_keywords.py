"""Keywords that all functions which differentiate have: `wrt`, `argnums`, `has_aux`."""

from dataclasses import dataclass

import numpy as np
import pytest

import cotan as ct

X, Y = np.array([1.0, 2.0]), np.array([3.0, 5.0])


def product(x, y, scale=1.0):
    return np.sum(x * y) * scale


def with_aux(x, y, scale=1.0):
    z = x * y
    return np.sum(z) * scale, {"z": z, "name": "product", "twice": 2 * scale, "index": np.argmax(z)}


def expect_aux(aux, scale=1.0):
    assert type(aux["z"]) is np.ndarray
    np.testing.assert_array_equal(aux["z"], X * Y)
    assert aux["name"] == "product"
    assert aux["twice"] == 2 * scale
    assert aux["index"] == 1
    assert not isinstance(aux["index"], ct.Array)


# --------------------------------------------------------------------------------------------------
# With respect to what

DIRECT = [
    ct.gradient,
    lambda f, *args, **kw: ct.value_and_gradient(f, *args, **kw)[1],
    lambda f, *args, **kw: ct.pullback(f, *args, **kw)[1](1.0),
]


@pytest.mark.parametrize("call", DIRECT)
def test_direct_forms_give_an_entry_for_each_argument(call):
    for keywords in ({"argnums": 1}, {"argnums": (1,)}, {"wrt": "y"}, {"argnums": -1}):
        dx, dy = call(product, X, Y, **keywords)
        assert dx is None
        np.testing.assert_array_equal(dy, X)


@pytest.mark.parametrize(
    "make",
    [
        lambda **kw: ct.grad(product, **kw),
        lambda **kw: lambda *args: ct.value_and_grad(product, **kw)(*args)[1],
        lambda **kw: ct.jacfwd(product, **kw),
        lambda **kw: ct.jacrev(product, **kw),
    ],
)
def test_makers_give_what_was_asked_for(make):
    np.testing.assert_array_equal(make()(X, Y), Y)
    np.testing.assert_array_equal(make(argnums=1)(X, Y), X)
    np.testing.assert_array_equal(make(wrt="y")(X, Y), X)
    np.testing.assert_array_equal(make(wrt=-2)(X, Y), Y)
    for keywords in ({"argnums": (1, 0)}, {"wrt": ["y", "x"]}, {"wrt": (1, "x")}):
        dy, dx = make(**keywords)(X, Y)
        np.testing.assert_array_equal(dy, X)
        np.testing.assert_array_equal(dx, Y)
    dx, dy = make(wrt=[True, False])(X, Y)
    np.testing.assert_array_equal(dx, Y)
    assert dy is None


def test_jacobian_and_hessian_are_bare_for_one_argument():
    np.testing.assert_array_equal(ct.jacobian(lambda x: x * Y, X), np.diag(Y))
    jx, jy = ct.jacobian(lambda x, y: x * y, X, Y)
    np.testing.assert_array_equal(jx, np.diag(Y))
    np.testing.assert_array_equal(jy, np.diag(X))
    jx, jy = ct.jacobian(lambda x, y: x * y, X, ct.const(Y))
    np.testing.assert_array_equal(jx, np.diag(Y))
    assert jy is None
    h = ct.hessian(product, X, Y)
    np.testing.assert_array_equal(h[0][0], np.zeros((2, 2)))
    np.testing.assert_array_equal(h[0][1], np.eye(2))
    np.testing.assert_array_equal(h[1][0], np.eye(2))
    np.testing.assert_array_equal(
        ct.hessian(lambda x, y: np.sum(x**2 * y), X, Y, wrt="x"), np.diag(2 * Y)
    )
    np.testing.assert_array_equal(
        ct.hessian(lambda x, y: np.sum(x**2 * y), X, Y, argnums=(0,))[0][0], np.diag(2 * Y)
    )
    h = ct.hessian(lambda x, y: np.sum(x**2 * y), X, ct.const(Y))
    np.testing.assert_array_equal(h[0][0], np.diag(2 * Y))
    assert h[1] is None
    assert h[0][1] is None


@pytest.mark.parametrize(
    "call",
    [
        lambda **kw: ct.gradient(product, X, Y, **kw),
        lambda **kw: ct.value_and_gradient(product, X, Y, **kw),
        lambda **kw: ct.pullback(product, X, Y, **kw),
        lambda **kw: ct.linearize(product, X, Y, **kw),
        lambda **kw: ct.jacobian(product, X, Y, **kw),
        lambda **kw: ct.hessian(product, X, Y, **kw),
        lambda **kw: ct.grad(product, **kw)(X, Y),
        lambda **kw: ct.value_and_grad(product, **kw)(X, Y),
        lambda **kw: ct.jacfwd(product, **kw)(X, Y),
        lambda **kw: ct.jacrev(product, **kw)(X, Y),
    ],
)
def test_wrong_selections(call):
    with pytest.raises(TypeError, match="wrt or argnums, not both"):
        call(wrt=0, argnums=0)
    with pytest.raises(
        TypeError, match=r"argnums is a position .* names, paths and masks go to wrt"
    ):
        call(argnums="x")
    with pytest.raises(TypeError, match="argnums is a position"):
        call(argnums=True)
    with pytest.raises(ValueError, match="2"):
        call(argnums=2)


def test_functions_without_their_arguments():
    with pytest.raises(TypeError, match=r"did you mean ct.grad\(f\)"):
        ct.gradient(lambda x: x)
    with pytest.raises(TypeError, match=r"did you mean ct.jacfwd\(ct.grad\(f\)\)"):
        ct.hessian(product)
    with pytest.raises(TypeError, match=r"did you mean ct.value_and_grad\(f\)"):
        ct.value_and_gradient(lambda x: x)
    with pytest.raises(TypeError, match=r"ct.jacrev\(f\)"):
        ct.jacobian(lambda x: x)
    for call in (ct.pullback, ct.linearize, ct.hessian):
        with pytest.raises(TypeError, match="needs arguments"):
            call(lambda x: x)
    for make in (ct.grad, ct.value_and_grad, ct.jacfwd, ct.jacrev):
        with pytest.raises(TypeError, match=rf"write ct.{make.__name__}\(f\)\(x, \.\.\.\)$"):
            make(lambda x: x)()
    a = ct.array(X)
    np.testing.assert_array_equal(ct.gradient(lambda: np.sum(a * a), wrt=[a])[a], 2 * X)
    np.testing.assert_array_equal(ct.jacobian(lambda: a * a, wrt=[a])[a], np.diag(2 * X))


# --------------------------------------------------------------------------------------------------
# Keyword arguments of the function


def test_keyword_arguments_are_the_functions():
    for dx, dy in (
        ct.gradient(product, X, Y, scale=2.0),
        ct.value_and_gradient(product, X, Y, scale=2.0)[1],
        ct.pullback(product, X, Y, scale=2.0)[1](1.0),
        ct.jacobian(product, X, Y, scale=2.0),
        (ct.grad(product)(X, Y, scale=2.0), ct.grad(product, 1)(X, Y, scale=2.0)),
        (ct.jacfwd(product)(X, Y, scale=2.0), ct.jacrev(product, 1)(X, Y, scale=2.0)),
    ):
        np.testing.assert_array_equal(dx, 2 * Y)
        np.testing.assert_array_equal(dy, 2 * X)
    assert ct.jvp(product, (X, Y), (X, None), scale=2.0) == (26.0, 26.0)
    assert ct.linearize(product, X, Y, scale=2.0)[1](X, None).item() == 26.0
    np.testing.assert_array_equal(ct.hessian(product, X, Y, scale=2.0)[0][1], 2 * np.eye(2))
    np.testing.assert_array_equal(ct.hvp(product, (X, Y), (X, None), scale=2.0)[1], 2 * X)
    np.testing.assert_array_equal(ct.vhp(product, (X, Y), (X, None), scale=2.0)[1], 2 * X)


def test_keyword_arguments_are_constants():
    scale = np.array([2.0, 3.0])
    assert ct.gradient(lambda x, *, c: np.sum(x * c), X, c=scale)[0] == pytest.approx(scale)
    with pytest.raises(TypeError, match="no_such"):
        ct.gradient(product, X, Y, no_such=1)


def test_tangents_belong_to_what_wrt_asks_for():
    for asked in ({"wrt": 0}, {"wrt": "x"}, {"argnums": 0}, {"argnums": (0,)}):
        assert ct.jvp(product, (X, Y), (X, None), **asked) == (13.0, 13.0)
        with pytest.raises(TypeError, match="jvp: y is held constant and has no tangent"):
            ct.jvp(product, (X, Y), (X, Y), **asked)
    with pytest.raises(TypeError, match="give wrt or argnums, not both"):
        ct.jvp(product, (X, Y), (X, None), wrt=0, argnums=0)


# --------------------------------------------------------------------------------------------------
# Auxiliary results


def test_auxiliary_results():
    gradients, aux = ct.gradient(with_aux, X, Y, has_aux=True)
    expect_aux(aux)
    np.testing.assert_array_equal(gradients[0], Y)
    (value, aux), gradients = ct.value_and_gradient(with_aux, X, Y, has_aux=True, scale=2.0)
    expect_aux(aux, 2.0)
    assert value == 26.0
    np.testing.assert_array_equal(gradients[1], 2 * X)
    gradient, aux = ct.grad(with_aux, has_aux=True)(X, Y)
    expect_aux(aux)
    np.testing.assert_array_equal(gradient, Y)
    (value, aux), gradient = ct.value_and_grad(with_aux, has_aux=True)(X, Y)
    expect_aux(aux)
    assert value == 13.0
    value, back, aux = ct.pullback(with_aux, X, Y, has_aux=True)
    expect_aux(aux)
    assert value == 13.0
    np.testing.assert_array_equal(back(1.0)[0], Y)
    np.testing.assert_array_equal(back.wrt(1)(1.0), X)
    assert back.program.inputs[0].name == "dy"
    assert len(back.forward.outputs) == len(ct.pullback(product, X, Y)[1].forward.outputs)
    value, linear, aux = ct.linearize(with_aux, X, Y, has_aux=True)
    expect_aux(aux)
    assert float(linear(X, None)) == 13.0
    value, tangent, aux = ct.jvp(with_aux, (X, Y), (X, None), has_aux=True)
    expect_aux(aux)
    assert (value, tangent) == (13.0, 13.0)
    for matrix, aux in (
        ct.jacobian(with_aux, X, Y, wrt=0, has_aux=True),
        ct.jacfwd(with_aux, has_aux=True)(X, Y),
        ct.jacrev(with_aux, has_aux=True)(X, Y),
    ):
        expect_aux(aux)
        np.testing.assert_array_equal(matrix, Y)
    matrix, aux = ct.hessian(with_aux, X, Y, has_aux=True)
    expect_aux(aux)
    np.testing.assert_array_equal(matrix[0][1], np.eye(2))


def test_auxiliary_results_take_part_in_an_outer_gradient():
    def inner(y):
        _, aux = ct.grad(lambda x: (x * y, y**2 * x), has_aux=True)(3.0)
        return aux

    assert ct.grad(inner)(2.0) == 12.0
    assert ct.jvp(inner, (2.0,), (1.0,)) == (12.0, 12.0)

    def of_pullback(y):
        return ct.pullback(lambda x: (x * y, y**2 * x), 3.0, has_aux=True)[2]

    assert ct.grad(of_pullback)(2.0) == 12.0


def test_nothing_is_differentiated_through_auxiliary_results():
    # The derivative of what is returned besides would be infinite.
    gradient, aux = ct.grad(lambda x: (x * 2, np.sqrt(x)), has_aux=True)(0.0)
    assert (gradient, aux) == (2.0, 0.0)
    y, tangent, aux = ct.jvp(lambda x: (x * 2, np.sqrt(x)), (0.0,), (1.0,), has_aux=True)
    assert (y, tangent, aux) == (0.0, 2.0, 0.0)


@dataclass
class Point:
    x: float
    y: np.ndarray


def test_auxiliary_objects():
    def f(p):
        return np.sum(p.x * p.y), Point(p.x * 2, p.y + 1)

    gradient, aux = ct.grad(f, has_aux=True)(Point(2.0, X))
    assert gradient.x == 3.0
    assert isinstance(aux, Point)
    assert aux.x == 4.0
    assert type(aux.y) is np.ndarray


def test_without_a_pair():
    for call in (
        lambda: ct.gradient(product, X, Y, has_aux=True),
        lambda: ct.grad(lambda x: (x, 1, 2), has_aux=True)(1.0),
        lambda: ct.jacobian(product, X, Y, has_aux=True),
        lambda: ct.jvp(product, (X, Y), (X, Y), has_aux=True),
    ):
        with pytest.raises(TypeError, match=r"has_aux=True the function must return a pair"):
            call()


# --------------------------------------------------------------------------------------------------
# Names of other libraries


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("jit", "ct.prepare"),
        ("stop_gradient", "ct.dropgrad"),
        ("no_grad", "ct.nograd"),
        ("make_ggnvp", "ct.ggnvp"),
        ("custom_vjp", "ct.adjoint"),
    ],
)
def test_names_of_other_libraries(name, instead):
    assert not hasattr(ct, name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; {instead}"):
        getattr(ct, name)


def test_unknown_names():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'$"):
        ct.nonsense  # noqa: B018
    assert ct.vjp is ct.pullback
