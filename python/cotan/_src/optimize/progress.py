"""Says how far a solver has come: `progress=` of the solvers, and `callback=` over structures."""

import inspect
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cotan._src.optimize.solvers import scipy_module
from cotan._src.optimize.unknowns import Unknowns
from cotan._src.typing import Function


class Progress(NamedTuple):
    """What `progress=` is called with after each iteration of a solver.

    >>> import cotan as ct
    >>> str(ct.optimize.Progress(iteration=3, value=0.5, slope=1e-3))
    'iteration 3: value 0.5, largest slope 0.001'
    """

    iteration: int
    value: float | None
    """The value of the objective there; None if the solver does not say."""
    slope: float | None
    """The largest element of its gradient, in absolute terms; None if the solver has none."""

    def __str__(self) -> str:
        text = f"iteration {self.iteration}"
        if self.value is not None:
            text += f": value {self.value:.6g}"
        return text if self.slope is None else f"{text}, largest slope {self.slope:.3g}"


#: What `progress=` takes.
Watcher: TypeAlias = bool | Callable[[Progress], object]


class Watch:
    """Hands what a solver tells after each iteration to the user's functions."""

    def __init__(
        self,
        unknowns: Unknowns,
        callback: Function | None,
        progress: Watcher,
        recall: Callable[[Any], tuple[Any, Any]] = lambda x: (None, None),  # noqa: ARG005
    ) -> None:
        self._unknowns = unknowns
        self._callback = callback
        self._takes_result = callback is not None and _takes_result(callback)
        self._progress: Watcher = progress
        # Gives value and gradient at a place, if they are known there.
        self._recall = recall
        self._iteration = 0

    @property
    def is_needed(self) -> bool:
        """Whether anybody wants to know."""
        return self._callback is not None or bool(self._progress)

    def after_iteration(self, intermediate_result: Any) -> Any:
        """Take what SciPy calls an intermediate result."""
        self._iteration += 1
        if self._progress:
            self._report(intermediate_result)
        if self._callback is None:
            return None
        x = self._unknowns.structure(np.array(intermediate_result.x))
        if not self._takes_result:
            return self._callback(x)
        told = type(intermediate_result)(intermediate_result)
        told.x = x
        return self._callback(intermediate_result=told)

    def after_step(self, x: Any, *_: object) -> Any:
        """Take a vector: what solvers give that make no intermediate results."""
        return self.after_iteration(scipy_module("scipy.optimize").OptimizeResult(x=x))

    def _report(self, told: Any) -> None:
        value, slope = self._recall(told.x)
        # Fits have residuals in the place of the value, and call the value a cost.
        for name in ("fun", "cost"):
            if np.size(told.get(name)) == 1 and told.get(name) is not None:
                value = told[name]
        for name in ("jac", "grad"):
            if np.shape(told.get(name)) == np.shape(told.x):
                slope = told[name]
        progress = Progress(
            self._iteration,
            None if value is None else float(np.reshape(value, ())),
            None if slope is None else float(np.max(np.abs(slope))),
        )
        if callable(self._progress):
            self._progress(progress)
        else:
            print(progress, file=sys.stderr)


def _takes_result(callback: Function) -> bool:
    try:
        return set(inspect.signature(callback).parameters) == {"intermediate_result"}
    except (TypeError, ValueError):
        return False
