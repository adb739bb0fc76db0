"""Lets libraries take turns at one workload after another, each in a process of its own."""

import contextlib
import gc
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from cotan._src.bench.libraries import BUILD, PACKAGES, NotWrittenError, check
from cotan._src.bench.timing import Timing, environment, serve, summary
from cotan._src.bench.workloads import Workload

#: Seconds of one turn.
TURN = 0.12
#: Seconds until a library has made (and compiled) its first gradient of a workload.
FIRST_CALL_LIMIT = 300.0
_TURN_LIMIT = 60.0
#: What a process answers that has not got its library.
NOT_INSTALLED = "not installed"


class Contestant:
    """A worker process that may take too long, or die: then it is started again.

    `command` starts it; it answers each line of JSON on its standard input with one.
    """

    def __init__(self, library: str, command: Sequence[str]) -> None:
        self.name = library
        self.command = list(command)
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - this interpreter
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(),
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(
            target=self._read, args=(self.process, self._lines), daemon=True
        )
        self._reader.start()

    @staticmethod
    def _read(process: "subprocess.Popen[str]", lines: "queue.SimpleQueue[str]") -> None:
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        with process.stdout:
            for line in process.stdout:
                lines.put(line)
        lines.put("")

    def ask_within(self, limit: float, **request: object) -> dict[str, Any]:
        """Send a request; an answer later than after `limit` seconds is an error."""
        assert self.process.stdin is not None  # noqa: S101 - a pipe was asked for
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            return self._again(f"not ready after {limit:.0f} s")
        except OSError:
            line = ""
        if not line:
            return self._again("the process ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _again(self, why: str) -> dict[str, Any]:
        """Start the process anew, and report why."""
        self.close(at_once=True)
        self._start()
        return {"error": why}

    def close(self, at_once: bool = False) -> None:
        """End the process: at once, or when it has answered."""
        if at_once:
            self.process.kill()
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(5)


def work(
    library: str,
    workloads: Mapping[str, Workload],
    others: Mapping[str, Callable[[Workload], dict[str, Any]]] | None = None,
) -> None:
    """Answer requests as a worker process: `prepare` and `time`, one workload at a time.

    `others` has further requests by their names.
    """
    now: dict[str, Callable[[], object]] = {}

    def prepare(w: Workload) -> dict[str, Any]:
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

    def answer(what: str, workload: str, seconds: float = TURN) -> dict[str, Any]:
        if what == "time":
            return {"samples": turn(now["call"], seconds)}
        if others and what in others:
            return others[what](workloads[workload])
        return prepare(workloads[workload])

    serve_or_say_why(answer)


def serve_or_say_why(answer: Callable[..., dict[str, Any]]) -> None:
    """Answer requests; one that fails is answered with the reason, which fills its cell."""

    def answer_or_say_why(*request: Any, **more: Any) -> dict[str, Any]:
        try:
            return answer(*request, **more)
        except ImportError as error:
            return {"error": NOT_INSTALLED, "why": str(error)}
        except NotWrittenError as error:
            return {"error": str(error)}
        except BaseException as error:  # noqa: BLE001 - a peer that fails is a cell that says so
            return {"error": f"{type(error).__name__}: {str(error).splitlines()[:1]}"}

    serve(answer_or_say_why)


def turn(
    call: Callable[[], object], seconds: float, now: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Time a call for so many seconds; a sample is the mean over 20 ms, or one call.

    `now` is the clock of the samples.
    """
    start = time.perf_counter()
    call()  # what the others did to the caches is not counted
    once = time.perf_counter() - start
    if once < 0.005:
        start = time.perf_counter()
        call()
        once = time.perf_counter() - start
    repeats = max(1, min(10_000, int(0.02 / max(once, 1e-7))))
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while not samples or time.perf_counter() < end:
        start = now()
        for _ in range(repeats):
            call()
        samples.append((now() - start) / repeats)
    return samples


@dataclass
class Measured:
    """What one workload took: samples, the first call and the reasons of those that have none."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def timings(self) -> dict[str, Timing]:
        """Median and quartiles of each library."""
        return {library: summary(found) for library, found in self.samples.items()}


def measure(
    peers: Sequence[Contestant],
    w: Workload,
    rounds: int,
    turn: float = TURN,
    first_call_limit: float = FIRST_CALL_LIMIT,
    until: float | None = None,
) -> Measured:
    """Prepare a workload in each library, and time it round after round.

    No round begins after the moment `until` (of `time.monotonic`), except the first.
    """
    found = Measured()
    running = []
    for peer in peers:
        reply = peer.ask_within(first_call_limit, what="prepare", workload=w.name)
        if "error" in reply:
            found.missing[peer.name] = reply["error"]
        else:
            found.first[peer.name] = reply["first"]
            running.append(peer)
    for round_ in range(rounds):
        if round_ and until is not None and time.monotonic() > until:
            break
        for peer in list(running):
            time.sleep(0.02)  # threads of the one before stop waiting for work
            reply = peer.ask_within(_TURN_LIMIT, what="time", workload=w.name, seconds=turn)
            if "error" in reply:
                running.remove(peer)
                found.missing[peer.name] = reply["error"]
                found.samples.pop(peer.name, None)
            else:
                found.samples.setdefault(peer.name, []).extend(reply["samples"])
    return found


def versions(libraries: Iterable[str]) -> str:
    """Name NumPy and the packages of these libraries with their versions."""
    wanted = {"numpy", *(PACKAGES.get(library, "torch") for library in libraries)} - {"cotan"}
    found = []
    for package in ("numpy", "jax", "torch", "autograd"):
        with contextlib.suppress(PackageNotFoundError):
            if package in wanted:
                found.append(f"{package} {version(package)}")
    return ", ".join(found)


def worker_command(library: str) -> list[str]:
    """Give the command that starts a worker of the package's own workloads."""
    return [sys.executable, "-m", "cotan", "bench", "--worker", library]
