"""Overrides of the functions of `statistics` that convert numbers to fractions.

The others, such as `median` and `fmean`, are Python code that computes with the numbers themselves.
"""

import statistics
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.registry import override
from cotan._src.stdlib.iterables import of_items
from cotan._src.stdlib.math import special
from cotan._src.typing import ArrayLike, Scalar

# What the functions are given, after iterables became lists.
_Data: TypeAlias = Sequence[Scalar]


def _numbers(data: _Data, least: int, name: str) -> Array:
    items = [_core.asarray(x) for x in data]
    if len(items) < least:
        what = "at least one data point" if least == 1 else "at least two data points"
        raise statistics.StatisticsError(f"{name} requires {what}")
    if any(x.ndim for x in items):
        raise TypeError(
            f"statistics.{name}: the data must be numbers, not arrays; use the function of numpy"
        )
    return _core.stack(items)


def _number(x: ArrayLike) -> Array:
    return _core.number(x, np.float64)


@of_items("statistics.mean")
def _mean(data: _Data) -> Array:
    return _number(np.mean(_numbers(data, 1, "mean")))


@of_items("statistics.harmonic_mean")
def _harmonic_mean(data: _Data, weights: _Data | None = None) -> Array:
    x = _numbers(data, 1, "harmonic_mean")
    w = np.ones(len(x)) if weights is None else _numbers(weights, 1, "harmonic_mean")
    if len(w) != len(x):
        raise statistics.StatisticsError("Number of weights does not match data size")
    if np.any(x < 0.0):
        raise statistics.StatisticsError("harmonic mean does not support negative values")
    return _number(np.sum(w) / np.sum(w / x))


def _spread(x: Array, centre: Scalar | None, count: int) -> Array:
    squares: Array = np.sum((x - (np.mean(x) if centre is None else centre)) ** 2)
    return squares / count


@of_items("statistics.variance")
def _variance(data: _Data, xbar: Scalar | None = None) -> Array:
    x = _numbers(data, 2, "variance")
    return _number(_spread(x, xbar, len(x) - 1))


@of_items("statistics.stdev")
def _stdev(data: _Data, xbar: Scalar | None = None) -> Array:
    x = _numbers(data, 2, "stdev")
    return _number(np.sqrt(_spread(x, xbar, len(x) - 1)))


@of_items("statistics.pvariance")
def _pvariance(data: _Data, mu: Scalar | None = None) -> Array:
    x = _numbers(data, 1, "pvariance")
    return _number(_spread(x, mu, len(x)))


@of_items("statistics.pstdev")
def _pstdev(data: _Data, mu: Scalar | None = None) -> Array:
    x = _numbers(data, 1, "pstdev")
    return _number(np.sqrt(_spread(x, mu, len(x))))


@of_items("statistics._mean_stdev")  # of `NormalDist.from_samples`
def _mean_stdev(data: _Data) -> tuple[Array, Array]:
    x = _numbers(data, 2, "NormalDist.from_samples")
    return _number(np.mean(x)), _number(np.sqrt(_spread(x, None, len(x) - 1)))


def _inv_cdf(p: Scalar, mu: Scalar, sigma: Scalar) -> Array:
    return _number(mu + sigma * special("ndtri", p, "statistics.NormalDist.inv_cdf"))


if hasattr(statistics, "_normal_dist_inv_cdf"):  # it may be compiled
    override("statistics._normal_dist_inv_cdf")(_inv_cdf)
