"""Tracking: a Kalman filter with missing observations, and the Rauch-Tung-Striebel smoother."""

import numpy as np


class KalmanFilter:
    def __init__(self, transition, observation, process_noise, observation_noise):
        self.A = np.atleast_2d(transition)
        self.C = np.atleast_2d(observation)
        self.Q = np.atleast_2d(process_noise)
        self.R = np.atleast_2d(observation_noise)

    def filter(self, observations, mean, covariance):
        n, d = len(observations), len(mean)
        self.means = np.zeros((n, d))
        self.covariances = np.zeros((n, d, d))
        self.predicted_means = np.zeros((n, d))
        self.predicted_covariances = np.zeros((n, d, d))
        self.log_likelihood = 0.0
        m, P = mean, covariance
        for t, y in enumerate(observations):
            if t > 0:
                m = self.A @ m
                P = self.A @ P @ self.A.T + self.Q
            self.predicted_means[t], self.predicted_covariances[t] = m, P
            if not np.isnan(y).any():
                m, P = self._correct(m, P, y)
            self.means[t] = m
            self.covariances[t] = P
        return self.means

    def _correct(self, m, P, y):
        v = y - self.C @ m
        S = self.C @ P @ self.C.T + self.R
        K = np.linalg.solve(S, self.C @ P).T
        self.log_likelihood -= 0.5 * (
            v @ np.linalg.solve(S, v) + np.log(np.linalg.det(S)) + len(v) * np.log(2 * np.pi)
        )
        return m + K @ v, P - K @ S @ K.T

    def smooth(self):
        smoothed = self.means.copy()
        covariances = self.covariances.copy()
        for t in range(len(smoothed) - 2, -1, -1):
            P = self.predicted_covariances[t + 1]
            G = np.linalg.solve(P, self.A @ self.covariances[t]).T
            smoothed[t] += G @ (smoothed[t + 1] - self.predicted_means[t + 1])
            covariances[t] += G @ (covariances[t + 1] - P) @ G.T
        return smoothed, covariances


def data(n=30, seed=5):
    rng = np.random.default_rng(seed)
    velocity = np.cumsum(0.1 * rng.standard_normal(n)) + 0.5
    position = np.cumsum(velocity)
    y = position + 0.4 * rng.standard_normal(n)
    y[12:16] = np.nan
    return position, y[:, np.newaxis]


def run(q, r, damping):
    kf = KalmanFilter(
        [[1.0, 1.0], [0.0, damping]],
        [1.0, 0.0],
        q**2 * np.array([[1 / 3, 1 / 2], [1 / 2, 1.0]]),
        r**2,
    )
    position, y = data()
    kf.filter(y, np.zeros(2), 4.0 * np.eye(2))
    smoothed, covariances = kf.smooth()
    return kf, position, smoothed, covariances


def main(q, r, damping):
    kf, position, smoothed, covariances = run(q, r, damping)
    return -kf.log_likelihood + np.mean((smoothed[:, 0] - position) ** 2) + covariances[14, 0, 0]


ARGUMENTS = (0.1, 0.4, 0.98)


def check():
    kf, position, smoothed, covariances = run(*ARGUMENTS)
    assert np.mean((smoothed[:, 0] - position) ** 2) < np.mean((kf.means[:, 0] - position) ** 2)
    assert np.all(covariances[:, 0, 0] <= kf.covariances[:, 0, 0] + 1e-12)
    assert covariances[14, 0, 0] > covariances[5, 0, 0]
