"""Optimisers of optax for parameters of any structure: `from_optax`.

Problem: optax works on structures that JAX knows, and gives arrays of JAX. It is handed a
dictionary of ndarrays by path, and what it gives becomes ndarrays.
"""

from typing import Any, Protocol

import numpy as np

from cotan import _core
from cotan._src.optim.transformation import GradientTransformation, Leaves, Rule


class _Optax(Protocol):
    """What `optax.GradientTransformation` is."""

    def init(self, params: Any) -> Any:
        """Give the first state."""

    def update(self, updates: Any, state: Any, params: Any = None) -> Any:
        """Give updates and the next state."""


def from_optax(transformation: _Optax) -> GradientTransformation:
    """Make an optimiser of one of optax's.

    Parameters
    ----------
    transformation
        What `optax.adam(1e-3)` and the like return: an object with `init` and `update`.

    Returns
    -------
    GradientTransformation
        Its updates are ndarrays of the dtypes of the parameters; its state is optax's own. It
        cannot be part of a prepared function, as JAX computes it. To parameters without a gradient
        optax is told a gradient of zeros, and they stay as they are.

    Raises
    ------
    TypeError
        When it is no such object, or a step is recorded.

    Notes
    -----
    JAX computes in single precision unless `jax_enable_x64` is set. `opt.step` or
    `ct.optim.apply_updates` adds the updates. `optax.apply_updates` does not: it refuses objects,
    and of containers it makes arrays of JAX, which `ct.gradient` refuses in its turn.

    >>> import cotan as ct
    >>> class Descent:  # in place of optax.sgd(0.25)
    ...     def init(self, params):
    ...         return ()
    ...     def update(self, updates, state, params=None):
    ...         return {path: -0.25 * g for path, g in updates.items()}, state
    >>> opt = ct.optim.from_optax(Descent())
    >>> opt.step({"w": 4.0}, opt.init({"w": 2.0}), {"w": 2.0})[0]
    {'w': 1.0}
    """
    if not (callable(getattr(transformation, "init", None)) and hasattr(transformation, "update")):
        raise TypeError(
            "from_optax: takes an optimiser of optax, with init and update; not "
            f"{type(transformation).__name__}"
        )

    def update(grads: Leaves, state: Any, params: Leaves) -> tuple[Leaves, Any]:
        inner, names = state
        if not {*grads} <= {*names} <= {*params}:
            raise ValueError(
                "from_optax: the parameters are not those that init was called with, which were "
                f"{', '.join(names) or 'none that are trained'}; they are {', '.join(params)}"
            )
        known = {path: _plain(params[path]) for path in names}
        told = {k: _plain(grads[k]) if k in grads else np.zeros_like(p) for k, p in known.items()}
        changes, inner = transformation.update(told, inner, known)
        return {k: np.asarray(changes[k]).astype(known[k].dtype) for k in grads}, (inner, names)

    def init(params: Leaves) -> Any:
        plain = {path: _plain(leaf) for path, leaf in params.items()}
        return transformation.init(plain), tuple(plain)

    return GradientTransformation(Rule(init, update, needs_all=True))


def _plain(x: Any) -> Any:
    if isinstance(x, _core.Array) and (_core.is_active(x) or _core.is_traced(x)):
        raise TypeError(
            "from_optax: a step of optax cannot be recorded; use an optimiser of ct.optim inside "
            "of prepared and differentiated functions"
        )
    return np.asarray(x)
