"""What gradients beyond one process cost, and what that means for many workers.

    python benches/python/scaling.py [--rounds 9] [--wait 600]

Measured are: the gradient of a network for one batch, by one thread; the same by two threads and
two processes; what `ct.parallel` takes beside a bare call of the executor that does the same work;
pickling and a round trip of a gradient through the executor's pipe; an all-reduce of 100 MB by
`Communicator` beside the MPI's own. From these, step times are computed for up to 1,024 workers.
Calls that are compared take turns; given are medians and quartiles, and of ratios those of the
rounds. On Linux, rounds in which other processes took more than a twentieth of the cores are left
out while others remain, and `--wait` seconds are spent at most on waiting for idle cores. The
computed times follow from the fastest rounds. What is not installed is left out.
"""

import argparse
import functools
import json
import math
import os
import pickle
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import cotan as ct
from _harness import machine, summary

WIDTH, ROWS = 768, 512
WORKERS = (1, 2, 8, 64, 1024)
# Links between machines: bytes in a second, and seconds for a message. Assumed, not measured.
LINKS = {"100 Gbit/s": (12.5e9, 5e-6), "10 Gbit/s": (1.25e9, 50e-6), "1 Gbit/s": (125e6, 100e-6)}


def loss(p, x, y):
    h = np.tanh(x @ p["w1"] + p["b1"])
    h = np.tanh(h @ p["w2"] + p["b2"])
    return np.mean((h @ p["w3"] - y) ** 2)


def parameters() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"w1": (WIDTH, WIDTH), "b1": WIDTH, "w2": (WIDTH, WIDTH), "b2": WIDTH, "w3": WIDTH}
    return {k: rng.normal(size=shape) / math.sqrt(WIDTH) for k, shape in shapes.items()}


def batches(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [(rng.normal(size=(ROWS, WIDTH)), rng.normal(size=ROWS)) for _ in range(count)]


prepared = ct.prepare(loss, transform="value_and_gradient", wrt=0)


def bare(p, x, y):
    """Compute what a worker computes, without anything around it."""
    value, (slope, *_) = prepared(p, x, y)
    return value, slope


def by_hand(pool: Executor, p, given) -> dict[str, np.ndarray]:
    """Do the same with the executor alone: hand out, wait, and add up."""
    found = list(pool.map(bare, [p] * len(given), *zip(*given, strict=True)))
    total = found[0][1]
    for _, slope in found[1:]:
        for name, array in slope.items():
            total[name] += array
    return {name: array / len(found) for name, array in total.items()}


def one_thread() -> None:
    ct.set_num_threads(1)


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


#: At most so much of the cores may others take in a round, and so many rounds are kept at least.
MOST_OF_OTHERS, FEWEST = 0.05, 3


class Cores:
    """Says how much of the cores other processes take, and waits until it is little."""

    def __init__(self, wait: float, pids: list[int], is_silent: bool = False) -> None:
        self.wait, self.pids, self.is_silent = wait, pids, is_silent

    def ticks(self) -> tuple[float, float, float]:
        """Give the clock's ticks of all cores, the busy ones, and those of `pids`."""
        try:
            words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
            own = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1] for pid in self.pids]
        except OSError:
            return 0.0, 0.0, 0.0
        counts = [int(word) for word in words]
        mine = sum(int(ticks) for line in own for ticks in line.split()[11:13])
        return sum(counts), sum(counts) - counts[3] - counts[4], mine

    def others(self, call: Callable[[], object]) -> float:
        """Give the share of the cores that others took while a function ran."""
        whole, busy, own = self.ticks()
        call()
        whole, busy, own = (b - a for a, b in zip((whole, busy, own), self.ticks(), strict=True))
        return max(busy - own, 0.0) / whole if whole else 0.0

    def until_idle(self) -> None:
        """Wait until others take little of the cores, or the time for that is spent."""
        while self.wait > 0 and self.others(lambda: time.sleep(0.25)) > MOST_OF_OTHERS:
            self.wait -= 0.25 + seconds(lambda: time.sleep(0.5))


def in_turn(
    calls: dict[str, Callable[[], object]], rounds: int, cores: Cores | None = None
) -> dict[str, list[float]]:
    for call in calls.values():
        call()
    found: list[tuple[float, list[float]]] = []
    for _ in range(rounds):
        taken: list[float] = []

        def a_round(taken=taken) -> None:
            taken.extend(map(seconds, calls.values()))

        if cores is None:
            a_round()
            found.append((0.0, taken))
        else:
            cores.until_idle()
            found.append((cores.others(a_round), taken))
    found.sort(key=lambda pair: pair[0])
    quiet = sum(share <= MOST_OF_OTHERS for share, _ in found)
    kept = found[: max(quiet, FEWEST)]
    if cores is not None and not cores.is_silent:
        shares = f"{kept[0][0]:.0%} to {kept[-1][0]:.0%}"
        print(f"\n{len(kept)} of {rounds} rounds, in which others took {shares} of the cores")
    return {name: [taken[i] for _, taken in kept] for i, name in enumerate(calls)}


def ratio(above: list[float], below: list[float]) -> str:
    found = [a / b for a, b in zip(above, below, strict=True)]
    low, median, high = statistics.quantiles(found, n=4, method="inclusive")
    return f"{median:.2f} ({low:.2f}-{high:.2f})"


def echo(data: np.ndarray) -> np.ndarray:
    return data


def executors(rounds: int, wait: float) -> dict[str, float]:
    p, given = parameters(), batches(8)
    context = get_context("spawn")
    measured = {}
    with (
        ThreadPoolExecutor(1) as t1,
        ThreadPoolExecutor(2) as t2,
        ProcessPoolExecutor(1, mp_context=context, initializer=one_thread) as p1,
        ProcessPoolExecutor(2, mp_context=context, initializer=one_thread) as p2,
    ):

        def ours(pool):
            return lambda: ct.parallel.gradient(loss, p, given, executor=pool)

        def alone(pool):
            return lambda: by_hand(pool, p, given)

        cores = Cores(wait, [os.getpid()])
        for pool in (p1, p2):
            ours(pool)()
            cores.pids += pool._processes
        times = in_turn(
            {
                "one thread": ours(t1),
                "two threads": ours(t2),
                "two threads, by hand": alone(t2),
                "one thread, by hand": alone(t1),
            },
            rounds,
            cores,
        ) | in_turn(
            {
                "one process": ours(p1),
                "two processes": ours(p2),
                "two processes, by hand": alone(p2),
                "one process, by hand": alone(p1),
            },
            rounds,
            cores,
        )
        print(f"\n8 batches of {ROWS} rows, parameters {nbytes(p) / 1e6:.1f} MB")
        for name, samples in times.items():
            print(f"  {name:24} {summary(samples)}")
        for one, two in (("one thread", "two threads"), ("one process", "two processes")):
            print(f"  {two} beside {one}: {ratio(times[one], times[two])} times as fast")
            bare = ratio(times[f"{one}, by hand"], times[f"{two}, by hand"])
            print(f"  {two} beside {one}, by hand: {bare} times as fast")
        for name in ("two threads", "two processes"):
            print(f"  {name} beside by hand: {ratio(times[name], times[f'{name}, by hand'])}")
        # Time on a core, which others lengthen less than that on the clock.
        begun = time.process_time()
        ours(t1)()
        measured["compute"] = (time.process_time() - begun) / len(given)
        mine, all_threads = time.thread_time(), time.process_time()
        ours(t2)()
        mine, all_threads = time.thread_time() - mine, time.process_time() - all_threads
        print(f"  gradient of a batch, time on a core: {measured['compute'] * 1e3:.3g} ms")
        print(f"  time on a core, two threads: {all_threads:.3g} s, of it the caller {mine:.3g} s")

        small, large = np.zeros(1), np.zeros(nbytes(p) // 8)
        flat = large.copy()
        turns = 4 * rounds
        trips = in_turn(
            {
                "a round trip of 8 bytes": lambda: p1.submit(echo, small).result(),
                "a round trip of a gradient": lambda: p1.submit(echo, large).result(),
                "pickling a gradient in band": lambda: pickle.dumps(large, 4),
                "pickling it out of band": lambda: pickle.dumps(
                    large, 5, buffer_callback=lambda _: None
                ),
                "adding a gradient": lambda: np.add(flat, large, out=flat),
            },
            turns,
            cores,
        )
        for name, samples in trips.items():
            print(f"  {name:28} {summary(samples)}")
        measured["latency"] = min(trips["a round trip of 8 bytes"])
        both = min(trips["a round trip of a gradient"]) - measured["latency"]
        measured["pipe"] = 2 * large.nbytes / both
        measured["adding"] = min(trips["adding a gradient"])
    measured["nbytes"] = nbytes(p)
    return measured


def nbytes(p) -> int:
    return sum(array.nbytes for array in p.values())


def ranks(rounds: int, wait: float) -> dict[str, float]:
    """Run this file under `mpiexec`, if there is one."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    mpiexec = shutil.which("mpiexec", path=beside)
    if mpiexec is None:
        return {}
    command = [mpiexec, "-n", "2", sys.executable, __file__, "--rank"]
    command += ["--rounds", str(rounds), "--wait", str(wait)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    *lines, last = done.stdout.splitlines()
    print("\n".join(lines))
    return json.loads(last)


def rank(rounds: int, wait: float) -> None:
    from mpi4py import MPI

    ct.set_num_threads(1)
    comm, world = ct.parallel.Communicator(), MPI.COMM_WORLD
    data = np.ones(100_000_000 // 8)
    small = np.ones(1)
    p, given = parameters(), batches(2)
    mine = given[comm.rank : comm.rank + 1]
    cores = Cores(wait, world.allgather(os.getpid()), is_silent=comm.rank > 0)

    def own():
        world.Allreduce(data, np.empty_like(data))

    times = in_turn(
        {
            "MPI alone": own,
            "Communicator": lambda: comm.allreduce(data),
            "8 bytes": lambda: world.allreduce(small),
            "a step": lambda: comm.gradient(loss, p, mine),
            "both batches, one rank": lambda: (
                world.Barrier(),
                ct.parallel.gradient(loss, p, given) if comm.rank == 0 else None,
                world.Barrier(),
            ),
        },
        rounds,
        cores,
    )
    if comm.rank:
        return
    print("\ntwo ranks")
    for name, samples in times.items():
        print(f"  {name:24} {summary(samples)}")
    print(f"  100 MB beside MPI alone: {ratio(times['Communicator'], times['MPI alone'])}")
    print(f"  speed-up by two ranks: {ratio(times['both batches, one rank'], times['a step'])}")
    alone = min(times["MPI alone"])
    print(json.dumps({"link": data.nbytes / alone, "rank_latency": min(times["8 bytes"])}))


def simulate(measured: dict[str, float]) -> None:
    """Compute step times for many workers from what was measured here.

    An executor's caller sends parameters to every worker, and takes in and adds up every gradient,
    one after the other. Ranks exchange with their neighbours: a ring moves twice the gradient over
    each link, whatever their number, in `2 (n - 1)` messages; half of it hides behind the reverse
    pass. Between machines, bandwidth and latency are those of `LINKS`, which are assumptions.
    """
    compute, size = measured["compute"], measured["nbytes"]

    def executor(n: int, tasks: int, bandwidth: float, latency: float) -> float:
        task = latency + size / bandwidth + measured["adding"]
        return max(compute * math.ceil(tasks / n), tasks * task) + n * size / bandwidth

    def ring(n: int, tasks: int, bandwidth: float, latency: float) -> float:
        work = compute * math.ceil(tasks / n)
        if n == 1:
            return work
        link = 2 * (n - 1) / n * size / bandwidth + 2 * (n - 1) * latency
        return max(work + link - min(link, work / 2), work)

    step = functools.partial
    pipe = {"bandwidth": measured["pipe"], "latency": measured["latency"]}
    engines: dict[str, Callable[[int, int], float]] = {"processes": step(executor, **pipe)}
    if "link" in measured:
        own = {"bandwidth": measured["link"], "latency": measured["rank_latency"] / 2}
        engines["ranks, this machine"] = step(ring, **own)
    for name, (bandwidth, latency) in LINKS.items():
        # The caller's work for a task stays what it is through a pipe.
        a_task = measured["latency"] + latency
        engines[f"caller, {name}"] = step(executor, bandwidth=bandwidth, latency=a_task)
        engines[f"ranks, {name}"] = step(ring, bandwidth=bandwidth, latency=latency)
    for name, took in engines.items():
        for kind, tasks in (("strong", lambda n: 1024), ("weak", lambda n: n)):
            one = took(1, tasks(1))
            row = []
            for n in WORKERS:
                gain = one / took(n, tasks(n)) * tasks(n) / tasks(1)
                row.append(f"{n}: {took(n, tasks(n)):.3g} s, {gain:.3g} x")
            print(f"  {name}, {kind}: {'; '.join(row)}")
        best = max(range(1, 1025), key=lambda n: took(1, 1024) / took(n, 1024))
        last = max(n for n in range(1, 1025) if took(1, 1024) / took(n, 1024) >= n / 2)
        print(
            f"  {name}: fastest with {best} workers; above {last}, less than half of each is used"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--wait", type=float, default=0.0, help="seconds for idle cores")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank(options.rounds, options.wait)
        return
    print(machine())
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    ct.set_num_threads(1)
    measured = executors(options.rounds, options.wait / 2)
    measured |= ranks(options.rounds, options.wait / 2)
    print("\ncomputed from these")
    simulate(measured)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
