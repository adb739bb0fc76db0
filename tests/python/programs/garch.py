"""Econometrics: the likelihood of a GJR-GARCH(1, 1) model with Student t innovations."""

from math import lgamma

from numpy import array, empty, exp, log, mean, pi, sqrt, var
from numpy.random import default_rng

LABELS = ("mu", "omega", "alpha", "gamma", "beta", "nu")


def returns(n=120, seed=7):
    rng = default_rng(seed)
    r, variance = empty(n), 1.0
    for t in range(n):
        r[t] = 0.05 + sqrt(variance) * rng.standard_normal()
        variance = 0.05 + 0.12 * r[t] ** 2 + 0.82 * variance
    return r


def conditional_variance(r, mu, omega, alpha, gamma, beta):
    n = len(r)
    eps = r - mu
    h = empty(n)
    h[0] = var(r)
    for t in range(1, n):
        leverage = gamma if eps[t - 1] < 0 else 0.0
        h[t] = omega + (alpha + leverage) * eps[t - 1] ** 2 + beta * h[t - 1]
    return eps, h


def student_t(eps, h, nu):
    constant = lgamma((nu + 1) / 2) - lgamma(nu / 2) - 0.5 * log(pi * (nu - 2))
    return constant - 0.5 * log(h) - (nu + 1) / 2 * log(1 + eps**2 / (h * (nu - 2)))


def negative_log_likelihood(theta, r):
    mu, omega, alpha, gamma, beta, nu = theta
    if omega <= 0 or alpha + beta + gamma / 2 >= 1:
        return 1e10
    eps, h = conditional_variance(r, mu, omega, alpha, gamma, beta)
    return -student_t(eps, h, nu).sum()


def forecast(theta, r, horizon):
    mu, omega, alpha, gamma, beta, _ = theta
    eps, h = conditional_variance(r, mu, omega, alpha, gamma, beta)
    persistence = alpha + gamma / 2 + beta
    path = [omega + (alpha + gamma * (eps[-1] < 0)) * eps[-1] ** 2 + beta * h[-1]]
    for _ in range(horizon - 1):
        path.append(omega + persistence * path[-1])
    return array(path)


def main(theta):
    r = returns()
    risk = sqrt(mean(forecast(theta, r, 10)))
    return negative_log_likelihood(theta, r) + risk


ARGUMENTS = (array([0.04, 0.06, 0.1, 0.03, 0.8, 6.0]),)


def check():
    r = returns()
    theta = ARGUMENTS[0]
    assert negative_log_likelihood(theta, r) < negative_log_likelihood(
        theta * [1, 5, 1, 1, 1, 1], r
    )
    long_run = theta[1] / (1 - theta[2] - theta[3] / 2 - theta[4])
    assert abs(forecast(theta, r, 500)[-1] - long_run) < 1e-8
    assert exp(student_t(0.0, 1.0, 6.0)) > 0.4
