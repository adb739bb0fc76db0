"""An override of `scipy.stats.pearsonr`, whose source cannot be rebound: it writes to a scalar."""

from typing import Protocol

import numpy as np

from cotan import _core
from cotan._src.rebind.engine import locate
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import attach_derivative, refuse, to_numpy
from cotan._src.typing import AnyArray, ArrayLike, Axis, Kwargs


class _Correlation(Protocol):
    """What SciPy gives for a correlation."""

    statistic: AnyArray
    pvalue: AnyArray


def _centred(x: AnyArray) -> AnyArray:
    """Give deviations from the mean, up to a factor that keeps their squares within the range."""
    x = x - np.mean(x, axis=-1, keepdims=True)
    largest = np.max(np.abs(to_numpy(x)), axis=-1, keepdims=True)
    return x / np.where(largest > 0, largest, 1.0)


@override("scipy.stats.pearsonr")
def pearsonr(
    x: ArrayLike,
    y: ArrayLike,
    *,
    alternative: str = "two-sided",
    method: object = None,
    axis: Axis = 0,
) -> _Correlation:
    if method is not None:
        raise refuse("scipy.stats.pearsonr with method=")
    a, b = map(asarray, (x, y))
    original = locate("scipy.stats.pearsonr")
    # It raises what it does not like, and says of what class its result is.
    known = original(to_numpy(a), to_numpy(b), alternative=alternative, axis=axis)
    kind = np.result_type(a.dtype, b.dtype)
    kind = kind if kind.kind == "f" else np.dtype(np.float64)
    rest: Kwargs = {"alternative": alternative, "x": a, "y": b, "axis": axis}
    a, b = (_core.asarray(v, np.float64) for v in (a, b))
    if axis is None:
        a, b, rest["axis"] = np.ravel(a), np.ravel(b), -1
    a, b = (np.moveaxis(v, rest["axis"], -1) for v in np.broadcast_arrays(a, b))
    n = rest["n"] = a.shape[-1]
    xm, ym = _centred(a), _centred(b)
    r = np.sum(xm * ym, -1) / (np.linalg.norm(xm, axis=-1) * np.linalg.norm(ym, axis=-1))
    r = np.clip(attach_derivative(np.asarray(known.statistic, np.float64), r), -1.0, 1.0)
    result: _Correlation
    if n == 2:
        r = _core.asarray(r, kind)[()]
        result = type(known)(statistic=r, pvalue=known.pvalue, **rest)
        return result
    tail = {"two-sided": (1 - np.abs(r)) / 2, "greater": (1 - r) / 2, "less": (1 + r) / 2}
    p = locate("scipy.special.betainc")(n / 2 - 1, n / 2 - 1, tail[alternative])
    p = 2 * p if alternative == "two-sided" else p
    r, p = (_core.asarray(v, kind)[()] for v in (r, p))
    result = type(known)(statistic=r, pvalue=p, **rest)
    return result
