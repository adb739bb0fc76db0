"""Machine learning: a transformer block with causal attention, by einsum."""

import numpy as np


def layer_norm(x, g, b, eps=1e-5):
    mean = np.mean(x, axis=-1, keepdims=True)
    variance = np.var(x, axis=-1, keepdims=True)
    return g * (x - mean) / np.sqrt(variance + eps) + b


def softmax(x):
    exp_x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exp_x / np.sum(exp_x, axis=-1, keepdims=True)


def positions(n, d):
    """Sines and cosines, interleaved."""
    pe = np.zeros((n, d))
    pos = np.arange(n)[:, np.newaxis]
    div = np.exp(np.arange(0, d, 2) * -(np.log(10000.0) / d))
    pe[:, 0::2] = np.sin(pos * div)
    pe[:, 1::2] = np.cos(pos * div)
    return pe


def attention(x, wq, wk, wv, wo, heads):
    n, d = x.shape
    split = lambda w: np.einsum("nd,dk->nk", x, w).reshape(n, heads, d // heads)
    q, k, v = split(wq), split(wk), split(wv)
    scores = np.einsum("ihc,jhc->hij", q, k) / np.sqrt(d // heads)
    mask = np.triu(np.ones((n, n), dtype=bool), 1)
    scores = np.where(mask, -1e10, scores)
    weights = softmax(scores)
    mixed = np.einsum("hij,jhc->ihc", weights, v)
    return mixed.reshape(n, d) @ wo, weights


def block(x, p, heads=2):
    attended, weights = attention(
        layer_norm(x, **p["ln_1"]), *(p["attn"][k] for k in ("q", "k", "v", "o")), heads
    )
    x = x + attended
    hidden = layer_norm(x, **p["ln_2"]) @ p["mlp"]["up"]
    hidden = 0.5 * hidden * (1 + np.tanh(0.7978845608 * (hidden + 0.044715 * hidden**3)))
    return x + hidden @ p["mlp"]["down"], weights


def model(tokens, embedding, p):
    x = embedding[tokens] + positions(len(tokens), embedding.shape[1])
    for layer in p:
        x, weights = block(x, layer)
    return x @ embedding.T, weights


TOKENS = np.array([3, 1, 4, 1, 5, 2, 6, 5, 3, 5])


def main(embedding, p):
    logits, weights = model(TOKENS[:-1], embedding, p)
    logits = logits - logits.max(-1, keepdims=True)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    loss = -np.mean(np.take_along_axis(log_probs, TOKENS[1:, None], axis=1))
    entropy = -np.sum(weights * np.log(weights + 1e-12), axis=-1)
    return loss + 0.01 * np.mean(entropy)


def parameters(seed=5, d=8, layers=2):
    rng = np.random.default_rng(seed)
    normal = lambda *shape: rng.standard_normal(shape) * 0.3
    return (
        normal(7, d),
        [
            {
                "ln_1": {"g": np.ones(d), "b": np.zeros(d)},
                "attn": {k: normal(d, d) for k in "qkvo"},
                "ln_2": {"g": np.ones(d), "b": np.zeros(d)},
                "mlp": {"up": normal(d, 2 * d), "down": normal(2 * d, d)},
            }
            for _ in range(layers)
        ],
    )


ARGUMENTS = parameters()


def check():
    embedding, p = ARGUMENTS
    first, weights = model(TOKENS, embedding, p)
    np.testing.assert_allclose(weights.sum(axis=-1), 1)
    changed = TOKENS.copy()
    changed[-1] = 0
    np.testing.assert_allclose(model(changed, embedding, p)[0][:-1], first[:-1], atol=1e-12)
