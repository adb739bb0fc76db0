"""Elementwise primitives as expressions of C99, for floats, integers and bools.

`expression` gives the C for one element. Where the form in WGSL is the same but for the names of
its functions, the table of primitives says it; `FORMS` has what differs, and `HELPERS` the
functions of C that are longer than an expression.
"""

import re
from typing import Any

import numpy as np

#: The names of dtypes in C.
TYPES = {
    "float64": "double",
    "float32": "float",
    "int64": "int64_t",
    "int32": "int32_t",
    "bool": "unsigned char",
}
FLOATS = {"float32", "float64"}
_UNSIGNED = {"int64": "uint64_t", "int32": "uint32_t"}

# Forms for floats. `{0}` and `{1}` are names or elements, so that they may be repeated.
# A function of <math.h> is written as for double; of floats it gets an f.
FORMS = {
    "abs": "fabs({0})",
    "sign": "({0} > 0 ? 1 : {0} < 0 ? -1 : {0})",
    "round": "rint({0})",
    "expm1": "expm1({0})",
    "log10": "log10({0})",
    "log1p": "log1p({0})",
    "cbrt": "cbrt({0})",
    "reciprocal": "(1 / {0})",
    "sigmoid": "(1 / (1 + exp(-{0})))",
    "softplus": "(fmax({0}, 0) + log1p(exp(-fabs({0}))))",
    "erf": "erf({0})",
    "erfc": "erfc({0})",
    "erfinv": "cotan_erfinv({0})",
    "relu": "({0} < 0 ? 0 : {0})",
    "logical_not": "({0} == 0)",
    "isnan": "(isnan({0}) != 0)",
    "isinf": "(isinf({0}) != 0)",
    "isfinite": "(isfinite({0}) != 0)",
    "maximum": "({0} > {1} || isnan({0}) ? {0} : {1})",
    "minimum": "({0} < {1} || isnan({0}) ? {0} : {1})",
    "fmax": "fmax({0}, {1})",
    "fmin": "fmin({0}, {1})",
    "hypot": "hypot({0}, {1})",
    "logaddexp": "cotan_logaddexp({0}, {1})",
    "floor_divide": "cotan_floor_divide({0}, {1})",
    "remainder": "cotan_remainder({0}, {1})",
    "fmod": "fmod({0}, {1})",
    "copysign": "copysign({0}, {1})",
    "logical_and": "({0} != 0 && {1} != 0)",
    "logical_or": "({0} != 0 || {1} != 0)",
    "logical_xor": "(({0} != 0) != ({1} != 0))",
    "where": "({0} ? {1} : {2})",
}

# Forms for integers. Sums and products wrap around, so they are those of unsigned numbers.
INTEGERS = {
    "neg": "({t})(0 - ({u}){0})",
    "abs": "({0} < 0 ? ({t})(0 - ({u}){0}) : {0})",
    "sign": "(({0} > 0) - ({0} < 0))",
    "floor": "{0}",
    "ceil": "{0}",
    "trunc": "{0}",
    "round": "{0}",
    "square": "({t})(({u}){0} * ({u}){0})",
    "add": "({t})(({u}){0} + ({u}){1})",
    "sub": "({t})(({u}){0} - ({u}){1})",
    "mul": "({t})(({u}){0} * ({u}){1})",
    "maximum": "({0} > {1} ? {0} : {1})",
    "minimum": "({0} < {1} ? {0} : {1})",
    "fmax": "({0} > {1} ? {0} : {1})",
    "fmin": "({0} < {1} ? {0} : {1})",
    "isnan": "(0 * {0} != 0)",
    "isinf": "(0 * {0} != 0)",
    "isfinite": "(0 * {0} == 0)",
    "invert": "(~{0})",
    "floor_divide": "cotan_{t}_floor_divide({0}, {1})",
    "remainder": "cotan_{t}_remainder({0}, {1})",
    "fmod": "({1} == 0 || {1} == -1 ? 0 : {0} % {1})",
    "left_shift": "({1} < 0 || {1} >= {bits} ? 0 : ({t})(({u}){0} << {1}))",
    "right_shift": "({1} < 0 || {1} >= {bits} ? -({0} < 0) : {0} >> {1})",
}

BOOLS = {
    **dict.fromkeys(("abs", "floor", "ceil", "trunc"), "{0}"),
    "invert": "(!{0})",
    "add": "({0} || {1})",
    "mul": "({0} && {1})",
    "maximum": "({0} || {1})",
    "minimum": "({0} && {1})",
    "fmax": "({0} || {1})",
    "fmin": "({0} && {1})",
    "isnan": "(0 * {0} != 0)",
    "isinf": "(0 * {0} != 0)",
    "isfinite": "(0 * {0} == 0)",
}

# Of any dtype the same.
SHARED = {
    *("eq", "ne", "lt", "le", "gt", "ge", "where"),
    *("logical_not", "logical_and", "logical_or", "logical_xor"),
}
_OF_INTEGERS = {*SHARED, "relu", "bitwise_and", "bitwise_or", "bitwise_xor"}

# Functions that <math.h> does not have, for floats (`real` and `f` are put in) and integers.
HELPERS = {
    "cotan_logaddexp": """\
static real cotan_logaddexp(real x, real y)
{
    return x == y ? x + log(2) : fmax(x, y) + log1p(exp(-fabs(x - y)));
}
""",
    "cotan_remainder": """\
static real cotan_remainder(real x, real y)
{
    real m = fmod(x, y);
    if (m == 0)
        return copysign(0, y);
    return (y < 0) != (m < 0) ? m + y : m;
}
""",
    "cotan_floor_divide": """\
static real cotan_floor_divide(real x, real y)
{
    real m = fmod(x, y), q, whole;
    if (y == 0)
        return x / y;
    q = (x - m) / y;
    if (m != 0 && (y < 0) != (m < 0))
        q -= 1;
    if (q == 0)
        return copysign(0, x / y);
    whole = floor(q);
    return q - whole > (real)0.5 ? whole + 1 : whole;
}
""",
    # Halley's method for erf(y) = x, and for erfc(y) = 1 - x where that is more accurate. The first
    # guess is that of S. Winitzki, A handy approximation for the error function (2008).
    "cotan_erfinv": """\
static double cotan_erfinv(double x)
{
    const double size = fabs(x);
    double l, m, y;
    int i;
    if (!(size < 1))
        return size > 1 ? NAN : x * INFINITY;
    l = log1p(-x * x);
    m = 4.330746750799873 + l / 2;
    y = sqrt(fmax(sqrt(m * m - l / 0.147) - m, 0));
    for (i = 0; i < 4; i++) {
        const double miss = size > 0.5 ? (1 - size) - erfc(y) : erf(y) - size;
        const double step = miss * 0.8862269254527580 * exp(y * y);
        y -= step / (1 + y * step);
    }
    return copysign(y, x);
}
""",
}
_INTEGER_HELPERS = {
    "remainder": """\
static {t} cotan_{t}_remainder({t} x, {t} y)
{{
    const {t} m = y == 0 || y == -1 ? 0 : x % y;
    return m != 0 && (y < 0) != (m < 0) ? m + y : m;
}}
""",
    "floor_divide": """\
static {t} cotan_{t}_floor_divide({t} x, {t} y)
{{
    if (y == 0 || y == -1)
        return y == 0 ? 0 : ({t})(0 - ({u})x);
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}}
""",
}

# Names that a float has functions of its own for; macros such as isnan take all.
MATH = (
    "fabs|rint|floor|ceil|trunc|exp|exp2|expm1|log|log2|log10|log1p|sqrt|cbrt|sin|cos|tan|asin|acos"
    "|atan|atan2|sinh|cosh|tanh|asinh|acosh|atanh|erf|erfc|pow|fmax|fmin|hypot|fmod|copysign"
    "|cotan_logaddexp|cotan_remainder|cotan_floor_divide"
)


def of_type(text: str, dtype: str) -> str:
    """Give C for double as C for a dtype of floats."""
    if dtype == "float32":
        text = re.sub(rf"\b({MATH})\(", r"\1f(", text).replace("(real)0.5", "0.5f")
        return re.sub(r"\breal\b", "float", text)
    return re.sub(r"\breal\b", "double", text)


def expression(entry: dict[str, Any], dtype: str, x: list[str]) -> str | None:
    """Give an elementwise primitive of arguments of a dtype as C; None where there is none.

    `entry` is that of the table of primitives.
    """
    name = entry["name"]
    form: str | None
    shared = entry["wgsl"] and entry["wgsl"].replace("_{type}", "")
    if dtype in FLOATS:
        form = FORMS.get(name, shared)
        return None if form is None else of_type(form, dtype).format(*x)
    if name in SHARED or (dtype != "bool" and name in _OF_INTEGERS):
        return str(FORMS.get(name, shared)).format(*x)
    if dtype == "bool":
        form = BOOLS.get(name, shared if name.startswith("bitwise_") else None)
    else:
        form = INTEGERS.get(name)
    if form is None:
        return None
    bits = 8 * np.dtype(dtype).itemsize
    return form.format(*x, t=TYPES[dtype], u=_UNSIGNED.get(dtype, ""), bits=bits)


def helpers(text: str) -> list[str]:
    """Give the functions of C that a text calls."""
    found = []
    for name, code in HELPERS.items():
        for dtype, suffix in (("float64", ""), ("float32", "f")):
            if f"{name}{suffix}(" in text:
                found.append(of_type(code, dtype))
    for name, code in _INTEGER_HELPERS.items():
        for dtype, unsigned in _UNSIGNED.items():
            if f"cotan_{TYPES[dtype]}_{name}(" in text:
                found.append(code.format(t=TYPES[dtype], u=unsigned))
    return found


def cast(x: str, source: str, target: str) -> str:
    """Give a conversion between dtypes."""
    if source == target:
        return x
    return f"({x} != 0)" if target == "bool" else f"({TYPES[target]}){x}"


def number(value: Any, dtype: str) -> str:
    """Give a number as C."""
    if dtype == "bool":
        return str(int(bool(value)))
    if dtype not in FLOATS:
        value = int(value)
        if dtype == "int32":
            return f"({value})" if value > -(2**31) else "(-2147483647 - 1)"
        return f"INT64_C({value})" if value > -(2**63) else "(-INT64_C(9223372036854775807) - 1)"
    value = float(value)
    if value != value:
        return "NAN"
    if abs(value) == float("inf"):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = repr(value) if dtype == "float64" else f"{np.float32(value):.9g}"
    if not set(text) & set(".e"):
        text += ".0"
    if dtype == "float32":
        text += "f"
    return f"({text})" if text.startswith("-") else text
