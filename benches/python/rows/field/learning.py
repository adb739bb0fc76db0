"""Networks: a normalising flow, a block of attention and a step of an autoencoder."""

import math

from rows._row import Arrays, Row, rng
from rows.field._names import softmax, softplus

# flow: four couplings of eight variables, 500 samples


def flow(np, first, first_bias, last, last_bias, x):
    half, logs = x.shape[1] // 2, 0.0
    left, right = x[:, :half], x[:, half:]
    for k in range(len(first)):
        h = np.tanh(left @ first[k] + first_bias[k])
        out = h @ last[k] + last_bias[k]
        scale, shift = np.tanh(out[:, :half]), out[:, half:]
        left, right = right * np.exp(scale) + shift, left
        logs = logs + np.sum(scale, 1)
    squares = np.sum(left**2, 1) + np.sum(right**2, 1)
    return -np.mean(logs - 0.5 * squares - half * math.log(2 * math.pi))


def flow_data(n: int = 500, size: int = 8, hidden: int = 32, layers: int = 4) -> Arrays:
    draw, half = rng(), size // 2
    return (
        draw.normal(size=(layers, half, hidden)) / half**0.5,
        draw.normal(size=(layers, hidden)) / 10,
        draw.normal(size=(layers, hidden, size)) / hidden**0.5,
        draw.normal(size=(layers, size)) / 10,
        draw.normal(size=(n, size)),
    )


# attention: 128 tokens of 64 numbers, four heads, one block with two layers behind


def normalised(np, x):
    centred = x - np.mean(x, -1)[..., None]
    return centred / np.sqrt(np.mean(centred**2, -1) + 1e-5)[..., None]


def attention(np, x, queries, keys, values, out, up, down, wanted):
    h = normalised(np, x)
    q, k, v = h @ queries, h @ keys, h @ values  # heads × tokens × numbers
    weights = softmax(np, np.einsum("hid,hjd->hij", q, k) / math.sqrt(q.shape[-1]))
    mixed = np.einsum("hij,hjd->hid", weights, v)
    x = x + np.einsum("hid,hdm->im", mixed, out)
    h = np.tanh(normalised(np, x) @ up)
    return np.mean((x + h @ down - wanted) ** 2)


def attention_data(tokens: int = 128, size: int = 64, heads: int = 4) -> Arrays:
    draw, part = rng(), size // heads
    shapes = (
        (tokens, size),
        *[(heads, size, part)] * 3,
        (heads, part, size),
        (size, 4 * size),
        (4 * size, size),
        (tokens, size),
    )
    return tuple((draw.normal(size=s) / s[-2] ** 0.5).astype("float32") for s in shapes)


# vae: one step for 64 images of 784 numbers, 200 hidden, 20 latent


def vae(np, w1, w2, w3, w4, x, noise):
    h = np.tanh(x @ w1)
    both = h @ w2
    size = both.shape[1] // 2
    mean, log_spread = both[:, :size], both[:, size:]
    z = mean + np.exp(log_spread) * noise
    logits = np.tanh(z @ w3) @ w4
    entropy = np.sum(softplus(np, logits) - x * logits)
    divergence = -0.5 * np.sum(1 + 2 * log_spread - mean**2 - np.exp(2 * log_spread))
    return (entropy + divergence) / len(x)


def vae_data(n: int = 64, size: int = 784, hidden: int = 200, latent: int = 20) -> Arrays:
    draw = rng()
    shapes = ((size, hidden), (hidden, 2 * latent), (latent, hidden), (hidden, size))
    arrays = [draw.normal(size=s) / s[0] ** 0.5 for s in shapes]
    arrays += [draw.uniform(size=(n, size)), draw.normal(size=(n, latent))]
    return tuple(a.astype("float32") for a in arrays)


ROWS = [
    Row("flow", flow_data, flow, wrt=(0, 1, 2, 3), tiny=lambda: flow_data(3, 4, 5, 2)),
    Row(
        "attention",
        attention_data,
        attention,
        wrt=(1, 2, 3, 4, 5, 6),
        tiny=lambda: attention_data(4, 4, 2),
        loose=4,
        dtype="float32",
    ),
    Row(
        "vae",
        vae_data,
        vae,
        wrt=(0, 1, 2, 3),
        tiny=lambda: vae_data(3, 6, 5, 2),
        loose=4,
        dtype="float32",
    ),
]
