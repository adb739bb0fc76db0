"""Finance: SABR smiles by Hagan's formula, CIR bonds, Heston by its characteristic function."""

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm


def hagan(alpha, beta, rho, nu, F, K, T):
    if F == K:
        v = alpha / F ** (1 - beta)
        return v * (
            1
            + (
                (1 - beta) ** 2 / 24 * alpha**2 / F ** (2 - 2 * beta)
                + (2 - 3 * rho**2) / 24 * nu**2
            )
            * T
        )
    fk = (F * K) ** ((1 - beta) / 2)
    logfk = np.log(F / K)
    z = nu / alpha * fk * logfk
    x = np.log((np.sqrt(1 - 2 * rho * z + z**2) + z - rho) / (1 - rho))
    a = fk * (1 + (1 - beta) ** 2 / 24 * logfk**2 + (1 - beta) ** 4 / 1920 * logfk**4)
    b = (
        1
        + (
            (1 - beta) ** 2 / 24 * alpha**2 / fk**2
            + rho * beta * nu * alpha / 4 / fk
            + (2 - 3 * rho**2) / 24 * nu**2
        )
        * T
    )
    return alpha / a * z / x * b


def black(F, K, T, sigma, kind="call"):
    d1 = (np.log(F / K) + 0.5 * sigma**2 * T) / (sigma * np.sqrt(T))
    d2 = d1 - sigma * np.sqrt(T)
    if kind == "call":
        return F * norm.cdf(d1) - K * norm.cdf(d2)
    if kind == "put":
        return K * norm.cdf(-d2) - F * norm.cdf(-d1)
    raise ValueError("unknown option type %s" % kind)


def cir_bond(r, kappa, theta, sigma, T):
    h = np.sqrt(kappa**2 + 2 * sigma**2)
    den = 2 * h + (kappa + h) * (np.exp(h * T) - 1)
    A = (2 * h * np.exp((kappa + h) * T / 2) / den) ** (2 * kappa * theta / sigma**2)
    B = 2 * (np.exp(h * T) - 1) / den
    return A * np.exp(-B * r)


def heston_phi(u, T, v0, kappa, theta, sigma, rho):
    iu = 1j * u
    d = np.sqrt((rho * sigma * iu - kappa) ** 2 + sigma**2 * (iu + u**2))
    g = (kappa - rho * sigma * iu - d) / (kappa - rho * sigma * iu + d)
    C = (
        kappa
        * theta
        / sigma**2
        * ((kappa - rho * sigma * iu - d) * T - 2 * np.log((1 - g * np.exp(-d * T)) / (1 - g)))
    )
    D = (kappa - rho * sigma * iu - d) / sigma**2 * (1 - np.exp(-d * T)) / (1 - g * np.exp(-d * T))
    return np.exp(C + D * v0)


def heston_call(S, K, T, v0, kappa, theta, sigma, rho):
    k = np.log(K / S)

    def integrand(u):
        return (
            np.exp(-1j * u * k) * heston_phi(u - 0.5j, T, v0, kappa, theta, sigma, rho)
        ).real / (u**2 + 0.25)

    I = quad(integrand, 0, 60)[0]
    return S - np.sqrt(S * K) / np.pi * I


def main(sabr, cir, heston):
    alpha, beta, rho, nu = sabr
    F, T = 0.03, 2.0
    smile = np.array([hagan(alpha, beta, rho, nu, F, K, T) for K in [0.02, 0.025, 0.03, 0.035]])
    prices = [
        black(F, K, T, s, kind=k)
        for K, s, k in zip([0.02, 0.025, 0.03, 0.035], smile, ["put", "put", "call", "call"])
    ]
    bond = cir_bond(cir["r"], cir["kappa"], cir["theta"], cir["sigma"], 5.0)
    call = heston_call(100.0, 105.0, 1.0, *heston)
    return 100 * np.sum(prices) + bond + 0.1 * call


ARGUMENTS = (
    np.array([0.035, 0.5, -0.3, 0.4]),
    {"r": 0.03, "kappa": 0.5, "theta": 0.04, "sigma": 0.1},
    [0.04, 1.5, 0.05, 0.4, -0.6],
)


def check():
    assert abs(black(1.0, 1.0, 1.0, 0.2) - black(1.0, 1.0, 1.0, 0.2, "put")) < 1e-12
