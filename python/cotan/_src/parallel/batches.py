"""What a batch is: arguments of the function, and how many examples they hold.

Problem: a mean over batches of different sizes is no mean over examples unless batches are weighed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from cotan import _core
from cotan._src.typing import Args

#: How batches are weighed: by their examples, all alike, by numbers, or by a function of a batch.
Weights: TypeAlias = Literal["examples", "equal"] | Iterable[float] | Callable[[Any], float]


def arguments(batch: Any) -> Args:
    """Give the arguments that a batch stands for: a tuple is several."""
    return batch if type(batch) is tuple else (batch,)


def num_examples(operation: str, number: int, args: Args) -> float:
    """Give the number of examples in a batch: the length of the first axis of its arrays.

    Raises `ValueError` where arrays disagree.
    """
    found: dict[int, tuple[str, tuple[int, ...]]] = {}
    for path, shape in _shapes(args, "batch"):
        found.setdefault(shape[0], (path, shape))
    if len(found) > 1:
        told = ", ".join(f"{path} has shape {shape}" for path, shape in found.values())
        raise ValueError(
            f"{operation}: batch {number} has no one number of examples: {told}; say how batches "
            "are weighed: weights='equal', weights=[...], or a function of a batch"
        )
    return float(next(iter(found), 1))


def _shapes(tree: Any, path: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Give the shapes of all that has axes: arrays, and tables and matrices of other libraries."""
    shape = getattr(tree, "shape", None)
    if isinstance(shape, tuple):
        if shape:
            yield path, shape
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _shapes(value, f"{path}[{key!r}]")
    elif isinstance(tree, (list, tuple)):
        for i, value in enumerate(tree):
            yield from _shapes(value, f"{path}[{i}]")
    else:
        parts = _core.structure(tree, root=path)
        for where, leaf in zip(parts.paths, parts.leaves, strict=True):
            if np.shape(leaf):
                yield where, np.shape(leaf)


def weighed(
    operation: str, batches: Iterable[Any], weights: Weights, *, is_mean: bool
) -> Iterator[tuple[Any, float]]:
    """Give batches with their weights, as they are asked for, without those that weigh 0.

    Weights are 1 for a sum.
    """
    if isinstance(weights, str) and weights not in {"examples", "equal"}:
        raise ValueError(
            f"{operation}: weights must be 'examples', 'equal', numbers or a function, not "
            f"{weights!r}"
        )
    given = None if isinstance(weights, str) or callable(weights) else iter(weights)
    for number, batch in enumerate(batches):
        if not is_mean or (isinstance(weights, str) and weights == "equal"):
            weight = 1.0
        elif callable(weights):
            weight = float(weights(batch))
        elif given is not None:
            found = next(given, None)
            if found is None:
                raise ValueError(
                    f"{operation}: weights has {number} numbers, and there are more batches"
                )
            weight = float(found)
        else:
            weight = num_examples(operation, number, arguments(batch))
        if not (weight >= 0.0 and np.isfinite(weight)):
            raise ValueError(
                f"{operation}: the weight of batch {number} must be finite and not negative, not "
                f"{weight}"
            )
        if weight > 0.0:
            yield (number, batch), weight
    if given is not None and next(given, None) is not None:
        raise ValueError(f"{operation}: weights has more numbers than there are batches")


def described(batch: Any) -> str:
    """Say in a few words what a batch holds, for messages."""
    parts = _core.structure(arguments(batch))
    told = [
        f"{leaf.dtype}{list(leaf.shape)}"
        for leaf in parts.leaves
        if isinstance(leaf, (np.ndarray, _core.Array))
    ]
    return ", ".join(told[:4]) + (", ..." if len(told) > 4 else "")


def expect_iterable(operation: str, batches: Any) -> Iterable[Any]:
    """Refuse what cannot be batches.

    An array is refused, as its rows would be batches of one example each.
    """
    if isinstance(batches, (np.ndarray, _core.Array)):
        raise TypeError(
            f"{operation}: batches must be an iterable of batches, not one array of shape "
            f"{batches.shape}; np.array_split(x, 8) gives 8 batches, zip(xs, ys) batches of two "
            "arrays"
        )
    if isinstance(batches, (dict, str)) or not isinstance(batches, Iterable):
        raise TypeError(
            f"{operation}: batches must be an iterable of batches, not "
            f"{type(batches).__name__}; one batch is [batch]"
        )
    return batches


def length(batches: Any) -> int | None:
    """Give the number of batches, if it is known before."""
    return len(batches) if isinstance(batches, Sequence) or hasattr(batches, "__len__") else None
