"""An override of `scipy.stats.gaussian_kde`: its Python code, rebound over differentiable sums."""

# ruff: noqa: ARG001 - the signatures are SciPy's

from typing import Protocol

import numpy as np

from cotan import _core
from cotan._src.kit import decompositions as dec
from cotan._src.rebind.engine import REBOUND_METHOD, locate, rebinds_instances
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import METHOD, SUBSTITUTE, SUBSTITUTE_MEMBER, named, override
from cotan._src.runtime.values import to_numpy
from cotan._src.typing import AnyArray, Function, Scalar

_NAME = "scipy.stats.gaussian_kde"


class _KernelDensity(Protocol):
    """An instance of SciPy's class."""

    d: int
    covariance: AnyArray
    dataset: AnyArray
    weights: AnyArray


def _exponents(points: AnyArray, xi: AnyArray, factor: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Give -d²/2 for each point of the data and each place, and the logarithm of the norm."""
    points, xi, factor = dec.common(*map(asarray, (points, xi, factor)))
    d = xi.shape[1]
    places = dec.solve_triangular(factor, dec.swap(xi), True)
    data = dec.solve_triangular(factor, dec.swap(points), True)
    distance = np.sum((data[:, :, None] - places[:, None, :]) ** 2, axis=0)
    pivots = np.diagonal(factor)
    return -distance / 2, -d / 2 * np.log(2 * np.pi) - np.sum(np.log(pivots))


def _estimate(
    points: AnyArray,
    values: AnyArray,
    xi: AnyArray,
    factor: AnyArray,
    dtype: object,
    *rest: object,
) -> AnyArray:
    exponents, norm = _exponents(points, xi, factor)
    return np.exp(dec.swap(exponents) + norm) @ values


def _estimate_log(
    points: AnyArray,
    values: AnyArray,
    xi: AnyArray,
    factor: AnyArray,
    dtype: object,
    *rest: object,
) -> AnyArray:
    exponents, norm = _exponents(points, xi, factor)
    terms = exponents + np.log(values)
    return (_core.logsumexp(terms, 0) + norm)[:, None]


class _Specialized:
    """Compiled functions are chosen by a key: here one serves for all dtypes."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def __getitem__(self, key: object) -> Function:
        return self._function


override("scipy.stats._stats.gaussian_kernel_estimate", kind=SUBSTITUTE)(_Specialized(_estimate))
override("scipy.stats._stats.gaussian_kernel_estimate_log", kind=SUBSTITUTE)(
    _Specialized(_estimate_log)
)
rebinds_instances(_NAME)
override(*named(_NAME, "evaluate __call__ pdf logpdf integrate_box_1d"), kind=METHOD)(
    REBOUND_METHOD
)


@override("scipy.stats._kde.gaussian_kde.integrate_box_1d", kind=SUBSTITUTE_MEMBER)
def _integrate_box_1d(self: _KernelDensity, low: Scalar, high: Scalar) -> Scalar:
    """Integrate; an infinite end is where it is, however wide the kernels are."""
    if self.d != 1:
        raise ValueError("integrate_box_1d() only handles 1D pdfs")
    width = np.sqrt(self.covariance).reshape(-1)[0]

    def below(end: Scalar) -> Scalar:
        if np.isinf(to_numpy(end)):
            return np.float64(to_numpy(end) > 0)
        share: Scalar = locate("scipy.special.ndtr")((end - self.dataset[0]) / width)
        return share

    return np.sum(self.weights * (below(high) - below(low)))
