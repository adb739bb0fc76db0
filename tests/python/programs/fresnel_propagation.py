"""Wave optics: a lens with aberrations focuses a beam; the field goes by the angular spectrum."""

import numpy as np


class Field:
    def __init__(self, size, width, wavelength):
        self.wavelength = wavelength
        self.step = width / size
        axis = (np.arange(size) - size // 2) * self.step
        self.x, self.y = np.meshgrid(axis, axis, indexing="xy")
        self.amplitude = np.ones((size, size), dtype=complex)

    def aperture(self, radius):
        self.amplitude[np.hypot(self.x, self.y) > radius] = 0
        return self

    def lens(self, focal_length, aberrations=()):
        k = 2 * np.pi / self.wavelength
        r2 = self.x**2 + self.y**2
        phase = -k * r2 / (2 * focal_length)
        unit = r2.max()
        terms = (
            (r2 / unit) ** 2,  # spherical
            self.x * r2 / unit**1.5,  # coma
            (self.x**2 - self.y**2) / unit,  # astigmatism
        )
        for coefficient, term in zip(aberrations, terms, strict=False):
            phase += 2 * np.pi * coefficient * term
        self.amplitude *= np.exp(1j * phase)
        return self

    def propagate(self, distance):
        f = np.fft.fftfreq(len(self.amplitude), self.step)
        fx, fy = np.meshgrid(f, f)
        under_root = 1 / self.wavelength**2 - fx**2 - fy**2
        kz = 2 * np.pi * np.sqrt(np.maximum(under_root, 0))
        self.amplitude = np.fft.ifft2(np.fft.fft2(self.amplitude) * np.exp(1j * kz * distance))
        return self

    @property
    def intensity(self):
        return np.abs(self.amplitude) ** 2

    @property
    def power(self):
        return self.intensity.sum() * self.step**2


def main(focal_length, aberrations):
    field = Field(32, 2.0, 2e-3).aperture(0.8)
    total = field.power
    field.lens(focal_length, aberrations).propagate(120.0)
    inside = np.where(np.hypot(field.x, field.y) < 0.2, field.intensity, 0.0)
    centroid = (field.x * field.intensity).sum() / field.intensity.sum()
    return 1.0 - inside.sum() * field.step**2 / total + centroid**2


ARGUMENTS = (110.0, np.array([0.3, 0.2, -0.4]))


def check():
    """Free propagation keeps the power, and a lens raises the intensity on the axis."""
    field = Field(32, 2.0, 2e-3).aperture(0.8)
    before = field.power
    flat = field.propagate(120.0).intensity[16, 16]
    assert abs(field.power - before) < 1e-12
    focused = Field(32, 2.0, 2e-3).aperture(0.8).lens(120.0).propagate(120.0)
    assert focused.intensity[16, 16] > 3 * flat
