"""Quantum chemistry: self-consistent pi electrons of a molecule, bond orders, charges."""

import numpy as np
from numpy import linalg

BONDS = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 6)]
ELECTRONS = 8


def occupations(energies, electrons, temperature):
    """Fermi and Dirac; the chemical potential by Newton."""
    mu = 0.5 * (energies[electrons // 2 - 1] + energies[electrons // 2])
    for _ in range(30):
        f = 1 / (1 + np.exp((energies - mu) / temperature))
        error = 2 * f.sum() - electrons
        slope = 2 * np.sum(f * (1 - f)) / temperature
        if abs(error) < 1e-13 or slope < 1e-12:
            break
        mu = mu - error / slope
    return 2 * f


class Molecule:
    def __init__(self, sites, alpha, beta):
        self.sites = sites
        self.alpha = alpha
        self.beta = beta

    def hamiltonian(self, density):
        H = np.diag(self.alpha)
        for (i, j), b in zip(BONDS, self.beta):
            # bonds with a high order are shorter and stronger
            H[i, j] = H[j, i] = b * np.exp(0.3 * (density[i, j] - 2 / 3))
        H[np.diag_indices(self.sites)] += 0.6 * (np.diag(density) - 1)
        return H

    def solve(self, temperature=0.05, mixing=0.5, tolerance=1e-11):
        density = np.eye(self.sites)
        for cycle in range(300):
            energies, orbitals = linalg.eigh(self.hamiltonian(density))
            n = occupations(energies, ELECTRONS, temperature)
            new = (orbitals * n) @ orbitals.T
            change = np.abs(new - density).max()
            density = (1 - mixing) * density + mixing * new
            if change < tolerance:
                break
        else:
            raise RuntimeError("no self-consistency")
        return energies, n, density


def main(alpha, beta):
    molecule = Molecule(7, alpha, beta)
    energies, n, density = molecule.solve()
    gap = energies[ELECTRONS // 2] - energies[ELECTRONS // 2 - 1]
    charges = 1 - np.diagonal(density)
    orders = np.array([density[i, j] for i, j in BONDS])
    return energies @ n + gap**2 + np.sum(charges**2) + np.var(orders)


ARGUMENTS = (
    np.array([0.0, 0.05, -0.02, 0.03, 0.01, -0.04, -1.2]),
    np.array([-1.0, -1.05, -0.98, -1.02, -0.97, -1.01, -0.8]),
)


def check():
    """Benzene: energies 2 beta cos(2 pi k / 6)."""
    ring = np.zeros((6, 6))
    for i in range(6):
        ring[i, (i + 1) % 6] = ring[(i + 1) % 6, i] = -1.0
    e, C = linalg.eigh(ring)
    np.testing.assert_allclose(e, [-2, -1, -1, 1, 1, 2], atol=1e-12)
    P = 2 * C[:, :3] @ C[:, :3].T
    assert abs(P[0, 1] - 2 / 3) < 1e-12
    _, n, density = Molecule(7, *ARGUMENTS).solve()
    assert abs(n.sum() - ELECTRONS) < 1e-10
    assert abs(np.trace(density) - ELECTRONS) < 1e-9
