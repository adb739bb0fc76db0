"""Functions of NumPy and SciPy, as prepared functions call them, and arguments for these calls."""

import math

import numpy as np
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse.linalg
import scipy.spatial.distance
import scipy.special
import scipy.stats

X = np.array([0.3, 1.2, 0.7, 1.9, 0.5, 1.4])
Y = X[::-1] + 0.1
MATRIX = np.array([[3.0, 0.4, 0.2], [0.1, 2.5, 0.3], [0.2, 0.6, 2.0]])
POINTS = np.array([[0.1, 0.2], [1.1, 0.4], [0.5, 1.3], [1.7, 1.6], [0.8, 0.9], [0.2, 1.8]])
IMAGE = np.arange(20.0).reshape(4, 5) ** 1.3


def arguments():
    """Give arguments to record with, near those, in another order, and other ones."""
    rng = np.random.default_rng(7)
    near = X + 0.01 * rng.standard_normal(6)
    return [X, near, X[[3, 1, 0, 5, 4, 2]], 0.2 + 2.0 * rng.random(6)]


def mat(x):
    """Give a matrix that can be inverted."""
    return MATRIX + np.outer(x[:3], x[3:]) * 0.1


def sym(x):
    """Give a symmetric positive definite matrix."""
    return mat(x) @ mat(x).T + np.eye(3)


#: For each function a call of it, which gives a scalar.
CASES = {
    "numpy.digitize": lambda x: np.sum(x**2 * np.digitize(x, [0.4, 1.0, 1.5])),
    "numpy.digitize of computed edges": lambda x: np.sum(x**2 * np.digitize(Y, np.sort(x))),
    "numpy.searchsorted": lambda x: np.sum(x**2 * np.searchsorted([0.4, 1.0], x)),
    "numpy.unique": lambda x: np.sum(np.unique(x) ** 3),
    "numpy.unique with counts": lambda x: (
        np.sum(np.unique(np.round(x, 0), return_counts=True)[1] * 1.0) * x[0]
    ),
    "numpy.histogram": lambda x: np.sum(np.histogram(x, bins=3, weights=x**2)[0] ** 2),
    "numpy.bincount": lambda x: np.sum(np.bincount(np.array([0, 1, 1, 0, 2, 2]), weights=x) ** 2),
    "numpy.interp": lambda x: np.sum(np.interp(x, [0.0, 1.0, 2.0], [1.0, 3.0, 2.0]) ** 2),
    "numpy.percentile": lambda x: np.percentile(x, 30.0) ** 2,
    "numpy.median": lambda x: np.median(x) ** 2,
    "numpy.quantile": lambda x: np.quantile(x, 0.37) * x[1],
    "numpy.sort": lambda x: np.sum(np.sort(x) * np.arange(6.0)),
    "numpy.argsort": lambda x: np.sum(x[np.argsort(x)] * np.arange(6.0)),
    "numpy.partition": lambda x: np.partition(x, 2)[2] ** 2,
    "numpy.cov": lambda x: np.sum(np.cov(x, Y) ** 2),
    "numpy.corrcoef": lambda x: np.corrcoef(x, Y)[0, 1],
    "numpy.polyfit": lambda x: np.sum(np.polyfit(np.arange(6.0), x, 2) ** 2),
    "numpy.roots": lambda x: np.sum(np.abs(np.roots(x[:4])) ** 2),
    "numpy.linalg.solve": lambda x: np.sum(np.linalg.solve(mat(x), x[:3]) ** 2),
    "numpy.linalg.lstsq": lambda x: np.sum(np.linalg.lstsq(POINTS, x, rcond=None)[0] ** 2),
    "numpy.linalg.eigh": lambda x: np.linalg.eigh(sym(x))[0][0],
    "numpy.linalg.svd": lambda x: np.linalg.svd(mat(x), compute_uv=False)[1],
    "numpy.linalg.pinv": lambda x: np.sum(np.linalg.pinv(mat(x)) ** 2),
    "numpy.linalg.cond": lambda x: np.linalg.cond(mat(x)),
    "numpy.linalg.matrix_rank": lambda x: np.linalg.matrix_rank(mat(x)) * np.sum(x**2),
    "numpy.linalg.matrix_power": lambda x: np.sum(np.linalg.matrix_power(mat(x), 3)),
    "numpy.nanmean": lambda x: np.nanmean(np.where(x > 0.6, x, np.nan)) ** 2,
    "numpy.piecewise": lambda x: np.sum(
        np.piecewise(x, [x < 1.0, x >= 1.0], [lambda v: v**2, lambda v: 3 * v])
    ),
    "numpy.select": lambda x: np.sum(np.select([x < 0.6, x < 1.3], [x, x**2], x**3)),
    "numpy.convolve": lambda x: np.sum(np.convolve(x, Y) ** 2),
    "numpy.gradient": lambda x: np.sum(np.gradient(x, 0.1) ** 2),
    "numpy.trapezoid": lambda x: np.trapezoid(x**2, dx=0.2),
    "numpy.vectorize": lambda x: np.sum(np.vectorize(lambda v: v**2 if v > 1 else v)(x)),
    "numpy.arange": lambda x: np.sum(np.arange(0.0, x[0] * 10) * x[1]),
    "numpy.linspace": lambda x: np.sum(np.linspace(x[0], x[1], 5) ** 2),
    "numpy.extract": lambda x: np.sum(np.extract(x > 0.6, x) ** 2),
    "numpy.nonzero": lambda x: np.sum(x[np.nonzero(x > 0.6)] ** 2),
    "round": lambda x: round(x[0], 2) * np.sum(x**2),
    "numpy.round": lambda x: np.sum(np.round(x, 2) * x),
    "math.floor": lambda x: math.floor(x[1]) * np.sum(x**2),
    "scipy.integrate.solve_ivp": lambda x: scipy.integrate.solve_ivp(
        lambda t, y: -x[0] * y, (0.0, 1.0), x[1:3], rtol=1e-8
    ).y[0, -1],
    "scipy.integrate.odeint": lambda x: np.sum(
        scipy.integrate.odeint(lambda y, t: -x[0] * y, x[1:3], [0.0, 0.5, 1.0])
    ),
    "scipy.integrate.quad": lambda x: scipy.integrate.quad(lambda t: np.exp(-x[0] * t), 0.0, x[1])[
        0
    ],
    "scipy.integrate.simpson": lambda x: scipy.integrate.simpson(x**2, dx=0.3),
    "scipy.integrate.cumulative_trapezoid": lambda x: np.sum(
        scipy.integrate.cumulative_trapezoid(x) ** 2
    ),
    "scipy.optimize.brentq": lambda x: scipy.optimize.brentq(lambda t: t**3 + t - x[0], -1.0, 5.0),
    "scipy.optimize.root": lambda x: np.sum(
        scipy.optimize.root(lambda t: t**3 + t - x[:2], np.ones(2)).x ** 2
    ),
    "scipy.optimize.minimize": lambda x: np.sum(
        scipy.optimize.minimize(
            lambda t: np.sum((t - x[:2]) ** 2 + 0.1 * t**4), np.ones(2), tol=1e-12
        ).x
        ** 2
    ),
    "scipy.optimize.least_squares": lambda x: np.sum(
        scipy.optimize.least_squares(
            lambda t: t + 0.1 * t**3 - x[:2], np.ones(2), xtol=1e-14, gtol=1e-14, ftol=1e-14
        ).x
        ** 2
    ),
    "scipy.optimize.nnls": lambda x: np.sum(scipy.optimize.nnls(POINTS, x)[0] ** 2),
    "scipy.spatial.distance.squareform": lambda x: np.sum(
        scipy.spatial.distance.squareform(x) ** 2
    ),
    "scipy.spatial.distance.pdist": lambda x: np.sum(
        scipy.spatial.distance.pdist(x.reshape(3, 2)) ** 2
    ),
    "scipy.spatial.distance.cdist": lambda x: np.sum(
        scipy.spatial.distance.cdist(x.reshape(3, 2), POINTS)
    ),
    "scipy.signal.lfilter": lambda x: np.sum(
        scipy.signal.lfilter([1.0, x[0]], [1.0, 0.3 * x[1]], x) ** 2
    ),
    "scipy.signal.find_peaks": lambda x: np.sum(
        scipy.signal.find_peaks(x, height=0.1)[1]["peak_heights"] ** 2
    ),
    "scipy.signal.convolve": lambda x: np.sum(scipy.signal.convolve(x, Y) ** 2),
    "scipy.signal.savgol_filter": lambda x: np.sum(scipy.signal.savgol_filter(x, 5, 2) ** 2),
    "scipy.signal.butter": lambda x: np.sum(scipy.signal.butter(2, 0.2 + 0.1 * x[0])[0]),
    "scipy.signal.welch": lambda x: np.sum(scipy.signal.welch(x, nperseg=4)[1]),
    "scipy.signal.detrend": lambda x: np.sum(scipy.signal.detrend(x) ** 2),
    "scipy.signal.hilbert": lambda x: np.sum(np.abs(scipy.signal.hilbert(x)) ** 2 * Y),
    "scipy.stats.multivariate_normal": lambda x: scipy.stats.multivariate_normal(
        x[:3], sym(Y)
    ).logpdf(x[3:]),
    "scipy.stats.multivariate_normal.logpdf": lambda x: scipy.stats.multivariate_normal.logpdf(
        x[:3], x[3:], sym(x)
    ),
    "scipy.stats.norm.logpdf": lambda x: np.sum(scipy.stats.norm.logpdf(x, x[0], 1.0)),
    "scipy.stats.gamma.logpdf": lambda x: np.sum(scipy.stats.gamma.logpdf(x, x[0])),
    "scipy.stats.beta.cdf": lambda x: scipy.stats.beta.cdf(0.4, x[0], x[1]),
    "scipy.stats.pearsonr": lambda x: scipy.stats.pearsonr(x, Y)[0],
    "scipy.stats.spearmanr": lambda x: scipy.stats.spearmanr(x, Y)[0] * x[0],
    "scipy.stats.zscore": lambda x: np.sum(scipy.stats.zscore(x) ** 3),
    "scipy.stats.gaussian_kde": lambda x: np.sum(scipy.stats.gaussian_kde(x)(Y)),
    "scipy.stats.linregress": lambda x: scipy.stats.linregress(np.arange(6.0), x).slope ** 2,
    "scipy.stats.skew": lambda x: scipy.stats.skew(x),
    "scipy.stats.ttest_ind": lambda x: scipy.stats.ttest_ind(x, Y).statistic,
    "scipy.linalg.sqrtm": lambda x: np.sum(np.real(scipy.linalg.sqrtm(sym(x))) ** 3),
    "scipy.linalg.logm": lambda x: np.sum(np.real(scipy.linalg.logm(sym(x))) ** 3),
    "scipy.linalg.expm": lambda x: np.sum(scipy.linalg.expm(0.1 * mat(x)) ** 2),
    "scipy.linalg.lu_solve": lambda x: np.sum(
        scipy.linalg.lu_solve(scipy.linalg.lu_factor(mat(x)), x[:3]) ** 2
    ),
    "scipy.linalg.cho_solve": lambda x: np.sum(
        scipy.linalg.cho_solve(scipy.linalg.cho_factor(sym(x)), x[:3]) ** 2
    ),
    "scipy.linalg.solve": lambda x: np.sum(scipy.linalg.solve(mat(x), x[:3]) ** 2),
    "scipy.linalg.solve_continuous_are": lambda x: np.sum(
        scipy.linalg.solve_continuous_are(-mat(x), np.eye(3), sym(x), np.eye(3))
    ),
    "scipy.linalg.solve_sylvester": lambda x: np.sum(
        scipy.linalg.solve_sylvester(mat(x), sym(x), np.eye(3))
    ),
    "scipy.linalg.solve_toeplitz": lambda x: np.sum(
        scipy.linalg.solve_toeplitz(x[:3] + np.array([5.0, 0, 0]), x[3:]) ** 2
    ),
    "scipy.linalg.eigh": lambda x: scipy.linalg.eigh(sym(x), eigvals_only=True)[1],
    "scipy.interpolate.RBFInterpolator": lambda x: np.sum(
        scipy.interpolate.RBFInterpolator(POINTS, x)(np.array([[0.3, 0.4], [1.0, 1.0]])) ** 2
    ),
    "scipy.interpolate.CubicSpline": lambda x: np.sum(
        scipy.interpolate.CubicSpline(np.arange(6.0), x)(Y)
    ),
    "scipy.interpolate.interp1d": lambda x: np.sum(
        scipy.interpolate.interp1d(np.arange(6.0), x, kind="cubic")(Y)
    ),
    "scipy.interpolate.PchipInterpolator": lambda x: np.sum(
        scipy.interpolate.PchipInterpolator(np.arange(6.0), x)(Y)
    ),
    "scipy.interpolate.make_interp_spline": lambda x: np.sum(
        scipy.interpolate.make_interp_spline(np.arange(6.0), x)(Y)
    ),
    "scipy.interpolate.UnivariateSpline": lambda x: np.sum(
        scipy.interpolate.UnivariateSpline(np.arange(6.0), x, s=0)(Y)
    ),
    "scipy.interpolate.RegularGridInterpolator": lambda x: np.sum(
        scipy.interpolate.RegularGridInterpolator(
            (np.arange(2.0), np.arange(3.0)), x.reshape(2, 3)
        )([[0.4, 1.3]])
    ),
    "scipy.ndimage.map_coordinates": lambda x: np.sum(
        scipy.ndimage.map_coordinates(IMAGE, [x, x[::-1]], order=1)
    ),
    "scipy.ndimage.gaussian_filter": lambda x: np.sum(scipy.ndimage.gaussian_filter(x, 1.0) ** 2),
    "scipy.ndimage.median_filter": lambda x: np.sum(scipy.ndimage.median_filter(x, 3) ** 2),
    "scipy.ndimage.shift": lambda x: np.sum(scipy.ndimage.shift(x, 0.3) ** 2),
    "scipy.special.logsumexp": lambda x: scipy.special.logsumexp(x),
    "scipy.special.gammaln": lambda x: np.sum(scipy.special.gammaln(x)),
    "scipy.fft.dct": lambda x: np.sum(scipy.fft.dct(x) ** 2 * Y),
    "scipy.sparse.linalg.cg": lambda x: np.sum(
        scipy.sparse.linalg.cg(sym(x), x[:3], rtol=1e-12)[0] ** 2
    ),
    "scipy.sparse.linalg.gmres": lambda x: np.sum(
        scipy.sparse.linalg.gmres(mat(x), x[:3], rtol=1e-12)[0] ** 2
    ),
    "numpy.array of objects": lambda x: np.array([x[0], 2 * x[1]], dtype=object).sum() ** 2,
    "scipy.interpolate.RegularGridInterpolator made inside": lambda x: np.sum(
        scipy.interpolate.RegularGridInterpolator((np.arange(3.0), np.arange(3.0)), MATRIX)(
            np.minimum(x, 1.9).reshape(3, 2)
        )
    ),
    "scipy.interpolate.RegularGridInterpolator of a table": lambda x: np.sum(
        scipy.interpolate.RegularGridInterpolator((np.arange(3.0), np.arange(3.0)), mat(x))(
            np.minimum(x, 1.9).reshape(3, 2)
        )
    ),
    "scipy.interpolate.BSpline made inside": lambda x: np.sum(
        scipy.interpolate.BSpline(np.r_[[0.0] * 4, 0.9, 1.6, [3.0] * 4], X, 3)(x) * x
    ),
    "scipy.interpolate.CubicSpline made inside": lambda x: np.sum(
        scipy.interpolate.CubicSpline(np.linspace(0, 3, 6), X)(x) * x
    ),
    "scipy.interpolate.interp1d made inside": lambda x: np.sum(
        scipy.interpolate.interp1d(np.linspace(0, 3, 6), list(X))(x) * x
    ),
    "scipy.interpolate.BarycentricInterpolator": lambda x: (
        scipy.interpolate.BarycentricInterpolator(np.linspace(0, 3, 6), x)(1.3) * x[0]
    ),
    "scipy.interpolate.barycentric_interpolate": lambda x: (
        scipy.interpolate.barycentric_interpolate(np.linspace(0, 3, 6), x, x[0])
    ),
    "scipy.linalg.fractional_matrix_power": lambda x: np.sum(
        scipy.linalg.fractional_matrix_power(sym(x), 0.3) * MATRIX
    ),
    "scipy.signal.peak_prominences": lambda x: np.sum(
        scipy.signal.peak_prominences(x, scipy.signal.find_peaks(x)[0])[0]
    ),
    "scipy.signal.peak_widths": lambda x: np.sum(
        scipy.signal.peak_widths(x, scipy.signal.argrelmax(x)[0])[0]
    ),
}
