"""Loops within a budget: what is kept, how many steps are taken again, and the same gradients."""

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

import cotan as ct

RNG = np.random.default_rng(8)
W = RNG.uniform(-0.5, 0.5, (4, 4))
U = RNG.uniform(-1, 1, 4)
XS = RNG.uniform(-1, 1, (60, 4))


def loss(budget, reverse=False, **options):
    def f(w, u, xs):
        def step(carry, x):
            a, b = carry
            return (np.tanh(w @ b) + x, a * 0.9 + 0.1 * np.sin(b)), a * b + x

        options.setdefault("rolled", True)
        (a, b), ys = ct.scan(step, (u, u * 2), xs, reverse=reverse, checkpoint=budget, **options)
        return np.sum(a * b) + np.sum(ys[:, 0] * ys[:, 1])

    return f


def least(steps, slots):
    """How many steps have to be taken again, by all places for the next state."""
    best = [[0] * (steps + 1) for _ in range(slots + 1)]
    for c in range(1, slots + 1):
        for n in range(2, steps + 1):
            best[c][n] = n * (n - 1) // 2
            if c > 1:
                best[c][n] = min(m + best[c - 1][n - m] + best[c][m] for m in range(1, n))
    return best[slots][steps]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("budget", ["0B", "64B", "128B", "500B", "2kB", "1MB"])
def test_gradients_keep_their_bits(budget, reverse):
    wanted = ct.value_and_gradient(loss(None, reverse), W, U, XS)
    value, gradients = ct.value_and_gradient(loss(budget, reverse), W, U, XS)
    assert value == wanted[0]
    for got, want in zip(gradients, wanted[1], strict=True):
        np.testing.assert_array_equal(got, want)
    _, back = ct.pullback(loss(budget, reverse), W, U, XS)
    for got, want in zip(back(1.0), wanted[1], strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)
    plain = ct.gradient(loss(budget, reverse, rolled=False), W, U, XS)
    for got, want in zip(gradients, plain, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)


def test_against_finite_differences():
    f = lambda u: loss("200B")(W, u, XS)
    for k in range(4):
        e = 1e-6 * np.eye(4)[k]
        assert ct.grad(f)(U)[k] == pytest.approx((f(U + e) - f(U - e)) / 2e-6, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 8, 39, 40, 100])
def test_as_few_steps_as_possible_are_taken_again(slots):
    n, x = 40, np.linspace(0.1, 1.0, 10)

    def f(budget):
        step = lambda i, v: np.sin(v)
        return lambda x: np.sum(ct.fori_loop(0, n, step, x, checkpoint=budget, rolled=True))

    _, back = ct.pullback(f(f"{slots * x.nbytes}B"), x)
    with ct.profile() as work:
        np.asarray(back(1.0)[0])
    # A step of the reverse pass has a cosine, one that is taken again a sine.
    assert work.equations["cos"] == n
    assert work.equations["sin"] == least(n, slots)
    if slots == 5:
        assert least(n, slots) < n * math.isqrt(n) / 2


MEMORY = r"""
import re, sys
import numpy as np
import cotan as ct

x, budget = np.linspace(0.0, 0.9, 80_000), sys.argv[1] if len(sys.argv) > 1 else None
turn = lambda i, v: v - 0.1 * v * v
f = lambda n: lambda x: np.sum(ct.fori_loop(0, n, turn, x, checkpoint=budget, rolled=True))
ct.grad(f(20))(x)

def memory(name):
    status = open("/proc/self/status").read()
    return int(re.search(name + r":\s+(\d+) kB", status)[1]) * 1024

# The peak is counted from here on.
open("/proc/self/clear_refs", "w").write("5")
before = memory("VmRSS")
_, back = ct.pullback(f(200), x)
assert back.nbytes <= 2 * x.nbytes or budget is None
print(repr(float(np.sum(back(1.0)[0]))))
print(memory("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says what a process uses")
def test_memory_stays_within_the_budget():
    def measured(*budget):
        command = [sys.executable, "-c", MEMORY, *budget]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        total, grown = done.stdout.split()
        return total, int(grown)

    total, whole = measured()
    assert whole > 0.8 * 200 * 640_000
    for megabytes in (8, 40):
        found, grown = measured(f"{megabytes}MB")
        assert found == total
        assert grown < megabytes * 1e6 + 20 * 640_000


def test_further_derivatives():
    u = lambda budget: lambda u: loss(budget)(W, u, XS)
    np.testing.assert_allclose(ct.hessian(u("200B"), U), ct.hessian(u(None), U), rtol=1e-12)
    twice = lambda f: ct.grad(lambda u: np.sum(ct.grad(f)(u) ** 2))(U)
    np.testing.assert_allclose(twice(u("200B")), twice(u(None)), rtol=1e-12)
    jacobians = [ct.jacfwd(u(budget))(U) for budget in ("200B", None)]
    np.testing.assert_array_equal(*jacobians)
    xs = np.stack([XS, XS * 0.5])
    slopes = [
        ct.vmap(ct.grad(lambda xs, b=budget: loss(b)(W, U, xs)))(xs) for budget in ("200B", None)
    ]
    np.testing.assert_array_equal(*slopes)


def test_large_bodies_take_their_buffers_from_the_pool():
    x = RNG.uniform(-1, 1, (120, 120))

    def f(budget):
        step = lambda i, v: np.tanh(v @ v) + x * 0.1
        return lambda y: np.sum(ct.fori_loop(0, 30, step, y, checkpoint=budget, rolled=True))

    slopes = [ct.grad(f(budget))(x) for budget in (None, "400kB", "1B")]
    np.testing.assert_array_equal(slopes[0], slopes[1])
    np.testing.assert_array_equal(slopes[0], slopes[2])


def test_what_is_printed_and_kept_reads_back():
    program = ct.trace(loss("300B"), W, U, XS)
    assert "budget=300" in str(program)
    assert ct.Program.parse(str(program)) == program
    assert pickle.loads(pickle.dumps(program)) == program
    _, back = ct.pullback(loss("300B"), W, U, XS)
    again = pickle.loads(pickle.dumps(back))
    for got, want in zip(again(1.0), back(1.0), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_loops_in_loops():
    def f(outer, inner):
        def step(i, v):
            one = lambda j, u: np.sin(u) + 0.1 * v
            return ct.fori_loop(0, 20, one, v, checkpoint=inner, rolled=True)

        return lambda x: np.sum(ct.fori_loop(0, 25, step, x, checkpoint=outer, rolled=True))

    wanted = ct.grad(f(None, None))(U)
    for outer, inner in (("100B", None), (None, "100B"), ("100B", "100B"), ("1MB", "64B")):
        np.testing.assert_array_equal(ct.grad(f(outer, inner))(U), wanted)


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("checkpoint", [True, 7, "1kB"])
def test_fori_loop_has_checkpoints(rolled, checkpoint):
    f = lambda **o: lambda x: np.sum(ct.fori_loop(2, 50, lambda i, v: np.sin(v) + x / i, x, **o))
    wanted = ct.grad(f())(U)
    found = ct.grad(f(checkpoint=checkpoint, rolled=rolled))(U)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    with pytest.raises(ValueError, match="fori_loop: checkpoint must be a positive number"):
        f(checkpoint=0, rolled=rolled)(U)
    with pytest.raises(ValueError, match="budget='much' is not a size"):
        ct.grad(f(checkpoint="much", rolled=rolled))(U)
