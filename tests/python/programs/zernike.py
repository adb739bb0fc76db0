"""Optics: Zernike polynomials on a pupil, the Strehl ratio of a wavefront and its point spread."""

from math import factorial as f

import numpy as np


def rnm(n, m, rho):
    rn = np.zeros(rho.shape)
    for s in range(int((n - abs(m)) / 2) + 1):
        c = (-1) ** s * f(n - s) / (f(s) * f((n + abs(m)) // 2 - s) * f((n - abs(m)) // 2 - s))
        rn += c * rho ** (n - 2 * s)
    return rn


def zernike(n, m, rho, theta):
    norm = np.sqrt(2 * (n + 1) / (1 + (m == 0)))
    if m >= 0:
        return norm * rnm(n, m, rho) * np.cos(m * theta)
    return norm * rnm(n, m, rho) * np.sin(-m * theta)


def noll_to_nm(j):
    n = 0
    j1 = j - 1
    while j1 > n:
        n += 1
        j1 -= n
    m = (-1) ** j * ((n % 2) + 2 * int((j1 + ((n + 1) % 2)) / 2.0))
    return n, m


class Wavefront:
    def __init__(self, npix, coefs):
        self.coefs = dict(enumerate(coefs, start=4))
        y, x = np.mgrid[-1 : 1 : npix * 1j, -1 : 1 : npix * 1j]
        self.rho = np.hypot(x, y)
        self.theta = np.arctan2(y, x)
        self.mask = self.rho <= 1.0

    def opd(self):
        w = np.zeros_like(self.rho)
        for j, c in self.coefs.items():
            n, m = noll_to_nm(j)
            w += c * zernike(n, m, self.rho, self.theta)
        w[~self.mask] = 0.0
        return w

    def psf(self, pad=2):
        phase = 2 * np.pi * self.opd()
        field = self.mask * np.exp(1j * phase)
        n = field.shape[0] * pad
        big = np.zeros((n, n), dtype=complex)
        k = field.shape[0] // 2
        c = n // 2
        big[c - k : c - k + field.shape[0], c - k : c - k + field.shape[0]] = field
        amp = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(big)))
        return np.abs(amp) ** 2 / np.sum(self.mask) ** 2


def main(coefs, blur):
    wf = Wavefront(24, coefs)
    psf = wf.psf()
    strehl = psf.max()
    rms = np.std(wf.opd()[wf.mask])
    yy, xx = np.indices(psf.shape)
    center = (psf.shape[0] - 1) / 2
    r = np.sqrt((xx - center) ** 2 + (yy - center) ** 2).astype(int)
    radial = np.bincount(r.ravel(), psf.ravel()) / np.bincount(r.ravel())
    otf = np.abs(np.fft.fft(radial * np.exp(-np.arange(len(radial)) * blur)))
    return strehl + rms + otf[3] + np.trapezoid(radial[:10], dx=0.5)


ARGUMENTS = (np.array([0.05, -0.03, 0.02, 0.04, 0.01]), 0.1)


def check():
    assert noll_to_nm(4) == (2, 0)
    assert noll_to_nm(8) == (3, 1)
