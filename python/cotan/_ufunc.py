"""NumPy's ufuncs on `Array`s: composites, methods (`reduce`, `accumulate`, `outer`, `at`), `out=`, `where=`.

What is a primitive and has no keyword is recorded in Rust without coming here.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cotan import _core

_PRIMITIVES: dict[str, Callable[..., Any]] = {
    ufunc: getattr(_core, name) for ufunc, name in _core.ufuncs().items() if hasattr(_core, name)
}


def _float(x: Any) -> Any:
    return _core.div(x, 1)


def _modf(x: Any) -> tuple[Any, Any]:
    whole = _core.trunc(x)
    return _core.sub(x, whole), whole


def _heaviside(x: Any, at_zero: Any) -> Any:
    step = _core.where(_core.lt(x, 0), 0.0, _core.where(_core.eq(x, 0), at_zero, 1.0))
    return _core.where(_core.isnan(x), math.nan, step)


def _safe_log(y: Any, where: Any) -> Any:
    return _core.log(_core.where(where, y, 1.0))


def _xlogy(x: Any, y: Any) -> Any:
    positive = _core.ne(x, 0)
    return _core.where(positive, _core.mul(x, _safe_log(y, positive)), 0.0)


def _xlog1py(x: Any, y: Any) -> Any:
    positive = _core.ne(x, 0)
    return _core.where(positive, _core.mul(x, _core.log1p(_core.where(positive, y, 0.0))), 0.0)


def _entr(x: Any) -> Any:
    inside = _core.where(_core.eq(x, 0), 0.0, -math.inf)
    positive = _core.gt(x, 0)
    return _core.where(positive, _core.neg(_core.mul(x, _safe_log(x, positive))), inside)


def _logit(x: Any) -> Any:
    return _core.sub(_core.log(x), _core.log1p(_core.neg(x)))


def _ndtr(x: Any) -> Any:
    return _core.mul(0.5, _core.erfc(_core.mul(x, -math.sqrt(0.5))))


def _matvec(x: Any, y: Any) -> Any:
    return _core.matmul(x, np.expand_dims(y, -1))[..., 0]


def _vecmat(x: Any, y: Any) -> Any:
    return _core.matmul(np.expand_dims(np.conj(x), -2), y)[..., 0, :]


# Ufuncs that are said in terms of primitives, NumPy's and those of scipy.special, by their names.
_COMPOSITES: dict[str, Callable[..., Any]] = {
    "fabs": lambda x: _core.abs(_float(x)),
    "positive": lambda x: _core.asarray(x).copy(),
    "conjugate": lambda x: _core.asarray(x).conj(),
    "deg2rad": lambda x: _core.mul(x, math.pi / 180),
    "radians": lambda x: _core.mul(x, math.pi / 180),
    "rad2deg": lambda x: _core.mul(x, 180 / math.pi),
    "degrees": lambda x: _core.mul(x, 180 / math.pi),
    "heaviside": _heaviside,
    "float_power": lambda x, y: _core.pow(_core.cast(x, np.float64), _core.cast(y, np.float64)),
    "divmod": lambda x, y: (_core.floor_divide(x, y), _core.remainder(x, y)),
    "modf": _modf,
    "ldexp": lambda x, n: _core.mul(x, _core.exp2(_core.cast(n, _core.asarray(x).dtype))),
    "logaddexp2": lambda x, y: _core.div(
        _core.logaddexp(_core.mul(x, math.log(2)), _core.mul(y, math.log(2))), math.log(2)
    ),
    "signbit": lambda x: _core.lt(_core.copysign(1.0, x), 0),
    "matmul": _core.matmul,
    "vecdot": lambda x, y: _core.sum(_core.mul(np.conj(x), y), -1),
    "matvec": _matvec,
    "vecmat": _vecmat,
    "expit": _core.sigmoid,
    "log_expit": lambda x: _core.neg(_core.softplus(_core.neg(x))),
    "logit": _logit,
    "erf": _core.erf,
    "erfc": _core.erfc,
    "ndtr": _ndtr,
    "exp10": lambda x: _core.exp(_core.mul(x, math.log(10))),
    "xlogy": _xlogy,
    "xlog1py": _xlog1py,
    "entr": _entr,
    "rel_entr": lambda x, y: _xlogy(x, _core.div(x, y)),
    "kl_div": lambda x, y: _core.add(_core.sub(_xlogy(x, _core.div(x, y)), x), y),
}

_CONSTANT = {"sign", "floor", "ceil", "rint", "trunc"}


def rule(ufunc: Any) -> Callable[..., Any] | None:
    """Give what computes a ufunc on arrays, if anything does."""
    name = ufunc.__name__
    return _PRIMITIVES.get(name) or _COMPOSITES.get(name)


def _known(operand: Any) -> bool:
    if isinstance(operand, _core.Array):
        return True
    own = getattr(type(operand), "__array_ufunc__", np.ndarray.__array_ufunc__)
    return own is np.ndarray.__array_ufunc__


def _on_values(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a ufunc without a rule on plain values, which is right while none of them is followed."""
    if any(map(_core.is_active, inputs)):
        raise TypeError(
            f"numpy.{ufunc.__name__} has no derivative rule in cotan; hold its arguments constant "
            "with ct.dropgrad, or write it in terms of functions that have one"
        )
    plain = [_core.value(x) if isinstance(x, _core.Array) else x for x in inputs]
    return getattr(ufunc, method)(*plain, **kwargs)


def array_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute `ufunc.method(*inputs, **kwargs)` where an `Array` takes part."""
    if not all(map(_known, inputs)):
        return NotImplemented
    kwargs = dict(kwargs)
    out = kwargs.pop("out", None)
    if method == "at":
        return _at(ufunc, *inputs)
    compute = rule(ufunc)
    if compute is None:
        result = _on_values(ufunc, method, inputs, kwargs)
    elif method == "__call__":
        result = _call(ufunc, compute, inputs, kwargs, out)
    else:
        handler = _METHODS.get(method)
        if handler is None:
            raise TypeError(f"numpy.{ufunc.__name__}.{method} is not supported on an Array")
        result = handler(ufunc, compute, *inputs, **kwargs)
    return _into(ufunc, out, result)


def _call(
    ufunc: Any,
    compute: Callable[..., Any],
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any],
    out: tuple[Any, ...] | None,
) -> Any:
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    kwargs.pop("casting", None)
    kwargs.pop("order", None)
    kwargs.pop("subok", None)
    if kwargs:
        raise TypeError(f"{ufunc.__name__}: {sorted(kwargs)} not supported on an Array")
    if dtype is not None:
        inputs = tuple(_core.cast(x, dtype) for x in inputs)
    result = compute(*inputs)
    if where is True:
        return result
    if out is None or out[0] is None:
        raise TypeError(
            f"{ufunc.__name__}: where= leaves the other elements undefined; give out= too, or use "
            "np.where"
        )
    return _core.where(where, result, out[0])


def _into(ufunc: Any, out: tuple[Any, ...] | None, result: Any) -> Any:
    """Write results to where `out=` wants them."""
    if out is None or all(o is None for o in out):
        return result
    results = result if isinstance(result, tuple) else (result,)
    written = []
    for target, value in zip(out, results, strict=True):
        if target is None:
            written.append(value)
            continue
        if not isinstance(target, _core.Array):
            _write_plain(ufunc, target, value)
        else:
            _check_out(ufunc, target, value)
            target._assign(value)
        written.append(target)
    return written[0] if len(written) == 1 else tuple(written)


def _check_out(ufunc: Any, target: Any, value: Any) -> None:
    value = _core.asarray(value)
    if np.broadcast_shapes(value.shape, target.shape) != target.shape:
        raise ValueError(
            f"{ufunc.__name__}: non-broadcastable output operand with shape {target.shape} doesn't "
            f"match the broadcast shape {value.shape}"
        )
    if not np.can_cast(value.dtype, target.dtype, "same_kind"):
        raise TypeError(
            f"{ufunc.__name__}: cannot write the result of dtype {value.dtype} into out= of dtype "
            f"{target.dtype}"
        )


def _write_plain(ufunc: Any, target: Any, value: Any) -> None:
    if _core.is_active(value):
        raise TypeError(
            f"{ufunc.__name__}: writing into a plain ndarray would drop the gradient; let out= be an "
            "Array (np.zeros_like of one), or leave it out; ct.dropgrad drops it on purpose"
        )
    target[...] = _core.value(value)


def _reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return np.lib.array_utils.normalize_axis_tuple(axis, ndim)


_REDUCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "add": (_core.sum, 0),
    "multiply": (_core.prod, 1),
    "maximum": (_core.max, -math.inf),
    "minimum": (_core.min, math.inf),
    "logaddexp": (_core.logsumexp, -math.inf),
}


def _truth(x: Any) -> Any:
    return x if x.dtype == np.bool_ else _core.ne(x, 0)


def reduce(
    ufunc: Any,
    compute: Callable[..., Any],
    x: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """Fold a binary ufunc over axes."""
    x = _core.asarray(x, dtype)
    name = ufunc.__name__
    if name in {"logical_and", "logical_or"}:
        fold, neutral = (_core.min, True) if name == "logical_and" else (_core.max, False)
        x = _truth(x)
    elif name in _REDUCTIONS:
        fold, neutral = _REDUCTIONS[name]
    else:
        raise TypeError(f"numpy.{name}.reduce is not supported on an Array")
    if where is not True:
        extremum = name in {"maximum", "minimum"}
        if extremum and initial is None:
            message = f"reduction operation '{name}' does not have an identity, so to use a where "
            raise ValueError(message + "mask one has to specify 'initial'")
        x = _core.where(where, x, initial if extremum else neutral)
    result = fold(x, axis, keepdims)
    return result if initial is None else compute(result, initial)


def accumulate(
    ufunc: Any, compute: Callable[..., Any], x: Any, axis: int = 0, dtype: Any = None
) -> Any:
    """Fold a binary ufunc along an axis and keep every step."""
    x = _core.asarray(x, dtype)
    if ufunc.__name__ == "add":
        return _core.cumsum(x, axis)
    # A scan by doubling: log2(n) steps, each of the whole array.
    (at,) = _reduced_axes(axis, x.ndim)
    n, shift = x.shape[at], 1

    def cut(part: slice) -> Any:
        return x[(slice(None),) * at + (part,)]

    while shift < n:
        x = _core.concatenate(
            [cut(slice(shift)), compute(cut(slice(n - shift)), cut(slice(shift, None)))], at
        )
        shift *= 2
    return x


def outer(ufunc: Any, compute: Callable[..., Any], x: Any, y: Any) -> Any:
    """Apply a binary ufunc to all pairs of elements."""
    del ufunc
    x, y = _core.asarray(x), _core.asarray(y)
    return compute(_core.reshape(x, x.shape + (1,) * y.ndim), y)


def reduceat(
    ufunc: Any, compute: Callable[..., Any], x: Any, indices: Any, axis: int = 0, dtype: Any = None
) -> Any:
    """Fold a binary ufunc over consecutive parts of an axis."""
    x = _core.asarray(x, dtype)
    (at,) = _reduced_axes(axis, x.ndim)
    starts = [int(i) for i in np.asarray(_core.value(indices))]
    ends = [*starts[1:], x.shape[at]]
    before = (slice(None),) * at
    parts = [
        reduce(ufunc, compute, x[(*before, slice(s, max(e, s + 1)))], at, keepdims=True)
        for s, e in zip(starts, ends, strict=True)
    ]
    return _core.concatenate(parts, at)


_METHODS: dict[str, Callable[..., Any]] = {
    "reduce": reduce,
    "accumulate": accumulate,
    "outer": outer,
    "reduceat": reduceat,
}


def _at(ufunc: Any, x: Any, key: Any, *values: Any) -> None:
    """Apply a ufunc in place at indices, as often as each occurs."""
    name = ufunc.__name__
    if not isinstance(x, _core.Array):
        raise TypeError(
            f"numpy.{name}.at: writing into a plain ndarray would drop the gradient; use an Array"
        )
    if name in {"add", "subtract"}:
        (value,) = values
        x._assign(_core.index_add(x, key, value if name == "add" else _core.neg(value)))
        return
    compute = rule(ufunc)
    positions = np.arange(x.size).reshape(x.shape)[_core.value(key) if isinstance(key, _core.Array) else key]
    if compute is None or np.unique(positions).size != positions.size:
        raise TypeError(
            f"numpy.{name}.at with repeated indices is not supported on an Array; use add or subtract"
        )
    x[key] = compute(x[key], *values)
