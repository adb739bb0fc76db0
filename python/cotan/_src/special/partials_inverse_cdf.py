"""Partials of inverse distribution functions by parameters (continues `special.partials`).

All by the implicit function theorem: where `F(k, n) = y` gives `k`, its derivative by `n` is
`-F_n / F_k`, and that by `y` is `1 / F_k`. Parameters that count something are taken as real
numbers, as SciPy does: the distributions are incomplete beta and gamma functions of them.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.special import parameter_derivatives as by
from cotan._src.special.partials import (
    SQRT_2PI,
    beta_density,
    fisher_density,
    gamma_density,
    student_density,
)
from cotan._src.special.ufuncs import PARTIALS, Derivative, Functions
from cotan._src.typing import AnyArray

f = Functions()
where = _core.where
_Slopes: TypeAlias = Callable[[Array, Array, Array], tuple[AnyArray, AnyArray, AnyArray]]


def _binomial(k: Array, n: Array, p: Array) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Give the slopes of `bdtr` by `k`, `n` and `p`: it is `betainc(n - k, k + 1, 1 - p)`."""
    a, b, x = n - k, k + 1.0, 1.0 - p
    return by.beta_b(a, b, x) - by.beta_a(a, b, x), by.beta_a(a, b, x), -beta_density(a, b, x)


def _negative_binomial(k: Array, n: Array, p: Array) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Give the slopes of `nbdtr`: it is `betainc(n, k + 1, p)`."""
    b = k + 1.0
    return by.beta_b(n, b, p), by.beta_a(n, b, p), beta_density(n, b, p)


def _of_count(slopes: _Slopes, inverse: str) -> tuple[Derivative, ...]:
    """Give the partials of what finds `k` in `F(k, n, p) = y`, a function of `y`, `n` and `p`."""

    def partial(i: int) -> Derivative:
        @by.in_double
        def slope(y: Array, n: Array, p: Array) -> AnyArray:
            k_, n_, p_ = slopes(getattr(f, inverse)(y, n, p), n, p)
            return (1 / k_, -n_ / k_, -p_ / k_)[i]

        return slope

    return tuple(map(partial, range(3)))


def _of_trials(slopes: _Slopes, inverse: str) -> tuple[Derivative, ...]:
    """Give those of what finds `n`, a function of `k`, `y` and `p`."""

    def partial(i: int) -> Derivative:
        @by.in_double
        def slope(k: Array, y: Array, p: Array) -> AnyArray:
            k_, n_, p_ = slopes(k, getattr(f, inverse)(k, y, p), p)
            return (-k_ / n_, 1 / n_, -p_ / n_)[i]

        return slope

    return tuple(map(partial, range(3)))


def _nrdtrisd(mean: Array, p: Array, x: Array) -> AnyArray:
    q = f.ndtri(p)
    return (mean - x) * SQRT_2PI * np.exp(q * q / 2) / (q * q)


def _tukey(x: Array, shape: Array) -> tuple[AnyArray, AnyArray]:
    """Give the slopes by `p` and `s` of `(p**s - (1 - p)**s) / s`, which `tklmbda` inverts."""
    p = f.tklmbda(x, shape)
    inside = (p > 0) & (p < 1)
    p = where(inside, p, 0.5)
    flat = shape == 0
    s = where(flat, 1.0, shape)
    up, down = p**s, (1 - p) ** s
    slope = p ** (shape - 1) + (1 - p) ** (shape - 1)
    turned = (up * np.log(p) - down * np.log1p(-p)) / s - (up - down) / (s * s)
    at_0 = (np.log(p) ** 2 - np.log1p(-p) ** 2) / 2
    return where(inside, slope, np.inf), where(inside, where(flat, at_0, turned), 0.0)


def _kolmogorov(x: Array) -> AnyArray:
    """Differentiate the survival function: two series, each where it is short (theta functions)."""
    late = x > 1.0
    far = where(late, x, 1.0)
    near = where(late | (x <= 0), 1.0, x)
    squares = [(-1) ** k * k * k for k in range(1, 6)]
    tail: AnyArray | int = sum(8 * k * far * np.exp(-2.0 * abs(k) * far * far) for k in squares)
    angles = [(2 * k - 1) ** 2 * math.pi**2 / 8 for k in range(1, 6)]
    begin: AnyArray | int = sum(
        SQRT_2PI * (1 / near**2 - 2 * angle / near**4) * np.exp(-angle / near**2)
        for angle in angles
    )
    return where(late, tail, where(x <= 0, 0.0, begin))


PARTIALS.update({
    "bdtrik": _of_count(_binomial, "bdtrik"),
    "bdtrin": _of_trials(_binomial, "bdtrin"),
    "nbdtrik": _of_count(_negative_binomial, "nbdtrik"),
    "nbdtrin": _of_trials(_negative_binomial, "nbdtrin"),
    "btdtria": (
        lambda p, b, x: 1 / by.beta_a(f.btdtria(p, b, x), b, x),
        lambda p, b, x: -by.beta_b(a := f.btdtria(p, b, x), b, x) / by.beta_a(a, b, x),
        lambda p, b, x: -beta_density(a := f.btdtria(p, b, x), b, x) / by.beta_a(a, b, x),
    ),
    "btdtrib": (
        lambda a, p, x: -by.beta_a(a, b := f.btdtrib(a, p, x), x) / by.beta_b(a, b, x),
        lambda a, p, x: 1 / by.beta_b(a, f.btdtrib(a, p, x), x),
        lambda a, p, x: -beta_density(a, b := f.btdtrib(a, p, x), x) / by.beta_b(a, b, x),
    ),
    "chdtriv": (
        lambda p, x: 2 / by.gamma_a(f.chdtriv(p, x) / 2, x / 2),
        lambda p, x: -gamma_density(a := f.chdtriv(p, x) / 2, x / 2) / by.gamma_a(a, x / 2),
    ),
    "gdtrib": (
        lambda a, p, x: -x * gamma_density(b := f.gdtrib(a, p, x), a * x) / by.gamma_a(b, a * x),
        lambda a, p, x: 1 / by.gamma_a(f.gdtrib(a, p, x), a * x),
        lambda a, p, x: -a * gamma_density(b := f.gdtrib(a, p, x), a * x) / by.gamma_a(b, a * x),
    ),
    "pdtrik": (
        lambda p, m: -1 / by.gamma_a(f.pdtrik(p, m) + 1.0, m),
        lambda p, m: -gamma_density(a := f.pdtrik(p, m) + 1.0, m) / by.gamma_a(a, m),
    ),
    "fdtridfd": (
        lambda m, p, x: -by.fisher_m(m, n := f.fdtridfd(m, p, x), x) / by.fisher_n(m, n, x),
        lambda m, p, x: 1 / by.fisher_n(m, f.fdtridfd(m, p, x), x),
        lambda m, p, x: -fisher_density(m, n := f.fdtridfd(m, p, x), x) / by.fisher_n(m, n, x),
    ),
    "stdtridf": (
        lambda p, t: 1 / by.student_df(f.stdtridf(p, t), t),
        lambda p, t: -student_density(df := f.stdtridf(p, t), t) / by.student_df(df, t),
    ),
    "nrdtrisd": (
        lambda mean, p, x: -1 / f.ndtri(p) + 0 * mean,
        _nrdtrisd,
        lambda mean, p, x: 1 / f.ndtri(p) + 0 * x,
    ),
    "tklmbda": (
        lambda x, shape: 1 / _tukey(x, shape)[0],
        lambda x, shape: -(slopes := _tukey(x, shape))[1] / slopes[0],
    ),
    "kolmogorov": (_kolmogorov,),
    "kolmogi": (lambda p: 1 / _kolmogorov(f.kolmogi(p)),),
})  # fmt: skip
