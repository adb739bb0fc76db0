"""Exceptions of signal handlers: no first attempt that is given up keeps one for itself."""

import gc
import inspect
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, linalg, optimize

import cotan as ct
from cotan._src.runtime.interrupts import raise_interrupt

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that send signals"),
    # Timers and signals are those of the whole process.
    pytest.mark.alone,
]

MOMENTS = 60
LIBRARIES = Path(np.__file__).parent.parent
TIMES = np.linspace(0.0, 1.0, 10)
DATA = 2.0 * np.exp(-TIMES)


class Own:
    """Taken apart by Python code."""

    def __init__(self, x):
        self.x = x


ct.register(Own, lambda own: ((own.x,), None), lambda _, children: Own(*children))


def by_class(rate):
    solver = integrate.ode(lambda t, y: -rate * y)
    solver.set_integrator("dopri5").set_initial_value([1.0], 0.0)
    return np.sum(solver.integrate(1.0))


def inverse(a):
    return linalg.inv(np.array([[a, 1.0], [0.0, 2.0]])).sum()


def slopes(y, t, rate):
    time.sleep(0.0002)
    return [[-rate]]


CALLS = {
    "register": (lambda own: own.x * own.x, Own(2.0)),
    "solve_ivp": (
        lambda rate: integrate.solve_ivp(lambda t, y: -rate * y, (0, 1), [1.0]).y[0, -1],
        1.3,
    ),
    "odeint": (lambda rate: integrate.odeint(lambda y, t: -rate * y, 1.0, [0, 1])[-1, 0], 1.3),
    "Dfun": (
        lambda rate: integrate.odeint(lambda y, t, r: -r * y, 1.0, [0, 1], (rate,), slopes)[-1, 0],
        30.0,
    ),
    "ode": (by_class, 1.3),
    "brentq": (lambda a: optimize.brentq(lambda x: x * x - a, 0.0, 5.0), 2.0),
    "quad": (lambda a: integrate.quad(lambda x: np.exp(-a * x), 0.0, 1.0)[0], 2.0),
    "curve_fit": (
        lambda y: optimize.curve_fit(lambda t, a, b: a * np.exp(-b * t), TIMES, y)[0].sum(),
        DATA,
    ),
    "minimize": (
        lambda a: optimize.minimize(lambda x: ((x - a) ** 2).sum(), np.ones(2)).x.sum(),
        1.5,
    ),
    "inv": (inverse, 3.0),
    "fori_loop": (lambda x: ct.fori_loop(0, 20, lambda i, y: np.sin(y) * x, x), 0.5),
}


class HeardError(Exception):
    """What a timeout raises: an exception that `except Exception` catches."""


@pytest.fixture
def handled(request):
    """Install a handler; what others have installed is put back."""
    old, timer = (
        signal.signal(signal.SIGALRM, request.param),
        signal.setitimer(signal.ITIMER_REAL, 0),
    )
    gc.collect()
    # What is raised while objects are collected is only printed.
    gc.disable()
    yield
    gc.enable()
    signal.signal(signal.SIGALRM, old)
    signal.setitimer(signal.ITIMER_REAL, *timer)


RAISED = []


def raising(signum, frame):
    RAISED.append(HeardError())
    raise RAISED[-1]


def without_arguments(signum, frame):
    del signum, frame
    RAISED.append(HeardError())
    raise RAISED[-1]


@pytest.mark.parametrize("handled", [raising, without_arguments], indirect=True)
@pytest.mark.parametrize("name", CALLS)
def test_a_signal_is_heard_at_every_moment(name, handled):
    function, at = CALLS[name]
    ct.gradient(function, at)
    began = time.perf_counter()
    ct.gradient(function, at)
    length = time.perf_counter() - began

    def interrupted(moment):
        signal.setitimer(signal.ITIMER_REAL, moment)
        ct.gradient(function, at)
        # It may come when the gradient is there.
        while not RAISED:
            time.sleep(0.001)

    for i in range(MOMENTS):
        RAISED.clear()
        try:
            interrupted(max(length * i / MOMENTS, 1e-6))
        except HeardError:
            continue
        # NumPy and SciPy go on after any exception in some places, such as `np.array_equal`.
        caught = RAISED[0].__traceback__
        assert caught is not None
        assert Path(caught.tb_frame.f_code.co_filename).is_relative_to(LIBRARIES)


def raising_arithmetic_error(signum, frame):
    RAISED.append(FloatingPointError("heard"))
    raise RAISED[-1]


@pytest.mark.parametrize("handled", [raising_arithmetic_error], indirect=True)
@pytest.mark.parametrize("name", ["brentq", "odeint", "quad", "fori_loop"])
def test_errors_that_solvers_raise_are_heard_while_they_are_prepared(name, handled):
    """A first attempt that fails with such an error is given up."""
    function, at = CALLS[name]

    def prepared(moment):
        signal.setitimer(signal.ITIMER_REAL, moment)
        g = ct.prepare(function, at)
        g(at)
        g(1.1 * at)
        while not RAISED:
            time.sleep(0.001)

    began = time.perf_counter()
    RAISED.append(None)
    prepared(10.0)
    length = time.perf_counter() - began
    for i in range(200):
        RAISED.clear()
        with pytest.raises(FloatingPointError, match="heard"):
            prepared(max(length * i / 200, 1e-6))


def once(signum, frame):
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    raise TimeoutError("too late")


@pytest.mark.parametrize("handled", [once], indirect=True)
def test_what_code_makes_of_a_timeout_is_raised(handled):
    def slope(t, y, rate):
        try:
            signal.raise_signal(signal.SIGALRM)
        except TimeoutError as error:
            raise ValueError("the step takes too long") from error
        return -rate * y

    def solved(rate):
        return integrate.odeint(slope, 1.0, [0.0, 1.0], (rate,), tfirst=True)[-1, 0]

    with pytest.raises(ValueError, match="takes too long"):
        ct.gradient(solved, 1.3)


@pytest.mark.parametrize("handled", [once], indirect=True)
def test_an_older_timeout_changes_nothing(handled):
    def attempt():
        try:
            raise ValueError
        except ValueError as error:
            raise_interrupt(error)

    try:
        signal.raise_signal(signal.SIGALRM)
    except TimeoutError:
        attempt()
        # Known programs are tried for a function that branches on the state.
        slope = lambda t, y: -y if y[0] > 0.5 else -0.5 * y
        ct.gradient(lambda y: integrate.odeint(slope, [y], [0.0, 1.0], tfirst=True)[-1, 0], 1.0)


def test_functions_that_are_given_frames_are_no_handlers():
    def helper(frame, count):
        raise ValueError

    try:
        helper(inspect.currentframe(), 2)
    except ValueError as error:
        raise_interrupt(error)


class Shown:
    """A key of a dictionary whose text something happens to."""

    def __init__(self, happens):
        self.happens = happens

    def __repr__(self):
        self.happens()
        return "shown"

    def __hash__(self):
        return 1

    def __eq__(self, other):
        return self is other


def interrupt():
    raise KeyboardInterrupt


def fail():
    raise ValueError("no text")


@pytest.mark.parametrize("handled", [raising], indirect=True)
def test_texts_of_keys_lose_no_interrupt(handled):
    def call(tree):
        return ct.pullback(lambda d: 2.0 * sum(d.values()), tree)[1].program

    with pytest.raises(KeyboardInterrupt):
        call({Shown(interrupt): 2.0})
    with pytest.raises(HeardError):
        call({Shown(lambda: signal.raise_signal(signal.SIGALRM)): 2.0})
    assert "[?]" in str(call({Shown(fail): 2.0}))
    assert "[shown]" in str(call({Shown(list): 2.0}))


@pytest.mark.parametrize("handled", [raising], indirect=True)
def test_texts_that_are_no_names_are_made_at_every_moment(handled):
    back = ct.pullback(lambda d: d["no name"] * 2.0, {"no name": 2.0})[1]
    began = time.perf_counter()
    assert '"d' in str(back.program)
    length = time.perf_counter() - began
    for i in range(500):
        RAISED.clear()
        with pytest.raises(HeardError):  # noqa: PT012
            signal.setitimer(signal.ITIMER_REAL, max(length * i / 500, 1e-6))
            str(back.program)
            while not RAISED:
                time.sleep(0.001)


AUDITED = """
import signal
import sys

import numpy as np
from scipy import integrate, optimize

import cotan as ct


class HeardError(Exception):
    pass


def handler(signum, frame):
    raise HeardError


events, at = 0, -1


def hook(event, args):
    global events
    if inside:
        events += 1
        if events == at:
            signal.raise_signal(signal.SIGALRM)


def decay(t, y, rate):
    return -rate * y


signal.signal(signal.SIGALRM, handler)
inside = False
sys.addaudithook(hook)
CALLS = [
    (lambda x: (x * x).sum(), np.arange(3.0)),
    (lambda r: integrate.odeint(decay, 1.0, [0.0, 1.0], (r,), tfirst=True)[-1, 0], 30.0),
    (lambda a: optimize.brentq(lambda x: x * x - a, 0.0, 5.0), 2.0),
    (lambda x: ct.fori_loop(0, 20, lambda i, y: np.sin(y) * x, x), 0.5),
]
for f, x in CALLS:
    # Recorded, and replayed.
    for _ in range(6):
        seen = events
        at = -1
        inside = True
        ct.gradient(f, x)
        inside = False
        for i in range(events - seen):
            at = events + 1 + i
            inside = True
            try:
                ct.gradient(f, x)
            except HeardError:
                continue
            finally:
                inside = False
            assert events < at, (f, i)
"""


def test_signals_are_heard_in_audit_hooks():
    """Python code then runs where attributes are read; no process gets rid of a hook."""
    subprocess.run([sys.executable, "-c", AUDITED], check=True)
