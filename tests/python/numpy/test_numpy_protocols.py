"""What NumPy's protocols refuse and what goes through them, and the methods of an ndarray."""

import re
import warnings

import numpy as np
import pytest
from test_numpy_programs import VALUES, X, leaves, loss, programs, run

import cotan as ct
from cotan._src.numpy import functions

# --------------------------------------------------------------------------------------------------
# What is refused


def gradient(f, *args):
    return ct.gradient(lambda *a: loss(f(*a)), *args)


@programs("""
np.sin(x, out=b)
np.add(x, 1.0, out=b)
np.add.reduce(x[None], out=b)
np.cumsum(x, out=b)
np.sum(x[None], axis=0, out=b)
np.copyto(b, x)
np.put(b, [0], x[:1])
np.putmask(b, b > 0, x)
np.place(b, b == 0, x)
np.add.at(b, [0], x[0])
x.cumsum(out=b)
""")
def test_a_plain_buffer_never_takes_a_traced_value_in_silence(program):
    b = np.zeros(5)
    with pytest.raises(TypeError, match=r"drop the gradient|must be an Array"):
        gradient(lambda x: run(program, {"x": x, "b": b}), X)
    assert not b.any()


def test_a_plain_buffer_takes_constants():
    b = np.zeros(5)
    c = ct.array(X)
    np.sin(c, out=b)
    np.testing.assert_allclose(b, np.sin(X))
    np.add.at(b, [0, 0], ct.array([1.0, 1.0]))
    assert b[0] == pytest.approx(np.sin(X[0]) + 2)
    np.copyto(b, c)
    np.put(b, [1], ct.array([7.0]))
    np.putmask(b, b > 5, ct.array(2.0))
    np.testing.assert_array_equal(b, [0.7, 2.0, 0.4, 2.1, -0.6])
    np.cumsum(c, out=b)
    np.testing.assert_array_equal(b, np.cumsum(X))


REFUSED = {
    "busday_count", "busday_offset", "datetime_as_string", "is_busday",
    "fft.fft",
    "fft.fft2", "fft.fftn", "fft.hfft", "fft.ifft", "fft.ifft2", "fft.ifftn", "fft.ihfft",
    "fft.irfft", "fft.irfft2", "fft.irfftn", "fft.rfft", "fft.rfft2", "fft.rfftn",
}  # fmt: skip


def dispatched():
    """Every function of NumPy's that asks its arguments what to do."""
    modules = {"": np, "linalg.": np.linalg, "fft.": np.fft, "lib.scimath.": np.lib.scimath}
    modules["lib.stride_tricks."] = np.lib.stride_tricks
    found = {}
    for prefix, module in modules.items():
        for name, value in vars(module).items():
            if isinstance(value, type(np.sum)):
                found.setdefault(value, prefix + name)
    return found


def test_every_function_is_there_or_refused():
    missing = {name for f, name in dispatched().items() if f not in functions.FUNCTIONS}
    assert missing <= REFUSED


@programs("""
special.smirnovi(5, q)
special.zetac(q)
""")
def test_functions_without_a_rule_are_refused_by_name(program):
    name = re.match(r"(\w+\.)+(\w+)", program)[2]
    with pytest.raises(TypeError, match=rf"{name}.*dropgrad"):
        gradient(lambda q: run(program, {"q": q}), VALUES["q"])
    # Of constants they are computed.
    actual, expected = (run(program, {"q": q}) for q in (ct.array(VALUES["q"]), VALUES["q"]))
    for ours, theirs in zip(leaves(actual), leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs)


ERRORS = [
    ("np.sum(m, axis=2)", np.exceptions.AxisError, "axis 2"),
    ("np.var(m, axis=-3)", np.exceptions.AxisError, "axis -3"),
    ("np.add.reduce(m, axis=2)", np.exceptions.AxisError, "axis 2"),
    ("np.cumprod(m, axis=5)", np.exceptions.AxisError, "axis 5"),
    ("np.sort(m, axis=2)", np.exceptions.AxisError, "axis 2"),
    ("np.take(m, [0], axis=2)", np.exceptions.AxisError, "axis 2"),
    ("np.roll(m, 1, axis=2)", np.exceptions.AxisError, "axis 2"),
    ("np.stack([m, m], axis=4)", np.exceptions.AxisError, "axis 4"),
    ("np.swapaxes(m, 0, 2)", np.exceptions.AxisError, "axis"),
    ("np.expand_dims(m, 5)", np.exceptions.AxisError, "axis 5"),
    ("np.max(m[:0])", ValueError, "max"),
    ("np.max(m[:, :0], axis=1)", ValueError, "max"),
    ("np.max(m, where=m > 0)", ValueError, "maximum.*initial"),
    ("np.maximum.reduce(m[:0])", ValueError, "max"),
    ("np.subtract.reduce(m, axis=(0, 1))", ValueError, "subtract.*not reorderable"),
    ("np.dot(m, m)", ValueError, r"dot.*\(3, 4\).*\(3, 4\)"),
    ("np.vdot(m, m[0])", ValueError, r"vdot.*\(12,\).*\(4,\)"),
    ("np.inner(m, m.T)", ValueError, r"inner.*\(3, 4\).*\(4, 3\)"),
    ("np.tensordot(m, m, 1)", ValueError, r"tensordot.*\(3, 4\).*\(3, 4\)"),
    ("np.vecdot(m, m.T)", ValueError, r"vecdot.*\(3, 4\).*\(4, 3\)"),
    ("np.einsum('ij,jk', m, m)", ValueError, "einsum.*'j'"),
    ("np.einsum('ijk', m)", ValueError, r"einsum.*ijk.*\(3, 4\)"),
    ("np.einsum('ij,jk', m)", ValueError, "einsum.*2 subscripts for 1"),
    ("np.einsum('ij->ik', m)", ValueError, "einsum.*'k'"),
    ("np.einsum('i1', m)", ValueError, "einsum.*letters"),
    ("np.stack([m, m.T])", ValueError, r"stack.*\(3, 4\) and \(4, 3\)"),
    ("np.take(m, [19])", IndexError, "19.*size 12"),
    ("np.take(m, np.array([0.5]))", TypeError, "take.*integers"),
    ("np.choose([0, 3], [m[0, :2], 1.0])", ValueError, "invalid entry in choice array"),
    ("np.partition(m, 7)", ValueError, "partition.*7"),
    ("np.cross(m, m)", ValueError, r"cross.*\n.*\(3, 4\)"),
    ("np.convolve(m[0], m)", ValueError, "too deep"),
    ("np.convolve(m[0], m[0, :0])", ValueError, "cannot be empty"),
    ("np.convolve(m[0], m[1], mode='wide')", ValueError, "wide"),
    ("np.interp(m, m[0], m[1, :2])", ValueError, "not of the same length"),
    ("np.diag(m[None])", ValueError, "1- or 2-d"),
    ("np.linalg.norm(m[None], 1)", ValueError, "norm"),
    ("np.linalg.norm(m[0], 'fro')", ValueError, "fro"),
    ("np.linalg.norm(m, 7)", ValueError, "norm order"),
    ("np.sum(m, axis=0, out=np.zeros_like(m))", ValueError, r"sum.*\(3, 4\).*\(4,\)"),
    ("np.sin(m, out=np.zeros_like(m[0]))", ValueError, r"sin.*\(4,\).*\(3, 4\)"),
    ("np.sin(m, out=np.zeros_like(m, dtype=int))", TypeError, "sin.*int64"),
    ("np.sin(m, colour='red')", TypeError, "colour"),
    ("np.add(m, 1.0, axis=0)", TypeError, "axis"),
    ("np.sin.reduce(m)", ValueError, "reduce"),
    ("np.add.reduceat(m, [7])", IndexError, "7.*reduceat"),
    ("np.copyto(np.zeros_like(m, dtype=int), m)", TypeError, "copyto.*int64"),
    ("np.copyto(np.zeros_like(m, dtype=int), 1.5)", TypeError, "copyto.*int64"),
    ("np.add.reduce(m, axis=1, out=np.zeros_like(m))", ValueError, r"add: out= has shape \(3, 4\)"),
    ("np.copyto(np.zeros_like(m[0]), m, where=m > 0)", ValueError, r"copyto.*\(3, 4\)"),
    ("np.clip(m, 0, 1, colour='red')", TypeError, "colour"),
    ("np.pad(m, -1)", ValueError, "negative"),
    ("np.pad(m, 1, mode='funny')", ValueError, "funny"),
    ("np.positive(m > 0)", TypeError, "positive"),
    ("np.round(m > 0, 1)", TypeError, "round: cannot round booleans"),
    ("np.matrix_transpose(m[0])", ValueError, "matrix_transpose"),
    ("np.meshgrid(m[0], indexing='zz')", ValueError, "indexing"),
]


@pytest.mark.parametrize(("program", "error", "message"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors_are_numpys_and_name_the_function(program, error, message):
    with pytest.raises(error):
        run(program, {"m": VALUES["m"].copy()})
    with pytest.raises(error, match=message):
        gradient(lambda m: run(program, {"m": m}), VALUES["m"])


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("np.mean(m, axis=0, out=np.zeros_like(m[0], dtype=int))", "mean.*int64"),
        ("np.add.at(np.zeros_like(m, dtype=int), 0, 0.5)", "add.at.*int64"),
        ("np.ravel(m.T, order='K')", "ravel: .* order"),
        ("np.ravel(m.T, order='A')", "ravel: .* order"),
        ("m[:, ::2].flatten('A')", "flatten: .* order"),
    ],
)
def test_what_numpy_does_and_we_refuse(program, message):
    with pytest.raises(TypeError, match=message):
        gradient(lambda m: run(program, {"m": m}), VALUES["m"])


# --------------------------------------------------------------------------------------------------
# The protocols themselves


class Duck:
    """Answers for itself."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return ufunc.__name__, method


def test_foreign_types_get_their_turn():
    x = ct.array(X)
    assert np.add(x, Duck()) == ("add", "__call__")
    assert np.add(Duck(), x, where=True) == ("add", "__call__")
    assert np.add.outer(x, Duck()) == ("add", "outer")
    assert np.sin(x, out=(Duck(),)) == ("sin", "__call__")


def test_masked_elements_without_out_are_zero():
    x = ct.array(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        masked = np.exp(x, where=x > 0)
    np.testing.assert_allclose(np.asarray(masked), np.where(X > 0, np.exp(X), 0.0))


def test_results_of_constants_are_arrays():
    c = ct.array(X)
    for y in (np.sin(c), np.sum(c), np.sort(c), np.pad(c, 1), np.cov(c), np.add.outer(c, c)):
        assert isinstance(y, ct.Array)


def test_nothing_is_computed_before_it_is_read():
    _, back = ct.pullback(lambda x: np.einsum("i,i->", np.pad(np.exp(x), 2), np.ones(9)), X)
    (dx,) = back(1.0)
    assert not dx.is_forced
    np.testing.assert_allclose(np.asarray(dx), np.exp(X))


def test_what_says_where_elements_go_needs_no_gradient():
    """Truth values and integers of active arrays are plain data."""

    def f(x):
        mask = np.zeros(5, bool)
        mask[:] = x > 0
        order = np.empty(5, int)
        order[np.argsort(x)] = np.arange(5)
        np.testing.assert_array_equal(np.asarray(x > 0), X > 0)
        return np.sum(x[mask] * x[order[:3]])

    ct.gradient(f, X)


# --------------------------------------------------------------------------------------------------
# Methods

ATTRIBUTES = [
    "shape", "ndim", "size", "itemsize", "nbytes", "strides", "dtype", "device",
    "flags['C_CONTIGUOUS']", "flags.f_contiguous", "flags.writeable",
]  # fmt: skip


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes(name):
    expected = eval(f"a.{name}", {}, {"a": VALUES["m"]})
    assert eval(f"a.{name}", {}, {"a": ct.array(VALUES["m"])}) == expected


def test_methods_of_other_arrays():
    choices = ct.array([[0, 1], [1, 0]])
    np.testing.assert_array_equal(np.asarray(choices.choose([1.0, 2.0])), [[1, 2], [2, 1]])
    assert ct.array(np.sort(X)).searchsorted(0.5) == 3
    assert float(ct.array(X).ptp()) == np.ptp(X)


def test_an_array_has_what_an_ndarray_has():
    """Every public attribute; an active array says that there is no memory to look at."""
    hidden = {"ctypes", "data"}
    x = ct.array(VALUES["m"])
    names = {name for name in dir(np.ndarray) if not name.startswith("_")}
    for name in names - {"itemset", "newbyteorder", "tostring"}:
        assert hasattr(ct.Array, name), name
        assert hasattr(x, name), name

    def f(x):
        for name in hidden:
            with pytest.raises(AttributeError, match="an active Array has no memory"):
                getattr(x, name)
        return np.sum(x)

    ct.gradient(f, VALUES["m"])


@pytest.mark.parametrize(
    "name",
    [
        "byteswap", "getfield", "resize", "setfield",
    ],
)  # fmt: skip
def test_methods_that_need_memory_are_refused_by_name(name):
    with pytest.raises(TypeError, match=f"^{name}: "):
        getattr(ct.array(X), name)(1)


def test_flags_that_protect_are_taken():
    x = ct.array(X)
    x.setflags(write=False)
    x.setflags(write=True, align=True)
    with pytest.raises(ValueError, match="WRITEABLE"):
        np.lib.stride_tricks.sliding_window_view(x, 2).setflags(write=True)
    with pytest.raises(ValueError, match="WRITEBACKIFCOPY"):
        x.setflags(uic=True)


def test_methods_that_write():
    x = ct.array(X)
    x.sort()
    np.testing.assert_array_equal(np.asarray(x), np.sort(X))
    x.fill(2.0)
    np.testing.assert_array_equal(np.asarray(x), np.full(5, 2.0))
    x.flat[1:3] = [5.0, 6.0]
    x.flat[0] = 4.0
    np.testing.assert_array_equal(np.asarray(x), [4.0, 5.0, 6.0, 2.0, 2.0])
    y = ct.array(VALUES["m"])
    y.T.flat[1] = 9.0
    assert float(y[1, 0]) == 9.0
    assert len(y.flat) == 12
    assert [float(e) for e in y.T.flat] == list(np.asarray(y).T.flat)
    with pytest.raises(ValueError, match="device"):
        x.to_device("cuda")
