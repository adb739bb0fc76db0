"""Pharmacology, audio and taxes: piecewise curves, lookups, insert and delete, nditer."""

import copy
import json

import numpy as np
from scipy.interpolate import CubicSpline, interp1d


def envelope(t, a, d, s, r, length):
    return np.piecewise(
        t,
        [t < a, (t >= a) & (t < a + d), (t >= a + d) & (t < length - r), t >= length - r],
        [lambda x: x / a, lambda x: 1 - (1 - s) * (x - a) / d, s, lambda x: s * (length - x) / r],
    )


def tax(income, rates, brackets):
    idx = np.digitize(income, brackets)
    total = 0.0
    for i in range(idx + 1):
        low = brackets[i - 1] if i > 0 else 0
        high = brackets[i] if i < len(brackets) else np.inf
        total += (min(income, high) - low) * rates[i]
    return total


def dose_schedule(times, doses, ke, ka, vd, t):
    conc = np.zeros_like(t)
    for td, dose in zip(times, doses):
        dt = np.maximum(t - td, 0)
        conc += np.where(
            t > td, dose * ka / (vd * (ka - ke)) * (np.exp(-ke * dt) - np.exp(-ka * dt)), 0
        )
    return conc


def main(adsr, ke, income, knots):
    cfg = {"times": [0, 8, 16], "doses": [100, 50, 50]}
    cfg2 = copy.deepcopy(cfg)
    cfg2["ke"] = ke
    json.dumps(cfg)
    t = np.linspace(0, 1, 21)
    env = envelope(t, *adsr, 1.0)
    th = np.linspace(0, 24, 25)
    c = dose_schedule(cfg2["times"], cfg2["doses"], cfg2["ke"], 1.2, 30.0, th)
    auc = np.trapezoid(c, th)
    above = th[np.flatnonzero(c > 1.0)]
    label = np.select([c < 0.5, c < 1.5], ["low", "mid"], default="high")
    x = np.array([0.0, 1.0, 2.0, 3.0])
    y = np.insert(knots, 1, knots.mean())
    y = np.delete(y, -1)
    lin = interp1d(x, y, kind="linear", fill_value="extrapolate")
    cs = CubicSpline(x, y, bc_type="natural")
    z = 0
    for v in np.nditer(x):
        z += v * lin(v)
    return (
        env.sum()
        + auc / 10
        + tax(income, [0.1, 0.2, 0.3], [10.0, 40.0])
        + lin(3.5)
        + cs(1.3)
        + cs(0.4, 1)
        + cs.integrate(0, 2)
        + z
        + len(above)
        + (label == "mid").sum()
    )


ARGUMENTS = ([0.11, 0.12, 0.6, 0.21], 0.2, 55.5, np.array([1.0, 3.0, 2.0, 4.0]))


def check():
    assert tax(50.0, [0.1, 0.2, 0.3], [10.0, 40.0]) == 1 + 6 + 3
