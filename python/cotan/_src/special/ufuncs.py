"""Ufuncs of `scipy.special` that are host calls: SciPy computes values, a table has the partials.

`PARTIALS` (filled by `special.partials` and its neighbours) has for each ufunc, by name, the
partial with respect to each argument, in terms of ufuncs of the same table: so they are
differentiable to any order. A partial is a function of the arguments; for a ufunc with several
results it returns one value for each of them. `ZERO` marks a piecewise constant dependence,
`UNKNOWN` a partial without a known formula, which is refused by name.
"""

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.ufunc_dtypes import as_dtype, loop
from cotan._src.runtime.values import refuse
from cotan._src.typing import AnyArray, ArrayLike, Dtype, Function, NDArray

ZERO = "zero"
UNKNOWN = "unknown"

# What a derivative gives: one array for each result, some of which may be `ZERO`.
Slopes: TypeAlias = AnyArray | tuple[AnyArray | str, ...]
# The derivative of a ufunc with one result.
Derivative: TypeAlias = Callable[..., AnyArray]
Partial: TypeAlias = Callable[..., Slopes] | str
PARTIALS: dict[str, tuple[Partial, ...]] = {}
# Where there is no ufunc of that name: the function of values.
FUNCTIONS: dict[str, Callable[..., NDArray]] = {}


@functools.cache
def ufunc_of(name: str) -> Any:
    """Give a ufunc of `scipy.special` by name, a private one too."""
    # SciPy is imported only by who calls its functions.
    special = importlib.import_module("scipy.special")
    found = getattr(special._ufuncs, name, None)
    return found if isinstance(found, np.ufunc) else getattr(special, name)


def call(name: str, *args: ArrayLike) -> Any:
    """Apply a ufunc of the table; a tuple when it has several results."""
    ufunc = ufunc_of(name)
    dtypes = loop(ufunc, args)
    if dtypes is None:  # pragma: no cover - only of dtypes that SciPy does not know
        raise refuse(f"scipy.special.{name} of this dtype")
    given = tuple(as_dtype(x, d) for x, d in zip(args, dtypes, strict=False))
    return apply(name, given, dtypes[ufunc.nin :])


def real_only(name: str, x: AnyArray) -> None:
    """Refuse complex numbers, by the name of a function whose derivative is known of real ones."""
    if x.dtype.kind == "c":
        raise refuse(f"scipy.special.{name} of complex numbers")


def apply(name: str, args: tuple[AnyArray, ...], dtypes: Sequence[Dtype]) -> Any:
    """Apply a function of the table to arguments in its dtypes."""
    compute, rule = _parts(name)
    results = _core.call_special(name, compute, rule, args, tuple(dtypes))
    return results if len(dtypes) > 1 else results[0]


@functools.cache
def _parts(name: str) -> tuple[Function, Function]:
    def compute(*arrays: Array) -> tuple[NDArray, ...]:
        function = FUNCTIONS.get(name) or ufunc_of(name)
        with np.errstate(all="ignore"):
            results = function(*map(_core.value, arrays))
        return results if isinstance(results, tuple) else (results,)

    return compute, functools.partial(_rule, name)


def _rule(
    name: str,
    reverse: bool,
    args: tuple[Array, ...],
    linear: tuple[Array | None, ...],
    wanted: tuple[bool, ...],
) -> list[Array | None]:
    """Give the cotangents of the arguments, or the tangents of the results."""
    partials = PARTIALS[name]
    found: list[Array | None] = [None] * len(wanted)
    for i, x in enumerate(args):
        if x.dtype.kind not in "fc" or not (wanted[i] if reverse else linear[i] is not None):
            continue
        for output, slope in enumerate(_slopes(name, i, partials[i], args)):
            if isinstance(slope, str):
                continue
            at, factor = (i, linear[output]) if reverse else (output, linear[i])
            if factor is None or not (reverse or wanted[output]):
                continue
            if reverse and getattr(slope, "dtype", x.dtype).kind == "c":
                slope = slope.conj()  # noqa: PLW2901
            term = factor * _where_it_counts(slope, factor)
            found[at] = term if found[at] is None else found[at] + term
    return found


def _where_it_counts(slope: AnyArray, factor: Array) -> Array:
    """Give 0 for slopes that are no finite numbers where nothing is asked of them.

    Outside of a function's domain, that is, where `np.where` has chosen another branch. Finite ones
    stay, since the derivative of the product by its factor needs them where that is 0.
    """
    dead = (factor == 0) & ~np.isfinite(slope)
    return _core.where(dead, 0, slope)


def _slopes(
    name: str, i: int, partial: Partial, args: tuple[Array, ...]
) -> tuple[AnyArray | str, ...]:
    if partial == ZERO:
        return ()
    if isinstance(partial, str):
        of, _, method = name.strip("_").rpartition("_")
        # Private functions of SciPy's compute the methods of its distributions.
        public = f"stats.{of}.{method}" if name.startswith("_") and of else f"special.{name}"
        raise refuse(f"scipy.{public} with respect to its argument number {i + 1}")
    slopes = partial(*args)
    return slopes if isinstance(slopes, tuple) else (slopes,)


class Functions:
    """The ufuncs of the table as attributes."""

    def __getattr__(self, name: str) -> Callable[..., Array]:
        return functools.partial(call, name)
