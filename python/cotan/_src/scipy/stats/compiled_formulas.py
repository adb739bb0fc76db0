"""Derivatives of continuous distributions whose code is compiled, with respect to their shapes.

SciPy computes the values. What is known of a distribution function `F(x, s)` is its slope by the
shape `s`; that by `x` is the density. Quantiles have the slopes `1 / F_x` and `-F_s / F_x`.
"""

import math
from collections.abc import Iterable

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.rebind.engine import locate
from cotan._src.scipy.stats.shape_formulas import exp_of
from cotan._src.special import parameter_derivatives as by
from cotan._src.special.partials import SQRT_2PI, beta_density, noncentral_chi_density
from cotan._src.special.ufuncs import FUNCTIONS, PARTIALS, UNKNOWN, Derivative, Functions, apply
from cotan._src.typing import AnyArray, Function, NDArray

f = Functions()
_FLOAT64 = np.dtype(np.float64)


def _plain(distribution: str, method: str) -> Function:
    """Give a method of the standard form, as SciPy has it, as a function of values."""

    def compute(*args: NDArray) -> NDArray:
        # SciPy's own code always gets arrays with one axis, of the same length.
        wide = np.broadcast_arrays(*args)
        owner = locate(f"scipy.stats.{distribution}")
        return np.reshape(getattr(owner, method)(*map(np.ravel, wide)), wide[0].shape)

    return compute


def _entered(name: str) -> Function:
    """Make a method of a distribution that is a row of the table."""

    def method(self: object, *args: AnyArray) -> AnyArray:
        del self
        given = [_core.asarray(x, np.float64) for x in args]
        shape = np.broadcast_shapes(*(x.shape for x in given))
        wide = tuple(_core.broadcast_to(x, shape) for x in given)
        value: AnyArray = apply(name, wide, (_FLOAT64,))
        return value

    return method


def _family(
    distribution: str, methods: Iterable[str], density: Derivative, *slopes: Derivative
) -> dict[str, Function]:
    """Enter methods of a distribution in the table; give them."""
    found = {}
    for method in methods:
        name = f"stats.{distribution}.{method}"
        FUNCTIONS[name] = _plain(distribution, f"_{method}")
        PARTIALS[name] = (_quantile if method in {"ppf", "isf"} else _share)(
            name, -1.0 if method in {"sf", "isf"} else 1.0, density, *slopes
        )
        found[f"_{method}"] = _entered(name)
    return found


def _share(
    name: str, sign: float, density: Derivative, *slopes: Derivative
) -> tuple[Derivative, ...]:
    del name
    return tuple(lambda *args, part=part: sign * part(*args) for part in (density, *slopes))


def _quantile(
    name: str, sign: float, density: Derivative, *slopes: Derivative
) -> tuple[Derivative, ...]:
    def at(*args: Array) -> AnyArray:
        x: AnyArray = apply(name, args, (_FLOAT64,))
        return x

    def by_shape(slope: Derivative) -> Derivative:
        return lambda q, *s: -slope(x := at(q, *s), *s) / density(x, *s)

    return (lambda q, *s: sign / density(at(q, *s), *s), *map(by_shape, slopes))


# --------------------------------------------------------------------------------------------------
# The distributions


def _skewnorm_density(x: Array, a: Array) -> AnyArray:
    return 2 / SQRT_2PI * np.exp(-x * x / 2 + f.log_ndtr(a * x))


def _skewnorm_a(x: Array, a: Array) -> AnyArray:
    """Give the slope of `ndtr(x) - 2 owens_t(x, a)`."""
    square = 1 + a * a
    return -np.exp(-x * x * square / 2) / (math.pi * square)


def _invgauss_density(x: Array, mu: Array) -> AnyArray:
    return np.exp(-((x / mu - 1) ** 2) / (2 * x)) / (SQRT_2PI * x**1.5)


def _invgauss_mu(x: Array, mu: Array) -> AnyArray:
    """Give the slope of the distribution function, in which the densities cancel."""
    return -2 / (mu * mu) * np.exp(2 / mu + f.log_ndtr(-(x / mu + 1) / np.sqrt(x)))


def _beta_ppf(q: Array, a: Array, b: Array) -> AnyArray:
    x: AnyArray = f._beta_ppf(q, a, b)
    return x


def _more(x: Array, df: Array, nc: Array) -> AnyArray:
    return noncentral_chi_density(x, df + 2.0, nc)


PARTIALS.update({
    "_beta_ppf": (
        lambda q, a, b: 1 / beta_density(a, b, _beta_ppf(q, a, b)),
        lambda q, a, b: by.beta_x_a(a, b, _beta_ppf(q, a, b)),
        lambda q, a, b: by.beta_x_b(a, b, _beta_ppf(q, a, b)),
    ),
    "_ncx2_sf": (
        lambda x, df, nc: -noncentral_chi_density(x, df, nc), UNKNOWN, _more,
    ),
    "_ncx2_isf": (
        lambda q, df, nc: -1 / noncentral_chi_density(f._ncx2_isf(q, df, nc), df, nc),
        UNKNOWN,
        lambda q, df, nc: (
            _more(x := f._ncx2_isf(q, df, nc), df, nc) / noncentral_chi_density(x, df, nc)
        ),
    ),
    "_log1mexp": (lambda x: -1 / np.expm1(-x),),
})  # fmt: skip


#: Methods by the name of the class.
COMPILED: dict[str, dict[str, Function]] = {
    "skewnorm_gen": _family(
        "skewnorm", ("cdf", "sf", "ppf", "isf"), _skewnorm_density, _skewnorm_a
    ),
    "invgauss_gen": _family("invgauss", ("ppf", "isf"), _invgauss_density, _invgauss_mu),
    "ncx2_gen": {"_pdf": exp_of("_logpdf")},
}
