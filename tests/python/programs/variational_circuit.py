"""Quantum: a variational circuit with kron and expm, Trotter steps, an entropy."""

from functools import reduce

import numpy as np
from scipy.linalg import expm

I = np.eye(2)
X = np.array([[0, 1], [1, 0]])
Y = np.array([[0, -1j], [1j, 0]])
Z = np.diag([1, -1])


def op(single, site, n):
    ops = [I] * n
    ops[site] = single
    return reduce(np.kron, ops)


def hamiltonian(J, h, n):
    H = np.zeros((2**n, 2**n), dtype=complex)
    for i in range(n - 1):
        H -= J * op(Z, i, n) @ op(Z, i + 1, n)
    for i in range(n):
        H -= h * op(X, i, n)
    return H


class Circuit:
    def __init__(self, n):
        self.n = n
        self.state = np.zeros(2**n, dtype=complex)
        self.state[0] = 1

    def apply(self, U):
        self.state = U @ self.state
        return self

    def ry(self, theta, q):
        c, s = np.cos(theta / 2), np.sin(theta / 2)
        return self.apply(op(np.array([[c, -s], [s, c]]), q, self.n))

    def rz(self, phi, q):
        return self.apply(op(np.diag([np.exp(-1j * phi / 2), np.exp(1j * phi / 2)]), q, self.n))

    def cnot(self, c, t):
        psi = self.state.reshape([2] * self.n)
        psi = np.moveaxis(psi, (c, t), (0, 1)).copy()
        psi[1] = psi[1, ::-1].copy()
        self.state = np.moveaxis(psi, (0, 1), (c, t)).reshape(-1)
        return self

    def expect(self, H):
        return np.real(np.vdot(self.state, H @ self.state))


def entropy(psi, n):
    M = psi.reshape(2, -1)
    rho = M @ M.conj().T
    w = np.linalg.eigvalsh(rho)
    w = w[w > 1e-14]
    return -np.sum(w * np.log2(w))


def main(theta, J, h):
    n = 3
    H = hamiltonian(J, h, n)
    qc = Circuit(n)
    for layer in theta.reshape(-1, n, 2):
        for q, (a, b) in enumerate(layer):
            qc.ry(a, q).rz(b, q)
        for q in range(n - 1):
            qc.cnot(q, q + 1)
    energy = qc.expect(H)
    exact = expm(-1j * H * 0.5) @ qc.state
    A, B = hamiltonian(J, 0, n), hamiltonian(0, h, n)
    step = expm(-0.05j * A) @ expm(-0.1j * B) @ expm(-0.05j * A)
    trotter = np.linalg.matrix_power(step, 5) @ qc.state
    fidelity = np.abs(np.vdot(exact, trotter)) ** 2
    assert np.isclose(np.linalg.norm(exact), 1)
    return energy + entropy(qc.state, n) - 10 * np.log10(1 - fidelity + 1e-6)


ARGUMENTS = (np.linspace(0.1, 1.2, 12), 1.0, 0.7)


def check():
    assert np.allclose(op(X, 0, 2), np.kron(X, I))
