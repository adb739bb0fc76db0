"""Names that NumPy does not dispatch, while something is recorded and otherwise."""

import array
import cmath
import collections
import gc
import importlib
import inspect
import math
import multiprocessing
import operator
import os
import pickle
import statistics
import struct
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
from hypothesis import given
from hypothesis import strategies as st

import cotan as ct

X = np.array([0.5, 1.0, 1.5])
NAMES = [(np, "zeros"), (np, "array"), (np, "r_"), (np, "vectorize"), (math, "sin"), (cmath, "exp")]
BEFORE = [getattr(module, name) for module, name in NAMES]


def is_as_before():
    same = all(getattr(m, n) is f for (m, n), f in zip(NAMES, BEFORE, strict=True))
    return same and type(np) is types.ModuleType and type(np.zeros(2)) is np.ndarray


def differences(f, x, step=1e-6):
    x = np.asarray(x, float)
    flat = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(x.size)]
    return np.array(flat)


# --------------------------------------------------------------------------------------------------
# When names are lifted


def test_names_are_lifted_while_recording_only():
    def f(x):
        assert np.zeros is not BEFORE[0] and np.r_ is not BEFORE[2]
        assert type(np.zeros(3)) is ct.Array and math.sin(0.5) == BEFORE[4](0.5)
        return x

    assert is_as_before()
    ct.gradient(f, 1.0)
    assert is_as_before()


@pytest.mark.parametrize("transform", [ct.gradient, ct.value_and_gradient, ct.pullback, ct.trace])
def test_exceptions_take_the_names_back(transform):
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
        assert np.zeros is not BEFORE[0]
        return np.array([g, x])[0]

    assert ct.gradient(outer, 0.3)[0] == pytest.approx(-math.sin(0.3))
    assert is_as_before()


def test_a_failed_inner_recording_leaves_the_outer_one_lifted():
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


def test_names_that_are_kept_from_a_recording_are_the_originals_outside():
    kept = []

    def f(x):
        kept.extend([np.zeros, math.sin, np.r_, np.fromiter])
        return x

    ct.gradient(f, 1.0)
    zeros, sin, r_, fromiter = kept
    assert type(zeros(2)) is np.ndarray and sin(0.5) == math.sin(0.5)
    assert type(r_[1.0, 2.0]) is np.ndarray
    assert type(fromiter(iter([1.0]), float)) is np.ndarray
    assert zeros.__wrapped__ is np.zeros and zeros.__name__ == "zeros"
    assert sin.__doc__ == math.sin.__doc__ and inspect.signature(sin) == inspect.signature(math.sin)


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


def test_classes_of_modules_are_counted_as_the_interpreter_counts_them():
    lifted: list[type] = []
    ct.gradient(lambda x: (lifted.append(type(np)), x)[1], 1.0)
    gc.collect()
    before = sys.getrefcount(lifted[0]), sys.getrefcount(types.ModuleType)
    for _ in range(100):
        ct.gradient(math.sin, 1.0)
    assert lifted[0] is not types.ModuleType
    assert (sys.getrefcount(lifted[0]), sys.getrefcount(types.ModuleType)) == before


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


def module_of(code):
    module = types.ModuleType("simulation")
    exec(code, vars(module))
    return module


def test_names_imported_before(out_of_reach):
    module = module_of(
        "from math import *\nfrom numpy import array, zeros\n"
        "def f(x):\n    y = zeros(2)\n    y[0] = sin(x)\n    return (y + array([x, 1.0]))[0]\n"
    )
    message = r"zeros: imported by name.*ct\.lift_module\(simulation\)"
    with pytest.raises(TypeError, match=message):
        ct.gradient(out_of_reach(module.f), 3.0)
    before = module.f(3.0)
    ct.lift_module(module)
    assert ct.gradient(module.f, 3.0)[0] == pytest.approx(math.cos(3.0) + 1)
    assert module.f(3.0) == before and type(module.zeros(2)) is np.ndarray
    assert module.pi == math.pi
    with pytest.raises(TypeError, match="takes modules, not str"):
        ct.lift_module("simulation")


def test_the_hint_is_not_given_where_it_would_not_help():
    with pytest.raises(TypeError) as caught:
        ct.gradient(lambda x: operator.index(x) and np.asarray([x], dtype=object), 1)
    assert "lift_module" not in str(caught.value)


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


def test_a_stand_in_is_found_like_the_original():
    names = {np.mean: "mean", np.zeros: "zeros", math.sin: "sin"}

    def f(x):
        assert [names[g] for g in (np.mean, np.zeros, math.sin)] == ["mean", "zeros", "sin"]
        assert np.mean == next(iter(names))
        assert pickle.loads(pickle.dumps(np.mean)) in names
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


# --------------------------------------------------------------------------------------------------
# Making arrays


@pytest.mark.parametrize(
    "make",
    [
        lambda x: np.array([x, 1.0, 2 * x]),
        lambda x: np.array([[x, 0], [1, x]]),
        lambda x: np.array((x, x), dtype=np.float32),
        lambda x: np.array([x * np.ones(2), [1.0, x]]),
        lambda x: np.asarray([x, x]),
        lambda x: np.asarray(x),
        lambda x: np.atleast_1d(x),
        lambda x: np.array(x, ndmin=2),
        lambda x: np.asfortranarray([[x, 1.0]]),
        lambda x: np.ascontiguousarray(x),
        lambda x: np.require([x, x], requirements="C"),
        lambda x: np.full((2, 3), x),
        lambda x: np.full(3, x, dtype=complex),
        lambda x: np.full_like(np.zeros(2), x),
        lambda x: np.arange(x, x + 3.0),
        lambda x: np.arange(3) * x,
        lambda x: np.linspace(0.0, x, 4),
        lambda x: np.logspace(0.0, x, 4),
        lambda x: np.fromiter((x * i for i in range(3)), float),
        lambda x: np.fromiter([x, x, x], float, count=2),
        lambda x: np.fromfunction(lambda i, j: i * x + j, (2, 3)),
        lambda x: np.r_[x, 1.0, [x, 2.0]],
        lambda x: np.c_[np.array([x, 1.0]), np.array([2.0, x])],
        lambda x: np.mgrid[-x:3, 0:2],
        lambda x: np.mgrid[0:x:3j, 1:2:2j],
        lambda x: np.mgrid[0:2:x, :2] - np.mgrid[x:9:4j][1],
        lambda x: sum(np.ogrid[0 : 2 * x, x:4:0.5]),
        lambda x: np.diag([x, 2.0]),
        lambda x: np.eye(2) * x,
        lambda x: np.vectorize(lambda a, b: math.sin(a) if b > 1 else a)([x, 2 * x], [1, 2]),
        lambda x: np.vectorize(lambda a: (a, a * a))(np.array([x, 1.0]))[1],
        lambda x: np.array([v for _, v in np.ndenumerate(np.array([[x, 1.0]]))]),
        lambda x: np.block([[np.eye(2) * x, np.zeros((2, 1))]]),
        lambda x: np.concatenate(([x], [1.0, x])),
        lambda x: np.array([np.float32(1.0), x]),
        lambda x: np.copy([x, 2 * x]),
        lambda x: np.full(np.broadcast(x, np.zeros((2, 3))).shape, x),
        lambda x: np.linspace(np.float32(0.0), x, 3),
        lambda x: np.hypot.reduce([-x]) + np.hypot.reduce(np.array([[-x], [2.0]]), axis=1),
    ],
)
def test_made_of_traced_values(make):
    def f(x):
        y = make(x)
        return np.sum(np.real(y) * np.arange(1.0, np.size(y) + 1).reshape(np.shape(y)))

    x = 1.25
    plain = make(x)
    seen = []

    def g(x):
        y = make(x)
        seen.append((np.shape(y), y.dtype))
        return f(x)

    value, (gradient,) = ct.value_and_gradient(g, x)
    assert seen == [(np.shape(plain), plain.dtype)]
    rough = plain.dtype == np.float32
    assert value == pytest.approx(f(x), rel=1e-6 if rough else 1e-13)
    expected = (f(x + 1e-2) - f(x - 1e-2)) / 2e-2
    assert gradient == pytest.approx(expected, rel=2e-3)


def test_a_vectorized_function_of_what_it_closes_over():
    plain = np.array([1.0, -2.0, 3.0])
    f = lambda x: np.sum(np.vectorize(lambda a: a * x if a > 0 else 0.0)(plain))
    assert ct.gradient(f, 2.5) == (4.0,)
    counts = ct.gradient(lambda x: x * np.vectorize(lambda a: int(a > 0))(plain).sum(), 1.0)
    assert counts == (2.0,)


def test_a_vectorized_function_is_called_as_numpy_calls_it():
    class Step:
        def __init__(self, height):
            self.height, self.called = height, 0

        def at(self, t):
            self.called += 1
            return self.height if t > 1.0 else 0.0

    def f(x, t):
        step = Step(x)
        y = np.vectorize(Step.at, otypes=[float])(step, t)
        assert step.called == np.size(t) and isinstance(y, np.ndarray) and y.shape == np.shape(t)
        return np.sum(y)

    assert ct.gradient(lambda x: f(x, 1.5), 3.0) == (1.0,)
    assert ct.gradient(lambda x: f(x, [0.5, 1.5, 2.0]), 3.0) == (2.0,)
    kinds = lambda x: np.vectorize(lambda a, b: b * (type(a) is int) * (type(b) is float))
    assert ct.gradient(lambda x: x * kinds(x)([1, 2], 1.5).sum(), 3.0) == (3.0,)
    with pytest.raises(ZeroDivisionError):
        ct.gradient(lambda x: x * np.vectorize(lambda a: 1.0 / a)([0.0]).sum(), 3.0)


def test_compiled_code_that_takes_memory_is_told_what_has_it():
    vq = pytest.importorskip("scipy.cluster.vq")
    with pytest.raises(TypeError, match=r"got cotan\.Array.*np\.asarray\(x\).*ct\.dropgrad\(x\)"):
        ct.gradient(lambda x: np.sum(vq.kmeans(x, 2)[0]), np.arange(5.0)[:, None])


def test_what_is_broadcast_is_iterated_over():
    table = np.array([[1.0, 2.0], [3.0, 4.0]])

    def f(x):
        b = np.broadcast(np.array([x, 2 * x]), [[3.0], [4.0]])
        assert (b.shape, b.ndim, b.nd, b.size, b.numiter) == ((2, 2), 2, 2, 4, 2)
        first = next(b)
        assert isinstance(first[0], np.float64)
        assert b.index == 1
        total = sum(p * q for p, q in b)
        b.reset()
        total = total + sum(p * q for p, q in b) * x
        made = np.array([[1.0], [2.0]])
        total = total + sum(p * q for p, q in np.broadcast(made, table)) * x
        return total + sum(sum(p) for p in np.broadcast(x, table).iters)

    value, (slope,) = ct.value_and_gradient(f, 0.7)
    assert value == pytest.approx(f(0.7), rel=1e-12)
    assert slope == pytest.approx((f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6, rel=1e-6)


def test_iterators_over_memory():
    made = []

    def f(x):
        made.extend(float(v) for v in np.nditer(np.array([1.0, 2.0])))
        with pytest.raises(TypeError, match=r"nditer: .* x\.flat, np\.ndenumerate"):
            np.nditer(np.array([x, x]), ["external_loop"])
        return x

    ct.gradient(f, 1.0)
    assert made == [1.0, 2.0]


def test_arrays_that_do_not_fit_together_are_elements_of_an_array_of_objects():
    """Weights of all layers, say."""
    layers = [np.ones((3, 2)), np.ones((1, 2)), np.ones((2, 4))]

    def f(x, kind):
        weights = np.array([kind(w, x) for w in layers], dtype=object)
        assert weights.shape == (3,) and weights[0].shape == (3, 2)
        weights = weights - 0.5 * weights**2
        weights += np.array([[x, 1.0], None, [x]], dtype=object)[2][0] * weights
        return np.sum(weights[0]) * np.sum(weights[2])

    for kind in (lambda w, x: w * x, lambda w, x: w * x if len(w) > 1 else w):
        value, (slope,) = ct.value_and_gradient(lambda x, kind=kind: f(x, kind), 1.25)
        assert value == pytest.approx(f(1.25, kind))
        wanted = (f(1.25 + 1e-6, kind) - f(1.25 - 1e-6, kind)) / 2e-6
        assert slope == pytest.approx(wanted, rel=1e-6)
    with pytest.raises(ValueError, match="could not broadcast"):
        ct.gradient(lambda x: np.array([x * np.ones((2, 3)), np.ones((2, 4))], object)[0], 1.0)


def test_what_cannot_be_made():
    with pytest.raises(ValueError, match="shapes"):
        ct.gradient(lambda x: np.sum(np.array([x, [x, x]])), 1.0)
    with pytest.raises(ValueError, match="too short"):
        ct.gradient(lambda x: np.sum(np.fromiter([x], float, count=3)), 1.0)
    with pytest.raises(TypeError, match="leave out dtype=object"):
        ct.gradient(lambda x: np.sum(np.sin(np.array([x, x], dtype=object))), 1.0)


# --------------------------------------------------------------------------------------------------
# math

UNARY = {
    **dict.fromkeys(["sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan"], 0.3),
    **dict.fromkeys(["asinh", "atanh", "exp", "expm1", "sqrt", "log", "log2", "log10"], 0.3),
    **dict.fromkeys(["log1p", "erf", "erfc", "degrees", "radians", "fabs", "acosh"], 1.3),
    **{name: 0.7 for name in ("cbrt", "exp2") if hasattr(math, name)},
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name):
    x = UNARY[name]
    value, (gradient,) = ct.value_and_gradient(lambda x: getattr(math, name)(x), x)
    f = getattr(math, name)
    assert value == pytest.approx(f(x), rel=4e-16)
    assert gradient == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-7)
    second = ct.gradient(lambda x: ct.gradient(lambda y: getattr(math, name)(y), x)[0], x)[0]
    expected = (f(x + 1e-4) - 2 * f(x) + f(x - 1e-4)) / 1e-8
    assert (0.0 if second is None else second) == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: math.pow(x, 2.5),
        lambda x: math.pow(2.0, x),
        lambda x: math.atan2(x, 2.0) + math.atan2(0.5, x),
        lambda x: math.hypot(x, 2.0, x * x),
        lambda x: math.dist([x, 1.0], (0.0, x * x)),
        lambda x: math.fmod(5.0 * x, 1.5) + math.fmod(7.0, x),
        lambda x: math.remainder(5.0 * x, 1.5),
        lambda x: math.copysign(x, -2.0),
        lambda x: math.log(x, 3) + math.log(7.0, x + 2),
        lambda x: math.gamma(x) * math.lgamma(x + 1.5),
        lambda x: math.modf(3 * x)[0] + math.modf(3 * x)[1],
        lambda x: math.frexp(x)[0] * math.frexp(x)[1],
        lambda x: math.ldexp(x, 3),
        lambda x: math.fsum([x, x * x, 1.0]),
        lambda x: math.prod([x, x * x, 2.0], start=3),
        lambda x: x * math.floor(x) + math.ceil(x) + math.trunc(x),
        lambda x: x if math.isfinite(x) and not math.isnan(x) and math.isclose(x, x) else 0 * x,
        lambda x: abs(cmath.exp(1j * x) + cmath.sqrt(x) + cmath.log(x + 1j)) ** 2,
        lambda x: cmath.polar(x + 2j)[0] + cmath.phase(x + 2j) + cmath.rect(x, x).imag,
    ],
)
def test_other_functions_of_numbers(f):
    x = 1.3
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(f(x), rel=1e-14)
    assert gradient == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: math.sqrt(x), -1.0),
        (lambda x: math.log(x), 0.0),
        (lambda x: math.acos(x), 2.0),
        (lambda x: math.exp(x), 1000.0),
        (lambda x: math.pow(x, 0.5), -1.0),
        (lambda x: math.fmod(1.0, x), 0.0),
        (lambda x: math.sin(np.array([x, x])), 1.0),
        (lambda x: math.sin(1j * x), 1.0),
        (lambda x: math.dist([x], [x, x]), 1.0),
    ],
)
def test_values_that_math_refuses(f, x):
    with pytest.raises(Exception) as expected:  # noqa: PT011
        f(x)
    with pytest.raises(expected.type):
        ct.gradient(f, x)


# --------------------------------------------------------------------------------------------------
# Elements and rows


def fill(x):
    """Write every kind of element and row, in several orders, and read in between."""
    out, table = np.zeros(5), np.empty((4, 3))
    out[0] = 7.0
    for i in range(4):
        out[i + 1] = out[i] * x[i % 3]
    table[:] = 2.0
    for i in range(1, 4):
        table[i] = table[i - 1] * x + out[i]
    table[2, 1] = x[0]
    table[0, :2] = out[:2]
    row = table[3]
    row[0] += x[2]
    row *= 2.0
    out[-1] = 3.0
    out[1:3] += 1.0
    table.T[2][1] = out[2] * x[1]
    return np.sum(table * table) + np.sum(out * np.arange(5.0)) + out[4] * out[3]


def test_elements_and_rows():
    value, (gradient,) = ct.value_and_gradient(fill, X)
    assert value == pytest.approx(fill(X), rel=1e-14)
    np.testing.assert_allclose(gradient, differences(fill, X), rtol=1e-6)


def test_elements_that_nothing_was_written_into_are_numpys_scalars():
    def f(x):
        out = np.zeros(3)
        out[1] = x
        assert type(out[0]) is np.float64 and type(out[1]) is ct.Array
        out[1] = 4.0
        assert type(out[1]) is np.float64 and out[1] == 4.0
        single = np.ones(2, np.float32)
        single[0] = 0.1
        assert type(single[0]) is np.float32 and single[0] == np.float32(0.1)
        return x

    ct.gradient(f, 1.0)


def test_whole_numbers_stay_plain():
    def f(x):
        counts = np.zeros(3, int)
        counts[1] += 1
        assert type(counts) is np.ndarray
        counts[2] = int(x)
        mask = np.zeros(2, bool)
        mask[0] = x > 1
        assert type(mask) is np.ndarray and mask[0]
        return x * counts[1] * counts[2]

    assert ct.gradient(f, 2.5) == (2.0,)


def test_a_program_of_elements_has_one_equation_for_each():
    def f(x):
        out = np.zeros(50)
        for i in range(50):
            out[i] = x * i
        return np.sum(out)

    program = ct.trace(f, 1.0)
    names = [e.primitive for e in program.equations] if hasattr(program, "equations") else None
    text = str(program)
    assert text.count("stack") == 1 and "update" not in text and "scatter" not in text, names


INDEX = st.integers(-4, 3)
VALUE = st.sampled_from(
    ["x[0]", "x[1] * 2", "1.5", "a[1]", "t[2, 1]", "np.sin(x[2])", "np.float32(2)"]
)
ROW = st.sampled_from(["x * 1.5", "t[1]", "2.0", "t[:, 0][:3]", "a[:3]", "t[-1] + x"])
TARGET = st.sampled_from(["a", "b", "u"])
LINES = st.one_of(
    st.builds("{}[{}] = {}".format, TARGET, INDEX, VALUE),
    st.builds("{}[{}] += {}".format, TARGET, INDEX, VALUE),
    st.builds("t[{}] = {}".format, INDEX, ROW),
    st.builds("t[{}] *= {}".format, INDEX, ROW),
    st.builds("t[{}, {}] = {}".format, INDEX, st.integers(-3, 2), VALUE),
    st.builds("v[{}] = {}".format, st.integers(-3, 2), VALUE),
    st.builds("w[{}] -= {}".format, INDEX, VALUE),
    st.builds("a[{}:] = b[:{}]".format, st.just(1), st.just(3)),
    st.builds("keep.append({})".format, st.sampled_from(["a[0]", "t[2]", "v", "a * 2", "t[1:3]"])),
    st.sampled_from(
        [
            "a = a + b",
            "b = a",
            "v = t[2]",
            "w = t[:, 1]",
            "u = a[::-1]",
            "t = t.T.copy().T",
            "total = total + a[1] * t[1, 2]",
            "total = total + np.sum(t)",
            "a[:] = 1.0",
            "a.sort()",
            "np.add.at(a, [0, 0, 2], x)",
        ]
    ),
)


def run_lines(lines, x):
    env = {"np": np, "x": x, "total": 0.0, "keep": []}
    start = "a, b, t = np.zeros(4), np.ones(4), np.full((4, 3), 0.5)\n"
    text = start + "v, w, u = t[1], t[:, 0], a[::-1]\n" + "\n".join(lines)
    exec(compile(text, "<lines>", "exec"), env)
    parts = [env[n] for n in "abtvwu"] + env["keep"]
    return env["total"] + sum(np.sum(p * p) * (i + 1) for i, p in enumerate(parts))


@given(st.lists(LINES, min_size=1, max_size=14))
def test_random_writes_of_elements_and_rows(lines):
    f = lambda x: run_lines(lines, x)
    x = np.array([0.3, -0.7, 1.1])
    expected = f(x)
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(expected, rel=1e-10)
    gradient = np.zeros(3) if gradient is None else gradient
    np.testing.assert_allclose(gradient, differences(f, x), rtol=1e-4, atol=1e-4 * (1 + abs(value)))


def test_an_import_inside_of_the_function_counts_at_once():
    code = (
        "import sys, numpy as np, cotan as ct\n"
        "def f(x):\n"
        "    import scipy.linalg\n"
        "    from scipy import integrate\n"
        "    a = scipy.linalg.expm(x * np.eye(2)) + scipy.linalg.toeplitz([x, 1.0])\n"
        "    return np.sum(a) + integrate.quad(lambda t: t * x, 0, 1)[0]\n"
        "(g,) = ct.gradient(f, 0.5)\n"
        "assert abs(g - (2 * np.exp(0.5) + 2 + 0.5)) < 1e-9, g\n"
        "import scipy.linalg, scipy.stats\n"
        "assert type(scipy.linalg.expm).__module__ != 'cotan._lift'\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if name.startswith('scipy') and module is not None:\n"
        "        assert 'cotan' not in type(getattr(module, '__loader__', None)).__module__\n"
        "        for value in list(vars(module).values()):\n"
        "            if type(value).__module__ == 'cotan._lift':\n"
        "                assert value.__wrapped__ is not None\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def _module(name: str, code: str) -> types.ModuleType:
    module = types.ModuleType(name)
    exec(code, vars(module))
    return module


BY_NAME = """
from math import sin
from numpy import zeros, ones, r_, c_
from numpy.linalg import norm
def f(x):
    out = zeros(3)
    out[0], out[1] = sin(x), x * x
    table = ones((2, 3))
    table[0] = out
    joined = r_[x, 2.0:4.0] * c_[[x], [1.0], [2.0]][0]
    return norm([x, 2.0]) + table.sum() + joined.sum()
"""


def test_names_that_modules_imported_before(monkeypatch, out_of_reach):
    module = _module("imported_by_name", BY_NAME)
    with pytest.raises(TypeError, match="lift_module"):
        ct.gradient(out_of_reach(module.f), 0.5)  # not among the modules
    monkeypatch.setitem(sys.modules, "imported_by_name", module)
    before = dict(vars(module))
    slope = math.cos(0.5) + 1.0 + 0.5 / math.hypot(0.5, 2.0) + 2 * 0.5
    assert ct.gradient(module.f, 0.5) == (pytest.approx(slope),)
    assert all(vars(module)[name] is value for name, value in before.items())
    assert module.zeros is np.zeros
    with ct.lifting(False), pytest.raises(TypeError):
        ct.gradient(module.f, 0.5)
    monkeypatch.delitem(sys.modules, "imported_by_name")
    with pytest.raises(TypeError, match="lift_module"):
        ct.gradient(out_of_reach(module.f), 0.5)


def test_imported_names_leave_no_trace_of_an_exception(monkeypatch):
    module = _module("imported_by_name", BY_NAME + "def g(x):\n    zeros(2)[0] = x\n    1 / 0\n")
    monkeypatch.setitem(sys.modules, "imported_by_name", module)
    with pytest.raises(ZeroDivisionError):
        ct.gradient(module.g, 0.5)
    assert module.zeros is np.zeros
    assert module.sin is math.sin
    assert type(module.zeros(2)) is np.ndarray
    # What somebody puts in the place of a name stays.
    exec("def h(x):\n    global zeros\n    zeros = list\n    return x", vars(module))
    assert ct.gradient(module.h, 0.5) == (1.0,)
    assert module.zeros is list


def test_other_threads_find_imported_names_as_they_were(monkeypatch):
    module = _module("imported_by_name", BY_NAME)
    monkeypatch.setitem(sys.modules, "imported_by_name", module)
    seen = []

    def other():
        seen.append((type(module.zeros(2)), module.sin(0.5)))

    def f(x):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return module.f(x)

    ct.gradient(f, 0.5)
    assert seen == [(np.ndarray, math.sin(0.5))]


def test_a_module_that_is_asked_after_an_error(out_of_reach):
    module = _module("asked", "import numpy as np\ndef f(x):\n    return np.float64(x) ** 2\n")
    with pytest.raises(TypeError, match="lift_module"):
        ct.gradient(out_of_reach(module.f), 3.0)
    ct.lift_module(module)
    assert ct.gradient(module.f, 3.0) == (6.0,)


class Backend:
    """A module behind a class: code that can be run with several libraries."""

    def __init__(self, module):
        self.module = module

    def __getattr__(self, name):
        return getattr(self.module, name)


def test_the_remedy_is_named_by_code_that_ran_before(out_of_reach):
    module = _module("warm", "def f(x):\n    return float(x) ** 2\n")
    for _ in range(100):
        module.f(2.0)
    with pytest.raises(TypeError, match="lift_module"):
        ct.gradient(out_of_reach(module.f), 3.0)


def test_names_that_are_asked_for_by_getattr():
    xp = Backend(np)
    for _ in range(100):
        xp.zeros(2)  # until the interpreter knows what is called there

    def f(x):
        out = xp.zeros(2)
        out[1] = x
        return xp.sum(xp.array([x, 1.0]) * out) + getattr(math, "exp")(x)  # noqa: B009

    assert ct.gradient(f, 0.5) == (pytest.approx(math.exp(0.5) + 1.0),)
    g = ct.gradient(lambda x: xp.sum(xp.asarray([1.0, x]) * xp.array([3.0, 2.0])), 0.5)
    assert g == (2.0,)


def test_classes_of_numbers_that_are_asked_for_by_getattr():
    """They are dtypes more often than calls."""

    def f(x, *names):
        kinds = [getattr(np, name, None) for name in names]
        assert kinds[0] is np.float64
        total = np.zeros(2, dtype=kinds[0])
        total[0] = x[0]
        return np.cumsum(x, dtype=kinds[0])[-1] + np.sum(total) + x.astype(kinds[1])[1]

    (slope,) = ct.gradient(lambda x: f(x, "float64", "float32"), np.ones(3))
    np.testing.assert_array_equal(slope, [2.0, 2.0, 1.0])


def test_functions_of_scipy_that_are_differentiated_themselves():
    a = np.array([[2.0, 1.0], [0.5, 3.0]])
    for module, name in ((scipy.linalg, "det"), (scipy.special, "logsumexp")):
        f = getattr(module, name)
        expected = ct.gradient(lambda a, m=module, n=name: getattr(m, n)(a), a)
        np.testing.assert_array_equal(ct.gradient(f, a)[0], expected[0])
        np.testing.assert_allclose(ct.pullback(f, a)[0], f(a))


def test_names_that_a_program_has_given_to_functions_of_numpy(tmp_path):
    """As programs do that were written for versions of NumPy that had these names."""
    (tmp_path / "program.py").write_text(
        "import numpy as np\n"
        "def f(x):\n"
        "    made = np.nils(2)\n"
        "    made[0] = np.float(x) * np.float_(x)\n"
        "    return (np.mat([[x, 1.0]]) * np.mat([[x], [2.0]]))[0, 0] + made.sum()\n"
    )
    code = (
        "import numpy as np, cotan as ct\n"
        "np.mat, np.float, np.float_, np.nils = np.asmatrix, float, np.float64, np.zeros\n"
        "import program\n"
        "assert ct.value_and_gradient(program.f, 3.0) == (20.0, (12.0,))\n"
        "assert np.float is float and np.nils is np.zeros\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=tmp_path)


def test_numbers_in_memory_of_their_own_name_what_holds_traced_ones():
    def appended(x):
        kept = array.array("d")
        kept.append(x)
        return kept[0]

    def written(x):
        kept = array.array("d", [1.0])
        kept[0] *= x
        return kept[0]

    for f in (appended, written, lambda x: array.array("d", [x])[0]):
        with pytest.raises(TypeError, match=r"array\.array cannot hold traced values: .* a list"):
            ct.gradient(f, 2.0)
    with pytest.raises(struct.error, match="ct.dropgrad"):
        ct.gradient(lambda x: len(struct.pack("d", x)) * x, 2.0)


def test_numpy_random_is_loaded_inside():
    code = (
        "import sys, numpy as np, cotan as ct\n"
        "assert 'numpy.random' not in sys.modules\n"
        "def f(x):\n    np.random.seed(0)\n    return x * np.random.normal(x, 2.0)\n"
        "slope, = ct.gradient(f, 3.0)\n"
        "assert abs(slope - (f(3.001) - f(2.999)) / 0.002) < 1e-6, slope\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_code_that_has_run_often_is_told_the_same_remedy(out_of_reach):
    module = types.ModuleType("warm")
    exec("def f(x):\n    y = float(x)\n    return y * y", vars(module))
    for _ in range(100):
        module.f(2.0)
    with pytest.raises(TypeError, match=r"ct\.lift_module\(warm\)"):
        ct.gradient(out_of_reach(module.f), 2.0)


def test_lists_beside_scalars_of_numpy():
    """What NumPy hands out as a scalar answers for no array of ours."""

    def f(x):
        y = x * np.arange(4.0)
        return np.interp(np.float64(1.5), [np.float64(1.0), 2.0], [y[1], y[2]])

    assert ct.gradient(f, 3.0) == (1.5,)


def test_every_complaint_of_a_library_names_the_remedy(out_of_reach):
    module = types.ModuleType("frames")
    exec("from numpy.lib.stride_tricks import as_strided", vars(module))
    exec("def f(x): return as_strided(x * 1.0, (2, 2), (8, 8)).sum()", vars(module))
    with pytest.raises(AttributeError, match=r"ct\.lift_module\(frames\)"):
        ct.gradient(out_of_reach(module.f), np.arange(3.0))
    ct.lift_module(module)
    np.testing.assert_array_equal(ct.gradient(module.f, np.arange(3.0))[0], [1.0, 2.0, 1.0])


def test_a_library_under_another_name_keeps_its_names(monkeypatch):
    monkeypatch.setitem(sys.modules, "borrowed.numpy", np)

    def f(x):
        assert vars(np)["asarray"] is before
        return np.sum(np.asarray([x, 1.0]) / np.sqrt(4))

    before = vars(np)["asarray"]
    assert ct.gradient(f, 3.0) == (0.5,)


def test_steps_by_keywords():
    def f(x):
        y = np.arange(start=x, stop=3.0) + np.arange(stop=2.5 * x, step=x)[:2]
        return np.sum(y) + np.sum(np.arange(3, step=x)) + np.arange(x, 4.0, dtype=np.float64)[1]

    value, (slope,) = ct.value_and_gradient(f, 1.25)
    assert value == pytest.approx(f(1.25))
    assert slope == pytest.approx((f(1.25 + 1e-6) - f(1.25 - 1e-6)) / 2e-6)


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(4.9, 10.0, 0.1), (-0.7, 20.0, 0.3), (1e3, 1e3 + 2, 1e-3), (0.0, 1.0, 0.1)],
)
def test_steps_in_the_last_digits(start, stop, step):
    """What goes on from the last step counts the steps that follow by these digits."""
    seen = ct.pullback(lambda a, b, c: np.arange(a, b, c), start, stop, step)[0]
    np.testing.assert_array_equal(np.asarray(seen), np.arange(start, stop, step))
    slopes = ct.gradient(lambda a, b, c: np.arange(a, b, c)[7], start, stop, step)
    assert slopes == (1.0, None, 7.0)


def test_gradients_inside_say_a_remedy_once():
    def f(x):
        return ct.gradient(lambda y: ct.gradient(lambda z: eval(repr(z), {}), y)[0], x)[0]

    with pytest.raises(NameError) as caught:
        ct.gradient(f, 2.0)
    assert str(caught.value).count("hand the value itself") == 1


def test_texts_of_constants_are_those_of_numpy():
    """Programs evaluate them; what is followed has a text that cannot be evaluated in silence."""

    def f(x):
        made = np.zeros(2)
        made[0] = 1.5
        assert repr(made) == "array([1.5, 0. ])" and f"{[made.max()]}" == "[np.float64(1.5)]"
        assert np.all(eval("np." + repr(made)) == made)
        return x * made[0]

    assert ct.gradient(f, 2.0) == (1.5,)
    with pytest.raises(NameError, match="would drop the gradient"):
        ct.gradient(lambda x: eval(f"sum({[x, x]})"), 2.0)


def test_libraries_that_keep_numbers_are_named():
    process = pytest.importorskip("sklearn.gaussian_process")
    model = process.GaussianProcessRegressor(alpha=0.1, optimizer=None).fit(np.eye(3), np.ones(3))

    def f(x):
        return np.sum(model.predict(x))

    with pytest.raises(TypeError, match="sklearn keeps values in memory of its own"):
        ct.gradient(f, np.eye(3))
