"""Overrides of `scipy.interpolate`: piecewise polynomials, B-splines and grids.

SciPy's Python code makes splines and finds intervals; here are the kernels below it: piecewise
polynomials, B-splines, banded systems and cells of grids. They are differentiable with respect to
the points of evaluation and with respect to the data.
"""

import inspect
import itertools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.host_call import conj, host_call
from cotan._src.kit.implicit_diff import newton_moved
from cotan._src.rebind.engine import (
    REBOUND,
    REBOUND_METHOD,
    init_rebound,
    locate,
    rebind_function,
    rebinds_instances,
    rebound_class,
    refused,
)
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import (
    ALWAYS,
    METHOD,
    REBOUND_CLASS,
    SUBSTITUTE,
    SUBSTITUTE_MEMBER,
    named,
    override,
)
from cotan._src.runtime.values import attach_derivative, contains_active, to_numpy
from cotan._src.scipy.linalg.banded import solve_banded
from cotan._src.state.random_states import kept_random_state
from cotan._src.typing import AnyArray, ArrayLike, NDArray

_HERE = "scipy.interpolate"
_PIECEWISE = ("PPoly", "CubicHermiteSpline", "CubicSpline", "PchipInterpolator",
              "Akima1DInterpolator")  # fmt: skip
_CLASSES = (*_PIECEWISE, "BSpline", "RegularGridInterpolator", "KroghInterpolator")  # fmt: skip


class Spline(Protocol):
    """A spline, as `scipy.interpolate.BSpline` is one."""

    t: AnyArray
    c: AnyArray
    k: int
    extrapolate: bool
    axis: int

    def __call__(
        self, x: ArrayLike, nu: int = 0, extrapolate: bool | str | None = None
    ) -> AnyArray: ...
    def derivative(self, nu: int = 1) -> "Spline": ...
    def antiderivative(self, nu: int = 1) -> "Spline": ...


class _Tensors(Protocol):
    """A tensor product of splines, as `scipy.interpolate.NdBSpline` is one."""

    t: Sequence[AnyArray]
    c: AnyArray
    k: Sequence[int]
    extrapolate: bool


class _Barycentric(Protocol):
    """What `scipy.interpolate.BarycentricInterpolator` makes."""

    r: int
    dtype: type
    xi: AnyArray
    yi: AnyArray
    wi: AnyArray


#: Knots, coefficients and a degree.
_Tck: TypeAlias = tuple[AnyArray, AnyArray | Sequence[AnyArray], int]
#: What holds at both ends: a name, or for each end orders of derivatives with values.
_Ends: TypeAlias = str | Sequence[str | Sequence[tuple[int, ArrayLike]] | None] | None
#: How many diagonals there are below the main one, and above it.
_Widths: TypeAlias = tuple[int, int]

rebinds_instances(*(f"{_HERE}.{name}" for name in _CLASSES))
override(f"{_HERE}.interp1d", f"{_HERE}.BarycentricInterpolator", kind=REBOUND_CLASS)(None)


@override(f"{_HERE}.BarycentricInterpolator.__init__", kind=METHOD, when=ALWAYS)
def _make_barycentric(self: object, *args: Any, **options: Any) -> None:
    # SciPy multiplies distances in a random order.
    with kept_random_state():
        if _core.contains_array(args, options):
            init_rebound(self, *args, **options)
        else:
            init = original_of(vars(locate(f"{_HERE}.BarycentricInterpolator"))["__init__"])
            init(self, *args, **options)


@override(f"{_HERE}.interp1d.__init__", kind=METHOD)
def _interp1d(self: object, x: ArrayLike, y: ArrayLike, *args: object, **options: object) -> None:
    # A fill_value is written into what is made of the values.
    init_rebound(self, x, _core.asarray(asarray(y)), *args, **options)


override(f"{_HERE}._interpolate._PPolyBase.__call__", kind=METHOD)(REBOUND_METHOD)
override(
    f"{_HERE}._interpolate.PPoly.__call__",
    f"{_HERE}._interpolate.PPoly.integrate",
    f"{_HERE}._interpolate.PPoly.solve",
    kind=METHOD,
)(REBOUND_METHOD)
override(f"{_HERE}.Akima1DInterpolator.__call__", kind=METHOD)(REBOUND_METHOD)
override(f"{_HERE}._polyint._Interpolator1D.__call__", kind=METHOD)(REBOUND_METHOD)
override(
    f"{_HERE}._polyint._Interpolator1DWithDerivatives.derivative",
    f"{_HERE}._polyint._Interpolator1DWithDerivatives.derivatives",
    kind=METHOD,
)(REBOUND_METHOD)
override(f"{_HERE}.BarycentricInterpolator.derivative", kind=METHOD)(REBOUND_METHOD)
override(f"{_HERE}.BSpline.__call__", f"{_HERE}.BSpline.integrate", kind=METHOD)(REBOUND_METHOD)
override(f"{_HERE}.RegularGridInterpolator.__call__", kind=METHOD)(REBOUND_METHOD)
override(f"{_HERE}.UnivariateSpline.__call__", kind=METHOD)(REBOUND_METHOD)
override(*named(_HERE, "interpn pade pchip_interpolate krogh_interpolate"))(REBOUND)


@override(f"{_HERE}.barycentric_interpolate")
def _barycentric_interpolate(*args: Any, **options: Any) -> AnyArray:
    with kept_random_state():
        y: AnyArray = REBOUND.make(f"{_HERE}.barycentric_interpolate")(*args, **options)
    return y


def _monotone(x: AnyArray, y: AnyArray, **options: ModuleType) -> AnyArray:
    """Give the slopes of a monotone curve; none is divided by one that is zero."""
    shape = y.shape
    if y.ndim == 1:
        x, y = x[:, None], y[:, None]
    h = x[1:] - x[:-1]
    m = (y[1:] - y[:-1]) / h
    if m.shape[0] == 1:
        return np.concatenate([m, m]).reshape(shape)
    sign = np.sign(m)
    flat = (sign[1:] != sign[:-1]) | (sign[1:] == 0) | (sign[:-1] == 0)
    before, after = (np.where(flat, 1.0, part) for part in (m[:-1], m[1:]))
    w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    inner = np.where(flat, 0.0, 1.0 / ((w1 / before + w2 / after) / (w1 + w2)))
    end = rebind_function(vars(locate(f"{_HERE}.PchipInterpolator"))["_edge_case"].__func__)
    first = end(h[0], h[1], m[0], m[1], **options)
    last = end(h[-1], h[-2], m[-1], m[-2], **options)
    return np.concatenate([first[None], inner, last[None]]).reshape(shape)


override(f"{_HERE}._cubic.PchipInterpolator._find_derivatives", kind=SUBSTITUTE_MEMBER)(
    staticmethod(_monotone)
)


@override(f"{_HERE}._interpolate.interp1d._call_spline", kind=SUBSTITUTE_MEMBER)
def _call_spline(self: Any, x_new: AnyArray) -> AnyArray:
    y: AnyArray = self._spline(x_new)
    return y.copy()  # is written to, and complex numbers are seen as their parts


# Since SciPy 1.18 the public classes pass all on to private ones, for arrays of several libraries.
_PASSED_ON = ("_interpolate._PPoly", "_interpolate._BPoly", "_bsplines._BSpline")

_NEWER = "scipy>=1.18"
override(*(f"{_HERE}.{name}" for name in _PASSED_ON), kind=REBOUND_CLASS, versions=_NEWER)(None)
override(*named(f"{_HERE}._bsplines._BSpline", "__call__ integrate"), kind=METHOD, versions=_NEWER)(
    REBOUND_METHOD
)


def _choice(name: str) -> None:
    @override(f"{_HERE}.{name}", kind=SUBSTITUTE, versions=_NEWER)
    def choose(xp: ModuleType) -> type:
        # It is cached, and would be SciPy's own.
        cls: type = rebind_function(inspect.unwrap(locate(f"{_HERE}.{name}")))(xp)
        return cls


for _name in (
    "_interpolate._get_xp_ppoly_cls",
    "_interpolate._get_xp_bpoly_cls",
    "_bsplines._get_xp_bspline_cls",
):
    _choice(_name)

# --------------------------------------------------------------------------------------------------
# Piecewise polynomials


def _piece(x: AnyArray, breaks: AnyArray) -> NDArray:
    """Give the piece that each point lies in; beyond the ends the first or the last one."""
    values = to_numpy(breaks)
    at = np.searchsorted(values, to_numpy(x), side="right") - 1
    if values[-1] < values[0]:
        at = np.searchsorted(-values, -to_numpy(x), side="right") - 1
    return np.clip(at, 0, len(values) - 2)


def _outside(x: AnyArray, breaks: AnyArray) -> NDArray:
    values, ends = to_numpy(x), to_numpy(breaks)[[0, -1]]
    # What is not a number is neither.
    outside: NDArray = ~((values >= ends.min()) & (values <= ends.max()))
    return outside


def _powers(c: AnyArray, s: AnyArray, nu: int) -> AnyArray:
    """Sum the powers of a polynomial, or of its derivative; `c` begins with the highest."""
    k = c.shape[0]
    total: AnyArray = np.zeros(c.shape[1:], c.dtype)
    for i in range(k - nu):
        power = k - 1 - i
        factor = float(np.prod(np.arange(power, power - nu, -1.0)))
        total = total * s + (c[i] if nu == 0 else c[i] * factor)
    return total


@override(f"{_HERE}._ppoly.evaluate", kind=SUBSTITUTE)
def _evaluate(
    c: AnyArray, x: AnyArray, xp: AnyArray, dx: int, extrapolate: bool, out: AnyArray
) -> None:
    at = _piece(xp, x)
    xp = _core.asarray(xp)
    s = (xp - asarray(x)[at])[:, None]
    y = _powers(_core.asarray(asarray(c))[:, at], s, dx)
    y = _core.broadcast_to(y, out.shape)
    missing = _outside(xp, x) if not extrapolate else np.isnan(to_numpy(xp))
    out[...] = _core.where(missing[:, None], np.nan, y)


@override(f"{_HERE}._ppoly.integrate", kind=SUBSTITUTE)
def _integrate(c: AnyArray, x: AnyArray, a: AnyArray | float, b: AnyArray | float,
               extrapolate: bool, out: AnyArray) -> None:  # fmt: skip
    x = asarray(x)
    low, high = float(to_numpy(a)), float(to_numpy(b))
    if high < low:
        _integrate(c, x, b, a, extrapolate, out)
        out[...] = -out
        return
    if not extrapolate and np.any(_outside(np.array([low, high]), x)):
        out[...] = np.nan
        return
    # Where the breaks descend, the pieces are passed from the other end.
    descends = bool(to_numpy(x)[-1] < to_numpy(x)[0])
    a, b, low, high = (b, a, high, low) if descends else (a, b, low, high)
    first, last = _piece(np.array([low, high]), x)
    total: AnyArray | float = 0.0
    k = c.shape[0]
    for i in range(first, last + 1):
        start = (a if i == first else x[i]) - x[i]
        stop = (b if i == last else x[i + 1]) - x[i]
        for j in range(k):
            n = k - j
            total = total + c[j, i] * ((stop**n - start**n) / n)
    out[...] = -total if descends else total


@override(f"{_HERE}._ppoly.real_roots", kind=SUBSTITUTE)
def _real_roots(c: AnyArray, x: AnyArray, y: AnyArray | float, report_discont: bool,
                extrapolate: bool) -> list[AnyArray]:  # fmt: skip
    """Give where pieces have a value; where they jump past it, the break moves."""
    c, x = _core.asarray(asarray(c)), asarray(x)
    compute = locate(f"{_HERE}._ppoly.real_roots")
    results: list[AnyArray] = []
    all_found = compute(to_numpy(c), to_numpy(x), float(to_numpy(y)), report_discont, extrapolate)
    for i, values in enumerate(all_found):
        known = ~np.isnan(values)
        start = np.where(known, values, 0.0)
        at = _piece(start, x)
        pieces = c[:, at, i]
        rest = to_numpy(_powers(pieces, start - x[at], 0) - y)
        size = np.max(np.abs(to_numpy(pieces)), axis=0, initial=0.0)
        jumps = known & (values == to_numpy(x)[at]) & (np.abs(rest) > 1e-8 * size)
        slope = np.where(known & ~jumps, to_numpy(_powers(pieces, start - x[at], 1)), np.inf)

        def missed(r: AnyArray, pieces: AnyArray = pieces, x: AnyArray = x[at]) -> AnyArray:
            return _powers(pieces, r - x, 0) - y

        roots = newton_moved(start, missed, slope)
        results.append(attach_derivative(values, _core.where(jumps, x[at], roots)))
    return results


@override(f"{_HERE}._ppoly.fix_continuity", kind=SUBSTITUTE)
def _fix_continuity(c: AnyArray, x: AnyArray, order: int) -> None:
    k = c.shape[0]
    for piece in range(1, c.shape[1]):
        step = x[piece] - x[piece - 1]
        for nu in range(order, -1, -1):
            value = _powers(_core.asarray(c)[:, piece - 1], step, nu)
            c[k - 1 - nu, piece] = value / float(np.prod(np.arange(1.0, nu + 1)))


@override(f"{_HERE}.BarycentricInterpolator._evaluate", kind=METHOD)
@override(f"{_HERE}._polyint.BarycentricInterpolator._evaluate", kind=SUBSTITUTE_MEMBER)
def _barycentric(self: _Barycentric, x: AnyArray) -> AnyArray:
    """Give a quotient, taken times the distance to the node that a point lies on."""
    if x.size == 0:
        return np.zeros((0, self.r), dtype=self.dtype)
    distance = asarray(x)[..., None] - self.xi
    at = np.equal(distance, 0)
    hit = np.any(at, axis=-1, keepdims=True)
    weights = self.wi / _core.where(hit, np.sum(_core.where(at, self.wi, 0), -1)[..., None], 1)
    nearby = _core.where(hit, np.sum(_core.where(at, distance, 0), -1)[..., None], 1)
    others = nearby * _core.where(at, 0, weights / _core.where(at, 1, distance))
    rows = others + _core.where(at, weights, 0)
    y: AnyArray = np.dot(rows, self.yi) / np.sum(rows, axis=-1)[..., None]
    return y


def _banded(widths: _Widths, ab: AnyArray, b: AnyArray) -> Array:
    """Solve a banded system; the matrix by its diagonals."""
    lower, upper = widths

    def forward(ab: NDArray, b: NDArray) -> NDArray:
        x: NDArray = locate("scipy.linalg.solve_banded")(widths, ab, b)
        return x

    def pullback(
        ct: AnyArray, ab: AnyArray, b: AnyArray, wanted: Sequence[bool]
    ) -> tuple[Array | None, Array]:
        ab = _core.asarray(ab)
        n = ab.shape[1]
        rows, columns = np.arange(lower + upper + 1)[:, None], np.arange(n)
        # The row of the matrix in which an element of a diagonal stands, and of its mirror image.
        row = rows - upper + columns
        inside = (row >= 0) & (row < n)
        turned = (lower + upper - rows, np.clip(columns + rows - lower, 0, n - 1))
        mirrored = inside_of(rows - lower + columns, n)
        transposed = _core.where(mirrored, conj(ab)[turned], 0)
        back = _banded((upper, lower), transposed, ct)
        if not wanted[0]:
            return None, back
        x = _banded(widths, ab, b)
        by_row = back[np.clip(row, 0, n - 1)]
        products = by_row * conj(x)[None]
        if products.ndim > 2:
            products = _core.sum(products, tuple(range(2, products.ndim)))
        return _core.where(inside, -products, 0), back

    return host_call("scipy.linalg.solve_banded", forward, pullback, ab, b)


def inside_of(index: NDArray, n: int) -> NDArray:
    """Say which indices an axis has."""
    return (index >= 0) & (index < n)


@override(f"{_HERE}._cubic.solve_banded", kind=SUBSTITUTE)
def _solve_banded(l_and_u: _Widths, ab: ArrayLike, b: ArrayLike, overwrite_ab: bool = False,
                  overwrite_b: bool = False, check_finite: bool = True) -> Array:  # fmt: skip
    del overwrite_ab, overwrite_b, check_finite
    return _banded(l_and_u, _core.asarray(ab), _core.asarray(b))


@override(f"{_HERE}._cubic.solve", kind=SUBSTITUTE)
def _solve(a: AnyArray, b: AnyArray, **options: object) -> Array:
    """Solve three equations, as a banded system with all diagonals."""
    del options
    n = a.shape[0]
    rows, columns = np.arange(2 * n - 1)[:, None], np.arange(n)
    row = rows - (n - 1) + columns
    ab = _core.where(inside_of(row, n), _core.asarray(a)[np.clip(row, 0, n - 1), columns], 0)
    return _banded((n - 1, n - 1), ab, _core.asarray(b))


# --------------------------------------------------------------------------------------------------
# B-splines


def _divided(value: AnyArray | float, width: AnyArray) -> Array:
    """Divide by the distance of knots; where they coincide there is nothing."""
    is_empty = _core.eq(width, 0)
    return _core.where(is_empty, 0, value / _core.where(is_empty, 1, width))


def _basis(t: AnyArray, k: int, at: NDArray, x: AnyArray) -> list[AnyArray | float]:
    """Give the splines of degree `k` that are not zero at points, by the recursion of de Boor."""
    values: list[AnyArray | float] = [1.0]
    for d in range(1, k + 1):
        new: list[AnyArray | float] = [0.0] * (d + 1)
        for j in range(d):
            left, right = t[at + j + 1 - d], t[at + j + 1]
            term = _divided(values[j], right - left)
            new[j] = new[j] + (right - x) * term
            new[j + 1] = new[j + 1] + (x - left) * term
        values = new
    return values


def weights(t: AnyArray, k: int, at: NDArray, x: AnyArray, nu: int) -> list[AnyArray | float]:
    """Give the same for derivatives."""
    if nu > k:
        return [0.0] * (k + 1)
    values = _basis(t, k - nu, at, x)
    for d in range(k - nu + 1, k + 1):
        widths = (t[at + j + 1] - t[at + j + 1 - d] for j in range(d))
        scaled: list[AnyArray | float] = [
            _divided(v * d, width) for v, width in zip(values, widths, strict=True)
        ]
        values = [a - b for a, b in zip([0.0, *scaled], [*scaled, 0.0], strict=True)]
    return values


def place(knots: NDArray, k: int, values: NDArray) -> NDArray:
    """Give the knot after which each point comes."""
    n = knots.size - k - 1
    after = np.searchsorted(knots[: n + 1], values, side="right")
    return np.clip(after - 1, k, n - 1)


def _beyond(knots: NDArray, k: int, values: NDArray, extrapolate: bool) -> NDArray:
    missing: NDArray = np.isnan(values)
    if extrapolate:
        return missing
    outside: NDArray = ~((values >= knots[k]) & (values <= knots[knots.size - k - 1]))
    return missing | outside


def _splines(t: AnyArray, c: AnyArray, k: int, x: AnyArray, nu: int, extrapolate: bool) -> Array:
    """Evaluate splines, one for each column of `c`, or their derivatives."""
    t, c, x = asarray(t), _core.asarray(asarray(c)), _core.asarray(x)
    at = place(to_numpy(t), k, to_numpy(x))
    total: AnyArray = np.zeros((x.shape[0], c.shape[1]), c.dtype)
    w: Any
    for j, w in enumerate(weights(t, k, at, x, nu)):
        total = total + (w[:, None] if np.ndim(w) else w) * c[at - k + j]
    return _core.where(_beyond(to_numpy(t), k, to_numpy(x), extrapolate)[:, None], np.nan, total)


class _Tensor:
    """A tensor product of splines, as `NdBSpline`."""

    def __init__(
        self, t: Sequence[AnyArray], c: AnyArray, k: Sequence[int], extrapolate: bool = True
    ) -> None:
        self.t, self.c, self.k, self.extrapolate = t, c, k, extrapolate

    def __call__(
        self, xi: ArrayLike, *, nu: Sequence[int] | None = None, extrapolate: bool | None = None
    ) -> Array:
        count = len(self.t)
        points = asarray(xi, np.float64)
        if points.shape[-1] != count:
            raise ValueError(f"Shapes: xi.shape={points.shape} and ndim={count}")
        columns = _core.reshape(points, (-1, count))
        reach = self.extrapolate if extrapolate is None else extrapolate
        c = _core.asarray(self.c)
        trailing = (1,) * (c.ndim - count)
        places, factors, missing = [], [], np.zeros(columns.shape[0], bool)
        for i, (t, degree) in enumerate(zip(self.t, self.k, strict=True)):
            x, k = columns[:, i], int(degree)
            places.append(place(to_numpy(t), k, to_numpy(x)) - k)
            factors.append(weights(t, k, places[-1] + k, x, 0 if nu is None else int(nu[i])))
            missing |= _beyond(to_numpy(t), k, to_numpy(x), bool(reach))
        total: AnyArray | float = 0.0
        for near in itertools.product(*(range(len(w)) for w in factors)):
            weight: AnyArray = np.ones(columns.shape[0])
            for i, j in enumerate(near):
                weight = weight * factors[i][j]
            value = c[tuple(p + j for p, j in zip(places, near, strict=True))]
            total = total + value * weight.reshape((-1, *trailing))
        total = _core.where(missing.reshape((-1, *trailing)), np.nan, total)
        return _core.reshape(total, (*points.shape[:-1], *c.shape[count:]))


@override(f"{_HERE}._rgi.make_ndbspl", kind=SUBSTITUTE)
def _make_tensor(
    points: Sequence[AnyArray], values: AnyArray, k: Any = 3, **options: object
) -> _Tensor:
    """Interpolate along one axis after the other."""
    del options
    degrees = [k] * len(points) if np.ndim(k) == 0 else list(k)
    knots = []
    for axis, (x, degree) in enumerate(zip(points, degrees, strict=True)):
        spline = make_interp_spline(x, values, degree, axis=axis)
        # A spline keeps its coefficients with the axis in front.
        values = np.moveaxis(asarray(spline.c), 0, axis)  # type: ignore[type-var]
        knots.append(spline.t)
    return _Tensor(knots, values, degrees)


@override(f"{_HERE}.NdBSpline.__call__", kind=METHOD)
def _evaluate_tensor(
    self: _Tensors,
    xi: ArrayLike,
    *,
    nu: Sequence[int] | None = None,
    extrapolate: bool | None = None,
) -> Array:
    return _Tensor(self.t, self.c, self.k, self.extrapolate)(xi, nu=nu, extrapolate=extrapolate)


@override(f"{_HERE}._dierckx.evaluate_spline", kind=SUBSTITUTE)
def _evaluate_spline(t: AnyArray, c: AnyArray, k: int, x: AnyArray, nu: int, extrapolate: bool,
                     out: AnyArray | None = None) -> Array:  # fmt: skip
    values = _splines(t, c, k, x, nu, extrapolate)
    if out is not None:  # as SciPy before 1.16 asks for them
        out[...] = values
    return values


@override(f"{_HERE}.make_interp_spline")
def make_interp_spline(x: ArrayLike, y: ArrayLike, k: int = 3, t: ArrayLike | None = None,
                       bc_type: _Ends = None, axis: int = 0,
                       check_finite: bool = True) -> Spline:  # fmt: skip
    free = t is None and bc_type in (None, "not-a-knot")
    if contains_active((t, bc_type)) or (contains_active(x) and not free):
        raise NotDifferentiableError(
            "make_interp_spline: only y is differentiable, and x if t and bc_type are left out; "
            "use CubicSpline, which has a rule for them, or hold them constant with ct.dropgrad"
        )
    if contains_active(x):
        return _through_points(asarray(x), asarray(y), k, axis)
    places, t = to_numpy(x), to_numpy(t)
    make = locate(f"{_HERE}.make_interp_spline")
    values: Any = asarray(y)
    axis = normalize_axis_index(axis, values.ndim)
    values = asarray(values, values.dtype if values.dtype.kind == "c" else np.float64)
    values = np.moveaxis(values, axis, 0)
    flat = _core.reshape(values, (values.shape[0], -1))
    if check_finite and not np.all(np.isfinite(flat)):
        raise ValueError("array must not contain infs or NaNs")
    if bc_type == "periodic" and not np.allclose(
        to_numpy(values)[0], to_numpy(values)[-1], atol=1e-15
    ):
        raise ValueError("First and last points does not match while periodic case expected")
    made: Callable[..., Spline] = rebound_class(locate(f"{_HERE}.BSpline"))
    if bc_type is None or (t is None and bc_type == "not-a-knot"):
        spline = make(places, np.zeros(values.shape[0]), k, t)
        own: Any = _core.reshape(_collocated(places, spline.t, k, flat), values.shape)
        return made(spline.t, np.moveaxis(own, 0, axis), k, spline.extrapolate, axis)
    # The coefficients are linear in the samples.
    numbers = not isinstance(bc_type, str) and bc_type is not None
    unit = np.eye(values.shape[0])
    if bc_type == "periodic":
        # The last sample is the first one.
        unit = unit[:, :-1]
        unit[-1, 0] = 1
    bare = _without_values(bc_type, unit.shape[1]) if numbers else bc_type
    spline = make(places, unit, k, t, bare)
    c = _core.matmul(spline.c, flat[: unit.shape[1]])
    c = _core.reshape(c, (c.shape[0], *values.shape[1:]))
    if numbers:
        c = c + make(places, np.zeros(values.shape), k, t, bc_type).c
    whole: Any = c
    moved = np.moveaxis(whole, 0, axis)
    return made(spline.t, moved, spline.k, spline.extrapolate, axis)


def _collocated(x: NDArray, t: NDArray, k: int, y: Array) -> AnyArray:
    """Give the coefficients of the spline through samples, by a matrix of few diagonals."""
    if k < 2:
        return y
    matrix = locate(f"{_HERE}.BSpline").design_matrix(x, t, k).tocoo()
    bands = np.zeros((2 * k + 1, y.shape[0]))
    bands[k + matrix.row - matrix.col, matrix.col] = matrix.data
    return solve_banded((k, k), bands, y)


def _through_points(x: AnyArray, y: Any, k: int, axis: int) -> Spline:
    """Give the spline through points at active places, with its knots."""
    if k % 2:
        inner, edge = x, (k + 1) // 2
    else:
        inner, edge = (x[1:] + x[:-1]) / 2, k // 2
    ends = [x[:1]] * (k + 1), [x[-1:]] * (k + 1)
    t = np.concatenate([x, x[-1:]] if k == 0 else [*ends[0], inner[edge:-edge], *ends[1]])
    axis = normalize_axis_index(axis, y.ndim)
    y = np.moveaxis(y, axis, 0)
    # Checks what SciPy checks.
    locate(f"{_HERE}.make_interp_spline")(to_numpy(x), to_numpy(y), k)
    at = place(to_numpy(t), k, to_numpy(x))
    rows = np.arange(x.size)
    matrix: AnyArray = np.zeros((x.size, x.size))
    for j, w in enumerate(weights(t, k, at, x, 0)):
        whole = np.broadcast_to(asarray(w, np.float64), (x.size,))
        matrix = _core.index_add(matrix, (rows, at - k + j), whole)
    flat = _core.reshape(y, (y.shape[0], -1))
    c: Any = _core.reshape(np.linalg.solve(matrix, flat), y.shape)
    made: Callable[..., Spline] = rebound_class(locate(f"{_HERE}.BSpline"))
    return made(t, np.moveaxis(c, 0, axis), k, True, axis)


def _without_values(
    bc_type: Sequence[str | Sequence[tuple[int, ArrayLike]] | None], columns: int
) -> tuple[str | list[tuple[int, NDArray]] | None, ...]:
    def bare(
        one: str | Sequence[tuple[int, ArrayLike]] | None,
    ) -> str | list[tuple[int, NDArray]] | None:
        if one is None or isinstance(one, str):
            return one
        return [(nu, np.zeros(columns)) for nu, _ in one]

    return tuple(map(bare, bc_type))


@override(f"{_HERE}.splev")
@override(f"{_HERE}._fitpack_impl.splev", kind=SUBSTITUTE)
def splev(x: ArrayLike, tck: Spline | _Tck, der: int = 0, ext: int = 0) -> AnyArray | list[Any]:
    if not isinstance(tck, (list, tuple)):
        if tck.c.ndim > 1:
            raise ValueError("Calling splev() with BSpline objects with c.ndim > 1 is not "
                             "allowed. Use BSpline.__call__(x) instead.")  # fmt: skip
        extrapolate = {0: True}.get(ext, tck.extrapolate)
        return asarray(tck(x, nu=der, extrapolate=extrapolate))
    t, c, k = tck
    if isinstance(c, (list, tuple)) and np.ndim(to_numpy(c[0])) > 0:
        return [splev(x, (t, one, k), der, ext) for one in c]
    if not 0 <= der <= k:
        raise ValueError(f"0<=der={der}<=k={k} must hold")
    if ext not in {0, 1, 2, 3}:
        raise ValueError(f"ext = {ext} not in (0, 1, 2, 3) ")
    points = asarray(x)
    t = asarray(t)
    flat = _core.asarray(_core.reshape(points, -1), np.float64)
    first, last = t[k], t[-k - 1]
    beyond = _outside(flat, to_numpy(t)[[k, -k - 1]])
    if ext == 2 and np.any(beyond):
        raise ValueError("splev: ext=2, and some points lie outside the interval of the spline")
    # FITPACK holds the value that the spline has at its ends, and goes on with derivatives.
    at = np.clip(flat, first, last) if ext == 3 and der == 0 else flat
    # FITPACK leaves more coefficients behind than there are.
    coefficients = asarray(c)[: t.shape[0] - k - 1]
    y = _splines(t, coefficients[:, None], k, at, der, True)[:, 0]
    if ext == 1:
        y = _core.where(beyond, 0.0, y)
    return _core.reshape(y, points.shape)


# --------------------------------------------------------------------------------------------------
# Grids


@override(f"{_HERE}._rgi.find_indices", kind=SUBSTITUTE)
def _find_indices(grid: Sequence[AnyArray], xi: Sequence[AnyArray]) -> tuple[AnyArray, AnyArray]:
    indices: list[NDArray] = []
    distances: list[AnyArray] = []
    for known, x in zip(grid, xi, strict=True):
        points = asarray(known)
        if points.shape[0] == 1:
            indices.append(np.full(x.shape, -1))
            distances.append(0.0 * x)
            continue
        at = _piece(x, points)
        low, high = points[at], points[at + 1]
        indices.append(at)
        distances.append((x - low) / (high - low))
    return np.stack(indices), np.stack(distances)


@override(f"{_HERE}._rgi.evaluate_linear_2d", kind=SUBSTITUTE)
def _evaluate_linear_2d(values: AnyArray, indices: AnyArray, distances: AnyArray,
                        grid: object, out: AnyArray) -> AnyArray:  # fmt: skip
    del grid
    i, j = indices
    u, v = distances
    values = asarray(values)
    below = values[i, j] * (1 - v) + values[i, j + 1] * v
    above = values[i + 1, j] * (1 - v) + values[i + 1, j + 1] * v
    out[...] = below * (1 - u) + above * u
    return out


# --------------------------------------------------------------------------------------------------
# What is not there

override(*named(_HERE, "BPoly make_splrep make_splprep generate_knots"))(
    refused("use CubicSpline, make_interp_spline, or PPoly of the coefficients")
)
override(f"{_HERE}.NdBSpline", f"{_HERE}.NdPPoly")(
    refused("use RegularGridInterpolator, or RectBivariateSpline with s=0")
)
override(f"{_HERE}.AAA")(refused("use FloaterHormannInterpolator or BarycentricInterpolator"))
override(
    *named(
        _HERE,
        """
        splprep make_lsq_spline make_smoothing_spline splint spalde sproot
    """,
    )
)(refused("use interp1d, CubicSpline or make_interp_spline"))
override(
    *named(
        _HERE,
        """
        griddata LinearNDInterpolator NearestNDInterpolator CloughTocher2DInterpolator
        SmoothBivariateSpline LSQBivariateSpline bisplrep
    """,
    )
)(refused("use RegularGridInterpolator with values on a grid"))
