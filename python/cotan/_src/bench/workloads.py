"""Workloads by which libraries are compared: value and gradient of one scalar function each.

A workload says what a user of NumPy would write. `function(np, *arguments)` takes the namespace,
so that the same text serves cotan (with NumPy itself), HIPS autograd and JAX; where a peer has a
function of its own for it (a softmax, a convolution), `torch` or `jax` hold the form that its users
write. `by_hand` is the gradient that somebody would write in NumPy, and in float64 the reference.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

Arrays = tuple[Any, ...]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Workload:
    """One function, its arguments, and the least that any machine has to do for it."""

    name: str
    data: Callable[[], Arrays]
    function: Function
    by_hand: Callable[..., tuple[Any, Arrays]]
    wrt: tuple[int, ...] = (0,)
    constants: tuple[int, ...] = ()  # arguments that are the same in every call
    hoisted: Function | None = None  # by hand, with what depends on constants alone computed before
    torch: Function | None = None
    jax: Function | None = None
    cotan: Function | None = None
    autograd: Function | None = None
    nbytes: int = 0  # read once and written once, beyond the last cache
    flops: int = 0  # in matrix products
    loose: float = 1.0  # factor on the tolerance
    targets: tuple[float | None, float | None] = (None, None)  # prepared, unmodified
    eager_target: float | None = None  # unmodified, against PyTorch (eager) alone
    below_hand: bool = False  # prepared has to be faster than NumPy by hand, too
    dtype: str = "float32"


def rng() -> np.random.Generator:
    """Give the generator that all arguments are drawn from."""
    return np.random.default_rng(0)


# seed: the function of the first example of the documentation


def seed(np: Any, x: Any, c: Any) -> Any:
    """Sum sin(x) cos(c): the first function of the documentation."""
    return np.sum(np.sin(x) * np.cos(c))


def seed_by_hand(x: Any, c: Any) -> Any:
    """Give the value and the gradient by the formula."""
    cos_c = np.cos(c)
    return np.sum(np.sin(x) * cos_c), (np.cos(x) * cos_c,)


def seed_hoisted(x: Any, c: Any) -> Any:
    """Give the same, with what depends on c alone computed before."""
    cos_c = np.cos(c)
    return lambda: (np.sum(np.sin(x) * cos_c), (np.cos(x) * cos_c,))


def seed_data(n: int, dtype: str) -> Callable[[], Arrays]:
    """Give a function that draws x and c."""

    def data() -> Arrays:
        draw = rng()
        return draw.uniform(-3, 3, n).astype(dtype), draw.uniform(-3, 3, n).astype(dtype)

    return data


# chain: 20 operations, nearly every intermediate is used twice


def chain(np: Any, x: Any) -> Any:
    """Compute 20 operations, of which nearly every intermediate is used twice."""
    y = x
    for _ in range(5):
        a = np.sin(x)
        b = a * y
        x = x - b
        y = a + b
    return np.sum(x * y)


def chain_by_hand(x: Any) -> Any:
    """Give the value and the gradient by the formula."""
    y = x
    kept = []
    for _ in range(5):
        a = np.sin(x)
        kept.append((x, y, a))
        b = a * y
        x = x - b
        y = a + b
    value = np.sum(x * y)
    dx, dy = y, x
    for x, y, a in reversed(kept):
        db = dy - dx
        da = dy + db * y
        dy = db * a
        dx = dx + da * np.cos(x)
    return value, (dx + dy,)


def chain_line(np: Any, x: Any) -> Any:
    """Compute 20 operations in a line, each from the one before."""
    for _ in range(5):
        x = np.tanh(np.sin(x) * 1.1 + 0.1)
    return np.sum(x)


def chain_line_by_hand(x: Any) -> Any:
    """Give the value and the gradient by the formula."""
    kept = []
    for _ in range(5):
        y = np.tanh(np.sin(x) * 1.1 + 0.1)
        kept.append((x, y))
        x = y
    value = np.sum(x)
    dx = np.ones_like(x)
    for x, y in reversed(kept):
        dx = dx * (1 - y * y) * 1.1 * np.cos(x)
    return value, (dx,)


def uniform(n: int, dtype: str = "float32") -> Callable[[], Arrays]:
    """Give a function that draws n numbers between -1 and 1."""
    return lambda: (rng().uniform(-1, 1, n).astype(dtype),)


# scalar-loop: 1,000 operations on a number


def scalar_loop(np: Any, x: Any) -> Any:
    """Compute 1,000 operations on one number."""
    y = x
    for _ in range(250):
        y = np.sin(y) * x + y / 2.0
    return y


def scalar_loop_by_hand(x: Any) -> Any:
    """Give the value and the gradient by the formula."""
    import math

    y, kept = float(x), []
    for _ in range(250):
        kept.append(y)
        y = math.sin(y) * x + y / 2.0
    value, dy, dx = y, 1.0, 0.0
    for y in reversed(kept):
        dx += dy * math.sin(y)
        dy *= math.cos(y) * x + 0.5
    return value, (dx + dy,)


# mlp: 784-512-512-10, ReLU, softmax cross-entropy, batch 128


def mlp(np: Any, x: Any, labels: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    """Give the cross-entropy of a network with two hidden layers."""
    h = np.maximum(x @ w1 + b1, 0)
    h = np.maximum(h @ w2 + b2, 0)
    z = h @ w3 + b3
    z = z - np.max(z, axis=1, keepdims=True)
    logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(logp[np.arange(len(labels)), labels])


def mlp_torch(
    torch: Any, x: Any, labels: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any
) -> Any:
    """Write it as PyTorch's users do."""
    h = torch.relu(torch.addmm(b1, x, w1))
    h = torch.relu(torch.addmm(b2, h, w2))
    return torch.nn.functional.cross_entropy(torch.addmm(b3, h, w3), labels)


def mlp_jax(
    jnp: Any, x: Any, labels: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any
) -> Any:
    """Write it as JAX's users do."""
    jax = import_module("jax")

    h = jax.nn.relu(x @ w1 + b1)
    h = jax.nn.relu(h @ w2 + b2)
    logp = jax.nn.log_softmax(h @ w3 + b3)
    return -jnp.mean(logp[jnp.arange(len(labels)), labels])


def cross_entropy_by_hand(z: Any, labels: Any) -> Any:
    """Give the cross-entropy of logits, and its gradient."""
    rows = np.arange(len(labels))
    z = z - np.max(z, axis=1, keepdims=True)
    e = np.exp(z)
    total = np.sum(e, axis=1, keepdims=True)
    value = np.mean(np.log(total[:, 0]) - z[rows, labels])
    dz = e / total
    dz[rows, labels] -= 1
    dz /= len(labels)
    return value, dz


def mlp_by_hand(x: Any, labels: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    """Give the value and the gradient by the formula."""
    h1 = np.maximum(x @ w1 + b1, 0)
    h2 = np.maximum(h1 @ w2 + b2, 0)
    value, dz = cross_entropy_by_hand(h2 @ w3 + b3, labels)
    dh2 = dz @ w3.T
    dh2[h2 <= 0] = 0
    dh1 = dh2 @ w2.T
    dh1[h1 <= 0] = 0
    return value, (
        x.T @ dh1,
        dh1.sum(0),
        h1.T @ dh2,
        dh2.sum(0),
        h2.T @ dz,
        dz.sum(0),
    )


def mlp_last_by_hand(
    x: Any, labels: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any
) -> Any:
    """Give the gradient of the last layer alone."""
    h1 = np.maximum(x @ w1 + b1, 0)
    h2 = np.maximum(h1 @ w2 + b2, 0)
    value, dz = cross_entropy_by_hand(h2 @ w3 + b3, labels)
    return value, (h2.T @ dz, dz.sum(0))


LAYERS = (784, 512, 512, 10)
BATCH = 128


def mlp_data() -> Arrays:
    """Draw images, labels, weights and biases."""
    draw = rng()
    arrays: list[Any] = [
        draw.normal(size=(BATCH, LAYERS[0])).astype("float32"),
        draw.integers(0, LAYERS[-1], BATCH),
    ]
    for rows, columns in itertools.pairwise(LAYERS):
        arrays.append((draw.normal(size=(rows, columns)) / rows**0.5).astype("float32"))
        arrays.append((draw.normal(size=columns) / 10).astype("float32"))
    return tuple(arrays)


def mlp_flops(last: bool) -> int:
    """Count the operations in matrix products: of all layers, or of the last alone."""
    sizes = [a * b for a, b in itertools.pairwise(LAYERS)]
    backward = sizes[-1] if last else sum(sizes) + sum(sizes[1:])
    return 2 * BATCH * (sum(sizes) + backward)


# softmax and layernorm: rows of 1024


def softmax(np: Any, x: Any, w: Any) -> Any:
    """Weigh the softmax of rows."""
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum(e / np.sum(e, axis=1, keepdims=True) * w)


def softmax_torch(torch: Any, x: Any, w: Any) -> Any:
    """Write it as PyTorch's users do."""
    return torch.sum(torch.softmax(x, dim=1) * w)


def softmax_jax(jnp: Any, x: Any, w: Any) -> Any:
    """Write it as JAX's users do."""
    jax = import_module("jax")

    return jnp.sum(jax.nn.softmax(x, axis=1) * w)


def softmax_by_hand(x: Any, w: Any) -> Any:
    """Give the value and the gradient by the formula."""
    p = x - np.max(x, axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= np.sum(p, axis=1, keepdims=True)
    pw = p * w
    rows = np.sum(pw, axis=1, keepdims=True)
    return np.sum(rows), (pw - p * rows,)


def softmax_data() -> Arrays:
    """Draw rows and weights."""
    draw = rng()
    return tuple(draw.normal(size=(4096, 1024)).astype("float32") for _ in range(2))


def layernorm(np: Any, x: Any, gamma: Any, beta: Any, w: Any) -> Any:
    """Weigh normalised rows."""
    centred = x - np.mean(x, axis=1, keepdims=True)
    variance = np.mean(centred**2, axis=1, keepdims=True)
    return np.sum((centred / np.sqrt(variance + 1e-5) * gamma + beta) * w)


def layernorm_torch(torch: Any, x: Any, gamma: Any, beta: Any, w: Any) -> Any:
    """Write it as PyTorch's users do."""
    normal = torch.nn.functional.layer_norm(x, x.shape[1:], gamma, beta, 1e-5)
    return torch.sum(normal * w)


def layernorm_by_hand(x: Any, gamma: Any, beta: Any, w: Any) -> Any:
    """Give the value and the gradient by the formula."""
    y = x - np.mean(x, axis=1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(y * y, axis=1, keepdims=True) + 1e-5)
    y *= scale
    value = np.sum((y * gamma + beta) * w)
    dy = w * gamma
    along = np.mean(dy * y, axis=1, keepdims=True)
    dx = (dy - np.mean(dy, axis=1, keepdims=True) - y * along) * scale
    return value, (dx, np.sum(y * w, axis=0), np.sum(w, axis=0))


def layernorm_data() -> Arrays:
    """Draw rows, scales, offsets and weights."""
    draw = rng()
    x, w = (draw.normal(size=(4096, 1024)).astype("float32") for _ in range(2))
    gamma, beta = (draw.normal(size=1024).astype("float32") for _ in range(2))
    return x, gamma, beta, w


def _seed(n: int, dtype: str, targets: tuple[float, float]) -> Workload:
    size = np.dtype(dtype).itemsize
    return Workload(
        f"seed {n:,} {dtype}",
        seed_data(n, dtype),
        seed,
        seed_by_hand,
        constants=(1,),
        hoisted=seed_hoisted,
        nbytes=3 * n * size,
        targets=targets,
        below_hand=n == 10,
        dtype=dtype,
    )


def _chain(n: int, targets: tuple[float, float]) -> Workload:
    return Workload(
        f"chain {n:,}", uniform(n), chain, chain_by_hand, nbytes=8 * n, loose=64, targets=targets
    )


FLOATS = ("float32", "float64")
_ALL = [
    *(_seed(10, dtype, (0.25, 1.0)) for dtype in FLOATS),
    *(_seed(1_000, dtype, (0.35, 0.7)) for dtype in FLOATS),
    *(_seed(1_000_000, dtype, (0.7, 0.8)) for dtype in FLOATS),
    _chain(1_000, (0.4, 1.5)),
    _chain(1_000_000, (0.3, 0.35)),
    _chain(10_000_000, (0.15, 0.2)),
    Workload(
        "chain-line 10,000,000",
        uniform(10_000_000),
        chain_line,
        chain_line_by_hand,
        nbytes=8 * 10_000_000,
        loose=16,
        targets=(0.5, 0.6),
    ),
    Workload(
        "scalar-loop",
        lambda: (0.9,),
        scalar_loop,
        scalar_loop_by_hand,
        loose=1e4,
        targets=(1.0, None),
        eager_target=0.2,
        dtype="float64",
    ),
    Workload(
        "mlp",
        mlp_data,
        mlp,
        mlp_by_hand,
        wrt=(2, 3, 4, 5, 6, 7),
        torch=mlp_torch,
        jax=mlp_jax,
        flops=mlp_flops(last=False),
        loose=16,
        targets=(0.8, 0.9),
    ),
    Workload(
        "mlp-last",
        mlp_data,
        mlp,
        mlp_last_by_hand,
        wrt=(6, 7),
        torch=mlp_torch,
        jax=mlp_jax,
        flops=mlp_flops(last=True),
        loose=16,
        targets=(0.7, 0.8),
    ),
    Workload(
        "softmax",
        softmax_data,
        softmax,
        softmax_by_hand,
        torch=softmax_torch,
        jax=softmax_jax,
        nbytes=3 * 4 * 4096 * 1024,
        loose=16,
        targets=(0.7, 0.8),
    ),
    Workload(
        "layernorm",
        layernorm_data,
        layernorm,
        layernorm_by_hand,
        wrt=(0, 1, 2),
        torch=layernorm_torch,
        nbytes=3 * 4 * 4096 * 1024,
        loose=64,
        targets=(0.7, 0.8),
    ),
]
#: By name.
WORKLOADS = {workload.name: workload for workload in _ALL}
