"""Checkpoints: trade memory for time by recomputing intermediate values in the reverse pass."""

import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from cotan import _core
from cotan._src.tree.tangent import map_leaves
from cotan._src.typing import AnyArray, Args, Function, Kwargs, P, R

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


@overload
def checkpoint(
    function: Callable[P, R],
    /,
    *,
    policy: str | Sequence[str] | None = None,
    budget: int | str | None = None,
) -> Callable[P, R]: ...


@overload
def checkpoint(
    function: Callable[..., R],
    /,
    *args: object,
    policy: str | Sequence[str] | None = None,
    budget: int | str | None = None,
    **kwargs: object,
) -> R: ...


def checkpoint(
    function: Function,
    /,
    *args: object,
    policy: str | Sequence[str] | None = None,
    budget: int | str | None = None,
    **kwargs: object,
) -> Any:
    """Call a function whose intermediate values the reverse pass computes again.

    A pullback keeps the arguments of the function, what it closes over, and what the policy says,
    instead of every value on the way. The gradient is the same, up to the order in which sums are
    added up.

    Parameters
    ----------
    function
        Any function of arrays, numbers and structures of them. Where a gradient is being taken it
        runs twice: once in its place, and once more when the reverse pass begins (the last
        checkpoint first), so side effects happen twice. Both runs must do the same. Inside `vmap`
        it runs once more.
    *args, **kwargs
        Its arguments. Without any, `checkpoint` makes a function that is called like this one, so
        it can decorate.
    policy
        What to keep: `"nothing"` (the default), `"products"` (matrix products and whatever else is
        dear), or a list of names that `name` gave to values.
    budget
        Instead of a policy, how many bytes to keep: an int or a text such as `"200MB"`. What is
        dear and small is kept first; of a chain of equal steps every n-th.

    Raises `ValueError` for an unknown policy or name, and `RuntimeError` when the second run does
    something else than the first. Source: Griewank and Walther, Algorithm 799 (2000), for the idea;
    the choice within a budget is a greedy one of our own.

    >>> import cotan as ct
    >>> import numpy as np
    >>> def step(x):
    ...     return np.sin(np.exp(np.sin(x)))
    >>> x = np.linspace(0.0, 1.0, 1000)
    >>> _, plain = ct.pullback(lambda x: np.sum(step(x)), x)
    >>> _, saved = ct.pullback(lambda x: np.sum(ct.checkpoint(step, x)), x)
    >>> plain.nbytes, saved.nbytes
    (24000, 8000)
    """
    if not callable(function):
        raise TypeError(f"checkpoint: the first argument must be callable, not {type(function)}")
    keep = _policy(policy, budget)
    name = getattr(function, "__name__", None) or type(function).__name__
    if args or kwargs:
        run = _run_again(function, name, args, kwargs, keep)
        return _core.call_checkpoint(run, name, args, kwargs, keep)

    def checkpointed(*args: object, **kwargs: object) -> Any:
        run = _run_again(function, name, args, kwargs, keep)
        return _core.call_checkpoint(run, name, args, kwargs, keep)

    # A model with a __call__ need not have what functions have.
    return functools.update_wrapper(checkpointed, function, updated=())


# What `vmap` makes of indices and branches that differ between examples, and of much else that
# looks at a value otherwise; and what may have them inside.
_CHOICES = {"custom", "gather", "scatter", "where"}


def _run_again(function: Function, name: str, args: Args, kwargs: Kwargs, keep: object) -> Function:
    """Give the function in a form that does the same in its second run.

    The second run is no part of `vmap` any more, and the values of its arguments are not known. For
    indices and branches that differ between examples, both runs map over the single example. That
    takes more time, so it is looked for them first.
    """
    leaves = _core.structure((args, kwargs)).leaves
    if not _is_mapped(leaves):
        return function
    if isinstance(keep, list):
        # What is named inside of `vmap` over an example is none of the values that are kept.
        return functools.partial(_named, function, name)
    single = _Single(function, [isinstance(x, _core.Array) and _is_unknown(x) for x in leaves])
    program = _core.trace(single.of_unknown(args, kwargs), *single.examples(leaves))
    chooses = any(equation.primitive in _CHOICES for equation in program.equations)
    return single if chooses else function


def _is_mapped(leaves: Iterable[object]) -> bool:
    """Say whether `vmap` maps a function, and one of these differs between examples."""
    return any(isinstance(leaf, _core.Array) and _core.is_mapped(leaf) for leaf in leaves)


def _is_unknown(x: _core.Array) -> bool:
    return _core.is_mapped(x) or _core.is_traced(x) or _core.is_active(x)


class _Single:
    """A function as one of a single example of `vmap`, in which the marked leaves differ."""

    def __init__(self, function: Function, differs: list[bool]) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function, self._differs = function, differs

    def __call__(self, *args: object, **kwargs: object) -> object:
        one = self.of_unknown(args, kwargs, self._function)
        leaves = _core.structure((args, kwargs)).leaves
        batch = tuple(_core.asarray(leaf)[None] for leaf in self._those(leaves))
        names = [f"argument {i}" for i in range(len(batch))]
        results = _core.call_vmap(one, batch, [True] * len(batch), names)
        return map_leaves(lambda leaf: leaf[0], results)

    def examples(self, leaves: Sequence[Any]) -> list[AnyArray]:
        """Give arrays like those that differ."""
        return [np.zeros(leaf.shape, leaf.dtype) for leaf in self._those(leaves)]

    def _those(self, leaves: Iterable[Any]) -> Iterator[Any]:
        return (leaf for leaf, differs in zip(leaves, self._differs, strict=True) if differs)

    def of_unknown(self, args: Args, kwargs: Kwargs, function: Function | None = None) -> Function:
        """Give a function, or this one, as one of the arrays that differ."""
        parts = _core.structure((args, kwargs))

        def call(*arrays: object) -> object:
            rest = iter(arrays)
            pairs = zip(parts.leaves, self._differs, strict=True)
            leaves = [next(rest) if differs else _as_given(leaf) for leaf, differs in pairs]
            args, kwargs = parts.build(leaves)
            return (function or self)(*args, **kwargs)

        return call


def _as_given(leaf: object) -> object:
    """Give a constant as a checkpoint hands it on."""
    return _core.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


def _named(function: Function, name: str, *args: object, **kwargs: object) -> object:
    """Call a function, and say what helps if its second run looks at a value."""
    try:
        return function(*args, **kwargs)
    except _core.UnknownValueError as error:
        if _is_mapped(_core.structure((args, kwargs)).leaves):
            raise
        raise ValueError(
            f"checkpoint {name}: inside of vmap, with a policy of names, the function cannot take "
            "indices or branches that differ between examples; put the checkpoint around vmap"
        ) from error


def _policy(
    policy: str | Sequence[str] | None, budget: int | str | None
) -> str | list[str] | int | None:
    """Give what the compiled part understands: None, "products", names, or a number of bytes."""
    if budget is not None:
        if policy is not None:
            raise ValueError("checkpoint: give a policy or a budget, not both")
        return budget_bytes(budget)
    if policy is None or policy == "nothing":
        return None
    if policy == "products":
        return policy
    if isinstance(policy, str):
        raise ValueError(
            f"checkpoint: there is no policy {policy!r}; policies are 'nothing', 'products' and a "
            f"list of names given with ct.name (policy=[{policy!r}]); budget='200MB' is an "
            "alternative"
        )
    names = list(policy) if isinstance(policy, (list, tuple, set, frozenset)) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(
            "checkpoint: policy must be 'nothing', 'products', or a list of names given with "
            f"ct.name, not {policy!r}; budget='200MB' is an alternative"
        )
    return names


def budget_bytes(budget: object) -> int:
    """Give a budget in bytes: a number or a text such as "200MB"."""
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?)?b?\s*", budget.lower())
        if match is None:
            raise ValueError(
                f"checkpoint: budget={budget!r} is not a size; use '200MB', '1.5GiB' or a number "
                "of bytes"
            )
        return min(int(float(match[1]) * _UNITS[match[2] or ""]), sys.maxsize)
    if isinstance(budget, bool) or not isinstance(budget, (int, np.integer)) or budget < 0:
        raise ValueError(
            f"checkpoint: budget must be a non-negative number of bytes, not {budget!r}"
        )
    return min(int(budget), sys.maxsize)


def name(value: R, name: str) -> R:
    """Give a value a name that the policy of the checkpoint around it can keep.

    Parameters
    ----------
    value
        An array or a structure, whose arrays are all named; it is returned as it is. Outside a
        checkpoint nothing happens. What is not being differentiated is there anyway.
    name
        The name. Several values may share one. Policies of all checkpoints around it see it.

    Raises `TypeError` for a name that is no string.

    >>> import cotan as ct
    >>> import numpy as np
    >>> def layer(w, x):
    ...     return np.tanh(ct.name(w @ x, "product"))
    >>> w, x = np.eye(3), np.ones(3)
    >>> f = ct.checkpoint(layer, policy=["product"])
    >>> ct.gradient(lambda x: np.sum(f(w, x)), x)[0].round(3)
    array([0.42, 0.42, 0.42])
    """
    if not isinstance(name, str):
        raise TypeError(f"name: the name must be a string, not {type(name)}")
    _core.name_value(value, name)
    return value
