"""Accuracy of the vector functions: at most 2 units in the last place, however long arrays are."""

import math

import mpmath as mp
import numpy as np
import pytest
from table_cases import FLOATING, TABLE, plain

import cotan as ct


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


def power(x, y):
    result = mp.exp(y * mp.log(abs(x)))
    return -result if x < 0 and y % 2 == 1 else result


def inverse_erf(x):
    if abs(x) < 1e-25:
        return x * mp.sqrt(mp.pi) / 2
    return mp.erfinv(x) if abs(x) < 1 else mp.sign(x) * mp.inf


# Remainders are exact wherever they are representable, so they are not measured.
EXACT = {"floor_divide", "remainder", "fmod"}

# The function in mpmath, and the interval in which it is compared.
UNARY = {
    "exp": (mp.exp, (-750, 711)),
    "exp2": (lambda x: mp.power(2, x), (-1080, 1025)),
    "expm1": (mp.expm1, (-750, 711)),
    "log": (mp.log, (5e-324, 1.7e308)),
    "log2": (lambda x: mp.log(x) / mp.log(2), (5e-324, 1.7e308)),
    "log10": (lambda x: mp.log(x) / mp.log(10), (5e-324, 1.7e308)),
    "log1p": (mp.log1p, (-1, 1.7e308)),
    "sqrt": (mp.sqrt, (0, 1.7e308)),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), (-1.7e308, 1.7e308)),
    "reciprocal": (lambda x: 1 / x, (-1.7e308, 1.7e308)),
    "square": (lambda x: x * x, (-1.7e308, 1.7e308)),
    "sin": (mp.sin, (-1.7e308, 1.7e308)),
    "cos": (mp.cos, (-1.7e308, 1.7e308)),
    "tan": (mp.tan, (-1.7e308, 1.7e308)),
    "asin": (mp.asin, (-1, 1)),
    "acos": (mp.acos, (-1, 1)),
    "atan": (mp.atan, (-1.7e308, 1.7e308)),
    "sinh": (mp.sinh, (-712, 712)),
    "cosh": (mp.cosh, (-712, 712)),
    "tanh": (mp.tanh, (-400, 400)),
    "asinh": (mp.asinh, (-1.7e308, 1.7e308)),
    "acosh": (mp.acosh, (1, 1.7e308)),
    "atanh": (mp.atanh, (-1, 1)),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), (-750, 750)),
    "softplus": (lambda x: mp.log1p(mp.exp(x)), (-750, 750)),
    "erf": (lambda x: mp.erf(x) if abs(x) > 1e-25 else 2 * x / mp.sqrt(mp.pi), (-30, 30)),
    "erfc": (mp.erfc, (-30, 28)),
    "erfinv": (inverse_erf, (-1, 1)),
}

BINARY = {
    "pow": (power, (1e-5, 1e5), (-60, 60)),
    "atan2": (mp.atan2, (-1e300, 1e300), (-1e300, 1e300)),
    "hypot": (lambda x, y: mp.sqrt(x * x + y * y), (-1e300, 1e300), (-1e300, 1e300)),
    "logaddexp": (
        lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))),
        (-700, 700),
        (-700, 700),
    ),
}


def test_every_dear_function_is_measured():
    dear = {n for n, e in TABLE.items() if e["class"] == "elementwise" and e["cost"] == "dear"}
    assert dear - EXACT <= UNARY.keys() | BINARY.keys()


def points(interval, dtype, count, rng):
    """Numbers of an interval: evenly, by magnitude, subnormal, at the ends and around a half."""
    limits = np.finfo(dtype)
    low, high = (float(np.clip(b, -limits.max, limits.max)) for b in interval)
    spread = np.exp2(rng.uniform(math.log2(limits.smallest_subnormal), limits.maxexp, count))
    near = np.ldexp(rng.uniform(0.5, 1, count), -rng.integers(0, 60, count))
    parts = [
        rng.uniform(max(low, -50), min(high, 50), count),
        rng.uniform(max(low, -1e4), min(high, 1e4), count),
        spread * rng.choice([-1, 1], count),
        low + near,
        high - near,
        [low, high, limits.max, -limits.max, limits.tiny, -limits.tiny, 0.5, -0.5, 1, -1],
        limits.smallest_subnormal * rng.integers(1, 1000, 20) * rng.choice([-1, 1], 20),
        rng.choice([0.25, 0.5, 1, math.pi / 2, math.pi, 8], count) + near * 1e-2,
    ]
    with np.errstate(all="ignore"):
        x = np.concatenate(parts).astype(dtype)
    return x[(x >= low) & (x <= high) & np.isfinite(x)]


def ulps(actual, exact, dtype):
    """The distance of a result from the exact value in units of the last place."""
    limits = np.finfo(dtype)
    top = mp.mpf(2) ** limits.maxexp
    unit_at_top = mp.mpf(2) ** (limits.maxexp - limits.nmant - 1)
    if math.isnan(actual):
        return math.inf
    if math.isinf(actual):
        # Infinity is right where the exact value rounds to it, one off at the largest number.
        right = (actual > 0) == (exact > 0)
        return max(0.0, float((top - abs(exact)) / unit_at_top)) if right else math.inf
    exponent = limits.minexp if exact == 0 else max(mp.frexp(exact)[1] - 1, limits.minexp)
    exponent = min(exponent, limits.maxexp - 1)
    return float(abs(mp.mpf(actual) - exact) / mp.mpf(2) ** (exponent - limits.nmant))


def worst(actual, exact, dtype):
    errors = [ulps(float(a), e, dtype) for a, e in zip(actual, exact, strict=True)]
    i = int(np.argmax(errors))
    return errors[i], i


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_accuracy(name, dtype):
    function, interval = UNARY[name]
    x = points(interval, dtype, 60, np.random.default_rng(0))
    if name in {"atanh", "log1p"}:
        x = x[np.abs(x) != 1] if name == "atanh" else x[x != -1]
    x = x[x != 0]
    actual = plain(getattr(ct, name)(x))
    assert actual.dtype == dtype
    error, i = worst(actual, [function(mp.mpf(float(v))) for v in x], dtype)
    assert error <= 2, f"{name}({x[i]!r}) = {actual[i]!r} is {error:.3g} ulp off"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", BINARY)
def test_accuracy_of_two_arguments(name, dtype):
    function, first, second = BINARY[name]
    rng = np.random.default_rng(0)
    x, y = points(first, dtype, 60, rng), points(second, dtype, 60, rng)
    n = min(len(x), len(y))
    x, y = rng.permutation(x)[:n], rng.permutation(y)[:n]
    if name == "hypot":
        with np.errstate(over="ignore"):
            y[: n // 2] = x[: n // 2] * rng.uniform(0.1, 3, n // 2).astype(dtype)
    keep = (x != 0) & (y != 0) & np.isfinite(y)
    x, y = x[keep], y[keep]
    actual = plain(getattr(ct, name)(x, y))
    assert actual.dtype == dtype
    pairs = zip(x, y, strict=True)
    error, i = worst(
        actual, [function(mp.mpf(float(a)), mp.mpf(float(b))) for a, b in pairs], dtype
    )
    assert error <= 2, f"{name}({x[i]!r}, {y[i]!r}) = {actual[i]!r} is {error:.3g} ulp off"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [n for n in UNARY if n in FLOATING])
def test_short_and_long_arrays_agree(name, dtype):
    """What is left over at the end of a vector register is computed as the rest is."""
    _, (low, high) = UNARY[name]
    x = np.linspace(max(low, -20) + 0.01, min(high, 20) - 0.01, 1003).astype(dtype)
    whole = plain(getattr(ct, name)(x))
    single = np.array([plain(getattr(ct, name)(x[i : i + 1]))[0] for i in range(0, 1003, 51)])
    assert whole[::51].tobytes() == single.tobytes()
