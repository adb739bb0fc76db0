"""Control: linear MPC by condensed least squares, LQR by iterating Riccati, a PID with windup."""

import numpy as np
import scipy.linalg as la


def dlqr(A, B, Q, R):
    P = la.solve_discrete_are(A, B, Q, R)
    K = la.inv(B.T @ P @ B + R) @ (B.T @ P @ A)
    return K, P


def riccati(A, B, Q, R, maxiter=150, eps=1e-12):
    X = Q
    for i in range(maxiter):
        Xn = A.T @ X @ A - A.T @ X @ B @ la.inv(R + B.T @ X @ B) @ B.T @ X @ A + Q
        if (abs(Xn - X)).max() < eps:
            break
        X = Xn
    return Xn


class PID:
    def __init__(self, kp, ki, kd, limits=(None, None)):
        self.kp, self.ki, self.kd = kp, ki, kd
        self.limits = limits
        self._integral, self._last = 0, None

    @staticmethod
    def _clamp(value, limits):
        lower, upper = limits
        if value is None:
            return None
        if (upper is not None) and (value > upper):
            return upper
        if (lower is not None) and (value < lower):
            return lower
        return value

    def __call__(self, error, dt):
        d = 0 if self._last is None else (error - self._last) / dt
        self._integral = self._clamp(self._integral + self.ki * error * dt, self.limits)
        self._last = error
        return self._clamp(self.kp * error + self._integral + self.kd * d, self.limits)


def mpc(A, B, x0, N, q, r):
    n, m = B.shape
    Phi = np.vstack([np.linalg.matrix_power(A, i + 1) for i in range(N)])
    Gamma = np.zeros((N * n, N * m))
    for i in range(N):
        for j in range(i + 1):
            Gamma[i * n : (i + 1) * n, j * m : (j + 1) * m] = np.linalg.matrix_power(A, i - j) @ B
    Qb = np.kron(np.eye(N), np.diag(q))
    Rb = r * np.eye(N * m)
    H = Gamma.T @ Qb @ Gamma + Rb
    g = Gamma.T @ Qb @ Phi @ x0
    U = -np.linalg.solve(H, g)
    return U.reshape(N, m)


def main(mass, damping, gains):
    dt = 0.1
    A = np.array([[1.0, dt], [0, 1.0 - damping / mass * dt]])
    B = np.array([0.0, dt / mass]).reshape(2, 1)
    Q, R = np.diag([1.0, 0.1]), np.array([[0.05]])
    K, P = dlqr(A, B, Q, R)
    P2 = riccati(A, B, Q, R)
    x = np.array([[1.0], [0.0]])
    cost = 0
    for k in range(15):
        u = -K @ x
        cost += (x.T @ Q @ x + u.T @ R @ u)[0, 0]
        x = A @ x + B @ u
    U = mpc(A, B, np.array([1.0, 0.0]), 6, [1.0, 0.1], 0.05)
    pid = PID(*gains, limits=(-1.5, 1.5))
    y, v, ise = 0.0, 0.0, 0.0
    for k in range(30):
        u = pid(1.0 - y, dt)
        v += dt * (u - damping * v) / mass
        y += dt * v
        ise += (1.0 - y) ** 2 * dt
    eig = np.linalg.eigvals(A - B @ K)
    return cost + U[0, 0] + ise + np.max(np.abs(eig)) + 1e-3 * np.trace(P - 0.5 * P2)


ARGUMENTS = (1.2, 0.4, [2.0, 0.5, 0.3])


def check():
    A, B = np.array([[1.0, 0.1], [0, 1.0]]), np.array([[0.0], [0.1]])
    assert np.allclose(
        riccati(A, B, np.eye(2), np.eye(1), 2000), dlqr(A, B, np.eye(2), np.eye(1))[1], rtol=1e-6
    )
