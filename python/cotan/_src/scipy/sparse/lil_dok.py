"""Sparse matrices in the formats `lil` and `dok`, into which traced values are written one by one.

These formats keep their elements in lists and dictionaries, where traced values lie beside plain
numbers. They are joined into one array when the matrix is converted to another format, which SciPy
does before it computes with them.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.rebind.engine import locate
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import ALWAYS, METHOD, override
from cotan._src.runtime.values import contains_active, is_array
from cotan._src.scipy.sparse.products import (
    Sparse,
    has_active_entries,
    holds_written,
    method_of,
    toarray,
)
from cotan._src.typing import AnyArray, ArrayLike, Function, Shape

_HERE = "scipy.sparse"
_LIL, _DOK = f"{_HERE}._lil._lil_base", f"{_HERE}._dok._dok_base"
_ANY = f"{_HERE}._index.IndexMixin"


def _kind(sparse: Sparse) -> str:
    return "array" if isinstance(sparse, locate(f"{_HERE}.sparray")) else "matrix"


def _is_inside(key: Any, n: int) -> bool:
    whole = isinstance(key, (int, np.integer)) and not isinstance(key, bool)
    return whole and -n <= key < n


def _squeezed(shape: Shape) -> list[int]:
    return [n for n in shape if n != 1]


def _placed(matrix: Sparse, key: Any, value: Any) -> Iterator[tuple[int, int, AnyArray]]:
    """Give row, column and value of each element that is written, as SciPy reads the key."""
    if has_active_entries(value):
        value = toarray(value)
    value = asarray(value)
    if value.dtype.kind == "c" != matrix.dtype.kind or matrix.dtype.kind not in "fc":
        raise TypeError(
            f"{type(matrix).__name__}: traced values of dtype {value.dtype} do not fit into a "
            f"sparse matrix of dtype {matrix.dtype}; create it with dtype={value.dtype}"
        )
    is_pair = isinstance(key, tuple) and len(key) == len(matrix.shape) == 2
    if is_pair and value.size == 1 and all(map(_is_inside, key, matrix.shape)):
        row, column = (int(k) % n for k, n in zip(key, matrix.shape, strict=True))
        yield row, column, _core.asarray(value.reshape(()), matrix.dtype)
        return
    # Numbers in the place of the values say which one comes where.
    probe = locate(f"{_HERE}.lil_{_kind(matrix)}")(matrix.shape)
    shape = np.shape(probe[key]) if not hasattr(probe[key], "tocoo") else probe[key].shape
    if _squeezed(value.shape) == _squeezed(shape):
        value = value.reshape(shape)  # a row of values goes into a column, too
    values = np.broadcast_to(value, shape) if value.shape != (1,) * value.ndim else value
    values = _core.broadcast_to(values.reshape(()) if values.size == 1 else values, shape)
    values = _core.asarray(values, matrix.dtype).reshape(-1)
    numbers = np.arange(1.0, values.shape[0] + 1).reshape(shape)
    probe[key] = numbers if shape else 1.0
    coo = probe.tocoo()
    for row, column, number in zip(coo.row, coo.col, coo.data, strict=True):
        yield int(row), int(column), values[int(number) - 1]


@override(f"{_LIL}.__setitem__", kind=METHOD, when=ALWAYS)
def _write_into_lists(self: Sparse, key: object, value: Sparse | ArrayLike) -> None:
    if not contains_active(value) and not has_active_entries(value):
        value = np.asarray(value) if is_array(value) else value
        method_of(_LIL, "__setitem__")(self, key, value)
        return
    for row, column, element in _placed(self, key, value):
        columns, elements = self.rows[row], self.data[row]
        at = bisect_left(columns, column)
        if at < len(columns) and columns[at] == column:
            elements[at] = element
        else:
            columns.insert(at, column)
            elements.insert(at, element)


@override(f"{_ANY}.__setitem__", kind=METHOD, when=ALWAYS)
def _write_into_dictionary(self: Sparse, key: object, value: Sparse | ArrayLike) -> None:
    if not contains_active(value) and not has_active_entries(value):
        value = np.asarray(value) if is_array(value) else value
        method_of(_ANY, "__setitem__")(self, key, value)
        return
    if self.format != "dok":
        raise NotDifferentiableError(
            f"{type(self).__name__}: a traced value cannot be written into a sparse matrix of this "
            "format; write into a lil_matrix and convert it with tocsr(), or collect values, rows "
            "and columns in lists for coo_matrix((values, (rows, columns))), which sums duplicates"
        )
    for row, column, element in _placed(self, key, value):
        self._dict[row, column] = element


@override(f"{_LIL}._get_intXint", kind=METHOD, when=ALWAYS)
def _element(self: Sparse, row: int, col: int) -> AnyArray:
    element: AnyArray
    if -self.shape[0] <= row < self.shape[0] and -self.shape[1] <= col < self.shape[1]:
        columns, column = self.rows[row], int(col) % self.shape[1]
        at = bisect_left(columns, column)
        if at < len(columns) and columns[at] == column and is_array(self.data[row][at]):
            element = self.data[row][at]
            return element
    element = method_of(_LIL, "_get_intXint")(self, row, col)
    return element


def _compressed(matrix: Sparse) -> Sparse:
    indptr = np.cumsum([0, *map(len, matrix.rows)])
    indices = np.array([j for row in matrix.rows for j in row], dtype=np.int32)
    made = locate(f"{_HERE}.csr_{_kind(matrix)}")
    csr: Sparse = made((np.ones(indices.size, matrix.dtype), indices, indptr), shape=matrix.shape)
    csr.data = _core.array([x for row in matrix.data for x in row], matrix.dtype)
    return csr


def _coordinates(matrix: Sparse) -> Sparse:
    places = np.array(list(matrix.keys()), dtype=np.int32).T
    made = locate(f"{_HERE}.coo_{_kind(matrix)}")
    coo: Sparse = made((np.ones(places.shape[1], matrix.dtype), tuple(places)), shape=matrix.shape)
    coo.data = _core.array(list(matrix.values()), matrix.dtype)
    return coo


def _enter(owner: str, name: str, rule: Function) -> None:
    @override(f"{owner}.{name}", kind=METHOD, when=ALWAYS)
    def method(self: Sparse, *args: object, **kwargs: object) -> Any:
        if holds_written(self):
            return rule(self, *args)
        return method_of(owner, name)(self, *args, **kwargs)


_enter(_LIL, "tocsr", lambda self, *_: _compressed(self))
_enter(_LIL, "toarray", lambda self, *_: toarray(_compressed(self)))
_enter(_DOK, "tocoo", lambda self, *_: _coordinates(self))
for _name in ("_matmul_vector", "_matmul_multivector"):
    _enter(_DOK, _name, lambda self, other: _coordinates(self).tocsr() @ other)


for _owner in (_LIL, _DOK):
    _enter(_owner, "multiply", lambda self, other: self.tocsr().multiply(other))
