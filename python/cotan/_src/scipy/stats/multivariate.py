"""Overrides of `scipy.stats`: the multivariate normal and both Wishart distributions."""

import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.kit.host_call import host_call, inverse
from cotan._src.rebind.engine import REBOUND_METHOD, locate
from cotan._src.rebind.engine import detached as value_of
from cotan._src.rebind.numpy_substitutes import asarray, gathered
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, named, override
from cotan._src.runtime.values import contains_active, is_active, to_numpy
from cotan._src.typing import AnyArray, ArrayLike, NDArray, Shape

_HERE = "scipy.stats"

#: What random numbers are drawn by.
_Seed: TypeAlias = int | np.random.Generator | np.random.RandomState | None


class _KnownCovariance(Protocol):
    """What SciPy's classes know of a covariance that is constant."""

    rank: int
    shape: Shape


class _Normal(Protocol):
    """SciPy's distribution of normal vectors."""

    def _process_parameters(self, *args: object) -> tuple[int, NDArray, _KnownCovariance]: ...


class _FrozenNormal(Protocol):
    """That distribution with parameters."""

    dim: int
    mean: AnyArray
    cov_object: Any
    _dist: Any


class _FrozenWishart(Protocol):
    """One of Wishart's distributions with parameters."""

    df: ArrayLike
    scale: AnyArray
    _dist: Any


# --------------------------------------------------------------------------------------------------
# The multivariate normal distribution


def _log_determinant(matrix: AnyArray) -> AnyArray:
    def pullback(ct: AnyArray, a: AnyArray, wanted: Sequence[bool]) -> tuple[AnyArray]:
        del wanted
        return (ct * inverse(a).T,)

    return host_call("scipy.stats.multivariate_normal", lambda a: np.linalg.slogdet(a)[1], pullback,
                  matrix)  # fmt: skip


class _Covariance:
    """An active covariance, with the attributes of SciPy's classes."""

    _allow_singular = False

    def __init__(self, matrix: AnyArray, known: _KnownCovariance) -> None:
        self.covariance = matrix
        self.rank, self.shape = known.rank, known.shape
        read = np.tril(matrix) + np.tril(matrix, -1).T  # by SciPy, of one that is not symmetric
        if _core.is_preparing():
            # Each replay looks whether it is positive definite.
            factor = np.linalg.cholesky(read)
            self.log_pdet = 2 * np.sum(np.log(np.diagonal(factor)))
        else:
            self.log_pdet = _log_determinant(read)
        self._inverse = inverse(read)

    def distances(self, deviation: AnyArray) -> AnyArray:
        return _core.sum(_core.matmul(deviation, self._inverse) * deviation, -1)


def _like(mean: Any) -> Any:
    """Give a mean of the same shape, of which SciPy does not look at the values."""
    return np.zeros(np.shape(mean)) if _core.contains_array((mean,), {}) else mean


def _checked(cov: Any) -> Any:
    """Give the values of a covariance that SciPy checks; of one that is prepared the shape alone.

    Values must not be read then, and the Cholesky decomposition looks at those of each replay.
    """
    if not (is_active(cov) and _core.is_preparing()):
        return value_of(cov)
    return np.eye(np.shape(cov)[0]) if np.ndim(cov) == 2 else np.ones(np.shape(cov))


def _parameters(
    dist: _Normal, mean: ArrayLike | None, cov: ArrayLike, allow_singular: bool
) -> tuple[int, AnyArray, _Covariance | _KnownCovariance]:
    """Check the parameters on values, and give them as they are."""
    cov = gathered(cov)
    given = _like(mean), _checked(cov), allow_singular
    dim, mean_value, known = dist._process_parameters(*given)
    center = mean_value if mean is None else _core.reshape(asarray(mean, np.float64), (dim,))
    if not is_active(cov):
        return dim, center, known
    matrix = asarray(cov, np.float64)
    if np.any(known.rank < dim):
        raise NotDifferentiableError(
            "multivariate_normal: an active covariance that is singular has no derivative; add a "
            "small number to its diagonal"
        )
    if matrix.ndim == 0:
        matrix = matrix * np.eye(dim)
    elif matrix.ndim == 1:
        matrix = matrix[:, None] * np.eye(dim)
    return dim, center, _Covariance(matrix, known)


def _normal_logpdf(
    x: ArrayLike, dim: int, mean: AnyArray, covariance: Any, outside: float = -math.inf
) -> AnyArray:
    points = asarray(x, np.float64)
    if points.ndim == 0:
        points = points[None]
    elif points.ndim == 1:
        points = points[:, None] if dim == 1 else points[None, :]
    deviation = points - mean
    if isinstance(covariance, _Covariance):
        distances = covariance.distances(deviation)
    else:
        distances = _core.sum(_core.square(deviation @ covariance.whiten(np.eye(dim))), -1)
    constant = covariance.rank * math.log(2 * math.pi)
    result = -0.5 * (constant + covariance.log_pdet + distances)
    if np.any(covariance.rank < dim):
        beyond = ~covariance._support_mask(to_numpy(deviation))
        result = _core.where(beyond, outside, result)
    density: AnyArray = _core.asarray(result).squeeze()
    return density[()] if density.ndim == 0 else density


_NORMAL = f"{_HERE}._multivariate.multivariate_normal_gen"
_FROZEN = f"{_HERE}._multivariate.multivariate_normal_frozen"


@override(f"{_NORMAL}.logpdf", kind=METHOD)
def _logpdf(
    self: _Normal,
    x: ArrayLike,
    mean: ArrayLike | None = None,
    cov: ArrayLike = 1,
    allow_singular: bool = False,
) -> AnyArray:
    return _normal_logpdf(x, *_parameters(self, mean, cov, allow_singular))


@override(f"{_NORMAL}.pdf", kind=METHOD)
def _pdf(
    self: _Normal,
    x: ArrayLike,
    mean: ArrayLike | None = None,
    cov: ArrayLike = 1,
    allow_singular: bool = False,
) -> AnyArray:
    return np.exp(_logpdf(self, x, mean, cov, allow_singular))


@override(f"{_NORMAL}.rvs", kind=METHOD)
def _rvs(
    self: _Normal,
    mean: ArrayLike | None = None,
    cov: ArrayLike = 1,
    size: int | Shape = 1,
    random_state: _Seed = None,
) -> AnyArray:
    """Move what is drawn about 0 to the mean: NumPy adds it in memory of its own."""
    draw = original_of(vars(locate(_NORMAL))["rvs"])
    drawn: AnyArray
    if not contains_active([mean]):
        drawn = draw(self, mean, cov, size, random_state)
        return drawn
    dim, _, _ = self._process_parameters(value_of(mean), value_of(cov))
    drawn = draw(self, np.zeros(dim), cov, size, random_state)
    center = _core.reshape(asarray(mean, np.float64), (dim,))
    return drawn + (center if dim > 1 else center[0])


@override(f"{_FROZEN}.__init__", kind=METHOD)
def _freeze_normal(self: _FrozenNormal, mean: ArrayLike | None = None, cov: ArrayLike = 1,
                   allow_singular: bool = False, *args: object,
                   **options: object) -> None:  # fmt: skip
    init = original_of(vars(locate(_FROZEN))["__init__"])
    # What it computes of the parameters is replaced.
    cov = gathered(cov)
    init(self, _like(mean), _checked(cov), allow_singular, *args, **options)
    _, self.mean, self.cov_object = _parameters(self._dist, mean, cov, allow_singular)


def _uncomputed(owner: str, name: str) -> None:
    @override(f"{owner}.{name}", kind=METHOD, when=ALWAYS)
    def method(self: Any, *args: ArrayLike, **kwargs: object) -> AnyArray:
        frozen = [self.mean, self.cov_object.covariance] if owner == _FROZEN else []
        if contains_active(args) or contains_active(kwargs) or contains_active(frozen):
            raise NotDifferentiableError(
                f"scipy.stats.multivariate_normal: {name} has no derivative rule in cotan; hold "
                "its arguments constant with ct.dropgrad, or integrate the density of one variable "
                "times the conditional distribution of the others"
            )
        given = {key: value_of(v) for key, v in kwargs.items()}
        value: NDArray
        value = original_of(vars(locate(owner))[name])(self, *map(value_of, args), **given)
        return value


def _frozen(name: str) -> None:
    @override(f"{_FROZEN}.{name}", kind=METHOD, when=ALWAYS)
    def method(self: _FrozenNormal, x: ArrayLike) -> AnyArray:
        x = gathered(x)
        parts = x, self.mean, self.cov_object.covariance
        if not any(isinstance(p, _core.Array) for p in parts):
            value: NDArray = original_of(vars(locate(_FROZEN))[name])(self, x)
            return value
        result = _normal_logpdf(x, self.dim, self.mean, self.cov_object)
        return result if name == "logpdf" else np.exp(result)


_frozen("logpdf")
_frozen("pdf")


@override(f"{_FROZEN}.rvs", kind=METHOD, when=ALWAYS)
def _frozen_rvs(self: _FrozenNormal, size: int | Shape = 1, random_state: _Seed = None) -> AnyArray:
    cov = self.cov_object
    cov = cov.covariance if isinstance(cov, _Covariance) else cov
    drawn: AnyArray = self._dist.rvs(self.mean, cov, size, random_state)
    return drawn


for _name in ("cdf", "logcdf"):
    _uncomputed(_NORMAL, _name)
    _uncomputed(_FROZEN, _name)


# --------------------------------------------------------------------------------------------------
# Scale matrices of other distributions

_PSD = f"{_HERE}._multivariate._PSD"


@override(f"{_PSD}.__init__", kind=METHOD)
def _decompose(self: Any, M: ArrayLike, *args: Any, **options: Any) -> None:  # noqa: N803
    """Decompose a scale by its Cholesky factor: eigenvectors have no derivative where values meet.

    SciPy's code asks for no more than the determinant and a factor of the inverse.
    """
    original_of(vars(locate(_PSD))["__init__"])(self, _checked(M), *args, **options)
    if not is_active(M):
        return
    matrix = asarray(M, np.float64)
    if self.rank < matrix.shape[0]:
        raise NotDifferentiableError(
            "scipy.stats: an active scale matrix that is singular has no derivative; add a small "
            "number to its diagonal"
        )
    is_lower = options.get("lower", args[2] if len(args) > 2 else True)
    lower = matrix if is_lower else matrix.T
    factor = np.linalg.cholesky(np.tril(lower) + np.tril(lower, -1).T)
    self._M = matrix
    self.U = inverse(factor).T
    self.log_pdet = 2 * np.sum(np.log(np.diagonal(factor)))


override(f"{_HERE}._multivariate.multivariate_t_gen._entropy", kind=METHOD, when=ALWAYS)(
    REBOUND_METHOD
)

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
    def init(self: _FrozenWishart, df: ArrayLike, scale: ArrayLike, seed: _Seed = None) -> None:
        values = _checked(scale)
        count = np.shape(scale)[-1] if is_active(df) and _core.is_preparing() else value_of(df)
        original_of(vars(locate(owner))["__init__"])(self, count, values, seed)
        self.df, self.scale = df, asarray(scale)

    def enter(method: str) -> None:
        @override(f"{owner}.{method}", kind=METHOD, when=ALWAYS)
        def frozen(self: _FrozenWishart, *args: ArrayLike, **kwargs: object) -> AnyArray:
            value: AnyArray
            if not contains_active([self.df, self.scale, *args]):
                original = original_of(vars(locate(owner))[method])
                value = original(self, *map(to_numpy, args), **kwargs)
                return value
            given = (
                (*args, self.df, self.scale) if "pdf" in method else (self.df, self.scale, *args)
            )
            value = getattr(self._dist, method)(*given, **kwargs)
            return value

    for method in ("entropy", "logpdf", "mean", "mode", "pdf", "rvs", "var"):
        enter(method)


_wishart("wishart")
_wishart("invwishart")
