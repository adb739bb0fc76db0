"""Geophysics: an earthquake is located by Geiger's method in a layered earth, with ray tracing."""

from math import asin, cos, sqrt, tan

import numpy as np


class LayeredEarth:
    def __init__(self, thicknesses, velocities):
        self.thicknesses = list(thicknesses)
        self.velocities = list(velocities)

    def legs(self, depth):
        """The parts of the layers above the source."""
        top = 0.0
        for thickness, velocity in zip(self.thicknesses, self.velocities):
            bottom = top + thickness
            yield min(bottom, depth) - top, velocity
            if depth <= bottom:
                return
            top = bottom
        yield depth - top, self.velocities[-1]

    def ray(self, offset, depth):
        """Ray parameter of the direct ray, by Newton on its offset."""
        legs = list(self.legs(depth))
        fastest = max(v for _, v in legs)
        # q = tan of the angle in the fastest layer: no bounds to respect
        q = offset / depth
        for _ in range(30):
            p = q / sqrt(1 + q * q) / fastest
            reach = slope = 0.0
            for h, v in legs:
                c = sqrt(1 - (p * v) ** 2)
                reach += h * p * v / c
                slope += h * v / c**3
            slope *= 1 / (fastest * (1 + q * q) ** 1.5)
            change = (reach - offset) / slope
            q -= change
            if abs(change) < 1e-13:
                break
        return q / sqrt(1 + q * q) / fastest, legs

    def travel_time(self, offset, depth):
        p, legs = self.ray(offset, depth)
        time = 0.0
        for h, v in legs:
            angle = asin(p * v)
            time += h / (v * cos(angle))
        return time, p, tan(asin(p * legs[-1][1])), legs[-1][1]


STATIONS = np.array([[0.0, 0.0], [30.0, 5.0], [12.0, 28.0], [-20.0, 15.0], [5.0, -25.0]])


def geiger(earth, arrivals, start, iterations=8):
    x, y, depth, origin = start
    for _ in range(iterations):
        G = np.empty((len(STATIONS), 4))
        residual = np.empty(len(STATIONS))
        for k, (sx, sy) in enumerate(STATIONS):
            offset = sqrt((x - sx) ** 2 + (y - sy) ** 2)
            time, p, _, velocity = earth.travel_time(offset, depth)
            residual[k] = arrivals[k] - origin - time
            G[k] = p * (x - sx) / offset, p * (y - sy) / offset, sqrt(1 / velocity**2 - p**2), 1.0
        dx, dy, dz, dt = np.linalg.lstsq(G, residual, rcond=None)[0]
        x, y, depth, origin = x + dx, y + dy, max(depth + dz, 1.0), origin + dt
    return np.array([x, y, depth, origin]), residual


def main(thicknesses, velocities, arrivals):
    """How far the hypocentre moves, and how bad it fits, in another model of the earth."""
    hypocentre, residual = geiger(
        LayeredEarth(thicknesses, velocities), arrivals, (4.0, 2.0, 9.0, 0.1)
    )
    return np.sum((hypocentre[:3] - np.array([5.0, 3.0, 11.0])) ** 2) + 100 * np.sum(residual**2)


ARGUMENTS = (
    np.array([3.0, 5.0]),
    np.array([4.2, 5.5, 6.3]),
    np.array([2.75, 5.18, 5.25, 5.7, 5.9]),
)


def check():
    earth = LayeredEarth([3.0, 5.0], [6.0, 6.0, 6.0])
    time, *_ = earth.travel_time(8.0, 10.0)
    assert abs(time - sqrt(164.0) / 6.0) < 1e-12
    earth = LayeredEarth([3.0, 5.0], [4.0, 5.5, 6.5])
    truth = np.array([5.0, 3.0, 11.0, 0.5])
    offsets = np.hypot(*(STATIONS - truth[:2]).T)
    arrivals = [earth.travel_time(o, truth[2])[0] + truth[3] for o in offsets]
    found, _ = geiger(earth, arrivals, (4.0, 2.0, 9.0, 0.1))
    np.testing.assert_allclose(found, truth, atol=1e-6)
