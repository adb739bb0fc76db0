"""Weather: the Lorenz 96 model; cost function of 4D-Var and an ensemble Kalman filter step."""

import numpy as np

N, F = 12, 8.0


def lorenz96(x, forcing):
    return (np.roll(x, -1, axis=-1) - np.roll(x, 2, axis=-1)) * np.roll(x, 1, axis=-1) - x + forcing


def step(x, forcing, dt=0.025):
    k1 = lorenz96(x, forcing)
    k2 = lorenz96(x + dt / 2 * k1, forcing)
    k3 = lorenz96(x + dt / 2 * k2, forcing)
    k4 = lorenz96(x + dt * k3, forcing)
    return x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def run(x, forcing, steps):
    trajectory = np.empty((steps + 1,) + x.shape)
    trajectory[0] = x
    for n in range(steps):
        trajectory[n + 1] = step(trajectory[n], forcing)
    return trajectory


def spin_up():
    x = np.full(N, F)
    x[N // 2] += 0.01
    return run(x, F, 400)[-1]


def observe(x, every=2):
    return x[..., ::every]


def four_d_var(x0, background, observations, forcing, b_inverse, sigma, interval=4):
    departure = x0 - background
    cost = 0.5 * departure @ b_inverse @ departure
    trajectory = run(x0, forcing, interval * len(observations))
    for k, y in enumerate(observations, 1):
        misfit = (observe(trajectory[k * interval]) - y) / sigma
        cost += 0.5 * np.dot(misfit, misfit)
    return cost


def ensemble_update(ensemble, y, sigma, inflation):
    """Stochastic EnKF; members are rows."""
    mean = ensemble.mean(axis=0)
    X = inflation * (ensemble - mean)
    ensemble = mean + X
    Y = observe(X)
    covariance = Y.T @ Y / (len(X) - 1) + sigma**2 * np.eye(len(y))
    gain = np.linalg.solve(covariance, Y.T @ X / (len(X) - 1)).T
    rng = np.random.default_rng(0)
    perturbed = y + sigma * rng.standard_normal((len(X), len(y)))
    return ensemble + (perturbed - observe(ensemble)) @ gain.T


def main(x0, forcing, sigma, inflation):
    truth = run(spin_up(), F, 16)
    observations = [observe(truth[n]) for n in range(4, 17, 4)]
    correlation = 0.3 ** np.abs(np.subtract.outer(np.arange(N), np.arange(N)))
    cost = four_d_var(x0, truth[0] + 0.2, observations, forcing, np.linalg.inv(correlation), sigma)
    rng = np.random.default_rng(1)
    ensemble = run(x0 + 0.3 * rng.standard_normal((10, N)), forcing, 4)[-1]
    analysis = ensemble_update(ensemble, observations[0], sigma, inflation)
    return cost + np.sqrt(np.mean((analysis.mean(axis=0) - truth[4]) ** 2))


ARGUMENTS = (spin_up() + 0.1 * np.cos(np.arange(N)), 7.9, 0.5, 1.05)


def check():
    """Advection keeps the energy; the analysis is nearer to the truth than the forecast."""
    x = spin_up()
    assert abs(x @ (lorenz96(x, 0.0) + x)) < 1e-10
    rng = np.random.default_rng(2)
    members = x + rng.standard_normal((40, N))
    updated = ensemble_update(members, observe(x), 0.1, 1.0)
    errors = [np.linalg.norm(e.mean(axis=0)[::2] - x[::2]) for e in (members, updated)]
    assert errors[1] < errors[0]
