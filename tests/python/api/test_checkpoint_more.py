"""Checkpoints: writes to arguments, and values with names."""

from dataclasses import dataclass

import numpy as np
import pytest

import cotan as ct

X = np.linspace(0.1, 0.9, 200)


def same(f, *args):
    """Value and gradient of a function with checkpoints are those of the function without."""
    plain = f(lambda g, *a: g(*a), *[a.copy() for a in args])
    value, gradients = ct.value_and_gradient(lambda *a: f(ct.checkpoint, *a), *args)
    wanted = ct.gradient(lambda *a: f(lambda g, *b: g(*b), *a), *args)
    assert value == pytest.approx(plain, rel=1e-14)
    for got, want in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


# --------------------------------------------------------------------------------------------------
# Writes to arguments


def test_writes_to_an_argument_are_seen_outside():
    def g(x):
        x[0] = 5 * x[1]
        return np.sum(x**2)

    def f(call, x):
        y = x * 3.0
        z = call(g, y)
        return z + np.sum(np.sin(y))

    same(f, X[:4])


def test_writes_count_once_although_the_function_runs_twice():
    def g(x):
        x *= 2.0
        x[1:] += x[:-1]

    def f(call, x):
        y = x * 1.0
        call(g, y)
        call(g, y)
        return np.sum(y**2)

    same(f, X[:4])


def test_writes_through_views_and_into_structures():
    @dataclass
    class State:
        h: np.ndarray
        count: int

    def g(state, k):
        state["s"].h[::2] = np.sin(state["s"].h[::2]) * k
        state["list"][0][...] = state["s"].h[:2]
        return np.sum(state["s"].h)

    def f(call, x):
        h, part = x * 1.0, x[:4] * 2.0
        state = {"s": State(h[1:5], 3), "list": [part[1:3]]}
        y = call(g, state, 2.0)
        return y + np.sum(h**2) + np.sum(part**3)

    same(f, X[:6])


def test_writes_in_nested_checkpoints():
    def inner(x):
        x[0] = np.exp(x[1])
        return x * 2

    def outer(call, x):
        y = call(inner, x)
        x[1] = y[0]
        return np.sum(y)

    def f(call, x):
        x = x * 1.0
        return call(lambda x: outer(call, x), x) + np.sum(x**2)

    same(f, X[:3])


def test_writes_to_an_array_that_is_differentiated_by_identity():
    def g(x):
        x[0] = 5 * x[1]

    x = ct.array([1.0, 2.0])

    def f():
        ct.checkpoint(g, x)
        return np.sum(x * x)

    found = ct.gradient(f, wrt=[x])
    assert np.asarray(found[x]).tolist() == [0.0, 104.0]
    assert np.asarray(x).tolist() == [1.0, 2.0]


def test_constants_are_written_to_as_well():
    buffer, held = np.zeros(3), ct.array([1.0, 2.0, 3.0])

    def g(x, b, h):
        b[:2] = [7.0, 8.0]
        h[0] = x[0]
        return np.sum(x) * b[1]

    def f(x):
        h = held.copy()
        return ct.checkpoint(g, x, buffer, h) + 2 * np.sum(h)

    (found,) = ct.gradient(f, X[:3])
    assert found.tolist() == [10.0, 8.0, 8.0]
    assert buffer.tolist() == [7.0, 8.0, 0.0]


def test_writes_that_cannot_be_seen_outside_are_refused():
    def g(x, b):
        b[0] = x[0]
        return x

    plain = np.zeros(2)
    with pytest.raises(
        TypeError, match=r"checkpoint g: it writes what is .* argument b, a plain nda"
    ):
        ct.gradient(lambda x: np.sum(ct.checkpoint(g, x, plain)), X)

    def doubled(x, y):
        x[0] = 3.0
        return np.sum(x * y)

    for make in (lambda x: (x, x), lambda x: (x, x[1:3]), lambda x: (x[:2], x[1:3])):
        with pytest.raises(
            ValueError, match=r"checkpoint doubled: .* x, which shares mem.* y; pass"
        ):
            ct.gradient(lambda x, m=make: ct.checkpoint(doubled, *m(x * 1.0))[()], X[:1])

    def flat(x):
        x.shape = (4,)

    with pytest.raises(ValueError, match=r"checkpoint flat: .* x another shape.*reshape"):
        ct.gradient(lambda x: ct.checkpoint(flat, x * 1.0), np.ones((2, 2)))


# --------------------------------------------------------------------------------------------------
# Names


def kept(function, *args):
    return ct.pullback(function, *args)[1].nbytes // X.nbytes


@dataclass
class Pair:
    left: object
    right: object


class Odd(list):
    def __init__(self, left, right):
        super().__init__([left, right])


def test_names_reach_into_structures():
    def f(x, wrap):
        a, b = np.sin(x * x), np.exp(-x)
        ct.name(wrap(a, b), "pair")
        return np.sum(np.cos(a * b) * np.sin(a + b))

    held = {"policy": ["pair"]}
    for wrap in (Pair, Odd, lambda a, b: {"k": (a, [b])}):
        with_names = kept(lambda x, w=wrap: ct.checkpoint(f, **held)(x, w), X)
        assert with_names == kept(lambda x, w=wrap: ct.checkpoint(f)(x, w), X) + 2
    cyclic = [1.0]
    cyclic.append(cyclic)
    assert ct.name(cyclic, "x") is cyclic
    assert ct.gradient(lambda x: ct.checkpoint(lambda x: ct.name([x, cyclic], "c")[0] * 2, x), 1.0)


def test_names_of_what_is_constant():
    w = np.eye(2)

    def f(x):
        return np.sum(np.tanh(ct.name(w @ w, "product") @ x))

    saved = ct.checkpoint(f, policy=["product"])
    np.testing.assert_array_equal(ct.gradient(saved, X[:2])[0], ct.gradient(f, X[:2])[0])

    def layer(w, x):
        return np.sum(np.tanh(ct.name(w @ w, "square") @ ct.name(x, "x")))

    saved = ct.checkpoint(layer, policy=["square", "x"])
    for wrt in (0, 1, (0, 1)):
        got, wanted = (ct.gradient(g, w + 0.1, X[:2], wrt=wrt) for g in (saved, layer))
        for a, b in zip(got, wanted, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-14)
    with pytest.raises(ValueError, match="named"):
        ct.gradient(ct.checkpoint(f, policy=["products"]), X[:2])


def test_an_outer_policy_sees_names_inside_of_inner_checkpoints():
    def inner(x):
        h = ct.name(np.sin(x), "h")
        return np.exp(np.cos(h) * np.sin(h * h))

    def outer(x, **how):
        return np.sum(np.sin(ct.checkpoint(inner, np.cos(x), **how)))

    def runs(**how):
        """How often sin(cos(x)) is computed: forwards, and in the backward program."""
        _, back = ct.pullback(
            ct.checkpoint(lambda x: outer(x, **how.get("inner", {})), **how["outer"]), X
        )
        return back

    wanted = ct.gradient(outer, X)[0]
    counts = {}
    for name, how in {
        "nothing": {"outer": {}},
        "outer": {"outer": {"policy": ["h"]}},
        "both": {"outer": {"policy": ["h"]}, "inner": {"policy": ["h"]}},
        "inner": {"outer": {}, "inner": {"policy": ["h"]}},
        "budget": {"outer": {"policy": ["h"]}, "inner": {"budget": "1MB"}},
    }.items():
        back = runs(**how)
        np.testing.assert_allclose(np.asarray(back(1.0)[0]), wanted, rtol=1e-13)
        sines = sum(e.primitive == "sin" for e in back.program.equations)
        counts[name] = (back.nbytes // X.nbytes, sines)
    assert counts["nothing"][0] == counts["inner"][0] == 1
    assert counts["outer"][0] == counts["both"][0] == 2
    # With h there, sin(cos(x)) is not computed again.
    assert counts["outer"][1] == counts["both"][1] == counts["nothing"][1] - 1


def test_outer_names_three_levels_deep_and_to_second_order():
    def third(x):
        return np.sin(ct.name(x * x, "deep")) * ct.name(x, "argument")

    def second(x):
        return ct.checkpoint(third, np.cos(x)) * x

    def f(x):
        return np.sum(ct.checkpoint(second, np.sin(x)))

    saved = ct.checkpoint(f, policy=["deep", "argument"])
    plain = lambda x: np.sum(np.sin(np.cos(np.sin(x)) ** 2) * np.cos(np.sin(x)) * np.sin(x))
    np.testing.assert_allclose(ct.gradient(saved, X)[0], ct.gradient(plain, X)[0], rtol=1e-13)
    got, wanted = ct.hessian(saved, X[:3]), ct.hessian(plain, X[:3])
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-15)
    with pytest.raises(ValueError, match=r"named .?.?typo.*deep.*argument"):
        ct.gradient(ct.checkpoint(f, policy=["typo"]), X)


@pytest.mark.parametrize("number", [0.3, 2, 2.0, np.float64(0.3), np.int64(7)], ids=repr)
def test_numbers_may_have_been_met_before(number):
    # Whether a number is remembered must not change the program.
    def g(x):
        return np.sum(np.sin(x) * 0.7 + x * number + number)

    def f(call, x):
        before = x * number
        for k in range(40):
            before = before + 0.01 * k
        return call(g, before) + call(g, x)

    same(f, X[:4])
    again = [str(ct.trace(g, X[:4])) for _ in range(2)]
    np.asarray(ct.array(X[:4]) * number + 0.5)
    again += [str(ct.trace(g, X[:4]))]
    assert len(set(again)) == 1
