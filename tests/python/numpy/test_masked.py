"""Masked arrays of traced values: values, masks and gradients as in NumPy's own `numpy.ma`."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import mstats

import cotan as ct

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4))
T = RNG.normal(size=(3, 4))
MASK = np.array([[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]], bool)
TABLE = np.ma.masked_array(T, np.array([[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], bool))


def masked(x):
    return np.ma.array(x, mask=MASK.copy())


def element_by_element(x):
    m = np.ma.zeros(4)
    for i in range(4):
        m[i] = x[0, i] ** 2 if i != 2 else np.ma.masked
    return m.mean()


def into_what_is_all_masked(x):
    m = np.ma.masked_all(4)
    m[1], m[3] = x[0, 1], 2 * x[0, 3]
    return m.mean() + m.sum()


def written(x):
    m = masked(x.copy())
    m[0] = np.ma.masked
    m[1, 1] = x[2, 2] ** 2
    m[2, :2] = TABLE[0, :2]
    m[m < -1] = 0.5
    return (m**2).sum()


def in_place(x):
    m = masked(x * 1)
    m += x
    m *= TABLE
    m -= 1
    m /= x
    m **= 2
    return m.sum()


def into_a_plain_array(x):
    total = x * 1
    same = total
    total += TABLE
    total *= masked(x)
    total -= np.ma.masked
    counted = np.ma.arange(4.0)
    counted[1] = x[0, 1]
    return same.sum() + (counted**2).sum()


def of_a_hard_mask(x):
    m = np.ma.array(x, mask=MASK, hard_mask=True, copy=True)
    m[:] = x * 3
    return m.sum()


def of_copies_and_views(x):
    m = masked(x * 1)
    n, v = m.copy(), m[1:]
    n[0], v[0, 0] = np.ma.masked, np.ma.masked
    v[1] *= 2
    return 2 * m.sum() + n.sum() + copy.deepcopy(m).mean() * copy.copy(n).max()


def in_a_loop(x):
    total = 0.0
    for value in np.ma.masked_less(x[0], 0):
        if value is not np.ma.masked:
            total = total + value**2
    return total


def of_a_mask_that_changes(x):
    m = np.ma.array(x)
    m.mask = MASK
    m.mask[0, 0] = True
    return m.mean() + m[0].sum()


CASES = {
    "sum": lambda x: masked(x).sum(),
    "mean of an axis": lambda x: (masked(x).mean(axis=1) ** 2).sum(),
    "spread": lambda x: masked(x).var() + masked(x).std(axis=0).sum(),
    "NumPy's functions": lambda x: np.mean(masked(x)) * np.std(masked(x)) + np.sum(masked(x)),
    "average": lambda x: np.ma.average(masked(x), weights=np.arange(1, 13.0).reshape(3, 4)),
    "median": lambda x: np.ma.median(masked(x)) + np.ma.median(masked(x), axis=1).sum(),
    "products": lambda x: masked(x).prod() + (masked(x).cumprod(axis=1) ** 2).sum(),
    "extrema": lambda x: masked(x).max() * masked(x).min(axis=0).sum() + masked(x).ptp(),
    "domains": lambda x: np.ma.log(x).sum() + np.ma.sqrt(x).sum() + np.ma.arcsin(x).sum(),
    "domains of ufuncs": lambda x: np.sqrt(np.ma.array(x)).sum() + np.log(masked(x)).sum(),
    "division": lambda x: (1 / np.ma.masked_less(x, 0.2)).sum() + (x / (TABLE * 0)).count(),
    "constants": lambda x: (TABLE * x).sum() + (x * TABLE).mean() + np.multiply(x, TABLE).sum(),
    "differences": lambda x: ((x - TABLE) ** 2).mean() + ((TABLE - masked(x)) ** 2).mean(),
    "powers": lambda x: (masked(np.abs(x)) ** 1.5).sum() + (np.ma.abs(TABLE) ** x).sum(),
    "filled": lambda x: (masked(x).filled(2.0) * x).sum(),
    "compressed": lambda x: (masked(x).compressed() ** 3).sum(),
    "what is invalid": lambda x: np.ma.masked_invalid(np.log(x)).sum(),
    "filled where invalid": lambda x: np.ma.fix_invalid(np.sqrt(x), fill_value=0.5).data.sum(),
    "inside": lambda x: np.ma.masked_inside(x, -0.2, 0.2).mean(),
    "outside": lambda x: np.ma.masked_outside(x, -0.5, 0.5).mean(),
    "equal": lambda x: np.ma.masked_equal(np.where(x > 0, x, 0.0), 0.0).mean(),
    "values": lambda x: np.ma.masked_values(np.where(x > 0, x, 1.5), 1.5).sum(),
    "conditions": lambda x: np.ma.masked_where((x > 0) & (x < 0.5), x).sum(),
    "slices": lambda x: (masked(x)[1:, ::2] ** 2).sum() + masked(x)[..., None].sum(),
    "shapes": lambda x: (masked(x).T.reshape(2, 6) * np.arange(6.0)).sum() + masked(x).ravel()[3],
    "product": lambda x: np.ma.dot(masked(x).T, masked(x)).sum(),
    "sums": lambda x: (masked(x).cumsum(axis=1) ** 2).sum() + (masked(x).anom(axis=0) ** 2).sum(),
    "choice": lambda x: np.ma.where(x > 0, masked(x), 2 * x).sum(),
    "joined": lambda x: (np.ma.concatenate([masked(x), TABLE]) ** 2).sum(),
    "stacked": lambda x: (
        (np.ma.vstack([masked(x), x]) ** 2).mean() + np.ma.mr_[masked(x)[0], 1].sum()
    ),
    "lists": lambda x: (np.ma.array([x[0], TABLE[1], masked(x)[0]]) ** 2).sum(),
    "fits": lambda x: np.ma.polyfit(np.arange(4.0), masked(x)[0], 1).sum(),
    "covariance": lambda x: np.ma.cov(masked(x)).sum() + np.ma.corrcoef(masked(x)).sum(),
    "sorted": lambda x: (np.ma.sort(masked(x), axis=1) * np.arange(4.0)).sum(),
    "signs": lambda x: np.ma.exp(-masked(x)).sum() + abs(masked(x)).sum() + (+masked(x)).sum(),
    "limits": lambda x: (masked(x).clip(-0.5, 0.5) ** 2).sum() + np.clip(masked(x), -1, 1).mean(),
    "neighbours": lambda x: (
        (np.ma.diff(masked(x), axis=1) ** 2).sum() + np.ediff1d(masked(x)).sum()
    ),
    "larger": lambda x: np.ma.maximum(masked(x), TABLE).sum() + np.maximum(x, masked(TABLE)).sum(),
    "folds": lambda x: np.ma.multiply.reduce(masked(x), axis=0).sum(),
    "outer": lambda x: np.ma.outer(masked(x)[0], x[1]).sum(),
    "rows": lambda x: np.ma.apply_along_axis(lambda r: (r**2).sum(), 1, masked(x)).sum(),
    "rows that stay": lambda x: np.ma.apply_along_axis(lambda r: r * 2, 0, masked(x)).mean(),
    "means that stay": lambda x: ((masked(x) - masked(x).mean(1, keepdims=True)) ** 2).sum(),
    "views": lambda x: (x * 2).view(np.ma.MaskedArray).sum(),
    "what is beneath": lambda x: masked(x).data.sum() + np.asarray(masked(x)).mean(),
    "where they are plain": lambda x: np.where(MASK, 0.0, masked(x)).sum(),
    "comparisons": lambda x: masked(x)[masked(x) > 0.2].sum() + (x[0, 0] < masked(x)).sum(),
    "elements": lambda x: sum(v**2 for v in masked(x).flat if v is not np.ma.masked),
    "taken": lambda x: (
        (masked(x).take([0, 2], axis=1) ** 2).sum() + np.ma.repeat(masked(x), 2).mean()
    ),
    "unique": lambda x: (np.ma.unique(masked(x)) ** 2).sum(),
    "complex": lambda x: np.ma.abs(np.ma.array(x + 1j * x**2, mask=MASK)).sum(),
    "lists of values": lambda x: sum(v for v in masked(x).tolist()[0] if v is not None),
    "turned": lambda x: np.roll(masked(x), 1).T.trace() + np.moveaxis(masked(x), 0, 1)[0].sum(),
    "outer products of ufuncs": lambda x: np.multiply.outer(masked(x)[0], masked(x)[1]).sum(),
    "outer extrema": lambda x: np.ma.maximum.outer(masked(x)[0], x[1]).sum(),
    "what is masked": lambda x: (
        np.add(masked(x), np.ma.masked).count()
        + (x > np.ma.masked).count()
        + (np.ma.masked**x).count()
        + np.maximum(x, np.ma.masked).count()
        + x.sum()
    ),
    "chosen rows": lambda x: np.compress([True, False, True], masked(x), axis=0).sum(),
    "without a mask": lambda x: np.ma.array(x).mean(axis=0).filled().sum(),
    "variances in out=": lambda x: np.ma.array(x).var(axis=0, out=np.ma.zeros(4)).sum(),
    "as a dtype": lambda x: masked(x).view(float).sum(),
    "spread out": lambda x: np.broadcast_to(masked(x), (3, 4), subok=True).mean(),
    "lists that are filled": lambda x: sum(masked(x).tolist(2.0)[0]) * x[0, 0],
    "places": lambda x: sum(v * sum(i) for i, v in np.ma.ndenumerate(masked(x))),
    "sets": lambda x: (np.unique(np.ma.array(x)) ** 2).sum() + np.union1d(masked(x), x).sum(),
    "quotients": lambda x: divmod(masked(x), 2)[1].sum() + divmod(2, masked(x))[1].sum(),
    "numbers": lambda x: math.hypot(np.ma.array(x[1, 1]), x[0, 0]),
    "statistics": lambda x: (
        mstats.gmean(abs(masked(x)).ravel())
        + mstats.hmean(abs(masked(x)), axis=0).sum()
        + mstats.skew(masked(x), axis=None)
        + stats.zscore(np.ma.array(x), axis=None)[0, 0]
    ),
    "means of pairs": lambda x: np.ma.sqrt(np.ma.mean((masked(x) - TABLE) ** 2)),
    **{
        f.__name__.replace("_", " "): f
        for f in (
            *(element_by_element, into_what_is_all_masked, written, in_place, into_a_plain_array),
            *(of_a_hard_mask, of_copies_and_views, in_a_loop, of_a_mask_that_changes),
        )
    },
}


def slopes(f, x, h=1e-6):
    result = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[i] = h
        result[i] = (f(x + step) - f(x - step)) / (2 * h)
    return result


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_masked_arrays_are_active_where_they_are_not_masked(name):
    f = CASES[name]
    value, (gradient,) = ct.value_and_gradient(f, X)
    assert value == pytest.approx(f(X), rel=1e-12)
    np.testing.assert_allclose(gradient, slopes(f, X), rtol=1e-5, atol=1e-6)


def test_second_derivatives():
    f = lambda x: (np.ma.masked_less(x, 0) ** 3).sum() * masked(x).mean()
    inner = lambda x: np.sum(ct.gradient(f, x)[0] * T)
    (gradient,) = ct.gradient(inner, X)
    np.testing.assert_allclose(gradient, slopes(inner, X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_dtypes_and_fill_values_are_kept(dtype):
    seen = []

    def f(x):
        m = np.ma.array(x, mask=MASK, fill_value=7)
        several = m, m * 2, m.sum(axis=0), m.astype(np.complex64), np.ma.masked_less(m.real, 0)
        seen.extend((y.dtype, y.fill_value, y.mask.tolist(), y.shape) for y in several)
        return np.sum(np.abs(m.filled()))

    x = X.astype(dtype)
    f(x)
    ct.gradient(f, x)
    assert seen[:5] == seen[5:]


def test_prepared_gradients_record_again_for_another_mask():
    f = lambda x: (np.ma.masked_less(x, 0) ** 2).mean()
    g = ct.prepare(f, X)
    for x in (X, -X, 2 * X):
        np.testing.assert_allclose(g(x)[0], slopes(f, x), rtol=1e-5, atol=1e-6)


def test_classes_and_texts_are_those_of_numpy():
    def f(x):
        m = masked(x)
        assert isinstance(m, np.ma.MaskedArray) and np.ma.isMaskedArray(m * 2)
        assert repr(m) == repr(masked(X)) and str(m) == str(masked(X)) == f"{m}"
        m.fill_value = 5
        assert "fill_value=5.0" in repr(m) and m.recordmask.tolist() == MASK.tolist()
        one = np.ma.array(x[0, 0])
        assert f"{one:.2f}" == "%.2f" % one == f"{X[0, 0]:.2f}"  # noqa: UP031 - another question
        assert math.floor(one) == 0
        assert m[0, 2] is np.ma.masked and np.ma.is_masked(m)
        assert np.ma.array(x, mask=True).sum() is np.ma.masked
        assert np.ma.count_masked(m) == 3 and m.count(axis=0).tolist() == [2, 2, 2, 3]
        return m.sum()

    ct.gradient(f, X)
    # Nothing is left behind.
    assert type(np.ma.array(X)) is np.ma.MaskedArray
    assert type(TABLE * 2) is np.ma.MaskedArray


def test_pickles_of_constants_keep_their_masks():
    seen = []

    def f(x):
        m = np.ma.array([1.0, 2.0], mask=[False, True], fill_value=3.0)
        seen.append(pickle.loads(pickle.dumps(m)))
        return x.sum()

    ct.gradient(f, X)
    [m] = seen
    assert m.tolist() == [1.0, None] and m.fill_value == 3.0


@pytest.mark.filterwarnings("ignore:Warning. converting a masked")
def test_numbers_of_masked_arrays():
    def f(x):
        m = np.ma.array(x[0, 0])
        assert isinstance(m, np.ma.MaskedArray) and np.isnan(float(np.ma.array(m, mask=True)))
        return float(m) * np.float64(m) * abs(complex(0, m))

    (gradient,) = ct.gradient(f, X)
    assert gradient[0, 0] == pytest.approx(3 * X[0, 0] ** 2)
    with ct.strict(), pytest.raises(TypeError, match=r"float\(x\) would drop"):
        ct.gradient(f, X)


def test_what_is_refused_says_what_to_write():
    constant = TABLE.copy()

    def write(x):
        constant[0, 0] = x[0, 0]
        return constant.sum()

    def add(x):
        m = constant.copy()
        m += x
        return m.sum()

    class Derived(np.ma.MaskedArray):
        pass

    for f, message in [
        (write, r"__setitem__.*np\.ma\.zeros"),
        (add, r"__iadd__.*m = m \* x"),
        (lambda x: Derived(x).sum(), "cannot"),
        (lambda x: np.vectorize(lambda v: 2 * v)(masked(x)).sum(), r"m\.filled"),
        (
            lambda x: stats.zscore(masked(x), axis=None).sum(),
            r"zscore: .*\(3, 4\) would lose its mask",
        ),
        (lambda x: stats.pearsonr(x[0], masked(x)[0])[0], r"pearsonr: .* would lose its mask"),
        (lambda x: pickle.dumps(masked(x)), "pickling x would drop the gradient"),
    ]:
        with pytest.raises(TypeError, match=message):
            ct.gradient(f, X)
    with pytest.raises(ValueError, match=r"view: a mask of shape \(3, 4\) does not fit"):
        ct.gradient(lambda x: masked(x + 1j).view(float).sum(), X)
    with pytest.raises(TypeError, match=r"x\.data and mask it in f"):
        ct.gradient(lambda m: m.sum(), TABLE)
    np.testing.assert_array_equal(constant.data, TABLE.data)


# --------------------------------------------------------------------------------------------------
# Random programs

# ruff: noqa: SIM905 - tables of expressions
_ONE = """
np.ma.sqrt(a) np.ma.log(a) np.sqrt(a) np.exp(a/4) -a abs(a) np.ma.arcsin(a) np.arccos(a) a**2 1/a
a.copy() np.sin(a) np.ma.masked_less(a,-.5) np.ma.masked_greater(a,2.) np.ma.masked_invalid(a)
np.ma.masked_where(C,a) np.ma.array(a,mask=C) np.ma.array(a,mask=C,copy=True) a.cumsum(axis=1)
np.ma.array(a.filled(.5),mask=C) np.ma.filled(a,1.)*1 a-a.mean() a-a.mean(axis=0) a[::-1] a/a.std()
a-a.mean(axis=1)[:,None] np.ma.sort(a,axis=1) a.clip(-1,1) np.ma.where(C,a,1.) a.round(1)+a
np.ma.fix_invalid(a) a.reshape(4,3).reshape(3,4) a%1.5 a//.5+a a.anom(axis=0) a.astype(float)
np.ma.concatenate([a,a])[1:4] np.ma.power(a,2) np.ma.take(a,[2,0,1],axis=0) a.T.copy().T
""".split()
_TWO = """
a+b a-b a*b a/b np.multiply(a,b) np.divide(a,b) np.ma.add(a,b) np.ma.divide(a,b) np.maximum(a,b)
np.ma.minimum(a,b) np.ma.hypot(a,b) np.ma.where(a>0,b,.5) np.arctan2(a,b) abs(a)**b
np.ma.masked_where(a<0,b) np.ma.remainder(a,b) np.ma.power(abs(a),b)
""".split()
_WRITES = (
    """
a[0]=np.ma.masked|a[1,1]=a[2,2]|a[:,1]=a[:,2]|a+=a|a*=a|a-=1.|a/=a|a[a<0]=.25|a[1:]+=a[:-1]|a.mask=C
a[2]=np.ma.masked;a[2]=1.|a.fill_value=.5|a.harden_mask()|a.soften_mask()|a[a.mask]=.125|a[C]=a[C]
w=a[1:];w[0]=2.|w=a[:,::2];w[0,0]=np.ma.masked|w=a.view();w[1]=.5|a.sort(axis=0)|a.flat[3]=.5
a.put([0,5],[.5,.75])|a.data[0,2]=.375|a.shrink_mask()|w=a.T;w*=2.|np.add(a,a,out=a)
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_ENDS = """
a.sum() a.mean() (a**2).sum(axis=0).sum() a.var(axis=1).sum() a.max() a.min(axis=0).sum() a.prod()
np.ma.average(a) np.ma.median(a) np.ma.dot(a,a.T).sum() a.filled(.5).sum() a.compressed().sum()
np.mean(a) np.sum(a) a.ptp() a.cumprod(axis=1).sum() np.ma.median(a,axis=0).sum() a.trace()
a.count()+a.sum() np.ma.average(a,axis=0,weights=[1,2,3]).sum() np.ma.compress_rows(a).sum()
""".split()
_STARTS = ["np.ma.array(x,mask=C)", "np.ma.array(x)", "x*1.", "np.ma.array(x[::-1],mask=D.copy())"]
_OTHERS = ["P", "P*1.", "np.ma.array(P.tolist(),mask=C)", "N", "x*2"]


@st.composite
def programs(draw):
    """Give the lines of a program, and the expression of its result."""
    lines = [f"v0={draw(st.sampled_from(_STARTS))}", f"v1={draw(st.sampled_from(_OTHERS))}"]
    for _ in range(draw(st.integers(1, 5))):
        new = f"v{len(lines)}"
        one = f"v{draw(st.integers(0, len(lines) - 1))}"
        other = f"v{draw(st.integers(0, len(lines) - 1))}"
        kind = draw(st.sampled_from(["one", "two", "write"]))
        if kind == "two":
            lines.append(f"a,b={one},{other};{new}={draw(st.sampled_from(_TWO))}")
        elif kind == "one":
            lines.append(f"a=np.ma.asarray({one});{new}={draw(st.sampled_from(_ONE))}")
        else:
            copied = draw(st.booleans())
            write = draw(st.sampled_from(_WRITES))
            lines.append(f"a=np.ma.array({one},copy={copied});{write};{new}=a")
    return [*lines, f"a=np.ma.asarray(v{len(lines) - 1})"], draw(st.sampled_from(_ENDS))


def state(v):
    """Give what of a variable can be told: its mask, and what is not masked."""
    mask = getattr(v, "mask", np.False_)
    data = getattr(v, "data", v) if isinstance(v, np.ma.MaskedArray) else v
    data = np.asarray(ct.dropgrad(data)) if isinstance(data, ct.Array) else np.asarray(data)
    return np.array(mask), np.where(mask, 0, data), data.dtype, isinstance(v, np.ma.MaskedArray)


def run(program, x, seed):
    rng = np.random.default_rng(seed)
    p, c, d, e = rng.normal(size=(3, 4)), *(rng.random((3, 3, 4)) < 0.3)
    names = {"np": np, "x": x, "P": p, "C": c, "D": d, "N": np.ma.masked_array(T.copy(), e)}
    exec("\n".join(program[0]), names)
    states = [state(names[f"v{i}"]) for i in range(len(program[0]) - 1)]
    return eval(program[1], names), states


@settings(max_examples=150)
@given(programs(), st.integers(0, 10_000))
def test_random_programs(program, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = np.random.default_rng(seed + 1).normal(size=(3, 4))
        try:
            expected, states = run(program, x.copy(), seed)
        except (TypeError, ValueError, IndexError):
            return  # what NumPy refuses
        seen = []

        def f(x):
            result, now = run(program, x, seed)
            seen.append((result is np.ma.masked, now))
            return np.sum(x) * 0 if result is np.ma.masked else result

        value, (gradient,) = ct.value_and_gradient(f, x)
        [(is_masked, now)] = seen
        assert is_masked == (expected is np.ma.masked)
        for (mask, data, *more), (own, own_data, *own_more) in zip(states, now, strict=True):
            np.testing.assert_array_equal(own, mask)
            np.testing.assert_allclose(own_data, data, rtol=1e-9, atol=1e-12)
            assert own_more == more
        if is_masked:
            return
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-12)
        try:
            near, far = (slopes(lambda x: run(program, x, seed)[0], x, h) for h in (1e-6, 3e-6))
        except (TypeError, ValueError):
            return  # nothing is left at a neighbouring point
    smooth = np.isfinite(near) & np.isclose(near, far, rtol=1e-3, atol=1e-5)
    scale = max(1.0, np.max(np.abs(near), where=np.isfinite(near), initial=0))
    # Where what is never read is infinite, 0 times that is NaN.
    known = smooth & np.isfinite(0 * gradient if gradient is not None else near)
    gradient = np.zeros_like(x) if gradient is None else gradient
    np.testing.assert_allclose(gradient[known], near[known], rtol=1e-4, atol=1e-5 * scale)


class Scaled(np.ma.MaskedArray):
    """A program's class, which computes in its own way."""

    def sum(self, *args, **kwargs):
        return 100 * super().sum(*args, **kwargs)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.ma.array(x, mask=[0, 1, 0]).view(Scaled).sum(),
        lambda x: np.ma.array(x, mask=[0, 1, 0]).view(type=Scaled).sum(),
        lambda x: (Scaled(np.ones(3), mask=[0, 1, 0]) * np.ma.array(x)).sum(),
    ],
)
def test_user_subclasses_are_refused(f):
    with pytest.raises(TypeError, match=r"Scaled.* cannot hold traced values; use np\.ma\.Masked"):
        ct.gradient(f, np.ones(3))


@pytest.mark.parametrize(
    "f",
    [
        lambda m: np.nanstd(m),
        lambda m: np.sum(np.cross(m, np.ones(3))),
        lambda m: np.sum(np.roots(m).real),
    ],
)
def test_functions_that_know_no_masks_say_what_to_hand_them(f):
    with pytest.raises(TypeError, match=r"does not know masks: hand it m\.filled"):
        ct.gradient(lambda x: f(np.ma.masked_less(x, 0)), np.array([1.0, -2.0, 3.0]))
