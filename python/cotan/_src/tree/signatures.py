"""Type variables by which public functions keep the signatures of the functions they take."""

from typing import ParamSpec, TypeVar

#: The parameters of the user's function.
P = ParamSpec("P")
#: What the user's function returns.
R = TypeVar("R")
#: What a function hands on as it is.
T = TypeVar("T")
