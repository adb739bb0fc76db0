"""Signal fitting: peaks of a spectrum by Levenberg and Marquardt, with error bars."""

import numpy as np
from numpy.polynomial import polynomial as P


def lorentz(x, centre, width):
    return 1 / (1 + ((x - centre) / width) ** 2)


def gauss(x, centre, width):
    return np.exp(-np.log(2) * ((x - centre) / width) ** 2)


def pseudo_voigt(x, height, centre, width, mixing):
    return height * (mixing * lorentz(x, centre, width) + (1 - mixing) * gauss(x, centre, width))


def model(x, p):
    """Peaks of three parameters each, one mixing for all, a straight line."""
    *peaks, mixing, c0, c1 = p
    y = P.polyval(x, np.array([c0, c1]))
    for height, centre, width in zip(*[iter(peaks)] * 3):
        y = y + pseudo_voigt(x, height, centre, width, mixing)
    return y


def numerical_jacobian(f, p, eps=1e-6):
    p = np.asarray(p, dtype=float)
    columns = []
    for i in range(p.size):
        step = np.zeros(p.size)
        step[i] = eps * max(1.0, abs(p[i]))
        columns.append((f(p + step) - f(p - step)) / (2 * step[i]))
    return np.stack(columns, axis=1)


def levenberg_marquardt(f, p, iterations=25, damping=1e-2):
    r = f(p)
    cost = r @ r
    for _ in range(iterations):
        J = numerical_jacobian(f, p)
        A, g = J.T @ J, J.T @ r
        step = np.linalg.solve(A + damping * np.diag(np.diag(A)), -g)
        trial = f(p + step)
        if trial @ trial < cost:
            p, r, cost = p + step, trial, trial @ trial
            damping *= 0.2
        else:
            damping *= 5
        if np.linalg.norm(step) < 1e-9:
            break
    return p, np.linalg.inv(A) * cost / (len(r) - len(p))


X = np.linspace(0, 10, 60)
TRUE = np.array([3.0, 2.9, 0.5, 2.0, 6.2, 0.8, 0.4, 0.5, 0.05])


def main(p, weight):
    """The misfit near the best parameters, with a penalty on implausible widths."""
    data = model(X, TRUE) + 0.02 * np.cos(17 * X)
    residual = (data - model(X, p)) * np.where(data > 1.0, weight, 1.0)
    widths = p[2:6:3]
    penalty = np.sum(np.log(widths / 0.6) ** 2)
    jacobian = numerical_jacobian(lambda q: model(X, q), p)
    information = np.linalg.slogdet(jacobian.T @ jacobian)[1]
    return np.sum(residual**2) + 0.1 * penalty - 0.01 * information


ARGUMENTS = (TRUE * 1.05 - 0.01, 1.3)


def check():
    data = model(X, TRUE) + 0.02 * np.cos(17 * X)
    fitted, covariance = levenberg_marquardt(lambda p: model(X, p) - data, TRUE * 1.05)
    np.testing.assert_allclose(fitted, TRUE, atol=0.06)
    assert np.all(np.diag(covariance) > 0)
    assert lorentz(1.5, 1.0, 0.5) == gauss(1.5, 1.0, 0.5) == 0.5
