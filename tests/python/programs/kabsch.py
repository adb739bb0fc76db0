"""Structural biology: Kabsch superposition, dihedrals, and a Lennard-Jones and Coulomb energy."""

import numpy as np


def rmsd(V, W):
    diff = np.array(V) - np.array(W)
    N = len(V)
    return np.sqrt((diff * diff).sum() / N)


def kabsch(P, Q):
    C = np.dot(np.transpose(P), Q)
    V, S, W = np.linalg.svd(C)
    d = (np.linalg.det(V) * np.linalg.det(W)) < 0.0
    if d:
        S[-1] = -S[-1]
        V[:, -1] = -V[:, -1]
    U = np.dot(V, W)
    return U


def kabsch_rmsd(P, Q, translate=False):
    if translate:
        Q = Q - Q.mean(axis=0)
        P = P - P.mean(axis=0)
    U = kabsch(P, Q)
    P = np.dot(P, U)
    return rmsd(P, Q)


def dihedral(p):
    b0 = -1.0 * (p[1] - p[0])
    b1 = p[2] - p[1]
    b2 = p[3] - p[2]
    b1 /= np.linalg.norm(b1)
    v = b0 - np.dot(b0, b1) * b1
    w = b2 - np.dot(b2, b1) * b1
    x = np.dot(v, w)
    y = np.dot(np.cross(b1, v), w)
    return np.degrees(np.arctan2(y, x))


def energy(xyz, charges, eps, sigma):
    e_lj = e_c = 0
    n = len(xyz)
    for i in range(n):
        for j in range(i + 2, n):
            r = np.linalg.norm(xyz[i] - xyz[j])
            if r > 12.0:
                continue
            sr6 = (sigma / r) ** 6
            e_lj += 4 * eps * (sr6**2 - sr6)
            e_c += 332.06 * charges[i] * charges[j] / (4 * r)
    return e_lj, e_c


def helix(n, radius, pitch, turn):
    return np.array(
        [[radius * np.cos(turn * i), radius * np.sin(turn * i), pitch * i] for i in range(n)]
    )


def main(radius, pitch, turn, charges):
    chain = helix(len(charges), radius, pitch, turn)
    ref = helix(len(charges), 2.3, 1.5, np.radians(100))
    ref = ref @ np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 1]]) + np.array([1, 2, 3])
    ref = ref + 0.1 * np.sin(np.arange(ref.size)).reshape(ref.shape)
    r = kabsch_rmsd(chain, ref, translate=True)
    phis = [dihedral(chain[i : i + 4]) for i in range(len(chain) - 3)]
    e_lj, e_c = energy(chain, charges, 0.2, 3.4)
    dist = np.linalg.norm(chain[:, None] - chain[None, :] + 1e-12, axis=-1)
    contacts = np.sum(1 / (1 + np.exp(dist[np.triu_indices(len(chain), k=2)] - 6.0)))
    rg = np.sqrt(np.mean(np.sum((chain - np.mean(chain, axis=0)) ** 2, axis=1)))
    return r + np.mean(phis) / 50 + e_lj + 0.1 * e_c + contacts + rg


ARGUMENTS = (2.4, 1.6, 1.7, np.array([0.1, -0.2, 0.3, -0.1, 0.2, -0.3]))


def check():
    a = helix(6, 2.0, 1.5, 1.7)
    assert kabsch_rmsd(a, a @ np.diag([-1, -1, 1.0])) < 1e-7
