"""Sequences: filters, hidden states, alignments and a recurrent network."""

import itertools
import math

import numpy as np

from rows._row import Arrays, Row, rng
from rows.field._names import logsumexp

# lstm: two layers of 14 units, elementwise weights, 100 characters, from ADBench


def sigmoid(np, x):
    return 1 / (1 + np.exp(-x))


def cell(np, weights, biases, hidden, memory, x):
    forget = sigmoid(np, x * weights[0] + biases[0])
    gate = sigmoid(np, hidden * weights[1] + biases[1])
    out = sigmoid(np, x * weights[2] + biases[2])
    change = np.tanh(hidden * weights[3] + biases[3])
    memory = memory * forget + gate * change
    return out * np.tanh(memory), memory


def predict(np, main, extra, state, x):
    """Give the next character and the state of all layers behind it."""
    x, states = x * extra[0], []
    for weights, (hidden, memory) in zip(main, state, strict=True):
        x, kept = cell(np, weights[0], weights[1], hidden, memory, x)
        states.append((x, kept))
    return x * extra[1] + extra[2], states


def fit(np, found, wanted):
    """Weigh the logarithm of a softmax; ADBench adds 2 to its sum."""
    return np.sum(wanted * (found - np.log(np.sum(np.exp(found)) + 2)))


def lstm(np, main, extra, start, text):
    state, total = [(layer[0], layer[1]) for layer in start], 0.0
    for now, following in itertools.pairwise(text):
        found, state = predict(np, main, extra, state, now)
        total = total + fit(np, found, following)
    return -total / ((len(text) - 1) * text.shape[1])


def lstm_jax(jnp, main, extra, start, text):
    import jax

    def step(state, pair):
        found, state = predict(jnp, main, extra, state, pair[0])
        return state, fit(jnp, found, pair[1])

    state = [(layer[0], layer[1]) for layer in start]
    _, fits = jax.lax.scan(step, state, (text[:-1], text[1:]))
    return -jnp.sum(fits) / ((len(text) - 1) * text.shape[1])


def lstm_data(length: int = 100, units: int = 14, layers: int = 2) -> Arrays:
    draw = rng()
    return (
        draw.normal(size=(layers, 2, 4, units)),
        draw.normal(size=(3, units)),
        draw.normal(size=(layers, 2, units)),
        np.eye(units)[draw.integers(0, units, length)],
    )


# kalman: the likelihood of 100 places, with respect to the dynamics and both noises


def kalman_step(np, dynamics, process, noise, look, x, p, seen):
    x = dynamics @ x
    p = dynamics @ p @ dynamics.T + process
    surprise = seen - look @ x
    s = look @ p @ look.T + noise
    inverse = np.linalg.inv(s)
    gain = p @ look.T @ inverse
    likelihood = -0.5 * (surprise @ inverse @ surprise + np.linalg.slogdet(s)[1])
    return x + gain @ surprise, p - gain @ look @ p, likelihood


def kalman(np, dynamics, log_process, log_noise, look, seen):
    process, noise = np.diag(np.exp(log_process)), np.diag(np.exp(log_noise))
    x, p, total = np.zeros(len(dynamics)), np.eye(len(dynamics)), 0.0
    for y in seen:
        x, p, likelihood = kalman_step(np, dynamics, process, noise, look, x, p, y)
        total = total + likelihood
    return total - len(seen) * math.log(2 * math.pi)


def kalman_jax(jnp, dynamics, log_process, log_noise, look, seen):
    import jax

    process, noise = jnp.diag(jnp.exp(log_process)), jnp.diag(jnp.exp(log_noise))

    def step(state, y):
        x, p, likelihood = kalman_step(jnp, dynamics, process, noise, look, *state, y)
        return (x, p), likelihood

    start = jnp.zeros(len(dynamics)), jnp.eye(len(dynamics))
    return jnp.sum(jax.lax.scan(step, start, seen)[1]) - len(seen) * math.log(2 * math.pi)


def kalman_data(steps: int = 100) -> Arrays:
    draw = rng()
    dynamics = np.eye(4) + 0.1 * np.eye(4, k=2)
    seen = np.cumsum(draw.normal(size=(steps, 2)) / 3, 0)
    return dynamics, np.full(4, -3.0), np.full(2, -1.0), np.eye(2, 4), seen


# hmm: the forward algorithm in logarithms, 10 states, 200 symbols of 20


def hmm_step(np, forward, transition, emission, symbol):
    return logsumexp(np, forward[:, None] + transition, 0) + emission[:, symbol]


def hmm_logs(np, transition, emission):
    transition = transition - logsumexp(np, transition, 1)[:, None]
    return transition, emission - logsumexp(np, emission, 1)[:, None]


def hmm(np, transition, emission, symbols):
    transition, emission = hmm_logs(np, transition, emission)
    forward = emission[:, symbols[0]] - math.log(len(transition))
    for symbol in symbols[1:]:
        forward = hmm_step(np, forward, transition, emission, symbol)
    return logsumexp(np, forward, 0)


def hmm_jax(jnp, transition, emission, symbols):
    import jax

    transition, emission = hmm_logs(jnp, transition, emission)
    forward = emission[:, symbols[0]] - math.log(len(transition))
    forward, _ = jax.lax.scan(
        lambda f, symbol: (hmm_step(jnp, f, transition, emission, symbol), None),
        forward,
        symbols[1:],
    )
    return logsumexp(jnp, forward, 0)


def hmm_data(steps: int = 200, states: int = 10, symbols: int = 20) -> Arrays:
    draw = rng()
    return (
        draw.normal(size=(states, states)),
        draw.normal(size=(states, symbols)),
        draw.integers(0, symbols, steps),
    )


# dtw: a soft alignment of two sequences of 20 numbers, cell by cell


def soft_least(np, a, b, c):
    return -np.log(np.exp(-a) + np.exp(-b) + np.exp(-c))


def dtw(np, x, y):
    cost = (x[:, None] - y[None, :]) ** 2
    path = np.full((len(x) + 1, len(y) + 1), np.inf)
    path[0, 0] = 0.0
    for i in range(len(x)):
        for j in range(len(y)):
            least = soft_least(np, path[i, j], path[i, j + 1], path[i + 1, j])
            path[i + 1, j + 1] = cost[i, j] + least
    return path[len(x), len(y)]


def dtw_lists(np, x, y):
    """Keep the cells in a list, where a library's arrays cannot be written to."""
    cost = (x[:, None] - y[None, :]) ** 2
    far = cost[0, 0] * 0 + 1e6
    above = [far * 0, *[far] * len(y)]
    for i in range(len(x)):
        row = [far]
        for j in range(len(y)):
            row.append(cost[i, j] + soft_least(np, above[j], above[j + 1], row[j]))
        above = row
    return above[-1]


def dtw_jax(jnp, x, y):
    import jax

    cost = (x[:, None] - y[None, :]) ** 2

    def row(above, costs):
        def one(left, given):
            c, corner, up = given
            here = c + soft_least(jnp, corner, up, left)
            return here, here

        _, cells = jax.lax.scan(one, jnp.inf, (costs, above[:-1], above[1:]))
        return jnp.concatenate((jnp.full(1, jnp.inf), cells)), None

    first = jnp.full(len(y) + 1, jnp.inf).at[0].set(0.0)
    return jax.lax.scan(row, first, cost)[0][-1]


def dtw_data(n: int = 20) -> Arrays:
    draw = rng()
    return draw.normal(size=n), draw.normal(size=n)


# particles: the likelihood of 50 observations, by 500 particles that are weighed and never drawn


def particle_step(np, parameters, x, weights, noise, seen, time):
    a, b, spread, error = parameters
    x = a * x + b * x / (1 + x**2) + 8 * time + spread * noise
    fit = -0.5 * ((seen - x**2 / 20) / error) ** 2 - np.log(error)
    weights = weights + fit
    total = logsumexp(np, weights, 0)
    return x, weights - total, total


def particles(np, parameters, x, noise, seen):
    weights, total = x * 0 - math.log(len(x)), 0.0
    for t in range(len(seen)):
        x, weights, gained = particle_step(
            np, parameters, x, weights, noise[t], seen[t], t / len(seen)
        )
        total = total + gained
    return total


def particles_jax(jnp, parameters, x, noise, seen):
    import jax

    def step(state, given):
        x, weights, gained = particle_step(jnp, parameters, *state, *given)
        return (x, weights), gained

    times = jnp.arange(len(seen)) / len(seen)
    start = x, x * 0 - math.log(len(x))
    return jnp.sum(jax.lax.scan(step, start, (noise, seen, times))[1])


def particles_data(n: int = 500, steps: int = 50) -> Arrays:
    draw = rng()
    return (
        np.array([0.5, 5.0, 1.0, 2.0]),
        draw.normal(size=n),
        draw.normal(size=(steps, n)),
        draw.uniform(0, 5, steps),
    )


ROWS = [
    Row("lstm", lstm_data, lstm, wrt=(0, 1), tiny=lambda: lstm_data(4, 3), jax=lstm_jax),
    Row(
        "kalman",
        kalman_data,
        kalman,
        wrt=(0, 1, 2),
        tiny=lambda: kalman_data(3),
        jax=kalman_jax,
        loose=16,
        step=1e-4,
    ),
    Row("hmm", hmm_data, hmm, wrt=(0, 1), tiny=lambda: hmm_data(5, 3, 4), jax=hmm_jax),
    Row(
        "dtw",
        dtw_data,
        dtw,
        wrt=(0, 1),
        tiny=lambda: dtw_data(3),
        jax=dtw_jax,
        torch=dtw_lists,
        autograd=dtw_lists,
    ),
    Row(
        "particles",
        particles_data,
        particles,
        tiny=lambda: particles_data(5, 3),
        jax=particles_jax,
        step=1e-5,
        loose=64,
    ),
]
