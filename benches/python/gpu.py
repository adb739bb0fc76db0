"""Gradients on a device beside the processor: the same function, arrays that stay where they are.

    python benches/python/gpu.py [--device gpu] [--rounds 7] [--part 1] [--cpu]
                                 [--peers [NAME ...]]

Prints for each workload the quartiles of the ratio of both times, the device's over the
processor's, measured one after the other in each round, and what the device left to the processor.
Nothing is printed where there is no such device. With --cpu it is the time of the processor and not
of the clock: for drivers that compute there, on a machine that does other work. With --peers it is
the workloads of `peers.py`, all or those that are named.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np

import cotan as ct
from cotan._src.bench.libraries import cotan_parts
from workloads import WORKLOADS


def chain(x: Any) -> Any:
    """Elementwise functions and a sum."""
    return np.sum(np.sin(x) * np.exp(-x * x) + np.tanh(x) ** 2)


def softmax(x: Any) -> Any:
    """Reductions along rows."""
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum((e / np.sum(e, axis=1, keepdims=True)) ** 2)


def layer_norm(x: Any) -> Any:
    """Two means of each row."""
    centred = x - np.mean(x, axis=1, keepdims=True)
    variance = np.mean(centred**2, axis=1, keepdims=True)
    return np.sum(np.tanh(centred / np.sqrt(variance + np.float32(1e-5))))


def layers(w: Any, v: Any, x: Any) -> Any:
    """Two products of matrices."""
    return np.mean((np.tanh(x @ w) @ v) ** 2)


def convolutions(k: Any, x: Any) -> Any:
    """Convolve, and take the greatest elements of windows."""
    return np.sum(ct.max_pool(np.maximum(ct.conv(x, k, padding="same"), 0), 2) ** 2)


def sums(x: Any) -> Any:
    """Sum along rows, up to each element."""
    return np.sum(np.cumsum(x, axis=1) ** 2)


# A function, its arguments, and the numbers of those that are held constant.
Work = tuple[Callable[..., Any], list[Any], set[int]]


def workloads(part: int) -> dict[str, Work]:
    """Give names, functions and arguments of one part of the full sizes."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    long, rows = 10_000_000 // part, 4096 // part
    found: dict[str, Work] = {
        f"chain, {long}": (chain, [normal(long)], set()),
        f"softmax, {rows} x 1024": (softmax, [normal(rows, 1024)], set()),
        f"running sums, {rows} x 1024": (sums, [normal(rows, 1024)], set()),
    }
    found[f"layer norm, {rows} x 1024"] = (layer_norm, [normal(rows, 1024)], set())
    for full in (512, 2048):
        n = full // max(1, part // 4)
        found[f"layers, {n}"] = (layers, [normal(n, n), normal(n, 64), normal(n, n)], set())
    images = max(1, 256 // part)
    found[f"convolution, {images} x 32 x 32 x 32"] = (
        convolutions,
        [normal(32, 32, 3, 3), normal(images, 32, 32, 32)],
        set(),
    )
    return found


def peers(only: list[str]) -> dict[str, Work]:
    """Give the workloads of `peers.py` that are named, by their first word, too; or else all."""
    found: dict[str, Work] = {}
    for w in WORKLOADS:
        if not only or w.name in only or w.name.partition(" ")[0] in only:
            arguments = list(w.data())
            function, _ = cotan_parts(w, tuple(arguments))
            found[w.name] = (function, arguments, set(range(len(arguments))) - set(w.wrt))
    return found


def seconds(
    gradient: Callable[..., Any],
    args: list[Any],
    device: ct.Device,
    clock: Callable[[], float] = perf_counter,
) -> float:
    """Measure one call until all of it has been computed."""
    start = clock()
    ct.force(gradient(*args))
    device.synchronize()
    return clock() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--part", type=int, default=1, help="so many times smaller")
    parser.add_argument("--cpu", action="store_true", help="time of the processor")
    parser.add_argument("--peers", nargs="*", metavar="NAME", help="workloads of peers.py")
    options = parser.parse_args()
    clock = process_time if options.cpu else perf_counter
    try:
        device = ct.device(options.device)
    except RuntimeError as error:
        sys.exit(str(error))
    cpu = ct.device("cpu")
    print(f"{device}: {device.description}; {cpu}: {cpu.description}")
    found = workloads(options.part) if options.peers is None else peers(options.peers)
    for name, (function, values, constant) in found.items():
        examples = [ct.const(v) if k in constant else v for k, v in enumerate(values)]
        gradient = ct.prepare(function, *examples, transform="value_and_gradient")
        here = [ct.array(v) if isinstance(v, np.ndarray) else v for v in values]
        there = ct.to_device(here, device)
        seconds(gradient, here, cpu)
        first = seconds(gradient, there, device)
        with ct.profile() as work:
            seconds(gradient, there, device)
        ratios, times = [], []
        for _ in range(options.rounds):
            a = seconds(gradient, here, cpu, clock)
            b = seconds(gradient, there, device, clock)
            ratios.append(b / a)
            times.append(b)
        low, middle, high = statistics.quantiles(ratios, n=4)
        rest = ", ".join(work.on_processor) or "nothing"
        print(
            f"{name:32} {statistics.median(times) * 1e3:9.2f} ms, {middle:.2f} times the "
            f"processor's time ({low:.2f} to {high:.2f}); first run {first:.2f} s; "
            f"on the processor: {rest}",
            flush=True,
        )


if __name__ == "__main__":
    main()
