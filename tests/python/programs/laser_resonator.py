"""Gaussian beams: the mode of a laser resonator with a thermal lens, by ABCD matrices."""

from functools import reduce
from math import acos, pi, sqrt

import numpy as np

WAVELENGTH = 1.064e-3  # millimetres, like all lengths here


def space(length):
    return np.array([[1, length], [0, 1]])


def lens(focal_length):
    return np.array([[1, 0], [-1 / focal_length, 1]])


def mirror(radius):
    return np.array([[1.0, 0.0], [0.0, 1.0]]) if radius is None else lens(radius / 2)


def round_trip(elements):
    """The matrix of a round trip; the first and the last element are the mirrors."""
    forth = elements[1:]
    back = elements[-2::-1]
    return reduce(lambda m, element: element @ m, forth + back, np.eye(2))


def eigenmode(matrix):
    (a, b), (c, d) = matrix
    m = (a + d) / 2
    if abs(m) >= 1:
        raise ValueError("the resonator is not stable")
    # 1/q = 1/R - i wavelength / (pi w^2)
    inverse_q = (d - a) / (2 * b) - 1j * sqrt(1 - m**2) / abs(b)
    return 1 / inverse_q, acos(m)


def radius_of(q):
    return np.sqrt(-WAVELENGTH / (pi * np.imag(1 / q)))


def follow(q, elements):
    """The beam radius behind every element."""
    radii = [radius_of(q)]
    for (a, b), (c, d) in elements:
        q = (a * q + b) / (c * q + d)
        radii.append(radius_of(q))
    return np.array(radii)


def main(lengths, thermal_focus, mirror_radius):
    elements = [
        mirror(None),
        space(lengths[0]),
        lens(thermal_focus),
        space(lengths[1]),
        mirror(mirror_radius),
    ]
    q, gouy = eigenmode(round_trip(elements))
    radii = follow(q, elements[1:])
    mismatch = (radii[2] - 0.40) ** 2 + (radii[0] - 0.35) ** 2
    return mismatch + 1e-3 * np.abs(gouy - pi / 3)


ARGUMENTS = (np.array([120.0, 260.0]), 400.0, 900.0)


def check():
    """An empty half-symmetric resonator has the textbook waist on its flat mirror."""
    length, radius = 100.0, 400.0
    q, _ = eigenmode(round_trip([mirror(None), space(length), mirror(radius)]))
    waist = sqrt(WAVELENGTH / pi * sqrt(length * (radius - length)))
    assert abs(radius_of(q) - waist) < 1e-12
