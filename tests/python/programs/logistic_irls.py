"""Statistics: logistic regression by iteratively reweighted least squares, with robust errors."""

import numpy as np
from scipy.special import expit


class LogisticRegression:
    """In the manner of scikit-learn: what ends with an underscore was estimated."""

    def __init__(self, penalty=1e-3, max_iter=25, tol=1e-12):
        self.penalty, self.max_iter, self.tol = penalty, max_iter, tol

    def _design(self, X):
        X = np.asarray(X, dtype=float)
        if X.ndim == 1:
            X = X[:, None]
        return np.hstack([np.ones((X.shape[0], 1)), X])

    def fit(self, X, y, sample_weight=None):
        A = self._design(X)
        w = np.ones(len(A)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        beta = np.zeros(A.shape[1])
        ridge = self.penalty * np.eye(A.shape[1])
        for self.n_iter_ in range(1, self.max_iter + 1):
            mu = expit(A @ beta)
            W = w * mu * (1 - mu)
            hessian = (A.T * W) @ A + ridge
            gradient = A.T @ (w * (y - mu)) - self.penalty * beta
            delta = np.linalg.solve(hessian, gradient)
            beta = beta + delta
            if np.max(np.abs(delta)) < self.tol:
                break
        scores = A * (w * (y - expit(A @ beta)))[:, None]
        bread = np.linalg.inv(hessian)
        self.covariance_ = bread @ (scores.T @ scores) @ bread
        self.intercept_, self.coef_ = beta[0], beta[1:]
        return self

    def decision_function(self, X):
        return self._design(X)[:, 1:] @ self.coef_ + self.intercept_

    def predict_proba(self, X):
        p = expit(self.decision_function(X))
        return np.column_stack([1 - p, p])

    def log_loss(self, X, y):
        p = np.clip(self.predict_proba(X)[:, 1], 1e-15, 1 - 1e-15)
        return -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))


def data(seed=6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 3))
    p = expit(X @ np.array([1.5, -1.0, 0.0]) - 0.3)
    return X, (rng.uniform(size=60) < p).astype(float)


def main(features, weights, penalty):
    """How much the fitted model depends on how its features are measured and weighted."""
    X, y = data()
    X = X[:40] * features
    model = LogisticRegression(penalty).fit(X, y[:40], np.tile(weights, 10))
    X_test, y_test = data()[0][40:] * features, y[40:]
    return model.log_loss(X_test, y_test) + np.sqrt(np.diag(model.covariance_)).mean()


ARGUMENTS = (np.array([1.0, 0.8, 1.3]), np.array([1.0, 0.5, 1.5, 1.0]), 0.5)


def check():
    X, y = data()
    model = LogisticRegression(penalty=0.0).fit(X, y)
    assert model.n_iter_ < 12
    residual = y - model.predict_proba(X)[:, 1]
    np.testing.assert_allclose(X.T @ residual, 0, atol=1e-8)
    assert model.coef_[0] > 0.5 > model.coef_[2]
