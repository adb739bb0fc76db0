"""Value and gradient of the workloads in `workloads.py`, next to the peers.

    python benches/python/peers.py [--quick] [--only mlp conv] [--peers cotan jax]
                                   [--markdown FILE]

Every library runs in a process of its own, with two threads. A process is told what to time next,
so that they take turns, round after round. Before that, each result is compared with a formula in
float64, and each call has been made a few times. Peers that are not installed are left out:
`pip install 'cotan[peers]'`.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import _report
from _cold import cold_starts
from _harness import write_section
from _limits import Bandwidth, Peak
from cotan._src.bench.contest import (
    FIRST_CALL_LIMIT,
    TURN,
    Contestant,
    Measured,
    measure,
    versions,
    work,
)
from cotan._src.bench.libraries import BUILD
from cotan._src.bench.timing import machine
from workloads import WORKLOADS, Workload

BY_NAME = {w.name: w for w in WORKLOADS}
MEMORY = ("deep", "deep-ckpt")


def status(name: str) -> int:
    """Return a figure of this process in bytes, `VmRSS` or `VmHWM` (the highest VmRSS so far)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {name}")


def memory(library: str, w: Workload) -> dict:
    """How far the memory rises above what it is after a run with small arrays.

    The first run is not looked at: a compiler may have been at work. What a library keeps between
    two calls counts.
    """
    arguments = w.data()
    small, _ = BUILD[library](w, (arguments[0][:64].copy(), *arguments[1:]))
    small()
    before = status("VmRSS")
    call, _ = BUILD[library](w, arguments)
    call()
    Path("/proc/self/clear_refs").write_text("5")  # the highest so far is what it is now
    for _ in range(3):
        call()
    return {"rise": status("VmHWM") - before, "data": arguments[0].nbytes}


def peak_memory(libraries: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """For each workload and library: the rise of the memory, in multiples of one array of it."""
    rises: dict[str, dict[str, float]] = {}
    for name in names:
        for library in libraries:
            peer = contestant(library)
            reply = peer.ask_within(FIRST_CALL_LIMIT, what="memory", workload=name)
            if "rise" in reply:
                rises.setdefault(name, {})[library] = reply["rise"]
            peer.close()
    return rises


def contestant(library: str) -> Contestant:
    return Contestant(library, [sys.executable, __file__, "--worker", library])


def wanted(name: str, only: Sequence[str] | None) -> bool:
    """Whether a workload is asked for: by its name, or by the first word of it."""
    return not only or name in only or name.partition(" ")[0] in only


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three short rounds")
    parser.add_argument("--rounds", type=int, help="turns of each library at each workload")
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", help="names, or their first word")
    parser.add_argument("--peers", nargs="+", choices=list(BUILD), default=list(BUILD))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the section there")
    parser.add_argument("--worker", choices=list(BUILD), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        others = {"memory": lambda w: memory(args.worker, w)}
        work(args.worker, BY_NAME, others)
        return
    rounds = args.rounds or (3 if args.quick else 9)
    turn = 0.05 if args.quick else TURN
    peak, bandwidth = Peak(), Bandwidth()
    peers = [contestant(library) for library in args.peers]
    about = f"{machine()}; {versions(args.peers)}; load {os.getloadavg()[0]:.1f} at the start"
    print(about, flush=True)
    results: dict[str, Measured] = {}
    try:
        for w in WORKLOADS:
            if wanted(w.name, args.only):
                peak.sample()
                bandwidth.sample()
                results[w.name] = found = measure(peers, w, rounds, turn)
                print(_report.line(w, found.timings(), found.first, found.missing), flush=True)
    finally:
        for peer in peers:
            peer.close()
    rises = peak_memory(args.peers, [name for name in MEMORY if wanted(name, args.only)])
    cold = cold_starts(args.peers, 3 if args.quick else 7) if wanted("cold", args.only) else {}
    page = _report.Report(
        about=about,
        timings={name: found.timings() for name, found in results.items()},
        first={name: found.first for name, found in results.items()},
        missing={name: found.missing for name, found in results.items()},
        rises=rises,
        cold=cold,
        peak=peak.rates(),
        bandwidth=bandwidth,
    )
    if args.json:
        args.json.write_text(
            json.dumps({name: found.samples for name, found in results.items()}, indent=1)
        )
    text = page.text()
    print(f"\n{text}")
    if args.markdown:
        picture = args.markdown.parent / "peers.svg"
        picture.write_text(page.picture())
        write_section(
            args.markdown, "peers", f"### Value and gradient\n\n![times]({picture.name})\n\n{text}"
        )


if __name__ == "__main__":
    main()
