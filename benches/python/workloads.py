"""The workloads of `peers.py`: value and gradient of one scalar function each.

A workload says what a user of NumPy would write. `function(np, *arguments)` takes the namespace,
so that the same text serves cotan (with NumPy itself), HIPS autograd and JAX; where a peer has a
function of its own for it (a softmax, a convolution), `torch` or `jax` hold the form that its users
write. `by_hand` is the gradient that somebody would write in NumPy, and in float64 the reference.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Workload:
    """One function, its arguments, and the least that any machine has to do for it."""

    name: str
    data: Callable[[], Arrays]
    function: Callable
    by_hand: Callable[..., tuple[Any, Arrays]]
    wrt: tuple[int, ...] = (0,)
    constants: tuple[int, ...] = ()  # arguments that are the same in every call
    hoisted: Callable | None = None  # by hand, with what depends on constants alone computed before
    torch: Callable | None = None
    jax: Callable | None = None
    cotan: Callable | None = None
    autograd: Callable | None = None
    nbytes: int = 0  # read once and written once, beyond the last cache
    flops: int = 0  # in matrix products
    loose: float = 1.0  # factor on the tolerance
    targets: tuple[float | None, float | None] = (None, None)  # prepared, unmodified
    eager_target: float | None = None  # unmodified, against PyTorch (eager) alone
    below_hand: bool = False  # prepared has to be faster than NumPy by hand, too
    dtype: str = "float32"


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# seed: the function of the first example of the documentation


def seed(np, x, c):
    return np.sum(np.sin(x) * np.cos(c))


def seed_by_hand(x, c):
    cos_c = np.cos(c)
    return np.sum(np.sin(x) * cos_c), (np.cos(x) * cos_c,)


def seed_hoisted(x, c):
    cos_c = np.cos(c)
    return lambda: (np.sum(np.sin(x) * cos_c), (np.cos(x) * cos_c,))


def seed_data(n: int, dtype: str) -> Callable[[], Arrays]:
    def data() -> Arrays:
        draw = rng()
        return draw.uniform(-3, 3, n).astype(dtype), draw.uniform(-3, 3, n).astype(dtype)

    return data


# chain: 20 operations, nearly every intermediate is used twice


def chain(np, x):
    y = x
    for _ in range(5):
        a = np.sin(x)
        b = a * y
        x = x - b
        y = a + b
    return np.sum(x * y)


def chain_by_hand(x):
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


def chain_line(np, x):
    for _ in range(5):
        x = np.tanh(np.sin(x) * 1.1 + 0.1)
    return np.sum(x)


def chain_line_by_hand(x):
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
    return lambda: (rng().uniform(-1, 1, n).astype(dtype),)


# scalar-loop: 1,000 operations on a number


def scalar_loop(np, x):
    y = x
    for _ in range(250):
        y = np.sin(y) * x + y / 2.0
    return y


def scalar_loop_by_hand(x):
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


def mlp(np, x, labels, w1, b1, w2, b2, w3, b3):
    h = np.maximum(x @ w1 + b1, 0)
    h = np.maximum(h @ w2 + b2, 0)
    z = h @ w3 + b3
    z = z - np.max(z, axis=1, keepdims=True)
    logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(logp[np.arange(len(labels)), labels])


def mlp_torch(torch, x, labels, w1, b1, w2, b2, w3, b3):
    h = torch.relu(torch.addmm(b1, x, w1))
    h = torch.relu(torch.addmm(b2, h, w2))
    return torch.nn.functional.cross_entropy(torch.addmm(b3, h, w3), labels)


def mlp_jax(jnp, x, labels, w1, b1, w2, b2, w3, b3):
    import jax

    h = jax.nn.relu(x @ w1 + b1)
    h = jax.nn.relu(h @ w2 + b2)
    logp = jax.nn.log_softmax(h @ w3 + b3)
    return -jnp.mean(logp[jnp.arange(len(labels)), labels])


def cross_entropy_by_hand(z, labels):
    rows = np.arange(len(labels))
    z = z - np.max(z, axis=1, keepdims=True)
    e = np.exp(z)
    total = np.sum(e, axis=1, keepdims=True)
    value = np.mean(np.log(total[:, 0]) - z[rows, labels])
    dz = e / total
    dz[rows, labels] -= 1
    dz /= len(labels)
    return value, dz


def mlp_by_hand(x, labels, w1, b1, w2, b2, w3, b3):
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


def mlp_last_by_hand(x, labels, w1, b1, w2, b2, w3, b3):
    h1 = np.maximum(x @ w1 + b1, 0)
    h2 = np.maximum(h1 @ w2 + b2, 0)
    value, dz = cross_entropy_by_hand(h2 @ w3 + b3, labels)
    return value, (h2.T @ dz, dz.sum(0))


LAYERS = (784, 512, 512, 10)
BATCH = 128


def mlp_data() -> Arrays:
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
    sizes = [a * b for a, b in itertools.pairwise(LAYERS)]
    backward = sizes[-1] if last else sum(sizes) + sum(sizes[1:])
    return 2 * BATCH * (sum(sizes) + backward)


# matrix products


def matmul(np, a, b):
    return np.sum(a @ b)


def matmul_by_hand(a, b):
    # The gradients are sums of rows and of columns; the value is taken as the function says it.
    da = np.broadcast_to(b.sum(1), a.shape).copy()
    db = np.broadcast_to(a.sum(0)[:, None], b.shape).copy()
    return np.sum(a @ b), (da, db)


def matmul_sq(np, a, b):
    return np.sum((a @ b) ** 2)


def matmul_sq_by_hand(a, b):
    c = a @ b
    dc = 2 * c
    return np.sum(c * c), (dc @ b.T, a.T @ dc)


def matmul_data(n: int, dtype: str) -> Callable[[], Arrays]:
    def data() -> Arrays:
        draw = rng()
        return tuple(draw.normal(size=(n, n)).astype(dtype) for _ in range(2))

    return data


# softmax and layernorm: rows of 1024


def softmax(np, x, w):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum(e / np.sum(e, axis=1, keepdims=True) * w)


def softmax_torch(torch, x, w):
    return torch.sum(torch.softmax(x, dim=1) * w)


def softmax_jax(jnp, x, w):
    import jax

    return jnp.sum(jax.nn.softmax(x, axis=1) * w)


def softmax_by_hand(x, w):
    p = x - np.max(x, axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= np.sum(p, axis=1, keepdims=True)
    pw = p * w
    rows = np.sum(pw, axis=1, keepdims=True)
    return np.sum(rows), (pw - p * rows,)


def softmax_data() -> Arrays:
    draw = rng()
    return tuple(draw.normal(size=(4096, 1024)).astype("float32") for _ in range(2))


def layernorm(np, x, gamma, beta, w):
    centred = x - np.mean(x, axis=1, keepdims=True)
    variance = np.mean(centred**2, axis=1, keepdims=True)
    return np.sum((centred / np.sqrt(variance + 1e-5) * gamma + beta) * w)


def layernorm_torch(torch, x, gamma, beta, w):
    normal = torch.nn.functional.layer_norm(x, x.shape[1:], gamma, beta, 1e-5)
    return torch.sum(normal * w)


def layernorm_by_hand(x, gamma, beta, w):
    y = x - np.mean(x, axis=1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(y * y, axis=1, keepdims=True) + 1e-5)
    y *= scale
    value = np.sum((y * gamma + beta) * w)
    dy = w * gamma
    along = np.mean(dy * y, axis=1, keepdims=True)
    dx = (dy - np.mean(dy, axis=1, keepdims=True) - y * along) * scale
    return value, (dx, np.sum(y * w, axis=0), np.sum(w, axis=0))


def layernorm_data() -> Arrays:
    draw = rng()
    x, w = (draw.normal(size=(4096, 1024)).astype("float32") for _ in range(2))
    gamma, beta = (draw.normal(size=1024).astype("float32") for _ in range(2))
    return x, gamma, beta, w


# conv: 3-32-64 channels, 3×3, ReLU, pooled by 2 twice, one dense layer; 32 images of 32×32


def conv_cotan(np, x, labels, k1, b1, k2, b2, w3, b3):
    import cotan as ct

    h = np.maximum(ct.conv(x, k1, padding=1) + b1[:, None, None], 0)
    h = ct.max_pool(h, 2)
    h = np.maximum(ct.conv(h, k2, padding=1) + b2[:, None, None], 0)
    h = ct.max_pool(h, 2)
    z = h.reshape(len(labels), -1) @ w3 + b3
    z = z - np.max(z, axis=1, keepdims=True)
    logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(logp[np.arange(len(labels)), labels])


def conv_torch(torch, x, labels, k1, b1, k2, b2, w3, b3):
    functional = torch.nn.functional
    h = functional.max_pool2d(torch.relu(functional.conv2d(x, k1, b1, padding=1)), 2)
    h = functional.max_pool2d(torch.relu(functional.conv2d(h, k2, b2, padding=1)), 2)
    return functional.cross_entropy(torch.addmm(b3, h.flatten(1), w3), labels)


def conv_jax(jnp, x, labels, k1, b1, k2, b2, w3, b3):
    import jax

    def layer(x, k, b):
        h = jax.lax.conv_general_dilated(x, k, (1, 1), "SAME") + b[:, None, None]
        return jax.lax.reduce_window(
            jax.nn.relu(h), -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
        )

    h = layer(layer(x, k1, b1), k2, b2)
    logp = jax.nn.log_softmax(h.reshape(len(labels), -1) @ w3 + b3)
    return -jnp.mean(logp[jnp.arange(len(labels)), labels])


def conv_autograd(np, x, labels, k1, b1, k2, b2, w3, b3):
    from autograd.scipy.signal import convolve

    def layer(x, k, b):
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "constant")
        # convolve turns its kernel round; the function is a correlation
        turned = k[:, :, ::-1, ::-1]
        h = convolve(padded, turned, axes=([2, 3], [2, 3]), dot_axes=([1], [1]), mode="valid")
        h = np.maximum(h + b[:, None, None], 0)
        n, c, height, width = h.shape
        return np.max(np.reshape(h, (n, c, height // 2, 2, width // 2, 2)), axis=(3, 5))

    h = layer(layer(x, k1, b1), k2, b2)
    z = np.reshape(h, (len(labels), -1)) @ w3 + b3
    z = z - np.max(z, axis=1, keepdims=True)
    logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(logp[np.arange(len(labels)), labels])


def patches(x):
    """3×3 patches of the padded images, as rows: (N·H·W, C·9)."""
    n, c, height, width = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * height * width, c * 9)


def conv_layer_by_hand(x, k, b):
    n, _, height, width = x.shape
    rows = patches(x)
    h = rows @ k.reshape(len(k), -1).T + b
    h = np.maximum(h, 0, out=h).reshape(n, height // 2, 2, width // 2, 2, len(k))
    pooled = h.max(axis=(2, 4))
    return pooled.transpose(0, 3, 1, 2), (rows, h, pooled, k)


def conv_layer_back(dpooled, kept, wants_x):
    rows, h, pooled, k = kept
    n, height, _, width, _, out = h.shape
    up = dpooled.transpose(0, 2, 3, 1)[:, :, None, :, None, :]
    dh = np.where((h == pooled[:, :, None, :, None, :]) & (h > 0), up, 0).reshape(-1, out)
    dk = (dh.T @ rows).reshape(k.shape)
    if not wants_x:
        return dk, dh.sum(0), None
    images = dh.reshape(n, height * 2, width * 2, out).transpose(0, 3, 1, 2)
    turned = k[:, :, ::-1, ::-1].transpose(1, 0, 2, 3).reshape(k.shape[1], -1)
    dx = (patches(images) @ turned.T).reshape(n, height * 2, width * 2, -1).transpose(0, 3, 1, 2)
    return dk, dh.sum(0), dx


def conv_by_hand(x, labels, k1, b1, k2, b2, w3, b3):
    h1, kept1 = conv_layer_by_hand(x, k1, b1)
    h2, kept2 = conv_layer_by_hand(h1, k2, b2)
    flat = h2.reshape(len(labels), -1)
    value, dz = cross_entropy_by_hand(flat @ w3 + b3, labels)
    dk2, db2, dh1 = conv_layer_back((dz @ w3.T).reshape(h2.shape), kept2, True)
    dk1, db1, _ = conv_layer_back(dh1, kept1, False)
    return value, (dk1, db1, dk2, db2, flat.T @ dz, dz.sum(0))


CHANNELS = (3, 32, 64)
IMAGE, IMAGES = 32, 32


def conv_data() -> Arrays:
    draw = rng()
    arrays: list[Any] = [
        draw.normal(size=(IMAGES, CHANNELS[0], IMAGE, IMAGE)).astype("float32"),
        draw.integers(0, 10, IMAGES),
    ]
    for before, after in itertools.pairwise(CHANNELS):
        kernel = draw.normal(size=(after, before, 3, 3)) / (9 * before) ** 0.5
        arrays.append(kernel.astype("float32"))
        arrays.append((draw.normal(size=after) / 10).astype("float32"))
    flat = CHANNELS[-1] * (IMAGE // 4) ** 2
    arrays.append((draw.normal(size=(flat, 10)) / flat**0.5).astype("float32"))
    arrays.append((draw.normal(size=10) / 10).astype("float32"))
    return tuple(arrays)


def conv_flops() -> int:
    first = IMAGE**2 * CHANNELS[0] * CHANNELS[1] * 9
    second = (IMAGE // 2) ** 2 * CHANNELS[1] * CHANNELS[2] * 9
    dense = CHANNELS[-1] * (IMAGE // 4) ** 2 * 10
    return 2 * IMAGES * (2 * first + 3 * second + 3 * dense)


# deep: 100 steps of a cheap map, a million elements


STEPS, EVERY = 100, 10


def step(x, c):
    return x + c * x * (1 - x)


def deep(np, x, c):
    for _ in range(STEPS):
        x = step(x, c)
    return np.sum(x)


def deep_by_hand(x, c):
    kept = []
    for _ in range(STEPS):
        kept.append(x)
        x = x + c * x * (1 - x)
    value = np.sum(x)
    dx = np.ones_like(x)
    for x in reversed(kept):
        dx = dx * (1 + c * (1 - 2 * x))
    return value, (dx,)


def some_steps(x, c):
    for _ in range(EVERY):
        x = step(x, c)
    return x


def deep_ckpt_cotan(np, x, c):
    import cotan as ct

    for _ in range(STEPS // EVERY):
        x = ct.checkpoint(some_steps, x, c)
    return np.sum(x)


def deep_ckpt_jax(jnp, x, c):
    import jax

    saved = jax.checkpoint(some_steps)
    for _ in range(STEPS // EVERY):
        x = saved(x, c)
    return jnp.sum(x)


def deep_ckpt_torch(torch, x, c):
    from torch.utils.checkpoint import checkpoint

    for _ in range(STEPS // EVERY):
        x = checkpoint(some_steps, x, c, use_reentrant=False)
    return torch.sum(x)


def deep_ckpt_autograd(np, x, c):
    import autograd

    saved = autograd.checkpoint(some_steps)
    for _ in range(STEPS // EVERY):
        x = saved(x, c)
    return np.sum(x)


def some_steps_back(x, c, dx):
    kept = []
    for _ in range(EVERY):
        kept.append(x)
        x = x + c * x * (1 - x)
    for x in reversed(kept):
        dx = dx * (1 + c * (1 - 2 * x))
    return dx


def deep_ckpt_by_hand(x, c):
    saved = []
    for _ in range(STEPS // EVERY):
        saved.append(x)
        x = some_steps(x, c)
    value = np.sum(x)
    dx = np.ones_like(x)
    for x in reversed(saved):
        dx = some_steps_back(x, c, dx)
    return value, (dx,)


def deep_data() -> Arrays:
    return rng().uniform(0, 1, 1_000_000).astype("float32"), np.float32(0.01)


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


def _matmul(name, function, by_hand, dtype, products, targets) -> Workload:
    return Workload(
        f"{name} {dtype}",
        matmul_data(1024, dtype),
        function,
        by_hand,
        wrt=(0, 1),
        flops=products * 2 * 1024**3,
        loose=16,
        targets=targets,
        dtype=dtype,
    )


WORKLOADS = [
    *(_seed(10, dtype, (0.25, 1.0)) for dtype in ("float32", "float64")),
    *(_seed(1_000, dtype, (0.35, 0.7)) for dtype in ("float32", "float64")),
    *(_seed(1_000_000, dtype, (0.7, 0.8)) for dtype in ("float32", "float64")),
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
    _matmul("matmul", matmul, matmul_by_hand, "float32", 1, (1.0, 1.0)),
    _matmul("matmul", matmul, matmul_by_hand, "float64", 1, (0.85, 0.85)),
    _matmul("matmul-sq", matmul_sq, matmul_sq_by_hand, "float32", 3, (1.0, 1.0)),
    _matmul("matmul-sq", matmul_sq, matmul_sq_by_hand, "float64", 3, (0.85, 0.85)),
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
    Workload(
        "conv",
        conv_data,
        conv_cotan,
        conv_by_hand,
        wrt=(2, 3, 4, 5, 6, 7),
        torch=conv_torch,
        jax=conv_jax,
        autograd=conv_autograd,
        flops=conv_flops(),
        loose=64,
        targets=(1.0, 1.1),
    ),
    Workload(
        "deep",
        deep_data,
        deep,
        deep_by_hand,
        constants=(1,),
        nbytes=8 * 1_000_000,
        loose=64,
        targets=(0.5, 0.5),
    ),
    Workload(
        "deep-ckpt",
        deep_data,
        deep_ckpt_cotan,
        deep_ckpt_by_hand,
        constants=(1,),
        torch=deep_ckpt_torch,
        jax=deep_ckpt_jax,
        autograd=deep_ckpt_autograd,
        nbytes=8 * 1_000_000,
        loose=64,
        targets=(0.5, 0.5),
    ),
]
