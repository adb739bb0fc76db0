"""Graphics: spheres and a floor as signed distances, by sphere tracing with soft shadows."""

import numpy as np


def normalize(v):
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


class Sphere:
    def __init__(self, centre, radius):
        self.centre, self.radius = np.asarray(centre), radius

    def distance(self, p):
        return np.sqrt(((p - self.centre) ** 2).sum(-1)) - self.radius


class Floor:
    def __init__(self, height):
        self.height = height

    def distance(self, p):
        return p[..., 1] - self.height


class SmoothUnion:
    """The polynomial smooth minimum."""

    def __init__(self, *parts, k=0.3):
        self.parts, self.k = parts, k

    def distance(self, p):
        d, *rest = (part.distance(p) for part in self.parts)
        for other in rest:
            h = np.clip(0.5 + 0.5 * (other - d) / self.k, 0, 1)
            d = other * (1 - h) + d * h - self.k * h * (1 - h)
        return d


def camera(n, field_of_view):
    s = np.tan(field_of_view / 2) * np.linspace(-1, 1, n)
    d = np.empty((n, n, 3))
    d[..., 0] = s
    d[..., 1] = -s[:, np.newaxis]
    d[..., 2] = 1.0
    return normalize(d)


def march(scene, origin, directions, steps=24, far=8.0):
    t = np.zeros(directions.shape[:-1])
    for _ in range(steps):
        d = scene.distance(origin + t[..., None] * directions)
        t = np.where(t < far, t + d, t)
    return t, t < far


def normals(scene, p, eps=1e-4):
    n = np.zeros(p.shape)
    for axis in range(3):
        e = np.zeros(3)
        e[axis] = eps
        n[..., axis] = scene.distance(p + e) - scene.distance(p - e)
    return normalize(n)


def shadow(scene, p, light, sharpness=6.0, steps=6):
    result = np.ones(p.shape[:-1])
    t = 0.15
    for _ in range(steps):
        d = scene.distance(p + t * light)
        result = np.minimum(result, np.clip(sharpness * d / t, 0, 1))
        t += 0.3
    return result


def render(scene, light, n=12):
    directions = camera(n, 0.9)
    origin = np.array([0.0, 0.5, -3.0])
    t, hit = march(scene, origin, directions)
    image = np.full((n, n), 0.1)
    p = origin + t[hit][:, None] * directions[hit]
    lambert = np.maximum(normals(scene, p) @ light, 0.0)
    image[hit] = 0.15 + 0.85 * lambert * shadow(scene, p, light)
    return image


def main(centres, radii, floor, light):
    spheres = [Sphere(c, r) for c, r in zip(centres, radii)]
    scene = SmoothUnion(Floor(floor), *spheres, k=0.25)
    image = render(scene, normalize(light))
    target = np.linspace(0.1, 0.8, 12)[:, None] * np.ones(12)
    return np.mean((image - target) ** 2)


ARGUMENTS = (
    np.array([[-0.45, 0.3, 0.4], [0.6, 0.1, 0.1]]),
    np.array([0.7, 0.5]),
    -0.55,
    np.array([0.5, 0.8, -0.6]),
)


def check():
    t, hit = march(
        Sphere(np.zeros(3), 1.0), np.array([0.0, 0.0, -3.0]), np.array([[0.0, 0.0, 1.0]])
    )
    assert abs(t[0] - 2.0) < 1e-12
    assert hit[0]
    p = normalize(np.array([[0.3, -0.2, 0.9]]))
    np.testing.assert_allclose(normals(Sphere(np.zeros(3), 1.0), p), p, atol=1e-8)
