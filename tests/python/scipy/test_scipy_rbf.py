"""Interpolation between scattered places."""

import copy

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator
from scipy_cases import check

import cotan as ct
from cotan._src.scipy.interpolate.rbf import _KERNELS

RNG = np.random.default_rng(0)
Y, D, X = RNG.random((7, 2)), RNG.normal(size=(7, 3)), RNG.random((4, 2))


@pytest.mark.parametrize("kernel", _KERNELS)
def test_kernels(kernel):
    def f(y, d, x, epsilon):
        import scipy.interpolate as si

        made = si.RBFInterpolator(y, d, kernel=kernel, epsilon=epsilon, smoothing=0.1 * epsilon)
        # One of the places, too.
        return made(np.concatenate([x, y[:1]]))

    check(f, Y, D, X, np.array(0.8), rtol=1e-4, value_rtol=1e-7)


def test_shapes_and_degrees():
    import scipy.interpolate as si

    check(lambda d: si.RBFInterpolator(Y, d, degree=-1, kernel="gaussian", epsilon=2)(X), D[:, 0])
    check(lambda d: si.RBFInterpolator(Y, d, degree=2)(X), D[:, 0] + 1j * D[:, 1], value_rtol=1e-7)
    check(lambda s: si.RBFInterpolator(Y, D, smoothing=s, kernel="linear")(X), D[:, 0] ** 2)
    # One that is constant, at points that move.
    for made in (RBFInterpolator(Y, D), RBFInterpolator(Y, D[:, 0] + 1j * D[:, 1])):
        check(lambda x, made=made: made(x), X, second=True)
    near = RBFInterpolator(Y, D, neighbors=5)
    assert ct.gradient(lambda t: t * np.sum(near(X)), 2.0)[0] == np.sum(near(X))
    with pytest.raises(TypeError, match="neighbors"):
        ct.gradient(lambda x: np.sum(near(x)), X)
    with pytest.raises(ValueError, match=r"\(n, 2\)"):
        ct.gradient(lambda x: np.sum(RBFInterpolator(Y, D)(x[0])), X)


@pytest.mark.parametrize("kernel", ["gaussian", "multiquadric", "inverse_quadratic", "cubic"])
def test_second_derivatives_at_the_places_themselves(kernel):
    made = RBFInterpolator(Y, D[:, 0], kernel=kernel, epsilon=1.5)
    slope = ct.grad(lambda x: made(x[None, :])[0])
    found = ct.hessian(lambda x: made(x[None, :])[0], Y[2])
    for i, step in enumerate(np.eye(2) * 1e-5):
        wanted = (slope(Y[2] + step) - slope(Y[2] - step)) / 2e-5
        np.testing.assert_allclose(found[i], wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_follow_what_they_were_copied_of(copied):
    def f(d):
        import scipy.interpolate as si

        return np.sum(copied(si.RBFInterpolator(Y, d))(X) ** 2)

    check(f, D[:, 0])
    plain = copied(RBFInterpolator(Y, D))
    np.testing.assert_array_equal(plain(X), RBFInterpolator(Y, D)(X))


@pytest.mark.parametrize("function", ["multiquadric", "gaussian", "cubic", "thin_plate", "linear"])
def test_the_older_class(function):
    def f(x, y, d, at):
        import scipy.interpolate as si

        made = si.Rbf(x, y, d, function=function)
        return made(at[0], at[1])

    check(f, Y[:, 0], Y[:, 1], D[:, 0], X[:2], rtol=1e-4)


def test_the_older_class_of_several_values():
    def f(x, y, d, at):
        import scipy.interpolate as si

        return si.Rbf(x, y, d, mode="N-D", smooth=0.1)(at[0], at[1])

    check(f, Y[:, 0], Y[:, 1], D, X[:2], rtol=1e-4)
