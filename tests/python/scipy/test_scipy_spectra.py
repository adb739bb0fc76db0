"""Spectra of `scipy.signal` under a gradient: all segments at once, values as SciPy's."""

import numpy as np
import pytest
from scipy import signal
from scipy_cases import check

import cotan as ct

RNG = np.random.default_rng(2)
X = RNG.normal(size=24)
ROWS = RNG.normal(size=(2, 12))
WINDOW = signal.windows.hann(7)


@pytest.mark.parametrize(
    "options",
    [
        {"nperseg": 16, "noverlap": 15},
        {"nperseg": 4, "noverlap": 1, "detrend": "linear"},
        {"nperseg": 8, "nfft": 11, "scaling": "spectrum", "average": "median"},
        {"nperseg": 8, "detrend": False, "return_onesided": False},
        {"nperseg": 8, "detrend": lambda rows: rows - rows.mean() ** 2},
    ],
)
def test_densities(options):
    check(lambda x: signal.welch(x, **options)[1], X)
    check(lambda x: signal.spectrogram(x, **options)[2], X) if "average" not in options else None
    check(lambda x, y: signal.csd(x, y, **options)[1], X, X[::-1] + 0.3)


def test_densities_along_axes():
    check(lambda x: signal.welch(x, nperseg=6)[1], ROWS, second=True)
    check(lambda x: signal.welch(x, nperseg=6, axis=0)[1], ROWS.T)
    check(lambda x: signal.coherence(x, X[:12], nperseg=4)[1], ROWS)
    rows = ct.vmap(lambda x: signal.welch(x, nperseg=4)[1])(ROWS)
    assert np.allclose(rows, signal.welch(ROWS, nperseg=4)[1])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fft_mode": "centered", "mfft": 9},
        {"fft_mode": "onesided2X", "scale_to": "psd", "mfft": 8},
        {"fft_mode": "twosided", "phase_shift": None},
        {"phase_shift": 2, "mfft": 12},
    ],
)
def test_kinds_of_transforms(options):
    transform = signal.ShortTimeFFT(WINDOW, 3, 2.0, **options)
    check(lambda x: transform.stft(x), X)
    check(lambda x: transform.spectrogram(x, padding="even"), ROWS)
    check(lambda x: transform.stft_detrend(x, "linear", axis=0), ROWS.T)
    check(lambda x, y: transform.spectrogram(x, y, "constant"), ROWS[0], ROWS[1])


@pytest.mark.parametrize("detrended", [None, "linear", lambda s: s - s[..., :1] ** 2])
@pytest.mark.parametrize("padding", ["zeros", "edge", "even", "odd"])
def test_edges_of_transforms(padding, detrended):
    transform = signal.ShortTimeFFT(WINDOW, 4, 1.0)
    where = {"p0": 1, "p1": 4, "k_offset": 3}
    check(lambda x: transform.stft_detrend(x, detrended, padding=padding), X[:15])
    check(lambda x: transform.stft_detrend(x, detrended, padding=padding, **where), X[:15])


def test_windows_of_transforms():
    turned = WINDOW + 1j * np.arange(7)
    transform = signal.ShortTimeFFT(turned, 2, 1.0, fft_mode="twosided")
    check(lambda x: transform.stft(x), X[:9])
    check(lambda x: transform.stft(x), X[:9] + 1j * X[9:18])
    long = signal.ShortTimeFFT(signal.windows.hann(70), 1, 1.0)
    assert np.allclose(*(f(long.stft)(np.tile(X, 2)) for f in (_derivative, _difference)))
    cube = np.reshape(X, (2, 2, 6))
    check(lambda x: transform.stft(x, axis=1), np.repeat(cube, 2, 1))


DIRECTION = np.cos(np.arange(48.0))


def _derivative(f):
    return lambda x: ct.jvp(f, (x,), (DIRECTION,))[1]


def _difference(f):
    return lambda x: (f(x + 1e-4 * DIRECTION) - f(x - 1e-4 * DIRECTION)) / 2e-4


def test_a_function_for_trends_is_called_once_for_each_segment():
    transform = signal.ShortTimeFFT(WINDOW, 3, 1.0)
    seen = []
    ct.gradient(
        lambda x: np.sum(np.abs(transform.stft_detrend(x, lambda s: seen.append(s.shape) or s))), X
    )
    assert seen == [(7,)] * transform.p_num(24)


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: t.stft(x[:2]),
        lambda t, x: t.stft(x + 0j),
        lambda t, x: t.stft(x, padding="none"),
        lambda t, x: t.stft(x, 9, 3),
        lambda t, x: t.stft_detrend(x, 3),
    ],
)
def test_errors_are_scipys(call):
    transform = signal.ShortTimeFFT(WINDOW, 3, 1.0)
    with pytest.raises(ValueError, match=".") as expected:
        call(transform, X)
    with pytest.raises(ValueError, match=".") as seen:
        ct.gradient(lambda x: np.sum(np.abs(call(transform, x))), X)
    assert str(seen.value) == str(expected.value)
