"""Override of `scipy.integrate.odeint`.

`odeint` is compiled, and does not tell which steps it took. The times at which it calls the right
side do; a second run gives the states within these steps, and the derivative is that along them.
Where that does not do, it is that of an integrator with the same tolerances.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.kit.callbacks import more_of
from cotan._src.rebind.engine import locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import ALWAYS, override
from cotan._src.runtime.values import attach_derivative, contains_active, to_numpy
from cotan._src.scipy.integrate.collocation_steps import CollocationSteps
from cotan._src.scipy.integrate.moved_states import MovedStates
from cotan._src.scipy.integrate.plain_run import PlainRun, plain_slopes
from cotan._src.scipy.integrate.repeated_steps import (
    Called,
    Time,
    call_again,
    log_of,
    repeated_steps,
    slope_of,
    states_at,
)
from cotan._src.scipy.integrate.right_side import RightSide
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.state.plain_copy import NotPlainError, is_gradient
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import AnyArray, ArrayLike, Function, NDArray

# The tolerances of `odeint`.
_USUAL = 1.49012e-8
# Calls are noted up to so many numbers; a second run computes the rest again.
_NOTED = 4_000_000
# What `odeint` says where it has come to the end.
_FINE = "Integration successful."
#: What `odeint` gives with full output.
_Found = tuple[NDArray, dict[str, Any]]


class _Options(NamedTuple):
    """Options of `odeint` that matter for the derivative."""

    jac: Any
    ml: int | None
    mu: int | None
    rtol: Any
    atol: Any


def _at_once(
    solve: Callable[[Function, Any, Any, NDArray, float | None], _Found],
    func: Function,
    y0: ArrayLike,
    t: ArrayLike,
    args: Any,
    options: _Options,
    state_first: bool,
) -> tuple[AnyArray, dict[str, Any]] | None:
    """Give what `odeint` gives, with its derivatives; None where another way is needed."""
    if not is_gradient() or contains_active((t, *options[1:])):
        return None
    times = np.array(to_numpy_items(t), np.float64)
    has_bands = not (options.ml is None and options.mu is None)
    if times.ndim != 1 or not times.size or times[0] == times[-1]:
        return None
    if has_bands and callable(options.jac):
        return None
    side = RightSide(func, more_of(args), options.jac, state_first)
    if not side.captures and not contains_active((y0, args)):
        return None

    jac = plain_slopes(side.jac) if callable(side.jac) else None

    def solve_plainly() -> tuple[_Found, PlainRun]:
        run = PlainRun(side.direct, _NOTED, side.key is not None, state_first)
        found = solve(run.function, side.values, jac, times, None)
        if found[1]["message"] != _FINE:
            raise NotPlainError
        return found, run

    def derived(found: tuple[_Found, PlainRun]) -> tuple[AnyArray, dict[str, Any]]:
        (y, info), run = found

        def states_at(at: NDArray) -> NDArray:
            # The first time is that of the initial state. With the same first step, which else
            # depends on the times, the calls are those of the first run, and steps end at nodes.
            # LSODA allows for rounding where it looks whether a time is in its last step, but on
            # the wrong side, if times go towards zero: it refuses such nodes then.
            calls, (first, *rest) = run.function.again(), run.function.called()[:2]
            step = rest[0] - first if rest and (rest[0] - first) * first >= 0 else None
            states, info = _core.call_outside(lambda: solve(calls, side.values, jac, at, step))
            if info["message"] != _FINE:
                raise NotPlainError
            return states

        mesh = run.mesh(times[0], times[-1])
        steps = CollocationSteps.along(mesh, np.size(y[0]), _tolerances(options), states_at)
        moved = MovedStates("odeint", side, run, steps, y0)
        if not moved.is_active:
            return y, info
        return attach_derivative(y, moved.at(steps.outputs(times))), info

    attempted: tuple[AnyArray, dict[str, Any]] | None = side.run(solve_plainly, derived)
    return attempted


def _tolerances(options: _Options) -> tuple[Any, Any]:
    rtol, atol = to_numpy(options.rtol), to_numpy(options.atol)
    return _USUAL if options.rtol is None else rtol, _USUAL if options.atol is None else atol


@override("scipy.integrate.odeint", when=ALWAYS)
def odeint(func: Function, y0: ArrayLike, t: ArrayLike, args: object = (),
           Dfun: Function | None = None, col_deriv: int = 0,  # noqa: N803
           full_output: int = 0, ml: int | None = None, mu: int | None = None,
           rtol: ArrayLike | None = None, atol: ArrayLike | None = None,
           tcrit: ArrayLike | None = None, h0: float = 0.0,
           hmax: float = 0.0, hmin: float = 0.0, ixpr: int = 0, mxstep: int = 0,
           mxhnil: int = 0, mxordn: int = 12, mxords: int = 5, printmessg: int = 0,
           tfirst: bool = False) -> AnyArray | tuple[AnyArray, dict[str, object]]:  # fmt: skip
    solve = locate_original("scipy.integrate.odeint")
    before = col_deriv, 1, ml, mu, to_numpy(rtol), to_numpy(atol), tcrit
    behind = hmax, hmin, ixpr, mxstep, mxhnil, mxordn, mxords, printmessg, tfirst

    def solve_plain(
        function: Function, values: Any, slopes: Any, times: NDArray, first_step: float | None
    ) -> _Found:
        first = h0 or first_step or 0.0
        start = to_numpy_items(y0)
        found: _Found = solve(function, start, times, values, slopes, *before, first, *behind)
        return found

    chosen = _Options(Dfun, ml, mu, rtol, atol)
    found = None
    if tcrit is None and not contains_active((h0, hmax, hmin)):
        found = _at_once(solve_plain, func, y0, t, args, chosen, not tfirst)
    if found is not None:
        return found if full_output else found[0]
    function = Called(func, state_at=int(tfirst))
    snapshot = StateSnapshot(func, args, Dfun)
    more = more_of(args)
    slopes = Called(Dfun, int(tfirst), function.history) if callable(Dfun) else Dfun
    y, info = solve(
        function, to_numpy_items(y0), to_numpy_items(t), to_numpy_items(more), slopes,
        *before, h0, *behind,
    )  # fmt: skip
    if function.captures_active or contains_active((y0, t, more)):

        def ordered(t: Time, y: AnyArray, *more: object) -> object:
            return func(t, y, *more) if tfirst else func(y, t, *more)

        # What is stiff was integrated by formulas for that, and so it is here.
        stiff = np.any(np.asarray(info["mused"]) == 2)
        method = "Radau" if stiff else "DOP853"
        options = {
            "rtol": _USUAL if rtol is None else float(np.min(to_numpy(rtol))),
            "atol": _USUAL if atol is None else to_numpy(atol),
        }
        times = asarray(t)
        start = _core.asarray(np.atleast_1d(asarray(y0)), np.float64)
        slope = slope_of(ordered, more, np.dtype(np.float64))
        span = (times[0], times[-1])
        function.expect_again("odeint")
        has_changed = snapshot.restore()
        if to_numpy(times[0]) == to_numpy(times[-1]):  # no time passes
            rows: AnyArray = np.stack(
                [start + slope(times[0], start) * (at - times[0]) for at in times]
            )
        else:
            log = log_of(method, ordered, span, to_numpy(start), more, options)
            if has_changed:
                snapshot.restore()
            steps = repeated_steps(method, slope, log, span, start)
            rows = _core.concatenate([start[None, :], states_at(steps, times[1:]).T])
            if has_changed:
                call_again(snapshot, function.history, more, steps)
        y = attach_derivative(y, rows)
    return (y, info) if full_output else y
