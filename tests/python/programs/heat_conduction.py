"""Heat: a wall of layers by Crank and Nicolson, with Thomas' algorithm in loops."""

import numpy as np


def thomas(lower, diagonal, upper, rhs):
    """Overwrites copies of its arguments, as the textbooks do."""
    n = len(diagonal)
    c, d = upper.copy(), rhs.copy()
    c[0] /= diagonal[0]
    d[0] /= diagonal[0]
    for i in range(1, n):
        pivot = diagonal[i] - lower[i - 1] * c[i - 1]
        if i < n - 1:
            c[i] /= pivot
        d[i] = (d[i] - lower[i - 1] * d[i - 1]) / pivot
    x = np.empty_like(d)
    x[-1] = d[-1]
    for i in range(n - 2, -1, -1):
        x[i] = d[i] - c[i] * x[i + 1]
    return x


class Wall:
    def __init__(self, layers, cells=8):
        """`layers`: (thickness, conductivity, heat capacity), from outside to inside."""
        widths, k, self.capacity = (
            np.concatenate([np.full(cells, v) for v in column])
            for column in (
                [thickness / cells for thickness, _, _ in layers],
                [conductivity for _, conductivity, _ in layers],
                [capacity for _, _, capacity in layers],
            )
        )
        self.widths = widths
        self.conductance = 1 / (widths[:-1] / (2 * k[:-1]) + widths[1:] / (2 * k[1:]))
        self.first, self.last = 2 * k[0] / widths[0], 2 * k[-1] / widths[-1]

    def matrix(self, h_out, h_in):
        """Tridiagonal, of the heat that flows into each cell."""
        out = 1 / (1 / self.first + 1 / h_out)
        inside = 1 / (1 / self.last + 1 / h_in)
        diagonal = np.zeros(len(self.widths))
        diagonal[:-1] -= self.conductance
        diagonal[1:] -= self.conductance
        diagonal[0] -= out
        diagonal[-1] -= inside
        return self.conductance, diagonal, out, inside

    def simulate(self, outside, inside, h_out=25.0, h_in=8.0, dt=900.0):
        off, diagonal, g_out, g_in = self.matrix(h_out, h_in)
        mass = self.capacity * self.widths / dt
        T = np.linspace(outside[0], inside, len(diagonal))
        flux = np.zeros(len(outside))
        for n, t_out in enumerate(outside):
            source = np.zeros_like(T)
            source[0] += g_out * t_out
            source[-1] += g_in * inside
            explicit = (mass + 0.5 * diagonal) * T
            explicit[:-1] += 0.5 * off * T[1:]
            explicit[1:] += 0.5 * off * T[:-1]
            T = thomas(-0.5 * off, mass - 0.5 * diagonal, -0.5 * off, explicit + source)
            flux[n] = g_in * (inside - T[-1])
        return T, flux


def main(insulation, brick, conductivity, capacity):
    wall = Wall([(insulation, conductivity, 3e4), (brick, 0.8, capacity * 1e6)])
    hours = np.arange(0, 48, 0.5)
    outside = 5 + 6 * np.sin(2 * np.pi * (hours - 9) / 24)
    _, flux = wall.simulate(outside, 20.0, dt=1800.0)
    loss = np.mean(flux[48:])
    swing = np.ptp(flux[48:])
    return loss + swing + 30 * insulation + 10 * brick


ARGUMENTS = (0.1, 0.24, 0.04, 1.5)


def check():
    A = np.diag([4.0, 5.0, 6.0]) + np.diag([1.0, 2.0], 1) + np.diag([0.5, -1.0], -1)
    b = np.array([1.0, 2.0, 3.0])
    x = thomas(np.array([0.5, -1.0]), np.array([4.0, 5.0, 6.0]), np.array([1.0, 2.0]), b)
    np.testing.assert_allclose(A @ x, b, atol=1e-14)
    _, flux = Wall([(0.1, 0.04, 3e4), (0.2, 0.8, 1e5)]).simulate(np.full(2000, 0.0), 20.0)
    assert abs(flux[-1] - 20 / (0.1 / 0.04 + 0.2 / 0.8 + 1 / 25 + 1 / 8)) < 1e-6
