"""ONNX subgraphs for primitives that no single ONNX operator computes.

`RECIPES` has a function for each recipe that the primitive table names. `OPERATORS` has one for
each operator of the table that takes parameters, and `DOUBLE` the same function in float64 for
operators for which runtimes have a float32 kernel only. All get float32, float64, int32, int64 or
bool; other dtypes are cast before.
"""

import math
from collections.abc import Callable

from cotan._src.onnx.array_ops import ARRAYS, PARAMETRIC
from cotan._src.onnx.graph import Equation, Graph, Recipe
from cotan._src.onnx.loops import looped
from cotan._src.onnx.windows import WINDOWS

__all__ = ["DOUBLE", "OPERATORS", "RECIPES"]

FLOATS = {"float32", "float64"}


def _number(g: Graph, e: Equation, value: float) -> str:
    return g.const(value, e.source)


# --------------------------------------------------------------------------------------------------
# Integers and signs


def _rounding(operator: str) -> Recipe:
    """Round, where there is something to round."""

    def recipe(g: Graph, e: Equation) -> str:
        return str(g.op(operator if e.source in FLOATS else "Identity", e.x[0]))

    return recipe


def _trunc(g: Graph, e: Equation) -> str:
    if e.source not in FLOATS:
        return str(g.op("Identity", *e.x))
    below = g.op("Less", e.x[0], _number(g, e, 0))
    return g.where_(below, g.op("Ceil", e.x[0]), g.op("Floor", e.x[0]))


def _sign(g: Graph, e: Equation) -> str:
    out = g.op("Sign", e.x[0])
    return g.where_(g.op("IsNaN", e.x[0]), e.x[0], out) if e.source in FLOATS else str(out)


def _relu(g: Graph, e: Equation) -> str:
    # A comparison, since runtimes do not agree about the larger of 0 and NaN.
    zero = _number(g, e, 0)
    return g.where_(g.op("Less", e.x[0], zero), zero, e.x[0])


def _square(g: Graph, e: Equation) -> str:
    return str(g.op("Mul", e.x[0], e.x[0]))


def _is_negative(g: Graph, x: str, dtype: str) -> str:
    """Whether a float is below zero, or the negative zero."""
    zero = g.const(0, dtype)
    # No comparison tells the zeros apart, but their reciprocals differ.
    return str(g.op("Or", g.op("Less", x, zero), g.op("Less", g.op("Reciprocal", x), zero)))


def _copysign(g: Graph, e: Equation) -> str:
    x = g.op("Abs", e.x[0])
    return g.where_(_is_negative(g, e.x[1], e.source), g.op("Neg", x), x)


def _divisor(g: Graph, e: Equation) -> tuple[str, str, str]:
    """Give arguments that integers divide without a trap, and where the divisor is zero."""
    x, y = e.x
    zero = g.op("Equal", y, _number(g, e, 0))
    # The smallest number by -1 is another trap: its remainder is that by 1.
    minus = g.op("Equal", y, _number(g, e, -1))
    return x, g.where_(g.op("Or", zero, minus), _number(g, e, 1), y), zero


def _remainder(g: Graph, e: Equation) -> str:
    if e.source not in FLOATS:
        x, y, zero = _divisor(g, e)
        return g.where_(zero, _number(g, e, 0), g.op("Mod", x, y))
    x, y = e.x
    zero = _number(g, e, 0)
    m = g.op("Mod", x, y, fmod=1)
    crossed = g.op("Xor", g.op("Less", y, zero), g.op("Less", m, zero))
    # No sum where there is a NaN: it stays one.
    m = g.where_(g.op("And", crossed, g.op("Not", g.op("Equal", m, zero))), g.op("Add", m, y), m)
    signed = g.where_(_is_negative(g, y, e.source), g.const(-0.0, e.source), zero)
    return g.where_(g.op("Equal", m, zero), signed, m)


def _fmod(g: Graph, e: Equation) -> str:
    if e.source not in FLOATS:
        x, y, zero = _divisor(g, e)
        return g.where_(zero, _number(g, e, 0), g.op("Mod", x, y, fmod=1))
    return str(g.op("Mod", *e.x, fmod=1))


def _floor_divide(g: Graph, e: Equation) -> str:
    zero, one = _number(g, e, 0), _number(g, e, 1)
    if e.source not in FLOATS:
        x, y, by_zero = _divisor(g, e)
        down = g.op("Sub", x, g.op("Mod", x, y))
        negative = g.op("Equal", e.x[1], _number(g, e, -1))
        out = g.where_(negative, g.op("Neg", x), g.op("Div", down, y))
        return g.where_(by_zero, zero, out)
    x, y = e.x
    # From the exact remainder, so that both agree.
    m = g.op("Mod", x, y, fmod=1)
    whole = g.op("Div", g.op("Sub", x, m), y)
    crossed = g.op("Xor", g.op("Less", y, zero), g.op("Less", m, zero))
    down = g.op("And", crossed, g.op("Not", g.op("Equal", m, zero)))
    q = g.where_(down, g.op("Sub", whole, one), whole)
    floor = g.op("Floor", q)
    above = g.op("Greater", g.op("Sub", q, floor), _number(g, e, 0.5))
    out = g.where_(above, g.op("Add", floor, one), floor)
    ratio = g.op("Div", x, y)
    nothing = g.where_(_is_negative(g, ratio, e.source), g.const(-0.0, e.source), zero)
    out = g.where_(g.op("Equal", q, zero), nothing, out)
    return g.where_(g.op("Equal", y, zero), ratio, out)


def _pow(g: Graph, e: Equation) -> str:
    x, y = e.x
    if e.source in FLOATS:
        return str(g.op("Pow", x, y))
    exponent = g.known.get(y)
    if exponent is None or exponent.size != 1 or exponent.item() < 0:
        e.refuse(
            "runtimes compute powers of integers in floats; write x.astype(float) ** y, or a "
            "constant exponent"
        )
    # By squaring: integers wrap around exactly.
    n, out, power = int(exponent.item()), _number(g, e, 1), x
    while n:
        if n & 1:
            out = g.op("Mul", out, power)
        n >>= 1
        if n:
            power = g.op("Mul", power, power)
    return g.expand(out, e.shape)


def _shift(left: bool) -> Recipe:
    def recipe(g: Graph, e: Equation) -> str:
        bits = 8 * (4 if e.source == "int32" else 8)
        unsigned = f"uint{bits}"
        x, y = e.x
        zero = _number(g, e, 0)
        all_out = g.op("Or", g.op("Less", y, zero), g.op("GreaterOrEqual", y, _number(g, e, bits)))
        y = g.cast(g.where_(all_out, zero, y), unsigned)
        # Operators shift unsigned numbers. A negative one goes down as the complement of its
        # complement.
        negative = g.op("Less", x, zero)
        flip = not left
        bare = g.where_(negative, g.op("BitwiseNot", x), x) if flip else x
        out = g.op("BitShift", g.cast(bare, unsigned), y, direction="LEFT" if left else "RIGHT")
        out = g.cast(out, e.source)
        none = zero
        if flip:
            out = g.where_(negative, g.op("BitwiseNot", out), out)
            none = g.where_(negative, _number(g, e, -1), zero)
        return g.where_(all_out, none, out)

    return recipe


def _invert(g: Graph, e: Equation) -> str:
    return str(g.op("Not" if e.source == "bool" else "BitwiseNot", *e.x))


# --------------------------------------------------------------------------------------------------
# Comparisons


def _ne(g: Graph, e: Equation) -> str:
    return str(g.op("Not", g.op("Equal", *e.x)))


def _truth(operator: str) -> Recipe:
    def recipe(g: Graph, e: Equation) -> str:
        x = e.x if e.source == "bool" else [g.cast(x, "bool") for x in e.x]
        return str(g.op(operator, *x))

    return recipe


def _is(operator: str) -> Recipe:
    def recipe(g: Graph, e: Equation) -> str:
        if e.source in FLOATS:
            return str(g.op(operator, *e.x))
        return str(g.op("Not", g.op("Equal", e.x[0], e.x[0])))

    return recipe


def _isfinite(g: Graph, e: Equation) -> str:
    if e.source not in FLOATS:
        return str(g.op("Equal", e.x[0], e.x[0]))
    return str(g.op("Not", g.op("Or", g.op("IsNaN", *e.x), g.op("IsInf", *e.x))))


def _ignoring_nan(operator: str) -> Recipe:
    def recipe(g: Graph, e: Equation) -> str:
        x, y = e.x
        out = g.op(operator, x, y)
        if e.source not in FLOATS:
            return str(out)
        return g.where_(g.op("IsNaN", x), y, g.where_(g.op("IsNaN", y), x, out))

    return recipe


# --------------------------------------------------------------------------------------------------
# Functions of floats


class _Math:
    """Formulas over one dtype."""

    def __init__(self, g: Graph, dtype: str) -> None:
        self.g, self.dtype = g, dtype

    def __getattr__(self, operator: str) -> Callable[..., str]:
        def call(*args: str | float) -> str:
            return str(self.g.op(operator, *map(self.value, args)))

        return call

    def value(self, x: str | float) -> str:
        return x if isinstance(x, str) else self.g.const(float(x), self.dtype)

    def where(self, cond: str, x: str | float, y: str | float) -> str:
        return self.g.where_(cond, self.value(x), self.value(y))

    def log1p(self, x: str) -> str:
        # log(1 + x) * x / ((1 + x) - 1): the error of the sum cancels.
        u = self.Add(x, 1)
        d = self.Sub(u, 1)
        r = self.Mul(self.Log(u), self.Div(x, d))
        exact = self.where(self.Equal(d, 0), x, r)
        return self.where(self.Equal(u, math.inf), u, exact)

    def expm1(self, x: str) -> str:
        u = self.Exp(x)
        d = self.Sub(u, 1)
        r = self.Mul(d, self.Div(x, self.Log(u)))
        r = self.where(self.Equal(d, 0), x, r)
        r = self.where(self.Equal(d, -1), -1, r)
        return self.where(self.Equal(u, math.inf), u, r)

    def odd(self, x: str, positive: str) -> str:
        """Give an odd function of x, zeros included, from that of its absolute value."""
        signed = self.where(self.Less(x, 0), self.Neg(positive), positive)
        return self.where(self.Equal(x, 0), x, signed)

    def atan(self, x: str) -> str:
        if self.dtype == "float32":
            return self.Atan(x)
        # A float32 seed, and what is missing from the addition theorem; at most 1 in absolute
        # value.
        a = self.Abs(x)
        large = self.Greater(a, 1)
        z = self.where(large, self.Reciprocal(a), a)
        y = self.g.cast(self.g.op("Atan", self.g.cast(z, "float32")), "float64")
        sin, cos = self.Sin(y), self.Cos(y)
        rest = self.Div(self.Sub(self.Mul(z, cos), sin), self.Add(cos, self.Mul(z, sin)))
        y = self.Add(y, rest)
        return self.odd(x, self.where(large, self.Sub(math.pi / 2, y), y))

    def erfc_positive(self, x: str) -> str:
        """Give erfc for x >= 0 in float64: exp(-x**2) times a Chebyshev series in 2 / (2 + x)."""
        t = self.Div(2, self.Add(x, 2))
        u = self.Sub(self.Mul(t, 2), 1)
        twice = self.Mul(u, 2)
        b, c = self.value(0.0), self.value(0.0)
        for a in reversed(ERFC[1:]):
            b, c = self.Sub(self.Add(self.Mul(twice, b), a), c), b
        series = self.Sub(self.Add(self.Mul(u, b), ERFC[0]), c)
        # The square is not rounded: that of the upper half of the digits is exact.
        capped = self.Min(x, 30)
        high = self.g.cast(self.g.cast(capped, "float32"), "float64")
        low = self.Mul(self.Sub(capped, high), self.Add(capped, high))
        power = self.Mul(self.Exp(self.Neg(self.Mul(high, high))), self.Exp(self.Neg(low)))
        return self.Mul(self.Mul(power, t), series)

    def erfc(self, x: str) -> str:
        a = self.Abs(x)
        out = self.erfc_positive(a)
        return self.where(self.Less(x, 0), self.Sub(2, out), out)

    def erf(self, x: str) -> str:
        a = self.Abs(x)
        square = self.Mul(a, a)
        # The Taylor series to 1e-17, for a <= 1/2.
        terms = [(-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(13)]
        small = self.value(terms[-1])
        for term in reversed(terms[:-1]):
            small = self.Add(self.Mul(small, square), term)
        small = self.Mul(self.Mul(small, a), 2 / math.sqrt(math.pi))
        large = self.Sub(1, self.erfc_positive(a))
        return self.odd(x, self.where(self.Less(a, 0.5), small, large))


# The Chebyshev coefficients of erfc(x) * exp(x * x) / t in 2 * t - 1 with t = 2 / (2 + x).
ERFC = (
    0.5770337386164697, 0.3554369212704985, 0.06509515882878653, 0.003671142395836639,
    -0.0011128447433526325, -0.0001607582991537808, 3.278031574173137e-05, 5.442441645505016e-06,
    -1.5154665553171482e-06, -1.4297608181169865e-07, 8.234608827419493e-08,
    -1.2962846852306563e-09, -4.154721631015199e-09, 6.347058278362811e-10,
    1.4320822712256222e-10, -6.160390105204585e-11, 2.0612138554721674e-12, 3.571493148847706e-12,
    -8.586422843251799e-13, -6.145600213790696e-14, 7.418725748596778e-14,
    -1.2895042755034878e-14, -2.3587263857071584e-15, 1.572934938164221e-15,
    -2.2782966239023134e-16, -6.312330451362204e-17, 3.591676353865211e-17,
    -5.0498091574136354e-18,
)  # fmt: skip


def _math(formula: Callable[..., str]) -> Recipe:
    """Make a recipe of a formula over the arguments."""

    def recipe(g: Graph, e: Equation) -> str:
        return formula(_Math(g, e.source), *e.x)

    return recipe


def _in_double(formula: Callable[..., str]) -> Recipe:
    """Make a recipe of a formula that is computed in float64."""

    def recipe(g: Graph, e: Equation) -> str:
        out = formula(_Math(g, "float64"), *(g.cast(x, "float64") for x in e.x))
        return g.cast(out, e.source)

    return recipe


def _exp2(m: _Math, x: str) -> str:
    return m.Pow(2, x)


def _log_to(base: float) -> Callable[[_Math, str], str]:
    def formula(m: _Math, x: str) -> str:
        return m.Div(m.Log(x), math.log(base))

    return formula


def _sigmoid(m: _Math, x: str) -> str:
    # The runtime's own is cut off where the result is small.
    e = m.Exp(m.Neg(m.Abs(x)))
    return m.Div(m.where(m.Less(x, 0), e, 1), m.Add(e, 1))


def _softplus(m: _Math, x: str) -> str:
    return m.Add(m.Max(x, 0), m.log1p(m.Exp(m.Neg(m.Abs(x)))))


def _logaddexp(m: _Math, x: str, y: str) -> str:
    out = m.Add(m.Max(x, y), m.log1p(m.Exp(m.Neg(m.Abs(m.Sub(x, y))))))
    # Infinities of one sign have no difference.
    return m.where(m.Equal(x, y), m.Add(x, math.log(2)), out)


def _hypot(m: _Math, x: str, y: str) -> str:
    a, b = m.Abs(x), m.Abs(y)
    large, small = m.Max(a, b), m.Min(a, b)
    ratio = m.Div(small, m.where(m.Equal(large, 0), 1, large))
    out = m.Mul(large, m.Sqrt(m.Add(m.Mul(ratio, ratio), 1)))
    infinite = m.Or(m.Equal(a, math.inf), m.Equal(b, math.inf))
    return m.where(infinite, math.inf, out)


def _cbrt(m: _Math, x: str) -> str:
    a = m.Abs(x)
    y = m.Pow(a, 1 / 3)
    # One step of Newton: a third is not exact.
    y = m.Sub(y, m.Div(m.Sub(y, m.Div(m.Div(a, y), y)), 3))
    same = m.Or(m.Equal(a, 0), m.Equal(a, math.inf))
    return m.where(same, x, m.where(m.Less(x, 0), m.Neg(y), y))


def _atan2(m: _Math, y: str, x: str) -> str:
    a, b = m.Abs(y), m.Abs(x)
    large, small = m.Max(a, b), m.Min(a, b)
    both = m.And(m.Equal(small, large), m.Not(m.Equal(large, 0)))
    ratio = m.Div(small, m.where(m.Equal(large, 0), 1, large))
    # Equal ones give a diagonal, infinities too.
    angle = m.atan(m.where(both, 1, ratio))
    angle = m.where(m.Greater(a, b), m.Sub(math.pi / 2, angle), angle)
    angle = m.where(_is_negative(m.g, x, m.dtype), m.Sub(math.pi, angle), angle)
    return m.where(_is_negative(m.g, y, m.dtype), m.Neg(angle), angle)


def _tan(m: _Math, x: str) -> str:
    return m.Div(m.Sin(x), m.Cos(x))


def _asin(m: _Math, x: str) -> str:
    root = m.Sqrt(m.Mul(m.Sub(1, x), m.Add(1, x)))
    return m.atan(m.Div(x, root))


def _acos(m: _Math, x: str) -> str:
    return m.Mul(m.atan(m.Sqrt(m.Div(m.Sub(1, x), m.Add(1, x)))), 2)


def _sinh(m: _Math, x: str) -> str:
    a = m.Abs(x)
    e = m.expm1(a)
    small = m.Mul(m.Add(e, m.Div(e, m.Add(e, 1))), 0.5)
    # The half of a power that is out of range may be in it.
    half = m.Exp(m.Mul(a, 0.5))
    return m.odd(x, m.where(m.Greater(a, 22), m.Mul(m.Mul(half, 0.5), half), small))


def _cosh(m: _Math, x: str) -> str:
    a = m.Abs(x)
    e = m.Exp(a)
    half = m.Exp(m.Mul(a, 0.5))
    small = m.Mul(m.Add(e, m.Reciprocal(e)), 0.5)
    return m.where(m.Greater(a, 22), m.Mul(m.Mul(half, 0.5), half), small)


def _asinh(m: _Math, x: str) -> str:
    a = m.Abs(x)
    square = m.Mul(a, a)
    small = m.log1p(m.Add(a, m.Div(square, m.Add(1, m.Sqrt(m.Add(square, 1))))))
    large = m.Add(m.Log(a), math.log(2))
    return m.odd(x, m.where(m.Greater(a, 1e9), large, small))


def _acosh(m: _Math, x: str) -> str:
    t = m.Sub(x, 1)
    small = m.log1p(m.Add(t, m.Sqrt(m.Add(m.Mul(t, 2), m.Mul(t, t)))))
    out = m.where(m.Greater(x, 1e9), m.Add(m.Log(x), math.log(2)), small)
    return m.where(m.Less(x, 1), math.nan, out)


def _atanh(m: _Math, x: str) -> str:
    a = m.Abs(x)
    return m.odd(x, m.Mul(m.log1p(m.Div(m.Mul(a, 2), m.Sub(1, a))), 0.5))


RECIPES: dict[str, Recipe] = {
    "sign": _sign,
    "trunc": _trunc,
    "relu": _relu,
    "square": _square,
    "copysign": _copysign,
    "remainder": _remainder,
    "fmod": _fmod,
    "floor_divide": _floor_divide,
    "pow": _pow,
    "left_shift": _shift(True),
    "right_shift": _shift(False),
    "ne": _ne,
    "isfinite": _isfinite,
    "fmax": _ignoring_nan("Max"),
    "fmin": _ignoring_nan("Min"),
    "exp2": _math(_exp2),
    "expm1": _math(_Math.expm1),
    "log2": _math(_log_to(2)),
    "log10": _math(_log_to(10)),
    "log1p": _math(_Math.log1p),
    "cbrt": _math(_cbrt),
    "sigmoid": _math(_sigmoid),
    "softplus": _math(_softplus),
    "erfc": _in_double(_Math.erfc),
    "hypot": _math(_hypot),
    "logaddexp": _math(_logaddexp),
    "atan2": _math(_atan2),
    "loop": looped,
    **ARRAYS,
    **WINDOWS,
}

OPERATORS: dict[str, Recipe] = {
    "Floor": _rounding("Floor"),
    "Ceil": _rounding("Ceil"),
    "Round": _rounding("Round"),
    "Not": _truth("Not"),
    "And": _truth("And"),
    "Or": _truth("Or"),
    "Xor": _truth("Xor"),
    "IsNaN": _is("IsNaN"),
    "IsInf": _is("IsInf"),
    "BitwiseNot": _invert,
    **PARAMETRIC,
}

DOUBLE: dict[str, Recipe] = {
    "Tan": _math(_tan),
    "Asin": _math(_asin),
    "Acos": _math(_acos),
    "Atan": _math(_Math.atan),
    "Sinh": _math(_sinh),
    "Cosh": _math(_cosh),
    "Asinh": _math(_asinh),
    "Acosh": _math(_acosh),
    "Atanh": _math(_atanh),
    "Erf": _math(_Math.erf),
}
