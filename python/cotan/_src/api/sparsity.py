"""Patterns of sparse derivatives and their colorings: what is known of a Jacobian before values."""

import importlib
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from cotan import _core
from cotan._src.typing import NDArray

#: How the columns and rows of a Jacobian are grouped.
Partition: TypeAlias = Literal["auto", "column", "row", "bidirectional", "symmetric"]


class SparsityPattern:
    """The entries of a Jacobian or Hessian that may differ from zero.

    `jacobian_sparsity` and `hessian_sparsity` find it, `from_scipy` takes it from a matrix. It
    never changes, compares equal to patterns with the same entries, and can be pickled.

    Attributes
    ----------
    shape : tuple[int, int]
        Rows, one for each element of the result, and columns, one for each element of the
        argument.
    indptr, indices : ndarray of int32
        The entries by row, as in `scipy.sparse.csr_array`: `indices[indptr[i]:indptr[i + 1]]` are
        the columns of row `i`, in ascending order.
    symmetric : bool
        Whether it is the pattern of a symmetric matrix, so that one of two equal entries is enough.

    >>> import cotan as ct
    >>> import numpy as np
    >>> pattern = ct.jacobian_sparsity(lambda x: x[1:] * x[:-1], np.ones(4))
    >>> pattern
    <SparsityPattern: shape (3, 4), 6 entries>
    >>> pattern.indices
    array([0, 1, 1, 2, 2, 3], dtype=int32)
    """

    __slots__ = ("indices", "indptr", "shape", "symmetric")

    shape: tuple[int, int]
    indptr: NDArray
    indices: NDArray
    symmetric: bool

    def __init__(
        self, shape: tuple[int, int], indptr: NDArray, indices: NDArray, symmetric: bool = False
    ) -> None:
        rows, columns = shape
        if len(indptr) != rows + 1:
            raise ValueError(
                f"SparsityPattern: indptr has length {len(indptr)}; {rows} rows need {rows + 1}"
            )
        if symmetric and rows != columns:
            raise ValueError(f"SparsityPattern: shape {shape} is not that of a symmetric matrix")
        self.shape = (int(rows), int(columns))
        self.indptr = _frozen(indptr)
        self.indices = _frozen(indices)
        self.symmetric = bool(symmetric)

    @classmethod
    def from_scipy(cls, matrix: Any, symmetric: bool = False) -> "SparsityPattern":
        """Take the stored entries of a SciPy matrix or array, explicit zeros too, as a pattern.

        Parameters
        ----------
        matrix
            A sparse array or matrix of any format, or a dense array, of which entries other than
            zero count.
        symmetric
            Whether it is the pattern of a Hessian.

        Raises `ValueError` when `symmetric` is set and the pattern is not.

        >>> import cotan as ct
        >>> import numpy as np
        >>> ct.SparsityPattern.from_scipy(np.eye(3), symmetric=True)
        <SparsityPattern: shape (3, 3), 3 entries, symmetric>
        """
        sparse = scipy_sparse("SparsityPattern.from_scipy")
        csr = sparse.csr_array(matrix, copy=True)
        csr.data = np.ones(csr.data.shape, bool)
        csr.sum_duplicates()
        pattern = cls(csr.shape, csr.indptr, csr.indices, symmetric)
        if symmetric and (csr != csr.T).nnz:
            raise ValueError(
                "SparsityPattern.from_scipy: the pattern is not symmetric; take the union of the "
                "matrix and its transpose"
            )
        return pattern

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return len(self.indices)

    def to_scipy(self) -> Any:
        """Give the pattern as a `scipy.sparse.csr_array` of True."""
        sparse = scipy_sparse("SparsityPattern.to_scipy")
        entries = (np.ones(self.nnz, bool), self.indices.copy(), self.indptr.copy())
        return sparse.csr_array(entries, shape=self.shape)

    def color(self, partition: Partition = "auto") -> "Coloring":
        """Group columns and rows, so that a product with each group gives all entries.

        Parameters
        ----------
        partition
            "column": columns that share no row, one product J s in forward mode for each group.
            "row": rows that share no column, one product sᵀ J in reverse mode for each group.
            "bidirectional": the fullest rows by the second, the others by the first, where that
            needs fewer products than either alone. "symmetric": groups of columns of a symmetric
            pattern, where one of two equal entries is enough (a star coloring). "auto":
            "symmetric" for symmetric patterns, else "bidirectional".

        Returns
        -------
        Coloring

        Raises `ValueError` when there is no such partition, and for "symmetric" when the pattern
        is not.

        The algorithms are greedy: Gebremedhin, Manne and Pothen, What Color Is Your Jacobian?
        (SIAM Review 47, 2005); for star colorings Gebremedhin, Tarafdar, Manne and Pothen (SIAM J.
        Sci. Comput. 29, 2007); for both directions Coleman and Verma (SIAM J. Sci. Comput. 19,
        1998).

        >>> import cotan as ct
        >>> import numpy as np
        >>> def function(x):
        ...     return np.concatenate([x[:1] * np.sum(x), x[0] + x[1:] ** 2])
        >>> pattern = ct.jacobian_sparsity(function, np.ones(50))
        >>> pattern.color("column").num_colors, pattern.color().num_colors
        (50, 3)
        """
        if partition == "auto":
            partition = "symmetric" if self.symmetric else "bidirectional"
        rows, columns = self.shape
        entries = columns, self.indptr, self.indices
        if partition == "column":
            return Coloring(self, None, _core.color_columns(*entries))
        if partition == "row":
            transposed = transpose(self)
            colors = _core.color_columns(rows, transposed.indptr, transposed.indices)
            return Coloring(self, colors, None)
        if partition == "bidirectional":
            left, right = _core.color_both(*entries)
            return Coloring(self, left, right)
        if partition == "symmetric":
            if not self.symmetric:
                raise ValueError(
                    'color: partition="symmetric" needs a symmetric pattern, as hessian_sparsity '
                    "finds it"
                )
            return Coloring(self, None, _core.color_columns(*entries, symmetric=True))
        raise ValueError(
            'color: partition is "auto", "column", "row", "bidirectional" or "symmetric", not '
            f"{partition!r}"
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SparsityPattern)
            and self.shape == other.shape
            and self.symmetric == other.symmetric
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.symmetric, self.indices.tobytes()))

    def __repr__(self) -> str:
        symmetric = ", symmetric" if self.symmetric else ""
        return f"<SparsityPattern: shape {self.shape}, {self.nnz} entries{symmetric}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return SparsityPattern, (self.shape, self.indptr, self.indices, self.symmetric)


class Coloring:
    """Groups of columns and rows of a pattern: by how few products its entries are found.

    `SparsityPattern.color` makes it. It is given to `jacobian` and `hessian` as `sparse=`, as often
    as the pattern holds, and can be pickled.

    Attributes
    ----------
    pattern : SparsityPattern
        What was colored.
    row_colors, column_colors : ndarray of int32, or None
        The group of each row and column, -1 for none; None where no row or column has one.

    >>> import cotan as ct
    >>> import numpy as np
    >>> coloring = ct.jacobian_sparsity(lambda x: x[1:] * x[:-1], np.ones(5)).color()
    >>> coloring
    <Coloring: 2 colors of columns, 0 of rows>
    >>> coloring.column_colors
    array([0, 1, 0, 1, 0], dtype=int32)
    """

    pattern: SparsityPattern
    row_colors: NDArray | None
    column_colors: NDArray | None

    def __init__(
        self, pattern: SparsityPattern, row_colors: NDArray | None, column_colors: NDArray | None
    ) -> None:
        self.pattern = pattern
        self.row_colors = _used(row_colors)
        self.column_colors = _used(column_colors)

    @property
    def num_row_colors(self) -> int:
        """The number of products from the left, in reverse mode."""
        return _count(self.row_colors)

    @property
    def num_column_colors(self) -> int:
        """The number of products from the right, in forward mode."""
        return _count(self.column_colors)

    @property
    def num_colors(self) -> int:
        """The number of products."""
        return self.num_row_colors + self.num_column_colors

    @cached_property
    def places(self) -> NDArray:
        """Where each entry of the pattern is among the products: those from the right come first.

        Entry `(i, j)` is element `i` of the product with the color of column `j`, or element `j`
        of that with the color of row `i`. Of a star coloring, where column `j` is not the only one
        of its color in row `i`, it is the entry `(j, i)`.
        """
        pattern = self.pattern
        count, size = pattern.shape
        rows = np.repeat(np.arange(count), np.diff(pattern.indptr))
        columns = pattern.indices.astype(np.int64)
        places = np.zeros(pattern.nnz, np.int64)
        if self.column_colors is not None:
            colors = self.column_colors.astype(np.int64)
            places = colors[columns] * count + rows
            if pattern.symmetric:
                # Each place that several entries would be read off has their sum.
                _, which, times = np.unique(places, return_inverse=True, return_counts=True)
                places = np.where(times[which] == 1, places, colors[rows] * count + columns)
        if self.row_colors is not None:
            colors = self.row_colors.astype(np.int64)
            left = self.num_column_colors * count + colors[rows] * size + columns
            places = np.where(colors[rows] >= 0, left, places)
        return places

    def __repr__(self) -> str:
        return (
            f"<Coloring: {self.num_column_colors} colors of columns, {self.num_row_colors} of rows>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Coloring, (self.pattern, self.row_colors, self.column_colors)


def transpose(pattern: SparsityPattern) -> SparsityPattern:
    """Exchange rows and columns."""
    rows, columns = pattern.shape
    counts = np.bincount(pattern.indices, minlength=columns)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    # A stable sort keeps the rows of each column in order.
    order = np.argsort(pattern.indices, kind="stable")
    indices = np.repeat(np.arange(rows), np.diff(pattern.indptr))[order]
    return SparsityPattern((columns, rows), indptr, indices, pattern.symmetric)


def scipy_sparse(name: str) -> Any:
    """Import `scipy.sparse`, which cotan itself does not need."""
    try:
        return importlib.import_module("scipy.sparse")
    except ImportError as error:
        raise ImportError(f"{name}: sparse arrays are those of SciPy, which is not here") from error


def _frozen(indices: NDArray) -> NDArray:
    array = np.array(indices, np.int32)
    array.flags.writeable = False
    return array


def _used(colors: NDArray | None) -> NDArray | None:
    """Give the colors, or None where nothing has one."""
    if colors is None or not np.any(np.asarray(colors) >= 0):
        return None
    return _frozen(colors)


def _count(colors: NDArray | None) -> int:
    return 0 if colors is None else int(colors.max()) + 1
