"""Circuits: nodal analysis of a notch filter, stamped from a netlist, over frequency."""

import numpy as np


class Circuit:
    def __init__(self):
        self.nodes = {"0": -1}
        self.parts = []
        self.sources = []

    def node(self, name):
        if name not in self.nodes:
            self.nodes[name] = len(self.nodes) - 1
        return self.nodes[name]

    def add(self, kind, a, b, value):
        entry = (kind, self.node(a), self.node(b), value)
        (self.sources if kind == "V" else self.parts).append(entry)
        return self

    def solve(self, omega):
        n = len(self.nodes) - 1
        size = n + len(self.sources)
        A = np.zeros((size, size), dtype=complex)
        rhs = np.zeros(size, dtype=complex)
        for kind, a, b, value in self.parts:
            if kind == "R":
                y = 1 / value
            elif kind == "C":
                y = 1j * omega * value
            elif kind == "L":
                y = 1 / (1j * omega * value)
            else:
                raise KeyError(kind)
            for i in (a, b):
                if i >= 0:
                    A[i, i] += y
            if a >= 0 and b >= 0:
                A[a, b] -= y
                A[b, a] -= y
        for k, (_, a, b, value) in enumerate(self.sources, start=n):
            for i, sign in ((a, 1), (b, -1)):
                if i >= 0:
                    A[i, k] += sign
                    A[k, i] += sign
            rhs[k] = value
        x = np.linalg.solve(A, rhs)
        return {name: x[i] if i >= 0 else 0.0 for name, i in self.nodes.items()}


def twin_t(r, c, load):
    circuit = Circuit()
    circuit.add("V", "in", "0", 1.0)
    circuit.add("R", "in", "a", r[0]).add("R", "a", "out", r[1]).add("C", "a", "0", c[0])
    circuit.add("C", "in", "b", c[1]).add("C", "b", "out", c[2]).add("R", "b", "0", r[2])
    circuit.add("R", "out", "0", load)
    return circuit


def gain(circuit, frequencies):
    return np.array([circuit.solve(2 * np.pi * f)["out"] for f in frequencies])


def main(r, c, load):
    frequencies = np.geomspace(10.0, 250.0, 9)
    h = gain(twin_t(1e3 * r, 1e-6 * c, load), frequencies)
    wanted = 1 / (1 + (8.0 / (frequencies / 50.0 - 50.0 / frequencies + 1e-3)) ** 2)
    return np.sum((np.abs(h) - wanted) ** 2) + 0.05 * np.abs(np.angle(h[-1]))


ARGUMENTS = (np.array([3.3, 3.1, 1.5]), np.array([2.1, 1.0, 1.1]), 1e5)


def check():
    """A balanced twin-T passes nothing at 1 / (2 pi R C)."""
    r, c = 3.0e3, 1.0e-6
    circuit = twin_t([r, r, r / 2], [2 * c, c, c], 1e9)
    notch = 1 / (2 * np.pi * r * c)
    h = np.abs(gain(circuit, [notch / 30, notch, 30 * notch]))
    assert h[1] < 1e-5
    np.testing.assert_allclose(h[[0, 2]], 1, atol=0.02)
