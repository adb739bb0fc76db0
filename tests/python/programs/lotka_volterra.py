"""Ecology: hares and lynxes, by an adaptive Dormand-Prince integrator, against counted pelts."""

import numpy as np

# tableau of Dormand and Prince
C = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
A = [
    [],
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
B = np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0])
B_LOW = np.array([5179 / 57600, 0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40])

HARES = np.array([30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4])
LYNXES = np.array([4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1])


def solution(f, y, times, rtol=1e-5, atol=1e-6):
    """Yields the state at each of the times."""
    t, y = times[0], np.asarray(y, dtype=float)
    h = 0.1
    yield y
    for end in times[1:]:
        while t < end:
            h = min(h, end - t)
            k = np.zeros((7, len(y)))
            for s in range(7):
                k[s] = f(
                    t + C[s] * h, y + h * sum((a * k[j] for j, a in enumerate(A[s])), np.zeros(2))
                )
            error = np.abs(h * (B - B_LOW) @ k)
            ratio = np.max(error / (atol + rtol * np.abs(y)))
            if ratio <= 1:
                t = t + h if t + h < end - 1e-12 else end
                y = y + h * (B @ k)
            # powers of two, so that the steps do not depend on the last digits
            if ratio > 1:
                h = h / 2
            elif ratio < 0.02:
                h = 2 * h
        yield y


def predator_prey(alpha, beta, gamma, delta):
    def rhs(t, y):
        hares, lynxes = y
        return np.array(
            [alpha * hares - beta * hares * lynxes, delta * hares * lynxes - gamma * lynxes]
        )

    return rhs


def main(rates, start, scale):
    rates = np.exp(rates)
    model = np.array(list(solution(predator_prey(*rates), np.exp(start), np.arange(10.0))))
    data = np.column_stack((HARES, LYNXES))
    z = (np.log(data) - np.log(model)) / scale
    return 0.5 * np.sum(z**2) + data.shape[0] * np.sum(np.log(scale))


ARGUMENTS = (np.log([0.55, 0.028, 0.8, 0.024]), np.log([31.0, 4.5]), np.array([0.25, 0.3]))


def check():
    alpha, beta, gamma, delta = 0.55, 0.028, 0.8, 0.024
    y = np.array(
        list(solution(predator_prey(alpha, beta, gamma, delta), [31.0, 4.5], np.arange(15.0)))
    )
    constant = delta * y[:, 0] - gamma * np.log(y[:, 0]) + beta * y[:, 1] - alpha * np.log(y[:, 1])
    np.testing.assert_allclose(constant, constant[0], rtol=1e-4)
