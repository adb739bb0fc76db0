"""Products, sums and solves of SciPy's sparse matrices with `Array`s.

A constant matrix multiplies by SciPy's compiled code, and its transpose in the pullback; where the
pattern of a sparse derivative is wanted, by primitives. A matrix with active elements keeps them as
an `Array` in `data`.
"""

import inspect
from collections.abc import Callable, KeysView, Sequence, ValuesView
from typing import Any, Protocol, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.host_call import conj, host_call, linear, writes_primitives
from cotan._src.kit.implicit_diff import solution, without_rule
from cotan._src.numpy.matrix import Matrix, is_matrix
from cotan._src.rebind.engine import locate, locate_original
from cotan._src.rebind.numpy_substitutes import asarray, gathered
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, override
from cotan._src.runtime.values import contains_active, is_active, is_array, to_numpy
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.typing import (
    AnyArray,
    ArrayLike,
    Dtype,
    DTypeLike,
    Function,
    Kwargs,
    NDArray,
    Shape,
)

_HERE = "scipy.sparse"
BASES = (f"{_HERE}._base._spbase", f"{_HERE}._coo._coo_base")


class Sparse(Protocol):
    """A matrix or an array of `scipy.sparse`; where elements are is said as its format has it."""

    data: Any
    shape: Shape
    dtype: Dtype
    format: str
    row: NDArray
    col: NDArray
    coords: tuple[NDArray, ...]
    indices: NDArray
    indptr: NDArray
    offsets: NDArray
    rows: NDArray
    _dict: dict[tuple[int, int], AnyArray]

    def __init__(self, values: object, shape: Shape | None = None) -> None: ...
    @property
    def T(self) -> "Sparse": ...  # noqa: N802 - the name is SciPy's
    def __matmul__(self, other: object) -> Any: ...
    def _mul_scalar(self, other: object) -> "Sparse": ...
    def asformat(self, format: str | None) -> "Sparse": ...
    def conj(self) -> "Sparse": ...
    def keys(self) -> KeysView[tuple[int, int]]: ...
    def toarray(self) -> NDArray: ...
    def tocoo(self) -> "Sparse": ...
    def tocsc(self) -> "Sparse": ...
    def tocsr(self) -> "Sparse": ...
    def values(self) -> ValuesView[AnyArray]: ...


class Operator(Protocol):
    """A `LinearOperator`, of which only products are known."""

    shape: Shape
    dtype: Dtype

    def matvec(self, x: ArrayLike) -> AnyArray: ...
    def rmatvec(self, x: ArrayLike) -> AnyArray: ...
    def adjoint(self) -> "Operator": ...


#: What functions take for a matrix.
MatrixLike: TypeAlias = Sparse | Operator | ArrayLike


def has_active_entries(matrix: object) -> bool:
    """Say whether elements of a sparse matrix are traced."""
    return is_array(getattr(matrix, "data", None)) or holds_written(matrix)


def holds_written(matrix: Any) -> bool:
    """Say whether traced values were written into a matrix one by one (`lil`, `dok`)."""
    kind = getattr(matrix, "format", None)
    if kind == "lil":
        return any(is_array(x) for row in matrix.data for x in row)
    return kind == "dok" and any(map(is_array, matrix.values()))


def method_of(base: str, name: str) -> Function:
    """Give SciPy's own method of a class: `method_of(base, "toarray")`."""
    method: Function = original_of(inspect.getattr_static(locate(base), name))
    return method


def entries(matrix: Sparse) -> tuple[NDArray, NDArray, AnyArray]:
    """Give rows, columns and values of the elements that are there."""
    data: Any = getattr(matrix, "data", None)
    if not is_array(data):
        coo = matrix.tocoo()
        return coo.row, coo.col, coo.data
    # Numbers in place of the values say which one is where.
    numbers = np.arange(1.0, data.size + 1).reshape(data.shape)
    coo = _constant(matrix, numbers).tocoo()
    return coo.row, coo.col, _core.reshape(data, -1)[coo.data.astype(np.int64) - 1]


def _constant(matrix: Sparse, data: NDArray) -> Sparse:
    """Give a matrix of the same structure with other, constant elements."""
    if matrix.format == "coo":
        return type(matrix)((data, matrix.coords), shape=matrix.shape)
    if matrix.format == "dia":
        return type(matrix)((data, matrix.offsets), shape=matrix.shape)
    return type(matrix)((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def product_with(matrix: Sparse, x: AnyArray) -> Array:
    """Multiply with a vector or with columns."""
    if matrix.shape[-1] != x.shape[0]:
        raise ValueError(
            f"matmul: a sparse matrix of shape {matrix.shape} and an array of shape {x.shape} do "
            "not fit"
        )
    if not has_active_entries(matrix) and not writes_primitives.get():
        adjoint = matrix.conj().T
        return linear("scipy.sparse: A @ x", lambda x: matrix @ x, lambda ct: adjoint @ ct)(x)
    row, column, values = entries(matrix)
    rest = x.shape[1:]
    terms = values.reshape((-1,) + (1,) * len(rest)) * asarray(x)[column]
    zeros = np.zeros((matrix.shape[0], *rest), terms.dtype)
    return _core.index_add(zeros, row.astype(np.int64), terms)


@override(f"{_HERE}._base._spbase.__add__", f"{_HERE}._base._spbase.__radd__", kind=METHOD)
def _add(self: Sparse, other: AnyArray) -> AnyArray:
    return _dense(self, other, "+") + other


@override(f"{_HERE}._base._spbase.__sub__", kind=METHOD)
def _subtract(self: Sparse, other: AnyArray) -> AnyArray:
    return _dense(self, other, "-") - other


@override(f"{_HERE}._base._spbase.__rsub__", kind=METHOD)
def _subtract_from(self: Sparse, other: AnyArray) -> AnyArray:
    return other - _dense(self, other, "-")


def _dense(matrix: Sparse, other: AnyArray, sign: str) -> AnyArray:
    if np.ndim(other) == 0:
        # as SciPy says it
        raise NotImplementedError("adding a nonzero scalar to a sparse array is not supported")
    if not isinstance(matrix, locate(f"{_HERE}.sparray")):
        raise TypeError(
            f"a sparse matrix {sign} an array gives an np.matrix, which multiplies differently "
            f"from an array; write A.toarray() {sign} x, or use a sparse array such as csr_array"
        )
    return toarray(matrix)


def toarray(matrix: Sparse) -> AnyArray:
    """Give a sparse matrix as a dense one, an `Array` where its elements are traced."""
    if not has_active_entries(matrix):
        return matrix.toarray()
    row, column, values = entries(matrix)
    zeros = np.zeros(matrix.shape, values.dtype)
    return _core.index_add(zeros, (row.astype(np.int64), column.astype(np.int64)), values)


def _lift_toarray(base: str) -> None:
    @override(f"{base}.toarray", kind=METHOD, when=ALWAYS)
    def method(self: Sparse, *args: object, **kwargs: object) -> AnyArray:
        if has_active_entries(self):
            return toarray(self)
        dense: NDArray = method_of(base, "toarray")(self, *args, **kwargs)
        return dense


for _base in ("_compressed._cs_matrix", "_coo._coo_base", "_dia._dia_base"):
    _lift_toarray(f"{_HERE}.{_base}")

# --------------------------------------------------------------------------------------------------
# Matrices with active elements


def _lift_init(base: str) -> None:
    @override(f"{base}.__init__", kind=METHOD)
    def init(
        self: Sparse,
        arg1: Any,
        shape: Shape | None = None,
        dtype: DTypeLike | None = None,
        copy: bool = False,
        **options: object,
    ) -> None:
        make = method_of(base, "__init__")
        if isinstance(arg1, tuple) and contains_active(arg1[:1]):
            arg1 = (asarray(arg1[0]), *arg1[1:])  # the values may be in a list
        elif isinstance(arg1, tuple) and len(arg1) > 1:
            arg1 = (arg1[0], *to_numpy_items(arg1[1:]))  # places have no derivative
        if not (isinstance(arg1, tuple) and is_array(arg1[0])):
            if contains_active(arg1) or is_matrix(arg1):
                made = _of_dense(arg1)
                if shape is not None and tuple(shape) != made[1]:
                    raise ValueError(f"inconsistent shapes: {made[1]} and {tuple(shape)}")
                init(self, made[0], made[1], dtype)
                return
            make(self, to_numpy_items(arg1), shape, dtype, copy, **options)
            return
        values = arg1[0] if dtype is None else arg1[0].astype(dtype)
        if len(arg1) == 3:
            zeros = np.zeros(values.shape, values.dtype)
            make(self, (zeros, *to_numpy_items(arg1[1:])), shape, **options)
            self.data = values
            return
        places = tuple(np.asarray(to_numpy(i)).reshape(-1) for i in arg1[1])
        make(self, (np.ones(values.shape, values.dtype), places), shape, **options)
        self.data = values if self.format == "coo" else _added(self, places, values)


def _of_dense(
    x: ArrayLike | Matrix,
) -> tuple[tuple[Array, tuple[NDArray, NDArray]], Shape]:
    """Give the elements of a dense array, and its shape.

    Zeros that could become something else are elements, too, or their derivatives would be lost:
    with one of them all elements are there.
    """
    dense = asarray(getattr(x, "A", x))
    if dense.ndim > 2:
        raise TypeError(f"a sparse array has two axes, not those of shape {dense.shape}")
    dense = _core.reshape(dense, (1, -1)) if dense.ndim < 2 else dense
    rows, columns = np.indices(dense.shape).reshape(2, -1)
    return (_core.reshape(dense, -1), (rows, columns)), dense.shape


def _added(matrix: Sparse, places: tuple[NDArray, ...], values: AnyArray) -> Array:
    """Add up the elements that come to lie in one place."""
    coo = matrix.tocoo()
    width = matrix.shape[1]
    keys = coo.row.astype(np.int64) * width + coo.col
    order = np.argsort(keys)
    at = order[np.searchsorted(keys[order], places[0].astype(np.int64) * width + places[1])]
    return _core.index_add(np.zeros(keys.shape, values.dtype), at, values)


for _base in ("_compressed._cs_matrix", "_coo._coo_base"):
    _lift_init(f"{_HERE}.{_base}")

# --------------------------------------------------------------------------------------------------
# Equations


Solve: TypeAlias = Callable[[Sparse, NDArray], NDArray]


def _solved(
    name: str, pattern: Sparse, data: AnyArray, b: AnyArray, solve: Solve, turned: Solve
) -> Array:
    """Solve with an active matrix; `turned` solves with constant adjoints."""

    def forward(data: NDArray, b: NDArray) -> NDArray:
        return solve(_constant(pattern, data), b)

    def pullback(
        ct: AnyArray, data: AnyArray, b: AnyArray, wanted: Sequence[bool]
    ) -> tuple[AnyArray | None, AnyArray]:
        data = _core.asarray(data)
        back = _solved(name, pattern.T, conj(data), ct, turned, solve)
        if not wanted[0]:
            return None, back
        coo = pattern.tocoo()
        x = conj(_solved(name, pattern, data, b, solve, turned))
        products = -back[coo.row] * x[coo.col]
        return products if products.ndim == 1 else _core.sum(products, 1), back

    return host_call(f"scipy.sparse.linalg.{name}", forward, pullback, data, b)


def _solved_with(name: str, matrix: Sparse, b: AnyArray, solve: Solve, turned: Solve) -> Array:
    """Solve with a matrix of the format `csr` or `csc`; a single column gives a vector."""
    kind = np.result_type(matrix.dtype, b.dtype, np.float32)
    kind = kind if kind.char in "fdFD" else np.dtype(np.float64)
    is_column = b.ndim == 2 and b.shape[1] == 1
    b = _core.reshape(b, -1) if is_column else b
    pattern = _constant(matrix, np.ones(matrix.data.shape))
    data = _core.asarray(matrix.data, kind)
    return _solved(name, pattern, data, _core.asarray(b, kind), solve, turned)


@override(f"{_HERE}.linalg.spsolve", when=ALWAYS)
def spsolve(A: MatrixLike, b: Sparse | ArrayLike, permc_spec: str | None = None,  # noqa: N803
            use_umfpack: bool = True) -> Any:  # fmt: skip
    compute = locate_original(f"{_HERE}.linalg.spsolve")
    b = gathered(b)
    if not (is_array(b) or has_active_entries(A)):
        return compute(A, b, permc_spec, use_umfpack)
    known = getattr(A, "format", None) in {"csr", "csc"}
    matrix: Any = A if known else locate(f"{_HERE}.csc_array")(A)
    right = asarray(b) if not hasattr(b, "toarray") else b.toarray()

    def solve(matrix: Sparse, b: NDArray) -> NDArray:
        x: NDArray = compute(matrix, b, permc_spec, use_umfpack)
        return x

    return _solved_with("spsolve", matrix, right, solve, solve)


class _Iteration:
    """One of the solvers that iterate, with options that are constant.

    Neither what may be left nor what the matrix is multiplied by moves the solution.
    """

    def __init__(self, name: str, x0: ArrayLike | None, options: Kwargs) -> None:
        self._name, self._x0 = name, to_numpy_items(x0)
        self._compute = locate_original(f"{_HERE}.linalg.{name}")
        self._moved: list[bool] = []
        self._options = _constants_in(options, self._moved)
        self.codes: list[int] = []
        self.adjoint = _same if name in _HERMITIAN else _adjoint

    def __call__(self, matrix: Sparse | Operator, b: ArrayLike) -> NDArray:
        x: NDArray
        if any(self._moved):  # nothing is recorded on the way back: it takes longer without
            self._options["M"] = None
        x, code = self._compute(matrix, b, self._x0, **self._options)
        self.codes.append(code)
        return x

    def turned(self, matrix: Sparse | Operator, b: ArrayLike) -> NDArray:
        """Solve with the adjoint."""
        x: NDArray
        options = self._options | {"callback": None}
        if options.get("M") is not None:
            options["M"] = None if any(self._moved) else self.adjoint(options["M"])
        x, code = self._compute(matrix, b, **options)
        self.expect_solution(code)
        return x

    def expect_solution(self, code: int) -> None:
        if code > 0:
            raise _stopped(self._name, f"info={code}", "maxiter= or rtol=")


def _iterative(name: str) -> None:
    """Solve by iteration, and on the way back with the adjoint matrix."""

    @override(f"{_HERE}.linalg.{name}", when=ALWAYS)
    def solved(
        A: MatrixLike,  # noqa: N803
        b: ArrayLike,
        x0: ArrayLike | None = None,
        **options: object,
    ) -> tuple[AnyArray, int]:
        matrix, b = settled(A), gathered(b)
        solve = _Iteration(name, x0, options)
        x: AnyArray
        if has_active_entries(matrix) or contains_active(matrix):
            rows = locate(f"{_HERE}.csr_array")(matrix)
            x = _solved_with(name, rows, asarray(b), solve, solve.turned)
        elif hasattr(matrix, "matvec"):
            x = _solved_by(name, matrix, b, solve)
        elif is_array(b) or contains_active((b, x0)):
            x = _solved_fixed(name, matrix, b, solve)
        else:
            x = solve(matrix, b)
        if contains_active((x, x0)):
            solve.expect_solution(solve.codes[0])
        return x, solve.codes[0]


def _solved_by(name: str, operator: Operator, b: ArrayLike, solve: _Iteration) -> AnyArray:
    """Solve with an operator; by its matrix where that moves, or where its adjoint is not known."""
    moved: list[bool] = []
    constant = as_constant(operator, moved)
    constant.matvec(np.zeros(operator.shape[1]))  # which finds out whether its result is active
    if any(moved) or (contains_active(b) and solve.adjoint(constant) is None):
        x = solve(constant, to_numpy_items(b))
        return solution(name, lambda x: operator.matvec(x) - asarray(b).reshape(-1), x, check=False)
    if not is_array(b) and not contains_active(b):
        return solve(constant, b)
    return _solved_fixed(name, constant, b, solve)


def _solved_fixed(name: str, matrix: Sparse | Operator, b: ArrayLike, solve: _Iteration) -> Array:
    """Solve with a matrix, or an operator, that is constant."""
    back = solve.adjoint(matrix)
    return linear(f"scipy.sparse.linalg.{name}", lambda b: solve(matrix, b),
                  lambda ct: solve.turned(back, ct))(b)  # fmt: skip


_HERMITIAN = {"cg", "minres"}
for _name in ("bicg", "bicgstab", "cg", "cgs", "gmres", "lgmres", "minres", "qmr", "tfqmr"):
    _iterative(_name)


def _constants_in(options: Kwargs, found: list[bool]) -> Kwargs:
    """Give options as constants; `found` notes whether what an operator gave was active."""

    def constant(m: Any) -> Any:
        is_matrix = hasattr(m, "matvec") or has_active_entries(m)
        return as_constant(m, found) if is_matrix else to_numpy_items(m)

    return {k: constant(m) for k, m in options.items()}


def settled(matrix: Any) -> Any:
    """Give a matrix as SciPy knows it where none of its elements moves: one made in a recording."""
    if has_active_entries(matrix) and not contains_active(entries(matrix)[2]):
        return as_constant(matrix, [])
    return matrix


def as_constant(matrix: Any, found: list[bool]) -> Any:
    """Give a matrix or an operator as a constant; `found` notes whether what it gave was active."""
    if not hasattr(matrix, "matvec"):
        row, column, values = entries(matrix)
        rows = locate(f"{_HERE}.csr_array")((to_numpy(values), (row, column)), shape=matrix.shape)
        return type(matrix)(rows)

    def value(y: AnyArray) -> NDArray:
        found.append(is_active(y))
        return to_numpy(y)

    return locate(f"{_HERE}.linalg.LinearOperator")(
        matrix.shape, lambda x: value(matrix.matvec(x)), lambda x: value(matrix.rmatvec(x)),
        dtype=matrix.dtype,
    )  # fmt: skip


def _same(matrix: Any) -> Any:
    return matrix


def _adjoint(matrix: Any) -> Any:
    """Give the adjoint, None of an operator that does not know how to multiply by it."""
    if hasattr(matrix, "conj"):
        return matrix.conj().T
    try:
        matrix.rmatvec(np.zeros(matrix.shape[0], matrix.dtype))
    except NotImplementedError:
        return None
    return matrix.H


def _stopped(name: str, said: str, more: str) -> ValueError:
    return ValueError(
        f"scipy.sparse.linalg.{name}: the iteration stopped before it reached a solution ({said}), "
        f"so the derivative of its result is undefined; ask for more accuracy with {more}, or hold "
        "the result constant with ct.dropgrad"
    )


def _least_squares(name: str) -> None:
    """Solve by iteration; what solves it for the adjoint matrix is the adjoint of that."""

    @override(f"{_HERE}.linalg.{name}")
    def solved(
        A: MatrixLike,  # noqa: N803
        b: ArrayLike,
        *rest: object,
        **options: object,
    ) -> tuple[AnyArray | int, ...]:
        compute = locate_original(f"{_HERE}.linalg.{name}")
        options |= dict(zip(list(inspect.signature(compute).parameters)[2:], rest, strict=False))
        matrix = settled(A)
        if has_active_entries(matrix) or contains_active((matrix, options)):
            raise NotDifferentiableError(
                f"{name}: only b is differentiable; use np.linalg.lstsq(A.toarray(), b) if the "
                "matrix is active, or hold it, damp= and x0= constant with ct.dropgrad"
            )
        options = {k: to_numpy_items(v) for k, v in options.items()}
        x0, report = options.pop("x0", None), []

        def solve(matrix: Sparse | Operator, b: NDArray) -> NDArray:
            x: NDArray
            x, *said = compute(matrix, b, **options)
            left, matrix_norm, slope = (said[i] for i in _NORMS[name])
            near = slope <= _NEAR * matrix_norm * left or left <= _NEAR * np.linalg.norm(b)
            if said[0] == _LIMIT and not near:
                raise _stopped(
                    name, f"istop={said[0]}", "iter_lim=" if name == "lsqr" else "maxiter="
                )
            report.append(said)
            return x

        forward, adjoint = (lambda b: solve(matrix, b)), (lambda ct: solve(_adjoint(matrix), ct))
        apply = linear(f"scipy.sparse.linalg.{name}", forward, adjoint)
        right = asarray(b).reshape(-1)
        x = apply(right) if x0 is None else x0 + apply(right - matrix @ x0)
        stop, count, *norms = report[0]
        what = f"the norms that {name} reports"
        return (x, stop, count, *(without_rule(what, n, x) for n in norms))


# By which both say that they were not allowed to go on. They may have come near enough by then.
_LIMIT, _NEAR = 7, 1e-4
# Where they say how much is left of `b`, the norm of the matrix, and how much that may change.
_NORMS = {"lsqr": (3, 4, 6), "lsmr": (2, 4, 3)}
for _name in _NORMS:
    _least_squares(_name)
