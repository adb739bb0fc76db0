"""Splines of two variables by FITPACK: `RectBivariateSpline`, `bisplev`.

They are differentiable with respect to the points of evaluation, whatever made the spline, and with
respect to the data if the spline interpolates: it is then a `make_interp_spline` along each axis.
"""

# ruff: noqa: N802 - the names are SciPy's

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.rebind.engine import contains_unmasked_array, locate
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, override
from cotan._src.runtime.ufunc_dtypes import finished
from cotan._src.runtime.values import contains_active, python_number, to_numpy
from cotan._src.scipy.interpolate.bsplines import make_interp_spline
from cotan._src.typing import AnyArray, ArrayLike, Scalar

_HERE = "scipy.interpolate"

#: Knots along both axes, coefficients and degrees.
_Tck: TypeAlias = tuple[AnyArray, AnyArray, AnyArray, int, int]


class _Surface(Protocol):
    """A spline of two variables, as SciPy has it."""

    fp: float
    tck: tuple[AnyArray, AnyArray, AnyArray]
    degrees: tuple[int, int]

    def integral(self, xa: ArrayLike, xb: ArrayLike, ya: ArrayLike, yb: ArrayLike) -> float: ...


@override(f"{_HERE}.RectBivariateSpline")
def RectBivariateSpline(
    x: ArrayLike, y: ArrayLike, z: ArrayLike,
    bbox: Sequence[float | None] = (None, None, None, None), kx: int = 3, ky: int = 3,
    s: float | None = 0, maxit: int = 20,
) -> _Surface:  # fmt: skip
    cls = locate(f"{_HERE}.RectBivariateSpline")
    made: _Surface
    if not contains_active((x, y, z, bbox, s)):
        made = cls(
            to_numpy(x), to_numpy(y), to_numpy(z), to_numpy(bbox), kx, ky, to_numpy(s), maxit
        )
        return made
    if s is None or to_numpy(s) != 0 or any(side is not None for side in bbox):
        raise NotDifferentiableError(
            "RectBivariateSpline: smoothing and bbox= have no derivative rule in cotan; "
            "interpolate (s=0)"
        )
    xs = asarray(x).reshape(-1)
    ys = asarray(y).reshape(-1)
    heights = asarray(z)
    for axis, (name, places) in enumerate((("x", xs), ("y", ys))):
        if not np.all(np.diff(to_numpy(places)) > 0.0):
            raise ValueError(f"{name} must be strictly increasing")
        if places.size != heights.shape[axis]:
            raise ValueError(f"{name} dimension of z must have same number of elements as {name}")
    rows = make_interp_spline(xs, heights, kx)
    columns = make_interp_spline(ys, rows.c.T, ky)
    made = cls.__new__(cls)
    made.fp = 0.0
    made.tck = rows.t, columns.t, columns.c.T.reshape(-1)
    made.degrees = kx, ky
    return made


@override(f"{_HERE}._fitpack2._BivariateSplineBase.__call__", kind=METHOD, when=ALWAYS)
def call(
    self: _Surface, x: ArrayLike, y: ArrayLike, dx: int = 0, dy: int = 0, grid: bool = True
) -> AnyArray:
    values: AnyArray
    if not contains_unmasked_array((x, y, *self.tck)):
        # Not that of the object's own class, which may lead here.
        by_scipy = original_of(locate(f"{_HERE}._fitpack2._BivariateSplineBase").__call__)
        values = by_scipy(self, x, y, dx, dy, grid)
        return values
    xs = asarray(x)
    ys = asarray(y)
    tck = *self.tck, *self.degrees
    if grid:
        for name, places in (("x", xs), ("y", ys)):
            if not np.all(np.diff(to_numpy(places).reshape(-1)) >= 0.0):
                raise ValueError(f"{name} must be strictly increasing when `grid` is True")
        return _on_grid(tck, xs.reshape(-1), ys.reshape(-1), dx, dy)
    xs, ys = np.broadcast_arrays(xs, ys)
    rows, columns, c = _factors(tck, xs.reshape(-1), ys.reshape(-1), dx, dy)
    values = _core.sum(_core.matmul(rows, c) * columns, -1).reshape(xs.shape)
    return values


@override(f"{_HERE}._fitpack2.BivariateSpline.integral", kind=METHOD, when=ALWAYS)
def integral(self: _Surface, xa: ArrayLike, xb: ArrayLike, ya: ArrayLike, yb: ArrayLike) -> Scalar:
    value: Scalar
    if not contains_unmasked_array((xa, xb, ya, yb, *self.tck)):
        by_scipy = original_of(locate(f"{_HERE}.BivariateSpline").integral)
        value = by_scipy(self, xa, xb, ya, yb)
        return value
    if any(np.ndim(end) for end in (xa, xb, ya, yb)):
        raise TypeError(
            "integral: the bounds must be numbers; integrate over one rectangle after another"
        )
    tx, ty, c = self.tck
    sides = []
    for t, k, ends in ((tx, self.degrees[0], (xa, xb)), (ty, self.degrees[1], (ya, yb))):
        # Beyond the ends there is nothing.
        low, high = (np.clip(asarray(end), t[k], t[-k - 1]) for end in ends)
        through = locate(f"{_HERE}.BSpline")(t, np.eye(len(t) - k - 1), k).antiderivative()
        sides.append(through(high) - through(low))
    rows, columns = sides
    along = _core.matmul(rows, asarray(c).reshape(len(rows), -1))
    value = python_number(finished(_core.matmul(along, columns)))
    return value


@override(f"{_HERE}.bisplev")
def bisplev(x: ArrayLike, y: ArrayLike, tck: _Tck, dx: int = 0, dy: int = 0) -> AnyArray:
    xs, ys = np.atleast_1d(asarray(x)), np.atleast_1d(asarray(y))
    for name, order, degree in (("dx", dx, tck[3]), ("dy", dy, tck[4])):
        if not 0 <= order < degree:
            raise ValueError(f"0 <= {name} = {order} < k{name[1]} = {degree} must hold")
    if xs.ndim != 1 or ys.ndim != 1:
        raise ValueError("First two entries should be rank-1 arrays.")
    z = _on_grid(tck, xs, ys, dx, dy)
    if len(z) > 1:
        return z
    return z[0] if z.shape[1] > 1 else z[0, 0]


def _on_grid(tck: _Tck, x: AnyArray, y: AnyArray, dx: int, dy: int) -> Array:
    rows, columns, c = _factors(tck, x, y, dx, dy)
    return _core.matmul(_core.matmul(rows, c), columns.T)


def _factors(
    tck: _Tck, x: AnyArray, y: AnyArray, dx: int, dy: int
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Give all splines of a basis at points, along each axis, and the coefficients of products."""
    tx, ty, c, kx, ky = tck
    rows, columns = _basis(tx, kx, x, dx), _basis(ty, ky, y, dy)
    return rows, columns, asarray(c).reshape(rows.shape[1], columns.shape[1])


def _basis(t: AnyArray, k: int, x: AnyArray, nu: int) -> AnyArray:
    # Beyond the ends the value is that at the end.
    x = np.clip(asarray(x), t[k], t[-k - 1])
    spline = locate(f"{_HERE}.BSpline")(t, np.eye(len(t) - k - 1), k)
    values: AnyArray = spline(x, nu)
    return values
