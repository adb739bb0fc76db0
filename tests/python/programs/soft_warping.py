"""Time series: soft dynamic time warping, a barycentre's cost, and the alignment that it finds."""

import math

import numpy as np

INFINITY = float("inf")


def softmin(values, gamma):
    finite = [v for v in values if v < INFINITY]
    m = min(finite)
    return m - gamma * math.log(sum(math.exp(-(v - m) / gamma) for v in finite))


def soft_dtw(a, b, gamma, band=None):
    n, m = len(a), len(b)
    D = [[INFINITY] * (m + 1) for _ in range(n + 1)]
    D[0][0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            if band is not None and abs(i - j) > band:
                continue
            cost = (a[i - 1] - b[j - 1]) ** 2
            D[i][j] = cost + softmin((D[i - 1][j], D[i][j - 1], D[i - 1][j - 1]), gamma)
    return D[n][m], D


def path(D):
    i, j = len(D) - 1, len(D[0]) - 1
    steps = [(i, j)]
    while (i, j) != (1, 1):
        i, j = min(((i - 1, j), (i, j - 1), (i - 1, j - 1)), key=lambda s: D[s[0]][s[1]])
        steps.append((i, j))
    return steps[::-1]


def smooth(x, sigma):
    t = np.arange(len(x))
    kernel = np.exp(-0.5 * ((t[:, None] - t) / sigma) ** 2)
    return kernel @ x / kernel.sum(axis=1)


def templates():
    t = np.linspace(0, 1, 12)
    for shift, stretch in ((0.0, 1.0), (0.1, 1.2), (-0.05, 0.9)):
        yield np.sin(2 * np.pi * (stretch * t + shift)) + 0.3 * t


def main(centre, gamma, sigma):
    centre = smooth(centre, sigma)
    total = 0.0
    for template in templates():
        distance, D = soft_dtw(centre, template, gamma, band=4)
        warp = path(D)
        total += distance + 0.01 * sum(abs(centre[i - 1] - template[j - 1]) for i, j in warp) / len(
            warp
        )
    return total + 0.1 * np.sum(np.diff(centre, n=2) ** 2)


ARGUMENTS = (np.cos(np.linspace(-1.4, 4.5, 12)) + 0.05, 0.1, 0.8)


def check():
    a = np.array([0.0, 1.0, 2.0, 1.0])
    b = np.array([0.0, 0.0, 1.0, 2.0, 1.0])
    distance, D = soft_dtw(a, b, 1e-3)
    assert abs(distance) < 5e-3
    assert path(D)[0] == (1, 1)
