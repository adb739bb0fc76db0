"""Checkpoints: what is kept, what runs again, writes, names; the gradient stays the same."""

import threading
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import cotan as ct

X = np.linspace(0.1, 0.9, 200)


def chain(x, steps=12):
    for _ in range(steps):
        x = np.sin(x) * np.exp(-x)
    return x


def kept(function, *args):
    return ct.pullback(function, *args)[1].nbytes


def arrays_kept(function, *args):
    return kept(function, *args) // X.nbytes


def same(f, *args):
    """Value and gradient of a function with checkpoints are those of the function without."""
    plain = f(lambda g, *a: g(*a), *[a.copy() for a in args])
    value, gradients = ct.value_and_gradient(lambda *a: f(ct.checkpoint, *a), *args)
    wanted = ct.gradient(lambda *a: f(lambda g, *b: g(*b), *a), *args)
    assert value == pytest.approx(plain, rel=1e-14)
    for got, want in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize(
    "settings_",
    [
        {},
        {"policy": "nothing"},
        {"policy": "products"},
        {"budget": 3 * X.nbytes},
        {"budget": "1MB"},
        {"budget": "0"},
    ],
    ids=str,
)
def test_the_gradient_is_the_same(settings_):
    saved = ct.checkpoint(chain, **settings_)
    y, (g,) = ct.value_and_gradient(lambda x: np.sum(saved(x) ** 2), X)
    wanted_y, (wanted,) = ct.value_and_gradient(lambda x: np.sum(chain(x) ** 2), X)
    # Other programs may add up their sums in another order.
    assert y == pytest.approx(wanted_y, rel=1e-14)
    np.testing.assert_allclose(g, wanted, rtol=1e-14)


def test_what_a_pullback_keeps():
    assert kept(lambda x: np.sum(chain(x)), X) >= 24 * X.nbytes
    assert kept(lambda x: np.sum(ct.checkpoint(chain, x)), X) == X.nbytes
    for budget in (0, 2, 5, 10):
        f = ct.checkpoint(chain, budget=budget * X.nbytes)
        held = kept(lambda x, f=f: np.sum(f(x)), X)
        assert X.nbytes <= held <= (budget + 1) * X.nbytes


def test_products_and_names():
    w = np.random.default_rng(0).random((20, 20)) / 20

    def block(w, x):
        h = np.tanh(ct.name(w @ x, "first"))
        return np.tanh(w @ ct.name(np.sin(h), "angle"))

    def held(**how):
        f = ct.checkpoint(block, **how)
        return kept(lambda x: np.sum(f(w, x)), w) // w.nbytes

    assert held() == 2  # the weights and the input
    assert held(policy=["angle"]) == 3
    # With the first product there, the input is not needed any more.
    assert held(policy=["first", "angle"]) == 3
    assert held(policy="products") == 3
    with pytest.raises(ValueError, match=r"block.*'?.?typo.*first.*angle"):
        held(policy=["typo"])


def test_a_name_is_the_value_itself():
    x = ct.array([1.0, 2.0])
    assert ct.name(x, "x") is x
    tree = {"a": x, "n": 3}
    assert ct.name(tree, "x") is tree
    with pytest.raises(TypeError, match="name"):
        ct.name(x, 3)


def test_it_runs_again_when_the_reverse_pass_begins():
    seen = []

    def step(x, label):
        seen.append((label, float(ct.dropgrad(x))))
        return x * x

    def f(x):
        y = ct.checkpoint(step, x, "a")
        seen.append("between")
        return ct.checkpoint(step, y, label="b")

    assert ct.gradient(f, 3.0) == (108.0,)
    assert seen == [("a", 3.0), "between", ("b", 9.0), ("b", 9.0), ("a", 3.0)]
    seen.clear()
    assert f(3.0) == 81.0
    assert seen == [("a", 3.0), "between", ("b", 9.0)]
    seen.clear()
    ct.trace(f, 3.0)
    assert len(seen) == 3
    seen.clear()
    # Nothing is differentiated there.
    assert ct.gradient(lambda x: f(2.0) * x, 1.0) == (16.0,)
    assert len(seen) == 3


def test_nested_ones_run_three_times():
    seen = []

    def inner(x):
        seen.append("inner")
        return np.sin(x)

    def outer(x):
        seen.append("outer")
        return ct.checkpoint(inner, x) * x

    (g,) = ct.gradient(lambda x: ct.checkpoint(outer, x), 0.5)
    assert g == pytest.approx(np.sin(0.5) + 0.5 * np.cos(0.5), rel=1e-15)
    assert seen == ["outer", "inner", "outer", "inner", "inner"]


def test_what_is_closed_over_and_structures():
    class Layer:
        def __init__(self, w, b):
            self.w, self.b = w, b

        def __call__(self, state):
            return {"x": np.tanh(self.w @ state["x"] + self.b), "n": state["n"] + 1}

    rng = np.random.default_rng(1)
    layers = [Layer(rng.random((4, 4)), rng.random(4)) for _ in range(3)]
    x = rng.random(4)

    def loss(layers, x, run):
        state = {"x": x, "n": 0}
        for layer in layers:
            state = run(layer, state)
        assert state["n"] == 3
        return np.sum(state["x"] ** 2)

    wanted = ct.gradient(lambda m, x: loss(m, x, lambda f, s: f(s)), layers, x)
    # The layer is called, so its weights are what the checkpoint closes over.
    got = ct.gradient(lambda m, x: loss(m, x, ct.checkpoint), layers, x)
    again = ct.gradient(lambda m, x: loss(m, x, lambda f, s: ct.checkpoint(f)(s)), layers, x)
    for result in (got, again):
        np.testing.assert_array_equal(result[1], wanted[1])
        for a, b in zip(result[0], wanted[0], strict=True):
            np.testing.assert_array_equal(a.w, b.w)
            np.testing.assert_array_equal(a.b, b.b)


def test_under_another_gradient():
    def f(x):
        return ct.checkpoint(lambda x: np.sin(x) * x, x)

    plain = ct.grad(ct.grad(lambda x: np.sin(x) * x))(0.7)
    assert ct.grad(ct.grad(f))(0.7) == pytest.approx(plain, rel=1e-14)
    h = ct.hessian(lambda x: np.sum(ct.checkpoint(chain, x, steps=3)), X[:3])
    np.testing.assert_allclose(h, ct.hessian(lambda x: np.sum(chain(x, 3)), X[:3]), rtol=1e-12)


def test_hooks_and_rules_inside():
    seen = []

    @ct.adjoint
    def double(x):
        return 2 * x, lambda dy: (3 * dy,)

    def f(x):
        return double(ct.hook(lambda g: seen.append(float(g)), x)) * x

    assert ct.gradient(lambda x: ct.checkpoint(f, x), 5.0) == (10.0 + 15.0,)
    assert seen == [15.0]


def test_a_function_that_does_something_else_the_second_time():
    calls = []

    def f(x):
        calls.append(1)
        return np.sin(x) if len(calls) == 1 else np.cos(x)

    with pytest.raises(RuntimeError, match=r"checkpoint f: .*something else"):
        ct.gradient(lambda x: ct.checkpoint(f, x), 1.0)
    assert not ct.isderiving()


def test_an_exception_leaves_nothing_behind():
    calls = []

    def fails(x):
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("second")
        return x * x

    with pytest.raises(KeyError, match="second"):
        ct.gradient(lambda x: ct.checkpoint(fails, x), 1.0)
    calls.clear()
    with pytest.raises(ZeroDivisionError):
        ct.gradient(lambda x: ct.checkpoint(fails, x) / 0 + 1 // 0, 1.0)
    # The failed gradients' second runs are not made up for later.
    calls.clear()
    assert ct.gradient(lambda x: x * x, 2.0) == (4.0,)
    assert calls == []


def test_an_argument_counts_with_its_value_at_the_call():
    def f(x):
        x = x * 1.0
        y = ct.checkpoint(lambda v: np.sum(np.sin(v)), x)
        x[:] = 0.0
        return y

    np.testing.assert_array_equal(ct.gradient(f, X[:4])[0], np.cos(X[:4]))


def test_threads():
    wanted = ct.gradient(lambda x: np.sum(chain(x)), X)[0]
    wrong = []

    def work():
        for _ in range(5):
            (g,) = ct.gradient(lambda x: np.sum(ct.checkpoint(chain, x)), X)
            if not np.array_equal(g, wanted):
                wrong.append(g)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ({"policy": "dots"}, ValueError, "nothing.*products.*budget"),
        ({"policy": []}, TypeError, "list of names"),
        ({"policy": [3]}, TypeError, "list of names"),
        ({"policy": 3}, TypeError, "'nothing', 'products', or a list of names.*not 3.*budget"),
        ({"policy": len}, TypeError, "'nothing', 'products', or a list of names.*not <built-in"),
        ({"policy": "products", "budget": 3}, ValueError, "not both"),
        ({"budget": "many"}, ValueError, "200MB"),
        ({"budget": -1}, ValueError, "number of bytes"),
        ({"budget": 0.5}, ValueError, "number of bytes"),
    ],
)
def test_errors(how, error, text):
    with pytest.raises(error, match=text):
        ct.checkpoint(chain, **how)
    with pytest.raises(TypeError, match="callable"):
        ct.checkpoint(3.0, X)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("200MB", 200_000_000),
        ("1.5 GiB", 3 << 29),
        ("12", 12),
        ("4kib", 4096),
        ("1b", 1),
        (10**30, 2**63 - 1),
    ],
)
def test_budgets_in_words(text, count):
    from cotan._src.api.checkpoint import budget_bytes

    assert budget_bytes(text) == count


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["sin", "exp", "tanh", "square", "sum", "matmul", "max"]), max_size=8),
    st.integers(0, 6),
    st.integers(0, 8),
    st.integers(0, 400),
)
def test_any_cut_of_any_program(names, start, length, budget):
    w = np.linspace(-0.4, 0.5, 9).reshape(3, 3)
    steps = {
        "sin": np.sin,
        "exp": lambda x: np.exp(-x * x),
        "tanh": np.tanh,
        "square": np.square,
        "sum": lambda x: x + np.sum(x, axis=0),
        "matmul": lambda x: w @ x,
        "max": lambda x: np.maximum(x, 0.1 * x[::-1]),
    }

    def run(x, names):
        for name in names:
            x = steps[name](x)
        return x

    def f(x, saved):
        x = run(x, names[:start])
        part = names[start : start + length]
        x = ct.checkpoint(run, x, part, budget=budget) if saved else run(x, part)
        return np.sum(run(x, names[start + length :]) ** 2)

    x = np.linspace(0.2, 0.7, 6).reshape(3, 2)
    wanted = ct.gradient(lambda x: f(x, False), x)[0]
    (got,) = ct.gradient(lambda x: f(x, True), x)
    np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-15)
    _, back = ct.pullback(lambda x: f(x, True), x)
    np.testing.assert_allclose(np.asarray(back(1.0)[0]), wanted, rtol=1e-13, atol=1e-15)


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
        with_names = arrays_kept(lambda x, w=wrap: ct.checkpoint(f, **held)(x, w), X)
        assert with_names == arrays_kept(lambda x, w=wrap: ct.checkpoint(f)(x, w), X) + 2
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
