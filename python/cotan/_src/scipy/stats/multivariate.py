"""Distributions of `scipy.stats` over vectors and matrices: the normal one and Wishart's two."""

import math
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.kit.host_call import host_call, inverse
from cotan._src.rebind.engine import REBOUND_METHOD, locate
from cotan._src.rebind.engine import detached as value_of
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.method_patching import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, named, override
from cotan._src.runtime.values import contains_active, is_active, to_numpy

_HERE = "scipy.stats"

# --------------------------------------------------------------------------------------------------
# The multivariate normal distribution


def _log_determinant(matrix: Any) -> Any:
    def pullback(ct: Any, a: Any, wanted: Any) -> Any:
        del wanted
        return (ct * inverse(a).T,)

    return host_call("scipy.stats.multivariate_normal", lambda a: np.linalg.slogdet(a)[1], pullback,
                  matrix)  # fmt: skip


class _Covariance:
    """A covariance that is followed, with what SciPy's classes know of theirs."""

    _allow_singular = False

    def __init__(self, matrix: Any, known: Any) -> None:
        self.covariance = matrix
        self.rank, self.shape = known.rank, known.shape
        read = np.tril(matrix) + np.tril(matrix, -1).T  # by SciPy, of one that is not symmetric
        self.log_pdet = _log_determinant(read)
        self._inverse = inverse(read)

    def distances(self, deviation: Any) -> Any:
        return _core.sum(_core.matmul(deviation, self._inverse) * deviation, -1)


def _parameters(dist: Any, mean: Any, cov: Any, allow_singular: Any) -> tuple[Any, Any, Any]:
    """Check the parameters on values, and give them as they are."""
    dim, mean_value, known = dist._process_parameters(to_numpy(mean), to_numpy(cov), allow_singular)
    mean = mean_value if mean is None else _core.reshape(asarray(mean, np.float64), (dim,))
    if not is_active(cov):
        return dim, mean, known
    cov = asarray(cov, np.float64)
    if np.any(known.rank < dim):
        raise NotDifferentiableError(
            "multivariate_normal: a singular covariance that is being differentiated has no "
            "derivative; add a small number to its diagonal"
        )
    if cov.ndim == 0:
        cov = cov * np.eye(dim)
    elif cov.ndim == 1:
        cov = cov[:, None] * np.eye(dim)
    return dim, mean, _Covariance(cov, known)


def _normal_logpdf(x: Any, dim: int, mean: Any, covariance: Any, outside: float = -math.inf) -> Any:
    x = asarray(x, np.float64)
    if x.ndim == 0:
        x = x[None]
    elif x.ndim == 1:
        x = x[:, None] if dim == 1 else x[None, :]
    deviation = x - mean
    if isinstance(covariance, _Covariance):
        distances = covariance.distances(deviation)
    else:
        distances = _core.sum(_core.square(deviation @ covariance.whiten(np.eye(dim))), -1)
    constant = covariance.rank * math.log(2 * math.pi)
    result = -0.5 * (constant + covariance.log_pdet + distances)
    if np.any(covariance.rank < dim):
        beyond = ~covariance._support_mask(to_numpy(deviation))
        result = _core.where(beyond, outside, result)
    result = _core.asarray(result).squeeze()
    return result[()] if result.ndim == 0 else result


_NORMAL = f"{_HERE}._multivariate.multivariate_normal_gen"
_FROZEN = f"{_HERE}._multivariate.multivariate_normal_frozen"


@override(f"{_NORMAL}.logpdf", kind=METHOD)
def _logpdf(self: Any, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    return _normal_logpdf(x, *_parameters(self, mean, cov, allow_singular))


@override(f"{_NORMAL}.pdf", kind=METHOD)
def _pdf(self: Any, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    return np.exp(_logpdf(self, x, mean, cov, allow_singular))


@override(f"{_NORMAL}.rvs", kind=METHOD)
def _rvs(self: Any, mean: Any = None, cov: Any = 1, size: Any = 1, random_state: Any = None) -> Any:
    """Move what is drawn about 0 to the mean: NumPy adds it in memory of its own."""
    draw = original_of(vars(locate(_NORMAL))["rvs"])
    if not contains_active([mean]):
        return draw(self, mean, cov, size, random_state)
    dim, _, _ = self._process_parameters(value_of(mean), value_of(cov))
    drawn = draw(self, np.zeros(dim), cov, size, random_state)
    center = _core.reshape(asarray(mean, np.float64), (dim,))
    return drawn + (center if dim > 1 else center[0])


@override(f"{_FROZEN}.__init__", kind=METHOD)
def _freeze_normal(self: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False,
                   *args: Any, **options: Any) -> None:  # fmt: skip
    init = original_of(vars(locate(_FROZEN))["__init__"])
    init(self, to_numpy(mean), to_numpy(cov), allow_singular, *args, **options)
    _, self.mean, self.cov_object = _parameters(self._dist, mean, cov, allow_singular)


def _uncomputed(owner: str, name: str) -> None:
    @override(f"{owner}.{name}", kind=METHOD, when=ALWAYS)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        frozen = [self.mean, self.cov_object.covariance] if owner == _FROZEN else []
        if contains_active(args) or contains_active(kwargs) or contains_active(frozen):
            raise NotDifferentiableError(
                f"scipy.stats.multivariate_normal: {name} has no derivative rule in cotan; hold "
                "its arguments constant with ct.dropgrad, or integrate the density of one variable "
                "times the distribution of the others given it"
            )
        given = {key: value_of(v) for key, v in kwargs.items()}
        return original_of(vars(locate(owner))[name])(self, *map(value_of, args), **given)


def _frozen(name: str) -> None:
    @override(f"{_FROZEN}.{name}", kind=METHOD, when=ALWAYS)
    def method(self: Any, x: Any) -> Any:
        parts = x, self.mean, self.cov_object.covariance
        if not any(isinstance(p, _core.Array) for p in parts):
            return original_of(vars(locate(_FROZEN))[name])(self, x)
        result = _normal_logpdf(x, self.dim, self.mean, self.cov_object)
        return result if name == "logpdf" else np.exp(result)


_frozen("logpdf")
_frozen("pdf")


@override(f"{_FROZEN}.rvs", kind=METHOD, when=ALWAYS)
def _frozen_rvs(self: Any, size: Any = 1, random_state: Any = None) -> Any:
    cov = self.cov_object
    cov = cov.covariance if isinstance(cov, _Covariance) else cov
    return self._dist.rvs(self.mean, cov, size, random_state)


for _name in ("cdf", "logcdf"):
    _uncomputed(_NORMAL, _name)
    _uncomputed(_FROZEN, _name)


# --------------------------------------------------------------------------------------------------
# Wishart's distributions


def _wishart(name: str) -> None:
    """Run SciPy's code for the distribution itself, and for one that is frozen by way of that."""
    base = f"{_HERE}._multivariate.{name}"
    override(*named(f"{base}_gen", "entropy logpdf mean mode pdf rvs var"), kind=METHOD)(
        REBOUND_METHOD
    )
    owner = f"{base}_frozen"

    @override(f"{owner}.__init__", kind=METHOD)
    def init(self: Any, df: Any, scale: Any, seed: Any = None) -> None:
        original_of(vars(locate(owner))["__init__"])(self, value_of(df), value_of(scale), seed)
        self.df, self.scale = df, asarray(scale)

    def enter(method: str) -> None:
        @override(f"{owner}.{method}", kind=METHOD, when=ALWAYS)
        def frozen(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not contains_active([self.df, self.scale, *args]):
                return original_of(vars(locate(owner))[method])(
                    self, *map(to_numpy, args), **kwargs
                )
            given = (
                (*args, self.df, self.scale) if "pdf" in method else (self.df, self.scale, *args)
            )
            return getattr(self._dist, method)(*given, **kwargs)

    for method in ("entropy", "logpdf", "mean", "mode", "pdf", "rvs", "var"):
        enter(method)


_wishart("wishart")
_wishart("invwishart")
