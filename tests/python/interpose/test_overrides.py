"""Functions that NumPy does not dispatch: when they are overridden, and for whom."""

import collections
import importlib
import inspect
import math
import multiprocessing
import operator
import os
import pickle
import statistics
import subprocess
import sys
import threading
import types
from unittest import mock

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.special
from override_cases import BEFORE, is_as_before, module_of, names_are_as_before

import cotan as ct

# --------------------------------------------------------------------------------------------------
# When functions are overridden


def test_functions_are_overridden_while_recording_only():
    def f(x):
        assert names_are_as_before()
        assert type(np.zeros(3)) is ct.Array and math.sin(0.5) == BEFORE[4](0.5)
        return x

    assert is_as_before()
    ct.gradient(f, 1.0)
    assert is_as_before()


@pytest.mark.parametrize("transform", [ct.gradient, ct.value_and_gradient, ct.pullback, ct.trace])
def test_exceptions_end_a_recording(transform):
    with pytest.raises(ZeroDivisionError):
        transform(lambda x: np.zeros(2)[0] * x + 1 // 0, 0.5)
    assert is_as_before()


def test_nested_recordings():
    def inner(x):
        y = np.zeros(2)
        y[1] = math.sin(x)
        return y[1]

    def outer(x):
        (g,) = ct.gradient(inner, x)
        assert names_are_as_before() and type(np.zeros(2)) is ct.Array
        return np.array([g, x])[0]

    assert ct.gradient(outer, 0.3)[0] == pytest.approx(-math.sin(0.3))
    assert is_as_before()


def test_a_failed_inner_recording_leaves_the_outer_one_as_it_was():
    def f(x):
        with pytest.raises(ZeroDivisionError):
            ct.gradient(lambda y: y / (1 // 0), x)
        return math.exp(x)

    assert ct.gradient(f, 0.0) == (1.0,)
    assert is_as_before()


def test_threads_that_record_and_threads_that_do_not():
    start, stop, wrong, done = threading.Barrier(9), threading.Event(), [], []

    def plain():
        start.wait()
        while not stop.is_set():
            if type(np.zeros(2)) is not np.ndarray or np.array is not BEFORE[1]:
                wrong.append("a plain thread")

    def recording(seed):
        def f(x):
            out = np.zeros(4)
            for i in range(4):
                out[i] = math.sin(x * (i + seed))
            return np.sum(out)

        start.wait()
        expected = sum((i + seed) * math.cos(0.5 * (i + seed)) for i in range(4))
        for _ in range(100):
            assert abs(ct.gradient(f, 0.5)[0] - expected) < 1e-12
        done.append(seed)

    threads = [threading.Thread(target=plain) for _ in range(4)]
    recorders = [threading.Thread(target=recording, args=(i,)) for i in range(4)]
    for t in threads + recorders:
        t.start()
    start.wait()
    for t in recorders:
        t.join()
    stop.set()
    for t in threads:
        t.join()
    assert not wrong
    assert sorted(done) == [0, 1, 2, 3]
    assert is_as_before()


def test_a_generator_that_is_suspended_while_recording():
    def steps():
        out = np.zeros(2)
        while True:
            x = yield out
            out[0] += x
            out[1] = math.sin(out[0])

    machine = steps()

    def f(x):
        next(machine)
        machine.send(x)
        return machine.send(x)[1]

    assert ct.gradient(f, 0.25)[0] == pytest.approx(2 * math.cos(0.5))
    assert is_as_before()
    # What it kept goes on working as an array; another generator sees plain NumPy.
    np.testing.assert_allclose(machine.send(1.0), [1.5, math.sin(1.5)])
    assert type(next(steps())) is np.ndarray


def test_functions_that_are_kept_from_a_recording_are_the_originals():
    kept = []

    def f(x):
        kept.extend([np.zeros, math.sin, np.r_, np.fromiter])
        return x

    ct.gradient(f, 1.0)
    zeros, sin, r_, fromiter = kept
    assert type(zeros(2)) is np.ndarray and sin(0.5) == math.sin(0.5)
    assert type(r_[1.0, 2.0]) is np.ndarray
    assert type(fromiter(iter([1.0]), float)) is np.ndarray
    assert zeros is np.zeros and sin is math.sin and r_ is np.r_ and fromiter is np.fromiter


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_forked_while_another_thread_records():
    inside, forked = threading.Event(), threading.Event()

    def f(x):
        inside.set()
        forked.wait(20)
        return math.sin(x)

    thread = threading.Thread(target=lambda: ct.gradient(f, 0.5))
    thread.start()
    inside.wait()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        ok = is_as_before() and ct.gradient(math.sin, 0.0) == (1.0,) and is_as_before()
        os.write(write, b"y" if ok else b"n")
        os._exit(0)
    forked.set()
    thread.join()
    os.waitpid(child, 0)
    assert os.read(read, 1) == b"y"
    assert is_as_before()


def _in_a_process(x):
    return ct.gradient(lambda y: math.sin(y), x)[0], is_as_before()


def test_process_pools():
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        assert pool.apply(_in_a_process, (0.0,)) == (1.0, True)


def test_names_that_somebody_replaced_stay_replaced():
    def f(x):
        with mock.patch.object(np, "zeros", lambda n: [x] * n):
            return np.zeros(3)[2]

    assert ct.gradient(f, 1.0) == (1.0,)
    assert is_as_before()
    with mock.patch.object(math, "sin", lambda x: x * x):
        assert ct.gradient(lambda x: math.sin(x), 3.0) == (6.0,)
    assert is_as_before()


def test_a_class_that_somebody_gave_a_module_stays():
    class Own(types.ModuleType):
        pass

    def give(x):
        np.__class__ = Own
        return 2 * x

    try:
        assert ct.gradient(give, 3.0) == (2.0,)
        assert type(np) is Own
        assert ct.gradient(lambda x: 2 * x, 3.0) == (2.0,)
        assert type(np) is Own
    finally:
        np.__class__ = types.ModuleType
    assert ct.gradient(math.sin, 0.0) == (1.0,)


def test_modules_look_as_they_are():
    def f(x):
        assert isinstance(np, types.ModuleType) and inspect.ismodule(math)
        assert "zeros" in dir(np) and np.zeros.__module__ == "numpy"
        assert np.__dict__["zeros"] is BEFORE[0]
        with pytest.raises(AttributeError, match="zzz"):
            np.zzz  # noqa: B018
        assert not hasattr(math, "zzz")
        return x

    ct.gradient(f, 1.0)


def test_scipy_is_not_imported():
    code = (
        "import sys, math, cotan; cotan.gradient(math.sin, 0.0); assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --------------------------------------------------------------------------------------------------
# Switches, own functions, names imported before


def test_lifting_is_switched_off_for_a_block_and_this_thread():
    seen = []

    def f(x):
        with ct.lifting(False):
            seen.append(type(np.zeros(2)))
            with ct.lifting(True):
                seen.append(type(np.zeros(2)))
            seen.append(type(np.zeros(2)))
        seen.append(type(np.zeros(2)))
        return x

    ct.gradient(f, 1.0)
    assert seen == [np.ndarray, ct.Array, np.ndarray, ct.Array]


def test_own_functions():
    original = statistics.fmean
    ct.lift(statistics, "fmean", lambda data: sum(data) / len(data))
    f = lambda x: statistics.fmean([x, x * x, 1.0])
    assert ct.gradient(f, 3.0)[0] == pytest.approx(7 / 3)
    ct.lift(statistics, "fmean", lambda data: 2 * data[0])
    assert ct.gradient(f, 3.0) == (2.0,)
    assert statistics.fmean is original
    with pytest.raises(AttributeError, match="nothing"):
        ct.lift(statistics, "nothing", abs)
    with pytest.raises(TypeError, match=r"math\.pi"):
        ct.lift(math, "pi", abs)


def test_names_imported_before():
    module = module_of(
        "from math import *\nfrom numpy import array, zeros\n"
        "def f(x):\n    y = zeros(2)\n    y[0] = sin(x)\n    return (y + array([x, 1.0]))[0]\n"
    )
    before, names = module.f(3.0), dict(vars(module))
    assert ct.gradient(module.f, 3.0)[0] == pytest.approx(math.cos(3.0) + 1)
    assert module.f(3.0) == before and type(module.zeros(2)) is np.ndarray
    assert vars(module).keys() == names.keys()
    assert all(vars(module)[name] is value for name, value in names.items())


def test_namespaces():
    import cotan.math as cmath_
    import cotan.numpy as cnp

    assert cnp.pi == np.pi and cnp.linalg is np.linalg and "zeros" in dir(cnp)
    assert type(cnp.zeros(2)) is np.ndarray and cnp.float64 is np.float64
    assert cmath_.sin(0.5) == math.sin(0.5)
    with ct.lifting(False):
        f = lambda x: cnp.sum(cnp.array([cmath_.exp(x), x]))
        assert ct.gradient(f, 0.0) == (2.0,)
    with pytest.raises(AttributeError, match="nothing"):
        cnp.nothing  # noqa: B018


@pytest.mark.parametrize(
    "name",
    [
        *("fft", "fftpack", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal"),
        *("special", "stats", "spatial.distance", "sparse", "sparse.linalg"),
    ],
)
def test_namespaces_of_scipy(name):
    ours = importlib.import_module(f"cotan.scipy.{name}")
    theirs = importlib.import_module(f"scipy.{name}")
    assert set(theirs.__all__) <= set(dir(ours))
    functions = [n for n in theirs.__all__ if not inspect.ismodule(getattr(theirs, n))]
    own = [n for n in functions if getattr(ours, n) is not getattr(theirs, n)]
    assert all(getattr(ours, n).__name__ == getattr(theirs, n).__name__ for n in own)
    if name == "linalg":
        with ct.lifting(False):
            (g,) = ct.gradient(lambda b: np.sum(ours.solve(2 * np.eye(2), b)), np.ones(2))
        np.testing.assert_allclose(g, 0.5)


# --------------------------------------------------------------------------------------------------
# Code of libraries


def test_libraries_make_plain_arrays_of_constants():
    t = np.linspace(0, 1, 5)

    def f(x):
        spline = scipy.interpolate.CubicSpline(np.linspace(0.0, 1.0, 5), np.array(t) ** 2)
        root = scipy.optimize.brentq(lambda s: s**2 - 2.0, 0.0, 2.0)
        best = scipy.optimize.minimize(lambda p: np.sum((p - 1.0) ** 2), np.zeros(2)).x
        return x * spline(0.5) * root * best[0]

    assert ct.gradient(f, 1.0)[0] == pytest.approx(0.25 * math.sqrt(2.0), rel=1e-6)


def test_compiled_code_makes_plain_arrays():
    rng = np.random.default_rng(0)

    def f(x):
        assert type(rng.normal(size=3)) is np.ndarray
        assert type(rng.normal(np.zeros(3), 1.0)) is np.ndarray
        assert type(rng.choice(np.array([1.0, 2.0]), 3)) is np.ndarray
        assert type(operator.attrgetter("zeros")(np)(3)) is np.ndarray
        from numpy import zeros

        assert type(zeros(3)) is ct.Array
        return x

    ct.gradient(f, 1.0)


def test_deques_of_traced_values():
    def f(x):
        window = collections.deque([x, 2 * x], maxlen=2)
        window.append(x * x)
        return np.mean(window) + np.std(window) + np.array(window)[0]

    slope = ct.gradient(f, 1.5)[0]
    assert slope == pytest.approx((f(1.5 + 1e-6) - f(1.5 - 1e-6)) / 2e-6)


def test_lists_of_traced_values():
    def f(x):
        y = [x, 2 * x, 1.0]
        return (
            np.sum(y) + np.mean(y) * np.max(y) + np.linalg.norm(y) + np.dot(y, [1, x, 3])
            + np.cross(y, [1.0, x, 0.0])[2] + np.var([y, y], axis=1)[0] + np.cumsum(y)[1]
            + np.interp(1.5, [0.0, 1.0, 2.0], y) + np.trapezoid(y, [0.0, x, 4.0])
        )  # fmt: skip

    x = 1.25
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(f(x), rel=1e-14)
    assert gradient == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-7)


def test_a_function_is_found_in_tables():
    names = {np.mean: "mean", np.zeros: "zeros", math.sin: "sin"}

    def f(x):
        assert [names[g] for g in (np.mean, np.zeros, math.sin)] == ["mean", "zeros", "sin"]
        assert np.mean is next(iter(names))
        assert pickle.loads(pickle.dumps(np.mean)) is np.mean
        assert repr(math.sin) == "<built-in function sin>"
        return x

    ct.gradient(f, 1.0)


def test_functions_of_the_originals_themselves():
    assert ct.gradient(math.exp, 0.0) == (1.0,)
    assert ct.gradient(math.hypot, 3.0, 4.0) == (0.6, 0.8)


def test_arrays_made_while_recording_go_to_c_code():
    def f(x):
        made = np.zeros(3)
        made[1] = 2.0
        assert np.random.default_rng(0).normal(made, 0.0)[1] == 2.0
        assert pickle.loads(pickle.dumps(made))[1] == 2.0
        assert float(made[1]) == 2.0 and made.tolist() == [0.0, 2.0, 0.0]
        assert {made[1]: "two"}[2.0] == "two"
        return x * made[1]

    assert ct.gradient(f, 1.0) == (2.0,)


def test_what_is_pickled_by_its_name_while_recording():
    plain = np.ndarray, np.matrix, np.poly1d, np.float64

    def f(x):
        for dumps in (pickle.dumps, pickle._dumps):
            for value in (np.ndarray, np.zeros, np.poly1d, np.float64):
                assert pickle.loads(dumps(value)) == value
        # The pickler of libraries that send functions elsewhere is Python code, too.
        assert all(pickle.loads(pickle._dumps(value)) == value for value in plain)
        for dumps in (pickle.dumps, pickle._dumps):
            with pytest.raises(TypeError, match="module"):
                dumps(np)  # as ever
        return x

    assert ct.gradient(f, 1.0) == (1.0,)


def test_attributes_of_functions_are_set_and_deleted():
    """Of the function itself."""

    def f(x):
        largest = np.max
        largest.__name__ = "largest"
        np.mean.note = 3
        assert np.mean.note == 3
        del np.mean.note
        assert not hasattr(np.mean, "note")
        with pytest.raises(AttributeError, match="note"):
            np.array.note = 3
        return largest(x)

    try:
        assert ct.gradient(f, np.array([1.0, 2.0]))[0].tolist() == [0.0, 1.0]
        assert np.max.__name__ == "largest"
    finally:
        np.max.__name__ = "max"
