"""`vmap`: applies a function of one example to a batch of them, as one recorded program."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.tree import selection
from cotan._src.tree.update import tree_map
from cotan._src.typing import AnyArray, Axis, P, R, Scalar


def vmap(
    function: Callable[P, R],
    in_axes: Axis | Sequence[Axis] = 0,
    out_axes: int = 0,
) -> Callable[P, R]:
    """Map a function of one example over an axis of its arguments, without a loop.

    The function is recorded once, on one example, and what was recorded is written anew for all
    examples: products become batched products, and what does not differ between examples is
    computed once. It may call `gradient` and functions with rules of their own, and be
    differentiated itself.

    Parameters
    ----------
    function
        Of one example. It cannot look at the values of what differs between examples (`if`,
        `print`, `float`), and is called again at each call.
    in_axes
        Along which axis of an argument the examples lie; None for arguments that all examples
        share. One for all positional arguments, or a list or tuple with one for each. It holds
        for all arrays of a structure. Keyword arguments are mapped over their first axis.
    out_axes
        The axis of the results along which the examples lie.

    Returns
    -------
    callable
        Takes the arguments of `function`, with an axis more where they are mapped, and gives
        what it gives with an axis more: ndarrays, or `Array`s if an argument holds one. Arrays
        and floats that do not differ between examples are repeated; other objects (an int, a
        string) stay as they are.

    Raises `ValueError` when the arguments have different numbers of examples, or none has
    examples, and when the function looks at values; `IndexError` for an axis that an array does
    not have.

    >>> import cotan as ct
    >>> import numpy as np
    >>> def loss(w, x):
    ...     return np.tanh(w @ x) ** 2
    >>> w, x = np.array([0.5, -0.5]), np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> ct.vmap(loss, in_axes=(None, 0))(w, x)
    array([0.21355227, 0.58002566, 0.        ])
    >>> ct.vmap(lambda w, x: ct.gradient(loss, w, ct.const(x))[0], in_axes=(None, 0))(w, x)
    array([[ 0.72686198,  0.        ],
           [ 0.        , -1.27940002],
           [ 0.        ,  0.        ]])
    """
    name = getattr(function, "__name__", type(function).__name__)
    _axis("in_axes", in_axes)
    if not _is_axis(out_axes):
        raise TypeError(f"vmap: out_axes is one axis, not {out_axes!r}")

    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        axes: list[Any]
        axes = list(in_axes) if isinstance(in_axes, list | tuple) else [in_axes] * len(args)
        if len(axes) != len(args):
            raise ValueError(
                f"vmap: in_axes has {len(axes)} entries for {len(args)} arguments of {name}"
            )
        axes += [0] * len(kwargs)
        names = [*selection.argument_names(function, len(args)), *kwargs]
        given = [
            tree_map(_moved(axis), arg) if axis != 0 else arg
            for arg, axis in zip((*args, *kwargs.values()), axes, strict=True)
        ]
        count = len(args)

        def one(*args: Any) -> object:
            return function(*args[:count], **dict(zip(kwargs, args[count:], strict=True)))

        batched = [axis is not None for axis in axes]
        result = _core.call_vmap(one, tuple(given), batched, names)
        if out_axes == 0:
            return result
        return tree_map(lambda leaf: np.moveaxis(leaf, 0, out_axes), result)

    return mapped


def _is_axis(axis: object) -> bool:
    return isinstance(axis, int | np.integer) and not isinstance(axis, bool)


def _axis(name: str, axes: object) -> None:
    for axis in axes if isinstance(axes, list | tuple) else [axes]:
        if axis is not None and not _is_axis(axis):
            raise TypeError(
                f"vmap: {name} is an axis, None, or a list with one of these for each positional "
                f"argument, not {axes!r}"
            )


def _moved(axis: int | None) -> Callable[[AnyArray | Scalar], AnyArray | Scalar]:
    return _shared if axis is None else functools.partial(_first, axis)


def _shared(leaf: AnyArray | Scalar) -> AnyArray | Scalar:
    """Give an array that all examples share as an `Array`: it may be indexed by what differs."""
    return _core.asarray(leaf) if type(leaf) is np.ndarray and leaf.dtype.kind in "biufc" else leaf


def _first(axis: int, leaf: Any) -> AnyArray | Scalar:
    if np.ndim(leaf) == 0:
        # Refused below, with its path.
        scalar: Scalar = leaf
        return scalar
    moved: AnyArray | Scalar = np.moveaxis(leaf, axis, 0)
    return moved
