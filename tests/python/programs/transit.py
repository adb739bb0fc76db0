"""Astronomy: the light curve of a transiting planet, with limb darkening and a spotted star."""

import numpy as np


def separation(t, t0, period, a, inclination):
    phase = 2 * np.pi * (t - t0) / period
    return a * np.sqrt(np.sin(phase) ** 2 + (np.cos(inclination) * np.cos(phase)) ** 2)


def overlap(p, z):
    """The area of a unit disc that is covered by one of radius p at distance z, over pi."""
    outside = z >= 1 + p
    inside = z <= 1 - p
    hidden = z <= p - 1
    partial = ~(outside | inside | hidden)
    # the formula of lenses has holes outside of its range
    zs = np.where(partial, z, np.maximum(p, 1.0))
    k0 = np.arccos((p**2 + zs**2 - 1) / (2 * p * zs))
    k1 = np.arccos((1 - p**2 + zs**2) / (2 * zs))
    k2 = 0.5 * np.sqrt(4 * zs**2 - (1 + zs**2 - p**2) ** 2)
    return np.select([outside, inside, hidden], [0.0, p**2, 1.0], (p**2 * k0 + k1 - k2) / np.pi)


def limb_darkened(p, z, u1, u2, rings=24):
    """Rings of constant brightness."""
    edges = np.linspace(0, 1, rings + 1)[1:]
    middle = edges - 0.5 / rings
    mu = np.sqrt(1 - middle**2)
    intensity = 1 - u1 * (1 - mu) - u2 * (1 - mu) ** 2
    total = np.pi * np.sum(intensity * np.diff(edges**2, prepend=0.0))
    covered = np.array([r**2 * np.pi * overlap(p / r, z / r) for r in edges])
    ring = np.diff(covered, axis=0, prepend=np.zeros((1, len(z))))
    return 1 - intensity @ ring / total


def rotation(t, amplitude, period, phases):
    flux = np.ones_like(t)
    for phi in phases:
        facing = np.cos(2 * np.pi * t / period + phi)
        flux -= amplitude * np.where(facing > 0, facing, 0) ** 2
    return flux


def model(t, p, t0, a, b, u, spots):
    z = separation(t, t0, 3.5, a, np.arccos(b / a))
    return limb_darkened(p, z, *u) * rotation(t, spots, 11.0, (0.4, 2.0))


TIMES = np.linspace(-0.2, 0.2, 60)


def main(p, t0, a, b, u, spots):
    rng = np.random.default_rng(10)
    observed = model(TIMES, 0.1, 0.002, 9.0, 0.3, (0.4, 0.2), 0.004)
    observed += 3e-4 * rng.standard_normal(len(TIMES))
    residual = (observed - model(TIMES, p, t0, a, b, u, spots)) / 3e-4
    return 0.5 * np.mean(residual**2)


ARGUMENTS = (0.105, 0.003, 8.8, 0.35, np.array([0.35, 0.25]), 0.005)


def check():
    z = np.array([0.0, 0.5, 0.95, 1.2])
    area = overlap(0.1, z)
    np.testing.assert_allclose(area[[0, 1, 3]], [0.01, 0.01, 0.0], atol=1e-15)
    assert 0 < area[2] < 0.01
    flux = limb_darkened(0.1, np.linspace(0, 1.2, 50), 0.4, 0.2)
    assert flux[0] < 0.99
    assert flux[-1] == 1.0
