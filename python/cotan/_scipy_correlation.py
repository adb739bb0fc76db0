"""`scipy.stats.pearsonr`, whose own code writes into a scalar."""

from typing import Any

import numpy as np

from cotan import _core
from cotan._lifted import lifts
from cotan._numpy_core import plain, refuse
from cotan._numpy_own import asarray
from cotan._own import found


def _centred(x: Any) -> Any:
    """Give deviations from the mean, up to a factor that keeps their squares within the range."""
    x = x - np.mean(x)
    return x / (np.max(np.abs(_core.dropgrad(x))) or 1.0)


@lifts("scipy.stats.pearsonr")
def pearsonr(
    x: Any, y: Any, *, alternative: str = "two-sided", method: Any = None, axis: Any = 0
) -> Any:
    x, y = map(asarray, (x, y))
    kind = np.result_type(x.dtype, y.dtype)
    kind = kind if kind.kind == "f" else np.dtype(np.float64)
    x, y = (_core.asarray(v, np.float64) for v in (x, y))
    if method is not None or x.ndim != 1 or axis not in {0, -1}:
        raise refuse("scipy.stats.pearsonr with method= or along other axes")
    original = found("scipy.stats.pearsonr")
    # It raises what it does not like, and says of what class its result is.
    known = original(plain(x), plain(y), alternative=alternative)
    n = x.shape[0]
    xm, ym = _centred(x), _centred(y)
    r = np.clip(xm @ ym / (np.linalg.norm(xm) * np.linalg.norm(ym)), -1.0, 1.0)
    rest = {"alternative": alternative, "n": n, "x": x, "y": y, "axis": 0}
    if n == 2:
        r = _core.asarray(r, kind)[()]
        return type(known)(statistic=r, pvalue=known.pvalue, **rest)
    tail = {"two-sided": (1 - np.abs(r)) / 2, "greater": (1 - r) / 2, "less": (1 + r) / 2}
    p = found("scipy.special.betainc")(n / 2 - 1, n / 2 - 1, tail[alternative])
    p = 2 * p if alternative == "two-sided" else p
    r, p = (_core.asarray(v, kind)[()] for v in (r, p))
    return type(known)(statistic=r, pvalue=p, **rest)
