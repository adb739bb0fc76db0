"""Electromagnetics: a pulse on a slab by Yee's scheme in one dimension, with absorbing ends."""

import numpy as np


class Yee:
    def __init__(self, permittivity, conductivity, courant=0.5):
        n = len(permittivity)
        self.E = np.zeros(n)
        self.H = np.zeros(n - 1)
        loss = 0.5 * courant * conductivity / permittivity
        self.ca = (1 - loss) / (1 + loss)
        self.cb = courant / permittivity / (1 + loss)
        self.courant = courant
        self.left, self.right = [0.0, 0.0], [0.0, 0.0]
        self.time = 0

    def step(self, source=None):
        E, H = self.E, self.H
        H += self.courant * (E[1:] - E[:-1])
        E[1:-1] *= self.ca[1:-1]
        E[1:-1] += self.cb[1:-1] * (H[1:] - H[:-1])
        if source is not None:
            where, value = source
            E[where] += value
        # at half the speed of light a wave takes two steps for a cell
        E[0] = self.left.pop(0)
        self.left.append(E[1].copy())
        E[-1] = self.right.pop(0)
        self.right.append(E[-2].copy())
        self.time += 1


def pulse(t, centre, width, frequency):
    return np.exp(-(((t - centre) / width) ** 2)) * np.cos(2 * np.pi * frequency * (t - centre))


def slab(n, start, thickness, index, edge=0.7):
    """The squared index, with soft edges, so that thickness may be any number."""
    x = np.arange(n, dtype=float)
    inside = 0.5 * (np.tanh((x - start) / edge) - np.tanh((x - start - thickness) / edge))
    return 1 + (index**2 - 1) * inside


def run(permittivity, conductivity, frequency, steps=180):
    grid = Yee(permittivity, conductivity)
    before, behind = np.empty(steps), np.empty(steps)
    for n in range(steps):
        grid.step((8, pulse(n, 30, 12, frequency)))
        before[n], behind[n] = grid.E[4], grid.E[-5]
    return before, behind, grid


def spectrum(signal, frequencies):
    t = np.arange(len(signal))
    return np.exp(-2j * np.pi * np.outer(frequencies, t)) @ signal


def main(start, thickness, index, conductivity):
    n = 70
    empty = np.ones(n)
    _, reference, _ = run(empty, 0 * empty, 0.02)
    material = slab(n, start, thickness, index)
    lossy = conductivity * (material - 1) / (index**2 - 1)
    _, behind, _ = run(material, lossy, 0.02)
    f = np.array([0.015, 0.02, 0.025])
    transmission = np.abs(spectrum(behind, f) / spectrum(reference, f)) ** 2
    return np.sum((transmission - np.array([0.7, 0.9, 0.7])) ** 2) + np.max(np.abs(behind))


ARGUMENTS = (30.3, 8.4, 1.7, 0.02)


def check():
    ones = np.ones(70)
    before, behind, grid = run(ones, 0 * ones, 0.02, 260)
    assert np.abs(grid.E).max() < 5e-3 * np.abs(behind).max()  # everything has left
    lag = np.argmax(np.correlate(behind, before, "full")) - 259
    assert abs(lag - ((65 - 8) - (8 - 4)) / 0.5) < 3
