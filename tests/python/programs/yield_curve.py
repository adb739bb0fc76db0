"""Finance: discount factors bootstrapped from swap rates, and a smooth curve through them."""

import numpy as np


class DiscountCurve:
    """Log-linear between its pillars."""

    def __init__(self):
        self.times = [0.0]
        self.factors = [1.0]

    def append(self, time, factor):
        self.times.append(time)
        self.factors.append(factor)

    def __call__(self, t):
        return np.exp(np.interp(t, self.times, np.log(self.factors)))

    def zero_rate(self, t):
        return -np.log(self(t)) / t

    def forward(self, t1, t2):
        return (self(t1) / self(t2) - 1) / (t2 - t1)


def bootstrap(deposits, swaps):
    """`deposits`: (time, rate); `swaps`: (years, par rate), paid yearly, with gaps between."""
    curve = DiscountCurve()
    for t, rate in deposits:
        curve.append(t, 1 / (1 + rate * t))
    for years, rate in swaps:
        last = curve.times[-1]
        known = sum(curve(t) for t in range(1, years) if t <= last)
        missing = [t for t in range(1, years + 1) if t > last]
        # Newton for the last factor, with the others between log-linear
        d0 = curve.factors[-1]
        d = d0 * np.exp(-rate * (years - last))
        for _ in range(20):
            w = [(t - last) / (years - last) for t in missing]
            between = [d0 ** (1 - x) * d**x for x in w]
            value = rate * (known + sum(between)) + d - 1
            slope = rate * sum(x * b / d for x, b in zip(w, between, strict=True)) + 1
            d = d - value / slope
            if abs(value) < 1e-14:
                break
        curve.append(float(years), d)
    return curve


def nelson_siegel(t, beta, tau):
    x = t / tau
    loading = (1 - np.exp(-x)) / x
    return beta[0] + beta[1] * loading + beta[2] * (loading - np.exp(-x))


def fit_beta(t, y, tau):
    x = t / tau
    loading = (1 - np.exp(-x)) / x
    A = np.c_[np.ones_like(t), loading, loading - np.exp(-x)]
    return np.linalg.solve(A.T @ A, A.T @ y)


def main(deposit_rates, swap_rates, tau):
    curve = bootstrap(
        zip((0.25, 0.5, 1.0), deposit_rates, strict=True),
        zip((2, 3, 5, 7, 10), swap_rates, strict=True),
    )
    t = np.array([0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 10.0])
    y = curve.zero_rate(t)
    beta = fit_beta(t, y, tau)
    misfit = 1e4 * np.sqrt(np.mean((nelson_siegel(t, beta, tau) - y) ** 2))
    return misfit + 100 * curve.forward(4.5, 5.5)


ARGUMENTS = (np.array([0.021, 0.023, 0.026]), np.array([0.028, 0.03, 0.033, 0.034, 0.036]), 2.1)


def check():
    deposits, swaps, _ = ARGUMENTS
    curve = bootstrap(zip((0.25, 0.5, 1.0), deposits), zip((2, 3, 5, 7, 10), swaps))
    for years, rate in zip((2, 3, 5, 7, 10), swaps):
        annuity = sum(curve(t) for t in range(1, years + 1))
        assert abs(rate * annuity + curve(years) - 1) < 1e-12
    assert all(np.diff(curve.factors) < 0)
