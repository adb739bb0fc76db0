"""Prepared functions that have become machine code: the same numbers, from any thread."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import cotan as ct

# So many calls that what they took pays for compiling.
CALLS = 400


def oscillator(state, rates):
    """Thirty steps of a nonlinear system of three numbers."""
    for _ in range(30):
        x, y, z = state
        slope = np.array([rates[0] * (y - x), x * (rates[1] - z) - y, x * y - rates[2] * z])
        state = state + 0.01 * slope
    return np.sum(np.sin(state))


def branching(x):
    """A number that goes one way or the other."""
    for _ in range(20):
        x = np.sin(x) * 1.5 if x > 0.5 else x * x + 0.3
    return x


def vectors(w, x):
    """Small products, a softmax, and an element written."""
    h = np.tanh(w @ x)
    p = np.exp(h - np.max(h))
    p = p / np.sum(p)
    y = np.zeros(4)
    y[1:] = p
    y[0] = w[0] @ x
    return np.sum(y * np.arange(4.0))


ARGUMENTS = {
    oscillator: (np.array([1.0, 1.0, 1.0]), np.array([10.0, 28.0, 8 / 3])),
    branching: (0.7,),
    vectors: (np.arange(12.0).reshape(3, 4) / 12, np.array([0.1, -0.2, 0.3, 0.4])),
}


@pytest.mark.parametrize("f", ARGUMENTS)
def test_all_calls_give_the_first_ones_bits(f):
    arguments = ARGUMENTS[f]
    g = ct.prepare(f, *arguments, transform="value_and_gradient")
    first = g(*arguments)
    for _ in range(CALLS):
        last = g(*arguments)
    np.testing.assert_array_equal(last[0], first[0])
    for a, b in zip(last[1], first[1], strict=True):
        np.testing.assert_array_equal(a, b)
    wanted = ct.value_and_gradient(f, *arguments)
    np.testing.assert_allclose(last[0], wanted[0], rtol=1e-14)
    for a, b in zip(last[1], wanted[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_other_arguments_and_other_branches():
    g = ct.prepare(branching, 0.7, transform="value_and_gradient")
    numbers = np.linspace(-1.0, 1.5, 7)
    for _ in range(CALLS // 7):
        for x in numbers:
            value, (slope,) = g(float(x))
            wanted, (wanted_slope,) = ct.value_and_gradient(branching, float(x))
            np.testing.assert_allclose((value, slope), (wanted, wanted_slope), rtol=1e-13)


def test_results_of_a_call_stay_when_the_next_one_comes():
    arguments = ARGUMENTS[vectors]
    g = ct.prepare(vectors, *arguments)
    kept = [g(arguments[0] * (1 + k / CALLS), arguments[1]) for k in range(CALLS)]
    for k in (0, CALLS // 2, CALLS - 1):
        wanted = ct.gradient(vectors, arguments[0] * (1 + k / CALLS), arguments[1])
        np.testing.assert_allclose(kept[k][0], wanted[0], rtol=1e-12, atol=1e-15)


def test_arrays_of_any_layout():
    w, x = ARGUMENTS[vectors]
    g = ct.prepare(vectors, w, x)
    wanted = ct.gradient(vectors, w, x)
    turned, wide = np.asfortranarray(w), np.zeros((4, 2))
    wide[:, 1] = x
    for _ in range(CALLS):
        found = g(turned, wide[:, 1])
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_results_in_memory_of_the_caller():
    state, rates = ARGUMENTS[oscillator]
    wanted = ct.gradient(oscillator, state, rates)
    out = (np.empty(3), np.empty(3))
    g = ct.prepare(oscillator, state, rates, out=out)
    for _ in range(CALLS):
        g(state, rates)
    for a, b in zip(out, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_many_threads_while_it_is_compiled():
    arguments = ARGUMENTS[oscillator]
    g = ct.prepare(oscillator, *arguments, transform="value_and_gradient")
    wanted = g(*arguments)
    wrong = []

    def calls():
        for _ in range(CALLS):
            value, gradients = g(*arguments)
            same = all(np.array_equal(a, b) for a, b in zip(gradients, wanted[1], strict=True))
            if value != wanted[0] or not same:
                wrong.append((value, gradients))

    threads = [threading.Thread(target=calls) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_profiles_name_its_equations():
    arguments = ARGUMENTS[oscillator]
    g = ct.prepare(oscillator, *arguments)
    for _ in range(CALLS):
        g(*arguments)
    with ct.profile() as profile:
        for _ in range(20):
            g(*arguments)
    assert "mul" in str(profile)


PROGRAM = """
import numpy as np
import cotan as ct

def f(x):
    for _ in range(40):
        x = np.sin(x) + x[::-1] * 0.1
    return np.sum(x)

x = np.linspace(0.0, 1.0, 5)
g = ct.prepare(f, x)
for _ in range(300):
    found = g(x)
print(found[0].tobytes().hex())
"""


def test_switched_off_it_is_the_kernels_and_the_same_bits():
    def run(setting):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "COTAN_MACHINE_CODE": setting},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert run("0") == run("always") == run("1")
