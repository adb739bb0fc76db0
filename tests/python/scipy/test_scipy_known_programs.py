"""Programs of formulas that solvers meet again: nothing of them shows in a derivative."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import integrate, optimize

import cotan as ct
from cotan._src.scipy.integrate import right_side
from cotan._src.scipy.optimize import plain_solve

RATE = 0.5
TIMES = np.linspace(0.0, 2.0, 5)


def by_ivp(method):
    def solve(slope, start):
        return integrate.solve_ivp(
            slope, (0.0, 2.0), start, method, t_eval=TIMES, rtol=1e-10, atol=1e-12
        ).y[0]

    return solve


def by_odeint(slope, start):
    return integrate.odeint(slope, start, TIMES, tfirst=True, rtol=1e-10, atol=1e-12)[:, 0]


def by_class(slope, start):
    solver = integrate.ode(slope).set_integrator("dopri5", rtol=1e-10, atol=1e-12)
    return solver.set_initial_value(start, 0.0).integrate(2.0)


SOLVERS = {
    **{m: by_ivp(m) for m in ("RK45", "DOP853", "LSODA", "BDF", "Radau")},
    "odeint": by_odeint,
    "dopri5": by_class,
}


def expect_gradient(f, *at, rtol=2e-6, step=1e-4):
    """Compare a gradient with central differences of the plain function."""
    found = ct.gradient(f, *at)
    for i, x in enumerate(at):
        h = step * max(1.0, abs(x))
        moved = [f(*(v + s * h if j == i else v for j, v in enumerate(at))) for s in (1, -1)]
        expected = (moved[0] - moved[1]) / (2 * h)
        np.testing.assert_allclose(found[i], expected, rtol=rtol, atol=1e-7)


def slope_with(a, c):
    """Give a right side of two equations: of captured numbers, one of them active."""
    return lambda t, y: np.array([-a * y[0] + c * np.sin(t) * y[1], -c * y[1] ** 2 + a])


@pytest.mark.parametrize("name", SOLVERS)
def test_other_numbers_under_the_same_code(name):
    solve = SOLVERS[name]
    for c in (1.0, 0.3, 1.0):
        for a in (0.7, 1.3):
            expect_gradient(
                lambda a, y0, c=c: np.sum(solve(slope_with(a, c), np.array([1.0, y0])) ** 2), a, 0.4
            )


@pytest.mark.parametrize("name", ["RK45", "LSODA", "odeint"])
@pytest.mark.parametrize("kind", [tuple, list, np.array])
def test_kinds_of_results(name, kind):
    def f(a):
        return np.sum(SOLVERS[name](lambda t, y: kind([-a * y[0], y[0] - 1]), [1.0, 0.5]))

    value, _ = ct.value_and_gradient(f, 0.7)
    assert value == f(0.7)
    expect_gradient(f, 0.7)


@pytest.mark.parametrize("name", ["RK45", "LSODA", "odeint"])
def test_programs_are_used_and_give_the_same_bits(name):
    right_side._KNOWN.__init__()

    def f(a):
        return np.sum(SOLVERS[name](slope_with(a, 0.5), np.array([1.0, 0.4])))

    found = {ct.gradient(f, 1.1)[0] for _ in range(4)}
    assert len(found) == 1
    (program,) = right_side._KNOWN._found.values()
    assert program is not None


def test_a_global_that_changes(monkeypatch):
    def f(a):
        slope = lambda t, y: -a * RATE * y
        return by_ivp("RK45")(slope, [1.0])[-1]

    for rate in (0.5, 0.1, 2.0, 0.5):
        monkeypatch.setitem(globals(), "RATE", rate)
        np.testing.assert_allclose(
            ct.gradient(f, 0.8)[0], -2.0 * rate * np.exp(-1.6 * rate), rtol=1e-7
        )


@pytest.mark.parametrize("name", ["RK45", "LSODA", "odeint"])
def test_contents_that_change_between_calls(name):
    weights, items, table = np.array([1.0, 2.0]), [0.3], {"c": 0.2}
    owner = SimpleNamespace(c=0.1)

    def f(a):
        def slope(t, y):
            return a * weights[::-1] * y[0] - items[0] * y + table["c"] * owner.c

        return np.sum(SOLVERS[name](slope, np.array([1.0, 0.5])))

    for change in range(4):
        expect_gradient(f, 0.3)
        weights[change % 2] += 0.25
        items[0] += 0.1
        table["c"] += 1.0
        owner.c += 0.5


def test_decorators_iterators_and_counters():
    def doubled(function):
        @functools.wraps(function)
        def call(t, y):
            return 2.0 * function(t, y)

        return call

    def f(a, factor):
        inner = lambda t, y: -a * factor * y
        return by_ivp("RK45")(doubled(inner), [1.0])[-1]

    for factor in (0.3, 0.7):
        expect_gradient(lambda a, k=factor: f(a, k), 0.5)

    def counted(a):
        calls = []

        def slope(t, y):
            calls.append(t)
            return -a * y

        return by_ivp("RK45")(slope, [1.0])[-1], calls

    number = len(counted(0.5)[1])
    for _ in range(3):
        met = []

        def noted(a, met=met):
            value, calls = counted(a)
            met.append(len(calls))
            return value

        np.testing.assert_allclose(ct.gradient(noted, 0.5)[0], -2 * np.exp(-1.0), rtol=1e-7)
        assert met == [number]


def test_branches_on_parameters_and_states():
    def f(a):
        def slope(t, y):
            if a > 1.0:
                return -(a**2) * y
            return -a * y if t < 1.0 else -2.0 * a * y

        return integrate.solve_ivp(slope, (0.0, 0.9), [1.0], rtol=1e-10, atol=1e-12).y[0, -1]

    for a in (0.5, 1.5, 0.5, 1.5):
        expect_gradient(f, a)


def test_errors_are_those_of_the_user():
    def f(a):
        def slope(t, y):
            return -a * y * (1.0 / float(c))

        return by_ivp("RK45")(slope, [1.0])[-1]

    for c in (True, True, False, True):
        if c:
            np.testing.assert_allclose(ct.gradient(f, 0.5)[0], -2 * np.exp(-1.0), rtol=1e-7)
        else:
            with pytest.raises(ZeroDivisionError):
                ct.gradient(f, 0.5)


def test_printed_text_and_kinds_of_numbers(capsys):
    def loud(a):
        def slope(t, y):
            print("called")
            return -a * y

        return integrate.solve_ivp(slope, (0.0, 1.0), [1.0], rtol=1e-3).y[0, -1]

    texts = []
    for _ in range(3):
        ct.gradient(loud, 0.5)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2] != ""

    def asking(a):
        rate = a * 1.0
        slope = lambda t, y: -rate * y if isinstance(rate, float) else 5.0 * y
        root = optimize.brentq(
            lambda x: x - rate if isinstance(x, float) and isinstance(rate, float) else x, -1.0, 9.0
        )
        return by_ivp("RK45")(slope, [1.0])[-1] * root

    for _ in range(2):
        expect_gradient(asking, np.float64(0.5))


def test_what_nothing_depends_on_has_no_gradient():
    def f(p):
        slope = lambda t, y: -p["a"] * y + 0.0 * RATE
        unused = {"x": p["b"]}
        return by_ivp("RK45")(lambda t, y: slope(t, y) if unused else y, [1.0])[-1]

    for _ in range(2):
        (found,) = ct.gradient(f, {"a": 0.5, "b": 2.0})
        assert found["b"] is None
        np.testing.assert_allclose(found["a"], -2 * np.exp(-1.0), rtol=1e-7)


def test_modes_and_orders_agree():
    def f(v):
        return by_ivp("RK45")(slope_with(v[0], v[1]), np.array([1.0, v[2]]))

    at = np.array([0.7, 0.5, 0.3])
    for _ in range(2):
        forward, backward = ct.jacfwd(f)(at), ct.jacrev(f)(at)
        np.testing.assert_allclose(forward, backward, rtol=1e-12, atol=1e-14)
    for i in range(3):
        h = 1e-4 * np.eye(3)[i]
        np.testing.assert_allclose(
            forward[:, i], (f(at + h) - f(at - h)) / 2e-4, rtol=2e-6, atol=1e-8
        )
    both = ct.hessian(lambda v: np.sum(f(v)), at)
    gradient = lambda v: ct.gradient(lambda v: np.sum(f(v)), v)[0]
    for i in range(3):
        h = 1e-4 * np.eye(3)[i]
        np.testing.assert_allclose(both[i], (gradient(at + h) - gradient(at - h)) / 2e-4, rtol=1e-4)


def test_infinite_slopes_leave_values_alone():
    def f(a, b):
        def slope(t, y):
            return np.array([a + 0.0 * y[0], b * np.sqrt(np.abs(y[1])) * 0.0 + 1.0])

        found = integrate.solve_ivp(slope, (0.0, 1.0), np.array([0.5, 0.0]), rtol=1e-8)
        return found.y[0, -1]

    with np.errstate(all="ignore"):
        for _ in range(2):
            value, _ = ct.value_and_gradient(f, 1.5, 0.3)
            np.testing.assert_allclose(value, f(1.5, 0.3), rtol=1e-14)


def test_events_and_dense_output():
    def f(a, v):
        def slope(t, y):
            return np.array([y[1], -9.81 - a * y[1]])

        def ground(t, y):
            return y[0]

        ground.terminal = True
        found = integrate.solve_ivp(
            slope, (0.0, 9.0), np.array([1.0, v]), events=ground, dense_output=True,
            rtol=1e-10, atol=1e-12,
        )  # fmt: skip
        return found.t_events[0][0] + found.sol(0.3)[0] + found.y[1, -1]

    for _ in range(2):
        expect_gradient(f, 0.3, 4.0)


ROOTS = {
    "brentq": lambda f: optimize.brentq(f, 0.0, 9.0, xtol=1e-14),
    "newton": lambda f: optimize.newton(f, 1.0, tol=1e-13),
    "fsolve": lambda f: optimize.fsolve(f, [1.0], xtol=1e-13)[0],
    "root": lambda f: optimize.root(lambda x: [f(x[0])], [1.0], tol=1e-13).x[0],
    "root_scalar": lambda f: optimize.root_scalar(f, bracket=[0.0, 9.0], xtol=1e-14).root,
}


@pytest.mark.parametrize("name", ROOTS)
def test_roots_of_the_same_code(name, monkeypatch):
    weights = np.array([1.0, 0.5])

    def f(a, c):
        return ROOTS[name](lambda x: x * np.exp(weights[0] * x) + c * RATE * x - a)

    for c in (0.0, -0.0, 0.3, 1):
        expect_gradient(lambda a, c=c: f(a, c), 2.0)
        weights[0] += 0.1
        monkeypatch.setitem(globals(), "RATE", RATE + 0.2)


def test_singular_roots_are_refused_each_time():
    def f(a):
        return optimize.brentq(lambda x: (x - a) ** 3, 0.0, 2.0)

    for _ in range(3):
        with pytest.raises(ValueError, match="singular"):
            ct.gradient(f, 1.0)


@pytest.mark.parametrize("name", ["curve_fit", "least_squares"])
def test_fits_of_the_same_code(name):
    x = np.linspace(0.0, 3.0, 12)
    y = 2.0 * np.exp(-0.8 * x) + 0.1 * np.sin(9.0 * x)

    def fit(height, slow, power):
        data = y * height
        if name == "curve_fit":
            model = lambda x, a, b: a * np.exp(-b * slow * x**power)
            best, spread = optimize.curve_fit(model, x, data, [1.0, 1.0], xtol=1e-13, ftol=1e-13)
            return best[0] * best[1] + 10.0 * spread[0, 1]
        found = optimize.least_squares(
            lambda p: p[0] * np.exp(-p[1] * slow * x**power) - data,
            [1.0, 1.0], "3-point", loss="soft_l1", xtol=1e-13, ftol=1e-13, gtol=1e-13,
        )  # fmt: skip
        return found.x[0] * found.x[1] + found.cost + np.sum(found.fun**2)

    # A fit is exact to some nine digits, so differences need larger steps.
    for power in (1.0, 1.2, 1.0):
        expect_gradient(lambda h, s, k=power: fit(h, s, k), 1.1, 0.9, rtol=1e-5, step=1e-3)
        x[3] += 0.05


def test_few_programs_are_kept():
    x = np.linspace(0.0, 1.0, 5)

    def fitted(a, c):
        best, _ = optimize.curve_fit(lambda x, b: b * x + c, x, a * x, [1.0])
        return best[0]

    for known, f in [
        (right_side._KNOWN, lambda a, c: by_ivp("RK23")(slope_with(a, c), np.ones(2))[0]),
        (plain_solve._KNOWN, fitted),
    ]:
        known.__init__()
        for c in range(1, 20):
            ct.gradient(lambda a, f=f, c=c: f(a, 0.01 * c), 1.1)
        # Numbers that are others each time are not worth a program each.
        assert 0 < len(known._found) <= 8


@pytest.mark.parametrize("method", ["RK45", "Radau", "BDF", "LSODA"])
def test_the_end_of_the_time_is_active(method):
    def last(end):
        side = lambda t, y: [y[1], -0.7 * np.sin(y[0])]
        found = integrate.solve_ivp(
            side, (0, end), [1.0, 0.2], method=method, rtol=1e-9, atol=1e-11
        )
        return found.y[0, -1] + found.t[-1] ** 2

    step = 1e-4
    expected = (last(1.5 + step) - last(1.5 - step)) / (2 * step)
    np.testing.assert_allclose(ct.gradient(last, 1.5)[0], expected, rtol=1e-6)
