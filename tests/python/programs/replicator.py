"""Game theory: replicator and logit dynamics of a game with mutation; a mixed equilibrium."""

import numpy as np


class Game:
    def __init__(self, payoff, names=None):
        self.payoff = np.asarray(payoff, dtype=float)
        if self.payoff.ndim != 2 or self.payoff.shape[0] != self.payoff.shape[1]:
            raise ValueError("a symmetric game has a square matrix")
        self.names = names or [str(i) for i in range(len(self.payoff))]

    def fitness(self, x):
        return self.payoff.dot(x)

    def replicator(self, x, mutation=0.0):
        f = self.fitness(x)
        growth = x * (f - x.dot(f))
        return growth + mutation * (1 / len(x) - x)

    def logit_response(self, x, temperature):
        f = self.fitness(x) / temperature
        e = np.exp(f - f.max())
        return e / e.sum()

    def interior_equilibrium(self):
        """Equal fitness of all strategies, shares that sum to one."""
        n = len(self.payoff)
        A = np.zeros((n + 1, n + 1))
        A[:n, :n] = self.payoff
        A[:n, n] = -1
        A[n, :n] = 1
        b = np.zeros(n + 1)
        b[n] = 1
        x = np.linalg.solve(A, b)[:n]
        return x if (x > 0).all() else None


def evolve(game, x, dt, steps, mutation):
    orbit = [x]
    for _ in range(steps):
        x = orbit[-1]
        k = game.replicator(x, mutation)
        x = x + dt * game.replicator(x + 0.5 * dt * k, mutation)
        x = np.clip(x, 0, 1)
        x /= np.sum(x)
        orbit.append(x)
    return np.vstack(orbit)


def quantal_equilibrium(game, temperature, tolerance=1e-12):
    x = np.full(len(game.payoff), 1 / len(game.payoff))
    for _ in range(500):
        new = 0.5 * x + 0.5 * game.logit_response(x, temperature)
        if np.linalg.norm(new - x) < tolerance:
            break
        x = new
    return new


def kl(p, q):
    mask = p > 0
    return np.sum(p[mask] * np.log(p[mask] / q[mask]))


def main(payoff, start, mutation, temperature):
    game = Game(payoff, ["rock", "paper", "scissors"])
    x = np.exp(start) / np.sum(np.exp(start))
    orbit = evolve(game, x, 0.1, 40, mutation)
    equilibrium = game.interior_equilibrium()
    mean = orbit.mean(axis=0)
    quantal = quantal_equilibrium(game, temperature)
    return kl(mean, quantal) + 10 * kl(orbit[-1], equilibrium) + np.ptp(orbit[:, 0])


ARGUMENTS = (
    np.array([[0.0, -1.0, 1.2], [1.1, 0.0, -0.9], [-1.0, 1.3, 0.0]]),
    np.array([0.6, 0.0, -0.4]),
    0.02,
    0.7,
)


def check():
    game = Game([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    np.testing.assert_allclose(game.interior_equilibrium(), 1 / 3)
    orbit = evolve(game, np.array([0.5, 0.3, 0.2]), 0.01, 500, 0.0)
    invariant = orbit.prod(axis=1)
    np.testing.assert_allclose(invariant, invariant[0], rtol=1e-4)
    np.testing.assert_allclose(quantal_equilibrium(game, 1.0), 1 / 3)
