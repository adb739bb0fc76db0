"""Finance: an American put with a dividend, on the tree of Cox, Ross and Rubinstein."""

import numpy as np


def american_put(
    spot, strike, rate, sigma, maturity, steps, dividend=(None, 0.0), style="american"
):
    dt = maturity / steps
    up = np.exp(sigma * np.sqrt(dt))
    down = 1 / up
    discount = np.exp(-rate * dt)
    p = (np.exp(rate * dt) - down) / (up - down)
    if not 0 < p < 1:
        raise ValueError("too few steps for this volatility")
    ex_date, amount = dividend
    if ex_date is not None:
        spot = spot - amount * np.exp(-rate * ex_date)

    def prices(n):
        j = np.arange(n + 1)
        s = spot * up ** (n - j) * down**j
        t = n * dt
        if ex_date is not None and t < ex_date:
            s += amount * np.exp(-rate * (ex_date - t))
        return s

    values = np.maximum(strike - prices(steps), 0.0)
    boundary = []
    for n in range(steps - 1, -1, -1):
        values = discount * (p * values[:-1] + (1 - p) * values[1:])
        if style == "american":
            s = prices(n)
            exercise = np.maximum(strike - s, 0.0)
            early = exercise > values
            values[early] = exercise[early]
            if early.any():
                boundary.append(s[early].max())
    return values[0], boundary


def main(spot, rate, sigma, amount):
    price, boundary = american_put(spot, 100.0, rate, sigma, 1.0, 41, dividend=(0.4, amount))
    return price + 0.01 * np.mean(boundary)


ARGUMENTS = (98.3, 0.053, 0.271, 1.9)


def check():
    european, _ = american_put(98.3, 100.0, 0.05, 0.27, 1.0, 200, style="european")
    american, boundary = american_put(98.3, 100.0, 0.05, 0.27, 1.0, 200)
    assert american > european
    assert max(boundary) < 100.0
    assert abs(european - 9.0) < 0.5  # by the formula: 8.98
