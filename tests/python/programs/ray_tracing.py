"""Geometrical optics: an achromatic doublet, traced ray by ray through spherical surfaces."""

import math
from dataclasses import dataclass

import numpy as np


@dataclass
class Surface:
    curvature: float
    thickness: float  # to the next surface
    index: float  # behind the surface


class MissedSurfaceError(Exception):
    pass


def refract(direction, normal, ratio):
    """Snell's law in vector form."""
    cos_in = -np.dot(normal, direction)
    sin2_out = ratio**2 * (1.0 - cos_in**2)
    if sin2_out > 1.0:
        raise MissedSurfaceError("total internal reflection")
    return ratio * direction + (ratio * cos_in - math.sqrt(1.0 - sin2_out)) * normal


def intersect(point, direction, curvature):
    if abs(curvature) < 1e-12:
        return point - direction * (point[2] / direction[2]), np.array([0.0, 0.0, -1.0])
    radius = 1.0 / curvature
    centre = np.array([0.0, 0.0, radius])
    offset = point - centre
    b = np.dot(offset, direction)
    discriminant = b * b - (np.dot(offset, offset) - radius**2)
    if discriminant < 0:
        raise MissedSurfaceError("ray misses the surface")
    t = -b - math.copysign(1.0, radius) * math.sqrt(discriminant)
    hit = point + t * direction
    normal = (hit - centre) / radius
    if np.dot(normal, direction) > 0:
        normal = -normal
    return hit, normal


def trace(surfaces, point, direction):
    index = 1.0
    for surface in surfaces:
        point, normal = intersect(point, direction, surface.curvature)
        direction = refract(direction, normal, index / surface.index)
        index = surface.index
        point[2] -= surface.thickness
    return point, direction


def pupil(rings=3, arms=6, radius=8.0):
    yield 0.0, 0.0
    for ring in range(1, rings + 1):
        for arm in range(arms):
            angle = 2 * math.pi * (arm + 0.5 * (ring % 2)) / arms
            r = radius * ring / rings
            yield r * math.cos(angle), r * math.sin(angle)


def spot(surfaces, field):
    hits = []
    for x, y in pupil():
        point = np.array([x, y, -5.0])
        direction = np.array([0.0, np.sin(field), np.cos(field)])
        try:
            point, direction = trace(surfaces, point, direction)
        except MissedSurfaceError:
            continue
        hits.append(point[:2] - direction[:2] / direction[2] * point[2])
    hits = np.array(hits)
    return np.sqrt(np.mean(np.sum((hits - hits.mean(axis=0)) ** 2, axis=1)))


def main(curvatures, thickness, back_focus):
    surfaces = [
        Surface(curvatures[0], thickness, 1.5168),
        Surface(curvatures[1], 0.5 * thickness, 1.6200),
        Surface(curvatures[2], back_focus, 1.0),
    ]
    return spot(surfaces, 0.0) + 0.5 * spot(surfaces, math.radians(1.0))


ARGUMENTS = (np.array([1 / 61.0, -1 / 43.0, -1 / 128.0]), 4.0, 96.0)


def check():
    """A thin lens focuses at the focal length of the lens maker's equation."""
    power = 0.5168 * 2 / 200.0
    thin = [Surface(1 / 200.0, 1e-9, 1.5168), Surface(-1 / 200.0, 1 / power, 1.0)]
    point, direction = trace(thin, np.array([0.1, 0.0, -1.0]), np.array([0.0, 0.0, 1.0]))
    crossing = point - direction / direction[2] * point[2]
    assert abs(crossing[0]) < 1e-6
    assert main(*ARGUMENTS) < 1.0
