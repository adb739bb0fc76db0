"""Prepared functions under threads, fork, interrupts; what they hold."""

import gc
import multiprocessing
import signal
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from test_prepare import C, X, expect_same, seed

import cotan as ct


def test_threads():
    g = ct.prepare(seed, X, ct.const(C))
    wanted = {i: ct.gradient(seed, X + i, ct.const(C + i))[0] for i in range(8)}
    wrong = []

    def run(i):
        got = [g(X + i, C + i)[0] for _ in range(200)]
        wrong.extend(y for y in got if not np.array_equal(y, wanted[i]))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert g.num_recordings == 1


def _in_child(g, x, connection):
    connection.send(g(x, C)[0])


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_fork():
    x = np.linspace(0, 1, 12)
    g = ct.prepare(seed, x, ct.const(C))
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(g, x, there))
    child.start()
    assert here.poll(60)
    np.testing.assert_array_equal(here.recv(), g(x, C)[0])
    child.join()


@pytest.mark.skipif(sys.platform == "win32", reason="no setitimer")
def test_interrupts():
    x = np.ones((700, 700))

    def f(x):
        for _ in range(400):
            x = np.tanh(x @ x)
        return np.sum(x)

    g = ct.prepare(f, x)

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            g(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    small = ct.prepare(seed, X, ct.const(C))
    expect_same(small(X, C), ct.gradient(seed, X, ct.const(C)))


def test_memory_does_not_grow():
    import tracemalloc

    g = ct.prepare(seed, X, ct.const(C))
    out = (np.zeros(12), None)
    for _ in range(10):
        g(X, C, out=out)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(1000):
        g(X, C, out=out)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 2000


def test_recordings_are_bounded():
    g = ct.prepare(lambda x: np.sum(x * x))
    for n in range(1, 10):
        g(np.ones(n))
    with pytest.warns(ct.RerecordingWarning, match=r"argument x: f64\[10\] \(was f64\[9\]\)"):
        g(np.ones(10))
    for n in range(11, 60):
        g(np.ones(n))
    assert g.num_recordings <= 32
    g.clear()
    assert g.num_recordings == 0
    expect_same(g(X), (2 * X,))


@pytest.mark.parametrize("transform", ["gradient", "value_and_gradient", "value"])
def test_an_object_that_holds_its_prepared_method_is_let_go(transform):
    class Model:
        def __init__(self):
            self.w = np.ones(3)
            self.step = ct.prepare(self.loss, X[:3], transform=transform)
            self.of_itself = ct.prepare(lambda model, x: np.sum(model.w * x) * 2.0)
            self.of_itself(self, X[:3])

        def loss(self, x):
            return np.sum(self.w * x)

    models = [Model() for _ in range(3)]
    gone = [weakref.ref(model) for model in models]
    del models
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3


def test_frozensets_are_compared_by_their_items():
    g = ct.prepare(lambda x, names: np.sum(x) * len(names))
    sets = [("a", "b"), ("a", "b"), ("a",), ("a", "b"), ("a",)]
    for names in sets:
        # Made anew, each time another object.
        np.testing.assert_array_equal(
            g(np.ones(2), frozenset(list(names)))[0], np.full(2, len(names))
        )
    assert g.num_recordings == 2
    for one in (1, True, 1.0, -0.0, 0.0, ("a", 1), ("a", True)):
        g(np.ones(2), ct.const(frozenset({one})))
    assert g.num_recordings == 9


def test_whether_a_number_is_whole_is_a_decision():
    f = lambda a: a * 2 if a.is_integer() else a * 3
    prepared = ct.prepare(f)
    for a, slope in ((2.5, 3.0), (4.0, 2.0), (2.25, 3.0), (np.inf, 3.0)):
        assert prepared(a) == (slope,)
    g = lambda x: x[0] * 2 if x[0].is_integer() else x[0] * 3
    prepared = ct.prepare(g)
    assert prepared(np.array([2.5]))[0] == 3.0
    assert prepared(np.array([2.0]))[0] == 2.0


def test_a_generator_by_name_in_the_first_call_of_a_process():
    # Its maker is a function of C whose class has a member that is another integer in each look.
    code = (
        "import numpy as np, cotan as ct\n"
        "from numpy.random import default_rng\n"
        "def f(x): return np.sum(x * default_rng(3).normal(size=3))\n"
        "print(*ct.prepare(f, np.ones(3))(np.ones(3))[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = [float(word) for word in done.stdout.split()]
    np.testing.assert_array_equal(found, np.random.default_rng(3).normal(size=3))
