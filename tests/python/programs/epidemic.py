"""Epidemiology: SEIR by age group with a lockdown, fitted to weekly counts of cases."""

import numpy as np

AGES = ("young", "adult", "old")
POPULATION = np.array([2.0, 5.0, 1.5]) * 1e5
CONTACTS = np.array([[7.0, 3.0, 0.5], [3.0, 6.0, 1.2], [0.5, 1.2, 2.5]])


def lockdown(t, start, strength):
    """Smooth from 1 to 1 - strength."""
    return 1 - strength / (1 + np.exp(-(t - start) / 2.0))


def seir(y, t, beta, sigma, gamma, start, strength):
    S, E, I, R = y
    force = beta * lockdown(t, start, strength) * CONTACTS @ (I / POPULATION)
    infections = S * force
    dy = np.empty_like(y)
    dy[0] = -infections
    dy[1] = infections - sigma * E
    dy[2] = sigma * E - gamma * I
    dy[3] = gamma * I
    return dy


def rk4(f, y, t, dt, *args):
    k1 = f(y, t, *args)
    k2 = f(y + 0.5 * dt * k1, t + 0.5 * dt, *args)
    k3 = f(y + 0.5 * dt * k2, t + 0.5 * dt, *args)
    k4 = f(y + dt * k3, t + dt, *args)
    return y + dt / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)


def simulate(days, seeds, *parameters, dt=0.5):
    y = np.zeros((4, len(AGES)))
    y[2] = seeds
    y[0] = POPULATION - y[2]
    states = [y]
    for n in range(int(days / dt)):
        y = rk4(seir, y, n * dt, dt, *parameters)
        states.append(y)
    return np.stack(states)


def weekly_cases(states, detection, dt=0.5):
    susceptible = states[:: int(7 / dt), 0].sum(axis=1)
    return detection * -np.diff(susceptible)


OBSERVED = np.array([44.0, 102, 263, 581, 1003, 1100, 961, 774])


def reproduction_number(beta, gamma, iterations=100):
    """The dominant eigenvalue of the next-generation matrix, by power iteration."""
    K = beta / gamma * CONTACTS
    v = np.ones(len(K))
    for _ in range(iterations):
        w = K @ v
        r = np.linalg.norm(w)
        v = w / r
    return r


def main(beta, sigma, gamma, start, strength, seeds):
    states = simulate(56, seeds, beta, sigma, gamma, start, strength)
    expected = weekly_cases(states, 0.4)
    deviance = 2 * np.sum(OBSERVED * np.log(OBSERVED / expected) - (OBSERVED - expected))
    return deviance / 100 + (reproduction_number(beta, gamma) - 3.0) ** 2


ARGUMENTS = (0.06, 0.25, 0.2, 28.0, 0.7, np.array([10.0, 30.0, 5.0]))


def check():
    states = simulate(56, ARGUMENTS[-1], *ARGUMENTS[:-1])
    np.testing.assert_allclose(states.sum(axis=1), np.tile(POPULATION, (len(states), 1)))
    assert np.all(np.diff(states[:, 0].sum(axis=1)) < 0)
    largest = np.linalg.eigvalsh(0.06 / 0.2 * CONTACTS).max()
    assert abs(reproduction_number(0.06, 0.2) - largest) < 1e-10
