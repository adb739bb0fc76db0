"""Other people's code beside a recording: threads and greenlets give what they give without one."""

import contextlib
import importlib
import itertools
import math
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.stats

import cotan as ct
from cotan import _core

X = np.linspace(0.1, 1.0, 3)


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --------------------------------------------------------------------------------------------------
# Threads


def numbers():
    return [(math.sin(0.1 * k), float(k), complex(k, 1), np.float64(k)) for k in range(50)]


def numpy_code():
    made = np.zeros(3), np.ones((2, 2)), np.full(2, 3.0), np.array([1.0, 2.0]), np.linspace(0, 1, 4)
    made[0][1] = 5.0
    memoryview(made[1])[0, 0] = 7.0
    return *made, np.concatenate(made[:1]), np.linalg.solve(np.eye(3) * 2, made[0]), np.sum(made[1])


def scipy_code():
    b, a = scipy.signal.butter(2, 0.3)
    found = scipy.optimize.minimize(scipy.optimize.rosen, [1.2, 0.8], method="Nelder-Mead").x
    return (
        *(b, a, found, scipy.linalg.expm(np.eye(2)), scipy.signal.lfilter(b, a, np.ones(5))),
        scipy.stats.norm.cdf(np.linspace(-1, 1, 5)),
    )


def errors():
    caught = []
    for call in (
        lambda: np.zeros(-1),
        lambda: math.sqrt(-1.0),
        lambda: float("one"),
        lambda: np.linalg.inv(np.zeros((2, 2))),
        lambda: scipy.linalg.cholesky(-np.eye(2)),
        lambda: np.array([1.0, 2.0]).reshape(3),
        lambda: np.ones(2, dtype="nonsense"),
    ):
        with pytest.raises(Exception) as raised:  # noqa: PT011
            call()
        caught.append((type(raised.value), str(raised.value)))
    return caught


def pandas_code():
    pd = importlib.import_module("pandas")
    frame = pd.DataFrame({"k": list("abab"), "v": np.arange(4.0)})
    grouped = frame.groupby("k")["v"].agg(["mean", "sum", lambda v: v.max() - v.min()])
    return grouped.to_numpy(), frame.sort_values("v", ascending=False).to_csv()


def sklearn_code():
    linear = importlib.import_module("sklearn.linear_model")
    x = np.arange(12.0).reshape(6, 2) % 5
    return linear.Ridge().fit(x, x.sum(axis=1)).coef_, linear.Lasso(0.1).fit(x, x[:, 0]).coef_


def numba_code():
    numba = importlib.import_module("numba")
    total = numba.njit(lambda x: np.sum(x) + math.sin(x[0]))
    return total(np.ones(3)), total(np.ones(3))


def standard_library():
    import json
    import statistics
    from collections import defaultdict
    from decimal import Decimal
    from fractions import Fraction

    counts = defaultdict(float)
    counts["a"] += 1.5
    kinds = type(float), type(counts["b"]), type(math.sin), dict[str, float], list[int]
    numbers = statistics.fmean([1.0, 2.0]), Fraction(0.5), Decimal("1.5"), round(2.5)
    return json.loads(json.dumps(counts)), kinds, numbers, isinstance(np.zeros(2), np.ndarray)


CODE = (numbers, numpy_code, scipy_code, errors, standard_library)
WITH = {"pandas": pandas_code, "sklearn": sklearn_code, "numba": numba_code}


def same(one, other):
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if type(one) is not type(other):
        return False
    return np.array_equal(one, other) if isinstance(one, (np.ndarray, np.generic)) else one == other


@contextlib.contextmanager
def recording():
    """Let another thread record, first waiting inside of a gradient, then in a loop."""
    inside, go_on, over = threading.Event(), threading.Event(), threading.Event()
    results = []

    def f(x):
        inside.set()
        go_on.wait(30)
        made = np.zeros(2)
        made[0] = math.sin(x)
        return np.sum(made) * float(x)

    def loop():
        while not over.is_set() or not results:
            results.append(ct.gradient(f, 1.0)[0])

    other = threading.Thread(target=loop)
    other.start()
    assert inside.wait(30)
    try:
        yield go_on.set
    finally:
        go_on.set()
        over.set()
        other.join(30)
    assert results == [pytest.approx(math.sin(1.0) + math.cos(1.0))] * len(results)


@pytest.mark.parametrize("code", [*CODE, *WITH])
def test_a_thread_beside_a_recording_gets_what_it_gets_without(code):
    if isinstance(code, str):
        pytest.importorskip(code)
        code = WITH[code]
    ct.gradient(lambda x: x * x, 1.0)
    expected = code()
    with recording() as let_it_loop:
        assert same(code(), expected)
        let_it_loop()
        for _ in range(3):
            assert same(code(), expected)
    assert same(code(), expected)


# --------------------------------------------------------------------------------------------------
# Greenlets


def gradient_of_writes(step):
    def f(x):
        made = np.zeros(3)
        step()
        assert type(made) is ct.Array and ct.nestlevel() == 1
        made[0] = x[1]
        step()
        scaled = float(x[0]) * made
        step()
        return np.sum(scaled * x) + math.sin(x[0])

    return ct.gradient(f, X)[0].tolist()


def nested_gradient(step):
    def inner(x):
        step()
        assert ct.nestlevel() == 2
        return np.sum(np.sin(x)) ** 2

    return ct.gradient(lambda x: np.sum(ct.gradient(inner, x)[0]), X)[0].tolist()


def solver(step):
    def f(p):
        def objective(q, p):
            step()
            return (q[0] - p) ** 2

        return scipy.optimize.minimize(objective, [0.0], args=(p,)).x[0] * p

    return ct.gradient(f, 2.0)


def plain(step):
    found = []
    for _ in range(3):
        step()
        assert not ct.isderiving() and not _core.is_lifting()
        made = np.zeros(2)
        made[0] = math.sqrt(4.0)
        step()
        found.append((type(made).__name__, made.tolist(), float(np.float64(2.0))))
    return found


def switched_off(step):
    def f(x):
        step()
        return x * len(type(np.zeros(2)).__name__)

    with ct.lifting(False):
        step()
        return ct.gradient(f, 1.0)


def checkpoint(step):
    def inner(x):
        step()
        return np.sin(x) * np.cos(x)

    return ct.gradient(lambda x: np.sum(ct.checkpoint(inner)(x)), X)[0].tolist()


WORK = (gradient_of_writes, nested_gradient, solver, plain, switched_off, checkpoint)


@pytest.mark.parametrize(("one", "other"), [*itertools.combinations_with_replacement(WORK, 2)])
def test_greenlets_that_take_turns_do_not_see_each_other(one, other):
    greenlet = pytest.importorskip("greenlet")
    expected = [work(lambda: None) for work in (one, other)]
    found = [None, None]
    both = []

    def start(k, work):
        def step():
            if not both[1 - k].dead:
                both[1 - k].switch()

        found[k] = work(step)

    for k, work in enumerate((one, other)):
        both.append(greenlet.greenlet(lambda k=k, work=work: start(k, work)))
    while not all(each.dead for each in both):
        for each in both:
            if not each.dead:
                each.switch()
    assert found == expected
    assert not ct.isderiving() and not _core.is_anything_recorded()


# --------------------------------------------------------------------------------------------------
# Functions without a place for an entry


def test_classes_beyond_the_table_of_called_objects_are_refused():
    run(
        """
        from cotan import _core
        count = 0
        try:
            for count in range(100):
                _core.add_call_rule(type(f"C{count}", (), {"__call__": len}), len, "always")
        except TypeError as error:
            assert "has to be larger" in str(error), error
        else:
            raise AssertionError("no end")
        assert count >= 16
        """
    )


@pytest.mark.parametrize("name", ["sample", "ranf", "random_sample"])
@pytest.mark.parametrize("size", [4, np.int64(4), (2, 3)])
def test_functions_of_cython_that_take_any_arguments_get_them(name, size):
    made = []

    def f(x):
        np.random.seed(0)  # noqa: NPY002
        made.append(getattr(np.random, name)(size))
        return x

    ct.gradient(f, 1.0)
    np.random.seed(0)  # noqa: NPY002
    assert np.array_equal(np.asarray(made[0]), getattr(np.random, name)(size))
