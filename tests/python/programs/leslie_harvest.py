"""Ecology: a stage-structured population: growth rate, harvest, crowding."""

import numpy as np
from scipy import optimize


class Population:
    def __init__(self, fecundity, survival, adult_survival):
        n = len(fecundity)
        self.L = np.zeros((n, n))
        self.L[0, :] = fecundity
        self.L[np.arange(1, n), np.arange(n - 1)] = survival
        self.L[-1, -1] = adult_survival

    def growth_rate(self):
        """The dominant eigenvalue and the stable stage distribution, by power iteration."""
        w = np.ones(len(self.L))
        for _ in range(200):
            w_next = self.L @ w
            rate = w_next.sum() / w.sum()
            w_next /= w_next.sum()
            if np.allclose(w_next, w, rtol=0, atol=1e-14):
                break
            w = w_next
        return rate, w_next

    def reproductive_value(self):
        rate, _ = self.growth_rate()
        v = np.ones(len(self.L))
        for _ in range(200):
            v = v @ self.L / rate
        return v / v[0]

    def net_reproduction(self):
        T = self.L.copy()
        T[0] = 0
        N = np.linalg.inv(np.eye(len(T)) - T)
        return self.L[0] @ N[:, 0]

    def project(self, start, years, harvest, capacity):
        sizes = np.empty((years + 1, len(start)))
        sizes[0] = start
        for t in range(years):
            crowding = 1 / (1 + sizes[t].sum() / capacity)
            sizes[t + 1] = (1 - harvest) * (self.L @ sizes[t])
            sizes[t + 1, 0] *= crowding
        return sizes


def sustainable_harvest(population):
    """The share that keeps the population constant."""
    rate, _ = population.growth_rate()
    return 1 - 1 / rate


def main(fecundity, survival, adult_survival, harvest):
    population = Population(fecundity, survival, adult_survival)
    rate, stable = population.growth_rate()
    sizes = population.project(100 * stable, 25, harvest, 500.0)
    catch = harvest / (1 - harvest) * sizes[1:].sum()
    value = population.reproductive_value()
    shannon = -np.sum(stable * np.log(stable))
    return (
        -0.01 * catch
        + (rate - 1.1) ** 2
        + 0.1 * shannon
        + 1e-2 * value[-1]
        + population.net_reproduction()
    )


ARGUMENTS = (np.array([0.0, 0.6, 1.4, 1.9]), np.array([0.4, 0.6, 0.7]), 0.5, 0.08)


def check():
    population = Population(*ARGUMENTS[:3])
    rate, stable = population.growth_rate()
    assert abs(rate - np.max(np.abs(np.linalg.eigvals(population.L)))) < 1e-10
    np.testing.assert_allclose(population.L @ stable, rate * stable, atol=1e-12)
    h = optimize.brentq(lambda h: (1 - h) * rate - 1, 0, 0.9)
    assert abs(h - sustainable_harvest(population)) < 1e-12
