"""Shared by the benchmarks: timing in interleaved rounds, peers in their own process, tables."""

import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

THREADS = 2
# Every library of linear algebra and every peer gets the same two threads.
ENVIRONMENT = {
    **{
        name: str(THREADS)
        for name in (
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "MKL_NUM_THREADS",
            "RAYON_NUM_THREADS",
        )
    },
    # Threads of OpenBLAS wait for work in a loop for half a second, which the next one in turn, in
    # another process, would pay for: its second core is taken meanwhile. 2**20 loops are some ms.
    "OPENBLAS_THREAD_TIMEOUT": "20",
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_X64": "1",
    "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={THREADS}",
}
# Left out of what the workers inherit: with them OpenBLAS runs other kernels than it would choose,
# and Python compiles sources at each start that an installed package has compiled.
LEFT_OUT = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "OPENBLAS_VERBOSE",
    "PYTHONDONTWRITEBYTECODE",
)


def environment() -> dict[str, str]:
    """Return what a worker sees: two threads for every library, and the kernels it would choose."""
    return {k: v for k, v in os.environ.items() if k not in LEFT_OUT} | ENVIRONMENT


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median of the rounds, and the quartiles around it."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        """Write the median with the quartiles, in a unit that fits."""
        scale, unit = unit_of(self.median)
        return f"{self.median * scale:.3g} ({self.low * scale:.3g}-{self.high * scale:.3g}) {unit}"


def unit_of(seconds: float) -> tuple[float, str]:
    for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * scale >= 1.0:
            return scale, unit
    return 1e9, "ns"


def summary(samples: Sequence[float]) -> Timing:
    if len(samples) < 2:
        return Timing(samples[0], samples[0], samples[0])
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(median, low, high)


def time_together(
    calls: dict[str, Callable[[], object]], rounds: int = 15, budget: float = 0.02
) -> dict[str, Timing]:
    """Time the calls in turn, round after round, so that they share what the machine does.

    A sample is the mean over as many calls as fill `budget` seconds.
    """
    repeats = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        once = time.perf_counter() - start
        repeats[name] = max(1, min(10_000, int(budget / max(once, 1e-7))))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for round_ in range(rounds + 2):
        for name, call in calls.items():
            n = repeats[name]
            start = time.perf_counter()
            for _ in range(n):
                call()
            elapsed = time.perf_counter() - start
            if round_ >= 2:  # the first two warm up
                samples[name].append(elapsed / n)
    return {name: summary(values) for name, values in samples.items()}


class Peer:
    """A worker process of one library, that answers each line of JSON with one."""

    def __init__(self, script: str, name: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, script, "--worker", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(),
        )

    def ask(self, **request: object) -> dict:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"error": "not installed"}

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(30)


def serve(answer: Callable[..., dict]) -> None:
    """Answer requests on standard input until it ends."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints stays out of the answers
    for line in sys.stdin:
        out.write(json.dumps(answer(**json.loads(line))) + "\n")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Align the rows as a Markdown table: the first column to the left, others to the right."""
    grid = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[k]) for row in grid) for k in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "| " + " | ".join(cells) + " |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(grid[0]), line(rule), *map(line, grid[1:])])


def machine() -> str:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return f"{model}, {THREADS} threads, Python {platform.python_version()}"


def write_section(path: Path, name: str, text: str) -> None:
    """Put `text` between the markers of section `name`; add the section where there is none."""
    start, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    section = f"{start}\n{text.strip()}\n{end}"
    page = path.read_text() if path.exists() else "# Benchmarks\n"
    if start in page and end in page:
        before, _, rest = page.partition(start)
        page = before + section + rest.partition(end)[2]
    else:
        page = f"{page.rstrip()}\n\n{section}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page)
