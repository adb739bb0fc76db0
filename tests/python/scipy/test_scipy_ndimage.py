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
    check(lambda x, w: ndimage.correlate(x, w, mode=mode), IMAGE, KERNEL[:1], second=True)
    check(lambda x, w: ndimage.correlate(x, w, mode=mode), IMAGE[:3], KERNEL[:, :1])


def test_correlation_in_other_dtypes():
    single = lambda x: x.astype(np.float32)
    for output in (None, np.float32, np.float64):
        check(lambda x: ndimage.correlate(single(x), KERNEL, output), IMAGE, rtol=0.02, atol=0.02,
              step=1e-2, value_rtol=1e-6)  # fmt: skip
    check(lambda x, w: ndimage.correlate(x, w), IMAGE, KERNEL * 1j + 1)
    check(lambda x: ndimage.convolve(x, KERNEL[None]), IMAGE[None] * 1j + 1)


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


FOOTPRINT = np.array([[1, 0, 1], [0, 1, 1]], bool)
LABELS = np.array([[0, 1, 1, 2, 2, 0], [1, 1, 3, 2, 0, 0]] * 2 + [[3, 3, 0, 0, 1, 2]])


@pytest.mark.parametrize("mode", MODES)
def test_ranks(mode):
    for name in ("maximum_filter", "minimum_filter", "median_filter"):
        for options in ({"size": 3}, {"size": (1, 2), "origin": (0, -1)}, {"footprint": FOOTPRINT}):
            check(lambda x: getattr(ndimage, name)(x, mode=mode, cval=0.3, **options), IMAGE)
        check(lambda x: getattr(ndimage, name)(x, 3, mode=mode), X)
    check(lambda x: ndimage.rank_filter(x, 1, 4, mode=mode, origin=1), X)
    check(lambda x: ndimage.percentile_filter(x, 30, (2, 3), mode=mode), IMAGE)
    check(lambda x: ndimage.generic_filter(x, lambda w: np.sum(w**2) - w[0], 3, mode=mode), IMAGE)


def test_morphology():
    for name in ("grey_closing", "grey_dilation", "grey_erosion", "grey_opening", "white_tophat",
                 "black_tophat", "morphological_gradient", "morphological_laplace"):  # fmt: skip
        check(lambda x: getattr(ndimage, name)(x, size=3), IMAGE)
        check(lambda x: getattr(ndimage, name)(x, structure=KERNEL, footprint=KERNEL > -2), IMAGE)
    check(lambda x: np.where(ndimage.binary_dilation(x > 0.6), x, 0.0), IMAGE)
    check(lambda x: ndimage.distance_transform_edt(x > 0.3) * x, IMAGE)


def test_regions():
    for name in ("maximum", "minimum", "median", "mean", "variance", "standard_deviation"):
        function = getattr(ndimage, name)
        assert function(IMAGE, LABELS, [1, 2]).shape == (2,)
        for rest in ((), (LABELS,), (LABELS, 2), (LABELS, [3, 1]), (LABELS, np.array([[1], [3]]))):
            check(lambda x: getattr(ndimage, name)(x, *rest), IMAGE)
    check(lambda x: ndimage.maximum(x, LABELS, [1, 9]), IMAGE)
    check(lambda x: x[ndimage.maximum_position(x)], IMAGE)

    def largest(x):
        labels, count = ndimage.label(x > 0.1)
        return np.stack([np.sum(x[labels == k + 1]) for k in range(count)])

    check(largest, IMAGE)
    (slope,) = ct.gradient(lambda x: ndimage.standard_deviation(x, LABELS, 2), np.ones((5, 6)))
    np.testing.assert_array_equal(slope, np.zeros((5, 6)))


def test_output_of_constants():
    """What compiled code writes to an array that was made here gets there."""

    def f(x):
        out, mask = np.zeros((5, 6)), np.zeros((5, 6), bool)
        labels, distances = np.zeros((5, 6), np.int32), np.zeros((5, 6))
        assert ndimage.median_filter(IMAGE, 3, output=out) is out
        ndimage.binary_dilation(x > 0.6, output=mask)
        ndimage.label(x > 0.1, output=labels)
        ndimage.distance_transform_edt(x > 0.1, distances=distances)
        own = np.empty((5, 6))
        ndimage.median_filter(x, 3, output=own)
        ndimage.generic_filter1d(IMAGE, lambda line, to: np.copyto(to, line[1:-1]), 3, output=out)
        return x * out + mask * x + labels * x + distances * x + own

    check(f, IMAGE)
    check(lambda x: ndimage.gaussian_gradient_magnitude(x, sigma=1.0, axes=1), IMAGE)
    for name in ("convolve", "correlate", "correlate1d"):
        assert ct.pullback(lambda x: getattr(ndimage, name)(x, [1.0, 1]), X[:0])[0].shape == (0,)


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


def test_images_of_whole_numbers_are_rounded_between_samples():
    where = np.array([[0.5, 1.5, 2.5, 3.5, 3.6, 0.2]])
    for image in (np.arange(-3, 3), np.arange(1, 7, dtype=np.uint8)):

        def f(c, image=image):
            return [
                ndimage.map_coordinates(image, c, order=1),
                ndimage.shift(image, c[0, 0], order=1),
                ndimage.map_coordinates(image * 1.0, c, order=1, output=np.int64),
            ]

        found = ct.pullback(f, where)[0]
        for x, y in zip(found, f(where), strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("output", [None, float, np.float32, np.int32])
def test_magnitudes_are_computed_in_the_dtype_of_the_result(output):
    image = np.array([[300, 200, 500, 100], [500, 800, 300, 700], [500, 600, 900, 300]])
    for x in (image, image.astype(float), image.astype(np.float32)):
        for f in (
            lambda x, s: ndimage.gaussian_gradient_magnitude(x, s, output=output),
            lambda x, s: ndimage.generic_gradient_magnitude(x, ndimage.sobel, output=output) * s,
        ):
            y, _ = ct.pullback(f, x, 1.3, allow_int=True)
            expected = f(x, 1.3)
            assert y.dtype == expected.dtype
            np.testing.assert_allclose(y, expected, 1e-5)


def test_functions_that_capture_active_arrays():
    image = np.arange(12.0).reshape(3, 4)
    cases = [
        lambda k: ndimage.generic_filter(image, lambda w: k * np.sum(w**k), size=3),
        lambda k: ndimage.generic_filter(image, function=lambda w: np.max(w) ** k, size=(1, 2)),
        lambda k: ndimage.geometric_transform(image, lambda c: (c[0] * k, c[1] + k), order=2),
    ]
    for case in cases:
        value, (slope,) = ct.value_and_gradient(lambda k: np.sum(case(k)), 0.7)
        assert value == pytest.approx(np.sum(case(0.7)), rel=1e-12)
        ends = [np.sum(case(0.7 + h)) for h in (1e-6, -1e-6)]
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)
    fixed = ct.value_and_gradient(lambda k: k + np.sum(cases[0](2.0)), 1.0)
    assert fixed == (1.0 + np.sum(cases[0](2.0)), (1.0,))


def test_functions_of_labelled_parts():
    labels = np.array([1, 1, 2, 2, 2, 0, 3, 3, 3])
    for f in (np.mean, lambda part: part[0] * part[-1]):
        check(lambda x, f=f: ndimage.labeled_comprehension(x, labels, [1, 2, 3], f, float, 0.0), X)


def test_distances_have_a_derivative_by_the_spacing():
    image = np.array([[0, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1]])
    edt, bf = ndimage.distance_transform_edt, ndimage.distance_transform_bf
    check(lambda s: edt(image, sampling=s), np.array([0.6, 1.3]))
    check(
        lambda s: edt(image, sampling=[s[0], 2 * s[1]], return_indices=True)[0], np.array([0.6, 1])
    )
    check(lambda s: edt(image, s), 0.7)
    check(lambda s: bf(image, sampling=s), np.array([0.6, 1.3]))
    check(lambda s: bf(image, "taxicab", sampling=s) * s[0], np.array([0.6, 1.3]))
    check(lambda s: edt(image > s[0]) * s[1], np.array([0.6, 1.3]))
    assert np.array_equal(ct.pullback(lambda s: bf(0 * image + 1, sampling=s), 2.0)[0],
                          bf(0 * image + 1, sampling=2.0))  # fmt: skip
    with pytest.raises(ct.NotDifferentiableError, match="distances="):
        ct.gradient(lambda s: edt(image, s, distances=np.zeros(image.shape)), 1.0)
    g = ct.prepare(lambda s: np.sum(edt(image, s)), np.array([0.6, 1.3]))
    for s in np.array([[0.6, 1.3], [1.3, 0.6]]):
        np.testing.assert_allclose(g(s)[0], ct.gradient(lambda s: np.sum(edt(image, s)), s)[0])
