"""Updates of models: `update` from gradients, `tree_map` over leaves, `trainable_leaves`."""

import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from cotan import _core
from cotan._src.tree.argument_refusal import expect_function
from cotan._src.tree.prefix import lies_in, step_to
from cotan._src.tree.selection import joined, matching
from cotan._src.tree.tangent import Gradients
from cotan._src.typing import AnyArray, Function, Scalar

_Model = TypeVar("_Model")


def update(
    model: _Model, gradients: object, function: Function, *rest: object, mask: object = None
) -> _Model:
    """Make a new model from a model and its gradient; the old one stays as it is.

    Parameters
    ----------
    model
        Any structure of arrays and floats: an object, a dictionary, an array, ...
    gradients
        Its gradient, as `gradient` gives it: a `Tangent`, containers, None where there is nothing
        to do. A dictionary of fields may stand in place of a `Tangent`. Gradients by the identity
        of arrays (`wrt=[model.w]`) belong to those arrays wherever they are in the model.
        Of a tuple, as `gradient` returns one, the only entry that is not None counts; but where
        the model itself is a tuple or list, the tuple is read entry by entry.
    function
        `function(p, d, *r)` gives the new value of a leaf, of the same shape; it is called for
        leaves with a gradient only. Other leaves are the same objects in the new model.
    rest
        More structures like the gradient, such as moments of an optimiser; their entries come as
        further arguments, None where there is none.
    mask
        Which leaves may change, besides having a gradient: a predicate `mask(path, leaf)`; a path
        or a list of paths as in `wrt=`, from the model on (`"layers[*].w"`); or a structure of
        bools, one of which stands for everything below it. What a structure leaves out stays.

    Returns
    -------
    A model of the same classes. Leaves keep kind and dtype: ndarrays stay ndarrays, floats floats,
    `Array`s lazy.

    Raises
    ------
    ValueError
        When the structures do not fit each other, a new value has another shape, or a mask names
        nothing; it names the path.
    TypeError
        When a new value is no number or array, or is complex where the leaf is real.

    >>> import cotan as ct
    >>> model = {"w": 2.0, "b": 1.0}
    >>> g = ct.gradient(lambda m: m["w"] ** 2 + m["b"], model)
    >>> ct.update(model, g, lambda p, d: p - 0.25 * d)
    {'w': 1.0, 'b': 0.75}
    >>> ct.update(model, g, lambda p, d: p - 0.25 * d, mask={"w": True})
    {'w': 1.0, 'b': 1.0}
    """
    expect_function("update", "function", function)
    structure = _core.structure(model, root="model", integers=True)
    gradients = only_gradient("update", model, gradients)
    columns = [_beside(structure, tree) for tree in (gradients, *rest)]
    wanted = None
    if mask is not None:
        paths = joined([path.removeprefix("model") for path in structure.paths])
        wanted = masked("update", paths, structure.leaves, mask)
    leaves = []
    for i, (leaf, path, *entries) in enumerate(
        zip(structure.leaves, structure.paths, *columns, strict=True)
    ):
        if entries[0] is None or (wanted is not None and not wanted[i]):
            # An integer that counts as a number goes on to do so, whatever its neighbours become.
            leaves.append(float(leaf) if type(leaf) is int else leaf)
        else:
            leaves.append(_like(leaf, function(leaf, *entries), path))
    made: _Model = structure.build(leaves)
    return made


def only_gradient(operation: str, model: object, gradients: object) -> object:
    """Give the gradient of a model: of a tuple that `gradient` returned, the entry that is one."""
    if type(gradients) is not tuple or isinstance(model, (tuple, list)):
        return gradients
    found = [g for g in gradients if g is not None]
    if len(found) > 1:
        raise ValueError(
            f"{operation}: the gradients are a tuple with {len(found)} entries that are not None, "
            f"and the model is one {type(model).__name__}; give the entry that belongs to it, or "
            "the models as a tuple"
        )
    return found[0] if found else None


def masked(operation: str, paths: Sequence[str], leaves: Sequence[object], mask: Any) -> list[bool]:
    """Say for every leaf of a model whether a mask asks for it; `update` says what a mask is."""
    if callable(mask):
        return [bool(mask(path, leaf)) for path, leaf in zip(paths, leaves, strict=True)]
    wanted = [False] * len(paths)
    patterns = [mask] if isinstance(mask, str) else mask
    if isinstance(patterns, (list, tuple)) and any(isinstance(p, str) for p in patterns):
        for pattern in patterns:
            found = matching(pattern, tuple(paths))
            if not found:
                raise ValueError(f"{operation}: the mask {pattern!r} {_matches_nothing(paths)}")
            for i in found:
                wanted[i] = True
        return wanted
    for prefix, value in _bools(operation, mask, ""):
        inside = [i for i, path in enumerate(paths) if lies_in(path, prefix)]
        if value and not inside:
            where = repr(prefix) if prefix else "the model"
            raise ValueError(f"{operation}: the mask says True for {where}, which "
                             f"{_matches_nothing(paths)}")  # fmt: skip
        for i in inside:
            wanted[i] = value
    return wanted


def _matches_nothing(paths: Sequence[str]) -> str:
    return f"matches no array or float; there are: {', '.join(paths[:20]) or 'no leaves at all'}"


def _bools(operation: str, mask: Any, path: str) -> Iterator[tuple[str, bool]]:
    """Give the bools of a mask, each with the path that it stands for."""
    if mask is None:
        return
    if isinstance(mask, (bool, np.bool_)):
        yield path, bool(mask)
        return
    if isinstance(mask, Mapping):
        parts = [(step_to(key), value) for key, value in mask.items()]
    elif isinstance(mask, (list, tuple)):
        parts = [(f"[{i}]", value) for i, value in enumerate(mask)]
    elif hasattr(mask, "__dict__"):
        parts = [(step_to(name), value) for name, value in vars(mask).items()]
    else:
        raise TypeError(
            f"{operation}: the mask must say True, False or None for "
            f"{path or 'the model'}, not {mask!r}"
        )
    for step, value in parts:
        yield from _bools(operation, value, path + step if path else step.removeprefix("."))


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
    kind: type = type(leaf)
    if kind is int:  # one that counts as a number is a float from now on
        leaf = float(typing.cast("int", leaf))
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
    are, `ct.const` stays around what it holds constant. An integer beside floats stays, too, though
    it has a gradient: `ct.update` takes it for the float that it counts as there.

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
    >>> ct.tree_map(lambda x: 2 * x, [1.0, 2])
    [2.0, 2]
    >>> ct.update([1.0, 2], [1.0, 1.0], lambda x, d: x - d)
    [0.0, 1.0]
    """
    expect_function("tree_map", "function", function)
    structure = _core.structure(tree, root="tree")
    columns = [structure.align(other, "tree_map") for other in rest]
    return structure.build(
        [function(*entry) for entry in zip(structure.leaves, *columns, strict=True)]
    )


def trainable_leaves(model: object) -> dict[str, Any]:
    """Collect what gradient calls give gradients of, by path.

    That is every array and float of a dtype that has derivatives, and every integer that counts as
    a float, but for what a class leaves out of its `__trainable__` and what `ct.const` holds
    constant. An integer counts as a float beside floats in a list or tuple, in a field annotated
    `float`, and where there are no other numbers. Leaves are given as they are, arrays
    with their shapes and dtypes; a model without any gives an empty dictionary.

    >>> import cotan as ct
    >>> class Layer:
    ...     __trainable__ = ("w",)
    ...     def __init__(self):
    ...         self.w, self.rate, self.size = 1.0, 0.5, 3
    >>> ct.trainable_leaves([Layer()])
    {'[0].w': 1.0}
    """
    structure = _core.structure(model, declared=True, integers=True)
    entries = zip(joined(structure.paths), structure.leaves, structure.trainable, strict=True)
    return {path: leaf for path, leaf, wanted in entries if wanted}
