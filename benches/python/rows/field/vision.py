"""Cameras, hands and rays."""

import numpy as np

from rows._row import Arrays, Row, rng
from rows.blocks import reproject
from rows.field._names import array

# ba: the squared errors of 2,000 observations, by 20 cameras of 400 points


def ba(np, cameras, points, camera, point, seen):
    return np.sum((reproject(np, cameras[camera], points[point]) - seen) ** 2)


def ba_data(n: int = 2_000, cameras: int = 20, points: int = 400) -> Arrays:
    draw = rng()
    centre = np.array([0.1, 0.2, -0.1, 0.1, 0.2, -6.0, 8.0, 0.01, 0.001])
    return (
        centre * (1 + 0.1 * draw.normal(size=(cameras, 9))),
        draw.normal(size=(points, 3)) / 2,
        draw.integers(0, cameras, n),
        draw.integers(0, points, n),
        draw.normal(size=(n, 2)),
    )


# hand: 26 angles and shifts move 22 bones, which carry 500 vertices, from ADBench

FINGERS, BONES = 5, 22
PARENTS = (-1, 0, *(0 if k % 4 == 0 else k + 1 for k in range(4 * FINGERS)))


def rotation(np, angles):
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles), np.sin(angles)
    about_x = array(np, [[1.0, 0.0, 0.0], [0.0, cx, -sx], [0.0, sx, cx]])
    about_y = array(np, [[cy, 0.0, sy], [0.0, 1.0, 0.0], [-sy, 0.0, cy]])
    about_z = array(np, [[cz, -sz, 0.0], [sz, cz, 0.0], [0.0, 0.0, 1.0]])
    return about_z @ about_y @ about_x


def hand(np, theta, rest, weights, base, seen):
    angles = [theta[:3], np.zeros(3)]
    for finger in range(FINGERS):
        bend = theta[6 + 4 * finger : 10 + 4 * finger]
        angles.append(array(np, [bend[0], bend[1], 0.0]))
        angles += [array(np, [bend[k], 0.0, 0.0]) for k in (2, 3)]
        angles.append(np.zeros(3))
    bottom = array(np, [[0.0, 0.0, 0.0, 1.0]])
    absolute = []
    for k, parent in enumerate(PARENTS):
        top = np.concatenate((rotation(np, angles[k]), np.zeros((3, 1))), 1)
        relative = rest[k] @ np.concatenate((top, bottom), 0)
        absolute.append(relative if parent < 0 else absolute[parent] @ relative)
    moved = np.zeros((3, base.shape[1]))
    for k in range(BONES):
        moved = moved + weights[k] * (absolute[k] @ base)[:3]
    return np.sum((moved + theta[3:6][:, None] - seen) ** 2)


def hand_data(n: int = 500) -> Arrays:
    draw = rng()
    rest = np.tile(np.eye(4), (BONES, 1, 1))
    rest[:, :3, 3] = draw.normal(size=(BONES, 3)) / 3
    weights = draw.uniform(size=(BONES, n)) ** 8
    base = np.concatenate((draw.normal(size=(3, n)), np.ones((1, n))))
    return draw.normal(size=26) / 3, rest, weights / weights.sum(0), base, draw.normal(size=(3, n))


# ray-tracing: three spheres and a light, 64 × 64 rays


def ray_tracing(np, centres, radii, colours, light, rays, wanted):
    image, nearest = np.zeros_like(rays), np.full_like(rays[:, 0], 1e9)
    for k in range(3):
        along = np.sum(rays * centres[k], 1)
        inside = along**2 - np.sum(centres[k] ** 2) + radii[k] ** 2
        hit = inside > 0
        t = along - np.sqrt(np.where(hit, inside, 1.0))
        normal = (rays * t[:, None] - centres[k]) / radii[k]
        toward = light - rays * t[:, None]
        toward = toward / np.sqrt(np.sum(toward**2, 1))[:, None]
        lambert = np.sum(normal * toward, 1)
        shade = 0.1 + np.where(lambert > 0, lambert, 0.0)
        closer = hit & (t < nearest)
        nearest = np.where(closer, t, nearest)
        image = np.where(closer[:, None], colours[k] * shade[:, None], image)
    return np.mean((image - wanted) ** 2)


def ray_tracing_data(n: int = 64) -> Arrays:
    draw = rng()
    x, y = np.meshgrid(np.linspace(-0.5, 0.5, n), np.linspace(-0.5, 0.5, n))
    rays = np.stack([x.ravel(), y.ravel(), np.ones(x.size)], 1)
    return (
        np.array([[0.0, 0.0, 5.0], [1.0, 0.5, 6.0], [-1.2, -0.5, 5.5]]),
        np.array([1.0, 1.2, 0.8]),
        draw.uniform(size=(3, 3)),
        np.array([3.0, -4.0, 0.0]),
        rays / np.sqrt(np.sum(rays**2, 1))[:, None],
        draw.uniform(size=(n * n, 3)),
    )


ROWS = [
    Row("ba", ba_data, ba, wrt=(0, 1), tiny=lambda: ba_data(6, 2, 3)),
    Row("hand", hand_data, hand, tiny=lambda: hand_data(3)),
    Row(
        "ray-tracing",
        ray_tracing_data,
        ray_tracing,
        wrt=(0, 1, 2, 3),
        tiny=lambda: ray_tracing_data(7),
        step=1e-7,
        loose=16,
    ),
]
