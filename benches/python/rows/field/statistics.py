"""Likelihoods, prices, decompositions and fits."""

import math

import numpy as np

from rows._row import Arrays, Row, rng
from rows.field._names import library, logsumexp, ndtr

# gmm: the log-likelihood of a mixture of Gaussians, from ADBench


def lower(np, icf, d):
    """Return the triangle below the diagonal that the entries after the first `d` hold."""
    columns, at = [], d
    for i in range(d):
        columns.append(np.concatenate((np.zeros(i + 1), icf[at : at + d - i - 1])))
        at += d - i - 1
    return np.stack(columns, -1)


def gmm(np, alphas, means, icf, x):
    n, d = x.shape
    diagonals = np.exp(icf[:, :d])
    triangles = np.stack([lower(np, row, d) for row in icf])
    centred = x[:, None, :] - means
    scaled = diagonals * centred + np.einsum("ijk,mik->mij", triangles, centred)
    squares = np.sum(scaled**2, -1)
    inner = alphas + np.sum(icf[:, :d], 1) - 0.5 * squares
    likelihood = np.sum(logsumexp(np, inner, 1)) - n * logsumexp(np, alphas, 0)
    prior = 0.5 * (np.sum(diagonals**2) + np.sum(icf[:, d:] ** 2)) - np.sum(icf[:, :d])
    return likelihood - prior - n * d * 0.5 * math.log(2 * math.pi)


def gmm_data(n: int = 1_000, d: int = 10, k: int = 10) -> Arrays:
    draw = rng()
    return (
        draw.normal(size=k),
        draw.normal(size=(k, d)),
        draw.normal(size=(k, d * (d + 1) // 2)) / 4,
        draw.normal(size=(n, d)),
    )


# gp: the log marginal likelihood of a Gaussian process, 200 points


def gp(np, lengths, amplitude, noise, x, y):
    z = x / np.exp(lengths)
    squares = np.sum((z[:, None, :] - z[None, :, :]) ** 2, -1)
    k = np.exp(amplitude) * np.exp(-0.5 * squares) + np.exp(noise) * np.eye(len(y))
    factor = np.linalg.cholesky(k)
    alpha = np.linalg.solve(factor.T, np.linalg.solve(factor, y))
    return -0.5 * y @ alpha - np.sum(np.log(np.diag(factor))) - 0.5 * len(y) * math.log(2 * math.pi)


def gp_data(n: int = 200) -> Arrays:
    draw = rng()
    x = draw.uniform(-2, 2, (n, 3))
    y = np.sin(2 * x).sum(1) + draw.normal(size=n) / 10
    return np.zeros(3), np.array([0.1]), np.array([-2.0]), x, y


# black-scholes: 100,000 calls, with respect to spot, volatility and rate


def black_scholes(np, spot, volatility, rate, strike, time):
    root = volatility * np.sqrt(time)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * time) / root
    d2 = d1 - root
    return np.sum(spot * ndtr(np, d1) - strike * np.exp(-rate * time) * ndtr(np, d2))


def black_scholes_data(n: int = 100_000) -> Arrays:
    draw = rng()
    return (
        draw.uniform(80, 120, n),
        draw.uniform(0.1, 0.5, n),
        draw.uniform(0.0, 0.05, n),
        draw.uniform(80, 120, n),
        draw.uniform(0.1, 2, n),
    )


# whitening: ZCA of 500 samples of 30 variables, and a contrast of the result


def whitening(np, x):
    centred = x - np.mean(x, 0)
    covariance = centred.T @ centred / (len(x) - 1)
    values, vectors = np.linalg.eigh(covariance)
    white = centred @ (vectors / np.sqrt(values + 1e-5)) @ vectors.T
    return np.mean(np.log(np.cosh(white)))


def whitening_data(n: int = 500, size: int = 30) -> Arrays:
    draw = rng()
    return (draw.normal(size=(n, size)) @ draw.normal(size=(size, size)),)


# spline: a natural cubic spline of 50 knots, and its squared distance from 1,000 points


def spline(np, knots, values, x, y):
    h = knots[1:] - knots[:-1]
    slopes = (values[1:] - values[:-1]) / h
    matrix = np.diag(2 * (h[1:] + h[:-1])) + np.diag(h[1:-1], 1) + np.diag(h[1:-1], -1)
    inner = np.linalg.solve(matrix, 6 * (slopes[1:] - slopes[:-1]))
    curvature = np.concatenate((np.zeros(1), inner, np.zeros(1)))
    held = knots.detach() if library(np) == "torch" else knots
    at = np.searchsorted(held, x) - 1
    left, right, width = x - knots[at], knots[at + 1] - x, h[at]
    cubic = (curvature[at] * right**3 + curvature[at + 1] * left**3) / (6 * width)
    linear = (values[at] / width - curvature[at] * width / 6) * right
    linear = linear + (values[at + 1] / width - curvature[at + 1] * width / 6) * left
    return np.sum((cubic + linear - y) ** 2)


def spline_data(n: int = 1_000, knots: int = 50) -> Arrays:
    draw = rng()
    knots = np.linspace(0, 10, knots)
    x = draw.uniform(0.01, 9.99, n)
    return knots, np.sin(knots), x, np.sin(x) + draw.normal(size=len(x)) / 10


# factorization: 20,000 ratings of 800 items by 500 people


def factorization(np, people, items, who, what, rating):
    found = np.sum(people[who] * items[what], 1)
    return np.mean((found - rating) ** 2) + 0.01 * (np.mean(people**2) + np.mean(items**2))


def factorization_data(n: int = 20_000, people: int = 500, items: int = 800) -> Arrays:
    draw = rng()
    return (
        draw.normal(size=(people, 16)),
        draw.normal(size=(items, 16)),
        draw.integers(0, people, n),
        draw.integers(0, items, n),
        draw.normal(size=n),
    )


# rosenbrock: 1,000 variables


def rosenbrock(np, x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


ROWS = [
    Row("gmm", gmm_data, gmm, wrt=(0, 1, 2), tiny=lambda: gmm_data(5, 3, 2)),
    Row("gp", gp_data, gp, wrt=(0, 1, 2), tiny=lambda: gp_data(6)),
    Row(
        "black-scholes",
        black_scholes_data,
        black_scholes,
        wrt=(0, 1, 2),
        tiny=lambda: black_scholes_data(4),
    ),
    Row("whitening", whitening_data, whitening, tiny=lambda: whitening_data(12, 3)),
    Row("spline", spline_data, spline, wrt=(0, 1), tiny=lambda: spline_data(9, 6), step=1e-5),
    Row(
        "factorization",
        factorization_data,
        factorization,
        wrt=(0, 1),
        tiny=lambda: factorization_data(7, 3, 4),
    ),
    Row(
        "rosenbrock",
        lambda: (rng().normal(size=1_000),),
        rosenbrock,
        tiny=lambda: (rng().normal(size=5),),
    ),
]
