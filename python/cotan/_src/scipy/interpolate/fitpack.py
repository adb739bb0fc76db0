"""The splines of FITPACK that go through their points: they are those of `make_interp_spline`."""

# ruff: noqa: N802, ARG001 - the names and signatures are SciPy's

from typing import Any

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.kit.implicit_diff import newton_moved
from cotan._src.rebind.engine import locate
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import METHOD, override
from cotan._src.runtime.values import attach_derivative, contains_active, to_numpy
from cotan._src.scipy.interpolate.core import make_interp_spline, place, weights

_HERE = "scipy.interpolate"


def _expect_through(name: str, w: Any, s: Any, others: Any = ()) -> None:
    """Refuse what smooths, and arguments that change it."""
    if contains_active(others):
        raise TypeError(f"{name}: only x and y can be differentiated; hold the rest constant with "
                        "ct.dropgrad")  # fmt: skip
    if w is not None or s is None or to_numpy(s) != 0:
        raise NotDifferentiableError(
            f"{name}: a smoothing spline has no derivative rule in cotan; one that goes through "
            "its points has: s=0 and no w, or make_interp_spline"
        )


@override(f"{_HERE}.InterpolatedUnivariateSpline")
def InterpolatedUnivariateSpline(
    x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, ext: Any = 0,
    check_finite: bool = False,
) -> Any:  # fmt: skip
    return UnivariateSpline(x, y, w, bbox, k, 0, ext, check_finite)


@override(f"{_HERE}.UnivariateSpline")
def UnivariateSpline(x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3,
                     s: Any = None, ext: Any = 0, check_finite: bool = False) -> Any:  # fmt: skip
    _expect_through("UnivariateSpline", w, s, bbox)
    if any(side is not None for side in bbox):
        raise NotDifferentiableError(
            "UnivariateSpline: bbox= is not known to cotan; use make_interp_spline"
        )
    return _Fitted(make_interp_spline(x, y, k), _EXTENSIONS[ext])


_EXTENSIONS = {name: i for i, name in enumerate(("extrapolate", "zeros", "raise", "const"))}
_EXTENSIONS |= {i: i for i in range(4)}  # type: ignore[misc]


class _Fitted:
    """What `UnivariateSpline` gives: a spline, and what it is outside of its interval."""

    def __init__(self, spline: Any, ext: int) -> None:
        self._spline, self.ext = spline, ext

    def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Any:
        mode = self.ext if ext is None else _EXTENSIONS[ext]
        x = asarray(x)
        low, high = self._ends()
        outside = (to_numpy(x) < to_numpy(low)) | (to_numpy(x) > to_numpy(high))
        if mode == 0 or not np.any(outside):
            return self._spline(x, nu)
        if mode == 2:
            ends = f"{to_numpy(low):.6g} and {to_numpy(high):.6g}"
            raise ValueError(f"UnivariateSpline: x is not between {ends} (ext=2)")
        value = self._spline(np.clip(x, low, high), nu)
        return value if mode == 3 else np.where(outside, 0.0, value)

    def _ends(self) -> tuple[Any, Any]:
        k, knots = self._spline.k, self._spline.t
        return knots[k], knots[-k - 1]

    def derivative(self, n: int = 1) -> Any:
        return _Fitted(self._spline.derivative(n), 1 if self.ext == 3 else self.ext)

    def antiderivative(self, n: int = 1) -> Any:
        return _Fitted(self._spline.antiderivative(n), self.ext)

    def derivatives(self, x: Any) -> Any:
        return np.stack([self(x, nu) for nu in range(self._spline.k + 1)])

    def integral(self, a: Any, b: Any) -> Any:
        """Integrate; the spline is zero outside of its interval."""
        whole = self._spline.antiderivative()
        low, high = self._ends()
        return (whole(np.clip(b, low, high)) - whole(np.clip(a, low, high)))[()]

    def roots(self) -> Any:
        constant = self._spline
        tck = (
            to_numpy(constant.t),
            np.append(to_numpy(constant.c), np.zeros(constant.k + 1)),
            constant.k,
        )
        # What SciPy says of other degrees than three it says here.
        at = locate(f"{_HERE}.UnivariateSpline")._from_tck(tck).roots()
        return attach_derivative(at, newton_moved(at, self._spline, to_numpy(self._spline(at, 1))))

    def get_coeffs(self) -> Any:
        return self._spline.c

    def get_knots(self) -> Any:
        k = self._spline.k
        return self._spline.t[k : self._spline.t.shape[0] - k]

    def get_residual(self) -> float:
        return 0.0


@override(f"{_HERE}.splrep")
def splrep(x: Any, y: Any, w: Any = None, xb: Any = None, xe: Any = None, k: int = 3, task: int = 0,
           s: Any = None, t: Any = None, full_output: int = 0, per: int = 0,
           quiet: int = 1) -> Any:  # fmt: skip
    s = 0 if s is None and w is None else s
    _expect_through("splrep", w, s, (xb, xe, t))
    if task or t is not None or full_output or per or xb is not None or xe is not None:
        raise TypeError("splrep: only x, y, k and s=0 are known to cotan; use make_interp_spline")
    spline = make_interp_spline(x, y, k)
    zeros = np.zeros(k + 1, spline.c.dtype)
    return spline.t, _core.concatenate([spline.c, zeros]), k


@override(f"{_HERE}.BSpline.design_matrix", kind=METHOD)
def design_matrix(cls: Any, x: Any, t: Any, k: Any, extrapolate: Any = False) -> Any:
    """Give what SciPy gives, with the values of the basis that follow points and knots."""
    x, t = asarray(x, np.float64), asarray(t, np.float64)
    matrix = cls.design_matrix(to_numpy(x), to_numpy(t), k, extrapolate)
    if not contains_active((x, t)):
        return matrix
    if extrapolate == "periodic":
        n = t.shape[0] - k - 1
        x = t[k] + (x - t[k]) % (t[n] - t[k])
    at = place(to_numpy(t), k, to_numpy(x))
    rows = [np.broadcast_to(w, x.shape) for w in weights(t, k, at, x, 0)]
    matrix.data = np.stack(rows, axis=-1).reshape(-1)
    return matrix
