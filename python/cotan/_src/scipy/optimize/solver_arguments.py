"""Arguments and results of the solvers of `scipy.optimize`, as all of their rules read them."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.callbacks import more_of
from cotan._src.kit.implicit_diff import without_rule
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.values import contains_active, to_numpy
from cotan._src.state.callback_probe import (
    probed,
    to_numpy_items,
)
from cotan._src.typing import AnyArray, ArrayLike, Function, NDArray

_HERE = "scipy.optimize"


class Bounds(Protocol):
    """The bounds of variables, as `scipy.optimize.Bounds` has them."""

    lb: NDArray
    ub: NDArray


class Result(Protocol):
    """What solvers of `scipy.optimize` give."""

    x: AnyArray
    fun: AnyArray
    jac: AnyArray
    # Minima in several places.
    xl: AnyArray
    funl: AnyArray
    status: int
    nfev: int
    nit: int

    def get(self, name: str, /) -> Any: ...
    def __getitem__(self, name: str, /) -> Any: ...
    def __setitem__(self, name: str, value: Any, /) -> None: ...
    def __contains__(self, name: str, /) -> bool: ...


class FitResult(Result, Protocol):
    """What solvers of least squares give."""

    cost: AnyArray
    grad: AnyArray
    active_mask: NDArray
    unbounded_sol: tuple[Any, ...]


class RootResult(Protocol):
    """What solvers of equations in one variable give."""

    root: AnyArray | float


class Constraint(Protocol):
    """A constraint, as `scipy.optimize.LinearConstraint` is one."""

    lb: ArrayLike
    ub: ArrayLike
    keep_feasible: bool | Sequence[bool]


#: The ends between which variables lie: an object, or a pair for each variable.
Limits: TypeAlias = Bounds | Sequence[tuple[float | None, float | None]]
#: One constraint or several: objects of SciPy's, or dictionaries.
Constraints: TypeAlias = (
    Constraint
    | dict[str, Any]
    | list[Constraint | dict[str, Any]]
    | tuple[Constraint | dict[str, Any], ...]
)


def probed_all(options: Mapping[str, object]) -> dict[str, Any]:
    """Wrap the functions among options, in constraints too, and give the rest as values."""
    return {k: probed_items(v) for k, v in options.items()}


def probed_items(value: Any) -> Any:
    """Give options for SciPy: their functions probed, values of everything else."""
    if isinstance(value, dict):
        return {k: probed_items(v) for k, v in value.items()}
    if _is_constraint(value):
        value = copy.copy(value)
        for name, part in vars(value).items():
            setattr(value, name, probed(part) if name == "fun" else to_numpy_items(part))
        return value
    if isinstance(value, (list, tuple)) and any(
        isinstance(v, dict) or _is_constraint(v) for v in value
    ):
        return type(value)(map(probed_items, value))
    return (
        probed(value) if callable(value) and not isinstance(value, type) else to_numpy_items(value)
    )


def _is_constraint(value: object) -> bool:
    """Say whether something is a `NonlinearConstraint` or a `LinearConstraint`."""
    return hasattr(value, "keep_feasible") and (
        callable(getattr(value, "fun", None)) or hasattr(value, "A")
    )


def with_args(function: Function, args: object) -> Function:
    """Give a function of a vector alone, the further arguments being `args`."""
    more = more_of(args)
    return lambda x: function(x, *more)


def slope_of(name: str, function: Function) -> Callable[[AnyArray], AnyArray]:
    """Give the gradient of a real function of a vector."""

    def gradient(x: AnyArray) -> AnyArray:
        g: AnyArray | None
        (g,) = _core.gradient(lambda x: asarray(function(x)).reshape(()), x)
        if g is None:
            raise ValueError(f"{name}: the function does not depend on the vector")
        return g

    return gradient


def plain_of(options: Mapping[str, object]) -> dict[str, object]:
    """Give options with values in place of arrays."""
    return {k: to_numpy_items(v) for k, v in options.items()}


def mark_estimated(
    name: str, report: Result | dict[str, Any], parts: tuple[str, ...], on: AnyArray
) -> None:
    """Let what a solver estimates say that it has no derivative, where one is asked for."""
    for part in parts:
        if report.get(part) is not None:
            report[part] = estimated(f"{part} of {name}", report[part], on)


def estimated(what: str, value: Any, on: AnyArray) -> Any:
    """Give a matrix that a solver estimates, in any form, so that it says it has no derivative."""
    if isinstance(value, np.ndarray):
        return without_rule(what, value, on)
    marked = copy.copy(value)
    if hasattr(value, "tocoo"):
        marked.data = without_rule(what, value.data, on)
    elif hasattr(value, "matmat"):

        class Estimated(type(value)):  # type: ignore[misc]
            def dot(self, x: ArrayLike) -> Array:
                return without_rule(what, value.dot(to_numpy(x)), on)

            matvec = matmat = dot

            def todense(self) -> Array:
                return without_rule(what, value.todense(), on)

        Estimated.__name__ = Estimated.__qualname__ = type(value).__name__
        marked.__class__ = Estimated
    return marked


def expect_constant_bounds(name: str, bounds: object) -> None:
    """Raise `NotDifferentiableError` for bounds that are active."""
    items = vars(bounds).values() if hasattr(bounds, "lb") else (bounds,)
    # `brute` takes slices, too.
    ranges = bounds if isinstance(bounds, (list, tuple)) else ()
    ends = [(x.start, x.stop, x.step) for x in ranges if isinstance(x, slice)]
    if contains_active((*items, ends)):
        raise NotDifferentiableError(
            f"{name}: active bounds have no derivative rule in cotan; pass them as constraints, or "
            "hold them constant with ct.dropgrad"
        )
