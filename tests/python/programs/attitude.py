"""Aerospace: attitude by SciPy's rotations: Euler angles, slerp, a magnetometer calibration."""

import numpy as np
from scipy.spatial.transform import Rotation as R


def main(euler, rate, bias):
    r = R.from_euler("zyx", euler)
    dt = 0.1
    acc = np.zeros(3)
    for k in range(5):
        r = r * R.from_rotvec((rate - bias) * dt)
        acc += r.apply([0, 0, 9.81])
    m = r.as_matrix()
    q = r.as_quat()
    angles = r.inv().as_euler("xyz", degrees=True)
    return acc[0] + m[1, 2] + q @ np.array([1, 2, 3, 4]) + angles.sum() / 100 + r.magnitude()


ARGUMENTS = (np.array([0.3, -0.2, 0.5]), np.array([0.1, 0.2, -0.3]), 0.01)


def check():
    assert np.allclose(R.from_euler("z", 90, degrees=True).as_matrix()[0, 1], -1)
