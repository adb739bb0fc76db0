"""Structural mechanics: a plane truss by the finite element method, for its compliance."""

import numpy as np

NODES = np.array([[0, 0], [1, 0], [2, 0], [3, 0], [0.5, 1], [1.5, 1], [2.5, 1]], dtype=float)
BARS = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (0, 4), (1, 4), (1, 5), (2, 5), (2, 6), (3, 6)]
FIXED = (0, 1, 7)
YOUNG = 210.0


def element_stiffness(p, q, area):
    d = q - p
    length = np.linalg.norm(d)
    c, s = d / length
    block = np.array([[c * c, c * s], [c * s, s * s]])
    return YOUNG * area / length * np.block([[block, -block], [-block, block]])


def assemble(nodes, areas):
    stiffness = np.zeros((2 * len(nodes), 2 * len(nodes)))
    for (i, j), area in zip(BARS, areas, strict=True):
        dofs = [2 * i, 2 * i + 1, 2 * j, 2 * j + 1]
        stiffness[np.ix_(dofs, dofs)] += element_stiffness(nodes[i], nodes[j], area)
    return stiffness


def displacements(nodes, areas, load):
    stiffness = assemble(nodes, areas)
    free = np.setdiff1d(np.arange(2 * len(nodes)), FIXED)
    u = np.zeros(2 * len(nodes))
    u[free] = np.linalg.solve(stiffness[np.ix_(free, free)], load[free])
    return u.reshape(-1, 2)


def stresses(nodes, u):
    result = np.empty(len(BARS))
    for k, (i, j) in enumerate(BARS):
        d = nodes[j] - nodes[i]
        result[k] = YOUNG * d @ (u[j] - u[i]) / (d @ d)
    return result


def volume(nodes, areas):
    i, j = np.transpose(BARS)
    return np.sum(areas * np.linalg.norm(nodes[j] - nodes[i], axis=1))


def main(areas, heights):
    nodes = NODES.copy()
    nodes[4:, 1] = heights
    load = np.zeros(2 * len(nodes))
    load[[3, 5]] = -1.0
    u = displacements(nodes, areas, load)
    sigma = stresses(nodes, u)
    overload = np.clip(np.abs(sigma) - 1.0, 0, None)
    return 100 * load @ u.ravel() + volume(nodes, areas) + np.sum(overload**2)


ARGUMENTS = (np.linspace(0.5, 1.5, len(BARS)), np.array([1.0, 1.2, 0.9]))


def check():
    """Reactions balance the load, and one bar stretches by F L / (E A)."""
    load = np.zeros(14)
    load[[3, 5]] = -1.0
    areas = ARGUMENTS[0]
    u = displacements(NODES, areas, load)
    residual = assemble(NODES, areas) @ u.ravel() - load
    np.testing.assert_allclose(residual[[1, 7]], [1.0, 1.0], atol=1e-10)
    k = element_stiffness(np.zeros(2), np.array([2.0, 0.0]), 0.5)
    assert k[0, 0] == YOUNG * 0.5 / 2
