"""Fits and roots over structures: `least_squares`, `curve_fit`, `root`.

SciPy's methods do the work. They get vectors in place of structures, and exact Jacobians.
"""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from cotan._core import Array
from cotan._src.optimize.data import Data, expect_finite
from cotan._src.optimize.functions import Equations
from cotan._src.optimize.limits import ends_as_bounds
from cotan._src.optimize.minimize import OptimizeResult, with_structure
from cotan._src.optimize.progress import Watch, Watcher
from cotan._src.optimize.solvers import scipy_module
from cotan._src.optimize.unknowns import Unknowns
from cotan._src.typing import Args, Function

# The methods of `scipy.optimize.root` that take a Jacobian.
_WITH_JACOBIAN = {"hybr", "lm"}


def least_squares(
    fun: Function,
    x0: object,
    args: object = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    bounds: object = (-np.inf, np.inf),
    x_scale: object = None,
    callback: Function | None = None,
    progress: Watcher = False,
    explain: bool = False,
    **options: Any,
) -> OptimizeResult:
    """Minimise a sum of squares over any structure with `scipy.optimize.least_squares`.

    Parameters
    ----------
    fun
        `fun(x, *args, **kwargs)` gives the residuals: an array of any shape but `()`, or any
        structure of arrays and numbers; `x` has the structure of `x0`.
    x0
        The place to start from, as for `ct.optimize.minimize`.
    args, kwargs
        Further arguments: a tuple (or one argument that is none), and a dictionary.
    bounds
        `(lower, upper)`, as for SciPy: each a number, or a structure like `x0` of numbers and
        arrays, in which None is no bound; or `scipy.optimize.Bounds`.
    x_scale
        A structure like `x0`, a number, or `"jac"`, as for SciPy.
    callback, progress, explain
        As for `ct.optimize.minimize`; with SciPy 1.16 or later.
    options
        The rest of SciPy's arguments: `method`, `loss`, `f_scale`, tolerances, `max_nfev`,
        `verbose`. `jac` is not among them: the Jacobian is computed.

    Returns
    -------
    scipy.optimize.OptimizeResult
        `x` has the structure of `x0`, `grad` that of a gradient, and `fun` that of the residuals.
        `jac` has a row for each residual and a column for each number of `ct.ravel(x0)[0]`.

    Raises
    ------
    TypeError
        When `x0` has nothing that can be varied, or an option is unknown.
    ValueError
        When bounds do not fit `x0`, or `x0` is not between them; when the function returns one
        number in the place of residuals, or numbers that are not finite at `x0`.
    ImportError
        Without SciPy.

    >>> import cotan as ct
    >>> import numpy as np
    >>> t = np.linspace(0.0, 1.0, 20)
    >>> y = 3.0 * np.exp(-2.0 * t)
    >>> def residuals(p):
    ...     return p["a"] * np.exp(-p["rate"] * t) - y
    >>> found = ct.optimize.least_squares(residuals, {"a": 1.0, "rate": 0.0})
    >>> round(found.x["a"], 6), round(found.x["rate"], 6)
    (3.0, 2.0)
    """
    solvers = scipy_module("scipy.optimize")

    name = "optimize.least_squares"
    _expect_no_jacobian(name, options)
    named = dict(kwargs or {})
    unknowns = Unknowns(name, x0)

    def residuals(x: object, *more: object) -> object:
        result = fun(x, *more, **named)
        if _is_real_number(result):
            raise ValueError(
                f"{name}: the function returned one number, not residuals; return the array whose "
                "squares are to be summed, without summing; a single residual r as [r]; and use "
                "ct.optimize.minimize for any other function that gives a number"
            )
        return result

    equations = Equations(name, residuals, unknowns)
    watch = Watch(unknowns, callback, progress)
    if watch.is_needed:
        options["callback"] = watch.after_iteration
    if x_scale is not None:
        is_word = isinstance(x_scale, str)
        options["x_scale"] = x_scale if is_word else unknowns.spread(name, x_scale, 1.0)
    result = solvers.least_squares(
        equations.values_of_fit,
        unknowns.start,
        jac=equations.jacobian,
        bounds=ends_as_bounds(name, bounds, unknowns),
        args=args if isinstance(args, tuple) else (args,),
        **options,
    )
    if explain:
        result.explanation = equations.how
    result.fun = equations.structure(result.fun)
    return with_structure(result, unknowns)


def root(
    fun: Function,
    x0: object,
    args: object = (),
    method: str = "hybr",
    *,
    tol: float | None = None,
    callback: Function | None = None,
    options: Mapping[str, object] | None = None,
    explain: bool = False,
) -> OptimizeResult:
    """Find where a function over any structure is zero, with `scipy.optimize.root`.

    Parameters
    ----------
    fun
        `fun(x, *args)` gives as many numbers as `x` has, in any structure; `x` has the structure of
        `x0`. Complex numbers count twice, as real and imaginary part.
    x0
        The place to start from, as for `ct.optimize.minimize`.
    args
        Further arguments: a tuple, or one argument that is none.
    method, tol, options
        As for SciPy. `"hybr"` and `"lm"` get the exact Jacobian, the others take none.
    callback
        As for SciPy: called as `callback(x, f)`, with structures, by methods other than `"hybr"`
        and `"lm"`.
    explain
        Whether the result says in `explanation` how the derivatives were computed.

    Returns
    -------
    scipy.optimize.OptimizeResult
        `x` has the structure of `x0`, and `fun` that of what the function returned.

    Raises
    ------
    TypeError
        When `x0` has nothing that can be varied.
    ValueError
        When the function returns another number of numbers than `x0` has.
    ImportError
        Without SciPy.

    Notes
    -----
    Inside a function that is being differentiated, the root has the derivative that the implicit
    function theorem gives it, as with `scipy.optimize.root` itself.

    >>> import cotan as ct
    >>> def f(p):
    ...     return {"circle": p["x"] ** 2 + p["y"] ** 2 - 2.0, "line": p["x"] - p["y"]}
    >>> found = ct.optimize.root(f, {"x": 1.0, "y": 0.5})
    >>> round(found.x["x"], 6), round(found.x["y"], 6)
    (1.0, 1.0)
    """
    solvers = scipy_module("scipy.optimize")

    name = "optimize.root"
    unknowns = Unknowns(name, x0)
    equations = Equations(name, fun, unknowns, unknowns.size)
    told = (
        None
        if callback is None
        else lambda x, f: callback(unknowns.structure(x), equations.structure(f))
    )
    result = solvers.root(
        equations.values,
        unknowns.start,
        args=args if isinstance(args, tuple) else (args,),
        method=method,
        jac=equations.jacobian if method.lower() in _WITH_JACOBIAN else None,
        tol=tol,
        callback=told,
        options=options,
    )
    if explain:
        result.explanation = equations.how
    result.fun = equations.structure(result.fun)
    result.x = unknowns.structure(result.x)
    return result


def curve_fit(
    f: Function,
    xdata: object,
    ydata: object,
    p0: object = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    *,
    bounds: object = (-np.inf, np.inf),
    **options: Any,
) -> Any:
    """Fit a function to data, over any structure of parameters, with `scipy.optimize.curve_fit`.

    Parameters
    ----------
    f
        The model. Where `p0` is a list, a tuple or a vector, or is left out, it is called as
        SciPy calls it, `f(xdata, *p)`; with any other structure as `f(xdata, p)`.
    xdata
        The first argument of `f`: anything.
    ydata
        What `f` should give: an array of the shape that `f` returns, or the same structure of
        arrays and numbers. Dictionaries are compared by their keys.
    p0
        Where to start from: any structure. Without it, ones for the further parameters of `f`.
    sigma
        Standard deviations of `ydata`: a number, or a structure like it of arrays and numbers; or
        the covariance of all its numbers, a matrix. As for SciPy.
    absolute_sigma
        As for SciPy.
    bounds
        As for `ct.optimize.least_squares`.
    options
        The rest of SciPy's arguments. `jac` is not among them: the Jacobian is computed. With
        `loss=` the method is `"trf"` unless another is given. With
        `nan_policy="omit"` numbers of `ydata` that are NaN are left out, and those that belong to
        a column of an array `xdata` with NaN.

    Returns
    -------
    popt
        The parameters, in the structure of `p0`.
    pcov : ndarray
        Their covariance, with a row for each number of `ct.ravel(popt)[0]`. The structure of
        standard errors is `ct.ravel(popt)[1](np.sqrt(np.diag(pcov)))`.
    infodict, mesg, ier
        With `full_output=True`, as SciPy gives them.

    Raises
    ------
    TypeError
        When `p0` has nothing that can be varied, or `f` takes other arguments.
    ValueError
        When the structure or the shape of `ydata`, `sigma` or `bounds` does not fit; when numbers
        of `xdata`, of `ydata` or of the first result of `f` are not finite, or those of `sigma`
        not positive; when there are more parameters than data, for `method="lm"`; when `f` has an
        unknown number of parameters and there is no `p0`.
    RuntimeError
        When SciPy's search fails.
    ImportError
        Without SciPy.

    >>> import cotan as ct
    >>> import numpy as np
    >>> t = np.linspace(0.0, 1.0, 20)
    >>> def model(t, p):
    ...     return p["a"] * np.exp(-p["rate"] * t) + p["offset"]
    >>> y = model(t, {"a": 3.0, "rate": 2.0, "offset": 1.0})
    >>> popt, pcov = ct.optimize.curve_fit(model, t, y, {"a": 1.0, "rate": 1.0, "offset": 0.0})
    >>> {name: round(value, 4) for name, value in popt.items()}
    {'a': 3.0, 'rate': 2.0, 'offset': 1.0}
    """
    solvers = scipy_module("scipy.optimize")

    name = "optimize.curve_fit"
    _expect_no_jacobian(name, options)
    start: Any = np.ones(_num_parameters(f)) if p0 is None else p0
    unknowns = Unknowns(name, start, "p0")
    apart = isinstance(start, (list, tuple)) or (_is_array(start) and np.ndim(start) == 1)
    _expect_callable(f, p0, xdata, tuple(start) if apart else None)
    omit = options.get("nan_policy") == "omit"
    if omit:
        del options["nan_policy"]
        options.setdefault("check_finite", False)
    data = Data(name, ydata, xdata, omit)
    if options.get("check_finite", options.get("nan_policy") is None):
        expect_finite(name, "xdata", xdata)
        data.expect_finite()

    def model(p: Any, x: object) -> Any:
        return data.vector_of(f(x, *p) if apart else f(x, p))

    equations = Equations(name, model, unknowns)
    ends = ends_as_bounds(name, bounds, unknowns)
    is_bounded = bool(np.any(np.isfinite(ends)))
    if options.get("loss", "linear") != "linear" and options.get("method") is None:
        options["method"] = "trf"  # SciPy's default without bounds, "lm", takes no loss
    if not is_bounded and options.get("method") in {None, "lm"}:
        _expect_enough(name, unknowns.size, int(data.vector.shape[0]))
    found = solvers.curve_fit(
        lambda x, *p: equations.values_of_fit(np.asarray(p), x),
        xdata,
        data.vector,
        p0=unknowns.start,
        sigma=data.deviations(sigma),
        absolute_sigma=absolute_sigma,
        bounds=ends,
        jac=lambda x, *p: equations.jacobian(np.asarray(p), x),
        **options,
    )
    return (unknowns.structure(found[0]), *found[1:])


def _expect_enough(operation: str, num_parameters: int, num_data: int) -> None:
    if num_data < num_parameters:
        raise ValueError(
            f"{operation}: p0 has {num_parameters} numbers and ydata {num_data}; method='lm', "
            "which is used without bounds, needs at least as many data as parameters; wrap some "
            "parameters in ct.const, or use method='trf'"
        )


def _expect_callable(f: Function, p0: object, xdata: object, apart: Args | None) -> None:
    """Refuse a function that does not take its parameters as `p0` says."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(xdata, *((p0,) if apart is None else apart))
    except TypeError:
        kind = type(p0).__name__
        if apart is None:
            called, remedy = "f(xdata, p)", "take all parameters in one argument, or give p0 a list"
        else:
            called = f"f(xdata, *p), with {len(apart)} parameters"
            remedy = "give p0 a number for each parameter, or a dictionary for one argument"
        raise TypeError(
            f"optimize.curve_fit: p0 is of the class {kind}, so f is called as {called}; it is "
            f"{getattr(f, '__name__', 'f')}{signature}; {remedy}"
        ) from None


def _is_real_number(x: object) -> bool:
    if isinstance(x, (np.ndarray, np.generic, Array)):
        return np.ndim(x) == 0 and x.dtype.kind != "c"
    return isinstance(x, (int, float))


def _is_array(x: object) -> bool:
    return isinstance(x, (np.ndarray, Array))


def _num_parameters(f: Function) -> int:
    """Give the number of parameters after the first: what a fit without `p0` finds."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    count = sum(p.kind in plain for p in parameters) - 1
    if count < 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise ValueError("optimize.curve_fit: the number of parameters of f is not known; give p0")
    return count


def _expect_no_jacobian(operation: str, options: Mapping[str, object]) -> None:
    if options.get("jac") is not None:
        raise TypeError(f"{operation}: the Jacobian is computed; leave out jac")
