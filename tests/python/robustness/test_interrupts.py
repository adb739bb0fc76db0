"""Exceptions of signal handlers: no first attempt that is given up keeps one for itself."""

import signal
import time

import numpy as np
import pytest
from scipy import integrate, linalg, optimize

import cotan as ct

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="needs timers that send signals"
)

MOMENTS = 60
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


CALLS = {
    "register": (lambda own: own.x * own.x, Own(2.0)),
    "solve_ivp": (
        lambda rate: integrate.solve_ivp(lambda t, y: -rate * y, (0, 1), [1.0]).y[0, -1],
        1.3,
    ),
    "odeint": (lambda rate: integrate.odeint(lambda y, t: -rate * y, 1.0, [0, 1])[-1, 0], 1.3),
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


@pytest.mark.parametrize("name", CALLS)
def test_a_signal_is_heard_at_every_moment(name):
    function, at = CALLS[name]
    began = time.perf_counter()
    ct.gradient(function, at)
    length = time.perf_counter() - began
    runs = []

    def handler(signum, frame):
        runs.append(signum)
        raise HeardError

    def interrupted(moment):
        signal.setitimer(signal.ITIMER_REAL, moment)
        ct.gradient(function, at)
        # It may come when the gradient is there.
        while not runs:
            time.sleep(0.001)

    old = signal.signal(signal.SIGALRM, handler)
    try:
        for i in range(MOMENTS):
            runs.clear()
            with pytest.raises(HeardError):
                interrupted(max(length * i / MOMENTS, 1e-6))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_what_code_makes_of_a_timeout_is_raised():
    def handler(signum, frame):
        # It comes once.
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        raise TimeoutError("too late")

    def slope(t, y, rate):
        try:
            signal.raise_signal(signal.SIGALRM)
        except TimeoutError as error:
            raise ValueError("the step takes too long") from error
        return -rate * y

    def solved(rate):
        return integrate.odeint(slope, 1.0, [0.0, 1.0], (rate,), tfirst=True)[-1, 0]

    old = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(ValueError, match="takes too long"):
            ct.gradient(solved, 1.3)
    finally:
        signal.signal(signal.SIGALRM, old)
