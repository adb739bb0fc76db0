"""Make and apply the pullback of sum(sin(x) * cos(c)), next to the peers.

    python benches/python/seed.py [--sizes 10 1000] [--markdown FILE]

Every library runs in a process of its own, with two threads; the processes take turns, round after
round. Results are checked against NumPy in float64 before anything is timed. Peers that are not
installed are left out: `pip install cotan[peers]`.
"""

import argparse
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

from _harness import THREADS, Peer, machine, serve, summary, table, time_together, write_section

LIBRARIES = ("cotan", "numpy", "jax", "torch", "autograd")
TITLES = {
    "jax": "JAX (jit)",
    "torch": "PyTorch",
    "autograd": "HIPS autograd",
    "numpy": "NumPy by hand",
}
WAYS = ("const", "discard", "closure", "dropgrad")
GRADIENT = "value and gradient"

Calls = dict[str, Callable[[], object]]


def f(x, c):
    return np.sum(np.sin(x) * np.cos(c))


def data(n: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.uniform(-3, 3, n).astype(dtype), rng.uniform(-3, 3, n).astype(dtype)


def cotan_calls(x: np.ndarray, c: np.ndarray) -> Calls:
    import cotan as ct

    one = x.dtype.type(1)

    def dropped(x, c):
        return f(x, ct.dropgrad(c))

    make: dict[str, Callable] = {
        "const": lambda: ct.pullback(f, x, ct.const(c)),
        "discard": lambda: ct.pullback(f, x, c),
        "closure": lambda: ct.pullback(lambda x: f(x, c), x),
        "dropgrad": lambda: ct.pullback(dropped, x, c),
    }
    calls: Calls = {}
    for way, call in make.items():
        _, back = call()
        calls[f"make, {way}"] = call
        calls[f"apply, {way}"] = lambda back=back: np.asarray(back(one)[0])
    calls[GRADIENT] = lambda: ct.value_and_gradient(f, x, ct.const(c))[1][0]
    return calls


def numpy_calls(x: np.ndarray, c: np.ndarray) -> Calls:
    def gradient():
        cos_c = np.cos(c)
        np.sum(np.sin(x) * cos_c)
        return np.cos(x) * cos_c

    return {GRADIENT: gradient}


def jax_calls(x: np.ndarray, c: np.ndarray) -> Calls:
    import jax
    import jax.numpy as jnp

    def g(x, c):
        return jnp.sum(jnp.sin(x) * jnp.cos(c))

    x, c = jnp.asarray(x), jnp.asarray(c)
    make = jax.jit(lambda x, c: jax.vjp(lambda x: g(x, c), x))
    apply = jax.jit(lambda back, dy: back(dy)[0])
    gradient = jax.jit(jax.value_and_grad(g))
    _, back = make(x, c)
    one = jnp.ones((), x.dtype)
    return {
        "make, const": lambda: jax.block_until_ready(make(x, c)),
        "apply, const": lambda: apply(back, one).block_until_ready(),
        GRADIENT: lambda: jax.block_until_ready(gradient(x, c))[1],
    }


def torch_calls(x: np.ndarray, c: np.ndarray) -> Calls:
    import torch

    torch.set_num_threads(THREADS)
    x, c = torch.from_numpy(x).requires_grad_(), torch.from_numpy(c)

    def make():
        return torch.sum(torch.sin(x) * torch.cos(c))

    kept = make()
    return {
        "make, const": make,
        "apply, const": lambda: torch.autograd.grad(kept, x, retain_graph=True)[0],
        GRADIENT: lambda: torch.autograd.grad(make(), x)[0],
    }


def autograd_calls(x: np.ndarray, c: np.ndarray) -> Calls:
    import autograd
    import autograd.numpy as anp

    def g(x, c):
        return anp.sum(anp.sin(x) * anp.cos(c))

    gradient = autograd.value_and_grad(g)
    back, _ = autograd.make_vjp(g)(x, c)
    one = x.dtype.type(1)
    return {
        "make, const": lambda: autograd.make_vjp(g)(x, c),
        "apply, const": lambda: back(one),
        GRADIENT: lambda: gradient(x, c)[1],
    }


CALLS = {
    "cotan": cotan_calls,
    "numpy": numpy_calls,
    "jax": jax_calls,
    "torch": torch_calls,
    "autograd": autograd_calls,
}


def check(calls: Calls, x: np.ndarray, c: np.ndarray) -> None:
    """Compare all that yields a gradient with NumPy in float64."""
    exact = np.cos(x.astype(np.float64)) * np.cos(c.astype(np.float64))
    tolerance = 16 * np.finfo(x.dtype).eps
    for name, call in calls.items():
        if not name.startswith("make"):
            np.testing.assert_allclose(
                np.asarray(call()), exact, rtol=tolerance, atol=tolerance, err_msg=name
            )


def worker(library: str) -> None:
    cache: dict[tuple[int, str], Calls] = {}

    def answer(n: int, dtype: str, rounds: int) -> dict:
        try:
            if (n, dtype) not in cache:
                x, c = data(n, dtype)
                cache.clear()
                cache[n, dtype] = CALLS[library](x, c)
                check(cache[n, dtype], x, c)
        except ImportError:
            return {"error": "not installed"}
        except Exception as error:  # noqa: BLE001 - a peer that fails is a row that says so
            return {"error": f"{type(error).__name__}: {error}"}
        timings = time_together(cache[n, dtype], rounds)
        return {name: timing.median for name, timing in timings.items()}

    serve(answer)


def measure(
    peers: list[Peer], n: int, dtype: str, rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Let the processes take turns; a sample is the median of three rounds of one turn."""
    samples: dict[str, dict[str, list[float]]] = {peer.name: {} for peer in peers}
    for _ in range(rounds):
        for peer in peers:
            reply = peer.ask(n=n, dtype=dtype, rounds=3)
            if "error" in reply:
                if reply["error"] != "not installed":
                    print(f"{peer.name}: {reply['error']}")
                samples.pop(peer.name, None)
                peers = [other for other in peers if other is not peer]
                continue
            for name, seconds in reply.items():
                samples[peer.name].setdefault(name, []).append(seconds)
    return samples


def report(samples: dict[str, dict[str, list[float]]], n: int, dtype: str) -> str:
    rivals = {
        what: min(
            (
                summary(times[what]).median
                for who, times in samples.items()
                if who not in ("cotan", "numpy") and what in times
            ),
            default=None,
        )
        for what in ("make, const", "apply, const", GRADIENT)
    }
    rows = []
    for library, times in samples.items():
        for what, values in times.items():
            timing = summary(values)
            rival = rivals[what if what == GRADIENT else f"{what.partition(',')[0]}, const"]
            ratio = f"{rival / timing.median:.2f}×" if rival else ""
            rows.append((f"{TITLES.get(library, library)}: {what}", str(timing), ratio))
    head = (f"n = {n:,}, {dtype}", "median (quartiles)", "speed / best peer")
    return table(head, rows)


def ways(found: dict[int, dict[str, list[float]]]) -> str:
    """Make and apply, for each way to hold `c` constant, beside the fastest way at this size."""
    rows = []
    for way in WAYS:
        row = [f"`{way}`"]
        for times in found.values():
            for what in ("make", "apply"):
                median = summary(times[f"{what}, {way}"]).median
                best = min(summary(times[f"{what}, {other}"]).median for other in WAYS)
                unit, scale = ("µs", 1e6) if median < 1e-3 else ("ms", 1e3)
                row.append(f"{median * scale:.3g} {unit} ({median / best:.2f})")
        rows.append(row)
    head = ["way"]
    for n in found:
        head += [f"n = {n:,}: make", "apply"]
    return table(head, rows)


def versions() -> str:
    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except ImportError:
            continue
    return ", ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 1_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    parser.add_argument("--ways", type=Path, metavar="FILE", help="write what each way costs there")
    parser.add_argument("--worker", choices=LIBRARIES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(args.worker)
        return
    peers = [Peer(__file__, library) for library in LIBRARIES]
    about = (
        "Seconds to make and to apply the pullback of `sum(sin(x) * cos(c))` with respect to `x`, "
        "and to get value and gradient, `benches/python/seed.py`. The last column is the time of "
        f"the fastest peer over the time of the row. {machine()}; {versions()}."
    )
    sections = [about]
    own: dict[int, dict[str, list[float]]] = {}
    print(about)
    try:
        for n in args.sizes:
            for dtype in ("float32", "float64"):
                samples = measure(peers, n, dtype, args.rounds)
                own[n] = samples["cotan"]
                sections.append(report(samples, n, dtype))
                print(f"\n{sections[-1]}", flush=True)
    finally:
        for peer in peers:
            peer.close()
    if args.ways:
        note = (
            "Time to make and to apply the pullback of `sum(sin(x) * cos(c))`, float64, median "
            f"(and beside the fastest way of the column). {machine()}; `benches/python/seed.py`."
        )
        write_section(args.ways, "ways", f"{note}\n\n{ways(own)}")
    if args.markdown:
        write_section(args.markdown, "seed", "### The seed function\n\n" + "\n\n".join(sections))


if __name__ == "__main__":
    main()
