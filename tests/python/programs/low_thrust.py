"""Astrodynamics: a spiral by low thrust, integrated by SciPy's Runge-Kutta method."""

import numpy as np
from scipy.integrate import solve_ivp


def rhs(t, y, thrust, angle):
    r, v, mass = y[:2], y[2:4], y[4]
    distance = np.linalg.norm(r)
    along = v / np.linalg.norm(v)
    across = np.array([-along[1], along[0]])
    push = thrust / mass * (np.cos(angle) * along + np.sin(angle) * across)
    return np.concatenate([v, -r / distance**3 + push, [-0.1 * thrust]])


def fly(thrust, angle, duration):
    start = np.array([1.0, 0.0, 0.0, 1.0, 1.0])
    solution = solve_ivp(rhs, (0.0, duration), start, args=(thrust, angle), rtol=1e-9, atol=1e-9)
    return solution.y[:, -1]


def energy(y):
    return 0.5 * np.dot(y[2:4], y[2:4]) - 1 / np.linalg.norm(y[:2])


def main(thrust, angle):
    end = fly(thrust, angle, 6.0)
    return (energy(end) + 0.45) ** 2 + 0.1 * (1 - end[4])


ARGUMENTS = (0.01, 0.1)


def check():
    assert abs(energy(fly(0.0, 0.0, 6.0)) + 0.5) < 1e-7
    assert energy(fly(0.01, 0.0, 6.0)) > -0.5
