"""Machine learning: an LSTM over characters, in the style of a hundred-line language model."""

import numpy as np

TEXT = "the quick brown fox jumps over the lazy dog "
CHARS = sorted(set(TEXT))
INDEX = {c: i for i, c in enumerate(CHARS)}
HIDDEN = 5


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def one_hot(i):
    x = np.zeros((len(CHARS), 1))
    x[i] = 1
    return x


def lstm_step(x, h_prev, c_prev, p):
    z = np.vstack((h_prev, x))
    gates = np.dot(p["W"], z) + p["b"]
    f = sigmoid(gates[:HIDDEN])
    i = sigmoid(gates[HIDDEN : 2 * HIDDEN])
    o = sigmoid(gates[2 * HIDDEN : 3 * HIDDEN])
    c_bar = np.tanh(gates[3 * HIDDEN :])
    c = f * c_prev + i * c_bar
    h = o * np.tanh(c)
    y = np.dot(p["Wy"], h) + p["by"]
    return y, h, c


def lossfun(inputs, targets, hprev, cprev, p):
    xs, hs, cs, ys, ps = {}, {}, {}, {}, {}
    hs[-1], cs[-1] = np.copy(hprev), np.copy(cprev)
    loss = 0
    for t in range(len(inputs)):
        xs[t] = one_hot(inputs[t])
        ys[t], hs[t], cs[t] = lstm_step(xs[t], hs[t - 1], cs[t - 1], p)
        ps[t] = np.exp(ys[t]) / np.sum(np.exp(ys[t]))
        loss += -np.log(ps[t][targets[t], 0])
    return loss, hs[len(inputs) - 1], cs[len(inputs) - 1]


def main(p):
    h, c = np.zeros((HIDDEN, 1)), np.zeros((HIDDEN, 1))
    total = 0.0
    length = 11
    for pos in range(0, 33, length):
        inputs = [INDEX[ch] for ch in TEXT[pos : pos + length]]
        targets = [INDEX[ch] for ch in TEXT[pos + 1 : pos + length + 1]]
        loss, h, c = lossfun(inputs, targets, h, c, p)
        total += loss
    return total / 33


def parameters(seed=3):
    rng = np.random.default_rng(seed)
    vocab = len(CHARS)
    return {
        "W": 0.3 * rng.standard_normal((4 * HIDDEN, HIDDEN + vocab)),
        "b": np.concatenate([np.ones((HIDDEN, 1)), np.zeros((3 * HIDDEN, 1))]),
        "Wy": 0.3 * rng.standard_normal((vocab, HIDDEN)),
        "by": np.zeros((vocab, 1)),
    }


ARGUMENTS = (parameters(),)


def check():
    p = {k: np.zeros_like(v) for k, v in parameters().items()}
    assert abs(main(p) - np.log(len(CHARS))) < 1e-12
