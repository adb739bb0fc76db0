"""Sparse Jacobians and Hessians: patterns from programs, entries from few products.

The function is traced once, as a function of one vector that gives one vector. Its pullback is a
program, of which the pattern is read; the pullback of the pullback, which is linear in the
cotangent, is the pushforward. Products with all colors of a coloring are one run of a program that
was mapped over them.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._src.api.selected import Selected, with_keywords
from cotan._src.api.sparsity import Coloring, SparsityPattern, scipy_sparse, transpose
from cotan._src.kit.host_call import writes_primitives
from cotan._src.runtime.loops import ENDLESS, fewest_steps
from cotan._src.tree.ravel import Unravel, ravel_floats
from cotan._src.tree.structure import integers_as_floats, without_constants
from cotan._src.typing import AnyArray, Args, Function, NDArray

#: What `sparse=` takes.
Sparse: TypeAlias = bool | SparsityPattern | Coloring

#: So many products are computed at once: more need memory, fewer passes over it.
_TOGETHER = 32


def jacobian_sparsity(function: Function, *args: Any, **kwargs: Any) -> SparsityPattern:
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
    kwargs
        Keyword arguments of the function, which are constant.

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
    return _Traced("jacobian_sparsity", with_keywords(function, kwargs), args).pattern()


def hessian_sparsity(function: Function, *args: Any, **kwargs: Any) -> SparsityPattern:
    """Find which second derivatives of a scalar function may differ from zero.

    It is `jacobian_sparsity` of the gradient, made symmetric.

    Parameters
    ----------
    function
        Returns a real scalar.
    args
        The point, of which shapes matter, and values for branches.
    kwargs
        Keyword arguments of the function, which are constant.

    Returns
    -------
    SparsityPattern
        Symmetric, of as many rows and columns as the arguments have elements.

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
    return _Traced("hessian_sparsity", with_keywords(function, kwargs), args, second=True).pattern()


def sparse_jacobian(call: Selected, sparse: Sparse, check: bool) -> Any:
    """Compute a Jacobian as a `csr_array`, or as a structure of them."""
    _expect_whole("jacobian", call)
    traced = _Traced("jacobian", call.function, call.arguments)
    matrix = traced.matrix(sparse, check)
    rows = [call.picked(row) for row in traced.blocks(matrix)]
    return _filled(traced.result, rows)


def sparse_hessian(call: Selected, sparse: Sparse, check: bool) -> Any:
    """Compute a Hessian as a `csr_array`, or as a structure of structures of them."""
    _expect_whole("hessian", call)
    traced = _Traced("hessian", call.function, call.arguments, second=True)
    matrix = traced.matrix(sparse, check)
    rows = [call.picked(row) for row in traced.blocks(matrix)]
    return call.picked(_by_argument(traced.args, rows))


class RepeatedMatrix:
    """A sparse Jacobian or Hessian of a function of one argument, at many points.

    The coloring is found once, and anew where the function takes another way: where its program is
    another one, or has other constant indices.
    """

    def __init__(self, name: str, sparse: Sparse, second: bool = False) -> None:
        self._name, self._sparse, self._second = name, sparse, second
        self._last: tuple[object, Sparse] = None, sparse

    def __call__(self, function: Function, point: object) -> Any:
        traced = _Traced(self._name, function, (point,), self._second)
        structure, coloring = self._last
        if self._sparse is True and not traced.is_constant:
            found = _structure(traced.pull)
            if found != structure:
                coloring = traced.coloring(True)
            self._last = found, coloring
        return traced.matrix(coloring, False)


def _structure(program: _core.Program) -> object:
    """Give what the pattern of a program depends on."""
    plain: Any = _core.plain(program)
    constants = [np.asarray(x) for x in plain["constants"]]
    indices = [x.tobytes() if x.dtype.kind in "iub" else None for x in constants]
    return plain["types"], plain["equations"], plain["outputs"], indices


def expect_real_call(name: str, *, has_aux: bool, holomorphic: bool = False) -> None:
    """Refuse what dense derivatives do besides."""
    for keyword, is_set in (("has_aux", has_aux), ("holomorphic", holomorphic)):
        if is_set:
            raise ValueError(f"{name}: {keyword}=True and sparse= do not go together")


def _expect_whole(name: str, call: Selected) -> None:
    if call.wrt is not None:
        raise ValueError(
            f"{name}: with sparse=, wrt= takes names and positions of arguments; hold parts of "
            "them constant with ct.const"
        )


class _Traced:
    """A function, or its gradient, as a program from a vector to a vector, at a point."""

    def __init__(self, name: str, function: Function, args: Args, second: bool = False) -> None:
        self.name = name
        self.symmetric = second
        self.args = tuple(map(integers_as_floats, args))
        self.point, self.columns = ravel_floats(self.args)
        if not self.columns.paths:
            raise TypeError(
                f"{name}: no argument has a float array or number to differentiate with respect to"
            )
        _expect_real(name, "arguments", self.columns)
        self.result: object = self.args
        self.rows = self.columns

        def called(vector: _core.Array) -> Any:
            return function(*without_constants(self.columns(vector)))

        def value(vector: _core.Array) -> AnyArray:
            found: AnyArray
            self.result = called(vector)
            found, self.rows = ravel_floats(self.result)
            return found

        def gradient(vector: _core.Array) -> AnyArray:
            (found,) = _core.gradient(called, vector)
            return np.zeros(self.columns.size) if found is None else found

        written_out = writes_primitives.set(True)
        loops = fewest_steps.set(ENDLESS)
        try:
            program = _core.trace(gradient if second else value, self.point)
        finally:
            fewest_steps.reset(loops)
            writes_primitives.reset(written_out)
        if not self.rows.paths:
            raise TypeError(f"{name}: there is no float array or number in what the function gives")
        _expect_real(name, "results", self.rows)
        self.pull = program._pullback([True])
        self.shape = (self.rows.size, self.columns.size)

    @property
    def is_constant(self) -> bool:
        """Whether no result depends on an argument."""
        return not self.pull.outputs

    def pattern(self) -> SparsityPattern:
        """Read the pattern off the pullback, whose pattern is the transposed one."""
        rows, columns = self.shape
        if self.is_constant:
            return SparsityPattern(self.shape, np.zeros(rows + 1), np.zeros(0), self.symmetric)
        indptr, indices = _core.dependence(self.pull, [False, True])
        back = SparsityPattern((columns, rows), indptr, indices)
        return _symmetrized(back) if self.symmetric else transpose(back)

    def matrix(self, sparse: Sparse, check: bool) -> Any:
        """Compute the entries of a coloring."""
        coloring = self.coloring(sparse)
        pattern = coloring.pattern
        values: AnyArray = np.zeros(pattern.nnz, self.columns.dtype)
        if pattern.nnz and not self.is_constant:
            values = self._products(coloring)[coloring.places]
            if values.dtype != self.columns.dtype:
                values = values.astype(self.columns.dtype)
        entries = values, pattern.indices.copy(), pattern.indptr.copy()
        matrix = scipy_sparse(self.name).csr_array(entries, shape=self.shape)
        if check:
            self._compare(matrix)
        return matrix

    def coloring(self, sparse: Sparse) -> Coloring:
        """Give what was asked for, or find it."""
        if sparse is True:
            return self._colored(self.pattern())
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
        if pattern.symmetric and not self.symmetric:
            raise ValueError(
                f"{self.name}: the pattern is that of a symmetric matrix, which a Jacobian need "
                "not be; make it with symmetric=False"
            )
        return sparse if isinstance(sparse, Coloring) else self._colored(sparse)

    def _colored(self, pattern: SparsityPattern) -> Coloring:
        """Choose a partition: products from the left alone, where others cannot be computed."""
        try:
            _ = self.push
        except _core.NotDifferentiableError:
            if self.symmetric:
                raise
            return pattern.color("row")
        return pattern.color()

    @cached_property
    def push(self) -> _core.Program:
        """The pushforward: the pullback transposed. The cotangent that it takes plays no part."""
        return self.pull._pullback([False, True])

    def _products(self, coloring: Coloring) -> AnyArray:
        """Compute the products with all colors, one behind the other, the column colors first."""
        products: list[AnyArray] = []
        if coloring.column_colors is not None:
            fixed = self.point, np.zeros(self.shape[0], self.rows.dtype)
            found = _mapped(self.push, fixed, coloring.column_colors, self.columns.dtype)
            products.extend(found)
        if coloring.row_colors is not None:
            dtype = self.rows.dtype
            products.extend(_mapped(self.pull, (self.point,), coloring.row_colors, dtype))
        flat = [np.reshape(product, -1) for product in products]
        return flat[0] if len(flat) == 1 else np.concatenate(flat)

    def _compare(self, matrix: Any) -> None:
        """Compare a product with a random vector, from the left."""
        if self.is_constant:
            return
        weights = np.random.default_rng(0).uniform(0.5, 1.5, self.shape[0])
        weights = weights.astype(self.rows.dtype)
        expected = np.asarray(self.pull(_core.value(self.point), weights))
        terms = _core.value(matrix.data) * np.repeat(weights, np.diff(matrix.indptr))
        found = np.bincount(matrix.indices, terms, minlength=self.shape[1])
        size = np.bincount(matrix.indices, abs(terms), minlength=self.shape[1]) + abs(expected)
        eps = max(np.finfo(vector.dtype).eps for vector in (self.rows, self.columns))
        # What cancels inside of the function leaves rounding errors of the size of other columns.
        tolerance = np.sqrt(eps) * size + 1e3 * eps * np.max(size, initial=0, where=size < np.inf)
        wrong = np.flatnonzero((abs(found - expected) > tolerance) & np.isfinite(expected))
        if len(wrong):
            raise ValueError(
                f"{self.name}: the pattern does not cover the derivative: {len(wrong)} of "
                f"{self.shape[1]} columns differ from those of a product with a vector, the first "
                f"of them column {wrong[0]}; find the pattern anew at this point"
            )

    def blocks(self, matrix: Any) -> Iterator[Args]:
        """Cut a matrix: for each array of the result what belongs to each argument."""
        if len(self.rows.paths) == len(self.columns.paths) == 1:
            yield _by_argument(self.args, [matrix])
            return
        for _, place in self.rows.paths:
            row = matrix[place].tocsc()
            blocks = [row[:, place].tocsr() for _, place in self.columns.paths]
            yield _by_argument(self.args, blocks)


def _by_argument(args: Args, blocks: list[Any]) -> Args:
    """Put a block in the place of each array of the arguments, and None in those of constants."""
    filled = _filled(args, blocks)
    pairs = zip(args, filled, strict=True)
    return tuple(None if isinstance(arg, _core.Const) else block for arg, block in pairs)


def _expect_real(name: str, kind: str, vector: Unravel) -> None:
    if vector.dtype.kind == "c":
        raise TypeError(
            f"{name}: there are complex numbers among the {kind}; sparse derivatives are of real "
            "arrays: split them into real and imaginary parts"
        )


def _filled(tree: object, blocks: list[Any]) -> Any:
    """Put a block in the place of each leaf that has derivatives, None in those of the others."""
    parts = _core.structure(tree, declared=True)
    following = iter(blocks)
    return parts.build([next(following) if able else None for able in parts.trainable])


def _symmetrized(pattern: SparsityPattern) -> SparsityPattern:
    """Unite a pattern with its transpose: that of a pullback may be wider in one of the two."""
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
