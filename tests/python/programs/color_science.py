"""Color: a print of three inks: reflectance to XYZ to CIELAB, and the difference CIEDE2000."""

import numpy as np

WAVELENGTHS = np.arange(400, 701, 20.0)


def piecewise_gauss(x, mean, left, right):
    return np.exp(-0.5 * ((x - mean) / np.where(x < mean, left, right)) ** 2)


def observer(w):
    """Fits of the CIE 1931 colour matching functions."""
    g = piecewise_gauss
    x = (
        1.056 * g(w, 599.8, 37.9, 31.0)
        + 0.362 * g(w, 442.0, 16.0, 26.7)
        - 0.065 * g(w, 501.1, 20.4, 26.2)
    )
    y = 0.821 * g(w, 568.8, 46.9, 40.5) + 0.286 * g(w, 530.9, 16.3, 31.1)
    z = 1.217 * g(w, 437.0, 11.8, 36.0) + 0.681 * g(w, 459.0, 26.0, 13.8)
    return np.stack([x, y, z])


def daylight(w, temperature=6500.0):
    """Planck's law, scaled."""
    c2 = 1.4388e7
    spectrum = w**-5.0 / np.expm1(c2 / (w * temperature))
    return spectrum / spectrum.mean()


def xyz(reflectance):
    weights = observer(WAVELENGTHS) * daylight(WAVELENGTHS)
    return 100 * weights @ reflectance / weights[1].sum()


def lab(color, white):
    ratio = np.asarray(color) / white
    delta = 6 / 29
    f = np.where(ratio > delta**3, np.cbrt(ratio), ratio / (3 * delta**2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def ciede2000(lab1, lab2):
    (L1, a1, b1), (L2, a2, b2) = lab1, lab2
    C_mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    G = 0.5 * (1 - np.sqrt(C_mean**7 / (C_mean**7 + 25.0**7)))
    a1, a2 = (1 + G) * a1, (1 + G) * a2
    C1, C2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    dL, dC, dh = L2 - L1, C2 - C1, h2 - h1
    if abs(dh) > 180:
        dh -= 360 if dh > 0 else -360
    dH = 2 * np.sqrt(C1 * C2) * np.sin(np.radians(dh) / 2)
    L, C = (L1 + L2) / 2, (C1 + C2) / 2
    h = (h1 + h2) / 2 if abs(h1 - h2) <= 180 else (h1 + h2 + 360) / 2
    cosd = lambda x: np.cos(np.deg2rad(x))
    T = (
        1
        - 0.17 * cosd(h - 30)
        + 0.24 * cosd(2 * h)
        + 0.32 * cosd(3 * h + 6)
        - 0.2 * cosd(4 * h - 63)
    )
    SL = 1 + 0.015 * (L - 50) ** 2 / np.sqrt(20 + (L - 50) ** 2)
    SC, SH = 1 + 0.045 * C, 1 + 0.015 * C * T
    RC = 2 * np.sqrt(C**7 / (C**7 + 25.0**7))
    RT = -np.sin(np.deg2rad(60 * np.exp(-(((h - 275) / 25) ** 2)))) * RC
    return np.sqrt((dL / SL) ** 2 + (dC / SC) ** 2 + (dH / SH) ** 2 + RT * dC / SC * dH / SH)


def ink(centre, width, strength):
    return np.exp(-strength * np.exp(-(((WAVELENGTHS - centre) / width) ** 2)))


INKS = np.stack([ink(640, 80, 2.5), ink(540, 45, 2.2), ink(440, 50, 2.0)])


def neugebauer(coverage, n=1.8):
    """Eight primaries, weighted after Demichel, with the optical dot gain of Yule and Nielsen."""
    total = 0.0
    for pattern in np.ndindex(2, 2, 2):
        weight, reflectance = 1.0, np.ones(len(WAVELENGTHS))
        for c, on, spectrum in zip(coverage, pattern, INKS):
            weight *= c if on else 1 - c
            if on:
                reflectance = reflectance * spectrum
        total = total + weight * reflectance ** (1 / n)
    return total**n


TARGETS = np.array([[62.0, 25.0, -12.0], [55.0, -30.0, 22.0]])


def main(coverages, n):
    white = xyz(np.ones(len(WAVELENGTHS)))
    differences = [
        ciede2000(lab(xyz(neugebauer(coverage, n)), white), target)
        for coverage, target in zip(coverages, TARGETS)
    ]
    return np.mean(differences) + 0.1 * np.sum(coverages)


ARGUMENTS = (np.array([[0.15, 0.5, 0.1], [0.6, 0.1, 0.5]]), 1.7)


def check():
    # from the paper's table of test data
    pairs = [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ]
    for a, b, expected in pairs:
        assert abs(ciede2000(a, b) - expected) < 1e-4
    white = xyz(np.ones(len(WAVELENGTHS)))
    np.testing.assert_allclose(lab(white, white), [100, 0, 0], atol=1e-12)
