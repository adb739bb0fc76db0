#!/usr/bin/env python3
"""Reference values and coefficients for the vector mathematics (rust/core/src/kernels/math).

    python tools/math_reference.py reference      writes tests/data/math_f64.bin
    python tools/math_reference.py coefficients   writes rust/core/src/kernels/math/coeffs.rs

Needs mpmath, and NumPy for the rounding of f32 coefficients. Neither command runs as part of a
build: their outputs are committed.

Format of the reference file, little-endian: a sequence of sections, each a name (12 bytes, padded
with NUL), the number of arguments (u32, 1 or 2), the number of records (u32), then the records:
the arguments (f64), the correctly rounded value (f64), and the exact value minus the rounded one in
units of its last place (f32).
"""

import math
import pathlib
import random
import struct
import subprocess
import sys

import mpmath as mp

TOP = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = TOP / "tests" / "data" / "math_f64.bin"
COEFFICIENTS = TOP / "rust" / "core" / "src" / "kernels" / "math" / "coeffs.rs"
DIGITS = 70
MIN_NORMAL = 2.0**-1022


def bits(x):
    """Give the bit pattern of a float as an integer."""
    return struct.unpack("<q", struct.pack("<d", x))[0]


def from_bits(n):
    """Give the float with a bit pattern."""
    return struct.unpack("<d", struct.pack("<q", n))[0]


def series(f, cubic):
    """Replace f near zero by x + cubic x^3 (exact to far more than a double there)."""

    def g(x):
        return f(x) if abs(x) > 1e-25 else x + cubic * x**3

    return g


def exp_like(f, low, high):
    """Give f between two arguments, and 0 or infinity outside, where mpmath would not finish."""

    def g(x):
        if x > high:
            return mp.inf
        return mp.mpf(0) if x < low else f(x)

    return g


def power(x, y):
    """Give x^y for the arguments the reference uses (x < 0 only with integer y)."""
    size = y * mp.log(abs(x), 2)
    huge = mp.inf if size > 0 else mp.mpf(0)
    r = huge if abs(size) > 1200 else mp.exp(y * mp.log(abs(x)))
    return -r if x < 0 and y % 2 == 1 else r


def logaddexp(x, y):
    """Give log(e^x + e^y)."""
    d = abs(x - y)
    return max(x, y) + (mp.log1p(mp.exp(-d)) if d < 2000 else 0)


def softplus(x):
    """Give log(1 + e^x)."""
    if x > 1000:
        return x
    return mp.mpf(0) if x < -800 else mp.log1p(mp.exp(x))


def erfc(x):
    """Give erfc(x), without evaluating what underflows anyway."""
    if x > 40:
        return mp.mpf(0)
    return mp.mpf(2) if x < -30 else mp.erfc(x)


def erfinv(x):
    """Give erfinv(x), by its slope where mpmath would give up its digits."""
    if abs(x) < 1e-25:
        return x * mp.sqrt(mp.pi) / 2
    return mp.erfinv(x) if abs(x) < 1 else mp.sign(x) * mp.inf


def saturating(f, limit):
    """Replace an odd f that is +-1 to the last bit beyond a limit by that."""

    def g(x):
        return f(x) if abs(x) < limit else mp.sign(x)

    return g


THIRD = 1 / mp.mpf(3)

# name: (function, intervals sampled uniformly in bits, intervals sampled uniformly, centres
# approached from both sides). Intervals in bits are mirrored where the domain is.
UNARY = {
    "exp": (
        exp_like(mp.exp, -760, 711),
        (1e-320, 745.1),
        [(-745.2, 709.7), (-2, 2)],
        [0.34657, 709.78, -708.4, -745.13],
    ),
    "exp2": (
        exp_like(lambda x: mp.mpf(2) ** x, -1100, 1025),
        (1e-320, 1075),
        [(-1075, 1024), (-2, 2)],
        [0.5, -0.5, 1024, -1022, -1074],
    ),
    "expm1": (
        exp_like(mp.expm1, -1000, 711),
        (1e-320, 709.7),
        [(-50, 709.7), (-2, 2)],
        [0.34657, -0.34657, 709.78, -37],
    ),
    "log": (mp.log, (5e-324, 1.7e308, "+"), [(0.5, 2)], [1, math.sqrt(2), math.sqrt(0.5), 2]),
    "log2": (
        lambda x: mp.log(x) / mp.log(2),
        (5e-324, 1.7e308, "+"),
        [(0.5, 2)],
        [1, math.sqrt(2), math.sqrt(0.5), 2],
    ),
    "log10": (
        lambda x: mp.log(x) / mp.log(10),
        (5e-324, 1.7e308, "+"),
        [(0.5, 2)],
        [1, math.sqrt(2), math.sqrt(0.5), 10, 1000],
    ),
    "log1p": (
        mp.log1p,
        (1e-320, 1.7e308, "log1p"),
        [(-0.999, 2)],
        [-0.2929, 0.4142, 1, -0.9999999999],
    ),
    "sqrt": (mp.sqrt, (5e-324, 1.7e308, "+"), [(0.5, 2)], [1, 2]),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), (5e-324, 1.7e308), [(-9, 9)], [1, 2, 4, 8]),
    "sin": (
        series(mp.sin, -mp.mpf(1) / 6),
        (1e-320, 1.7e308),
        [(-10, 10), (-1e5, 1e5), (-1e9, 1e9)],
        [math.pi / 4, math.pi / 2, math.pi, 2 * math.pi, 2.0**30, 1e15],
    ),
    "cos": (
        mp.cos,
        (1e-320, 1.7e308),
        [(-10, 10), (-1e5, 1e5), (-1e9, 1e9)],
        [math.pi / 4, math.pi / 2, math.pi, 2 * math.pi, 2.0**30, 1e15],
    ),
    "tan": (
        series(mp.tan, THIRD),
        (1e-320, 1.7e308),
        [(-10, 10), (-1e5, 1e5), (-1e9, 1e9)],
        [math.pi / 4, math.pi / 2, math.pi, 2 * math.pi, 2.0**30, 1e15],
    ),
    "asin": (series(mp.asin, mp.mpf(1) / 6), (1e-320, 1), [(-1, 1)], [0.5, 1, -1, -0.5]),
    "acos": (mp.acos, (1e-320, 1), [(-1, 1)], [0.5, 1, -1, -0.5]),
    "atan": (
        series(mp.atan, -THIRD),
        (1e-320, 1.7e308),
        [(-3, 3), (-100, 100)],
        [0.41421356, 1, 2.41421356],
    ),
    "sinh": (
        series(lambda x: mp.sinh(x) if abs(x) < 720 else mp.sign(x) * mp.inf, mp.mpf(1) / 6),
        (1e-320, 710.4),
        [(-710.4, 710.4), (-3, 3)],
        [0.34657, 1.0397, 710.4758],
    ),
    "cosh": (
        lambda x: mp.cosh(x) if abs(x) < 720 else mp.inf,
        (1e-320, 710.4),
        [(-710.4, 710.4), (-3, 3)],
        [0.34657, 1.0397, 710.4758],
    ),
    "tanh": (
        saturating(series(mp.tanh, -THIRD), 40),
        (1e-320, 30),
        [(-20, 20), (-2, 2)],
        [0.1733, 0.34657, 19.06],
    ),
    "asinh": (series(mp.asinh, -mp.mpf(1) / 6), (1e-320, 1.7e308), [(-3, 3)], [0.5, 2.0**30, 1]),
    "acosh": (mp.acosh, (1.0, 1.7e308, "+"), [(1, 1.1), (1, 10)], [1, 1.25, 2, 2.0**30]),
    "atanh": (series(mp.atanh, THIRD), (1e-320, 0.9999999), [(-1, 1)], [1, -1, 0.17157, 0.5]),
    "sigmoid": (
        lambda x: 1 / (1 + mp.exp(-x)) if x > -760 else mp.mpf(0),
        (1e-320, 746),
        [(-745, 40), (-3, 3)],
        [0, -708.4, 36.7, -36.7],
    ),
    "softplus": (softplus, (1e-320, 1.7e308), [(-745, 40), (-3, 3)], [-708.4, 36.7, -36.7, 0.5]),
    "erf": (
        saturating(lambda x: mp.erf(x) if abs(x) > 1e-25 else x * 2 / mp.sqrt(mp.pi), 30),
        (1e-320, 7),
        [(-6, 6), (-1, 1)],
        [0.5, 1, 5.9],
    ),
    "erfc": (erfc, (1e-320, 28), [(-6, 27.3), (-1, 1), (20, 27.3)], [0.5, 1, 26.54, 27.2, -5.8]),
    "erfinv": (erfinv, (1e-320, 1 - 2.0**-53), [(-1, 1)], [0.5, 0.75, 0.84, 1, -1]),
}


def unary_points(name, count, rng):
    """About `count` arguments of a unary function."""
    _, spread, linear, centres = UNARY[name]
    low, high = bits(spread[0]), bits(spread[1])
    mode = spread[2] if len(spread) > 2 else "+-"
    points = []
    for i in range(count // 3):
        x = from_bits(
            low + (high - low) * i // (count // 3) + rng.randrange((high - low) // count + 1)
        )
        x = min(x, spread[1])
        negative = mode == "+-" or (mode == "log1p" and x < 0.999)
        points.append(-x if negative and rng.random() < 0.5 else x)
    for a, b in linear:
        points += [rng.uniform(a, b) for _ in range(count // (2 * len(linear)))]
    inside = [x for x in points if x]
    low_ok, high_ok = min(inside), max(inside)
    for c in centres:
        for k in range(max(4, count // (12 * len(centres)))):
            d = rng.uniform(0.5, 1) * 2.0 ** -(k % 54)
            points += [
                x for x in (c * (1 - d), c * (1 + d), c + d * 1e-3) if low_ok <= x <= high_ok
            ]
    return points


def binary_points(name, count, rng):
    """About `count` pairs of arguments of a binary function."""
    pairs = []
    wide = lambda a, b: from_bits(rng.randrange(bits(a), bits(b)))
    sign = lambda x: -x if rng.random() < 0.5 else x
    for i in range(count):
        kind = i % 4
        if name == "pow":
            if kind == 0:  # anywhere, with a result in range
                x = wide(5e-324, 1.7e308)
                y = rng.uniform(-1075, 1024) / (math.log2(x) or 1)
            elif kind == 1:  # near one
                x = 1 + sign(rng.random() * 2.0 ** -rng.randrange(1, 50))
                y = rng.uniform(-1074, 1023) / (math.log2(x) or 1)
            elif kind == 2:  # integers
                x, y = sign(rng.uniform(0.1, 20)), float(rng.randrange(-200, 200))
            else:
                x, y = rng.uniform(0.1, 10), sign(wide(1e-300, 300))
        elif name in ("atan2", "hypot"):
            x = wide(5e-324, 1.7e308) if kind == 0 else rng.uniform(0, 4)
            if kind == 0:
                y = x * 2.0 ** rng.uniform(-60, 60)
            elif kind == 1:
                y, x = wide(5e-324, 1.7e308), wide(5e-324, 1.7e308)
            elif kind == 2:
                y = x * (1 + sign(2.0 ** -rng.randrange(1, 53)))
            else:
                y = rng.uniform(0, 4)
            x, y = sign(x), sign(min(y, 1.7e308))
        else:
            x = sign(wide(1e-5, 1e5)) if kind == 0 else rng.uniform(0, 40)
            y = x - sign(rng.uniform(0, 40) if kind < 3 else wide(1e-10, 800))
        pairs.append((x, y))
    return pairs


BINARY = {
    "pow": power,
    "atan2": mp.atan2,
    "hypot": lambda x, y: mp.sqrt(x * x + y * y),
    "logaddexp": logaddexp,
}


def unit(value):
    """Give the unit in the last place of a double near `value` (an mpf)."""
    if value == 0:
        return mp.mpf(2) ** -1074
    exponent = max(int(mp.floor(mp.log(abs(value), 2))), -1022)
    # The logarithm may be off by one at a power of two.
    if abs(value) < mp.mpf(2) ** exponent and exponent > -1022:
        exponent -= 1
    return mp.mpf(2) ** (exponent - 52)


def rounded(value):
    """Give the double nearest to an mpf, and the remainder in units of its last place."""
    if abs(value) >= mp.mpf(2) ** 1024 * (1 - mp.mpf(2) ** -54):
        return math.copysign(math.inf, value), 0.0
    u = unit(value)
    q = mp.nint(value / u)
    return float(q * u), float(value / u - q)


def cases(name, count, rng):
    """Give arguments, rounded value and remainder, for one function."""
    if name in BINARY:
        f = BINARY[name]
        points = binary_points(name, count, rng)
        return [((x, y), *rounded(f(mp.mpf(x), mp.mpf(y)))) for x, y in points]
    f = UNARY[name][0]
    return [((x,), *rounded(f(mp.mpf(x)))) for x in unary_points(name, count, rng)]


def encode(rows):
    """Give the records of one section."""
    out = bytearray()
    for args, value, rest in rows:
        out += struct.pack(f"<{len(args) + 1}df", *args, value, rest)
    return bytes(out)


def write_reference(path, count, seed):
    """Write every section to `path`."""
    mp.mp.dps = DIGITS
    out = bytearray()
    for name in [*UNARY, *BINARY]:
        # A function more leaves the points of the others as they are.
        rows = cases(name, count, random.Random(f"{seed} {name}"))
        out += struct.pack("<12sII", name.encode(), len(rows[0][0]), len(rows)) + encode(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(out)
    print(f"{path.name}: {len(out)} bytes")


def remez(g, weight, low, high, degree, grid=700, rounds=12):
    """Minimise max |weight (P - g)| over polynomials of a degree, by exchange on a fine grid."""
    low, high = mp.mpf(low), mp.mpf(high)
    centre, radius = (low + high) / 2, (high - low) / 2
    xs = [centre - radius * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / grid) for i in range(grid)]
    gs = [g(x) for x in xs]
    ws = [weight(x) for x in xs]
    n = degree + 2
    index = [round((grid - 1) * k / (n - 1)) for k in range(n)]
    for _ in range(rounds):
        system = mp.matrix(n, n)
        right = mp.matrix(n, 1)
        for row, i in enumerate(index):
            for j in range(n - 1):
                system[row, j] = xs[i] ** j
            system[row, n - 1] = (-1) ** row / ws[i]
            right[row] = gs[i]
        solution = mp.lu_solve(system, right)
        c = [solution[j] for j in range(n - 1)]
        err = [w * (mp.polyval(c[::-1], x) - v) for x, v, w in zip(xs, gs, ws, strict=True)]
        extrema = []
        for i, e in enumerate(err):
            if extrema and (err[extrema[-1]] > 0) == (e > 0):
                if abs(e) > abs(err[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > n:
            extrema.pop(0 if abs(err[extrema[0]]) < abs(err[extrema[-1]]) else -1)
        worst = max(abs(e) for e in err)
        if len(extrema) < n:
            break
        index = extrema
        if worst < abs(solution[n - 1]) * mp.mpf("1.01"):
            break
    return c, worst


def odd_rest(f):
    """Give (f(x) - x) / x^3 as a function of z = x^2."""
    return lambda z: (f(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3


def fits():
    """Give name, meaning, function, weight, interval, degree, type, of every table."""
    one = lambda _: mp.mpf(1)
    itself = abs
    square = lambda x: x * x
    r = mp.mpf("0.3468")
    t = mp.mpf("0.6185")
    exp_rest = lambda x: (mp.expm1(x) - x) / x**2
    exp_text = "(e^r - 1 - r) / r^2, |r| <= 0.3468"
    yield "EXP", exp_text, exp_rest, square, -r, r, 9, "f64"
    yield "EXP_LITE", exp_text, exp_rest, square, -r, r, 5, "f64"
    yield "EXP_F32", exp_text, exp_rest, square, -r, r, 4, "f32"
    exp2_rest = lambda x: (mp.mpf(2) ** x - 1 - x * mp.ln(2)) / x**2
    yield "EXP2", "(2^r - 1 - r ln 2) / r^2, |r| <= 1/2", exp2_rest, square, -0.5, 0.5, 9, "f64"
    exp2_quotient = lambda x: (mp.mpf(2) ** x - 1) / x
    yield "EXP2_LITE", "(2^r - 1) / r, |r| <= 1/2", exp2_quotient, itself, -0.5, 0.5, 6, "f64"

    def log_rest(z):
        s = mp.sqrt(z)
        return (2 * mp.atanh(s) - 2 * s - 2 * s**3 / 3) / s**5

    text = "(2 atanh s - 2 s - 2 s^3 / 3) / s^5 in z = s^2 <= 0.02946"
    yield "LOG", text, log_rest, square, 0, "0.02946", 6, "f64"
    yield "LOG_LITE", text, log_rest, square, 0, "0.02946", 3, "f64"
    log_cubic = lambda f: (mp.log1p(f) - f + f * f / 2) / f**3
    weight = lambda f: f**3 / mp.log1p(f)
    text = "(log(1 + f) - f + f^2 / 2) / f^3, -0.29292 <= f <= 0.41425"
    yield "LOG_F32", text, log_cubic, weight, "-0.29292", "0.41425", 8, "f32"
    text = "(atanh s - s) / s^3 in z = s^2 <= 0.0545"
    yield "ATANH", text, odd_rest(mp.atanh), itself, 0, "0.0545", 7, "f64"

    cos_rest = lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2
    sin_text = "(sin r - r) / r^3 in z = r^2 <= 0.6185"
    cos_text = "(cos r - 1 + r^2 / 2) / r^4 in z = r^2 <= 0.6185"
    yield "SIN", sin_text, odd_rest(mp.sin), itself, 0, t, 5, "f64"
    yield "COS", cos_text, cos_rest, square, 0, t, 5, "f64"
    yield "SIN_LITE", sin_text, odd_rest(mp.sin), itself, 0, t, 3, "f64"
    yield "COS_LITE", cos_text, cos_rest, square, 0, t, 3, "f64"
    yield "SIN_F32", sin_text.replace("6185", "64"), odd_rest(mp.sin), itself, 0, "0.64", 2, "f32"
    yield "COS_F32", cos_text.replace("6185", "64"), cos_rest, square, 0, "0.64", 2, "f32"

    text = "(asin t - t) / t^3 in z = t^2 <= 1/4"
    yield "ASIN", text, odd_rest(mp.asin), itself, 0, "0.25", 12, "f64"
    yield "ASIN_LITE", text, odd_rest(mp.asin), itself, 0, "0.25", 6, "f64"
    text = "(atan t - t) / t^3 in z = t^2 <= 0.1717"
    yield "ATAN", text, odd_rest(mp.atan), itself, 0, "0.1717", 10, "f64"
    yield "ATAN_LITE", text, odd_rest(mp.atan), itself, 0, "0.1717", 5, "f64"
    text = "(asinh a - a) / a^3 in z = a^2 <= 1/4"
    yield "ASINH", text, odd_rest(mp.asinh), itself, 0, "0.2501", 11, "f64"

    cosh_rest = lambda z: (mp.cosh(mp.sqrt(z)) - 1 - z / 2) / z**2
    text = "(sinh r - r) / r^3 in z = r^2 <= 0.3468^2"
    yield "SINH", text, odd_rest(mp.sinh), itself, 0, r * r, 4, "f64"
    text = "(cosh r - 1 - r^2 / 2) / r^4 in z = r^2 <= 0.3468^2"
    yield "COSH", text, cosh_rest, square, 0, r * r, 4, "f64"
    text = "(tanh a - a) / a^3 in z = a^2 <= 0.3906"
    yield "TANH_F32", text, odd_rest(mp.tanh), itself, 0, "0.3906", 5, "f32"

    erf_quotient = lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1
    text = "erf(a) / a - 1 in z = a^2 <= 1"
    yield "ERF", text, erf_quotient, one, 0, 1, 12, "f64"
    yield "ERF_LITE", text, erf_quotient, one, 0, 1, 7, "f64"

    def erfc_scaled(v):
        a = (mp.mpf("3.25") + 3 * v) / (1 - v)
        return mp.exp(a * a) * mp.erfc(a) * (a + 3)

    relative = lambda v: 1 / erfc_scaled(v)
    variable = lambda a: (mp.mpf(a) - mp.mpf("3.25")) / (mp.mpf(a) + 3)
    text = "e^(a^2) erfc(a) (a + 3) in t = (a - 3.25) / (a + 3), 1/2 <= a <= "
    yield "ERFC", text + "28", erfc_scaled, relative, variable(0.5), variable(28), 21, "f64"
    yield "ERFC_LITE", text + "11", erfc_scaled, relative, variable(0.5), variable(11), 11, "f64"

    def erfinv_scaled(t):
        d = mp.mpf("13.5") / (1 - t)
        a = mp.sqrt(-mp.expm1(8 - d))
        return (mp.erfinv(a) / a if a else mp.sqrt(mp.pi) / 2) / mp.sqrt(d)

    relative_inverse = lambda t: 1 / erfinv_scaled(t)
    variable = lambda w: (mp.mpf(w) - mp.mpf("5.5")) / (mp.mpf(w) + 8)
    text = "erfinv(a) / a / sqrt(w + 8) in t = (w - 5.5) / (w + 8), w = -log(1 - a^2) <= 36.8"
    ends = variable(0), variable("36.8")
    yield "ERFINV", text, erfinv_scaled, relative_inverse, *ends, 17, "f64"
    root = lambda m: m ** (-mp.mpf(1) / 3)
    yield "CBRT", "m^(-1/3), 1 <= m <= 2", root, one, 1, 2, 4, "f64"


HEADER = """\
//! Polynomial coefficients of the vector mathematics.
//!
//! Every table is a minimax fit (Remez exchange at 70 digits, rounded to the working precision)
//! printed by `python tools/math_reference.py coefficients`. The comment above each gives the
//! fitted function and the weighted error of the unrounded fit. Tables ending in `_LITE` serve
//! `f32` functions evaluated in `f64` and stop near 2^-35.
#![allow(clippy::excessive_precision, clippy::unreadable_literal)]
"""


def write_coefficients(path):
    """Write coeffs.rs, formatted."""
    import numpy as np  # noqa: PLC0415 (only here; the reference is written without it)

    mp.mp.dps = DIGITS
    lines = [HEADER]
    for name, text, g, weight, low, high, degree, kind in fits():
        c, worst = remez(g, weight, low, high, degree)
        values = [repr(float(v)) if kind == "f64" else str(np.float32(float(v))) for v in c]
        lines.append(f"\n/// {text}; error 2^{float(mp.log(worst, 2)):.1f}.")
        lines.append(f"pub const {name}: [{kind}; {len(c)}] = [")
        lines.extend(f"    {v}," for v in values)
        lines.append("];")
        if name == "ERFC":
            lines.append(f"\n/// What rounding took from the first two coefficients of `{name}`.")
            low_parts = ", ".join(repr(float(v - mp.mpf(float(v)))) for v in c[:2])
            lines.append(f"pub const {name}_LO: [f64; 2] = [{low_parts}];")
    path.write_text("\n".join(lines).replace("\n\n\n", "\n\n") + "\n", encoding="utf-8")
    subprocess.run(["rustfmt", "--edition", "2024", str(path)], check=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["reference"]:
        write_reference(OUTPUT, 400, 20240229)
    elif sys.argv[1:] == ["coefficients"]:
        write_coefficients(COEFFICIENTS)
    else:
        sys.exit(__doc__)
