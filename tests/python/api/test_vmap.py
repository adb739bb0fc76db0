"""Functions of one example over many: the same as a loop."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

import cotan as ct


def loop(function, count, *columns):
    return np.stack([np.asarray(function(*(c[k] for c in columns))) for k in range(count)])


FUNCTIONS = {
    "elementwise": lambda x, w: np.sin(x) * w + np.maximum(x, 0),
    "reductions": lambda x, w: np.sum(x * w, axis=0) / np.linalg.norm(w),
    "products": lambda x, w: w @ np.outer(x, x) @ w,
    "indexing": lambda x, w: x[::-1][1:] * w[np.array([2, 0])],
    "pieces": lambda x, w: np.concatenate([x, w[:1], np.stack([x, w]).ravel()]),
    "systems": lambda x, w: np.linalg.solve(np.eye(3) * 4 + np.outer(x, w), x),
    "sorted": lambda x, w: np.sort(x) * np.cumsum(w),
    "transform": lambda x, w: np.abs(np.fft.rfft(x)) * w[0],
    "loop with writes": None,
}


def _written(x, w):
    y = np.zeros(3)
    for i in range(3):
        y[i] = x[i] * w[(i + 1) % 3]
    return y


FUNCTIONS["loop with writes"] = _written


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
@pytest.mark.parametrize("shared", [False, True])
def test_a_batch_is_a_loop(function, shared, rng):
    x, w = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    if shared:
        got = ct.vmap(function, in_axes=(0, None))(x, w[0])
        want = loop(lambda x: function(x, w[0]), 5, x)
    else:
        got, want = ct.vmap(function)(x, w), loop(function, 5, x, w)
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_gradients_of_examples_and_of_batches(function, rng):
    x, w = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))

    def value(x, w):
        return np.sum(function(x, w) ** 2)

    each = ct.vmap(lambda x, w: ct.gradient(value, x, w))(x, w)
    total = ct.gradient(lambda x, w: np.sum(ct.vmap(value)(x, w)), x, w)
    for i in range(2):
        want = np.stack([ct.gradient(value, x[k], w[k])[i] for k in range(4)])
        np.testing.assert_allclose(each[i], want, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(total[i], want, rtol=1e-10, atol=1e-10)


@given(
    size=st.integers(0, 4),
    axis=st.integers(-3, 2),
    out=st.integers(-3, 2),
)
def test_axes(size, axis, out):
    shape = [2, 3]
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, size)
    x = np.arange(float(np.prod(shape))).reshape(shape)
    got = ct.vmap(lambda row: row * 2 + 1, in_axes=axis, out_axes=out)(x)
    np.testing.assert_array_equal(got, np.moveaxis(np.moveaxis(x, axis, 0) * 2 + 1, 0, out))


def test_structures_and_keywords(rng):
    batch = {"x": rng.normal(size=(4, 2)), "y": rng.normal(size=4)}

    def residual(model, batch, *, scale):
        r = scale * (np.dot(model["w"], batch["x"]) - batch["y"])
        return {"r": r, "square": r * r}

    model = {"w": rng.normal(size=2)}
    scale = rng.normal(size=4)
    got = ct.vmap(residual, in_axes=[None, 0])(model, batch, scale=scale)
    r = scale * (batch["x"] @ model["w"] - batch["y"])
    np.testing.assert_allclose(got["r"], r, rtol=1e-13)
    np.testing.assert_allclose(got["square"], r * r, rtol=1e-13)


def test_nested(rng):
    x, y = rng.normal(size=(3, 2)), rng.normal(size=(4, 2))
    inner = ct.vmap(lambda a, b: np.sum((a - b) ** 2), in_axes=(None, 0))
    got = ct.vmap(inner, in_axes=(0, None))(x, y)
    np.testing.assert_allclose(got, ((x[:, None] - y[None]) ** 2).sum(-1), rtol=1e-13)


def test_custom_rules_keep_their_rule(rng):
    @ct.adjoint
    def odd(x, w):
        # The rule differs from the derivative, so one sees which was used.
        return x * w, lambda dy: (7 * dy, np.sum(dy) * np.ones(3))

    x, w = rng.normal(size=(4, 3)), rng.normal(size=3)
    each, _ = ct.vmap(
        lambda x, w: ct.gradient(lambda x, w: np.sum(odd(x, w)), x, w), in_axes=(0, None)
    )(x, w)
    np.testing.assert_array_equal(each, np.full((4, 3), 7.0))
    dx, dw = ct.gradient(lambda x, w: np.sum(ct.vmap(odd, in_axes=(0, None))(x, w)), x, w)
    np.testing.assert_array_equal(dx, np.full((4, 3), 7.0))
    np.testing.assert_array_equal(dw, np.full(3, 12.0))


def test_closures_over_what_is_differentiated(rng):
    x, w = rng.normal(size=(5, 3)), rng.normal(size=3)
    (dw,) = ct.gradient(lambda w: np.sum(ct.vmap(lambda x: np.tanh(w @ x))(x)), w)
    want = ((1 - np.tanh(x @ w) ** 2)[:, None] * x).sum(0)
    np.testing.assert_allclose(dw, want, rtol=1e-12)


def test_arrays_stay_lazy():
    y = ct.vmap(lambda x: x * 2)(ct.array([1.0, 2.0]))
    assert isinstance(y, ct.Array)
    assert not y.is_forced
    np.testing.assert_array_equal(np.asarray(y), [2.0, 4.0])


def test_results_that_do_not_differ_are_repeated():
    a, b = ct.vmap(lambda x: (x, 3.0))(np.arange(3.0))
    np.testing.assert_array_equal(a, [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(b, [3.0, 3.0, 3.0])


def test_labels_pick_for_each_example(rng):
    logits, labels = rng.normal(size=(4, 3)), np.array([2, 0, -1, 1])
    got = ct.vmap(lambda z, i: z[np.reshape(i, 1)])(logits, labels)
    np.testing.assert_array_equal(got, logits[np.arange(4), labels][:, None])


def test_refusals(rng):
    x = rng.normal(size=(3, 2))
    with pytest.raises(ValueError, match=r"vmap: .*differs between examples.*where"):
        ct.vmap(lambda x: x if x[0] > 0 else -x)(x)
    with pytest.raises(ValueError, match=r"vmap: a has 3 examples, b has 2"):
        ct.vmap(lambda a, b: a + b)(x, x.T)
    with pytest.raises(ValueError, match=r"vmap: c\.s is a number.*in_axes"):
        ct.vmap(lambda a, c: a)(x, {"s": 2.0})
    with pytest.raises(ValueError, match="no argument is an array"):
        ct.vmap(lambda a: a, in_axes=None)(x)
    with pytest.raises(ValueError, match="in_axes has 2 entries for 1 argument of <lambda>"):
        ct.vmap(lambda a: a, in_axes=(0, None))(x)
    with pytest.raises(TypeError, match="in_axes"):
        ct.vmap(lambda a: a, in_axes="rows")
    with pytest.raises(TypeError, match="out_axes"):
        ct.vmap(lambda a: a, out_axes="rows")
    with pytest.raises(IndexError):
        ct.vmap(lambda a: a, in_axes=5)(x)


def test_hooks_are_called_for_each_example(rng):
    """Also behind functions with rules of their own, and in second derivatives."""
    x, seen = rng.uniform(0.5, 2.0, size=(4, 3)), []

    def clipped(g):
        seen.append(np.array(g))
        return g / np.maximum(1.0, np.linalg.norm(g))

    for f in (
        lambda a: np.sum(ct.hook(clipped, a) ** 4),
        lambda a: np.sum(ct.hook(clipped, special.gammaln(a)) ** 2),
        lambda a: np.sum(ct.hook(clipped, a * a)) * a[0],
    ):
        looped = [ct.grad(f)(row) for row in x]
        met = seen.copy()
        seen.clear()
        np.testing.assert_allclose(ct.vmap(ct.grad(f))(x), looped, rtol=1e-12)
        np.testing.assert_allclose(seen, met, rtol=1e-12)
        seen.clear()
        slope = ct.grad(lambda x, f=f: np.sum(ct.vmap(f)(x)))(x)
        np.testing.assert_allclose(slope, looped, rtol=1e-12)
        np.testing.assert_allclose(seen, met, rtol=1e-12)
        seen.clear()
        assert ct.vmap(ct.grad(f))(x[:0]).shape == (0, 3)
        assert seen == []

    def squared(a, w):
        return np.sum(np.sin(w * ct.hook(lambda g: g * g, a)) * a)

    def mapped(x, w):
        return np.sum(ct.vmap(lambda a: ct.grad(squared)(a, w))(x) ** 2)

    def looped(x, w):
        return sum(np.sum(ct.grad(squared)(row, w) ** 2) for row in x)

    w = rng.normal(size=3)
    for a, b in zip(ct.gradient(mapped, x, w), ct.gradient(looped, x, w), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_what_all_examples_share_gets_the_sum_of_their_cotangents(rng):
    w, x, seen = rng.normal(size=3), rng.normal(size=(4, 3)), []
    ct.gradient(lambda w: np.sum(ct.vmap(lambda a: ct.hook(seen.append, w) @ a)(x)), w)
    np.testing.assert_allclose(seen, [np.sum(x, axis=0)])


def test_opaque_rules_take_what_examples_share(rng):
    w, x = rng.normal(size=3), rng.normal(size=(4, 3))

    @ct.adjoint(opaque=True)
    def cube(w):
        return np.asarray(w) ** 3, lambda dy: 3 * dy * w**2

    slope = lambda a: ct.gradient(lambda w: np.sum(cube(w) * a), w)[0]
    np.testing.assert_allclose(ct.vmap(slope)(x), [slope(a) for a in x], rtol=1e-12)
    total = ct.grad(lambda w: np.sum(ct.vmap(lambda a: cube(w) @ a)(x)))
    np.testing.assert_allclose(total(w), 3 * w**2 * np.sum(x, axis=0), rtol=1e-12)


def test_errors_of_hooks_for_an_example_arrive():
    def failing(g):
        if g[0] > 0.5:
            raise KeyError("stop")

    x = np.array([[0.1, 0.1], [0.3, 0.3]])
    with pytest.raises(KeyError, match="stop"):
        ct.vmap(ct.grad(lambda a: np.sum(ct.hook(failing, a) ** 2)))(x)
    with pytest.raises(TypeError, match=r"hook <lambda>"):
        ct.vmap(ct.grad(lambda a: np.sum(ct.hook(lambda g: "no", a) ** 2)))(x)


_SPECIAL = [
    (special.jv, (0, 0)),
    (lambda v, x: special.jv(v, x), (0, None)),
    (lambda v, x: special.gammainc(v, x[:, None] * x), (None, 0)),
    (lambda v, x: special.airy(v * x)[2], (0, 0)),
    (lambda v, x: ct.gradient(lambda x: np.sum(special.betainc(v, 2.0, x)), x)[0], (0, 0)),
    (lambda v, x: ct.gradient(lambda v: np.sum(special.gammaincc(v, x)), v)[0], (0, None)),
    (lambda v, x: ct.hessian(lambda x: np.sum(special.gammaln(x) * special.erfcx(x)), x), (0, 0)),
    (lambda v, x: ct.vmap(lambda one: special.zeta(2.0, one) + v)(x), (0, 0)),
    (lambda v, x: ct.checkpoint(special.gammaln)(x) * v, (0, 0)),
]


@pytest.mark.parametrize("i", range(len(_SPECIAL)))
def test_special_functions_take_many_examples(i, rng):
    function, axes = _SPECIAL[i]
    v, x = rng.uniform(1, 3, 3), rng.uniform(0.2, 0.9, (3, 2))
    v, x = (a if axis == 0 else a[0] for a, axis in zip((v, x), axes, strict=True))
    mapped = ct.vmap(function, in_axes=axes)(v, x)
    each = [
        function(*(a if axis is None else a[k] for a, axis in zip((v, x), axes, strict=True)))
        for k in range(3)
    ]
    np.testing.assert_allclose(mapped, np.stack([np.asarray(y) for y in each]), rtol=1e-12)


def test_special_functions_inside_of_rules_take_many_examples(rng):
    @ct.adjoint
    def ruled(x):
        return special.gammaln(x), lambda g: (g * special.psi(x),)

    x = rng.uniform(0.5, 2, (3, 2))
    np.testing.assert_allclose(ct.vmap(ruled)(x), special.gammaln(x))
    slopes = ct.vmap(lambda x: ct.gradient(lambda x: np.sum(ruled(x)), x)[0])(x)
    np.testing.assert_allclose(slopes, special.psi(x))


def test_gradients_through_mapped_special_functions(rng):
    v, x = rng.uniform(1, 3, 3), rng.uniform(0.5, 2, (3, 2))

    def mapped(scale, x):
        return np.sum(ct.vmap(lambda v, x: special.jv(v, x * scale) * x)(v, x) ** 2)

    def whole(scale, x):
        return np.sum((special.jv(v[:, None], x * scale) * x) ** 2)

    for found, expected in zip(
        ct.gradient(mapped, 1.3, x), ct.gradient(whole, 1.3, x), strict=True
    ):
        np.testing.assert_allclose(found, expected)


def test_errors_of_the_function_leave_nothing_behind(rng):
    x = rng.normal(size=(3, 2))

    def wrong(x):
        raise KeyError("mine")

    zeros = np.zeros
    with pytest.raises(KeyError, match="mine"):
        ct.vmap(wrong)(x)
    assert np.zeros is zeros
    np.testing.assert_array_equal(ct.vmap(lambda x: 2 * x)(x), 2 * x)


ROWS = np.arange(12.0).reshape(3, 4)
NUMBERS = np.array([1, 0, 3])
PAIRS = np.array([[0, 1], [1, 2], [3, 3]])
INDEXED = {
    "a number": (lambda x, i: x[i], (ROWS, NUMBERS), (0, 0)),
    "from the end": (lambda x, i: x[-i - 1], (ROWS, NUMBERS), (0, 0)),
    "a number in what is shared": (lambda x, i: x[i], (ROWS[0], NUMBERS), (None, 0)),
    "a row of what is shared": (lambda x, i: x[i], (ROWS, NUMBERS % 3), (None, 0)),
    "an array in what is shared": (lambda x, i: x[i], (ROWS[0], PAIRS), (None, 0)),
    "behind a slice": (lambda x, i: x[:, i], (np.stack([ROWS, -ROWS, ROWS**2]), NUMBERS), (0, 0)),
    "two numbers": (
        lambda x, i, j: x[i, j],
        (np.stack([ROWS, -ROWS, ROWS**2]), NUMBERS % 3, NUMBERS),
        (0, 0, 0),
    ),
    "take": (lambda x, i: np.take(x, i), (ROWS, NUMBERS), (0, 0)),
    "take along an axis": (
        lambda x, i: np.take(x, i, axis=1),
        (np.stack([ROWS, -ROWS, ROWS**2]), PAIRS),
        (0, 0),
    ),
    "take of what is shared": (lambda x, i: np.take(x, i, axis=0), (ROWS, NUMBERS % 3), (None, 0)),
    "a write": (lambda x, i: written_at(x, i), (ROWS, NUMBERS), (0, 0)),
}


def written_at(x, i):
    y = np.array(x)
    y[i] = y[i] ** 2 + 1.0
    return y


@pytest.mark.parametrize("name", INDEXED)
def test_indices_that_differ_between_examples(name):
    f, args, axes = INDEXED[name]
    each = [
        f(*(a if axis is None else a[k] for a, axis in zip(args, axes, strict=True)))
        for k in range(3)
    ]
    np.testing.assert_array_equal(ct.vmap(f, in_axes=axes)(*args), each)
    slope = ct.grad(lambda *args: np.sum(ct.vmap(f, in_axes=axes)(*args) ** 2))(*args)
    one = ct.grad(lambda *args: np.sum(np.stack([
        f(*(a if axis is None else a[k] for a, axis in zip(args, axes, strict=True)))
        for k in range(3)
    ]) ** 2))(*args)  # fmt: skip
    np.testing.assert_allclose(slope, one)


TABLE = ct.array(np.arange(12.0) ** 2)
CAST = {
    "a table": lambda x: TABLE[(3 * x).astype(int)] * x,
    "take": lambda x: np.take(np.arange(12.0), np.floor(3 * x).astype(np.int32)) * x,
    "a write": lambda x: written_at(x, (x[0] > 1).astype(int)),
    "a branch": lambda x: ct.cond(x.astype(int)[0] > 0, np.sin, np.cos, x),
    "back again": lambda x: (3 * x).astype(np.int8) * 1.5 * x,
    "bools": lambda x: np.where((x - 1).astype(bool), x, -x) * x.astype(bool),
    "complex": lambda x: x * (2.5 * x + 1j).astype(int),
}


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("name", CAST)
def test_integers_that_come_of_casts(name, rng):
    f, x = CAST[name], rng.uniform(0, 2, size=(5, 3))
    x[0, 1] = 1.0
    np.testing.assert_allclose(ct.vmap(f)(x), [f(row) for row in x], rtol=1e-13)
    total = lambda x: np.sum(f(x) ** 2)
    slopes = [ct.grad(total)(row) for row in x]
    np.testing.assert_allclose(ct.vmap(ct.grad(total))(x), slopes, rtol=1e-12)
    for mapped in (ct.vmap(total), ct.checkpoint(ct.vmap(total))):
        joint = ct.grad(lambda x, mapped=mapped: np.sum(mapped(x)))(x)
        np.testing.assert_allclose(joint, slopes, rtol=1e-12)
    each = ct.vmap(ct.grad(ct.checkpoint(total)))(x)
    np.testing.assert_allclose(each, slopes, rtol=1e-12)


def test_a_look_at_a_value_cannot_be_caught():
    def f(x):
        with contextlib.suppress(ValueError):
            if np.sum(x) > 0:
                return np.sum(x)
        return 2 * np.sum(x)

    with pytest.raises(ValueError, match="vmap: the function looks at a value"):
        ct.vmap(f)(np.array([[1.0, 2.0], [-1.0, -3.0]]))
    assert np.asarray(ct.vmap(np.sum)(np.ones((2, 3)))).tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda y, i: np.multiply(y[i], 10.0, out=y[i]),
        lambda y, i: y[i].fill(3.0),
        lambda y, i: y[i, 1:].__setitem__(0, 7.0),
        lambda y, i: y[:, i].__iadd__(y[i, 0]),
        lambda y, i: y[i][None].__imul__(2.0),
        lambda y, i: y[i].T[::-1].__setitem__(slice(0, 1), 5.0),
    ],
)
def test_a_row_at_a_position_of_each_example_is_a_view(write):
    def f(y, i):
        y = y.copy()
        write(y, i)
        return np.sum(y * np.arange(9.0).reshape(3, 3), axis=0)

    tables, rows = np.random.default_rng(3).normal(size=(4, 3, 3)), np.array([0, 2, 1, -1])
    np.testing.assert_allclose(ct.vmap(f)(tables, rows), loop(f, 4, tables, rows), rtol=1e-13)
    mapped = ct.gradient(lambda t: np.sum(ct.vmap(f)(t, rows) ** 2), tables)[0]
    one = lambda t, i: ct.gradient(lambda t: np.sum(f(t, i) ** 2), t)[0]
    np.testing.assert_allclose(mapped, loop(one, 4, tables, rows), rtol=1e-12)


def test_a_row_follows_what_is_written_and_keeps_its_place():
    def f(y, i):
        y, at = y.copy(), i + 0
        row = y[at]
        at += 1
        y *= 2.0
        row += 1.0
        return y + row

    tables, rows = np.random.default_rng(4).normal(size=(3, 3, 2)), np.array([1, 0, 1])
    np.testing.assert_allclose(ct.vmap(f)(tables, rows), loop(f, 3, tables, rows), rtol=1e-13)


@pytest.mark.parametrize("rolled", [False, True])
def test_a_row_at_the_number_of_a_step_is_a_view(rolled):
    def step(i, v):
        v = v.copy()
        row = v[i]
        row += 1.0 + row * v[0, 0]
        return v

    def f(x):
        return np.sum(ct.fori_loop(0, 20, step, x, rolled=rolled) ** 2)

    x = np.random.default_rng(5).normal(size=(20, 2)) / 10
    value, (slope,) = ct.value_and_gradient(f, x)
    v = x.copy()
    for i in range(20):
        v[i] += 1.0 + v[i] * v[0, 0]
    assert value == pytest.approx(np.sum(v**2))
    h = 1e-6 * np.eye(20)[0][:, None] * np.array([1.0, 0.0])
    assert slope[0, 0] == pytest.approx((f(x + h) - f(x - h)) / 2e-6, rel=1e-6)


def test_the_callers_arrays_stay_where_examples_are_called_one_by_one():
    def f(x):
        found = np.flatnonzero(x > 0)
        x[0] = -7.0
        return np.sum(x) + len(found)

    tables = np.array([[2.0, 1.0], [3.0, 1.0]])
    np.testing.assert_array_equal(ct.vmap(f)(tables), [-4.0, -4.0])
    np.testing.assert_array_equal(tables, [[2.0, 1.0], [3.0, 1.0]])
