"""Computer vision: optical flow after Horn and Schunck, and a pyramid's coarse estimate."""

import numpy as np
from scipy.signal import convolve2d

AVERAGE = np.array([[1, 2, 1], [2, 0, 2], [1, 2, 1]]) / 12.0


def pattern(n, shift=(0.0, 0.0), angle=0.0):
    y, x = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    c = (n - 1) / 2
    xr = (x - c) * np.cos(angle) + (y - c) * np.sin(angle) + c - shift[0]
    yr = -(x - c) * np.sin(angle) + (y - c) * np.cos(angle) + c - shift[1]
    return np.sin(0.6 * xr) + np.cos(0.4 * yr) + np.exp(-0.05 * ((xr - 7) ** 2 + (yr - 6) ** 2))


def derivatives(first, second):
    mean = 0.5 * (first + second)
    Iy, Ix = np.gradient(mean)
    return Ix, Iy, second - first


def horn_schunck(first, second, alpha, iterations=25):
    Ix, Iy, It = derivatives(first, second)
    u = np.zeros(first.shape)
    v = np.zeros(first.shape)
    denominator = alpha**2 + Ix**2 + Iy**2
    for _ in range(iterations):
        u_mean = convolve2d(u, AVERAGE, mode="same", boundary="symm")
        v_mean = convolve2d(v, AVERAGE, mode="same", boundary="symm")
        t = (Ix * u_mean + Iy * v_mean + It) / denominator
        u = u_mean - Ix * t
        v = v_mean - Iy * t
    return u, v


def reduce_image(image):
    h, w = image.shape
    return image[: h // 2 * 2, : w // 2 * 2].reshape(h // 2, 2, w // 2, 2).mean(axis=(1, 3))


def lucas_kanade(first, second):
    """One flow for the whole image."""
    Ix, Iy, It = (d.ravel() for d in derivatives(first, second))
    A = np.stack([Ix, Iy], axis=1)
    return np.linalg.lstsq(A, -It, rcond=None)[0]


def main(shift, angle, alpha):
    first, second = pattern(14), pattern(14, shift, angle)
    u, v = horn_schunck(first, second, alpha)
    end_point = np.sqrt((u - 0.4) ** 2 + (v + 0.2) ** 2)
    coarse = 2 * lucas_kanade(reduce_image(first), reduce_image(second))
    return end_point[2:-2, 2:-2].mean() + np.sum((coarse - np.array([0.4, -0.2])) ** 2)


ARGUMENTS = (np.array([0.35, -0.1]), 0.03, 0.7)


def check():
    first, second = pattern(14), pattern(14, (0.3, -0.2))
    u, v = horn_schunck(first, second, 0.3, 200)
    assert abs(np.median(u) - 0.3) < 0.1
    assert abs(np.median(v) + 0.2) < 0.1
    np.testing.assert_allclose(lucas_kanade(first, second), [0.3, -0.2], atol=0.05)
