"""Overrides of the fits of `scipy.optimize`: `least_squares`, `leastsq` and `curve_fit`.

SciPy finds the parameters, on values. There the gradient of the cost is zero, which gives their
derivatives (`kit.implicit_diff`), and those of the covariance by way of the Jacobian.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.bounds import free_of
from cotan._src.kit.callbacks import more_of
from cotan._src.kit.host_call import inverse
from cotan._src.kit.implicit_diff import recorded_columns, stacked, without_rule
from cotan._src.kit.slope_call import gives_slopes, without_slopes
from cotan._src.rebind.engine import locate, locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import ALWAYS, override
from cotan._src.runtime.values import attach_derivative, contains_active, of_table, to_numpy
from cotan._src.scipy.optimize.minima import minimum_of
from cotan._src.scipy.optimize.plain_solve import PlainSolve
from cotan._src.scipy.optimize.solver_arguments import (
    Bounds,
    FitResult,
    estimated,
    plain_of,
    probed_all,
    slope_of,
    with_args,
)
from cotan._src.state.callback_probe import probed, to_numpy_items
from cotan._src.state.solver_replay import ReplayedCallback, with_solution_derivative
from cotan._src.typing import AnyArray, Args, ArrayLike, Function, Kwargs, NDArray

_HERE = "scipy.optimize"

#: The values of a function, and its first two derivatives.
_Three: TypeAlias = tuple[AnyArray, AnyArray, AnyArray]

# --------------------------------------------------------------------------------------------------
# Losses: a function of squares, with its first two derivatives


def _huber(z: AnyArray) -> _Three:
    near = z <= 1
    far = _core.where(near, 1, z)
    return (
        _core.where(near, z, 2 * np.sqrt(far) - 1),
        _core.where(near, 1, far**-0.5),
        _core.where(near, 0, -0.5 * far**-1.5),
    )


def _soft_l1(z: AnyArray) -> _Three:
    t = 1 + z
    return 2 * (np.sqrt(t) - 1), t**-0.5, -0.5 * t**-1.5


def _cauchy(z: AnyArray) -> _Three:
    t = 1 + z
    return np.log1p(z), 1 / t, -1 / (t * t)


def _arctan(z: AnyArray) -> _Three:
    t = 1 + z * z
    return np.arctan(z), 1 / t, -2 * z / (t * t)


_LOSSES = {"huber": _huber, "soft_l1": _soft_l1, "cauchy": _cauchy, "arctan": _arctan}


class _Loss:
    """What `loss=` and `f_scale=` say."""

    def __init__(self, options: Kwargs) -> None:
        loss = options.get("loss", "linear")
        self._function = loss if callable(loss) else _LOSSES.get(loss)
        self._scale = options.get("f_scale", 1.0)
        self.is_active = self._function is not None and contains_active((self._scale,))

    def cost(self, r: AnyArray) -> Array:
        square = _core.square(r)
        if self._function is not None:
            scale = self._scale**2
            square = scale * self._function(square / scale)[0]
        return 0.5 * _core.sum(square)

    def weights(self, r: AnyArray) -> AnyArray:
        """Give by how much rows of the Jacobian are multiplied in SciPy's results."""
        if self._function is None:
            return np.ones(r.shape)
        square = _core.square(r) / self._scale**2
        _, first, second = self._function(square)
        factors: AnyArray = np.sqrt(np.maximum(first + 2 * second * square, np.finfo(float).eps))
        return factors


# --------------------------------------------------------------------------------------------------
# Fits


def _flat(function: Function, more: Args, options: Kwargs) -> Function:
    """Give residuals as a vector, as a function of the parameters."""
    return lambda x: stacked(function(x, *more, **options)).reshape(-1)


def _slope_of_least(function: Function, args: Args, extra: Any) -> Function:
    kwargs, options = extra
    loss, residuals = _Loss(options), _flat(function, args, kwargs)
    return slope_of("least_squares", lambda x: loss.cost(residuals(x)))


@override(f"{_HERE}.least_squares", when=ALWAYS)
def least_squares(fun: Function, x0: ArrayLike, jac: Function | str = "2-point",
                  bounds: Bounds | tuple[ArrayLike, ArrayLike] = (-np.inf, np.inf),
                  *rest: object, **options: Any) -> FitResult:  # fmt: skip
    _expect_constant("least_squares", bounds)
    solve = locate_original(f"{_HERE}.least_squares")
    options |= dict(zip(list(inspect.signature(solve).parameters)[4:], rest, strict=False))
    # SciPy takes a list for several arguments here.
    args, kwargs = tuple(options.pop("args", ())), options.pop("kwargs", None) or {}

    def solve_plainly(plain: PlainSolve) -> Any:
        return solve(
            plain.checked(), to_numpy_items(x0), plain.other(0), bounds,
            args=plain.values, kwargs=kwargs, **plain_of(options),
        )  # fmt: skip

    def derived(plain: PlainSolve, result: Any) -> Any:
        residuals = _flat(plain.function, args, kwargs)
        copy = _flat(plain.plain, plain.values, kwargs)
        loss, constant = _Loss(options), _Loss(plain_of(options))
        costs = lambda x: loss.cost(residuals(x)), lambda x: constant.cost(copy(x))
        free = result.active_mask == 0
        known = _slope_of_least, (kwargs, options)
        x = plain.minimum(f"{_HERE}.least_squares", costs, result.x, free, known=known)
        if x is result.x:
            return result
        result.x, result.fun = x, residuals(x)
        result.cost = loss.cost(result.fun)
        if not np.all(free):
            # Elsewhere it is zero, and stays so.
            result.grad = attach_derivative(result.grad, slope_of("least_squares", costs[0])(x))
        result.jac = estimated("jac of least_squares", result.jac, x)
        return result

    if not any(map(callable, options.values())) and not contains_active(kwargs):
        given = x0, options
        found = PlainSolve.attempt(fun, args, given, solve_plainly, derived, jac)
        if found is not None:
            return found  # type: ignore[no-any-return]
    function, loss = ReplayedCallback(fun, args, kwargs, options), _Loss(options)
    result: FitResult = function.wrap_solver(solve)(
        function, to_numpy_items(x0), probed(jac), bounds,
        args=to_numpy_items(args), kwargs=plain_of(kwargs), **probed_all(options),
    )  # fmt: skip
    active = loss.is_active or contains_active((args, kwargs, x0))
    if not function.captures_active and not active:
        return result
    again = function.from_initial_state(fun)

    def residuals(x: AnyArray) -> AnyArray:
        return stacked(again(x, *args, **kwargs)).reshape(-1)

    def cost(x: AnyArray) -> Array:
        return loss.cost(residuals(x))

    free = result.active_mask == 0
    result.x = minimum_of("least_squares", cost, result.x, free)
    if not np.all(free):
        # Elsewhere it is zero, and stays so.
        result.grad = attach_derivative(result.grad, slope_of("least_squares", cost)(result.x))
    result.fun = residuals(result.x)
    result.jac = estimated("jac of least_squares", result.jac, result.x)
    result.cost = cost(result.x)
    function.write_back(result.x, args, **kwargs)
    return result


def _expect_constant(name: str, bounds: Bounds | tuple[ArrayLike, ArrayLike]) -> None:
    if contains_active(tuple(_pair(bounds))):
        raise NotDifferentiableError(
            f"{name}: active bounds have no derivative rule in cotan; use minimize with "
            "constraints, or hold them constant with ct.dropgrad"
        )


@override(f"{_HERE}.leastsq", when=ALWAYS)
def leastsq(func: Function, x0: ArrayLike, args: object = (),
            Dfun: Function | None = None, full_output: bool = False,  # noqa: N803
            **options: object) -> tuple[object, ...]:  # fmt: skip
    def solve_plainly(plain: PlainSolve) -> Any:
        more = plain.values, plain.other(0), full_output
        return locate_original(f"{_HERE}.leastsq")(
            plain.checked(), to_numpy_items(x0), *more, **plain_of(options)
        )

    def derived(plain: PlainSolve, result: tuple[Any, ...]) -> tuple[Any, ...]:
        residuals, copy = (_flat(f, (), {}) for f in plain.both())
        loss = _Loss({})
        costs = lambda x: loss.cost(residuals(x)), lambda x: loss.cost(copy(x))
        x = plain.minimum(f"{_HERE}.leastsq", costs, result[0])
        if x is result[0]:
            return result
        return _with_report(result, x, residuals, bool(full_output))

    found: tuple[object, ...] | None
    found = PlainSolve.attempt(func, args, x0, solve_plainly, derived, Dfun)
    if found is not None:
        return found
    function = ReplayedCallback(func, args)
    result: tuple[Any, ...] = function.wrap_solver(locate_original(f"{_HERE}.leastsq"))(
        function, to_numpy_items(x0), to_numpy_items(more_of(args)), probed(Dfun), full_output,
        **plain_of(options),
    )  # fmt: skip
    if not function.captures_active and not contains_active((args, x0)):
        return result
    call = with_args(function.from_initial_state(func), args)

    def residuals(x: AnyArray) -> AnyArray:
        return stacked(call(x)).reshape(-1)

    x = minimum_of("leastsq", lambda x: _Loss({}).cost(residuals(x)), result[0])
    whole = _with_report(result, x, residuals, bool(full_output))
    function.write_back(x, more_of(args))
    return whole


def _with_report(
    result: tuple[Any, ...],
    x: AnyArray,
    residuals: Callable[[AnyArray], AnyArray],
    full_output: bool,
) -> tuple[Any, ...]:
    """Give a result of `leastsq` with derivatives, and with those of the report if there is one."""
    if not full_output:
        return (x, *result[1:])
    _, covariance, report, *rest = result
    if covariance is not None:
        covariance = _covariance(covariance, x, residuals, _Loss({}), True)
    return (x, covariance, _with_residuals(report, residuals(x), x), *rest)


def _with_residuals(
    report: dict[str, NDArray], residuals: AnyArray, on: AnyArray
) -> dict[str, AnyArray]:
    """Give the solver's report, with active residuals and constant factors."""
    factors = {
        part: without_rule(f"{part} of leastsq", report[part], on)
        for part in ("fjac", "qtf")
        if isinstance(report.get(part), np.ndarray)
    }
    return report | factors | {"fvec": attach_derivative(report["fvec"], residuals)}


@override(f"{_HERE}.curve_fit", when=ALWAYS)
@gives_slopes
def curve_fit(f: Function, xdata: Any, ydata: ArrayLike, p0: ArrayLike | None = None,
              sigma: ArrayLike | None = None, absolute_sigma: bool = False,
              check_finite: bool | None = None,
              bounds: Bounds | tuple[ArrayLike, ArrayLike] = (-np.inf, np.inf),
              method: str | None = None, jac: Function | str | None = None, *,
              full_output: bool = False, nan_policy: str | None = None,
              **options: object) -> tuple[object, ...]:  # fmt: skip
    _expect_constant("curve_fit", bounds)
    xdata, ydata, sigma = map(of_table, (xdata, ydata, sigma))
    loss = _Loss(options)
    if p0 is None and hasattr(f, "__code__"):
        # SciPy counts the parameters of the function itself.
        count = f.__code__.co_argcount - 1 - int(hasattr(f, "__self__"))
        is_free = np.all(np.isinf(to_numpy_items(_pair(bounds)[0])))
        p0 = np.ones(count) if is_free and count > 0 else None

    def solve(call: Function, jac: Any, options: Kwargs) -> tuple[Any, ...]:
        found: tuple[Any, ...] = locate_original(f"{_HERE}.curve_fit")(
            call if p0 is not None else _counted(call, f), to_numpy_items(xdata),
            to_numpy_items(ydata), to_numpy_items(p0), to_numpy_items(sigma), absolute_sigma,
            check_finite, bounds, method, jac, full_output=full_output, nan_policy=nan_policy,
            **options,
        )  # fmt: skip
        return found

    def derived(plain: PlainSolve, result: tuple[Any, ...]) -> tuple[Any, ...]:
        given = xdata, ydata, sigma
        x, y, error = to_numpy_items(given)
        is_omitted = nan_policy == "omit"
        residuals = _residuals_of(f, *_samples(*given, is_omitted))
        copy = _residuals_of(plain.plain, *_samples(x, y, error, is_omitted))
        constant = _Loss(plain_of(options))

        def find(popt: NDArray, limits: Any) -> AnyArray:
            costs = lambda p: loss.cost(residuals(p)), lambda p: constant.cost(copy(p))
            free = None
            if np.isfinite(limits.lb).any() or np.isfinite(limits.ub).any():
                free = free_of("curve_fit", limits, popt, slope_of("curve_fit", costs[1]))
            known = _slope_of_fit, (given, is_omitted, options)
            return plain.minimum(f"{_HERE}.curve_fit", costs, popt, free, known=known)

        return _fitted(result, residuals, find, bounds, loss, absolute_sigma)

    if not any(map(callable, options.values())):
        found: tuple[object, ...] | None = PlainSolve.attempt(
            f, (), (xdata, ydata, sigma, p0, options),
            lambda plain: solve(plain.checked(), plain.other(0), plain_of(options)), derived, jac,
        )  # fmt: skip
        if found is not None:
            return found
    function = ReplayedCallback(f, options)
    result: tuple[object, ...]
    result = function.wrap_solver(solve)(function, probed(jac), probed_all(options))
    active = loss.is_active or contains_active((xdata, ydata, sigma, p0))
    if not function.captures_active and not active:
        return result
    samples = _samples(xdata, ydata, sigma, nan_policy == "omit")
    residuals = _residuals_of(function.from_initial_state(f), *samples)

    def find(popt: NDArray, limits: Any) -> AnyArray:
        cost = lambda p: loss.cost(residuals(p))  # noqa: E731
        free = free_of("curve_fit", limits, popt, slope_of("curve_fit", cost))
        return minimum_of("curve_fit", cost, popt, free)

    fitted = _fitted(result, residuals, find, bounds, loss, absolute_sigma)
    y = fitted[0]

    def again(given: Args) -> Args:
        at = with_solution_derivative(np.array(given[1:]), y)
        return samples[0], *(at[i] for i in range(len(given) - 1))

    function.write_back_by(samples[0], again)
    return fitted


def _residuals_of(
    f: Function, places: Any, heights: AnyArray, weight: AnyArray
) -> Callable[[AnyArray], AnyArray]:
    """Give residuals as a function of the parameters."""
    lower = np.linalg.cholesky(weight) if np.ndim(weight) == 2 else None

    def residuals(p: AnyArray) -> AnyArray:
        r: AnyArray = stacked(f(places, *(p[i] for i in range(p.shape[0])))) - heights
        return r / weight if lower is None else np.linalg.solve(lower, r)

    return residuals


def _slope_of_fit(f: Function, args: Args, extra: Any) -> Function:
    del args
    (x, y, sigma), is_omitted, options = extra
    loss, residuals = _Loss(options), _residuals_of(f, *_samples(x, y, sigma, is_omitted))
    return slope_of("curve_fit", lambda p: loss.cost(residuals(p)))


def _fitted(
    result: tuple[Any, ...],
    residuals: Callable[[AnyArray], AnyArray],
    find: Callable[[NDArray, Any], AnyArray],
    bounds: Any,
    loss: _Loss,
    absolute_sigma: bool,
) -> tuple[Any, ...]:
    """Give a result of `curve_fit` with the derivatives of parameters that `find` gives."""
    popt, pcov, *report = result
    low, high = (np.broadcast_to(to_numpy_items(b), popt.shape) for b in _pair(bounds))
    y = find(popt, locate(f"{_HERE}.Bounds")(low, high))
    if y is popt:
        return result
    if report:
        report[0] = _with_residuals(report[0], residuals(y), y)
    return (y, _covariance(pcov, y, residuals, loss, absolute_sigma), *report)


def _samples(
    x: Any, y: ArrayLike, sigma: ArrayLike | None, omit: bool
) -> tuple[Any, AnyArray, AnyArray]:
    """Give samples and errors as `curve_fit` reads them: floats, with `omit` no NaN."""
    heights = asarray(y, np.float64)
    if isinstance(x, (list, tuple, np.ndarray)):
        x = asarray(x, np.float64)
    weight = asarray(1.0 if sigma is None else sigma)
    if weight.size == 1:
        weight = weight.reshape(())
    if omit:
        no_number = np.isnan(to_numpy(x))
        kept = ~(no_number.any(tuple(range(no_number.ndim - 1))) | np.isnan(to_numpy(heights)))
        x, heights = x[..., kept], heights[kept]
        for axis in range(weight.ndim):
            weight = np.compress(kept, weight, axis)
    return x, heights, weight


def _pair(bounds: Any) -> tuple[ArrayLike, ArrayLike]:
    return (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds


def _counted(function: Function, f: Function) -> Function:
    """Let SciPy count the parameters of a function that is watched."""

    @functools.wraps(f)
    def call(*args: object) -> object:
        return function(*args)

    return call


def _covariance(
    value: NDArray,
    p: AnyArray,
    residuals: Callable[[AnyArray], AnyArray],
    loss: _Loss,
    absolute: bool,
) -> AnyArray:
    """Give the covariance of fitted parameters as a function of what they depend on."""
    if not np.all(np.isfinite(value)):
        return value
    noted = without_slopes(value, p, "the covariance of a fit")
    if noted is not None:
        return noted

    r = residuals(p)
    matrix = recorded_columns(residuals, p) * loss.weights(r)[:, None]
    covariance = inverse(_core.matmul(matrix.T, matrix))
    if not absolute:
        covariance = covariance * (2 * loss.cost(r) / (r.shape[0] - p.shape[0]))
    return attach_derivative(value, covariance)
