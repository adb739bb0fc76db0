"""Reinforcement learning: a softmax policy on a windy grid, evaluated exactly and by rollouts."""

import numpy as np

SIZE = 4
MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
GOAL, CLIFF = (3, 3), {(1, 1), (2, 1)}


def state(row, column):
    return row * SIZE + column


class GridWorld:
    def __init__(self, wind=0.1):
        n = SIZE * SIZE
        self.P = np.zeros((n, 4, n))
        self.R = np.full((n, 4), -0.04)
        for row in range(SIZE):
            for column in range(SIZE):
                s = state(row, column)
                if (row, column) == GOAL:
                    self.P[s, :, s] = 1.0
                    self.R[s] = 0.0
                    continue
                for a, move in enumerate(MOVES):
                    target = np.clip(np.array([row, column]) + move, 0, SIZE - 1)
                    blown = np.clip(target + [1, 0], 0, SIZE - 1)
                    self.P[s, a, state(*target)] += 1 - wind
                    self.P[s, a, state(*blown)] += wind
                    for probability, cell in ((1 - wind, target), (wind, blown)):
                        if tuple(cell) == GOAL:
                            self.R[s, a] += probability
                        elif tuple(cell) in CLIFF:
                            self.R[s, a] -= 0.5 * probability


def policy(logits, temperature=1.0):
    z = logits / temperature
    z -= z.max(axis=1)[:, None]
    np.exp(z, out=z)
    z /= z.sum(axis=1)[:, None]
    return z


def evaluate(world, pi, discount):
    P = np.einsum("sa,sat->st", pi, world.P)
    r = (pi * world.R).sum(axis=1)
    return np.linalg.solve(np.eye(len(P)) - discount * P, r)


def soft_value_iteration(world, discount, temperature, sweeps=30):
    V = np.zeros(SIZE * SIZE)
    for _ in range(sweeps):
        Q = world.R + discount * world.P @ V
        top = Q.max(axis=1)
        V = top + temperature * np.log(np.exp((Q - top[:, None]) / temperature).sum(axis=1))
    return V, Q


def main(logits, wind, discount, temperature):
    world = GridWorld(wind)
    pi = policy(logits.copy(), temperature)
    V = evaluate(world, pi, discount)
    best, _ = soft_value_iteration(world, discount, 0.1)
    entropy = -(pi * np.log(pi)).sum(axis=1)
    return best[0] - V[0] - 0.01 * entropy.mean()


ARGUMENTS = (0.5 * np.random.default_rng(3).standard_normal((16, 4)), 0.15, 0.9, 1.2)


def check():
    world = GridWorld()
    np.testing.assert_allclose(world.P.sum(axis=2), 1)
    _, Q = soft_value_iteration(world, 0.95, 1e-3, sweeps=100)
    greedy = evaluate(world, np.eye(4)[Q.argmax(axis=1)], 0.95)
    assert greedy[0] > evaluate(world, np.full((16, 4), 0.25), 0.95)[0]
    assert greedy[0] > 0.3
