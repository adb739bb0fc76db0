"""Divides the state of an optimiser among ranks: each keeps that of some of the parameters.

Problem: Adam keeps two arrays for each one of the parameters, on every rank the same ones.
"""

from typing import Any, Protocol, TypeVar

import numpy as np

from cotan import _core
from cotan._src.optim.transformation import GradientTransformation, as_array, split_by_path
from cotan._src.tree.update import trainable_leaves
from cotan._src.typing import NDArray

_Params = TypeVar("_Params")


class Ranks(Protocol):
    """What a `Communicator` is to an optimiser."""

    @property
    def rank(self) -> int:
        """The number of this rank."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    def allgather(self, vector: Any) -> NDArray:
        """Put the vectors of all ranks one after the other."""


class ShardedOptimizer:
    """An optimiser whose state is divided among the ranks: made by `Communicator.shard`."""

    def __init__(self, optimizer: GradientTransformation, comm: Ranks) -> None:
        if not isinstance(optimizer, GradientTransformation):
            raise TypeError(
                f"shard: takes an optimiser of ct.optim, not {type(optimizer).__name__}"
            )
        if optimizer._rule.needs_all:
            raise TypeError(
                "shard: the optimiser looks at all gradients together (clip_by_global_norm, "
                "from_optax), and a rank would see its own only; apply that part to the gradient "
                "before, with its own update"
            )
        self._rule, self._comm = optimizer._rule, comm

    def init(self, params: object) -> Any:
        """Give this rank's part of the state before the first step."""
        leaves = {path: as_array(leaf) for path, leaf in trainable_leaves(params).items()}
        owner = self._owners(leaves)
        return self._rule.init({k: v for k, v in leaves.items() if owner[k] == self._comm.rank})

    def step(self, grads: object, state: Any, params: _Params) -> tuple[_Params, Any]:
        """Give the next parameters and this rank's next state; `grads` are alike on all ranks.

        Raises `ValueError` when the gradient does not fit the parameters.
        """
        split = split_by_path(grads, params)
        owner = self._owners(
            {path: as_array(leaf) for path, leaf in trainable_leaves(params).items()}
        )
        mine = {k: g for k, g in split.grads.items() if owner[k] == self._comm.rank}
        changes, state = self._rule.update(mine, state, split.leaves)
        return split.applied(self._exchanged(changes, split.grads, owner)), state

    def _exchanged(
        self, mine: dict[str, Any], grads: dict[str, Any], owner: dict[str, int]
    ) -> dict[str, NDArray]:
        """Give the updates of all ranks, one exchange for each dtype."""
        found = {}
        for dtype in dict.fromkeys(_core.value(g).dtype for g in grads.values()):
            paths = [k for k, g in grads.items() if g.dtype == dtype]
            # In the order of the ranks, as they are put together.
            paths.sort(key=lambda path: owner[path])
            own = [_core.value(mine[k]).astype(dtype).reshape(-1) for k in paths if k in mine]
            whole = self._comm.allgather(np.concatenate(own) if own else np.zeros(0, dtype))
            start = 0
            for path in paths:
                shape = grads[path].shape
                stop = start + int(np.prod(shape, dtype=np.int64))
                found[path] = whole[start:stop].reshape(shape)
                start = stop
        return found

    def _owners(self, leaves: dict[str, Any]) -> dict[str, int]:
        """Give each array to a rank: the largest first, to the rank that has least."""
        load = [0] * self._comm.size
        owner = {}
        for path in sorted(leaves, key=lambda path: -int(leaves[path].nbytes)):
            rank = load.index(min(load))
            owner[path] = rank
            load[rank] += max(1, int(leaves[path].nbytes))
        return owner
