"""Robotics: forward kinematics of a six-joint arm by Denavit-Hartenberg matrices."""

import numpy as np
from numpy import cos, sin


def dh(theta, d, a, alpha):
    return np.array(
        [
            [cos(theta), -sin(theta) * cos(alpha), sin(theta) * sin(alpha), a * cos(theta)],
            [sin(theta), cos(theta) * cos(alpha), -cos(theta) * sin(alpha), a * sin(theta)],
            [0, sin(alpha), cos(alpha), d],
            [0, 0, 0, 1],
        ]
    )


class Arm:
    """A serial manipulator; rows of the table are d, a, alpha, offset."""

    def __init__(self, table):
        self.table = np.asarray(table, dtype=float)

    def frames(self, q):
        T = np.eye(4)
        for theta, (d, a, alpha, offset) in zip(q, self.table, strict=True):
            T = T.dot(dh(theta + offset, d, a, alpha))
            yield T

    def pose(self, q):
        *_, last = self.frames(q)
        return last[:3, :3], last[:3, 3]

    def jacobian(self, q):
        frames = [np.eye(4), *self.frames(q)]
        tip = frames[-1][:3, 3]
        J = np.zeros((6, len(q)))
        for i, T in enumerate(frames[:-1]):
            axis = T[:3, 2]
            J[:3, i] = np.cross(axis, tip - T[:3, 3])
            J[3:, i] = axis
        return J


def rotation_angle(R):
    return np.arccos((np.trace(R) - 1) / 2)


PUMA = [
    [0.0, 0.0, np.pi / 2, 0.0],
    [0.0, 0.4318, 0.0, 0.0],
    [0.15005, 0.0203, -np.pi / 2, 0.0],
    [0.4318, 0.0, np.pi / 2, 0.0],
    [0.0, 0.0, -np.pi / 2, 0.0],
    [0.1, 0.0, 0.0, 0.0],
]


def main(q, offsets):
    table = np.array(PUMA)
    table[:, 3] += offsets
    arm = Arm(table)
    R, p = arm.pose(q)
    J = arm.jacobian(q)
    manipulability = np.sqrt(np.linalg.det(J @ J.T))
    goal = np.array([0.5, 0.2, 0.4])
    return np.sum((p - goal) ** 2) + 0.1 * rotation_angle(R) ** 2 - 0.5 * manipulability


ARGUMENTS = (np.array([0.2, 0.7, -0.5, 0.3, 0.9, -0.4]), np.full(6, 0.01))


def check():
    arm = Arm(PUMA)
    q = ARGUMENTS[0]
    R, _ = arm.pose(q)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
    h = 1e-6
    numeric = np.column_stack(
        [(arm.pose(q + h * e)[1] - arm.pose(q - h * e)[1]) / (2 * h) for e in np.eye(6)]
    )
    np.testing.assert_allclose(arm.jacobian(q)[:3], numeric, atol=1e-8)
