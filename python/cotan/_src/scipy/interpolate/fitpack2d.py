"""Splines of two variables, of FITPACK: `RectBivariateSpline`, `bisplev`.

With respect to the points at which one asks, whatever made the spline. With respect to its data
where it goes through them: it is a spline of `make_interp_spline` along each axis then.
"""

# ruff: noqa: N802 - the names are SciPy's

from typing import Any

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.rebind.engine import contains_array, locate
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.method_patching import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, override
from cotan._src.runtime.ufunc_dtypes import finished
from cotan._src.runtime.values import contains_active, to_numpy
from cotan._src.scipy.interpolate.core import make_interp_spline

_HERE = "scipy.interpolate"


@override(f"{_HERE}.RectBivariateSpline")
def RectBivariateSpline(
    x: Any, y: Any, z: Any, bbox: Any = (None, None, None, None), kx: int = 3, ky: int = 3,
    s: Any = 0, maxit: int = 20,
) -> Any:  # fmt: skip
    if not contains_active((x, y, z, bbox, s)):
        return locate(f"{_HERE}.RectBivariateSpline")(
            to_numpy(x), to_numpy(y), to_numpy(z), to_numpy(bbox), kx, ky, to_numpy(s), maxit
        )
    if s is None or to_numpy(s) != 0 or any(side is not None for side in bbox):
        raise NotDifferentiableError(
            "RectBivariateSpline: a surface that smooths, and bbox=, have no derivative rule in "
            "cotan; one that goes through its points has: s=0"
        )
    x, y, z = asarray(x).reshape(-1), asarray(y).reshape(-1), asarray(z)
    for axis, (name, places) in enumerate((("x", x), ("y", y))):
        if not np.all(np.diff(to_numpy(places)) > 0.0):
            raise ValueError(f"{name} must be strictly increasing")
        if places.size != z.shape[axis]:
            raise ValueError(f"{name} dimension of z must have same number of elements as {name}")
    rows = make_interp_spline(x, z, kx)
    columns = make_interp_spline(y, rows.c.T, ky)
    cls: Any = locate(f"{_HERE}.RectBivariateSpline")
    made = cls.__new__(cls)
    made.fp = 0.0
    made.tck = rows.t, columns.t, columns.c.T.reshape(-1)
    made.degrees = kx, ky
    return made


@override(f"{_HERE}._fitpack2._BivariateSplineBase.__call__", kind=METHOD, when=ALWAYS)
def call(self: Any, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Any:
    if not contains_array((x, y, *self.tck)):
        return original_of(type(self).__call__)(self, x, y, dx, dy, grid)
    x, y = asarray(x), asarray(y)
    tck = *self.tck, *self.degrees
    if grid:
        for name, places in (("x", x), ("y", y)):
            if not np.all(np.diff(to_numpy(places).reshape(-1)) >= 0.0):
                raise ValueError(f"{name} must be strictly increasing when `grid` is True")
        return _on_grid(tck, x.reshape(-1), y.reshape(-1), dx, dy)
    x, y = np.broadcast_arrays(x, y)
    rows, columns, c = _factors(tck, x.reshape(-1), y.reshape(-1), dx, dy)
    return _core.sum(_core.matmul(rows, c) * columns, -1).reshape(x.shape)


@override(f"{_HERE}._fitpack2.BivariateSpline.integral", kind=METHOD, when=ALWAYS)
def integral(self: Any, xa: Any, xb: Any, ya: Any, yb: Any) -> Any:
    if not contains_array((xa, xb, ya, yb, *self.tck)):
        return original_of(type(self).integral)(self, xa, xb, ya, yb)
    if any(np.ndim(end) for end in (xa, xb, ya, yb)):
        raise TypeError(
            "integral: the ends are numbers; integrate over one rectangle after another"
        )
    tx, ty, c = self.tck
    sides = []
    for t, k, ends in ((tx, self.degrees[0], (xa, xb)), (ty, self.degrees[1], (ya, yb))):
        # Beyond the ends there is nothing.
        low, high = (np.clip(asarray(end), t[k], t[-k - 1]) for end in ends)
        through: Any = locate(f"{_HERE}.BSpline")(t, np.eye(len(t) - k - 1), k).antiderivative()
        sides.append(through(high) - through(low))
    rows, columns = sides
    return finished(_core.matmul(_core.matmul(rows, asarray(c).reshape(len(rows), -1)), columns))


@override(f"{_HERE}.bisplev")
def bisplev(x: Any, y: Any, tck: Any, dx: int = 0, dy: int = 0) -> Any:
    x, y = np.atleast_1d(asarray(x)), np.atleast_1d(asarray(y))
    for name, order, degree in (("dx", dx, tck[3]), ("dy", dy, tck[4])):
        if not 0 <= order < degree:
            raise ValueError(f"0 <= {name} = {order} < k{name[1]} = {degree} must hold")
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError("First two entries should be rank-1 arrays.")
    z = _on_grid(tck, x, y, dx, dy)
    if len(z) > 1:
        return z
    return z[0] if z.shape[1] > 1 else z[0, 0]


def _on_grid(tck: Any, x: Any, y: Any, dx: int, dy: int) -> Any:
    rows, columns, c = _factors(tck, x, y, dx, dy)
    return _core.matmul(_core.matmul(rows, c), columns.T)


def _factors(tck: Any, x: Any, y: Any, dx: int, dy: int) -> tuple[Any, Any, Any]:
    """Give all splines of a basis at points, along each axis, and the coefficients of products."""
    tx, ty, c, kx, ky = tck
    rows, columns = _basis(tx, kx, x, dx), _basis(ty, ky, y, dy)
    return rows, columns, asarray(c).reshape(rows.shape[1], columns.shape[1])


def _basis(t: Any, k: int, x: Any, nu: int) -> Any:
    # Beyond the ends the value is that at the end.
    x = np.clip(asarray(x), t[k], t[-k - 1])
    spline: Any = locate(f"{_HERE}.BSpline")(t, np.eye(len(t) - k - 1), k)
    return spline(x, nu)
