"""Overrides of `scipy.interpolate`: piecewise polynomials, banded systems and grids.

SciPy's Python code makes splines and finds intervals; here are the kernels below it: piecewise
polynomials, banded systems and cells of grids (`bsplines.py` has the B-splines). They are
differentiable with respect to the points of evaluation and with respect to the data.
"""

import inspect
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Protocol, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array
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
from cotan._src.runtime.values import attach_derivative, to_numpy
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


class _Barycentric(Protocol):
    """What `scipy.interpolate.BarycentricInterpolator` makes."""

    r: int
    dtype: type
    xi: AnyArray
    yi: AnyArray
    wi: AnyArray


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


def _makes_instances(name: str) -> None:
    """Let a class method with active arguments give an instance that holds them."""
    method = name.rpartition(".")[2]

    @override(f"{_HERE}.{name}", kind=METHOD)
    def make(cls: type, *args: Any, **options: Any) -> Any:
        return getattr(rebound_class(cls), method)(*args, **options)


for _name in (
    "BSpline.basis_element",
    "BSpline.construct_fast",
    "_interpolate._PPolyBase.construct_fast",
):
    _makes_instances(_name)
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


def outside(x: AnyArray, breaks: AnyArray) -> NDArray:
    """Say which points lie before the first break, or behind the last."""
    values, ends = to_numpy(x), to_numpy(breaks)[[0, -1]]
    # What is not a number is neither.
    beyond: NDArray = ~((values >= ends.min()) & (values <= ends.max()))
    return beyond


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
    missing = outside(xp, x) if not extrapolate else np.isnan(to_numpy(xp))
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
    if not extrapolate and np.any(outside(np.array([low, high]), x)):
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
