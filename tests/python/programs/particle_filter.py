"""Robotics: a particle filter, with systematic resampling, and the likelihood of its noise."""

import numpy as np
from numpy.random import randn, uniform


def create_uniform_particles(x_range, y_range, hdg_range, N):
    particles = np.empty((N, 3))
    particles[:, 0] = uniform(x_range[0], x_range[1], size=N)
    particles[:, 1] = uniform(y_range[0], y_range[1], size=N)
    particles[:, 2] = uniform(hdg_range[0], hdg_range[1], size=N)
    particles[:, 2] %= 2 * np.pi
    return particles


def predict(particles, u, std, dt=1.0):
    N = len(particles)
    particles[:, 2] += u[0] + (randn(N) * std[0])
    particles[:, 2] %= 2 * np.pi
    dist = (u[1] * dt) + (randn(N) * std[1])
    particles[:, 0] += np.cos(particles[:, 2]) * dist
    particles[:, 1] += np.sin(particles[:, 2]) * dist


def update(particles, weights, z, R, landmarks):
    for i, landmark in enumerate(landmarks):
        distance = np.linalg.norm(particles[:, 0:2] - landmark, axis=1)
        weights *= np.exp(-0.5 * ((z[i] - distance) / R) ** 2) / (R * np.sqrt(2 * np.pi))
    weights += 1.0e-300
    total = sum(weights)
    weights /= total
    return total


def estimate(particles, weights):
    pos = particles[:, 0:2]
    mean = np.average(pos, weights=weights, axis=0)
    var = np.average((pos - mean) ** 2, weights=weights, axis=0)
    return mean, var


def neff(weights):
    return 1.0 / np.sum(np.square(weights))


def systematic_resample(weights, u):
    N = len(weights)
    positions = (np.arange(N) + u) / N
    indexes = np.zeros(N, "i")
    cumulative_sum = np.cumsum(weights)
    i, j = 0, 0
    while i < N:
        if positions[i] < cumulative_sum[j]:
            indexes[i] = j
            i += 1
        else:
            j += 1
    return indexes


def resample_from_index(particles, weights, indexes):
    particles[:] = particles[indexes]
    weights.resize(len(particles))
    weights.fill(1.0 / len(weights))


def main(turn_noise, speed_noise, sensor_std, speed):
    np.random.seed(7)
    N = 60
    landmarks = np.array([[-1, 2], [5, 10], [12, 14], [18, 21]], dtype=float)
    particles = create_uniform_particles((0, 2), (0, 2), (0, 1.5), N)
    weights = np.ones(N) / N
    loglik = 0
    robot_pos = np.array([0.0, 0.0])
    for x in range(6):
        robot_pos = robot_pos + (1, 1)
        zs = np.linalg.norm(landmarks - robot_pos, axis=1) + 0.1 * np.sin(x)
        predict(particles, u=(0.00, speed), std=(turn_noise, speed_noise))
        loglik += np.log(update(particles, weights, z=zs, R=sensor_std, landmarks=landmarks))
        if neff(weights) < N / 2:
            indexes = systematic_resample(weights, 0.35)
            resample_from_index(particles, weights, indexes)
            assert np.allclose(weights, 1 / N)
    mu, var = estimate(particles, weights)
    return loglik + mu[0] + var.sum()


ARGUMENTS = (0.05, 0.1, 2.0, 1.414)


def check():
    assert systematic_resample(np.array([0.5, 0.5]), 0.5).tolist() == [0, 1]
