"""Derivative rules written by users."""

import copy
import functools
import pickle
import threading
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cotan as ct


@dataclass
class Point:
    x: float
    y: np.ndarray
    name: str = "p"


class Pair(NamedTuple):
    first: object
    second: object


def identity(x):
    return x, lambda dx: (dx,)


cube = ct.adjoint(lambda x: (x**3, lambda dy: (dy * 3 * x**2,)))


def test_derivatives_of_every_order():
    f = cube
    for wanted in [12.0, 12.0, 6.0]:
        f = ct.grad(f)
        assert f(2.0) == wanted
    assert ct.grad(lambda x: x * ct.grad(cube)(x))(2.0) == 36.0


def test_the_rule_counts_and_not_the_code():
    wrong = ct.adjoint(lambda x: (np.sin(x), lambda dy: 7 * dy))
    assert ct.gradient(wrong, 0.3) == (7.0,)
    assert ct.gradient(lambda x: ct.grad(wrong)(x) * x, 0.3) == (7.0,)


@pytest.mark.parametrize("opaque", [False, True])
def test_without_differentiation_the_function_just_runs(opaque):
    called = []

    @ct.adjoint(opaque=opaque)
    def rule(x, n):
        called.append(type(x))
        return x * n, lambda dy: pytest.fail("the pullback was called")

    x = np.array([1.0, 2.0])
    y = rule(x, 3)
    assert type(y) is np.ndarray
    assert y.tolist() == [3.0, 6.0]
    assert type(rule(2.0, 3)) is float
    assert ct.gradient(lambda x: x * rule(2.0, 3), 5.0) == (6.0,)
    assert called == [np.ndarray, float, float]


@pytest.mark.parametrize("opaque", [False, True])
def test_each_half_is_called_once(opaque):
    called = []

    @ct.adjoint(opaque=opaque)
    def rule(x):
        called.append("forward")

        def back(dy):
            called.append("back")
            return dy[0] * 2 + dy[1]

        return (x * 2, x), back

    def f(x):
        a, b = rule(x)
        return np.sum(a * b)

    x = np.array([1.0, 3.0])
    assert ct.gradient(f, x)[0].tolist() == [4.0, 12.0]
    assert called == ["forward", "back"]
    _, back = ct.pullback(lambda x, y: rule(x * y), x, x)
    called.clear()
    dx, dy = back((x, x))
    assert np.asarray(dx).tolist() == np.asarray(dy).tolist() == [3.0, 27.0]
    assert called == (["back"] if opaque else [])


def test_results_keep_their_rank():
    types = []

    def f(x):
        y = cube(x)
        types.append((isinstance(y, float), y.shape, y.dtype))
        return np.sum(y)

    for x in [2.0, np.float32(2.0), np.array([2.0])]:
        ct.gradient(f, x)
    assert types == [(True, (), np.float64), (False, (), np.float32), (False, (1,), np.float64)]
    assert type(ct.pullback(cube, 2.0)[0]) is float
    assert type(ct.pullback(cube, np.float32(2.0))[0]) is np.float32


def test_the_cotangent_has_the_structure_of_the_result():
    seen = []

    @ct.adjoint
    def rule(x):
        def back(d):
            seen.append(d)
            return (d["a"][0] * 2 + d["p"].x + d["q"].second,)

        return {"a": [x * 2, 5], "p": Point(x, x > 0), "q": Pair("s", x)}, back

    def f(x):
        y = rule(x)
        return y["a"][0] + 10 * y["p"].x + 100 * y["q"].second

    assert ct.gradient(f, 3.0) == (2 * 1 + 10 + 100,)
    (d,) = seen
    assert d["a"][1] is None
    assert d["q"].first is None
    assert type(d["q"]) is Pair
    assert isinstance(d["p"], ct.Tangent)
    assert d["p"].y is None
    assert d["p"].name is None


def test_a_pullback_sees_all_cotangents_at_once():
    @ct.adjoint
    def joint(x, y):
        def back(d):
            size = np.maximum(np.sqrt(d[0] ** 2 + d[1] ** 2), 1.0)
            return d[0] / size, d[1] / size

        return (x, y), back

    def both(x, y):
        a, b = joint(x, y)
        return 3 * a + 4 * b

    assert ct.gradient(both, 1.0, 1.0) == (0.6, 0.8)
    assert ct.gradient(lambda x, y: 4 * joint(x, y)[1], 1.0, 1.0) == (0.0, 1.0)

    def apart(x, y):
        return 3 * joint(x, y)[0] + 4 * joint(x, y)[1]

    assert ct.gradient(apart, 1.0, 1.0) == (1.0, 1.0)
    assert ct.gradient(both, 1.0, 1.0) == (0.6, 0.8)


def test_cotangents_of_structures_in_every_form():
    forms = [
        lambda p, d: {"x": d * np.sum(p.y), "y": d * p.x * np.ones(2)},
        lambda p, d: ct.Tangent(Point, {"x": d * np.sum(p.y), "y": d * p.x * np.ones(2)}),
        lambda p, d: Point(d * np.sum(p.y), d * p.x * np.ones(2), None),
    ]
    for form in forms:
        rule = ct.adjoint(lambda p, form=form: (p.x * np.sum(p.y), lambda d: (form(p, d),)))
        (g,) = ct.gradient(rule, Point(2.0, np.array([1.0, 3.0])))
        assert g.x == 4.0
        assert g.y.tolist() == [2.0, 2.0]
    rule = ct.adjoint(lambda t: (t[0] * t[1]["k"], lambda d: ([d * t[1]["k"], {"k": d * t[0]}],)))
    assert ct.gradient(rule, (2.0, {"k": 3.0})) == ((3.0, {"k": 2.0}),)


def test_natural_cotangents_last_for_one_gradient_call():
    y = np.array([1.0, 3.0])
    natural = ct.adjoint(lambda p: (p.x, lambda d: Point(d, None)))
    for _ in range(2):
        (g,) = ct.gradient(natural, Point(2.0, y, "kept"))
        assert type(g) is Point
        assert g.name == "kept"
        assert g.y.tolist() == [0.0, 0.0]
        assert isinstance(ct.gradient(lambda p: p.x, Point(2.0, y))[0], ct.Tangent)
    ((g,),) = ct.gradient(lambda ps: natural(ps[0]), [Point(2.0, y)])
    assert type(g) is Point
    (g,) = ct.pullback(natural, Point(2.0, y))[1](1.0)
    assert type(g) is Point
    with pytest.raises(ZeroDivisionError):
        ct.gradient(lambda p: natural(p) / 0 and 1 // 0, Point(2.0, y))
    assert isinstance(ct.gradient(lambda p: p.x, Point(2.0, y))[0], ct.Tangent)


def test_wanted_says_what_is_differentiated():
    seen = []

    @ct.adjoint
    def rule(x, y, *, k=1):
        def back(d, wanted):
            seen.append(wanted)
            return d * y, d * x

        return x * y, back

    assert ct.gradient(lambda x: rule(x, 3.0, k=2), 2.0) == (3.0,)
    assert ct.gradient(rule, 2.0, 3.0) == (3.0, 2.0)
    assert seen == [(True, False), (True, True)]


def test_cotangents_are_projected():
    def slope(x, ct_of):
        rule = ct.adjoint(lambda x: (np.sum(x), lambda d: (ct_of(d),)))
        (g,) = ct.gradient(lambda x: np.real(rule(x)), x)
        assert g.dtype == x.dtype
        assert g.shape == x.shape
        return g.tolist()

    x = np.array([1.0, 2.0], np.float32)
    assert slope(x, lambda d: np.array([1.0, 2.0])) == [1.0, 2.0]
    assert slope(x, lambda d: np.array([1 + 5j, 2.0])) == [1.0, 2.0]
    assert slope(x, lambda d: np.array([1, 2])) == [1.0, 2.0]
    assert slope(np.array([1.0, 2.0]), lambda d: np.ones(2, np.float32)) == [1.0, 1.0]


def named(returns, *, opaque=False):
    @ct.adjoint(opaque=opaque)
    def mine(a, b):
        return np.sum(a) * b, lambda d: returns

    return mine


X = np.array([1.0, 2.0])


@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize(
    ("returns", "error", "parts"),
    [
        ((1.0,), ValueError, ["mine", "1 cotangents", "2 positional", "a, b"]),
        (1.0, TypeError, ["mine", "tuple", "a, b", "float"]),
        ((np.ones(3), None), ValueError, ["mine", "of a has shape (3,)", "(2,)"]),
        (("text", None), TypeError, ["mine", "of a ", "array or a number", "str"]),
    ],
)
def test_errors_name_the_rule_and_the_argument(opaque, returns, error, parts):
    with pytest.raises(error) as caught:
        ct.gradient(named(returns, opaque=opaque), X, 2.0)
    for part in parts:
        assert part in str(caught.value)


def test_an_argument_without_influence():
    (gx, gy) = ct.gradient(named((None, 3.0)), X, 2.0)
    assert gx is None
    assert gy == 3.0
    # What an opaque pullback gives is known only when it has been called.
    (gx, gy) = ct.gradient(named((None, 3.0), opaque=True), X, 2.0)
    assert gx.tolist() == [0.0, 0.0]
    assert gy == 3.0


def test_more_errors():
    with pytest.raises(TypeError, match="pair, the result and its pullback, not .*Array"):
        ct.gradient(ct.adjoint(lambda x: x), 1.0)
    with pytest.raises(TypeError, match="pair.*a tuple of 3"):
        ct.adjoint(lambda x: (x, x, x))(1.0)
    with pytest.raises(TypeError, match="must be callable, not"):
        ct.gradient(ct.adjoint(lambda x: (x, x)), 1.0)
    with pytest.raises(TypeError, match="must be callable"):
        ct.adjoint(3)
    p = Point(1.0, X)
    unknown = ct.adjoint(lambda p: (p.x, lambda d: {"z": d}))
    with pytest.raises(ValueError, match=r"of p has an entry 'z', but p has only: x, y, name"):
        ct.gradient(unknown, p)
    wrong = ct.adjoint(lambda p: (p.x, lambda d: d))
    with pytest.raises(TypeError, match=r"of p must be a ct.Tangent, a dict of fields or a Point"):
        ct.gradient(wrong, p)
    deep = ct.adjoint(lambda p: (p.x, lambda d: {"y": np.ones(3)}))
    with pytest.raises(ValueError, match=r"p\.y has shape \(3,\)"):
        ct.gradient(deep, p)
    entries = ct.adjoint(lambda t: (t[0], lambda d: ((d, d, d),)))
    with pytest.raises(ValueError, match="3 entries, but t has 2"):
        ct.gradient(entries, (1.0, 2.0))


@pytest.mark.parametrize("read", [print, bool, np.linalg.inv, lambda d: d > 0 and 1])
def test_reading_the_cotangent_while_tracing(read):
    def mine(x):
        return x * 2, lambda d: (read(d) and d,)

    with pytest.raises((ValueError, TypeError)) as caught:
        ct.gradient(lambda x: np.sum(ct.adjoint(mine)(x)), np.eye(1))
    if isinstance(caught.value, ValueError):
        assert "adjoint mine" in str(caught.value)
        assert "opaque=True" in str(caught.value)
        assert "hook" in str(caught.value)


def test_what_is_captured_has_to_be_constant():
    def outer(x, y):
        return ct.adjoint(lambda a: (a * y, lambda d: d * y))(x)

    with pytest.raises(TypeError, match="not among its arguments.*dropgrad"):
        ct.gradient(outer, 2.0, 3.0)
    assert ct.gradient(outer, 2.0, ct.const(3.0)) == (3.0, None)
    opaque = ct.adjoint(lambda a, f: (f(a), lambda d: (d, None)), opaque=True)
    with pytest.raises(TypeError, match="not among its arguments"):
        ct.gradient(lambda x, y: opaque(x, lambda a: a * y), 2.0, 3.0)


def test_what_is_captured_without_an_argument():
    constant = ct.adjoint(lambda a, f: (f(a), lambda d: (d, None)))
    with pytest.raises(TypeError, match="not among its arguments"):
        ct.gradient(lambda y: constant(1.0, lambda a: a * y), 3.0)
    keyword = ct.adjoint(lambda a, *, k: (a * k, lambda d: d * k))
    with pytest.raises(TypeError, match="keyword argument k is being differentiated"):
        ct.gradient(lambda y: keyword(1.0, k=y), 3.0)
    with pytest.raises(TypeError, match="keyword argument k is being differentiated"):
        ct.gradient(lambda x, y: keyword(x, k=[y]), 2.0, 3.0)


def test_functions_and_whole_numbers_are_data():
    power = ct.adjoint(lambda x, n: (x**n, lambda d: (d * n * x ** (n - 1), None)))
    assert ct.gradient(lambda x: power(x, 3), 2.0) == (12.0,)
    apply = ct.adjoint(lambda f, x: (f(x), lambda d: (None, 5 * d)))
    assert ct.gradient(lambda x: apply(np.sin, x), 2.0) == (5.0,)


def test_levels_inside_are_those_of_the_caller():
    seen = []

    def rule(x):
        seen.append((ct.nestlevel(), ct.isderiving()))
        return x, lambda d: (seen.append((ct.nestlevel(), ct.isderiving())) or d,)

    ct.adjoint(rule)(1.0)
    ct.gradient(ct.adjoint(rule), 1.0)
    assert seen == [(0, False), (1, True), (1, True)]


class TestOpaque:
    def test_values_are_plain(self):
        seen = []

        @ct.adjoint(opaque=True)
        def rule(x, s, c):
            seen.append((type(x), type(s), type(c)))

            def back(d):
                seen.append((type(d[0]), type(d[1])))
                return d[0] * s, float(np.sum(d[0] * x)) + d[1], None

            return (x * s, s + 1.0), back

        def f(x, s):
            y, z = rule(x, s, np.ones(1))
            return np.sum(y) * z

        gx, gs = ct.gradient(f, X, 2.0)
        assert seen == [(np.ndarray, float, np.ndarray), (np.ndarray, float)]
        assert gx.tolist() == [6.0, 6.0]
        assert gs == 3 * 3 + 6

    def test_no_second_derivative(self):
        rule = ct.adjoint(lambda x: (x * x, lambda d: 2 * d * x), opaque=True)
        for f in [rule, lambda x: rule(x) * x, lambda x: rule(x * 2)]:
            with pytest.raises(TypeError, match="opaque rule has a first derivative only"):
                ct.grad(ct.grad(f))(2.0)

    def test_a_program_calls_it_again_for_other_values(self):
        calls = []

        @ct.adjoint(opaque=True)
        def double(x):
            calls.append(x.tolist())
            return x * 2, lambda d: d * 2

        program = ct.trace(lambda x: np.sum(double(x)), X)
        assert program(X) == 6.0
        assert program(3 * X) == 18.0
        assert calls == [[1.0, 2.0], [3.0, 6.0]]

    def test_what_it_is_given_is_its_own(self):
        @ct.adjoint(opaque=True)
        def vandal(x):
            y = x.copy()
            x[:] = 99.0

            def back(d):
                g = d * y
                d[:] = 99.0
                return g

            return y, back

        x = X.copy()
        g = ct.gradient(lambda x: np.sum(vandal(x) * x), x)[0]
        np.testing.assert_array_equal(g, X * X + X)
        np.testing.assert_array_equal(x, X)

    def test_errors_arrive_with_their_traceback(self):
        def back(d):
            raise LookupError("in the pullback")

        rule = ct.adjoint(lambda x: (x, back), opaque=True)
        with pytest.raises(LookupError, match="in the pullback") as caught:
            ct.gradient(rule, 2.0)
        assert caught.traceback[-1].name == "back"


class TestForward:
    def product(self):
        f = ct.custom_jvp(lambda x, y: x * y)
        f.defjvp(lambda p, t: (f(*p), p[1] * t[0] + p[0] * t[1]))
        return f

    def test_gradients(self):
        f = self.product()
        assert f(2.0, 3.0) == 6.0
        assert ct.gradient(f, 2.0, 3.0) == (3.0, 2.0)
        assert ct.gradient(lambda x: f(x, 3.0), 2.0) == (3.0,)
        assert ct.grad(ct.grad(lambda x: f(x, x)))(2.0) == 2.0

    def test_structures(self):
        f = ct.custom_jvp(lambda p: {"s": p.x * p.y, "n": 3})
        f.defjvp(lambda p, t: (f(*p), {"s": t[0].x * p[0].y + p[0].x * t[0].y}))
        (g,) = ct.gradient(lambda p: np.sum(f(p)["s"]), Point(2.0, X))
        assert g.x == 3.0
        assert g.y.tolist() == [2.0, 2.0]

    def test_it_is_a_method_too(self):
        class Model:
            @ct.custom_jvp
            def area(self, x):
                return x * x

            @area.defjvp
            def rule(primals, tangents):
                return primals[1] ** 2, 5 * tangents[1]

        assert ct.gradient(Model().area, 2.0) == (5.0,)

    def test_errors(self):
        with pytest.raises(
            TypeError, match=r"no rule has been defined; define one with @sin.defjvp"
        ):
            ct.custom_jvp(np.sin)(1.0)
        f = ct.custom_jvp(lambda x: x)
        f.defjvp(lambda p, t: (p[0] * t[0], t[0]))
        with pytest.raises(ValueError, match="depends on the tangents"):
            ct.gradient(f, 2.0)
        f.defjvp(lambda p, t: p[0])
        with pytest.raises(TypeError, match="pair, the result and its tangent"):
            ct.gradient(f, 2.0)


numbers = st.floats(-2, 2)
arrays = st.lists(numbers, min_size=1, max_size=3).map(np.array)
trees = st.recursive(
    numbers | arrays,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.text("abc", min_size=1), inner, min_size=1, max_size=3),
        st.builds(Point, numbers, arrays),
        st.builds(Pair, inner, st.integers()),
    ),
    max_leaves=6,
)


def total(tree):
    """Give a number that depends on every leaf in its own way."""
    leaves = ct._core.structure(tree).leaves
    terms = [np.sum(np.sin((i + 1.0) * leaf) * leaf) for i, leaf in enumerate(leaves)]
    return functools.reduce(lambda a, b: a + b, terms)


def same(a, b):
    if isinstance(a, (list, tuple)):
        assert type(a) is type(b)
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key, x in a.items():
            same(x, b[key])
    elif isinstance(a, ct.Tangent):
        same(a._fields, b._fields)
    elif a is None or b is None:
        assert a is b
    else:
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@given(trees, st.booleans())
def test_a_rule_gives_what_the_plain_function_gives(tree, passes_through):
    def rule(tree):
        if passes_through:
            return tree, lambda d: (d,)
        return total(tree), lambda d: ct.pullback(total, tree)[1](d)

    mine = ct.adjoint(rule)
    plain = ct.gradient(total, tree)
    same(ct.gradient(lambda t: total(mine(t)) if passes_through else mine(t), tree), plain)


def test_threads():
    failures = []

    def work(k):
        rule = ct.adjoint(lambda x: (x * k, lambda d: d * k), opaque=bool(k % 2))
        found = [ct.gradient(lambda x: np.sum(rule(x)), np.ones(3))[0].tolist() for _ in range(20)]
        failures.extend(g for g in found if g != [k] * 3)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@ct.custom_jvp
def steep(x):
    return np.sin(x)


@steep.defjvp
def _(primals, tangents):
    return steep(*primals), 7.0 * tangents[0]


def test_rules_are_pickled_by_name_and_copied_as_functions_are():
    assert pickle.loads(pickle.dumps(steep)) is steep
    model = copy.deepcopy({"activation": steep, "w": 2.0})
    assert model["activation"] is copy.copy(steep) is steep
    assert ct.gradient(lambda m: m["activation"](m["w"]), model)[0]["w"] == 7.0
    with pytest.raises(pickle.PicklingError, match="pickled by its qualified name"):
        pickle.dumps(ct.custom_jvp(lambda x: x))
