"""Chemistry: Robertson's stiff reactions by implicit Euler, and rates from Arrhenius' law."""

import numpy as np
from numpy.linalg import norm, solve

R = 8.314e-3  # kJ / (mol K)

#             reactants    products
NETWORK = [
    ({"A": 1}, {"B": 1}),
    ({"B": 2}, {"C": 1, "B": 1}),
    ({"B": 1, "C": 1}, {"A": 1, "C": 1}),
]
SPECIES = ["A", "B", "C"]


def stoichiometry(network):
    orders = np.zeros((len(network), len(SPECIES)), dtype=int)
    net = np.zeros((len(network), len(SPECIES)))
    for r, (reactants, products) in enumerate(network):
        for name, n in reactants.items():
            orders[r, SPECIES.index(name)] = n
            net[r, SPECIES.index(name)] -= n
        for name, n in products.items():
            net[r, SPECIES.index(name)] += n
    return orders, net


class Reactor:
    def __init__(self, network, prefactors, activation):
        self.orders, self.net = stoichiometry(network)
        self.prefactors = prefactors
        self.activation = activation

    def rates(self, c, T):
        k = self.prefactors * np.exp(-self.activation / (R * T))
        return k * np.prod(c**self.orders, axis=1)

    def derivative(self, c, T):
        return self.rates(c, T) @ self.net

    def jacobian(self, c, T):
        r = self.rates(c, T)
        J = np.zeros((len(c), len(c)))
        for i in range(len(r)):
            for j in np.flatnonzero(self.orders[i]):
                J[:, j] += self.net[i] * self.orders[i, j] * r[i] / c[j]
        return J

    def implicit_euler(self, c, T, dt):
        new = np.maximum(c, 1e-12)
        for _ in range(20):
            residual = new - c - dt * self.derivative(new, T)
            delta = solve(np.eye(len(c)) - dt * self.jacobian(new, T), residual)
            new = new - delta
            if norm(delta) < 1e-13:
                return new
        raise RuntimeError("Newton did not converge")


def run(prefactors, activation, temperature, c0):
    reactor = Reactor(NETWORK, prefactors, activation)
    c = np.array(c0, dtype=float)
    t, dt, history = 0.0, 1e-3, [c]
    while t < 40.0:
        c = reactor.implicit_euler(c, temperature, dt)
        t += dt
        dt = min(1.5 * dt, 5.0)
        history.append(c)
    return np.array(history)


def main(log_prefactors, activation, temperature, c0):
    history = run(np.exp(log_prefactors), activation, temperature, c0)
    b_max = history[:, 1].max()
    return (history[-1, 2] - 0.3) ** 2 + 1e4 * b_max**2


ARGUMENTS = (
    np.array([13.0, 30.0, 22.0]),
    np.array([40.0, 33.0, 32.0]),
    300.0,
    np.array([0.97, 0.0002, 0.03]),
)


def check():
    history = run(np.exp(ARGUMENTS[0]), *ARGUMENTS[1:])
    np.testing.assert_allclose(history.sum(axis=1), 1.0002, atol=1e-9)  # mass is kept
    assert np.all(np.diff(history[:, 2]) > 0)
    reactor = Reactor(NETWORK, np.array([1.0, 2.0, 3.0]), np.zeros(3))
    c, h = np.array([0.5, 0.3, 0.2]), 1e-7
    numeric = [
        (reactor.derivative(c + h * e, 1.0) - reactor.derivative(c, 1.0)) / h for e in np.eye(3)
    ]
    np.testing.assert_allclose(reactor.jacobian(c, 1.0), np.transpose(numeric), atol=1e-5)
