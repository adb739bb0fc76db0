"""Fluids: Burgers' equation by finite volumes with limiters, and a third-order Runge-Kutta."""

import numpy as np

LIMITERS = {
    "minmod": lambda r: np.maximum(0, np.minimum(1, r)),
    "vanleer": lambda r: (r + np.abs(r)) / (1 + np.abs(r)),
    "none": np.zeros_like,
}


def reconstruct(u, limiter):
    """Values left and right of each face, periodic."""
    forward = np.roll(u, -1) - u
    backward = u - np.roll(u, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.where(np.abs(forward) > 1e-12, backward / np.where(forward == 0, 1.0, forward), 0.0)
    slope = LIMITERS[limiter](r) * forward
    left = u + 0.5 * slope
    right = np.roll(u - 0.5 * slope, -1)
    return left, right


def flux(left, right, scheme="rusanov"):
    f = lambda u: 0.5 * u**2
    if scheme == "rusanov":
        speed = np.maximum(np.abs(left), np.abs(right))
        return 0.5 * (f(left) + f(right)) - 0.5 * speed * (right - left)
    if scheme == "godunov":
        return np.maximum(f(np.maximum(left, 0)), f(np.minimum(right, 0)))
    raise ValueError(f"no scheme {scheme!r}")


def rhs(u, dx, viscosity, limiter, scheme):
    F = flux(*reconstruct(u, limiter), scheme=scheme)
    return -(F - np.roll(F, 1)) / dx + viscosity * (np.roll(u, -1) - 2 * u + np.roll(u, 1)) / dx**2


def solve(u, dx, end, cfl=0.4, viscosity=0.0, limiter="vanleer", scheme="rusanov"):
    t = 0.0
    steps = int(np.ceil(end * 2.0 / (cfl * dx)))
    dt = end / steps
    for _ in range(steps):
        u1 = u + dt * rhs(u, dx, viscosity, limiter, scheme)
        u2 = 0.75 * u + 0.25 * (u1 + dt * rhs(u1, dx, viscosity, limiter, scheme))
        u = u / 3 + 2 / 3 * (u2 + dt * rhs(u2, dx, viscosity, limiter, scheme))
        t += dt
    return u


def main(amplitudes, phases, viscosity):
    n = 40
    x = (np.arange(n) + 0.5) / n
    modes = np.arange(1, len(amplitudes) + 1)
    u0 = 0.5 + np.sum(
        amplitudes[:, None] * np.sin(2 * np.pi * modes[:, None] * x + phases[:, None]), 0
    )
    u = solve(u0, 1 / n, 0.2, viscosity=viscosity)
    target = np.interp(x, [0.0, 0.5, 0.9, 1.0], [0.2, 0.9, 1.3, 0.2])
    return np.mean((u - target) ** 2) + 0.01 * np.abs(np.diff(u)).sum()


ARGUMENTS = (np.array([0.6, 0.2, -0.1]), np.array([0.3, 1.0, -0.5]), 5e-3)


def check():
    x = (np.arange(80) + 0.5) / 80
    u0 = 1 + 0.5 * np.sin(2 * np.pi * x)
    for limiter in LIMITERS:
        u = solve(u0, 1 / 80, 0.25, limiter=limiter, scheme="godunov")
        assert abs(u.mean() - u0.mean()) < 1e-13
        assert u.max() <= u0.max() + 1e-12
        assert u.min() >= u0.min() - 1e-12
