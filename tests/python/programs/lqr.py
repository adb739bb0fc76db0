"""Control: an inverted pendulum on a cart: discretized, Riccati iteration, closed loop."""

import numpy as np
from scipy.linalg import expm


def cart_pole(mass_cart, mass_pole, length, gravity=9.81):
    A = np.zeros((4, 4))
    A[0, 1] = A[2, 3] = 1.0
    A[1, 2] = -mass_pole * gravity / mass_cart
    A[3, 2] = (mass_cart + mass_pole) * gravity / (mass_cart * length)
    B = np.array([[0.0], [1 / mass_cart], [0.0], [-1 / (mass_cart * length)]])
    return A, B


def discretize(A, B, dt):
    """Zero-order hold, by the exponential of the block matrix."""
    n, m = B.shape
    M = np.zeros((n + m, n + m))
    M[:n, :n] = A * dt
    M[:n, n:] = B * dt
    E = expm(M)
    return E[:n, :n], E[:n, n:]


def dlqr(A, B, Q, R, tolerance=1e-10):
    P = Q
    for _ in range(500):
        K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P_next = Q + A.T @ P @ (A - B @ K)
        if np.max(np.abs(P_next - P)) < tolerance * np.max(np.abs(P)):
            return K, P_next
        P = P_next
    raise RuntimeError("the Riccati iteration did not converge")


def simulate(A, B, K, x0, steps, limit=None):
    x = x0
    for _ in range(steps):
        u = -K @ x
        if limit is not None:
            u = limit * np.tanh(u / limit)
        yield x, u
        x = A @ x + B @ u


def main(masses, length, weights):
    A, B = discretize(*cart_pole(masses[0], masses[1], length), 0.04)
    K, P = dlqr(A, B, np.diag(weights[:4]), np.array([[weights[4]]]))
    x0 = np.array([0.0, 0.0, 0.15, 0.0])
    effort = deviation = 0.0
    for x, u in simulate(A, B, K, x0, 60, limit=8.0):
        effort += np.squeeze(u) ** 2
        deviation = deviation + np.abs(x).sum()
    return 0.01 * effort + 0.1 * deviation + 0.1 * x0 @ P @ x0


ARGUMENTS = (np.array([1.0, 0.2]), 0.6, np.array([1.0, 0.1, 5.0, 0.1, 0.05]))


def check():
    A, B = discretize(*cart_pole(1.0, 0.2, 0.6), 0.04)
    K, P = dlqr(A, B, np.eye(4), np.eye(1))
    closed = A - B @ K
    assert np.max(np.abs(np.linalg.eigvals(closed))) < 1
    cost = sum(x @ x + u @ u for x, u in simulate(A, B, K, np.full(4, 0.1), 1500))
    x0 = np.full(4, 0.1)
    assert abs(cost - x0 @ P @ x0) < 1e-6 * cost
