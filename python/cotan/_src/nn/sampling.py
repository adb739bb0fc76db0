"""Pieces of networks that pick: rows of a table by index, elements by chance."""

from cotan import _core
from cotan._core import Array
from cotan._src.nn.arguments import floating, rounded
from cotan._src.random.discrete import bernoulli
from cotan._src.random.keys import Key
from cotan._src.typing import ArrayLike


def embedding(table: ArrayLike, indices: ArrayLike) -> Array:
    """Give the rows of a table at indices.

    The gradient with respect to the table adds up what rows got that were picked several times.

    Parameters
    ----------
    table
        Of shape `(rows, ...)`.
    indices
        Integers of any shape; negative ones count from the end.

    Returns
    -------
    Array
        Of shape `(*indices.shape, ...)` and the dtype of the table.

    Raises
    ------
    IndexError
        When an index is out of range.
    TypeError
        When indices are no integers.

    >>> import cotan as ct
    >>> import numpy as np
    >>> table = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> ct.nn.embedding(table, np.array([1, 1])).shape
    (2, 2)
    >>> ct.gradient(lambda t: np.sum(ct.nn.embedding(t, np.array([1, 1]))), table)
    (array([[0., 0.],
           [2., 2.]]),)
    """
    rows, index = _core.asarray(table), _core.asarray(indices)
    if not rows.ndim:
        raise ValueError("embedding: the table has one axis at least, and is a scalar")
    if index.dtype.kind not in "iu":
        raise TypeError(f"embedding: indices must be integers, not {index.dtype}")
    return _core.gather(rows, index)


def dropout(key: Key, x: ArrayLike, rate: float = 0.5, *, deterministic: bool = False) -> Array:
    """Set elements to 0 by chance, and scale the others so that the mean stays.

    Parameters
    ----------
    key
        A single key: which elements are dropped is a function of it.
    x
        Real, of any shape.
    rate
        Probability of an element to be dropped, from 0 to 1.
    deterministic
        Whether to drop nothing, as outside of training.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    ValueError
        When `rate` is out of range.

    Source: Srivastava and others, Dropout (2014).

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.nn.dropout(ct.random.key(0), np.ones(6), 0.5)
    Array([2., 2., 2., 0., 0., 2.])
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"dropout: rate must be from 0 to 1, not {rate}")
    (x,), dtype = floating("dropout", x)
    if deterministic or rate == 0:
        return rounded(x, dtype)
    kept = bernoulli(key, 1 - rate, x.shape)
    return rounded(_core.where(kept, x / (1 - rate) if rate < 1 else x, 0.0), dtype)
