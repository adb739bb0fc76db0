"""What rules give: cotangents and tangents that fit, and those that are refused."""

import copy
import functools
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest

import cotan as ct

X = np.array([1.0, 2.0])


@dataclass
class Point:
    x: float
    y: np.ndarray
    name: str = "p"


# --------------------------------------------------------------------------------------------------
# Cotangents


@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize(
    ("of", "given", "hint"),
    [
        (X, np.ones((3, 2)), "where an argument is repeated, its cotangent is the sum"),
        (X, 2.0, "repeat it with broadcast_to"),
        (X, np.ones(1), "repeat it with broadcast_to"),
        (X[:, None], np.ones((2, 4)), "the sum along those axes"),
        (X, np.ones((1, 2)), "the sum along those axes"),
        (X, np.ones(3), ""),
        (2.0, np.ones(1), "the sum along those axes"),
        (X[:1], 2.0, "repeat it"),
    ],
)
def test_a_cotangent_of_another_shape_is_refused(opaque, of, given, hint):
    @ct.adjoint(opaque=opaque)
    def mine(a):
        return np.sum(a), lambda d: (given,)

    with pytest.raises(ValueError, match="adjoint mine") as caught:
        ct.gradient(mine, of)
    shapes = f"the cotangent of a has shape {np.shape(given)}, but a has {np.shape(of)}"
    assert shapes in str(caught.value)
    assert hint in str(caught.value)


@pytest.mark.parametrize("opaque", [False, True])
def test_the_number_zero_is_zero_of_any_shape(opaque):
    for zero in (0, 0.0):
        rule = ct.adjoint(lambda a, z=zero: (np.sum(a), lambda d: (z,)), opaque=opaque)
        assert ct.gradient(rule, X)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("opaque", [False, True])
def test_of_a_complex_cotangent_of_a_real_argument_the_real_part_counts(opaque):
    rule = ct.adjoint(lambda a: (np.sum(a), lambda d: (d * np.array([1 + 5j, 2j]),)), opaque=opaque)
    (g,) = ct.gradient(rule, X)
    assert g.dtype == np.float64
    assert g.tolist() == [1.0, 0.0]


def test_what_has_no_cotangent():
    rule = ct.adjoint(lambda a, n: (np.sum(a), lambda d: (d * np.ones(2), np.ones(2))))
    (g, none) = ct.gradient(rule, X, ct.const(np.array([1, 2])))
    assert g.tolist() == [1.0, 1.0]
    assert none is None


def test_a_field_that_is_called_like_a_method():
    @dataclass
    class Patch:
        replace: np.ndarray
        w: float

    @ct.adjoint
    def rule(p):
        def back(d):
            return ct.Tangent(Patch, {"replace": d * p.w * np.ones(2), "w": d * np.sum(p.replace)})

        return p.w * np.sum(p.replace), back

    (g,) = ct.gradient(rule, Patch(X, 2.0))
    assert g["replace"].tolist() == [2.0, 2.0]
    assert g.w == 3.0
    assert g.replace(replace=None)["replace"] is None
    if sys.version_info >= (3, 13):
        assert copy.replace(g, w=1.0).w == 1.0


def test_an_opaque_rule_that_gives_another_shape_later():
    rule = ct.adjoint(lambda x: (x[x > 0], lambda d: d), opaque=True)
    program = ct.trace(lambda x: np.sum(rule(x)), X)
    assert program(X + 1) == 5.0
    with pytest.raises(ValueError, match=r"adjoint <lambda>: called again.*f64\[1\], but f64\[2\]"):
        program(np.array([-1.0, 2.0]))


# --------------------------------------------------------------------------------------------------
# Which pullbacks are told what is wanted


class Told:
    def __init__(self):
        self.seen = []

    def __call__(self, d, wanted):
        self.seen.append(wanted)
        return d, d

    def method(self, d, *, wanted):
        return self(d, wanted)


def test_whoever_takes_wanted_is_told():
    told = Told()
    backs = [
        told,
        told.method,
        functools.partial(told),
        functools.partial(lambda first, d, wanted: told(d, wanted), None),
        lambda d, **more: told(d, **more),
        functools.wraps(told.__call__)(lambda *args, **more: told(*args, **more)),
    ]
    for back in backs:
        ct.gradient(lambda x, back=back: ct.adjoint(lambda a, b: (a * b, back))(x, 1.0), 2.0)
    assert told.seen == [(True, False)] * len(backs)


def test_whoever_does_not_take_wanted_is_not():
    def plain(d):
        return -d

    class Plain:
        def __call__(self, d):
            return -d

    @functools.wraps(plain)
    def wrapped(*args, **kwargs):
        return plain(*args, **kwargs)

    for back in (plain, Plain(), wrapped, functools.partial(plain), np.negative, ct.neg):
        assert ct.gradient(ct.adjoint(lambda x, back=back: (x, back)), 2.0) == (-1.0,)


# --------------------------------------------------------------------------------------------------
# Natural cotangents


def natural(p):
    return p.x, lambda d: Point(d, None)


def test_what_is_not_asked_for_is_none_in_a_natural_cotangent():
    rule = ct.adjoint(natural)
    p = Point(2.0, X, "kept")
    (g,) = ct.gradient(rule, p)
    assert (g.x, g.y.tolist(), g.name) == (1.0, [0.0, 0.0], "kept")
    (g,) = ct.gradient(rule, p, wrt="p.x")
    assert (g.x, g.y, g.name) == (1.0, None, "kept")
    (g,) = ct.gradient(lambda p: rule(p) * np.sum(p.y), Point(ct.const(2.0), X), wrt="p.y")
    assert (g.x, g.y.tolist()) == (None, [2.0, 2.0])
    (g,) = ct.gradient(lambda p: rule(p) * np.sum(p.y), Point(2.0, ct.const(X)))
    assert (g.x, g.y) == (3.0, None)
    _, back = ct.pullback(lambda p: rule(p) * np.sum(p.y), p)
    (g,) = back.wrt("p.y")(1.0)
    assert g.x is None
    assert np.asarray(g.y).tolist() == [2.0, 2.0]


def test_a_structure_without_cotangents_is_none_in_a_natural_one():
    @dataclass
    class Outer:
        scale: float
        inner: Point = field(default_factory=lambda: Point(5.0, X))

    rule = ct.adjoint(lambda o: (o.scale, lambda d: Outer(d, None)))
    (g,) = ct.gradient(rule, Outer(2.0))
    assert type(g) is Outer
    assert g.scale == 1.0
    assert g.inner is None


# --------------------------------------------------------------------------------------------------
# Forward rules


def forward(value, tangent):
    f = ct.custom_jvp(value)
    f.defjvp(lambda p, t: (value(*p), tangent(p, t)))
    return f


NOT_LINEAR = {
    "square": lambda p, t: t[0] ** 2,
    "product": lambda p, t: t[0] * t[0],
    "affine": lambda p, t: t[0] + 1.0,
    "constant": lambda p, t: p[0],
    "offset": lambda p, t: t[0] * p[0] - np.ones(2),
    "function": lambda p, t: np.sin(t[0]),
    "absolute": lambda p, t: np.abs(t[0]),
    "larger": lambda p, t: np.maximum(t[0], 0),
    "rounded": lambda p, t: np.floor(t[0]),
    "branch": lambda p, t: np.where(t[0] > 0, t[0], 2 * t[0]),
    "divisor": lambda p, t: p[0] / t[0],
    "compared": lambda p, t: (t[0] > 0) * p[0],
    "extreme": lambda p, t: np.max(t[0]) * p[0],
    "joined": lambda p, t: np.concatenate([t[0][:1], p[0][:1]]),
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_a_tangent_that_is_not_linear_is_refused(name):
    f = forward(lambda x: x * 2, NOT_LINEAR[name])
    with pytest.raises(ValueError, match=r"custom_jvp <lambda>: .* must be linear in the tangents"):
        ct.gradient(lambda x: np.sum(f(x)), X)


A = np.array([[2.0, 1.0], [0.5, 3.0]])


def written(p, t):
    out = ct.array(np.zeros(2))
    out[0] = 3 * t[0][1]
    out[1] = t[0][0] / p[0][0]
    return out


LINEAR = {
    "identity": lambda p, t: t[0],
    "factor": lambda p, t: 2 * t[0] * np.exp(p[0]),
    "quotient": lambda p, t: t[0] / p[0],
    "difference": lambda p, t: t[0] - t[0][::-1] + 0.0,
    "product": lambda p, t: A @ t[0],
    "branch": lambda p, t: np.where(p[0] > 1.5, t[0], 0.0),
    "shapes": lambda p, t: np.concatenate([t[0][1:], t[0][:1]]).reshape(1, 2)[0],
    "sums": lambda p, t: np.cumsum(t[0]) + np.mean(t[0]),
    "einsum": lambda p, t: np.einsum("ij,j->i", A, t[0]),
    "zeros": lambda p, t: np.concatenate([t[0][:1], np.zeros(1)]),
    "dtype": lambda p, t: t[0].astype(np.float32),
    "complex": lambda p, t: np.real(t[0] * (1 + 2j)),
    "nothing": lambda p, t: 0.0,
    "none": lambda p, t: None,
    "stacked": lambda p, t: np.stack([t[0], t[0]])[1],
    "written": written,
    "checkpoint": lambda p, t: ct.checkpoint(np.negative, t[0]),
}


@pytest.mark.parametrize("name", LINEAR)
def test_the_transpose_of_a_linear_tangent(name):
    f = forward(lambda x: x * 2, LINEAR[name])
    x = np.array([1.25, 2.5])
    images = [LINEAR[name]((x,), (e,)) for e in np.eye(2)]
    columns = [np.broadcast_to(0.0 if image is None else image, 2) for image in images]
    w = np.array([1.0, -2.0])
    wanted = np.stack(columns) @ w
    (g,) = ct.gradient(lambda x: np.sum(w * f(x)), x)
    np.testing.assert_allclose(np.zeros(2) if g is None else g, wanted, rtol=1e-6)


def test_tangents_that_do_not_fit():
    f = forward(lambda x: x * 2, lambda p, t: t[0][0])
    with pytest.raises(
        ValueError, match=r"of the result has shape \(\), but the result has \(2,\)"
    ):
        ct.gradient(lambda x: np.sum(f(x)), X)
    f = forward(lambda x: np.sum(x), lambda p, t: t[0])
    with pytest.raises(
        ValueError, match=r"of the result has shape \(2,\), but the result has \(\)"
    ):
        ct.gradient(f, X)
    f = forward(lambda x: x * 2, lambda p, t: t[0] * 1j)
    with pytest.raises(TypeError, match=r"the result is float64, so its tangent is real, not comp"):
        ct.gradient(lambda x: np.sum(f(x)), X)
