"""`reduce`, `accumulate` and `reduceat` of NumPy's ufuncs: folds of a binary ufunc."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.numpy.ufunc_rules import needed
from cotan._src.runtime.ufunc_dtypes import as_dtype, finished, fold_dtypes
from cotan._src.runtime.values import axes_of, is_number, is_only_axis, to_numpy
from cotan._src.typing import AnyArray, ArrayLike, Axes, Axis, Dtype, DTypeLike, Function

_REDUCTIONS: dict[str, Callable[..., Array]] = {
    "add": _core.sum,
    "multiply": _core.prod,
    "maximum": _core.max,
    "minimum": _core.min,
    "logical_and": _core.min,
    "logical_or": _core.max,
    "logaddexp": _core.logsumexp,
}


def _running_products(x: Array, at: int) -> Array:
    """Multiply one after the other, as a tree of products might overflow where these do not."""
    n = x.shape[at]
    if n == 0:
        return x
    # A product plus -0.0 is that product, whatever the sign of its zero.
    zero = np.zeros((), x.dtype)
    none = _core.asarray(-zero if x.dtype.kind in "fc" else zero)
    first, rest = _part(x, at, slice(0, 1)), _part(x, at, slice(1, None))
    factors = _core.concatenate([_core.broadcast_to(none, first.shape), rest], at)
    terms = _core.concatenate([first, _core.broadcast_to(none, rest.shape)], at)
    return _core.linear_recurrence(factors, terms, at)


_SCANS: dict[str, Callable[..., Array]] = {
    "add": _core.cumsum,
    "multiply": _running_products,
    "maximum": _core.cummax,
    "minimum": _core.cummin,
}
_IDEMPOTENT = {"maximum", "minimum", "fmax", "fmin"}
ASSOCIATIVE = {
    *_REDUCTIONS,
    *_IDEMPOTENT,
    *("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "hypot", "lcm", "logaddexp2"),
    "logical_xor",
}


def _binary(ufunc: np.ufunc, method: str) -> Function:
    if ufunc.nin != 2 or ufunc.nout != 1 or ufunc.signature is not None:
        raise ValueError(f"{ufunc.__name__}.{method}: only supported for binary functions")
    return needed(ufunc)


def _part(x: AnyArray, at: int, part: int | slice) -> Any:
    return x[(slice(None),) * at + (part,)]


def _elements(
    ufunc: np.ufunc, method: str, x: Array, dtype: DTypeLike | None, out: AnyArray | None
) -> tuple[Array, Dtype]:
    """Give the elements as a fold takes them, and the dtype of its result."""
    source, target = fold_dtypes(ufunc, x, dtype, out)
    if ufunc.__name__.startswith("logical_"):
        return (x if x.dtype == np.bool_ else _core.ne(x, 0)), target
    if source != target and method != "reduce":
        raise TypeError(
            f"{ufunc.__name__}.{method}: elements of dtype {source} cannot be folded into a result "
            f"of dtype {target}"
        )
    return as_dtype(as_dtype(x, source), target), target


def _step(ufunc: np.ufunc, method: str, dtype: Dtype) -> Callable[[Array, Array], Array]:
    """Give one step of a fold, with a result of the fold's dtype."""
    compute = _binary(ufunc, method)
    return lambda x, y: as_dtype(compute(x, y), dtype)


# --------------------------------------------------------------------------------------------------
# Reductions


def reduced(
    ufunc: np.ufunc,
    a: ArrayLike,
    axis: Axes,
    dtype: DTypeLike | None,
    keepdims: bool,
    initial: Any,
    where: ArrayLike | bool,
    out: AnyArray | None = None,
) -> AnyArray:
    """Fold a binary ufunc over axes."""
    _binary(ufunc, "reduce")
    name = ufunc.__name__
    x, target = _elements(ufunc, "reduce", _core.asarray(a), dtype, out)
    # A single number passes for an array of one axis.
    axes = () if x.ndim == 0 and is_only_axis(axis) else axes_of(axis, x.ndim)
    if len(axes) > 1 and name not in ASSOCIATIVE:
        raise ValueError(
            f"reduction operation '{name}' is not reorderable, so at most one axis may be specified"
        )
    neutral = None if initial is None else ufunc.identity
    given = initial is not np._NoValue and initial is not None
    start: Any
    if given:
        start = _core.asarray(initial)
        if is_number(initial) and start.dtype.kind == "c" and target.kind != "c":
            raise TypeError(
                f"{name}: initial is a complex number, which does not fit into the result, of "
                f"dtype {target}; convert the elements with astype(complex)"
            )
        start = as_dtype(start, target)
    elif neutral is not None:
        start = _core.asarray(neutral, target)
    else:
        start = None
    empty = any(x.shape[i] == 0 for i in axes)
    # Of one element alone these give the size.
    sized = neutral is not None and name in {"gcd", "hypot"} and all(x.shape[i] == 1 for i in axes)
    if start is None and where is not True:
        raise ValueError(
            f"reduction operation '{name}' does not have an identity, so to use a where mask "
            "one has to specify 'initial'"
        )
    if start is None and empty:
        raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
    kept = [1 if i in axes else n for i, n in enumerate(x.shape)]
    if empty:
        result = _core.broadcast_to(start, kept)
    elif not axes:
        result = _step(ufunc, "reduce", target)(start, x) if given or sized else x.copy()
        result = result if where is True else _core.where(where, result, start)
    elif name in ASSOCIATIVE:
        if where is not True:
            filling = start if neutral is None or name in _IDEMPOTENT else neutral
            x = _core.where(where, x, as_dtype(filling, x.dtype))
        result = _in_any_order(ufunc, x, axes, target)
        # A neutral element adds nothing, whoever gave it.
        if sized or (given and not (type(initial) in {int, float} and initial == neutral)):
            result = _step(ufunc, "reduce", target)(start, result)
    else:
        result = _in_turn(ufunc, x, axes[0], start, where, target)
    shape = kept if keepdims else [n for i, n in enumerate(x.shape) if i not in axes]
    return finished(_core.reshape(result, shape), target)


def _in_any_order(ufunc: np.ufunc, x: Array, axes: tuple[int, ...], dtype: Dtype) -> Array:
    """Fold an associative ufunc: by the reduction that it is, else halves with halves."""
    name = ufunc.__name__
    if name in _REDUCTIONS and not (x.dtype.kind == "c" and name not in {"add", "multiply"}):
        return as_dtype(_REDUCTIONS[name](x, axes), dtype)
    step = _step(ufunc, "reduce", dtype)
    for at in sorted(axes, reverse=True):
        n = x.shape[at]
        while n > 1:
            half = n // 2
            pairs = step(_part(x, at, slice(half)), _part(x, at, slice(half, 2 * half)))
            rest = _part(x, at, slice(2 * half, n))
            x = pairs if n == 2 * half else _core.concatenate([pairs, rest], at)
            n = x.shape[at]
        x = _part(x, at, 0)
    return x


def _in_turn(
    ufunc: np.ufunc, x: Array, at: int, start: Array | None, where: ArrayLike | bool, dtype: Dtype
) -> Array:
    """Fold a ufunc along an axis, one element after the other."""
    step = _step(ufunc, "reduce", dtype)
    first = 0 if start is not None else 1
    result = _part(x, at, 0) if start is None else start
    mask = None if where is True else np.broadcast_to(to_numpy(where), x.shape)
    for i in range(first, x.shape[at]):
        new = step(result, _part(x, at, i))
        result = new if mask is None else _core.where(_part(mask, at, i), new, result)
    return result


def reduce(
    ufunc: np.ufunc,
    array: ArrayLike,
    axis: Axes = 0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = np._NoValue,
    where: ArrayLike | bool = True,
    out: AnyArray | None = None,
) -> AnyArray:
    """Fold a binary ufunc over axes, by default the first."""
    return reduced(ufunc, array, axis, dtype, keepdims, initial, where, out)


# --------------------------------------------------------------------------------------------------
# Running folds, parts


def scanned(
    ufunc: np.ufunc,
    a: ArrayLike,
    axis: Axis,
    dtype: DTypeLike | None = None,
    out: AnyArray | None = None,
) -> Array:
    """Fold a binary ufunc along an axis and keep every step."""
    _binary(ufunc, "accumulate")
    x, target = _elements(ufunc, "accumulate", _core.asarray(a), dtype, out)
    (at,) = axes_of(axis, x.ndim)
    n = x.shape[at]
    if ufunc.__name__ in _SCANS:
        return as_dtype(_SCANS[ufunc.__name__](x, at), target)
    step = _step(ufunc, "accumulate", target)
    if ufunc.__name__ in ASSOCIATIVE:
        # By doubling: log2(n) steps, each of the whole array.
        shift = 1
        while shift < n:
            later = step(_part(x, at, slice(n - shift)), _part(x, at, slice(shift, None)))
            x = _core.concatenate([_part(x, at, slice(shift)), later], at)
            shift *= 2
        return as_dtype(x, target)
    steps = [_part(x, at, slice(0, 1))]
    for i in range(1, n):
        steps.append(step(steps[-1], _part(x, at, slice(i, i + 1))))
    return as_dtype(_core.concatenate(steps, at) if n else x, target)


def accumulate(
    ufunc: np.ufunc,
    array: ArrayLike,
    axis: Axis = 0,
    dtype: DTypeLike | None = None,
    out: AnyArray | None = None,
) -> Array:
    """Fold a binary ufunc along an axis, by default the first, and keep every step."""
    return scanned(ufunc, array, axis, dtype, out)


def reduceat(
    ufunc: np.ufunc,
    array: ArrayLike,
    indices: ArrayLike,
    axis: Axis = 0,
    dtype: DTypeLike | None = None,
    out: AnyArray | None = None,
) -> AnyArray:
    """Fold a binary ufunc over parts of an axis, each from its index to the next one."""
    _binary(ufunc, "reduceat")
    x, target = _elements(ufunc, "reduceat", _core.asarray(array), dtype, out)
    (at,) = axes_of(axis, x.ndim)
    n = x.shape[at]
    starts = np.asarray(to_numpy(indices))
    starts = starts if starts.size else starts.astype(np.intp)
    for start in starts[(starts < 0) | (starts >= n)]:
        raise IndexError(f"index {start} out-of-bounds in {ufunc.__name__}.reduceat [0, {n})")
    if not starts.size:
        return np.zeros((*x.shape[:at], 0, *x.shape[at + 1 :]), target)
    ends = np.maximum([*starts[1:], n], starts + 1)
    if ufunc.__name__ == "add" and target != np.bool_:
        # One gather of all parts, one sum by part.
        lengths = ends - starts
        part = np.repeat(np.arange(len(starts)), lengths)
        lines: Any = np.moveaxis(x, at, 0)  # type: ignore[type-var]
        if np.all(starts[1:] > starts[:-1]):
            taken = lines[starts[0] :]
        else:
            before = np.cumsum(lengths) - lengths
            taken = lines[np.arange(len(part)) + np.repeat(starts - before, lengths)]
        zeros = np.zeros((len(starts), *taken.shape[1:]), taken.dtype)
        summed: Any = _core.scatter_add(zeros, part, taken)
        # Row after row, as NumPy's, and no view of another array.
        result: AnyArray = np.moveaxis(summed, 0, at).copy()
        return result
    parts = [
        reduced(ufunc, _part(x, at, slice(int(s), int(e))), at, dtype, True, np._NoValue, True, out)
        for s, e in zip(starts, ends, strict=True)
    ]
    return _core.concatenate(parts, at)
