"""Classes that make numbers: `float(x)`, `complex(x)`, `np.float64(x)`; and `type(x)`.

Called, they give plain numbers, which nothing follows, so a traced argument is refused in code that
knows of cotan. In other modules, and in those that were handed to `ct.lift_module`, they give the
traced scalar instead, and `type(x)` the class that NumPy would have handed out. What is no call
(`dtype=np.float64`, `isinstance(x, float)`) means the class itself in every case. There
`isinstance(x, Iterable)` is answered as for NumPy's scalars, too.
"""

import builtins
import dis
import itertools
from collections.abc import Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.rebind.engine import BUILTINS
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.dtypes import DTYPES
from cotan._src.runtime.registry import Kind, override
from cotan._src.runtime.values import TwinInstance, as_number, is_active, is_array, to_numpy

# Names of modules whose calls give traced scalars because that was asked for.
_tracing_modules: set[str] = set()
# Namespaces of programs that do not know of cotan, by identity.
_unaware: set[int] = set()

# Numbers of more digits than ours; not all systems have them under all of their names.
EXTENDED = frozenset({"longdouble", "clongdouble", "float128", "complex256"})


def _of_numpy(name: str) -> None:
    scalar: Any = getattr(np, name)

    def rule(*args: Any, **kwargs: Any) -> Any:
        if len(args) != 1 or kwargs:
            return scalar(*map(to_numpy, args), **kwargs)
        if name in EXTENDED and is_active(asarray(args[0])):
            raise NotDifferentiableError(
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
        return float(to_numpy(x))
    if x.dtype.kind == "c":
        raise TypeError("float() argument must be a real number, not complex; use x.real")
    if x.ndim:
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
    return _core.number(x, np.float64)


def _complex(real: Any = 0.0, imag: Any = 0.0) -> Any:
    real, imag = map(as_number, (real, imag))
    if not is_active(real) and not is_active(imag):
        return complex(to_numpy(real), to_numpy(imag))
    if any(is_array(part) and part.ndim for part in (real, imag)):
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
    return _core.number(real + imag * 1j, np.complex128)


# What stands for Python's own, by identity, where NumPy's module has a name for them.
OF_PYTHON = {id(float): _float, id(complex): _complex}


def _type(*args: Any, **kwargs: Any) -> Any:
    (x,) = args if len(args) == 1 and not kwargs else (None,)
    is_ours = isinstance(x, (_core.Array, TwinInstance))
    return x.__class__ if is_ours else type(*args, **kwargs)


# What arrays have, and scalars have not: classes that look for methods on the class itself.
_PROTOCOLS = {"Iterable", "Sized", "Container", "Collection"}


def _isinstance(x: Any, class_or_tuple: Any, /) -> bool:
    """Say whether NumPy's scalar would be an instance where a scalar of ours is."""
    is_one = isinstance(x, class_or_tuple)
    if is_one and is_array(x) and x._rank != "array":
        return issubclass(x.__class__, class_or_tuple)
    return is_one


def _said(original: Any, args: tuple[Any, ...]) -> Any:
    """Give what an object of the program's says that it is as a number: it may be traced."""
    if len(args) != 1 or original is type:
        return None
    method = getattr(type(args[0]), f"__{original.__name__}__", None)
    return method(args[0]) if isinstance(method, FunctionType) else None


def _class(original: Any, rule: Any) -> Any:
    """Make a class that is the original in all but a call with a traced argument."""

    class Meta(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if cls is not made:
                return super().__call__(*args, **kwargs)  # a class that was derived from it
            if _core.is_lifting():
                if _core.contains_array(args, kwargs) or (
                    original is type and isinstance(args[0], TwinInstance)
                ):
                    return rule(*args, **kwargs)
                if is_array(said := _said(original, args)):
                    return rule(said)
            return original(*args, **kwargs)

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

    names = {"__module__": "builtins", "__doc__": original.__doc__}
    if original is not type:
        # NumPy takes a class that has a dtype for that.
        names["dtype"] = np.dtype(original)
    made = Meta(original.__name__, (original,), names)
    return made


_CLASSES = {
    "float": _class(float, _float),
    "complex": _class(complex, _complex),
    "type": _class(type, _type),
    "isinstance": _isinstance,
}


# SciPy's code, run on our arrays, makes numbers of its arguments, too.
BUILTINS["float"] = _CLASSES["float"]


def keep_traced(module: ModuleType) -> None:
    """Let the calls in a module that make numbers give traced scalars."""
    _tracing_modules.add(module.__name__)
    for name in _used(codes(module)):
        if vars(module).get(name, vars(builtins)[name]) is vars(builtins)[name]:
            setattr(module, name, _CLASSES[name])


def unaware(modules: Iterable[Any]) -> None:
    """Say which modules of programs do not know of cotan."""
    _unaware.clear()
    _unaware.update(id(vars(m)) for m in modules)


def classes_of(module: Any) -> dict[str, Any] | None:
    """Give what stands in for the classes that a module calls, by their names.

    None for a module that knows of cotan, where what would drop a gradient is refused.
    """
    names = vars(module)
    if any(_is_ours(value) for value in list(names.values())):
        return None
    own = codes(module)
    if any("cotan" in code.co_names for code in own):
        return None
    return {name: _CLASSES[name] for name in _used(own)}


def _is_ours(value: Any) -> bool:
    if isinstance(value, ModuleType):
        home = vars(value).get("__name__")
    elif isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        home = value.__module__
    else:
        return False
    return isinstance(home, str) and home.partition(".")[0] == "cotan"


def makes_traced_scalar(frame: Any) -> bool:
    """Say whether a frame looks a name up for a call that may give a traced scalar."""
    return _keeps_traced(frame.f_globals) and is_called(frame)


def _keeps_traced(names: dict[str, Any]) -> bool:
    """Say whether numbers stay traced that code with these names makes."""
    return id(names) in _unaware or names.get("__name__") in _tracing_modules


def is_called(frame: Any) -> bool:
    """Say whether what the running instruction looks up is called next: how depends on versions."""
    steps = list(dis.get_instructions(frame.f_code))
    at = max(i for i, step in enumerate(steps) if step.offset <= frame.f_lasti)
    here, before, after = steps[at], steps[max(at - 2, 0) : at], steps[at + 1 : at + 2]
    return (
        here.opname == "LOAD_METHOD"
        or here.argrepr.startswith("NULL|self")
        or "NULL + " in "".join(step.argrepr for step in before[-1:])
        or any(step.opname == "PUSH_NULL" for step in (*before[:1], *after))
    )


def codes(module: Any) -> list[CodeType]:
    """Give the code of a module's own functions, and of the methods of its classes."""
    found, seen = [], set()
    home = vars(module).get("__name__")
    waiting: list[Any] = list(vars(module).values())
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, CodeType):
            found.append(value)
            waiting += value.co_consts
        elif isinstance(value, FunctionType) and value.__module__ == home:
            waiting += [value.__code__, getattr(value, "__wrapped__", None)]
        elif isinstance(value, (staticmethod, classmethod)):
            waiting.append(value.__func__)
        elif isinstance(value, property):
            waiting += [value.fget, value.fset]
        elif isinstance(value, type) and value.__module__ == home:
            waiting += vars(value).values()
    return found


def _used(own: Iterable[CodeType]) -> set[str]:
    """Name the classes that some code uses, and whose identity it does not ask for."""
    used: set[str] = set()
    asked: set[str] = set()
    for code in own:
        if names := _CLASSES.keys() & set(code.co_names):
            used |= names if _PROTOCOLS & set(code.co_names) else names - {"isinstance"}
            steps = itertools.pairwise(dis.get_instructions(code))
            asked |= {before.argval for before, step in steps if step.opname == "IS_OP"}
    return used - asked
