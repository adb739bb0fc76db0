"""Energy: a wind turbine's rotor by blade elements and momentum, and its yield over a year."""

import numpy as np


def airfoil(alpha):
    """Lift and drag of a thick section, with a smooth stall."""
    stalled = 1 / (1 + np.exp(-(np.abs(alpha) - 0.26) / 0.03))
    cl = (1 - stalled) * 2 * np.pi * alpha + stalled * 1.1 * np.sin(2 * alpha)
    cd = 0.008 + 0.02 * alpha**2 + stalled * 1.2 * np.sin(alpha) ** 2
    return cl, cd


def prandtl(blades, r, tip, root, phi):
    f_tip = blades / 2 * (tip - r) / (r * np.abs(np.sin(phi)))
    f_root = blades / 2 * (r - root) / (root * np.abs(np.sin(phi)))
    return (2 / np.pi) ** 2 * np.arccos(np.exp(-f_tip)) * np.arccos(np.exp(-f_root))


class Rotor:
    def __init__(self, radius, root, chord, twist, blades=3):
        self.radius, self.root, self.blades = radius, root, blades
        edges = np.linspace(root, radius, len(chord) + 1)
        self.r, self.dr = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
        self.chord, self.twist = chord, twist

    def element(self, i, wind, omega, pitch):
        r = self.r[i]
        solidity = self.blades * self.chord[i] / (2 * np.pi * r)
        a, a_prime = 0.3, 0.01
        for _ in range(200):
            phi = np.arctan2((1 - a) * wind, (1 + a_prime) * omega * r)
            cl, cd = airfoil(phi - self.twist[i] - pitch)
            cn = cl * np.cos(phi) + cd * np.sin(phi)
            ct = cl * np.sin(phi) - cd * np.cos(phi)
            F = prandtl(self.blades, r, self.radius, self.root, phi)
            k = solidity * cn / (4 * F * np.sin(phi) ** 2)
            if k <= 2 / 3:
                new = k / (1 + k)
            else:  # Buhl's correction of a heavily loaded rotor
                g1, g2, g3 = (
                    2 * F * k - (10 / 9 - F),
                    2 * F * k - F * (4 / 3 - F),
                    2 * F * k - (25 / 9 - 2 * F),
                )
                new = (g1 - np.sqrt(g2)) / g3
            k_prime = solidity * ct / (4 * F * np.sin(phi) * np.cos(phi))
            new_prime = k_prime / (1 - k_prime)
            moved = max(abs(new - a), abs(new_prime - a_prime))
            a, a_prime = 0.6 * a + 0.4 * new, 0.6 * a_prime + 0.4 * new_prime
            if moved < 1e-11:
                break
        speed2 = ((1 - a) * wind) ** 2 + ((1 + a_prime) * omega * r) ** 2
        return 0.5 * 1.225 * speed2 * self.chord[i] * self.blades * np.array([cn, ct * r])

    def loads(self, wind, tip_speed_ratio, pitch):
        omega = tip_speed_ratio * wind / self.radius
        loads = np.array([self.element(i, wind, omega, pitch) for i in range(len(self.r))])
        thrust, torque = loads.T @ self.dr
        return thrust, torque * omega

    def power_coefficient(self, tip_speed_ratio, pitch=0.0, wind=8.0):
        _, power = self.loads(wind, tip_speed_ratio, pitch)
        return power / (0.5 * 1.225 * np.pi * self.radius**2 * wind**3)


def annual_energy(rotor, cp, scale, rated=2000.0, shape=2.0):
    """In megawatt hours, for winds after Weibull; the generator limits smoothly."""
    v = np.arange(3.0, 25.0)
    density = shape / scale * (v / scale) ** (shape - 1) * np.exp(-((v / scale) ** shape))
    power = 0.5 * 1.225 * np.pi * rotor.radius**2 * cp * v**3 / 1000
    return np.sum(density * rated * np.tanh(power / rated)) * 8.76


def main(chord, twist, tip_speed_ratio, pitch, scale):
    rotor = Rotor(40.0, 2.0, chord, twist)
    thrust, _ = rotor.loads(8.0, tip_speed_ratio, pitch)
    cp = rotor.power_coefficient(tip_speed_ratio, pitch)
    energy = annual_energy(rotor, cp, scale)
    return -energy / 1000 + 1e-6 * thrust + 0.02 * np.sum(chord)


ARGUMENTS = (
    np.array([3.2, 3.0, 2.4, 1.8, 1.2]),
    np.array([0.25, 0.14, 0.07, 0.03, 0.0]),
    7.0,
    0.01,
    8.5,
)


def check():
    rotor = Rotor(40.0, 2.0, *ARGUMENTS[:2])
    best = max(rotor.power_coefficient(tsr) for tsr in (5.0, 6.0, 7.0, 8.0))
    assert 0.4 < best < 16 / 27  # Betz
