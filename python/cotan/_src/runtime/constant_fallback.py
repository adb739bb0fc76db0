"""Overrides that hand constants back to NumPy or SciPy, where their rules cannot compute them.

Rules are written for active values. For integers, and for constants that a rule refuses, SciPy
computes the result; NumPy does for constants beside text, objects and other data that no `Array`
holds.
"""

import functools
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from cotan import _core
from cotan._src.runtime.dtypes import DTYPES
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.values import is_active, is_array
from cotan._src.typing import Args, Function, Kwargs, NDArray

if TYPE_CHECKING:
    from cotan._core import Array

_DATA = (int, float, complex, str, bytes, type(None), np.generic, np.dtype, slice)

# What `scipy.stats.mstats` has, too, by code that computes with masked arrays.
_ALSO_FOR_MASKED = frozenset({"gmean", "hmean"})


def with_constant_fallback(name: str, rule: Function) -> Function:
    """Make of a rule one that leaves constants to the library where it cannot do better.

    That is where all arrays are of integers, and where the rule raises an exception and SciPy
    does not, or where the rule has refused what SciPy has something else against.
    """
    module, _, function = name.rpartition(".")

    def original() -> Function | None:
        return vars(sys.modules[module])[function] if module in sys.modules else None

    @functools.wraps(rule)
    def call(*args: Any, **kwargs: Any) -> object:
        if module == "scipy.stats" and (masked := _masked((*args, *kwargs.values()))) is not None:
            if function in _ALSO_FOR_MASKED:
                return original_of(original())(*args, **kwargs)  # type: ignore[misc]
            raise TypeError(
                f"{name}: an array of shape {masked.shape} would lose its mask, and masked "
                "elements would count; use x.compressed(), or methods of x such as x.mean() and "
                "x.std()"
            )
        kinds = kinds_of((args, kwargs))
        if kinds is not None and "output" in kwargs:
            # What is written to says nothing of what is computed.
            kinds = kinds_of((args, {**kwargs, "output": None}))
        if kinds is not None and not kinds & set("fcV"):
            library_function = original()
            if library_function is not None and not isinstance(library_function, type):
                return call_on_constants(library_function, args, kwargs)
        try:
            return rule(*args, **kwargs)
        except Exception as refused:
            raise_interrupt(refused)
            library_function = original() if kinds is not None else None
            if library_function is None:
                raise
            try:
                result = call_on_constants(library_function, args, kwargs)
            except Exception as failed:
                raise_interrupt(failed)
                if not isinstance(refused, TypeError):
                    raise refused from None
                raise
            _core.granted(str(refused))
            return result

    return call


def method_with_constant_fallback(original: Callable[[], Function], rule: Function) -> Function:
    """Make of a rule for a method one that leaves it constants that the rule raises at."""

    @functools.wraps(rule)
    def call(self: Any, *args: Any, **kwargs: Any) -> object:
        try:
            return rule(self, *args, **kwargs)
        except Exception as refused:
            raise_interrupt(refused)
            if kinds_of((args, kwargs)) is None:
                raise
            result = call_on_constants(functools.partial(original(), self), args, kwargs)
            _core.granted(str(refused))
            return result

    return call


def with_foreign_fallback(function: Function, rule: Function) -> Function:
    """Make of a rule for a function of NumPy's one that leaves it what no `Array` can hold.

    That is where the rule refuses constants and there is text among them, or an array or a dtype of
    another kind than numbers: `np.where(x > 0, "up", "down")`.
    """

    @functools.wraps(rule)
    def call(*args: Any, **kwargs: Any) -> object:
        try:
            return rule(*args, **kwargs)
        except TypeError as refused:
            if kinds_of((args, kwargs)) is None or not holds_foreign(args, kwargs):
                raise
            try:
                result = call_on_constants(function, args, kwargs)
            except (TypeError, ValueError):
                raise refused from None
            _core.granted(str(refused))
            return result

    return call


def holds_foreign(args: Args, kwargs: Kwargs) -> bool:
    """Say whether positional arguments and options hold what no `Array` does.

    A text that is an argument of its own is the name of a mode or an order.
    """
    waiting: list[Any] = [x for x in (*args, *kwargs.values()) if not isinstance(x, (str, bytes))]
    if isinstance(kwargs.get("dtype"), str):
        waiting.append(np.dtype(kwargs["dtype"]))
    while waiting:
        x = waiting.pop()
        if isinstance(x, dict):
            waiting += x.values()
        elif type(x) in {list, tuple}:
            waiting += x
        elif isinstance(x, (str, bytes)):
            return True
        else:
            dtype = x if isinstance(x, (np.dtype, type)) else getattr(x, "dtype", np.float64)
            if np.dtype(dtype).name not in DTYPES:
                return True
    return False


def _masked(items: Iterable[Any]) -> Any:
    """Find what is masked: SciPy's statistics leave it out, and rules would count it."""
    for x in items:
        found = _masked(x) if type(x) in {list, tuple} else None
        if found is not None:
            return found
        if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
            return x
    return None


def kinds_of(tree: object) -> set[str] | None:
    """Give the kinds of dtypes in nested arguments; None if they are not all constants."""
    kinds: set[str] = set()
    waiting: list[Any] = [tree]
    while waiting:
        x = waiting.pop()
        if is_array(x):
            if is_active(x) or _core.is_traced(x):
                return None
            kinds.add(x.dtype.kind)
        elif isinstance(x, np.ndarray):
            kinds.add(x.dtype.kind)
        elif isinstance(x, dict):
            waiting += x.values()
        elif type(x) in {list, tuple}:
            waiting += x
        elif not isinstance(x, (*_DATA, type)):
            return None
    return kinds


def call_on_constants(original: Function, args: Args, kwargs: Kwargs) -> Any:
    """Call a function with plain values; what it writes to is written to."""
    copies: list[tuple[Array, NDArray, NDArray]] = []

    def plainly(x: Any) -> Any:
        if is_array(x):
            value = np.array(_core.value(x))
            if x._rank != "array":
                return value.item() if x._rank == "number" else value[()]
            copies.append((x, value, value.copy()))
            return value
        if isinstance(x, dict):
            return {key: plainly(item) for key, item in x.items()}
        return type(x)(map(plainly, x)) if type(x) in {list, tuple} else x

    result = original(*plainly(args), **plainly(kwargs))
    for array, value, before in copies:
        if not np.array_equal(value, before, equal_nan=value.dtype.kind in "fc"):
            array[...] = value
        if result is value:
            return array
    return _handed_out(result)


def _handed_out(result: object) -> object:
    if type(result) is tuple:
        return tuple(map(_handed_out, result))
    # User code may write traced values into it later.
    known = type(result) is np.ndarray and result.dtype.name in DTYPES
    return _core.asarray(result) if known else result
