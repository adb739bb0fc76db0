"""NumPy's products of vectors and matrices, norms, and what is made of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from cotan import _core
from cotan._numpy_core import implements, plain, refuse, written


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    x, y = _core.asarray(a), _core.asarray(b)
    if x.ndim == 0 or y.ndim == 0:
        return written(out, x * y)
    if y.ndim <= 2:
        _check_inner("dot", x, y, y.ndim - 2 if y.ndim == 2 else 0)
        return written(out, _core.matmul(x, y))
    return written(out, np.tensordot(x, y, axes=(-1, -2)))


def _check_inner(name: str, x: Any, y: Any, axis: int) -> None:
    if x.shape[-1] != y.shape[axis]:
        raise ValueError(f"{name}: shapes {x.shape} and {y.shape} do not fit")


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    x, y = _core.reshape(_core.asarray(a), -1), _core.reshape(_core.asarray(b), -1)
    return _core.matmul(x.conj(), y)


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    x, y = _core.asarray(a), _core.asarray(b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    return np.tensordot(x, y, axes=(-1, -1))


@implements(np.outer, np.linalg.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    x, y = _core.reshape(_core.asarray(a), (-1, 1)), _core.reshape(_core.asarray(b), (1, -1))
    return written(out, x * y)


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = _core.asarray(a), _core.asarray(b)
    if isinstance(axes, (int, np.integer)):
        left, right = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        pair = [[i] if np.ndim(i) == 0 else list(i) for i in axes]
        left = [normalize_axis_index(i, x.ndim) for i in pair[0]]
        right = [normalize_axis_index(i, y.ndim) for i in pair[1]]
    summed = [x.shape[i] for i in left]
    if summed != [y.shape[i] for i in right]:
        raise ValueError(f"tensordot: shapes {x.shape} and {y.shape} do not fit over axes {axes}")
    rows = [i for i in range(x.ndim) if i not in left]
    columns = [i for i in range(y.ndim) if i not in right]
    k = int(np.prod(summed))
    m, n = [x.shape[i] for i in rows], [y.shape[i] for i in columns]
    flat_x = _core.reshape(_core.transpose(x, rows + left), (int(np.prod(m)), k))
    flat_y = _core.reshape(_core.transpose(y, right + columns), (k, int(np.prod(n))))
    return _core.reshape(_core.matmul(flat_x, flat_y), m + n)


@implements(np.kron)
def kron(a: Any, b: Any) -> Any:
    x, y = _core.asarray(a), _core.asarray(b)
    ndim = max(x.ndim, y.ndim)
    m = (1,) * (ndim - x.ndim) + tuple(x.shape)
    n = (1,) * (ndim - y.ndim) + tuple(y.shape)
    wide = _core.reshape(x, [length for i in m for length in (i, 1)])
    tall = _core.reshape(y, [length for j in n for length in (1, j)])
    return _core.reshape(wide * tall, [i * j for i, j in zip(m, n, strict=True)])


@implements(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    x = np.moveaxis(_core.asarray(a), axisa, -1)
    y = np.moveaxis(_core.asarray(b), axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ValueError(f"cross: both vectors need 3 components, not {x.shape[-1]} and {y.shape[-1]}")
    parts = [
        x[..., i] * y[..., j] - x[..., j] * y[..., i] for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return np.moveaxis(np.stack(parts, -1), -1, axisc)


@implements(np.einsum)
def einsum(subscripts: Any, *operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
    if not isinstance(subscripts, str):
        raise refuse("numpy.einsum with lists of axes")
    arrays = [_core.asarray(o) for o in operands]
    inputs, output = _subscripts(subscripts, arrays)
    terms = [_single(x, labels) for x, labels in zip(arrays, inputs, strict=True)]
    while len(terms) > 1:
        x, y, *rest = terms
        needed = set(output).union(*(labels for _, labels in rest))
        terms = [_pair(x, y, needed), *rest]
    x, labels = terms[0]
    x = _core.sum(x, tuple(i for i, s in enumerate(labels) if s not in output)) if set(labels) - set(output) else x
    labels = [s for s in labels if s in output]
    return written(out, _core.transpose(x, [labels.index(s) for s in output]))


def _subscripts(text: str, arrays: Sequence[Any]) -> tuple[list[list[str]], list[str]]:
    """Read the subscripts; axes under an ellipsis get labels of their own."""
    text = text.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(arrays):
        raise ValueError(f"einsum: {len(parts)} subscripts for {len(arrays)} operands in {text!r}")
    hidden = max(
        (x.ndim - len(p.replace("...", "")) for p, x in zip(parts, arrays, strict=True) if "..." in p),
        default=0,
    )

    def labels(part: str, count: int) -> list[str]:
        head, dots, tail = part.partition("...")
        middle = [f"...{i}" for i in range(hidden - count, hidden)] if dots else []
        return [*head, *middle, *tail]

    inputs = []
    for part, x in zip(parts, arrays, strict=True):
        names = labels(part, x.ndim - len(part.replace("...", "")))
        if len(names) != x.ndim:
            raise ValueError(f"einsum: subscripts {part!r} for an operand of shape {x.shape}")
        inputs.append(names)
    if arrow:
        output = labels(right, hidden)
    else:
        every = [s for names in inputs for s in names]
        once = sorted(s for s in set(every) if every.count(s) == 1 and not s.startswith("."))
        output = [f"...{i}" for i in range(hidden)] + once
    unknown = set(output) - {s for names in inputs for s in names}
    if unknown:
        raise ValueError(f"einsum: output subscripts {sorted(unknown)} stand in no operand of {text!r}")
    return inputs, output


def _single(x: Any, labels: list[str]) -> tuple[Any, list[str]]:
    """Take diagonals of labels that stand twice at one operand."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            if x.shape[i] != x.shape[j]:
                raise ValueError(f"einsum: axes {label!r} of shape {x.shape} differ in length")
            x = np.diagonal(x, 0, i, j)
            labels = [s for k, s in enumerate(labels) if k not in {i, j}] + [label]
    return x, labels


def _pair(a: tuple[Any, list[str]], b: tuple[Any, list[str]], needed: set[str]) -> tuple[Any, list[str]]:
    """Contract two operands over what nobody needs any more, as one product of matrices."""
    (x, xs), (y, ys) = a, b
    alone = tuple(i for i, s in enumerate(xs) if s not in ys and s not in needed)
    if alone:
        x, xs = _core.sum(x, alone), [s for s in xs if s in ys or s in needed]
    alone = tuple(i for i, s in enumerate(ys) if s not in xs and s not in needed)
    if alone:
        y, ys = _core.sum(y, alone), [s for s in ys if s in xs or s in needed]
    batch = [s for s in xs if s in ys and s in needed]
    inner = [s for s in xs if s in ys and s not in needed]
    left, right = [s for s in xs if s not in ys], [s for s in ys if s not in xs]
    x = _core.transpose(x, [xs.index(s) for s in batch + left + inner])
    y = _core.transpose(y, [ys.index(s) for s in batch + inner + right])
    sizes: dict[str, int] = {}
    for array, names in ((x, batch + left + inner), (y, batch + inner + right)):
        for s, n in zip(names, array.shape, strict=True):
            if sizes.setdefault(s, n) != n and n != 1:
                if sizes[s] != 1:
                    raise ValueError(f"einsum: axes {s!r} have lengths {sizes[s]} and {n}")
                sizes[s] = n

    def shaped(array: Any, names: list[str], groups: list[list[str]]) -> Any:
        array = _core.broadcast_to(array, [sizes[s] for s in names])
        return _core.reshape(array, [int(np.prod([sizes[s] for s in g], dtype=int)) for g in groups])

    x = shaped(x, batch + left + inner, [[s] for s in batch] + [left, inner])
    y = shaped(y, batch + inner + right, [[s] for s in batch] + [inner, right])
    names = batch + left + right
    return _core.reshape(_core.matmul(x, y), [sizes[s] for s in names]), names


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    x = _core.mul(_core.asarray(x), 1.0) if x.dtype.kind in "biu" else _core.asarray(x)
    if axis is None:
        axes = tuple(range(x.ndim))
        if ord is not None and x.ndim > 2:
            raise ValueError("norm: improper number of dimensions to norm")
    else:
        axes = normalize_axis_tuple(axis, x.ndim)
    if ord is None or (len(axes) == 2 and ord in {"fro", "f"}) or (len(axes) == 1 and ord == 2):
        return _root_of_squares(x, axes, keepdims)
    size = _core.abs(x)
    if len(axes) == 2:
        rows, columns = axes
        if ord in {1, -1, np.inf, -np.inf}:
            summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
            total = _core.sum(size, summed, True)
            result = (_core.max if ord > 0 else _core.min)(total, kept, True)
            return result if keepdims else np.squeeze(result, axes)
        raise refuse(f"numpy.linalg.norm of a matrix with ord={ord!r}")
    if ord == np.inf:
        return _core.max(size, axes, keepdims)
    if ord == -np.inf:
        return _core.min(size, axes, keepdims)
    if ord == 0:
        return _core.sum(_core.cast(_core.ne(x, 0), size.dtype), axes, keepdims)
    if ord == 1:
        return _core.sum(size, axes, keepdims)
    if isinstance(ord, str):
        raise ValueError(f"norm: invalid norm order {ord!r} for vectors")
    return _core.pow(_core.sum(_core.pow(size, ord), axes, keepdims), 1 / ord)


def _root_of_squares(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    squares = x.real**2 + x.imag**2 if x.dtype.kind == "c" else _core.square(x)
    total = _core.sum(squares, axes, keepdims)
    # At 0 the norm has a kink; its derivative there is 0.
    zero = _core.eq(total, 0)
    return _core.where(zero, 0.0, _core.sqrt(_core.where(zero, 1.0, total)))


@implements(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    if axis is None:
        flat = norm(_core.reshape(_core.asarray(x), -1), ord)
        return _core.reshape(flat, (1,) * x.ndim) if keepdims else flat
    if isinstance(axis, tuple) and len(axis) > 1 and ord == 2:
        return _root_of_squares(x, normalize_axis_tuple(axis, x.ndim), keepdims)
    return norm(x, ord, axis, keepdims)


@implements(np.linalg.matrix_power)
def matrix_power(a: Any, n: int) -> Any:
    if n < 0:
        raise refuse("numpy.linalg.matrix_power with a negative exponent")
    if n == 0:
        return _core.asarray(np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))
    result, square = None, a
    while n:
        if n & 1:
            result = square if result is None else _core.matmul(result, square)
        n >>= 1
        if n:
            square = _core.matmul(square, square)
    return result


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    result = arrays[0]
    for array in arrays[1:]:
        result = _core.matmul(result, array)
    return written(out, result)


@implements(np.cov)
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None,
        fweights: Any = None, aweights: Any = None, *, dtype: Any = None) -> Any:  # fmt: skip
    if fweights is not None or aweights is not None:
        raise refuse("numpy.cov with weights")
    x = np.atleast_2d(_core.asarray(m, dtype))
    x = x if rowvar or x.shape[0] == 1 else _core.transpose(x)
    if y is not None:
        other = np.atleast_2d(_core.asarray(y, dtype))
        other = other if rowvar or other.shape[0] == 1 else _core.transpose(other)
        x = _core.concatenate([x, other], 0)
    ddof = (0 if bias else 1) if ddof is None else ddof
    centered = x - _core.mean(x, 1, True)
    product = _core.matmul(centered, _core.transpose(centered).conj()) / (x.shape[1] - ddof)
    return np.squeeze(product)


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    scale = _core.sqrt(np.diagonal(c))
    return c / scale[:, None] / scale[None, :]


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    x, kernel = _core.asarray(a), _core.asarray(v)
    if x.shape[0] < kernel.shape[0]:
        x, kernel = kernel, x
    n, k = x.shape[0], kernel.shape[0]
    padded = _core.pad(x, [n + 2 * (k - 1)], [k - 1], [1])
    index = np.arange(n + k - 1)[:, None] + np.arange(k)[None, :]
    full = _core.matmul(padded[index], _core.flip(kernel))
    if mode == "full":
        return full
    if mode == "same":
        start = (k - 1) // 2
        return full[start : start + n]
    if mode == "valid":
        return full[k - 1 : n]
    raise ValueError(f"convolve: mode must be 'full', 'same' or 'valid', not {mode!r}")


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    x, y = _core.asarray(a), _core.asarray(v)
    result = convolve(x, _core.flip(y.conj()), mode)
    return _core.flip(result) if plain(x).shape[0] < y.shape[0] else result
