"""Robotics: a six-axis arm by Denavit-Hartenberg parameters, damped least squares."""

from math import cos, pi, radians, sin

import numpy as np


class DHLink:
    def __init__(self, theta, d, a, alpha):
        self.theta, self.d, self.a, self.alpha = theta, d, a, alpha

    def __repr__(self):
        return "DHLink(%.3f, %.3f, %.3f, %.3f)" % (self.theta, self.d, self.a, self.alpha)

    def matrix(self, q):
        t = self.theta + q
        return np.array(
            [
                [cos(t), -sin(t) * cos(self.alpha), sin(t) * sin(self.alpha), self.a * cos(t)],
                [sin(t), cos(t) * cos(self.alpha), -cos(t) * sin(self.alpha), self.a * sin(t)],
                [0, sin(self.alpha), cos(self.alpha), self.d],
                [0, 0, 0, 1],
            ]
        )


class Arm:
    def __init__(self, table):
        self.links = [DHLink(*row) for row in table]

    def fkine(self, q, upto=None):
        T = np.identity(4)
        frames = [T]
        for link, qi in list(zip(self.links, q))[:upto]:
            T = np.dot(T, link.matrix(qi))
            frames.append(T)
        return T, frames

    def jacobian(self, q):
        T, frames = self.fkine(q)
        J = np.zeros((6, len(q)))
        p_e = T[:3, 3]
        for i, F in enumerate(frames[:-1]):
            z = F[:3, 2]
            J[:3, i] = np.cross(z, p_e - F[:3, 3])
            J[3:, i] = z
        return J

    def manipulability(self, q):
        J = self.jacobian(q)
        return np.sqrt(abs(np.linalg.det(J @ J.T)))


def tr2rpy(T):
    R = T[:3, :3]
    sy = np.sqrt(R[0, 0] ** 2 + R[1, 0] ** 2)
    if sy < 1e-9:
        return np.array([np.arctan2(-R[1, 2], R[1, 1]), np.arctan2(-R[2, 0], sy), 0])
    return np.array(
        [np.arctan2(R[2, 1], R[2, 2]), np.arctan2(-R[2, 0], sy), np.arctan2(R[1, 0], R[0, 0])]
    )


def main(q, a2, target):
    table = [
        (0, 0.4, 0.025, -pi / 2),
        (-pi / 2, 0, a2, 0),
        (0, 0, 0.025, -pi / 2),
        (0, 0.42, 0, pi / 2),
        (0, 0, 0, -pi / 2),
        (0, 0.08, 0, 0),
    ]
    arm = Arm(table)
    print(arm.links[1])
    T, _ = arm.fkine(q)
    err = np.concatenate((target - T[0:3, 3], np.zeros(3)))
    J = arm.jacobian(q)
    dq = J.T @ np.linalg.solve(J @ J.T + 0.01 * np.eye(6), err)
    qn = np.clip(q + dq, radians(-170), radians(170))
    T2, _ = arm.fkine(qn)
    e2 = target - T2[:3, 3]
    return np.linalg.norm(e2) + 0.1 * arm.manipulability(qn) + 0.1 * np.sum(tr2rpy(T2))


ARGUMENTS = (np.array([0.3, -0.4, 0.5, 0.2, 0.7, -0.1]), 0.455, np.array([0.5, 0.2, 0.6]))


def check():
    assert np.allclose(Arm([(0, 1.0, 0, 0)]).fkine([0.0])[0][2, 3], 1.0)
