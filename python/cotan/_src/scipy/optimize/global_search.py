"""Overrides of the global and derivative-free searches of `scipy.optimize`, and of large solvers.

Comparing two values has no derivative, so code that only compares would drop it silently. Where a
search ends there is a minimum, and the result is differentiated as one.
"""

import functools
import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.kit.callbacks import more_of
from cotan._src.kit.implicit_diff import stacked
from cotan._src.rebind.engine import REBOUND, locate, locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import ALWAYS, named, override
from cotan._src.runtime.values import attach_derivative, contains_active, to_numpy
from cotan._src.scipy.optimize.minima import (
    constraints_from_initial_state,
    inside_of,
    minimize_scalar,
    minimum_of,
    moving,
)
from cotan._src.scipy.optimize.roots import (
    root_of,
)
from cotan._src.scipy.optimize.solver_arguments import (
    Limits,
    Result,
    expect_constant_bounds,
    probed_all,
    with_args,
)
from cotan._src.state.callback_probe import CallbackProbe, to_numpy_items
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.state.solver_replay import ReplayedCallback
from cotan._src.typing import AnyArray, ArrayLike, Function, NDArray

_HERE = "scipy.optimize"


class _Isotonic(Protocol):
    """What `isotonic_regression` gives."""

    x: AnyArray
    weights: AnyArray
    blocks: NDArray


# --------------------------------------------------------------------------------------------------
# Older names for the methods of `minimize_scalar`


@override(f"{_HERE}.brent", when=ALWAYS)
def brent(func: Function, args: object = (), brack: Sequence[ArrayLike] | None = None,
          tol: float = 1.48e-8, full_output: bool | int = 0,
          maxiter: int = 500) -> AnyArray | tuple[AnyArray | int, ...]:  # fmt: skip
    options = {"xtol": tol, "maxiter": maxiter}
    r = minimize_scalar(func, brack, args=args, method="brent", options=options)
    return (r.x, r.fun, r.nit, r.nfev) if full_output else r.x


@override(f"{_HERE}.golden", when=ALWAYS)
def golden(func: Function, args: object = (), brack: Sequence[ArrayLike] | None = None,
           tol: float = float(np.sqrt(np.finfo(float).eps)), full_output: bool | int = 0,
           maxiter: int = 5000) -> AnyArray | tuple[AnyArray | int, ...]:  # fmt: skip
    options = {"xtol": tol, "maxiter": maxiter}
    r = minimize_scalar(func, brack, args=args, method="golden", options=options)
    return (r.x, r.fun, r.nfev) if full_output else r.x


@override(f"{_HERE}.fminbound", when=ALWAYS)
def fminbound(func: Function, x1: ArrayLike, x2: ArrayLike, args: object = (), xtol: float = 1e-5,
              maxfun: int = 500, full_output: bool | int = 0,
              disp: int = 1) -> AnyArray | tuple[AnyArray | int, ...]:  # fmt: skip
    options = {"xatol": xtol, "maxiter": maxfun, "disp": disp}
    r = minimize_scalar(func, bounds=(x1, x2), args=args, method="bounded", options=options)
    return (r.x, r.fun, r.status, r.nfev) if full_output else r.x


# --------------------------------------------------------------------------------------------------
# Global minima


def _global(name: str) -> None:
    @override(f"{_HERE}.{name}", when=ALWAYS)
    def solve(func: Function, bounds: Limits, *rest: object, **options: Any) -> Result:
        expect_constant_bounds(name, bounds)
        original = locate_original(f"{_HERE}.{name}")
        names = list(inspect.signature(original).parameters)[2:]
        options |= dict(zip(names, rest, strict=False))
        args = options.pop("args", ())
        function, more = ReplayedCallback(func, args, options.get("constraints")), more_of(args)
        given = {} if name == "direct" and not more else {"args": to_numpy_items(more)}
        others = probed_all(options)
        result: Result = function.wrap_solver(original)(function, bounds, **given, **others)
        inner, its = (o.get("minimizer_kwargs") or {} for o in (options, others))
        if moving(inner.get("constraints") or (), its.get("constraints") or ()):
            raise NotDifferentiableError(
                f"{name}: constraints of its local searches (minimizer_kwargs) have no derivative "
                "rule in cotan; continue from its result with minimize under these constraints, or "
                "hold them constant with ct.dropgrad"
            )
        constraints = options.get("constraints") or ()
        moves = moving(constraints, others.get("constraints") or ())
        if not (function.captures_active or moves or contains_active((more, options.get("x0")))):
            return result
        call = with_args(function.from_initial_state(func), more)
        constraints = constraints_from_initial_state(function, constraints)
        result.x = inside_of(name, call, result.x, bounds, constraints)
        result.fun = asarray(call(result.x)).reshape(())[()]
        if "xl" in result:
            # Minima in several places, of which the first is the smallest.
            minima = [inside_of(name, call, x, bounds, constraints) for x in result.xl]
            result.xl = np.stack(minima)
            result.funl = np.stack([asarray(call(x)).reshape(()) for x in minima])
        function.write_back(result.x, more)
        return result


for _name in ("differential_evolution", "direct", "dual_annealing", "shgo"):
    _global(_name)


def _constant(function: Any) -> Any:
    """Let a function give compiled code ndarrays; an active value is refused by who converts it."""

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        y = function(*args, **kwargs)
        return y if contains_active((y,)) else to_numpy_items(y)

    return call


@override(f"{_HERE}.basinhopping", when=ALWAYS)
def basinhopping(func: Function, x0: ArrayLike, *args: object, **kwargs: object) -> Result:
    original = locate_original(f"{_HERE}.basinhopping")
    given = inspect.signature(original).bind(_constant(func), x0, *args, **kwargs)
    inner: Any = given.arguments.get("minimizer_kwargs") or {}
    slopes = {k: _constant(inner[k]) for k in ("jac", "hess", "hessp") if callable(inner.get(k))}
    given.arguments["minimizer_kwargs"] = {**inner, **slopes}
    result: Result = original(*given.args, **given.kwargs)
    return result


@override(f"{_HERE}.brute", when=ALWAYS)
def brute(func: Function, ranges: Sequence[slice | tuple[float, float]], args: object = (),
          *rest: object, **options: object) -> AnyArray | tuple[object, ...]:  # fmt: skip
    function, more = ReplayedCallback(func, args), tuple(args) if np.iterable(args) else (args,)
    expect_constant_bounds("brute", ranges)
    result: NDArray | tuple[object, ...] = function.wrap_solver(locate_original(f"{_HERE}.brute"))(
        function, to_numpy_items(ranges), to_numpy_items(more), *rest, **options
    )
    if not function.captures_active and not contains_active(more):
        return result
    if isinstance(result, tuple):
        raise NotDifferentiableError(
            "brute: full_output=True returns the values on the grid, which have no derivative rule "
            "in cotan; evaluate the function where they are needed"
        )
    finish = rest[2] if len(rest) > 2 else options.get("finish", True)
    # Which point of the grid is the best one is constant where it does not jump.
    y = (
        minimum_of("brute", with_args(function.from_initial_state(func), more), result)
        if finish
        else result
    )
    function.write_back(y, more)
    return y


# --------------------------------------------------------------------------------------------------
# Differences


@override(f"{_HERE}.approx_fprime", when=ALWAYS)
def approx_fprime(
    xk: ArrayLike, f: Function, epsilon: ArrayLike = 2.0**-26, *args: object
) -> AnyArray:
    """Give the quotients of differences that SciPy gives."""
    function, snapshot = CallbackProbe(f), StateSnapshot(f, args)
    known: NDArray = locate_original(f"{_HERE}.approx_fprime")(
        to_numpy_items(xk), function, to_numpy(epsilon), *to_numpy_items(args)
    )
    if not function.captures_active and not contains_active((xk, args)):
        return known
    snapshot.restore()
    x = np.atleast_1d(asarray(xk, np.float64))
    at = np.asarray(to_numpy(x))
    steps = (at + to_numpy(epsilon)) - at
    steps = np.where(steps == 0, 1e-8 * np.maximum(1, np.abs(at)), steps)
    here = stacked(f(x, *args)).reshape(-1)
    columns = [(stacked(f(x + step, *args)).reshape(-1) - here) for step in np.diag(steps)]
    quotients = np.stack(columns, axis=1) / steps
    result: AnyArray = attach_derivative(known, quotients.reshape(np.shape(known)))
    return result


# --------------------------------------------------------------------------------------------------
# Large systems of equations


def _nonlinear(name: str) -> None:
    @override(f"{_HERE}.{name}", when=ALWAYS)
    def solve(
        F: Function,  # noqa: N803
        xin: ArrayLike,
        *rest: object,
        **options: object,
    ) -> AnyArray:
        function = ReplayedCallback(F)
        solver = function.wrap_solver(locate_original(f"{_HERE}.{name}"))
        x: NDArray = solver(function, to_numpy_items(xin), *rest, **probed_all(options))
        if not function.captures_active and not contains_active((xin,)):
            return x
        y = root_of(name, function.from_initial_state(F), (), x, function)
        return y.reshape(np.shape(x))


for _name in ("anderson", "broyden1", "broyden2", "diagbroyden", "excitingmixing", "linearmixing",
              "newton_krylov"):  # fmt: skip
    _nonlinear(_name)


# --------------------------------------------------------------------------------------------------
# Isotonic regression


@override(f"{_HERE}.isotonic_regression")
def isotonic_regression(
    y: ArrayLike, *, weights: ArrayLike | None = None, increasing: bool = True
) -> _Isotonic:
    """Each block has the mean of its elements; which blocks there are is constant."""
    result: _Isotonic = locate(f"{_HERE}.isotonic_regression")(
        to_numpy_items(y), weights=to_numpy_items(weights), increasing=increasing
    )
    values = np.atleast_1d(asarray(y, np.float64))
    w = np.ones(values.shape) if weights is None else np.atleast_1d(asarray(weights, np.float64))
    starts, sizes = to_numpy(result.blocks)[:-1], np.diff(result.blocks)
    sums = np.add.reduceat(w, starts)
    means = np.add.reduceat(w * values, starts) / sums
    result.x = attach_derivative(_core.asarray(result.x), np.repeat(means, sizes))
    result.weights = sums
    return result


# --------------------------------------------------------------------------------------------------
# A function to try them on

override(*named(_HERE, "rosen rosen_der rosen_hess rosen_hess_prod"))(REBOUND)
