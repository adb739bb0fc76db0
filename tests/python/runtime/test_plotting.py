"""Programs that draw what they compute, by matplotlib, inside of what is differentiated."""

import io

import numpy as np
import pytest

import cotan as ct

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

X = np.array([1.0, 2.0, 3.0])
T = np.linspace(0.1, 1.0, 64) ** 2


@pytest.mark.parametrize(
    "draw",
    [
        lambda axes, t, x: axes.plot(t, t * x[1], label=f"{x[0]:.2f}"),
        lambda axes, t, x: axes.plot([x[0], x[1]], [1.0, x[2]], "o"),
        lambda axes, t, x: axes.axhline(x[0]),
        lambda axes, t, x: axes.set_xlim(0, x[0]),
        lambda axes, t, x: axes.text(x[0], x[1], "here"),
        lambda axes, t, x: axes.scatter(t, t * x[1], c=t),
        lambda axes, t, x: axes.fill_between(t, t * x[1], 0),
        lambda axes, t, x: axes.errorbar(t, t, yerr=0.1 * t),
        lambda axes, t, x: axes.errorbar(t, np.ma.masked_less(t, 0.5), yerr=np.ma.array(0.1 * t)),
        lambda axes, t, x: axes.quiver(x[0], x[1], 0.1, 0.2),
        lambda axes, t, x: axes.arrow(0, x[0], x[1], x[2], head_length=0.1 * x[0]),
        lambda axes, t, x: axes.imshow(np.outer(t, t), vmin=0, vmax=x[0], extent=[0, x[0], 0, 1]),
        lambda axes, t, x: axes.contourf(t, t, np.outer(t, t), 8),
        lambda axes, t, x: axes.pcolormesh(np.outer(t, t)),
        lambda axes, t, x: axes.add_patch(plt.Circle((x[0], x[1]), x[2])),
    ],
)
def test_what_is_drawn_has_no_gradient(draw):
    def f(x):
        t = np.linspace(0, 1, 5) * x[0]
        figure, axes = plt.subplots()
        draw(axes, t, x)
        figure.savefig(io.BytesIO())
        plt.close(figure)
        return np.sum(t**2) * x[1]

    (g,) = ct.gradient(f, X)
    np.testing.assert_allclose(g, [2 * 1.875 * 2.0, 1.875, 0.0])


def test_what_is_computed_on_the_way_is_refused():
    def f(x):
        power, _ = plt.psd(x, NFFT=4)
        return np.sum(power)

    with ct.lifting(False), pytest.raises(TypeError, match="would drop the gradient"):
        ct.gradient(f, np.arange(8.0))
    with pytest.raises(TypeError, match="would drop the gradient"):
        ct.gradient(lambda x: np.sum(plt.xcorr(x, x)[1]), np.arange(8.0))
    with pytest.raises(TypeError, match=r"matplotlib's hist .* draw ct.dropgrad\(x\)"):
        ct.gradient(lambda x: np.sum(plt.hist(x)[0]) * x[0], np.arange(8.0))
    assert ct.gradient(lambda x: plt.hist(ct.dropgrad(x))[0][0] * x[0], X)[0].tolist() == [1, 0, 0]


@pytest.mark.parametrize("name", ["hist", "psd", "boxplot", "acorr", "specgram"])
def test_what_is_computed_and_left_alone_is_drawn(name):
    def f(x):
        figure, (left, right) = plt.subplots(1, 2)
        for axes in left, right:
            getattr(axes, name)(x * 2.0)
        getattr(plt, name)(x)
        plt.close(figure)
        return np.sum(x**2)

    x = np.arange(1.0, 513.0)
    np.testing.assert_allclose(ct.gradient(f, x)[0], 2 * x)


@pytest.mark.parametrize(
    "compute",
    [
        lambda lab, x: lab.psd(x, NFFT=16, noverlap=4, detrend="linear")[0],
        lambda lab, x: abs(lab.csd(x, x[::-1], NFFT=16)[0]),
        lambda lab, x: lab.specgram(x, NFFT=16, noverlap=8)[0],
        lambda lab, x: lab.cohere(x, T**2, NFFT=16)[0],
        lambda lab, x: lab.magnitude_spectrum(x)[0],
        lambda lab, x: lab.detrend_linear(x),
        lambda lab, x: lab.window_hanning(x),
    ],
)
def test_spectra_are_active(compute):
    from matplotlib import mlab

    def loss(rate):
        found = compute(mlab, np.sin(T * rate))
        return np.sum(found * np.cos(np.arange(found.size)).reshape(found.shape))

    value, (slope,) = ct.value_and_gradient(loss, 20.0)
    np.testing.assert_allclose(value, loss(20.0))
    np.testing.assert_allclose(slope, (loss(20.00001) - loss(19.99999)) / 2e-5, rtol=1e-5)


def test_what_matplotlib_computes_for_a_program_is_refused():
    from matplotlib import tri

    def between(x):
        mesh = tri.Triangulation([0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0])
        return np.sum(tri.LinearTriInterpolator(mesh, x)(0.2, 0.3))

    with pytest.raises(TypeError, match="would drop the gradient"):
        ct.gradient(between, np.arange(4.0))


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: plt.psd(x, NFFT=16, noverlap=4)[0],
        lambda x: abs(plt.csd(x, x[::-1], NFFT=16)[0]),
        lambda x: plt.cohere(x, T**2, NFFT=16)[0],
        lambda x: plt.specgram(x, NFFT=16, noverlap=8)[0],
        lambda x: plt.magnitude_spectrum(x)[0],
        lambda x: plt.angle_spectrum(x)[0],
        lambda x: plt.phase_spectrum(x)[0],
    ],
)
def test_spectra_that_are_drawn_are_active(draw):
    def loss(rate):
        found = draw(np.sin(T * rate))
        plt.close("all")
        return np.sum(found * np.cos(np.arange(found.size)).reshape(found.shape))

    value, (slope,) = ct.value_and_gradient(loss, 20.0)
    np.testing.assert_allclose(value, loss(20.0))
    np.testing.assert_allclose(slope, (loss(20.00001) - loss(19.99999)) / 2e-5, rtol=1e-5)


def test_prepared_functions_that_could_draw():
    def f(x, show=False):
        y = x * np.exp(-x)
        if show:
            plt.plot([0, 1], [y, y])
        return y

    g = ct.prepare(f, 0.3, transform="value_and_gradient")
    assert g(0.5) == ct.value_and_gradient(f, 0.5)
    assert g.num_recordings == 1
