"""What lifting costs: for each gradient call, and for each element that a loop writes.

    python benches/python/lifting.py [--markdown FILE]

A gradient call is timed by itself and inside of another recording, where the names are lifted
already: the difference is what it takes to lift them and to take them back. Loops fill an array of
n elements with a traced value, one at a time; a loop with an empty body is subtracted.
"""

import argparse
import importlib
import time
from pathlib import Path

import numpy as np

import cotan as ct
from _harness import machine, summary, table, write_section

SIZES = (1_000, 10_000, 100_000, 1_000_000)
CALLS = 2_000
# As many names as programs have.
MODULES = ("scipy.linalg", "scipy.stats", "scipy.signal", "scipy.optimize", "scipy.integrate")


def square(x):
    return x * x


def many() -> float:
    """Time one gradient call of many."""
    start = time.perf_counter()
    for _ in range(CALLS):
        ct.gradient(square, 3.0)
    return (time.perf_counter() - start) / CALLS


def calls(rounds: int) -> list[list[str]]:
    for module in MODULES:
        importlib.import_module(module)
    alone: list[float] = []
    inside: list[float] = []

    def outer(x):
        inside.append(many())
        return x

    for _ in range(rounds + 1):
        alone.append(many())
        ct.gradient(outer, 1.0)
    lifting = [a - b for a, b in zip(alone, inside, strict=True)]
    named = {
        "gradient call": alone,
        "the same, where names are lifted already": inside,
        "lifting the names and taking them back": lifting,
    }
    return [[name, str(summary(samples[1:]))] for name, samples in named.items()]


def fill(n: int, rounds: int) -> list[str]:
    """Time writes of one element each, while they are recorded, and with the gradient."""
    recorded: list[float] = []
    whole: list[float] = []

    def f(x):
        start = time.perf_counter()
        for _ in range(n):
            pass
        middle = time.perf_counter()
        out = np.zeros(n)
        for i in range(n):
            out[i] = x
        end = time.perf_counter()
        recorded.append(((end - middle) - (middle - start)) / n)
        return np.sum(out * out)

    for _ in range(rounds + 1):
        start = time.perf_counter()
        (g,) = ct.gradient(f, 3.0)
        whole.append((time.perf_counter() - start) / n)
        np.testing.assert_allclose(g, 6.0 * n)
    return [f"{n:,}", str(summary(recorded[1:])), str(summary(whole[1:]))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    options = parser.parse_args()
    first = table(["call", "time"], calls(options.rounds))
    rows = [fill(n, options.rounds) for n in SIZES]
    second = table(["elements", "a write, recorded", "a write, with its gradient"], rows)
    text = (
        f"### Lifting\n\nMedians with quartiles; {machine()}. `benches/python/lifting.py` measures."
        f"\n\n{first}\n\n{second}"
    )
    print(text)
    if options.markdown:
        write_section(options.markdown, "lifting", text)


if __name__ == "__main__":
    main()
