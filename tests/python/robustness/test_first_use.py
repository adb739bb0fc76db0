"""The first gradients of a process: in many threads at once, and interrupted on the way."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import cotan as ct

PRELUDE = """
import math, os, signal, sys, threading, traceback
import numpy as np
import cotan as ct

X = np.linspace(0.1, 1.0, 20)

def f(x):
    filled = np.zeros(20)
    for i in range(20):
        filled[i] = math.sin(x[i]) * x[i]
    return np.sum(np.array([filled[i] for i in range(20)]))

def check():
    np.testing.assert_allclose(ct.gradient(f, X)[0], np.cos(X) * X + np.sin(X), rtol=1e-12)

def check_nothing_is_lifted():
    assert type(np.zeros(1)) is np.ndarray
    assert type(math.sin(1.0)) is float
    assert type(np) is type(math) is type(sys)

"""


def run(body, *args):
    """Run a script in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(body), *args],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("attempt", range(3))
def test_eight_threads_begin_at_once(attempt):
    run("""
    sys.setswitchinterval(1e-6)
    start, errors = threading.Barrier(8), []

    def work():
        start.wait()
        try:
            check()
        except BaseException:
            errors.append(traceback.format_exc())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert not errors, errors[0]
    check_nothing_is_lifted()
    """)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is POSIX")
@pytest.mark.parametrize("attempt", range(3))
def test_a_fork_while_other_threads_begin(attempt):
    # What these import and make once is never half done in a child.
    run("""
    import time
    import scipy.linalg

    def g(x):
        return np.sum(scipy.linalg.solve(np.eye(20) * x[0], np.array([math.sin(e) for e in x])))

    def work():
        while not stop.is_set():
            check()
            ct.gradient(g, X)

    stop = threading.Event()
    threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for t in threads: t.start()
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            check()
            ct.gradient(g, X)
            os._exit(0)
        end = time.monotonic() + 30
        while not (done := os.waitpid(pid, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise SystemExit("the child hangs")
            time.sleep(0.005)
        assert done[1] == 0
    stop.set()
    for t in threads: t.join()
    """)


def test_what_a_program_put_in_a_functions_place_counts():
    # It is there when the module is made ready; the library's own function is back afterwards.
    run("""
    from unittest import mock
    import scipy.linalg

    def g(x):
        return np.sum(scipy.linalg.solve(np.eye(2) * x, np.ones(2)))

    def h(x):
        filled = np.zeros(2)
        filled[0] = x
        return filled[0] * filled[1] + filled[0]

    twice = mock.patch("scipy.linalg.solve", lambda a, b: 2 * np.sum(a) * b)
    threes = mock.patch("numpy.zeros", wraps=lambda n: np.array([3.0] * n))
    with twice, threes:
        assert ct.gradient(g, 2.0) == (8.0,)
        assert ct.gradient(h, 2.0) == (4.0,)
    assert ct.gradient(g, 2.0) == (-0.5,)
    assert ct.gradient(h, 2.0) == (1.0,)
    with twice, threes:
        assert ct.gradient(g, 2.0) == (8.0,)
        assert ct.gradient(h, 2.0) == (4.0,)
    check()
    check_nothing_is_lifted()
    """)


@pytest.mark.skipif(os.name != "posix", reason="timers are POSIX")
@pytest.mark.parametrize("delay", ["0.0005", "0.002", "0.005", "0.01", "0.02", "0.03", "0.05"])
def test_the_first_gradient_is_interrupted(delay):
    run("""
    class Stop(BaseException): pass

    def stop(*args):
        raise Stop

    signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
        check()
    except Stop:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    check_nothing_is_lifted()
    check()
    check()
    check_nothing_is_lifted()
    """, delay)  # fmt: skip


def test_a_module_that_another_thread_imports_is_lifted_when_it_is_there(tmp_path):
    # SciPy, as it is imported while other threads record: half of a module is not looked at.
    run("""
    stop, errors = threading.Event(), []

    def work():
        try:
            while not stop.is_set():
                check()
        except BaseException:
            errors.append(traceback.format_exc())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads: t.start()
    import numpy.random, numpy.polynomial, scipy.linalg, scipy.special
    stop.set()
    for t in threads: t.join()
    assert not errors, errors[0]
    a = np.eye(2) * 2
    (g,) = ct.gradient(lambda a: np.sum(scipy.linalg.expm(a)), a)
    assert np.isfinite(g).all()
    """)


def test_a_module_that_is_imported_while_recording_counts_at_once():
    run("""
    def g(a):
        import scipy.linalg
        return np.sum(scipy.linalg.expm(a))

    (d,) = ct.gradient(g, np.zeros((2, 2)))
    np.testing.assert_allclose(d, np.ones((2, 2)))
    """)


@pytest.mark.parametrize("names", ["*", "zeros, sum, array"])
def test_names_of_a_module_that_is_imported_while_recording(names, tmp_path):
    (tmp_path / "late.py").write_text(
        f"from numpy import {names}\nfrom math import exp\n"
        "def f(x):\n    z = zeros(3)\n    z[0] = exp(x[0])\n"
        "    return sum(z * array([x[1], 1, 1]))\n"
    )
    run(
        """
    sys.path.insert(0, sys.argv[1])

    def g(x):
        import late
        return late.f(x)

    for _ in range(3):
        (slope,) = ct.gradient(g, np.array([0.3, 2.0]))
        np.testing.assert_allclose(slope, [2 * np.exp(0.3), np.exp(0.3)])
    check_nothing_is_lifted()
    """,
        str(tmp_path),
    )


def test_masked_arrays_that_are_met_first_while_recording():
    """NumPy imports the module when it is asked for; its names of others are stand-ins then."""
    run("""
    assert "numpy.ma" not in sys.modules
    mask = np.array([True, False, False])

    def f(x):
        m = np.ma.array(x, mask=mask)
        m[1] = x[1] ** 2
        return (m * x).mean() + np.ma.masked_less(x, 0).sum() + np.ma.log(np.ma.abs(x)).sum()

    x = np.array([1.0, -2.0, 3.0])
    (gradient,) = ct.gradient(f, x)
    slopes = [(f(x + d) - f(x - d)) / 2e-6 for d in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6)
    assert type(np.ma.array([1.0])) is np.ma.MaskedArray
    """)


def test_names_that_are_lifted_stay_so_when_another_recording_finds_new_modules():
    run("""
    from math import sin
    from numpy import zeros

    def square(x):
        z = zeros(2)
        z[0] = sin(x)
        return z[0] * z[0]

    def f(x):
        import colorsys
        slope = ct.grad(square)(x[0])
        z = zeros(2)
        z[1] = sin(x[1])
        return slope + z[1]

    for _ in range(2):
        (slope,) = ct.gradient(f, np.array([0.1, 0.4]))
        np.testing.assert_allclose(slope, [2 * np.cos(0.2), np.cos(0.4)])
        assert sin is math.sin
        assert zeros is np.zeros
    """)


def test_names_of_a_program_that_runs_while_it_is_imported(tmp_path):
    (tmp_path / "whole.py").write_text(
        textwrap.dedent("""
    import numpy as np
    import cotan as ct
    from numpy import zeros

    def f(x):
        z = zeros(2)
        z[0] = sin(x)
        return z[0] * z[0]

    from math import sin
    SLOPES = [ct.grad(f)(0.3)]
    from math import cos as sin
    import colorsys
    SLOPES.append(ct.grad(f)(0.3))
    """)
    )
    run(
        """
    sys.path.insert(0, sys.argv[1])
    import whole
    np.testing.assert_allclose(whole.SLOPES, [np.sin(0.6), -np.sin(0.6)])
    assert whole.sin is math.cos
    """,
        str(tmp_path),
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")
def test_ever_larger_arrays_leave_no_holes():
    # The plan that is kept between two arrays would keep their space from being used again.
    out = run("""
    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before, peak = resident(), 0
    for i in range(130):
        x = np.ones(100_000 + 15_000 * i)
        ct.pullback(lambda x: np.sin(x) * x, x)
        peak = max(peak, resident() - before)
    print(peak >> 20)
    """)
    # Three arrays of 16 MB, and what is kept for later ones.
    assert int(out) < 500


# --------------------------------------------------------------------------------------------------
# Objects that answer ufuncs themselves


class Answering:
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return ufunc.__name__, [i is self for i in inputs].index(True)

    def __array_function__(self, func, types, args, kwargs):
        return func.__name__


class Raising:
    def __array_ufunc__(self, *args, **kwargs):
        raise RuntimeError("foreign")

    __array_function__ = __array_ufunc__


class Reflecting:
    __array_ufunc__ = None

    def __rmul__(self, other):
        return "reflected"


def test_operators_ask_objects_that_know_ufuncs():
    other = Answering()
    for x in (ct.array([1.0, 2.0]), np.array([1.0, 2.0])):
        assert x * other == ("multiply", 1)
        assert x - other == ("subtract", 1)
        assert x @ other == ("matmul", 1)
        assert (x < other) == ("less", 1)
        assert (x == other) == ("equal", 1)
        assert x**other == ("power", 1)
        assert np.add(other, x) == ("add", 0)
        assert np.concatenate([x, other]) == "concatenate"
        assert x * Reflecting() == "reflected"
    assert ct.array(2.0) * other == ("multiply", 1)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, o: x * o, lambda x, o: x @ o, lambda x, o: x < o, lambda x, o: x / o,
        lambda x, o: np.concatenate([x, o]),
        lambda x, o: np.add(x, o),
    ],
)  # fmt: skip
def test_their_errors_arrive(f):
    for _ in range(2):
        with pytest.raises(RuntimeError, match="foreign"):
            ct.gradient(lambda x: f(x, Raising()), np.ones(2))
    assert not ct.nestlevel()
    np.testing.assert_array_equal(ct.gradient(lambda x: np.sum(x * x), np.ones(2))[0], [2, 2])


def test_finalizers_compute_gradients_while_modules_are_made_ready():
    run("""
    import gc

    errors = []

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            try:
                (g,) = ct.gradient(lambda x: x * x, 3.0)
                assert g == 6.0
            except BaseException:
                errors.append(traceback.format_exc())

    def g(x):
        for _ in range(20):
            Cycle()
            x = np.sin(x) * np.random.normal(0.0, 1.0, 20) + np.zeros(20)
        return np.sum(x)

    gc.set_threshold(3, 2, 2)
    ct.gradient(g, X)
    ct.gradient(g, X)
    gc.collect()
    assert not errors, errors[0]
    check()
    """)


# --------------------------------------------------------------------------------------------------
# Functions that are handed on as values


@pytest.mark.parametrize("name", ["cholesky", "expm", "sqrtm", "toeplitz"])
def test_a_function_that_was_taken_before_is_met(name):
    import scipy.linalg

    class Filter:
        def __init__(self, root):
            self.root = root

        def run(self, x):
            return np.sum(self.root(x))

    kept = getattr(scipy.linalg, name)
    given = np.array([2.0, 1.0]) * np.eye(2)
    expected = ct.gradient(lambda x: np.sum(getattr(scipy.linalg, name)(x)), given)
    for f in (Filter(kept).run, lambda x, root=kept: np.sum(root(x))):
        np.testing.assert_array_equal(ct.gradient(f, given), expected)


def test_names_in_executed_text_are_met():
    import scipy.special

    names = {}
    exec("from scipy.special import factorial\ndef f(x): return factorial(x).sum()", names)
    x = np.array([1.5, 2.5])
    expected = scipy.special.gamma(x + 1) * scipy.special.psi(x + 1)
    np.testing.assert_allclose(ct.gradient(names["f"], x)[0], expected)
