"""Overrides of `scipy.ndimage`: SciPy's Python code, rebound over differentiable kernels.

A filter is a correlation of the array, extended beyond its edges, with a kernel. A geometric
transformation evaluates splines through the array at coordinates: a recursive filter gives their
coefficients, and every point is a sum over the nearby splines.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.kit.callbacks import probes_callback
from cotan._src.kit.host_call import host_call, linear
from cotan._src.numpy.reductions import safe_sqrt
from cotan._src.rebind.engine import ON_VALUES, REBOUND, detached, locate, rebound_by_name, refused
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import SUBSTITUTE, named, override
from cotan._src.runtime.values import assign, axes_of, contains_active, is_array, refuse, to_numpy
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Axes,
    DTypeLike,
    Function,
    Kwargs,
    NDArray,
    Scalar,
    Shape,
)

_NEAREST, _WRAP, _REFLECT, _MIRROR, _CONSTANT, _GRID_WRAP, _GRID_CONSTANT = range(7)

# --------------------------------------------------------------------------------------------------
# Filters


def _index(at: NDArray, n: int, mode: int) -> NDArray:
    """Give which element stands at positions, of which some lie outside."""
    if mode == _NEAREST or n == 1:
        return np.clip(at, 0, n - 1)
    if mode in {_WRAP, _GRID_WRAP}:
        return at % n
    period = 2 * n if mode == _REFLECT else 2 * n - 2
    at = at % period
    last = 2 * n - 1 if mode == _REFLECT else 2 * n - 2
    return np.where(at < n, at, last - at)


def _continued(
    x: AnyArray, axis: int, before: int, after: int, mode: int, cval: Scalar
) -> AnyArray:
    """Go on with an array outside of itself along an axis."""
    n = x.shape[axis]
    if mode in {_CONSTANT, _GRID_CONSTANT} or n == 0:
        shape, start = list(x.shape), [0] * x.ndim
        shape[axis], start[axis] = n + before + after, before
        wide = _core.pad(x, shape, start, [1] * x.ndim)
        if not is_array(cval) and cval == 0:
            return wide
        inside = np.zeros(shape, bool)
        inside[(slice(None),) * axis + (slice(before, before + n),)] = True
        return _core.where(inside, wide, _core.cast(_core.asarray(cval), x.dtype))
    return np.take(x, _index(np.arange(-before, n + after), n, mode), axis)


def _slid(w: AnyArray, x: AnyArray) -> Array:
    """Correlate with a kernel of as many axes where it lies inside."""

    def forward(w: NDArray, x: NDArray) -> NDArray:
        origin = [-(count // 2) for count in w.shape]
        if w.size == w.shape[-1]:
            # SciPy goes through lines faster than through neighbourhoods.
            correlate = locate("scipy.ndimage.correlate1d")
            y = correlate(x, w.ravel(), mode="constant", origin=origin[-1])
        else:
            y = locate("scipy.ndimage.correlate")(x, w, mode="constant", origin=origin)
        ends = zip(x.shape, w.shape, strict=True)
        inner: NDArray = y[tuple(slice(n - count + 1) for n, count in ends)]
        return inner

    def pullback(
        ct: Array, w: AnyArray, x: AnyArray, wanted: tuple[bool, ...]
    ) -> tuple[Array | None, Array | None]:
        return (
            _core.cast(_sums(ct, x), w.dtype) if wanted[0] else None,
            _slid(_core.flip(_core.asarray(w)), _edged(ct, w.shape)) if wanted[1] else None,
        )

    return host_call("scipy.ndimage.correlate", forward, pullback, w, x)


def _edged(x: AnyArray, kernel: Shape) -> Array:
    """Put zeros around an array, as far as a kernel reaches."""
    x, width = _core.asarray(x), [count - 1 for count in kernel]
    wide = [n + 2 * k for n, k in zip(x.shape, width, strict=True)]
    return _core.pad(x, wide, width, [1] * x.ndim)


def _sums(ct: AnyArray, x: AnyArray) -> Array:
    """Give for each place in the kernel what it adds to the sum of `ct` times the result."""
    kernel = tuple(n - m + 1 for n, m in zip(x.shape, ct.shape, strict=True))

    def forward(ct: NDArray, x: NDArray) -> NDArray:
        result = np.empty(kernel)
        for place in np.ndindex(*kernel):
            seen = x[tuple(slice(k, k + n) for k, n in zip(place, ct.shape, strict=True))]
            result[place] = np.sum(ct * seen, dtype=np.float64)
        return result

    def pullback(
        g: Array, ct: AnyArray, x: AnyArray, wanted: tuple[bool, ...]
    ) -> tuple[Array | None, Array | None]:
        g = _core.asarray(g)
        return (
            _slid(g, x) if wanted[0] else None,
            _slid(_core.flip(g), _edged(ct, kernel)) if wanted[1] else None,
        )

    return host_call("scipy.ndimage.correlate", forward, pullback, ct, x)


def _put(output: AnyArray, result: AnyArray) -> None:
    if is_array(output) or output.dtype.kind in "fc":
        assign("ndimage", output, result)
    else:
        output[...] = to_numpy(result)  # integers carry no gradient


def _floating(x: ArrayLike) -> Array:
    array = asarray(x)
    return _core.asarray(array, array.dtype if array.dtype.kind == "f" else np.float64)


@override("scipy.ndimage._nd_image.correlate", kind=SUBSTITUTE)
def _correlate(
    input: ArrayLike,
    weights: ArrayLike,
    output: AnyArray,
    mode: int,
    cval: Scalar,
    origins: Sequence[int],
) -> None:
    x: AnyArray = _floating(input)
    weights = _core.asarray(weights, np.float64)
    if not x.size:
        return
    for axis, (size, origin) in enumerate(zip(weights.shape, origins, strict=True)):
        before = size // 2 + origin
        x = _continued(x, axis, before, size - 1 - before, mode, cval)
    # SciPy adds up in float64, and rounds to what it writes to.
    _put(output, _slid(weights, _core.asarray(x, np.result_type(x.dtype, output.dtype))))


@override("scipy.ndimage._nd_image.correlate1d", kind=SUBSTITUTE)
def _correlate1d(input: ArrayLike, weights: ArrayLike, axis: int, output: AnyArray, mode: int,
                 cval: Scalar, origin: int) -> None:  # fmt: skip
    x, weights = _floating(input), _core.asarray(weights, np.float64)
    before = weights.shape[0] // 2 + origin
    wide = _continued(x, axis, before, weights.shape[0] - 1 - before, mode, cval)
    rows = np.moveaxis(wide, axis, -1)  # type: ignore[type-var]
    kernel = _core.reshape(weights, (1,) * (x.ndim - 1) + weights.shape)
    _put(output, np.moveaxis(_slid(kernel, rows), -1, axis))  # type: ignore[type-var]


@override("scipy.ndimage._nd_image.uniform_filter1d", kind=SUBSTITUTE)
def _uniform_filter1d(input: ArrayLike, size: int, axis: int, output: AnyArray, mode: int,
                      cval: Scalar, origin: int) -> None:  # fmt: skip
    _correlate1d(input, np.full(size, 1 / size), axis, output, mode, cval, origin)


@override("scipy.ndimage._nd_image.min_or_max_filter1d", kind=SUBSTITUTE)
def _min_or_max_filter1d(input: ArrayLike, size: int, axis: int, output: AnyArray, mode: int,
                         cval: Scalar, origin: int, minimum: int) -> None:  # fmt: skip
    x = _floating(input)
    before = size // 2 + origin
    wide = _continued(x, axis, before, size - 1 - before, mode, cval)
    rows = np.arange(x.shape[axis])[:, None] + np.arange(size)
    windows = np.take(wide, rows, axis)
    _put(output, (_core.min if minimum else _core.max)(windows, axis + 1))


def _neighbours(
    x: AnyArray, footprint: NDArray, mode: int, cval: Scalar, origins: Sequence[int]
) -> Array:
    """Give for each place in a footprint the array as it is seen from there."""
    for axis, (size, origin) in enumerate(zip(footprint.shape, origins, strict=True)):
        before = size // 2 + origin
        x = _continued(x, axis, before, size - 1 - before, mode, cval)
    shape = [n - size + 1 for n, size in zip(x.shape, footprint.shape, strict=True)]
    return _core.stack(
        [
            x[tuple(slice(k, k + n) for k, n in zip(at, shape, strict=True))]
            for at in np.argwhere(footprint).tolist()
        ]
    )


@override("scipy.ndimage._nd_image.min_or_max_filter", kind=SUBSTITUTE)
def _min_or_max_filter(input: ArrayLike, footprint: NDArray, structure: NDArray | None,
                       output: AnyArray, mode: int, cval: Scalar, origins: Sequence[int],
                       minimum: int) -> None:  # fmt: skip
    seen = _neighbours(_floating(input), footprint, mode, cval, origins)
    if structure is not None:
        heights = structure[footprint].reshape(-1, *[1] * (seen.ndim - 1))
        seen = seen - heights if minimum else seen + heights
    _put(output, (_core.min if minimum else _core.max)(seen, 0))


@override("scipy.ndimage._nd_image.rank_filter", kind=SUBSTITUTE)
def _rank_filter(input: ArrayLike, rank: int, footprint: NDArray, output: AnyArray, mode: int,
                 cval: Scalar, origins: Sequence[int]) -> None:  # fmt: skip
    seen = _neighbours(_floating(input), footprint, mode, cval, origins)
    _put(output, np.sort(seen, axis=0)[rank])


@override("scipy.ndimage._rank_filter_1d.rank_filter", kind=SUBSTITUTE)
def _rank_filter_1d(input: ArrayLike, rank: int, size: int, output: AnyArray, mode: int,
                    cval: Scalar, origin: int) -> None:  # fmt: skip
    _rank_filter(input, rank, np.ones(size, bool), output, mode, cval, [origin])


@override("scipy.ndimage._nd_image.generic_filter", kind=SUBSTITUTE)
def _generic_filter(input: ArrayLike, function: Function, footprint: NDArray, output: AnyArray,
                    mode: int, cval: Scalar, origins: Sequence[int], extra_arguments: Args,
                    extra_keywords: Kwargs) -> None:  # fmt: skip
    seen = _neighbours(_floating(input), footprint, mode, cval, origins)
    rows = np.moveaxis(seen, 0, -1).reshape(-1, seen.shape[0])  # type: ignore[type-var]
    found = [function(row, *extra_arguments, **extra_keywords) for row in rows]
    _put(output, np.reshape(_core.stack([_core.asarray(x) for x in found]), seen.shape[1:]))


# --------------------------------------------------------------------------------------------------
# Measurements of regions


def _measures(name: str, measure: Callable[..., AnyArray]) -> None:
    @override(f"scipy.ndimage.{name}")
    def measured(
        input: ArrayLike, labels: ArrayLike | None = None, index: ArrayLike | None = None
    ) -> AnyArray:
        x = asarray(input)
        if labels is None:
            return measure(x)
        x, places = np.broadcast_arrays(x, detached(asarray(labels)))
        if index is None:
            return measure(x[places > 0])
        asked = np.asarray(detached(index))
        inside = [places == label for label in asked.ravel()]
        found = [measure(x[own]) if own.any() else np.zeros((), x.dtype) for own in inside]
        return np.reshape(_core.stack([_core.asarray(m) for m in found]), asked.shape)[()]


_measures("maximum", np.max)
_measures("minimum", np.min)
_measures("median", np.median)


@override("scipy.ndimage.standard_deviation")
def standard_deviation(
    input: ArrayLike, labels: ArrayLike | None = None, index: ArrayLike | None = None
) -> AnyArray:
    # 0 where all elements of a region are equal, as that of np.std.
    return safe_sqrt(rebound_by_name("scipy.ndimage.variance")(input, labels, index))


# --------------------------------------------------------------------------------------------------
# Transformations


@override("scipy.ndimage.generic_gradient_magnitude")
def generic_gradient_magnitude(input: ArrayLike, derivative: Function, output: Any = None,
                               mode: str | Sequence[str] = "reflect", cval: Scalar = 0.0,
                               extra_arguments: Args = (), extra_keywords: Kwargs | None = None, *,
                               axes: Axes = None) -> AnyArray:  # fmt: skip
    x = asarray(input)
    along = range(x.ndim) if axes is None else np.atleast_1d(detached(axes)).tolist()
    modes = [mode] * len(along) if isinstance(mode, str) else mode
    keywords = extra_keywords or {}
    is_kind = isinstance(output, (str, type, np.dtype))
    # In the dtype of the result from the first step on: integers are cut off.
    kind = np.dtype(output) if is_kind else x.dtype if output is None else output.dtype
    parts = [
        derivative(x, axis, kind, m, cval, *extra_arguments, **keywords)
        for axis, m in zip(along, modes, strict=True)
    ]
    # Where nothing changes the magnitude has a kink; the derivative is 0 there.
    result: AnyArray = (
        safe_sqrt(sum(p * p for p in parts)).astype(kind) if parts else x.astype(kind)
    )
    if output is None or is_kind:
        return result
    return assign("generic_gradient_magnitude", output, result)


# Conversion of an active width to a Python number.
@override("scipy.ndimage._filters.float", kind=SUBSTITUTE)
def _float(x: AnyArray | float) -> AnyArray | float:
    return x if is_array(x) else float(x)


# --------------------------------------------------------------------------------------------------
# Coefficients of splines


class _Factorized(Protocol):
    """A factorised sparse matrix, as SciPy has it."""

    def solve(self, rhs: NDArray, trans: str) -> NDArray: ...


@functools.lru_cache(maxsize=32)
def _spline_matrix(n: int, order: int, mode: str) -> _Factorized:
    """Give the matrix from coefficients to samples, factorised: it has a few diagonals only."""
    filter1d = locate("scipy.ndimage.spline_filter1d")
    small = min(n, 24)
    matrix = np.linalg.inv(filter1d(np.eye(small), order, axis=0, mode=mode))
    matrix[np.abs(matrix) < 1e-9] = 0
    if small < n:
        half = small // 2
        inner = matrix[half, half - order : half + order + 1]
        whole = locate("scipy.sparse.diags")(inner, range(-order, order + 1), (n, n)).tolil()
        whole[:half] = 0
        whole[-half:] = 0
        top, bottom = matrix[:half], matrix[-half:]
        # What reaches around the end comes from the other side.
        whole[:half, :half], whole[:half, -half:] = _sides(top, half, order)
        ends = _sides(bottom[::-1, ::-1], half, order)
        whole[-half:, -half:], whole[-half:, :half] = ends[0][::-1, ::-1], ends[1][::-1, ::-1]
        whole[half - 1, half : half + order] = inner[order + 1 : 2 * order + 1]
        for i in range(order):
            row = half - 1 - i
            whole[row, half : row + order + 1] = inner[order + 1 + i :]
            row = n - half + i
            whole[row, row - order : n - half] = inner[: order - i]
        matrix = whole
    splu, csc_matrix = locate("scipy.sparse.linalg.splu"), locate("scipy.sparse.csc_matrix")
    factorized: _Factorized = splu(csc_matrix(matrix))
    return factorized


def _sides(top: NDArray, half: int, order: int) -> tuple[NDArray, NDArray]:
    """Split the first rows of a small matrix into what is near and what wraps around."""
    far = np.zeros((half, half))
    wrapped = top[:, -order:]
    far[: half - order, -order:] = wrapped[: half - order]
    near = top[:, :half].copy()
    return near, far


_SPLINE_MODES = {_NEAREST: "nearest", _WRAP: "wrap", _REFLECT: "reflect", _MIRROR: "mirror",
                 _CONSTANT: "constant", _GRID_WRAP: "grid-wrap",
                 _GRID_CONSTANT: "grid-constant"}  # fmt: skip


@override("scipy.ndimage._nd_image.spline_filter1d", kind=SUBSTITUTE)
def _spline_filter1d(input: ArrayLike, order: int, axis: int, output: AnyArray, mode: int) -> None:
    named = _SPLINE_MODES[mode]
    x = _floating(input)
    n = x.shape[axis]

    def forward(x: NDArray) -> NDArray:
        filter1d = locate("scipy.ndimage.spline_filter1d")
        found: NDArray = filter1d(x, order, axis, x.dtype, named)
        return found

    def adjoint(ct: NDArray) -> NDArray:
        rows = np.moveaxis(ct, axis, 0)
        solved = _spline_matrix(n, order, named).solve(
            np.ascontiguousarray(rows.reshape(n, -1), np.float64), trans="T"
        )
        return np.moveaxis(solved.reshape(rows.shape), 0, axis).astype(ct.dtype)

    _put(output, linear("scipy.ndimage.spline_filter1d", forward, adjoint)(x))


# --------------------------------------------------------------------------------------------------
# Splines at coordinates


def _inside(at: NDArray, n: int, mode: int) -> tuple[NDArray, NDArray]:
    """Give where in the array coordinates fall, and which way they run there; -1 for outside."""
    way = np.ones_like(at)
    low, high = at < 0, at > n - 1
    if mode == _GRID_CONSTANT:
        return at, way
    if mode in {_CONSTANT, _NEAREST} or n <= 1:
        ends = (-1.0, -1.0) if mode == _CONSTANT else (0.0, n - 1.0)
        way[low | high] = 0
        return np.where(low, ends[0], np.where(high, ends[1], at)), way
    if mode in {_WRAP, _GRID_WRAP}:
        period = n - 1 if mode == _WRAP else n
        wrapped = at - period * np.floor(at / period)
        if mode == _WRAP:
            wrapped = np.where(low & (wrapped == 0), period, wrapped)
        return np.where(low | high, wrapped, at), way
    period = 2 * n - 2 if mode == _MIRROR else 2 * n
    folded = at - period * np.floor(at / period)
    top = n - 1 if mode == _MIRROR else n - 0.5
    turned = folded > top
    last = 2 * n - 2 if mode == _MIRROR else 2 * n - 1
    folded, way[(low | high) & turned] = np.where(turned, last - folded, folded), -1
    return np.where(low | high, folded, at), way


def _weights(t: AnyArray, order: int) -> list[AnyArray]:
    """Give the values of the splines that reach a point, from its place between two samples."""
    w = [1.0 + 0 * t]
    for d in range(1, order + 1):
        left = [0, *w]
        right = [*w, 0]
        w = [((t + (d - j)) * left[j] + (1 + j - t) * right[j]) / d for j in range(d + 1)]
    return w


def _taken(coefficients: ArrayLike, at: list[AnyArray], output: AnyArray, order: int, mode: int,
           cval: Scalar, npad: int) -> None:  # fmt: skip
    """Sum the splines near each point; `at` has the coordinates along each axis."""
    x = _floating(coefficients)
    beyond = _MIRROR if mode in {_CONSTANT, _WRAP} else mode
    starts, weights, outside = [], [], np.zeros((), bool)
    for n, c in zip(x.shape, at, strict=True):
        values = np.asarray(to_numpy(c), np.float64) + npad
        mapped, way = _inside(values, n, mode)
        if mode == _CONSTANT:
            outside = outside | (mapped <= -1)
        start = np.floor(mapped if order % 2 else mapped + 0.5)
        moved = _core.asarray(c) * way + (mapped - way * (values - npad))
        t = moved - (start if order % 2 else start - 0.5)
        starts.append(start.astype(np.int64) - order // 2)
        weights.append(_weights(t, order))
    strides = np.cumprod([1, *x.shape[:0:-1]])[::-1]
    flat = _core.reshape(x, -1)
    total: Any = 0.0
    for near in itertools.product(range(order + 1), repeat=x.ndim):
        index, within = 0, np.ones((), bool)
        weight: AnyArray | float = 1.0
        for i, k in enumerate(near):
            n = x.shape[i]
            place = starts[i] + k
            if mode == _GRID_CONSTANT:
                within = within & (place >= 0) & (place < n)
                place = np.clip(place, 0, n - 1)
            else:
                place = _index(place, n, beyond)
            index = index + place * strides[i]
            weight = weight * weights[i][k]
        value = _core.gather(flat, np.asarray(index))
        if mode == _GRID_CONSTANT:
            value = _core.where(within, value, cval)
        total = total + weight * value
    if mode == _CONSTANT:
        total = _core.where(outside, cval, total)
    total = _core.broadcast_to(total, output.shape)
    if output.dtype.kind in "iu":
        # Between the samples of integers SciPy rounds, where its filters cut off.
        values = to_numpy(total)
        total = np.trunc(values + np.copysign(0.5, values))
        if output.dtype.kind == "u":
            total = np.clip(total, 0, np.iinfo(output.dtype).max)
    _put(output, total)


@override("scipy.ndimage._nd_image.geometric_transform", kind=SUBSTITUTE)
def _geometric_transform(filtered: AnyArray, mapping: Function | None, coordinates: AnyArray | None,
                         matrix: Any, offset: Any, output: AnyArray, order: int, mode: int,
                         cval: Scalar, npad: int, extra_arguments: Args,
                         extra_keywords: Kwargs) -> None:  # fmt: skip
    grid = [np.asarray(g, np.float64) for g in np.indices(output.shape)]
    if mapping is not None:
        points = np.ndindex(*output.shape)
        found = [mapping(p, *extra_arguments, **extra_keywords) for p in points]
        shape = (*output.shape, filtered.ndim)
        at = list(np.moveaxis(_core.array([list(f) for f in found]).reshape(shape), -1, 0))  # type: ignore[type-var]
    elif coordinates is not None:
        at = [coordinates[i] for i in range(filtered.ndim)]
    else:
        at = [
            sum((matrix[i, j] * g for j, g in enumerate(grid)), offset[i])
            for i in range(filtered.ndim)
        ]
    _taken(filtered, at, output, order, mode, cval, npad)


@override("scipy.ndimage._nd_image.zoom_shift", kind=SUBSTITUTE)
def _zoom_shift(
    filtered: AnyArray, zoom: AnyArray | None, shift: AnyArray | None, output: AnyArray, order: int,
    mode: int, cval: Scalar, npad: int, grid_mode: bool,
) -> None:  # fmt: skip
    at = []
    for i, n in enumerate(output.shape):
        c: Any = np.arange(n, dtype=np.float64)
        if shift is not None:
            c = c + shift[i]
        if zoom is not None:
            c = (c + 0.5) * zoom[i] - 0.5 if grid_mode else c * zoom[i]
        at.append(c.reshape([-1 if j == i else 1 for j in range(output.ndim)]))
    _taken(filtered, at, output, order, mode, cval, npad)


override(
    *named(
        "scipy.ndimage",
        """
        affine_transform center_of_mass convolve convolve1d correlate correlate1d
        gaussian_filter gaussian_filter1d gaussian_gradient_magnitude gaussian_laplace
        generic_laplace labeled_comprehension laplace map_coordinates maximum_filter1d
        minimum_filter1d prewitt rotate shift sobel spline_filter spline_filter1d
        uniform_filter uniform_filter1d zoom maximum_filter minimum_filter median_filter
        rank_filter percentile_filter grey_closing grey_dilation
        grey_erosion grey_opening morphological_gradient morphological_laplace
        white_tophat black_tophat
    """,
    )
)(REBOUND)
for _name, _parameter in (("generic_filter", "function"), ("geometric_transform", "mapping")):
    _target = f"scipy.ndimage.{_name}"
    probes_callback(_target, _parameter)(REBOUND.make(_target))

# Which elements differ from zero, and where the largest one is.
override(
    *(
        f"scipy.ndimage.{name}"
        for name in (
            *("binary_closing", "binary_dilation", "binary_erosion", "binary_fill_holes"),
            *("binary_hit_or_miss", "binary_opening", "binary_propagation"),
            *(
                "distance_transform_cdt",
                "find_objects",
                "label",
                "maximum_position",
                "minimum_position",
                "watershed_ift",
            ),
        )
    )
)(ON_VALUES)
override("scipy.ndimage.generic_filter1d")(
    refused(
        "use scipy.ndimage.generic_filter, or a function of "
        "np.lib.stride_tricks.sliding_window_view"
    )
)


# What these multiply a spectrum by along one axis, at so many turns for each element of an image.
_RESPONSES: dict[str, Callable[[AnyArray, NDArray], AnyArray]] = {
    "fourier_gaussian": lambda width, turns: np.exp(-2 * (np.pi * width * turns) ** 2),
    "fourier_shift": lambda width, turns: np.exp(-2j * np.pi * width * turns),
    "fourier_uniform": lambda width, turns: np.where(width > 0, np.sinc(width * turns), turns == 0),
}


def _response(name: str, shape: Shape, width: ArrayLike, n: int, axis: int) -> AnyArray | float:
    """Give the factor by which a filter of active width multiplies a spectrum."""
    if name not in _RESPONSES:
        raise refuse(f"scipy.ndimage.{name} with respect to its second argument")
    widths, (real,) = np.broadcast_to(asarray(width), len(shape)), axes_of(axis, len(shape))
    factors: AnyArray | float = 1.0
    for k, length in enumerate(shape):
        turns = np.arange(length) / n if k == real and n >= 0 else np.fft.fftfreq(length)
        turns = turns.reshape([-1 if i == k else 1 for i in range(len(shape))])
        factors = factors * _RESPONSES[name](widths[k], turns)
    return factors


def _multiplies(name: str) -> None:
    """Enter a filter that multiplies a spectrum by what it makes of ones."""

    @override(f"scipy.ndimage.{name}")
    def filtered(
        input: ArrayLike,
        width: ArrayLike,
        n: int = -1,
        axis: int = -1,
        output: AnyArray | DTypeLike | None = None,
    ) -> AnyArray:
        function, x = locate(f"scipy.ndimage.{name}"), asarray(input)
        if contains_active(width):
            factors = _response(name, x.shape, width, n, axis)
        else:
            factors = function(np.ones(x.shape, np.complex128), detached(width), n, axis)
        like = np.ones(x.shape, x.dtype)
        wanted = function(like, 1.0, n, axis, None if is_array(output) else output).dtype
        result = x * (factors if wanted.kind == "c" else factors.real)
        if is_array(output):
            return assign(name, output, result)
        return _core.asarray(result, wanted)


for _name in ("fourier_ellipsoid", "fourier_gaussian", "fourier_shift", "fourier_uniform"):
    _multiplies(_name)
