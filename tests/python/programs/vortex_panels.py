"""Aerodynamics: lift of an airfoil by vortex panels, in the lumped form and with a flap."""

import numpy as np


def naca(camber, position, n):
    """The camber line of a four-digit airfoil, with panels bunched at the ends."""
    x = 0.5 * (1 - np.cos(np.linspace(0, np.pi, n + 1)))
    front = camber / position**2 * (2 * position * x - x**2)
    back = camber / (1 - position) ** 2 * (1 - 2 * position + 2 * position * x - x**2)
    return x, np.where(x < position, front, back)


def deflect(x, y, hinge, angle):
    """The part behind the hinge is turned downwards."""
    y_hinge = np.interp(hinge, x, y)
    behind = x > hinge
    dx, dy = x[behind] - hinge, y[behind] - y_hinge
    x, y = x.copy(), y.copy()
    x[behind] = hinge + dx * np.cos(angle) + dy * np.sin(angle)
    y[behind] = y_hinge - dx * np.sin(angle) + dy * np.cos(angle)
    return x, y


class Airfoil:
    def __init__(self, x, y):
        self.dx, self.dy = np.diff(x), np.diff(y)
        self.length = np.hypot(self.dx, self.dy)
        # vortices at a quarter, collocation points at three quarters
        self.vortex = np.array([x[:-1] + 0.25 * self.dx, y[:-1] + 0.25 * self.dy])
        self.points = np.array([x[:-1] + 0.75 * self.dx, y[:-1] + 0.75 * self.dy])
        self.normals = np.array([-self.dy, self.dx]) / self.length

    def influence(self):
        r = self.points[:, :, None] - self.vortex[:, None, :]
        r2 = np.sum(r**2, axis=0)
        velocity = np.array([r[1], -r[0]]) / (2 * np.pi * r2)
        return np.einsum("kij,ki->ij", velocity, self.normals)

    def solve(self, alpha):
        free = np.array([np.cos(alpha), np.sin(alpha)])
        self.gamma = np.linalg.solve(self.influence(), -free @ self.normals)
        return self

    def lift(self):
        return 2 * self.gamma.sum()

    def moment(self, about=0.25):
        return -2 * np.sum(self.gamma * (self.vortex[0] - about))

    def pressure_jump(self):
        return 2 * self.gamma / self.length


def main(camber, position, hinge, flap, alpha):
    x, y = naca(camber, position, 20)
    wing = Airfoil(*deflect(x, y, hinge, flap)).solve(alpha)
    peak = np.max(wing.pressure_jump()[1:])
    return (wing.lift() - 1.2) ** 2 + wing.moment() ** 2 + 0.01 * peak


ARGUMENTS = (0.03, 0.42, 0.71, 0.12, 0.05)


def check():
    """A flat plate lifts 2 pi sin(alpha), at its quarter point."""
    plate = Airfoil(np.linspace(0, 1, 31), np.zeros(31)).solve(0.1)
    assert abs(plate.lift() - 2 * np.pi * np.sin(0.1)) < 1e-10
    assert abs(plate.moment()) < 1e-10
