"""How often simulations run for values and derivatives of them."""

import numpy as np
from scipy.integrate import solve_ivp

import cotan as ct
from cotan._src.optimize.functions import Equations
from cotan._src.optimize.unknowns import Unknowns

TIMES = np.linspace(0.1, 1.0, 5)


def counted():
    """Give a simulation, and what it notes: for each run whether it was recorded."""
    runs = []

    def decay(p):
        def slope(t, y):
            return -p["rate"] * y

        runs.append(ct.isderiving())
        run = solve_ivp(slope, (0.0, 1.0), [p["start"]], t_eval=TIMES, rtol=1e-9, atol=1e-11)
        return run.y[0]

    return decay, runs


START = {"rate": 1.0, "start": 2.0}


def test_a_fit_runs_once_for_each_point():
    decay, runs = counted()
    data = 3.0 * np.exp(-0.7 * TIMES)
    found = ct.optimize.least_squares(lambda p: decay(p) - data, START)
    assert abs(found.x["rate"] - 0.7) < 1e-3
    # The first point is met twice: it is not known yet that the fit cannot be prepared.
    assert len(runs) <= found.nfev + 1
    assert all(runs)


def test_values_that_lead_to_no_jacobian_are_not_recorded():
    decay, runs = counted()
    unknowns = Unknowns("optimize.root", START)
    equations = Equations("optimize.root", decay, unknowns)
    point = unknowns.start
    equations.values(point)
    first = equations.jacobian(point)
    assert first.shape == (5, 2)
    runs.clear()
    for i in range(20):
        equations.values(point * (1.0 + 0.01 * i))
    assert sum(runs) <= 2
    moved = equations.jacobian(point * 1.19)
    h = 1e-5
    expected = [
        (equations.values(point * 1.19 + d) - equations.values(point * 1.19 - d)) / (2 * h)
        for d in h * np.eye(2)
    ]
    np.testing.assert_allclose(moved, np.transpose(expected), rtol=1e-5, atol=1e-7)
