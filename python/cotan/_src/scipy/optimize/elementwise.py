"""Overrides of `scipy.optimize.elementwise`: roots and minima, found for each element.

SciPy finds them, on values. A step of Newton's method has their derivatives, as in
`kit.implicit_diff`; here the derivative of the equation is one number for each element.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from cotan import _core
from cotan._src.kit.callbacks import more_of
from cotan._src.kit.implicit_diff import stacked
from cotan._src.rebind.engine import locate_original
from cotan._src.runtime.registry import ALWAYS, override
from cotan._src.runtime.values import attach_derivative, contains_active
from cotan._src.scipy.optimize.solver_arguments import (
    slope_of,
)
from cotan._src.state.callback_probe import CallbackProbe, to_numpy_items
from cotan._src.state.solver_replay import ReplayedCallback
from cotan._src.typing import AnyArray, ArrayLike, Function

_HERE = "scipy.optimize.elementwise"


class _Found(Protocol):
    """What the functions of this module give: for each element one number."""

    x: AnyArray
    f_x: AnyArray


def _solved(name: str, equation: Function, x: AnyArray) -> AnyArray:
    at = np.array(_core.value(x), np.float64, ndmin=1)
    y, back = _core.pullback(lambda v: stacked(equation(v)), at)
    (row,) = back(np.ones(y.shape))
    slope = np.zeros(at.shape) if row is None else np.asarray(_core.value(row))
    if not np.all(np.isfinite(at)) or not np.all(np.isfinite(slope) & (slope != 0)):
        raise ValueError(
            f"{name}: the equation of an element has no solution, or its derivative there is 0, so "
            "the solution has no derivative; hold it constant with ct.dropgrad"
        )
    moved = _core.asarray(at)
    for _ in range(max(1, _core.nestlevel())):
        moved = moved - stacked(equation(moved)) / slope
    return attach_derivative(at, moved).reshape(np.shape(x))[()]


def _lift(name: str, equation_of: Callable[[Function], Function]) -> None:
    @override(f"{_HERE}.{name}", when=ALWAYS)
    def find(f: Function, init: ArrayLike | tuple[ArrayLike, ...], /, *, args: object = (),
             **options: object) -> _Found:  # fmt: skip
        function, more = ReplayedCallback(f, args), more_of(args)
        result: _Found = function.wrap_solver(locate_original(f"{_HERE}.{name}"))(
            function, to_numpy_items(init), args=to_numpy_items(more), **options
        )
        if function.captures_active or contains_active(more):
            again = function.from_initial_state(f)

            def call(v: AnyArray) -> AnyArray:
                values: AnyArray = again(v, *more)
                return values

            result.x = _solved(name, equation_of(call), result.x)
            result.f_x = call(result.x)
            function.write_back(result.x, more)
        return result


def _lift_bracket(name: str) -> None:
    @override(f"{_HERE}.{name}", when=ALWAYS)
    def bracket(f: Function, *rest: object, args: object = (), **options: object) -> object:
        """Where one looks for a solution has no influence on it."""
        options = {key: to_numpy_items(value) for key, value in options.items()}
        more = to_numpy_items(more_of(args))
        result: object = locate_original(f"{_HERE}.{name}")(
            CallbackProbe(f), *to_numpy_items(rest), args=more, **options
        )
        return result


def _slope(call: Function) -> Callable[[AnyArray], AnyArray]:
    return slope_of("elementwise.find_minimum", lambda v: _core.sum(stacked(call(v))))


_lift("find_root", lambda call: call)
_lift("find_minimum", _slope)
for _name in ("bracket_root", "bracket_minimum"):
    _lift_bracket(_name)
