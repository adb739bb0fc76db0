"""Gradients of functions of many points, next to a loop over the points and to differences."""

import numpy as np
import pytest

import cotan as ct

POINTS = 300


def camera(np, pose, point):
    """Turn a point by a rotation vector, move and project it."""
    angle = np.sqrt(np.sum(pose[..., :3] ** 2, axis=-1, keepdims=True))
    axis = pose[..., :3] / angle
    turned = (
        np.cos(angle) * point
        + np.sin(angle) * np.cross(axis, point)
        + np.sum(axis * point, axis=-1, keepdims=True) * (1 - np.cos(angle)) * axis
        + pose[..., 3:6]
    )
    seen = turned[..., :2] / turned[..., 2:]
    far = np.sum(seen**2, axis=-1, keepdims=True)
    return seen * (1 + pose[..., 6:7] * far + pose[..., 7:] * far * far)


def springs(np, pose, point):
    """Forces along the way between two points, as columns put together."""
    way = point - pose[..., :3]
    length = np.linalg.norm(way, axis=-1)
    force = (length - 1.0) / length
    parts = [force * way[..., i] * (i + 1) for i in range(3)]
    return np.stack(parts, axis=-1) + pose[..., 3:6]


def flat(found):
    value, gradients = found
    return [value, *gradients]


def mean_of(function, pose, point):
    return np.mean(function(np, pose, point) ** 2)


@pytest.mark.parametrize("function", [camera, springs])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("gathered", [False, True])
def test_points_in_columns(function, dtype, gathered):
    rng = np.random.default_rng(7)
    pose = rng.uniform(0.2, 0.9, (20 if gathered else POINTS, 8)).astype(dtype)
    point = rng.normal((0.0, 0.0, 5.0), size=(POINTS, 3)).astype(dtype)
    which = rng.integers(len(pose), size=POINTS)

    def value(pose, point):
        return mean_of(function, pose[which] if gathered else pose, point)

    def one_by_one(pose, point):
        each = [
            mean_of(function, pose[k if gathered else i], point[i]) for i, k in enumerate(which)
        ]
        return sum(each) / POINTS

    prepared = ct.prepare(value, pose, point, transform="value_and_gradient")
    wanted = flat(ct.value_and_gradient(one_by_one, pose, point))
    for found in (prepared(pose, point), ct.value_and_gradient(value, pose, point)):
        for a, b in zip(flat(found), wanted, strict=True):
            assert np.asarray(a).dtype == dtype
            np.testing.assert_allclose(a, b, rtol=3e-5 if dtype == np.float32 else 1e-11, atol=1e-7)
    if dtype == np.float64:
        along = rng.normal(size=pose.shape), rng.normal(size=point.shape)
        step = 1e-6
        up = value(pose + step * along[0], point + step * along[1])
        down = value(pose - step * along[0], point - step * along[1])
        slope = sum(np.sum(g * v) for g, v in zip(wanted[1:], along, strict=True))
        np.testing.assert_allclose((up - down) / (2 * step), slope, rtol=1e-7)
