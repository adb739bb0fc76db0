"""`cond`, `while_loop`, `fori_loop`, `scan`: values, derivatives, and what may not change."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import cotan as ct

XS = np.array([0.5, -1.0, 2.0, 0.25, 1.5])


def step(carry, x):
    new = {"sum": carry["sum"] + np.sin(x) * carry["product"], "product": carry["product"] * x}
    return new, (carry["sum"], x * x)


INIT = {"sum": 0.0, "product": 1.0}


def by_hand(xs, reverse=False):
    carry, ys = dict(INIT), []
    for x in xs[::-1] if reverse else xs:
        carry, y = step(carry, x)
        ys.append(y)
    ys = ys[::-1] if reverse else ys
    return carry, tuple(np.array(column) for column in zip(*ys, strict=True))


def total(result):
    carry, (first, second) = result
    return carry["sum"] * carry["product"] + np.sum(first * second)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("checkpoint", [None, False, True, 1, 2, 7, "1MB"])
def test_scan_is_a_loop(reverse, checkpoint):
    scan = lambda xs: ct.scan(step, INIT, xs, reverse=reverse, checkpoint=checkpoint)
    (carry, ys), (wanted, wanted_ys) = scan(XS), by_hand(XS, reverse)
    assert carry == wanted
    np.testing.assert_array_equal(ys, wanted_ys)
    value, (gradient,) = ct.value_and_gradient(lambda xs: total(scan(xs)), XS)
    reference = lambda xs: total(by_hand(xs, reverse))
    assert value == pytest.approx(reference(XS))
    steps = 1e-6 * np.eye(len(XS))
    slopes = [(reference(XS + e) - reference(XS - e)) / 2e-6 for e in steps]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-7)


def test_second_derivatives_of_a_checkpointed_scan():
    plain, saved = (
        ct.hessian(lambda xs, c=c: total(ct.scan(step, INIT, xs, checkpoint=c)), XS)
        for c in (None, 2)
    )
    np.testing.assert_allclose(saved, plain, rtol=1e-12)


def test_a_checkpointed_scan_keeps_less():
    xs = np.ones((100, 40))

    def held(checkpoint):
        f = lambda c, x: (np.sin(np.exp(np.sin(c + x))), None)
        loss = lambda xs: np.sum(ct.scan(f, np.zeros(40), xs, checkpoint=checkpoint)[0])
        # Besides what is scanned, which is there anyway.
        return ct.pullback(loss, xs)[1].nbytes - xs.nbytes

    assert held(True) < 0.2 * held(None)
    assert held(10) < 0.2 * held(None)


def test_scan_inside_vmap_and_prepare():
    loss = lambda xs: total(ct.scan(step, INIT, xs))
    batch = np.stack([XS, -XS, 2 * XS])
    np.testing.assert_allclose(ct.vmap(loss)(batch), [loss(xs) for xs in batch])
    prepared = ct.prepare(loss)
    for xs in batch:
        np.testing.assert_allclose(prepared(xs)[0], ct.gradient(loss, xs)[0], rtol=1e-12)
    assert prepared.num_recordings == 1


def test_scan_of_structures_and_integers():
    xs = {"a": np.arange(3), "b": [np.ones((3, 2), np.float32)]}

    def f(count, x):
        return count + 1, {"n": count, "a": x["a"], "flag": True, "b": x["b"][0], "none": None}

    count, ys = ct.scan(f, 5, xs)
    assert count == 8 and ys["none"] is None
    np.testing.assert_array_equal(ys["n"], [5, 6, 7])
    np.testing.assert_array_equal(ys["a"], [0, 1, 2])
    assert ys["flag"].dtype == bool and ys["b"].dtype == np.float32 and ys["b"].shape == (3, 2)


@dataclass
class State:
    place: Any
    speed: Any
    name: str = "ball"
    number: int = 0


def test_scan_of_objects():
    move = lambda s, a: (State(s.place + s.speed, s.speed + a), s)
    last, all_of_them = ct.scan(move, State(0.0, 1.0), np.array([1.0, 2.0, 3.0]))
    assert (last.place, last.speed) == (7.0, 7.0)
    assert isinstance(all_of_them, State) and all_of_them.name == "ball"
    np.testing.assert_array_equal(all_of_them.place, [0.0, 1.0, 3.0])
    count = lambda s, a: (State(s.place, s.speed, number=s.number + 1), s)
    # As a carry it may count; stacked it would lose the counts.
    assert ct.fori_loop(0, 3, lambda i, s: count(s, i)[0], State(0.0, 1.0)).number == 3
    with pytest.raises(TypeError, match=r"y is State\(name='ball', number=0\) at first"):
        ct.scan(count, State(0.0, 1.0), length=2)


def test_a_scan_without_steps_has_results_of_length_zero():
    carry, ys = ct.scan(lambda c, x: (c + x, {"y": np.stack([x, x])}), 1.0, np.zeros(0))
    assert carry == 1.0 and ys["y"].shape == (0, 2)
    assert ct.scan(lambda c, x: (c, None), 1.0, length=0) == (1.0, None)


def test_loops():
    power = lambda x, n: ct.fori_loop(0, n, lambda i, v: v * x + i, 1.0)
    assert power(2.0, 3) == ((1 * 2 + 0) * 2 + 1) * 2 + 2
    assert ct.grad(lambda x: power(x, 3))(2.0) == 3 * 2.0**2 + 1
    assert ct.fori_loop(3, 1, lambda i, v: v * 0, 1.0) == 1.0
    root = lambda a: ct.while_loop(
        lambda s: abs(s[0] - s[1]) > 1e-12, lambda s: ((s[0] + a / s[0]) / 2, s[0]), (a, 0.0)
    )[0]
    assert ct.grad(root)(9.0) == pytest.approx(1 / 6)
    assert ct.hessian(root, 9.0) == pytest.approx(-1 / 108)


def test_the_steps_of_a_loop_are_guarded():
    halved = lambda x: ct.while_loop(lambda v: v > 1, lambda v: v / 2, x)
    prepared = ct.prepare(halved)
    assert [prepared(x) for x in (12.0, 100.0, 13.0)] == [(1 / 16,), (1 / 128,), (1 / 16,)]
    assert prepared.num_recordings == 2


def test_cond():
    f = lambda x, y: ct.cond(x > y, lambda x, y: x * y, lambda x, y: y - x, x, y)
    assert (f(3.0, 2.0), f(2.0, 3.0)) == (6.0, 1.0)
    assert ct.gradient(f, 3.0, 2.0) == (2.0, 3.0)
    assert ct.gradient(f, 2.0, 3.0) == (-1.0, 1.0)
    assert ct.cond(2, lambda: "yes", lambda: "no") == "yes"

    def raises():
        raise AssertionError("this branch is not taken")

    assert ct.cond(np.bool_(False), raises, lambda: 1) == 1


def test_cond_inside_vmap_chooses():
    positive = lambda x: {"y": np.log(x), "n": 1}
    negative = lambda x: {"y": 2 * x, "n": 0}
    f = lambda x: ct.cond(x > 0, positive, negative, x)
    x = np.array([2.0, -3.0, 0.0])
    mapped = ct.vmap(f)(x)
    np.testing.assert_allclose(mapped["y"], [np.log(2.0), -6.0, 0.0])
    np.testing.assert_array_equal(mapped["n"], [1, 0, 0])
    (gradient,) = ct.gradient(lambda x: np.sum(ct.vmap(f)(x)["y"]), x)
    np.testing.assert_array_equal(gradient, [0.5, 2.0, 2.0])
    # What all examples share is a plain branch.
    assert ct.vmap(lambda x, p: ct.cond(p, np.sin, np.cos, x), in_axes=(0, None))(x, True)[2] == 0.0


def test_a_python_number_takes_the_dtype_of_the_first_step():
    carry = ct.fori_loop(0, 3, lambda i, c: c + np.ones((), np.float32), 0.0)
    assert carry == 3 and carry.dtype == np.float32


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ct.fori_loop(0, 2, lambda i, c: {"a": c["a"][:1]}, {"a": np.ones(2)}),
            TypeError,
            r"fori_loop: the carry .* carry\.a is float64\(2,\) at first and float64\(1,\) after",
        ),
        (
            lambda: ct.fori_loop(0, 2, lambda i, c: c.astype(np.float32), np.ones(2)),
            TypeError,
            r"carry is float64\(2,\) at first and float32\(2,\) after a step; convert one",
        ),
        (
            lambda: ct.while_loop(lambda c: c > 1, lambda c: c / 2, 3),
            TypeError,
            "carry is an int at first and a float after a step; begin with a float",
        ),
        (lambda: ct.fori_loop(0, 1, lambda i, c: [*c], (1.0,)), TypeError, "tuple.* list"),
        (lambda: ct.fori_loop(0, 1, lambda i, c: {}, {"a": 1.0}), TypeError, "carry"),
        (lambda: ct.fori_loop(0, 1, lambda i, c: None, 1.0), TypeError, "float at first and None"),
        (lambda: ct.fori_loop(0, 1.5, lambda i, c: c, 1.0), TypeError, "integer"),
        (lambda: ct.while_loop(lambda c: c, lambda c: c, 1.0), TypeError, "a bool, not float"),
        (
            lambda: ct.while_loop(lambda c: c > 0, lambda c: c, np.ones(2)),
            TypeError,
            r"a bool, not bool\(2,\)",
        ),
        (
            lambda: ct.vmap(lambda x: ct.while_loop(lambda v: v > 1, lambda v: v / 2, x))(XS),
            ValueError,
            "while_loop: inside vmap",
        ),
        (lambda: ct.cond(XS > 0, np.sin, np.cos, 1.0), TypeError, r"scalar, .* shape \(5,\)"),
        (
            lambda: ct.vmap(lambda x: ct.cond(x > 0, lambda: 1.0, lambda: np.ones(2)))(XS),
            TypeError,
            r"result is a float at first and float64\(2,\)",
        ),
        (lambda: ct.scan(lambda c, x: c, 0.0, XS), TypeError, "a pair .* not float"),
        (lambda: ct.scan(lambda c, x: (c, c, c), 0.0, XS), TypeError, "not tuple of 3"),
        (lambda: ct.scan(step, INIT), TypeError, "length="),
        (lambda: ct.scan(step, INIT, 3.0), TypeError, "xs is a scalar"),
        (lambda: ct.scan(step, INIT, XS, 4), ValueError, "xs says 5 steps, and length says 4"),
        (lambda: ct.scan(step, INIT, {"a": XS, "b": XS[1:]}), ValueError, r"xs\.a .* xs\.b says 4"),
        (lambda: ct.scan(step, INIT, XS, checkpoint=0), ValueError, "positive number of steps"),
        (
            lambda: ct.scan(lambda c, x: (c + 1, np.ones(c)), 0, length=3),
            TypeError,
            r"the result of a step .* y is float64\(0,\) at first and float64\(1,\)",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
