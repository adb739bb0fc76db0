"""Sparse Jacobians and Hessians: patterns from programs, entries from few products.

The function is traced once, as a function of one vector that gives one vector. Its pullback is a
program, of which the pattern is read; the pullback of the pullback, which is linear in the
cotangent, is the pushforward. Products with all colors of a coloring are one run of a program that
was mapped over them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._src.api.sparsity import Coloring, SparsityPattern, scipy_sparse, transpose
from cotan._src.typing import AnyArray, Args, Function, NDArray

#: What `sparse=` takes.
Sparse: TypeAlias = bool | SparsityPattern | Coloring

#: So many products are computed at once: more need memory, fewer passes over it.
_TOGETHER = 32


def jacobian_sparsity(function: Function, *args: Any) -> SparsityPattern:
    """Find which elements of the result of a function depend on which elements of its arguments.

    The function is traced at these arguments, and sets of elements are passed through the program
    of its pullback. No value plays a part, but for constant indices: the pattern holds wherever the
    function takes the same branches. No entry is missing from it; entries that cancel, and those of
    indices that depend on the arguments, may be zero.

    Parameters
    ----------
    function
        Gives an array or a number, or a structure of them.
    args
        Arrays and structures of them, as `jacobian` takes them. What is inside `ct.const` is
        constant.

    Returns
    -------
    SparsityPattern
        Of shape (elements of the result, elements of the arguments), arrays one after the other,
        each in row-major order.

    Raises
    ------
    TypeError
        When arguments or results are complex, or there is nothing to differentiate with respect to.
    ValueError
        When the pattern has more than 2**28 entries.
    NotDifferentiableError
        When something on the way has no derivative.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.jacobian_sparsity(lambda x: np.diff(x**2), np.ones(4)).to_scipy().toarray().astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    return _Traced("jacobian_sparsity", function, args).pattern()


def hessian_sparsity(function: Function, x: Any) -> SparsityPattern:
    """Find which second derivatives of a scalar function may differ from zero.

    It is `jacobian_sparsity` of the gradient, made symmetric.

    Parameters
    ----------
    function
        Of one array or structure, returns a real scalar.
    x
        The point, of which shapes matter, and values for branches.

    Returns
    -------
    SparsityPattern
        Symmetric, of as many rows and columns as `x` has elements.

    Raises
    ------
    TypeError, ValueError, NotDifferentiableError
        As `jacobian_sparsity`; `ValueError` also when the function does not return a real scalar.

    >>> import cotan as ct
    >>> import numpy as np
    >>> def energy(x):
    ...     return np.sum((x[1:] - x[:-1] ** 2) ** 2)
    >>> ct.hessian_sparsity(energy, np.ones(4)).to_scipy().toarray().astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 1, 0],
           [0, 1, 1, 1],
           [0, 0, 1, 1]])
    """
    return _Traced("hessian_sparsity", _gradient_of(function), (x,)).pattern(symmetric=True)


def sparse_jacobian(name: str, function: Function, args: Args, sparse: Sparse, check: bool) -> Any:
    """Compute a Jacobian as a `csr_array`, or as a structure of them."""
    traced = _Traced(name, function, args)
    matrix = traced.matrix(sparse, check, symmetric=False)
    return traced.blocks(matrix)


def sparse_hessian(name: str, function: Function, x: Any, sparse: Sparse, check: bool) -> Any:
    """Compute a Hessian as a `csr_array`."""
    return _Traced(name, _gradient_of(function), (x,)).matrix(sparse, check, symmetric=True)


def _gradient_of(function: Function) -> Callable[[Any], Any]:
    """Give the function whose Jacobian is the Hessian."""

    def gradient(x: Any) -> Any:
        structure = _core.structure(x, root="x")
        (found,) = _core.gradient(function, x)
        beside = structure.align(found, "hessian")
        pairs = zip(structure.leaves, beside, strict=True)
        return [np.zeros(np.shape(leaf)) if d is None else d for leaf, d in pairs]

    return gradient


@dataclass
class _Leaf:
    """An array inside a structure: where it lies in the vector."""

    path: str
    shape: tuple[int, ...]
    dtype: Any
    start: int
    stop: int


class _Traced:
    """A function as a program from a vector to a vector, at a point."""

    def __init__(self, name: str, function: Function, args: Args) -> None:
        self.name = name
        self.structure = _core.structure(args, root="args")
        leaves = self.structure.leaves
        self.arguments = list(_placed(name, "argument", leaves, self.structure.paths))
        if not self.arguments:
            raise TypeError(
                f"{name}: there is no array among the arguments to differentiate with respect to"
            )
        self.point = _vector(leaves)
        if np.dtype(self.point.dtype).kind != "f":
            raise TypeError(f"{name}: no argument is of a float dtype; cast one of them")
        self.results: list[_Leaf] = []
        self.result_structure: _core._Structure

        def flat(vector: _core.Array) -> AnyArray:
            built = self.structure.build([_piece(vector, leaf) for leaf in self.arguments])
            self.result_structure = _core.structure(function(*built), root="result")
            found = self.result_structure.leaves
            self.results = list(_placed(name, "result", found, self.result_structure.paths))
            return _vector(found)

        program = _core.trace(flat, self.point)
        self.pull = program._pullback([True])
        self.shape = (self.results[-1].stop if self.results else 0, self.arguments[-1].stop)

    @property
    def is_constant(self) -> bool:
        """Whether no result depends on an argument."""
        return not self.pull.outputs

    def pattern(self, symmetric: bool = False) -> SparsityPattern:
        """Read the pattern off the pullback, whose pattern is the transposed one."""
        rows, columns = self.shape
        if self.is_constant:
            return SparsityPattern(self.shape, np.zeros(rows + 1), np.zeros(0), symmetric)
        indptr, indices = _core.dependence(self.pull, [False, True])
        back = SparsityPattern((columns, rows), indptr, indices)
        return _symmetrized(back) if symmetric else transpose(back)

    def matrix(self, sparse: Sparse, check: bool, symmetric: bool) -> Any:
        """Compute the entries of a coloring."""
        coloring = self._coloring(sparse, symmetric)
        pattern = coloring.pattern
        if self.is_constant:
            values: AnyArray = np.zeros(pattern.nnz, self.point.dtype)
        else:
            products = self._products(coloring)
            values = products[coloring.places] if pattern.nnz else np.zeros(0, self.point.dtype)
        entries = values, pattern.indices.copy(), pattern.indptr.copy()
        matrix = scipy_sparse(self.name).csr_array(entries, shape=self.shape)
        if check:
            self._compare(matrix)
        return matrix

    def _coloring(self, sparse: Sparse, symmetric: bool) -> Coloring:
        """Give what was asked for, or find it."""
        if sparse is True:
            return self.pattern(symmetric).color()
        if not isinstance(sparse, SparsityPattern | Coloring):
            raise TypeError(
                f"{self.name}: sparse is True, a SparsityPattern or a Coloring, not "
                f"{type(sparse).__name__}; SparsityPattern.from_scipy makes one of a matrix"
            )
        pattern = sparse.pattern if isinstance(sparse, Coloring) else sparse
        if pattern.shape != self.shape:
            raise ValueError(
                f"{self.name}: the pattern has shape {pattern.shape}, the derivative {self.shape}: "
                "a row for each element of the result, a column for each element of the arguments"
            )
        if pattern.symmetric and not symmetric:
            raise ValueError(
                f"{self.name}: the pattern is that of a symmetric matrix, which a Jacobian need "
                "not be; make it with symmetric=False"
            )
        return sparse if isinstance(sparse, Coloring) else sparse.color()

    def _products(self, coloring: Coloring) -> AnyArray:
        """Compute the products with all colors, one behind the other, those from the right first."""
        rows, columns = self.shape
        products: list[AnyArray] = []
        if coloring.column_colors is not None:
            push, zeros = self._pushforward()
            found = _mapped(push, (self.point, zeros), coloring.column_colors, self.point.dtype)
            products.extend(found)
        if coloring.row_colors is not None:
            products.extend(_mapped(self.pull, (self.point,), coloring.row_colors, self._dtype))
        if not products:
            return np.zeros(0, self.point.dtype)
        flat = [np.reshape(product, -1) for product in products]
        return flat[0] if len(flat) == 1 else np.concatenate(flat)

    @property
    def _dtype(self) -> Any:
        """The dtype of the result."""
        return self.pull.inputs[1].dtype

    def _pushforward(self) -> tuple[_core.Program, NDArray]:
        """Transpose the pullback; it takes a cotangent, too, on which nothing depends."""
        return self.pull._pullback([False, True]), np.zeros(self.shape[0], self._dtype)

    def _compare(self, matrix: Any) -> None:
        """Compare a product with a random vector."""
        direction = np.random.default_rng(0).uniform(0.5, 1.5, self.shape[1])
        direction = direction.astype(self.point.dtype)
        if self.is_constant:
            return
        push, zeros = self._pushforward()
        point = _core.value(self.point)
        expected = np.asarray(push(point, zeros, direction))
        values = _core.value(matrix.data)
        rows = np.repeat(np.arange(self.shape[0]), np.diff(matrix.indptr))
        terms = values * direction[matrix.indices]
        found = np.bincount(rows, terms, minlength=self.shape[0])
        size = np.bincount(rows, abs(terms), minlength=self.shape[0]) + abs(expected)
        tolerance = np.sqrt(np.finfo(expected.dtype).eps)
        wrong = np.flatnonzero(~(abs(found - expected) <= tolerance * size))
        wrong = wrong[np.isfinite(expected[wrong])]
        if len(wrong):
            raise ValueError(
                f"{self.name}: the pattern does not cover the derivative: {len(wrong)} of "
                f"{self.shape[0]} rows differ from a product with a vector, the first of them row "
                f"{wrong[0]}; find the pattern anew at this point"
            )

    def blocks(self, matrix: Any) -> Any:
        """Cut a matrix into one block for each result and argument, in their structures."""
        rows = self.results
        if len(rows) == 1 and len(self.arguments) == 1:
            return matrix
        return self.result_structure.build(
            [self._across(matrix[row.start : row.stop], matrix.shape[1]) for row in rows]
        )

    def _across(self, rows: Any, columns: int) -> Any:
        """Cut some rows into blocks, in the structure of the arguments."""
        columnwise = rows.tocsc()
        pieces = [columnwise[:, a.start : a.stop].tocsr() for a in self.arguments]
        built: Any = self.structure.build(pieces)
        return built[0] if len(built) == 1 else built


def _placed(name: str, kind: str, leaves: Any, paths: Any) -> Iterator[_Leaf]:
    """Say where arrays lie in the vector of all of their elements."""
    start = 0
    for leaf, path in zip(leaves, paths, strict=True):
        dtype = np.dtype(leaf.dtype) if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
        if dtype.kind == "c":
            raise TypeError(
                f"{name}: {kind} {path} is complex; sparse derivatives are of real arrays: split it "
                "into real and imaginary part"
            )
        shape = tuple(np.shape(leaf))
        stop = start + int(np.prod(shape))
        yield _Leaf(path, shape, dtype, start, stop)
        start = stop


def _vector(leaves: Any) -> AnyArray:
    """Put the elements of arrays one behind the other."""
    flat = [leaf if np.ndim(leaf) == 1 else np.reshape(leaf, -1) for leaf in leaves]
    if not flat:
        return np.zeros(0)
    vector: AnyArray = flat[0] if len(flat) == 1 else np.concatenate(flat)
    return vector


def _piece(vector: _core.Array, leaf: _Leaf) -> Any:
    """Take an array out of the vector."""
    whole = leaf.start == 0 and leaf.stop == vector.size
    piece = vector if whole else vector[leaf.start : leaf.stop]
    if leaf.shape != (leaf.stop - leaf.start,):
        piece = np.reshape(piece, leaf.shape)
    return piece if piece.dtype == leaf.dtype else piece.astype(leaf.dtype)


def _symmetrized(pattern: SparsityPattern) -> SparsityPattern:
    """Unite a pattern with its transpose: in a pullback of a gradient one of the two may be wider."""
    back = transpose(pattern)
    if np.array_equal(back.indptr, pattern.indptr) and np.array_equal(
        back.indices, pattern.indices
    ):
        return SparsityPattern(pattern.shape, pattern.indptr, pattern.indices, symmetric=True)
    size = pattern.shape[0]
    keys = [
        np.repeat(np.arange(size), np.diff(p.indptr)) * size + p.indices for p in (pattern, back)
    ]
    entries = np.unique(np.concatenate(keys))
    counts = np.bincount(entries // size, minlength=size)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return SparsityPattern(pattern.shape, indptr, entries % size, symmetric=True)


def _mapped(
    program: _core.Program, fixed: tuple[AnyArray, ...], colors: NDArray, dtype: Any
) -> Iterator[AnyArray]:
    """Apply a linear program to the sum of the unit vectors of each color."""
    count = int(colors.max()) + 1
    one = [False] * len(fixed)
    for first in range(0, count, _TOGETHER):
        size = min(_TOGETHER, count - first)
        seeds = (colors == np.arange(first, first + size)[:, None]).astype(dtype)
        try:
            mapped = program._vmap([*one, True], size)
        except ValueError:
            # It calls back into Python, with values of one product at a time.
            yield from (program(*fixed, seed) for seed in seeds)
        else:
            yield mapped(*fixed, seeds)
