"""Many small steps: gathers that are multiplied and summed, an integrator of a banded system."""

from collections.abc import Callable

import numpy as np

from rows._row import Arrays, Row, rng

# gathers: 300 steps of twenty indices each


def gathers(np, x, w, rows, columns):
    total = 0.0
    for r, c in zip(rows, columns, strict=True):
        total = total + np.sum(x[r] * w[c])
    return total


def gathers_by_hand(x, w, rows, columns):
    total, dx, dw = 0.0, np.zeros_like(x), np.zeros_like(w)
    for r, c in zip(rows, columns, strict=True):
        total += np.sum(x[r] * w[c])
        np.add.at(dx, r, w[c])
        np.add.at(dw, c, x[r])
    return total, (dx, dw)


def gathers_jax(jnp, x, w, rows, columns):
    import jax

    def step(total, at):
        r, c = at
        return total + jnp.sum(x[r] * w[c]), None

    return jax.lax.scan(step, jnp.zeros((), x.dtype), (rows, columns))[0]


def gathers_data(steps: int = 300, size: int = 1_000) -> Arrays:
    draw = rng()
    return (
        draw.normal(size=size),
        draw.normal(size=size),
        draw.integers(0, size, (steps, 20)),
        draw.integers(0, size, (steps, 20)),
    )


# rk4-banded: y' = A y with three bands, 100 steps of the classical method


def integrate(slope: Callable, y, h: float = 0.01, steps: int = 100):
    for _ in range(steps):
        y = rk4(slope, y, h)
    return y


def rk4(slope: Callable, y, h: float):
    k1 = slope(y)
    k2 = slope(y + h / 2 * k1)
    k3 = slope(y + h / 2 * k2)
    k4 = slope(y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def rk4_banded(np, y, low, middle, high):
    def slope(y):
        dy = middle * y
        dy[1:] += low * y[:-1]
        dy[:-1] += high * y[1:]
        return dy

    return np.sum(integrate(slope, y) ** 2)


def rk4_banded_jax(jnp, y, low, middle, high):
    import jax

    def slope(y):
        dy = middle * y
        return dy.at[1:].add(low * y[:-1]).at[:-1].add(high * y[1:])

    last, _ = jax.lax.scan(lambda y, _: (rk4(slope, y, 0.01), None), y, None, length=100)
    return jnp.sum(last**2)


def rk4_banded_autograd(np, y, low, middle, high):
    zero = np.zeros(1)

    def slope(y):
        below = np.concatenate((zero, low * y[:-1]))
        return middle * y + below + np.concatenate((high * y[1:], zero))

    return np.sum(integrate(slope, y) ** 2)


def rk4_banded_data(n: int = 200) -> Arrays:
    draw = rng()
    return (
        draw.normal(size=n),
        draw.uniform(1, 2, n - 1),
        -draw.uniform(3, 4, n),
        draw.uniform(1, 2, n - 1),
    )


ROWS = [
    Row(
        "gathers",
        gathers_data,
        gathers,
        gathers_by_hand,
        wrt=(0, 1),
        tiny=lambda: gathers_data(4, 30),
        jax=gathers_jax,
        loose=16,
    ),
    Row(
        "rk4-banded",
        rk4_banded_data,
        rk4_banded,
        wrt=(0, 1, 2, 3),
        tiny=lambda: rk4_banded_data(6),
        jax=rk4_banded_jax,
        autograd=rk4_banded_autograd,
    ),
]
