"""Gradients on a device beside the processor: the same function, arrays that stay where they are.

    python benches/python/gpu.py [--device gpu] [--rounds 7] [--part 1] [--cpu]

Prints for each workload the quartiles of the ratio of both times, measured one after the other in
each round. Nothing is printed where there is no such device. With --cpu it is the time of the
processor and not of the clock: for drivers that compute there, on a machine that does other work.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np

import cotan as ct


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


def workloads(part: int) -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    """Give names, functions and arguments of one part of the full sizes."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    long, rows = 10_000_000 // part, 4096 // part
    found: dict[str, tuple[Callable[..., Any], list[Any]]] = {
        f"chain, {long}": (chain, [normal(long)]),
        f"softmax, {rows} x 1024": (softmax, [normal(rows, 1024)]),
        f"running sums, {rows} x 1024": (sums, [normal(rows, 1024)]),
    }
    found[f"layer norm, {rows} x 1024"] = (layer_norm, [normal(rows, 1024)])
    for full in (512, 2048):
        n = full // max(1, part // 4)
        found[f"layers, {n}"] = (layers, [normal(n, n), normal(n, 64), normal(n, n)])
    images = max(1, 256 // part)
    found[f"convolution, {images} x 32 x 32 x 32"] = (
        convolutions,
        [normal(32, 32, 3, 3), normal(images, 32, 32, 32)],
    )
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
    options = parser.parse_args()
    clock = process_time if options.cpu else perf_counter
    try:
        device = ct.device(options.device)
    except RuntimeError as error:
        sys.exit(str(error))
    cpu = ct.device("cpu")
    print(f"{device}: {device.description}; {cpu}: {cpu.description}")
    for name, (function, values) in workloads(options.part).items():
        gradient = ct.prepare(ct.value_and_grad(function), transform="value")
        here = [ct.array(v) for v in values]
        there = ct.to_device(here, device)
        for _ in range(2):
            seconds(gradient, here, cpu)
            seconds(gradient, there, device)
        ratios, times = [], []
        for _ in range(options.rounds):
            a = seconds(gradient, here, cpu, clock)
            b = seconds(gradient, there, device, clock)
            ratios.append(a / b)
            times.append(b)
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"{name:32} {statistics.median(times) * 1e3:9.2f} ms, "
            f"{middle:.2f} times the processor's speed ({low:.2f} to {high:.2f})"
        )


if __name__ == "__main__":
    main()
