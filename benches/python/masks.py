"""What a mask saves: the gradient of the last layer of a network of six.

Times the forward pass, the backward pass of the last layer alone, the gradient with respect to the
last layer (`wrt=`) and the full gradient, in turns; prints the best of many rounds of each, and the
masked gradient beside forward + 1.3 × backward of the last layer.

    python benches/python/masks.py [--width 512] [--batch 128] [--markdown FILE]
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import cotan as ct
from _harness import machine, table, write_section

LAYERS = 6
ROUNDS = 60


def layer(w: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.tanh(x @ w + b)


def network(layers: list[tuple[np.ndarray, np.ndarray]], x: np.ndarray) -> np.ndarray:
    for w, b in layers:
        x = layer(w, b, x)
    return x


def loss(layers: list[tuple[np.ndarray, np.ndarray]], x: np.ndarray) -> np.ndarray:
    return np.sum(network(layers, x) ** 2)


def best(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Time the calls in turn; give the best round of each, in milliseconds."""
    times = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name] = min(times[name], time.perf_counter() - start)
    return {name: t * 1e3 for name, t in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    n = options.width
    layers = [
        ((rng.normal(size=(n, n)) / np.sqrt(n)).astype(np.float32), np.zeros(n, np.float32))
        for _ in range(LAYERS)
    ]
    x = rng.normal(size=(options.batch, n)).astype(np.float32)
    handles = [(ct.array(w), ct.array(b)) for w, b in layers]
    hidden = np.asarray(network(handles[:-1], ct.array(x)))
    _, back = ct.pullback(lambda w, b: np.sum(layer(w, b, ct.array(hidden)) ** 2), *layers[-1])
    one = np.float32(1)
    calls = {
        "forward": lambda: np.asarray(loss(handles, ct.array(x))),
        "backward of the last layer": lambda: [np.asarray(g) for g in back(one)],
        "gradient, last layer only": lambda: ct.gradient(
            loss, layers, ct.const(x), wrt=f"layers[{LAYERS - 1}]"
        ),
        "gradient, all layers": lambda: ct.gradient(loss, layers, ct.const(x)),
    }
    times = best(calls)
    allowed = times["forward"] + 1.3 * times["backward of the last layer"]
    ratio = times["gradient, last layer only"] / allowed
    about = (
        f"Six layers `tanh(x @ w + b)`, width {n}, batch {options.batch}, float32; best of "
        f"{ROUNDS} rounds, `benches/python/masks.py`. {machine()}. The gradient of the last layer "
        f"takes {ratio:.2f} of the forward pass and 1.3 × the backward pass of that layer together."
    )
    rows = [(name, f"{t:.3f} ms") for name, t in times.items()]
    text = f"{about}\n\n{table(('', 'time'), rows)}"
    print(text)
    if options.markdown:
        write_section(options.markdown, "masks", f"### Masks\n\n{text}")


if __name__ == "__main__":
    main()
