"""Time series: ARMA(2, 1) with a seasonal regressor: likelihood, forecast, autocorrelations."""

import numpy as np


def companion(phi):
    p = len(phi)
    A = np.zeros((p, p))
    A[0] = phi
    A[1:, :-1] = np.eye(p - 1)
    return A


def residuals(y, phi, theta):
    p, q = len(phi), len(theta)
    e = np.zeros(len(y) + q)
    for t in range(len(y)):
        past = y[max(t - p, 0) : t][::-1]
        prediction = np.dot(phi[: len(past)], past) + np.dot(theta, e[t : t + q][::-1])
        e[t + q] = y[t] - prediction
    return e[q:]


def psi_weights(phi, theta, n):
    psi = np.zeros(n)
    psi[0] = 1.0
    for j in range(1, n):
        psi[j] = sum(phi[i] * psi[j - 1 - i] for i in range(min(j, len(phi))))
        if j <= len(theta):
            psi[j] += theta[j - 1]
    return psi


def forecast(y, e, phi, theta, horizon):
    values, shocks = list(y), list(e)
    for _ in range(horizon):
        mean = sum(c * v for c, v in zip(phi, values[:-3:-1]))
        mean += sum(c * v for c, v in zip(theta, shocks[::-1]))
        values.append(mean)
        shocks.append(0.0)
    return np.array(values[len(y) :])


def acf(x, lags):
    x = x - np.mean(x)
    full = np.correlate(x, x, mode="full")[len(x) - 1 :]
    return full[: lags + 1] / full[0]


def series(n=80, seed=9):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(n)
    for t in range(2, n):
        y[t] += 0.6 * y[t - 1] - 0.3 * y[t - 2]
    return y + 0.8 * np.sin(2 * np.pi * np.arange(n) / 12)


def main(phi, theta, seasonal, log_sigma):
    y = series()
    t = np.arange(len(y))
    season = seasonal[0] * np.sin(2 * np.pi * t / 12) + seasonal[1] * np.cos(2 * np.pi * t / 12)
    z = y - season
    e = residuals(z, phi, theta)
    sigma2 = np.exp(2 * log_sigma)
    nll = 0.5 * np.sum(e**2 / sigma2 + np.log(2 * np.pi * sigma2))
    spread = np.sqrt(sigma2 * np.cumsum(psi_weights(phi, theta, 6) ** 2))
    ahead = forecast(z, e, phi, theta, 6)
    portmanteau = len(y) * np.sum(acf(e, 5)[1:] ** 2)
    stability = np.linalg.norm(np.linalg.matrix_power(companion(phi), 8))
    return nll + spread[-1] + np.sum(ahead**2) + portmanteau + stability


ARGUMENTS = (np.array([0.5, -0.2]), np.array([0.1]), np.array([0.7, 0.1]), 0.05)


def check():
    phi, theta = np.array([0.7]), np.array([0.2])
    psi = psi_weights(phi, theta, 6)
    np.testing.assert_allclose(psi[1:], 0.9 * 0.7 ** np.arange(5))
    truth = residuals(series(), np.array([0.6, -0.3]), np.array([0.0]))
    assert abs(acf(truth, 1)[0] - 1) < 1e-15
