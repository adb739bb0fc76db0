"""The workloads of `peers.py`: those that the package has, and more.

See `cotan._src.bench.workloads`, which says how one is written.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from cotan._src.bench.workloads import (
    FLOATS,
    Arrays,
    Workload,
    cross_entropy_by_hand,
    mlp,
    mlp_by_hand,
    mlp_data,
    mlp_jax,
    mlp_torch,
    rng,
)
from cotan._src.bench.workloads import WORKLOADS as PACKAGED

__all__ = [
    "WORKLOADS",
    "Workload",
    "cross_entropy_by_hand",
    "mlp",
    "mlp_by_hand",
    "mlp_data",
    "mlp_jax",
    "mlp_torch",
]

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
    *(PACKAGED[f"seed {n} {d}"] for n in ("10", "1,000", "1,000,000") for d in FLOATS),
    *(PACKAGED[f"chain {n}"] for n in ("1,000", "1,000,000", "10,000,000")),
    PACKAGED["chain-line 10,000,000"],
    PACKAGED["scalar-loop"],
    PACKAGED["mlp"],
    PACKAGED["mlp-last"],
    _matmul("matmul", matmul, matmul_by_hand, "float32", 1, (1.0, 1.0)),
    _matmul("matmul", matmul, matmul_by_hand, "float64", 1, (0.85, 0.85)),
    _matmul("matmul-sq", matmul_sq, matmul_sq_by_hand, "float32", 3, (1.0, 1.0)),
    _matmul("matmul-sq", matmul_sq, matmul_sq_by_hand, "float64", 3, (0.85, 0.85)),
    PACKAGED["softmax"],
    PACKAGED["layernorm"],
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
