"""The parts that optimisers are made of: moments, decay, clipping, learning rates.

Each makes other updates of updates, and can stand in a `chain`. Names are those of optax. Of
complex gradients, which point uphill, squares are squares of absolute values.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cotan._src.optim.schedules import Schedule
from cotan._src.optim.transformation import (
    GradientTransformation,
    Leaves,
    Rule,
    as_array,
    merged,
    scaled,
    zeros,
)
from cotan._src.tree.structure import tree_leaves
from cotan._src.tree.update import masked
from cotan._src.typing import AnyArray

#: A learning rate: a number, or a function of the number of steps so far.
Rate: TypeAlias = float | Schedule


class EmptyState(NamedTuple):
    """The state of what remembers nothing."""


class TraceState(NamedTuple):
    """The state of `trace`."""

    trace: Leaves
    """Decaying sums of gradients."""


class AdamState(NamedTuple):
    """The state of `scale_by_adam`."""

    count: Any
    """How many steps were made."""
    mu: Leaves
    """Decaying averages of gradients."""
    nu: Leaves
    """Decaying averages of their squares."""


class SquaresState(NamedTuple):
    """The state of `scale_by_rms` and `scale_by_rss`."""

    nu: Leaves
    """Averages or sums of squared gradients."""
    mu: Leaves
    """Averages of gradients, if they are needed."""


class CountState(NamedTuple):
    """The state of a learning rate that changes."""

    count: Any
    """How many steps were made."""


def _stateless(change: Any, needs_all: bool = False) -> GradientTransformation:
    def update(grads: Leaves, state: Any, params: Leaves) -> tuple[Leaves, Any]:
        return change(grads, params), state

    return GradientTransformation(Rule(lambda _: EmptyState(), update, needs_all))


def _start() -> Any:
    """Give the count before the first step.

    A float, as a prepared step replays for any float; an integer would be data to it.
    """
    return np.asarray(0.0)


def _next(count: Any) -> Any:
    return as_array(count + 1)


def _square(x: Any) -> AnyArray:
    """Give squares of absolute values; of half precision in single, where they do not overflow."""
    if x.dtype == np.float16:
        x = x.astype(np.float32)
    return as_array(x * x if x.dtype.kind != "c" else np.real(x) ** 2 + np.imag(x) ** 2)


def _divided(x: AnyArray, by: Any) -> AnyArray:
    """Divide by what squares were, in the dtype of the gradient."""
    return as_array((x / by).astype(x.dtype))


def _squares_of(params: Leaves, value: float = 0.0) -> Leaves:
    return {k: np.full(p.shape, value, _square(np.zeros(0, p.dtype)).dtype)
            for k, p in params.items()}  # fmt: skip


def _averaged(old: Leaves, new: Leaves, decay: float, what: str) -> Leaves:
    """Give decaying averages of what has a new entry."""
    merged(old, new, what)
    return {k: as_array(decay * old[k] + (1.0 - decay) * x) for k, x in new.items()}


def scale(factor: float) -> GradientTransformation:
    """Multiply updates with a number.

    >>> import cotan as ct
    >>> ct.optim.scale(-0.1).step({"w": 1.0}, (), {"w": 2.0})[0]
    {'w': 1.9}
    """
    _expect_number("scale: the factor", factor)
    return _stateless(lambda grads, _: {k: scaled(factor, g) for k, g in grads.items()})


def scale_by_learning_rate(learning_rate: Rate) -> GradientTransformation:
    """Multiply with minus the learning rate: the last step of an optimiser.

    Parameters
    ----------
    learning_rate
        A number, or a schedule: a function of the number of steps so far.

    >>> import cotan as ct
    >>> rate = ct.optim.scale_by_learning_rate(lambda count: 0.5 / (1 + count))
    >>> state = rate.init({"w": 2.0})
    >>> params, state = rate.step({"w": 1.0}, state, {"w": 2.0})
    >>> params, state = rate.step({"w": 1.0}, state, params)
    >>> params
    {'w': 1.25}
    """
    if not callable(learning_rate):
        _expect_number("the learning rate", learning_rate, "a number, or a function of the step")
        return scale(-learning_rate)

    def update(grads: Leaves, state: CountState, _: Leaves) -> tuple[Leaves, CountState]:
        rate = as_array(learning_rate(state.count))
        return {k: scaled(-rate, g) for k, g in grads.items()}, CountState(_next(state.count))

    return GradientTransformation(Rule(lambda _: CountState(_start()), update))


def trace(decay: float, nesterov: bool = False) -> GradientTransformation:
    """Add up gradients with a decay: momentum.

    `t = g + decay * t`, which is the update; with `nesterov` that is `g + decay * t`.

    >>> import cotan as ct
    >>> momentum = ct.optim.trace(0.5)
    >>> updates, state = momentum.update({"w": 1.0}, momentum.init({"w": 2.0}), {"w": 2.0})
    >>> momentum.update({"w": 1.0}, state, {"w": 2.0})[0]
    {'w': array(1.5)}
    """

    def update(grads: Leaves, state: TraceState, _: Leaves) -> tuple[Leaves, TraceState]:
        kept = merged(state.trace, grads, "trace")
        new = {k: as_array(g + decay * state.trace[k]) for k, g in grads.items()}
        updates = {k: as_array(g + decay * new[k]) for k, g in grads.items()} if nesterov else new
        return updates, TraceState({**kept, **new})

    return GradientTransformation(Rule(lambda params: TraceState(zeros(params)), update))


def scale_by_adam(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, nesterov: bool = False
) -> GradientTransformation:
    """Divide averages of gradients by the roots of averages of their squares, as `adam` does.

    >>> import cotan as ct
    >>> rule = ct.optim.scale_by_adam()
    >>> updates, _ = rule.update({"w": 5.0}, rule.init({"w": 2.0}), {"w": 2.0})
    >>> round(float(updates["w"]), 6)
    1.0
    """

    def update(grads: Leaves, state: AdamState, _: Leaves) -> tuple[Leaves, AdamState]:
        count = _next(state.count)
        mu = _averaged(state.mu, grads, b1, "adam")
        nu = _averaged(state.nu, {k: _square(g) for k, g in grads.items()}, b2, "adam")
        # Averages that begin with zeros are too small; the more, the fewer steps there were.
        unbiased, rooted = 1.0 / (1.0 - b1**count), 1.0 / (1.0 - b2**count)
        means = {k: scaled(unbiased, m) for k, m in mu.items()}
        if nesterov:
            ahead = b1 / (1.0 - b1 ** (count + 1))
            now = (1.0 - b1) * unbiased
            means = {k: scaled(ahead, mu[k]) + scaled(now, g) for k, g in grads.items()}
        updates = {k: _divided(m, np.sqrt(scaled(rooted, nu[k])) + eps) for k, m in means.items()}
        return updates, AdamState(count, {**state.mu, **mu}, {**state.nu, **nu})

    def init(params: Leaves) -> AdamState:
        return AdamState(_start(), zeros(params), _squares_of(params))

    return GradientTransformation(Rule(init, update))


def scale_by_rms(
    decay: float = 0.9, eps: float = 1e-8, centered: bool = False
) -> GradientTransformation:
    """Divide gradients by the roots of decaying averages of their squares, as `rmsprop` does.

    >>> import cotan as ct
    >>> rule = ct.optim.scale_by_rms(decay=0.75)
    >>> updates, _ = rule.update({"w": 5.0}, rule.init({"w": 2.0}), {"w": 2.0})
    >>> round(float(updates["w"]), 6)
    2.0
    """

    def update(grads: Leaves, state: SquaresState, _: Leaves) -> tuple[Leaves, SquaresState]:
        nu = _averaged(state.nu, {k: _square(g) for k, g in grads.items()}, decay, "rmsprop")
        mu, variances = {}, nu
        if centered:
            mu = _averaged(state.mu, grads, decay, "rmsprop")
            variances = {k: v - _square(mu[k]) for k, v in nu.items()}
        updates = {k: _divided(g, np.sqrt(variances[k]) + eps) for k, g in grads.items()}
        return updates, SquaresState({**state.nu, **nu}, {**state.mu, **mu})

    def init(params: Leaves) -> SquaresState:
        return SquaresState(_squares_of(params), zeros(params) if centered else {})

    return GradientTransformation(Rule(init, update))


def scale_by_rss(
    initial_accumulator_value: float = 0.0, eps: float = 1e-10
) -> GradientTransformation:
    """Divide gradients by the roots of the sums of their squares, as `adagrad` does.

    >>> import cotan as ct
    >>> rule = ct.optim.scale_by_rss()
    >>> updates, _ = rule.update({"w": 5.0}, rule.init({"w": 2.0}), {"w": 2.0})
    >>> round(float(updates["w"]), 6)
    1.0
    """

    def update(grads: Leaves, state: SquaresState, _: Leaves) -> tuple[Leaves, SquaresState]:
        kept = merged(state.nu, grads, "adagrad")
        nu = {k: as_array(state.nu[k] + _square(g)) for k, g in grads.items()}
        updates = {k: _divided(g, np.sqrt(nu[k]) + eps) for k, g in grads.items()}
        return updates, SquaresState({**kept, **nu}, {})

    def init(params: Leaves) -> SquaresState:
        return SquaresState(_squares_of(params, initial_accumulator_value), {})

    return GradientTransformation(Rule(init, update))


def add_decayed_weights(weight_decay: float, mask: object = None) -> GradientTransformation:
    """Add `weight_decay` times the parameters to the updates.

    Parameters
    ----------
    weight_decay
        The factor.
    mask
        Which parameters, as in `ct.update`: a predicate `mask(path, leaf)`, paths
        (`"layers[*].w"`), or a structure of bools. All, if it is None.

    >>> import cotan as ct
    >>> rule = ct.optim.add_decayed_weights(0.1, mask="w")
    >>> params = {"w": 1.0, "b": 1.0}
    >>> rule.update({"w": 0.0, "b": 0.0}, rule.init(params), params)[0]
    {'w': array(0.1), 'b': array(0.)}
    """

    def change(grads: Leaves, params: Leaves) -> Leaves:
        decays = [True] * len(params)
        if mask is not None:
            decays = masked("add_decayed_weights", list(params), list(params.values()), mask)
        decayed = dict(zip(params, decays, strict=True))
        return {
            k: as_array(g + weight_decay * params[k]) if decayed[k] else g for k, g in grads.items()
        }

    return _stateless(change)


def clip(max_delta: float) -> GradientTransformation:
    """Clip every element of the updates to `[-max_delta, max_delta]`.

    The real and imaginary parts of complex numbers are clipped each.

    >>> import cotan as ct
    >>> ct.optim.clip(1.0).update({"w": 3.0, "b": -0.5}, (), {"w": 0.0, "b": 0.0})[0]
    {'w': array(1.), 'b': array(-0.5)}
    """
    _expect_positive("clip", max_delta)

    def clipped(g: Any) -> AnyArray:
        if g.dtype.kind != "c":
            return as_array(np.clip(g, -max_delta, max_delta))
        parts = [np.clip(part, -max_delta, max_delta) for part in (np.real(g), np.imag(g))]
        return as_array((parts[0] + 1j * parts[1]).astype(g.dtype))

    return _stateless(lambda grads, _: {k: clipped(g) for k, g in grads.items()})


def clip_by_global_norm(max_norm: float) -> GradientTransformation:
    """Scale updates down together, if their norm is above `max_norm`.

    R. Pascanu, T. Mikolov and Y. Bengio, "On the difficulty of training recurrent neural networks",
    2013.

    >>> import cotan as ct
    >>> ct.optim.clip_by_global_norm(1.0).update({"w": 3.0, "b": 4.0}, (), {"w": 0.0, "b": 0.0})[0]
    {'w': array(0.6), 'b': array(0.8)}
    """
    _expect_positive("clip_by_global_norm", max_norm)

    def change(grads: Leaves, _: Leaves) -> Leaves:
        if not grads:
            return grads
        norm = global_norm(grads)
        # Not max_norm / norm, which is not a number where all are zero.
        factor = max_norm / np.maximum(norm, max_norm)
        return {k: scaled(as_array(factor), g) for k, g in grads.items()}

    return _stateless(change, needs_all=True)


def global_norm(tree: object) -> Any:
    """Give the Euclidean norm of all numbers of a structure.

    >>> import cotan as ct
    >>> float(ct.optim.global_norm({"w": 3.0, "b": [4.0, None]}))
    5.0
    """
    leaves = [as_array(leaf) for leaf in tree_leaves(tree)]
    # In double precision: squares of half precision overflow.
    squares = [np.sum(_square(leaf).astype(float)) for leaf in leaves if leaf.dtype.kind in "fc"]
    return np.sqrt(sum(squares, 0.0))


def _expect_number(what: str, number: object, wanted: str = "a number") -> None:
    """Raise `TypeError` for what has no arithmetic: text, None, lists."""
    if not hasattr(number, "__neg__"):
        raise TypeError(f"{what} must be {wanted}, not {number!r}")


def _expect_positive(operation: str, number: float) -> None:
    _expect_number(f"{operation}: the limit", number)
    if not number > 0:
        raise ValueError(f"{operation}: the limit must be positive, not {number}")
