"""Computer vision: a homography from point pairs, and the photometric error of a warped image."""

import numpy as np


def from_points(source, target):
    """The direct linear transform, with the last entry held at 1."""
    A = np.zeros((8, 8))
    b = np.zeros(8)
    for k, ((x, y), (u, v)) in enumerate(zip(source, target, strict=True)):
        A[2 * k] = [x, y, 1, 0, 0, 0, -u * x, -u * y]
        A[2 * k + 1] = [0, 0, 0, x, y, 1, -v * x, -v * y]
        b[2 * k : 2 * k + 2] = u, v
    return np.append(np.linalg.solve(A, b), 1.0).reshape(3, 3)


def project(H, points):
    homogeneous = np.hstack([points, np.ones((len(points), 1))]) @ H.T
    return homogeneous[:, :2] / homogeneous[:, 2:]


def bilinear(image, x, y):
    """Zero outside of the image."""
    h, w = image.shape
    x0, y0 = np.floor(x).astype(int), np.floor(y).astype(int)
    fx, fy = x - x0, y - y0
    result = np.zeros(x.shape)
    for dx, dy, weight in (
        (0, 0, (1 - fx) * (1 - fy)),
        (1, 0, fx * (1 - fy)),
        (0, 1, (1 - fx) * fy),
        (1, 1, fx * fy),
    ):
        xi, yi = x0 + dx, y0 + dy
        valid = (xi >= 0) & (xi < w) & (yi >= 0) & (yi < h)
        pixels = image[np.clip(yi, 0, h - 1), np.clip(xi, 0, w - 1)]
        result += np.where(valid, weight * pixels, 0)
    return result


def warp(image, H, shape):
    rows, columns = np.indices(shape)
    grid = np.stack([columns.ravel(), rows.ravel()], axis=-1)
    source = project(np.linalg.inv(H), grid.astype(float))
    return bilinear(image, source[:, 0], source[:, 1]).reshape(shape)


def scene(n=20):
    y, x = np.mgrid[:n, :n]
    return np.sin(0.5 * x) * np.cos(0.35 * y) + 0.02 * x


CORNERS = np.array([[3.0, 3.0], [15.0, 4.0], [16.0, 15.0], [4.0, 16.0]])


def main(offsets, gain):
    H = from_points(CORNERS, CORNERS + offsets)
    H /= np.linalg.norm(H)
    warped = warp(scene(), H, (14, 14))
    reference = scene()[1:15, 2:16]
    a, b = warped - warped.mean(), reference - reference.mean()
    correlation = np.sum(a * b) / np.sqrt(np.sum(a**2) * np.sum(b**2))
    return 1 - correlation + 0.1 * np.mean((gain * warped - reference) ** 2)


ARGUMENTS = (
    np.array([[-1.3, -0.8], [-1.1, -1.2], [-1.6, -0.7], [-1.25, -1.45]]),
    1.1,
)


def check():
    H = from_points(CORNERS, CORNERS + ARGUMENTS[0])
    np.testing.assert_allclose(project(H, CORNERS), CORNERS + ARGUMENTS[0], atol=1e-11)
    shift = from_points(CORNERS, CORNERS - 1)
    np.testing.assert_allclose(warp(scene(), shift, (8, 8)), scene()[1:9, 1:9], atol=1e-9)
