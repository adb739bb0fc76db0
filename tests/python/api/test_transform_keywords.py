"""Each transform with each of its keywords, over features of functions, in each surrounding.

Every call is made of a function of plain arithmetic first; those with rules, hooks and checkpoints
in it, and those that are prepared, mapped, watched or differentiated again, have to agree with it.
Derivatives of derivatives are compared with differences.
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import cotan as ct

X, Y = np.array([0.3, -0.7, 1.1]), np.array([1.5, 0.4, -0.8])
WEIGHTS, COUNTS = np.array([0.5, -1.0, 2.0]), np.array([1, 2, 3])


@dataclass
class Pair:
    x: Any
    y: Any


# --------------------------------------------------------------------------------------------------
# Functions


def plain(x, y):
    return x**3 * y + x * y**2


def slopes(x, y):
    return 3 * x**2 * y + y**2, x**3 + 2 * x * y


@ct.adjoint
def by_rule(x, y):
    return plain(x, y), lambda d: tuple(d * slope for slope in slopes(x, y))


@ct.adjoint(opaque=True)
def by_opaque_rule(x, y):
    return plain(x, y), lambda d: tuple(d * slope for slope in slopes(x, y))


@ct.custom_jvp
def by_tangents(x, y):
    return plain(x, y)


@by_tangents.defjvp
def _(primals, tangents):
    pairs = zip(slopes(*primals), tangents, strict=True)
    return by_tangents(*primals), sum(slope * tangent for slope, tangent in pairs)


FEATURES = {
    "plain": plain,
    "hook": lambda x, y: plain(ct.hook(lambda d: 1.0 * d, x), y),
    "checkpoint": lambda x, y: ct.checkpoint(plain, x, y),
    "rule": by_rule,
    "custom_jvp": by_tangents,
    "opaque rule": by_opaque_rule,
    "vmap": lambda x, y: ct.vmap(plain)(x, y),
    "nested gradient": lambda x, y: ct.grad(lambda z: np.sum(z**4 * y / 4 + z**2 * y**2 / 2))(x),
}


def arrays(feature):
    return lambda x, y, *, scale=1.0: scale * np.sum(feature(x, y) * WEIGHTS)


def of_dictionary(feature):
    return lambda p, *, scale=1.0: scale * np.sum(feature(p["x"], p["y"][0]) * WEIGHTS)


def of_object(feature):
    return lambda p, *, scale=1.0: scale * np.sum(feature(p.x, p.y) * WEIGHTS)


def with_integers(feature):
    return lambda x, k, *, scale=1.0: scale * np.sum(feature(x, Y) * WEIGHTS * k)


#: For each kind of arguments the function, the arguments, and keywords with the tangents of what
#: they ask for.
KINDS = {
    "arrays": (
        arrays,
        (X, Y),
        [
            ({}, (WEIGHTS, X)),
            ({"wrt": "y"}, (None, X)),
            ({"wrt": 0}, (X, None)),
            ({"argnums": 1}, (None, WEIGHTS)),
            ({"argnums": (1, 0)}, (X, WEIGHTS)),
            ({"wrt": [True, False]}, (X, None)),
            ({"scale": 2.0}, (WEIGHTS, X)),
        ],
    ),
    "dictionary": (
        of_dictionary,
        ({"x": X, "y": [Y]},),
        [
            ({}, ({"x": X, "y": [WEIGHTS]},)),
            ({"wrt": "p"}, ({"x": X, "y": [WEIGHTS]},)),
            ({"wrt": "p['y']"}, ({"x": None, "y": [WEIGHTS]},)),
            ({"wrt": {"p": {"x": True, "y": [False]}}}, ({"x": WEIGHTS, "y": [None]},)),
            ({"argnums": 0, "scale": 2.0}, ({"x": X, "y": [WEIGHTS]},)),
        ],
    ),
    "object": (
        of_object,
        (Pair(X, Y),),
        [({}, (Pair(X, WEIGHTS),)), ({"wrt": "p.x"}, (Pair(WEIGHTS, None),))],
    ),
    "integers": (
        with_integers,
        (X, COUNTS),
        [
            ({"allow_int": True}, (X, None)),
            ({"argnums": (0, 1), "allow_int": True}, (X, None)),
            ({"wrt": "x"}, (X, None)),
        ],
    ),
}


# --------------------------------------------------------------------------------------------------
# Transforms


def direct(transform):
    return lambda f, args, keywords, _: transform(f, *args, **keywords)


def made(transform):
    def call(f, args, keywords, _):
        own = {name: value for name, value in keywords.items() if name == "scale"}
        return transform(f, **{k: v for k, v in keywords.items() if k not in own})(*args, **own)

    return call


def pulled(f, args, keywords, _):
    value, back, *aux = ct.pullback(f, *args, **keywords)
    return value, back(1.0), *aux


def pushed(f, args, keywords, tangents):
    value, linear, *aux = ct.linearize(f, *args, **keywords)
    return value, linear(*tangents), *aux


def product(transform):
    def call(f, args, keywords, tangents):
        if len(args) == 1:
            return transform(f, args[0], tangents[0], **keywords)
        return transform(f, args, tangents, **keywords)

    return call


TRANSFORMS = {
    "gradient": direct(ct.gradient),
    "value_and_gradient": direct(ct.value_and_gradient),
    "pullback": pulled,
    "grad": made(ct.grad),
    "value_and_grad": made(ct.value_and_grad),
    "jacfwd": made(ct.jacfwd),
    "jacrev": made(ct.jacrev),
    "jacobian": direct(ct.jacobian),
    "hessian": direct(ct.hessian),
    "jvp": lambda f, args, keywords, tangents: ct.jvp(f, args, tangents, **keywords),
    "linearize": pushed,
    "hvp": product(ct.hvp),
    "vhp": product(ct.vhp),
    "ggnvp": product(ct.ggnvp),
}

#: Keywords that a transform does not have, besides those of the function.
LACKS = {
    **{name: {"allow_int"} for name in ("jvp", "linearize")},
    **{name: {"wrt", "argnums", "has_aux", "allow_int"} for name in ("hvp", "vhp", "ggnvp")},
}

# An opaque rule has a first derivative, in reverse mode.
REVERSE = {
    *("gradient", "value_and_gradient", "pullback", "grad", "value_and_grad"),
    *("jacrev", "jacobian"),
}


def with_aux(f):
    @functools.wraps(f)
    def function(*args, **kwargs):
        return f(*args, **kwargs), {"first": args[0], "name": "text"}

    return function


class Call:
    """A transform with keywords, as a function of the arguments."""

    def __init__(self, transform, make, keywords, tangents, feature):
        self.transform, self.tangents = TRANSFORMS[transform], tangents
        self.keywords, self.function = keywords, make(feature)
        if keywords.get("has_aux"):
            self.function = with_aux(self.function)

    def __call__(self, *args):
        return self.transform(self.function, args, self.keywords, self.tangents)


def numbers(result):
    leaves = ct.tree_leaves(result)
    return [np.asarray(x, float) for x in leaves if x is not None and not isinstance(x, str)]


def total(call):
    return lambda *args: sum(np.sum(0.7 * x) for x in ct.tree_leaves(call(*args)))


def is_same(found, expected):
    assert ct.tree_structure(found) == ct.tree_structure(expected)
    assert len(numbers(found)) == len(numbers(expected))
    for a, b in zip(numbers(found), numbers(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def calls(transform, kind, both=True):
    make, args, cases = KINDS[kind]
    for keywords, tangents in cases:
        for given in (keywords, keywords | {"has_aux": True})[: 1 + both]:
            if not LACKS.get(transform, set()) & set(given):
                yield make, args, given, tangents


# --------------------------------------------------------------------------------------------------
# Tests

PAIRS = pytest.mark.parametrize(
    ("transform", "kind"), [(t, k) for t in TRANSFORMS for k in KINDS], ids=lambda name: name
)


@PAIRS
@pytest.mark.parametrize("feature", FEATURES)
def test_surroundings(transform, kind, feature):
    is_opaque = feature == "opaque rule"
    for make, args, keywords, tangents in calls(transform, kind, both=feature == "plain"):
        expected = Call(transform, make, keywords, tangents, plain)(*args)
        call = Call(transform, make, keywords, tangents, FEATURES[feature])
        if is_opaque and transform not in REVERSE:
            with pytest.raises(ct.NotDifferentiableError, match="adjoint by_opaque_rule"):
                call(*args)
            continue
        is_same(call(*args), expected)
        prepared = ct.prepare(call, transform="value")
        for _ in range(2):
            is_same(prepared(*args), expected)
        assert prepared.num_recordings == 1
        with ct.detect():
            is_same(call(*args), expected)
        batch = ct.tree_map(lambda x: np.stack([x, x]), args)
        mapped = ct.vmap(lambda *args, call=call: call(*args))(*batch)
        for found, value in zip(numbers(mapped), numbers(expected), strict=True):
            np.testing.assert_allclose(found, np.stack([value] * 2), rtol=1e-10, atol=1e-12)


@PAIRS
@pytest.mark.parametrize("feature", ["plain", "hook", "checkpoint", "rule", "custom_jvp"])
def test_derivatives_of_derivatives(transform, kind, feature):
    for make, args, keywords, tangents in list(calls(transform, kind, both=False))[:3]:
        f = total(Call(transform, make, keywords, tangents, FEATURES[feature]))
        (first, *rest), h = args, 1e-5
        structure = ct.tree_structure(first)
        steps = [np.cos(np.arange(3.0) + i) for i in range(len(ct.tree_leaves(first)))]

        def moved(t, structure=structure, first=first, steps=steps):
            pairs = zip(ct.tree_leaves(first), steps, strict=True)
            return ct.tree_unflatten(structure, [x + t * step for x, step in pairs])

        slope = (f(moved(h), *rest) - f(moved(-h), *rest)) / (2 * h)
        along = lambda t, f=f, moved=moved, rest=rest: f(moved(t), *rest)
        for found in (ct.grad(along)(0.0), ct.jacfwd(along)(0.0), ct.prepare(along)(0.0)[0]):
            assert found == pytest.approx(slope, rel=1e-6, abs=1e-7)


# --------------------------------------------------------------------------------------------------
# Keywords of `prepare`, and keywords that a transform does not have


@pytest.mark.parametrize("transform", ["gradient", "value_and_gradient", "pullback"])
@pytest.mark.parametrize("kind", KINDS)
def test_keywords_of_prepare(transform, kind):
    make, args, cases = KINDS[kind]
    for given, _ in cases:
        keywords = {k: v for k, v in given.items() if k != "scale"}
        f = make(plain)
        expected = getattr(ct, transform)(f, *args, **keywords)
        for prepared in (
            ct.prepare(f, transform=transform, **keywords),
            ct.prepared(transform=transform, **keywords)(f),
        ):
            for _ in range(2):
                found = prepared(*args)
                if transform == "pullback":
                    is_same(found[1](1.0), expected[1](1.0))
                else:
                    is_same(found, expected)
            assert prepared.num_recordings == 1


def test_what_prepare_does_not_take():
    f = with_aux(arrays(plain))
    with pytest.raises(
        TypeError, match=r"prepare\(ct.grad\(f, has_aux=True\), transform='value'\)"
    ):
        ct.prepare(f, has_aux=True)
    with pytest.raises(TypeError, match=r"ct.value_and_grad\(f, has_aux=True\)"):
        ct.prepared(transform="value_and_gradient", has_aux=True)(f)
    with pytest.raises(TypeError, match="transform='pullback' has no has_aux; return what else"):
        ct.prepare(f, transform="pullback", has_aux=True)
    with pytest.raises(TypeError, match="there is no keyword 'holomorphic'"):
        ct.prepare(f, holomorphic=True)
    with pytest.raises(TypeError, match="argnums is a position .* names, paths and masks go to"):
        ct.prepare(f, argnums="x")
    for name, instead in (
        (
            "jacobian",
            r"write prepare\(lambda \*args: ct.jacobian\(f, \*args\), transform='value'\)",
        ),
        ("grad", r"write prepare\(ct.grad\(f\), transform='value'\)"),
        ("vjp", "write transform='pullback'"),
    ):
        with pytest.raises(ValueError, match=instead):
            ct.prepare(f, transform=name)
    # What the messages say works.
    gradient, aux = ct.prepare(ct.grad(f, has_aux=True), transform="value")(X, Y)
    np.testing.assert_allclose(gradient, slopes(X, Y)[0] * WEIGHTS)
    assert aux["name"] == "text"


@pytest.mark.parametrize("transform", LACKS)
def test_keywords_that_a_transform_does_not_have_are_named(transform):
    given = {"wrt": 0, "argnums": 0, "has_aux": True, "allow_int": True}
    for name in LACKS[transform]:
        call = Call(transform, arrays, {name: given[name]}, (X, X), plain)
        call.function = arrays(plain)
        with pytest.raises(TypeError, match=f"if {name} is meant for what differentiates"):
            call(X, Y)


def test_keyword_arguments_of_reports_and_patterns():
    def f(x, *, scale):
        return np.diff(scale * x) ** 2

    pattern = ct.jacobian_sparsity(f, X, scale=2.0)
    assert pattern.to_scipy().toarray().tolist() == [[True, True, False], [False, True, True]]
    assert ct.hessian_sparsity(lambda x, *, scale: np.sum(f(x, scale=scale)), X, scale=2.0).nnz == 7
    assert ct.explain(lambda x, y, *, c: c * np.sum(x * y), X, Y, argnums=0, c=2.0).held
