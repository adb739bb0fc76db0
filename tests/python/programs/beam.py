"""Structural mechanics: deflection of a stepped Euler-Bernoulli beam on an elastic foundation."""

import numpy as np
from scipy import linalg


def shape_stiffness(EI, L):
    return (
        EI
        / L**3
        * np.array(
            [
                [12, 6 * L, -12, 6 * L],
                [6 * L, 4 * L**2, -6 * L, 2 * L**2],
                [-12, -6 * L, 12, -6 * L],
                [6 * L, 2 * L**2, -6 * L, 4 * L**2],
            ]
        )
    )


def foundation(k, L):
    return (
        k
        * L
        / 420
        * np.array(
            [
                [156, 22 * L, 54, -13 * L],
                [22 * L, 4 * L**2, 13 * L, -3 * L**2],
                [54, 13 * L, 156, -22 * L],
                [-13 * L, -3 * L**2, -22 * L, 4 * L**2],
            ]
        )
    )


def load_vector(q, L):
    return q * L / 12 * np.array([6, L, 6, -L])


def deflection(rigidities, element_length, q, k=0.0, support="clamped-free"):
    n = len(rigidities)
    K = np.zeros((2 * n + 2, 2 * n + 2))
    f = np.zeros(2 * n + 2)
    for e, EI in enumerate(rigidities):
        s = slice(2 * e, 2 * e + 4)
        K[s, s] += shape_stiffness(EI, element_length)
        if k:
            K[s, s] += foundation(k, element_length)
        f[s] += load_vector(q, element_length)
    left, right = support.split("-")
    fixed = {"clamped": [0, 1], "pinned": [0], "free": []}[left]
    fixed = fixed + {"clamped": [2 * n, 2 * n + 1], "pinned": [2 * n], "free": []}[right]
    free = [i for i in range(2 * n + 2) if i not in fixed]
    d = np.zeros(2 * n + 2)
    d[free] = linalg.solve(K[free][:, free], f[free], assume_a="pos")
    return d[0::2], d[1::2]


def main(widths, height, q):
    inertia = widths * height**3 / 12
    w, slope = deflection(70e3 * inertia, 0.25, q, k=2.0, support="pinned-clamped")
    mass = np.sum(widths) * height * 0.25
    return 1e3 * np.abs(w).max() + 10 * slope[0] ** 2 + mass


ARGUMENTS = (np.array([0.1, 0.12, 0.14, 0.16, 0.2, 0.24]), 0.06, 0.8)


def check():
    """Tip of a cantilever: q L^4 / (8 E I); middle of a simple beam: 5 q L^4 / (384 E I)."""
    w, _ = deflection(np.full(4, 3.0), 0.5, 2.0)
    assert abs(w[-1] - 2.0 * 2.0**4 / (8 * 3.0)) < 1e-9
    w, _ = deflection(np.full(4, 3.0), 0.5, 2.0, support="pinned-pinned")
    assert abs(w[2] - 5 * 2.0 * 2.0**4 / (384 * 3.0)) < 1e-9
