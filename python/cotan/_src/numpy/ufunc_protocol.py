"""`__array_ufunc__` of `Array`: calls of NumPy's ufuncs with keywords, and their methods.

Calls of primitives without keywords are recorded in Rust and do not get here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.interpose.inplace_rebinding import takes_name
from cotan._src.interpose.users_rules import rule_of_ufunc
from cotan._src.numpy.frompyfunc import is_of_python, of_python
from cotan._src.numpy.ufunc_reduce import ASSOCIATIVE, accumulate, reduce, reduceat
from cotan._src.numpy.ufunc_rules import needed, rule
from cotan._src.runtime.constant_fallback import holds_foreign, kinds_of
from cotan._src.runtime.ndarray_subclasses import is_plain, ufunc_of_others
from cotan._src.runtime.ufunc_dtypes import Signature, as_dtype, computed, loop, name_of_ufunc
from cotan._src.runtime.values import (
    are_objects,
    assign,
    call_on_objects,
    check_cast,
    is_active,
    refuse,
    to_numpy,
)
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Axis,
    Casting,
    DTypeLike,
    Function,
    Kwargs,
    NDArray,
)

# The dtypes of a loop: a text, or one for each operand.


def _known(operand: object) -> bool:
    if isinstance(operand, _core.Array):
        return True
    if isinstance(operand, np.ndarray):
        cls: Any = type(operand)
        return is_plain(cls)
    protocol = getattr(type(operand), "__array_ufunc__", np.ndarray.__array_ufunc__)
    return protocol is np.ndarray.__array_ufunc__


def array_ufunc(ufunc: np.ufunc, method: str, inputs: Args, kwargs: Kwargs) -> Any:
    """Compute `ufunc.method(*inputs, **kwargs)` where an `Array` takes part."""
    out = kwargs.get("out") or ()
    if not all(map(_known, (*inputs, *out))):
        return ufunc_of_others(ufunc, method, inputs, kwargs)
    if are_objects(*inputs):
        return call_on_objects(ufunc.__name__, getattr(ufunc, method), *inputs, **kwargs)
    of_user = rule_of_ufunc(ufunc) if method == "__call__" else None
    if of_user is not None:
        result = of_user(*inputs, **{k: v for k, v in kwargs.items() if k != "out"})
        return _into(ufunc, out, result, kwargs.get("casting", "same_kind"), inputs)
    compute = rule(ufunc)
    if compute is None:
        return _on_values(ufunc, method, inputs, kwargs)
    try:
        return _by_rule(ufunc, method, compute, inputs, kwargs)
    except TypeError as refused:
        # Constants beside times, objects and text are NumPy's.
        if kinds_of((inputs, kwargs)) is None or not holds_foreign(inputs, kwargs):
            raise
        try:
            result = _on_values(ufunc, method, inputs, kwargs)
        except TypeError:
            raise refused from None
        _core.granted(str(refused))
        return result


def _by_rule(ufunc: np.ufunc, method: str, compute: Function, inputs: Args, kwargs: Kwargs) -> Any:
    """Compute a ufunc, or a method of it, by its rule."""
    out = kwargs.get("out") or ()
    options = {k: v for k, v in kwargs.items() if k != "out"}
    if method == "__call__":
        result = called(ufunc, compute, inputs, out, **options)
    elif method in _FOLDS:
        # The dtype of what is written to counts.
        options["out"] = out[0] if out else None
        result = _FOLDS[method](ufunc, *inputs, **options)
    else:
        result = _METHODS[method](ufunc, *inputs, **options)
    # What folds takes `out=` into account when it chooses its dtype, and writes what fits in there.
    # Differences and quotients begin with what fits of the first element, which is not done here.
    folds = method in _FOLDS and ufunc.__name__ in ASSOCIATIVE
    casting: Casting = "unsafe" if folds else kwargs.get("casting", "same_kind")
    return _into(ufunc, out, result, casting, inputs, exact=method in _FOLDS)


def _on_values(ufunc: np.ufunc, method: str, inputs: Args, kwargs: Kwargs) -> Any:
    """Run a ufunc without a rule on plain values, which is right while none of them is active."""
    if any(map(is_active, inputs)):
        found = of_python(ufunc, method, inputs, kwargs) if is_of_python(ufunc) else NotImplemented
        if found is not NotImplemented:
            return found
        raise refuse(name_of_ufunc(ufunc))
    out = kwargs.get("out") or ()
    options = {k: to_numpy(v) for k, v in kwargs.items() if k != "out"}
    if method == "at":
        target, *others = inputs
        values = np.array(to_numpy(target))
        getattr(ufunc, method)(values, *map(to_numpy, others), **options)
        assign(ufunc.__name__, target, values)
        return None
    result = getattr(ufunc, method)(*map(to_numpy, inputs), **options)
    return _into(ufunc, out, result, "same_kind", inputs)


# --------------------------------------------------------------------------------------------------
# Calls, and their keywords


def called(
    ufunc: np.ufunc,
    compute: Function,
    inputs: Sequence[ArrayLike],
    out: Sequence[AnyArray | None] = (),
    where: Any = True,
    dtype: DTypeLike | None = None,
    signature: Signature = None,
    casting: Casting = "same_kind",
    **options: Any,
) -> Any:
    """Compute a ufunc with the keywords that NumPy's have."""
    for ignored in ("order", "subok"):
        options.pop(ignored, None)
    signature = options.pop("sig", signature)
    if ufunc.signature is not None:
        return _along_axes(ufunc, compute, inputs, dtype, signature, casting, **options)
    if options:
        names = ", ".join(map(repr, sorted(options)))
        raise TypeError(f"{ufunc.__name__}() got an unexpected keyword argument {names}")
    dtypes = loop(ufunc, inputs, dtype, signature, casting)
    if where is True or where is np._NoValue:
        return computed(ufunc, compute, inputs, dtypes)
    if ufunc is np.power and dtypes is not None and dtypes[-1].kind in "iu":
        # What is not computed cannot fail.
        inputs = inputs[0], _core.where(where, inputs[1], 0)
    result = computed(ufunc, compute, inputs, dtypes)
    # Where nothing is computed NumPy leaves the memory of out=, or zeros for want of any.
    results = result if isinstance(result, tuple) else (result,)
    kept = [*out, *[None] * (len(results) - len(out))]
    masked = tuple(
        _core.where(where, r, np.zeros((), r.dtype) if o is None else o)
        for r, o in zip(results, kept, strict=True)
    )
    return masked if isinstance(result, tuple) else masked[0]


def _along_axes(
    ufunc: np.ufunc,
    compute: Function,
    inputs: Sequence[ArrayLike],
    dtype: DTypeLike | None,
    signature: Signature,
    casting: Casting,
    axis: Axis = None,
    axes: Sequence[Any] | None = None,
    keepdims: bool = False,
) -> Any:
    """Compute a product of vectors or matrices along other axes than the last."""
    arrays = [_core.asarray(x) for x in inputs]
    if axes is None:
        axes = [(-1 if axis is None else axis,)] * ufunc.nin
        moves = axis is not None
    else:
        axes = [a if isinstance(a, tuple) else (a,) for a in axes]
        moves = True
    if moves:
        pairs = zip(arrays, axes, strict=False)
        arrays = [np.moveaxis(x, a, range(-len(a), 0)) for x, a in pairs]  # type: ignore[type-var]
    result: Any = computed(ufunc, compute, arrays, loop(ufunc, inputs, dtype, signature, casting))
    if keepdims:
        # Where nothing says otherwise, the axis that stays is where `axis=` says, or the last.
        result = np.expand_dims(result, -1)
        axes = [*axes, (-1 if axis is None else axis,)][: ufunc.nin + 1]
    if len(axes) > ufunc.nin and axes[ufunc.nin]:
        target = axes[ufunc.nin]
        result = np.moveaxis(result, range(-len(target), 0), target)
    return result


def _into(
    ufunc: np.ufunc,
    out: Sequence[AnyArray | None],
    result: Any,
    casting: Casting,
    inputs: Sequence[ArrayLike],
    exact: bool = False,
) -> Any:
    """Write results to where `out=` wants them; those of folds do not broadcast."""
    if all(o is None for o in out):
        return result
    results = result if isinstance(result, tuple) else (result,)
    name = ufunc.__name__
    written = []
    for target, value in zip(out, results, strict=True):
        if target is None:
            written.append(value)
            continue
        if not isinstance(target, (_core.Array, np.ndarray)):
            raise TypeError(f"{name}: out= must be an array, not {type(target).__name__}")
        new = _core.asarray(value)
        check_cast(name, new.dtype, target.dtype, casting)
        if exact and new.shape != target.shape:
            raise ValueError(
                f"{name}: out= has shape {target.shape}, and the result has shape {new.shape}"
            )
        if np.broadcast_shapes(new.shape, target.shape) != target.shape:
            raise ValueError(
                f"{name}: non-broadcastable output operand with shape {target.shape} doesn't "
                f"match the broadcast shape {new.shape}"
            )
        if not isinstance(target, _core.Array) and takes_name(target, inputs, new):
            written.append(_core.broadcast_to(_core.asarray(new, target.dtype), target.shape))
        else:
            written.append(assign(name, target, new))
    return tuple(written) if isinstance(result, tuple) else written[0]


# --------------------------------------------------------------------------------------------------
# All pairs, in place


def outer(ufunc: np.ufunc, x: ArrayLike, y: ArrayLike, **options: Any) -> Any:
    """Apply a binary ufunc to all pairs of elements."""
    # NumPy makes arrays of Python's numbers here, which widen the result.
    x, y = _core.asarray(x)[...], _core.asarray(y)[...]
    return called(ufunc, needed(ufunc), (_core.reshape(x, x.shape + (1,) * y.ndim), y), **options)


def at(ufunc: np.ufunc, x: AnyArray, key: Any, *values: ArrayLike) -> None:
    """Apply a ufunc in place at indices, as often as each occurs."""
    name = f"{ufunc.__name__}.at"
    if not isinstance(x, _core.Array):
        if any(map(is_active, values)):
            assign(name, x, values[0])
        ufunc.at(x, *map(to_numpy, (key, *values)))
        return
    if x._overlaps:
        memory, positions = x._beneath()
        at(ufunc, memory, _core.asarray(positions)[key], *values)
        return
    compute = needed(ufunc)
    operands = [_core.asarray(v) for v in values]
    dtypes = loop(ufunc, (x, *operands))
    if dtypes is not None:
        # NumPy would cut off fractions here, and in `out=` of a reduction, silently.
        check_cast(name, dtypes[-1], x.dtype)
    if ufunc.__name__ in {"add", "subtract"}:
        (value,) = values
        if ufunc.__name__ == "subtract":
            # As numbers of the array: those without a sign have no negative.
            value = _core.neg(as_dtype(operands[0], x.dtype))
        x._assign(_core.index_add(x, key, value))
        return
    key = tuple(map(to_numpy, key)) if isinstance(key, tuple) else to_numpy(key)
    positions = np.arange(x.size).reshape(x.shape)[key]
    operands = [_core.reshape(_core.broadcast_to(v, positions.shape), -1) for v in operands]
    flat = x.flatten()
    for turn in _turns(positions.reshape(-1)):
        where = positions.reshape(-1)[turn]
        flat[where] = computed(ufunc, compute, (flat[where], *(v[turn] for v in operands)), dtypes)
    x._assign(flat.reshape(x.shape))


def _turns(positions: NDArray) -> list[NDArray]:
    """Split positions into turns, none of which has one twice, in their order."""
    order = np.argsort(positions, kind="stable")
    ranked = positions[order]
    first = np.r_[True, ranked[1:] != ranked[:-1]][: ranked.size]
    begins = np.maximum.accumulate(np.where(first, np.arange(ranked.size), 0))
    turn = np.empty(ranked.size, int)
    turn[order] = np.arange(ranked.size) - begins
    return [np.flatnonzero(turn == t) for t in range(turn.max(initial=-1) + 1)]


_FOLDS: dict[str, Function] = {
    "reduce": reduce,
    "accumulate": accumulate,
    "reduceat": reduceat,
}
_METHODS: dict[str, Function] = {"outer": outer, "at": at}
