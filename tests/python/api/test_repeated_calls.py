"""Prepared functions repeat calls of library functions that read values, where they can."""

import functools
import inspect
import sys

import numpy as np
import pytest

import cotan as ct
from cotan._src.rebind.engine import locate_original
from cotan._src.runtime.registry import rule_of

pytest.importorskip("scipy")

import scipy.signal
import scipy.sparse.linalg
from scipy import integrate, optimize, stats
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq


def expect_like_unprepared(f, *arguments):
    g = ct.prepare(f, arguments[0])
    for x in (*arguments, arguments[0]):
        np.testing.assert_allclose(g(x), ct.gradient(f, x), rtol=1e-12)
    assert g.explain().unprepared == {}
    return g


def test_callbacks_capture_what_they_read():
    def f(k):
        return np.sum(solve_ivp(lambda t, y: -k * y, (0.0, 1.0), np.array([1.0, 2.0])).y[:, -1])

    expect_like_unprepared(f, 0.5, 0.6, 2.0)


def test_callbacks_of_a_loop_keep_their_variables():
    def f(x):
        total = 0.0
        for k in (1.0, 2.0, 3.0):
            total = total + quad(lambda u: np.exp(-k * x * u), 0.0, 1.0)[0]
        return total

    g = expect_like_unprepared(f, 0.5, 0.9)
    assert g.num_recordings == 1


def test_methods_and_partials_are_callbacks():
    class Model:
        def __init__(self, k):
            self.k = k

        def residual(self, shift, u):
            return u**3 + self.k * u - shift

    def f(k):
        return brentq(functools.partial(Model(k).residual, 2.0 * k), -5.0, 5.0)

    expect_like_unprepared(f, 1.0, 1.5)


rate = 2.0


def decays(x):
    return quad(lambda u: np.exp(-rate * x * u), 0.0, 1.0)[0]


def test_globals_of_callbacks_are_guarded(monkeypatch):
    g = ct.prepare(decays, 0.5)
    g(0.5)
    monkeypatch.setattr(sys.modules[__name__], "rate", 3.0)
    np.testing.assert_allclose(g(0.5), ct.gradient(decays, 0.5))


def max_depth(rule, run):
    """Give how many calls of a rule are open at once, at most."""
    code, calls, deepest = inspect.unwrap(rule).__code__, 0, 0

    def count(frame, event, _):
        nonlocal calls, deepest
        if frame.f_code is code:
            calls += {"call": 1, "return": -1}.get(event, 0)
            deepest = max(deepest, calls)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(before)
    return deepest


CALLS = {
    "integrate.solve_ivp": lambda x: solve_ivp(lambda t, y: -x[0] * y, (0.0, 1.0), x).y[:, -1],
    "integrate.odeint": lambda x: integrate.odeint(lambda y, t: -x[0] * y, x, [0.0, 1.0])[1],
    "integrate.quad": lambda x: quad(lambda t: np.exp(-x[0] * t), 0.0, 1.0)[0],
    "integrate.quad_vec": lambda x: integrate.quad_vec(lambda t: np.exp(-x * t), 0.0, 1.0)[0],
    "optimize.brentq": lambda x: brentq(lambda t: t**3 + t - x[0], -1.0, 5.0),
    "optimize.newton": lambda x: optimize.newton(lambda t: t**3 + t - x[0], 1.0),
    "optimize.root": lambda x: optimize.root(lambda t: t**3 + t - x, np.ones(2)).x,
    "optimize.fsolve": lambda x: optimize.fsolve(lambda t: t**3 + t - x, np.ones(2)),
    "optimize.minimize": lambda x: optimize.minimize(lambda t: np.sum((t - x) ** 4), [0, 0]).x,
    "optimize.fmin_bfgs": lambda x: optimize.fmin_bfgs(
        lambda t: np.sum((t - x) ** 2), np.zeros(2), disp=0
    ),
    "optimize.minimize_scalar": lambda x: optimize.minimize_scalar(lambda t: (t - x[0]) ** 2).x,
    "optimize.least_squares": lambda x: optimize.least_squares(lambda t: t**3 + t - x, [1, 1]).x,
    "optimize.leastsq": lambda x: optimize.leastsq(lambda t: t**3 + t - x, [1, 1])[0],
    "optimize.curve_fit": lambda x: optimize.curve_fit(
        lambda t, a: a * t, np.arange(4.0), x[0] * np.arange(4.0) + x[1]
    )[0],
    "optimize.approx_fprime": lambda x: optimize.approx_fprime([1.0, 1.0], lambda t: t @ x),
    "signal.cont2discrete": lambda x: scipy.signal.cont2discrete(([1.0], [1.0, *x]), 0.1)[0],
    "sparse.linalg.expm_multiply": lambda x: scipy.sparse.linalg.expm_multiply(
        scipy.sparse.csr_array((x, ([0, 1], [1, 0])), shape=(2, 2)), np.ones(2)
    ),
}


# Those whose rules give slopes.
GIVE_SLOPES = {
    "integrate.quad",
    "optimize.brentq",
    "optimize.curve_fit",
    "optimize.newton",
    "optimize.root",
    "optimize.fsolve",
}


@pytest.mark.parametrize("name", CALLS)
def test_replays_call_the_library(name):
    def f(x):
        return np.sum(CALLS[name](x))

    x = np.array([0.8, 1.3])
    g = ct.prepare(f, x)
    # A replay calls the rule, or what that has found to do.
    called = locate_original if name in GIVE_SLOPES else rule_of
    assert max_depth(called(f"scipy.{name}"), lambda: g(1.1 * x)) == 1
    assert g.num_recordings == 1
    np.testing.assert_allclose(g(1.1 * x)[0], ct.gradient(f, 1.1 * x)[0], rtol=1e-6)


def test_second_derivatives():
    def f(v):
        return quad(lambda u: np.exp(-v[0] * v[1] * u), 0.0, 1.0)[0]

    h = ct.prepare(lambda x: ct.hessian(f, x), np.array([0.5, 0.7]), transform="value")
    x = np.array([0.4, 0.9])
    np.testing.assert_allclose(h(x), ct.hessian(f, x), rtol=1e-10)


def test_callbacks_that_write_are_refused():
    count = [0]

    def f(x):
        def integrand(u):
            count[0] += 1
            return np.exp(-x * u)

        return quad(integrand, 0.0, 1.0)[0]

    with pytest.raises(TypeError, match="prepare: "):
        ct.prepare(f, 0.5)


def test_what_a_callback_uses_must_not_change_afterwards():
    def f(x):
        p = [1.0]
        y = quad(lambda u: np.exp(-p[0] * x * u), 0.0, 1.0)[0]
        p[0] = 2.0
        return y

    with pytest.raises(TypeError, match="after the call"):
        ct.prepare(f, 0.5)


def test_arguments_may_change_afterwards():
    def f(x):
        edges = np.array([0.4, 1.0])
        y = np.sum(np.unique(np.append(edges, x)) ** 2)
        edges[:] = 7.0
        return y + np.sum(np.unique(np.append(edges, x)) ** 2)

    x = np.array([0.3, 1.2, 0.7])
    g = ct.prepare(f, x)
    for at in (x, x + 0.1, x[[2, 0, 1]]):
        np.testing.assert_allclose(g(at), ct.gradient(f, at))


def test_results_of_another_shape_are_recorded_anew():
    g = ct.prepare(lambda x: np.sum(np.unique(x) ** 2), np.array([1.0, 2.0, 1.0]))
    for x in np.array([[1.0, 2.0, 1.0], [1.0, 2.0, 3.0], [4.0, 4.0, 4.0]]):
        np.testing.assert_array_equal(g(x), ct.gradient(lambda x: np.sum(np.unique(x) ** 2), x))
    reasons = [str(r.reason) for r in g.explain().recordings[1:]]
    assert len(reasons) == 2
    assert "unique gives float64[3], recorded float64[2]" in reasons[0]


def test_rounding_is_that_of_python():
    g = ct.prepare(lambda x: round(x, 2) * x, 0.125)
    for x in (0.125, 2.675, 1.005, -0.5):
        assert g(x) == (round(x, 2),)
    assert g.num_recordings == 1


def test_random_numbers_of_an_import_do_not_count(tmp_path, monkeypatch):
    (tmp_path / "draws_when_imported.py").write_text(
        "import random\nimport numpy as np\nk = random.random() + np.random.rand()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def f(x):
        import draws_when_imported

        return x * x + 0.0 * draws_when_imported.k

    try:
        assert ct.prepare(f, 2.0)(3.0) == (6.0,)
    finally:
        sys.modules.pop("draws_when_imported", None)


def test_infinite_ends_that_are_computed():
    def moment(x):
        return stats.norm.expect(lambda t: t**2, loc=x[0], scale=x[1])

    def sides(x):
        bell = lambda t: np.exp(-t * t) * x[1]
        return quad(bell, -np.inf * x[1], x[0])[0] + quad(bell, x[0], np.inf * x[0])[0]

    for f in (moment, sides):
        g = ct.prepare(f, np.array([0.6, 1.3]))
        for x in np.array([[0.6, 1.3], [0.7, 1.2], [-0.4, 0.5]]):
            np.testing.assert_allclose(g(x)[0], ct.gradient(f, x)[0], rtol=1e-9, atol=1e-12)
        assert g.num_recordings <= 2
