"""Robotics: Gauss-Newton over a pose graph, the back end of a SLAM system in the plane."""

import numpy as np


def v2t(v):
    c, s = np.cos(v[2]), np.sin(v[2])
    return np.array([[c, -s, v[0]], [s, c, v[1]], [0, 0, 1]])


def t2v(T):
    return np.array([T[0, 2], T[1, 2], np.arctan2(T[1, 0], T[0, 0])])


class PoseGraph:
    def __init__(self, poses):
        self.poses = [np.asarray(p, dtype=float) for p in poses]
        self.edges = []

    def add_edge(self, i, j, measurement, information):
        self.edges.append((i, j, measurement, information))

    def residual(self, i, j, z):
        return t2v(np.linalg.inv(v2t(z)) @ np.linalg.inv(v2t(self.poses[i])) @ v2t(self.poses[j]))

    def jacobians(self, i, j, z):
        """Of the residual, with respect to both poses."""
        ti, tj, zt = self.poses[i], self.poses[j], z[2]
        Ri, Rz = v2t([0, 0, ti[2]])[:2, :2], v2t([0, 0, zt])[:2, :2]
        dRi = np.array([[-np.sin(ti[2]), np.cos(ti[2])], [-np.cos(ti[2]), -np.sin(ti[2])]])
        A, B = np.zeros((3, 3)), np.zeros((3, 3))
        A[:2, :2] = -Rz.T @ Ri.T
        A[:2, 2] = Rz.T @ dRi @ (tj - ti)[:2]
        A[2, 2] = -1
        B[:2, :2] = Rz.T @ Ri.T
        B[2, 2] = 1
        return A, B

    def error(self):
        total = 0.0
        for i, j, z, omega in self.edges:
            e = self.residual(i, j, z)
            total += e @ omega @ e
        return total

    def step(self):
        n = 3 * len(self.poses)
        H, b = np.zeros((n, n)), np.zeros(n)
        for i, j, z, omega in self.edges:
            e = self.residual(i, j, z)
            A, B = self.jacobians(i, j, z)
            si, sj = slice(3 * i, 3 * i + 3), slice(3 * j, 3 * j + 3)
            H[si, si] += A.T @ omega @ A
            H[si, sj] += A.T @ omega @ B
            H[sj, si] += B.T @ omega @ A
            H[sj, sj] += B.T @ omega @ B
            b[si] += A.T @ omega @ e
            b[sj] += B.T @ omega @ e
        H[:3, :3] += 1e6 * np.eye(3)  # the first pose stays
        dx = np.linalg.solve(H, -b)
        for k, pose in enumerate(self.poses):
            pose += dx[3 * k : 3 * k + 3]
        return np.abs(dx).max()

    def optimize(self, iterations=20, tolerance=1e-11):
        for _ in range(iterations):
            if self.step() < tolerance:
                return True
        return False


def square(odometry, closure):
    poses = np.array([[0, 0, 0], [1.1, 0.1, 1.5], [1.0, 1.1, 3.0], [0.1, 0.9, -1.6]])
    graph = PoseGraph(poses)
    for i, z in enumerate(odometry):
        graph.add_edge(i, i + 1, z, np.diag([10.0, 10.0, 40.0]))
    graph.add_edge(3, 0, closure, np.diag([20.0, 20.0, 80.0]))
    return graph


def main(odometry, closure):
    graph = square(odometry, closure)
    graph.optimize()
    return graph.error() + np.sum(graph.poses[2][:2] ** 2)


ARGUMENTS = (
    np.array([[1.0, 0.05, 1.5], [0.95, 0.0, 1.6], [1.02, -0.03, 1.55]]),
    np.array([1.0, 0.02, 1.6]),
)


def check():
    graph = square(*ARGUMENTS)
    before = graph.error()
    assert graph.optimize()
    assert graph.error() < 0.2 * before
    quarter = np.array([1.0, 0.0, np.pi / 2])
    perfect = square([quarter] * 3, quarter)
    assert perfect.optimize()
    assert perfect.error() < 1e-15
    np.testing.assert_allclose(perfect.poses[2][:2], [1, 1], atol=1e-7)
