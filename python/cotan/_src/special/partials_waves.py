"""Partials of spheroidal wave, Mathieu, Fresnel and Airy functions (continues `special.partials`).

A pair of a function and its slope solves a differential equation of second order, which gives the
derivative of the slope (Abramowitz and Stegun, chapters 20 and 21).
"""

import math

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.special.ufuncs import (
    PARTIALS,
    UNKNOWN,
    Derivative,
    Functions,
    Partial,
    Slopes,
    real_only,
)
from cotan._src.typing import AnyArray

f = Functions()
where = _core.where

# --------------------------------------------------------------------------------------------------
# Spheroidal wave functions


def _angular(sign: int) -> Derivative:
    """Give the change of the slope of an angular function; `sign` is -1 for oblate ones."""

    def change(m: Array, c: Array, cv: Array, x: Array, y: Array, slope: Array) -> AnyArray:
        rest = 1 - x * x
        return (2 * x * slope - (cv - sign * c * c * x * x - m * m / rest) * y) / rest

    return change


def _radial(sign: int) -> Derivative:
    def change(m: Array, c: Array, cv: Array, x: Array, y: Array, slope: Array) -> AnyArray:
        rest = x * x - sign
        return ((cv - c * c * x * x + sign * m * m / rest) * y - 2 * x * slope) / rest

    return change


def _spheroidal(name: str, kind: str, change: Derivative) -> None:
    def given(m: Array, n: Array, c: Array, cv: Array, x: Array) -> Slopes:
        y, slope = getattr(f, f"{name}_cv")(m, n, c, cv, x)
        return slope, change(m, c, cv, x, y, slope)

    def found(m: Array, n: Array, c: Array, x: Array) -> Slopes:
        y, slope = getattr(f, name)(m, n, c, x)
        return slope, change(m, c, getattr(f, f"{kind}_cv")(m, n, c), x, y, slope)

    PARTIALS[name] = (UNKNOWN, UNKNOWN, UNKNOWN, found)
    PARTIALS[f"{name}_cv"] = (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, given)


for _kind, _sign in (("pro", 1), ("obl", -1)):
    _spheroidal(f"{_kind}_ang1", _kind, _angular(_sign))
    for _which in ("rad1", "rad2"):
        _spheroidal(f"{_kind}_{_which}", _kind, _radial(_sign))

# --------------------------------------------------------------------------------------------------
# Mathieu functions

_DEGREE = math.pi / 180


def _mathieu(name: str, number: str) -> Partial:
    """Give the partial by the angle, which is in degrees, while slopes are by radians."""

    def by_angle(m: Array, q: Array, x: Array) -> Slopes:
        y, slope = getattr(f, name)(m, q, x)
        a = getattr(f, number)(m, q)
        return slope * _DEGREE, (2 * q * np.cos(2 * x * _DEGREE) - a) * y * _DEGREE

    return by_angle


def _modified(name: str, number: str) -> Partial:
    def by_x(m: Array, q: Array, x: Array) -> Slopes:
        y, slope = getattr(f, name)(m, q, x)
        return slope, (getattr(f, number)(m, q) - 2 * q * np.cosh(2 * x)) * y

    return by_x


for _even, _number in (("c", "mathieu_a"), ("s", "mathieu_b")):
    _name = f"mathieu_{_even}em"
    PARTIALS[_name] = (UNKNOWN, UNKNOWN, _mathieu(_name, _number))
    for _which in ("1", "2"):
        _name = f"mathieu_mod{_even}em{_which}"
        PARTIALS[_name] = (UNKNOWN, UNKNOWN, _modified(_name, _number))

# --------------------------------------------------------------------------------------------------
# Fresnel, Airy, Bessel


def _fresnel(name: str, sign: int) -> Partial:
    """Of the integrals of `exp(1j * sign * t**2)` to the right of `x`, and the scaled one."""

    def slope(x: Array) -> Slopes:
        _, scaled = getattr(f, name)(x)
        end = np.exp(-1j * sign * math.pi / 4) / math.sqrt(math.pi)
        return -np.exp(1j * sign * x * x), -2j * sign * x * scaled - end

    return slope


def _airye(z: Array) -> Slopes:
    """To the left of 0 the scale of the second kind is 1, and the first kind has no real one."""
    real_only("airye", z)
    ai, aip, bi, bip = f.airye(z)
    root = np.sqrt(where(z > 0, z, 0.0))
    return aip + root * ai, z * ai + root * aip, bip - root * bi, z * bi - root * bip


PARTIALS.update({
    "modfresnelp": (_fresnel("modfresnelp", 1),),
    "modfresnelm": (_fresnel("modfresnelm", -1),),
    "airye": (_airye,),
    "besselpoly": (
        lambda a, k, nu: f.besselpoly(a, k + 1, nu - 1) - f.besselpoly(a, k + 1, nu + 1),
        UNKNOWN,
        UNKNOWN,
    ),
})  # fmt: skip
