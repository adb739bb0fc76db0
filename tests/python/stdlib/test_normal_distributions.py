"""`statistics.NormalDist` with active parameters, samples and probabilities."""

import statistics

import numpy as np
import pytest

import cotan as ct

PROGRAMS = {
    "samples": lambda x: statistics.NormalDist.from_samples([x, 2.0, x * x]).stdev,
    "samples of a generator": lambda x: statistics.NormalDist.from_samples(
        v * x for v in (1.0, 2.0, 4.0)
    ).cdf(3.0),
    "quantile": lambda x: statistics.NormalDist(x, x * x).inv_cdf(0.3),
    "probability": lambda x: statistics.NormalDist(1.0, 2.0).inv_cdf(x / 5.0),
    "quantiles": lambda x: sum(statistics.NormalDist(x, 2 * x).quantiles(5)[:2]),
    "overlap": lambda x: statistics.NormalDist(x, 2.0).overlap(statistics.NormalDist(0.0, 1.0)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name):
    f = PROGRAMS[name]
    prepared = ct.prepare(f, 1.3, transform="value_and_gradient")
    for x in (1.3, 1.1):
        value, (slope,) = ct.value_and_gradient(f, x)
        assert value == pytest.approx(f(x), rel=1e-14)
        assert slope == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-7)
        np.testing.assert_allclose(prepared(x)[1], (slope,), rtol=1e-14)


def test_errors_are_those_of_the_library():
    with pytest.raises(statistics.StatisticsError, match="two data points"):
        ct.gradient(lambda x: statistics.NormalDist.from_samples([x]).mean, 1.0)
    with pytest.raises(statistics.StatisticsError, match=r"range 0\.0 < p < 1\.0"):
        ct.gradient(lambda x: statistics.NormalDist(0.0, 1.0).inv_cdf(x), 1.5)
