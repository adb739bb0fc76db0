"""The dtypes of the loop that NumPy chooses for a ufunc, and casts to them."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.dtypes import DTYPES
from cotan._src.typing import AnyArray, ArrayLike, Casting, Dtype, DTypeLike

# and bfloat16, where it is given
_SUPPORTED = {np.dtype(name) for name in DTYPES - {"bfloat16"}}


def name_of_ufunc(ufunc: np.ufunc) -> str:
    """Give the name by which a ufunc is known to who calls it."""
    name = str(ufunc.__name__)
    if getattr(np, name, None) is ufunc:
        return f"numpy.{name}"
    special = sys.modules.get("scipy.special")
    return f"scipy.special.{name}" if getattr(special, name, None) is ufunc else name


# What NumPy takes an operand for: a dtype, or the type of a Python number.
_Kind: TypeAlias = Dtype | type[complex]
# The argument `signature` of ufuncs.
Signature: TypeAlias = str | tuple[DTypeLike | None, ...] | None

_COMPARISONS = {np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal}
_NUMBERS: dict[str, type[complex]] = {"i": int, "u": int, "f": float, "c": complex}


def _kind_of_number(ufunc: np.ufunc, x: object) -> _Kind:
    """Give what NumPy takes an operand for: a dtype, or the type of a Python number."""
    if isinstance(x, Array):
        if x._rank != "number" or x.dtype.kind == "b":
            return x.dtype  # a boolean is no number to NumPy, which makes an array of it
        # Integers are compared as they are, whatever stands beside them.
        return x.dtype if x.dtype.kind in "iu" and ufunc in _COMPARISONS else _NUMBERS[x.dtype.kind]
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype
    if isinstance(x, bool):
        return np.dtype(np.bool_)
    for kind in (int, float, complex):
        if isinstance(x, kind):
            return kind
    if isinstance(x, (list, tuple, range)):
        return _core.asarray(x).dtype
    if isinstance(x, np.flatiter):
        dtype: Dtype = x.base.dtype
        return dtype
    is_text = isinstance(x, (str, bytes))
    hint = "; text has no arithmetic: float(s) is the number that it spells" if is_text else ""
    raise TypeError(f"{ufunc.__name__}: takes arrays and numbers, not {type(x)}{hint}")


def _is_foreign(dtype: object) -> bool:
    """Say whether a dtype is bfloat16, of which NumPy's own loops know nothing."""
    return isinstance(dtype, np.dtype) and dtype.kind == "V"


def loop(
    ufunc: np.ufunc,
    inputs: Sequence[object],
    dtype: DTypeLike | None = None,
    signature: Signature = None,
    casting: Casting = "same_kind",
) -> tuple[Dtype, ...] | None:
    """Give the dtypes that NumPy computes a ufunc in, of inputs and outputs.

    None where the primitives decide. Raises TypeError where NumPy does, and for a dtype that no
    `Array` has.
    """
    given = [_kind_of_number(ufunc, x) for x in inputs]
    if dtype is None and signature is None and any(map(_is_foreign, given)):
        return None
    options: dict[str, Any] = {}
    if signature is not None:
        options["signature"] = signature
    elif dtype is not None:
        wanted = dtype if isinstance(dtype, type(np.dtype)) else np.dtype(dtype)
        options["signature"] = (None,) * ufunc.nin + (wanted,) * ufunc.nout
    # NumPy's own answer for a Python number under a strict rule may be a crash of the interpreter.
    strict = casting in {"no", "equiv"} and any(isinstance(kind, type) for kind in given)
    rule = "unsafe" if strict else casting
    dtypes = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout), casting=rule, **options)
    if strict:
        _expect_castable(ufunc, given, dtypes, casting)
    _expect_supported(ufunc, dtypes)
    return tuple(dtypes)


def _expect_castable(
    ufunc: np.ufunc, given: Sequence[_Kind], dtypes: Sequence[Dtype], casting: Casting
) -> None:
    for i, (kind, dtype) in enumerate(zip(given, dtypes, strict=False)):
        if isinstance(kind, type):
            # A Python number has a dtype for "equiv" only, by which it would stand alone.
            alone = np.dtype(kind)
            if alone != dtype if casting == "equiv" else not np.can_cast(alone, dtype, "same_kind"):
                raise TypeError(
                    f"{ufunc.__name__}: cannot cast Python {kind.__name__} to {dtype} "
                    f"under the casting rule {casting!r}"
                )
        elif not np.can_cast(kind, dtype, casting):
            raise TypeError(
                f"{ufunc.__name__}: cannot cast input {i} from {kind} to {dtype} "
                f"under the casting rule {casting!r}"
            )


def _expect_supported(ufunc: np.ufunc, dtypes: Sequence[Dtype]) -> None:
    for dtype in dtypes:
        if dtype not in _SUPPORTED and not _is_foreign(dtype):
            raise TypeError(
                f"{ufunc.__name__}: NumPy computes this in dtype {dtype}, which is not supported; "
                "cast the arguments with astype first"
            )


def fold_dtypes(
    ufunc: np.ufunc, x: AnyArray, dtype: DTypeLike | None, out: AnyArray | None
) -> tuple[Dtype, Dtype]:
    """Give the dtypes of the elements and of the result, when a binary ufunc folds an array."""
    if _is_foreign(x.dtype):
        return (x.dtype, x.dtype) if dtype is None else (np.dtype(dtype), np.dtype(dtype))
    if dtype is None and out is None and ufunc in {np.add, np.multiply} and x.dtype.kind in "biu":
        dtype = np.uint64 if x.dtype.kind == "u" else np.int64
    options = {} if dtype is None else {"signature": (np.dtype(dtype), None, None)}
    given = (None if out is None else out.dtype, x.dtype, None)
    dtypes = ufunc.resolve_dtypes(given, casting="unsafe", reduction=True, **options)
    _expect_supported(ufunc, dtypes)
    return dtypes[1], dtypes[2]


def as_dtype(x: ArrayLike, dtype: DTypeLike) -> Array:
    """Give an operand in a dtype."""
    return x if isinstance(x, Array) and x.dtype == dtype else _core.cast(x, dtype)


def finished(result: Array, dtype: DTypeLike | None = None) -> Array:
    """Give a result in its dtype, and as a scalar where NumPy hands out one."""
    result = result if dtype is None else as_dtype(result, dtype)
    return result[()] if result.ndim == 0 and result._rank == "array" else result


def computed(
    ufunc: np.ufunc,
    compute: Callable[..., Array | tuple[Array, ...]],
    inputs: Sequence[ArrayLike],
    dtypes: Sequence[Dtype] | None,
) -> Array | tuple[Array, ...]:
    """Compute a ufunc in the dtypes of a loop."""
    wanted: Sequence[Dtype | None]
    if dtypes is None:
        wanted = (None,) * ufunc.nout
        result = compute(*inputs)
    else:
        try:
            cast: list[ArrayLike] = [as_dtype(x, d) for x, d in zip(inputs, dtypes, strict=False)]
        except OverflowError:
            if dtypes[-1] != np.bool_:
                raise
            # Comparisons are the ones that know what to do with an integer beyond the dtype.
            cast = [*inputs]
        wanted = dtypes[ufunc.nin :]
        result = compute(*cast)
    if isinstance(result, tuple):
        return tuple(finished(r, d) for r, d in zip(result, wanted, strict=True))
    return finished(result, wanted[0])
