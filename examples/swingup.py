"""Teach a network to swing up a pendulum, by a gradient through its equations of motion.

The motor is too weak to lift the pendulum in one go. Simulation, network and Adam are plain NumPy,
and the gradient passes through every step of the simulation:

    python examples/swingup.py --out swingup.png
"""

import argparse
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

import cotan as ct

GRAVITY, DAMPING, MOTOR = 9.81, 0.05, 5.0
DT, STEPS = 0.05, 100
STARTS, HIDDEN, UPDATES = 64, 24, 900
RATE = 1e-2
SEED = 3


@dataclass
class Controller:
    """A network with one hidden layer."""

    w1: np.ndarray
    b1: np.ndarray
    w2: np.ndarray
    b2: np.ndarray

    def torque(self, angle, speed):
        seen = np.stack([np.sin(angle), np.cos(angle), speed / 4], axis=-1)
        return MOTOR * np.tanh(np.tanh(seen @ self.w1 + self.b1) @ self.w2 + self.b2)[..., 0]


class Pendulum:
    """A batch of pendulums; an angle of 0 is upright."""

    def __init__(self, angle, speed):
        self.angle, self.speed = angle, speed

    def step(self, torque):
        # semi-implicit Euler, so that the energy does not drift
        self.speed = self.speed + DT * (
            GRAVITY * np.sin(self.angle) - DAMPING * self.speed + torque
        )
        self.angle = self.angle + DT * self.speed


def episode(controller, angle, speed):
    """Simulate; give angles and torques, one row for each step, and the final state."""
    pendulum = Pendulum(angle, speed)
    angles, torques = np.empty((STEPS, len(angle))), np.empty((STEPS, len(angle)))
    for n in range(STEPS):
        torques[n] = controller.torque(pendulum.angle, pendulum.speed)
        pendulum.step(torques[n])
        angles[n] = pendulum.angle
    return angles, torques, pendulum


def cost(controller, angle, speed):
    angles, torques, pendulum = episode(controller, angle, speed)
    # being upright counts more later on
    weights = np.linspace(0, 2, STEPS)[:, None]
    upright = np.mean(weights * (1 - np.cos(angles)))
    return upright + 0.01 * np.mean(pendulum.speed**2) + 2e-4 * np.mean(torques**2)


def starts(rng):
    """Start anywhere: pendulums near the top learn to stay there before the others arrive."""
    return rng.uniform(0, 2 * np.pi, STARTS), 1.5 * rng.standard_normal(STARTS)


class Adam:
    """Adam with gradients clipped to unit norm; updates the parameters in place."""

    def __init__(self, controller):
        self.mean = [np.zeros_like(getattr(controller, f.name)) for f in fields(controller)]
        self.square = [np.zeros_like(m) for m in self.mean]
        self.steps = 0

    def step(self, controller, gradient, rate):
        self.steps += 1
        parts = [getattr(gradient, f.name) for f in fields(controller)]
        norm = np.sqrt(sum(np.sum(g**2) for g in parts))
        for f, g, m, s in zip(fields(controller), parts, self.mean, self.square, strict=True):
            short = g / max(1.0, norm)
            m[...] += 0.1 * (short - m)
            s[...] += 0.01 * (short**2 - s)
            p = getattr(controller, f.name)
            scale = np.sqrt(s / (1 - 0.99**self.steps)) + 1e-8
            p -= rate * m / (1 - 0.9**self.steps) / scale


def progress(updates: range) -> Iterable[int]:
    try:
        from tqdm import tqdm  # noqa: PLC0415
    except ImportError:
        return updates
    return tqdm(updates, unit="update")


def draw(controller: Controller, costs: list[float], path: Path) -> None:
    try:
        import matplotlib as mpl  # noqa: PLC0415

        mpl.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    fig, (learn, swing) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    learn.plot(costs, color="C0", linewidth=0.8)
    learn.set(xlabel="update", ylabel="cost", title="learning")
    angles, torques, _ = episode(controller, np.pi + np.linspace(-0.6, 0.6, 7), np.zeros(7))
    t = DT * np.arange(1, STEPS + 1)
    swing.plot(t, np.cos(angles), color="C0", linewidth=0.8)
    swing.plot(t, torques[:, 3] / MOTOR, color="C1", linewidth=0.8, label="torque / maximum")
    swing.plot([], [], color="C0", label="height of the bob")
    swing.set(xlabel="seconds", title="seven pendulums from below")
    swing.legend(loc="lower right")
    fig.savefig(path, dpi=120)
    plt.close(fig)
    print(f"picture: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("swingup.png"), help="picture")
    parser.add_argument("--updates", type=int, default=UPDATES)
    args = parser.parse_args()

    rng = np.random.default_rng(SEED)
    controller = Controller(
        rng.standard_normal((3, HIDDEN)),
        np.zeros(HIDDEN),
        rng.standard_normal((HIDDEN, 1)) / np.sqrt(HIDDEN),
        np.zeros(1),
    )
    adam = Adam(controller)
    costs: list[float] = []
    begin = time.perf_counter()
    for n in progress(range(args.updates)):
        angle, speed = starts(rng)
        value, (gradient, _, _) = ct.value_and_gradient(
            cost, controller, ct.const(angle), ct.const(speed)
        )
        adam.step(controller, gradient, RATE * (1 - n / args.updates))
        costs.append(value)
    seconds = time.perf_counter() - begin

    angles, _, _ = episode(controller, *starts(np.random.default_rng(SEED + 1)))
    up = np.mean(np.all(np.cos(angles[-20:]) > 0.9, axis=0))
    draw(controller, costs, args.out)
    print(
        f"cost {costs[0]:.3f} before, {np.mean(costs[-20:]):.3f} after; {up:.0%} of new pendulums "
        f"stand upright in the last second, {1e3 * seconds / args.updates:.1f} ms an update"
    )


if __name__ == "__main__":
    main()
