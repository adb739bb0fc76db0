"""Functions with solvers in them are replayed: the solver runs again, and gives its derivatives."""

import gc
import math
import threading
import warnings
import weakref

import numpy as np
import pytest
from automatic_replays import OFTEN, expected, is_run, replays

import cotan as ct

optimize = pytest.importorskip("scipy.optimize")
integrate = pytest.importorskip("scipy.integrate")

X = np.linspace(0.0, 4.0, 50)
Y = 2.5 * np.exp(-1.3 * X) + 0.5 + 0.05 * np.sin(40 * X)
START = [2.0, 1.0, 0.0]
scale = 1.0


def equation(x, p):
    return x * np.exp(x * scale) - p


def equations(v, p):
    return [v[0] * np.cos(v[1]) - p[0], v[0] * v[1] - v[1] - p[1]]


def decay(x, a, b, c):
    return a * np.exp(-b * x) + c


def brentq(p, high=3.0):
    return optimize.brentq(lambda x: x * np.exp(x) - p, 0.0, high)


def brentq_by_helper(p):
    return optimize.brentq(lambda x: equation(x, p), 0.0, 3.0)


def bisect_with_args(p):
    return optimize.bisect(equation, 0.0, 3.0, args=(p,))


def brentq_with_report(p):
    root, report = optimize.brentq(lambda x: x * np.exp(x) - p, 0.0, 3.0, full_output=True)
    # The number of steps differs from call to call.
    return root**2 + report.root if report.iterations % 2 else np.sin(root)


def newton(p):
    return optimize.newton(lambda x: x * np.exp(x) - p, 1.0, fprime=lambda x: (1 + x) * np.exp(x))


def root_scalar(p):
    found = optimize.root_scalar(lambda x: x * np.exp(x) - p, bracket=[0.0, 3.0])
    return found.root if found.converged else 0.0 * p


def fsolve(p):
    return np.sum(optimize.fsolve(lambda v: equations(v, p), [1.0, 1.0]) ** 2)


def root(p):
    found = optimize.root(lambda v: equations(v, p), [1.0, 1.0])
    return np.sum(found.x) * found.nfev + np.sum(found.fun)


def quad(p):
    return integrate.quad(lambda x: np.exp(-p * x) * np.sin(x), 0.0, 3.0)[0]


def quad_with_args(p):
    value, error = integrate.quad(lambda x, a, b: np.exp(-a * x) * b, 0.0, np.inf, args=(p, 2.0))
    return value + error


def several(p):
    q = np.sin(p) ** 2 + 0.3
    a = optimize.brentq(lambda x: x * np.exp(x) - q, 0.0, 3.0)
    for i in range(3):
        a = optimize.brentq(lambda x, a=a, i=i: x**3 + x - a - 0.1 * i * p, -1.0, 5.0)
    return integrate.quad(lambda x: np.exp(-a * x) * p, 0.0, 1.0)[0]


def unused(p):
    optimize.brentq(lambda x: x * np.exp(x) - p, 0.0, 3.0)
    return p * p


def curve_fit(y):
    return np.sum(optimize.curve_fit(decay, X, y, START)[0])


def with_covariance(y):
    best, covariance = optimize.curve_fit(decay, X, y, START)
    return np.sum(best) + np.sum(np.sqrt(np.diag(covariance)))


NUMBERS = [0.5 + 0.07 * i for i in range(OFTEN)]
PAIRS = [np.array([0.7 + 0.03 * i, 0.4 - 0.01 * i]) for i in range(OFTEN)]
HEIGHTS = [Y * (1 + 0.01 * i) for i in range(OFTEN)]
SCALAR = [
    brentq,
    brentq_by_helper,
    bisect_with_args,
    brentq_with_report,
    newton,
    root_scalar,
    quad,
    quad_with_args,
    several,
    unused,
]
CASES = [
    *((f, NUMBERS) for f in SCALAR),
    *((f, PAIRS) for f in (fsolve, root)),
    (curve_fit, HEIGHTS),
]


def same(a, b):
    """Say whether two results of a gradient are the same, bit by bit."""
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_replays_are_what_runs_are(case):
    f, points = case
    waiting = iter(points)
    results, count = replays(lambda: ct.gradient(f, next(waiting)))
    assert count > 3
    for result, x in zip(results, points, strict=True):
        assert same(result, expected(f, x))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_prepared_functions_give_the_same(case):
    f, points = case
    g = ct.prepare(f, transform="value_and_gradient")
    for x in points:
        assert same(g(x), ct.value_and_gradient(f, x))
    if f is not brentq_with_report:
        assert g.num_recordings == 1


def test_zeros_and_none():
    def f(p, q, r):
        return brentq(p) + 0.0 * q

    x = (0.8, 0.9, 1.1)
    results, count = replays(lambda: ct.gradient(f, *x))
    assert count > 3
    assert all(result[2] is None and result[1] == 0.0 for result in results)
    full, count = replays(lambda: ct.grad(f, argnums=(0, 1, 2))(*x))
    assert full[-1][2] == 0.0


def test_variables_are_followed(monkeypatch):
    replays(lambda: ct.gradient(brentq_by_helper, 0.8))
    for value in (1.1, 1.2, 1.0):
        monkeypatch.setitem(globals(), "scale", value)
        for x in NUMBERS:
            found = ct.gradient(brentq_by_helper, x)
            assert same(found, expected(brentq_by_helper, x))


def test_arguments_that_are_held_constant():
    def area(p, high):
        return integrate.quad(lambda x: np.exp(-p * x), 0.0, high)[0]

    def start(p, c):
        return optimize.newton(lambda x: np.exp(x) * x * c[0] - p, c[1])

    def ends(p, high):
        return optimize.brentq(lambda x, a, b: x * np.exp(x) * b - a, 0.0, high, args=(p, high))

    for i, p in enumerate(NUMBERS):
        high = 2.0 + 0.1 * i
        for f, c in [
            (area, high),
            (area, np.array(high)),
            (start, np.array([high, 1.0 + 0.1 * i])),
            (ends, high),
            (ends, np.array(high)),
        ]:
            assert same(ct.gradient(f, p, ct.const(c)), expected(f, p, ct.const(c)))
            assert same(ct.gradient(f, p, c, wrt=0), expected(f, p, ct.const(c)))


def test_errors_of_solvers():
    def f(p):
        try:
            return optimize.brentq(lambda x: x - p, 0.0, 1.0)
        except ValueError as error:
            return p**2 if "different signs" in str(error) else 0.0

    for x in (*NUMBERS, 1.5, 0.5, 2.5):
        assert same(ct.gradient(f, x), (1.0 if x < 1 else 2 * x,))

    def g(p):
        return optimize.brentq(lambda x: x - p, 0.0, 1.0)

    replays(lambda: ct.gradient(g, 0.5))
    with pytest.raises(ValueError, match="different signs"):
        ct.gradient(g, 2.0)


def test_solvers_on_another_way():
    def f(p):
        return optimize.brentq(lambda x: x - p, 0.0, 3.0) if p < 2.5 else p**2

    def g(p):
        near = optimize.fsolve(lambda x: np.exp(x) - p, 1.0)[0] if p > 0 else 3.0 * p
        return near * p

    prepared = [ct.prepare(h, 1.0) for h in (f, g)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (*NUMBERS, 4.0, 1.2, -4.0, 0.7, *NUMBERS, -1.0, 5.0):
            if x > 0:
                assert same(ct.gradient(f, x), expected(f, x))
                assert same(prepared[0](x), expected(f, x))
            assert same(ct.gradient(g, x), expected(g, x))
            assert same(prepared[1](x), expected(g, x))


def test_slopes_of_zero():
    def f(p):
        return optimize.newton(lambda x: x**3 - p, 1.0)

    replays(lambda: ct.gradient(f, 0.5))
    with pytest.raises((ValueError, RuntimeError)):
        expected(f, 0.0)
    with pytest.raises((ValueError, RuntimeError)):
        ct.gradient(f, 0.0)


def test_solvers_that_warn():
    def f(p):
        return integrate.quad(lambda x: np.abs(np.sin(100 * x * p)), 0.0, 3.0, limit=3)[0]

    for x in NUMBERS:
        told = []
        for call in (ct.gradient, expected):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                call(f, x)
            told.append([(w.category, str(w.message), w.filename, w.lineno) for w in caught])
        assert told[0] == told[1]
        assert len(told[0]) == 1


def test_the_derivative_of_a_covariance():
    assert is_run(with_covariance, Y)
    assert same(ct.gradient(with_covariance, Y), expected(with_covariance, Y))
    g = ct.prepare(with_covariance, transform="gradient")
    np.testing.assert_allclose(g(1.01 * Y)[0], ct.gradient(with_covariance, 1.01 * Y)[0], rtol=1e-9)


def test_parts_without_a_derivative():
    def f(p):
        found = optimize.root(lambda v: equations(v, p), [1.0, 1.0])
        return np.sum(found.x) + np.sum(found.fjac)

    for _ in range(OFTEN):
        with pytest.raises(ct.NotDifferentiableError, match="fjac of root has no derivative rule"):
            ct.gradient(f, PAIRS[0])
    with pytest.raises(ct.NotDifferentiableError, match="fjac of root has no derivative rule"):
        ct.prepare(f, transform="gradient")(PAIRS[0])


log = []


def test_callbacks_that_do_more_are_run():
    def writes(p):
        points = []

        def g(x):
            points.append(x)
            return x * np.exp(x) - p

        return optimize.brentq(g, 0.0, 3.0) * len(points)

    def remembers(p):
        last = np.zeros(1)

        def g(x):
            last[0] = x
            return x * np.exp(x) - p

        return optimize.brentq(g, 0.0, 3.0) + last[0]

    def logs(p):
        def g(x):
            log.append(1)
            return x * np.exp(x) - p

        return optimize.brentq(g, 0.0, 3.0)

    def branches(p):
        return optimize.brentq(lambda x: x * np.exp(x) - p if x > 0.1 else x - p, 0.0, 3.0)

    def uses_math(p):
        return optimize.newton(lambda x: x * math.exp(x) - p, 1.0)

    for f in (writes, remembers, branches, uses_math):
        assert is_run(f, 0.8)
        for x in NUMBERS:
            assert same(ct.gradient(f, x), expected(f, x))
    lengths = []
    for _ in range(OFTEN):
        log.clear()
        ct.gradient(logs, 0.8)
        lengths.append(len(log))
    assert len(set(lengths)) == 1


def test_derivatives_of_higher_order():
    replays(lambda: ct.gradient(brentq, 0.8))

    def slope(p):
        return ct.gradient(brentq, p)[0]

    step = 1e-5
    there, back = ct.gradient(brentq, 0.8 + step)[0], ct.gradient(brentq, 0.8 - step)[0]
    for f in (slope, ct.prepare(brentq, transform="gradient")):
        for _ in range(OFTEN):
            (second,) = ct.gradient(lambda p, f=f: np.sum(f(p)), 0.8)
            np.testing.assert_allclose(second, (there - back) / (2 * step), rtol=1e-6)
    _, pull = ct.prepare(brentq, transform="pullback")(0.8)
    assert float(pull(1.0)[0]) == ct.gradient(brentq, 0.8)[0]


def test_solvers_of_numbers_of_half_the_bits():
    def f(p):
        # A number of Python's does not widen float32.
        return p * brentq(p.astype(np.float64))

    x = np.array(0.8, np.float32)
    results, count = replays(lambda: ct.gradient(f, x))
    assert count > 3
    assert all(result[0].dtype == np.float32 and same(result, results[0]) for result in results)


def test_threads():
    points = [x + 0.001 * i for i in range(8) for x in NUMBERS]
    found = {}

    def run(i):
        for x in points[i::4]:
            found[x] = ct.gradient(several, x)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, result in found.items():
        assert same(result, expected(several, x))


@pytest.mark.parametrize("solve", [lambda g: optimize.brentq(g, 0.0, 3.0),
                                   lambda g: integrate.quad(g, 0.0, 1.0)[0]])  # fmt: skip
def test_callbacks_end_with_the_run(solve):
    ends = []

    def f(p):
        callback = lambda x: x * np.exp(x) - p
        ends.append(weakref.ref(callback))
        return solve(callback)

    gc.disable()
    try:
        ct.gradient(f, 0.8)
    finally:
        gc.enable()
    assert ends[0]() is None
