"""Interpolating splines of FITPACK (no smoothing), which are those of `make_interp_spline`."""

# ruff: noqa: N802, ARG001 - the names and signatures are SciPy's

from collections.abc import Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.implicit_diff import newton_moved
from cotan._src.rebind.engine import locate
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import METHOD, SUBSTITUTE_MEMBER, override
from cotan._src.runtime.values import attach_derivative, contains_active, python_number, to_numpy
from cotan._src.scipy.interpolate.bsplines import make_interp_spline, place, weights
from cotan._src.scipy.interpolate.core import Spline
from cotan._src.typing import AnyArray, ArrayLike, Scalar

_HERE = "scipy.interpolate"


def _expect_through(
    name: str, w: ArrayLike | None, s: float | None, others: Sequence[object] = ()
) -> None:
    """Refuse what smooths, and arguments that change it."""
    if contains_active(others):
        raise NotDifferentiableError(
            f"{name}: only x and y are differentiable; hold the rest constant with ct.dropgrad"
        )
    if w is not None or s is None or to_numpy(s) != 0:
        raise NotDifferentiableError(
            f"{name}: a smoothing spline has no derivative rule in cotan; interpolate (s=0 and no "
            "w), or use make_interp_spline"
        )


@override(f"{_HERE}.InterpolatedUnivariateSpline")
def InterpolatedUnivariateSpline(
    x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None,
    bbox: Sequence[float | None] = (None, None), k: int = 3, ext: int | str = 0,
    check_finite: bool = False,
) -> "_Fitted":  # fmt: skip
    return UnivariateSpline(x, y, w, bbox, k, 0, ext, check_finite)


@override(f"{_HERE}.UnivariateSpline")
def UnivariateSpline(x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None,
                     bbox: Sequence[float | None] = (None, None), k: int = 3,
                     s: float | None = None, ext: int | str = 0,
                     check_finite: bool = False) -> "_Fitted":  # fmt: skip
    _expect_through("UnivariateSpline", w, s, bbox)
    if any(side is not None for side in bbox):
        raise NotDifferentiableError(
            "UnivariateSpline: bbox= is not supported by cotan; use make_interp_spline"
        )
    return _Fitted(make_interp_spline(x, y, k), _EXTENSIONS[ext])


_EXTENSIONS: dict[int | str, int] = {
    name: i for i, name in enumerate(("extrapolate", "zeros", "raise", "const"))
}
_EXTENSIONS |= {i: i for i in range(4)}


class _Fitted:
    """What `UnivariateSpline` gives: a spline, and what it is outside of its interval."""

    def __init__(self, spline: Spline, ext: int) -> None:
        self._spline, self.ext = spline, ext

    def __call__(self, x: ArrayLike, nu: int = 0, ext: int | str | None = None) -> AnyArray:
        mode = self.ext if ext is None else _EXTENSIONS[ext]
        points = asarray(x)
        low, high = self._ends()
        outside = (to_numpy(points) < to_numpy(low)) | (to_numpy(points) > to_numpy(high))
        if mode == 0 or not np.any(outside):
            return self._spline(points, nu)
        if mode == 2:
            ends = f"{to_numpy(low):.6g} and {to_numpy(high):.6g}"
            raise ValueError(f"UnivariateSpline: x is not between {ends} (ext=2)")
        value = self._spline(np.clip(points, low, high), nu)
        return value if mode == 3 else np.where(outside, 0.0, value)

    def _ends(self) -> tuple[Scalar, Scalar]:
        k, knots = self._spline.k, self._spline.t
        return knots[k], knots[-k - 1]

    def derivative(self, n: int = 1) -> "_Fitted":
        return _Fitted(self._spline.derivative(n), 1 if self.ext == 3 else self.ext)

    def antiderivative(self, n: int = 1) -> "_Fitted":
        return _Fitted(self._spline.antiderivative(n), self.ext)

    def derivatives(self, x: ArrayLike) -> AnyArray:
        return np.stack([self(x, nu) for nu in range(self._spline.k + 1)])

    def integral(self, a: ArrayLike, b: ArrayLike) -> AnyArray:
        """Integrate; the spline is zero outside of its interval."""
        whole = self._spline.antiderivative()
        low, high = self._ends()
        return python_number((whole(np.clip(b, low, high)) - whole(np.clip(a, low, high)))[()])

    def roots(self) -> AnyArray:
        constant = self._spline
        tck = (
            to_numpy(constant.t),
            np.append(to_numpy(constant.c), np.zeros(constant.k + 1)),
            constant.k,
        )
        # What SciPy says of other degrees than three it says here.
        at = locate(f"{_HERE}.UnivariateSpline")._from_tck(tck).roots()
        moved = newton_moved(at, self._spline, to_numpy(self._spline(at, 1)))
        return attach_derivative(at, moved)

    def get_coeffs(self) -> AnyArray:
        return self._spline.c

    def get_knots(self) -> AnyArray:
        k = self._spline.k
        return self._spline.t[k : self._spline.t.shape[0] - k]

    def get_residual(self) -> float:
        return 0.0


@override(f"{_HERE}.splrep")
def splrep(x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, xb: float | None = None,
           xe: float | None = None, k: int = 3, task: int = 0, s: float | None = None,
           t: ArrayLike | None = None, full_output: int = 0, per: int = 0,
           quiet: int = 1) -> tuple[AnyArray, Array, int]:  # fmt: skip
    s = 0 if s is None and w is None else s
    _expect_through("splrep", w, s, (xb, xe, t))
    if task or t is not None or full_output or per or xb is not None or xe is not None:
        raise NotDifferentiableError(
            "splrep: only x, y, k and s=0 are supported by cotan; use make_interp_spline"
        )
    spline = make_interp_spline(x, y, k)
    zeros = np.zeros(k + 1, spline.c.dtype)
    return spline.t, _core.concatenate([spline.c, zeros]), k


@override(f"{_HERE}.BSpline.design_matrix", kind=METHOD)
def design_matrix(
    cls: Any, x: ArrayLike, t: ArrayLike, k: int, extrapolate: bool | str = False
) -> Any:
    """Give SciPy's result, with the values of the basis as functions of points and knots."""
    points = asarray(x, np.float64)
    knots = asarray(t, np.float64)
    compute = original_of(vars(locate(f"{_HERE}.BSpline"))["design_matrix"].__func__)
    matrix = compute(cls, to_numpy(points), to_numpy(knots), k, extrapolate)
    if not contains_active((points, knots)):
        return matrix
    if extrapolate == "periodic":
        n = knots.shape[0] - k - 1
        points = knots[k] + (points - knots[k]) % (knots[n] - knots[k])
    at = place(to_numpy(knots), k, to_numpy(points))
    rows = [np.broadcast_to(w, points.shape) for w in weights(knots, k, at, points, 0)]
    matrix.data = np.stack(rows, axis=-1).reshape(-1)
    return matrix


# Also of splines that hold traced values.
override(f"{_HERE}._bsplines.BSpline.design_matrix", kind=SUBSTITUTE_MEMBER)(
    classmethod(design_matrix)
)
