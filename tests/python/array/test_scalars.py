"""Scalars and arrays without axes: which of the two NumPy hands out, and what they can do."""

import copy
import operator
import warnings

import numpy as np
import pytest

import cotan as ct

SCALARS = {
    "float": lambda make: make(np.array([1.5, 2.0]))[0],
    "int": lambda make: make(np.array([3, 4]))[0],
    "complex": lambda make: make(np.array([1.5 + 2j]))[0],
    "array": lambda make: make(np.array(1.5)),
}
USES = [
    lambda x: x.copy(),
    lambda x: copy.copy(x),
    lambda x: copy.deepcopy(x),
    lambda x: x.squeeze(),
    lambda x: x.reshape(()),
    lambda x: x.reshape(1),
    lambda x: x.ravel(),
    lambda x: x.flatten(),
    lambda x: x.astype(x.dtype),
    lambda x: x.astype(np.complex64),
    lambda x: x.round(),
    lambda x: x.T,
    lambda x: x[()],
    lambda x: x[...],
    lambda x: x[None],
    lambda x: x.flat[0],
    lambda x: +x,
    lambda x: -x,
    lambda x: x + 1,
    lambda x: np.copy(x),
    lambda x: np.squeeze(x),
    lambda x: np.reshape(x, ()),
    lambda x: np.where(x != 0, x, 0),
    lambda x: np.where(True, x, x),
    lambda x: np.round(x),
    lambda x: np.zeros_like(x),
    lambda x: np.atleast_1d(x),
    lambda x: np.cumsum(x),
    lambda x: np.median(x[None]),
]


def described(x):
    """Give what an outcome is: an array or a scalar, its dtype and value; or the error."""
    if isinstance(x, Exception):
        return type(x).__name__
    rank = x._rank if isinstance(x, ct.Array) else "array" if type(x) is np.ndarray else "scalar"
    return rank, np.asarray(x).dtype, np.asarray(x).tolist()


def outcome(use, x):
    try:
        return use(x)
    except (TypeError, ValueError, np.exceptions.AxisError) as error:
        return error


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", SCALARS)
def test_what_is_a_scalar_and_what_an_array(name, use):
    make = SCALARS[name]
    assert described(outcome(use, make(ct.array))) == described(outcome(use, make(np.array)))


def test_a_copy_of_a_scalar_is_bound_anew_by_operators_in_place():
    for make in (ct.array, np.array):
        best = make(np.array([1.0, 2.0]))[0].copy()
        before = best
        best += 1.0
        assert (before, best) == (1.0, 2.0)


FOLDS = [
    "sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "cumprod", "argsort",
    "ptp", "nansum", "nanmax", "sort", "mean", "std", "partition",
]  # fmt: skip


@pytest.mark.parametrize("axis", [0, -1, 1, -2, (), (0,), None])
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("scalar", ["float", "array"])
def test_a_number_passes_for_an_array_of_one_axis_where_it_does_in_numpy(scalar, name, axis):
    function, make = getattr(np, name), SCALARS[scalar]
    kth = (0,) if name == "partition" else ()
    found = outcome(lambda x: function(x, *kth, axis=axis), make(ct.array))
    assert described(found) == described(
        outcome(lambda x: function(x, *kth, axis=axis), make(np.array))
    )


def test_gradients_of_a_sum_over_the_last_axis_of_a_number():
    assert ct.gradient(lambda x: np.sum(x * x, axis=-1), 3.0) == (6.0,)
    assert ct.gradient(lambda x: np.max(x * x, axis=0), np.array(3.0)) == (6.0,)
    assert ct.gradient(lambda x: np.prod(x[0] * x, axis=0), np.array([3.0])) == (6.0,)


def test_medians_of_nothing():
    for shape, axis in [((0,), None), ((0, 3), 0), ((0, 3), 1), ((2, 0), 1), ((2, 0), None)]:
        x = np.zeros(shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            expected = np.median(x, axis=axis)
            found = np.median(ct.array(x), axis=axis)
        np.testing.assert_array_equal(np.asarray(found), expected)


def test_what_scalars_have_and_arrays_have_not():
    x = ct.array([1.5, 2.0])
    assert not hasattr(x, "is_integer")
    assert not x[0].is_integer()
    assert x[1].is_integer()
    assert x.sum().hex() == (3.5).hex()
    assert x[0].as_integer_ratio() == (3, 2)
    assert x[0].fromhex("0x1p2") == 4.0
    n = ct.array([6])[0]
    assert (n.bit_count(), n.numerator, n.denominator, n.to_bytes(1, "big")) == (2, 6, 1, b"\x06")
    assert not hasattr(n, "hex")
    assert not hasattr(x[0], "bit_count")


def test_attributes_of_active_scalars():
    assert ct.gradient(lambda x: x if x.is_integer() else 2 * x, 1.5) == (2.0,)
    with pytest.raises(TypeError, match="x.as_integer_ratio would drop the gradient; .*dropgrad"):
        ct.gradient(lambda x: x.as_integer_ratio()[0] * x, 1.5)


def test_whole_numbers_are_keys():
    def f(x):
        groups = {0: [], 1: [], 2: []}
        for i, row in enumerate(x):
            groups[np.argmax(row)].append(i)
        assert {np.argmin(row) for row in x} <= {0, 1, 2}
        assert np.argmax(x[0]) in groups
        assert len({x[0, 0] == x[0, 0], np.bool_(True)}) == 1
        return sum(k * np.sum(x[rows] ** 2) for k, rows in groups.items())

    x = np.array([[1.0, 2.0, 0.5], [3.0, 0.1, 0.2], [0.4, 0.3, 1.5], [0.1, 0.2, 0.9]])
    (g,) = ct.gradient(f, x)
    np.testing.assert_allclose(g, 2 * x * np.array([[1.0], [0.0], [2.0], [2.0]]))


def test_nothing_is_stored_anywhere():
    table = np.zeros(3)

    def f(x):
        nowhere = x > 9
        made = np.zeros(0)
        made[nowhere[:0]] = x[nowhere]
        table[[]] = x[nowhere]
        assert np.asarray(x[nowhere]).shape == (0,)
        return np.sum(x**2) + np.sum(made)

    np.testing.assert_allclose(ct.gradient(f, np.arange(3.0))[0], [0.0, 2.0, 4.0])


NUMPY_SCALARS = [np.float64(1.3), np.float32(0.3), np.int64(3), np.int32(-2), np.int64(2**53 + 1)]
MEETINGS = [np.multiply, np.arctan2, np.power, np.less, np.true_divide, np.maximum]


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "i4", "i8", "?"])
@pytest.mark.parametrize("scalar", NUMPY_SCALARS, ids=repr)
def test_numpy_scalars_meet_arrays_as_in_numpy(dtype, scalar):
    plain = np.array([1, 0, 1, 3]).astype(dtype)

    def results(x):
        found = [x * scalar, scalar * x, scalar - x, x / scalar]
        for ufunc in MEETINGS:
            for pair in ((x, scalar), (scalar, x)):
                try:
                    found.append(ufunc(*pair))
                except (TypeError, ValueError) as error:
                    found.append(type(error))
        return found

    with np.errstate(all="ignore"):
        wanted, got = results(plain), results(ct.array(plain))
    for want, found in zip(wanted, got, strict=True):
        if isinstance(want, type):
            assert found is want
        else:
            assert isinstance(found, ct.Array) and found.dtype == want.dtype
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-6)


@pytest.mark.parametrize("c", [np.float32(0.01), np.float64(0.01), np.int64(3), 3, 0.01], ids=repr)
def test_a_number_that_a_loop_meets_again_is_one_input(c):
    def f(x):
        for _ in range(20):
            x = x + c * x * (1 - x) ** c
        return np.sum(x)

    gradient = ct.prepare(f, np.full(5, 0.5), transform="gradient")
    assert [len(p.inputs) for p in gradient.programs] == [2]


@pytest.mark.parametrize("n", [2**53 + 1, -(2**63), 2**63 - 1, 2**64, -(2**70)], ids=str)
def test_large_whole_numbers_meet_arrays_as_in_numpy(n):
    for dtype in ("f4", "f8"):
        x = np.array([1.5, -2.0], dtype)
        for found, want in ((ct.array(x) * n, x * n), (n - ct.array(x), n - x)):
            assert found.dtype == want.dtype
            np.testing.assert_array_equal(np.asarray(found), want)


TRUTHS = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a + True,
    lambda a, b: True - a,
    lambda a, b: a * 2 - b,
    lambda a, b: a // True,
    lambda a, b: a**b,
    lambda a, b: -a,
    lambda a, b: +a,
    lambda a, b: abs(a),
    lambda a, b: ~a,
    lambda a, b: a / True,
    lambda a, b: a & b,
    lambda a, b: a | True,
    lambda a, b: a ^ b,
    lambda a, b: a < b,
    lambda a, b: a == True,  # noqa: E712
    lambda a, b: sum([a, b, a]),
]


@pytest.mark.filterwarnings("ignore:Bitwise inversion")
@pytest.mark.parametrize("use", TRUTHS)
@pytest.mark.parametrize(("x", "y"), [(0.5, 1.5), (0.5, -1.5), (-0.5, 2.0)])
def test_truth_values_of_python_are_whole_numbers(use, x, y):
    found = []

    def f(x, y):
        result = use(x > 0.0, y > 0.0)
        found.append((result.__class__, result))
        return x * result + 1.0

    want = f(x, y)
    value, (slope, _) = ct.value_and_gradient(f, x, y)
    (kind, number), (our_kind, ours) = found
    assert our_kind is kind
    assert ours == number
    assert (value, slope) == (want, number)


TABLE = np.arange(6.0).reshape(2, 3)
PAIRS = [[1, 2], [3, 4]]


class Kept:
    __slots__ = ("pair", "table")

    def __init__(self):
        self.table, self.pair = TABLE, (5, 6)

    @property
    def made(self):
        return self.table * 2


KEPT = Kept()


@pytest.mark.parametrize(
    "read",
    [
        lambda yes: TABLE[yes].shape,
        lambda yes: TABLE[yes, 1].shape,
        lambda yes: TABLE.T[..., yes].shape,
        lambda yes: (TABLE + TABLE)[yes].shape,
        lambda yes: KEPT.table[yes].shape,
        lambda yes: KEPT.made[yes].shape,
        lambda yes: TABLE[yes][..., yes].shape,
        lambda yes: TABLE[yes, 1:].shape,
        lambda yes: TABLE[yes, :-1].shape,
        lambda yes: TABLE[yes:].shape,
        lambda yes: TABLE[0, :yes].shape,
        lambda yes: TABLE[[int(yes)]].shape,
        lambda yes: KEPT.pair[yes],
        lambda yes: [[1, 2], [3, 4]][yes][yes],
        lambda yes: PAIRS[yes][yes],
        lambda yes: TABLE[[1, 0][yes]].shape,
        lambda yes: ("no", "yes")[yes],
        lambda yes: "ny"[yes],
    ],
)
@pytest.mark.parametrize("x", [0.5, -0.5])
def test_truth_values_of_python_are_masks_in_arrays_and_numbers_in_lists(read, x):
    def f(x):
        assert read(x > 0) == read(plain > 0)
        return x * 2.0

    plain = x
    assert ct.gradient(f, x) == (2.0,)


def test_what_a_truth_value_indexes_has_to_be_seen():
    def pairs():
        return PAIRS

    def f(x):
        return x * pairs()[x > 0][0]

    with pytest.raises(TypeError, match=r"x\[int\(b\)\], or x\[np.asarray\(b\)\]"):
        ct.gradient(f, 0.5)
    with ct.lifting():
        assert f(0.5) == 1.5


def test_a_number_of_python_stays_one_beside_truth_values():
    def f(x):
        assert (x * True).__class__ is (True + x).__class__ is (x - (x > 0)).__class__ is float
        assert (np.float64(2) * x * True).__class__ is np.float64
        return x * True

    assert ct.gradient(f, 2.0) == (1.0,)


def test_scalars_of_numpy_are_rounded_to_such():
    def f(x):
        kinds = [type(round(s, 2)) for s in (x[0], x[0].astype(np.float32))]
        assert kinds == [np.float64, np.float32]
        assert round(x[0].astype(np.float32), 2) == np.float32(1.23)
        assert type(round(x[0])) is int
        return x[0] * round(x[0], 1)

    assert ct.gradient(f, np.array([1.234]))[0] == pytest.approx([1.2])
    assert ct.gradient(lambda x: x * (type(round(x, 1)) is float), 1.234) == (1.0,)


@pytest.mark.parametrize(
    "count",
    [
        lambda v: (v > 0).sum(),
        lambda v: np.argmax(v),
        lambda v: (v[0].item() > 0) + (v[2].item() > 1),
        lambda v: v[2].item() > 1,
        lambda v: np.count_nonzero(v > 0),
        lambda v: v.astype(int)[2],
        lambda v: -np.argmax(v),
    ],
)
def test_whole_numbers_that_are_computed_repeat_sequences(count):
    v = np.array([0.5, -1.0, 2.0])

    def f(v):
        n = count(v)
        made = [v[0], 1.0] * n + n * [v[1]] + list((v[2],) * n) + list("ab" * n)
        lengths.append(len(made))
        return sum(x for x in made if not isinstance(x, str)) + v[0]

    lengths = []
    want = f(v)
    value, (slope,) = ct.value_and_gradient(f, v)
    assert lengths[0] == lengths[1]
    assert value == pytest.approx(want)
    n = max(int(count(v)), 0)
    np.testing.assert_array_equal(slope, [n + 1.0, n, n])


@pytest.mark.parametrize("sequence", [[1.0], (1.0,), "ab", b"ab"])
def test_numbers_that_are_differentiated_repeat_nothing(sequence):
    """An integer argument counts as a float, by which Python repeats nothing either."""
    for f in (lambda n: sequence * n, lambda n: n * sequence):
        with pytest.raises(TypeError, match=r"cannot repeat a \w+ by a number .* ct\.const"):
            ct.gradient(lambda x, n: x * len(f(n)), 2.0, 3)
        assert ct.gradient(lambda x, n: x * len(f(n)), 2.0, ct.const(3))[0] == 3.0 * len(sequence)


def test_a_scalar_of_whole_numbers_times_an_array_is_one():
    n = ct.array([2, 3])[0]
    np.testing.assert_array_equal(np.asarray(n * np.array([1, 2])), [2, 4])
    np.testing.assert_array_equal(np.asarray([1, 2] * ct.array([2, 3])), [2, 6])
    np.testing.assert_array_equal(np.asarray([1.0, 2.0] * ct.array([2.0])[0]), [2.0, 4.0])


def test_methods_of_a_number_of_python_give_numbers_of_python():
    kinds = []

    def f(z):
        kinds.extend(type(v) for v in (z.conjugate(), z.real, z.imag, abs(z), z.conjugate().real))
        return (z * z.conjugate()).real

    assert ct.gradient(f, 1.0 + 2.0j) == (2.0 + 4.0j,)
    assert kinds == [complex, float, float, float, float]
    assert type(ct.pullback(lambda z: z.conjugate(), 1.0 + 2.0j)[0]) is complex
    assert type(ct.pullback(lambda z: z.conjugate(), np.complex64(1.0))[0]) is np.complex64


@pytest.mark.parametrize("other", [1, 2.0, True, 1j])
@pytest.mark.parametrize("sign", [operator.lt, operator.le, operator.gt, operator.ge])
def test_complex_numbers_of_python_have_no_order(sign, other):
    def f(z):
        for a, b in ((z, other), (other, z), (z, z * 2)):
            with pytest.raises(TypeError, match="not supported between instances of"):
                sign(a, b)
        return abs(z) if z == z and z != other else 0.0

    assert f(3.0 + 4.0j) == 5.0
    assert ct.gradient(f, 3.0 + 4.0j) == (pytest.approx(0.6 + 0.8j),)
    # NumPy has an order of them.
    assert ct.gradient(lambda z: z.real if z < np.float64(5.0) else 0.0, 3.0 + 4.0j) == (1.0,)


@pytest.mark.parametrize(
    "x",
    [1.7, np.float64(1.7), np.float32(1.7), np.float16(0.1), np.complex64(1.1 + 0.3j),
     np.array(1.7, np.float32)],
)  # fmt: skip
def test_texts_are_those_of_the_precision(x):
    texts = []

    def f(y):
        texts.append((str(y), f"{y}", f"{y:.3f}", "%s" % y))  # noqa: UP031
        return np.abs(y)

    ct.gradient(f, x)
    assert texts == [(str(x), f"{x}", f"{x:.3f}", "%s" % x)]  # noqa: UP031
