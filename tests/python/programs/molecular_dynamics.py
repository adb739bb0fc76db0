"""Chemistry: Lennard-Jones molecules in a periodic box, velocity Verlet, pressure and distances."""

import numpy as np


class Box:
    def __init__(self, positions, velocities, length, epsilon=1.0, sigma=1.0, cutoff=2.2):
        self.r = np.array(positions)
        self.v = np.array(velocities)
        self.length, self.epsilon, self.sigma, self.cutoff = length, epsilon, sigma, cutoff
        self.i, self.j = np.triu_indices(len(self.r), k=1)
        self.compute()

    def pairs(self):
        d = self.r[self.i] - self.r[self.j]
        d -= self.length * np.round(d / self.length)  # the nearest image
        return d, np.sum(d * d, axis=1)

    def compute(self):
        d, r2 = self.pairs()
        end = self.cutoff * self.sigma
        inside = r2 < end**2
        s6 = np.zeros_like(r2)
        s6[inside] = (self.sigma**2 / r2[inside]) ** 3
        # shifted, so that potential and force end at zero
        r = np.sqrt(r2)
        at_end = 4 * self.epsilon * (self.cutoff**-12 - self.cutoff**-6)
        pull = 24 * self.epsilon * (2 * self.cutoff**-12 - self.cutoff**-6) / end
        shift = np.where(inside, pull * (r - end) - at_end, 0.0)
        self.potential = np.sum(4 * self.epsilon * (s6**2 - s6) + shift)
        magnitude = 24 * self.epsilon * (2 * s6**2 - s6) / r2 - pull * inside / r
        f = magnitude[:, np.newaxis] * d
        self.force = np.zeros_like(self.r)
        np.add.at(self.force, self.i, f)
        np.subtract.at(self.force, self.j, f)
        self.virial = np.sum(magnitude * r2)

    def step(self, dt):
        self.v += 0.5 * dt * self.force
        self.r += dt * self.v
        self.r %= self.length
        self.compute()
        self.v += 0.5 * dt * self.force

    def kinetic(self):
        return 0.5 * np.sum(self.v**2)

    def thermostat(self, temperature):
        current = 2 * self.kinetic() / self.v.size
        self.v *= np.sqrt(temperature / current)

    def pressure(self):
        d = self.r.shape[1]
        return (2 * self.kinetic() + self.virial) / (d * self.length**d)

    def pair_distribution(self, bins, width=0.1):
        """Smoothed by Gaussians."""
        _, r2 = self.pairs()
        return np.exp(-0.5 * ((np.sqrt(r2)[:, None] - bins) / width) ** 2).sum(axis=0)


def lattice(n, length):
    g = (np.arange(n) + 0.5) * length / n
    return np.stack(np.meshgrid(g, g), axis=-1).reshape(-1, 2)


def start(seed=1):
    rng = np.random.default_rng(seed)
    length = 4.6
    r = lattice(4, length) + 0.05 * rng.standard_normal((16, 2))
    v = rng.standard_normal((16, 2))
    return r, v - v.mean(axis=0), length


def main(epsilon, sigma, temperature, positions):
    _, v, length = start()
    box = Box(positions, v, length, epsilon, sigma)
    box.thermostat(temperature)
    pressures = []
    for n in range(20):
        box.step(0.005)
        if n >= 10:
            pressures.append(box.pressure())
    g = box.pair_distribution(np.linspace(0.9, 1.6, 8))
    return np.mean(pressures) ** 2 + 0.01 * np.sum((g / g.sum() - 0.125) ** 2) + box.potential / 16


ARGUMENTS = (1.1, 0.98, 0.9, start()[0])


def check():
    box = Box(*start())
    energy = box.potential + box.kinetic()
    for _ in range(100):
        box.step(0.002)
    assert abs(box.potential + box.kinetic() - energy) < 0.02
    np.testing.assert_allclose(box.v.sum(axis=0), 0, atol=1e-11)
