"""Functions of `scipy.signal` under a gradient."""

import numpy as np
import pytest
from scipy import ndimage, signal
from scipy_cases import check

import cotan as ct

RNG = np.random.default_rng(1)
X = RNG.normal(size=9)
H = RNG.normal(size=4)
IMAGE = RNG.normal(size=(5, 6))
KERNEL = RNG.normal(size=(3, 2))
B, A = np.array([0.3, 0.2, 0.1]), np.array([1.3, -0.4, 0.2, 0.05])
LONG = RNG.normal(size=40)
SOS = signal.butter(4, 0.3, output="sos")
BA = signal.butter(3, 0.3)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("method", ["direct", "fft", "auto"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_convolution(name, mode, method):
    function = getattr(signal, name)
    check(lambda x, h: getattr(signal, name)(x, h, mode, method), X, H, second=method == "direct")
    check(lambda x, h: getattr(signal, name)(x, h, mode, method), H, X)
    check(lambda x, h: getattr(signal, name)(x, h, mode, method), IMAGE, KERNEL)
    check(lambda x, h: getattr(signal, name)(x, h, mode, method), X + 1j * X[::-1], H * 1j + 1)
    del function


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_convolution_of_images(name, mode, boundary):
    check(lambda x, h: getattr(signal, name)(x, h, mode, boundary), IMAGE, KERNEL)
    check(lambda x, h: getattr(signal, name)(x, h, mode, boundary, 0.5), IMAGE, KERNEL[:, :1])
    if mode != "same":
        check(lambda x, h: getattr(signal, name)(x, h, mode, boundary), KERNEL, IMAGE)


@pytest.mark.parametrize("name", ["fftconvolve", "oaconvolve"])
def test_convolution_along_axes(name):
    for mode in ["full", "same", "valid"]:
        function = lambda x, h, **k: getattr(signal, name)(x, h, mode, **k)
        check(lambda x, h: function(x, h), X, H, second=True)
        check(lambda x, h: function(x, h, axes=1), IMAGE, KERNEL[:1])
        check(lambda x, h: function(x, h), IMAGE, KERNEL)


def test_lfilter():
    check(lambda b, a, x: signal.lfilter(b, a, x), B, A, X, second=True)
    check(lambda b, a, x: signal.lfilter(b, a, x, axis=0), B, A, IMAGE)
    check(lambda b, a, x: signal.lfilter(b, a, x), B, A, X * 1j + X[::-1])
    check(lambda b, x: signal.lfilter(b, 1.0, x), B, X)
    check(lambda x: signal.lfilter([0.1], [1, -0.9], x), LONG)
    zi = np.array([0.3, -0.2, 0.5])
    check(lambda b, a, x, zi: signal.lfilter(b, a, x, zi=zi), B, A, X, zi, second=True)
    check(lambda b, a, x, zi: signal.lfilter(b, a, x, zi=zi), B, A, X[:2], zi)
    check(lambda x: signal.lfilter(B, A, x.astype(np.float32)), X, rtol=1e-2, atol=1e-2)
    states = RNG.normal(size=(3, 6))
    check(lambda x, zi: signal.lfilter(B, A, x, axis=0, zi=zi), IMAGE, states)


def test_constant_filters_with_states():
    zi = np.array([0.3, -0.2, 0.5])
    check(lambda x, zi: signal.lfilter(B, A, x, zi=zi), X, zi, second=True)
    check(lambda x, zi: signal.lfilter(B, A, x, zi=zi), X[:2], zi)
    check(lambda x, zi: signal.lfilter(B, [2.0], x, zi=zi), X, zi[:2])
    check(lambda x, zi: signal.lfilter(B * 1j, A * (1 + 0.2j), x, zi=zi), X * 1j + 1, zi - 0.2j)
    check(lambda x, zi: signal.lfilter(B, A, x, 0, zi), IMAGE, RNG.normal(size=(3, 6)))
    check(lambda x, zi: signal.sosfilt(SOS, x, zi=zi), X, RNG.normal(size=(2, 2)), second=True)
    check(lambda x, zi: signal.sosfilt(SOS, x, 0, zi), IMAGE, RNG.normal(size=(2, 2, 6)))
    with pytest.raises(ValueError, match="zi has shape"):
        ct.gradient(lambda x: np.sum(signal.sosfilt(SOS, x, zi=np.zeros((2, 1)))[0]), X)


def test_a_filter_that_cannot_be():
    with pytest.raises(ValueError, match="zi has shape"):
        ct.gradient(lambda x: np.sum(signal.lfilter(B, A, x, zi=np.zeros(1))[0]), X)
    with pytest.raises(ValueError, match="first coefficient"):
        ct.gradient(lambda x: np.sum(signal.lfilter(B, [0, 1], x)), X)


def test_sections():
    check(lambda x: signal.sosfilt(SOS, x), X, second=True)
    free = np.delete(SOS, 3, axis=1)
    check(lambda s, x: signal.sosfilt(np.insert(s, 3, 1.0, axis=1), x), free, X)
    with pytest.raises(ValueError, match="all ones"):
        ct.gradient(lambda s: np.sum(signal.sosfilt(2 * s, X)), SOS)
    zi = signal.sosfilt_zi(SOS)
    check(lambda x, zi: signal.sosfilt(SOS, x, zi=zi), X, zi)
    check(lambda x: signal.sosfiltfilt(SOS, x, padlen=10), LONG)


def test_forward_and_backward():
    check(lambda x: signal.filtfilt(*BA, x), LONG, second=True)
    check(lambda x: signal.filtfilt(*BA, x, padtype="even", padlen=5), LONG)
    check(lambda x: signal.filtfilt(*BA, x, padtype=None), LONG)


def test_smoothing_and_trends():
    for mode in ["interp", "mirror", "nearest", "wrap", "constant"]:
        check(lambda x: signal.savgol_filter(x, 7, 3, mode=mode), LONG)
    check(lambda x: signal.savgol_filter(x, 5, 2, deriv=1, delta=0.5, axis=0), IMAGE)
    check(lambda x, d: signal.savgol_filter(x, 5, 2, deriv=1, delta=d), LONG, np.array(0.7))
    check(lambda d: signal.savgol_filter(LONG, 5, 2, 2, d, mode="nearest"), np.array(0.7))
    check(lambda x: signal.detrend(x), LONG, second=True)
    check(lambda x: signal.detrend(x, type="constant", axis=0), IMAGE)
    check(lambda x: signal.detrend(x, bp=[10, 20]), LONG)


def test_upfirdn():
    check(lambda h, x: signal.upfirdn(h, x, 3, 2), H, X)
    check(lambda h, x: signal.upfirdn(h, x, 1, 2, axis=0), H, IMAGE)
    check(lambda h, x: signal.upfirdn(h, x, 2, 3), H + 1j, IMAGE)
    for up, down in [(1, 1), (5, 1), (2, 7)]:
        check(lambda h, x: signal.upfirdn(h, x, up, down), H, X[:5], second=True)
        check(lambda h, x: signal.upfirdn(h, x, up, down), H[:1], X[:1])
    with pytest.raises(TypeError, match=r"np\.pad"):
        ct.gradient(lambda x: np.sum(signal.upfirdn(H, x, mode="wrap")), X)


def test_spectra():
    check(lambda x: signal.hilbert(x), LONG, second=True)
    check(lambda x: signal.envelope(x, (1, None))[0], LONG)
    check(lambda x: signal.resample(x, 23), LONG)
    check(lambda x: signal.resample_poly(x, 3, 2), LONG)
    check(lambda x: signal.decimate(x, 2), LONG)
    check(lambda x: signal.decimate(x, 3, ftype="fir"), LONG)
    check(lambda x: signal.periodogram(x)[1], LONG)
    check(lambda x: signal.welch(x, nperseg=16)[1], LONG)
    check(lambda x, y: signal.csd(x, y, nperseg=16)[2 - 1], LONG, LONG[::-1] + 0.3)
    check(lambda x: signal.stft(x, nperseg=8)[2], LONG)
    check(lambda x: signal.spectrogram(x, nperseg=16)[2], LONG)
    check(lambda x: signal.istft(signal.stft(x, nperseg=8)[2], nperseg=8)[1], LONG)
    check(lambda b: signal.freqz(b, worN=16)[1], B)
    check(lambda b, a: signal.freqz(b, a, worN=[0.1, 0.7])[1], B, A)
    transform = signal.ShortTimeFFT(signal.windows.hann(8), 4, 1.0)
    check(lambda x: transform.stft(x), LONG)
    check(lambda x: transform.spectrogram(x), LONG)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: signal.lfilter_zi([0.2 * x, 0.3], [1.0 + x, -0.5, 0.1 * x]) @ [1.0, 2.0],
        lambda x: signal.lfilter_zi([0.2, 0.3 * x, 0.1], [2.0, -0.5 * x, 0.0]) @ [1.0, 2.0],
        lambda x: np.sum(signal.sosfilt_zi(SECTIONS * np.array([x, x, x, 1, 1, 1])) ** 2),
        lambda x: np.sum(signal.savgol_filter(x * np.sin(np.arange(12.0)), 6, 2) ** 2),
        lambda x: np.sum(signal.savgol_filter(np.sin(x * np.arange(12.0)), 4, 3, deriv=1) ** 2),
    ],
)
def test_states_and_even_windows(f):
    value, (slope,) = ct.value_and_gradient(f, 0.8)
    assert value == pytest.approx(f(0.8), rel=1e-10)
    assert slope == pytest.approx((f(0.8 + 1e-6) - f(0.8 - 1e-6)) / 2e-6, rel=1e-6)
    second = ct.grad(ct.grad(f))(0.8)
    first = ct.grad(f)
    assert second == pytest.approx((first(0.8 + 1e-6) - first(0.8 - 1e-6)) / 2e-6, 1e-4, 1e-7)


SECTIONS = signal.butter(4, 0.3, output="sos")


WAVES = np.sin(0.4 * np.arange(40)) * np.linspace(1, 2, 40) + 0.2 * RNG.normal(size=40)


def test_peaks():
    def measured(x):
        peaks, found = signal.find_peaks(
            x, height=0.2, threshold=0.0, distance=3, prominence=0.1, width=0.2, rel_height=0.6
        )
        assert type(peaks) is np.ndarray
        assert peaks.size > 2
        return [found[name] for name in sorted(found) if not name.endswith("bases")]

    def widths(x):
        peaks, _ = signal.find_peaks(x, prominence=0.3)
        prominences = signal.peak_prominences(x, peaks)
        return [signal.peak_widths(x, peaks, 0.4), signal.peak_widths(x, peaks, 0.9, prominences)]

    check(lambda x: np.concatenate(measured(x)), WAVES)
    check(lambda x: np.stack([np.stack(w) for w in widths(x)]), WAVES)
    check(lambda x: x[signal.argrelextrema(x, np.greater)], WAVES)
    check(lambda x: x[signal.argrelmax(x, order=2)] + x[signal.find_peaks_cwt(x, [3])[0]], WAVES)


def test_ranks_and_waves():
    check(lambda x: signal.medfilt(x, 5), X)
    check(lambda x: signal.medfilt2d(x, (3, 5)), IMAGE)
    check(lambda x: signal.order_filter(x, np.ones((3, 3)), 2), IMAGE)
    for method in ("linear", "quadratic", "logarithmic", "hyperbolic"):
        check(lambda t, f, g: signal.chirp(t, f, 2.0, g, method), X, 1.3, 3.4)
    check(lambda t: signal.sawtooth(t, 0.3) + signal.square(t), X)
    check(lambda t, p: signal.sweep_poly(t, p), X, A)
    check(lambda t, f: signal.gausspulse(t, f), X, 2.0)


def test_states_and_quotients():
    check(lambda x, d: signal.deconvolve(x, d)[0], LONG, A)
    check(lambda x: signal.deconvolve(x, [2, 1])[1], X)
    check(lambda b, a, y: signal.lfiltic(b, a, y), B, A, X[:3])
    check(lambda x: signal.czt(x, 7, a=np.exp(0.3j)), X)
    check(lambda x: signal.zoom_fft(x, [0.1, 0.5], 5, axis=0), IMAGE)
    check(lambda w: np.abs(signal.czt(X, 7, np.exp(-1j * w), np.exp(0.3j * w))), 0.4)
    check(lambda x: np.abs(signal.CZT(X.size, 7, np.exp(-0.4j))(x)), X)
    check(lambda f: np.abs(signal.zoom_fft(X, f, 5)), np.array([0.1, 0.5]))


def test_peaks_of_every_height():
    options = {"height": -9.0, "threshold": 0.0, "prominence": 0.0, "width": 0.0}
    check(lambda x: x[signal.find_peaks(x)[0]], LONG)
    check(lambda x: list(signal.find_peaks(x, **options)[1].values()), LONG)
    check(lambda x: signal.peak_prominences(x, signal.find_peaks(x)[0])[0], LONG)
    check(lambda x: signal.peak_widths(x, signal.find_peaks(x)[0], 0.4), LONG)
    assert signal.find_peaks(LONG)[0].size > 5


def test_spectra_are_filtered():
    for name, width in (("gaussian", 1.5), ("uniform", 2), ("shift", (0.5, 1.2)), ("ellipsoid", 2)):
        own = f"fourier_{name}"
        check(lambda x: np.fft.ifft2(getattr(ndimage, own)(np.fft.fft2(x), width)), IMAGE)
        check(lambda x: getattr(ndimage, own)(np.fft.rfft2(x), width, 6), IMAGE)
    with pytest.raises(TypeError, match="second argument"):
        ct.gradient(lambda w: np.sum(ndimage.fourier_ellipsoid(IMAGE, w)), 1.5)


@pytest.mark.parametrize("name", ["gaussian", "shift", "uniform"])
@pytest.mark.parametrize("real", [{}, {"n": 6, "axis": 1}])
def test_filters_of_spectra_by_their_width(name, real):
    spectrum = (np.fft.rfft2 if real else np.fft.fft2)(np.resize(IMAGE, (5, 6)))
    phases = np.exp(1j * np.arange(spectrum.size).reshape(spectrum.shape))

    def weighted(width):
        y = getattr(ndimage, f"fourier_{name}")(spectrum, width, **real)
        return np.sum(np.real(y * phases))

    check(weighted, 1.3, second=True)
    check(weighted, np.array([0.7, 1.6]))
    for width in (-1.3, 0.0):
        np.testing.assert_allclose(ct.value_and_gradient(weighted, width)[0], weighted(width))
    prepared = ct.prepare(weighted, 1.3)
    np.testing.assert_allclose(prepared(1.7), ct.gradient(weighted, 1.7))


def test_leading_zeros_of_a_denominator():
    # Newer versions of SciPy refuse them.
    def state(x, a):
        return signal.lfilter_zi([0.2, 0.3 * x, 0.1], a) @ [1.0, 2.0]

    value, (slope,) = ct.value_and_gradient(lambda x: state(x, [0.0, 2.0, -0.5 * x]), 0.8)
    wanted, (its_slope,) = ct.value_and_gradient(lambda x: state(x, [2.0, -0.5 * x]), 0.8)
    assert (value, slope) == pytest.approx((wanted, its_slope), rel=1e-12)
    assert wanted == pytest.approx(state(0.8, [2.0, -0.4]), rel=1e-12)


@pytest.mark.skipif(not hasattr(signal, "whittaker_henderson"), reason="newer than this SciPy")
@pytest.mark.parametrize("order", [1, 2])
def test_smoothing_with_a_penalty(order):
    rng = np.random.default_rng(5)
    y, weights = np.arange(12) + rng.normal(size=12), rng.uniform(0.5, 1.5, size=12)

    def smooth(y, lamb, weights=None):
        return signal.whittaker_henderson(y, lamb=lamb, order=order, weights=weights).x

    check(smooth, y, 1.3)
    check(lambda y, w: smooth(y, 0.3, w), y, weights)
    # The polynomial that it tends to.
    check(lambda y: smooth(y, 1e18), y)


@pytest.mark.skipif(not hasattr(signal, "whittaker_henderson"), reason="newer than this SciPy")
def test_smoothing_with_the_penalty_that_is_likely():
    rng = np.random.default_rng(3)
    y = np.cumsum(rng.normal(size=20)) + 0.5 * rng.normal(size=20)
    check(lambda y: signal.whittaker_henderson(y, order=1).x, y, rtol=1e-3, atol=1e-4,
          value_rtol=1e-6, step=1e-3)  # fmt: skip


def test_correlations_of_complex_images_of_which_the_second_is_larger():
    rng = np.random.default_rng(2)
    a = rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))
    b = rng.normal(size=(4, 5)) + 1j * rng.normal(size=(4, 5))
    for mode in ("full", "same", "valid"):
        wanted = signal.correlate2d(a, b, mode)
        y, _ = ct.pullback(lambda a, mode=mode: signal.correlate2d(a, b, mode), a)
        np.testing.assert_allclose(y, wanted, 1e-12)


def test_filters_of_gains_and_splines_of_signals():
    gains = np.array([1.0, 0.8, 0.3, 0.2])
    check(lambda g: signal.firls(7, [0, 0.3, 0.5, 1], g), gains)
    check(lambda g: signal.firwin2(9, [0, 0.3, 0.5, 1], g), gains)
    rate = np.array([8.0])
    check(lambda fs: signal.firwin(9, 1.5, fs=fs[0]), rate)
    check(lambda fs: signal.gammatone(1.5, "iir", fs=fs[0]), rate)
    check(lambda q: signal.iircomb(0.2, q[0]), np.array([5.0]))
    taps = np.array([0.1, -0.3, 0.5, 2.0, 0.5, -0.3, 0.1])
    check(lambda h: signal.minimum_phase(h, "homomorphic"), taps)
    check(lambda x: signal.cspline1d(x), X)
    check(lambda x: signal.cspline1d(x, 1.0), X)
    check(lambda x: signal.qspline1d(x), X)
    check(lambda sos: signal.sos2zpk(sos)[2], SOS)


def test_a_number_for_a_window():
    check(lambda beta: signal.get_window(beta, 9), 4.0)
    check(lambda beta: signal.get_window(beta, 9, fftbins=False), 4.0)
