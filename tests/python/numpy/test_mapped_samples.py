"""Statistics inside `vmap`: what NumPy gives for one sample after the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cotan as ct

METHODS = [
    "linear", "nearest", "hazen", "lower", "higher", "midpoint", "inverted_cdf",
    "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "weibull",
    "median_unbiased", "normal_unbiased",
]  # fmt: skip
AXES = [None, 0, 1, -1, (0, 1)]


def samples(rng, dtype):
    x = rng.normal(size=(3, 4, 5)) * 10
    if np.dtype(dtype).kind == "f":
        x[0, 1, 2] = np.nan
        x[1, :, 0] = np.nan
    return x.astype(dtype)


def expect_loop(f, x, rtol):
    found, want = ct.vmap(f)(x), np.stack([np.asarray(f(row)) for row in x])
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=rtol, atol=rtol)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=200)
@given(
    name=st.sampled_from(["quantile", "percentile", "nanquantile", "nanpercentile"]),
    method=st.sampled_from(METHODS),
    axis=st.sampled_from(AXES),
    keepdims=st.booleans(),
    order=st.one_of(
        st.sampled_from([0.0, 1.0, 0.5, 1, 0]),
        st.floats(0, 1),
        st.lists(st.floats(0, 1), min_size=1, max_size=3).map(np.array),
        st.just(np.array([[0.0, 0.2], [0.4, 0.9]])),
    ),
    dtype=st.sampled_from([np.float64, np.float32, np.int64]),
)
def test_quantiles(name, method, axis, keepdims, order, dtype):
    x = samples(np.random.default_rng(0), dtype)
    method = "linear" if name.startswith("nan") else method
    order = order * 100 if name.endswith("percentile") else order
    function = getattr(np, name)

    def f(row):
        return function(row, order, axis=axis, keepdims=keepdims, method=method)

    expect_loop(f, x, 1e-11 if dtype != np.float32 else 1e-5)


STATISTICS = {
    "median": lambda x, axis: np.median(x, axis),
    "nanmedian": lambda x, axis: np.nanmedian(x, axis),
    "nanmean": lambda x, axis: np.nanmean(x, axis, keepdims=True),
    "nanmax": lambda x, axis: np.nanmax(x, axis),
    "nanmin": lambda x, axis: np.nanmin(x, axis, keepdims=True),
    "nanvar": lambda x, axis: np.nanvar(x, axis, ddof=1),
    "nanstd": lambda x, axis: np.nanstd(x, axis, correction=3),
    "nanquantile": lambda x, axis: np.nanquantile(x, [0.2, 0.9], axis),
    "average": lambda x, axis: np.average(x, axis, weights=np.cos(x) + 2),
    "average with sums": lambda x, axis: np.average(
        np.ones(x.shape, np.float32), axis, weights=x**2 + 1, returned=True, keepdims=True
    )[1],
    "sort": lambda x, axis: np.sort(x, axis if isinstance(axis, int) else -1),
    "searchsorted": lambda x, axis: x[0] + np.searchsorted(np.sort(x[0]), [0.0, 1, 2, 3, 4]),
    "linspace": lambda x, axis: np.linspace(x[0], 2.0, 3),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_and_their_derivatives(name, dtype, axis, rng):
    x = samples(rng, dtype)
    if not name.startswith("nan"):
        x = np.nan_to_num(x)
    rtol = 1e-11 if dtype == np.float64 else 2e-5

    def f(row):
        return STATISTICS[name](row, axis)

    expect_loop(f, x, rtol)

    def total(row):
        return np.sum(np.nan_to_num(f(row)) ** 2)

    expect_loop(ct.grad(total), x, 50 * rtol)
    joint = ct.grad(lambda x: np.sum(ct.vmap(total)(x)))(x)
    np.testing.assert_allclose(joint, ct.vmap(ct.grad(total))(x), rtol=1e-6, atol=1e-6)


def test_derivatives_are_differences(rng):
    x, direction = rng.normal(size=(2, 3, 4, 5))
    for name in ("nanquantile", "nanstd", "average", "median"):
        f = lambda x, name=name: np.sum(np.sin(ct.vmap(lambda r: STATISTICS[name](r, 0))(x)))
        ends = [f(x + s * direction) for s in (1e-6, -1e-6)]
        slope = np.sum(ct.grad(f)(x) * direction)
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_samples_without_numbers(rng):
    x = samples(rng, np.float64)
    x[2] = np.nan
    for name in ("nanmean", "nanmax", "nanmin", "nanvar", "nanstd", "nanmedian"):
        found = ct.vmap(getattr(np, name))(x)
        assert np.isnan(found).tolist() == [False, False, True]
    assert np.isnan(ct.vmap(lambda r: np.quantile(r, 0.3))(x)).tolist() == [True, True, True]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("options", [{}, {"num": 1}, {"num": 0}, {"num": 4, "endpoint": False},
                                     {"axis": -1}])  # fmt: skip
def test_linspace(options, rng):
    x = rng.normal(size=(3, 2, 4))
    expect_loop(lambda r: np.linspace(r[0], r[1], **options), x, 1e-12)
    expect_loop(lambda r: np.linspace(r, r, **options), x, 1e-12)
    expect_loop(lambda r: np.linspace(r[0], 1, retstep=True, **options)[1] * r[0], x, 1e-12)
    if "axis" not in options:
        expect_loop(lambda r: np.linspace(0, r[0, 0], **options), x.astype(np.float32), 1e-6)


def test_orders_are_known(rng):
    x = rng.normal(size=(3, 4))
    with pytest.raises(ValueError, match="range"):
        ct.vmap(lambda r: np.quantile(r, 1.5))(x)
    with pytest.raises(ValueError, match="vmap: the function looks at a value"):
        ct.vmap(lambda r: np.quantile(r, np.cos(r[0]) ** 2))(x)
