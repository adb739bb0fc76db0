"""Statistics: a hidden Markov model: scaled forward pass, backward pass, Viterbi path."""

import numpy as np


def softmax(a, axis=-1):
    e = np.exp(a - a.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


class HMM:
    def __init__(self, start, transition, means, scale):
        self.start, self.transition = start, transition
        self.means, self.scale = means, scale

    def emission(self, y):
        z = (y[:, None] - self.means[None, :]) / self.scale
        return np.exp(-0.5 * z**2) / (self.scale * np.sqrt(2 * np.pi))

    def forward(self, b):
        alpha = np.zeros_like(b)
        scale = np.zeros(len(b))
        alpha[0] = self.start * b[0]
        scale[0] = alpha[0].sum()
        alpha[0] /= scale[0]
        for t in range(1, len(b)):
            alpha[t] = (alpha[t - 1] @ self.transition) * b[t]
            scale[t] = alpha[t].sum()
            alpha[t] /= scale[t]
        return alpha, scale

    def backward(self, b, scale):
        beta = np.ones_like(b)
        for t in reversed(range(len(b) - 1)):
            beta[t] = self.transition @ (b[t + 1] * beta[t + 1]) / scale[t + 1]
        return beta

    def posterior(self, y):
        b = self.emission(y)
        alpha, scale = self.forward(b)
        return alpha * self.backward(b, scale), np.log(scale).sum()

    def viterbi(self, y):
        logb, logA = np.log(self.emission(y)), np.log(self.transition)
        delta = np.log(self.start) + logb[0]
        back = np.zeros((len(y), len(self.start)), dtype=int)
        for t in range(1, len(y)):
            scores = delta[:, None] + logA
            back[t] = scores.argmax(axis=0)
            delta = scores[back[t], np.arange(len(delta))] + logb[t]
        path = [int(delta.argmax())]
        for t in range(len(y) - 1, 0, -1):
            path.append(int(back[t, path[-1]]))
        return path[::-1], delta.max()


def observations(n=40, seed=4):
    rng = np.random.default_rng(seed)
    states = (np.arange(n) // 9) % 3
    return rng.normal(np.array([-1.0, 0.5, 2.5])[states], 0.5), states


def main(start, transition, means, scale):
    hmm = HMM(softmax(start), softmax(transition), means, scale)
    y, _ = observations()
    gamma, log_likelihood = hmm.posterior(y)
    _, best = hmm.viterbi(y)
    smooth = gamma @ means
    return -log_likelihood - 0.1 * best + np.mean((smooth - y) ** 2)


ARGUMENTS = (
    np.array([0.5, 0.1, -0.3]),
    2.0 * np.eye(3) + 0.1 * np.arange(9).reshape(3, 3),
    np.array([-0.9, 0.6, 2.3]),
    0.6,
)


def check():
    start, transition, means, scale = ARGUMENTS
    hmm = HMM(softmax(start), softmax(transition), means, scale)
    y, states = observations()
    gamma, _ = hmm.posterior(y)
    np.testing.assert_allclose(gamma.sum(axis=1), 1, atol=1e-12)
    path, _ = hmm.viterbi(y)
    assert np.mean(np.array(path) == states) > 0.9
