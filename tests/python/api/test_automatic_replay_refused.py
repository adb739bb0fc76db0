"""What a replay could not repeat, or somebody could see, is run in each call."""

import builtins
import functools
import math
import random
import signal
import threading
import time
import types
from collections import defaultdict
from enum import Enum

import numpy as np
import pytest
from automatic_replays import OFTEN, STEPS, expected, follows, is_run, many, replays

import cotan as ct
from cotan import _core

rate = 3.7
table = [0.5, 0.25]
calls = 0


def logistic(x):
    for _ in range(STEPS):
        x = rate * x * (1 - x)
    return x


def of_table(x):
    for _ in range(STEPS):
        x = table[0] * x + table[1] * x * x
    return x


def test_texts_and_files(capsys, tmp_path):
    def prints(x):
        x = logistic(x)
        print("called")
        return x

    def writes(x):
        with open(tmp_path / "log", "a") as file:
            file.write("called\n")
        return logistic(x)

    assert is_run(prints, 0.3)
    assert capsys.readouterr().out.count("called") == OFTEN
    assert is_run(writes, 0.3)
    assert (tmp_path / "log").read_text().count("called") == OFTEN


def test_counters_and_lists():
    seen, count = [], 0
    box = types.SimpleNamespace(count=0)
    buffer = np.zeros(3)

    def appends(x):
        seen.append(1)
        return logistic(x)

    def counts(x):
        nonlocal count
        count += 1
        return logistic(x)

    def counts_globally(x):
        global calls  # noqa: PLW0603
        calls += 1
        return logistic(x)

    def counts_in_a_box(x):
        box.count += 1
        return logistic(x)

    def fills(x):
        buffer[:] += 1
        return logistic(x)

    def counts_in_its_attribute(x):
        counts_in_its_attribute.count += 1
        return logistic(x)

    counts_in_its_attribute.count = 0
    before = calls
    for f in (appends, counts, counts_globally, counts_in_a_box, fills, counts_in_its_attribute):
        assert is_run(f, 0.3)
    assert len(seen) == count == calls - before == box.count == OFTEN
    assert buffer[0] == counts_in_its_attribute.count == OFTEN


def test_a_table_that_the_program_fills():
    known = {}

    def power(n):
        if n not in known:
            known[n] = 0.5**n
        return known[n]

    def f(x):
        for n in range(STEPS):
            x = x * 0.9 + power(n) * x * x
        return x

    replays(lambda: ct.gradient(f, 0.3))
    known.clear()
    assert ct.gradient(f, 0.3) == expected(f, 0.3)
    known.clear()
    ct.gradient(f, 0.3)
    assert len(known) == STEPS


def test_random_numbers_and_clocks():
    rng, old = np.random.default_rng(0), random.Random(0)

    def draws(x):
        return logistic(x) + np.random.rand()  # noqa: NPY002

    def draws_from_python(x):
        return logistic(x) + random.random()

    def draws_from_a_generator(x):
        return logistic(x) + rng.random()

    def draws_from_an_old_one(x):
        return logistic(x) + old.random()

    def reads_the_clock(x):
        return logistic(x) * time.perf_counter()

    def draws_by_another_name(x, m=np):
        return logistic(x) + m.random.rand()

    for f in (draws, draws_from_python, draws_from_a_generator, draws_from_an_old_one,
              reads_the_clock, draws_by_another_name):  # fmt: skip
        before = _core.num_automatic_replays()
        values = {ct.value_and_gradient(f, 0.3)[0] for _ in range(OFTEN)}
        assert len(values) == OFTEN
        assert _core.num_automatic_replays() == before
    np.random.seed(7)  # noqa: NPY002
    wanted = [np.random.rand() for _ in range(OFTEN)]  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    found = [float(ct.value_and_gradient(draws, 0.3)[0]) - logistic(0.3) for _ in range(OFTEN)]
    np.testing.assert_allclose(found, wanted)


def test_what_is_reached_by_computed_names():
    def f(x, name):
        return logistic(x) * getattr(math, name)(2.0)

    def g(x):
        return logistic(x) * eval("rate")

    before = _core.num_automatic_replays()
    for _ in range(OFTEN):
        assert ct.gradient(f, 0.3, wrt="x", name="sqrt") == expected(f, 0.3, ct.const("sqrt"))[:1]
        assert ct.gradient(f, 0.3, ct.const("sqrt")) == expected(f, 0.3, ct.const("sqrt"))
    assert is_run(g, 0.3)
    assert _core.num_automatic_replays() == before


def test_objects_and_functions_of_other_kinds():
    class Model:
        scale = 2.0

        def loss(self, x):
            return self.scale * logistic(x)

    model = Model()

    def captures(x):
        return model.loss(x)

    lock = threading.Lock()

    def waits(x):
        with lock:
            return logistic(x)

    assert is_run(captures, 0.3)
    assert is_run(waits, 0.3)
    assert is_run(model.loss, 0.3)


def test_callables_that_something_holds():
    class Log:
        out = print
        now = staticmethod(time.perf_counter)

    table, partial, space = [print], functools.partial(print, "x"), types.SimpleNamespace(log=print)
    clock, vector = functools.partial(time.perf_counter), np.vectorize(print)

    def of_list(x):
        table[0]("x")
        return logistic(x)

    def of_partial(x):
        partial()
        return logistic(x)

    def of_class(x):
        Log.out("x")
        return logistic(x)

    def of_static_method(x):
        return logistic(x) * Log.now()

    def of_namespace(x):
        space.log("x")
        return logistic(x)

    def of_keyword(x, *, log=print):
        log("x")
        return logistic(x)

    def of_clock(x):
        return logistic(x) * clock()

    def of_vector(x):
        vector(1)
        return logistic(x)

    before = _core.num_automatic_replays()
    for f in (of_list, of_partial, of_class, of_static_method, of_namespace, of_keyword, of_clock,
              of_vector):  # fmt: skip
        for _ in range(OFTEN):
            ct.gradient(f, 0.3)
        assert _core.num_automatic_replays() == before, f.__name__


def test_files_and_settings_of_numpy(tmp_path):
    from scipy.io import savemat

    save, data, path = np.save, np.array([1.0, 1 / 3]), tmp_path / "x"

    def saves(x):
        save(path, data)
        return logistic(x)

    def saves_matrix(x):
        savemat(path, {"x": data})
        return logistic(x)

    def dumps(x):
        data.dump(path)
        return logistic(x)

    def reads_the_clock(x):
        return logistic(x) * np.datetime64("now").astype(float)

    def draws(x):
        return logistic(x) * np.random.Generator(np.random.PCG64()).random()

    before = _core.num_automatic_replays()
    for f in (saves, saves_matrix, dumps, reads_the_clock, draws):
        for _ in range(OFTEN):
            ct.gradient(f, 0.3)
        assert _core.num_automatic_replays() == before, f.__name__

    def of_text(x):
        return logistic(x) * len(str(data))

    follows(of_text, lambda i: np.set_printoptions(precision=2 + i))
    np.set_printoptions(precision=8)


def test_methods_that_run_without_being_named():
    said = []

    class Loud:
        def __repr__(self):
            said.append("repr")
            return "loud"

    class Base:
        def __init_subclass__(cls):
            said.append("subclass")

    class Kind(Enum):
        A = 1

        @classmethod
        def _missing_(cls, value):
            said.append("missing")
            return cls.A

    def missing():
        said.append("default")
        return 0.0

    table = defaultdict(missing)

    def of_text(x):
        return logistic(x) + len(f"{Loud()!r}")

    def of_class(x):
        class Derived(Base):
            pass

        return logistic(x) + len(Derived.__mro__)

    def of_enum(x):
        return logistic(x) + Kind(7).value

    def of_table(x):
        value = table["a"]
        del table["a"]
        return logistic(x) + value

    for f in (of_text, of_class, of_enum, of_table):
        said.clear()
        assert is_run(f, 0.3)
        assert len(said) == OFTEN, f.__name__


def test_options_of_solvers(capfd):
    from scipy.optimize import fmin, least_squares, minimize

    options, more = {"disp": True}, {"verbose": 1}

    def square(v):
        return v[0] ** 2

    def minimizes(x):
        return logistic(x) + minimize(square, [0.5], options=options).fun

    def fits(x):
        return logistic(x) + least_squares(square, [0.5], **more).cost

    def finds(x):
        return logistic(x) + fmin(square, [0.5])[0]

    for f in (minimizes, fits, finds):
        assert is_run(f, 0.3)
        assert len(capfd.readouterr().out.splitlines()) % OFTEN == 0


def test_what_a_program_puts_in_the_place_of_others(monkeypatch):
    library = math

    def f(x):
        return logistic(x) + library.cos(0.0) + abs(-2.0)

    def again():
        return [ct.value_and_gradient(f, 0.3)[0] for _ in range(OFTEN)]

    first = again()
    assert len(set(first)) == 1
    library = types.SimpleNamespace(cos=lambda x: 3.0)
    np.testing.assert_allclose(again(), first[0] + 2.0, rtol=1e-12)
    library = np
    np.testing.assert_allclose(again(), first[0], rtol=1e-12)
    monkeypatch.setattr(builtins, "abs", lambda x: 7.0)
    np.testing.assert_allclose(again(), first[0] + 5.0, rtol=1e-12)


def test_values_that_are_no_computed_numbers():
    whole = np.array(2.0)

    def constant(x):
        logistic(x)
        return whole

    def itself(x):
        logistic(x)
        return x

    for f, x in (
        (constant, 0.3),
        (itself, np.array(0.3)),
        (itself, 0.3),
        (itself, np.float64(0.3)),
    ):
        results, _ = replays(lambda f=f, x=x: ct.value_and_gradient(f, x))
        assert {type(value) for value, _ in results} == {type(results[0][0])}


def test_warnings_and_errors_of_numpy():
    zeros = np.zeros(2)

    def warns(x):
        return logistic(x) + np.sum(np.exp(np.log(zeros)))

    for _ in range(OFTEN):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            ct.gradient(warns, 0.3)

    def ignores(x):
        return logistic(x) + np.sum(np.exp(np.log(zeros)))

    with np.errstate(divide="ignore"):
        assert is_run(ignores, 0.3)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        ct.gradient(ignores, 0.3)

    ones = np.ones(2)

    def divides(x):
        return logistic(x) + np.sum(1 / ones)

    replays(lambda: ct.gradient(divides, 0.3))
    ones[0] = 0.0
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        ct.gradient(divides, 0.3)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        ct.gradient(divides, 0.3)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers are POSIX")
def test_what_others_write_meanwhile_stays():
    written, count = [], 0

    def handler(*_):
        nonlocal count
        written.append(1)
        count += 1

    def f(x):
        for _ in range(STEPS):
            x = x * 0.9 + len(written) * 0.0
        return x + np.sum(np.unique(np.array([x, x + 1.0])))  # no replay gives this

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
    try:
        for i in range(20):
            f.__code__ = f.__code__.replace(co_name=f"f{i}")
            for _ in range(6):
                ct.gradient(f, 0.3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert len(written) == count


def test_objects_of_libraries_that_hold_arrays():
    from scipy.interpolate import CubicSpline
    from scipy.stats import norm

    spline = CubicSpline(np.arange(4.0), np.arange(4.0) ** 2)

    def of_spline(x):
        return logistic(x) * spline(0.5)

    def of_distribution(x):
        return logistic(x) * norm.cdf(0.3)

    assert is_run(of_spline, 0.3)
    assert not is_run(of_distribution, 0.3)


def test_many_functions_that_take_turns():
    functions = list(many(50))
    first = [ct.gradient(f, 0.3) for f in functions]
    for _ in range(20):
        assert [ct.gradient(f, 0.3) for f in functions] == first


def test_short_functions_run():
    assert is_run(lambda x: x * x, 3.0)


def test_hooks_run_in_each_call():
    seen = []

    def f(x):
        return logistic(ct.hook(lambda ct_: seen.append(ct_), x))

    assert is_run(f, 0.3)
    assert len(seen) == OFTEN
