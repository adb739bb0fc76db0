"""Overrides sit at the entries of functions: what other code, threads, tasks and processes see."""

import asyncio
import contextvars
import functools
import inspect
import linecache
import math
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import traceback
import types

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.special
from scipy import interpolate

import cotan as ct
from cotan import _core
from cotan._src.interpose import prologue
from cotan._src.runtime.originals import original_of

# The state of the process is taken down again and again: the fewer modules it has, the faster.
pytestmark = pytest.mark.alone

X = np.array([0.5, 1.0, 1.5])


def everything(x):
    """Call overridden functions of each kind."""
    made = np.zeros(3)
    made[0] = math.sin(x[0])
    made[1] = float(x[1])
    solved = scipy.linalg.solve(np.eye(3) + np.outer(x, x), made)
    area = scipy.integrate.quad(lambda t: t * x[0], 0.0, 1.0)[0]
    filtered = scipy.signal.lfilter([1.0], [1.0, x[2]], np.ones(4))
    joined = np.r_[x, 1.0:3.0]
    return np.sum(solved) + area + np.sum(filtered) + scipy.special.gamma(x[1]) + joined.sum()


@pytest.fixture
def process():
    """Show that a test leaves the process as it was; the first gradient may import modules."""
    ct.gradient(everything, X)
    asyncio.run(asyncio.sleep(0))
    before = ct.debug.process_state()
    yield before
    assert differences(before) == []


def differences(before):
    """List what is not as it was, the state of the tools that run tests left out."""
    tools = ("hypothesis", "pytest", "_pytest", "pluggy")
    return [line for line in ct.debug.verify_process(before) if not line.startswith(tools)]


def run(code, **environment):
    """Run a program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --------------------------------------------------------------------------------------------------
# What a recording changes: nothing


OWNERS = (np, np.linalg, np.random, math, scipy.linalg, scipy.signal, scipy.integrate, np.matrix)


def held(owners=OWNERS):
    """Give what modules and classes hold, how functions are made, and the classes of modules."""
    names = {(owner.__name__, n): v for owner in owners for n, v in list(vars(owner).items())}
    made = {}
    for key, value in names.items():
        if isinstance(value, types.FunctionType):
            made[key] = (
                value.__defaults__,
                value.__kwdefaults__,
                value.__closure__,
                value.__dict__.copy(),
                value.__name__,
            )
    return names, made, [type(owner) for owner in owners]


def expect_same(before, after):
    names, made, classes = before
    names_now, made_now, classes_now = after
    assert names.keys() == names_now.keys()
    assert [key for key in names if names[key] is not names_now[key]] == []
    assert made.keys() == made_now.keys()
    for key, parts in made.items():
        assert all(a is b or a == b for a, b in zip(parts, made_now[key], strict=True)), key
    assert classes == classes_now


def test_names_and_functions_are_the_same_objects_during_and_after(process):
    before, inside = held(), []

    def f(x):
        inside.append(held())
        inside.append(differences(process))
        return everything(x)

    ct.gradient(f, X)
    expect_same(before, inside[0])
    assert inside[1] == []
    expect_same(before, held())


def raising(x, at):
    """Raise an exception at one of several points."""
    if at == "before":
        raise KeyError(at)
    made = np.zeros(3)
    made[0] = x[0]
    if at == "in a callback":
        scipy.integrate.quad(lambda t: t / (1 // 0), 0.0, 1.0)
    if at == "in a library":
        scipy.linalg.solve(np.zeros((3, 3)), x)
    if at == "in a creator":
        np.zeros(-1)
    if at == "in an inner gradient":
        ct.gradient(lambda y: y / (1 // 0), x)
    if at == "in a system exit":
        raise SystemExit
    return made[1:].reshape(7)


@pytest.mark.parametrize(
    "at",
    [
        *("before", "in a callback", "in a library", "in a creator", "in an inner gradient"),
        *("in a system exit", "last"),
    ],
)
@pytest.mark.parametrize("transform", [ct.gradient, ct.pullback, ct.trace])
def test_exceptions_leave_nothing(transform, at, process):
    before = held()
    with pytest.raises((Exception, SystemExit)):
        transform(lambda x: raising(x, at), X)
    expect_same(before, held())
    assert not _core.is_anything_recorded() and not _core.is_lifting()
    assert type(np.zeros(2)) is np.ndarray
    assert differences(process) == []


def test_differences_are_found():
    before = ct.debug.process_state()
    own = types.ModuleType("test_entries_own")
    own.f = lambda: 1
    sys.modules["test_entries_own"] = own
    try:
        before = ct.debug.process_state()
        own.f = lambda: 2
        assert differences(before) == ["test_entries_own.f is another object"]
        del own.f
        assert differences(before) == ["test_entries_own.f is gone"]
        own.f = _core.bypass(np.zeros)
        assert any("Bypass of cotan's" in line for line in ct.debug.verify_process())
    finally:
        del sys.modules["test_entries_own"]


# --------------------------------------------------------------------------------------------------
# Threads and tasks


def test_another_thread_computes_as_ever(process):
    recording, stop = threading.Event(), threading.Event()
    wrong, rounds = [], []
    spline = scipy.interpolate.CubicSpline(X, X**2)

    def check(x=1.0):
        assert float("1.5") == 1.5 and type(float(np.float64(2.0))) is float
        assert type(x) is float and isinstance(x, float) and issubclass(np.float64, float)
        assert type(np.zeros(3)) is np.ndarray and type(np.linspace(0, 1, 3)) is np.ndarray
        assert type(np.array([1.0, 2.0])) is np.ndarray and type(np.float64(1)) is np.float64
        assert type(math.sin(0.5)) is float and complex(1, 2) == 1 + 2j
        assert scipy.linalg.solve(np.eye(2), np.ones(2)).tolist() == [1.0, 1.0]
        assert type(spline(0.75)) is np.ndarray and abs(spline(0.75) - 0.5625) < 1e-12
        assert abs(scipy.optimize.brentq(lambda t: t * t - 2.0, 0.0, 2.0) - math.sqrt(2)) < 1e-9
        assert abs(scipy.integrate.quad(math.sin, 0.0, math.pi)[0] - 2.0) < 1e-12
        made = np.zeros(2)
        with pytest.raises(TypeError):
            made[0] = "a" * (made[1] == 0), 2
        assert type[int] is not None and pickle.loads(pickle.dumps(float)) is float
        assert not _core.is_lifting()

    def other():
        recording.wait(20)
        try:
            while not stop.is_set():
                check()
                rounds.append(1)
        except BaseException as error:  # noqa: BLE001 - it is raised in the test
            wrong.append("".join(traceback.format_exception(error)))

    def f(x):
        recording.set()
        return everything(x)

    threads = [threading.Thread(target=other) for _ in range(2)]
    for thread in threads:
        thread.start()
    expected = ct.gradient(everything, X)[0]
    try:
        for _ in range(1000):
            np.testing.assert_array_equal(ct.gradient(f, X)[0], expected)
            if wrong or len(rounds) > 20:
                break
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(rounds) > 20


def in_thread(call):
    """Call in a thread and give the result."""
    found = []
    # In a context of its own: a free-threaded Python would start it in a copy of this one.
    run = contextvars.Context().run
    thread = threading.Thread(target=run, args=(lambda: found.append(call()),))
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_with_a_copied_context_takes_part(process):
    seen = {}

    def kind():
        return type(np.zeros(2)), _core.is_lifting()

    def f(x):
        context = contextvars.copy_context()

        def compute():
            out = np.zeros(2)
            out[0] = math.sin(x) * float(x)
            return out[0]

        seen["plain"] = in_thread(kind)
        seen["copied"] = in_thread(lambda: context.run(kind))
        return in_thread(lambda: context.run(compute))

    (slope,) = ct.gradient(f, 0.5)
    assert slope == pytest.approx(math.sin(0.5) + 0.5 * math.cos(0.5))
    assert seen == {"plain": (np.ndarray, False), "copied": (ct.Array, True)}


def test_a_thread_has_the_context_that_python_starts_it_with(process):
    """A free-threaded Python copies the context; the recording ends there, too."""
    inherits = bool(getattr(sys.flags, "thread_inherit_context", False))
    seen, is_over, is_seen = [], threading.Event(), threading.Event()

    def other():
        seen.append(type(np.zeros(2)))
        is_seen.set()
        is_over.wait(60)
        seen.append(type(np.zeros(2)))

    thread = threading.Thread(target=other)

    def first(x):
        thread.start()
        is_seen.wait(60)
        return x

    def second(x):
        is_over.set()
        thread.join()
        return x

    ct.gradient(first, 1.0)
    ct.gradient(second, 1.0)
    assert seen == [ct.Array if inherits else np.ndarray, np.ndarray]


def test_a_context_that_was_copied_records_no_more_afterwards(process):
    kept = []
    ct.gradient(lambda x: (kept.append(contextvars.copy_context()), x)[1], 1.0)
    assert kept[0].run(lambda: type(np.zeros(2))) is np.ndarray
    assert not kept[0].run(_core.is_lifting)
    assert kept[0].run(lambda: ct.gradient(math.sin, 0.0)) == (1.0,)


def test_tasks_do_not_see_each_others_scopes(process):
    async def main():
        inside, looked = asyncio.Event(), asyncio.Event()
        found = []

        async def holds():
            # A gradient does not await; a scope can be held open while another task runs.
            context = contextvars.copy_context()
            scope = context.run(_core.Scope.enter, False, None)
            inside.set()
            await looked.wait()
            context.run(scope.leave)

        async def others():
            await inside.wait()
            found.append(ct.gradient(lambda x: math.sin(x), 0.0))
            looked.set()

        await asyncio.gather(holds(), others())
        return found

    assert asyncio.run(main()) == [(1.0,)]


def test_a_switch_of_one_task_is_not_another_tasks(process):
    async def main():
        switched, done = asyncio.Event(), asyncio.Event()
        found = {}

        async def without():
            with ct.lifting(False), ct.strict():
                switched.set()
                await done.wait()
                with pytest.raises(TypeError, match="drop the gradient"):
                    ct.gradient(lambda x: math.sin(x), 0.0)
            found["after"] = ct.gradient(lambda x: math.sin(x), 0.0)

        async def plain():
            await switched.wait()
            found["meanwhile"] = ct.gradient(lambda x: math.sin(float(x)), 0.0)
            done.set()

        await asyncio.gather(without(), plain())
        return found

    assert asyncio.run(main()) == {"meanwhile": (1.0,), "after": (1.0,)}


def test_a_loop_that_runs_inside_a_recording_takes_part(process):
    async def part(x):
        await asyncio.sleep(0)
        out = np.zeros(1)
        out[0] = math.exp(x)
        return out[0]

    def f(x):
        async def main():
            return sum(await asyncio.gather(part(x), part(2 * x)))

        return asyncio.run(main())

    assert ct.gradient(f, 0.0) == (3.0,)


def test_threads_that_die_while_they_record(process):
    def die():
        with pytest.raises(SystemExit):
            ct.gradient(lambda x: (np.zeros(2), sys.exit()), 1.0)

    for _ in range(5):
        thread = threading.Thread(target=die)
        thread.start()
        thread.join()
    assert not _core.is_anything_recorded()


# --------------------------------------------------------------------------------------------------
# Creators by their caller


class Backend:
    zeros = np.zeros
    ones = staticmethod(np.ones)

    def __init__(self):
        self.full = np.full


class Lazy:
    def __getattr__(self, name):
        return getattr(np, name)


BACKEND, LAZY, TABLE = Backend(), Lazy(), {"zeros": np.zeros}
imported = np.zeros
partial = functools.partial(np.full, 3)


def default(n, make=np.zeros):
    return make(n)


def handed_on(*args, **kwargs):
    return np.zeros(*args, **kwargs)


def closure(make):
    return lambda n: make(n)


def executed(code):
    names = {"np": np, "zeros": np.zeros, "lazy": LAZY}
    exec(f"made = {code}", names)
    return names["made"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros(3),
        lambda: imported(3),
        lambda: BACKEND.zeros(3),
        lambda: Backend.ones(3),
        lambda: BACKEND.ones(3),
        lambda: BACKEND.full(3, 1.0),
        lambda: LAZY.zeros(3),
        lambda: TABLE["zeros"](3),
        lambda: default(3),
        lambda: closure(np.empty)(3),
        lambda: partial(1.0),
        lambda: functools.partial(np.linspace, 0.0)(1.0),
        lambda: next(map(np.zeros, [3])),
        lambda: list(map(np.zeros, [3, 2]))[1],
        lambda: [make(3) for make in (np.zeros, np.ones)][-1],
        lambda: getattr(np, "zeros")(3),  # noqa: B009
        lambda: executed("np.zeros(3)"),
        lambda: executed("zeros(3)"),
        lambda: executed("lazy.zeros(3)"),
        lambda: np.zeros_like(X),
        lambda: np.array([1.0, 2.0]),
        lambda: np.arange(3.0),
        lambda: np.eye(3),
        lambda: handed_on(3, dtype=float),
    ],
)
def test_creators_give_user_code_arrays_that_hold_active_values(make, process):
    kinds = []

    def f(x):
        made = make()
        kinds.append(type(made))
        made[(0,) * made.ndim] = x
        return made.sum()

    for _ in range(3):
        assert ct.gradient(f, 2.0) == (1.0,)
    assert kinds == [ct.Array] * 3
    assert type(make()) is np.ndarray


def test_compiled_code_gets_memory(process):
    """Its frame is that of the user code that calls it."""
    rng, state, kinds = np.random.default_rng(0), np.random.RandomState(0), []
    spline = scipy.interpolate.CubicSpline(X, X**2)
    slope = spline.derivative()
    grid = scipy.interpolate.RegularGridInterpolator((X, X), np.outer(X, X))

    def f(x):
        kinds.append(type(rng.normal(size=3)))
        kinds.append(type(rng.integers(3, size=3)))
        kinds.append(type(rng.choice(np.array([1.0, 2.0]), 3)))
        kinds.append(type(state.standard_normal(3)))
        kinds.append(type(spline(0.7)))
        kinds.append(type(slope(X)))
        kinds.append(type(grid([[0.7, 0.7]])))
        kinds.append(type(scipy.interpolate.make_interp_spline(X, X**2, k=1).c))
        return x

    ct.gradient(f, 1.0)
    assert kinds == [np.ndarray] * len(kinds)


# --------------------------------------------------------------------------------------------------
# Python functions: their entry, which is a prologue of the code on Python 3.11


def _library(name, text):
    """Make a module that counts as a library's, whose lines can be looked up."""
    module = types.ModuleType(name)
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), vars(module))
    return module


FUNCTIONS = """
def plain(a, b=2.0, /, c=3.0, *, d=4.0):
    total = a + b
    return total + c * d

def many(a, *rest, k=1, **named):
    return a, rest, k, dict(sorted(named.items()))

def tries(x, fail=False):
    found = []
    try:
        if fail:
            raise KeyError(x)
        found.append("no error")
    except KeyError as error:
        found.append(error.args)
        try:
            raise ValueError(x) from error
        except ValueError as inner:
            found.append(type(inner.__cause__))
    finally:
        found.append("finally")
    return found

def lines(x):
    y = x

    raise RuntimeError(y)

def maker(offset):
    def closed(x):
        def inner():
            nonlocal offset
            offset = offset + 1
            return x + offset
        return inner()
    return closed

def generates(n):
    for i in range(n):
        yield i

class Thing:
    scale = 3.0
    @classmethod
    def make(cls, x=1.0):
        return cls.scale * x
    @staticmethod
    def still(x):
        return x
    def method(self, x, *, y=1.0):
        return self.scale * x * y
"""


def _described(f):
    return (
        str(inspect.signature(f)),
        inspect.getsource(f),
        f.__code__.co_firstlineno,
        [line for _, _, line in f.__code__.co_lines() if line is not None],
        f.__defaults__,
        f.__kwdefaults__,
        f.__code__.co_varnames,
        f.__code__.co_flags,
        f.__code__.co_freevars,
    )


def _record(call):
    """Call a function in a recording."""
    kept = []
    ct.gradient(lambda x: (kept.append(call()), x)[1], 1.0)
    return kept[0]


@pytest.fixture
def overridden():
    """Give functions with an entry whose rules decline, and where they are seen to be asked."""
    module = _library("test_entries_functions", FUNCTIONS)
    asked = []
    thing = module.Thing
    functions = {
        "plain": module.plain,
        "many": module.many,
        "tries": module.tries,
        "lines": module.lines,
        "closed": module.maker(10),
        "generates": module.generates,
        "make": vars(thing)["make"].__func__,
        "still": thing.still,
        "method": thing.method,
    }
    before = {name: _described(f) for name, f in functions.items()}

    def rule(name):
        def decline(*args, **kwargs):
            asked.append((name, args, kwargs))
            return NotImplemented

        return decline

    for name, f in functions.items():
        _core.add_rule(f, rule(name), "always")
    return types.SimpleNamespace(
        module=module, thing=thing, functions=functions, before=before, asked=asked
    )


def test_what_can_be_seen_of_a_function_stays(overridden):
    for name, f in overridden.functions.items():
        assert _described(f) == overridden.before[name], name
    assert all(map(_core.has_entry, overridden.functions.values()))


def _behaviour(o):
    f = o.functions
    closed, named = o.module.maker(5), {"k": 2, "w": 1}

    def error():
        try:
            f["lines"](1.0)
        except RuntimeError as caught:
            frames = traceback.extract_tb(caught.__traceback__)
            return caught.args, frames[-1].lineno, frames[-1].line, frames[-1].name
        raise AssertionError

    def refused(*args, **kwargs):
        try:
            f["plain"](*args, **kwargs)
        except TypeError as caught:
            return str(caught)
        raise AssertionError

    return [
        f["plain"](1.0),
        f["plain"](1.0, 5.0, c=1.0, d=2.0),
        refused(),
        refused(1.0, b=2.0),
        refused(1.0, 2.0, 3.0, 4.0),
        f["many"](1),
        f["many"](1, 2, 3, k=4, z=5, a_=6),
        f["many"](*range(4), **named),
        f["tries"](1),
        f["tries"](1, True),
        f["tries"](1, fail=True),
        error(),
        closed(1.0),
        closed(1.0),
        list(f["generates"](3)),
        o.thing.make(),
        o.thing.make(2.0),
        type("Derived", (o.thing,), {"scale": 5.0}).make(x=2.0),
        o.thing().make(4.0),
        o.thing.still(7.0),
        o.thing().method(2.0),
        o.thing().method(2.0, y=4.0),
        list(map(f["plain"], [1.0, 2.0])),
    ]


def test_a_function_behaves_as_ever(overridden):
    plain = types.SimpleNamespace(
        module=(module := _library("test_entries_plain", FUNCTIONS)),
        thing=module.Thing,
        functions={
            **{n: vars(module)[n] for n in ("plain", "many", "tries", "lines", "generates")},
            "closed": module.maker(10),
        },
    )
    expected = _behaviour(plain)
    assert _behaviour(overridden) == expected  # outside: the rules are not asked
    assert overridden.asked == []
    assert _record(lambda: _behaviour(overridden)) == expected
    names = {name for name, _, _ in overridden.asked}
    assert names >= {"plain", "many", "tries", "lines", "make", "still", "method", "generates"}


def test_a_rule_answers_in_place_of_a_function():
    module = _library("test_entries_answers", FUNCTIONS)
    _core.add_rule(module.plain, lambda *args, **kwargs: ("rule", args, kwargs), "always")
    _core.add_rule(module.many, lambda *args, **kwargs: ("rule", args, kwargs), "always")
    assert module.plain(1.0) == 1.0 + 2.0 + 12.0
    said, args, _ = _record(lambda: module.plain(1.0, 7.0))
    assert said == "rule" and args[:2] == (1.0, 7.0)
    assert _record(lambda: module.many(1, 2, z=3))[:2] == ("rule", (1, 2))
    assert module.plain(1.0) == 15.0
    assert original_of(module.plain)(1.0) == 15.0


def test_errors_of_rules_are_raised():
    module = _library("test_entries_errors", FUNCTIONS)

    def fails(*args, **kwargs):
        raise LookupError("of the rule")

    _core.add_rule(module.tries, fails, "always")
    assert module.tries(1) == ["no error", "finally"]
    with pytest.raises(LookupError, match="of the rule"):
        _record(lambda: module.tries(1))
    assert module.tries(1) == ["no error", "finally"]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="functions have an entry of their own")
def test_a_prologue_of_many_arguments_and_constants():
    count = 300
    names = ", ".join(f"a{i}" for i in range(count))
    constants = ", ".join(f"{i}.5" for i in range(count))
    text = (
        f"def f({names}):\n"
        f"    try:\n        return a0 + a{count - 1} + sum([{constants}]) / (a1 - 1)\n"
        "    except ZeroDivisionError:\n        return 'caught'\n"
    )
    names_of = {}
    exec(text, names_of)
    f, seen = names_of["f"], []
    given = [float(i + 3) for i in range(count)]
    before = f(*given), f(0, 1, *given[2:])

    def hook(*args):
        seen.append(args)
        return NotImplemented

    prologue.add_prologue(f, _core.is_anything_recorded, hook)
    assert (f(*given), f(0, 1, *given[2:])) == before and seen == []
    assert before[1] == "caught"
    assert _record(lambda: (f(*given), f(0, 1, *given[2:]))) == before
    assert seen[0] == tuple(given)


# --------------------------------------------------------------------------------------------------
# Modules that are imported inside a recording


def test_modules_that_are_imported_inside(tmp_path, monkeypatch, process):
    (tmp_path / "imported_inside.py").write_text(
        """
import math
import numpy as np
from numpy import zeros

TABLE = np.linspace(0.0, 1.0, 3)
NUMBER = math.sqrt(2.0)
KINDS = [type(np.zeros(2)), type(zeros(2)), type(float("2"))]
GRID = np.zeros((2, 2))
GRID[0, 0] = NUMBER

class Config:
    rate = np.full(2, 0.5)

def f(x):
    made = zeros(2)
    made[0] = math.sin(x)
    return made.sum() + x * TABLE[1]
"""
    )
    sys.path.insert(0, str(tmp_path))
    monkeypatch.delitem(sys.modules, "imported_inside", raising=False)

    def f(x):
        import imported_inside

        return imported_inside.f(x)

    try:
        assert ct.gradient(f, 0.0) == (1.5,)
        module = sys.modules["imported_inside"]
        kinds = module.KINDS
        assert kinds == [np.ndarray, np.ndarray, float]
        for array in (module.TABLE, module.GRID, module.Config.rate):
            assert type(array) is np.ndarray
        assert not any(type(v).__module__.startswith("cotan") for v in vars(module).values())
        assert module.zeros is np.zeros
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("imported_inside", None)


def test_libraries_that_are_imported_inside():
    run(
        """
        import sys, numpy as np, cotan as ct

        def f(x):
            from scipy.linalg import solve
            import scipy.signal, scipy.stats
            y = scipy.signal.lfilter([1.0], [1.0, x], np.ones(3))
            z = solve(np.array([[x, 0.0], [0.0, 1.0]]), np.ones(2))
            return y.sum() + z.sum() + scipy.stats.norm.logpdf(x)

        def outside(x):
            return f(x)

        assert "scipy" not in sys.modules
        slope = ct.gradient(f, 0.5)[0]
        expected = (outside(0.5 + 1e-6) - outside(0.5 - 1e-6)) / 2e-6
        assert abs(slope - expected) < 1e-5, (slope, expected)
        assert ct.debug.verify_process() == []
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in {"scipy", "numpy"}:
                kept = [n for n, v in vars(module).items() if type(v) is ct.Array]
                assert kept == [], (name, kept)
        """
    )


# --------------------------------------------------------------------------------------------------
# Switches


def test_nothing_is_installed_under_the_environments_switch():
    run(
        """
        import math, numpy as np, scipy.linalg, cotan as ct
        from cotan import _core
        before = ct.debug.process_state()

        (slope,) = ct.gradient(lambda x: np.sum(np.sin(x) * np.mean(x) + x @ x), np.ones(2))
        expected = np.cos(1.0) + np.sin(1.0) + 4.0
        assert np.allclose(slope, expected), (slope, expected)
        assert np.allclose(ct.gradient(lambda x: np.sum(np.concatenate([x, x])), np.ones(2))[0], 2)
        kinds = []
        ct.gradient(lambda x: (kinds.append(type(np.zeros(2))), x)[1], 1.0)
        assert kinds == [np.ndarray]
        for f in (lambda x: math.sin(x), lambda x: float(x)):
            try:
                ct.gradient(f, 1.0)
            except TypeError as error:
                assert "would drop the gradient" in str(error)
            else:
                raise AssertionError
        with ct.lifting(True):
            ct.gradient(lambda x: (kinds.append(type(np.zeros(2))), x)[1], 1.0)
        assert kinds[1] is np.ndarray
        assert _core.entries() == []
        assert ct.debug.verify_process(before) == []
        """,
        COTAN_LIFTING="0",
    )


def test_nothing_is_installed_before_something_is_recorded_with_overrides():
    run(
        """
        import numpy as np, cotan as ct
        from cotan import _core
        assert _core.entries() == []
        with ct.lifting(False):
            assert np.allclose(ct.gradient(lambda x: np.sum(x * x), np.ones(2))[0], 2.0)
        assert _core.entries() == []
        ct.gradient(lambda x: x, 1.0)
        assert np.zeros in _core.entries() and float in _core.entries()
        """
    )


def test_strict(process):
    conversions = [
        lambda x: float(x),
        lambda x: abs(complex(x)),
        lambda x: np.float64(x),
        lambda x: next(map(float, [x])),
    ]
    for convert in conversions:
        assert ct.gradient(lambda x, c=convert: c(x) ** 2, 3.0) == (6.0,)
        with ct.strict(), pytest.raises(ct.NotDifferentiableError, match="drop the gradient"):
            ct.gradient(lambda x, c=convert: c(x) ** 2, 3.0)
    with ct.strict():
        assert ct.gradient(lambda x: math.sin(x) + float("2"), 0.0) == (1.0,)

        def f(x):
            made = np.zeros(2)
            made[0] = x
            return made.sum() * float(np.ones(2)[1])

        assert ct.gradient(f, 1.0) == (1.0,)

    def inside(x):
        with ct.strict():
            y = x * 1.0
        return float(y) ** 2

    assert ct.gradient(inside, 3.0) == (6.0,)


def test_a_function_without_overrides(process):
    kinds = []

    @ct.lifted(False)
    def table(n, *, step=1.0):
        """Give square roots."""
        kinds.append(type(np.zeros(n)))
        return [math.sqrt(k * step) for k in range(n)]

    @ct.lifted(True)
    def inner(x):
        kinds.append(type(np.zeros(2)))
        return math.sin(x)

    @ct.lifted(False)
    def outer(x):
        return inner(x)

    with pytest.raises(TypeError, match="drop the gradient"):
        ct.gradient(lambda x: ct.lifted(False)(lambda y: math.sin(y))(x), 0.0)
    assert ct.gradient(lambda x: x * sum(table(3, step=4.0)) + math.sin(x), 0.0) == (
        pytest.approx(2.0 + 2.0 * math.sqrt(2.0) + 1.0),
    )
    assert ct.gradient(outer, 0.0) == (1.0,)
    assert kinds == [np.ndarray, ct.Array]
    assert table.__name__ == "table" and table.__doc__ == "Give square roots."
    assert str(inspect.signature(table)) == "(n, *, step=1.0)"
    with pytest.raises(ZeroDivisionError):
        ct.gradient(lambda x: ct.lifted(False)(lambda y: y / (1 // 0))(x), 1.0)
    assert ct.gradient(lambda x: math.sin(x), 0.0) == (1.0,)


# --------------------------------------------------------------------------------------------------
# Code that has run often: the interpreter replaces its instructions by shorter ones

OFTEN = 40


def often(f, *args):
    for _ in range(OFTEN):
        result = f(*args)
    return result


def test_the_rule_of_an_init_is_asked_however_often_a_class_was_called():
    class Pair:
        def __init__(self, a, b):
            self.sum = a + b

    class Earlier(Pair):
        pass

    def rule(self, a, b):
        self.sum = a - b

    # Each class in code of its own.
    uses = {Pair: lambda _: Pair(1.0, 2.0).sum, Earlier: lambda _: Earlier(1.0, 2.0).sum}
    assert [often(use, None) for use in uses.values()] == [3.0, 3.0]
    _core.add_rule(Pair.__init__, rule, "always")
    _core.keep_entries(Pair)

    class Later(Pair):
        pass

    uses[Later] = lambda _: Later(1.0, 2.0).sum
    assert often(uses[Later], None) == 3.0
    for use in uses.values():
        found = []
        often(ct.gradient, lambda x, use=use: (found.append(use(None)), x)[1], 1.0)
        assert set(found) == {-1.0}
        assert often(use, None) == 3.0


def test_a_rule_of_users_for_a_class_is_asked_however_often_it_was_called():
    class Pair:
        def __init__(self, a, b):
            self.sum = a + b

    def use(_):
        return Pair(1.0, 2.0)

    often(use, None)
    _core.add_rule(Pair, lambda a, b: "ours", "always")
    _core.keep_entries(Pair)
    found = []
    often(ct.gradient, lambda x: (found.append(use(None)), x)[1], 1.0)
    assert set(found) == {"ours"}
    assert often(use, None).sum == 3.0


def test_a_rule_of_users_for_an_init_is_asked_however_often_its_classes_were_called():
    class Pair:
        def __init__(self, a, b):
            self.sum = a * b

    class Slots:
        __slots__ = ("sum",)
        __init__ = Pair.__init__

    class Derived(Slots):
        pass

    def rule(self, a, b):
        self.sum = a * b
        return None, lambda g: (None, 10.0, 20.0)

    # Each class in code of its own.
    uses = [
        lambda a: Pair(a, 2.0).sum,
        lambda a: Slots(a, 2.0).sum,
        lambda a: Derived(a, 2.0).sum,
    ]
    assert [often(use, 3.0) for use in uses] == [6.0] * 3
    asked = []
    ct.adjoint(Pair.__init__, lambda *args: (asked.append(type(args[0])), rule(*args))[1])
    for use in uses:
        often(ct.gradient, use, 3.0)
    assert len(asked) == 3 * OFTEN
    assert set(asked) == {Pair, Slots, Derived}


def test_splines_are_followed_where_they_were_computed_often():
    x, at = np.linspace(0.0, 3.0, 6), 1.3

    def f(y):
        return interpolate.PchipInterpolator(x, y, 0, None)(at)

    class Own(interpolate.PchipInterpolator):
        pass

    def g(y):
        return Own(x, y, 0, None)(at)

    for function in (f, g):
        plain = often(function, x**2)
        value, (gradient,) = often(ct.value_and_gradient, function, x**2)
        assert value == pytest.approx(plain, rel=1e-12)
        step = 1e-6 * np.eye(6)
        slopes = [(function(x**2 + d) - function(x**2 - d)) / 2e-6 for d in step]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-8)
