"""Overrides of `math` and `cmath` for scalar `Array`s.

Results are Python numbers, in double precision. Where the original raises an error for a value,
as `math.sqrt(-1.0)` does, so do these, so the value is computed when they are called.
"""

import cmath
import functools
import importlib.util
import math
import operator
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import as_number, contains_active, is_array, refuse
from cotan._src.stdlib.iterables import of_items
from cotan._src.typing import ArrayLike, DTypeLike, Function, Scalar

# A number without an imaginary part.
_Real: TypeAlias = Array | float


def _number(x: object, dtype: DTypeLike, name: str) -> Any:
    """Give an argument as a scalar."""
    x = as_number(x)
    if not is_array(x):
        return x
    if x.size != 1:
        raise TypeError(
            f"{name}: the argument must be a number, not an array of shape {x.shape}; use the "
            "function of numpy"
        )
    if x.dtype.kind == "c" and dtype is np.float64:
        raise TypeError(f"{name}: must be real number, not complex; use cmath or numpy")
    return _core.number(x, dtype)


def _value(x: object) -> Any:
    """Give the value of a scalar as a Python number."""
    x = as_number(x)
    return _core.value(x).item() if is_array(x) else x


def _seen(x: object) -> Any:
    """Give the value of a scalar for the errors that it leads to, and for nothing else."""
    return _core.peek(x).item() if is_array(x) else x


# Infinity is the result of two kinds of errors.
_TWOFOLD = {"pow", "gamma", "lgamma", "ldexp"}


def _ask(original: Function, compute: Function, *numbers: object) -> None:
    """Let the original refuse values; a prepared function watches whether it would again."""
    try:
        original(*map(_seen, numbers))
    except (ArithmeticError, ValueError) as error:
        arrays = list(filter(is_array, numbers))
        if _core.is_preparing() and not _is_told(original.__name__, compute(*numbers), arrays):
            for x in arrays:
                _core.failed(error, x)
        raise


def _is_told(name: str, result: ArrayLike, numbers: Sequence[Array]) -> bool:
    """Say whether an error can be told by a result that is not finite, of numbers that are."""
    if not all(bool(_core.isfinite(x)) for x in numbers):
        return False
    if bool(_core.isnan(result)):
        return True
    return name not in _TWOFOLD and not bool(_core.isfinite(result))


def _checked(result: Array) -> Array:
    """Let a prepared function notice when its values lead to an error that they did not lead to."""
    if _core.is_preparing() and not _core.isfinite(result):
        _value(result)  # what is not finite could have come about in many ways
    return result


def _function(module: ModuleType, name: str, compute: Function) -> None:
    """Enter a function of numbers; the original has a look at the values, and may refuse them."""
    original = getattr(module, name, None)
    if original is None:
        return
    full, is_real = f"{module.__name__}.{name}", module is math
    dtype = np.float64 if is_real else np.complex128

    @functools.wraps(original)
    def rule(*args: object) -> Array:
        # The commonest case by a short way; errors come by the long one.
        result = _core.function_of_numbers(original, compute, args) if is_real else None
        if result is not None:
            return result
        numbers = [_number(x, dtype, full) for x in args]
        _ask(original, compute, *numbers)
        return _checked(_core.number(compute(*numbers), None))

    override(full)(rule)


def _log(x: ArrayLike, base: Any = math.e) -> Array:
    return _core.log(x) if base is math.e else _core.log(x) / _core.log(base)


def _remainder(x: Array, y: Array) -> Array:
    rest, n = _core.fmod(x, y), abs(y)
    size = abs(rest)
    other = n - size
    # Halfway between two multiples the even one counts.
    if size > other or (size == other and _core.fmod((abs(x) - size) / 2, n) != 0):
        return rest - np.copysign(n, rest)
    return rest


_COMMON = (
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan"),
    *("asinh", "acosh", "atanh", "exp", "sqrt", "log10"),
)
_REAL = ("exp2", "expm1", "cbrt", "log2", "log1p", "erf", "erfc")


def _hypot(*xs: _Real) -> _Real:
    total: _Real = 0.0
    for x in xs:
        total = _core.hypot(total, x)
    return total


_MATH: dict[str, Function] = {
    **{n: getattr(_core, n) for n in (*_COMMON, *_REAL)},
    "atan2": _core.atan2,
    "log": _log,
    "pow": _core.pow,
    "fabs": abs,
    "copysign": np.copysign,
    "fmod": _core.fmod,
    "remainder": _remainder,
    "degrees": lambda x: x * (180 / math.pi),
    "radians": lambda x: x * (math.pi / 180),
    "hypot": _hypot,
    "nextafter": np.nextafter,
    "ldexp": lambda x, i: np.ldexp(x, operator.index(i)),
    "fma": lambda x, y, z: x * y + z,
}
for _name, _compute in _MATH.items():
    _function(math, _name, _compute)

_CMATH = {
    **{n: getattr(_core, n) for n in _COMMON},
    "log": _log,
}
for _name, _compute in _CMATH.items():
    _function(cmath, _name, _compute)


@override("cmath.phase")
def phase(z: Scalar) -> Array:
    return _core.number(np.angle(_number(z, np.complex128, "cmath.phase")), None)


@override("cmath.polar")
def polar(z: Array) -> tuple[Array, Array]:
    return abs(z), phase(z)


@override("cmath.rect")
def rect(r: Scalar, phi: Scalar) -> Array:
    r, phi = (_number(x, np.float64, "cmath.rect") for x in (r, phi))
    return _core.number(_core.apply("complex", r * _core.cos(phi), r * _core.sin(phi)), None)


@override("math.modf")
def modf(x: Scalar) -> tuple[Scalar, float]:
    x = _number(x, np.float64, "math.modf")
    whole = math.modf(_value(x))[1]
    return x - whole, whole


class _Digits:
    """What numbers of mpmath and SymPy are made of: integers, which are never active.

    They are refused where they are used: mpmath takes any error of `frexp` for a sign of NaN.
    """

    def __mul__(self, _other: object) -> NoReturn:
        raise NotDifferentiableError(
            "a number of mpmath or SymPy made from x would drop the gradient; compute with x "
            "itself, as lambdify's functions do, or use ct.dropgrad(x) to drop it on purpose"
        )


@override("math.frexp")
def frexp(x: Scalar) -> tuple[Scalar | _Digits, int]:
    caller = sys._getframe(1).f_globals.get("__name__", "")
    if str(caller).partition(".")[0] == "mpmath" and contains_active((x,)):
        return _Digits(), math.frexp(_value(_number(x, np.float64, "math.frexp")))[1]
    x = _number(x, np.float64, "math.frexp")
    exponent = math.frexp(_value(x))[1]
    return x * 2.0**-exponent, exponent


@of_items("math.fsum")
def fsum(seq: Sequence[ArrayLike], /) -> Array:
    if nested := [x for x in seq if isinstance(x, (list, tuple))]:
        raise TypeError(f"must be real number, not {type(nested[0]).__name__}")
    items = [_number(x, np.float64, "math.fsum") for x in seq]
    math.fsum([_seen(x) for x in items])
    return _checked(_core.number(_core.sum(_core.stack(items)), None))


@of_items("math.prod")
def prod(iterable: Sequence[Scalar], /, *, start: Scalar = 1) -> Scalar:
    return functools.reduce(lambda x, y: x * y, iterable, start)


@of_items("math.sumprod")
def sumprod(p: Sequence[Scalar], q: Sequence[Scalar], /) -> Scalar:
    if len(p) != len(q):
        raise ValueError("Inputs are not the same length")
    return sum(x * y for x, y in zip(p, q, strict=True))


@of_items("math.dist")
def dist(p: Sequence[Scalar], q: Sequence[Scalar], /) -> Array:
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    p, q = ([_number(x, np.float64, "math.dist") for x in point] for point in (p, q))
    return _core.number(_hypot(*(x - y for x, y in zip(p, q, strict=True))), None)


def _of_values(module: ModuleType, names: str) -> None:
    """Enter functions whose results have no derivative: booleans and integers."""
    for name in names.split():
        original = getattr(module, name, None)
        if original is None:
            continue

        def constant(*args: object, _original: Function = original, **kwargs: object) -> object:
            return _original(*map(_value, args), **{k: _value(v) for k, v in kwargs.items()})

        override(f"{module.__name__}.{name}")(constant)


_of_values(math, "ulp gcd lcm comb perm factorial isqrt")


def _isclose(
    original: Function, a: Scalar, b: Scalar, *, rel_tol: _Real = 1e-09, abs_tol: _Real = 0.0
) -> bool:
    """Compare numbers; a prepared function watches the answer."""
    numbers: list[Any] = [as_number(x) for x in (a, b, rel_tol, abs_tol)]
    x, y, relative, absolute = numbers
    if not (_core.is_preparing() and contains_active(numbers)):
        return bool(
            original(_value(x), _value(y), rel_tol=_value(relative), abs_tol=_value(absolute))
        )
    if relative < 0 or absolute < 0:
        raise ValueError("tolerances must be non-negative")
    if x == y:
        return True
    size = np.maximum(abs(x), abs(y))
    return bool(np.isfinite(size)) and bool(abs(x - y) <= np.maximum(relative * size, absolute))


override("math.isclose")(functools.partial(_isclose, math.isclose))
override("cmath.isclose")(functools.partial(_isclose, cmath.isclose))


def _of_decisions(module: ModuleType, names: str) -> None:
    """Enter functions whose results are booleans, or numbers that are rounded."""
    for name in names.split():
        original = getattr(module, name)

        def constant(x: object, *, _original: Function = original, _name: str = name) -> object:
            x = as_number(x)
            if not is_array(x):
                return _original(x)
            if _name.startswith("is"):
                return bool(getattr(_core, _name)(_number(x, np.complex128, _name)))
            if x.dtype.kind == "c":
                return _original(_value(x))
            return getattr(x, f"__{_name}__")()

        override(f"{module.__name__}.{name}")(constant)


_of_decisions(math, "isnan isinf isfinite floor ceil trunc")
_of_decisions(cmath, "isnan isinf isfinite")


def special(name: str, x: Scalar, full: str) -> Any:
    """Apply a function of `scipy.special`, which knows its derivative, in the place of another."""
    if importlib.util.find_spec("scipy") is None:
        raise refuse(f"{full} without SciPy")
    # Not at the top: SciPy is not needed by anything else here.
    from cotan._src.special import partials  # noqa: F401, PLC0415
    from cotan._src.special.ufuncs import call  # noqa: PLC0415

    return call(name, x)


def _gamma(name: str, of_scipy: str, x: Scalar) -> Array:
    full = f"math.{name}"
    x = _number(x, np.float64, full)
    compute = functools.partial(special, of_scipy, full=full)
    _ask(getattr(math, name), compute, x)  # refuses poles
    return _checked(_core.number(compute(x), None))


override("math.gamma")(functools.partial(_gamma, "gamma", "gamma"))
override("math.lgamma")(functools.partial(_gamma, "lgamma", "gammaln"))
