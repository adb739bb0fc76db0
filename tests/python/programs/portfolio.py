"""Finance: a portfolio from shrunk covariances: frontier, views, risk parity, and its drawdown."""

import numpy as np


def market(seed=15, days=60, assets=4):
    rng = np.random.default_rng(seed)
    factor = 0.008 * rng.standard_normal(days)
    betas = np.linspace(0.6, 1.4, assets)
    return 0.0004 + np.outer(factor, betas) + 0.006 * rng.standard_normal((days, assets))


def shrunk_covariance(returns, intensity):
    sample = np.cov(returns, rowvar=False)
    target = np.diag(np.diag(sample))
    return (1 - intensity) * sample + intensity * target


def ewma(returns, halflife):
    decay = 0.5 ** (1 / halflife)
    weights = decay ** np.arange(len(returns))[::-1]
    weights /= weights.sum()
    mean = np.average(returns, axis=0, weights=weights)
    centred = returns - mean
    return mean, np.einsum("t,ti,tj->ij", weights, centred, centred)


def minimum_variance(covariance, mean=None, target=None):
    """Lagrange's equations of the equality-constrained problem."""
    n = len(covariance)
    constraints = [np.ones(n)] if mean is None else [np.ones(n), mean]
    A = np.vstack(constraints)
    kkt = np.block([[covariance, A.T], [A, np.zeros((len(A), len(A)))]])
    rhs = np.zeros(n + len(A))
    rhs[n] = 1
    if mean is not None:
        rhs[n + 1] = target
    return np.linalg.solve(kkt, rhs)[:n]


def black_litterman(prior, covariance, views, q, tau):
    omega = np.diag(np.diag(views @ (tau * covariance) @ views.T))
    gain = tau * covariance @ views.T @ np.linalg.inv(views @ (tau * covariance) @ views.T + omega)
    return prior + gain @ (q - views @ prior)


def risk_parity(covariance, sweeps=60):
    """Cyclical coordinate descent: each weight solves a quadratic equation."""
    n = len(covariance)
    w = np.ones(n) / n
    for _ in range(sweeps):
        for i in range(n):
            rest = covariance[i] @ w - covariance[i, i] * w[i]
            w[i] = (-rest + np.sqrt(rest**2 + 4 * covariance[i, i] / n)) / (2 * covariance[i, i])
    return w / np.sum(w)


def drawdown(returns, w):
    wealth = np.cumprod(1 + returns @ w)
    peak = np.maximum.accumulate(wealth)
    return (1 - wealth / peak).max()


def sharpe(returns, w):
    r = returns @ w
    return np.sqrt(252) * r.mean() / r.std()


def main(intensity, halflife, q, tau):
    returns = market()
    covariance = shrunk_covariance(returns, intensity)
    mean, recent = ewma(returns, halflife)
    views = np.array([[1.0, -1.0, 0, 0], [0, 0, 1.0, 0]])
    posterior = black_litterman(mean, covariance, views, q, tau)
    frontier = minimum_variance(covariance, posterior, 0.001)
    parity = risk_parity(recent)
    mixed = 0.5 * (frontier + parity)
    spread = np.sort(mixed)[-2:].sum()
    return 10 * drawdown(returns, mixed) - sharpe(returns, mixed) + spread


ARGUMENTS = (0.3, 15.0, np.array([0.0005, 0.001]), 0.1)


def check():
    covariance = shrunk_covariance(market(), 0.3)
    w = minimum_variance(covariance)
    assert abs(w.sum() - 1) < 1e-12
    marginal = covariance @ w
    np.testing.assert_allclose(marginal, marginal[0], rtol=1e-9)
    w = risk_parity(covariance)
    contributions = w * (covariance @ w)
    np.testing.assert_allclose(contributions, contributions.mean(), rtol=1e-8)
