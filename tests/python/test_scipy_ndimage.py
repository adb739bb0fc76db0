"""Functions of `scipy.ndimage` under a gradient."""

import numpy as np
import pytest
from scipy import ndimage
from scipy_cases import check

import cotan as ct

RNG = np.random.default_rng(1)
X = RNG.normal(size=9)
W = np.array([0.2, 0.5, -0.3, 0.1])
IMAGE = RNG.normal(size=(5, 6))
KERNEL = RNG.normal(size=(3, 2))
MODES = ["reflect", "constant", "nearest", "mirror", "wrap"]
GRID_MODES = [*MODES, "grid-wrap", "grid-constant", "grid-mirror"]


@pytest.mark.parametrize("mode", MODES)
def test_correlation(mode):
    for name in ["correlate1d", "convolve1d"]:
        check(lambda x, w: getattr(ndimage, name)(x, w, mode=mode, cval=0.7), X, W, second=True)
        check(lambda x, w: getattr(ndimage, name)(x, w, axis=0, mode=mode, origin=1), IMAGE, W[:3])
    check(lambda x, w: ndimage.correlate(x, w, mode=mode, cval=0.7), IMAGE, KERNEL, second=True)
    check(lambda x, w: ndimage.convolve(x, w, mode=mode, origin=(1, 0)), IMAGE, KERNEL)


@pytest.mark.parametrize("mode", MODES)
def test_filters(mode):
    check(lambda x: ndimage.gaussian_filter(x, 0.8, mode=mode), IMAGE, second=True)
    check(lambda x: ndimage.gaussian_filter(x, (0.7, 1.1), order=(1, 0), mode=mode), IMAGE)
    check(lambda x: ndimage.gaussian_filter1d(x, 1.3, mode=mode), X)
    check(lambda x: ndimage.uniform_filter(x, 3, mode=mode), IMAGE)
    check(lambda x: ndimage.uniform_filter1d(x, 4, mode=mode, origin=-1), X)
    check(lambda x: ndimage.sobel(x, mode=mode), IMAGE)
    check(lambda x: ndimage.prewitt(x, 0, mode=mode), IMAGE)
    check(lambda x: ndimage.laplace(x, mode=mode), IMAGE)
    check(lambda x: ndimage.gaussian_laplace(x, 0.9, mode=mode), IMAGE)
    check(lambda x: ndimage.gaussian_gradient_magnitude(x, 0.9, mode=mode), IMAGE)
    check(lambda x: ndimage.maximum_filter1d(x, 3, mode=mode), X)
    check(lambda x: ndimage.minimum_filter1d(x, 4, mode=mode), X)


def test_the_width_of_a_gaussian():
    check(lambda x, s: ndimage.gaussian_filter1d(x, s), X, 1.3)
    check(lambda x, s: ndimage.gaussian_filter(x, s), IMAGE, 0.9)


def test_dtypes():
    check(lambda x: ndimage.gaussian_filter(x + 1j * x**2, 0.8), IMAGE)
    x = IMAGE.astype(np.float32)
    _, back = ct.pullback(lambda x: ndimage.gaussian_filter(x, 0.8), x)
    assert back(np.ones_like(x))[0].dtype == np.float32
    value, _ = ct.value_and_gradient(lambda x: np.sum(ndimage.gaussian_filter(x, 0.8)), x)
    np.testing.assert_allclose(value, ndimage.gaussian_filter(x, 0.8).sum(), rtol=1e-5)
    check(lambda x: ndimage.shift(x + 1j * x**2, 0.3), IMAGE)
    output = np.zeros((5, 6))
    with pytest.raises(TypeError, match="dropgrad"):
        ct.gradient(lambda x: np.sum(ndimage.gaussian_filter(x, 1, output=output)), IMAGE)
    check(lambda x: ndimage.gaussian_filter(x, 1, output=np.zeros((5, 6))), IMAGE)


AT = np.array([[0.3, 1.7, 3.6, -0.4, 4.6, -2.7, 6.3], [2.2, 0.1, 4.9, 5.3, -0.7, 3.3, 8.4]])


@pytest.mark.parametrize("mode", GRID_MODES)
@pytest.mark.parametrize("order", [0, 1, 2, 3, 5])
def test_map_coordinates(mode, order):
    def function(x, at):
        return ndimage.map_coordinates(x, at, order=order, mode=mode, cval=0.3)

    check(function, IMAGE, AT, second=order == 3)


@pytest.mark.filterwarnings("ignore:It is recommended")
@pytest.mark.parametrize("mode", GRID_MODES)
def test_transformations(mode):
    for order in (1, 3):
        check(lambda x: ndimage.shift(x, (0.3, -1.2), order=order, mode=mode), IMAGE)
        check(lambda x: ndimage.zoom(x, 1.7, order=order, mode=mode), IMAGE)
        check(lambda x: ndimage.rotate(x, 20, order=order, mode=mode), IMAGE)
        matrix = np.array([[0.9, 0.2], [-0.1, 1.1]])
        check(
            lambda x, m: ndimage.affine_transform(x, m, (0.23, -0.31), order=order, mode=mode),
            IMAGE,
            matrix,
        )
    check(lambda x: ndimage.zoom(x, 2, order=1, mode=mode, grid_mode=True), IMAGE)
    check(lambda x, s: ndimage.shift(x, s, mode=mode), IMAGE, np.array([0.3, -1.2]))


def test_other_transformations():
    check(lambda x: ndimage.affine_transform(x, np.array([0.9, 1.2]), 0.3), IMAGE)
    check(
        lambda x: ndimage.geometric_transform(x, lambda i: (i[0] * 0.9, i[1] + 0.1 * i[0])), IMAGE
    )
    check(lambda x: ndimage.spline_filter(x), IMAGE)
    check(lambda x: ndimage.center_of_mass(x**2), IMAGE)


@pytest.mark.parametrize("mode", GRID_MODES)
@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_coefficients_of_long_splines(mode, order):
    x, ct_ = RNG.normal(size=60), RNG.normal(size=60)
    matrix = ndimage.spline_filter1d(np.eye(60), order, axis=0, mode=mode)
    y, back = ct.pullback(lambda x: ndimage.spline_filter1d(x, order, mode=mode), x)
    np.testing.assert_allclose(y, matrix @ x, atol=1e-12)
    np.testing.assert_allclose(back(ct_)[0], matrix.T @ ct_, atol=1e-10)
