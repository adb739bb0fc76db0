"""Updates of models: `update` from gradients, `tree_map` over leaves, `trainable_leaves`."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from cotan import _core
from cotan._src.tree.selection import joined
from cotan._src.tree.tangent import Gradients
from cotan._src.typing import AnyArray, Function, Scalar

_Model = TypeVar("_Model")


def update(model: _Model, gradients: object, function: Function, *rest: object) -> _Model:
    """Make a new model from a model and its gradient; the old one stays as it is.

    Parameters
    ----------
    model
        Any structure of arrays and floats: an object, a dictionary, an array, ...
    gradients
        Its gradient, as `gradient` gives it: a `Tangent`, containers, None where there is nothing
        to do. A dictionary of fields may stand in place of a `Tangent`. Gradients by the identity
        of arrays (`wrt=[model.w]`) belong to those arrays wherever they are in the model.
    function
        `function(p, d, *r)` gives the new value of a leaf, of the same shape; it is called for
        leaves with a gradient only. Other leaves are the same objects in the new model.
    rest
        More structures like the gradient, such as moments of an optimiser; their entries come as
        further arguments, None where there is none.

    Returns
    -------
    A model of the same classes. Leaves keep kind and dtype: ndarrays stay ndarrays, floats floats,
    `Array`s lazy.

    Raises
    ------
    ValueError
        When the structures do not fit each other, or a new value has another shape; it names the
        path.
    TypeError
        When a new value is no number or array, or is complex where the leaf is real.

    >>> import cotan as ct
    >>> model = {"w": 2.0, "b": 1.0}
    >>> (g,) = ct.gradient(lambda m: m["w"] ** 2 + m["b"], model, wrt="m.w")
    >>> ct.update(model, g, lambda p, d: p - 0.25 * d)
    {'w': 1.0, 'b': 1.0}
    """
    structure = _core.structure(model, root="model")
    columns = [_beside(structure, tree) for tree in (gradients, *rest)]
    leaves = []
    for leaf, path, *entries in zip(structure.leaves, structure.paths, *columns, strict=True):
        if entries[0] is None:
            leaves.append(leaf)
        else:
            leaves.append(_like(leaf, function(leaf, *entries), path))
    made: _Model = structure.build(leaves)
    return made


def _beside(structure: _core._Structure, tree: object) -> Sequence[object]:
    """Give what belongs to each leaf: by place, or for `Gradients` by the identity of the array."""
    if not isinstance(tree, Gradients):
        return structure.align(tree, "update")
    leaves = structure.leaves
    known = {id(leaf) for leaf in leaves}
    missing = sum(id(array) not in known for array in tree)
    if missing:
        raise ValueError(
            f"update: {missing} of the {len(tree)} arrays that have a gradient are not part of the "
            "model"
        )
    return [tree.get(leaf) if isinstance(leaf, _core.Array) else None for leaf in leaves]


def _like(leaf: Scalar | AnyArray, new: object, path: str) -> Scalar | AnyArray:
    """Give a new value as the kind of leaf that it replaces."""
    place = "the model" if path == "model" else path
    if new is None or isinstance(new, (str, list, tuple, dict)):
        raise TypeError(f"update: the new value of {place} is {type(new).__name__}, not an array")
    old = leaf if isinstance(leaf, (_core.Array, np.ndarray)) else np.asarray(leaf)
    value = new if isinstance(new, (_core.Array, np.ndarray)) else np.asarray(new)
    if value.shape != old.shape:
        raise ValueError(f"update: {place} has shape {old.shape}, its new value {value.shape}")
    if not np.can_cast(value.dtype, old.dtype, "same_kind"):
        raise TypeError(f"update: {place} is of dtype {old.dtype}, its new value of {value.dtype}")
    if isinstance(new, _core.Array) and (isinstance(leaf, _core.Array) or _core.is_active(new)):
        cast: _core.Array = new.astype(old.dtype)
        return cast
    if isinstance(leaf, _core.Array):
        return _core.array(new, old.dtype)
    plain: AnyArray = np.asarray(value, old.dtype)
    if isinstance(leaf, np.ndarray):
        return plain
    if isinstance(leaf, np.generic):
        number: Scalar | AnyArray = plain[()]
    else:
        number = plain.item()
    return number


def tree_map(function: Function, tree: object, *rest: object) -> Any:
    """Apply a function to every leaf of a structure: every array and every float.

    Declarations of what is trained play no part. Integers, strings and other objects stay as they
    are, `ct.const` stays around what it holds constant.

    Parameters
    ----------
    function
        `function(leaf, *r)` gives what takes the place of the leaf, anything.
    tree
        Any structure.
    rest
        Structures like it, or like its gradient; None where one has nothing.

    Raises
    ------
    ValueError
        When the structures do not fit each other; it names the path.

    >>> import cotan as ct
    >>> ct.tree_map(lambda x: 2 * x, {"w": [1.5, 2.5], "n": 3, "name": "layer"})
    {'w': [3.0, 5.0], 'n': 3, 'name': 'layer'}
    """
    structure = _core.structure(tree, root="tree")
    columns = [structure.align(other, "tree_map") for other in rest]
    return structure.build(
        [function(*entry) for entry in zip(structure.leaves, *columns, strict=True)]
    )


def trainable_leaves(model: object) -> dict[str, Any]:
    """Collect what gradient calls give gradients of, by path.

    That is every array and float of a dtype that has derivatives, but for what a class leaves out
    of its `__trainable__` and what `ct.const` holds constant. Leaves are given as they are, arrays
    with their shapes and dtypes; a model without any gives an empty dictionary.

    >>> import cotan as ct
    >>> class Layer:
    ...     __trainable__ = ("w",)
    ...     def __init__(self):
    ...         self.w, self.rate, self.size = 1.0, 0.5, 3
    >>> ct.trainable_leaves([Layer()])
    {'[0].w': 1.0}
    """
    structure = _core.structure(model, declared=True)
    entries = zip(joined(structure.paths), structure.leaves, structure.trainable, strict=True)
    return {path: leaf for path, leaf, wanted in entries if wanted}
