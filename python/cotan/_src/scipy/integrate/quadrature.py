"""Overrides of `scipy.integrate`: integrals of samples and of functions.

An adaptive rule finds, on values, the pieces into which it divides the interval. The integral is
then the sum over the nodes of these pieces, as a function of all that the integrand depends on.
"""

import functools
import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.rebind.engine import REBOUND, locate, locate_original
from cotan._src.runtime.by_example import refuses_mapping
from cotan._src.runtime.registry import ALWAYS, REBOUND_CLASS, named, override
from cotan._src.runtime.values import attach_derivative, contains_active, is_array, to_numpy
from cotan._src.state.callback_probe import CallbackProbe, to_numpy_items
from cotan._src.state.plain_copy import PlainCallback, is_one_gradient
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import AnyArray, Args, ArrayLike, Function, NDArray, Scalar

#: One end of an interval, or a place in it.
_Place: TypeAlias = AnyArray | float
#: Sums a function over nodes, by weights.
_Sum: TypeAlias = Callable[[Function, Sequence[_Place], NDArray], AnyArray | float]
#: Sums an integrand over the whole line: over pieces of 0 to 1, by nodes and weights.
_Line: TypeAlias = Callable[[Function, NDArray, NDArray, _Sum], AnyArray | float]

override(
    *named(
        "scipy.integrate",
        """
        cumulative_simpson cumulative_trapezoid romb simpson trapezoid
    """,
    )
)(REBOUND)
override("scipy.integrate.fixed_quad", when=ALWAYS)(REBOUND)
override(
    "scipy.integrate._quadpack_py._NQuad",
    "scipy.integrate._quadpack_py._RangeFunc",
    kind=REBOUND_CLASS,
)(None)
override(
    "scipy.integrate.dblquad", "scipy.integrate.nquad", "scipy.integrate.tplquad", when=ALWAYS
)(REBOUND)


@functools.cache
def _rule() -> tuple[NDArray, NDArray]:
    """Give nodes and weights of Gauss and Legendre for -1 to 1: as exact as those of QUADPACK."""
    return np.polynomial.legendre.leggauss(16)


def _nodes(pieces: Iterable[Sequence[float]]) -> tuple[NDArray, NDArray]:
    x, w = _rule()
    at = [(p + q) / 2 + (q - p) / 2 * x for p, q in pieces]
    weights = [(q - p) / 2 * w for p, q in pieces]
    return np.concatenate(at), np.concatenate(weights)


def _summed_at_once(f: Function, at: Sequence[_Place], weights: NDArray) -> AnyArray | float:
    """Call an integrand that keeps no state for all nodes together, where it allows that."""
    nodes = np.stack(at) if any(map(is_array, at)) else np.array(at, np.float64)
    try:
        values = _core.call_vmap(f, (nodes,), [True], ["x"])
    except Exception as error:
        if not refuses_mapping(error):
            raise
        # It looks at values, and so works for one node at a time.
        return _summed(f, at, weights)
    flat = _core.reshape(_core.asarray(values), (len(weights), -1))
    return _core.reshape(_core.matmul(weights, flat), np.shape(values)[1:])


def _summed(f: Function, at: Sequence[_Place], weights: NDArray) -> AnyArray | float:
    total: AnyArray | float = 0.0
    for x, w in zip(at, weights, strict=True):
        total = total + float(w) * f(x)
    return total


def _on_interval(
    f: Function,
    a: _Place,
    b: _Place,
    pieces: Sequence[tuple[float, float]],
    both: _Line,
    summed: _Sum,
) -> AnyArray | float:
    """Sum over pieces of an interval whose ends may be active, too."""
    low, high = float(to_numpy(a)), float(to_numpy(b))
    sign = 1.0 if high > low else -1.0
    if np.isfinite(low) and np.isfinite(high):
        width = high - low
        if width == 0:
            nothing: AnyArray | float = (b - a) * f(a)
            return nothing
        u, w = _nodes(sorted(tuple(sorted(((p - low) / width, (q - low) / width)))
                             for p, q in pieces))  # fmt: skip
        ends = is_array(a) or is_array(b)
        along = [a + (b - a) * float(v) if ends else low + width * v for v in u]
        whole: AnyArray | float = (b - a) * summed(f, along, w)
        return whole
    t, w = _nodes(pieces)
    if np.isinf(low) and np.isinf(high):
        return both(f, t, w, summed) * sign
    x, w = (1 - t) / t, w / t**2
    start, way = (a, 1.0 if high > 0 else -1.0) if np.isinf(high) else (b, 1.0 if low > 0 else -1.0)
    return summed(lambda v: f(start + way * v), list(x), w) * sign


def _between_points(
    f: Function,
    a: _Place,
    b: _Place,
    points: Iterable[Any] | None,
    pieces: Sequence[tuple[float, float]],
    both: _Line,
    summed: _Sum,
) -> AnyArray | float:
    """Sum over pieces of an interval in which active places move, where the integrand may jump.

    Between two of them the nodes move with both, so the jumps have their share in the derivative.
    """
    moving = [p for p in points if contains_active(p)] if points is not None else []
    if not moving:
        return _on_interval(f, a, b, pieces, both, summed)
    low, high = float(to_numpy(a)), float(to_numpy(b))
    if not (np.isfinite(low) and np.isfinite(high)):
        raise NotDifferentiableError(
            "quad_vec: points= has no derivative where an end of the interval is infinite; "
            "integrate up to each point and from there on by calls of their own, or hold the "
            "points constant with ct.dropgrad"
        )
    sign = 1.0 if high > low else -1.0
    inside = [(float(to_numpy(p)) * sign, p) for p in moving]
    inside = [(at, p) for at, p in inside if low * sign < at < high * sign]
    inside.sort(key=lambda pair: pair[0])
    marks = [(low * sign, a), *inside, (high * sign, b)]
    total: AnyArray | float = 0.0
    for (start, p), (end, q) in itertools.pairwise(marks):
        part = [(u, v) for u, v in pieces if start < sign * (u + v) / 2 < end]
        if part:
            total = total + _on_interval(f, p, q, part, both, summed)
    return total


def _halves(f: Function, t: NDArray, w: NDArray, summed: _Sum) -> AnyArray | float:
    """Integrate over the whole line as QUADPACK: x = (1 - t) / t, to both sides."""
    return summed(lambda v: f(v) + f(-v), list((1 - t) / t), w / t**2)


def _whole(f: Function, t: NDArray, w: NDArray, summed: _Sum) -> AnyArray | float:
    """Integrate over the whole line as `quad_vec`: x = (1 - |t|) / t."""
    return summed(f, list((1 - np.abs(t)) / t), w / t**2)


def _checked(name: str, value: NDArray | float, total: AnyArray | float, tolerance: float) -> Any:
    """Give the value with the derivative of a sum that agrees with it."""
    off = float(np.max(np.abs(to_numpy(total) - value)))
    if not off <= tolerance:
        raise ValueError(
            f"{name}: the sum over the nodes differs from the integral by {off:.1e}, because the "
            "integrand is singular or discontinuous; divide the interval there (points=...), or "
            "substitute the variable so that the integrand is smooth"
        )
    return attach_derivative(value, total)


def _again(f: Function, calls: list[float], a: _Place, b: _Place) -> None:
    """Call an integrand where SciPy did so, for what it keeps; nodes move with the ends."""
    low, high = float(to_numpy(a)), float(to_numpy(b))
    for x in calls:
        if not is_array(a) and not is_array(b):
            at: _Place = x
        elif np.isfinite(low) and np.isfinite(high):
            share = (x - low) / (high - low) if high != low else 0.0
            at = attach_derivative(x, a + (b - a) * share)
        else:
            at = attach_derivative(x, (a if np.isfinite(low) else b) + 0.0)
        f(at)


class _Listed(CallbackProbe):
    """An integrand that remembers where it was called."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.calls: list[float] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append(args[0])
        return super().__call__(*args, **kwargs)


def _integrated_plainly(func: Any, args: Args, ends: tuple[object, ...],
                        integrate: Function, derived: Function) -> Any:  # fmt: skip
    """Integrate a plain copy of an integrand; None where another way is needed."""
    if not is_one_gradient() or not callable(func):
        return None
    plain = PlainCallback(func, args)
    if not plain.captures and not contains_active((ends, args)):
        return None
    return plain.run(lambda: integrate(plain.checked()), derived)


@override("scipy.integrate.quad", when=ALWAYS)
def quad(func: Any, a: _Place, b: _Place, args: object = (), full_output: int = 0,
         epsabs: Scalar = 1.49e-8, epsrel: Scalar = 1.49e-8, limit: int = 50,
         points: Sequence[ArrayLike] | None = None, weight: str | None = None,
         wvar: ArrayLike | None = None, wopts: tuple[object, ...] | None = None,
         maxp1: int = 50, limlst: int = 50,
         complex_func: bool = False) -> tuple[Any, ...]:  # fmt: skip
    more = args if isinstance(args, tuple) else (args,)
    compute = locate_original("scipy.integrate.quad")
    function = _Listed(func) if callable(func) else func
    limits = float(to_numpy(a)), float(to_numpy(b))
    options: Args = (to_numpy(epsabs), to_numpy(epsrel), limit, to_numpy_items(points), weight,
                     to_numpy_items(wvar), wopts, maxp1, limlst)  # fmt: skip
    values = to_numpy_items(more)
    result: tuple[Any, ...]

    def found_with(result: tuple[Any, ...], summed: _Sum) -> tuple[Any, ...]:
        value, error, info = result[:3]
        f = (lambda x: func(x, *more)) if more else func
        count = info.get("last", 1)
        pieces = sorted(zip(info["alist"][:count], info["blist"][:count], strict=True))
        total = _between_points(f, a, b, points, pieces, _halves, summed)
        scale = max(abs(value), float(np.sum(np.abs(info["rlist"][:count]))))
        allowed = 100 * max(error, options[0], options[1] * scale, 1e-12 * scale)
        y = value
        if contains_active(total):
            y = _checked("quad", value, total, allowed)
            y = y[()] if is_array(y) else y
        return (y, error, *result[2:]) if full_output else _told((y, *result[1:]))

    if weight is None and not complex_func:
        found: tuple[Any, ...] | None = _integrated_plainly(
            func, more, (a, b, points),
            lambda call: compute(call, *limits, values, 1, *options),
            lambda result: found_with(result, _summed_at_once),
        )  # fmt: skip
        if found is not None:
            return found
    if not isinstance(function, CallbackProbe):
        result = compute(func, *limits, values, full_output, *options, complex_func)
        return result
    # Captured active arrays show in what the integrand has stored during SciPy's calls.
    is_known = contains_active((a, b, points, more)) or complex_func
    snapshot = StateSnapshot(func, more) if is_known else None
    if complex_func:
        result = compute(function, *limits, values, full_output, *options, True)
        if not function.captures_active and not contains_active((a, b, points, more, wvar)):
            return result
        if snapshot is not None:
            snapshot.restore()
        parts = [
            quad(
                lambda x, *m, part=part: part(func(x, *m)),
                *(a, b, args, 0, *options[:3], points, *options[4:]),
            )[0]
            for part in (np.real, np.imag)
        ]
        return (_core.apply("complex", *parts), *result[1:])
    result = compute(function, *limits, values, 1, *options)
    if not function.captures_active and not contains_active((a, b, points, more, wvar)):
        return result if full_output or len(result) == 2 else _told(result)
    if weight is not None:
        raise NotDifferentiableError(
            f"quad: weight={weight!r} has no derivative rule in cotan; put the weight into the "
            "integrand"
        )
    has_changed = snapshot is not None and snapshot.has_changed()
    snapshot = snapshot or StateSnapshot(func, more)
    # What has written nothing may be called for all nodes together.
    is_pure = is_known and not has_changed
    derived = found_with(result, _summed_at_once if is_pure else _summed)
    snapshot.restore()
    if has_changed:
        _again((lambda x: func(x, *more)) if more else func, function.calls, a, b)
    return derived


def _told(result: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give value and error only, and warn as SciPy does when something was wrong."""
    if len(result) > 3:
        warnings.warn(result[3], locate("scipy.integrate.IntegrationWarning"), stacklevel=4)
    return result[:2]


@override("scipy.integrate.quad_vec", when=ALWAYS)
def quad_vec(f: Function, a: _Place, b: _Place, *args: Any, **kwargs: Any) -> tuple[object, ...]:
    compute = locate_original("scipy.integrate.quad_vec")
    function = _Listed(f)
    names = ("epsabs", "epsrel", "norm", "cache_size", "limit", "workers", "points", "quadrature",
             "full_output")  # fmt: skip
    given = dict(zip(names, args, strict=False)) | kwargs
    more = given.pop("args", ())
    more = more if isinstance(more, tuple) else (more,)
    full = given.pop("full_output", False)
    points = given.get("points")
    given = {k: to_numpy_items(v) for k, v in given.items()}
    limits = float(to_numpy(a)), float(to_numpy(b))
    call = (lambda x: function(x, *to_numpy_items(more))) if more else function
    is_known = contains_active((a, b, points, more))
    snapshot = StateSnapshot(f, more) if is_known else None
    value, error, info = compute(call, *limits, full_output=True, **given)
    if function.captures_active or snapshot is not None:
        has_changed = snapshot is not None and snapshot.has_changed()
        snapshot = snapshot or StateSnapshot(f, more)
        g = (lambda x: _core.asarray(f(x, *more))) if more else (lambda x: _core.asarray(f(x)))
        summed = _summed_at_once if is_known and not has_changed else _summed
        pieces = [tuple(p) for p in info.intervals]
        total = _between_points(g, a, b, points, pieces, _whole, summed)
        snapshot.restore()
        if has_changed:
            _again(g, function.calls, a, b)
        allowed = 100 * max(error, given.get("epsabs", 1e-200), 1e-8 * float(np.max(np.abs(value))))
        value = _checked("quad_vec", value, total, allowed)
        value = value[()] if is_array(value) and np.ndim(value) == 0 else value
    return (value, error, info) if full else (value, error)
