"""Pieces of networks: activations, losses, normalization, attention, dropout and initializers.

All are functions without state: weights are arguments, and random numbers come from keys. What
`cotan` has by itself (`conv`, `max_pool`, `relu`, `sigmoid`, ...) is here, too.

>>> import cotan as ct
>>> import numpy as np
>>> def network(params, x):
...     hidden = ct.nn.gelu(x @ params["w1"])
...     return ct.nn.layer_norm(hidden) @ params["w2"]
>>> k1, k2 = ct.random.split(ct.random.key(0))
>>> params = {"w1": ct.nn.he_normal(k1, (4, 8)), "w2": ct.nn.glorot_uniform(k2, (8, 3))}
>>> x, labels = np.ones((2, 4)), np.array([0, 2])
>>> loss = lambda p: ct.nn.cross_entropy(network(p, x), labels)
>>> ct.grad(loss)(params)["w2"].shape
(8, 3)
"""

from cotan._core import relu, sigmoid, softplus, tanh
from cotan._src.api.convolution import avg_pool, conv, conv_transpose, max_pool
from cotan._src.nn.activations import (
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    selu,
    silu,
    softmax,
)
from cotan._src.nn.attention import dot_product_attention, multi_head_attention
from cotan._src.nn.initializers import (
    glorot_normal,
    glorot_uniform,
    he_normal,
    he_uniform,
    lecun_normal,
    lecun_uniform,
    orthogonal,
    variance_scaling,
)
from cotan._src.nn.losses import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber,
    mse,
    one_hot,
)
from cotan._src.nn.normalization import batch_norm, group_norm, layer_norm, rms_norm
from cotan._src.nn.sampling import dropout, embedding

#: The name by which `silu` was published first.
swish = silu

__all__ = [
    "avg_pool",
    "batch_norm",
    "binary_cross_entropy_with_logits",
    "conv",
    "conv_transpose",
    "cross_entropy",
    "dot_product_attention",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "glorot_normal",
    "glorot_uniform",
    "group_norm",
    "he_normal",
    "he_uniform",
    "huber",
    "layer_norm",
    "leaky_relu",
    "lecun_normal",
    "lecun_uniform",
    "log_softmax",
    "max_pool",
    "mse",
    "multi_head_attention",
    "one_hot",
    "orthogonal",
    "relu",
    "rms_norm",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "swish",
    "tanh",
    "variance_scaling",
]
