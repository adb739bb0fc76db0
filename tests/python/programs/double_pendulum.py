"""Mechanics: a double pendulum, Runge-Kutta over a list of state variables."""

from math import cos, pi, sin

from numpy import array, zeros

GRAVITY = 9.81


def derivatives(state, m1, m2, l1, l2):
    theta1, omega1, theta2, omega2 = state
    delta = theta1 - theta2
    d = 2 * m1 + m2 - m2 * cos(2 * delta)
    a1 = (
        -GRAVITY * (2 * m1 + m2) * sin(theta1)
        - m2 * GRAVITY * sin(theta1 - 2 * theta2)
        - 2 * sin(delta) * m2 * (omega2**2 * l2 + omega1**2 * l1 * cos(delta))
    ) / (l1 * d)
    a2 = (
        2
        * sin(delta)
        * (
            omega1**2 * l1 * (m1 + m2)
            + GRAVITY * (m1 + m2) * cos(theta1)
            + omega2**2 * l2 * m2 * cos(delta)
        )
    ) / (l2 * d)
    return array([omega1, a1, omega2, a2])


def simulate(state, parameters, dt, steps):
    history = zeros((steps + 1, 4))
    history[0] = state
    for n in range(steps):
        y = history[n]
        k1 = derivatives(y, *parameters)
        k2 = derivatives(y + dt / 2 * k1, *parameters)
        k3 = derivatives(y + dt / 2 * k2, *parameters)
        k4 = derivatives(y + dt * k3, *parameters)
        history[n + 1] = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return history


def energy(state, m1, m2, l1, l2):
    t1, w1, t2, w2 = state
    kinetic = 0.5 * m1 * (l1 * w1) ** 2 + 0.5 * m2 * (
        (l1 * w1) ** 2 + (l2 * w2) ** 2 + 2 * l1 * l2 * w1 * w2 * cos(t1 - t2)
    )
    potential = -(m1 + m2) * GRAVITY * l1 * cos(t1) - m2 * GRAVITY * l2 * cos(t2)
    return kinetic + potential


def tip(state, l1, l2):
    x = l1 * sin(state[0]) + l2 * sin(state[2])
    y = -l1 * cos(state[0]) - l2 * cos(state[2])
    return x, y


def main(theta1, theta2, m1, m2, l1, l2):
    history = simulate([theta1, 0.0, theta2, 0.0], (m1, m2, l1, l2), 0.02, 50)
    x, y = tip(history[-1], l1, l2)
    swing = max(abs(row[0]) for row in history)
    return (x - 0.5) ** 2 + (y + 1.5) ** 2 + 0.1 * swing


ARGUMENTS = (0.8, -0.4, 1.0, 0.7, 1.0, 0.9)


def check():
    parameters = (1.0, 0.7, 1.0, 0.9)
    history = simulate([pi / 3, 0.0, -0.4, 0.0], parameters, 0.01, 200)
    start, end = energy(history[0], *parameters), energy(history[-1], *parameters)
    assert abs(end - start) < 1e-4
