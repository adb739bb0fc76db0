"""Overrides of the minimizers of `scipy.optimize`.

SciPy finds the minimum, on values. There the gradient is zero, so its derivative is given by the
implicit function theorem (`kit.implicit_diff`). The initial guess has no influence on what is a
minimum, and neither has a bound that is not reached; so an active initial guess is accepted where
the result is a solution.
"""

import copy
import inspect
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.kit.bounds import free_of, may_be_held
from cotan._src.kit.callbacks import more_of
from cotan._src.kit.implicit_diff import solution, without_rule
from cotan._src.kit.kkt import Problem, constrained
from cotan._src.rebind.engine import locate, locate_original, refused
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import ALWAYS, override
from cotan._src.runtime.values import attach_derivative, contains_active, to_numpy
from cotan._src.scipy.optimize.plain_solve import PlainSolve
from cotan._src.scipy.optimize.solver_arguments import (
    Constraint,
    Constraints,
    Limits,
    Result,
    estimated,
    expect_constant_bounds,
    mark_estimated,
    plain_of,
    probed_all,
    probed_items,
    slope_of,
    with_args,
)
from cotan._src.state.callback_probe import (
    CallbackProbe,
    any_captures_active,
    probed,
    to_numpy_items,
)
from cotan._src.state.plain_copy import NotPlainError
from cotan._src.state.solver_replay import ReplayedCallback
from cotan._src.typing import AnyArray, ArrayLike, Function, NDArray

_HERE = "scipy.optimize"


# --------------------------------------------------------------------------------------------------
# Minima


def minimum_of(
    name: str,
    function: Function,
    x: AnyArray,
    free: NDArray | None = None,
    nearest: bool = False,
) -> AnyArray:
    """Give where the gradient is zero; variables that are not free stay at their bounds."""
    x = np.asarray(x, np.float64)
    if free is None or np.all(free):
        return solution(f"{_HERE}.{name}", slope_of(name, function), x, nearest=nearest)
    index = np.flatnonzero(free)

    def put(v: AnyArray) -> Array:
        return _core.index_update(x, index, v)

    if index.size == 0:
        return _core.asarray(x)
    slope = slope_of(name, function)
    return put(solution(f"{_HERE}.{name}", lambda v: slope(put(v))[index], x[index]))


@override(f"{_HERE}.minimize", when=ALWAYS)
def minimize(fun: Function, x0: ArrayLike, args: object = (), method: Function | str | None = None,
             jac: Function | str | bool | None = None, hess: Function | str | None = None,
             hessp: Function | None = None, bounds: Limits | None = None,
             constraints: Constraints = (), tol: float | None = None,
             callback: Function | None = None,
             options: Mapping[str, object] | None = None) -> Result:  # fmt: skip
    expect_constant_bounds("minimize", bounds)
    # Where a minimum lies does not depend on when a solver stops.
    tol, options = to_numpy(tol), None if options is None else plain_of(options)
    nearest = _goes_by_slopes(method or "bfgs", x0)

    def solve_plainly(plain: PlainSolve) -> Any:
        return locate_original(f"{_HERE}.minimize")(
            plain.checked(), to_numpy_items(x0), plain.values, method,
            *map(plain.other, range(3)), bounds, plain.constraints(3), tol, None, options,
        )  # fmt: skip

    def derived(plain: PlainSolve, result: Any) -> Any:
        functions = plain.both(jac is True)
        if is_free:
            free = free_of("minimize", bounds, result.x, slope_of("minimize", functions[1]))
            x = plain.minimum(f"{_HERE}.minimize", functions, result.x, free, nearest)
        else:
            problem = Problem(functions[0], constraints)
            copy_of = Problem(functions[1], plain.others[3])
            x = plain.constrained("minimize", problem, copy_of, result, bounds)
        if x is result.x:
            return result
        at_bounds = not is_free or np.any(may_be_held(bounds, result.x))
        result.x, call = x, functions[0]
        result.fun = asarray(call(x)).reshape(())[()]
        _report(result, call, bool(at_bounds))
        return result

    is_free = isinstance(constraints, (list, tuple)) and not constraints
    if callback is None and not callable(method):
        given = x0, [list(vars(c).values()) for c in _each(constraints)]
        others = jac, hess, hessp, constraints
        found = PlainSolve.attempt(fun, args, given, solve_plainly, derived, *others)
        if found is not None:
            return found  # type: ignore[no-any-return]
    function, slope = ReplayedCallback(fun, args, constraints, callback), probed(jac)
    others = probed_items(constraints)
    result: Result = function.wrap_solver(locate_original(f"{_HERE}.minimize"))(
        function, to_numpy_items(x0), to_numpy_items(more_of(args)), method, slope, probed(hess),
        probed(hessp), bounds, others, tol, function.wrap_callback(callback), options,
    )  # fmt: skip
    if not (function.captures_active or contains_active((args, x0)) or moving(constraints, others)):
        return result
    fun, constraints = (
        function.from_initial_state(fun),
        constraints_from_initial_state(function, constraints),
    )
    value = (lambda x, *a: fun(x, *a)[0]) if jac is True else fun
    call = with_args(value, args)
    at_bounds = bool(np.any(may_be_held(bounds, result.x))) or bool(_each(constraints))
    multipliers = result.get("v")
    result.x = inside_of("minimize", call, result.x, bounds, constraints, nearest, multipliers)
    result.fun = asarray(call(result.x)).reshape(())[()]
    _report(result, call, at_bounds)
    function.write_back(result.x, more_of(args))
    return result


def _report(result: Any, call: Function, has_slope: bool) -> None:
    """Give what a solver reports beside the minimum its derivatives."""
    x = result.x
    for part in ("jac", "grad"):
        slope = result.get(part)
        # Without bounds and constraints it is zero, and stays so.
        if has_slope and isinstance(slope, np.ndarray) and slope.shape == np.shape(x):
            result[part] = attach_derivative(slope, slope_of("minimize", call)(x))
    mark_estimated("minimize", result, ("hess", "hess_inv", "multipliers", "lagrangian_grad"), x)
    # Of each constraint: its multipliers, values and slopes.
    for part in ("v", "constr", "jac"):
        if isinstance(result.get(part), list):
            name = f"{part} of minimize"
            result[part] = [estimated(name, each, x) for each in result[part]]


def _goes_by_slopes(method: Function | str | None, x0: ArrayLike) -> bool:
    """Say whether a solver moves along sums of slopes only, from a place that is constant."""
    name = method.lower() if isinstance(method, str) else ""
    return name in {"bfgs", "l-bfgs-b", "cg", "newton-cg"} and not contains_active(x0)


def inside_of(
    name: str,
    call: Function,
    x: AnyArray,
    bounds: Limits | None,
    constraints: Constraints,
    nearest: bool = False,
    multipliers: Any = None,
) -> AnyArray:
    """Give a minimum under bounds and constraints, if there are any."""
    several = isinstance(constraints, (list, tuple))
    if several and not constraints:
        free = free_of(name, bounds, x, slope_of(name, call))
        return minimum_of(name, call, x, free, nearest).reshape(np.shape(x))
    found: Any = constrained(name, Problem(call, constraints), x, bounds, multipliers=multipliers)
    return found.reshape(np.shape(x))  # type: ignore[no-any-return]


@override(f"{_HERE}.fmin_slsqp", when=ALWAYS)
def fmin_slsqp(func: Function, x0: ArrayLike, eqcons: Sequence[Function] = (),
               f_eqcons: Function | None = None, ieqcons: Sequence[Function] = (),
               f_ieqcons: Function | None = None,
               bounds: Sequence[tuple[float | None, float | None]] = (),
               fprime: Function | None = None, fprime_eqcons: Function | None = None,
               fprime_ieqcons: Function | None = None, args: object = (),
               *rest: object, **options: object) -> AnyArray | tuple[object, ...]:  # fmt: skip
    expect_constant_bounds("fmin_slsqp", bounds)
    given = [("eq", f) for f in (*eqcons, f_eqcons) if f is not None]
    given += [("ineq", f) for f in (*ieqcons, f_ieqcons) if f is not None]
    function, more = ReplayedCallback(func, args, given), more_of(args)
    inside: list[Any] = [list(map(probed, eqcons)), probed(f_eqcons), list(map(probed, ieqcons)),
              probed(f_ieqcons)]  # fmt: skip
    result: NDArray | tuple[Any, ...]
    result = function.wrap_solver(locate_original(f"{_HERE}.fmin_slsqp"))(
        function, to_numpy_items(x0), *inside, to_numpy_items(bounds), probed(fprime),
        probed(fprime_eqcons), probed(fprime_ieqcons), to_numpy_items(more),
        *map(to_numpy_items, rest), **plain_of(options),
    )  # fmt: skip
    seen = any_captures_active(function, inside[1], inside[3], *inside[0], *inside[2])
    if not seen and not contains_active((more, x0)):
        return result
    x, *report = result if isinstance(result, tuple) else (result,)
    constraints: Constraints = [
        {"type": kind, "fun": function.from_initial_state(f), "args": more} for kind, f in given
    ]
    call = with_args(function.from_initial_state(func), more)
    y = inside_of("fmin_slsqp", call, x, bounds or None, constraints)
    whole = (y, asarray(call(y)).reshape(())[()], *report[1:]) if report else y
    function.write_back(y, more)
    return whole


def _in_bounds(name: str) -> None:
    """Older names for the methods of `minimize` with bounds."""

    @override(f"{_HERE}.{name}", when=ALWAYS)
    def fmin(func: Function, x0: ArrayLike, fprime: Function | None = None, args: object = (),
             approx_grad: bool | int = 0,
             bounds: Sequence[tuple[float | None, float | None]] | None = None,
             *rest: object, **options: object) -> tuple[object, ...]:  # fmt: skip
        expect_constant_bounds(name, bounds)
        function, more = ReplayedCallback(func, args), more_of(args)
        result: tuple[Any, ...] = function.wrap_solver(locate_original(f"{_HERE}.{name}"))(
            function, to_numpy_items(x0), probed(fprime), to_numpy_items(more), approx_grad,
            to_numpy_items(bounds), *map(to_numpy_items, rest), **plain_of(options),
        )  # fmt: skip
        if not function.captures_active and not contains_active((more, x0)):
            return result
        func, both = function.from_initial_state(func), fprime is None and not approx_grad
        call = with_args((lambda x, *a: func(x, *a)[0]) if both else func, more)
        method = "l-bfgs-b" if name == "fmin_l_bfgs_b" else None
        y = inside_of(name, call, result[0], bounds, (), _goes_by_slopes(method, x0))
        whole = (y, *result[1:])
        if name != "fmin_tnc":
            report = result[2]
            if np.any(may_be_held(bounds, result[0])):
                report = report | {
                    "grad": attach_derivative(report["grad"], slope_of(name, call)(y))
                }
            whole = (y, asarray(call(y)).reshape(())[()], report, *result[3:])
        function.write_back(y, more)
        return whole


for _name in ("fmin_l_bfgs_b", "fmin_tnc"):
    _in_bounds(_name)


def constraints_from_initial_state(function: ReplayedCallback, constraints: Any) -> Any:
    """Give constraints whose functions are called as the objective is: they may share memory."""
    if isinstance(constraints, (list, tuple)):
        return [constraints_from_initial_state(function, c) for c in constraints]
    if isinstance(constraints, dict):
        return constraints | {"fun": function.from_initial_state(constraints["fun"])}
    if callable(getattr(constraints, "fun", None)):
        constraints = copy.copy(constraints)
        constraints.fun = function.from_initial_state(constraints.fun)
    return constraints


def moving(constraints: Constraints, others: Constraints) -> bool:
    """Say whether constraints are active; callbacks among them were probed."""
    inside = [w for c in _each(others) for w in vars(c).values() if isinstance(w, CallbackProbe)]
    return any_captures_active(*inside) or contains_active(
        [list(vars(c).values()) for c in _each(constraints)]
    )


def _each(constraints: Constraints) -> list[Constraint | SimpleNamespace]:
    """Give constraints as objects with attributes."""
    several: Sequence[Constraint | dict[str, Any]] = (
        constraints if isinstance(constraints, (list, tuple)) else [constraints]
    )
    return [SimpleNamespace(**c) if isinstance(c, dict) else c for c in several]


@override(f"{_HERE}.minimize_scalar", when=ALWAYS)
def minimize_scalar(fun: Function, bracket: Sequence[ArrayLike] | None = None,
                    bounds: Sequence[ArrayLike] | None = None, args: object = (),
                    *rest: object, **options: object) -> Result:  # fmt: skip
    def solve_plainly(plain: PlainSolve) -> Any:
        return locate_original(f"{_HERE}.minimize_scalar")(
            plain.checked(), bracket, bounds, plain.values, *rest, **plain_of(options)
        )

    def derived(plain: PlainSolve, result: Any) -> Any:
        x = np.reshape(result.x, 1).astype(float)
        if bounds and _near_end(x[0], bounds):
            # What happens there is constant, and the value moves with the function alone.
            raise NotPlainError
        function, copy_of = plain.both()

        def of(f: Function) -> Function:
            return lambda v: np.reshape(f(v[0]), ())

        scalars = of(function), of(copy_of)
        found = plain.minimum(f"{_HERE}.minimize_scalar", scalars, x)
        if found is x:
            return result
        result.x = _like(found, result.x)
        result.fun = _like(np.reshape(function(found[0]), 1), result.fun)
        return result

    if not contains_active((bracket, bounds)):
        found = PlainSolve.attempt(fun, args, (), solve_plainly, derived)
        if found is not None:
            return found  # type: ignore[no-any-return]
    function = ReplayedCallback(fun, args)
    result: Result = function.wrap_solver(locate_original(f"{_HERE}.minimize_scalar"))(
        function, to_numpy_items(bracket), to_numpy_items(bounds), to_numpy_items(more_of(args)),
        *rest,
        **plain_of(options),
    )  # fmt: skip
    if function.captures_active or contains_active((args, bounds, bracket)):
        fun, more = function.from_initial_state(fun), more_of(args)
        x = np.reshape(result.x, 1).astype(float)

        def scalar(v: AnyArray) -> AnyArray:
            # Some functions give arrays of one element.
            return np.reshape(fun(v[0], *more), ())

        # The search ends a little before the bound; the minimum moves with that.
        ends = list(map(asarray, bounds)) if bounds else []
        tolerance = 1e-4 * abs(to_numpy(ends[1]) - to_numpy(ends[0])) if bounds else 0.0
        near = [end for end in ends if abs(x[0] - to_numpy(end)) <= tolerance]
        if near:
            found_x = attach_derivative(x, np.reshape(near[0], 1))
        else:
            found_x = minimum_of("minimize_scalar", scalar, x)
        shape = np.shape(result.x)
        result.x = np.reshape(found_x, shape) if shape else found_x[0]
        value, shape = fun(found_x[0], *more), np.shape(result.fun)
        result.fun = np.reshape(value, shape) if shape else value
        function.write_back(result.x, more)
    return result


def _near_end(x: float, bounds: Sequence[ArrayLike]) -> bool:
    """Say whether a search in an interval has ended at one of its ends, or a little before."""
    low, high = map(to_numpy, bounds)
    return bool(min(abs(x - low), abs(x - high)) <= 1e-4 * abs(high - low))


def _like(x: AnyArray, value: Any) -> AnyArray:
    """Give an array of one element in the shape of another, or the element."""
    shape = np.shape(value)
    y: AnyArray = np.reshape(x, shape) if shape else x[0]
    return y


def _fmin(name: str) -> None:
    """Older names for the methods of `minimize`, which return the minimum only."""

    @override(f"{_HERE}.{name}", when=ALWAYS)
    def fmin(*args: object, **options: object) -> AnyArray | tuple[object, ...]:
        # The function is `f` for some of them, and `func` for others.
        parameters = inspect.signature(locate_original(f"{_HERE}.{name}")).bind(*args, **options)
        f, x0, *_ = parameters.args
        given = dict(list(parameters.arguments.items())[2:])
        more = given.get("args", ())
        function = ReplayedCallback(f, more)
        rest = probed_all({k: v for k, v in given.items() if k != "args"})
        result: NDArray | tuple[Any, ...] = function.wrap_solver(
            locate_original(f"{_HERE}.{name}")
        )(function, to_numpy_items(x0), args=to_numpy_items(more_of(more)), **rest)
        if not function.captures_active and not contains_active((more, x0)):
            return result
        x, *report = result if isinstance(result, tuple) else (result,)
        call = with_args(function.from_initial_state(f), more)
        method = {"fmin_bfgs": "bfgs", "fmin_cg": "cg", "fmin_ncg": "newton-cg"}.get(name)
        nearest = _goes_by_slopes(method, x0)
        y = minimum_of(name, call, x, nearest=nearest).reshape(np.shape(x))
        if given.get("full_output"):
            report[0] = attach_derivative(report[0], asarray(call(y)).reshape(()))[()]
            if name == "fmin_bfgs":
                report[2] = without_rule("the inverse Hessian of fmin_bfgs", report[2], y)
        function.write_back(y, more_of(more))
        return (y, *report) if report else y


for _name in ("fmin", "fmin_bfgs", "fmin_cg", "fmin_ncg", "fmin_powell"):
    _fmin(_name)


@override(f"{_HERE}.linear_sum_assignment")
def linear_sum_assignment(
    cost_matrix: ArrayLike, maximize: bool = False
) -> tuple[NDArray, NDArray]:
    """Who belongs to whom is constant where it does not jump."""
    pairs: tuple[NDArray, NDArray]
    pairs = locate(f"{_HERE}.linear_sum_assignment")(to_numpy(cost_matrix), maximize)
    return pairs


override(f"{_HERE}.linprog", f"{_HERE}.milp", f"{_HERE}.fmin_cobyla")(
    refused("use minimize, which has a derivative rule")
)
