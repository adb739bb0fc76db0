"""Signals: Haar and Daubechies transforms by lifting, thresholds, and a Morlet scalogram."""

import numpy as np

SQRT3 = np.sqrt(3)


def haar(x):
    x = np.asarray(x, dtype=np.float64)
    out = []
    while len(x) > 1:
        if len(x) % 2:
            x = np.append(x, x[-1])
        s = (x[0::2] + x[1::2]) / np.sqrt(2)
        d = (x[0::2] - x[1::2]) / np.sqrt(2)
        out.insert(0, d)
        x = s
    out.insert(0, x)
    return out


def ihaar(coeffs):
    x = coeffs[0]
    for d in coeffs[1:]:
        y = np.empty(2 * len(x), dtype=x.dtype)
        y[::2] = (x + d) / np.sqrt(2)
        y[1::2] = (x - d) / np.sqrt(2)
        x = y
    return x


def d4(s):
    s = s.copy()
    n = len(s) // 2
    s[:n], s[n:] = s[::2].copy(), s[1::2].copy()
    a, d = s[:n], s[n:]
    a += SQRT3 * d
    d -= SQRT3 / 4 * a + (SQRT3 - 2) / 4 * np.roll(a, 1)
    a -= np.roll(d, -1)
    a *= (SQRT3 - 1) / np.sqrt(2)
    d *= (SQRT3 + 1) / np.sqrt(2)
    return s


def soft(x, t):
    return np.sign(x) * np.maximum(np.abs(x) - t, 0)


def morlet(x, scales, w0=5.0):
    n = len(x)
    xf = np.fft.fft(x)
    omega = 2 * np.pi * np.fft.fftfreq(n)
    W = np.empty((len(scales), n), dtype=complex)
    for i, s in enumerate(scales):
        psi = np.pi**-0.25 * np.exp(-0.5 * (s * omega - w0) ** 2) * (omega > 0) * np.sqrt(s)
        W[i] = np.fft.ifft(xf * psi.conj())
    return W


def main(freq, threshold, scale):
    t = np.linspace(0, 1, 32)
    x = np.sin(2 * np.pi * freq * t) + 0.3 * np.sign(t - 0.45)
    c = haar(x)
    c = [c[0]] + [soft(d, threshold) for d in c[1:]]
    y = ihaar(c)
    z = d4(x)
    P = np.abs(morlet(x, scale * 2 ** np.arange(0, 3, 0.5))) ** 2
    ridge = P.argmax(axis=0)
    return (
        np.sum((y - x) ** 2)
        + z[:16].std()
        + P[ridge, np.arange(32)].mean()
        + np.count_nonzero(np.abs(z) > 0.5)
    )


ARGUMENTS = (3.3, 0.21, 2.0)


def check():
    x = np.arange(8.0)
    assert np.allclose(ihaar(haar(x)), x)
