"""Overrides of the distributions and functions of `scipy.stats`.

The standard form of a distribution is SciPy's Python code, rebound. The public methods around it
are written here: they use `where` for what SciPy gathers and scatters. With respect to points,
location and scale there is a derivative even where that code is compiled: the density is the
derivative of the distribution function.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.host_call import host_call
from cotan._src.rebind.engine import ReboundInstance, locate
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.constant_fallback import call_on_constants, method_with_constant_fallback
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import METHOD, SUBSTITUTE, override
from cotan._src.runtime.values import contains_active, is_active, is_array, refuse, to_numpy
from cotan._src.scipy.stats.compiled_formulas import COMPILED
from cotan._src.scipy.stats.conditions import compared, holds, is_mapped, known
from cotan._src.scipy.stats.count_formulas import COUNT_FORMULAS
from cotan._src.scipy.stats.shape_formulas import BRANCHES, FORMULAS, exp_of
from cotan._src.typing import AnyArray, ArrayLike, Function, NDArray, Scalar

_HERE = "scipy.stats"


class _Distribution(Protocol):
    """One of SciPy's distributions, continuous or discrete."""

    name: str
    shapes: str | None
    badvalue: float
    numargs: int
    _stats_has_moments: bool
    _argcheck: Function
    _entropy: Function
    _logpdf: Function
    _nonzero: Function
    _parse_args: Function
    _parse_args_stats: Function
    _pdf: Function
    _ppf: Function
    _support_mask: Function


def _t_logpdf(self: object, x: AnyArray, df: AnyArray) -> AnyArray:
    del self
    if np.any(np.isinf(to_numpy(df))):
        raise NotDifferentiableError(
            "scipy.stats.t: an infinite df has no derivative rule; use norm"
        )
    # As SciPy does it: the logarithms of gamma functions of large numbers would cancel.
    poch: AnyArray = locate("scipy.special.poch")(df / 2, 0.5)
    constant = np.log(poch) - 0.5 * np.log(df * math.pi)
    return constant - (df + 1) / 2 * np.log1p(x * x / df)


def _cauchy_logpdf(self: object, x: AnyArray) -> AnyArray:
    del self
    return -math.log(math.pi) - 2 * np.log(np.hypot(1.0, x))


def _cauchy_ppf(self: object, q: AnyArray) -> AnyArray:
    del self
    return np.tan(math.pi * (q - 0.5))


def _cauchy_isf(self: object, q: AnyArray) -> AnyArray:
    del self
    return np.tan(math.pi * (0.5 - q))


# Distributions whose code is compiled in places, and what that code computes.
_INSTEAD: dict[str, dict[str, Function]] = {
    "beta_gen": {"_pdf": exp_of("_logpdf")},
    "cauchy_gen": {"_logpdf": _cauchy_logpdf, "_ppf": _cauchy_ppf, "_isf": _cauchy_isf},
    "t_gen": {"_logpdf": _t_logpdf, "_pdf": exp_of("_logpdf")},
    **COUNT_FORMULAS,
    **COMPILED,
}
for _name, _methods in FORMULAS.items():
    _INSTEAD[_name] = _INSTEAD.get(_name, {}) | _methods
# Distributions that are made of primitives alone: they fuse with what is around them.
_PRIMITIVE = frozenset(
    [
        "expon_gen",
        "gumbel_l_gen",
        "gumbel_r_gen",
        "halflogistic_gen",
        "laplace_gen",
        "logistic_gen",
        "norm_gen",
        "pareto_gen",
        "rayleigh_gen",
        "uniform_gen",
        "weibull_max_gen",
        "weibull_min_gen",
    ]
)


def _adopted(distribution: _Distribution, shapes: Sequence[ArrayLike]) -> ReboundInstance:
    name = type(distribution).__name__
    # The code of this one is compiled only in what depends on its shape.
    keeps_all = name == "t_gen" and not contains_active(shapes)
    return ReboundInstance(distribution, **({} if keeps_all else _INSTEAD.get(name, {})))


@override("scipy._lib.array_api_extra.apply_where", kind=SUBSTITUTE, versions="scipy<1.18")
@override("scipy._external.array_api_extra.apply_where", kind=SUBSTITUTE, versions="scipy>=1.18")
def _apply_where(cond: AnyArray, args: AnyArray | Sequence[AnyArray], f1: Function,
                 f2: Function | None = None, *, fill_value: Any = None,
                 **options: object) -> AnyArray | Scalar:  # fmt: skip
    """Choose between two functions; the one that is not chosen has no influence."""
    del options
    args = args if isinstance(args, (list, tuple)) else (args,)
    chosen = known(cond)
    if holds(chosen):
        everywhere: AnyArray = f1(*args)
        return everywhere
    other: AnyArray | Scalar = fill_value if f2 is None else f2(*args)
    is_some = is_mapped(chosen) or np.any(chosen)
    return _core.where(chosen, f1(*args), other) if is_some else other


def _staying(shape: AnyArray) -> AnyArray:
    """Make infinite results constant: they do not move with their arguments."""
    infinite = known(np.isinf(compared(shape)))
    return _core.where(infinite, to_numpy(shape), shape) if np.any(infinite) else shape


class _Call:
    """A call of a method: arguments in standard form, and where they are what they should be."""

    def __init__(
        self,
        dist: _Distribution,
        x: ArrayLike,
        args: Sequence[ArrayLike],
        kwds: Mapping[str, ArrayLike],
        discrete: bool = False,
    ) -> None:
        if discrete:
            shapes, loc, _ = dist._parse_args(*args, **kwds)
            scale: ArrayLike = 1.0
        else:
            shapes, loc, scale = dist._parse_args(*args, **kwds)
        given: list[AnyArray] = [asarray(v) for v in (x, loc, scale, *shapes)]
        # Integers stay as they are, to be counted with.
        self.dist, self.rebound = dist, _adopted(dist, list(shapes))
        self.names = dist.shapes.split(", ") if dist.shapes else []
        # A distribution may take any number of them.
        self.names += [f"shape {i}" for i in range(len(self.names), len(shapes))]
        for name, v in zip(["x", "loc", "scale", *self.names], given, strict=True):
            if v.dtype.kind == "c":
                raise NotDifferentiableError(
                    f"scipy.stats.{dist.name}: {name} is complex, and has no derivative rule in "
                    f"cotan; use {name}.real"
                )
        self.x, self.loc, self.scale = given[:3]
        self.shapes = [_staying(s) for s in given[3:]]
        self.values: list[NDArray] = [to_numpy(s) for s in self.shapes]
        self.valid = (dist._argcheck(*self.values)) & known(compared(self.scale) > 0)
        shape = np.broadcast_shapes(*(np.shape(g) for g in given))
        self.valid = np.broadcast_to(self.valid == 1, shape)
        present = known(~np.isnan(compared(self.x)))
        self.missing = ~(self.valid & np.broadcast_to(present, shape))

    def standard(self) -> Array:
        y = self.x - self.loc
        unknown = is_active(self.scale) or is_mapped(self.scale) or (
            is_array(self.scale) and _core.is_preparing())  # fmt: skip
        if unknown or np.any(to_numpy(self.scale) != 1):
            y = y / self.scale
        return _core.asarray(y, np.float64)

    def at(
        self, inside: AnyArray, y: AnyArray, function: Function, is_share: bool = False
    ) -> AnyArray | float:
        """Give a function where `inside` holds; elsewhere it gets arguments that do no harm.

        Where nobody knows where that is, it is the middle: of the distribution, or of the shares.
        """
        value: AnyArray
        inside = np.broadcast_to(inside & ~self.missing, np.broadcast_shapes(
            np.shape(inside), self.missing.shape))  # fmt: skip
        if is_mapped(inside):
            middle = 0.5 if is_share else self.dist._ppf(0.5, *self.values)
            value = function(_core.where(inside, y, middle), *self.shapes)
            return value
        if np.all(inside):
            value = function(y, *self.shapes)
            return value
        if not np.any(inside):
            return 0.0
        first = tuple(i[0] for i in np.nonzero(inside)) if inside.ndim else ()
        harmless = [
            _core.where(inside, v, np.broadcast_to(to_numpy(v), inside.shape)[first])
            for v in (y, *self.shapes)
        ]
        value = function(*harmless)
        return value

    def chosen(
        self, result: AnyArray | Scalar, *cases: tuple[AnyArray, AnyArray | Scalar]
    ) -> AnyArray:
        """Put together what holds where."""
        for condition, value in cases:
            result = _core.where(condition, value, result)
        result = _core.where(self.missing, self.dist.badvalue, result)
        # SciPy puts results of any precision into an array of float64.
        result = _core.broadcast_to(_core.asarray(result, np.float64), self.missing.shape)
        return result[()] if result.ndim == 0 else result

    def support(self) -> tuple[AnyArray, AnyArray]:
        ends: tuple[AnyArray, AnyArray] = self.rebound._get_support(*self.shapes)
        return ends

    def evaluate(self, method: str, function: Function, *args: AnyArray) -> Any:
        """Call a method of the standard form; refuse shape parameters without a derivative."""
        active = [n for n, s in zip(self.names, self.shapes, strict=True) if is_active(s)]
        who = f"scipy.stats.{self.dist.name}.{method}"
        for branch in BRANCHES.get(type(self.dist).__name__, ()):
            if branch.parameter in active and method in branch.methods:
                value = self.values[self.names.index(branch.parameter)]
                if np.any(branch.holds(value)):
                    raise NotDifferentiableError(
                        f"{who}: has no derivative rule for {branch.parameter} where "
                        f"{branch.where}; hold it constant with ct.dropgrad"
                    )
        reason: Exception
        try:
            return function(*args)
        except NotDifferentiableError as error:
            if str(error).startswith("scipy."):
                raise
            reason = error
        except (AttributeError, IndexError, TypeError) as error:
            if not active and not any(map(is_active, args)):
                raise
            reason = error
        # SciPy's names of what it calls would say nothing to users.
        of = f"its shape parameters ({', '.join(active)})" if active else "the points"
        raise NotDifferentiableError(
            f"{who}: SciPy's code cannot be followed for {of}, so it has no derivative rule in "
            "cotan; hold them constant with ct.dropgrad"
        ) from reason

    def is_open(self) -> bool:
        """Say whether only points, location and scale are active."""
        return not any(map(is_active, self.shapes))


def _density(log: bool) -> Function:
    def method(self: _Distribution, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> AnyArray:
        call = _Call(self, x, args, kwds)
        base = locate("scipy.stats.rv_continuous")
        if type(self)._pdf is base._pdf and type(self)._logpdf is base._logpdf:
            raise NotDifferentiableError(
                f"scipy.stats.{self.name}: the density is computed by numerical differences, so it "
                "has no derivative here; write its formula, or hold it constant with ct.dropgrad"
            )
        y = call.standard()
        # Where a density is infinite at an end of its support, that is not in it.
        inside = known(self._support_mask(compared(y), *call.values)) != 0
        name = "logpdf" if log else "pdf"
        function = getattr(call.rebound, f"_{name}")
        value = call.at(inside, y, lambda *args: call.evaluate(name, function, *args))
        value = value - np.log(_safe(call.scale)) if log else value / call.scale
        return call.chosen(value, (~inside, -math.inf if log else 0.0))

    return method


def _safe(scale: AnyArray) -> AnyArray:
    positive = known(compared(scale) > 0)
    return scale if holds(positive) else _core.where(positive, scale, 1.0)


# What the logarithm of the derivative is, given the logarithm of the density and the result.
_SLOPES: dict[str, Callable[[AnyArray, Any], AnyArray]] = {
    "cdf": lambda log, _: np.exp(log),
    "sf": lambda log, _: -np.exp(log),
    "logcdf": lambda log, y: np.exp(log - y),
    "logsf": lambda log, y: -np.exp(log - y),
}


def _computed(call: _Call, name: str, y: AnyArray, *shapes: AnyArray) -> AnyArray:
    """Give a function of the standard form: its own code, or compiled with a known derivative."""
    dist, rebound = call.dist, call.rebound
    is_composed = type(dist).__name__ in _PRIMITIVE and name in _SLOPES
    if is_composed or is_mapped(y) or not call.is_open():
        value: AnyArray = call.evaluate(name, getattr(rebound, f"_{name}"), y, *shapes)
        return value

    def compiled(y: AnyArray, *shapes: AnyArray) -> Array:
        return host_call(f"scipy.stats.{dist.name}.{name}", forward, pullback, y, *shapes)

    def forward(y: NDArray, *shapes: NDArray) -> NDArray:
        # SciPy's own code always gets arrays with one axis, of the same length.
        given = map(np.ravel, np.broadcast_arrays(y, *shapes))
        return np.reshape(getattr(dist, f"_{name}")(*given), y.shape)

    def pullback(ct: AnyArray, y: AnyArray, *rest: Any) -> tuple[AnyArray | None, ...]:
        *shapes, wanted = rest
        shapes = [_core.dropgrad(s) if not isinstance(s, np.ndarray) else s for s in shapes]
        if name in _SLOPES:
            value = compiled(y, *shapes) if name.startswith("log") else None
            slope = _SLOPES[name](rebound._logpdf(y, *shapes), value)
        else:
            at = compiled(y, *shapes)
            slope = np.exp(-rebound._logpdf(at, *shapes)) * (1 if name == "ppf" else -1)
        del wanted
        return (ct * slope, *(None for _ in shapes))

    shape = np.broadcast_shapes(np.shape(y), *(np.shape(s) for s in shapes))
    return compiled(_core.broadcast_to(_core.asarray(y, np.float64), shape), *map(to_numpy, shapes))


def _distribution(name: str) -> Function:
    low, high = (0.0, 1.0) if name.endswith("cdf") else (1.0, 0.0)
    if name.startswith("log"):
        low, high = (-math.inf, 0.0) if low == 0 else (0.0, -math.inf)

    def method(self: _Distribution, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> AnyArray:
        call = _Call(self, x, args, kwds)
        y = call.standard()
        a, b = map(to_numpy, call.support())
        values = compared(y)
        inside = known((a < values) & (values < b))
        value = call.at(inside, y, lambda y, *s: _computed(call, name, y, *s))
        return call.chosen(value, (known(values <= a), low), (known(values >= b), high))

    return method


def _quantile(name: str) -> Function:
    def method(self: _Distribution, q: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> AnyArray:
        call = _Call(self, q, args, kwds)
        a, b = call.support()
        ends = (a, b) if name == "ppf" else (b, a)
        values = compared(call.x)
        inside = known((values > 0) & (values < 1))
        y = call.at(inside, call.x, lambda q, *s: _computed(call, name, q, *s), True)
        cases: list[tuple[AnyArray, AnyArray | Scalar]]
        cases = [(known((values < 0) | (values > 1)), math.nan)]
        for at, end in zip((0, 1), ends, strict=True):
            if is_mapped(at_end := known(values == at)) or np.any(at_end):
                # An infinite end stays where it is.
                moved = end * call.scale + call.loc if np.all(np.isfinite(to_numpy(end))) else end
                cases.append((at_end, moved))
        return call.chosen(y * call.scale + call.loc, *cases)

    return method


override(f"{_HERE}.rv_continuous.pdf", kind=METHOD)(_density(False))
override(f"{_HERE}.rv_continuous.logpdf", kind=METHOD)(_density(True))
for _name in _SLOPES:
    override(f"{_HERE}.rv_continuous.{_name}", kind=METHOD)(_distribution(_name))
for _name in ("ppf", "isf"):
    override(f"{_HERE}.rv_continuous.{_name}", kind=METHOD)(_quantile(_name))

# --------------------------------------------------------------------------------------------------
# Discrete distributions


def _mass(log: bool) -> Function:
    def method(self: _Distribution, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> AnyArray:
        call = _Call(self, k, args, kwds, discrete=True)
        y = call.x - call.loc
        a, b = map(to_numpy, call.support())
        values = compared(y)
        inside = (a <= values) & (values <= b)
        if not hasattr(self, "xk"):
            inside = inside & (self._nonzero(values, *call.values))
        name = "logpmf" if log else "pmf"
        function = getattr(call.rebound, f"_{name}")
        value = call.at(inside, y, lambda *args: call.evaluate(name, function, *args))
        return call.chosen(value, (~inside, -math.inf if log else 0.0))

    return method


def _cumulated(name: str) -> Function:
    low, high = (0.0, 1.0) if name.endswith("cdf") else (1.0, 0.0)
    if name.startswith("log"):
        low, high = (-math.inf, 0.0) if low == 0 else (0.0, -math.inf)

    def method(self: _Distribution, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> AnyArray:
        call = _Call(self, k, args, kwds, discrete=True)
        y = _core.dropgrad(call.x) - _core.dropgrad(call.loc)
        a, b = map(to_numpy, call.support())
        values = compared(call.x - call.loc)
        inside = (a <= values) & (values < b)
        function = getattr(call.rebound, f"_{name}")
        value = call.at(inside, y, lambda *args: call.evaluate(name, function, *args))
        return call.chosen(value, (values < a, low), (values >= b, high))

    return method


def _of_discrete(name: str, rule: Function) -> None:
    def original() -> Function:
        found: Function = original_of(vars(locate(f"{_HERE}.rv_discrete"))[name])
        return found

    rule = method_with_constant_fallback(original, rule)
    override(f"{_HERE}.rv_discrete.{name}", kind=METHOD)(rule)


_of_discrete("pmf", _mass(False))
_of_discrete("logpmf", _mass(True))
for _name in _SLOPES:
    _of_discrete(_name, _cumulated(_name))


def _number_at(name: str) -> Function:
    """Give a quantile: a number that shapes and probability move by jumps alone, and its place."""

    def method(self: _Distribution, q: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> AnyArray:
        shapes, loc, _ = self._parse_args(*args, **kwds)
        original = original_of(vars(locate(f"{_HERE}.rv_discrete"))[name])
        if len(shapes) != self.numargs:
            # One argument that holds them all.
            if contains_active((q, args, kwds)):
                raise refuse(f"scipy.stats.{self.name}.{name}")
            constant: AnyArray = call_on_constants(original, (self, q, *args), kwds)
            return constant

        def forward(q: NDArray, *shapes: NDArray) -> NDArray:
            return np.asarray(original(self, q, *shapes), np.float64)

        def pullback(ct: AnyArray, *args: Any) -> tuple[AnyArray, ...]:
            del ct
            return tuple(np.zeros(np.shape(x)) for x in args[:-1])

        given = [_core.asarray(x, np.float64) for x in (q, *shapes)]
        found = host_call(f"scipy.stats.{self.name}.{name}", forward, pullback, *given)
        result: AnyArray = _core.dropgrad(found) + asarray(loc)
        return result[()] if result.ndim == 0 else result

    return method


for _name in ("ppf", "isf"):
    override(f"{_HERE}.rv_discrete.{_name}", kind=METHOD)(_number_at(_name))


# --------------------------------------------------------------------------------------------------
# Moments

_GENERIC = f"{_HERE}._distn_infrastructure.rv_generic"


def _is_discrete(dist: _Distribution) -> bool:
    return isinstance(dist, locate("scipy.stats.rv_discrete"))


def _of_parameters(name: str) -> Callable[[Function], None]:
    """Enter the rule of a method for active arguments."""

    def enter(rule: Function) -> None:
        @override(f"{_GENERIC}.{name}", kind=METHOD)
        def method(
            self: _Distribution, *args: ArrayLike, **kwds: ArrayLike
        ) -> AnyArray | tuple[AnyArray, ...]:
            result: AnyArray | tuple[AnyArray, ...]
            if contains_active(args) or contains_active(kwds):
                result = rule(self, *args, **kwds)
                return result
            values = {key: to_numpy(v) for key, v in kwds.items()}
            original = original_of(vars(locate(_GENERIC))[name])
            result = original(self, *map(to_numpy, args), **values)
            return result

    return enter


def _stats(
    self: _Distribution, *args: ArrayLike, **kwds: ArrayLike
) -> AnyArray | tuple[AnyArray, ...]:
    shapes, loc, scale, asked = self._parse_args_stats(*args, **kwds)
    given = {"loc": loc} if _is_discrete(self) else {"loc": loc, "scale": scale}
    call = _Call(self, 0.0, shapes, given, _is_discrete(self))
    options = {"moments": asked} if self._stats_has_moments else {}
    moments = call.evaluate("stats", lambda *s: call.rebound._stats(*s, **options), *call.shapes)
    mean, variance, skewness, excess = moments
    moments_of = {
        "m": None if mean is None else call.loc + call.scale * mean,
        "v": None if variance is None else call.scale**2 * variance,
        "s": skewness,
        "k": excess,
    }
    results = []
    for name in (n for n in "mvsk" if n in asked):
        if moments_of[name] is None:
            raise NotDifferentiableError(
                f"scipy.stats.{self.name}: SciPy has no formula for this moment, so it has no "
                "derivative here; write it as an integral over the density"
            )
        results.append(call.chosen(_core.asarray(moments_of[name], np.float64)))
    return results[0] if len(results) == 1 else tuple(results)


def _moment(asked: str) -> Function:
    def method(
        self: _Distribution, *args: ArrayLike, **kwds: ArrayLike
    ) -> AnyArray | tuple[AnyArray, ...]:
        return _stats(self, *args, **{**kwds, "moments": asked})

    return method


_of_parameters("stats")(_stats)
_of_parameters("mean")(_moment("m"))
_of_parameters("var")(_moment("v"))
_of_parameters("std")(lambda *args, **kwds: np.sqrt(_moment("v")(*args, **kwds)))


@_of_parameters("entropy")
def _entropy(self: _Distribution, *args: ArrayLike, **kwds: ArrayLike) -> AnyArray:
    base = locate(f"{_HERE}.rv_continuous")
    if _is_discrete(self) or type(self)._entropy is base._entropy:
        raise NotDifferentiableError(
            f"scipy.stats.{self.name}: SciPy has no formula for the entropy, so it has no "
            "derivative here; write it as a sum over the density"
        )
    call = _Call(self, 0.0, args, kwds)
    entropy = call.evaluate("entropy", call.rebound._entropy, *call.shapes)
    return call.chosen(entropy + np.log(_safe(call.scale)))


@override(f"{_HERE}._distn_infrastructure.rv_frozen.__init__", kind=METHOD)
def _freeze(self: Any, dist: Any, *args: ArrayLike, **kwds: ArrayLike) -> None:
    self.args, self.kwds = args, kwds
    self.dist = dist.__class__(**dist._updated_ctor_param())
    shapes, _, _ = self.dist._parse_args(*args, **kwds)
    self.a, self.b = _adopted(self.dist, [])._get_support(*map(asarray, shapes))
