"""What an error says besides, where the reason is that code does not see a traced value."""

import math
import re
import struct
import sys
from types import FunctionType, TracebackType
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.interpose.number_classes import EXTENDED
from cotan._src.runtime.call_site import NATIVE_LIBRARIES, callee_name, operation, package_of
from cotan._src.runtime.registry import Kind, rows_of

# Methods of generators that take the parameters of a distribution.
_DRAWN = {"exponential", "gumbel", "laplace", "lognormal", "normal", "uniform"}

# What libraries raise where an array is not what they expect.
_COMPLAINTS = {
    *(
        TypeError,
        _core.NotDifferentiableError,
        ValueError,
        AttributeError,
        NotImplementedError,
        RuntimeError,
        NameError,
    ),
    struct.error,
}

_METHOD: Any = type(np.ones(1).dot)

_WRITTEN = "if it is a traced value, write float(ct.dropgrad(x)), or ct.dropgrad(x).tolist()"
# Libraries whose objects hold numbers.
_KEEPERS = {"pandas", "sklearn", "skimage", "statsmodels", "xarray"}

_GROUPED = (
    "pandas computes this in compiled code, which takes memory: compute with arrays; the sums of "
    "groups are np.bincount(codes, weights=x), with the codes of pd.factorize"
)

# Libraries that compute in other processes, and what to write instead.
_PROCESSES = {"multiprocessing", "concurrent", "joblib"}
_ELSEWHERE = (
    "another process is not followed: call the function in this one, in a loop or in a pool of "
    "threads"
)

_MASKED = (
    "this function does not know masks: hand it m.filled(value), m.compressed() or m.data, or use "
    "methods of the masked array (m.std())"
)

# What runs code that masks are handed to.
_OF_MASKS = "cotan._src.numpy.masked_"

# What compiled code and libraries say of our arrays, and what helps.
_REMEDIES = {
    "MaskedConstant": _MASKED,
    **dict.fromkeys(
        ("expected numpy.ndarray, got cotan.Array", "Invalid call to pythranized function"),
        "compiled code takes memory, which an Array has not got: np.asarray(x) of a constant, or "
        "of ct.dropgrad(x), has",
    ),
    **dict.fromkeys(
        ("name 'Array' is not defined", "has no attribute 'Array'"),
        "if text that repr(x) or str([x]) made of a traced value is evaluated: that would drop "
        "the gradient; hand the value itself to what computes, or make the text of ct.dropgrad(x)",
    ),
    "Error setting single item of array": (
        "if it is a traced value that y.flat[i] = x writes, that would drop the gradient: y is a "
        "plain ndarray; make it by np.array(c) or np.copy(c) in the function, or by np.zeros and "
        "the like"
    ),
    "not JSON serializable": _WRITTEN,
    "cotan.Array to Decimal is not supported": _WRITTEN,
    "component: cotan.Array": _WRITTEN,
    "required argument is not a float": _WRITTEN,
    **dict.fromkeys(
        ("for 'float' objects doesn't apply to a 'cotan.Array'", "requires a 'float' object but"),
        "methods that are taken from the class know plain numbers only: write x + y in place of "
        "float.__add__(x, y), and x.is_integer() in place of float.is_integer(x)",
    ),
    "descriptor 'view' for 'numpy.ndarray' objects": (
        "masked arrays, and objects of subclasses of ndarray, cannot hold traced values; use "
        "ndarrays, and np.where for masks"
    ),
    "for 'numpy.ndarray' objects doesn't apply to a 'cotan.Array'": (
        "methods that are taken from the class know ndarrays only: ask the array, x.sum() in place "
        "of np.ndarray.sum(x), or use the function np.sum"
    ),
    **dict.fromkeys(
        ("for 'numpy.ndarray' objects doesn't apply to a", "requires a 'numpy.ndarray' object"),
        "ndarray's own methods take no object that holds traced values: write super() in place of "
        "np.ndarray, or call them on self.view(np.ndarray), as in self.view(np.ndarray)[key]",
    ),
    "of type cotan.Array which has no callable": (
        "NumPy asks each element of an array of objects for a method; leave out dtype=object"
    ),
    **dict.fromkeys(
        (
            "takes arrays and numbers, not <class 'cupy.",
            "Implicit conversion to a NumPy array is not allowed",
        ),
        "arrays of CuPy are in the memory of a GPU: hand over cupy.asnumpy(x)",
    ),
    **dict.fromkeys(
        (
            "takes arrays and numbers, not <class 'pandas.",
            "takes arrays and numbers, not <class 'xarray.",
            "object __array__ method not producing an array",
            "operand type(s) all returned NotImplemented from __array_ufunc__",
        ),
        "an object of another library, even one that holds traced values, is no array: hand over "
        "what is in it, as in s.to_numpy() of pandas and xarray",
    ),
    **dict.fromkeys(
        (
            *(f"'cotan.Array' and '{name}'" for name in ("Fraction", "decimal.Decimal")),
            *(f"'{name}' and 'cotan.Array'" for name in ("Fraction", "decimal.Decimal")),
            *(f"not <class '{name}'>" for name in ("fractions.Fraction", "decimal.Decimal")),
        ),
        "decimals, and fractions beside arrays, make arrays of objects, which hold no traced "
        "values: write float(c) in the place of c",
    ),
    "an Array has no memory to share": (
        "objects of subclasses of ndarray, which are memory, cannot hold traced values: use "
        "ndarrays instead"
    ),
}


# What asks for a plain number where no list and no array of NumPy's does.
_PACKING = {"append", "array", "extend", "fromlist", "insert"}
_PACKED = "an array.array cannot hold traced values: keep them in a list, or in np.zeros(n)"


_FIELDS = "which hold no traced values, keep one array for each field, in a dict, say"


_RECORDS = {"fromarrays", "fromrecords", "rec_append_fields", "recarray"}


# What of SciPy has a rule, by where what has none is.
_INSTEAD = {
    "scipy.differentiate": "use ct.grad",
    "scipy.integrate._ivp": (
        "use scipy.integrate.solve_ivp, whose result holds all steps, or the class ode"
    ),
    "scipy.integrate._tanhsinh": "use scipy.integrate.quad, or np.sum of the terms",
    "scipy.interpolate": (
        "use CubicSpline, make_interp_spline, RegularGridInterpolator or RBFInterpolator"
    ),
    "scipy.optimize.basinhopping": "use minimize, dual_annealing or differential_evolution",
}


def _in_scipy(frame: Any) -> str:
    """Say what a program has called that has no rule, and what to use."""
    module = str(frame.f_globals.get("__name__"))
    name = _public(frame)
    ways = [way for prefix, way in _INSTEAD.items() if module.startswith(prefix) or prefix in name]
    instead = f"; {ways[0]}" if ways else ""
    return f"; in {name}, where cotan has no rule for this call{instead}"


def _public(frame: Any) -> str:
    """Name what a frame of a library runs as users know it, not by where its code is."""
    name, module = frame.f_code.co_qualname, str(frame.f_globals.get("__name__"))
    if "<locals>" in name:
        # A decorator keeps the function that it was put on.
        kept = (frame.f_locals.get(n) for n in frame.f_code.co_freevars)
        function = next((x for x in kept if isinstance(x, FunctionType)), None)
        if function is not None:
            name, module = function.__qualname__, function.__module__
    parts = module.split(".")
    private = [i for i, part in enumerate(parts) if part.startswith("_")]
    owner = ".".join(parts[: private[0]] if private else parts)
    if not hasattr(sys.modules.get(owner), name.partition(".")[0]):
        return f"code of {owner}"
    return f"{owner}.{name}"


def hint() -> str:
    """Say, for an error, why the running code does not see a traced value, if that can be told."""
    if not _core.is_lifting():
        return ""
    frame: Any = sys._getframe()
    passed = ""
    while frame is not None:
        package = package_of(frame)
        if package not in NATIVE_LIBRARIES:
            bound = _bound(frame)
            return f"; {bound}" if bound is not None else passed or _written(frame)
        if package == "scipy":
            passed = _in_scipy(frame)
        elif str(frame.f_globals.get("__name__")).startswith(_OF_MASKS) and not passed:
            passed = f"; {_MASKED}"
        frame = frame.f_back
    return ""


def _written(frame: Any) -> str:
    """Say what helps where a program itself makes a number, or writes into memory."""
    made = callee_name(frame, {"float", "complex", *rows_of("numpy", Kind.NUMBER_CLASS)})
    if made in EXTENDED:
        return f"; {made}(x): extended precision has no derivatives here, use np.float64"
    made = _kept_class(frame) if made is None else made
    if made is not None and _core.is_strict():
        return f"; outside of ct.strict(), {made}(x) stays active"
    if (drawn := callee_name(frame, _DRAWN)) is not None:
        return (
            f"; if {drawn} is a method of a generator that was made before: make that in "
            "the function, or write loc + scale * rng.standard_normal(size) and the like"
        )
    if callee_name(frame, set(vars(math))) is not None:
        return "; functions of math take numbers: x[()] is one, where x is a masked array, say"
    if callee_name(frame, _RECORDS) is not None:
        return f"; a record array has fields, {_FIELDS}"
    if callee_name(frame, _PACKING) is not None:
        return f"; {_PACKED}"
    writes = operation(frame)
    if writes == "STORE_SUBSCR":
        return (
            "; what it is stored in is a plain ndarray: make that by np.array(c) or "
            "np.copy(c) in the function (not c.copy()), or by np.zeros and the like, of "
            "float64 and not of np.longdouble; if it "
            f"has fields, {_FIELDS}; {_PACKED}"
        )
    if writes == "STORE_ATTR":
        return f"; if it is a record array that it is stored in, {_FIELDS}"
    return ""


def _kept_class(frame: Any) -> str | None:
    """Give the name by which a program calls a class of numbers: its own, or `x.dtype.type`."""
    names: dict[str, Any] = {n: frame.f_globals.get(n) for n in frame.f_code.co_names}
    names |= frame.f_locals
    classes = {n for n, v in names.items() if isinstance(v, type) and issubclass(v, np.number)}
    return callee_name(frame, {*classes, "type"})


def _of_packages(message: str, packages: list[str]) -> str | None:
    """Say what helps where a library that was called keeps values, or has other processes."""
    if message.startswith("pickling x") and not _PROCESSES.isdisjoint(packages):
        return _ELSEWHERE
    if "expected numpy.ndarray, got cotan.Array" in message and "pandas" in packages:
        return _GROUPED
    keepers = [package for package in packages if package in _KEEPERS]
    if not keepers or "would drop the gradient" not in message:
        return None
    said = f"{keepers[-1]} keeps values in memory of its own, which cannot hold traced ones"
    return f"{said}: compute with arrays, and hand it ct.dropgrad(x)"


# What some of the functions that differentiate have as a keyword. The others hand it on to the
# function that they are given, as they do with every keyword.
_KEYWORDS = {
    **dict.fromkeys(
        ("wrt", "argnums"), "hold arguments constant with ct.const, those without a tangent by None"
    ),
    "has_aux": "return the value alone, or what else there is as a part of it",
    "allow_int": (
        "give arguments of integers the tangent None, hold them constant with ct.const, or make "
        "them floats"
    ),
    **dict.fromkeys(
        ("sparse", "check", "holomorphic"), "it is a keyword of ct.jacobian, or of ct.hessian"
    ),
}
_UNEXPECTED = re.compile(r"got an unexpected keyword argument '(\w+)'$")


def _not_taken(message: str) -> str | None:
    """Say what helps where a keyword meant for what differentiates went to the function."""
    found = _UNEXPECTED.search(message)
    remedy = _KEYWORDS.get(found[1]) if found else None
    if found is None or remedy is None:
        return None
    return (
        f"; if {found[1]} is meant for what differentiates this function, that has no such keyword "
        f"and hands it on: {remedy}"
    )


def explain(error: BaseException, trace: TracebackType | None) -> None:
    """Add a remedy to what a library complains of."""
    if type(error) is TypeError and error.args and isinstance(error.args[0], str):
        more = _not_taken(error.args[0])
        if more is not None:
            error.args = (error.args[0] + more, *error.args[1:])
            return
    own: TracebackType | None = None
    packages = []
    while trace is not None:
        package = package_of(trace.tb_frame)
        packages.append(package)
        own = own if package in NATIVE_LIBRARIES else trace
        trace = trace.tb_next
    if own is None or type(error) not in _COMPLAINTS or not error.args:
        return
    message, *rest = error.args
    if isinstance(message, str) and (more := _of_packages(message, packages)) is not None:
        error.args = (message if more in message else f"{message}; {more}", *rest)
        return
    for said, remedy in _REMEDIES.items():
        if isinstance(message, str) and said in message:
            if remedy in message:
                return  # by a gradient inside
            error.args = (f"{message.rstrip('.')}; {remedy}", *rest)
            return


def _bound(frame: Any) -> str | None:
    """Say what to write for a method that is lifted, and was taken from its object before."""
    names: dict[str, Any] = {n: frame.f_globals.get(n) for n in frame.f_code.co_names}
    names |= frame.f_locals
    methods = {n: v for n, v in names.items() if type(v) is _METHOD}
    of_ufuncs = {n for n, v in methods.items() if isinstance(v.__self__, np.ufunc)}
    products = {
        n for n, v in methods.items() if isinstance(v.__self__, np.ndarray) and v.__name__ == "dot"
    }
    name = callee_name(frame, of_ufuncs | products)
    if name is None:
        return None
    own = methods[name].__name__
    owner = f"np.{methods[name].__self__.__name__}" if name in of_ufuncs else "table"
    return (
        f"{name} is a method that was taken from its object before the recording began, so cotan "
        f"does not see the call: write {owner}.{own}(...) inside of the function"
    )
