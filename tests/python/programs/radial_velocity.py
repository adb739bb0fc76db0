"""Astronomy: the radial velocity of a star with planets; Kepler's equation by Newton's method."""

import math
from typing import NamedTuple

import numpy as np


class Orbit(NamedTuple):
    period: float
    amplitude: float
    eccentricity: float
    omega: float
    phase: float


def kepler(mean_anomaly, e, tolerance=1e-13):
    M = math.fmod(mean_anomaly, 2 * math.pi)
    E = M if e < 0.8 else math.pi
    for _ in range(50):
        delta = (E - e * math.sin(E) - M) / (1 - e * math.cos(E))
        E -= delta
        if abs(delta) < tolerance:
            break
    return E


def true_anomaly(E, e):
    return 2 * math.atan2(math.sqrt(1 + e) * math.sin(E / 2), math.sqrt(1 - e) * math.cos(E / 2))


def velocity(t, orbit):
    E = kepler(2 * math.pi * t / orbit.period + orbit.phase, orbit.eccentricity)
    nu = true_anomaly(E, orbit.eccentricity)
    return orbit.amplitude * (
        math.cos(nu + orbit.omega) + orbit.eccentricity * math.cos(orbit.omega)
    )


def curve(times, orbits, offset=0.0):
    return np.array([sum(velocity(t, o) for o in orbits) + offset for t in times])


def observations():
    rng = np.random.default_rng(11)
    times = np.sort(rng.uniform(0, 40, 18))
    truth = [Orbit(11.2, 55.0, 0.35, 0.9, 0.4), Orbit(29.0, 20.0, 0.1, -0.5, 2.0)]
    return times, curve(times, truth, 3.0) + rng.normal(0, 2.0, len(times)), truth


def log_likelihood(orbits, offset, jitter):
    times, v, _ = observations()
    variance = 2.0**2 + jitter**2
    residual = v - curve(times, orbits, offset)
    return -0.5 * np.sum(residual**2 / variance + np.log(2 * np.pi * variance))


def main(parameters, offset, jitter):
    orbits = [Orbit(*row) for row in parameters]
    return -log_likelihood(orbits, offset, jitter)


ARGUMENTS = (
    np.array([[11.3, 50.0, 0.3, 1.0, 0.5], [28.0, 22.0, 0.15, -0.3, 1.9]]),
    2.0,
    1.5,
)


def check():
    for M in (0.3, 2.0, -1.2):
        E = kepler(M, 0.6)
        assert abs(E - 0.6 * math.sin(E) - M) < 1e-12
    _, _, truth = observations()
    assert log_likelihood(truth, 3.0, 0.0) > log_likelihood(truth[:1], 3.0, 0.0)
