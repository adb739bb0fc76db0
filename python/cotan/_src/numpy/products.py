"""Overrides of NumPy's products of vectors and matrices, `einsum` and norms."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from cotan import _core
from cotan._core import Array
from cotan._src.numpy.indexing import positions_in, view_at
from cotan._src.numpy.linalg import spectral_norm
from cotan._src.numpy.reductions import safe_sqrt
from cotan._src.numpy.shape import moveaxis, stack
from cotan._src.rebind.numpy_substitutes import asarray as host_asarray
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import (
    are_objects,
    call_on_objects,
    check_cast,
    flat,
    is_active,
    to_numpy,
    write_out,
)
from cotan._src.typing import AnyArray, ArrayLike, Axes, Axis, Shape

# What a tensordot sums over: so many axes, or axes of both.
_Pairs: TypeAlias = int | Sequence[Any]
_Path: TypeAlias = bool | str | Sequence[str | int | Shape]
_Order: TypeAlias = float | str | None


# --------------------------------------------------------------------------------------------------
# Products


def _misfit(name: str, x: AnyArray, y: AnyArray) -> ValueError:
    return ValueError(f"{name}: shapes {x.shape} and {y.shape} not aligned: they do not fit")


@override(np.dot)
def dot(a: ArrayLike, b: ArrayLike, out: AnyArray | None = None) -> AnyArray:
    if are_objects(a, b):
        objects: AnyArray = call_on_objects("dot", np.dot, a, b, out=out)
        return objects
    x, y = host_asarray(a), host_asarray(b)
    if x.ndim == 0 or y.ndim == 0:
        return write_out("dot", out, _core.mul(x, y))
    if x.shape[-1] != y.shape[-2 if y.ndim > 1 else 0]:
        raise _misfit("dot", x, y)
    if y.ndim <= 2:
        return write_out("dot", out, _core.matmul(x, y))
    return write_out("dot", out, tensordot(x, y, (-1, -2)))


def around_gaps(x: AnyArray, y: AnyArray) -> Array | None:
    """Multiply by a table that has NaN in it, if whole rows or columns of the result come of that.

    Those are NaN whatever the other operand is, so they are constant; then user code that leaves
    them out (`np.nansum`, `np.nan_to_num`) has the derivative of the rest.
    """
    first = not is_active(x)
    table, other = (to_numpy(x), y) if first else (to_numpy(y), x)
    if table.ndim < 2:
        return None
    axis = -1 if first else -2
    gaps = np.expand_dims(np.isnan(table).any(axis=axis), axis)
    known = np.where(gaps, 0, table)
    product = _core.matmul(known, other) if first else _core.matmul(other, known)
    if other.ndim == 1:
        gaps = gaps.squeeze(axis)
    is_complex = product.dtype.kind == "c"
    missing = np.array(complex(np.nan, np.nan) if is_complex else np.nan, product.dtype)
    return _core.where(gaps, missing, product)


@override(np.vdot)
def vdot(a: ArrayLike, b: ArrayLike, /) -> AnyArray:
    x, y = flat(_core.asarray(a)), flat(_core.asarray(b))
    if x.shape != y.shape:
        raise _misfit("vdot", x, y)
    return _core.matmul(x.conj(), y)


@override(np.inner)
def inner(a: ArrayLike, b: ArrayLike, /) -> AnyArray:
    if are_objects(a, b):
        objects: AnyArray = call_on_objects("inner", np.inner, a, b)
        return objects
    x, y = host_asarray(a), host_asarray(b)
    if x.ndim == 0 or y.ndim == 0:
        return _core.mul(x, y)
    if x.shape[-1] != y.shape[-1]:
        raise _misfit("inner", x, y)
    return tensordot(x, y, (-1, -1))[()]


@override(np.outer)
def outer(a: ArrayLike, b: ArrayLike, out: AnyArray | None = None) -> AnyArray:
    if are_objects(a, b):
        objects: AnyArray = call_on_objects("outer", np.outer, a, b, out=out)
        return objects
    x, y = flat(_core.asarray(a)), flat(_core.asarray(b))
    return write_out("outer", out, _core.mul(_core.reshape(x, (-1, 1)), y))


@override(np.linalg.outer)
def vector_outer(x1: ArrayLike, x2: ArrayLike, /) -> AnyArray:
    x, y = host_asarray(x1), host_asarray(x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(
            "Input arrays must be one-dimensional, but they are "
            f"x1.ndim={x.ndim} and x2.ndim={y.ndim}."
        )
    return outer(x, y)


@override(np.linalg.matmul)
def matmul(x1: ArrayLike, x2: ArrayLike, /) -> AnyArray:
    return _core.matmul(x1, x2)


@override(np.linalg.vecdot)
def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> AnyArray:
    product: AnyArray = getattr(np, "vecdot")(x1, x2, axis=axis)  # noqa: B009 - its stub has no axis=
    return product


@override(np.tensordot, np.linalg.tensordot)
def tensordot(a: ArrayLike, b: ArrayLike, axes: _Pairs = 2) -> AnyArray:
    if are_objects(a, b):
        objects: AnyArray = call_on_objects("tensordot", np.tensordot, a, b, axes=axes)
        return objects
    x, y = host_asarray(a), host_asarray(b)
    if isinstance(axes, (int, np.integer)):
        left, right = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        pair = [[i] if np.ndim(i) == 0 else list(i) for i in axes]
        left = [normalize_axis_index(i, x.ndim) for i in pair[0]]
        right = [normalize_axis_index(i, y.ndim) for i in pair[1]]
    summed = [x.shape[i] for i in left] if min([0, *left]) >= 0 else None
    if summed is None or len(right) > y.ndim or summed != [y.shape[i] for i in right]:
        raise ValueError(
            f"tensordot: shape-mismatch for sum: shapes {x.shape} and {y.shape} over axes {axes}"
        )
    rows = [i for i in range(x.ndim) if i not in left]
    columns = [i for i in range(y.ndim) if i not in right]
    m, n = [x.shape[i] for i in rows], [y.shape[i] for i in columns]
    wide = _core.reshape(_core.transpose(x, rows + left), (math.prod(m), math.prod(summed)))
    tall = _core.reshape(_core.transpose(y, right + columns), (math.prod(summed), math.prod(n)))
    return _core.reshape(_core.matmul(wide, tall), m + n)


@override(np.cross)
def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Axis = None
) -> AnyArray:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = moveaxis(host_asarray(a), axisa, -1), moveaxis(host_asarray(b), axisb, -1)
    for vectors in (x, y):
        if vectors.shape[-1] not in {2, 3}:
            raise ValueError(
                "incompatible dimensions for cross product\n"
                f"(dimension must be 2 or 3), got {x.shape} and {y.shape}"
            )
    if x.shape[-1] == 2 or y.shape[-1] == 2:
        # NumPy 2.0 warns of vectors of two components, and NumPy 2.5 refuses them.
        np.cross(np.zeros(x.shape[-1]), np.zeros(y.shape[-1]))
    u = [x[..., i] for i in range(x.shape[-1])]
    v = [y[..., i] for i in range(y.shape[-1])]
    if len(u) == len(v) == 2:
        return (u[0] * v[1] - u[1] * v[0])[...]  # an array, even without axes
    # A vector of two components has a third one that is zero.
    u, v = [*u, *[0 * u[0]] * (3 - len(u))], [*v, *[0 * v[0]] * (3 - len(v))]
    parts = [u[i] * v[j] - u[j] * v[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return moveaxis(stack(parts, -1), -1, axisc)


@override(np.linalg.cross)
def vector_cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> AnyArray:
    x, y = host_asarray(x1), host_asarray(x2)
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
            f"{x.shape[axis]} and {y.shape[axis]} dimensional instead."
        )
    return cross(x, y, axis=axis)


# --------------------------------------------------------------------------------------------------
# Sums over indices

# An operand of an einsum, and the labels of its axes.
_Term = tuple[AnyArray, list[str]]


@override(np.einsum)
def einsum(
    *operands: ArrayLike | Sequence[int],
    out: AnyArray | None = None,
    optimize: _Path = False,
    **kwargs: Any,
) -> AnyArray:
    text, arrays = _operands(operands)
    dtype, casting = kwargs.pop("dtype", None), kwargs.pop("casting", "safe")
    kwargs.pop("order", None)
    if kwargs:
        raise TypeError(f"einsum() got an unexpected keyword argument {min(kwargs)!r}")
    if dtype is not None:
        for x in arrays:
            check_cast("einsum", x.dtype, dtype, casting)
        arrays = [_core.asarray(x, dtype) for x in arrays]
    inputs, output = _subscripts(text, arrays)
    terms = [_single(x, labels) for x, labels in zip(arrays, inputs, strict=True)]
    if len(terms) == 1 and out is None and len(terms[0][1]) == len(output):
        # Nothing is summed: NumPy gives a view that can be written to.
        x, labels = terms[0]
        return x.transpose([labels.index(s) for s in output]) if x.ndim else x[()]
    for pair in _order(text, arrays, optimize):
        chosen = [terms[i] for i in sorted(pair)]
        terms = [t for i, t in enumerate(terms) if i not in pair]
        needed = set(output).union(*(labels for _, labels in terms))
        while len(chosen) > 1:
            first, second, *rest = chosen
            later = needed.union(*(labels for _, labels in rest))
            chosen = [_contracted(first, second, later), *rest]
        terms.append(chosen[0])
    x, labels = _summed(*terms[0], set(output))
    result = _core.transpose(x, [labels.index(s) for s in output])
    wanted = np.result_type(*(a.dtype for a in arrays))
    if result.dtype != wanted:
        result = result.astype(wanted)  # sums of integers are wider
    return write_out("einsum", out, result if result.ndim else result[()], casting)


def _operands(operands: Sequence[Any]) -> tuple[str, list[AnyArray]]:
    """Give the subscripts as a text, and the operands; lists of axes become letters."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), list(map(host_asarray, operands[1:]))
    arrays, sublists = operands[:-1:2] if len(operands) % 2 else operands[::2], operands[1::2]

    def letters(axes: Iterable[Any]) -> str:
        return "".join(
            "..." if i is Ellipsis else chr(ord("A") + int(i) + 6 * (i > 25)) for i in axes
        )

    text = ",".join(map(letters, sublists))
    if len(operands) % 2:
        text += "->" + letters(operands[-1])
    return text, list(map(host_asarray, arrays))


def _order(text: str, arrays: Sequence[AnyArray], optimize: _Path) -> list[Shape]:
    """Give which operands are contracted, step by step, as `numpy.einsum_path` does."""
    if len(arrays) < 3 or optimize is False:
        return [tuple(range(len(arrays)))]
    shapes = (np.broadcast_to(np.float64(0), x.shape) for x in arrays)
    path, _ = np.einsum_path(text, *shapes, optimize=optimize)
    return path[1:]


def _subscripts(text: str, arrays: Sequence[AnyArray]) -> tuple[list[list[str]], list[str]]:
    """Read the subscripts; axes under an ellipsis get labels of their own."""
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(arrays):
        raise ValueError(f"einsum: {len(parts)} subscripts for {len(arrays)} operands in {text!r}")
    named = [part.replace("...", "") for part in parts]
    for part in [*named, right.replace("...", "")]:
        if part and not (part.isascii() and part.isalpha()):
            raise ValueError(f"einsum: subscripts must be letters, '...', ',' and '->': {text!r}")
    covered = [x.ndim - len(n) for x, n in zip(arrays, named, strict=True)]
    hidden = max((c for c, p in zip(covered, parts, strict=True) if "..." in p), default=0)

    def labels(part: str, count: int) -> list[str]:
        head, dots, tail = part.partition("...")
        middle = [f"...{i}" for i in range(hidden - count, hidden)] if dots else []
        return [*head, *middle, *tail]

    inputs = [labels(part, count) for part, count in zip(parts, covered, strict=True)]
    for part, names, x in zip(parts, inputs, arrays, strict=True):
        if len(names) != x.ndim:
            raise ValueError(f"einsum: subscripts {part!r} for an operand of shape {x.shape}")
    every = [s for names in inputs for s in names]
    if arrow:
        output = labels(right, hidden)
    else:
        once = sorted(s for s in set(every) if every.count(s) == 1 and not s.startswith("."))
        output = [f"...{i}" for i in range(hidden)] + once
    for s in output:
        if s not in every or output.count(s) > 1:
            raise ValueError(f"einsum: output subscript {s!r} must occur in an operand: {text!r}")
    return inputs, output


def _single(x: AnyArray, labels: list[str]) -> _Term:
    """Take diagonals of labels that stand twice at one operand."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            if x.shape[i] != x.shape[j]:
                raise ValueError(f"einsum: axes {label!r} of shape {x.shape} differ in length")
            x = view_at(_core.asarray(x), np.diagonal(positions_in(x), 0, i, j), True)
            labels = [s for k, s in enumerate(labels) if k not in {i, j}] + [label]
    return x, labels


def _summed(x: AnyArray, labels: list[str], needed: set[str]) -> _Term:
    """Sum over the axes that nobody needs."""
    alone = tuple(i for i, s in enumerate(labels) if s not in needed)
    return (_core.sum(x, alone) if alone else x), [s for s in labels if s in needed]


def _contracted(a: _Term, b: _Term, needed: set[str]) -> _Term:
    """Contract two operands over what nobody needs any more, as one product of matrices."""
    x, xs = _summed(*a, needed | set(b[1]))
    y, ys = _summed(*b, needed | set(xs))
    sizes: dict[str, int] = {}
    for array, names in ((x, xs), (y, ys)):
        for s, n in zip(names, array.shape, strict=True):
            if 1 not in {sizes.setdefault(s, n), n} and sizes[s] != n:
                raise ValueError(f"einsum: axes {s!r} of shapes {x.shape} and {y.shape} do not fit")
            sizes[s] = n if sizes[s] == 1 else sizes[s]
    batch = [s for s in xs if s in ys and s in needed]
    inner = [s for s in xs if s in ys and s not in needed]
    left, right = [s for s in xs if s not in ys], [s for s in ys if s not in xs]

    def shaped(array: AnyArray, labels: list[str], *groups: list[str]) -> AnyArray:
        names = [*batch, *groups[0], *groups[1]]
        array = _core.transpose(array, [labels.index(s) for s in names])
        array = _core.broadcast_to(array, [sizes[s] for s in names])
        lengths = [math.prod(sizes[s] for s in group) for group in groups]
        return _core.reshape(array, [*(sizes[s] for s in batch), *lengths])

    product = _core.matmul(shaped(x, xs, left, inner), shaped(y, ys, inner, right))
    names = batch + left + right
    return _core.reshape(product, [sizes[s] for s in names]), names


# --------------------------------------------------------------------------------------------------
# Norms: where they have a kink, at 0, the derivative is 0


@override(np.linalg.norm)
def norm(x: ArrayLike, ord: _Order = None, axis: Axes = None, keepdims: bool = False) -> AnyArray:
    a = host_asarray(x)
    keepdims = bool(keepdims)
    a = a.astype(np.float64) if a.dtype.kind in "biu" else a
    if axis is not None:
        axes = normalize_axis_tuple(axis, a.ndim)
    else:
        axes = tuple(range(a.ndim))
        if ord is None:
            return _root_of_squares(a, axes, keepdims)
    if len(axes) == 1:
        return _vector_norm(a, 2 if ord is None else ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(a, ord, axes, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


def _root_of_squares(x: AnyArray, axes: Shape, keepdims: bool) -> AnyArray:
    if x.dtype.kind == "c":
        squares = _core.square(x.real) + _core.square(x.imag)
    else:
        squares = _core.square(x)
    return safe_sqrt(_core.sum(squares, axes, keepdims))


def _vector_norm(x: AnyArray, ord: float | str, axes: Shape, keepdims: bool) -> AnyArray:
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord == 2:
        return _root_of_squares(x, axes, keepdims)
    size = _core.abs(x)
    if ord == math.inf:
        return _largest(size, axes, keepdims)
    if ord == -math.inf:
        return _core.min(size, axes, keepdims)
    if ord == 0:
        return _core.sum(_core.cast(_core.ne(x, 0), size.dtype), axes, keepdims)
    if ord == 1:
        return _core.sum(size, axes, keepdims)
    total = _core.sum(_core.pow(size, ord), axes, keepdims)
    zero = _core.eq(total, 0)
    return _core.where(zero, total, _core.pow(_core.where(zero, 1, total), 1 / ord))


def _matrix_norm(x: AnyArray, ord: _Order, axes: Shape, keepdims: bool) -> AnyArray:
    if axes[0] == axes[1]:
        raise ValueError("Duplicate axes given.")
    if ord in {None, "fro", "f"}:
        return _root_of_squares(x, axes, keepdims)
    if ord in {2, -2, "nuc"}:
        return spectral_norm(x, ord, axes, keepdims)
    if ord not in {1, -1, math.inf, -math.inf}:
        raise ValueError("Invalid norm order for matrices.")
    summed, kept = axes if abs(ord) == 1 else axes[::-1]
    fold = _largest if ord > 0 else _core.min
    result = fold(_core.sum(_core.abs(x), summed, True), kept, True)
    return result if keepdims else result.squeeze(axes)[()]


def _largest(x: AnyArray, axes: int | Shape, keepdims: bool) -> AnyArray:
    """Give the largest of numbers that are not negative: 0 of none, as their sum is then."""
    along = (axes,) if isinstance(axes, int) else axes
    fold = _core.max if all(x.shape[i] for i in along) else _core.sum
    return fold(x, axes, keepdims)


@override(np.linalg.matrix_norm)
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: _Order = "fro") -> AnyArray:
    return norm(x, ord, (-2, -1), keepdims)


@override(np.linalg.vector_norm)
def vector_norm(
    x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: _Order = 2
) -> AnyArray:
    a = host_asarray(x)
    a = a.astype(np.float64) if a.dtype.kind in "biu" else a
    axes = tuple(range(a.ndim)) if axis is None else normalize_axis_tuple(axis, a.ndim)
    return _vector_norm(a, 2 if ord is None else ord, axes, bool(keepdims))
