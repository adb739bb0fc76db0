"""Psychophysics: a psychometric function with lapses, fitted to two-alternative forced choices."""

from math import erf, log, sqrt

import numpy as np
from scipy.special import betaln, gammaln

LEVELS = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
TRIALS = np.array([40, 40, 40, 40, 40, 40, 40])
CORRECT = np.array([21, 23, 28, 31, 37, 38, 40])


def weibull(x, threshold, slope):
    return 1 - np.exp(-((x / threshold) ** slope))


def logistic(x, threshold, slope):
    return 1 / (1 + np.exp(-slope * (x - threshold)))


def cumulative_gauss(x, threshold, slope):
    return np.array([0.5 * (1 + erf(slope * (v - threshold) / sqrt(2))) for v in x])


SHAPES = {"weibull": weibull, "logistic": logistic, "gauss": cumulative_gauss}


def psychometric(x, threshold, slope, lapse, guess=0.5, shape="weibull"):
    return guess + (1 - guess - lapse) * SHAPES[shape](x, threshold, slope)


def log_choose(n, k):
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def beta_binomial(k, n, p, overdispersion):
    if overdispersion < 1e-6:
        return log_choose(n, k) + k * np.log(p) + (n - k) * np.log(1 - p)
    nu = 1 / overdispersion - 1
    a, b = p * nu, (1 - p) * nu
    return log_choose(n, k) + betaln(k + a, n - k + b) - betaln(a, b)


def prior(threshold, slope, lapse):
    """Log-normal for threshold and slope, a beta distribution for lapses."""
    penalty = 0.5 * ((log(threshold) - log(2)) / 0.7) ** 2 + 0.5 * ((log(slope) - 0.5) / 0.8) ** 2
    return penalty - (1.0 * log(lapse) + 30.0 * log(1 - lapse))


def quantile(p, threshold, slope, lapse, guess=0.5):
    """The level at which the share p is right; by bisection, then one step of Newton."""
    low, high = 0.01, 20.0
    f = lambda x: psychometric(x, threshold, slope, lapse, guess) - p
    for _ in range(60):
        middle = 0.5 * (low + high)
        if f(middle) > 0:
            high = middle
        else:
            low = middle
    x = 0.5 * (low + high)
    slope_at_x = (f(x + 1e-5) - f(x - 1e-5)) / 2e-5
    return x - f(x) / slope_at_x


def main(threshold, slope, lapse, overdispersion):
    cost = prior(threshold, slope, lapse)
    for shape in SHAPES:
        p = psychometric(LEVELS, threshold, slope, lapse, shape=shape)
        cost -= beta_binomial(CORRECT, TRIALS, p, overdispersion).sum()
    return cost + (quantile(0.75, threshold, slope, lapse) - 1.7) ** 2


ARGUMENTS = (1.9, 1.6, 0.02, 0.05)


def check():
    x = quantile(0.8, 2.0, 1.5, 0.03)
    assert abs(psychometric(x, 2.0, 1.5, 0.03) - 0.8) < 1e-9
    p = np.exp(beta_binomial(np.arange(11), 10, 0.3, 0.2))
    assert abs(p.sum() - 1) < 1e-12
    binomial = beta_binomial(np.arange(11), 10, 0.3, 0.0)
    np.testing.assert_allclose(beta_binomial(np.arange(11), 10, 0.3, 2e-6), binomial, atol=1e-3)
