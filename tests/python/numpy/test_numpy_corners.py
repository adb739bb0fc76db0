"""Corners of NumPy's functions that the suites of other libraries ask for."""

import warnings

import numpy as np
import pytest

import cotan as ct


def slopes(f, x, step=1e-6):
    """Differentiate a scalar function of an array by central differences of plain NumPy."""
    result = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        result[i] = (f(up) - f(down)) / (2 * step)
    return result


def agrees(f, x):
    np.testing.assert_allclose(ct.gradient(f, x)[0], slopes(f, x), rtol=1e-6, atol=1e-6)


# --------------------------------------------------------------------------------------------------
# Results that are written into what was given


@pytest.mark.parametrize("name", ["nanvar", "nanstd", "nanmean", "nanmedian", "nansum", "nanprod"])
def test_out_has_the_result(name):
    values = np.array([[1.0, 2.0, np.nan], [4.0, 6.0, 9.0], [7.0, 8.0, 8.5]])
    wanted, out = np.zeros(3), ct.array(np.zeros(3))
    getattr(np, name)(values, axis=1, out=wanted)
    result = getattr(np, name)(ct.array(values), axis=1, out=out)
    np.testing.assert_allclose(np.asarray(out), wanted)
    assert result is out


@pytest.mark.parametrize("name", ["nanargmax", "nanargmin"])
def test_out_has_the_position(name):
    out = ct.array(0)
    getattr(np, name)(ct.array([2.0, np.nan, 3.0, 1.0]), out=out)
    assert out == {"nanargmax": 2, "nanargmin": 3}[name]


def test_put_along_no_axis_writes():
    x = ct.array([[10.0, 30.0], [60.0, 40.0]])
    np.put_along_axis(x, np.array([3, 0]), -1.0, axis=None)
    np.testing.assert_array_equal(np.asarray(x), [[-1.0, 30.0], [60.0, -1.0]])

    def f(v):
        y = np.zeros((2, 2))
        np.put_along_axis(y, np.array([3, 0]), v, axis=None)
        return np.sum(y * np.array([[1.0, 2.0], [3.0, 4.0]]))

    np.testing.assert_array_equal(ct.gradient(f, np.ones(2))[0], [4.0, 1.0])
    with pytest.raises(ValueError, match="single dimension"):
        np.put_along_axis(x, np.array([[0]]), 1.0, axis=None)


# --------------------------------------------------------------------------------------------------
# Values


@pytest.mark.parametrize(
    "values",
    [
        [np.inf, np.nan, np.nan],
        [np.inf, np.inf, 1.0, np.nan],
        [-np.inf, np.inf, np.nan, np.nan],
        [1.0, 2.0, np.inf, np.nan],
        [np.nan, np.nan, np.nan, np.nan],
        [-np.inf, -np.inf, 5.0, -np.inf],
    ],
)
@pytest.mark.filterwarnings("ignore:All-NaN", "ignore:invalid value")
def test_the_median_of_infinities(values):
    np.testing.assert_equal(float(np.nanmedian(ct.array(values))), np.nanmedian(values))


def test_the_median_of_what_is_a_number_has_a_gradient():
    x = np.array([[3.0, np.nan, 1.0, 2.0], [5.0, 7.0, 11.0, np.nan], [4.0, 1.0, np.nan, np.nan]])
    (g,) = ct.gradient(lambda x: np.sum(np.nanmedian(x, axis=1) * np.array([1.0, 2.0, 3.0])), x)
    np.testing.assert_array_equal(g, [[0, 0, 0, 1], [0, 2, 0, 0], [1.5, 1.5, 0, 0]])


@pytest.mark.parametrize("name", ["var", "std"])
def test_moments_in_a_complex_dtype(name):
    x = np.array([[1.0, 2.0, 4.0], [0.0, 1.0, 7.0]])
    result = getattr(np, name)(ct.array(x), axis=0, dtype=np.complex64)
    wanted = getattr(np, name)(x, axis=0, dtype=np.complex64)
    assert result.dtype == wanted.dtype
    np.testing.assert_allclose(np.asarray(result), wanted, rtol=1e-6)


# With the slope at 0, which differences do not see.
LOSES = {
    "largest": (lambda x: np.maximum(np.log(x), -100.0), 0.0),
    "smallest": (lambda x: np.minimum(np.exp(1e3 * (2 - x)) / (x + 1), 4.0), 0.0),
    "of two": (lambda x: np.maximum(np.log(x), x - 3), 1.0),
    "either way round": (lambda x: np.minimum(4 + x, 1 / x), 1.0),
    "beside what is missing": (lambda x: np.fmax(np.log(x), [-9.0, np.nan, 0.0]), 0.0),
    "several": (lambda x: np.minimum(np.maximum(np.log(x), -50), np.minimum(1 / x, 30)) * x, -50.0),
}


@pytest.mark.parametrize("name", LOSES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_loses_has_no_influence(name, dtype):
    """Where its own slope is infinite, too."""
    (f, at_zero), x, h = LOSES[name], np.array([0.0, 1.25, 2.5]), 1e-6
    with np.errstate(all="ignore"):
        given = x.astype(dtype)
        value, (gradient,) = ct.value_and_gradient(lambda x: np.sum(f(x)), given)
        assert value == pytest.approx(np.sum(f(given)), rel=1e-6)
        steps = h * np.eye(3)[1:]
        slopes = [at_zero, *((np.sum(f(x + s)) - np.sum(f(x - s))) / (2 * h) for s in steps)]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6)


def test_a_cross_product_of_whole_numbers():
    a, b = np.arange(6).reshape(2, 3)[::-1], np.arange(6).reshape(2, 3)
    result = np.cross(ct.array(a), ct.array(b))
    assert result.dtype == np.int64
    np.testing.assert_array_equal(np.asarray(result), np.cross(a, b))


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2), (2, 2)])
def test_a_cross_product_of_two_components_is_what_it_is_in_numpy(sizes):
    a, b = (np.arange(2.0 * n).reshape(2, n) ** 2 for n in sizes)

    def loss(a, b):
        return np.sum(np.cross(a, b) * 3)

    # Newer versions warn of it, and the newest ones refuse it.
    try:
        np.cross(a, b)
    except (DeprecationWarning, ValueError) as error:
        with pytest.raises(type(error), match="dimension"):
            ct.gradient(loss, a, b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            value = loss(a, b)
        except ValueError:
            return
        found, gradients = ct.value_and_gradient(loss, a, b)
        assert found == value
        whole = [np.c_[x, [0, 0]] if x.shape[1] == 2 else x for x in (a, b)]
        _, wanted = ct.value_and_gradient(loss, *whole)
        for g, w in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(g, w[:, : g.shape[1]])


def test_bounds_that_no_whole_number_reaches():
    x = np.array([1, 5, 9], np.int32)
    for low, high in [(-(2**40), 6), (3, 2**40), (-(2**40), 2**40)]:
        result = np.clip(ct.array(x), low, high)
        assert result.dtype == np.int32
        np.testing.assert_array_equal(np.asarray(result), np.clip(x, low, high))


@pytest.mark.parametrize("limits", [(0, 9), (0.0, 9.0), (2, 5)])
def test_a_histogram_between_whole_numbers(limits):
    x = np.linspace(0.0, 9.0, 25)
    counts, edges = np.histogram(ct.array(x), bins=5, range=limits)
    wanted = np.histogram(x, bins=5, range=limits)
    np.testing.assert_array_equal(np.asarray(counts), wanted[0])
    np.testing.assert_array_equal(np.asarray(edges), wanted[1])


@pytest.mark.parametrize("order", [1, np.inf, 2, "nuc", "fro"])
@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0, 0)])
def test_norms_of_matrices_without_elements(order, shape):
    x = np.zeros(shape)
    assert np.linalg.norm(ct.array(x), order) == 0.0
    ct.pullback(lambda x: np.linalg.norm(x, order), x)


@pytest.mark.parametrize("order", [1, np.inf, 2, 3])
def test_norms_of_vectors_without_elements(order):
    assert np.linalg.norm(ct.array(np.zeros(0)), order) == 0.0


@pytest.mark.parametrize(
    "f",
    [
        np.linalg.det, np.linalg.inv, np.linalg.eig, np.linalg.eigh, np.linalg.svd, np.linalg.qr,
        np.linalg.cholesky, np.linalg.slogdet, np.linalg.eigvalsh, np.linalg.pinv,
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 2, 2)])
def test_decompositions_without_elements(f, shape):
    x = np.zeros(shape)
    wanted = f(x)
    result, _ = ct.pullback(lambda x: tuple(f(x)) if isinstance(wanted, tuple) else f(x), x)
    if not isinstance(wanted, tuple):
        result, wanted = [result], [wanted]
    for r, w in zip(result, wanted, strict=True):
        assert np.shape(r) == w.shape
        np.testing.assert_array_equal(np.asarray(r), w)


# --------------------------------------------------------------------------------------------------
# Gradients


@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize("x", [np.arange(6.0), np.array([0.0, 0.5, 2.0, 2.2, 3.0, 4.5])])
def test_differences_over_active_coordinates(x, edge_order):
    rng = np.random.default_rng(0)
    y, w = rng.normal(size=(2, 6))
    table = rng.normal(size=(4, 6))

    def slope(x, y=y):
        return np.sum(w * np.gradient(y, x, edge_order=edge_order))

    agrees(slope, x)
    np.testing.assert_allclose(
        ct.gradient(slope, ct.const(x), y)[1], slopes(lambda y: slope(x, y), y), atol=1e-7
    )
    value, _ = ct.pullback(lambda x: np.gradient(y, x, edge_order=edge_order), x)
    np.testing.assert_allclose(value, np.gradient(y, x, edge_order=edge_order), atol=1e-13)

    def of_table(x):
        first, second = np.gradient(table, 0.5, x, edge_order=edge_order)
        return np.sum(w * second + first)

    agrees(of_table, x)


def test_differences_of_whole_numbers_over_an_active_step():
    np.testing.assert_allclose(
        ct.gradient(lambda h: np.sum(np.gradient(np.arange(5), h) ** 2), 2.0)[0], -5 * 2 / 8
    )


def test_active_options_of_constants():
    x, y = np.arange(6.0), np.array([0.3, 4.8, 9.9, 0.5, 5.9, 1.2])
    w = np.array([1.0, -2.0, 3.0, 0.5, -1.0, 2.0])
    agrees(lambda p: np.sum(np.unwrap(y, period=p[0]) * w), np.array([4.5]))
    agrees(lambda p: np.sum(np.unwrap([0, 3, 7, 1], period=p[0]) * w[:4]), np.array([4.5]))
    agrees(lambda v: np.sum(np.polyfit(x, y, 2, w=v) ** 2), np.abs(w))
    agrees(lambda v: np.sum(np.polyfit([0, 1, 3], [2, 0, 1], 1, w=v) ** 2), np.abs(w[:3]))


def test_covariance_with_active_weights():
    m = np.array([[0, 1, 2], [2, 1, 4]])
    agrees(lambda w: np.sum(np.cov(m, aweights=w) ** 2), np.array([1.0, 4.0, 1.0]))
    agrees(lambda w: np.sum(np.cov(m, fweights=[1, 2, 1], aweights=w)), np.array([1.0, 4.0, 1.0]))
    weights = np.array([1.0, 2.0, 3.0])
    ct.gradient(lambda m: np.sum(np.cov(m, fweights=weights, aweights=weights)), m * 1.0)
    np.testing.assert_array_equal(weights, [1.0, 2.0, 3.0])


def test_squeezing_a_list():
    (g,) = ct.gradient(lambda x: np.sum(np.squeeze([x]) * np.array([1.0, 2.0])), np.ones(2))
    np.testing.assert_array_equal(g, [1.0, 2.0])


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions_of_long_arrays_need_no_matrix_of_windows(mode):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=3000), rng.normal(size=40)
    assert "gather" not in str(ct.trace(lambda x, w: np.convolve(x, w, mode), x, w))
    for f in (np.convolve, np.correlate):
        value, back = ct.pullback(lambda x, w, f=f: f(x, w, mode), x, w)
        np.testing.assert_allclose(value, f(x, w, mode), atol=1e-12)
        seed = rng.normal(size=value.shape)
        gx, gw = back(seed)
        # Linear in both: the inner products with the arguments are those of the results.
        np.testing.assert_allclose(np.sum(np.asarray(gx) * x), np.sum(value * seed))
        np.testing.assert_allclose(np.sum(np.asarray(gw) * w), np.sum(value * seed))


# --------------------------------------------------------------------------------------------------
# Dtypes


SINGLE = np.array([1.5, 2.5, -0.3], np.float32)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, d: np.select([x > 1], [x], default=d),
        lambda x, d: np.select([x > 1, x > 2], [x, d]),
        lambda x, d: np.choose([0, 1, 0], [x, d]),
        lambda x, d: np.r_[x, d],
        lambda x, d: np.multiply.outer(x, d),
        lambda x, d: np.add.outer(d, x),
        lambda x, _: np.power.outer(2.0, x),
    ],
    ids=["select", "select among", "choose", "r_", "outer", "outer first", "outer of plain"],
)
def test_python_numbers_beside_single_precision(f):
    """Those of functions that know them do not widen; `ufunc.outer` makes arrays of them."""
    wanted = f(SINGLE, 2.0)
    value, (slope, _) = ct.value_and_gradient(lambda x, d: np.sum(f(x, d)), SINGLE, 2.0)
    result, _ = ct.pullback(f, SINGLE, 2.0)
    assert result.dtype == wanted.dtype
    np.testing.assert_array_equal(np.asarray(result), wanted)
    assert value == pytest.approx(np.sum(wanted), rel=1e-6)
    assert slope.dtype == np.float32


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("dtype", [int, np.int32, bool])
def test_spreads_in_whole_numbers_are_cut_off(name, dtype):
    x = SINGLE * 3
    function = getattr(np, name)
    for options in ({}, {"ddof": 1}, {"where": x > 0}):
        wanted = function(x, dtype=dtype, **options)
        result = ct.pullback(lambda x, o=options: function(x, dtype=dtype, **o), x)[0]
        assert np.asarray(result).dtype == wanted.dtype
        np.testing.assert_array_equal(np.asarray(result), wanted)


@pytest.mark.parametrize(
    "f",
    [
        lambda a: np.add(a > 0, a > -1),
        lambda a: np.reciprocal((a > 0) + 1),
        lambda a: np.multiply((a > 0) * 2, np.array([100], np.int8)),
        lambda a: np.floor_divide((a > 0) + 4, (a > 0) * 3),
        lambda a: np.power((a > 0) + 1, 62),
        lambda a: np.logical_and(a > 0, a > 9),
        lambda a: np.true_divide((a > 0) + 4, np.array([3.0, 7.0], np.float32)),
        lambda a: np.less((a > 0) * -3, np.array([3, 100], np.uint8)),
        lambda a: np.equal((a > 0) + 1, (a > 0) * 2),
    ],
)
def test_ufuncs_of_what_comparisons_of_numbers_give(f):
    """Truth values are made arrays of, integers yield to arrays."""
    wanted = f(2.0)
    result = np.asarray(ct.pullback(f, 2.0)[0])
    assert result.dtype == wanted.dtype
    np.testing.assert_array_equal(result, wanted)


# --------------------------------------------------------------------------------------------------
# Casts


@pytest.mark.parametrize("to", ["f4", "i8"])
def test_imaginary_parts_are_discarded_with_a_warning(to):
    x = ct.array([1 + 1j, 2.0])
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        np.testing.assert_array_equal(np.asarray(x.astype(to)), [1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.astype(bool), x.astype("c8"), x.real.astype(to)


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy has the rule since 2.4"
)
def test_a_cast_that_keeps_values():
    assert ct.array([1.0, 2.0]).astype(int, casting="same_value").dtype == int
    with pytest.raises(ValueError, match="same_value"):
        ct.array([1.5]).astype(int, casting="same_value")
    gradient = ct.gradient(lambda x: np.sum(x.astype("f4", casting="same_value")), np.ones(2))[0]
    np.testing.assert_array_equal(gradient, [1.0, 1.0])


def test_python_numbers_are_copied_by_the_rule():
    for number, dtype in ((3, "u1"), (3.0, "f4")):
        x = ct.array(np.arange(3, dtype=dtype))
        with pytest.raises(TypeError, match="equiv"):
            np.copyto(x, number, casting="equiv")
        np.copyto(x, number, casting="safe")
        np.testing.assert_array_equal(np.asarray(x), [3, 3, 3])


def test_shared_memory_refuses_what_is_no_limit():
    with pytest.raises(OverflowError):
        np.shares_memory(ct.array([1.0]), ct.array([1.0]), max_work=10**100)


# --------------------------------------------------------------------------------------------------
# Memory of constants


def written(flags, **options):
    x = np.zeros(6, "f4").reshape(2, 3)
    with np.nditer(x, flags, [["readwrite"]], **options) as places:
        for place in places:
            place[...] += 1
    return np.asarray(x)


def in_recording(f, *args, **kwargs):
    results = []

    def recorded(x):
        results.append(f(*args, **kwargs))
        return x

    ct.gradient(recorded, 1.0)
    return results[0]


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["buffered"], {"op_dtypes": "f8", "casting": "same_kind"}),
        (["external_loop", "buffered"], {}),
        (["external_loop"], {}),
        (["reduce_ok"], {"op_axes": [[0, 1]]}),
    ],
)
def test_iterators_write_to_memory_of_constants(flags, options):
    np.testing.assert_array_equal(in_recording(written, flags, **options), np.ones((2, 3)))


def test_nested_iterators_write_to_constants():
    def f():
        x = np.zeros(6, "f4").reshape(2, 3)
        rows, columns = np.nested_iters(
            x, [[0], [1]], ["buffered"], ["readwrite"], op_dtypes="f8", casting="same_kind"
        )
        for _ in rows:
            for place in columns:
                place[...] += 1
        return np.asarray(x)

    np.testing.assert_array_equal(in_recording(f), np.ones((2, 3)))
    with pytest.raises(TypeError, match="np.ndindex"):
        ct.gradient(lambda x: np.nested_iters(x, [[0], [1]]), np.ones((2, 3)))


def test_several_places_of_an_iterator_are_written():
    def f(x):
        first, second = np.zeros(2), np.zeros(2)
        iterator = np.nditer([x, first, second], [], [["readonly"], ["writeonly"], ["writeonly"]])
        for value, _, _ in iterator:
            iterator[1:3] = value * value, 2 * value
        return np.sum(first) + np.sum(second)

    np.testing.assert_array_equal(ct.gradient(f, np.array([1.0, 2.0]))[0], [4.0, 6.0])


class Measured(np.ndarray):
    """A subclass that answers ufuncs itself, so that it cannot hold active values."""

    def __array_finalize__(self, _):
        self.unit = "m"

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return f"{ufunc.__name__} in {self.unit}"


def test_constants_are_seen_as_any_subclass():
    def f():
        x = np.zeros(3)
        seen = x.view(Measured)
        x[0] = 2.0
        np.asarray(seen)[1] = 3.0
        return (
            seen + 1,
            np.asarray(x).tolist(),
            np.asarray(seen).tolist(),
            type(x.view(np.recarray)),
        )

    assert in_recording(f) == f()

    def stored(v):
        seen = np.zeros(3).view(Measured)
        seen[0] = v
        return v

    with pytest.raises(TypeError):
        ct.gradient(stored, 1.0)
    with pytest.raises(TypeError, match="Measured"):
        ct.gradient(lambda x: np.sum(x.view(Measured)), np.ones(3))


# --------------------------------------------------------------------------------------------------
# Arguments of ufuncs, and what is taken


def test_folds_write_to_tuples_of_arrays():
    class Signal(np.ndarray):
        pass

    def f():
        out = np.empty(())
        result = np.add.reduce(np.ones(5), out=(out,))
        signal = np.empty(()).view(Signal)
        np.add.reduce(np.ones(5), out=signal)
        return float(out), float(result), float(np.asarray(signal))

    assert in_recording(f) == (5.0, 5.0, 5.0)


def test_out_has_to_be_an_array():
    with pytest.raises(TypeError, match="array"):
        np.add(ct.array([1.0]), 1.0, out=[1])


@pytest.mark.filterwarnings("ignore:Implicit casting of output:DeprecationWarning")
def test_what_is_taken_is_written_by_the_rule_of_numpy():
    numbers, index = np.array([1.0, 2.0]), np.array([0, 1])
    for f in (
        lambda x, out: np.choose(index, (x, x), out=out),
        lambda x, out: np.take(x, index, out=out),
        lambda x, out: np.compress([True, True], x, out=out),
    ):
        wanted, out = np.zeros(2, "i4"), ct.array(np.zeros(2, "i4"))
        f(numbers, wanted)
        f(ct.array(numbers), out)
        np.testing.assert_array_equal(np.asarray(out), wanted)
        with pytest.raises(TypeError, match="same_kind"):
            ct.gradient(lambda x, f=f: np.sum(f(x, np.zeros(2, "i4"))), numbers)


def test_convolve_says_what_is_wrong_with_a_mode():
    for mode, error in ((None, TypeError), ("sum", ValueError)):
        with pytest.raises(error, match="mode"):
            np.convolve(ct.array([1.0, 2.0]), np.ones(2), mode=mode)


def test_broadcast_takes_64_arrays():
    assert np.broadcast(*[ct.array([1.0])] * 64).numiter == 64
    with pytest.raises(ValueError, match="at most 64"):
        in_recording(lambda: np.broadcast(*[np.zeros(2)] * 65))


def test_masks_of_iterators_keep_elements():
    def f():
        mask, x = np.array([True, False, True]), np.array([1.0, 1.0, 1.0])
        flags = [["readwrite", "writemasked"], ["readonly", "arraymask"]]
        options = {"op_dtypes": ["f4", "?"], "casting": "same_kind"}
        with np.nditer([x, mask], ["buffered"], flags, **options) as places:
            for place, _ in places:
                place[...] = 2.5
        return np.asarray(x).tolist()

    def active(v):
        flags = [["readwrite", "writemasked"], ["readonly", "arraymask"]]
        return np.nditer([np.zeros(2) + v, np.array([True, False])], [], flags)

    assert in_recording(f) == f() == [2.5, 1.0, 2.5]
    with pytest.raises(TypeError, match="arraymask, writemasked"):
        ct.gradient(active, 1.0)


# --------------------------------------------------------------------------------------------------
# Indices


def test_objects_that_are_integers_are_indices():
    class First:
        def __index__(self):
            return 0

    x = np.arange(6.0).reshape(2, 3)
    for key in (First(), (First(), 1), (First(), [0, 2]), ([1, 0], First())):
        np.testing.assert_array_equal(np.asarray(ct.array(x)[key]), x[key])
    with pytest.raises(IndexError):
        ct.array(x)[object(), [0, 2]]
