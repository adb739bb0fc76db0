"""Computes the lazy arrays of a structure together: `force`.

Problem: reading cotangents one by one plans and starts one run for each of them, although most of
their work is shared and could be done in one.
"""

from typing import TypeVar

from cotan import _core
from cotan._core import Array

_Tree = TypeVar("_Tree")


def force(tree: _Tree) -> _Tree:
    """Compute all lazy arrays of a structure in one run.

    Values are computed when they are read, each at most once, so results are the same without it.
    In one run, the work is planned once, and memory that several arrays need for a while is freed
    as soon as the last of them has been computed. Inside a function that is being prepared nothing
    is computed.

    Parameters
    ----------
    tree
        Any structure, such as what a pullback returns. Leaves that are no `Array` are left alone.

    Returns
    -------
    The same object.

    Raises
    ------
    TypeError
        If a value is not known yet, such as that of a cotangent while its rule is traced.

    >>> import cotan as ct
    >>> import numpy as np
    >>> _, back = ct.pullback(lambda w: np.sum(w["a"] @ w["b"]), {"a": np.eye(2), "b": np.ones(2)})
    >>> (gradient,) = ct.force(back(1.0))
    >>> gradient["a"].is_forced, gradient["b"].is_forced
    (True, True)
    """
    _core.force_all([leaf for leaf in _core.structure(tree).leaves if isinstance(leaf, Array)])
    return tree
