"""Thin films: the reflectance of a coated lens, by characteristic matrices."""

import numpy as np


def admittance(n, angle, polarization):
    if polarization == "s":
        return n * np.cos(angle)
    if polarization == "p":
        return n / np.cos(angle)
    raise ValueError(f"unknown polarization {polarization!r}")


def snell(n0, angle0, n):
    return np.arcsin(n0 * np.sin(angle0) / n + 0j)


def reflectance(wavelength, indices, thicknesses, angle=0.0, polarization="s"):
    """`indices` from the ambient to the substrate, `thicknesses` of what is between them."""
    matrix = np.eye(2, dtype=complex)
    for n, d in zip(indices[1:-1], thicknesses, strict=True):
        inside = snell(indices[0], angle, n)
        phase = 2 * np.pi * n * d * np.cos(inside) / wavelength
        eta = admittance(n, inside, polarization)
        layer = np.array(
            [
                [np.cos(phase), 1j * np.sin(phase) / eta],
                [1j * eta * np.sin(phase), np.cos(phase)],
            ]
        )
        matrix = matrix @ layer
    eta_in = admittance(indices[0], angle, polarization)
    substrate = snell(indices[0], angle, indices[-1])
    b, c = matrix @ np.array([1.0, admittance(indices[-1], substrate, polarization)])
    r = (eta_in * b - c) / (eta_in * b + c)
    return np.abs(r) ** 2


def main(thicknesses, n_high, n_low):
    indices = [1.0, n_high, n_low, n_high, n_low, 1.52]
    wavelengths = np.linspace(420.0, 680.0, 27)
    spectrum = np.zeros_like(wavelengths)
    for k, w in enumerate(wavelengths):
        for polarization in ("s", "p"):
            spectrum[k] += 0.5 * reflectance(w, indices, thicknesses, np.pi / 9, polarization)
    return 100 * np.mean(spectrum) + np.max(spectrum)


ARGUMENTS = (np.array([12.0, 34.0, 115.0, 88.0]), 2.05, 1.38)


def check():
    """A quarter wave of the geometric mean's index reflects nothing; bare glass some 4 percent."""
    n = np.sqrt(1.52)
    assert reflectance(550.0, [1.0, n, 1.52], [550.0 / n / 4]) < 1e-20
    assert abs(reflectance(550.0, [1.0, 1.52], []) - (0.52 / 2.52) ** 2) < 1e-15
    lossless = reflectance(600.0, [1.0, 1.38, 1.52], [80.0], 0.5, "p")
    assert 0 < lossless < 0.05
