"""What an optimiser is: a function from gradients to updates, with a state that is passed along.

Problem: parameters are structures, with parts that have no gradient in this step; a rule like
Adam's is about arrays. A `Rule` is written for a dictionary of arrays, by path, and a
`GradientTransformation` takes structures apart for it. Nothing is changed in place, so a whole step
can be prepared, differentiated and undone.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from cotan import _core
from cotan._src.tree.selection import joined
from cotan._src.tree.tangent import Gradients
from cotan._src.tree.update import only_gradient, trainable_leaves, update
from cotan._src.typing import AnyArray, Dtype

_Params = TypeVar("_Params")

#: Arrays by the paths of the parameters that they belong to.
Leaves: TypeAlias = dict[str, Any]


class Rule(NamedTuple):
    """A rule of updating, for arrays by path."""

    init: Callable[[Leaves], Any]
    """Gives the first state for all parameters."""
    update: Callable[[Leaves, Any, Leaves], tuple[Leaves, Any]]
    """Gives updates and the next state from gradients, state and all parameters."""
    needs_all: bool = False
    """Whether the update of one parameter depends on the gradients of others."""


class _Place(NamedTuple):
    """The place of a leaf among the leaves of the gradients."""

    number: int


class GradientTransformation:
    """An optimiser, or a part of one: makes updates from gradients.

    It has no state of its own: `init` gives the first state, and every step takes a state and gives
    the next one. States are tuples and dictionaries of arrays, by path of the parameter; they can
    be pickled, and are arguments and results of prepared functions.

    >>> import cotan as ct
    >>> opt = ct.optim.sgd(0.25)
    >>> params = {"w": 2.0, "b": 1.0}
    >>> state = opt.init(params)
    >>> grads = ct.gradient(lambda p: p["w"] ** 2 + p["b"], params)
    >>> updates, state = opt.update(grads, state, params)
    >>> ct.optim.apply_updates(params, updates)
    {'w': 1.0, 'b': 0.75}
    """

    __slots__ = ("_rule",)

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def init(self, params: object) -> Any:
        """Give the state before the first step.

        Parameters
        ----------
        params
            Any structure. There is a state for every leaf that `ct.gradient` would give a gradient
            of.
        """
        return self._rule.init({k: as_array(v) for k, v in trainable_leaves(params).items()})

    def update(self, grads: object, state: Any, params: object) -> tuple[Any, Any]:
        """Give updates, which are to be added to the parameters, and the next state.

        Parameters
        ----------
        grads
            The gradient of a loss, as `ct.gradient` returns it; None where there is none. What has
            no gradient gets no update, and its state stays.
        state
            What `init` or the last call gave.
        params
            The parameters.

        Returns
        -------
        Updates in the structure of the gradient, and the state.

        Raises
        ------
        ValueError
            When the gradient does not fit the parameters, or there is no state for one of them; it
            names the path.
        """
        split = split_by_path(grads, params)
        changes, state = self._rule.update(split.grads, state, split.leaves)
        return split.updates(changes), state

    def step(self, grads: object, state: Any, params: _Params) -> tuple[_Params, Any]:
        """Give the next parameters and the next state: `update` and `apply_updates` in one.

        >>> import cotan as ct
        >>> opt = ct.optim.sgd(0.25)
        >>> params, state = opt.step(({"w": 4.0},), opt.init({"w": 2.0}), {"w": 2.0})
        >>> params
        {'w': 1.0}
        """
        updates, state = self.update(grads, state, params)
        return apply_updates(params, updates), state


class Split(NamedTuple):
    """Parameters and their gradients, by path."""

    params: Any
    whole: Any
    """The gradient as it was given."""
    given: "_core._Structure"
    grads: Leaves
    leaves: Leaves
    where: dict[str, int]
    """The place of each gradient among the leaves of the whole."""

    def updates(self, changes: Leaves) -> Any:
        """Give updates in the structure of the gradient."""
        updates: list[Any] = [None] * len(self.given.leaves)
        for path, index in self.where.items():
            updates[index] = changes[path]
        return self.given.build(updates) if updates else self.whole

    def applied(self, changes: Leaves) -> Any:
        """Give the parameters with updates added."""
        return apply_updates(self.params, self.updates(changes))


def split_by_path(grads: object, params: object) -> Split:
    """Take parameters and their gradient apart; raise `ValueError` where they do not fit."""
    grads = only_gradient("update", params, grads)
    if isinstance(grads, Gradients):
        raise TypeError(
            "update: gradients by the identity of arrays (wrt=[array]) have no structure; "
            "take them with respect to the parameters as an argument"
        )
    # A path in an error begins with the name of the argument.
    inside = _core.structure(params, root="params")
    given = _core.structure(grads)
    places = inside.align(given.build([_Place(i) for i in range(len(given.leaves))]), "update")
    found, leaves, where = {}, {}, {}
    for path, leaf, place in zip(_below(inside), inside.leaves, places, strict=True):
        leaves[path] = as_array(leaf)
        if isinstance(place, _Place):
            found[path] = as_array(given.leaves[place.number])
            where[path] = place.number
            _expect_shape(path, found[path], leaves[path])
    return Split(params, grads, given, found, leaves, where)


def apply_updates(params: _Params, updates: object) -> _Params:
    """Add updates to parameters, and give the new parameters.

    Parameters
    ----------
    params
        Any structure; it is not changed.
    updates
        A structure like its gradient: what an optimiser gives, of this library or of optax. Where
        it has None, parameters stay.

    Returns
    -------
    Parameters of the same classes, kinds and dtypes: ndarrays are ndarrays, floats floats.

    >>> import cotan as ct
    >>> ct.optim.apply_updates({"w": 1.0, "n": 3}, {"w": 0.5, "n": None})
    {'w': 1.5, 'n': 3}
    """
    return update(params, updates, lambda p, u: p + u)


def chain(*transformations: GradientTransformation) -> GradientTransformation:
    """Make one optimiser of several transformations: each gets the updates of the one before.

    Its state is the tuple of their states.

    >>> import cotan as ct
    >>> opt = ct.optim.chain(ct.optim.clip_by_global_norm(1.0), ct.optim.sgd(0.5))
    >>> params, _ = opt.step({"w": 10.0}, opt.init({"w": 1.0}), {"w": 1.0})
    >>> params
    {'w': 0.5}
    """
    for t in transformations:
        if not isinstance(t, GradientTransformation):
            raise TypeError(
                f"chain: takes optimisers and transformations, not {type(t).__name__}; one of "
                "optax's becomes one by ct.optim.from_optax"
            )
    rules = [t._rule for t in transformations]

    def init(params: Leaves) -> tuple[Any, ...]:
        return tuple(rule.init(params) for rule in rules)

    def step(grads: Leaves, state: Any, params: Leaves) -> tuple[Leaves, tuple[Any, ...]]:
        states = []
        for rule, old in zip(rules, state, strict=True):
            grads, new = rule.update(grads, old, params)
            states.append(new)
        return grads, tuple(states)

    return GradientTransformation(Rule(init, step, any(rule.needs_all for rule in rules)))


def _below(structure: _core._Structure) -> list[str]:
    """Give the paths of leaves below the parameters, as `trainable_leaves` writes them."""
    return joined([path.removeprefix("params") for path in structure.paths])


def _expect_shape(path: str, gradient: AnyArray, leaf: AnyArray) -> None:
    if gradient.shape != leaf.shape:
        raise ValueError(
            f"update: params{'.' if path and path[0] != '[' else ''}{path} has shape {leaf.shape}, "
            f"its gradient {gradient.shape}"
        )


# --------------------------------------------------------------------------------------------------
# For rules


def as_array(x: Any) -> AnyArray:
    """Give a leaf as an array, so that states have one kind whatever they were computed with."""
    return x if isinstance(x, (_core.Array, np.ndarray)) else np.asarray(x)


def zeros(params: Leaves) -> Leaves:
    """Give zeros for every parameter."""
    return {path: np.zeros(leaf.shape, leaf.dtype) for path, leaf in params.items()}


def real_dtype(dtype: Dtype) -> Dtype:
    """Give the dtype of absolute values."""
    return np.empty(0, dtype).real.dtype


def scaled(factor: Any, x: AnyArray) -> AnyArray:
    """Multiply with a number, in the dtype of the array."""
    # Not of NumPy: those numbers would decide about the dtype.
    if type(factor) in {int, float}:
        return as_array(x * factor)
    return as_array(x * as_array(factor).astype(real_dtype(x.dtype)))


def merged(old: Mapping[str, Any], new: Leaves, what: str) -> Leaves:
    """Give a state with new entries; those of parameters without a gradient stay."""
    unknown = [path for path in new if path not in old]
    if unknown:
        raise ValueError(
            f"{what}: there is no state for {unknown[0] or 'the parameters'}; init was called with "
            f"{', '.join(map(str, old)) or 'nothing that is trained'}"
        )
    return {**old, **new}
