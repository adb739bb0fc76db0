"""Overrides of `scipy.interpolate`: B-splines, on intervals and on grids.

SciPy's Python code makes and moves them; here are their values, which are differentiable with
respect to the points, the coefficients and the knots, and their making through given points.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.rebind.engine import (
    locate,
    rebound_class,
)
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import (
    METHOD,
    SUBSTITUTE,
    override,
)
from cotan._src.runtime.values import contains_active, to_numpy
from cotan._src.scipy.interpolate.core import Spline, outside
from cotan._src.scipy.linalg.banded import solve_banded
from cotan._src.typing import AnyArray, ArrayLike, NDArray

_HERE = "scipy.interpolate"
#: What holds at both ends: a name, or for each end orders of derivatives with values.
_Ends: TypeAlias = str | Sequence[str | Sequence[tuple[int, ArrayLike]] | None] | None
#: Knots, coefficients and a degree.
_Tck: TypeAlias = tuple[AnyArray, AnyArray | Sequence[AnyArray], int]


class _Tensors(Protocol):
    """A tensor product of splines, as `scipy.interpolate.NdBSpline` is one."""

    t: Sequence[AnyArray]
    c: AnyArray
    k: Sequence[int]
    extrapolate: bool


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


@override(f"{_HERE}._dierckx.find_interval", kind=SUBSTITUTE)
def _find_interval(t: AnyArray, k: int, x: float, previous: int, extrapolate: bool) -> int:
    found: int = locate(f"{_HERE}._dierckx.find_interval")(to_numpy(t), k, x, previous, extrapolate)
    return found


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
    beyond = outside(flat, to_numpy(t)[[k, -k - 1]])
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
