"""Functions of numbers, in loops and recursions of Python."""

from rows._row import Arrays, Row, from_workload, rng
from workloads import WORKLOADS

# scalar-recursion: a function that calls itself twice, 255 times in all


def recursion(np, x, depth=8):
    if depth == 0:
        return x
    left = recursion(np, 0.9 * x + 0.1, depth - 1)
    return np.sin(left) * x + recursion(np, 1.1 * x - 0.1, depth - 1) / 2


# scalar-lstm: a cell of three units on eight pairs of numbers, written for single numbers


def scalar_lstm(np, inputs, weights, biases):
    units, size = len(weights[0]), len(inputs[0])
    h, c = [0.0] * units, [0.0] * units
    for t in range(len(inputs)):
        new_h, new_c = [], []
        for i in range(units):
            gates = []
            for g in range(4):
                z = biases[g, i]
                for j in range(size):
                    z = z + weights[g, i, j] * inputs[t, j]
                for j in range(units):
                    z = z + weights[g, i, size + j] * h[j]
                gates.append(np.tanh(z) if g == 3 else 1 / (1 + np.exp(-z)))
            new_c.append(gates[0] * c[i] + gates[1] * gates[3])
            new_h.append(gates[2] * np.tanh(new_c[i]))
        h, c = new_h, new_c
    return sum(x * x for x in h)


def scalar_lstm_data(steps: int = 8) -> Arrays:
    draw = rng()
    return draw.normal(size=(steps, 2)), draw.normal(size=(4, 3, 5)), draw.normal(size=(4, 3))


ROWS = [
    *(from_workload(w) for w in WORKLOADS if w.name == "scalar-loop"),
    Row("scalar-recursion", lambda: (0.9,), recursion),
    Row("scalar-lstm", scalar_lstm_data, scalar_lstm, wrt=(1, 2), tiny=lambda: scalar_lstm_data(2)),
]
