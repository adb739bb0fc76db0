"""`x += y` on plain ndarrays: the name gets an array of ours where nobody else has the ndarray."""

import subprocess
import sys

import numpy as np
import pytest

import cotan as ct

TABLE = np.arange(1.0, 4.0)
X = np.array([0.3, 0.7, 1.1])


class Body:
    def __init__(self, speed):
        self.speed = speed


def of_a_local(x):
    y = TABLE * 2
    y += x
    y *= x
    y[0] = 3 * x[1]
    return np.sum(y**2)


def of_an_attribute(x):
    body = Body(TABLE + 1)
    body.speed -= 0.1 * x
    body.speed /= x
    return np.sum(body.speed)


def of_items(x):
    weights, layers = {"w": TABLE + 1}, [TABLE * 2]
    weights["w"] -= 0.1 * x
    layers[0] **= 2
    layers[0] *= x
    return np.sum(weights["w"] * layers[0])


def of_an_enclosing_function(x):
    total = TABLE + 1

    def add():
        nonlocal total
        total += x

    add()
    return np.sum(total**2)


def of_an_argument_that_nobody_has(x):
    def changed(v):
        v += x
        return v

    return np.sum(changed(TABLE * 2) ** 2)


def of_loops_and_branches(x):
    y, z = TABLE * 2, np.ones(3)
    for k in range(3):
        y += x if k else 2 * x
        z *= y[::-1]
        z += x
    return np.sum(z)


def of_a_copy(x):
    y = TABLE.copy()
    for _ in range(3):
        y += x * y
    return np.sum(y)


def of_a_product(x):
    y = np.outer(TABLE, TABLE) + 0
    y @= np.outer(x, x)
    return np.sum(y**2)


def of_another_shape(x):
    y = np.outer(TABLE, TABLE) + 0
    y += x
    y -= x[0]
    return np.sum(y**2)


def of_a_function_whose_variables_were_asked_for(x):
    y = TABLE * 2
    scale = np.full(3, 2.0)  # found by its name, which asks for the variables
    y += x
    assert "y" in locals()
    z = TABLE + 1
    assert "z" in locals()
    z *= x
    return np.sum(y * z * scale)


def slopes(f, x, h=1e-6):
    steps = h * np.eye(x.size)
    return np.array([(f(x + s) - f(x - s)) / (2 * h) for s in steps])


@pytest.mark.parametrize(
    "f",
    [
        of_a_local,
        of_an_attribute,
        of_items,
        of_an_enclosing_function,
        of_an_argument_that_nobody_has,
        of_loops_and_branches,
        of_a_copy,
        of_a_product,
        of_another_shape,
        of_a_function_whose_variables_were_asked_for,
    ],
)
def test_a_name_gets_another_array(f):
    value, (gradient,) = ct.value_and_gradient(f, X)
    assert value == pytest.approx(f(X), rel=1e-12)
    np.testing.assert_allclose(gradient, slopes(f, X), rtol=1e-6)
    np.testing.assert_array_equal(TABLE, [1.0, 2.0, 3.0])


def test_dtype_and_shape_stay_those_of_the_array():
    seen = []

    def f(x):
        y = np.outer(TABLE, TABLE).astype(np.float32)
        y += x
        seen.append((y.dtype, y.shape))
        return np.sum(y)

    ct.gradient(f, X)
    assert seen == [(np.float32, (3, 3))]
    with pytest.raises(TypeError, match="cannot cast"):
        ct.gradient(lambda x: of_whole_numbers(x), X)


def of_whole_numbers(x):
    y = np.array([1, 2, 3]) * 2
    y += x
    return np.sum(y)


def with_another_name_asked_for(x):
    y = TABLE * 2
    other = y
    assert "y" in locals()
    y += x
    return np.sum(other)


def with_another_name(x):
    y = TABLE * 2
    other = y
    y += x
    return np.sum(other)


def with_a_view(x):
    y = TABLE * 2
    other = y[:2]
    y += x
    return np.sum(other)


def of_a_part(x):
    y = TABLE * 2
    y[:2] += x[:2]
    return np.sum(y)


def of_an_argument(x):
    def change(v):
        v += x

    y = TABLE * 2
    change(y)
    return np.sum(y)


def of_an_argument_of_two(x):
    def change(v, scale=1.0):
        v -= x * scale
        return v

    def both(v, *, scale):
        return change(v, scale=scale)

    y = TABLE * 2
    return np.sum(y * both(y, scale=3.0))


def of_an_argument_twice(x):
    def change(v, w):
        v += x
        return w

    y = TABLE * 2
    return np.sum(change(y, y))


def of_an_argument_of_a_generator(x):
    def changed(v):
        for _ in range(2):
            v += x
            yield v

    y = TABLE * 2
    return np.sum(sum(changed(y)) * y)


def of_what_is_mapped(x):
    def change(v):
        v += x
        return v

    layers = [TABLE * 2]
    return np.sum(sum(map(change, layers)) * layers[0])


def of_elements_of_a_list(x):
    layers = [TABLE * 2, TABLE * 3]
    for layer in layers:
        layer += x  # noqa: PLW2901 - the elements change
    return np.sum(layers[0] * layers[1])


def by_name(x):
    y = TABLE * 2
    np.add(y, x, out=y)
    return np.sum(y)


@pytest.mark.parametrize(
    "f",
    [
        with_another_name,
        with_another_name_asked_for,
        with_a_view,
        of_a_part,
        of_an_argument,
        of_an_argument_of_two,
        of_an_argument_twice,
        of_an_argument_of_a_generator,
        of_what_is_mapped,
        of_elements_of_a_list,
        by_name,
    ],
)
def test_what_others_see_is_refused(f):
    with pytest.raises(
        TypeError, match=r"(make that by|create it in the function with) np\.array\(c\)"
    ):
        ct.gradient(f, X)


@pytest.mark.parametrize("name", ["of_a_copy", "of_a_copy_by_name", "of_counts", "of_what_was_met"])
def test_a_prepared_function_keeps_the_arrays_that_it_met(name):
    f = globals()[name]
    prepared = ct.prepare(f, X)
    for x in (X, X + 0.5, X[::-1].copy()):
        np.testing.assert_allclose(prepared(x)[0], slopes(f, x), rtol=1e-6)


FIRST_OF_THE_PROCESS = """
import cotan as ct, numpy as np
table = np.ones(2)
def f(x):
    y = table * 2
    y += x
    return np.sum(y * x)
def with_another_name(x):
    y = table * 2
    other = y
    y += x
    return np.sum(other * x)
print(ct.prepare(f, np.ones(2))(np.ones(2))[0])
try:
    print(ct.gradient(with_another_name, np.ones(2)))
except ct.NotDifferentiableError:
    print("refused")
"""


def test_the_first_operator_in_place_of_a_process_may_be_prepared():
    done = subprocess.run(
        [sys.executable, "-c", FIRST_OF_THE_PROCESS], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[4. 4.]", "refused"]


def test_counts_are_added_to_in_mapped_functions():
    rows = np.stack([X, X[::-1], -X])
    np.testing.assert_allclose(ct.vmap(of_counts)(rows), [of_counts(x) for x in rows])


def of_a_copy_by_name(x):
    y = np.copy(TABLE)
    for _ in range(3):
        y += x * y
    return np.sum(y)


def of_counts(x):
    counts, ranks = np.zeros(3, int), np.argsort(x)
    counts += ranks
    counts -= x > 0.5
    return np.sum(counts * x)


def of_what_was_met(x):
    y = TABLE * 1
    y += x * y
    return np.sum(y)


def writes_to_first(x, y):
    x -= 1.0
    return np.sum(x * y)


SHARED = {
    "the same": lambda a: (a, a),
    "reversed": lambda a: (a, a[::-1]),
    "overlapping": lambda a: (a[:-1], a[1:]),
    "constant": lambda a: (a, ct.const(a)),
    "in a structure": lambda a: ([a], [a]),
    "an Array": lambda a: (a, a),
}


@pytest.mark.parametrize("name", SHARED)
def test_arguments_that_share_memory_are_told_apart_only_while_nobody_writes(name):
    a = ct.array(X) if name == "an Array" else X.copy()
    args = SHARED[name](a)

    def f(x, y):
        x, y = (v[0] if isinstance(v, list) else v for v in (x, y))
        return writes_to_first(x, y)

    for call in (ct.value_and_gradient, ct.pullback, ct.gradient):
        with pytest.raises(ValueError, match="shares memory with another argument"):
            call(f, *args)
    with pytest.raises(ValueError, match="shares memory with another argument"):
        ct.prepare(f)(*args)
    np.testing.assert_array_equal(np.asarray(a), X)


def test_a_replay_looks_at_the_memory_of_its_arguments_too():
    a = np.concatenate([X, X])
    g = ct.prepare(writes_to_first, transform="value_and_gradient")
    for x, y in ((X, 2 * X), (a[::2], a[1::2]), (X + 1, X)):
        value, (dx, dy) = g(x, y)
        assert value == pytest.approx(np.sum((x - 1.0) * y))
        np.testing.assert_allclose(dx, y)
        np.testing.assert_allclose(dy, x - 1.0)
        with pytest.raises(ValueError, match="shares memory with another argument"):
            g(x, x)
    np.testing.assert_array_equal(a, np.concatenate([X, X]))


def test_an_operator_in_place_on_a_plain_array_in_a_prepared_function():
    weights = np.array([1.0, 2.0])

    def f(x):
        y = np.arctan(weights)
        y /= x
        y *= x[0]
        y += np.cos(weights) * x
        return np.sum(y * y)

    x = np.array([1.5, 0.5])
    g = ct.prepare(f, x)
    for factor in (1.0, 2.0):
        np.testing.assert_array_equal(g(factor * x)[0], ct.gradient(f, factor * x)[0])
    weights[0] = 3.0
    np.testing.assert_array_equal(g(x)[0], ct.gradient(f, x)[0])

    def with_another(x):
        y = np.arctan(weights)
        other = y
        y /= x
        return np.sum(other)

    with pytest.raises(TypeError, match="other references"):
        ct.prepare(with_another, x)


def by_mask(x):
    y = np.sin(x) / x
    y[x == 0] = 1.0
    return y


def by_values(x):
    y = np.log(x)
    y[x == 0] = 3 * x[x == 0]
    return y


def by_rows(x):
    wide = np.outer(x, [1.0, 2.0])
    y = np.sin(wide) / wide
    y[x == 0] = [1.0, 2.0]
    return y


def by_putmask(x):
    y = np.sin(x) / x
    np.putmask(y, x == 0, 1.0)
    return y


@pytest.mark.parametrize("f", [by_mask, by_values, by_rows, by_putmask])
def test_what_is_overwritten_where_a_mask_holds_has_no_derivative(f):
    """NaN and infinity that a program mends afterwards do not reach the gradient."""
    x = np.array([0.0, 1.0, 2.0])
    with np.errstate(all="ignore"):
        value, (slope,) = ct.value_and_gradient(lambda x: np.sum(f(x)), x)
        assert value == pytest.approx(np.sum(f(x)))
        wanted = [np.sum(f(x + d) - f(x - d)) / 2e-6 for d in 1e-6 * np.eye(3)[1:]]
    np.testing.assert_allclose(slope, [3.0 if f is by_values else 0.0, *wanted], rtol=1e-6)


def by_position(x):
    n = np.arange(-2, 3)
    h = np.sin(x * n) / (np.pi * n)
    h[2] = x / np.pi
    return h


def by_slice(x):
    n = np.arange(5.0)
    h = np.sin(x * n) / n
    h[:1] = x
    h *= np.arange(5.0)
    h /= np.sum(h)
    h[1] *= 2
    return h


def by_column(x):
    n = np.arange(3.0) * np.ones((2, 1))
    h = np.exp(x * n) / n
    h[:, 0] = [x, 2 * x]
    return h


@pytest.mark.parametrize("f", [by_position, by_slice, by_column])
def test_quotients_that_are_mended_have_a_derivative(f):
    """Windowed sinc filters divide zero by zero, and write what is right into that place."""
    with np.errstate(all="ignore"):
        value, (slope,) = ct.value_and_gradient(lambda x: np.sum(np.cos(f(x))), 0.5)
        g = lambda x: np.sum(np.cos(f(x)))
        assert value == pytest.approx(g(0.5))
        assert slope == pytest.approx((g(0.5 + 1e-6) - g(0.5 - 1e-6)) / 2e-6, rel=1e-6)
