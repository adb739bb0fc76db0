"""Activations: elementwise nonlinear functions, and `softmax`.

Each is written so that neither it nor its derivatives overflow or cancel where the function is
finite.
"""

import math

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.nn.arguments import expect_broadcast, floating, normalized_axes, rounded
from cotan._src.typing import ArrayLike

# Of `selu`: the fixed point has mean 0 and variance 1.
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805
# Beyond this `gelu` is 0 or x in every dtype; the cubes of larger numbers overflow.
_GELU_END = 100.0


def gelu(x: ArrayLike, approximate: bool = False) -> Array:
    """Multiply by the standard normal distribution function.

    Parameters
    ----------
    x
        Any shape; float16 is computed in float32, integers become float64.
    approximate
        Whether to use the formula with tanh instead of the one with erfc.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        When `x` is complex.

    Source: Hendrycks and Gimpel, Gaussian error linear units (2016).

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.nn.gelu(np.array([-1.0, 0.0, 1.0])).round(4)
    Array([-0.1587, 0.    , 0.8413])
    >>> ct.nn.gelu(np.array([-1.0, 0.0, 1.0]), approximate=True).round(4)
    Array([-0.1588, 0.    , 0.8412])
    """
    (x,), dtype = floating("gelu", x)
    if approximate:
        u = _core.minimum(_core.maximum(x, -_GELU_END), _GELU_END)
        slope = math.sqrt(8 / math.pi) * (u + 0.044715 * u * u * u)
        return rounded(x * _core.sigmoid(slope), dtype)
    return rounded(0.5 * x * _core.erfc(-math.sqrt(0.5) * x), dtype)


def silu(x: ArrayLike) -> Array:
    """Multiply by the logistic function: `x * sigmoid(x)`, also called swish.

    Parameters, result and errors are those of `gelu`.

    >>> import cotan as ct
    >>> ct.grad(ct.nn.silu)(0.0)
    0.5
    """
    (x,), dtype = floating("silu", x)
    return rounded(x * _core.sigmoid(x), dtype)


def elu(x: ArrayLike, alpha: float = 1.0) -> Array:
    """Give `x` where it is positive, `alpha * (exp(x) - 1)` elsewhere.

    Parameters, result and errors are those of `gelu`; `alpha` is a number. At 0 the derivative is
    `alpha`.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.nn.elu(np.array([-1.0, 2.0])).round(4)
    Array([-0.6321, 2.    ])
    """
    (x,), dtype = floating("elu", x)
    below = _core.expm1(_core.where(x > 0, 0.0, x))
    return rounded(_core.where(x > 0, x, alpha * below), dtype)


def selu(x: ArrayLike) -> Array:
    """Apply the scaled `elu` that keeps mean 0 and variance 1.

    Parameters, result and errors are those of `gelu`. Source: Klambauer, Unterthiner, Mayr and
    Hochreiter, Self-normalizing neural networks (2017).

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.nn.selu(np.array([-1.0, 1.0])).round(4)
    Array([-1.1113, 1.0507])
    """
    (x,), dtype = floating("selu", x)
    return rounded(_SELU_SCALE * elu(x, _SELU_ALPHA), dtype)


def leaky_relu(x: ArrayLike, negative_slope: float = 0.01) -> Array:
    """Give `x` where it is positive, `negative_slope * x` elsewhere.

    Parameters, result and errors are those of `gelu`. At 0 the derivative is `negative_slope`.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.nn.leaky_relu(np.array([-2.0, 3.0]))
    Array([-0.02, 3.  ])
    """
    (x,), dtype = floating("leaky_relu", x)
    return rounded(_core.where(x > 0, x, negative_slope * x), dtype)


def softmax(x: ArrayLike, axis: int = -1, where: ArrayLike | None = None) -> Array:
    """Give probabilities from their logarithms: `exp(x) / sum(exp(x))` along an axis.

    Parameters
    ----------
    x
        Real, of one axis at least. The largest element of each row is subtracted first.
    axis
        The axis along which results add up to 1.
    where
        A mask that broadcasts to `x`: elements that take part. The others become 0, and rows
        without any are 0 everywhere.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        When `x` is complex.
    ValueError
        When `x` has no such axis, or `where` does not broadcast.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.nn.softmax(np.array([1000.0, 1000.0, -1000.0]))
    Array([0.5, 0.5, 0. ])
    """
    (x,), dtype = floating("softmax", x)
    normalized_axes("softmax", axis, x)
    if where is None:
        powers = _core.exp(x - _highest(x, axis))
        return rounded(powers / _core.sum(powers, axis, True), dtype)
    mask = _core.asarray(where, np.bool_)
    expect_broadcast("softmax", "where", mask, x.shape)
    known = _core.where(mask, x, -math.inf)
    highest = _highest(known, axis)
    # Of a row without elements that is minus infinity.
    highest = _core.where(_core.isfinite(highest), highest, 0.0)
    powers = _core.where(mask, _core.exp(_core.where(mask, x - highest, 0.0)), 0.0)
    total = _core.sum(powers, axis, True)
    return rounded(powers / _core.where(_core.eq(total, 0), 1.0, total), dtype)


def log_softmax(x: ArrayLike, axis: int = -1) -> Array:
    """Give the logarithm of `softmax`, also where that is 0.

    Parameters, result and errors are those of `softmax`.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.nn.log_softmax(np.array([1000.0, 0.0]))
    Array([    0., -1000.])
    """
    (x,), dtype = floating("log_softmax", x)
    normalized_axes("log_softmax", axis, x)
    shifted = x - _highest(x, axis)
    return rounded(shifted - _core.logsumexp(shifted, axis, True), dtype)


def _highest(x: Array, axis: int) -> Array:
    """Give the largest element of each row, as a constant: the result does not depend on it."""
    if not x.shape[axis]:
        return _core.asarray(np.zeros((), x.dtype))
    return _core.dropgrad(_core.max(x, axis, True))
