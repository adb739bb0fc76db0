"""Numbers that are held constant: a second value makes a recording that serves every value."""

import math

import numpy as np
import pytest

import cotan as ct

X = np.linspace(0.5, 1.5, 4)
TIMES = [0.25, -1.0, 0.75, 3.0, 0.25]


def wave(x, t):
    return np.sum(np.sin(t * x) + t**2 * x)


def by_hand(x, t):
    return t * np.cos(t * x) + t**2


@pytest.mark.parametrize("number", [float, np.float64])
@pytest.mark.parametrize("constant", [False, True])
def test_two_recordings_serve_every_value(number, constant):
    g = ct.prepare(wave) if constant else ct.prepare(wave, wrt="x")
    for t in map(number, TIMES):
        dx = g(X, ct.const(t) if constant else t)[0]
        np.testing.assert_allclose(dx, by_hand(X, float(t)), rtol=1e-12)
    assert g.num_recordings == 2


@pytest.mark.parametrize("transform", ["value", "value_and_gradient", "pullback"])
def test_every_transform(transform):
    g = ct.prepare(wave, wrt=None if transform == "value" else "x", transform=transform)
    for t in TIMES:
        if transform == "value":
            found = g(X, ct.const(t))
        elif transform == "value_and_gradient":
            found, (dx, _) = g(X, t)
            np.testing.assert_allclose(dx, by_hand(X, t), rtol=1e-12)
        else:
            found, back = g(X, t)
            np.testing.assert_allclose(back(1.0)[0], by_hand(X, t), rtol=1e-12)
        np.testing.assert_allclose(found, wave(X, t), rtol=1e-12)
    assert g.num_recordings == 2


def test_inside_structures_and_several_at_once():
    def f(p, settings):
        return np.sum(settings["rate"] * p["w"]) * settings["scale"] ** settings["n"]

    g = ct.prepare(f)
    for rate, scale in [(0.1, 2.0), (0.2, 2.0), (0.2, 3.0), (0.3, 4.0), (0.1, 2.0), (0.5, 5.0)]:
        (found, _) = g({"w": X}, ct.const({"rate": rate, "scale": scale, "n": 2}))
        np.testing.assert_allclose(found["w"], np.full(4, rate * scale**2), rtol=1e-12)
    # The first, one in which the rate varies, one in which the scale does, too.
    assert g.num_recordings == 3


def test_a_branch_on_the_number_is_a_guard():
    g = ct.prepare(lambda x, t: np.sum(x * t) if t > 0.5 else np.sum(x**2), wrt="x")
    for t in [0.1, 0.2, 0.3, 0.9, 0.8, 0.7, 0.4, 0.6]:
        np.testing.assert_allclose(g(X, t)[0], np.full(4, t) if t > 0.5 else 2 * X)
    assert g.num_recordings == 4


@pytest.mark.parametrize(
    "f",
    [
        lambda x, t: np.sum(x * t) if type(t) is float else np.sum(x**2),
        lambda x, t: np.sum(x * t) if t.__class__ is float else np.sum(x**2),
        lambda x, t: np.sum(x * t) if t is not X else np.sum(x**2),
    ],
)
def test_code_that_may_tell_an_array_from_a_number(f):
    g = ct.prepare(f, wrt="x")
    for t in TIMES:
        np.testing.assert_allclose(g(X, t)[0], np.full(4, t))
    assert g.num_recordings == 4


def test_code_that_compares_with_none():
    def f(x, t):
        has_time = t is not None
        return np.sum(x * t) if has_time else np.sum(x**2)

    g = ct.prepare(f, wrt="x")
    for t in TIMES:
        np.testing.assert_allclose(g(X, t)[0], np.full(4, t))
    assert g.num_recordings == 2
    np.testing.assert_allclose(g(X, None)[0], 2 * X)


def test_code_that_needs_the_number():
    g = ct.prepare(lambda x, t: np.sum(x) * len(t.hex()), wrt="x")
    for t in TIMES:
        np.testing.assert_allclose(g(X, t)[0], np.full(4, len(t.hex())))
    assert g.num_recordings == 4


@pytest.mark.parametrize(
    ("f", "values", "wrong"),
    [
        (lambda x, t: np.sum(x) / (1.0 / t), [1.0, 2.0, 4.0], 0.0),
        (lambda x, t: np.sum(x) * (5.0 % t), [1.5, 2.0, 4.0], 0.0),
        (lambda x, t: np.sum(x) * (5.0 // t), [1.5, 2.0, 4.0], 0.0),
        (lambda x, t: np.sum(x) * 10.0**t, [1.5, 2.0, 4.0], 400.0),
        (lambda x, t: np.sum(x) * t**2, [1.5, 2.0, 4.0], 1e200),
        (lambda x, t: np.sum(x) * math.log(t), [1.5, 2.0, 4.0], -1.0),
    ],
)
def test_errors_of_python_numbers(f, values, wrong):
    g = ct.prepare(f, wrt="x")
    for t in values:
        np.testing.assert_allclose(g(X, t)[0], ct.gradient(f, X, t, wrt="x")[0], rtol=1e-14)
    with pytest.raises((ArithmeticError, ValueError)):
        g(X, wrong)
    for t in values:
        np.testing.assert_allclose(g(X, t)[0], ct.gradient(f, X, t, wrt="x")[0], rtol=1e-14)
    assert g.num_recordings == 2


def test_complex_roots_of_python_numbers():
    g = ct.prepare(lambda x, t: np.sum(x) * abs(t**0.5), wrt="x")
    for t in [4.0, 9.0, 16.0, -4.0, -9.0]:
        np.testing.assert_allclose(g(X, t)[0], np.full(4, abs(t) ** 0.5), rtol=1e-14)


def test_integers_stay_as_they_are():
    g = ct.prepare(lambda x, n: np.sum(x**n) * 2**n, wrt="x")
    for n in [2, 3, 2, 70, 3]:
        np.testing.assert_allclose(g(X, n)[0], n * X ** (n - 1) * 2.0**n)
    assert g.num_recordings == 3
    # A float of the same place does not make one of an integer.
    for t in [2.5, 3.5, 4.5]:
        np.testing.assert_allclose(g(X, t)[0], t * X ** (t - 1) * 2.0**t)
    np.testing.assert_allclose(g(X, 64)[0], 64 * X**63 * 2.0**64)
    assert g.num_recordings == 6


def test_special_values():
    g = ct.prepare(lambda x, t: np.sum(x * t), wrt="x")
    for t in [1.0, 2.0, np.inf, -0.0, np.nan, 5e-324]:
        found = g(X, t)[0]
        np.testing.assert_array_equal(found, np.full(4, t))
        np.testing.assert_array_equal(np.signbit(found), np.signbit(np.full(4, t)))
    assert g.num_recordings == 2


def test_errors_of_the_function_stay():
    def f(x, t):
        if t < 0:
            raise ValueError("a time before the start")
        return np.sum(x * t)

    g = ct.prepare(f, wrt="x")
    assert g(X, 1.0)[0][0] == 1.0
    with pytest.raises(ValueError, match="before the start"):
        g(X, -1.0)
    assert g(X, 2.0)[0][0] == 2.0
    with pytest.raises(ValueError, match="before the start"):
        g(X, -2.0)
    assert g(X, 3.0)[0][0] == 3.0
