"""Value and gradient of the workloads in `workloads.py`, next to the peers.

    python benches/python/peers.py [--quick] [--only mlp conv] [--peers cotan jax]
                                   [--markdown FILE]

Every library runs in a process of its own, with two threads. A process is told what to time next,
so that they take turns, round after round. Before that, each result is compared with a formula in
float64, and each call has been made a few times. Peers that are not installed are left out:
`pip install 'cotan[peers]'`.
"""

import argparse
import gc
import json
import os
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import _report
from _cold import cold_starts
from _harness import Peer, Timing, machine, serve, summary, write_section
from _libraries import BUILD, PACKAGES, check
from _limits import Bandwidth, Peak
from workloads import WORKLOADS, Workload

BY_NAME = {w.name: w for w in WORKLOADS}
MEMORY = ("deep", "deep-ckpt")
FIRST_CALL_LIMIT = 300.0  # seconds until a library has made (compiled) its first gradient
TURN = 0.12  # seconds of one turn


class Contestant(Peer):
    """A worker process that may take too long, or die: then it is started again."""

    def __init__(self, library: str) -> None:
        super().__init__(__file__, library)

    def ask_within(self, limit: float, **request: object) -> dict:
        """Ask as `ask` does; an answer later than after `limit` seconds is an error."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self.again("the process ended")
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        if not ready:
            return self.again(f"not ready after {limit:.0f} s")
        line = self.process.stdout.readline()
        return json.loads(line) if line else self.again("the process ended")

    def again(self, why: str) -> dict:
        """Start the process anew, and report why."""
        self.process.kill()
        self.process.wait()
        super().__init__(__file__, self.name)
        return {"error": why}


def worker(library: str) -> None:
    """Answer `prepare` and `time`, for one workload at a time."""
    now: dict[str, Callable[[], object]] = {}

    def prepare(w: Workload) -> dict:
        now.clear()
        gc.collect()
        arguments = w.data()
        start = time.perf_counter()
        call, arrays = BUILD[library](w, arguments)
        result = call()
        first = time.perf_counter() - start
        check(w, arrays(result), arguments)
        del result
        now["call"] = call
        return {"first": first}

    def turn(seconds: float) -> dict:
        call = now["call"]
        start = time.perf_counter()
        call()  # what the others did to the caches is not counted
        once = time.perf_counter() - start
        if once < 0.005:
            start = time.perf_counter()
            call()
            once = time.perf_counter() - start
        repeats = max(1, min(10_000, int(0.02 / max(once, 1e-7))))
        samples = []
        end = time.perf_counter() + seconds
        while not samples or time.perf_counter() < end:
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            samples.append((time.perf_counter() - start) / repeats)
        return {"samples": samples}

    def answer(what: str, workload: str, seconds: float = TURN) -> dict:
        try:
            if what == "memory":
                return memory(library, BY_NAME[workload])
            return prepare(BY_NAME[workload]) if what == "prepare" else turn(seconds)
        except ImportError as error:
            return {"error": "not installed", "why": str(error)}
        except BaseException as error:  # noqa: BLE001 - a peer that fails is a cell that says so
            return {"error": f"{type(error).__name__}: {str(error).splitlines()[:1]}"}

    serve(answer)


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


@dataclass
class Measured:
    """What one workload took: samples, the first call and the reasons of those that have none."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def timings(self) -> dict[str, Timing]:
        """Median and quartiles of each library."""
        return {library: summary(found) for library, found in self.samples.items()}


def measure(peers: Sequence[Contestant], w: Workload, rounds: int, turn: float) -> Measured:
    found = Measured()
    running = []
    for peer in peers:
        reply = peer.ask_within(FIRST_CALL_LIMIT, what="prepare", workload=w.name)
        if "error" in reply:
            found.missing[peer.name] = reply["error"]
        else:
            found.first[peer.name] = reply["first"]
            running.append(peer)
    for _ in range(rounds):
        for peer in list(running):
            time.sleep(0.02)  # threads of the one before stop waiting for work
            reply = peer.ask_within(60, what="time", workload=w.name, seconds=turn)
            if "error" in reply:
                running.remove(peer)
                found.missing[peer.name] = reply["error"]
                found.samples.pop(peer.name, None)
            else:
                found.samples.setdefault(peer.name, []).extend(reply["samples"])
    return found


def peak_memory(libraries: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """For each workload and library: the rise of the memory, in multiples of one array of it."""
    rises: dict[str, dict[str, float]] = {}
    for name in names:
        for library in libraries:
            peer = Contestant(library)
            reply = peer.ask_within(FIRST_CALL_LIMIT, what="memory", workload=name)
            if "rise" in reply:
                rises.setdefault(name, {})[library] = reply["rise"]
            peer.close()
    return rises


def versions(libraries: Sequence[str]) -> str:
    found = []
    for package in ("numpy", "jax", "torch", "autograd"):
        if any(PACKAGES.get(library, "torch") == package for library in libraries):
            try:
                found.append(f"{package} {version(package)}")
            except PackageNotFoundError:
                continue
    return ", ".join(found)


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
        worker(args.worker)
        return
    rounds = args.rounds or (3 if args.quick else 9)
    turn = 0.05 if args.quick else TURN
    peak, bandwidth = Peak(), Bandwidth()
    peers = [Contestant(library) for library in args.peers]
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
