"""NumPy's Fourier transforms on `Array`s, each against NumPy on ndarrays."""

import numpy as np
import pytest
from numpy_cases import check, flattened

CASES = {
    "fft.fft": [
        lambda v: np.fft.fft(v),
        lambda z: np.fft.fft(z, 4, norm="ortho"),
        lambda m: np.fft.fft(m, axis=0),
        lambda v: np.fft.fft(v, 9, norm="forward"),
    ],
    "fft.ifft": [lambda z: np.fft.ifft(z), lambda m: np.fft.ifft(m, 5, 0)],
    "fft.rfft": [lambda v: np.fft.rfft(v), lambda m: np.fft.rfft(m, 5, axis=0)],
    "fft.irfft": [
        lambda z: np.fft.irfft(z),
        lambda z: np.fft.irfft(z, 9),
        lambda y: np.fft.irfft(y),
    ],
    "fft.hfft": [lambda z: np.fft.hfft(z), lambda y: np.fft.hfft(y, 5)],
    "fft.ihfft": [lambda v: np.fft.ihfft(v), lambda m: np.fft.ihfft(m, 5, norm="ortho")],
    "fft.fft2": [lambda m: np.fft.fft2(m), lambda t: np.fft.fft2(t, (2, 5))],
    "fft.ifft2": [lambda y: np.fft.ifft2(y)],
    "fft.rfft2": [lambda m: np.fft.rfft2(m), lambda t: np.fft.rfft2(t, axes=(0, 1))],
    "fft.irfft2": [lambda y: np.fft.irfft2(y), lambda y: np.fft.irfft2(y, (3, 5))],
    "fft.fftn": [lambda t: np.fft.fftn(t), lambda y: np.fft.fftn(y, axes=(1,))],
    "fft.ifftn": [lambda y: np.fft.ifftn(y, norm="forward")],
    "fft.rfftn": [lambda t: np.fft.rfftn(t), lambda t: np.fft.rfftn(t, (2, 2), (1, 2))],
    "fft.irfftn": [lambda y: np.fft.irfftn(y), lambda t: np.fft.irfftn(t * 1j)],
}


@pytest.mark.parametrize("case", flattened(CASES))
def test_function(case):
    check(case)
