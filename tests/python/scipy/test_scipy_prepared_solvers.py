"""Solvers in prepared functions: each replay runs one once, for value and gradient."""

import numpy as np
import pytest
from scipy import integrate, optimize

import cotan as ct


def heat(a, b):
    """An integral."""
    return integrate.quad(lambda u: np.exp(-a * u**2) * np.cos(b * u), 0.0, 3.0)[0] * a


def decay(a, b):
    """A differential equation at given times: of another number of steps the shape is the same."""
    solution = integrate.solve_ivp(
        lambda t, y: np.array([-a * y[0] + y[1], -b * y[1]]),
        (0.0, 2.0),
        [1.0, 0.5],
        t_eval=[1.0, 2.0],
    )
    return np.sum(solution.y[:, -1] ** 2) + a


def root(a, b):
    """The root of an equation."""
    return optimize.brentq(lambda x: x**3 + a * x - b, -5.0, 5.0) * b


SOLVERS = {heat: "quad", decay: "solve_ivp", root: "brentq"}


@pytest.mark.parametrize("transform", ["value", "gradient", "value_and_gradient", "pullback"])
@pytest.mark.parametrize("f", SOLVERS)
def test_replays_give_what_other_calls_give(f, transform):
    g = ct.prepare(f, 1.0, 2.0, transform=transform)
    for a, b in [(1.0, 2.0), (1.3, 2.0), (1.3, 0.7), (1.0, 2.0), (2.5, 1.5)]:
        found = g(a, b)
        value, slopes = ct.value_and_gradient(f, a, b)
        if transform == "pullback":
            found = found[0], found[1](1.0)
        elif transform == "value":
            found = found, slopes
        elif transform == "gradient":
            found = value, found
        np.testing.assert_allclose(found[0], value, rtol=1e-9)
        np.testing.assert_allclose(found[1], slopes, rtol=1e-7)
    assert g.num_recordings == 1


@pytest.mark.parametrize("f", SOLVERS)
def test_a_replay_runs_a_solver_once(f, monkeypatch):
    g = ct.prepare(f, 1.0, 2.0, transform="value_and_gradient")
    g(1.0, 2.0)
    runs = []
    # What SciPy's own function calls.
    module, name = {
        "quad": (integrate._quadpack_py, "_quad"),
        "solve_ivp": (integrate._ivp.ivp, "OdeResult"),
        "brentq": (optimize._zeros_py._zeros, "_brentq"),
    }[SOLVERS[f]]
    original = getattr(module, name)

    def counted(*args, **kwargs):
        runs.append(name)
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, counted)
    g(1.3, 2.0)
    assert runs == [name]
    g(1.3, 2.5)
    assert runs == [name] * 2


def test_a_pullback_that_is_kept_is_of_these_values():
    g = ct.prepare(heat, 1.0, 2.0, transform="pullback")
    _, first = g(1.2, 2.0)
    _, second = g(0.7, 1.0)
    np.testing.assert_allclose(first(1.0), ct.gradient(heat, 1.2, 2.0), rtol=1e-7)
    np.testing.assert_allclose(second(2.0), 2 * np.array(ct.gradient(heat, 0.7, 1.0)), rtol=1e-7)
    np.testing.assert_allclose(first(3.0), 3 * np.array(ct.gradient(heat, 1.2, 2.0)), rtol=1e-7)


def test_an_error_of_the_integrand_is_raised_as_it_is():
    def f(a):
        return integrate.quad(lambda u: 1 / (u - 0.5) if a > 2 else a * u, 0.0, 1.0)[0]

    def g(a):
        def integrand(u):
            if a < 0:
                raise LookupError("below zero")
            return a * u**2

        return integrate.quad(integrand, 0.0, 1.0)[0]

    prepared = ct.prepare(g, 1.0)
    np.testing.assert_allclose(prepared(2.0)[0], 1 / 3, rtol=1e-9)
    with pytest.raises(LookupError, match="below zero"):
        prepared(-1.0)
    np.testing.assert_allclose(prepared(3.0)[0], 1 / 3, rtol=1e-9)
    prepared = ct.prepare(f, 1.0)
    np.testing.assert_allclose(prepared(1.5)[0], 0.5, rtol=1e-9)


def test_what_the_callback_reads_may_change():
    factor = [2.0]

    def f(a):
        return integrate.quad(lambda u: factor[0] * np.exp(-a * u), 0.0, 1.0)[0]

    g = ct.prepare(f, 1.0, transform="value_and_gradient")
    for a, of in [(1.0, 2.0), (1.5, 2.0), (1.5, 5.0), (2.0, 5.0)]:
        factor[0] = of
        (value, (slope,)), wanted = g(a), ct.value_and_gradient(f, a)
        np.testing.assert_allclose((value, slope), (wanted[0], wanted[1][0]), rtol=1e-9)
