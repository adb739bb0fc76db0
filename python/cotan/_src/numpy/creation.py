"""Overrides of the functions that create or convert arrays, which NumPy does not dispatch.

Problem: `np.full(n, x)` or `np.asarray(x)` would need the numbers in an `Array`. So would classes
that NumPy builds in C: `np.vectorize`, `np.r_`, `np.mgrid`.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.numpy.matrix import Matrix, has_matrices, joined_matrices
from cotan._src.rebind.engine import (
    SUBSTITUTES,
    ask_inside_lists,
    locate,
    rebind_function,
    rebinds_instances,
)
from cotan._src.rebind.numpy_substitutes import array as _array
from cotan._src.rebind.numpy_substitutes import asanyarray as _asanyarray
from cotan._src.rebind.numpy_substitutes import asarray as _asarray
from cotan._src.runtime.libraries import NATIVE_LIBRARIES
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, CREATOR, FUNCTIONS, INDEXED, METHOD, override
from cotan._src.runtime.values import OverArray, contains_active, to_numpy, unwidened
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Decorator,
    DTypeLike,
    Function,
    Kwargs,
    NDArray,
    Order,
    Scalar,
    Shape,
)

#: Coefficients of a polynomial, or the polynomial.
_Polynomial: TypeAlias = ArrayLike | np.poly1d
#: What brackets take.
_Key: TypeAlias = slice | ArrayLike | tuple[slice | ArrayLike, ...]
#: An end of a slice, or the step.
_End: TypeAlias = Scalar | None
#: What a vectorized function gives.
_Mapped: TypeAlias = AnyArray | tuple[AnyArray, ...] | np.vectorize


class _Brackets(Protocol):
    """What makes arrays of what is in its brackets: `np.r_`, `np.mgrid`."""

    def __getitem__(self, key: _Key) -> NDArray: ...
    def __len__(self) -> int: ...


class _GridBrackets(_Brackets, Protocol):
    sparse: bool


override(
    *(
        f"numpy.{name}"
        for name in [
            "append",
            "arange",
            "array",
            "asanyarray",
            "asarray",
            "asarray_chkfinite",
            "ascontiguousarray",
            "asfortranarray",
            "bartlett",
            "blackman",
            "block",
            "clip",
            "column_stack",
            "concatenate",
            "concat",
            "copy",
            "cumprod",
            "cumsum",
            "delete",
            "diag",
            "diagflat",
            "diff",
            "dstack",
            "empty",
            "empty_like",
            "eye",
            "fromfunction",
            "fromiter",
            "full",
            "full_like",
            "geomspace",
            "hamming",
            "hanning",
            "hstack",
            "identity",
            "insert",
            "kaiser",
            "kron",
            "linspace",
            "loadtxt",
            "logspace",
            "meshgrid",
            "ones",
            "ones_like",
            "outer",
            "pad",
            "piecewise",
            "repeat",
            "require",
            "resize",
            "roll",
            "select",
            "sort",
            "stack",
            "tile",
            "tri",
            "tril",
            "triu",
            "vander",
            "vstack",
            "where",
            "zeros",
            "zeros_like",
        ]
    ),
    kind=CREATOR,
)(None)

override("numpy.array")(_array)
rebinds_instances("numpy.poly1d")


def _for_polynomials(name: str) -> Decorator:
    """Enter a function that takes polynomials too, for user code and for NumPy's class of them."""

    def enter(function: Function) -> Function:
        SUBSTITUTES[id(vars(np)[name])] = function
        return override(f"numpy.{name}", when=ALWAYS)(function)

    return enter


def _of_polynomials(name: str) -> None:
    """Let a function of coefficients take and give polynomials of traced coefficients."""
    function = vars(np)[name]

    @_for_polynomials(name)
    @functools.wraps(function)
    def of_polynomials(*args: object, **kwargs: object) -> Any:
        polynomials = any(isinstance(a, np.poly1d) for a in (*args, *kwargs.values()))
        args = tuple(map(_coefficients, args))
        kwargs = {k: _coefficients(v) for k, v in kwargs.items()}
        known = FUNCTIONS[function] if _core.contains_array(args, kwargs) else function
        result: Any = known(*args, **kwargs)
        if not polynomials:
            return result
        return tuple(map(np.poly1d, result)) if type(result) is tuple else np.poly1d(result)


def _coefficients(x: Any) -> Any:
    return x.coeffs if isinstance(x, np.poly1d) else x


for _name in ("polyadd", "polysub", "polymul", "polydiv", "polyder", "polyint"):
    _of_polynomials(_name)


_polyval_of_arrays = ask_inside_lists(np.polyval)


@_for_polynomials("polyval")
@functools.wraps(np.polyval)
def polyval(p: _Polynomial, x: _Polynomial) -> AnyArray | np.poly1d | int:
    coefficients = _coefficients(p)
    if not isinstance(x, np.poly1d):
        value: AnyArray = _polyval_of_arrays(coefficients, x)
        return value
    y: np.poly1d | int = 0
    for coefficient in coefficients:
        y = y * x + coefficient
    return y


@override("numpy.asarray_chkfinite")
def asarray_chkfinite(
    a: ArrayLike, dtype: DTypeLike | None = None, order: Order | None = None
) -> AnyArray:
    x = _asarray(a, dtype, order)
    # Where values are not looked at, what is not finite shows in the results.
    if not (_core.is_tracing() or _core.is_preparing()):
        np.asarray_chkfinite(to_numpy(x))
    return x


@override("numpy.asanyarray")
def asanyarray(
    a: ArrayLike, dtype: DTypeLike | None = None, order: Order | None = None, **options: object
) -> AnyArray | OverArray:
    options.pop("like", None)
    x: AnyArray | OverArray = _asanyarray(a, dtype, order, **options)
    return x


@override("numpy.asarray")
def asarray(
    a: ArrayLike, dtype: DTypeLike | None = None, order: Order | None = None, **options: object
) -> AnyArray:
    options.pop("like", None)
    return _asarray(a, dtype, order, **options)


@override("numpy.ascontiguousarray")
def ascontiguousarray(
    a: ArrayLike, dtype: DTypeLike | None = None, *, like: object = None
) -> AnyArray:
    del like
    x = _asarray(a, dtype, "C")
    return x.reshape(1) if x.ndim == 0 else x


@override("numpy.asfortranarray")
def asfortranarray(
    a: ArrayLike, dtype: DTypeLike | None = None, *, like: object = None
) -> AnyArray:
    del like
    x = _asarray(a, dtype, "F")
    return x.reshape(1) if x.ndim == 0 else x


@override("numpy.require")
def require(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    requirements: str | Iterable[str] | None = None,
    *,
    like: object = None,
) -> AnyArray:
    del like
    wanted = {str(r).upper() for r in requirements or ()}
    order: Order | None = None
    if wanted & {"C", "C_CONTIGUOUS", "CONTIGUOUS"}:
        order = "C"
    elif wanted & {"F", "F_CONTIGUOUS", "FORTRAN"}:
        order = "F"
    x = _asarray(a, dtype, order)
    return x.copy() if wanted & {"O", "OWNDATA"} and not x.flags.owndata else x


@override("numpy.full")
def full(
    shape: int | Iterable[int],
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str = "C",
    **options: object,
) -> Array:
    del order, options
    shape = tuple(shape) if np.iterable(shape) else (shape,)
    value = _asarray(fill_value, dtype)
    return _core.broadcast_to(value, shape).copy()


_STEPS = ("start", "stop", "step", "dtype")


@override("numpy.arange")
def arange(*args: Any, dtype: DTypeLike | None = None, **options: Any) -> AnyArray:
    """Count steps on values: the number of elements is constant where it does not jump."""
    given = dict(zip(("start", "stop", "step", "dtype"), args, strict=False))
    start, stop, step, dtype = map({**options, "dtype": dtype, **given}.get, _STEPS)
    if stop is None:
        start, stop = 0, start
    start, step = 0 if start is None else start, 1 if step is None else step
    values = [to_numpy(x) for x in (start, stop, step)]
    if dtype is not None and np.dtype(dtype).kind not in "fc":
        # NumPy rounds the step, too.
        whole: NDArray = np.arange(*values, dtype=dtype)
        return _core.array(whole)
    count = len(np.arange(*values))
    given_as: tuple[Any, ...] = start, stop, step
    kinds = {_core.asarray(a).dtype.kind for a in given_as}
    wanted = complex if "c" in kinds else float if "f" in kinds else None
    # As NumPy does it: by what is between the first two elements, in the last digits, too.
    steps = _core.array(np.arange(count, dtype=wanted))
    result = start + (start + step - start) * steps
    return result if dtype is None else result.astype(dtype)


@override("numpy.ndenumerate")
def ndenumerate(arr: ArrayLike) -> Iterator[tuple[Shape, AnyArray | np.generic]]:
    x = _asarray(arr)
    return ((index, x[index]) for index in np.ndindex(*x.shape))


@override("numpy.fromiter", when=ALWAYS)
def fromiter(
    iter: Iterable[ArrayLike], dtype: DTypeLike, count: int = -1, **options: object
) -> AnyArray:
    """Look at what an iterator gives, which cannot be seen from outside."""
    items = list(iter) if count < 0 else [x for x, _ in zip(iter, range(count), strict=False)]
    if len(items) < count:
        raise ValueError(
            f"iterator too short: Expected {count} but iterator had only {len(items)} items."
        )
    if _core.contains_array((items,), {}):
        result: AnyArray = _array(items, dtype)
    else:
        original: Any = np.fromiter
        result = _core.buffer(original(items, dtype, **options), ())
    return result


def _joined(original: _Brackets) -> Callable[[_Key], AnyArray | Matrix]:
    """Give the brackets of `np.r_` and `np.c_` for `Array`s: NumPy's own code, rebound."""
    method: Any = rebind_function(cast("Any", type(original)).__getitem__)

    def join(key: _Key) -> AnyArray | Matrix:
        items = key if isinstance(key, tuple) else (key,)
        contains_array = _core.contains_array(items, {})
        if has_matrices(items, of_numpy=contains_array):
            result: AnyArray | Matrix = joined_matrices(lambda key: method(original, key), key)
        elif not contains_array:
            result = _core.buffer(original[key], ())
        else:
            result = unwidened(method(original, key), items)
        return result

    return join


class _Joined:
    """`np.r_` or `np.c_` in rebound code of libraries."""

    def __init__(self, original: _Brackets) -> None:
        self._original, self._join = original, _joined(original)

    def __getitem__(self, key: _Key) -> AnyArray | Matrix:
        return self._join(key)

    def __len__(self) -> int:
        return len(self._original)


override("numpy.r_", "numpy.c_", kind=INDEXED)(_joined)
SUBSTITUTES |= {id(joined): _Joined(joined) for joined in (np.r_, np.c_)}


def _grid(original: _GridBrackets) -> Callable[[_Key], AnyArray | tuple[AnyArray, ...]]:
    """Give the brackets of `np.mgrid` and `np.ogrid` over slices whose ends are active."""

    def grid(key: _Key) -> AnyArray | tuple[AnyArray, ...]:
        slices = key if isinstance(key, tuple) else (key,)
        ends = tuple((s.start, s.stop, s.step) for s in slices if isinstance(s, slice))
        if not _core.contains_array(ends, {}):
            return original[key]
        axes = [_along(*three) for three in ends]
        if not isinstance(key, tuple):
            return axes[0]
        open_axes = np.meshgrid(*axes, indexing="ij", sparse=True)
        if original.sparse:
            return tuple(open_axes)
        return np.stack(np.broadcast_arrays(*open_axes))

    return grid


def _along(start: _End, stop: Scalar, step: _End) -> AnyArray:
    start, step = 0 if start is None else start, 1 if step is None else step
    if isinstance(step, complex):
        return np.linspace(start, stop, int(abs(step)))
    return start + np.arange(math.ceil(to_numpy((stop - start) / step)), dtype=float) * step


override("numpy.mgrid", "numpy.ogrid", kind=INDEXED)(_grid)


def _elements(value: ArrayLike) -> AnyArray:
    """Give an array of what a function is called for: plain numbers are Python's, as in NumPy."""
    active = _core.contains_array((value,), {})
    return _asarray(value) if active else np.asarray(to_numpy(value), object)


def _with_signature(
    self: np.vectorize, args: Args, kwargs: Kwargs
) -> AnyArray | tuple[AnyArray, ...]:
    """Call a function for the arrays in the last axes: NumPy's Python code, rebound."""
    if kwargs or self.excluded:
        raise NotDifferentiableError(
            "vectorize: a signature with keyword arguments or excluded= is not supported by cotan; "
            "pass all arguments by position, or stack the results of a loop with np.stack"
        )
    owner: Any = np.vectorize
    by_numpy = rebind_function(owner._vectorize_call_with_signature)
    result: AnyArray | tuple[AnyArray, ...] = by_numpy(self, self.pyfunc, args)
    return result


@override("numpy.vectorize.__call__", kind=METHOD, when=ALWAYS)
def vectorized(self: np.vectorize, *args: Any, **kwargs: Any) -> _Mapped:
    """Call a function for every element, and put its results together.

    They may be traced whatever the arguments are, by what the function closes over.
    """
    owner: Any = np.vectorize
    by_numpy: Callable[..., _Mapped] = original_of(owner.__call__)
    pyfunc: Any = self.pyfunc
    if pyfunc is np._NoValue:
        return by_numpy(self, *args, **kwargs)  # used as a decorator with arguments
    if any(isinstance(x, OverArray) and hasattr(x, "filled") for x in (*args, *kwargs.values())):
        raise NotDifferentiableError(
            "vectorize: a masked array with active elements would lose its mask; call it with "
            "m.filled(value), and mask the result: np.ma.array(result, mask=m.mask)"
        )
    if self.signature is not None:
        if not _core.contains_array(args, kwargs):
            with contextlib.suppress(TypeError, ValueError):
                return by_numpy(self, *args, **kwargs)
        return _with_signature(self, args, kwargs)
    fixed = set(self.excluded or ())
    named: dict[int | str, Any] = dict(enumerate(args))
    named.update(kwargs)
    arrays = {key: _elements(value) for key, value in named.items() if key not in fixed}
    shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
    if 0 in shape and not self.otypes:
        raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
    wide = {key: np.broadcast_to(a, shape) for key, a in arrays.items()}

    def call(index: Shape) -> object:
        item = {k: wide[k][index] if k in wide else v for k, v in named.items()}
        return self.pyfunc(*(item[i] for i in range(len(args))), **{k: item[k] for k in kwargs})

    places = np.ndindex(*shape)
    results: list[object] = []
    dtypes: list[str | None] = list(self.otypes or ())
    if not dtypes and not _core.contains_array((*named.values(),), {}):
        # NumPy calls the function for the first element as it is, and takes its dtypes from that.
        item = {k: v if k in fixed else np.asanyarray(v).flat[0] for k, v in named.items()}
        first = self.pyfunc(*(item[i] for i in range(len(args))), **{k: item[k] for k in kwargs})
        dtypes = [_code(x) for x in (first if isinstance(first, tuple) else (first,))]
        if self.cache:
            results, _ = [first], next(places)
    results += [call(index) for index in places]
    several = bool(results) and isinstance(results[0], tuple)
    columns = [list(c) for c in zip(*results, strict=True)] if several else [results]
    dtypes = dtypes or [None] * len(columns)
    given = [named[key] for key in arrays]
    joined = [_mapped(c, d, shape, given) for c, d in zip(columns, dtypes, strict=True)]
    return tuple(joined) if several else joined[0]


def _code(result: object) -> str | None:
    return None if _core.contains_array((result,), {}) else np.asarray(result).dtype.char


def _mapped(results: list[Any], dtype: str | None, shape: Shape, given: Sequence[Any]) -> AnyArray:
    """Give an array of what a function gave for each element, of the class that NumPy gives."""
    if not results:
        return np.zeros(shape, dtype)
    if dtype is None or _core.contains_array((results,), {}):
        made: AnyArray = _array(results, dtype).reshape(shape)
        return made
    inputs = [np.asanyarray(to_numpy(x), object) for x in given]
    places = np.arange(len(results)).reshape(shape)
    elements: AnyArray = np.empty(shape, object)
    if shape:
        elements = np.frompyfunc(lambda k, *_: results[k], len(inputs) + 1, 1)(places, *inputs)
    else:
        elements[()] = results[0]
    plain: AnyArray = _core.buffer(np.asanyarray(elements, dtype), ())
    return plain


@override("numpy.piecewise", when=ALWAYS)
def piecewise(
    x: ArrayLike | OverArray,
    condlist: ArrayLike | Sequence[ArrayLike],
    funclist: Sequence[Function | Scalar],
    *args: object,
    **kw: object,
) -> AnyArray:
    # What is traced may be in the functions only.
    original = locate("numpy.piecewise")
    array = x if isinstance(x, OverArray) else _core.asarray(_asarray(x))
    made: AnyArray = FUNCTIONS[original](array, condlist, funclist, *args, **kw)
    return made if contains_active(made) else to_numpy(made)


@override("numpy.apply_along_axis", when=ALWAYS)
def apply_along_axis(
    func1d: Function, axis: int, arr: ArrayLike | OverArray, *args: object, **kwargs: object
) -> AnyArray:
    # What is traced may be in the function only; not in one of a library, which may be compiled.
    package = str(getattr(func1d, "__module__", "")).partition(".")[0]
    if package in NATIVE_LIBRARIES and not _core.contains_array((arr, *args), kwargs):
        result: AnyArray = vars(np)["apply_along_axis"](func1d, axis, arr, *args, **kwargs)
        return result
    apply = FUNCTIONS[vars(np)["apply_along_axis"]]
    x = arr if isinstance(arr, OverArray) else _core.asarray(_asarray(arr))
    mapped: AnyArray = apply(func1d, axis, x, *args, **kwargs)
    return mapped
