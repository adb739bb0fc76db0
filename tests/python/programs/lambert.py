"""Astrodynamics: Lambert's problem by universal variables, for the cheapest transfer."""

import numpy as np
from numpy.linalg import norm

MU = 1.0  # canonical units


def stumpff(z):
    if z > 1e-6:
        s = np.sqrt(z)
        return (1 - np.cos(s)) / z, (s - np.sin(s)) / s**3
    if z < -1e-6:
        s = np.sqrt(-z)
        return (1 - np.cosh(s)) / z, (np.sinh(s) - s) / s**3
    return 1 / 2 - z / 24, 1 / 6 - z / 120


def lambert(r1, r2, time, prograde=True, max_iterations=100):
    r1n, r2n = norm(r1), norm(r2)
    cos_angle = np.dot(r1, r2) / (r1n * r2n)
    angle = np.arccos(cos_angle)
    if (np.cross(r1, r2)[2] < 0) == prograde:
        angle = 2 * np.pi - angle
    A = np.sin(angle) * np.sqrt(r1n * r2n / (1 - cos_angle))

    def y(z):
        c, s = stumpff(z)
        return r1n + r2n + A * (z * s - 1) / np.sqrt(c)

    def flight_time(z):
        c, s = stumpff(z)
        return ((y(z) / c) ** 1.5 * s + A * np.sqrt(y(z))) / np.sqrt(MU)

    def slope(z):
        c, s = stumpff(z)
        if abs(z) < 1e-6:
            return (
                np.sqrt(2) / 40 * y(0) ** 1.5 + A / 8 * (np.sqrt(y(0)) + A * np.sqrt(0.5 / y(0)))
            ) / np.sqrt(MU)
        first = (y(z) / c) ** 1.5 * (0.5 / z * (c - 1.5 * s / c) + 0.75 * s**2 / c)
        return (first + A / 8 * (3 * s / c * np.sqrt(y(z)) + A * np.sqrt(c / y(z)))) / np.sqrt(MU)

    z = 0.0
    for _ in range(max_iterations):
        step = (flight_time(z) - time) / slope(z)
        z = z - step
        if np.abs(step) < 1e-11:
            break
    else:
        raise ArithmeticError("no convergence")
    f = 1 - y(z) / r1n
    g = A * np.sqrt(y(z) / MU)
    gdot = 1 - y(z) / r2n
    return (r2 - f * r1) / g, (gdot * r2 - r1) / g


def circular(radius, angle, inclination=0.0):
    speed = np.sqrt(MU / radius)
    position = radius * np.array([np.cos(angle), np.sin(angle), 0.0])
    velocity = speed * np.array([-np.sin(angle), np.cos(angle), 0.0])
    c, s = np.cos(inclination), np.sin(inclination)
    tilt = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    return tilt @ position, tilt @ velocity


def main(departure, flight_time, radius, inclination):
    r1, v1 = circular(1.0, departure)
    r2, v2 = circular(radius, 1.9 + flight_time / radius**1.5, inclination)
    w1, w2 = lambert(r1, r2, flight_time)
    return norm(w1 - v1) + norm(v2 - w2)


ARGUMENTS = (0.2, 3.1, 1.524, 0.03)


def check():
    """The conic of the solution has one energy and one angular momentum at both its ends."""
    r1, r2 = np.array([1.0, 0.1, 0.05]), np.array([-0.8, 1.2, 0.1])
    v1, v2 = lambert(r1, r2, 2.0)
    np.testing.assert_allclose(np.cross(r1, v1), np.cross(r2, v2), rtol=1e-8)
    energy = [v @ v / 2 - MU / norm(r) for r, v in ((r1, v1), (r2, v2))]
    np.testing.assert_allclose(*energy, rtol=1e-8)
