"""Finance: a book of European options by Black and Scholes, and implied volatilities."""

from math import erf, exp, log, pi, sqrt

import numpy as np


def cdf(x):
    return 0.5 * (1.0 + erf(x / sqrt(2.0)))


def pdf(x):
    return exp(-0.5 * x * x) / sqrt(2 * pi)


class Option:
    def __init__(self, strike, expiry, kind="call", quantity=1):
        if kind not in ("call", "put"):
            raise ValueError(kind)
        self.strike, self.expiry, self.kind, self.quantity = strike, expiry, kind, quantity

    def d1_d2(self, spot, rate, sigma):
        root = sigma * sqrt(self.expiry)
        d1 = (log(spot / self.strike) + (rate + 0.5 * sigma**2) * self.expiry) / root
        return d1, d1 - root

    def price(self, spot, rate, sigma):
        d1, d2 = self.d1_d2(spot, rate, sigma)
        sign = 1 if self.kind == "call" else -1
        discounted = self.strike * exp(-rate * self.expiry)
        return sign * (spot * cdf(sign * d1) - discounted * cdf(sign * d2))

    def vega(self, spot, rate, sigma):
        d1, _ = self.d1_d2(spot, rate, sigma)
        return spot * pdf(d1) * sqrt(self.expiry)

    def implied_volatility(self, price, spot, rate):
        sigma = 0.2
        for _ in range(50):
            error = self.price(spot, rate, sigma) - price
            if abs(error) < 1e-12:
                return sigma
            sigma -= error / self.vega(spot, rate, sigma)
            sigma = min(max(sigma, 0.01), 3.0)
        return sigma


def smile(strike, spot, skew):
    moneyness = log(strike / spot)
    return 0.2 + skew[0] * moneyness + skew[1] * moneyness**2


def main(spot, rate, skew):
    book = [
        Option(95.0, 0.5, "put", 10),
        Option(105.0, 0.5, "call", -5),
        Option(100.0, 1.0, "call", 8),
        Option(120.0, 2.0, kind="call", quantity=-12),
    ]
    value = sum(o.quantity * o.price(spot, rate, smile(o.strike, spot, skew)) for o in book)
    quotes = np.array([9.1, 7.4, 6.0])
    implied = np.array(
        [Option(k, 1.0).implied_volatility(q, spot, rate) for k, q in zip((100, 104, 108), quotes)]
    )
    model = np.array([smile(k, spot, skew) for k in (100, 104, 108)])
    return 0.1 * value + 100 * np.sum((implied - model) ** 2)


ARGUMENTS = (101.0, 0.02, np.array([-0.1, 0.3]))


def check():
    call, put = Option(95.0, 0.7), Option(95.0, 0.7, "put")
    parity = call.price(100.0, 0.03, 0.25) - put.price(100.0, 0.03, 0.25)
    assert abs(parity - (100.0 - 95.0 * exp(-0.03 * 0.7))) < 1e-12
    assert abs(call.implied_volatility(call.price(100.0, 0.03, 0.31), 100.0, 0.03) - 0.31) < 1e-10
