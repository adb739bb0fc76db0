"""Sparse matrices with traced elements: conversions, slices, sums and products.

SciPy's compiled code works on the structure, with indices in the place of the elements: they tell
afterwards which element went where.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from cotan import _core
from cotan._src.kit.host_call import linear
from cotan._src.kit.implicit_diff import without_rule
from cotan._src.numpy.matrix import Matrix
from cotan._src.rebind.engine import locate, locate_original
from cotan._src.rebind.numpy_substitutes import asarray, gathered
from cotan._src.runtime.registry import ALWAYS, METHOD, override
from cotan._src.runtime.values import contains_active, is_array, to_numpy
from cotan._src.scipy.sparse.products import (
    MatrixLike,
    Sparse,
    as_constant,
    entries,
    has_active_entries,
    holds_written,
    method_of,
    settled,
    spsolve,
    toarray,
)
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Axis,
    DTypeLike,
    Function,
    Kwargs,
    NDArray,
    Shape,
)

_HERE = "scipy.sparse"

#: The row and the column of each element.
_Places: TypeAlias = tuple[NDArray, NDArray]


def _is_matrix(sparse: Sparse) -> bool:
    return not isinstance(sparse, locate(f"{_HERE}.sparray"))


def _coo(like: Sparse, values: AnyArray, places: _Places, shape: Shape) -> Sparse:
    kind = "matrix" if _is_matrix(like) else "array"
    made: Sparse = locate(f"{_HERE}.coo_{kind}")((values, places), shape=shape)
    return made


def _summed(matrix: Sparse) -> tuple[NDArray, NDArray, AnyArray]:
    """Give rows, columns and values, one for each place."""
    row, column, values = entries(matrix)
    keys = row.astype(np.int64) * matrix.shape[1] + column
    own, which = np.unique(keys, return_inverse=True)
    if own.size == keys.size:
        return row, column, values
    values = _core.index_add(np.zeros(own.shape, values.dtype), which, values)
    return *divmod(own, matrix.shape[1]), values


def _changed(matrix: Sparse, change: Callable[[Sparse], Any]) -> Any:
    """Do with the values what SciPy does with numbers in their place."""
    if holds_written(matrix):
        result = _changed(matrix.tocsr(), change)
        return result.asformat(matrix.format) if hasattr(result, "tocoo") else result
    row, column, values = _summed(matrix)
    numbers = _coo(matrix, np.arange(1.0, row.size + 1), (row, column), matrix.shape)
    result = change(numbers.asformat(matrix.format))
    padded = np.concatenate([np.zeros(1, values.dtype), values])
    if not hasattr(result, "tocoo"):
        return padded[np.asarray(result).astype(np.int64)]
    result.data = padded[np.asarray(result.data).astype(np.int64)]
    return result


def _stacking(name: str) -> None:
    """Stack matrices as SciPy stacks numbers in the place of their values."""
    levels = 2 if name in {"block_array", "bmat"} else 1

    def stacked(
        blocks: object, *args: object, dtype: DTypeLike | None = None, **kwargs: object
    ) -> Sparse:
        original = locate_original(f"{_HERE}.{name}")
        result: Sparse
        if not _any_active(blocks):
            result = original(blocks, *args, dtype=dtype, **kwargs)
            return result
        values: list[AnyArray] = [np.zeros(1)]
        result = original(_numbered(blocks, values, levels), *args, **kwargs)
        values = [asarray(v) for v in values]
        kind = np.result_type(*values[1:]) if dtype is None else dtype
        joined = np.concatenate([_core.asarray(v, kind) for v in values])
        result.data = joined[np.asarray(result.data).astype(np.int64)]
        return result

    rule: Function = stacked
    if name == "block_diag":

        def rule(mats: object, *args: Any, **kwargs: Any) -> Sparse:
            return stacked(mats, *args, **kwargs)

    override(f"{_HERE}.{name}", when=ALWAYS)(rule)


def _is_nest(blocks: object) -> TypeGuard[Iterable[object]]:
    is_table = isinstance(blocks, np.ndarray) and blocks.dtype.kind == "O"
    return is_table or isinstance(blocks, (list, tuple))


def _any_active(blocks: object) -> bool:
    if _is_nest(blocks):
        return any(map(_any_active, blocks))
    return is_array(blocks) or has_active_entries(blocks)


def _numbered(block: Any, values: list[AnyArray], levels: int = 0) -> Any:
    """Give blocks whose elements are the positions of their values in a list that goes on.

    Blocks are in lists of so many levels.
    """
    if block is None:
        return None
    if levels and (_is_nest(block) or np.ndim(block) > 2):
        return [_numbered(b, values, levels - 1) for b in block]
    if not hasattr(block, "tocoo"):
        dense = asarray(block)
        dense = dense.reshape((1,) * (2 - dense.ndim) + dense.shape)
        row, column = (i.reshape(-1) for i in np.indices(dense.shape))
        block = locate(f"{_HERE}.coo_array")((np.ones(row.size), (row, column)), shape=dense.shape)
        own = dense.reshape(-1)
    else:
        row, column, own = _summed(block)
    start = sum(v.size for v in values)
    values.append(own)
    return _coo(block, np.arange(start, start + row.size, dtype=float), (row, column), block.shape)


for _name in ("block_array", "block_diag", "bmat", "hstack", "vstack"):
    _stacking(_name)


def _when_active(rule: Function, *names: str) -> None:
    """Enter the rules of methods for active matrices."""
    for name in names:
        owner, _, method = name.rpartition(".")
        _enter(rule, f"{_HERE}.{owner}", method)


def _enter(rule: Function, owner: str, name: str) -> None:
    @override(f"{owner}.{name}", kind=METHOD, when=ALWAYS)
    def method(self: Sparse, *args: object, **kwargs: object) -> Any:
        if has_active_entries(self) or (args and has_active_entries(args[0])):
            return rule(self, *args, **kwargs)
        return method_of(owner, name)(self, *args, **kwargs)


def _lift_change(owner: str, name: str) -> None:
    def rule(self: Sparse, *args: object, **kwargs: object) -> Any:
        return _changed(self, lambda numbers: getattr(numbers, name)(*args, **kwargs))

    _when_active(rule, f"{owner}.{name}")


for _owner, _names in {
    "_csr._csr_base": "tocsc _getrow",
    "_csc._csc_base": "tocsr _getrow",
    "_coo._coo_base": "tocsr tocsc todia diagonal",
    "_coo.coo_matrix": "__getitem__",
    "_compressed._cs_matrix": "diagonal",
    "_dia._dia_base": "tocsr diagonal",
    "_index.IndexMixin": "__getitem__",
}.items():
    for _name in _names.split():
        _lift_change(_owner, _name)


def _in_order(self: Sparse) -> None:
    """Let there be one element for each place; zeros stay, since they may be others elsewhere."""
    self.__dict__.update(_changed(self, lambda numbers: numbers).__dict__)


_when_active(_in_order, "_compressed._cs_matrix.sum_duplicates", "_coo._coo_base.sum_duplicates")
_when_active(
    lambda _: None, "_compressed._cs_matrix.eliminate_zeros", "_coo._coo_base.eliminate_zeros"
)


def _sum(
    self: Sparse, axis: Axis = None, dtype: DTypeLike | None = None, out: object = None
) -> AnyArray | Matrix:
    if out is not None:
        raise TypeError("sum: out= is not supported for an active sparse matrix")
    row, column, values = entries(self)
    values = asarray(values, dtype)
    if axis is None:
        return _core.sum(values)
    at, count = (column, self.shape[1]) if axis in {0, -2} else (row, self.shape[0])
    total = _core.index_add(np.zeros(count, values.dtype), at.astype(np.int64), values)
    return (
        Matrix(total.reshape((1, -1) if axis in {0, -2} else (-1, 1)))
        if _is_matrix(self)
        else total
    )


_when_active(_sum, "_base._spbase.sum", "_compressed._cs_matrix.sum", "_dia._dia_base.sum")


def _todense(self: Sparse, order: str | None = None, out: object = None) -> AnyArray | Matrix:
    del order
    if out is not None:
        raise TypeError("todense: out= is not supported for an active sparse matrix")
    return Matrix(toarray(self)) if _is_matrix(self) else toarray(self)


_when_active(_todense, "_base._spbase.todense", "_matrix.spmatrix.todense")


def _joined(self: Sparse, other: Sparse, sign: int) -> Sparse:
    if self.shape != other.shape:
        raise ValueError("inconsistent shapes")
    row, column, values = entries(self)
    row2, column2, values2 = entries(other)
    values = np.concatenate([asarray(values), sign * asarray(values2)])
    places = np.concatenate([row, row2]), np.concatenate([column, column2])
    form = self.format if self.format in {"csr", "csc"} else "csr"
    return _coo(self, values, places, self.shape).asformat(form)


for _owner in ("_base._spbase", "_coo._coo_base", "_compressed._cs_matrix"):
    _when_active(lambda self, other: _joined(self, other, 1), f"{_owner}._add_sparse")
    _when_active(lambda self, other: _joined(self, other, -1), f"{_owner}._sub_sparse")
_when_active(
    lambda self, other, sub=False: _joined(self, other, -1 if sub else 1),
    "_dia._dia_base._add_sparse",
)


def product(a: Sparse, b: Sparse) -> Sparse:
    """Multiply two sparse matrices: each element of one with a row of the other."""
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"matmul: sparse matrices of shapes {a.shape} and {b.shape} do not fit")
    row, middle, values = entries(a)
    row2, column2, values2 = entries(b)
    order = np.argsort(row2, kind="stable")
    starts = np.searchsorted(row2[order], np.arange(b.shape[0] + 1))
    counts = np.diff(starts)[middle]
    left = np.repeat(np.arange(row.size), counts)
    within = np.arange(left.size) - np.repeat(np.cumsum(counts) - counts, counts)
    right = order[np.repeat(starts[middle], counts) + within]
    values = asarray(values)[left] * asarray(values2)[right]
    made = _coo(a, values, (row[left], column2[right]), (a.shape[0], b.shape[1]))
    return made.asformat("csr")


def _multiply(self: Sparse, other: Any) -> Sparse:
    """Multiply element by element; of two sparse matrices there is what both have."""
    if not hasattr(other, "tocoo") or other.shape != self.shape:
        made: Sparse = method_of(f"{_HERE}._base._spbase", "multiply")(self, other)
        return made
    if holds_written(self) or holds_written(other):
        self, other = self.tocsr(), other.tocsr()
    (row, column, values), (row2, column2, values2) = map(_summed, (self, other))
    keys = [r.astype(np.int64) * self.shape[1] + c for r, c in ((row, column), (row2, column2))]
    _, at, at2 = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    both = asarray(values)[at] * asarray(values2)[at2]
    return _coo(self, both, (row[at], column[at]), self.shape).asformat("csr")


_when_active(_multiply, "_base._spbase.multiply")


# --------------------------------------------------------------------------------------------------
# Matrices that are made of others


def _diagonals(
    diagonals: Any, offsets: ArrayLike, shape: Shape | None
) -> tuple[AnyArray, _Places, Shape]:
    """Give values, places and the shape of a matrix of diagonals."""
    if np.ndim(offsets) == 0:
        one = is_array(diagonals) or len(diagonals) == 0 or np.ndim(diagonals[0]) == 0
        diagonals = [diagonals] if one else diagonals
    steps: list[int] = np.atleast_1d(offsets).tolist()
    diagonals = [np.atleast_1d(asarray(d)) for d in diagonals]
    if len(diagonals) != len(steps):
        raise ValueError("diags: as many diagonals as offsets are needed")
    if shape is None:
        size = len(diagonals[0]) + abs(steps[0])
        shape = size, size
    values, rows, columns = [], [], []
    for diagonal, k in zip(diagonals, steps, strict=True):
        length = min(shape[0] + min(k, 0), shape[1] - max(k, 0))
        if length < 0:
            raise ValueError(f"diags: a matrix of shape {shape} has no diagonal {k}")
        if diagonal.ndim > 1:
            raise ValueError(f"diags: a diagonal has one axis, not the shape {diagonal.shape}")
        if len(diagonal) != 1 and len(diagonal) < length:
            raise ValueError(
                f"diags: a diagonal of length {len(diagonal)} does not agree with the shape {shape}"
            )
        # as in SciPy, the rest of one that is too long is left out
        values.append(np.broadcast_to(diagonal[:length], (length,)))
        rows.append(np.arange(length) - min(k, 0))
        columns.append(np.arange(length) + max(k, 0))
    return np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)), shape


def _lift_diagonals(name: str, kind: str) -> None:
    @override(f"{_HERE}.{name}")
    def diags(diagonals: ArrayLike | Sequence[ArrayLike], /, offsets: ArrayLike = 0,
              shape: Shape | None = None, format: str | None = None,
              dtype: DTypeLike | None = None) -> Sparse:  # fmt: skip
        made: Sparse
        if not contains_active(diagonals):
            made = locate_original(f"{_HERE}.{name}")(
                diagonals, offsets=offsets, shape=shape, format=format, dtype=dtype
            )
            return made
        values, places, shape = _diagonals(diagonals, offsets, shape)
        values = values if dtype is None else values.astype(dtype)
        made = locate(f"{_HERE}.coo_{kind}")((values, places), shape=shape)
        return made.asformat("csr" if format in {None, "dia"} else format)


_lift_diagonals("diags", "matrix")
_lift_diagonals("diags_array", "array")


@override(f"{_HERE}.spdiags")
def spdiags(
    data: ArrayLike,
    diags: ArrayLike,
    m: int | Shape | None = None,
    n: int | None = None,
    format: str | None = None,
) -> Sparse:
    shape = m if m is None or np.ndim(m) else (m, n)
    made: Sparse = locate(f"{_HERE}.dia_matrix")((asarray(data), diags), shape=shape)
    return made.asformat(format)


@override(f"{_HERE}.kron", when=ALWAYS)
def kron(A: Any, B: Any, format: str | None = None) -> Sparse:  # noqa: N803
    parts: list[Sparse] = [X if hasattr(X, "tocoo") else _of_dense(X) for X in (A, B)]
    if not any(map(has_active_entries, parts)):
        own = parts if contains_active((A, B)) else (A, B)
        made: Sparse = locate_original(f"{_HERE}.kron")(*own, format)
        return made
    (row, column, values), (row2, column2, values2) = map(entries, parts)
    m, n = parts[1].shape
    places = (
        (row[:, None] * m + row2).reshape(-1).astype(np.int64),
        (column[:, None] * n + column2).reshape(-1).astype(np.int64),
    )
    values = (asarray(values)[:, None] * asarray(values2)).reshape(-1)
    like = next(part for part in parts if has_active_entries(part))
    shape = parts[0].shape[0] * m, parts[0].shape[1] * n
    return _coo(like, values, places, shape).asformat(format or "csr")


def _of_dense(x: ArrayLike) -> Sparse:
    """Give all elements of a dense matrix; of one axis it is a row."""
    dense = np.atleast_2d(asarray(x))
    row, column = np.indices(dense.shape)
    places = row.reshape(-1), column.reshape(-1)
    made: Sparse = locate(f"{_HERE}.coo_matrix")((dense.reshape(-1), places), shape=dense.shape)
    return made


# --------------------------------------------------------------------------------------------------
# Decompositions


def solved(name: str, factors: Any, rhs: ArrayLike, trans: str) -> AnyArray:
    """Solve with factors of a constant matrix; the derivative solves with its adjoint."""
    x: AnyArray
    if not is_array(rhs):
        x = factors.solve(rhs, trans)
        return x
    if trans == "T":  # the adjoint of the transpose is the conjugate
        return linear(name, lambda b: factors.solve(b, trans),
                      lambda ct: np.conj(factors.solve(np.conj(ct), "N")))(rhs)  # fmt: skip
    back = {"N": "H", "H": "N"}.get(trans, trans)
    return linear(name, lambda b: factors.solve(b, trans),
                  lambda ct: factors.solve(ct, back))(rhs)  # fmt: skip


class Factored:
    """What `splu` gives, for active right-hand sides or elements."""

    def __init__(self, name: str, matrix: Sparse, options: Kwargs) -> None:
        self._name, self._matrix = name, matrix
        active = has_active_entries(matrix)
        compute = locate_original(f"{_HERE}.linalg.{name}")
        self._factors = None if active else compute(matrix, **options)

    def solve(self, rhs: ArrayLike, trans: str = "N") -> AnyArray:
        """Solve with the matrix, its transpose (T) or its adjoint (H)."""
        x: AnyArray
        if self._factors is None:
            turned = {"N": self._matrix, "T": self._matrix.T, "H": self._matrix.conj().T}[trans]
            x = spsolve(turned.tocsc(), rhs).reshape(np.shape(rhs))
            return x
        x = solved(f"{self._name}.solve", self._factors, rhs, trans)
        return x

    def __getattr__(self, name: str) -> Any:
        if self._factors is None:
            raise AttributeError(
                f"{self._name}: {name!r} of an active matrix has no derivative rule; use solve"
            )
        return getattr(self._factors, name)


@override(f"{_HERE}.linalg.splu", when=ALWAYS)
def splu(A: MatrixLike, *args: object, **options: object) -> Factored:  # noqa: N803
    names = ("permc_spec", "diag_pivot_thresh", "relax", "panel_size", "options")
    return Factored("splu", settled(A), {**dict(zip(names, args, strict=False)), **options})


class _Incomplete:
    """What `spilu` gives for active elements: a preconditioner, which needs no derivative."""

    def __init__(self, matrix: Sparse, args: Args, options: Kwargs) -> None:
        self._values = entries(matrix)[2]
        constant = as_constant(matrix, []).tocsc()
        self._factors = locate_original(f"{_HERE}.linalg.spilu")(constant, *args, **options)

    def solve(self, rhs: ArrayLike, trans: str = "N") -> AnyArray:
        x = self._factors.solve(to_numpy(rhs), trans)
        instead = "use splu, or pass it to an iterative solver as M="
        return without_rule("what spilu(A).solve(b) gives", x, self._values, instead)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._factors, name)


@override(f"{_HERE}.linalg.spilu", when=ALWAYS)
def spilu(A: MatrixLike, *args: object, **options: object) -> Any:  # noqa: N803
    matrix = settled(A)
    if has_active_entries(matrix):
        return _Incomplete(matrix, args, options)
    return locate_original(f"{_HERE}.linalg.spilu")(matrix, *args, **options)


@override(f"{_HERE}.linalg.spsolve_triangular", when=ALWAYS)
def spsolve_triangular(
    A: MatrixLike,  # noqa: N803
    b: ArrayLike,
    lower: bool = True,
    overwrite_A: bool = False,  # noqa: N803
    overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> AnyArray:
    compute = locate_original(f"{_HERE}.linalg.spsolve_triangular")
    matrix, b = settled(A), gathered(b)
    x: AnyArray
    if not (has_active_entries(matrix) or is_array(b)):
        x = compute(matrix, b, lower, overwrite_A, overwrite_b, unit_diagonal)
        return x
    row, column, values = entries(matrix)
    side = (row > column if lower else row < column) | ((row == column) & (not unit_diagonal))
    if np.any(to_numpy(values)[(row < column) if lower else (row > column)]):
        raise ValueError(
            "spsolve_triangular: the matrix has elements on the other side of the diagonal; use "
            f"{'tril' if lower else 'triu'}(A)"
        )
    ones = np.arange(matrix.shape[0] if unit_diagonal else 0)
    places = np.concatenate([row[side], ones]), np.concatenate([column[side], ones])
    values = np.concatenate([asarray(values)[side], np.ones(ones.size, values.dtype)])
    triangle = locate(f"{_HERE}.csc_array")((values, places), shape=matrix.shape)
    x = spsolve(triangle, b).reshape(np.shape(b))
    return x


@override(f"{_HERE}.linalg.inv", when=ALWAYS)
def inverse(A: MatrixLike) -> Sparse:  # noqa: N803
    matrix = settled(A)
    made: Sparse
    if not has_active_entries(matrix):
        made = locate_original(f"{_HERE}.linalg.inv")(matrix)
    else:
        made = type(matrix)(np.linalg.inv(toarray(matrix)))
    return made


@override(f"{_HERE}.linalg.expm", when=ALWAYS)
def expm(A: Any) -> Any:  # noqa: N803
    if is_array(A):
        return locate("scipy.linalg.expm")(A)
    matrix = settled(A)
    if not has_active_entries(matrix):
        return locate_original(f"{_HERE}.linalg.expm")(matrix)
    return type(matrix)(locate("scipy.linalg.expm")(toarray(matrix)))


@override(f"{_HERE}.linalg.factorized", when=ALWAYS)
def factorized(A: MatrixLike) -> Callable[[ArrayLike], AnyArray]:  # noqa: N803
    return splu(A).solve
