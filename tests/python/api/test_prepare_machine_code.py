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


def printed(program, setting):
    """What a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "COTAN_MACHINE_CODE": setting},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_switched_off_it_is_the_kernels_and_the_same_bits():
    assert printed(PROGRAM, "0") == printed(PROGRAM, "always") == printed(PROGRAM, "1")


def rising(x, c):
    """Two parts of one array with the same weight: their cotangents are added."""
    for _ in range(4):
        c = np.sin(c) * 1.5
    return c * np.sum(x) + c * np.sum(x[1:])


def network(w, v):
    """A matrix and its transpose, which is made once for all steps."""
    for _ in range(60):
        v = np.tanh(w @ v) + np.tanh(w.T @ v)[::-1] * 0.1
    return np.sum(v)


def masked(x):
    """A mask of bytes that are not only 0 and 1."""
    mask = np.array([0, 1, 2, 255], np.uint8).view(bool)
    for _ in range(6):
        x = np.sin(x) + mask * x
    return np.sum(x)


@pytest.mark.parametrize(
    ("f", "arguments"),
    [
        (rising, (np.arange(4.0) + 1, np.array(3.0))),
        (network, (np.linspace(-0.4, 0.5, 25).reshape(5, 5), np.linspace(0.0, 1.0, 5))),
        (masked, (np.linspace(0.0, 1.0, 4),)),
    ],
    ids=["rising", "network", "masked"],
)
def test_calls_go_on_with_the_same_bits(f, arguments):
    g = ct.prepare(f, *arguments)
    first = g(*arguments)
    for _ in range(2 * CALLS):
        for a, b in zip(g(*arguments), first, strict=True):
            np.testing.assert_array_equal(a, b)


def test_others_run_while_it_is_compiled():
    arguments = np.linspace(0.0, 1.0, 8), 0.5

    def long(x, y):
        for k in range(300):
            x = x * y + np.sin(k * y)
        return np.sum(x)

    g = ct.prepare(long, *arguments)
    stop, ticks = threading.Event(), []

    def tick():
        while not stop.wait(0.001):
            ticks.append(None)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        for _ in range(3000):
            g(*arguments)
    finally:
        stop.set()
        thread.join()
    assert ticks


def test_on_a_thread_of_little_stack():
    code = """
import threading, numpy as np, cotan as ct
threading.stack_size(128 << 10)
def f(x):
    for _ in range(50):
        x = np.sin(x) + x[::-1] * 0.1
    return np.sum(x)
x = np.linspace(0.0, 1.0, 9)
g = ct.prepare(f, x)
thread = threading.Thread(target=lambda: [g(x) for _ in range(500)])
thread.start()
thread.join()
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr


SYSTEMS = """
import numpy as np
import cotan as ct

def filtered(a, b):
    x = b
    for _ in range(12):
        s = a + x @ x.T
        x = np.tanh(np.linalg.inv(s) @ x) + np.linalg.solve(s, b) + 0.1 * np.linalg.det(a)
    return np.sum(x) + np.linalg.slogdet(a)[1]

def whitened(a, b):
    total = 0.0
    for k in range(12):
        l = np.linalg.cholesky(a @ a.T + k * np.eye(len(a)))
        total = total + np.sum(np.linalg.solve(l, b) ** 2) + np.sum(np.log(np.diag(l)))
    return total

rng = np.random.default_rng(3)
for dtype in (np.float64, np.float32):
    for n in (1, 2, 3, 5, 8):
        a = (rng.normal(size=(n, n)) + np.eye(n)).astype(dtype)
        b = rng.normal(size=(n, 2)).astype(dtype)
        odd = a.copy()
        odd[0, -1] = np.nan
        for f in (filtered, whitened):
            g = ct.prepare(f, a, b, transform="value_and_gradient")
            for matrix in (a, a[::-1].copy(), odd, 0 * a, np.asfortranarray(a), 1e-30 * a):
                try:
                    value, found = g(matrix, b)
                except np.linalg.LinAlgError as error:
                    print(error)
                else:
                    whole = [np.nan_to_num(np.asarray(x), nan=7.0) for x in (value, *found)]
                    print(b"".join(x.tobytes() for x in whole).hex())
"""


def test_factors_and_systems_have_the_same_bits():
    kernels = printed(SYSTEMS, "0").split("\n")
    assert kernels == printed(SYSTEMS, "always").split("\n")
    assert "Singular matrix" in kernels
    assert "Matrix is not positive definite" in kernels
    assert len(set(kernels)) > 50


FORKS = """
import os, threading
import numpy as np
import cotan as ct

x = np.linspace(0.0, 1.0, 3)

def compiled(k):
    def f(x):
        for _ in range(40):
            x = np.sin(x) * (1.0 + k) - x * x
        return np.sum(x)

    return ct.prepare(f, x)(x)[0].tobytes().hex()

done = threading.Event()

def compile_on():
    k = 0
    while not done.is_set():
        k += 1
        compiled(1.0 / k)

thread = threading.Thread(target=compile_on)
thread.start()
want = compiled(0.25)
for _ in range(30):
    child = os.fork()
    if child == 0:
        os._exit(0 if compiled(0.25) == want and compiled(0.125) else 1)
    assert os.waitpid(child, 0)[1] == 0
done.set()
thread.join()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_children_compile_what_the_parent_was_compiling():
    assert printed(FORKS, "always") == "done\n"


def test_elements_that_are_read_one_after_the_other_are_no_loop():
    # Once compiled, a stretch of the program that varies in every equation was a division by zero.
    def f(x):
        y = [x[i] for i in range(600)]
        return np.stack(y)[::2].sum() + sum(y[:30])

    x = np.linspace(0.0, 1.0, 600)
    g = ct.prepare(f, x)
    expected = ct.gradient(f, x)[0]
    for _ in range(10 * CALLS):
        np.testing.assert_array_equal(g(x)[0], expected)
