"""Times of several processes that take turns, each with the same threads."""

import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """Give the unit in which a time has at least one digit before the point, and its scale."""
    for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * scale >= 1.0:
            return scale, unit
    return 1e9, "ns"


def summary(samples: Sequence[float]) -> Timing:
    """Give median and quartiles."""
    if len(samples) < 2:
        return Timing(samples[0], samples[0], samples[0])
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(median, low, high)


def short(seconds: float) -> str:
    """Write a time with three digits."""
    scale, unit = unit_of(seconds)
    return f"{seconds * scale:.3g} {unit}"


def cell(timing: Timing) -> str:
    """Write the median, and half the distance of the quartiles in percent of it."""
    spread = (timing.high - timing.low) / 2 / timing.median
    return f"{short(timing.median)} ±{spread:.0%}"


def serve(answer: Callable[..., dict[str, Any]]) -> None:
    """Answer requests on standard input until it ends."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints stays out of the answers
    for line in sys.stdin:
        out.write(json.dumps(answer(**json.loads(line))) + "\n")


def machine() -> str:
    """Name the processor, the threads and Python."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return f"{model}, {THREADS} threads, Python {platform.python_version()}"
