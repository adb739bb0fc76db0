"""Celestial mechanics: three bodies, integrated by leapfrog with softened gravity."""

import numpy as np

G = 1.0


class Body:
    def __init__(self, mass, position, velocity):
        self.mass = mass
        self.position = np.array(position, dtype=float)
        self.velocity = np.array(velocity, dtype=float)
        self.acceleration = np.zeros(3)

    def kinetic_energy(self):
        return 0.5 * self.mass * np.dot(self.velocity, self.velocity)


class System:
    def __init__(self, bodies, softening=0.0):
        self.bodies = list(bodies)
        self.softening = softening
        self.time = 0.0
        self.accelerate()

    def accelerate(self):
        for body in self.bodies:
            body.acceleration[:] = 0.0
        for i, a in enumerate(self.bodies):
            for b in self.bodies[i + 1 :]:
                d = b.position - a.position
                r2 = np.sum(d**2) + self.softening**2
                pull = G * d / r2**1.5
                a.acceleration += b.mass * pull
                b.acceleration -= a.mass * pull

    def step(self, dt):
        for body in self.bodies:
            body.velocity += 0.5 * dt * body.acceleration
            body.position += dt * body.velocity
        self.accelerate()
        for body in self.bodies:
            body.velocity += 0.5 * dt * body.acceleration
        self.time += dt

    def energy(self):
        energy = sum(body.kinetic_energy() for body in self.bodies)
        for i, a in enumerate(self.bodies):
            for b in self.bodies[:i]:
                r = np.sqrt(np.sum((a.position - b.position) ** 2) + self.softening**2)
                energy -= G * a.mass * b.mass / r
        return energy

    def momentum(self):
        return sum(body.mass * body.velocity for body in self.bodies)


def build(masses, positions, velocities):
    return System(
        (Body(m, p, v) for m, p, v in zip(masses, positions, velocities, strict=True)),
        softening=0.05,
    )


def main(masses, positions, velocities):
    system = build(masses, positions, velocities)
    while system.time < 1.0 - 1e-9:
        system.step(0.025)
    target = np.array([0.8, 0.6, 0.1])
    return np.linalg.norm(system.bodies[1].position - target) + 0.1 * abs(system.energy())


ARGUMENTS = (
    np.array([1.0, 0.02, 0.3]),
    np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.1], [-1.5, 0.4, -0.2]]),
    np.array([[0.0, 0.0, 0.0], [0.1, 0.9, 0.0], [0.2, -0.7, 0.1]]),
)


def check():
    system = build(*ARGUMENTS)
    energy, momentum = system.energy(), system.momentum()
    for _ in range(100):
        system.step(0.01)
    assert abs(system.energy() - energy) < 1e-3 * abs(energy)
    np.testing.assert_allclose(system.momentum(), momentum, atol=1e-13)
