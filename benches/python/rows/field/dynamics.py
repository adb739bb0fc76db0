"""Trajectories: an attractor, bodies, heat, a pendulum, predators and their prey, a satellite."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rows._row import Arrays, Row, rng
from rows.field._names import array
from rows.steps import rk4

# lorenz: 200 steps of the classical method, three numbers and three parameters


def lorenz_slope(np, parameters) -> Callable[[Any], Any]:
    sigma, rho, beta = parameters

    def slope(state):
        x, y, z = state
        return array(np, [sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

    return slope


def lorenz(np, state, parameters, times):
    slope = lorenz_slope(np, parameters)
    for _ in times:
        state = rk4(slope, state, 0.01)
    return np.sum(state**2)


def lorenz_jax(jnp, state, parameters, times):
    import jax

    slope = lorenz_slope(jnp, parameters)
    last, _ = jax.lax.scan(lambda s, _: (rk4(slope, s, 0.01), None), state, times)
    return jnp.sum(last**2)


def lorenz_data(steps: int = 200) -> Arrays:
    return np.array([1.0, 1.0, 1.0]), np.array([10.0, 28.0, 8 / 3]), np.arange(steps)


# n-body: 100 bodies, 10 steps of the classical method


def bodies_slope(np, masses) -> Callable[[Any], Any]:
    def slope(state):
        places, speeds = state[0], state[1]
        between = places[None, :, :] - places[:, None, :]
        cubes = (np.sum(between**2, -1) + 0.1) ** 1.5
        pull = np.sum(masses[None, :, None] * between / cubes[:, :, None], 1)
        return np.stack((speeds, pull))

    return slope


def n_body(np, state, masses, times):
    slope = bodies_slope(np, masses)
    for _ in times:
        state = rk4(slope, state, 0.01)
    return np.sum(state[0] ** 2) + np.sum(masses[:, None] * state[1] ** 2)


def n_body_jax(jnp, state, masses, times):
    import jax

    slope = bodies_slope(jnp, masses)
    state, _ = jax.lax.scan(lambda s, _: (rk4(slope, s, 0.01), None), state, times)
    return jnp.sum(state[0] ** 2) + jnp.sum(masses[:, None] * state[1] ** 2)


def n_body_data(n: int = 100, steps: int = 10) -> Arrays:
    draw = rng()
    return draw.normal(size=(2, n, 3)), draw.uniform(0.5, 1.5, n) / n, np.arange(steps)


# heat: 50 explicit steps on 64 × 64 cells, with respect to what was there and what conducts


def heat_step(np, u, conductivity):
    around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
    return u + conductivity * (around - 4 * u)


def heat(np, u, conductivity, wanted, times):
    for _ in times:
        u = heat_step(np, u, conductivity)
    return np.mean((u - wanted) ** 2)


def heat_jax(jnp, u, conductivity, wanted, times):
    import jax

    u, _ = jax.lax.scan(lambda u, _: (heat_step(jnp, u, conductivity), None), u, times)
    return jnp.mean((u - wanted) ** 2)


def heat_data(n: int = 64, steps: int = 50) -> Arrays:
    draw = rng()
    return (
        draw.uniform(size=(n, n)),
        draw.uniform(0.05, 0.2, (n, n)),
        draw.uniform(size=(n, n)),
        np.arange(steps),
    )


# pendulum: the torques that lift it within 200 steps


def pendulum_step(np, angle, speed, torque):
    speed = speed + 0.05 * (torque - 9.81 * np.sin(angle) - 0.1 * speed)
    return angle + 0.05 * speed, speed


def pendulum(np, torques, start):
    angle, speed = start[0], start[1]
    cost = 0.0
    for torque in torques:
        angle, speed = pendulum_step(np, angle, speed, torque)
        cost = cost + 0.001 * torque**2 + 0.01 * (1 + np.cos(angle))
    return cost + 10 * (1 + np.cos(angle)) + speed**2


def pendulum_jax(jnp, torques, start):
    import jax

    def step(state, torque):
        angle, speed, cost = state
        angle, speed = pendulum_step(jnp, angle, speed, torque)
        return (angle, speed, cost + 0.001 * torque**2 + 0.01 * (1 + jnp.cos(angle))), None

    (angle, speed, cost), _ = jax.lax.scan(step, (start[0], start[1], 0.0), torques)
    return cost + 10 * (1 + jnp.cos(angle)) + speed**2


def pendulum_data(steps: int = 200) -> Arrays:
    return rng().normal(size=steps), np.array([0.1, 0.0])


# ode-calibration: four parameters of predators and prey, 100 observations


def predators_slope(np, parameters) -> Callable[[Any], Any]:
    a, b, c, d = parameters

    def slope(state):
        prey, hunters = state
        return array(np, [a * prey - b * prey * hunters, d * prey * hunters - c * hunters])

    return slope


def ode_calibration(np, parameters, start, seen):
    slope = predators_slope(np, parameters)
    state, total = start, 0.0
    for wanted in seen:
        state = rk4(slope, state, 0.1)
        total = total + np.sum((state - wanted) ** 2)
    return total


def ode_calibration_jax(jnp, parameters, start, seen):
    import jax

    slope = predators_slope(jnp, parameters)

    def step(state, wanted):
        state = rk4(slope, state, 0.1)
        return state, jnp.sum((state - wanted) ** 2)

    return jnp.sum(jax.lax.scan(step, start, seen)[1])


def ode_calibration_data(steps: int = 100) -> Arrays:
    seen = rng().uniform(0.5, 3, (steps, 2))
    return np.array([1.1, 0.4, 0.4, 0.1]), np.array([2.0, 1.0]), seen


# satellites: formulas of numbers as in SGP4: secular drift, drag, Kepler's equation, 20 moments


def place(np, elements, time):
    motion, eccentricity, inclination, node, perigee, anomaly, drag = elements
    j2, kappa = 1.082616e-3, 0.0743669161
    cos_i, sin_i = np.cos(inclination), np.sin(inclination)
    axis = (kappa / motion) ** (2 / 3)
    root = np.sqrt(1 - eccentricity * eccentricity)
    rate = 1.5 * j2 * motion / (axis * axis * root**4)
    mean = anomaly + (motion + rate * root * (1.5 * cos_i * cos_i - 0.5)) * time
    mean = mean + 1.5 * motion * drag * time * time
    perigee = perigee + rate * (2.5 * cos_i * cos_i - 0.5) * time
    node = node - rate * cos_i * time
    axis = axis * (1 - drag * time) ** 2
    e = eccentricity - 0.1 * drag * time
    angle = mean + e * np.sin(mean)
    for _ in range(5):
        angle = angle - (angle - e * np.sin(angle) - mean) / (1 - e * np.cos(angle))
    along = axis * (np.cos(angle) - e)
    across = axis * np.sqrt(1 - e * e) * np.sin(angle)
    cos_p, sin_p = np.cos(perigee), np.sin(perigee)
    cos_n, sin_n = np.cos(node), np.sin(node)
    u = along * cos_p - across * sin_p
    v = along * sin_p + across * cos_p
    return u * cos_n - v * cos_i * sin_n, u * sin_n + v * cos_i * cos_n, v * sin_i


def satellite(np, elements, times, seen):
    total = 0.0
    for time, wanted in zip(times, seen, strict=True):
        x, y, z = place(np, elements, time)
        total = total + (x - wanted[0]) ** 2 + (y - wanted[1]) ** 2 + (z - wanted[2]) ** 2
    return total


def satellite_jax(jnp, elements, times, seen):
    import jax

    places = jnp.stack(jax.vmap(lambda time: place(jnp, elements, time))(times), -1)
    return jnp.sum((places - seen) ** 2)


def satellite_data(n: int = 20) -> Arrays:
    elements = np.array([0.0588, 0.15, 0.9, 1.2, 0.4, 0.3, 1e-5])
    return elements, np.linspace(1, 200, n), rng().normal(size=(n, 3))


ROWS = [
    Row(
        "lorenz",
        lorenz_data,
        lorenz,
        wrt=(0, 1),
        tiny=lambda: lorenz_data(5),
        jax=lorenz_jax,
        step=1e-4,
        loose=64,
    ),
    Row(
        "n-body",
        n_body_data,
        n_body,
        wrt=(0, 1),
        tiny=lambda: n_body_data(3, 2),
        jax=n_body_jax,
    ),
    Row(
        "heat",
        heat_data,
        heat,
        wrt=(0, 1),
        tiny=lambda: heat_data(4, 3),
        jax=heat_jax,
    ),
    Row("pendulum", pendulum_data, pendulum, tiny=lambda: pendulum_data(6), jax=pendulum_jax),
    Row(
        "ode-calibration",
        ode_calibration_data,
        ode_calibration,
        tiny=lambda: ode_calibration_data(4),
        jax=ode_calibration_jax,
        step=1e-4,
        loose=64,
    ),
    Row(
        "satellite",
        satellite_data,
        satellite,
        tiny=lambda: satellite_data(2),
        jax=satellite_jax,
        step=1e-6,
        loose=64,
    ),
]
