"""Shared by the benchmarks: timing in interleaved rounds, peers in their own process, tables."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from cotan._src.bench.timing import (
    ENVIRONMENT,
    THREADS,
    Timing,
    environment,
    machine,
    serve,
    summary,
    unit_of,
)

__all__ = [
    "ENVIRONMENT",
    "THREADS",
    "Peer",
    "Timing",
    "environment",
    "machine",
    "serve",
    "summary",
    "table",
    "time_together",
    "unit_of",
    "write_section",
]


def time_together(
    calls: dict[str, Callable[[], object]],
    rounds: int = 15,
    budget: float = 0.02,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time the calls in turn, round after round, so that they share what the machine does.

    A sample is the mean over as many calls as fill `budget` seconds.
    """
    repeats = {}
    for name, call in calls.items():
        call()
        start = clock()
        call()
        once = clock() - start
        repeats[name] = max(1, min(10_000, int(budget / max(once, 1e-7))))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for round_ in range(rounds + 2):
        for name, call in calls.items():
            n = repeats[name]
            start = clock()
            for _ in range(n):
                call()
            elapsed = clock() - start
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
