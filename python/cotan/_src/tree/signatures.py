"""Types by which public functions keep the signatures of the functions they take, and name leaves.

`runtime.typing` has the same names for the packages above this one.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np

from cotan._core import Array

#: The parameters of the user's function.
P = ParamSpec("P")
#: What the user's function returns.
R = TypeVar("R")
#: What a function hands on as it is.
T = TypeVar("T")

#: Any function of the user's.
Function: TypeAlias = Callable[..., Any]
#: An array of either kind: an `Array`, or one of NumPy's.
AnyArray: TypeAlias = Array | np.ndarray[Any, Any]
#: A number of either kind.
Scalar: TypeAlias = Array | np.number[Any] | complex
#: The dtype of an array.
Dtype: TypeAlias = np.dtype[Any]
