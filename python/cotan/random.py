"""Random numbers that are functions of a key: nothing else is read or changed to draw them.

>>> import cotan as ct
>>> key = ct.random.key(0)
>>> noise_key, dropout_key = ct.random.split(key)
>>> ct.random.normal(noise_key, (3,)).shape
(3,)
"""

from cotan._src.random.continuous import (
    exponential,
    gumbel,
    laplace,
    logistic,
    multivariate_normal,
    normal,
    truncated_normal,
    uniform,
)
from cotan._src.random.discrete import bernoulli, categorical, choice, permutation, randint
from cotan._src.random.keys import Key, fold_in, key, split

__all__ = [
    "Key",
    "bernoulli",
    "categorical",
    "choice",
    "exponential",
    "fold_in",
    "gumbel",
    "key",
    "laplace",
    "logistic",
    "multivariate_normal",
    "normal",
    "permutation",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
]
