"""Neuroscience: a spiking neuron after Hodgkin and Huxley, gates by exponential Euler."""

from math import exp

import numpy as np


def vtrap(x, y):
    """x / (exp(x / y) - 1), without its hole at 0."""
    if abs(x / y) < 1e-6:
        return y * (1 - x / y / 2)
    return x / (exp(x / y) - 1)


class Gate:
    def __init__(self, alpha, beta, v):
        self.alpha, self.beta = alpha, beta
        a, b = alpha(v), beta(v)
        self.state = a / (a + b)

    def update(self, v, dt):
        a, b = self.alpha(v), self.beta(v)
        steady = a / (a + b)
        self.state = steady + (self.state - steady) * exp(-dt * (a + b))


class Neuron:
    C = 1.0
    E_NA, E_K, E_L = 50.0, -77.0, -54.387

    def __init__(self, g_na=120.0, g_k=36.0, g_l=0.3, v=-65.0):
        self.g_na, self.g_k, self.g_l = g_na, g_k, g_l
        self.v = v
        self.m = Gate(lambda v: 0.1 * vtrap(-(v + 40), 10), lambda v: 4 * exp(-(v + 65) / 18), v)
        self.h = Gate(
            lambda v: 0.07 * exp(-(v + 65) / 20), lambda v: 1 / (exp(-(v + 35) / 10) + 1), v
        )
        self.n = Gate(
            lambda v: 0.01 * vtrap(-(v + 55), 10), lambda v: 0.125 * exp(-(v + 65) / 80), v
        )

    @property
    def current(self):
        m, h, n = self.m.state, self.h.state, self.n.state
        return (
            self.g_na * m**3 * h * (self.v - self.E_NA)
            + self.g_k * n**4 * (self.v - self.E_K)
            + self.g_l * (self.v - self.E_L)
        )

    def step(self, stimulus, dt):
        for gate in (self.m, self.h, self.n):
            gate.update(self.v, dt)
        self.v += dt * (stimulus - self.current) / self.C
        return self.v


def record(neuron, stimulus, dt=0.025, duration=12.0, onset=1.0):
    steps = int(duration / dt)
    trace = np.zeros(steps)
    for k in range(steps):
        trace[k] = neuron.step(stimulus if k * dt >= onset else 0.0, dt)
    return trace


def spikes(trace, threshold=0.0):
    return np.flatnonzero((trace[:-1] < threshold) & (trace[1:] >= threshold))


def spike_time(trace, dt=0.025):
    """The first crossing of zero, interpolated."""
    k = spikes(trace)[0]
    return dt * (k + trace[k] / (trace[k] - trace[k + 1]))


def main(g_na, g_k, g_l, stimulus):
    trace = record(Neuron(g_na, g_k, g_l), stimulus)
    return (spike_time(trace) - 3.0) ** 2 + 1e-3 * (trace.max() - 30.0) ** 2 + 1e-4 * np.var(trace)


ARGUMENTS = (115.0, 35.0, 0.32, 10.3)


def check():
    rest = record(Neuron(), 0.0, duration=20.0)
    assert abs(rest[-1] + 65.0) < 0.1
    assert len(spikes(record(Neuron(), 2.0, duration=30.0))) == 0
    assert len(spikes(record(Neuron(), 15.0, duration=30.0))) >= 2
    assert abs(vtrap(1e-9, 10) - vtrap(1e-4, 10)) < 1e-3
