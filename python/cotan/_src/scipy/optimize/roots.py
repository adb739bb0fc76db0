"""Overrides of the root finders of `scipy.optimize`.

SciPy finds the root, on values. It satisfies an equation, so its derivative is given by the
implicit function theorem (`kit.implicit_diff`). The initial guess has no influence on what is a
root; so an active initial guess is accepted.

A function that keeps no state is called on plain values, outside of the recording, and recorded
once, at the root (`PlainSolve`).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.kit.callbacks import more_of
from cotan._src.kit.implicit_diff import solution, stacked
from cotan._src.kit.slope_call import gives_slopes
from cotan._src.rebind.engine import locate_original
from cotan._src.runtime.registry import ALWAYS, override
from cotan._src.runtime.values import contains_active, python_number, refuse, to_numpy
from cotan._src.scipy.optimize.plain_solve import PlainSolve
from cotan._src.scipy.optimize.solver_arguments import (
    Result,
    RootResult,
    mark_estimated,
    plain_of,
    probed_all,
    with_args,
)
from cotan._src.state.callback_probe import (
    probed,
    to_numpy_items,
)
from cotan._src.state.solver_replay import ReplayedCallback
from cotan._src.typing import AnyArray, ArrayLike, Function, NDArray

_HERE = "scipy.optimize"


# --------------------------------------------------------------------------------------------------
# Equations in one variable


def _scalar(
    name: str, function: Function, args: object, root: AnyArray | float, watch: ReplayedCallback
) -> AnyArray:
    more = more_of(args)
    equation = lambda v: stacked(function(v[0], *more)).reshape(1)  # noqa: E731
    at = np.array([root if np.iscomplexobj(root) else float(root)])
    y: AnyArray = solution(f"{_HERE}.{name}", equation, at)[0]
    watch.write_back(y, more)
    return y


def _bracketed(name: str) -> None:
    @override(f"{_HERE}.{name}", when=ALWAYS)
    @gives_slopes
    def solve(
        f: Function, a: ArrayLike, b: ArrayLike, args: object = (), *rest: object, **options: object
    ) -> AnyArray | float | tuple[AnyArray | float, RootResult]:
        original = locate_original(f"{_HERE}.{name}")

        def solve_plainly(plain: PlainSolve) -> Any:
            ends = to_numpy(a), to_numpy(b)
            more = plain.values, *map(to_numpy, rest)
            return original(plain.checked(), *ends, *more, **plain_of(options))

        def derived(plain: PlainSolve, result: Any) -> Any:
            if not isinstance(result, tuple):
                return plain.scalar_root(f"{_HERE}.{name}", result)
            result[1].root = plain.scalar_root(f"{_HERE}.{name}", result[0])
            return result[1].root, result[1]

        found: AnyArray | float | tuple[AnyArray | float, RootResult] | None
        found = PlainSolve.attempt(f, args, (a, b), solve_plainly, derived)
        if found is not None:
            return found
        function = ReplayedCallback(f, args)
        result: float | tuple[float, RootResult]
        result = function.wrap_solver(original)(
            function, to_numpy(a), to_numpy(b), to_numpy_items(more_of(args)), *map(to_numpy, rest),
            **plain_of(options),
        )  # fmt: skip
        if not function.captures_active and not contains_active((args, a, b)):
            return result
        f = function.from_initial_state(f)
        if isinstance(result, tuple):
            root, report = result
            report.root = python_number(_scalar(name, f, args, root, function), root)
            return report.root, report
        return python_number(_scalar(name, f, args, result, function), result)


for _name in ("bisect", "brenth", "brentq", "ridder", "toms748"):
    _bracketed(_name)


@override(f"{_HERE}.newton", when=ALWAYS)
@gives_slopes
def newton(func: Function, x0: ArrayLike, fprime: Function | None = None,
           args: Iterable[object] = (), *rest: object,
           **options: object) -> AnyArray | tuple[object, ...]:  # fmt: skip
    args = tuple(args)  # SciPy takes a list for several arguments here

    def solve_plainly(plain: PlainSolve) -> Any:
        more = plain.other(0), plain.values, *map(to_numpy_items, rest)
        return locate_original(f"{_HERE}.newton")(
            plain.checked(), to_numpy(x0), *more, **plain_of(options)
        )

    def derived(plain: PlainSolve, result: Any) -> Any:
        root, *report = result if isinstance(result, tuple) else (result,)
        find = plain.root if np.ndim(root) else plain.scalar_root
        y = find(f"{_HERE}.newton", root)
        if report and hasattr(report[0], "root"):
            report[0].root = y
        return (y, *report) if report else y

    if not any(map(callable, (*rest, *options.values()))):
        found = PlainSolve.attempt(func, args, x0, solve_plainly, derived, fprime)
        if found is not None:
            return found  # type: ignore[no-any-return]
    function = ReplayedCallback(func, args)
    result: NDArray | tuple[NDArray, *tuple[RootResult, ...]]
    result = function.wrap_solver(locate_original(f"{_HERE}.newton"))(
        function, to_numpy(x0), probed(fprime), to_numpy_items(more_of(args)), *map(probed, rest),
        **probed_all(options),
    )  # fmt: skip
    if not function.captures_active and not contains_active((args, x0)):
        return result
    func = function.from_initial_state(func)
    root, *report = result if isinstance(result, tuple) else (result,)
    if np.ndim(root) == 0:
        y = _scalar("newton", func, args, root, function)
    else:
        # Many equations in one variable each.
        y = root_of("newton", func, args, root, function)
    if report and hasattr(report[0], "root"):
        report[0].root = y
    return (y, *report) if report else y


@override(f"{_HERE}.root_scalar", when=ALWAYS)
@gives_slopes
def root_scalar(f: Function, args: object = (), *rest: object, **options: object) -> RootResult:
    fprime = options.get("fprime")
    is_pair = fprime is True

    def solve_plainly(plain: PlainSolve) -> Any:
        chosen = plain_of(options) | ({"fprime": plain.other(0)} if "fprime" in options else {})
        more = plain.values, *map(to_numpy_items, rest)
        return locate_original(f"{_HERE}.root_scalar")(plain.checked(), *more, **chosen)

    def derived(plain: PlainSolve, result: Any) -> Any:
        result.root = plain.scalar_root(f"{_HERE}.root_scalar", result.root, is_pair)
        return result

    if not any(callable(v) for k, v in options.items() if k != "fprime"):
        active = rest, options
        found = PlainSolve.attempt(f, args, active, solve_plainly, derived, fprime)
        if found is not None:
            return found  # type: ignore[no-any-return]
    function = ReplayedCallback(f, args)
    result: RootResult = function.wrap_solver(locate_original(f"{_HERE}.root_scalar"))(
        function,
        to_numpy_items(more_of(args)),
        *map(to_numpy_items, rest),
        **probed_all(options),
    )
    if function.captures_active or contains_active((args, rest, options)):
        # A function may give its derivatives, too.
        f = function.from_initial_state(f)
        value = (lambda x, *a: f(x, *a)[0]) if is_pair else f
        root = _scalar("root_scalar", value, args, result.root, function)
        result.root = python_number(root, result.root)
    return result


@override(f"{_HERE}.fixed_point", when=ALWAYS)
def fixed_point(func: Function, x0: ArrayLike, args: Iterable[object] = (), *rest: object,
                **options: object) -> AnyArray:  # fmt: skip
    function, args = ReplayedCallback(func, args), tuple(args)  # as in newton
    x: NDArray = function.wrap_solver(locate_original(f"{_HERE}.fixed_point"))(
        function, to_numpy_items(x0), to_numpy_items(args), *rest, **plain_of(options)
    )
    if not function.captures_active and not contains_active((args, x0)):
        return x
    func, shape = function.from_initial_state(func), np.shape(x)
    if np.iscomplexobj(x):
        raise refuse(f"{_HERE}.fixed_point of complex numbers")

    def equation(v: AnyArray) -> AnyArray:
        v = _core.reshape(v, shape)
        return (v - stacked(func(v, *args))).reshape(-1)

    flat = solution(f"{_HERE}.fixed_point", equation, np.asarray(x, np.float64).reshape(-1))
    y = _core.reshape(flat, shape)
    function.write_back(y, args)
    return y


# --------------------------------------------------------------------------------------------------
# Systems of equations


@override(f"{_HERE}.root", when=ALWAYS)
@gives_slopes
def root(fun: Function, x0: ArrayLike, args: object = (), method: str = "hybr",
         jac: Function | bool | None = None, *rest: object,
         **options: object) -> Result:  # fmt: skip
    def solve_plainly(plain: PlainSolve) -> Any:
        more = plain.values, method, plain.other(0), *map(to_numpy_items, rest)
        return locate_original(f"{_HERE}.root")(
            plain.checked(), to_numpy_items(x0), *more, **plain_of(options)
        )

    def derived(plain: PlainSolve, result: Any) -> Any:
        x = plain.root(f"{_HERE}.root", result.x, jac is True)
        if x is result.x:
            return result
        result.x = x
        mark_estimated("root", result, ("fjac", "r", "jac", "cov_x"), result.x)
        return result

    if not any(map(callable, (*rest, *options.values()))):
        found = PlainSolve.attempt(fun, args, x0, solve_plainly, derived, jac)
        if found is not None:
            return found  # type: ignore[no-any-return]
    function = ReplayedCallback(fun, args)
    result: Result = function.wrap_solver(locate_original(f"{_HERE}.root"))(
        function, to_numpy_items(x0), to_numpy_items(more_of(args)), method, probed(jac), *rest,
        **probed_all(options),
    )  # fmt: skip
    if function.captures_active or contains_active((args, x0)):
        fun = function.from_initial_state(fun)
        value = (lambda x, *a: fun(x, *a)[0]) if jac is True else fun
        result.x = root_of("root", value, args, result.x, function)
        mark_estimated("root", result, ("fjac", "r", "jac", "cov_x"), result.x)
    return result


def root_of(
    name: str, fun: Function, args: object, x: AnyArray, watch: ReplayedCallback
) -> AnyArray:
    """Give a root that a solver found its derivative, and the callback's state that of the root."""
    y: AnyArray = solution(f"{_HERE}.{name}", with_args(fun, args), x)
    watch.write_back(y, more_of(args))
    return y


@override(f"{_HERE}.fsolve", when=ALWAYS)
@gives_slopes
def fsolve(func: Function, x0: ArrayLike, args: object = (), fprime: Function | None = None,
           full_output: bool | int = 0, *rest: object,
           **options: object) -> AnyArray | tuple[object, ...]:  # fmt: skip
    def solve_plainly(plain: PlainSolve) -> Any:
        more = plain.values, plain.other(0), full_output, *map(to_numpy_items, rest)
        return locate_original(f"{_HERE}.fsolve")(
            plain.checked(), to_numpy_items(x0), *more, **plain_of(options)
        )

    def derived(plain: PlainSolve, result: Any) -> Any:
        if not full_output:
            return plain.root(f"{_HERE}.fsolve", result)
        y = plain.root(f"{_HERE}.fsolve", result[0])
        if y is result[0]:
            return result
        mark_estimated("fsolve", result[1], ("fjac", "r", "qtf"), y)
        return y, *result[1:]

    found = PlainSolve.attempt(func, args, x0, solve_plainly, derived, fprime)
    if found is not None:
        return found  # type: ignore[no-any-return]
    function = ReplayedCallback(func, args)
    result: Any = function.wrap_solver(locate_original(f"{_HERE}.fsolve"))(
        function, to_numpy_items(x0), to_numpy_items(more_of(args)), probed(fprime), full_output,
        *rest,
        **plain_of(options),
    )  # fmt: skip
    if not function.captures_active and not contains_active((args, x0)):
        plain: NDArray | tuple[object, ...] = result
        return plain
    func = function.from_initial_state(func)
    if not full_output:
        return root_of("fsolve", func, args, result, function)
    y = root_of("fsolve", func, args, result[0], function)
    mark_estimated("fsolve", result[1], ("fjac", "r", "qtf"), y)
    return (y, *result[1:])
