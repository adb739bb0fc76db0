"""What a row of the table is: a workload, how each library's users write it, and its reference."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cotan._src.bench.workloads import Arrays, Workload

__all__ = ["Arrays", "Builder", "Row", "from_workload", "rng"]

# Makes a call without arguments that returns (value, gradients) from the arguments of a row.
Builder = Callable[..., Callable[[], Any]]


@dataclass(frozen=True)
class Row(Workload):
    """A workload with a small copy of its arguments, for the tests, and calls of other kinds."""

    # The gradient that somebody would write in NumPy; where nobody has, differences are compared.
    by_hand: Callable[..., tuple[Any, Arrays]] | None = None
    tiny: Callable[[], Arrays] | None = None  # the arguments of the tests
    # For what is no value with gradients: by library, what makes the call.
    builders: Mapping[str, Builder] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)  # libraries left out, and why
    before: Callable[[], object] | None = None  # runs before each call that is timed
    torch_func: bool = False  # PyTorch's function transforms take part
    step: float = 1e-3  # of the differences, along a direction of length one
    dtype: str = "float64"

    def small(self) -> "Row":
        """Return the same with the arguments of the tests."""
        return replace(self, data=self.tiny or self.data)


def rng() -> np.random.Generator:
    """Give the generator that all arguments are drawn from."""
    return np.random.default_rng(0)


def from_workload(w: Workload, **more: Any) -> Row:
    """Make a row of a workload of `peers.py`, with more to it."""
    kept = {key: getattr(w, key) for key in Workload.__dataclass_fields__}
    return Row(**{**kept, "targets": (None, None), "eager_target": None, **more})
