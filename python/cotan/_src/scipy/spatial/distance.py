"""Overrides of `scipy.spatial.distance`: between vectors, and between all pairs of rows.

A distance is written once, along the last axis, and serves two vectors as well as rows against
rows. Where a norm is 0 it has a kink, and the derivative is 0.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.callbacks import probes_callback
from cotan._src.kit.host_call import inverse
from cotan._src.numpy.reductions import safe_sqrt
from cotan._src.rebind.engine import REBOUND, locate, refused
from cotan._src.rebind.numpy_substitutes import asarray, gathered
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, named, override
from cotan._src.runtime.values import assign, contains_active, is_array, python_number, to_numpy
from cotan._src.typing import AnyArray, Args, ArrayLike, Function, Kwargs, NDArray, Scalar

_HERE = "scipy.spatial.distance"


class _Tree(Protocol):
    """A tree of points, as SciPy has it; it keeps traced ones beside their values."""

    data: NDArray
    boxsize: ArrayLike | None
    _traced: AnyArray
    _given: tuple[Any, ...]


def _weighted(terms: AnyArray, w: ArrayLike | None) -> AnyArray:
    return terms if w is None else terms * asarray(w, np.float64)


def _total(terms: AnyArray) -> Array:
    return _core.sum(terms, -1)


def _sqeuclidean(u: AnyArray, v: AnyArray, w: ArrayLike | None = None) -> Array:
    return _total(_weighted(_core.square(u - v), w))


def _euclidean(u: AnyArray, v: AnyArray, w: ArrayLike | None = None) -> AnyArray:
    return safe_sqrt(_sqeuclidean(u, v, w))


def _cityblock(u: AnyArray, v: AnyArray, w: ArrayLike | None = None) -> Array:
    return _total(_weighted(_core.abs(u - v), w))


def _chebyshev(u: AnyArray, v: AnyArray, w: ArrayLike | None = None) -> Array:
    size = _core.abs(u - v)
    if w is not None:
        # A weight only says what counts.
        size = size * (to_numpy(asarray(w)) > 0)
    return _core.max(size, -1)


def _minkowski(u: AnyArray, v: AnyArray, p: Scalar = 2, w: ArrayLike | None = None) -> AnyArray:
    power = to_numpy(p)
    if power <= 0:
        raise ValueError("p must be greater than 0")
    if power == np.inf:
        return _chebyshev(u, v, w)
    if power == 1 and not is_array(p):
        return _cityblock(u, v, w)
    if power == 2 and not is_array(p):
        return _euclidean(u, v, w)
    total = _total(_weighted(_powered(_core.abs(u - v), p), w))
    zero = _core.eq(total, 0)
    return _core.where(zero, 0, _core.where(zero, 1, total) ** (1 / p))


def _powered(x: AnyArray, p: Scalar) -> Array:
    zero = _core.eq(x, 0)
    return _core.where(zero, 0, _core.where(zero, 1, x) ** p)


def _seuclidean(u: AnyArray, v: AnyArray, V: ArrayLike | None = None) -> AnyArray:  # noqa: N803
    return safe_sqrt(_total(_core.square(u - v) / asarray(V)))


def _mahalanobis(u: AnyArray, v: AnyArray, VI: ArrayLike | None = None) -> AnyArray:  # noqa: N803
    delta = u - v
    return safe_sqrt(_total(_core.matmul(delta, asarray(VI)) * delta))


def _cosine(u: AnyArray, v: AnyArray, w: ArrayLike | None = None) -> AnyArray:
    product = _total(_weighted(u * v, w))
    lengths = _total(_weighted(_core.square(u), w)) * _total(_weighted(_core.square(v), w))
    return 1 - product / safe_sqrt(lengths)


def _correlation(
    u: AnyArray, v: AnyArray, w: ArrayLike | None = None, centered: bool = True
) -> AnyArray:
    if centered:
        share = None if w is None else asarray(w) / _total(asarray(w))
        u, v = (x - _mean(x, share) for x in (u, v))
    return _cosine(u, v, w)


def _mean(x: AnyArray, share: AnyArray | None) -> Array:
    return _core.mean(x, -1, True) if share is None else _core.sum(x * share, -1, True)


def _canberra(u: AnyArray, v: AnyArray, w: ArrayLike | None = None) -> Array:
    size = _core.abs(u) + _core.abs(v)
    zero = _core.eq(size, 0)
    terms = _core.where(zero, 0, _core.abs(u - v) / _core.where(zero, 1, size))
    return _total(_weighted(terms, w))


def _braycurtis(u: AnyArray, v: AnyArray, w: ArrayLike | None = None) -> AnyArray:
    difference = _total(_weighted(_core.abs(u - v), w))
    return difference / _total(_weighted(_core.abs(u + v), w))


def _jensenshannon(p: AnyArray, q: AnyArray, base: float | None = None) -> AnyArray:
    p, q = (x / _core.sum(x, -1, True) for x in (p, q))
    middle = (p + q) / 2
    relative = locate("scipy.special.rel_entr")
    total = _total(relative(p, middle)) + _total(relative(q, middle))
    if base is not None:
        total = total / np.log(base)
    return safe_sqrt(total / 2)


_METRICS: dict[str, Callable[..., AnyArray]] = {
    "braycurtis": _braycurtis,
    "canberra": _canberra,
    "chebyshev": _chebyshev,
    "cityblock": _cityblock,
    "correlation": _correlation,
    "cosine": _cosine,
    "euclidean": _euclidean,
    "jensenshannon": _jensenshannon,
    "mahalanobis": _mahalanobis,
    "minkowski": _minkowski,
    "seuclidean": _seuclidean,
    "sqeuclidean": _sqeuclidean,
}


def _real(x: AnyArray) -> AnyArray:
    """Give vectors as floats."""
    if x.dtype.kind == "c":
        raise TypeError(
            "scipy.spatial.distance: vectors must be real here; concatenate real and imaginary "
            "parts, or write the distance in terms of abs"
        )
    return x if x.dtype.kind == "f" else _core.asarray(x, np.float64)


def _vectors(*items: ArrayLike) -> list[AnyArray]:
    floats = [_real(asarray(x)) for x in items]
    for x in floats:
        if x.ndim != 1:
            raise ValueError("Input vector should be 1-D.")
    return floats


def _is_root(p: Scalar = 2, w: ArrayLike | None = None) -> bool:
    del w
    return not is_array(p) and p == 2


def _between_vectors(name: str, metric: Callable[..., AnyArray]) -> None:
    @override(f"{_HERE}.{name}")
    def distance(u: ArrayLike, v: ArrayLike, *args: Any, **kwargs: Any) -> AnyArray:
        first, second = _vectors(u, v)
        if name in {"braycurtis", "canberra"}:
            second = _core.asarray(second, np.float64)
        result = metric(first, second, *args, **kwargs)
        is_length = name == "minkowski" and _is_root(*args, **kwargs)
        # BLAS gives the norm as a number of Python's.
        is_length = is_length or name in {"euclidean", "seuclidean"}
        return python_number(result) if is_length else result


for _name, _metric in _METRICS.items():
    if _name != "jensenshannon":
        _between_vectors(_name, _metric)
override(*f"{_HERE}.jensenshannon".split())(REBOUND)


# --------------------------------------------------------------------------------------------------
# All pairs of rows


def _named(metric: str | Function) -> str | None:
    """Give the canonical name of a metric, None for a function that is called for every pair."""
    if callable(metric):
        known = locate(f"{_HERE}._METRIC_ALIAS").get(getattr(metric, "__name__", ""))
        original = original_of(metric)
        return known.canonical_name if known and original is known.dist_func else None
    if not isinstance(metric, str):
        raise TypeError("2nd argument metric must be a string identifier or a function.")
    known = locate(f"{_HERE}._METRIC_ALIAS").get(metric.lower())
    if known is None:
        raise ValueError(f"Unknown Distance Metric: {metric}")
    return str(known.canonical_name)


def _completed(name: str, rows: Callable[[], AnyArray], options: Kwargs) -> Kwargs:
    """Fill in what SciPy takes from the data."""
    options = {k: v for k, v in options.items() if v is not None}
    if name == "seuclidean" and "V" not in options:
        options["V"] = np.var(rows(), axis=0, ddof=1)
    if name == "mahalanobis" and "VI" not in options:
        options["VI"] = inverse(_core.asarray(np.cov(rows().T))).T
    return options


def _written(result: AnyArray, out: AnyArray | None) -> AnyArray:
    return result if out is None else assign("distance", out, result)


def _rows(name: str, x: ArrayLike) -> Array:
    rows = asarray(x)
    if rows.ndim != 2:
        raise ValueError(f"{name} must be a 2-dimensional array.")
    return _core.asarray(_real(rows), np.float64)


@probes_callback(f"{_HERE}.cdist", "metric")
def cdist(XA: ArrayLike, XB: ArrayLike, metric: str | Function = "euclidean", *,  # noqa: N803
          out: AnyArray | None = None, **kwargs: Any) -> AnyArray:  # fmt: skip
    a, b = _rows("XA", XA), _rows("XB", XB)
    if a.shape[1] != b.shape[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    name = _named(metric)
    if name is None:
        measure: Any = metric
        distances = [[measure(u, v, **kwargs) for v in b] for u in a]
        return _written(_core.array(distances), out)
    if name not in _METRICS:
        _refuse("cdist", name, (XA, XB, kwargs))
        return _written(locate(f"{_HERE}.cdist")(to_numpy(XA), to_numpy(XB), name, **kwargs), out)
    options = _completed(name, lambda: np.concatenate([a, b]), kwargs)
    if name == "cosine" and not options:
        return _written(_cosines(a, b), out)
    return _written(_METRICS[name](a[:, None, :], b[None, :, :], **options), out)


def _cosines(a: AnyArray, b: AnyArray) -> AnyArray:
    a, b = (x / safe_sqrt(_core.sum(_core.square(x), -1, True)) for x in (a, b))
    return 1 - _core.matmul(a, b.T)


@probes_callback(f"{_HERE}.pdist", "metric")
def pdist(X: ArrayLike, metric: str | Function = "euclidean", *,  # noqa: N803
          out: AnyArray | None = None, **kwargs: Any) -> AnyArray:  # fmt: skip
    x = _rows("X", X)
    name = _named(metric)
    i, j = np.triu_indices(x.shape[0], 1)
    if name is None:
        measure: Any = metric
        pairs = [measure(x[p], x[q], **kwargs) for p, q in zip(i, j, strict=True)]
        return _written(_core.array(pairs), out)
    if name not in _METRICS:
        _refuse("pdist", name, (X, kwargs))
        return _written(locate(f"{_HERE}.pdist")(to_numpy(X), name, **kwargs), out)
    options = _completed(name, lambda: x, kwargs)
    return _written(_METRICS[name](x[i], x[j], **options), out)


@override("scipy.spatial.minkowski_distance")
def minkowski_distance(x: ArrayLike, y: ArrayLike, p: Scalar = 2) -> AnyArray:
    u, v = (_core.asarray(_real(asarray(a)), np.float64) for a in (x, y))
    return _minkowski(u, v, p)


@override("scipy.spatial.distance_matrix")
def distance_matrix(
    x: ArrayLike, y: ArrayLike, p: Scalar = 2, threshold: int = 1000000
) -> AnyArray:
    del threshold  # only of what is kept at a time
    u, v = asarray(x), asarray(y)
    if u.shape[1] != v.shape[1]:
        raise ValueError(
            f"x contains {u.shape[1]}-dimensional vectors but y contains {v.shape[1]}-dimensional "
            "vectors"
        )
    return minkowski_distance(u[:, None, :], v[None, :, :], p)


def _refuse(function: str, name: str, args: tuple[object, ...]) -> None:
    if contains_active(args):
        raise NotDifferentiableError(
            f"{function}: the metric {name!r} counts where values differ, so it has no derivative; "
            "hold its arguments constant with ct.dropgrad"
        )


@override(f"{_HERE}.squareform")
def squareform(X: ArrayLike, force: str = "no", checks: bool = True) -> AnyArray:  # noqa: N803
    x = asarray(X)
    shape = np.shape(locate(f"{_HERE}.squareform")(to_numpy(x), force, checks))
    if x.ndim == len(shape):
        return x
    if x.ndim == 2:
        return x[np.triu_indices(x.shape[0], 1)]
    result = _core.asarray(np.zeros(shape, x.dtype))
    i, j = np.triu_indices(shape[0], 1)
    return _core.index_add(_core.index_add(result, (i, j), x), (j, i), x)


@override("scipy.spatial.distance.directed_hausdorff")
def directed_hausdorff(
    u: ArrayLike, v: ArrayLike, *args: Any, **options: Any
) -> tuple[AnyArray, int, int]:
    a, b = asarray(u, np.float64), asarray(v, np.float64)
    compute = locate("scipy.spatial.distance.directed_hausdorff")
    _, i, j = compute(to_numpy(a), to_numpy(b), *args, **options)
    return python_number(_euclidean(a[i], b[j])), i, j


def _points(tree: _Tree) -> AnyArray:
    """Give the points of a tree, traced if those that it was made of were."""
    return tree._traced if hasattr(tree, "_traced") else np.asarray(tree.data)


@override("scipy.spatial.KDTree.__init__", kind=METHOD)
def make_tree(self: _Tree, data: ArrayLike, *args: Any, **options: Any) -> None:
    """Build a tree of values: who is near whom is constant."""
    points = asarray(data)
    make = original_of(vars(locate("scipy.spatial.KDTree"))["__init__"])
    args = tuple(map(to_numpy, args))
    if is_array(points) and _core.is_replayed(points):
        # Each replay builds it anew, when it is asked.
        make(self, np.zeros(points.shape), *args, **options)
        self.__class__ = _asked(type(self))
        self._given = *args, options
    else:
        make(self, to_numpy(points), *args, **options)
    self._traced = points


@functools.cache
def _asked(cls: type) -> type:
    """Give the class of trees that a prepared function makes of points that move."""

    def attribute(self: object, name: str) -> Any:
        if name in {"query", "boxsize", "n", "m", "_traced", "_given"} or name.startswith("__"):
            return object.__getattribute__(self, name)
        raise TypeError(
            f"prepare: {name} of a KDTree is not known while its points differ in each call; use "
            "its method query, or leave the function unprepared"
        )

    return type(cls.__name__, (cls,), {"__slots__": (), "__getattribute__": attribute})


def _built(self: _Tree) -> Any:
    """Give a tree with what it was built of: of this call, where a function is prepared."""
    if not hasattr(self, "_given"):
        return self
    *args, options = self._given
    return locate("scipy.spatial.KDTree")(to_numpy(self._traced), *args, **options)


@override("scipy.spatial.cKDTree", when=ALWAYS)
def compiled_tree(data: ArrayLike, *args: Any, **options: Any) -> _Tree:
    """Give a tree of the Python class, whose methods accept `Array`s, as one of both classes."""
    tree: _Tree = locate("scipy.spatial.KDTree")(data, *args, **options)
    return tree


@override("scipy.spatial.KDTree.query", kind=METHOD, when=ALWAYS)
def query(
    self: _Tree, x: ArrayLike, k: int | Sequence[int] = 1, eps: float = 0.0, p: float = 2.0,
    distance_upper_bound: float = np.inf, workers: int = 1,
) -> tuple[AnyArray, NDArray]:  # fmt: skip
    ask = original_of(vars(locate("scipy.spatial.KDTree"))["query"])
    x = gathered(x)
    limits = to_numpy(eps), p, to_numpy(distance_upper_bound)
    distances, index = ask(_built(self), to_numpy(x), k, *limits, workers)
    if not is_array(x) and not hasattr(self, "_traced"):
        return distances, index
    # Which points are near is constant; how near is active.
    missing = ~np.isfinite(distances)
    neighbours = _points(self)[np.where(missing, 0, index)]
    own = asarray(x)
    points = own if np.ndim(index) == own.ndim - 1 else own[..., None, :]
    if self.boxsize is not None:
        # The nearest of the images that a box is repeated in.
        box = np.asarray(self.boxsize)
        apart = np.where(box > 0, to_numpy(points) - to_numpy(neighbours), 0.0)
        neighbours = neighbours + box * np.round(apart / np.where(box > 0, box, 1.0))
    near = _core.where(missing, np.inf, _minkowski(points, neighbours, p))
    return python_number(near, distances), index


def _expect_built(args: Args, options: Kwargs) -> None:
    """Refuse trees that each replay builds anew where they are handed to another one's method."""
    for other in (*args, *options.values()):
        if hasattr(other, "_given"):
            getattr(other, "data")  # noqa: B009 - raises the error that says so


def _of_values(name: str) -> None:
    """Let a method that says which points are near run on values."""

    @override(f"scipy.spatial.KDTree.{name}", kind=METHOD, when=ALWAYS)
    def near(self: _Tree, *args: Any, **options: Any) -> Any:
        _expect_built(args, options)
        ask = original_of(vars(locate("scipy.spatial.KDTree"))[name])
        given = inspect.signature(ask).bind(self, *args, **options).arguments
        if contains_active(given.get("weights")):
            raise NotDifferentiableError(
                f"KDTree.{name} with respect to weights= has no derivative rule in cotan; sum the "
                "weights of the pairs that query_ball_tree returns"
            )
        return ask(self, *map(to_numpy, args), **{k: to_numpy(v) for k, v in options.items()})


@override("scipy.spatial.KDTree.sparse_distance_matrix", kind=METHOD, when=ALWAYS)
def sparse_distance_matrix(self: _Tree, other: _Tree, *args: Any, **options: Any) -> Any:
    _expect_built((other,), {})
    if contains_active((_points(self), _points(other))):
        raise NotDifferentiableError(
            "KDTree.sparse_distance_matrix has no derivative rule in cotan; find pairs with "
            "query_ball_tree, and compute the distances of their points"
        )
    ask = original_of(vars(locate("scipy.spatial.KDTree"))["sparse_distance_matrix"])
    return ask(self, other, *map(to_numpy, args), **{k: to_numpy(v) for k, v in options.items()})


for _name in ("query_ball_point", "query_ball_tree", "query_pairs", "count_neighbors"):
    _of_values(_name)

override(
    *named(
        "scipy.spatial",
        """
        ConvexHull Delaunay Voronoi SphericalVoronoi HalfspaceIntersection
    """,
    )
)(refused("compute with the points themselves: which of them are vertices is constant"))
