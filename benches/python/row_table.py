"""Value and gradient of the rows in `rows/`, next to the peers: all of them, also those that lose.

    python benches/python/row_table.py [--groups common] [--only logreg] [--peers cotan jax]
                                       [--rounds 5] [--json FILE] [--markdown FILE]
    python benches/python/row_table.py --from FILE [FILE ...] --markdown FILE

Every library runs in a process of its own, with two threads, and they take turns. Each result is
compared with a formula or with differences in float64 before it is timed. A library that has not
made its first gradient of a row within `--limit` seconds has no time there. `--from` writes the
tables of samples that were measured before.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _harness import machine, write_section
from cotan._src.bench.contest import (
    TURN,
    Contestant,
    measure,
    serve_or_say_why,
    turn,
    versions,
)
from cotan._src.bench.libraries import Built
from rows import GROUPS, ROWS, Row, _report
from rows._libraries import TITLES, build, check

BY_NAME = {w.name: w for w in ROWS}
#: Seconds until the first gradient; a compiler that takes longer has no time in the table.
LIMIT = 60.0
#: Seconds of calls before a row is timed: what compiles beside its runs has done so by then.
WARM = 0.5
# The time of all threads of a process is hardly changed by other work on the machine.
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
PROCESSOR = "processor time of all threads"
HEADS = {
    "common": ("rows", "Rows of everyday use"),
    "field": ("field", "Workloads from the field"),
}


def worker(library: str, clock: str, builds: Callable[..., Built] = build) -> None:
    """Answer `prepare` and `time`, for one row at a time; `builds` makes the call of a library."""
    now: dict[str, Any] = {}

    def prepare(w: Row) -> dict[str, Any]:
        now.clear()
        gc.collect()
        arguments = w.data()
        start = time.perf_counter()
        call, arrays = builds(library, w, arguments)
        result = call()
        first = time.perf_counter() - start
        check(w, arrays(result), arguments)
        warm = time.perf_counter() + WARM
        while time.perf_counter() < warm:
            if w.before:
                w.before()
            call()
        now.update(call=call, before=w.before)
        return {"first": first}

    def answer(what: str, workload: str, seconds: float = TURN) -> dict[str, Any]:
        if what == "prepare":
            return prepare(BY_NAME[workload])
        if now["before"]:
            return {"samples": after(now["before"], now["call"], CLOCKS[clock])}
        return {"samples": turn(now["call"], seconds, CLOCKS[clock])}

    serve_or_say_why(answer)


def after(
    before: Callable[[], object],
    call: Callable[[], object],
    now: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Time the call alone, after the other one each time."""
    samples = []
    for _ in range(3):
        before()
        start = now()
        call()
        samples.append(now() - start)
    return samples


def wanted(w: Row, only: list[str] | None) -> bool:
    """Whether a row is asked for: by its name, or by the first word of it."""
    return not only or w.name in only or w.name.partition(" ")[0] in only


def run(args: argparse.Namespace, rows: Sequence[Row], script: str = __file__) -> dict[str, Any]:
    """Measure the rows, and keep the samples of each as soon as it is done.

    `script` is what a library's process runs, with `--worker` and the library's name.
    """
    peers = [
        Contestant(library, [sys.executable, script, "--worker", library, "--clock", args.clock])
        for library in args.peers
    ]
    about = f"{machine()}; {versions(args.peers)}"
    if args.clock == "processor":
        about += f"; {PROCESSOR}"
    found: dict[str, Any] = {"about": about, "rows": {}}
    print(found["about"], flush=True)
    try:
        for w in (w for w in rows if wanted(w, args.only)):
            load = os.getloadavg()[0]
            seen = measure(peers, w, args.rounds, args.turn, args.limit)
            row = {"samples": seen.samples, "first": seen.first, "missing": seen.missing}
            found["rows"][w.name] = {**row, "load": max(load, os.getloadavg()[0])}
            print(_report.line(w.name, found["rows"][w.name]), flush=True)
            if args.json:
                args.json.write_text(json.dumps(found, indent=1))
    finally:
        for peer in peers:
            peer.close(at_once=True)
    return found


def merged(files: list[Path]) -> dict[str, Any]:
    """Put runs together: a library's samples of a row come from the last file that has them."""
    whole: dict[str, Any] = {"about": "", "rows": {}}
    for file in files:
        found = json.loads(file.read_text())
        whole["about"] = whole["about"] or found["about"]
        for name, row in found["rows"].items():
            kept = whole["rows"].setdefault(name, row)
            kept["load"] = max(kept["load"], row["load"])
            for what in ("samples", "first", "missing"):
                kept[what] |= row[what]
            for library in kept["samples"]:
                kept["missing"].pop(library, None)
    return whole


def options(about: str, libraries: list[str]) -> argparse.ArgumentParser:
    """Give the options of a table with these libraries."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--only", nargs="+", metavar="ROW", help="names, or their first word")
    parser.add_argument("--peers", nargs="+", choices=libraries, default=libraries)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each library at each row")
    parser.add_argument("--turn", type=float, default=TURN, help="seconds of a turn")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds to the first gradient")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--from", dest="files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the sections there")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="what is timed")
    parser.add_argument("--worker", choices=libraries, help=argparse.SUPPRESS)
    return parser


def main() -> None:
    """Measure, or read what was measured, and write the tables."""
    parser = options(__doc__.splitlines()[0], list(TITLES))
    parser.add_argument("--groups", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    args = parser.parse_args()
    if args.worker:
        worker(args.worker, args.clock)
        return
    chosen = [w for g in args.groups for w in GROUPS[g]]
    found = merged(args.files) if args.files else run(args, chosen)
    for group in args.groups:
        rows = {w.name: found["rows"][w.name] for w in GROUPS[group] if w.name in found["rows"]}
        if not rows:
            continue
        text = _report.text(rows, found["about"], "`benches/python/row_table.py`")
        print(f"\n{text}")
        if args.markdown:
            section, title = HEADS[group]
            if found["about"].endswith(PROCESSOR):
                section, title = f"{section}-processor", f"{title}, processor time"
            write_section(args.markdown, section, f"### {title}\n\n{text}")


if __name__ == "__main__":
    main()
