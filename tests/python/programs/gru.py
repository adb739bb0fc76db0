"""Learning: a gated recurrent network from scratch, its parameters in a dictionary."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    xt = np.exp(x - x.max())
    return xt / np.sum(xt)


class Activation:
    table = {"tanh": np.tanh, "sigmoid": sigmoid, "relu": lambda x: np.maximum(0, x)}

    def __init__(self, name):
        self.f = self.table[name]

    def __call__(self, x):
        return self.f(x)


class GRU:
    def __init__(self, n_in, n_hid, n_out, scale, seed=1):
        rng = np.random.default_rng(seed)
        self.params = {}
        for g in "zrh":
            self.params["W" + g] = rng.normal(0, scale, (n_hid, n_in))
            self.params["U" + g] = rng.normal(0, scale, size=(n_hid, n_hid))
            self.params["b" + g] = np.zeros((n_hid, 1))
        self.params["V"] = rng.standard_normal((n_out, n_hid)) * scale
        self.params["c"] = np.zeros((n_out, 1))
        self.n_hid = n_hid
        self.act = Activation("tanh")

    def forward(self, inputs):
        p = self.params
        h = np.zeros((self.n_hid, 1))
        hs, ps = {-1: np.copy(h)}, {}
        for t, x in enumerate(inputs):
            z = sigmoid(p["Wz"] @ x + p["Uz"] @ hs[t - 1] + p["bz"])
            r = sigmoid(p["Wr"] @ x + p["Ur"] @ hs[t - 1] + p["br"])
            g = self.act(p["Wh"] @ x + p["Uh"] @ (r * hs[t - 1]) + p["bh"])
            hs[t] = (1 - z) * hs[t - 1] + z * g
            ps[t] = softmax(p["V"] @ hs[t] + p["c"])
        return hs, ps


def one_hot(i, n):
    v = np.zeros((n, 1))
    v[i] = 1
    return v


def main(scale, bias, temperature):
    text = "hello gru"
    chars = sorted(set(text))
    ix = {c: i for i, c in enumerate(chars)}
    n = len(chars)
    net = GRU(n, 6, n, scale)
    net.params["bz"] += bias
    net.params["V"] /= temperature
    inputs = [one_hot(ix[c], n) for c in text[:-1]]
    targets = [ix[c] for c in text[1:]]
    hs, ps = net.forward(inputs)
    loss = 0
    for t in range(len(inputs)):
        loss += -np.log(ps[t][targets[t], 0])
    reg = sum((v**2).sum() for k, v in net.params.items() if not k.startswith("b"))
    print("loss %.3f reg %s" % (loss, np.round(reg, 3)))
    return loss / len(inputs) + 1e-3 * reg + hs[3].mean()


ARGUMENTS = (0.5, -0.2, 0.7)


def check():
    assert abs(softmax(np.ones((3, 1))).sum() - 1) < 1e-12
