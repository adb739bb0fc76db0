"""Memory and time of a loop of 1,000 steps: plain, and with a checkpoint every √n steps.

Each variant runs in a process of its own, which says how far its peak memory rose above what it
needed before, what the pullback kept, and how long the gradient took.

    python benches/python/checkpoint.py [--steps 1000] [--size 256] [--markdown FILE]
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from _harness import machine, table, write_section

VARIANTS = ["plain", "every √n steps", "products, every √n steps"]


def loop(variant: str, steps: int) -> Callable:
    import numpy as np

    import cotan as ct

    def some(w, x, count):
        for _ in range(count):
            x = np.tanh(w @ x)
        return x

    def total(w, x):
        every = math.isqrt(steps)
        saved = ct.checkpoint(some, policy="products" if "products" in variant else "nothing")
        for start in range(0, steps, every):
            count = min(every, steps - start)
            x = some(w, x, count) if variant == "plain" else saved(w, x, count)
        return np.sum(x * x)

    return total


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(variant: str, steps: int, size: int) -> None:
    import numpy as np

    import cotan as ct

    rng = np.random.default_rng(0)
    w = rng.normal(size=(size, size)) / math.sqrt(size)
    x = rng.normal(size=(size, size))
    # Threads, plans of the parts, NumPy's own memory.
    ct.gradient(loop(variant, 4), w, x)
    before = peak()
    start = time.perf_counter()
    _, back = ct.pullback(loop(variant, steps), w, x)
    [np.asarray(ct_) for ct_ in back(1.0)]
    seconds = time.perf_counter() - start
    print(json.dumps({"rise": peak() - before, "kept": back.nbytes, "seconds": seconds}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant:
        measure(options.variant, options.steps, options.size)
        return
    rows = []
    for variant in VARIANTS:
        arguments = ["--steps", str(options.steps), "--size", str(options.size)]
        command = [sys.executable, __file__, "--variant", variant, *arguments]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(run.stdout)
        rise, kept = found["rise"] / 1e6, found["kept"] / 1e6
        rows.append((variant, f"{rise:.0f} MB", f"{kept:.0f} MB", f"{found['seconds']:.2f} s"))
    about = (
        f"`x = tanh(w @ x)`, {options.steps:,} steps, {options.size} × {options.size} float64, and "
        "the pullback of its squared sum: how far the peak memory of a fresh process rose, "
        f"`benches/python/checkpoint.py`. {machine()}."
    )
    head = ("", "peak memory", "kept by the pullback", "made and applied")
    text = f"{about}\n\n{table(head, rows)}"
    print(text)
    if options.markdown:
        write_section(options.markdown, "checkpoint", f"### Checkpoints\n\n{text}")


if __name__ == "__main__":
    main()
