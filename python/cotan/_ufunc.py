"""NumPy's ufuncs on `Array`s: their keywords, `reduce`, `accumulate`, `outer`, `reduceat` and `at`.

What is a primitive and has no keyword is recorded in Rust without coming here.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._numpy_core import assigned, axes_of, check_cast, is_followed, plain, refuse
from cotan._numpy_special import COMPOSITES

_PRIMITIVES: dict[str, Callable[..., Any]] = {
    ufunc: getattr(_core, name) for ufunc, name in _core.ufuncs().items() if hasattr(_core, name)
}


def rule(ufunc: Any) -> Callable[..., Any] | None:
    """Give what computes a ufunc on arrays, if anything does."""
    name = ufunc.__name__
    return _PRIMITIVES.get(name) or COMPOSITES.get(name)


def _needed(ufunc: Any) -> Callable[..., Any]:
    compute = rule(ufunc)
    if compute is None:
        raise refuse(_name(ufunc))
    return compute


def _name(ufunc: Any) -> str:
    name = str(ufunc.__name__)
    return f"numpy.{name}" if getattr(np, name, None) is ufunc else name


def _known(operand: Any) -> bool:
    if isinstance(operand, _core.Array):
        return True
    if isinstance(operand, np.ma.MaskedArray):
        raise TypeError("a masked array would lose its mask; use np.where with the mask instead")
    own = getattr(type(operand), "__array_ufunc__", np.ndarray.__array_ufunc__)
    return own is np.ndarray.__array_ufunc__


def array_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute `ufunc.method(*inputs, **kwargs)` where an `Array` takes part."""
    out = kwargs.get("out") or ()
    if not all(map(_known, (*inputs, *out))):
        return NotImplemented
    compute = rule(ufunc)
    if compute is None:
        return _on_values(ufunc, method, inputs, kwargs)
    options = {k: v for k, v in kwargs.items() if k != "out"}
    if method == "__call__":
        result = called(ufunc, compute, inputs, out, **options)
    else:
        result = _METHODS[method](ufunc, *inputs, **options)
    return _into(ufunc, out, result, kwargs.get("casting", "same_kind"))


def _on_values(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a ufunc without a rule on plain values, which is right while none of them is followed."""
    if any(map(is_followed, inputs)):
        raise refuse(_name(ufunc))
    out = kwargs.get("out") or ()
    options = {k: plain(v) for k, v in kwargs.items() if k != "out"}
    if method == "at":
        target, *others = inputs
        values = np.array(plain(target))
        getattr(ufunc, method)(values, *map(plain, others), **options)
        assigned(ufunc.__name__, target, values)
        return None
    return _into(ufunc, out, getattr(ufunc, method)(*map(plain, inputs), **options), "same_kind")


# --------------------------------------------------------------------------------------------------
# Calls, and their keywords


def called(
    ufunc: Any,
    compute: Callable[..., Any],
    inputs: Sequence[Any],
    out: Sequence[Any] = (),
    where: Any = True,
    dtype: Any = None,
    signature: Any = None,
    casting: str = "same_kind",
    **options: Any,
) -> Any:
    """Compute a ufunc with the keywords that NumPy's have."""
    for ignored in ("order", "subok"):
        options.pop(ignored, None)
    signature = options.pop("sig", signature)
    if ufunc.signature is not None:
        return _along_axes(ufunc, compute, inputs, dtype, **options)
    if options:
        names = ", ".join(map(repr, sorted(options)))
        raise TypeError(f"{ufunc.__name__}() got an unexpected keyword argument {names}")
    if dtype is None and signature is None:
        result = compute(*inputs)
    else:
        result = _in_dtypes(ufunc, compute, inputs, dtype, signature, casting)
    if where is True or where is np._NoValue:
        return result
    # Where nothing is computed NumPy leaves the memory of out=, or zeros for want of any.
    results = result if isinstance(result, tuple) else (result,)
    kept = [*out, *[None] * (len(results) - len(out))]
    masked = tuple(
        _core.where(where, r, np.zeros((), r.dtype) if o is None else o)
        for r, o in zip(results, kept, strict=True)
    )
    return masked if isinstance(result, tuple) else masked[0]


def _in_dtypes(
    ufunc: Any,
    compute: Callable[..., Any],
    inputs: Sequence[Any],
    dtype: Any,
    signature: Any,
    casting: str,
) -> Any:
    """Compute in the dtypes of the loop that NumPy would choose."""
    if signature is None:
        loop = dtype if isinstance(dtype, type(np.dtype)) else np.dtype(dtype)
        signature = (None,) * ufunc.nin + (loop,) * ufunc.nout
    given = [type(x) if type(x) in {int, float, complex} else np.result_type(x) for x in inputs]
    dtypes = ufunc.resolve_dtypes(
        (*given, *[None] * ufunc.nout), signature=signature, casting=casting
    )
    result = compute(*(_core.cast(x, d) for x, d in zip(inputs, dtypes, strict=False)))
    wanted = dtypes[ufunc.nin :]
    if isinstance(result, tuple):
        return tuple(_core.asarray(r, d) for r, d in zip(result, wanted, strict=True))
    return _core.asarray(result, wanted[0])


def _along_axes(
    ufunc: Any,
    compute: Callable[..., Any],
    inputs: Sequence[Any],
    dtype: Any = None,
    axis: Any = None,
    axes: Any = None,
    keepdims: bool = False,
) -> Any:
    """Compute a product of vectors or matrices along other axes than the last."""
    arrays = [_core.asarray(x, dtype) for x in inputs]
    if axes is None:
        axes = [(-1 if axis is None else axis,)] * ufunc.nin
        moves = axis is not None
    else:
        axes = [a if isinstance(a, tuple) else (a,) for a in axes]
        moves = True
    if moves:
        pairs = zip(arrays, axes, strict=False)
        arrays = [np.moveaxis(x, a, range(-len(a), 0)) for x, a in pairs]  # type: ignore[type-var]
    result = compute(*arrays)
    if len(axes) > ufunc.nin and axes[-1]:
        result = np.moveaxis(result, range(-len(axes[-1]), 0), axes[-1])
    return np.expand_dims(result, axes[0]) if keepdims else result


def _moved(x: Any, source: int, destination: int) -> Any:
    return np.moveaxis(x, source, destination)


def _into(ufunc: Any, out: Sequence[Any], result: Any, casting: str) -> Any:
    """Write results to where `out=` wants them."""
    if all(o is None for o in out):
        return result
    results = result if isinstance(result, tuple) else (result,)
    name = ufunc.__name__
    written = []
    for target, value in zip(out, results, strict=True):
        if target is None:
            written.append(value)
            continue
        new = _core.asarray(value)
        check_cast(name, new.dtype, target.dtype, casting)
        if np.broadcast_shapes(new.shape, target.shape) != target.shape:
            raise ValueError(
                f"{name}: non-broadcastable output operand with shape {target.shape} doesn't "
                f"match the broadcast shape {new.shape}"
            )
        written.append(assigned(name, target, new))
    return tuple(written) if isinstance(result, tuple) else written[0]


# --------------------------------------------------------------------------------------------------
# Reductions

_REDUCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "add": (_core.sum, 0),
    "multiply": (_core.prod, 1),
    "maximum": (_core.max, None),
    "minimum": (_core.min, None),
    "logaddexp": (_core.logsumexp, -math.inf),
}
_ASSOCIATIVE = {
    *_REDUCTIONS,
    *("bitwise_and", "bitwise_or", "bitwise_xor", "fmax", "fmin", "gcd", "hypot", "lcm"),
    *("logaddexp2", "logical_and", "logical_or", "logical_xor"),
}


def reduced(
    ufunc: Any, a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    """Fold a binary ufunc over axes."""
    name = ufunc.__name__
    x = _core.asarray(a, dtype)
    if name in {"logical_and", "logical_or"} and x.dtype != np.bool_:
        x = _core.ne(x, 0)
    axes = axes_of(axis, x.ndim)
    fold, neutral = _fold(ufunc, x)
    given = initial is not np._NoValue and initial is not None
    start = initial if given else neutral
    empty = any(x.shape[i] == 0 for i in axes)
    if start is None and where is not True:
        raise ValueError(
            f"reduction operation '{name}' does not have an identity, so to use a where mask "
            "one has to specify 'initial'"
        )
    if start is None and empty:
        raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
    if where is not True:
        x = _core.where(where, x, np.asarray(start, x.dtype) if neutral is None else neutral)
    if name in {"add", "multiply"} and dtype is None and x.dtype.kind in "biu":
        x = _core.cast(x, np.int64)
    if empty:
        kept = [1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes]
        result = _core.broadcast_to(_core.asarray(start, x.dtype), kept)
        return result if kept else result[()]
    result = fold(x, axes, keepdims)
    if not given or (type(initial) is int and initial == neutral):
        return result
    return _needed(ufunc)(result, _core.asarray(initial, result.dtype))


def _fold(ufunc: Any, x: Any) -> tuple[Callable[..., Any], Any]:
    """Give what folds a ufunc over axes, and its neutral element."""
    name = ufunc.__name__
    if name == "logical_and":
        return _core.min, np.True_
    if name == "logical_or":
        return _core.max, np.False_
    if name in {"maximum", "minimum"} and x.dtype.kind == "c":
        return _pairwise(ufunc), None
    return _REDUCTIONS.get(name) or (_pairwise(ufunc), ufunc.identity)


def _binary(ufunc: Any, method: str) -> Callable[..., Any]:
    if ufunc.nin != 2 or ufunc.nout != 1 or ufunc.signature is not None:
        raise ValueError(f"{ufunc.__name__}.{method}: only supported for binary functions")
    return _needed(ufunc)


def _part(x: Any, at: int, part: Any) -> Any:
    return x[(slice(None),) * at + (part,)]


def _pairwise(ufunc: Any) -> Callable[..., Any]:
    """Fold a ufunc that has no reduction of its own: halves with halves, or one after the other."""
    compute, name = _binary(ufunc, "reduce"), ufunc.__name__

    def along(x: Any, at: int) -> Any:
        n = x.shape[at]
        if name not in _ASSOCIATIVE:
            result = _part(x, at, 0)
            for i in range(1, n):
                result = compute(result, _part(x, at, i))
            return result
        while n > 1:
            half = n // 2
            pairs = compute(_part(x, at, slice(half)), _part(x, at, slice(half, 2 * half)))
            rest = _part(x, at, slice(2 * half, n))
            x = pairs if n == 2 * half else _core.concatenate([pairs, rest], at)
            n = x.shape[at]
        return _part(x, at, 0)

    def fold(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        if len(axes) > 1 and name not in _ASSOCIATIVE:
            raise ValueError(
                f"reduction operation '{name}' is not reorderable, so at most one axis may be "
                "specified"
            )
        shape = x.shape
        for at in sorted(axes, reverse=True):
            x = along(x, at)
        kept = [1 if i in axes else n for i, n in enumerate(shape)]
        return _core.reshape(x, kept) if keepdims else x

    return fold


def reduce(
    ufunc: Any,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = np._NoValue,
    where: Any = True,
) -> Any:
    """Fold a binary ufunc over axes, by default the first."""
    x = _core.asarray(array)
    if x.ndim == 0 and axis in {0, -1}:
        axis = ()
    return reduced(ufunc, x, axis, dtype, keepdims, initial, where)


# --------------------------------------------------------------------------------------------------
# Running folds, all pairs, parts, in place


def scanned(ufunc: Any, a: Any, axis: Any, dtype: Any = None) -> Any:
    """Fold a binary ufunc along an axis and keep every step."""
    x = _core.asarray(a, dtype)
    name = ufunc.__name__
    if name in {"add", "multiply"} and dtype is None and x.dtype.kind in "biu":
        x = _core.cast(x, np.int64)
    if name.startswith("logical_") and x.dtype != np.bool_:
        x = _core.ne(x, 0)
    (at,) = axes_of(axis, x.ndim)
    if name == "add":
        return _core.cumsum(x, at)
    compute, n = _binary(ufunc, "accumulate"), x.shape[at]
    if name in _ASSOCIATIVE:
        # By doubling: log2(n) steps, each of the whole array.
        shift = 1
        while shift < n:
            later = compute(_part(x, at, slice(n - shift)), _part(x, at, slice(shift, None)))
            x = _core.concatenate([_part(x, at, slice(shift)), later], at)
            shift *= 2
        return x
    steps = [_part(x, at, slice(0, 1))]
    for i in range(1, n):
        steps.append(compute(steps[-1], _part(x, at, slice(i, i + 1))))
    return _core.concatenate(steps, at) if n else x


def accumulate(ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """Fold a binary ufunc along an axis, by default the first, and keep every step."""
    return scanned(ufunc, array, axis, dtype)


def outer(ufunc: Any, x: Any, y: Any, **options: Any) -> Any:
    """Apply a binary ufunc to all pairs of elements."""
    x, y = _core.asarray(x), _core.asarray(y)
    return called(ufunc, _needed(ufunc), (_core.reshape(x, x.shape + (1,) * y.ndim), y), **options)


def reduceat(ufunc: Any, array: Any, indices: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """Fold a binary ufunc over parts of an axis, each from its index to the next one."""
    x = _core.asarray(array)
    (at,) = axes_of(axis, x.ndim)
    n = x.shape[at]
    starts = np.asarray(plain(indices))
    for start in starts:
        if not 0 <= start < n:
            raise IndexError(f"index {start} out-of-bounds in {ufunc.__name__}.reduceat [0, {n})")
    ends = np.maximum([*starts[1:], n], starts + 1)
    if ufunc.__name__ == "add":
        # One gather of all parts, one sum by part.
        lengths = ends - starts
        part = np.repeat(np.arange(len(starts)), lengths)
        rows = np.concatenate([np.arange(s, e) for s, e in zip(starts, ends, strict=True)])
        moved = _moved(x, at, 0)
        taken = moved[rows] if dtype is None else moved[rows].astype(dtype)
        if taken.dtype.kind in "biu" and dtype is None:
            taken = taken.astype(np.int64)
        zeros = np.zeros((len(starts), *taken.shape[1:]), taken.dtype)
        return _moved(_core.scatter_add(zeros, part, taken), 0, at)
    parts = [
        reduced(ufunc, _part(x, at, slice(int(s), int(e))), at, dtype, True, np._NoValue, True)
        for s, e in zip(starts, ends, strict=True)
    ]
    return _core.concatenate(parts, at)


def at(ufunc: Any, x: Any, key: Any, *values: Any) -> None:
    """Apply a ufunc in place at indices, as often as each occurs."""
    name = f"{ufunc.__name__}.at"
    if not isinstance(x, _core.Array):
        if any(map(is_followed, values)):
            assigned(name, x, values[0])
        ufunc.at(x, *map(plain, (key, *values)))
        return
    compute = _needed(ufunc)
    operands = [_core.asarray(v) for v in values]
    check_cast(name, compute(*(np.zeros((), o.dtype) for o in (x, *operands))).dtype, x.dtype)
    if ufunc.__name__ in {"add", "subtract"}:
        (value,) = values
        x._assign(_core.index_add(x, key, value if ufunc.__name__ == "add" else _core.neg(value)))
        return
    key = tuple(map(plain, key)) if isinstance(key, tuple) else plain(key)
    positions = np.arange(x.size).reshape(x.shape)[key]
    operands = [_core.reshape(_core.broadcast_to(v, positions.shape), -1) for v in operands]
    flat = x.flatten()
    for turn in _turns(positions.reshape(-1)):
        where = positions.reshape(-1)[turn]
        flat[where] = compute(flat[where], *(v[turn] for v in operands))
    x._assign(flat.reshape(x.shape))


def _turns(positions: Any) -> list[Any]:
    """Split positions into turns, none of which has one twice, in their order."""
    order = np.argsort(positions, kind="stable")
    ranked = positions[order]
    first = np.r_[True, ranked[1:] != ranked[:-1]][: ranked.size]
    begins = np.maximum.accumulate(np.where(first, np.arange(ranked.size), 0))
    turn = np.empty(ranked.size, int)
    turn[order] = np.arange(ranked.size) - begins
    return [np.flatnonzero(turn == t) for t in range(turn.max(initial=-1) + 1)]


_METHODS: dict[str, Callable[..., Any]] = {
    "reduce": reduce,
    "accumulate": accumulate,
    "outer": outer,
    "reduceat": reduceat,
    "at": at,
}
