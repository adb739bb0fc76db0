"""Machine design: a cam through given lifts by SciPy's cubic splines, and its pressure angle."""

import numpy as np
from scipy.interpolate import CubicSpline


class Cam:
    def __init__(self, angles, lifts, base_radius):
        self.base_radius = base_radius
        closed = np.append(lifts, lifts[0])
        self.lift = CubicSpline(np.append(angles, 2 * np.pi), closed, bc_type="periodic")
        self.velocity = self.lift.derivative(1)
        self.acceleration = self.lift.derivative(2)

    def pressure_angle(self, theta):
        return np.arctan2(self.velocity(theta), self.base_radius + self.lift(theta))

    def curvature_radius(self, theta):
        r = self.base_radius + self.lift(theta)
        v, a = self.velocity(theta), self.acceleration(theta)
        return (r**2 + v**2) ** 1.5 / (r**2 + 2 * v**2 - r * a)


def main(lifts, base_radius):
    angles = np.linspace(0, 2 * np.pi, len(lifts), endpoint=False)
    cam = Cam(angles, lifts, base_radius)
    theta = np.linspace(0, 2 * np.pi, 90)
    worst = np.max(np.abs(cam.pressure_angle(theta)))
    return worst + 0.01 * np.mean(cam.acceleration(theta) ** 2) + 0.1 * base_radius


ARGUMENTS = (np.array([0.0, 0.1, 0.5, 1.0, 0.9, 0.4, 0.1, 0.02]), 2.0)


def check():
    circle = Cam(np.linspace(0, 2 * np.pi, 8, endpoint=False), np.full(8, 0.5), 1.5)
    np.testing.assert_allclose(circle.curvature_radius(np.linspace(0, 6, 5)), 2.0)
