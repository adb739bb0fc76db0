"""Types for signatures: what callers pass, and what rules return."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from cotan._core import Array

#: The parameters of the user's function.
P = ParamSpec("P")
#: What the user's function returns.
R = TypeVar("R")
#: What a function hands on as it is.
T = TypeVar("T")

#: A plain array of NumPy's, of any shape and dtype.
NDArray: TypeAlias = np.ndarray[Any, Any]
#: An array of either kind: an `Array`, or a constant as NumPy has it.
AnyArray: TypeAlias = Array | NDArray
#: What a function takes for an array: arrays of both kinds, numbers, nested sequences of them.
ArrayLike: TypeAlias = Array | npt.ArrayLike
#: A number of either kind: a scalar `Array`, a scalar of NumPy's, or a Python number.
Scalar: TypeAlias = Array | np.number[Any] | complex
#: A dtype, or what names one.
DTypeLike: TypeAlias = npt.DTypeLike
#: The dtype of an array.
Dtype: TypeAlias = np.dtype[Any]
#: The lengths of the axes of an array.
Shape: TypeAlias = tuple[int, ...]
#: One axis, or None for all elements.
Axis: TypeAlias = int | None
#: One axis or several, None for all.
Axes: TypeAlias = int | Sequence[int] | None
#: The order of elements in memory.
Order: TypeAlias = Literal["K", "A", "C", "F"]
#: What may become what when a dtype is given.
Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "unsafe", "same_value"]
#: Any function: a rule, a callback of a solver.
Function: TypeAlias = Callable[..., Any]
#: A decorator that gives back what it decorates, or something of the same use.
Decorator: TypeAlias = Callable[[Function], Function]
#: The arguments of a call by position, and by keyword.
Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]
