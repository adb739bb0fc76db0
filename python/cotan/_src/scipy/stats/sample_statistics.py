"""Overrides of the sample statistics of `scipy.stats`: SciPy's Python code, rebound.

Most of these functions are wrapped by a decorator that handles axes and NaN by means of ndarrays.
That is done here instead: the samples are moved to the last axis, and NaN is omitted, refused or
propagated, according to the values.
"""

import copy
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.rebind.engine import (
    REBOUND,
    REBOUND_UNDECORATED,
    detached,
    locate,
    rebind_function,
    rebound_class,
    refused,
)
from cotan._src.rebind.numpy_substitutes import array, asarray
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, named, override
from cotan._src.runtime.values import contains_active, is_active, refuse, to_numpy
from cotan._src.typing import AnyArray, ArrayLike, Function, NDArray, Shape


def _reduces(name: str, *samples: str) -> None:
    """Enter a function that reduces samples, of which these arguments have one shape."""
    full = f"scipy.stats.{name}"

    @functools.cache
    def undecorated() -> tuple[Function, inspect.Signature]:
        function = locate(full)
        return rebind_function(inspect.unwrap(function)), inspect.signature(function)

    @override(full)
    def run(*args: Any, _no_deco: bool = False, **kwargs: Any) -> Any:
        bare, signature = undecorated()
        if _no_deco:
            return bare(*args, **kwargs)  # SciPy's code, which has seen to the axis
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        rest = dict(given.arguments)
        axis, policy, keepdims = (rest.pop(n) for n in ("axis", "nan_policy", "keepdims"))
        given_samples = {n: asarray(rest.pop(n)) for n in samples if rest.get(n) is not None}
        arrays = np.broadcast_arrays(*map(np.atleast_1d, given_samples.values()))
        ndim = arrays[0].ndim
        axes = _axes(axis, ndim)
        rows = {n: _last(x, axes) for n, x in zip(given_samples, arrays, strict=True)}

        def reduced(**rows: AnyArray) -> AnyArray:
            statistic: AnyArray = bare(**rest, **rows, axis=-1)
            return statistic

        first = next(iter(rows.values()))
        if first.size:
            result = _without_nan(reduced, rows, policy)
        else:
            # There is no statistic of no samples, whatever a function makes of them.
            result = np.full(first.shape[:-1], np.nan)[()]
        return np.expand_dims(result, axes) if keepdims else result


def _axes(axis: int | Shape | None, ndim: int) -> Shape:
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple) else (int(axis),)
    for at in given:
        if not -ndim <= at < ndim:
            raise np.exceptions.AxisError(at, ndim)
    return tuple(at % ndim for at in given)


def _last(x: Any, axes: Shape) -> AnyArray:
    """Give an array with some of its axes as one, the last."""
    x = np.moveaxis(x, axes, range(-len(axes), 0))
    others = x.shape[: x.ndim - len(axes)]
    return np.reshape(x, (*others, math.prod(x.shape[x.ndim - len(axes) :])))


def _without_nan(
    reduced: Callable[..., AnyArray], rows: dict[str, AnyArray], policy: str
) -> AnyArray:
    if policy not in {"propagate", "omit", "raise"}:
        raise ValueError("nan_policy must be one of {'propagate', 'raise', 'omit'}")
    unknown = functools.reduce(np.logical_or, (_is_nan(x) for x in rows.values()))
    if not unknown.any():
        return reduced(**rows)
    if policy == "raise":
        raise ValueError("The input contains nan values")
    if policy == "propagate":
        result = reduced(**rows)
        return _core.where(unknown.any(-1), np.nan, result)
    found = [
        _core.asarray(reduced(**{n: x[at][~unknown[at]] for n, x in rows.items()}))
        for at in np.ndindex(unknown.shape[:-1])
    ]
    result = _core.reshape(_core.stack(found), unknown.shape[:-1])
    return result if result.ndim else result[()]


def _is_nan(x: AnyArray) -> NDArray:
    values = np.asarray(detached(x))
    return np.isnan(values) if values.dtype.kind in "fc" else np.zeros(values.shape, bool)


for _name in ("iqr", "variation"):
    _reduces(_name, "x" if _name == "iqr" else "a")
for _name in ("gstd", "kurtosis", "moment", "sem", "skew", "tmean", "tstd", "tvar"):
    _reduces(_name, "a")
for _name in ("gmean", "hmean", "pmean"):
    _reduces(_name, "a", "weights")
_reduces("entropy", "pk", "qk")

# Where SciPy has it, by version.
_AT = "array_api_extra._lib._at.at._op"


@override(f"scipy._lib.{_AT}", kind=METHOD, when=ALWAYS, versions="scipy<1.18")
@override(f"scipy._external.{_AT}", kind=METHOD, when=ALWAYS, versions="scipy>=1.18")
def _write(self: Any, *args: object, **options: object) -> AnyArray:
    """Write to a copy of a number, as of all that is read-only: a test looks like this at it."""
    if isinstance(self._x, _core.Array) and self._x.ndim == 0:
        self._x = array(self._x)
    written: AnyArray = original_of(vars(type(self))["_op"])(self, *args, **options)
    return written


override(
    *named(
        "scipy.stats",
        """
        linregress binned_statistic binned_statistic_2d binned_statistic_dd
    """,
    )
)(REBOUND)
override(
    *named(
        "scipy.stats",
        """
        expectile gzscore zmap zscore wasserstein_distance
    """,
    )
)(REBOUND_UNDECORATED)


@override("scipy.stats.energy_distance")
def _energy_distance(*args: ArrayLike, **options: ArrayLike) -> AnyArray:
    """Give SciPy's root; at 0 it has a kink, where the derivative is 0."""
    code = REBOUND_UNDECORATED.make("scipy.stats.energy_distance")
    distance: AnyArray = code(*args, **options)
    return _core.where(_core.eq(distance, 0), 0.0, distance)


override("scipy.stats.weightedtau")(refused("ranks are constant: use pearsonr"))
override("scipy.stats.siegelslopes")(refused("use theilslopes or linregress"))
override("scipy.stats.shapiro")(refused("use skew and kurtosis, say"))
override("scipy.stats.qmc.discrepancy")(refused("write its formula"))


@override("scipy.stats.boxcox_llf")
def _boxcox_llf(
    lmb: AnyArray,
    data: AnyArray,
    *,
    axis: int = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> AnyArray:
    """Give the likelihood of a Box-Cox transformation, whose branch at 0 is constant in SciPy."""
    is_small = is_active(lmb) and bool(np.any(np.abs(lmb) < 1e-3))
    if not is_small:
        code = rebind_function(locate("scipy.stats.boxcox_llf"))
        likelihood: AnyArray = code(
            lmb, data, axis=axis, nan_policy=nan_policy, keepdims=keepdims)  # fmt: skip
        return likelihood
    if nan_policy != "propagate":
        raise NotDifferentiableError(
            "scipy.stats.boxcox_llf: has no derivative rule for lmb near 0 together with "
            f"nan_policy={nan_policy!r}; leave out the NaN before the call"
        )
    data = asarray(data)
    transformed: AnyArray = locate("scipy.special.boxcox")(data, lmb)
    variance = np.var(transformed, axis=axis, keepdims=keepdims)
    logs = np.sum(np.log(data), axis=axis, keepdims=keepdims)
    result: AnyArray = (lmb - 1) * logs - data.shape[axis] / 2 * np.log(variance)
    return result


def _fits(name: str) -> None:
    """Rebind code of SciPy's that fits a distribution in its own way."""

    @override(f"scipy.stats._continuous_distns.{name}.fit", kind=METHOD)
    def fit(
        self: object, data: ArrayLike, *args: ArrayLike, **kwds: object
    ) -> tuple[AnyArray, ...]:
        mine: Any = copy.copy(self)
        mine.__class__ = rebound_class(type(self))
        parameters: tuple[AnyArray, ...] = mine.fit(data, *args, **kwds)
        return parameters


for _name in (
    "expon_gen", "halfcauchy_gen", "lognorm_gen", "pareto_gen", "truncpareto_gen", "uniform_gen",
    "vonmises_gen", "weibull_min_gen",
):  # fmt: skip
    _fits(_name)


@override("scipy.stats._binomtest.BinomTestResult.proportion_ci", kind=METHOD)
def _proportion_ci(*args: object, **options: object) -> object:
    # Its equation holds the level, where compiled code finds the root.
    if contains_active((args, options)):
        raise refuse("scipy.stats.binomtest(...).proportion_ci")
    owner = locate("scipy.stats._binomtest.BinomTestResult")
    return original_of(owner.proportion_ci)(*map(to_numpy, args), **options)
