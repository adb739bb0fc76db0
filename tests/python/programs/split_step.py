"""Quantum mechanics: a wave packet tunnels through a barrier; split-step Fourier."""

import numpy as np
from numpy.fft import fft, fftfreq, ifft

HBAR = M = 1.0


class Wavefunction:
    def __init__(self, n, width):
        self.x = np.linspace(-width / 2, width / 2, n, endpoint=False)
        self.dx = self.x[1] - self.x[0]
        self.k = 2 * np.pi * fftfreq(n, self.dx)
        self.psi = np.zeros(n, dtype=np.complex128)

    def packet(self, x0, k0, sigma):
        self.psi[:] = np.exp(-((self.x - x0) ** 2) / (4 * sigma**2) + 1j * k0 * self.x)
        self.psi /= self.norm()
        return self

    def norm(self):
        return np.sqrt(np.sum(np.abs(self.psi) ** 2) * self.dx)

    def evolve(self, V, dt, steps):
        half = np.exp(-0.5j * V * dt / HBAR)
        kinetic = np.exp(-0.5j * HBAR * self.k**2 * dt / M)
        for _ in range(steps):
            self.psi *= half
            self.psi = ifft(kinetic * fft(self.psi))
            self.psi *= half
        return self

    def expect(self, what):
        density = np.abs(self.psi) ** 2 * self.dx
        if what == "x":
            return np.sum(self.x * density)
        if what == "p":
            phi = fft(self.psi)
            return HBAR * np.sum(self.k * np.abs(phi) ** 2) / np.sum(np.abs(phi) ** 2)
        if callable(what):
            return np.sum(what(self.x) * density)
        raise TypeError(what)


def barrier(x, height, width, smooth=0.2):
    return height * 0.5 * (np.tanh((x + width / 2) / smooth) - np.tanh((x - width / 2) / smooth))


def ground_state(x, V, iterations=60, shift=0.0):
    """Inverse iteration on the Hamiltonian by finite differences."""
    n, dx = len(x), x[1] - x[0]
    H = np.diag(V + 1 / dx**2) - np.diag(np.full(n - 1, 0.5 / dx**2), 1)
    H -= np.diag(np.full(n - 1, 0.5 / dx**2), -1)
    inverse = np.linalg.inv(H - shift * np.eye(n))
    v = np.exp(-(x**2))
    for _ in range(iterations):
        v = inverse @ v
        v /= np.sqrt(v @ v)
    return v @ H @ v, v


def main(momentum, sigma, height, width):
    wave = Wavefunction(64, 24.0).packet(-5.0, momentum, sigma)
    V = barrier(wave.x, height, width)
    wave.evolve(V, 0.05, 60)
    transmitted = wave.expect(lambda x: (x > 0).astype(float))
    energy, _ = ground_state(wave.x, 0.02 * wave.x**2 + V)
    return (transmitted - 0.5) ** 2 + 0.01 * wave.expect("p") ** 2 + 0.1 * energy


ARGUMENTS = (2.1, 1.1, 2.0, 0.8)


def check():
    wave = Wavefunction(128, 24.0).packet(-4.0, 1.5, 1.2).evolve(0.0, 0.05, 40)
    assert abs(wave.norm() - 1) < 1e-12
    assert abs(wave.expect("x") - (-4.0 + 1.5 * 2.0)) < 1e-6
    assert abs(wave.expect("p") - 1.5) < 1e-9
    x = np.linspace(-8, 8, 161)
    assert abs(ground_state(x, 0.5 * x**2)[0] - 0.5) < 1e-3
