"""Words the error for an argument that is asked for and can have no gradient."""

from collections import deque
from collections.abc import Iterator, ValuesView
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from cotan import _core

# How the arrays of a library become ndarrays, by the package that their class is of.
_AS_NDARRAY: dict[str, str] = {
    "pandas": "{0}.to_numpy()",
    "polars": "{0}.to_numpy()",
    "pyarrow": "{0}.to_numpy()",
    "xarray": "{0}.to_numpy()",
    "torch": "{0}.numpy(force=True)",
    "tensorflow": "{0}.numpy()",
    "cupy": "cupy.asnumpy({0})",
}

_INDICES = {("pandas", "Index"), ("xarray", "IndexVariable")}

# Functions that take `allow_int=True`.
_WITH_ALLOW_INT = {
    *("grad", "gradient", "hessian", "jacfwd", "jacobian", "jacrev", "prepare", "pullback"),
    *("value_and_grad", "value_and_gradient"),
}


def refusal(
    operation: str, path: str, value: object, is_argument: bool, allow_int: bool
) -> str | None:
    """Say why `value` has no gradient and what to write; None when nothing is lost by that.

    `is_argument` says that it is an argument, not a part of one.
    """
    if isinstance(value, (set, frozenset)) and not any(map(_may_have_gradient, value)):
        return None
    dtype = _dtype(value)
    if not is_argument and dtype is not None and (not _has_floats(dtype) or _is_index(value)):
        return None
    if _is_integral(value, dtype):
        if allow_int:
            return None
        kept = f"ct.const({path}) or wrt= to hold it constant"
        if operation in _WITH_ALLOW_INT:
            kept += ", or allow_int=True for None in its place"
        return (
            f"{operation}: {path} is {_described(value, dtype)}, which has no derivative; pass "
            f"{_as_float(value, path)} for its gradient, {kept}"
        )
    instead = _converted(value, path)
    if instead is not None:
        return (
            f"{operation}: {path} is {_described(value, dtype)}, which is not differentiated; pass "
            f"{instead} for its gradient, or ct.const({path}) to hold it constant"
        )
    if allow_int and _holds_integers(value):
        return None
    return (
        f"{operation}: {path} is {_described(value, dtype)}, and nothing in it can have a "
        f"derivative; hold it constant with ct.const({path}), or name what is asked for by wrt="
    )


def _dtype(value: object) -> str | None:
    """Give the dtype of an array, or those of the columns of a table, as text."""
    for name in ("dtype", "dtypes"):
        found = getattr(value, name, None)
        if found is not None:
            columns = getattr(found, "tolist", None)
            if name == "dtypes" and callable(columns):
                return ", ".join(sorted({str(entry) for entry in columns()}))
            return str(found)
    return None


def _has_floats(dtype: str) -> bool:
    """Whether there may be numbers with derivatives; of objects and records nobody knows."""
    lower = dtype.lower()
    return any(word in lower for word in ("float", "complex", "double", "object", "<f", "<c"))


def _is_index(value: object) -> bool:
    """Whether numbers are labels of rows, of pandas or xarray, in the object that has the rows."""
    return any(
        (c.__module__.partition(".")[0], c.__name__) in _INDICES for c in type(value).__mro__
    )


def _is_integral(value: object, dtype: str | None) -> bool:
    if isinstance(value, (np.ndarray, np.generic, _core.Array)):
        return np.dtype(value.dtype).kind in "iub"
    return isinstance(value, (bool, int)) and dtype is None


def _holds_integers(value: object) -> bool:
    """Whether there are integers or bools in a structure."""
    leaves = _core.structure(value).leaves
    return any(_is_integral(leaf, str(getattr(leaf, "dtype", "")) or None) for leaf in leaves)


def _may_have_gradient(member: object) -> bool:
    """Whether a member of a set is or holds a number that is no integer."""
    if isinstance(member, (set, frozenset)):
        return any(map(_may_have_gradient, member))
    return isinstance(member, (Fraction, Decimal)) or bool(_core.structure([member]).leaves)


def _described(value: object, dtype: str | None) -> str:
    if isinstance(value, bool):
        return f"the bool {value!r}"
    kind = type(value)
    if isinstance(value, (np.ndarray, _core.Array)):
        return f"an array of dtype {dtype} and shape {value.shape}"
    package = kind.__module__.partition(".")[0]
    name = (
        kind.__qualname__ if package in {"builtins", "__main__"} else f"{package}.{kind.__name__}"
    )
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return f"{article} {name}" + (f" of dtype {dtype}" if dtype else "")


def _as_float(value: object, path: str) -> str:
    return f"float({path})" if np.ndim(value) == 0 else f"{path}.astype(float)"  # type: ignore[arg-type]


def _converted(value: object, path: str) -> str | None:
    """Give an expression whose value can have a gradient."""
    if isinstance(value, (Fraction, Decimal, np.generic)):
        return f"float({path})"
    if isinstance(value, np.ndarray):
        fields = value.dtype.names
        return f"{path}[{fields[0]!r}]" if fields else f"{path}.astype(float)"
    other = as_ndarray(value, path)
    if other is not None:
        return other
    if hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return f"np.asarray({path})"
    if isinstance(value, (set, frozenset, deque, Iterator, ValuesView)):
        return f"list({path})"
    if isinstance(value, range):
        return f"np.array({path}, float)"
    return _from_text(value, path)


def as_ndarray(value: object, path: str) -> str | None:
    """Give an expression that makes an ndarray of one of another library, if that is known."""
    for owner in type(value).__mro__:
        form = _AS_NDARRAY.get(owner.__module__.partition(".")[0])
        if form is not None:
            return form.format(path)
    if hasattr(value, "__cuda_array_interface__"):
        # Numba's arrays say how; those of others are ones that CuPy takes.
        own = hasattr(value, "copy_to_host")
        return f"{path}.copy_to_host()" if own else f"cupy.asnumpy({path})"
    return None


def _from_text(value: object, path: str) -> str | None:
    """Give an expression for numbers that are spelled: `"1.5"`, or a list of such."""
    texts: Any = value if isinstance(value, (list, tuple)) else [value]
    if not texts or not all(isinstance(text, (str, bytes)) for text in texts):
        return None
    try:
        for text in texts:
            float(text)
    except ValueError:
        return None
    return f"float({path})" if texts is not value else f"[float(s) for s in {path}]"


def expect_function(name: str, what: str, value: object) -> None:
    """Refuse an argument that is no function, by the name of what it was given to and its own."""
    if not callable(value):
        raise TypeError(f"{name}: {what} must be a function, not {type(value).__name__}")
