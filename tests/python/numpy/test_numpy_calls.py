"""Ways to call NumPy that its own tests know: other spellings, strict rules, wrong arguments."""

import numpy as np
import pytest

import cotan as ct

X = np.array([0.5, -1.5, 2.0])


def recorded(f, *args):
    """Give the result of f for active arguments."""
    out = []

    def g(*leaves):
        out.append(f(*leaves))
        return 0.0 * np.sum(leaves[0])

    ct.gradient(g, *args)
    return out[0]


def expect_same(f, *args):
    """Hold a call against plain NumPy: value, dtype, and the kind of exception."""
    try:
        expected = f(*args)
    except (TypeError, ValueError, IndexError) as error:
        with pytest.raises(type(error).__mro__[-3]):
            recorded(f, *args)
        return
    mine = recorded(f, *args)
    value = np.asarray(ct.dropgrad(mine) if isinstance(mine, ct.Array) else mine)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert value.dtype == np.asarray(expected).dtype
    assert isinstance(mine, np.ndarray) == isinstance(expected, np.ndarray)


# --------------------------------------------------------------------------------------------------
# Strict casting


@pytest.mark.parametrize("casting", ["no", "equiv", "safe"])
@pytest.mark.parametrize("number", [1, 1.0, 1j, True, np.float32(1)])
@pytest.mark.parametrize("a", [X, X.astype("f4"), 3.0])
def test_python_numbers_under_strict_rules(a, number, casting):
    # NumPy's own way to find the loop crashes on some of these.
    expect_same(lambda x: np.add(x, number, casting=casting), a)
    expect_same(lambda x: np.multiply(x, number, dtype="f4", casting=casting), a)


def test_clip_into_another_dtype():
    out = ct.array(np.zeros(3, np.int64))
    assert np.clip(ct.array(X), 0, 1.7, out=out, casting="unsafe") is out
    np.testing.assert_array_equal(np.asarray(out), [0, 0, 1])
    with pytest.raises(TypeError, match="cannot cast"):
        np.clip(ct.array(X), 0, 1.7, out=out)


# --------------------------------------------------------------------------------------------------
# Comparisons with what is no number


@pytest.mark.parametrize("other", [None, "scott", b"x", ..., int, np.str_("a"), np.array(["a"])])
@pytest.mark.parametrize("a", [X, np.array(1.5), 1.5])
def test_nothing_but_a_number_equals_one(a, other):
    expect_same(lambda x: x == other, a)
    expect_same(lambda x: x != other, a)
    if not isinstance(other, np.ndarray):  # arrays of texts ask for memory first
        expect_same(lambda x: other == x, a)


def test_an_option_is_a_text_or_a_number():
    def smooth(x, width="auto"):
        scale = 2.0 if width == "auto" else width
        return x * scale

    assert ct.gradient(smooth, 3.0) == (2.0,)
    assert ct.gradient(smooth, 3.0, 5.0) == (5.0, 3.0)
    with pytest.raises(ValueError, match="ambiguous"):
        ct.gradient(lambda x: 0.0 if x == "auto" else np.sum(x), X)


def test_a_comparison_with_none_computes_nothing():
    y = np.sin(ct.array(X))
    assert not (y == None).any()  # noqa: E711
    assert not y.is_forced


def test_order_is_still_an_error():
    for other in (None, "scott"):
        with pytest.raises(TypeError):
            ct.array(X) < other  # noqa: B015


# --------------------------------------------------------------------------------------------------
# Methods of tables, with indices that are computed


TABLE = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: TABLE.take(np.argsort(x), axis=1),
        lambda x: TABLE.take(np.argsort(x)),
        lambda x: TABLE.repeat(np.argsort(x), axis=0),
        lambda x: TABLE[0].searchsorted(x, "right"),
        lambda x: np.argsort(x).choose(x, 2 * x, 3 * x),
        lambda x: np.array([2, 0, 1]).choose(x, 2 * x, 3 * x),
        lambda x: np.array([2, 0, 1]).choose([x, 2 * x, 3 * x], mode="clip"),
        lambda x: (x > 0).choose(x, 2 * x),
        lambda x: (x > 0).choose((x, 2 * x), mode="wrap"),
        lambda x: (x * 1j).conjugate(np.zeros(3, complex)),
        lambda x: np.quantile(np.arange(5), abs(x[0]), method="inverted_cdf"),
        lambda x: np.count_nonzero(TABLE, axis=np.argmax(x) - 1),
    ],
)
def test_methods(f):
    expect_same(f, X)


def test_what_choose_takes_has_a_gradient():
    (g,) = ct.gradient(lambda x: np.sum((x > 0).choose(x, 2 * x)), X)
    np.testing.assert_array_equal(g, [2.0, 1.0, 2.0])


# --------------------------------------------------------------------------------------------------
# dtypes that numbers among the arguments decide


@pytest.mark.parametrize(
    "f",
    [
        lambda n: np.arange(n),
        lambda n: np.arange(0, n),
        lambda n: np.arange(0, n, dtype=int),
        lambda n: np.isclose(np.ones(2, "f4"), n / n * 0.9999999999999998, rtol=0, atol=0),
    ],
)
def test_dtypes_of_numbers(f):
    expect_same(f, 3.0)


# --------------------------------------------------------------------------------------------------
# Nothing at all, and axes


@pytest.mark.parametrize("where", [[], np.array([], int)])
@pytest.mark.parametrize("ufunc", [np.add, np.multiply])
def test_reduceat_nowhere(ufunc, where):
    expect_same(lambda x: ufunc.reduceat(x, where), X)
    expect_same(lambda x: ufunc.reduceat(x, where, axis=1), np.ones((2, 0)))


@pytest.mark.parametrize("axes", [[0, 0], [0, 2], [1, 0], [0, 2, 0], [0, 0, 1], [(2,), (2,), (1,)]])
def test_vecdot_keeps_the_axis_where_it_is_asked_for(axes):
    a, b = np.arange(27.0).reshape(3, 3, 3), np.arange(9.0).reshape(3, 1, 3)
    expect_same(lambda x, y: np.vecdot(x, y, axes=axes, keepdims=True), a, b)


# --------------------------------------------------------------------------------------------------
# What NumPy refuses


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sort(x, kind="nonsense"),
        lambda x: np.argsort(x, kind="nonsense"),
        lambda x: x.sort(kind="nonsense"),
        lambda x: np.sort(x, kind="stable", stable=True),
        lambda x: np.partition(x, 1, kind="nonsense"),
        lambda x: np.argpartition(x, 1, kind="nonsense"),
        lambda x: np.take(x, 1, mode="nonsense"),
        lambda x: np.putmask(x, [True], 3.0),
        lambda x: np.broadcast_to(x, -1),
        lambda x: np.asarray_chkfinite([x[0], np.inf]),
        lambda x: np.asarray_chkfinite(x / 0),
    ],
)
def test_refused(f):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=r"\w"):
        f(X.copy())
    with pytest.raises(ValueError, match=r"\w"):
        recorded(f, X)


def test_no_dtype_is_float64():
    x = ct.array([1, 2])
    assert x.astype(None).dtype == np.float64
    assert ct.cast(x, None).dtype == np.float64  # type: ignore[arg-type]


def test_spans_of_time_are_compared_as_by_numpy():
    spans = np.array([1, 2], "m8[s]")
    # NumPy compares these, and says of floats that they differ.
    for x in ([1, 2], [1.0, 2.0]):
        np.testing.assert_array_equal(ct.array(x) == spans, np.array(x) == spans)
    assert not np.any(ct.array([1, 2]) == np.array(["1", "2"]))


def test_what_is_finite_is_not_asked_where_values_are_not_looked_at():
    g = ct.prepare(lambda x: np.sum(np.asarray_chkfinite(x) ** 2), X)
    np.testing.assert_array_equal(*g(X), 2 * X)


def test_reduceat_gives_rows_one_after_the_other():
    def f(x):
        y = np.add.reduceat(x, [0, 1], axis=-1)
        z = y.reshape(-1)  # a view
        y[0] = 5.0
        return np.sum(z * np.arange(4.0))

    x = np.arange(6.0).reshape(2, 3)
    value, (slope,) = ct.value_and_gradient(f, x)
    assert value == f(x) == 38.0
    np.testing.assert_array_equal(slope, [[0, 0, 0], [2, 3, 3]])


# --------------------------------------------------------------------------------------------------
# What examples of NumPy's documentation do


@pytest.mark.parametrize("ufunc", [np.add, np.float_power, np.arctan2, np.matmul])
def test_ranges_are_operands_of_ufuncs(ufunc):
    expect_same(lambda x: ufunc(range(1, 4), x), X)
    expect_same(lambda x: ufunc(x, range(1, 4)), X)


def test_edges_of_bins_move_with_what_is_counted():
    for bins in (2, "auto", [-2.0, 0.0, 3.0]):
        expect_same(lambda x, bins=bins: np.histogram_bin_edges(x, bins), X)
    (slope,) = ct.gradient(lambda x: np.sum(np.histogram_bin_edges(x, 4)), X)
    np.testing.assert_allclose(slope, [0.0, 2.5, 2.5])
    (slope,) = ct.gradient(lambda high: np.histogram_bin_edges(X, 4, (-2, high))[1], 3.0)
    assert slope == 0.25
    expect_same(lambda x: np.histogram_bin_edges(np.array([0, 250], np.uint8), range=(x[0], 3)), X)


def test_steps_of_whole_numbers_are_rounded_before_they_are_counted():
    expect_same(lambda x: np.arange(0, 5, x[0], dtype=int), X)
    expect_same(lambda x: np.arange(-3, 3, x[0], int), X)
    expect_same(lambda x: np.arange(x[2] + 3.0, dtype=np.int8), X)


def test_bases_and_values_in_lists():
    expect_same(lambda x: np.logspace(1.0, 2.0, 3, base=[x[0], 3.0], axis=-1), X)
    expect_same(lambda x: np.logspace([x[0], 1.0], 2.0, 3, base=[x[2], 3.0]), X)
    expect_same(lambda x: np.logspace(x[0], x[2], 3, base=[[2.0], [3.0]], dtype=np.float32), X)
    expect_same(lambda x: np.insert(np.arange(4), [2, 2], [x[2] + 0.5, False]), X)
    expect_same(lambda x: np.insert(np.arange(4.0), [1, 2], [x[2], False]), X)


def test_numbers_as_text():
    assert recorded(lambda x: np.format_float_positional(np.float16(x[0])), X) == "0.5"
    assert recorded(lambda x: np.format_float_scientific(x[1], precision=2), X) == "-1.5e+00"


def test_flags_are_set_by_their_names():
    def f(x):
        x = x.copy()
        x.flags["WRITEABLE"] = False
        x.flags["W"] = True
        with pytest.raises(KeyError, match="Unknown flag"):
            x.flags["NONE"] = True
        return x

    expect_same(f, X)


def test_arrays_by_their_names():
    expect_same(lambda x: np.trace(a=np.outer(x, x), offset=1), X)
    expect_same(lambda x: np.diagonal(a=np.outer(x, x), axis1=1, axis2=0), X)
    expect_same(lambda x: x * np.array_equal(a1=x, a2=x) + np.array_equal(x, a2=x + 1), X)
    expect_same(lambda x: x * np.array_equiv(a1=x, a2=x), X)
    expect_same(lambda x: x * np.allclose(b=x, a=x), X)
    g = ct.prepare(lambda x: np.sum(x) if np.array_equal(a1=x, a2=X) else np.sum(x * x), X)
    assert np.array_equal(g(X + 1)[0], 2 * (X + 1))


def test_lists_without_items_beside_arrays_without_elements():
    expect_same(lambda x: np.array([x[:0], []]), X)
    expect_same(lambda x: np.array([[], x[:0], []], dtype=np.float32), X)
    expect_same(lambda x: np.asarray([[x[:0], []], [[], ()]]), X)
    with pytest.raises(ValueError, match="different shapes"):
        recorded(lambda x: np.array([x[:1], []]), X)
