"""Learn handwritten digits with a network in plain NumPy, differentiated by cotan.

Train two hidden layers on the 1,797 images that ship with scikit-learn, report the accuracy on
unseen images, and draw the learning curve:

    python examples/digits.py --out digits.png

With `--device gpu` the steps run on a GPU.
"""

import argparse
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import cotan as ct

SEED = 0
HIDDEN = (128, 64)
EPOCHS = 30
BATCH = 64
LEARNING_RATE = 1e-2
DECAY = 0.03
TEST_IMAGES = 360


@dataclass
class Network:
    """Weights and biases; also the layout of Adam's state."""

    w1: np.ndarray
    b1: np.ndarray
    w2: np.ndarray
    b2: np.ndarray
    w3: np.ndarray
    b3: np.ndarray


def make_network(rng: np.random.Generator, inputs: int, outputs: int) -> Network:
    sizes = (inputs, *HIDDEN, outputs)
    parts: list[np.ndarray] = []
    for fan_in, fan_out in pairwise(sizes):
        w = rng.standard_normal((fan_in, fan_out)) * np.sqrt(2 / fan_in)
        parts += [w.astype(np.float32), np.zeros(fan_out, np.float32)]
    return Network(*parts)


def forward(net: Network, x: np.ndarray) -> np.ndarray:
    h = np.maximum(x @ net.w1 + net.b1, 0)
    h = np.maximum(h @ net.w2 + net.b2, 0)
    return h @ net.w3 + net.b3


def loss(net: Network, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Give the mean cross-entropy of the labels over the batch."""
    logits = forward(net, x)
    logits = logits - np.max(logits, axis=1, keepdims=True)
    log_sum = np.log(np.sum(np.exp(logits), axis=1))
    return np.mean(log_sum - logits[np.arange(len(labels)), labels])


def accuracy(net: Network, x: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(np.argmax(forward(net, x), axis=1) == labels))


class Adam:
    """Adam with decoupled weight decay; updates the parameters in place."""

    def __init__(self, net: Network) -> None:
        self.mean = Network(*(np.zeros_like(getattr(net, f.name)) for f in fields(net)))
        self.square = Network(*(np.zeros_like(getattr(net, f.name)) for f in fields(net)))
        self.steps = 0

    def step(self, net: Network, gradient: object, rate: float) -> None:
        self.steps += 1
        for f in fields(net):
            p, g = getattr(net, f.name), getattr(gradient, f.name)
            m, s = getattr(self.mean, f.name), getattr(self.square, f.name)
            m += 0.1 * (g - m)
            s += 0.001 * (g * g - s)
            unbiased = m / (1 - 0.9**self.steps)
            scale = np.sqrt(s / (1 - 0.999**self.steps)) + 1e-8
            p -= rate * (unbiased / scale + DECAY * p)


def batches(rng: np.random.Generator, size: int) -> Iterator[np.ndarray]:
    order = rng.permutation(size)
    for start in range(0, size - BATCH + 1, BATCH):
        yield order[start : start + BATCH]


def progress(epochs: range) -> Iterable[int]:
    try:
        from tqdm import tqdm  # noqa: PLC0415
    except ImportError:
        return epochs
    return tqdm(epochs, unit="epoch")


def draw(losses: list[float], path: Path) -> None:
    try:
        import matplotlib as mpl  # noqa: PLC0415

        mpl.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    steps = np.arange(1, len(losses) + 1)
    window = min(22, len(losses))
    smooth = np.convolve(losses, np.ones(window) / window, mode="valid")
    fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
    ax.semilogy(steps, losses, color="0.8", linewidth=0.8, label="each batch")
    ax.semilogy(steps[window - 1 :], smooth, color="C0", label=f"mean of {window} batches")
    ax.set(xlabel="step", ylabel="cross-entropy", title="Learning handwritten digits")
    ax.legend()
    fig.savefig(path, dpi=120)
    plt.close(fig)
    print(f"learning curve: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("digits.png"), help="learning curve")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--device", default="cpu", help="where the steps are computed")
    args = parser.parse_args()

    rng = np.random.default_rng(SEED)
    data = load_digits()
    images, labels = (data.data / 16).astype(np.float32), data.target
    order = rng.permutation(len(images))
    train, test = order[TEST_IMAGES:], order[:TEST_IMAGES]
    net = make_network(rng, images.shape[1], 10)
    adam = Adam(net)
    total = args.epochs * (len(train) // BATCH)

    # One step before the timing starts, to count the derivative rules that each step skips.
    first = train[:BATCH]
    with ct.profile() as work, ct.use(args.device):
        ct.value_and_gradient(loss, net, ct.const(images[first]), ct.const(labels[first]))

    losses: list[float] = []
    seconds = 0.0
    for _ in progress(range(args.epochs)):
        for batch in batches(rng, len(train)):
            x, y = images[train[batch]], labels[train[batch]]
            start = time.perf_counter()
            with ct.use(args.device):
                value, (gradient, _, _) = ct.value_and_gradient(loss, net, ct.const(x), ct.const(y))
            rate = 0.5 * LEARNING_RATE * (1 + math.cos(math.pi * len(losses) / total))
            adam.step(net, gradient, rate)
            seconds += time.perf_counter() - start
            losses.append(float(value))

    draw(losses, args.out)
    never = ", ".join(f"{n} {name}" for name, n in sorted(work.skipped.items())) or "nothing"
    print(
        f"accuracy {accuracy(net, images[test], labels[test]):.1%}, "
        f"{1e3 * seconds / max(1, len(losses)):.2f} ms a step, "
        f"never computed: the gradient of the batch ({never} in each step)"
    )


if __name__ == "__main__":
    main()
