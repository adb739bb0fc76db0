"""Functions of SciPy that follow from others, against SciPy and difference quotients."""

import numpy as np
import pytest

import cotan as ct

linalg = pytest.importorskip("scipy.linalg")
interpolate = pytest.importorskip("scipy.interpolate")
spatial = pytest.importorskip("scipy.spatial")
stats = pytest.importorskip("scipy.stats")

X = np.array([0.9, 1.7, 0.4, 1.2, 0.6])
T = np.arange(5.0)


def made(x):
    return np.outer(x, T) + np.diag(x + 1)


PLACES = np.array([0.2, 1.3, 3.6])
SURFACE = interpolate.RectBivariateSpline(T, T / 2, made(X), s=0.5)
ROUGH = interpolate.bisplrep(*np.meshgrid(T, T, indexing="ij"), made(X), s=1.0)

CASES = {
    "cosm": lambda x: linalg.cosm(made(x) * 0.3),
    "sinm": lambda x: linalg.sinm(made(x) * 0.3),
    "tanm": lambda x: linalg.tanm(made(x) * 0.1),
    "coshm": lambda x: linalg.coshm(made(x) * 0.1),
    "sinhm": lambda x: linalg.sinhm(made(x) * 0.1),
    "tanhm": lambda x: linalg.tanhm(made(x) * 0.1),
    "fractional_matrix_power": lambda x: linalg.fractional_matrix_power(made(x), 0.3),
    "whole matrix power": lambda x: linalg.fractional_matrix_power(made(x), 2.0),
    "polar": lambda x: np.stack(linalg.polar(made(x))),
    "polar of equal singular values": lambda x: linalg.polar(np.eye(3) + np.outer(x[:3], x[:3]))[1],
    "polar, left": lambda x: linalg.polar(made(x)[:3], side="left")[1],
    "orthogonal_procrustes": lambda x: linalg.orthogonal_procrustes(made(x), made(x[::-1]))[0],
    "scale of procrustes": lambda x: linalg.orthogonal_procrustes(made(x), made(x[::-1]))[1],
    "companion": lambda x: linalg.companion(x),
    "fiedler_companion": lambda x: linalg.fiedler_companion(x),
    "leslie": lambda x: linalg.leslie(x, x[1:] / 2),
    "convolution_matrix": lambda x: linalg.convolution_matrix(x, 3, mode="same"),
    "solve_toeplitz": lambda x: linalg.solve_toeplitz((x + 5 * (T == 0), x[::-1]), x),
    "eigh_tridiagonal": lambda x: linalg.eigh_tridiagonal(x, x[1:] * 0.3)[1],
    "values of eigh_tridiagonal": lambda x: linalg.eigvalsh_tridiagonal(x, x[1:] * 0.3),
    "some of eigh_tridiagonal": lambda x: linalg.eigh_tridiagonal(
        x, x[1:] * 0.3, select="i", select_range=(1, 2)
    )[1],
    "in a range": lambda x: linalg.eigh_tridiagonal(
        x, x[1:] * 0.3, eigvals_only=True, select="v", select_range=(0.5, 1.5)
    ),
    "UnivariateSpline": lambda x: interpolate.UnivariateSpline(T, x, s=0)([0.3, 2.2, 3.9]),
    "of another degree": lambda x: interpolate.UnivariateSpline(T, x, s=0, k=2)([0.3, 2.2]),
    "InterpolatedUnivariateSpline": lambda x: interpolate.InterpolatedUnivariateSpline(T, x)(1.7),
    "at a point that moves": lambda x: interpolate.InterpolatedUnivariateSpline(T, X)(x),
    "through places that move": lambda x: interpolate.UnivariateSpline(T + 0.1 * x, x, s=0)(2.2),
    "its derivative": lambda x: interpolate.UnivariateSpline(T, x, s=0).derivative()(2.2),
    "splrep": lambda x: interpolate.splev(np.array([1.1, 3.2]), interpolate.splrep(T, x)),
    "its slope": lambda x: interpolate.splev(1.1, interpolate.splrep(T, x), der=1),
    "RectBivariateSpline": lambda x: interpolate.RectBivariateSpline(T, T, made(x))(PLACES, 1.3),
    "over a rectangle": lambda x: interpolate.RectBivariateSpline(T, T, made(x)).integral(
        x[0], 2.5, 0.3 * x[1], 99.0
    ),
    "of other degrees": lambda x: interpolate.RectBivariateSpline(T, T, made(x), kx=1, ky=2).ev(
        PLACES, PLACES[::-1]
    ),
    "over places that move": lambda x: interpolate.RectBivariateSpline(T + 0.1 * x, T, made(X))(
        PLACES, PLACES
    ),
    "a surface at points that move": lambda x: SURFACE(x, x[::-1], grid=False),
    "on a grid that moves": lambda x: SURFACE(np.sort(x), T / 2 + x[0]),
    "its slopes": lambda x: SURFACE.ev(x, x[::-1], dx=1, dy=1),
    "at one point": lambda x: SURFACE(x[0], x[1])[0, 0],
    "beyond its ends": lambda x: SURFACE(x - 2.0, x[::-1] + 2.0, grid=False),
    "bisplev": lambda x: interpolate.bisplev(np.sort(x), x[2], ROUGH, dy=1),
    "bisplev at one point": lambda x: interpolate.bisplev(x[1], x[2], ROUGH),
    "tree of points that move": lambda x: spatial.KDTree(np.outer(x, T)).query(x, k=2)[0],
    "compiled tree": lambda x: spatial.cKDTree(np.outer(x, T)).query([[0.1] * 5, [2.0] * 5])[0],
    "asked about points that move": lambda x: spatial.cKDTree(made(X)).query(made(x) + 0.1)[0],
    "neighbours in a tree": lambda x: x[spatial.cKDTree(made(x)).query_ball_point(x, 4.0)],
    "pearsonr": lambda x: np.stack([*stats.pearsonr(x, T)]),
    "one side of pearsonr": lambda x: stats.pearsonr(x, T, alternative="greater").pvalue,
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    f = CASES[name]
    shape = np.shape(f(X))
    weights = np.cos(1.0 + np.arange(np.prod(shape, dtype=int))).reshape(shape)
    loss = lambda x: np.sum(np.real(f(x)) * weights)
    seen = []

    def g(x):
        y = f(x)
        seen.append(y)
        return np.sum(np.real(y) * weights)

    value, (gradient,) = ct.value_and_gradient(g, X)
    assert value == pytest.approx(loss(X), rel=1e-9)
    assert np.shape(seen[0]) == shape
    h = 1e-6
    slopes = [(loss(X + step) - loss(X - step)) / (2 * h) for step in h * np.eye(5)]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("f", "remedy"),
    [
        (lambda x: linalg.schur(made(x)), r"eigh"),
        (lambda x: linalg.hessenberg(made(x)), r"eigh"),
        (lambda x: linalg.ldl(made(x)), "cholesky"),
        (lambda x: linalg.eig_banded(np.vstack([x, x]), lower=True), r"np\.linalg\.eigh"),
        (lambda x: interpolate.UnivariateSpline(T, x), "s=0"),
        (lambda x: interpolate.splrep(T, x, s=1.0), "s=0"),
        (lambda x: interpolate.RectBivariateSpline(T, T, made(x), s=1.0), "s=0"),
        (lambda x: interpolate.SmoothBivariateSpline(x, T, T), "RegularGridInterpolator"),
        (lambda x: spatial.ConvexHull(made(x)[:, :2]), "points themselves"),
        (lambda x: spatial.Delaunay(made(x)[:, :2]), "points themselves"),
    ],
)
def test_refusals_name_a_remedy(f, remedy):
    with pytest.raises(TypeError, match=remedy):
        ct.gradient(lambda x: np.sum(f(x)), X)


def test_compiled_code_is_never_given_an_array_without_memory():
    """The code of `ConvexHull` takes what it makes for memory, and refuses what has none."""
    for make in (spatial.ConvexHull, spatial.Delaunay):
        with pytest.raises(TypeError):
            ct.gradient(lambda x, make=make: np.sum(np.asarray(make(made(x)[:, :2]).points)), X)
