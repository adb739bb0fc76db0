"""Tomography: Radon transform by interpolation, filtered back projection, and steps of SIRT."""

import numpy as np
from scipy.ndimage import map_coordinates

ANGLES = np.linspace(0, np.pi, 12, endpoint=False)


def radon(image, angles):
    n = image.shape[0]
    centre = (n - 1) / 2
    axis = np.arange(n) - centre
    s, t = np.meshgrid(axis, axis)
    sinogram = np.zeros((len(angles), n))
    for i, angle in enumerate(angles):
        x = s * np.cos(angle) - t * np.sin(angle) + centre
        y = s * np.sin(angle) + t * np.cos(angle) + centre
        sinogram[i] = map_coordinates(image, [y, x], order=1).sum(axis=0)
    return sinogram


def ramp_filter(sinogram, window="hann"):
    n = sinogram.shape[1]
    size = 2 ** int(np.ceil(np.log2(2 * n)))
    f = np.fft.rfftfreq(size)
    response = 2 * f
    if window == "hann":
        response = response * (0.5 + 0.5 * np.cos(2 * np.pi * f))
    elif window != "none":
        raise ValueError(f"no window {window!r}")
    spectrum = np.fft.rfft(sinogram, n=size, axis=1)
    return np.fft.irfft(spectrum * response, n=size, axis=1)[:, :n]


def back_project(sinogram, angles):
    n = sinogram.shape[1]
    axis = np.arange(n) - (n - 1) / 2
    x, y = np.meshgrid(axis, axis)
    image = np.zeros((n, n))
    for projection, angle in zip(sinogram, angles, strict=True):
        s = x * np.cos(angle) + y * np.sin(angle)
        image += np.interp(s, axis, projection, left=0.0, right=0.0)
    return image * np.pi / (2 * len(angles))


def fbp(sinogram, angles, window="hann"):
    return 2 * back_project(ramp_filter(sinogram, window), angles)


def sirt(sinogram, angles, steps, relaxation=0.9):
    ones = np.ones((sinogram.shape[1],) * 2)
    row = np.maximum(radon(ones, angles), 1.0)
    column = np.maximum(back_project(np.ones_like(sinogram), angles), 1e-3)
    image = np.zeros_like(ones)
    for _ in range(steps):
        residual = (sinogram - radon(image, angles)) / row
        image = image + relaxation * back_project(residual, angles) / column
        np.maximum(image, 0, out=image)
    return image


def phantom(n, centres, widths):
    y, x = np.mgrid[:n, :n] / (n - 1) * 2 - 1
    image = np.zeros((n, n))
    for (cx, cy), w in zip(centres, widths, strict=True):
        image += np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / w**2)
    return image


def main(centres, widths, offset):
    """The error that a wrong axis of rotation makes in the reconstruction of blobs."""
    image = phantom(16, centres, widths)
    sinogram = radon(image, ANGLES)
    shifted = np.array([np.interp(np.arange(16) + offset, np.arange(16), row) for row in sinogram])
    analytic = fbp(shifted, ANGLES)
    iterative = sirt(shifted, ANGLES, 3)
    inner = (slice(3, -3), slice(3, -3))
    return np.mean((analytic[inner] - image[inner]) ** 2) + np.mean((iterative - image)[inner] ** 2)


ARGUMENTS = (np.array([[0.2, 0.3], [-0.35, -0.1]]), np.array([0.3, 0.25]), 0.2)


def check():
    image = phantom(32, [[0.1, 0.2]], [0.3])
    sinogram = radon(image, ANGLES)
    np.testing.assert_allclose(sinogram.sum(axis=1), image.sum(), rtol=1e-2)
    reconstruction = fbp(sinogram, ANGLES)
    assert np.corrcoef(reconstruction.ravel(), image.ravel())[0, 1] > 0.95
