"""Robotics: a planar arm reaches for a point by damped least squares, and how far it must bend."""

import numpy as np

MAX_ITERATIONS = 60


def joints(angles, lengths):
    total = np.cumsum(angles)
    steps = lengths[:, None] * np.stack([np.cos(total), np.sin(total)], axis=1)
    return np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])


def jacobian(points):
    arm = points[-1] - points[:-1]
    return np.vstack([-arm[:, 1], arm[:, 0]])


def reach(target, lengths, start, damping=0.05, tolerance=1e-12):
    angles = np.array(start, dtype=float)
    for iteration in range(MAX_ITERATIONS):
        points = joints(angles, lengths)
        error = target - points[-1]
        if np.linalg.norm(error) < tolerance:
            break
        J = jacobian(points)
        A = J @ J.T
        if iteration < 6:
            A[np.diag_indices(2)] += damping**2
        try:
            step = J.T @ np.linalg.solve(A, error)
        except np.linalg.LinAlgError:
            step = J.T @ error
        largest = np.abs(step).max()
        if largest > 0.5:
            step *= 0.5 / largest
        angles += step
    else:
        raise RuntimeError("out of reach")
    return angles, iteration


def main(target, lengths, start):
    angles, _ = reach(target, lengths, start)
    elbow = joints(angles, lengths)[2]
    return np.sum(np.diff(angles) ** 2) + 0.2 * elbow[1]


ARGUMENTS = (np.array([1.2, 0.9]), np.array([0.8, 0.7, 0.5]), np.array([0.4, 0.3, 0.2]))


def check():
    target, lengths, start = ARGUMENTS
    angles, iterations = reach(target, lengths, start)
    np.testing.assert_allclose(joints(angles, lengths)[-1], target, atol=1e-10)
    assert 3 < iterations < 30
