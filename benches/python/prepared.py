"""Prepared gradients, next to unprepared ones and the peers.

    python benches/python/prepared.py [--workloads seed loop ...] [--rounds 5]

`seed` is value and gradient of sum(sin(x) * cos(c)) with c constant; `loop` that of 1,000
operations on a scalar in a Python loop; `look` that of a loop which looks at its values (Newton's
square root). Every library runs in a process of its own, with two threads; the processes take
turns. Results are checked against NumPy in float64 before anything is timed. Peers that are not
installed are left out.
"""

import argparse
import functools
from collections.abc import Callable

import numpy as np

from _harness import THREADS, Peer, machine, serve, summary, table, time_together

LIBRARIES = ("cotan", "numpy", "jax", "torch", "autograd")
SIZES = {"seed 10": 10, "seed 1e3": 1000, "seed 1e6": 1_000_000}
WORKLOADS = (*SIZES, "loop", "look")

Calls = dict[str, Callable[[], object]]


def seed(x, c, np=np):
    return np.sum(np.sin(x) * np.cos(c))


def loop(x):
    y = x
    for _ in range(250):
        y = y * 1.0001 + 0.1
        y = y / (y + x)
    return y


def look(a):
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def data(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.uniform(-3, 3, n), rng.uniform(-3, 3, n)


def cotan_calls(workload: str) -> Calls:
    import cotan as ct

    if workload in SIZES:
        x, c = data(SIZES[workload])
        g = ct.prepare(seed, x, ct.const(c), transform="value_and_gradient")
        out = (None, (np.empty_like(x), None))
        return {
            "prepared": lambda: g(x, c)[1][0],
            "prepared, out=": lambda: g(x, c, out=out)[1][0],
            "unprepared": lambda: ct.value_and_gradient(seed, x, ct.const(c))[1][0],
        }
    f = loop if workload == "loop" else look
    g = ct.prepare(f, 2.0, transform="value_and_gradient")
    return {
        "prepared": lambda: g(2.0)[1][0],
        "unprepared": lambda: ct.value_and_gradient(f, 2.0)[1][0],
    }


def numpy_calls(workload: str) -> Calls:
    if workload not in SIZES:
        return {}
    x, c = data(SIZES[workload])

    def gradient():
        cos_c = np.cos(c)
        np.sum(np.sin(x) * cos_c)
        return np.cos(x) * cos_c

    return {"by hand": gradient}


def jax_calls(workload: str) -> Calls:
    import jax
    import jax.numpy as jnp

    if workload in SIZES:
        x, c = map(jnp.asarray, data(SIZES[workload]))
        g = jax.jit(jax.value_and_grad(functools.partial(seed, np=jnp)))
        return {"jit": lambda: jax.block_until_ready(g(x, c))[1]}
    if workload == "look":
        return {}
    g = jax.jit(jax.value_and_grad(loop))
    x = jnp.asarray(2.0)
    return {"jit": lambda: jax.block_until_ready(g(x))[1]}


def torch_calls(workload: str) -> Calls:
    import torch

    torch.set_num_threads(THREADS)
    if workload in SIZES:
        x, c = map(torch.from_numpy, data(SIZES[workload]))
        x.requires_grad_()
        return {"eager": lambda: torch.autograd.grad(seed(x, c, torch), x)[0].numpy()}  # noqa: PLW0108
    f = loop if workload == "loop" else look

    def gradient():
        x = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        return torch.autograd.grad(f(x), x)[0].numpy()

    return {"eager": gradient}


def autograd_calls(workload: str) -> Calls:
    import autograd
    import autograd.numpy as anp

    if workload in SIZES:
        x, c = data(SIZES[workload])
        g = autograd.value_and_grad(lambda x, c: seed(x, c, anp))
        return {"tape": lambda: g(x, c)[1]}
    g = autograd.value_and_grad(loop if workload == "loop" else look)
    return {"tape": lambda: g(2.0)[1]}


CALLS = {
    "cotan": cotan_calls,
    "numpy": numpy_calls,
    "jax": jax_calls,
    "torch": torch_calls,
    "autograd": autograd_calls,
}


def exact(workload: str) -> np.ndarray:
    if workload in SIZES:
        x, c = data(SIZES[workload])
        return np.cos(x) * np.cos(c)
    if workload == "look":
        return np.asarray(0.5 / np.sqrt(2.0))
    # The derivative of each step, along with the step.
    y, dy = 2.0, 1.0
    for _ in range(250):
        y, dy = y * 1.0001 + 0.1, dy * 1.0001
        y, dy = y / (y + 2.0), (dy * (y + 2.0) - y * (dy + 1.0)) / (y + 2.0) ** 2
    return np.asarray(dy)


def worker(library: str) -> None:
    cache: dict[str, Calls] = {}

    def answer(workload: str, rounds: int) -> dict:
        try:
            if workload not in cache:
                cache.clear()
                cache[workload] = CALLS[library](workload)
                for name, call in cache[workload].items():
                    np.testing.assert_allclose(
                        np.asarray(call()), exact(workload), rtol=1e-8, atol=1e-12, err_msg=name
                    )
        except ImportError:
            return {"error": "not installed"}
        except Exception as error:  # noqa: BLE001 - a peer that fails is a row that says so
            return {"error": f"{type(error).__name__}: {error}"}
        timings = time_together(cache[workload], rounds)
        return {name: timing.median for name, timing in timings.items()}

    serve(answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=WORKLOADS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        worker(options.worker)
        return
    peers = [Peer(__file__, library) for library in LIBRARIES]
    print(machine())
    for workload in options.workloads:
        samples: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for peer in peers:
                reply = peer.ask(workload=workload, rounds=3)
                if reply.get("error", "not installed") != "not installed":
                    print(f"{peer.name}: {reply['error']}")
                for name, seconds in reply.items():
                    if name != "error":
                        samples.setdefault(f"{peer.name}, {name}", []).append(seconds)
        rivals = [
            summary(s).median
            for who, s in samples.items()
            if not who.startswith(("cotan", "numpy"))
        ]
        rows = [
            (
                who,
                str(summary(values)),
                f"{summary(values).median / min(rivals):.2f}" if rivals else "",
            )
            for who, values in samples.items()
        ]
        print(table((workload, "median (quartiles)", "time / best peer"), rows) + "\n")
    for peer in peers:
        peer.close()


if __name__ == "__main__":
    main()
