"""What `ct.torch.wrap` and `ct.jax.wrap` add to a call, for ten numbers and for more work.

    python benches/python/wrapped.py

*PyTorch*: a call with its backward, beside a `torch.autograd.Function` that does the same in NumPy
with its derivative written by hand. Rounds alternate, and what is added is the difference within a
round. The time is that of the thread, so other work on the machine counts only as far as it takes
caches away.

*JAX*: a compiled call beside the same in JAX, and an empty `jax.pure_callback`. The time is that of
all threads of the process, as JAX computes in some of its own.

Libraries that are not installed are left out.
"""

import importlib.util
import statistics
import time
from collections.abc import Callable

import numpy as np

import cotan as ct
from _harness import machine, table

ROUNDS = 31
CALLS = 1_000
# Operations of the longest function: a sine and a product each.
LINKS = 40
X = np.linspace(0.1, 1.0, 10)

Work = Callable[[], object]


def in_turn(
    pairs: dict[str, tuple[Work, Work]], clock: Callable[[], float]
) -> list[tuple[str, list[float], list[float]]]:
    """Give, for each pair, the microseconds of its first call and what the second one adds."""
    found = []
    for name, pair in pairs.items():
        bare, added = [], []
        calls = _calls(pair[0], clock)
        for round_ in range(ROUNDS + 1):
            times = []
            for call in pair:
                call()
                start = clock()
                for _ in range(calls):
                    call()
                times.append((clock() - start) / calls * 1e6)
            if round_:
                bare.append(times[0])
                added.append(times[1] - times[0])
        found.append((name, bare, added))
    return found


def _calls(call: Work, clock: Callable[[], float]) -> int:
    """Give how many calls a round has: fewer of those that take long."""
    call()
    start = clock()
    call()
    return max(CALLS // max(round((clock() - start) / 2e-4), 1), 10)


def quartiles(of: list[float]) -> str:
    """Give the median, and the quartiles."""
    low, middle, high = statistics.quantiles(of, n=4)
    return f"{middle:.1f} ({low:.1f}-{high:.1f}) µs"


def _chains() -> tuple[Callable[..., object], Callable[..., object]]:
    """Give a function of many operations, by hand and wrapped."""
    import torch

    def chain(x):
        y = x
        for _ in range(LINKS):
            y = np.sin(y) * x
        return y

    class Chain(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            a = x.detach().numpy()
            links = [a]
            for _ in range(LINKS):
                links.append(np.sin(links[-1]) * a)
            ctx.save_for_backward(x)
            ctx.links = links
            return torch.from_numpy(links[-1])

        @staticmethod
        def backward(ctx, dy):
            (x,) = ctx.saved_tensors
            a, d = x.detach().numpy(), dy.numpy()
            slope = np.zeros_like(a)
            for y in reversed(ctx.links[:-1]):
                slope += d * np.sin(y)
                d = d * a * np.cos(y)
            return torch.from_numpy(slope + d)

    return Chain.apply, ct.torch.wrap(chain)


def of_torch() -> dict[str, tuple[Work, Work]]:
    import torch

    torch.set_num_threads(1)

    def by_hand(function, slope):
        class Hand(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return torch.from_numpy(np.asarray(function(x.detach().numpy())))

            @staticmethod
            def backward(ctx, dy):
                (x,) = ctx.saved_tensors
                return torch.from_numpy(dy.numpy() * slope(x.detach().numpy()))

        return Hand.apply

    def product(x):
        return np.sin(x) * x

    def total(x):
        return np.sum(np.sin(x) * x)

    def slope(x):
        return np.cos(x) * x + np.sin(x)

    x = torch.tensor(X, requires_grad=True)
    constant, ones = torch.tensor(X), torch.ones(10, dtype=torch.float64)

    def with_backward(call, dy=None, x=x):
        def work():
            x.grad = None
            call(x).backward(dy)

        return work

    def forward(call):
        return lambda: call(constant)

    hands = by_hand(total, slope), by_hand(product, slope)
    ours = ct.torch.wrap(total), ct.torch.wrap(product)
    chains = _chains()
    more = torch.linspace(0.1, 1.0, 5_000, dtype=torch.float64, requires_grad=True)
    return {
        "value, no gradient": (forward(hands[1]), forward(ours[1])),
        "sine, product and sum, forward and backward": tuple(
            map(with_backward, (hands[0], ours[0]))
        ),
        "sine and product, forward and backward": (
            with_backward(hands[1], ones),
            with_backward(ours[1], ones),
        ),
        f"{LINKS} sines and products, forward and backward": tuple(
            with_backward(call, ones) for call in chains
        ),
        "the same for 5,000 numbers": tuple(
            with_backward(call, torch.ones_like(more), more) for call in chains
        ),
    }


def of_jax() -> dict[str, tuple[Work, Work]]:
    import jax

    x = jax.numpy.asarray(X)
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    empty = jax.jit(lambda x: jax.pure_callback(lambda x: x, shape, x))
    plain = jax.jit(lambda x: jax.numpy.sin(x) * x)
    wrapped = jax.jit(ct.jax.wrap(lambda x: np.sin(x) * x))
    wait = jax.block_until_ready
    return {
        "`ct.jax.wrap`, beside a compiled function": (
            lambda: wait(plain(x)),
            lambda: wait(wrapped(x)),
        ),
        "`jax.pure_callback`, beside a compiled function": (
            lambda: wait(plain(x)),
            lambda: wait(empty(x)),
        ),
    }


def main() -> None:
    """Measure, and print a table."""
    found = []
    if importlib.util.find_spec("torch"):
        found += in_turn(of_torch(), time.thread_time)
    if importlib.util.find_spec("jax"):
        found += in_turn(of_jax(), time.process_time)
    rows = [[name, quartiles(bare), quartiles(added)] for name, bare, added in found]
    print(machine())
    print(table(["", "without cotan", "added"], rows))


if __name__ == "__main__":
    main()
