"""What structures cost: a dataclass of ten arrays beside ten positional arguments.

Prints the best of many rounds, in microseconds, and the differences. Three functions are timed: one
that uses nothing (what is left is taking apart and putting together), and two that compute.

    python benches/python/structures.py [--markdown FILE]
"""

import argparse
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import cotan as ct
from _harness import machine, table, write_section

COUNT = 10
ROUNDS = 400
Model = dataclasses.make_dataclass("Model", [f"w{i}" for i in range(COUNT)])


def best(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Time the calls in turn; give the best round of each, in microseconds per call."""
    times = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(20):
                call()
            times[name] = min(times[name], (time.perf_counter() - start) / 20)
    return {name: t * 1e6 for name, t in times.items()}


def total(parts: list[np.ndarray]) -> object:
    result = parts[0]
    for part in parts[1:]:
        result = result + part
    return np.sum(result * result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    options = parser.parse_args()
    arrays = [np.full(3, float(i)) for i in range(COUNT)]
    model = Model(*arrays)
    names = [field.name for field in dataclasses.fields(Model)]
    nothing = {
        "arguments": lambda: ct.gradient(lambda *parts: 1.0, *arrays),
        "tuple": lambda: ct.gradient(lambda parts: 1.0, tuple(arrays)),
        "dataclass": lambda: ct.gradient(lambda model: 1.0, model),
    }
    held = {
        "arguments": lambda: ct.pullback(lambda *parts: 1.0, *map(ct.const, arrays)),
        "dataclass": lambda: ct.pullback(lambda model: 1.0, ct.const(model)),
    }
    values = {
        "arguments": lambda: ct.gradient(lambda *parts: total(parts), *arrays),
        "dataclass": lambda: ct.gradient(
            lambda model: total([getattr(model, name) for name in names]), model
        ),
    }
    rows = []
    for title, calls in (("nothing used", nothing), ("all held", held), ("sum of all", values)):
        times = best(calls)
        base = times["arguments"]
        rows += [(f"{title}: {name}", f"{t:.2f}", f"{t - base:+.2f}") for name, t in times.items()]
    about = (
        f"Calls with {COUNT} arrays of 3 float64, best of {ROUNDS} rounds, "
        f"`benches/python/structures.py`. {machine()}."
    )
    text = f"{about}\n\n{table(('', 'µs', 'more than arguments'), rows)}"
    print(text)
    if options.markdown:
        write_section(options.markdown, "structures", f"### Structures\n\n{text}")


if __name__ == "__main__":
    main()
