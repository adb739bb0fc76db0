"""A class twin for `np.matrix`, so that a matrix can hold traced values.

NumPy's class is an ndarray and cannot hold them. During a recording, `np.matrix` makes a twin when
an `Array` is among its arguments. The twin passes `isinstance(x, np.matrix)`, multiplies as a
matrix does, stays one in operators, slices and functions, and gives scalars and arrays where NumPy
does.
"""

# ruff: noqa: N802 - NumPy's names

import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.call_site import current_instruction, user_frame
from cotan._src.runtime.ndarray_subclasses import TWINS
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, override
from cotan._src.runtime.values import TwinInstance, contains_active, is_active, is_array, to_numpy
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Axes,
    Axis,
    DTypeLike,
    Function,
    Kwargs,
    NDArray,
)

if TYPE_CHECKING:
    from types import EllipsisType

# What an operator of a matrix takes and gives: matrices and arrays, numbers.
_Operand: TypeAlias = "Matrix | ArrayLike"
_Result: TypeAlias = "Matrix | AnyArray"
_Matrices: TypeAlias = "Matrix | NDArray"
_Part: TypeAlias = "int | slice | EllipsisType | ArrayLike | None"
_Key: TypeAlias = "_Part | tuple[_Part, ...]"
_Order: TypeAlias = Literal["C", "F", "A", "K"]

_matrix: Any = np.matrix


def _plain(x: Any) -> Any:
    """Give an array for a matrix of either kind, also in lists."""
    if type(x) is Matrix:
        return x.A
    if isinstance(x, _matrix):
        return np.asarray(x)
    if isinstance(x, (list, tuple)):
        return type(x)(map(_plain, x))
    if isinstance(x, dict):
        return {key: _plain(value) for key, value in x.items()}
    return x


def _wrapped(x: Any) -> Any:
    """Give a matrix over an `Array` with two axes."""
    if isinstance(x, tuple):
        fields = map(_wrapped, x)
        return type(x)(*fields) if hasattr(x, "_fields") else tuple(fields)
    if isinstance(x, list):
        return list(map(_wrapped, x))
    return Matrix(x) if is_array(x) and x.ndim == 2 else x


def _as_row(x: Any) -> Any:
    """Give a matrix over an `Array`; of one axis it makes a row."""
    return Matrix(x[None, :]) if is_array(x) and x.ndim == 1 else _wrapped(x)


# What gives plain arrays for matrices, since NumPy computes it with `np.asarray` of them.
_PLAIN = {
    "where", "tril", "triu", "outer", "diag", "diagonal", "ravel", "unique", "extract", "einsum",
    "cross", "tensordot", "flatnonzero", "nonzero", "argwhere", "interp", "convolve", "correlate",
    "copy", "pad", "select", "choose", "broadcast_to", "cov", "corrcoef", "sinc", "unwrap",
}  # fmt: skip


# What reduces the last axis of a matrix to a column, since NumPy asks methods of the matrix.
_COLUMNS = {
    "amax", "amin", "average", "median", "nanmax", "nanmean", "nanmin", "nanprod", "nansum",
    "nanstd", "nanvar", "trapezoid",
}  # fmt: skip


def _of_function(func: Function, result: object, axis: object = None) -> object:
    """Give what a function of NumPy has computed for matrices as NumPy would."""
    if func.__name__ in _PLAIN or func.__module__ == "numpy.fft":
        return result
    is_column = func.__name__ in _COLUMNS and isinstance(axis, int) and axis in {1, -1}
    if is_column and isinstance(result, Array) and result.ndim == 1:
        return Matrix(result[:, None])
    # The functions of `numpy.linalg` give arrays with one axis as they are.
    return (_wrapped if func.__module__ == "numpy.linalg" else _as_row)(result)


# What Python code of NumPy computes with matrices as they are, which always have two axes and
# multiply as matrices do.


def _roll(a: _Operand, shift: ArrayLike, axis: Axes = None) -> _Result:
    if axis is None and type(a) is Matrix:
        return Matrix(a.A.copy())  # along the first axis of a matrix of one row
    rolled: _Result = _wrapped(np.roll(_plain(a), _plain(shift), axis))
    return rolled


def _polyval(p: _Operand, x: Any) -> _Result:
    y: _Result = x * 0.0
    for coefficient in _plain(p):
        y = y * x + coefficient
    return y


def _ediff1d(
    ary: _Operand, to_end: "_Operand | None" = None, to_begin: "_Operand | None" = None
) -> _Result:
    if to_end is None and to_begin is None and type(ary) is Matrix:
        later: Any = ary.ravel()[1:]
        steps: Matrix = later - ary.ravel()[:-1]
        return steps
    differences: _Result = _wrapped(np.ediff1d(_plain(ary), _plain(to_end), _plain(to_begin)))
    return differences


def _vdot(a: _Operand, b: _Operand) -> "Matrix":
    # NumPy takes the first axis of a matrix of one row for the length.
    first, second = (x.A.reshape(-1)[:1] if type(x) is Matrix else np.ravel(x) for x in (a, b))
    if len(first) != len(second):
        raise ValueError("vectors have different lengths")
    return Matrix(np.vdot(first, second).reshape(1, 1))


_OF_MATRICES: dict[str, Function] = {
    "roll": _roll,
    "polyval": _polyval,
    "ediff1d": _ediff1d,
    "vdot": _vdot,
}


def is_matrix(x: object) -> bool:
    """Say whether this is the twin of a matrix."""
    return type(x) is Matrix


def _is_numpys(x: object) -> bool:
    return issubclass(type(x), _matrix)


def has_matrices(items: Iterable[object], of_numpy: bool) -> bool:
    """Say whether a twin of a matrix is among arguments, or one of NumPy's if these count."""
    return any(type(x) is Matrix or (of_numpy and _is_numpys(x)) for x in items)


def joined_matrices(join: Callable[[_Key], AnyArray], key: _Key) -> _Result:
    """Compute `np.r_` or `np.c_` where a matrix is among what is joined, which gives a matrix."""
    joined: _Result = _wrapped(join(_plain(key)))
    return joined


def _two_axes(data: _Operand) -> AnyArray:
    x = asarray(_plain(data))
    if x.ndim > 2:
        raise ValueError("matrix must be 2-dimensional")
    row: AnyArray = x.reshape(1, -1) if x.ndim < 2 else x
    return row


class Matrix(TwinInstance):
    """A matrix over an `Array`; writes go through to that."""

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 10.0

    def __init__(self, array: AnyArray) -> None:
        self.A = array

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        numpys: type = _matrix
        return numpys

    # What NumPy asks

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray:
        if is_active(self.A):
            raise NotDifferentiableError(
                "np.asarray(m) of a traced np.matrix would drop the gradient; use m.A, or m.A1 for "
                "one axis, or ct.dropgrad(m.A) to drop it on purpose"
            )
        return np.asarray(to_numpy(self.A), dtype)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: _Operand, **options: object
    ) -> _Result:
        if ufunc is np.multiply and method == "__call__" and not options and is_operator():
            return _product(*inputs)
        options = {key: _plain(value) for key, value in options.items()}
        result: _Result = _as_row(getattr(ufunc, method)(*map(_plain, inputs), **options))
        return result

    def __array_function__(
        self, func: Function, types: object, args: Args, kwargs: Kwargs
    ) -> object:
        if args and type(args[0]) is Matrix and func.__name__ in _KEEP_AXES:
            # NumPy asks the method of this name, which keeps two axes.
            return getattr(args[0], func.__name__)(*args[1:], **kwargs)
        if func.__name__ in _OF_MATRICES:
            return _OF_MATRICES[func.__name__](*args, **kwargs)
        result = func(*_plain(tuple(args)), **_plain(kwargs))
        place, usual = (3, -1) if func.__name__ == "trapezoid" else (1, None)
        axis = kwargs.get("axis", args[place] if args[place:] else usual)
        return _of_function(func, result, axis)

    def __getattr__(self, name: str) -> Any:
        """Do what the array does: its attributes, and methods whose results are matrices again."""
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self.A, name)
        if not callable(value):
            return _wrapped(value)

        def method(*args: object, **kwargs: object) -> object:
            return _as_row(value(*_plain(args), **_plain(kwargs)))

        return method

    # What is a matrix's own

    @property
    def A1(self) -> AnyArray:
        return self.A.reshape(-1)

    @property
    def I(self) -> "Matrix":  # noqa: E743
        square = self.shape[0] == self.shape[1]
        return Matrix((np.linalg.inv if square else np.linalg.pinv)(self.A))

    @property
    def H(self) -> "Matrix":
        return Matrix(self.A.conj().T)

    @property
    def T(self) -> "Matrix":
        return Matrix(self.A.T)

    def getA(self) -> AnyArray:
        return self.A

    def getA1(self) -> AnyArray:
        return self.A1

    def getH(self) -> "Matrix":
        return self.H

    def getI(self) -> "Matrix":
        return self.I

    def getT(self) -> "Matrix":
        return self.T

    def ravel(self, order: _Order = "C") -> "Matrix":
        return Matrix(self.A.ravel(order).reshape(1, -1))

    def flatten(self, order: _Order = "C") -> "Matrix":
        return Matrix(self.A.flatten(order).reshape(1, -1))

    def trace(self, *args: Any, **kwargs: Any) -> "Matrix":
        return Matrix(self.A.trace(*args, **kwargs).reshape(1, 1))

    def __getitem__(self, key: _Key) -> _Result:
        out = self.A[_plain(key)]
        if not is_array(out) or out.ndim != 1:
            part: _Result = _wrapped(out)
            return part
        column = isinstance(key, tuple) and len(key) > 1 and np.isscalar(key[1])
        return Matrix(out[:, None] if column else out[None, :])

    def __setitem__(self, key: _Key, value: _Operand) -> None:
        value = _plain(value)
        target = self.A[_plain(key)]
        if np.ndim(target) == 0 and np.size(value) == 1:
            value = asarray(value).reshape(())[()]
        elif np.ndim(target) == 1 and np.ndim(value) == 2:
            value = asarray(value).reshape(-1)
        self.A[_plain(key)] = value

    def __len__(self) -> int:
        return len(self.A)

    def __iter__(self) -> Iterator[_Result]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.A)

    def __float__(self) -> float:
        return float(self.A.reshape(-1)[0]) if self.A.size == 1 else float(self.A)

    def __repr__(self) -> str:
        return repr(_matrix(to_numpy(self.A)))

    def __str__(self) -> str:
        return str(_matrix(to_numpy(self.A)))

    def __mul__(self, other: _Operand) -> _Result:
        return _product(self, other)

    def __rmul__(self, other: _Operand) -> _Result:
        return _product(other, self)

    def __imul__(self, other: _Operand) -> Self:
        self.A[...] = _plain(_product(self, other))
        return self

    def __pow__(self, n: SupportsIndex) -> "Matrix":
        return Matrix(np.linalg.matrix_power(self.A, n))

    def _collapse(self, axis: Axis) -> _Result:
        # What NumPy's own matrices ask of a result, which is `out=` here.
        return self[0, 0] if axis is None else self


def is_operator() -> bool:
    """Say whether NumPy was asked by an operator, and not by name."""
    return current_instruction(user_frame()).opname in {"BINARY_OP", "COMPARE_OP"}


def _product(a: _Operand, b: _Operand) -> _Result:
    """Multiply as matrices do, numbers with whatever there is."""
    x, y = _plain(a), _plain(b)
    if np.ndim(x) == 0 or np.ndim(y) == 0:
        scaled: _Result = _wrapped(x * y)
        return scaled
    return Matrix(_two_axes(x) @ _two_axes(y))


def _meets(name: str, compute: Callable[[_Operand, _Operand], _Result]) -> None:
    """Let an operator of NumPy's matrices take twins and `Array`s."""

    @override(f"numpy.matrix.{name}", kind=METHOD, when=ALWAYS)
    def operate(self: _Operand, other: _Operand) -> object:
        if type(other) is Matrix or is_array(other):
            return compute(self, other)
        return original_of(vars(_matrix)[name])(self, other)


_meets("__mul__", _product)
_meets("__imul__", _product)
_meets("__rmul__", lambda self, other: _product(other, self))


def _operators(name: str) -> None:
    compute = getattr(operator, name)

    def forward(self: Matrix, other: _Operand) -> object:
        return _as_row(compute(self.A, _plain(other)))

    def reflected(self: Matrix, other: _Operand) -> object:
        return _as_row(compute(_plain(other), self.A))

    def in_place(self: Matrix, other: _Operand) -> Matrix:
        self.A[...] = compute(self.A, _plain(other))
        return self

    setattr(Matrix, f"__{name}__", forward)
    if name not in {"eq", "ne", "lt", "le", "gt", "ge"}:
        setattr(Matrix, f"__r{name}__", reflected)
        setattr(Matrix, f"__i{name}__", in_place)


for _name in ("add", "sub", "matmul", "truediv", "mod", "eq", "ne", "lt", "le", "gt", "ge"):
    _operators(_name)


def _unary(name: str) -> None:
    compute = getattr(operator, name)
    setattr(Matrix, f"__{name}__", lambda self: Matrix(compute(self.A)))


for _name in ("neg", "pos", "abs"):
    _unary(_name)


TWINS[_matrix] = lambda x: Matrix(_core.array(np.asarray(x)))


def _reductions(name: str) -> None:
    signature = inspect.signature(getattr(_matrix, name))

    def reduce(*args: object, **options: object) -> object:
        given = signature.bind(*args, **options).arguments
        x, out = given.pop("self").A, given.get("out")
        reduced = getattr(np, name)(x, keepdims=True, **_plain(given))
        result: Any = Matrix(reduced) if out is None else out
        return result if given.get("axis") is not None else result[0, 0]

    setattr(Matrix, name, reduce)


_KEEP_AXES = ("sum", "mean", "prod", "max", "min", "ptp", "std", "var", "any", "all", "argmax",
              "argmin")  # fmt: skip
for _name in _KEEP_AXES:
    _reductions(_name)


def _makes(make: Function) -> Callable[..., _Matrices]:
    def made(
        data: "_Operand | str", dtype: DTypeLike | None = None, copy: bool = True
    ) -> _Matrices:
        if isinstance(data, str):
            plain: NDArray = make(data, dtype)
            return plain
        array = _two_axes(data)
        array = _core.asarray(array, dtype) if dtype is not None else array
        return Matrix(array.copy() if copy else array)

    return made


override("numpy.matrix")(_makes(_matrix))


@override("numpy.asmatrix")
def asmatrix(data: "_Operand | str", dtype: DTypeLike | None = None) -> _Matrices:
    return _makes(_matrix)(data, dtype, copy=False)


@override("numpy.bmat")
def bmat(
    obj: str | ArrayLike | Sequence[Any], ldict: Kwargs | None = None, gdict: Kwargs | None = None
) -> _Matrices:
    if not contains_active(_plain(obj)):
        return np.bmat(to_numpy(_plain(obj)), ldict, gdict)
    return Matrix(np.block(_plain(obj)))
