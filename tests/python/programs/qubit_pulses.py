"""Quantum control: gates on two qubits by shaped pulses, with decay; fidelity of what comes out."""

from functools import reduce

import numpy as np
from scipy.linalg import expm

I = np.eye(2)
X = np.array([[0, 1], [1, 0]], dtype=complex)
Y = np.array([[0, -1j], [1j, 0]])
Z = np.diag([1.0, -1.0])
LOWER = np.array([[0, 1], [0, 0]])


def kron(*parts):
    return reduce(np.kron, parts)


def rabi(omega, detuning, t):
    """The propagator of one driven qubit, in closed form."""
    total = np.sqrt(omega**2 + detuning**2)
    c, s = np.cos(total * t / 2), np.sin(total * t / 2)
    return np.array(
        [
            [c + 1j * detuning / total * s, -1j * omega / total * s],
            [-1j * omega / total * s, c - 1j * detuning / total * s],
        ]
    )


def propagator(controls, coupling, dt):
    """`controls`: amplitudes of X1, X2 and Y2, one row for each slice of time."""
    U = np.eye(4, dtype=complex)
    for x1, x2, y2 in controls:
        H = coupling * kron(Z, Z) + x1 * kron(X, I) + x2 * kron(I, X) + y2 * kron(I, Y)
        U = expm(-1j * H * dt) @ U
    return U


def fidelity(U, target):
    return np.abs(np.trace(target.conj().T @ U)) ** 2 / len(U) ** 2


def lindblad(rho, H, jumps):
    drho = -1j * (H @ rho - rho @ H)
    for L in jumps:
        LdL = L.conj().T @ L
        drho += L @ rho @ L.conj().T - 0.5 * (LdL @ rho + rho @ LdL)
    return drho


def decay(omega, gamma, t, steps=40):
    """The population of the upper level of a driven qubit that decays; Heun's method."""
    rho = np.zeros((2, 2), dtype=complex)
    rho[0, 0] = 1
    H = 0.5 * omega * X
    jumps = [np.sqrt(gamma) * LOWER]
    dt = t / steps
    for _ in range(steps):
        k1 = lindblad(rho, H, jumps)
        rho = rho + 0.5 * dt * (k1 + lindblad(rho + dt * k1, H, jumps))
    return rho[1, 1].real


CZ = np.diag([1, 1, 1, -1]).astype(complex)


def main(controls, coupling, omega, gamma):
    U = propagator(controls, coupling, 0.3)
    purity = np.vdot(U[:, 0], U[:, 0]).real
    smooth = np.sum(np.diff(controls, axis=0) ** 2)
    flip = rabi(omega, 0.2, 2.0)
    return (
        1
        - fidelity(U, CZ)
        + 0.01 * smooth
        + decay(omega, gamma, 2.0)
        + abs(flip[1, 0]) ** 2
        + purity
    )


ARGUMENTS = (0.5 * np.sin(np.arange(15.0)).reshape(5, 3), 0.6, 1.3, 0.2)


def check():
    U = propagator(*ARGUMENTS[:2], 0.3)
    np.testing.assert_allclose(U.conj().T @ U, np.eye(4), atol=1e-12)
    closed = rabi(1.3, 0.4, 0.9)
    np.testing.assert_allclose(closed, expm(-0.5j * 0.9 * (1.3 * X - 0.4 * Z)), atol=1e-12)
    assert abs(decay(1.0, 0.0, np.pi, 400) - 1) < 1e-4
