"""Climate: an energy-balance model with ice-albedo feedback and diffusion in latitude."""

import numpy as np


class EBM:
    defaults = dict(
        D=0.6,
        A=193.0,
        B=2.1,
        cw=9.8,
        S0=420.0,
        S2=240.0,
        a0=0.7,
        a2=0.1,
        ai=0.4,
        F=0.0,
        n=24,
        nt=50,
    )

    def __init__(self, **kwargs):
        params = self.defaults.copy()
        params.update(kwargs)
        for key, val in params.items():
            setattr(self, key, val)
        self.dx = 1.0 / self.n
        self.x = np.linspace(self.dx / 2, 1 - self.dx / 2, self.n)
        self.dt = 1.0 / self.nt
        self.lat = np.rad2deg(np.arcsin(self.x))
        xb = np.linspace(self.dx, 1 - self.dx, self.n - 1)
        lam = self.D / self.dx**2 * (1 - xb**2)
        a = np.append(0, -lam)
        c = np.append(-lam, 0)
        b = -a - c
        self.diffop = -np.diag(b) - np.diag(c[:-1], 1) - np.diag(a[1:], -1)
        self.S = self.S0 - self.S2 * self.x**2
        self.aw = self.a0 - self.a2 * self.x**2

    def albedo(self, T):
        return np.where(T > 0, self.aw, self.ai)

    def run(self, years, T=None):
        if T is None:
            T = 10 * np.ones(self.n)
        history = []
        inv = np.linalg.inv(
            np.eye(self.n) * (1 + self.dt * self.B / self.cw) - self.dt * self.diffop / self.cw
        )
        for year in range(years):
            for i in range(self.nt):
                C = self.albedo(T) * self.S - self.A + self.F
                T0 = T + self.dt / self.cw * C
                T = inv.dot(T0)
            history.append(T.mean())
        self.T = T
        return np.array(history)

    def ice_edge(self):
        if np.all(self.T > 0):
            return 90.0
        k = np.argmax(self.T < 0)
        w = self.T[k - 1] / (self.T[k - 1] - self.T[k])
        return self.lat[k - 1] + w * (self.lat[k] - self.lat[k - 1])


def main(D, B, ai):
    control = EBM(D=D, B=B, ai=ai)
    h = control.run(5)
    forced = EBM(D=D, B=B, ai=ai, F=4.0)
    h2 = forced.run(5, T=control.T.copy())
    sensitivity = (h2[-1] - h[-1]) / 4.0
    print(f"T = {h[-1]:.2f} C, edge {control.ice_edge():.1f}")
    grad = np.gradient(control.T, control.x)
    return h[-1] + 10 * sensitivity + control.ice_edge() / 10 + grad.min() / 10


ARGUMENTS = (0.6, 2.1, 0.4)


def check():
    assert np.allclose(EBM().diffop.sum(axis=1), 0)
