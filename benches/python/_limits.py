"""What the machine can do: bytes per second by size, and products per second, both measured."""

import contextlib
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from _harness import THREADS

# Sizes of what is read and written together, in bytes: second-level cache to main memory.
SIZES = (1 << 19, 1 << 21, 1 << 23, 1 << 25, 1 << 28)

PEAK = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef T vec __attribute__((vector_size(64)));
enum { LANES = 64 / sizeof(T), SUMS = 16, STEPS = 4000000 };
static volatile T sink;
static void *work(void *arg) {
    vec s[SUMS], a, b;
    for (int k = 0; k < LANES; k++) { a[k] = (T)0.999; b[k] = (T)0.001; }
    for (int j = 0; j < SUMS; j++) s[j] = a + b * (T)j;
    for (long i = 0; i < STEPS; i++)
        for (int j = 0; j < SUMS; j++) s[j] = s[j] * a + b;
    T total = 0;
    for (int j = 0; j < SUMS; j++) for (int k = 0; k < LANES; k++) total += s[j][k];
    sink = total;
    return arg;
}
int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    pthread_t threads[64];
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int k = 0; k < n; k++) pthread_create(&threads[k], 0, work, 0);
    for (int k = 0; k < n; k++) pthread_join(threads[k], 0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    double seconds = (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec);
    printf("%g\n", 2.0 * LANES * SUMS * STEPS * n / seconds);
}
"""


class Peak:
    """Products per second in vector registers alone, by a small C program."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.programs: dict[str, Path] = {}
        self.samples: dict[str, list[float]] = {}
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            return
        for dtype, c in (("float32", "float"), ("float64", "double")):
            source = Path(self.folder.name, f"{dtype}.c")
            source.write_text(PEAK)
            program = source.with_suffix("")
            flags = ["-O3", "-march=native", "-ffast-math", "-mprefer-vector-width=512", "-pthread"]
            command = [compiler, *flags, f"-DT={c}", str(source), "-o", str(program)]
            with contextlib.suppress(subprocess.CalledProcessError):
                subprocess.run(command, check=True, capture_output=True)
                self.programs[dtype] = program

    def sample(self) -> None:
        for dtype, program in self.programs.items():
            run = subprocess.run(
                [program, str(THREADS)], check=True, capture_output=True, text=True
            )
            self.samples.setdefault(dtype, []).append(float(run.stdout))

    def rates(self) -> dict[str, float]:
        return {dtype: statistics.median(found) for dtype, found in self.samples.items()}


class Bandwidth:
    """Bytes per second that a copy reads and writes with all threads, for each size."""

    def __init__(self) -> None:
        self.samples: dict[int, list[float]] = {size: [] for size in SIZES}

    def sample(self) -> None:
        for size, found in self.samples.items():
            found.append(copied(size))

    def rates(self) -> dict[int, float]:
        return {size: statistics.median(found) for size, found in self.samples.items() if found}

    def at(self, nbytes: int) -> float:
        """Return the rate for the smallest measured size that is not below `nbytes`."""
        rates = self.rates()
        return rates[min((size for size in SIZES if size >= nbytes), default=SIZES[-1])]


def copied(size: int) -> float:
    """Copy one half of `size` bytes to the other; NumPy lets go of its lock."""
    part = size // 2 // THREADS
    repeats = max(3, (1 << 27) // size)
    ready = threading.Barrier(THREADS)
    spans: list[tuple[float, float]] = []

    def work() -> None:
        source, target = np.ones(part, np.uint8), np.zeros(part, np.uint8)
        np.copyto(target, source)
        ready.wait()
        start = time.perf_counter()
        for _ in range(repeats):
            np.copyto(target, source)
        spans.append((start, time.perf_counter()))

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = max(end for _, end in spans) - min(start for start, _ in spans)
    return repeats * size / seconds
