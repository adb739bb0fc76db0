"""Optics: Mie scattering of a sphere by Bohren and Huffman's recurrences."""

import numpy as np
from scipy.special import jv, yv


def mie_ab(m, x):
    mx = m * x
    nmax = int(np.round(2 + x + 4 * (x ** (1 / 3))))
    n = np.arange(1, nmax + 1)
    nu = n + 0.5
    sx = np.sqrt(0.5 * np.pi * x)
    px = sx * jv(nu, x)
    p1x = np.append(np.sin(x), px[0 : int(nmax) - 1])
    chx = -sx * yv(nu, x)
    ch1x = np.append(np.cos(x), chx[0 : int(nmax) - 1])
    gsx = px - (0 + 1j) * chx
    gs1x = p1x - (0 + 1j) * ch1x
    nmx = int(np.round(max(nmax, np.abs(mx)) + 16))
    Dn = np.zeros(nmx, dtype=complex)
    for i in range(nmx - 1, 1, -1):
        Dn[i - 1] = (i / mx) - (1 / (Dn[i] + i / mx))
    D = Dn[1 : nmax + 1]
    da = D / m + n / x
    db = m * D + n / x
    an = (da * px - p1x) / (da * gsx - gs1x)
    bn = (db * px - p1x) / (db * gsx - gs1x)
    return an, bn


def mie_q(m, wavelength, diameter, n_medium=1.0):
    x = np.pi * diameter / (wavelength / n_medium)
    if x == 0:
        return 0, 0, 0
    nmax = np.round(2 + x + 4 * (x ** (1 / 3)))
    n = np.arange(1, nmax + 1)
    n1 = 2 * n + 1
    n2 = n * (n + 2) / (n + 1)
    n3 = n1 / (n * (n + 1))
    an, bn = mie_ab(m, x)
    qext = (2 / x**2) * np.sum(n1 * (an.real + bn.real))
    qsca = (2 / x**2) * np.sum(n1 * (an.real**2 + an.imag**2 + bn.real**2 + bn.imag**2))
    g1 = [an.real[1 : len(n)], an.imag[1 : len(n)], bn.real[1 : len(n)], bn.imag[1 : len(n)]]
    g1 = [np.append(x, 0.0) for x in g1]
    g = (4 / (qsca * x**2)) * np.sum(
        (n2 * (an.real * g1[0] + an.imag * g1[1] + bn.real * g1[2] + bn.imag * g1[3]))
        + (n3 * (an.real * bn.real + an.imag * bn.imag))
    )
    return qext, qsca, g


def main(n_real, n_imag, diameters):
    m = n_real + 1j * n_imag
    total = 0.0
    for d in diameters:
        qext, qsca, g = mie_q(m, 0.5, d)
        total += qext - 0.3 * qsca * (1 - g)
    return total


ARGUMENTS = (1.5, 0.01, np.array([0.2, 0.5, 0.9]))


def check():
    qext, qsca, g = mie_q(1.5 + 0j, 0.5, 0.5)
    assert abs(qext - qsca) < 1e-10
