"""Functions with loops of Python, which are written out in their programs."""

import numpy as np

N = 200
XS = np.cos(np.arange(float(N)))
ROWS = np.sin(np.arange(3.0 * N)).reshape(N, 3)
W = np.array([[0.5, -0.2, 0.1], [0.1, 0.6, -0.3], [0.2, 0.1, 0.4]])


def recursion(x, a):
    for _ in range(N):
        x = np.sin(x) * a + 0.1
    return x


def driven(a, xs):
    state, total = 0.0, 0.0
    for x in xs:
        state = np.tanh(a * state + x)
        total = total + state * state
    return total


def numbered(x):
    for i in range(N):
        x = x + np.sin(0.3 * i * x) / (i + 1)
    return x


def stacked(a, xs):
    found, state = [], a
    for i in range(len(xs)):
        state = state * 0.9 + xs[len(xs) - 1 - i]
        found.append(np.sin(state))
    return np.stack(found)


def fibonacci(x, a):
    before, now = x, x * a
    for _ in range(N):
        before, now = now, np.sin(now) + a * before
    return now


def rows(w, xs):
    state = np.zeros(3)
    for x in xs:
        state = np.tanh(w @ state + x)
    return np.sum(state)


def windows(a, xs):
    total = 0.0
    for i in range(len(xs) - 2):
        total = total * 0.99 + a * np.sum(xs[i : i + 3])
    return total


def nested(x):
    for _ in range(30):
        for _ in range(20):
            x = np.sin(x) + 0.01
        x = x * 1.1
    return x


def broken(x, a):
    for i in range(N):
        x = np.sin(x) * a
        if i == 70:
            x = np.exp(x)
    return x


CASES = [
    (recursion, (0.3, 0.9)),
    (driven, (0.7, XS)),
    (numbered, (0.4,)),
    (stacked, (0.3, XS)),
    (fibonacci, (0.2, 0.4)),
    (rows, (W, ROWS)),
    (windows, (0.5, XS)),
    (nested, (0.3,)),
    (broken, (0.3, 0.9)),
]
