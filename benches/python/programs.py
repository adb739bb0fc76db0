"""What handling a program of 10,000 equations costs: tracing, printing, parsing, cutting, drawing.

Prints the best of many rounds of each.

    python benches/python/programs.py [--equations 10000] [--markdown FILE]
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import cotan as ct
from _harness import machine, table, write_section

ROUNDS = 15


def best(call: Callable[[], object]) -> float:
    """Time a call; give the best round in milliseconds."""
    shortest = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--equations", type=int, default=10_000)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    options = parser.parse_args()

    def long(params: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
        for _ in range(options.equations // 8):
            x = np.tanh(params["w"] * x + params["b"])
            x = np.sum(np.reshape(x, (2, 2)), axis=0, keepdims=True)
            x = np.reshape(np.broadcast_to(x, (2, 2)), (4,))
        return x

    args = ({"w": np.ones(4), "b": np.ones(4)}, np.ones(4))
    program = ct.trace(long, *args)
    text = str(program)
    calls = {
        "trace": lambda: ct.trace(long, *args),
        "print": lambda: str(program),
        "parse(print(p))": lambda: ct.Program.parse(str(program)),
        "compare": lambda: ct.Program.parse(text) == program,
        "optimize": program.optimize,
        "pullback": program.pullback,
        "to_svg": program.to_svg,
    }
    times = {name: best(call) for name, call in calls.items()}
    about = (
        f"A program of {len(program)} equations ({len(text) / 1e6:.2f} MB of text); best of "
        f"{ROUNDS} rounds, `benches/python/programs.py`. {machine()}."
    )
    written = f"{about}\n\n{table(('', 'time'), [(n, f'{t:.1f} ms') for n, t in times.items()])}"
    print(written)
    if options.markdown:
        write_section(options.markdown, "programs", f"### Programs\n\n{written}")


if __name__ == "__main__":
    main()
