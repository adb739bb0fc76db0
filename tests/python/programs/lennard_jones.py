"""Molecular dynamics: a Lennard-Jones box as a dataclass, velocity Verlet, a thermostat."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Box:
    length: float
    positions: np.ndarray
    velocities: np.ndarray
    epsilon: float = 1.0
    sigma: float = 1.0
    cutoff: float = 2.5
    history: list[float] = field(default_factory=list)

    def __post_init__(self):
        self.n = len(self.positions)
        self.forces = self._forces()[0]

    def minimum_image(self, d):
        return d - self.length * np.rint(d / self.length)

    def _forces(self):
        F = np.zeros((self.n, 3))
        U = 0.0
        virial = 0.0
        for i in range(self.n - 1):
            d = self.minimum_image(self.positions[i] - self.positions[i + 1 :])
            r2 = np.einsum("ij,ij->i", d, d)
            mask = r2 < self.cutoff**2
            d, r2 = d[mask], r2[mask]
            if len(r2) == 0:
                continue
            sr6 = (self.sigma**2 / r2) ** 3
            f = 24 * self.epsilon * (2 * sr6**2 - sr6) / r2
            fv = f[:, None] * d
            F[i] += fv.sum(axis=0)
            F[i + 1 :][mask] -= 0
            idx = np.where(mask)[0] + i + 1
            np.subtract.at(F, idx, fv)
            U += np.sum(4 * self.epsilon * (sr6**2 - sr6))
            virial += np.sum(f * r2)
        return F, U, virial

    @property
    def temperature(self):
        return np.sum(self.velocities**2) / (3 * self.n)

    def step(self, dt, target=None):
        self.velocities += 0.5 * dt * self.forces
        self.positions += dt * self.velocities
        self.positions %= self.length
        self.forces, U, virial = self._forces()
        self.velocities += 0.5 * dt * self.forces
        if target is not None:
            self.velocities *= np.sqrt(1 + 0.1 * (target / self.temperature - 1))
        self.history.append(U + 0.5 * np.sum(self.velocities**2))
        return virial


def rdf(box, bins=8):
    d = box.minimum_image(box.positions[:, None] - box.positions[None])
    r = np.sqrt((d**2).sum(-1))[np.triu_indices(box.n, 1)]
    h, edges = np.histogram(r, bins=bins, range=(0, box.length / 2))
    centers = 0.5 * (edges[1:] + edges[:-1])
    return (h / (4 * np.pi * centers**2)).sum()


def main(eps, sigma, temperature, length):
    g = np.arange(2) * length / 2 + 0.3
    pos = np.array([[x, y, z] for x in g for y in g for z in g])
    rng = np.random.RandomState(5)
    pos += 0.1 * rng.uniform(-1, 1, pos.shape)
    vel = np.sqrt(temperature) * rng.standard_normal((8, 3))
    vel -= vel.mean(axis=0)
    box = Box(length, pos, vel, epsilon=eps, sigma=sigma)
    vir = [box.step(0.004, target=temperature) for _ in range(10)]
    return box.history[-1] + box.temperature + np.mean(vir) / 10 + 0 * rdf(box)


ARGUMENTS = (1.1, 1.0, 0.8, 3.3)


def check():
    b = Box(10.0, np.array([[0, 0, 0], [2 ** (1 / 6), 0, 0.0]]), np.zeros((2, 3)))
    assert np.allclose(b.forces, 0, atol=1e-10)
