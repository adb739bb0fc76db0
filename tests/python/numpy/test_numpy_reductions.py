"""NumPy's reductions and sorting on `Array`s; see `numpy_cases`."""

import numpy as np
import pytest
from numpy_cases import check, flattened

import cotan as ct
from cotan._src.runtime.values import in_numpy

REDUCTION = {
    "sum": [
        lambda v: np.sum(v),
        lambda m: np.sum(m, 0),
        lambda t: np.sum(t, (0, -1), keepdims=True),
        lambda m: np.sum(m, axis=()),
        lambda m: np.sum(m, initial=2.5),
        lambda m, b: np.sum(m, axis=1, where=b),
        lambda m, b: np.sum(m, where=b, initial=3),
        lambda m: np.sum(m, dtype=np.float32),
        lambda k: np.sum(k, 0),
        lambda k: np.sum(k, 0, dtype=np.float64),
        lambda b: np.sum(b, 1),
        lambda o: np.sum(o, dtype=int),
        lambda f: np.sum(f, 1),
        lambda e: np.sum(e, 0),
        lambda z: np.sum(z),
        lambda x: np.sum(x),
        lambda m: np.sum(m, 0, out=np.zeros_like(m[0])),
    ],
    "prod": [
        lambda v: np.prod(v),
        lambda m: np.prod(m, 1),
        lambda m, b: np.prod(m, 0, where=b),
        lambda m: np.prod(m, initial=0.5),
        lambda t: np.prod(t, (0, 1), keepdims=True),
        lambda k: np.prod(k, 0),
        lambda z: np.prod(z),
        lambda e: np.prod(e, 0),
    ],
    "max": [
        lambda v: np.max(v),
        lambda m: np.max(m, 0),
        lambda t: np.max(t, (0, 2), keepdims=True),
        lambda m, b: np.max(m, 1, where=b, initial=-100),
        lambda m: np.max(m, initial=1000.0),
        lambda k: np.max(k, 1),
        lambda b: np.max(b, 1),
        lambda e: np.max(e, 1),
        lambda e: np.max(e, 0, initial=0),
        lambda d: np.max(d),
        lambda z: np.max(z),
        lambda m: np.max(m, 0, out=np.zeros_like(m[0])),
    ],
    "min": [
        lambda v: np.min(v),
        lambda m: np.min(m, 1),
        lambda m, b: np.min(m, 1, where=b, initial=100),
        lambda o: np.min(o),
        lambda y: np.min(y, 0),
    ],
    "amax": [lambda m: np.amax(m, 0)],
    "amin": [lambda m: np.amin(m, 0)],
    "mean": [
        lambda v: np.mean(v),
        lambda m: np.mean(m, 0),
        lambda t: np.mean(t, (0, 2), keepdims=True),
        lambda m, b: np.mean(m, 1, where=b),
        lambda k: np.mean(k),
        lambda b: np.mean(b, 0),
        lambda f: np.mean(f, 0),
        lambda h: np.mean(h),
        lambda z: np.mean(z),
        lambda m: np.mean(m, dtype=np.float32),
        lambda m: np.mean(m, 0, out=np.zeros_like(m[0])),
    ],
    "var": [
        lambda v: np.var(v),
        lambda m: np.var(m, 0, ddof=1),
        lambda m: np.var(m, 1, correction=1, keepdims=True),
        lambda m, b: np.var(m, 1, where=b),
        lambda k: np.var(k),
        lambda f: np.var(f, 0),
        lambda z: np.var(z),
        lambda m: np.var(m, 0, mean=np.mean(m, 0, keepdims=True)),
    ],
    "std": [
        lambda v: np.std(v),
        lambda m: np.std(m, 0, ddof=1),
        lambda m, b: np.std(m, 1, where=b, keepdims=True),
        lambda k: np.std(k, 0),
        lambda f: np.std(f),
        lambda z: np.std(z),
    ],
    "ptp": [lambda v: np.ptp(v), lambda m: np.ptp(m, 0, keepdims=True), lambda k: np.ptp(k, 1)],
    "average": [
        lambda v: np.average(v),
        lambda m: np.average(m, 0),
        lambda v, s: np.average(v, weights=s),
        lambda m, a: np.average(m, 0, weights=a),
        lambda v, s: np.average(v, weights=s, returned=True),
        lambda m: np.average(m, 1, returned=True, keepdims=True),
        lambda i: np.average(i),
    ],
    "median": [
        lambda v: np.median(v),
        lambda m: np.median(m, 0),
        lambda m: np.median(m, 1, keepdims=True),
        lambda t: np.median(t, (0, 2)),
        lambda i: np.median(i),
        lambda d: np.median(d),
    ],
    "quantile": [
        lambda v: np.quantile(v, 0.3),
        lambda m: np.quantile(m, [0.1, 0.77], axis=1),
        lambda v: np.quantile(v, 0.3, method="nearest"),
        lambda m: np.quantile(m, 0.4, axis=0, keepdims=True, method="hazen"),
        lambda v, s: np.quantile(v, 0.3, weights=s, method="inverted_cdf"),
    ],
    "percentile": [lambda v: np.percentile(v, 30), lambda m: np.percentile(m, [10, 60], 0)],
    "all": [
        lambda b: np.all(b),
        lambda b: np.all(b, 0),
        lambda m: np.all(m, 1, keepdims=True),
        lambda i, c: np.all(i, where=c),
        lambda e: np.all(e, 0),
    ],
    "any": [lambda b: np.any(b), lambda k: np.any(k, 1), lambda z: np.any(z), lambda e: np.any(e)],
    "count_nonzero": [
        lambda b: np.count_nonzero(b),
        lambda k: np.count_nonzero(k, axis=0),
        lambda m: np.count_nonzero(m > 0, axis=1, keepdims=True),
    ],
    "argmax": [
        lambda v: np.argmax(v),
        lambda m: np.argmax(m, 0),
        lambda m: np.argmax(m, 1, keepdims=True),
        lambda d: np.argmax(d),
        lambda b: np.argmax(b, 1),
    ],
    "argmin": [lambda v: np.argmin(v), lambda m: np.argmin(m, axis=-1), lambda k: np.argmin(k)],
    "nansum": [lambda d: np.nansum(d), lambda g: np.nansum(g, 0), lambda i: np.nansum(i)],
    "nanprod": [lambda d: np.nanprod(d), lambda g: np.nanprod(g, 1, keepdims=True)],
    "nanmax": [lambda d: np.nanmax(d), lambda g: np.nanmax(g, 0)],
    "nanmin": [lambda d: np.nanmin(d), lambda g: np.nanmin(g, 1)],
    "nanmean": [
        lambda f: np.nanmean(f),
        lambda f: np.nanmean(f, axis=(0, 1)),
        lambda d: np.nanmean(d),
        lambda g: np.nanmean(g, 0),
        lambda v: np.nanmean(v),
    ],
    "nanvar": [
        lambda d: np.nanvar(d.astype(np.float32)),
        lambda d: np.nanvar(d),
        lambda g: np.nanvar(g, 1, ddof=1),
    ],
    "nanstd": [lambda d: np.nanstd(d), lambda g: np.nanstd(g, 0, keepdims=True)],
    "nanmedian": [
        lambda b: np.nanmedian(b),
        lambda z: np.nanmedian(z),
        lambda y: np.nanmedian(y[:2], 0),
        lambda y, g: np.nanmedian(y + g[:, :3], (0, 1), keepdims=True),
        lambda d: np.nanmedian(d),
        lambda g: np.nanmedian(g, 0),
    ],
    "nanquantile": [lambda d: np.nanquantile(d, 0.3), lambda g: np.nanquantile(g, [0.2, 0.6], 1)],
    "nanpercentile": [lambda d: np.nanpercentile(d, 30), lambda g: np.nanpercentile(g, 40, 0)],
    "nanargmax": [lambda d: np.nanargmax(d), lambda g: np.nanargmax(g, 0)],
    "nanargmin": [lambda d: np.nanargmin(d), lambda g: np.nanargmin(g, 1)],
    "nancumsum": [lambda d: np.nancumsum(d), lambda g: np.nancumsum(g, 1)],
    "nancumprod": [lambda d: np.nancumprod(d), lambda g: np.nancumprod(g, 0)],
    "cumsum": [
        lambda v: np.cumsum(v),
        lambda m: np.cumsum(m),
        lambda m: np.cumsum(m, 0),
        lambda k: np.cumsum(k, 1),
        lambda b: np.cumsum(b),
        lambda o: np.cumsum(o, dtype=int),
        lambda f: np.cumsum(f, -1),
        lambda m: np.cumsum(m, dtype=np.float32),
        lambda z: np.cumsum(z),
    ],
    "cumprod": [
        lambda v: np.cumprod(v),
        lambda m: np.cumprod(m, 1),
        lambda k: np.cumprod(k, 0),
        lambda z: np.cumprod(z),
        lambda m: np.cumprod(m),
    ],
    "cumulative_sum": [
        lambda v: np.cumulative_sum(v),
        lambda m: np.cumulative_sum(m, axis=0, include_initial=True),
        lambda k: np.cumulative_sum(k, axis=1),
    ],
    "cumulative_prod": [
        lambda v: np.cumulative_prod(v, include_initial=True),
        lambda m: np.cumulative_prod(m, axis=1),
    ],
}

SORTING = {
    "sort": [
        lambda v: np.sort(v),
        lambda m: np.sort(m, 0),
        lambda m: np.sort(m, None),
        lambda t: np.sort(t, 1, kind="stable"),
        lambda k: np.sort(k),
        lambda d: np.sort(d),
        lambda b: np.sort(b),
        lambda z: np.sort(z),
        lambda e: np.sort(e, 0),
    ],
    "argsort": [
        lambda v: np.argsort(v),
        lambda m: np.argsort(m, 0),
        lambda m: np.argsort(m, axis=None),
        lambda k: np.argsort(k, kind="stable"),
        lambda d: np.argsort(d, stable=True),
    ],
    "partition": [
        lambda v: np.sort(np.partition(v, 2)[:3]),
        lambda m: np.partition(m, 1, axis=0)[1],
        lambda m: np.partition(m, (2, 4), axis=None)[[2, 4]],
    ],
    "argpartition": [
        lambda v: v[np.argpartition(v, 2)[2]],
        lambda m: np.argpartition(m, 1, 1)[:, 1],
    ],
    "sort_complex": [lambda z: np.sort_complex(z), lambda v: np.sort_complex(v)],
    "searchsorted": [
        lambda s, v: np.searchsorted(s, v),
        lambda s, w: np.searchsorted(s, w, side="right"),
        lambda v, w: np.searchsorted(v, w, sorter=np.argsort(v)),
    ],
    "digitize": [lambda v, s: np.digitize(v, s), lambda v, s: np.digitize(v, s, right=True)],
    "lexsort": [lambda i, j: np.lexsort((i, j))],
    "nonzero": [lambda k: np.nonzero(k), lambda m: np.nonzero(m > 0), lambda c: np.nonzero(c)],
    "argwhere": [lambda k: np.argwhere(k), lambda m: np.argwhere(m > 0)],
    "flatnonzero": [lambda k: np.flatnonzero(k)],
    "unique": [
        lambda v: np.unique(v),
        lambda i: np.unique(i),
        lambda k: np.unique(k, return_index=True, return_inverse=True, return_counts=True),
        lambda m: np.unique(m, axis=0),
        lambda k: np.unique(k, axis=1, return_counts=True),
        lambda d: np.unique(d),
    ],
    "unique_all": [lambda v: np.unique_all(v), lambda i: np.unique_all(i)],
    "unique_counts": [lambda i: np.unique_counts(i)],
    "unique_inverse": [lambda i: np.unique_inverse(i)],
    "unique_values": [
        lambda i: np.sort(np.unique_values(i)),
        lambda v: np.sort(np.unique_values(v)),
    ],
    "union1d": [lambda v, w: np.union1d(v, w), lambda i, j: np.union1d(i, j)],
    "intersect1d": [
        lambda i, j: np.intersect1d(i, j),
        lambda v: np.intersect1d(v, v[:3]),
        lambda i, j: np.intersect1d(i, j, return_indices=True),
    ],
    "setdiff1d": [lambda i, j: np.setdiff1d(i, j), lambda v: np.setdiff1d(v, v[:2])],
    "setxor1d": [lambda i, j: np.setxor1d(i, j), lambda v: np.setxor1d(v, v[:2])],
    "isin": [lambda i, j: np.isin(i, j), lambda k: np.isin(k, [1, 2], invert=True)],
    "in1d": [lambda i, j: np.in1d(i, j)],  # noqa: NPY201 - while there are versions that have it
}

CASES = {**REDUCTION, **SORTING}


@pytest.mark.parametrize(
    "case", flattened({n: c for n, c in CASES.items() if in_numpy(n) is not None})
)
def test_function(case):
    check(case)


@pytest.mark.parametrize("name", ["nanmax", "nanmin"])
def test_extremes_of_numbers_with_a_start_and_a_mask(name):
    function = getattr(np, name)
    x = np.array([[1.0, np.nan, -3.0], [np.nan, np.nan, 2.0]])
    mask = np.array([[True, True, False], [True, False, True]])
    for y in (x, x.astype(np.float32), x.astype(complex)):
        for options in ({"initial": 0.5}, {"initial": 0.5, "where": mask}, {"initial": -9.0}):
            for axis in (None, 0, 1):
                found = function(ct.array(y), axis=axis, **options)
                wanted = function(y, axis=axis, **options)
                np.testing.assert_array_equal(np.asarray(found), wanted)
                assert found.dtype == wanted.dtype
    (g,) = ct.gradient(lambda x: np.sum(function(x, axis=1, initial=1.5, where=mask)), x)
    chosen = {"nanmax": [[0, 0, 0], [0, 0, 1]], "nanmin": [[1, 0, 0], [0, 0, 0]]}[name]
    np.testing.assert_array_equal(g, chosen)


def test_sums_are_of_the_dtype_that_was_asked_for():
    x, whole = np.array([-3.2, 2.7, 5.5]), np.array([[200, 100], [7, 3]], np.int32)
    for f, y in [
        *((lambda v, d=d: np.cumsum(v, dtype=d), x) for d in (np.int32, bool, np.float32)),
        *((lambda v, d=d: np.mean(v, dtype=d), x) for d in (np.int32, np.float32)),
        *((lambda v, d=d: np.trace(v, dtype=d), whole) for d in (np.uint8, np.int32, float)),
        (lambda v: np.einsum("ij->i", v), whole),
        (lambda v: np.einsum("ij,jk", v, v), whole),
        (lambda v: np.einsum("ij->i", v), whole > 50),
    ]:
        found, wanted = f(ct.array(y)), f(y)
        np.testing.assert_array_equal(np.asarray(found), wanted)
        assert found.dtype == wanted.dtype


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("into", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("of", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize(
    "reduce",
    [np.sum, np.prod, np.max, np.cumsum, np.cumprod, np.add.reduce, np.multiply.accumulate],
)
def test_a_reduction_is_computed_in_the_dtype_that_holds_its_elements_and_out(reduce, of, into):
    """A product of complex numbers loses what is imaginary in the end, not in each factor."""
    x = np.array([1.5, 2.7, 3.9], of) * of(1 + 0.5j if of is np.complex128 else 1.1)
    wanted = np.zeros(np.shape(reduce(x)), into)
    reduce(x, out=wanted)

    def into_a_buffer(x):
        return reduce(x, out=np.zeros(wanted.shape, into)) * 1

    value, (slope,) = ct.value_and_gradient(lambda x: np.sum(np.real(into_a_buffer(x))), x)
    result = np.asarray(ct.pullback(into_a_buffer, x)[0])
    assert result.dtype == into
    np.testing.assert_allclose(result, wanted, rtol=1e-6)
    np.testing.assert_allclose(value, wanted.real.sum(), rtol=1e-6)
    factors = [np.delete(x, i).prod() for i in range(3)]
    if reduce is np.prod:
        np.testing.assert_allclose(slope, np.conj(factors), rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"initial": 2.0}, {"keepdims": True, "initial": 0.5}])
def test_masks_where_nothing_is_reduced(options):
    x = np.array([[1.0, 2.0, -3.0], [4.0, 5.0, 6.0]])
    mask = np.array([[True, False, True], [False, True, True]])
    for reduce in (np.sum, np.prod, np.nansum, np.add.reduce, np.hypot.reduce, np.max):
        if reduce is np.max and not options:
            continue
        f = lambda x, r=reduce: r(x, axis=(), where=mask, **options)
        np.testing.assert_allclose(np.asarray(f(ct.array(x))), f(x), rtol=1e-14)
    (g,) = ct.gradient(lambda x: np.sum(np.sum(x, axis=(), where=mask, **options) ** 2), x)
    np.testing.assert_array_equal(g, 2 * mask * (x + options.get("initial", 0.0)))
    assert np.all(np.any(ct.array(x), axis=(), where=mask) == mask)


@pytest.mark.parametrize("name", ["quantile", "percentile", "nanquantile", "nanpercentile"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_quantile_that_is_a_number_does_not_widen_the_result(name, dtype):
    x, f = np.array([15.0, 20.0, 35.0, 40.0, 50.0], dtype), getattr(np, name)
    for method in ("linear", "median_unbiased", "averaged_inverted_cdf"):
        for q in (0.4, np.float64(0.4), np.array([0.4])):
            y, _ = ct.pullback(lambda x, q, m=method: f(x, q, method=m), x, q)
            expected = f(x, q, method=method)
            assert y.dtype == expected.dtype
            np.testing.assert_allclose(y, expected, 2e-3 if dtype == "float16" else 1e-6)


def test_a_median_of_missing_values_is_missing_in_out_too():
    x = np.ones((3, 4))
    x[2, 1] = np.nan
    out = ct.array(np.zeros(4))
    assert np.median(ct.array(x), 0, out=out) is out
    np.testing.assert_array_equal(out, [1.0, np.nan, 1.0, 1.0])


def _masked_median(x, axis):
    return np.ma.median(np.ma.masked_invalid(x), axis)


@pytest.mark.parametrize(
    ("median", "axis"),
    [*((np.nanmedian, axis) for axis in (None, 0, 1)), (_masked_median, 0), (_masked_median, 1)],
)
def test_what_is_missing_has_no_influence_on_medians(median, axis):
    table = np.array([[1.0, np.nan, 4.0, 2.0], [3.0, 7.0, np.nan, 5.0], [2.0, 2.5, 9.0, 6.0]])

    def loss(scale):
        return np.sum(median(table * scale, axis) ** 2)

    value, (slope,) = ct.value_and_gradient(loss, 0.7)
    np.testing.assert_allclose(value, loss(0.7))
    np.testing.assert_allclose(slope, 2 * value / 0.7)


KEPT = ["sum", "prod", "mean", "std", "var", "max", "min", "any", "all", "argmax", "argmin"]
FUNCTIONS = [*KEPT, "average", "count_nonzero", "median", "nanmean", "nanmedian", "nansum", "ptp"]


@pytest.mark.parametrize("keepdims", [0, 1, np.int64(1)])
def test_keepdims_may_be_a_whole_number(keepdims):
    x = np.array([[1.0, -2.0, 3.0], [4.0, 0.5, 6.0]])
    ways = [lambda x, n=n: getattr(x, n)(axis=1, keepdims=keepdims) for n in KEPT]
    ways += [lambda x, n=n: getattr(np, n)(x, axis=1, keepdims=keepdims) for n in FUNCTIONS]
    for order in (None, 1, np.inf):
        ways += [lambda x, o=order: np.linalg.norm(x, o, axis=1, keepdims=keepdims)]
    ways += [lambda x: np.linalg.vector_norm(x, axis=1, keepdims=keepdims)]
    for f in ways:
        np.testing.assert_allclose(np.asarray(f(ct.array(x))), f(x), rtol=1e-14, strict=True)
    (g,) = ct.gradient(lambda x: np.sum(x.sum(axis=1, keepdims=keepdims) ** 2), x)
    np.testing.assert_array_equal(g, np.repeat(2 * np.sum(x, 1, keepdims=True), 3, axis=1))
