"""Statistics: Gaussian process regression: likelihood, prediction, expected improvement."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import ndtr


def distances(A, B):
    return np.sqrt(np.maximum(((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=-1), 1e-30))


class Kernel:
    def __init__(self, name, amplitude, lengths):
        self.name, self.amplitude, self.lengths = name, amplitude, lengths

    def __call__(self, A, B):
        r = distances(A / self.lengths, B / self.lengths)
        if self.name == "rbf":
            shape = np.exp(-0.5 * r**2)
        elif self.name == "matern52":
            s = np.sqrt(5.0) * r
            shape = (1 + s + s**2 / 3) * np.exp(-s)
        else:
            raise NotImplementedError(self.name)
        return self.amplitude**2 * shape


class GaussianProcess:
    def __init__(self, kernel, noise):
        self.kernel, self.noise = kernel, noise

    def fit(self, X, y):
        self.X, self.mean = X, y.mean()
        K = self.kernel(X, X) + self.noise**2 * np.eye(len(X))
        jitter = 0.0
        while True:
            try:
                self.factor = cho_factor(K + jitter * np.eye(len(X)), lower=True)
                break
            except np.linalg.LinAlgError:
                jitter = max(10 * jitter, 1e-10)
        self.alpha = cho_solve(self.factor, y - self.mean)
        L, _ = self.factor
        self.log_likelihood = (
            -0.5 * (y - self.mean) @ self.alpha
            - np.log(np.diagonal(L)).sum()
            - 0.5 * len(X) * np.log(2 * np.pi)
        )
        return self

    def predict(self, X):
        k = self.kernel(self.X, X)
        v = solve_triangular(np.tril(self.factor[0]), k, lower=True)
        variance = self.kernel.amplitude**2 - np.einsum("ij,ij->j", v, v)
        return self.mean + k.T @ self.alpha, variance


def expected_improvement(mean, variance, best):
    sigma = np.sqrt(variance)
    u = (mean - best) / sigma
    return sigma * (u * ndtr(u) + np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi))


def data(seed=8):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (16, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.05 * rng.standard_normal(16)


def main(amplitude, lengths, noise):
    X, y = data()
    rbf = GaussianProcess(Kernel("rbf", amplitude, lengths), noise).fit(X, y)
    matern = GaussianProcess(Kernel("matern52", amplitude, lengths), noise).fit(X, y)
    mean, variance = matern.predict(np.array([[0.1, 0.2], [-1.0, 1.0], [1.5, -0.5]]))
    gain = expected_improvement(mean, variance, y.max())
    return -rbf.log_likelihood - matern.log_likelihood - gain.sum()


ARGUMENTS = (1.1, np.array([0.9, 2.5]), 0.1)


def check():
    X, y = data()
    gp = GaussianProcess(Kernel("rbf", 1.1, np.array([0.9, 2.5])), 1e-3).fit(X, y)
    mean, variance = gp.predict(X)
    np.testing.assert_allclose(mean, y, atol=1e-2)
    assert np.all(variance < 1e-4)
