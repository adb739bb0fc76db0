"""Crystallography: structure factors with thermal motion, R factor, and an electron density."""

import itertools

import numpy as np

# a1 b1 a2 b2 c, for two elements
SCATTERING = {
    "C": (2.31, 20.8439, 1.02, 10.2075, 1.5886),
    "O": (3.0485, 13.2771, 2.2868, 5.7011, 1.8670),
}
SYMMETRY = [  # P 2_1
    (np.diag([1, 1, 1]), np.zeros(3)),
    (np.diag([-1, 1, -1]), np.array([0, 0.5, 0])),
]


class Cell:
    def __init__(self, a, b, c, beta):
        cos, sin = np.cos(beta), np.sin(beta)
        self.matrix = np.array([[a, 0, c * cos], [0, b, 0], [0, 0, c * sin]])
        self.reciprocal = np.linalg.inv(self.matrix)

    @property
    def volume(self):
        return np.abs(np.linalg.det(self.matrix))

    def s_squared(self, hkl):
        """(sin theta / lambda)^2"""
        s = hkl @ self.reciprocal
        return np.sum(s**2, axis=1) / 4


def form_factor(element, s2):
    a1, b1, a2, b2, c = SCATTERING[element]
    return a1 * np.exp(-b1 * s2) + a2 * np.exp(-b2 * s2) + c


def structure_factors(cell, hkl, elements, xyz, u_iso):
    F = np.zeros(len(hkl), dtype=complex)
    s2 = cell.s_squared(hkl)
    for element, r, u in zip(elements, xyz, u_iso, strict=True):
        f = form_factor(element, s2) * np.exp(-8 * np.pi**2 * u * s2)
        for rotation, translation in SYMMETRY:
            F += f * np.exp(2j * np.pi * (hkl @ (rotation @ r + translation)))
    return F


def reflections(limit=2):
    for h, k, l in itertools.product(range(-limit, limit + 1), range(limit + 1), range(limit + 1)):
        if (k, l) > (0, 0) or (k == l == 0 and h > 0):
            yield h, k, l


def density(cell, hkl, F, points):
    phase = 2 * np.pi * np.einsum("pi,hi->ph", points, hkl)
    return 2 / cell.volume * (np.abs(F) * np.cos(phase - np.angle(F))).sum(axis=1)


HKL = np.array(list(reflections()))
ELEMENTS = ["C", "O", "C"]
TRUE_XYZ = np.array([[0.12, 0.05, 0.31], [0.28, 0.22, 0.11], [0.41, 0.37, 0.26]])
OBSERVED = np.abs(structure_factors(Cell(5.1, 7.2, 6.3, 1.75), HKL, ELEMENTS, TRUE_XYZ, [0.04] * 3))


def main(lengths, beta, xyz, u_iso, scale):
    cell = Cell(*lengths, beta)
    F = structure_factors(cell, HKL, ELEMENTS, xyz, u_iso)
    weights = 1 / (0.5 + 0.02 * OBSERVED) ** 2
    misfit = np.sum(weights * (OBSERVED - scale * np.abs(F)) ** 2) / np.sum(weights * OBSERVED**2)
    r1 = np.sum(np.abs(OBSERVED - scale * np.abs(F))) / np.sum(OBSERVED)
    return misfit + r1 - 0.1 * density(cell, HKL, F, xyz).min()


ARGUMENTS = (
    np.array([5.15, 7.1, 6.35]),
    1.77,
    TRUE_XYZ + 0.01 * np.array([[1, -1, 0.5], [-0.7, 0.4, 1], [0.3, 0.8, -0.6]]),
    np.array([0.05, 0.04, 0.06]),
    0.97,
)


def check():
    cell = Cell(5.1, 7.2, 6.3, 1.75)
    F = structure_factors(
        cell, np.array([[0, 1, 0], [0, 3, 0], [0, 2, 0]]), ELEMENTS, TRUE_XYZ, [0.04] * 3
    )
    assert np.abs(F[:2]).max() < 1e-12  # extinct by the screw axis
    assert np.abs(F[2]) > 1
    F = structure_factors(cell, HKL, ELEMENTS, TRUE_XYZ, [0.04] * 3)
    rho = density(cell, HKL, F, np.vstack([TRUE_XYZ, [[0.7, 0.1, 0.9]]]))
    assert rho[:3].min() > rho[3]
