"""Waves: a drum by finite differences in three time levels, damped at its rim."""

import numpy as np


def laplacian(u):
    padded = np.pad(u, 1, mode="constant")
    return padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2] - 4 * u


def sponge(n, width, strength):
    ramp = np.zeros(n)
    for i in range(width):
        ramp[i] = ramp[-1 - i] = strength * ((width - i) / width) ** 2
    return np.maximum.outer(ramp, ramp)


class Membrane:
    def __init__(self, n, speed, courant=0.5, damping=0.0):
        self.c2 = (courant * speed / np.max(speed)) ** 2
        self.damping = damping
        self.previous = np.zeros((n, n))
        self.current = np.zeros((n, n))
        self.next = np.zeros((n, n))

    def strike(self, row, column, width):
        i, j = np.ogrid[: len(self.current), : len(self.current)]
        blow = np.exp(-((i - row) ** 2 + (j - column) ** 2) / (2 * width**2))
        self.current += blow
        self.previous[...] = self.current
        return self

    def step(self):
        self.next[:] = 2 * self.current - self.previous + self.c2 * laplacian(self.current)
        self.next += self.damping * self.previous / 2
        self.next /= 1 + self.damping / 2
        # three buffers go round
        self.previous, self.current, self.next = self.current, self.next, self.previous

    def listen(self, steps, *where):
        sound = np.empty(steps)
        for n in range(steps):
            self.step()
            sound[n] = self.current[where]
        return sound


def main(row, width, density, strength):
    n = 16
    x = np.linspace(0, 1, n)
    speed = np.sqrt(1 / (1 + density * np.outer(np.sin(np.pi * x), x)))
    drum = Membrane(n, speed, damping=sponge(n, 4, strength)).strike(row, 6.5, width)
    sound = drum.listen(64, 9, 10)
    spectrum = np.abs(np.fft.rfft(sound * np.hamming(64))) ** 2
    frequencies = np.fft.rfftfreq(64)
    centroid = np.sum(frequencies * spectrum) / np.sum(spectrum)
    return 100 * (centroid - 0.05) ** 2 + np.mean(sound**2)


ARGUMENTS = (7.2, 1.6, 0.8, 0.4)


def check():
    """The fundamental of a square membrane: omega = c pi sqrt(2) / L."""
    n = 15
    i = np.arange(1, n + 1)
    drum = Membrane(n, np.ones((n, n)))
    drum.current[:] = np.outer(np.sin(np.pi * i / (n + 1)), np.sin(np.pi * i / (n + 1)))
    omega = 2 * np.arcsin(0.5 * np.sqrt(2) * np.sin(np.pi / 2 / (n + 1)))
    drum.previous[:] = drum.current * np.cos(omega)
    sound = drum.listen(100, 7, 7)
    np.testing.assert_allclose(sound, np.cos(omega * np.arange(1, 101)), atol=1e-10)
