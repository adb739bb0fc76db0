"""Circuits: nodal analysis with diodes and a MOSFET by Newton's method, and a transient."""

import numpy as np


class Component:
    def __init__(self, *nodes):
        self.nodes = nodes


class Resistor(Component):
    def __init__(self, n1, n2, R):
        Component.__init__(self, n1, n2)
        self.G = 1.0 / R

    def stamp(self, A, b, x):
        i, j = self.nodes
        for p, q, s in [(i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)]:
            if p > 0 and q > 0:
                A[p - 1, q - 1] += s * self.G


class Diode(Component):
    def __init__(self, n1, n2, Is=1e-14, n=1.0, Vt=0.02585):
        super().__init__(n1, n2)
        self.Is, self.nVt = Is, n * Vt

    def stamp(self, A, b, x):
        i, j = self.nodes
        v = (x[i - 1] if i else 0) - (x[j - 1] if j else 0)
        v = min(v, 0.9)
        e = np.exp(v / self.nVt)
        g = self.Is / self.nVt * e + 1e-12
        I = self.Is * (e - 1) - g * v
        if i:
            A[i - 1, i - 1] += g
            b[i - 1] -= I
        if j:
            A[j - 1, j - 1] += g
            b[j - 1] += I
        if i and j:
            A[i - 1, j - 1] -= g
            A[j - 1, i - 1] -= g


class NMOS(Component):
    def __init__(self, d, g, s, k, vth, lam):
        super().__init__(d, g, s)
        self.k, self.vth, self.lam = k, vth, lam

    def stamp(self, A, b, x):
        d, g, s = self.nodes
        vd, vg, vs = [x[n - 1] if n else 0.0 for n in self.nodes]
        vgs, vds = vg - vs, vd - vs
        vov = vgs - self.vth
        if vov <= 0:
            ids = gm = gds = 0
        elif vds < vov:
            ids = self.k * (vov * vds - vds**2 / 2)
            gm, gds = self.k * vds, self.k * (vov - vds)
        else:
            ids = 0.5 * self.k * vov**2 * (1 + self.lam * vds)
            gm, gds = self.k * vov * (1 + self.lam * vds), 0.5 * self.k * vov**2 * self.lam
        I = ids - gm * vgs - gds * vds
        A[d - 1, d - 1] += gds
        A[d - 1, g - 1] += gm
        b[d - 1] -= I


class VSource(Component):
    def __init__(self, n, V, row):
        super().__init__(n)
        self.V, self.row = V, row

    def stamp(self, A, b, x):
        k, n = self.row, self.nodes[0] - 1
        A[k, n] += 1
        A[n, k] += 1
        b[k] += self.V


class Capacitor(Component):
    def __init__(self, n, C):
        super().__init__(n)
        self.C, self.dt, self.v = C, None, 0.0

    def stamp(self, A, b, x):
        if self.dt is None:
            return
        n = self.nodes[0] - 1
        A[n, n] += self.C / self.dt
        b[n] += self.C / self.dt * self.v


def newton(parts, size, x=None, tol=1e-10):
    x = np.zeros(size) if x is None else x
    for it in range(100):
        A, b = np.zeros((size, size)), np.zeros(size)
        for c in parts:
            c.stamp(A, b, x)
        new = np.linalg.solve(A, b)
        dx = new - x
        dx[np.abs(dx) > 0.3] = np.sign(dx[np.abs(dx) > 0.3]) * 0.3
        x = x + dx
        if np.max(np.abs(dx)) < tol:
            return x, it
    raise RuntimeError("Newton did not converge: residual %e" % np.max(np.abs(dx)))


def main(R, k, vth, C):
    parts = [
        VSource(1, 5.0, 4),
        Resistor(1, 2, 1000 * R),
        Diode(2, 3),
        Diode(3, 0),
        NMOS(4, 2, 0, k * 1e-3, vth, 0.02),
        Resistor(1, 4, 2200.0),
        Capacitor(4, C * 1e-6),
    ]
    cap = parts[-1]
    x, n = newton(parts, 5)
    cap.dt, cap.v = 1e-4, 0.0
    trace = [cap.v]
    for step in range(8):
        xt, _ = newton(parts, 5, x.copy())
        cap.v = xt[3]
        trace.append(cap.v)
    trace = np.asarray(trace)
    rise = np.interp(0.5 * trace[-1], trace, np.arange(len(trace)) * cap.dt)
    return x[1] + x[3] + 1000 * -x[4] + 1e3 * rise


ARGUMENTS = (1.0, 2.0, 0.8, 0.3)


def check():
    x, n = newton([VSource(1, 1.0, 1), Resistor(1, 0, 1.0)], 2)
    assert np.allclose(x, [1, -1])
