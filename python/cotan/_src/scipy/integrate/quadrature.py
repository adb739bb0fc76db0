"""Overrides of `scipy.integrate`: integrals of samples and of functions.

An adaptive rule finds, on values, the pieces into which it divides the interval. The integral is
then the sum over the nodes of these pieces, as a function of all that the integrand depends on.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import FunctionKey, NotDifferentiableError
from cotan._src.kit.implicit_diff import number_in
from cotan._src.kit.known_programs import KnownPrograms, like, with_rows, without_branches
from cotan._src.kit.slope_call import Move, gives_slopes, moved
from cotan._src.kit.solved_again import Found, Known, SolvedAgain, Take
from cotan._src.rebind.engine import REBOUND, locate, locate_original
from cotan._src.runtime.by_example import refuses_mapping
from cotan._src.runtime.call_site import warn
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.runtime.registry import ALWAYS, REBOUND_CLASS, named, override
from cotan._src.runtime.values import (
    attach_derivative,
    contains_active,
    is_array,
    python_number,
    to_numpy,
)
from cotan._src.state.callback_probe import CallbackProbe, to_numpy_items
from cotan._src.state.computing_guards import is_attempted
from cotan._src.state.plain_copy import PlainCallback, is_one_gradient, with_arrays
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import AnyArray, Args, ArrayLike, Function, NDArray, Scalar

#: One end of an interval, or a place in it.
_Place: TypeAlias = AnyArray | float
#: Sums a function over nodes, by weights.
_Sum: TypeAlias = Callable[[Function, Sequence[_Place], NDArray], AnyArray | float]
#: From nodes and weights for pieces of 0 to 1 to those for the whole line.
_Line: TypeAlias = Callable[[NDArray, NDArray], tuple[NDArray, NDArray]]

_KNOWN = KnownPrograms()

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
        raise_interrupt(error)
        # It looks at values, and so works for one node at a time.
        return _summed(f, at, weights)
    flat = _core.reshape(_core.asarray(values), (len(weights), -1))
    return _core.reshape(_core.matmul(weights, flat), np.shape(values)[1:])


def _summed(f: Function, at: Sequence[_Place], weights: NDArray) -> AnyArray | float:
    total: AnyArray | float = 0.0
    for x, w in zip(at, weights, strict=True):
        total = total + float(w) * f(x)
    return total


@functools.lru_cache(256)
def _places(
    low: float, high: float, pieces: tuple[tuple[float, float], ...], both: _Line
) -> tuple[NDArray, NDArray]:
    """Give nodes and weights for an interval with constant ends.

    They are the same in the next call, as long as the adaptive rule divides the interval so.
    """
    sign = 1.0 if high > low else -1.0
    if np.isfinite(low) and np.isfinite(high):
        x, w = _nodes(sorted(tuple(sorted(piece)) for piece in pieces))
        return x, sign * w
    t, w = _nodes(pieces)
    if np.isinf(low) and np.isinf(high):
        x, w = both(t, w)
    elif np.isinf(high):
        x, w = low + (1.0 if high > 0 else -1.0) * (1 - t) / t, w / t**2
    else:
        x, w = high + (1.0 if low > 0 else -1.0) * (1 - t) / t, w / t**2
    return x, sign * w


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
    if low == high and np.isfinite(low):
        nothing: AnyArray | float = (b - a) * f(a)
        return nothing
    if np.isfinite(low) and np.isfinite(high) and (is_array(a) or is_array(b)):
        width = high - low
        u, w = _nodes(sorted(tuple(sorted(((p - low) / width, (q - low) / width)))
                             for p, q in pieces))  # fmt: skip
        along = [a + (b - a) * float(v) for v in u]
        whole: AnyArray | float = (b - a) * summed(f, along, w)
        return whole
    x, w = _places(low, high, tuple(pieces), both)
    end, at = (b, high) if np.isinf(low) else (a, low)
    if is_array(end) and np.isfinite(at):
        return summed(f, [end + float(v) for v in x - at], w)
    return summed(f, list(x), w)


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


def _halves(t: NDArray, w: NDArray) -> tuple[NDArray, NDArray]:
    """Give nodes and weights for the whole line as QUADPACK has them: to both sides of 0."""
    x, w = (1 - t) / t, w / t**2
    return np.concatenate([x, -x]), np.concatenate([w, w])


def _whole(t: NDArray, w: NDArray) -> tuple[NDArray, NDArray]:
    """Give them as `quad_vec` has them: (1 - |t|) / t."""
    return (1 - np.abs(t)) / t, w / t**2


def _checked(name: str, value: NDArray | float, total: AnyArray | float, tolerance: float) -> Any:
    """Give the value with the derivative of a sum that agrees with it."""
    _expect_near(name, float(np.max(np.abs(to_numpy(total) - value))), tolerance)
    return attach_derivative(value, total)


def _expect_near(name: str, off: float, tolerance: float) -> None:
    if not off <= tolerance:
        raise ValueError(
            f"{name}: the sum over the nodes differs from the integral by {off:.1e}, because the "
            "integrand is singular or discontinuous; divide the interval there (points=...), or "
            "substitute the variable so that the integrand is smooth"
        )


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


class _Integrand(PlainCallback):
    """An integrand that runs on a plain copy of it."""

    #: Integrates it once more, by the rule.
    again: Function
    #: The result of QUADPACK for the copies of a key, and whether all of it is asked for.
    integrate: Callable[[FunctionKey], Any]
    is_full: bool


def _integrated_plainly(func: Any, args: Args, ends: tuple[object, ...], integrate: Function,
                        derived: Function, is_full: bool) -> Any:  # fmt: skip
    """Integrate a plain copy of an integrand; None where another way is needed."""
    if not is_one_gradient() or not callable(func):
        return None
    plain = _Integrand(func, args)
    if not plain.captures and not contains_active((ends, args)):
        return None
    plain.again = functools.partial(
        _integrated_plainly, func, args, ends, integrate, derived, is_full
    )
    plain.integrate, plain.is_full = lambda key: integrate(*key.plain), is_full
    return plain.run(
        lambda: integrate(plain.checked(), plain.values), lambda found: derived(plain, found)
    )


class _Integral(NamedTuple):
    """An integral that QUADPACK has found, by what the sum over its nodes has to be like."""

    value: float
    nodes: NDArray
    weights: NDArray
    #: How far the sum may be from the integral.
    allowed: float

    def slopes(self, known: Known) -> list[NDArray] | None:
        """Give derivatives with respect to leaves, by a program of as many nodes."""
        at = self.nodes, self.weights, *known.key.values
        total, _, *slopes = known.program.run(*at)
        if not all(np.isfinite(slope).all() for slope in slopes):
            return None
        _expect_near("quad", abs(float(total[0]) - self.value), self.allowed)
        return [slope.reshape(-1) for slope in slopes]


def _pieces(result: tuple[Any, ...], tolerances: Args) -> tuple[list[tuple[float, float]], float]:
    """Give the pieces that QUADPACK has made, and how far a sum may be from its result."""
    (value, error, info), (absolute, relative) = result[:3], map(to_numpy, tolerances)
    count = info.get("last", 1)
    pieces = sorted(zip(*(info[k][:count].tolist() for k in ("alist", "blist")), strict=True))
    scale = max(abs(value), sum(map(abs, info["rlist"][:count].tolist())))
    return pieces, 100 * max(error, absolute, relative * scale, 1e-12 * scale)


def _integral(result: tuple[Any, ...], ends: tuple[Any, Any], tolerances: Args) -> _Integral | None:
    """Give the nodes of a result, as many as programs are made for; None without an interval."""
    low, high = (float(to_numpy(end)) for end in ends)
    if low == high:
        return None
    pieces, allowed = _pieces(result, tolerances)
    nodes, weights = _places(low, high, tuple(pieces), _halves)
    # Programs are made for a power of two of pieces; what is added counts nothing.
    count, order = len(nodes), len(_rule()[0])
    size = order << (-(-count // order) - 1).bit_length()
    if size > count:
        nodes = np.pad(nodes, (0, size - count), "edge")
        weights = np.pad(weights, (0, size - count))
    return _Integral(result[0], nodes, weights, allowed)


def _known(given: tuple[Any, Args], key: FunctionKey, integral: _Integral | None) -> Known | None:
    """Give a program that sums an integrand over nodes; None where there is none."""
    if integral is None:
        return None
    leaves, size = key.leaves, len(integral.nodes)

    def make(used: list[int]) -> Function:
        def summed(x: AnyArray, w: AnyArray, *values: AnyArray) -> AnyArray:
            function, args = with_arrays(given, leaves, like(leaves, values))
            y = _core.call_vmap(lambda v: function(v, *args), (x,), [True], ["x"])
            return _core.matmul(_core.reshape(w, (1, size)), _core.reshape(y, (size,)))

        def of_all(x: AnyArray, w: AnyArray, *values: AnyArray) -> Any:
            # What the sum changes with the weights is what it is made of, so that costs nothing.
            once = lambda *v: with_rows(functools.partial(summed, x), used, w, *v)  # noqa: E731
            return without_branches(once, *values)

        return of_all

    found = _KNOWN.of(key, size, (integral.nodes, integral.weights, *key.values), make)
    return Known(given, key, found) if found is not None and found.used else None


def _moved_by_program(
    plain: _Integrand, result: tuple[Any, ...], ends: tuple[Any, Any], tolerances: Args
) -> Any:
    """Give an integral with its derivatives by a program that is kept; None where there is none."""
    key, given = plain.key, (plain.function, plain.args)
    if key is None or not key.leaves:
        return None

    def slopes_of(key: FunctionKey, result: Any) -> tuple[Known, list[NDArray]] | None:
        integral = _integral(result, ends, tolerances)
        known = _known(given, key, integral)
        slopes = known and integral and integral.slopes(known)
        return None if known is None or slopes is None else (known, slopes)

    def find(known: Known, take: Take) -> Found:
        result = plain.integrate(known.key)
        if len(result) > 3 and not plain.is_full:
            # The rule warns.
            return None
        taken = take(result if plain.is_full else result[:2])
        found = slopes_of(known.key, result)
        # Where there are more pieces there is another program.
        if taken is None or found is None or found[0].program.used != known.program.used:
            return None
        return taken[0], found[1]

    found = slopes_of(key, result)
    if found is None:
        return None
    known, slopes = found
    again = SolvedAgain(plain.again, known, find) if _core.is_collecting() else plain.again
    move = Move(known.leaves, slopes, number_in)
    return moved(np.float64(result[0]), move, True, again)


def _derived(
    result: tuple[Any, ...],
    f: Function,
    ends: tuple[Any, Any, Any],
    tolerances: Args,
    summed: _Sum,
    plain: _Integrand | None,
) -> Any:
    """Give an integral that QUADPACK has found, with its derivative.

    `ends` are those of the interval and the places between them where pieces end; `plain` is an
    integrand of which a program may be known.
    """
    value, (a, b, points) = result[0], ends
    if plain is not None and not contains_active(ends):
        known = _moved_by_program(plain, result, (a, b), tolerances)
        if known is not None:
            return known
    pieces, allowed = _pieces(result, tolerances)
    total = _between_points(f, a, b, points, pieces, _halves, summed)
    if not contains_active(total):
        return value
    y = _checked("quad", value, total, allowed)
    return python_number(y)


@override("scipy.integrate.quad", when=ALWAYS)
@gives_slopes
def quad(func: Any, a: _Place, b: _Place, args: object = (), full_output: int = 0,
         epsabs: Scalar = 1.49e-8, epsrel: Scalar = 1.49e-8, limit: int = 50,
         points: Sequence[ArrayLike] | None = None, weight: str | None = None,
         wvar: ArrayLike | None = None, wopts: tuple[object, ...] | None = None,
         maxp1: int = 50, limlst: int = 50,
         complex_func: bool = False) -> tuple[Any, ...]:  # fmt: skip
    more = args if isinstance(args, tuple) else (args,)
    compute = locate_original("scipy.integrate.quad")
    function = _Listed(func) if callable(func) else func
    values = to_numpy_items(more)

    def integrate(call: Any, values: Any, full: int = 1, is_complex: bool = False) -> Any:
        # A replay calls this for other values.
        return compute(
            call, float(to_numpy(a)), float(to_numpy(b)), values, full, to_numpy(epsabs),
            to_numpy(epsrel), limit, to_numpy_items(points), weight, to_numpy_items(wvar), wopts,
            maxp1, limlst, is_complex,
        )  # fmt: skip

    result: tuple[Any, ...]

    def found_with(
        result: tuple[Any, ...], summed: _Sum, plain: _Integrand | None = None
    ) -> tuple[Any, ...]:
        f = (lambda x: func(x, *more)) if more else func
        y = _derived(result, f, (a, b, points), (epsabs, epsrel), summed, plain)
        return (y, *result[1:]) if full_output else _told((y, *result[1:]))

    if weight is None and not complex_func:
        found: tuple[Any, ...] | None = _integrated_plainly(
            func, more, (a, b, points),
            integrate, lambda plain, result: found_with(result, _summed_at_once, plain),
            bool(full_output),
        )  # fmt: skip
        if found is not None:
            return found
    if not isinstance(function, CallbackProbe):
        result = integrate(func, values, full_output, complex_func)
        return result
    # Captured active arrays show in what the integrand has stored during SciPy's calls.
    is_known = contains_active((a, b, points, more)) or complex_func
    snapshot = StateSnapshot(func, more) if is_known else None
    if complex_func:
        result = integrate(function, values, full_output, is_complex=True)
        if not function.captures_active and not contains_active((a, b, points, more, wvar)):
            return result
        if snapshot is not None:
            snapshot.restore()
        parts = [
            quad(
                lambda x, *m, part=part: part(func(x, *m)),
                *(a, b, args, 0, epsabs, epsrel, limit, points, weight, wvar, wopts, maxp1, limlst),
            )[0]
            for part in (np.real, np.imag)
        ]
        return (python_number(_core.apply("complex", *parts)), *result[1:])
    result = integrate(function, values)
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
        if _core.is_collecting() or is_attempted():
            raise _core.ReplayMismatch("quad warns, which a run does for the line that calls it")
        warn(result[3], locate("scipy.integrate.IntegrationWarning"))
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
