"""Fourier transforms beside SciPy's, with the same number of threads; gradients beside peers'.

The peers are PyTorch and JAX, each in a process of its own. What is timed is the transform of an
array that lies in memory, into one that does: the library's own, and, for cotan, the same with a
copy of it as an ndarray, since its own is immutable; and the gradient of the sum of its squared
sizes.

    python benches/python/fft.py [--markdown FILE]
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from _harness import (
    ENVIRONMENT,
    THREADS,
    Peer,
    machine,
    serve,
    summary,
    table,
    time_together,
    unit_of,
    write_section,
)

os.environ.update(ENVIRONMENT, COTAN_NUM_THREADS=str(THREADS))

import numpy as np

LENGTHS = [2**8, 2**10, 2**12, 2**14, 2**16, 2**18, 2**20]
AWKWARD = [1009, 10007, 15015, 99991, 2 * 3**10]
SHAPES = [(64, 64), (512, 512), (1000, 1000), (16, 256, 256), (1000, 128), (30, 101, 103)]
GRADIENTS = [(2**10,), (2**16,), (2**20,), (512, 512), (16, 256, 256)]


def complex_array(shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def compare(shape: tuple[int, ...], kind: str) -> list[str]:
    import scipy.fft

    import cotan as ct

    x = complex_array(shape)
    if kind[0] == "r":
        x = np.ascontiguousarray(x.real)
    name = kind if len(shape) == 1 else f"{kind}2"
    ours, theirs = getattr(np.fft, name), getattr(scipy.fft, name)
    a = ct.array(x)
    np.testing.assert_allclose(np.asarray(ours(a)), theirs(x), atol=1e-9 * x.size)
    times = time_together(
        {
            "cotan": lambda: ours(a).force(),
            "ndarray": lambda: np.asarray(ours(a)),
            "scipy": lambda: theirs(x, workers=THREADS),
        }
    )
    ratios = [f"{times['scipy'].median / times[k].median:.2f}×" for k in ("cotan", "ndarray")]
    dtype = "complex128" if kind[0] != "r" else "float64"
    label = " × ".join(map(str, shape))
    return [f"{name}, {label}, {dtype}", *map(str, times.values()), *ratios]


def gradient_of(library: str, shape: tuple[int, ...]) -> Callable[[], object]:
    x = complex_array(shape)
    if library == "cotan":
        import cotan as ct

        transform = np.fft.fft if len(shape) == 1 else np.fft.fft2
        return lambda: ct.gradient(lambda x: np.sum(np.abs(transform(x)) ** 2), x)
    if library == "torch":
        import torch

        torch.set_num_threads(THREADS)
        t = torch.from_numpy(x).requires_grad_()
        forward = torch.fft.fft if len(shape) == 1 else torch.fft.fft2

        def call() -> object:
            return torch.autograd.grad((forward(t).abs() ** 2).sum(), t)

        return call
    import jax
    import jax.numpy as jnp

    apply = jnp.fft.fft if len(shape) == 1 else jnp.fft.fft2
    slope = jax.jit(jax.grad(lambda x: jnp.sum(jnp.abs(apply(x)) ** 2)))
    given = jnp.asarray(x)
    return lambda: slope(given).block_until_ready()


def answer(library: str, shape: list[int]) -> dict:
    try:
        call = gradient_of(library, tuple(shape))
    except ImportError:
        return {"error": "not installed"}
    return {"seconds": time_together({"": call}, rounds=5)[""].median}


def gradients() -> list[list[str]]:
    names = ["cotan", "torch", "jax"]
    peers = {name: Peer(__file__, name) for name in names}
    rows = []
    for shape in GRADIENTS:
        samples: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(3):  # in turns
            for name, peer in peers.items():
                found = peer.ask(library=name, shape=shape)
                if "seconds" in found:
                    samples[name].append(found["seconds"])
        cells = []
        for name in names:
            if not samples[name]:
                cells.append("–")
                continue
            timing = summary(samples[name])
            scale, unit = unit_of(timing.median)
            cells.append(f"{timing.median * scale:.3g} {unit}")
        best = min((min(s) for n, s in samples.items() if n != "cotan" and s), default=None)
        ratio = "–" if best is None else f"{best / min(samples['cotan']):.2f}×"
        rows.append([" × ".join(map(str, shape)), *cells, ratio])
    for peer in peers.values():
        peer.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(answer)
        sys.exit()
    rows = [compare((n,), kind) for n in LENGTHS + AWKWARD for kind in ("fft", "rfft")]
    rows += [compare(shape, kind) for shape in SHAPES for kind in ("fft", "rfft")]
    text = (
        "Time of a transform, `benches/python/fft.py`: into an `Array`, that with a copy of it as "
        "an ndarray, and SciPy's with as many threads. The last two are SciPy's time over cotan's. "
        f"{machine()}.\n\n"
        + table(["transform", "cotan", "as ndarray", "SciPy", "speed", "as ndarray"], rows)
        + "\n\nGradient of the sum of the squared sizes of a transform, complex128:\n\n"
        + table(["shape", "cotan", "PyTorch", "JAX (jit)", "speed / best peer"], gradients())
    )
    print(text)
    if options.markdown:
        write_section(options.markdown, "fft", f"### Fourier transforms\n\n{text}")


if __name__ == "__main__":
    main()
