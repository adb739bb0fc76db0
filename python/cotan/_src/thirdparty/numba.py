"""Functions compiled by numba: on active arguments, the Python function runs instead.

Compiled code needs memory, which an `Array` does not have. Constants go to the compiled function.
Numba compiles with interposition off, since it knows NumPy's functions by identity.
"""

from collections.abc import Callable
from types import CellType, FunctionType
from typing import Protocol

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.runtime.constant_fallback import call_on_constants, kinds_of
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, override
from cotan._src.runtime.values import is_active, is_array
from cotan._src.typing import Args, ArrayLike, Function, Kwargs, NDArray, T


class _Dispatcher(Protocol):
    """A function that `numba.njit` has compiled, or `numba.guvectorize`."""

    __name__: str
    py_func: FunctionType
    compile: Function


class _Vectorized(Protocol):
    """A function that `numba.vectorize` has compiled."""

    __name__: str
    _dispatcher: _Dispatcher


class _Type(Protocol):
    """A type of numba's."""

    name: str


def _unlifted(function: Callable[..., T], *args: object, **kwargs: object) -> T:
    scope = _core.Scope.enter(False, None)
    try:
        return function(*args, **kwargs)
    finally:
        scope.leave()


def _compiled(self: object, args: Args, kwargs: Kwargs) -> object:
    call = original_of(type(self).__call__)
    if not _core.contains_array(args, kwargs):
        return _unlifted(call, self, *args, **kwargs)
    return call_on_constants(lambda *a, **k: _unlifted(call, self, *a, **k), args, kwargs)


def _are_apart(args: Args, kwargs: Kwargs) -> bool:
    """Say whether no two arguments can share memory, which compiled code may write to."""
    items = [*args, *kwargs.values()]
    arrays = [x for x in items if is_array(x) and x.ndim]
    distinct = len({id(x) for x in arrays}) == len(arrays) and all(x.base is None for x in arrays)
    nested = any(isinstance(x, (list, tuple, dict)) for x in items)
    return not nested and (len(arrays) < 2 or distinct)


def _are_constant(args: Args, kwargs: Kwargs) -> bool:
    if not _core.contains_array(args, kwargs):
        return True
    return kinds_of((args, kwargs)) is not None and _are_apart(args, kwargs)


def _is_of_numba(function: FunctionType) -> bool:
    """Say whether Python code is made by numba, of its own containers: it calls what called it."""
    return str(function.__globals__.get("__name__", "")).partition(".")[0] in {"", "numba"}


def _closes_over_arrays(function: FunctionType) -> bool:
    """Say whether an `Array` is among what numba would keep as a constant."""
    waiting = [function]
    seen: set[int] = set()
    while waiting:
        cells = [c for c in waiting.pop().__closure__ or () if c != CellType()]
        for value in [c.cell_contents for c in cells if id(c) not in seen]:
            if _core.contains_array((value,), {}):
                return True
            inner = getattr(value, "py_func", None)
            waiting += [inner] if isinstance(inner, FunctionType) else []
        seen.update(map(id, cells))
    return False


def _expect_whole_words(name: str, args: Args, kwargs: Kwargs) -> None:
    """Refuse short integers: numba widens them, and the Python code would let them wrap around."""
    for i, x in (*enumerate(args), *kwargs.items()):
        dtype = getattr(x, "dtype", None)
        if isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype.itemsize < 8:
            raise TypeError(
                f"{name}: argument {i} is of {dtype}, which numba widens to int64 in arithmetic "
                "and NumPy does not; pass x.astype(np.int64)"
            )


@override("numba.core.registry.CPUDispatcher.__call__", kind=METHOD, when=ALWAYS)
def dispatched(self: _Dispatcher, *args: object, **kwargs: object) -> object:
    if _are_constant(args, kwargs) and not _closes_over_arrays(self.py_func):
        return _compiled(self, args, kwargs)
    if not _is_of_numba(self.py_func):
        _expect_whole_words(self.__name__, args, kwargs)
        return self.py_func(*args, **kwargs)
    if any(is_array(x) and is_active(x) for x in (*args, *kwargs.values())):
        raise NotDifferentiableError(
            f"{self.__name__}: objects of numba (a jitclass, typed.List, typed.Dict) hold memory "
            "and cannot hold active values; use a plain class, list or dict"
        )
    return _compiled(self, args, kwargs)


@override("numba.core.registry.CPUDispatcher.compile", kind=METHOD, when=ALWAYS)
def compiled(self: _Dispatcher, *args: object, **kwargs: object) -> object:
    return _unlifted(original_of(type(self).compile), self, *args, **kwargs)


@override("numba.core.types.scalars.Complex.cast_python_value", kind=METHOD)
@override("numba.core.types.scalars.Float.cast_python_value", kind=METHOD)
@override("numba.core.types.scalars.Integer.cast_python_value", kind=METHOD)
def cast(self: _Type, args: ArrayLike) -> NDArray | np.generic:
    """Give a number as another type: `numba.float32(x)`."""
    return np.asarray(args).astype(self.name)[()]


@override("numba.np.ufunc.dufunc.DUFunc.__call__", kind=METHOD, when=ALWAYS)
def vectorized(self: _Vectorized, *args: object, **kwargs: object) -> object:
    if _are_constant(args, kwargs):
        return _compiled(self, args, kwargs)
    if kwargs:
        raise TypeError(
            f"{self.__name__}: out= and other keywords of a function that numba.vectorize has "
            "compiled have no derivative; leave them out, and write y[...] = f(x)"
        )
    result = np.vectorize(self._dispatcher.py_func)(*args)
    return result if result.ndim else result[()]


@override("numba.np.ufunc.gufunc.GUFunc.__call__", kind=METHOD, when=ALWAYS)
def generalized(self: _Dispatcher, *args: object, **kwargs: object) -> object:
    if _are_constant(args, kwargs):
        return _compiled(self, args, kwargs)
    raise _written(f"{self.__name__}: a function that numba.guvectorize")


@override("numba.stencils.stencil.StencilFunc.__call__", kind=METHOD, when=ALWAYS)
def stencil(self: object, *args: object, **kwargs: object) -> object:
    if _are_constant(args, kwargs):
        return _compiled(self, args, kwargs)
    raise _written("numba: a kernel that numba.stencil")


def _written(what: str) -> NotDifferentiableError:
    return NotDifferentiableError(
        f"{what} has compiled does not accept an Array; write it with slices or loops, as a "
        "function that returns its result, which numba.njit accepts, too"
    )
