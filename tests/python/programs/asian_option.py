"""Finance: an Asian option under stochastic volatility, by Monte Carlo with a control variate."""

import numpy as np


def heston_paths(spot, v0, kappa, theta, xi, rho, rate, maturity, steps, paths, seed):
    rng = np.random.default_rng(seed)
    dt = maturity / steps
    S = np.empty((steps + 1, paths))
    v = np.full(paths, v0)
    S[0] = spot
    for t in range(1, steps + 1):
        z1 = rng.standard_normal(paths)
        z2 = rho * z1 + np.sqrt(1 - rho**2) * rng.standard_normal(paths)
        v_plus = np.maximum(v, 0)
        S[t] = S[t - 1] * np.exp((rate - v_plus / 2) * dt + np.sqrt(v_plus * dt) * z1)
        v += kappa * (theta - v_plus) * dt + xi * np.sqrt(v_plus * dt) * z2
    return S


def control_variate(payoff, control, expectation):
    covariance = np.cov(payoff, control)
    beta = covariance[0, 1] / covariance[1, 1]
    adjusted = payoff - beta * (control - expectation)
    return adjusted.mean(), adjusted.std(ddof=1) / np.sqrt(len(adjusted))


def asian_call(strike, rate, maturity, S):
    average = np.cumsum(S[1:], axis=0)[-1] / (len(S) - 1)
    return np.exp(-rate * maturity) * np.where(average > strike, average - strike, 0.0)


def main(spot, v0, kappa, theta, xi, rho):
    rate, maturity = 0.03, 1.0
    S = heston_paths(spot, v0, kappa, theta, xi, rho, rate, maturity, 12, 200, seed=42)
    payoff = asian_call(100.0, rate, maturity, S)
    price, error = control_variate(payoff, S[-1] * np.exp(-rate * maturity), spot)
    return price + error


ARGUMENTS = (100.0, 0.04, 1.5, 0.05, 0.3, -0.6)


def check():
    """The discounted asset is a martingale, and an average is worth less than its last value."""
    S = heston_paths(100.0, 0.04, 1.5, 0.05, 0.3, -0.6, 0.03, 1.0, 12, 20000, seed=1)
    assert abs(np.exp(-0.03) * S[-1].mean() - 100) < 0.6
    european = np.exp(-0.03) * np.maximum(S[-1] - 100, 0).mean()
    assert asian_call(100.0, 0.03, 1.0, S).mean() < european
