"""Overrides of `numpy.polynomial`, its functions and classes: NumPy's Python code, rebound."""

from types import FunctionType, ModuleType
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
from numpy.polynomial._polybase import ABCPolyBase

from cotan import _core
from cotan._src.rebind.engine import (
    REBOUND,
    locate,
    rebinds_instances,
    rebound,
    rebound_by_name,
    rebound_class,
)
from cotan._src.runtime.registry import FUNCTIONS, METHOD, SUBSTITUTE, override
from cotan._src.runtime.values import DISPATCHER
from cotan._src.typing import AnyArray

_MODULES = (chebyshev, hermite, hermite_e, laguerre, legendre, polynomial, polyutils)
_CLASSES = ("Chebyshev", "Hermite", "HermiteE", "Laguerre", "Legendre", "Polynomial")


def _functions(module: ModuleType) -> list[str]:
    names = (n for n in module.__all__ if isinstance(vars(module)[n], FunctionType))
    return [f"{module.__name__}.{n}" for n in names]


for _module in _MODULES:
    override(*_functions(_module))(REBOUND)
    for _function in vars(_module).values():
        # Some are dispatched by NumPy.
        if isinstance(_function, DISPATCHER) and _function not in FUNCTIONS:
            override(_function)(rebound(_function))

rebinds_instances(*(f"numpy.polynomial.{name}" for name in _CLASSES))
_AS_SERIES = "numpy.polynomial.polyutils.as_series"


@override(_AS_SERIES, kind=SUBSTITUTE)
def _as_series(*args: object, **kwargs: object) -> list[AnyArray]:
    """Give series that can be written into, also constant ones, to which traced ones are added."""
    series: list[AnyArray] = rebound_by_name(_AS_SERIES)(*args, **kwargs)
    if not any(isinstance(c, _core.Array) for c in series):
        return series
    return [_core.array(c) if type(c) is np.ndarray else c for c in series]


def _adopted(series: ABCPolyBase) -> ABCPolyBase:
    """Give the same polynomial with our names in its methods."""
    twin: Any = rebound_class(type(series))
    adopted: ABCPolyBase = twin(series.coef, series.domain, series.window, series.symbol)
    return adopted


# Where the methods of all classes are.
_BASE = "numpy.polynomial._polybase.ABCPolyBase"


def _takes(name: str) -> None:
    """Let a method of polynomials with constant coefficients take `Array`s."""

    @override(f"{_BASE}.{name}", kind=METHOD)
    def method(self: ABCPolyBase, *args: object, **kwargs: object) -> Any:
        return getattr(_adopted(self), name)(*args, **kwargs)


for _sign in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod"):
    _takes(f"__{_sign}__")
    _takes(f"__r{_sign}__")
for _name in ("convert", "integ", "linspace"):
    _takes(_name)


def _makes(name: str) -> None:
    """Let a method of the classes, which makes a polynomial, take `Array`s."""

    @override(f"{_BASE}.{name}", kind=METHOD)
    def method(cls: type[ABCPolyBase], *args: object, **kwargs: object) -> Any:
        return getattr(rebound_class(cls), name)(*args, **kwargs)


for _name in ("fit", "fromroots"):
    _makes(_name)


def _mixing(name: str) -> None:
    """Let polynomials of constants compute with `Array`s, and with polynomials of those."""
    cls: Any = locate(f"numpy.polynomial.{name}")
    twin: Any = rebound_class(cls)
    coefficients = twin._get_coefficients

    def adopted(other: Any) -> object:
        return _adopted(other) if type(other) is cls else other

    twin._get_coefficients = lambda self, other: coefficients(self, adopted(other))

    def reflect(sign: str) -> None:
        reflected = getattr(twin, f"__r{sign}__")

        def method(self: ABCPolyBase, other: object) -> Any:
            if type(other) is cls:
                return getattr(adopted(other), f"__{sign}__")(self)
            return reflected(self, other)

        setattr(twin, f"__r{sign}__", method)

    for sign in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod"):
        reflect(sign)


for _name in _CLASSES:
    _mixing(_name)
