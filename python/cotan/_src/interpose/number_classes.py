"""Classes that make numbers: `float(x)`, `complex(x)`, `np.float64(x)`.

In user code, a number made of an active one stays active, wherever the code stands and however the
class got there: `map(float, xs)`, `defaultdict(float)`. Under `ct.strict()`, and in libraries,
which hand numbers to compiled code, such a call is refused. What is no call (`dtype=np.float64`,
`isinstance(x, float)`) means the class itself.
"""

from types import FunctionType
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.rebind.engine import BUILTINS
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.dtypes import DTYPES
from cotan._src.runtime.registry import Kind, override
from cotan._src.runtime.values import TwinInstance, as_number, is_active, is_array, noted, to_numpy
from cotan._src.typing import Function

# Numbers of more digits than ours; not all systems have them under all of their names.
EXTENDED = frozenset({"longdouble", "clongdouble", "float128", "complex256"})


def _of_numpy(name: str) -> None:
    scalar: Any = getattr(np, name)

    def rule(*args: Any, **kwargs: Any) -> Any:
        if not _core.contains_array(args, kwargs):
            return NotImplemented
        if len(args) != 1 or kwargs:
            return scalar(*map(to_numpy, args), **kwargs)
        if name in EXTENDED and is_active(asarray(args[0])):
            raise noted(
                f"np.{name}(x): extended precision has no derivatives here; use np.float64, or "
                "np.complex128, or ct.dropgrad(x) to hold x constant"
            )
        if np.dtype(scalar).name not in DTYPES:
            # Integers of another dtype, which have no derivative: NumPy's.
            return scalar(to_numpy(asarray(args[0])))
        return asarray(args[0], scalar)[()]

    override(f"numpy.{name}", kind=Kind.NUMBER_CLASS)(rule)


for _name in (
    *("float64", "float32", "float16", "double", "single", "half"),
    *("complex128", "complex64", "cdouble", "csingle", "int64", "int32", "int_", "intp", "uint8"),
    *("int8", "int16", "uint16", "uint32", "uint64", "byte", "ubyte", "short", "ushort", "intc"),
    *("uintc", "uint", "uintp", "long", "ulong", "longlong", "ulonglong", "bool", "bool_"),
    *EXTENDED,
):
    if hasattr(np, _name):
        _of_numpy(_name)


def _float(x: Any = 0.0, /) -> Any:
    x = as_number(x)
    if not is_active(x):
        return float(x)
    if x.dtype.kind == "c":
        raise TypeError("float() argument must be a real number, not complex; use x.real")
    if x.ndim:
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
    return _core.number(x, np.float64)


def _complex(real: Any = 0.0, imag: Any = 0.0) -> Any:
    real, imag = map(as_number, (real, imag))
    if not is_active(real) and not is_active(imag):
        return complex(real, imag)
    if any(is_array(part) and part.ndim for part in (real, imag)):
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
    return _core.number(real + imag * 1j, np.complex128)


def _said(original: type, x: Any) -> Any:
    """Give what an object of user code says that it is as a number: it may be active."""
    method = getattr(type(x), f"__{original.__name__}__", None)
    return method(x) if isinstance(method, FunctionType) else NotImplemented


def _rule(original: type, make: Function) -> Function:
    """Give the rule of a class of Python's: `NotImplemented` where the class itself is right."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        if _core.contains_array(args, kwargs) or any(isinstance(x, TwinInstance) for x in args):
            return make(*args, **kwargs)
        if len(args) != 1 or kwargs:
            return NotImplemented
        said = _said(original, args[0])
        if is_array(said):
            return make(said)
        # User code has run, and is not to be run twice.
        return said if type(said) is original else NotImplemented

    return rule


#: Rules of Python's classes of numbers.
NUMBERS = {float: _rule(float, _float), complex: _rule(complex, _complex)}


def _twin(original: type, rule: Function) -> type:
    """Make a class that is the original in all but a call with an active argument."""

    class Meta(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if cls is not made:
                return super().__call__(*args, **kwargs)  # a class that was derived from it
            result = rule(*args, **kwargs) if _core.is_lifting() else NotImplemented
            return original(*args, **kwargs) if result is NotImplemented else result

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original)

        def __eq__(cls, other: object) -> bool:
            return other is original or other is cls

        def __hash__(cls) -> int:
            return hash(original)

        def __repr__(cls) -> str:
            return repr(original)

    # NumPy takes a class that has a dtype for that.
    names = {"__module__": "builtins", "__doc__": original.__doc__, "dtype": np.dtype(original)}
    made = Meta(original.__name__, (original,), names)
    return made


# Code of libraries, run on `Array`s, makes numbers of its arguments, too.
BUILTINS["float"] = _twin(float, NUMBERS[float])
