"""Hydrology: a bucket model of a catchment with snow, and routing, judged as Nash and Sutcliffe."""

import math

import numpy as np


class Catchment:
    """Snow pack, soil, and two linear reservoirs, after HBV."""

    def __init__(self, melt, capacity, beta, k_fast, k_slow, percolation):
        self.melt, self.capacity, self.beta = melt, capacity, beta
        self.k_fast, self.k_slow, self.percolation = k_fast, k_slow, percolation
        self.snow, self.soil, self.upper, self.lower = 0.0, 0.5 * capacity, 2.0, 10.0

    def day(self, rain, temperature):
        if temperature < 0:
            self.snow += rain
            water = 0.0
        else:
            melted = min(self.snow, self.melt * temperature)
            self.snow -= melted
            water = rain + melted
        recharge = water * (self.soil / self.capacity) ** self.beta
        self.soil += water - recharge
        if self.soil > self.capacity:
            recharge += self.soil - self.capacity
            self.soil = self.capacity
        wetness = min(self.soil / (0.7 * self.capacity), 1.0)
        evaporation = max(0.0, 0.15 * temperature) * wetness
        self.soil = max(self.soil - evaporation, 0.0)
        self.upper += recharge
        down = min(self.percolation, self.upper)
        self.upper -= down
        self.lower += down
        fast = self.k_fast * self.upper
        slow = self.k_slow * self.lower
        self.upper -= fast
        self.lower -= slow
        return fast + slow

    def storage(self):
        return self.snow + self.soil + self.upper + self.lower


def triangle(days):
    """Weights of the unit hydrograph of MAXBAS, from the area under a triangle."""
    n = math.ceil(days)
    weights = np.zeros(n)
    for i in range(n):
        edges = (i, min(i + 1.0, days))
        area = [2 * (e / days) ** 2 if e < days / 2 else 1 - 2 * (1 - e / days) ** 2 for e in edges]
        weights[i] = area[1] - area[0]
    return weights


def weather(days=90, seed=14):
    rng = np.random.default_rng(seed)
    rain = rng.gamma(0.4, 9.0, days)
    temperature = -3.0 + 0.18 * np.arange(days) + rng.normal(0, 2.0, days)
    return rain, temperature


def discharge(parameters, maxbas):
    catchment = Catchment(*parameters)
    runoff = np.array([catchment.day(r, t) for r, t in zip(*weather())])
    return np.convolve(runoff, triangle(maxbas))[: len(runoff)]


def nash_sutcliffe(simulated, observed):
    return 1 - np.sum((simulated - observed) ** 2) / np.sum((observed - observed.mean()) ** 2)


OBSERVED = discharge((2.5, 120.0, 2.2, 0.25, 0.04, 1.5), 2.6)


def main(parameters, maxbas):
    q = discharge(parameters, maxbas)
    bias = q.sum() / OBSERVED.sum() - 1
    high = np.sqrt(np.mean((np.sort(q)[-10:] - np.sort(OBSERVED)[-10:]) ** 2))
    return 1 - nash_sutcliffe(q[10:], OBSERVED[10:]) + bias**2 + 0.1 * high


ARGUMENTS = (np.array([2.1, 140.0, 1.9, 0.3, 0.05, 1.2]), 2.3)


def check():
    assert abs(triangle(3.4).sum() - 1) < 1e-12
    assert nash_sutcliffe(OBSERVED, OBSERVED) == 1.0
    catchment = Catchment(*ARGUMENTS[0])
    before = catchment.storage()
    out = sum(catchment.day(r, -1.0 if n < 20 else 0.0) for n, r in enumerate(np.full(40, 3.0)))
    assert abs(catchment.storage() + out - before - 120.0) < 1e-9  # no evaporation at zero
