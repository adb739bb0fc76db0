"""`numpy.polynomial` on `Array`s: NumPy's own code, for the functions and for the classes.

Masked arrays are refused here, too: what is masked has no place in an array of ours.
"""

from types import FunctionType
from typing import Any

import numpy as np
from numpy.polynomial import (
    chebyshev,
    hermite,
    hermite_e,
    laguerre,
    legendre,
    polynomial,
    polyutils,
)

from cotan._drawn import is_drawing
from cotan._lifted import lifts
from cotan._numpy_core import DISPATCHER, FUNCTIONS, any_active, implements, plain
from cotan._own import adopts, found, own, own_class, runs

_MODULES = (chebyshev, hermite, hermite_e, laguerre, legendre, polynomial, polyutils)
_CLASSES = ("Chebyshev", "Hermite", "HermiteE", "Laguerre", "Legendre", "Polynomial")


def _functions(module: Any) -> str:
    names = (n for n in module.__all__ if isinstance(vars(module)[n], FunctionType))
    return " ".join(f"{module.__name__}.{n}" for n in names)


for _module in _MODULES:
    runs(_functions(_module))
    for _function in vars(_module).values():
        # Some are dispatched by NumPy.
        if isinstance(_function, DISPATCHER) and _function not in FUNCTIONS:
            implements(_function)(own(_function))

adopts(*(f"numpy.polynomial.{name}" for name in _CLASSES))


def _mixing(name: str) -> None:
    """Let polynomials with followed coefficients compute with those of constants."""
    cls: Any = found(f"numpy.polynomial.{name}")
    ours: Any = own_class(cls)
    coefficients = ours._get_coefficients

    def adopted(other: Any) -> Any:
        if type(other) is not cls:
            return other
        return ours(other.coef, other.domain, other.window, other.symbol)

    ours._get_coefficients = lambda self, other: coefficients(self, adopted(other))

    def reflect(sign: str) -> None:
        reflected = getattr(ours, f"__r{sign}__")

        def method(self: Any, other: Any) -> Any:
            if type(other) is cls:
                return getattr(adopted(other), f"__{sign}__")(self)
            return reflected(self, other)

        setattr(ours, f"__r{sign}__", method)

    for sign in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod"):
        reflect(sign)


for _name in _CLASSES:
    _mixing(_name)


def _unmasked(name: str) -> None:
    @lifts(f"numpy.ma.{name}")
    def masked(*args: Any, **kwargs: Any) -> Any:
        if (any_active(args) or any_active(kwargs)) and not is_drawing():
            raise TypeError(
                f"numpy.ma.{name}: a masked array cannot be differentiated; keep the mask beside "
                "the array: np.where(mask, 0, x), x[~mask], or np.sum(x, where=~mask)"
            )
        return getattr(np.ma, name)(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()})


for _name in [
    "array",
    "asarray",
    "asanyarray",
    "fix_invalid",
    "masked_array",
    "MaskedArray",
    "masked_equal",
    "masked_greater",
    "masked_greater_equal",
    "masked_inside",
    "masked_invalid",
    "masked_less",
    "masked_less_equal",
    "masked_not_equal",
    "masked_object",
    "masked_outside",
    "masked_values",
    "masked_where",
]:
    _unmasked(_name)
