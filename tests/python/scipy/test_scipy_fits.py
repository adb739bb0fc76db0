"""Fits of `scipy.optimize`: losses, bounds, errors, and samples that are no numbers."""

import numpy as np
import pytest
from scipy import optimize
from scipy_cases import check

import cotan as ct

T = np.linspace(0, 2, 8)
DATA = 1.3 * np.exp(-0.7 * T) + 0.03 * np.cos(7 * T)
DATA[3] += 0.4
LOOSE = {"value_rtol": 1e-6, "value_atol": 1e-7, "rtol": 2e-3, "atol": 1e-4, "step": 1e-4}
TIGHT = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-14, "jac": "3-point"}


def decay(t, a, k):
    return a * np.exp(-k * t)


def squares(z):
    """A loss of a program's own, with its first two derivatives."""
    return np.stack([z + 0.1 * z * z, 1 + 0.2 * z, 0.2 + 0 * z])


@pytest.mark.parametrize("loss", ["soft_l1", "huber", "cauchy", "arctan", squares])
def test_losses(loss):
    def fit(y, scale):
        residuals = lambda x: decay(T, x[0], x[1]) - y
        r = optimize.least_squares(residuals, [1.0, 1.0], loss=loss, f_scale=scale, **TIGHT)
        return r.x, r.cost

    check(fit, DATA, 0.07, **LOOSE)
    # The scale alone moves the solution, too.
    check(lambda scale: fit(DATA, scale), 0.07, **LOOSE)

    def both(y, scale):
        x, covariance = optimize.curve_fit(
            decay, T, y, [1.0, 1.0], method="trf", loss=loss, f_scale=scale, **TIGHT
        )
        return x, covariance * 100

    check(both, DATA, 0.07, **LOOSE)
    check(lambda scale: both(DATA, scale), 0.07, **LOOSE)


def test_arguments_by_place_and_sparse_jacobians():
    def residuals(x, y):
        return decay(T, x[0], x[1]) - y

    def fit(y):
        places = ("2-point", (-np.inf, np.inf), "trf", 1e-15, 1e-15, 1e-14, 1.0, "huber", 0.07)
        more = (None, "lsmr", {}, np.ones((8, 2)), 200, 0, (y,))
        r = optimize.least_squares(residuals, [1.0, 0.5], *places, *more)
        assert not isinstance(r.jac, np.ndarray)
        return r.x

    check(fit, DATA, **LOOSE)


def test_bounds_of_a_class():
    bounds = optimize.Bounds([0.0, 0.0], [np.inf, 0.6])
    check(lambda y: optimize.curve_fit(decay, T, y, bounds=bounds, **TIGHT)[0], DATA, **LOOSE)

    def residuals(x, y):
        return decay(T, x[0], x[1]) - y

    # SciPy takes a list of arguments, too.
    check(
        lambda y: optimize.least_squares(residuals, [1.0, 0.5], args=[y], bounds=bounds, **TIGHT).x,
        DATA,
        **LOOSE,
    )


@pytest.mark.parametrize("made", [lambda v: (0.0, [9.0, v]), lambda v: optimize.Bounds(0.0, v)])
def test_active_bounds_are_refused(made):
    with pytest.raises(TypeError, match="curve_fit: active bounds"):
        ct.gradient(lambda v: optimize.curve_fit(decay, T, DATA, bounds=made(v))[0][1], 0.6)
    with pytest.raises(TypeError, match="least_squares: active bounds"):
        ct.gradient(
            lambda v: optimize.least_squares(
                lambda x: decay(T, *x) - DATA, [1.0, 0.5], bounds=made(v)
            ).x[1],
            0.6,
        )


def test_errors_that_depend_on_each_other():
    matrix = np.diag(0.1 + 0.02 * T) + 0.01 * np.exp(-np.abs(T[:, None] - T))
    for absolute in (False, True):

        def fit(y, sigma, absolute=absolute):
            x, covariance = optimize.curve_fit(
                decay, T, y, sigma=sigma, absolute_sigma=absolute, xtol=1e-14, ftol=1e-14
            )
            return x, covariance * 100

        check(fit, DATA, matrix, **LOOSE)


@pytest.mark.parametrize("sigma", [None, 1 + T, np.diag(1 + T)])
def test_samples_that_are_left_out(sigma):
    y = DATA.copy()
    y[2] = np.nan

    def fit(y):
        return optimize.curve_fit(decay, T, y, sigma=sigma, nan_policy="omit", xtol=1e-14)[0]

    kept = np.isfinite(y)
    (g,) = ct.gradient(lambda y: np.sum(fit(y) * [1.0, 2.0]), y)
    assert np.isfinite(g).all()
    assert g[2] == 0
    step = 1e-4
    moves = step * np.eye(8)[kept]
    near = [(fit(y + e) - fit(y - e)) @ [1.0, 2.0] / (2 * step) for e in moves]
    np.testing.assert_allclose(g[kept], near, rtol=1e-3, atol=1e-5)


def test_places_in_a_list():
    check(
        lambda y: optimize.curve_fit(lambda t, a, b: a * t**2 + b, [0, 1, 2, 3], y)[0],
        np.array([1.0, 2.0, 0.5, 3.0]),
        **LOOSE,
    )


def test_what_a_solver_says_besides():
    def residuals(x, y):
        return decay(T, x[0], x[1]) - y

    def least(y):
        x, covariance, report, *_ = optimize.leastsq(
            residuals, [1.0, 1.0], (y,), full_output=True, xtol=1e-14, ftol=1e-14
        )
        return x, covariance, report["fvec"]

    check(least, DATA, **LOOSE)

    def fit(y):
        _, _, report, *_ = optimize.curve_fit(decay, T, y, full_output=True, xtol=1e-14, ftol=1e-14)
        return report["fvec"]

    check(fit, DATA, **LOOSE)
    bounds = (0, [3.0, 0.5])

    def bounded(y):
        x, covariance = optimize.curve_fit(decay, T, y, [1.0, 0.4], bounds=bounds, **TIGHT)
        r = optimize.least_squares(residuals, [1.0, 0.4], args=(y,), bounds=bounds, **TIGHT)
        assert r.active_mask.any()
        return x, covariance, r.grad

    check(bounded, DATA, **LOOSE)
    with pytest.raises(TypeError, match="jac of least_squares has no derivative rule"):
        ct.gradient(
            lambda y: np.sum(optimize.least_squares(residuals, [1.0, 1.0], args=(y,)).jac), DATA
        )


def test_a_sparse_jacobian_has_no_derivative():
    sparsity = np.ones((len(T), 2))

    def residuals(p, y):
        return decay(T, *p) - y

    def f(y, part):
        r = optimize.least_squares(residuals, [1.0, 0.4], args=(y,), jac_sparsity=sparsity)
        assert r.jac.shape == (len(T), 2)
        return np.sum(r.jac.toarray() if part == "jac" else r.x)

    assert np.isfinite(ct.gradient(f, DATA, ct.const("x"))[0]).all()
    with pytest.raises(TypeError, match="jac of least_squares has no derivative rule"):
        ct.gradient(f, DATA, ct.const("jac"))
