"""Draws from continuous distributions, as functions of a key and of parameters.

They move continuously with the parameters, so they are differentiated with respect to them.
"""

import math

import numpy as np

from cotan import _core
from cotan._src.random.keys import Key, single
from cotan._src.random.standard import (
    ShapeLike,
    named,
    normalized_shape,
    open_unit,
    parameter,
    presented,
    real_dtype,
    signed_unit,
    standard_gumbel,
    standard_normal,
    unit,
    wide_dtype,
)
from cotan._src.runtime.values import is_known
from cotan._src.typing import AnyArray, ArrayLike, DTypeLike


def uniform(
    key: Key,
    shape: ShapeLike = (),
    dtype: DTypeLike = np.float64,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> AnyArray:
    """Draw from the uniform distribution on `[minval, maxval)`.

    Parameters
    ----------
    key
        A single key.
    shape
        Shape of the result.
    dtype
        float16, float32 or float64.
    minval, maxval
        The bounds: arrays that broadcast to `shape`, differentiable.

    Returns
    -------
    ndarray
        Of `shape` and `dtype`; an `Array` where a function is recorded, or an argument is one.

    Raises
    ------
    TypeError
        When the first argument is no key, or the dtype is not real.
    ValueError
        When `key` is an array of keys, or a parameter does not broadcast to `shape`.

    >>> import cotan as ct
    >>> ct.random.uniform(ct.random.key(0), (2,), minval=-1.0)
    array([-0.97690649, -0.51690161])
    """
    shape, real = normalized_shape(shape), real_dtype("uniform", dtype)
    low, high = (parameter("uniform", n, v, shape) for n, v in named(minval=minval, maxval=maxval))
    share = unit(single("uniform", key), shape, real)
    return presented(_core.cast(low + (high - low) * share, real), key, minval, maxval)


def normal(
    key: Key,
    shape: ShapeLike = (),
    dtype: DTypeLike = np.float64,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> AnyArray:
    """Draw from the normal distribution, by the inverse of its distribution function.

    Parameters, result and errors are those of `uniform`, with `loc` and `scale` for the mean and
    the standard deviation.

    >>> import cotan as ct
    >>> ct.random.normal(ct.random.key(0), (2,))
    array([-2.27188415, -0.70132792])
    >>> key = ct.random.key(0)
    >>> ct.gradient(lambda m, s: ct.random.normal(key, loc=m, scale=s), 0.0, 1.0)
    (1.0, -2.271884148324594)
    """
    shape, real = normalized_shape(shape), real_dtype("normal", dtype)
    loc_, scale_ = (parameter("normal", n, v, shape) for n, v in named(loc=loc, scale=scale))
    standard = standard_normal(single("normal", key), shape, real)
    return presented(_core.cast(loc_ + scale_ * standard, real), key, loc, scale)


def truncated_normal(
    key: Key,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike = np.float64,
) -> AnyArray:
    """Draw from the standard normal distribution, restricted to `[lower, upper]`.

    By the inverse of its distribution function, computed in float64.

    Parameters
    ----------
    key
        A single key.
    lower, upper
        The bounds, arrays that broadcast to `shape`, differentiable.
    shape, dtype
        As for `uniform`.

    Returns
    -------
    ndarray
        As for `uniform`.

    Raises
    ------
    ValueError
        As for `uniform`, and when the probability of the interval is below 1e-10: in float64 the
        distribution function does not resolve it.

    >>> import cotan as ct
    >>> ct.random.truncated_normal(ct.random.key(0), -2.0, 2.0, (2,))
    array([-1.82804358, -0.66411368])
    """
    name = "truncated_normal"
    shape, real = normalized_shape(shape), real_dtype(name, dtype)
    low, high = (
        _core.cast(parameter(name, n, v, shape), np.float64)
        for n, v in named(lower=lower, upper=upper)
    )
    below, above = (_core.erf(bound * math.sqrt(0.5)) for bound in (low, high))
    if all(map(is_known, (below, above))):
        weight = _core.value(above) - _core.value(below)
        if not np.all(weight > 2e-10):
            raise ValueError(
                f"{name}: an interval has the probability {np.min(weight) / 2:.2g}; lower must be "
                "less than upper, and the interval must not lie too far out in a tail"
            )
    share = open_unit(single(name, key), shape, np.dtype(np.float64))
    drawn = math.sqrt(2) * _core.erfinv(below + (above - below) * share)
    # Rounding may lead out of the interval.
    drawn = _core.minimum(_core.maximum(drawn, _core.dropgrad(low)), _core.dropgrad(high))
    return presented(_core.cast(drawn, real), key, lower, upper)


def exponential(
    key: Key, shape: ShapeLike = (), dtype: DTypeLike = np.float64, scale: ArrayLike = 1.0
) -> AnyArray:
    """Draw from the exponential distribution with the mean `scale`.

    Parameters, result and errors are those of `uniform`.

    >>> import cotan as ct
    >>> ct.random.exponential(ct.random.key(0), (2,))
    array([0.01161394, 0.27647734])
    """
    shape, real = normalized_shape(shape), real_dtype("exponential", dtype)
    factor = parameter("exponential", "scale", scale, shape)
    drawn = -factor * _core.log1p(-unit(single("exponential", key), shape, wide_dtype(real)))
    return presented(_core.cast(drawn, real), key, scale)


def gumbel(
    key: Key,
    shape: ShapeLike = (),
    dtype: DTypeLike = np.float64,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> AnyArray:
    """Draw from the Gumbel distribution: that of the maximum of many numbers.

    Parameters, result and errors are those of `normal`.

    >>> import cotan as ct
    >>> ct.random.gumbel(ct.random.key(0), (2,))
    array([-1.49545161, -0.35113712])
    """
    shape, real = normalized_shape(shape), real_dtype("gumbel", dtype)
    loc_, scale_ = (parameter("gumbel", n, v, shape) for n, v in named(loc=loc, scale=scale))
    drawn = loc_ + scale_ * standard_gumbel(single("gumbel", key), shape, real)
    return presented(_core.cast(drawn, real), key, loc, scale)


def laplace(
    key: Key,
    shape: ShapeLike = (),
    dtype: DTypeLike = np.float64,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> AnyArray:
    """Draw from the Laplace distribution: an exponential one on either side of `loc`.

    Parameters, result and errors are those of `normal`.

    >>> import cotan as ct
    >>> ct.random.laplace(ct.random.key(0), (2,))
    array([-3.76820372, -0.72753493])
    """
    shape, real = normalized_shape(shape), real_dtype("laplace", dtype)
    loc_, scale_ = (parameter("laplace", n, v, shape) for n, v in named(loc=loc, scale=scale))
    signed = signed_unit(single("laplace", key), shape, wide_dtype(real))
    drawn = loc_ - scale_ * _core.sign(signed) * _core.log1p(-_core.abs(signed))
    return presented(_core.cast(drawn, real), key, loc, scale)


def logistic(
    key: Key,
    shape: ShapeLike = (),
    dtype: DTypeLike = np.float64,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> AnyArray:
    """Draw from the logistic distribution.

    Parameters, result and errors are those of `normal`.

    >>> import cotan as ct
    >>> ct.random.logistic(ct.random.key(0), (2,))
    array([-4.44973696, -1.14420477])
    """
    shape, real = normalized_shape(shape), real_dtype("logistic", dtype)
    loc_, scale_ = (parameter("logistic", n, v, shape) for n, v in named(loc=loc, scale=scale))
    # The logarithm of u / (1 - u) for u in the middle of (-1, 1).
    drawn = 2 * _core.atanh(signed_unit(single("logistic", key), shape, wide_dtype(real)))
    return presented(_core.cast(loc_ + scale_ * drawn, real), key, loc, scale)


def multivariate_normal(
    key: Key, mean: ArrayLike, cov: ArrayLike, shape: ShapeLike = ()
) -> AnyArray:
    """Draw vectors from a normal distribution with a covariance matrix.

    Parameters
    ----------
    key
        A single key.
    mean
        Of shape `(n,)`, differentiable.
    cov
        A positive definite matrix of shape `(n, n)`, differentiable by its Cholesky factor.
    shape
        How many vectors: one, or an array of them.

    Returns
    -------
    ndarray
        Of shape `(*shape, n)` and the dtype of `mean` and `cov`; as for `uniform`.

    Raises
    ------
    LinAlgError
        When `cov` is not positive definite.
    ValueError
        When shapes do not fit.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.random.multivariate_normal(ct.random.key(0), np.zeros(2), np.eye(2), 3).shape
    (3, 2)
    """
    center, matrix = _core.asarray(mean), _core.asarray(cov)
    if center.ndim != 1 or matrix.shape != (center.size, center.size):
        raise ValueError(
            "multivariate_normal: mean must have shape (n,) and cov (n, n), not "
            f"{center.shape} and {matrix.shape}"
        )
    dtype = np.result_type(center.dtype, matrix.dtype, np.float32)
    dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
    factor = np.linalg.cholesky(_core.cast(matrix, wide_dtype(dtype)))
    shape = (*normalized_shape(shape), center.size)
    standard = standard_normal(single("multivariate_normal", key), shape, dtype)
    drawn = center + _core.matmul(standard, factor.T)
    return presented(_core.cast(drawn, dtype), key, mean, cov)
