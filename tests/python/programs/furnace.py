"""Radiation: the exchange between a furnace and a pipe, with Planck's law integrated by SciPy."""

import math

import numpy as np
from scipy import integrate

C1, C2, SIGMA = 3.7418e8, 1.4388e4, 5.6704e-8  # W um^4 / m^2, um K, W / (m^2 K^4)


def planck(wavelength, temperature):
    return C1 / wavelength**5 / math.expm1(C2 / (wavelength * temperature))


def emissivity(wavelength, cutoff):
    """A selective surface."""
    return 0.1 + 0.8 / (1 + math.exp((wavelength - cutoff) / 0.3))


def emitted(temperature, cutoff):
    value, _ = integrate.quad(lambda w: emissivity(w, cutoff) * planck(w, temperature), 0.3, 60.0)
    return value


def view_factor(radius, distance):
    """Of two equal discs that face each other."""
    x = 2 + (distance / radius) ** 2
    return 0.5 * (x - math.sqrt(x**2 - 4))


def main(temperature, cutoff, radius, distance):
    absorbed = view_factor(radius, distance) * SIGMA * temperature**4
    lost = emitted(600.0, cutoff)
    return abs(absorbed - lost) / 1e3


ARGUMENTS = (900.0, 2.5, 0.4, 0.7)


def check():
    total, _ = integrate.quad(planck, 0.1, 500.0, args=(900.0,), limit=200)
    assert abs(total / (SIGMA * 900.0**4) - 1) < 1e-3
    assert np.isclose(view_factor(1.0, 1e-6), 1.0, atol=1e-5)
