"""How recording, planning and the reverse pass grow with the operations, and what threads give.

    python benches/python/growth.py [--quick] [--markdown FILE]

A chain of n products on an array of ten is recorded, differentiated and applied, for n from a
hundred to a million. Each n runs in a process of its own, so that what one leaves behind costs no
other.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _harness import environment, machine, summary, table, unit_of, write_section

COUNTS = (100, 1_000, 10_000, 100_000, 1_000_000)
PHASES = ("first", "again", "apply")
TITLES = {
    "first": "recorded, differentiated and planned",
    "again": "the same program again",
    "apply": "pullback applied",
}
COLOURS = {"first": "#b2182b", "again": "#ef8a62", "apply": "#2166ac"}


def chain(n: int) -> Callable:
    def f(x: Any) -> Any:
        for _ in range(n):
            x = x * 1.000001
        return x

    return f


def grow(n: int) -> None:
    """Time the phases of one chain: seconds, on standard output."""
    import numpy as np

    import cotan as ct

    x = np.ones(10)
    ct.gradient(lambda x: np.sum(chain(20)(x)), x)
    found: dict[str, float] = {}
    for phase in ("first", "again"):
        start = time.perf_counter()
        _, back = ct.pullback(chain(n), x)
        # The plan of the reverse pass is made when it runs for the first time.
        cotangent = np.asarray(back(np.ones(10))[0])
        found[phase] = time.perf_counter() - start
    assert np.allclose(cotangent, 1.000001**n)
    start = time.perf_counter()
    np.asarray(back(np.ones(10))[0])
    found["apply"] = time.perf_counter() - start
    print(json.dumps(found))


def parallel(threads: int) -> None:
    """Time workloads on so many threads: seconds, on standard output."""
    import numpy as np

    import cotan as ct
    from workloads import WORKLOADS

    ct.set_num_threads(threads)
    found = {}
    for w in WORKLOADS:
        if w.name in ("chain 10,000,000", "matmul float32", "matmul-sq float32"):
            arguments = w.data()

            def call(w: Any = w, arguments: Any = arguments) -> None:
                ct.value_and_gradient(lambda *xs: w.function(np, *xs), *arguments)

            call()
            samples = []
            for _ in range(7):
                start = time.perf_counter()
                call()
                samples.append(time.perf_counter() - start)
            found[w.name] = min(samples)
    print(json.dumps(found))


def run(*arguments: str) -> dict[str, float]:
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment(), timeout=600
    )
    return json.loads(done.stdout.splitlines()[-1])


def short(seconds: float) -> str:
    scale, unit = unit_of(seconds)
    return f"{seconds * scale:.3g} {unit}"


def picture(found: dict[int, dict[str, float]]) -> str:
    """Draw the time of each operation over their number: linear growth is level."""
    left, top, width, height = 70, 20, 460, 240
    each = {n: {p: t[p] / n * 1e9 for p in PHASES} for n, t in found.items()}
    values = [v for times in each.values() for v in times.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = math.log10(min(found)), math.log10(max(found))

    def point(n: int, value: float) -> str:
        x = left + width * (math.log10(n) - first) / max(last - first, 1e-9)
        y = top + height * (high - math.log10(value)) / (high - low)
        return f"{x:.1f},{y:.1f}"

    box = f"0 0 {left + width + 40} {top + height + 110}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif" ',
        'font-size="12"><rect width="100%" height="100%" fill="white"/>',
    ]
    for power in range(low, high + 1):
        y = top + height * (high - power) / (high - low)
        parts.append(
            f'<line x1="{left}" x2="{left + width}" y1="{y}" y2="{y}" stroke="#ddd"/>'
            f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{10**power:,} ns</text>'
        )
    for n in found:
        x = point(n, 10.0**low).partition(",")[0]
        parts.append(f'<text x="{x}" y="{top + height + 18}" text-anchor="middle">{n:,}</text>')
    parts.append(
        f'<text x="{left + width / 2}" y="{top + height + 36}" text-anchor="middle">'
        "operations</text>"
    )
    for k, phase in enumerate(PHASES):
        line = " ".join(point(n, each[n][phase]) for n in found)
        y = top + height + 58 + 18 * k
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{COLOURS[phase]}" stroke-width="2"/>'
            f'<rect x="{left}" y="{y - 8}" width="18" height="4" fill="{COLOURS[phase]}"/>'
            f'<text x="{left + 26}" y="{y}">{TITLES[phase]}, for each operation</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


def growth_table(found: dict[int, dict[str, float]]) -> str:
    rows = []
    for n, times in found.items():
        cells = (f"{short(times[p])} ({times[p] / n * 1e9:.0f} ns each)" for p in PHASES)
        rows.append([f"{n:,}", *cells])
    return table(["operations", *(TITLES[p] for p in PHASES)], rows)


def threads_table(rounds: int) -> str:
    samples: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    for _ in range(rounds):
        for threads, kept in samples.items():
            kept.append(run("--threads", str(threads)))
    rows = []
    for name in samples[1][0]:
        one, two = (summary([s[name] for s in samples[k]]) for k in (1, 2))
        ratio = one.median / two.median
        verdict = "reached" if ratio >= 1.8 else "**missed**"
        rows.append([name, str(one), str(two), f"{ratio:.2f} (≥ 1.8) {verdict}"])
    return table(["", "one thread", "two threads", "ratio"], rows)


def measure(counts: Sequence[int], rounds: int) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    for n in counts:
        samples = [run("--grow", str(n)) for _ in range(rounds if n < 1_000_000 else 1)]
        found[n] = {p: summary([s[p] for s in samples]).median for p in PHASES}
        print(n, {p: short(t) for p, t in found[n].items()}, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to 10,000 operations, one round")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the section there")
    parser.add_argument("--grow", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.grow:
        grow(args.grow)
        return
    if args.threads:
        parallel(args.threads)
        return
    rounds = 1 if args.quick else 5
    found = measure(COUNTS[:3] if args.quick else COUNTS, rounds)
    text = "\n\n".join(
        [
            (
                "A chain of n products with a number, on ten elements, `benches/python/growth.py`: "
                "from the call of `pullback` to the cotangent, in a fresh process for each n and "
                "then again, when the plan is there; and the cotangent alone. "
                f"{machine()}."
            ),
            growth_table(found),
            "The same call with one thread and with two, the best of seven in each process:",
            threads_table(rounds),
        ]
    )
    print(text)
    if args.markdown:
        drawing = args.markdown.parent / "growth.svg"
        drawing.write_text(picture(found))
        image = f"![Nanoseconds for each operation]({drawing.name})"
        write_section(args.markdown, "growth", f"### Growth\n\n{image}\n\n{text}")


if __name__ == "__main__":
    main()
