"""Navigation: attitude from gyroscope and accelerometer, with quaternions as a class."""

import numpy as np


class Quaternion:
    __slots__ = ("v", "w")

    def __init__(self, w, v):
        self.w = w
        self.v = np.asarray(v, dtype=np.float64)

    @classmethod
    def from_axis_angle(cls, axis, angle):
        return cls(np.cos(angle / 2), np.sin(angle / 2) * np.asarray(axis))

    @classmethod
    def from_rotation_vector(cls, r):
        angle = np.linalg.norm(r)
        if angle < 1e-9:
            return cls(1.0, 0.5 * r)
        return cls.from_axis_angle(r / angle, angle)

    def __mul__(self, other):
        if not isinstance(other, Quaternion):
            return Quaternion(self.w * other, self.v * other)
        return Quaternion(
            self.w * other.w - self.v @ other.v,
            self.w * other.v + other.w * self.v + np.cross(self.v, other.v),
        )

    def conjugate(self):
        return Quaternion(self.w, -self.v)

    def __abs__(self):
        return np.sqrt(self.w**2 + np.sum(self.v**2))

    def normalized(self):
        return self * (1 / abs(self))

    def rotate(self, x):
        return (self * Quaternion(0.0, x) * self.conjugate()).v

    def to_matrix(self):
        w, (x, y, z) = self.w, self.v
        return np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )

    def euler(self):
        R = self.to_matrix()
        return np.array(
            [np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(R[2, 0]), np.arctan2(R[1, 0], R[0, 0])]
        )


class ComplementaryFilter:
    """After Mahony: gravity corrects the gyroscope, its integral the bias."""

    def __init__(self, kp, ki):
        self.kp, self.ki = kp, ki
        self.q = Quaternion(1.0, np.zeros(3))
        self.bias = np.zeros(3)

    def update(self, gyro, accelerometer, dt):
        measured = accelerometer / np.linalg.norm(accelerometer)
        predicted = self.q.conjugate().rotate(np.array([0.0, 0.0, 1.0]))
        error = np.cross(measured, predicted)
        self.bias -= self.ki * error * dt
        rate = gyro - self.bias + self.kp * error
        self.q = (self.q * Quaternion.from_rotation_vector(rate * dt)).normalized()
        return self.q


def motion(n, dt, seed=3):
    """True attitude, and what the sensors say."""
    rng = np.random.default_rng(seed)
    q = Quaternion(1.0, np.zeros(3))
    for k in range(n):
        rate = np.array([0.6 * np.sin(0.2 * k), 0.4 * np.cos(0.15 * k), 0.2])
        q = q * Quaternion.from_rotation_vector(rate * dt)
        gravity = q.conjugate().rotate([0.0, 0.0, 9.81])
        yield q, rate + 0.05 + 0.02 * rng.standard_normal(3), gravity + 0.2 * rng.standard_normal(3)


def main(kp, ki, scale, misalignment):
    filter_ = ComplementaryFilter(kp, ki)
    tilt = Quaternion.from_rotation_vector(misalignment)
    errors = []
    for truth, gyro, acceleration in motion(40, 0.05):
        q = filter_.update(scale * gyro, tilt.rotate(acceleration), 0.05)
        difference = truth.conjugate() * q
        errors.append(2 * np.arctan2(np.sqrt(difference.v @ difference.v), difference.w))
    roll, pitch, _ = filter_.q.euler()
    return 100 * np.mean(np.square(errors)) + roll**2 + pitch**2


ARGUMENTS = (0.6, 0.05, np.array([1.01, 0.99, 1.0]), np.array([0.01, -0.02, 0.015]))


def check():
    q = Quaternion.from_axis_angle(np.array([0.6, 0.0, 0.8]), 0.7)
    x = np.array([0.3, -1.0, 2.0])
    np.testing.assert_allclose(q.rotate(x), q.to_matrix() @ x, atol=1e-14)
    np.testing.assert_allclose(q.conjugate().rotate(q.rotate(x)), x, atol=1e-14)
    assert main(*ARGUMENTS) < 5
