"""What functions keep that solvers of SciPy call: as much as under SciPy, and with derivatives."""
# ruff: noqa: NPY002, PLW0603

import functools
import io
import itertools
import queue
import random
import sys
import threading
import warnings
import weakref
from array import array
from collections import Counter, defaultdict, deque
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from scipy import integrate, optimize

import cotan as ct
from cotan._src.state.solver_replay import ReplayedCallback

CALLS = 0
NUMBERS = itertools.count()
TIGHT = {"rtol": 1e-6, "atol": 1e-8}


def right_side(f):
    return lambda t, y: [0.1 * f(y[0]) - y[0]]


SOLVERS = {
    "minimize": lambda f: optimize.minimize(lambda x: f(x[0]), [3.0]).x[0],
    "Nelder-Mead": lambda f: optimize.minimize(
        lambda x: f(x[0]), [3.0], method="Nelder-Mead", tol=1e-8
    ).x[0],
    "fmin_tnc": lambda f: optimize.fmin_tnc(lambda x: f(x[0]), [3.0], approx_grad=True, disp=0)[0][
        0
    ],
    "differential_evolution": lambda f: optimize.differential_evolution(
        lambda x: f(x[0]), [(-1.0, 3.0)], maxiter=4, rng=0
    ).x[0],
    "brentq": lambda f: optimize.brentq(lambda x: f(x) - 2.0, 1.0, 3.0),
    "fsolve": lambda f: optimize.fsolve(lambda x: f(x[0]) - 2.0, [3.0])[0],
    "least_squares": lambda f: optimize.least_squares(
        lambda x: np.array([f(x[0]) - 2.0, 0.1 * x[0]]), [3.0]
    ).x[0],
    "curve_fit": lambda f: optimize.curve_fit(
        lambda t, x: t * f(x), np.arange(4.0), 1.5 * np.arange(4.0), 2.0
    )[0][0],
    "quad": lambda f: integrate.quad(f, 0, 1.5)[0],
    "RK45": lambda f: integrate.solve_ivp(right_side(f), (0, 1), [1.0], **TIGHT).y[0, -1],
    "LSODA": lambda f: integrate.solve_ivp(right_side(f), (0, 1), [1.0], "LSODA", **TIGHT).y[0, -1],
    "odeint": lambda f: integrate.odeint(right_side(f), [1.0], [0.0, 1.0], tfirst=True)[-1, 0],
    "vode": lambda f: (
        integrate.ode(right_side(f)).set_integrator("vode").set_initial_value([1.0]).integrate(1)[0]
    ),
}


class Slots:
    __slots__ = ("calls", "last", "log")

    def __init__(self):
        self.calls, self.log = 0, []

    def note(self, v):
        self.calls, self.last = self.calls + 1, v
        self.log.append(v)


class Model:
    calls = 0
    last = None

    def note(self, v):
        self.__class__.calls += 1
        Model.last = v


@dataclass(slots=True)
class Outer:
    inner: list = field(default_factory=lambda: [SimpleNamespace(calls=0, log=[])])
    table: dict = field(default_factory=lambda: {"calls": ([0], {})})


def in_elements():
    calls, sums, log = np.zeros(2, int), np.zeros(2), np.zeros((900, 2))

    def note(v):
        log[calls[0]] = [v, 1.0]
        calls[0] += 1
        sums[0] += 1
        sums[1] = v

    return note, lambda: [calls, sums, log]


def in_slots():
    slots = Slots()
    return slots.note, lambda: [slots.calls, slots.last, *slots.log]


def in_a_class():
    Model.calls = 0
    return Model().note, lambda: [Model.calls, Model.last]


def in_a_global():
    global CALLS
    CALLS = 0

    def note(v):
        global CALLS
        CALLS += 1

    return note, lambda: [CALLS]


def in_names():
    state, settings = ModuleType("state"), ModuleType("settings")
    state.calls, state.turns, settings.calls = 0, itertools.count(), 0
    names = {"state": state, "settings": settings, "calls": 0}
    source = """
def note(v):
    state.calls += 1
    next(state.turns)
    setattr(settings, "calls", settings.calls + 1)
    globals()["calls"] += 1
"""
    exec(source, names)

    def found():
        return [state.calls, next(state.turns), settings.calls, names["calls"]]

    return names["note"], found


class Odd(list):
    def __len__(self):
        raise AssertionError

    __iter__ = __getitem__ = __reversed__ = clear = extend = __len__


def in_a_class_of_its_own():
    odd = Odd()
    return odd.append, lambda: list(list.__iter__(odd))


def in_iterators():
    global NUMBERS
    NUMBERS = itertools.count(3)
    numbers, objects, log = itertools.count(), SimpleNamespace(), []
    # From Python 3.14 on, nobody can tell how far a cycle is.
    again = itertools.cycle([5, 6, 7]) if sys.version_info < (3, 14) else [5, 6, 7] * 200
    objects.of = enumerate(again)

    def note(v):
        log.extend([next(numbers), *next(objects.of), next(NUMBERS)])

    return note, lambda: [*log, next(numbers), *next(objects.of), next(NUMBERS)]


def in_long_collections():
    log, table, recent = list(range(10_500)), dict.fromkeys(range(10_500), 0), deque(range(10_500))

    def note(v):
        log.append(v)
        table[len(table)] = v
        recent.append(v)

    return note, lambda: [len(log), log[-1], len(table), *list(table.values())[10_500:], recent[-1]]


def in_what_is_made_later():
    class Lazy:
        pass

    lazy, groups = Lazy(), defaultdict(lambda: defaultdict(list))

    def note(v):
        if not hasattr(lazy, "log"):
            lazy.log = []
        lazy.log.append(v)
        groups["all"][bool(v > 0)].append(v)
        note.calls = getattr(note, "calls", 0) + 1

    return note, lambda: [*lazy.log, note.calls, *groups["all"][True], *groups["all"][False]]


def in_many_objects():
    objects = [SimpleNamespace(calls=0) for _ in range(200)]

    def note(v):
        for one in objects[::7]:
            one.calls += 1

    return note, lambda: [one.calls for one in objects]


def in_nested_ones():
    outer = Outer()

    def note(v):
        outer.inner[0].calls += 1
        outer.inner[0].log.append((outer.inner[0].calls, v))
        outer.table["calls"][0][0] += 1
        outer.table["calls"][1][outer.inner[0].calls] = v

    def state():
        inner, (calls, table) = outer.inner[0], outer.table["calls"]
        return [inner.calls, len(inner.log), inner.log[-1][1], *calls, *table.values()]

    return note, state


def in_draws():
    drawn, old, rng = random.Random(1), np.random.RandomState(2), np.random.default_rng(3)
    random.seed(4)
    np.random.seed(5)
    log = []

    def note(v):
        log.extend([drawn.random(), old.rand(), rng.random(), random.random(), np.random.rand()])

    return note, lambda: [*log, drawn.random(), rng.random(), random.random(), np.random.rand()]


def in_bytes_and_text():
    marks, signs, text = bytearray(), array("d"), io.StringIO()

    def note(v):
        marks.append(len(marks) % 250)
        signs.append(np.sign(ct.dropgrad(v)))
        text.write("step\n")

    return note, lambda: [len(marks), marks[-1], len(text.getvalue()), text.tell(), signs]


def in_objects_of_the_library():
    class Counted:
        calls = 0

    counted, local, waiting = Counted(), threading.local(), queue.Queue()
    local.calls, reference, context = 0, weakref.ref(counted), ContextVar("calls", default=0)

    def note(v):
        local.calls += 1
        waiting.put(v)
        reference().calls += 1
        context.set(context.get() + 1)

    return note, lambda: [local.calls, waiting.qsize(), counted.calls, context.get()]


def by_decorators():
    log, calls = [], Counter()
    append = log.append

    def counted(f):
        @functools.wraps(f)
        def call(*args, **options):
            call.calls += 1
            return f(*args, **options)

        call.calls = 0
        return call

    @counted
    def keep(table, v, add=None):
        table["calls"] += 1
        add(v)

    return (
        functools.partial(keep, calls, add=append),
        lambda: [keep.calls, calls["calls"], *log],
    )


KEPT = [
    in_elements,
    in_slots,
    in_a_class,
    in_a_global,
    in_names,
    in_a_class_of_its_own,
    in_iterators,
    in_long_collections,
    in_what_is_made_later,
    in_many_objects,
    in_nested_ones,
    in_draws,
    in_bytes_and_text,
    in_objects_of_the_library,
    by_decorators,
]


def run(name, kept, p):
    note, state = kept()

    def bowl(x):
        v = (x - p) ** 2 + 0.5 * x
        note(v)
        return v

    return SOLVERS[name](bowl), state()


def values(state):
    return np.concatenate([np.ravel(np.asarray(ct.dropgrad(v), float)) for v in state])


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("name", SOLVERS)
def test_what_is_kept_is_what_scipy_leaves(name, kept):
    place, wanted = run(name, kept, 1.3)
    seen = []

    def solved(p):
        place, state = run(name, kept, p)
        seen.append(values(state))
        return place

    value, _ = ct.value_and_gradient(solved, 1.3)
    assert value == pytest.approx(place, rel=1e-9)
    np.testing.assert_allclose(seen[0], values(wanted), 1e-6, 1e-8)


class Searched:
    """An objective that keeps the best of what it has seen, and what follows from that."""

    def __init__(self, p):
        self.p, self.best, self.calls = p, np.inf, np.zeros(1)
        self.at, self.pair, self.report = np.zeros(2), None, {}

    def __call__(self, x, p=None):
        p = self.p if p is None else p
        v = np.sum((x - p) ** 2) + np.sum(x**4)
        self.calls[0] += 1
        if v < self.best:
            self.best, self.pair = v, (v, x.copy())
            self.at[:] = x
            self.report["double"] = [2 * x[0], np.sin(p)]
        return v

    def total(self):
        best, x = self.pair
        double, sine = self.report["double"]
        weights = np.array([1.0, -2.0])
        return self.best + best + x @ weights + self.at @ weights + double + sine


SEARCHES = {
    "BFGS": lambda f, args: optimize.minimize(f, np.array([1.0, 2.0]), args),
    "Nelder-Mead": lambda f, args: optimize.minimize(
        f, np.array([1.0, 2.0]), args, method="Nelder-Mead", tol=1e-9
    ),
    "differential_evolution": lambda f, args: optimize.differential_evolution(
        f, [(-2.0, 2.0)] * 2, args=args, maxiter=20, rng=0
    ),
    "vectorized": lambda f, args: optimize.differential_evolution(
        lambda x, *p: np.array([f(v, *p) for v in x.T]) if x.ndim == 2 else f(x, *p),
        [(-2.0, 2.0)] * 2,
        args=args,
        maxiter=60,
        rng=0,
        vectorized=True,
        updating="deferred",
        polish=False,
        tol=1e-6,
    ),
    "brute": lambda f, args: optimize.brute(f, [(-1.0, 3.0)] * 2, args, Ns=5),
}


@pytest.mark.parametrize("by_args", [False, True])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_best_that_was_seen_follows_the_solution(name, by_args):
    def run(p):
        searched = Searched(0.0 if by_args else p)
        SEARCHES[name](searched, (p,) if by_args else ())
        return searched

    value, (slope,) = ct.value_and_gradient(lambda p: run(p).total(), 0.7)
    assert value == pytest.approx(run(0.7).total(), rel=1e-8)
    h = 1e-2
    wanted = (run(0.7 + h).total() - run(0.7 - h).total()) / (2 * h)
    assert slope == pytest.approx(wanted, rel=5e-3)


@pytest.mark.parametrize("solve", [SOLVERS["minimize"], SOLVERS["RK45"], SOLVERS["odeint"]])
def test_what_cannot_be_put_back_is_refused(solve):
    turns = (i for i in range(1000))
    known, table = set(range(10_001)), np.zeros(9_000_000)

    def advance(v):
        next(turns)

    def note(v):
        known.add(-len(known))

    def write(v):
        table[5] += 1

    for keep, place in ((advance, "an iterator"), (note, "a set"), (write, "an array of more")):

        def f(p, keep=keep):
            return solve(lambda x: (keep(x), (x - p) ** 2 + 0.5 * x)[1])

        if keep is note and solve is not SOLVERS["minimize"]:
            ct.gradient(f, 1.3)  # held as a whole
            continue
        with pytest.raises(
            TypeError, match=f"keeps state in {place}.*keep the state in a variable"
        ):
            ct.gradient(f, 1.3)
        assert ct.gradient(lambda p, f=f: p * f(1.3), 1.0) == (pytest.approx(f(1.3)),)


def test_memory_that_a_solver_lends_is_left_alone():
    def run(p):
        seen = []
        optimize.leastsq(lambda x: (seen.append(x), [x[0] - p, x[0] ** 2])[1], [1.0])
        return len(seen)

    lengths = []
    ct.gradient(lambda p: (lengths.append(run(p)), p)[1], 1.3)
    assert lengths == [run(1.3)]


def test_lists_among_the_arguments_are_the_programs_own():
    def run(p, solve):
        log = []

        def bowl(x, log, p):
            v = (np.reshape(x, -1)[0] - p) ** 2
            log.append(v)
            return v

        solve(bowl, (log, p))
        return log

    for solve in (
        lambda f, args: optimize.minimize(f, [0.3], args),
        lambda f, args: optimize.minimize_scalar(f, args=args),
        lambda f, args: integrate.quad(f, 0, 1, args),
    ):
        lengths = []
        ct.gradient(lambda p, s=solve: (lengths.append(len(run(p, s))), p)[1], 1.3)
        assert lengths == [len(run(1.3, solve))]


def test_what_is_only_within_reach_is_in_nobodys_way():
    """What is closed, drawn by the system or no longer there has nothing to be put back."""
    closed, drawn, items = io.StringIO(), random.SystemRandom(), {1: 1}
    turn = iter(items)
    items[2] = 2
    closed.close()

    def root(p):
        def f(x):
            assert closed.closed
            assert drawn is not turn
            return x**2 - p

        return optimize.brentq(f, 0.0, 5.0)

    assert ct.grad(root)(2.0) == pytest.approx(0.5 / np.sqrt(2.0))


def test_what_is_kept_is_as_at_the_end_after_an_exception():
    calls = []

    def f(x):
        calls.append(x)
        return x**2

    def interrupted(x):
        f(x)
        raise KeyboardInterrupt

    callback = ReplayedCallback(f)
    callback.wrap_solver(lambda: [callback(x) for x in (1.0, 2.0, 3.0)])()
    callback._function = interrupted
    with pytest.raises(KeyboardInterrupt):
        callback.write_back(3.0)
    assert calls == [1.0, 2.0, 3.0]


def test_large_arrays_that_each_call_makes_anew_are_not_kept():
    class Model:
        def residual(self, x):
            self.last = np.full(100_000, x)
            return x

    model, made = Model(), []
    callback = ReplayedCallback(model.residual)
    for x in (1.0, 2.0, 3.0, 4.0):
        callback(x)
        made.append(weakref.ref(model.last))
    assert sum(ref() is not None for ref in made) <= 2


def last_place(p):
    """A model that knows its last place, and the value there."""
    last = {}

    def model(x):
        if "x" not in last or not np.array_equal(last["x"], x):
            last["x"], last["y"] = np.array(x), np.exp(-x * p) + x**2
        return last["y"]

    return model


KNOWN = {
    "least_squares": lambda m, p: optimize.least_squares(
        lambda x: np.concatenate([m(x) - 1.5, 0.1 * x]), [1.0, 1.2], xtol=1e-14, ftol=1e-14
    ).x,
    "leastsq": lambda m, p: optimize.leastsq(lambda x: m(x) - 1.5 + x - p, [1.0, 1.2])[0],
    "root": lambda m, p: optimize.root(lambda x: m(x) - 1.5 + x - p, [1.0, 1.2], tol=1e-13).x,
    "fsolve": lambda m, p: optimize.fsolve(lambda x: m(x) - 1.5 + x - p, [1.0, 1.2], xtol=1e-12),
    "brentq": lambda m, p: optimize.brentq(lambda x: m(x) - 1.5 + x - p, 0.0, 3.0, xtol=1e-13),
    "newton": lambda m, p: optimize.newton(lambda x: m(x) - 1.5 + x - p, 1.0, tol=1e-12),
    "BFGS": lambda m, p: optimize.minimize(
        lambda x: np.sum(m(x)) + 0.1 * np.sum(x**2), [0.1, 0.2], tol=1e-9
    ).x,
    "SLSQP": lambda m, p: optimize.minimize(
        lambda x: np.sum(m(x)), [1.0, 1.0], method="SLSQP", tol=1e-12,
        constraints={"type": "ineq", "fun": lambda x: m(x)[0] - 1.5},
    ).x,
    "minimize_scalar": lambda m, p: optimize.minimize_scalar(m, (0.0, 1.0), tol=1e-10).x,
    "fmin": lambda m, p: optimize.fmin(
        lambda x: np.sum(m(x)), [0.1, 0.2], disp=0, xtol=1e-9, ftol=1e-13
    ),
    "krylov": lambda m, p: optimize.newton_krylov(
        lambda x: m(x) - 1.5 + x - p, [1.0, 1.2], f_tol=1e-12
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_functions_that_know_their_last_place_are_differentiated(name):
    def f(p):
        return np.sum(KNOWN[name](last_place(p), p))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value, (slope,) = ct.value_and_gradient(f, 0.7)
        wanted = (f(0.7 + 1e-3) - f(0.7 - 1e-3)) / 2e-3
    assert value == pytest.approx(f(0.7), rel=1e-5)
    assert slope == pytest.approx(wanted, rel=2e-3)
