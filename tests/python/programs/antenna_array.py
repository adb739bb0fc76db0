"""Antennas: a beam former: weights against an interferer, pattern, and direction finding."""

import numpy as np


class Array:
    def __init__(self, positions, wavelength=1.0):
        self.positions = np.asarray(positions, dtype=float)
        self.k = 2 * np.pi / wavelength

    def steering(self, angle):
        """One column for each angle."""
        return np.exp(1j * self.k * np.multiply.outer(self.positions, np.sin(angle)))

    def element(self, angle):
        return np.cos(angle) ** 0.5

    def pattern(self, weights, angles):
        response = weights.conj() @ self.steering(angles) * self.element(angles)
        return np.abs(response) ** 2


def taper(n, level):
    """A raised cosine on a pedestal."""
    t = np.linspace(-np.pi / 2, np.pi / 2, n)
    return level + (1 - level) * np.cos(t)


def covariance(array, directions, powers, noise):
    A = array.steering(np.asarray(directions))
    return (A * powers) @ A.conj().T + noise * np.eye(len(array.positions))


def mvdr(R, a):
    """The minimum variance, distortionless beam former."""
    w = np.linalg.solve(R, a)
    return w / (a.conj() @ w)


def mutual_coupling(n, strength):
    i, j = np.indices((n, n))
    C = np.eye(n, dtype=complex)
    off = i != j
    C[off] = (strength * np.exp(-1j * np.abs(i - j)) / (1 + np.abs(i - j)))[off]
    return C


def capon_spectrum(R, array, angles):
    A = array.steering(angles)
    return 1 / np.real(np.sum(A.conj() * np.linalg.solve(R, A), axis=0))


def decibel(x):
    return 10 * np.log10(x)


def main(positions, level, look, coupling, noise):
    array = Array(positions)
    n = len(positions)
    R = covariance(array, [look, 0.55, -0.4], np.array([1.0, 5.0, 2.0]), noise)
    w = mvdr(R, mutual_coupling(n, coupling) @ array.steering(look))
    w *= taper(n, level)
    angles = np.linspace(-1.2, 1.2, 41)
    gains = array.pattern(w, angles)
    peak = array.pattern(w, np.array([look]))[0]
    side = gains[np.abs(angles - 0.1) > 0.35]
    spectrum = capon_spectrum(R, array, np.array([0.55, -0.4, 0.9]))
    return (
        -decibel(peak)
        + np.mean(side) * 10
        + 0.1 * decibel(np.max(side))
        + 0.1 * decibel(spectrum[2] / spectrum[0])
    )


ARGUMENTS = (0.5 * np.arange(8) + 0.02 * np.sin(np.arange(8.0)), 0.4, 0.1, 0.05, 0.3)


def check():
    array = Array(0.5 * np.arange(8))
    R = covariance(array, [0.1, 0.55], np.array([1.0, 50.0]), 0.1)
    a = array.steering(0.1)
    w = mvdr(R, a)
    assert abs(w.conj() @ a - 1) < 1e-12
    assert np.abs(w.conj() @ array.steering(0.55)) < 0.01
    uniform = array.pattern(np.ones(8) / 8, np.array([0.0]))
    assert abs(uniform[0] - 1) < 1e-12
