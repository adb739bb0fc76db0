"""Initializers: random weights whose scale keeps the variance of what passes through a layer."""

import math
from collections.abc import Sequence

import numpy as np

from cotan._src.random.continuous import normal, truncated_normal, uniform
from cotan._src.random.keys import Key
from cotan._src.typing import AnyArray, DTypeLike

# The standard deviation of the standard normal distribution between -2 and 2.
_TRUNCATED = 0.87962566103423978


def variance_scaling(
    key: Key,
    shape: Sequence[int],
    scale: float = 1.0,
    mode: str = "fan_in",
    distribution: str = "truncated_normal",
    dtype: DTypeLike = np.float64,
    *,
    in_axis: int = -2,
    out_axis: int = -1,
) -> AnyArray:
    """Draw weights with the variance `scale / n`, where n counts inputs, outputs or their mean.

    The initializers that have names are cases of this one.

    Parameters
    ----------
    key
        A single key.
    shape
        Of the weights, two axes at least.
    scale
        A positive number.
    mode
        What n is: `"fan_in"`, `"fan_out"` or `"fan_avg"`.
    distribution
        `"normal"`, `"truncated_normal"` (at two standard deviations) or `"uniform"`.
    dtype
        float16, float32 or float64.
    in_axis, out_axis
        The axes of inputs and outputs. All others are places of a kernel, which count for both.
        The defaults fit `x @ w`; kernels of `ct.conv` have `in_axis=1, out_axis=0`.

    Returns
    -------
    ndarray
        Of `shape` and `dtype`; an `Array` where a function is recorded.

    Raises
    ------
    ValueError
        When there are fewer than two axes, `scale` is not positive, or there is no such mode or
        distribution.

    >>> import cotan as ct
    >>> w = ct.nn.variance_scaling(ct.random.key(0), (400, 300))
    >>> w.shape, round(float(w.var() * 400), 1)
    ((400, 300), 1.0)
    """
    shape = tuple(shape)
    inputs, outputs = _fans(shape, in_axis, out_axis)
    counts = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}
    if mode not in counts:
        raise ValueError(f"variance_scaling: mode must be one of {list(counts)}, not {mode!r}")
    if not scale > 0:
        raise ValueError(f"variance_scaling: scale must be positive, not {scale}")
    deviation = math.sqrt(scale / max(counts[mode], 1))
    if distribution == "normal":
        return normal(key, shape, dtype, scale=deviation)
    if distribution == "truncated_normal":
        drawn = truncated_normal(key, -2.0, 2.0, shape, dtype)
        # A Python number keeps the dtype.
        return drawn * (deviation / _TRUNCATED)
    if distribution == "uniform":
        end = math.sqrt(3) * deviation
        return uniform(key, shape, dtype, -end, end)
    raise ValueError(
        "variance_scaling: distribution must be 'normal', 'truncated_normal' or 'uniform', not "
        f"{distribution!r}"
    )


def _fans(shape: Sequence[int], in_axis: int, out_axis: int) -> tuple[float, float]:
    if len(shape) < 2:
        raise ValueError(
            f"initializer: weights have two axes at least, for inputs and outputs, not {shape}"
        )
    size, ins, outs = math.prod(shape), shape[in_axis], shape[out_axis]
    places = size / (ins * outs) if size else 1
    return ins * places, outs * places


def glorot_uniform(
    key: Key,
    shape: Sequence[int],
    dtype: DTypeLike = np.float64,
    *,
    in_axis: int = -2,
    out_axis: int = -1,
) -> AnyArray:
    """Draw weights for layers with tanh, evenly distributed; also called Xavier's.

    Parameters, result and errors are those of `variance_scaling`. Source: Glorot and Bengio,
    Understanding the difficulty of training deep feedforward neural networks (2010).

    >>> import cotan as ct
    >>> ct.nn.glorot_uniform(ct.random.key(0), (3, 4)).shape
    (3, 4)
    """
    return variance_scaling(
        key, shape, 1.0, "fan_avg", "uniform", dtype, in_axis=in_axis, out_axis=out_axis
    )


def glorot_normal(
    key: Key,
    shape: Sequence[int],
    dtype: DTypeLike = np.float64,
    *,
    in_axis: int = -2,
    out_axis: int = -1,
) -> AnyArray:
    """Draw weights as `glorot_uniform` does, normally distributed.

    Parameters, result and errors are those of `variance_scaling`.

    >>> import cotan as ct
    >>> ct.nn.glorot_normal(ct.random.key(0), (3, 4)).shape
    (3, 4)
    """
    return variance_scaling(
        key, shape, 1.0, "fan_avg", "normal", dtype, in_axis=in_axis, out_axis=out_axis
    )


def he_uniform(
    key: Key,
    shape: Sequence[int],
    dtype: DTypeLike = np.float64,
    *,
    in_axis: int = -2,
    out_axis: int = -1,
) -> AnyArray:
    """Draw weights for layers with relu, evenly distributed; also called Kaiming's.

    Parameters, result and errors are those of `variance_scaling`. Source: He, Zhang, Ren and Sun,
    Delving deep into rectifiers (2015).

    >>> import cotan as ct
    >>> ct.nn.he_uniform(ct.random.key(0), (3, 4)).shape
    (3, 4)
    """
    return variance_scaling(
        key, shape, 2.0, "fan_in", "uniform", dtype, in_axis=in_axis, out_axis=out_axis
    )


def he_normal(
    key: Key,
    shape: Sequence[int],
    dtype: DTypeLike = np.float64,
    *,
    in_axis: int = -2,
    out_axis: int = -1,
) -> AnyArray:
    """Draw weights as `he_uniform` does, normally distributed.

    Parameters, result and errors are those of `variance_scaling`.

    >>> import cotan as ct
    >>> ct.nn.he_normal(ct.random.key(0), (8, 3, 5, 5), in_axis=1, out_axis=0).shape
    (8, 3, 5, 5)
    """
    return variance_scaling(
        key, shape, 2.0, "fan_in", "normal", dtype, in_axis=in_axis, out_axis=out_axis
    )


def lecun_uniform(
    key: Key,
    shape: Sequence[int],
    dtype: DTypeLike = np.float64,
    *,
    in_axis: int = -2,
    out_axis: int = -1,
) -> AnyArray:
    """Draw weights that keep the variance of their inputs, evenly distributed.

    Parameters, result and errors are those of `variance_scaling`. Source: LeCun, Bottou, Orr and
    Müller, Efficient backprop (1998).

    >>> import cotan as ct
    >>> ct.nn.lecun_uniform(ct.random.key(0), (3, 4)).shape
    (3, 4)
    """
    return variance_scaling(
        key, shape, 1.0, "fan_in", "uniform", dtype, in_axis=in_axis, out_axis=out_axis
    )


def lecun_normal(
    key: Key,
    shape: Sequence[int],
    dtype: DTypeLike = np.float64,
    *,
    in_axis: int = -2,
    out_axis: int = -1,
) -> AnyArray:
    """Draw weights as `lecun_uniform` does, normally distributed.

    Parameters, result and errors are those of `variance_scaling`.

    >>> import cotan as ct
    >>> ct.nn.lecun_normal(ct.random.key(0), (3, 4)).shape
    (3, 4)
    """
    return variance_scaling(
        key, shape, 1.0, "fan_in", "normal", dtype, in_axis=in_axis, out_axis=out_axis
    )


def orthogonal(
    key: Key, shape: Sequence[int], gain: float = 1.0, dtype: DTypeLike = np.float64
) -> AnyArray:
    """Draw a matrix with orthonormal columns, or rows where there are fewer of them.

    Parameters
    ----------
    key
        A single key.
    shape
        Two axes at least; those before the last count as one.
    gain
        What the matrix is multiplied with.
    dtype
        float16, float32 or float64.

    Returns
    -------
    ndarray
        Of `shape` and `dtype`, evenly distributed over all such matrices; as for
        `variance_scaling`.

    Raises
    ------
    ValueError
        When there are fewer than two axes.

    Source: Saxe, McClelland and Ganguli, Exact solutions to the nonlinear dynamics of learning in
    deep linear neural networks (2014); Mezzadri, How to generate random matrices from the classical
    compact groups (2007).

    >>> import cotan as ct
    >>> import numpy as np
    >>> q = ct.nn.orthogonal(ct.random.key(0), (4, 3))
    >>> np.allclose(q.T @ q, np.eye(3))
    True
    """
    shape = tuple(shape)
    if len(shape) < 2:
        raise ValueError(f"orthogonal: weights have two axes at least, not {shape}")
    rows, columns = math.prod(shape[:-1]), shape[-1]
    drawn = normal(key, (max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    # The signs are arbitrary; a positive diagonal makes the decomposition unique.
    q = q * np.sign(np.diagonal(r))
    made = (q.T if rows < columns else q).reshape(shape) * gain
    orthonormal: AnyArray = made.astype(dtype)
    return orthonormal
