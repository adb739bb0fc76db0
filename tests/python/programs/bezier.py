"""Graphics: Bezier curves by de Casteljau's recursion: length, bending, and fitting to points."""

from functools import lru_cache
from math import comb

import numpy as np


def de_casteljau(points, t):
    if len(points) == 1:
        return points[0]
    left, right = points[:-1], points[1:]
    return de_casteljau([(1 - t) * a + t * b for a, b in zip(left, right)], t)


def split(points, t):
    """The control points of both parts."""
    left, right = [points[0]], [points[-1]]
    while len(points) > 1:
        points = [(1 - t) * p + t * q for p, q in zip(points, points[1:])]
        left.append(points[0])
        right.insert(0, points[-1])
    return left, right


def length(points, tolerance=1e-4, depth=0):
    """Adaptive: the polygon and the chord of a piece agree, or the piece is split."""
    polygon = sum(np.linalg.norm(q - p) for p, q in zip(points, points[1:]))
    chord = np.linalg.norm(points[-1] - points[0])
    if polygon - chord < tolerance or depth > 8:
        n = len(points) - 1
        return (2 * chord + (n - 1) * polygon) / (n + 1)
    return sum(length(part, tolerance / 2, depth + 1) for part in split(points, 0.5))


@lru_cache(maxsize=None)
def binomials(n):
    return tuple(comb(n, k) for k in range(n + 1))


def bernstein(n, t):
    k = np.arange(n + 1)
    return np.array(binomials(n)) * t[:, None] ** k * (1 - t[:, None]) ** (n - k)


def curvature(points, t):
    n = len(points) - 1
    d1 = n * bernstein(n - 1, t) @ np.diff(points, axis=0)
    d2 = n * (n - 1) * bernstein(n - 2, t) @ np.diff(points, n=2, axis=0)
    return (d1[:, 0] * d2[:, 1] - d1[:, 1] * d2[:, 0]) / np.hypot(d1[:, 0], d1[:, 1]) ** 3


def fit(data, degree):
    """Control points by least squares, with parameters by chord length."""
    steps = np.linalg.norm(np.diff(data, axis=0), axis=1)
    t = np.concatenate(([0.0], np.cumsum(steps))) / steps.sum()
    B = bernstein(degree, t)
    return np.linalg.solve(B.T @ B, B.T @ data), t


def main(control, data):
    curve_length = length(list(control))
    bending = np.mean(curvature(control, np.linspace(0.0, 1.0, 9)) ** 2)
    fitted, t = fit(data, 3)
    misfit = sum(np.sum((de_casteljau(list(fitted), s) - p) ** 2) for s, p in zip(t, data))
    middle = de_casteljau(control, 0.5)
    return curve_length + 0.1 * bending + misfit + np.sum((middle - fitted.mean(axis=0)) ** 2)


ARGUMENTS = (
    np.array([[0.0, 0.0], [0.5, 1.5], [2.0, 1.2], [2.5, -0.3]]),
    np.array([[0.0, 0.1], [0.4, 0.7], [1.0, 1.0], [1.7, 0.9], [2.2, 0.4], [2.6, -0.2]]),
)


def check():
    points = ARGUMENTS[0]
    t = np.linspace(0, 1, 7)
    by_recursion = np.array([de_casteljau(list(points), s) for s in t])
    np.testing.assert_allclose(bernstein(3, t) @ points, by_recursion, atol=1e-14)
    fine = bernstein(3, np.linspace(0, 1, 4001)) @ points
    polygon = np.linalg.norm(np.diff(fine, axis=0), axis=1).sum()
    assert abs(length(list(points), 1e-6) - polygon) < 1e-5
