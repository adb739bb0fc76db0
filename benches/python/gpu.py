"""Gradients on a device beside the processor: the same function, arrays that stay where they are.

    python benches/python/gpu.py [--device gpu] [--rounds 7]

Prints for each workload the quartiles of the ratio of both times, measured one after the other in
each round. Nothing is printed where there is no such device.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
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


def layers(w: Any, v: Any, x: Any) -> Any:
    """Two products of matrices."""
    return np.mean((np.tanh(x @ w) @ v) ** 2)


def workloads() -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    """Give names, functions and arguments."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    return {
        "chain, 1e6": (chain, [normal(1_000_000)]),
        "chain, 1e7": (chain, [normal(10_000_000)]),
        "softmax, 4096 x 1024": (softmax, [normal(4096, 1024)]),
        "layers, 512": (layers, [normal(512, 512), normal(512, 64), normal(512, 512)]),
        "layers, 2048": (layers, [normal(2048, 2048), normal(2048, 64), normal(2048, 2048)]),
    }


def seconds(gradient: Callable[..., Any], args: list[Any], device: ct.Device) -> float:
    """Measure one call until all of it has been computed."""
    start = perf_counter()
    ct.force(gradient(*args))
    device.synchronize()
    return perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    try:
        device = ct.device(options.device)
    except RuntimeError as error:
        sys.exit(str(error))
    cpu = ct.device("cpu")
    print(f"{device}: {device.description}; {cpu}: {cpu.description}")
    for name, (function, values) in workloads().items():
        gradient = ct.prepare(ct.value_and_grad(function), transform="value")
        here = [ct.array(v) for v in values]
        there = ct.to_device(here, device)
        for _ in range(2):
            seconds(gradient, here, cpu)
            seconds(gradient, there, device)
        ratios, times = [], []
        for _ in range(options.rounds):
            a, b = seconds(gradient, here, cpu), seconds(gradient, there, device)
            ratios.append(a / b)
            times.append(b)
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"{name:24} {statistics.median(times) * 1e3:9.2f} ms, "
            f"{middle:.2f} times the processor's speed ({low:.2f} to {high:.2f})"
        )


if __name__ == "__main__":
    main()
