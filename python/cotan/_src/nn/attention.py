"""Attention: each query takes a mean of values, weighted by how well their keys fit."""

import math
import operator

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.nn.activations import softmax
from cotan._src.nn.arguments import expect_broadcast, floating, rounded
from cotan._src.nn.sampling import dropout
from cotan._src.random.keys import Key
from cotan._src.typing import ArrayLike


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_rate: float = 0.0,
    dropout_key: Key | None = None,
) -> Array:
    """Give `softmax(query @ keyᵀ * scale + bias) @ value`.

    Parameters
    ----------
    query
        Of shape `(..., n, features)`.
    key
        Of shape `(..., m, features)`.
    value
        Of shape `(..., m, results)`. The axes before the last two broadcast.
    mask
        Bools that broadcast to `(..., n, m)`: where a query may see a key. A query that sees none
        gives 0.
    bias
        Numbers that broadcast to `(..., n, m)`, added before the softmax.
    is_causal
        Whether query i sees the keys 0 to i only.
    scale
        `1 / sqrt(features)` by default.
    dropout_rate, dropout_key
        As for `dropout`, of the weights; without a key nothing is dropped.

    Returns
    -------
    Array
        Of shape `(..., n, results)` and the common dtype of query, key and value; float16 is
        computed in float32.

    Raises
    ------
    TypeError
        When the mask is not of dtype bool, or an argument is complex.
    ValueError
        When shapes do not fit, or there is a rate without a key.

    Source: Vaswani and others, Attention is all you need (2017).

    >>> import cotan as ct
    >>> import numpy as np
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> ct.nn.dot_product_attention(x, x, x, is_causal=True).round(4)
    Array([[1.    , 0.    ],
           [0.3302, 0.6698]])
    """
    name = "dot_product_attention"
    (q, k, v), dtype = floating(name, query, key, value)
    _expect_fitting(name, q, k, v)
    if dropout_rate and dropout_key is None:
        raise ValueError(f"{name}: dropout_rate={dropout_rate} needs a dropout_key")
    n, features = q.shape[-2:]
    m = k.shape[-2]
    scale = 1 / math.sqrt(features) if scale is None else scale
    scores = _core.matmul(q * scale, k.swapaxes(-1, -2))
    if bias is not None:
        added = _core.asarray(bias)
        expect_broadcast(name, "bias", added, scores.shape)
        scores = scores + _core.cast(added, scores.dtype)
    allowed: Array | None = None
    if mask is not None:
        allowed = _core.asarray(mask)
        if allowed.dtype != np.bool_:
            raise TypeError(
                f"{name}: mask must be of dtype bool, not {allowed.dtype}; numbers to add are bias="
            )
        expect_broadcast(name, "mask", allowed, scores.shape)
    if is_causal:
        below = _core.asarray(np.tri(n, m, dtype=np.bool_))
        allowed = below if allowed is None else _core.logical_and(allowed, below)
    weights = softmax(scores, where=allowed)
    if dropout_rate and dropout_key is not None:
        weights = dropout(dropout_key, weights, dropout_rate)
    return rounded(_core.matmul(weights, v), dtype)


def _expect_fitting(name: str, q: Array, k: Array, v: Array) -> None:
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ValueError(
            f"{name}: query, key and value have two axes at least, not the shapes {q.shape}, "
            f"{k.shape} and {v.shape}"
        )
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"{name}: query {q.shape} and key {k.shape} must agree in the last axis, key and value "
            f"{v.shape} in the last but one"
        )


def multi_head_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    w_query: ArrayLike,
    w_key: ArrayLike,
    w_value: ArrayLike,
    w_out: ArrayLike,
    *,
    num_heads: int,
    b_query: ArrayLike | None = None,
    b_key: ArrayLike | None = None,
    b_value: ArrayLike | None = None,
    b_out: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    is_causal: bool = False,
    dropout_rate: float = 0.0,
    dropout_key: Key | None = None,
) -> Array:
    """Attend with several heads, each on its part of projected features.

    Parameters
    ----------
    query, key, value
        Of shape `(..., n, features)`, key and value `(..., m, features)`.
    w_query, w_key, w_value, w_out
        Matrices that arrays are multiplied with from the right. The numbers of columns of the first
        three are multiples of `num_heads`; head h has the h-th part of the columns.
    num_heads
        How many heads.
    b_query, b_key, b_value, b_out
        Biases, added to the products; none for 0.
    mask, is_causal, dropout_rate, dropout_key
        As for `dot_product_attention`; a mask broadcasts to `(..., num_heads, n, m)`.

    Returns
    -------
    Array
        Of shape `(..., n, columns of w_out)` and the common dtype of arrays and matrices.

    Raises
    ------
    ValueError
        When shapes do not fit.

    >>> import cotan as ct
    >>> import numpy as np
    >>> x, w = np.ones((5, 4)), np.eye(4)
    >>> ct.nn.multi_head_attention(x, x, x, w, w, w, w, num_heads=2).shape
    (5, 4)
    """
    name = "multi_head_attention"
    num_heads = operator.index(num_heads)
    arrays = (query, key, value, w_query, w_key, w_value, w_out)
    (q, k, v, w_q, w_k, w_v, w_o), dtype = floating(name, *arrays)
    heads = [
        _heads(name, what, x, w, b, num_heads)
        for what, x, w, b in (
            ("query", q, w_q, b_query),
            ("key", k, w_k, b_key),
            ("value", v, w_v, b_value),
        )
    ]
    mixed = dot_product_attention(
        *heads,
        mask=mask,
        is_causal=is_causal,
        dropout_rate=dropout_rate,
        dropout_key=dropout_key,
    )
    joined = mixed.swapaxes(-2, -3)
    joined = joined.reshape((*joined.shape[:-2], joined.shape[-2] * joined.shape[-1]))
    return rounded(_projected(name, "out", joined, w_o, b_out), dtype)


def _heads(name: str, what: str, x: Array, w: Array, b: ArrayLike | None, num_heads: int) -> Array:
    """Project an array, and cut its features into heads: `(..., heads, n, features)`."""
    y = _projected(name, what, x, w, b)
    columns = y.shape[-1]
    if num_heads < 1 or columns % num_heads:
        raise ValueError(
            f"{name}: num_heads={num_heads} does not divide the {columns} columns of w_{what}"
        )
    return y.reshape((*y.shape[:-1], num_heads, columns // num_heads)).swapaxes(-2, -3)


def _projected(name: str, what: str, x: Array, w: Array, b: ArrayLike | None) -> Array:
    if x.ndim < 2 or w.ndim != 2 or x.shape[-1] != w.shape[0]:
        raise ValueError(
            f"{name}: {what} of shape {x.shape} does not fit w_{what} of shape {w.shape}"
        )
    y = _core.matmul(x, w)
    if b is None:
        return y
    added = _core.asarray(b)
    expect_broadcast(name, f"b_{what}", added, y.shape)
    return y + _core.cast(added, y.dtype)
