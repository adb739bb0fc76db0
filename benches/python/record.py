"""Nanoseconds to record an operation from Python, to close a chain, and to go back through it.

    python benches/python/record.py [--markdown FILE]

The loops run inside the differentiated function. A loop with an empty body is subtracted.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import cotan as ct
from _harness import machine, summary, table, write_section

OPERATIONS = 5_000
CHAIN = 20_000


TIMES = range(OPERATIONS)


def empty(x, y):
    for _ in TIMES:
        pass


def operator(x, y):
    for _ in TIMES:
        x * y


def scalar(x, y):
    for _ in TIMES:
        x * 2.0


def unary(function: Callable) -> Callable:
    def body(x, y):
        for _ in TIMES:
            function(x)

    return body


def binary(function: Callable) -> Callable:
    def body(x, y):
        for _ in TIMES:
            function(x, y)

    return body


# Each runs one operation OPERATIONS times on traced arrays.
LOOPS = {
    "": empty,
    "x * y": operator,
    "x * 2.0": scalar,
    "ct.sin(x)": unary(ct.sin),
    "np.sin(x)": unary(np.sin),
    "np.multiply(x, y)": binary(np.multiply),
}


def record(rounds: int) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {name: [] for name in LOOPS}

    def f(x, y):
        for name, body in LOOPS.items():
            start = time.perf_counter()
            body(x, y)
            samples[name].append((time.perf_counter() - start) / OPERATIONS)
        return np.sum(x * y)

    x, y = np.ones(10), np.full(10, 2.0)
    for _ in range(rounds + 2):
        ct.gradient(f, x, y)
    empty = samples.pop("")
    return {
        name: [t - e for t, e in zip(values, empty, strict=True)][2:]
        for name, values in samples.items()
    }


def chain(rounds: int) -> dict[str, list[float]]:
    """Record and close a chain of products; its value and pullback; and run that.

    Closing makes a program of what was recorded. A pullback then needs the reverse pass, the
    optimiser and a plan, unless such a program was there before, and runs the forward half.
    """
    samples: dict[str, list[float]] = {
        "record and close": [],
        "value and pullback, first": [],
        "value and pullback, plan cached": [],
        "apply": [],
    }
    equations = 0

    def f(x, scale):
        for _ in range(CHAIN):
            x = x * scale
        return x

    for k in range(rounds + 2):
        # a new shape: nothing of it is in the plan cache
        x, scale = np.ones(2 + k), np.full(2 + k, 1.0000001)
        start = time.perf_counter()
        program = ct.trace(f, x, scale)
        samples["record and close"].append((time.perf_counter() - start) / CHAIN)
        assert len(program) == CHAIN
        for name in ("value and pullback, first", "value and pullback, plan cached"):
            start = time.perf_counter()
            _, back = ct.pullback(f, x, ct.const(scale))
            samples[name].append((time.perf_counter() - start) / CHAIN)
        dy = np.ones(2 + k)
        first = np.asarray(back(dy)[0])
        np.testing.assert_allclose(first, scale**CHAIN, rtol=1e-10)
        start = time.perf_counter()
        np.asarray(back(2 * dy)[0])
        elapsed = time.perf_counter() - start
        with ct.profile() as work:  # whose lines need a plan of their own
            np.asarray(back(2 * dy)[0])
        equations = max(1, sum(work.equations.values()))
        samples["apply"].append(elapsed / equations)
    result = {f"chain of {CHAIN:,} products: {name}": v[2:] for name, v in samples.items()}
    return {f"{name}, per equation" if "apply" in name else name: v for name, v in result.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    args = parser.parse_args()
    samples = {**record(args.rounds), **chain(args.rounds)}
    rows = []
    for name, values in samples.items():
        timing = summary(values)
        rows.append(
            (name, f"{1e9 * timing.median:.0f}", f"{1e9 * timing.low:.0f}-{1e9 * timing.high:.0f}")
        )
    text = table(("operation", "ns each", "quartiles"), rows)
    print(f"{machine()}\n\n{text}")
    if args.markdown:
        about = (
            f"Time per recorded operation, arrays of ten, `benches/python/record.py`. {machine()}."
        )
        write_section(args.markdown, "record", f"### Recording\n\n{about}\n\n{text}")


if __name__ == "__main__":
    main()
