"""Robotics: an extended Kalman filter localizes a robot by ranges and bearings to landmarks."""

import math

import numpy as np

LANDMARKS = np.array([[4.0, 1.0], [-1.0, 5.0], [3.0, 6.0]])


def wrap(angle):
    return (angle + np.pi) % (2 * np.pi) - np.pi


class EKF:
    def __init__(self, state, covariance, motion_noise, range_noise, bearing_noise):
        self.x = np.array(state, dtype=float)
        self.P = np.array(covariance, dtype=float)
        self.Q = np.diag(motion_noise) ** 2
        self.R = np.diag([range_noise**2, bearing_noise**2])
        self.log_likelihood = 0.0

    def predict(self, speed, turn, dt):
        heading = self.x[2]
        self.x[0] += speed * dt * math.cos(heading)
        self.x[1] += speed * dt * math.sin(heading)
        self.x[2] = wrap(self.x[2] + turn * dt)
        F = np.eye(3)
        F[0, 2] = -speed * dt * math.sin(heading)
        F[1, 2] = speed * dt * math.cos(heading)
        self.P = F @ self.P @ F.T + self.Q * dt

    def update(self, landmark, measured):
        dx, dy = landmark - self.x[:2]
        q = dx**2 + dy**2
        r = math.sqrt(q)
        expected = np.array([r, math.atan2(dy, dx) - self.x[2]])
        innovation = measured - expected
        innovation[1] = wrap(innovation[1])
        H = np.array([[-dx / r, -dy / r, 0.0], [dy / q, -dx / q, -1.0]])
        S = H @ self.P @ H.T + self.R
        S_inv = np.linalg.inv(S)
        gate = innovation @ S_inv @ innovation
        if gate > 50.0:  # an outlier
            return False
        K = self.P @ H.T @ S_inv
        self.x += K @ innovation
        self.P = (np.eye(3) - K @ H) @ self.P
        _, logdet = np.linalg.slogdet(2 * np.pi * S)
        self.log_likelihood += -0.5 * (gate + logdet)
        return True


def drive(steps=20, seed=3):
    """The true path, and what the robot measures on it."""
    rng = np.random.default_rng(seed)
    pose = np.zeros(3)
    for k in range(steps):
        speed, turn = 0.5, 0.3 * math.sin(0.2 * k)
        pose = pose + 0.5 * np.array([speed * math.cos(pose[2]), speed * math.sin(pose[2]), turn])
        seen = LANDMARKS - pose[:2]
        z = np.column_stack([np.hypot(*seen.T), wrap(np.arctan2(seen[:, 1], seen[:, 0]) - pose[2])])
        z += rng.normal(scale=[0.1, 0.03], size=z.shape)
        yield speed, turn, k % len(LANDMARKS), z, pose


def run(motion_noise, range_noise, bearing_noise, bias=0.0):
    ekf = EKF(np.zeros(3), 0.01 * np.eye(3), motion_noise, range_noise, bearing_noise)
    errors, traces = [], []
    for speed, turn, k, z, truth in drive():
        ekf.predict(speed, turn + bias, 0.5)
        ekf.update(LANDMARKS[k], z[k])
        errors.append(np.linalg.norm(ekf.x[:2] - truth[:2]))
        traces.append(np.trace(ekf.P))
    return ekf, np.array(errors), traces


def main(motion_noise, range_noise, bearing_noise, bias):
    ekf, errors, _ = run(motion_noise, range_noise, bearing_noise, bias)
    return -ekf.log_likelihood + 10 * errors.mean()


ARGUMENTS = (np.array([0.05, 0.05, 0.03]), 0.12, 0.04, 0.02)


def check():
    ekf, errors, traces = run(*ARGUMENTS[:3])
    assert errors.max() < 0.3
    assert np.all(np.linalg.eigvalsh((ekf.P + ekf.P.T) / 2) > 0)
    assert traces[-1] < 0.1
