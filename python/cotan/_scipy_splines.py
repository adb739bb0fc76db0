"""The splines of FITPACK that go through their points: they are those of `make_interp_spline`."""

# ruff: noqa: N802, ARG001 - the names and signatures are SciPy's

from typing import Any

import numpy as np

from cotan import _core
from cotan._lifted import lifts
from cotan._numpy_core import any_active, plain
from cotan._scipy_interpolate import make_interp_spline

_HERE = "scipy.interpolate"


def _expect_through(name: str, w: Any, s: Any, others: Any = ()) -> None:
    """Refuse what smooths, and arguments that change it."""
    if any_active(others):
        raise TypeError(f"{name}: only x and y can be differentiated; hold the rest constant with "
                        "ct.dropgrad")  # fmt: skip
    if w is not None or s is None or plain(s) != 0:
        raise TypeError(
            f"{name}: a smoothing spline has no derivative rule in cotan; one that goes through "
            "its points has: s=0 and no w, or make_interp_spline"
        )


@lifts(f"{_HERE}.InterpolatedUnivariateSpline")
def InterpolatedUnivariateSpline(
    x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, ext: Any = 0,
    check_finite: bool = False,
) -> Any:  # fmt: skip
    return UnivariateSpline(x, y, w, bbox, k, 0, ext, check_finite)


@lifts(f"{_HERE}.UnivariateSpline")
def UnivariateSpline(x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3,
                     s: Any = None, ext: Any = 0, check_finite: bool = False) -> Any:  # fmt: skip
    _expect_through("UnivariateSpline", w, s, bbox)
    if any(side is not None for side in bbox) or ext not in {0, "extrapolate"}:
        raise TypeError(
            "UnivariateSpline: bbox= and ext= are not known to cotan; use make_interp_spline"
        )
    return make_interp_spline(x, y, k)


@lifts(f"{_HERE}.splrep")
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
