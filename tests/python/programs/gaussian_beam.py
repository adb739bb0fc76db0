"""Optics: a laser beam through lenses by ABCD matrices, and the coupling to a fibre."""

import numpy as np


class Element:
    def __init__(self, A, B, C, D):
        self.M = np.array([[A, B], [C, D]], dtype=float)

    def __mul__(self, other):
        m = self.M.dot(other.M)
        return Element(*m.flatten())

    @property
    def focal(self):
        return -1.0 / self.M[1, 0] if self.M[1, 0] != 0 else np.inf


class Space(Element):
    def __init__(self, d):
        super().__init__(1, d, 0, 1)


class Lens(Element):
    def __init__(self, f):
        super().__init__(1, 0, -1.0 / f, 1)


class GaussianBeam:
    def __init__(self, w0, wavelength, z=0.0):
        self.wavelength = wavelength
        self.q = (
            complex(z, np.pi * w0**2 / wavelength)
            if isinstance(w0, int)
            else z + 1j * np.pi * w0**2 / wavelength
        )

    def propagate(self, el):
        (A, B), (C, D) = el.M
        self.q = (A * self.q + B) / (C * self.q + D)
        return self

    @property
    def w(self):
        return np.sqrt(-self.wavelength / (np.pi * np.imag(1 / self.q)))

    @property
    def R(self):
        r = np.real(1 / self.q)
        return np.inf if r == 0 else 1 / r

    @property
    def waist(self):
        return np.sqrt(self.q.imag * self.wavelength / np.pi)


def main(w0, focals, distances):
    beam = GaussianBeam(w0, 1.064e-3)
    system = []
    for f, d in zip(focals, distances):
        system.append(Space(d))
        system.append(Lens(f))
    total = system[0]
    for el in system[1:]:
        total = el * total
    for el in system:
        beam.propagate(el)
    other = GaussianBeam(w0, 1.064e-3).propagate(total)
    assert np.isclose(beam.w, other.w)
    print("spot %.4f mm, R = %g mm, f = %s" % (beam.w, beam.R, total.focal))
    eta = (
        4
        * (beam.waist * 0.005) ** 2
        / ((beam.waist**2 + 0.005**2) ** 2 + (beam.q.real * 1e-4) ** 2)
    )
    return beam.w + 1e4 * eta + 1e-3 * total.focal + np.linalg.det(total.M)


ARGUMENTS = (0.5, [100.0, -50.0, 75.0], np.array([150.0, 60.0, 120.0]))


def check():
    b = GaussianBeam(1.0, 1e-3)
    assert abs(b.w - 1) < 1e-12
