"""Power systems: the load flow of a five-bus network by Newton and Raphson, in complex numbers."""

import numpy as np

# from, to, resistance, reactance, line charging
LINES = [
    (0, 1, 0.02, 0.06, 0.06),
    (0, 2, 0.08, 0.24, 0.05),
    (1, 2, 0.06, 0.18, 0.04),
    (1, 3, 0.06, 0.18, 0.04),
    (1, 4, 0.04, 0.12, 0.03),
    (2, 3, 0.01, 0.03, 0.02),
    (3, 4, 0.08, 0.24, 0.05),
]
SLACK, GENERATORS, LOADS = 0, [1], [2, 3, 4]


def admittances(scale):
    Y = np.zeros((5, 5), dtype=complex)
    for (i, j, r, x, b), s in zip(LINES, scale, strict=True):
        y = 1 / (s * complex(r, x))
        Y[i, j] -= y
        Y[j, i] -= y
        Y[i, i] += y + 0.5j * b
        Y[j, j] += y + 0.5j * b
    return Y


def dS_dV(Y, V):
    I = Y @ V
    unit = V / np.abs(V)
    by_angle = 1j * np.diag(V) @ np.conj(np.diag(I) - Y @ np.diag(V))
    by_magnitude = np.diag(V) @ np.conj(Y @ np.diag(unit)) + np.conj(np.diag(I)) @ np.diag(unit)
    return by_angle, by_magnitude


def newton(Y, S, magnitudes, tolerance=1e-10, max_iterations=15):
    pv, pq = np.array(GENERATORS), np.array(LOADS)
    pvpq = np.r_[pv, pq]
    Vm, Va = magnitudes.copy(), np.zeros(len(magnitudes))
    V = Vm * np.exp(1j * Va)
    for iteration in range(max_iterations):
        mismatch = V * np.conj(Y @ V) - S
        F = np.concatenate([mismatch[pvpq].real, mismatch[pq].imag])
        if np.linalg.norm(F, np.inf) < tolerance:
            return V, iteration
        by_angle, by_magnitude = dS_dV(Y, V)
        J = np.block(
            [
                [by_angle[np.ix_(pvpq, pvpq)].real, by_magnitude[np.ix_(pvpq, pq)].real],
                [by_angle[np.ix_(pq, pvpq)].imag, by_magnitude[np.ix_(pq, pq)].imag],
            ]
        )
        dx = -np.linalg.solve(J, F)
        Va[pvpq] += dx[: len(pvpq)]
        Vm[pq] += dx[len(pvpq) :]
        V = Vm * np.exp(1j * Va)
    raise RuntimeError("the power flow did not converge")


def losses(Y, V):
    return np.real(np.vdot(V, Y @ V))


def main(load, generation, voltage, scale):
    S = np.zeros(5, dtype=complex)
    S[GENERATORS] = generation
    S[LOADS] = -load * (1 + 0.4j)
    magnitudes = np.ones(5)
    magnitudes[SLACK], magnitudes[1] = 1.06, voltage
    Y = admittances(scale)
    V, _ = newton(Y, S, magnitudes)
    deviation = np.sum((np.abs(V[LOADS]) - 1.0) ** 2)
    return losses(Y, V) + 10 * deviation + np.angle(V[1] / V[4])


ARGUMENTS = (np.array([0.45, 0.4, 0.6]), 0.4, 1.045, np.linspace(0.9, 1.1, 7))


def check():
    Y = admittances(np.ones(7))
    S = np.array([0, 0.4, -0.45 - 0.15j, -0.4 - 0.05j, -0.6 - 0.1j])
    V, iterations = newton(Y, S, np.array([1.06, 1.045, 1, 1, 1]))
    assert iterations <= 5
    injected = V * np.conj(Y @ V)
    np.testing.assert_allclose(injected[2:], S[2:], atol=1e-9)
    assert abs(injected.real.sum() - losses(Y, V)) < 1e-10
