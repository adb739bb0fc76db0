"""Machine learning: a network from scratch with layers as classes, batch norm and dropout."""

import numpy as np

ACTIVATIONS = {
    "relu": lambda x: np.maximum(0, x),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "linear": lambda x: x,
}


class Dense:
    def __init__(self, W, b, activation="linear"):
        self.W, self.b, self.activation = W, b, ACTIVATIONS[activation]

    def forward(self, X, training):
        self.X = X
        return self.activation(X @ self.W + self.b)


class BatchNorm:
    def __init__(self, size, momentum=0.9):
        self.running_mean, self.running_var = np.zeros(size), np.ones(size)
        self.momentum = momentum

    def forward(self, X, training):
        if training:
            mean, var = X.mean(axis=0), X.var(axis=0)
            self.running_mean *= self.momentum
            self.running_mean += (1 - self.momentum) * mean
            self.running_var = self.momentum * self.running_var + (1 - self.momentum) * var
        else:
            mean, var = self.running_mean, self.running_var
        return (X - mean) / np.sqrt(var + 1e-5)


class Dropout:
    def __init__(self, rate, seed):
        self.rate, self.rng = rate, np.random.default_rng(seed)

    def forward(self, X, training):
        if not training:
            return X
        keep = self.rng.random(X.shape) >= self.rate
        return X * keep / (1 - self.rate)


class Network:
    def __init__(self):
        self.layers = []

    def add(self, layer):
        self.layers.append(layer)
        return self

    def predict(self, X, training=False):
        for layer in self.layers:
            X = layer.forward(X, training)
        return X


def cross_entropy(logits, labels):
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    log_probs = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.mean(log_probs[range(len(labels)), labels])


def spirals(n=24, seed=0):
    rng = np.random.default_rng(seed)
    t = np.sqrt(rng.random(n)) * 6
    labels = np.arange(n) % 3
    angle = t + 2 * np.pi * labels / 3
    return np.c_[t * np.cos(angle), t * np.sin(angle)] / 6, labels


def build(parameters, dropout=0.2):
    (W1, b1), (W2, b2), (W3, b3) = parameters
    net = Network()
    net.add(Dense(W1, b1, "tanh")).add(BatchNorm(len(b1)))
    net.add(Dense(W2, b2, "gelu")).add(Dropout(dropout, seed=1))
    return net.add(Dense(W3, b3))


def main(parameters, decay):
    X, labels = spirals()
    net = build(parameters)
    training = cross_entropy(net.predict(X, training=True), labels)
    testing = cross_entropy(net.predict(X[::2]), labels[::2])
    weights = sum(np.sum(W**2) for W, _ in parameters)
    return training + testing + decay * weights


def parameters(sizes=(2, 6, 5, 3), seed=12):
    rng = np.random.default_rng(seed)
    return [
        (rng.standard_normal((m, n)) / np.sqrt(m), 0.1 * rng.standard_normal(n))
        for m, n in zip(sizes, sizes[1:])
    ]


ARGUMENTS = (parameters(), 1e-3)


def check():
    assert abs(cross_entropy(np.zeros((4, 3)), [0, 1, 2, 0]) - np.log(3)) < 1e-15
    net = build(parameters(), dropout=0.0)
    X, _ = spirals()
    assert net.predict(X, training=True).shape == (24, 3)
    assert not np.allclose(net.layers[1].running_mean, 0)
