"""Geometry: B-splines by Cox and de Boor, a NURBS arc, curvature, length and closest point."""

import numpy as np


def findspan(p, U, u):
    n = len(U) - p - 2
    if u >= U[n + 1]:
        return n
    low, high = p, n + 1
    mid = (low + high) // 2
    while u < U[mid] or u >= U[mid + 1]:
        if u < U[mid]:
            high = mid
        else:
            low = mid
        mid = (low + high) // 2
    return mid


def basisfun(i, u, p, U):
    N = [0.0] * (p + 1)
    left, right = [0.0] * (p + 1), [0.0] * (p + 1)
    N[0] = 1.0
    for j in range(1, p + 1):
        left[j] = u - U[i + 1 - j]
        right[j] = U[i + j] - u
        saved = 0.0
        for r in range(j):
            temp = N[r] / (right[r + 1] + left[j - r])
            N[r] = saved + right[r + 1] * temp
            saved = left[j - r] * temp
        N[j] = saved
    return N


class NURBS:
    def __init__(self, p, U, P, w=None):
        self.p, self.U = p, U
        self.P = np.asarray(P, dtype=float)
        self.w = np.ones(len(P)) if w is None else np.asarray(w)

    def __call__(self, u):
        if np.ndim(u):
            return np.array([self(ui) for ui in u])
        i = findspan(self.p, self.U, u)
        N = np.array(basisfun(i, u, self.p, self.U))
        seg = slice(i - self.p, i + 1)
        W = N * self.w[seg]
        return W @ self.P[seg] / np.sum(W)

    def deboor(self, u):
        k, p = findspan(self.p, self.U, u), self.p
        d = [self.P[j + k - p] * 1.0 for j in range(p + 1)]
        for r in range(1, p + 1):
            for j in range(p, r - 1, -1):
                alpha = (u - self.U[j + k - p]) / (self.U[j + 1 + k - r] - self.U[j + k - p])
                d[j] = (1.0 - alpha) * d[j - 1] + alpha * d[j]
        return d[p]

    def length(self, n=40):
        pts = self(np.linspace(0, 1, n))
        return np.sum(np.sqrt(np.sum(np.diff(pts, axis=0) ** 2, axis=1)))

    def curvature(self, u, h=1e-3):
        a, b, c = self(u - h), self(u), self(u + h)
        d1, d2 = (c - a) / (2 * h), (c - 2 * b + a) / h**2
        return np.abs(d1[0] * d2[1] - d1[1] * d2[0]) / np.linalg.norm(d1) ** 3

    def closest(self, q):
        us = np.linspace(0, 1, 21)
        d = [np.linalg.norm(self(u) - q) for u in us]
        return min(d), us[np.argmin(d)]


def main(P, w, q):
    U = [0, 0, 0, 0, 0.4, 0.7, 1, 1, 1, 1]
    c = NURBS(3, U, P, w)
    dist, u = c.closest(q)
    assert 0 <= u <= 1
    return c.length() + c.curvature(0.55) + dist + c.deboor(0.3).sum()


ARGUMENTS = (
    np.array([[0.0, 0.0], [1.0, 2.0], [2.5, 1.5], [3.5, -0.5], [5.0, 0.5], [6.0, 2.0]]),
    np.array([1.0, 1.2, 0.8, 1.5, 0.9, 1.0]),
    np.array([3.0, 3.0]),
)


def check():
    s = np.sqrt(2) / 2
    arc = NURBS(2, [0, 0, 0, 1, 1, 1], [[1, 0], [1, 1], [0, 1]], [1, s, 1])
    assert np.allclose(np.linalg.norm(arc(np.linspace(0, 1, 5)), axis=1), 1)
