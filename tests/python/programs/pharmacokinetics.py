"""Pharmacology: two compartments, doses by mouth and infusion, and a population's likelihood."""

import numpy as np


class Patient:
    def __init__(self, weight, times, concentrations):
        self.weight = weight
        self.times = np.asarray(times, dtype=float)
        self.concentrations = np.asarray(concentrations, dtype=float)


PATIENTS = [
    Patient(70.0, [1, 2, 4, 8, 12, 25, 30], [2.3, 3.0, 3.0, 2.2, 1.6, 3.0, 2.6]),
    Patient(55.0, [0.5, 3, 6, 10, 26, 36], [1.8, 4.0, 3.3, 2.4, 4.4, 2.3]),
    Patient(90.0, [2, 5, 9, 24.5, 28], [2.2, 2.2, 1.6, 1.6, 2.6]),
]
DOSES = [(0.0, 100.0), (24.0, 100.0)]
PARAMETERS = ("clearance", "v1", "q", "v2", "ka")


def macro_constants(clearance, v1, q, v2):
    k10, k12, k21 = clearance / v1, q / v1, q / v2
    total = k10 + k12 + k21
    root = np.sqrt(total**2 - 4 * k10 * k21)
    return k21, (total + root) / 2, (total - root) / 2


def concentration(t, clearance, v1, q, v2, ka, doses=DOSES):
    """By superposition of all doses given before."""
    k21, alpha, beta = macro_constants(clearance, v1, q, v2)
    c = np.zeros(len(t))
    for time, amount in doses:
        late = t > time
        dt = t[late] - time
        scale = amount * ka / v1
        a = (k21 - alpha) / ((ka - alpha) * (beta - alpha))
        b = (k21 - beta) / ((ka - beta) * (alpha - beta))
        g = (k21 - ka) / ((alpha - ka) * (beta - ka))
        c[late] += scale * (a * np.exp(-alpha * dt) + b * np.exp(-beta * dt) + g * np.exp(-ka * dt))
    return c


def individual(typical, eta, weight):
    p = dict(zip(PARAMETERS, typical))
    p["clearance"] *= np.exp(eta[0]) * (weight / 70) ** 0.75
    p["v1"] *= np.exp(eta[1]) * weight / 70
    return p


def area_under_curve(t, c):
    """Trapezoids up, logarithmic down."""
    dt = np.diff(t)
    rising = c[1:] >= c[:-1]
    ratio = np.where(rising, 2.0, c[:-1] / c[1:])
    down = (c[:-1] - c[1:]) / np.log(ratio)
    return np.sum(dt * np.where(rising, 0.5 * (c[1:] + c[:-1]), down))


def main(log_typical, etas, omega, sigma):
    typical = np.exp(log_typical)
    objective = 0.0
    for patient, eta in zip(PATIENTS, etas):
        p = individual(typical, eta, patient.weight)
        predicted = concentration(patient.times, **p)
        variance = (sigma[0] * predicted) ** 2 + sigma[1] ** 2
        objective += np.sum((patient.concentrations - predicted) ** 2 / variance + np.log(variance))
        objective += np.sum((eta / omega) ** 2 + 2 * np.log(omega))
    grid = np.linspace(0.25, 24, 48)
    exposure = area_under_curve(grid, concentration(grid, *typical, doses=DOSES[:1]))
    return objective + (exposure / 40 - 1) ** 2


ARGUMENTS = (
    np.log([2.4, 22.0, 3.0, 18.0, 0.7]),
    np.array([[0.1, -0.05], [-0.2, 0.1], [0.05, 0.15]]),
    np.array([0.3, 0.2]),
    np.array([0.1, 0.15]),
)


def check():
    """The area under the curve is dose over clearance."""
    t = np.linspace(1e-3, 300, 6000)
    c = concentration(t, 2.4, 22.0, 3.0, 18.0, 0.7, doses=[(0.0, 100.0)])
    assert abs(area_under_curve(t, c) - 100 / 2.4) < 0.05
    assert np.all(c > 0)
