"""Tracking: an unscented Kalman filter follows a turning aircraft seen by radar."""

from copy import deepcopy

import numpy as np
import scipy.linalg
from numpy.linalg import inv


class MerweSigmaPoints:
    def __init__(self, n, alpha, beta, kappa, sqrt_method=None, subtract=None):
        self.n = n
        self.alpha = alpha
        self.beta = beta
        self.kappa = kappa
        if sqrt_method is None:
            self.sqrt = scipy.linalg.cholesky
        else:
            self.sqrt = sqrt_method
        if subtract is None:
            self.subtract = np.subtract
        else:
            self.subtract = subtract
        self._compute_weights()

    def num_sigmas(self):
        return 2 * self.n + 1

    def sigma_points(self, x, P):
        if self.n != np.size(x):
            raise ValueError(f"expected size(x) {self.n}, but size is {np.size(x)}")
        n = self.n
        if np.isscalar(x):
            x = np.asarray([x])
        if np.isscalar(P):
            P = np.eye(n) * P
        else:
            P = np.atleast_2d(P)
        lambda_ = self.alpha**2 * (n + self.kappa) - n
        U = self.sqrt((lambda_ + n) * P)
        sigmas = np.zeros((2 * n + 1, n))
        sigmas[0] = x
        for k in range(n):
            sigmas[k + 1] = self.subtract(x, -U[k])
            sigmas[n + k + 1] = self.subtract(x, U[k])
        return sigmas

    def _compute_weights(self):
        n = self.n
        lambda_ = self.alpha**2 * (n + self.kappa) - n
        c = 0.5 / (n + lambda_)
        self.Wc = np.full(2 * n + 1, c)
        self.Wm = np.full(2 * n + 1, c)
        self.Wc[0] = lambda_ / (n + lambda_) + (1 - self.alpha**2 + self.beta)
        self.Wm[0] = lambda_ / (n + lambda_)


def unscented_transform(sigmas, Wm, Wc, noise_cov=None):
    kmax, n = sigmas.shape
    x = np.dot(Wm, sigmas)
    y = sigmas - x[np.newaxis, :]
    P = np.dot(y.T, np.dot(np.diag(Wc), y))
    if noise_cov is not None:
        P += noise_cov
    return (x, P)


class UnscentedKalmanFilter:
    def __init__(self, dim_x, dim_z, dt, hx, fx, points):
        self.x = np.zeros(dim_x)
        self.P = np.eye(dim_x)
        self.x_prior = np.copy(self.x)
        self.Q = np.eye(dim_x)
        self.R = np.eye(dim_z)
        self._dim_x = dim_x
        self._dim_z = dim_z
        self.points_fn = points
        self._dt = dt
        self._num_sigmas = points.num_sigmas()
        self.hx = hx
        self.fx = fx
        self.Wm, self.Wc = points.Wm, points.Wc
        self.sigmas_f = np.zeros((self._num_sigmas, self._dim_x))
        self.sigmas_h = np.zeros((self._num_sigmas, self._dim_z))
        self.K = np.zeros((dim_x, dim_z))
        self.y = np.zeros(dim_z)
        self.z = np.array([[None] * dim_z]).T
        self.log_likelihood = 0.0

    def predict(self, dt=None):
        if dt is None:
            dt = self._dt
        sigmas = self.points_fn.sigma_points(self.x, self.P)
        for i, s in enumerate(sigmas):
            self.sigmas_f[i] = self.fx(s, dt)
        self.x, self.P = unscented_transform(self.sigmas_f, self.Wm, self.Wc, self.Q)
        self.sigmas_f = self.points_fn.sigma_points(self.x, self.P)
        self.x_prior = np.copy(self.x)
        self.P_prior = np.copy(self.P)

    def update(self, z):
        if z is None:
            self.z = np.array([[None] * self._dim_z]).T
            return
        sigmas_h = []
        for s in self.sigmas_f:
            sigmas_h.append(self.hx(s))
        self.sigmas_h = np.atleast_2d(sigmas_h)
        zp, self.S = unscented_transform(self.sigmas_h, self.Wm, self.Wc, self.R)
        self.SI = inv(self.S)
        Pxz = np.zeros((self.sigmas_f.shape[1], self.sigmas_h.shape[1]))
        for i in range(self.sigmas_f.shape[0]):
            dx = np.subtract(self.sigmas_f[i], self.x)
            dz = np.subtract(self.sigmas_h[i], zp)
            Pxz += self.Wc[i] * np.outer(dx, dz)
        self.K = np.dot(Pxz, self.SI)
        self.y = np.subtract(z, zp)
        self.x = self.x + np.dot(self.K, self.y)
        self.P = self.P - np.dot(self.K, np.dot(self.S, self.K.T))
        self.z = deepcopy(z)
        self.log_likelihood += -0.5 * (self.y @ self.SI @ self.y + np.log(np.linalg.det(self.S)))


def fx(x, dt):
    w = x[4]
    out = np.empty_like(x)
    out[0] = x[0] + x[1] * dt
    out[1] = x[1] - w * x[3] * dt
    out[2] = x[2] + x[3] * dt
    out[3] = x[3] + w * x[1] * dt
    out[4] = w
    return out


def hx(x):
    return np.array([np.sqrt(x[0] ** 2 + x[2] ** 2), np.arctan2(x[2], x[0])])


def measurements(n=15, seed=11):
    rs = np.random.RandomState(seed)
    x = np.array([1.0, 0.3, 2.0, 0.1, 0.1])
    out = []
    for i in range(n):
        x = fx(x, 1.0)
        out.append(hx(x) + rs.randn(2) * [0.05, 0.01] if i != 7 else None)
    return out


def main(x0, q, r):
    points = MerweSigmaPoints(5, alpha=0.5, beta=2.0, kappa=-1.0)
    kf = UnscentedKalmanFilter(dim_x=5, dim_z=2, dt=1.0, hx=hx, fx=fx, points=points)
    kf.x = np.array(x0)
    kf.P *= 0.2
    kf.Q = np.diag([q, q, q, q, q / 10.0])
    kf.R = np.diag(r**2)
    xs = []
    for z in measurements():
        kf.predict()
        kf.update(z)
        xs.append(kf.x.copy())
    xs = np.array(xs)
    return kf.log_likelihood + 0.01 * np.sum(xs[-1])


ARGUMENTS = (np.array([1.0, 0.25, 2.0, 0.1, 0.05]), 0.01, np.array([0.06, 0.02]))


def check():
    p = MerweSigmaPoints(3, 0.1, 2.0, 0.0)
    assert abs(p.Wm.sum() - 1) < 1e-9
