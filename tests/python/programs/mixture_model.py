"""Statistics: a mixture of Gaussians: log-likelihood, and steps of expectation and maximization."""

import numpy as np
from scipy.special import logsumexp


def log_gaussian(X, mean, covariance):
    d = X.shape[1]
    L = np.linalg.cholesky(covariance)
    z = np.linalg.solve(L, (X - mean).T)
    return -0.5 * (d * np.log(2 * np.pi) + np.sum(z**2, axis=0)) - np.log(np.diag(L)).sum()


class GaussianMixture:
    def __init__(self, weights, means, covariances, regularization=1e-6):
        self.weights = np.asarray(weights, dtype=np.float64)
        self.means = np.asarray(means, dtype=np.float64)
        self.covariances = np.asarray(covariances, dtype=np.float64)
        self.regularization = regularization

    def _joint(self, X):
        log_prob = np.empty((X.shape[0], len(self.weights)))
        for k in range(len(self.weights)):
            log_prob[:, k] = log_gaussian(X, self.means[k], self.covariances[k])
        return log_prob + np.log(self.weights)

    def score(self, X):
        return logsumexp(self._joint(X), axis=1).mean()

    def predict_proba(self, X):
        joint = self._joint(X)
        return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    def em_step(self, X):
        resp = self.predict_proba(X)
        nk = resp.sum(axis=0) + 10 * np.finfo(resp.dtype).eps
        self.weights = nk / len(X)
        self.means = (resp.T @ X) / nk[:, np.newaxis]
        covariances = np.zeros_like(self.covariances)
        for k, mean in enumerate(self.means):
            centred = X - mean
            covariances[k] = (resp[:, k] * centred.T) @ centred / nk[k]
            covariances[k].flat[:: X.shape[1] + 1] += self.regularization
        self.covariances = covariances
        return self


def sample(seed=2):
    rng = np.random.default_rng(seed)
    a = rng.normal([0, 0], [1.0, 0.5], size=(25, 2))
    b = rng.normal([3, 1], 0.7, size=(20, 2))
    return np.vstack((a, b))


def main(logits, means, scales):
    weights = np.exp(logits - logits.max())
    weights /= weights.sum()
    covariances = [np.diag(s**2) for s in scales]
    model = GaussianMixture(weights, means, covariances)
    X = sample()
    first = model.score(X)
    for _ in range(3):
        model.em_step(X)
    entropy = -np.sum(model.predict_proba(X) * np.log(model.predict_proba(X) + 1e-300), axis=1)
    return -first - model.score(X) + 0.1 * entropy.mean()


ARGUMENTS = (
    np.array([0.2, -0.1]),
    np.array([[0.5, -0.2], [2.2, 1.1]]),
    np.array([[1.1, 0.8], [0.9, 1.0]]),
)


def check():
    X = sample()
    model = GaussianMixture([0.5, 0.5], ARGUMENTS[1], [np.eye(2), np.eye(2)])
    scores = [model.em_step(X).score(X) for _ in range(8)]
    assert all(np.diff(scores) > -1e-9)
    np.testing.assert_allclose(sorted(model.weights), [20 / 45, 25 / 45], atol=0.05)
